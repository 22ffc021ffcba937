//! The chores of this workspace, as `cargo xtask COMMAND`.
//!
//! `libs` links the drop-in C libraries with their version nodes; `bindings` regenerates the
//! checked-in bindings; `mpi` writes the MPI ABI from its tables; `symbols` keeps the table of
//! rdma-core's symbols; `gates` checks rules that no compiler does; `budgets` counts the
//! instructions of hot paths; `interop` talks with the Linux kernel's own adapter. Nothing here is
//! needed to build the Rust crates, and no crate depends on it.

mod arrows;
mod bindings;
mod budgets;
mod gates;
mod interop;
mod libs;
mod mpi;
mod rdma_core;
mod symbols;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  libs [--release | --profile NAME] [--out DIR] [--only TEXT]
        build the libraries (libibverbs.so.1, librdmacm.so.1, libferriband_sysfs.so, libferriband_sdp.so, libferriband_putget.so.1, libportals.so.4, libferriband_mpi.so.1, libmpi_abi.so.1) into DIR, by default target/ferriband/lib,
        or target/ferriband/lib-NAME for another profile; with --only those whose name has TEXT in it
  bindings [--bindgen PATH] [--check]
        regenerate src/bindings.rs of abi/verbs-sys and abi/rdmacm-sys from the rdma-core headers of this
        system; with --check only compare
  mpi [--check | --standard HEADER]
        write mpi.h, the entry points of libmpi_abi.so.1, their symbols and the page about them from ulp/mpi/abi/table; with
        --check only compare; with --standard keep what HEADER, a header of the standard ABI, declares, for tests to compare
  symbols [--check | --library FILE ... | --rdma-core GIT]
        write the part of docs/rdma-core.md that abi/symbols.tsv makes; compare a library of rdma-core with that table; write the
        table anew from the history of rdma-core; symbols --help
  gates [--arrows CRATE]
        check what no compiler does: unfinished work, paths of one machine, unsafe where it is forbidden, file lengths,
        which files of a crate may use which; with --arrows only show what the files of CRATE, a directory, use of each other
  budgets [--release] [--write]
        count the instructions of hot paths under valgrind, and compare them with xtask/budgets.tsv
  interop [OPTIONS]
        run Debian's programs between our adapter and the Linux kernel's Soft-RoCE in a guest; interop --help
";

/// What a chore returns: a message for the person at the terminal when it failed.
type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.split_first() {
        Some((command, rest)) if command == "libs" => libs::run(rest),
        Some((command, rest)) if command == "bindings" => bindings::run(rest),
        Some((command, rest)) if command == "gates" => gates::run(rest),
        Some((command, rest)) if command == "budgets" => budgets::check(rest),
        Some((command, rest)) if command == "mpi" => mpi::run(rest),
        Some((command, rest)) if command == "symbols" => rdma_core::run(rest),
        Some((command, rest)) if command == "interop" => interop::run(rest),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace: the parent of this crate's directory.
fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
        .to_path_buf()
}

/// Runs `command`, which must succeed; the error names it.
fn run(command: &mut Command) -> Outcome {
    let shown = format!("{command:?}");
    let status = command
        .status()
        .map_err(|error| format!("{shown}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{shown}: {status}"))
    }
}

/// The value that follows an option, or an error that names the option.
fn value<'a>(option: &str, rest: &mut impl Iterator<Item = &'a String>) -> Result<&'a str, String> {
    rest.next()
        .map(String::as_str)
        .ok_or_else(|| format!("{option} needs a value"))
}
