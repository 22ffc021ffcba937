//! What a rank asks of the kernel about itself.

/// Lets the other ranks read this process's memory where the kernel lets ancestors alone (Yama). A
/// kernel without that restriction refuses the call, which changes nothing.
pub fn let_ranks_read() {
    // SAFETY: the call takes no memory.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
}

/// Nanoseconds by a clock of the kernel's.
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a local variable.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
