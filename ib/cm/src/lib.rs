//! The connection manager (IBA chapter 12) as a machine without I/O: who asks, who answers, what is sent again and when,
//! and how a connection ends. It owns the communication identifiers of one process and knows no socket, no clock and no
//! queue pair: messages, time and randomness come in as arguments, messages and events are taken out.
//!
//! * In: [`Machine::handle`], [`Machine::handle_timeout`], and what a program wants (`connect`, `accept`, ...).
//! * Out: [`Machine::poll_transmit`], [`Machine::poll_timeout`], [`Machine::poll_event`].
//!
//! Which message does what in which state is one table, [`table`]. Private data are opaque here; [`ip_request`] and
//! `IpCmHeader::before` are for those who put an IP addressing header in front (rdma_cm, IBA annex
//! A11), `IpCmHeader::in_hello` for SDP.
//!
//! # For a driver
//!
//! * After every call that changes something, take out what there is: messages, then events, and set the timer to
//!   `poll_timeout`. `handle_timeout` may come late; nothing but time is lost.
//! * An address must look the same whenever it is the same: the GID in `Route::Gsi` of what comes in is made of the packet's
//!   source as that of `connect` is made of the destination, for a message is taken from the peer of its connection only.
//! * A request is `adopt`ed when it has a name, and `taken` when the program has seen it; in between it fills the backlog.
//! * What rdma_cm calls a thing, and what it is here: `rdma_connect` is `connect` (datagrams: `sidr_request`), `rdma_accept`
//!   is `accept` on the passive and `ready` on the active side (datagrams: `sidr_reply`), `rdma_notify` is
//!   `established_hint` or `migrated`, `rdma_destroy_id` is `destroy`. UNREACHABLE is `Unreachable` of a REQ, REP or
//!   SIDR_REQ, REJECTED is `Rejected`, DISCONNECTED is `DisconnectRequest` on one side and `Disconnected` on the other.
//! * `starting_psn` of either side is what its own queue pair expects: the other one sends from there.
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
mod event;
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

pub use event::{CmEvent, Event};
pub use limits::CmLimits;
pub use machine::Machine;
pub use params::*;
pub use qp::{connected_init, datagram};
pub use requests::ip_request;
pub use types::*;
