//! Base sockets direct header, 16 bytes at the start of every message. Owns its layout and flags.

use crate::error::{EmitError, ParseError};
use crate::header::{prefix, put};
use crate::mid::Mid;
use crate::types::MessageSeq;
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The BSDH as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BsdhWire {
    mid: u8,
    /// reserved:5 REQ_PIPE:1 OOB_PEND:1 OOB_PRES:1.
    flags: u8,
    bufs: U16,
    len: U32,
    mseq: U32,
    mseq_ack: U32,
}

bitflags::bitflags! {
    /// Flags of a message.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Flags: u8 {
        /// The last byte of the message's data is urgent.
        const OOB_PRES = 1;
        /// Urgent data will follow.
        const OOB_PEND = 1 << 1;
        /// The sender asks to change to pipelined mode.
        const REQ_PIPE = 1 << 2;
    }
}

/// What the sender of any message says in its BSDH beside which message it is and how long: that
/// much follows from the message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MessageHeader {
    /// Flags.
    pub flags: Flags,
    /// Receive buffers that the sender has posted: what the credits are reckoned from.
    pub bufs: u16,
    /// Number of this message.
    pub mseq: MessageSeq,
    /// Number of the last message that the sender has received.
    pub mseq_ack: MessageSeq,
}

/// The BSDH's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bsdh {
    /// Which message.
    pub mid: Mid,
    /// Flags.
    pub flags: Flags,
    /// Receive buffers that the sender has posted.
    pub bufs: u16,
    /// Bytes of the message, this header included.
    pub length_bytes: u32,
    /// Number of this message.
    pub mseq: MessageSeq,
    /// Number of the last message that the sender has received.
    pub mseq_ack: MessageSeq,
}

impl Bsdh {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<BsdhWire>();

    /// Reads the header; returns it and what follows. Does not compare the length field with the
    /// bytes.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let (wire, rest) = prefix::<BsdhWire>(bytes, "BSDH")?;
        let bsdh = Bsdh {
            mid: Mid::from_code(wire.mid).ok_or(ParseError::UnknownMid(wire.mid))?,
            flags: Flags::from_bits_truncate(wire.flags),
            bufs: wire.bufs.get(),
            length_bytes: wire.len.get(),
            mseq: MessageSeq(wire.mseq.get()),
            mseq_ack: MessageSeq(wire.mseq_ack.get()),
        };
        Ok((bsdh, rest))
    }

    /// Writes the header; returns what follows.
    pub fn emit<'a>(&self, out: &'a mut [u8]) -> Result<&'a mut [u8], EmitError> {
        let wire = BsdhWire {
            mid: self.mid.code(),
            flags: self.flags.bits(),
            bufs: U16::new(self.bufs),
            len: U32::new(self.length_bytes),
            mseq: U32::new(self.mseq.0),
            mseq_ack: U32::new(self.mseq_ack.0),
        };
        put(&wire, out)
    }

    /// What this header says beside which message it is and how long.
    pub const fn message_header(&self) -> MessageHeader {
        MessageHeader {
            flags: self.flags,
            bufs: self.bufs,
            mseq: self.mseq,
            mseq_ack: self.mseq_ack,
        }
    }
}

/// Views `rest`, all that follows a message's BSDH, as a `W`.
pub(crate) fn exactly<W>(rest: &[u8], mid: Mid) -> Result<&W, ParseError>
where
    W: FromBytes + KnownLayout + Immutable + Unaligned,
{
    let (wire, surplus) = prefix::<W>(rest, mid.name())?;
    nothing(surplus, mid, size_of::<W>())?;
    Ok(wire)
}

/// Refuses bytes after a message's last header, which has `extended` bytes after the BSDH.
pub(crate) fn nothing(surplus: &[u8], mid: Mid, extended: usize) -> Result<(), ParseError> {
    if surplus.is_empty() {
        return Ok(());
    }
    let expected = Bsdh::LEN + extended;
    Err(ParseError::Surplus {
        mid,
        expected,
        got: expected + surplus.len(),
    })
}
