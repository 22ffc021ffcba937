//! The bytes of the Sockets Direct Protocol (IBA annex A4).
//!
//! Owns: the header of every message ([`Bsdh`]), the messages ([`Message`]), the arithmetic of
//! sequence numbers and credits, the service ID of a port, and four private parts: the negotiation
//! of the flow controls that write into a ring ([`FlowControl`]), a short form of Hello and
//! HelloAck for connections of the TCP port space, why a connection is refused ([`Refusal`]), and
//! what carries a TCP connection in the stream of one of SDP ([`Frame`]).
//! Must not know: connections, queue pairs, memory, time. What a peer does with a message is the
//! protocol machine's business.
//!
//! Nothing here allocates, recurses or panics on any bytes.
//!
//! ```
//! use ferriband_sdp_wire::{Body, Flags, Message, MessageHeader, MessageSeq};
//!
//! let sent = Message {
//!     header: MessageHeader {
//!         flags: Flags::empty(),
//!         bufs: 8,
//!         mseq: MessageSeq(1),
//!         mseq_ack: MessageSeq(0),
//!     },
//!     body: Body::Data(b"hello"),
//! };
//! let mut buffer = [0; 64];
//! let len = sent.emit(&mut buffer)?;
//! assert_eq!(len, 21);
//! assert_eq!(Message::parse(&buffer[..len]), Ok(sent));
//! # Ok::<(), ferriband_sdp_wire::EmitError>(())
//! ```
#![forbid(unsafe_code)]

mod bsdh;
mod control;
mod credits;
mod error;
mod flow;
mod frame;
mod header;
mod hello;
mod message;
mod mid;
mod refusal;
mod short;
mod types;

pub use bsdh::*;
pub use control::*;
pub use credits::*;
pub use error::*;
pub use flow::*;
pub use frame::*;
pub use hello::*;
pub use message::*;
pub use mid::*;
pub use refusal::*;
pub use short::*;
pub use types::*;
