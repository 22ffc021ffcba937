//! The ranks of this host, and this process among them: whether they live, what they have left for
//! one another, how they fall asleep and are woken.
//!
//! Owns: the segment that they share ([`segment`]) and how they come to it ([`meet`]), the words of
//! their lives, cards and processes ([`Host`]), bells ([`bell`]). Must not know: what transports
//! store in the segment.

pub mod bell;
pub mod kernel;
pub mod meet;
pub mod segment;

use crate::transport::contract::Roster;
use bell::{Bells, listen};
use ferriband_heal::card::{CARD, Card};
use ferriband_heal::inquiry::{CARD_PORT, CardPort};
use ferriband_mpi_proto::heals::RankReport;
use ferriband_mpi_proto::segment::{Life, area as rank_area};
use segment::Segment;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// This rank's place on its host.
pub struct Host {
    segment: Segment,
    bells: Bells,
    me: u32,
    secret: u64,
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

    /// Whether more ranks than cores are on this host, as the ranks themselves have said: those
    /// that may run on the same cores are counted.
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

    /// This rank with a secret of the whole job, where the job has several segments.
    #[must_use]
    pub fn with_secret(self, secret: u64) -> Self {
        Self { secret, ..self }
    }

    /// Writes down for all ranks of this segment where a rank is that does not share it, and where
    /// its process tells its card when it is another one.
    pub fn tell_of(&self, rank: u32, host: u32, card: &Card, port: Option<&CardPort>) {
        self.word(rank, rank_area::HOST)
            .store(host, Ordering::Relaxed);
        let bytes = port.map_or([0; CARD_PORT], CardPort::emit);
        self.write(rank, rank_area::CARD_PORT, &bytes);
        self.write_card(rank, card);
    }

    /// Where the process of `rank` tells its card, if it does not share this segment.
    pub fn card_port(&self, rank: u32) -> Option<CardPort> {
        let bytes: [u8; CARD_PORT] = self.read(rank, rank_area::CARD_PORT);
        CardPort::parse(&bytes)
    }

    /// Bytes of the area of `rank`, a multiple of four.
    fn read<const BYTES: usize>(&self, rank: u32, field: u64) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (place, four) in (0..).zip(bytes.chunks_exact_mut(4)) {
            let word = self.word(rank, field + place * 4);
            four.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        bytes
    }

    fn write(&self, rank: u32, field: u64, bytes: &[u8]) {
        for (place, four) in (0..).zip(bytes.chunks_exact(4)) {
            let word = u32::from_ne_bytes(of_four(four));
            self.word(rank, field + place * 4)
                .store(word, Ordering::Relaxed);
        }
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

    /// A card is read between two equal even serials.
    fn write_card(&self, rank: u32, card: &Card) {
        let serial = self.word(rank, rank_area::CARD_SERIAL);
        serial.store(card.serial | 1, Ordering::Relaxed);
        std::sync::atomic::fence(Ordering::Release);
        // The serial stays odd until the rest is written.
        let bytes = card.emit();
        let (before, behind) = bytes.split_at((rank_area::CARD_SERIAL - rank_area::CARD) as usize);
        self.write(rank, rank_area::CARD, before);
        self.write(rank, rank_area::CARD_SERIAL + 4, &behind[4..]);
        serial.store(card.serial, Ordering::Release);
        self.word(rank, rank_area::HAS_CARD)
            .store(1, Ordering::Release);
    }

    /// The card of `rank`, once it has left one, and unless it is being written.
    pub fn card(&self, rank: u32) -> Option<Card> {
        if self.word(rank, rank_area::HAS_CARD).load(Ordering::Acquire) != 1 {
            return None;
        }
        let serial = self.word(rank, rank_area::CARD_SERIAL);
        let before = serial.load(Ordering::Acquire);
        let bytes: [u8; CARD] = self.read(rank, rank_area::CARD);
        std::sync::atomic::fence(Ordering::Acquire);
        let is_whole = before.is_multiple_of(2) && serial.load(Ordering::Relaxed) == before;
        Card::parse(&bytes).ok().filter(|_| is_whole)
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

    /// Sleeps until somebody rings or one of `others` can be read, `timeout_ms` at most (-1:
    /// without end), unless `is_needless` finds something once all senders must see that this rank
    /// sleeps.
    pub fn sleep(&self, others: &[RawFd], timeout_ms: i32, is_needless: impl FnOnce() -> bool) {
        if self.lie_down(is_needless) {
            listen(self.bell(), others, timeout_ms);
            self.get_up();
        }
    }

    /// The first half of [`Host::sleep`]: whether this rank may sleep now, until [`listen`] ends at
    /// its bell.
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

    /// The segment that the ranks share.
    #[inline(always)]
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    #[inline]
    fn own(&self, field: u64) -> &AtomicU32 {
        self.word(self.me, field)
    }

    /// The word at `field` of what there is for `rank`.
    #[inline]
    pub(in crate::transport) fn word(&self, rank: u32, field: u64) -> &AtomicU32 {
        self.segment
            .word32(self.segment.layout().area(rank) + field)
    }
}

/// The bytes of a chunk of four.
fn of_four(bytes: &[u8]) -> [u8; 4] {
    bytes.try_into().expect("chunks_exact(4) gives four")
}

impl Roster for Host {
    fn publish(&self, card: &Card) {
        self.set_card(card);
    }

    fn card(&self, rank: u32) -> Option<Card> {
        Self::card(self, rank)
    }

    fn card_port(&self, rank: u32) -> Option<CardPort> {
        Self::card_port(self, rank)
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
