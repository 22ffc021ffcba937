//! The program's calls on one connection that SDP may carry: they try, and say where the thread is
//! to sleep, and try again.

use crate::link::Call;
use crate::order;
use crate::raw::system_call;
use crate::ready::{full, kernel};
use crate::spin::{self, For, Vain};
use ferriband_host::wake;
pub use ferriband_host::wake::Wait;
use ferriband_sdp_local::{
    BOX, Closing, Errno, FUTEX, Memory, Reader, Received, Sent, Service, Shared, Way, Word, Writer,
};
use ferriband_sdp_proto::change::Phase;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// So many bytes were moved.
    Bytes(u64),
    /// The kernel's function is to be called for what lies behind so many bytes of the program's,
    /// as the program has called it; then [`sent_by_kernel`] or [`received_by_kernel`].
    Kernel(u64),
    /// An error, by its number.
    Error(i32),
    /// The thread is to sleep; then the call goes on with its progress.
    Sleep(Nap),
}

/// For so long a ring may stay full of which nobody reads. A reader that waits for a core has been
/// given one by then.
const FULL: Duration = Duration::from_millis(100);

/// Asked before a call sleeps, and after it has slept: when CLOCK_MONOTONIC ends the sleep, if it
/// is to end; or the error that the call has instead.
pub type Patience<'a> = dyn FnMut() -> Result<Option<Duration>, i32> + 'a;

/// Where a call's thread sleeps before the call goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nap {
    /// By futex.
    Word {
        /// The word. It stays as long as the call is open.
        at: *const AtomicU32,
        /// As long as it is this.
        value: u32,
        /// Until this time of CLOCK_MONOTONIC.
        until: Option<Duration>,
    },
    /// Until the kernel takes bytes to send on the socket, or has an error.
    Kernel,
}

impl Nap {
    /// Sleeps, and cannot be cancelled.
    pub(crate) fn sleep(self, call: Call<'_, '_>) -> Wait {
        match self {
            Nap::Word { at, value, until } => {
                let until = kernel::spec(until);
                let until = until.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
                // SAFETY: the call is open; the time lives in this frame.
                unsafe { Self::sleep_on(at, value, until) }
            }
            Nap::Kernel => {
                call.wait_for_kernel();
                Wait::Woken
            }
        }
    }

    /// Sleeps on a word, by one system call. The frame owns nothing: a thread may be cancelled in it.
    ///
    /// # Safety
    /// The word is there as long as the thread sleeps; NULL or a time that may be read.
    #[inline(never)]
    pub unsafe fn sleep_on(at: *const AtomicU32, value: u32, until: *const libc::timespec) -> Wait {
        let anybody = libc::FUTEX_BITSET_MATCH_ANY as u32 as isize;
        let arguments = [
            at as isize,
            libc::FUTEX_WAIT_BITSET as isize,
            value as isize,
            until as isize,
            0,
            anybody,
        ];
        // SAFETY: the caller's promise.
        match unsafe { system_call(libc::SYS_futex, arguments) } {
            Ok(_) => Wait::Woken,
            Err(rustix::io::Errno::INTR) => Wait::Interrupted,
            Err(rustix::io::Errno::TIMEDOUT) => Wait::TimedOut,
            Err(_) => Wait::Changed,
        }
    }
}

/// What a call knows from one of its sleeps to the next. Like the call it has no destructor: a
/// thread that is cancelled in its sleep leaves nothing behind but a want, which costs the peer one
/// wake-up.
#[derive(Clone, Copy, Default, Debug)]
pub struct Progress {
    /// Bytes that were sent.
    done: u64,
    /// The want's value.
    wants: Option<u64>,
    vain: Option<Vain>,
    /// The sleep ends before the call's own time does.
    is_short: bool,
    woken: Option<Wait>,
}

impl Progress {
    /// Bytes that were sent.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// The thread has slept as [`Answer::Sleep`] has said, and the call goes on.
    pub fn slept(&mut self, woken: Wait) {
        self.woken = Some(woken);
    }

    /// What has become of the sleep. An error, if it is to end the call.
    pub(crate) fn wake_up(&mut self, patience: &mut Patience<'_>) -> Option<i32> {
        let woken = self.woken.take()?;
        if let Some(vain) = self.vain.take() {
            vain.slept();
        }
        match woken {
            Wait::TimedOut if !self.is_short => Some(libc::EAGAIN),
            Wait::Interrupted => Some(libc::EINTR),
            _ => patience().err(),
        }
    }

