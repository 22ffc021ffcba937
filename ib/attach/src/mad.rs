//! Management packets between a program and the port of its host: a head of 64 bytes, and the packet (or a long message, whole).
//!
//! The head is laid out as the `ib_user_mad` of the Linux kernel (rdma-core: libibumad/umad.h), which programs hold in their memory: numbers in the machine's order
//! but for the address, which is as on the wire. So what a program writes travels as it is.

use crate::AttachError;
use ferriband_wire::{Lid, QKey, Qpn, Sl};

/// Bytes of the head.
pub const HEAD_BYTES: usize = 64;
/// First byte of such a message.
pub const MAD: u8 = b'M';

/// The head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MadHead {
    /// Whom it is for, or from.
    pub agent: u32,
    /// 0, or an errno: ETIMEDOUT for a request that nobody answered.
    pub status: u32,
    /// How long an answer is waited for; 0: none is.
    pub timeout_ms: u32,
    /// How often it is sent again.
    pub retries: u32,
    /// Bytes with the head, in what is received.
    pub length: u32,
    /// The other end's queue pair.
    pub qpn: Qpn,
    /// Its key.
    pub qkey: QKey,
    /// The other end's LID.
    pub lid: Lid,
    /// Service level.
    pub sl: Sl,
    /// Of this end's LID, the bits below LMC.
    pub path_bits: u8,
    /// Index of the partition key.
    pub pkey_index: u16,
}

impl MadHead {
    /// Reads it; what follows the last field is not looked at.
    ///
    /// # Errors
    /// `Malformed` if there are fewer bytes.
    pub fn parse(bytes: &[u8]) -> Result<MadHead, AttachError> {
        let head: &[u8; HEAD_BYTES] = bytes
            .first_chunk()
            .ok_or(AttachError::Malformed("the head of a management packet"))?;
        let four = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        Ok(MadHead {
            agent: u32::from_ne_bytes(four(0)),
            status: u32::from_ne_bytes(four(4)),
            timeout_ms: u32::from_ne_bytes(four(8)),
            retries: u32::from_ne_bytes(four(12)),
            length: u32::from_ne_bytes(four(16)),
            qpn: Qpn(u32::from_be_bytes(four(20)) & 0xff_ffff),
            qkey: QKey(u32::from_be_bytes(four(24))),
            lid: Lid(u16::from_be_bytes([head[28], head[29]])),
            sl: Sl(head[30] & 0xf),
            path_bits: head[31],
            pkey_index: u16::from_ne_bytes([head[56], head[57]]),
        })
    }

    /// Its bytes.
    pub fn emit(&self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[0..4].copy_from_slice(&self.agent.to_ne_bytes());
        head[4..8].copy_from_slice(&self.status.to_ne_bytes());
        head[8..12].copy_from_slice(&self.timeout_ms.to_ne_bytes());
        head[12..16].copy_from_slice(&self.retries.to_ne_bytes());
        head[16..20].copy_from_slice(&self.length.to_ne_bytes());
        head[20..24].copy_from_slice(&self.qpn.0.to_be_bytes());
        head[24..28].copy_from_slice(&self.qkey.0.to_be_bytes());
        head[28..30].copy_from_slice(&self.lid.0.to_be_bytes());
        (head[30], head[31]) = (self.sl.0, self.path_bits);
        head[56..58].copy_from_slice(&self.pkey_index.to_ne_bytes());
        head
    }

    /// A message: head and packet.
    pub fn message(&self, mad: &[u8]) -> Vec<u8> {
        [&[MAD][..], &self.emit(), mad].concat()
    }
}

/// Head and packet of a message.
///
/// # Errors
/// `Malformed`.
pub fn parse(message: &[u8]) -> Result<(MadHead, &[u8]), AttachError> {
    match message.split_first() {
        Some((&MAD, rest)) => Ok((MadHead::parse(rest)?, &rest[HEAD_BYTES..])),
        _ => Err(AttachError::Malformed("no management packet")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_laid_out_as_the_kernels() {
        let head = MadHead {
            agent: 3,
            status: 110,
            timeout_ms: 1000,
            retries: 2,
            length: 320,
            qpn: Qpn(1),
            qkey: QKey(0x8001_0000),
            lid: Lid(0x0102),
            sl: Sl(4),
            path_bits: 1,
            pkey_index: 7,
        };
        let bytes = head.emit();
        assert_eq!(bytes[20..30], [0, 0, 0, 1, 0x80, 1, 0, 0, 1, 2]);
        assert_eq!(MadHead::parse(&bytes), Ok(head));
        assert_eq!(parse(&head.message(b"xy")), Ok((head, &b"xy"[..])));
        assert!(MadHead::parse(&bytes[1..]).is_err());
        assert!(parse(b"J{}").is_err());
    }
}
