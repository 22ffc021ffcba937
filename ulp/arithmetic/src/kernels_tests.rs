//! The operations against plain formulas.

use super::*;
use crate::float::f128_to_f80;
use proptest::prelude::*;

type Formula<T> = fn(T, T) -> T;

/// Runs an operation on elements of a type that Rust has, from addresses of any alignment.
fn run<T: Copy + Default>(
    op: Op,
    kind: Kind,
    input: &[T],
    inout: &[T],
) -> Result<Vec<T>, NotDefined> {
    let size = size_of::<T>();
    assert_eq!(size as i64, kind.extent());
    let bytes = size_of_val(input);
    let mut odd = [vec![0_u8; bytes + 1], vec![0_u8; bytes + 1]];
    let [a, b] = &mut odd;
    let mut result = vec![T::default(); inout.len()];
    // SAFETY: the vectors have one byte more than the elements, and are used from the second byte on.
    unsafe {
        let (a, b) = (a.as_mut_ptr().add(1), b.as_mut_ptr().add(1));
        a.copy_from_nonoverlapping(input.as_ptr().cast(), bytes);
        b.copy_from_nonoverlapping(inout.as_ptr().cast(), bytes);
        // To a third place, and to that of either operand: the same.
        let mut third = vec![0x55_u8; bytes + 1];
        let into = reduce_into(op, kind, (a, b), third.as_mut_ptr().add(1), input.len());
        let mut left = vec![0_u8; bytes + 1];
        let c = left.as_mut_ptr().add(1);
        c.copy_from_nonoverlapping(a, bytes);
        assert_eq!(reduce_into(op, kind, (c, b), c, input.len()), into);
        let done = reduce(op, kind, a, b, input.len());
        assert_eq!(into, done);
        done?;
        b.copy_to_nonoverlapping(result.as_mut_ptr().cast(), bytes);
        let members = match kind.parts() {
            Some(parts) => parts.to_vec(),
            None => vec![(kind, 0)],
        };
        for (at, (member, offset)) in
            (0..input.len()).flat_map(|i| members.iter().map(move |m| (i * size, *m)))
        {
            let from = 1 + at + offset as usize;
            let to = from
                + if members.len() == 1 {
                    size
                } else {
                    member.size() as usize
                };
            assert_eq!(odd[1][from..to], third[from..to], "{op:?} of {kind:?}");
            assert_eq!(left[from..to], third[from..to], "{op:?} of {kind:?}");
        }
    }
    Ok(result)
}

macro_rules! check_integers {
    ($($name:ident $type:ty, $kind:ident;)*) => {$(
        proptest! {
            #[test]
            fn $name(pairs in prop::collection::vec(any::<($type, $type)>(), 0..70)) {
                let (a, b): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
                let truth = |x: bool| <$type>::from(x);
                let formulas: [(Op, Formula<$type>); 6] = [
                    (Op::Sum, |a, b| a.wrapping_add(b)),
                    (Op::Prod, |a, b| a.wrapping_mul(b)),
                    (Op::Max, Ord::max),
                    (Op::Min, Ord::min),
                    (Op::Band, |a, b| a & b),
                    (Op::Bxor, |a, b| a ^ b),
                ];
                for (op, formula) in formulas {
                    let want: Vec<$type> = pairs.iter().map(|&(a, b)| formula(a, b)).collect();
                    prop_assert_eq!(run(op, Kind::$kind, &a, &b), Ok(want), "{:?}", op);
                }
                let want: Vec<$type> = pairs.iter().map(|&(a, b)| a | b).collect();
                prop_assert_eq!(run(Op::Bor, Kind::$kind, &a, &b), Ok(want));
                for (op, formula) in [
                    (Op::Land, (|a, b| a && b) as fn(bool, bool) -> bool),
                    (Op::Lor, |a, b| a || b),
                    (Op::Lxor, |a, b| a != b),
                ] {
                    let a: Vec<$type> = a.iter().map(|a| a & 2).collect();
                    let want: Vec<$type> =
                        a.iter().zip(&b).map(|(&a, &b)| truth(formula(a != 0, b != 0))).collect();
                    prop_assert_eq!(run(op, Kind::$kind, &a, &b), Ok(want), "{:?}", op);
                }
                prop_assert_eq!(run(Op::Replace, Kind::$kind, &a, &b), Ok(a.clone()));
                prop_assert_eq!(run(Op::NoOp, Kind::$kind, &a, &b), Ok(b.clone()));
                prop_assert!(run(Op::Maxloc, Kind::$kind, &a, &b).is_err());
            }
        }
    )*};
}

