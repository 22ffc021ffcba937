//! Reliable service: RC, and XRC whose initiator is a requester alone and whose target a responder alone.
//!
//! [`requester`] turns work requests into packets, [`completer`] turns acknowledgements and responses into
//! completions (both halves of one [`requester::Requester`]), [`responder`] executes what the peer asks,
//! [`held`] keeps requests that came before their
//! turn, [`gaps`] tells and fills the gaps among them, [`resources`] remembers READs and atomics so that they can be answered again, [`window`] bounds what is outstanding.

pub(crate) mod completer;
pub(crate) mod gaps;
pub(crate) mod held;
pub(crate) mod requester;
pub(crate) mod resources;
pub(crate) mod responder;
pub(crate) mod window;
