//! The process's key table: which local and remote keys exist.
//!
//! Owns the allocation of slots and the variation of their keys; the entries themselves lie in the
//! process segment, where peers read them. Slot 0 is never used, so no key below 256 is ever valid.

use ferriband_memory::Segment;
use ferriband_transport::direct::layout::{KEY_BYTES, KeyEntry, MAX_KEYS, key_offset};

use crate::base::error::Error;

/// Slots of one page of the table, the unit in which memory for entries is committed.
const PAGE_SLOTS: usize = 4096 / KEY_BYTES;
const PAGES: usize = MAX_KEYS / PAGE_SLOTS;

/// Free slots of the table. Which slot a region gets is drawn, a page at a time, and so is the
/// first variant of its key: over a network whoever does not know a key has to guess 26 bits of it.
#[derive(Debug, Default)]
pub struct KeyTable {
    /// Slots that were given back, and those of the last page that were never used.
    released: Vec<u32>,
    fresh: Vec<u32>,
    /// Pages that no slot was drawn from.
    pages: Option<Vec<u16>>,
    variants: Vec<u8>,
}

/// Bytes that nobody can predict.
fn random(bytes: &mut [u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::rand::getrandom(&mut *rest, rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => rest = &mut rest[count..],
            Err(rustix::io::Errno::INTR) => {}
            // a kernel or a sandbox without it: keys are not secret from this host's processes in
            // any case
            Err(_) => return,
        }
    }
}

impl KeyTable {
    /// Takes a slot and gives the key that names it now.
    ///
    /// # Errors
    /// `NoMemory` when the table or the machine is full.
    pub fn claim(&mut self, segment: &Segment) -> Result<u32, Error> {
        if self.released.is_empty() && self.fresh.is_empty() {
            self.draw_page(segment)?;
        }
        let slot = self
            .released
            .pop()
            .or_else(|| self.fresh.pop())
            .ok_or(Error::NoMemory("the key table is full (max_mr)"))?;
        // each use of a slot has a key of its own, so a stale key finds nothing
        let variant = &mut self.variants[slot as usize];
        *variant = variant.wrapping_add(1);
        Ok(slot << 8 | u32::from(*variant))
    }

    /// Commits a page that no slot was drawn from, any of them.
    #[cold]
    fn draw_page(&mut self, segment: &Segment) -> Result<(), Error> {
        if self.variants.is_empty() {
            self.variants = vec![0; MAX_KEYS];
        }
        let pages = self
            .pages
            .get_or_insert_with(|| (0..PAGES as u16).collect());
        let mut draws = [0; 4 + 3 * PAGE_SLOTS];
        random(&mut draws);
        let (which, draws) = draws.split_at(4);
        if pages.is_empty() {
            return Err(Error::NoMemory("the key table is full (max_mr)"));
        }
        let which = u32::from_ne_bytes([which[0], which[1], which[2], which[3]]);
        let at = which as usize % pages.len();
        let first = usize::from(pages[at]) * PAGE_SLOTS;
        segment.commit(key_offset(first), PAGE_SLOTS * KEY_BYTES)?;
        pages.swap_remove(at);
        // slot 0 is never used
        self.fresh
            .extend((first.max(1)..first + PAGE_SLOTS).map(|slot| slot as u32));
        for (place, draw) in draws.chunks_exact(3).take(self.fresh.len()).enumerate() {
            let left = self.fresh.len() - place;
            let other = place + usize::from(u16::from_ne_bytes([draw[0], draw[1]])) % left;
            self.fresh.swap(place, other);
            self.variants[self.fresh[place] as usize] = draw[2];
        }
        Ok(())
    }

    /// Gives a slot back. Its entry is revoked already. The oldest free slot is not reused first:
    /// keys age.
    pub fn release(&mut self, key: u32) {
        self.released.push(key >> 8);
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

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_transport::direct::layout::PROC_LEN;
    use std::collections::BTreeSet;

    fn keys(count: usize) -> Vec<u32> {
        let segment = Segment::create("ferriband-test", PROC_LEN).unwrap();
        let mut table = KeyTable::default();
        (0..count).map(|_| table.claim(&segment).unwrap()).collect()
    }

    #[test]
    fn the_whole_table_can_be_had_each_slot_once() {
        let segment = Segment::create("ferriband-test", PROC_LEN).unwrap();
        let mut table = KeyTable::default();
        let all: BTreeSet<u32> = (1..MAX_KEYS)
            .map(|_| table.claim(&segment).unwrap() >> 8)
            .collect();
        assert_eq!(all.len(), MAX_KEYS - 1);
        assert!(!all.contains(&0));
        assert!(table.claim(&segment).is_err());
    }

    /// Each of these bits is set in about half of the values: six standard deviations, so that a
    /// right one fails once in 10^9 runs.
    fn expect_balanced(values: &[u32], bits: std::ops::Range<u32>) {
        let count = values.len() as f64;
        for bit in bits {
            let set = values.iter().filter(|value| *value >> bit & 1 == 1).count() as f64;
            let off = (set - count / 2.0).abs();
            assert!(off < 3.0 * count.sqrt(), "bit {bit}: {set} of {count}");
        }
    }

    #[test]
    fn a_key_says_nothing_of_other_processes_keys_and_little_of_the_next() {
        // the first key of many processes: 18 bits of slot, 8 of variant
        let first: Vec<u32> = (0..1000).map(|_| keys(1)[0]).collect();
        expect_balanced(&first, 0..26);
        let distinct: BTreeSet<u32> = first.iter().copied().collect();
        assert!(distinct.len() > 990, "{} of 1,000", distinct.len());
        // within a process: which slot of a page, and which variant
        let many = keys(20_000);
        expect_balanced(&many, 0..14);
        let mut steps = std::collections::BTreeMap::<u32, u32>::new();
        for pair in many.windows(2) {
            *steps.entry(pair[1].wrapping_sub(pair[0])).or_default() += 1;
        }
        let most = steps.values().max().copied();
        assert!(
            most.is_some_and(|most| most < 40),
            "a step is too common: {most:?}"
        );
    }

    #[test]
    fn keys_of_two_processes_are_not_alike_and_a_key_given_back_is_never_valid_again() {
        assert_ne!(keys(8), keys(8));
        let segment = Segment::create("ferriband-test", PROC_LEN).unwrap();
        let mut table = KeyTable::default();
        let first = table.claim(&segment).unwrap();
        table.release(first);
        let second = table.claim(&segment).unwrap();
        assert_eq!(first >> 8, second >> 8);
        assert_ne!(first, second);
    }
}
