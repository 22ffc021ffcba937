//! What an atomic operation makes of the target's values.
//!
//! Owns: which kind and operation of `ferriband-arithmetic` a datatype and an operation of Portals
//! are. Must not know: where the values lie.
//!
//! Atomicity is the caller's: it holds the process's lock while it reads, combines and writes.

use ferriband_arithmetic::{Condition, Kind, Op, compare, reduce_slices, swap_masked};
use ferriband_portals_proto::{AtomicOp, Datatype};

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

const fn condition_of(op: AtomicOp) -> Option<Condition> {
    Some(match op {
        AtomicOp::Cswap => Condition::Equal,
        AtomicOp::CswapNe => Condition::NotEqual,
        AtomicOp::CswapLe => Condition::AtMost,
        AtomicOp::CswapLt => Condition::Less,
        AtomicOp::CswapGe => Condition::AtLeast,
        AtomicOp::CswapGt => Condition::Greater,
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
        let done = reduce_slices(kernel, kind_of(datatype), data, target);
        return debug_assert!(done.is_ok());
    }
    if op == AtomicOp::Mswap {
        return swap_masked(data, operand, target);
    }
    // a conditional swap of part of a value changes nothing
    let swaps = match condition_of(op) {
        None => op == AtomicOp::Swap,
        Some(_) if length < size || operand.len() < size => false,
        Some(condition) => {
            let order = compare(kind_of(datatype), &operand[..size], &target[..size]);
            condition.is_met(order)
        }
    };
    if swaps {
        target.copy_from_slice(data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_the_operands_beside_the_target() {
        use AtomicOp::*;
        let all = [Cswap, CswapNe, CswapLe, CswapLt, CswapGe, CswapGt];
        let less = [false, true, true, true, false, false];
        let equal = [true, false, true, false, true, false];
        let swapped = |op, operand: i16, target: i16| {
            let mut after = target.to_ne_bytes();
            let operand = operand.to_ne_bytes();
            combine(op, Datatype::Int16, &operand, &[0x5a; 2], &mut after);
            assert!(after == [0x5a; 2] || after == target.to_ne_bytes());
            after == [0x5a; 2]
        };
        for (op, (less, equal)) in all.into_iter().zip(less.into_iter().zip(equal)) {
            assert_eq!(swapped(op, -7, 3), less, "{op:?}");
            assert_eq!(swapped(op, 3, 3), equal, "{op:?}");
        }
    }

    #[test]
    fn a_conditional_swap_of_part_of_a_value_changes_nothing() {
        let mut target = [1; 4];
        combine(
            AtomicOp::CswapNe,
            Datatype::Int64,
            &[0; 8],
            &[9; 4],
            &mut target,
        );
        assert_eq!(target, [1; 4]);
        combine(AtomicOp::Swap, Datatype::Int64, &[], &[9; 4], &mut target);
        assert_eq!(target, [9; 4]);
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
