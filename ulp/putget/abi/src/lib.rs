//! `libferriband_putget.so.1`: the two drivers of papers/002 as C calls
//! (`include/ferriband_putget.h`).
//!
//! Owns: the C names, which convert (those of the first driver in [`channels`]); the buffers of a
//! process ([`process`]), which `ferriband tune putget` and `ferriband repro 002` use as programs
//! do. Must not know: what a message looks like, queue pairs.

mod channels;
pub mod process;

use ferriband_host::{fork, wake};
use ferriband_ibv::{Choice, Cm, ErrorKind, Verbs};
use ferriband_putget_proto::tags::{Direction, Note, Range};
use ferriband_putget_proto::{Config, Kind};
use ferriband_putget_verbs::crossover::Crossover;
use ferriband_putget_verbs::settings::{self, SETTINGS};
use ferriband_putget_verbs::{Error, Left, Node, Peer, Server, Settings, Waited};
use process::{Errno, Notification, Process, begin, bind};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Receives that are posted for each peer.
const RECEIVES: u16 = 16;
/// Requests of a peer that are answered at a time.
const REQUESTS: u16 = 64;

/// What the library decides for its connections, whose protocol messages have up to so many bytes,
/// header included.
pub fn settings(message_bytes: u32) -> Settings {
    Settings {
        config: Config {
            message_bytes,
            receives: RECEIVES,
            requests: REQUESTS,
        },
        message_bytes,
        // SAFETY: a call without arguments.
        uid: unsafe { libc::geteuid() },
    }
}

/// What a program holds of an open process (`ferriband_putget_t`). A forked child finds what
/// another process has opened, and leaves it alone.
pub struct Putget {
    server: Server<Process>,
    generation: u32,
}

/// Calls, and says what came of it as errno; a panic is a fault of this library, told as EIO.
fn errno(call: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => 0,
        Ok(Err(Errno(errno))) => errno,
        Err(_) => libc::EIO,
    }
}

fn of_error(error: &Error) -> Errno {
    Errno(match error {
        Error::Verbs(error) if error.kind() == ErrorKind::Invalid => libc::EINVAL,
        Error::Verbs(error) => error.errno(),
        Error::System(error) => error.raw_os_error().unwrap_or(libc::EIO),
        Error::NoAdapter => libc::ENODEV,
        Error::Unspecified => libc::EINVAL,
        Error::Foreign => libc::EPROTO,
        _ => libc::EIO,
    })
}

/// An address in text.
///
/// # Safety
/// A string of C, or null.
unsafe fn address(text: *const c_char, port: u16) -> Result<SocketAddr, Errno> {
    if text.is_null() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    let ip: Option<IpAddr> = text.to_str().ok().and_then(|text| text.parse().ok());
    Ok(SocketAddr::new(ip.ok_or(Errno(libc::EINVAL))?, port))
}

/// The process behind a pointer.
///
/// # Safety
/// A pointer that `ferriband_putget_open` has given and `ferriband_putget_close` was not given, or
/// null.
unsafe fn server<'a>(putget: *mut Putget) -> Result<&'a Server<Process>, Errno> {
    // SAFETY: the caller's promise.
    let putget = unsafe { putget.as_ref() }.ok_or(Errno(libc::EINVAL))?;
    match putget.generation == fork::generation() {
        true => Ok(&putget.server),
        false => Err(Errno(libc::EIO)),
    }
}

/// When a wait of so many milliseconds ends.
fn end(milliseconds: c_int) -> Option<Duration> {
    let time = u64::try_from(milliseconds).ok()?;
    Some(wake::now() + Duration::from_millis(time))
}

/// The connection manager of the verbs library that is used.
fn manager() -> Result<&'static Cm, Errno> {
    let missing = |_| Errno(libc::ENODEV);
    let verbs = Verbs::load(&Choice::from_env().map_err(missing)?).map_err(missing)?;
    Cm::load(verbs).map_err(missing)
}

