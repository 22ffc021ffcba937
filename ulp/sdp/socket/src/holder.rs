//! The processes of a family, those that share records: a number for each, and whether it lives.
//!
//! Owns: the numbers, the file whose bytes tell who lives, and how a child is told from its parent.
//! Must not know: what a process holds.
//!
//! A holder's number is its place in a table, below [`HOLDERS`], and above that how often the place
//! was taken. It is given once, to one process, which lives as long as the byte of its place in a
//! file is locked. A lock of F_SETLK would not do: any close of the file in the process ends it, as
//! does a program that looks into /proc/self/fd. A lock of F_OFD_SETLK belongs to an open file,
//! which children share. So each process has opened the file anew, has closed the descriptor, and
//! keeps the open file by a mapping alone, which children do not inherit. The mapping goes with the
//! address space: with exit, with any signal, with exec, and with nothing else. It means the same
//! in every namespace of process numbers. To open the file anew takes /proc; a process without it
//! has no number, and no records of its own.
//!
//! A child of fork(2) is given its number by its parent before it is there: the parent takes the
//! lock, the child inherits the mapping, the parent gives it up. So there is no moment at which a
//! child holds what it has inherited and does not live. A child that was made by the system call
//! finds its number wiped, and takes one at its first need.
//!
//! A process for which there is no place, and which has inherited connections, goes on with them as
//! one of the *nameless*, who share a number. What they hold is never given back.

use crate::numbers::once;
use crate::own::{Own, Turn};
use crate::pages::{Pages, Seen};
use crate::raw;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::cell::Cell;
use std::fmt::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Processes of a family that live at a time.
pub const HOLDERS: u32 = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 12;
const PAGE: usize = 4096;
/// Of how often a place was taken, so much is told apart.
const TIMES: u32 = 1 << (32 - INDEX_BITS);
/// The number of all processes that have found no place and hold what they have inherited. Nobody
/// can tell whether one of them lives: they do.
pub const NAMELESS: u32 = u32::MAX;
/// Their place, which no other has.
pub const NAMELESS_PLACE: u32 = HOLDERS - 1;

/// The place of a holder in the table.
#[inline]
pub fn place(holder: u32) -> u32 {
    holder & (HOLDERS - 1)
}

/// What the family knows of a holder.
#[derive(Debug)]
#[repr(C)]
struct Entry {
    /// Its number; 0 if the place was never taken.
    holder: AtomicU32,
    /// Its process number, as it sees it itself.
    pid: AtomicU32,
    /// When it came: CLOCK_BOOTTIME, ns.
    since: AtomicU64,
}

/// What a process knows of itself; wiped in a child.
#[derive(Debug)]
#[repr(C)]
struct Me {
    /// 0: it has no number so far.
    holder: AtomicU32,
    /// Threads that were given a number.
    threads: AtomicU32,
    /// How often it has forked.
    forks: AtomicU32,
}

/// The family.
#[derive(Debug)]
pub struct Family {
    /// Whose bytes are locked. Its open file is shared by all and has no lock itself.
    file: Own,
    entries: Pages,
    me: Pages,
}

static FAMILY: AtomicPtr<Family> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    /// The holder's number, and the thread's below it. A child has a copy, with the parent's.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// A number that was taken and is not in use so far.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    /// The number.
    pub holder: u32,
    /// What keeps its lock.
    mapping: NonNull<u8>,
}

