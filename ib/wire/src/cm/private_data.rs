//! The two parts of a message that are not the connection manager's own: the consumer's private data, always of full
//! length, and the additional information with its length beside it.

use crate::error::{EmitError, ParseError};
use std::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A consumer's private data: `N` bytes whatever the consumer gave, the rest zero. The receiver cannot tell how many
/// were given.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(transparent)]
pub struct PrivateData<const N: usize>([u8; N]);

impl<const N: usize> PrivateData<N> {
    /// Bytes that fit.
    pub const LEN: usize = N;

    /// Takes up to `N` bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, EmitError> {
        let mut data = [0; N];
        data.get_mut(..bytes.len())
            .ok_or(EmitError::TooLong {
                field: "PrivateData",
                max: N,
                got: bytes.len(),
            })?
            .copy_from_slice(bytes);
        Ok(PrivateData(data))
    }

    /// All `N` bytes.
    pub const fn as_bytes(&self) -> &[u8; N] {
        &self.0
    }
}

impl<const N: usize> From<[u8; N]> for PrivateData<N> {
    fn from(bytes: [u8; N]) -> Self {
        PrivateData(bytes)
    }
}

impl<const N: usize> Default for PrivateData<N> {
    fn default() -> Self {
        PrivateData([0; N])
    }
}

/// Hexadecimal, without the zeros at the end.
impl<const N: usize> fmt::Debug for PrivateData<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self
            .0
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        f.write_str("0x")?;
        self.0[..used]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Bytes of additional information in REJ, APR and SIDR_REP.
pub const INFO_LEN: usize = 72;

/// Additional information: up to 72 bytes that go with a reason or status, as a better path MTU with
/// `RejectReason::InvalidPathMtu`, or a ClassPortInfo with a redirection (IBA 12.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Info {
    /// At most `INFO_LEN`.
    len: u8,
    /// Zero beyond `len`.
    bytes: PrivateData<INFO_LEN>,
}

impl Info {
    /// None.
    pub const NONE: Info = Info {
        len: 0,
        bytes: PrivateData([0; INFO_LEN]),
    };

    /// Takes up to 72 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, EmitError> {
        Ok(Info {
            bytes: PrivateData::new(bytes)?,
            // At most 72, for it was taken.
            len: bytes.len() as u8,
        })
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes.0[..usize::from(self.len)]
    }

    /// From a length that a peer gave and the field that it is about; bytes beyond the length are dropped.
    pub(super) fn from_wire(
        field: &'static str,
        len: u8,
        bytes: &PrivateData<INFO_LEN>,
    ) -> Result<Self, ParseError> {
        bytes
            .0
            .get(..usize::from(len))
            .and_then(|bytes| Info::new(bytes).ok())
            .ok_or(ParseError::Field {
                field,
                value: len.into(),
            })
    }

    /// Length and field.
    pub(super) const fn to_wire(self) -> (u8, PrivateData<INFO_LEN>) {
        (self.len, self.bytes)
    }
}

impl Default for Info {
    fn default() -> Self {
        Info::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_takes_what_fits() {
        let data = PrivateData::<4>::new(&[1, 2]).expect("fits");
        assert_eq!(data.as_bytes(), &[1, 2, 0, 0]);
        assert_eq!(format!("{data:?}"), "0x0102");
        assert_eq!(
            PrivateData::<4>::new(&[0; 5]),
            Err(EmitError::TooLong {
                field: "PrivateData",
                max: 4,
                got: 5
            })
        );
    }

    #[test]
    fn information_longer_than_its_field_is_refused() {
        let field = PrivateData([7; INFO_LEN]);
        let whole = Info::from_wire("ARI", 72, &field).expect("fits");
        assert_eq!(whole.as_bytes(), [7; 72]);
        for len in 73..=u8::MAX {
            assert!(Info::from_wire("ARI", len, &field).is_err());
        }
        // What lies beyond the length is nobody's.
        let short = Info::from_wire("ARI", 3, &field).expect("fits");
        assert_eq!(Ok(short), Info::new(&[7; 3]));
    }
}
