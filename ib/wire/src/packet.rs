//! The transport part of a packet: BTH, extension headers, payload, pad; from after the LRH, GRH or UDP header to
//! before the ICRC. Which headers there are is read from the opcode table. Knows neither what is before nor after.

use crate::aeth::Aeth;
use crate::atomic::{AtomicAckEth, AtomicEth};
use crate::bth::Bth;
use crate::datagram::{Deth, Rdeth, XrcEth};
use crate::error::{EmitError, ParseError};
use crate::header::Header;
use crate::immediate::{Ieth, ImmDt};
use crate::opcode::{ExtKind, Opcode, OpcodeInfo};
use crate::reth::Reth;
use crate::types::{PKey, Psn, Qpn};

// the table of opcodes says how long each header is, and knows none of them
const _: () = {
    assert!(crate::opcode::BTH_LEN == Bth::LEN);
    assert!(ExtKind::Rdeth.wire_len() == <Rdeth as Header>::LEN);
    assert!(ExtKind::Deth.wire_len() == <Deth as Header>::LEN);
    assert!(ExtKind::XrcEth.wire_len() == <XrcEth as Header>::LEN);
    assert!(ExtKind::Reth.wire_len() == <Reth as Header>::LEN);
    assert!(ExtKind::AtomicEth.wire_len() == <AtomicEth as Header>::LEN);
    assert!(ExtKind::Aeth.wire_len() == <Aeth as Header>::LEN);
    assert!(ExtKind::AtomicAckEth.wire_len() == <AtomicAckEth as Header>::LEN);
    assert!(ExtKind::ImmDt.wire_len() == <ImmDt as Header>::LEN);
    assert!(ExtKind::Ieth.wire_len() == <Ieth as Header>::LEN);
};

/// The extension headers of a packet: exactly those that its opcode has are present.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct Ext {
    pub rdeth: Option<Rdeth>,
    pub deth: Option<Deth>,
    pub xrceth: Option<XrcEth>,
    pub reth: Option<Reth>,
    pub atomic: Option<AtomicEth>,
    pub aeth: Option<Aeth>,
    pub atomic_ack: Option<AtomicAckEth>,
    pub imm: Option<ImmDt>,
    pub ieth: Option<Ieth>,
}

impl Ext {
    /// Whether `kind` is present.
    pub const fn has(&self, kind: ExtKind) -> bool {
        self.set() & kind.bit() != 0
    }

    /// Those present, a bit each.
    const fn set(&self) -> u16 {
        const fn bit(kind: ExtKind, present: bool) -> u16 {
            (present as u16) << kind as u16
        }
        bit(ExtKind::Rdeth, self.rdeth.is_some())
            | bit(ExtKind::Deth, self.deth.is_some())
            | bit(ExtKind::XrcEth, self.xrceth.is_some())
            | bit(ExtKind::Reth, self.reth.is_some())
            | bit(ExtKind::AtomicEth, self.atomic.is_some())
            | bit(ExtKind::Aeth, self.aeth.is_some())
            | bit(ExtKind::AtomicAckEth, self.atomic_ack.is_some())
            | bit(ExtKind::ImmDt, self.imm.is_some())
            | bit(ExtKind::Ieth, self.ieth.is_some())
    }

    /// Checks that exactly the headers of `info` are present.
    fn check(&self, info: &OpcodeInfo) -> Result<(), EmitError> {
        if self.set() == info.header_set {
            return Ok(());
        }
        let opcode = info.opcode;
        for header in ExtKind::ALL {
            match (info.has(header), self.has(header)) {
                (true, false) => return Err(EmitError::MissingHeader { opcode, header }),
                (false, true) => return Err(EmitError::UnexpectedHeader { opcode, header }),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the headers that `info` names; returns them and what follows.
    fn parse<'a>(info: &OpcodeInfo, mut bytes: &'a [u8]) -> Result<(Self, &'a [u8]), ParseError> {
        fn take<H: Header>(slot: &mut Option<H>, bytes: &mut &[u8]) -> Result<(), ParseError> {
            let (header, rest) = H::parse(bytes)?;
            *slot = Some(header);
            *bytes = rest;
            Ok(())
        }
        let mut ext = Ext::default();
        for header in info.headers {
            match header {
                ExtKind::Rdeth => take(&mut ext.rdeth, &mut bytes)?,
                ExtKind::Deth => take(&mut ext.deth, &mut bytes)?,
                ExtKind::XrcEth => take(&mut ext.xrceth, &mut bytes)?,
                ExtKind::Reth => take(&mut ext.reth, &mut bytes)?,
                ExtKind::AtomicEth => take(&mut ext.atomic, &mut bytes)?,
                ExtKind::Aeth => take(&mut ext.aeth, &mut bytes)?,
                ExtKind::AtomicAckEth => take(&mut ext.atomic_ack, &mut bytes)?,
                ExtKind::ImmDt => take(&mut ext.imm, &mut bytes)?,
                ExtKind::Ieth => take(&mut ext.ieth, &mut bytes)?,
            }
        }
        Ok((ext, bytes))
    }

    /// Writes the headers that `info` names; returns what follows.
    fn emit<'a>(
        &self,
        info: &OpcodeInfo,
        mut out: &'a mut [u8],
    ) -> Result<&'a mut [u8], EmitError> {
        let opcode = info.opcode;
        for &header in info.headers {
            let missing = EmitError::MissingHeader { opcode, header };
            out = match header {
                ExtKind::Rdeth => self.rdeth.ok_or(missing)?.emit(out),
                ExtKind::Deth => self.deth.ok_or(missing)?.emit(out),
                ExtKind::XrcEth => self.xrceth.ok_or(missing)?.emit(out),
                ExtKind::Reth => self.reth.ok_or(missing)?.emit(out),
                ExtKind::AtomicEth => self.atomic.ok_or(missing)?.emit(out),
                ExtKind::Aeth => self.aeth.ok_or(missing)?.emit(out),
                ExtKind::AtomicAckEth => self.atomic_ack.ok_or(missing)?.emit(out),
                ExtKind::ImmDt => self.imm.ok_or(missing)?.emit(out),
                ExtKind::Ieth => self.ieth.ok_or(missing)?.emit(out),
            }?;
        }
        Ok(out)
    }
}

