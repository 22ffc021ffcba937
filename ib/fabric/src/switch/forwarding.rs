//! Linear forwarding tables, in blocks of destinations: equal blocks of any of a fabric's switches lie in memory once. Switches of a level mostly forward far destinations alike, so the
//! tables of a fat tree of 32,258 hosts (12 MB) lie in less than half of one, which stays at hand.

use super::NO_PORT;
use ferriband_prefetch::{Stretch, element};
use std::collections::HashMap;
use std::sync::Arc;

/// Destinations of a block.
const BLOCK: usize = 256;

/// A switch's table.
#[derive(Clone, Debug, Default)]
pub(super) struct Forwarding {
    /// Where in the pool each block begins, of all switches that share it; this one's from `first` on.
    rows: Arc<[u32]>,
    first: u32,
    pool: Arc<[u8]>,
    lids: u32,
    /// The pool may be other switches' too.
    shared: bool,
}

impl Forwarding {
    /// A table by LID; what lies beyond it has no port.
    pub fn new(mut table: Vec<u8>) -> Forwarding {
        let lids = table.len() as u32;
        table.resize(table.len().next_multiple_of(BLOCK), NO_PORT);
        Forwarding {
            rows: (0..lids).step_by(BLOCK).collect(),
            first: 0,
            pool: table.into(),
            lids,
            shared: false,
        }
    }

    /// LIDs that it knows of, with or without a port.
    #[inline]
    pub const fn lids(&self) -> u32 {
        self.lids
    }

    /// The port to a LID, or [`NO_PORT`]; none for one that lies beyond the table.
    #[inline]
    pub fn get(&self, lid: u32) -> Option<u8> {
        if lid >= self.lids {
            return None;
        }
        self.pool.get(self.place(lid)?).copied()
    }

    #[inline]
    fn place(&self, lid: u32) -> Option<usize> {
        let block = *self.rows.get(self.first as usize + lid as usize / BLOCK)?;
        Some(block as usize + lid as usize % BLOCK)
    }

    /// Where its blocks begin.
    pub fn stretch(&self) -> Stretch {
        let own = self.rows.get(self.first as usize..).unwrap_or_default();
        let count = (self.lids as usize).div_ceil(BLOCK).min(own.len());
        Stretch::of(&own[..count])
    }

    /// Soon a LID is looked up.
    #[inline]
    pub fn expect(&self, lid: u32) {
        if let Some(place) = self.place(lid) {
            element(&self.pool, place);
        }
    }
}

/// Has equal blocks of all tables lie in memory once. Nothing is done if all of them do.
pub(super) fn share<'a>(tables: impl Iterator<Item = &'a mut Forwarding>) {
    let mut tables: Vec<_> = tables.collect();
    if tables.iter().all(|table| table.shared) {
        return;
    }
    let (mut known, mut pool) = (HashMap::<[u8; BLOCK], u32>::new(), Vec::new());
    let mut rows = Vec::new();
    for table in &mut tables {
        let first = std::mem::replace(&mut table.first, rows.len() as u32) as usize;
        let own = std::mem::take(&mut table.rows);
        let count = (table.lids as usize).div_ceil(BLOCK);
        rows.extend(own[first..][..count].iter().map(|at| {
            let mut block = [NO_PORT; BLOCK];
            block.copy_from_slice(&table.pool[*at as usize..][..BLOCK]);
            *known.entry(block).or_insert_with(|| {
                pool.extend_from_slice(&block);
                (pool.len() - BLOCK) as u32
            })
        }));
        // what it had alone is not needed any more
        table.pool = Arc::default();
    }
    let (rows, pool): (Arc<[u32]>, Arc<[u8]>) = (rows.into(), pool.into());
    for table in tables {
        table.rows = rows.clone();
        table.pool = pool.clone();
        table.shared = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn shared_tables_say_what_each_said_alone() {
        let mut random = Random::new(3, 1);
        let far: Vec<u8> = (0..3_000).map(|_| random.below(255) as u8).collect();
        let mut plain: Vec<Vec<u8>> = Vec::new();
        for switch in 0..40usize {
            let mut table = far[..far.len() - switch * 13].to_vec();
            table[switch * 20..][..20].fill(switch as u8);
            plain.push(table);
        }
        plain.push(Vec::new());
        let mut tables: Vec<_> = plain.iter().cloned().map(Forwarding::new).collect();
        let says = |tables: &[Forwarding]| {
            for (table, plain) in tables.iter().zip(&plain) {
                assert_eq!(table.lids() as usize, plain.len());
                for lid in 0..3_500 {
                    assert_eq!(table.get(lid), plain.get(lid as usize).copied());
                    table.expect(lid);
                }
            }
        };
        says(&tables);
        share(tables.iter_mut());
        says(&tables);
        let alone: usize = plain.iter().map(Vec::len).sum();
        assert!(tables[0].pool.len() < alone / 3, "{}", tables[0].pool.len());
        assert!(Arc::ptr_eq(&tables[0].pool, &tables[7].pool));
        // one of them is set anew
        plain[3].reverse();
        tables[3] = Forwarding::new(plain[3].clone());
        share(tables.iter_mut());
        let table = &plain[3];
        assert!((0..3_500).all(|lid| tables[3].get(lid) == table.get(lid as usize).copied()));
        assert!((0..3_500).all(|lid| tables[4].get(lid) == plain[4].get(lid as usize).copied()));
        assert!(Arc::ptr_eq(&tables[3].pool, &tables[4].pool));
    }
}
