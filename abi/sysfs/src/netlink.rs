//! Sockets of NETLINK_RDMA, by which programs such as `rdma` ask the kernel about devices: those that a program opens under this library are told
//! of our devices alone, whatever the kernel has.
//!
//! The program's descriptor is a datagram socket that is connected to itself: what answers a request is sent into its own queue while the
//! request is sent, so reading, `poll`, `dup` and fork are the kernel's. Owns nothing: the socket's name, which is abstract, says that it is
//! one of ours and which netlink port it has. It must not know what messages say, but for their lengths: `libibverbs.so.1` answers.

use crate::address::{real_bind, real_connect};
use crate::{ask, real};
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::mem::{offset_of, size_of};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The protocol number: NETLINK_RDMA.
const RDMA: c_int = 20;
/// Begins the name of each socket of ours; the port follows in hexadecimal digits, and what makes the name the only one.
const NAME: &[u8] = b"\0ferriband-netlink-rdma/";
/// Digits of a port.
const PORT_DIGITS: usize = 8;
/// Attempts to find a name that nobody has.
const NAMES: usize = 16;
/// The longest answer: lists of a thousand devices.
const ANSWER_BYTES: usize = 256 << 10;
/// Where a message begins that follows another.
const ALIGNMENT: usize = 4;

/// True if such a socket was ever made here: only then are descriptors looked at.
static SOCKETS: AtomicBool = AtomicBool::new(false);

/// A socket of ours, as the program holds it.
#[derive(Clone, Copy)]
pub struct Socket {
    descriptor: c_int,
    port: u32,
}

impl Socket {
    /// The socket behind a descriptor; None is the usual answer, and quick.
    #[inline]
    pub fn of(descriptor: c_int) -> Option<Socket> {
        if !SOCKETS.load(Ordering::Relaxed) {
            return None;
        }
        let saved = crate::errno();
        let port = named_port(descriptor);
        crate::set_errno(saved);
        port.map(|port| Socket { descriptor, port })
    }

    /// Its address as netlink has it.
    pub fn name(&self) -> libc::sockaddr_nl {
        address(self.port)
    }

    /// Gives it the port that the program says, as `bind` does; 0 leaves the one that it has.
    ///
    /// A socket's name is for its life, so the descriptor gets another socket.
    ///
    /// # Safety
    /// `given` is NULL or points to `length` bytes.
    pub unsafe fn bind(
        &self,
        given: *const c_void,
        length: libc::socklen_t,
    ) -> Result<c_int, c_int> {
        // SAFETY: the caller's promise.
        let given = unsafe { read_address(given, length) }?;
        if given.nl_pid == 0 || given.nl_pid == self.port {
            return Ok(0);
        }
        // SAFETY: the descriptor is the program's; these only read its flags.
        let (closes, status) = unsafe {
            (
                libc::fcntl(self.descriptor, libc::F_GETFD),
                libc::fcntl(self.descriptor, libc::F_GETFL),
            )
        };
        let flag = |set: bool, flag: c_int| if set { flag } else { 0 };
        let replacing = made(
            flag(status & libc::O_NONBLOCK != 0, libc::SOCK_NONBLOCK),
            given.nl_pid,
        )?;
        let closes = flag(closes & libc::FD_CLOEXEC != 0, libc::O_CLOEXEC);
        // SAFETY: both are sockets, of which the second one is replaced.
        let done = unsafe { libc::dup3(replacing, self.descriptor, closes) };
        let errno = crate::errno();
        // SAFETY: nobody else has it.
        unsafe { libc::close(replacing) };
        if done < 0 { Err(errno) } else { Ok(0) }
    }

    /// `connect`: only the kernel can be spoken to.
    ///
    /// # Safety
    /// `given` is NULL or points to `length` bytes.
    pub unsafe fn connect(
        &self,
        given: *const c_void,
        length: libc::socklen_t,
    ) -> Result<c_int, c_int> {
        // SAFETY: the caller's promise.
        match unsafe { read_address(given, length) }?.nl_pid {
            0 => Ok(0),
            _ => Err(libc::ECONNREFUSED),
        }
    }

