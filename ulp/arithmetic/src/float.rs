//! Floating point formats that Rust has no types for, as bits: binary16, the x87's 80 bits, binary128.

/// binary16 to binary32: exact.
pub(crate) fn f16_to_f32(half: u16) -> f32 {
    let sign = u32::from(half >> 15) << 31;
    let exponent = u32::from(half >> 10 & 0x1f);
    let fraction = u32::from(half & 0x3ff);
    let magnitude = match (exponent, fraction) {
        (0, 0) => 0,
        // A subnormal number is its fraction in units of 2^-24.
        (0, _) => (fraction as f32 * (1.0 / 16_777_216.0)).to_bits(),
        (0x1f, _) => 0xff << 23 | fraction << 13,
        _ => (exponent + 112) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// binary32 to binary16, to nearest, ties to even.
pub(crate) fn f32_to_f16(single: f32) -> u16 {
    let bits = single.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0xff << 23 {
        return sign | 0x7e00 | (magnitude >> 13 & 0x1ff) as u16;
    }
    // 65520 is half-way between the largest number and the next power of two, and rounds up.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    let (kept, shift) = if magnitude >= 113 << 23 {
        (magnitude - (112 << 23), 13)
    } else {
        let shift = 126 - (magnitude >> 23);
        if shift > 24 {
            return sign;
        }
        (magnitude & 0x7f_ffff | 0x80_0000, shift)
    };
    let rest = kept & ((1 << shift) - 1);
    let half = 1 << (shift - 1);
    let floor = kept >> shift;
    let up = rest > half || (rest == half && floor & 1 == 1);
    sign | (floor + u32::from(up)) as u16
}

/// The fraction of binary128.
const FRACTION: u128 = (1 << 112) - 1;
/// Bits of binary128's fraction beyond the x87's 63.
const EXTRA: u32 = 112 - 63;
/// The x87's bit before the point, which binary128 leaves out.
const INTEGER: u64 = 1 << 63;

/// The x87's extended format (little-endian, its first 10 bytes) to binary128: exact.
pub fn f80_to_f128(extended: [u8; 10]) -> u128 {
    let (mantissa, top) = extended.split_at(8);
    let mantissa = u64::from_le_bytes(mantissa.try_into().expect("8 of 10 bytes"));
    let top = u16::from_le_bytes(top.try_into().expect("2 of 10 bytes"));
    let sign = u128::from(top >> 15) << 127;
    let exponent = top & 0x7fff;
    let fraction = u128::from(mantissa & !INTEGER) << EXTRA;
    let exponent = match exponent {
        // With the integer bit the number is the smallest normal one or more.
        0 => u128::from(mantissa >> 63),
        // Without it the bits are no number at all.
        _ if mantissa & INTEGER == 0 => return sign | 0x7fff << 112 | 1 << 111,
        _ => u128::from(exponent),
    };
    sign | exponent << 112 | fraction
}

/// binary128 to the x87's extended format, to nearest, ties to even.
pub fn f128_to_f80(quad: u128) -> [u8; 10] {
    let sign = ((quad >> 127) as u16) << 15;
    let mut exponent = (quad >> 112 & 0x7fff) as u16;
    let fraction = quad & FRACTION;
    let kept = (fraction >> EXTRA) as u64;
    let rest = fraction & ((1 << EXTRA) - 1);
    let mantissa = if exponent == 0x7fff {
        // A NaN stays one, though its bits may be among those that are lost.
        INTEGER | kept | if fraction != 0 { 1 << 62 } else { 0 }
    } else {
        let half = 1 << (EXTRA - 1);
        let up = rest > half || (rest == half && kept & 1 == 1);
        let integer = if exponent == 0 { 0 } else { INTEGER };
        match (integer | kept).checked_add(up.into()) {
            Some(mantissa) => {
                // A subnormal number that rounds up to the smallest normal one.
                if exponent == 0 && mantissa & INTEGER != 0 {
                    exponent = 1;
                }
                mantissa
            }
            // All ones round up to the next power of two, and beyond the last one to infinity.
            None => {
                exponent += 1;
                INTEGER
            }
        }
    };
    let mut extended = [0; 10];
    extended[..8].copy_from_slice(&mantissa.to_le_bytes());
    extended[8..].copy_from_slice(&(sign | exponent).to_le_bytes());
    extended
}

/// A number that orders binary128 as numbers are ordered; `None` for NaN. Both zeros are equal.
pub(crate) fn order_of_f128(quad: u128) -> Option<i128> {
    let magnitude = (quad & !(1 << 127)) as i128;
    if magnitude > 0x7fff << 112 {
        return None;
    }
    Some(if quad >> 127 == 1 {
        -magnitude
    } else {
        magnitude
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_binary16_survives() {
        for half in 0..=u16::MAX {
            let single = f16_to_f32(half);
            if single.is_nan() {
                assert!(f16_to_f32(f32_to_f16(single)).is_nan());
            } else {
                assert_eq!(f32_to_f16(single), half, "{half:#x} {single}");
            }
        }
    }

    #[test]
    fn binary16_is_rounded_to_nearest_even() {
        for (single, half) in [
            (1.0, 0x3c00),
            (65504.0, 0x7bff),
            (65519.0, 0x7bff),
            (65520.0, 0x7c00),
            (1.0 + 1.0 / 2048.0, 0x3c00),
            (1.0 + 3.0 / 2048.0, 0x3c02),
            (2.0_f32.powi(-24), 1),
            (2.0_f32.powi(-25), 0),
            (2.0_f32.powi(-25) * 1.01, 1),
            (2.0_f32.powi(-26), 0),
            (-2.0, 0xc000),
            (f32::INFINITY, 0x7c00),
        ] {
            assert_eq!(f32_to_f16(single), half, "{single}");
        }
    }

    /// binary64 to the x87's format, which holds each of them.
    fn extended(double: f64) -> [u8; 10] {
        let bits = double.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as u16;
        let mut made = [0; 10];
        made[..8].copy_from_slice(&(INTEGER | bits << 11).to_le_bytes());
        let top = ((bits >> 63) as u16) << 15 | (exponent + (16383 - 1023));
        made[8..].copy_from_slice(&top.to_le_bytes());
        made
    }

    #[test]
    fn known_numbers_in_binary128() {
        let one = 0x3fff_u128 << 112;
        assert_eq!(f80_to_f128(extended(1.0)), one);
        assert_eq!(f80_to_f128(extended(-1.5)), 1 << 127 | one | 1 << 111);
        assert_eq!(f128_to_f80(one | 1), extended(1.0));
        // the largest number rounds up to infinity
        let largest = 0x7ffe_u128 << 112 | FRACTION;
        assert_eq!(f128_to_f80(largest)[7..], [0x80, 0xff, 0x7f]);
        // infinities and NaN
        assert_eq!(
            f128_to_f80(0x7fff << 112),
            [0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x7f]
        );
        let nan = f128_to_f80(0x7fff << 112 | 1);
        assert_eq!(order_of_f128(f80_to_f128(nan)), None);
        assert_eq!(order_of_f128(0), order_of_f128(1 << 127));
    }

    proptest! {
        #[test]
        fn every_number_of_the_x87_survives_binary128(mantissa: u64, top: u16) {
            let exponent = top & 0x7fff;
            // what the x87 itself makes: the integer bit is set unless the number is subnormal
            let mantissa = if exponent == 0 { mantissa & !INTEGER } else { mantissa | INTEGER };
            let mut number = [0; 10];
            number[..8].copy_from_slice(&mantissa.to_le_bytes());
            number[8..].copy_from_slice(&top.to_le_bytes());
            if exponent != 0x7fff {
                prop_assert_eq!(f128_to_f80(f80_to_f128(number)), number);
            }
        }

        #[test]
        fn order_is_that_of_doubles(a: f64, b: f64) {
            prop_assume!(a.is_normal() && b.is_normal());
            let order = |double| order_of_f128(f80_to_f128(extended(double)));
            prop_assert_eq!(order(a) < order(b), a < b);
        }
    }
}
