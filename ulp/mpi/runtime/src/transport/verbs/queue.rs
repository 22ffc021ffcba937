//! A queue pair, what is posted to it, and what its completions are about. Must not know: who is at
//! the other end, and for what it is posted.

use ferriband_ibv::{LKey, Qp, SendFlags, SendWr, VerbsError};
use std::collections::VecDeque;
use std::sync::Arc;

/// Requests that a send queue holds.
pub const DEPTH: u32 = 128;
/// Each of so many requests has a completion at least.
pub const SIGNALED: u32 = 32;

/// A queue pair and what was posted to it.
#[derive(Default)]
pub struct Queue {
    /// None yet, or no more.
    pub qp: Option<Arc<Qp>>,
    /// By what its adapter knows the staging buffers.
    pub stage: LKey,
    posted: u32,
    completed: u32,
    unsignaled: u32,
    outstanding: VecDeque<(u32, What)>,
}

/// What a completion is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Room in the queue alone.
    Room,
    /// This staging buffer.
    Buffer(u32),
    /// So many bytes of that transfer have come, or gone.
    Moved {
        /// Index of the transfer.
        transfer: u32,
        /// Bytes.
        bytes: u32,
    },
}

impl Queue {
    /// Whether nothing is under way.
    pub fn is_quiet(&self) -> bool {
        self.posted == self.completed
    }

    /// Requests for which there is room.
    #[inline]
    pub fn room(&self) -> u32 {
        if self.qp.is_none() {
            return 0;
        }
        self.places()
    }

    #[inline]
    fn places(&self) -> u32 {
        DEPTH - self.posted.wrapping_sub(self.completed)
    }

    /// Posts a request about `what`. False if the queue is full, or there is none.
    #[inline]
    pub fn submit(
        &mut self,
        request: SendWr<'_>,
        flags: SendFlags,
        what: What,
        closing: bool,
    ) -> Result<bool, VerbsError> {
        let Some(qp) = self.qp.as_ref().filter(|_| self.places() > 0) else {
            return Ok(false);
        };
        let signaled = self.must_signal(what, closing);
        let flags = if signaled {
            flags | SendFlags::SIGNALED
        } else {
            flags
        };
        qp.post_send(&mut request.flags(flags))?;
        self.posted(what, signaled);
        Ok(true)
    }

    /// Whether the next request, about `what`, must ask for a completion.
    #[inline]
    fn must_signal(&self, what: What, closing: bool) -> bool {
        what != What::Room || closing || self.unsignaled + 1 >= SIGNALED
    }

    /// A request has been posted.
    #[inline]
    fn posted(&mut self, what: What, signaled: bool) {
        self.posted = self.posted.wrapping_add(1);
        if signaled {
            self.unsignaled = 0;
            self.outstanding.push_back((self.posted, what));
        } else {
            self.unsignaled += 1;
        }
    }

    /// The oldest request that asked for it has completed, and with it all before it.
    #[inline]
    pub fn completed(&mut self) -> Option<What> {
        let (count, what) = self.outstanding.pop_front()?;
        self.completed = count;
        Some(what)
    }

    /// The number of the last request that was posted.
    pub fn last_posted(&self) -> u32 {
        self.posted
    }

    /// Whether the request of that number is known to have completed.
    pub fn has_completed(&self, number: u32) -> bool {
        self.completed.wrapping_sub(number) < 1 << 31
    }

    /// Requests that are known to have completed; it wraps.
    pub fn has_done(&self) -> u32 {
        self.completed
    }

    /// Whether a completion is to come.
    pub fn awaits_completion(&self) -> bool {
        !self.outstanding.is_empty()
    }

    /// Whether requests at the end of the queue would complete without a word.
    pub fn has_silent(&self) -> bool {
        self.unsignaled != 0
    }
}

/// A PSN to begin with. It need not be secret, only not the same each time, so that packets of a
/// former connection do not fit.
pub fn first_psn(number: u32) -> u32 {
    let mut random = [0_u8; 4];
    // A failure leaves zeros, which is a PSN like any other.
    let _ = std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut random));
    (u32::from_ne_bytes(random) ^ number) & 0x00ff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_frees_all_before_it() {
        let mut queue = Queue::default();
        for number in 1..=40 {
            let signaled = queue.must_signal(What::Room, false);
            assert_eq!(signaled, number % SIGNALED == 0);
            queue.posted(What::Room, signaled);
        }
        assert_eq!(queue.places(), DEPTH - 40);
        assert!(queue.has_silent());
        assert!(queue.must_signal(What::Buffer(3), false));
        queue.posted(What::Buffer(3), true);
        assert_eq!(queue.last_posted(), 41);
        assert!(!queue.has_completed(32));
        assert_eq!(queue.completed(), Some(What::Room));
        assert!(queue.has_completed(32) && !queue.has_completed(33));
        assert_eq!(queue.places(), DEPTH - 9);
        assert_eq!(queue.completed(), Some(What::Buffer(3)));
        assert!(queue.posted == queue.completed && !queue.has_silent());
        assert_eq!(
            queue.completed(),
            None,
            "a completion that nobody asked for"
        );
    }
}
