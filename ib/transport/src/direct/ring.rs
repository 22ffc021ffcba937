//! A single-producer, single-consumer ring of records with a payload area, from one process to another.
//!
//! A record is one cache line; its first word carries the record's position, so a record is seen whole or not at
//! all and a short message costs one line. The consumer answers in the record (only if the answer is not plain
//! success) and then moves the head: the head acknowledges everything before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Words;
use super::layout::{
    RECORD_BYTES, RING_DATA, RING_DATA_AT, RING_HEAD, RING_RECORDS, RING_RECORDS_AT,
};

/// What a record asks of the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// SEND: match a receive and place the payload.
    Send = 1,
    /// RDMA WRITE with immediate whose data is placed already, or travels in the record.
    WriteImm = 2,
    /// RDMA WRITE executed by the target.
    Write = 3,
    /// RDMA READ executed by the target into the record's payload area.
    Read = 4,
    /// Compare and swap.
    CmpSwap = 5,
    /// Fetch and add.
    FetchAdd = 6,
    /// A datagram.
    Datagram = 7,
    /// The initiator found that its request violates the target's rights (`imm` 0) or is invalid (1): the target's queue
    /// pair ends as if it had answered the request itself.
    Violation = 8,
}

impl Kind {
    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Kind::Send,
            2 => Kind::WriteImm,
            3 => Kind::Write,
            4 => Kind::Read,
            5 => Kind::CmpSwap,
            6 => Kind::FetchAdd,
            7 => Kind::Datagram,
            8 => Kind::Violation,
            _ => return None,
        })
    }
}

bitflags::bitflags! {
    /// How to read a record.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct RecordFlags: u8 {
        /// The payload (at most 8 bytes) is the record's last word.
        const IN_RECORD = 1;
        /// The payload area holds a list of the sender's ranges, to be read from its memory.
        const PULL = 1 << 1;
        /// Last piece of the message.
        const LAST = 1 << 2;
        /// Immediate data is present.
        const IMM = 1 << 3;
        /// The key in `imm` is to be invalidated.
        const INVALIDATE = 1 << 4;
        /// Solicited event.
        const SOLICITED = 1 << 5;
        /// The payload begins with a 40-byte GRH.
        const GRH = 1 << 6;
    }
}

/// One record, decoded. Everything in it comes from another process: indexes and lengths are checked before use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// What to do.
    pub kind: Kind,
    /// How to read it.
    pub flags: RecordFlags,
    /// Target queue pair.
    pub dst_qpn: u32,
    /// Sending queue pair.
    pub src_qpn: u32,
    /// Sequence number of the queue pair's records, 24 bits.
    pub seq: u32,
    /// Payload bytes of this record.
    pub length: u32,
    /// Immediate data (network order), or the key to invalidate.
    pub imm: u32,
    /// Remote key; SRQ number (XRC); queue key (datagram).
    pub key: u32,
    /// Remote address; number of ranges (PULL).
    pub addr: u64,
    /// Total length of the message << 32 | offset of this piece; first atomic operand.
    pub arg: u64,
    /// Offset in the payload area; the payload itself (IN_RECORD); second atomic operand.
    pub data: u64,
    /// 16 bits that the kind defines: SL and path bits of a datagram.
    pub extra: u16,
}

/// The target's answer to a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Response {
    /// Executed; an atomic's previous value.
    Ok(u64),
    /// No receive: try again after the timer of this code.
    Rnr(u8),
    /// Not the expected sequence number: an earlier record was refused.
    Sequence,
    /// The queue pair does not receive, or is not connected to the sender: as if lost.
    NotReady,
    /// NAK: invalid request.
    InvalidRequest,
    /// NAK: remote access error.
    RemoteAccess,
    /// NAK: remote operational error.
    RemoteOperation,
    /// The system forbids the target to read the sender's memory: send the message through the ring.
    CannotPull,
}

impl Response {
    fn encode(self) -> u64 {
        match self {
            Response::Ok(_) => 0,
            Response::Rnr(code) => 1 | u64::from(code) << 8,
            Response::Sequence => 2,
            Response::NotReady => 3,
            Response::InvalidRequest => 4,
            Response::RemoteAccess => 5,
            Response::RemoteOperation => 6,
            Response::CannotPull => 7,
        }
    }

