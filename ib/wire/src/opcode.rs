//! The opcode table: for each BTH opcode its service, operation, position in the message, the headers that follow
//! and the payload it allows (IBA 9.2 and 9.3; XRC: annex A14; CNP: annex A17), and one of our own. Parsing, emitting,
//! validation and display all read this one table. It knows no queue pair and no state.

use std::fmt;

/// Bytes of the base transport header (IBA 9.2).
pub(crate) const BTH_LEN: usize = 12;

/// Transport service: the top three bits of the opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Service {
    /// Reliable connection.
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Reliable datagram; named and parsed, not offered by the transport.
    Rd = 2,
    /// Unreliable datagram.
    Ud = 3,
    /// Congestion notification.
    Cnp = 4,
    /// Extended reliable connection.
    Xrc = 5,
    /// The manufacturer's own, of two such classes the first.
    Vendor = 6,
}

/// What a packet does, whatever its place in the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Operation {
    /// SEND, with or without immediate or invalidate.
    Send,
    /// RDMA WRITE, with or without immediate.
    RdmaWrite,
    /// RDMA READ request.
    RdmaReadRequest,
    /// RDMA READ response.
    RdmaReadResponse,
    /// ACK, NAK or RNR NAK: the AETH tells.
    Acknowledge,
    /// Response to an atomic.
    AtomicAcknowledge,
    /// Compare and swap.
    CompareSwap,
    /// Fetch and add.
    FetchAdd,
    /// Resynchronise a reliable datagram channel.
    Resync,
    /// Congestion notification.
    Cnp,
    /// Lost packets beyond the first: [`GapReport`](crate::GapReport).
    GapReport,
}

/// Place of a packet in its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Position {
    /// First of several.
    First,
    /// Neither first nor last.
    Middle,
    /// Last of several.
    Last,
    /// The whole message.
    Only,
}

impl Position {
    /// True for First and Only.
    pub const fn starts(self) -> bool {
        matches!(self, Position::First | Position::Only)
    }

    /// True for Last and Only.
    pub const fn ends(self) -> bool {
        matches!(self, Position::Last | Position::Only)
    }

    /// The position of packet `index` (from 0) of `count`.
    pub const fn of(index: u32, count: u32) -> Self {
        match (index == 0, index + 1 >= count) {
            (true, true) => Position::Only,
            (true, false) => Position::First,
            (false, true) => Position::Last,
            (false, false) => Position::Middle,
        }
    }
}

/// What a message's last packet adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Suffix {
    /// Nothing.
    None,
    /// Immediate data.
    Immediate,
    /// The key to invalidate.
    Invalidate,
}

/// Who sends a packet, and so which of a queue pair's machines takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Kind {
    /// From requester to responder.
    Request,
    /// From responder to requester, with data: RDMA READ response, ATOMIC Acknowledge.
    Response,
    /// From responder to requester, without data.
    Ack,
    /// Outside any queue pair's sequence: notifications of congestion, gap reports.
    Notification,
}

/// Payload that an opcode allows, in bytes without pad (IBA 9.7 and 9.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum PayloadRule {
    /// None.
    None,
    /// Exactly the path MTU.
    Full,
    /// 1 to the path MTU.
    NonEmpty,
    /// 0 to the path MTU.
    Any,
    /// Exactly 16 (the CNP's reserved bytes).
    Sixteen,
}

impl PayloadRule {
    /// Whether `len` bytes are allowed on a path of MTU `mtu` bytes.
    pub const fn allows(self, len: usize, mtu: usize) -> bool {
        match self {
            PayloadRule::None => len == 0,
            PayloadRule::Full => len == mtu,
            PayloadRule::NonEmpty => len != 0 && len <= mtu,
            PayloadRule::Any => len <= mtu,
            PayloadRule::Sixteen => len == 16,
        }
    }

    /// Whether `len` bytes are allowed on some path: what can be told from the packet alone. A payload of wrong
    /// length where some payload is due is not malformed: the responder answers it with a NAK.
    pub const fn plausible(self, len: usize) -> bool {
        match self {
            PayloadRule::None => len == 0,
            PayloadRule::Sixteen => len == 16,
            PayloadRule::Full | PayloadRule::NonEmpty | PayloadRule::Any => true,
        }
    }
}

