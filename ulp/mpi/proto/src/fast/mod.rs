//! The RDMA fast path: a sender writes records into a block of the receiver's memory, the receiver polls for them.
//!
//! The machines know addresses within a block and nothing of the memory behind: a [`Carrier`] writes (stores into a mapped block, or one
//! RDMA WRITE), a [`Block`] is read. All that is asked of them is that the **last byte** of a write becomes visible after all others, and that
//! writes of one sender become visible in order.

mod any;
mod fixed_bottom;
mod fixed_top;
mod pause;
mod variable_top;
mod veloblock;

pub use any::{AnyReceiver, AnySender};
pub use pause::{Gate, Lull};
pub use veloblock::{Far, Layout, Near, Place, Receiver, Sender};

use crate::envelope::ENVELOPE;

/// The smallest and largest block, in bytes.
pub const BLOCKS: std::ops::RangeInclusive<u32> = 4096..=1 << 20;
/// The smallest and largest granule, in bytes.
pub const GRANULES: std::ops::RangeInclusive<u32> = 16..=256;
/// No message that is longer takes the fast path by verbs, whatever the block's size.
const LONGEST: u32 = 8192 - 64;

/// Of a block that ranks of a host share, a record takes this part at the most where that is more.
const PART: u32 = 16;

/// Bytes at the end of such a block, if it is larger than [`SMALL`], beyond which it does not go while its receiver answers each message: both directions of them lie in the
/// nearest caches of both cores, where a line that changes hands takes the shortest time.
const NEAR: u32 = 8 << 10;
/// In blocks that are no larger, what goes back to the end early would take most of the credit.
const SMALL: u32 = 32 << 10;

/// Size of a block and of its granules: every record is a multiple of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    size: u32,
    granule: u32,
    longest: u32,
    /// Bytes at the block's end that are enough for who is answered each time.
    near: u32,
}

impl Shape {
    /// The shape of 32 KiB in granules of 64 bytes.
    pub const DEFAULT: Self = Self {
        size: 32768,
        granule: 64,
        longest: usual_longest(32768),
        near: 32768,
    };

    /// A shape if such a block may be: powers of two within [`BLOCKS`] and [`GRANULES`].
    pub fn new(size: u32, granule: u32) -> Option<Self> {
        let fits = BLOCKS.contains(&size)
            && GRANULES.contains(&granule)
            && size.is_power_of_two()
            && granule.is_power_of_two();
        fits.then_some(Self {
            size,
            granule,
            longest: usual_longest(size),
            near: size,
        })
    }

    /// The same of a block in memory that both sides map: there a record needs no staging buffer, and may be longer.
    pub fn mapped(size: u32, granule: u32) -> Option<Self> {
        let shape = Self::new(size, granule)?;
        Some(Self {
            longest: shape.longest.max(size / PART),
            near: if size > SMALL { NEAR } else { size },
            ..shape
        })
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
        self.longest
    }
}

/// Bytes of the longest body of a record in a block of so many bytes: so much that four find room.
const fn usual_longest(size: u32) -> u32 {
    let quarter = size / 4 - 64;
    if quarter < LONGEST { quarter } else { LONGEST }
}

/// How a block is filled (Koop et al., section 5.3). The number is what OPEN says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Design {
    /// Slots of 8 KiB, filled from their beginning: a flag before the record and one after it, which differs from what lay there; so the sender keeps
    /// a mirror of the block.
    FixedTop = 1,
    /// Slots of 8 KiB, filled from their end: a trailer that the receiver zeroes.
    FixedBottom = 2,
    /// Records of any length from the block's beginning: each says what lies where the next one's flag will come. The sender keeps a mirror.
    VariableTop = 3,
    /// Records of any length from the block's end (Veloblock).
    VariableBottom = 4,
}

impl Design {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::FixedTop,
        Self::FixedBottom,
        Self::VariableTop,
        Self::VariableBottom,
    ];

    /// The design with this number.
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as u32 == number)
    }

    /// Its name among the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::FixedTop => "fixed-top",
            Self::FixedBottom => "fixed-bottom",
            Self::VariableTop => "variable-top",
            Self::VariableBottom => "variable-bottom",
        }
    }

    /// Whether all records take a slot of the same size.
    pub fn is_fixed(self) -> bool {
        matches!(self, Self::FixedTop | Self::FixedBottom)
    }

    /// Whether the sender keeps a copy of the block.
    pub fn is_mirrored(self) -> bool {
        matches!(self, Self::FixedTop | Self::VariableTop)
    }
}

