//! The service's ends of the program's sockets, on the loopback interface.
//!
//! Owns: how an end comes to a socket of the program's that connects, and to one that listens. Must
//! not know: what is carried.
//!
//! A socket of the program's that connects does so to the *plug*: a listener whose queue is full,
//! so the kernel takes no SYN there and answers none. The program's socket is in SYN_SENT, as one
//! whose peer has not answered: connect, poll, epoll and SO_ERROR are the kernel's. When the SDP
//! connection stands, the service connects from the plug's port to the program's port: both ends
//! have asked for each other, which TCP knows as a simultaneous open (RFC 9293, 3.5). Nobody else
//! can: the plug's port is taken, but for sockets of the same user.

use crate::own::Own;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_linger, set_socket_oobinline, set_socket_reuseaddr, set_socket_reuseport,
    set_tcp_nodelay, socket_error,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// How long the plug's own connection may take.
const PATIENCE: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// How often a port is chosen anew.
const TRIES: u32 = 16;

/// An address of the loopback interface.
pub(super) fn at(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

/// A socket at a port of the loopback interface that is free, which it keeps when a connection
/// ends: the kernel takes back what it has chosen itself.
///
/// # Errors
/// As socket(2) and bind(2).
pub(super) fn socket(flags: SocketFlags) -> Result<(OwnedFd, u16), Errno> {
    let socket = plain(flags)?;
    let mut tries = 0..TRIES;
    loop {
        let port = free_port()?;
        match rustix::net::bind(&socket, &at(port)) {
            // another has taken it meanwhile
            Err(Errno::ADDRINUSE) if tries.next().is_some() => {}
            bound => return bound.map(|()| (socket, port)),
        }
    }
}

fn free_port() -> Result<u16, Errno> {
    let probe = own()?;
    rustix::net::bind(&probe, &at(0))?;
    port(probe.as_fd())
}

fn plain(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
}

fn own() -> Result<Own, Errno> {
    Own::make(|| plain(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK))
}

/// The port of a socket of IPv4.
pub(super) fn port(socket: BorrowedFd<'_>) -> Result<u16, Errno> {
    Ok(SocketAddr::try_from(rustix::net::getsockname(socket)?)?.port())
}

/// The peer's port of a socket of IPv4 that is connected.
pub(super) fn peer_port(socket: BorrowedFd<'_>) -> Result<u16, Errno> {
    let peer = rustix::net::getpeername(socket)?.ok_or(Errno::NOTCONN)?;
    Ok(SocketAddr::try_from(peer)?.port())
}

/// An end whose connection is reset if it is closed, as by the death of this process.
fn end() -> Result<Own, Errno> {
    let end = own()?;
    set_socket_linger(&end, Some(Duration::ZERO))?;
    set_tcp_nodelay(&end, true)?;
    // urgent bytes go on as others
    set_socket_oobinline(&end, true)?;
    Ok(end)
}

/// An end that is closed from here on as a stream that has ended.
pub(super) fn close_well(end: &Own) {
    // a close that resets is told to nobody: both streams have ended
    let _ = set_socket_linger(end, None);
}

/// Whether an end is connected; None while that is not known.
pub(super) fn outcome(end: &Own) -> Option<Result<(), Errno>> {
    is_ready(end.as_fd(), PollFlags::OUT, Timespec::default())
        .then(|| socket_error(end).and_then(|outcome| outcome))
}

fn is_ready(socket: BorrowedFd<'_>, events: PollFlags, within: Timespec) -> bool {
    let mut asked = [PollFd::from_borrowed_fd(socket, events)];
    matches!(rustix::event::poll(&mut asked, Some(&within)), Ok(1))
}

/// Begins to connect; what comes of it is [`outcome`].
fn dial(end: &Own, to: u16) -> Result<(), Errno> {
    match rustix::net::connect(end, &at(to)) {
        Err(Errno::INPROGRESS) => Ok(()),
        other => other,
    }
}

/// An end for a connection that a listener of the program's is to accept, and its port.
///
/// # Errors
/// As socket(2) and bind(2).
pub(super) fn offer() -> Result<(Own, u16), Errno> {
    let end = end()?;
    rustix::net::bind(&end, &at(0))?;
    let port = port(end.as_fd())?;
    Ok((end, port))
}

/// Offers it at the listener's port.
///
/// # Errors
/// As connect(2).
pub(super) fn present(end: &Own, listener: u16) -> Result<(), Errno> {
    dial(end, listener)
}

/// Whether a socket of the program's that is not connected is still there: the kernel lends its
/// port to nobody.
pub(super) fn is_there(port: u16, listens: bool) -> bool {
    let probe = || {
        let probe = own()?;
        // a listener's port is taken by itself alone, not by what it has accepted
        set_socket_reuseaddr(&probe, listens)?;
        rustix::net::bind(&probe, &at(port))
    };
    probe() == Err(Errno::ADDRINUSE)
}

/// Where the program's sockets connect to.
pub(super) struct Plug {
    _listener: Own,
    /// What fills its queue.
    _filling: Own,
    port: u16,
}

impl Plug {
    /// # Errors
    /// As socket(2); there is no loopback interface.
    pub fn new() -> Result<Self, Errno> {
        let listener = own()?;
        set_socket_reuseport(&listener, true)?;
        rustix::net::bind(&listener, &at(0))?;
        rustix::net::listen(&listener, 0)?;
        let port = port(listener.as_fd())?;
        let filling = own()?;
        dial(&filling, port)?;
        // a stranger's connection fills it as well
        match is_ready(listener.as_fd(), PollFlags::IN, PATIENCE) {
            true => Ok(Plug {
                _listener: listener,
                _filling: filling,
                port,
            }),
            false => Err(Errno::TIMEDOUT),
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// An end for the program's socket at a port, which connects to the plug. Refused: the
    /// program's socket does not connect at this moment.
    ///
    /// # Errors
    /// As socket(2) and connect(2).
    pub fn join(&self, port: u16) -> Result<Own, Errno> {
        let end = end()?;
        set_socket_reuseport(&end, true)?;
        rustix::net::bind(&end, &at(self.port))?;
        dial(&end, port)?;
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(end: &Own) -> Result<(), Errno> {
        for _ in 0..10_000 {
            if let Some(outcome) = outcome(end) {
                return outcome;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("no outcome")
    }

    #[test]
    fn who_connects_to_the_plug_waits_and_is_joined_from_there_alone() {
        let plug = Plug::new().expect("a plug");
        let (program, port) = socket(SocketFlags::NONBLOCK).expect("a socket");
        // too early
        let end = plug.join(port).expect("begun");
        assert_eq!(result(&end), Err(Errno::CONNREFUSED));
        drop(end);
        let begun = rustix::net::connect(&program, &at(plug.port()));
        assert_eq!(begun, Err(Errno::INPROGRESS));
        let brief = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        assert!(!is_ready(program.as_fd(), PollFlags::OUT, brief));
        // a stranger is another port's
        let stranger = offer().expect("a socket").0;
        dial(&stranger, port).expect("begun");
        assert_eq!(result(&stranger), Err(Errno::CONNREFUSED));
        assert!(!is_ready(program.as_fd(), PollFlags::OUT, brief));
        let end = plug.join(port).expect("begun");
        assert_eq!(result(&end), Ok(()));
        assert!(is_ready(program.as_fd(), PollFlags::OUT, PATIENCE));
        assert_eq!(socket_error(&program), Ok(Ok(())));
        assert_eq!(peer_port(program.as_fd()), Ok(plug.port()));
        // an end that is closed resets, and the program's socket keeps its port
        drop(end);
        assert!(is_ready(program.as_fd(), PollFlags::IN, PATIENCE));
        assert_eq!(socket_error(&program), Ok(Err(Errno::CONNRESET)));
        assert!(is_there(port, false));
        rustix::net::connect_unspec(&program).expect("as before");
        assert_eq!(super::port(program.as_fd()), Ok(port));
    }

    #[test]
    fn a_socket_is_there_until_it_was_closed_bound_or_listening() {
        for listens in [false, true] {
            let (program, port) = socket(SocketFlags::empty()).expect("a socket");
            if listens {
                set_socket_reuseaddr(&program, true).expect("set");
                rustix::net::listen(&program, 4).expect("it listens");
                let (end, _) = offer().expect("a socket");
                present(&end, port).expect("begun");
                assert_eq!(result(&end), Ok(()));
                let accepted = rustix::net::accept(&program).expect("accepted");
                // its side waits in TIME_WAIT
                drop(accepted);
                assert!(is_ready(end.as_fd(), PollFlags::IN, PATIENCE));
                close_well(&end);
                drop(end);
            }
            assert!(is_there(port, listens), "{listens}");
            drop(program);
            assert!(!is_there(port, listens), "{listens}");
        }
    }
}
