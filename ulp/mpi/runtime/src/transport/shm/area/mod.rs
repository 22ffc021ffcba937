//! The memory by which ranks of one host do collectives together: for each rank a line of flags
//! that it alone sets, and a slot that it alone fills.
//!
//! Flags hold the number of the collective that they were set for, so none is ever taken back. A
//! slot has parts that are used in turn: one is filled again
//! when every rank has passed the collective that used it last. Who waits for a flag long enough to
//! sleep leaves its bit in the line of the flag, and who sets
//! a flag rings those; the order of the two is that of [`crate::transport::host::bell`]. What is
//! shorter than a line lies in a cell, beside the number that says so, and
//! needs no flag: one line goes from core to core, not two.

mod flags;
mod pairs;
mod parts;
mod spread;

pub use flags::Awaited;

use crate::ground::memory::{Sink, Source};
use crate::transport::host::Host;
use ferriband_mpi_proto::segment::group;
use flags::Line;
use pairs::{PAGE, Places};
use parts::parts;
use spread::Spread;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

/// Parts for what is long that ranks use who share cores: what all of them use stays in the cores'
/// caches.
const CROWDED_RING: u32 = 8;

/// A communicator's part of the segment.
#[derive(Debug)]
pub struct Area {
    base: NonNull<u8>,
    /// Where it begins in the segment.
    at: u64,
    me: u32,
    /// The world's ranks.
    ranks: Box<[u32]>,
    /// Parts of each rank's slot for what is long.
    far: u32,
    /// Those of them that are used in turn at the most: a power of two.
    ring: u32,
    /// Bytes of each part of the own slot that there is memory behind.
    backed: Box<[u32]>,
    /// By which pairs of ranks exchange.
    places: Places,
    /// The collective under way.
    number: u32,
    /// For each rank the last collective that it is known to have passed.
    passed: Box<[u32]>,
    /// Barriers.
    turns: u32,
    /// Whether there are more ranks than cores, as the leader says.
    crowded: bool,
    /// Where its ranks are, if they are more than cores.
    spread: Option<Spread>,
    /// Whether ranks may read from each other's memory, as far as anybody knows.
    pub pulls: bool,
    /// Whether barriers are done here.
    pub barriers: bool,
    /// Up to how many bytes broadcasts, all-reductions, exchanges and reductions to one rank are
    /// done here without a schedule.
    pub direct: [u64; 4],
}

// SAFETY: the memory is shared anyway, and accessed by atomic words or as bytes that somebody else
// may change.
unsafe impl Send for Area {}

impl Area {
    /// The part with number `index` of those that `leader` gives away, for `ranks` of the world, of
    /// which this is the one at `me`. None if there is no such part.
    pub fn new(host: &Host, leader: u32, index: u32, ranks: Box<[u32]>, me: u32) -> Option<Self> {
        let segment = host.segment();
        let at = segment.layout().group(leader, index)?;
        let far = group::far(segment.layout().ranks());
        let fits = ranks.len() as u32 <= segment.layout().ranks() && me < ranks.len() as u32;
        fits.then(|| Self {
            base: segment.address(at),
            at,
            me,
            passed: vec![0; ranks.len()].into(),
            far,
            ring: group::ring(segment.layout().ranks()),
            backed: vec![0; (group::NEAR + far) as usize].into(),
            places: Places::new(
                ranks.len() as u32,
                far >= group::ring(segment.layout().ranks()) + group::EXCHANGE,
            ),
            number: 0,
            turns: 0,
            crowded: false,
            spread: None,
            pulls: false,
            barriers: false,
            direct: [0; 4],
            ranks,
        })
    }

    /// Says whether there are more ranks than cores, before anything is done here.
    pub fn set_crowded(&mut self, crowded: bool) {
        self.crowded = crowded;
        self.pulls = crowded;
        self.spread = crowded.then(Spread::new);
        if crowded {
            self.ring = self.far.min(CROWDED_RING);
        }
    }

    /// Before a collective: sees to it now and then that as many ranks are on each core.
    #[inline]
    pub fn settle(&mut self) {
        if self.spread.as_mut().is_some_and(Spread::is_due) {
            self.settle_now();
        }
    }

    /// Each tells where it is, and goes by what the others told the last time.
    #[cold]
    fn settle_now(&mut self) {
        let Some(here) = spread::here() else { return };
        let own = self.line(self.me);
        let told = own.word(group::CORE);
        told.store(here + 1, Ordering::Relaxed);
        let size = self.ranks.len() as u32;
        let cores: Vec<Option<u32>> = (0..size)
            .map(|rank| {
                let line = self.line(rank);
                line.word(group::CORE)
                    .load(Ordering::Relaxed)
                    .checked_sub(1)
            })
            .collect();
        let Some(spread) = &mut self.spread else {
            return;
        };
        if let Some(core) = spread.better(self.me as usize, &cores)
            && spread.go(core).is_ok()
        {
            told.store(core + 1, Ordering::Relaxed);
        }
    }

