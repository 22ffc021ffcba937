//! Links the drop-in C libraries.
//!
//! Two libraries are no drop-ins but are preloaded: they have the C library's names, without
//! versions, so that they stand before any version of them.
//!
//! A cdylib cannot carry the version nodes that rdma-core's libraries have: rustc passes a version script of its own, and
//! two scripts either clash or silently lose the nodes. So each library is built as a static archive and linked by the
//! C compiler with our script. `-Bsymbolic-functions` makes calls inside the library direct; `nodelete` keeps
//! the code mapped, because the progress thread outlives a `dlclose`.
//!
//! All are built with the workspace, whose features the program and `cargo test --workspace` have,
//! too: of a package alone, which `--only` builds, cargo would choose fewer features of some
//! dependencies, and compile them and all that needs them once more.

use crate::{Outcome, value, workspace_root};
use crate::{rdma_core, symbols};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A drop-in library and where its parts are.
struct Library {
    /// Cargo package that holds the code.
    package: &'static str,
    /// The name that programs are linked against.
    soname: &'static str,
    /// The name that `dlopen` callers and the linker use; empty for a library that is only preloaded.
    link_name: &'static str,
    /// Which symbols it exports.
    exports: Exports,
    /// Libraries of ours that it needs, built before it; it finds them beside itself.
    needs: &'static [&'static str],
    /// True for a library whose calls are made by threads that programs may cancel. Those of
    /// librdmacm disable that themselves, and their system calls have to go by what is preloaded on
    /// a fabric's hosts, whose addresses are not the system's.
    cancelled: bool,
    /// True for a library without the Rust standard library, which is built with a profile and a feature of its own.
    bare: bool,
    /// What compiles and finds programs, from where, and where it lies beside the libraries.
    files: &'static [(&'static str, &'static str)],
}

