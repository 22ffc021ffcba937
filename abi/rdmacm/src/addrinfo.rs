//! Addresses by name: over the system's resolver.
//!
//! What is returned lies in the C library's heap, because programs take these structures apart.

use crate::address::{self, AF_IB};
use crate::boundary::{Errno, check, errno, set_errno};
use crate::private::functions;
use crate::services;
use crate::sys::{
    RAI_DNS, RAI_FAMILY, RAI_NUMERICHOST, RAI_PASSIVE, RAI_SA, RDMA_PS_IB, RDMA_PS_IPOIB,
    RDMA_PS_TCP, RDMA_PS_UDP, rdma_addrinfo, sockaddr_ib,
};
use ferriband_verbs_sys::{IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND};
use libc::{addrinfo, sockaddr, sockaddr_in6, socklen_t};
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

const PASSIVE: c_int = RAI_PASSIVE as c_int;
const NUMERIC: c_int = RAI_NUMERICHOST as c_int;
const FAMILY: c_int = RAI_FAMILY as c_int;

/// A failure: the resolver's own number, or an errno.
pub enum Failed {
    /// Of getaddrinfo(3).
    Resolver(c_int),
    /// Anything else.
    Errno(Errno),
}

impl Failed {
    /// As an errno.
    pub fn errno(self) -> Errno {
        match self {
            Failed::Errno(errno) => errno,
            Failed::Resolver(libc::EAI_AGAIN) => libc::EAGAIN,
            Failed::Resolver(libc::EAI_MEMORY) => libc::ENOMEM,
            Failed::Resolver(libc::EAI_SYSTEM) => errno(),
            Failed::Resolver(libc::EAI_FAMILY) => libc::EAFNOSUPPORT,
            Failed::Resolver(libc::EAI_BADFLAGS | libc::EAI_SOCKTYPE) => libc::EINVAL,
            // The name, the service, or an address of the name's: there is none.
            Failed::Resolver(_) => libc::ENOENT,
        }
    }
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Self {
        Failed::Errno(errno)
    }
}

/// The resolver's hints for ours.
fn system_hints(hints: &rdma_addrinfo) -> addrinfo {
    // SAFETY: zeros are NULL and 0.
    let mut out: addrinfo = unsafe { std::mem::zeroed() };
    if hints.ai_flags & PASSIVE != 0 {
        out.ai_flags |= libc::AI_PASSIVE;
    }
    if hints.ai_flags & NUMERIC != 0 {
        out.ai_flags |= libc::AI_NUMERICHOST;
    }
    if hints.ai_family != AF_IB {
        out.ai_family = hints.ai_family;
    }
    out.ai_socktype = match hints.ai_qp_type as u32 {
        IBV_QPT_RC | IBV_QPT_UC | IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV => libc::SOCK_STREAM,
        IBV_QPT_UD => libc::SOCK_DGRAM,
        _ => 0,
    };
    out.ai_protocol = match (hints.ai_port_space as u32, out.ai_socktype) {
        (RDMA_PS_TCP, _) | (RDMA_PS_IB, libc::SOCK_STREAM) => libc::IPPROTO_TCP,
        (RDMA_PS_IPOIB | RDMA_PS_UDP, _) | (RDMA_PS_IB, libc::SOCK_DGRAM) => libc::IPPROTO_UDP,
        _ => 0,
    };
    out
}

/// A copy of `bytes` in the C library's heap.
fn copy(bytes: &[u8]) -> Result<*mut u8, Errno> {
    // SAFETY: any size may be asked for.
    let place = unsafe { libc::malloc(bytes.len().max(1)) }.cast::<u8>();
    if place.is_null() {
        return Err(libc::ENOMEM);
    }
    // SAFETY: the place is new and long enough.
    unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(place)
}

/// A copy of an address in the C library's heap.
///
/// # Safety
/// The address has `length` bytes.
unsafe fn copy_address(from: *const sockaddr, length: socklen_t) -> Result<*mut sockaddr, Errno> {
    if from.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length as usize) };
    Ok(copy(bytes)?.cast())
}

