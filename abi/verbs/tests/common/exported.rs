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
