//! Swaps: their conditions, and their masks.
//!
//! Elements are bytes here, of the kind's size, in the order of the machine.

use crate::float::{f16_to_f32, f80_to_f128, order_of_f128};
use crate::kind::Kind;
use std::cmp::Ordering;

/// When a conditional swap swaps: how its operand has to compare with the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Condition {
    /// operand == target
    Equal,
    /// operand != target
    NotEqual,
    /// operand <= target
    AtMost,
    /// operand < target
    Less,
    /// operand >= target
    AtLeast,
    /// operand > target
    Greater,
}

impl Condition {
    /// Whether an operand that compares so with the target meets it. None: one of them is no
    /// number, or they are complex and differ.
    pub fn is_met(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::AtMost => order.is_some_and(Ordering::is_le),
            Self::Less => order.is_some_and(Ordering::is_lt),
            Self::AtLeast => order.is_some_and(Ordering::is_ge),
            Self::Greater => order.is_some_and(Ordering::is_gt),
        }
    }
}

/// The bits of `target` that are set in `mask` become those of `data`; as many bytes as all three
/// have.
pub fn swap_masked(data: &[u8], mask: &[u8], target: &mut [u8]) {
    for ((target, data), mask) in target.iter_mut().zip(data).zip(mask) {
        *target = (*data & mask) | (*target & !mask);
    }
}

macro_rules! order {
    ($type:ty, $left:expr, $right:expr) => {{
        let value = |bytes: &[u8]| Some(<$type>::from_ne_bytes(bytes.try_into().ok()?));
        value($left)?.partial_cmp(&value($right)?)
    }};
}

/// Compares two elements. None: one of them is no number, they are complex and differ, they have
/// another size than the kind, or the kind has no order (pairs, packed bytes).
pub fn compare(kind: Kind, left: &[u8], right: &[u8]) -> Option<Ordering> {
    let size = kind.size() as usize;
    if left.len() != size || right.len() != size {
        return None;
    }
    match kind {
        Kind::I8 | Kind::Char => order!(i8, left, right),
        Kind::U8 | Kind::Byte | Kind::Bool | Kind::L8 => order!(u8, left, right),
        Kind::I16 => order!(i16, left, right),
        Kind::U16 | Kind::L16 => order!(u16, left, right),
        Kind::I32 | Kind::Wchar => order!(i32, left, right),
        Kind::U32 | Kind::L32 => order!(u32, left, right),
        Kind::I64 | Kind::Long => order!(i64, left, right),
        Kind::U64 | Kind::Ulong | Kind::L64 => order!(u64, left, right),
        Kind::I128 => order!(i128, left, right),
        Kind::L128 => order!(u128, left, right),
        Kind::F16 => {
            let value = |bytes: &[u8]| Some(f16_to_f32(u16::from_ne_bytes(bytes.try_into().ok()?)));
            value(left)?.partial_cmp(&value(right)?)
        }
        Kind::F32 => order!(f32, left, right),
        Kind::F64 => order!(f64, left, right),
        Kind::F80 => {
            let value = |bytes: &[u8]| order_of_f128(f80_to_f128(*bytes.first_chunk()?));
            Some(value(left)?.cmp(&value(right)?))
        }
        Kind::F128 => {
            let value = |bytes: &[u8]| order_of_f128(u128::from_ne_bytes(bytes.try_into().ok()?));
            Some(value(left)?.cmp(&value(right)?))
        }
        Kind::C16 => equal(Kind::F16, left, right),
        Kind::C32 => equal(Kind::F32, left, right),
        Kind::C64 => equal(Kind::F64, left, right),
        Kind::C80 => equal(Kind::F80, left, right),
        Kind::C128 => equal(Kind::F128, left, right),
        Kind::Packed
        | Kind::FloatInt
        | Kind::DoubleInt
        | Kind::LongInt
        | Kind::IntInt
        | Kind::ShortInt
        | Kind::LongDoubleInt
        | Kind::FloatFloat
        | Kind::DoubleDouble => None,
    }
}

/// Complex values have no order: equal, or not.
fn equal(part: Kind, left: &[u8], right: &[u8]) -> Option<Ordering> {
    let half = left.len() / 2;
    let real = compare(part, &left[..half], &right[..half])?;
    let imaginary = compare(part, &left[half..], &right[half..])?;
    (real.is_eq() && imaginary.is_eq()).then_some(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::float::f128_to_f80;

    /// A long double of the x87, from binary128's bits.
    fn long(quad: u128) -> [u8; 16] {
        let mut bytes = [0x77; 16];
        bytes[..10].copy_from_slice(&f128_to_f80(quad));
        bytes
    }

    const ONE: u128 = 0x3fff << 112;
    const TWO: u128 = 0x4000 << 112;
    const SIGN: u128 = 1 << 127;

    #[test]
    fn conditions_are_the_operands_beside_the_target() {
        use Condition::*;
        let all = [Equal, NotEqual, AtMost, Less, AtLeast, Greater];
        let less = [false, true, true, true, false, false];
        let equal = [true, false, true, false, true, false];
        for (condition, (less, equal)) in all.into_iter().zip(less.into_iter().zip(equal)) {
            let of = |kind, one: &[u8], two: &[u8]| {
                let met = |left, right| condition.is_met(compare(kind, left, right));
                assert_eq!(met(one, two), less, "{condition:?} {kind:?}");
                assert_eq!(met(one, one), equal, "{condition:?} {kind:?}");
            };
            of(Kind::I8, &[0xff], &[1]);
            of(Kind::U8, &[1], &[0xff]);
            of(Kind::I64, &(-5_i64).to_ne_bytes(), &3_i64.to_ne_bytes());
            let (one, two) = (-0.5_f64, 0.25_f64);
            of(Kind::F64, &one.to_ne_bytes(), &two.to_ne_bytes());
            of(Kind::F80, &long(SIGN | TWO), &long(SIGN | ONE));
            of(Kind::F80, &long(SIGN), &long(ONE));
            of(Kind::F16, &0xbc00_u16.to_ne_bytes(), &0_u16.to_ne_bytes());
        }
    }

    #[test]
    fn what_has_no_order_differs() {
        let (one, nan) = (1.0_f32.to_ne_bytes(), f32::NAN.to_ne_bytes());
        assert_eq!(compare(Kind::F32, &one, &nan), None);
        let complex = [1.0_f32.to_ne_bytes(), 2.0_f32.to_ne_bytes()].concat();
        let other = [1.0_f32.to_ne_bytes(), 3.0_f32.to_ne_bytes()].concat();
        assert_eq!(
            compare(Kind::C32, &complex, &complex),
            Some(Ordering::Equal)
        );
        assert_eq!(compare(Kind::C32, &complex, &other), None);
        assert_eq!(compare(Kind::IntInt, &[0; 8], &[0; 8]), None);
        assert_eq!(compare(Kind::I32, &[0; 3], &[0; 4]), None);
        assert_eq!(
            compare(Kind::F80, &long(0), &long(SIGN)),
            Some(Ordering::Equal)
        );
    }

    #[test]
    fn masks_choose_bits() {
        let mut target = [0b1100_0011];
        swap_masked(&[0b0101_0101], &[0b0000_1111], &mut target);
        assert_eq!(target, [0b1100_0101]);
    }
}
