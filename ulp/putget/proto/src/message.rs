//! Bytes of a protocol message: a header of 36 bytes, an address, a payload.
//!
//! Owns: their layout, and which combinations are messages at all. Must not know: what an address
//! means, or whether a request is known.

use crate::status::Status;
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a header (papers/002, Table 3: a message of 4,096 bytes carries 4,060).
pub const HEADER_BYTES: usize = size_of::<HeaderWire>();
/// Bytes of one piece of the initiator's memory in the payload of a long request.
pub const SEGMENT_BYTES: usize = size_of::<SegmentWire>();
/// Bytes of the longest address.
pub const ADDRESS_BYTES: usize = 4 * u8::MAX as usize;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Request: bytes for the target's memory. Short: they are the payload.
    Put,
    /// Request: bytes of the target's memory.
    Get,
    /// Request: bytes for the target's memory, which answers with bytes. Always short.
    Exchange,
    /// The end of a request: data of a short get or an exchange are its payload.
    Response,
    /// Receives were posted again.
    Credits,
    /// The peer may reach memory of the sender itself. The request's number is the lease's, which
    /// a connection uses once.
    Lease,
    /// A lease is over: to be answered when no operation by it is under way.
    Revoke,
    /// No operation by a lease is under way, and none will be.
    Returned,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Put,
        Kind::Get,
        Kind::Exchange,
        Kind::Response,
        Kind::Credits,
        Kind::Lease,
        Kind::Revoke,
        Kind::Returned,
    ];

    const fn code(self) -> u8 {
        match self {
            Kind::Put => 1,
            Kind::Get => 2,
            Kind::Exchange => 3,
            Kind::Response => 4,
            Kind::Credits => 5,
            Kind::Lease => 6,
            Kind::Revoke => 7,
            Kind::Returned => 8,
        }
    }

    fn from_code(code: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.code() == code)
    }

    const fn is_request(self) -> bool {
        matches!(self, Kind::Put | Kind::Get | Kind::Exchange)
    }
}

bitflags::bitflags! {
    /// Flags of a request.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Flags: u8 {
        /// The bytes go by RDMA, by the target.
        const LONG = 1;
        /// The initiator asks for an acknowledgement.
        const ACK = 1 << 1;
        /// Somebody waits for the response: it is to be sent solicited.
        const SOLICIT = 1 << 2;
    }
}

bitflags::bitflags! {
    /// What the holder of a lease may do itself.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Rights: u16 {
        /// Write.
        const PUT = 1;
        /// Read.
        const GET = 1 << 1;
        /// Atomic operations of the adapter on aligned values of 64 bits.
        const ATOMIC = 1 << 2;
        /// Each operation counts at the target: a write carries immediate data, and nothing else
        /// is allowed.
        const COUNTS = 1 << 3;
    }
}

/// A piece of the initiator's memory that the target reaches by RDMA.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Segment {
    /// Its address there.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The key of the registration that it lies in.
    pub key: u32,
}

