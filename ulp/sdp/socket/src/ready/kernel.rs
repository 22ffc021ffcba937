//! The kernel's own epoll and poll, by the instruction. Owns: their argument lists. Must
//! not know: which descriptors SDP carries.

use crate::raw::system_call;
use rustix::event::EventfdFlags;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use std::time::Duration;

/// Bits of events: epoll(7) and poll(2) share them.
pub const IN: u32 = libc::EPOLLIN as u32;
/// Urgent bytes.
pub const PRI: u32 = libc::EPOLLPRI as u32;
/// Room to send.
pub const OUT: u32 = libc::EPOLLOUT as u32;
/// An error.
pub const ERR: u32 = libc::EPOLLERR as u32;
/// Both streams have ended.
pub const HUP: u32 = libc::EPOLLHUP as u32;
/// The peer's stream has ended.
pub const RDHUP: u32 = libc::EPOLLRDHUP as u32;
/// With [`IN`].
pub const RDNORM: u32 = libc::EPOLLRDNORM as u32;
/// With [`OUT`].
pub const WRNORM: u32 = libc::EPOLLWRNORM as u32;
/// Edge-triggered.
pub const ET: u32 = libc::EPOLLET as u32;
/// Disabled after its report.
pub const ONESHOT: u32 = libc::EPOLLONESHOT as u32;
/// Of several instances one is enough.
pub const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
/// Keeps the machine from being suspended.
pub const WAKEUP: u32 = libc::EPOLLWAKEUP as u32;

/// What is told of a descriptor: `struct epoll_event` of x86-64.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C, packed)]
pub struct Event {
    /// What has happened, or what is of interest.
    pub events: u32,
    /// The program's own.
    pub data: u64,
}

/// One descriptor of poll(2): `struct pollfd`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Polled {
    /// The descriptor; a negative one is passed over.
    pub fd: i32,
    /// What is of interest.
    pub events: i16,
    /// What is so.
    pub revents: i16,
}

/// Makes an epoll instance.
///
/// # Errors
/// As epoll_create1(2).
pub fn create(flags: i32) -> Result<i32, Errno> {
    // SAFETY: a number.
    let made = unsafe { system_call(libc::SYS_epoll_create1, [flags as isize, 0, 0, 0, 0, 0]) };
    made.map(|number| number as i32)
}

/// Changes what an instance watches.
///
/// # Errors
/// As epoll_ctl(2).
pub fn ctl(instance: i32, op: i32, number: i32, event: Option<Event>) -> Result<(), Errno> {
    let event = event.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let arguments = [
        instance as isize,
        op as isize,
        number as isize,
        event as isize,
        0,
        0,
    ];
    // SAFETY: the kernel reads one event, if there is one.
    unsafe { system_call(libc::SYS_epoll_ctl, arguments) }.map(drop)
}

/// How long a call may wait, and which signals are blocked meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    /// None: without an end.
    pub time: Option<Duration>,
    /// The mask of blocked signals; None: as it is.
    pub signals: Option<&'a u64>,
}

impl Patience<'_> {
    /// One that does not wait.
    pub fn none(self) -> Self {
        let time = Some(Duration::ZERO);
        Self { time, ..self }
    }
}

const MASK_BYTES: isize = 8;

fn address<T>(of: Option<&T>) -> isize {
    of.map_or(0, |at| std::ptr::from_ref(at) as isize)
}

/// A time as the kernel has it.
pub fn spec(time: Option<Duration>) -> Option<libc::timespec> {
    time.map(|time| libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    })
}

/// Milliseconds, rounded up: none of a wait's time is left when it ends.
pub fn milliseconds(time: Option<Duration>) -> i32 {
    let Some(time) = time else {
        return -1;
    };
    let all = time.as_nanos().div_ceil(1_000_000);
    i32::try_from(all).unwrap_or(i32::MAX)
}

/// Waits for events of an instance: `most` at `events`.
///
/// # Errors
/// As epoll_pwait2(2).
///
/// # Safety
/// `most` events may be written there.
pub unsafe fn wait(
    instance: i32,
    events: *mut Event,
    most: usize,
    patience: Patience<'_>,
) -> Result<usize, Errno> {
    let most = i32::try_from(most).unwrap_or(i32::MAX) as isize;
    let (instance, events) = (instance as isize, events as isize);
    let whole = |time: Duration| time.subsec_nanos().is_multiple_of(1_000_000);
    if !patience.time.is_none_or(whole) {
        let time = spec(patience.time);
        let (time, mask) = (address(time.as_ref()), address(patience.signals));
        let arguments = [instance, events, most, time, mask, MASK_BYTES];
        // SAFETY: the caller's promise; a time and a mask that live.
        match unsafe { system_call(libc::SYS_epoll_pwait2, arguments) } {
            Err(Errno::NOSYS) => {}
            answer => return answer.map(|count| count as usize),
        }
    }
    let time = milliseconds(patience.time) as isize;
    let (call, mask) = match patience.signals {
        Some(_) => (libc::SYS_epoll_pwait, address(patience.signals)),
        // a program that filters its system calls knows this one
        None => (libc::SYS_epoll_wait, 0),
    };
    let arguments = [instance, events, most, time, mask, MASK_BYTES];
    // SAFETY: as above.
    unsafe { system_call(call, arguments) }.map(|count| count as usize)
}

/// Waits for what is so of some descriptors.
///
/// # Errors
/// As ppoll(2).
pub fn poll(polled: &mut [Polled], patience: Patience<'_>) -> Result<usize, Errno> {
    let (at, count) = (polled.as_mut_ptr() as isize, polled.len() as isize);
    let mut time = spec(patience.time);
    let time = time
        .as_mut()
        .map_or(0, |time| std::ptr::from_mut(time) as isize);
    let mask = address(patience.signals);
    let arguments = [at, count, time, mask, MASK_BYTES, 0];
    // SAFETY: the kernel writes these descriptors' answers, and what is left of a time of this
    // frame.
    unsafe { system_call(libc::SYS_ppoll, arguments) }.map(|count| count as usize)
}

/// What is so of a socket, of all that can be.
pub fn state(socket: BorrowedFd<'_>) -> u32 {
    let asked = IN | OUT | PRI | RDHUP;
    let mut polled = [Polled {
        fd: socket.as_raw_fd(),
        events: asked as i16,
        revents: 0,
    }];
    let arguments = [polled.as_mut_ptr() as isize, 1, 0, 0, 0, 0];
    // SAFETY: the kernel writes this descriptor's answer.
    match unsafe { system_call(libc::SYS_poll, arguments) } {
        Ok(_) => u32::from(polled[0].revents.cast_unsigned()),
        Err(_) => 0,
    }
}

/// A new eventfd that does not block.
///
/// # Errors
/// As eventfd(2).
pub fn event() -> Result<OwnedFd, Errno> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let arguments = [0, flags.bits() as isize, 0, 0, 0, 0];
    // SAFETY: numbers.
    let made = unsafe { system_call(libc::SYS_eventfd2, arguments) }?;
    // SAFETY: the kernel has just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(made as i32) })
}
