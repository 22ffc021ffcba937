//! Device memory: memory of the adapter that a program reaches by copying, and peers by mapping.

use crate::boundary::{entry, try_entry};
use crate::context::{Context, Shared};
use crate::object::{Object, input};
use ferriband_hca as hca;
use ferriband_verbs_sys as sys;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Weak};

/// Offsets and lengths of copies are multiples of this, as on adapters that have device memory.
const GRAIN: u64 = 4;
/// Largest alignment that can be asked for: the memory begins on a page.
const MAX_LOG_ALIGN: u32 = 12;

/// What only we see of device memory.
pub struct DmOwn {
    /// The adapter's memory.
    pub hca: Arc<hca::DeviceMemory>,
    is_import: bool,
    /// Where its handle is, unless the device is closed.
    shared: Weak<Shared>,
}

/// Device memory.
pub type Dm = Object<sys::ibv_dm, DmOwn>;

fn publish(
    context: &Context,
    memory: Arc<hca::DeviceMemory>,
    handle: u32,
    is_import: bool,
) -> *mut sys::ibv_dm {
    let c = sys::ibv_dm {
        context: context.as_c(),
        memcpy_to_dm: Some(memcpy_to_dm),
        memcpy_from_dm: Some(memcpy_from_dm),
        comp_mask: sys::IBV_DM_MASK_HANDLE,
        handle,
    };
    Dm::leak(
        c,
        DmOwn {
            hca: memory,
            is_import,
            shared: context.shared_weakly(),
        },
    )
}

/// `alloc_dm` of the context. A forked child may call it with an inherited context: the memory is the child's.
///
/// # Safety
/// `context` is a live context and `attr` readable.
pub unsafe extern "C" fn alloc_dm(
    context: *mut sys::ibv_context,
    attr: *mut sys::ibv_alloc_dm_attr,
) -> *mut sys::ibv_dm {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of_this_process(context) }?;
        // SAFETY: the caller's promise.
        let attr = unsafe { input(attr) }?;
        if attr.comp_mask != 0 || attr.log_align_req > MAX_LOG_ALIGN {
            return Err(libc::EINVAL);
        }
        let memory = context
            .hca()
            .alloc_dm(attr.length as u64)
            .map_err(|error| error.errno())?;
        let handle = context.shared().dms.add(Arc::clone(&memory));
        Ok(publish(context, memory, handle, false))
    })
}

/// `free_dm` of the context: EBUSY while a region names it.
///
/// # Safety
/// `dm` is live and no other thread uses it.
pub unsafe extern "C" fn free_dm(dm: *mut sys::ibv_dm) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let memory = unsafe { Dm::of(dm) }?;
        memory.hca.free().map_err(|error| error.errno())?;
        // SAFETY: the C part of live device memory.
        let handle = unsafe { (*memory.c()).handle };
        if let Some(shared) = memory.shared.upgrade() {
            shared.dms.remove(handle);
        }
        // SAFETY: the program gives the memory up.
        unsafe { Dm::free(dm) };
        Ok(0)
    })
}

/// `ibv_import_dm`: another name for device memory of the same process.
///
/// # Safety
/// `context` is a live context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_dm(
    context: *mut sys::ibv_context,
    dm_handle: u32,
) -> *mut sys::ibv_dm {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        let memory = context.shared().dms.get(dm_handle).ok_or(libc::ENOENT)?;
        Ok(publish(context, memory, dm_handle, true))
    })
}

/// `ibv_unimport_dm`: gives a name up; the memory stays.
///
/// # Safety
/// `dm` came from `ibv_import_dm` and is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_dm(dm: *mut sys::ibv_dm) {
    entry(|| {
        // SAFETY: the caller's promise.
        if unsafe { Dm::of(dm) }.is_ok_and(|memory| memory.is_import) {
            // SAFETY: the program gives the name up.
            unsafe { Dm::free(dm) };
        }
    });
}

/// Checks a range: aligned to [`GRAIN`] and inside `size`, without overflow.
fn check(offset: u64, length: usize, size: u64) -> Result<(), i32> {
    let length = length as u64;
    let is_aligned = offset.is_multiple_of(GRAIN) && length.is_multiple_of(GRAIN);
    let is_inside = offset.checked_add(length).is_some_and(|end| end <= size);
    if is_aligned && is_inside {
        Ok(())
    } else {
        Err(libc::EFAULT)
    }
}

unsafe extern "C" fn memcpy_to_dm(
    dm: *mut sys::ibv_dm,
    dm_offset: u64,
    host_addr: *const c_void,
    length: usize,
) -> c_int {
    try_entry(|| {
        // SAFETY: programs call it with the memory that holds the pointer.
        let memory = unsafe { Dm::of(dm) }?;
        check(dm_offset, length, memory.hca.length)?;
        let to = (memory.hca.addr() + dm_offset) as *mut c_void;
        // SAFETY: the range lies in the memory, and the program's buffer is readable by the API; the two do not overlap.
        unsafe { libc::memcpy(to, host_addr, length) };
        Ok(0)
    })
}

unsafe extern "C" fn memcpy_from_dm(
    host_addr: *mut c_void,
    dm: *mut sys::ibv_dm,
    dm_offset: u64,
    length: usize,
) -> c_int {
    try_entry(|| {
        // SAFETY: programs call it with the memory that holds the pointer.
        let memory = unsafe { Dm::of(dm) }?;
        check(dm_offset, length, memory.hca.length)?;
        let from = (memory.hca.addr() + dm_offset) as *const c_void;
        // SAFETY: the range lies in the memory, and the program's buffer is writable by the API; the two do not overlap.
        unsafe { libc::memcpy(host_addr, from, length) };
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_aligned_and_inside() {
        assert_eq!(check(4, 8, 12), Ok(()));
        assert_eq!(check(0, 0, 0), Ok(()));
        for (offset, length) in [(1, 4), (4, 3), (8, 8), (16, 4), (u64::MAX - 3, 8)] {
            assert_eq!(
                check(offset, length, 12),
                Err(libc::EFAULT),
                "{offset}+{length}"
            );
        }
    }
}
