//! A witness of every ring, from the stores that reach memory alone: who may write which word, that no record is lost
//! or read twice, that payload areas never overlap, that a head acknowledges only what was answered (I6).

use ferriband_transport::direct::layout::{
    RECORD_BYTES, RING_DATA, RING_DATA_AT, RING_HEAD, RING_LEN, RING_RECORDS, RING_RECORDS_AT,
};
use ferriband_transport::direct::{
    Answered, Handled, Kind, Record, RecordFlags, Response, head_position,
};
use std::collections::VecDeque;

use super::memory::{SegId, Store};
use super::world::World;

const RING: &str = "RING (no record lost or read twice, no payload overlaps)";
const I6: &str = "I6 (an answer acknowledges everything earlier, and nothing else)";

struct Live {
    data: (usize, usize),
    is_read: bool,
    answer: Option<Response>,
}

/// One ring as its stores show it.
pub(super) struct Ring {
    seg: SegId,
    base: usize,
    from: usize,
    to: usize,
    published: u64,
    /// Answered by the consumer, in its program order.
    answered: u64,
    head: u64,
    collected: u64,
    live: VecDeque<Live>,
}

/// All rings.
#[derive(Default)]
pub(super) struct RingWatch {
    rings: Vec<Ring>,
}

impl RingWatch {
    pub fn add(&mut self, seg: SegId, base: usize, from: usize, to: usize) {
        let (published, answered, head, collected) = (0, 0, 0, 0);
        self.rings.push(Ring {
            seg,
            base,
            from,
            to,
            published,
            answered,
            head,
            collected,
            live: VecDeque::new(),
        });
    }

    fn ring(&mut self, from: usize, to: usize) -> &mut Ring {
        let found = self
            .rings
            .iter_mut()
            .find(|ring| ring.from == from && ring.to == to);
        found.expect("every ordered pair of processes has a ring")
    }

    /// A store of `by` is about to reach memory.
    pub fn becomes_visible(&mut self, world: &World, by: usize, store: &Store) {
        let inside = |ring: &&mut Ring| {
            ring.seg == store.seg && (ring.base..ring.base + RING_LEN).contains(&store.off)
        };
        let Some(ring) = self.rings.iter_mut().find(inside) else {
            return;
        };
        let at = store.off - ring.base;
        let verdict = if at == RING_HEAD {
            ring.head_moves(by, head_position(store.word().unwrap_or(0)))
        } else if at >= RING_DATA_AT {
            ring.payload_store(by, at - RING_DATA_AT, store.bytes().len())
        } else {
            ring.record_store(world, by, at - RING_RECORDS_AT, store)
        };
        if let Err((invariant, expected, got)) = verdict {
            world.fail(
                invariant,
                expected,
                format!("{got} (ring {} to {}, by {by})", ring.from, ring.to),
            );
        }
    }

    /// The consumer took a record: it must be the next, as published.
    pub fn consumed(&mut self, world: &World, from: usize, to: usize, again: bool) {
        let ring = self.ring(from, to);
        if !again && ring.answered >= ring.published {
            world.fail(
                RING,
                format!("a published record, below {}", ring.published),
                format!("{}", ring.answered),
            );
        }
    }

    /// The consumer answered the record at hand.
    pub fn answers(&mut self, from: usize, to: usize, handled: Handled) {
        let ring = self.ring(from, to);
        let response = match handled {
            Handled::Answer(response) => response,
            Handled::Value(value) => Response::Ok(value),
            Handled::More => return,
        };
        let index = (ring.answered - ring.collected) as usize;
        if let Some(live) = ring.live.get_mut(index) {
            live.answer = Some(response);
        }
        ring.answered += 1;
    }

    /// The producer's process collected an answer and is done with it.
    pub fn collected(&mut self, world: &World, from: usize, to: usize, answer: &Answered) {
        let ring = self.ring(from, to);
        ring.collected += 1;
        let given = ring.live.pop_front().and_then(|live| live.answer);
        let same = match (given, answer.response) {
            (Some(Response::Ok(0)), Response::Ok(_)) => true,
            (given, got) => given == Some(got),
        };
        if !same {
            world.fail(
                I6,
                format!("{given:?}, as the target answered"),
                format!("{:?}", answer.response),
            );
        }
    }

