//! The boxes of this process, each with the Unix socket by which peers tell whoever waits there.
//!
//! Owns: the numbers, the sockets, which of them nobody uses. Must not know: who waits.
//!
//! A box stays as long as the process does, since peers know its number and its socket; whoever
//! waits next takes it over. Peers that tell a box late wake another waiter for nothing, who looks
//! and finds nothing. Peers are told of each box by the channel of their pair; until then what
//! they tell it goes to the service thread.
//!
//! A child has copies. It must not wait at them: whoever reads a socket takes from the parent
//! what the parent has not seen. Only an epoll instance, which the kernel shares between the two,
//! keeps the box that it has.

use crate::meet::bells::MOST_BOXES;
use crate::numbers::once;
use crate::own::{Own, Turn};
use crate::table;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use std::array;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A box. Box 0 is the service thread's and not among these; one that has this number all the same
/// is known to no peer, and the service thread tells it.
#[derive(Debug)]
pub struct Bell {
    number: u32,
    /// Where the waiter hears.
    receiver: Own,
    /// What tells it.
    sender: Own,
}

impl Bell {
    fn new(number: u32) -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let _turn = Turn::begin();
        let (receiver, sender) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let (receiver, sender) = (Own::hide(receiver)?, Own::hide(sender)?);
        Ok(Self {
            number,
            receiver,
            sender,
        })
    }

    /// The number that peers know.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Wakes whoever waits there.
    pub fn ring(&self) {
        // one that is full tells already
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = send(&self.sender, b"!", flags);
    }

    /// Makes it silent. Whoever has waited there looks afterwards: a ring that has found the socket
    /// full came before.
    pub fn silence(&self) {
        let mut heard = [0; 256];
        while matches!(
            recv(&self.receiver, &mut heard, RecvFlags::DONTWAIT),
            Ok((256.., _))
        ) {}
    }

    /// What tells it, for peers.
    pub fn sender(&self) -> BorrowedFd<'_> {
        self.sender.as_fd()
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

/// All boxes that peers may know.
#[derive(Debug)]
struct Made {
    bells: [AtomicPtr<Bell>; MOST_BOXES],
    /// Their number. Box 1 is the first.
    count: AtomicU32,
}

static MADE: AtomicPtr<Made> = AtomicPtr::new(ptr::null_mut());

fn made() -> Result<&'static Made, Errno> {
    once(&MADE, || {
        Ok(Made {
            bells: array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            count: AtomicU32::new(0),
        })
    })
}

/// How many boxes this process has. Their numbers are 1 to this.
pub fn count() -> u32 {
    let made = MADE.load(Ordering::Acquire);
    // SAFETY: what was once put there stays for ever.
    let made = unsafe { made.as_ref() };
    made.map_or(0, |made| made.count.load(Ordering::Acquire))
}

/// The box with a number from 1 to [`count`].
pub fn get(number: u32) -> Option<&'static Bell> {
    let made = made().ok()?;
    let at = (number as usize).checked_sub(1)?;
    let bell = made.bells.get(at)?.load(Ordering::Acquire);
    // SAFETY: what was once put there stays for ever.
    unsafe { bell.as_ref() }
}

/// Boxes that nobody uses.
#[derive(Debug, Default)]
pub(super) struct Free {
    bells: Vec<&'static Bell>,
    /// Whose they are.
    process: u32,
}

impl Free {
    fn make_mine(&mut self) {
        let process = process();
        if self.process != process {
            self.bells.clear();
            self.process = process;
        }
    }

    /// One of them, or a new one; and whether it is new.
    ///
    /// # Errors
    /// No descriptor, no memory.
    pub fn take(&mut self) -> Result<(&'static Bell, bool), Errno> {
        self.make_mine();
        if let Some(bell) = self.bells.pop() {
            return Ok((bell, false));
        }
        let made = made()?;
        let number = made.count.load(Ordering::Acquire) + 1;
        let is_known = (number as usize) < MOST_BOXES;
        let bell = Bell::new(if is_known { number } else { 0 })?;
        let bell: &'static Bell = Box::leak(Box::new(bell));
        if is_known {
            let place = &made.bells[number as usize - 1];
            place.store(ptr::from_ref(bell).cast_mut(), Ordering::Release);
            made.count.store(number, Ordering::Release);
        }
        Ok((bell, is_known))
    }

    /// Nobody waits there any more.
    pub fn give_back(&mut self, bell: &'static Bell) {
        self.make_mine();
        self.bells.push(bell);
    }
}

/// This process's number.
#[inline]
pub(super) fn process() -> u32 {
    (table::thread() >> 32) as u32
}
