//! A connection that the service looks after.
//!
//! Owns: by which number its socket is reached, and what a close has left to do. Must not know: how
//! the service hears of news.

use super::{Process, socket};
use crate::arena::Taken;
use crate::calls;
use crate::link::{Link, Told};
use crate::meet::Ticket;
use crate::segment::Role;
use crate::table::{Changing, Last, Pin};
use ferriband_sdp_local::{BOX, CONNECTION_OVER, PEER_ENDED, Reader, Writer};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::BorrowedFd;
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
    /// The kernel carries it for good, and tells the service no more.
    pub is_quiet: bool,
}

/// Where its words lie, as this process is to give it back.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub ticket: Ticket,
    pub role: Role,
    pub cookie: u64,
}

/// A connection whose last number the program has closed. Its link keeps the socket.
pub(super) enum Kept {
    /// Other threads are in calls, which go on as if nothing was closed.
    Calls(Pin<'static>, Changing<'static>),
    /// The last that this process has of the record.
    Last(Last<'static>),
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

    /// Whether another process may hold it, too.
    pub fn is_shared(&self, process: &'static Process) -> bool {
        let pin = process.table.pin_taken(self.taken);
        pin.is_some_and(|pin| pin.others_hold())
    }

    /// Does something with the link and a socket of the connection. None if they are gone.
    pub fn with<T>(
        &self,
        process: &'static Process,
        does: impl FnOnce(&Link<'static>, BorrowedFd<'_>) -> T,
    ) -> Option<T> {
        if let Some(kept) = &self.kept {
            let link = kept.link()?;
            return Some(does(link, link.kept()?));
        }
        let pin = process.table.pin_taken(self.taken)?;
        if !process.is_still(self.number, self.taken.index) {
            return None;
        }
        Some(does(pin.link()?, socket(self.number)))
    }
}

impl Kept {
    pub fn link(&self) -> Option<&Link<'static>> {
        match self {
            Kept::Calls(pin, _) => pin.link(),
            Kept::Last(last) => last.link(),
        }
    }

    /// In a child, which has neither the calls nor anything left to do: the socket is its parent's.
    pub fn forked(self) {
        match self {
            Kept::Calls(pin, _) => pin.forget_parents(),
            Kept::Last(last) => drop(last),
        }
    }

    /// Whether it has nothing to do any more; else the service thread is told when it may.
    pub fn may_close(&self) -> bool {
        let Kept::Last(last) = self else {
            return false;
        };
        let Some((link, socket)) = last.link().and_then(|link| Some((link, link.kept()?))) else {
            return true;
        };
        let call = link.on(socket);
        if calls::may_close(call) {
            return true;
        }
        link.set_box(0);
        Reader(&call).want_bytes(BOX);
        Writer(&call).want_room(BOX);
        calls::may_close(call)
    }
}

/// What the kernel knows of a connection's end. POLLERR is none: the error queue, where the kernel
/// puts time stamps for example, is told so, and errors from routers with IP_RECVERR.
pub(super) fn ended(socket: BorrowedFd<'_>) -> u64 {
    let mut asked = [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)];
    if rustix::event::poll(&mut asked, Some(&Timespec::default())) != Ok(1) {
        return 0;
    }
    let told = asked[0].revents();
    let over = PollFlags::HUP | PollFlags::NVAL;
    match (told.intersects(over), told.contains(PollFlags::RDHUP)) {
        (true, _) => PEER_ENDED | CONNECTION_OVER,
        (false, true) => PEER_ENDED,
        (false, false) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::system_call;
    use crate::testing::soon;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd, AsRawFd};

    /// SO_TIMESTAMPING of what is sent, by software.
    const STAMPS: i32 = 1 << 1 | 1 << 4;

    fn set(socket: &TcpStream, name: i32, value: i32) {
        let (number, at) = (socket.as_raw_fd() as isize, &raw const value as isize);
        let arguments = [number, libc::SOL_SOCKET as isize, name as isize, at, 4, 0];
        // SAFETY: a number, which the kernel reads.
        unsafe { system_call(libc::SYS_setsockopt, arguments) }.expect("set");
    }

    fn polled(socket: &TcpStream) -> PollFlags {
        let mut asked = [PollFd::new(socket, PollFlags::RDHUP)];
        rustix::event::poll(&mut asked, Some(&Timespec::default())).expect("polled");
        asked[0].revents()
    }

    #[test]
    fn an_error_queue_is_no_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut here =
            TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let mut there = listener.accept().expect("accepted").0;
        set(&here, libc::SO_TIMESTAMPING, STAMPS);
        here.write_all(b"stamped").expect("sent");
        there.read_exact(&mut [0; 7]).expect("received");
        soon(|| polled(&here).contains(PollFlags::ERR));
        assert_eq!(ended(here.as_fd()), 0);
        here.write_all(b"more").expect("sent");
        there.read_exact(&mut [0; 4]).expect("received");
        // closed with bytes unread: a reset
        there.write_all(b"unread").expect("sent");
        here.write_all(b"unread").expect("sent");
        drop(there);
        soon(|| ended(here.as_fd()) == PEER_ENDED | CONNECTION_OVER);
    }
}
