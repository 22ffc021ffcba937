//! What a process writes down of its calls and messages while it is traced: the form of the file.
//!
//! A file is a header, a table of names, and a ring of events of 32 bytes. It has its whole length
//! from the beginning, is mapped by the process, and is read when the process has ended, however
//! that came about. So what is read may break off anywhere, and is as hostile as any file.

use zerocopy::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const MAGIC: u64 = 0x3143_5254_5252_4546;
const VERSION: u32 = 2;
/// Where the number of events is that were ever written, a u64.
pub const WRITTEN: u64 = 256;
/// Where the number of names is, a u32.
pub const NAMED: u64 = 264;
/// Where the names begin.
pub const NAMES: u64 = 4096;
/// Bytes of a name, with zeros behind it.
pub const NAME: u64 = 48;
/// Names that there may be.
pub const MOST_NAMES: u32 = 1024;
/// Where the events begin.
pub const EVENTS: u64 = NAMES + NAME * MOST_NAMES as u64;
/// Bytes of an event.
pub const EVENT: u64 = 32;
/// The most events that a file may hold.
pub const MOST_EVENTS: u64 = 1 << 26;

/// Whose file it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Its number among the processes that it exchanges messages with: the rank of an MPI job.
    pub rank: u32,
    /// How many numbers there are.
    pub ranks: u32,
    /// Process id.
    pub pid: u32,
    /// The job's number.
    pub job: u64,
    /// Events that the ring holds.
    pub capacity: u64,
    /// The same for all processes that have one monotonic clock.
    pub boot: u64,
    /// A moment by the monotonic clock, in nanoseconds,
    pub monotonic_ns: u64,
    /// and the same moment by the clock on the wall, in nanoseconds since 1970.
    pub realtime_ns: u64,
    /// Name of the host, 64 bytes at most.
    pub host: String,
    /// What people know the process by, 48 bytes at most.
    pub label: String,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct HeaderBytes {
    magic: U64,
    version: U32,
    rank: U32,
    ranks: U32,
    pid: U32,
    job: U64,
    capacity: U64,
    boot: U64,
    monotonic_ns: U64,
    realtime_ns: U64,
    host: [u8; 64],
    label: [u8; 48],
}

/// Bytes of the header.
pub const HEADER: usize = size_of::<HeaderBytes>();
const _: () = assert!(HEADER as u64 <= WRITTEN && EVENTS.is_multiple_of(EVENT));

impl Header {
    /// Its bytes.
    pub fn emit(&self) -> [u8; HEADER] {
        zerocopy::transmute!(HeaderBytes {
            magic: U64::new(MAGIC),
            version: U32::new(VERSION),
            rank: U32::new(self.rank),
            ranks: U32::new(self.ranks),
            pid: U32::new(self.pid),
            job: U64::new(self.job),
            capacity: U64::new(self.capacity),
            boot: U64::new(self.boot),
            monotonic_ns: U64::new(self.monotonic_ns),
            realtime_ns: U64::new(self.realtime_ns),
            host: text(&self.host),
            label: text(&self.label),
        })
    }

    /// What a file begins with; none if it is no trace.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = HeaderBytes::read_from_prefix(bytes).ok()?.0;
        let is_one = bytes.magic.get() == MAGIC
            && bytes.version.get() == VERSION
            && (1..=MOST_EVENTS).contains(&bytes.capacity.get())
            && bytes.rank.get() < bytes.ranks.get();
        is_one.then(|| Self {
            rank: bytes.rank.get(),
            ranks: bytes.ranks.get(),
            pid: bytes.pid.get(),
            job: bytes.job.get(),
            capacity: bytes.capacity.get(),
            boot: bytes.boot.get(),
            monotonic_ns: bytes.monotonic_ns.get(),
            realtime_ns: bytes.realtime_ns.get(),
            host: read(&bytes.host),
            label: read(&bytes.label),
        })
    }

    /// Bytes of the whole file.
    pub fn total(&self) -> u64 {
        EVENTS + self.capacity * EVENT
    }
}

/// A text with zeros behind it, cut where there is no room.
fn text<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let length = text.len().min(LENGTH);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