/// Writes an address where the program wants it.
///
/// # Safety
/// Places of so many bytes for the text, and for the port.
unsafe fn tell_address(
    at: SocketAddr,
    text: *mut c_char,
    length: usize,
    port: *mut u16,
) -> Result<(), Errno> {
    let ip = at.ip().to_string();
    if ip.len() >= length {
        return Err(Errno(libc::ERANGE));
    }
    // SAFETY: the caller's promise; the text and its end fit.
    unsafe { std::ptr::copy_nonoverlapping(ip.as_ptr(), text.cast(), ip.len()) };
    // SAFETY: as above.
    unsafe { text.add(ip.len()).write(0) };
    // SAFETY: the caller's promise.
    unsafe { port.write(at.port()) };
    Ok(())
}

fn open(at: SocketAddr) -> Result<Box<Putget>, Errno> {
    fork::watch();
    let cm = manager()?;
    let values = settings::values(&SETTINGS).map_err(|_| Errno(libc::EINVAL))?;
    let crossover = Crossover::at(cm, at.ip(), &values).map_err(|error| of_error(&error))?;
    let settings = settings(crossover.message_bytes());
    let process = Process::new(crossover);
    let mut node = Node::listen(cm, at, settings, process).map_err(|error| of_error(&error))?;
    node.trace(&values).map_err(|error| of_error(&error))?;
    let server = Server::begin(node).map_err(|error| of_error(&error))?;
    let generation = fork::generation();
    Ok(Box::new(Putget { server, generation }))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_putget_open(
    text: *const c_char,
    port: u16,
    putget: *mut *mut Putget,
) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let at = unsafe { address(text, port) }?;
        let opened = Box::into_raw(open(at)?);
        // SAFETY: a place for the result.
        unsafe { putget.write(opened) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_putget_close(putget: *mut Putget) {
    errno(|| {
        // SAFETY: the caller's promise.
        unsafe { server(putget) }?;
        // SAFETY: `ferriband_putget_open` has made it, and nobody uses it any more.
        drop(unsafe { Box::from_raw(putget) });
        Ok(())
    });
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_putget_address(
    putget: *mut Putget,
    text: *mut c_char,
    length: usize,
    port: *mut u16,
) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let at = unsafe { server(putget) }?.with(|node| node.address());
        // SAFETY: places of so many bytes for the text, and for the port.
        unsafe { tell_address(at, text, length, port) }
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_putget_register(
    putget: *mut Putget,
    memory: *mut c_void,
    length: usize,
    tag: *mut u32,
) -> c_int {
    errno(|| {
        // SAFETY: a place with a wish.
        let wish = unsafe { tag.read() };
        let range = Range {
            address: memory.expose_provenance() as u64,
            length: length as u64,
        };
        // SAFETY: the caller's promise.
        let given = unsafe { server(putget) }?.with(|node| {
            let pd = node.own_domain().map_err(|error| of_error(&error))?;
            // SAFETY: the caller's promise.
            unsafe {
                node.users
                    .register(&pd, range, (wish != u32::MAX).then_some(wish))
            }
        })?;
        // SAFETY: the place again.
        unsafe { tag.write(given) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_putget_unregister(putget: *mut Putget, tag: u32) -> c_int {
    // SAFETY: the caller's promise.
    errno(|| unsafe { server(putget) }?.with(|node| node.users.unregister(tag)))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_putget_connect(
    putget: *mut Putget,
    text: *const c_char,
    port: u16,
    milliseconds: c_int,
    peer: *mut u32,
) -> c_int {
    errno(|| {
        let end = end(milliseconds);
        // SAFETY: the caller's promise.
        let (to, server) = unsafe { (address(text, port)?, server(putget)?) };
        let asked = server.with(|node| {
            let asked = node.peer(to);
            node.users.left.retain(|(left, _)| *left != asked);
            if !node.is_joined(asked) {
                node.users.asked.push(asked);
            }
            let joined = node.join(asked);
            if joined.is_err() {
                node.users.asked.retain(|peer| *peer != asked);
            }
            joined.map(|()| asked)
        });
        let asked = asked.map_err(|error| of_error(&error))?;
        let waited = server.wait(end, |node| {
            let left = node.users.left.iter().find(|(left, _)| *left == asked);
            match left {
                Some((_, why)) => Some(Err(*why)),
                None => node.is_joined(asked).then_some(Ok(())),
            }
        });
        match waited.map_err(|error| of_error(&error))? {
            Waited::Done(Ok(())) => {}
            Waited::Done(Err(Left::Foreign)) => return Err(Errno(libc::EPROTO)),
            Waited::Done(Err(_)) => return Err(Errno(libc::ECONNREFUSED)),
            Waited::TimedOut => {
                server.with(|node| node.leave(asked));
                return Err(Errno(libc::ETIMEDOUT));
            }
        }
        // SAFETY: a place for the result.
        unsafe { peer.write(asked.0) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_putget_accept(
    putget: *mut Putget,
    milliseconds: c_int,
    peer: *mut u32,
) -> c_int {
    errno(|| {
        let end = end(milliseconds);
        // SAFETY: the caller's promise.
        let waited = unsafe { server(putget) }?.wait(end, |node| node.users.arrived.pop_front());
        match waited.map_err(|error| of_error(&error))? {
            // SAFETY: a place for the result.
            Waited::Done(Peer(arrived)) => unsafe { peer.write(arrived) },
            Waited::TimedOut => return Err(Errno(libc::ETIMEDOUT)),
        }
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_putget_disconnect(putget: *mut Putget, peer: u32) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        unsafe { server(putget) }?.with(|node| {
            if !node.is_joined(Peer(peer)) {
                return Err(Errno(libc::ENOTCONN));
            }
            node.leave(Peer(peer));
            Ok(())
        })
    })
}

/// Puts or gets.
///
/// # Safety
/// As the header says of either.
unsafe fn move_bytes(
    putget: *mut Putget,
    peer: u32,
    kind: Kind,
    tags: (u32, u32),
    length: usize,
    acknowledgement: *mut Notification,
) -> c_int {
    let note =
        (!acknowledgement.is_null()).then(|| Note(acknowledgement.expose_provenance() as u64));
    errno(|| {
        // SAFETY: the caller's promise.
        unsafe { server(putget) }?
            .with(|node| begin(node, Peer(peer), kind, tags, length as u64, note))
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_putget_put(
    putget: *mut Putget,
    peer: u32,
    local_tag: u32,
    remote_tag: u32,
    length: usize,
    acknowledgement: *mut Notification,
) -> c_int {
    let tags = (local_tag, remote_tag);
    // SAFETY: the caller's promise.
    unsafe { move_bytes(putget, peer, Kind::Put, tags, length, acknowledgement) }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_putget_get(
    putget: *mut Putget,
    peer: u32,
    local_tag: u32,
    remote_tag: u32,
    length: usize,
    acknowledgement: *mut Notification,
) -> c_int {
    let tags = (local_tag, remote_tag);
    // SAFETY: the caller's promise.
    unsafe { move_bytes(putget, peer, Kind::Get, tags, length, acknowledgement) }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_putget_notify(
    putget: *mut Putget,
    tag: u32,
    direction: c_int,
    notification: *mut Notification,
) -> c_int {
    errno(|| {
        let direction = match direction {
            1 => Direction::Incoming,
            2 => Direction::Outgoing,
            _ => return Err(Errno(libc::EINVAL)),
        };
        let note = Note(notification.expose_provenance() as u64);
        // SAFETY: the caller's promise.
        bind(unsafe { server(putget) }?, tag, direction, note)
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_putget_cancel(putget: *mut Putget, tag: u32) -> c_int {
    // SAFETY: the caller's promise.
    errno(|| unsafe { server(putget) }?.with(|node| node.users.cancel(tag)))
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_putget_set_crossover(
    putget: *mut Putget,
    put_bytes: usize,
    get_bytes: usize,
) {
    errno(|| {
        let crossover = Crossover {
            put: put_bytes as u64,
            get: get_bytes as u64,
        };
        // SAFETY: the caller's promise.
        unsafe { server(putget) }?.with(|node| node.users.crossover = crossover);
        Ok(())
    });
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferriband_putget_crossover(
    putget: *mut Putget,
    put_bytes: *mut usize,
    get_bytes: *mut usize,
) {
    errno(|| {
        // SAFETY: the caller's promise.
        let (crossover, most) = unsafe { server(putget) }?.with(|node| {
            let most = node.config().room(0);
            (node.users.crossover, most)
        });
        // SAFETY: places for the results.
        unsafe {
            put_bytes.write(crossover.put.min(most) as usize);
            get_bytes.write(crossover.get.min(most) as usize);
        }
        Ok(())
    });
}
