//! Open devices: what is asked of a port, and asynchronous events.
//!
//! Owns the events. Must not know who raises them, nor what is made of the device.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ferriband_admin::Counter;
use ferriband_memory::host::PORT_STOPS;

use crate::base::channel::EventQueue;
use crate::base::error::Error;
use crate::device::counters;
use crate::device::{Device, GidEntry, PortAttr};
use crate::objects::event::{AsyncEvent, AsyncKind};
use crate::objects::host::Host;
use crate::process::status::Status;

/// An open device, as objects know it.
pub struct OpenDevice {
    /// What the C face stores to find its object.
    pub cookie: AtomicUsize,
    /// The device.
    pub device: Arc<Device>,
    /// What drives the adapter of the process.
    pub(crate) host: Arc<dyn Host>,
    pub(crate) status: Arc<Status>,
    events: EventQueue<AsyncEvent>,
    /// The device has failed while this was open: an administrator wanted it.
    failed: AtomicBool,
}

impl std::fmt::Debug for OpenDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenDevice({})", self.device.info.name)
    }
}

impl OpenDevice {
    pub(crate) fn new(
        device: Arc<Device>,
        host: Arc<dyn Host>,
        status: Arc<Status>,
    ) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(OpenDevice {
            cookie: AtomicUsize::new(0),
            device,
            host,
            status,
            events: EventQueue::new()?,
            failed: AtomicBool::new(false),
        }))
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
        self.status.life.check()
    }

    /// Ends the device after an internal error: every later verb fails, and the program is told.
    #[cold]
    pub fn declare_fatal(&self) {
        self.status.life.fail();
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
        if port == 0 || port > self.device.ports() {
            return Err(Error::Invalid("no such port"));
        }
        self.device.check_known()?;
        let mut port = self.device.port_at(port);
        let registry = &self.host.process().registry;
        let word = registry.port_word(self.device.info.ifindex);
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
            .gid_at(port, index)
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
        Ok(self.device.pkey_now(port, index as u16))
    }

    /// The port's counters, by their places in [`Counter::ALL`]: sums over all processes of this
    /// host and user.
    pub fn port_counters(&self) -> [u64; Counter::COUNT] {
        self.host.publish_counters();
        counters::sums(&self.host.process().registry, self.device.info.ifindex)
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
        self.status.life.check_epoch()?;
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
}
