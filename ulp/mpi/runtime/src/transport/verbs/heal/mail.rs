//! What the thread of [`super::thread`] has for the rank, and how the rank learns that there is
//! something.
//!
//! Owns: at most 64 entries, the flag that a round looks at, and the eventfd that a rank sleeps at.
//! Must not know: what an entry is about.
//!
//! The flag is one of the process, so that a round compares a byte with 0 and follows no pointer:
//! a process has one runtime. It says "look", not what there is.

use ferriband_heal::Datagram;
use ferriband_heal::card::Card;
use ferriband_host::Event;
use ferriband_ibv::AsyncEvent;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries that are kept.
const MOST: usize = 64;

/// Something wants a look that is no completion.
static ATTENTION: AtomicBool = AtomicBool::new(false);

/// Whether something wants a look that is no completion.
#[inline(always)]
pub fn wants_attention() -> bool {
    ATTENTION.load(Ordering::Relaxed)
}

/// The next round shall look.
#[cold]
pub fn call_attention() {
    ATTENTION.store(true, Ordering::Release);
}

/// The look begins: what comes from here on calls again.
#[cold]
pub fn heed_attention() {
    ATTENTION.swap(false, Ordering::AcqRel);
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mail {
    /// An adapter says something by itself.
    Event {
        /// The adapter, by its place in the card.
        adapter: u8,
        /// Which opening of it.
        opening: u32,
        /// What.
        event: AsyncEvent,
    },
    /// An adapter says nothing any more, not even that it has failed.
    Silent {
        /// The adapter.
        adapter: u8,
        /// Which opening of it.
        opening: u32,
    },
    /// A PROBE that the echo has answered, from where none came before.
    Probed {
        /// It.
        datagram: Datagram,
    },
    /// The card of a rank that was asked for it.
    Card {
        /// The rank.
        rank: u32,
        /// It.
        card: Card,
    },
    /// There was more than is kept: everything may have changed.
    Everything,
}

/// Entries, in their order.
pub struct Mailbox {
    entries: Mutex<VecDeque<Mail>>,
    bell: Event,
}

impl Mailbox {
    /// Without an entry.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            entries: Mutex::new(VecDeque::with_capacity(MOST)),
            bell: Event::new()?,
        })
    }

    /// Readable while there are entries: a rank that sleeps listens to it.
    pub fn fd(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// Puts an entry behind the others, unless the last ones say so already, and calls the rank.
    pub fn put(&self, mail: Mail) {
        let mut entries = self.lock();
        if entries.contains(&mail) {
            return;
        }
        if entries.len() >= MOST {
            // What it was is found by whoever looks at everything.
            entries.clear();
            entries.push_back(Mail::Everything);
        }
        entries.push_back(mail);
        self.bell.signal();
        drop(entries);
        call_attention();
    }

    /// Takes the first entry.
    pub fn take(&self) -> Option<Mail> {
        let mut entries = self.lock();
        let mail = entries.pop_front();
        if mail.is_none() {
            self.bell.take();
        }
        mail
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Mail>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_ibv::{EventKind, Qpn, Subject};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn failed(number: u32) -> Mail {
        Mail::Event {
            adapter: 0,
            opening: 0,
            event: AsyncEvent {
                kind: EventKind::QpFatal,
                subject: Subject::Qp {
                    number: Qpn(number),
                    tag: 0,
                },
            },
        }
    }

    fn rings(mailbox: &Mailbox) -> bool {
        let mut fds = [PollFd::new(&mailbox.bell, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).expect("a look") == 1
    }

    #[test]
    fn entries_come_in_order_once_each_and_ring_until_all_are_taken() {
        let mailbox = Mailbox::new().expect("an eventfd");
        assert!(!rings(&mailbox));
        for number in [1, 2, 1] {
            mailbox.put(failed(number));
        }
        assert!(wants_attention());
        assert_eq!(mailbox.take(), Some(failed(1)));
        assert!(rings(&mailbox));
        assert_eq!((mailbox.take(), mailbox.take()), (Some(failed(2)), None));
        assert!(!rings(&mailbox));
        mailbox.put(failed(1));
        assert!(rings(&mailbox), "it is new, since the last was taken");
    }

    #[test]
    fn what_is_too_much_becomes_a_word_to_look_at_everything() {
        let mailbox = Mailbox::new().expect("an eventfd");
        for number in 0..200 {
            mailbox.put(failed(number));
        }
        let mut all = std::iter::from_fn(|| mailbox.take());
        assert_eq!(all.next(), Some(Mail::Everything));
        let rest: Vec<Mail> = all.collect();
        assert!(rest.len() < MOST && rest.last() == Some(&failed(199)));
    }
}
