//! The life of the process as a rank: its settings, how it finds the others, how its threads enter
//! the runtime, wait and sleep, how it ends.
//!
//! Owns: the one runtime's place and the guard by which a call enters it ([`state`]), waiting
//! ([`wait`]), sleeping threads ([`threads`]), wire-up ([`wireup`]). Must not know: what a message
//! or a collective is; that something is over is all that a waiter learns ([`rounds`]).
//! The structure that is entered is a type parameter here.

pub mod rounds;
pub mod settings;
pub(crate) mod state;
pub mod threads;
pub mod wait;
pub mod wireup;
