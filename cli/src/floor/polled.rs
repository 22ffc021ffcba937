//! Floors of memory that both processes map and poll: a flag with its payload, and a ring whose
//! consumer writes a completion back.
//!
//! Both are what the cache coherence of this machine allows and nothing more: no key, no queue
//! pair, no bounds. Const generics let the compiler turn each copy into plain moves.

use super::pair::{Mapping, Peer, Placement, run_pair};
use crate::failure::Failure;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const LINE_BYTES: usize = 64;

/// One way, in nanoseconds: 8 bytes of payload and a flag in one cache line of shared memory.
pub fn flag_ping_pong_ns(rounds: u64) -> Result<Option<f64>, Failure> {
    let memory = Mapping::shared(4 * LINE_BYTES)?;
    let lines = [Line::at(&memory, 0), Line::at(&memory, 2 * LINE_BYTES)];
    run_pair(
        Placement::TwoCores,
        |peer| {
            (1..=rounds).all(|round| {
                let Some(payload) = lines[0].receive(&peer, round) else {
                    return false;
                };
                lines[1].send(payload, round);
                true
            })
        },
        |peer| {
            let warm_up = rounds / 10;
            let mut start = Instant::now();
            for round in 1..=rounds {
                if round == warm_up {
                    start = Instant::now();
                }
                lines[0].send(round, round);
                if lines[1].receive(&peer, round)? != round {
                    return None;
                }
            }
            Some(start.elapsed().as_nanos() as f64 / (rounds - warm_up + 1) as f64 / 2.0)
        },
    )
}

/// A cache line with a payload word and the flag that announces it.
struct Line<'a> {
    payload: &'a AtomicU64,
    flag: &'a AtomicU64,
}

impl<'a> Line<'a> {
    fn at(memory: &'a Mapping, offset: usize) -> Self {
        Line {
            payload: memory.word(offset),
            flag: memory.word(offset + 8),
        }
    }

    #[inline(always)]
    fn send(&self, payload: u64, round: u64) {
        self.payload.store(payload, Ordering::Relaxed);
        self.flag.store(round, Ordering::Release);
    }

    #[inline(always)]
    fn receive(&self, peer: &Peer, round: u64) -> Option<u64> {
        peer.wait_for(self.flag, round)
            .then(|| self.payload.load(Ordering::Relaxed))
    }
}

/// Slots of a ring: enough that a streaming producer is not stopped by the trip of a completion.
const SLOTS: u64 = 128;

/// A one-way ring: slots of a sequence word and a payload, and the consumer's count of completions
/// in a line of its own.
struct Ring<'a, const BYTES: usize> {
    memory: &'a Mapping,
    offset: usize,
    completed: &'a AtomicU64,
}

impl<'a, const BYTES: usize> Ring<'a, BYTES> {
    /// Sequence word first, payload behind it, rounded up to whole lines: 8 bytes fit one line.
    const STRIDE: usize = (8 + BYTES).next_multiple_of(LINE_BYTES);
    /// What one ring takes of a mapping, with a line of distance from the next.
    const LENGTH: usize = Self::STRIDE * SLOTS as usize + 2 * LINE_BYTES;

    fn at(memory: &'a Mapping, offset: usize) -> Self {
        Ring {
            memory,
            offset,
            completed: memory.word(offset + Self::LENGTH - LINE_BYTES),
        }
    }

    #[inline(always)]
    fn slot(&self, sequence: u64) -> (&AtomicU64, *mut u8) {
        let index = (sequence % SLOTS) as usize;
        // SAFETY: the index is below SLOTS, and the mapping was made LENGTH long for each ring.
        let base = unsafe { self.memory.base().add(self.offset + index * Self::STRIDE) };
        // SAFETY: slots are line-aligned and their first word is only ever reached as an atomic.
        let word = unsafe { AtomicU64::from_ptr(base.cast()) };
        // SAFETY: the payload lies behind the first word, inside the slot.
        (word, unsafe { base.add(8) })
    }

    #[inline(always)]
    fn send(&self, sequence: u64, payload: &[u8; BYTES]) {
        let (word, slot) = self.slot(sequence);
        // SAFETY: the slot has BYTES of room; the consumer reads it only after the store below.
        unsafe { ptr::copy_nonoverlapping(payload.as_ptr(), slot, BYTES) };
        word.store(sequence, Ordering::Release);
    }

    #[inline(always)]
    fn receive(&self, peer: &Peer, sequence: u64, payload: &mut [u8; BYTES]) -> bool {
        let (word, slot) = self.slot(sequence);
        if !peer.wait_for(word, sequence) {
            return false;
        }
        // SAFETY: the producer's release store published BYTES here and it reuses the slot only
        // after the completion below.
        unsafe { ptr::copy_nonoverlapping(slot, payload.as_mut_ptr(), BYTES) };
        self.completed.store(sequence, Ordering::Release);
        true
    }
}

/// One way, in nanoseconds: a message of `BYTES` through a ring, copied in and copied out, whose
/// completion the sender has seen before it counts the message as sent.
pub fn ring_ping_pong_ns<const BYTES: usize>(rounds: u64) -> Result<Option<f64>, Failure> {
    let memory = Mapping::shared(2 * Ring::<BYTES>::LENGTH)?;
    memory.touch(0);
    let there = Ring::<BYTES>::at(&memory, 0);
    let back = Ring::<BYTES>::at(&memory, Ring::<BYTES>::LENGTH);
    run_pair(
        Placement::TwoCores,
        |peer| {
            let mut payload = [0; BYTES];
            (1..=rounds).all(|round| {
                if !there.receive(&peer, round, &mut payload) {
                    return false;
                }
                back.send(round, &payload);
                peer.wait_for(back.completed, round)
            })
        },
        |peer| {
            let warm_up = rounds / 10;
            let mut start = Instant::now();
            let mut payload = [0x5a; BYTES];
            let mut echo = [0; BYTES];
            for round in 1..=rounds {
                if round == warm_up {
                    start = Instant::now();
                }
                payload[..8].copy_from_slice(&round.to_ne_bytes());
                there.send(round, &payload);
                if !back.receive(&peer, round, &mut echo) || !peer.wait_for(there.completed, round)
                {
                    return None;
                }
            }
            let elapsed = start.elapsed().as_nanos() as f64;
            (echo == payload).then_some(elapsed / (rounds - warm_up + 1) as f64 / 2.0)
        },
    )
}

/// Nanoseconds between two messages of 8 bytes that stream through a ring.
pub fn ring_stream_ns(messages: u64) -> Result<Option<f64>, Failure> {
    let memory = Mapping::shared(Ring::<8>::LENGTH)?;
    let ring = Ring::<8>::at(&memory, 0);
    run_pair(
        Placement::TwoCores,
        |peer| {
            let mut payload = [0; 8];
            (1..=messages)
                .all(|n| ring.receive(&peer, n, &mut payload) && payload == n.to_ne_bytes())
        },
        |peer| {
            let mut completed = 0;
            let start = Instant::now();
            for n in 1..=messages {
                if n - completed > SLOTS / 2 {
                    // Looked at only when half the ring is out: the line stays the consumer's.
                    completed = ring.completed.load(Ordering::Acquire);
                    while n - completed > SLOTS {
                        completed = ring.completed.load(Ordering::Acquire);
                    }
                }
                ring.send(n, &n.to_ne_bytes());
            }
            peer.wait_for(ring.completed, messages)
                .then(|| start.elapsed().as_nanos() as f64 / messages as f64)
        },
    )
}
