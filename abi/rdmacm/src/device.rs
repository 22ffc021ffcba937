//! The process's devices, each opened once for all identifiers, with a default protection domain and XRC domain.
//!
//! A device stays open for good: programs keep `id->verbs`. Its domains go with the last identifier that is bound to it.

use crate::boundary::{Errno, entry, object};
use crate::verbs;
use ferriband_fork::PerProcess;
use ferriband_verbs_sys::{ibv_context, ibv_device, ibv_pd, ibv_xrcd};
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Device {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    xrcd: *mut ibv_xrcd,
    users: usize,
    limits: Limits,
}

// SAFETY: the pointers are libibverbs' objects, which any thread may use.
unsafe impl Send for Device {}

/// How many READs and atomics a device's queue pairs carry at a time.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Taken from the other side.
    pub responder_resources: u8,
    /// Outstanding.
    pub initiator_depth: u8,
}

/// By index in the device list, which is fixed for the process. A forked child opens its own.
static DEVICES: PerProcess<Mutex<Vec<Option<Device>>>> = PerProcess::new(Mutex::default);

fn lock() -> MutexGuard<'static, Vec<Option<Device>>> {
    // Each update leaves the table whole.
    DEVICES.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// One use of a device, with its default protection domain if it was asked for.
pub struct DeviceUse {
    index: usize,
}

impl DeviceUse {
    /// Uses the device at `index` of the list, whose GUID must be `guid`.
    ///
    /// ENODEV, and what opening a device answers.
    pub fn of(index: usize, guid: u64) -> Result<Self, Errno> {
        let mut devices = lock();
        with_list(|list| {
            let there = list.get(index).filter(|device| !device.is_null());
            let device = *there.ok_or(libc::ENODEV)?;
            // SAFETY: the device is of a list that is held.
            if unsafe { verbs::ibv_get_device_guid(device) } != guid {
                return Err(libc::ENODEV);
            }
            open(&mut devices, index, device)
        })?;
        let device = devices[index].as_mut().ok_or(libc::ENODEV)?;
        if device.pd.is_null() {
            // SAFETY: the context is open.
            device.pd = object(unsafe { verbs::ibv_alloc_pd(device.context) })?;
        }
        device.users += 1;
        Ok(DeviceUse { index })
    }

    fn with<R>(&self, look: impl FnOnce(&mut Device) -> R) -> R {
        let mut devices = lock();
        look(
            devices[self.index]
                .as_mut()
                .expect("a device that is in use stays"),
        )
    }

    /// The open context and the default protection domain.
    pub fn objects(&self) -> (*mut ibv_context, *mut ibv_pd) {
        self.with(|device| (device.context, device.pd))
    }

    /// What its queue pairs can carry.
    pub fn limits(&self) -> Limits {
        self.with(|device| device.limits)
    }

    /// The default XRC domain, opened when it is first needed.
    pub fn xrcd(&self) -> Result<*mut ibv_xrcd, Errno> {
        self.with(|device| {
            if device.xrcd.is_null() {
                // SAFETY: the context is open.
                device.xrcd = unsafe { verbs::open_xrcd(device.context) }?;
            }
            Ok(device.xrcd)
        })
    }
}

impl Drop for DeviceUse {
    fn drop(&mut self) {
        release(&mut lock(), self.index);
    }
}

fn release(devices: &mut [Option<Device>], index: usize) {
    let Some(device) = devices.get_mut(index).and_then(Option::as_mut) else {
        return;
    };
    device.users -= 1;
    if device.users != 0 {
        return;
    }
    // A domain that the program still has objects of stays as it is: the next user finds it.
    // SAFETY: the domain is ours, and freed once.
    if !device.pd.is_null() && unsafe { verbs::ibv_dealloc_pd(device.pd) } == 0 {
        device.pd = std::ptr::null_mut();
    }
    // SAFETY: as above.
    let closed =
        !device.xrcd.is_null() && unsafe { verbs::close_xrcd(device.context, device.xrcd) }.is_ok();
    if closed {
        device.xrcd = std::ptr::null_mut();
    }
}

