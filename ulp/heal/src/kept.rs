//! Messages that were sent eagerly are kept until the peer's runtime has acknowledged them (Koop et
//! al., resilience, section IV-A): a completion says only that the peer's adapter has them. When a
//! queue pair that failed is made anew, what lies here is sent again.
//!
//! The receiver's word is the number of the last message that it has taken. A message that lies in
//! a buffer already, from which the adapter sends it, is not copied: the buffer stays until the
//! acknowledgement has come.

use crate::log::Log;
use crate::number::Number;
use std::collections::VecDeque;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a segment of the log, unless one message needs more.
const SEGMENT: usize = 16 << 10;
/// Bytes of all segments with messages, unless it is one message: so much may be on its way.
const MOST: usize = 256 << 10;

/// Memory that all logs of a process may have together. A log that has nothing takes one message
/// all the same: what goes to one peer never waits for what another has not acknowledged.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    taken: AtomicU64,
}

impl Budget {
    /// So many bytes.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            taken: AtomicU64::new(0),
        }
    }

    /// Bytes of all logs.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    fn left(&self) -> u64 {
        self.limit.saturating_sub(self.taken())
    }
}

/// What one log has of the budget: the bytes of its segments.
#[derive(Debug)]
struct Share {
    of: Arc<Budget>,
    bytes: u64,
}

impl Share {
    /// The log had `bytes` of its own, which are counted, and has `now`.
    fn count(&mut self, now: u64) {
        let all = &self.of.taken;
        if now > self.bytes {
            all.fetch_add(now - self.bytes, Ordering::Relaxed);
        } else {
            all.fetch_sub(self.bytes - now, Ordering::Relaxed);
        }
        self.bytes = now;
    }
}

impl Default for Share {
    fn default() -> Self {
        Self {
            of: Arc::new(Budget::new(u64::MAX)),
            bytes: 0,
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.count(0);
    }
}

/// What was sent to one peer and is not acknowledged: copies, and messages that lie in buffers of
/// the owner's, which it does not use again until they are given back.
#[derive(Debug, Default)]
pub struct Kept {
    /// The segment that is being filled.
    last: Segment,
    /// Those before it, in the order of their numbers.
    full: VecDeque<Segment>,
    spare: Vec<Segment>,
    held: VecDeque<Held>,
    acknowledged: u32,
    share: Share,
}

#[derive(Debug, Default)]
struct Segment {
    /// Room; what is behind `used` is left from former messages.
    bytes: Vec<u8>,
    used: usize,
    /// Number of the newest message in it, if there is one.
    newest: u32,
    copies: Vec<Copied>,
}

#[derive(Clone, Copy, Debug)]
struct Copied {
    seq: u32,
    from: u32,
    to: u32,
}

/// Messages that lie in a buffer of the owner's, one after the other: all that went together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Number of the last one.
    pub seq: u32,
    /// The buffer.
    pub buffer: u32,
    /// Where they begin in it.
    pub at: u32,
    /// Bytes.
    pub length: u32,
}

/// Where a message lies that would be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit<'a> {
    /// Its bytes.
    Copy(&'a [u8]),
    /// In a buffer, with those before it that went together with it.
    Held(Held),
}

/// What is held is a request of the owner's, not a buffer, if it is not below.
const REQUEST: u32 = 1 << 31;

/// The request of the owner's that this is, which [`Kept::released`] has named; none of a buffer.
#[inline]
pub fn request_of(held: u32) -> Option<u32> {
    held.checked_sub(REQUEST)
}

/// Whether an acknowledgement of all up to `acknowledged` is one of `seq`.
#[inline]
fn is_over(seq: u32, acknowledged: u32) -> bool {
    acknowledged.wrapping_sub(seq) < 1 << 31
}

impl Held {
    fn is_buffer(&self) -> bool {
        request_of(self.buffer).is_none()
    }
}

impl Segment {
    #[inline]
    fn fits(&self, length: usize) -> bool {
        self.used + length <= SEGMENT
    }

    /// Memory for `length` bytes more.
    fn grow(&mut self, length: usize) {
        let size = SEGMENT.max(self.used + length);
        self.bytes
            .reserve_exact(size.saturating_sub(self.bytes.len()));
        self.bytes.resize(size.max(self.bytes.len()), 0);
    }