    /// Answers what the program sends; `to` is where it sends it.
    ///
    /// # Safety
    /// `to` is NULL or points to `length` bytes.
    pub unsafe fn send(
        &self,
        request: &[u8],
        (to, length): (*const c_void, libc::socklen_t),
    ) -> Result<isize, c_int> {
        if !to.is_null() {
            // SAFETY: the caller's promise.
            unsafe { self.connect(to, length) }?;
        }
        let mut answers = vec![0_u8; ANSWER_BYTES];
        let question = question().ok_or(libc::ECONNREFUSED)?;
        // SAFETY: buffers of the lengths that are said.
        let length = unsafe {
            question(
                request.as_ptr(),
                request.len(),
                self.port,
                answers.as_mut_ptr(),
                answers.len(),
            )
        };
        let length = usize::try_from(length).map_err(|_| -length as c_int)?;
        for answer in messages(answers.get(..length).ok_or(libc::EIO)?) {
            self.queue(answer)?;
        }
        Ok(request.len() as isize)
    }

    /// Puts a message where the program reads.
    fn queue(&self, message: &[u8]) -> Result<(), c_int> {
        let (bytes, length) = (message.as_ptr().cast(), message.len());
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: a buffer of the length that is said.
        let send = || unsafe { real_send(self.descriptor, bytes, length, flags) };
        let sent = ferriband_cancel::undisturbed(send);
        match crate::errno() {
            _ if sent >= 0 => Ok(()),
            // the program sends, and never reads
            libc::EAGAIN => Err(libc::ENOBUFS),
            errno => Err(errno),
        }
    }
}