impl Family {
    /// That of this process, which is made by the first that needs it and inherited.
    ///
    /// # Errors
    /// No descriptor, no memory, or an old kernel.
    pub fn get() -> Result<&'static Self, Errno> {
        once(&FAMILY, || {
            let make = || ferriband_host::segment::create(c"ferriband-sdp", PAGE as u64);
            let file = Own::make(make)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOMEM))?;
            Ok(Self {
                file,
                entries: Pages::reserve(HOLDERS as usize * size_of::<Entry>(), Seen::ByChildren)?,
                me: Pages::reserve(PAGE, Seen::Wiped)?,
            })
        })
    }

    #[inline]
    fn me(&self) -> &Me {
        // SAFETY: atomic words that begin as zeros, and nothing else lies there.
        unsafe { self.me.at(0) }
    }

    fn entry(&self, place: u32) -> &Entry {
        // SAFETY: atomic words that begin as zeros, of which an array lies there.
        unsafe { self.entries.at(place as usize * size_of::<Entry>()) }
    }

    /// This process's number; 0 if it has none so far.
    #[inline]
    pub fn holder(&self) -> u32 {
        self.me().holder.load(Ordering::Acquire)
    }

    /// How often this process has forked.
    #[inline]
    pub fn forks(&self) -> u32 {
        self.me().forks.load(Ordering::Acquire)
    }

    /// Counts a fork that is about to be.
    pub(crate) fn count_fork(&self) {
        self.me().forks.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes a number, for this process or for a child.
    ///
    /// # Errors
    /// AGAIN: so many processes live already. What open(2) and mmap(2) answer.
    pub fn reserve(&self) -> Result<Reserved, Errno> {
        let mut name = Name::default();
        let number = self.file.as_fd().as_raw_fd();
        write!(name, "/proc/self/fd/{number}").map_err(|_| Errno::NAMETOOLONG)?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let _turn = Turn::begin();
        let file = rustix::fs::open(name.as_bytes(), flags, Mode::empty())?;
        let taken = (0..NAMELESS_PLACE).find_map(|at| match raw::lock_byte(file.as_fd(), at) {
            Ok(()) => Some(Ok(at)),
            Err(Errno::AGAIN | Errno::ACCESS) => None,
            Err(other) => Some(Err(other)),
        });
        let at = taken.unwrap_or(Err(Errno::AGAIN))?;
        // SAFETY: the kernel chooses an address where nothing is.
        let mapping = unsafe {
            let flags = MapFlags::SHARED;
            rustix::mm::mmap(ptr::null_mut(), PAGE, ProtFlags::READ, flags, &file, 0)
        }?;
        let mapping = NonNull::new(mapping.cast()).ok_or(Errno::NOMEM)?;
        let entry = self.entry(at);
        let times = (entry.holder.load(Ordering::Acquire) >> INDEX_BITS) + 1;
        // neither 0 nor that of the nameless
        let times = if times >= TIMES - 1 { 1 } else { times };
        let holder = times << INDEX_BITS | at;
        entry.holder.store(holder, Ordering::SeqCst);
        Ok(Reserved { holder, mapping })
    }

    /// This process has no place, and holds what it has inherited.
    pub(crate) fn install_nameless(&self) {
        let mine = &self.me().holder;
        let _ = mine.compare_exchange(0, NAMELESS, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Makes the number this process's own, if it has none; else gives it back. Gives the number
    /// that this process has.
    pub fn install(&self, reserved: Reserved) -> u32 {
        let mine = &self.me().holder;
        let holder = reserved.holder;
        // what keeps a lock must not be inherited before the number is in use
        // SAFETY: a page that nobody reads or writes.
        let kept = unsafe {
            rustix::mm::madvise(
                reserved.mapping.as_ptr().cast(),
                PAGE,
                Advice::LinuxDontFork,
            )
        };
        debug_assert!(kept.is_ok());
        let entry = self.entry(place(holder));
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        entry.pid.store(pid.cast_unsigned(), Ordering::Release);
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let since = now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned();
        entry.since.store(since, Ordering::Release);
        match mine.compare_exchange(0, holder, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => holder,
            Err(other) => {
                Self::give_up(reserved);
                other
            }
        }
    }

    /// Gives up what this process has of a number: all of it, or what a child has inherited.
    pub fn give_up(reserved: Reserved) {
        // SAFETY: a page that nobody reads or writes.
        let _ = unsafe { rustix::mm::munmap(reserved.mapping.as_ptr().cast(), PAGE) };
    }

    /// Takes all places that are free, as long as what it gives is open.
    #[cfg(test)]
    pub fn fill(&self) -> std::os::fd::OwnedFd {
        let name = format!("/proc/self/fd/{}", self.file.number());
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(name, flags, Mode::empty()).expect("/proc");
        for at in 0..HOLDERS {
            let _ = raw::lock_byte(file.as_fd(), at);
        }
        file
    }

    /// Whether the process that has this place in the table lives. If nobody can tell, it does.
    pub fn place_lives(&self, place: u32) -> bool {
        place == NAMELESS_PLACE || raw::byte_is_locked(self.file.as_fd(), place).unwrap_or(true)
    }

    /// Whether the holder lives.
    pub fn lives(&self, holder: u32) -> bool {
        if holder == NAMELESS {
            return true;
        }
        let number = &self.entry(place(holder)).holder;
        let same = || number.load(Ordering::SeqCst) == holder;
        same() && self.place_lives(place(holder)) && same()
    }

    /// The process numbers of those that live, each as it sees its own, and since when
    /// (CLOCK_BOOTTIME, ns).
    pub fn living(&self) -> impl Iterator<Item = (u32, u64)> {
        let taken = (0..HOLDERS).filter(|place| {
            self.entry(*place).holder.load(Ordering::Acquire) != 0 && self.place_lives(*place)
        });
        taken.map(|place| {
            let entry = self.entry(place);
            let pid = entry.pid.load(Ordering::Acquire);
            (pid, entry.since.load(Ordering::Acquire))
        })
    }
}

/// A number for the calling thread: its holder's in the upper half, a number below 2^31 that no
/// other thread of the holder has in the lower. `register` takes a number for the process.
#[inline]
pub(crate) fn thread(register: impl FnOnce(&Family) -> Result<u32, Errno>) -> u64 {
    let family = FAMILY.load(Ordering::Acquire);
    if !family.is_null() {
        // SAFETY: what was once put there stays for ever.
        let holder = unsafe { (*family).holder() };
        let thread = THREAD.get();
        if holder != 0 && thread >> 32 == u64::from(holder) {
            return thread;
        }
    }
    new_thread(register)
}

#[cold]
fn new_thread(register: impl FnOnce(&Family) -> Result<u32, Errno>) -> u64 {
    let named = Family::get().and_then(|family| {
        let holder = match family.holder() {
            0 => register(family)?,
            holder => holder,
        };
        if holder == NAMELESS {
            return Ok(nameless());
        }
        let number = family.me().threads.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(u64::from(holder) << 32 | u64::from(number & (i32::MAX as u32)))
    });
    match named {
        Ok(thread) => {
            THREAD.set(thread);
            thread
        }
        Err(_) => nameless(),
    }
}

/// The kernel's number of the thread, since processes share the upper half.
fn nameless() -> u64 {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    u64::from(NAMELESS) << 32 | u64::from(thread.cast_unsigned())
}

/// Whether the process of a thread lives, by the thread's number ([`crate::table::thread`]).
pub fn thread_lives(thread: u64) -> bool {
    Family::get().is_ok_and(|family| family.lives((thread >> 32) as u32))
}

/// A short text without an allocation: a child of a process with threads may not allocate.
#[derive(Default)]
struct Name {
    bytes: [u8; 32],
    length: usize,
}

impl Name {
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Write for Name {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let into = self.bytes.get_mut(self.length..end);
        into.ok_or(std::fmt::Error)?
            .copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