    fn clear(&mut self) {
        self.used = 0;
        self.copies.clear();
    }

    /// Whether all of it is acknowledged.
    #[inline]
    fn is_over(&self, acknowledged: u32) -> bool {
        self.used == 0 || is_over(self.newest, acknowledged)
    }
}

impl Kept {
    /// An empty log whose first message has the number behind `acknowledged`.
    pub fn behind(acknowledged: Number) -> Self {
        Self {
            acknowledged: acknowledged.0,
            ..Self::default()
        }
    }

    /// An empty log whose memory is of this budget.
    pub fn within(budget: &Arc<Budget>) -> Self {
        Self {
            share: Share {
                of: Arc::clone(budget),
                bytes: 0,
            },
            ..Self::default()
        }
    }

    /// Whether a message of `length` bytes can be copied.
    #[inline]
    pub fn has_room(&self, length: usize) -> bool {
        self.last.fits(length) || self.has_room_beside(length)
    }

    /// Whether there may be one more segment, for that message.
    #[cold]
    fn has_room_beside(&self, length: usize) -> bool {
        let bytes = self.used();
        let more = SEGMENT.max(length);
        bytes == 0 || bytes + more <= MOST && self.is_granted(more)
    }

    /// Bytes of segments with messages.
    fn used(&self) -> usize {
        let is_used = |one: &&Segment| one.used != 0;
        let used = self.full.iter().chain([&self.last]).filter(is_used);
        used.map(|segment| segment.bytes.len()).sum()
    }

    /// Whether the budget has room for a segment of so many bytes, if those that are spare here are
    /// given back.
    fn is_granted(&self, bytes: usize) -> bool {
        let spare: usize = self.spare.iter().map(|one| one.bytes.capacity()).sum();
        self.share.of.left() + spare as u64 >= bytes as u64
    }

    /// Whether a message of `length` bytes finds no room because other logs have what the budget
    /// has: an acknowledgement of what is kept makes room here, and none may come by itself.
    #[cold]
    pub fn is_bounded(&self, length: usize) -> bool {
        let more = SEGMENT.max(length);
        !self.has_room(length) && self.used() + more <= MOST && !self.is_granted(more)
    }

    /// Whether nothing is kept, nor held.
    pub fn is_empty(&self) -> bool {
        self.last.used == 0 && self.full.is_empty() && self.held.is_empty()
    }

    /// `length` bytes that a message can be laid into before it is sent, if there is room; nothing
    /// is kept of it unless [`Kept::commit`] follows.
    #[inline]
    pub fn room(&mut self, length: usize) -> Option<&mut [u8]> {
        let end = self.last.used + length;
        if end > self.last.bytes.len() {
            self.grow(length)?;
        }
        self.last.bytes.get_mut(self.last.used..)?.get_mut(..length)
    }

    /// The segment is full, or has no memory yet.
    #[cold]
    fn grow(&mut self, length: usize) -> Option<()> {
        if !self.has_room(length) {
            return None;
        }
        if self.last.used != 0 && !self.last.fits(length) {
            let next = self.spare.pop().unwrap_or_default();
            self.full.push_back(mem::replace(&mut self.last, next));
        }
        self.last.grow(length);
        self.share.count(self.memory());
        // Room that was for short messages is not kept beside that for long ones, nor beside that
        // of other logs which is short.
        while (self.share.bytes > MOST as u64 || self.share.of.left() == 0)
            && self.spare.pop().is_some()
        {
            self.share.count(self.memory());
        }
        Some(())
    }

    /// Message `seq` has gone: it lies at `range` of the room that was asked for last.
    #[inline]
    pub fn commit(&mut self, seq: u32, range: Range<usize>) {
        let last = &mut self.last;
        let from = last.used;
        last.newest = seq;
        last.copies.push(Copied {
            seq,
            from: (from + range.start) as u32,
            to: (from + range.end) as u32,
        });
        last.used = from + range.end;
    }

