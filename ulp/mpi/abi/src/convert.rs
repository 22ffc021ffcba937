//! Conversions between what a program of this ABI passes and what the runtime takes.

use core::ffi::{c_int, c_void};

/// A handle of the standard ABI: a pointer that points nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Handle(*mut c_void);

/// MPI_Status; the runtime's own has the same form.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Status {
    /// MPI_SOURCE, MPI_TAG, MPI_ERROR, MPI_internal.
    pub words: [c_int; 8],
}

/// An array whose elements are `width` bytes apart: handles or counts.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Array {
    /// First element.
    pub base: *mut c_void,
    /// Bytes of an element: 4 or 8.
    pub width: usize,
}

/// MPI_UNDEFINED: what a count becomes that its type cannot hold.
const UNDEFINED: c_int = -32766;
/// No handle and no count has this value: the runtime has not written.
const UNTOUCHED_HANDLE: i32 = i32::MIN;
const UNTOUCHED_COUNT: i64 = i64::MIN;

/// The runtime's number of a handle; 0, which no object has, for a pointer that is none.
#[inline]
pub fn id(handle: Handle) -> i32 {
    i32::try_from(handle.0.addr()).unwrap_or(0)
}

impl Handle {
    /// The handle whose number is `id`.
    #[inline]
    pub fn of(id: i32) -> Self {
        Self(core::ptr::without_provenance_mut(
            usize::try_from(id).unwrap_or(0),
        ))
    }
}

impl Array {
    /// An array of the program; its elements are as wide as their type.
    #[inline]
    pub fn of<P: Elements>(first: P) -> Self {
        first.array()
    }
}

/// A pointer to the first element of an array.
pub trait Elements {
    /// The array with the width of its elements.
    fn array(self) -> Array;
}

impl<T> Elements for *const T {
    #[inline]
    fn array(self) -> Array {
        self.cast_mut().array()
    }
}

impl<T> Elements for *mut T {
    #[inline]
    fn array(self) -> Array {
        Array {
            base: self.cast(),
            width: size_of::<T>(),
        }
    }
}

/// A count, an int or an MPI_Count.
pub trait Number: Copy {
    /// As 64 bits.
    fn wide(self) -> i64;
    /// From 64 bits; MPI_UNDEFINED if it does not fit.
    fn narrow(wide: i64) -> Self;
}

impl Number for c_int {
    #[inline]
    fn wide(self) -> i64 {
        i64::from(self)
    }
    #[inline]
    fn narrow(wide: i64) -> Self {
        Self::try_from(wide).unwrap_or(UNDEFINED)
    }
}

impl Number for i64 {
    #[inline]
    fn wide(self) -> i64 {
        self
    }
    #[inline]
    fn narrow(wide: i64) -> Self {
        wide
    }
}

/// A place for a handle that a function returns; a null pointer stays one for the runtime to refuse.
pub struct OutHandle {
    to: *mut Handle,
    value: i32,
}

impl OutHandle {
    /// Nothing is read from `to`.
    ///
    /// # Safety
    /// `to` is null or may be written as long as this lives.
    #[inline]
    pub unsafe fn empty(to: *mut Handle) -> Self {
        Self {
            to,
            value: UNTOUCHED_HANDLE,
        }
    }

    /// Begins with what lies at `to`.
    ///
    /// # Safety
    /// `to` is null or may be read and written as long as this lives.
    #[inline]
    pub unsafe fn full(to: *mut Handle) -> Self {
        let value = if to.is_null() {
            UNTOUCHED_HANDLE
        } else {
            // SAFETY: the caller says that it may be read.
            id(unsafe { to.read() })
        };
        Self { to, value }
    }

    /// Where the runtime writes.
    #[inline]
    pub fn place(&mut self) -> *mut i32 {
        if self.to.is_null() {
            core::ptr::null_mut()
        } else {
            &raw mut self.value
        }
    }

    /// Gives the program what the runtime wrote.
    ///
    /// # Safety
    /// As for [`OutHandle::empty`].
    #[inline]
    pub unsafe fn store(self) {
        if !self.to.is_null() && self.value != UNTOUCHED_HANDLE {
            // SAFETY: the caller says that it may be written.
            unsafe { self.to.write(Handle::of(self.value)) };
        }
    }

    /// The null handle for a function that is not offered.
    ///
    /// # Safety
    /// `to` is null or may be written.
    pub unsafe fn null(to: *mut Handle, null: i32) {
        if !to.is_null() {
            // SAFETY: the caller says that it may be written.
            unsafe { to.write(Handle::of(null)) };
        }
    }
}

/// A place for a count that a function returns.
pub struct OutCount<N> {
    to: *mut N,
    value: i64,
}

impl<N: Number> OutCount<N> {
    /// Nothing is read from `to`.
    ///
    /// # Safety
    /// `to` is null or may be written as long as this lives.
    #[inline]
    pub unsafe fn empty(to: *mut N) -> Self {
        Self {
            to,
            value: UNTOUCHED_COUNT,
        }
    }

    /// Begins with what lies at `to`.
    ///
    /// # Safety
    /// `to` is null or may be read and written as long as this lives.
    #[inline]
    pub unsafe fn full(to: *mut N) -> Self {
        let value = if to.is_null() {
            UNTOUCHED_COUNT
        } else {
            // SAFETY: the caller says that it may be read.
            unsafe { to.read() }.wide()
        };
        Self { to, value }
    }

    /// Where the runtime writes.
    #[inline]
    pub fn place(&mut self) -> *mut i64 {
        if self.to.is_null() {
            core::ptr::null_mut()
        } else {
            &raw mut self.value
        }
    }

    /// Gives the program what the runtime wrote.
    ///
    /// # Safety
    /// As for [`OutCount::empty`].
    #[inline]
    pub unsafe fn store(self) {
        if !self.to.is_null() && self.value != UNTOUCHED_COUNT {
            // SAFETY: the caller says that it may be written.
            unsafe { self.to.write(N::narrow(self.value)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_that_is_no_handle_is_number_0() {
        assert_eq!(id(Handle::of(0x101)), 0x101);
        assert_eq!(id(Handle(core::ptr::without_provenance_mut(1 << 40))), 0);
        assert_eq!(id(Handle::of(-1)), 0);
    }

    #[test]
    fn a_count_that_an_int_cannot_hold_is_undefined() {
        let mut narrow: c_int = 7;
        // SAFETY: a local variable.
        unsafe {
            let mut out = OutCount::empty(&raw mut narrow);
            *out.place() = 1 << 40;
            out.store();
        }
        assert_eq!(narrow, UNDEFINED);
        // SAFETY: a local variable, which nothing is written to.
        unsafe { OutCount::empty(&raw mut narrow).store() };
        assert_eq!(narrow, UNDEFINED);
    }
}
