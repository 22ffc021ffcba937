//! What messages between two ranks and transports say to each other.
//!
//! Owns: a message that waits, how a long one can be had, to whom one is told that has come. Must
//! not know: either transport, communicators, requests, what a message is for.

use crate::errors::{MpiError, Outcome, broken};
use crate::ground::memory::{Sink, Source};
use crate::handle::Token;
use crate::trace;
use ferriband_heal::card::Card;
use ferriband_heal::inquiry::CardPort;
use ferriband_mpi_proto::envelope::{Cts, Envelope, GET, Kind, PUT, Rts, WHOLE};
use zerocopy::FromBytes;

/// What an envelope says that is not the transport's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the message is.
    pub kind: Kind,
    /// Flags that are not the transport's.
    pub flags: u8,
    /// The program's tag.
    pub tag: i32,
    /// The communicator's context; bit 0: collective.
    pub context: u64,
}

impl Head {
    /// Of a message of the program that goes eagerly.
    #[inline(always)]
    pub const fn program(tag: i32, context: u64) -> Self {
        Self {
            kind: Kind::Eager,
            flags: 0,
            tag,
            context,
        }
    }

    /// Of a message that is not the program's.
    pub const fn of(kind: Kind) -> Self {
        Self {
            kind,
            flags: 0,
            tag: 0,
            context: 0,
        }
    }
}

/// A message that waits for room.
#[derive(Clone, Copy)]
pub struct Message {
    /// What its envelope says.
    pub head: Head,
    /// The body's part that is not the program's.
    pub body: Body,
    /// The program's part.
    pub source: Source,
    /// What it is a part of; [`Token::NONE`] if nobody asks what becomes of it.
    pub token: Token,
}

impl Message {
    /// One without a byte of the program's, of which nobody asks what becomes of it.
    pub fn answer(kind: Kind, body: &[u8]) -> Self {
        Self {
            head: Head::of(kind),
            body: Body::new(body),
            source: Source::EMPTY,
            token: Token::NONE,
        }
    }
}

/// Messages that have gone: so many of those that waited, from the first on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// How many.
    pub count: u32,
    /// Number of the first; each of the others has the next one.
    pub first: u32,
}

impl Sent {
    /// None now.
    pub const NONE: Self = Self { count: 0, first: 0 };

    /// One, with that number.
    pub const fn one(number: u32) -> Self {
        Self {
            count: 1,
            first: number,
        }
    }
}

/// What becomes of a message that was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is taken: the next one may be told.
    Next,
    /// It is taken: there is something to do before the next one is told.
    Stop,
    /// It is not taken: it stays where it lies. Only of what has come by memory that ranks share.
    Keep,
}

/// What a long message has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Its bytes have gone, or come; or the class of why not.
    Over {
        /// `MPI_SUCCESS`, or why not.
        class: i32,
    },
    /// It has been read, or cannot be, or cannot be written. The peer is to be told.
    Told {
        /// What the peer calls it.
        name: u64,
        /// Bytes of all of it.
        length: u64,
        /// `MPI_SUCCESS`, or why not.
        class: i32,
    },
}

/// Who is told of the messages of a rank, in their order. Whoever it is sends nothing meanwhile.
pub trait Deliver {
    /// A message whose turn it is has come from rank `from` of the world. Its body may be read
    /// until this returns. After an error of class MPI_ERR_NO_MEM, which comes before the delivery,
    /// it is not taken, and stays where it lies.
    fn eager(&mut self, from: u32, envelope: &Envelope, body: Source) -> Outcome<Verdict>;

    /// The long message of `token`, from rank `peer` of the world or to it, has come to this.
    fn done(&mut self, peer: u32, token: Token, done: Done) -> Verdict;
}

/// By what a rank of the world is reached: chosen for each when transports are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It is this one.
    Own,
    /// By memory that both share.
    Memory,
    /// By a device, although it is on this host.
    Near,
    /// By a device: it is on another host.
    Far,
}