    fn decode(word: u64, value: impl FnOnce() -> u64) -> Self {
        match word & 0xff {
            0 => Response::Ok(value()),
            1 => Response::Rnr((word >> 8) as u8 & 31),
            2 => Response::Sequence,
            3 => Response::NotReady,
            4 => Response::InvalidRequest,
            5 => Response::RemoteAccess,
            7 => Response::CannotPull,
            // anything else is a peer's misbehaviour
            _ => Response::RemoteOperation,
        }
    }
}

fn record_at(base: usize, pos: u64) -> usize {
    base + RING_RECORDS_AT + (pos as usize % RING_RECORDS) * RECORD_BYTES
}

/// The head word: position, and above it how many answers were ever written into records. A ring holds far fewer than 2^16
/// records, so an equal count says that none was.
fn head_word(pos: u64, noted: u16) -> u64 {
    pos & HEAD_POSITION | u64::from(noted) << 48
}

/// The position in a head word.
pub const fn head_position(word: u64) -> u64 {
    word & HEAD_POSITION
}

fn head_noted(word: u64) -> u16 {
    (word >> 48) as u16
}

const HEAD_POSITION: u64 = (1 << 48) - 1;

/// What producer and completer of one ring share inside their process.
#[derive(Debug)]
pub struct TxShared {
    /// Position after the last record published.
    published: AtomicU64,
    /// Records below this position were answered and dealt with; their places are free.
    reclaimed: AtomicU64,
    /// Whose record: an owner word that the pusher chose.
    owners: Box<[AtomicU64]>,
    /// Cursor in the payload area after the record.
    data_end: Box<[AtomicU64]>,
    /// Sequence number, and offset of the payload above it: what an answer needs, kept from the peer's hands.
    about: Box<[AtomicU64]>,
}

impl TxShared {
    /// For a fresh ring.
    pub fn new() -> Arc<Self> {
        let words = || {
            (0..RING_RECORDS)
                .map(|_| AtomicU64::new(0))
                .collect::<Box<[_]>>()
        };
        Arc::new(TxShared {
            published: AtomicU64::new(0),
            reclaimed: AtomicU64::new(0),
            owners: words(),
            data_end: words(),
            about: words(),
        })
    }

    /// Position after the last record published.
    #[inline]
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Position below which everything was answered.
    #[inline]
    pub fn reclaimed(&self) -> u64 {
        self.reclaimed.load(Ordering::Acquire)
    }
}

/// A reserved place for a record and its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    pos: u64,
    data_end: u64,
    /// Offset of the payload in the payload area.
    pub data: u64,
    /// Offset of the payload in the segment.
    pub data_at: usize,
}

/// The producing end.
#[derive(Debug)]
pub struct Producer {
    base: usize,
    tail: u64,
    data_tail: u64,
    shared: Arc<TxShared>,
}

impl Producer {
    /// The producer of a fresh ring whose first byte is at `base`.
    pub fn new(base: usize, shared: Arc<TxShared>) -> Self {
        Producer {
            base,
            tail: 0,
            data_tail: 0,
            shared,
        }
    }

    /// Position of the next record.
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Room for a record with `payload` bytes in the payload area; None when the ring is full.
    #[inline]
    pub fn reserve(&self, payload: usize) -> Option<Reservation> {
        let reclaimed = self.shared.reclaimed();
        if self.tail - reclaimed >= RING_RECORDS as u64 {
            return None;
        }
        let mut start = self.data_tail;
        if payload > 0 {
            let room = RING_DATA - start as usize % RING_DATA;
            let aligned = payload.next_multiple_of(64);
            if aligned > room {
                start += room as u64;
            }
            let data_head = if reclaimed == self.tail {
                self.data_tail
            } else if reclaimed == 0 {
                0
            } else {
                self.shared.data_end[(reclaimed - 1) as usize % RING_RECORDS]
                    .load(Ordering::Relaxed)
            };
            let end = start + aligned as u64;
            if end - data_head > RING_DATA as u64 {
                return None;
            }
            let data = start % RING_DATA as u64;
            return Some(Reservation {
                pos: self.tail,
                data_end: end,
                data,
                data_at: self.base + RING_DATA_AT + data as usize,
            });
        }
        Some(Reservation {
            pos: self.tail,
            data_end: start,
            data: 0,
            data_at: self.base + RING_DATA_AT,
        })
    }

