//! Data movement, at once and triggered.
//!
//! Owns: the C names. Must not know: how bytes move.

use crate::objects::CtEventC;
use crate::types::{MeC, ProcessC, ack};
use crate::{give, status, taken};
use ferriband_portals::{self as portals, with};
use ferriband_portals_proto::{
    ArrivalOp, AtomicOp, Datatype, Handle, List, Local, Operation, PtlError,
};
use std::ffi::{c_int, c_void};

/// When an operation begins: at once, or when a counter reaches a threshold.
type Trigger = Option<(u32, u64)>;

/// Begins an operation, or leaves it to its trigger.
fn begin(md: u32, operation: Operation, trigger: Trigger) -> Result<(), PtlError> {
    let md = Handle::from_bits(md);
    match trigger {
        None => portals::start(md, operation),
        Some((ct, threshold)) => with(md, |interface| {
            interface.triggered(operation, Handle::from_bits(ct), threshold)
        }),
    }
}

/// What all of them say.
struct Common {
    length: u64,
    target: ProcessC,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
}

impl Common {
    fn operation(&self, md: u32, op: ArrivalOp) -> Operation {
        Operation {
            op,
            put: None,
            get: None,
            length: self.length,
            ack: ferriband_portals_proto::AckRequest::None,
            target: self.target.peer(Handle::from_bits(md)),
            pt_index: self.pt_index,
            match_bits: self.match_bits,
            remote_offset: self.remote_offset,
            user_ptr: self.user_ptr.expose_provenance() as u64,
            hdr_data: self.hdr_data,
            atomic: None,
            operand: [0; 32],
        }
    }

    fn put(&self, md: u32, offset: u64, request: u8) -> Result<Operation, PtlError> {
        Ok(Operation {
            put: local(md, offset),
            ack: ack(request)?,
            ..self.operation(md, ArrivalOp::Put)
        })
    }

    fn get(&self, md: u32, offset: u64) -> Operation {
        Operation {
            get: local(md, offset),
            ..self.operation(md, ArrivalOp::Get)
        }
    }

    /// A fetching atomic or a swap: from where bytes go, and where those before go to.
    fn exchange(
        &self,
        md: u32,
        op: ArrivalOp,
        (get, put): (Option<Local>, Option<Local>),
        atomic: Option<(AtomicOp, Datatype)>,
    ) -> Operation {
        Operation {
            put,
            get,
            atomic,
            ..self.operation(md, op)
        }
    }
}

fn local(md: u32, offset: u64) -> Option<Local> {
    let md = Handle::from_bits(md);
    Some(Local { md, offset })
}

fn atomic(operation: u8, datatype: u8) -> Result<Option<(AtomicOp, Datatype)>, PtlError> {
    let pair = AtomicOp::from_code(operation).zip(Datatype::from_code(datatype));
    pair.map(Some).ok_or(PtlError::ArgInvalid)
}

/// The operand of a swap that has one.
///
/// # Safety
/// One value of the datatype, or null.
unsafe fn operand(
    from: *const c_void,
    atomic: Option<(AtomicOp, Datatype)>,
) -> Result<[u8; 32], PtlError> {
    let mut operand = [0; 32];
    if let Some((op, datatype)) = atomic
        && op.has_operand()
    {
        if from.is_null() {
            return Err(PtlError::ArgInvalid);
        }
        let size = datatype.size_bytes() as usize;
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from.cast(), operand.as_mut_ptr(), size) };
    }
    Ok(operand)
}

/// PtlPut (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlPut(
    md: u32,
    local_offset: u64,
    length: u64,
    ack_request: u8,
    target: ProcessC,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
) -> c_int {
    status(|| {
        let common = Common {
            length,
            target,
            pt_index,
            match_bits,
            remote_offset,
            user_ptr,
            hdr_data,
        };
        begin(md, common.put(md, local_offset, ack_request)?, None)
    })
}

