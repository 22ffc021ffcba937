//! Completion queues.
//!
//! Owns the ring of completions and the arming of notification. Must not know who completes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use ferriband_transport::direct::TAKEN_AT_ONCE;
use ferriband_transport::types::{Completion, WcStatus};

use crate::base::channel::EventQueue;
use crate::base::error::Error;
use crate::base::limits;
use crate::objects::catch::{Catch, DISARMED, Shown};
use crate::objects::event::AsyncKind;
use crate::objects::open::OpenDevice;
use crate::{FastMutex, lock};

/// Entries that are allocated from the start; a longer queue grows while it fills.
const PREALLOCATED: usize = 1 << 16;
const SOLICITED: u32 = 1;
const ANY: u32 = 2;

/// Events of completion queues, by the cookie of each queue.
#[derive(Debug)]
pub struct CompChannel {
    /// The queue behind the descriptor.
    pub events: EventQueue<usize>,
    /// Completion queues that use it.
    pub(crate) users: AtomicUsize,
    pub(crate) ctx: Arc<OpenDevice>,
}

impl CompChannel {
    pub(crate) fn new(ctx: Arc<OpenDevice>) -> Result<Arc<Self>, Error> {
        ctx.check_alive()?;
        Ok(Arc::new(CompChannel {
            events: EventQueue::new()?,
            users: AtomicUsize::new(0),
            ctx,
        }))
    }

    /// After a wait ([`crate::Waiting::begin`]): handles what has come, and takes the oldest event
    /// if that made one.
    /// `rung` if the first of what was waited for was readable.
    pub fn take_came(&self, rung: bool) -> Option<usize> {
        self.events.take_from(|| self.ctx.host.take_came(rung))
    }

    /// From now on the progress thread handles packets, and whoever waits does so for events alone.
    pub fn wait_by_thread(&self) {
        self.ctx.host.wait_by_thread();
    }

    /// The event, the cookie of a completion queue, for a count that the caller has read from the
    /// descriptor; None if it was taken back meanwhile.
    pub fn counted_event(&self) -> Option<usize> {
        self.events.counted(|_| {})
    }

    /// Takes the oldest event: the cookie of its completion queue. Blocks unless the descriptor is
    /// non-blocking.
    pub fn next_event(&self) -> Result<usize, Error> {
        self.ctx.status.life.check()?;
        self.ctx.host.hand_over();
        self.events.next(|_| {})
    }

    /// Checks that the channel may go.
    ///
    /// # Errors
    /// `Busy` while a completion queue uses it.
    pub fn destroy(&self) -> Result<(), Error> {
        self.ctx.status.life.check()?;
        match self.users.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => Err(Error::Busy("completion queues use the channel")),
        }
    }
}

/// A completion with the time at which it was queued.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamped {
    /// The completion.
    pub completion: Completion,
    /// Nanoseconds on the monotonic clock; 0 unless the queue was created with timestamps.
    pub timestamp_ns: u64,
    /// Nanoseconds of the wall clock; 0 unless the queue was created with them.
    pub wallclock_ns: u64,
    /// Completions queued before it.
    place: u64,
}

#[derive(Debug)]
struct Ring {
    entries: VecDeque<Stamped>,
    capacity: usize,
    /// Completions ever queued.
    pushed: u64,
}

/// A completion queue.
#[derive(Debug)]
pub struct Cq {
    /// The device, as it was opened.
    pub ctx: Arc<OpenDevice>,
    /// What the C face stores to find its object.
    pub cookie: AtomicUsize,
    channel: Option<Arc<CompChannel>>,
    ring: FastMutex<Ring>,
    shown: Shown,
    /// Places below this were taken by the program.
    taken: AtomicU64,
    ignore_overrun: bool,
    timestamps: bool,
    wallclock: bool,
    /// Events raised on the channel and not yet acknowledged by the face are its own matter; users
    /// are queue pairs.
    pub(crate) users: AtomicUsize,
}