/// The resolver's first answer, in our terms.
///
/// # Safety
/// `found` is an answer of the resolver.
unsafe fn take(
    out: &mut rdma_addrinfo,
    hints: Option<&rdma_addrinfo>,
    found: &addrinfo,
) -> Result<(), Errno> {
    let wanted_type = hints.map_or(0, |hints| hints.ai_qp_type);
    let wanted_space = hints.map_or(0, |hints| hints.ai_port_space);
    let wanted_flags = hints.map_or(0, |hints| hints.ai_flags);
    out.ai_qp_type = match (wanted_type, found.ai_socktype) {
        (0, libc::SOCK_STREAM) => IBV_QPT_RC as c_int,
        (0, libc::SOCK_DGRAM) => IBV_QPT_UD as c_int,
        (wanted, _) => wanted,
    };
    out.ai_port_space = match (wanted_space, found.ai_protocol) {
        (0, libc::IPPROTO_TCP) => RDMA_PS_TCP as c_int,
        (0, libc::IPPROTO_UDP) => RDMA_PS_UDP as c_int,
        (wanted, _) => wanted,
    };
    // A GID, written as an IPv6 address, becomes an address of InfiniBand's own family.
    let is_gid = hints.is_some_and(|hints| hints.ai_family == AF_IB)
        && wanted_flags & (FAMILY | NUMERIC) == FAMILY | NUMERIC
        && found.ai_family == libc::AF_INET6;
    let (address, length) = if is_gid {
        // SAFETY: the family says what lies there.
        let v6 = unsafe { &*found.ai_addr.cast::<sockaddr_in6>() };
        let ib = address::to_ib(out.ai_port_space as u32, v6);
        out.ai_family = AF_IB;
        let length = size_of::<sockaddr_ib>() as socklen_t;
        // SAFETY: the structure has this length.
        (
            unsafe { copy_address((&raw const ib).cast(), length) }?,
            length,
        )
    } else {
        out.ai_family = found.ai_family;
        // SAFETY: the resolver's answer.
        (
            unsafe { copy_address(found.ai_addr, found.ai_addrlen) }?,
            found.ai_addrlen,
        )
    };
    let name = if found.ai_canonname.is_null() {
        std::ptr::null_mut()
    } else {
        // SAFETY: the resolver's answer ends in NUL.
        unsafe { libc::strdup(found.ai_canonname) }
    };
    if wanted_flags & PASSIVE != 0 {
        out.ai_flags = PASSIVE;
        (out.ai_src_addr, out.ai_src_len, out.ai_src_canonname) = (address, length, name);
    } else {
        (out.ai_dst_addr, out.ai_dst_len, out.ai_dst_canonname) = (address, length, name);
    }
    Ok(())
}

/// Fills `out` in; what it holds after a failure is freed by the caller.
///
/// # Safety
/// Names end in NUL, the hints' addresses have their lengths.
unsafe fn fill(
    out: &mut rdma_addrinfo,
    node: *const c_char,
    service: *const c_char,
    hints: Option<&rdma_addrinfo>,
) -> Result<(), Failed> {
    if node.is_null() && service.is_null() {
        let hints = hints.ok_or(libc::EINVAL)?;
        out.ai_flags = hints.ai_flags;
        out.ai_family = hints.ai_family;
        out.ai_qp_type = hints.ai_qp_type;
        out.ai_port_space = hints.ai_port_space;
        if hints.ai_dst_len != 0 {
            // SAFETY: the caller's promise.
            out.ai_dst_addr = unsafe { copy_address(hints.ai_dst_addr, hints.ai_dst_len) }?;
            out.ai_dst_len = hints.ai_dst_len;
        }
    } else {
        let system = hints.map(system_hints);
        let system = system.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let mut found = std::ptr::null_mut();
        // SAFETY: the caller's promise; hints and the result's place live during the call.
        let answer = unsafe { libc::getaddrinfo(node, service, system, &raw mut found) };
        if answer != 0 {
            return Err(Failed::Resolver(answer));
        }
        // SAFETY: an answer has at least one entry.
        let taken = unsafe { take(out, hints, &*found) };
        // SAFETY: the answer is not used any more.
        unsafe { libc::freeaddrinfo(found) };
        taken?;
    }
    let source = hints.filter(|hints| hints.ai_src_len != 0 && out.ai_src_len == 0);
    if let Some(hints) = source {
        // SAFETY: the caller's promise.
        out.ai_src_addr = unsafe { copy_address(hints.ai_src_addr, hints.ai_src_len) }?;
        out.ai_src_len = hints.ai_src_len;
    }
    Ok(())
}

