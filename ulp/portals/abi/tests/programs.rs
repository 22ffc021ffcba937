//! Programs in C that are written to `portals4.h`, on Ferriband's own adapter.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the libraries are, built by `cargo xtask libs`.
fn libraries() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["run", "--quiet", "--package", "xtask", "--", "libs"])
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo xtask libs failed:\n{said}");
    let paths = String::from_utf8(output.stdout).expect("paths");
    let first = PathBuf::from(paths.lines().next().expect("a library"));
    first.parent().expect("a directory").to_owned()
}

#[test]
fn two_processes_put_get_match_and_trigger() {
    let libraries = libraries();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/pair.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("portals-pair");
    let status = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(source)
        .arg("-I")
        .arg(libraries.join("include"))
        .arg("-L")
        .arg(&libraries)
        .arg("-lportals")
        .status()
        .expect("cc runs");
    assert!(status.success(), "pair.c does not compile");
    let output = Command::new("timeout")
        .arg("60")
        .arg(&program)
        .env("LD_LIBRARY_PATH", &libraries)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert_eq!(output.stdout, b"ok\n");
}
