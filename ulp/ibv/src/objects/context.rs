//! Contexts: opened devices, and what they say of themselves and their ports.

use super::device::Device;
use super::event::{self, AsyncEvent};
use super::{after_destruction, any_thread};
use crate::error::VerbsError;
use crate::inline::{self, Ops};
use crate::load::Functions;
use crate::types::{Gid, Lid, LinkLayer, Mtu, PortState};
use ferriband_verbs_sys as sys;
use std::ffi::c_int;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// An open device.
pub struct Context {
    at: NonNull<sys::ibv_context>,
    ops: Ops,
    device: Device,
}

any_thread!(Context);

/// What a device can do, as far as upper protocols ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Vendor's identifier: for choosing what only some adapters have.
    pub vendor_id: u32,
    /// Vendor's number of the part.
    pub vendor_part_id: u32,
    /// Queue pairs.
    pub max_qp: u32,
    /// Requests in a work queue.
    pub max_qp_wr: u32,
    /// Elements of a request.
    pub max_sge: u32,
    /// Entries of a completion queue.
    pub max_cqe: u32,
    /// READs and atomics outstanding at a queue pair that executes them.
    pub max_rd_atomic: u32,
    /// READs and atomics that a queue pair may have outstanding itself.
    pub max_init_rd_atomic: u32,
    /// Shared receive queues.
    pub max_srq: u32,
    /// Requests in a shared receive queue.
    pub max_srq_wr: u32,
    /// Ports, numbered from 1.
    pub ports: u8,
    /// Extended reliable connections are offered.
    pub xrc: bool,
    /// Connections go over to a second path that they have loaded, by themselves (automatic path
    /// migration).
    pub path_migration: bool,
    /// On-demand regions work for RC: SEND, receive (through shared queues, too), WRITE and READ.
    pub on_demand: bool,
    /// One on-demand region may stand for all memory.
    pub implicit_on_demand: bool,
    /// Atomic operations of the adapter are atomic with those of the processor, too
    /// (IBV_ATOMIC_GLOB).
    pub atomic_with_processor: bool,
}

/// A port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortInfo {
    /// Its state.
    pub state: PortState,
    /// The largest path MTU that it carries now.
    pub active_mtu: Mtu,
    /// Its LID, the first of as many as 2 to the power of `lmc`; 0 on Ethernet.
    pub lid: Lid,
    /// LID mask control: how many low bits of a LID lead to the port all the same.
    pub lmc: u8,
    /// Entries of its GID table.
    pub gids: u32,
    /// The longest message, bytes.
    pub max_message: u32,
    /// What lies under it.
    pub link_layer: LinkLayer,
}

impl Context {
    pub(super) fn open(device: &Device) -> Result<Arc<Context>, VerbsError> {
        // SAFETY: the device is alive.
        let at = unsafe { (device.verbs().f.ibv_open_device)(device.as_ptr()) };
        let at = NonNull::new(at).ok_or_else(|| VerbsError::last("ibv_open_device"))?;
        // SAFETY: it was just opened.
        let ops = unsafe { Ops::of(at.as_ptr()) };
        Ok(Arc::new(Context {
            at,
            ops,
            device: device.clone(),
        }))
    }

    /// A context that the connection manager has opened: it stays open while the device of its list
    /// lives.
    ///
    /// # Safety
    /// `at` is open, and of that list.
    pub(crate) unsafe fn of_manager(at: NonNull<sys::ibv_context>, device: Device) -> Arc<Context> {
        // SAFETY: the caller's promise.
        let ops = unsafe { Ops::of(at.as_ptr()) };
        Arc::new(Context { at, ops, device })
    }