/// Opens one if that is what the program asks of `socket`; None for all other kinds, and if there is nobody who could answer.
pub fn open(domain: c_int, kind: c_int, protocol: c_int) -> Option<Result<c_int, c_int>> {
    let flags = kind & (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
    let is_datagram = matches!(kind & !flags, libc::SOCK_RAW | libc::SOCK_DGRAM);
    if domain != libc::AF_NETLINK || protocol != RDMA || !is_datagram {
        return None;
    }
    question()?;
    SOCKETS.store(true, Ordering::Relaxed);
    Some(made(flags, std::process::id()))
}

/// Writes an address of netlink where the program wants one, as far as there is room, with its true length.
///
/// # Safety
/// `place` is NULL or has as many bytes as `room` says; `room` is NULL or writable.
pub unsafe fn write_address(
    name: &libc::sockaddr_nl,
    place: *mut c_void,
    room: *mut libc::socklen_t,
) {
    if place.is_null() || room.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let fits = unsafe { room.read() } as usize;
    let size = size_of::<libc::sockaddr_nl>();
    // SAFETY: the caller's promise, and the structure is as long.
    unsafe {
        std::ptr::from_ref(name)
            .cast::<u8>()
            .copy_to_nonoverlapping(place.cast(), fits.min(size));
    }
    // SAFETY: the caller's promise.
    unsafe { room.write(size as libc::socklen_t) };
}

/// The address of a port; the kernel's is 0.
pub fn address(port: u32) -> libc::sockaddr_nl {
    // SAFETY: zeros are an address of no family.
    let mut name: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    name.nl_family = libc::AF_NETLINK as _;
    name.nl_pid = port;
    name
}

/// An address that a program gave.
///
/// # Safety
/// `given` is NULL or points to `length` bytes.
unsafe fn read_address(
    given: *const c_void,
    length: libc::socklen_t,
) -> Result<libc::sockaddr_nl, c_int> {
    if given.is_null() || (length as usize) < size_of::<libc::sockaddr_nl>() {
        return Err(libc::EINVAL);
    }
    // SAFETY: as long as this structure.
    let name = unsafe { given.cast::<libc::sockaddr_nl>().read_unaligned() };
    match c_int::from(name.nl_family) {
        libc::AF_NETLINK => Ok(name),
        _ => Err(libc::EINVAL),
    }
}

/// A socket with that port, connected to itself.
fn made(flags: c_int, port: u32) -> Result<c_int, c_int> {
    let socket = real_socket(libc::AF_UNIX, libc::SOCK_DGRAM | flags, 0);
    if socket < 0 {
        return Err(crate::errno());
    }
    let named = (0..NAMES).find_map(|_| {
        let (name, length) = unique_name(port);
        let name = (&raw const name).cast();
        if real_bind(socket, name, length) == 0 {
            let connect = || real_connect(socket, name, length);
            return Some(match ferriband_cancel::undisturbed(connect) {
                0 => Ok(socket),
                _ => Err(crate::errno()),
            });
        }
        let errno = crate::errno();
        (errno != libc::EADDRINUSE).then_some(Err(errno))
    });
    let done = named.unwrap_or(Err(libc::EADDRINUSE));
    if done.is_err() {
        // SAFETY: nobody else has it.
        unsafe { libc::close(socket) };
    }
    done
}

/// A name with that port which probably nobody has.
fn unique_name(port: u32) -> (libc::sockaddr_un, libc::socklen_t) {
    let mut chance = [0_u8; 8];
    // SAFETY: a buffer of the length that is said; without random bytes the next name is tried.
    unsafe { libc::getrandom(chance.as_mut_ptr().cast(), chance.len(), 0) };
    let unique = u64::from_ne_bytes(chance);
    let text = format!("{port:0PORT_DIGITS$x}/{unique:016x}");
    // SAFETY: zeros are an address of no family.
    let mut name: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    name.sun_family = libc::AF_UNIX as _;
    let bytes = NAME.iter().copied().chain(text.bytes());
    let mut length = offset_of!(libc::sockaddr_un, sun_path);
    for (place, byte) in name.sun_path.iter_mut().zip(bytes) {
        *place = byte.cast_signed();
        length += 1;
    }
    (name, length as libc::socklen_t)
}

/// The port in the name of a socket; None if it is none of ours.
fn named_port(descriptor: c_int) -> Option<u32> {
    let mut name = [0_u8; size_of::<libc::sockaddr_un>()];
    let mut length = name.len() as libc::socklen_t;
    // SAFETY: a place of this length. Not by the C function, which is ours.
    let done = unsafe {
        libc::syscall(
            libc::SYS_getsockname,
            descriptor,
            name.as_mut_ptr(),
            &raw mut length,
        )
    };
    let name = name.get(offset_of!(libc::sockaddr_un, sun_path)..length as usize)?;
    let digits = name.strip_prefix(NAME)?.get(..PORT_DIGITS)?;
    let digits = std::str::from_utf8(digits).ok()?;
    u32::from_str_radix(digits, 16).ok().filter(|_| done == 0)
}

/// The messages that stand behind each other.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
        let message = rest.get(..length).filter(|one| !one.is_empty())?;
        rest = rest
            .get(length.next_multiple_of(ALIGNMENT)..)
            .unwrap_or_default();
        Some(message)
    })
}

type Question = unsafe extern "C" fn(*const u8, usize, c_uint, *mut u8, usize) -> isize;

/// The private function of `libibverbs.so.1`; None if there is none that has it.
fn question() -> Option<Question> {
    static FOUND: OnceLock<Option<Question>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        const NAME: &CStr = c"ferriband_netlink";
        let found = ask::private(NAME)?;
        // SAFETY: the function of this name has this type, by agreement with `abi/verbs/src/netlink.rs`.
        Some(unsafe { std::mem::transmute::<*mut c_void, Question>(found) })
    })
}

/// The C library's `socket`.
pub fn real_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    real::call!(-1, fn socket(domain => c_int, kind => c_int, protocol => c_int) -> c_int)
}

/// The C library's `send`.
///
/// # Safety
/// As of the C function.
pub unsafe fn real_send(
    socket: c_int,
    buffer: *const c_void,
    length: usize,
    flags: c_int,
) -> isize {
    real::call!(-1, fn send(socket => c_int, buffer => *const c_void, length => usize, flags => c_int) -> isize)
}
