//! A program's thread asleep inside the library, until a packet comes, a peer rings, or a time is
//! over.
//!
//! Owns: what it waits for, and that one thread at a time does. Must not know: what a packet or a
//! record does.
//!
//! Two kinds of threads sleep here. One waits for an event of a completion channel: it handles
//! packets itself, with one wake-up where the progress thread would need a second to wake it. One
//! polls in vain on a crowded machine ([`yielding`]): a yield gives its core to a neighbour for
//! that one's whole time slice, although the answer comes after microseconds, while a sleeper is
//! woken by the packet. The progress thread leaves packets and rings to a thread that is here, and
//! keeps the time for it: a timer for each sleep costs as much as a wake-up.

use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use arrayvec::ArrayVec;
use ferriband_memory::net::RxSocket;
use ferriband_memory::wait;
use ferriband_transport::direct::Words;
use ferriband_transport::direct::layout::{PROC_ASLEEP, PROC_PENDING_SUMMARY};

use crate::base::crowd;
use crate::base::error::Error;
use crate::device::fabric::MOST_PORTS;
use crate::objects::catch::Catch;
use crate::objects::cq::CompChannel;
use crate::process::polls::{NOBODY, POLLS, WAITS};
use crate::process::status::set_resting;
use crate::progress::{Engine, yielding};
use crate::wire::native::fabric::Wire;
use crate::wire::roce::flows::MOST_FLOWS;
use ferriband_attach::Link;

/// Sleeps until it is looked again whether the machine is crowded: by spinning and yielding, which
/// costs a time slice if it is.
const NAPS: u32 = 4096;
/// A sleep in which nothing came counts as so many: who looks for something else, or on a machine
/// that is crowded no more, is late by each.
const VAIN_NAPS: u32 = 16;
/// The bell, sockets of both address families, those of senders, the InfiniBand port's, and the
/// fabric's links.
pub(crate) const MOST_AWAITED: usize = 4 + MOST_FLOWS + MOST_PORTS;

/// Polls that find nothing before the polling thread takes over from the progress thread.
pub(super) const TAKE_OVER_AFTER: u32 = 32;
/// Rounds that a program makes before it waits; the thread makes the others.
pub(super) const HAND_OVER_ROUNDS: usize = 16;
/// What tells of packets and rings, kept open.
struct Awaited {
    flows: ArrayVec<Arc<RxSocket>, MOST_FLOWS>,
    links: ArrayVec<Arc<Link>, MOST_PORTS>,
}

impl Awaited {
    fn of(engine: &Engine) -> Self {
        let roce = engine.wires.roce.get();
        let local = roce.and_then(|roce| roce.local());
        Awaited {
            flows: roce.map_or_else(ArrayVec::new, |roce| roce.flows().1),
            links: local.map_or_else(ArrayVec::new, |local| {
                local.fabric.iter().filter_map(Wire::link).collect()
            }),
        }
    }

    /// The engine's bell is the first.
    fn descriptors<'a>(&'a self, engine: &'a Engine) -> ArrayVec<BorrowedFd<'a>, MOST_AWAITED> {
        let mut all = ArrayVec::new();
        all.push(engine.process.bell.as_fd());
        if let Some(roce) = engine.wires.roce.get() {
            all.extend(roce.sockets().map(AsFd::as_fd));
            all.extend(roce.local().map(|local| local.socket().as_fd()));
        }
        all.extend(self.flows.iter().map(|socket| socket.as_fd()));
        all.extend(self.links.iter().map(|link| link.as_fd()));
        all
    }
}

/// A thread of the program that waits for an event, and handles packets meanwhile. Dropped when its
/// sleep is over, by whichever thread.
pub struct Waiting {
    engine: Arc<Engine>,
    awaited: Awaited,
    polls: u32,
}

