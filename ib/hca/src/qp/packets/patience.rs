//! How long a try waits for its answer at the least, whatever was asked for.
//!
//! Owns the bounds, and when which of them holds. Losses do not wait for this timer: silence is
//! asked about long before. Must not know how a try goes on.

use ferriband_transport::QueuePair;
use ferriband_transport::types::Instant;

use crate::base::crowd;

/// No try waits less; the next ones wait twice as long each.
pub(super) const TIMEOUT_FLOOR_NS: u64 = 8_000_000;
/// Where the machine is crowded none waits less than this, and nowhere does one wait longer than
/// this because others did before: a peer in software has to get a processor to answer. On one that
/// is busy it waits for several time slices, tens of milliseconds, and is as alive as ever.
const CROWDED_FLOOR_NS: u64 = 100_000_000;
/// A thread that comes so late to its timer had to wait for a processor itself.
const LATE_NS: u64 = 500_000;

/// A try is over by `judged`: perhaps the peer is to be waited for longer.
#[cold]
pub(super) fn end_try(machine: &mut QueuePair, judged: Instant) {
    let now = ferriband_memory::wait::now();
    let due = machine.poll_timeout().unwrap_or(now);
    let is_late = now.0.saturating_sub(due.0) > LATE_NS;
    let least_ns = match is_late || crowd::is_crowded(now.0) {
        true => CROWDED_FLOOR_NS,
        false => 0,
    };
    machine.end_try(judged, least_ns, CROWDED_FLOOR_NS);
}
