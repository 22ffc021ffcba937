//! How much may be outstanding: a window in packets that grows with acknowledgements and shrinks with losses, and the
//! round trip that it is measured by.
//!
//! The wires below have no credits: a receiver's socket buffer overflows, and going back sends everything after a
//! loss again, so what is outstanding decides how much a loss costs. One window bounds requests on their way out,
//! another READ responses on their way back. Owns numbers only; knows neither queue nor packets.

use crate::types::Instant;
use ferriband_wire::Psn;

/// Bytes outstanding when a connection begins.
const START_BYTES: u32 = 128 << 10;
/// Packets below which a loss does not push a window.
const FLOOR: u32 = 64;
/// The same for a peer that keeps what comes after a gap: at one per cent of loss two gaps, so that one is found while another is filled.
const HOLDER_FLOOR: u32 = 192;
/// Packets that remain after an ack time-out.
const LEAST: u32 = 8;
/// A quarter of the PSN space. Both directions together stay within half of it, or an old PSN would look new
/// (IBA 9.7.2, I5).
const MOST: u32 = Psn::MODULUS / 4;
/// Silence of this many round trips makes a requester ask early whether anybody is there.
const SILENT_ROUND_TRIPS: u64 = 4;
/// Shortest pause that means something: a receiver that is behind takes a batch of packets in less.
const MOMENT_NS: u64 = 50_000;
/// DCQCN's g: one part in so many of the congestion estimate is new (Zhu et al., SIGCOMM 2015, section 3.1).
const ALPHA_PARTS: u32 = 16;
/// The estimate's full scale: everything is marked.
const ALPHA_ONE: u32 = 1 << 10;
/// DCQCN's timer: without marks the estimate shrinks by one part each such time.
const ALPHA_DECAY_NS: u64 = 55_000;

/// Upper bounds of what a queue pair has outstanding, in bytes of payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowLimit {
    /// Requests sent and not acknowledged.
    pub requests_bytes: u32,
    /// READ responses asked for and not received: they come without further asking, so this side must have
    /// room for them (half of its socket buffer, say).
    pub responses_bytes: u32,
}

impl Default for WindowLimit {
    fn default() -> Self {
        WindowLimit {
            requests_bytes: 1 << 20,
            responses_bytes: 1 << 20,
        }
    }
}

/// Packets that may be outstanding in one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    size: u32,
    most: u32,
    /// Up to here the window doubles with each round trip, beyond it grows by one packet.
    threshold: u32,
    /// Acknowledged since the last growth by one.
    counted: u32,
    /// The window was full since it last grew. One that is not used does not grow.
    full: bool,
}

impl Window {
    pub fn new(limit_bytes: u32, mtu: u32) -> Self {
        let most = (limit_bytes / mtu).clamp(1, MOST);
        Window {
            size: (START_BYTES / mtu).clamp(1, most),
            most,
            threshold: most,
            counted: 0,
            full: false,
        }
    }

    /// Changes the bound and keeps what was learned.
    pub fn limit(&mut self, limit_bytes: u32, mtu: u32) {
        self.most = (limit_bytes / mtu).clamp(1, MOST);
        self.set(self.size);
        self.threshold = self.threshold.min(self.most);
    }

    fn set(&mut self, size: u32) {
        self.size = size.clamp(LEAST.min(self.most), self.most);
    }

    pub fn size(&self) -> u32 {
        self.size
    }

    /// Something waited because of it.
    pub fn is_full(&mut self) {
        self.full = true;
    }

    /// So many packets arrived.
    pub fn acknowledged(&mut self, packets: u32) {
        if !self.full || self.size == self.most {
            return;
        }
        if self.size < self.threshold {
            self.full = false;
            self.set(self.size.saturating_add(packets).min(self.threshold));
            return;
        }
        self.counted += packets;
        if self.counted >= self.size {
            self.counted = 0;
            self.full = false;
            self.set(self.size + 1);
        }
    }

