//! Waiting: polls, then gives the core away, then sleeps until a peer rings.

use super::rounds::Rounds;
use super::state::Guard;
use super::threads;
use crate::errors::Outcome;
use crate::handle::NOBODY;
use std::time::{Duration, Instant};

/// Fruitless turns on the core before this process sleeps.
const YIELDS: u32 = 64;

/// Runs progress until `is_over` says so.
#[inline(always)]
pub fn wait_for<R: Rounds>(
    guard: &mut Guard<R>,
    mut is_over: impl FnMut(&mut Guard<R>) -> bool,
) -> Outcome {
    if guard.is_shared() {
        return threads::wait(guard, NOBODY, is_over);
    }
    let has_offers = guard.has_offers();
    if has_offers {
        guard.say_it_waits(true);
    }
    let mut idle = Idle::default();
    let outcome = loop {
        if is_over(guard) {
            break Ok(());
        }
        match guard.progress() {
            Ok(true) => idle = Idle::default(),
            Ok(false) => {
                if let Err(error) = idle.pass(guard) {
                    break Err(error);
                }
            }
            Err(error) => break Err(error),
        }
    };
    if has_offers {
        guard.say_it_waits(false);
    }
    outcome
}

/// Waits until a request is over.
#[inline(always)]
pub fn wait_request<R: Rounds>(guard: &mut Guard<R>, request: u32) -> Outcome {
    if guard.is_shared() {
        return threads::wait(guard, request, |guard| guard.is_over(request));
    }
    guard.set_awaited(request);
    let outcome = wait_for(guard, |guard| guard.is_over(request));
    guard.set_awaited(NOBODY);
    outcome
}

/// A round of progress for a call that only asks. Programs ask in loops, so one that asks in vain as often as a call that waits would look gives the core away as
/// that does: the rank that it asks about may need it.
pub fn glance<R: Rounds>(guard: &mut Guard<R>) -> Outcome {
    if guard.progress_all()? {
        *guard.asked_in_vain() = 0;
    } else if *guard.asked_in_vain() < guard.spins() {
        *guard.asked_in_vain() += 1;
    } else {
        guard.ask_about();
        guard.outside(std::thread::yield_now);
    }
    guard.lend();
    Ok(())
}

/// Who is reached by verbs polls no longer than this, and gives the core away for no longer than that, however few rounds these are: a look at a device may itself give
/// the core away.
const POLLS_NET: Duration = Duration::from_micros(100);
const RESTS_NET: Duration = Duration::from_micros(300);

/// How long nothing has come.
#[derive(Default)]
struct Idle {
    rounds: u32,
    yields: u32,
    /// By verbs: since about when.
    since: Option<Instant>,
}

impl Idle {
    #[inline]
    fn pass<R: Rounds>(&mut self, guard: &mut Guard<R>) -> Outcome {
        if self.rounds < guard.spins() {
            self.rounds += 1;
            if self.rounds.is_multiple_of(64) && self.is_long(guard, POLLS_NET) {
                self.rounds = guard.spins();
            }
            return Ok(());
        }
        self.rest(guard)
    }

    /// Whether nothing has come by verbs for so long.
    fn is_long<R: Rounds>(&mut self, guard: &Guard<R>, limit: Duration) -> bool {
        guard.has_net() && self.since.get_or_insert_with(Instant::now).elapsed() > limit
    }

    #[cold]
    fn rest<R: Rounds>(&mut self, guard: &mut Guard<R>) -> Outcome {
        if guard.progress_all()? {
            *self = Self::default();
            return Ok(());
        }
        self.yields += 1;
        if self.yields < YIELDS && !self.is_long(guard, RESTS_NET) {
            std::thread::yield_now();
            return Ok(());
        }
        let (others, timeout_ms) = guard.arm()?;
        if !others.is_empty() && guard.progress()? {
            *self = Self::default();
            return Ok(());
        }
        guard.announce();
        match guard.host() {
            Some(host) => host.sleep(&others, timeout_ms, || guard.has_work()),
            None => std::thread::sleep(std::time::Duration::from_micros(50)),
        }
        self.yields = 0;
        Ok(())
    }
}
