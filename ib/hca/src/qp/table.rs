//! The queue pairs of a process, by index and by number.
//!
//! Owns which numbers are taken. Must not know what a queue pair does.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};

use ferriband_memory::host::BlockKind;

use crate::qp::Qp;

/// Queue pair numbers of this process.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    pub(crate) blocks: Vec<(u32, BlockKind)>,
    /// Of each kind: indexes that were given back, the longest ago last, and those of the newest block that were never used.
    pub(crate) free: [Vec<u32>; 3],
    pub(crate) fresh: [std::ops::Range<u32>; 3],
    /// Of indexes that were used before.
    pub(crate) incarnations: BTreeMap<u32, u32>,
}

/// Queue pairs of a process.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) qps: RwLock<Vec<Option<Arc<Qp>>>>,
    /// Changes with the table.
    pub(crate) version: AtomicU64,
    /// XRC targets whose packets this process executes, by number.
    pub(crate) carried: Mutex<BTreeMap<u32, Arc<Qp>>>,
    pub(crate) numbers: Mutex<Numbers>,
}
