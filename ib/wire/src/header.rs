//! What all headers share: the split between a header's bytes (`Wire`, a zerocopy struct of big-endian fields) and
//! its value (a struct of the IBA's quantities). A value has no reserved bits, so they are sent zero and ignored on
//! receipt by construction. Knows no particular header.

use crate::error::{EmitError, ParseError};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A header of fixed size.
pub trait Header: Copy + Sized {
    /// The bytes as they travel.
    type Wire: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned + 'static;

    /// The IBA's name, for error messages.
    const NAME: &'static str;

    /// Bytes on the wire.
    const LEN: usize = size_of::<Self::Wire>();

    /// Bytes to value. Reserved bits are dropped; fields that must have a fixed value are checked.
    fn from_wire(wire: &Self::Wire) -> Result<Self, ParseError>;

    /// Value to bytes, reserved bits zero. Fails if a field does not fit its bits.
    fn to_wire(&self) -> Result<Self::Wire, EmitError>;

    /// Reads the header at the start of `bytes`; returns it and what follows.
    fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        let (wire, rest) = prefix::<Self::Wire>(bytes, Self::NAME)?;
        Ok((Self::from_wire(wire)?, rest))
    }

    /// Writes the header at the start of `out`; returns what follows.
    fn emit<'a>(&self, out: &'a mut [u8]) -> Result<&'a mut [u8], EmitError> {
        put(&self.to_wire()?, out)
    }
}

/// Views the start of `bytes` as a `W`.
pub(crate) fn prefix<'a, W>(
    bytes: &'a [u8],
    what: &'static str,
) -> Result<(&'a W, &'a [u8]), ParseError>
where
    W: FromBytes + KnownLayout + Immutable + Unaligned,
{
    W::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated {
        what,
        needed: size_of::<W>(),
        got: bytes.len(),
    })
}

/// Copies `wire` to the start of `out`; returns what follows.
pub(crate) fn put<'a, W>(wire: &W, out: &'a mut [u8]) -> Result<&'a mut [u8], EmitError>
where
    W: IntoBytes + Immutable,
{
    let got = out.len();
    let (head, rest) =
        out.split_at_mut_checked(size_of::<W>())
            .ok_or(EmitError::BufferTooSmall {
                needed: size_of::<W>(),
                got,
            })?;
    head.copy_from_slice(wire.as_bytes());
    Ok(rest)
}

/// Checks that `value` fits in `bits` bits (fewer than 32).
pub(crate) const fn fits(field: &'static str, value: u32, bits: u32) -> Result<u32, EmitError> {
    if value >> bits == 0 {
        Ok(value)
    } else {
        Err(EmitError::OutOfRange { field, value, bits })
    }
}

/// The `width` bits of `byte` whose lowest is bit `shift`.
pub(crate) const fn bits(byte: u8, shift: u32, width: u32) -> u8 {
    (byte >> shift) & (0xff >> (8 - width))
}

/// A field of `width` bits, fewer than 8, in its place in a byte: the inverse of `bits`.
pub(crate) const fn place(
    field: &'static str,
    value: u8,
    shift: u32,
    width: u32,
) -> Result<u8, EmitError> {
    match fits(field, value as u32, width) {
        Ok(_) => Ok(value << shift),
        Err(error) => Err(error),
    }
}

/// A flag in its place in a byte.
pub(crate) const fn flag(on: bool, shift: u32) -> u8 {
    (on as u8) << shift
}

/// A big-endian 24-bit field: queue pair numbers, PSNs, MSNs.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    Default,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct U24([u8; 3]);

impl U24 {
    /// The value, below 2^24.
    pub const fn get(self) -> u32 {
        let [high, middle, low] = self.0;
        u32::from_be_bytes([0, high, middle, low])
    }

    /// Refuses values of more than 24 bits, naming `field`.
    pub const fn new(field: &'static str, value: u32) -> Result<Self, EmitError> {
        match value.to_be_bytes() {
            [0, high, middle, low] => Ok(U24([high, middle, low])),
            _ => Err(EmitError::OutOfRange {
                field,
                value,
                bits: 24,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u24_is_big_endian_and_bounded() {
        let field = U24::new("QP", 0x12_3456).expect("fits");
        assert_eq!(field.as_bytes(), [0x12, 0x34, 0x56]);
        assert_eq!(field.get(), 0x12_3456);
        assert_eq!(
            U24::new("QP", 1 << 24),
            Err(EmitError::OutOfRange {
                field: "QP",
                value: 1 << 24,
                bits: 24
            })
        );
    }

    #[test]
    fn fits_is_exact_at_the_edge() {
        assert_eq!(fits("SL", 15, 4), Ok(15));
        assert!(fits("SL", 16, 4).is_err());
    }
}
