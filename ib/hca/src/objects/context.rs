//! Devices, contexts, protection domains, XRC domains, asynchronous events.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use ferriband_admin::Counter;
use ferriband_memory::host::PORT_STOPS;
use ferriband_transport::types::{Access, AddressVector, Sge};

use crate::base::channel::EventQueue;
use crate::base::error::Error;
use crate::base::limits;
use crate::device::{self, Device, GidEntry, PortAttr};
use crate::device::{absence, counters};
use crate::objects::ah::Ah;
use crate::objects::cq::{CompChannel, Cq, CqInit};
use crate::objects::event::{AsyncEvent, AsyncKind};
use crate::objects::mr::{DeviceMemory, Mr, MrInit, Mw, MwKind};
use crate::objects::srq::{Srq, SrqInit};
use crate::process::keys;
use crate::progress::Engine;
use crate::qp::{Qp, QpInit};
use crate::xrc::{XrcFile, Xrcd};

/// An open device.
#[derive(Debug)]
pub struct Context {
    /// The engine that all contexts of the process share.
    pub engine: Arc<Engine>,
    /// What the C face stores to find its object.
    pub cookie: AtomicUsize,
    /// The device.
    pub device: Arc<Device>,
    events: EventQueue<AsyncEvent>,
    /// The device has failed while this was open: an administrator wanted it.
    failed: AtomicBool,
}

static NEXT_PD: AtomicU32 = AtomicU32::new(1);

impl Context {
    /// Opens a device by its index in [`crate::devices`].
    ///
    /// # Errors
    /// `NotFound`, `Absent` or `Gone` while it is not there, or what keeps the process from joining
    /// the host.
    pub fn open(index: usize) -> Result<Arc<Self>, Error> {
        let device = device::at(index)?.clone();
        let engine = Engine::get()?;
        let context = Arc::new(Context {
            engine,
            cookie: AtomicUsize::new(0),
            device,
            events: EventQueue::new()?,
            failed: AtomicBool::new(false),
        });
        context.engine.owners.keep(&context);
        context.engine.follow_interface(&context.device);
        // only now: whoever takes the device away from here on finds this context
        absence::check(&context.engine.process.registry, &context.device)?;
        if !context.device.is_ethernet() {
            // who makes nothing hears of the port's events, too
            context.engine.open_to_fabric();
        }
        Ok(context)
    }

    /// Index of the device.
    pub fn device_index(&self) -> usize {
        self.device.info.index
    }

    /// Err in a forked child, and after the device failed.
    ///
    /// # Errors
    /// `Gone`.
    pub fn check_alive(&self) -> Result<(), Error> {
        if self.failed.load(Ordering::Acquire) {
            return Err(Error::Gone("it failed, as an administrator wanted"));
        }
        self.engine.check_alive()
    }

    /// Ends the device after an internal error: every later verb fails, and the program is told.
    #[cold]
    pub fn declare_fatal(&self) {
        self.engine.fail();
        self.raise(AsyncKind::DeviceFatal, 0);
    }

    /// The device fails: nothing new is made by this context.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// A port's attributes.
    ///
    /// # Errors
    /// `Invalid` for a port that does not exist.
    pub fn query_port(&self, port: u8) -> Result<PortAttr, Error> {
        if port == 0 || port > limits::PORTS {
            return Err(Error::Invalid("no such port"));
        }
        self.device.check_known()?;
        let mut port = self.device.port();
        let word = self
            .engine
            .process
            .registry
            .port_word(self.device.info.ifindex);
        port.active &= word & PORT_STOPS == 0;
        Ok(port)
    }

    /// An entry of a port's GID table.
    ///
    /// # Errors
    /// `Invalid` for a port or an index that does not exist, `NotFound` for an empty entry.
    pub fn query_gid(&self, port: u8, index: u32) -> Result<GidEntry, Error> {
        let attr = self.query_port(port)?;
        if index >= attr.gid_table {
            return Err(Error::Invalid("no such index in the GID table"));
        }
        self.device
            .gid(index)
            .ok_or(Error::NotFound("the entry of the GID table is empty"))
    }

    /// An entry of a port's P_Key table, in host order.
    ///
    /// # Errors
    /// `Invalid` for a port or an index that does not exist.
    pub fn query_pkey(&self, port: u8, index: u32) -> Result<u16, Error> {
        let attr = self.query_port(port)?;
        if index >= attr.pkey_table {
            return Err(Error::Invalid("no such index in the P_Key table"));
        }
        Ok(self.device.pkey_now(index as u16))
    }

    /// The port's counters, by their places in [`Counter::ALL`]: sums over all processes of this
    /// host and user.
    pub fn port_counters(&self) -> [u64; Counter::COUNT] {
        self.engine.publish_counters();
        counters::sums(&self.engine.process.registry, self.device.info.ifindex)
    }

    /// The descriptor of asynchronous events.
    pub fn async_fd(&self) -> RawFd {
        self.events.fd()
    }

    /// The descriptor of asynchronous events, for one who is about to wait for a count of it.
    ///
    /// # Errors
    /// `Gone`.
    pub fn async_events(&self) -> Result<RawFd, Error> {
        // a forked child shares the descriptor: it must not take its parent's events
        self.engine.process.check_epoch()?;
        Ok(self.events.fd())
    }

    /// The asynchronous event for a count that the caller has read from the descriptor; None if it
    /// was taken back meanwhile.
    pub fn counted_async_event(&self) -> Option<AsyncEvent> {
        self.events.counted(|_| {})
    }

