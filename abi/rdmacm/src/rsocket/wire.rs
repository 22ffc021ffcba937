//! What two stream sockets say to each other: the words that ride on RDMA WRITEs as immediate data, the entries that one
//! side writes into the other's memory, and the private data of the connection's messages.
//!
//! The protocol is rdma-core's, version 1 (described in its `librdmacm/docs/rsocket`), so that either side may run either
//! library. Bytes only: no memory, no queue pair. What comes from the other side is hostile until it has been parsed here.

/// The version of the protocol.
const VERSION: u8 = 1;
/// Flag: the side's own byte order is the network's.
const BIG_ENDIAN: u8 = 1 << 0;
/// Flag: the side has a table of mapped buffers behind its list of targets.
const HAS_MAPPINGS: u8 = 1 << 1;
/// Bits of a word below its operation.
const DATA_BITS: u32 = 29;

/// The most bytes that one word can announce.
pub const MOST_BYTES: u32 = (1 << DATA_BITS) - 1;

/// A word: three bits of operation, 29 bits of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// This many bytes were written where the last ones ended.
    Data(u32),
    /// Never sent, but a place in the send queue: bytes written into a mapped buffer.
    Direct(u32),
    /// Messages up to this number may be sent; the list of targets may have a new entry.
    Credits(u16),
    /// This entry of the table of mapped buffers is new.
    Mapped(u16),
    /// The connection's own affairs.
    Control(Control),
    /// An operation that is reserved.
    Unknown(u32),
}

/// What a control word says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// The sender neither sends nor takes anything any more.
    Disconnect,
    /// The sender is still there. It asks for nothing.
    KeepAlive,
    /// The sender sends nothing any more, and takes what comes.
    Shutdown,
    /// Reserved.
    Unknown(u32),
}

impl Word {
    /// The word as immediate data, host order.
    pub const fn to_bits(self) -> u32 {
        let (operation, data) = match self {
            Word::Data(bytes) => (0, bytes),
            Word::Direct(bytes) => (2, bytes),
            Word::Credits(last) => (4, last as u32),
            Word::Mapped(index) => (6, index as u32),
            Word::Control(Control::Disconnect) => (7, 0),
            Word::Control(Control::KeepAlive) => (7, 1),
            Word::Control(Control::Shutdown) => (7, 2),
            Word::Control(Control::Unknown(data)) => (7, data),
            Word::Unknown(bits) => return bits,
        };
        operation << DATA_BITS | data & MOST_BYTES
    }

    /// The word in immediate data, host order. Any bits are a word.
    pub const fn from_bits(bits: u32) -> Self {
        let data = bits & MOST_BYTES;
        match bits >> DATA_BITS {
            0 => Word::Data(data),
            2 => Word::Direct(data),
            // Numbers of messages have 16 bits on both sides.
            4 => Word::Credits(data as u16),
            6 => Word::Mapped(data as u16),
            7 => Word::Control(match data {
                0 => Control::Disconnect,
                1 => Control::KeepAlive,
                2 => Control::Shutdown,
                _ => Control::Unknown(data),
            }),
            _ => Word::Unknown(bits),
        }
    }
}

/// A place in a side's memory that the other side may write to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Target {
    /// Where it begins, in that side's address space.
    pub address: u64,
    /// Its R_Key.
    pub key: u32,
    /// Bytes; of a list of targets: entries.
    pub length: u32,
}

/// A buffer that the other side mapped, at an offset that both sides name it by.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Mapping {
    /// Where the buffer begins, in the space of offsets.
    pub offset: u64,
    /// The buffer.
    pub buffer: Target,
}

/// The order in which a side keeps the entries in its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Least significant byte first.
    Little,
    /// Network order.
    Big,
}

impl Order {
    /// This host's.
    pub const HOST: Order = if cfg!(target_endian = "big") {
        Order::Big
    } else {
        Order::Little
    };

    const fn u64(self, value: u64) -> [u8; 8] {
        match self {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        }
    }

