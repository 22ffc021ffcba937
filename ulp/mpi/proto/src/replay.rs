//! Messages that were sent unasked are kept until the peer's runtime has acknowledged them (Koop et al., resilience, section IV-A): a completion says only that the
//! peer's adapter has them. A queue pair that fails can then be made anew, and what lies here be sent again.
//!
//! The receiver's word is the number of the last message that it has taken. It rides on every envelope and on every return of credit; [`Owed`] says when it
//! must go alone.

use std::collections::VecDeque;

/// Bytes of a segment of the log, unless one message needs more.
const SEGMENT: usize = 16 << 10;
/// Segments, at most: so many messages may be on their way.
const SEGMENTS: usize = 16;
/// An acknowledgement goes alone after so many messages,
const MESSAGES: u32 = 64;
/// or so many bytes.
const BYTES: u32 = 64 << 10;

/// What was sent to one peer and is not acknowledged.
#[derive(Debug, Default)]
pub struct Replay {
    /// In the order of their numbers; the last one is being filled.
    segments: VecDeque<Segment>,
    spare: Vec<Segment>,
    acknowledged: u32,
}

#[derive(Debug, Default)]
struct Segment {
    /// Room; what is behind `used` is left from former messages.
    bytes: Vec<u8>,
    used: usize,
    /// Number of each message and where it ends.
    ends: Vec<(u32, u32)>,
}

impl Segment {
    fn fits(&self, length: usize) -> bool {
        self.used + length <= SEGMENT
    }

    /// Takes so many bytes more.
    fn grow(&mut self, length: usize) -> &mut [u8] {
        let at = self.used;
        self.used += length;
        if self.bytes.len() < self.used {
            self.bytes
                .reserve_exact(SEGMENT.max(self.used) - self.bytes.len());
            self.bytes.resize(SEGMENT.max(self.used), 0);
        }
        &mut self.bytes[at..self.used]
    }
}

impl Replay {
    /// Whether a message of `length` bytes can be kept.
    #[inline]
    pub fn has_room(&self, length: usize) -> bool {
        self.segments.len() < SEGMENTS || self.segments.back().is_some_and(|last| last.fits(length))
    }

    /// Keeps message `seq`, for which there is room: `parts` one after the other. What none of them is, `fill` writes behind them: `length` bytes.
    #[inline]
    pub fn keep(
        &mut self,
        seq: u32,
        parts: [&[u8]; 2],
        length: usize,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let whole = parts[0].len() + parts[1].len() + length;
        if !self.segments.back().is_some_and(|last| last.fits(whole)) {
            let segment = self.spare.pop().unwrap_or_default();
            self.segments.push_back(segment);
        }
        let Some(last) = self.segments.back_mut() else {
            return;
        };
        let (first, rest) = last.grow(whole).split_at_mut(parts[0].len());
        let (second, rest) = rest.split_at_mut(parts[1].len());
        first.copy_from_slice(parts[0]);
        second.copy_from_slice(parts[1]);
        fill(rest);
        last.ends.push((seq, last.used as u32));
    }

    /// The peer has taken all up to `seq`; `sent` is the last number that it can have. True if that is news. What is ahead of the truth is nothing.
    #[inline]
    pub fn acknowledge(&mut self, seq: u32, sent: u32) -> bool {
        let more = seq.wrapping_sub(self.acknowledged);
        if more == 0 || more > sent.wrapping_sub(self.acknowledged) {
            return false;
        }
        self.acknowledged = seq;
        while let Some(first) = self.segments.front_mut() {
            let is_over = first
                .ends
                .last()
                .is_none_or(|(last, _)| seq.wrapping_sub(*last) < 1 << 31);
            if !is_over {
                break;
            }
            first.used = 0;
            first.ends.clear();
            self.spare.extend(self.segments.pop_front());
        }
        true
    }

    /// The last number that the peer has acknowledged.
    pub fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    /// What would be sent again: number and bytes of each message, in order.
    pub fn unacknowledged(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.segments
            .iter()
            .flat_map(|segment| {
                let mut from = 0;
                segment.ends.iter().map(move |(seq, end)| {
                    let bytes = &segment.bytes[from as usize..*end as usize];
                    from = *end;
                    (*seq, bytes)
                })
            })
            .filter(|(seq, _)| {
                let ahead = seq.wrapping_sub(self.acknowledged);
                ahead != 0 && ahead < 1 << 31
            })
    }

