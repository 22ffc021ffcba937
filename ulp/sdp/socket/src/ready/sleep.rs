//! Calls that wait, step by step: each sleep is made by who called.
//!
//! Owns: what a step is. Must not know: what is waited for.
//!
//! A thread that sleeps may be cancelled, and is then unwound from within the C library's function
//! by frames without destructors. So no step keeps a lock or a pin while the thread sleeps, and
//! what others know of the sleeper is undone by dropping the call.

use super::kernel::{self, Event, Patience, Polled};
use rustix::io::Errno;
use std::time::Duration;

/// A system call that a thread sleeps in. What it points to lives until the next step.
#[derive(Clone, Copy, Debug)]
pub enum Sleep {
    /// epoll_pwait2(2).
    Epoll {
        /// The instance's number.
        instance: i32,
        /// Where the kernel writes.
        events: *mut Event,
        /// How many events it may write.
        most: usize,
        /// How long; None: without an end.
        time: Option<Duration>,
    },
    /// ppoll(2).
    Poll {
        /// What is asked.
        polled: *mut Polled,
        /// How many these are.
        count: usize,
        /// How long; None: without an end.
        time: Option<Duration>,
    },
}

impl Sleep {
    /// Makes the system call by the instruction, which cannot be cancelled.
    ///
    /// # Safety
    /// A step has just given it.
    unsafe fn by_kernel(self, signals: Option<&u64>) -> Result<usize, Errno> {
        match self {
            Sleep::Epoll {
                instance,
                events,
                most,
                time,
            } => {
                let patience = Patience { time, signals };
                // SAFETY: the caller's promise.
                unsafe { kernel::wait(instance, events, most, patience) }
            }
            Sleep::Poll {
                polled,
                count,
                time,
            } => {
                // SAFETY: the caller's promise.
                let polled = unsafe { std::slice::from_raw_parts_mut(polled, count) };
                kernel::poll(polled, Patience { time, signals })
            }
        }
    }
}

/// What a call does next.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// The thread sleeps, and the next step has the kernel's answer.
    Sleep(Sleep),
    /// This is the call's answer.
    Over(Result<usize, Errno>),
}

/// A call that waits. Whoever drops it while its thread sleeps ends it.
pub trait Waits {
    /// The next step; the first has no answer.
    fn go_on(&mut self, slept: Option<Result<usize, Errno>>) -> Next;
}

/// All steps, with sleeps that cannot be cancelled.
pub(super) fn run(call: &mut impl Waits, signals: Option<&u64>) -> Result<usize, Errno> {
    let mut slept = None;
    loop {
        match call.go_on(slept) {
            // SAFETY: this step has given it, and the next one follows.
            Next::Sleep(sleep) => slept = Some(unsafe { sleep.by_kernel(signals) }),
            Next::Over(answer) => return answer,
        }
    }
}
