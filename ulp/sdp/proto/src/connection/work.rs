//! What a connection's machine asks of its transport, and what it refuses to believe of its peer.
//!
//! Owns: the works and their numbers. Must not know: queue pairs, keys, addresses. Places in memory
//! are offsets into this side's buffers and the peer's ring.

use ferriband_sdp_wire::{Advert, Message, MessageSeq, Mid, ParseError};

/// Bytes of the longest header that a machine writes.
pub const HEAD_BYTES: usize = 64;

/// The number of a work of a queue pair's send queue. Works of one complete in the order of their
/// numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct WorkId(pub u64);

/// Which queue pair of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pair {
    /// The first: bytes of the stream, and all messages but where there is a second.
    Stream,
    /// The second, in *nic* where both sides have one: zero copy.
    Offers,
}

/// A piece of a buffer, in one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Offset of its first byte in the buffer.
    pub at: u32,
    /// Bytes, at least 1.
    pub bytes: u32,
}

/// What the transport is to do, in the order given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Post a receive with this receive buffer.
    Receive {
        /// Of which queue pair.
        pair: Pair,
        /// Number of the buffer; each queue pair has its own.
        slot: u16,
    },
    /// SEND a message.
    Send(SendWork),
    /// RDMA WRITE with immediate data.
    Write(WriteWork),
    /// RDMA READ of the peer's offer.
    Read(ReadWork),
}

/// SEND: a header, and perhaps data of the send buffer behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendWork {
    /// By which queue pair. One with data goes by the first.
    pub pair: Pair,
    /// Its number.
    pub id: WorkId,
    /// The message's header, and what it says beside the stream's data.
    pub head: Head,
    /// The data. In the send buffer there is room for the header right in front of them.
    pub data: Option<Piece>,
}

/// RDMA WRITE with immediate data of a piece of the send buffer, by the first queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteWork {
    /// Its number.
    pub id: WorkId,
    /// The piece.
    pub from: Piece,
    /// Offset in the peer's ring.
    pub to: u32,
    /// The immediate data.
    pub immediate: u32,
}

/// RDMA READ of a piece of the peer's offer into the buffer that the program fetches to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadWork {
    /// By which queue pair.
    pub pair: Pair,
    /// Its number.
    pub id: WorkId,
    /// The piece.
    pub from: Advert,
}

/// The first bytes of a message, as they travel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; HEAD_BYTES],
    length: u8,
}

impl Head {
    /// A message without the stream's data, but whose length field counts `data_bytes` of them.
    pub(super) fn new(message: &Message<'_>, data_bytes: u32) -> Self {
        let mut bytes = [0; HEAD_BYTES];
        let written = message.emit(&mut bytes);
        let length = written.expect("the machine's own messages are short and valid");
        // the length field stands at 4..8 of every message
        let total = (length as u32 + data_bytes).to_be_bytes();
        bytes[4..8].copy_from_slice(&total);
        Head {
            bytes,
            length: length as u8,
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl std::fmt::Debug for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02x?}", self.bytes())
    }
}

/// The peer breaks the protocol, or the transport its promise: the connection is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A message that is none.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// A message's number is not the next.
    #[error("message {got} came, {expected} is next")]
    Number {
        /// The next.
        expected: MessageSeq,
        /// As received.
        got: MessageSeq,
    },
    /// A message acknowledges what was not sent.
    #[error("message {got} is acknowledged, {last} was the last")]
    Acknowledged {
        /// The last message sent.
        last: MessageSeq,
        /// As received.
        got: MessageSeq,
    },
    /// A message that has no place here: in this flow control, or at this time.
    #[error("{0} has no place here")]
    Unexpected(Mid),
    /// An RDMA WRITE with immediate data where none has a place.
    #[error("an RDMA WRITE with immediate data has no place here")]
    UnexpectedWrite,
    /// Data behind the end of the stream.
    #[error("{0} bytes came behind the end of the stream")]
    BehindEnd(u32),
    /// More data than there was room for.
    #[error("{got} bytes came, there was room for {room}")]
    Overrun {
        /// The room.
        room: u32,
        /// Bytes that came.
        got: u32,
    },
    /// A position of the peer that cannot be.
    #[error("the peer tells position {got:#x} where {from:#x} to {to:#x} are possible")]
    Position {
        /// As received.
        got: u32,
        /// The least that is possible.
        from: u32,
        /// The most that is possible.
        to: u32,
    },
    /// A completion of something that was not asked for.
    #[error("a completion for nothing that was posted")]
    Completion,
}
