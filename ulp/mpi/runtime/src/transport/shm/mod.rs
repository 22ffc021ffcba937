//! The other ranks of this host: the segment that all of them share, the bells that wake them, and the program's own memory.
//!
//! Owns: every access to memory that another process writes, and to memory that the program passed. What is read from the segment is checked by
//! who reads it: a length is compared with the block, a word with what it may be.
//! Must not know: which communicator or receive a message is for.

mod area;
mod bell;
mod channel;
mod joint;
pub mod kernel;
pub mod limits;
pub mod link;
pub mod long;
pub mod meet;
mod pages;
mod pair;
pub mod receive;
pub mod remote;
mod segment;
pub mod send;
pub mod ways;

pub use area::{Area, Awaited};
pub use bell::{Bells, listen};
pub use channel::{ReceivingEnd, SendingEnd, Words};
pub use joint::{CopyRequest, Offer};
pub use link::{Link, Shm};
pub use pages::LargePages;
pub use pair::Pair;
pub use receive::Ran;
pub use segment::Segment;
pub use send::Stored;

pub use crate::ground::layout::Layout;
pub use crate::ground::memory::{Buffer, Sink, Source};
pub use remote::read_peer;

use crate::transport::contract::Roster;
use ferriband_mpi_proto::card::{CARD, Card};
use ferriband_mpi_proto::fast::Shape;
use ferriband_mpi_proto::heals::RankReport;
use ferriband_mpi_proto::segment::{Life, MAX_RANKS, area as rank_area, line};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a block that are allocated when its channel is opened.
const BACKED: u32 = 32 << 10;

/// This rank's place on its host.
pub struct Host {
    segment: Segment,
    bells: Bells,
    me: u32,
    secret: u64,
    /// Inbound bits that have been seen.
    seen: [u64; MAX_RANKS as usize / 64],
}

impl Host {
    /// Rank `me` of the host of `segment`. From here on others may send to it.
    pub fn new(segment: Segment, bells: Bells, me: u32) -> Self {
        let own = segment.layout().area(me);
        segment
            .word32(own + rank_area::PID)
            .store(std::process::id(), Ordering::Relaxed);
        segment
            .word32(own + rank_area::FATAL)
            .store(1, Ordering::Relaxed);
        let secret = segment.job();
        Self {
            segment,
            bells,
            me,
            secret,
            seen: [0; MAX_RANKS as usize / 64],
        }
    }

    /// This rank.
    pub fn me(&self) -> u32 {
        self.me
    }

    /// Ranks of the host.
    pub fn ranks(&self) -> u32 {
        self.segment.layout().ranks()
    }

    /// Tells the launcher where this rank is in its life.
    pub fn set_life(&self, life: Life) {
        self.own(rank_area::LIFE)
            .store(life as u32, Ordering::SeqCst);
    }

    /// Tells the launcher what MPI_Abort was given.
    pub fn set_abort_code(&self, code: i32) {
        self.own(rank_area::ABORT_CODE)
            .store(code.cast_unsigned(), Ordering::SeqCst);
    }

    /// Tells the launcher what this rank has moved.
    pub fn leave_report(&self, report: &RankReport) {
        let at = self.segment.layout().area(self.me) + rank_area::REPORT;
        let [is_there, words @ ..] = report.emit();
        for (place, word) in (1..).zip(words) {
            let field = self.segment.word64(at + place * 8);
            field.store(word, Ordering::Relaxed);
        }
        self.segment.word64(at).store(is_there, Ordering::Release);
    }

    /// Says whether an error of MPI_COMM_WORLD ends this rank.
    pub fn set_fatal(&self, fatal: bool) {
        self.own(rank_area::FATAL)
            .store(u32::from(fatal), Ordering::SeqCst);
    }

    /// Process id that rank `rank` says it has.
    pub fn pid(&self, rank: u32) -> i32 {
        self.word(rank, rank_area::PID)
            .load(Ordering::Acquire)
            .cast_signed()
    }

    /// Says whether this rank's program waits in MPI.
    pub fn set_waits(&self, waits: bool) {
        self.own(rank_area::WAITS)
            .store(u32::from(waits), Ordering::Relaxed);
    }

    /// Whether the program of `rank` waits in MPI, as far as can be seen.
    pub fn waits(&self, rank: u32) -> bool {
        self.word(rank, rank_area::WAITS).load(Ordering::Relaxed) != 0
    }

    /// Whether the process of `rank` is no more.
    #[cold]
    pub fn has_ended(&self, rank: u32) -> bool {
        let pid = self.pid(rank);
        pid > 0 && !std::path::Path::new(&format!("/proc/{pid}")).exists()
    }

    /// Number of the host that `rank` is on.
    pub fn host_of(&self, rank: u32) -> u32 {
        self.word(rank, rank_area::HOST).load(Ordering::Relaxed)
    }