/// PtlGet (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlGet(
    md: u32,
    local_offset: u64,
    length: u64,
    target: ProcessC,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
) -> c_int {
    status(|| {
        let common = Common {
            length,
            target,
            pt_index,
            match_bits,
            remote_offset,
            user_ptr,
            hdr_data: 0,
        };
        begin(md, common.get(md, local_offset), None)
    })
}

/// PtlAtomic (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlAtomic(
    md: u32,
    local_offset: u64,
    length: u64,
    ack_request: u8,
    target: ProcessC,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
    operation: u8,
    datatype: u8,
) -> c_int {
    status(|| {
        let common = Common {
            length,
            target,
            pt_index,
            match_bits,
            remote_offset,
            user_ptr,
            hdr_data,
        };
        let operation = Operation {
            op: ArrivalOp::Atomic,
            atomic: atomic(operation, datatype)?,
            ..common.put(md, local_offset, ack_request)?
        };
        begin(md, operation, None)
    })
}

/// PtlFetchAtomic (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlFetchAtomic(
    get_md: u32,
    get_offset: u64,
    put_md: u32,
    put_offset: u64,
    length: u64,
    target: ProcessC,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
    operation: u8,
    datatype: u8,
) -> c_int {
    status(|| {
        let common = Common {
            length,
            target,
            pt_index,
            match_bits,
            remote_offset,
            user_ptr,
            hdr_data,
        };
        let atomic = atomic(operation, datatype)?;
        let places = (local(get_md, get_offset), local(put_md, put_offset));
        let operation = common.exchange(put_md, ArrivalOp::FetchAtomic, places, atomic);
        begin(put_md, operation, None)
    })
}

/// PtlSwap (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlSwap(
    get_md: u32,
    get_offset: u64,
    put_md: u32,
    put_offset: u64,
    length: u64,
    target: ProcessC,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
    operand_at: *const c_void,
    operation: u8,
    datatype: u8,
) -> c_int {
    status(|| {
        let common = Common {
            length,
            target,
            pt_index,
            match_bits,
            remote_offset,
            user_ptr,
            hdr_data,
        };
        let atomic = atomic(operation, datatype)?;
        let places = (local(get_md, get_offset), local(put_md, put_offset));
        let operation = Operation {
            // SAFETY: the caller's promise.
            operand: unsafe { operand(operand_at, atomic) }?,
            ..common.exchange(put_md, ArrivalOp::Swap, places, atomic)
        };
        begin(put_md, operation, None)
    })
}

/// PtlTriggeredPut (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlTriggeredPut(
    md: u32,
    local_offset: u64,
    length: u64,
    ack_request: u8,
    target: ProcessC,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
    ct: u32,
    threshold: u64,
) -> c_int {
    status(|| {
        let common = Common {
            length,
            target,
            pt_index,
            match_bits,
            remote_offset,
            user_ptr,
            hdr_data,
        };
        begin(
            md,
            common.put(md, local_offset, ack_request)?,
            Some((ct, threshold)),
        )
    })
}

/// PtlTriggeredGet (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlTriggeredGet(
    md: u32,
    local_offset: u64,
    length: u64,
    target: ProcessC,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    ct: u32,
    threshold: u64,
) -> c_int {
    status(|| {
        let common = Common {
            length,
            target,
            pt_index,
            match_bits,
            remote_offset,
            user_ptr,
            hdr_data: 0,
        };
        begin(md, common.get(md, local_offset), Some((ct, threshold)))
    })
}

/// PtlTriggeredAtomic (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlTriggeredAtomic(
    md: u32,
    local_offset: u64,
    length: u64,
    ack_request: u8,
    target: ProcessC,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
    operation: u8,
    datatype: u8,
    ct: u32,
    threshold: u64,
) -> c_int {
    status(|| {
        let common = Common {
            length,
            target,
            pt_index,
            match_bits,
            remote_offset,
            user_ptr,
            hdr_data,
        };
        let operation = Operation {
            op: ArrivalOp::Atomic,
            atomic: atomic(operation, datatype)?,
            ..common.put(md, local_offset, ack_request)?
        };
        begin(md, operation, Some((ct, threshold)))
    })
}

