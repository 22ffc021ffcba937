//! Memory whose pages the kernel sends from without copying them.
//!
//! Owns: the pages of a memfd, in places of one batch of datagrams each. What is sent by `sendfile` from a file of memory goes into the kernel's packets as
//! references to its pages, so bytes that are written here are copied no more before the receiver reads them. Must not know: when the receiver has. Who writes to a
//! place before that changes what is under way there, as if the wire had; datagrams of RoCEv2 carry an ICRC, and a lost one is sent again.
//!
//! Kernels before 6.5 copied such pages, or sent each by itself: there nothing is lent.
//!
//! Memory is taken 2 MiB at a time and put into one page of that size where the kernel has it: the kernel then looks for a place's pages once instead of page by page, and
//! counts references in one place, where the cores of sender and receiver would hand the lines of seventeen to and fro with each batch.
//!
//! *Fork.* A child has the same pages and not the descriptor: it is refused every place.

use super::{guarded, system};
use crate::Error;
use crate::host::ForkFd;
use ferriband_prefetch::LargePages;
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The first kernel that takes datagrams' pages so (MSG_SPLICE_PAGES).
const SINCE: (u32, u32) = (6, 5);
/// What `sendfile` passes on at once: the buffers of its pipe, of a page each.
const MOST_PAGES: usize = 16;

/// A large page.
const LARGE: usize = 2 << 20;

/// Whether this kernel takes pages: not looked at yet, yes, no.
static TAKES: AtomicU8 = AtomicU8::new(0);
const UNKNOWN: u8 = 0;
const YES: u8 = 1;
const NO: u8 = 2;

/// Places of memory to send from.
#[derive(Debug)]
pub struct Lent {
    fd: ForkFd,
    base: NonNull<u8>,
    place_bytes: usize,
    places: usize,
    /// Bytes of the file, and those that have memory, from the first one on.
    length: usize,
    there: usize,
}

// SAFETY: it owns its mapping; bytes of it are reached by &mut self alone.
unsafe impl Send for Lent {}

/// A place's beginning in the file.
#[derive(Clone, Copy, Debug)]
pub struct LentBytes<'a> {
    pub(super) fd: &'a ForkFd,
    pub(super) offset: u64,
}

impl Lent {
    /// Whether pages are worth lending here: until a kernel has refused.
    #[must_use]
    pub fn is_possible() -> bool {
        let known = TAKES.load(Relaxed);
        if known != UNKNOWN {
            return known == YES;
        }
        let is_new = is_since(rustix::system::uname().release().to_bytes());
        TAKES.store(if is_new { YES } else { NO }, Relaxed);
        is_new
    }

    /// The kernel has refused: nobody of this process tries again.
    #[cold]
    pub(super) fn give_up() {
        TAKES.store(NO, Relaxed);
    }

    /// `places` places of `place_bytes` bytes, rounded up to pages; memory is taken by [`Lent::is_there`], 2 MiB at a time if they are more. Batches of up to 64 KiB can be sent from
    /// each.
    ///
    /// # Errors
    /// `System`: EMFILE, ENOMEM and the like.
    pub fn new(places: usize, place_bytes: usize) -> Result<Lent, Error> {
        let place_bytes = place_bytes.next_multiple_of(rustix::param::page_size());
        let length = match places * place_bytes {
            short if short < LARGE => short,
            long => long.next_multiple_of(LARGE),
        };
        let fd = guarded(|| {
            let fd = rustix::fs::memfd_create("ferriband-send", MemfdFlags::CLOEXEC)
                .map_err(|e| system("memfd_create", e.raw_os_error()))?;
            rustix::fs::ftruncate(&fd, length as u64)
                .map_err(|e| system("ftruncate", e.raw_os_error()))?;
            Ok(fd)
        })?;
        let base = map(&fd, length)?;
        Ok(Lent {
            fd,
            base,
            place_bytes,
            places,
            length,
            there: 0,
        })
    }

    /// Whether place `index` has memory; takes it where it is the first without, for who writes where there is none is killed.
    #[inline]
    pub fn is_there(&mut self, index: usize) -> bool {
        let end = (index + 1) * self.place_bytes;
        end <= self.there || self.take(end)
    }

