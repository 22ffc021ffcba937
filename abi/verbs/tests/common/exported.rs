//! What a built library exports, for the symbol tests of both.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What `readelf` says of a library.
pub fn readelf(library: &Path, option: &str) -> String {
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

/// The table of rdma-core's symbols, node by node.
const TABLE: &str = include_str!("../../../symbols.tsv");

/// What a library must export by the table, as `name@@NODE` or `name@NODE`.
pub fn listed(library: &str) -> BTreeSet<String> {
    let rows = TABLE
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    rows.filter(|fields| fields[0] == library)
        .map(|fields| format!("{}{}", fields[1], fields[2]))
        .collect()
}

/// Fails unless the library exports what the table has for it, each symbol in its nodes, and nothing else.
pub fn exports_what_is_listed(library: &Path, name: &str) {
    let wanted = listed(name);
    assert!(wanted.len() > 30, "the table has {name}");
    let ours = exported(library);
    let missing: Vec<_> = wanted.difference(&ours).collect();
    let surplus: Vec<_> = ours.difference(&wanted).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "missing {missing:?}, surplus {surplus:?}"
    );
}

/// Defined symbols but the version nodes' own, as `name@@NODE` or `name@NODE`.
pub fn exported(library: &Path) -> BTreeSet<String> {
    let text = readelf(library, "--dyn-syms");
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
