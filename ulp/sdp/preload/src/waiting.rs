//! Calls that wait for several descriptors.
//!
//! What has no stream among them is the C library's own call. Where a stream is among them the
//! thread sleeps in the C library's function as well, so that it can be cancelled there.

use crate::cancel::{_pthread_cleanup_pop, _pthread_cleanup_push, pthread_testcancel};
use crate::{quietly, real, set_errno, stream};
use ferriband_sdp_socket::process::Process;
use ferriband_sdp_socket::ready::kernel;
use ferriband_sdp_socket::ready::{self, Errno, Event, Next, Patience, Polled, Sleep, Waits};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

type Events = *mut libc::epoll_event;
type Time = *const libc::timespec;
type Signals = *const libc::sigset_t;

/// Bits of a word of `fd_set`, and words of one.
const BITS: usize = u64::BITS as usize;
/// Descriptors of a `select` at most.
const MOST: usize = 1 << 20;

/// A number that this library waits for.
#[inline]
fn is_ours(number: c_int) -> bool {
    stream(number).is_some() || ready::knows(number)
}

/// This process looks at a stream that it has inherited.
fn touch(number: c_int) {
    if let Some(process) = Process::there() {
        process.waits(number);
    }
}

/// The answer of a call that has waited.
fn answered(answer: Result<usize, impl Into<c_int>>) -> c_int {
    match answer {
        Ok(count) => c_int::try_from(count).unwrap_or(c_int::MAX),
        Err(errno) => {
            set_errno(errno.into());
            -1
        }
    }
}

