//! Who holds a TCP socket of a network namespace, by its two ends: `sock_diag(7)`.
//!
//! Owns: the question and its answer, and the socket by which another process may ask for one
//! connection. Must not know: who asks, and why.

use crate::own::Own;
use crate::tcp;
use ferriband_host::wake;
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

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
const ANSWER_ENDS: usize = HEADER + 4;
const ANSWER_COOKIE: usize = HEADER + 4 + 40;
const ANSWER_UID: usize = HEADER + 64;
const ANSWER: usize = HEADER + 72;
/// SO_COOKIE, SO_NETNS_COOKIE.
const COOKIE: libc::c_int = 57;
const NAMESPACE: libc::c_int = 71;
/// What may lie in a socket that a peer has as well before its answer is read.
const MOST_STALE: usize = 64;

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

    /// A socket for another process, by which the kernel tells of the socket with these ends and of
    /// nothing else.
    ///
    /// # Errors
    /// As of [`Diag::open`]; setsockopt(2).
    pub fn ticket(own: SocketAddr, peer: SocketAddr) -> Result<Self, Errno> {
        let ticket = Self::open()?;
        let mut program = tells_of(plain(own), plain(peer));
        let filter = libc::sock_fprog {
            len: program.len() as libc::c_ushort,
            filter: program.as_mut_ptr(),
        };
        let pointer = (&raw const filter).cast::<u8>();
        // SAFETY: as long as `filter` is borrowed here.
        let bytes = unsafe { std::slice::from_raw_parts(pointer, size_of::<libc::sock_fprog>()) };
        let (level, on) = (libc::SOL_SOCKET, 1_i32.to_ne_bytes());
        tcp::set_option(ticket.as_fd(), level, libc::SO_ATTACH_FILTER, bytes)?;
        tcp::set_option(ticket.as_fd(), level, libc::SO_LOCK_FILTER, &on)?;
        Ok(ticket)
    }

    /// A socket that another process has opened, and may have still.
    ///
    /// # Errors
    /// PROTO: it is no socket of `sock_diag`.
    pub fn of_peer(given: Own) -> Result<Self, Errno> {
        let option = |name| {
            let mut value = [0; 4];
            tcp::get_option(given.as_fd(), libc::SOL_SOCKET, name, &mut value)?;
            Ok::<_, Errno>(i32::from_ne_bytes(value))
        };
        let is_netlink = option(libc::SO_DOMAIN)? == libc::AF_NETLINK;
        match is_netlink && option(libc::SO_PROTOCOL)? == libc::NETLINK_SOCK_DIAG {
            true => Ok(Self(given)),
            false => Err(Errno::PROTO),
        }
    }

    /// The kernel's number of the network namespace that is asked.
    ///
    /// # Errors
    /// As getsockopt(2).
    pub fn namespace(&self) -> Result<u64, Errno> {
        let mut number = [0; 8];
        tcp::get_option(self.as_fd(), libc::SOL_SOCKET, NAMESPACE, &mut number)?;
        Ok(u64::from_ne_bytes(number))
    }

    /// The TCP socket with these addresses of its own and of its peer; None if there is none in
    /// the network namespace.
    ///
    /// Whoever else has the socket can take the answer, or have questions of his own answered: only
    /// the kernel's answer to this question, of these ends, is taken.
    ///
    /// # Errors
    /// As send(2) and recv(2); PROTO for an answer that is none.
    pub fn holder(&self, own: SocketAddr, peer: SocketAddr) -> Result<Option<Holder>, Errno> {
        let (own, peer) = (plain(own), plain(peer));
        let number = wake::now().as_nanos() as u32;
        let mut request = [0; REQUEST];
        put(&mut request, 0, &(REQUEST as u32).to_ne_bytes());
        put(&mut request, 4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        put(&mut request, 6, &NLM_F_REQUEST.to_ne_bytes());
        put(&mut request, 8, &number.to_ne_bytes());
        let family = match own {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        };
        request[HEADER] = family as u8;
        request[HEADER + 1] = libc::IPPROTO_TCP as u8;
        // in any state
        put(&mut request, HEADER + 4, &[0xff; 4]);
        put_ends(&mut request[REQUEST_ENDS..], own, peer);
        let kernel = SocketAddrNetlink::new(0, 0);
        rustix::net::sendto(&self.0, &request, SendFlags::DONTWAIT, &kernel)?;
        // the answer is there already
        for _ in 0..MOST_STALE {
            let mut answer = [0; 512];
            let (length, _, from) = rustix::io::retry_on_intr(|| {
                rustix::net::recvfrom(&self.0, &mut answer, RecvFlags::DONTWAIT)
            })?;
            let answer = &answer[..length.min(answer.len())];
            let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
            let is_kernels = from.is_some_and(|from| from.pid() == 0);
            if is_kernels && answer.get(8..12) == Some(&number.to_ne_bytes()) {
                return parse(answer, own, peer);
            }
        }
        Err(Errno::PROTO)
    }
}

