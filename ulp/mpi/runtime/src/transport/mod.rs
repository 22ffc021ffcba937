//! By what other ranks are reached: memory that the ranks of a host share ([`shm`]), and a device
//! ([`verbs`]).
//!
//! Owns: moving envelopes and bytes from one rank to another, in order. Must not know:
//! communicators, which receive takes a message, what a message is for.

pub mod contract;
pub mod counters;
pub mod polling;
pub mod shm;
pub mod verbs;

use contract::Reached;
use shm::Host;

/// By what each rank of the world is reached from a rank of `host`, whose ranks are reached by
/// `same_host`.
pub fn reach(host: &Host, same_host: Reached) -> Box<[Reached]> {
    let reached = |rank| match host.is_near(rank) {
        _ if rank == host.me() => Reached::Own,
        true => same_host,
        false => Reached::Far,
    };
    (0..host.ranks()).map(reached).collect()
}
