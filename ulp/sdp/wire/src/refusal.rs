//! Why a connection is refused: eight bytes in the private data of the communication manager's REJ.
//! Owns their layout.
//!
//! The manager has one reason for all that a consumer refuses, and the standard gives its private
//! data no meaning. So another implementation's refusal has none of these bytes, and reading gives
//! None.

use crate::error::EmitError;
use crate::header::put;
use zerocopy::byteorder::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The refusal as it travels.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RefusalWire {
    magic: U32,
    version: u8,
    reason: u8,
    reserved_6: [u8; 2],
}

const MAGIC: u32 = u32::from_be_bytes(*b"FSdR");
const VERSION: u8 = 1;

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// Why a socket refuses a connection.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Refusal {
            $($(#[$doc])* $name = $code,)*
        }

        impl Refusal {
            /// All reasons, by code.
            pub const ALL: &'static [Refusal] = &[$(Refusal::$name),*];

            const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Refusal::$name),)*
                    _ => None,
                }
            }
        }
    };
}

refusals! {
    /// The private data are no Hello.
    NoHello = 1,
    /// A version of the protocol that this side does not speak.
    Version = 2,
    /// Numbers that no side works with: receives, their size, a ring, MaxAdverts 0.
    Numbers = 3,
    /// The addresses in Hello are not those that the request comes from and goes to.
    Addresses = 4,
    /// This side does not know the TCP connection that is to be taken over.
    NoSuchSocket = 5,
    /// It may know it soon: the connection has not been accepted so far.
    NotYet = 6,
    /// Memory, queue pairs or descriptors are used up.
    NoResources = 7,
    /// The user does not want it: an address range that is not listed, a connection that stays TCP.
    NotAllowed = 8,
}

impl Refusal {
    /// Bytes on the wire.
    pub const LEN: usize = size_of::<RefusalWire>();

    /// Reads the private data of a REJ, which are filled up with zeros; None if another
    /// implementation has refused, or a version that this one does not know.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (wire, _) = RefusalWire::ref_from_prefix(bytes).ok()?;
        let is_ours = wire.magic.get() == MAGIC && wire.version == VERSION;
        is_ours.then(|| Refusal::from_code(wire.reason))?
    }

    /// Writes the refusal at the start of `out`; returns its length.
    ///
    /// # Errors
    /// The buffer is too short.
    pub fn emit(self, out: &mut [u8]) -> Result<usize, EmitError> {
        let wire = RefusalWire {
            magic: U32::new(MAGIC),
            version: VERSION,
            reason: self as u8,
            reserved_6: [0; 2],
        };
        put(&wire, out)?;
        Ok(Refusal::LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_comes_back_and_other_bytes_are_none() {
        for reason in Refusal::ALL {
            let mut bytes = [0; 148];
            assert_eq!(reason.emit(&mut bytes), Ok(Refusal::LEN));
            assert_eq!(Refusal::parse(&bytes), Some(*reason));
            assert_eq!(Refusal::parse(&bytes[..7]), None);
            for bit in 0..40 {
                let mut other = bytes;
                other[bit / 8] ^= 0x80 >> (bit % 8);
                assert_eq!(Refusal::parse(&other), None, "bit {bit}");
            }
        }
        assert_eq!(Refusal::parse(&[]), None);
        assert_eq!(Refusal::parse(&[0; 148]), None);
        assert!(Refusal::NoHello.emit(&mut [0; 7]).is_err());
    }
}
