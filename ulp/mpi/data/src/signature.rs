//! Type signatures (MPI 5.1): the sequence of basic types without their places, as a hash that does not depend on how the type was made.
//!
//! A sequence is a polynomial over the field of 2^61 - 1, so a concatenation, and a repetition in logarithmic time, is computed
//! from the parts' hashes. Two equal sequences have equal signatures; two different ones have equal ones by an accident of 2^-61.

use ferriband_arithmetic::Kind;

const PRIME: u64 = (1 << 61) - 1;
/// The point at which the polynomial is evaluated: any large number will do.
const BASE: u64 = 0x0b4d_90c3_7e55_1d6b;

/// What a message or a collective's argument consists of. Kinds count, not names: MPI_INT and MPI_INT32_T agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signature {
    hash: u64,
    /// `BASE` to the power of the number of elements.
    power: u64,
    bytes: i64,
    packed: bool,
}

impl Signature {
    /// Of no elements.
    pub const EMPTY: Self = Self {
        hash: 0,
        power: 1,
        bytes: 0,
        packed: false,
    };

    pub(crate) fn of(kind: Kind) -> Self {
        match kind.parts() {
            Some([(value, _), (index, _)]) => Self::of(value).then(Self::of(index)),
            None => Self {
                // small and never 0, so that the number of elements counts
                hash: kind as u64 + 1,
                power: BASE,
                bytes: kind.size(),
                packed: kind == Kind::Packed,
            },
        }
    }

    /// This sequence, followed by another.
    pub(crate) fn then(self, next: Self) -> Self {
        Self {
            hash: add(multiply(self.hash, next.power), next.hash),
            power: multiply(self.power, next.power),
            bytes: self.bytes.saturating_add(next.bytes),
            packed: self.packed || next.packed,
        }
    }

    /// This sequence `count` times.
    pub fn repeat(self, count: i64) -> Self {
        let (mut result, mut square, mut left) = (Self::EMPTY, self, count.max(0));
        while left > 0 {
            if left & 1 == 1 {
                result = result.then(square);
            }
            square = square.then(square);
            left >>= 1;
        }
        result
    }

    /// The hash, to be compared between processes.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Bytes of data.
    pub fn bytes(&self) -> i64 {
        self.bytes
    }

    /// True if MPI_PACKED is among the types: then any sequence of as many bytes matches (3.3.1).
    pub fn is_packed(&self) -> bool {
        self.packed
    }

    /// True if data of one may be received as the other, both whole.
    pub fn matches(&self, other: &Self) -> bool {
        self.bytes == other.bytes && (self.packed || other.packed || self.hash == other.hash)
    }
}

fn add(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= PRIME { sum - PRIME } else { sum }
}

fn multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    add((product & u128::from(PRIME)) as u64, (product >> 61) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sequence_counts() {
        let (int, double) = (Signature::of(Kind::I32), Signature::of(Kind::F64));
        let once = int.then(int).then(double);
        assert_eq!(int.repeat(2).then(double), once);
        assert_eq!(once.repeat(3), once.then(once.repeat(2)));
        assert_ne!(once, int.then(double).then(int));
        assert_ne!(int.repeat(2), int.repeat(3));
        assert_ne!(int.repeat(2), Signature::of(Kind::I64));
        assert_eq!(Signature::of(Kind::DoubleInt), double.then(int));
        assert_eq!(int.repeat(0), Signature::EMPTY);
    }

    #[test]
    fn packed_matches_anything_of_its_size() {
        let packed = Signature::of(Kind::Packed);
        let int = Signature::of(Kind::I32);
        assert!(packed.repeat(4).matches(&int));
        assert!(!packed.repeat(5).matches(&int));
        assert!(!Signature::of(Kind::Byte).repeat(4).matches(&int));
    }

    #[test]
    fn huge_counts_do_not_panic() {
        let huge = Signature::of(Kind::C128).repeat(i64::MAX);
        assert_eq!(huge.bytes(), i64::MAX);
    }
}
