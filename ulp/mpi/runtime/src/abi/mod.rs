//! The private symbols: what a face calls. One file for each chapter of the standard; `agreement.rs` checks that each is what faces declare.
//!
//! Owns: what an argument of a call may be, and what becomes of an error. Must not know: which ABI
//! calls; how a message or a collective is done.
//!
//! SAFETY of every entry: pointers are the program's, and the standard says of each how far it may be read or written, and until when.
//!
//! A function that is added here is given the state `offered` in the table, and `cargo xtask mpi` declares it to the faces.
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments, missing_docs)]

mod agreement;
mod attribute;
mod blocks;
mod buffered;
mod callback;
mod child;
mod collective;
mod collective_calls;
mod collective_short;
mod comm_make;
mod communicator;
mod environment;
mod error;
mod exchange;
mod file;
mod fortran;
mod general;
mod graph;
mod group;
mod handler;
mod handles;
mod info;
mod init;
mod inter;
mod message;
mod neighbor;
mod op;
mod pack;
mod partitioned;
mod persistent;
mod point;
mod raise;
mod reduce;
mod request;
mod request_ask;
mod request_many;
mod session;
mod session_buffer;
mod short_path;
mod stats;
mod status;
mod topology;
mod type_ask;
mod type_f90;
mod type_make;
mod ulfm;
mod values;

pub use attribute::*;
pub use buffered::*;
pub use collective_calls::*;
pub use comm_make::*;
pub use communicator::*;
pub use environment::*;
pub use error::*;
pub use exchange::*;
pub use file::*;
pub use fortran::*;
pub use general::*;
pub use graph::*;
pub use group::*;
pub use handler::*;
pub use info::*;
pub use message::*;
pub use neighbor::*;
pub use op::*;
pub use pack::*;
pub use partitioned::*;
pub use persistent::*;
pub use point::*;
pub use request::*;
pub use request_ask::*;
pub use request_many::*;
pub use session::*;
pub use session_buffer::*;
pub use stats::*;
pub use status::*;
pub use topology::*;
pub use type_ask::*;
pub use type_f90::*;
pub use type_make::*;
pub use ulfm::*;

pub use crate::coll::state::Guard;
