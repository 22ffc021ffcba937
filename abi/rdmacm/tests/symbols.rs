//! The exported symbols and their version nodes are exactly those of the library that is replaced.

mod common;

use std::collections::BTreeSet;
use std::process::Command;

/// The contract: what `readelf` prints for rdma-core 44.0's library (Debian 12).
const LIST: &str = include_str!("../link/symbols.txt");

fn readelf(option: &str) -> String {
    let library = common::library_dir().join("librdmacm.so.1");
    let output = Command::new("readelf")
        .args([option, "--wide"])
        .arg(library)
        .output()
        .expect("readelf of binutils, which every C compiler brings");
    assert!(
        output.status.success(),
        "readelf {option}: {}",
        output.status
    );
    String::from_utf8(output.stdout).expect("text")
}

/// Defined symbols but the version nodes' own, as `name@@NODE` or `name@NODE`.
fn exported() -> BTreeSet<String> {
    let text = readelf("--dyn-syms");
    let rows = text.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        match columns.as_slice() {
            [_, _, _, _, _, _, section, name, ..] => Some((section.to_string(), name.to_string())),
            _ => None,
        }
    });
    rows.filter(|(section, _)| section.parse::<u32>().is_ok())
        .map(|(_, name)| name)
        .collect()
}

#[test]
fn every_symbol_has_its_version_and_there_are_no_others() {
    let wanted: BTreeSet<String> = LIST.lines().map(str::to_owned).collect();
    assert_eq!(wanted.len(), 68);
    let ours = exported();
    let missing: Vec<_> = wanted.difference(&ours).collect();
    let surplus: Vec<_> = ours.difference(&wanted).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "missing {missing:?}, surplus {surplus:?}"
    );
}

#[test]
fn the_library_names_itself_and_stays_mapped() {
    let dynamic = readelf("--dynamic");
    assert!(
        dynamic.contains("Library soname: [librdmacm.so.1]"),
        "{dynamic}"
    );
    assert!(
        dynamic.contains("NODELETE"),
        "its table of devices outlives dlclose:\n{dynamic}"
    );
    let link = common::library_dir().join("librdmacm.so");
    let target = std::fs::read_link(link).expect("the unversioned name is a link");
    assert_eq!(target.to_str(), Some("librdmacm.so.1"));
}

/// Nothing but libibverbs, the C library and the unwinder is needed: the drop-ins work in a bare container.
#[test]
fn nothing_unusual_is_needed() {
    let dynamic = readelf("--dynamic");
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
