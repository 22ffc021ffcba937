//! Predefined datatypes by their handles.

use crate::constants::MPI_DATATYPE_NULL;
use ferriband_mpi_data::Named;

/// Bytes of an element of each predefined datatype whose elements lie without gaps, 0 for others.
const SIZES: [u8; 256] = sizes();

const fn sizes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut row = 0;
    while row < table.len() {
        if let Some(named) = Named::from_value(MPI_DATATYPE_NULL as u32 + row as u32)
            && named.size() == named.extent()
        {
            table[row] = named.size() as u8;
        }
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

/// The predefined datatype that a handle names.
pub fn named(handle: i32) -> Option<Named> {
    Named::from_value(u32::try_from(handle).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::{MPI_BYTE, MPI_DOUBLE, MPI_DOUBLE_INT, MPI_INT};

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