    /// Keeps message `seq`, for which there is room: `parts` one after the other. What none of them
    /// is, `fill` writes behind them: `length` bytes.
    #[inline]
    pub fn keep(
        &mut self,
        seq: u32,
        parts: [&[u8]; 2],
        length: usize,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let whole = parts[0].len() + parts[1].len() + length;
        let Some(room) = self.room(whole) else {
            debug_assert!(false, "there is no room");
            return;
        };
        let (first, rest) = room.split_at_mut(parts[0].len());
        let (second, rest) = rest.split_at_mut(parts[1].len());
        first.copy_from_slice(parts[0]);
        second.copy_from_slice(parts[1]);
        fill(rest);
        self.commit(seq, 0..whole);
    }

    /// What lies in a buffer has gone: the buffer stays as it is until [`Kept::released`] names it.
    #[inline]
    pub fn hold(&mut self, held: Held) {
        self.held.push_back(held);
    }

    /// What lies behind message `sent` has not gone after all, and is not kept.
    #[cold]
    pub fn take_back(&mut self, sent: u32) {
        let has_gone = |seq: u32| is_over(seq, sent);
        self.held.retain(|held| has_gone(held.seq));
        for segment in self.full.iter_mut().chain([&mut self.last]) {
            segment.copies.retain(|copy| has_gone(copy.seq));
            let newest = segment.copies.last();
            segment.used = newest.map_or(0, |copy| copy.to as usize);
            segment.newest = newest.map_or(segment.newest, |copy| copy.seq);
        }
    }

    /// The owner is to hear when message `seq` is acknowledged, which the log has: by `request`,
    /// below 2^31, which [`Kept::released`] gives back in a form that [`request_of`] tells from a
    /// buffer.
    pub fn hold_request(&mut self, seq: u32, request: u32) {
        let since = |seq: u32| seq.wrapping_sub(self.acknowledged);
        let at = self
            .held
            .partition_point(|held| since(held.seq) < since(seq));
        let held = Held {
            seq,
            buffer: REQUEST | request,
            at: 0,
            length: 0,
        };
        self.held.insert(at, held);
    }

    /// A buffer whose messages are all acknowledged, or a request of the owner's.
    #[inline]
    pub fn released(&mut self) -> Option<u32> {
        let first = self.held.front()?;
        if !is_over(first.seq, self.acknowledged) {
            return None;
        }
        self.held.pop_front().map(|held| held.buffer)
    }

    /// Nothing is to be sent again: the buffers that were held.
    pub fn abandon(&mut self) -> impl Iterator<Item = u32> {
        let fresh = Self::within(&self.share.of);
        let held = mem::replace(self, fresh).held;
        let buffers = held.into_iter().filter(Held::is_buffer);
        buffers.map(|held| held.buffer)
    }

    /// The peer has taken all up to `seq`; `sent` is the last number that it can have. True if that
    /// is news. What is ahead of the truth is nothing.
    #[inline]
    pub fn acknowledge(&mut self, seq: u32, sent: u32) -> bool {
        let more = seq.wrapping_sub(self.acknowledged);
        if more == 0 || more > sent.wrapping_sub(self.acknowledged) {
            return false;
        }
        self.acknowledged = seq;
        if !self.full.is_empty() {
            self.reclaim();
        }
        if self.last.is_over(seq) {
            // The next message lies where this one lay, which the cache still has.
            self.last.clear();
        }
        true
    }

    #[cold]
    fn reclaim(&mut self) {
        while let Some(first) = self.full.front_mut() {
            if !first.is_over(self.acknowledged) {
                break;
            }
            first.clear();
            first.bytes.truncate(SEGMENT);
            first.bytes.shrink_to_fit();
            let spare = self.full.pop_front();
            // What is spare here may be short elsewhere.
            if self.share.of.left() >= self.share.of.limit / 2 {
                self.spare.extend(spare);
            }
        }
        self.share.count(self.memory());
    }

    /// The last number that the peer has acknowledged.
    pub fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    /// The copy of message `seq`, which is to say something else when it is sent again; none of
    /// what lies in a buffer.
    #[cold]
    pub fn copy_mut(&mut self, seq: u32) -> Option<&mut [u8]> {
        let segments = self.full.iter_mut().chain([&mut self.last]);
        segments.into_iter().find_map(|segment| {
            let copy = segment.copies.iter().find(|copy| copy.seq == seq)?;
            Some(&mut segment.bytes[copy.from as usize..copy.to as usize])
        })
    }

