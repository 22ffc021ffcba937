//! The VL arbiter of an output port (papers/000 Fig. 6 with its slips put right, IBA 7.6.9): which VL's packet goes next.
//!
//! Two tables of (VL, weight), each served by weighted round robin with a pointer and a counter of its own. The high-priority one goes first until
//! its limit is used up; then the low-priority one has a chance of one packet. Weights count blocks of 64 bytes, the limit counts 4,096 bytes.
//! Packets go whole, so a counter may run below zero; what it ran below is forgotten when its entry's turn ends.

use crate::credit::{BLOCK_BYTES, MOST_DATA_VLS};

/// Entries that a table may have (IBA 14.2.5.9).
pub const MOST_ENTRIES: usize = 64;
/// A high-priority limit that limits nothing.
pub const NO_LIMIT: u8 = 255;
/// The VL of management: before all others.
pub const VL15: u8 = 15;
const BLOCKS_OF_LIMIT: i32 = 4096 / BLOCK_BYTES as i32;

/// An entry of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The VL; 15 and above are passed over.
    pub vl: u8,
    /// Blocks of 64 bytes in a turn; 0 passes the entry over.
    pub weight: u8,
}

/// What a manager sets at a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tables {
    /// The high-priority table; what is past [`MOST_ENTRIES`] is not looked at.
    pub high: Vec<Entry>,
    /// The low-priority table, in the same way.
    pub low: Vec<Entry>,
    /// How much of the high-priority table goes before the low one has a chance, in 4,096 bytes: 0 is one packet, 255 everything.
    pub limit: u8,
}

impl Tables {
    /// All data VLs alike in the low-priority table.
    pub fn even(data_vls: u8) -> Tables {
        let vls = 0..data_vls.min(MOST_DATA_VLS);
        Tables {
            high: Vec::new(),
            low: vls.map(|vl| Entry { vl, weight: 64 }).collect(),
            limit: 0,
        }
    }
}

/// Pointer and counter of a table.
#[derive(Clone, Debug)]
struct Table {
    entries: Box<[Entry]>,
    at: usize,
    /// Blocks that the entry at the pointer may still send.
    left: i32,
    /// The VLs that it has.
    vls: u16,
}

impl Table {
    fn new(entries: &[Entry]) -> Table {
        let used = |entry: &&Entry| entry.vl < VL15 && entry.weight > 0;
        let entries: Box<[Entry]> = entries
            .iter()
            .take(MOST_ENTRIES)
            .filter(used)
            .copied()
            .collect();
        Table {
            at: 0,
            left: entries.first().map_or(0, |entry| entry.weight.into()),
            vls: entries.iter().fold(0, |vls, entry| vls | 1 << entry.vl),
            entries,
        }
    }

    /// The VL whose turn it is among those of `ready`.
    fn choose(&mut self, ready: u16) -> Option<u8> {
        if ready & self.vls == 0 {
            return None;
        }
        // The entry at the pointer comes twice: with what is left of its turn, and, after a whole round, with a new one.
        loop {
            let entry = self.entries[self.at];
            if self.left > 0 && ready & 1 << entry.vl != 0 {
                return Some(entry.vl);
            }
            self.at += 1;
            if self.at == self.entries.len() {
                self.at = 0;
            }
            self.left = self.entries[self.at].weight.into();
        }
    }
}

/// The arbiter of a port.
#[derive(Clone, Debug)]
pub struct Arbiter {
    high: Table,
    low: Table,
    limit: u8,
    /// Blocks that the high-priority table may send before the low one's chance.
    high_left: i32,
    /// Nothing went since the counter was loaded.
    loaded: bool,
}

impl Arbiter {
    /// An arbiter by these tables, all pointers at the beginning.
    pub fn new(tables: &Tables) -> Arbiter {
        Arbiter {
            high: Table::new(&tables.high),
            low: Table::new(&tables.low),
            limit: tables.limit,
            high_left: i32::from(tables.limit) * BLOCKS_OF_LIMIT,
            loaded: true,
        }
    }

    /// The VL that sends next among those of `ready` (bit v: VL v has a packet that may go, by its credits too), and it is counted as sent:
    /// `blocks` says how large the packet of a VL is. None if no table has a VL that is ready.
    pub fn next(&mut self, ready: u16, blocks: impl FnOnce(u8) -> u16) -> Option<u8> {
        if ready & 1 << VL15 != 0 {
            return Some(VL15);
        }
        let may = match self.limit {
            NO_LIMIT => true,
            0 => self.loaded,
            _ => self.high_left > 0,
        };
        if may && let Some(vl) = self.high.choose(ready) {
            let blocks = i32::from(blocks(vl));
            self.high.left -= blocks;
            self.high_left -= blocks;
            self.loaded = false;
            return Some(vl);
        }
        let chosen = self.low.choose(ready);
        // The low-priority table had its chance, whether it had a packet or not.
        self.high_left = i32::from(self.limit) * BLOCKS_OF_LIMIT;
        self.loaded = true;
        match chosen {
            Some(vl) => {
                self.low.left -= i32::from(blocks(vl));
                Some(vl)
            }
            None if may => None,
            None => self.next(ready, blocks),
        }
    }
}

#[cfg(test)]
mod tests;
