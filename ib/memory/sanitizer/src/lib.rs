//! What ThreadSanitizer is told in a program that is built with it.
//!
//! The tool sees the accesses of the program and the calls of the C library, whoever makes them. Of this library, which is not
//! instrumented, it sees copies, reads and frees, and none of the atomics that order them: it would report each of them. So whoever
//! is inside says so ([`Inside`]), and what is accessed there is not looked at. And it would take what a program hands from one
//! thread to another through a queue for a race: so a post [`release`]s the queue pair, and the completion [`acquire`]s it. Both are by
//! queue pair, so that threads which use the library beside each other are not ordered by it, and their own races are found.
//!
//! The functions are those of the tool, found when the library is loaded; without the tool there are none, and each call costs one
//! load and one branch. Each library has its own copy of this. Owns: the places of which the tool remembers who released them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

type Annotate = unsafe extern "C" fn(*const c_char, c_int);
type Order = unsafe extern "C" fn(*mut c_void);

/// The tool's functions.
struct Tool {
    ignore_reads: Annotate,
    heed_reads: Annotate,
    ignore_writes: Annotate,
    heed_writes: Annotate,
    acquire: Order,
    release: Order,
    /// Addresses that are not accessed: one for each place.
    places: usize,
    /// By number of a queue pair: the one that it is connected to, and its shared receive queue.
    peers: &'static [AtomicU32],
    shared: &'static [AtomicU32],
}

static TOOL: AtomicPtr<Tool> = AtomicPtr::new(std::ptr::null_mut());

/// What a place is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Requests that a queue pair's program has posted to send.
    Send = 0,
    /// Receives that it has posted, and what was sent to it.
    Receive = 1,
    /// Receives of a shared receive queue.
    Shared = 2,
    /// Another object.
    Object = 3,
}

/// Numbers of queue pairs have 24 bits.
const NUMBERS: usize = 1 << 24;
const SIDES: usize = 4;
/// The tool tells addresses apart by words.
const WORD: usize = 8;

extern "C" fn find() {
    fn named<F: Copy>(name: &CStr) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: a name that ends in NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        // SAFETY: a function pointer of the type that the tool's interface gives this name.
        (!found.is_null()).then(|| unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
    }
    let look = || {
        let acquire = named(c"__tsan_acquire")?;
        let room = |bytes: usize, prot| {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a new mapping, at an address that the kernel chooses. Its pages come when they are touched.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, prot, flags, -1, 0) };
            (at != libc::MAP_FAILED).then_some(at)
        };
        let table = || {
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let at = room(NUMBERS * size_of::<AtomicU32>(), prot)?.cast::<AtomicU32>();
            // SAFETY: zeros are valid, and the mapping stays.
            Some(unsafe { std::slice::from_raw_parts(at, NUMBERS) })
        };
        Some(Tool {
            ignore_reads: named(c"AnnotateIgnoreReadsBegin")?,
            heed_reads: named(c"AnnotateIgnoreReadsEnd")?,
            ignore_writes: named(c"AnnotateIgnoreWritesBegin")?,
            heed_writes: named(c"AnnotateIgnoreWritesEnd")?,
            acquire,
            release: named(c"__tsan_release")?,
            places: room(NUMBERS * SIDES * WORD, libc::PROT_NONE)? as usize,
            peers: table()?,
            shared: table()?,
        })
    };
    if let Some(tool) = look() {
        TOOL.store(Box::into_raw(Box::new(tool)), Ordering::Release);
    }
}

#[used]
// SAFETY: the loader calls what lies in this section, with arguments that a C function may ignore.
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = find;

#[inline(always)]
fn tool() -> Option<&'static Tool> {
    // SAFETY: NULL, or set when the library was loaded and never freed.
    unsafe { TOOL.load(Ordering::Relaxed).as_ref() }
}

/// Whether the program is built with the tool; decided when the library is loaded.
#[inline]
pub fn is_there() -> bool {
    tool().is_some()
}

/// A thread is inside the library, until this is dropped: what it accesses is the library's business.
#[derive(Debug)]
pub struct Inside(bool);

impl Inside {
    /// From here on.
    #[inline(always)]
    pub fn enter() -> Self {
        let is_seen = tool().is_some();
        if is_seen {
            ignore();
        }
        Inside(is_seen)
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0 {
            heed();
        }
    }
}

const FILE: &CStr = c"ferriband";

#[cold]
fn ignore() {
    if let Some(tool) = tool() {
        // SAFETY: functions of the tool's interface, with the name of a file and a line.
        unsafe { (tool.ignore_reads)(FILE.as_ptr(), 0) };
        // SAFETY: as above.
        unsafe { (tool.ignore_writes)(FILE.as_ptr(), 0) };
    }
}

#[cold]
fn heed() {
    if let Some(tool) = tool() {
        // SAFETY: as in `ignore`, which came before.
        unsafe { (tool.heed_writes)(FILE.as_ptr(), 0) };
        // SAFETY: as above.
        unsafe { (tool.heed_reads)(FILE.as_ptr(), 0) };
    }
}

/// What this thread has done is done for whoever [`acquire`]s the same side of the same number after this.
#[inline(always)]
pub fn release(side: Side, number: u32) {
    if let Some(tool) = tool() {
        tool.order(tool.release, side, number);
    }
}

/// What was done before a [`release`] of this side of this number is done for this thread.
#[inline(always)]
pub fn acquire(side: Side, number: u32) {
    if let Some(tool) = tool() {
        tool.order(tool.acquire, side, number);
    }
}

/// A queue pair is connected to another one: what is sent on it arrives there.
pub fn connected(number: u32, peer: u32) {
    if let Some(tool) = tool() {
        tool.peers[number as usize % NUMBERS].store(peer, Ordering::Relaxed);
    }
}

/// A queue pair takes its receives from a shared receive queue, which has a number of its own, not 0.
pub fn shares(number: u32, queue: u32) {
    if let Some(tool) = tool() {
        tool.shared[number as usize % NUMBERS].store(queue, Ordering::Relaxed);
    }
}

/// A thread is about to post requests to send.
#[inline(always)]
pub fn sends(number: u32) {
    if let Some(tool) = tool() {
        tool.order(tool.release, Side::Send, number);
        let peer = tool.peers[number as usize % NUMBERS].load(Ordering::Relaxed);
        tool.order(tool.release, Side::Receive, peer);
    }
}

/// A program is about to be given a completion of this queue pair.
#[inline(always)]
pub fn completes(number: u32, is_receive: bool) {
    if let Some(tool) = tool() {
        tool.completes(number, is_receive);
    }
}

impl Tool {
    #[cold]
    fn completes(&self, number: u32, is_receive: bool) {
        if !is_receive {
            return self.order(self.acquire, Side::Send, number);
        }
        self.order(self.acquire, Side::Receive, number);
        let queue = self.shared[number as usize % NUMBERS].load(Ordering::Relaxed);
        if queue != 0 {
            self.order(self.acquire, Side::Shared, queue);
        }
    }

    #[cold]
    fn order(&self, order: Order, side: Side, number: u32) {
        let place = number as usize % NUMBERS * SIDES + side as usize;
        // SAFETY: an address in the tool's range; it keeps notes for it elsewhere and does not access it.
        unsafe { order((self.places + place * WORD) as *mut c_void) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_tool_nothing_happens() {
        let inside = Inside::enter();
        release(Side::Send, 1);
        acquire(Side::Send, 1);
        drop(inside);
    }
}