    /// The producer gave up what is unanswered: its consumer died.
    pub fn abandoned(&mut self, from: usize, to: usize) {
        let ring = self.ring(from, to);
        ring.collected = ring.published;
        ring.live.clear();
    }
}

type Verdict = Result<(), (&'static str, String, String)>;

impl Ring {
    fn head_moves(&mut self, by: usize, head: u64) -> Verdict {
        if by != self.to {
            return Err((
                RING,
                format!("the head moved by {}", self.to),
                "by another".into(),
            ));
        }
        if head <= self.head || head > self.answered {
            let expected = format!(
                "a head above {} and at most {} answered",
                self.head, self.answered
            );
            return Err((I6, expected, format!("{head}")));
        }
        self.head = head;
        Ok(())
    }

    fn payload_store(&mut self, by: usize, start: usize, len: usize) -> Verdict {
        let end = start + len;
        if end > RING_DATA {
            return Err((
                RING,
                "a store inside the payload area".into(),
                format!("{start}..{end}"),
            ));
        }
        // the target fills the area of the READ that it executes
        let answers = by == self.to
            && self
                .live
                .iter()
                .any(|live| live.is_read && live.data.0 <= start && end <= live.data.1);
        if answers {
            return Ok(());
        }
        if by != self.from {
            return Err((
                RING,
                "the producer's store".into(),
                format!("{start}..{end} by another"),
            ));
        }
        match self
            .live
            .iter()
            .find(|live| live.data.0 < end && start < live.data.1)
        {
            Some(live) => Err((
                RING,
                "a free payload area".into(),
                format!("{start}..{end} over {:?}", live.data),
            )),
            None => Ok(()),
        }
    }

    fn record_store(&mut self, world: &World, by: usize, at: usize, store: &Store) -> Verdict {
        let (index, word) = (at / RECORD_BYTES, at % RECORD_BYTES);
        let answer_index = self.answered.min(self.published) as usize % RING_RECORDS;
        let answers = by == self.to
            && matches!(word, 8 | 48)
            && (self.head..=self.answered).any(|pos| pos as usize % RING_RECORDS == index);
        let next = self.published as usize % RING_RECORDS == index;
        let full = self.published - self.collected >= RING_RECORDS as u64;
        if by == self.from && next && !full {
            return if word == 0 {
                self.publishes(world, store)
            } else {
                Ok(())
            };
        }
        if answers {
            return Ok(());
        }
        let expected = format!(
            "the next free record {} or the answer to {answer_index}",
            self.published
        );
        Err((RING, expected, format!("word {word} of record {index}")))
    }

    fn publishes(&mut self, world: &World, store: &Store) -> Verdict {
        let word = store.word().unwrap_or(0);
        if word >> 16 != self.published + 1 {
            return Err((
                RING,
                format!("position {}", self.published + 1),
                format!("{}", word >> 16),
            ));
        }
        let mut bytes = [0; RECORD_BYTES];
        let at =
            self.base + RING_RECORDS_AT + self.published as usize % RING_RECORDS * RECORD_BYTES;
        world.memory.borrow().read(self.seg, at, &mut bytes);
        let field = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let flags = RecordFlags::from_bits_truncate(word as u8);
        let kind = (word >> 8) as u8;
        let atomic = kind == Kind::CmpSwap as u8 || kind == Kind::FetchAdd as u8;
        let length = if flags.contains(RecordFlags::PULL) {
            field(40) as usize * 16
        } else if flags.contains(RecordFlags::IN_RECORD) || atomic || kind == Kind::Violation as u8
        {
            0
        } else {
            (field(24) >> 32) as usize
        };
        let start = if length == 0 { 0 } else { field(56) as usize };
        let end = start + length;
        if end > RING_DATA
            || self
                .live
                .iter()
                .any(|live| live.data.0 < end && start < live.data.1)
        {
            return Err((
                RING,
                "a payload area of its own".into(),
                format!("{start}..{end}"),
            ));
        }
        self.live.push_back(Live {
            data: (start, end),
            is_read: kind == Kind::Read as u8,
            answer: None,
        });
        self.published += 1;
        Ok(())
    }
}

/// True when a record belongs to a message that takes a receive.
pub(super) fn takes_receive(record: &Record) -> bool {
    matches!(record.kind, Kind::Send | Kind::WriteImm)
}