check_integers! {
    signed_8 i8, I8;
    signed_16 i16, I16;
    signed_32 i32, I32;
    signed_64 i64, I64;
    signed_128 i128, I128;
    long i64, Long;
    unsigned_8 u8, U8;
    unsigned_16 u16, U16;
    unsigned_32 u32, U32;
    unsigned_64 u64, Ulong;
    characters i8, Char;
}

#[test]
fn logicals_come_out_as_zero_or_one() {
    let (a, b) = ([0_u32, 5, 0, u32::MAX], [0, 0, 9, 2]);
    assert_eq!(run(Op::Land, Kind::L32, &a, &b), Ok(vec![0, 0, 0, 1]));
    assert_eq!(run(Op::Lor, Kind::L32, &a, &b), Ok(vec![0, 1, 1, 1]));
    assert_eq!(run(Op::Lxor, Kind::L32, &a, &b), Ok(vec![0, 1, 1, 0]));
    assert!(run(Op::Sum, Kind::L32, &a, &b).is_err());
    assert_eq!(
        run(Op::Lor, Kind::Bool, &[1_u8, 0], &[1, 0]),
        Ok(vec![1, 0])
    );
    assert_eq!(
        run(Op::Land, Kind::L128, &[1_u128 << 100], &[3]),
        Ok(vec![1])
    );
}

proptest! {
    #[test]
    fn doubles(pairs in prop::collection::vec(any::<(f64, f64)>(), 0..70)) {
        let (a, b): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        let formulas: [(Op, Formula<f64>); 4] = [
            (Op::Sum, |a, b| a + b),
            (Op::Prod, |a, b| a * b),
            (Op::Max, |a, b| if a > b { a } else { b }),
            (Op::Min, |a, b| if a < b { a } else { b }),
        ];
        for (op, formula) in formulas {
            let want: Vec<u64> = pairs.iter().map(|&(a, b)| formula(a, b).to_bits()).collect();
            let got = run(op, Kind::F64, &a, &b).unwrap();
            let got: Vec<u64> = got.into_iter().map(f64::to_bits).collect();
            prop_assert_eq!(got, want, "{:?}", op);
        }
        prop_assert!(run(Op::Band, Kind::F64, &a, &b).is_err());
    }

    /// The same sums and products in wider formats: whole numbers are exact in all of them.
    #[test]
    fn whole_numbers_in_every_floating_format(pairs in prop::collection::vec((-30..30_i32, -30..30_i32), 1..20)) {
        for op in [Op::Sum, Op::Prod, Op::Max, Op::Min, Op::Land, Op::Lxor] {
            let want: Vec<f64> = {
                let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().map(|&(a, b)| (f64::from(a), f64::from(b))).unzip();
                run(op, Kind::F64, &a, &b).unwrap()
            };
            let (a, b): (Vec<_>, Vec<_>) = pairs.iter().map(|&(a, b)| (half(a), half(b))).unzip();
            let got = run(op, Kind::F16, &a, &b).unwrap();
            prop_assert_eq!(got.into_iter().map(|x| f64::from(f16_to_f32(x))).collect::<Vec<_>>(), &want[..]);
            let (a, b): (Vec<_>, Vec<_>) = pairs.iter().map(|&(a, b)| (quad(a), quad(b))).unzip();
            let got = run(op, Kind::F128, &a, &b).unwrap();
            prop_assert_eq!(got.into_iter().map(whole).collect::<Vec<_>>(), &want[..]);
            let (a, b): (Vec<_>, Vec<_>) = pairs.iter().map(|&(a, b)| (extended(a), extended(b))).unzip();
            let got = run(op, Kind::F80, &a, &b).unwrap();
            prop_assert_eq!(got.into_iter().map(whole_extended).collect::<Vec<_>>(), &want[..]);
        }
    }

    #[test]
    fn complex_numbers(parts in prop::collection::vec((-9..9_i32, -9..9_i32, -9..9_i32, -9..9_i32), 1..20)) {
        let (mut a, mut b, mut sum, mut product) = (vec![], vec![], vec![], vec![]);
        for (w, x, y, z) in parts {
            a.push([w, x]);
            b.push([y, z]);
            sum.push([w + y, x + z]);
            product.push([w * y - x * z, w * z + x * y]);
        }
        for (op, want) in [(Op::Sum, sum), (Op::Prod, product)] {
            let want: Vec<[f64; 2]> = want.into_iter().map(|parts| parts.map(f64::from)).collect();
            let to = |numbers: &[[i32; 2]]| -> Vec<[f64; 2]> {
                numbers.iter().map(|parts| parts.map(f64::from)).collect()
            };
            prop_assert_eq!(run(op, Kind::C64, &to(&a), &to(&b)).unwrap(), &want[..]);
            let to = |numbers: &[[i32; 2]]| -> Vec<[f32; 2]> {
                numbers.iter().map(|parts| parts.map(|part| part as f32)).collect()
            };
            let got = run(op, Kind::C32, &to(&a), &to(&b)).unwrap();
            prop_assert_eq!(got.into_iter().map(|parts| parts.map(f64::from)).collect::<Vec<_>>(), &want[..]);
            let to = |numbers: &[[i32; 2]]| -> Vec<[[u8; 16]; 2]> {
                numbers.iter().map(|parts| parts.map(extended)).collect()
            };
            let got = run(op, Kind::C80, &to(&a), &to(&b)).unwrap();
            prop_assert_eq!(got.into_iter().map(|parts| parts.map(whole_extended)).collect::<Vec<_>>(), &want[..]);
            let to = |numbers: &[[i32; 2]]| -> Vec<[u128; 2]> {
                numbers.iter().map(|parts| parts.map(quad)).collect()
            };
            let got = run(op, Kind::C128, &to(&a), &to(&b)).unwrap();
            prop_assert_eq!(got.into_iter().map(|parts| parts.map(whole)).collect::<Vec<_>>(), &want[..]);
            let to = |numbers: &[[i32; 2]]| -> Vec<[u16; 2]> {
                numbers.iter().map(|parts| parts.map(half)).collect()
            };
            let got = run(op, Kind::C16, &to(&a), &to(&b)).unwrap();
            let got: Vec<[f64; 2]> = got.into_iter().map(|parts| parts.map(|x| f64::from(f16_to_f32(x)))).collect();
            prop_assert_eq!(got, &want[..]);
        }
    }
}