impl Waiting {
    /// The descriptor of a channel's events, for one who is about to wait for a count of it, and
    /// what else to wait for meanwhile: until one of those is readable, or the descriptor. None if
    /// a count is there, if the program does not want to wait, or if another thread handles
    /// packets.
    ///
    /// # Errors
    /// `Gone`.
    pub fn begin(channel: &CompChannel) -> Result<(RawFd, Option<Self>), Error> {
        // a forked child shares the descriptor: it must not take its parent's events
        channel.ctx.status.life.check()?;
        let fd = channel.events.fd();
        if !channel.events.is_empty() || channel.events.is_nonblocking() {
            return Ok((fd, None));
        }
        let engine = channel.ctx.host.clone().any().downcast::<Engine>();
        let waiting = engine.ok().and_then(|engine| engine.wait_inside());
        Ok((fd, waiting.filter(|_| channel.events.is_empty())))
    }

    /// What it sleeps on, beside its channel.
    pub fn descriptors(&self) -> ArrayVec<BorrowedFd<'_>, MOST_AWAITED> {
        self.awaited.descriptors(&self.engine)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let engine = &self.engine;
        if engine.polls.count.load(Ordering::Relaxed) != self.polls {
            // another thread polls, and takes what this one was woken for
            engine.wait_by_thread();
        }
        engine.end_rest();
        if !engine.rests.ticks.swap(true, Ordering::SeqCst) {
            // it comes back soon, or the progress thread takes over
            engine.process.waker.signal(1);
        }
    }
}

impl Engine {
    /// The machine is crowded: from now on polling programs sleep.
    #[cold]
    pub(super) fn crowd_seen(&self) {
        crowd::seen(Engine::now().0);
        self.polls.naps.store(NAPS, Ordering::Relaxed);
        self.set_patience();
    }

    /// Empty polls before the next gives its core away: on a crowded machine every completion queue
    /// is looked at once.
    pub(super) fn set_patience(&self) {
        let polls = match self.polls.naps.load(Ordering::Relaxed) {
            0 => self.polls.spin_limit.load(Ordering::Relaxed),
            _ => self.polls.queues.load(Ordering::Relaxed).saturating_sub(1),
        };
        self.polls.yield_after.store(polls, Ordering::Relaxed);
    }

    /// Sleeps in the place of a yield, for a tick of the progress thread at most. False if the
    /// machine is not known to be crowded, or another thread sleeps.
    pub(super) fn nap(&self, catch: &Catch<'_>) -> bool {
        let left = self.polls.naps.load(Ordering::Relaxed);
        if left == 0 {
            return false;
        }
        if !self.polls_on() {
            return true;
        }
        let awaited = Awaited::of(self);
        #[cfg(test)]
        tests::lose_the_core();
        if !self.begin_rest(POLLS) {
            return false;
        }
        // The progress thread may have taken over since: then nobody keeps the time for a sleeper.
        let ticks = self.polls.polling.load(Ordering::SeqCst);
        let lies = || self.more_lies() || catch.has_queued();
        let mut in_vain = false;
        if ticks && !lies() {
            let ready = wait::any_readable(&awaited.descriptors(self), None);
            if ready & 1 != 0 {
                let _ = self.process.bell.take();
            }
            // the bell alone: a tick's
            in_vain = ready & !1 == 0 && !lies();
        }
        self.end_rest();
        // a program that polls looks at its timers now and then: by a count of polls, which sleeps
        // are no part of
        if self.agenda.next_timer.load(Ordering::Relaxed) != u64::MAX {
            self.fire_timers();
        }
        let counts = if in_vain { VAIN_NAPS } else { 1 };
        let left = left.saturating_sub(counts);
        self.polls.naps.store(left, Ordering::Relaxed);
        self.polls.empty.store(0, Ordering::Relaxed);
        if left == 0 {
            yielding::forget();
        }
        self.set_patience();
        true
    }

