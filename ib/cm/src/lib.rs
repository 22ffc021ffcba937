//! The connection manager (IBA chapter 12) as a machine without I/O: who asks, who answers, what is sent again and when,
//! and how a connection ends. It owns the communication identifiers of one process and knows no socket, no clock and no
//! queue pair: messages, time and randomness come in as arguments, messages and events are taken out.
//!
//! * In: [`Machine::handle`], [`Machine::handle_timeout`], and what a program wants (`connect`, `accept`, ...).
//! * Out: [`Machine::poll_transmit`], [`Machine::poll_timeout`], [`Machine::poll_event`].
//!
//! Which message does what in which state is one table, [`table`]. Private data are opaque here; [`ip_request`] and
//! `IpCmHeader::before` are for those who put an IP addressing header in front (rdma_cm, IBA annex A11).
//!
//! ```
//! use ferriband_cm::{CmLimits, Machine};
//! use ferriband_transport::types::Instant;
//!
//! let mut machine = Machine::new(3, CmLimits::default(), [1, 2]);
//! let mut mad = [0; 256];
//! assert!(machine.poll_transmit(&mut mad).is_none() && machine.poll_timeout().is_none());
//! machine.handle_timeout(Instant(0));
//! ```
#![forbid(unsafe_code)]

mod api;
mod connection;
mod limits;
mod machine;
mod messages;
mod params;
mod qp;
mod random;
mod receive;
mod requests;
pub mod table;
mod timeouts;
mod types;

pub use limits::CmLimits;
pub use machine::Machine;
pub use params::*;
pub use qp::{connected_init, datagram};
pub use requests::ip_request;
pub use types::*;
