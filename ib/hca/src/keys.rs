//! The process's key table: which local and remote keys exist.
//!
//! Owns the allocation of slots and the variation of their keys; the entries themselves lie in the process segment,
//! where peers read them. Slot 0 is never used, so no key below 256 is ever valid.

use ferriband_memory::Segment;
use ferriband_transport::direct::layout::{KEY_BYTES, KeyEntry, MAX_KEYS, key_offset};

use crate::error::Error;

/// Slots that are made real (pages committed) at a time.
const STEP: usize = 1024;

/// Free slots of the table.
#[derive(Debug, Default)]
pub struct KeyTable {
    free: Vec<u32>,
    next: usize,
    committed: usize,
    variants: Vec<u8>,
}

impl KeyTable {
    /// Takes a slot and gives the key that names it now.
    ///
    /// # Errors
    /// `NoMemory` when the table or the machine is full.
    pub fn claim(&mut self, segment: &Segment) -> Result<u32, Error> {
        let slot = match self.free.pop() {
            Some(slot) => slot as usize,
            None => {
                let slot = self.next.max(1);
                if slot >= MAX_KEYS {
                    return Err(Error::NoMemory("the key table is full (max_mr)"));
                }
                if slot >= self.committed {
                    let count = STEP.min(MAX_KEYS - self.committed);
                    segment.commit(key_offset(self.committed), count * KEY_BYTES)?;
                    self.committed += count;
                    self.variants.resize(self.committed, 0);
                }
                self.next = slot + 1;
                slot
            }
        };
        // each use of a slot has a key of its own, so a stale key finds nothing
        self.variants[slot] = self.variants[slot].wrapping_add(1);
        Ok((slot as u32) << 8 | u32::from(self.variants[slot]))
    }

    /// Gives a slot back. Its entry is revoked already. The oldest free slot is not reused first: keys age.
    pub fn release(&mut self, key: u32) {
        self.free.push(key >> 8);
    }
}

/// A local element as a process address, if its key, domain, bounds and rights allow it.
#[inline]
pub fn local(
    segment: &Segment,
    pd: u32,
    sge: &ferriband_transport::types::Sge,
    need: ferriband_transport::types::Access,
) -> Option<u64> {
    let entry = KeyEntry::read(&**segment, sge.lkey)?;
    if entry.pd != pd || entry.window || !entry.access.contains(need) {
        return None;
    }
    entry
        .offset_of(sge.addr, u64::from(sge.length))
        .map(|offset| entry.addr.wrapping_add(offset))
}
