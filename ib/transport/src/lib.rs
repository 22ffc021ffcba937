//! One queue pair's life: requester, responder and completer of RC, UC, UD and XRC, on packets and on
//! the direct wire. Sans-IO: no clock, no socket, no thread, no random source of its own.
#![forbid(unsafe_code)]

pub mod direct;
pub mod qp_state;
pub mod types;
