//! Descriptors of the library's own in a program that knows nothing of them.
//!
//! Owns: where they lie, and which of the program's calls must not reach them. Must not know: what
//! they are for.
//!
//! They lie high, so that the program gets the low numbers that it expects, and beyond FD_SETSIZE
//! where the limit on descriptors allows it. To the program they are closed: `close` of one is
//! EBADF, a close of a range goes around them, and before a dup2 over one it is moved. A thread
//! that has read a number just before another thread's dup2 over it uses the program's descriptor:
//! that window is some instructions long.
//!
//! They are a quarter of the numbers that the process may have at most. Whoever needs one more gets
//! MFILE, and the connection stays TCP.
//!
//! The kernel gives each new descriptor the lowest number; only a copy can be given a high one. So
//! what socket(2), accept(2), socketpair(2), memfd_create(2), eventfd(2), epoll_create(2), open(2)
//! and recvmsg(2) make is low until it was copied. That is a *turn* ([`Turn`]), in which no call of
//! the program's closes or replaces a number of which nothing is known, and no fork begins. One
//! thing is left to be seen: a thread of the program's that makes a descriptor during a turn of
//! another thread, about two microseconds, gets the number behind the lowest.

use crate::numbers::{Kind, NUMBERS, Numbers, once};
use crate::pages::{Pages, Seen};
use crate::signals::{block_signals, restore_signals};
use ferriband_host::segment::Segment as HostSegment;
use ferriband_host::wake;
use rustix::io::Errno;
use rustix::process::Resource;
use std::cell::Cell;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// Moves a descriptor up that is to be hidden. Who has made it has a [`Turn`].
///
/// # Errors
/// MFILE.
pub fn raise(descriptor: OwnedFd) -> Result<OwnedFd, Errno> {
    high(descriptor.as_fd())
}

/// Descriptors of the library's own in a process, at most.
const MOST: usize = 1 << 16;
/// How many numbers below the limit are looked through from, at least.
const ROOM: u64 = 256;
/// No farther up than this is looked through from: the kernel's table of a process is as long as
/// its highest number, and a fork copies it.
const HIGH: u64 = 1 << 12;
/// Of the numbers that a process may have, own descriptors take one of so many at most.
const SHARE: u64 = 4;

/// Numbers of own descriptors, plus one. A child begins with a copy.
static PLACES: AtomicPtr<Pages> = AtomicPtr::new(ptr::null_mut());

/// A descriptor of the library's own. It is closed when this is dropped.
#[derive(Debug)]
pub struct Own {
    place: &'static AtomicU32,
}

fn places() -> Result<&'static Pages, Errno> {
    once(&PLACES, || Pages::reserve(MOST * 4, Seen::Copied))
}

/// How many numbers the process may have, of those that are told apart.
fn limit() -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    limit.unwrap_or(u64::MAX).min(NUMBERS as u64)
}

/// From which number on own descriptors are looked for.
fn base(limit: u64) -> i32 {
    // with a low limit the upper half is ours, with a high one there is room for many
    let down = ROOM.max(limit / SHARE).min(limit / 2);
    (limit - down).min(HIGH) as i32
}

/// Another number for the same descriptor, high up and closed by exec.
fn high(descriptor: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    match rustix::io::fcntl_dupfd_cloexec(descriptor, base(limit())) {
        // the limit was lowered meanwhile
        Err(Errno::INVAL) => Err(Errno::MFILE),
        moved => moved,
    }
}

/// Own descriptors of this process, and calls that a turn must not meet. A child has none of its
/// parent's turns and calls.
#[derive(Debug)]
struct Counts {
    turns: AtomicU32,
    closes: AtomicU32,
}

static TURNS: AtomicPtr<Pages> = AtomicPtr::new(ptr::null_mut());
/// Own descriptors. A child begins with a copy, as it does with them.
static USED: AtomicU32 = AtomicU32::new(0);

fn counts() -> Result<&'static Counts, Errno> {
    let pages = once(&TURNS, || Pages::reserve(size_of::<Counts>(), Seen::Wiped))?;
    // SAFETY: atomic words that begin as zeros, and nothing else lies there.
    Ok(unsafe { pages.at(0) })
}

/// How often whoever has a turn looks whether closes that began before are over. One that lasts
/// longer has let go of its number, and waits for the file.
const LOOKS: u32 = 200;