    /// The device that was opened.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What it can do.
    pub fn limits(&self) -> Result<DeviceLimits, VerbsError> {
        // SAFETY: the context is open and the function is of its library.
        let attr = unsafe { inline::query_device(self.as_ptr(), self.f().ibv_query_device) }?;
        let (plain, odp) = (&attr.orig_attr, &attr.odp_caps);
        let count = |value: c_int| u32::try_from(value).unwrap_or(0);
        let needed = sys::IBV_ODP_SUPPORT_SEND
            | sys::IBV_ODP_SUPPORT_RECV
            | sys::IBV_ODP_SUPPORT_WRITE
            | sys::IBV_ODP_SUPPORT_READ
            | sys::IBV_ODP_SUPPORT_SRQ_RECV;
        let general = |bit: u32| odp.general_caps & u64::from(bit) != 0;
        Ok(DeviceLimits {
            vendor_id: plain.vendor_id,
            vendor_part_id: plain.vendor_part_id,
            max_qp: count(plain.max_qp),
            max_qp_wr: count(plain.max_qp_wr),
            max_sge: count(plain.max_sge),
            max_cqe: count(plain.max_cqe),
            max_rd_atomic: count(plain.max_qp_rd_atom),
            max_init_rd_atomic: count(plain.max_qp_init_rd_atom),
            max_srq: count(plain.max_srq),
            max_srq_wr: count(plain.max_srq_wr),
            ports: plain.phys_port_cnt,
            xrc: plain.device_cap_flags & sys::IBV_DEVICE_XRC != 0,
            path_migration: plain.device_cap_flags & sys::IBV_DEVICE_AUTO_PATH_MIG != 0,
            on_demand: general(sys::IBV_ODP_SUPPORT)
                && odp.per_transport_caps.rc_odp_caps & needed == needed,
            implicit_on_demand: general(sys::IBV_ODP_SUPPORT)
                && general(sys::IBV_ODP_SUPPORT_IMPLICIT),
            atomic_with_processor: plain.atomic_cap == sys::IBV_ATOMIC_GLOB,
        })
    }

    /// A port, counted from 1.
    pub fn port(&self, port: u8) -> Result<PortInfo, VerbsError> {
        // SAFETY: the context is open and the function is of its library.
        let attr = unsafe { inline::query_port(self.as_ptr(), port, self.f().ibv_query_port) }?;
        Ok(PortInfo {
            state: PortState::from_c(attr.state),
            active_mtu: Mtu::from_c(attr.active_mtu),
            lid: Lid(attr.lid),
            lmc: attr.lmc,
            gids: u32::try_from(attr.gid_tbl_len).unwrap_or(0),
            max_message: attr.max_msg_sz,
            link_layer: LinkLayer::from_c(u32::from(attr.link_layer)),
        })
    }

    /// An entry of a port's GID table.
    pub fn gid(&self, port: u8, index: u32) -> Result<Gid, VerbsError> {
        let mut gid = sys::ibv_gid::default();
        let index = c_int::try_from(index).unwrap_or(c_int::MAX);
        // SAFETY: an open context and a writable identifier.
        let returned =
            unsafe { (self.f().ibv_query_gid)(self.as_ptr(), port, index, &raw mut gid) };
        VerbsError::check("ibv_query_gid", returned)?;
        // SAFETY: all bit patterns of both fields are bytes.
        Ok(Gid(unsafe { gid.raw }))
    }

    /// An entry of a port's P_Key table, in the host's order.
    pub fn pkey(&self, port: u8, index: u32) -> Result<u16, VerbsError> {
        let mut pkey = 0;
        let index = c_int::try_from(index).unwrap_or(c_int::MAX);
        // SAFETY: an open context and a writable key.
        let returned =
            unsafe { (self.f().ibv_query_pkey)(self.as_ptr(), port, index, &raw mut pkey) };
        VerbsError::check("ibv_query_pkey", returned).map(|()| u16::from_be(pkey))
    }

    /// The descriptor that becomes readable when an asynchronous event waits.
    pub fn async_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open; the field is settled since then.
        let fd = unsafe { (&raw const (*self.as_ptr()).async_fd).read() };
        // SAFETY: the descriptor stays open as long as the context.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// Takes the next asynchronous event and acknowledges it at once; `None` if none waits and the descriptor does not block.
    /// It blocks otherwise, as the C function does ([`Context::set_nonblocking`]).
    pub fn next_async_event(&self) -> Result<Option<AsyncEvent>, VerbsError> {
        event::next(self)
    }

    /// Makes [`Context::next_async_event`] return instead of waiting.
    pub fn set_nonblocking(&self) -> Result<(), VerbsError> {
        set_nonblocking(self.async_fd())
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::ibv_context {
        self.at.as_ptr()
    }

    pub(super) fn f(&self) -> &'static Functions {
        &self.device.verbs().f
    }

    pub(super) fn ops(&self) -> &Ops {
        &self.ops
    }
}

/// Makes reads from a descriptor return instead of waiting.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> Result<(), VerbsError> {
    use std::os::fd::AsRawFd;
    // SAFETY: an open descriptor; the flags are only read.
    let flags = unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(VerbsError::last("fcntl"));
    }
    // SAFETY: an open descriptor.
    let set = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) };
    if set < 0 {
        Err(VerbsError::last("fcntl"))
    } else {
        Ok(())
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.device.name()).finish()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.device.is_managers() {
            return;
        }
        // SAFETY: every object of this context keeps it alive, so none is left.
        let returned = unsafe { (self.f().ibv_close_device)(self.as_ptr()) };
        after_destruction(returned, || self.device.clone());
    }
}