/// Bytes of a slot of the fixed designs.
pub const SLOT: u32 = 8192;

/// A design and the size of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    design: Design,
    size: u32,
    granule: u32,
}

impl Plan {
    /// The default: Veloblock in 32 KiB.
    pub const DEFAULT: Self = Self {
        design: Design::VariableBottom,
        size: Shape::DEFAULT.size,
        granule: Shape::DEFAULT.granule,
    };

    /// A plan if such a block may be. Fixed designs have two slots at least, and their granule is the slot.
    pub fn new(design: Design, size: u32, granule: u32) -> Option<Self> {
        let fits = if design.is_fixed() {
            let sizes = 2 * SLOT..=*BLOCKS.end();
            sizes.contains(&size) && size.is_power_of_two() && granule == SLOT
        } else {
            Shape::new(size, granule).is_some()
        };
        fits.then_some(Self {
            design,
            size,
            granule,
        })
    }

    /// A plan with the usual granule.
    pub fn of(design: Design, size: u32) -> Option<Self> {
        let granule = if design.is_fixed() {
            SLOT
        } else {
            Shape::DEFAULT.granule
        };
        Self::new(design, size, granule)
    }

    /// What is used unless something else is set: 32 slots, as the paper's *Original* has them, or 32 KiB.
    pub fn usual(design: Design) -> Self {
        let size = if design.is_fixed() {
            32 * SLOT
        } else {
            Shape::DEFAULT.size
        };
        Self::of(design, size).unwrap_or(Self::DEFAULT)
    }

    /// What a block that grows begins with, and the largest one that it becomes.
    pub fn growth(design: Design) -> (Self, Self) {
        let sizes = if design.is_fixed() {
            [2 * SLOT, 32 * SLOT]
        } else {
            [8 << 10, 128 << 10]
        };
        let [first, last] = sizes.map(|size| Self::of(design, size).unwrap_or(Self::DEFAULT));
        (first, last)
    }

    /// Bytes of the smallest block.
    pub fn least(design: Design) -> u32 {
        if design.is_fixed() {
            2 * SLOT
        } else {
            *BLOCKS.start()
        }
    }

    /// How the block is filled.
    pub fn design(self) -> Design {
        self.design
    }

    /// Bytes of the block.
    pub fn size(self) -> u32 {
        self.size
    }

    /// Bytes of a granule, in which credit is counted.
    pub fn granule(self) -> u32 {
        self.granule
    }

    /// Bytes of the sender's copy of the block.
    pub fn mirror(self) -> u32 {
        if self.design.is_mirrored() {
            self.size
        } else {
            0
        }
    }

    /// Bytes of the longest body that a record may have.
    pub fn longest(self) -> u32 {
        if self.design.is_fixed() {
            LONGEST
        } else {
            self.shape().longest()
        }
    }

    fn shape(self) -> Shape {
        Shape {
            size: self.size,
            granule: self.granule,
            longest: usual_longest(self.size),
            near: self.size,
        }
    }
}

/// One write: `floor` (8 bytes), `pad` bytes of no meaning, `head`, a payload, and the trailer, ascending from `at`; the last byte of the trailer last. In memory that both
/// sides map ([`Near`]) the parts lie as that layout says.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Address of the floor.
    pub at: u32,
    /// Behind the last byte of the trailer.
    pub end: u32,
    /// The word below the record, where the next trailer will lie: zero, or at once the mark that says where the block goes on.
    pub floor: u64,
    /// Bytes between that and the head; what they hold does not matter.
    pub pad: u32,
    /// Envelope and the body's part that is not the program's.
    pub head: &'a [u8],
    /// Bytes of the payload.
    pub length: u32,
    /// The word at the end.
    pub trailer: u64,
    /// Bytes that a next record like this one may take without more credit: a carrier may get hold of that memory before it is needed.
    pub ahead: u32,
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

