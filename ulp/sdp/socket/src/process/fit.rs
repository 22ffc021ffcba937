//! Whether a program uses a socket as SDP can serve it, and what is done to the socket before.
//!
//! Owns: the questions to the kernel. Must not know: when a connection is taken over.

use super::state::{self, State};
use super::{STANDARD, report, socket};
use crate::meet::No;
use crate::meet::message::Reason;
use crate::meet::report::{Cause, Why};
use crate::own::Own;
use crate::table::Pin;
use crate::tcp;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::ffi::CStr;
use std::os::fd::AsFd;

/// Whether one of this process's descriptors is an io_uring. One that cannot be looked at is none.
pub(super) fn has_rings() -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(all) = Own::make(|| rustix::fs::open(c"/proc/self/fd", flags, Mode::empty())) else {
        return false;
    };
    let mut room = Vec::with_capacity(4096);
    let mut names = RawDir::new(&all, room.spare_capacity_mut());
    let is_ring = |name: &CStr| {
        let mut target = [0; RING.len() + 1];
        let read = rustix::fs::readlinkat_raw(&all, name, &mut target);
        read.is_ok_and(|length| target[..length] == *RING)
    };
    while let Some(Ok(entry)) = names.next() {
        if is_ring(entry.file_name()) {
            return true;
        }
    }
    false
}

/// What the kernel calls an io_uring.
const RING: &[u8] = b"anon_inode:[io_uring]";

/// An option's value. None: the kernel does not have it.
fn set(number: i32, level: i32, name: i32) -> Option<i32> {
    let mut value = [0; 4];
    let length = tcp::get_option(socket(number), level, name, &mut value);
    // SO_TIMESTAMPING gives two numbers, of which this is the first
    (length.ok()? >= 4).then(|| i32::from_ne_bytes(value))
}

fn option(number: i32, level: i32, name: i32) -> i32 {
    set(number, level, name).unwrap_or(0)
}

/// TCP_ULP.
const UPPER: i32 = 31;
/// TCP_INQ: each recvmsg(2) tells what is left.
const TELLS_REST: i32 = 36;
/// SO_PEEK_OFF, of TCP since Linux 6.9: where MSG_PEEK looks; -1: it is not set.
const PEEKS_AT: i32 = 42;

/// Options with which the kernel's calls tell or do what the ring's do not, from which value on,
/// and why the connection is TCP then.
const KERNELS: [(i32, i32, i32, Cause); 11] = [
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT, 2, Cause::LowWater),
    // SO_ZEROCOPY
    (libc::SOL_SOCKET, 60, 1, Cause::ZeroCopy),
    // SO_TIMESTAMP, SO_TIMESTAMPNS and SO_TIMESTAMPING, old and with 64 bits of time
    (libc::SOL_SOCKET, 29, 1, Cause::Flags),
    (libc::SOL_SOCKET, 35, 1, Cause::Flags),
    (libc::SOL_SOCKET, 37, 1, Cause::Flags),
    (libc::SOL_SOCKET, 63, 1, Cause::Flags),
    (libc::SOL_SOCKET, 64, 1, Cause::Flags),
    (libc::SOL_SOCKET, 65, 1, Cause::Flags),
    (libc::SOL_SOCKET, PEEKS_AT, 0, Cause::Flags),
    // urgent bytes among the others make the kernel's counts differ from the stream's
    (libc::SOL_SOCKET, libc::SO_OOBINLINE, 1, Cause::Flags),
    (libc::IPPROTO_TCP, TELLS_REST, 1, Cause::Flags),
];

/// Whether a connection is TCP from when its program sets an option to this value.
pub fn asks_kernel(level: i32, name: i32, value: i32) -> bool {
    let of = KERNELS.iter().find(|of| (of.0, of.1) == (level, name));
    of.is_some_and(|of| value >= of.2)
}

/// Whether the program uses the socket as SDP can serve it.
pub(super) fn fit(pin: &Pin<'_>, number: i32) -> Result<(), No> {
    // urgent bytes make the kernel's counts of bytes differ from the stream's
    if pin.link().is_none() && is_urgent(number) {
        if !state::stays(pin) {
            report::note(pin, Why::Cause(Cause::Flags), None);
        }
        state::stay(pin);
    }
    let is_unfit = state::stays(pin) || pin.link().is_some() || unfit(number).is_some();
    match is_unfit {
        true => Err(No::Never(Reason::Unfit)),
        false => Ok(()),
    }
}

