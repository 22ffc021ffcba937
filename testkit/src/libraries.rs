//! The C libraries and their headers, as `cargo xtask libs` builds them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The directory that holds the libraries, freshly built, once for all tests of a process.
pub fn library_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let paths = cargo(&["run", "--quiet", "--package", "xtask", "--", "libs"]);
        let first = Path::new(paths.lines().next().expect("a library"));
        first
            .parent()
            .expect("it lies in a directory")
            .to_path_buf()
    })
}

/// A library by the name of its file, in [`library_dir`].
pub fn library(name: &str) -> PathBuf {
    let path = library_dir().join(name);
    assert!(path.is_file(), "{} is not built", path.display());
    path
}

/// The program `ferriband`, freshly built, for tests of other packages than its own.
pub fn ferriband() -> String {
    let build = [
        "build",
        "--quiet",
        "--package",
        "ferriband",
        "--bin",
        "ferriband",
    ];
    let said = cargo(&[&build[..], &["--message-format", "json"]].concat());
    let (_, path) = said
        .rsplit_once("\"executable\":\"")
        .expect("cargo names the program");
    path.split('"').next().expect("a path").to_owned()
}

/// What cargo prints that runs in this workspace, and must succeed.
pub fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "cargo {arguments:?} failed:\n{said}"
    );
    String::from_utf8(output.stdout).expect("text")
}
