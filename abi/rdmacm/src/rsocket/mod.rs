//! Sockets over queue pairs: `rsocket` and what belongs to it.
//!
//! A socket is an identifier of the connection manager with a queue pair, or for datagrams a UDP socket with queue pairs; its
//! number is that of a real descriptor. Streams speak rdma-core's protocol, so the other side may run rdma-core's library.
//! Everything here stands on this library's own identifiers and on libibverbs' public interface.
//!
//! | what | where |
//! |---|---|
//! | bytes on the wire | [`wire`] |
//! | a stream's queue pair, its ring and its credits | [`link`], over [`memory`] |
//! | sending, receiving, shutting down | [`stream`] |
//! | connecting, accepting, hearing of the end | [`connect`] |
//! | datagrams | [`dgram`] |
//! | mapped buffers | [`iomap`] |
//! | waiting: one socket, many, and descriptors of the system | [`wait`], [`poll`] |
//! | sets of both (`repoll_create`) | [`repoll`], over [`set`] |
//! | options | [`options`], sizes in [`settings`] |
//! | the thread that serves sockets | [`service`] |
//! | numbers and forks | [`table`] |
//!
//! Locks: a set's state, a socket's state, its list of waiters, what a set has heard; a listening socket's state is never held with another socket's.

pub mod connect;
pub mod dgram;
pub mod iomap;
pub mod link;
pub mod memory;
pub mod options;
pub mod poll;
pub mod repoll;
pub mod service;
pub mod set;
pub mod settings;
pub mod stream;
pub mod table;
pub mod wait;
pub mod wire;

use crate::address::AF_IB;
use crate::boundary::{Errno, entry, status};
use dgram::Datagrams;
use libc::{iovec, msghdr, sockaddr, sockaddr_storage, socklen_t};
use memory::Vectors;
use std::ffi::{c_int, c_long, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use stream::Stream;
use wait::{ASLEEP, Call, on_socket, to_its_end};

/// Numbers of sockets begin here where the limit of descriptors allows: above what most programs ever open, and in the middle of what
/// `select` can be asked for.
pub const FIRST_NUMBER: RawFd = libc::FD_SETSIZE as RawFd / 2;

/// A socket.
pub struct Socket {
    /// The descriptor of what it stands on, and what it is known by to the service thread.
    pub fd: RawFd,
    /// The number that the program knows, once it has one.
    second: OnceLock<OwnedFd>,
    nonblocking: AtomicBool,
    close_on_exec: AtomicBool,
    is_closing: AtomicBool,
    /// Threads that sleep for it.
    pub waiters: wait::Waiters,
    /// What it is.
    pub inner: Inner,
}

/// The two kinds of sockets.
#[expect(
    clippy::large_enum_variant,
    reason = "streams are the rule, and the larger ones"
)]
pub enum Inner {
    /// SOCK_STREAM.
    Stream(Mutex<Stream>),
    /// SOCK_DGRAM.
    Datagram(Datagrams),
}

impl Socket {
    fn new(fd: RawFd, inner: Inner) -> Self {
        Socket {
            fd,
            second: OnceLock::new(),
            nonblocking: AtomicBool::new(false),
            close_on_exec: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            waiters: wait::Waiters::default(),
            inner,
        }
    }

    /// O_NONBLOCK is set.
    pub fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// It is closed, or about to be.
    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Called by the service thread when a descriptor of the socket is readable.
    pub fn serve(self: &Arc<Self>) {
        match &self.inner {
            Inner::Stream(_) => self.serve_stream(),
            Inner::Datagram(datagrams) => datagrams.serve(&self.waiters),
        }
    }

    /// Called by the service thread when the socket's timer is due.
    pub fn tick(&self) {
        self.tick_stream();
    }

    /// Ends the socket, whatever that takes. Its memory goes with the last call that uses it.
    pub fn close(self: &Arc<Self>) {
        // An error ends the wait, and the socket all the same.
        let _ = to_its_end(|call| self.close_by(call));
    }

