//! What messages and transports say to each other.
//!
//! Owns: a message that waits, and how a long one can be had. Must not know: either transport.

use crate::host::Source;
use ferriband_mpi_proto::envelope;

/// A message that waits for room.
pub struct Queued {
    /// What it is.
    pub kind: envelope::Kind,
    /// Flags of its envelope.
    pub flags: u8,
    /// Tag of its envelope.
    pub tag: i32,
    /// Context of its envelope.
    pub context: u64,
    /// The body's part that is not the program's.
    pub body: Body,
    /// The program's part.
    pub source: Source,
    /// The request that it belongs to.
    pub request: Option<u32>,
}

/// The part of a message's body that is not the program's: 48 bytes at most.
#[derive(Clone, Copy)]
pub struct Body {
    bytes: [u8; 48],
    length: u8,
}

impl Body {
    /// None.
    pub const EMPTY: Self = Self {
        bytes: [0; 48],
        length: 0,
    };

    /// Copies `bytes`, 48 at most.
    pub fn new(bytes: &[u8]) -> Self {
        let mut body = Self::EMPTY;
        body.bytes[..bytes.len()].copy_from_slice(bytes);
        body.length = bytes.len() as u8;
        body
    }

    /// What was copied.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Memory of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Where it begins there.
    pub address: u64,
    /// Key for requests; 0 on one host, where none is needed.
    pub rkey: u32,
}

/// How a long message can be had from its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It can be read there.
    Readable(Place),
    /// It has to be asked for. It lies in one run of bytes, so it can be sent as one.
    Whole,
    /// It has to be asked for.
    Parts,
}

impl Offered {
    /// Where it can be read.
    pub fn place(self) -> Option<Place> {
        match self {
            Self::Readable(place) => Some(place),
            Self::Whole | Self::Parts => None,
        }
    }
}
