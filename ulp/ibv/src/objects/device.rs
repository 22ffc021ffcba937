//! Devices: what the library found when it was asked.

use super::any_thread;
use super::context::Context;
use crate::cm::Cm;
use crate::error::VerbsError;
use crate::load::Verbs;
use ferriband_verbs_sys as sys;
use std::ffi::{CStr, c_int};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// A device that can be opened.
#[derive(Clone)]
pub struct Device {
    list: Arc<List>,
    at: NonNull<sys::ibv_device>,
}

/// What keeps devices in place, until the last of them is gone.
struct List {
    verbs: &'static Verbs,
    held: Held,
}

enum Held {
    /// The library's answer.
    Devices(NonNull<*mut sys::ibv_device>),
    /// The connection manager's answer: its contexts, open as long as it is held.
    Contexts(&'static Cm, NonNull<*mut sys::ibv_context>),
}

any_thread!(Device, List);

impl Device {
    /// The devices that are there now; none is an empty list.
    pub fn list(verbs: &'static Verbs) -> Result<Vec<Device>, VerbsError> {
        let mut count: c_int = 0;
        // SAFETY: the count is writable.
        let devices = unsafe { (verbs.f.ibv_get_device_list)(&raw mut count) };
        let devices =
            NonNull::new(devices).ok_or_else(|| VerbsError::last("ibv_get_device_list"))?;
        let held = Held::Devices(devices);
        let list = Arc::new(List { verbs, held });
        let count = usize::try_from(count).unwrap_or(0);
        let each = (0..count).filter_map(|at| {
            // SAFETY: the library's array has `count` elements.
            let device = unsafe { devices.add(at).read() };
            NonNull::new(device).map(|at| Device {
                list: Arc::clone(&list),
                at,
            })
        });
        Ok(each.collect())
    }

    /// The device of a context that the connection manager has opened, and keeps open as long as
    /// this object lives.
    ///
    /// # Safety
    /// `list` is an answer of `rdma_get_devices` that nobody else frees, and `context` is in it.
    pub(crate) unsafe fn of_manager(
        cm: &'static Cm,
        list: NonNull<*mut sys::ibv_context>,
        context: NonNull<sys::ibv_context>,
    ) -> Result<Device, VerbsError> {
        let list = Arc::new(List {
            verbs: cm.verbs(),
            held: Held::Contexts(cm, list),
        });
        // SAFETY: the context is open; its device is settled since then.
        let device = unsafe { (&raw const (*context.as_ptr()).device).read() };
        let at = NonNull::new(device)
            .ok_or_else(|| VerbsError::new("rdma_get_devices", libc::ENODEV))?;
        Ok(Device { list, at })
    }

    /// True if its context is the connection manager's, which closes it.
    pub(super) fn is_managers(&self) -> bool {
        matches!(self.list.held, Held::Contexts(..))
    }

    /// Its name, such as `ferri0` or `mlx5_0`.
    pub fn name(&self) -> String {
        // SAFETY: the device is alive with its list.
        let name = unsafe { (self.list.verbs.f.ibv_get_device_name)(self.at.as_ptr()) };
        if name.is_null() {
            return String::new();
        }
        // SAFETY: a string that lives as long as the device.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    }

    /// Its node GUID, in the host's order.
    pub fn guid(&self) -> u64 {
        // SAFETY: the device is alive with its list.
        u64::from_be(unsafe { (self.list.verbs.f.ibv_get_device_guid)(self.at.as_ptr()) })
    }

    /// Opens it.
    pub fn open(&self) -> Result<Arc<Context>, VerbsError> {
        Context::open(self)
    }

    /// The library that it is of.
    pub fn verbs(&self) -> &'static Verbs {
        self.list.verbs
    }

    pub(super) fn as_ptr(&self) -> *mut sys::ibv_device {
        self.at.as_ptr()
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.name()).finish()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        match self.held {
            // SAFETY: the list came from the library and no device of it is used any more.
            Held::Devices(list) => unsafe { (self.verbs.f.ibv_free_device_list)(list.as_ptr()) },
            // SAFETY: the list came from the manager and no context of it is used any more.
            Held::Contexts(cm, list) => unsafe { (cm.f.rdma_free_devices)(list.as_ptr()) },
        }
    }
}
