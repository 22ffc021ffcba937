//! What a user may set of put and get, and so of Portals.
//!
//! Owns: names, kinds, defaults and meanings ([`SETTINGS`]), and how a process finds the values.
//! Must not know: what follows from them.

use ferriband_settings::{Kind, Setting, Table, Wrong};
use std::{env, fs};

pub use ferriband_settings::Values;

/// The most events that a trace has room for.
const MOST_TRACE_EVENTS: u64 = 1 << 26;
const _: () = assert!(MOST_TRACE_EVENTS <= ferriband_trace::MOST_EVENTS);

/// What a user may set of put and get.
pub static SETTINGS: Table = Table {
    prefix: "FERRIBAND_PUTGET_",
    file_variable: "FERRIBAND_PUTGET_SETTINGS",
    file: "ferriband/putget.conf",
    shown_by: "ferriband putget settings",
    reserved: &[],
    rows: &[
        Setting {
            name: "put_crossover",
            about: "messages",
            kind: Kind::BytesOr(0..=65_500, &["auto"]),
            default: "auto",
            help: "Up to how many bytes puts go in messages: as `ferriband tune putget` has measured for the device, or as is shipped for it (auto).",
        },
        Setting {
            name: "get_crossover",
            about: "messages",
            kind: Kind::BytesOr(0..=65_500, &["auto"]),
            default: "auto",
            help: "Up to how many bytes gets come in messages, as put_crossover.",
        },
        Setting {
            name: "regcache",
            about: "memory",
            kind: Kind::OneOf(&["auto", "odp", "uffd", "none"]),
            default: "auto",
            help: "How Portals registers the program's memory for long operations: on demand where the device offers it (odp), else kept as long as userfaultfd says that it is the same (uffd), else for each operation (none).",
        },
        Setting {
            name: "trace",
            about: "reports",
            kind: Kind::Text,
            default: "",
            help: "A directory that each process writes its operations, messages and RDMA to, those of Portals too; `ferriband trace` sets it, and reads them.",
        },
        Setting {
            name: "trace_events",
            about: "reports",
            kind: Kind::Number(16..=MOST_TRACE_EVENTS),
            default: "262144",
            help: "Events of 32 bytes that a process's trace has room for; later ones are written over the oldest.",
        },
    ],
};

/// What the settings file and the environment set of a table.
///
/// # Errors
/// A value that means nothing.
pub fn values(table: &'static Table) -> Result<Values, Wrong> {
    let variables = env::vars_os();
    let variables = variables.filter_map(|(name, value)| {
        // what is no text is none of these
        Some((name.into_string().ok()?, value.into_string().ok()?))
    });
    let value = |name: &str| env::var(name).ok();
    let [named, config, home] = [table.file_variable, "XDG_CONFIG_HOME", "HOME"].map(value);
    let path = table.path(named.as_deref(), config.as_deref(), home.as_deref());
    let file = path.and_then(|path| Some((path.clone(), fs::read_to_string(path).ok()?)));
    let file = file.as_ref();
    table.read(
        file.map(|(name, text)| (name.as_str(), text.as_str())),
        variables,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_one() {
        assert_eq!(SETTINGS.check(), Ok(()));
    }
}
