//! `ferriband fabric`: fabrics on paper, what a subnet manager makes of them, and what is to be said of its routes.
//!
//! Owns: where a fabric comes from (a file, or a shape), and how a result reads. Bringing up is [`bring_up`]'s; routes are `ferriband-subnet`'s; a fabric that
//! programs run on is [`live`]'s.

mod bring_up;
mod ibsim;
pub mod live;
mod outside;
mod report;

use crate::args::{FabricCommand, MakeArgs};
use crate::failure::Failure;
use ferriband_topology::{Topology, generate, netlist, toml};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

pub use report::{engine, root};

/// Longest file that is read.
pub const FILE_BYTES: u64 = 256 << 20;

/// `ferriband fabric`.
pub fn command(command: &FabricCommand) -> Result<ExitCode, Failure> {
    match command {
        FabricCommand::Make(args) => make(args),
        FabricCommand::Route(args) => report::command(args),
        FabricCommand::Engines(json) => report::engines(json.json),
        FabricCommand::Up(args) => live::up(args),
        FabricCommand::Down(args) => live::down(args),
        FabricCommand::Status { named, json } => live::status(named, json.json),
        FabricCommand::Link(args) => live::link(args),
        FabricCommand::Errors(args) => live::errors(args),
        FabricCommand::Power(args) => live::power(args),
        FabricCommand::Sweep(args) => live::sweep(args),
        FabricCommand::Why(args) => live::why(args),
        FabricCommand::Dump(args) => live::dump(args),
        FabricCommand::Manage(args) => outside::command(args),
    }
}

/// A fabric by the name of a file, or by a shape.
pub fn load(name: &str) -> Result<Topology, Failure> {
    let path = Path::new(name);
    if path.exists() {
        let about = std::fs::metadata(path).map_err(|error| Failure::io("read", name, &error))?;
        if about.len() > FILE_BYTES {
            return Err(Failure::new(format!(
                "{name} has {} bytes; a fabric of 10^5 ports has a tenth of the {FILE_BYTES} that are read",
                about.len()
            )));
        }
        let bytes = std::fs::read(path).map_err(|error| Failure::io("read", name, &error))?;
        // descriptions of nodes may be of any encoding
        let text = String::from_utf8_lossy(&bytes);
        let said = |error: &dyn std::fmt::Display| Failure::new(format!("{name}: {error}"));
        return if is_toml(path) {
            toml::parse(&text).map_err(|error| said(&error))
        } else {
            netlist::parse(&text).map_err(|error| said(&error))
        };
    }
    generate::generate(name).map_err(|error| match error {
        generate::GenerateError::Unknown(_) => Failure::new(format!(
            "\"{name}\" is neither a file nor a shape of a fabric"
        ))
        .remedy(format!("shapes: {}", generate::FORMS)),
        error => Failure::new(error.to_string()),
    })
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "toml")
}

fn make(args: &MakeArgs) -> Result<ExitCode, Failure> {
    let fabric = load(&args.fabric)?;
    let text = match args.output.as_deref().is_some_and(is_toml) {
        true => toml::write(&fabric),
        false => netlist::write(&fabric),
    };
    let done = match &args.output {
        Some(path) => std::fs::write(path, text),
        None => std::io::stdout().lock().write_all(text.as_bytes()),
    };
    let name = args
        .output
        .as_ref()
        .map_or("standard output".into(), |path| path.display().to_string());
    match done {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::from(141)),
        done => done
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| Failure::io("write", &name, &error)),
    }
}
