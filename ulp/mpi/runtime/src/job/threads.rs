//! Threads that wait at once. One of them looks for messages; the others sleep until what they wait
//! for is over, or until it is their turn to look.
//!
//! Owns: which thread looks. Must not know: what a round does, what a thread waits for. The one
//! that looks hands its task to a sleeper when it leaves. Where it sleeps itself, for nothing
//! comes, it gives the lock back, and another thread that has made something happen wakes it as
//! another rank would.

use crate::edge::Guard;
use crate::errors::Outcome;
use crate::ground::lock;
use crate::handle::NOBODY;
use crate::host::{self, Awaited};
use crate::runtime::Runtime;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Fruitless turns on the core before the one that looks sleeps.
const YIELDS: u32 = 64;
/// A sleeper looks for itself after this: should something have happened that rings for nobody.
const LONGEST: Duration = Duration::from_millis(50);
/// The same where there is nobody to look for messages from.
const ALONE: Duration = Duration::from_millis(1);

impl Runtime {
    /// Tells those who wait for anything that something has happened.
    pub fn tell(&mut self) {
        self.point.requests.waits.sleepers.tell();
        if self.point.requests.waits.sleepers.is_poller_asleep {
            self.rouse();
        }
    }

    /// Wakes the one that looks.
    #[cold]
    fn rouse(&self) {
        if let Some(host) = &self.host {
            host.ring(host.me());
        }
    }

    /// Whether no message can come from anywhere else.
    fn is_single(&self) -> bool {
        self.host.is_none() && self.net.is_none()
    }
}

/// Waits until `is_over` says so, which happens when `request` is over unless that is [`NOBODY`].
#[inline(never)]
pub fn wait(
    guard: &mut Guard,
    request: u32,
    mut is_over: impl FnMut(&mut Guard) -> bool,
) -> Outcome {
    let outcome = attend(guard, request, &mut is_over);
    // Whoever was rung to look may have left instead.
    if !guard.point.requests.waits.sleepers.has_poller {
        guard.point.requests.waits.sleepers.ring_one();
    }
    outcome
}

fn attend(
    guard: &mut Guard,
    request: u32,
    is_over: &mut impl FnMut(&mut Guard) -> bool,
) -> Outcome {
    while !is_over(guard) {
        if guard.point.requests.waits.sleepers.has_poller {
            rest(guard, request, LONGEST);
        } else if guard.is_single() {
            if !guard.progress()? {
                rest(guard, request, ALONE);
            }
        } else {
            guard.point.requests.waits.sleepers.has_poller = true;
            let outcome = look(guard, request, is_over);
            guard.point.requests.waits.sleepers.has_poller = false;
            return outcome;
        }
    }
    Ok(())
}

/// Sleeps until somebody rings.
fn rest(guard: &mut Guard, request: u32, longest: Duration) {
    let bell = guard.point.requests.waits.sleepers.add(request);
    if guard.point.requests.waits.sleepers.is_poller_asleep
        && (guard.net.is_some() || !guard.flags.is_empty())
    {
        // What this thread has begun may need a time to be kept, or a flag to be looked at, that the one that sleeps does not know of.
        guard.rouse();
    }
    let spins = guard.settings.job.spins;
    guard.outside(|| lock::listen(&bell, spins, longest));
    if bell.load(Ordering::Acquire) == 0 {
        guard.point.requests.waits.sleepers.remove(&bell);
    }
}

/// Looks for messages until `is_over` says so.
fn look(guard: &mut Guard, request: u32, is_over: &mut impl FnMut(&mut Guard) -> bool) -> Outcome {
    let (mut rounds, mut yields) = (0, 0);
    loop {
        guard.point.requests.waits.awaited = request;
        let mut did = guard.progress()?;
        if !did && rounds >= guard.settings.job.spins {
            did = guard.progress_all()?;
        }
        guard.lend();
        if is_over(guard) {
            guard.point.requests.waits.awaited = NOBODY;
            return Ok(());
        }
        if did {
            (rounds, yields) = (0, 0);
        } else if rounds < guard.settings.job.spins {
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
fn sleep(guard: &mut Guard) -> Outcome {
    let (others, timeout_ms) = guard.arm_net()?;
    if !others.is_empty() && guard.progress()? {
        return Ok(());
    }
    let Some(host) = &guard.host else {
        guard.outside(|| std::thread::sleep(Duration::from_micros(50)));
        return Ok(());
    };
    guard.flags.iter().for_each(Awaited::announce);
    if !host.lie_down(|| guard.has_work()) {
        return Ok(());
    }
    let bell = host.bell();
    guard.point.requests.waits.sleepers.is_poller_asleep = true;
    guard.outside(|| host::listen(bell, &others, timeout_ms));
    guard.point.requests.waits.sleepers.is_poller_asleep = false;
    if let Some(host) = &guard.host {
        host.get_up();
    }
    Ok(())
}