thread_local! {
    /// Turns of this thread.
    static MINE: Cell<u32> = const { Cell::new(0) };
}

/// As long as this lives this thread may have descriptors of the library's own that are low. It has
/// no signals meanwhile, and must not wait.
pub struct Turn {
    counts: Option<&'static Counts>,
    before: libc::sigset_t,
}

impl Turn {
    /// Waits for calls that are closing what a turn must not meet.
    pub fn begin() -> Self {
        let before = block_signals();
        let counts = counts().ok();
        MINE.set(MINE.get() + 1);
        if let Some(counts) = counts {
            counts.turns.fetch_add(1, Ordering::SeqCst);
            for look in 0..LOOKS {
                if counts.closes.load(Ordering::SeqCst) == 0 {
                    break;
                }
                match look {
                    0..100 => std::thread::yield_now(),
                    _ => std::thread::sleep(Duration::from_micros(10)),
                }
            }
        }
        Self { counts, before }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(counts) = self.counts {
            counts.turns.fetch_sub(1, Ordering::SeqCst);
        }
        MINE.set(MINE.get() - 1);
        restore_signals(&self.before);
    }
}

/// A call of the program's on a number of which nothing is known, or a fork. It waits for turns of
/// other threads, and none begins before [`Closes::over`].
#[derive(Debug)]
#[must_use]
pub struct Closes(Option<&'static Counts>);

impl Closes {
    /// In a thread that has a turn it is one of the library's own, whose descriptors are closed by
    /// the standard library: nothing is counted.
    #[inline]
    pub fn begin() -> Self {
        // nothing of the library's own was ever made
        let pages = TURNS.load(Ordering::Acquire);
        if pages.is_null() || MINE.get() > 0 {
            return Self(None);
        }
        // SAFETY: what was once put there stays for ever.
        let pages = unsafe { &*pages };
        // SAFETY: as in `counts`.
        let counts: &'static Counts = unsafe { pages.at(0) };
        loop {
            counts.closes.fetch_add(1, Ordering::SeqCst);
            if counts.turns.load(Ordering::SeqCst) == 0 {
                return Self(Some(counts));
            }
            counts.closes.fetch_sub(1, Ordering::SeqCst);
            std::thread::yield_now();
        }
    }

    /// The call is over.
    #[inline]
    pub fn over(self) {
        if let Some(counts) = self.0 {
            counts.closes.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Whether the fork that is about to be was counted.
static FORK_COUNTED: AtomicBool = AtomicBool::new(false);

/// Before a fork, of which there is one at a time: a child has no descriptor that is low.
pub(crate) fn before_fork() {
    let closes = Closes::begin();
    FORK_COUNTED.store(closes.0.is_some(), Ordering::Relaxed);
}

/// After a fork, in the parent. The child's counts are its own, and begin as zeros.
pub(crate) fn after_fork() {
    if FORK_COUNTED.swap(false, Ordering::Relaxed)
        && let Ok(counts) = counts()
    {
        Closes(Some(counts)).over();
    }
}

impl Own {
    /// Makes a descriptor, which is low for one [`Turn`].
    ///
    /// # Errors
    /// As of `make`; MFILE, NOMEM.
    pub fn make<E: From<Errno>>(make: impl FnOnce() -> Result<OwnedFd, E>) -> Result<Self, E> {
        let _turn = Turn::begin();
        Ok(Self::hide(make()?)?)
    }

    /// A copy, which is high from the beginning.
    ///
    /// # Errors
    /// MFILE, NOMEM.
    pub fn copy(descriptor: BorrowedFd<'_>) -> Result<Self, Errno> {
        let numbers = Numbers::of_process()?;
        let places = places()?;
        if u64::from(USED.fetch_add(1, Ordering::Relaxed)) >= limit() / SHARE {
            USED.fetch_sub(1, Ordering::Relaxed);
            return Err(Errno::MFILE);
        }
        let own = Self::place(numbers, places, descriptor);
        if own.is_err() {
            USED.fetch_sub(1, Ordering::Relaxed);
        }
        own
    }

    /// Moves a descriptor up and hides it. Who has made it has a [`Turn`].
    ///
    /// # Errors
    /// MFILE, NOMEM.
    pub fn hide(descriptor: OwnedFd) -> Result<Self, Errno> {
        Self::copy(descriptor.as_fd())
    }

    fn place(
        numbers: &Numbers,
        places: &'static Pages,
        descriptor: BorrowedFd<'_>,
    ) -> Result<Self, Errno> {
        let moved = high(descriptor)?;
        let number = moved.into_raw_fd();
        for at in 0..MOST {
            let place = places.half(at * 4);
            let own = number as u32 + 1;
            let took = place.load(Ordering::Relaxed) == 0
                && place
                    .compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok();
            if took {
                numbers.put(number, Kind::Own);
                return Ok(Self { place });
            }
        }
        // SAFETY: the number from above.
        unsafe { rustix::io::close(number) };
        Err(Errno::MFILE)
    }

    /// Its number at this moment.
    #[inline]
    pub fn number(&self) -> RawFd {
        self.place.load(Ordering::Acquire) as i32 - 1
    }
}

impl AsFd for Own {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as this lives.
        unsafe { BorrowedFd::borrow_raw(self.number()) }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // from here on the program's calls reach the number, which is closed in the same turn
        let _turn = Turn::begin();
        let number = self.place.swap(0, Ordering::AcqRel) as i32 - 1;
        if let Ok(numbers) = Numbers::of_process() {
            numbers.forget(number, Kind::Own);
        }
        // SAFETY: the library's own descriptor, of which nobody else knows.
        unsafe { rustix::io::close(number) };
        USED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Memory that is shared with another process, whose file is hidden from the program.
pub type Segment = HostSegment<Own>;

/// New zeroed memory of `length` bytes.
///
/// # Errors
/// As of [`HostSegment::create`].
pub fn memory(length: u64) -> io::Result<Segment> {
    let file = Own::make(|| ferriband_host::segment::create(c"ferriband-sdp", length))?;
    Ok(Segment::map(file, length)?)
}

/// An eventfd that is hidden from the program.
#[derive(Debug)]
pub struct Event(Own);

impl Event {
    /// A new one.
    ///
    /// # Errors
    /// MFILE, NFILE, NOMEM.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Own::make(|| wake::Event::new().map(OwnedFd::from))?))
    }

    /// Takes over a descriptor that came from another process.
    ///
    /// # Errors
    /// As [`wake::Event::from_fd`]; MFILE, NOMEM.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self(Own::hide(wake::Event::from_fd(fd)?.into())?))
    }

    /// Adds 1 to the count, which wakes whoever polls.
    #[inline]
    pub fn signal(&self) {
        wake::signal(self.0.as_fd());
    }

    /// Sets the count to 0: what it was.
    pub fn take(&self) -> u64 {
        wake::take(self.0.as_fd())
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether a number is the library's own, so that the program is told EBADF.
#[inline]
pub fn is_own(number: i32) -> bool {
    Numbers::of_process().is_ok_and(|numbers| numbers.look(number) == Kind::Own)
}

/// Before dup2 and its like make `number` the program's: what is the library's own there is moved.
/// The descriptor stays open under the old number, too, until the call puts another there.
///
/// # Errors
/// MFILE: there is nowhere to go to.
pub fn make_way(number: i32) -> Result<(), Errno> {
    if !is_own(number) {
        return Ok(());
    }
    let numbers = Numbers::of_process()?;
    let places = places()?;
    let own = number as u32 + 1;
    let found = (0..MOST).map(|at| places.half(at * 4));
    let mut found = found.filter(|place| place.load(Ordering::Acquire) == own);
    let Some(place) = found.next() else {
        return Ok(());
    };
    // SAFETY: the library's own descriptor, which is open.
    let moved = high(unsafe { BorrowedFd::borrow_raw(number) })?.into_raw_fd();
    numbers.put(moved, Kind::Own);
    let to = moved as u32 + 1;
    let was = place.compare_exchange(own, to, Ordering::AcqRel, Ordering::Relaxed);
    if was.is_err() {
        // another thread has moved or closed it
        numbers.forget(moved, Kind::Own);
        // SAFETY: the number from above.
        unsafe { rustix::io::close(moved) };
        return Ok(());
    }
    numbers.forget(number, Kind::Own);
    Ok(())
}

/// The numbers of a range that are not the library's own, as ranges: what a close of the range may
/// be done to.
pub fn around(range: RangeInclusive<u32>) -> impl Iterator<Item = RangeInclusive<u32>> {
    let (mut from, last) = (u64::from(*range.start()), u64::from(*range.end()));
    let known = Numbers::of_process().ok().into_iter().flat_map(move |all| {
        let first = i32::try_from(from).unwrap_or(i32::MAX);
        all.known(first..=i32::try_from(last).unwrap_or(i32::MAX))
    });
    let own = known.filter(|(_, kind)| *kind == Kind::Own);
    // the end of the range is a border as well
    let borders = own
        .map(|(number, _)| number as u64)
        .chain(std::iter::once(last + 1));
    borders.filter_map(move |border| {
        let gap = (from < border).then(|| from as u32..=(border - 1) as u32);
        from = border + 1;
        gap
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn null() -> OwnedFd {
        File::open("/dev/null").expect("it is there").into()
    }

    #[test]
    fn own_descriptors_lie_high_and_are_hidden() {
        let own = Own::hide(null()).expect("room");
        let number = own.number();
        assert!(number >= base(limit()));
        assert!(is_own(number));
        let flags = rustix::io::fcntl_getfd(&own).expect("open");
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        drop(own);
        assert!(!is_own(number));
        // SAFETY: only looked at.
        let closed = unsafe { BorrowedFd::borrow_raw(number) };
        assert_eq!(rustix::io::fcntl_getfd(closed), Err(Errno::BADF));
    }

    #[test]
    fn a_turn_closes_what_it_has_made() {
        let _turn = Turn::begin();
        Closes::begin().over();
    }

    #[test]
    fn a_turn_and_a_close_of_what_is_not_known_never_meet() {
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let closes = Closes::begin();
                        assert_eq!(inside.load(Ordering::SeqCst), 0);
                        closes.over();
                    }
                });
            }
            for _ in 0..500 {
                let turn = Turn::begin();
                inside.fetch_add(1, Ordering::SeqCst);
                std::thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(turn);
            }
        });
    }

    #[test]
    fn they_are_a_quarter_of_all_at_most() {
        let _alone = crate::testing::alone();
        crate::testing::join(crate::testing::child(crate::testing::Fork::Called, || {
            let limits = rustix::process::Rlimit {
                current: Some(400),
                maximum: rustix::process::getrlimit(Resource::Nofile).maximum,
            };
            rustix::process::setrlimit(Resource::Nofile, limits).expect("lower");
            let before = USED.load(Ordering::Relaxed) as usize;
            let all: Vec<_> = (0..400).map_while(|_| Own::hide(null()).ok()).collect();
            assert_eq!(all.len() + before, 100);
            assert!(all.iter().all(|own| own.number() >= 200));
            // the program has the rest
            drop(null());
        }));
    }

    #[test]
    fn a_range_goes_around_them() {
        let own: Vec<_> = (0..3).map(|_| Own::hide(null()).expect("room")).collect();
        let mut expected = 3_u64;
        for gap in around(3..=u32::MAX) {
            let (first, last) = (u64::from(*gap.start()), u64::from(*gap.end()));
            assert!(expected <= first && first <= last);
            for own in &own {
                assert!(!gap.contains(&(own.number() as u32)));
            }
            expected = last + 1;
        }
        assert_eq!(expected, 1 << 32);
        let number = own[0].number() as u32;
        assert_eq!(around(number..=number).count(), 0);
        assert_eq!(around(5..=7).collect::<Vec<_>>(), [5..=7]);
    }

    #[test]
    fn one_makes_way_and_stays_open() {
        let own = Own::hide(null()).expect("room");
        let number = own.number();
        make_way(number).expect("room");
        assert_ne!(own.number(), number);
        assert!(is_own(own.number()) && !is_own(number));
        // what the program's dup2 does
        let other = File::open("/dev/zero").expect("it is there");
        // SAFETY: the number was left, and is closed below.
        let mut target = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(number) };
        rustix::io::dup2(&other, &mut target).expect("open");
        let mut byte = [1; 1];
        assert_eq!(rustix::io::read(&target, &mut byte), Ok(1));
        assert_eq!(rustix::io::read(&own, &mut byte), Ok(0));
    }
}
