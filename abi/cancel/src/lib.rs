//! Where a thread that is cancelled (`pthread_cancel`, deferred, which is the default) ends inside
//! the libraries, and where it does not.
//!
//! glibc ends a thread by unwinding its stack from within a system call. No Rust frame that has
//! destructors or catches panics may be unwound like that, so:
//!
//! * a call that may wait runs its body again and again by [`waiting`], and between two runs the
//!   thread sleeps in a frame that owns nothing. This is where it ends: at the call's beginning,
//!   and while it sleeps. What the call has done, and what others know of it, is kept in the
//!   [`Sleep`], and dropped by a thread that ends;
//! * everywhere else there is no cancellation point: the C library's are replaced by system calls
//!   ([`calls`]), and its functions that have some inside run [`undisturbed`].
//!
//! Asynchronous cancellation may end a thread between any two instructions. The calls that wait
//! bear it, and those that are [`shielded`]: the thread can be cancelled in frames alone that own
//! nothing and catch nothing. The others do not, as little as rdma-core's.
//!
//! Owns: the sleep. Must not know: what is waited for. Each library has its own copy.

mod calls;

use ferriband_sanitizer::Inside;
use libc::{c_int, c_long, c_short, c_void, pollfd};
use std::any::Any;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// What a thread sleeps on, and how it ended. It has no destructor: a cancelled thread's stack is
/// left without running any.
pub struct Sleep {
    fds: ManuallyDrop<Vec<pollfd>>,
    until: Option<Instant>,
    /// When the call's own time-out ends, once that was asked for.
    deadline: Option<Option<Instant>>,
    /// Both, as ppoll(2) takes them.
    first: *mut pollfd,
    fds_count: libc::nfds_t,
    time: Option<libc::timespec>,
    /// The descriptor that a count is to be read from, or -1.
    counter: RawFd,
    /// What was read; 0 for nothing.
    count: u64,
    kept: ManuallyDrop<Option<Box<dyn Any>>>,
    /// An errno, or 0.
    error: c_int,
}

impl Sleep {
    fn new() -> Self {
        Sleep {
            fds: ManuallyDrop::new(Vec::new()),
            until: None,
            deadline: None,
            first: std::ptr::null_mut(),
            fds_count: 0,
            time: None,
            counter: -1,
            count: 0,
            kept: ManuallyDrop::new(None),
            error: 0,
        }
    }

    /// The next sleep is for one of these events at `fd`, which is added to those that were named
    /// already.
    pub fn on(&mut self, fd: RawFd, events: c_short) {
        self.fds.push(pollfd {
            fd,
            events,
            revents: 0,
        });
    }

    /// The next sleep lasts no longer than this; without it, as long as nothing happens.
    pub fn until(&mut self, at: Instant) {
        self.until = Some(at);
    }

    /// When a time-out of the call ends that began when this was asked for the first time; None if
    /// it does not.
    pub fn deadline(&mut self, timeout: Option<Duration>) -> Option<Instant> {
        let end = || timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        *self.deadline.get_or_insert_with(end)
    }

    /// The next sleep is one readv(2) of a count from an eventfd, as its O_NONBLOCK and the
    /// handlers of signals have it. [`Sleep::take_count`] says how it ended. A cancelled thread
    /// gives the count back.
    pub fn on_count(&mut self, counter: RawFd) {
        self.counter = counter;
    }

    /// True if the last sleep has read a count, which is the caller's from here on; false before
    /// it.
    ///
    /// # Errors
    /// What readv(2) said.
    pub fn take_count(&mut self) -> Result<bool, c_int> {
        self.take_error()?;
        Ok(std::mem::take(&mut self.count) != 0)
    }

    /// Keeps what the call has done so far, and what others know of it, until the body takes it
    /// again; a cancelled thread drops it.
    pub fn keep<T: Any>(&mut self, value: Box<T>) {
        *self.kept = Some(value);
    }

    /// What the body kept when it ran before; None when it runs for the first time.
    pub fn take_kept<T: Any>(&mut self) -> Option<Box<T>> {
        self.kept.take().and_then(|kept| kept.downcast().ok())
    }

    /// The descriptors of the last sleep, with what happened at them; none before the first one.
    ///
    /// # Errors
    /// What ppoll(2) said.
    pub fn take_ready(&mut self) -> Result<Vec<pollfd>, c_int> {
        let ready = std::mem::take(&mut *self.fds);
        self.take_error()?;
        Ok(ready)
    }

    fn take_error(&mut self) -> Result<(), c_int> {
        match std::mem::take(&mut self.error) {
            0 => Ok(()),
            error => Err(error),
        }
    }

    /// What is not to be done in the frame that sleeps.
    fn prepare(&mut self) {
        self.first = self.fds.as_mut_ptr();
        self.fds_count = self.fds.len() as libc::nfds_t;
        self.time = self.until.map(time_left);
    }

