//! Atomic operations and datatypes: which go together, and how long they may be.
//!
//! Owns: the closed sets with the numbers of the C ABI, and what is legal. Must not know: values;
//! the arithmetic is done elsewhere. Data comes from the calls of a program and from arriving
//! requests.

/// An atomic operation (ptl_op_t), 18 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of the header")]
pub enum AtomicOp {
    Min = 0,
    Max,
    Sum,
    Prod,
    Lor,
    Land,
    Bor,
    Band,
    Lxor,
    Bxor,
    Swap,
    Cswap,
    CswapNe,
    CswapLe,
    CswapLt,
    CswapGe,
    CswapGt,
    Mswap,
}

/// The type of the values of an atomic operation (ptl_datatype_t), 14 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of the header")]
pub enum Datatype {
    Int8 = 0,
    Uint8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Float,
    Int64,
    Uint64,
    Double,
    FloatComplex,
    DoubleComplex,
    LongDouble,
    LongDoubleComplex,
}

/// All operations, by number.
pub const ATOMIC_OPS: [AtomicOp; 18] = {
    use AtomicOp::*;
    [
        Min, Max, Sum, Prod, Lor, Land, Bor, Band, Lxor, Bxor, Swap, Cswap, CswapNe, CswapLe,
        CswapLt, CswapGe, CswapGt, Mswap,
    ]
};

/// All datatypes, by number.
pub const DATATYPES: [Datatype; 14] = {
    use Datatype::*;
    [
        Int8,
        Uint8,
        Int16,
        Uint16,
        Int32,
        Uint32,
        Float,
        Int64,
        Uint64,
        Double,
        FloatComplex,
        DoubleComplex,
        LongDouble,
        LongDoubleComplex,
    ]
};

impl AtomicOp {
    /// The number in the C ABI and in messages.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The operation of a number.
    pub fn from_code(code: u8) -> Option<AtomicOp> {
        ATOMIC_OPS.get(usize::from(code)).copied()
    }

    /// Whether PtlSwap carries it. The others are carried by PtlAtomic and PtlFetchAtomic.
    pub const fn is_swap(self) -> bool {
        self as u8 >= AtomicOp::Swap as u8
    }

    /// Whether it needs an operand beside the data, and so takes a single value.
    pub const fn has_operand(self) -> bool {
        self as u8 >= AtomicOp::Cswap as u8
    }

    /// Whether it may be done on values of this type: complex values have no order, and bits of
    /// floating-point values no logic.
    pub const fn takes(self, datatype: Datatype) -> bool {
        use AtomicOp::*;
        match self {
            Sum | Prod | Swap | Cswap | CswapNe => true,
            Min | Max | CswapLe | CswapLt | CswapGe | CswapGt => !datatype.is_complex(),
            Lor | Land | Bor | Band | Lxor | Bxor | Mswap => datatype.is_integer(),
        }
    }
}

impl Datatype {
    /// The number in the C ABI and in messages.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The datatype of a number.
    pub fn from_code(code: u8) -> Option<Datatype> {
        DATATYPES.get(usize::from(code)).copied()
    }

    /// Bytes of a value. PTL_LONG_DOUBLE is the one of x86-64 and AArch64: 16 bytes.
    pub const fn size_bytes(self) -> u64 {
        use Datatype::*;
        match self {
            Int8 | Uint8 => 1,
            Int16 | Uint16 => 2,
            Int32 | Uint32 | Float => 4,
            Int64 | Uint64 | Double | FloatComplex => 8,
            DoubleComplex | LongDouble => 16,
            LongDoubleComplex => 32,
        }
    }

    /// Whether it is a complex type.
    pub const fn is_complex(self) -> bool {
        matches!(
            self,
            Datatype::FloatComplex | Datatype::DoubleComplex | Datatype::LongDoubleComplex
        )
    }

    /// Whether it is an integer type.
    pub const fn is_integer(self) -> bool {
        !self.is_complex()
            && !matches!(
                self,
                Datatype::Float | Datatype::Double | Datatype::LongDouble
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_header() {
        assert!(
            ATOMIC_OPS
                .iter()
                .enumerate()
                .all(|(n, op)| usize::from(op.code()) == n)
        );
        assert!(
            DATATYPES
                .iter()
                .enumerate()
                .all(|(n, datatype)| usize::from(datatype.code()) == n)
        );
        assert_eq!(
            (AtomicOp::Mswap.code(), Datatype::LongDoubleComplex.code()),
            (17, 13)
        );
        assert_eq!(
            (AtomicOp::from_code(18), Datatype::from_code(14)),
            (None, None)
        );
    }

    #[test]
    fn of_252_pairs_192_are_legal() {
        // Five operations take all 14 types, six take the 11 that are ordered, seven take the 8
        // integers.
        let legal = ATOMIC_OPS
            .iter()
            .flat_map(|op| DATATYPES.map(|datatype| op.takes(datatype)))
            .filter(|&ok| ok)
            .count();
        assert_eq!(legal, 5 * 14 + 6 * 11 + 7 * 8);
    }
}
