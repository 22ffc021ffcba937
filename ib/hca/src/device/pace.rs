//! How fast a queue pair's packets may go: at the least of what its program, its path and its device allow.
//!
//! Owns the arithmetic: each packet moves a time forward by as long as it takes at the limit (a generic cell rate algorithm); while that time is
//! more than a burst ahead of the clock, nothing more may go. Must not know: packets. Without a limit it costs one look at a flag.

use std::sync::atomic::{AtomicU64, Ordering};

/// How far what was sent may be ahead of the limit.
const BURST_NS: u64 = 200_000;
/// What a sender that was late may make up for: a process may wait so long for a core.
const CREDIT_NS: u64 = 2_000_000;

/// How long `bytes` take at a limit, in nanoseconds.
fn cost_ns(bytes: usize, kbps: u64) -> u64 {
    bytes as u64 * 8_000_000 / kbps.max(1)
}

/// When the next packet may go, given when all before it would have gone at the limit; None: now.
fn wait(next_at: u64, now: u64) -> Option<u64> {
    // half a burst later there is room for more than one packet
    (next_at > now + BURST_NS).then(|| next_at - BURST_NS / 2)
}

fn charged(next_at: u64, now: u64, cost_ns: u64) -> u64 {
    next_at.max(now.saturating_sub(CREDIT_NS)) + cost_ns
}

/// A limit that all queue pairs of a device share.
#[derive(Debug, Default)]
pub(crate) struct SharedPace(AtomicU64);

impl SharedPace {
    fn charge(&self, now: u64, cost_ns: u64) {
        let advance = |next_at| Some(charged(next_at, now, cost_ns));
        // the closure never refuses
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance);
    }
}

/// The limits of a queue pair.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// There is a limit at all.
    on: bool,
    /// Of its program and path, in kbit/s; 0: none.
    own_kbps: u64,
    /// Of its device.
    device_kbps: u64,
    next_at: u64,
}

impl Pace {
    /// Sets the limits; 0 is none.
    pub fn set(&mut self, own_kbps: u64, device_kbps: u64) {
        (self.own_kbps, self.device_kbps) = (own_kbps, device_kbps);
        self.on = own_kbps != 0 || device_kbps != 0;
    }

    /// Nothing has a say: neither [`Self::wait`] nor [`Self::charge`] is needed.
    pub fn is_off(&self) -> bool {
        !self.on
    }

    /// When the next packet may go; None: now.
    #[inline]
    pub fn wait(&self, device: &SharedPace, now: u64) -> Option<u64> {
        if !self.on {
            return None;
        }
        let own = wait(self.next_at, now);
        let shared = (self.device_kbps != 0)
            .then(|| wait(device.0.load(Ordering::Relaxed), now))
            .flatten();
        own.max(shared)
    }

    /// A packet goes, of this length. `path_kbps` is the limit of its own path, where it has one (UD); else 0.
    #[inline]
    pub fn charge(&mut self, device: &SharedPace, now: u64, bytes: usize, path_kbps: u64) {
        if !self.on && path_kbps == 0 {
            return;
        }
        self.on = true;
        if let Some(kbps) = least(self.own_kbps, path_kbps) {
            self.next_at = charged(self.next_at, now, cost_ns(bytes, kbps));
        }
        if self.device_kbps != 0 {
            device.charge(now, cost_ns(bytes, self.device_kbps));
        }
    }
}

/// The lesser of two limits of which 0 is none.
pub(crate) fn least(a: u64, b: u64) -> Option<u64> {
    match (a, b) {
        (0, 0) => None,
        (0, one) | (one, 0) => Some(one),
        (a, b) => Some(a.min(b)),
    }
}

