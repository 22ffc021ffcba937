//! Whether long messages go eagerly by memory that ranks share, or are read by their receiver: who
//! has copied some into a channel knows.
//!
//! Between cores that share a cache a line changes hands in 50 ns, and two copies by two cores that overlap beat one by the kernel up to 64 KiB. Where it takes 150 ns (cores of two
//! chips, or a virtual machine whose host has placed it so, which changes by the second) each copy comes to 2 or 3 GB/s, and the kernel's to 5 to 9.

/// A copy into a channel is slow below this, in bytes a nanosecond: fast ones have 15 to 25.
const LEAST: u64 = 6;
/// More slow copies than fast ones of late, from which on messages are asked for.
const SLOW: u8 = 2;
/// No more are remembered.
const MOST: u8 = 4;
/// While messages are asked for, one in so many goes eagerly all the same, to see how fast it is.
const PROBE: u8 = 32;

/// What is known of copies to one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    slow: u8,
    asked: u8,
}

impl Pace {
    /// Whether the next message goes eagerly.
    pub fn goes(&mut self) -> bool {
        if self.slow < SLOW {
            return true;
        }
        self.asked = (self.asked + 1) % PROBE;
        self.asked == 0
    }

    /// A message of so many bytes was copied in so many nanoseconds.
    pub fn note(&mut self, bytes: usize, took_ns: u128) {
        if took_ns.saturating_mul(u128::from(LEAST)) > bytes as u128 {
            self.slow = (self.slow + 1).min(MOST);
        } else {
            self.slow = self.slow.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `count` messages go eagerly, each taking so long if it does.
    fn eager(pace: &mut Pace, count: u32, took_ns: u128) -> u32 {
        let mut gone = 0;
        for _ in 0..count {
            if pace.goes() {
                pace.note(16384, took_ns);
                gone += 1;
            }
        }
        gone
    }

    #[test]
    fn slow_copies_are_left_to_the_kernel_until_they_are_fast_again() {
        let mut pace = Pace::default();
        assert_eq!(eager(&mut pace, 100, 900), 100);
        // A core that was lost for a moment is not yet a slow one.
        pace.note(16384, 4_000_000);
        assert_eq!(eager(&mut pace, 100, 900), 100);
        let gone = eager(&mut pace, 1000, 6000);
        assert!((30..40).contains(&gone), "{gone}");
        let gone = eager(&mut pace, 1000, 900);
        assert!((850..1000).contains(&gone), "{gone}");
    }
}
