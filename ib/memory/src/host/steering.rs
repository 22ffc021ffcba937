//! Which processes have sockets on the shared port, and where in the kernel's array each socket is.
//!
//! Owns: the entries, one for each slot, and what the members answer to a probe. The indices are what somebody found out or
//! predicted: the kernel changes them whenever a process leaves or dies, so they are changed, and trusted, only under the domain's
//! lock ([`Host::locked`]). Must not know: sockets, programs, how a probe travels.

use super::layout::{STEERING, State, header};
use super::registry::{Held, ProcessRef, Registry};
use super::{Fate, Host, HostError};

/// A process on the port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SteeringEntry {
    /// Which.
    pub process: ProcessRef,
    /// Index of its socket for IPv4 and for IPv6; None if it has none.
    pub index: [Option<u16>; 2],
    /// What it answered last for each family: number of the probe, and the index at which the probe reached it.
    pub answer: [Option<(u32, u16)>; 2],
}

impl Host {
    /// Adds us, without indices. To be called under the lock, before the sockets are bound.
    ///
    /// # Errors
    /// `Full` if we are there already; `Forked`, `Expelled`.
    pub fn steering_open(&self) -> Result<(), HostError> {
        self.check_member()?;
        let slot = self.me.slot as usize;
        let held = self.registry.claim(&STEERING, self.me, slot..slot + 1)?;
        self.registry.fill(&STEERING, held, &[0; 3]);
        self.registry.publish(&STEERING, held, State::Live)?;
        self.registry.add(header::STEERING_EPOCH, 1);
        Ok(())
    }

    /// Reaps those on the port that are gone, by their names alone, which costs a system call each
    /// and wakes nobody. Gives their number.
    ///
    /// # Errors
    /// As [`Host::reap_process`].
    pub fn steering_reap(&self) -> Result<usize, HostError> {
        let prober = self.prober()?;
        let mut dead = 0;
        for entry in self.registry.steering_entries() {
            let fate = self.reap_if(entry.process, |slot| Ok(!prober.is_present(slot)?))?;
            dead += usize::from(fate == Fate::Dead);
        }
        Ok(dead)
    }

    /// Takes us out; false if we were not there.
    pub fn steering_close(&self) -> bool {
        let Some(held) = self
            .registry
            .steering_held(self.me)
            .filter(|_| self.check_fork().is_ok())
        else {
            return false;
        };
        let freed = self.registry.free(&STEERING, held);
        self.registry.add(header::STEERING_EPOCH, 1);
        freed
    }

    /// Answers a probe: it reached us at `index`. Of several that carry one number the first counts: an index that no socket has
    /// reaches anybody, and is asked for after those that exist. Gives the entry as it is then, None if we have none.
    pub fn steering_answer(&self, v6: bool, probe: u32, index: u16) -> Option<SteeringEntry> {
        self.check_fork().ok()?;
        let held = self.registry.steering_held(self.me)?;
        let at = STEERING.at(held.index, 2 + usize::from(v6));
        let before = self.registry.load(at);
        if before == 0 || (before >> 32) as u32 != probe {
            let word = u64::from(probe) << 32 | u64::from(index) | 1 << 16;
            // A failure means that another thread of ours was first.
            let _ = self.registry.cas(at, before, word);
        }
        self.registry.steering_of(self.me)
    }
}

impl Registry {
    /// All processes on the port, in the order of their slots.
    pub fn steering_entries(&self) -> Vec<SteeringEntry> {
        (0..self.used(&STEERING))
            .filter_map(|slot| self.steering_at(slot))
            .collect()
    }

    /// One process's entry.
    pub fn steering_of(&self, process: ProcessRef) -> Option<SteeringEntry> {
        self.steering_at(process.slot as usize)
            .filter(|entry| entry.process == process)
    }

    /// Counts joins, leaves, reaps and [`Registry::steering_changed`].
    pub fn steering_epoch(&self) -> u64 {
        self.load(header::STEERING_EPOCH)
    }

    /// Says that the port is steered anew. Gives the new epoch.
    pub fn steering_changed(&self) -> u64 {
        self.add(header::STEERING_EPOCH, 1) + 1
    }

    /// Writes down where a process's socket is; false if it is not on the port. To be called under the lock.
    pub fn set_steering_index(&self, process: ProcessRef, v6: bool, index: Option<u16>) -> bool {
        let Some(held) = self.steering_held(process) else {
            return false;
        };
        let at = STEERING.at(held.index, 1);
        let shift = 32 * u32::from(v6);
        let value = index.map_or(0, |index| u64::from(index) | 1 << 16);
        self.store(at, self.load(at) & !(0xffff_ffff << shift) | value << shift);
        true
    }

    /// Number of the probe under way, or of the last one.
    pub fn steering_probe(&self) -> u32 {
        self.load(header::STEERING_PROBE) as u32
    }

    /// Begins a probe: answers to former ones count no more. Its number is never 0. To be called under the lock.
    pub fn begin_steering_probe(&self) -> u32 {
        let next = (self.load(header::STEERING_PROBE) as u32)
            .wrapping_add(1)
            .max(1);
        self.store(header::STEERING_PROBE, u64::from(next));
        next
    }

    fn steering_held(&self, process: ProcessRef) -> Option<Held> {
        let index = process.slot as usize;
        if index >= STEERING.count {
            return None;
        }
        let claim = self.claim_word(&STEERING, index);
        (claim.is(State::Live) && claim.owner() == process).then_some(Held { index, claim })
    }

    fn steering_at(&self, slot: usize) -> Option<SteeringEntry> {
        if slot >= STEERING.count {
            return None;
        }
        let (claim, [indices, v4, v6]) = self.read(&STEERING, slot)?;
        let index = |part: u32| (part & 1 << 16 != 0).then_some(part as u16);
        let answer = |word: u64| Some(((word >> 32) as u32, index(word as u32)?));
        Some(SteeringEntry {
            process: claim.owner(),
            index: [index(indices as u32), index((indices >> 32) as u32)],
            answer: [answer(v4), answer(v6)],
        })
    }
}
