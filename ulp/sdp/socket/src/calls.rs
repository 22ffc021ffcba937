//! The program's calls on one connection that SDP may carry: they try, and sleep, and try again.

use crate::link::Call;
use ferriband_host::wake::{Until, Wait};
use ferriband_sdp_local::{BOX, FUTEX, Reader, Received, Sent, Shared, Way, Word, Writer};
use std::time::Duration;

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// So many bytes were moved.
    Bytes(u64),
    /// The kernel's function is to be called as the program has called it; then
    /// [`sent_by_kernel`] or [`received_by_kernel`].
    Kernel,
    /// An error, by its number.
    Error(i32),
}

/// How long a call may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Not at all.
    None,
    /// As long as it takes, or until CLOCK_MONOTONIC shows this.
    Until(Option<Duration>),
}

/// send(2) and its like: `bytes` is the parts' length. It ends when all are sent, as a blocking
/// socket's does, or with what was sent before it had to give up.
pub fn send(call: Call<'_, '_>, parts: &[libc::iovec], bytes: u64, patience: Patience) -> Answer {
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
            Sent::ByKernel if done == 0 => return Answer::Kernel,
            Sent::ByKernel => {
                // the rest is another call's: what the direction went by has changed
                writer.leave_kernel();
                return Answer::Bytes(done);
            }
            Sent::KernelFull if patience == Patience::None => return given_up(done, libc::EAGAIN),
            Sent::KernelFull => {
                call.wait_for_kernel();
                continue;
            }
            Sent::Ended if done > 0 => return Answer::Bytes(done),
            // the kernel tells what has happened
            Sent::Ended => return Answer::Error(call.pending_error().unwrap_or(libc::EPIPE)),
            Sent::NoRoom => {}
        }
        let end = match patience {
            // whoever cannot wait is told by poll(2) and its like when there is room, and by one that
            // is edge-triggered only then
            Patience::None if wants.is_none() => {
                wants = Some(writer.want_room(BOX));
                continue;
            }
            Patience::None => return given_up(done, libc::EAGAIN),
            Patience::Until(end) => end,
        };
        let Some(value) = wants.take() else {
            wants = Some(writer.want_room(FUTEX));
            continue;
        };
        if let Some(errno) = sleep(call, want, value, end) {
            return given_up(done, errno);
        }
    }
}

/// recv(2) and its like: gives what there is, at most `bytes`, the parts' length.
pub fn receive(
    call: Call<'_, '_>,
    parts: &mut [libc::iovec],
    bytes: u64,
    patience: Patience,
) -> Answer {
    let reader = Reader(&call);
    let want = Word::Shared(Way::In, Shared::WantBytes);
    let mut wants = None;
    loop {
        match reader.receive(parts, 0, bytes) {
            Received::Bytes(received) => return Answer::Bytes(received),
            Received::ByKernel => return Answer::Kernel,
            Received::Refused(error) => return Answer::Error(error.0),
            Received::Broken(_) => return Answer::Error(libc::EIO),
            Received::Nothing => {}
        }
        let Patience::Until(end) = patience else {
            return Answer::Error(libc::EAGAIN);
        };
        let Some(value) = wants.take() else {
            wants = Some(reader.want_bytes(FUTEX));
            continue;
        };
        if let Some(errno) = sleep(call, want, value, end) {
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
