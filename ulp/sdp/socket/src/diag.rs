//! Who holds the other end of a TCP connection of this network namespace: `sock_diag(7)`.

use crate::own::Own;
use crate::tcp;
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

/// What the kernel says of a TCP socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// Who has made it: whoever called accept(2) or socket(2).
    pub uid: u32,
    /// 0: nobody has accepted it so far, or its last holder has closed it.
    pub inode: u32,
    /// The kernel's number of this very socket, as SO_COOKIE gives it.
    pub cookie: u64,
    /// TCP's state, `TCP_ESTABLISHED` and so on.
    pub state: u8,
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;
/// Of a request, and of an answer from its family on: where the two ends begin.
const REQUEST_ENDS: usize = HEADER + 8;
const ANSWER_COOKIE: usize = HEADER + 4 + 40;
const ANSWER_UID: usize = HEADER + 64;
const ANSWER: usize = HEADER + 72;
/// SO_COOKIE.
const COOKIE: libc::c_int = 57;

/// A socket by which the kernel is asked.
#[derive(Debug)]
pub struct Diag(Own);

impl Diag {
    /// Opens it.
    ///
    /// # Errors
    /// As socket(2): a filter or a kernel without it.
    pub fn open() -> Result<Self, Errno> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
        let (flags, protocol) = (SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG));
        let socket = Own::make(|| rustix::net::socket_with(family, kind, flags, protocol))?;
        rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self(socket))
    }

    /// The TCP socket with these addresses of its own and of its peer; None if there is none in
    /// this network namespace.
    ///
    /// # Errors
    /// As send(2) and recv(2); PROTO for an answer that is none.
    pub fn holder(&self, own: SocketAddr, peer: SocketAddr) -> Result<Option<Holder>, Errno> {
        let (own, peer) = (plain(own), plain(peer));
        let mut request = [0; REQUEST];
        put(&mut request, 0, &(REQUEST as u32).to_ne_bytes());
        put(&mut request, 4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        put(&mut request, 6, &NLM_F_REQUEST.to_ne_bytes());
        let family = match own {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        };
        request[HEADER] = family as u8;
        request[HEADER + 1] = libc::IPPROTO_TCP as u8;
        // in any state
        put(&mut request, HEADER + 4, &[0xff; 4]);
        put_ends(&mut request[REQUEST_ENDS..], own, peer);
        rustix::net::send(&self.0, &request, SendFlags::empty())?;
        let mut answer = [0; 512];
        let (length, _) = rustix::io::retry_on_intr(|| {
            rustix::net::recv(&self.0, &mut answer, RecvFlags::empty())
        })?;
        parse(&answer[..length.min(answer.len())])
    }
}

/// SO_COOKIE: the kernel's number of a socket.
///
/// # Errors
/// As getsockopt(2).
pub fn cookie(socket: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut cookie = [0; 8];
    tcp::get_option(socket, libc::SOL_SOCKET, COOKIE, &mut cookie)?;
    Ok(u64::from_ne_bytes(cookie))
}

/// An IPv4 address that a socket of IPv6 has is IPv4 to the kernel's table.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn put(into: &mut [u8], at: usize, bytes: &[u8]) {
    into[at..at + bytes.len()].copy_from_slice(bytes);
}

fn put_ends(into: &mut [u8], own: SocketAddr, peer: SocketAddr) {
    put(into, 0, &own.port().to_be_bytes());
    put(into, 2, &peer.port().to_be_bytes());
    for (at, address) in [(4, own), (20, peer)] {
        match address.ip() {
            IpAddr::V4(ip) => put(into, at, &ip.octets()),
            IpAddr::V6(ip) => put(into, at, &ip.octets()),
        }
    }
    // no interface, and no cookie that is known
    put(into, 40, &[0xff; 8]);
}

fn parse(answer: &[u8]) -> Result<Option<Holder>, Errno> {
    let word = |at: usize| {
        let bytes = answer.get(at..at + 4).ok_or(Errno::PROTO)?;
        Ok(u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
    };
    let kind = word(4)? as u16;
    if kind == NLMSG_ERROR {
        let error = Errno::from_raw_os_error(word(HEADER)?.cast_signed().wrapping_neg());
        return match error {
            Errno::NOENT => Ok(None),
            error => Err(error),
        };
    }
    if kind != SOCK_DIAG_BY_FAMILY || answer.len() < ANSWER {
        return Err(Errno::PROTO);
    }
    let [low, high] = [word(ANSWER_COOKIE)?, word(ANSWER_COOKIE + 4)?];
    Ok(Some(Holder {
        uid: word(ANSWER_UID)?,
        inode: word(ANSWER_UID + 4)?,
        cookie: u64::from(high) << 32 | u64::from(low),
        state: answer[HEADER + 1],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    const ESTABLISHED: u8 = 1;

    fn met(listening: &str, name: &str) {
        let listener = TcpListener::bind(listening).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let here = TcpStream::connect((name, port)).expect("connected");
        let (own, peer) = (
            here.local_addr().expect("one"),
            here.peer_addr().expect("one"),
        );
        let diag = Diag::open().expect("this kernel tells");
        let waiting = diag
            .holder(peer, own)
            .expect("an answer")
            .expect("a socket");
        assert_eq!(
            (waiting.inode, waiting.state),
            (0, ESTABLISHED),
            "not accepted yet"
        );
        let (there, _) = listener.accept().expect("accepted");
        let accepted = diag
            .holder(peer, own)
            .expect("an answer")
            .expect("a socket");
        assert_eq!(accepted.uid, rustix::process::getuid().as_raw());
        assert_ne!(accepted.inode, 0);
        assert_eq!(Ok(accepted.cookie), cookie(there.as_fd()));
        let connected = diag
            .holder(own, peer)
            .expect("an answer")
            .expect("a socket");
        assert_eq!(Ok(connected.cookie), cookie(here.as_fd()));
    }

    #[test]
    fn the_other_end_is_named_by_uid_and_cookie() {
        met("127.0.0.1:0", "127.0.0.1");
        met("[::1]:0", "::1");
        // a listener of IPv6 that takes IPv4, too
        met("[::]:0", "127.0.0.1");
    }

    #[test]
    fn an_end_elsewhere_is_none() {
        let diag = Diag::open().expect("this kernel tells");
        let address = |text: &str| text.parse().expect("an address");
        let found = diag.holder(address("192.0.2.7:9"), address("127.0.0.1:9"));
        assert_eq!(found, Ok(None));
    }
}
