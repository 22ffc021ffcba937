//! Objects that a C program holds: a C structure that it may read, followed by what only this library sees.

use ferriband_fork::generation;
use std::cell::UnsafeCell;
use std::ops::Deref;

/// A heap object whose address is the address of its C structure.
///
/// The C part is read, and in places written, by the program, so it is reached only through a raw pointer.
#[repr(C)]
pub struct Object<C, T> {
    c: UnsafeCell<C>,
    /// Of the process that made it, as forks count.
    generation: u32,
    own: T,
}

impl<C, T> Object<C, T> {
    /// Where our part begins, in bytes from the C part.
    pub const OWN_OFFSET: usize = std::mem::offset_of!(Self, own);

    /// Allocates an object and returns the address that the program will hold.
    pub fn leak(c: C, own: T) -> *mut C {
        Box::into_raw(Box::new(Object {
            c: UnsafeCell::new(c),
            generation: generation(),
            own,
        }))
        .cast()
    }

    /// The object behind a pointer that came from the program; NULL is EINVAL, one of the parent's in a forked child EIO: one of
    /// the parent's threads may have held its locks.
    ///
    /// # Safety
    /// `pointer` is NULL or came from [`Object::leak`] of these very types and was not freed; it is not
    /// freed while the returned reference is in use.
    #[inline(always)]
    pub unsafe fn of<'a>(pointer: *const C) -> Result<&'a Self, i32> {
        // SAFETY: the caller's promise; the object begins with its C structure.
        let object = unsafe { pointer.cast::<Self>().as_ref() }.ok_or(libc::EINVAL)?;
        if object.generation != generation() {
            return Err(libc::EIO);
        }
        Ok(object)
    }

    /// The address that the program holds.
    #[inline(always)]
    pub fn c(&self) -> *mut C {
        self.c.get()
    }

    /// Frees the object.
    ///
    /// # Safety
    /// `pointer` came from [`Object::leak`] of these very types, was not freed, and nobody uses it any more.
    pub unsafe fn free(pointer: *mut C) {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(pointer.cast::<Self>()) });
    }
}

impl<C, T> Deref for Object<C, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.own
    }
}