    /// Publishes a record whose payload is in place. `owner` comes back with its response.
    #[inline]
    pub fn publish<W: Words>(&mut self, seg: &W, place: Reservation, record: &Record, owner: u64) {
        let index = place.pos as usize % RING_RECORDS;
        self.shared.owners[index].store(owner, Ordering::Relaxed);
        self.shared.data_end[index].store(place.data_end, Ordering::Relaxed);
        self.shared.about[index].store(u64::from(record.seq) | place.data << 32, Ordering::Relaxed);
        let at = record_at(self.base, place.pos);
        seg.store(at + 8, 0);
        seg.store(
            at + 16,
            u64::from(record.dst_qpn & 0xff_ffff)
                | u64::from(record.src_qpn & 0xff_ffff) << 24
                | u64::from(record.extra) << 48,
        );
        seg.store(
            at + 24,
            u64::from(record.seq) | u64::from(record.length) << 32,
        );
        seg.store(at + 32, u64::from(record.imm) | u64::from(record.key) << 32);
        seg.store(at + 40, record.addr);
        seg.store(at + 48, record.arg);
        seg.store(at + 56, record.data);
        // before anybody can answer it
        self.shared
            .published
            .store(place.pos + 1, Ordering::Release);
        seg.store(
            at,
            (place.pos + 1) << 16
                | u64::from(record.kind as u8) << 8
                | u64::from(record.flags.bits()),
        );
        self.tail = place.pos + 1;
        self.data_tail = place.data_end;
    }
}

/// The end that collects responses, in the producer's process.
#[derive(Debug)]
pub struct Completer {
    base: usize,
    shared: Arc<TxShared>,
    /// The head's count of noted answers when everything was last collected.
    noted: u16,
}

/// A response with what the pusher needs to act on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered {
    /// The owner word given to [`Producer::publish`].
    pub owner: u64,
    /// Sequence number of the record.
    pub seq: u32,
    /// The answer.
    pub response: Response,
    /// Where a READ's payload lies in the segment.
    pub data_at: usize,
}

impl Completer {
    /// For the ring at `base`.
    pub fn new(base: usize, shared: Arc<TxShared>) -> Self {
        Completer {
            base,
            shared,
            noted: 0,
        }
    }

    /// True when the consumer has answered something that was not collected yet.
    #[inline]
    pub fn has_news<W: Words>(&self, seg: &W) -> bool {
        Completer::waits(seg, self.base, self.shared.reclaimed())
    }

    /// True when the ring at `base` has answers beyond those of position `reclaimed`: a look from outside the completer's lock.
    #[inline]
    pub fn waits<W: Words>(seg: &W, base: usize, reclaimed: u64) -> bool {
        head_position(seg.load(base + RING_HEAD)) != reclaimed
    }

    /// Collects up to `budget` responses in order. `tail` is the producer's position: a head beyond it is a lie and
    /// ends the collection. Each record's place is free for reuse after `each` returns.
    pub fn collect<W: Words>(
        &mut self,
        seg: &W,
        tail: u64,
        budget: usize,
        mut each: impl FnMut(Answered),
    ) -> usize {
        let word = seg.load(self.base + RING_HEAD);
        let (head, noted) = (head_position(word), head_noted(word));
        let mut pos = self.shared.reclaimed();
        if head > tail {
            return 0;
        }
        // without a note since then all of them are plain successes, and no record's line has to travel back
        let plain = noted == self.noted;
        let mut count = 0;
        while pos < head && count < budget {
            let at = record_at(self.base, pos);
            let index = pos as usize % RING_RECORDS;
            let about = self.shared.about[index].load(Ordering::Relaxed);
            let response = if plain {
                Response::Ok(0)
            } else {
                Response::decode(seg.load(at + 8), || seg.load(at + 48))
            };
            each(Answered {
                owner: self.shared.owners[index].load(Ordering::Relaxed),
                seq: about as u32,
                response,
                data_at: self.base + RING_DATA_AT + (about >> 32) as usize % RING_DATA,
            });
            pos += 1;
            count += 1;
            self.shared.reclaimed.store(pos, Ordering::Release);
        }
        if pos == head {
            self.noted = noted;
        }
        count
    }

