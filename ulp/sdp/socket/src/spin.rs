//! How long a thread that finds nothing looks again before it sleeps.
//!
//! Owns: what is set ([`set`]), and what each thread learns from its own waits (*Learner*). Must
//! not know: what is waited for.
//!
//! A look that finds something spares a sleep and a wake-up. One that does not has taken processor
//! time for nothing. A thread learns from what came of its looks:
//! * A wait that ended soon would have been spared its sleep by a longer look: the next look is
//!   longer. After a wait that took long it is shorter, and none after some of these. So whoever is
//!   idle does not look.
//! * Looks that take more time than the sleeps that they spare do not pay: a peer that waits for a
//!   core, or for the looking thread's own, answers too late.
//! * A thread that was away in the middle of a look, or for long between two waits, has no core of
//!   its own: what it looks with is missing when it works. Who has moved bytes all the time between
//!   two waits was not away.
//!
//! After either of the last two a thread rests from looking, each time twice as long if it went
//! well for a short time only. A rest goes on as long as the thread is away now and then.

use ferriband_host::wake;
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// Nanoseconds of the first look, and of the longest: as long as a peer takes to wake up and
/// answer.
const FIRST: u64 = 5_000;
const LONGEST: u64 = 100_000;
/// A wait that took no longer may have been for a peer that slept as well: had both looked, it
/// would have taken a part of that.
const SOON: u64 = 150_000;
/// What a sleep that is spared is worth.
const WORTH: u64 = 40_000;
/// Looks after which it is judged whether they pay.
const WINDOW: u32 = 16;
/// Whoever has not run for so long was away: interrupts are shorter, another thread's turn is not.
const AWAY: u64 = 100_000;
/// Whoever took so long between two waits was away then: a longer computation is not served better
/// by a look.
const AWAY_AT_WORK: u64 = 1_000_000;
/// What a call between two waits that moves bytes may take.
const CALL: u64 = 20_000;
/// Rests. They are short where looks do not pay: while both sides rest one's looks find nothing
/// before the other's begin again, and longer rests would seldom end together.
const SHORTEST_REST: u64 = 10_000_000;
const LONGEST_REST: u64 = 1_000_000_000;
const LONGEST_VAIN: u64 = 50_000_000;
/// It went well for long if that was so many times the last rest.
const WELL: u64 = 10;
/// A look where looking is set to `always`. Whoever waits longer sleeps, also there: signals end
/// sleeps, not looks.
const ALWAYS: u64 = 10_000_000;

/// Whether threads look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Spin {
    /// As long as it pays.
    Auto,
    /// Never.
    Never,
    /// Before each sleep, whatever came of it.
    Always,
}

static SPIN: AtomicU8 = AtomicU8::new(Spin::Auto as u8);

/// Says whether threads of this process look.
pub fn set(spin: Spin) {
    SPIN.store(spin as u8, Ordering::Relaxed);
}

/// What a thread waits for: of each it learns by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum For {
    /// Bytes, on one connection or on any of several.
    Bytes,
    /// Room to send.
    Room,
}

/// A look that has found nothing, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vain {
    of: For,
    /// When the wait began; None: nothing is learnt.
    began: Option<u64>,
}

thread_local! {
    static LEARNERS: [Cell<Learner>; 2] = const { [const { Cell::new(Learner::new()) }; 2] };
    /// When the thread's last wait ended, whatever it was for. 0: that is not known.
    static WOKE: Cell<u64> = const { Cell::new(0) };
    /// Calls since then that have moved bytes.
    static MOVED: Cell<u32> = const { Cell::new(0) };
}

/// A call of the thread's has moved bytes.
#[inline]
pub(crate) fn moved() {
    let _ = MOVED.try_with(|moved| moved.set(moved.get().wrapping_add(1)));
}

/// A call of the thread's that may have waited in the kernel has ended: how long the thread was
/// away is not known.
#[inline]
pub(crate) fn by_kernel() {
    let _ = WOKE.try_with(|woke| woke.set(0));
}

/// Whether the thread rests from looking: it has no core of its own, or its peers have none.
pub(crate) fn rests() -> bool {
    let rests = |learners: &[Cell<Learner>; 2]| {
        let until = learners.iter().map(|learner| learner.get().until).max();
        until.is_some_and(|until| until != 0 && now() < until)
    };
    SPIN.load(Ordering::Relaxed) == Spin::Auto as u8 && LEARNERS.try_with(rests).unwrap_or_default()
}

/// The thread's wait has ended.
fn woke(now: u64) {
    WOKE.set(now);
    MOVED.set(0);
}

