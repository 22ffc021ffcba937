//! A list of lost packets, from a responder to the requester whose packets they were.
//!
//! RC reports one gap at a time: a NAK acknowledges everything before it (IBA 9.7.5.2.8), so each further gap costs another round
//! trip. Between two ends that both keep what comes after a gap, this packet names the others. It is one of the manufacturer's
//! opcodes, which IBA 9.2 leaves to each maker and which every other receiver drops as of no service that it has; its BTH's
//! PSN is the one that is expected. It acknowledges nothing and changes nothing: whoever believes it sends some packets twice.

use crate::Psn;

/// What the payload begins with: the maker and the version.
const MAGIC: [u8; 4] = *b"FBG1";
/// Bytes before the holes: the magic, how far the farthest packet that came lies beyond the BTH's PSN, big-endian, and two of zero.
const HEAD: usize = 8;
/// Bytes of one hole: how far its first PSN lies beyond the BTH's, and how many there are, both big-endian.
const HOLE: usize = 4;

/// Packets in a row that have not arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hole {
    /// The first one's PSN, relative to the one that is expected.
    pub ahead: u16,
    /// How many, at least 1.
    pub count: u16,
}

/// What came beyond the expected packet, and which did not; the holes in ascending order, in the bytes that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GapReport<'a> {
    /// How far the farthest packet that came lies beyond the one that is expected, at least 1.
    pub reach: u16,
    holes: &'a [u8],
}

impl<'a> GapReport<'a> {
    /// Holes of one report, at the most.
    pub const MOST_HOLES: usize = 32;
    /// Bytes of the longest payload.
    pub const MOST_BYTES: usize = HEAD + Self::MOST_HOLES * HOLE;

    /// Reads the payload of a [`Opcode::GapReport`](crate::Opcode::GapReport); None if it is another maker's, or its holes overlap, are
    /// out of order or too many.
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let (&[high, low, 0, 0], holes) = payload.strip_prefix(&MAGIC)?.split_first_chunk()? else {
            return None;
        };
        let reach = u16::from_be_bytes([high, low]);
        let fits = holes.len().is_multiple_of(HOLE) && payload.len() <= Self::MOST_BYTES;
        let report = GapReport { reach, holes };
        let mut beyond = 1;
        let ascending = report.holes().all(|hole| {
            let fits = hole.count > 0 && u32::from(hole.ahead) >= beyond;
            beyond = u32::from(hole.ahead) + u32::from(hole.count);
            fits
        });
        // What came last came behind the last hole.
        (fits && ascending && u32::from(reach) >= beyond).then_some(report)
    }

    /// The holes.
    pub fn holes(&self) -> impl Iterator<Item = Hole> + use<'a> {
        self.holes.chunks_exact(HOLE).map(|bytes| Hole {
            ahead: u16::from_be_bytes([bytes[0], bytes[1]]),
            count: u16::from_be_bytes([bytes[2], bytes[3]]),
        })
    }

    /// Bytes of a payload with so many holes.
    pub const fn len_of(holes: usize) -> usize {
        HEAD + holes * HOLE
    }

    /// Writes a payload to `out`, which holds [`Self::len_of`] the number of `holes`.
    pub fn write(reach: u16, holes: impl Iterator<Item = Hole>, out: &mut [u8]) {
        let (head, places) = out.split_at_mut(HEAD);
        head[..4].copy_from_slice(&MAGIC);
        head[4..6].copy_from_slice(&reach.to_be_bytes());
        head[6..].fill(0);
        for (hole, place) in holes.zip(places.chunks_exact_mut(HOLE)) {
            place[..2].copy_from_slice(&hole.ahead.to_be_bytes());
            place[2..].copy_from_slice(&hole.count.to_be_bytes());
        }
    }
}

impl Hole {
    /// The PSNs of the hole, if `expected` is the one that the report expects.
    pub fn psns(self, expected: Psn) -> impl Iterator<Item = Psn> {
        (0..u32::from(self.count)).map(move |i| expected.add(u32::from(self.ahead) + i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hole(ahead: u16, count: u16) -> Hole {
        Hole { ahead, count }
    }

    #[test]
    fn what_is_written_is_read() {
        let holes = [hole(1, 2), hole(3, 1), hole(900, 124)];
        let mut bytes = [0; GapReport::len_of(3)];
        GapReport::write(1024, holes.into_iter(), &mut bytes);
        let report = GapReport::parse(&bytes).expect("a report");
        assert_eq!(report.reach, 1024);
        assert!(report.holes().eq(holes));
        let psns: Vec<_> = holes[0].psns(Psn::new(0xff_ffff)).collect();
        assert_eq!(psns, [Psn::new(0), Psn::new(1)]);
    }

    #[test]
    fn lies_are_told_by_their_form() {
        let reaching = |reach: u16, holes: &[Hole]| {
            let mut bytes = vec![0; GapReport::len_of(holes.len())];
            GapReport::write(reach, holes.iter().copied(), &mut bytes);
            bytes
        };
        let written = |holes: &[Hole]| reaching(1024, holes);
        let refused = |bytes: &[u8]| assert_eq!(GapReport::parse(bytes), None, "{bytes:?}");
        refused(&[]);
        refused(b"FBG1");
        refused(b"FBG2\0\x01\0\0");
        refused(b"FBG1\0\x01\0\x01");
        refused(b"FBG1\0\x01\0\0\0\x01\0");
        assert!(GapReport::parse(&reaching(1, &[])).is_some());
        refused(&reaching(0, &[]));
        refused(&reaching(2, &[hole(1, 2)]));
        refused(&written(&[hole(0, 1)]));
        refused(&written(&[hole(1, 0)]));
        refused(&written(&[hole(2, 2), hole(3, 1)]));
        let most: Vec<_> = (0..33).map(|i| hole(2 * i + 1, 1)).collect();
        assert!(GapReport::parse(&written(&most[..32])).is_some());
        refused(&written(&most));
    }
}
