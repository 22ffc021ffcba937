//! In which order this process gives bytes to several connections, some by rings, others by TCP.
//!
//! Owns: the clock, and when the kernel was given something last. Must not know: who reads it. A
//! peer's epoll instance lists sockets as they become ready, as the kernel does. What it finds in
//! rings it orders by the times that are written beside them. Of what TCP has brought it knows no
//! time: but whoever fills a ring says when its process last gave the kernel something, and a peer
//! that has not asked the kernel since does so before it tells of that ring.

use std::sync::atomic::{AtomicU64, Ordering};

/// When this process last gave the kernel something of a stream; 0: it has not.
static GIVEN: AtomicU64 = AtomicU64::new(0);

/// This process has given the kernel bytes, a connection or an end.
#[inline]
pub(crate) fn by_kernel() {
    GIVEN.store(time(), Ordering::Relaxed);
}

/// When this process last gave the kernel something of a stream; 0: it has not.
#[inline]
pub(crate) fn given() -> u64 {
    GIVEN.load(Ordering::Relaxed)
}

/// A clock that all processors of a host read alike.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn time() -> u64 {
    // SAFETY: each processor of this kind has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// A clock that all processors of a host read alike.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn time() -> u64 {
    ferriband_host::wake::now().as_nanos() as u64
}