    /// Whoever is about to wait for an event handles what has come, and says whether it sleeps on
    /// that, too. None if the progress thread does: for several threads that wait at once, or one
    /// that waits beside one that polls.
    pub(crate) fn wait_inside(self: &Arc<Self>) -> Option<Waiting> {
        if self.rests.by_thread.load(Ordering::Relaxed) {
            self.hand_over();
            return None;
        }
        let awaited = Awaited::of(self);
        let polling = self.polls.polling.swap(true, Ordering::AcqRel);
        if !self.begin_rest(WAITS) {
            self.wait_by_thread();
            self.hand_over();
            return None;
        }
        self.rests.inside.store(true, Ordering::Relaxed);
        let waiting = Waiting {
            engine: self.clone(),
            awaited,
            polls: self.polls.count.load(Ordering::Relaxed),
        };
        if !polling || self.wants_time() && !self.rests.ticks.swap(true, Ordering::SeqCst) {
            // it leaves packets alone from now on, and keeps the time
            self.process.waker.signal(1);
        }
        if let Some(roce) = self.wires.roce.get() {
            roce.send_owed(self.to());
        }
        // Once in any case: peers are owed rings, and requests may wait for nothing but a look.
        // Sockets are looked at when they wake.
        let packets = self.packets_lie();
        let look = || self.round_over(packets, true, &mut Catch::nobody());
        if (0..HAND_OVER_ROUNDS).all(|_| look()) {
            // its event may have come meanwhile; if not, it goes on after its next look
            self.process.bell.signal(1);
        }
        Some(waiting)
    }

    /// True if the program polls for longer than one takes to find its queue empty that waits for
    /// events.
    fn polls_on(&self) -> bool {
        let in_vain = self.polls.empty.load(Ordering::Relaxed);
        if self.rests.inside.load(Ordering::Relaxed) && in_vain > TAKE_OVER_AFTER {
            self.rests.inside.store(false, Ordering::Relaxed);
        }
        self.polls.polling.load(Ordering::Acquire) && !self.rests.inside.load(Ordering::Relaxed)
    }

    /// Handles what has come, after a wait that the bell ended or something else.
    pub(crate) fn take_came(&self, rung: bool) {
        if rung {
            let _ = self.process.bell.take();
        }
        // acknowledgements may go with what the program answers now; who finds nothing looks
        // everywhere
        if !self.round(true, &mut Catch::for_wait()) {
            self.round(true, &mut Catch::nobody());
        }
    }

    /// From now on the progress thread handles packets for all who wait for events.
    #[cold]
    pub(crate) fn wait_by_thread(&self) {
        self.rests.by_thread.store(true, Ordering::Relaxed);
        self.rests.inside.store(false, Ordering::Relaxed);
        self.process.bell.signal(1);
    }

