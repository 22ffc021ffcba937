//! The seeded sequence that decides everything in the simulators of upper protocols (SplitMix64).
//!
//! Owns: the sequence. Must not know: what is decided by it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// A sequence of numbers, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next number.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// A number in `low..=high`.
    pub const fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True `per_cent` times of a hundred.
    pub const fn chance(&mut self, per_cent: u64) -> bool {
        self.below(100) < per_cent
    }

    /// One of `items`, which are not empty.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    /// An index of something that has `count`, which is not 0.
    pub const fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }
}