    /// The next sleep, as long as a want has this value.
    fn sleep(&self, call: Call<'_, '_>, want: Word, value: u64, until: Option<Duration>) -> Answer {
        let at = std::ptr::from_ref(call.link().futex(want));
        let value = value as u32;
        Answer::Sleep(Nap::Word { at, value, until })
    }
}

/// send(2) and its like: `bytes` is the parts' length. It ends when all are sent, as a blocking
/// socket's does, or with what was sent before it had to give up. [`Answer::Kernel`] comes with
/// what was sent before. After [`Answer::Sleep`] it is called again with its progress.
pub fn send(
    call: Call<'_, '_>,
    parts: &[libc::iovec],
    bytes: u64,
    progress: &mut Progress,
    patience: &mut Patience<'_>,
) -> Answer {
    let writer = Writer(&call);
    if let Some(errno) = progress.wake_up(patience) {
        return given_up(progress.done, errno);
    }
    loop {
        let done = progress.done;
        match writer.send(parts, done, bytes - done) {
            Sent::Bytes(sent) => {
                spin::moved();
                progress.done += sent;
                progress.wants = None;
                if progress.done == bytes {
                    return Answer::Bytes(bytes);
                }
                continue;
            }
            Sent::ByKernel => return Answer::Kernel(done),
            Sent::KernelFull => {
                return match patience() {
                    Ok(_) => Answer::Sleep(Nap::Kernel),
                    Err(errno) => given_up(done, errno),
                };
            }
            Sent::Busy => return given_up(done, libc::EAGAIN),
            Sent::Ended if done > 0 => return Answer::Bytes(done),
            // the kernel tells what has happened
            Sent::Ended => return Answer::Error(take_error(call).unwrap_or(libc::EPIPE)),
            Sent::NoRoom => {}
        }
        if let Some(answer) = wait_for_room(call, progress, patience) {
            return answer;
        }
    }
}

/// The ring is full. None: the call sends again.
fn wait_for_room(
    call: Call<'_, '_>,
    progress: &mut Progress,
    patience: &mut Patience<'_>,
) -> Option<Answer> {
    let writer = Writer(&call);
    let now = wake::now();
    let left = tire(call, now)?;
    let end = match patience() {
        Ok(end) => end,
        // whoever cannot wait is told by poll(2) and its like when there is room, and by one
        // that is edge-triggered only then
        Err(libc::EAGAIN) if progress.wants.is_none() => {
            progress.wants = Some(writer.want_room(BOX));
            full::watch(call.link());
            return None;
        }
        Err(errno) => return Some(given_up(progress.done, errno)),
    };
    let Some(value) = progress.wants.take() else {
        progress.vain = spin::look(For::Room, end, || writer.has_room());
        if progress.vain.is_some() {
            progress.wants = Some(writer.want_room(FUTEX));
        }
        return None;
    };
    // then R is looked at again
    let again = now + left;
    progress.is_short = end.is_none_or(|end| again < end);
    let until = if progress.is_short { Some(again) } else { end };
    let want = Word::Shared(Way::Out, Shared::WantRoom);
    Some(progress.sleep(call, want, value, until))
}

/// The ring is full at this time: how long its reader is given to read before the caller looks
/// again; None if it is to send again.
fn tire(call: Call<'_, '_>, now: Duration) -> Option<Duration> {
    let millis = |time: Duration| time.as_millis() as u64;
    let left = Writer(&call).tire(millis(now), millis(FULL));
    left.map(Duration::from_millis)
}

/// As of this time, for who waits for room without a call that sends: how much longer the reader of
/// a full ring is given. None: nobody waits for room, or there is some.
pub fn tire_for_waiters(call: Call<'_, '_>, now: Duration) -> Option<Duration> {
    let writer = Writer(&call);
    let wants = call.load(Word::Shared(Way::Out, Shared::WantRoom));
    let is_full = writer.phase() == Phase::Sdp && !writer.has_room();
    (wants & BOX != 0 && is_full).then(|| tire(call, now))?
}

/// recv(2) and its like: gives what there is, at most `bytes`, the parts' length. After
/// [`Answer::Sleep`] it is called again with its progress.
pub fn receive(
    call: Call<'_, '_>,
    parts: &mut [libc::iovec],
    bytes: u64,
    progress: &mut Progress,
    patience: &mut Patience<'_>,
) -> Answer {
    let reader = Reader(&call);
    if let Some(errno) = progress.wake_up(patience) {
        return Answer::Error(errno);
    }
    loop {
        match reader.receive(parts, 0, bytes) {
            Received::Bytes(received) => {
                spin::moved();
                return Answer::Bytes(received);
            }
            Received::ByKernel => return Answer::Kernel(0),
            Received::Refused(error) => return Answer::Error(error.0),
            Received::Broken(_) => return Answer::Error(libc::EIO),
            Received::Nothing => {}
        }
        if let Some(answer) = wait_for_bytes(call, false, progress, patience) {
            return answer;
        }
    }
}

