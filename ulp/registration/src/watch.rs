//! Which ranges of the program's memory are still what they were: userfaultfd tells of munmap, mremap, madvise, brk and of mappings that take the
//! place of others, and holds whoever does it until it has been heard.
//!
//! Owns: the descriptor, the thread that listens, the ranges that are watched and whether they are stale. Must not know: what they are watched for. The
//! thread allocates and frees nothing, takes no lock and handles no signal: whoever frees memory may be waiting for it.
//!
//! Nothing here is interposed: what a library or a direct system call unmaps is heard like the rest. What is not heard: a file that is cut short
//! under its mapping.

use crate::maps::Maps;
use ferriband_host::Event;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Ranges that can be watched at a time.
pub const RANGES: usize = 1024;
/// Events that are read at once.
const BATCH: usize = 16;
/// Somebody who unmaps memory is off his core; longer than this he is not waited for.
const PATIENCE: Duration = Duration::from_millis(500);
/// The listener uses a few hundred bytes.
const STACK: usize = 64 << 10;

const API: u64 = 0xaa;
const USER_MODE_ONLY: libc::c_int = 1;
const FEATURES: u64 = REMAP | REMOVE | UNMAP | WP_SHMEM;
const REMAP: u64 = 1 << 2;
const REMOVE: u64 = 1 << 3;
const UNMAP: u64 = 1 << 6;
const WP_SHMEM: u64 = 1 << 12;
/// Newer kernels: no write is ever held up, and any mapping can be watched, private ones of files too.
const WP_ASYNC: u64 = 1 << 15;
const MODE_WP: u64 = 1 << 1;
const IOCTL_API: libc::c_ulong = 0xc018_aa3f;
const IOCTL_REGISTER: libc::c_ulong = 0xc020_aa00;
const IOCTL_UNREGISTER: libc::c_ulong = 0x8010_aa01;
const IOCTL_WRITEPROTECT: libc::c_ulong = 0xc018_aa06;
const EVENT_REMAP: u64 = 0x14;
const EVENT_REMOVE: u64 = 0x15;
const EVENT_UNMAP: u64 = 0x16;

/// Watches ranges.
pub struct Watch {
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
    maps: Maps,
}

struct Shared {
    fault: OwnedFd,
    stop: Event,
    /// Events are being read: set before the read that lets their causes go on.
    busy: AtomicBool,
    /// Something has become stale since the flag was taken.
    news: AtomicBool,
    ranges: Box<[Range]>,
}

#[derive(Default)]
struct Range {
    state: AtomicU32,
    start: AtomicU64,
    end: AtomicU64,
}

const UNUSED: u32 = 0;
const FRESH: u32 = 1;
const STALE: u32 = 2;

/// What the kernel says.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Message {
    /// The kind in the lowest byte.
    kind: u64,
    /// Start and end of what has gone; of a move: from, to, length.
    what: [u64; 3],
}

const _: () = assert!(size_of::<Message>() == 32);

impl Watch {
    /// Begins to listen.
    ///
    /// # Errors
    /// What the kernel answers where it has no such thing or does not let this process have it.
    pub fn begin() -> io::Result<Self> {
        let shared = Arc::new(Shared {
            fault: open(FEATURES | WP_ASYNC).or_else(|_| open(FEATURES))?,
            stop: Event::new()?,
            busy: AtomicBool::new(false),
            news: AtomicBool::new(false),
            ranges: (0..RANGES).map(|_| Range::default()).collect(),
        });
        let theirs = Arc::clone(&shared);
        let listener = ferriband_host::signals::without(|| {
            std::thread::Builder::new()
                .name("ferriband-mem".to_owned())
                .stack_size(STACK)
                .spawn(move || theirs.listen())
        })?;
        Ok(Self {
            shared,
            listener: Some(listener),
            maps: Maps::open(),
        })
    }