    /// Takes the oldest asynchronous event; blocks unless the descriptor is non-blocking.
    pub fn next_async_event(&self) -> Result<AsyncEvent, Error> {
        self.async_events()?;
        self.events.next(|_| {})
    }

    pub(crate) fn raise(&self, kind: AsyncKind, element: usize) {
        self.events.push(AsyncEvent { kind, element });
    }

    /// Forgets events of an object that is destroyed.
    pub(crate) fn retract(&self, element: usize) {
        self.events.retract(|event| event.element == element);
    }

    /// A protection domain.
    pub fn alloc_pd(self: &Arc<Self>) -> Result<Arc<Pd>, Error> {
        self.check_alive()?;
        let id = NEXT_PD.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Pd {
            ctx: self.clone(),
            id,
            cookie: AtomicUsize::new(0),
            users: AtomicUsize::new(0),
            parent: None,
        }))
    }

    /// A completion channel.
    pub fn create_comp_channel(self: &Arc<Self>) -> Result<Arc<CompChannel>, Error> {
        self.check_alive()?;
        CompChannel::new(self.clone())
    }

    /// A completion queue.
    pub fn create_cq(self: &Arc<Self>, init: CqInit) -> Result<Arc<Cq>, Error> {
        self.check_alive()?;
        Cq::new(self.clone(), init)
    }

    /// Device memory. A forked child may allocate too: nothing of the parent's is touched.
    pub fn alloc_dm(self: &Arc<Self>, length: u64) -> Result<Arc<DeviceMemory>, Error> {
        DeviceMemory::allocate(self, length)
    }

    /// An XRC domain.
    pub fn open_xrcd(self: &Arc<Self>, file: XrcFile) -> Result<Arc<Xrcd>, Error> {
        self.check_alive()?;
        Xrcd::open(self, file)
    }
}

/// A protection domain.
#[derive(Debug)]
pub struct Pd {
    /// The context it belongs to.
    pub ctx: Arc<Context>,
    /// Its identifier; a parent domain has that of the domain it stands for.
    pub id: u32,
    /// What the C face stores to find its object.
    pub cookie: AtomicUsize,
    users: AtomicUsize,
    parent: Option<Arc<Pd>>,
}

impl Pd {
    pub(crate) fn use_it(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn release(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }

    /// A domain that stands for this one (parent domain): objects of either work together.
    pub fn stand_in(self: &Arc<Self>) -> Arc<Pd> {
        self.use_it();
        Arc::new(Pd {
            ctx: self.ctx.clone(),
            id: self.id,
            cookie: AtomicUsize::new(0),
            users: AtomicUsize::new(0),
            parent: Some(self.clone()),
        })
    }

    /// Ends the domain.
    ///
    /// # Errors
    /// `Busy` while objects belong to it.
    pub fn dealloc(&self) -> Result<(), Error> {
        self.ctx.engine.check_alive()?;
        if self.users.load(Ordering::Acquire) > 0 {
            return Err(Error::Busy("objects belong to the protection domain"));
        }
        if let Some(parent) = &self.parent {
            parent.release();
        }
        Ok(())
    }

    /// Checks that a range lies in a region of this domain that may be written (`writes`) or read
    /// by the adapter.
    ///
    /// # Errors
    /// `NotFound` if no region of the domain has that key and covers the range; `Permission` if one
    /// does without the right.
    pub fn check_range(&self, sge: &Sge, writes: bool) -> Result<(), Error> {
        let own = &self.ctx.engine.process.own;
        if keys::local(own, self.id, sge, Access::empty()).is_none() {
            return Err(Error::NotFound(
                "no region of the protection domain covers the range under this key",
            ));
        }
        if writes && keys::local(own, self.id, sge, Access::LOCAL_WRITE).is_none() {
            return Err(Error::Permission("the region does not allow local writes"));
        }
        Ok(())
    }

    /// Registers memory.
    pub fn reg_mr(self: &Arc<Self>, init: MrInit) -> Result<Arc<Mr>, Error> {
        self.ctx.check_alive()?;
        Mr::register(self, init)
    }

    /// Registers a part of device memory.
    pub fn reg_dm_mr(
        self: &Arc<Self>,
        dm: &Arc<DeviceMemory>,
        offset: u64,
        length: u64,
        access: Access,
    ) -> Result<Arc<Mr>, Error> {
        Mr::of_dm(self, dm, offset, length, access)
    }

    /// A memory window.
    pub fn alloc_mw(self: &Arc<Self>, kind: MwKind) -> Result<Arc<Mw>, Error> {
        self.ctx.check_alive()?;
        Mw::allocate(self, kind)
    }

    /// A queue pair.
    pub fn create_qp(self: &Arc<Self>, init: QpInit) -> Result<Arc<Qp>, Error> {
        self.ctx.check_alive()?;
        Qp::create(&self.ctx, Some(self.clone()), init, None)
    }

    /// A shared receive queue.
    pub fn create_srq(self: &Arc<Self>, init: SrqInit) -> Result<Arc<Srq>, Error> {
        self.ctx.check_alive()?;
        Srq::new(self.clone(), init)
    }

    /// An address handle.
    pub fn create_ah(self: &Arc<Self>, av: AddressVector) -> Result<Arc<Ah>, Error> {
        self.ctx.check_alive()?;
        Ah::new(self.clone(), av)
    }
}
