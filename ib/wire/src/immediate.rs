//! The two 4-byte headers that end a message's last packet: ImmDt and IETH (IBA 9.3).

use crate::error::{EmitError, ParseError};
use crate::header::Header;
use crate::types::RKey;
use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// ImmDt or IETH as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Word32Wire {
    word: U32,
}

/// Immediate data, delivered in the receiver's completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImmDt {
    /// The four bytes in the order in which they travel.
    pub bytes: [u8; 4],
}

impl ImmDt {
    /// From the verbs API's `__be32`, whose bytes in memory are the bytes on the wire.
    pub const fn from_network(value: u32) -> Self {
        ImmDt {
            bytes: value.to_ne_bytes(),
        }
    }

    /// To the verbs API's `__be32`.
    pub const fn to_network(self) -> u32 {
        u32::from_ne_bytes(self.bytes)
    }
}

impl Header for ImmDt {
    type Wire = Word32Wire;
    const NAME: &'static str = "ImmDt";

    fn from_wire(wire: &Word32Wire) -> Result<Self, ParseError> {
        Ok(ImmDt {
            bytes: wire.word.get().to_be_bytes(),
        })
    }

    fn to_wire(&self) -> Result<Word32Wire, EmitError> {
        Ok(Word32Wire {
            word: U32::new(u32::from_be_bytes(self.bytes)),
        })
    }
}

/// Invalidate extended transport header: the key that a SEND with invalidate revokes at the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ieth {
    /// Key of the receiver's region or window.
    pub rkey: RKey,
}

impl Header for Ieth {
    type Wire = Word32Wire;
    const NAME: &'static str = "IETH";

    fn from_wire(wire: &Word32Wire) -> Result<Self, ParseError> {
        Ok(Ieth {
            rkey: RKey(wire.word.get()),
        })
    }

    fn to_wire(&self) -> Result<Word32Wire, EmitError> {
        Ok(Word32Wire {
            word: U32::new(self.rkey.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn immediate_keeps_the_byte_order_of_memory() {
        let imm = ImmDt::from_network(0xabcd_0003_u32.to_be());
        assert_eq!(imm.bytes, [0xab, 0xcd, 0x00, 0x03]);
        assert_eq!(u32::from_be(imm.to_network()), 0xabcd_0003);
    }
}
