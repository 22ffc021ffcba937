//! One queue pair's life: requester, responder and completer of RC, UC, UD and XRC, on packets and on
//! the direct wire. Sans-IO: no clock, no socket, no thread, no random source of its own.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod context;
mod cq;
mod diagnosis;
pub mod direct;
mod emit;
pub mod env;
mod execution;
mod migration;
mod qp;
pub mod qp_state;
mod rc;
mod recv_queue;
mod send_queue;
#[cfg(test)]
mod tests;
mod timer;
pub mod types;
mod unreliable;

pub use context::{QpEvent, Tuning};
pub use cq::{CompletionRing, Overrun};
pub use diagnosis::{Cause, Diagnosis, Drop, INCIDENTS, Incident, QpCounters};
pub use emit::MAX_PACKET_BYTES;
pub use migration::CameBy;
pub use qp::{Path, QpConfig, QueuePair, Transmit};
pub use rc::held::HoldBudget;
pub use rc::responder::AnswerDue;
pub use rc::window::WindowLimit;
pub use recv_queue::CompletionTarget;
pub use send_queue::{Datagram, MAX_MESSAGE_BYTES, Payload, PostError, SendWr};
pub use timer::Timer;
pub use unreliable::{GRH_BYTES, PacketMeta};
