//! Exchanges of pairs of ranks: who has read a place is the next to write there.
//!
//! A line of memory that one core has written and another read costs its writer, before he may write it again, as much as the reader paid to get it: it has to be taken from the reader's cache. So
//! two ranks that exchange blocks have two places, and change them each time. What a rank writes lies in lines that it has just read, which its core has; a block crosses from core to core once. Nobody
//! has to be waited for either: the only one who reads in a place is the one who writes there next.
//!
//! Owns: where the places lie, and whose turn it is. Must not know: when a block is there (that is
//! told by cells, [`super::flags`]).

use ferriband_mpi_proto::segment::{HALF, group};

/// Places begin at a page.
pub(super) const PAGE: u32 = 4096;

/// The places of a communicator's ranks.
#[derive(Debug)]
pub(super) struct Places {
    /// Bytes of each; 0 if there are none.
    pub(super) room: u32,
    /// Whether ranks write where the others' places are, this time.
    pub(super) crossed: bool,
    /// For each rank, bytes of the place that is this rank's and of the one that is that rank's which there is memory behind.
    pub(super) backed: Box<[[u32; 2]]>,
}

impl Places {
    /// Of so many ranks, if their slots have parts for it.
    pub fn new(ranks: u32, has_parts: bool) -> Self {
        let most = group::EXCHANGE * HALF;
        let room = match has_parts && ranks > 1 {
            true => most / (ranks - 1) / PAGE * PAGE,
            false => 0,
        };
        Self {
            room,
            crossed: false,
            backed: vec![[0; 2]; ranks as usize].into(),
        }
    }

    /// In whose slot what `writer` has for `reader` lies, and which of the places there it is.
    pub(super) fn of(&self, writer: u32, reader: u32) -> (u32, u32) {
        let (owner, other) = if self.crossed {
            (reader, writer)
        } else {
            (writer, reader)
        };
        // a rank has no place for itself
        (owner, if other < owner { other } else { other - 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn who_has_read_a_place_writes_there_next() {
        for ranks in [2, 3, 4, 16] {
            let mut places = Places::new(ranks, true);
            let bytes = group::EXCHANGE * HALF;
            assert!(places.room * (ranks - 1) <= bytes && places.room >= 65_536);
            let mut readers = HashMap::new();
            for _ in 0..6 {
                places.crossed = !places.crossed;
                let mut used = HashSet::new();
                for writer in 0..ranks {
                    for reader in (0..ranks).filter(|rank| *rank != writer) {
                        let place = places.of(writer, reader);
                        assert!(place.1 < ranks - 1 && used.insert(place));
                        let before = readers.insert(place, reader);
                        assert!(before.is_none_or(|before| before == writer));
                    }
                }
            }
            // two for each pair
            assert_eq!(readers.len() as u32, ranks * (ranks - 1));
        }
        assert_eq!(Places::new(4, false).room, 0);
        assert_eq!(Places::new(1, true).room, 0);
    }
}
