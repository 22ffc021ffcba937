//! A list with room that is known before: few lie in its own memory, more in pages of the kernel.
//!
//! Owns: the memory. Must not know: what lies there.
//!
//! A signal handler and a child of a process with threads may poll(2), but not allocate.

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// So many lie in the list itself: on the stack of a thread that may have little of it.
const FEW: usize = 33;

/// Such a list.
#[derive(Debug)]
pub(super) struct Room<T: Copy> {
    few: [MaybeUninit<T>; FEW],
    many: Option<NonNull<T>>,
    most: usize,
    count: usize,
}

impl<T: Copy> Room<T> {
    /// Room for so many.
    ///
    /// # Errors
    /// NOMEM.
    pub fn new(most: usize) -> Result<Self, Errno> {
        let mut many = None;
        if most > FEW {
            let bytes = most.checked_mul(size_of::<T>()).ok_or(Errno::NOMEM)?;
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: the kernel chooses an address where nothing is.
            let at =
                unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }?;
            many = NonNull::new(at.cast());
        }
        Ok(Self {
            few: [const { MaybeUninit::uninit() }; FEW],
            many,
            most: most.max(FEW),
            count: 0,
        })
    }

    fn at(&self) -> *const T {
        match self.many {
            Some(many) => many.as_ptr(),
            None => self.few.as_ptr().cast(),
        }
    }

    fn at_mut(&mut self) -> *mut T {
        match self.many {
            Some(many) => many.as_ptr(),
            None => self.few.as_mut_ptr().cast(),
        }
    }

    /// One more, for which there was room asked.
    pub fn push(&mut self, one: T) {
        assert!(self.count < self.most, "more than there is room for");
        let count = self.count;
        // SAFETY: a place inside the room.
        unsafe { self.at_mut().add(count).write(one) };
        self.count += 1;
    }

    /// Without the last one.
    pub fn pop(&mut self) {
        self.count = self.count.saturating_sub(1);
    }
}

impl<T: Copy> Deref for Room<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: so many were written.
        unsafe { std::slice::from_raw_parts(self.at(), self.count) }
    }
}

impl<T: Copy> DerefMut for Room<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: so many were written.
        unsafe { std::slice::from_raw_parts_mut(self.at_mut(), self.count) }
    }
}

impl<T: Copy> Drop for Room<T> {
    fn drop(&mut self) {
        if let Some(many) = self.many {
            // SAFETY: the mapping that was made, to which nobody refers any more.
            let _ = unsafe { munmap(many.as_ptr().cast(), self.most * size_of::<T>()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_kept() {
        for most in [0, FEW, FEW + 1, 100_000] {
            let mut room = Room::new(most).expect("memory");
            (0..most).for_each(|one| room.push(one));
            assert!(room.iter().copied().eq(0..most));
            room.pop();
            assert_eq!(room.len(), most.saturating_sub(1));
        }
    }
}
