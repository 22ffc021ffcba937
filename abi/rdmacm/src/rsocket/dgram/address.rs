//! UDP sockets of the system and their addresses.

use crate::address;
use crate::boundary::{Errno, errno};
use libc::{c_int, sockaddr, sockaddr_storage, socklen_t};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// A UDP socket of the system, by a system call: the C library's `socket` may be a preload's that calls us.
pub fn udp_socket(domain: c_int) -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_socket, domain, kind, 0) };
    match RawFd::try_from(fd) {
        // SAFETY: the descriptor was just made.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(errno()),
    }
}

/// An IPv4 address that a socket of IPv6 sees, as what it is.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => {
            SocketAddr::new(address.ip().to_canonical(), address.port())
        }
        _ => address,
    }
}

/// The address that a socket is bound to.
pub fn name_of(fd: RawFd) -> Result<SocketAddr, Errno> {
    // SAFETY: zeros are an address of no family.
    let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut length = size_of::<sockaddr_storage>() as socklen_t;
    // SAFETY: the place has this length.
    if unsafe { libc::getsockname(fd, (&raw mut storage).cast(), &raw mut length) } != 0 {
        return Err(errno());
    }
    // SAFETY: the kernel's address.
    unsafe { from_raw((&raw const storage).cast(), length) }
}

/// An address as Rust has it. EINVAL if it is too short, EAFNOSUPPORT for other families.
///
/// # Safety
/// `address` is NULL or has `length` bytes.
pub unsafe fn from_raw(address: *const sockaddr, length: socklen_t) -> Result<SocketAddr, Errno> {
    if address.is_null() || (length as usize) < size_of::<libc::sa_family_t>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's promise.
    let family = c_int::from(unsafe { address.cast::<libc::sa_family_t>().read_unaligned() });
    // SAFETY: as above; the length follows from the family alone.
    let needed = match family {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => return Err(libc::EAFNOSUPPORT),
    };
    if (length as usize) < needed {
        return Err(libc::EINVAL);
    }
    if family == libc::AF_INET {
        // SAFETY: the address has these bytes.
        let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
        let ip = u32::from_be(v4.sin_addr.s_addr).into();
        return Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into());
    }
    // SAFETY: the address has these bytes.
    let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
    let port = u16::from_be(v6.sin6_port);
    let ip = v6.sin6_addr.s6_addr.into();
    Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
}

/// An address as the system has it, and its length.
pub fn to_storage(address: &SocketAddr) -> (sockaddr_storage, socklen_t) {
    // SAFETY: zeros are an address of no family.
    let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
    let place = &raw mut storage;
    match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from(*v4.ip()).to_be(),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: any address fits into the storage.
            unsafe { place.cast::<libc::sockaddr_in>().write(raw) };
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { place.cast::<libc::sockaddr_in6>().write(raw) };
        }
    }
    // SAFETY: an address of its family.
    let length = unsafe { address::length(place.cast_const().cast()) }.unwrap_or(0);
    (storage, length)
}
