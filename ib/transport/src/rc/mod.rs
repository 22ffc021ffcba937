//! Reliable service: RC, and XRC whose initiator is a requester alone and whose target a responder alone.
//!
//! [`requester`] turns work requests into packets, within what `requester/admission.rs` allows,
//! which knows the peer's [`credits`] and
//! the [`flow`] of packets, bounded by a [`window`]; [`completer`] turns acknowledgements and
//! responses into completions;
//! [`repair`] decides what is sent again, and [`retransmit`] sends it (all parts of one
//! [`requester::Requester`]).
//! [`responder`] executes what the peer asks, [`held`] keeps requests that came before their turn,
//! [`gaps`] tells and fills
//! the gaps among them, [`resources`] remembers READs and atomics so that they can be answered
//! again.

pub(crate) mod completer;
pub(crate) mod credits;
pub(crate) mod flow;
pub(crate) mod gaps;
pub(crate) mod held;
pub(crate) mod repair;
pub(crate) mod requester;
pub(crate) mod resources;
pub(crate) mod responder;
pub(crate) mod retransmit;
pub(crate) mod window;
