//! A completion queue's core: a bounded ring that never overwrites and never drops in silence.
//!
//! Owns completions between the queue pairs that make them and the program that polls them. Knows no events, no
//! file descriptors and no locks.

use crate::types::Completion;

/// The queue was full when a completion came: it is unusable from now on (I13, IBA 11.6.3.1). The owner raises
/// IBV_EVENT_CQ_ERR and moves the attached queue pairs to Error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("completion queue of {capacity} entries overran")]
pub struct Overrun {
    /// Size of the queue.
    pub capacity: usize,
}

/// The ring.
#[derive(Debug)]
pub struct CompletionRing {
    ring: Box<[Completion]>,
    head: usize,
    len: usize,
    overrun: bool,
}

impl CompletionRing {
    /// Room for `capacity` completions, allocated once.
    pub fn new(capacity: usize) -> Self {
        CompletionRing {
            ring: vec![Completion::default(); capacity].into(),
            head: 0,
            len: 0,
            overrun: false,
        }
    }

    /// Appends a completion.
    ///
    /// # Errors
    /// The ring is full, now or earlier; the completion is lost and the ring says so for ever.
    pub fn push(&mut self, completion: Completion) -> Result<(), Overrun> {
        if self.overrun || self.len == self.ring.len() {
            self.overrun = true;
            return Err(Overrun {
                capacity: self.ring.len(),
            });
        }
        let slot = (self.head + self.len) % self.ring.len();
        self.ring[slot] = completion;
        self.len += 1;
        Ok(())
    }

    /// Takes the oldest completion.
    ///
    /// # Errors
    /// The ring overran: what it holds is not the whole truth and is withheld.
    pub fn poll(&mut self) -> Result<Option<Completion>, Overrun> {
        if self.overrun {
            return Err(Overrun {
                capacity: self.ring.len(),
            });
        }
        if self.len == 0 {
            return Ok(None);
        }
        let completion = self.ring[self.head];
        self.head = (self.head + 1) % self.ring.len();
        self.len -= 1;
        Ok(Some(completion))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn completion(wr_id: u64) -> Completion {
        Completion {
            wr_id,
            ..Completion::default()
        }
    }

    proptest! {
        /// I13: either every completion comes out once and in order, or the ring says that it overran.
        #[test]
        fn i13_nothing_is_lost_silently(capacity in 1usize..6, steps in proptest::collection::vec(any::<bool>(), 0..60)) {
            let mut ring = CompletionRing::new(capacity);
            let (mut pushed, mut polled) = (0, 0);
            for push in steps {
                if push {
                    let fits = pushed - polled < capacity as u64;
                    let result = ring.push(completion(pushed));
                    prop_assert_eq!(result.is_ok(), fits);
                    if !fits {
                        prop_assert!(ring.poll().is_err());
                        prop_assert!(ring.push(completion(0)).is_err());
                        return Ok(());
                    }
                    pushed += 1;
                } else {
                    let got = ring.poll().unwrap().map(|c| c.wr_id);
                    prop_assert_eq!(got, (polled < pushed).then_some(polled));
                    polled += u64::from(got.is_some());
                }
            }
        }
    }
}
