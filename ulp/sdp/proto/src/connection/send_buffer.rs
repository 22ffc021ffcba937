//! The send buffer, and when a segment of it may leave: what differs between the flow controls on
//! the sending side.
//!
//! Owns: which bytes of the send buffer are in use, and what the peer has room for. Must not know:
//! what messages say, and why a short segment may leave.

use super::config::DATA_WORKS;
use super::config::{Config, HEADER_BYTES, Peer, PeerFlow};
use super::work::{Piece, Violation};
use ferriband_sdp_wire::data_credits;
use std::collections::VecDeque;

/// A part of the stream that leaves by one work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    /// Where its bytes are.
    pub from: Piece,
    /// Where they go in the peer's ring; None if they go by a message.
    pub to: Option<u32>,
    /// Position in the stream of its first byte.
    pub position: u64,
}

/// The send buffer.
#[derive(Clone, Debug)]
pub(super) enum SendBuffer {
    /// *credit*: N buffers, each with room for a header in front.
    Slots(Slots),
    /// *ring* and *nic*: one ring, sent into the peer's ring.
    Stream(Stream),
}

impl SendBuffer {
    pub fn new(config: &Config, peer: &Peer) -> Self {
        let of_stream = |room, peer_ring: u32, full: u32| {
            let size = config.send_bytes();
            SendBuffer::Stream(Stream {
                size,
                peer_ring,
                full: full.min(size).max(1),
                joins: config.coalesce,
                written: 0,
                posted: 0,
                completed: 0,
                room,
            })
        };
        match peer.flow {
            PeerFlow::Credit => SendBuffer::Slots(Slots {
                stride: config.buffer_bytes + HEADER_BYTES,
                most: config.buffer_bytes.min(peer.receive_bytes - HEADER_BYTES),
                count: config.buffers,
                open: 0,
                fill: 0,
                closed: VecDeque::with_capacity(config.buffers.into()),
                posted: VecDeque::with_capacity(config.buffers.into()),
                bytes: 0,
                position: 0,
            }),
            PeerFlow::Ring { ring_bytes } => of_stream(
                Room::Told { tail: 0 },
                ring_bytes,
                config.buffer_bytes.min(ring_bytes / 2),
            ),
            PeerFlow::Nic {
                ring_bytes,
                window_bytes,
            } => of_stream(
                Room::Held {
                    reserve: peer.reserve_bytes(),
                    works: DATA_WORKS.min(peer.receives.into()),
                },
                ring_bytes,
                window_bytes,
            ),
        }
    }

    /// Where the program's next bytes go.
    pub fn reserve(&self, credits: u32, works: u32) -> Option<Piece> {
        match self {
            SendBuffer::Slots(slots) => slots.reserve(credits),
            SendBuffer::Stream(stream) => stream.reserve(credits, works),
        }
    }

    /// So many bytes are there.
    pub fn write(&mut self, bytes: u32) {
        match self {
            SendBuffer::Slots(slots) => slots.write(bytes),
            SendBuffer::Stream(stream) => stream.written += u64::from(bytes),
        }
    }

    /// What is there may leave in a segment that is not full. No effect where nothing waits.
    pub fn close(&mut self) {
        if let SendBuffer::Slots(slots) = self {
            slots.close();
        }
    }

    /// The next segment, which is under way from here on. `short`: one that is not full may leave.
    pub fn next(&mut self, credits: u32, works: u32, short: bool) -> Option<Segment> {
        match self {
            SendBuffer::Slots(slots) => slots.next(credits, works),
            SendBuffer::Stream(stream) => stream.next(credits, works, short),
        }
    }

    /// The oldest segment, of so many bytes, has completed: its bytes are free.
    pub fn complete(&mut self, bytes: u32) {
        match self {
            SendBuffer::Slots(slots) => {
                slots.posted.pop_front();
                slots.bytes -= bytes;
            }
            SendBuffer::Stream(stream) => stream.completed += u64::from(bytes),
        }
    }

    /// Bytes of the stream in the buffer.
    pub fn bytes(&self) -> u32 {
        match self {
            SendBuffer::Slots(slots) => slots.bytes,
            // at most the buffer's size
            SendBuffer::Stream(stream) => (stream.written - stream.completed) as u32,
        }
    }

    /// Bytes of the stream that are not under way.
    pub fn waiting(&self) -> u32 {
        match self {
            SendBuffer::Slots(slots) => slots.waiting(),
            SendBuffer::Stream(stream) => stream.waiting(),
        }
    }

    /// Bytes of the stream that were put under way, modulo 2^32: *ring* and *nic*.
    pub fn position(&self) -> u32 {
        match self {
            SendBuffer::Slots(_) => 0,
            SendBuffer::Stream(stream) => stream.posted as u32,
        }
    }

    /// The peer has read up to this position, modulo 2^32: *ring* alone.
    pub fn tell_tail(&mut self, low: u32) -> Result<(), Violation> {
        let SendBuffer::Stream(stream) = self else {
            return Ok(());
        };
        let posted = stream.posted;
        let Room::Told { tail } = &mut stream.room else {
            return Ok(());
        };
        let ahead = u64::from(low.wrapping_sub(*tail as u32));
        if *tail + ahead > posted {
            return Err(Violation::Position {
                got: low,
                from: *tail as u32,
                to: posted as u32,
            });
        }
        *tail += ahead;
        Ok(())
    }
}

