//! Socket options that are an int, and the two programs that a socket can carry.
//!
//! Owns: the calls of setsockopt and getsockopt of this room. Must not know: which option means what.

use super::{FilterStep, last_errno, system};
use crate::Error;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option whose value is an int. `what` names it in the error.
pub(super) fn set(
    fd: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: i32,
    what: &'static str,
) -> Result<(), Error> {
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: value is ours and as long as len says.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), len) };
    if result == 0 {
        Ok(())
    } else {
        Err(system(what, last_errno()))
    }
}

/// Reads an option that is an array of ints; gives how many the kernel wrote.
pub(super) fn get<const N: usize>(
    fd: BorrowedFd<'_>,
    level: i32,
    name: i32,
    what: &'static str,
) -> Result<([u32; N], usize), Error> {
    let mut values = [0u32; N];
    let mut len = size_of_val(&values) as libc::socklen_t;
    // SAFETY: values is ours and as long as len says.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw mut values).cast(),
            &raw mut len,
        )
    };
    if result == 0 {
        Ok((values, (len as usize / size_of::<u32>()).min(N)))
    } else {
        Err(system(what, last_errno()))
    }
}

/// Hands a classic BPF program to a socket, by SO_ATTACH_FILTER or SO_ATTACH_REUSEPORT_CBPF.
pub(super) fn attach(
    fd: BorrowedFd<'_>,
    name: i32,
    program: &[FilterStep],
    what: &'static str,
) -> Result<(), Error> {
    let len = u16::try_from(program.len()).map_err(|_| Error::Invalid {
        what: "a filter program has at most 4,096 instructions",
    })?;
    let program = libc::sock_fprog {
        len,
        // The kernel only reads it.
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: the structure is of the length given; it points to `len` instructions, whose layout is the kernel's, and they
    // live until the call returns, which copies them.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(system(what, last_errno()))
    }
}

/// Chooses the interface that IPv4 groups are sent on.
pub(super) fn set_group_interface(fd: BorrowedFd<'_>, ifindex: u32) -> Result<(), Error> {
    let value = libc::ip_mreqn {
        imr_multiaddr: libc::in_addr { s_addr: 0 },
        imr_address: libc::in_addr { s_addr: 0 },
        imr_ifindex: ifindex as i32,
    };
    // SAFETY: value is ours and as long as the length says.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MULTICAST_IF,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(system("IP_MULTICAST_IF", last_errno()))
    }
}