impl Reached {
    /// By what ranks of one host reach each other where the setting `same_host` says so.
    pub fn on_one_host(same_host: &str) -> Self {
        match same_host {
            "verbs" => Self::Near,
            _ => Self::Memory,
        }
    }

    /// Whether it is by a device.
    #[inline]
    pub fn is_by_device(self) -> bool {
        match self {
            Self::Near | Self::Far => true,
            Self::Own | Self::Memory => false,
        }
    }

    /// Whether both have memory in common.
    #[inline]
    pub fn is_by_memory(self) -> bool {
        match self {
            Self::Own | Self::Memory => true,
            Self::Near | Self::Far => false,
        }
    }
}

/// Who cannot be reached any more.
#[derive(Debug)]
pub struct Lost {
    /// The rank; none: a transport has failed as a whole, and those whom it reached are told of one
    /// by one.
    pub peer: Option<u32>,
    /// Why, unless somebody knows already.
    pub error: Option<MpiError>,
}

/// What is known of the ranks of the world without a word to them.
pub trait Roster {
    /// This rank is reached so from here on.
    fn publish(&self, card: &Card);

    /// Where a rank's datagrams go, once it has said so.
    fn card(&self, rank: u32) -> Option<Card>;

    /// Where the process of a rank tells the rank's card, if that lies in no memory that is seen
    /// here.
    fn card_port(&self, rank: u32) -> Option<CardPort>;

    /// Whether a rank has nothing more to say, and wants to hear nothing.
    fn is_over(&self, rank: u32) -> bool;

    /// Whether the process of a rank is no more.
    fn has_ended(&self, rank: u32) -> bool;

    /// Whether the process of a rank is seen to be there.
    fn is_there(&self, rank: u32) -> bool;
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
    /// What the receiver is told of a message of `length` bytes that it is to call `name`.
    pub fn rts(self, name: u64, length: u64) -> Rts {
        let mode = match self {
            Self::Readable(_) => GET,
            Self::Whole => WHOLE,
            Self::Parts => PUT,
        };
        let Place { address, rkey } = self.place().unwrap_or_default();
        Rts {
            send_request: name.into(),
            length: length.into(),
            address: address.into(),
            rkey: rkey.into(),
            mode: mode.into(),
        }
    }

    /// What a receiver is told; none if that makes no sense.
    pub fn of(rts: &Rts) -> Option<Self> {
        match rts.mode.get() {
            GET => Some(Self::Readable(Place {
                address: rts.address.get(),
                rkey: rts.rkey.get(),
            })),
            PUT => Some(Self::Parts),
            WHOLE => Some(Self::Whole),
            _ => None,
        }
    }

    /// Where it can be read.
    pub fn place(self) -> Option<Place> {
        match self {
            Self::Readable(place) => Some(place),
            Self::Whole | Self::Parts => None,
        }
    }
}

/// A long message of this rank that its receiver is about to be told of.
#[derive(Clone, Copy)]
pub struct LongSend {
    /// What names it to this side.
    pub token: Token,
    /// What the receiver is to call it.
    pub name: u64,
    /// Its bytes.
    pub source: Source,
}

/// A receive that has met a long message.
#[derive(Clone, Copy)]
pub struct Fetch {
    /// The receive.
    pub receive: Token,
    /// Where the message goes: no more room than is wanted of it.
    pub sink: Sink,
    /// What the sender calls it.
    pub send: u64,
    /// Its bytes.
    pub length: u64,
    /// How it can be had.
    pub offered: Offered,
    /// The number of the message that said so.
    pub told: u32,
    /// The program waits meanwhile.
    pub waits: bool,
}

/// How a long message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// It is here.
    Here,
    /// It is being read: [`Deliver::done`] says when it is here.
    Coming,
    /// Its sender is to be asked for it in this way.
    Ask {
        /// How.
        asked: Asked,
        /// What the transport says to the sender's with that: the CTS's context.
        note: u32,
    },
    /// It cannot be received where it is to go: the class of why not.
    Failed(i32),
}

