//! Time in a fabric, and how long bytes take on a link.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A point or a length of time in the fabric, in picoseconds: a 64-byte block of a 12x NDR link lasts 427 of them, so
/// nanoseconds would not do. It lasts for 213 days.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Time(pub u64);

impl Time {
    /// The beginning.
    pub const ZERO: Time = Time(0);
    /// Later than anything that happens.
    pub const NEVER: Time = Time(u64::MAX);

    /// So many nanoseconds.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns.saturating_mul(1_000))
    }

    /// So many microseconds.
    pub const fn from_us(us: u64) -> Time {
        Time(us.saturating_mul(1_000_000))
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The time that has passed since `earlier`; none if that is later.
    pub const fn since(self, earlier: Time) -> Time {
        Time(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Time {
    type Output = Time;

    #[inline]
    fn add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Time {
    #[inline]
    fn add_assign(&mut self, other: Time) {
        *self = *self + other;
    }
}

impl Sub for Time {
    type Output = Time;

    #[inline]
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ps", self.0)
    }
}

/// Binary digits behind the point of a byte's picoseconds.
const FRACTION_BITS: u32 = 20;

/// How long a byte is on a wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ByteTime {
    /// Picoseconds, a fixed-point number.
    scaled: u64,
}

impl ByteTime {
    /// See [`LinkRate::wire_time`].
    #[inline]
    pub const fn wire_time(self, bytes: u32) -> Time {
        let half = 1 << (FRACTION_BITS - 1);
        Time((bytes as u64 * self.scaled + half) >> FRACTION_BITS)
    }

    /// See [`LinkRate::faster_than`].
    #[inline]
    pub const fn faster_than(self, other: ByteTime) -> bool {
        self.scaled < other.scaled
    }
}

/// How fast a link is: what its lanes carry together and how many they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkRate {
    kbps: u64,
    lanes: u8,
    byte: ByteTime,
}

impl LinkRate {
    /// A link of `lanes` lanes that carry `kbps` (1,000 bit per second, the line code taken off) together. Zero of
    /// either counts as one.
    pub const fn new(kbps: u64, lanes: u8) -> LinkRate {
        let kbps = if kbps == 0 { 1 } else { kbps };
        let lanes = if lanes == 0 { 1 } else { lanes };
        let scaled = (8_000_000_000u128 << FRACTION_BITS) / kbps as u128;
        LinkRate {
            kbps,
            lanes,
            byte: ByteTime {
                scaled: scaled as u64,
            },
        }
    }

    /// Data rate in kbit (1,000 bit) per second.
    pub const fn kbps(&self) -> u64 {
        self.kbps
    }

    /// How long so many bytes are on the wire, rounded to the next picosecond.
    #[inline]
    pub const fn wire_time(&self, bytes: u32) -> Time {
        self.byte.wire_time(bytes)
    }

    /// The time of a byte.
    pub(crate) const fn byte_time(&self) -> ByteTime {
        self.byte
    }

    /// The time of a symbol: a byte on each lane (papers/000 II-D counts flow control in symbol times).
    pub const fn symbols(&self, count: u64) -> Time {
        Time((self.wire_time(self.lanes as u32).0) * count)
    }

    /// A link of this rate is faster than the other.
    #[inline]
    pub const fn faster_than(&self, other: &LinkRate) -> bool {
        self.byte.faster_than(other.byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_symbols_last_as_long_as_the_rates_say() {
        // 4x SDR: 8 Gb/s, a byte a nanosecond, a symbol of four bytes every 4 ns.
        let sdr = LinkRate::new(8_000_000, 4);
        assert_eq!(sdr.wire_time(2048), Time::from_ns(2048));
        assert_eq!(sdr.symbols(65_536), Time::from_ns(4 * 65_536));
        // 4x EDR: 100 Gb/s, 80 ps a byte; 12x NDR: 1,200 Gb/s, 6.67 ps a byte.
        assert_eq!(LinkRate::new(100_000_000, 4).wire_time(100), Time(8_000));
        let ndr = LinkRate::new(1_200_000_000, 12);
        assert_eq!(ndr.wire_time(64), Time(427));
        assert_eq!(ndr.wire_time(6), Time(40));
        assert!(ndr.faster_than(&sdr) && !sdr.faster_than(&sdr));
        assert_eq!(LinkRate::new(0, 0).kbps(), 1);
    }
}
