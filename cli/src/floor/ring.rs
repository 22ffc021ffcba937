//! Floor of a byte stream between two processes: a ring in memory that both map, and futexes for
//! who sleeps.
//!
//! Owns: the ring. Two copies of each byte, one store and one load of the other's index for each
//! call, and a wake-up only for a reader or writer that said that it sleeps. What carries the bytes
//! of a socket on one host does this much at least.

use super::pair::{Mapping, Placement, run_pair};
use crate::failure::Failure;
use ferriband_host::wake::{self, Until, Wait};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// Bytes of a direction's ring.
const RING: u64 = 64 << 10;
/// Where the words of a direction lie: each on a line of its own.
const HEAD: usize = 0;
const TAIL: usize = 128;
const SLEEPER: usize = 256;
const BYTES: usize = 4096;
const DIRECTION: usize = BYTES + RING as usize;
/// Looks of [`Looking::AWhile`]: about 20 us.
const LOOKS: u32 = 20_000;
/// A peer that is silent for so long is gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a side that finds nothing looks again before it sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looking {
    /// It never sleeps.
    Always,
    /// As long as a sleep and a wake-up take, about.
    AWhile,
    /// Not at all.
    Never,
}

/// One direction, as either of its ends uses it.
struct Ring<'a> {
    memory: &'a Mapping,
    at: usize,
    looking: Looking,
}

impl Ring<'_> {
    fn word(&self, offset: usize) -> &AtomicU64 {
        self.memory.word(self.at + offset)
    }

    fn sleeper(&self) -> &AtomicU32 {
        let word = self.word(SLEEPER).as_ptr();
        // SAFETY: the word is eight bytes of the mapping, aligned, and only ever reached as this
        // atomic.
        unsafe { AtomicU32::from_ptr(word.cast()) }
    }

    /// Moves an index on, and wakes the other end if it sleeps.
    fn publish(&self, word: usize, value: u64) {
        self.word(word).store(value, Ordering::Release);
        if self.looking == Looking::Always {
            return;
        }
        fence(Ordering::SeqCst);
        if self.sleeper().load(Ordering::Relaxed) != 0 {
            self.sleeper().store(0, Ordering::Relaxed);
            wake::wake(self.sleeper(), 1);
        }
    }

    /// Waits until the index at `word` is not `value` any more. None: the peer is gone.
    fn wait(&self, word: usize, value: u64) -> Option<u64> {
        loop {
            let mut looks = 0;
            loop {
                let seen = self.word(word).load(Ordering::Acquire);
                if seen != value {
                    return Some(seen);
                }
                match self.looking {
                    Looking::Never => break,
                    Looking::AWhile if looks == LOOKS => break,
                    _ => looks = looks.wrapping_add(1),
                }
            }
            self.sleeper().store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.word(word).load(Ordering::Acquire) != value {
                continue;
            }
            if let Ok(Wait::TimedOut) = wake::wait(self.sleeper(), 1, Until::For(PATIENCE)) {
                return None;
            }
        }
    }

    /// Copies as much as fits in one piece. `to_ring` says in which direction.
    fn copy(&self, position: u64, bytes: *mut u8, length: u64, to_ring: bool) -> u64 {
        let offset = position % RING;
        let length = length.min(RING - offset);
        let at = self.at + BYTES + offset as usize;
        // SAFETY: the piece lies within this direction's bytes of the mapping.
        let ring = unsafe { self.memory.base().add(at) };
        let (from, to) = if to_ring {
            (bytes, ring)
        } else {
            (ring, bytes)
        };
        // SAFETY: the caller's bytes are as many; the other end does not touch what the indices
        // give to this one.
        unsafe { std::ptr::copy_nonoverlapping(from, to, length as usize) };
        length
    }

    /// Writes all bytes.
    fn send(&self, bytes: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < bytes.len() {
            let head = self.word(HEAD).load(Ordering::Relaxed);
            let mut tail = self.word(TAIL).load(Ordering::Acquire);
            if head - tail == RING {
                tail = self.wait(TAIL, tail)?;
            }
            let rest = &mut bytes[done..];
            let length = (rest.len() as u64).min(RING - (head - tail));
            let copied = self.copy(head, rest.as_mut_ptr(), length, true);
            self.publish(HEAD, head + copied);
            done += copied as usize;
        }
        Some(())
    }

    /// Reads what is there, or waits for it.
    fn receive(&self, bytes: &mut [u8]) -> Option<usize> {
        let tail = self.word(TAIL).load(Ordering::Relaxed);
        let mut head = self.word(HEAD).load(Ordering::Acquire);
        if head == tail {
            head = self.wait(HEAD, tail)?;
        }
        let length = (bytes.len() as u64).min(head - tail);
        let copied = self.copy(tail, bytes.as_mut_ptr(), length, false);
        self.publish(TAIL, tail + copied);
        Some(copied as usize)
    }

    fn receive_all(&self, bytes: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < bytes.len() {
            done += self.receive(&mut bytes[done..])?;
        }
        Some(())
    }
}

