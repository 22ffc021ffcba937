//! Objects of the API. Each keeps what it was made from alive, so it is destroyed before that; an object that cannot be destroyed
//! (EBUSY) is left behind together with what it was made from, and counted.
//!
//! All of them are `Send` and `Sync`: the API promises that its functions may be called from any thread on any object.

pub mod ah;
pub mod context;
pub mod cq;
pub mod device;
pub mod event;
pub mod lent;
pub mod migration;
pub mod pd;
pub mod qp;
pub mod region;
pub mod srq;
pub mod xrcd;

use std::sync::atomic::{AtomicU64, Ordering};

/// Objects that could not be destroyed.
static LEAKED: AtomicU64 = AtomicU64::new(0);

/// How many objects of this process could not be destroyed and were left behind. Zero in a program without mistakes.
pub fn leaked() -> u64 {
    LEAKED.load(Ordering::Relaxed)
}

/// After a destruction: unless it succeeded, what the object was made from must outlive it, that is, the process.
pub(crate) fn after_destruction<P>(returned: i32, parents: impl FnOnce() -> P) {
    if returned != 0 {
        LEAKED.fetch_add(1, Ordering::Relaxed);
        std::mem::forget(parents());
    }
}

/// Promises that an object may be used and dropped by any thread.
macro_rules! any_thread {
    ($($name:ty),*) => {$(
        // SAFETY: the API's objects belong to no thread, and its functions lock what they must (ibv_open_device(3) and the
        // manual pages of each verb: "may be called from any thread"); the pointer is never handed out.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    )*};
}
pub(crate) use any_thread;
