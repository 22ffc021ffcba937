//! Where a package's tests have their sources in C, and where they may write.

use std::path::{Path, PathBuf};

/// The places of a package's tests; [`place!`](crate::place!) makes it, for only the test itself is
/// compiled with these names.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    package: &'static str,
    out: &'static str,
}

/// The places of the package whose test is compiled here.
#[macro_export]
macro_rules! place {
    () => {
        $crate::Place::new(env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR"))
    };
}

impl Place {
    /// The places of the package in the directory `package`, whose tests may write to `out`.
    pub const fn new(package: &'static str, out: &'static str) -> Self {
        Self { package, out }
    }

    /// A file of the package's `tests/c`.
    pub fn source(self, name: &str) -> PathBuf {
        Path::new(self.package).join("tests/c").join(name)
    }

    /// A file where tests may write. It is shared by all tests of the workspace.
    pub fn out(self, name: &str) -> PathBuf {
        Path::new(self.out).join(name)
    }
}
