//! What lies where in the segment that the ranks of a host share: one memfd for each job, made by the launcher.
//!
//! | who writes | what |
//! |---|---|
//! | the launcher, before any rank runs | the header |
//! | rank r | its own area, but for the inbound bits, and the asleep word from 1 to 2, which others do |
//! | sender s of the message that r copies jointly | chunks out of r's JOINT, and r's JOINT_DONE |
//! | sender s | the line and block (r, s), the inbound bit of s in r's area |
//! | receiver r | the return word of line (r, s), and the trailers of block (r, s) that it zeroes |
//!
//! Each pair of ranks has a place for its block; memory comes when the sender allocates it at its first message. What is read here is hostile as
//! what comes from a network is: a rank compares it with what it knows.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Environment of a rank: descriptor of the segment, or [`SYSTEM_V`] and the number of one of System V.
pub const HOST_FD: &str = "FERRIBAND_MPI_HOST_FD";
/// Before the number of a System V segment: what is used where files may not be long (`ulimit -f`), because a memfd is a file.
pub const SYSTEM_V: &str = "shm:";
/// Environment of a rank: descriptors of the eventfds of all ranks of the host, in order, joined by commas.
pub const BELLS: &str = "FERRIBAND_MPI_BELLS";
/// Environment of a rank: its place among the ranks of the host.
pub const LOCAL_RANK: &str = "FERRIBAND_MPI_LOCAL_RANK";

/// Environment of a rank: 1 if there are more ranks than cores.
pub const CROWDED: &str = "FERRIBAND_MPI_CROWDED";

/// Environment of a rank: which of the job's programs it runs.
pub const PROGRAM: &str = "FERRIBAND_MPI_PROGRAM";

/// Environment of a rank: which descriptor PMI_FD was when `mpirun` set it, a space, and the
/// kernel's name of that socket. A process with another one in PMI_FD is a rank of another
/// launcher.
pub const PMI: &str = "FERRIBAND_MPI_PMI";

/// What makes a process a rank of another launcher, or tells such a rank more. `mpirun` takes it
/// out of its ranks' environment, and sets PMI_FD anew: a rank that has another one, or any of the
/// others, was started by a launcher within the job.
pub const OTHER_LAUNCHERS: &[&str] = &[
    "PMI_FD",
    "PMI_PORT",
    "PMI_ID",
    "PMI_JOBID",
    "PMI_SPAWNED",
    "PMIX_NAMESPACE",
];

/// The segment's name as a memfd.
pub const MEMFD: &str = "ferriband-mpi";

/// What a launcher sets, and no user.
pub const LAUNCHERS: &[&str] = &[HOST_FD, BELLS, LOCAL_RANK, CROWDED, PROGRAM, PMI];

/// Bytes of the place for a channel's block, where so many ranks share the segment. A line that its reader's cache still holds costs its next writer more than one that was read
/// long ago, so a block is as large as is affordable: all blocks of a rank take 1 MiB at the most, and have memory as far as they were ever filled.
pub fn slot(ranks: u32) -> u32 {
    match ranks {
        0..=2 => 1 << 20,
        3..=4 => 256 << 10,
        5..=8 => 128 << 10,
        _ => 32 << 10,
    }
}
/// More ranks than this cannot share a segment.
pub const MAX_RANKS: u32 = 512;

/// Marks the segment.
const MAGIC: u64 = 0x3150_4d49_5252_4546;
const VERSION: u32 = 13;
/// Bytes of the header.
const HEADER: u64 = 4096;
/// Bytes of a rank's area.
const AREA: u64 = 1024;
/// Bytes of a channel's line.
const LINE: u64 = 64;

