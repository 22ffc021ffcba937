//! What is set for long messages of one host.

/// What holds for the process's life, but what the kernel refuses.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Whether long messages are read from the sender's memory; cleared when the kernel refuses.
    pub reads_peers: bool,
    /// Bytes of the shortest message on one host that both sides copy; none: no message is, or the
    /// kernel refuses.
    pub both_copy: Option<u64>,
    /// Bytes of the shortest message on one host whose buffers the kernel is asked to put into
    /// large pages; none: no message's are.
    pub large_pages: Option<u64>,
}
