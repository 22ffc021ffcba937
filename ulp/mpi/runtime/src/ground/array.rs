//! Arrays of handles or counts that the program has passed.
//!
//! Owns: how an element of one is read and written. Must not know: what it means.

use super::constants::MPI_ERR_ARG;
use super::errors::{MpiError, Outcome};
use std::ffi::c_void;

/// An array of handles or counts whose elements are `width` bytes apart.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Array {
    /// First element.
    pub base: *mut c_void,
    /// Bytes of an element: 4 or 8.
    pub width: usize,
}

impl Array {
    /// Whether there is an array at all where elements are to be read.
    #[inline]
    pub fn check(&self, length: usize) -> Outcome {
        if self.base.is_null() && length > 0 {
            return Err(MpiError::with(MPI_ERR_ARG, "a null pointer"));
        }
        Ok(())
    }

    /// The handle at `index`.
    ///
    /// # Safety
    /// The array has more than `index` elements.
    #[inline]
    pub unsafe fn handle(&self, index: usize) -> i32 {
        // SAFETY: the caller's promise; the number of a handle is its lowest 32 bits, and the
        // others are zero.
        unsafe {
            let at = self.base.byte_add(index * self.width);
            if self.width == 8 {
                i32::try_from(at.cast::<u64>().read_unaligned()).unwrap_or(0)
            } else {
                at.cast::<i32>().read_unaligned()
            }
        }
    }

    /// Puts a handle at `index`.
    ///
    /// # Safety
    /// The array has more than `index` elements, and may be written.
    #[inline]
    pub unsafe fn set_handle(&self, index: usize, handle: i32) {
        // SAFETY: the caller's promise.
        unsafe {
            let at = self.base.byte_add(index * self.width);
            if self.width == 8 {
                at.cast::<i64>().write_unaligned(i64::from(handle));
            } else {
                at.cast::<i32>().write_unaligned(handle);
            }
        }
    }

    /// The count or displacement at `index`.
    ///
    /// # Safety
    /// The array has more than `index` elements.
    #[inline]
    pub unsafe fn count(&self, index: usize) -> i64 {
        // SAFETY: the caller's promise.
        unsafe {
            let at = self.base.byte_add(index * self.width);
            if self.width == 8 {
                at.cast::<i64>().read_unaligned()
            } else {
                i64::from(at.cast::<i32>().read_unaligned())
            }
        }
    }
}