/// Offsets in a rank's area. The first line is what senders look at after each message; nothing that changes often lies there.
pub mod area {
    /// u32: 0 awake, 1 asleep, 2 asleep and rung.
    pub const ASLEEP: u64 = 0;
    /// u32: id of the process that is the rank, which the first to come writes; 0 until then.
    pub const PID: u64 = 64;
    /// u32: one of [`super::Life`].
    pub const LIFE: u64 = 68;
    /// u32: 1 if the death of a rank shall end this one: an error of MPI_COMM_WORLD is fatal here.
    pub const FATAL: u64 = 72;
    /// u32: the code of MPI_Abort.
    pub const ABORT_CODE: u64 = 76;
    /// u32, written by the launcher: ranks with the same number are on one host. Under another's launcher each rank writes its own, and those of ranks
    /// that do not share this segment are written by the one that made it.
    pub const HOST: u64 = 80;
    /// u32, under another's launcher: cores that the rank may run on.
    pub const CORES: u64 = 84;
    /// u64, likewise: a number that is the same for ranks that may run on the same cores.
    pub const CORES_ALIKE: u64 = 88;
    /// u32, written by the launcher: ranks that have died while this one goes on.
    pub const LOSSES: u64 = 96;
    /// u32: 1 while the rank's program waits in MPI, so that it sends what it is asked for at once. A hint.
    pub const WAITS: u64 = 100;
    /// u32: id of the process that the launcher has started as this rank. It may start another one that becomes the rank.
    pub const STARTED: u64 = 104;
    /// 8 words of u64, a bit for each rank that has opened a channel to this one.
    pub const INBOUND: u64 = 128;
    /// u32: 1 if the rank's card lies at [`CARD`].
    pub const HAS_CARD: u64 = 192;
    /// u64, [`crate::joint::Left`]: the message that this rank copies, and its sender with it. Opened by this rank, which also writes the words up to JOINT_LENGTH; the sender takes
    /// chunks out of it.
    pub const JOINT: u64 = 256;
    /// u32: the message's sender.
    pub const JOINT_FROM: u64 = 264;
    /// u32: bytes of a chunk.
    pub const JOINT_CHUNK: u64 = 268;
    /// u64: the sender's name for the message.
    pub const JOINT_REQUEST: u64 = 272;
    /// u64: where it goes in this rank's memory.
    pub const JOINT_ADDRESS: u64 = 280;
    /// u64: its bytes.
    pub const JOINT_LENGTH: u64 = 288;
    /// u64, [`crate::joint::Done`], written by that sender.
    pub const JOINT_DONE: u64 = 320;
    /// A [`ferriband_heal::card::Card`]. It changes when an adapter is opened anew, or a port has
    /// another address: it is read between two equal even serials ([`CARD_SERIAL`]).
    pub const CARD: u64 = 336;
    /// u32 in the card: its serial, odd while the card is written.
    pub const CARD_SERIAL: u64 = CARD + 8;
    /// Words of u64, a [`crate::heals::RankReport`]: what the rank has moved, as it says at its
    /// end.
    pub const REPORT: u64 = 512;
    /// A [`ferriband_heal::inquiry::CardPort`] of a rank that does not share this segment, written
    /// with its card by the rank that made the segment; zeros if there is none.
    pub const CARD_PORT: u64 = 704;
}

/// Offsets in a channel's line.
pub mod line {
    /// u32: 1 if the sender has opened the channel.
    pub const STATE: u64 = 0;
    /// u32: bytes of the block.
    pub const SIZE: u64 = 4;
    /// u32: bytes of a granule.
    pub const GRANULE: u64 = 8;
    /// u32: 1 if the sender waits for credit.
    pub const STARVED: u64 = 16;
    /// u64: granules consumed, and in the upper half the highest number received in order.
    pub const RETURN: u64 = 24;
}

/// Bytes of a place by which a pair of ranks exchanges messages; each pair has two where ranks are no more than [`PLACING`].
pub const PLACE: u32 = 65536;
/// See [`PLACE`].
pub const PLACING: u32 = 16;

/// Communicators with more ranks than this do collectives by messages.
pub const MAX_SHARING: u32 = 128;
/// Bytes of one of the parts of a rank's slot for collectives, which are used in turn.
pub const HALF: u32 = 16384;

