//! Connections that are made anew when they fail, without loss and without doubles.
//!
//! Owns: the connection to one peer over its lives ([`Session`]), the set-up datagrams of version 6
//! ([`datagram`]), the card by which a process is found ([`card`]), when and how a peer is asked
//! for its own ([`Reading`], [`inquiry`]), what is sent and not acknowledged ([`Log`],
//! [`kept::Kept`]), the adapters of a process ([`Adapters`]), where a peer can be reached
//! ([`Reach`]), the paths to it ([`Paths`]), and the probes that tell a silent path from a silent
//! peer ([`Probes`]). Must not know: verbs, sockets, MPI, clocks. Time is [`Ns`], passed in; what
//! is to be done comes out as a [`Step`].
//!
//! Source: Koop, Shamis, Rabinovitz, Panda, *Designing High-Performance and Resilient Message
//! Passing on InfiniBand*, section IV-B and its Figure 3. The design is docs/design/heal.md.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod adapters;
pub mod card;
mod cause;
pub mod datagram;
pub mod inquiry;
pub mod kept;
mod log;
mod number;
mod paths;
mod probes;
mod reach;
mod reading;
mod session;

pub use adapters::{AdapterNews, AdapterStep, Adapters, Health, adapter_of};
pub use cause::{Cause, Reason};
pub use datagram::{Datagram, Endpoint, Kind};
pub use log::Log;
pub use number::{AdapterId, Epoch, Ns, Number, PathId, Word};
pub use paths::{Lids, Path, Paths, Verdict};
pub use probes::{Probe, ProbeNews, Probes, Seen};
pub use reach::{Reach, Source, candidates};
pub use reading::Reading;
pub use session::{AdapterChange, Limits, PeerNews, Report, Session, State, Step, Taken, Transmit};
