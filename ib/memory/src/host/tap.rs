//! A ring of records from one process to a tool that listens in: bounded, and never waited for.
//!
//! Owns: the layout of the sealed memfd and both ends of it. Must not know: what a record says.
//!
//! The writer makes the memory, so it is there before the tool has heard of it, and stays for the tool when the writer has ended. What
//! does not fit is counted, not waited for. Neither end believes what the other writes: positions and lengths are checked, and an
//! end that finds nonsense is done with the ring.

use crate::Error;
use crate::segment::{Access, Segment};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Least and most bytes of a ring.
pub const TAP_RING_BYTES: std::ops::RangeInclusive<usize> = 1 << 16..=1 << 28;
/// Longest record.
pub const TAP_RECORD_BYTES: usize = 8192;

const MAGIC: u64 = u64::from_le_bytes(*b"ferritap");
/// Words of the header, each in a cache line of its own.
const AT_MAGIC: usize = 0;
const AT_HEAD: usize = 64;
const AT_TAIL: usize = 128;
const AT_WRITTEN: usize = 192;
const AT_LOST: usize = 200;
/// Where records begin.
const DATA: usize = 4096;
/// A record begins with its length, and with the next multiple of it.
const UNIT: usize = 8;

/// Where a stretch of the ring lies, cut where the ring ends.
fn pieces(capacity: usize, at: u64, len: usize) -> [(usize, usize); 2] {
    // a power of two, so the position in the ring survives the wrap of the counter
    let start = at as usize & (capacity - 1);
    let first = len.min(capacity - start);
    [(DATA + start, first), (DATA, len - first)]
}

/// The writing end.
#[derive(Debug)]
pub struct TapWriter {
    segment: Segment,
    capacity: usize,
    head: u64,
}

impl TapWriter {
    /// A new ring of `bytes`, rounded up to a power of two within [`TAP_RING_BYTES`], its memory taken at once.
    ///
    /// # Errors
    /// `OutOfMemory`; `System` (EMFILE and the like).
    pub fn create(bytes: usize) -> Result<TapWriter, Error> {
        let capacity = bytes
            .clamp(*TAP_RING_BYTES.start(), *TAP_RING_BYTES.end())
            .next_power_of_two();
        let segment = Segment::create("ferriband-tap", DATA + capacity)?;
        segment.commit(0, DATA + capacity)?;
        segment.store(AT_MAGIC, MAGIC, Release);
        Ok(TapWriter {
            segment,
            capacity,
            head: 0,
        })
    }

    /// What the reader maps; None after [`TapWriter::close_fd`].
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.segment.fd()
    }

    /// The reader has the descriptor: this end needs the mapping only.
    pub fn close_fd(&mut self) {
        self.segment.close_fd();
    }

    /// Writes a record made of `parts`, or counts it as lost if there is no room.
    pub fn write(&mut self, parts: [&[u8]; 2]) -> bool {
        let len = parts[0].len() + parts[1].len();
        let whole = UNIT + len.next_multiple_of(UNIT);
        let used = self.head.wrapping_sub(self.segment.load(AT_TAIL, Acquire));
        // a tail that is ahead of the head makes this huge
        if len > TAP_RECORD_BYTES || used > (self.capacity - whole) as u64 {
            let lost = self.segment.load(AT_LOST, Relaxed);
            self.segment.store(AT_LOST, lost.wrapping_add(1), Relaxed);
            return false;
        }
        let mut at = self.head;
        for part in [&(len as u64).to_le_bytes()[..], parts[0], parts[1]] {
            let mut rest = part;
            for (offset, bytes) in pieces(self.capacity, at, part.len()) {
                let (now, later) = rest.split_at(bytes);
                self.segment.copy_in(offset, now);
                rest = later;
            }
            at += part.len() as u64;
        }
        self.head += whole as u64;
        let written = self.segment.load(AT_WRITTEN, Relaxed);
        self.segment
            .store(AT_WRITTEN, written.wrapping_add(1), Relaxed);
        self.segment.store(AT_HEAD, self.head, Release);
        true
    }
}

/// The reading end.
#[derive(Debug)]
pub struct TapReader {
    segment: Segment,
    capacity: usize,
    tail: u64,
    broken: bool,
}

impl TapReader {
    /// Maps a ring that somebody sent.
    ///
    /// # Errors
    /// `NotSealed`, `TooSmall`, `System`; `Invalid` for memory that is no ring.
    pub fn open(fd: OwnedFd) -> Result<TapReader, Error> {
        let mut segment = Segment::from_fd(fd, DATA + TAP_RING_BYTES.start(), Access::ReadWrite)?;
        segment.close_fd();
        let capacity = segment.len() - DATA;
        let right = capacity.is_power_of_two()
            && TAP_RING_BYTES.contains(&capacity)
            && segment.load(AT_MAGIC, Acquire) == MAGIC;
        if !right {
            return Err(Error::Invalid {
                what: "ring of records",
            });
        }
        Ok(TapReader {
            segment,
            capacity,
            tail: 0,
            broken: false,
        })
    }

