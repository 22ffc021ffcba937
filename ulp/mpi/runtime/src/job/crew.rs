//! Threads that wait at once. One of them looks for messages; the others sleep until what they wait for is over, or until it is their turn to look.
//!
//! Each sleeper has a bell of its own. Who waits for a request is rung when that is over; who waits for anything else is rung when anything has
//! happened. The one that looks hands its task to a sleeper when it leaves. Where it sleeps itself, for nothing comes, it gives the lock back, and
//! another thread that has made something happen wakes it as another rank would.

use crate::edge::Guard;
use crate::errors::Outcome;
use crate::ground::lock;
use crate::host::{self, Awaited};
use crate::runtime::{NOBODY, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Fruitless turns on the core before the one that looks sleeps.
const YIELDS: u32 = 64;
/// A sleeper looks for itself after this: should something have happened that rings for nobody.
const LONGEST: Duration = Duration::from_millis(50);
/// The same where there is nobody to look for messages from.
const ALONE: Duration = Duration::from_millis(1);

/// Who waits.
#[derive(Default)]
pub struct Crew {
    /// Somebody looks for messages.
    looks: bool,
    /// It sleeps, without the lock.
    dozes: bool,
    /// Something has happened that sleepers have not been told.
    news: bool,
    sleepers: Vec<Sleeper>,
}

/// A thread that sleeps until it is rung.
struct Sleeper {
    bell: Arc<AtomicU32>,
    /// What it waits for, or [`NOBODY`].
    request: u32,
}

thread_local! {
    static BELL: Arc<AtomicU32> = Arc::new(AtomicU32::new(0));
}

impl Crew {
    /// Something has happened.
    #[inline]
    pub fn note(&mut self) {
        self.news = true;
    }

    /// A request is over.
    #[inline(always)]
    pub fn over(&mut self, request: u32) {
        self.news = true;
        if !self.sleepers.is_empty() {
            self.ring(|sleeper| sleeper.request == request);
        }
    }

    /// Whether somebody is to be told something.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.news
    }

    #[cold]
    fn ring(&mut self, whom: impl Fn(&Sleeper) -> bool) {
        self.sleepers.retain(|sleeper| {
            let rings = whom(sleeper);
            if rings {
                lock::ring(&sleeper.bell);
            }
            !rings
        });
    }
}

impl Runtime {
    /// Tells those who wait for anything that something has happened.
    pub fn tell(&mut self) {
        self.crew.news = false;
        if !self.crew.sleepers.is_empty() {
            self.crew.ring(|sleeper| sleeper.request == NOBODY);
        }
        if self.crew.dozes {
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
    if !guard.crew.looks
        && let Some(next) = guard.crew.sleepers.pop()
    {
        lock::ring(&next.bell);
    }
    outcome
}

fn attend(
    guard: &mut Guard,
    request: u32,
    is_over: &mut impl FnMut(&mut Guard) -> bool,
) -> Outcome {
    while !is_over(guard) {
        if guard.crew.looks {
            rest(guard, request, LONGEST);
        } else if guard.is_single() {
            if !guard.progress()? {
                rest(guard, request, ALONE);
            }
        } else {
            guard.crew.looks = true;
            let outcome = look(guard, request, is_over);
            guard.crew.looks = false;
            return outcome;
        }
    }
    Ok(())
}

/// Sleeps until somebody rings.
fn rest(guard: &mut Guard, request: u32, longest: Duration) {
    let bell = BELL.with(Arc::clone);
    bell.store(0, Ordering::Relaxed);
    guard.crew.sleepers.push(Sleeper {
        bell: Arc::clone(&bell),
        request,
    });
    if guard.crew.dozes && (guard.net.is_some() || !guard.flags.is_empty()) {
        // What this thread has begun may need a time to be kept, or a flag to be looked at, that the one that sleeps does not know of.
        guard.rouse();
    }
    let spins = guard.settings.spins;
    guard.outside(|| lock::listen(&bell, spins, longest));
    if bell.load(Ordering::Acquire) == 0 {
        let own = |sleeper: &Sleeper| Arc::ptr_eq(&sleeper.bell, &bell);
        guard.crew.sleepers.retain(|sleeper| !own(sleeper));
    }
}

/// Looks for messages until `is_over` says so.
fn look(guard: &mut Guard, request: u32, is_over: &mut impl FnMut(&mut Guard) -> bool) -> Outcome {
    let (mut rounds, mut yields) = (0, 0);
    loop {
        guard.awaited = request;
        let mut did = guard.progress()?;
        if !did && rounds >= guard.settings.spins {
            did = guard.progress_all()?;
        }
        guard.lend();
        if is_over(guard) {
            guard.awaited = NOBODY;
            return Ok(());
        }
        if did {
            (rounds, yields) = (0, 0);
        } else if rounds < guard.settings.spins {
            rounds += 1;
        } else if yields < YIELDS {
            yields += 1;
            guard.outside(std::thread::yield_now);
        } else {
            yields = 0;
            doze(guard)?;
        }
    }
}

/// Sleeps, without the lock, until another rank or another thread rings.
#[cold]
fn doze(guard: &mut Guard) -> Outcome {
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
    guard.crew.dozes = true;
    guard.outside(|| host::listen(bell, &others, timeout_ms));
    guard.crew.dozes = false;
    if let Some(host) = &guard.host {
        host.get_up();
    }
    Ok(())
}
