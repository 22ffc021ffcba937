//! Connections by the connection manager: a safe wrapper over `librdmacm.so.1`, ours or the
//! system's.
//!
//! Owns: the choice of the library ([`Cm`]), channels of events, identifiers, and the order in
//! which they go. Must not know what private data mean.
//!
//! The C library hands out pointers that live under rules of its own. Here they follow from
//! ownership:
//! * An identifier is destroyed when nobody holds it: neither the program, nor an event that names
//!   it, nor its queue pair. So the C call, which waits until all events are acknowledged, never
//!   waits.
//! * An event is acknowledged when it is dropped. The identifier of a request that was not taken
//!   out of it goes then, and so the request is refused.
//! * A channel outlives its identifiers.
//! * The library moves queue pairs and fills identifiers in while an event is taken. So calls of
//!   one channel and of its identifiers are one at a time, under one lock, under which nobody
//!   sleeps.

mod channel;
mod event;
mod id;
mod library;
mod params;

pub use channel::CmChannel;
pub use event::{CmError, CmEvent, CmEventKind, RejectReason};
pub use id::{CmId, CmOption};
pub use library::Cm;
pub use params::{ACCEPT_ROOM, Beside, ConnectParams, PeerParams, PortSpace, REJECT_ROOM};