    /// A gap. A quarter less, but not below what the path holds when its queues are empty, and some more to measure it
    /// by: less would leave it idle and make no loss less likely that no queue caused. Going back already costs a window
    /// for each loss, so this is milder than TCP's half.
    ///
    /// A peer that `holds` what comes after a gap costs a loss one packet, and two round trips in which the window does not move: it
    /// stays wide enough for them.
    pub fn lost(&mut self, path: u32, holds: bool) {
        let held = match holds {
            true => HOLDER_FLOOR,
            false => path.saturating_add(path / 4),
        };
        let size = (self.size - self.size / 4).max(held).max(FLOOR);
        let size = size.min(self.size);
        self.set(size);
        self.threshold = self.size;
        self.counted = 0;
    }

    /// The ack time-out: nobody knows what the path holds now.
    pub fn timed_out(&mut self) {
        self.threshold = (self.size / 2).max(LEAST);
        self.set(LEAST);
        self.counted = 0;
    }

    /// Congestion was signalled: by half of `alpha` parts of [`ALPHA_ONE`].
    fn marked(&mut self, alpha: u32) {
        let cut = u64::from(self.size) * u64::from(alpha) / u64::from(2 * ALPHA_ONE);
        // At most half of a u32.
        self.set(self.size - cut as u32);
        self.threshold = self.size;
    }
}

/// A packet under way whose round trip is measured.
#[derive(Clone, Copy, Debug)]
struct Timed {
    psn: Psn,
    sent: Instant,
    /// Packets that had arrived by then.
    arrived: u64,
}

/// The round trip, measured by one packet at a time, and what the path holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    timed: Option<Timed>,
    arrived: u64,
    smooth_ns: u64,
    least_ns: u64,
    /// Packets on the path when its queues are empty.
    path: u32,
    alpha: u32,
    marked_at: Option<Instant>,
}

impl RoundTrip {
    /// A packet that was never sent before leaves and will be answered without waiting for others.
    pub fn sent(&mut self, now: Instant, psn: Psn) {
        if self.timed.is_none() {
            let arrived = self.arrived;
            self.timed = Some(Timed {
                psn,
                sent: now,
                arrived,
            });
        }
    }

    /// What was measured is sent again: an answer could belong to either.
    pub fn forget(&mut self) {
        self.timed = None;
    }

    /// `packets` more have arrived, everything before `una`.
    pub fn arrived(&mut self, now: Instant, una: Psn, packets: u32) {
        self.arrived += u64::from(packets);
        let Some(timed) = self.timed else { return };
        if !una.after(timed.psn) {
            return;
        }
        self.timed = None;
        let ns = now.0.saturating_sub(timed.sent.0).max(1);
        if self.smooth_ns == 0 {
            self.smooth_ns = ns;
            self.least_ns = ns;
        }
        self.smooth_ns = self.smooth_ns - self.smooth_ns / 8 + ns / 8;
        // Forgets slowly, for the path may have changed.
        self.least_ns = ns.min(self.least_ns + self.least_ns / 64 + 1);
        // What arrived during a round trip, less what it waited in queues.
        let during = u128::from(self.arrived - timed.arrived);
        let path = during * u128::from(self.least_ns) / u128::from(ns);
        let fading = self.path - self.path / 8;
        self.path = u32::try_from(path).unwrap_or(u32::MAX).max(fading);
    }

    /// Packets on the path when its queues are empty, as far as is known.
    pub fn path(&self) -> u32 {
        self.path
    }

    /// Silence that is worth a question; `least_ns` at the least.
    pub fn silence_ns(&self, least_ns: u64) -> u64 {
        least_ns.max(self.smooth_ns.saturating_mul(SILENT_ROUND_TRIPS))
    }

    /// A pause among acknowledgements that means that no more are under way.
    pub fn moment_ns(&self) -> u64 {
        MOMENT_NS.max(self.smooth_ns.saturating_mul(2))
    }

    /// The smoothed round trip in nanoseconds; 0: none was measured.
    pub fn smooth_ns(&self) -> u64 {
        self.smooth_ns
    }

