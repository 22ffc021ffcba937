//! The wires of packets that a process has opened.
//!
//! Owns that each is opened once. Must not know what goes by them.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock};

use ferriband_memory::host::HandOver;

use crate::wire::packets::Roce;

/// What a process sends and receives by, beside the rings.
#[derive(Debug, Default)]
pub(crate) struct Wires {
    /// Packets, once a queue pair or a listener needs them.
    pub(crate) roce: OnceLock<Roce>,
    pub(crate) roce_opening: Mutex<()>,
    /// Where other processes of this host put what is for this one, once anything may come.
    pub(crate) post_box: OnceLock<HandOver>,
    pub(crate) post_opening: Mutex<()>,
    /// Requests by packets that a program sees nothing of in its completion queues; a hint, which may miss some.
    pub(crate) unseen: AtomicU64,
}
