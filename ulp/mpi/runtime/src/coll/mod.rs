//! Collectives, and what takes collectives: making communicators.
//!
//! Owns: the choice of a schedule ([`choose`]), running schedules ([`exec`]), collectives in memory
//! that ranks share ([`direct`], [`shared`]), how ranks agree about a new communicator
//! ([`create`]), what they keep for each one ([`comm_state`]), rounds of progress with the calls of
//! the program's functions ([`rounds`]). Must not know: which transport moves a message, which call
//! of the program began
//! it.

pub mod choose;
mod collective;
pub mod comm_state;
pub mod create;
pub mod direct;
pub mod exec;
mod pieces;
pub mod rounds;
pub mod shape;
pub mod shared;

pub use collective::{Call, barrier, barrier_as_chosen, bcast, run};