/// The memory of a communicator's collectives: a line for all, a line of words for each of its ranks, their slots. Each rank has some such parts, which it gives away as
/// rank 0 of communicators.
pub mod group {
    use super::{HALF, LINE};

    /// Parts that each rank gives away.
    pub const PARTS: u32 = 4;
    /// Words of 32 bits of a line.
    pub const WORDS: u32 = 12;
    /// In a line: two words of 64 bits, a bit for each rank that may sleep until a word of the line changes.
    pub const SLEEPERS: u64 = 48;
    /// Word of a rank's line: the last collective that it has passed. The words before it are set
    /// in the rounds of a barrier.
    pub const PASSED: u32 = 8;
    /// Word of a rank's line: 1 while it waits for its turn on a core, because it has given that away.
    pub const AWAY: u32 = 9;
    /// Word of a rank's line: the core that it was on when it last looked, and one; 0 if it has not.
    pub const CORE: u32 = 10;
    /// Word of the line for all: ranks that have come to a barrier that is counted.
    pub const ARRIVED: u32 = 0;
    /// Word of the line for all: barriers that were counted.
    pub const TURNS: u32 = 1;
    /// Word of the line for all: ranks that need the part no more.
    pub const LEFT: u32 = 2;

    /// Where the line of the rank at `rank` begins in its part; that for all lies at 0.
    pub fn line(rank: u32) -> u64 {
        (1 + u64::from(rank)) * LINE
    }

    /// Cells of a rank, which it uses in turn: a line each, for what is so short that it lies beside the number which says that it is there. So many, because a root that is always the
    /// same runs ahead by so many broadcasts; where cores are short, that spares it turns.
    pub const CELLS: u32 = 32;
    /// Where what is told begins in a cell; word 0 is the number.
    pub const CELL_BODY: u64 = 8;
    /// Bytes that can be told by a cell: up to its sleepers.
    pub const CELL_BYTES: usize = (SLEEPERS - CELL_BODY) as usize;

    /// Where a cell of the rank at `rank` begins, of `ranks` ranks.
    pub fn cell(ranks: u32, rank: u32, index: u32) -> u64 {
        line(ranks) + (u64::from(rank) * u64::from(CELLS) + u64::from(index)) * LINE
    }

    /// Parts of a rank's slot for what is short: few, because it is found sooner where the lines are near.
    pub const NEAR: u32 = 2;

    /// Parts of a rank's slot for what is long that are used in turn where each rank has a core, if `ranks` ranks share the segment: a power of two. Many where ranks are few, for the same reason
    /// as blocks are large there; they are to be more than the caches of a core hold.
    pub fn ring(ranks: u32) -> u32 {
        match super::slot(ranks) {
            slot if slot > 2 * HALF => 4 * slot / HALF,
            _ => 2,
        }
    }

    /// Parts behind those for what is long, by which pairs of ranks exchange, where ranks are no more than [`EXCHANGING`].
    pub const EXCHANGE: u32 = 64;
    /// Of so many ranks each pair has two places for a block of 64 KiB.
    pub const EXCHANGING: u32 = 16;

    /// All parts for what is long: more than are used in turn. Memory is behind those that were used.
    pub fn far(ranks: u32) -> u32 {
        match ranks {
            ..=EXCHANGING => ring(ranks).max(8) + EXCHANGE,
            17..=32 => 8,
            _ => 2,
        }
    }

    /// Where a part of its slot begins, of `ranks` ranks with `far` such parts for what is long: first those for what is short.
    pub fn slot(ranks: u32, far: u32, rank: u32, part: u32) -> u64 {
        let lines = cell(ranks, ranks, 0).next_multiple_of(4096);
        lines + (u64::from(rank) * u64::from(NEAR + far) + u64::from(part)) * u64::from(HALF)
    }
}

/// Where in its life a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Life {
    /// It has not called MPI_Init.
    Unborn = 0,
    /// Between MPI_Init and MPI_Finalize.
    Alive = 1,
    /// After MPI_Finalize.
    Finalized = 2,
    /// It has called MPI_Abort, or an error was fatal.
    Aborted = 3,
    /// It has died, as the launcher says, and the others go on.
    Dead = 4,
}