fn read(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// What this name's index says begins: a call of a function, or an RDMA operation.
    Call = 1,
    /// It ends.
    Return = 2,
    /// A message to a peer is on its way.
    Sent = 3,
    /// A message of a peer has come.
    Came = 4,
    /// A connection to a peer has failed and is up again: this is when the first of the two sides
    /// noticed. The name is the cause.
    Heal = 5,
    /// A part of a heal begins; the name says which.
    Part = 6,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, by the monotonic clock, in nanoseconds.
    pub at_ns: u64,
    /// What.
    pub what: What,
    /// A number of the thread, or of whatever else has calls that lie one within another; those
    /// beyond 255 share one.
    pub thread: u8,
    /// Index of the name of the function, of the kind of message, of a heal's cause or its part.
    pub name: u16,
    /// Message: its tag, or what else tells those between two processes apart. Heal: connections
    /// that were begun.
    pub tag: i32,
    /// The other process's number.
    pub peer: u32,
    /// Message: its number among those with its tag from its sender to its receiver. Heal and its
    /// parts: its number in this process.
    pub seq: u32,
    /// Message: bytes. Heal: bytes that were sent again. Part of a heal: nanoseconds.
    pub bytes: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct EventBytes {
    at_ns: U64,
    what: u8,
    thread: u8,
    name: U16,
    tag: I32,
    peer: U32,
    seq: U32,
    bytes: U64,
}

const _: () = assert!(size_of::<EventBytes>() as u64 == EVENT);

impl Event {
    /// Its four words as they lie in the file. While the second one is zero there is no event.
    pub fn words(&self) -> [u64; 4] {
        let bytes: [u8; EVENT as usize] = zerocopy::transmute!(EventBytes {
            at_ns: U64::new(self.at_ns),
            what: self.what as u8,
            thread: self.thread,
            name: U16::new(self.name),
            tag: I32::new(self.tag),
            peer: U32::new(self.peer),
            seq: U32::new(self.seq),
            bytes: U64::new(self.bytes),
        });
        zerocopy::transmute!(bytes)
    }

    /// An event; none where none was written.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = EventBytes::read_from_bytes(bytes).ok()?;
        let what = match bytes.what {
            1 => What::Call,
            2 => What::Return,
            3 => What::Sent,
            4 => What::Came,
            5 => What::Heal,
            6 => What::Part,
            _ => return None,
        };
        Some(Self {
            at_ns: bytes.at_ns.get(),
            what,
            thread: bytes.thread,
            name: bytes.name.get(),
            tag: bytes.tag.get(),
            peer: bytes.peer.get(),
            seq: bytes.seq.get(),
            bytes: bytes.bytes.get(),
        })
    }
}

/// A whole file, read.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Whose it is.
    pub header: Header,
    /// Names of functions and of kinds of messages.
    pub names: Vec<String>,
    /// The events, in the order of time.
    pub events: Vec<Event>,
    /// Events that others were written over.
    pub lost: u64,
}

impl Trace {
    /// Reads a file; none if it is no trace. What is not whole is left out.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header = Header::parse(bytes)?;
        let word = |at: u64, length: usize| -> u64 {
            let mut eight = [0; 8];
            let found = bytes.get(at as usize..at as usize + length);
            if let Some(found) = found {
                eight[..length].copy_from_slice(found);
            }
            u64::from_le_bytes(eight)
        };
        let written = word(WRITTEN, 8);
        let named = word(NAMED, 4).min(u64::from(MOST_NAMES));
        let names = (0..named)
            .map_while(|at| {
                let begin = (NAMES + at * NAME) as usize;
                bytes.get(begin..begin + NAME as usize).map(read)
            })
            .collect();
        let ring = bytes.get(EVENTS as usize..).unwrap_or_default();
        let used = written.min(header.capacity) as usize;
        let mut events: Vec<Event> = ring
            .chunks_exact(EVENT as usize)
            .take(used)
            .filter_map(Event::parse)
            .collect();
        events.sort_by_key(|event| event.at_ns);
        let lost = written.saturating_sub(header.capacity);
        Some(Self {
            header,
            names,
            events,
            lost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(header: &Header, events: &[Event], written: u64) -> Vec<u8> {
        let mut bytes = vec![0; header.total() as usize];
        bytes[..HEADER].copy_from_slice(&header.emit());
        bytes[WRITTEN as usize..][..8].copy_from_slice(&written.to_le_bytes());
        bytes[NAMED as usize..][..4].copy_from_slice(&1_u32.to_le_bytes());
        bytes[NAMES as usize..][..8].copy_from_slice(b"MPI_Send");
        for (at, event) in events.iter().enumerate() {
            for (place, word) in event.words().iter().enumerate() {
                let begin = EVENTS as usize + at * EVENT as usize + place * 8;
                bytes[begin..begin + 8].copy_from_slice(&word.to_ne_bytes());
            }
        }
        bytes
    }

    fn event(at_ns: u64) -> Event {
        Event {
            at_ns,
            what: What::Sent,
            thread: 3,
            name: 1,
            tag: -5,
            peer: 7,
            seq: 9,
            bytes: 1 << 40,
        }
    }

    fn header(capacity: u64) -> Header {
        Header {
            rank: 2,
            ranks: 4,
            pid: 77,
            capacity,
            host: "here".to_owned(),
            label: "rank 2".to_owned(),
            ..Header::default()
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        // The newest lies before the oldest, and one was being written when the process died.
        let header = header(3);
        let tape = Trace::parse(&file(&header, &[event(30), event(20)], 4)).expect("a trace");
        assert_eq!(tape.header, header);
        assert_eq!(tape.names, ["MPI_Send"]);
        assert_eq!(tape.events, [event(20), event(30)]);
        assert_eq!(tape.lost, 1);
    }

    #[test]
    fn what_is_cut_off_is_left_out() {
        let whole = file(&header(3), &[event(1), event(2), event(3)], 3);
        let cut = Trace::parse(&whole[..EVENTS as usize + 50]).expect("a trace");
        assert_eq!(cut.events, [event(1)]);
        assert!(Trace::parse(&whole[..HEADER - 1]).is_none());
        assert!(Trace::parse(&[0; 8192]).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_not(mut bytes in proptest::collection::vec(any::<u8>(), 0..9000)) {
            let head = header(5).emit();
            if bytes.len() >= HEADER {
                bytes[..HEADER].copy_from_slice(&head);
            }
            let _ = Trace::parse(&bytes);
        }
    }
}
