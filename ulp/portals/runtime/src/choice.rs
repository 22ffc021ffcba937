//! Where a process listens: addresses of its interfaces, the best first.
//!
//! Owns: which interfaces there are, and their order: one that is up, then the loopback one.
//! Must not know: adapters.

use std::ffi::CStr;
use std::net::Ipv4Addr;

/// The user whom the process works for.
pub(crate) fn uid() -> u32 {
    // SAFETY: a call without arguments.
    unsafe { libc::geteuid() }
}

/// IPv4 addresses to try, in order; those of one interface alone, if one is wanted.
pub(crate) fn addresses(wanted: &str) -> Vec<Ipv4Addr> {
    let mut found = interfaces();
    if !wanted.is_empty() {
        found.retain(|one| one.name == wanted);
    }
    found.sort_by_key(|one| one.is_loopback);
    found.into_iter().map(|one| one.address).collect()
}

struct Found {
    name: String,
    address: Ipv4Addr,
    is_loopback: bool,
}

fn interfaces() -> Vec<Found> {
    let mut first = std::ptr::null_mut();
    // SAFETY: a place for the list.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut at: *const libc::ifaddrs = first;
    // SAFETY: each element of the list, to its end, lives until it is freed.
    while let Some(one) = unsafe { at.as_ref() } {
        at = one.ifa_next;
        // SAFETY: an element of the list.
        found.extend(unsafe { of(one) });
    }
    // SAFETY: the list, once.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// An interface that is up and has an IPv4 address.
///
/// # Safety
/// An element of a list of getifaddrs.
unsafe fn of(one: &libc::ifaddrs) -> Option<Found> {
    let flags = one.ifa_flags.cast_signed();
    if flags & libc::IFF_UP == 0 || one.ifa_addr.is_null() {
        return None;
    }
    // SAFETY: an address of some family.
    let family = unsafe { (*one.ifa_addr).sa_family };
    if i32::from(family) != libc::AF_INET {
        return None;
    }
    // SAFETY: an address of IPv4.
    let address = unsafe { one.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
    // SAFETY: a string of the list's.
    let name = unsafe { CStr::from_ptr(one.ifa_name) };
    Some(Found {
        name: name.to_string_lossy().into_owned(),
        address: Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)),
        is_loopback: flags & libc::IFF_LOOPBACK != 0,
    })
}
