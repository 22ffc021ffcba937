//! The counters of this rank's traffic: no function of MPI, for programs that look for it by name (`ferriband_mpi.h`).

use super::state::enter;
use crate::net::stats::Told;

/// Writes the first `size` bytes of the counters to `to`, or all of them if that is more; bytes of all of them. -1 outside of MPI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_mpi_stats(to: *mut u64, size: usize) -> isize {
    let Some(guard) = enter() else {
        return -1;
    };
    let told = guard.told();
    let whole = size_of::<Told>();
    if !to.is_null() {
        let source = std::ptr::from_ref(&told).cast::<u8>();
        // SAFETY: the program's memory, of so many bytes as it says; the counters are plain numbers.
        unsafe { std::ptr::copy_nonoverlapping(source, to.cast::<u8>(), size.min(whole)) };
    }
    whole as isize
}
