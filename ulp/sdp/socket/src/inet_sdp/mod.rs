//! Sockets of the family AF_INET_SDP, which speak SDP from their first byte, and nothing else.
//!
//! Owns: what the calls on such a socket do beside what the kernel does. Must not know: the C
//! names of calls.
//!
//! The program's descriptor is a TCP socket of the kernel's on the loopback interface. Its other
//! end is the service's (`loopback`), which carries the bytes to and from a connection of queue
//! pairs (`carry`, `service`). So data, readiness, time-outs, signals, dup and fork are the
//! kernel's; here are names (`names`), ports, and the connection's making.
//!
//! The kernel's socket has a port of the loopback interface from the beginning. The port that the
//! program binds is one of the connection manager's.

mod carry;
mod errors;
mod loopback;
mod names;
mod service;

use crate::diag;
use crate::own::Event;
use crate::process::Process;
use crate::signals::{block_signals, restore_signals};
use names::{Names, Socket, State};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::net::sockopt::{set_socket_reuseaddr, set_tcp_nodelay, socket_error};
use service::{Command, Service, reachable};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, RawFd};
use std::panic::catch_unwind;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The family's number.
pub const FAMILY: i32 = 27;

const STACK_BYTES: usize = 256 << 10;

/// The thread of this process that serves.
struct Handle {
    process: i32,
    commands: Sender<Command>,
    bell: Arc<Event>,
    plug: u16,
}

/// A child finds its parent's, and makes its own.
static HANDLE: AtomicPtr<Handle> = AtomicPtr::new(ptr::null_mut());
/// There is no adapter, which is not looked for again.
static WITHOUT: AtomicBool = AtomicBool::new(false);

impl Handle {
    fn there() -> Option<&'static Self> {
        let handle = HANDLE.load(Ordering::Acquire);
        // SAFETY: what was once put there stays for ever.
        let handle = unsafe { handle.as_ref() };
        handle.filter(|handle| handle.process == here())
    }

    fn get() -> Result<&'static Self, Errno> {
        if let Some(handle) = Self::there() {
            return Ok(handle);
        }
        if WITHOUT.load(Ordering::Acquire) {
            return Err(Errno::AFNOSUPPORT);
        }
        let before = HANDLE.load(Ordering::Acquire);
        let made = match Self::start() {
            Ok(made) => Box::into_raw(Box::new(made)),
            Err(errno) => {
                WITHOUT.store(errno == Errno::AFNOSUPPORT, Ordering::Release);
                return Err(errno);
            }
        };
        // SAFETY: the box from above, which is either put there for ever or let go below.
        let ours = unsafe { &*made };
        match HANDLE.compare_exchange(before, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(ours),
            Err(_) => {
                ours.tell(Command::Retire);
                Self::there().ok_or(Errno::AFNOSUPPORT)
            }
        }
    }

    fn start() -> Result<Self, Errno> {
        let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::NOMEM);
        let bell = Arc::new(Event::new().map_err(errno)?);
        let (commands, orders) = channel();
        let (answer, answered) = channel();
        let before = block_signals();
        let rings = Arc::clone(&bell);
        let builder = std::thread::Builder::new().name("ferriband-sdp27".into());
        let thread =
            builder
                .stack_size(STACK_BYTES)
                .spawn(move || match Service::new(orders, rings) {
                    Ok(service) => {
                        let _ = answer.send(Ok(service.plug()));
                        service.run();
                    }
                    Err(errno) => {
                        let _ = answer.send(Err(errno));
                    }
                });
        let plug = thread.map_err(errno).and_then(|_| {
            let answer = answered.recv();
            answer.unwrap_or(Err(Errno::AFNOSUPPORT))
        });
        restore_signals(&before);
        // before the adapter's library, which was loaded since, ends what it has
        // SAFETY: a function that stays.
        let _ = unsafe { libc::atexit(at_exit) };
        Ok(Handle {
            process: here(),
            commands,
            bell,
            plug: plug?,
        })
    }

    fn tell(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            self.bell.signal();
        }
    }

    fn bind(&self, socket: Socket, at: SocketAddr) -> Result<SocketAddr, Errno> {
        let (answer, answered) = channel();
        self.tell(Command::Bind(socket, at, answer));
        answered.recv().unwrap_or(Err(Errno::NETDOWN))
    }
}

