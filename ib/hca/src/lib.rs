//! The adapter: protection domains, regions, windows, queues, events, and progress, over the wires.
//!
//! Owns the objects that verbs name and the process-wide engine behind them. It must not know the C ABI: `abi/verbs`
//! converts. Data comes from programs by registered regions, and from peers by the direct wire.
//!
//! Where to look: [`context`] opens the device; [`qp`] posts and transitions; [`engine`] makes progress; [`peer`] is
//! the channel to another process; [`direct`] answers what the direct wire's machine asks of a process.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod ah;
mod base;
pub mod cm;
pub mod context;
pub mod cq;
pub mod device;
pub mod direct;
mod face_support;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod keys;
pub mod mr;
pub mod peer;
pub mod progress;
pub mod qp;
pub mod roce;
pub mod srq;
pub mod xrc;

pub use ah::Ah;
pub use base::error::Error;
pub(crate) use base::lock::{FastGuard, FastMutex, lock};
pub use base::{channel, error, fork, limits};
pub use context::{AsyncEvent, AsyncKind, Context, Pd};
pub use cq::{CompChannel, Cq, CqInit, Stamped};
pub use device::fabric;
pub use device::{
    Device, DeviceInfo, FabricLink, GidEntry, LinkLayer, PortAttr, device_at, devices, find_devices,
};
pub use mr::{DeviceMemory, Mr, MrInit, Mw, MwKind};
pub use progress as engine;
pub use progress::Waiting;
pub use qp::{BindMw, Qp, QpInit, SendRequest};
pub use srq::{Srq, SrqInit};
pub use xrc::{XrcFile, Xrcd};
