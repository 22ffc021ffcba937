//! The verbs API for the upper protocols: a safe wrapper over the published C ABI of
//! `libibverbs.so.1` and `librdmacm.so.1`, loaded at run time.
//!
//! This crate owns the choice of the library ([`Verbs::load`]), what `infiniband/verbs.h` does in inline functions, and
//! objects whose order of destruction cannot be wrong. It knows nothing of our adapter (the C layouts of `ferriband-verbs-sys` are
//! rdma-core's), so what is written to it runs on real adapters and on Soft-RoCE, too, without a rebuild.
//!
//! ```no_run
//! use ferriband_ibv::{Access, Choice, Cq, Device, Pd, Qp, QpInit, QpType, Region, Mr, Verbs};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let verbs = Verbs::load(&Choice::from_env()?)?;
//! let context = Device::list(verbs)?.first().ok_or("no device")?.open()?;
//! let pd = Pd::alloc(&context)?;
//! let memory = Mr::register(&pd, &Region::create(c"buffers", 65536)?, Access::LOCAL_WRITE)?;
//! let cq = Cq::create(&context, 64, None, 0)?;
//! let qp = Qp::create(&pd, &QpInit::new(QpType::Rc, &cq, &cq))?;
//! println!("{} at {:#x}", qp.number(), memory.address());
//! # Ok(())
//! # }
//! ```
//!
//! Connections are set up by the connection manager of the installation ([`Cm`]), or by whatever
//! the program has to tell queue pairs of each other.
//!
//! What is safe here and what is not: a work request can reach registered memory only. Memory of a [`Region`] is reached through copies
//! and atomic words alone, never through references to its bytes, so an adapter may write it at any time; other memory is registered by
//! [`Mr::register_foreign`], which is `unsafe`, and so is naming a range of it in a request ([`Element::foreign`]).

#![warn(missing_docs)]

mod cm;
mod error;
mod inline;
mod kind;
mod load;
mod objects;
mod types;
mod wc;
mod wr;

pub use cm::{
    ACCEPT_ROOM, Beside, Cm, CmChannel, CmError, CmEvent, CmEventKind, CmId, CmOption,
    ConnectParams, PeerParams, PortSpace, REJECT_ROOM, RejectReason,
};
pub use error::{ErrorKind, PostError, VerbsError};
pub use kind::AdapterKind;
pub use load::{Choice, LoadError, Verbs};
pub use objects::ah::Ah;
pub use objects::context::{Context, DeviceLimits, PortInfo};
pub use objects::cq::{CompChannel, Cq};
pub use objects::device::Device;
pub use objects::event::{AsyncEvent, EventKind, Subject};
pub use objects::leaked;
pub use objects::lent::Lent;
pub use objects::migration::{PathInUse, PathState, SecondPath};
pub use objects::pd::{Mr, Pd};
pub use objects::qp::{InOrder, NotClosed, Qp, QpCaps, QpInit, Rtr, Rts};
pub use objects::region::{OutOfRange, Region};
pub use objects::srq::{Srq, XrcSrqInit};
pub use objects::xrcd::Xrcd;
pub use types::{
    Access, Gid, LKey, Lid, LinkLayer, Mtu, PortState, QKey, QpState, QpType, Qpn, RKey, Route,
};
pub use wc::{Wc, WcFlags, WcOpcode, WcStatus};
pub use wr::{Element, RecvWr, SendFlags, SendWr, WrOpcode};