    /// Whether all ranks are on one host.
    pub fn is_alone(&self) -> bool {
        (0..self.ranks()).all(|rank| self.host_of(rank) == self.host_of(self.me))
    }

    /// Whether `rank` is on this host.
    pub fn is_near(&self, rank: u32) -> bool {
        self.host_of(rank) == self.host_of(self.me)
    }

    /// Whether more ranks than cores are on this host, as the ranks themselves have said: those that may run on the same cores are counted.
    pub fn is_crowded(&self) -> bool {
        let alike = |rank: u32| {
            let at = self.segment.layout().area(rank) + rank_area::CORES_ALIKE;
            self.segment.word64(at).load(Ordering::Relaxed)
        };
        let mine = alike(self.me);
        let sharing = (0..self.ranks()).filter(|rank| self.is_near(*rank) && alike(*rank) == mine);
        sharing.count() > self.own(rank_area::CORES).load(Ordering::Relaxed) as usize
    }

    /// What only ranks of this job know.
    pub fn secret(&self) -> u64 {
        self.secret
    }

    /// The same, where the job has several segments and they know something else together.
    #[must_use]
    pub fn with_secret(self, secret: u64) -> Self {
        Self { secret, ..self }
    }

    /// Writes down for all ranks of this segment where a rank is that does not share it.
    pub fn tell_of(&self, rank: u32, host: u32, card: &Card) {
        self.word(rank, rank_area::HOST)
            .store(host, Ordering::Relaxed);
        self.write_card(rank, card);
    }

    /// Whether `rank` has nothing more to say, and wants to hear nothing.
    pub fn is_over(&self, rank: u32) -> bool {
        Life::of(self.word(rank, rank_area::LIFE).load(Ordering::SeqCst)) == Life::Finalized
    }

    /// How many ranks have died while this one goes on, as the launcher says.
    pub fn losses(&self) -> u32 {
        self.own(rank_area::LOSSES).load(Ordering::Acquire)
    }

    /// Whether the launcher says that `rank` has died.
    pub fn is_dead(&self, rank: u32) -> bool {
        Life::of(self.word(rank, rank_area::LIFE).load(Ordering::Acquire)) == Life::Dead
    }

    /// Leaves this rank's card for the others.
    pub fn set_card(&self, card: &Card) {
        self.write_card(self.me, card);
    }

    fn write_card(&self, rank: u32, card: &Card) {
        for (place, four) in (0..).zip(card.emit().chunks_exact(4)) {
            let word = u32::from_ne_bytes(four.try_into().expect("four bytes"));
            self.word(rank, rank_area::CARD + place * 4)
                .store(word, Ordering::Relaxed);
        }
        self.word(rank, rank_area::HAS_CARD)
            .store(1, Ordering::Release);
    }