    /// Memory up to there, if that is not far from what there is.
    #[cold]
    fn take(&mut self, end: usize) -> bool {
        let (at, length) = (self.there, (self.length - self.there).min(LARGE));
        if end - at > length.min(self.place_bytes) {
            return false;
        }
        let flags = rustix::fs::FallocateFlags::empty();
        let fd = self.fd.get_or_closed();
        if rustix::fs::fallocate(fd, flags, at as u64, length as u64).is_err() {
            return false;
        }
        if length == LARGE {
            // SAFETY: the part of the mapping that was just given memory, to which nobody has a reference.
            let part = unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(at), length) };
            LargePages::default().ask(part);
        }
        self.there += length;
        true
    }

    /// Whether this is still the process that made it.
    #[must_use]
    #[inline]
    pub fn is_ours(&self) -> bool {
        self.fd.get().is_ok()
    }

    /// How many there are.
    #[must_use]
    pub fn places(&self) -> usize {
        self.places
    }

    /// The bytes of place `index`.
    ///
    /// # Panics
    /// If there is no such place.
    #[inline]
    pub fn place(&mut self, index: usize) -> &mut [u8] {
        assert!(index < self.places, "place {index} of {}", self.places);
        // SAFETY: the place lies within the mapping, which lives as long as self; nobody else of this process has a reference to it, and what the kernel does with
        // its pages is to read them.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.base.as_ptr().add(index * self.place_bytes),
                self.place_bytes,
            )
        }
    }

    /// Copies bytes of one place to the beginning of another, or of the same.
    ///
    /// # Panics
    /// If there is no such place, or it has no such bytes.
    pub fn copy(&mut self, (from, range): (usize, Range<usize>), to: usize) {
        let length = range.len();
        assert!(from < self.places && to < self.places && range.end <= self.place_bytes);
        let base = self.base.as_ptr();
        // SAFETY: both lie within the mapping, to whose bytes nobody has a reference.
        unsafe {
            let source = base.add(from * self.place_bytes + range.start);
            std::ptr::copy(source, base.add(to * self.place_bytes), length);
        }
    }

    /// The bytes of place `index`, and where a batch that begins there lies for the kernel.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn sending(&mut self, index: usize) -> (&mut [u8], LentBytes<'_>) {
        assert!(index < self.places, "place {index} of {}", self.places);
        let at = index * self.place_bytes;
        // SAFETY: as in Lent::place; the other part of the result has no reference to memory.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(at), self.place_bytes) };
        let lent = LentBytes {
            fd: &self.fd,
            offset: at as u64,
        };
        (bytes, lent)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: the mapping that was made with these, to which no reference is left; the kernel keeps the pages that it still reads.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// Maps a file of `length` bytes, so that its large pages can be ours.
fn map(fd: &ForkFd, length: usize) -> Result<NonNull<u8>, Error> {
    let failed = |e: rustix::io::Errno| system("mmap", e.raw_os_error());
    let room = length + LARGE;
    // SAFETY: a new mapping, wherever the kernel wants it, which nobody may touch.
    let start = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            room,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }
    .map_err(failed)?;
    let before = start.cast::<u8>().align_offset(LARGE);
    let after = room - before - length;
    // SAFETY: parts of the mapping above, which nobody else knows: one in its middle takes the file instead, a file that this process alone has, and what is left on both
    // sides goes.
    unsafe {
        let base = start.cast::<u8>().add(before);
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        let mapped = rustix::mm::mmap(base.cast(), length, rights, flags, fd.get_or_closed(), 0);
        if let Err(error) = mapped {
            let _ = rustix::mm::munmap(start, room);
            return Err(failed(error));
        }
        for (at, bytes) in [(start, before), (base.add(length).cast(), after)] {
            if bytes > 0 {
                let _ = rustix::mm::munmap(at, bytes);
            }
        }
        Ok(NonNull::new(base).expect("mmap gives no null"))
    }
}

/// Sends `length` bytes that lie there to where the socket is connected to: one batch, as the socket's option says.
pub(super) fn send(
    socket: std::os::fd::BorrowedFd<'_>,
    lent: LentBytes<'_>,
    length: usize,
) -> Result<(), i32> {
    if length > MOST_PAGES * rustix::param::page_size() {
        return Err(libc::EMSGSIZE);
    }
    let mut offset = lent.offset;
    let fd = lent.fd.get_or_closed();
    match rustix::fs::sendfile(socket, fd.as_fd(), Some(&mut offset), length) {
        Ok(sent) if sent == length => Ok(()),
        // a part went, as a batch of its own: nobody can do anything with it
        Ok(_) => Err(libc::EIO),
        Err(errno) => Err(errno.raw_os_error()),
    }
}

/// Whether a kernel of this release is new enough.
fn is_since(release: &[u8]) -> bool {
    let mut numbers = release
        .split(|byte| !byte.is_ascii_digit())
        .map(|digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= SINCE,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_take_pages() {
        for (release, takes) in [
            ("6.5.0", true),
            ("6.18.44-fc-v669", true),
            ("7.0-rc1", true),
            ("6.4.99", false),
            ("6.1.0-28-amd64", false),
            ("5.15.0", false),
            ("", false),
            ("unknown", false),
        ] {
            assert_eq!(is_since(release.as_bytes()), takes, "{release}");
        }
    }

    #[test]
    fn places_are_apart() {
        let mut lent = Lent::new(3, 5000).unwrap();
        assert_eq!(lent.place(0).len() % rustix::param::page_size(), 0);
        assert!(!lent.is_there(1), "not before the first");
        assert!((0..3).all(|index| lent.is_there(index)) && lent.is_there(0) && !lent.is_there(3));
        for index in 0..3 {
            lent.place(index).fill(index as u8 + 1);
        }
        for index in 0..3 {
            let (bytes, lent) = lent.sending(index);
            assert!(bytes.iter().all(|byte| *byte == index as u8 + 1));
            assert_eq!(lent.offset as usize, index * bytes.len());
        }
        assert!(lent.is_ours());
    }

    #[test]
    fn many_places_have_memory_as_far_as_it_was_taken_and_keep_what_they_hold() {
        const PLACES: usize = 90;
        let mut lent = Lent::new(PLACES, 69_164).unwrap();
        assert!(lent.base.as_ptr().addr().is_multiple_of(LARGE));
        assert!(!lent.is_there(30), "not before those below");
        for index in 0..PLACES {
            assert!(lent.is_there(index), "{index}");
            lent.place(index).fill(index as u8);
            assert!(lent.there >= (index + 1) * lent.place_bytes && lent.there <= lent.length);
        }
        assert_eq!(lent.there, 3 * LARGE);
        for index in 0..PLACES {
            let place = lent.place(index);
            assert!(place.iter().all(|byte| *byte == index as u8), "{index}");
        }
    }
}