extern "C" fn at_exit() {
    // a panic is told nowhere, and the program ends
    let _ = catch_unwind(|| before_end(true));
}

fn here() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Whether this process, or one that it comes from, has had such a socket.
#[inline]
pub fn is_used() -> bool {
    Names::there().is_some()
}

/// A number of the program's, for calls of the kernel.
fn borrowed(number: RawFd) -> Option<BorrowedFd<'static>> {
    // SAFETY: not negative; it may be closed at any time, as any number that a program gives.
    (number >= 0).then(|| unsafe { BorrowedFd::borrow_raw(number) })
}

fn find(number: RawFd) -> Option<Socket> {
    let names = Names::there()?;
    names.of(diag::cookie(borrowed(number)?).ok()?)
}

/// An address of IPv4 that was written as one of IPv6 is one of IPv4.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

const ANY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

/// socket(2). The adapter is opened by the first.
///
/// # Errors
/// AFNOSUPPORT where there is no adapter, or what this needs; as socket(2).
pub fn socket(kind: i32, protocol: i32) -> Result<RawFd, Errno> {
    let flags = kind & (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
    if kind & !flags != libc::SOCK_STREAM {
        return Err(Errno::SOCKTNOSUPPORT);
    }
    if !matches!(protocol, 0 | libc::IPPROTO_TCP) {
        return Err(Errno::PROTONOSUPPORT);
    }
    let process = Process::get().map_err(|_| Errno::AFNOSUPPORT)?;
    let names = Names::get().map_err(|_| Errno::AFNOSUPPORT)?;
    let handle = Handle::get()?;
    let flags = SocketFlags::from_bits_retain(flags.cast_unsigned());
    let (made, port) = loopback::socket(flags)?;
    // SDP has no delay of short messages
    set_tcp_nodelay(&made, true)?;
    let cookie = diag::cookie(made.as_fd())?;
    let Some(socket) = names.take() else {
        handle.tell(Command::Look);
        return Err(Errno::NOBUFS);
    };
    socket.name(ANY);
    socket.begin(State::Made, cookie, (port, 0));
    let number = made.into_raw_fd();
    process.is_kernels(number);
    Ok(number)
}

/// bind(2). None: the number is no socket of the family.
pub fn bind(number: RawFd, at: SocketAddr) -> Option<Result<(), Errno>> {
    find(number).map(|socket| bind_to(socket, at))
}

fn bind_to(socket: Socket, at: SocketAddr) -> Result<(), Errno> {
    if socket.state() != State::Made {
        return Err(Errno::INVAL);
    }
    socket.adopt();
    let bound = Handle::get()?.bind(socket, plain(at))?;
    socket.name(bound);
    socket.set(State::Bound);
    Ok(())
}

/// Before listen(2). None: the number is no socket of the family.
pub fn listens(number: RawFd) -> Option<Result<(), Errno>> {
    let socket = find(number)?;
    Some(match socket.state() {
        State::Made => bind_to(socket, ANY),
        // the port is another process's
        State::Bound if socket.owner() != here().unsigned_abs() => Err(Errno::OPNOTSUPP),
        _ => Ok(()),
    })
}

/// After listen(2).
pub fn listening(number: RawFd) {
    if let (Some(socket), Some(number)) = (find(number), borrowed(number)) {
        // what tells whether it is there counts on it
        let _ = set_socket_reuseaddr(number, true);
        socket.change(State::Bound, State::Listens);
    }
}

/// Before connect(2): where the kernel's socket is to connect to. None: the number is no socket of
/// the family.
pub fn connects(number: RawFd, to: SocketAddr) -> Option<Result<SocketAddrV4, Errno>> {
    let socket = find(number)?;
    if let Some(errno) = take(socket, number) {
        return Some(Err(errno));
    }
    let handle = match Handle::get() {
        Ok(handle) => handle,
        Err(_) => return Some(Err(Errno::NETDOWN)),
    };
    let to = reachable(plain(to));
    for from in [State::Made, State::Bound] {
        if socket.change(from, State::Asks) {
            socket.adopt();
            socket.name_peer(to);
            let own = (from == State::Bound).then(|| socket.own());
            handle.tell(Command::Ask(socket, own, to));
            break;
        }
    }
    Some(Ok(loopback::at(handle.plug)))
}

/// After connect(2), which has left this errno, or none. Gives the errno that the program is to
/// have.
pub fn connected(number: RawFd, errno: Option<i32>) -> Option<i32> {
    let told = take_error(number);
    told.map(Errno::raw_os_error).or(errno)
}

/// Why a connection was not made, which the program is told once: then the socket is as before.
fn take(socket: Socket, number: RawFd) -> Option<Errno> {
    let errno = socket.take_error()?;
    if let Some(number) = borrowed(number) {
        let _ = rustix::net::connect_unspec(number);
        // the kernel says there what became of its connection
        let _ = socket_error(number);
    }
    Some(errno)
}

/// SO_ERROR. None: it is the kernel's.
pub fn take_error(number: RawFd) -> Option<Errno> {
    take(find(number)?, number)
}

/// What accept(2) has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accepted {
    /// The listener is no socket of the family.
    Other,
    /// Not a connection of SDP's: the program is not to have it.
    Stranger,
    /// A connection with this peer.
    From(SocketAddr),
}

