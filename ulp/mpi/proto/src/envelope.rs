//! The envelope before every message, and the bodies of those that are not the program's.
//!
//! Everything received is hostile: a kind that nobody knows and a body that is too short are errors, which end the connection.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of an envelope.
pub const ENVELOPE: usize = 28;

/// Bytes of an envelope between ranks that share memory: nothing is acknowledged there.
pub const NEAR_ENVELOPE: usize = 24;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A message of the program, whole.
    Eager = 1,
    /// A message that is too long to come eagerly: where it lies.
    Rts = 2,
    /// Write this range of it to there.
    Cts = 3,
    /// A range has been read or written.
    Fin = 4,
    /// A synchronous message has met its receive.
    Matched = 5,
    /// Take back an unmatched message.
    Cancel = 6,
    /// What became of that.
    Cancelled = 7,
    /// Credit, acknowledgement and flags alone.
    Note = 8,
    /// I go to sleep: do not write records to me.
    Pause = 9,
    /// My last record lies before this.
    Paused = 10,
    /// May I write records into a block of yours?
    Open = 11,
    /// Into this one; or no.
    Opened = 12,
    /// I need the block for others: write no more to it.
    Close = 13,
    /// My last record lies before this, and I write no more.
    Closed = 14,
    /// Write records to me again.
    Resume = 16,
    /// A range of a long message, where the receiver cannot read the sender's memory.
    Piece = 17,
    /// Several messages, one after the other, each with its envelope and its length before it ([`ITEM`]).
    Bundle = 18,
    /// A second queue pair of mine, whose receives are for long messages of yours.
    Lane = 19,
    /// Memory that a message of the sender's has named has another key.
    Renew = 20,
    /// A word about failures: that a communicator is revoked, or of an agreement
    /// ([`crate::agree`]).
    Fault = 21,
}

/// Bytes of the length before each message of a bundle: of its envelope and what follows, little-endian.
pub const ITEM: usize = 4;

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Eager,
            2 => Self::Rts,
            3 => Self::Cts,
            4 => Self::Fin,
            5 => Self::Matched,
            6 => Self::Cancel,
            7 => Self::Cancelled,
            8 => Self::Note,
            9 => Self::Pause,
            10 => Self::Paused,
            11 => Self::Open,
            12 => Self::Opened,
            13 => Self::Close,
            14 => Self::Closed,
            16 => Self::Resume,
            17 => Self::Piece,
            18 => Self::Bundle,
            19 => Self::Lane,
            20 => Self::Renew,
            21 => Self::Fault,
            _ => return None,
        })
    }

    /// Whether such messages are counted, and so delivered in order.
    pub fn is_numbered(self) -> bool {
        !matches!(
            self,
            Self::Note
                | Self::Pause
                | Self::Paused
                | Self::Open
                | Self::Opened
                | Self::Close
                | Self::Closed
                | Self::Resume
                | Self::Bundle
                | Self::Renew
        )
    }
}

/// Tell me when it matches.
pub const SYNC: u8 = 1;
/// Acknowledge it before the round is over in which it is taken: its sender waits for that.
pub const ACKNOW: u8 = 2;
/// The last of several.
pub const LAST: u8 = 8;
/// Between ranks that share memory: the message does not lie here but in one of the pair's places, as this says ([`Placed`]).
pub const PLACED: u8 = 32;

/// What says where a message lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its bytes.
    pub length: u32,
    /// The place: 0 if it is the one that the lower rank was the first to write to.
    pub place: u32,
}

/// Bytes of such a word.
pub const PLACED_BYTES: usize = 8;

impl Placed {
    /// The word.
    #[inline]
    pub fn emit(self) -> [u8; PLACED_BYTES] {
        (u64::from(self.length) | u64::from(self.place) << 32).to_le_bytes()
    }

    /// What a word says.
    #[inline]
    pub fn parse(bytes: [u8; PLACED_BYTES]) -> Self {
        let word = u64::from_le_bytes(bytes);
        Self {
            length: word as u32,
            place: (word >> 32) as u32,
        }
    }
}

/// The envelope as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// What follows.
    pub kind: Kind,
    /// [`SYNC`], [`ACKNOW`], [`LAST`] and [`PLACED`].
    pub flags: u8,
    /// Number of this message among the numbered ones to this peer, from 1; 0 for the others.
    pub seq: u32,
    /// Highest number received in order from the receiver of this envelope.
    pub ack: u32,
    /// Granules consumed, in all, of the channel towards the sender of this envelope.
    pub credit: u32,
    /// The program's tag.
    pub tag: i32,
    /// The communicator's context; bit 0: collective.
    pub context: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Bytes {
    kind: u8,
    flags: u8,
    zero: U16,
    seq: U32,
    ack: U32,
    credit: U32,
    tag: U32,
    context: U64,
}