impl Life {
    /// What a word of the segment says.
    pub fn of(word: u32) -> Self {
        match word {
            1 => Self::Alive,
            2 => Self::Finalized,
            3 => Self::Aborted,
            4 => Self::Dead,
            _ => Self::Unborn,
        }
    }
}

/// The segment's measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    ranks: u32,
    slot: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: U64,
    version: U32,
    ranks: U32,
    slot: U32,
    zero: U32,
    job: U64,
}

/// Bytes of the header that are used.
pub const HEADER_BYTES: usize = size_of::<Header>();

impl Layout {
    /// For `ranks` ranks, each pair with a place of `slot` bytes, a multiple of the page; none if that is too much.
    pub fn new(ranks: u32, slot: u32) -> Option<Self> {
        let fits = (1..=MAX_RANKS).contains(&ranks)
            && slot.is_multiple_of(4096)
            && crate::fast::BLOCKS.contains(&slot);
        fits.then_some(Self { ranks, slot })
    }

    /// The header that the launcher writes.
    pub fn header(self, job: u64) -> [u8; HEADER_BYTES] {
        zerocopy::transmute!(Header {
            magic: U64::new(MAGIC),
            version: U32::new(VERSION),
            ranks: U32::new(self.ranks),
            slot: U32::new(self.slot),
            zero: U32::ZERO,
            job: U64::new(job),
        })
    }

    /// Layout and job that a header tells; none if it is no header of ours.
    pub fn parse(bytes: [u8; HEADER_BYTES]) -> Option<(Self, u64)> {
        let header: Header = zerocopy::transmute!(bytes);
        if header.magic.get() != MAGIC || header.version.get() != VERSION {
            return None;
        }
        let layout = Self::new(header.ranks.get(), header.slot.get())?;
        Some((layout, header.job.get()))
    }

    /// Ranks of the host.
    pub fn ranks(self) -> u32 {
        self.ranks
    }

    /// Bytes of the place for a block.
    pub fn slot(self) -> u32 {
        self.slot
    }

    /// Bytes of the whole segment.
    pub fn total(self) -> u64 {
        let all = u64::from(self.ranks) * u64::from(group::PARTS);
        let parts = if self.ranks <= MAX_SHARING { all } else { 0 };
        self.groups() + parts * self.group_bytes() + self.places()
    }

    fn places(self) -> u64 {
        match self.ranks {
            2..=PLACING => self.pairs() * u64::from(PLACE),
            _ => 0,
        }
    }

    /// Where the place begins that `first` is the first to write to for `other`; none if pairs have no places.
    pub fn place(self, first: u32, other: u32) -> Option<u64> {
        let is_one = self.places() != 0 && first < self.ranks && other < self.ranks;
        is_one.then(|| self.total() - self.places() + self.pair(other, first) * u64::from(PLACE))
    }

    /// Where the part with number `index` begins of those that `leader` gives away, at a page; none if there is no such part.
    pub fn group(self, leader: u32, index: u32) -> Option<u64> {
        let is_one = self.ranks <= MAX_SHARING && leader < self.ranks && index < group::PARTS;
        let before = u64::from(leader) * u64::from(group::PARTS) + u64::from(index);
        is_one.then(|| self.groups() + before * self.group_bytes())
    }

    fn groups(self) -> u64 {
        self.blocks() + self.pairs() * u64::from(self.slot)
    }

    /// Bytes of a part: it has room for all ranks of the host.
    fn group_bytes(self) -> u64 {
        group::slot(self.ranks, group::far(self.ranks), self.ranks, 0)
    }

    /// Where a rank's area begins.
    pub fn area(self, rank: u32) -> u64 {
        debug_assert!(rank < self.ranks);
        HEADER + u64::from(rank) * AREA
    }

