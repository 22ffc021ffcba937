//! The predefined operations, and which of them apply to what (MPI 6.9.2).

use crate::error::Error;
use crate::named::{Group, Kind, Named};

/// A predefined operation; its discriminant is its handle's value in the standard ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
#[allow(missing_docs)] // MPI's own names
pub enum Op {
    Sum = 0x21,
    Min = 0x22,
    Max = 0x23,
    Prod = 0x24,
    Band = 0x28,
    Bor = 0x29,
    Bxor = 0x2a,
    Land = 0x30,
    Lor = 0x31,
    Lxor = 0x32,
    Minloc = 0x38,
    Maxloc = 0x39,
    Replace = 0x3c,
    NoOp = 0x3d,
}

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

impl Op {
    /// Every predefined operation.
    pub const ALL: [Self; 14] = [
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::Prod,
        Self::Band,
        Self::Bor,
        Self::Bxor,
        Self::Land,
        Self::Lor,
        Self::Lxor,
        Self::Minloc,
        Self::Maxloc,
        Self::Replace,
        Self::NoOp,
    ];

    /// The operation with this value in the standard ABI.
    pub fn from_value(value: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.value() == value)
    }

    /// The handle's value in the standard ABI.
    pub const fn value(self) -> u32 {
        self as u32
    }

    /// MPI's name.
    pub const fn name(self) -> &'static str {
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

    /// MPI_Op_commutative. MPI_REPLACE and MPI_NO_OP keep one side.
    pub const fn is_commutative(self) -> bool {
        !matches!(self, Self::Replace | Self::NoOp)
    }

    /// True for the two that only accumulate functions may use (12.3.4); a reduction with them is MPI_ERR_OP.
    pub const fn is_for_windows_only(self) -> bool {
        matches!(self, Self::Replace | Self::NoOp)
    }

    /// Whether it applies to elements of a predefined type.
    pub fn validity(self, named: Named) -> Validity {
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

    /// [`Error::Operation`] unless the operation applies, by the standard or as an extension.
    pub fn check(self, named: Named) -> Result<(), Error> {
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
        for op in Op::ALL {
            assert_eq!(Op::from_value(op.value()), Some(op));
        }
        assert_eq!(Op::from_value(0x20), None); // MPI_OP_NULL
    }
}
