//! `libferriband_sysfs.so`: shows programs the files that the kernel would have for our devices.
//!
//! Some programs look into `/sys/class/infiniband` or ask whether `/dev/infiniband/uverbs0` is a character device before they call the verbs
//! library. Preloaded, this library answers the C library's file functions for exactly these paths: `/sys/class/infiniband`,
//! `/sys/class/infiniband_verbs`, `/sys/class/infiniband_mad` and `/dev/infiniband`. Every other path goes to the C library after a comparison of
//! its beginning. A working directory may be there, too ([`working`]). A socket of NETLINK_RDMA, by which `rdma` of iproute2 asks the kernel about
//! devices, is answered, too ([`netlink`], [`sockets`]). And on a host of a live fabric `bind` to any address and `connect` to localhost are to that host's ([`address`]),
//! `getifaddrs` has an interface with that address ([`interfaces`]), and names are those of the fabric's hosts ([`names`]).
//!
//! Owns nothing that outlives a descriptor: what is there is asked of `libibverbs.so.1` at each call ([`ask`]), a file that was opened is a memory
//! file with its text, an open directory one with its path, a netlink socket one that is connected to itself. So there is nothing to
//! clean up, and a forked child goes on with its copies. It must not know what the files say.
//!
//! Not seen by it: programs that call the kernel without the C library (Go, static binaries), and what the C library does inside itself (`glob`,
//! `nftw`; `system` and `popen` start a program in [`working`]'s place).

mod address;
mod ask;
mod directories;
mod files;
mod interfaces;
mod links;
mod names;
mod netlink;
mod real;
mod sockets;
mod status;
mod working;

use ferriband_sanitizer::Inside;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Sets the thread's errno.
fn set_errno(errno: c_int) {
    // SAFETY: the address is the calling thread's own.
    unsafe { *libc::__errno_location() = errno };
}

/// The thread's errno.
fn errno() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

/// Ends an answer of ours: a failure sets errno and gives `failed`. A success leaves errno as it
/// was, because some programs look at it after calls that cannot fail (`find`, after the last of a
/// directory's entries). A panic must not reach the program: it is EIO. It has a frame of its own:
/// those of our functions, which call the C library's cancellation points, catch nothing.
#[inline(never)]
fn answer<T: PartialEq>(failed: T, body: impl FnOnce() -> Result<T, c_int>) -> T {
    let _inside = Inside::enter();
    let before = errno();
    match catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(libc::EIO)) {
        // the C library's function failed, and has set it
        Ok(value) if value == failed => value,
        Ok(value) => {
            set_errno(before);
            value
        }
        Err(errno) => {
            set_errno(errno);
            failed
        }
    }
}
