//! Base transport header, 12 bytes (IBA 9.2). Owns its layout. The pad count is no field of the value: it follows
//! from the payload's length, and `Packet` computes it.

use crate::error::{EmitError, ParseError};
use crate::header::{U24, fits, prefix, put};
use crate::opcode::Opcode;
use crate::types::{PKey, Psn, Qpn};
use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The BTH as it travels. Usable on its own to steer a packet whose rest may be invalid.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BthWire {
    opcode: u8,
    /// SE:1 M:1 PadCnt:2 TVer:4.
    flags: u8,
    pkey: U16,
    /// FECN:1 BECN:1 reserved:6. The IBA's resv8a: masked in the ICRC.
    congestion: u8,
    dest_qp: U24,
    /// AckReq:1 reserved:7.
    ack: u8,
    psn: U24,
}

const SOLICITED: u8 = 1 << 7;
const MIGRATED: u8 = 1 << 6;
const PAD_SHIFT: u32 = 4;
const PAD_MASK: u8 = 3;
const VERSION_MASK: u8 = 0xf;
const FECN: u8 = 1 << 7;
const BECN: u8 = 1 << 6;
const ACK_REQ: u8 = 1 << 7;

impl BthWire {
    /// The raw opcode, known or not.
    pub const fn opcode_code(&self) -> u8 {
        self.opcode
    }

    /// Destination queue pair.
    pub const fn dest_qpn(&self) -> Qpn {
        Qpn(self.dest_qp.get())
    }

    /// Packet sequence number.
    pub const fn psn(&self) -> Psn {
        Psn::new(self.psn.get())
    }

    /// Bytes of padding after the payload, 0..=3.
    pub const fn pad_count(&self) -> u8 {
        (self.flags >> PAD_SHIFT) & PAD_MASK
    }

    /// The same header with the ICRC's variant field set to ones (IBA 7.8.1).
    pub(crate) const fn masked(mut self) -> Self {
        self.congestion = 0xff;
        self
    }
}

/// The BTH's meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bth {
    /// Operation, and so which headers follow.
    pub opcode: Opcode,
    /// Solicited event: the responder raises an event when the message completes.
    pub solicited: bool,
    /// MigReq: the sender's path is in state Migrated (IBA 17.2.8).
    pub migrated: bool,
    /// Partition key of the sender.
    pub pkey: PKey,
    /// Forward explicit congestion notification (IBA annex A10).
    pub fecn: bool,
    /// Backward explicit congestion notification (IBA annex A10).
    pub becn: bool,
    /// Destination queue pair, 24 bits.
    pub dest_qpn: Qpn,
    /// The requester asks for an acknowledgement.
    pub ack_req: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl Bth {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<BthWire>();

    /// A header with all flags clear and the default partition, to be refined by struct update.
    pub const fn new(opcode: Opcode, dest_qpn: Qpn, psn: Psn) -> Self {
        Bth {
            opcode,
            solicited: false,
            migrated: false,
            pkey: PKey(0xffff),
            fecn: false,
            becn: false,
            dest_qpn,
            ack_req: false,
            psn,
        }
    }

    /// Views the raw header at the start of a transport packet, of any opcode.
    pub fn peek(bytes: &[u8]) -> Result<&BthWire, ParseError> {
        prefix::<BthWire>(bytes, "BTH").map(|(wire, _)| wire)
    }

    /// Reads the header; returns it, the pad count and what follows.
    pub fn parse(bytes: &[u8]) -> Result<(Self, u8, &[u8]), ParseError> {
        let (wire, rest) = prefix::<BthWire>(bytes, "BTH")?;
        // A packet of another transport version is dropped, before its opcode means anything (IBA 9.2).
        let version = wire.flags & VERSION_MASK;
        if version != 0 {
            return Err(ParseError::TransportVersion(version));
        }
        let opcode =
            Opcode::from_code(wire.opcode).ok_or(ParseError::UnknownOpcode(wire.opcode))?;
        let bth = Bth {
            opcode,
            solicited: wire.flags & SOLICITED != 0,
            migrated: wire.flags & MIGRATED != 0,
            pkey: PKey(wire.pkey.get()),
            fecn: wire.congestion & FECN != 0,
            becn: wire.congestion & BECN != 0,
            dest_qpn: wire.dest_qpn(),
            ack_req: wire.ack & ACK_REQ != 0,
            psn: wire.psn(),
        };
        Ok((bth, wire.pad_count(), rest))
    }

    /// The PSN, AckReq and payload of a packet (from BTH to pad) whose header says all else as `other` does, the header of a packet
    /// without extension headers and pad. None if it does not, or has no payload.
    pub fn alike<'a>(bytes: &'a [u8], other: &[u8; Bth::LEN]) -> Option<(Psn, bool, &'a [u8])> {
        let (header, payload) = bytes.split_first_chunk::<{ Bth::LEN }>()?;
        let [first @ .., ack, high, middle, low] = header;
        let same = *first == other[..Bth::LEN - 4] && !payload.is_empty();
        same.then(|| {
            let psn = Psn::new(u32::from_be_bytes([0, *high, *middle, *low]));
            (psn, ack & ACK_REQ != 0, payload)
        })
    }

    /// A header (without pad) that says what `other` does, but for its PSN and AckReq: the inverse of [`Self::alike`].
    pub fn next_to(other: &[u8; Bth::LEN], psn: Psn, ack_req: bool) -> [u8; Bth::LEN] {
        let mut header = *other;
        let [_, high, middle, low] = psn.get().to_be_bytes();
        let ack = if ack_req { ACK_REQ } else { 0 };
        header[Bth::LEN - 4..].copy_from_slice(&[ack, high, middle, low]);
        header
    }

    /// Writes the header with the given pad count, 0..=3; returns what follows.
    pub fn emit<'a>(&self, pad_count: u8, out: &'a mut [u8]) -> Result<&'a mut [u8], EmitError> {
        fits("PadCnt", pad_count.into(), 2)?;
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        let wire = BthWire {
            opcode: self.opcode.code(),
            flags: flag(self.solicited, SOLICITED)
                | flag(self.migrated, MIGRATED)
                | pad_count << PAD_SHIFT,
            pkey: U16::new(self.pkey.0),
            congestion: flag(self.fecn, FECN) | flag(self.becn, BECN),
            dest_qp: U24::new("DestQP", self.dest_qpn.0)?,
            ack: flag(self.ack_req, ACK_REQ),
            psn: U24::new("PSN", self.psn.get())?,
        };
        put(&wire, out)
    }
}