/// One way of a message that comes back, in nanoseconds. Where sides sleep it is the better of two
/// cores and of where the scheduler puts them, and who may look a while need not.
pub fn ping_pong_ns(length: usize, rounds: u64, looking: Looking) -> Result<Option<f64>, Failure> {
    let tries: &[(Placement, Looking)] = match looking {
        Looking::Always => &[(Placement::TwoCores, Looking::Always)],
        Looking::AWhile => &[
            (Placement::TwoCores, Looking::AWhile),
            (Placement::Anywhere, Looking::Never),
        ],
        Looking::Never => &[
            (Placement::TwoCores, Looking::Never),
            (Placement::Anywhere, Looking::Never),
        ],
    };
    let mut best: Option<f64> = None;
    for (placement, looking) in tries {
        let Some(found) = ping_pong_once(length, rounds, *placement, *looking)? else {
            return Ok(None);
        };
        best = Some(best.map_or(found, |best| best.min(found)));
    }
    Ok(best)
}

fn ping_pong_once(
    length: usize,
    rounds: u64,
    placement: Placement,
    looking: Looking,
) -> Result<Option<f64>, Failure> {
    let memory = Mapping::shared(2 * DIRECTION)?;
    let ring = |at| Ring {
        memory: &memory,
        at,
        looking,
    };
    let (there, back) = (ring(0), ring(DIRECTION));
    let (mut here, mut far) = (vec![0; length], vec![0; length]);
    let mut echo = || {
        there.receive_all(&mut far)?;
        back.send(&mut far)
    };
    run_pair(
        placement,
        |_| (0..rounds).all(|_| echo().is_some()),
        |_| {
            let start = Instant::now();
            for _ in 0..rounds {
                there.send(&mut here)?;
                back.receive_all(&mut here)?;
            }
            Some(start.elapsed().as_nanos() as f64 / rounds as f64 / 2.0)
        },
    )
}

/// Bytes a second of messages of `length` bytes in one direction, `messages` of them.
pub fn stream(length: usize, messages: u64) -> Result<Option<f64>, Failure> {
    let memory = Mapping::shared(DIRECTION)?;
    let ring = Ring {
        memory: &memory,
        at: 0,
        looking: Looking::AWhile,
    };
    let mut out = vec![0; length];
    let mut taken = vec![0; length.max(RING as usize)];
    let total = length as u64 * messages;
    run_pair(
        Placement::TwoCores,
        |_| (0..messages).all(|_| ring.send(&mut out).is_some()),
        |_| {
            let mut sum = ring.receive(&mut taken)? as u64;
            let (start, first) = (Instant::now(), sum);
            while sum < total {
                sum += ring.receive(&mut taken)? as u64;
            }
            Some((total - first).max(1) as f64 / start.elapsed().as_secs_f64())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_as_they_were_sent_however_they_are_cut() {
        let memory = Mapping::shared(DIRECTION).expect("memory");
        let ring = Ring {
            memory: &memory,
            at: 0,
            looking: Looking::AWhile,
        };
        let mut sent: Vec<u8> = (0..150_000_u32).map(|at| (at % 251) as u8).collect();
        let expected = sent.clone();
        let mut got = Vec::new();
        let mut piece = [0; 777];
        let found = run_pair(
            Placement::Anywhere,
            |_| ring.send(&mut sent).is_some(),
            |_| {
                while got.len() < expected.len() {
                    let length = ring.receive(&mut piece)?;
                    got.extend_from_slice(&piece[..length]);
                }
                Some(())
            },
        );
        assert_eq!(found.expect("two processes"), Some(()));
        assert_eq!(got, expected);
    }

    #[test]
    fn floors_are_measured() {
        for looking in [Looking::Always, Looking::AWhile, Looking::Never] {
            let found = ping_pong_ns(64, 1000, looking).expect("two processes");
            assert!(found.is_some_and(|ns| ns > 1.0), "{found:?}");
        }
        let found = stream(1, 1000).expect("two processes");
        assert!(found.is_some_and(|rate| rate > 1000.0), "{found:?}");
    }
}