    /// False if another thread rests.
    fn begin_rest(&self, kind: u32) -> bool {
        let begun =
            self.rests
                .kind
                .compare_exchange(NOBODY, kind, Ordering::SeqCst, Ordering::Relaxed);
        if begun.is_err() {
            return false;
        }
        set_resting(true);
        let polls = self.polls.count.load(Ordering::Relaxed).wrapping_add(1);
        self.polls.count.store(polls, Ordering::Relaxed);
        self.process.own.store(PROC_ASLEEP, 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        true
    }

    fn end_rest(&self) {
        self.process.own.store(PROC_ASLEEP, 0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !self.polls.polling.load(Ordering::SeqCst) {
            // the progress thread took over meanwhile, and sleeps
            self.process.own.store(PROC_ASLEEP, 1, Ordering::SeqCst);
            self.process.waker.signal(1);
        }
        let polls = self.polls.count.load(Ordering::Relaxed).wrapping_add(1);
        self.polls.count.store(polls, Ordering::Relaxed);
        set_resting(false);
        self.rests.kind.store(NOBODY, Ordering::SeqCst);
    }

    /// Something lies where no descriptor tells of it: records, answers, work, packets that were
    /// taken from their socket.
    fn more_lies(&self) -> bool {
        let pending = self.peers.many.load(Ordering::Relaxed)
            && Words::load(&**self.process.own, PROC_PENDING_SUMMARY) != 0;
        // itself is the first of them
        let in_rings = self
            .peers
            .watched
            .iter()
            .map_while(|slot| slot.get()?.0.channel.get())
            .any(|channel| channel.has_record() || channel.has_answers());
        pending || in_rings || self.packets_lie()
    }

    /// Packets lie here that were taken from their socket.
    fn packets_lie(&self) -> bool {
        let local = self.wires.roce.get().and_then(|roce| roce.local());
        local.is_some_and(|local| local.has_more())
    }

    /// Whoever polled does so no more: from now on peers ring for the progress thread. A thread
    /// that began to rest just before finds that out, or is woken: nobody ticks for it.
    pub(super) fn end_polling(&self) {
        self.polls.polling.store(false, Ordering::SeqCst);
        self.process.own.store(PROC_ASLEEP, 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.rests.kind.load(Ordering::SeqCst) != NOBODY {
            self.process.bell.signal(1);
        }
    }

    /// By the progress thread, at each tick while a thread of the program rests: whether it is to
    /// be woken. One that polls is, for what it may look for elsewhere; any is while requests wait
    /// for what nobody rings about.
    pub(super) fn wake_at_tick(&self, kind: u32, same: bool) {
        let due = self.first_timer() <= Self::now().0;
        let blocked = kind == POLLS || self.agenda.work_count.load(Ordering::Acquire) > 0;
        if due || same && blocked {
            self.process.bell.signal(1);
        }
    }

    /// When anything is due; `u64::MAX` for nothing.
    pub(super) fn first_timer(&self) -> u64 {
        self.agenda
            .next_timer
            .load(Ordering::Acquire)
            .min(self.agenda.cm_deadline.load(Ordering::Acquire))
            .min(self.held_until())
    }

    pub(super) fn wants_time(&self) -> bool {
        self.first_timer() != u64::MAX || self.agenda.work_count.load(Ordering::Acquire) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    /// Far longer than any sleep, which ends at the next tick.
    const PATIENCE: Duration = Duration::from_secs(10);

    thread_local! {
        static LOST: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    /// Others have the core for as long as a test wants.
    pub(super) fn lose_the_core() {
        std::thread::sleep(LOST.get());
    }

    #[test]
    fn a_poller_that_loses_its_core_before_its_sleep_sleeps_no_longer_than_others() {
        let engine = crate::cm::engine::engine().expect("this process joins the host's domain");
        let (done, ends) = std::sync::mpsc::channel();
        let sleeper = engine.clone();
        std::thread::spawn(move || {
            sleeper.crowd_seen();
            for lost_ms in [0, 1, 3, 5, 8, 20] {
                sleeper.polls.polling.store(true, Ordering::SeqCst);
                sleeper.process.waker.signal(1);
                LOST.set(Duration::from_millis(lost_ms));
                let begun = Instant::now();
                sleeper.nap(&Catch::nobody());
                let _ = done.send(begun.elapsed());
            }
            LOST.set(Duration::ZERO);
            // Nothing ever comes: sleeps in vain use up more than one each, and the machine is
            // looked at anew. On a busy machine the progress thread may take over before a sleep,
            // which then is none in vain.
            sleeper.crowd_seen();
            let mut used = Vec::new();
            loop {
                let before = sleeper.polls.naps.load(Ordering::Relaxed);
                sleeper.polls.polling.store(true, Ordering::SeqCst);
                sleeper.process.waker.signal(1);
                if !sleeper.nap(&Catch::nobody()) {
                    break;
                }
                used.push(before - sleeper.polls.naps.load(Ordering::Relaxed));
            }
            assert!(used.contains(&VAIN_NAPS), "{used:?}");
            assert_eq!(sleeper.polls.naps.load(Ordering::Relaxed), 0);
            let _ = done.send(Duration::ZERO);
        });
        for _ in 0..7 {
            let slept = ends.recv_timeout(PATIENCE).expect("a sleep ends");
            assert!(slept < PATIENCE, "{slept:?}");
        }
    }
}