/// Eight at a time and one at a time give the same bits, NaN aside.
#[test]
fn binary16_is_computed_alike_with_and_without_the_processors_help() {
    let a: Vec<u16> = (0..4099_u32)
        .map(|index| ((index * 40_503) >> 3) as u16)
        .collect();
    let b: Vec<u16> = (0..4099_u32)
        .map(|index| ((index * 30_011) >> 2) as u16)
        .collect();
    for op in [Op::Sum, Op::Prod, Op::Max, Op::Min] {
        let all = run(op, Kind::F16, &a, &b).unwrap();
        for index in 0..a.len() {
            let one = run(op, Kind::F16, &a[index..][..1], &b[index..][..1]).unwrap()[0];
            let nan = |half: u16| f16_to_f32(half).is_nan();
            assert!(
                all[index] == one || (nan(all[index]) && nan(one)),
                "{op:?} {:#x} {:#x}",
                a[index],
                b[index]
            );
        }
    }
}

fn half(number: i32) -> u16 {
    f32_to_f16(number as f32)
}

/// A whole number in binary128.
fn quad(number: i32) -> u128 {
    if number == 0 {
        return 0;
    }
    let sign = if number < 0 { 1 << 127 } else { 0 };
    let magnitude = u128::from(number.unsigned_abs());
    let top = magnitude.ilog2();
    let exponent = u128::from(16383 + top) << 112;
    sign | exponent | (magnitude << (112 - top) & !(1 << 112))
}

/// A whole number from binary128.
fn whole(quad: u128) -> f64 {
    if quad << 1 == 0 {
        return if quad == 0 { 0.0 } else { -0.0 };
    }
    let exponent = (quad >> 112 & 0x7fff) as i32 - 16383;
    let fraction = (quad & ((1 << 112) - 1) | 1 << 112) as f64 * 2.0_f64.powi(exponent - 112);
    if quad >> 127 == 1 {
        -fraction
    } else {
        fraction
    }
}