    /// Ends the socket, as soon as what was sent has arrived. A call that ends before ends it, too.
    ///
    /// ASLEEP.
    fn close_by(self: &Arc<Self>, call: &mut Call) -> Result<(), Errno> {
        if call.closes.is_none() {
            if self.is_closing.swap(true, Ordering::AcqRel) {
                return Ok(());
            }
            call.closes = Some(self.clone());
            self.waiters.tell_closing();
            self.begin_to_close_stream();
        }
        let waited = match &self.inner {
            Inner::Stream(_) => self.linger(call),
            Inner::Datagram(datagrams) => datagrams.linger(self, call),
        };
        if waited == Err(ASLEEP) {
            return waited;
        }
        call.closes = None;
        self.end_close();
        Ok(())
    }

    /// What [`Socket::close`] ends with.
    fn end_close(&self) {
        match &self.inner {
            Inner::Stream(stream) => self.hang_up(&mut stream::lock(stream)),
            Inner::Datagram(datagrams) => datagrams.end(),
        }
        if let Ok(service) = table::service() {
            service.forget(self.fd);
        }
        table::remove(self.fd);
        if let Some(second) = self.second.get() {
            // The number is closed with the socket's memory: nobody else gets it before.
            table::remove(second.as_raw_fd());
        }
        self.waiters.wake();
    }

    /// The number that the program gets: one above every descriptor that it may have opened itself.
    ///
    /// Debian's librspreload opens a descriptor of its own for the program, then asks us for ours, and after `select` finds the
    /// program's by counting upwards to either of the two: it takes ours for the program's when ours is the lower one, and the
    /// program never hears of it. The lowest free number will not do: any thread of ours, or of the program's, may have closed one
    /// between the two calls.
    fn new_number(self: &Arc<Self>) -> Result<RawFd, Errno> {
        let (high, any) = (FIRST_NUMBER, 0);
        // The limit of descriptors may be lower than that, or its upper half taken.
        let number = duplicate(self.fd, high).or_else(|_| duplicate(self.fd, any))?;
        let number = self.second.get_or_init(|| number).as_raw_fd();
        table::insert(number, self);
        Ok(number)
    }
}

/// The lowest number that is free from `lowest` on, for the same file.
///
/// EMFILE, EINVAL beyond the limit.
pub fn duplicate(fd: RawFd, lowest: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: numbers and flags.
    let number = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, lowest) };
    if number < 0 {
        return Err(crate::boundary::errno());
    }
    // SAFETY: just opened, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// An error that may stand for "no descriptor is left": the adapter cannot tell, this process can.
fn descriptors_or(error: Errno) -> Errno {
    if error != libc::ENOMEM {
        return error;
    }
    // SAFETY: numbers only.
    let probe = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if probe < 0 {
        return crate::boundary::errno();
    }
    // SAFETY: just opened, used by nobody.
    unsafe { libc::close(probe) };
    error
}

fn open(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int, Errno> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    if !matches!(domain, libc::AF_INET | libc::AF_INET6 | AF_IB) {
        return Err(libc::ENOTSUP);
    }
    let socket = match (kind & !flags, protocol) {
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => stream::open(domain)?,
        (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) if domain != AF_IB => dgram::open(domain)?,
        _ => return Err(libc::ENOTSUP),
    };
    let is_set = |flag| kind & flag != 0;
    (socket.nonblocking).store(is_set(libc::SOCK_NONBLOCK), Ordering::Relaxed);
    (socket.close_on_exec).store(is_set(libc::SOCK_CLOEXEC), Ordering::Relaxed);
    table::insert(socket.fd, &socket);
    socket.new_number().inspect_err(|_| socket.close())
}

/// `rsocket`: AF_INET, AF_INET6, and AF_IB for streams. ENOTSUP for others; ENODEV without our libibverbs, EMFILE.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    entry(|| open(domain, kind, protocol))
}

/// `rbind`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rbind(
    fd: c_int,
    addr: *const sockaddr,
    length: socklen_t,
) -> c_int {
    status(|| {
        let socket = table::find(fd)?;
        match &socket.inner {
            // SAFETY: the caller's promise.
            Inner::Stream(_) => unsafe { socket.bind_stream(addr) },
            // SAFETY: the caller's promise.
            Inner::Datagram(datagrams) => unsafe { datagrams.bind(addr, length) },
        }
    })
}

/// `rlisten`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn rlisten(fd: c_int, backlog: c_int) -> c_int {
    status(|| table::find(fd)?.listen(backlog))
}

