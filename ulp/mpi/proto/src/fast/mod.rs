//! The RDMA fast path: a sender writes records into a block of the receiver's memory, the receiver polls for them.
//!
//! The machines know addresses within a block and nothing of the memory behind: a [`Carrier`] writes (stores into a mapped block, or one
//! RDMA WRITE), a [`Block`] is read. All that is asked of them is that the **last byte** of a write becomes visible after all others, and that
//! writes of one sender become visible in order.

mod veloblock;

pub use veloblock::{Receiver, Sender};

use crate::envelope::ENVELOPE;

/// The smallest and largest block, in bytes.
pub const BLOCKS: std::ops::RangeInclusive<u32> = 4096..=1 << 20;
/// The smallest and largest granule, in bytes.
pub const GRANULES: std::ops::RangeInclusive<u32> = 16..=256;
/// No message that is longer takes the fast path, whatever the block's size.
const LONGEST: u32 = 8192 - 64;

/// Size of a block and of its granules: every record is a multiple of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    size: u32,
    granule: u32,
}

impl Shape {
    /// The shape of 32 KiB in granules of 64 bytes.
    pub const DEFAULT: Self = Self {
        size: 32768,
        granule: 64,
    };

    /// A shape if such a block may be: powers of two within [`BLOCKS`] and [`GRANULES`].
    pub fn new(size: u32, granule: u32) -> Option<Self> {
        let fits = BLOCKS.contains(&size)
            && GRANULES.contains(&granule)
            && size.is_power_of_two()
            && granule.is_power_of_two();
        fits.then_some(Self { size, granule })
    }

    /// Bytes of the block.
    pub fn size(self) -> u32 {
        self.size
    }

    /// Bytes of a granule.
    pub fn granule(self) -> u32 {
        self.granule
    }

    /// Granules of so many bytes, which are a multiple of them. A shift: a division is a tenth of what a short message may cost.
    #[inline]
    pub fn granules(self, bytes: u32) -> u32 {
        bytes >> self.granule.trailing_zeros()
    }

    /// Bytes of the longest body (what follows the envelope) that a record may have.
    #[inline]
    pub const fn longest(self) -> u32 {
        let quarter = self.size / 4 - 64;
        if quarter < LONGEST { quarter } else { LONGEST }
    }
}

/// One write: `zeros` (8 bytes), `pad` bytes of no meaning, `head`, a payload, and the trailer, ascending from `at`; the last byte of the trailer last.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Address of the eight zero bytes.
    pub at: u32,
    /// Bytes between those and the head; what they hold does not matter.
    pub pad: u32,
    /// Envelope and the body's part that is not the program's.
    pub head: &'a [u8],
    /// Bytes of the payload.
    pub length: u32,
    /// The word at the end.
    pub trailer: u64,
}

/// The carrier has no room just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// What brings bytes into the receiver's block.
pub trait Carrier {
    /// Names the payload: memory of the program, which these machines do not look at.
    type Payload: Copy;
    /// Writes a record.
    fn write(&mut self, write: &Write<'_>, payload: Self::Payload) -> Result<(), Busy>;
    /// Writes one word: the mark that says where the block goes on.
    fn mark(&mut self, at: u32, word: u64) -> Result<(), Busy>;
}

/// The receiver's block, which somebody else writes to.
pub trait Block {
    /// The aligned word at `at`; what was written before it is visible after it (acquire).
    fn word(&self, at: u32) -> u64;
    /// The envelope at `at`, read once.
    fn envelope(&self, at: u32) -> [u8; ENVELOPE];
    /// Stores 0 to the aligned word at `at`.
    fn clear(&mut self, at: u32);
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// It lies in the block.
    Stored,
    /// The block is full of what the receiver has not consumed.
    NoCredit,
    /// It is longer than [`Shape::longest`].
    TooLong,
    /// The carrier has no room.
    Busy,
}

/// A record that lies in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its envelope's bytes.
    pub envelope: [u8; ENVELOPE],
    /// Where its body begins in the block.
    pub at: u32,
    /// Bytes of the body.
    pub length: u32,
}

/// What lies in the block is no record: the sender breaks the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;
