//! The one MPI runtime of a process: `libferriband_mpi.so.1`.
//!
//! Owns: all state. Must not know: which ABI calls it; faces reach it through the private symbols of [`edge`].

pub mod abi;
mod constants;
pub mod edge;
