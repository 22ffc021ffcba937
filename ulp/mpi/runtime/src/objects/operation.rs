//! Operations that the program made, and their calls: the program's functions run outside of the runtime, because they may ask it something.

use crate::collective::exec::Call;
use crate::constants::{MPI_ERR_OP, MPI_ERR_OTHER};
use crate::edge::Guard;
use crate::errors::{MpiError, Outcome};
use crate::handle::Kind;
use crate::runtime::Runtime;
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

impl Runtime {
    /// The operation that a handle names.
    pub fn operation(&self, handle: i32) -> Outcome<Operation> {
        let own = u32::try_from(handle).ok().and_then(from_value);
        if let Some(op) = own {
            return Ok(Operation::Own(op));
        }
        self.ops
            .index_of(handle)
            .and_then(|index| self.ops.get(index))
            .map(|op| Operation::Program(Arc::clone(op)))
            .ok_or_else(|| MpiError::new(MPI_ERR_OP))
    }

    /// Keeps an operation; its handle.
    pub fn add_operation(&mut self, op: UserOp) -> Outcome<i32> {
        let index = self
            .ops
            .insert(Arc::new(op))
            .map_err(|_| MpiError::with(MPI_ERR_OTHER, "too many operations"))?;
        Ok(self.ops.handle(index))
    }

    /// Lets an operation go; collectives under way keep it.
    pub fn drop_operation(&mut self, handle: i32) -> Outcome {
        match self.ops.index_of(handle) {
            Some(index) => {
                self.ops.remove(index);
                Ok(())
            }
            None => Err(MpiError::with(
                MPI_ERR_OP,
                "it is none that MPI_Op_create made",
            )),
        }
    }
}

/// The program's operations.
pub type Operations = crate::handle::Slab<Arc<UserOp>>;

/// None yet.
pub fn none() -> Operations {
    Operations::new(Kind::Operation)
}

/// Progress, and then the program's functions that it has come to.
impl Guard {
    /// One round. True if something happened.
    #[inline]
    pub fn progress(&mut self) -> Outcome<bool> {
        let did = Runtime::progress(self)?;
        if self.calls.is_empty() {
            return Ok(did);
        }
        self.call_all();
        Ok(true)
    }

    /// One round with a look at every channel.
    pub fn progress_all(&mut self) -> Outcome<bool> {
        let did = Runtime::progress_all(self)?;
        if self.calls.is_empty() {
            return Ok(did);
        }
        self.call_all();
        Ok(true)
    }

    #[cold]
    fn call_all(&mut self) {
        while let Some(call) = self.calls.pop_front() {
            self.outside(|| call.run());
            self.called(&call);
        }
    }
}

/// Calls that are to be made.
pub type Calls = std::collections::VecDeque<Call>;