    /// A congestion notification: the window shrinks by half of the fraction of marked packets, as DCQCN
    /// estimates it from how often it is told.
    pub fn congested(&mut self, now: Instant, window: &mut Window) {
        let fresh = ALPHA_ONE / ALPHA_PARTS;
        self.alpha = match self.marked_at {
            None => ALPHA_ONE,
            Some(before) => {
                let quiet = now.0.saturating_sub(before.0) / ALPHA_DECAY_NS;
                let mut alpha = self.alpha;
                // After 128 steps of a sixteenth less than a thousandth is left.
                for _ in 0..quiet.min(128) {
                    alpha -= alpha.div_ceil(ALPHA_PARTS);
                }
                (alpha - alpha / ALPHA_PARTS + fresh).min(ALPHA_ONE)
            }
        };
        self.marked_at = Some(now);
        window.marked(self.alpha);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(window: &mut Window, packets: u32) {
        window.is_full();
        window.acknowledged(packets);
    }

    #[test]
    fn a_window_doubles_until_a_loss_and_then_grows_by_one() {
        let mut window = Window::new(1 << 20, 1024);
        assert_eq!(window.size(), 128);
        full(&mut window, 128);
        assert_eq!(window.size(), 256);
        window.lost(0, false);
        assert_eq!(window.size(), 192);
        full(&mut window, 191);
        assert_eq!(window.size(), 192);
        full(&mut window, 1);
        assert_eq!(window.size(), 193);
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let mut window = Window::new(1 << 20, 1024);
        window.acknowledged(1000);
        assert_eq!(window.size(), 128);
    }

    #[test]
    fn losses_stop_at_what_the_path_holds_and_at_the_floor() {
        let mut window = Window::new(1 << 20, 1024);
        window.lost(96, false);
        assert_eq!(window.size(), 120);
        for _ in 0..9 {
            window.lost(0, false);
        }
        assert_eq!(window.size(), FLOOR);
        window.lost(400, false);
        assert_eq!(window.size(), FLOOR, "a loss never widens");
        window.timed_out();
        assert_eq!(window.size(), LEAST);
    }

    #[test]
    fn the_bound_of_the_driver_holds_even_below_the_floor() {
        let mut window = Window::new(2048, 1024);
        full(&mut window, 100);
        window.lost(0, false);
        assert_eq!(window.size(), 2);
        window.limit(1 << 20, 1024);
        full(&mut window, 100);
        assert!(window.size() > 2);
        window.limit(100, 1024);
        assert_eq!(window.size(), 1, "one packet always fits");
    }

    #[test]
    fn i5_no_more_than_half_the_psn_space_is_outstanding() {
        let mut window = Window::new(u32::MAX, 256);
        for _ in 0..30 {
            full(&mut window, u32::MAX / 2);
        }
        assert_eq!(2 * window.size(), Psn::MODULUS / 2);
    }

    #[test]
    fn the_path_is_what_arrives_in_a_round_trip_without_queues() {
        let mut trip = RoundTrip::default();
        trip.sent(Instant(0), Psn::new(0));
        trip.arrived(Instant(10_000), Psn::new(1), 1);
        assert_eq!((trip.smooth_ns(), trip.path()), (10_000, 1));
        // 40 packets in 20 us, of which 10 us were spent in queues: 20 fill the path.
        trip.sent(Instant(20_000), Psn::new(1));
        trip.arrived(Instant(30_000), Psn::new(1), 0);
        trip.arrived(Instant(40_000), Psn::new(41), 40);
        assert_eq!(trip.path(), 20);
        trip.sent(Instant(50_000), Psn::new(41));
        trip.forget();
        trip.arrived(Instant(90_000), Psn::new(81), 40);
        assert_eq!(trip.path(), 20, "nothing was measured");
    }

    #[test]
    fn rare_marks_cut_less_than_frequent_ones() {
        let (mut often, mut seldom) = (RoundTrip::default(), RoundTrip::default());
        let cut = |trip: &mut RoundTrip, at| {
            let mut window = Window::new(1 << 20, 1024);
            trip.congested(Instant(at), &mut window);
            window.size()
        };
        assert_eq!(cut(&mut often, 0), 64, "the first halves");
        cut(&mut seldom, 0);
        for i in 1..40 {
            cut(&mut often, i * 50_000);
            cut(&mut seldom, i * 10_000_000);
        }
        assert!(cut(&mut often, 2_000_000) < cut(&mut seldom, 400_000_000));
    }
}
