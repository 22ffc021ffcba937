//! Packets: queue pairs' packets in UDP datagrams (RoCEv2), and those of the InfiniBand port from
//! process to process.
//!
//! Owns who takes what has come, and when: one thread at a time. What packets go by is
//! [`ways`]'s matter. Must not know: the C ABI; what a packet does to a queue pair
//! (`ferriband-transport`).

pub(crate) mod arrived;
pub(in crate::wire) mod batch;
pub(crate) mod hooks;
pub(crate) mod path;
mod report;
pub(crate) mod run;
pub(in crate::wire) mod rx;
pub(crate) mod ways;

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use arrayvec::ArrayVec;
use ferriband_memory::host::Host;
use ferriband_memory::net::RxSocket;
use ferriband_memory::wait::EventFd;
use ferriband_transport::types::Instant;

use crate::objects::catch::Catch;
use crate::wire::roce::flows::MOST_FLOWS;
use crate::wire::to::{Deliver, To};
use crate::{FastMutex, lock};
use rx::RxSide;
use ways::{BACKLOG_ROUNDS, Ways};

/// Rounds of a polling program between two looks at the address family that brought nothing last.
const OTHER_FAMILY_EVERY: u32 = 32;

/// The wire as one process has it, whose queue pairs work with `D`.
#[derive(Debug)]
pub(crate) struct Roce<D: Deliver> {
    ways: Ways,
    rx: FastMutex<RxSide<D>>,
    rounds: AtomicU32,
    /// The last packet came over IPv6.
    family: AtomicBool,
    /// Everything that had arrived by then was handled.
    caught_up_at: AtomicU64,
}

impl<D: Deliver> Deref for Roce<D> {
    type Target = Ways;

    #[inline]
    fn deref(&self) -> &Ways {
        &self.ways
    }
}

thread_local! {
    /// This thread handles packets: it must not wait for itself.
    static HANDLING: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, this thread holds locks of packets.
pub(crate) struct Handling(bool);

/// To be held around everything that is done under a queue pair's packet lock.
pub(crate) fn handling() -> Handling {
    Handling(HANDLING.replace(true))
}

impl Drop for Handling {
    fn drop(&mut self) {
        HANDLING.set(self.0);
    }
}

impl<D: Deliver> Roce<D> {
    /// What packets of any kind need.
    pub(crate) fn new(host: &Host, waker: &Arc<EventFd>) -> Self {
        Roce {
            ways: Ways::new(host, waker),
            rx: FastMutex::new(RxSide::new()),
            rounds: AtomicU32::new(0),
            family: AtomicBool::new(false),
            caught_up_at: AtomicU64::new(0),
        }
    }

    /// Leaves the port in good order.
    pub(crate) fn leave(self, host: &Host) {
        self.ways.leave(host);
    }

    /// The sockets of senders that have one of their own, which come and go with a number that
    /// changes then.
    pub(crate) fn flows(&self) -> (u32, ArrayVec<Arc<RxSocket>, MOST_FLOWS>) {
        let rx = lock(&self.rx);
        (self.flows_version(), rx.flow_sockets())
    }

    /// By the progress thread: finds out where everybody's socket is, if packets reach the wrong
    /// process although nothing changes.
    pub(crate) fn repair(&self, to: To<'_, D>) {
        self.ways.repair(&to.adapter.process().registry, || {
            self.round(to, &mut Catch::nobody());
        });
    }

    /// Handles what has arrived. True if anything had.
    pub(crate) fn round(&self, to: To<'_, D>, catch: &mut Catch<'_>) -> bool {
        if self.hooks.deadline() != u64::MAX
            && self.hooks.deadline() <= ferriband_memory::wait::now().0
        {
            self.fire(to);
        }
        let Some(mut rx) = self.rx.try_lock() else {
            return false;
        };
        let _handling = handling();
        let rounds = self.rounds.load(Relaxed).wrapping_add(1);
        self.rounds.store(rounds, Relaxed);
        // a look at an empty socket is a system call: a polling program looks at the family in use,
        // now and then at the other
        let both = !catch.somebody_polls() || rounds.is_multiple_of(OTHER_FAMILY_EVERY);
        let last = self.family.load(Relaxed);
        let mut worked = rx.take_flows(to, &self.ways, rounds, catch);
        let skip = catch.somebody_polls() && rx.may_skip_all(rounds, worked);
        for v6 in [false, true] {
            let wanted = !skip && (both || v6 == last);
            let Some(socket) = self.socket(v6).filter(|_| wanted) else {
                continue;
            };
            if rx.take(to, &self.ways, socket, catch) {
                self.family.store(v6, Relaxed);
                worked = true;
            }
        }
        if let Some(local) = self.local() {
            worked |= rx.take_local(to, &self.ways, local, catch);
        }
        if !worked {
            rx.idle(to);
        }
        worked
    }

    /// Packets that a fault has held back for long enough go on. Hold nothing.
    #[cold]
    fn fire(&self, to: To<'_, D>) {
        let due = self.hooks.fire();
        if due.is_empty() {
            return;
        }
        let mut rx = lock(&self.rx);
        let _handling = handling();
        self.hooks.hand_on_held(&due, &mut |came, packet| {
            rx.take_held(to, &self.ways, came, packet, &mut Catch::nobody())
        });
    }

    /// Sends pending acknowledgements, before nobody looks for packets for a while. (Whoever holds
    /// the lock looks on, and does it when nothing comes.)
    pub(crate) fn send_owed(&self, to: To<'_, D>) {
        if let Some(mut rx) = self.rx.try_lock() {
            let _handling = handling();
            rx.idle(to);
        }
    }

    /// Handles all that has arrived by now. A time-out may be judged only after that: to a process
    /// that was stopped, or had to wait for a core, its peers seem silent although their answers
    /// lie in its sockets. False if another thread is handling packets, which had better be asked
    /// again soon.
    pub(crate) fn catch_up(&self, to: To<'_, D>) -> bool {
        let now = ferriband_memory::wait::now().0;
        let Some(mut rx) = self.rx.try_lock() else {
            return false;
        };
        let _handling = handling();
        for socket in self.sockets() {
            rx.drain(to, &self.ways, socket);
        }
        rx.drain_flows(to, &self.ways);
        if let Some(local) = self.local() {
            (0..BACKLOG_ROUNDS)
                .take_while(|_| rx.take_local(to, &self.ways, local, &mut Catch::nobody()))
                .count();
        }
        self.caught_up_at.fetch_max(now, Relaxed);
        true
    }

    /// When [`Roce::catch_up`] last began and came to its end: what has not arrived until a
    /// deadline before is late.
    pub(crate) fn caught_up_at(&self) -> Instant {
        Instant(self.caught_up_at.load(Relaxed))
    }

    /// Handles a run of packets that another process got and handed over. Hold nothing.
    pub(crate) fn handed(&self, to: To<'_, D>, head: &[u8], body: &[u8]) {
        let mut rx = lock(&self.rx);
        let _handling = handling();
        rx.take_handed(to, &self.ways, head, body, &mut Catch::nobody());
    }

    /// Waits until no packet is in the middle of being handled: what was revoked before is not
    /// touched after; `queues` waits for each queue pair. A thread that handles packets does not
    /// wait for itself.
    pub(crate) fn quiesce(&self, queues: impl FnOnce()) {
        if HANDLING.get() {
            return;
        }
        drop(lock(&self.rx));
        queues();
    }
}
