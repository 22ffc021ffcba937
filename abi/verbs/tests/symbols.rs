//! The exported symbols and their version nodes are exactly those of the library that is replaced.

mod common;
#[path = "common/exported.rs"]
mod exported;

use std::collections::BTreeSet;
use std::path::PathBuf;

use exported::{exported, readelf};

/// The contract: what `readelf` prints for rdma-core 44.0's library (Debian 12).
const LIST: &str = include_str!("../link/symbols.txt");

fn library() -> PathBuf {
    common::library_dir().join("libibverbs.so.1")
}

#[test]
fn every_symbol_has_its_version_and_there_are_no_others() {
    let wanted: BTreeSet<String> = LIST.lines().map(str::to_owned).collect();
    // rdma-core's, those that librdmacm finds here, and the one of the library for sysfs
    assert_eq!(wanted.len(), 180 + 22 + 1);
    let ours = exported(&library());
    let missing: Vec<_> = wanted.difference(&ours).collect();
    let surplus: Vec<_> = ours.difference(&wanted).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "missing {missing:?}, surplus {surplus:?}"
    );
}

#[test]
fn the_library_names_itself_and_stays_mapped() {
    let dynamic = readelf(&library(), "--dynamic");
    assert!(
        dynamic.contains("Library soname: [libibverbs.so.1]"),
        "{dynamic}"
    );
    assert!(
        dynamic.contains("NODELETE"),
        "the progress thread outlives dlclose:\n{dynamic}"
    );
    let link = common::library_dir().join("libibverbs.so");
    let target = std::fs::read_link(link).expect("the unversioned name is a link");
    assert_eq!(target.to_str(), Some("libibverbs.so.1"));
}

/// Nothing but the C library and the unwinder is needed: the drop-in works in a bare container.
#[test]
fn nothing_unusual_is_needed() {
    let dynamic = readelf(&library(), "--dynamic");
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    for line in needed {
        let known = [
            "libc.so.6",
            "libgcc_s.so.1",
            "libm.so.6",
            "ld-linux-x86-64.so.2",
        ];
        assert!(known.iter().any(|name| line.contains(name)), "{line}");
    }
}
