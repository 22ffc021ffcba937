//! The exported symbols and their version nodes are exactly those of the table of rdma-core's releases.

#[path = "../../verbs/tests/common/exported.rs"]
mod exported;

use exported::{exports_what_is_listed, readelf};
use ferriband_testkit::library_dir;
use std::path::PathBuf;

fn library() -> PathBuf {
    ferriband_testkit::library("librdmacm.so.1")
}

#[test]
fn every_symbol_has_its_version_and_there_are_no_others() {
    exports_what_is_listed(&library(), "librdmacm");
}

#[test]
fn the_library_names_itself_and_stays_mapped() {
    let dynamic = readelf(&library(), "--dynamic");
    assert!(
        dynamic.contains("Library soname: [librdmacm.so.1]"),
        "{dynamic}"
    );
    assert!(
        dynamic.contains("NODELETE"),
        "its table of devices outlives dlclose:\n{dynamic}"
    );
    let link = library_dir().join("librdmacm.so");
    let target = std::fs::read_link(link).expect("the unversioned name is a link");
    assert_eq!(target.to_str(), Some("librdmacm.so.1"));
}

/// Nothing but libibverbs, the C library and the unwinder is needed: the drop-ins work in a bare container.
#[test]
fn nothing_unusual_is_needed() {
    let dynamic = readelf(&library(), "--dynamic");
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    assert!(
        needed.clone().any(|line| line.contains("libibverbs.so.1")),
        "{dynamic}"
    );
    for line in needed {
        let known = [
            "libibverbs.so.1",
            "libc.so.6",
            "libgcc_s.so.1",
            "libm.so.6",
            "ld-linux-x86-64.so.2",
        ];
        assert!(known.iter().any(|name| line.contains(name)), "{line}");
    }
}