impl AsFd for Diag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A filter that lets an answer pass, and no more than the answer, that tells of the socket with
/// these ends. An end of IPv4 may be one of an IPv6 socket.
fn tells_of(own: SocketAddr, peer: SocketAddr) -> Vec<libc::sock_filter> {
    let is_four = own.is_ipv4() && peer.is_ipv4();
    let forms = [
        is_four.then(|| (libc::AF_INET, [four(own), four(peer)])),
        Some((libc::AF_INET6, [six(own), six(peer)])),
    ];
    let kind = u16::from_be_bytes(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    let ports = u32::from(own.port()) << 16 | u32::from(peer.port());
    let mut program = Vec::new();
    for (family, ends) in forms.into_iter().flatten() {
        let mut checks = vec![
            (libc::BPF_H, 4, u32::from(kind)),
            (libc::BPF_B, HEADER, family as u32),
            (libc::BPF_W, ANSWER_ENDS, ports),
        ];
        let bytes = ends.concat();
        for (at, word) in bytes.chunks_exact(4).enumerate() {
            let word = u32::from_be_bytes(word.try_into().expect("four bytes"));
            checks.push((libc::BPF_W, ANSWER_ENDS + 4 + 4 * at, word));
        }
        let count = checks.len();
        for (at, (width, place, value)) in checks.into_iter().enumerate() {
            // over what is left of this form, each check two instructions, and over its return
            let over = 2 * (count - at - 1) + 1;
            program.push(step(libc::BPF_LD | width | libc::BPF_ABS, 0, place as u32));
            let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
            program.push(step(equal, over as u8, value));
        }
        program.push(step(libc::BPF_RET | libc::BPF_K, 0, ANSWER as u32));
    }
    program.push(step(libc::BPF_RET | libc::BPF_K, 0, 0));
    program
}

/// An instruction; `over` is how many follow that are not done if it finds no equality.
fn step(code: u32, over: u8, k: u32) -> libc::sock_filter {
    let code = code as u16;
    let (jt, jf) = (0, over);
    libc::sock_filter { code, jt, jf, k }
}

/// An address as it lies in a question and an answer.
fn four(end: SocketAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    if let IpAddr::V4(ip) = end.ip() {
        put(&mut bytes, 0, &ip.octets());
    }
    bytes
}

fn six(end: SocketAddr) -> [u8; 16] {
    match end.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
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
    for (at, end) in [(4, own), (20, peer)] {
        match end {
            SocketAddr::V4(_) => put(into, at, &four(end)),
            SocketAddr::V6(_) => put(into, at, &six(end)),
        }
    }
    // no interface, and no cookie that is known
    put(into, 40, &[0xff; 8]);
}

fn parse(answer: &[u8], own: SocketAddr, peer: SocketAddr) -> Result<Option<Holder>, Errno> {
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
    let told = &answer[ANSWER_ENDS..ANSWER_COOKIE - 4];
    let ports = [own.port().to_be_bytes(), peer.port().to_be_bytes()].concat();
    let is_four = own.is_ipv4() && told[4..] == [four(own), four(peer)].concat();
    if told[..4] != ports || !is_four && told[4..] != [six(own), six(peer)].concat() {
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