/// What waits, step by step. The thread sleeps in the C library's functions, and a cancelled one
/// ends there; what it has begun is dropped. `make` owns nothing.
fn waits<W: Waits>(
    time: Option<Duration>,
    signals: Signals,
    make: impl FnOnce(Patience<'static>) -> Result<W, Errno>,
) -> c_int {
    // SAFETY: a cancelled thread ends here, although it need not sleep; this frame owns nothing.
    unsafe { pthread_testcancel() };
    // SAFETY: the kernel's mask is the first word of the C library's, and lives during the call.
    let mask = unsafe { signals.cast::<u64>().as_ref() };
    let patience = Patience {
        time,
        signals: mask,
    };
    let mut call = MaybeUninit::<W>::uninit();
    if let Err(error) = put(&mut call, || make(patience)) {
        return answered(Err(error.raw_os_error()));
    }
    let call = call.as_mut_ptr();
    let mut slept = None;
    loop {
        // SAFETY: nobody else has it.
        let step = || unsafe { (*call).go_on(slept) };
        match quietly(Next::Over(Err(Errno::IO)), step) {
            // SAFETY: the last step has just given it.
            Next::Sleep(sleep) => slept = Some(unsafe { sleeps(sleep, signals, call) }),
            Next::Over(answer) => {
                dropped::<W>(call.cast());
                return answered(answer.map_err(Errno::raw_os_error));
            }
        }
    }
}

/// Makes a call, and puts it where it stays. What that takes of the thread's stack is given back.
#[inline(never)]
fn put<W>(
    place: &mut MaybeUninit<W>,
    make: impl FnOnce() -> Result<W, Errno>,
) -> Result<(), Errno> {
    quietly(Err(Errno::IO), || {
        place.write(make()?);
        Ok(())
    })
}

/// One sleep.
///
/// # Safety
/// A step of the call has just given it.
#[inline(never)]
unsafe fn sleeps<W>(sleep: Sleep, signals: Signals, call: *mut W) -> Result<usize, Errno> {
    let mut buffer = MaybeUninit::uninit();
    // SAFETY: the buffer lies in this frame until it is taken out below, and the call in a frame
    // above.
    unsafe { _pthread_cleanup_push(buffer.as_mut_ptr(), dropped::<W>, call.cast()) };
    let answer = match sleep {
        Sleep::Epoll {
            instance,
            events,
            most,
            time,
        } => {
            let most = c_int::try_from(most).unwrap_or(c_int::MAX);
            // SAFETY: the caller's promise.
            unsafe { sleep_in_epoll(instance, events.cast(), most, time, signals) }
        }
        Sleep::Poll {
            polled,
            count,
            time,
        } => {
            let time = kernel::spec(time);
            let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            let (polled, count) = (polled.cast::<libc::pollfd>(), count as libc::nfds_t);
            real::call!(-1, fn ppoll(
                polled => *mut libc::pollfd, count => libc::nfds_t, time => Time,
                signals => Signals
            ) -> c_int)
        }
    };
    // SAFETY: the buffer that was put in above.
    unsafe { _pthread_cleanup_pop(buffer.as_mut_ptr(), 0) };
    // SAFETY: the address is the calling thread's own.
    usize::try_from(answer)
        .map_err(|_| Errno::from_raw_os_error(unsafe { *libc::__errno_location() }))
}

/// # Safety
/// There is room for so many events.
unsafe fn sleep_in_epoll(
    instance: c_int,
    events: Events,
    most: c_int,
    wait: Option<Duration>,
    signals: Signals,
) -> c_int {
    if !wait.is_none_or(|wait| wait.subsec_nanos().is_multiple_of(1_000_000)) {
        let time = kernel::spec(wait);
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let answer = real::call!(-1, fn epoll_pwait2(
            instance => c_int, events => Events, most => c_int, time => Time,
            signals => Signals
        ) -> c_int);
        // SAFETY: the address is the calling thread's own.
        if answer >= 0 || unsafe { *libc::__errno_location() } != libc::ENOSYS {
            return answer;
        }
    }
    let time = kernel::milliseconds(wait);
    if signals.is_null() {
        // a program that filters its system calls knows this one
        return real::call!(-1, fn epoll_wait(
            instance => c_int, events => Events, most => c_int, time => c_int
        ) -> c_int);
    }
    real::call!(-1, fn epoll_pwait(
        instance => c_int, events => Events, most => c_int, time => c_int, signals => Signals
    ) -> c_int)
}

/// Ends a call, also of a thread that is cancelled.
extern "C" fn dropped<W>(call: *mut c_void) {
    // SAFETY: `waits` has given the address of its own, which it drops no other way.
    quietly((), || unsafe { call.cast::<W>().drop_in_place() });
}

fn milliseconds(time: c_int) -> Option<Duration> {
    u64::try_from(time).ok().map(Duration::from_millis)
}

/// Err: the kernel says what is wrong with it.
///
/// # Safety
/// NULL, or a time.
unsafe fn spec(time: Time) -> Result<Option<Duration>, ()> {
    // SAFETY: the caller's promise.
    let Some(time) = (unsafe { time.as_ref() }) else {
        return Ok(None);
    };
    match (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec)) {
        (Ok(seconds), Ok(nanos)) if nanos < 1_000_000_000 => {
            Ok(Some(Duration::new(seconds, nanos)))
        }
        _ => Err(()),
    }
}

/// The descriptors of a poll(2), if one of them is ours.
///
/// # Safety
/// There are so many.
unsafe fn polled<'a>(asked: *mut libc::pollfd, count: libc::nfds_t) -> Option<&'a mut [Polled]> {
    if Process::there().is_none() || asked.is_null() || count as usize > MOST {
        return None;
    }
    // SAFETY: the caller's promise; the two are one structure.
    let polled = unsafe { std::slice::from_raw_parts_mut(asked.cast::<Polled>(), count as usize) };
    let mut ours = false;
    for one in &*polled {
        if is_ours(one.fd) {
            touch(one.fd);
            ours = true;
        }
    }
    ours.then_some(polled)
}

const _: () = assert!(size_of::<Polled>() == size_of::<libc::pollfd>());
const _: () = assert!(size_of::<Event>() == size_of::<libc::epoll_event>());

fn poll_ours(polled: &mut [Polled], time: Option<Duration>, signals: Signals) -> c_int {
    waits(time, signals, |patience| ready::Poll::new(polled, patience))
}

