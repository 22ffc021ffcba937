//! Two queue pairs and any list of operations.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../bodies/operations.rs"]
mod operations;

fuzz_target!(|bytes: &[u8]| operations::run(bytes));
