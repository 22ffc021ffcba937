//! A stretch of a program's memory as addresses and lengths: flat, or the pieces of PTL_IOVEC.
//!
//! Owns: arithmetic on ranges. Must not know: the memory itself. Data comes from descriptors and
//! list entries.

/// A run of bytes at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub address: u64,
    /// How many bytes it has.
    pub length: u64,
}

impl Piece {
    fn last_fits(self) -> bool {
        self.address.checked_add(self.length).is_some()
    }
}

/// Where the bytes of a transfer lie, in order. None of the pieces is empty.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Pieces {
    /// No bytes.
    #[default]
    None,
    /// One run.
    One(Piece),
    /// Several.
    Many(Vec<Piece>),
}

impl Pieces {
    /// The pieces in order.
    pub fn as_slice(&self) -> &[Piece] {
        match self {
            Pieces::None => &[],
            Pieces::One(piece) => std::slice::from_ref(piece),
            Pieces::Many(pieces) => pieces,
        }
    }

    /// Bytes of all pieces.
    pub fn length(&self) -> u64 {
        self.as_slice().iter().map(|piece| piece.length).sum()
    }

    fn push(&mut self, piece: Piece) {
        match self {
            Pieces::None => *self = Pieces::One(piece),
            Pieces::One(first) => *self = Pieces::Many(vec![*first, piece]),
            Pieces::Many(pieces) => pieces.push(piece),
        }
    }
}

/// The memory of a descriptor or of a list entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Region {
    /// `start` and `length` of the C structure. A region that would go past the last address ends
    /// there: PTL_SIZE_MAX is legal.
    Flat(Piece),
    /// The elements of PTL_IOVEC, which the caller has read from the program's memory.
    Iovec(Vec<Piece>),
}

impl Region {
    /// A flat region.
    pub fn flat(start: u64, length: u64) -> Region {
        Region::Flat(Piece {
            address: start,
            length,
        })
    }

    /// Whether it may be bound: at most `max_iovecs` pieces, none past the last address, and their
    /// sum a length.
    pub(crate) fn is_valid(&self, max_iovecs: u32) -> bool {
        match self {
            Region::Flat(_) => true,
            Region::Iovec(pieces) => {
                pieces.len() <= max_iovecs as usize
                    && pieces.iter().all(|piece| piece.last_fits())
                    && pieces
                        .iter()
                        .try_fold(0u64, |sum, piece| sum.checked_add(piece.length))
                        .is_some()
            }
        }
    }

    /// All of it.
    pub fn pieces(&self) -> Pieces {
        self.cut(0, self.length())
    }

    /// Bytes that can be reached.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Region::Flat(piece) => piece.length.min(u64::MAX - piece.address),
            Region::Iovec(pieces) => pieces.iter().map(|piece| piece.length).sum(),
        }
    }

    /// The address of the byte at `offset`; at or past the end, the address where the region ends
    /// (0 if it has no pieces).
    pub(crate) fn address(&self, offset: u64) -> u64 {
        match self {
            Region::Flat(piece) => piece.address + offset.min(self.length()),
            Region::Iovec(pieces) => {
                let mut before = offset;
                for piece in pieces {
                    if before < piece.length {
                        return piece.address + before;
                    }
                    before -= piece.length;
                }
                pieces
                    .last()
                    .map_or(0, |piece| piece.address + piece.length)
            }
        }
    }

    /// The bytes from `offset` on, `length` of them. The caller has cut both to what can be
    /// reached.
    pub(crate) fn cut(&self, offset: u64, length: u64) -> Pieces {
        let mut pieces = Pieces::None;
        if length == 0 {
            return pieces;
        }
        match self {
            Region::Flat(piece) => {
                debug_assert!(
                    offset
                        .checked_add(length)
                        .is_some_and(|end| end <= self.length())
                );
                pieces.push(Piece {
                    address: piece.address + offset,
                    length,
                });
            }
            Region::Iovec(all) => {
                let (mut skip, mut left) = (offset, length);
                for piece in all {
                    if skip >= piece.length {
                        skip -= piece.length;
                        continue;
                    }
                    let taken = (piece.length - skip).min(left);
                    pieces.push(Piece {
                        address: piece.address + skip,
                        length: taken,
                    });
                    (skip, left) = (0, left - taken);
                    if left == 0 {
                        break;
                    }
                }
                debug_assert_eq!(left, 0);
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_whole_address_space_is_a_region() {
        let all = Region::flat(0, u64::MAX);
        assert_eq!(
            all.cut(0x1000, 8),
            Pieces::One(Piece {
                address: 0x1000,
                length: 8
            })
        );
        let upper = Region::flat(0x1000, u64::MAX);
        assert_eq!(upper.length(), u64::MAX - 0x1000);
        assert_eq!(upper.address(u64::MAX), u64::MAX);
    }

    #[test]
    fn pieces_past_the_last_address_are_not_bound() {
        assert!(
            !Region::Iovec(vec![Piece {
                address: u64::MAX,
                length: 2
            }])
            .is_valid(8)
        );
        assert!(
            !Region::Iovec(vec![
                Piece {
                    address: 0,
                    length: u64::MAX
                };
                2
            ])
            .is_valid(8)
        );
        assert!(
            !Region::Iovec(vec![
                Piece {
                    address: 0,
                    length: 1
                };
                9
            ])
            .is_valid(8)
        );
    }

    proptest! {
        /// Cutting a list of pieces gives the addresses that walking it byte by byte gives.
        #[test]
        fn a_cut_is_what_a_walk_finds(lengths in proptest::collection::vec(0u64..6, 0..6), offset in 0u64..30, length in 0u64..30) {
            let pieces: Vec<Piece> =
                lengths.iter().enumerate().map(|(n, &length)| Piece { address: 1000 * (n as u64 + 1), length }).collect();
            let bytes = |pieces: &[Piece]| -> Vec<u64> { pieces.iter().flat_map(|p| p.address..p.address + p.length).collect() };
            let all = bytes(&pieces);
            let region = Region::Iovec(pieces);
            prop_assert_eq!(region.length(), all.len() as u64);
            let offset = offset.min(region.length());
            let length = length.min(region.length() - offset);
            let cut = region.cut(offset, length);
            prop_assert_eq!(bytes(cut.as_slice()), all[offset as usize..(offset + length) as usize].to_vec());
            prop_assert!(cut.as_slice().iter().all(|piece| piece.length > 0));
            if let Some(&address) = all.get(offset as usize) {
                prop_assert_eq!(region.address(offset), address);
            }
        }
    }
}
