//! How long a try waits for its answer at the least, whatever was asked for.
//!
//! Owns the bounds, and when which of them holds. Losses do not wait for this timer: silence is
//! asked about long before. Must not know how a try goes on.

use std::sync::atomic::Ordering;

use ferriband_transport::QueuePair;
use ferriband_transport::types::Instant;

use crate::base::crowd;
use crate::qp::adapter::Adapter;

/// No try waits less; the next ones wait twice as long each.
pub(super) const TIMEOUT_FLOOR_NS: u64 = 8_000_000;
/// Where the machine is crowded none waits less than this, and nowhere does one wait longer than
/// this because others did before: a peer in software has to get a processor to answer. On one that
/// is busy it waits for several time slices, tens of milliseconds, and is as alive as ever.
const CROWDED_FLOOR_NS: u64 = 100_000_000;
/// A thread that comes so late to its timer had to wait for a processor itself.
const LATE_NS: u64 = 500_000;

/// A try is over by `judged`, and the timer was set to `due`: perhaps the peer is to be waited for
/// longer.
#[cold]
pub(super) fn let_try_go_on(adapter: &Adapter, machine: &mut QueuePair, judged: Instant, due: u64) {
    // pollers that lose their processor again and again know it
    let known = adapter.polls.naps.load(Ordering::Relaxed) > 0;
    let late = ferriband_memory::wait::now().0.saturating_sub(due) > LATE_NS;
    let least_ns = match known || late || crowd::is_crowded() {
        true => CROWDED_FLOOR_NS,
        false => 0,
    };
    machine.let_try_go_on(judged, least_ns, CROWDED_FLOOR_NS);
}