    const fn u32(self, value: u32) -> [u8; 4] {
        match self {
            Order::Little => value.to_le_bytes(),
            Order::Big => value.to_be_bytes(),
        }
    }
}

impl Target {
    /// Bytes of an entry.
    pub const BYTES: usize = 16;

    /// The entry as a side of this order keeps it.
    pub fn to_bytes(self, order: Order) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&order.u64(self.address));
        bytes[8..12].copy_from_slice(&order.u32(self.key));
        bytes[12..].copy_from_slice(&order.u32(self.length));
        bytes
    }

    fn from_bytes(bytes: &[u8; Self::BYTES], order: Order) -> Self {
        let read = |at: usize| {
            let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            match order {
                Order::Little => u32::from_le_bytes(word),
                Order::Big => u32::from_be_bytes(word),
            }
        };
        let (first, second) = (u64::from(read(0)), u64::from(read(4)));
        Target {
            address: match order {
                Order::Little => second << 32 | first,
                Order::Big => first << 32 | second,
            },
            key: read(8),
            length: read(12),
        }
    }
}

impl Mapping {
    /// Bytes of an entry.
    pub const BYTES: usize = 24;

    /// The entry as a side of this order keeps it.
    pub fn to_bytes(self, order: Order) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&order.u64(self.offset));
        bytes[8..].copy_from_slice(&self.buffer.to_bytes(order));
        bytes
    }
}

/// What each side tells the other in the connection's private data: REQ and REP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// How the side keeps entries.
    pub order: Order,
    /// Messages that may be sent to it at once.
    pub credits: u16,
    /// Entries of its table of mapped buffers, which lies behind its list of targets; a number that [`scaled`] leaves.
    pub mappings: u16,
    /// Its list of targets: the other side's free buffers are written there.
    pub list: Target,
    /// Its first free buffer.
    pub buffer: Target,
}

impl Offer {
    /// Bytes of an offer.
    pub const BYTES: usize = 40;

    /// The offer as private data.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = VERSION;
        bytes[1] = HAS_MAPPINGS;
        if self.order == Order::Big {
            bytes[1] |= BIG_ENDIAN;
        }
        bytes[2..4].copy_from_slice(&self.credits.to_be_bytes());
        bytes[7] = compress(self.mappings);
        bytes[8..24].copy_from_slice(&self.list.to_bytes(Order::Big));
        bytes[24..].copy_from_slice(&self.buffer.to_bytes(Order::Big));
        bytes
    }

    /// The offer in private data; None for another protocol, another version, or too few bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<{ Self::BYTES }>()?;
        if bytes[0] != VERSION {
            return None;
        }
        let target = |at: usize| {
            let entry = bytes[at..].first_chunk().expect("an offer has 40 bytes");
            Target::from_bytes(entry, Order::Big)
        };
        Some(Offer {
            order: if bytes[1] & BIG_ENDIAN == 0 {
                Order::Little
            } else {
                Order::Big
            },
            credits: u16::from_be_bytes([bytes[2], bytes[3]]),
            mappings: if bytes[1] & HAS_MAPPINGS == 0 {
                0
            } else {
                expand(bytes[7])
            },
            list: target(8),
            buffer: target(24),
        })
    }
}

/// Eight bits for a number of entries: as it is up to 128, in steps of 256 above.
const fn compress(value: u16) -> u8 {
    if value <= 128 {
        value as u8
    } else {
        128 | (value >> 8) as u8
    }
}

const fn expand(value: u8) -> u16 {
    if value <= 128 {
        value as u16
    } else {
        ((value & 127) as u16) << 8
    }
}

/// The number of entries that the other side will hear of when `value` are wanted; at most 32,512.
pub fn scaled(value: u32) -> u16 {
    expand(compress(value.min(0x7fff) as u16))
}

/// The header of a datagram that goes from queue pair to queue pair: whose socket sent it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender {
    /// Its address.
    pub address: std::net::IpAddr,
    /// Its port.
    pub port: u16,
    /// The flow label of an IPv6 address, network order as sockets keep it.
    pub flow: u32,
}

