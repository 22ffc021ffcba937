//! The C library's functions of sockets, for those of [`crate::netlink`]; every other descriptor goes on to the C library after a look at one
//! word. `bind` and `connect` stand in [`crate::address`].
//!
//! What is not here needs no answer of ours: reading into a buffer alone, `poll`, `fcntl`, `ioctl`, `dup`, `close`.

use crate::netlink::{self, Socket, address, write_address};
use crate::{answer, real};
use std::ffi::{c_int, c_uint, c_void};
use std::mem::size_of;

/// The level of netlink's own options: SOL_NETLINK.
const NETLINK_OPTIONS: c_int = 270;
/// The protocol number: NETLINK_RDMA.
const RDMA: c_int = 20;
/// The kernel's port.
const KERNEL: u32 = 0;

/// `socket`.
#[unsafe(no_mangle)]
pub extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if domain == libc::AF_NETLINK {
        let opened = std::panic::catch_unwind(|| netlink::open(domain, kind, protocol));
        if let Ok(Some(opened)) = opened {
            return answer(-1, || opened);
        }
    }
    netlink::real_socket(domain, kind, protocol)
}

/// `send`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn send(
    socket: c_int,
    buffer: *const c_void,
    length: usize,
    flags: c_int,
) -> isize {
    let Some(ours) = Socket::of(socket) else {
        // SAFETY: the caller's promise.
        return unsafe { netlink::real_send(socket, buffer, length, flags) };
    };
    // SAFETY: the caller's promise.
    unsafe { send_ours(ours, buffer, length, (std::ptr::null(), 0)) }
}

/// `sendto`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendto(
    socket: c_int,
    buffer: *const c_void,
    length: usize,
    flags: c_int,
    to: *const c_void,
    to_length: libc::socklen_t,
) -> isize {
    let Some(ours) = Socket::of(socket) else {
        return real::call!(
            -1,
            fn sendto(socket => c_int, buffer => *const c_void, length => usize, flags => c_int, to => *const c_void, to_length => libc::socklen_t) -> isize
        );
    };
    // SAFETY: the caller's promise.
    unsafe { send_ours(ours, buffer, length, (to, to_length)) }
}

/// `sendmsg`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(
    socket: c_int,
    message: *const libc::msghdr,
    flags: c_int,
) -> isize {
    let Some(ours) = Socket::of(socket) else {
        return real::call!(
            -1,
            fn sendmsg(socket => c_int, message => *const libc::msghdr, flags => c_int) -> isize
        );
    };
    answer(-1, || {
        if message.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: the caller's promise.
        let message = unsafe { &*message };
        // SAFETY: as many parts as the message says.
        let parts = (0..message.msg_iovlen).map(|part| unsafe { *message.msg_iov.add(part) });
        let mut request = Vec::new();
        for part in parts.filter(|part| part.iov_len > 0) {
            // SAFETY: a part of the program's, which is as long as it says.
            request.extend(unsafe {
                std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len)
            });
        }
        let to = (message.msg_name.cast_const(), message.msg_namelen);
        // SAFETY: the program's address, or NULL.
        unsafe { ours.send(&request, to) }
    })
}

/// # Safety
/// `buffer` has `length` bytes; the address is NULL or as long as it says.
unsafe fn send_ours(
    ours: Socket,
    buffer: *const c_void,
    length: usize,
    to: (*const c_void, libc::socklen_t),
) -> isize {
    answer(-1, || {
        if buffer.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: the caller's promise.
        let request = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), length) };
        // SAFETY: the caller's promise.
        unsafe { ours.send(request, to) }
    })
}

/// `recvfrom`. What is read comes from the kernel.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvfrom(
    socket: c_int,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
    from: *mut c_void,
    room: *mut libc::socklen_t,
) -> isize {
    let read = |from: *mut c_void, room: *mut libc::socklen_t| {
        real::call!(
            -1,
            fn recvfrom(socket => c_int, buffer => *mut c_void, length => usize, flags => c_int, from => *mut c_void, room => *mut libc::socklen_t) -> isize
        )
    };
    // SAFETY: the caller's promise.
    unsafe { from_kernel(socket, from, room, read) }
}

/// `recvfrom`, checked to write no more than there is room for.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    socket: c_int,
    buffer: *mut c_void,
    length: usize,
    size: usize,
    flags: c_int,
    from: *mut c_void,
    room: *mut libc::socklen_t,
) -> isize {
    let read = |from: *mut c_void, room: *mut libc::socklen_t| {
        real::call!(
            -1,
            fn __recvfrom_chk(socket => c_int, buffer => *mut c_void, length => usize, size => usize, flags => c_int, from => *mut c_void, room => *mut libc::socklen_t) -> isize
        )
    };
    // SAFETY: the caller's promise.
    unsafe { from_kernel(socket, from, room, read) }
}