impl Drop for Cq {
    fn drop(&mut self) {
        self.ctx.status.polls.queues.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How to create a completion queue.
#[derive(Clone, Debug, Default)]
pub struct CqInit {
    /// Completions that must fit.
    pub cqe: u32,
    /// Channel for events.
    pub channel: Option<Arc<CompChannel>>,
    /// Completion vector.
    pub comp_vector: u32,
    /// Record the monotonic time of each completion.
    pub timestamps: bool,
    /// Record the wall clock of each completion.
    pub wallclock: bool,
    /// An overrun drops completions instead of ending the queue.
    pub ignore_overrun: bool,
}

impl Cq {
    pub(crate) fn new(ctx: Arc<OpenDevice>, init: CqInit) -> Result<Arc<Self>, Error> {
        ctx.check_alive()?;
        if init.cqe == 0 || init.cqe > limits::MAX_CQE {
            return Err(Error::Invalid(
                "a completion queue holds between 1 and max_cqe completions",
            ));
        }
        if init.comp_vector >= limits::COMP_VECTORS {
            return Err(Error::Invalid("no such completion vector"));
        }
        if let Some(channel) = &init.channel {
            channel.users.fetch_add(1, Ordering::AcqRel);
        }
        ctx.status.polls.queues.fetch_add(1, Ordering::Relaxed);
        let shown = Shown {
            count: AtomicU32::new(0),
            armed: AtomicU32::new(DISARMED),
            overrun: AtomicBool::new(false),
            has_channel: init.channel.is_some(),
            stamps: init.timestamps || init.wallclock,
        };
        Ok(Arc::new(Cq {
            ctx,
            cookie: AtomicUsize::new(0),
            channel: init.channel,
            ring: FastMutex::new(Ring {
                entries: VecDeque::with_capacity((init.cqe as usize).min(PREALLOCATED)),
                capacity: init.cqe as usize,
                pushed: 0,
            }),
            shown,
            taken: AtomicU64::new(0),
            ignore_overrun: init.ignore_overrun,
            timestamps: init.timestamps,
            wallclock: init.wallclock,
            users: AtomicUsize::new(0),
        }))
    }

    /// Completions that fit.
    pub fn capacity(&self) -> u32 {
        lock(&self.ring).capacity as u32
    }

    /// As [`Cq::push`], but past the queue if the program polls it just now.
    #[inline]
    pub(crate) fn push_or_hand(&self, completion: &Completion, catch: &mut Catch<'_>) -> u64 {
        if catch.takes(&self.shown, completion) {
            return TAKEN_AT_ONCE;
        }
        self.push(*completion)
    }

    /// Queues a completion and gives its place, counted from the queue's beginning; raises an event
    /// if one is asked for. An overrun ends the queue and is reported (I13). A completion that
    /// finds no room is lost: as nobody will take it, its request gives its place in the send queue
    /// up as if somebody had.
    pub(crate) fn push(&self, completion: Completion) -> u64 {
        let mut stamped = Stamped {
            completion,
            ..Stamped::default()
        };
        if self.timestamps {
            stamped.timestamp_ns = ferriband_memory::wait::now().0;
        }
        if self.wallclock {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            stamped.wallclock_ns = since.map_or(0, |d| d.as_nanos() as u64);
        }
        let place = {
            let mut ring = lock(&self.ring);
            let place = ring.pushed;
            // the room grows with its use; without memory for it a completion is lost, and that is
            // said
            let full = ring.entries.len() >= ring.capacity || ring.entries.try_reserve(1).is_err();
            // once one is lost none follows it: a program must not take the later for the next
            // (I13)
            if full || self.shown.overrun.load(Ordering::Acquire) {
                self.overran();
                return TAKEN_AT_ONCE;
            }
            stamped.place = place;
            ring.pushed += 1;
            ring.entries.push_back(stamped);
            self.shown
                .count
                .store(ring.entries.len() as u32, Ordering::Release);
            place
        };
        self.ctx.status.wake_resting();
        let Some(channel) = &self.channel else {
            return place;
        };
        fence(Ordering::SeqCst);
        let armed = self.shown.armed.load(Ordering::Acquire);
        let wanted = armed == ANY
            || armed == SOLICITED
                && (completion.solicited || completion.status != WcStatus::Success);
        if wanted && self.shown.armed.swap(DISARMED, Ordering::AcqRel) != DISARMED {
            channel.events.push(self.cookie.load(Ordering::Acquire));
        }
        place
    }

    /// Places below this were taken by the program.
    #[inline]
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    #[cold]
    fn overran(&self) {
        if !self.ignore_overrun && !self.shown.overrun.swap(true, Ordering::AcqRel) {
            self.ctx
                .raise(AsyncKind::CqErr, self.cookie.load(Ordering::Acquire));
        }
    }

    /// Hands up to `max` completions to `each`, oldest first; makes progress when there is none.
    ///
    /// # Errors
    /// `Gone` after an overrun, once what had been queued before is taken; and in a forked child,
    /// which shares its parent's rings and must not drive them.
    #[inline]
    pub fn poll(&self, max: usize, mut each: impl FnMut(&Stamped)) -> Result<usize, Error> {
        self.ctx.status.life.check()?;
        let mut taken = 0;
        if self.shown.count.load(Ordering::Acquire) == 0 && max > 0 {
            let mut catch = Catch::for_poll_of(&self.shown);
            self.ctx.host.poll(&mut catch);
            if let Some(completion) = catch.caught {
                each(&Stamped {
                    completion,
                    ..Stamped::default()
                });
                taken = 1;
            }
            if taken == max || self.shown.count.load(Ordering::Acquire) == 0 {
                if taken == 0 && self.shown.overrun.load(Ordering::Acquire) {
                    return Err(Error::Gone("the completion queue was overrun"));
                }
                return Ok(taken);
            }
        }
        let mut ring = lock(&self.ring);
        let mut below = None;
        while taken < max {
            let Some(entry) = ring.entries.pop_front() else {
                break;
            };
            each(&entry);
            below = Some(entry.place + 1);
            taken += 1;
        }
        if let Some(below) = below {
            self.taken.store(below, Ordering::Release);
            self.ctx.status.found();
        }
        self.shown
            .count
            .store(ring.entries.len() as u32, Ordering::Release);
        Ok(taken)
    }

    /// Asks for an event at the next completion, or the next solicited (or failed) one. Without a
    /// channel nothing comes of it, as on adapters.
    ///
    /// # Errors
    /// `Gone` in a forked child.
    pub fn req_notify(&self, solicited_only: bool) -> Result<(), Error> {
        self.ctx.status.life.check()?;
        if self.channel.is_none() {
            return Ok(());
        }
        let want = if solicited_only { SOLICITED } else { ANY };
        // the wider request stands
        self.shown.armed.fetch_max(want, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.ctx.host.hand_over();
        Ok(())
    }

    /// Changes the capacity.
    ///
    /// # Errors
    /// `Invalid` if it is out of range or below what is queued.
    pub fn resize(&self, cqe: u32) -> Result<(), Error> {
        self.ctx.status.life.check()?;
        if cqe == 0 || cqe > limits::MAX_CQE {
            return Err(Error::Invalid(
                "a completion queue holds between 1 and max_cqe completions",
            ));
        }
        let mut ring = lock(&self.ring);
        if (cqe as usize) < ring.entries.len() {
            return Err(Error::Invalid("more completions are queued than would fit"));
        }
        ring.capacity = cqe as usize;
        Ok(())
    }

    /// Takes out the completions of a queue pair that is destroyed or reset.
    pub(crate) fn forget(&self, qpn: u32) {
        self.keep(|done| done.qp_num != qpn);
    }

    /// Takes out what a queue pair had finished before it was flushed.
    pub(crate) fn forget_finished(&self, qpn: u32) {
        self.keep(|done| done.qp_num != qpn || done.status == WcStatus::WrFlushErr);
    }

    fn keep(&self, is_kept: impl Fn(&Completion) -> bool) {
        let mut ring = lock(&self.ring);
        // places of others stay as they are: a place is a number, not an index
        ring.entries.retain(|entry| is_kept(&entry.completion));
        self.shown
            .count
            .store(ring.entries.len() as u32, Ordering::Release);
    }

    /// Ends the queue: no event of it remains on its channel.
    ///
    /// # Errors
    /// `Busy` while queue pairs use it.
    pub fn destroy(&self) -> Result<(), Error> {
        self.ctx.status.life.check()?;
        if self.users.load(Ordering::Acquire) > 0 {
            return Err(Error::Busy("queue pairs use the completion queue"));
        }
        self.shown.armed.store(DISARMED, Ordering::SeqCst);
        if let Some(channel) = &self.channel {
            let cookie = self.cookie.load(Ordering::Acquire);
            channel.events.retract(|event| *event == cookie);
            channel.users.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(())
    }
}
