//! SDP over RC queue pairs: the machine of `ferriband-sdp-proto` on the verbs API.
//!
//! Owns: queue pairs, completion queues and registered buffers of a connection, and the copies
//! between these and the program; and how two sides meet by the connection manager ([`Manager`]).
//! Must not know: when to send (the machine decides), descriptors of programs, threads. Sides that
//! meet in another way carry their two [`End`]s to [`Endpoint::connect`].
//!
//! A connection has two completion queues, for sends and for receives, on one channel, and three
//! pieces of memory: the send buffer, the receive buffers, and the ring, which alone the peer may
//! write.
//!
//! ```no_run
//! use ferriband_ibv::{Choice, Device, Verbs};
//! use ferriband_sdp_proto::connection::{Config, Flow};
//! use ferriband_sdp_verbs::{Adapter, Endpoint, Received};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let verbs = Verbs::load(&Choice::from_env()?)?;
//! let context = Device::list(verbs)?.first().ok_or("no device")?.open()?;
//! let adapter = Adapter::new(&context, 1)?;
//! let flow = Flow::Ring { receives: 64 };
//! let config = Config { flow, buffers: 8, buffer_bytes: 8192, coalesce: true };
//! let (one, other) = (Endpoint::new(&adapter, config)?, Endpoint::new(&adapter, config)?);
//! let ends = (one.end(), other.end());
//! let (mut one, mut other) = (one.connect(&ends.1)?, other.connect(&ends.0)?);
//! assert_eq!(one.send(b"hello", false)?, 5);
//! let mut bytes = [0; 5];
//! while other.receive(&mut bytes)? == Received::Nothing {
//!     one.progress()?;
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod blocking;
mod endpoint;
mod hello;
mod lengths;
mod manager;
mod queues;
mod stream;

pub use blocking::Wait;
pub use endpoint::{Adapter, End, Endpoint, Error};
pub use hello::{BadAck, FlowKind};
pub use lengths::{Lengths, WrongLine};
pub use manager::{Event, Failed, Key, Listener, Manager, Request};
pub use stream::{Received, Stream};
