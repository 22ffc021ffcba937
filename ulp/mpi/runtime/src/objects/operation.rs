//! Operations: MPI's own, and those that the program made.
//!
//! Owns: their handles and functions. Must not know: when a function of the program may be called.

use crate::constants::{MPI_ERR_OP, MPI_ERR_OTHER};
use crate::errors::{MpiError, Outcome};
use crate::handle::{Kind, Slab};
use ferriband_mpi_data::op::from_value;
use ferriband_mpi_data::{Op, Predefined};
use std::sync::Arc;

/// Combines elements: the left ones, the right ones that become the result, how many, and the handle of their datatype. The function is the program's,
/// and trusts its caller that the elements are there.
pub type Function = dyn Fn(*mut u8, *mut u8, i64, i32) + Send + Sync;

/// An operation of the program.
pub struct UserOp {
    /// The program's function.
    pub function: Box<Function>,
    /// Whether the order of operands may change.
    pub commutes: bool,
}

/// An operation.
#[derive(Clone)]
pub enum Operation {
    /// MPI's own.
    Own(Op),
    /// The program's.
    Program(Arc<UserOp>),
}

impl Operation {
    /// Whether the order of operands may change.
    pub fn commutes(&self) -> bool {
        match self {
            Self::Own(op) => op.is_commutative(),
            Self::Program(op) => op.commutes,
        }
    }
}

/// The program's operations.
pub struct Operations(Slab<Arc<UserOp>>);

impl Default for Operations {
    fn default() -> Self {
        Self(Slab::new(Kind::Operation))
    }
}

impl Operations {
    /// The operation that a handle names.
    pub fn operation(&self, handle: i32) -> Outcome<Operation> {
        let own = u32::try_from(handle).ok().and_then(from_value);
        if let Some(op) = own {
            return Ok(Operation::Own(op));
        }
        self.0
            .index_of(handle)
            .and_then(|index| self.0.get(index))
            .map(|op| Operation::Program(Arc::clone(op)))
            .ok_or_else(|| MpiError::new(MPI_ERR_OP))
    }

    /// Keeps an operation; its handle.
    pub fn add(&mut self, op: UserOp) -> Outcome<i32> {
        let index = self
            .0
            .insert(Arc::new(op))
            .map_err(|_| MpiError::with(MPI_ERR_OTHER, "too many operations"))?;
        Ok(self.0.handle(index))
    }

    /// Lets an operation go; collectives under way keep it.
    pub fn drop(&mut self, handle: i32) -> Outcome {
        match self.0.index_of(handle) {
            Some(index) => {
                self.0.remove(index);
                Ok(())
            }
            None => Err(MpiError::with(
                MPI_ERR_OP,
                "it is none that MPI_Op_create made",
            )),
        }
    }
}