macro_rules! polls {
    ($($(#[$doc:meta])* $name:ident($($room:ident)?);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            asked: *mut libc::pollfd,
            count: libc::nfds_t,
            time: c_int,
            $($room: libc::size_t)?
        ) -> c_int {
            // SAFETY: the caller's promise.
            if let Some(polled) = unsafe { polled(asked, count) } {
                return poll_ours(polled, milliseconds(time), std::ptr::null());
            }
            real::call!(-1, fn $name(
                asked => *mut libc::pollfd, count => libc::nfds_t, time => c_int
                $(, $room => libc::size_t)?
            ) -> c_int)
        }
    )*};
}

polls! {
    /// poll(2).
    poll();
    /// poll(2) of an array whose size the compiler knows.
    __poll_chk(room);
}

macro_rules! ppolls {
    ($($(#[$doc:meta])* $name:ident($($room:ident)?);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            asked: *mut libc::pollfd,
            count: libc::nfds_t,
            time: Time,
            signals: Signals,
            $($room: libc::size_t)?
        ) -> c_int {
            // SAFETY: the caller's promise.
            if let Ok(wait) = unsafe { spec(time) }
                // SAFETY: the caller's promise.
                && let Some(polled) = unsafe { polled(asked, count) }
            {
                return poll_ours(polled, wait, signals);
            }
            real::call!(-1, fn $name(
                asked => *mut libc::pollfd, count => libc::nfds_t, time => Time,
                signals => Signals $(, $room => libc::size_t)?
            ) -> c_int)
        }
    )*};
}

ppolls! {
    /// ppoll(2).
    ppoll();
    /// ppoll(2) of an array whose size the compiler knows.
    __ppoll_chk(room);
}

type Set = *mut libc::fd_set;

/// The sets of a select(2), if one of their descriptors is ours.
///
/// # Safety
/// NULL, or so long.
unsafe fn selected<'a>(end: c_int, sets: [Set; 3]) -> Option<[Option<&'a mut [u64]>; 3]> {
    let end = usize::try_from(end).ok().filter(|end| *end <= MOST)?;
    Process::there()?;
    let words = end.div_ceil(BITS);
    let mut ours = false;
    let sets = sets.map(|set| {
        if set.is_null() {
            return None;
        }
        // SAFETY: the caller's promise.
        let set = unsafe { std::slice::from_raw_parts_mut(set.cast::<u64>(), words) };
        for number in 0..end {
            if set[number / BITS] >> (number % BITS) & 1 != 0 && is_ours(number as c_int) {
                touch(number as c_int);
                ours = true;
            }
        }
        Some(set)
    });
    ours.then_some(sets)
}

fn select_ours(
    end: c_int,
    sets: [Option<&mut [u64]>; 3],
    time: Option<Duration>,
    signals: Signals,
) -> c_int {
    waits(time, signals, |patience| {
        ready::Select::new(end, sets, patience)
    })
}

/// select(2). What is left of the time is written, as by the kernel.
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn select(
    end: c_int,
    reads: Set,
    writes: Set,
    others: Set,
    time: *mut libc::timeval,
) -> c_int {
    // SAFETY: the caller's promise.
    let given = unsafe { time.as_ref() }.map(|time| (time.tv_sec, time.tv_usec));
    let valid = given.is_none_or(|(seconds, micros)| seconds >= 0 && micros >= 0);
    // SAFETY: the caller's promise.
    if valid && let Some(sets) = unsafe { selected(end, [reads, writes, others]) } {
        let wait = given.map(|(seconds, micros)| {
            Duration::from_secs(seconds.cast_unsigned())
                + Duration::from_micros(micros.cast_unsigned())
        });
        let begun = Instant::now();
        let answer = select_ours(end, sets, wait, std::ptr::null());
        if let Some(wait) = wait {
            let left = wait.saturating_sub(begun.elapsed());
            // SAFETY: it was read above.
            unsafe {
                (*time).tv_sec = left.as_secs().cast_signed();
                (*time).tv_usec = i64::from(left.subsec_micros());
            }
        }
        return answer;
    }
    real::call!(-1, fn select(
        end => c_int, reads => Set, writes => Set, others => Set, time => *mut libc::timeval
    ) -> c_int)
}

