//! Waiting: polls, then gives the core away, then sleeps until a peer rings.

use crate::constants::MPI_THREAD_MULTIPLE;
use crate::edge::Guard;
use crate::errors::Outcome;
use crate::runtime::NOBODY;

/// Fruitless turns on the core before this process sleeps.
const YIELDS: u32 = 64;

/// Runs progress until `is_over` says so.
#[inline(always)]
pub fn wait_for(guard: &mut Guard, mut is_over: impl FnMut(&mut Guard) -> bool) -> Outcome {
    let mut idle = Idle::default();
    while !is_over(guard) {
        if guard.progress()? {
            idle = Idle::default();
        } else {
            idle.pass(guard)?;
        }
    }
    Ok(())
}

/// Waits until a request is over.
#[inline(always)]
pub fn wait_request(guard: &mut Guard, request: u32) -> Outcome {
    guard.awaited = request;
    let outcome = wait_for(guard, |guard| guard.requests[request].done);
    guard.awaited = NOBODY;
    outcome
}

/// How long nothing has come.
#[derive(Default)]
struct Idle {
    rounds: u32,
    yields: u32,
}

impl Idle {
    #[inline]
    fn pass(&mut self, guard: &mut Guard) -> Outcome {
        let is_shared = guard.settings.threads == MPI_THREAD_MULTIPLE;
        if self.rounds < guard.settings.spins {
            self.rounds += 1;
            if is_shared && self.rounds.is_multiple_of(16) {
                guard.lend();
            }
            return Ok(());
        }
        self.rest(guard, is_shared)
    }

    #[cold]
    fn rest(&mut self, guard: &mut Guard, is_shared: bool) -> Outcome {
        if guard.progress_all()? {
            *self = Self::default();
            return Ok(());
        }
        self.yields += 1;
        if is_shared {
            // Another thread may complete what this one waits for, and nobody would ring.
            guard.lend();
        }
        if self.yields < YIELDS {
            std::thread::yield_now();
            return Ok(());
        }
        let (others, timeout_ms) = guard.arm_net()?;
        if !others.is_empty() && guard.progress()? {
            *self = Self::default();
            return Ok(());
        }
        match &guard.host {
            Some(host) if !is_shared => host.sleep(&others, timeout_ms, || guard.has_work()),
            _ => std::thread::sleep(std::time::Duration::from_micros(50)),
        }
        self.yields = 0;
        Ok(())
    }
}
