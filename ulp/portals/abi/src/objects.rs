//! Objects: interfaces, table entries, descriptors, entries, counters, event queues.
//!
//! Owns: their C functions but for those that wait. Must not know: what they do.

use crate::types::{LeC, LimitsC, MdC, MeC, ProcessC};
use crate::{give, status, status_of, taken};
use ferriband_portals::{self as portals, with};
use ferriband_portals_proto::{
    CtEvent, EntryInit, Handle, Limits, List, NiKind, Peer, Process, PtOptions, PtlError, SearchOp,
    StatusRegister,
};
use std::ffi::{c_int, c_uint, c_void};

/// ptl_ct_event_t.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CtEventC {
    success: u64,
    failure: u64,
}

impl From<CtEventC> for CtEvent {
    fn from(c: CtEventC) -> CtEvent {
        let CtEventC { success, failure } = c;
        CtEvent { success, failure }
    }
}

impl From<CtEvent> for CtEventC {
    fn from(event: CtEvent) -> CtEventC {
        let CtEvent { success, failure } = event;
        CtEventC { success, failure }
    }
}

fn list(code: u8) -> Result<List, PtlError> {
    match code {
        0 => Ok(List::Priority),
        1 => Ok(List::Overflow),
        _ => Err(PtlError::ArgInvalid),
    }
}

fn user(pointer: *mut c_void) -> u64 {
    pointer.expose_provenance() as u64
}

/// PtlInit (Portals 4.3).
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn PtlInit() -> c_int {
    status_of(|| {
        portals::init();
        Ok(())
    })
}

/// PtlFini (Portals 4.3).
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn PtlFini() {
    status_of(|| {
        portals::fini();
        Ok(())
    });
}

/// PtlAbort (Portals 4.3).
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn PtlAbort() {
    status_of(|| {
        portals::abort();
        Ok(())
    });
}

/// PtlHandleIsEqual (Portals 4.3): 1 if both name the same object, else 0.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn PtlHandleIsEqual(one: u32, other: u32) -> c_int {
    c_int::from(one == other)
}

/// PtlNIInit (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlNIInit(
    iface: c_uint,
    options: c_uint,
    pid: u32,
    desired: *const LimitsC,
    actual: *mut LimitsC,
    ni: *mut u32,
) -> c_int {
    status(|| {
        // one kind of each pair
        let kind = match options {
            0b0101 => (true, true),
            0b1001 => (true, false),
            0b0110 => (false, true),
            0b1010 => (false, false),
            _ => return Err(PtlError::ArgInvalid),
        };
        if ni.is_null() || iface != c_uint::MAX && iface != 0 {
            return Err(PtlError::ArgInvalid);
        }
        let (matching, logical) = kind;
        let kind = NiKind { matching, logical };
        // SAFETY: the caller's promise.
        let desired = unsafe { desired.as_ref() }.map(Limits::from);
        let (handle, limits) = portals::ni_init(kind, pid, desired.as_ref())?;
        if !actual.is_null() {
            // SAFETY: a place for the limits.
            unsafe { actual.write(LimitsC::from(&limits)) };
        }
        // SAFETY: a place for the handle.
        unsafe { give(ni, handle.bits()) }
    })
}

/// PtlNIFini (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlNIFini(ni: u32) -> c_int {
    status(|| portals::ni_fini(Handle::from_bits(ni)))
}

/// PtlNIStatus (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlNIStatus(ni: u32, register: c_uint, value: *mut c_int) -> c_int {
    status(|| {
        let register = match register {
            0 => StatusRegister::DropCount,
            1 => StatusRegister::PermissionViolations,
            2 => StatusRegister::OperationViolations,
            _ => return Err(PtlError::ArgInvalid),
        };
        let read = with(Handle::from_bits(ni), |interface| {
            Ok(interface.status(register))
        })?;
        // SAFETY: a place for the value.
        unsafe { give(value, read) }
    })
}

/// PtlNIHandle (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlNIHandle(object: u32, ni: *mut u32) -> c_int {
    status(|| {
        let object = Handle::from_bits(object);
        let handle = with(object, |interface| match interface.owns(object) {
            true => Ok(interface.handle()),
            false => Err(PtlError::ArgInvalid),
        })?;
        // SAFETY: a place for the handle.
        unsafe { give(ni, handle.bits()) }
    })
}

/// PtlSetMap (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlSetMap(ni: u32, size: u64, mapping: *const ProcessC) -> c_int {
    status(|| {
        let count = usize::try_from(size).map_err(|_| PtlError::ArgInvalid)?;
        if mapping.is_null() || count == 0 || count > 1 << 24 {
            return Err(PtlError::ArgInvalid);
        }
        // SAFETY: so many processes.
        let mapping = unsafe { std::slice::from_raw_parts(mapping, count) };
        let map: Vec<Process> = mapping.iter().map(|process| process.process()).collect();
        portals::set_map(Handle::from_bits(ni), map)
    })
}