/// `raccept`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn raccept(
    fd: c_int,
    addr: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    on_socket(fd, |socket, call| {
        let (accepted, number) = socket.accept(call)?;
        if !addr.is_null() && !length.is_null() {
            let peer = accepted.peer()?;
            // SAFETY: the caller's promise.
            unsafe { give_address(&peer, addr, length) };
        }
        Ok(number)
    })
}

/// `rconnect`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rconnect(
    fd: c_int,
    addr: *const sockaddr,
    length: socklen_t,
) -> c_int {
    on_socket(fd, |socket, call| {
        match &socket.inner {
            // SAFETY: the caller's promise.
            Inner::Stream(_) => unsafe { socket.connect_stream(call, addr, length as usize) }?,
            // SAFETY: the caller's promise.
            Inner::Datagram(datagrams) => unsafe { datagrams.connect(addr, length) }?,
        }
        Ok(0)
    })
}

/// `rshutdown`: waits until what was sent has arrived.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn rshutdown(fd: c_int, how: c_int) -> c_int {
    on_socket(fd, |socket, call| {
        match &socket.inner {
            Inner::Stream(_) => socket.shut(call, how)?,
            Inner::Datagram(datagrams) => datagrams.shut(how, &socket.waiters)?,
        }
        Ok(0)
    })
}

/// `rclose`: a socket, or a set of [`repoll`]. A thread that is cancelled while it waits for what
/// was sent to arrive has closed the socket.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn rclose(fd: c_int) -> c_int {
    match table::is_socket(fd) {
        true => on_socket(fd, |socket, call| socket.close_by(call).map(|()| 0)),
        false => status(|| close_other(fd)),
    }
}

/// Closes what is no socket of this process.
fn close_other(fd: c_int) -> Result<(), Errno> {
    match table::find(fd) {
        // Another thread has just made one under this number.
        Ok(_) => Err(libc::EBADF),
        // A forked child closes its copy of the number.
        Err(libc::EIO) => {
            table::remove(fd);
            Ok(())
        }
        Err(error) => repoll::close(fd).map_err(|_| error),
    }
}

/// Receives into the program's buffers; who sent a datagram.
///
/// # Safety
/// The buffers are what their lengths say.
unsafe fn receive(
    socket: &Arc<Socket>,
    call: &mut Call,
    list: &[iovec],
    flags: c_int,
) -> Result<(usize, Option<sockaddr_storage>), Errno> {
    // SAFETY: the caller's promise.
    let sink = unsafe { Vectors::new(list) }?;
    if flags & libc::MSG_OOB != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    match &socket.inner {
        Inner::Stream(_) => Ok((socket.receive(call, sink, flags)?, None)),
        Inner::Datagram(datagrams) => {
            let (count, from) = datagrams.receive(socket, call, sink, flags)?;
            Ok((count, Some(from)))
        }
    }
}

/// Sends the program's buffers.
///
/// # Safety
/// The buffers are what their lengths say; `to` is NULL or an address of `length` bytes.
unsafe fn send(
    socket: &Arc<Socket>,
    call: &mut Call,
    list: &[iovec],
    flags: c_int,
    to: *const sockaddr,
    length: socklen_t,
) -> Result<isize, Errno> {
    // SAFETY: the caller's promise.
    let source = unsafe { Vectors::new(list) }?;
    if flags & libc::MSG_OOB != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    let count = match &socket.inner {
        Inner::Stream(_) if !to.is_null() || length != 0 => return Err(libc::EISCONN),
        Inner::Stream(_) => socket.send(call, source, flags)?,
        Inner::Datagram(datagrams) => {
            let to = (to, length);
            // SAFETY: the caller's promise.
            unsafe { datagrams.send(socket, call, source, to, flags) }?
        }
    };
    Ok(count.cast_signed())
}

fn one(buffer: *const c_void, length: usize) -> [iovec; 1] {
    [iovec {
        iov_base: buffer.cast_mut(),
        iov_len: length,
    }]
}

/// The program's list of buffers.
///
/// # Safety
/// `list` has `count` entries, which live as long as the result is used.
unsafe fn many<'a>(list: *const iovec, count: usize) -> Result<&'a [iovec], Errno> {
    const MOST: usize = 1024; // UIO_MAXIOV
    match count {
        0 => Ok(&[]),
        1..=MOST if !list.is_null() => {
            // SAFETY: the caller's promise.
            Ok(unsafe { std::slice::from_raw_parts(list, count) })
        }
        1..=MOST => Err(libc::EFAULT),
        _ => Err(libc::EMSGSIZE),
    }
}

