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
    clap_complete::generate(shell, &mut Cli::command(), "ferriband", &mut script);
    io::stdout()
        .write_all(&script)
        .map_err(|error| Failure::io("write to", "standard output", &error))?;
    Ok(ExitCode::SUCCESS)
}

/// `ferriband man --out DIR`: one page for the program and one for each subcommand.
pub fn manual(out: &Path) -> Result<ExitCode, Failure> {
    let write = || {
        fs::create_dir_all(out)?;
        clap_mangen::generate_to(Cli::command(), out)
    };
    write().map_err(|error| {
        Failure::io("write manual pages to", &out.display().to_string(), &error)
    })?;
    Ok(ExitCode::SUCCESS)
}
