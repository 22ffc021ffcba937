//! What a rank asks of the kernel about itself.

/// Lets the other ranks read this process's memory where the kernel lets ancestors alone (Yama). A
/// kernel without that restriction refuses the call, which changes nothing.
pub fn let_ranks_read() {
    // SAFETY: the call takes no memory.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
}
