//! What two processes say to each other: the first byte of each message by their control
//! connection, and of what lies in a post box.
//!
//! Owns the numbers. Must not know what a message does.

pub(crate) const MSG_HELLO: u8 = 2;
pub(crate) const MSG_WELCOME: u8 = 3;
pub(crate) const MSG_MAP_REQUEST: u8 = 4;
pub(crate) const MSG_MAP_REPLY: u8 = 5;
pub(crate) const MSG_MAP_GONE: u8 = 6;
pub(crate) const MSG_READY: u8 = 7;

/// First byte of the head of what is handed over: a message of the connection manager.
pub(crate) const HEAD_MAD: u8 = b'M';
