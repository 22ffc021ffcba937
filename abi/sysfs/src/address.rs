//! `bind` on a host of a live fabric: any address means that host's own, so that servers of two hosts may listen on one port.
//!
//! Hosts have addresses of 127.0.0.0/8, which reach each other on this machine without anybody's leave; `ferriband run --host` says which in the environment.

use crate::real;
use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::net::Ipv4Addr;

/// The host's address.
const VARIABLE: &str = "FERRIBAND_ADDRESS";

/// What "any address" is replaced with; None where nothing is.
///
/// # Safety
/// `address` is NULL or points to `length` bytes.
unsafe fn own(address: *const c_void, length: libc::socklen_t) -> Option<Own> {
    let length = length as usize;
    if address.is_null() || length < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the caller's promise.
    let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
    let host = || -> Option<Ipv4Addr> { std::env::var(VARIABLE).ok()?.parse().ok() };
    match c_int::from(family) {
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: as long as this structure.
            let mut given = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            if given.sin_addr.s_addr != libc::INADDR_ANY {
                return None;
            }
            given.sin_addr.s_addr = u32::from(host()?).to_be();
            Some(Own::V4(given))
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as long as this structure.
            let mut given = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            if given.sin6_addr.s6_addr != [0; 16] {
                return None;
            }
            given.sin6_addr.s6_addr = host()?.to_ipv6_mapped().octets();
            Some(Own::V6(given))
        }
        _ => None,
    }
}

enum Own {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

/// `bind`. A socket that takes IPv6 alone has no such address, and is bound as the program says.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(
    socket: c_int,
    address: *const c_void,
    length: libc::socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let replaced = unsafe { own(address, length) };
    let done = match &replaced {
        None => -1,
        Some(Own::V4(own)) => real::call!(
            -1,
            fn bind(socket => c_int, std::ptr::from_ref(own).cast() => *const c_void, size_of::<libc::sockaddr_in>() as libc::socklen_t => libc::socklen_t) -> c_int
        ),
        Some(Own::V6(own)) => real::call!(
            -1,
            fn bind(socket => c_int, std::ptr::from_ref(own).cast() => *const c_void, size_of::<libc::sockaddr_in6>() as libc::socklen_t => libc::socklen_t) -> c_int
        ),
    };
    let v6_alone =
        matches!(replaced, Some(Own::V6(_))) && done != 0 && crate::errno() == libc::EINVAL;
    if replaced.is_some() && !v6_alone {
        return done;
    }
    real::call!(-1, fn bind(socket => c_int, address => *const c_void, length => libc::socklen_t) -> c_int)
}