/// N buffers. The program fills one after the other; each leaves as a message.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    /// Bytes from one buffer to the next.
    stride: u32,
    /// Bytes of data that one message takes.
    most: u32,
    count: u16,
    /// The buffer that is being filled, and how far it is.
    open: u16,
    fill: u32,
    /// Buffers that are full or may leave as they are, and those under way, each with its bytes.
    closed: VecDeque<(u16, u32)>,
    posted: VecDeque<u16>,
    bytes: u32,
    position: u64,
}

impl Slots {
    fn piece(&self, slot: u16, from: u32, bytes: u32) -> Piece {
        Piece {
            at: u32::from(slot) * self.stride + HEADER_BYTES + from,
            bytes,
        }
    }

    /// There is a credit for what the program gives, so nothing of it is held back (papers/004,
    /// section 4.2), unless a message without data takes that credit meanwhile.
    fn reserve(&self, credits: u32) -> Option<Piece> {
        let busy = self.closed.len() + self.posted.len();
        let spoken_for = self.closed.len() as u32;
        let has_buffer = self.fill > 0 || busy < usize::from(self.count);
        (has_buffer && data_credits(credits) > spoken_for)
            .then(|| self.piece(self.open, self.fill, self.most - self.fill))
    }

    fn write(&mut self, bytes: u32) {
        self.fill += bytes;
        self.bytes += bytes;
        if self.fill == self.most {
            self.close();
        }
    }

    fn close(&mut self) {
        if self.fill > 0 {
            self.closed.push_back((self.open, self.fill));
            self.open = (self.open + 1) % self.count;
            self.fill = 0;
        }
    }

    fn next(&mut self, credits: u32, works: u32) -> Option<Segment> {
        if data_credits(credits) == 0 || works >= DATA_WORKS {
            return None;
        }
        let (slot, bytes) = self.closed.pop_front()?;
        self.posted.push_back(slot);
        let position = self.position;
        self.position += u64::from(bytes);
        Some(Segment {
            from: self.piece(slot, 0, bytes),
            to: None,
            position,
        })
    }

    fn waiting(&self) -> u32 {
        let closed: u32 = self.closed.iter().map(|(_, bytes)| bytes).sum();
        closed + self.fill
    }
}

/// One ring of bytes, which are written into the peer's ring. Positions count the stream's bytes.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    size: u32,
    peer_ring: u32,
    /// Bytes of a full segment.
    full: u32,
    joins: bool,
    /// Given by the program, under way, completed.
    written: u64,
    posted: u64,
    completed: u64,
    room: Room,
}

/// How the sender knows what the peer has room for.
#[derive(Clone, Debug)]
enum Room {
    /// *ring*: the peer tells what it has read.
    Told {
        /// Up to this position.
        tail: u64,
    },
    /// *nic*: the adapter holds back what has no receive. What has not completed is the NIC-handled
    /// part of the buffer (papers/004, section 5.2); the rest is the software-handled part.
    Held {
        /// Bytes that the NIC-handled part may have.
        reserve: u32,
        /// Segments that it may have.
        works: u32,
    },
}

impl Stream {
    fn waiting(&self) -> u32 {
        // at most the buffer's size
        (self.written - self.posted) as u32
    }

    /// Bytes that may be under way beside those that are.
    fn room(&self, credits: u32, works: u32) -> u32 {
        match self.room {
            Room::Told { tail } => {
                if data_credits(credits) == 0 || works >= DATA_WORKS {
                    return 0;
                }
                self.peer_ring - (self.posted - tail) as u32
            }
            Room::Held {
                reserve,
                works: most,
            } => {
                if works >= most {
                    return 0;
                }
                let held = (self.posted - self.completed) as u32;
                self.full.min(reserve - held)
            }
        }
    }

    fn reserve(&self, credits: u32, works: u32) -> Option<Piece> {
        let used = (self.written - self.completed) as u32;
        let at = (self.written % u64::from(self.size)) as u32;
        let mut bytes = (self.size - used).min(self.size - at);
        if !self.joins {
            // nothing waits: what cannot leave at once is not taken
            let room = self.room(credits, works);
            bytes = if self.waiting() > 0 {
                0
            } else {
                bytes.min(room)
            };
        }
        (bytes > 0).then_some(Piece { at, bytes })
    }

    /// What is left waits until there is room for all of it or for a full segment: many small
    /// gains of room make no small segments.
    fn next(&mut self, credits: u32, works: u32, short: bool) -> Option<Segment> {
        let waiting = self.waiting();
        let least = waiting.min(self.full);
        if waiting == 0 || !(short || waiting >= self.full) {
            return None;
        }
        let room = self.room(credits, works);
        if room < least {
            return None;
        }
        let at = (self.posted % u64::from(self.size)) as u32;
        let to = (self.posted % u64::from(self.peer_ring)) as u32;
        let bytes = waiting
            .min(room)
            .min(self.size - at)
            .min(self.peer_ring - to);
        let position = self.posted;
        self.posted += u64::from(bytes);
        Some(Segment {
            from: Piece { at, bytes },
            to: Some(to),
            position,
        })
    }
}