/// Nothing has come, or, if there are `some` bytes, too little. None: the call looks again.
pub(crate) fn wait_for_bytes(
    call: Call<'_, '_>,
    some: bool,
    progress: &mut Progress,
    patience: &mut Patience<'_>,
) -> Option<Answer> {
    let reader = Reader(&call);
    let end = match patience() {
        Ok(end) => end,
        Err(errno) => return Some(Answer::Error(errno)),
    };
    if let Some(value) = progress.wants.take() {
        let want = Word::Shared(Way::In, Shared::WantBytes);
        return Some(progress.sleep(call, want, value, end));
    }
    // before SDP carries the direction the kernel's bytes are waited for as well
    let looks = !some && reader.phase() == Phase::Sdp;
    if looks {
        progress.vain = spin::look(For::Bytes, end, || reader.has_bytes());
    }
    if progress.vain.is_some() || !looks {
        progress.wants = Some(reader.want_bytes(FUTEX));
    }
    None
}

/// All steps of a call, with sleeps that cannot be cancelled.
pub fn run(call: Call<'_, '_>, mut step: impl FnMut(&mut Progress) -> Answer) -> Answer {
    let mut progress = Progress::default();
    loop {
        match step(&mut progress) {
            Answer::Sleep(nap) => progress.slept(nap.sleep(call)),
            answer => return answer,
        }
    }
}

/// After the kernel's function that [`send`] asked for.
pub fn sent_by_kernel(call: Call<'_, '_>) {
    order::by_kernel();
    Writer(&call).leave_kernel();
}

/// After the kernel's function that [`receive`] asked for.
pub fn received_by_kernel(call: Call<'_, '_>) {
    Reader(&call).leave_kernel();
}

/// Before the last close of the connection's socket: whether the kernel may close it, which resets
/// the connection then if TCP would: not where somebody else may hold it. False: again after the
/// next news.
pub fn may_close(call: Call<'_, '_>) -> bool {
    let closing = Service(&call).may_close();
    match closing {
        Closing::Reset if !call.link().is_given_away() => {
            let _ = rustix::net::sockopt::set_socket_linger(call.socket(), Some(Duration::ZERO));
        }
        Closing::Close => end_first(call),
        Closing::Reset | Closing::Wait => {}
    }
    closing != Closing::Wait
}

/// Before the kernel closes the socket of a connection by queue pairs, of which nothing is unread:
/// it sends the stream's end at once.
///
/// The peer's side goes back to TCP when it hears that this one has left, and what it sends then
/// may arrive before the kernel closes the socket, which is a reset: bytes that this side's program
/// has read, and the number in front of them. A reset behind the end leaves the stream whole.
pub fn end_first(call: Call<'_, '_>) {
    let link = call.link();
    // what is TCP's for good is closed as any, and whoever else has the socket may go on with it
    if !link.is_far() || link.is_given_away() || Reader(&call).phase() == Phase::Done {
        return;
    }
    let lingers = rustix::net::sockopt::socket_linger(call.socket());
    // the program wants a reset
    if lingers != Ok(Some(Duration::ZERO)) {
        let _ = rustix::net::shutdown(call.socket(), rustix::net::Shutdown::Write);
    }
}

/// The connection's error, which the program has not had: that of a copy, or the kernel's. It is
/// told once.
pub fn take_error(call: Call<'_, '_>) -> Option<i32> {
    let writer = Writer(&call);
    let kept = writer.take_error().map(|error| error.0);
    // a copy may have taken the kernel's meanwhile
    let of_copy = || writer.take_error_of_copy().map(|error| error.0);
    kept.or_else(|| call.pending_error()).or_else(of_copy)
}

/// The kernel has told an error of the connection's to a call that has answered with bytes: the
/// program's next call is told.
pub fn tell_again(call: Call<'_, '_>, errno: i32) {
    let of_path = matches!(
        errno,
        libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH
    );
    if of_path || matches!(errno, libc::ECONNRESET | libc::EPIPE) {
        Writer(&call).put_error_back(Errno(errno));
    }
}

fn given_up(done: u64, errno: i32) -> Answer {
    match done {
        0 => Answer::Error(errno),
        done => Answer::Bytes(done),
    }
}