/// BTH and extension headers: a packet without its payload, for a sender that gathers the payload itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// Base transport header.
    pub bth: Bth,
    /// Extension headers.
    pub ext: Ext,
}

/// Bytes of padding after `payload_len` bytes: 0..=3.
pub const fn pad_len(payload_len: usize) -> usize {
    payload_len.wrapping_neg() & 3
}

impl Headers {
    /// Puts the two together; that they agree is checked when they are written.
    pub const fn new(bth: Bth, ext: Ext) -> Self {
        Headers { bth, ext }
    }

    /// This packet's row of the opcode table.
    #[inline]
    pub const fn info(&self) -> &'static OpcodeInfo {
        self.bth.opcode.info()
    }

    /// Bytes of the headers on the wire.
    #[inline]
    pub const fn wire_len(&self) -> usize {
        self.info().header_len
    }

    /// Bytes from BTH to before the ICRC with a payload of `payload_len` bytes: headers, payload and pad.
    #[inline]
    pub const fn packet_len(&self, payload_len: usize) -> usize {
        self.wire_len() + payload_len + pad_len(payload_len)
    }

    /// Writes the headers of a packet of `payload_len` payload bytes to the start of `out`; returns their length.
    /// The caller writes the payload after them and then `pad_len(payload_len)` zero bytes.
    pub fn emit(&self, payload_len: usize, out: &mut [u8]) -> Result<usize, EmitError> {
        let info = self.info();
        self.ext.check(info)?;
        if !info.payload.plausible(payload_len) {
            return Err(EmitError::Payload {
                opcode: info.opcode,
                len: payload_len,
            });
        }
        // Two bits: a pad is 0..=3.
        let rest = self.bth.emit(pad_len(payload_len) as u8, out)?;
        self.ext.emit(info, rest)?;
        Ok(info.header_len)
    }
}

/// A transport packet: headers that agree with the opcode table, and a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// BTH and extension headers.
    pub headers: Headers,
    /// Payload without pad.
    pub payload: &'a [u8],
}

impl Packet<'static> {
    /// A RoCEv2 congestion notification packet to the queue pair whose packets came marked: BECN set, PSN 0, sixteen
    /// reserved bytes (IBA annex A17).
    pub fn cnp(dest_qpn: Qpn, pkey: PKey) -> Self {
        let bth = Bth {
            becn: true,
            pkey,
            ..Bth::new(Opcode::Cnp, dest_qpn, Psn::new(0))
        };
        Packet {
            headers: Headers::new(bth, Ext::default()),
            payload: &[0; 16],
        }
    }
}

impl<'a> Packet<'a> {
    /// Opcode of the packet.
    pub const fn opcode(&self) -> Opcode {
        self.headers.bth.opcode
    }

    /// The base transport header.
    pub const fn bth(&self) -> &Bth {
        &self.headers.bth
    }

    /// The extension headers.
    pub const fn ext(&self) -> &Ext {
        &self.headers.ext
    }

    /// Bytes of padding after the payload.
    pub const fn pad_len(&self) -> usize {
        pad_len(self.payload.len())
    }

    /// Bytes from BTH to before the ICRC.
    pub const fn wire_len(&self) -> usize {
        self.headers.packet_len(self.payload.len())
    }

    /// Reads a packet from `bytes`, which begin at the BTH and end before the ICRC. Takes all of them. The contents
    /// of the pad are ignored.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (bth, pad, rest) = Bth::parse(bytes)?;
        let info = bth.opcode.info();
        let (ext, rest) = Ext::parse(info, rest)?;
        if !rest.len().is_multiple_of(4) {
            return Err(ParseError::Misaligned { len: rest.len() });
        }
        let payload = rest
            .len()
            .checked_sub(pad.into())
            .and_then(|len| rest.get(..len))
            .ok_or(ParseError::Pad {
                pad,
                len: rest.len(),
            })?;
        if !info.payload.plausible(payload.len()) {
            return Err(ParseError::Payload {
                opcode: bth.opcode,
                len: payload.len(),
            });
        }
        Ok(Packet {
            headers: Headers { bth, ext },
            payload,
        })
    }

    /// Writes the packet, pad included and zero, to the start of `out`; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, EmitError> {
        let (needed, got) = (self.wire_len(), out.len());
        let out = out
            .get_mut(..needed)
            .ok_or(EmitError::BufferTooSmall { needed, got })?;
        let written = self.headers.emit(self.payload.len(), out)?;
        let (payload, pad) = out[written..].split_at_mut(self.payload.len());
        payload.copy_from_slice(self.payload);
        pad.fill(0);
        Ok(needed)
    }
}
