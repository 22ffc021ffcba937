//! Random numbers from the caller's seed: SplitMix64 (Steele, Lea and Flood, 2014). The same seed gives the same run on every machine.

/// A seeded source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Random(u64);

impl Random {
    /// A source for a seed. Sources of one seed and different streams have nothing in common.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut source = Random(seed);
        let mixed = source.bits() ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        Random(mixed)
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if that is 0. The shares differ by less than bound / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u32
    }

    /// A number of 0 .. 1, never 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_streams_differ() {
        let mut random = Random::new(1, 2);
        let mut seen = [0u32; 7];
        for _ in 0..70_000 {
            seen[random.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (9_500..10_500).contains(n)), "{seen:?}");
        assert_ne!(Random::new(1, 2).bits(), Random::new(1, 3).bits());
        assert_eq!(random.below(0), 0);
        let mean = (0..10_000).map(|_| random.unit()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }
}