/// One write of any design, ascending from `at`: `front`, `skip` bytes of no meaning, `head`, the payload, `fill` bytes that stay what they were where
/// there is a mirror (and have no meaning elsewhere), `back`; the last byte last.
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    /// Address of the first byte.
    pub at: u32,
    /// The first bytes, 8 at most.
    pub front: &'a [u8],
    /// Bytes between those and the head.
    pub skip: u32,
    /// Envelope and the body's part that is not the program's.
    pub head: &'a [u8],
    /// Bytes of the payload.
    pub length: u32,
    /// Bytes after the payload.
    pub fill: u32,
    /// The last bytes, 8 at most.
    pub back: &'a [u8],
}

impl Put<'_> {
    /// Where the head begins, counted from `at`.
    pub fn head_at(&self) -> u32 {
        self.front.len() as u32 + self.skip
    }

    /// Where the payload begins, counted from `at`.
    pub fn payload_at(&self) -> u32 {
        self.head_at() + self.head.len() as u32
    }

    /// Where the last bytes begin, counted from `at`.
    pub fn back_at(&self) -> u32 {
        self.payload_at() + self.length + self.fill
    }

    /// Bytes of the whole write.
    pub fn whole(&self) -> u32 {
        self.back_at() + self.back.len() as u32
    }

    /// Lays what has meaning into the bytes that are written; `payload` lays the payload.
    #[inline]
    pub fn lay(&self, bytes: &mut [u8], payload: impl FnOnce(&mut [u8])) {
        let mut place = |at: u32, with: &[u8]| {
            bytes[at as usize..at as usize + with.len()].copy_from_slice(with);
        };
        place(0, self.front);
        place(self.head_at(), self.head);
        place(self.back_at(), self.back);
        let at = self.payload_at() as usize;
        payload(&mut bytes[at..at + self.length as usize]);
    }
}

/// What brings bytes into the receiver's block, for any design.
pub trait Writer {
    /// Names the payload: memory of the program, which these machines do not look at.
    type Payload: Copy;
    /// Writes; if there is no room, nothing has changed, in the mirror neither.
    fn put(&mut self, put: &Put<'_>, payload: Option<Self::Payload>) -> Result<(), Busy>;
    /// The byte that was last written to `at`, or 0: a mirror of the block knows. Designs without a mirror do not ask.
    fn old(&self, at: u32) -> u8;
}

/// The word behind a record that is filled from its end: the body's length (bits 0..31), the low bits of the number (32..55) and, in its last byte in memory, a flag
/// that is never zero.
mod trailer {
    use super::{Block, Broken, ENVELOPE, Record};

    pub const FLAG: u64 = 0xff << 56;
    pub const RECORD: u64 = 0x80 << 56;
    /// The block goes on at its end.
    pub const WRAP: u64 = 0xc0 << 56;
    /// Its bytes.
    pub const WORD: u32 = 8;
    const SEQ: u32 = 0x00ff_ffff;

    /// Behind a record.
    #[inline(always)]
    pub fn of(seq: u32, length: u32) -> u64 {
        RECORD | u64::from(seq & SEQ) << 32 | u64::from(length)
    }

    /// The length of the record that `word` stands behind, if it is one that can be.
    #[inline(always)]
    pub fn length(word: u64, longest: u32) -> Result<u32, Broken> {
        let length = word as u32;
        if word & FLAG != RECORD || length > longest {
            return Err(Broken);
        }
        Ok(length)
    }

    /// The envelope before the body at `at`, behind which the trailer `word` stands; it fits in.
    #[inline(always)]
    pub fn envelope(word: u64, at: u32, block: &impl Block) -> Result<[u8; ENVELOPE], Broken> {
        let envelope = block.envelope(at - ENVELOPE as u32);
        let seq = u32::from_le_bytes([envelope[4], envelope[5], envelope[6], 0]);
        if (word >> 32) as u32 & SEQ != seq {
            return Err(Broken);
        }
        Ok(envelope)
    }

    /// The record whose trailer is `word`, at `at`; it fits in before it.
    #[inline(always)]
    pub fn record(word: u64, at: u32, block: &impl Block) -> Result<Record, Broken> {
        let length = word as u32;
        let at = at - length;
        Ok(Record {
            envelope: envelope(word, at, block)?,
            at,
            length,
        })
    }
}

/// The slots of a block, at either end: which is next.
#[derive(Clone, Copy, Debug)]
struct Slots {
    count: u32,
    next: u32,
}

impl Slots {
    fn new(plan: Plan) -> Self {
        Self {
            count: plan.size / SLOT,
            next: 0,
        }
    }

