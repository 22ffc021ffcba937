//! Whether the end of a long message waits for the next message.
//!
//! A run that the kernel cuts apart carries 62 packets of 1 KiB, so a message of 64 KiB is one run and two packets more, and those cost a system call and a way through
//! the kernel, at both ends, as the 62 do. In a stream of SENDs they go with the next one's. (The first packet of a WRITE has a header more than the others, so it begins a run in any case.) Owns: what a stream is. A program that posts one long message
//! after the other and looks for completions between them comes back; one that waits for an answer in between, or only looks at memory, is not kept waiting.
//! Must not know: who finds out that no other message comes ([`crate::engine`]'s `tails`).

/// Messages in a row after which the next is expected.
const TRUSTED: u8 = 2;
/// Messages in a row between which the program has not looked for completions: then it may not come back for long.
const UNLOOKED: u8 = 16;
/// From one message to the next, at the most, for each KiB of it: less than it takes to get there and back.
const KIB_NS: u64 = 600;
/// The same where the peer has not acknowledged what was sent before: then it cannot have answered, however slow this machine is.
const SLOW_KIB_NS: u64 = 4 * KIB_NS;

/// What a queue pair knows of its long messages.
#[derive(Debug)]
pub(super) struct Tail {
    waits: bool,
    in_a_row: u8,
    /// When the last one was posted, and what the program's polls were then.
    at: u64,
    polls: u32,
    /// Messages since it last looked for completions.
    unlooked: u8,
}

impl Default for Tail {
    fn default() -> Self {
        Tail {
            waits: false,
            in_a_row: 0,
            at: 0,
            polls: 0,
            unlooked: UNLOOKED,
        }
    }
}

impl Tail {
    /// One is kept back.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// When the last message was posted.
    pub fn at(&self) -> u64 {
        self.at
    }

    pub fn set(&mut self, waits: bool) {
        self.waits = waits;
    }

    /// A message of `bytes` bytes was posted at `now` and has an end that could wait; `polls` counts how often the program has looked for completions; `flies`: something
    /// that was sent before is not acknowledged. True if it is to wait.
    pub fn expects(&mut self, bytes: u32, now: u64, polls: u32, flies: bool) -> bool {
        let longest = if flies { SLOW_KIB_NS } else { KIB_NS };
        let at_once = now.saturating_sub(self.at) < u64::from(bytes) * longest / 1024;
        self.in_a_row = match at_once {
            true => (self.in_a_row + 1).min(TRUSTED),
            false => 0,
        };
        // it may post several between two looks
        self.unlooked = match polls != self.polls {
            true => 0,
            false => self.unlooked.saturating_add(1),
        };
        (self.at, self.polls) = (now, polls);
        self.in_a_row >= TRUSTED && self.unlooked < UNLOOKED
    }

    /// No other message came.
    pub fn was_in_vain(&mut self) {
        self.in_a_row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_a_program_that_looks_is_expected_to_go_on_and_nothing_else() {
        let step = 64 * KIB_NS;
        let run = |gap: u64, flies: bool, polls: fn(u32) -> u32| {
            let mut tail = Tail::default();
            let expected = (1..=20u32)
                .map(|i| tail.expects(64 << 10, 1_000_000 + u64::from(i) * gap, polls(i), flies));
            expected.filter(|expected| *expected).count()
        };
        assert_eq!(
            run(step / 2, false, |i| i),
            18,
            "one look between two messages"
        );
        assert_eq!(run(step / 2, false, |i| i / 4), 17, "one for four of them");
        assert_eq!(run(step, false, |i| i), 0, "time for an answer");
        assert_eq!(run(step, true, |i| i), 18, "none has come: a slow machine");
        assert_eq!(
            run(4 * step, true, |i| i),
            0,
            "the peer does not look, or is far"
        );
        assert_eq!(run(step / 2, true, |_| 0), 0, "it looks at memory alone");
        let mut tail = Tail::default();
        assert!((1..=5u64).any(|i| tail.expects(64 << 10, i * 1000, i as u32, false)));
        tail.was_in_vain();
        assert!(!tail.expects(64 << 10, 6000, 6, true));
    }
}
