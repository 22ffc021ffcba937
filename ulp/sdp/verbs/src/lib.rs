//! SDP over RC queue pairs: the machine of `ferriband-sdp-proto` on the verbs API.
//!
//! Owns: queue pairs, completion queues and registered buffers of a connection, and the copies
//! between these and the program. Must not know: when to send (the machine decides), how the two
//! sides have met (whoever calls [`Endpoint::connect`] carries the two [`End`]s), descriptors,
//! threads.
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

mod endpoint;
mod queues;
mod stream;

pub use endpoint::{Adapter, End, Endpoint, Error};
pub use stream::{Received, Stream};
