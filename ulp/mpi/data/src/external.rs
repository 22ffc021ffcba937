//! The representation external32 (MPI 14.5.2): big-endian, with sizes of its own, no padding.

use crate::datatype::Datatype;
use crate::error::Error;
use ferriband_arithmetic::Kind;
use ferriband_arithmetic::{f80_to_f128, f128_to_f80};

/// The representation's name; others are [`Error::Datarep`].
pub const NAME: &str = "external32";

/// That a representation is this one.
pub fn check_name(name: &str) -> Result<(), Error> {
    if name == NAME {
        Ok(())
    } else {
        Err(Error::Datarep)
    }
}

/// Bytes that an element has in external32.
pub const fn size_of(kind: Kind) -> i64 {
    match kind {
        Kind::Long | Kind::Ulong => 4,
        Kind::Wchar => 2,
        // `long double` is binary128 there, and its complex type two of them: as many bytes as here.
        _ => kind.size(),
    }
}

/// MPI_Pack_external_size: bytes of `count` elements. [`Error::Count`], [`Error::Overflow`].
pub fn size(datatype: &Datatype, count: i64) -> Result<i64, Error> {
    if count < 0 {
        return Err(Error::Count(count));
    }
    let each = datatype.map().external;
    each.checked_mul(count).ok_or(Error::Overflow)
}

/// MPI_Pack_external: as [`pack`](crate::pack), in external32. [`Error::Conversion`] if a value does not fit its
/// representation (a `long` beyond 32 bits, a `wchar_t` beyond 16); then part of the buffer was written.
///
/// # Safety
///
/// As [`pack`](crate::pack).
#[allow(unsafe_code)] // passes on
pub unsafe fn pack(
    datatype: &Datatype,
    count: i64,
    base: usize,
    out: *mut u8,
    size: i64,
    position: i64,
) -> Result<i64, Error> {
    // SAFETY: passed on.
    unsafe { crate::copy::pack_external(datatype, count, base, out, size, position) }
}

/// MPI_Unpack_external: as [`unpack`](crate::unpack), from external32.
///
/// # Safety
///
/// As [`unpack`](crate::unpack).
#[allow(unsafe_code)] // passes on
pub unsafe fn unpack(
    datatype: &Datatype,
    count: i64,
    base: usize,
    input: *const u8,
    size: i64,
    position: i64,
) -> Result<i64, Error> {
    // SAFETY: passed on.
    unsafe { crate::copy::unpack_external(datatype, count, base, input, size, position) }
}

/// One element from here to there. Slices have the element's sizes.
pub(crate) fn encode(kind: Kind, value: &[u8], encoded: &mut [u8]) -> Result<(), Error> {
    match kind {
        Kind::Long => {
            let long = i64::from_le_bytes(value.try_into().expect("a long has 8 bytes"));
            let int = i32::try_from(long).map_err(|_| Error::Conversion(4))?;
            encoded.copy_from_slice(&int.to_be_bytes());
        }
        Kind::Ulong => {
            let long = u64::from_le_bytes(value.try_into().expect("a long has 8 bytes"));
            let int = u32::try_from(long).map_err(|_| Error::Conversion(4))?;
            encoded.copy_from_slice(&int.to_be_bytes());
        }
        Kind::Wchar => {
            let wide = u32::from_le_bytes(value.try_into().expect("a wchar_t has 4 bytes"));
            let short = u16::try_from(wide).map_err(|_| Error::Conversion(2))?;
            encoded.copy_from_slice(&short.to_be_bytes());
        }
        Kind::F80 | Kind::C80 => {
            for (value, encoded) in value.chunks_exact(16).zip(encoded.chunks_exact_mut(16)) {
                let number = value[..10].try_into().expect("10 of 16 bytes");
                encoded.copy_from_slice(&f80_to_f128(number).to_be_bytes());
            }
        }
        _ => swap(part(kind), value, encoded),
    }
    Ok(())
}

/// One element from there to here.
pub(crate) fn decode(kind: Kind, encoded: &[u8], value: &mut [u8]) {
    match kind {
        Kind::Long => {
            let int = i32::from_be_bytes(encoded.try_into().expect("4 bytes in external32"));
            value.copy_from_slice(&i64::from(int).to_le_bytes());
        }
        Kind::Ulong => {
            let int = u32::from_be_bytes(encoded.try_into().expect("4 bytes in external32"));
            value.copy_from_slice(&u64::from(int).to_le_bytes());
        }
        Kind::Wchar => {
            let short = u16::from_be_bytes(encoded.try_into().expect("2 bytes in external32"));
            value.copy_from_slice(&u32::from(short).to_le_bytes());
        }
        Kind::F80 | Kind::C80 => {
            for (value, encoded) in value.chunks_exact_mut(16).zip(encoded.chunks_exact(16)) {
                let quad = u128::from_be_bytes(encoded.try_into().expect("chunks of 16"));
                value[..10].copy_from_slice(&f128_to_f80(quad));
                value[10..].fill(0);
            }
        }
        _ => swap(part(kind), encoded, value),
    }
}

/// Bytes of what is swapped as a whole: a complex number is swapped by halves.
fn part(kind: Kind) -> usize {
    let size = kind.size() as usize;
    match kind {
        Kind::C16 | Kind::C32 | Kind::C64 | Kind::C128 => size / 2,
        _ => size,
    }
}

fn swap(part: usize, from: &[u8], to: &mut [u8]) {
    for (from, to) in from.chunks_exact(part).zip(to.chunks_exact_mut(part)) {
        for (from, to) in from.iter().rev().zip(to) {
            *to = *from;
        }
    }
}
