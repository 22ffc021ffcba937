//! The registry segment: verification, claims and the process table.
//!
//! Owns: every access to the segment. All of it is single words, changed by compare-and-swap under claims that carry
//! their owner's slot and generation, so a process that is stopped or killed between any two accesses blocks nobody:
//! what it had half made is swept with the rest of what it owned, and what it does after a long stop fails.
//! Must not know: sockets; whether a process is alive is told to it.
//!
//! Words of the segment are untrusted: indices are taken modulo or checked, loops are bounded by the tables' sizes.

use super::HostError;
use super::identity::{HostKey, ProcessIdentity};
use super::layout::{
    self, CONNECTIONS, COUNTERS, Claim, FAULTS, MULTICAST, OWNED, PROCESSES, QPN_BLOCKS, SERVICES,
    STEERING, State, Table, XRC_OPENINGS, header,
};
use crate::segment::{Access, Segment};
use ferriband_wire::{Guid, Lid};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Members of one host domain at most.
pub const PROCESS_LIMIT: usize = 4096;
/// Queue pair numbers in a block.
pub const QPN_BLOCK: u32 = 256;
/// First queue pair number of XRC targets; their 65,536 numbers are no process's blocks, because a target outlives its
/// creator.
pub const XRC_QPN_BASE: u32 = 0xfe_0000;

/// The name that the registry's memfd shows in /proc/PID/fd.
pub(super) const MEMFD_NAME: &str = "ferriband-host-3";

/// A member of the domain: a slot of the process table in one of its lives. Never reused as a pair (a slot's generation wraps
/// after 2^32 processes).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct ProcessRef {
    /// Index into the process table, below [`PROCESS_LIMIT`].
    pub slot: u32,
    /// Which of the slot's owners, from 1.
    pub generation: u32,
}

impl ProcessRef {
    /// As a word of 48 bits, never 0 for a member: slot | generation << 16.
    pub const fn to_word(self) -> u64 {
        self.slot as u64 | (self.generation as u64) << 16
    }

    /// Back from [`ProcessRef::to_word`]; None for words that it never gives.
    pub const fn from_word(word: u64) -> Option<ProcessRef> {
        let (slot, generation) = (word as u16 as u32, (word >> 16) as u32);
        if word >> 48 != 0 || slot as usize >= PROCESS_LIMIT || generation == 0 {
            return None;
        }
        Some(ProcessRef { slot, generation })
    }
}

/// What the process table says of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Slot and generation.
    pub process: ProcessRef,
    /// Which process it is.
    pub identity: ProcessIdentity,
    /// Random number that it shows when it connects.
    pub nonce: u64,
    /// The adapter's own 32 bits.
    pub flags: u32,
}

/// A claimed entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) index: usize,
    pub(super) claim: Claim,
}

/// The shared tables of one host domain.
#[derive(Debug)]
pub struct Registry {
    segment: Segment,
}

impl Registry {
    /// A new registry, its pages allocated.
    pub(super) fn create(key: &HostKey) -> Result<Registry, HostError> {
        let segment = Segment::create(MEMFD_NAME, layout::BYTES)?;
        segment.commit(0, layout::BYTES)?;
        let registry = Registry { segment };
        for (at, value) in expected_header(key) {
            registry.store(at, value);
        }
        registry.store(header::GUID, key.guid().0);
        registry.store(header::LID, 1);
        registry.store(header::QPN_CURSOR, 1);
        // Block 0 holds QP0 and QP1, the last one the multicast QPN 0xffffff.
        let xrc = (XRC_QPN_BASE / QPN_BLOCK) as usize;
        for block in (xrc..xrc + 256).chain([0, QPN_BLOCKS.count - 1]) {
            registry.store(QPN_BLOCKS.at(block, 0), State::Reserved as u64);
        }
        Ok(registry)
    }

