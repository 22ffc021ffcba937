//! MPI's data: datatypes and reduction operations, without communicators and without a wire.
//!
//! Owns: the predefined types ([`Named`]), the constructors of derived ones ([`Datatype`]), what a type looks like in memory (a
//! compact program of loops over contiguous runs), moving such data to and from plain bytes ([`Cursor`], [`copy()`], [`external`]),
//! lists of its segments for scatter and gather ([`View::segments`]), and what MPI says of
//! operations ([`Predefined`]); their loops are `ferriband-arithmetic`'s.
//!
//! Must not know: handles, communicators, transports, time. A datatype here is an object; whoever gives programs handles keeps
//! it in a slab, counts its users by [`Datatype`]'s own reference count, and adds names, attributes and the committed mark.
//!
//! Sizes, extents and displacements are bytes in `i64`; counts are elements in `i64`. Whatever an application may pass is checked
//! when a type is made or a [`View`] is taken, in arithmetic that cannot wrap; after that nothing fails but a buffer's end.
//! Memory of the application is touched in [`copy`](mod@crate::copy) alone, by address, never
//! behind a reference.
//!
//! Sections cited as *MPI 5.1.2* are those of the MPI standard 5.0.

#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64")))]
compile_error!(
    "ferriband-mpi-data knows the layout of long double and of C structures on x86-64 only"
);

mod array;
mod construct;
#[allow(unsafe_code)]
pub mod copy;
mod datatype;
mod envelope;
mod error;
pub mod external;
mod f90;
mod map;
mod named;
pub mod op;
mod program;
mod signature;
mod view;

pub use array::{Distribution, Order};
pub use copy::{Cursor, copy, pack, unpack};
pub use datatype::Datatype;
pub use envelope::{Combiner, Contents, Form};
pub use error::{Class, Error};
pub use f90::{F90, TypeClass, match_size, value_index};
pub use ferriband_arithmetic::{Kind, NotDefined, Op, reduce, reduce_into};
pub use named::{Group, Named};
pub use op::{Predefined, Validity};
pub use signature::Signature;
pub use view::{Filled, Segment, Span, View};
