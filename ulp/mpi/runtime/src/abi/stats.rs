//! The counters of this rank's traffic, and settings that measurements change: no functions of MPI, for programs that look for them by name (`ferriband_mpi.h`).

use crate::coll::state::enter;
use crate::transport::counters::{Told, ToldHeal};
use std::ffi::{CStr, c_char, c_int};

/// Writes the first `size` bytes of the counters to `to`, or all of them if that is more; bytes of all of them. -1 outside of MPI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_stats(to: *mut u64, size: usize) -> isize {
    let Some(guard) = enter() else {
        return -1;
    };
    let told = guard.transports.told();
    let whole = size_of::<Told>();
    if !to.is_null() {
        let source = std::ptr::from_ref(&told).cast::<u8>();
        // SAFETY: the program's memory, of so many bytes as it says; the counters are plain numbers.
        unsafe { std::ptr::copy_nonoverlapping(source, to.cast::<u8>(), size.min(whole)) };
    }
    whole as isize
}

/// Writes the first `size` bytes of each of the last heals to `to`, `most` at the most, the oldest
/// of them first; how many. -1 outside of MPI, or if `size` is no multiple of a number's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_heals(to: *mut u64, size: usize, most: usize) -> isize {
    let Some(guard) = enter() else {
        return -1;
    };
    if !size.is_multiple_of(size_of::<u64>()) {
        return -1;
    }
    let Some(heals) = guard.transports.last_heals() else {
        return 0;
    };
    let told = heals.len().min(most);
    let left_out = heals.len() - told;
    if !to.is_null() {
        for (at, heal) in heals.skip(left_out).enumerate() {
            let source = std::ptr::from_ref(heal).cast::<u8>();
            let bytes = size.min(size_of::<ToldHeal>());
            // SAFETY: the program's memory, of `most` times so many bytes as it says; a heal is
            // plain numbers.
            unsafe {
                std::ptr::copy_nonoverlapping(source, to.cast::<u8>().add(at * size), bytes);
            }
        }
    }
    told as isize
}

/// Changes the setting `name` to `value` while MPI runs: `acks` (`0`, `1`) or `design` (a name of one), so that a measurement can compare both within one run of the same
/// processes. All ranks call it, when no message is on its way. For tests, at any time:
/// `queue-pairs` to `error` has the connections of this rank fail. 0; -1 outside of MPI, or where
/// there is no such setting or value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_switch(name: *const c_char, value: *const c_char) -> c_int {
    if name.is_null() || value.is_null() {
        return -1;
    }
    // SAFETY: the program's strings, which end with a zero byte.
    let (name, value) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(value)) };
    let Some(mut guard) = enter() else {
        return -1;
    };
    match guard.transports.switch(name.to_bytes(), value.to_bytes()) {
        Some(Ok(())) => 0,
        Some(Err(_)) | None => -1,
    }
}