    /// Sleeps, as cancellable as the thread was before the call.
    ///
    /// # Safety
    /// `own` is a sleep that nobody else has.
    #[inline(never)]
    unsafe fn sleep(own: *mut Self, state: c_int) {
        let mut buffer = MaybeUninit::uninit();
        // SAFETY: the buffer lies in this frame until it is taken out below, and what it points to
        // in a frame above.
        unsafe { _pthread_cleanup_push(buffer.as_mut_ptr(), cancelled, own.cast()) };
        set_state(state);
        // SAFETY: the caller's promise, as in all of what follows.
        let result = match unsafe { (*own).counter } {
            // SAFETY: as above.
            -1 => unsafe { Self::poll(own, state) },
            // SAFETY: as above.
            counter => unsafe { Self::read(own, counter, state) },
        };
        set_state(PTHREAD_CANCEL_DISABLE);
        // SAFETY: the buffer that was put in above.
        unsafe { _pthread_cleanup_pop(buffer.as_mut_ptr(), 0) };
        // SAFETY: as above; nobody else looks at it any more.
        let own = unsafe { &mut *own };
        if result < 0 {
            // SAFETY: glibc gives a valid pointer to the calling thread's errno.
            own.error = unsafe { *libc::__errno_location() };
        }
        own.counter = -1;
        own.until = None;
    }

    /// readv(2) of a count. Without cancellation it is the system call itself: before glibc 2.41
    /// the C library's own lets an asynchronous cancellation through that is under way.
    ///
    /// # Safety
    /// As for [`Sleep::sleep`].
    unsafe fn read(own: *mut Self, counter: RawFd, state: c_int) -> isize {
        let count = libc::iovec {
            // SAFETY: the caller's promise.
            iov_base: unsafe { &raw mut (*own).count }.cast(),
            iov_len: size_of::<u64>(),
        };
        let list = &raw const count;
        match state {
            // SAFETY: eight bytes, which live during the call.
            PTHREAD_CANCEL_DISABLE => unsafe {
                libc::syscall(libc::SYS_readv, counter, list, 1 as c_long) as isize
            },
            // SAFETY: as above.
            _ => unsafe { readv(counter, list, 1) },
        }
    }

    /// ppoll(2), as [`Sleep::read`].
    ///
    /// # Safety
    /// As for [`Sleep::sleep`].
    unsafe fn poll(own: *mut Self, state: c_int) -> isize {
        // SAFETY: the caller's promise.
        let (first, count) = unsafe { ((*own).first, (*own).fds_count) };
        // SAFETY: as above.
        let time: *mut libc::timespec = match unsafe { &mut (*own).time } {
            Some(time) => time,
            None => std::ptr::null_mut(),
        };
        let mask = std::ptr::null::<libc::sigset_t>();
        match state {
            // SAFETY: descriptions with their count; the time lives during the call, and no mask
            // has no length.
            PTHREAD_CANCEL_DISABLE => unsafe {
                libc::syscall(libc::SYS_ppoll, first, count, time, mask, 0 as c_long) as isize
            },
            // SAFETY: as above.
            _ => unsafe { ppoll(first, count, time, mask) as isize },
        }
    }
}

/// What the program's handlers of signals do to a call that waits (`SA_RESTART`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handlers {
    /// The call goes on.
    Restart,
    /// It ends with EINTR.
    Interrupt,
    /// There are some of both kinds.
    Both,
}

/// Which handlers the program has. A ppoll(2) ends whatever handler ran, where a read(2) goes on
/// behind some: after the former this says what the latter would have done.
pub fn handlers() -> Handlers {
    let (mut restart, mut interrupt) = (false, false);
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: plain data, which the call fills.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: nothing is set, and the room is of the right kind.
        let known = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) } == 0;
        if known && ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction) {
            match action.sa_flags & libc::SA_RESTART {
                0 => interrupt = true,
                _ => restart = true,
            }
        }
    }
    match (restart, interrupt) {
        (true, true) => Handlers::Both,
        (true, false) => Handlers::Restart,
        // with none, the one that ran has taken itself away
        (false, _) => Handlers::Interrupt,
    }
}

/// How long it is until then, as the kernel has times.
pub fn time_left(until: Instant) -> libc::timespec {
    let left = until.saturating_duration_since(Instant::now());
    libc::timespec {
        tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: left.subsec_nanos().into(),
    }
}

/// Runs `body` until it gives a result. Whenever it gives none, the thread first sleeps on what
/// `body` has named. `body` ends no other way than by returning: it has the boundary in it that
/// stops panics. Whoever calls this owns nothing either, and calls nothing else, up to the C
/// program: `extern "C-unwind"`.
#[inline(always)]
pub fn waiting<R: Copy, F: FnMut(&mut Sleep) -> Option<R>>(mut body: F) -> R {
    const { assert!(!std::mem::needs_drop::<F>()) };
    let mut sleep = Sleep::new();
    // SAFETY: no arguments. A thread that was cancelled before ends here, although it need not
    // sleep.
    unsafe { pthread_testcancel() };
    let before = Cancelability::none();
    loop {
        let mut result = None;
        run(&mut || result = body(&mut sleep));
        if let Some(result) = result {
            drop_all(&mut sleep);
            before.restore();
            return result;
        }
        sleep.prepare();
        // SAFETY: it is this frame's own.
        unsafe { Sleep::sleep(&raw mut sleep, before.state) };
    }
}

