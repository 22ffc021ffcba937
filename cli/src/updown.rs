//! `ferriband up` and `ferriband down`: name and configure devices in a file that outlives processes.
//!
//! Owns: the changes to devices.toml. What people have written around them stays, comments included. A file that is wrong is never
//! written over.

use crate::args::{DownArgs, UpArgs};
use crate::failure::Failure;
use crate::text::{print_json, print_line};
use ferriband_admin::config::{self, Config, NATIVE, PREFIX};
use serde::Serialize;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use toml_edit::{DocumentMut, Item, Table, value};

/// What was done, for `--json`.
#[derive(Serialize)]
struct Done<'a> {
    file: String,
    device: &'a str,
    enabled: bool,
    interface: &'a str,
    /// The interface is there now.
    present: bool,
}

/// `ferriband up`.
pub fn up(args: &UpArgs) -> Result<ExitCode, Failure> {
    config::check_name(&args.name).map_err(Failure::new)?;
    let path = path()?;
    let mut file = read(&path)?;
    let device = entry(&mut file, &args.name);
    device["enabled"] = value(true);
    if let Some(interface) = &args.interface {
        device["interface"] = value(interface);
    }
    if let Some(mtu) = args.mtu {
        device["mtu"] = value(i64::from(mtu));
    }
    if let Some(dscp) = args.dscp {
        device["dscp"] = value(i64::from(dscp));
    }
    if let Some(rate) = &args.rate {
        device["rate"] = value(rate);
    }
    if let Some(frames) = args.frames {
        device["frames"] = value(frames);
    }
    if !args.gid.is_empty() {
        let gids: toml_edit::Array = args.gid.iter().map(ToString::to_string).collect();
        device["gids"] = value(gids);
    }
    save(&path, &file, &args.name, args.json.json)
}

/// `ferriband down`.
pub fn down(args: &DownArgs) -> Result<ExitCode, Failure> {
    config::check_name(&args.name).map_err(Failure::new)?;
    let path = path()?;
    let mut file = read(&path)?;
    let known = file
        .get("device")
        .and_then(|devices| devices.get(&args.name))
        .is_some();
    let named_after_interface = args.name == NATIVE || args.name.starts_with(PREFIX);
    if !known && !named_after_interface {
        return Err(Failure::new(format!(
            "there is no device {} in {}",
            args.name,
            path.display()
        ))
        .remedy("ferriband devices lists them"));
    }
    if args.forget {
        if let Some(devices) = file.get_mut("device").and_then(Item::as_table_like_mut) {
            devices.remove(&args.name);
        }
        write(&path, &file.to_string())?;
        if !args.json.json {
            print_line(&format!("{} is forgotten: {}", args.name, path.display()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    entry(&mut file, &args.name)["enabled"] = value(false);
    save(&path, &file, &args.name, args.json.json)
}

fn path() -> Result<PathBuf, Failure> {
    config::path().ok_or_else(|| {
        Failure::new("cannot tell where devices are kept: neither XDG_CONFIG_HOME nor HOME is set")
            .remedy("set HOME")
    })
}

fn wrong(path: &Path, error: &config::ConfigError) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
        .remedy("put it right first: it is not written over")
}

/// The file as it stands, which has to be right.
fn read(path: &Path) -> Result<DocumentMut, Failure> {
    Config::load(path).map_err(|error| wrong(path, &error))?;
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Failure::io("read", &path.display().to_string(), &error)),
    };
    text.parse()
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// The table of a device, made if there is none.
fn entry<'a>(file: &'a mut DocumentMut, name: &str) -> &'a mut Item {
    let devices = file.entry("device").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let device = &mut devices[name];
    if device.is_none() {
        *device = Item::Table(Table::new());
    }
    device
}

/// Writes the file if it is right, and says what it means for the device.
fn save(path: &Path, file: &DocumentMut, name: &str, json: bool) -> Result<ExitCode, Failure> {
    let text = file.to_string();
    let config = Config::parse(&text).map_err(|error| {
        let failure = Failure::new(format!("{name} cannot be so: {}", error.what));
        match error.what.contains("names no interface") {
            true => failure.remedy(format!("say which: ferriband up {name} --interface eth0")),
            false => failure,
        }
    })?;
    let device = &config.devices[name];
    let interfaces = ferriband_memory::net::netdevs().unwrap_or_default();
    let present =
        device.interface.is_empty() || interfaces.iter().any(|one| one.name == device.interface);
    write(path, &text)?;
    if json {
        print_json(&Done {
            file: path.display().to_string(),
            device: name,
            enabled: device.enabled,
            interface: &device.interface,
            present,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let state = if device.enabled { "up" } else { "down" };
    print_line(&format!(
        "{name} is {state} for programs that start from now on: {}",
        path.display()
    ))?;
    if device.enabled && !present {
        print_line(&format!(
            "note: there is no interface {} at present",
            device.interface
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Replaces the file as a whole: whoever reads it meanwhile sees the one or the other.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let fresh = path.with_extension(format!("toml.{}", std::process::id()));
    let attempt = || {
        if let Some(directory) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)?;
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        // a link that somebody keeps the file behind stays one
        let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        std::fs::rename(&fresh, target)
    };
    attempt().map_err(|error| {
        let _ = std::fs::remove_file(&fresh);
        Failure::io("write", &path.display().to_string(), &error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_wrote_stays_as_it_is() {
        let text = "# mine\n[device.a]\ninterface = \"eth0\" # the fast one\nmtu = 1024\n";
        let mut file: DocumentMut = text.parse().expect("TOML");
        entry(&mut file, "a")["mtu"] = value(2048);
        entry(&mut file, "ferri_eth1")["enabled"] = value(false);
        let text = file.to_string();
        assert!(
            text.starts_with(
                "# mine\n[device.a]\ninterface = \"eth0\" # the fast one\nmtu = 2048\n"
            ),
            "{text}"
        );
        let config = Config::parse(&text).expect("right");
        assert!(!config.devices["ferri_eth1"].enabled);
        assert_eq!(config.devices["a"].settings.mtu, Some(2048));
    }

    #[test]
    fn a_file_from_nothing_is_right() {
        let mut file = DocumentMut::new();
        entry(&mut file, "ferri_eth0")["enabled"] = value(true);
        assert_eq!(file.to_string(), "[device.ferri_eth0]\nenabled = true\n");
    }
}