    /// What would be sent again: number and place of each message, or of the last one of those that
    /// went together, in order.
    pub fn unacknowledged(&self) -> Vec<(u32, Unit<'_>)> {
        let segments = self.full.iter().chain([&self.last]);
        let copies = segments.flat_map(|segment| {
            segment.copies.iter().map(|copy| {
                let bytes = &segment.bytes[copy.from as usize..copy.to as usize];
                (copy.seq, Unit::Copy(bytes))
            })
        });
        let held = self.held.iter().filter(|held| held.is_buffer());
        let held = held.map(|held| (held.seq, Unit::Held(*held)));
        let mut all: Vec<(u32, Unit<'_>)> = copies
            .chain(held)
            .filter(|(seq, _)| !is_over(*seq, self.acknowledged))
            .collect();
        all.sort_by_key(|(seq, _)| seq.wrapping_sub(self.acknowledged));
        all
    }

    /// Bytes of memory of its own.
    pub fn memory(&self) -> u64 {
        let all = self.full.iter().chain(&self.spare).chain([&self.last]);
        all.map(|segment| segment.bytes.capacity() as u64).sum()
    }
}

impl Log for Kept {
    type Unit<'a> = Unit<'a>;

    fn acknowledged(&self) -> Number {
        Number(self.acknowledged)
    }

    fn has_room(&self, bytes: usize) -> bool {
        Kept::has_room(self, bytes)
    }

    fn bytes(&self) -> u64 {
        let segments = self.full.iter().chain([&self.last]);
        let copies: usize = segments.map(|segment| segment.used).sum();
        let held = self.held.iter().map(|held| u64::from(held.length));
        copies as u64 + held.sum::<u64>()
    }

    fn acknowledge(&mut self, to: Number, sent: Number) -> bool {
        Kept::acknowledge(self, to.0, sent.0)
    }

