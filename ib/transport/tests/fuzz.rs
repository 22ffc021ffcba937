//! The bodies of the fuzz targets, as property tests: where there is no libFuzzer they run all the same.

use proptest::prelude::*;

#[path = "../fuzz/bodies/operations.rs"]
mod operations;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn any_operations_leave_every_request_completing_once(
        bytes in proptest::collection::vec(any::<u8>(), 0..3000),
    ) {
        operations::run(&bytes);
    }
}
