//! The adapter: protection domains, regions, windows, queues, events, and progress, over the wires.
//!
//! Owns the objects that verbs name and the process-wide engine behind them. It must not know the C ABI: `abi/verbs`
//! converts. Data comes from programs by registered regions, and from peers by the direct wire.
//!
//! Where to look: [`context`] opens the device; [`qp`] posts and transitions; [`engine`] makes progress; [`peer`] is
//! the channel to another process; [`direct`] answers what the direct wire's machine asks of a process.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod ah;
pub mod channel;
pub mod cm;
mod config;
pub mod context;
mod counters;
pub mod cq;
pub mod device;
pub mod direct;
pub mod engine;
pub mod error;
pub mod fabric;
mod face_support;
pub mod fork;
#[cfg(fuzzing)]
pub mod fuzzing;
mod incident;
pub mod keys;
pub mod limits;
pub mod mr;
pub mod peer;
pub mod qp;
pub mod roce;
pub mod srq;
pub mod xrc;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use ah::Ah;
pub use context::{AsyncEvent, AsyncKind, Context, Pd};
pub use cq::{CompChannel, Cq, CqInit, Stamped};
pub use device::{
    Device, DeviceInfo, FabricLink, GidEntry, LinkLayer, PortAttr, device_at, devices, find_devices,
};
pub use engine::Waiting;
pub use error::Error;
pub use mr::{DeviceMemory, Mr, MrInit, Mw, MwKind};
pub use qp::{BindMw, Qp, QpInit, SendRequest};
pub use srq::{Srq, SrqInit};
pub use xrc::{XrcFile, Xrcd};

/// A mutex of the data path: held for a request or a record, practically never contended. Giving it up is a plain store, where the
/// standard mutex swaps; whoever finds it taken yields.
pub(crate) type FastMutex<T> = spin::mutex::SpinMutex<T, spin::relax::Yield>;

pub(crate) type FastGuard<'a, T> = spin::mutex::SpinMutexGuard<'a, T, spin::relax::Yield>;

/// What [`lock`] locks.
pub(crate) trait Lockable {
    type Guard<'a>: std::ops::DerefMut
    where
        Self: 'a;
    fn acquire(&self) -> Self::Guard<'_>;
}

impl<T> Lockable for Mutex<T> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;

    /// A panic while it was held has made the device fatal already; the data is still consistent enough to be torn down, so
    /// the poison is not passed on.
    fn acquire(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Lockable for FastMutex<T> {
    type Guard<'a>
        = FastGuard<'a, T>
    where
        T: 'a;

    #[inline(always)]
    fn acquire(&self) -> FastGuard<'_, T> {
        self.lock()
    }
}

/// Locks a mutex of either kind.
#[inline(always)]
pub(crate) fn lock<L: Lockable>(mutex: &L) -> L::Guard<'_> {
    mutex.acquire()
}
