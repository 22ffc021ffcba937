//! The predefined operations, and which of them apply to what (MPI 6.9.2).

use crate::error::Error;
use crate::named::{Group, Named};
use ferriband_arithmetic::{Kind, Op};

/// Whether an operation applies to a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Validity {
    /// As the standard's table says.
    Standard,
    /// Not in the table, but it has one obvious meaning and other libraries offer it: characters as small integers, logical
    /// operations on whatever can be compared with zero.
    Extension,
    /// MPI_ERR_OP.
    Invalid,
}

/// What MPI says of an operation.
pub trait Predefined: Copy {
    /// The handle's value in the standard ABI.
    fn value(self) -> u32;

    /// MPI's name.
    fn name(self) -> &'static str;

    /// MPI_Op_commutative. MPI_REPLACE and MPI_NO_OP keep one side.
    fn is_commutative(self) -> bool;

    /// True for the two that only accumulate functions may use (12.3.4); a reduction with them is
    /// MPI_ERR_OP.
    fn is_for_windows_only(self) -> bool;

    /// Whether it applies to elements of a predefined type.
    fn validity(self, named: Named) -> Validity;

    /// [`Error::Operation`] unless the operation applies, by the standard or as an extension.
    fn check(self, named: Named) -> Result<(), Error>;
}

/// Every predefined operation.
pub const ALL: [Op; 14] = [
    Op::Sum,
    Op::Min,
    Op::Max,
    Op::Prod,
    Op::Band,
    Op::Bor,
    Op::Bxor,
    Op::Land,
    Op::Lor,
    Op::Lxor,
    Op::Minloc,
    Op::Maxloc,
    Op::Replace,
    Op::NoOp,
];

/// The operation with this value in the standard ABI.
pub fn from_value(value: u32) -> Option<Op> {
    ALL.into_iter().find(|op| op.value() == value)
}

impl Predefined for Op {
    fn value(self) -> u32 {
        match self {
            Self::Sum => 0x21,
            Self::Min => 0x22,
            Self::Max => 0x23,
            Self::Prod => 0x24,
            Self::Band => 0x28,
            Self::Bor => 0x29,
            Self::Bxor => 0x2a,
            Self::Land => 0x30,
            Self::Lor => 0x31,
            Self::Lxor => 0x32,
            Self::Minloc => 0x38,
            Self::Maxloc => 0x39,
            Self::Replace => 0x3c,
            Self::NoOp => 0x3d,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sum => "MPI_SUM",
            Self::Min => "MPI_MIN",
            Self::Max => "MPI_MAX",
            Self::Prod => "MPI_PROD",
            Self::Band => "MPI_BAND",
            Self::Bor => "MPI_BOR",
            Self::Bxor => "MPI_BXOR",
            Self::Land => "MPI_LAND",
            Self::Lor => "MPI_LOR",
            Self::Lxor => "MPI_LXOR",
            Self::Minloc => "MPI_MINLOC",
            Self::Maxloc => "MPI_MAXLOC",
            Self::Replace => "MPI_REPLACE",
            Self::NoOp => "MPI_NO_OP",
        }
    }

    fn is_commutative(self) -> bool {
        !matches!(self, Self::Replace | Self::NoOp)
    }

    fn is_for_windows_only(self) -> bool {
        matches!(self, Self::Replace | Self::NoOp)
    }

    fn validity(self, named: Named) -> Validity {
        let (standard, extension): (&[Group], &[Group]) = match self {
            Self::Max | Self::Min => (&[CI, FI, FP, ML], &[CH]),
            Self::Sum | Self::Prod => (&[CI, FI, FP, CX, ML], &[CH]),
            Self::Land | Self::Lor | Self::Lxor => (&[CI, LO], &[FI, FP, ML, CH]),
            Self::Band | Self::Bor | Self::Bxor => (&[CI, FI, BY, ML], &[CH, LO]),
            Self::Minloc | Self::Maxloc => (&[Group::Pair], &[]),
            Self::Replace | Self::NoOp => return Validity::Standard,
        };
        let group = named.group();
        if standard.contains(&group) {
            Validity::Standard
        } else if extension.contains(&group) && named.kind() != Kind::Wchar {
            Validity::Extension
        } else {
            Validity::Invalid
        }
    }

    fn check(self, named: Named) -> Result<(), Error> {
        match self.validity(named) {
            Validity::Standard | Validity::Extension => Ok(()),
            Validity::Invalid => Err(Error::Operation {
                op: self.name(),
                datatype: named.name(),
            }),
        }
    }
}

const CI: Group = Group::CInteger;
const FI: Group = Group::FortranInteger;
const FP: Group = Group::Floating;
const LO: Group = Group::Logical;
const CX: Group = Group::Complex;
const BY: Group = Group::Byte;
const ML: Group = Group::MultiLanguage;
const CH: Group = Group::Character;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_standards() {
        let standard = |op: Op, named| op.validity(named) == Validity::Standard;
        for op in [Op::Max, Op::Min] {
            assert!(standard(op, Named::Int) && standard(op, Named::Real2));
            assert!(standard(op, Named::Aint) && !standard(op, Named::Byte));
            assert_eq!(op.validity(Named::Complex), Validity::Invalid);
        }
        assert!(standard(Op::Sum, Named::CLongDoubleComplex));
        assert!(standard(Op::Land, Named::CBool) && standard(Op::Land, Named::Logical));
        assert!(!standard(Op::Land, Named::Integer));
        assert!(standard(Op::Bxor, Named::Byte) && standard(Op::Bxor, Named::Integer16));
        assert_eq!(Op::Bxor.validity(Named::Double), Validity::Invalid);
        assert_eq!(Op::Sum.validity(Named::Logical), Validity::Invalid);
        assert_eq!(Op::Sum.validity(Named::Packed), Validity::Invalid);
        assert_eq!(Op::Sum.validity(Named::Wchar), Validity::Invalid);
        assert!(standard(Op::Maxloc, Named::TwoReal));
        assert_eq!(Op::Maxloc.validity(Named::Int), Validity::Invalid);
        assert_eq!(Op::Sum.validity(Named::TwoInt), Validity::Invalid);
    }

    #[test]
    fn values_lead_back_to_operations() {
        for op in ALL {
            assert_eq!(from_value(op.value()), Some(op));
        }
        assert_eq!(from_value(0x20), None); // MPI_OP_NULL
    }

    #[test]
    #[allow(unsafe_code)]
    fn the_table_of_operations_and_the_kernels_agree() {
        let (a, b) = ([0_u8; 64], [0_u8; 64]);
        for &named in Named::ALL {
            for op in ALL {
                let mut b = b;
                // SAFETY: one element of any type fits.
                let done = unsafe {
                    ferriband_arithmetic::reduce(op, named.kind(), a.as_ptr(), b.as_mut_ptr(), 1)
                };
                if op.validity(named) != Validity::Invalid {
                    assert_eq!(done, Ok(()), "{op:?} {named:?}");
                }
            }
        }
    }
}
