//! Bytes to headers and back. Knows no state and no time.
#![forbid(unsafe_code)]

mod types;

pub use types::*;
