//! How a process sleeps and another process of its host wakes it.
//!
//! Owns: eventfds ([`Event`]), which poll(2) and epoll(7) can watch; futexes ([`wait`], [`wake`]),
//! which need no descriptor; the barrier between the flag of a sleeper and the data of a waker
//! ([`Barrier`]). Must not know: what is waited for, and how long it pays to poll before a sleep.

mod barrier;
mod event;
mod futex;

pub use barrier::Barrier;
pub use event::{Event, signal, take};
pub use futex::{Until, Wait, now, wait, wake};