/// A header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the message is.
    pub kind: Kind,
    /// Flags of a request; none else.
    pub flags: Flags,
    /// Of a response: what became of the request.
    pub status: Status,
    /// Number of the request, which its response repeats.
    pub request: u32,
    /// Receives that the sender has posted again since its last message.
    pub returned: u16,
    /// Of a long request: pieces of the initiator's memory, at least 1. Of a lease: its [`Rights`].
    pub pieces: u16,
    /// Of a request and a lease: which memory. Of a response: what that memory says.
    pub tag: u32,
    /// Of a request: bytes asked for. Of a response: bytes granted. Of a lease: bytes of the
    /// memory.
    pub length: u64,
    /// Of a long request of one piece, and of a lease: where it is. Of a response: offset at the
    /// target.
    pub memory: u64,
    /// Of a long request of one piece, and of a lease: its key.
    pub key: u32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HeaderWire {
    kind: u8,
    flags: u8,
    status: u8,
    address_words: u8,
    request: U32,
    returned: U16,
    pieces: U16,
    tag: U32,
    length: U64,
    memory: U64,
    key: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SegmentWire {
    address: U64,
    length: U64,
    key: U32,
}

/// A message, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// Its header.
    pub header: Header,
    /// What the memory needs beside the tag.
    pub address: &'a [u8],
    /// What follows: data, or pieces.
    pub payload: &'a [u8],
}

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadMessage {
    /// The bytes end too early.
    #[error("a message of {got} bytes; at least {needed} are needed")]
    Truncated {
        /// Bytes needed.
        needed: usize,
        /// Bytes that were there.
        got: usize,
    },
    /// No message has this kind.
    #[error("message kind {0} is unknown")]
    Kind(u8),
    /// A field has a value that this kind of message cannot have.
    #[error("a message of kind {kind:?} whose {field} is {value:#x}")]
    Field {
        /// The kind.
        kind: Kind,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}

impl<'a> Message<'a> {
    /// Takes a message apart. Any bytes may be given.
    ///
    /// # Errors
    /// The bytes are no message.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, BadMessage> {
        let truncated = |needed| BadMessage::Truncated {
            needed,
            got: bytes.len(),
        };
        let (wire, rest) =
            HeaderWire::ref_from_prefix(bytes).map_err(|_| truncated(HEADER_BYTES))?;
        let kind = Kind::from_code(wire.kind).ok_or(BadMessage::Kind(wire.kind))?;
        let bad = |field, value| BadMessage::Field { kind, field, value };
        // flags of a later version change nothing here
        let flags = Flags::from_bits_truncate(wire.flags);
        let status = Status::from_code(wire.status).ok_or(bad("status", wire.status.into()))?;
        let address_bytes = 4 * usize::from(wire.address_words);
        let (address, payload) = rest
            .split_at_checked(address_bytes)
            .ok_or(truncated(HEADER_BYTES + address_bytes))?;
        let header = Header {
            kind,
            flags,
            status,
            request: wire.request.get(),
            returned: wire.returned.get(),
            pieces: wire.pieces.get(),
            tag: wire.tag.get(),
            length: wire.length.get(),
            memory: wire.memory.get(),
            key: wire.key.get(),
        };
        let message = Message {
            header,
            address,
            payload,
        };
        message.check()?;
        Ok(message)
    }

    /// Whether the header's fields and the payload belong together.
    fn check(&self) -> Result<(), BadMessage> {
        let Header { kind, .. } = self.header;
        let bad = |field, value| Err(BadMessage::Field { kind, field, value });
        let got = self.payload.len() as u64;
        if kind.is_request() {
            if self.header.status != Status::Ok {
                return bad("status", self.header.status.code().into());
            }
        } else if !self.header.flags.is_empty() || !self.address.is_empty() && kind != Kind::Lease {
            return bad("flags or address", self.header.flags.bits().into());
        }
        if kind == Kind::Lease {
            return self.check_lease();
        }
        if self.header.flags.contains(Flags::LONG) {
            return self.check_long();
        }
        if self.header.pieces != 0 {
            return bad("number of pieces", self.header.pieces.into());
        }
        let fits = match kind {
            Kind::Put => got == self.header.length,
            Kind::Exchange => got >= self.header.length,
            Kind::Get | Kind::Credits | Kind::Lease | Kind::Revoke | Kind::Returned => got == 0,
            // a short get's data, all of them; none of other requests
            Kind::Response => got == 0 || got == self.header.length,
        };
        if fits { Ok(()) } else { bad("payload", got) }
    }

    fn check_lease(&self) -> Result<(), BadMessage> {
        let Header {
            kind,
            memory,
            length,
            ..
        } = self.header;
        let bad = |field, value| Err(BadMessage::Field { kind, field, value });
        if !self.payload.is_empty() {
            return bad("payload", self.payload.len() as u64);
        }
        match memory.checked_add(length) {
            Some(_) => Ok(()),
            None => bad("length", length),
        }
    }

    fn check_long(&self) -> Result<(), BadMessage> {
        let Header { kind, pieces, .. } = self.header;
        let bad = |field, value| Err(BadMessage::Field { kind, field, value });
        let listed = match pieces {
            0 => return bad("number of pieces", 0),
            1 => 0,
            more => usize::from(more) * SEGMENT_BYTES,
        };
        if kind == Kind::Exchange {
            return bad("flags", self.header.flags.bits().into());
        }
        if self.payload.len() != listed {
            return bad("payload", self.payload.len() as u64);
        }
        let mut total = 0_u64;
        for segment in self.segments() {
            let end = segment.address.checked_add(segment.length);
            total = total.saturating_add(segment.length);
            if end.is_none() {
                return bad("piece", segment.address);
            }
        }
        match total == self.header.length {
            true => Ok(()),
            false => bad("length", self.header.length),
        }
    }

    /// The initiator's memory that a long request names.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + use<'a> {
        let header = self.header;
        let long = header.flags.contains(Flags::LONG);
        let one = (long && header.pieces == 1).then_some(Segment {
            address: header.memory,
            length: header.length,
            key: header.key,
        });
        let listed: &[SegmentWire] = match long && header.pieces > 1 {
            true => <[SegmentWire]>::ref_from_bytes(self.payload).unwrap_or(&[]),
            false => &[],
        };
        one.into_iter().chain(listed.iter().map(|wire| Segment {
            address: wire.address.get(),
            length: wire.length.get(),
            key: wire.key.get(),
        }))
    }
}

impl Header {
    /// A request's or response's header of a kind; all else is none.
    pub const fn new(kind: Kind, request: u32) -> Header {
        Header {
            kind,
            flags: Flags::empty(),
            status: Status::Ok,
            request,
            returned: 0,
            pieces: 0,
            tag: 0,
            length: 0,
            memory: 0,
            key: 0,
        }
    }

    /// The memory that a lease is for.
    pub(crate) const fn leased(&self) -> Segment {
        Segment {
            address: self.memory,
            length: self.length,
            key: self.key,
        }
    }

    /// Names the initiator's memory of a long request.
    pub(crate) fn set_segments(&mut self, segments: &[Segment]) {
        self.flags |= Flags::LONG;
        self.pieces = segments.len() as u16;
        if let [one] = segments {
            (self.memory, self.key) = (one.address, one.key);
        }
    }

    /// Writes the header and an address, whose length is a multiple of 4 of at most
    /// [`ADDRESS_BYTES`], behind what `out` has.
    pub(crate) fn emit(&self, address: &[u8], out: &mut Vec<u8>) {
        let wire = HeaderWire {
            kind: self.kind.code(),
            flags: self.flags.bits(),
            status: self.status.code(),
            address_words: (address.len() / 4) as u8,
            request: U32::new(self.request),
            returned: U16::new(self.returned),
            pieces: U16::new(self.pieces),
            tag: U32::new(self.tag),
            length: U64::new(self.length),
            memory: U64::new(self.memory),
            key: U32::new(self.key),
        };
        out.extend_from_slice(wire.as_bytes());
        out.extend_from_slice(address);
    }
}

impl Segment {
    /// Writes it as one of several pieces.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        let wire = SegmentWire {
            address: U64::new(self.address),
            length: U64::new(self.length),
            key: U32::new(self.key),
        };
        out.extend_from_slice(wire.as_bytes());
    }
}
