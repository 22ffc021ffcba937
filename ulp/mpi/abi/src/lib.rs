//! The MPI 5.0 standard ABI: `libmpi_abi.so.1`.
//!
//! Owns: the 664 entry points and those of extensions, which convert what a program passes and call
//! the runtime (`libferriband_mpi.so.1`), and the header, the compiler scripts and the table that
//! all of these are generated from (`cargo xtask mpi`). Must not know: any state. A handle of this
//! ABI is a pointer whose value is the runtime's number of it; a count of the plain functions is an
//! int, of those in `_c` an MPI_Count; the runtime takes 64 bits for both.
//!
//! Nothing here needs the standard library, so that a program pays for one copy of it, the runtime's.
#![cfg_attr(not(test), no_std)]

pub mod convert;
#[cfg(not(test))]
pub mod entries;
pub mod private;
pub mod thunks;

#[cfg(feature = "final")]
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        fn abort() -> !;
    }
    // SAFETY: the C library's abort takes nothing and does not return.
    unsafe { abort() }
}
