//! Threads that wait at once. One of them looks for messages; the others sleep until what they wait
//! for is over, or until it is their turn to look.
//!
//! Owns: which thread looks. Must not know: what a round does, what a thread waits for. The one
//! that looks hands its task to a sleeper when it leaves. Where it sleeps itself, for nothing
//! comes, it gives the lock back, and another thread that has made something happen wakes it as
//! another rank would.

use super::rounds::Rounds;
use super::state::Guard;
use crate::errors::Outcome;
use crate::ground::lock;
use crate::handle::NOBODY;
use crate::transport::host::bell;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Fruitless turns on the core before the one that looks sleeps.
const YIELDS: u32 = 64;
/// A sleeper looks for itself after this: should something have happened that rings for nobody.
const LONGEST: Duration = Duration::from_millis(50);
/// The same where there is nobody to look for messages from.
const ALONE: Duration = Duration::from_millis(1);

/// Waits until `is_over` says so, which happens when `request` is over unless that is [`NOBODY`].
#[inline(never)]
pub fn wait<R: Rounds>(
    guard: &mut Guard<R>,
    request: u32,
    mut is_over: impl FnMut(&mut Guard<R>) -> bool,
) -> Outcome {
    let outcome = attend(guard, request, &mut is_over);
    // Whoever was rung to look may have left instead.
    if !guard.sleepers().has_poller {
        guard.sleepers_mut().ring_one();
    }
    outcome
}

fn attend<R: Rounds>(
    guard: &mut Guard<R>,
    request: u32,
    is_over: &mut impl FnMut(&mut Guard<R>) -> bool,
) -> Outcome {
    while !is_over(guard) {
        if guard.sleepers().has_poller {
            rest(guard, request, LONGEST);
        } else if guard.is_single() {
            if !guard.progress()? {
                rest(guard, request, ALONE);
            }
        } else {
            guard.sleepers_mut().has_poller = true;
            let outcome = look(guard, request, is_over);
            guard.sleepers_mut().has_poller = false;
            return outcome;
        }
    }
    Ok(())
}

/// Sleeps until somebody rings.
fn rest<R: Rounds>(guard: &mut Guard<R>, request: u32, longest: Duration) {
    let bell = guard.sleepers_mut().add(request);
    if guard.sleepers().is_poller_asleep && (guard.has_net() || guard.has_flags()) {
        // What this thread has begun may need a time to be kept, or a flag to be looked at, that the one that sleeps does not know of.
        guard.wake_poller();
    }
    let spins = guard.spins();
    guard.outside(|| lock::listen(&bell, spins, longest));
    if bell.load(Ordering::Acquire) == 0 {
        guard.sleepers_mut().remove(&bell);
    }
}

/// Looks for messages until `is_over` says so.
fn look<R: Rounds>(
    guard: &mut Guard<R>,
    request: u32,
    is_over: &mut impl FnMut(&mut Guard<R>) -> bool,
) -> Outcome {
    let (mut rounds, mut yields) = (0, 0);
    loop {
        guard.set_awaited(request);
        let mut did = guard.progress()?;
        if !did && rounds >= guard.spins() {
            did = guard.progress_all()?;
        }
        guard.lend();
        if is_over(guard) {
            guard.set_awaited(NOBODY);
            return Ok(());
        }
        if did {
            (rounds, yields) = (0, 0);
        } else if rounds < guard.spins() {
            rounds += 1;
        } else if yields < YIELDS {
            yields += 1;
            guard.outside(std::thread::yield_now);
        } else {
            yields = 0;
            sleep(guard)?;
        }
    }
}

/// Sleeps, without the lock, until another rank or another thread rings.
#[cold]
fn sleep<R: Rounds>(guard: &mut Guard<R>) -> Outcome {
    let (others, timeout_ms) = guard.arm()?;
    if !others.is_empty() && guard.progress()? {
        return Ok(());
    }
    let Some(host) = guard.host() else {
        guard.outside(|| std::thread::sleep(Duration::from_micros(50)));
        return Ok(());
    };
    guard.announce();
    if !host.lie_down(|| guard.has_work()) {
        return Ok(());
    }
    let own = host.bell();
    guard.sleepers_mut().is_poller_asleep = true;
    guard.outside(|| bell::listen(own, &others, timeout_ms));
    guard.sleepers_mut().is_poller_asleep = false;
    if let Some(host) = guard.host() {
        host.get_up();
    }
    Ok(())
}
