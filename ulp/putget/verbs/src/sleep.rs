//! What a thread sleeps on: completion channels, the connection manager's, a bell.
//!
//! Owns: the sleep. Must not know: what is waited for.

use ferriband_host::wake::Event;
use ferriband_ibv::{CmChannel, CompChannel};
use ferriband_tell::Teller;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Why a sleep is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    /// Its time is.
    TimeOver,
    /// Somebody asks the process what it has.
    Asked,
    /// There is news, or the bell has rung.
    News,
}

/// Channels whose descriptors are readable when there is news.
pub(crate) struct Sleep {
    pub channels: Vec<Arc<CompChannel>>,
    pub manager: Arc<CmChannel>,
    /// How long at most.
    pub time: Option<Duration>,
}

impl Sleep {
    /// Sleeps until there is news, the bell rings, somebody asks, or the time is over.
    pub fn until_news(&self, bell: &Event, teller: Option<&Teller>) -> Woken {
        let fds = self.channels.iter().map(|channel| channel.fd());
        let fds = fds.chain([self.manager.fd(), bell.as_fd()]);
        let fds = fds.chain(teller.map(Teller::fd));
        let mut fds: Vec<PollFd<'_>> = fds
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let time = self.time.and_then(|time| Timespec::try_from(time).ok());
        // an interruption is a reason to look, too
        if poll(&mut fds, time.as_ref()) == Ok(0) {
            return Woken::TimeOver;
        }
        let last = fds.last().filter(|_| teller.is_some());
        match last.is_some_and(|last| last.revents().contains(PollFlags::IN)) {
            true => Woken::Asked,
            false => Woken::News,
        }
    }
}
