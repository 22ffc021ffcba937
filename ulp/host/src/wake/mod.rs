//! How a process sleeps and another process of its host wakes it.
//!
//! Owns: eventfds ([`Event`]), which poll(2) and epoll(7) can watch; futexes ([`wait`], [`wake`]),
//! which need no descriptor. Must not know: what is waited for, and how long it pays to poll before
//! a sleep.
//!
//! A waker stores data and then looks whether the other process sleeps; the sleeper says that it
//! sleeps and then looks for data. Both need a full fence between their two steps, or each may miss
//! what the other has stored, and the sleeper is never woken. membarrier(2) of the sleeper does not
//! stand for the waker's fence: on Linux 6.18 it leaves processors out, though it succeeds (47 to
//! 1,700 of 20,000 rounds were missed in one run of five).

mod event;
mod futex;

pub use event::{Event, signal, take};
pub use futex::{Until, Wait, now, wait, wake};
