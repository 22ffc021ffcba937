//! The operations.

use crate::kind::Kind;

/// An operation of two elements. Sums and products of integers wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// left + right
    Sum,
    /// The lesser one.
    Min,
    /// The greater one.
    Max,
    /// left * right
    Prod,
    /// Bitwise and.
    Band,
    /// Bitwise or.
    Bor,
    /// Bitwise exclusive or.
    Bxor,
    /// Logical and: 0 or 1.
    Land,
    /// Logical or: 0 or 1.
    Lor,
    /// Logical exclusive or: 0 or 1.
    Lxor,
    /// The lesser one of two pairs, by their values, with its index.
    Minloc,
    /// The greater one of two pairs, by their values, with its index.
    Maxloc,
    /// left
    Replace,
    /// right
    NoOp,
}

/// An operation that is not defined for elements of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{op:?} is not defined for elements of the kind {kind:?}")]
pub struct NotDefined {
    /// The operation.
    pub op: Op,
    /// The kind.
    pub kind: Kind,
}
