//! What is set of an upper protocol, by whom, and how it is shown: for each of the tables of
//! settings.
//!
//! Owns: the reading of environment and settings file as a program of that protocol would read
//! them. Must not know: which settings there are.

use crate::failure::Failure;
use ferriband_settings::{LONGEST_FILE, Table, Values, Wrong};
use serde::Serialize;
use std::env;
use std::fs::File;
use std::io::{self, Read};

/// A setting as it is shown.
#[derive(Serialize)]
pub struct Setting {
    name: &'static str,
    variable: String,
    about: &'static str,
    value: String,
    default: &'static str,
    source: String,
    takes: String,
    help: &'static str,
}

impl Setting {
    /// All rows of a table, with their values.
    pub fn all(table: &Table, values: &Values) -> Vec<Setting> {
        values
            .iter()
            .map(|(setting, value, from)| Self {
                name: setting.name,
                variable: table.variable(setting.name),
                about: setting.about,
                value: value.to_owned(),
                default: setting.default,
                source: from.to_string(),
                takes: setting.kind.to_string(),
                help: setting.help,
            })
            .collect()
    }
}

/// The lines that show settings to people, under their subjects.
pub fn lines(settings: &[Setting]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut about = "";
    for setting in settings {
        if setting.about != about {
            about = setting.about;
            lines.push(format!("{about}:"));
        }
        let value = if setting.value.is_empty() {
            "-"
        } else {
            &setting.value
        };
        lines.push(format!(
            "  {:<15} {value:<10} {:<13} {}",
            setting.name, setting.source, setting.takes
        ));
        lines.push(format!("      {}", setting.help));
    }
    lines
}

/// The values that a program of the protocol would find here, with those of the command line, and
/// the settings file that was read.
pub fn values(table: &'static Table, set: &[String]) -> Result<(Values, Option<String>), Failure> {
    let text = |name: &str| env::var_os(name).and_then(|value| value.into_string().ok());
    let named = text(table.file_variable);
    let path = table.path(
        named.as_deref(),
        text("XDG_CONFIG_HOME").as_deref(),
        text("HOME").as_deref(),
    );
    let mut file = None;
    if let Some(path) = path {
        match read(&path) {
            Ok(text) => file = Some((path, text)),
            // As the library takes it: a home without one, or none that can be looked into.
            Err(error) if named.is_none() && is_absent(&error) => (),
            Err(error) => {
                return Err(
                    Failure::io("read", &format!("the settings file {path}"), &error)
                        .remedy(format!(
                            "mend it, or name another with {} (empty: none)",
                            table.file_variable
                        ))
                        .status(2),
                );
            }
        }
    }
    let variables = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let wrong = |wrong: Wrong| {
        Failure::new(wrong.0)
            .remedy(format!(
                "`{}` lists the settings; those of the environment begin with {}",
                table.shown_by, table.prefix
            ))
            .status(2)
    };
    let both = file
        .as_ref()
        .map(|(path, text)| (path.as_str(), text.as_str()));
    let mut values = table.read(both, variables).map_err(wrong)?;
    for pair in set {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        values.set(name, value).map_err(wrong)?;
    }
    Ok((values, file.map(|(path, _)| path)))
}

fn read(path: &str) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    file.take(LONGEST_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST_FILE {
        let words = format!("it is longer than {LONGEST_FILE} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, words));
    }
    Ok(text)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ENOENT
                | libc::ENOTDIR
                | libc::EACCES
                | libc::EPERM
                | libc::ELOOP
                | libc::ENAMETOOLONG
        )
    )
}
