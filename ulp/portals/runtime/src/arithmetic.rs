//! What an atomic operation makes of the target's values.
//!
//! Owns: swaps and their conditions; sums, logic and the like are `ferriband-mpi-data`'s kernels.
//! Must not know: where the values lie.
//!
//! Atomicity is the caller's: it holds the process's lock while it reads, combines and writes.

use ferriband_mpi_data::{Kind, Op, reduce};
use ferriband_portals_proto::{AtomicOp, Datatype};
use std::cmp::Ordering;

const fn kind_of(datatype: Datatype) -> Kind {
    match datatype {
        Datatype::Int8 => Kind::I8,
        Datatype::Uint8 => Kind::U8,
        Datatype::Int16 => Kind::I16,
        Datatype::Uint16 => Kind::U16,
        Datatype::Int32 => Kind::I32,
        Datatype::Uint32 => Kind::U32,
        Datatype::Float => Kind::F32,
        Datatype::Int64 => Kind::I64,
        Datatype::Uint64 => Kind::U64,
        Datatype::Double => Kind::F64,
        Datatype::FloatComplex => Kind::C32,
        Datatype::DoubleComplex => Kind::C64,
        Datatype::LongDouble => Kind::F80,
        Datatype::LongDoubleComplex => Kind::C80,
    }
}

const fn kernel_of(op: AtomicOp) -> Option<Op> {
    Some(match op {
        AtomicOp::Min => Op::Min,
        AtomicOp::Max => Op::Max,
        AtomicOp::Sum => Op::Sum,
        AtomicOp::Prod => Op::Prod,
        AtomicOp::Lor => Op::Lor,
        AtomicOp::Land => Op::Land,
        AtomicOp::Bor => Op::Bor,
        AtomicOp::Band => Op::Band,
        AtomicOp::Lxor => Op::Lxor,
        AtomicOp::Bxor => Op::Bxor,
        _ => return None,
    })
}

/// Changes the target's values by those of the initiator, as many bytes of both. The operand is
/// that of a conditional or masked swap, which concerns one value. Operation and datatype go
/// together.
pub(crate) fn combine(
    op: AtomicOp,
    datatype: Datatype,
    operand: &[u8],
    data: &[u8],
    target: &mut [u8],
) {
    let size = datatype.size_bytes() as usize;
    let length = data.len().min(target.len());
    let (data, target) = (&data[..length], &mut target[..length]);
    if let Some(kernel) = kernel_of(op) {
        let (input, inout) = (data.as_ptr(), target.as_mut_ptr());
        // SAFETY: so many whole values of two buffers that do not overlap.
        let done = unsafe { reduce(kernel, kind_of(datatype), input, inout, length / size) };
        return debug_assert!(done.is_ok());
    }
    if op == AtomicOp::Mswap {
        for ((target, data), mask) in target.iter_mut().zip(data).zip(operand) {
            *target = (*data & mask) | (*target & !mask);
        }
        return;
    }
    // an operation on part of a value changes nothing
    let whole = length >= size && operand.len() >= size;
    let swaps = match op {
        AtomicOp::Swap => true,
        _ if !whole => false,
        _ => meets(op, compare(datatype, &operand[..size], &target[..size])),
    };
    if swaps {
        target.copy_from_slice(data);
    }
}

/// Whether an operand that compares so with the target meets the condition; None is a value that is
/// no number, or is complex and differs.
fn meets(op: AtomicOp, order: Option<Ordering>) -> bool {
    match op {
        AtomicOp::Cswap => order == Some(Ordering::Equal),
        AtomicOp::CswapNe => order != Some(Ordering::Equal),
        AtomicOp::CswapLe => order.is_some_and(Ordering::is_le),
        AtomicOp::CswapLt => order.is_some_and(Ordering::is_lt),
        AtomicOp::CswapGe => order.is_some_and(Ordering::is_ge),
        AtomicOp::CswapGt => order.is_some_and(Ordering::is_gt),
        _ => false,
    }
}

macro_rules! order {
    ($type:ty, $left:expr, $right:expr) => {{
        let value = |bytes: &[u8]| Some(<$type>::from_ne_bytes(bytes.try_into().ok()?));
        value($left)?.partial_cmp(&value($right)?)
    }};
}

/// Compares two values.
fn compare(datatype: Datatype, left: &[u8], right: &[u8]) -> Option<Ordering> {
    match datatype {
        Datatype::Int8 => order!(i8, left, right),
        Datatype::Uint8 => order!(u8, left, right),
        Datatype::Int16 => order!(i16, left, right),
        Datatype::Uint16 => order!(u16, left, right),
        Datatype::Int32 => order!(i32, left, right),
        Datatype::Uint32 => order!(u32, left, right),
        Datatype::Float => order!(f32, left, right),
        Datatype::Int64 => order!(i64, left, right),
        Datatype::Uint64 => order!(u64, left, right),
        Datatype::Double => order!(f64, left, right),
        Datatype::LongDouble => compare_long(left, right),
        Datatype::FloatComplex => same(Datatype::Float, left, right),
        Datatype::DoubleComplex => same(Datatype::Double, left, right),
        Datatype::LongDoubleComplex => same(Datatype::LongDouble, left, right),
    }
}