/// Where it stands which symbols a library exports. Files are named from the workspace's root.
#[derive(Clone, Copy)]
enum Exports {
    /// In the table of rdma-core's symbols, by this name; entry points without code are made of it.
    Table(&'static str),
    /// In a list of names with their nodes.
    Nodes(&'static str),
    /// In a list of names without versions: whoever asks for a name gets it, with or without a version.
    Plain(&'static str),
}

const LIBRARIES: &[Library] = &[
    Library {
        package: "ferriband-verbs",
        soname: "libibverbs.so.1",
        link_name: "libibverbs.so",
        exports: Exports::Table("libibverbs"),
        needs: &[],
        cancelled: true,
        bare: false,
        files: &[],
    },
    Library {
        package: "ferriband-rdmacm",
        soname: "librdmacm.so.1",
        link_name: "librdmacm.so",
        exports: Exports::Table("librdmacm"),
        needs: &["libibverbs.so.1"],
        cancelled: false,
        bare: false,
        files: &[],
    },
    Library {
        package: "ferriband-umad",
        soname: "libibumad.so.3",
        link_name: "libibumad.so",
        exports: Exports::Table("libibumad"),
        needs: &[],
        cancelled: true,
        bare: false,
        files: &[],
    },
    Library {
        package: "ferriband-sysfs",
        soname: "libferriband_sysfs.so",
        link_name: "",
        exports: Exports::Plain("abi/sysfs/link/symbols.txt"),
        needs: &[],
        cancelled: true,
        bare: false,
        files: &[],
    },
    Library {
        package: "ferriband-sdp-preload",
        soname: "libferriband_sdp.so",
        link_name: "",
        exports: Exports::Plain("ulp/sdp/preload/link/symbols.txt"),
        needs: &[],
        cancelled: false,
        bare: false,
        files: &[],
    },
    Library {
        package: "ferriband-putget",
        soname: "libferriband_putget.so.1",
        link_name: "libferriband_putget.so",
        exports: Exports::Plain("ulp/putget/abi/link/symbols.txt"),
        needs: &[],
        cancelled: false,
        bare: false,
        files: &[(
            "ulp/putget/abi/include/ferriband_putget.h",
            "include/ferriband_putget.h",
        )],
    },
    Library {
        package: "ferriband-portals-abi",
        soname: "libportals.so.4",
        link_name: "libportals.so",
        exports: Exports::Plain("ulp/portals/abi/link/symbols.txt"),
        needs: &[],
        cancelled: false,
        bare: false,
        files: &[("ulp/portals/abi/include/portals4.h", "include/portals4.h")],
    },
    Library {
        package: "ferriband-mpi",
        soname: "libferriband_mpi.so.1",
        link_name: "",
        exports: Exports::Nodes("ulp/mpi/runtime/link/symbols.txt"),
        needs: &[],
        cancelled: false,
        bare: false,
        files: &[],
    },
    Library {
        package: "ferriband-mpi-abi",
        soname: "libmpi_abi.so.1",
        link_name: "libmpi_abi.so",
        exports: Exports::Plain("ulp/mpi/abi/link/symbols.txt"),
        needs: &["libferriband_mpi.so.1"],
        cancelled: false,
        bare: true,
        files: &MPI_FILES,
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

/// The C library's cancellation points. In libraries that stand in a program's threads `abi/cancel`
/// takes the place of those that are called: one that it does not have cannot be linked. Left out
/// are `ppoll` and `readv`, by which `abi/cancel` itself sleeps, and `fcntl`, which is one only
/// where it waits for a lock on a file.
const CANCELLATION_POINTS: &str = "\
    accept accept4 aio_suspend aio_suspend64 clock_nanosleep close connect copy_file_range creat \
    creat64 epoll_pwait epoll_pwait2 epoll_wait fallocate fallocate64 fdatasync fsync getrandom \
    lockf lockf64 mq_receive mq_send mq_timedreceive mq_timedsend msgrcv msgsnd msync nanosleep \
    open open64 open_by_handle_at openat openat64 pause poll posix_fallocate posix_fallocate64 \
    pread pread64 preadv preadv2 preadv64 preadv64v2 pselect pthread_clockjoin_np \
    pthread_cond_clockwait pthread_cond_timedwait pthread_cond_wait pthread_join pwrite pwrite64 \
    pwritev pwritev2 pwritev64 pwritev64v2 read recv recvfrom recvmmsg recvmsg select \
    sem_clockwait sem_timedwait sem_wait send sendmmsg sendmsg sendto sigpause sigsuspend \
    sigtimedwait sigwait sigwaitinfo sleep splice sync_file_range system tcdrain tee usleep \
    vmsplice wait wait3 wait4 waitid waitpid write writev";

/// What compiles and finds MPI programs.
const MPI_FILES: [(&str, &str); 5] = [
    ("ulp/mpi/abi/include/mpi.h", "include/mpi.h"),
    ("ulp/mpi/abi/include/mpi-ext.h", "include/mpi-ext.h"),
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
            "--release" => profile = "release".to_owned(),
            "--profile" => profile = value(arg, &mut rest)?.to_owned(),
            "--only" => only = Some(value(arg, &mut rest)?.to_owned()),
            "--out" => out = Some(PathBuf::from(value(arg, &mut rest)?)),
            other => return Err(format!("libs: unknown argument {other}")),
        }
    }
    let scratch = target_directory().join("ferriband");
    let out = out.unwrap_or_else(|| match profile.as_str() {
        "dev" | "release" => scratch.join("lib"),
        other => scratch.join(format!("lib-{other}")),
    });
    std::fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let wanted: Vec<&Library> = LIBRARIES
        .iter()
        .filter(|library| {
            only.as_ref()
                .is_none_or(|name| library.soname.contains(name.as_str()))
        })
        .collect();
    let packages: Vec<&str> = match only {
        None => vec!["--workspace", "--lib"],
        Some(_) => wanted
            .iter()
            .filter(|library| !library.bare)
            .flat_map(|library| ["--package", library.package])
            .collect(),
    };
    let built = match packages.is_empty() {
        true => PathBuf::new(),
        false => cargo(&[&["build"], &*packages].concat(), &profile)?,
    };
    for library in wanted {
        let archive = match library.bare {
            false => archive(library, &built),
            true => build_face(library, &profile)?,
        };
        link(library, &archive, &out)?;
        println!("{}", out.join(library.soname).display());
        for (from, to) in library.files {
            install(&workspace_root().join(from), &out.join(to))?;
        }
    }
    Ok(())
}

/// Where cargo puts what it builds.
pub fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace_root().join("target"), PathBuf::from)
}

/// Builds a library without the standard library as a static archive.
fn build_face(library: &Library, profile: &str) -> Result<PathBuf, String> {
    let profile = match profile {
        "dev" => "face-dev",
        _ => "face",
    };
    let package = ["rustc", "--package", library.package, "--lib"];
    let kind = ["--crate-type", "staticlib", "--features", "final"];
    let built = cargo(&[package, kind].concat(), profile)?;
    Ok(archive(library, &built))
}

/// Lets cargo build, and gives the directory in which it puts what it builds with this profile.
fn cargo(args: &[&str], profile: &str) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(workspace_root())
        .args(args)
        .args(["--profile", profile])
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    match status.success() {
        true => Ok(target_directory().join(match profile {
            "dev" => "debug",
            other => other,
        })),
        false => Err(format!("cargo {}: {status}", args.join(" "))),
    }
}