    /// The card of `rank`, once it has left one.
    pub fn card(&self, rank: u32) -> Option<Card> {
        if self.word(rank, rank_area::HAS_CARD).load(Ordering::Acquire) != 1 {
            return None;
        }
        let mut bytes = [0; CARD];
        for (place, four) in (0..).zip(bytes.chunks_exact_mut(4)) {
            let word = self.word(rank, rank_area::CARD + place * 4);
            four.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        Card::parse(&bytes)
    }

    /// Size and granules of this host's blocks.
    fn shape(&self) -> Shape {
        let granule = Shape::DEFAULT.granule();
        Shape::mapped(self.segment.layout().slot(), granule).unwrap_or(Shape::DEFAULT)
    }

    /// Bytes of the longest message that a channel takes as one record.
    pub fn longest(&self) -> usize {
        self.shape().longest() as usize
    }

    /// Opens the channel to `rank`: allocates the part of its block that is written to first, and tells the receiver. An error is an errno.
    pub fn open(&self, rank: u32) -> std::io::Result<SendingEnd> {
        let layout = self.segment.layout();
        let shape = self.shape();
        let backed = shape.size().min(BACKED);
        let end = layout.block(rank, self.me) + u64::from(shape.size());
        self.segment.allocate(end - u64::from(backed), backed)?;
        let at = layout.line(rank, self.me);
        let set = |field, value| {
            self.segment
                .word32(at + field)
                .store(value, Ordering::Relaxed)
        };
        set(line::SIZE, shape.size());
        set(line::GRANULE, shape.granule());
        self.segment
            .word32(at + line::STATE)
            .store(1, Ordering::Release);
        let bit = self.inbound_word(rank, self.me / 64);
        bit.fetch_or(1 << (self.me % 64), Ordering::SeqCst);
        self.ring(rank);
        Ok(SendingEnd::new(
            &self.segment,
            (rank, self.me),
            shape,
            backed,
        ))
    }

    /// The places by which this rank and `rank` exchange messages, if there are any.
    pub fn pair(&self, rank: u32) -> Option<Pair> {
        Pair::new(self, rank)
    }

    /// Allocates as much again of the block of the channel to `rank` as there is: it is written to from its end to its beginning, and what is short needs no more. An error is an errno.
    #[cold]
    pub fn extend(&self, rank: u32, sending: &mut SendingEnd) -> std::io::Result<()> {
        let layout = self.segment.layout();
        let bare = sending.bare();
        let more = bare.min(layout.slot() - bare);
        let block = layout.block(rank, self.me);
        self.segment
            .allocate(block + u64::from(bare - more), more)?;
        sending.set_bare(bare - more);
        Ok(())
    }

    /// Ranks that have opened a channel to this one since the last look.
    #[inline]
    pub fn newcomers(&mut self) -> Option<u32> {
        for index in 0..self.ranks().div_ceil(64) {
            let bits = self.inbound_word(self.me, index).load(Ordering::Acquire);
            let fresh = bits & !self.seen[index as usize];
            if fresh != 0 {
                let bit = fresh.trailing_zeros();
                self.seen[index as usize] |= 1 << bit;
                return Some(index * 64 + bit).filter(|rank| *rank < self.ranks());
            }
        }
        None
    }

    /// The channel that `rank` has opened; none if its line does not describe one.
    pub fn accept(&self, rank: u32) -> Option<ReceivingEnd> {
        let at = self.segment.layout().line(self.me, rank);
        let get = |field| self.segment.word32(at + field).load(Ordering::Acquire);
        if get(line::STATE) != 1 {
            return None;
        }
        let shape = Shape::mapped(get(line::SIZE), get(line::GRANULE))?;
        if shape.size() > self.segment.layout().slot() {
            return None;
        }
        Some(ReceivingEnd::new(&self.segment, self.me, rank, shape))
    }

    /// The memory for collectives with number `index` of those that `leader` gives away, for these ranks of the world, of which the one at `me` is this one.
    pub fn area(&self, leader: u32, index: u32, ranks: Box<[u32]>, me: u32) -> Option<Area> {
        Area::new(&self.segment, leader, index, ranks, me)
    }

    /// Whether somebody has opened a channel that has not been seen.
    pub fn has_newcomer(&self) -> bool {
        (0..self.ranks().div_ceil(64)).any(|index| {
            self.inbound_word(self.me, index).load(Ordering::Acquire) & !self.seen[index as usize]
                != 0
        })
    }

    /// Wakes `rank` if it sleeps: after what it shall find was stored.
    #[inline(always)]
    pub fn ring(&self, rank: u32) {
        std::sync::atomic::fence(Ordering::SeqCst);
        self.ring_if_asleep(rank);
    }

    /// Wakes `rank` if it is seen to sleep, behind a fence of the caller's.
    #[inline(always)]
    pub fn ring_if_asleep(&self, rank: u32) {
        let asleep = self.word(rank, rank_area::ASLEEP);
        if asleep.load(Ordering::Relaxed) == 1 {
            self.bells.wake(rank, asleep);
        }
    }

    /// Sleeps until somebody rings or one of `others` can be read, `timeout_ms` at most (-1: without end), unless `is_needless` finds something once all senders must see that this
    /// rank sleeps.
    pub fn sleep(&self, others: &[RawFd], timeout_ms: i32, is_needless: impl FnOnce() -> bool) {
        if self.lie_down(is_needless) {
            listen(self.bell(), others, timeout_ms);
            self.get_up();
        }
    }

    /// The first half of [`Host::sleep`]: whether this rank may sleep now, until [`listen`] ends at its bell.
    pub fn lie_down(&self, is_needless: impl FnOnce() -> bool) -> bool {
        self.own(rank_area::ASLEEP).store(1, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
        if is_needless() {
            self.get_up();
            return false;
        }
        true
    }

    /// The last part of [`Host::sleep`].
    pub fn get_up(&self) {
        self.own(rank_area::ASLEEP).store(0, Ordering::SeqCst);
        self.bells.quiet(self.me);
    }

    /// What is rung for this rank.
    pub fn bell(&self) -> RawFd {
        self.bells.of(self.me)
    }

    #[inline]
    fn own(&self, field: u64) -> &AtomicU32 {
        self.word(self.me, field)
    }

    #[inline]
    fn word(&self, rank: u32, field: u64) -> &AtomicU32 {
        self.segment
            .word32(self.segment.layout().area(rank) + field)
    }

    #[inline]
    fn inbound_word(&self, rank: u32, index: u32) -> &AtomicU64 {
        let at = self.segment.layout().area(rank) + rank_area::INBOUND + u64::from(index) * 8;
        self.segment.word64(at)
    }
}

impl Roster for Host {
    fn card(&self, rank: u32) -> Option<Card> {
        Self::card(self, rank)
    }

    fn is_over(&self, rank: u32) -> bool {
        Self::is_over(self, rank)
    }

    fn has_ended(&self, rank: u32) -> bool {
        Self::has_ended(self, rank)
    }

    fn is_there(&self, rank: u32) -> bool {
        self.pid(rank) > 0 && !Self::has_ended(self, rank)
    }
}