    /// Waits until everything that had happened to the memory before this call has been heard. False if somebody takes too long: then nothing is known.
    pub fn settle(&self) -> bool {
        let mut begun = None;
        loop {
            // In this order: an event that is no longer changing has been read, and busy was set before that.
            if !self.shared.is_changing() && !self.shared.busy.load(Ordering::SeqCst) {
                return true;
            }
            if begun.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return false;
            }
            std::thread::yield_now();
        }
    }

    /// Whether something has become stale since the last question.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.shared.news.load(Ordering::Acquire) && self.shared.news.swap(false, Ordering::AcqRel)
    }

    /// Whether range `index` is still what it was when it was taken up, as far as it has been heard.
    #[inline]
    pub fn is_fresh(&self, index: u32) -> bool {
        self.shared.ranges[index as usize]
            .state
            .load(Ordering::Acquire)
            == FRESH
    }

    /// Takes up `[start, end)`, pages: fresh from here on until something happens to it. `None` if it cannot be watched, or there are too many.
    pub fn take_up(&mut self, start: u64, end: u64) -> Option<u32> {
        let ranges = &self.shared.ranges;
        let index = ranges
            .iter()
            .position(|range| range.state.load(Ordering::Relaxed) == UNUSED)?;
        let range = &ranges[index];
        range.start.store(start, Ordering::Relaxed);
        range.end.store(end, Ordering::Relaxed);
        range.state.store(FRESH, Ordering::SeqCst);
        if self.watch_all(start, end) {
            return Some(index as u32);
        }
        range.state.store(UNUSED, Ordering::Release);
        None
    }

    /// Range `index` is of no interest any more. Its memory stays watched: others may lie there.
    pub fn drop_range(&mut self, index: u32) {
        self.shared.ranges[index as usize]
            .state
            .store(UNUSED, Ordering::Release);
    }

    /// Watches the whole mappings that a range lies in: one that was watched in part would be two, and no mremap could take it whole.
    fn watch_all(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        while at < end {
            let Some((first, last)) = self.maps.around(at) else {
                return false;
            };
            if first > at || last <= at || !self.shared.watch(first, last) {
                return false;
            }
            at = last;
        }
        true
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // A child of a fork may hold the descriptor for longer than this process does: nothing may wait for a listener that has gone.
        for (start, end) in self.maps.all() {
            self.shared.forget(start, end);
        }
        self.shared.stop.signal();
        if let Some(listener) = self.listener.take() {
            // It cannot panic; if it had, it has ended as well.
            let _ = listener.join();
        }
    }
}

impl Shared {
    /// The thread: hears until it is told to stop.
    fn listen(&self) {
        loop {
            let wait = |fd: BorrowedFd<'_>| libc::pollfd {
                fd: fd.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            let mut polls = [wait(self.fault.as_fd()), wait(self.stop.as_fd())];
            // SAFETY: a local array of two.
            unsafe { libc::poll(polls.as_mut_ptr(), 2, -1) };
            self.busy.store(true, Ordering::SeqCst);
            while self.hear() {}
            self.busy.store(false, Ordering::SeqCst);
            if polls[1].revents != 0 {
                return;
            }
        }
    }

    /// Reads what there is. True if there was something.
    fn hear(&self) -> bool {
        let mut batch = [Message::default(); BATCH];
        let size = size_of_val(&batch);
        // SAFETY: a local array, as long as is said; any bytes are messages.
        let got = unsafe { libc::read(self.fault.as_raw_fd(), batch.as_mut_ptr().cast(), size) };
        let count = usize::try_from(got).unwrap_or(0) / size_of::<Message>();
        for message in &batch[..count] {
            let [first, second, third] = message.what;
            match message.kind & 0xff {
                EVENT_REMAP => self.mark(first, first.saturating_add(third)),
                EVENT_REMOVE | EVENT_UNMAP => self.mark(first, second),
                _ => (),
            }
        }
        count != 0
    }

    /// Something has happened to `[start, end)`.
    fn mark(&self, start: u64, end: u64) {
        for range in &self.ranges {
            let touches = range.start.load(Ordering::Relaxed) < end
                && start < range.end.load(Ordering::Relaxed);
            if touches
                && range
                    .state
                    .compare_exchange(FRESH, STALE, Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
            {
                self.news.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Whether somebody changes watched memory and has not been heard.
    fn is_changing(&self) -> bool {
        let nothing = std::ptr::null_mut::<u8>();
        // SAFETY: without an argument the call does nothing: the kernel says EAGAIN while memory changes, else EFAULT.
        let returned = unsafe { libc::ioctl(self.fault.as_raw_fd(), IOCTL_WRITEPROTECT, nothing) };
        returned < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
    }

    fn watch(&self, start: u64, end: u64) -> bool {
        let mut asked = [start, end - start, MODE_WP, 0];
        // SAFETY: a local structure of the call's shape. No page is protected, so nobody is ever held up by a write.
        unsafe { libc::ioctl(self.fault.as_raw_fd(), IOCTL_REGISTER, asked.as_mut_ptr()) == 0 }
    }

    fn forget(&self, start: u64, end: u64) {
        let mut asked = [start, end - start];
        // SAFETY: a local structure of the call's shape. Mappings that were not watched are refused, which is as well.
        unsafe { libc::ioctl(self.fault.as_raw_fd(), IOCTL_UNREGISTER, asked.as_mut_ptr()) };
    }
}

fn open(features: u64) -> io::Result<OwnedFd> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
    // SAFETY: a new descriptor, or an error.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    let fd = owned(RawFd::try_from(fd).unwrap_or(-1))?;
    let mut asked = [API, features, 0];
    // SAFETY: a local structure of the call's shape.
    if unsafe { libc::ioctl(fd.as_raw_fd(), IOCTL_API, asked.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd)
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the caller has just got it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
