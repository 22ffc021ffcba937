//! The short form of Hello and HelloAck, for Ferriband sockets on a system whose connection manager
//! has no port space of SDP. Owns its layout.
//!
//! Such a connection stands in the TCP port space of rdma_cm, where 56 of the REQ's 92 bytes are
//! the consumer's. The other 36 hold the manager's own header with both addresses, so the short
//! Hello leaves out these, the length, and what is reserved; all else is there:
//!
//! | short Hello | | short HelloAck | |
//! |---|---|---|---|
//! | magic `FSdH` | 0 | magic `FSdA` | 0 |
//! | version, capabilities, MaxAdverts, flags | 4 5 6 7 | version, MaxAdverts, flags | 4 5 6 |
//! | extended MaxAdverts, bufs | 8 10 | bufs | 8 |
//! | port | 12 | | |
//! | desired and local receive size | 16 20 | actual receive size | 12 |
//! | MSeq, second queue pair | 24 28 | MSeq, second queue pair | 16 20 |
//! | negotiation of flow control | 32..56 | negotiation of flow control | 24..48 |
//!
//! MSeqAck is 0: nothing has come before. The second queue pair is part of the negotiation of NIC.
//! Bytes behind the end are ignored: the manager fills up with zeros.

use crate::bsdh::{Flags, MessageHeader};
use crate::error::{EmitError, ParseError};
use crate::flow::{FlowControl, FlowControlWire};
use crate::header::{prefix, put};
use crate::hello::{Addresses, Capabilities, Hello, HelloAck, Version};
use crate::message::{Body, Message};
use crate::types::MessageSeq;
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The short Hello as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ShortHelloWire {
    magic: U32,
    version: u8,
    /// reserved:4 Capabilities:4.
    capabilities: u8,
    max_adverts: u8,
    flags: u8,
    ext_max_adverts: U16,
    bufs: U16,
    port: U16,
    reserved_14: U16,
    desired_remote_receive_size: U32,
    local_receive_size: U32,
    mseq: U32,
    second_qp: U32,
    flow_control: FlowControlWire,
}

/// The short HelloAck as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ShortHelloAckWire {
    magic: U32,
    version: u8,
    max_adverts: u8,
    flags: u8,
    reserved_7: u8,
    bufs: U16,
    reserved_10: U16,
    actual_receive_size: U32,
    mseq: U32,
    second_qp: U32,
    flow_control: FlowControlWire,
}

const HELLO_MAGIC: u32 = u32::from_be_bytes(*b"FSdH");
const HELLO_ACK_MAGIC: u32 = u32::from_be_bytes(*b"FSdA");

/// Bytes of a short Hello: all that the TCP port space leaves in a REQ.
pub const SHORT_HELLO_LEN: usize = size_of::<ShortHelloWire>();

/// Bytes of a short HelloAck.
pub const SHORT_HELLO_ACK_LEN: usize = size_of::<ShortHelloAckWire>();

fn expect_magic(what: &'static str, expected: u32, got: U32) -> Result<(), ParseError> {
    let got = got.get();
    if got == expected {
        return Ok(());
    }
    Err(ParseError::Magic {
        what,
        expected,
        got,
    })
}

impl Message<'_> {
    /// Reads a short Hello: a REQ's private data behind the manager's own header. `addresses` are
    /// those of that header, as the manager tells them.
    pub fn parse_short_hello(bytes: &[u8], addresses: Addresses) -> Result<Self, ParseError> {
        let what = "short Hello";
        let (wire, _) = prefix::<ShortHelloWire>(bytes, what)?;
        expect_magic(what, HELLO_MAGIC, wire.magic)?;
        let hello = Hello {
            version: Version(wire.version),
            capabilities: Capabilities::from_bits_truncate(wire.capabilities),
            max_adverts: wire.max_adverts,
            ext_max_adverts: wire.ext_max_adverts.get(),
            desired_remote_receive_bytes: wire.desired_remote_receive_size.get(),
            local_receive_bytes: wire.local_receive_size.get(),
            port: wire.port.get(),
            addresses,
            flow_control: FlowControl::from_wire(&wire.flow_control, wire.second_qp.get()),
        };
        let header = MessageHeader {
            flags: Flags::from_bits_truncate(wire.flags),
            bufs: wire.bufs.get(),
            mseq: MessageSeq(wire.mseq.get()),
            mseq_ack: MessageSeq(0),
        };
        Ok(Message {
            header,
            body: Body::Hello(hello),
        })
    }

    /// Reads a short HelloAck: a REP's private data.
    pub fn parse_short_hello_ack(bytes: &[u8]) -> Result<Self, ParseError> {
        let what = "short HelloAck";
        let (wire, _) = prefix::<ShortHelloAckWire>(bytes, what)?;
        expect_magic(what, HELLO_ACK_MAGIC, wire.magic)?;
        let ack = HelloAck {
            version: Version(wire.version),
            max_adverts: wire.max_adverts,
            actual_receive_bytes: wire.actual_receive_size.get(),
            flow_control: FlowControl::from_wire(&wire.flow_control, wire.second_qp.get()),
        };
        let header = MessageHeader {
            flags: Flags::from_bits_truncate(wire.flags),
            bufs: wire.bufs.get(),
            mseq: MessageSeq(wire.mseq.get()),
            mseq_ack: MessageSeq(0),
        };
        Ok(Message {
            header,
            body: Body::HelloAck(ack),
        })
    }

    /// Writes the short form of a Hello or HelloAck at the start of `out`; returns its length. A
    /// Hello's addresses are not in it: they must be those that the manager puts into the REQ.
    pub fn emit_short(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        self.check()?;
        let (len, header) = (out.len(), &self.header);
        let rest = match &self.body {
            Body::Hello(hello) => put(&short_hello(header, hello), out)?,
            Body::HelloAck(ack) => put(&short_hello_ack(header, ack), out)?,
            other => return Err(EmitError::NoShortForm(other.mid())),
        };
        Ok(len - rest.len())
    }
}

fn short_hello(header: &MessageHeader, hello: &Hello) -> ShortHelloWire {
    ShortHelloWire {
        magic: U32::new(HELLO_MAGIC),
        version: hello.version.0,
        capabilities: hello.capabilities.bits(),
        max_adverts: hello.max_adverts,
        flags: header.flags.bits(),
        ext_max_adverts: U16::new(hello.ext_max_adverts),
        bufs: U16::new(header.bufs),
        port: U16::new(hello.port),
        reserved_14: U16::ZERO,
        desired_remote_receive_size: U32::new(hello.desired_remote_receive_bytes),
        local_receive_size: U32::new(hello.local_receive_bytes),
        mseq: U32::new(header.mseq.0),
        second_qp: U32::new(FlowControl::second_qp(hello.flow_control.as_ref())),
        flow_control: FlowControl::to_wire(hello.flow_control.as_ref()),
    }
}

fn short_hello_ack(header: &MessageHeader, ack: &HelloAck) -> ShortHelloAckWire {
    ShortHelloAckWire {
        magic: U32::new(HELLO_ACK_MAGIC),
        version: ack.version.0,
        max_adverts: ack.max_adverts,
        flags: header.flags.bits(),
        reserved_7: 0,
        bufs: U16::new(header.bufs),
        reserved_10: U16::ZERO,
        actual_receive_size: U32::new(ack.actual_receive_bytes),
        mseq: U32::new(header.mseq.0),
        second_qp: U32::new(FlowControl::second_qp(ack.flow_control.as_ref())),
        flow_control: FlowControl::to_wire(ack.flow_control.as_ref()),
    }
}
