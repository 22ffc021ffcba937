//! `bind` and `connect` on a host of a live fabric: any address means that host's own, so that servers of two hosts may listen on one port, and who asks for
//! localhost finds them there.
//!
//! Hosts have addresses of 127.0.0.0/8, which reach each other on this machine without anybody's leave; `ferriband run --host` says which in the environment.

use crate::real;
use std::ffi::{CStr, c_int, c_void};
use std::mem::size_of;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The host's address.
const VARIABLE: &CStr = c"FERRIBAND_ADDRESS";

/// Allocates nothing: programs call `connect` anywhere.
fn host() -> Option<Ipv4Addr> {
    // SAFETY: a C string; who changes the environment while others read it is as wrong as with any getenv.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: ends with a zero.
    unsafe { CStr::from_ptr(value) }.to_str().ok()?.parse().ok()
}

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

/// Where a stream to localhost goes instead: to the host's own address, if somebody listens there. None where nothing is replaced.
///
/// # Safety
/// `address` is NULL or points to `length` bytes.
unsafe fn at_home(socket: c_int, address: *const c_void, length: libc::socklen_t) -> Option<Own> {
    let host = host()?;
    let length = length as usize;
    if address.is_null() || length < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the caller's promise.
    let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
    let (port, own) = match c_int::from(family) {
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: as long as this structure.
            let mut given = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            if Ipv4Addr::from(u32::from_be(given.sin_addr.s_addr)) != Ipv4Addr::LOCALHOST {
                return None;
            }
            given.sin_addr.s_addr = u32::from(host).to_be();
            (given.sin_port, Own::V4(given))
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as long as this structure.
            let mut given = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let to = Ipv6Addr::from(given.sin6_addr.s6_addr);
            if to != Ipv6Addr::LOCALHOST && to != Ipv4Addr::LOCALHOST.to_ipv6_mapped() {
                return None;
            }
            given.sin6_addr.s6_addr = host.to_ipv6_mapped().octets();
            (given.sin6_port, Own::V6(given))
        }
        _ => return None,
    };
    (is_stream(socket) && listens(host, port)).then_some(own)
}

fn is_stream(socket: c_int) -> bool {
    let mut kind: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: a value of the length that is told.
    let done = unsafe {
        libc::getsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_TYPE,
            (&raw mut kind).cast(),
            &raw mut length,
        )
    };
    done == 0 && kind == libc::SOCK_STREAM
}

/// Whether somebody listens at this address and port (in the network's order): a socket of ours cannot have it then. Nobody notices.
fn listens(host: Ipv4Addr, port: u16) -> bool {
    // SAFETY: a new socket, which is closed below.
    let probe = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if probe < 0 {
        return false;
    }
    let (one, length): (c_int, _) = (1, size_of::<c_int>() as libc::socklen_t);
    let at = libc::sockaddr_in {
        sin_family: libc::AF_INET as _,
        sin_port: port,
        sin_addr: libc::in_addr {
            s_addr: u32::from(host).to_be(),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: the option's value and the address are as long as is told.
    let (bound, error) = unsafe {
        // connections that were there a moment ago do not count
        libc::setsockopt(
            probe,
            libc::SOL_SOCKET,
            libc::SO_REUSEADDR,
            (&raw const one).cast(),
            length,
        );
        let bound = libc::bind(
            probe,
            (&raw const at).cast(),
            size_of::<libc::sockaddr_in>() as libc::socklen_t,
        );
        (bound, crate::errno())
    };
    // SAFETY: ours.
    unsafe { libc::close(probe) };
    bound != 0 && error == libc::EADDRINUSE
}

/// `connect`. On a host of a live fabric localhost is that host, and, where nobody listens on it, this machine. A socket that takes IPv6 alone goes to the machine.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(
    socket: c_int,
    address: *const c_void,
    length: libc::socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let replaced = unsafe { at_home(socket, address, length) };
    let done = match &replaced {
        None => -1,
        Some(Own::V4(own)) => real::call!(
            -1,
            fn connect(socket => c_int, std::ptr::from_ref(own).cast() => *const c_void, size_of::<libc::sockaddr_in>() as libc::socklen_t => libc::socklen_t) -> c_int
        ),
        Some(Own::V6(own)) => real::call!(
            -1,
            fn connect(socket => c_int, std::ptr::from_ref(own).cast() => *const c_void, size_of::<libc::sockaddr_in6>() as libc::socklen_t => libc::socklen_t) -> c_int
        ),
    };
    let v6_alone =
        matches!(replaced, Some(Own::V6(_))) && done != 0 && crate::errno() == libc::ENETUNREACH;
    if replaced.is_some() && !v6_alone {
        return done;
    }
    real::call!(-1, fn connect(socket => c_int, address => *const c_void, length => libc::socklen_t) -> c_int)
}
