//! Programs of our own that run on both sides: those of put and get, and of Portals 4, with the
//! libraries that they need beside those of verbs.
//!
//! Owns: a directory that the guest sees as well. Must not know: what the programs do.

use crate::{Outcome, workspace_root};
use std::path::PathBuf;
use std::process::Command;

/// A program's source, and the library that it is linked to, with its name at run time.
const PROGRAMS: [(&str, &str, &str); 2] = [
    (
        "ulp/putget/abi/tests/c/pingpong.c",
        "ferriband_putget",
        "libferriband_putget.so.1",
    ),
    (
        "ulp/portals/abi/tests/c/pair.c",
        "portals",
        "libportals.so.4",
    ),
];

/// Where they lie.
pub fn directory() -> PathBuf {
    crate::libs::target_directory().join("interop")
}

/// Compiles them, and puts the libraries beside them: without ours of verbs, which a side that has
/// the kernel's adapter must not find.
pub fn build() -> Outcome {
    let libraries = crate::libs::target_directory().join("ferriband");
    let to = directory();
    std::fs::create_dir_all(&to).map_err(|error| format!("{}: {error}", to.display()))?;
    for (source, link, library) in PROGRAMS {
        let source = workspace_root().join(source);
        let name = source.file_stem().expect("a source has a name");
        crate::run(
            Command::new("cc")
                .args(["-O2", "-o"])
                .arg(to.join(name))
                .arg(&source)
                .arg("-I")
                .arg(libraries.join("lib/include"))
                .arg("-L")
                .arg(libraries.join("lib"))
                .args([&format!("-l{link}"), "-lpthread"]),
        )?;
        let (from, copy) = (libraries.join("lib").join(library), to.join(library));
        std::fs::copy(&from, &copy).map_err(|error| format!("{}: {error}", from.display()))?;
    }
    Ok(())
}
