//! The exported symbols and their version nodes are exactly those of the table of rdma-core's releases.

#[path = "../../verbs/tests/common/mod.rs"]
mod common;
#[path = "../../verbs/tests/common/exported.rs"]
mod exported;

use exported::{exports_what_is_listed, readelf};

#[test]
fn every_symbol_has_its_version_and_there_are_no_others() {
    let library = common::library_dir().join("libibumad.so.3");
    exports_what_is_listed(&library, "libibumad");
    let dynamic = readelf(&library, "--dynamic");
    assert!(
        dynamic.contains("Library soname: [libibumad.so.3]"),
        "{dynamic}"
    );
}