/// PtlGetMap (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlGetMap(
    ni: u32,
    size: u64,
    mapping: *mut ProcessC,
    actual: *mut u64,
) -> c_int {
    status(|| {
        let map = portals::map(Handle::from_bits(ni))?;
        if map.is_empty() || mapping.is_null() && size > 0 {
            return Err(PtlError::ArgInvalid);
        }
        let room = usize::try_from(size).unwrap_or(usize::MAX);
        for (rank, process) in map.iter().take(room).enumerate() {
            // SAFETY: a place for so many processes.
            unsafe {
                mapping
                    .add(rank)
                    .write(ProcessC::of(Peer::Physical(*process)))
            };
        }
        if actual.is_null() {
            return Ok(());
        }
        // SAFETY: a place for the size.
        unsafe { give(actual, map.len() as u64) }
    })
}

/// PtlGetUid (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlGetUid(ni: u32, uid: *mut u32) -> c_int {
    status(|| {
        let (_, _, own) = portals::identity(Handle::from_bits(ni))?;
        // SAFETY: a place for the user.
        unsafe { give(uid, own) }
    })
}

/// PtlGetId (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlGetId(ni: u32, id: *mut ProcessC) -> c_int {
    status(|| {
        let (process, rank, _) = portals::identity(Handle::from_bits(ni))?;
        let own = rank.map_or(Peer::Physical(process), Peer::Rank);
        // SAFETY: a place for the process.
        unsafe { give(id, ProcessC::of(own)) }
    })
}

/// PtlGetPhysId (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlGetPhysId(ni: u32, id: *mut ProcessC) -> c_int {
    status(|| {
        let (process, _, _) = portals::identity(Handle::from_bits(ni))?;
        // SAFETY: a place for the process.
        unsafe { give(id, ProcessC::of(Peer::Physical(process))) }
    })
}

/// PtlPTAlloc (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlPTAlloc(
    ni: u32,
    options: c_uint,
    eq: u32,
    wanted: u32,
    index: *mut u32,
) -> c_int {
    status(|| {
        let options = PtOptions::from_bits(options).ok_or(PtlError::ArgInvalid)?;
        let wanted = (wanted != u32::MAX).then_some(wanted);
        if index.is_null() {
            return Err(PtlError::ArgInvalid);
        }
        let eq = Handle::from_bits(eq);
        let given = with(Handle::from_bits(ni), |interface| {
            interface.pt_alloc(options, eq, wanted)
        })?;
        // SAFETY: a place for the index.
        unsafe { give(index, given) }
    })
}

/// PtlPTFree (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlPTFree(ni: u32, index: u32) -> c_int {
    status(|| with(Handle::from_bits(ni), |interface| interface.pt_free(index)))
}

/// PtlPTEnable (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlPTEnable(ni: u32, index: u32) -> c_int {
    status(|| {
        with(Handle::from_bits(ni), |interface| {
            interface.pt_enable(index)
        })
    })
}

/// PtlPTDisable (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlPTDisable(ni: u32, index: u32) -> c_int {
    status(|| portals::pt_disable(Handle::from_bits(ni), index))
}

/// PtlMDBind (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlMDBind(ni: u32, md: *const MdC, handle: *mut u32) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let init = unsafe { taken(md)?.init() }?;
        if handle.is_null() {
            return Err(PtlError::ArgInvalid);
        }
        let bound = portals::md_bind(Handle::from_bits(ni), &init)?;
        // SAFETY: a place for the handle.
        unsafe { give(handle, bound.bits()) }
    })
}

/// PtlMDRelease (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlMDRelease(md: u32) -> c_int {
    status(|| portals::md_release(Handle::from_bits(md)))
}

/// Appends an entry.
///
/// # Safety
/// A place for the handle.
unsafe fn append(
    ni: u32,
    index: u32,
    init: &EntryInit,
    to: u8,
    pointer: *mut c_void,
    handle: *mut u32,
) -> Result<(), PtlError> {
    let to = list(to)?;
    if handle.is_null() {
        return Err(PtlError::ArgInvalid);
    }
    let appended = with(Handle::from_bits(ni), |interface| {
        interface.entry_append(index, init, to, user(pointer))
    })?;
    // SAFETY: the caller's promise.
    unsafe { give(handle, appended.bits()) }
}

/// Searches unexpected headers.
fn search(
    ni: u32,
    index: u32,
    init: &EntryInit,
    op: u8,
    pointer: *mut c_void,
) -> Result<(), PtlError> {
    let op = match op {
        0 => SearchOp::Only,
        1 => SearchOp::Delete,
        _ => return Err(PtlError::ArgInvalid),
    };
    with(Handle::from_bits(ni), |interface| {
        interface.entry_search(index, init, op, user(pointer))
    })
}