/// How the sender of a long message is asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// In pieces.
    Pieces,
    /// It is to be written there.
    Written(Place),
    /// It is to be sent to the receive of the lane that has this number.
    Lane(u32),
}

impl Asked {
    /// What the sender is told: the first `length` bytes of its message `send` are asked for, which
    /// the receiver calls `receive`.
    pub fn cts(self, send: u64, receive: u64, length: u64) -> Cts {
        let (place, lane) = match self {
            Self::Pieces => (Place::default(), 0),
            Self::Written(place) => (place, 0),
            Self::Lane(lane) => (Place::default(), lane),
        };
        Cts {
            send_request: send.into(),
            receive_request: receive.into(),
            offset: 0.into(),
            length: length.into(),
            address: place.address.into(),
            rkey: place.rkey.into(),
            lane: lane.into(),
        }
    }

    /// What a sender is told.
    pub fn of(cts: &Cts) -> Self {
        let place = Place {
            address: cts.address.get(),
            rkey: cts.rkey.get(),
        };
        match (cts.lane.get(), place.address) {
            (0, 0) => Self::Pieces,
            (0, _) => Self::Written(place),
            (lane, _) => Self::Lane(lane),
        }
    }

    /// Whether the sender says by a FIN when all has been written; else the receiver's transport
    /// does, or the last piece.
    pub fn has_fin(self) -> bool {
        match self {
            Self::Written(_) => true,
            Self::Pieces | Self::Lane(_) => false,
        }
    }
}

/// Why memory of another rank of the host cannot be read.
#[derive(Debug)]
pub enum Refused {
    /// Nobody's can.
    Always,
    /// Its process is no more.
    Gone,
    /// This cannot.
    This(std::io::Error),
}

/// What becomes of a long message that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It goes: [`Deliver::done`] says when it has gone.
    Moving,
    /// It cannot be sent: the class of why not.
    Failed(i32),
}

/// The beginning of a body as a structure; a body that is too short breaks the rules.
pub fn body_of<T: FromBytes>(from: u32, body: Source) -> Outcome<T> {
    const LONGEST: usize = 48;
    let size = size_of::<T>();
    if body.len() < size {
        return Err(broken(from));
    }
    let mut bytes = [0; LONGEST];
    body.part(0, size).copy_into(&mut bytes[..size]);
    T::read_from_bytes(&bytes[..size]).map_err(|_| broken(from))
}

/// A message has come to a traced rank.
#[cold]
pub fn write_down(from: u32, envelope: &Envelope, body: Source) {
    let mut head = [0; 16];
    let length = head.len().min(body.len());
    body.part(0, length).copy_into(&mut head[..length]);
    let (kind, seq, tag) = (envelope.kind, envelope.seq, envelope.tag);
    let context = envelope.context;
    trace::came(from, kind, seq, tag, context, &head[..length], body.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_long_message_is_understood() {
        let place = Place {
            address: 0x1234_5678_9abc,
            rkey: 77,
        };
        for offered in [Offered::Readable(place), Offered::Whole, Offered::Parts] {
            let rts = offered.rts(5, 1 << 40);
            assert_eq!(Offered::of(&rts), Some(offered));
            assert_eq!((rts.send_request.get(), rts.length.get()), (5, 1 << 40));
        }
        for asked in [Asked::Pieces, Asked::Written(place), Asked::Lane(3)] {
            let cts = asked.cts(5, 6, 7);
            assert_eq!(Asked::of(&cts), asked);
            let told = (cts.send_request.get(), cts.receive_request.get());
            assert_eq!((told, cts.length.get(), cts.offset.get()), ((5, 6), 7, 0));
        }
        let mut rts = Offered::Whole.rts(5, 9);
        rts.mode = 77.into();
        assert_eq!(Offered::of(&rts), None);
    }
}