    /// Whether there are more ranks than cores, as the leader says.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Which rank this is among them, and how many they are.
    pub fn place(&self) -> (u32, u32) {
        (self.me, self.ranks.len() as u32)
    }

    /// Whether ranks may tell one collective ahead: who hears that the others tell one knows that
    /// they have passed the second one before it, so four parts of a slot are enough, and two
    /// would wait for each other.
    #[inline]
    pub fn may_tell_ahead(&self) -> bool {
        self.ring >= 4
    }

    /// Runs `body` as if the collective under way were the one before it, of which the others are
    /// still to be heard.
    #[inline]
    pub fn looking_back<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        self.looking_at(self.number.wrapping_sub(1), body)
    }

    /// The same for the one whose number was `number`.
    #[inline]
    pub fn looking_at<T>(&mut self, number: u32, body: impl FnOnce(&mut Self) -> T) -> T {
        let now = std::mem::replace(&mut self.number, number);
        let outcome = body(self);
        self.number = now;
        outcome
    }

    /// The number of the collective under way.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Begins the next collective.
    #[inline]
    pub fn begin(&mut self) {
        self.number = self.number.wrapping_add(1);
    }

    /// Begins the next collective, in which nobody tells more than `length` bytes, of which there
    /// may be [`Self::most`]. What needs several parts takes their numbers, too: the last of them
    /// is its own, and the first is one that such a run may begin with.
    #[inline]
    pub fn begin_for(&mut self, length: usize) {
        let parts = parts(length);
        self.number = self.number.wrapping_add(parts) | (parts - 1);
    }

    /// Makes it as new, once all have left it or before anybody has come.
    pub fn clear(&self, host: &Host) -> std::io::Result<()> {
        let ranks = self.ranks.len() as u32;
        let length = group::cell(ranks, ranks, 0);
        host.segment().allocate(self.at, length as u32)?;
        let cells = (0..ranks * group::CELLS).map(|index| {
            let at = group::cell(ranks, index / group::CELLS, index % group::CELLS);
            // SAFETY: within the group.
            Line(unsafe { self.base.add(at as usize) })
        });
        let lines = (0..ranks).map(|rank| self.line(rank)).chain(cells);
        for line in lines.chain([self.common()]) {
            (0..group::WORDS).for_each(|index| line.word(index).store(0, Ordering::Relaxed));
            (0..2).for_each(|index| line.sleepers(index).store(0, Ordering::Relaxed));
        }
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Bytes that two ranks can exchange at once; 0 if they cannot here.
    #[inline]
    pub fn exchanges(&self) -> usize {
        self.places.room as usize
    }

    /// Begins the next collective, which is an exchange: of all ranks, or of some pairs, but all
    /// know of it.
    #[inline]
    pub fn begin_exchange(&mut self) {
        self.begin();
        self.places.crossed = !self.places.crossed;
    }

    fn pair_place(&self, writer: u32, reader: u32) -> (u32, usize) {
        let (owner, index) = self.places.of(writer, reader);
        (owner, index as usize * self.exchanges())
    }

    /// Where this rank writes `length` bytes for `rank`. An error is an errno.
    pub fn giving(&mut self, host: &Host, rank: u32, length: usize) -> std::io::Result<Sink> {
        let first = group::NEAR + self.far - group::EXCHANGE;
        let (owner, at) = self.pair_place(self.me, rank);
        assert!(length <= self.exchanges());
        let side = usize::from(self.places.crossed);
        let backed = self.places.backed[rank as usize][side];
        if length as u32 > backed {
            // not page by page
            let wanted = (length as u32)
                .max(2 * backed)
                .next_multiple_of(PAGE)
                .min(self.places.room);
            let slot = group::slot(self.ranks.len() as u32, self.far, owner, first);
            host.segment()
                .allocate(self.at + slot + at as u64, wanted)?;
            self.places.backed[rank as usize][side] = wanted;
        }
        let place = self.slot(owner, first, at, length);
        // SAFETY: in the segment; this rank alone has read there, and has done so.
        Ok(unsafe { Sink::new(place.as_ptr(), length) })
    }

    /// The `length` bytes that `rank` has written for this one, as its cell says.
    pub fn given(&self, rank: u32, length: usize) -> Source {
        let first = group::NEAR + self.far - group::EXCHANGE;
        let (owner, at) = self.pair_place(rank, self.me);
        assert!(length <= self.exchanges());
        let place = self.slot(owner, first, at, length);
        // SAFETY: in the segment, which stays mapped; nobody writes there before this rank.
        unsafe { Source::new(place.as_ptr(), length) }
    }
}
