//! Netlink messages: a header, and attributes behind it, after `linux/netlink.h`. Numbers are in the machine's order.

/// NLM_F_REQUEST.
pub const REQUEST: u16 = 0x1;
/// NLM_F_MULTI: more messages follow, up to one that says that it was the last.
pub const MULTI: u16 = 0x2;
/// NLM_F_ACK.
pub const ACK: u16 = 0x4;
/// NLM_F_DUMP: either of its two bits asks for a list.
pub const DUMP: u16 = 0x300;
/// NLM_F_CAPPED: the acknowledged message stands in the answer with its header alone.
const CAPPED: u16 = 0x100;
/// Lower types are control messages.
pub const MIN_TYPE: u16 = 0x10;
const ERROR: u16 = 0x2;
const DONE: u16 = 0x3;

const HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// Both messages and attributes begin at multiples of this.
const ALIGNMENT: usize = 4;
/// The bits of an attribute's type that are its number; NLA_F_NESTED and NLA_F_NET_BYTEORDER are above.
const ATTRIBUTE_TYPE: u16 = 0x3fff;
const NESTED: u16 = 0x8000;

/// What a message's header says, but for its length and the sender's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its type.
    pub kind: u16,
    /// NLM_F_*.
    pub flags: u16,
    /// What the answer repeats.
    pub sequence: u32,
}

impl Header {
    /// The end of a list.
    pub fn dump_done(&self, port: u32) -> Vec<u8> {
        let mut message = Message::with(DONE, MULTI, self.sequence, port);
        message.bytes.extend(0_i32.to_ne_bytes());
        message.finished()
    }

    /// That the request was done; its header follows.
    pub fn acknowledged(&self, request: &[u8], port: u32) -> Vec<u8> {
        let mut message = Message::with(ERROR, CAPPED, self.sequence, port);
        message.bytes.extend(0_i32.to_ne_bytes());
        let header = request.iter().take(HEADER_BYTES);
        message.bytes.extend(header);
        message.finished()
    }

    /// That it was not, and why; the whole request follows.
    pub fn refused(&self, errno: i32, request: &[u8], port: u32) -> Vec<u8> {
        let mut message = Message::with(ERROR, 0, self.sequence, port);
        message.bytes.extend((-errno).to_ne_bytes());
        message.bytes.extend(request);
        message.finished()
    }

    fn bytes(&self, length: usize, port: u32) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&(length as u32).to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        bytes[12..].copy_from_slice(&port.to_ne_bytes());
        bytes
    }
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}

/// The messages in a datagram, each with its bytes; what is shorter than it says, and all behind it, is left out.
pub fn messages(mut rest: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    std::iter::from_fn(move || {
        let half = |at: usize| Some(u16::from_ne_bytes(*rest.get(at..)?.first_chunk()?));
        let word = |at: usize| Some(u32::from_ne_bytes(*rest.get(at..)?.first_chunk()?));
        let length = word(0)? as usize;
        let header = Header {
            kind: half(4)?,
            flags: half(6)?,
            sequence: word(8)?,
        };
        if length < HEADER_BYTES {
            return None;
        }
        let whole = rest.get(..length)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
        Some((header, whole))
    })
}

/// The attributes of a message, each with its number and its value.
pub fn attributes(whole: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    attributes_in(whole.get(HEADER_BYTES..).unwrap_or_default())
}

/// The attributes in the value of another.
pub fn attributes_in(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
        let value = rest.get(ATTRIBUTE_HEADER_BYTES..length)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
        Some((kind & ATTRIBUTE_TYPE, value))
    })
}

/// A message that is being written.
pub struct Message {
    header: Header,
    port: u32,
    bytes: Vec<u8>,
}

impl Message {
    /// The beginning of an answer: type and sequence number are the request's.
    pub fn new(request: &Header, flags: u16, port: u32) -> Self {
        Self::with(request.kind, flags, request.sequence, port)
    }

    fn with(kind: u16, flags: u16, sequence: u32, port: u32) -> Self {
        Message {
            header: Header {
                kind,
                flags,
                sequence,
            },
            port,
            bytes: vec![0; HEADER_BYTES],
        }
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = (ATTRIBUTE_HEADER_BYTES + value.len()) as u16;
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(aligned(self.bytes.len()), 0);
        self
    }

    /// Adds a number of one byte.
    pub fn u8(self, kind: u16, value: u8) -> Self {
        self.attribute(kind, &[value])
    }

    /// Adds a number of four bytes.
    pub fn u32(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Adds a number of eight bytes.
    pub fn u64(self, kind: u16, value: u64) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Adds a text with its NUL.
    pub fn text(self, kind: u16, value: &str) -> Self {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Adds an attribute whose value is the attributes that `fill` adds.
    pub fn nested(self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.bytes.len();
        let mut filled = fill(self.attribute(kind | NESTED, &[]));
        let length = (filled.bytes.len() - start) as u16;
        filled.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        filled
    }

    /// Its bytes. Everything that is added ends at a multiple of four, but for a refused request.
    pub fn finished(mut self) -> Vec<u8> {
        let header = self.header.bytes(self.bytes.len(), self.port);
        self.bytes[..HEADER_BYTES].copy_from_slice(&header);
        self.bytes.resize(aligned(self.bytes.len()), 0);
        self.bytes
    }
}