/// Whether an interface's entries are of this kind.
fn of_kind(ni: u32, matching: bool) -> Result<Handle, PtlError> {
    let ni = Handle::from_bits(ni);
    match NiKind::from_index(ni.interface()).matching == matching {
        true => Ok(ni),
        false => Err(PtlError::ArgInvalid),
    }
}

/// PtlLEAppend (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlLEAppend(
    ni: u32,
    index: u32,
    entry: *const LeC,
    to: u8,
    user_ptr: *mut c_void,
    handle: *mut u32,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let init = unsafe { taken(entry)?.init(of_kind(ni, false)?) }?;
        // SAFETY: the caller's promise.
        unsafe { append(ni, index, &init, to, user_ptr, handle) }
    })
}

/// PtlLESearch (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlLESearch(
    ni: u32,
    index: u32,
    entry: *const LeC,
    op: u8,
    user_ptr: *mut c_void,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let init = unsafe { taken(entry)?.init(of_kind(ni, false)?) }?;
        search(ni, index, &init, op, user_ptr)
    })
}

/// PtlLEUnlink (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlLEUnlink(entry: u32) -> c_int {
    status(|| portals::le_unlink(Handle::from_bits(entry)))
}

/// PtlMEAppend (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlMEAppend(
    ni: u32,
    index: u32,
    entry: *const MeC,
    to: u8,
    user_ptr: *mut c_void,
    handle: *mut u32,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let init = unsafe { taken(entry)?.init(of_kind(ni, true)?) }?;
        // SAFETY: the caller's promise.
        unsafe { append(ni, index, &init, to, user_ptr, handle) }
    })
}

/// PtlMESearch (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlMESearch(
    ni: u32,
    index: u32,
    entry: *const MeC,
    op: u8,
    user_ptr: *mut c_void,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let init = unsafe { taken(entry)?.init(of_kind(ni, true)?) }?;
        search(ni, index, &init, op, user_ptr)
    })
}

/// PtlMEUnlink (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlMEUnlink(entry: u32) -> c_int {
    status(|| {
        let entry = Handle::from_bits(entry);
        with(entry, |interface| interface.entry_unlink(entry))
    })
}

/// PtlCTAlloc (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlCTAlloc(ni: u32, ct: *mut u32) -> c_int {
    status(|| {
        if ct.is_null() {
            return Err(PtlError::ArgInvalid);
        }
        let made = with(Handle::from_bits(ni), |interface| interface.ct_alloc())?;
        // SAFETY: a place for the handle.
        unsafe { give(ct, made.bits()) }
    })
}

/// PtlCTFree (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlCTFree(ct: u32) -> c_int {
    status(|| {
        let ct = Handle::from_bits(ct);
        with(ct, |interface| interface.ct_free(ct))
    })
}

/// PtlCTCancelTriggered (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlCTCancelTriggered(ct: u32) -> c_int {
    status(|| {
        let ct = Handle::from_bits(ct);
        with(ct, |interface| interface.ct_cancel_triggered(ct))
    })
}

/// PtlCTGet (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlCTGet(ct: u32, event: *mut CtEventC) -> c_int {
    status(|| {
        let read = portals::ct_get(Handle::from_bits(ct))?;
        // SAFETY: a place for the value.
        unsafe { give(event, read.into()) }
    })
}

/// PtlCTSet (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlCTSet(ct: u32, to: CtEventC) -> c_int {
    status(|| {
        let ct = Handle::from_bits(ct);
        with(ct, |interface| interface.ct_set(ct, to.into()))
    })
}

/// PtlCTInc (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlCTInc(ct: u32, by: CtEventC) -> c_int {
    status(|| {
        let ct = Handle::from_bits(ct);
        with(ct, |interface| interface.ct_inc(ct, by.into()))
    })
}

/// PtlEQAlloc (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlEQAlloc(ni: u32, count: u64, eq: *mut u32) -> c_int {
    status(|| {
        if eq.is_null() {
            return Err(PtlError::ArgInvalid);
        }
        let made = with(Handle::from_bits(ni), |interface| interface.eq_alloc(count))?;
        // SAFETY: a place for the handle.
        unsafe { give(eq, made.bits()) }
    })
}

/// PtlEQFree (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlEQFree(eq: u32) -> c_int {
    status(|| {
        let eq = Handle::from_bits(eq);
        with(eq, |interface| interface.eq_free(eq))
    })
}

/// PtlStartBundle (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlStartBundle(ni: u32) -> c_int {
    status(|| {
        with(Handle::from_bits(ni), |interface| {
            interface.start_bundle();
            Ok(())
        })
    })
}

/// PtlEndBundle (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlEndBundle(ni: u32) -> c_int {
    status(|| with(Handle::from_bits(ni), |interface| interface.end_bundle()))
}