/// PtlTriggeredFetchAtomic (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlTriggeredFetchAtomic(
    get_md: u32,
    get_offset: u64,
    put_md: u32,
    put_offset: u64,
    length: u64,
    target: ProcessC,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
    operation: u8,
    datatype: u8,
    ct: u32,
    threshold: u64,
) -> c_int {
    status(|| {
        let common = Common {
            length,
            target,
            pt_index,
            match_bits,
            remote_offset,
            user_ptr,
            hdr_data,
        };
        let atomic = atomic(operation, datatype)?;
        let places = (local(get_md, get_offset), local(put_md, put_offset));
        let operation = common.exchange(put_md, ArrivalOp::FetchAtomic, places, atomic);
        begin(put_md, operation, Some((ct, threshold)))
    })
}

/// PtlTriggeredSwap (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlTriggeredSwap(
    get_md: u32,
    get_offset: u64,
    put_md: u32,
    put_offset: u64,
    length: u64,
    target: ProcessC,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
    operand_at: *const c_void,
    operation: u8,
    datatype: u8,
    ct: u32,
    threshold: u64,
) -> c_int {
    status(|| {
        let common = Common {
            length,
            target,
            pt_index,
            match_bits,
            remote_offset,
            user_ptr,
            hdr_data,
        };
        let atomic = atomic(operation, datatype)?;
        let places = (local(get_md, get_offset), local(put_md, put_offset));
        let operation = Operation {
            // SAFETY: the caller's promise.
            operand: unsafe { operand(operand_at, atomic) }?,
            ..common.exchange(put_md, ArrivalOp::Swap, places, atomic)
        };
        begin(put_md, operation, Some((ct, threshold)))
    })
}

/// PtlAtomicSync (Portals 4.3): atomic operations that were told are in memory.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn PtlAtomicSync() -> c_int {
    status(|| {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        Ok(())
    })
}

/// PtlTriggeredCTInc (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlTriggeredCTInc(
    counter: u32,
    by: CtEventC,
    ct: u32,
    threshold: u64,
) -> c_int {
    status(|| {
        let (counter, ct) = (Handle::from_bits(counter), Handle::from_bits(ct));
        with(counter, |interface| {
            interface.triggered_ct_inc(counter, by.into(), ct, threshold)
        })
    })
}

/// PtlTriggeredCTSet (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlTriggeredCTSet(
    counter: u32,
    to: CtEventC,
    ct: u32,
    threshold: u64,
) -> c_int {
    status(|| {
        let (counter, ct) = (Handle::from_bits(counter), Handle::from_bits(ct));
        with(counter, |interface| {
            interface.triggered_ct_set(counter, to.into(), ct, threshold)
        })
    })
}

/// PtlTriggeredMEAppend (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlTriggeredMEAppend(
    ni: u32,
    index: u32,
    entry: *const MeC,
    to: u8,
    user_ptr: *mut c_void,
    handle: *mut u32,
    ct: u32,
    threshold: u64,
) -> c_int {
    status(|| {
        let (ni, ct) = (Handle::from_bits(ni), Handle::from_bits(ct));
        // SAFETY: the caller's promise.
        let init = unsafe { taken(entry)?.init(ni) }?;
        let list = match to {
            0 => List::Priority,
            1 => List::Overflow,
            _ => return Err(PtlError::ArgInvalid),
        };
        if handle.is_null() {
            return Err(PtlError::ArgInvalid);
        }
        let user = user_ptr.expose_provenance() as u64;
        let appended = with(ni, |interface| {
            interface.triggered_append(index, &init, list, user, ct, threshold)
        })?;
        // SAFETY: a place for the handle.
        unsafe { give(handle, appended.bits()) }
    })
}

/// PtlTriggeredMEUnlink (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlTriggeredMEUnlink(entry: u32, ct: u32, threshold: u64) -> c_int {
    status(|| {
        let (entry, ct) = (Handle::from_bits(entry), Handle::from_bits(ct));
        with(entry, |interface| {
            interface.triggered_unlink(entry, ct, threshold)
        })
    })
}
