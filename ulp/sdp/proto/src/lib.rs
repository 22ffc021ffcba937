//! One connection of the Sockets Direct Protocol, without input and output.
//!
//! Owns: what a connection's bytes go by, and when that changes ([`change`]); one side of a
//! connection of queue pairs with its flow control ([`connection`]), and what that needs of its
//! transport ([`driver`]); what a user may set ([`settings`]). Must not know: whose memory the
//! words of the two sides lie in, descriptors, queue pairs, time.
#![forbid(unsafe_code)]

pub mod change;
pub mod connection;
pub mod driver;
pub mod settings;
