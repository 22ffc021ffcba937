//! Where a test writes what nobody needs after it.

use std::path::{Path, PathBuf};

/// A file or a directory of one test, in the system's directory for temporary files. It is removed
/// when this is dropped, with all that is in it.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A place where nothing is: for a file. `name` is the end of its name, and no other test's of
    /// this process.
    pub fn file(name: &str) -> Self {
        let name = format!("ferriband-{}-{name}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }

    /// An empty directory; `name` as for a file.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn directory(name: &str) -> Self {
        let scratch = Self::file(name);
        std::fs::create_dir_all(&scratch.0).expect("the temporary directory is writable");
        scratch
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where it is, as a program's argument.
    ///
    /// # Panics
    /// If the system's directory has a name that is no text.
    pub fn text(&self) -> &str {
        self.0.to_str().expect("a path that is text")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = match self.0.is_dir() {
            true => std::fs::remove_dir_all(&self.0),
            false => std::fs::remove_file(&self.0),
        };
    }
}
