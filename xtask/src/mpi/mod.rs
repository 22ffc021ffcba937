//! The MPI standard ABI from its tables: `cargo xtask mpi`.
//!
//! One table row for each of the 664 functions gives its prototype in mpi.h, its entry point, the runtime's symbol behind it and its place in
//! docs/matrix.md, so that none of these can say something else than the others.

mod face;
mod header;
mod matrix;
#[cfg(test)]
mod sentinel_tests;
mod standard;
#[cfg(test)]
mod standard_tests;
mod table;

use crate::{Outcome, workspace_root};
use std::path::Path;
use std::process::{Command, Stdio};
use table::Tables;

const TABLES: &str = "ulp/mpi/abi/table";
const MATRIX: &str = "docs/matrix.md";
/// What the standard's header declares.
const STANDARD: &str = "ulp/mpi/abi/table/standard.tsv";

/// `cargo xtask mpi [--check | --standard HEADER]`.
pub fn run(args: &[String]) -> Outcome {
    let check = match args {
        [] => false,
        [flag] if flag == "--check" => true,
        [flag, header] if flag == "--standard" => return keep_standard(Path::new(header)),
        _ => return Err("mpi: --check or --standard HEADER, not both".to_owned()),
    };
    let root = workspace_root();
    let tables = Tables::read(&root.join(TABLES))?;
    let mut stale = Vec::new();
    for (path, text) in written(&root, &tables)? {
        let file = root.join(path);
        let old = std::fs::read_to_string(&file).unwrap_or_default();
        if old == text {
            continue;
        }
        if check {
            stale.push(path);
        } else {
            if let Some(dir) = file.parent() {
                std::fs::create_dir_all(dir).map_err(|error| format!("{path}: {error}"))?;
            }
            std::fs::write(&file, text).map_err(|error| format!("{path}: {error}"))?;
            println!("{path}");
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!(
        "mpi: not what the tables of {TABLES} say (run `cargo xtask mpi`): {}",
        stale.join(", ")
    ))
}

/// Writes down what the header of the standard ABI that another library has declares.
fn keep_standard(header: &Path) -> Outcome {
    let text = std::fs::read_to_string(header)
        .map_err(|error| format!("mpi: {}: {error}", header.display()))?;
    let facts =
        standard::parse(&text).map_err(|error| format!("mpi: {}: {error}", header.display()))?;
    std::fs::write(workspace_root().join(STANDARD), standard::write(&facts))
        .map_err(|error| format!("mpi: {STANDARD}: {error}"))
}

/// Each file that the tables decide, with what it must hold.
fn written(root: &Path, tables: &Tables) -> Result<Vec<(&'static str, String)>, String> {
    let matrix =
        std::fs::read_to_string(root.join(MATRIX)).map_err(|error| format!("{MATRIX}: {error}"))?;
    Ok(vec![
        ("ulp/mpi/abi/include/mpi.h", header::write(tables)),
        (
            "ulp/mpi/abi/include/mpi-ext.h",
            header::write_extensions(tables),
        ),
        (
            "ulp/mpi/abi/src/entries.rs",
            format_rust(&face::entries(tables))?,
        ),
        (
            "ulp/mpi/abi/src/private.rs",
            format_rust(&face::private(tables))?,
        ),
        ("ulp/mpi/abi/link/symbols.txt", face::public_symbols(tables)),
        (
            "ulp/mpi/runtime/src/abi/agreement.rs",
            format_rust(&face::agreement(tables))?,
        ),
        (
            "ulp/mpi/runtime/src/ground/constants.rs",
            format_rust(&face::constants(tables))?,
        ),
        (
            "ulp/mpi/runtime/link/symbols.txt",
            face::private_symbols(tables),
        ),
        (MATRIX, matrix::place(&matrix, tables)?),
    ])
}

/// As `cargo fmt` would leave it.
fn format_rust(text: &str) -> Result<String, String> {
    use std::io::Write;
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .arg(workspace_root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("rustfmt: {error}"))?;
    let mut input = child.stdin.take().ok_or("rustfmt: no input")?;
    let owned = text.to_owned();
    let writer = std::thread::spawn(move || input.write_all(owned.as_bytes()));
    let output = child
        .wait_with_output()
        .map_err(|error| format!("rustfmt: {error}"))?;
    writer
        .join()
        .map_err(|_| "rustfmt: the writer failed")?
        .map_err(|error| format!("rustfmt: {error}"))?;
    if !output.status.success() {
        return Err(format!("rustfmt: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("rustfmt: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use table::State;

    fn tables() -> Tables {
        Tables::read(&workspace_root().join(TABLES)).expect("the tables are sound")
    }

    #[test]
    fn the_files_are_what_the_tables_say() {
        run(&["--check".to_owned()]).expect("nothing is stale");
    }

    #[test]
    fn each_of_the_664_functions_stands_there_once() {
        let tables = tables();
        let mut names: Vec<&str> = tables.functions.iter().map(|f| f.name.as_str()).collect();
        assert!(names.is_sorted_by(|a, b| a.to_lowercase() != b.to_lowercase()));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 664);
        assert_eq!(
            names.iter().filter(|name| name.ends_with("_c")).count(),
            161
        );
        assert_eq!(
            names
                .iter()
                .filter(|name| name.starts_with("MPI_T_"))
                .count(),
            51
        );
    }

    #[test]
    fn a_function_and_its_wide_form_are_offered_together() {
        let tables = tables();
        for function in &tables.functions {
            let Some(short) = function.name.strip_suffix("_c") else {
                continue;
            };
            if let Some(narrow) = tables.functions.iter().find(|other| other.name == short) {
                assert!(
                    (narrow.state == State::Offered) == (function.state == State::Offered)
                        || narrow.parameters.len() != function.parameters.len(),
                    "{short}"
                );
            }
        }
    }
}