/// Looks a name up by the system's resolver. The result is freed by [`rdma_freeaddrinfo`].
///
/// # Safety
/// As for [`rdma_getaddrinfo`].
pub unsafe fn look_up(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
) -> Result<*mut rdma_addrinfo, Failed> {
    // SAFETY: the caller's promise.
    let hints = unsafe { hints.as_ref() };
    functions()?;
    // SAFETY: any size may be asked for; zeros are NULL and 0.
    let out = unsafe { libc::calloc(1, size_of::<rdma_addrinfo>()) }.cast::<rdma_addrinfo>();
    check(if out.is_null() { libc::ENOMEM } else { 0 })?;
    // SAFETY: the place is new; the rest is the caller's promise.
    let filled = unsafe { fill(&mut *out, node, service, hints) };
    if let Err(failed) = filled {
        // SAFETY: nobody else knows it.
        unsafe { rdma_freeaddrinfo(out) };
        return Err(failed);
    }
    Ok(out)
}

/// # Safety
/// As for [`rdma_getaddrinfo`].
unsafe fn get(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    res: *mut *mut rdma_addrinfo,
) -> Result<(), Failed> {
    if res.is_null() || (node.is_null() && service.is_null() && hints.is_null()) {
        return Err(libc::EINVAL.into());
    }
    const BY_ADMINISTRATION: c_int = RAI_SA as c_int;
    // SAFETY: the caller's promise.
    let flags = unsafe { hints.as_ref() }.map_or(0, |hints| hints.ai_flags);
    let found = match flags & BY_ADMINISTRATION {
        // SAFETY: the caller's promise.
        0 => unsafe { look_up(node, service, hints) }?,
        _ if !node.is_null() || flags & RAI_DNS as c_int != 0 => {
            return Err(libc::EOPNOTSUPP.into());
        }
        _ if service.is_null() => return Err(libc::EINVAL.into()),
        // SAFETY: the caller's promise. No port, or none that can be asked, has the service.
        _ => services::find(unsafe { CStr::from_ptr(service) }).map_err(|_| libc::ENOENT)?,
    };
    // SAFETY: the caller's promise, and it is not NULL.
    unsafe { res.write(found) };
    Ok(())
}

/// `rdma_getaddrinfo`: 0, a number of getaddrinfo(3), or -1 with errno.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    res: *mut *mut rdma_addrinfo,
) -> c_int {
    ferriband_cancel::shielded(|| {
        // SAFETY: the caller's promise.
        let body = AssertUnwindSafe(|| unsafe { get(node, service, hints, res) });
        let errno = match catch_unwind(body) {
            Ok(Ok(())) => return 0,
            Ok(Err(Failed::Resolver(answer))) => return answer,
            Ok(Err(Failed::Errno(errno))) => errno,
            Err(_) => libc::EIO,
        };
        set_errno(errno);
        -1
    })
}

/// `rdma_freeaddrinfo`.
///
/// # Safety
/// `res` is NULL or came from [`rdma_getaddrinfo`] and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_freeaddrinfo(res: *mut rdma_addrinfo) {
    let mut next = res;
    while !next.is_null() {
        let this = next;
        // SAFETY: the caller's promise.
        let fields = unsafe { &*this };
        next = fields.ai_next;
        let parts = [
            fields.ai_connect,
            fields.ai_route,
            fields.ai_src_canonname.cast(),
            fields.ai_dst_canonname.cast(),
            fields.ai_src_addr.cast(),
            fields.ai_dst_addr.cast(),
            this.cast(),
        ];
        for part in parts {
            // SAFETY: each part is NULL or was allocated by itself.
            unsafe { libc::free(part) };
        }
    }
}
