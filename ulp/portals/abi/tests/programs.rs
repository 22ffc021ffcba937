//! Programs in C that are written to `portals4.h`, on Ferriband's own adapter.

#[path = "../../../../cli/tests/libraries/mod.rs"]
mod libraries;

use libraries::library_dir;
use std::path::Path;
use std::process::Command;

#[test]
fn two_processes_put_get_match_and_trigger() {
    let libraries = library_dir();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/pair.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("portals-pair");
    let status = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(source)
        .arg("-I")
        .arg(libraries.join("include"))
        .arg("-L")
        .arg(libraries)
        .arg("-lportals")
        .status()
        .expect("cc runs");
    assert!(status.success(), "pair.c does not compile");
    let output = Command::new("timeout")
        .arg("60")
        .arg(&program)
        .env("LD_LIBRARY_PATH", libraries)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert_eq!(output.stdout, b"ok\n");
}
