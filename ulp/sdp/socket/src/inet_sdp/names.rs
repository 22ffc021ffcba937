//! Which sockets are of the family, as this process and the children that fork from it know them.
//!
//! Owns: a record for each: how far it is, its addresses, and why a connection of it was not made.
//! Must not know: how a record is served.
//!
//! A socket is recognised by the kernel's number of it (SO_COOKIE), which is never given twice: so
//! dup, dup2, fork and a descriptor that was sent need no entry. One that the program has not
//! accepted so far is recognised by its two ports.

use crate::numbers::once;
use crate::pages::{Pages, Seen};
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Sockets of the family at one time, in a process and its children.
const MOST: usize = 4096;
/// The first word is how many records were ever used.
const FIRST: usize = 64;

/// How far a socket is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(super) enum State {
    /// The record is nobody's.
    Free,
    /// The record is being filled.
    Taken,
    /// As socket(2) leaves it.
    Made,
    /// It has a port.
    Bound,
    /// It listens.
    Listens,
    /// It asks for a connection.
    Asks,
    /// A connection that the program has not accepted so far.
    Waits,
    /// Connected.
    Stands,
    /// The connection is over; what is left are its addresses.
    Gone,
}

const STATES: [State; 9] = [
    State::Free,
    State::Taken,
    State::Made,
    State::Bound,
    State::Listens,
    State::Asks,
    State::Waits,
    State::Stands,
    State::Gone,
];

/// An address: version of IP and port, and the IP address.
#[repr(C)]
struct Name([AtomicU64; 3]);

impl Name {
    fn set(&self, name: SocketAddr) {
        let (version, ip) = match name.ip() {
            IpAddr::V4(ip) => (4, u128::from(ip.to_bits())),
            IpAddr::V6(ip) => (6, ip.to_bits()),
        };
        let words = [
            version << 16 | u64::from(name.port()),
            (ip >> 64) as u64,
            ip as u64,
        ];
        for (word, value) in self.0.iter().zip(words) {
            word.store(value, Ordering::Release);
        }
    }

    fn get(&self) -> SocketAddr {
        let [head, high, low] = self.0.each_ref().map(|word| word.load(Ordering::Acquire));
        let ip = u128::from(high) << 64 | u128::from(low);
        let ip = match head >> 16 {
            6 => IpAddr::V6(Ipv6Addr::from_bits(ip)),
            _ => IpAddr::V4(Ipv4Addr::from_bits(ip as u32)),
        };
        SocketAddr::new(ip, head as u16)
    }
}

/// A socket's words. Zeros are a free record.
#[repr(C)]
struct Record {
    state: AtomicU32,
    /// Why its connection was not made, until the program is told.
    errno: AtomicU32,
    /// The process that serves it.
    owner: AtomicU32,
    /// Its port on the loopback interface, and in the upper half that of its peer there.
    ports: AtomicU32,
    cookie: AtomicU64,
    own: Name,
    peer: Name,
}

/// The records.
pub(super) struct Names {
    pages: Pages,
}

static NAMES: AtomicPtr<Names> = AtomicPtr::new(ptr::null_mut());

impl Names {
    /// Those of this process, made by the first socket of the family.
    ///
    /// # Errors
    /// NOMEM.
    pub fn get() -> Result<&'static Self, Errno> {
        once(&NAMES, || {
            let bytes = FIRST + MOST * size_of::<Record>();
            let pages = Pages::reserve(bytes, Seen::ByChildren)?;
            Ok(Names { pages })
        })
    }

    /// Those of this process, if there has been such a socket.
    #[inline]
    pub fn there() -> Option<&'static Self> {
        let names = NAMES.load(Ordering::Acquire);
        // SAFETY: what was once put there stays for ever.
        unsafe { names.as_ref() }
    }

    fn record(&'static self, at: usize) -> Socket {
        // SAFETY: atomic words that may be zeros, and nothing else lies there.
        Socket(unsafe { self.pages.at(FIRST + at * size_of::<Record>()) })
    }

    fn used(&'static self) -> impl Iterator<Item = Socket> {
        let end = self.pages.half(0).load(Ordering::Acquire) as usize;
        (0..end.min(MOST)).map(|at| self.record(at))
    }

    /// A free record, or that of a connection that is over.
    pub fn take(&'static self) -> Option<Socket> {
        let free = |socket: &Socket| socket.change(State::Free, State::Taken);
        if let Some(socket) = self.used().find(free) {
            return Some(socket);
        }
        let at = self.pages.half(0).fetch_add(1, Ordering::AcqRel) as usize;
        if at < MOST {
            return Some(self.record(at)).filter(free);
        }
        self.pages.half(0).store(MOST as u32, Ordering::Release);
        let gone = |socket: &Socket| socket.change(State::Gone, State::Taken);
        self.used().find(gone)
    }

    /// The socket that the kernel gives this number.
    pub fn of(&'static self, cookie: u64) -> Option<Socket> {
        let mut used = self.used();
        used.find(|socket| {
            socket.0.cookie.load(Ordering::Acquire) == cookie
                && !matches!(socket.state(), State::Free | State::Taken | State::Waits)
        })
    }

    /// The connection that waits to be accepted at a listener's port, from such a port.
    pub fn waiting(&'static self, ports: (u16, u16)) -> Option<Socket> {
        let mut used = self.used();
        used.find(|socket| socket.state() == State::Waits && socket.ports() == ports)
    }

    /// Sockets that a process serves and that have no connection.
    pub fn idle(&'static self, owner: u32) -> impl Iterator<Item = Socket> {
        let is_idle = |socket: &Socket| {
            matches!(
                socket.state(),
                State::Made | State::Bound | State::Listens | State::Asks
            )
        };
        self.used()
            .filter(move |socket| socket.owner() == owner && is_idle(socket))
    }
}

