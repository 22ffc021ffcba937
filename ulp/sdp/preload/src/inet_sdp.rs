//! Sockets of the family AF_INET_SDP: addresses, and the calls that give and take them.
//!
//! Owns: how a C address is read and written. Must not know: what a socket of the family does.

use crate::{quietly, real, set_errno};
use ferriband_sdp_socket::inet_sdp;
use ferriband_sdp_socket::process::Process;
use std::ffi::c_int;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Reads an address. One of the family's own number is one of IPv4.
///
/// # Safety
/// `length` bytes may be read, or the kernel would say EFAULT.
pub unsafe fn read(
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> Result<SocketAddr, c_int> {
    let length = length as usize;
    if length < size_of::<libc::sa_family_t>() {
        return Err(libc::EINVAL);
    }
    if !Process::can_read(address.cast(), length) {
        return Err(libc::EFAULT);
    }
    // SAFETY: so many bytes may be read.
    let family = unsafe { address.cast::<libc::sa_family_t>().read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET | inet_sdp::FAMILY if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: as above.
            let four = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from_bits(u32::from_be(four.sin_addr.s_addr));
            Ok(SocketAddr::from((ip, u16::from_be(four.sin_port))))
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above.
            let six = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(six.sin6_addr.s6_addr);
            Ok(SocketAddr::from((ip, u16::from_be(six.sin6_port))))
        }
        libc::AF_INET | inet_sdp::FAMILY | libc::AF_INET6 => Err(libc::EINVAL),
        _ => Err(libc::EAFNOSUPPORT),
    }
}

/// How much room a program has for an address; 0 where it wants none.
///
/// # Safety
/// The length is NULL, or may be read.
pub unsafe fn room(
    address: *const libc::sockaddr,
    length: *const libc::socklen_t,
) -> libc::socklen_t {
    match address.is_null() || length.is_null() {
        true => 0,
        // SAFETY: the caller's promise.
        false => unsafe { *length },
    }
}

/// Writes an address where the kernel has written another, as far as there is room. Names have the
/// family of the IP address, as those of other implementations.
///
/// # Safety
/// There is so much room, as the kernel has found, and the length may be written.
pub unsafe fn write(
    name: SocketAddr,
    address: *mut libc::sockaddr,
    room: libc::socklen_t,
    length: *mut libc::socklen_t,
) {
    if address.is_null() || length.is_null() {
        return;
    }
    let put = |bytes: *const u8, count: usize| {
        let most = count.min(room as usize);
        // SAFETY: the caller's promise.
        unsafe { address.cast::<u8>().copy_from_nonoverlapping(bytes, most) };
        // SAFETY: as above.
        unsafe { *length = count as libc::socklen_t };
    };
    match name {
        SocketAddr::V4(name) => {
            let four = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: name.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: name.ip().to_bits().to_be(),
                },
                sin_zero: [0; 8],
            };
            put((&raw const four).cast(), size_of_val(&four));
        }
        SocketAddr::V6(name) => {
            let six = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: name.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: name.ip().octets(),
                },
                sin6_scope_id: 0,
            };
            put((&raw const six).cast(), size_of_val(&six));
        }
    }
}

/// Whether a number is a socket of the family.
#[inline]
pub fn is_one(number: c_int) -> bool {
    inet_sdp::is_used() && quietly(false, || inet_sdp::own_name(number).is_some())
}

/// Whether a send would connect, which the kernel's socket must not. Errno says so then.
#[inline]
pub fn opens(number: c_int, flags: c_int) -> bool {
    let opens = flags & libc::MSG_FASTOPEN != 0 && is_one(number);
    if opens {
        set_errno(libc::EOPNOTSUPP);
    }
    opens
}

/// socket(2) of the family.
pub fn socket(kind: c_int, protocol: c_int) -> c_int {
    let failed = Err(libc::EAFNOSUPPORT);
    let made = quietly(failed, || {
        inet_sdp::socket(kind, protocol).map_err(|errno| errno.raw_os_error())
    });
    made.unwrap_or_else(|errno| {
        set_errno(errno);
        -1
    })
}

/// bind(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(
    number: c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> c_int {
    if is_one(number) {
        // SAFETY: the caller's promise.
        let at = unsafe { read(address, length) };
        let bound = at.and_then(|at| {
            let bound = quietly(None, || inet_sdp::bind(number, at));
            bound.map_or(Err(libc::EBADF), |bound| {
                bound.map_err(|errno| errno.raw_os_error())
            })
        });
        if let Err(errno) = bound {
            set_errno(errno);
        }
        return if bound.is_ok() { 0 } else { -1 };
    }
    real::call!(-1, fn bind(
        number => c_int, address => *const libc::sockaddr, length => libc::socklen_t
    ) -> c_int)
}

/// Before listen(2). False: errno says why not.
pub fn may_listen(number: c_int) -> bool {
    if !inet_sdp::is_used() {
        return true;
    }
    match quietly(None, || inet_sdp::listens(number)) {
        Some(Err(errno)) => {
            set_errno(errno.raw_os_error());
            false
        }
        _ => true,
    }
}

/// Before connect(2) of a socket of the family: where the kernel's socket is to connect to, or the
/// errno.
///
/// # Safety
/// As of the C function.
pub unsafe fn connects(
    number: c_int,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> Result<libc::sockaddr_in, c_int> {
    // SAFETY: the caller's promise.
    let to = unsafe { read(address, length) }?;
    let at = quietly(None, || inet_sdp::connects(number, to));
    let at = at.ok_or(libc::EBADF)?;
    let at = at.map_err(|errno| errno.raw_os_error())?;
    Ok(libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: at.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: at.ip().to_bits().to_be(),
        },
        sin_zero: [0; 8],
    })
}

/// What accept(2) has brought is the program's: not if it is a stranger's.
///
/// # Safety
/// As of the C function; `room` is what the program has.
pub unsafe fn accepted(
    listener: c_int,
    number: c_int,
    address: *mut libc::sockaddr,
    room: libc::socklen_t,
    length: *mut libc::socklen_t,
) -> inet_sdp::Accepted {
    if number < 0 || !inet_sdp::is_used() {
        return inet_sdp::Accepted::Other;
    }
    let accepted = quietly(inet_sdp::Accepted::Stranger, || {
        inet_sdp::accepted(listener, number)
    });
    if let inet_sdp::Accepted::From(peer) = accepted {
        // SAFETY: the caller's promise.
        unsafe { write(peer, address, room, length) };
    }
    accepted
}

/// Another name for what the kernel has said of a socket.
type Named = fn(c_int) -> Option<SocketAddr>;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $named:path;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            number: c_int,
            address: *mut libc::sockaddr,
            length: *mut libc::socklen_t,
        ) -> c_int {
            // SAFETY: the caller's promise.
            let room = unsafe { room(address, length) };
            let answer = real::call!(-1, fn $name(
                number => c_int, address => *mut libc::sockaddr, length => *mut libc::socklen_t
            ) -> c_int);
            let named: Named = $named;
            if answer == 0
                && inet_sdp::is_used()
                && let Some(name) = quietly(None, || named(number))
            {
                // SAFETY: the kernel has written there.
                unsafe { write(name, address, room, length) };
            }
            answer
        }
    )*};
}

names! {
    /// getsockname(2).
    getsockname = inet_sdp::own_name;
    /// getpeername(2).
    getpeername = inet_sdp::peer_name;
}
