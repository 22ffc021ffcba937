//! Socket addresses: their lengths by family, and the ports in them.

use crate::boundary::Errno;
use crate::sys::{
    self, RDMA_IB_IP_PORT_MASK, RDMA_IB_IP_PS_MASK, ib_addr, ib_addr__bindgen_ty_1,
    rdma_port_space, sockaddr_ib,
};
use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use std::mem::size_of;

/// `AF_IB` of Linux: an address that is a GID and a service.
pub const AF_IB: i32 = sys::AF_IB as i32;

/// Length of an address by its family; None for NULL and for families that there are not.
///
/// # Safety
/// `address` is NULL or points to an address of its family.
pub unsafe fn length(address: *const sockaddr) -> Option<socklen_t> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let length = match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => size_of::<sockaddr_in>(),
        libc::AF_INET6 => size_of::<sockaddr_in6>(),
        AF_IB => size_of::<sockaddr_ib>(),
        _ => return None,
    };
    Some(length as socklen_t)
}

/// The same where the address must be there; otherwise EINVAL.
///
/// # Safety
/// As for [`length`].
pub unsafe fn required(address: *const sockaddr) -> Result<socklen_t, Errno> {
    // SAFETY: the caller's promise.
    unsafe { length(address) }.ok_or(libc::EINVAL)
}

/// The same where the address may be missing: then 0.
///
/// # Safety
/// As for [`length`].
pub unsafe fn optional(address: *const sockaddr) -> Result<socklen_t, Errno> {
    if address.is_null() {
        return Ok(0);
    }
    // SAFETY: the caller's promise.
    unsafe { required(address) }
}

/// The port in an address, network order; 0 for unknown families.
///
/// # Safety
/// `address` points to an address of its family.
pub unsafe fn port(address: *const sockaddr) -> u16 {
    // SAFETY: the caller's promise, here and in each arm: the family says what lies there.
    match i32::from(unsafe { (*address).sa_family }) {
        // SAFETY: as above.
        libc::AF_INET => unsafe { (*address.cast::<sockaddr_in>()).sin_port },
        // SAFETY: as above.
        libc::AF_INET6 => unsafe { (*address.cast::<sockaddr_in6>()).sin6_port },
        AF_IB => {
            // SAFETY: as above.
            let service = unsafe { (*address.cast::<sockaddr_ib>()).sib_sid };
            (u64::from_be(service) as u16).to_be()
        }
        _ => 0,
    }
}

/// The AF_IB form of an IPv6 address whose bytes are a GID: the port becomes a service of the port space.
pub fn to_ib(space: rdma_port_space, address: &sockaddr_in6) -> sockaddr_ib {
    let port = u16::from_be(address.sin6_port);
    let mut mask = 0;
    if space != 0 {
        mask |= RDMA_IB_IP_PS_MASK;
    }
    if port != 0 {
        mask |= RDMA_IB_IP_PORT_MASK;
    }
    sockaddr_ib {
        sib_family: AF_IB as u16,
        sib_pkey: 0xffff,
        sib_flowinfo: address.sin6_flowinfo,
        sib_addr: ib_addr {
            ib_u: ib_addr__bindgen_ty_1 {
                uib_addr8: address.sin6_addr.s6_addr,
            },
        },
        sib_sid: ((u64::from(space) << 16) + u64::from(port)).to_be(),
        sib_sid_mask: mask.to_be(),
        sib_scope_id: u64::from(address.sin6_scope_id),
    }
}
