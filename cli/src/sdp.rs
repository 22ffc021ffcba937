//! `ferriband sdp`: TCP programs whose connections go by SDP.
//!
//! Owns: the environment of such a program, and what is shown of those that run ([`status`]). It is executed in place of this process, so that its
//! pid, signals and exit status are its own. What becomes of its connections is the preloaded
//! library's (`ulp/sdp/preload`).

mod peers;
mod show;
mod status;

use crate::args::SdpCommand;
use crate::failure::Failure;
use crate::launch;
use crate::settings::{self, Setting};
use crate::text;
use ferriband_sdp_proto::settings::SETTINGS;
use rustix::fs::{Access, AtFlags, CWD};
use serde::Serialize;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The library that stands before the C library's calls on sockets.
pub const LIBRARY: &str = "libferriband_sdp.so";

/// Does what the subcommand says.
pub fn command(command: &SdpCommand) -> Result<ExitCode, Failure> {
    match command {
        SdpCommand::Run {
            meet,
            same_host,
            flow,
            command,
        } => {
            let given = [(SAME_HOST, same_host), (FLOW, flow)];
            let given = given.map(|(name, value)| Some((name, value.as_ref()?.into())));
            run(meet.as_deref(), given.into_iter().flatten(), command)
        }
        SdpCommand::Env(flag) => print_environment(flag.json),
        SdpCommand::Status(args) => status::command(args),
    }
}

/// `ferriband sdp run`: becomes the program. Returns only when that failed.
fn run(
    meet: Option<&Path>,
    given: impl Iterator<Item = (&'static str, OsString)>,
    command: &[OsString],
) -> Result<ExitCode, Failure> {
    let (values, _) = settings::values(&SETTINGS, &[])?;
    for stranger in &values.strangers {
        complain!("ferriband: {stranger}");
    }
    let mut environment = launch::preload_settings(LIBRARY)?;
    let set = Some(values.text("meet")).filter(|set| !set.is_empty());
    if let Some(directory) = meet.or(set.map(Path::new)) {
        let directory = meeting_place(directory)?;
        environment.push((MEET, directory.into_os_string()));
    }
    environment.extend(given);
    let error = launch::become_program(command, environment);
    let missing = "check the spelling, or install the package that holds it";
    Err(launch::explain_with(&command[0], &error, missing))
}

/// The settings that `run`'s options give.
const MEET: &str = "FERRIBAND_SDP_MEET";
const SAME_HOST: &str = "FERRIBAND_SDP_SAME_HOST";
const FLOW: &str = "FERRIBAND_SDP_FLOW";

/// A directory by which programs are to find each other, from the root on: the program may change
/// its own.
fn meeting_place(directory: &Path) -> Result<PathBuf, Failure> {
    let shown = format!("the directory {} of --meet", directory.display());
    let remedy = "give a directory that all these programs see and may write to, as a volume that their containers share";
    let wrong = |verb: &str, error: &io::Error| {
        let failure = Failure::io(verb, &shown, error);
        failure.remedy(remedy).status(2)
    };
    let found = fs::canonicalize(directory).map_err(|error| wrong("find", &error))?;
    fs::read_dir(&found).map_err(|error| wrong("read", &error))?;
    let access = Access::WRITE_OK | Access::EXEC_OK;
    // of the user whom files are opened for
    rustix::fs::accessat(CWD, &found, access, AtFlags::EACCESS)
        .map_err(|error| wrong("write to", &error.into()))?;
    match found.to_str() {
        Some(_) => Ok(found),
        None => Err(Failure::new(format!("{shown} has a name that is no text")).status(2)),
    }
}

/// What `env --json` prints.
#[derive(Serialize)]
struct Shown {
    environment: serde_json::Map<String, serde_json::Value>,
    settings_file: Option<String>,
    settings: Vec<Setting>,
    unknown: Vec<String>,
}

/// `ferriband sdp env`: shell code that does what `run` does, with the settings as its comments; or
/// JSON.
fn print_environment(json: bool) -> Result<ExitCode, Failure> {
    let (values, file) = settings::values(&SETTINGS, &[])?;
    let variables = launch::preload_settings(LIBRARY)?;
    let text = |value: &OsString| value.to_string_lossy().into_owned();
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), text(value)));
    let settings = Setting::all(&SETTINGS, &values);
    if json {
        text::print_json(&Shown {
            environment: variables
                .map(|(name, value)| (name, value.into()))
                .collect(),
            settings_file: file,
            settings,
            unknown: values.strangers,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    for (name, value) in variables {
        text::print_line(&format!("export {name}={}", launch::quote(&value)))?;
    }
    let file = file.as_deref().unwrap_or("none");
    let mut comments = vec![format!("settings file: {file}")];
    comments.extend(settings::lines(&settings));
    comments.push(format!(
        "Set one by {}NAME=VALUE, or by a line `name = value` in the settings file (~/.config/{}).",
        SETTINGS.prefix, SETTINGS.file
    ));
    let warn = |stranger: &String| format!("warning: {stranger}");
    comments.extend(values.strangers.iter().map(warn));
    for comment in comments {
        text::print_line(&format!("# {comment}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
