//! The messages as bytes. Owns: their layout and their limits. Must not know: who sends them.
//!
//! One message is one packet of a SEQPACKET socket: a header, and a body whose length its kind
//! fixes. Numbers are big-endian. Bytes that are not exactly what [`Packet::emit`] gives are no
//! message.

use super::report::{About, Row, Stranger};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use zerocopy::network_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// More bytes than any message has.
pub const MOST_BYTES: usize = 128;
/// The version of these messages.
pub const VERSION: u16 = 2;

const MAGIC: [u8; 4] = *b"FBsd";

/// The name of a process's own socket: random, so that nobody can bind it before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name(pub [u8; 16]);

/// Two sockets of one connection, as their connecting side names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The kernel's number of the connected socket.
    pub connected: u64,
    /// The kernel's number of the accepted socket.
    pub accepted: u64,
    /// The connected socket's own address.
    pub connected_end: SocketAddr,
    /// The accepted socket's own address.
    pub accepted_end: SocketAddr,
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// To a family: who holds the accepted socket with this number?
    Ask {
        /// The kernel's number of the accepted socket; to a family of a directory
        /// [`super::ends_number`].
        cookie: u64,
    },
    /// A family's answer: the process with this name.
    At(Name),
    /// A family's answer: it does not know.
    Nowhere,
    /// To a holder: take this connection over. With the first one of a channel comes the eventfd
    /// that tells the connecting side.
    Request(Request),
    /// A holder's answer: the connection has this slot. With the first slot of a segment comes the
    /// segment; behind it, with the first answer of this kind, the eventfd that tells the holder.
    Agreed {
        /// The segment's number: they are counted from 0 for each channel.
        segment: u32,
        /// The slot.
        slot: u32,
    },
    /// A holder's answer: the connection stays TCP.
    Refused(Reason),
    /// A holder's answer: not at this time.
    Later,
    /// To a holder: the connecting side looks at the slot no more. It has no answer.
    Over {
        /// The segment's number.
        segment: u32,
        /// The slot.
        slot: u32,
    },
    /// Either way, between two processes that share a segment: the sender's waiters have a box
    /// more. With it comes the eventfd that tells them. It has no answer.
    Bell {
        /// The box's number, which is not 0.
        number: u32,
    },
    /// To a holder, from its own user or from root: what are your streams, from this descriptor
    /// number on? The answer is [`Message::About`] and [`Message::Stranger`] if the number is 0,
    /// then [`Message::Row`], then [`Message::Rows`].
    Status {
        /// The least descriptor number.
        from: i32,
    },
    /// A holder's answer: itself.
    About(About),
    /// A holder's answer: somebody who has spoken for what is not his.
    Stranger(Stranger),
    /// A holder's answer: one stream.
    Row(Row),
    /// A holder's answer: that was all for this question.
    Rows {
        /// Where the next question begins. -1: there are no more.
        next: i32,
    },
    /// To a holder in another network namespace, before [`Message::Request`], whose accepted socket
    /// has no number so far: this connection is the sender's. With it comes a socket by which the
    /// kernel tells so, and with the first of a channel the sender's network namespace.
    Claim(Request),
    /// A holder's answer to whoever has claimed what is his: it holds the accepted socket. With it
    /// comes what came with the claim, of the holder's side.
    Held {
        /// The kernel's number of the accepted socket.
        cookie: u64,
    },
}

/// A message and the number that its answer repeats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The number of the question.
    pub number: u32,
    /// The message.
    pub message: Message,
}

