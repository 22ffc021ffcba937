//! The IP addresses of a host.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv6Addr};

/// An address of an interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// One of its addresses.
    pub address: IpAddr,
    /// Whether it leads to this host alone.
    pub is_loopback: bool,
}

/// All addresses of all interfaces that are up, in the kernel's order; none if it tells of none.
pub fn interfaces() -> Vec<Interface> {
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

/// An interface that is up and has an IP address.
///
/// # Safety
/// An element of a list of getifaddrs.
unsafe fn of(one: &libc::ifaddrs) -> Option<Interface> {
    let flags = one.ifa_flags.cast_signed();
    if flags & libc::IFF_UP == 0 || one.ifa_addr.is_null() {
        return None;
    }
    // SAFETY: an address of some family.
    let family = unsafe { (*one.ifa_addr).sa_family };
    let address = match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: an address of IPv4.
            let found = unsafe { one.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            IpAddr::from(found.sin_addr.s_addr.to_ne_bytes())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of IPv6.
            let found = unsafe { one.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            IpAddr::from(Ipv6Addr::from(found.sin6_addr.s6_addr))
        }
        _ => return None,
    };
    // SAFETY: a string of the list's.
    let name = unsafe { CStr::from_ptr(one.ifa_name) };
    Some(Interface {
        name: name.to_string_lossy().into_owned(),
        address,
        is_loopback: flags & libc::IFF_LOOPBACK != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_leads_to_this_host_alone_if_its_address_says_so() {
        let all = interfaces();
        for one in &all {
            assert!(!one.name.is_empty());
            assert!(one.is_loopback || !one.address.is_loopback(), "{one:?}");
        }
        let listed = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
        let six = all.iter().filter(|one| one.address.is_ipv6());
        for one in six {
            let IpAddr::V6(address) = one.address else {
                continue;
            };
            let digits: String = address.octets().map(|byte| format!("{byte:02x}")).concat();
            assert!(listed.contains(&digits), "{one:?} of {listed}");
        }
    }
}
