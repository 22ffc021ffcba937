//! The exported symbols and their version nodes are exactly those of the table of rdma-core's releases.

#[path = "../../verbs/tests/common/exported.rs"]
mod exported;

use exported::{exports_what_is_listed, readelf};
use ferriband_testkit::library;

#[test]
fn every_symbol_has_its_version_and_there_are_no_others() {
    let library = library("libibumad.so.3");
    exports_what_is_listed(&library, "libibumad");
    let dynamic = readelf(&library, "--dynamic");
    assert!(
        dynamic.contains("Library soname: [libibumad.so.3]"),
        "{dynamic}"
    );
}