    /// Maps a registry that somebody handed over.
    pub(super) fn open(fd: OwnedFd, key: &HostKey) -> Result<Registry, HostError> {
        let segment = Segment::from_fd(fd, layout::BYTES, Access::ReadWrite)?;
        if segment.len() != layout::BYTES {
            return Err(HostError::BadRegistry { what: "size" });
        }
        let registry = Registry { segment };
        for (at, value) in expected_header(key) {
            if registry.load(at) != value {
                return Err(HostError::BadRegistry {
                    what: "magic, version or domain",
                });
            }
        }
        Ok(registry)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.segment
            .fd()
            .expect("the registry's descriptor is never closed nor given away")
    }

    /// Inode of the registry's memfd: equal for all members of a domain.
    ///
    /// # Errors
    /// `System` if fstat fails.
    pub fn inode(&self) -> Result<u64, HostError> {
        Ok(rustix::fs::fstat(self.fd())
            .map_err(|e| HostError::system("fstat", e))?
            .st_ino)
    }

    /// GUID of the domain's device.
    pub fn guid(&self) -> Guid {
        Guid(self.load(header::GUID))
    }

    /// LID of the domain's port.
    pub fn lid(&self) -> Lid {
        Lid(self.load(header::LID) as u16)
    }

    // Words.

    #[inline]
    pub(super) fn load(&self, at: usize) -> u64 {
        self.segment.load(at, SeqCst)
    }

    #[inline]
    pub(super) fn load_relaxed(&self, at: usize) -> u64 {
        self.segment.load(at, Relaxed)
    }

    pub(super) fn store(&self, at: usize, value: u64) {
        self.segment.store(at, value, SeqCst);
    }

    pub(super) fn cas(&self, at: usize, current: u64, new: u64) -> Result<u64, u64> {
        self.segment
            .compare_exchange(at, current, new, SeqCst, SeqCst)
    }

    pub(super) fn add(&self, at: usize, value: u64) -> u64 {
        self.segment.fetch_add(at, value, SeqCst)
    }

    #[inline]
    pub(super) fn add_relaxed(&self, at: usize, value: u64) {
        self.segment.fetch_add(at, value, Relaxed);
    }

    // Claims.

    #[inline]
    pub(super) fn claim_word(&self, table: &Table, index: usize) -> Claim {
        Claim(self.load(table.at(index, 0)))
    }

    /// One past the highest entry ever claimed, at most the table's size.
    pub(super) fn used(&self, table: &Table) -> usize {
        usize::try_from(self.load(table.used))
            .unwrap_or(usize::MAX)
            .min(table.count)
    }

    /// Raises the high-water mark before an entry is claimed, so that no sweep can miss it.
    fn raise_used(&self, table: &Table, index: usize) {
        let wanted = index as u64 + 1;
        let mut seen = self.load(table.used);
        while seen < wanted {
            // Each failure means that somebody else raised it: at most `count` times, unless somebody scribbles.
            match self.cas(table.used, seen, wanted) {
                Ok(_) => return,
                Err(now) if now > seen => seen = now,
                Err(_) => return self.store(table.used, table.count as u64),
            }
        }
    }

    /// Claims the first free entry in the order given.
    pub(super) fn claim(
        &self,
        table: &Table,
        owner: ProcessRef,
        order: impl Iterator<Item = usize>,
    ) -> Result<Held, HostError> {
        for index in order {
            let seen = self.claim_word(table, index);
            if !seen.is(State::Free) {
                continue;
            }
            let claim = Claim::new(State::Claimed, owner, seen.tag().wrapping_add(1));
            self.raise_used(table, index);
            if self.cas(table.at(index, 0), seen.0, claim.0).is_ok() {
                return Ok(Held { index, claim });
            }
        }
        Err(HostError::Full {
            table: table.name,
            limit: table.count,
        })
    }

