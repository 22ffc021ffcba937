//! A program's thread asleep inside the library, until a packet comes, a peer rings, or a time is over.
//!
//! Owns: what it waits for, and that one thread at a time does. Must not know: what a packet or a record does.
//!
//! On a crowded machine ([`yielding`]) a program that polls in vain sleeps here: a yield gives its core to a neighbour for that one's
//! whole time slice, although the answer comes after microseconds, while a sleeper is woken by the packet itself. While a thread is
//! here, the progress thread leaves packets and rings to it.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use arrayvec::ArrayVec;
use ferriband_memory::net::RxSocket;
use ferriband_memory::wait;
use ferriband_transport::direct::Words;
use ferriband_transport::direct::layout::{PROC_ASLEEP, PROC_PENDING_SUMMARY};

use super::{Engine, yielding};
use crate::cq::Catch;
use crate::roce::Roce;
use crate::roce::rx::MOST_FLOWS;

/// Sleeps until it is looked again whether the machine is crowded: by spinning and yielding, which costs a time slice if it is.
const NAPS: u32 = 4096;
/// The bell, sockets of both address families, those of senders, the InfiniBand port's, the fabric's link, and one of the caller's.
const MOST_AWAITED: usize = 6 + MOST_FLOWS;

thread_local! {
    /// This thread sleeps, or is about to.
    static RESTING: Cell<bool> = const { Cell::new(false) };
}

/// Sockets of senders, as they were when their number was this.
#[derive(Debug, Default)]
pub(in crate::engine) struct Resting {
    version: Option<u32>,
    flows: ArrayVec<Arc<RxSocket>, MOST_FLOWS>,
}

impl Resting {
    fn refresh(&mut self, roce: &Roce) {
        if self.version != Some(roce.flows_version()) {
            let (version, flows) = roce.flows();
            (self.version, self.flows) = (Some(version), flows);
        }
    }
}

impl Engine {
    /// The machine is crowded: from now on polling programs sleep.
    #[cold]
    pub(super) fn crowd_seen(&self) {
        self.naps.store(NAPS, Ordering::Relaxed);
        self.set_patience();
    }

    /// Empty polls before the next gives its core away: on a crowded machine every completion queue is looked at once.
    pub(super) fn set_patience(&self) {
        let polls = match self.naps.load(Ordering::Relaxed) {
            0 => self.spin_limit.load(Ordering::Relaxed),
            _ => self.queues.load(Ordering::Relaxed).saturating_sub(1),
        };
        self.yield_after.store(polls, Ordering::Relaxed);
    }

    /// Sleeps for a while in the place of a yield. False if the machine is not known to be crowded.
    pub(super) fn nap(&self, catch: &Catch<'_>) -> bool {
        let left = self.naps.load(Ordering::Relaxed);
        if left == 0 {
            return false;
        }
        if !self.polling.load(Ordering::Acquire) {
            return true;
        }
        // another thread sleeps, and handles what comes
        let Some(mut resting) = self.resting.try_lock() else {
            return false;
        };
        self.naps.store(left - 1, Ordering::Relaxed);
        self.rest(&mut resting, None, catch);
        drop(resting);
        self.own.store(PROC_ASLEEP, 0, Ordering::Release);
        self.empty_polls.store(0, Ordering::Relaxed);
        if left == 1 {
            yielding::forget();
        }
        self.set_patience();
        true
    }

    /// Sleeps until there is something to do, or for so long. True if something came.
    fn rest(
        &self,
        resting: &mut Resting,
        other: Option<BorrowedFd<'_>>,
        catch: &Catch<'_>,
    ) -> bool {
        self.rests.store(true, Ordering::SeqCst);
        self.own.store(PROC_ASLEEP, 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.send_tails();
        RESTING.set(true);
        let came = self.more_lies() || catch.has_queued() || self.await_any(resting, other);
        self.polls.store(
            self.polls.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
        self.rests.store(false, Ordering::SeqCst);
        RESTING.set(false);
        came
    }

    /// Something lies where no descriptor tells of it: records, answers, work, packets that were taken from their socket.
    fn more_lies(&self) -> bool {
        let pending = self.many_peers.load(Ordering::Relaxed)
            && Words::load(&**self.own, PROC_PENDING_SUMMARY) != 0;
        // itself is the first of them
        let in_rings = self
            .watched
            .iter()
            .map_while(|slot| slot.get()?.0.channel.get())
            .any(|channel| channel.has_record() || channel.has_answers());
        pending
            || in_rings
            || self
                .roce
                .get()
                .and_then(Roce::local)
                .is_some_and(|local| local.has_more())
    }

    /// A completion was queued: if a thread of the program sleeps, it is to look.
    #[inline]
    pub(crate) fn wake_resting(&self) {
        if self.rests.load(Ordering::Relaxed) && !RESTING.get() {
            self.bell.signal(1);
        }
    }

    fn await_any(&self, resting: &mut Resting, other: Option<BorrowedFd<'_>>) -> bool {
        let roce = self.roce.get();
        if let Some(roce) = roce {
            resting.refresh(roce);
        }
        let local = roce.and_then(Roce::local);
        let link = local.and_then(|local| local.fabric.as_ref()?.link());
        let mut awaited = ArrayVec::<BorrowedFd<'_>, MOST_AWAITED>::new();
        awaited.push(self.bell.as_fd());
        awaited.extend(other);
        if let Some(roce) = roce {
            awaited.extend(roce.sockets().map(AsFd::as_fd));
            awaited.extend(resting.flows.iter().map(|socket| socket.as_fd()));
            awaited.extend(local.map(|local| local.socket().as_fd()));
            awaited.extend(link.as_ref().map(|link| link.as_fd()));
        }
        // a timer for each sleep costs as much as a wake-up: the progress thread keeps the time
        let ready = wait::any_readable(&awaited, None);
        if ready & 1 != 0 {
            let _ = self.bell.take();
        }
        ready != 0
    }
}