/// An extension header, by its place in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ExtKind {
    /// RDETH.
    Rdeth,
    /// DETH.
    Deth,
    /// XRCETH.
    XrcEth,
    /// RETH.
    Reth,
    /// AtomicETH.
    AtomicEth,
    /// AETH.
    Aeth,
    /// AtomicAckETH.
    AtomicAckEth,
    /// ImmDt.
    ImmDt,
    /// IETH.
    Ieth,
}

impl ExtKind {
    /// Every kind, in the order in which they may follow each other.
    pub const ALL: [ExtKind; 9] = [
        ExtKind::Rdeth,
        ExtKind::Deth,
        ExtKind::XrcEth,
        ExtKind::Reth,
        ExtKind::AtomicEth,
        ExtKind::Aeth,
        ExtKind::AtomicAckEth,
        ExtKind::ImmDt,
        ExtKind::Ieth,
    ];

    /// Its place in a set.
    pub(crate) const fn bit(self) -> u16 {
        1 << self as u16
    }

    /// Bytes on the wire.
    pub const fn wire_len(self) -> usize {
        match self {
            ExtKind::Rdeth => 4,
            ExtKind::Deth => 8,
            ExtKind::XrcEth => 4,
            ExtKind::Reth => 16,
            ExtKind::AtomicEth => 28,
            ExtKind::Aeth => 4,
            ExtKind::AtomicAckEth => 8,
            ExtKind::ImmDt => 4,
            ExtKind::Ieth => 4,
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpcodeInfo {
    /// The opcode.
    pub opcode: Opcode,
    /// The IBA's name, with the service before it.
    pub name: &'static str,
    /// Transport service.
    pub service: Service,
    /// Operation.
    pub operation: Operation,
    /// Place in the message.
    pub position: Position,
    /// Headers after the BTH, in order.
    pub headers: &'static [ExtKind],
    /// Payload allowed.
    pub payload: PayloadRule,
    /// Bytes of BTH and extension headers.
    pub header_len: usize,
    /// [`Self::headers`] again, a bit each.
    pub(crate) header_set: u16,
}

impl OpcodeInfo {
    /// Whether `header` follows the BTH.
    pub const fn has(&self, header: ExtKind) -> bool {
        self.header_set & header.bit() != 0
    }

    /// Immediate, invalidate or neither.
    pub const fn suffix(&self) -> Suffix {
        if self.has(ExtKind::ImmDt) {
            Suffix::Immediate
        } else if self.has(ExtKind::Ieth) {
            Suffix::Invalidate
        } else {
            Suffix::None
        }
    }

    /// Request, response, ack or notification.
    #[inline]
    pub const fn kind(&self) -> Kind {
        match self.operation {
            Operation::Send
            | Operation::RdmaWrite
            | Operation::RdmaReadRequest
            | Operation::CompareSwap
            | Operation::FetchAdd
            | Operation::Resync => Kind::Request,
            Operation::RdmaReadResponse | Operation::AtomicAcknowledge => Kind::Response,
            Operation::Acknowledge => Kind::Ack,
            Operation::Cnp | Operation::GapReport => Kind::Notification,
        }
    }

    /// Whether the packet may carry payload.
    pub const fn carries_payload(&self) -> bool {
        !matches!(self.payload, PayloadRule::None)
    }

    /// Whether the packet takes a receive work request when it arrives: the start of a SEND, or the end of an
    /// RDMA WRITE with immediate. Without one a reliable responder answers RNR NAK.
    pub const fn takes_receive(&self) -> bool {
        match self.operation {
            Operation::Send => self.position.starts(),
            Operation::RdmaWrite => self.has(ExtKind::ImmDt),
            _ => false,
        }
    }

    /// Whether the packet completes a receive work request: the end of a SEND or of an RDMA WRITE with immediate.
    pub const fn completes_receive(&self) -> bool {
        match self.operation {
            Operation::Send => self.position.ends(),
            Operation::RdmaWrite => self.has(ExtKind::ImmDt),
            _ => false,
        }
    }
}

macro_rules! opcode_table {
    ($($variant:ident = $code:literal, $name:literal, $service:ident, $operation:ident, $position:ident,
       [$($header:ident),*] $payload:ident;)*) => {
        /// A BTH opcode that is defined. The discriminant is the code on the wire.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u8)]
        pub enum Opcode {
            $(#[doc = $name] $variant = $code,)*
        }

        impl Opcode {
            /// Every defined opcode, by ascending code.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$variant),*];
        }

        /// Row by code; None for reserved and manufacturer's codes.
        static TABLE: [Option<OpcodeInfo>; 256] = {
            let mut table = [None; 256];
            $(table[$code] = Some(OpcodeInfo {
                opcode: Opcode::$variant,
                name: $name,
                service: Service::$service,
                operation: Operation::$operation,
                position: Position::$position,
                headers: &[$(ExtKind::$header),*],
                payload: PayloadRule::$payload,
                header_len: BTH_LEN $(+ ExtKind::$header.wire_len())*,
                header_set: 0 $(| ExtKind::$header.bit())*,
            });)*
            table
        };
    };
}

// variant = code, name, service, operation, position, [headers after the BTH] payload
opcode_table! {
    RcSendFirst           = 0x00, "RC SEND First",                       Rc,  Send,              First,  []                    Full;
    RcSendMiddle          = 0x01, "RC SEND Middle",                      Rc,  Send,              Middle, []                    Full;
    RcSendLast            = 0x02, "RC SEND Last",                        Rc,  Send,              Last,   []                    NonEmpty;
    RcSendLastImm         = 0x03, "RC SEND Last with Immediate",         Rc,  Send,              Last,   [ImmDt]               NonEmpty;
    RcSendOnly            = 0x04, "RC SEND Only",                        Rc,  Send,              Only,   []                    Any;
    RcSendOnlyImm         = 0x05, "RC SEND Only with Immediate",         Rc,  Send,              Only,   [ImmDt]               Any;
    RcWriteFirst          = 0x06, "RC RDMA WRITE First",                 Rc,  RdmaWrite,         First,  [Reth]                Full;
    RcWriteMiddle         = 0x07, "RC RDMA WRITE Middle",                Rc,  RdmaWrite,         Middle, []                    Full;
    RcWriteLast           = 0x08, "RC RDMA WRITE Last",                  Rc,  RdmaWrite,         Last,   []                    NonEmpty;
    RcWriteLastImm        = 0x09, "RC RDMA WRITE Last with Immediate",   Rc,  RdmaWrite,         Last,   [ImmDt]               NonEmpty;
    RcWriteOnly           = 0x0a, "RC RDMA WRITE Only",                  Rc,  RdmaWrite,         Only,   [Reth]                Any;
    RcWriteOnlyImm        = 0x0b, "RC RDMA WRITE Only with Immediate",   Rc,  RdmaWrite,         Only,   [Reth, ImmDt]         Any;
    RcReadRequest         = 0x0c, "RC RDMA READ Request",                Rc,  RdmaReadRequest,   Only,   [Reth]                None;
    RcReadResponseFirst   = 0x0d, "RC RDMA READ response First",         Rc,  RdmaReadResponse,  First,  [Aeth]                Full;
    RcReadResponseMiddle  = 0x0e, "RC RDMA READ response Middle",        Rc,  RdmaReadResponse,  Middle, []                    Full;
    RcReadResponseLast    = 0x0f, "RC RDMA READ response Last",          Rc,  RdmaReadResponse,  Last,   [Aeth]                NonEmpty;
    RcReadResponseOnly    = 0x10, "RC RDMA READ response Only",          Rc,  RdmaReadResponse,  Only,   [Aeth]                Any;
    RcAcknowledge         = 0x11, "RC Acknowledge",                      Rc,  Acknowledge,       Only,   [Aeth]                None;
    RcAtomicAcknowledge   = 0x12, "RC ATOMIC Acknowledge",               Rc,  AtomicAcknowledge, Only,   [Aeth, AtomicAckEth]  None;
    RcCompareSwap         = 0x13, "RC CmpSwap",                          Rc,  CompareSwap,       Only,   [AtomicEth]           None;
    RcFetchAdd            = 0x14, "RC FetchAdd",                         Rc,  FetchAdd,          Only,   [AtomicEth]           None;
    RcSendLastInv         = 0x16, "RC SEND Last with Invalidate",        Rc,  Send,              Last,   [Ieth]                NonEmpty;
    RcSendOnlyInv         = 0x17, "RC SEND Only with Invalidate",        Rc,  Send,              Only,   [Ieth]                Any;
    UcSendFirst           = 0x20, "UC SEND First",                       Uc,  Send,              First,  []                    Full;
    UcSendMiddle          = 0x21, "UC SEND Middle",                      Uc,  Send,              Middle, []                    Full;
    UcSendLast            = 0x22, "UC SEND Last",                        Uc,  Send,              Last,   []                    NonEmpty;
    UcSendLastImm         = 0x23, "UC SEND Last with Immediate",         Uc,  Send,              Last,   [ImmDt]               NonEmpty;
    UcSendOnly            = 0x24, "UC SEND Only",                        Uc,  Send,              Only,   []                    Any;
    UcSendOnlyImm         = 0x25, "UC SEND Only with Immediate",         Uc,  Send,              Only,   [ImmDt]               Any;
    UcWriteFirst          = 0x26, "UC RDMA WRITE First",                 Uc,  RdmaWrite,         First,  [Reth]                Full;
    UcWriteMiddle         = 0x27, "UC RDMA WRITE Middle",                Uc,  RdmaWrite,         Middle, []                    Full;
    UcWriteLast           = 0x28, "UC RDMA WRITE Last",                  Uc,  RdmaWrite,         Last,   []                    NonEmpty;
    UcWriteLastImm        = 0x29, "UC RDMA WRITE Last with Immediate",   Uc,  RdmaWrite,         Last,   [ImmDt]               NonEmpty;
    UcWriteOnly           = 0x2a, "UC RDMA WRITE Only",                  Uc,  RdmaWrite,         Only,   [Reth]                Any;
    UcWriteOnlyImm        = 0x2b, "UC RDMA WRITE Only with Immediate",   Uc,  RdmaWrite,         Only,   [Reth, ImmDt]         Any;
    RdSendFirst           = 0x40, "RD SEND First",                       Rd,  Send,              First,  [Rdeth, Deth]         Full;
    RdSendMiddle          = 0x41, "RD SEND Middle",                      Rd,  Send,              Middle, [Rdeth, Deth]         Full;
    RdSendLast            = 0x42, "RD SEND Last",                        Rd,  Send,              Last,   [Rdeth, Deth]         NonEmpty;
    RdSendLastImm         = 0x43, "RD SEND Last with Immediate",         Rd,  Send,              Last,   [Rdeth, Deth, ImmDt]  NonEmpty;
    RdSendOnly            = 0x44, "RD SEND Only",                        Rd,  Send,              Only,   [Rdeth, Deth]         Any;
    RdSendOnlyImm         = 0x45, "RD SEND Only with Immediate",         Rd,  Send,              Only,   [Rdeth, Deth, ImmDt]  Any;
    RdWriteFirst          = 0x46, "RD RDMA WRITE First",                 Rd,  RdmaWrite,         First,  [Rdeth, Deth, Reth]   Full;
    RdWriteMiddle         = 0x47, "RD RDMA WRITE Middle",                Rd,  RdmaWrite,         Middle, [Rdeth, Deth]         Full;
    RdWriteLast           = 0x48, "RD RDMA WRITE Last",                  Rd,  RdmaWrite,         Last,   [Rdeth, Deth]         NonEmpty;
    RdWriteLastImm        = 0x49, "RD RDMA WRITE Last with Immediate",   Rd,  RdmaWrite,         Last,   [Rdeth, Deth, ImmDt]  NonEmpty;
    RdWriteOnly           = 0x4a, "RD RDMA WRITE Only",                  Rd,  RdmaWrite,         Only,   [Rdeth, Deth, Reth]   Any;
    RdWriteOnlyImm        = 0x4b, "RD RDMA WRITE Only with Immediate",   Rd,  RdmaWrite,         Only,   [Rdeth, Deth, Reth, ImmDt]Any;
    RdReadRequest         = 0x4c, "RD RDMA READ Request",                Rd,  RdmaReadRequest,   Only,   [Rdeth, Deth, Reth]   None;
    RdReadResponseFirst   = 0x4d, "RD RDMA READ response First",         Rd,  RdmaReadResponse,  First,  [Rdeth, Aeth]         Full;
    RdReadResponseMiddle  = 0x4e, "RD RDMA READ response Middle",        Rd,  RdmaReadResponse,  Middle, [Rdeth]               Full;
    RdReadResponseLast    = 0x4f, "RD RDMA READ response Last",          Rd,  RdmaReadResponse,  Last,   [Rdeth, Aeth]         NonEmpty;
    RdReadResponseOnly    = 0x50, "RD RDMA READ response Only",          Rd,  RdmaReadResponse,  Only,   [Rdeth, Aeth]         Any;
    RdAcknowledge         = 0x51, "RD Acknowledge",                      Rd,  Acknowledge,       Only,   [Rdeth, Aeth]         None;
    RdAtomicAcknowledge   = 0x52, "RD ATOMIC Acknowledge",               Rd,  AtomicAcknowledge, Only,   [Rdeth, Aeth, AtomicAckEth]None;
    RdCompareSwap         = 0x53, "RD CmpSwap",                          Rd,  CompareSwap,       Only,   [Rdeth, Deth, AtomicEth]None;
    RdFetchAdd            = 0x54, "RD FetchAdd",                         Rd,  FetchAdd,          Only,   [Rdeth, Deth, AtomicEth]None;
    RdResync              = 0x55, "RD RESYNC",                           Rd,  Resync,            Only,   [Rdeth, Deth]         None;
    UdSendOnly            = 0x64, "UD SEND Only",                        Ud,  Send,              Only,   [Deth]                Any;
    UdSendOnlyImm         = 0x65, "UD SEND Only with Immediate",         Ud,  Send,              Only,   [Deth, ImmDt]         Any;
    Cnp                   = 0x81, "CNP",                                 Cnp, Cnp,               Only,   []                    Sixteen;
    XrcSendFirst          = 0xa0, "XRC SEND First",                      Xrc, Send,              First,  [XrcEth]              Full;
    XrcSendMiddle         = 0xa1, "XRC SEND Middle",                     Xrc, Send,              Middle, [XrcEth]              Full;
    XrcSendLast           = 0xa2, "XRC SEND Last",                       Xrc, Send,              Last,   [XrcEth]              NonEmpty;
    XrcSendLastImm        = 0xa3, "XRC SEND Last with Immediate",        Xrc, Send,              Last,   [XrcEth, ImmDt]       NonEmpty;
    XrcSendOnly           = 0xa4, "XRC SEND Only",                       Xrc, Send,              Only,   [XrcEth]              Any;
    XrcSendOnlyImm        = 0xa5, "XRC SEND Only with Immediate",        Xrc, Send,              Only,   [XrcEth, ImmDt]       Any;
    XrcWriteFirst         = 0xa6, "XRC RDMA WRITE First",                Xrc, RdmaWrite,         First,  [XrcEth, Reth]        Full;
    XrcWriteMiddle        = 0xa7, "XRC RDMA WRITE Middle",               Xrc, RdmaWrite,         Middle, [XrcEth]              Full;
    XrcWriteLast          = 0xa8, "XRC RDMA WRITE Last",                 Xrc, RdmaWrite,         Last,   [XrcEth]              NonEmpty;
    XrcWriteLastImm       = 0xa9, "XRC RDMA WRITE Last with Immediate",  Xrc, RdmaWrite,         Last,   [XrcEth, ImmDt]       NonEmpty;
    XrcWriteOnly          = 0xaa, "XRC RDMA WRITE Only",                 Xrc, RdmaWrite,         Only,   [XrcEth, Reth]        Any;
    XrcWriteOnlyImm       = 0xab, "XRC RDMA WRITE Only with Immediate",  Xrc, RdmaWrite,         Only,   [XrcEth, Reth, ImmDt] Any;
    XrcReadRequest        = 0xac, "XRC RDMA READ Request",               Xrc, RdmaReadRequest,   Only,   [XrcEth, Reth]        None;
    XrcReadResponseFirst  = 0xad, "XRC RDMA READ response First",        Xrc, RdmaReadResponse,  First,  [Aeth]                Full;
    XrcReadResponseMiddle = 0xae, "XRC RDMA READ response Middle",       Xrc, RdmaReadResponse,  Middle, []                    Full;
    XrcReadResponseLast   = 0xaf, "XRC RDMA READ response Last",         Xrc, RdmaReadResponse,  Last,   [Aeth]                NonEmpty;
    XrcReadResponseOnly   = 0xb0, "XRC RDMA READ response Only",         Xrc, RdmaReadResponse,  Only,   [Aeth]                Any;
    XrcAcknowledge        = 0xb1, "XRC Acknowledge",                     Xrc, Acknowledge,       Only,   [Aeth]                None;
    XrcAtomicAcknowledge  = 0xb2, "XRC ATOMIC Acknowledge",              Xrc, AtomicAcknowledge, Only,   [Aeth, AtomicAckEth]  None;
    XrcCompareSwap        = 0xb3, "XRC CmpSwap",                         Xrc, CompareSwap,       Only,   [XrcEth, AtomicEth]   None;
    XrcFetchAdd           = 0xb4, "XRC FetchAdd",                        Xrc, FetchAdd,          Only,   [XrcEth, AtomicEth]   None;
    XrcSendLastInv        = 0xb6, "XRC SEND Last with Invalidate",       Xrc, Send,              Last,   [XrcEth, Ieth]        NonEmpty;
    XrcSendOnlyInv        = 0xb7, "XRC SEND Only with Invalidate",       Xrc, Send,              Only,   [XrcEth, Ieth]        Any;
    GapReport             = 0xc0, "VENDOR Gap Report",                   Vendor, GapReport,      Only,   []                    NonEmpty;
}

const OPERATIONS: usize = Operation::GapReport as usize + 1;
const POSITIONS: usize = Position::Only as usize + 1;
const SUFFIXES: usize = Suffix::Invalidate as usize + 1;
const SERVICES: usize = Service::Vendor as usize + 1;

/// The table read backwards: what a packet is to do, to its opcode.
static REVERSE: [Option<Opcode>; SERVICES * OPERATIONS * POSITIONS * SUFFIXES] = {
    let mut reverse = [None; SERVICES * OPERATIONS * POSITIONS * SUFFIXES];
    let mut code = 0;
    while code < TABLE.len() {
        if let Some(info) = &TABLE[code] {
            let index = reverse_index(info.service, info.operation, info.position, info.suffix());
            assert!(reverse[index].is_none(), "two opcodes for one purpose");
            reverse[index] = Some(info.opcode);
        }
        code += 1;
    }
    reverse
};

const fn reverse_index(
    service: Service,
    operation: Operation,
    position: Position,
    suffix: Suffix,
) -> usize {
    let index = service as usize * OPERATIONS + operation as usize;
    (index * POSITIONS + position as usize) * SUFFIXES + suffix as usize
}

impl Opcode {
    /// From the code on the wire; None for reserved and manufacturer's codes.
    pub const fn from_code(code: u8) -> Option<Self> {
        match &TABLE[code as usize] {
            Some(info) => Some(info.opcode),
            None => None,
        }
    }

    /// The code on the wire.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The opcode for a purpose; None if the service does not have it.
    pub const fn find(
        service: Service,
        operation: Operation,
        position: Position,
        suffix: Suffix,
    ) -> Option<Self> {
        REVERSE[reverse_index(service, operation, position, suffix)]
    }

    /// This opcode's row.
    #[inline]
    pub const fn info(self) -> &'static OpcodeInfo {
        match &TABLE[self as usize] {
            Some(info) => info,
            None => panic!("every variant is made from a row of the table"),
        }
    }

    /// Transport service.
    #[inline]
    pub const fn service(self) -> Service {
        self.info().service
    }

    /// Operation.
    #[inline]
    pub const fn operation(self) -> Operation {
        self.info().operation
    }

    /// Place in the message.
    #[inline]
    pub const fn position(self) -> Position {
        self.info().position
    }

    /// Request, response, ack or notification.
    #[inline]
    pub const fn kind(self) -> Kind {
        self.info().kind()
    }

    /// The end of a request that makes no completion at its target (IBA 9.4): an RDMA WRITE without immediate, an RDMA READ, an atomic.
    #[inline]
    pub const fn is_unseen(self) -> bool {
        let row = self.info();
        match row.operation {
            Operation::RdmaWrite => {
                matches!(row.position, Position::Last | Position::Only)
                    && row.header_set & ExtKind::ImmDt.bit() == 0
            }
            Operation::RdmaReadRequest | Operation::CompareSwap | Operation::FetchAdd => true,
            _ => false,
        }
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defined codes of IBA 9.2 and annexes A14 and A17, written down once more as ranges, and our own.
    fn defined(code: u8) -> bool {
        matches!(code,
            0x00..=0x14 | 0x16 | 0x17 | 0x20..=0x2b | 0x40..=0x55 | 0x64 | 0x65 | 0x81 | 0xa0..=0xb4 | 0xb6 | 0xb7 | 0xc0)
    }

    #[test]
    fn exactly_the_defined_codes_are_in_the_table() {
        for code in 0..=255 {
            assert_eq!(
                Opcode::from_code(code).map(Opcode::code),
                defined(code).then_some(code),
                "{code:#04x}"
            );
        }
        assert!(Opcode::ALL.is_sorted_by_key(|opcode| opcode.code()));
    }

    #[test]
    fn a_target_sees_no_completion_of_writes_reads_and_atomics_alone() {
        let unseen = |name: &str| {
            let write = name.contains("WRITE L") || name.contains("WRITE O");
            let other = name.ends_with("READ Request")
                || name.ends_with("CmpSwap")
                || name.ends_with("FetchAdd");
            other || write && !name.ends_with("Immediate")
        };
        for opcode in Opcode::ALL {
            let name = opcode.info().name;
            assert_eq!(opcode.is_unseen(), unseen(name), "{name}");
        }
    }

    #[test]
    fn service_is_the_top_three_bits_and_heads_the_name() {
        for opcode in Opcode::ALL {
            let info = opcode.info();
            assert_eq!(info.opcode, *opcode);
            assert_eq!(info.service as u8, opcode.code() >> 5);
            assert!(
                info.name
                    .starts_with(&format!("{:?}", info.service).to_uppercase())
            );
        }
    }

    #[test]
    fn the_low_five_bits_mean_the_same_in_every_service() {
        for opcode in Opcode::ALL {
            if opcode.kind() == Kind::Notification {
                continue;
            }
            let (info, low) = (opcode.info(), opcode.code() & 0x1f);
            let Some(rc) = Opcode::from_code(low).map(Opcode::info) else {
                assert_eq!(*opcode, Opcode::RdResync);
                continue;
            };
            assert_eq!(
                (info.operation, info.position, info.payload, info.suffix()),
                (rc.operation, rc.position, rc.payload, rc.suffix())
            );
            let request = info.kind() == Kind::Request;
            let before: &[ExtKind] = match (info.service, request) {
                (Service::Rd, true) => &[ExtKind::Rdeth, ExtKind::Deth],
                (Service::Rd, false) => &[ExtKind::Rdeth],
                (Service::Ud, _) => &[ExtKind::Deth],
                (Service::Xrc, true) => &[ExtKind::XrcEth],
                _ => &[],
            };
            assert_eq!(info.headers, [before, rc.headers].concat(), "{opcode}");
        }
    }

    #[test]
    fn find_inverts_info() {
        for opcode in Opcode::ALL {
            let info = opcode.info();
            let found = Opcode::find(info.service, info.operation, info.position, info.suffix());
            assert_eq!(found, Some(*opcode));
        }
        use {Operation::*, Position::*, Service::*};
        assert_eq!(Opcode::find(Uc, RdmaReadRequest, Only, Suffix::None), None);
        assert_eq!(Opcode::find(Rc, Send, First, Suffix::Immediate), None);
        assert_eq!(Opcode::find(Rc, RdmaWrite, Only, Suffix::Invalidate), None);
    }

    #[test]
    fn receives_are_taken_at_the_start_of_a_send_and_at_the_end_of_a_write_with_immediate() {
        let taking: Vec<u8> = Opcode::ALL
            .iter()
            .filter(|o| o.info().takes_receive())
            .map(|o| o.code())
            .filter(|c| *c < 0x20)
            .collect();
        assert_eq!(taking, [0x00, 0x04, 0x05, 0x09, 0x0b, 0x17]);
        let completing: Vec<u8> = Opcode::ALL
            .iter()
            .filter(|o| o.info().completes_receive())
            .map(|o| o.code())
            .filter(|c| *c < 0x20)
            .collect();
        assert_eq!(completing, [0x02, 0x03, 0x04, 0x05, 0x09, 0x0b, 0x16, 0x17]);
    }

    #[test]
    fn position_of_a_packet_in_a_message() {
        assert_eq!(Position::of(0, 1), Position::Only);
        let of_three: Vec<Position> = (0..3).map(|index| Position::of(index, 3)).collect();
        assert_eq!(
            of_three,
            [Position::First, Position::Middle, Position::Last]
        );
    }

    #[test]
    fn payload_rules_at_their_edges() {
        use PayloadRule::*;
        let allowed =
            |rule: PayloadRule| [0, 1, 16, 255, 256, 257].map(|len| rule.allows(len, 256));
        assert_eq!(allowed(None), [true, false, false, false, false, false]);
        assert_eq!(allowed(Full), [false, false, false, false, true, false]);
        assert_eq!(allowed(NonEmpty), [false, true, true, true, true, false]);
        assert_eq!(allowed(Any), [true, true, true, true, true, false]);
        assert_eq!(allowed(Sixteen), [false, false, true, false, false, false]);
    }
}