    /// Makes a filled entry visible in `state`.
    ///
    /// # Errors
    /// `Expelled` if its owner was declared dead meanwhile; nothing stays behind.
    pub(super) fn publish(
        &self,
        table: &Table,
        held: Held,
        state: State,
    ) -> Result<Held, HostError> {
        let claim = held.claim.with(state);
        let at = table.at(held.index, 0);
        self.cas(at, held.claim.0, claim.0)
            .map_err(|_| HostError::Expelled)?;
        if !self.is_live(held.claim.owner()) {
            // Whoever swept for us may have passed this entry before: take it back.
            let _ = self.cas(at, claim.0, claim.freed().0);
            return Err(HostError::Expelled);
        }
        Ok(Held { claim, ..held })
    }

    /// Frees an entry; false if it is not held under this claim any more.
    pub(super) fn free(&self, table: &Table, held: Held) -> bool {
        self.cas(table.at(held.index, 0), held.claim.0, held.claim.freed().0)
            .is_ok()
    }

    /// Stores words 1.. of an entry that is claimed.
    pub(super) fn fill(&self, table: &Table, held: Held, words: &[u64]) {
        for (word, value) in words.iter().enumerate() {
            self.store(table.at(held.index, word + 1), *value);
        }
    }

    /// Words 1.. of an entry that is in use, all of the same claim.
    pub(super) fn read<const N: usize>(
        &self,
        table: &Table,
        index: usize,
    ) -> Option<(Claim, [u64; N])> {
        let claim = self.claim_word(table, index);
        if !claim.is(State::Live) && !claim.is(State::Shared) {
            return None;
        }
        let words = std::array::from_fn(|i| self.load(table.at(index, i + 1)));
        // Words change only while an entry is claimed, and each claim has a tag of its own.
        (self.claim_word(table, index) == claim).then_some((claim, words))
    }

    // Processes.

    /// True while `process` is a member that nobody declared dead.
    pub fn is_live(&self, process: ProcessRef) -> bool {
        let index = process.slot as usize;
        if index >= PROCESS_LIMIT {
            return false;
        }
        let claim = self.claim_word(&PROCESSES, index);
        claim.is(State::Live) && claim.owner() == process
    }

    /// What the table says of a member; None if it is none (any more).
    pub fn member(&self, process: ProcessRef) -> Option<Member> {
        self.member_at(process.slot as usize)
            .filter(|m| m.process == process)
    }

    /// The same of whoever has a slot now.
    pub fn member_in(&self, slot: u32) -> Option<Member> {
        self.member_at(slot as usize)
    }

    pub(super) fn member_at(&self, slot: usize) -> Option<Member> {
        if slot >= PROCESS_LIMIT {
            return None;
        }
        let (claim, [pid, pid_namespace, start_time, nonce]) = self.read(&PROCESSES, slot)?;
        Some(Member {
            process: claim.owner(),
            identity: ProcessIdentity {
                pid: pid as u32,
                pid_namespace,
                start_time,
            },
            nonce,
            flags: (pid >> 32) as u32,
        })
    }

    /// All members, in the order of their slots; those that died unnoticed included.
    pub fn members(&self) -> Vec<Member> {
        (0..self.used(&PROCESSES))
            .filter_map(|slot| self.member_at(slot))
            .collect()
    }

    /// Takes a free slot, whose names the caller has bound: that is what makes it the only one to try. None if it is
    /// not free.
    pub(super) fn claim_slot(
        &self,
        slot: u32,
        identity: &ProcessIdentity,
        nonce: u64,
    ) -> Option<ProcessRef> {
        let index = slot as usize;
        let seen = self.claim_word(&PROCESSES, index);
        if !seen.is(State::Free) {
            return None;
        }
        let generation = seen.owner().generation.wrapping_add(1).max(1);
        let process = ProcessRef { slot, generation };
        let claim = Claim::new(State::Claimed, process, seen.tag().wrapping_add(1));
        self.raise_used(&PROCESSES, index);
        self.cas(PROCESSES.at(index, 0), seen.0, claim.0).ok()?;
        for (word, value) in [
            u64::from(identity.pid),
            identity.pid_namespace,
            identity.start_time,
            nonce,
        ]
        .into_iter()
        .enumerate()
        {
            self.store(PROCESSES.at(index, word + 1), value);
        }
        self.cas(PROCESSES.at(index, 0), claim.0, claim.with(State::Live).0)
            .ok()?;
        Some(process)
    }

