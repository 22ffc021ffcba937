//! Why bytes are not a packet, and why a value cannot become bytes. Owns the two error enums of this crate and
//! nothing else.

use crate::management::{AttributeId, ManagementClass, Method};
use crate::opcode::{ExtKind, Opcode};

/// Why bytes were refused. Which of these a receiver answers and which it drops silently is the transport's
/// business; here every variant says what was expected and what was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The bytes end before the header does.
    #[error("{what} needs {needed} bytes, {got} are left")]
    Truncated {
        /// Header or trailer that was being read.
        what: &'static str,
        /// Bytes it takes.
        needed: usize,
        /// Bytes that were there.
        got: usize,
    },
    /// The BTH's opcode is reserved or the manufacturer's (IBA 9.2).
    #[error("BTH opcode {0:#04x} is reserved")]
    UnknownOpcode(u8),
    /// The BTH's TVer is not 0 (IBA 9.2).
    #[error("transport header version {0}, expected 0")]
    TransportVersion(u8),
    /// The LRH's LVer is not 0 (IBA 7.7).
    #[error("link version {0}, expected 0")]
    LinkVersion(u8),
    /// The LRH announces a raw packet: it has no transport header and no ICRC.
    #[error("link next header {0}: a raw packet has no InfiniBand transport")]
    RawPacket(u8),
    /// The version nibble of a GRH or IP header is not the one that its place demands.
    #[error("IP version {got}, expected {expected}")]
    IpVersion {
        /// 4 or 6.
        expected: u8,
        /// As received.
        got: u8,
    },
    /// The next header is not InfiniBand's (0x1b, GRH) or UDP's (17, IP).
    #[error("next header {got:#04x}, expected {expected:#04x}")]
    NextHeader {
        /// 0x1b or 17.
        expected: u8,
        /// As received.
        got: u8,
    },
    /// A length field and the bytes disagree.
    #[error("{field} says {expected} bytes, {got} are there")]
    Length {
        /// The length field.
        field: &'static str,
        /// Bytes that the field announces.
        expected: usize,
        /// Bytes that were there.
        got: usize,
    },
    /// What follows the headers is no multiple of 4 bytes (IBA 9.2: that is what the pad is for).
    #[error("{len} bytes after the headers: not a multiple of 4")]
    Misaligned {
        /// Payload and pad together.
        len: usize,
    },
    /// PadCnt exceeds what is there to be padding.
    #[error("pad count {pad} of {len} bytes")]
    Pad {
        /// As received, 1..=3.
        pad: u8,
        /// Payload and pad together.
        len: usize,
    },
    /// The opcode's packets carry no payload, or one of fixed size, and this one differs.
    #[error("{opcode} with {len} bytes of payload")]
    Payload {
        /// The packet's opcode.
        opcode: Opcode,
        /// Payload bytes found.
        len: usize,
    },
    /// An IPv4 header with options, which RoCEv2 forbids (IBA annex A17).
    #[error("IPv4 header of {0} words, expected 5: RoCEv2 carries no options")]
    Ipv4Options(u8),
    /// A fragment; RoCEv2 packets are never fragmented (IBA annex A17).
    #[error("IPv4 fragment")]
    Ipv4Fragment,
    /// The UDP datagram is not addressed to the RoCEv2 port.
    #[error("UDP destination port {0}, expected 4791")]
    UdpPort(u16),
    /// The Ethernet frame carries neither IPv4 nor IPv6.
    #[error("EtherType {0:#06x}, expected IPv4 or IPv6")]
    EtherType(u16),
    /// An IPv4 header or UDP checksum that does not verify.
    #[error("{0} checksum does not verify")]
    Checksum(&'static str),
    /// The invariant CRC does not verify (IBA 7.8.1).
    #[error("ICRC {got:#010x}, expected {expected:#010x}")]
    Icrc {
        /// Computed over the packet.
        expected: u32,
        /// As received.
        got: u32,
    },
    /// The variant CRC does not verify (IBA 7.8.2).
    #[error("VCRC {got:#06x}, expected {expected:#06x}")]
    Vcrc {
        /// Computed over the packet.
        expected: u16,
        /// As received.
        got: u16,
    },
    /// The base version of a management datagram is not 1 (IBA 13.4.2).
    #[error("MAD base version {0}, expected 1")]
    MadBaseVersion(u8),
    /// The management class is not the one that this parser reads.
    #[error("{got} MAD, expected {expected}")]
    MadClass {
        /// The parser's class.
        expected: ManagementClass,
        /// As received.
        got: ManagementClass,
    },
    /// The version of a management class is not the one in use (IBA 13.4.2).
    #[error("{class} MAD of class version {got}, expected {expected}")]
    MadClassVersion {
        /// Management class.
        class: ManagementClass,
        /// The version in use.
        expected: u8,
        /// As received.
        got: u8,
    },
    /// The class has no such method with this attribute.
    #[error("no {class} MAD is {method}({attribute})")]
    MadAttribute {
        /// Management class.
        class: ManagementClass,
        /// As received.
        method: Method,
        /// As received.
        attribute: AttributeId,
    },
    /// A field has a value that would make the rest meaningless.
    #[error("{field} = {value:#x} is not allowed")]
    Field {
        /// Field, by its IBA name.
        field: &'static str,
        /// As received.
        value: u32,
    },
}

/// Why a value cannot be written: misuse by this side, never by the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// The buffer is too short; nothing useful was written.
    #[error("{needed} bytes needed, the buffer has {got}")]
    BufferTooSmall {
        /// Bytes that the value takes.
        needed: usize,
        /// Bytes that were offered.
        got: usize,
    },
    /// A field holds more than its bits can.
    #[error("{field} = {value:#x} does not fit in {bits} bits")]
    OutOfRange {
        /// Field, by its IBA name.
        field: &'static str,
        /// The value offered.
        value: u32,
        /// Width of the field.
        bits: u32,
    },
    /// The opcode demands an extension header that is not given.
    #[error("{opcode} without its {header:?}")]
    MissingHeader {
        /// The packet's opcode.
        opcode: Opcode,
        /// The header that the opcode table demands.
        header: ExtKind,
    },
    /// An extension header is given that the opcode does not have.
    #[error("{opcode} has no {header:?}")]
    UnexpectedHeader {
        /// The packet's opcode.
        opcode: Opcode,
        /// The surplus header.
        header: ExtKind,
    },
    /// The payload has a size that the opcode does not allow.
    #[error("{opcode} with {len} bytes of payload")]
    Payload {
        /// The packet's opcode.
        opcode: Opcode,
        /// Payload bytes offered.
        len: usize,
    },
    /// A reserved AETH syndrome: may be received, is never sent.
    #[error("AETH syndrome {0:#04x} is reserved")]
    ReservedSyndrome(u8),
    /// A reserved code: may be received, is never sent.
    #[error("{field} = {value} is reserved")]
    Reserved {
        /// Field, by its IBA name.
        field: &'static str,
        /// The code offered.
        value: u16,
    },
    /// More bytes than a field of fixed size takes.
    #[error("{got} bytes of {field}, at most {max} fit")]
    TooLong {
        /// Field, by its IBA name.
        field: &'static str,
        /// Bytes that fit.
        max: usize,
        /// Bytes that were offered.
        got: usize,
    },
}
