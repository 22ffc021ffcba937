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
pub mod context;
pub mod cq;
pub mod direct;
pub mod engine;
pub mod error;
mod face_support;
pub mod fork;
pub mod keys;
pub mod limits;
pub mod mr;
pub mod peer;
pub mod qp;
pub mod srq;
pub mod xrc;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use ah::Ah;
pub use context::{AsyncEvent, AsyncKind, Context, Pd, devices};
pub use cq::{CompChannel, Cq, CqInit, Stamped};
pub use error::Error;
pub use limits::{DeviceInfo, GidEntry, PortAttr};
pub use mr::{DeviceMemory, Mr, MrInit, Mw, MwKind};
pub use qp::{BindMw, Qp, QpInit, SendRequest};
pub use srq::{Srq, SrqInit};
pub use xrc::{XrcFile, Xrcd};

/// Locks a mutex. A panic while it was held has made the device fatal already; the data is still consistent enough
/// to be torn down, so the poison is not passed on.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
