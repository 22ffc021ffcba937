//! Floors of cross-memory attach: one process copies into or out of the private memory of another
//! by one system call.

use super::pair::{Mapping, Peer, Placement, run_pair};
use crate::failure::Failure;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const PAGE_BYTES: usize = 4096;

/// Which way the bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// process_vm_writev.
    Write,
    /// process_vm_readv.
    Read,
}

/// Copies `length_bytes` between `local` here and `remote` there. False when the kernel refused.
#[inline(always)]
fn copy(
    direction: Direction,
    pid: libc::pid_t,
    local: *mut u8,
    remote: *mut u8,
    length_bytes: usize,
) -> bool {
    let here = libc::iovec {
        iov_base: local.cast(),
        iov_len: length_bytes,
    };
    let there = libc::iovec {
        iov_base: remote.cast(),
        iov_len: length_bytes,
    };
    let moved = match direction {
        // SAFETY: `local` is ours and long enough; `remote` is checked by the kernel.
        Direction::Write => unsafe { libc::process_vm_writev(pid, &here, 1, &there, 1, 0) },
        // SAFETY: `local` is ours and long enough; `remote` is checked by the kernel.
        Direction::Read => unsafe { libc::process_vm_readv(pid, &here, 1, &there, 1, 0) },
    };
    moved == length_bytes as isize
}

/// One way, in nanoseconds: 8 bytes into private memory that the other process polls.
pub fn ping_pong_ns(rounds: u64) -> Result<Option<f64>, Failure> {
    let memory = Mapping::private(2 * PAGE_BYTES)?;
    let ready = Mapping::shared(PAGE_BYTES)?;
    let inbox = memory.word(0);
    let outbox = memory.word(PAGE_BYTES);
    let send = |peer: &Peer, round: u64| {
        outbox.store(round, Ordering::Relaxed);
        copy(
            Direction::Write,
            peer.pid,
            outbox.as_ptr().cast(),
            inbox.as_ptr().cast(),
            8,
        )
    };
    run_pair(
        Placement::TwoCores,
        |peer| {
            memory.touch(0);
            ready.word(0).store(1, Ordering::Release);
            (1..=rounds).all(|round| peer.wait_for(inbox, round) && send(&peer, round))
        },
        |peer| {
            memory.touch(0);
            if !peer.wait_for(ready.word(0), 1) {
                return None;
            }
            let warm_up = rounds / 10;
            let mut start = Instant::now();
            for round in 1..=rounds {
                if round == warm_up {
                    start = Instant::now();
                }
                if !send(&peer, round) || !peer.wait_for(inbox, round) {
                    return None;
                }
            }
            Some(start.elapsed().as_nanos() as f64 / (rounds - warm_up + 1) as f64 / 2.0)
        },
    )
}

/// Nanoseconds of one copy of `length_bytes`, repeated between the same two buffers (hot) while the
/// other process sleeps.
pub fn copy_ns(
    direction: Direction,
    length_bytes: usize,
    copies: u64,
) -> Result<Option<f64>, Failure> {
    let local = Mapping::private(length_bytes.next_multiple_of(PAGE_BYTES))?;
    let remote = Mapping::private(length_bytes.next_multiple_of(PAGE_BYTES))?;
    let control = Mapping::shared(PAGE_BYTES)?;
    let state = control.word(0);
    run_pair(
        Placement::TwoCores,
        |peer| {
            remote.touch(2);
            state.store(1, Ordering::Release);
            // Asleep, as the passive side of a bandwidth program is.
            while state.load(Ordering::Acquire) != 2 {
                nap();
                // SAFETY: getppid has no preconditions.
                if unsafe { libc::getppid() } != peer.pid {
                    return false;
                }
            }
            let expected = if direction == Direction::Write { 1 } else { 2 };
            // SAFETY: the last byte of our own mapping.
            unsafe { remote.base().add(length_bytes - 1).read_volatile() == expected }
        },
        |peer| {
            local.touch(1);
            remote.touch(3);
            if !peer.wait_for(state, 1) {
                return None;
            }
            let result = time_copies(
                direction,
                &peer,
                local.base(),
                remote.base(),
                length_bytes,
                copies,
            );
            finish(state);
            result
        },
    )
}

fn time_copies(
    direction: Direction,
    peer: &Peer,
    local: *mut u8,
    remote: *mut u8,
    length_bytes: usize,
    copies: u64,
) -> Option<f64> {
    for _ in 0..copies / 10 + 1 {
        if !copy(direction, peer.pid, local, remote, length_bytes) {
            return None;
        }
    }
    let start = Instant::now();
    for _ in 0..copies {
        if !copy(direction, peer.pid, local, remote, length_bytes) {
            return None;
        }
    }
    Some(start.elapsed().as_nanos() as f64 / copies as f64)
}

fn finish(state: &AtomicU64) {
    state.store(2, Ordering::Release);
}

/// Sleeps half a millisecond.
fn nap() {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 500_000,
    };
    // SAFETY: time is a valid timespec, and the remainder is not asked for.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}
