//! The one MPI runtime of a process: `libferriband_mpi.so.1`.
//!
//! Owns: all state of MPI in this process: objects and their handles, which receive takes which
//! message, requests, progress, the channels to other ranks, wire-up. Must not know: which ABI
//! calls it; faces reach it through the private symbols of [`abi`], where a handle is a number and
//! a count has 64 bits. Raw memory is touched in [`abi`] (what the program passed), [`ground`] (the
//! program's memory in requests), [`job::state`] (the runtime's place), [`transport::host`] and
//! [`transport::shm`] (the segment) and `transport/verbs/memory.rs` (what a device writes) alone.
//!
//! Rooms, each described at the head of its `mod.rs`: [`ground`], [`objects`], [`transport`],
//! [`p2p`], [`job`], [`coll`], [`abi`].
//!
//! How it hangs together: [`abi`] checks arguments and enters [`coll::state::Mpi`]; [`p2p`] starts
//! sends and receives, which become [`p2p::request`]s unless they are over at once;
//! [`p2p::progress`] looks at the channels, hands what has come to its receive, and sends what had
//! to wait; [`coll`] lies above: its collectives are made of sends and receives in the
//! communicator's second context, and go on after each round of messages; [`job::wait`] calls for
//! rounds until something is done, and puts the process to sleep when nothing comes.

/// Writes a line to standard error. Where that takes nothing, a pipe that nobody reads or a full
/// disk, the line is lost, and the program goes on.
macro_rules! complain {
    ($($words:tt)*) => {{
        let _ = std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("{}\n", format_args!($($words)*)),
        );
    }};
}

pub mod abi;
pub mod coll;
pub mod ground;
pub mod job;
pub mod objects;
pub mod p2p;
pub mod transport;

// What every room uses, by a path that needs no room's name.
pub(crate) use ground::{constants, errors, handle, trace};
