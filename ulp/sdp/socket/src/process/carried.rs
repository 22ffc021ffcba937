//! A connection that the service looks after.
//!
//! Owns: by which number its socket is reached, and what a close has left to do. Must not know: how
//! the service hears of news.

use super::{Process, socket};
use crate::arena::Taken;
use crate::calls;
use crate::link::{Link, Told};
use crate::meet::Ticket;
use crate::own::Own;
use crate::segment::Role;
use crate::table::Last;
use ferriband_sdp_local::{BOX, CONNECTION_OVER, PEER_ENDED, Reader, Writer};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

/// A connection with a link.
pub(super) struct Carried {
    pub taken: Taken,
    /// One that the program has for it; -1 if it has none.
    pub number: i32,
    /// Where peers tell of it.
    pub told: Told,
    /// This process's to give back.
    pub slot: Option<Slot>,
    /// The program has closed it.
    pub kept: Option<Kept>,
}

/// Where its words lie, as this process is to give it back.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub ticket: Ticket,
    pub role: Role,
    pub cookie: u64,
}

/// A socket that the program has closed, with the last that this process has of its record.
pub(super) struct Kept {
    pub socket: Own,
    pub last: Last<'static>,
}

impl Carried {
    /// A number of the program's; -1 if it has none.
    pub fn number(&self) -> i32 {
        self.number
    }

    /// Whether a peer has told of news that nobody has taken.
    pub fn is_told(&self) -> bool {
        self.told.word().load(Ordering::SeqCst) >> self.told.slot() & 1 != 0
    }

    /// Does something with the link and a socket of the connection. None if they are gone.
    pub fn with<T>(
        &self,
        process: &'static Process,
        does: impl FnOnce(&Link<'static>, BorrowedFd<'_>) -> T,
    ) -> Option<T> {
        if let Some(kept) = &self.kept {
            return Some(does(kept.last.link()?, kept.socket.as_fd()));
        }
        let pin = process.table.pin_taken(self.taken)?;
        if !process.is_still(self.number, self.taken.index) {
            return None;
        }
        Some(does(pin.link()?, socket(self.number)))
    }
}

impl Kept {
    /// Whether it has nothing to do any more; else the service thread is told when it may.
    pub fn may_close(&self) -> bool {
        let Some(link) = self.last.link() else {
            return true;
        };
        let call = link.on(self.socket.as_fd());
        if calls::may_close(call) {
            return true;
        }
        link.set_box(0);
        Reader(&call).want_bytes(BOX);
        Writer(&call).want_room(BOX);
        calls::may_close(call)
    }
}

/// What the kernel knows of a connection's end.
pub(super) fn ended(socket: BorrowedFd<'_>) -> u64 {
    let mut asked = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    if rustix::event::poll(&mut asked, Some(&Timespec::default())) != Ok(1) {
        return 0;
    }
    let told = asked[0].revents();
    let over = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    match (told.intersects(over), told.contains(PollFlags::RDHUP)) {
        (true, _) => PEER_ENDED | CONNECTION_OVER,
        (false, true) => PEER_ENDED,
        (false, false) => 0,
    }
}
