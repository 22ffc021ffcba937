//! What every room stands on: constants and errors of MPI, the status of a message, handles and
//! slabs, the program's memory, locks and sleeping threads, the trace.
//!
//! Owns: no state of MPI; types and the accesses to memory that a call has named. Must not know:
//! communicators, requests, transports, jobs. It uses `ulp/mpi/data`, `ulp/host` and `ulp/trace`.

pub mod array;
pub mod constants;
pub mod context;
pub mod errors;
pub mod fresh;
pub mod handle;
pub(crate) mod hints;
pub mod job;
pub(crate) mod layout;
pub mod lock;
pub(crate) mod memory;
pub mod sleepers;
pub mod status;
pub mod trace;