/// Complex values have no order: equal, or not.
fn same(part: Datatype, left: &[u8], right: &[u8]) -> Option<Ordering> {
    let half = left.len() / 2;
    let real = compare(part, &left[..half], &right[..half])?;
    let imaginary = compare(part, &left[half..], &right[half..])?;
    (real.is_eq() && imaginary.is_eq()).then_some(Ordering::Equal)
}

/// Values of the x87: 64 bits of significand, with its leading one, below 15 of exponent and the
/// sign.
fn compare_long(left: &[u8], right: &[u8]) -> Option<Ordering> {
    let value = |bytes: &[u8]| {
        let significand = u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?);
        let rest = u16::from_ne_bytes(bytes.get(8..10)?.try_into().ok()?);
        let exponent = rest & 0x7fff;
        let is_nan = exponent == 0x7fff && significand << 1 != 0;
        let magnitude = (i128::from(exponent) << 64) | i128::from(significand);
        let signed = if rest & 0x8000 == 0 {
            magnitude
        } else {
            -magnitude
        };
        (!is_nan).then_some(signed)
    };
    Some(value(left)?.cmp(&value(right)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(value: i64) -> [u8; 16] {
        let mut bytes = [0; 16];
        if value != 0 {
            let magnitude = value.unsigned_abs();
            let shift = magnitude.leading_zeros();
            let exponent = 16383 + 63 - shift as u16;
            bytes[..8].copy_from_slice(&(magnitude << shift).to_ne_bytes());
            let sign = if value < 0 { 0x8000 } else { 0 };
            bytes[8..10].copy_from_slice(&(exponent | sign).to_ne_bytes());
        }
        bytes
    }

    fn swapped(op: AtomicOp, datatype: Datatype, operand: &[u8], target: &[u8]) -> bool {
        let mut after = target.to_vec();
        let data = vec![0x5a; target.len()];
        combine(op, datatype, operand, &data, &mut after);
        assert!(after == data || after == target);
        after == data
    }

    #[test]
    fn conditions_are_the_operands_beside_the_target() {
        use AtomicOp::*;
        let all = [Cswap, CswapNe, CswapLe, CswapLt, CswapGe, CswapGt];
        let less = [false, true, true, true, false, false];
        let equal = [true, false, true, false, true, false];
        for (op, (less, equal)) in all.into_iter().zip(less.into_iter().zip(equal)) {
            let of = |datatype, one: &[u8], two: &[u8]| {
                assert_eq!(swapped(op, datatype, one, two), less, "{op:?} {datatype:?}");
                assert_eq!(
                    swapped(op, datatype, one, one),
                    equal,
                    "{op:?} {datatype:?}"
                );
            };
            of(Datatype::Int8, &[0xff], &[1]);
            of(Datatype::Uint8, &[1], &[0xff]);
            of(
                Datatype::Int64,
                &(-5_i64).to_ne_bytes(),
                &3_i64.to_ne_bytes(),
            );
            of(
                Datatype::Double,
                &(-0.5_f64).to_ne_bytes(),
                &0.25_f64.to_ne_bytes(),
            );
            of(Datatype::LongDouble, &long(-7), &long(-6));
            of(Datatype::LongDouble, &long(0), &long(1));
        }
        let (one, nan) = (1.0_f32.to_ne_bytes(), f32::NAN.to_ne_bytes());
        assert!(swapped(CswapNe, Datatype::Float, &one, &nan));
        assert!(!swapped(CswapLe, Datatype::Float, &one, &nan));
        let complex = [1.0_f32.to_ne_bytes(), 2.0_f32.to_ne_bytes()].concat();
        let other = [1.0_f32.to_ne_bytes(), 3.0_f32.to_ne_bytes()].concat();
        assert!(swapped(Cswap, Datatype::FloatComplex, &complex, &complex));
        assert!(swapped(CswapNe, Datatype::FloatComplex, &complex, &other));
    }

    #[test]
    fn sums_and_masks() {
        let mut target = [1_i32.to_ne_bytes(), (-4_i32).to_ne_bytes()].concat();
        let data = [10_i32.to_ne_bytes(), 1_i32.to_ne_bytes()].concat();
        combine(AtomicOp::Sum, Datatype::Int32, &[], &data, &mut target);
        assert_eq!(
            target,
            [11_i32.to_ne_bytes(), (-3_i32).to_ne_bytes()].concat()
        );
        let mut target = [0b1100_0011];
        let mask = [0b0000_1111];
        combine(
            AtomicOp::Mswap,
            Datatype::Uint8,
            &mask,
            &[0b0101_0101],
            &mut target,
        );
        assert_eq!(target, [0b1100_0101]);
    }
}
