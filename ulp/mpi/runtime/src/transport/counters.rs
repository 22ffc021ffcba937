//! What programs and people are told of this rank's traffic.
//!
//! Owns: the form of that. Must not know: who counts.

/// What `ferriband_mpi_stats` tells: 64-bit numbers, in this order. New ones come at the end.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Told {
    /// Ranks that this one has a connection to.
    pub remote_peers: u64,
    /// Blocks of peers that this rank writes to now.
    pub channels_out: u64,
    /// Blocks of this rank that peers write to now.
    pub channels_in: u64,
    /// Bytes of fast-path memory in this process now: the four below.
    pub memory: u64,
    /// Bytes of blocks.
    pub blocks: u64,
    /// Bytes of mirrors of peers' blocks.
    pub mirrors: u64,
    /// Bytes of staging buffers that records have lain in.
    pub staging: u64,
    /// Bytes of return words.
    pub returns: u64,
    /// The most bytes of blocks and mirrors that there were.
    pub most: u64,
    /// Messages to other ranks by verbs.
    pub messages: u64,
    /// Those by the fast path.
    pub fast: u64,
    /// Not by it: there is no channel,
    pub no_channel: u64,
    /// the receiver sleeps,
    pub paused: u64,
    /// the block is full,
    pub no_credit: u64,
    /// it is longer than a record,
    pub too_long: u64,
    /// there is no room in a queue.
    pub busy: u64,
    /// Channels that were opened in all,
    pub opened: u64,
    /// and closed again,
    pub closed: u64,
    /// for a larger block.
    pub grown: u64,
    /// Blocks that were asked for and not given, by peers and by this rank.
    pub refused: u64,
    /// PAUSEs sent.
    pub pauses: u64,
    /// Long messages read or written.
    pub moved: u64,
    /// Bytes of the logs of what is not acknowledged, beside the memory above.
    pub log: u64,
    /// Times that a message waited for room in a log.
    pub log_full: u64,
    /// Messages not by the fast path: they have gone together with others.
    pub bundled: u64,
    /// Messages to ranks of this host that lay in memory which this rank had just read; they are
    /// not among those above.
    pub placed: u64,
    /// Ranks of this host that this one has sent something to, by memory that both share.
    pub host_peers: u64,
    /// Records to them, those of the two runtimes among them; to each modulo 2^32, as they are
    /// numbered.
    pub host_records: u64,
    /// Of the long messages, those that were sent by another host's rank into the program's buffer.
    pub landed: u64,
    /// Connections that failed and were made anew.
    pub heals: u64,
    /// Nanoseconds of the longest such heal,
    pub heals_longest_ns: u64,
    /// and of all together.
    pub heals_total_ns: u64,
    /// Bytes that were sent again.
    pub healed_bytes: u64,
    /// Connections that are being made anew now.
    pub healing: u64,
    /// Times that a connection went on by another path, to which its adapters went over by
    /// themselves.
    pub migrations: u64,
}

/// Heals that are kept for `ferriband_mpi_heals`.
pub const TOLD_HEALS: usize = 32;

/// A heal, as `ferriband_mpi_heals` tells it: 64-bit numbers, in this order.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ToldHeal {
    /// The rank at the other end.
    pub peer: u64,
    /// Number of the cause, as in docs/design/heal.md.
    pub cause: u64,
    /// When this side noticed the failure: milliseconds since 1970.
    pub at_ms: u64,
    /// Nanoseconds from the peer's notice to this side's,
    pub detect_ns: u64,
    /// from there to the end of the last fence,
    pub fence_ns: u64,
    /// from there to the connection,
    pub reconnect_ns: u64,
    /// and from there to the end of the replay.
    pub replay_ns: u64,
    /// Bytes that were sent again.
    pub bytes: u64,
    /// Lives that were begun.
    pub tries: u64,
}