    fn unit(&self, from: Number) -> Option<(Number, Unit<'_>)> {
        let is_behind = |seq: u32| !Number(seq).is_before(from);
        let segments = self.full.iter().chain([&self.last]);
        let copy = segments
            .filter(|segment| segment.used != 0 && is_behind(segment.newest))
            .find_map(|segment| {
                let at = segment.copies.partition_point(|copy| !is_behind(copy.seq));
                let copy = segment.copies.get(at)?;
                let bytes = &segment.bytes[copy.from as usize..copy.to as usize];
                Some((Number(copy.seq), Unit::Copy(bytes)))
            });
        let at = self.held.partition_point(|held| !is_behind(held.seq));
        let mut held = self.held.range(at..).filter(|held| held.is_buffer());
        let held = held
            .next()
            .map(|held| (Number(held.seq), Unit::Held(*held)));
        match (copy, held) {
            (Some(copy), Some(held)) if held.0.is_before(copy.0) => Some(held),
            (copy, held) => copy.or(held),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keep(log: &mut Kept, seq: u32, length: usize) {
        log.keep(seq, [&[1, 2], &[3]], length, |rest| rest.fill(seq as u8));
    }

    /// The buffer of this message: they lie in one of their number.
    fn named(seq: u32) -> u32 {
        seq % REQUEST
    }

    proptest! {
        #[test]
        fn what_is_not_acknowledged_is_kept_whole_and_in_order(
            first in any::<u32>(),
            steps in prop::collection::vec((prop_oneof![4 => 0_usize..8200, 1 => 0_usize..70_000], 0_u32..6, 0..5), 1..300),
        ) {
            let budget = Arc::new(Budget::new(5 * SEGMENT as u64));
            let mut log = Kept::within(&budget);
            log.acknowledged = first;
            let (mut sent, mut acked) = (first, first);
            // Numbers and lengths; those that were not copied lie in a buffer of their number.
            let mut expected: VecDeque<(u32, usize, bool)> = VecDeque::new();
            let mut buffers = Vec::new();
            for (length, ack, how) in steps {
                if how == 0 {
                    sent = sent.wrapping_add(2);
                    log.hold(Held { seq: sent, buffer: named(sent), at: 7, length: length as u32 });
                    expected.push_back((sent, length, true));
                } else if how == 4 {
                    // They have not gone after all.
                    if log.has_room(length + 3) {
                        keep(&mut log, sent.wrapping_add(1), length);
                    }
                    let held = Held { seq: sent.wrapping_add(3), buffer: 1, at: 0, length: 9 };
                    log.hold(held);
                    log.take_back(sent);
                } else if log.has_room(length + 3) {
                    sent = sent.wrapping_add(1);
                    if how == 1 {
                        // Laid out with more around it; one that has not gone leaves nothing.
                        log.room(length + 3).expect("there is room").fill(9);
                        let room = log.room(length + 3).expect("there is room");
                        room.fill(sent as u8);
                        room[..3].copy_from_slice(&[1, 2, 3]);
                        log.commit(sent, 0..length + 3);
                    } else {
                        keep(&mut log, sent, length);
                    }
                    expected.push_back((sent, length, false));
                }
                let ack = ack.min(sent.wrapping_sub(acked));
                acked = acked.wrapping_add(ack);
                prop_assert_eq!(log.acknowledge(acked, sent), ack != 0);
                while let Some(buffer) = log.released() {
                    buffers.push(buffer);
                }
                while let Some((seq, _, is_held)) = expected.front().copied().filter(|(seq, ..)| is_over(*seq, acked)) {
                    if is_held {
                        prop_assert_eq!(buffers.remove(0), named(seq));
                    }
                    expected.pop_front();
                }
                prop_assert!(buffers.is_empty());
                // What is sent again one after the other from any number on is what is listed.
                let mut from = Number(acked).next();
                for (seq, kept) in log.unacknowledged() {
                    prop_assert_eq!(log.unit(from), Some((Number(seq), kept)));
                    from = Number(seq).next();
                }
                prop_assert_eq!(log.unit(from), None);
                let kept = log.unacknowledged();
                prop_assert_eq!(kept.len(), expected.len());
                for ((seq, kept), (number, length, is_held)) in kept.into_iter().zip(&expected) {
                    prop_assert_eq!(seq, *number);
                    match kept {
                        Unit::Held(held) => prop_assert!(*is_held && held.buffer == named(seq) && held.length as usize == *length),
                        Unit::Copy(bytes) => {
                            prop_assert!(!is_held);
                            prop_assert_eq!(&bytes[..3], &[1, 2, 3]);
                            prop_assert!(bytes.len() == length + 3 && bytes[3..].iter().all(|byte| *byte == seq as u8));
                        }
                    }
                }
                // The last segment is as long as the longest message that it ever held alone.
                prop_assert!(log.memory() <= (MOST + 70_003) as u64);
                prop_assert_eq!(budget.taken(), log.memory());
                prop_assert!(log.memory() <= 5 * SEGMENT as u64 + 70_003);
            }
            let held: Vec<u32> = expected.iter().filter(|(.., is_held)| *is_held).map(|(seq, ..)| named(*seq)).collect();
            prop_assert_eq!(log.abandon().collect::<Vec<_>>(), held);
        }
    }

    #[test]
    fn a_copy_says_something_else_when_it_is_sent_again() {
        let mut log = Kept::default();
        (1..=5).for_each(|seq| keep(&mut log, seq, 7_000));
        for seq in [1, 5] {
            let copy = log.copy_mut(seq).expect("it is a copy");
            copy[1] = 77;
            let Some((_, Unit::Copy(bytes))) = log.unit(Number(seq)) else {
                panic!("it is a copy");
            };
            assert_eq!(bytes[..3], [1, 77, 3]);
        }
        log.hold(Held {
            seq: 6,
            buffer: 0,
            at: 0,
            length: 60,
        });
        assert_eq!(log.copy_mut(6), None);
        assert_eq!(log.copy_mut(7), None);
    }

    #[test]
    fn an_acknowledgement_of_what_was_never_sent_is_nothing() {
        let mut log = Kept::default();
        keep(&mut log, 1, 8);
        assert!(!log.acknowledge(2, 1));
        assert!(!log.acknowledge(u32::MAX, 1));
        assert_eq!(log.unacknowledged().len(), 1);
        assert!(log.acknowledge(1, 1) && !log.acknowledge(1, 1));
        assert_eq!(log.unacknowledged().len(), 0);
    }

    #[test]
    fn a_request_is_named_once_its_message_is_acknowledged_and_is_never_sent_again() {
        // Before and behind the turn of the number 0.
        for first in [1, u32::MAX - 1, u32::MAX] {
            let seq = |at: u32| first.wrapping_add(at);
            let mut log = Kept::behind(Number(first.wrapping_sub(1)));
            keep(&mut log, seq(0), 8);
            // Two messages went together in a buffer; the first of them is about a request.
            let bundle = Held {
                seq: seq(2),
                buffer: 7,
                at: 0,
                length: 60,
            };
            log.hold(bundle);
            log.hold_request(seq(1), 0);
            log.hold_request(seq(0), 5);
            let mut units = log.unacknowledged().into_iter();
            let copy = units.next().expect("the first message is a copy");
            assert_eq!(copy.0, seq(0));
            assert_eq!(units.next(), Some((seq(2), Unit::Held(bundle))));
            assert_eq!(units.next(), None);
            let found = log.unit(Number(seq(1)));
            assert_eq!(found, Some((Number(seq(2)), Unit::Held(bundle))));
            assert_eq!(log.released(), None);
            assert!(log.acknowledge(seq(0), seq(2)));
            assert_eq!(log.released().map(request_of), Some(Some(5)));
            assert_eq!(log.released(), None);
            assert!(log.acknowledge(seq(2), seq(2)));
            assert_eq!(log.released().map(request_of), Some(Some(0)));
            assert_eq!(log.released().map(request_of), Some(None));
            assert_eq!(log.released(), None);
            log.hold_request(seq(3), 1);
            log.hold(Held {
                seq: seq(4),
                ..bundle
            });
            assert_eq!(log.abandon().collect::<Vec<_>>(), [7]);
        }
    }

    #[test]
    fn a_full_log_says_so_and_has_room_again() {
        let mut log = Kept::default();
        let mut seq = 0;
        while log.has_room(8000) {
            seq += 1;
            keep(&mut log, seq, 7997);
        }
        assert_eq!(seq as usize, 2 * MOST / SEGMENT);
        log.acknowledge(2, seq);
        assert!(log.has_room(8000));
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes_whatever_the_messages_are_like() {
        let mut log = Kept::default();
        let mut seq = 0;
        for length in [64 << 10, 8000, 64 << 10, 20_000] {
            while log.has_room(length) {
                seq += 1;
                keep(&mut log, seq, length - 3);
            }
            assert!(Log::bytes(&log) <= MOST as u64);
            assert!(log.memory() <= (MOST + (64 << 10)) as u64);
            log.acknowledge(seq, seq);
            assert!(log.is_empty());
        }
        // One that is longer than all that may be kept goes alone.
        assert!(log.has_room(2 * MOST));
        keep(&mut log, seq + 1, 2 * MOST);
        assert!(!log.has_room(SEGMENT) && !log.is_empty());
    }

    #[test]
    fn all_logs_of_a_process_keep_to_their_budget_and_each_takes_one_message() {
        let budget = Arc::new(Budget::new(8 * SEGMENT as u64));
        let mut logs: Vec<Kept> = (0..4).map(|_| Kept::within(&budget)).collect();
        let fill = |log: &mut Kept, seq: &mut u32| {
            while log.has_room(8000) {
                *seq += 1;
                keep(log, *seq, 7997);
            }
        };
        let mut seqs = [0; 4];
        for (log, seq) in logs.iter_mut().zip(&mut seqs) {
            fill(log, seq);
        }
        // All of the budget lies in the first; each other one has its segment all the same.
        assert_eq!(seqs, [16, 2, 2, 2]);
        assert_eq!(budget.taken(), 11 * SEGMENT as u64);
        assert!(logs.iter().all(|log| log.is_bounded(8000)));
        // What the first is told makes room for itself and for others.
        assert!(logs[0].acknowledge(16, 16) && !logs[0].is_bounded(8000));
        fill(&mut logs[1], &mut seqs[1]);
        assert!(seqs[1] > 2 && budget.taken() <= 8 * SEGMENT as u64);
        let memory = |logs: &[Kept]| logs.iter().map(Kept::memory).sum::<u64>();
        assert_eq!(budget.taken(), memory(&logs));
        assert_eq!(logs[1].abandon().count(), 0);
        assert_eq!(budget.taken(), memory(&logs));
        logs.clear();
        assert_eq!(budget.taken(), 0);
    }
}
