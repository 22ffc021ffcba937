//! The one MPI runtime of a process: `libferriband_mpi.so.1`.
//!
//! Owns: all state of MPI in this process: objects and their handles, which receive takes which
//! message, requests, progress, the channels to other ranks, wire-up. Must not know: which ABI
//! calls it; faces reach it through the private symbols of [`edge`], where a handle is a number and
//! a count has 64 bits. Raw memory is touched in [`edge`] (what the program passed), [`host`] (the
//! segment) and `net/memory.rs` (what a device writes) alone.
//!
//! How it hangs together: [`edge`] checks arguments and enters the [`runtime::Runtime`]; [`p2p`] starts sends and receives, which become
//! [`request`]s unless they are over at once; [`progress`] looks at the channels, hands what has come to its receive, and sends what had to wait;
//! [`wait`] calls that until something is done, and puts the process to sleep when nothing comes. Collectives are made of sends and receives in
//! the communicator's second context ([`collective`]).

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
pub mod attr;
pub mod collective;
pub mod comm;
pub mod constants;
pub mod crew;
pub mod datatype;
pub mod edge;
pub mod errors;
pub mod group;
pub mod handle;
pub mod host;
pub mod info;
pub mod init;
pub mod loss;
pub mod nearby;
pub mod net;
pub mod operation;
pub mod p2p;
pub mod pace;
pub mod placed;
pub mod process;
pub mod progress;
pub mod request;
pub mod runtime;
pub mod settings;
pub mod straight;
pub mod topology;
pub mod trace;
pub mod types;
pub mod wait;
pub mod wireup;
