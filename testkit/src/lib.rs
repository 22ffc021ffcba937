//! What tests of several crates need: the C libraries freshly built, programs in C compiled and run
//! on them, whether the machine has what a test wants, and where a test may write.
//!
//! It is for tests alone and knows no crate of ours, so that any of them may use it.
//! Where something is missing that a test wants, the test says so and passes without having tested.

#![forbid(unsafe_code)]

mod c;
mod libraries;
mod place;
mod port;
mod program;
mod scratch;

pub use c::{Cc, has_header};
pub use libraries::{cargo, ferriband, library, library_dir};
pub use place::Place;
pub use port::port_is_to_be_had;
pub use program::{finish, is_there};
pub use scratch::Scratch;
