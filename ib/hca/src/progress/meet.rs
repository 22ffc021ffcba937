//! Processes that are about to be known, or whose lives are watched.
//!
//! Owns their connections. Must not know what is said by them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use ferriband_memory::host::Control;

use super::lives::Lives;

/// Connections of a process to others, but for the channels.
#[derive(Debug, Default)]
pub(super) struct Meetings {
    /// Connections that have not said who they are.
    pub(super) strangers: Mutex<BTreeMap<u64, Control>>,
    pub(super) tokens: AtomicU64,
    pub(super) lives: Mutex<Lives>,
}