    /// Takes the next record into `record`, whose contents it replaces; false if there is none, and for good after nonsense.
    pub fn read(&mut self, record: &mut Vec<u8>) -> bool {
        record.clear();
        if self.broken {
            return false;
        }
        let available = self.segment.load(AT_HEAD, Acquire).wrapping_sub(self.tail);
        if available == 0 {
            return false;
        }
        let mut length = [0; UNIT];
        self.copy(self.tail, &mut length);
        let length = u64::from_le_bytes(length);
        let whole = UNIT as u64 + length.min(1 << 32).next_multiple_of(UNIT as u64);
        if available > self.capacity as u64 || length > TAP_RECORD_BYTES as u64 || whole > available
        {
            self.broken = true;
            return false;
        }
        record.resize(length as usize, 0);
        self.copy(self.tail + UNIT as u64, record);
        self.tail += whole;
        self.segment.store(AT_TAIL, self.tail, Release);
        true
    }

    fn copy(&self, at: u64, into: &mut [u8]) {
        let mut rest = into;
        for (offset, bytes) in pieces(self.capacity, at, rest.len()) {
            let (now, later) = rest.split_at_mut(bytes);
            self.segment.copy_out(offset, now);
            rest = later;
        }
    }

    /// Records that found no room, as the writer says.
    pub fn lost(&self) -> u64 {
        self.segment.load(AT_LOST, Relaxed)
    }

    /// The writer wrote what no writer of ours does.
    pub fn is_broken(&self) -> bool {
        self.broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> (TapWriter, TapReader) {
        let writer = TapWriter::create(1).unwrap();
        let fd = writer.fd().unwrap().try_clone_to_owned().unwrap();
        let reader = TapReader::open(fd).unwrap();
        (writer, reader)
    }

    fn body(round: usize) -> Vec<u8> {
        (0..round * 37 % 3000).map(|i| (i + round) as u8).collect()
    }

    #[test]
    fn records_come_whole_and_in_order_over_many_wraps() {
        let (mut writer, mut reader) = ring();
        let mut record = Vec::new();
        for round in 0..1000 {
            let bytes = body(round);
            assert!(writer.write([b"head", &bytes]));
            assert!(reader.read(&mut record));
            assert_eq!(record[..4], *b"head");
            assert_eq!(record[4..], bytes, "round {round}");
        }
        assert!(!reader.read(&mut record));
        assert_eq!(reader.lost(), 0);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_what_was_there_stays() {
        let (mut writer, mut reader) = ring();
        let mut kept = 0;
        for round in 0..1000 {
            kept += usize::from(writer.write([&[], &body(round)]));
        }
        assert!(kept > 10 && kept < 1000);
        assert_eq!(reader.lost(), 1000 - kept as u64);
        let mut record = Vec::new();
        for round in 0..10 {
            assert!(reader.read(&mut record));
            assert_eq!(record, body(round));
        }
        assert!(writer.write([b"there is room again", &[]]));
        assert!(
            !writer.write([&[0; TAP_RECORD_BYTES], b"x"]),
            "too long for any ring"
        );
    }

    #[test]
    fn a_reader_that_lies_costs_records_only() {
        let (mut writer, reader) = ring();
        for tail in [1, 1 << 16, 1 << 40] {
            reader.segment.store(AT_TAIL, tail, Release);
            assert!(!writer.write([b"x", &[]]), "tail {tail:#x}");
        }
        reader.segment.store(AT_TAIL, 0, Release);
        assert!(writer.write([b"x", &[]]));
    }

    #[test]
    fn a_writer_that_lies_is_not_listened_to() {
        for (head, length) in [
            (u64::MAX, 0u64),
            (1 << 20, 0),
            (16, 9),
            (1 << 15, 1 << 14),
            (8, u64::MAX),
        ] {
            let (writer, mut reader) = ring();
            writer.segment.copy_in(DATA, &length.to_le_bytes());
            writer.segment.store(AT_HEAD, head, Release);
            let mut record = Vec::new();
            assert!(
                !reader.read(&mut record),
                "head {head:#x}, length {length:#x}"
            );
            assert!(reader.is_broken());
        }
        let other = Segment::create("other", DATA + (1 << 16)).unwrap();
        let fd = other.fd().unwrap().try_clone_to_owned().unwrap();
        assert!(TapReader::open(fd).is_err(), "no magic number");
    }
}