impl Sender {
    /// Bytes of the longer header, that of IPv6.
    pub const MOST_BYTES: usize = 24;

    /// The header, and how many of the bytes it has.
    pub fn to_bytes(self) -> ([u8; Self::MOST_BYTES], usize) {
        let mut bytes = [0; Self::MOST_BYTES];
        let length = match self.address {
            std::net::IpAddr::V4(address) => {
                bytes[0] = 4;
                bytes[4..8].copy_from_slice(&address.octets());
                8
            }
            std::net::IpAddr::V6(address) => {
                bytes[0] = 6;
                bytes[4..8].copy_from_slice(&self.flow.to_ne_bytes());
                bytes[8..].copy_from_slice(&address.octets());
                24
            }
        };
        bytes[1] = length as u8;
        bytes[2..4].copy_from_slice(&self.port.to_be_bytes());
        (bytes, length)
    }

    /// The header in front of a datagram, and its length.
    pub fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let head: &[u8; 8] = bytes.first_chunk()?;
        let port = u16::from_be_bytes([head[2], head[3]]);
        let word = [head[4], head[5], head[6], head[7]];
        match (head[0], head[1]) {
            (4, 8) => Some((
                Sender {
                    address: word.into(),
                    port,
                    flow: 0,
                },
                8,
            )),
            (6, 24) => {
                let address: &[u8; 16] = bytes.get(8..)?.first_chunk()?;
                let sender = Sender {
                    address: (*address).into(),
                    port,
                    flow: u32::from_ne_bytes(word),
                };
                Some((sender, 24))
            }
            _ => None,
        }
    }
}

/// The header of a datagram that goes from UDP socket to UDP socket, before queue pairs know each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// Data follow, and an answer is wanted.
    pub has_data: bool,
    /// The sender's queue pair for this destination.
    pub pair: u32,
    /// The sender's address.
    pub address: std::net::IpAddr,
}

impl Greeting {
    /// Bytes of the longer header, that of IPv6.
    pub const MOST_BYTES: usize = 28;
    const TAG: u32 = 0x5555_5555;
    const WITH_DATA: u8 = 0;
    const ANSWER: u8 = 7;

    /// The header, and how many of the bytes it has.
    pub fn to_bytes(self) -> ([u8; Self::MOST_BYTES], usize) {
        let mut bytes = [0; Self::MOST_BYTES];
        bytes[..4].copy_from_slice(&Self::TAG.to_be_bytes());
        bytes[5] = if self.has_data {
            Self::WITH_DATA
        } else {
            Self::ANSWER
        };
        bytes[8..12].copy_from_slice(&(self.pair & 0xff_ffff).to_be_bytes());
        let length = match self.address {
            std::net::IpAddr::V4(address) => {
                bytes[4] = 4;
                bytes[12..16].copy_from_slice(&address.octets());
                16
            }
            std::net::IpAddr::V6(address) => {
                bytes[4] = 6;
                bytes[12..].copy_from_slice(&address.octets());
                28
            }
        };
        bytes[6] = length as u8;
        (bytes, length)
    }

    /// The header in front of a datagram, and its length.
    pub fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let head: &[u8; 12] = bytes.first_chunk()?;
        if head[..4] != Self::TAG.to_be_bytes() {
            return None;
        }
        let (address, length) = match (head[4], head[6]) {
            (4, 16) => (bytes[12..].first_chunk::<4>().copied()?.into(), 16),
            (6, 28) => (bytes[12..].first_chunk::<16>().copied()?.into(), 28),
            _ => return None,
        };
        let greeting = Greeting {
            has_data: match head[5] {
                Self::WITH_DATA => true,
                Self::ANSWER => false,
                _ => return None,
            },
            pair: u32::from_be_bytes([0, head[9], head[10], head[11]]),
            address,
        };
        Some((greeting, length))
    }
}