    /// Bytes of memory.
    pub fn memory(&self) -> u64 {
        let all = self.segments.iter().chain(&self.spare);
        all.map(|segment| segment.bytes.capacity() as u64).sum()
    }
}

/// What a receiver has taken from one peer since it last told it so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owed {
    messages: u32,
    bytes: u32,
}

impl Owed {
    /// A message of `length` bytes has been taken. True if an acknowledgement must go alone.
    #[inline]
    pub fn take(&mut self, length: u32) -> bool {
        self.messages += 1;
        self.bytes = self.bytes.saturating_add(length);
        self.is_due()
    }

    /// Whether an acknowledgement must go alone, unless something else goes first.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.messages >= MESSAGES || self.bytes >= BYTES
    }

    /// The peer is told.
    #[inline]
    pub fn told(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keep(log: &mut Replay, seq: u32, length: usize) {
        log.keep(seq, [&[1, 2], &[3]], length, |rest| rest.fill(seq as u8));
    }

    proptest! {
        #[test]
        fn what_is_not_acknowledged_is_kept_whole_and_in_order(
            first in any::<u32>(), steps in prop::collection::vec((prop_oneof![4 => 0_usize..8200, 1 => 0_usize..70_000], 0_u32..6), 1..300),
        ) {
            let mut log = Replay {
                acknowledged: first,
                ..Replay::default()
            };
            let (mut sent, mut acked) = (first, first);
            let mut lengths = VecDeque::new();
            for (length, ack) in steps {
                if log.has_room(length + 3) {
                    sent = sent.wrapping_add(1);
                    keep(&mut log, sent, length);
                    lengths.push_back(length);
                }
                let ack = ack.min(sent.wrapping_sub(acked));
                acked = acked.wrapping_add(ack);
                prop_assert_eq!(log.acknowledge(acked, sent), ack != 0);
                lengths.drain(..ack as usize);
                let kept: Vec<(u32, &[u8])> = log.unacknowledged().collect();
                prop_assert_eq!(kept.len(), lengths.len());
                for (at, ((seq, bytes), length)) in kept.into_iter().zip(&lengths).enumerate() {
                    prop_assert_eq!(seq, acked.wrapping_add(at as u32 + 1));
                    prop_assert_eq!(&bytes[..3], &[1, 2, 3]);
                    prop_assert!(bytes.len() == length + 3 && bytes[3..].iter().all(|byte| *byte == seq as u8));
                }
                // Each segment is as long as the longest message that it ever held alone.
                prop_assert!(log.memory() <= (70_003 * SEGMENTS) as u64);
            }
        }
    }

    #[test]
    fn an_acknowledgement_of_what_was_never_sent_is_nothing() {
        let mut log = Replay::default();
        keep(&mut log, 1, 8);
        assert!(!log.acknowledge(2, 1));
        assert!(!log.acknowledge(u32::MAX, 1));
        assert_eq!(log.unacknowledged().count(), 1);
        assert!(log.acknowledge(1, 1) && !log.acknowledge(1, 1));
        assert_eq!(log.unacknowledged().count(), 0);
    }

    #[test]
    fn a_full_log_says_so_and_has_room_again() {
        let mut log = Replay::default();
        let mut seq = 0;
        while log.has_room(8000) {
            seq += 1;
            keep(&mut log, seq, 7997);
        }
        assert_eq!(seq as usize, 2 * SEGMENTS);
        log.acknowledge(2, seq);
        assert!(log.has_room(8000));
    }

    #[test]
    fn an_acknowledgement_goes_alone_after_many_messages_or_bytes() {
        let mut owed = Owed::default();
        assert!((1..MESSAGES).all(|_| !owed.take(8)));
        assert!(owed.take(8));
        owed.told();
        assert!(!owed.take(BYTES / 2) && owed.take(BYTES / 2));
    }
}