/// Runs `body`, which ends no other way than by returning, while the thread cannot be cancelled,
/// not even where cancellation is asynchronous. It may end when the body has returned: who calls
/// this is an `extern "C-unwind"` function, too.
#[inline(always)]
pub fn shielded<R: Copy>(body: impl FnOnce() -> R) -> R {
    let mut result = MaybeUninit::uninit();
    let mut body = ManuallyDrop::new(body);
    let before = Cancelability::none();
    run(&mut || {
        // SAFETY: it is taken once: `run` calls this once.
        let body = unsafe { ManuallyDrop::take(&mut body) };
        result.write(body());
    });
    before.restore();
    // SAFETY: the body has returned.
    unsafe { result.assume_init() }
}

/// Calls `body`, with a frame of its own. A frame that stops panics, or drops something, can be
/// left from its calls only, and by asynchronous cancellation not even from them: so none of these
/// is that of a caller who may be cancelled.
#[inline(never)]
extern "C" fn run<F: FnMut()>(body: &mut F) {
    body();
}

/// Whether and how a thread can be cancelled.
#[derive(Clone, Copy)]
struct Cancelability {
    state: c_int,
    kind: c_int,
}

impl Cancelability {
    /// It cannot, from here on: what it was before. The kind comes first: before glibc 2.41 a
    /// signal that is under way looks at nothing else.
    #[inline(always)]
    fn none() -> Self {
        let mut kind = 0;
        // SAFETY: a known kind, and room for the one before.
        unsafe { pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &raw mut kind) };
        let state = set_state(PTHREAD_CANCEL_DISABLE);
        Cancelability { state, kind }
    }

    /// As it was before. A thread whose cancellation is asynchronous may end here.
    #[inline(always)]
    fn restore(self) {
        set_state(self.state);
        if self.kind != PTHREAD_CANCEL_DEFERRED {
            let mut before = 0;
            // SAFETY: the kind that it was, and room for the one before.
            unsafe { pthread_setcanceltype(self.kind, &raw mut before) };
        }
    }
}

/// Sets whether the thread can be cancelled: what it was before.
#[inline(always)]
fn set_state(state: c_int) -> c_int {
    let mut before = 0;
    // SAFETY: a state of this function's, and room for the one before.
    unsafe { pthread_setcancelstate(state, &raw mut before) };
    before
}

/// Ends what a sleep of a cancelled thread leaves.
extern "C" fn cancelled(sleep: *mut c_void) {
    // SAFETY: `Sleep::sleep` has given its own address, and its frames are there until this
    // returns.
    let sleep = unsafe { &mut *sleep.cast::<Sleep>() };
    if sleep.count != 0 {
        // before glibc 2.41 a thread may end behind the system call, with the count in its hands
        let count = (&raw const sleep.count).cast();
        // SAFETY: eight bytes. The counter cannot be full, nor the descriptor closed: another
        // thread waits for both.
        unsafe { libc::write(sleep.counter, count, size_of::<u64>()) };
    }
    drop_all(sleep);
}

/// A panic here is a bug that nothing can be done about: it ends the process.
#[inline(never)]
extern "C" fn drop_all(sleep: &mut Sleep) {
    if sleep.kept.is_some() || sleep.fds.capacity() != 0 {
        let _inside = Inside::enter();
        sleep.kept.take();
        drop(std::mem::take(&mut *sleep.fds));
    }
}

/// Runs `body`, a function of the C library that has cancellation points inside, while the thread
/// cannot be cancelled.
pub fn undisturbed<R>(body: impl FnOnce() -> R) -> R {
    let state = set_state(PTHREAD_CANCEL_DISABLE);
    let result = body();
    set_state(state);
    result
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;
const PTHREAD_CANCEL_DEFERRED: c_int = 0;

/// glibc's record of a handler (`struct _pthread_cleanup_buffer`).
#[repr(C)]
struct CleanupBuffer {
    routine: Option<extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
    cancel_type: c_int,
    previous: *mut CleanupBuffer,
}

unsafe extern "C" {
    fn _pthread_cleanup_push(
        buffer: *mut CleanupBuffer,
        routine: extern "C" fn(*mut c_void),
        argument: *mut c_void,
    );
    fn _pthread_cleanup_pop(buffer: *mut CleanupBuffer, runs: c_int);
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

// The C library's cancellation points that a thread may end in.
unsafe extern "C-unwind" {
    fn pthread_testcancel();
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
    fn ppoll(
        fds: *mut pollfd,
        count: libc::nfds_t,
        timeout: *const libc::timespec,
        mask: *const libc::sigset_t,
    ) -> c_int;
    fn readv(fd: c_int, to: *const libc::iovec, count: c_int) -> isize;
}