    /// Takes the owners of everything unanswered, after the consumer died.
    pub fn abandon(&mut self, tail: u64, mut each: impl FnMut(u64)) {
        let mut pos = self.shared.reclaimed();
        while pos < tail {
            each(self.shared.owners[pos as usize % RING_RECORDS].load(Ordering::Relaxed));
            pos += 1;
            self.shared.reclaimed.store(pos, Ordering::Release);
        }
    }
}

/// The consuming end.
#[derive(Debug)]
pub struct Consumer {
    base: usize,
    pos: u64,
    published: u64,
    /// Answers written into records so far, modulo 2^16.
    noted: u16,
}

impl Consumer {
    /// The consumer of a fresh ring whose first byte is at `base`.
    pub fn new(base: usize) -> Self {
        Consumer {
            base,
            pos: 0,
            published: 0,
            noted: 0,
        }
    }

    /// Position of the next record: with [`Consumer::waits`], a look from outside the consumer's lock.
    pub fn position(&self) -> u64 {
        self.pos
    }

    /// True when the record of position `pos` is published in the ring at `base`.
    #[inline]
    pub fn waits<W: Words>(seg: &W, base: usize, pos: u64) -> bool {
        seg.load(record_at(base, pos)) >> 16 == pos + 1
    }

    /// True when a record waits.
    #[inline]
    pub fn has_record<W: Words>(&self, seg: &W) -> bool {
        seg.load(record_at(self.base, self.pos)) >> 16 == self.pos + 1
    }

    /// The next record, if one is published. Err when its kind is unknown: the peer misbehaves.
    #[inline]
    pub fn peek<W: Words>(&self, seg: &W) -> Option<Result<Record, ()>> {
        let at = record_at(self.base, self.pos);
        let word = seg.load(at);
        if word >> 16 != self.pos + 1 {
            return None;
        }
        let Some(kind) = Kind::from_bits((word >> 8) as u8) else {
            return Some(Err(()));
        };
        let qpns = seg.load(at + 16);
        let seq = seg.load(at + 24);
        let imm = seg.load(at + 32);
        Some(Ok(Record {
            kind,
            flags: RecordFlags::from_bits_truncate(word as u8),
            dst_qpn: qpns as u32 & 0xff_ffff,
            src_qpn: (qpns >> 24) as u32 & 0xff_ffff,
            extra: (qpns >> 48) as u16,
            seq: seq as u32,
            length: (seq >> 32) as u32,
            imm: imm as u32,
            key: (imm >> 32) as u32,
            addr: seg.load(at + 40),
            arg: seg.load(at + 48),
            data: seg.load(at + 56),
        }))
    }

    /// Offset in the segment of a record's payload; None when it would leave the payload area.
    pub fn payload(&self, record: &Record, length: usize) -> Option<usize> {
        let start = usize::try_from(record.data).ok()?;
        if start <= RING_DATA && length <= RING_DATA - start {
            Some(self.base + RING_DATA_AT + start)
        } else {
            None
        }
    }

    /// Answers the record at hand and goes on to the next. The head becomes visible with [`Consumer::acknowledge`].
    #[inline]
    pub fn answer<W: Words>(&mut self, seg: &W, response: Response) {
        match response {
            Response::Ok(0) => {}
            Response::Ok(value) => self.note(seg, 48, value),
            refused => self.note(seg, 8, refused.encode()),
        }
        self.pos += 1;
    }

    /// As [`Consumer::answer`] for an atomic, whose previous value may be any word.
    pub fn answer_value<W: Words>(&mut self, seg: &W, value: u64) {
        self.note(seg, 48, value);
        self.pos += 1;
    }

    /// Writes a word of the record at hand, and counts it.
    fn note<W: Words>(&mut self, seg: &W, at: usize, word: u64) {
        seg.store(record_at(self.base, self.pos) + at, word);
        self.noted = self.noted.wrapping_add(1);
    }

    /// Publishes the head: everything answered so far is acknowledged.
    #[inline]
    pub fn acknowledge<W: Words>(&mut self, seg: &W) {
        if self.published != self.pos {
            self.published = self.pos;
            seg.store(self.base + RING_HEAD, head_word(self.pos, self.noted));
        }
    }

    /// True when answers wait to be acknowledged.
    pub fn unacknowledged(&self) -> bool {
        self.published != self.pos
    }
}