/// `rrecv`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rrecv(
    fd: c_int,
    buf: *mut c_void,
    length: usize,
    flags: c_int,
) -> isize {
    on_socket(fd, |socket, call| {
        // SAFETY: the caller's promise.
        let (count, _) = unsafe { receive(socket, call, &one(buf, length), flags) }?;
        Ok(count.cast_signed())
    })
}

/// `rrecvfrom`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rrecvfrom(
    fd: c_int,
    buf: *mut c_void,
    length: usize,
    flags: c_int,
    addr: *mut sockaddr,
    addr_length: *mut socklen_t,
) -> isize {
    on_socket(fd, |socket, call| {
        // SAFETY: the caller's promise.
        let (count, from) = unsafe { receive(socket, call, &one(buf, length), flags) }?;
        if !addr.is_null() && !addr_length.is_null() {
            let from = match from {
                Some(from) => from,
                None => socket.peer()?,
            };
            // SAFETY: the caller's promise.
            unsafe { give_address(&from, addr, addr_length) };
        }
        Ok(count.cast_signed())
    })
}

/// `rrecvmsg`: no ancillary data come.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rrecvmsg(fd: c_int, msg: *mut msghdr, flags: c_int) -> isize {
    on_socket(fd, |socket, call| {
        // SAFETY: the caller's promise.
        let message = unsafe { msg.as_mut() }.ok_or(libc::EFAULT)?;
        // SAFETY: the caller's promise.
        let list = unsafe { many(message.msg_iov, message.msg_iovlen) }?;
        // SAFETY: the caller's promise.
        let (count, from) = unsafe { receive(socket, call, list, flags) }?;
        match from {
            Some(from) if !message.msg_name.is_null() => {
                let place = &raw mut message.msg_namelen;
                // SAFETY: the caller's promise.
                unsafe { give_address(&from, message.msg_name.cast(), place) };
            }
            _ => message.msg_namelen = 0,
        }
        message.msg_controllen = 0;
        message.msg_flags = 0;
        Ok(count.cast_signed())
    })
}

/// `rread`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rread(fd: c_int, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { rrecv(fd, buf, count, 0) }
}

/// `rreadv`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rreadv(fd: c_int, iov: *const iovec, count: c_int) -> isize {
    on_socket(fd, |socket, call| {
        let count = usize::try_from(count).map_err(|_| libc::EINVAL)?;
        // SAFETY: the caller's promise.
        let list = unsafe { many(iov, count) }.map_err(|_| libc::EINVAL)?;
        // SAFETY: the caller's promise.
        unsafe { receive(socket, call, list, 0) }.map(|got| got.0.cast_signed())
    })
}

/// `rsend`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rsend(
    fd: c_int,
    buf: *const c_void,
    length: usize,
    flags: c_int,
) -> isize {
    let (list, none) = (one(buf, length), std::ptr::null());
    // SAFETY: the caller's promise.
    on_socket(fd, |socket, call| unsafe {
        send(socket, call, &list, flags, none, 0)
    })
}

/// `rsendto`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rsendto(
    fd: c_int,
    buf: *const c_void,
    length: usize,
    flags: c_int,
    addr: *const sockaddr,
    addr_length: socklen_t,
) -> isize {
    let list = one(buf, length);
    on_socket(fd, |socket, call| {
        // SAFETY: the caller's promise.
        unsafe { send(socket, call, &list, flags, addr, addr_length) }
    })
}

/// `rsendmsg`: ENOTSUP with ancillary data.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rsendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> isize {
    on_socket(fd, |socket, call| {
        // SAFETY: the caller's promise.
        let message = unsafe { msg.as_ref() }.ok_or(libc::EFAULT)?;
        if !message.msg_control.is_null() && message.msg_controllen != 0 {
            return Err(libc::ENOTSUP);
        }
        let name = message.msg_name.cast_const().cast();
        // SAFETY: the caller's promise.
        let list = unsafe { many(message.msg_iov, message.msg_iovlen) }?;
        // SAFETY: the caller's promise.
        unsafe { send(socket, call, list, flags, name, message.msg_namelen) }
    })
}

