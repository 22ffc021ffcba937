//! Programs and libraries in C that tests compile.

use crate::{Place, library_dir};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What every source here is compiled with.
const ALWAYS: [&str; 4] = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"];

/// True if a header of the system's is there; else it says which package of Debian's has it.
pub fn has_header(header: &str, package: &str) -> bool {
    let found = Command::new("cc")
        .args(["-E", "-include", header, "-x", "c", "/dev/null"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("a C compiler, which linking Rust needs anyway")
        .success();
    if !found {
        eprintln!("skipped: {header} is not installed (apt install {package})");
    }
    found
}

/// A source in C that is to be compiled.
#[derive(Debug)]
pub struct Cc {
    source: PathBuf,
    program: PathBuf,
    options: Vec<OsString>,
    links: Vec<OsString>,
}

impl Cc {
    /// `tests/c/SOURCE.c`, to be compiled to `name` in the place where tests may write.
    pub fn new(place: Place, source: &str, name: &str) -> Self {
        Self::of(place.source(&format!("{source}.c")), place.out(name))
    }

    /// A source of another place, to be compiled to `program`.
    pub fn of(source: PathBuf, program: PathBuf) -> Self {
        Self {
            source,
            program,
            options: Vec::new(),
            links: Vec::new(),
        }
    }

    /// Options, before the source.
    pub fn options<S: AsRef<OsStr>>(mut self, options: impl IntoIterator<Item = S>) -> Self {
        let options = options.into_iter();
        self.options
            .extend(options.map(|option| option.as_ref().to_owned()));
        self
    }

    /// Libraries and what else is linked, behind the source.
    pub fn links<S: AsRef<OsStr>>(mut self, links: impl IntoIterator<Item = S>) -> Self {
        let links = links.into_iter();
        self.links
            .extend(links.map(|link| link.as_ref().to_owned()));
        self
    }

    /// Compiled against our own headers and libraries.
    pub fn on_libraries(self) -> Self {
        let libraries = library_dir().as_os_str();
        let headers = library_dir().join("include");
        self.options([OsStr::new("-I"), headers.as_os_str()])
            .links([OsStr::new("-L"), libraries])
    }

    /// A library to be loaded, whose symbols have the versions that a `.map` beside the source has.
    pub fn shared(self) -> Self {
        let map = self.source.with_extension("map");
        self.options(["-shared", "-fPIC"])
            .options([format!("-Wl,--version-script={}", map.display())])
    }

    /// Compiles it. A source that does not compile without a warning is a failed test.
    pub fn compile(self) -> PathBuf {
        let status = Command::new("cc")
            .args(ALWAYS)
            .args(&self.options)
            .arg("-o")
            .arg(&self.program)
            .arg(&self.source)
            .args(&self.links)
            .status()
            .expect("a C compiler, which linking Rust needs anyway");
        assert!(
            status.success(),
            "compiling {}: {status}",
            self.source.display()
        );
        self.program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_looked_for() {
        assert!(has_header("stdio.h", "libc6-dev"));
        assert!(!has_header("no/header/has/this/name.h", "nothing"));
    }
}
