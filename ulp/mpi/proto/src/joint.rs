//! A long message between ranks of a host that both sides copy: the receiver reads chunks from its beginning on while the sender, if it waits anyway, writes chunks from its end on.
//!
//! Owns: the two words by which they agree. Must not know: how the bytes move. The receiver opens a job in its own area ([`crate::segment::area::JOINT`]), with one message at a
//! time; each chunk belongs to who takes it out of the word, the receiver at `next`, the sender at `end`, so nobody waits for a sender that does something else. The job is over when
//! nothing is left between the two and the sender has said of each of its chunks that it is written ([`Done`]); only then does the memory belong to the receiver's program.

/// What is left of a job: chunks from `next` up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Number of the job among its receiver's: a word of an older one is not mistaken for this one's.
    pub number: u32,
    /// The first chunk that nobody has taken.
    pub next: u16,
    /// One more than the last such chunk.
    pub end: u16,
}

/// Chunks of a job at most.
pub const MOST_CHUNKS: usize = u16::MAX as usize;

impl Left {
    /// What a word says.
    pub fn of(word: u64) -> Self {
        Self {
            number: (word >> 32) as u32,
            next: (word >> 16) as u16,
            end: word as u16,
        }
    }

    /// As a word.
    pub fn word(self) -> u64 {
        u64::from(self.number) << 32 | u64::from(self.next) << 16 | u64::from(self.end)
    }

    /// Whether nothing is left.
    pub fn is_over(self) -> bool {
        self.next >= self.end
    }

    /// The receiver's next chunk, and what is left then.
    pub fn from_front(self) -> Option<(usize, Self)> {
        let next = self.next.checked_add(1)?;
        (!self.is_over()).then_some((usize::from(self.next), Self { next, ..self }))
    }

    /// The sender's next chunk, and what is left then.
    pub fn from_back(self) -> Option<(usize, Self)> {
        let end = self.end.checked_sub(1)?;
        (!self.is_over()).then_some((usize::from(end), Self { end, ..self }))
    }
}

/// What the sender has written of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Number of the job.
    pub number: u32,
    /// A chunk could not be written: the receiver reads all that the sender has taken.
    pub failed: bool,
    /// Chunks that the sender has taken and is done with.
    pub chunks: u16,
}

impl Done {
    /// What a word says.
    pub fn of(word: u64) -> Self {
        Self {
            number: (word >> 32) as u32,
            failed: word & 1 << 16 != 0,
            chunks: word as u16,
        }
    }

    /// As a word.
    pub fn word(self) -> u64 {
        u64::from(self.number) << 32 | u64::from(self.failed) << 16 | u64::from(self.chunks)
    }

    /// The same with one chunk more of the job with this number.
    #[must_use]
    pub fn and_one(self, number: u32, failed: bool) -> Self {
        let (before, chunks) = if self.number == number {
            (self.failed, self.chunks)
        } else {
            (false, 0)
        };
        Self {
            number,
            failed: before || failed,
            chunks: chunks.saturating_add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_are_read_as_they_were_written(number: u32, next: u16, end: u16, failed: bool) {
            let left = Left { number, next, end };
            prop_assert_eq!(Left::of(left.word()), left);
            let done = Done { number, failed, chunks: end };
            prop_assert_eq!(Done::of(done.word()), done);
        }

        #[test]
        fn each_chunk_is_taken_once(chunks in 0_u16..200, turns: Vec<bool>) {
            let mut left = Left { number: 7, next: 0, end: chunks };
            let mut taken = vec![false; usize::from(chunks)];
            let turns = turns.into_iter().chain(std::iter::repeat_n(true, usize::from(chunks)));
            for front in turns {
                let step = if front { left.from_front() } else { left.from_back() };
                if let Some((chunk, then)) = step {
                    prop_assert!(!std::mem::replace(&mut taken[chunk], true));
                    left = then;
                }
            }
            prop_assert!(left.is_over() && taken.into_iter().all(|one| one));
        }
    }

    #[test]
    fn what_was_done_of_an_older_job_does_not_count() {
        let none = Done::of(0);
        let one = none.and_one(4, true);
        assert_eq!((one.chunks, one.failed), (1, true));
        assert!(one.and_one(4, false).failed, "once failed, failed");
        let next = one.and_one(5, false);
        assert_eq!((next.number, next.chunks, next.failed), (5, 1, false));
    }
}
