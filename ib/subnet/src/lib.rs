//! A subnet manager: finds out what a subnet consists of, gives its ports addresses, computes routes and programs the switches.
//!
//! Owns the graph of a discovered subnet, routing engines as pure functions over it, and the checker of what they made. Must not know how
//! packets move, nor where the description of a fabric came from: a manager sees management datagrams alone.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]
