//! The adapter: protection domains, regions, windows, queues, events, and progress, over the wires.
//!
//! Owns the objects that verbs name and the process-wide engine behind them. It must not know the C ABI: `abi/verbs`
//! converts. Data comes from programs by registered regions, and from peers by the direct wire.
//!
//! Where to look: [`Context`] opens the device; [`qp`] posts and transitions; `progress` drives
//! them; [`peer`] is the channel to another process; [`wire`] has what queue pairs send and receive
//! by.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod base;
pub mod cm;
pub mod device;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod objects;
pub mod process;
mod progress;
pub mod qp;
mod verbs;
mod wire;
pub mod xrc;

pub use base::error::Error;
pub(crate) use base::lock::{FastGuard, FastMutex, lock};
pub use base::{channel, error, fork, limits};
pub use cm::engine::Engine;
pub use cq::{CompChannel, Cq, CqInit, Stamped};
pub use device::fabric;
pub use device::{
    Device, DeviceInfo, FabricLink, GidEntry, LinkLayer, PortAttr, device_at, devices,
    find_devices, missing,
};
pub use mr::{DeviceMemory, Mr, MrInit, Mw, MwKind};
pub use objects::ah::{self, Ah};
pub use objects::domain::Domain;
pub use objects::event::{AsyncEvent, AsyncKind};
pub use objects::open::OpenDevice;
pub use objects::xrcd::{XrcFile, Xrcd};
pub use objects::{cq, mr, srq};
pub use process::{keys, peer};
pub use progress::Waiting;
pub use qp::{BindMw, Qp, QpInit, SendRequest};
pub use srq::{Srq, SrqInit};
pub use verbs::context::Context;
pub use verbs::pd::Pd;
pub use wire::roce;
