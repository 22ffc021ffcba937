//! The program's calls on one connection that SDP may carry: they try, and sleep, and try again.

use crate::link::Call;
use ferriband_host::wake::{self, Until, Wait};
use ferriband_sdp_local::{
    BOX, Closing, FUTEX, Reader, Received, Sent, Service, Shared, Way, Word, Writer,
};
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
}

/// For so long a ring may stay full of which nobody reads. A reader that waits for a core has been
/// given one by then.
const FULL: Duration = Duration::from_millis(100);

/// Asked before a call sleeps, and after it has slept: when CLOCK_MONOTONIC ends the sleep, if it
/// is to end; or the error that the call has instead.
pub type Patience<'a> = dyn FnMut() -> Result<Option<Duration>, i32> + 'a;

/// send(2) and its like: `bytes` is the parts' length. It ends when all are sent, as a blocking
/// socket's does, or with what was sent before it had to give up. [`Answer::Kernel`] comes with
/// what was sent before.
pub fn send(
    call: Call<'_, '_>,
    parts: &[libc::iovec],
    bytes: u64,
    patience: &mut Patience<'_>,
) -> Answer {
    let writer = Writer(&call);
    let want = Word::Shared(Way::Out, Shared::WantRoom);
    let mut done = 0;
    let mut wants = None;
    loop {
        match writer.send(parts, done, bytes - done) {
            Sent::Bytes(sent) => {
                done += sent;
                wants = None;
                if done == bytes {
                    return Answer::Bytes(done);
                }
                continue;
            }
            Sent::ByKernel => return Answer::Kernel(done),
            Sent::KernelFull => {
                if let Err(errno) = patience() {
                    return given_up(done, errno);
                }
                call.wait_for_kernel();
                continue;
            }
            Sent::Busy => return given_up(done, libc::EAGAIN),
            Sent::Ended if done > 0 => return Answer::Bytes(done),
            // the kernel tells what has happened
            Sent::Ended => {
                let kept = || writer.take_error().map(|error| error.0);
                // a copy may have taken the kernel's meanwhile
                let error = kept().or_else(|| call.pending_error()).or_else(kept);
                return Answer::Error(error.unwrap_or(libc::EPIPE));
            }
            Sent::NoRoom => {}
        }
        let now = wake::now();
        let Some(left) = tire(call, now) else {
            continue;
        };
        let end = match patience() {
            Ok(end) => end,
            // whoever cannot wait is told by poll(2) and its like when there is room, and by one
            // that is edge-triggered only then
            Err(libc::EAGAIN) if wants.is_none() => {
                wants = Some(writer.want_room(BOX));
                continue;
            }
            Err(errno) => return given_up(done, errno),
        };
        let Some(value) = wants.take() else {
            wants = Some(writer.want_room(FUTEX));
            continue;
        };
        let again = now + left;
        let short = end.is_none_or(|end| again < end);
        let until = if short { Some(again) } else { end };
        match sleep(call, want, value, until) {
            // R is looked at again
            Some(libc::EAGAIN) if short => {}
            Some(errno) => return given_up(done, errno),
            None => {}
        }
        if let Err(errno) = patience() {
            return given_up(done, errno);
        }
    }
}

/// The ring is full at this time: how long its reader is given to read before the caller looks
/// again; None if it is to send again.
fn tire(call: Call<'_, '_>, now: Duration) -> Option<Duration> {
    let millis = |time: Duration| time.as_millis() as u64;
    let left = Writer(&call).tire(millis(now), millis(FULL));
    left.map(Duration::from_millis)
}

/// recv(2) and its like: gives what there is, at most `bytes`, the parts' length.
pub fn receive(
    call: Call<'_, '_>,
    parts: &mut [libc::iovec],
    bytes: u64,
    patience: &mut Patience<'_>,
) -> Answer {
    let reader = Reader(&call);
    let want = Word::Shared(Way::In, Shared::WantBytes);
    let mut wants = None;
    loop {
        match reader.receive(parts, 0, bytes) {
            Received::Bytes(received) => return Answer::Bytes(received),
            Received::ByKernel => return Answer::Kernel(0),
            Received::Refused(error) => return Answer::Error(error.0),
            Received::Broken(_) => return Answer::Error(libc::EIO),
            Received::Nothing => {}
        }
        let end = match patience() {
            Ok(end) => end,
            Err(errno) => return Answer::Error(errno),
        };
        let Some(value) = wants.take() else {
            wants = Some(reader.want_bytes(FUTEX));
            continue;
        };
        if let Some(errno) = sleep(call, want, value, end) {
            return Answer::Error(errno);
        }
        if let Err(errno) = patience() {
            return Answer::Error(errno);
        }
    }
}

/// After the kernel's function that [`send`] asked for.
pub fn sent_by_kernel(call: Call<'_, '_>) {
    Writer(&call).leave_kernel();
}

/// After the kernel's function that [`receive`] asked for.
pub fn received_by_kernel(call: Call<'_, '_>) {
    Reader(&call).leave_kernel();
}

/// Before the last close of the connection's socket: whether the kernel may close it, which resets
/// the connection then if TCP would. False: again after the next news.
pub fn may_close(call: Call<'_, '_>) -> bool {
    let closing = Service(&call).may_close();
    if closing == Closing::Reset {
        let _ = rustix::net::sockopt::set_socket_linger(call.socket(), Some(Duration::ZERO));
    }
    closing != Closing::Wait
}

fn given_up(done: u64, errno: i32) -> Answer {
    match done {
        0 => Answer::Error(errno),
        done => Answer::Bytes(done),
    }
}

/// Sleeps as long as the want has this value. An error, if that is to end the call.
fn sleep(call: Call<'_, '_>, want: Word, value: u64, end: Option<Duration>) -> Option<i32> {
    let until = end.map_or(Until::Woken, Until::Deadline);
    match call.link().wait(want, value, until) {
        Wait::TimedOut => Some(libc::EAGAIN),
        Wait::Interrupted => Some(libc::EINTR),
        _ => None,
    }
}
