//! Links the drop-in C libraries.
//!
//! One library is no drop-in but is preloaded: it has the C library's names, without versions, so that it stands before any version of them.
//!
//! A cdylib cannot carry the version nodes that rdma-core's libraries have: rustc passes a version script of its own, and
//! two scripts either clash or silently lose the nodes. So each library is built as a static archive and linked by the
//! C compiler with our script. `-Bsymbolic-functions` makes calls inside the library direct; `nodelete` keeps
//! the code mapped, because the progress thread outlives a `dlclose`.
//!
//! For tests all are built with the workspace, whose features `cargo test --workspace` has, too: of a package alone cargo would choose fewer
//! features of some dependencies, and compile them and all that needs them once more.

use crate::symbols;
use crate::{Outcome, value, workspace_root};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A drop-in library and where its parts are.
struct Library {
    /// Cargo package that holds the code.
    package: &'static str,
    /// The name that programs are linked against.
    soname: &'static str,
    /// The name that `dlopen` callers and the linker use; empty for a library that is only preloaded.
    link_name: &'static str,
    /// Directory with `symbols.txt`, and `compat.S` if there are symbols that the code does not have, from the workspace root.
    link_dir: &'static str,
    /// Libraries of ours that it needs, built before it; it finds them beside itself.
    needs: &'static [&'static str],
    /// How its symbols are versioned.
    script: Script,
    /// True for a library without the Rust standard library, which is built with a profile and a feature of its own.
    bare: bool,
}

/// How a library's symbols are versioned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Script {
    /// In the nodes that the list gives.
    Nodes,
    /// Not at all: whoever asks for a name gets it, with or without a version.
    Plain,
}

const LIBRARIES: &[Library] = &[
    Library {
        package: "ferriband-verbs",
        soname: "libibverbs.so.1",
        link_name: "libibverbs.so",
        link_dir: "abi/verbs/link",
        needs: &[],
        script: Script::Nodes,
        bare: false,
    },
    Library {
        package: "ferriband-rdmacm",
        soname: "librdmacm.so.1",
        link_name: "librdmacm.so",
        link_dir: "abi/rdmacm/link",
        needs: &["libibverbs.so.1"],
        script: Script::Nodes,
        bare: false,
    },
    Library {
        package: "ferriband-umad",
        soname: "libibumad.so.3",
        link_name: "libibumad.so",
        link_dir: "abi/umad/link",
        needs: &[],
        script: Script::Nodes,
        bare: false,
    },
    Library {
        package: "ferriband-sysfs",
        soname: "libferriband_sysfs.so",
        link_name: "",
        link_dir: "abi/sysfs/link",
        needs: &[],
        script: Script::Plain,
        bare: false,
    },
    Library {
        package: "ferriband-mpi",
        soname: "libferriband_mpi.so.1",
        link_name: "",
        link_dir: "ulp/mpi/runtime/link",
        needs: &[],
        script: Script::Nodes,
        bare: false,
    },
    Library {
        package: "ferriband-mpi-abi",
        soname: "libmpi_abi.so.1",
        link_name: "libmpi_abi.so",
        link_dir: "ulp/mpi/abi/link",
        needs: &["libferriband_mpi.so.1"],
        script: Script::Plain,
        bare: true,
    },
];

/// What the Rust standard library needs from the system (`rustc --print native-static-libs`).
const SYSTEM_LIBRARIES: &[&str] = &[
    "-lgcc_s",
    "-lutil",
    "-lrt",
    "-lpthread",
    "-lm",
    "-ldl",
    "-lc",
];

/// What compiles and finds MPI programs, and where it lies beside the libraries.
const MPI_FILES: [(&str, &str); 4] = [
    ("ulp/mpi/abi/include/mpi.h", "include/mpi.h"),
    (
        "ulp/mpi/abi/include/ferriband_mpi.h",
        "include/ferriband_mpi.h",
    ),
    ("ulp/mpi/abi/bin/mpicc", "bin/mpicc"),
    ("ulp/mpi/abi/bin/mpicc", "bin/mpicxx"),
];

/// `cargo xtask libs`.
pub fn run(args: &[String]) -> Outcome {
    let mut profile = "dev".to_owned();
    let mut out = None;
    let mut only = None;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--release" => profile = "libs".to_owned(),
            "--profile" => profile = value(arg, &mut rest)?.to_owned(),
            "--only" => only = Some(value(arg, &mut rest)?.to_owned()),
            "--out" => out = Some(PathBuf::from(value(arg, &mut rest)?)),
            other => return Err(format!("libs: unknown argument {other}")),
        }
    }
    let scratch = target_directory().join("ferriband");
    let out = out.unwrap_or_else(|| match profile.as_str() {
        "dev" | "libs" => scratch.join("lib"),
        other => scratch.join(format!("lib-{other}")),
    });
    std::fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let wanted = |library: &&Library| {
        only.as_ref()
            .is_none_or(|name| library.soname.contains(name.as_str()))
    };
    let tested = match (profile.as_str(), &only) {
        ("dev", None) => Some(cargo(&["build", "--workspace", "--lib"], "dev")?),
        _ => None,
    };
    for library in LIBRARIES.iter().filter(wanted) {
        let archive = match &tested {
            Some(said) if !library.bare => named_archive(library, said)?,
            _ => build_archive(library, &profile)?,
        };
        link(library, &archive, &out)?;
        println!("{}", out.join(library.soname).display());
        if library.bare {
            for (from, to) in MPI_FILES {
                install(&workspace_root().join(from), &out.join(to))?;
            }
        }
    }
    Ok(())
}