/// The thread has found nothing, and would sleep until this time: looks as long as that is worth
/// it. None: it has found something.
#[inline]
pub(crate) fn look(of: For, end: Option<Duration>, found: impl FnMut() -> bool) -> Option<Vain> {
    let spin = SPIN.load(Ordering::Relaxed);
    if spin == Spin::Never as u8 {
        return Some(Vain { of, began: None });
    }
    let end = end.map_or(u64::MAX, nanos);
    if spin == Spin::Always as u8 {
        let began = now();
        let look = Look::new(began, ALWAYS, end);
        return match look.run(now, found).found {
            true => None,
            false => Some(Vain { of, began: None }),
        };
    }
    // a thread that ends has learnt enough
    LEARNERS
        .try_with(|learners| learn(&learners[of as usize], of, end, found))
        .unwrap_or(Some(Vain { of, began: None }))
}

fn learn(cell: &Cell<Learner>, of: For, end: u64, found: impl FnMut() -> bool) -> Option<Vain> {
    let began = now();
    let mut learner = cell.get();
    learner.woke = WOKE.get();
    let time = learner.time(began, MOVED.get());
    cell.set(learner);
    if time > 0 {
        let look = Look::new(began, time, end).run(now, found);
        learner = cell.get();
        learner.looked(look);
        cell.set(learner);
        woke(look.now);
        if look.found {
            return None;
        }
    }
    let began = Some(began);
    Some(Vain { of, began })
}

impl Vain {
    /// The thread has slept, and was woken.
    #[inline]
    pub fn slept(self) {
        let Some(began) = self.began else { return };
        let _ = LEARNERS.try_with(|learners| {
            let cell = &learners[self.of as usize];
            let mut learner = cell.get();
            let now = now();
            learner.waited(began, now);
            cell.set(learner);
            woke(now);
        });
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[inline]
fn now() -> u64 {
    nanos(wake::now())
}

/// A look while it lasts.
#[derive(Clone, Copy, Debug)]
struct Look {
    began: u64,
    end: u64,
}

/// What came of a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Looked {
    /// What it took.
    time: u64,
    /// When it ended.
    now: u64,
    found: bool,
    /// The thread did not run all the time.
    was_away: bool,
}

impl Look {
    fn new(began: u64, time: u64, end: u64) -> Self {
        let end = end.min(began.saturating_add(time));
        Self { began, end }
    }

    fn run(self, clock: impl Fn() -> u64, mut found: impl FnMut() -> bool) -> Looked {
        let mut was_away = false;
        let mut before = self.began;
        loop {
            let found = found();
            let now = clock();
            was_away |= now.saturating_sub(before) > AWAY;
            if found || now >= self.end {
                return Looked {
                    time: now.saturating_sub(self.began),
                    now,
                    found,
                    was_away,
                };
            }
            before = now;
            std::hint::spin_loop();
        }
    }
}

/// What a thread has learnt of its waits. Times are nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Learner {
    /// How long a look is.
    limit: u64,
    /// Looks that are not judged so far, what they took, and how many have found something.
    looks: u32,
    took: u64,
    found: u32,
    /// How long the last rest was, and when it ends.
    rest: u64,
    until: u64,
    /// When the last wait ended; 0: there was none, or that is not known.
    woke: u64,
}

impl Learner {
    const fn new() -> Self {
        Self {
            limit: 0,
            looks: 0,
            took: 0,
            found: 0,
            rest: 0,
            until: 0,
            woke: 0,
        }
    }

    /// How long a look is that begins at this time, with a wait, after so many calls that have
    /// moved bytes.
    fn time(&mut self, now: u64, moved: u32) -> u64 {
        let work = AWAY_AT_WORK + u64::from(moved) * CALL;
        if self.woke != 0 && now.saturating_sub(self.woke) > work {
            self.rests(now, LONGEST_REST);
        }
        if now < self.until { 0 } else { self.limit }
    }

    /// A look has ended.
    fn looked(&mut self, look: Looked) {
        self.woke = look.now;
        self.looks += 1;
        self.took += look.time;
        self.found += u32::from(look.found);
        let pays = self.took <= u64::from(self.found) * WORTH;
        if look.was_away {
            self.rests(look.now, LONGEST_REST);
        } else if self.looks == WINDOW && !pays {
            self.rests(look.now, LONGEST_VAIN);
        } else if self.looks == WINDOW {
            (self.looks, self.took, self.found) = (0, 0, 0);
        }
    }

    /// A wait has ended by a sleep.
    fn waited(&mut self, began: u64, now: u64) {
        self.woke = now;
        self.limit = match now.saturating_sub(began) {
            ..=SOON => (2 * self.limit).clamp(FIRST, LONGEST),
            _ if self.limit <= FIRST => 0,
            _ => self.limit / 2,
        };
    }

    /// It rests, for `longest` at most if it has not rested longer before.
    fn rests(&mut self, now: u64, longest: u64) {
        let well = now.saturating_sub(self.until);
        let rest = match well < WELL * self.rest {
            true => (self.rest * 2).min(longest.max(self.rest)),
            false => self.rest / 2,
        };
        *self = Self {
            rest: rest.clamp(SHORTEST_REST, LONGEST_REST),
            limit: FIRST,
            woke: now,
            ..Self::new()
        };
        self.until = now + self.rest;
    }
}

#[cfg(test)]
mod tests;