    /// Where the line of the channel from `sender` to `receiver` begins.
    pub fn line(self, receiver: u32, sender: u32) -> u64 {
        HEADER + u64::from(self.ranks) * AREA + self.pair(receiver, sender) * LINE
    }

    /// Where its block begins, at a page.
    pub fn block(self, receiver: u32, sender: u32) -> u64 {
        self.blocks() + self.pair(receiver, sender) * u64::from(self.slot)
    }

    fn blocks(self) -> u64 {
        (HEADER + u64::from(self.ranks) * AREA + self.pairs() * LINE).next_multiple_of(4096)
    }

    fn pairs(self) -> u64 {
        u64::from(self.ranks) * u64::from(self.ranks)
    }

    fn pair(self, receiver: u32, sender: u32) -> u64 {
        debug_assert!(receiver < self.ranks && sender < self.ranks);
        u64::from(receiver) * u64::from(self.ranks) + u64::from(sender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fast::Shape;

    #[test]
    fn nothing_overlaps() {
        for ranks in [1, 2, 3, 8, 65] {
            let layout = Layout::new(ranks, 32768).expect("a layout");
            let mut places = vec![(0, HEADER)];
            for r in 0..ranks {
                places.push((layout.area(r), AREA));
                for s in 0..ranks {
                    if let Some(place) = layout.place(r, s) {
                        places.push((place, PLACE.into()));
                    }
                    places.push((layout.line(r, s), LINE));
                    places.push((layout.block(r, s), 32768));
                }
            }
            for leader in 0..ranks {
                for index in 0..group::PARTS {
                    let part = layout.group(leader, index).expect("a part");
                    places.push((part, 64));
                    for rank in 0..ranks {
                        places.push((part + group::line(rank), 64));
                        for index in 0..group::CELLS {
                            places.push((part + group::cell(ranks, rank, index), 64));
                        }
                        let far = group::far(ranks);
                        for index in 0..group::NEAR + far {
                            let slot = group::slot(ranks, far, rank, index);
                            places.push((part + slot, HALF.into()));
                        }
                    }
                }
            }
            assert_eq!(layout.group(ranks, 0), None);
            assert_eq!(layout.place(0, ranks), None);
            assert_eq!(layout.place(0, 0).is_some(), (2..=PLACING).contains(&ranks));
            assert_eq!(layout.group(0, group::PARTS), None);
            places.sort_unstable();
            assert!(places.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
            let last = places.last().expect("some");
            assert_eq!(last.0 + last.1, layout.total());
        }
        assert!(area::INBOUND + u64::from(MAX_RANKS / 8) <= area::HAS_CARD);
        const {
            assert!(area::HAS_CARD + 4 <= area::JOINT && area::JOINT_DONE + 8 <= area::CARD);
            assert!(area::CARD + ferriband_heal::card::CARD as u64 <= area::REPORT);
            assert!(area::REPORT + 8 * crate::heals::REPORT_WORDS as u64 <= area::CARD_PORT);
            assert!(area::CARD_PORT + ferriband_heal::inquiry::CARD_PORT as u64 <= AREA);
        }
    }

    #[test]
    fn blocks_are_large_where_ranks_are_few() {
        for ranks in 1..=MAX_RANKS {
            let slot = slot(ranks);
            assert!(Layout::new(ranks, slot).is_some(), "{ranks} ranks");
            assert!(slot >= Shape::DEFAULT.size());
            let all = slot * (ranks - 1).max(1);
            assert!(all <= 1 << 20 || slot == Shape::DEFAULT.size(), "{ranks}");
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let layout = Layout::new(7, 32768).expect("a layout");
        assert_eq!(Layout::parse(layout.header(42)), Some((layout, 42)));
        let mut bytes = layout.header(42);
        bytes[12] = 0;
        assert_eq!(Layout::parse(bytes), None, "no ranks");
        assert_eq!(Layout::parse([0; HEADER_BYTES]), None);
        assert!(Layout::new(MAX_RANKS + 1, 32768).is_none() && Layout::new(2, 5000).is_none());
    }
}
