//! What the kernel says of a TCP socket, and what is sent and taken without waiting.

use crate::raw::system_call;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;

/// Bytes and state of a connection, as of one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Info {
    /// Given to the kernel to send since the connection was made.
    pub sent: u64,
    /// Received in order since then, whether taken or not.
    pub received: u64,
    /// The peer's FIN has come.
    pub peer_ended: bool,
}

/// Bytes of `struct tcp_info` that are asked for: up to `tcpi_bytes_retrans` (Linux 4.19).
const INFO_BYTES: usize = 216;
const STATE: usize = 0;
const BYTES_RECEIVED: usize = 128;
const NOTSENT_BYTES: usize = 144;
const BYTES_SENT: usize = 200;
const BYTES_RETRANS: usize = 208;
/// States in which the peer's FIN has come, which `tcpi_bytes_received` counts as a byte.
const AFTER_FIN: [u8; 4] = [6, 8, 9, 11];

/// Asks the kernel.
///
/// # Errors
/// What getsockopt(2) answers; ENOPROTOOPT if this kernel does not count bytes.
pub fn info(socket: BorrowedFd<'_>) -> Result<Info, Errno> {
    let mut info = [0_u8; INFO_BYTES];
    let length = get_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    if length < INFO_BYTES {
        return Err(Errno::NOPROTOOPT);
    }
    let word = |at: usize| {
        let bytes = info[at..at + 8].try_into().expect("eight bytes");
        u64::from_ne_bytes(bytes)
    };
    let unsent = u64::from(word(NOTSENT_BYTES) as u32);
    let peer_ended = AFTER_FIN.contains(&info[STATE]);
    Ok(Info {
        sent: word(BYTES_SENT) - word(BYTES_RETRANS) + unsent,
        received: word(BYTES_RECEIVED) - u64::from(peer_ended),
        peer_ended,
    })
}

/// getsockopt(2) into a buffer; gives how much of it was filled.
///
/// # Errors
/// As getsockopt(2).
pub fn get_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &mut [u8],
) -> Result<usize, Errno> {
    let mut length = value.len() as libc::socklen_t;
    let arguments = [
        socket.as_raw_fd() as isize,
        level as isize,
        name as isize,
        value.as_mut_ptr() as isize,
        (&raw mut length) as isize,
        0,
    ];
    // SAFETY: the kernel writes `length` bytes at most to the value, and the length.
    unsafe { system_call(libc::SYS_getsockopt, arguments) }?;
    Ok(length as usize)
}

/// setsockopt(2) of these bytes.
///
/// # Errors
/// As setsockopt(2).
pub fn set_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &[u8],
) -> Result<(), Errno> {
    let arguments = [
        socket.as_raw_fd() as isize,
        level as isize,
        name as isize,
        value.as_ptr() as isize,
        value.len() as isize,
        0,
    ];
    // SAFETY: the kernel reads the value alone.
    unsafe { system_call(libc::SYS_setsockopt, arguments) }.map(drop)
}

/// Bytes that the peer's kernel has not acknowledged, those of a FIN included.
///
/// # Errors
/// As ioctl(2).
pub fn unacknowledged(socket: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut bytes: libc::c_int = 0;
    let arguments = [
        socket.as_raw_fd() as isize,
        libc::TIOCOUTQ as isize,
        (&raw mut bytes) as isize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel writes one number.
    unsafe { system_call(libc::SYS_ioctl, arguments) }?;
    Ok(bytes.max(0) as u64)
}

/// Bytes that were taken from the socket since the connection was made. Exact, whatever comes
/// meanwhile, as long as nobody takes any.
///
/// # Errors
/// As [`info`] and ioctl(2).
pub fn taken(socket: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut received = info(socket)?.received;
    loop {
        let unread = rustix::io::ioctl_fionread(socket)?;
        let now = info(socket)?.received;
        if now == received {
            return Ok(received.saturating_sub(unread));
        }
        received = now;
    }
}

/// sendmsg(2) without waiting, of two pieces; no signal comes of it.
///
/// # Errors
/// As sendmsg(2).
///
/// # Safety
/// The pieces may be read.
pub unsafe fn send(socket: BorrowedFd<'_>, parts: &[libc::iovec; 2]) -> Result<usize, Errno> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the caller's promise.
    unsafe { by_message(libc::SYS_sendmsg, socket, parts, flags) }
}

/// recvmsg(2) of what is there without waiting, into memory that others may look at meanwhile. One
/// call, as the kernel tells an error once: who is given bytes is told in the next.
///
/// # Errors
/// As recvmsg(2).
///
/// # Safety
/// The pieces may be written.
pub unsafe fn receive(socket: BorrowedFd<'_>, parts: &[libc::iovec]) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    unsafe { by_message(libc::SYS_recvmsg, socket, parts, libc::MSG_DONTWAIT) }
}

/// recvmsg(2) with MSG_PEEK, without waiting.
///
/// # Errors
/// As recvmsg(2).
///
/// # Safety
/// The pieces may be written.
pub unsafe fn peek(socket: BorrowedFd<'_>, parts: &[libc::iovec]) -> Result<usize, Errno> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
    // SAFETY: the caller's promise.
    unsafe { by_message(libc::SYS_recvmsg, socket, parts, flags) }
}

/// sendmsg(2) or recvmsg(2) of pieces of memory and nothing else.
///
/// # Errors
/// As the call.
///
/// # Safety
/// The pieces may be read, or written.
pub unsafe fn by_message(
    call: libc::c_long,
    socket: BorrowedFd<'_>,
    parts: &[libc::iovec],
    flags: libc::c_int,
) -> Result<usize, Errno> {
    // SAFETY: of this structure zeros are a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_ptr().cast_mut();
    message.msg_iovlen = parts.len();
    let at = &raw mut message as isize;
    let arguments = [socket.as_raw_fd() as isize, at, flags as isize, 0, 0, 0];
    // SAFETY: the caller's promise, and a message of this frame.
    unsafe { system_call(call, arguments) }.map(isize::cast_unsigned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let here = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        (here, listener.accept().expect("accepted").0)
    }

    fn soon(what: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(10);
        while !what() {
            assert!(Instant::now() < until);
            std::thread::yield_now();
        }
    }

    #[test]
    fn bytes_are_counted_without_syn_and_fin() {
        let (mut here, mut there) = pair();
        here.write_all(&[7; 1000]).expect("sent");
        let mut taken = [0; 400];
        there.read_exact(&mut taken).expect("received");
        assert_eq!(info(here.as_fd()).expect("told").sent, 1000);
        soon(|| info(there.as_fd()).expect("told").received == 1000);
        assert_eq!(rustix::io::ioctl_fionread(&there), Ok(600));
        here.shutdown(Shutdown::Write).expect("shut");
        soon(|| info(there.as_fd()).expect("told").peer_ended);
        assert_eq!(info(there.as_fd()).expect("told").received, 1000);
        assert_eq!(info(here.as_fd()).expect("told").sent, 1000);
    }

    #[test]
    fn what_is_not_acknowledged_is_told() {
        let (mut here, _there) = pair();
        soon(|| unacknowledged(here.as_fd()) == Ok(0));
        here.set_nonblocking(true).expect("set");
        while here.write(&[0; 65536]).is_ok() {}
        assert!(unacknowledged(here.as_fd()).expect("told") > 0);
        let no_socket = std::fs::File::open("/dev/null").expect("it is there");
        assert!(info(no_socket.as_fd()).is_err());
    }
}