/// Runs `look` on the devices by their indices while the list is held; NULL for one that is not
/// there.
fn with_list<R>(look: impl FnOnce(&[*mut ibv_device]) -> Result<R, Errno>) -> Result<R, Errno> {
    let mut count = 0;
    // SAFETY: the count's place lives during the call.
    let list = object(unsafe { verbs::ibv_get_device_list(&raw mut count) })?;
    let length = usize::try_from(count).unwrap_or(0);
    // SAFETY: the list has `count` entries until it is freed.
    let listed = unsafe { std::slice::from_raw_parts(list, length) };
    let mut by_index = Vec::new();
    for device in listed {
        // SAFETY: the device is of a list that is held.
        let index = unsafe { verbs::ibv_get_device_index(*device) };
        let index = usize::try_from(index).unwrap_or(by_index.len());
        if by_index.len() <= index {
            by_index.resize(index + 1, std::ptr::null_mut());
        }
        by_index[index] = *device;
    }
    let result = look(&by_index);
    // SAFETY: the list is not used any more; devices that are open stay.
    unsafe { verbs::ibv_free_device_list(list) };
    result
}

fn open(
    devices: &mut Vec<Option<Device>>,
    index: usize,
    device: *mut ibv_device,
) -> Result<(), Errno> {
    if devices.len() <= index {
        devices.resize_with(index + 1, || None);
    }
    if devices[index].is_some() {
        return Ok(());
    }
    // SAFETY: the device is of a list that is held.
    let context = object(unsafe { verbs::ibv_open_device(device) })?;
    // SAFETY: the context was just opened.
    let attr = match unsafe { verbs::query_device(context) } {
        Ok(attr) => attr,
        Err(error) => {
            // SAFETY: nobody else knows the context.
            unsafe { verbs::ibv_close_device(context) };
            return Err(error);
        }
    };
    let at_most_255 = |limit: c_int| u8::try_from(limit.max(0)).unwrap_or(u8::MAX);
    devices[index] = Some(Device {
        context,
        pd: std::ptr::null_mut(),
        xrcd: std::ptr::null_mut(),
        users: 0,
        limits: Limits {
            responder_resources: at_most_255(attr.max_qp_rd_atom),
            initiator_depth: at_most_255(attr.max_qp_init_rd_atom),
        },
    });
    Ok(())
}

fn get_devices() -> Result<Vec<*mut ibv_context>, Errno> {
    crate::private::functions()?;
    let mut devices = lock();
    let count = with_list(|list| {
        for (index, device) in list.iter().enumerate() {
            // A device that cannot be opened is left out, as upstream leaves it.
            let _ = open(&mut devices, index, *device);
        }
        Ok(list.len())
    })?;
    let open = devices.iter_mut().take(count).flatten();
    Ok(open
        .map(|device| {
            device.users += 1;
            device.context
        })
        .collect())
}

/// `rdma_get_devices`: the open devices, ended by NULL.
///
/// # Safety
/// `num_devices` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_get_devices(num_devices: *mut c_int) -> *mut *mut ibv_context {
    let list = entry(|| {
        let mut contexts = get_devices()?;
        let count = contexts.len();
        contexts.push(std::ptr::null_mut());
        if !num_devices.is_null() {
            // SAFETY: the caller's promise.
            unsafe { num_devices.write(c_int::try_from(count).unwrap_or(c_int::MAX)) };
        }
        Ok(Box::into_raw(contexts.into_boxed_slice()).cast::<*mut ibv_context>())
    });
    if list.is_null() && !num_devices.is_null() {
        // SAFETY: the caller's promise.
        unsafe { num_devices.write(0) };
    }
    list
}

/// `rdma_free_devices`.
///
/// # Safety
/// `list` is NULL or came from [`rdma_get_devices`], unchanged, and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_free_devices(list: *mut *mut ibv_context) {
    entry(|| {
        if list.is_null() {
            return Ok(());
        }
        let mut length = 0;
        // SAFETY: the list ends in NULL.
        while !unsafe { *list.add(length) }.is_null() {
            length += 1;
        }
        let slice = std::ptr::slice_from_raw_parts_mut(list, length + 1);
        // SAFETY: it was a boxed slice of this length.
        let contexts = unsafe { Box::from_raw(slice) };
        let mut devices = lock();
        for context in &contexts[..length] {
            let index = devices
                .iter()
                .position(|device| device.as_ref().is_some_and(|d| d.context == *context));
            if let Some(index) = index {
                release(&mut devices, index);
            }
        }
        Ok(())
    });
}