/// Reads, without the address if the socket is ours, and says that it came from the kernel.
///
/// # Safety
/// An address' place and its length, or NULL.
unsafe fn from_kernel(
    socket: c_int,
    from: *mut c_void,
    room: *mut libc::socklen_t,
    read: impl Fn(*mut c_void, *mut libc::socklen_t) -> isize,
) -> isize {
    if from.is_null() || Socket::of(socket).is_none() {
        return read(from, room);
    }
    let length = read(std::ptr::null_mut(), std::ptr::null_mut());
    if length >= 0 {
        // SAFETY: the caller's promise.
        unsafe { write_address(&address(KERNEL), from, room) };
    }
    length
}

/// `recvmsg`. What is read comes from the kernel.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(
    socket: c_int,
    message: *mut libc::msghdr,
    flags: c_int,
) -> isize {
    let read = |message: *mut libc::msghdr| {
        real::call!(
            -1,
            fn recvmsg(socket => c_int, message => *mut libc::msghdr, flags => c_int) -> isize
        )
    };
    if message.is_null() || Socket::of(socket).is_none() {
        return read(message);
    }
    // SAFETY: the caller's promise.
    let (name, room) = unsafe { ((*message).msg_name, (*message).msg_namelen) };
    let length = read(message);
    if length >= 0 && !name.is_null() {
        // SAFETY: the caller's promise; how much room there was is what was said before.
        unsafe {
            (*message).msg_namelen = room;
            write_address(&address(KERNEL), name, &raw mut (*message).msg_namelen);
        }
    }
    length
}

/// `getsockname`.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(
    socket: c_int,
    name: *mut c_void,
    room: *mut libc::socklen_t,
) -> c_int {
    let Some(ours) = Socket::of(socket) else {
        return real::call!(
            -1,
            fn getsockname(socket => c_int, name => *mut c_void, room => *mut libc::socklen_t) -> c_int
        );
    };
    // SAFETY: the caller's promise.
    unsafe { write_address(&ours.name(), name, room) };
    0
}

/// `getpeername`: the kernel.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(
    socket: c_int,
    name: *mut c_void,
    room: *mut libc::socklen_t,
) -> c_int {
    if Socket::of(socket).is_none() {
        return real::call!(
            -1,
            fn getpeername(socket => c_int, name => *mut c_void, room => *mut libc::socklen_t) -> c_int
        );
    }
    // SAFETY: the caller's promise.
    unsafe { write_address(&address(KERNEL), name, room) };
    0
}

/// `setsockopt`. Netlink's own options say how errors are told, which programs read off the messages, and which groups are listened to, of
/// which ours have none. A program's bound on what it sends must not bound the answers, which are sent, too.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    socket: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    length: libc::socklen_t,
) -> c_int {
    let is_netlink = match level {
        NETLINK_OPTIONS => true,
        libc::SOL_SOCKET => matches!(option, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE),
        _ => false,
    };
    if is_netlink && Socket::of(socket).is_some() {
        return 0;
    }
    real::call!(
        -1,
        fn setsockopt(socket => c_int, level => c_int, option => c_int, value => *const c_void, length => libc::socklen_t) -> c_int
    )
}

/// `getsockopt`: what tells netlink from other sockets.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    socket: c_int,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    length: *mut libc::socklen_t,
) -> c_int {
    let told = match (level, option) {
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => Some(libc::AF_NETLINK),
        (libc::SOL_SOCKET, libc::SO_TYPE) => Some(libc::SOCK_RAW),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => Some(RDMA),
        (NETLINK_OPTIONS, _) => Some(0),
        _ => None,
    };
    let Some(told) = told.filter(|_| Socket::of(socket).is_some()) else {
        return real::call!(
            -1,
            fn getsockopt(socket => c_int, level => c_int, option => c_int, value => *mut c_void, length => *mut libc::socklen_t) -> c_int
        );
    };
    answer(-1, || {
        if value.is_null() || length.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: the caller's promise.
        let room = unsafe { length.read() } as usize;
        let bytes = told.to_ne_bytes();
        let written = room.min(size_of::<c_uint>());
        // SAFETY: as many bytes as the program has room for.
        unsafe { bytes.as_ptr().copy_to_nonoverlapping(value.cast(), written) };
        // SAFETY: the caller's promise.
        unsafe { length.write(written as libc::socklen_t) };
        Ok(0)
    })
}
