//! The drop-in libraries, for tests that run programs on them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The directory of the libraries, freshly built.
pub fn library_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let output = Command::new(env!("CARGO"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["run", "--quiet", "--package", "xtask", "--", "libs"])
            .output()
            .expect("cargo runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cargo xtask libs failed:\n{said}");
        let paths = String::from_utf8(output.stdout).expect("paths");
        let library = PathBuf::from(paths.lines().next().expect("a library"));
        library.parent().expect("a directory").to_path_buf()
    })
}
