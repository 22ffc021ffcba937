//! Memory that ranks of this host share: channels by which messages go, and areas in which
//! collectives are done.
//!
//! Owns: every access to memory that another process writes. What is read from the segment is
//! checked by who reads it: a length is compared with the block, a word with what it may be. Must
//! not know: which communicator or receive a message is for.

pub mod area;
mod channel;
mod joint;
pub mod link;
pub mod long;
pub mod open;
mod pages;
mod pair;
pub mod receive;
mod remote;
pub mod send;
mod ways;

pub use channel::{ReceivingEnd, SendingEnd, Words};
pub use link::{Link, Shm};
pub use pair::Pair;
pub use receive::Ran;
pub use send::Stored;
