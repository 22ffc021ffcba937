//! Descriptors that a forked child must not keep.
//!
//! Owns: a table of every socket whose lifetime means "this process lives", so that a handler of pthread_atfork can
//! close them in the child by async-signal-safe calls alone; and the gate that keeps a fork from falling between the
//! making of such a descriptor and its entry in the table. Behind the gate nothing waits, and no lock is taken.
//!
//! Must not know: what the descriptors are for.

use super::HostError;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Descriptors of this kind that a process may hold: twice the process table (a connection each way), and some for names and
/// for the sockets of the packet wire.
const LIMIT: usize = 2 * 4096 + 256;

/// Serial number in the upper half, descriptor + 1 in the lower; 0 is free. The serial number keeps an object that
/// the child inherited from closing a descriptor that the child opened later.
static TABLE: [AtomicU64; LIMIT] = [const { AtomicU64::new(0) }; LIMIT];
/// One past the highest entry ever used: what a fork has to walk.
static USED: AtomicUsize = AtomicUsize::new(0);
static SERIAL: AtomicU32 = AtomicU32::new(1);
/// 0 open, 1 closed by a maker of a descriptor or by a fork under way.
static GATE: AtomicU32 = AtomicU32::new(0);

ferriband_fork::at_fork!(
    Some(before_fork),
    Some(after_fork_in_parent),
    Some(close_all_after_fork)
);

/// Before a fork: waits until no thread is between making a descriptor and recording
/// it, and keeps others from starting. Async-signal-safe.
pub(super) extern "C" fn before_fork() {
    close_gate();
}

/// After a fork, in the parent. Async-signal-safe.
pub(super) extern "C" fn after_fork_in_parent() {
    GATE.store(0, Ordering::Release);
}

/// After a fork, in the child: closes the listener, the name and the control connections that the
/// child inherited, so that it never keeps a dead parent alive for its peers. Objects that were made before the fork
/// answer [`HostError::Forked`] from then on and their destructors do nothing. Async-signal-safe.
pub(super) extern "C" fn close_all_after_fork() {
    for entry in &TABLE[..USED.load(Ordering::Acquire).min(LIMIT)] {
        let value = entry.swap(0, Ordering::AcqRel);
        if value != 0 {
            // SAFETY: the entry's owner gives the descriptor up when it finds the entry changed, so nobody else
            // in this child uses or closes it.
            drop(unsafe { OwnedFd::from_raw_fd(fd_of(value)) });
        }
    }
    GATE.store(0, Ordering::Release);
}

/// A descriptor that a forked child closes at once: for everything that must not live on in a forked child, because it stands
/// for this process (a name, a connection, a socket of a shared port).
#[derive(Debug)]
pub struct ForkFd {
    index: usize,
    value: u64,
}

impl ForkFd {
    /// Makes a descriptor with the gate closed and records it; None if `make` gives none.
    ///
    /// # Errors
    /// What `make` returns, or `Full` if the process holds too many.
    pub fn make(
        make: impl FnOnce() -> Result<Option<OwnedFd>, HostError>,
    ) -> Result<Option<ForkFd>, HostError> {
        let _gate = Gate::close();
        let Some(fd) = make()? else { return Ok(None) };
        // The gate is ours, so entries only become free under us (in a child), never taken.
        let index = TABLE
            .iter()
            .position(|e| e.load(Ordering::Relaxed) == 0)
            .ok_or(HostError::Full {
                table: "control descriptors",
                limit: LIMIT,
            })?;
        let serial = u64::from(SERIAL.fetch_add(1, Ordering::Relaxed));
        let value = serial << 32 | (fd.into_raw_fd() as u64 + 1);
        TABLE[index].store(value, Ordering::Release);
        USED.fetch_max(index + 1, Ordering::AcqRel);
        Ok(Some(ForkFd { index, value }))
    }

    /// The descriptor.
    ///
    /// # Errors
    /// `Forked` in a child of the process that made it.
    pub fn get(&self) -> Result<BorrowedFd<'_>, HostError> {
        if TABLE[self.index].load(Ordering::Acquire) != self.value {
            return Err(HostError::Forked);
        }
        // SAFETY: the entry is unchanged, so the descriptor is open and self, whose drop closes it, is borrowed.
        Ok(unsafe { BorrowedFd::borrow_raw(fd_of(self.value)) })
    }
}

impl ForkFd {
    /// The descriptor; in a child, a number that is never open (the kernel's limit on descriptors lies far below it).
    pub fn get_or_closed(&self) -> BorrowedFd<'_> {
        self.get().unwrap_or_else(|_| {
            // SAFETY: nothing is open under this number, so no call reaches another's descriptor: it fails with EBADF.
            unsafe { BorrowedFd::borrow_raw(i32::MAX) }
        })
    }
}

impl Drop for ForkFd {
    fn drop(&mut self) {
        // A fork between the two steps would leave the child an unrecorded copy.
        let _gate = Gate::close();
        let entry = &TABLE[self.index];
        if entry
            .compare_exchange(self.value, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            // SAFETY: the entry was still ours and nobody finds the descriptor there any more.
            drop(unsafe { OwnedFd::from_raw_fd(fd_of(self.value)) });
        }
    }
}

fn fd_of(value: u64) -> i32 {
    (value as u32).wrapping_sub(1) as i32
}

/// The gate, closed until this is dropped.
struct Gate;

impl Gate {
    fn close() -> Gate {
        close_gate();
        Gate
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        GATE.store(0, Ordering::Release);
    }
}

/// The gate is held for a few system calls that do not block, so waiting is yielding.
fn close_gate() {
    while GATE
        .compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        // SAFETY: sched_yield has no precondition.
        unsafe { libc::sched_yield() };
    }
}
