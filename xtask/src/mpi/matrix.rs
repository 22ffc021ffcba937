//! Writes the rows of docs/matrix.md that say what becomes of each MPI function.

use super::table::{State, Tables};
use std::fmt::Write;

const BEGIN: &str = "<!-- written by cargo xtask mpi: begin -->";
const END: &str = "<!-- written by cargo xtask mpi: end -->";

/// `page` with what stands between the marks written anew.
pub fn place(page: &str, tables: &Tables) -> Result<String, String> {
    let (before, rest) = page
        .split_once(BEGIN)
        .ok_or("docs/matrix.md: the mark of the MPI functions is missing")?;
    let (_, after) = rest
        .split_once(END)
        .ok_or("docs/matrix.md: the end mark of the MPI functions is missing")?;
    Ok(format!("{before}{BEGIN}\n{}{END}{after}", rows(tables)))
}

fn rows(tables: &Tables) -> String {
    let mut out = String::new();
    let count = |state: State| tables.functions.iter().filter(|f| f.state == state).count();
    let _ = writeln!(
        out,
        "{} of 664 are offered; {} of the core raise MPI_ERR_UNSUPPORTED_OPERATION until they are built, {} of windows, files, dynamic processes \
         and Fortran do until their own work begins, and {} of the tools interface answer that it cannot be initialized.\n",
        count(State::Offered) + count(State::Face),
        count(State::Core),
        count(State::Later),
        count(State::Tools)
    );
    let extensions: Vec<&str> = tables.extensions.iter().map(|f| f.name.as_str()).collect();
    let _ = writeln!(
        out,
        "Beside them, of the ULFM extension (mpi-ext.h; design/ulfm.md): {}.\n",
        extensions.join(" ")
    );
    out.push_str("| chapter | offered | unsupported |\n|---|---|---|\n");
    let mut chapters: Vec<&str> = tables
        .functions
        .iter()
        .map(|f| f.chapter.as_str())
        .collect();
    chapters.sort_unstable();
    chapters.dedup();
    for chapter in chapters {
        let names = |wanted: bool| {
            let list: Vec<&str> = tables
                .functions
                .iter()
                .filter(|f| f.chapter == chapter)
                .filter(|f| matches!(f.state, State::Offered | State::Face) == wanted)
                .map(|f| f.name.as_str())
                .collect();
            if list.is_empty() {
                "-".to_owned()
            } else {
                list.join(" ")
            }
        };
        let _ = writeln!(out, "| {chapter} | {} | {} |", names(true), names(false));
    }
    out
}
