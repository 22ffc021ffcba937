//! Counters of ports: what each process has sent and received by an interface, for whoever asks on this host.
//!
//! Owns: a table with one entry for each process and interface, in which that process alone counts. When a process ends, its entry stays, as
//! nobody's, so that the sums go on; such entries of one interface are put together when the next process begins to count. Must not know:
//! what is counted.

use super::layout::{COUNTERS, Claim, State};
use super::registry::{Held, ProcessRef, Registry};
use super::{Host, HostError};
use std::sync::Arc;

/// Counters of an entry.
pub const PORT_COUNTERS: usize = 40;
/// Word of the first counter of an entry: claim and interface come before it.
const FIRST: usize = 2;

/// Where this process counts what goes through an interface.
#[derive(Clone, Debug)]
pub struct PortCounters {
    registry: Arc<Registry>,
    index: usize,
}

impl PortCounters {
    /// Counts: one relaxed addition to a line that no other process writes.
    ///
    /// # Panics
    /// If there is no such counter.
    #[inline]
    pub fn add(&self, counter: usize, by: u64) {
        assert!(counter < PORT_COUNTERS);
        self.registry
            .add_relaxed(COUNTERS.at(self.index, FIRST + counter), by);
    }
}

/// What a process has counted at an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortCount {
    /// The process; None for those that have ended.
    pub process: Option<ProcessRef>,
    /// Number of the interface.
    pub ifindex: u32,
    /// The counters.
    pub counters: [u64; PORT_COUNTERS],
}

impl Host {
    /// A place to count what goes through an interface, from 0 on.
    ///
    /// # Errors
    /// `Full`, `Forked`, `Expelled`.
    pub fn count_port(&self, ifindex: u32) -> Result<PortCounters, HostError> {
        self.registry.join_ended(ifindex);
        let index = self.claim(|| {
            let held = self.registry.claim(&COUNTERS, self.me, 0..COUNTERS.count)?;
            let mut words = [0; FIRST - 1 + PORT_COUNTERS];
            words[0] = u64::from(ifindex);
            self.registry.fill(&COUNTERS, held, &words);
            self.registry
                .publish(&COUNTERS, held, State::Live)
                .map(|held| held.index)
        })?;
        Ok(PortCounters {
            registry: Arc::clone(&self.registry),
            index,
        })
    }
}

impl Registry {
    /// What all processes have counted, those that ended included.
    pub fn port_counts(&self) -> Vec<PortCount> {
        (0..self.used(&COUNTERS))
            .filter_map(|index| self.port_count(index).map(|(_, count)| count))
            .collect()
    }

    fn port_count(&self, index: usize) -> Option<(Claim, PortCount)> {
        let (claim, words) = self.read::<{ FIRST - 1 + PORT_COUNTERS }>(&COUNTERS, index)?;
        let [ifindex, counters @ ..] = words;
        Some((
            claim,
            PortCount {
                process: claim.is(State::Live).then(|| claim.owner()),
                ifindex: ifindex as u32,
                counters,
            },
        ))
    }

    /// The owner of an entry has ended: what it counted stays. An entry that was not complete is freed.
    pub(super) fn end_counting(&self, held: Held) -> bool {
        if !held.claim.is(State::Live) {
            return self.free(&COUNTERS, held);
        }
        let ended = held.claim.with(State::Shared);
        self.cas(COUNTERS.at(held.index, 0), held.claim.0, ended.0)
            .is_ok()
    }

    /// Puts what ended processes counted at an interface into one entry. Who is killed in the middle of it takes one process's
    /// figures along.
    fn join_ended(&self, ifindex: u32) {
        let mut into = None;
        for index in 0..self.used(&COUNTERS) {
            let Some((claim, count)) = self.port_count(index) else {
                continue;
            };
            if count.process.is_some() || count.ifindex != ifindex {
                continue;
            }
            match into {
                None => into = Some(index),
                // one of those who try frees it, and that one adds
                Some(sum) if self.free(&COUNTERS, Held { index, claim }) => {
                    for (counter, value) in count.counters.into_iter().enumerate() {
                        self.add_relaxed(COUNTERS.at(sum, FIRST + counter), value);
                    }
                }
                Some(_) => {}
            }
        }
    }
}
