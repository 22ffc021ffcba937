//! What all headers share: viewing the start of bytes as a zerocopy struct, and copying one into a
//! buffer. Knows no particular header.

use crate::error::{EmitError, ParseError};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

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
    put_bytes(wire.as_bytes(), out)
}

/// Copies `bytes` to the start of `out`; returns what follows.
pub(crate) fn put_bytes<'a>(bytes: &[u8], out: &'a mut [u8]) -> Result<&'a mut [u8], EmitError> {
    let got = out.len();
    let needed = bytes.len();
    let (head, rest) = out
        .split_at_mut_checked(needed)
        .ok_or(EmitError::BufferTooSmall { needed, got })?;
    head.copy_from_slice(bytes);
    Ok(rest)
}
