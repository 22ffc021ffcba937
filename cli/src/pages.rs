//! Shell completions and manual pages, generated from the command line's own description.

use crate::args::Cli;
use crate::failure::Failure;
use clap::CommandFactory;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// `ferriband completions SHELL`.
pub fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(), "ferriband", &mut script);
    io::stdout()
        .write_all(&script)
        .map_err(|error| Failure::io("write to", "standard output", &error))?;
    Ok(ExitCode::SUCCESS)
}

/// `ferriband man --out DIR`: one page for the program and one for each subcommand.
pub fn manual(out: &Path) -> Result<ExitCode, Failure> {
    let write = || {
        fs::create_dir_all(out)?;
        clap_mangen::generate_to(visible(), out)
    };
    write().map_err(|error| {
        Failure::io("write manual pages to", &out.display().to_string(), &error)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The command line without the subcommands that only this program itself uses.
fn visible() -> clap::Command {
    let whole = Cli::command();
    let shown = whole
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
        .cloned();
    clap::Command::new("ferriband")
        .version(env!("CARGO_PKG_VERSION"))
        .about(whole.get_about().cloned().unwrap_or_default())
        .after_help(whole.get_after_help().cloned().unwrap_or_default())
        .subcommands(shown.collect::<Vec<_>>())
}