/// The limit that a static rate sets (`ibv_rate`), in kbit/s; 0 for one that the port does not reach anyway, or for none.
pub(crate) fn static_rate_kbps(code: u8, port_mbps: u32) -> u64 {
    // hundreds of Mbit/s, by the IBA's codes (table 91 and later ones)
    let hundreds: u64 = match code {
        2 => 25,
        3 => 100,
        4 => 300,
        5 => 50,
        6 => 200,
        7 => 400,
        8 => 600,
        9 => 800,
        10 => 1200,
        11 => 140,
        12 => 560,
        13 => 1120,
        14 => 1680,
        15 => 250,
        16 => 1000,
        17 => 2000,
        18 => 3000,
        19 => 280,
        20 => 500,
        21 => 4000,
        22 => 6000,
        23 => 8000,
        24 => 12_000,
        _ => 0,
    };
    let slower = port_mbps == 0 || hundreds * 100 < u64::from(port_mbps);
    if slower { hundreds * 100_000 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that go within `for_ns`, when a sender always has packets of `bytes` and looks every `tick` nanoseconds.
    fn sent(pace: &mut Pace, device: &SharedPace, for_ns: u64, tick: u64, bytes: usize) -> u64 {
        let mut total = 0;
        let begin = 1_000_000_000;
        for now in (begin..begin + for_ns).step_by(tick as usize) {
            while pace.wait(device, now).is_none() {
                pace.charge(device, now, bytes, 0);
                total += bytes as u64;
            }
        }
        total
    }

    #[test]
    fn the_rate_is_kept_however_often_somebody_looks() {
        for (kbps, tick) in [(8_000_000, 10_000), (8_000_000, 150_000), (80_000, 1000)] {
            let mut pace = Pace::default();
            pace.set(kbps, 0);
            let got = sent(&mut pace, &SharedPace::default(), 1_000_000_000, tick, 1000);
            let wanted = kbps * 125;
            let off = got.abs_diff(wanted) as f64 / wanted as f64;
            assert!(off < 0.01, "{kbps} kbit/s: {got} bytes, not {wanted}");
        }
    }

    #[test]
    fn a_device_is_shared_and_the_least_limit_counts() {
        let device = SharedPace::default();
        let mut all = [Pace::default(), Pace::default()];
        all.iter_mut().for_each(|pace| pace.set(0, 800_000));
        let mut total = 0;
        for now in (1_000_000_000u64..2_000_000_000).step_by(20_000) {
            for pace in &mut all {
                if pace.wait(&device, now).is_none() {
                    pace.charge(&device, now, 1000, 0);
                    total += 1000u64;
                }
            }
        }
        assert!(total.abs_diff(100_000_000) < 1_000_000, "{total}");
        let mut pace = Pace::default();
        pace.set(80_000, 800_000);
        let got = sent(
            &mut pace,
            &SharedPace::default(),
            1_000_000_000,
            10_000,
            1000,
        );
        assert!(got.abs_diff(10_000_000) < 200_000, "{got}");
    }

    #[test]
    fn without_a_limit_nothing_waits() {
        let (mut pace, device) = (Pace::default(), SharedPace::default());
        for _ in 0..1000 {
            assert_eq!(pace.wait(&device, 5), None);
            pace.charge(&device, 5, 4096, 0);
        }
        // a datagram's own path may have one
        for _ in 0..1000 {
            pace.charge(&device, 5, 4096, 2_500_000);
        }
        assert!(pace.wait(&device, 5).is_some());
    }

    #[test]
    fn a_packet_longer_than_a_burst_goes_and_the_next_waits() {
        let (mut pace, device) = (Pace::default(), SharedPace::default());
        pace.set(1, 0);
        assert_eq!(pace.wait(&device, 1_000_000_000), None);
        pace.charge(&device, 1_000_000_000, 1000, 0);
        let at = pace.wait(&device, 1_000_000_000).unwrap();
        // 8 s at 1 kbit/s
        assert!(at > 8_500_000_000);
    }

    #[test]
    fn a_static_rate_limits_only_below_the_ports_own() {
        assert_eq!(static_rate_kbps(0, 10_000), 0);
        assert_eq!(static_rate_kbps(2, 10_000), 2_500_000);
        assert_eq!(static_rate_kbps(3, 10_000), 0);
        assert_eq!(static_rate_kbps(16, 0), 100_000_000);
    }
}
