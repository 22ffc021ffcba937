//! Latencies by how often they were seen: 32 steps an octave, so a quantile is right to 3 %.

use crate::time::Time;

const STEP_BITS: u32 = 5;
const STEPS: usize = 1 << STEP_BITS;

/// How often each latency was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Latencies {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    most: Time,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies {
            counts: vec![0; STEPS * (65 - STEP_BITS as usize)],
            total: 0,
            sum: 0,
            most: Time::ZERO,
        }
    }
}

impl Latencies {
    /// One more.
    #[inline]
    pub fn add(&mut self, latency: Time) {
        self.counts[place(latency.0)] += 1;
        self.total += 1;
        self.sum += u128::from(latency.0);
        self.most = self.most.max(latency);
    }

    /// What came since an earlier state of the same. (The longest is only known as far as its step of 3 %.)
    pub fn since(&self, earlier: &Latencies) -> Latencies {
        let counts = self.counts.iter().zip(&earlier.counts);
        let counts: Vec<u64> = counts
            .map(|(now, then)| now.saturating_sub(*then))
            .collect();
        let last = counts.iter().rposition(|count| *count > 0);
        Latencies {
            total: self.total.saturating_sub(earlier.total),
            sum: self.sum.saturating_sub(earlier.sum),
            most: Time(last.map_or(0, last_of)).min(self.most),
            counts,
        }
    }

    /// Takes over what another has seen, which has seen nothing then.
    pub(crate) fn take(&mut self, other: &mut Latencies) {
        if other.total == 0 {
            return;
        }
        for (count, more) in self.counts.iter_mut().zip(&mut other.counts) {
            *count += std::mem::take(more);
        }
        self.total += std::mem::take(&mut other.total);
        self.sum += std::mem::take(&mut other.sum);
        self.most = self.most.max(std::mem::take(&mut other.most));
    }

    /// How many.
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// The longest.
    pub const fn most(&self) -> Time {
        self.most
    }

    /// The mean; 0 of none.
    pub fn mean(&self) -> Time {
        Time((self.sum / u128::from(self.total.max(1))) as u64)
    }

    /// The latency that a share (0 ..= 1) of them does not pass, to 3 %; 0 of none.
    pub fn quantile(&self, share: f64) -> Time {
        let wanted = (share.clamp(0.0, 1.0) * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Time(last_of(at)).min(self.most);
            }
        }
        Time::ZERO
    }
}

#[inline]
fn place(value: u64) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - STEP_BITS;
    ((shift as usize) << STEP_BITS) + (value >> shift) as usize
}

/// The greatest value of a place.
fn last_of(place: usize) -> u64 {
    if place < 2 * STEPS {
        return place as u64;
    }
    let shift = (place >> STEP_BITS) - 1;
    let first = ((place & (STEPS - 1)) + STEPS) as u128;
    (((first + 1) << shift) - 1).min(u64::MAX.into()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_three_percent() {
        let mut seen = Latencies::default();
        assert_eq!(seen.quantile(0.5), Time::ZERO);
        for ns in 1..=100_000u64 {
            seen.add(Time::from_ns(ns));
        }
        for share in [0.01, 0.5, 0.9, 0.99, 1.0] {
            let got = seen.quantile(share).0 as f64;
            let want = share * 1e8;
            assert!((got / want - 1.0).abs() < 0.035, "{share}: {got}");
        }
        assert_eq!(seen.most(), Time::from_ns(100_000));
        assert_eq!(seen.mean(), Time(50_000_500));
        for value in [0, 1, 31, 32, 33, 63, 64, 1 << 40, u64::MAX] {
            let last = last_of(place(value));
            assert!(last >= value && place(last) == place(value), "{value}");
        }
        let then = seen.clone();
        seen.add(Time::from_ns(7));
        let since = seen.since(&then);
        assert_eq!((since.count(), since.mean()), (1, Time::from_ns(7)));
        assert!(since.most() >= Time::from_ns(7) && since.most() < Time::from_ns(8));
        seen.add(Time(u64::MAX));
    }
}
