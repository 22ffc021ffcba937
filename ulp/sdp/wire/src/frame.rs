//! Frames: what the two ends of a tunnel say to each other in the byte stream of an SDP connection
//! that carries a TCP connection between two hosts. Owns their layout.
//!
//! A frame is 16 bytes: kind 0, reserved 1..4, bytes of data behind it 4..8, a value 8..16. These
//! are bytes of the stream, so frames are not aligned to messages of SDP, and no implementation
//! but the two ends looks at them.
//!
//! The preface is 16 bytes of the TCP stream: a number that both ends know, and a position. It
//! stands where the TCP stream goes on behind what the tunnel has carried.

use crate::error::{EmitError, ParseError};
use crate::header::{prefix, put};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A frame as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct FrameWire {
    kind: u8,
    reserved_1: [u8; 3],
    length: U32,
    value: U64,
}

/// What a frame says. Positions count the bytes that the tunnel has carried in a direction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Frame {
    /// The sender holds the TCP connection: half of the timestamp of its SYN.
    Proof(u16),
    /// The reader of a direction looks at both: its writer may change over.
    Ready,
    /// The writer has changed over behind so many bytes of TCP.
    Change(u64),
    /// The reader reads no further in TCP: the number that stands there if the writer goes back.
    Hold(u64),
    /// So many bytes of data follow, the first of which has this position.
    Data {
        /// The position.
        position: u64,
        /// Bytes, at least 1.
        length_bytes: u32,
    },
    /// The reader's program has read up to this position.
    Tail(u64),
    /// The reader wants the direction back in TCP.
    Recall,
    /// The writer has not changed over, and never will.
    Stays,
}

const PROOF: u8 = 1;
const READY: u8 = 2;
const CHANGE: u8 = 3;
const HOLD: u8 = 4;
const DATA: u8 = 5;
const TAIL: u8 = 6;
const RECALL: u8 = 7;
const STAYS: u8 = 8;

impl Frame {
    /// Bytes on the wire, without data.
    pub const LEN: usize = size_of::<FrameWire>();

    /// Reads a frame; what follows is data, as many bytes as it says.
    ///
    /// # Errors
    /// An unknown kind, or data where none are.
    pub fn parse(bytes: &[u8; Frame::LEN]) -> Result<Self, ParseError> {
        let (wire, _) = prefix::<FrameWire>(bytes, "frame")?;
        let (length, value) = (wire.length.get(), wire.value.get());
        let frame = match wire.kind {
            PROOF => Frame::Proof(u16::try_from(value).map_err(|_| ParseError::Field {
                field: "proof",
                value: u32::try_from(value).unwrap_or(u32::MAX),
            })?),
            READY => Frame::Ready,
            CHANGE => Frame::Change(value),
            HOLD => Frame::Hold(value),
            DATA => Frame::Data {
                position: value,
                length_bytes: length,
            },
            TAIL => Frame::Tail(value),
            RECALL => Frame::Recall,
            STAYS => Frame::Stays,
            kind => {
                return Err(ParseError::Field {
                    field: "kind of frame",
                    value: kind.into(),
                });
            }
        };
        let has_data = matches!(frame, Frame::Data { .. });
        match has_data == (length > 0) {
            true => Ok(frame),
            false => Err(ParseError::Field {
                field: "length of a frame",
                value: length,
            }),
        }
    }

    /// The frame's bytes, without its data.
    pub fn bytes(self) -> [u8; Frame::LEN] {
        let (kind, length, value) = match self {
            Frame::Proof(half) => (PROOF, 0, half.into()),
            Frame::Ready => (READY, 0, 0),
            Frame::Change(offset) => (CHANGE, 0, offset),
            Frame::Hold(number) => (HOLD, 0, number),
            Frame::Data {
                position,
                length_bytes,
            } => (DATA, length_bytes, position),
            Frame::Tail(position) => (TAIL, 0, position),
            Frame::Recall => (RECALL, 0, 0),
            Frame::Stays => (STAYS, 0, 0),
        };
        let wire = FrameWire {
            kind,
            reserved_1: [0; 3],
            length: U32::new(length),
            value: U64::new(value),
        };
        let mut out = [0; Frame::LEN];
        let put: Result<_, EmitError> = put(&wire, &mut out);
        debug_assert!(put.is_ok(), "a frame has its own length");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_comes_back() {
        for frame in [
            Frame::Proof(0xffff),
            Frame::Ready,
            Frame::Change(u64::MAX),
            Frame::Hold(7),
            Frame::Data {
                position: 1 << 40,
                length_bytes: 1,
            },
            Frame::Tail(3),
            Frame::Recall,
            Frame::Stays,
        ] {
            assert_eq!(Frame::parse(&frame.bytes()), Ok(frame));
        }
    }

    #[test]
    fn what_no_end_says_is_refused() {
        let mut bytes = Frame::Ready.bytes();
        for kind in [0, 9, 0xff] {
            bytes[0] = kind;
            assert!(Frame::parse(&bytes).is_err());
        }
        let mut long = Frame::Tail(3).bytes();
        long[7] = 1;
        assert!(Frame::parse(&long).is_err());
        let empty = Frame::Data {
            position: 0,
            length_bytes: 0,
        };
        assert!(Frame::parse(&empty.bytes()).is_err());
        let mut proof = Frame::Proof(1).bytes();
        proof[8] = 1;
        assert!(Frame::parse(&proof).is_err());
    }
}
