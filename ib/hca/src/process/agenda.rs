//! What is to be done for queue pairs, and when.
//!
//! Owns the list of those to be driven, and the timers. Must not know what driving one does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};

/// What is to be done for queue pairs, `Q`.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Agenda<Q> {
    pub(crate) work_count: AtomicUsize,
    pub(crate) next_timer: AtomicU64,
    /// When the connection manager's timer goes off.
    pub(crate) cm_deadline: AtomicU64,
    /// The thread knows of long transfers: it need not be told of more.
    pub(crate) assisting: AtomicBool,
    /// The program polled for its last long transfer, and so moved it.
    pub(crate) polled_for: AtomicBool,
    /// Queue pairs that need to be driven; their number is `work_count`.
    pub(crate) work: Mutex<Vec<Arc<Q>>>,
    pub(crate) timers: Mutex<BTreeMap<(u64, u32), Arc<Q>>>,
}

impl<Q> Default for Agenda<Q> {
    fn default() -> Self {
        Agenda {
            work_count: AtomicUsize::new(0),
            next_timer: AtomicU64::new(u64::MAX),
            cm_deadline: AtomicU64::new(u64::MAX),
            assisting: AtomicBool::new(false),
            polled_for: AtomicBool::new(false),
            work: Mutex::default(),
            timers: Mutex::default(),
        }
    }
}