fn extended(number: i32) -> [u8; 16] {
    let mut bytes = [0xcc; 16];
    bytes[..10].copy_from_slice(&f128_to_f80(quad(number)));
    bytes
}

fn whole_extended(bytes: [u8; 16]) -> f64 {
    let [number @ .., _, _, _, _, _, _] = bytes;
    whole(f80_to_f128(number))
}

#[test]
fn long_doubles_are_computed_with_all_their_bits() {
    // 1 + 2^-63 is 1 in any shorter format.
    let one = extended(1);
    let mut least = extended(1);
    least[8] = 0xc0; // 2^-63
    let mut want = one;
    want[0] = 1;
    let got = run(Op::Sum, Kind::F80, &[one], &[least]).unwrap();
    assert_eq!(got[0][..10], want[..10]);
    // (1 + 2^-63) squared is 1 + 2^-62 and a bit, rounded
    let got = run(Op::Prod, Kind::F80, &[want], &[want]).unwrap();
    assert_eq!(got[0][0], 2);
    // and binary128 has 49 bits more
    let tiny = (0x3fff - 112) << 112;
    let got = run(Op::Sum, Kind::F128, &[quad(1)], &[tiny]).unwrap();
    assert_eq!(got, [quad(1) | 1]);
}

#[test]
fn the_index_of_the_extreme_value_is_found() {
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    #[repr(C)]
    struct DoubleInt(f64, i32);
    let a = [
        DoubleInt(1.0, 5),
        DoubleInt(3.0, 7),
        DoubleInt(2.0, 1),
        DoubleInt(2.0, 9),
    ];
    let b = [
        DoubleInt(2.0, 3),
        DoubleInt(-3.0, 2),
        DoubleInt(2.0, 4),
        DoubleInt(2.0, 4),
    ];
    let max = [b[0], a[1], a[2], b[3]];
    let min = [a[0], b[1], a[2], b[3]];
    assert_eq!(run(Op::Maxloc, Kind::DoubleInt, &a, &b).unwrap(), max);
    assert_eq!(run(Op::Minloc, Kind::DoubleInt, &a, &b).unwrap(), min);
    assert!(run(Op::Max, Kind::DoubleInt, &a, &b).is_err());
    assert_eq!(run(Op::Replace, Kind::DoubleInt, &a, &b).unwrap(), a);

    let (a, b) = ([[4, 2], [4, 2]], [[4, 1], [5, 9]]);
    assert_eq!(
        run(Op::Maxloc, Kind::IntInt, &a, &b),
        Ok(vec![[4, 1], [5, 9]])
    );
    assert_eq!(
        run(Op::Minloc, Kind::IntInt, &a, &b),
        Ok(vec![[4, 1], [4, 2]])
    );
    let (a, b) = ([[4.0_f32, 2.0]], [[4.0, 1.0]]);
    assert_eq!(
        run(Op::Maxloc, Kind::FloatFloat, &a, &b),
        Ok(vec![[4.0, 1.0]])
    );

    #[derive(Debug, Clone, Copy, Default)]
    #[repr(C, align(16))]
    struct LongDoubleInt([u8; 16], i32);
    let (a, b) = (
        [LongDoubleInt(extended(-2), 1)],
        [LongDoubleInt(extended(-3), 2)],
    );
    assert_eq!(
        run(Op::Maxloc, Kind::LongDoubleInt, &a, &b).unwrap()[0].1,
        1
    );
    assert_eq!(
        run(Op::Minloc, Kind::LongDoubleInt, &a, &b).unwrap()[0].1,
        2
    );
}

/// A buffer may end with the last pair's index: what lies behind it is not touched.
#[test]
fn padding_behind_the_last_pair_is_left_alone() {
    for op in [Op::Maxloc, Op::Replace] {
        let (a, mut b) = ([9_u8; 12], [1_u8; 13]);
        // SAFETY: one pair without its padding.
        unsafe { reduce(op, Kind::DoubleInt, a.as_ptr(), b.as_mut_ptr(), 1) }.unwrap();
        assert_eq!(b[11..], [9, 1]);
    }
}