/// What the program has set of the socket that only TCP serves.
pub(super) fn unfit(number: i32) -> Option<Cause> {
    if number <= STANDARD {
        return Some(Cause::Standard);
    }
    let flags = rustix::fs::fcntl_getfl(socket(number));
    // FASYNC
    let signals = flags.is_ok_and(|flags| flags.bits() & libc::O_ASYNC as u32 != 0);
    let mut upper = [0; 16];
    let upper = tcp::get_option(socket(number), libc::IPPROTO_TCP, UPPER, &mut upper);
    match () {
        () if signals => Some(Cause::Signals),
        () if upper.is_ok_and(|length| length > 0) => Some(Cause::Tls),
        () => KERNELS.iter().find_map(|&(level, name, least, cause)| {
            (set(number, level, name)? >= least).then_some(cause)
        }),
    }
}

/// Whether an urgent byte is unread in the kernel, or the program wants these among the others.
pub(super) fn is_urgent(number: i32) -> bool {
    let mut asked = [PollFd::from_borrowed_fd(socket(number), PollFlags::PRI)];
    let polled = rustix::event::poll(&mut asked, Some(&Timespec::default()));
    let waits = polled == Ok(1) && asked[0].revents().contains(PollFlags::PRI);
    waits || option(number, libc::SOL_SOCKET, libc::SO_OOBINLINE) != 0
}

/// How long TCP carries nothing of a connection by queue pairs before it asks after the peer.
const SILENT_SECONDS: i32 = 60;

/// What a new socket has for TCP_KEEPIDLE, in seconds.
pub(super) fn default_idle() -> Option<i32> {
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let new = Own::make(|| rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None));
    let mut value = [0; 4];
    let got = tcp::get_option(
        new.ok()?.as_fd(),
        libc::IPPROTO_TCP,
        libc::TCP_KEEPIDLE,
        &mut value,
    );
    (got == Ok(4)).then(|| i32::from_ne_bytes(value))
}

fn set_keep_alive(number: i32, is_on: bool, idle_seconds: i32) {
    let set = |level, name, value: i32| {
        let _ = tcp::set_option(socket(number), level, name, &value.to_ne_bytes());
    };
    set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, idle_seconds);
    set(libc::SOL_SOCKET, libc::SO_KEEPALIVE, i32::from(is_on));
}

/// TCP carries nothing while queue pairs carry a connection, and whoever counts connections on the
/// way would forget it: it asks after the peer each minute, unless the program has set what it
/// does.
pub(super) fn keep_alive(pin: &Pin<'_>, number: i32) {
    let is_wanted = option(number, libc::SOL_SOCKET, libc::SO_KEEPALIVE) != 0;
    let idle = option(number, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE);
    if !is_wanted && default_idle() == Some(idle) {
        pin.traffic().add(state::KEPT_ALIVE);
        set_keep_alive(number, true, SILENT_SECONDS);
    }
}

/// What [`keep_alive`] has set is as the program has it.
pub(super) fn let_be(pin: &Pin<'_>, number: i32) {
    if pin.traffic().is(state::KEPT_ALIVE)
        && let Some(idle) = default_idle()
        && pin.traffic().takes(state::KEPT_ALIVE)
    {
        set_keep_alive(number, false, idle);
    }
}

/// Nothing that the program has sent stays in the kernel for want of company: what would hold it
/// there is remembered.
pub(super) fn smooth(pin: &Pin<'_>, number: i32) {
    if option(number, libc::IPPROTO_TCP, libc::TCP_CORK) != 0 {
        pin.traffic().add(state::CORKED);
        let _ = rustix::net::sockopt::set_tcp_cork(socket(number), false);
    }
    if option(number, libc::IPPROTO_TCP, libc::TCP_NODELAY) == 0 {
        pin.traffic().add(state::DELAYS);
        let _ = rustix::net::sockopt::set_tcp_nodelay(socket(number), true);
    }
}