    /// Sets the adapter's 32 bits of its own entry. A compare-and-swap on pid and flags together: after a long stop it
    /// cannot hit the entry of the slot's next owner.
    pub(super) fn set_flags(&self, process: ProcessRef, flags: u32) -> Result<(), HostError> {
        let member = self.member(process).ok_or(HostError::Expelled)?;
        let word = |flags: u32| u64::from(member.identity.pid) | u64::from(flags) << 32;
        let at = PROCESSES.at(process.slot as usize, 1);
        self.cas(at, word(member.flags), word(flags))
            .map(|_| ())
            .map_err(|_| HostError::Expelled)
    }

    /// The slot's occupant, whether it has finished joining or not: what a reaper asks about before it asks whether the
    /// slot's names exist.
    pub(super) fn occupant(&self, slot: u32) -> Option<Claim> {
        let claim = self.claim_word(&PROCESSES, slot as usize);
        (!claim.is(State::Free)).then_some(claim)
    }

    /// Frees all that a dead (or leaving) process owned, then its slot, in this order: a reaper that dies on the way leaves a
    /// slot that still looks stale. Any number of reapers may do the same at once.
    pub(super) fn free_all_of(&self, occupant: Claim) {
        let owner = occupant.owner();
        self.sweep(|process| process == owner);
        let slot = owner.slot as usize;
        // The generation stays in the free word: the next owner gets the one after it.
        let _ = self.cas(
            PROCESSES.at(slot, 0),
            occupant.0,
            occupant.with(State::Free).0,
        );
    }

    /// Frees what belongs to no member: a safety net under [`Registry::free_all_of`].
    pub(super) fn sweep_orphans(&self) {
        self.sweep(|process| !self.is_live(process));
        self.free_targets_without_domain();
    }

    fn sweep(&self, doomed: impl Fn(ProcessRef) -> bool) {
        for table in &OWNED {
            let mut freed = false;
            for index in 0..self.used(table) {
                let claim = self.claim_word(table, index);
                if claim.is_owned() && doomed(claim.owner()) {
                    let held = Held { index, claim };
                    freed |= if table.offset == CONNECTIONS.offset {
                        self.orphan_connection(held)
                    } else if table.offset == COUNTERS.offset {
                        self.end_counting(held)
                    } else {
                        self.free(table, held)
                    };
                }
            }
            if freed && table.offset == MULTICAST.offset {
                self.add(header::MULTICAST_EPOCH, 1);
            }
            if freed && table.offset == XRC_OPENINGS.offset {
                self.free_targets_without_domain();
            }
            if freed && table.offset == STEERING.offset {
                self.add(header::STEERING_EPOCH, 1);
            }
            if freed && table.offset == SERVICES.offset {
                self.add(header::SERVICE_EPOCH, 1);
            }
            if freed && table.offset == FAULTS.offset {
                self.change_hooks(0, 0);
            }
        }
    }
}

/// What must stand in the header of a domain's registry.
fn expected_header(key: &HostKey) -> [(usize, u64); 8] {
    [
        (header::MAGIC, layout::MAGIC),
        (header::VERSION, layout::VERSION),
        (header::BYTES, layout::BYTES as u64),
        (header::UID, u64::from(key.uid)),
        (header::BOOT_HIGH, (key.boot_id >> 64) as u64),
        (header::BOOT_LOW, key.boot_id as u64),
        (header::NET_NAMESPACE, key.net_namespace),
        (header::LABEL, key.label_word()),
    ]
}
