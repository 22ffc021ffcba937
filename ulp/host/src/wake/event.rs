//! Eventfds: counters that wake whoever polls their descriptors.

use rustix::event::EventfdFlags;
use rustix::fs::OFlags;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// What the kernel calls an eventfd.
const NAME: &str = "anon_inode:[eventfd]";

/// An eventfd that does not block. It can be polled for reading while its count is not 0.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// A new eventfd with a count of 0, which programs that are executed do not inherit.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(rustix::event::eventfd(0, flags)?))
    }

    /// Takes over a descriptor that came from another process. Another kind of file would block, or
    /// end this process by a signal when it is written to.
    ///
    /// # Errors
    /// `InvalidData` if it is no eventfd, or one that blocks; what the kernel answers where
    /// `/proc` is not mounted.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let name = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        let is_event = name.as_os_str() == NAME;
        if is_event && rustix::fs::fcntl_getfl(&fd)?.contains(OFlags::NONBLOCK) {
            return Ok(Self(fd));
        }
        let text = format!("an eventfd that does not block is expected, not {name:?}");
        Err(io::Error::new(io::ErrorKind::InvalidData, text))
    }

    /// Adds 1 to the count, which wakes whoever polls.
    #[inline]
    pub fn signal(&self) {
        signal(self.as_fd());
    }

    /// Sets the count to 0: what it was.
    #[inline]
    pub fn take(&self) -> u64 {
        take(self.as_fd())
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Event {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl From<Event> for OwnedFd {
    fn from(event: Event) -> Self {
        event.0
    }
}

/// Adds 1 to the count of an eventfd that does not block, which wakes whoever polls it. A count
/// that is full stays full: whoever polls it is awake.
pub fn signal(event: BorrowedFd<'_>) {
    // An eventfd takes eight bytes or says EAGAIN.
    let _ = rustix::io::retry_on_intr(|| rustix::io::write(event, &1_u64.to_ne_bytes()));
}

/// Sets the count of an eventfd that does not block to 0: what it was.
pub fn take(event: BorrowedFd<'_>) -> u64 {
    let mut count = [0; 8];
    match rustix::io::retry_on_intr(|| rustix::io::read(event, &mut count)) {
        Ok(_) => u64::from_ne_bytes(count),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    fn is_ready(event: &Event) -> bool {
        let mut fds = [PollFd::new(event, PollFlags::IN)];
        poll(&mut fds, Some(&rustix::event::Timespec::default())).expect("a look") == 1
    }

    #[test]
    fn signals_add_up_until_they_are_taken() {
        let event = Event::new().expect("an eventfd");
        assert!(!is_ready(&event));
        assert_eq!(event.take(), 0);
        event.signal();
        event.signal();
        assert!(is_ready(&event));
        assert_eq!(event.take(), 2);
        assert!(!is_ready(&event));
    }

    #[test]
    fn a_full_count_neither_blocks_nor_is_lost() {
        let event = Event::new().expect("an eventfd");
        let most = u64::MAX - 1;
        rustix::io::write(&event, &most.to_ne_bytes()).expect("the largest count");
        event.signal();
        assert_eq!(event.take(), most);
    }

    #[test]
    fn a_descriptor_from_elsewhere_must_be_an_eventfd_that_does_not_block() {
        let event = Event::new().expect("an eventfd");
        let copy = event.0.try_clone().expect("a descriptor");
        let copy = Event::from_fd(copy).expect("the same eventfd");
        copy.signal();
        assert_eq!(event.take(), 1);

        let (_reader, writer) = io::pipe().expect("a pipe");
        let blocking = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        for other in [writer.into(), blocking] {
            let error = Event::from_fd(other).expect_err("it may block");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }
}