/// Where cargo puts what it builds.
pub fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace_root().join("target"), PathBuf::from)
}

/// Builds the package alone as a static archive and asks cargo where it lies.
fn build_archive(library: &Library, profile: &str) -> Result<PathBuf, String> {
    let profile = match (library.bare, profile) {
        (false, name) => name,
        (true, "dev") => "face-dev",
        (true, _) => "face",
    };
    let package: &[&str] = &["rustc", "--package", library.package, "--lib"];
    let kind: &[&str] = &["--crate-type", "staticlib"];
    let features: &[&str] = match library.bare {
        true => &["--features", "final"],
        false => &[],
    };
    let said = cargo(&[package, kind, features].concat(), profile)?;
    named_archive(library, &said)
}

/// Lets cargo build, and gives what it says of it, as JSON.
fn cargo(args: &[&str], profile: &str) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(workspace_root())
        .args(args)
        .args(["--profile", profile])
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("cargo {}: {}", args.join(" "), output.status)),
    }
}

/// The static archive of a library in what cargo said.
fn named_archive(library: &Library, said: &str) -> Result<PathBuf, String> {
    let archive_name = format!("lib{}.a", library.package.replace('-', "_"));
    said.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| {
            message
                .get("filenames")
                .and_then(|names| names.as_array().cloned())
        })
        .flatten()
        .filter_map(|name| name.as_str().map(PathBuf::from))
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name == archive_name.as_str())
        })
        .ok_or_else(|| format!("cargo reported no {archive_name}"))
}

/// Copies a file with its mode, in one step for who looks.
fn install(from: &Path, to: &Path) -> Outcome {
    let name = |error: std::io::Error| format!("{}: {error}", to.display());
    if let Some(dir) = to.parent() {
        std::fs::create_dir_all(dir).map_err(name)?;
    }
    let fresh = to.with_extension(std::process::id().to_string());
    std::fs::copy(from, &fresh)
        .and_then(|_| std::fs::rename(&fresh, to))
        .map_err(name)
}

/// Links the archive into `out`, under its soname, and places the unversioned link beside it. The new file replaces the
/// old one in one step, so that programs which have it mapped keep what they mapped.
fn link(library: &Library, archive: &Path, out: &Path) -> Outcome {
    let link_dir = workspace_root().join(library.link_dir);
    let list = link_dir.join("symbols.txt");
    let text =
        std::fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    let script = out.join(format!("{}.map", library.package));
    let rules = match library.script {
        Script::Plain => symbols::export_script(&text),
        Script::Nodes => symbols::version_script(&symbols::parse(&text)?),
    };
    std::fs::write(&script, rules).map_err(|error| format!("{}: {error}", script.display()))?;

    let fresh = out.join(format!("{}.{}", library.soname, std::process::id()));
    let cc = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    crate::run(
        Command::new(cc)
            .args(["-shared", "-o"])
            .arg(&fresh)
            .arg(format!("-Wl,-soname,{}", library.soname))
            .arg(format!("-Wl,--version-script={}", script.display()))
            .args(Some(link_dir.join("compat.S")).filter(|file| file.exists()))
            .arg("-Wl,--whole-archive")
            .arg(archive)
            .arg("-Wl,--no-whole-archive")
            .args([
                "-Wl,--gc-sections",
                "-Wl,-z,now,-z,relro,-z,defs,-z,nodelete",
                "-Wl,-Bsymbolic-functions",
            ])
            .args(library.needs.iter().map(|needed| out.join(needed)))
            .args(Some("-Wl,-rpath,$ORIGIN").filter(|_| library.bare))
            .args(if library.bare {
                &["-lc"]
            } else {
                SYSTEM_LIBRARIES
            }),
    )?;

    let place = |from: &Path, to: PathBuf| {
        std::fs::rename(from, &to).map_err(|error| format!("{}: {error}", to.display()))
    };
    place(&fresh, out.join(library.soname))?;
    if library.link_name.is_empty() {
        return Ok(());
    }
    let link = out.join(format!("{}.{}", library.link_name, std::process::id()));
    std::os::unix::fs::symlink(library.soname, &link)
        .map_err(|error| format!("{}: {error}", link.display()))?;
    place(&link, out.join(library.link_name))
}