/// The bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// An enum whose variants have a code and a sentence.
macro_rules! reasons {
    ($(#[doc = $about:literal])+ $kind:ident;
        $($(#[doc = $text:literal])+ $name:ident = $code:literal, $sentence:literal;)+) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u16)]
        pub enum $kind {
            $($(#[doc = $text])+ $name = $code,)+
        }

        impl $kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// One sentence for a person.
            pub fn sentence(self) -> &'static str {
                match self {
                    $(Self::$name => $sentence,)+
                }
            }

            /// The one with this code.
            pub(crate) fn from_code(code: u16) -> Result<Self, $crate::meet::message::Malformed> {
                let found = Self::ALL.iter().find(|reason| **reason as u16 == code);
                found.copied().ok_or($crate::meet::message::Malformed)
            }
        }
    };
}
pub(super) use reasons;

reasons! {
    /// Why a connection stays TCP, as the negotiation finds it.
    Reason;
    /// No family at the port.
    Nobody = 1, "no program at this port takes part";
    /// `sock_diag` knows no such socket.
    Elsewhere = 2, "the peer is not in this network namespace";
    /// The connection is about to end.
    NotEstablished = 3, "the connection is not established";
    /// A uid that this user namespace cannot name.
    UnknownUser = 4, "one end's user is nobody (65534), which stands for all who have no number here";
    /// SO_PEERCRED's uid is not that of the socket.
    NotTheUser = 6, "whoever answered for the connection is another user than its holder";
    /// A cookie is not that of the socket.
    NotTheSocket = 7, "whoever spoke for the connection does not hold it";
    /// The family or the holder does not know the cookie.
    NotHeld = 8, "no program that takes part holds the peer's socket";
    /// The answer did not come in time.
    NoAnswer = 9, "the peer's program did not answer within a second";
    /// The bytes that came are no answer.
    Nonsense = 10, "whoever has the port's name for the negotiation gave no answer to be used";
    /// Memory or descriptors.
    NoMemory = 11, "memory or descriptors are exhausted";
    /// A limit of a pair.
    TooMany = 12, "the two programs have too many connections";
    /// It has a slot already.
    Already = 13, "the connection is taken over already";
    /// `sock_diag` does not answer.
    NoDiag = 14, "the kernel does not tell whose socket the peer's is";
    /// The program uses the socket in a way that only the kernel serves.
    Unfit = 15, "the peer's program uses the socket in a way that only TCP serves";
    /// The channel to the holder has ended.
    Broken = 16, "the peer's program has ended, or broke the rules of the negotiation";
    /// Nobody has the port's name in the directory.
    NobodyMeets = 17, "the peer is in another network namespace, and no program at its port takes part in the directory of the setting meet";
    /// A network namespace that is not believed.
    OtherOwner = 18, "the other end's network namespace does not belong to this program's user namespace";
    /// NS_GET_ID.
    NoNamespaces = 19, "the kernel does not tell network namespaces apart, as Linux 6.18 does";
    /// Settings `ranges` and `same_host`.
    NotListed = 20, "the peer is on another host, and the setting ranges does not list its address";
    /// TCP_TIMESTAMP at connect(2).
    NoStamp = 21, "TCP has no timestamps here, by which both ends of a connection by queue pairs prove that it is theirs";
    /// The adapter's library, its device, or the address of none.
    NoAdapter = 22, "no adapter is to be had, or the connection's address belongs to none";
    /// Nobody listens for it, or nobody answers.
    NoHostAnswers = 23, "no program at the peer's port answers by queue pairs";
    /// The peer's `ranges`, or a socket without a SYN that was kept.
    NotListedThere = 24, "the peer's program takes no connection of this host's by queue pairs";
    /// A refusal, or an acceptance, of another protocol.
    NoSuchProtocol = 25, "the peer's program answers by queue pairs as none of this version does";
    /// The other half of the proof was wrong, or has not come.
    NotProven = 26, "the two ends could not prove to each other by queue pairs that the connection is theirs";
    /// Queue pairs of one host join processes of one user.
    OtherUser = 27, "the peer's program is another user's, whom queue pairs on one host do not reach";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 4],
    version: U16,
    kind: U16,
    /// Of the whole message.
    length: U32,
    number: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct End {
    /// An IPv4 address is mapped.
    ip: [u8; 16],
    port: U16,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RequestBody {
    connected: U64,
    accepted: U64,
    connected_end: End,
    accepted_end: End,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct SlotBody {
    segment: U32,
    slot: U32,
}

const ASK: u16 = 1;
const AT: u16 = 2;
const NOWHERE: u16 = 3;
const REQUEST: u16 = 4;
const AGREED: u16 = 5;
const REFUSED: u16 = 6;
const LATER: u16 = 7;
const OVER: u16 = 8;
const BELL: u16 = 9;
const STATUS: u16 = 10;
const ABOUT: u16 = 11;
const STRANGER: u16 = 12;
const ROW: u16 = 13;
const ROWS: u16 = 14;
const CLAIM: u16 = 15;
const HELD: u16 = 16;

const _: () = assert!(size_of::<Header>() + size_of::<RequestBody>() <= MOST_BYTES);

impl Packet {
    /// The bytes.
    pub fn emit(&self) -> Vec<u8> {
        let slot = |segment: u32, slot: u32| {
            let body = SlotBody {
                segment: segment.into(),
                slot: slot.into(),
            };
            body.as_bytes().to_vec()
        };
        let (kind, body) = match self.message {
            Message::Ask { cookie } => (ASK, U64::new(cookie).as_bytes().to_vec()),
            Message::At(name) => (AT, name.0.to_vec()),
            Message::Nowhere => (NOWHERE, Vec::new()),
            Message::Request(request) => (REQUEST, RequestBody::from(request).as_bytes().to_vec()),
            Message::Agreed { segment, slot: at } => (AGREED, slot(segment, at)),
            Message::Refused(reason) => (REFUSED, U16::new(reason as u16).as_bytes().to_vec()),
            Message::Later => (LATER, Vec::new()),
            Message::Over { segment, slot: at } => (OVER, slot(segment, at)),
            Message::Bell { number } => (BELL, U32::new(number).as_bytes().to_vec()),
            Message::Status { from } => (STATUS, I32::new(from).as_bytes().to_vec()),
            Message::About(about) => (ABOUT, about.emit()),
            Message::Stranger(stranger) => (STRANGER, stranger.emit()),
            Message::Row(row) => (ROW, row.emit()),
            Message::Rows { next } => (ROWS, I32::new(next).as_bytes().to_vec()),
            Message::Claim(request) => (CLAIM, RequestBody::from(request).as_bytes().to_vec()),
            Message::Held { cookie } => (HELD, U64::new(cookie).as_bytes().to_vec()),
        };
        let header = Header {
            magic: MAGIC,
            version: VERSION.into(),
            kind: kind.into(),
            length: ((size_of::<Header>() + body.len()) as u32).into(),
            number: self.number.into(),
        };
        [header.as_bytes(), &body].concat()
    }

    /// The message that has these bytes.
    ///
    /// # Errors
    /// There is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (header, body) = Header::read_from_prefix(bytes).map_err(|_| Malformed)?;
        let is_ours = header.magic == MAGIC && header.version.get() == VERSION;
        if !is_ours || header.length.get() as usize != bytes.len() {
            return Err(Malformed);
        }
        let message = match header.kind.get() {
            ASK => Message::Ask {
                cookie: exact::<U64>(body)?.get(),
            },
            AT => Message::At(Name(exact(body)?)),
            NOWHERE if body.is_empty() => Message::Nowhere,
            REQUEST => Message::Request(exact::<RequestBody>(body)?.into()),
            AGREED => {
                let SlotBody { segment, slot } = exact(body)?;
                let (segment, slot) = (segment.get(), slot.get());
                Message::Agreed { segment, slot }
            }
            REFUSED => Message::Refused(Reason::from_code(exact::<U16>(body)?.get())?),
            LATER if body.is_empty() => Message::Later,
            OVER => {
                let SlotBody { segment, slot } = exact(body)?;
                let (segment, slot) = (segment.get(), slot.get());
                Message::Over { segment, slot }
            }
            BELL => Message::Bell {
                number: exact::<U32>(body)?.get(),
            },
            STATUS => Message::Status {
                from: exact::<I32>(body)?.get(),
            },
            ABOUT => Message::About(About::parse(body)?),
            STRANGER => Message::Stranger(Stranger::parse(body)?),
            ROW => Message::Row(Row::parse(body)?),
            ROWS => Message::Rows {
                next: exact::<I32>(body)?.get(),
            },
            CLAIM => Message::Claim(exact::<RequestBody>(body)?.into()),
            HELD => Message::Held {
                cookie: exact::<U64>(body)?.get(),
            },
            _ => return Err(Malformed),
        };
        let number = header.number.get();
        Ok(Self { number, message })
    }
}

pub(super) fn exact<T: FromBytes>(body: &[u8]) -> Result<T, Malformed> {
    T::read_from_bytes(body).map_err(|_| Malformed)
}

impl From<SocketAddr> for End {
    fn from(address: SocketAddr) -> Self {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        Self {
            ip: ip.octets(),
            port: address.port().into(),
        }
    }
}

impl From<End> for SocketAddr {
    fn from(end: End) -> Self {
        Self::new(Ipv6Addr::from(end.ip).to_canonical(), end.port.get())
    }
}

impl From<Request> for RequestBody {
    fn from(request: Request) -> Self {
        Self {
            connected: request.connected.into(),
            accepted: request.accepted.into(),
            connected_end: request.connected_end.into(),
            accepted_end: request.accepted_end.into(),
        }
    }
}

impl From<RequestBody> for Request {
    fn from(body: RequestBody) -> Self {
        Self {
            connected: body.connected.get(),
            accepted: body.accepted.get(),
            connected_end: body.connected_end.into(),
            accepted_end: body.accepted_end.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind, and every reason.
    fn all() -> Vec<Packet> {
        let request = |connected_end: &str, accepted_end: &str| {
            Message::Request(Request {
                connected: 0x0102_0304_0506_0708,
                accepted: u64::MAX,
                connected_end: connected_end.parse().expect("an address"),
                accepted_end: accepted_end.parse().expect("an address"),
            })
        };
        let mut messages = vec![
            Message::Ask { cookie: 77 },
            Message::At(Name(*b"0123456789abcdef")),
            Message::Nowhere,
            request("127.0.0.1:4000", "192.0.2.1:80"),
            request("[::1]:1", "[2001:db8::7]:65535"),
            Message::Agreed {
                segment: 3,
                slot: 63,
            },
            Message::Later,
            Message::Over {
                segment: u32::MAX,
                slot: 1,
            },
            Message::Bell { number: 7 },
            Message::Status { from: 3 },
            Message::Rows { next: -1 },
            Message::Held { cookie: 78 },
            Message::Claim(Request {
                connected: 1,
                accepted: 0,
                connected_end: "10.0.0.1:4000".parse().expect("an address"),
                accepted_end: "10.0.0.2:80".parse().expect("an address"),
            }),
        ];
        messages.extend(super::super::report::tests::all());
        messages.extend(Reason::ALL.iter().map(|reason| Message::Refused(*reason)));
        let number = |(number, message)| Packet {
            number: number as u32 * 0x0101_0101,
            message,
        };
        messages.into_iter().enumerate().map(number).collect()
    }

    #[test]
    fn a_message_is_read_as_it_was_written() {
        for packet in all() {
            let bytes = packet.emit();
            assert!(bytes.len() <= MOST_BYTES);
            assert_eq!(Packet::parse(&bytes), Ok(packet));
        }
    }

    #[test]
    fn other_lengths_are_no_message() {
        for packet in all() {
            let bytes = packet.emit();
            for length in 0..bytes.len() {
                assert_eq!(Packet::parse(&bytes[..length]), Err(Malformed));
            }
            let mut longer = bytes;
            longer.push(0);
            assert_eq!(Packet::parse(&longer), Err(Malformed));
            // one that says so itself
            let length = longer.len() as u8;
            longer[11] = length;
            assert_eq!(Packet::parse(&longer), Err(Malformed));
        }
    }

    #[test]
    fn whatever_is_read_is_the_only_form_of_its_message() {
        let mut refused = 0;
        for packet in all() {
            let bytes = packet.emit();
            for at in 0..bytes.len() {
                for value in 0..=u8::MAX {
                    let mut other = bytes.clone();
                    other[at] = value;
                    match Packet::parse(&other) {
                        Ok(read) => assert_eq!(read.emit(), other),
                        Err(Malformed) => refused += 1,
                    }
                }
            }
            let foreign = |at: usize| {
                let mut other = bytes.clone();
                other[at] ^= 1;
                Packet::parse(&other)
            };
            assert_eq!(foreign(0), Err(Malformed), "the magic");
            assert_eq!(foreign(5), Err(Malformed), "the version");
        }
        assert!(refused > 10_000);
    }

    #[test]
    fn each_reason_has_a_sentence_of_its_own() {
        for (at, reason) in Reason::ALL.iter().enumerate() {
            assert!(reason.sentence().len() > 10);
            let others = &Reason::ALL[at + 1..];
            assert!(
                others
                    .iter()
                    .all(|other| other.sentence() != reason.sentence())
            );
        }
        assert_eq!(Reason::from_code(0), Err(Malformed));
        assert_eq!(Reason::from_code(999), Err(Malformed));
    }
}
