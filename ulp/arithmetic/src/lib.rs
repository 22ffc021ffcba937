//! Arithmetic on arrays of elements that a program names by a datatype: the operations of MPI's
//! reductions and of Portals' atomics.
//!
//! Owns: the kinds of elements ([`Kind`]), the operations ([`Op`]) and their loops ([`reduce`]),
//! conditional and masked swaps ([`Condition`]), formats of floating point that Rust has no types
//! for. Must not know: whose datatypes and operations these are, and which of them go together by
//! whose standard; who else touches the memory.
//!
//! Memory of the application is touched in [`kernels`] alone, by address, never behind a reference.

#![deny(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64")))]
compile_error!("ferriband-arithmetic knows the layout of long double on x86-64 only");

mod float;
#[allow(unsafe_code)]
pub mod kernels;
mod kind;
mod op;
mod swap;

pub use float::{f80_to_f128, f128_to_f80};
pub use kernels::{reduce, reduce_into, reduce_slices};
pub use kind::Kind;
pub use op::{NotDefined, Op};
pub use swap::{Condition, compare, swap_masked};
