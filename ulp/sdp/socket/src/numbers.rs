//! What each descriptor number of this process stands for, as far as is known.
//!
//! Owns: one word for a number. Must not know: records, and who counts what refers to them.

use crate::pages::{Pages, Seen};
use rustix::io::Errno;
use std::ops::RangeInclusive;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

/// Numbers that are told apart. Those beyond are plain.
pub const NUMBERS: i32 = 1 << 20;

/// What a number stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nobody has looked, or there is no such descriptor.
    Unknown,
    /// A descriptor that the kernel alone serves.
    Plain,
    /// One of the library's own, of which the program must not know.
    Own,
    /// A stream socket, by its record's index.
    Stream(u32),
}

impl Kind {
    #[inline]
    fn from_word(word: u32) -> Self {
        match word {
            0 => Kind::Unknown,
            1 => Kind::Plain,
            2 => Kind::Own,
            stream => Kind::Stream(stream - 3),
        }
    }

    fn word(self) -> u32 {
        match self {
            Kind::Unknown => 0,
            Kind::Plain => 1,
            Kind::Own => 2,
            Kind::Stream(record) => record + 3,
        }
    }
}

/// All numbers of this process. A child begins with a copy, as it does with its descriptors.
#[derive(Debug)]
pub struct Numbers {
    pages: Pages,
    /// Above the highest number that was ever a stream's or the library's own.
    end: AtomicI32,
}

static NUMBERS_OF_PROCESS: AtomicPtr<Numbers> = AtomicPtr::new(ptr::null_mut());

impl Numbers {
    pub(crate) fn reserve() -> Result<Self, Errno> {
        Ok(Self {
            pages: Pages::reserve(NUMBERS as usize * 4, Seen::Copied)?,
            end: AtomicI32::new(0),
        })
    }

    /// Those of this process.
    ///
    /// # Errors
    /// NOMEM.
    pub fn of_process() -> Result<&'static Self, Errno> {
        once(&NUMBERS_OF_PROCESS, Self::reserve)
    }

    #[inline]
    fn word(&self, number: i32) -> Option<&AtomicU32> {
        let inside = (0..NUMBERS).contains(&number);
        inside.then(|| self.pages.half(number as usize * 4))
    }

    /// What a number stands for.
    #[inline]
    pub fn look(&self, number: i32) -> Kind {
        self.word(number).map_or(Kind::Plain, |word| {
            Kind::from_word(word.load(Ordering::Acquire))
        })
    }

    /// Says that nobody but the kernel serves it, if nothing is known.
    pub fn is_plain(&self, number: i32) {
        if let Some(word) = self.word(number) {
            let (from, to) = (Kind::Unknown.word(), Kind::Plain.word());
            let _ = word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Says what a number stands for, and gives what it stood for. None if it is beyond all that
    /// are told apart.
    pub(crate) fn put(&self, number: i32, kind: Kind) -> Option<Kind> {
        let word = self.word(number)?;
        if matches!(kind, Kind::Own | Kind::Stream(_)) {
            self.end.fetch_max(number + 1, Ordering::AcqRel);
        }
        Some(Kind::from_word(word.swap(kind.word(), Ordering::AcqRel)))
    }

    /// Forgets a number if it still stands for this.
    pub(crate) fn forget(&self, number: i32, kind: Kind) -> bool {
        self.word(number).is_some_and(|word| {
            word.compare_exchange(kind.word(), 0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        })
    }

    /// The numbers from `first` to `last` that stand for a stream or are the library's own.
    pub fn known(&self, range: RangeInclusive<i32>) -> impl Iterator<Item = (i32, Kind)> {
        let end = self.end.load(Ordering::Acquire);
        let last = (*range.end()).min(end - 1);
        ((*range.start()).max(0)..=last).filter_map(|number| match self.look(number) {
            Kind::Unknown | Kind::Plain => None,
            kind => Some((number, kind)),
        })
    }
}

/// What is made once in a process, by the first that needs it. Nothing is locked meanwhile, so a
/// fork in the middle leaves nothing locked.
pub(crate) fn once<T>(
    place: &'static AtomicPtr<T>,
    make: impl FnOnce() -> Result<T, Errno>,
) -> Result<&'static T, Errno> {
    let there = place.load(Ordering::Acquire);
    if !there.is_null() {
        // SAFETY: what was once put there stays for ever.
        return Ok(unsafe { &*there });
    }
    let made = Box::into_raw(Box::new(make()?));
    let other =
        match place.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: what was once put there stays for ever.
            Ok(_) => return Ok(unsafe { &*made }),
            Err(other) => other,
        };
    // SAFETY: the box from above, which nobody else has seen.
    drop(unsafe { Box::from_raw(made) });
    // SAFETY: what was once put there stays for ever.
    Ok(unsafe { &*other })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_what_was_said_of_it() {
        let numbers = Numbers::reserve().expect("memory");
        assert_eq!(numbers.look(5), Kind::Unknown);
        numbers.is_plain(5);
        assert_eq!(numbers.put(5, Kind::Stream(0)), Some(Kind::Plain));
        numbers.is_plain(5);
        assert_eq!(numbers.look(5), Kind::Stream(0));
        assert!(!numbers.forget(5, Kind::Stream(1)));
        assert!(numbers.forget(5, Kind::Stream(0)));
        assert_eq!(numbers.look(5), Kind::Unknown);
    }

    #[test]
    fn numbers_beyond_all_are_plain() {
        let numbers = Numbers::reserve().expect("memory");
        for number in [-1, NUMBERS, i32::MAX, i32::MIN] {
            assert_eq!(numbers.look(number), Kind::Plain);
            assert_eq!(numbers.put(number, Kind::Stream(7)), None);
        }
        assert_eq!(
            numbers.put(NUMBERS - 1, Kind::Stream((1 << 20) - 1)),
            Some(Kind::Unknown)
        );
        let all: Vec<_> = numbers.known(0..=i32::MAX).collect();
        assert_eq!(all, [(NUMBERS - 1, Kind::Stream((1 << 20) - 1))]);
    }
}
