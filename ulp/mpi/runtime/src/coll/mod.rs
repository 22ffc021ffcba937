//! Collectives, and what takes collectives: making communicators.
//!
//! Owns: what a guard leads to ([`state`]), the choice of a schedule ([`choose`]), running
//! schedules
//! ([`exec`]), collectives in memory that ranks share ([`direct`], [`shared`]), how ranks agree
//! about
//! a new communicator ([`create`]), what they keep for each one ([`comm_state`]), what they do in a
//! round of progress ([`rounds`]). Must not know: which transport moves a message, which call of
//! the
//! program began it. Messages between two ranks do not know of collectives: a request that belongs
//! to one is asked whether it is over, and each round looks whether ranks were lost.

pub mod choose;
mod collective;
pub mod comm_state;
pub mod create;
pub mod direct;
pub mod exec;
mod let_go;
pub mod persistent;
mod pieces;
pub mod rounds;
pub mod shape;
pub mod shared;
pub mod shrink;
pub(crate) mod state;

pub use collective::{Call, barrier, barrier_as_chosen, bcast, run};