/// A socket's record.
#[derive(Clone, Copy)]
pub(super) struct Socket(&'static Record);

impl PartialEq for Socket {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.0, other.0)
    }
}

impl Socket {
    /// Fills a record that was taken. `cookie` is 0 where the program has no number so far.
    pub fn begin(self, state: State, cookie: u64, ports: (u16, u16)) {
        let record = self.0;
        record.errno.store(0, Ordering::Release);
        self.adopt();
        let ports = u32::from(ports.1) << 16 | u32::from(ports.0);
        record.ports.store(ports, Ordering::Release);
        record.cookie.store(cookie, Ordering::Release);
        self.set(state);
    }

    /// This process serves it from here on.
    pub fn adopt(self) {
        let owner = rustix::process::getpid().as_raw_nonzero().get();
        self.0.owner.store(owner.unsigned_abs(), Ordering::Release);
    }

    pub fn owner(self) -> u32 {
        self.0.owner.load(Ordering::Acquire)
    }

    pub fn state(self) -> State {
        let state = self.0.state.load(Ordering::Acquire) as usize;
        STATES.get(state).copied().unwrap_or(State::Taken)
    }

    pub fn set(self, state: State) {
        self.0.state.store(state as u32, Ordering::Release);
    }

    /// From one state to another; false if it was in a third.
    pub fn change(self, from: State, to: State) -> bool {
        let (from, to) = (from as u32, to as u32);
        let state = &self.0.state;
        state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// The program has a number for it.
    pub fn is_numbered(self, cookie: u64) {
        let known = &self.0.cookie;
        let _ = known.compare_exchange(0, cookie, Ordering::AcqRel, Ordering::Relaxed);
    }

    pub fn ports(self) -> (u16, u16) {
        let ports = self.0.ports.load(Ordering::Acquire);
        (ports as u16, (ports >> 16) as u16)
    }

    pub fn name(self, own: SocketAddr) {
        self.0.own.set(own);
    }

    pub fn name_peer(self, peer: SocketAddr) {
        self.0.peer.set(peer);
    }

    pub fn own(self) -> SocketAddr {
        self.0.own.get()
    }

    pub fn peer(self) -> SocketAddr {
        self.0.peer.get()
    }

    /// Its connection was not made: the program is told once.
    pub fn fail(self, why: Errno) {
        let errno = why.raw_os_error().unsigned_abs();
        self.0.errno.store(errno, Ordering::Release);
    }

    /// Whether there is something of which the program was not told.
    pub fn has_error(self) -> bool {
        self.0.errno.load(Ordering::Acquire) != 0
    }

    /// Why its connection was not made, if the program was not told.
    pub fn take_error(self) -> Option<Errno> {
        match self.0.errno.swap(0, Ordering::AcqRel) {
            0 => None,
            errno => Some(Errno::from_raw_os_error(errno.cast_signed())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> &'static Names {
        let pages = Pages::reserve(FIRST + MOST * size_of::<Record>(), Seen::ByChildren);
        Box::leak(Box::new(Names {
            pages: pages.expect("memory"),
        }))
    }

    #[test]
    fn a_socket_is_found_by_its_cookie_and_by_its_ports_until_it_was_accepted() {
        let names = names();
        let socket = names.take().expect("room");
        socket.begin(State::Waits, 0, (7, 9));
        assert!(names.waiting((7, 8)).is_none() && names.of(0).is_none());
        let found = names.waiting((7, 9)).expect("it waits");
        assert!(found.change(State::Waits, State::Stands));
        found.is_numbered(5);
        assert!(names.waiting((7, 9)).is_none() && names.of(4).is_none());
        assert!(names.of(5).is_some_and(|found| found == socket));
    }

    #[test]
    fn addresses_of_both_versions_come_back() {
        let socket = names().take().expect("room");
        for name in ["192.0.2.7:80", "[2001:db8::1]:65535", "0.0.0.0:0"] {
            let name: SocketAddr = name.parse().expect("an address");
            socket.name(name);
            socket.name_peer(name);
            assert_eq!((socket.own(), socket.peer()), (name, name));
        }
    }

    #[test]
    fn an_error_is_told_once() {
        let socket = names().take().expect("room");
        socket.begin(State::Made, 1, (1, 0));
        assert_eq!(socket.take_error(), None);
        socket.fail(Errno::CONNREFUSED);
        assert_eq!(socket.take_error(), Some(Errno::CONNREFUSED));
        assert_eq!(socket.take_error(), None);
    }

    #[test]
    fn a_record_is_used_again_when_there_is_no_other_and_its_connection_is_over() {
        let names = names();
        let all: Vec<_> = std::iter::from_fn(|| names.take()).collect();
        assert_eq!(all.len(), MOST);
        all[17].set(State::Gone);
        assert!(names.take().is_some_and(|socket| socket == all[17]));
        assert!(names.take().is_none());
        all[3].set(State::Free);
        assert!(names.take().is_some_and(|socket| socket == all[3]));
    }
}