/// After accept(2).
pub fn accepted(listener: RawFd, number: RawFd) -> Accepted {
    if find(listener).is_none() {
        return Accepted::Other;
    }
    let (Some(names), Some(socket)) = (Names::there(), borrowed(number)) else {
        return Accepted::Stranger;
    };
    let ports = || Ok((loopback::port(socket)?, loopback::peer_port(socket)?));
    let ports: Result<_, Errno> = ports();
    let found = ports.ok().and_then(|ports| names.waiting(ports));
    let (Some(found), Ok(cookie)) = (found, diag::cookie(socket)) else {
        return Accepted::Stranger;
    };
    found.is_numbered(cookie);
    if !found.change(State::Waits, State::Stands) {
        return Accepted::Stranger;
    }
    if let Some(process) = Process::there() {
        process.is_kernels(number);
    }
    Accepted::From(found.peer())
}

/// getsockname(2), where the kernel has one.
pub fn own_name(number: RawFd) -> Option<SocketAddr> {
    Some(find(number)?.own())
}

/// getpeername(2), where the kernel has one.
pub fn peer_name(number: RawFd) -> Option<SocketAddr> {
    Some(find(number)?.peer())
}

/// Before a number is closed, or replaced. True: [`closed`] is to be told afterwards.
pub fn closes(number: RawFd) -> bool {
    let idle = [State::Made, State::Bound, State::Listens, State::Asks];
    find(number).is_some_and(|socket| idle.contains(&socket.state()))
}

/// Sockets were closed that may have had ports.
pub fn closed() {
    if let Some(handle) = Handle::there() {
        handle.tell(Command::Look);
    }
}

/// Before this process ends, or (`ends` is false) executes another program: peers get what the
/// program has sent.
pub fn before_end(ends: bool) {
    if let Some(handle) = Handle::there() {
        let (answer, answered) = channel();
        handle.tell(Command::Leave { ends, answer });
        // it answers as soon as nothing goes on
        while answered.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {}
    }
}
