//! Sizes of the predefined datatypes whose elements lie without gaps.

use crate::constants::*;

/// What a predefined datatype's size is, by its handle.
const SIZES: [u8; 256] = sizes();

const fn sizes() -> [u8; 256] {
    let mut table = [0; 256];
    let rows: [(i32, u8); 66] = [
        (MPI_AINT, 8),
        (MPI_COUNT, 8),
        (MPI_OFFSET, 8),
        (MPI_PACKED, 1),
        (MPI_SHORT, 2),
        (MPI_INT, 4),
        (MPI_LONG, 8),
        (MPI_LONG_LONG, 8),
        (MPI_UNSIGNED_SHORT, 2),
        (MPI_UNSIGNED, 4),
        (MPI_UNSIGNED_LONG, 8),
        (MPI_UNSIGNED_LONG_LONG, 8),
        (MPI_FLOAT, 4),
        (MPI_C_FLOAT_COMPLEX, 8),
        (MPI_CXX_FLOAT_COMPLEX, 8),
        (MPI_DOUBLE, 8),
        (MPI_C_DOUBLE_COMPLEX, 16),
        (MPI_CXX_DOUBLE_COMPLEX, 16),
        (MPI_LOGICAL, 4),
        (MPI_INTEGER, 4),
        (MPI_REAL, 4),
        (MPI_COMPLEX, 8),
        (MPI_DOUBLE_PRECISION, 8),
        (MPI_DOUBLE_COMPLEX, 16),
        (MPI_CHARACTER, 1),
        (MPI_LONG_DOUBLE, 16),
        (MPI_C_LONG_DOUBLE_COMPLEX, 32),
        (MPI_CXX_LONG_DOUBLE_COMPLEX, 32),
        (MPI_FLOAT_INT, 8),
        (MPI_2INT, 8),
        (MPI_2REAL, 8),
        (MPI_2DOUBLE_PRECISION, 16),
        (MPI_2INTEGER, 8),
        (MPI_C_BOOL, 1),
        (MPI_CXX_BOOL, 1),
        (MPI_WCHAR, 4),
        (MPI_INT8_T, 1),
        (MPI_UINT8_T, 1),
        (MPI_CHAR, 1),
        (MPI_SIGNED_CHAR, 1),
        (MPI_UNSIGNED_CHAR, 1),
        (MPI_BYTE, 1),
        (MPI_INT16_T, 2),
        (MPI_UINT16_T, 2),
        (MPI_INT32_T, 4),
        (MPI_UINT32_T, 4),
        (MPI_INT64_T, 8),
        (MPI_UINT64_T, 8),
        (MPI_LOGICAL1, 1),
        (MPI_INTEGER1, 1),
        (MPI_LOGICAL2, 2),
        (MPI_INTEGER2, 2),
        (MPI_REAL2, 2),
        (MPI_LOGICAL4, 4),
        (MPI_INTEGER4, 4),
        (MPI_REAL4, 4),
        (MPI_COMPLEX4, 4),
        (MPI_LOGICAL8, 8),
        (MPI_INTEGER8, 8),
        (MPI_REAL8, 8),
        (MPI_COMPLEX8, 8),
        (MPI_LOGICAL16, 16),
        (MPI_INTEGER16, 16),
        (MPI_REAL16, 16),
        (MPI_COMPLEX16, 16),
        (MPI_COMPLEX32, 32),
    ];
    let mut row = 0;
    while row < rows.len() {
        table[(rows[row].0 - MPI_DATATYPE_NULL) as usize] = rows[row].1;
        row += 1;
    }
    table
}

/// Bytes of an element of a predefined datatype without gaps; none for another handle.
#[inline]
pub fn size(handle: i32) -> Option<usize> {
    let row = usize::try_from(handle.wrapping_sub(MPI_DATATYPE_NULL)).ok()?;
    let size = *SIZES.get(row)?;
    (size != 0).then_some(usize::from(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_the_c_types() {
        assert_eq!(size(MPI_INT), Some(4));
        assert_eq!(size(MPI_DOUBLE), Some(8));
        assert_eq!(size(MPI_BYTE), Some(1));
        assert_eq!(size(MPI_DATATYPE_NULL), None);
        assert_eq!(size(MPI_DOUBLE_INT), None, "it has a gap");
        assert_eq!(size(0), None);
        assert_eq!(size(i32::MAX), None);
        assert_eq!(size(i32::MIN), None);
    }
}