impl Envelope {
    /// The envelope's bytes.
    #[inline]
    pub fn emit(&self) -> [u8; ENVELOPE] {
        zerocopy::transmute!(Bytes {
            kind: self.kind as u8,
            flags: self.flags,
            zero: U16::ZERO,
            seq: U32::new(self.seq),
            ack: U32::new(self.ack),
            credit: U32::new(self.credit),
            tag: U32::new(self.tag.cast_unsigned()),
            context: U64::new(self.context),
        })
    }

    /// The envelope between ranks that share memory: three words of eight bytes, little-endian, with kind, flags and number; credit and tag; context. Numbers, so that who
    /// stores or loads one has it in registers: what is stored in small pieces and loaded in large ones waits until the stores are done.
    #[inline(always)]
    pub fn words(&self) -> [u64; NEAR_ENVELOPE / 8] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let first = u32::from(self.kind as u8) | u32::from(self.flags) << 8;
        let tag = self.tag.cast_unsigned();
        [pair(first, self.seq), pair(self.credit, tag), self.context]
    }

    /// The first of these words, of a message of the program of this number about which there is nothing to say: most are such.
    #[inline(always)]
    pub fn plain(seq: u32) -> u64 {
        Kind::Eager as u64 | u64::from(seq) << 32
    }

    /// The same of one that lies in a place.
    #[inline(always)]
    pub fn placed(seq: u32) -> u64 {
        Self::plain(seq) | (PLACED as u64) << 8
    }

    /// Tag and credit, of the second word.
    #[inline(always)]
    pub fn tag_and_credit(word: u64) -> (i32, u32) {
        (((word >> 32) as u32).cast_signed(), word as u32)
    }

    /// What the words say; none if nobody knows such a kind.
    #[inline]
    pub fn from_words([first, second, context]: [u64; NEAR_ENVELOPE / 8]) -> Option<Self> {
        let (tag, credit) = Self::tag_and_credit(second);
        Some(Self {
            kind: Kind::from_byte(first as u8)?,
            flags: (first >> 8) as u8,
            seq: (first >> 32) as u32,
            ack: 0,
            credit,
            tag,
            context,
        })
    }

    /// What the bytes say; none if nobody knows such a kind.
    #[inline]
    pub fn parse(bytes: [u8; ENVELOPE]) -> Option<Self> {
        let bytes: Bytes = zerocopy::transmute!(bytes);
        Some(Self {
            kind: Kind::from_byte(bytes.kind)?,
            flags: bytes.flags,
            seq: bytes.seq.get(),
            ack: bytes.ack.get(),
            credit: bytes.credit.get(),
            tag: bytes.tag.get().cast_signed(),
            context: bytes.context.get(),
        })
    }
}

/// Body of [`Kind::Rts`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Rts {
    /// The sender's request.
    pub send_request: U64,
    /// Bytes of the message.
    pub length: U64,
    /// Where it lies in the sender's memory.
    pub address: U64,
    /// Key for that, 0 on one host.
    pub rkey: U32,
    /// [`GET`], [`PUT`] or [`WHOLE`].
    pub mode: U32,
}

/// Address and key are valid: read it.
pub const GET: u32 = 1;
/// Ask for it.
pub const PUT: u32 = 2;
/// Ask for it: it lies in one run of bytes, so it can be sent as one message.
pub const WHOLE: u32 = 3;

/// Body of [`Kind::Cts`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Cts {
    /// The sender's request, as its RTS named it.
    pub send_request: U64,
    /// The receiver's request.
    pub receive_request: U64,
    /// First byte of the range that is asked for.
    pub offset: U64,
    /// Bytes of that range.
    pub length: U64,
    /// Where to write it to; 0: send it in pieces.
    pub address: U64,
    /// Key for that.
    pub rkey: U32,
    /// 0; or else it is to come by the lane, into the receive of this number there, from 1, modulo 2^32 without 0. Address and key are 0 then.
    pub lane: U32,
}

/// Body of [`Kind::Lane`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Lane {
    /// Number of the queue pair, 24 bits.
    pub qpn: U32,
    /// The PSN that its sends begin with, 24 bits.
    pub psn: U32,
    /// The life of the connection that it belongs to: in another one it means nothing.
    pub epoch: U32,
}

/// Body of [`Kind::Fin`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Fin {
    /// The request of who receives this.
    pub request: U64,
    /// First byte of the range.
    pub offset: U64,
    /// Its bytes.
    pub length: U64,
    /// 0, or an error class.
    pub status: U32,
    /// Zero.
    pub zero: U32,
}

impl Fin {
    /// Tells a peer that all `length` bytes of its request have been read, or are written; or the
    /// error class of why they are not.
    pub fn of(request: u64, length: u64, class: i32) -> Self {
        Self {
            request: request.into(),
            offset: 0.into(),
            length: length.into(),
            status: class.cast_unsigned().into(),
            zero: 0.into(),
        }
    }
}

