//! Listening sockets that this process has not made: they came by exec, or from another process.
//!
//! Owns: how they are found, and when their port gets a family. Must not know: who asks there.
//!
//! What such a listener is accepted from is this process's own, as with any listener; only where
//! peers ask has to be made here. A family is one name more at the port: it says who holds what was
//! accepted by the processes that share it, and proves nothing, so nobody is asked whether this
//! process may have one. It is made with the first call of the program on the listener, and not as
//! the program begins: most programs that inherit a listener never use it.

use super::service::Service;
use super::state::{self, State};
use super::{Process, socket};
use crate::table::Pin;
use crate::tcp;
use rustix::fs::{Dir, Mode, OFlags};

/// SO_PROTOCOL, SO_DOMAIN, SO_ACCEPTCONN.
const PROTOCOL: i32 = 38;
const DOMAIN: i32 = 39;

impl Process {
    /// As the program begins: finds the listeners that it was given.
    pub fn begin() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(all) = rustix::fs::open(c"/proc/self/fd", flags, Mode::empty()) else {
            return;
        };
        let Ok(names) = Dir::read_from(&all) else {
            return;
        };
        let numbers = names.filter_map(|entry| {
            let entry = entry.ok()?;
            entry.file_name().to_str().ok()?.parse::<i32>().ok()
        });
        let mut listeners = numbers.filter(|number| listens(*number)).peekable();
        if listeners.peek().is_none() {
            return;
        }
        if let Ok(process) = Self::get() {
            listeners.for_each(|number| process.inherits(number));
        }
    }

    /// Before a call of the program's on a stream that is not served here otherwise.
    #[inline]
    pub fn uses(&'static self, number: i32) {
        self.waits(number);
    }

    /// A listener that this process has not made, and that nobody has used so far.
    fn inherits(&'static self, number: i32) {
        if let Some(pin) = self.enter(number, state::INHERITED) {
            pin.traffic().make_foreign();
        }
    }

    /// Of a number of which nothing is known: whether it is such a listener, which it is from now
    /// on. What it is not is remembered.
    #[cold]
    pub(super) fn finds_listener(&'static self, number: i32) -> bool {
        match listens(number) {
            true => self.inherits(number),
            false => self.table.numbers().is_plain(number),
        }
        self.is_stream(number)
    }

    /// The first call on such a listener: peers can ask from now on.
    pub(super) fn takes_over(&'static self, service: &mut Service, pin: &Pin<'_>, number: i32) {
        let traffic = pin.traffic();
        if traffic.is(state::INHERITED) && !traffic.is(state::LISTENS) && listens(number) {
            self.listens(service, pin, number);
        }
    }
}

/// Whether a descriptor is a socket of TCP that listens.
fn listens(number: i32) -> bool {
    let option = |name, value: &[i32]| {
        let mut got = [0; 4];
        let length = tcp::get_option(socket(number), libc::SOL_SOCKET, name, &mut got);
        length == Ok(4) && value.contains(&i32::from_ne_bytes(got))
    };
    option(libc::SO_ACCEPTCONN, &[1])
        && option(DOMAIN, &[libc::AF_INET, libc::AF_INET6])
        && option(PROTOCOL, &[libc::IPPROTO_TCP])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_listener_of_tcp_is_told_from_all_else() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound"));
        let stream = stream.expect("connected");
        let datagrams = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let pid = std::process::id();
        let path = std::env::temp_dir().join(format!("ferriband-listens-{pid}"));
        let unix = UnixListener::bind(&path).expect("a name");
        std::fs::remove_file(path).expect("it was there");
        let six = TcpListener::bind("[::1]:0").expect("a port");
        assert!(listens(listener.as_raw_fd()) && listens(six.as_raw_fd()));
        let others = [stream.as_raw_fd(), datagrams.as_raw_fd(), unix.as_raw_fd()];
        assert!(
            others
                .iter()
                .chain(&[0, 1 << 20])
                .all(|other| !listens(*other))
        );
    }
}