/// `rwrite`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rwrite(fd: c_int, buf: *const c_void, count: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe { rsend(fd, buf, count, 0) }
}

/// `rwritev`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rwritev(fd: c_int, iov: *const iovec, count: c_int) -> isize {
    on_socket(fd, |socket, call| {
        let count = usize::try_from(count).map_err(|_| libc::EINVAL)?;
        // SAFETY: the caller's promise.
        let list = unsafe { many(iov, count) }.map_err(|_| libc::EINVAL)?;
        // SAFETY: the caller's promise.
        unsafe { send(socket, call, list, 0, std::ptr::null(), 0) }
    })
}

/// `rgetpeername`: ENOTCONN without a connection.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rgetpeername(
    fd: c_int,
    addr: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    status(|| {
        let address = table::find(fd)?.peer()?;
        if length.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: the caller's promise.
        unsafe { give_address(&address, addr, length) };
        Ok(())
    })
}

/// `rgetsockname`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rgetsockname(
    fd: c_int,
    addr: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    status(|| {
        let address = table::find(fd)?.name()?;
        if length.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: the caller's promise.
        unsafe { give_address(&address, addr, length) };
        Ok(())
    })
}

impl Socket {
    /// The address here.
    pub fn name(&self) -> Result<sockaddr_storage, Errno> {
        match &self.inner {
            Inner::Stream(stream) => {
                let state = stream::lock(stream);
                // SAFETY: the place lies in the identifier's C structure.
                Ok(unsafe { state.id.get().source().read() })
            }
            Inner::Datagram(datagrams) => datagrams.name(),
        }
    }

    /// The address there; ENOTCONN.
    pub fn peer(&self) -> Result<sockaddr_storage, Errno> {
        match &self.inner {
            Inner::Stream(stream) => {
                let state = stream::lock(stream);
                if !state.phase.has_link() {
                    return Err(libc::ENOTCONN);
                }
                // SAFETY: the place lies in the identifier's C structure.
                Ok(unsafe { state.id.get().destination().read() })
            }
            Inner::Datagram(datagrams) => datagrams.peer(),
        }
    }
}

/// Gives the program as much of an address as it has room for, and its whole length.
///
/// # Safety
/// `to` has `*length` bytes, or is NULL.
unsafe fn give_address(address: &sockaddr_storage, to: *mut sockaddr, length: *mut socklen_t) {
    let from: *const sockaddr_storage = std::ptr::from_ref(address);
    // SAFETY: the storage holds an address of its family, or zeros.
    let whole = unsafe { crate::address::length(from.cast()) }.unwrap_or(2);
    // SAFETY: the caller's promise.
    let room = unsafe { *length };
    if !to.is_null() {
        // SAFETY: the caller's promise.
        unsafe {
            to.cast::<u8>()
                .copy_from_nonoverlapping(from.cast(), room.min(whole) as usize);
        };
    }
    // SAFETY: the caller's promise.
    unsafe { length.write(whole) };
}

/// `rfcntl`: F_GETFL, F_SETFL (O_NONBLOCK), F_GETFD, F_SETFD. The third argument is declared, which the x86_64 calling
/// convention allows for one that callers pass as variable.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn rfcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    entry(|| {
        if table::is_set(fd) {
            return repoll::control(fd, command, argument);
        }
        let socket = table::find(fd)?;
        let flags = argument as c_int;
        let (nonblocking, close_on_exec) = (&socket.nonblocking, &socket.close_on_exec);
        match command {
            libc::F_GETFL if nonblocking.load(Ordering::Relaxed) => {
                Ok(libc::O_RDWR | libc::O_NONBLOCK)
            }
            libc::F_GETFL => Ok(libc::O_RDWR),
            libc::F_SETFL => {
                nonblocking.store(flags & libc::O_NONBLOCK != 0, Ordering::Relaxed);
                Ok(0)
            }
            libc::F_GETFD if close_on_exec.load(Ordering::Relaxed) => Ok(libc::FD_CLOEXEC),
            libc::F_GETFD => Ok(0),
            libc::F_SETFD => {
                close_on_exec.store(flags & libc::FD_CLOEXEC != 0, Ordering::Relaxed);
                Ok(0)
            }
            _ => Err(libc::ENOTSUP),
        }
    })
}
