//! Calls that look at bytes and leave them, or take them and throw them away.
//!
//! Owns: how long a look ahead waits, and where bytes go that nobody wants. Must not know: where
//! the bytes are.

use super::Process;
use super::memory::{self, Access};
use super::moving::FEW;
use crate::calls::{self, Answer, Patience, Progress};
use crate::link::Call;
use crate::parts::{ahead, length};
use crate::segment::RING_BYTES;
use crate::table::Pin;
use ferriband_sdp_local::{Memory, Own, Reader, Received, Word};
use std::os::fd::AsRawFd;

impl Process {
    /// recv(2) with MSG_PEEK: what a receive would have, of which `least` bytes are waited for.
    pub(super) fn look_ahead(
        &'static self,
        pin: &Pin<'_>,
        call: Call<'_, 'static>,
        parts: &mut [libc::iovec],
        flags: i32,
        progress: &mut Progress,
        patience: &mut Patience<'_>,
    ) -> Answer {
        let bytes = length(parts);
        // a ring and the rest in TCP ahead of it: more is not waited for
        let all = flags & libc::MSG_WAITALL != 0;
        let least = if all { bytes.min(RING_BYTES) } else { 1 };
        // the ring has no more, and the kernel looks at its part of the memory itself
        let most = bytes.min(RING_BYTES.max(FEW));
        let there = Reader(&call).in_ring().map_or(most, |there| there.max(FEW));
        let looked = match memory::is_good(parts, there.min(most), Access::Write) {
            true => look(call, &mut ahead(parts, most), least, progress, patience),
            false => None,
        };
        match looked {
            Some(answer) => answer,
            // the kernel has it all
            None => match self.bring_back_received(pin, call.socket().as_raw_fd(), flags) {
                Ok(()) => {
                    Reader(&call).enter_kernel();
                    Answer::Kernel(0)
                }
                Err(errno) => Answer::Error(errno),
            },
        }
    }
}

/// None: the kernel is to look, once the connection is TCP again.
fn look(
    call: Call<'_, '_>,
    parts: &mut [libc::iovec],
    least: u64,
    progress: &mut Progress,
    patience: &mut Patience<'_>,
) -> Option<Answer> {
    let reader = Reader(&call);
    let bytes = length(parts);
    let woken = progress.wake_up(patience);
    loop {
        let found = match reader.peek(parts, bytes)? {
            Received::Bytes(found) if found == 0 || found >= least => {
                return Some(Answer::Bytes(found));
            }
            Received::Bytes(found) => found,
            Received::ByKernel => return Some(Answer::Kernel(0)),
            Received::Refused(error) => return Some(Answer::Error(error.0)),
            Received::Broken(_) => return Some(Answer::Error(libc::EIO)),
            Received::Nothing => 0,
        };
        let over = |errno| match found {
            0 => Some(Answer::Error(errno)),
            found => Some(Answer::Bytes(found)),
        };
        // no more will come
        if found > 0 && call.load(Word::Own(Own::Ended)) != 0 {
            return over(0);
        }
        if let Some(errno) = woken {
            return over(errno);
        }
        match calls::wait_for_bytes(call, found > 0, progress, patience) {
            Some(Answer::Error(errno)) => return over(errno),
            Some(answer) => return Some(answer),
            None => {}
        }
    }
}
