//! Messages between two ranks: requests, which receive takes which message, what has to wait, long
//! messages, loss of a peer.
//!
//! Owns: requests and matching's use; the order of the messages to a peer; what becomes of a
//! message that has come; when a communicator that the program has freed goes ([`comms`]). Must not
//! know: what a transport does to move bytes, which collective a message belongs to, how a thread
//! waits: nothing here blocks.

pub mod buffered;
pub mod cancel;
pub mod circles;
pub mod comms;
pub mod deliver;
pub mod due;
pub mod family;
pub mod faults;
pub mod fifo;
pub mod give_up;
pub mod interrupt;
pub mod loss;
pub mod partitioned;
pub mod persistent;
pub mod point;
pub mod progress;
pub mod receive;
pub mod rendezvous;
pub mod request;
pub mod requests;
pub mod runtime;
pub mod send;
pub mod straight;
pub mod unexpected;

pub use send::{Started, Target};
