//! Functions that wait, or look for what others wait for.
//!
//! Owns: their C names. Must not know: how one waits.

use crate::objects::CtEventC;
use crate::types::EventC;
use crate::{give, status};
use ferriband_portals as portals;
use ferriband_portals_proto::{Handle, PtlError, Taken};
use std::ffi::{c_int, c_uint};
use std::time::Duration;

/// ptl_time_t: milliseconds; PTL_TIME_FOREVER is none.
fn time(milliseconds: c_uint) -> Option<Duration> {
    (milliseconds != c_uint::MAX).then(|| Duration::from_millis(milliseconds.into()))
}

/// Handles in an array.
///
/// # Safety
/// An array of so many, or null.
unsafe fn handles(from: *const u32, count: c_uint) -> Result<Vec<Handle>, PtlError> {
    if from.is_null() || count == 0 || count > 1 << 16 {
        return Err(PtlError::ArgInvalid);
    }
    // SAFETY: the caller's promise.
    let bits = unsafe { std::slice::from_raw_parts(from, count as usize) };
    Ok(bits.iter().map(|bits| Handle::from_bits(*bits)).collect())
}

/// Gives an event; PTL_EQ_DROPPED if events before it are gone.
///
/// # Safety
/// A place for the event.
unsafe fn give_event(to: *mut EventC, taken: &Taken) -> Result<(), PtlError> {
    // SAFETY: the caller's promise.
    unsafe { give(to, EventC::from(&taken.event)) }?;
    match taken.dropped {
        true => Err(PtlError::EqDropped),
        false => Ok(()),
    }
}

/// PtlEQGet (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlEQGet(eq: u32, event: *mut EventC) -> c_int {
    status(|| {
        if event.is_null() {
            return Err(PtlError::ArgInvalid);
        }
        let taken = portals::eq_get(Handle::from_bits(eq))?;
        // SAFETY: a place for the event.
        unsafe { give_event(event, &taken) }
    })
}

/// PtlEQWait (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlEQWait(eq: u32, event: *mut EventC) -> c_int {
    status(|| {
        if event.is_null() {
            return Err(PtlError::ArgInvalid);
        }
        let (_, taken) = portals::eq_poll(&[Handle::from_bits(eq)], None)?;
        // SAFETY: a place for the event.
        unsafe { give_event(event, &taken) }
    })
}

/// PtlEQPoll (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlEQPoll(
    eqs: *const u32,
    count: c_uint,
    timeout: c_uint,
    event: *mut EventC,
    which: *mut c_uint,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let eqs = unsafe { handles(eqs, count) }?;
        if event.is_null() || which.is_null() {
            return Err(PtlError::ArgInvalid);
        }
        let (place, taken) = portals::eq_poll(&eqs, time(timeout))?;
        // SAFETY: a place for the number.
        unsafe { give(which, place as c_uint) }?;
        // SAFETY: a place for the event.
        unsafe { give_event(event, &taken) }
    })
}

/// PtlCTWait (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlCTWait(ct: u32, test: u64, event: *mut CtEventC) -> c_int {
    status(|| {
        if event.is_null() {
            return Err(PtlError::ArgInvalid);
        }
        let reached = portals::ct_wait(Handle::from_bits(ct), test)?;
        // SAFETY: a place for the value.
        unsafe { give(event, reached.into()) }
    })
}

/// PtlCTPoll (Portals 4.3).
///
/// # Safety
/// Pointers are as the header says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn PtlCTPoll(
    cts: *const u32,
    tests: *const u64,
    count: c_uint,
    timeout: c_uint,
    event: *mut CtEventC,
    which: *mut c_uint,
) -> c_int {
    status(|| {
        // SAFETY: the caller's promise.
        let cts = unsafe { handles(cts, count) }?;
        if tests.is_null() || event.is_null() || which.is_null() {
            return Err(PtlError::ArgInvalid);
        }
        // SAFETY: as many tests as counters.
        let tests = unsafe { std::slice::from_raw_parts(tests, cts.len()) };
        let tests: Vec<(Handle, u64)> = cts.into_iter().zip(tests.iter().copied()).collect();
        let (place, reached) = portals::ct_poll(&tests, time(timeout))?;
        // SAFETY: a place for the number.
        unsafe { give(which, place as c_uint) }?;
        // SAFETY: a place for the value.
        unsafe { give(event, reached.into()) }
    })
}