    /// Where the next one begins.
    fn start(self) -> u32 {
        self.next * SLOT
    }

    /// Where the next one ends.
    fn end(self) -> u32 {
        self.start() + SLOT
    }

    fn pass(&mut self) {
        self.next = (self.next + 1) % self.count;
    }
}

/// The sender's end of a block of slots.
#[derive(Clone, Debug)]
struct SlotSender {
    slots: Slots,
    account: Account,
}

impl SlotSender {
    fn new(plan: Plan) -> Self {
        Self {
            slots: Slots::new(plan),
            account: Account::default(),
        }
    }

    /// The next slot, if it is free.
    fn free(&self) -> Option<Slots> {
        (self.account.used() < self.slots.count).then_some(self.slots)
    }

    /// Writes a record into the next slot.
    fn put<W: Writer>(&mut self, put: &Put<'_>, payload: W::Payload, to: &mut W) -> Push {
        if to.put(put, Some(payload)).is_err() {
            return Push::Busy;
        }
        self.slots.pass();
        self.account.sent = self.account.sent.wrapping_add(1);
        Push::Stored
    }
}

/// What has been written and given back, in granules.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    sent: u32,
    consumed: u32,
}

impl Account {
    /// Granules that are not known to be consumed.
    fn used(self) -> u32 {
        self.sent.wrapping_sub(self.consumed)
    }

    /// Takes what the receiver says it has consumed in all, if that is more than was known and not more than was sent.
    fn credit(&mut self, consumed: u32) -> bool {
        let more = consumed.wrapping_sub(self.consumed);
        let is_news = more != 0 && more <= self.used();
        if is_news {
            self.consumed = consumed;
        }
        is_news
    }
}

/// What the receiver has consumed and told, in granules.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    consumed: u32,
    reported: u32,
}

impl Tally {
    fn add(&mut self, granules: u32) {
        self.consumed = self.consumed.wrapping_add(granules);
    }

    fn unreported(self) -> u32 {
        self.consumed.wrapping_sub(self.reported)
    }

    fn report(&mut self) -> u32 {
        self.reported = self.consumed;
        self.consumed
    }

    /// Whether a quarter of the block waits to be told of.
    fn is_due(self, plan: Plan) -> bool {
        self.unreported() >= (plan.size / plan.granule / 4).max(1)
    }
}

/// The receiver's block, which somebody else writes to.
pub trait Block {
    /// The byte at `at`, read as [`Block::word`] reads.
    #[inline]
    fn byte(&self, at: u32) -> u8 {
        (self.word(at & !7) >> (at % 8 * 8)) as u8
    }

    /// The aligned word at `at`; what was written before it is visible after it (acquire).
    fn word(&self, at: u32) -> u64;
    /// The envelope at `at`, read once.
    fn envelope(&self, at: u32) -> [u8; ENVELOPE];
    /// The three aligned words from `at` on, each read once.
    #[inline]
    fn words(&self, at: u32) -> [u64; 3] {
        [at, at + 8, at + 16].map(|at| self.word(at))
    }
    /// Stores 0 to the aligned word at `at`.
    fn clear(&mut self, at: u32);
    /// `length` bytes from `at` on will be read next.
    fn expect(&self, _at: u32, _length: u32) {}
}

/// Bytes of one process, for tests and the simulator: nothing comes into them while they are looked at.
impl Block for Vec<u8> {
    fn word(&self, at: u32) -> u64 {
        let at = at as usize;
        u64::from_le_bytes(self[at..at + 8].try_into().expect("eight bytes"))
    }

    fn envelope(&self, at: u32) -> [u8; ENVELOPE] {
        let at = at as usize;
        self[at..at + ENVELOPE].try_into().expect("28 bytes")
    }

    fn clear(&mut self, at: u32) {
        self[at as usize..at as usize + 8].fill(0);
    }
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
pub struct Record<H = [u8; ENVELOPE]> {
    /// Its envelope's bytes; in memory that both sides map its words.
    pub envelope: H,
    /// Where its body begins in the block.
    pub at: u32,
    /// Bytes of the body.
    pub length: u32,
}

/// What lies in the block is no record: the sender breaks the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;