/// The static archive of a library, in the directory where cargo put it.
fn archive(library: &Library, directory: &Path) -> PathBuf {
    directory.join(format!("lib{}.a", library.package.replace('-', "_")))
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

/// A library's version script, and the entry points that have no code of their own, as assembly.
fn exports(library: &Library) -> Result<(String, String), String> {
    let read = |list: &str| {
        std::fs::read_to_string(workspace_root().join(list))
            .map_err(|error| format!("{list}: {error}"))
    };
    Ok(match library.exports {
        Exports::Plain(list) => (symbols::export_script(&read(list)?), String::new()),
        Exports::Nodes(list) => {
            let script = symbols::version_script(&symbols::parse(&read(list)?)?);
            (script, String::new())
        }
        Exports::Table(name) => {
            let rows = rdma_core::table()?;
            let script = symbols::version_script(&symbols::of_library(&rows, name));
            (script, symbols::entries(&rows, name))
        }
    })
}

fn write(file: &Path, text: &str) -> Outcome {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Links the archive into `out`, under its soname, and places the unversioned link beside it. The new file replaces the
/// old one in one step, so that programs which have it mapped keep what they mapped.
fn link(library: &Library, archive: &Path, out: &Path) -> Outcome {
    let script = out.join(format!("{}.map", library.package));
    let assembly = out.join(format!("{}.S", library.package));
    let (rules, entries) = exports(library)?;
    write(&script, &rules)?;
    write(&assembly, &entries)?;

    let fresh = out.join(format!("{}.{}", library.soname, std::process::id()));
    let cc = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    crate::run(
        Command::new(cc)
            .args(["-shared", "-o"])
            .arg(&fresh)
            .arg(format!("-Wl,-soname,{}", library.soname))
            .arg(format!("-Wl,--version-script={}", script.display()))
            .args(Some(&assembly).filter(|_| !entries.is_empty()))
            .arg("-Wl,--whole-archive")
            .arg(archive)
            .arg("-Wl,--no-whole-archive")
            .args([
                "-Wl,--gc-sections",
                "-Wl,-z,now,-z,relro,-z,defs,-z,nodelete",
                "-Wl,-Bsymbolic-functions",
            ])
            .args(
                CANCELLATION_POINTS
                    .split_whitespace()
                    .filter(|_| library.cancelled)
                    .map(|name| format!("-Wl,--wrap={name}")),
            )
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
