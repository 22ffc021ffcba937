//! What the machine allows: bounds of its tables and of the times that a peer may ask for.

use ferriband_wire::TimeCode;

/// Bounds. The defaults are those of a process with a few thousand connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CmLimits {
    /// Identifiers that are alive, time-wait not counted.
    pub ids: usize,
    /// Identifiers in all; beyond that the oldest of those in time-wait are forgotten early.
    pub all_ids: usize,
    /// Answers to requests that came to nothing, kept for their duplicates.
    pub remembered: usize,
    /// Requests that a listener may have before it; also what a backlog of 0 means.
    pub backlog: u32,
    /// Messages waiting to be taken out; beyond that they count as lost.
    pub transmits: usize,
    /// Events waiting to be taken out; beyond that requests are dropped, nothing else.
    pub events: usize,
    /// What a duplicate is told while the consumer thinks: 68 s, as rdma_cm in Linux.
    pub service_timeout: TimeCode,
    /// Longest service time-out that an MRA of a peer gets: 275 s.
    pub max_service_timeout: TimeCode,
    /// Shortest time after which a REP is sent again, whatever the REQ says: 67 ms.
    pub min_response_timeout: TimeCode,
    /// Longest such time: 17 s.
    pub max_response_timeout: TimeCode,
    /// Longest time-wait: 17 s.
    pub max_time_wait: TimeCode,
    /// For how long a REQ that was refused because nobody listens is sent again before its consumer hears of it. 0: it hears at once.
    pub listener_patience_ns: u64,
    /// Repetitions of a DREQ whose identifier nobody holds any more.
    pub orphan_retries: u8,
}

impl Default for CmLimits {
    fn default() -> Self {
        CmLimits {
            ids: 8_192,
            all_ids: 65_536,
            remembered: 1_024,
            backlog: 1_024,
            transmits: 8_192,
            events: 16_384,
            service_timeout: TimeCode(24),
            max_service_timeout: TimeCode(26),
            min_response_timeout: TimeCode(14),
            max_response_timeout: TimeCode(22),
            max_time_wait: TimeCode(22),
            listener_patience_ns: 0,
            orphan_retries: 3,
        }
    }
}