/// Body of [`Kind::Renew`]: 32 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Renew {
    /// The request of who sends this, as its RTS or CTS named it.
    pub token: U64,
    /// Where its memory begins.
    pub address: U64,
    /// Key for that.
    pub rkey: U32,
    /// 0, or the error class with which the message ends.
    pub class: U32,
    /// [`Renew::SOURCE`], [`Renew::SINK`] or [`Renew::LANDING`].
    pub what: U32,
    /// Zero.
    pub zero: U32,
}

impl Renew {
    /// The memory is what an RTS named.
    pub const SOURCE: u32 = 1;
    /// The memory is what a CTS named.
    pub const SINK: u32 = 2;
    /// A receive of the lane was posted there, and is given up: there is no key, only a class.
    pub const LANDING: u32 = 3;
}

/// Body of [`Kind::Matched`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Matched {
    /// The number of the message that asked.
    pub seq: U64,
}

/// Body of [`Kind::Cancel`] and of its answer.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Recall {
    /// The number of the message that is taken back.
    pub seq: U32,
    /// In the answer 1 if it had not met its receive and is gone, else 0.
    pub found: U32,
}

/// Body of [`Kind::Open`] and [`Kind::Opened`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Channel {
    /// How the block is filled: the number of a [`crate::fast::Design`].
    pub design: U32,
    /// Bytes of the block.
    pub size: U32,
    /// Bytes of a granule.
    pub granule: U32,
    /// Key for what `address` names.
    pub rkey: U32,
    /// Where the sender's return word lies; in the answer, where the block does.
    pub address: U64,
    /// Which life of the channel, from 0.
    pub epoch: U32,
    /// In the answer: 1 if there is a block.
    pub granted: U32,
}

/// Body of [`Kind::Pause`], [`Kind::Paused`], [`Kind::Resume`], [`Kind::Close`] and [`Kind::Closed`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Phase {
    /// Which pause, or which life of the channel, this is about.
    pub epoch: U32,
    /// PAUSE: 1 if its sender will not write either. RESUME: how many such promises it knows of. Else 0.
    pub own: U32,
}

/// What precedes the bytes of a [`Kind::Piece`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Piece {
    /// The receiver's request, as its CTS named it.
    pub receive_request: U64,
    /// Where in the message these bytes lie.
    pub offset: U64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind() -> impl Strategy<Value = Kind> {
        prop::sample::select(vec![
            Kind::Eager,
            Kind::Rts,
            Kind::Cts,
            Kind::Fin,
            Kind::Matched,
            Kind::Cancel,
            Kind::Cancelled,
            Kind::Note,
            Kind::Open,
            Kind::Opened,
            Kind::Piece,
            Kind::Pause,
            Kind::Paused,
            Kind::Close,
            Kind::Closed,
            Kind::Resume,
            Kind::Lane,
            Kind::Renew,
        ])
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            kind in kind(), flags: u8, seq: u32, ack: u32, credit: u32, tag: i32, context: u64,
        ) {
            let envelope = Envelope { kind, flags, seq, ack, credit, tag, context };
            prop_assert_eq!(Envelope::parse(envelope.emit()), Some(envelope));
            // Between ranks that share memory nothing is acknowledged.
            let envelope = Envelope { ack: 0, ..envelope };
            let words = envelope.words();
            prop_assert_eq!(Envelope::from_words(words), Some(envelope));
            let is_plain = kind == Kind::Eager && flags == 0;
            prop_assert_eq!(words[0] == Envelope::plain(seq), is_plain);
            prop_assert_eq!(Envelope::tag_and_credit(words[1]), (tag, credit));
        }

        #[test]
        fn any_words_are_an_envelope_or_none(words: [u64; 3]) {
            if let Some(envelope) = Envelope::from_words(words) {
                // Two bytes have no meaning.
                let [first, rest @ ..] = envelope.words();
                prop_assert_eq!([first, rest[0], rest[1]], [words[0] & !0xffff_0000, words[1], words[2]]);
            }
        }

        #[test]
        fn any_bytes_are_an_envelope_or_none(bytes: [u8; ENVELOPE]) {
            if let Some(envelope) = Envelope::parse(bytes) {
                let again = envelope.emit();
                prop_assert_eq!(&again[..2], &bytes[..2]);
                prop_assert_eq!(&again[4..], &bytes[4..]);
            }
        }
    }

    #[test]
    fn fields_lie_where_the_design_says() {
        let bytes = Envelope {
            kind: Kind::Piece,
            flags: LAST,
            seq: 0x0403_0201,
            ack: 5,
            credit: 6,
            tag: -2,
            context: 7,
        }
        .emit();
        assert_eq!(bytes[..8], [17, 8, 0, 0, 1, 2, 3, 4]);
        assert_eq!(bytes[16..21], [0xfe, 0xff, 0xff, 0xff, 7]);
        assert_eq!(size_of::<Rts>(), 32);
        assert_eq!(size_of::<Cts>(), 48);
        assert_eq!(size_of::<Fin>(), 32);
        assert_eq!(size_of::<Channel>(), 32);
        assert_eq!(size_of::<Lane>(), 12);
        assert_eq!(size_of::<Renew>(), 32);
    }
}