/// pselect(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pselect(
    end: c_int,
    reads: Set,
    writes: Set,
    others: Set,
    time: Time,
    signals: Signals,
) -> c_int {
    // SAFETY: the caller's promise.
    if let Ok(wait) = unsafe { spec(time) }
        // SAFETY: the caller's promise.
        && let Some(sets) = unsafe { selected(end, [reads, writes, others]) }
    {
        return select_ours(end, sets, wait, signals);
    }
    real::call!(-1, fn pselect(
        end => c_int, reads => Set, writes => Set, others => Set, time => Time,
        signals => Signals
    ) -> c_int)
}

fn create(flags: c_int) -> c_int {
    let made = quietly(Err(libc::EIO), || {
        ready::create(flags).map_err(|error| error.raw_os_error())
    });
    match made {
        Ok(number) => number,
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

/// epoll_create(2).
#[unsafe(no_mangle)]
pub extern "C" fn epoll_create(size: c_int) -> c_int {
    if size <= 0 {
        set_errno(libc::EINVAL);
        return -1;
    }
    create(0)
}

/// epoll_create1(2).
#[unsafe(no_mangle)]
pub extern "C" fn epoll_create1(flags: c_int) -> c_int {
    create(flags)
}

/// epoll_ctl(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_ctl(
    instance: c_int,
    operation: c_int,
    number: c_int,
    event: Events,
) -> c_int {
    if Process::there().is_some() && is_ours(number) {
        touch(number);
        // SAFETY: the caller's promise; the two are one structure.
        let event = unsafe { event.cast::<Event>().as_ref() }.copied();
        let done = quietly(Err(libc::EIO), || {
            ready::ctl(instance, operation, number, event).map_err(|error| error.raw_os_error())
        });
        return answered(done.map(|()| 0));
    }
    real::call!(-1, fn epoll_ctl(
        instance => c_int, operation => c_int, number => c_int, event => Events
    ) -> c_int)
}

/// # Safety
/// There is room for so many.
unsafe fn epoll(
    instance: c_int,
    events: Events,
    most: c_int,
    time: Option<Duration>,
    signals: Signals,
) -> c_int {
    let most = most.cast_unsigned() as usize;
    // SAFETY: the caller's promise; the two are one structure, of which any bits are a value.
    let events = unsafe { std::slice::from_raw_parts_mut(events.cast::<Event>(), most) };
    waits(time, signals, |patience| {
        Ok(ready::Wait::new(instance, events, patience))
    })
}

fn serves(instance: c_int, events: Events, most: c_int) -> bool {
    most > 0 && most as usize <= MOST && !events.is_null() && ready::knows(instance)
}

/// epoll_wait(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(
    instance: c_int,
    events: Events,
    most: c_int,
    time: c_int,
) -> c_int {
    if serves(instance, events, most) {
        // SAFETY: the caller's promise.
        return unsafe { epoll(instance, events, most, milliseconds(time), std::ptr::null()) };
    }
    real::call!(-1, fn epoll_wait(
        instance => c_int, events => Events, most => c_int, time => c_int
    ) -> c_int)
}

/// epoll_pwait(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait(
    instance: c_int,
    events: Events,
    most: c_int,
    time: c_int,
    signals: Signals,
) -> c_int {
    if serves(instance, events, most) {
        // SAFETY: the caller's promise.
        return unsafe { epoll(instance, events, most, milliseconds(time), signals) };
    }
    real::call!(-1, fn epoll_pwait(
        instance => c_int, events => Events, most => c_int, time => c_int, signals => Signals
    ) -> c_int)
}

/// epoll_pwait2(2).
///
/// # Safety
/// As of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    instance: c_int,
    events: Events,
    most: c_int,
    time: Time,
    signals: Signals,
) -> c_int {
    // SAFETY: the caller's promise.
    if serves(instance, events, most)
        // SAFETY: the caller's promise.
        && let Ok(time) = unsafe { spec(time) }
    {
        // SAFETY: the caller's promise.
        return unsafe { epoll(instance, events, most, time, signals) };
    }
    real::call!(-1, fn epoll_pwait2(
        instance => c_int, events => Events, most => c_int, time => Time, signals => Signals
    ) -> c_int)
}
