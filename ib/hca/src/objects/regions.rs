//! Registered memory of a process: keys, and windows onto it.
//!
//! Owns which keys exist and what is bound to which region; the entries themselves lie in the
//! process segment, where peers read them. Must not know who accesses memory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::objects::mr::WindowState;
use crate::process::keys::KeyTable;

/// Regions and windows of a process.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    pub(crate) keys: Mutex<KeyTable>,
    pub(crate) windows: Mutex<BTreeMap<u32, WindowState>>,
    /// How many windows are bound to a region, by its key.
    pub(crate) bound: Mutex<BTreeMap<u32, usize>>,
}
