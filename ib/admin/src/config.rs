//! The file of devices: names and settings that outlive a process.
//!
//! Owns: `ferriband/devices.toml` in $XDG_CONFIG_HOME (else ~/.config), its meaning and its checks. Without the file every usable interface is a
//! device as it is. Must not know: which interfaces there are.
//!
//! ```toml
//! [device.storage]
//! interface = "eth1"      # what it sends by; without it, eth1 in [device.ferri_eth1]
//! gids = ["10.0.0.1"]     # only these of its addresses, in this order
//! mtu = 1024              # largest path MTU: 256, 512, 1024, 2048, 4096
//! dscp = 26               # of packets whose program names no traffic class
//! rate = "10Gbit"         # what all packets of a process may take
//! frames = true           # false: nothing goes past the kernel's IP layer, even where that is allowed
//! enabled = true          # false: it is not listed
//! ```

use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The InfiniBand device, which can be switched off and nothing else.
pub const NATIVE: &str = "ferri0";
/// What the names of Ethernet devices begin with unless they are named.
pub const PREFIX: &str = "ferri_";
/// Longest name: the kernel's IB_DEVICE_NAME_MAX without the NUL.
const NAME_BYTES: usize = 63;
/// Longest file that is read.
const FILE_BYTES: u64 = 1 << 20;

/// The devices of the file, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Their settings.
    pub devices: BTreeMap<String, DeviceConfig>,
}

/// What the file says of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceConfig {
    /// Its interface; empty for the InfiniBand device.
    pub interface: String,
    /// It is to be listed.
    pub enabled: bool,
    /// How it sends.
    pub settings: Settings,
}

/// How a device sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Its GIDs' addresses; empty: all of its interface.
    pub gids: Vec<IpAddr>,
    /// Largest path MTU in bytes.
    pub mtu: Option<u32>,
    /// DSCP of packets whose program names no traffic class.
    pub dscp: Option<u8>,
    /// Limit in kilobits (1,000) per second.
    pub rate_kbps: Option<u64>,
    /// Small packets of connections may go past the kernel's IP layer; None: they may.
    pub frames: Option<bool>,
}

/// What is wrong with the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// In which line, from 1; None if it is about the file as a whole.
    pub line: Option<usize>,
    /// What it is.
    pub what: String,
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for ConfigError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    device: BTreeMap<Name, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    interface: Option<Interface>,
    #[serde(default)]
    gids: Vec<IpAddr>,
    mtu: Option<Mtu>,
    dscp: Option<Dscp>,
    rate: Option<Rate>,
    frames: Option<bool>,
    enabled: Option<bool>,
}

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(try_from = "String")]
struct Name(String);

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        check_name(&name).map(|()| Name(name))
    }
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Interface(String);

impl TryFrom<String> for Interface {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        // the kernel's rule for names of interfaces: 15 bytes, no slash, no space
        let fits = !name.is_empty() && name.len() <= 15;
        if fits && !name.contains(|letter: char| letter == '/' || letter.is_whitespace()) {
            Ok(Interface(name))
        } else {
            Err(format!("'{name}' is no name of an interface"))
        }
    }
}

#[derive(Deserialize)]
#[serde(try_from = "i64")]
struct Mtu(u32);

impl TryFrom<i64> for Mtu {
    type Error = String;

    fn try_from(bytes: i64) -> Result<Self, String> {
        check_mtu(bytes).map(Mtu)
    }
}

#[derive(Deserialize)]
#[serde(try_from = "i64")]
struct Dscp(u8);

impl TryFrom<i64> for Dscp {
    type Error = String;

    fn try_from(value: i64) -> Result<Self, String> {
        check_dscp(value).map(Dscp)
    }
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Rate(u64);

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        parse_rate(&text).map(Rate)
    }
}

/// Checks a device's name.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &str) -> Result<(), String> {
    let letters = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    let begins = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    if begins && name.len() <= NAME_BYTES && name.chars().all(letters) {
        return Ok(());
    }
    Err(format!(
        "'{name}' is no name of a device: letters, digits, '_', '-' and '.', {NAME_BYTES} of them at most"
    ))
}

/// Checks a path MTU in bytes.
///
/// # Errors
/// It is none of the IBA's.
pub fn check_mtu(bytes: i64) -> Result<u32, String> {
    match bytes {
        256 | 512 | 1024 | 2048 | 4096 => Ok(bytes as u32),
        other => Err(format!(
            "{other} is no path MTU: 256, 512, 1024, 2048 or 4096"
        )),
    }
}

/// Checks a DSCP.
///
/// # Errors
/// It does not fit six bits.
pub fn check_dscp(value: i64) -> Result<u8, String> {
    match value {
        0..=63 => Ok(value as u8),
        other => Err(format!("{other} is no DSCP: 0 to 63")),
    }
}

/// Reads a rate such as `10Gbit`, `500mbit`, `2.5G`: kilobits per second.
///
/// # Errors
/// It is no rate, or less than 1 kbit/s.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("'{text}' is no rate: write a number with kbit, Mbit or Gbit, as 10Gbit");
    let lower = text.trim().to_ascii_lowercase();
    let number = lower
        .trim_end_matches("/s")
        .trim_end_matches("bit")
        .trim_end();
    let (digits, kilobits) = match number.char_indices().last() {
        Some((at, 'k')) => (&number[..at], 1.0),
        Some((at, 'm')) => (&number[..at], 1e3),
        Some((at, 'g')) => (&number[..at], 1e6),
        _ => return Err(wrong()),
    };
    let value: f64 = digits.trim_end().parse().map_err(|_| wrong())?;
    let kbps = value * kilobits;
    // a terabit per second bounds what a sum can hold
    if (1.0..=1e9).contains(&kbps) {
        Ok(kbps as u64)
    } else {
        Err(wrong())
    }
}

impl Config {
    /// Reads the text of the file.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        let file: File = toml_edit::de::from_str(text).map_err(|error| ConfigError {
            line: error.span().map(|span| {
                text.bytes()
                    .take(span.start)
                    .filter(|b| *b == b'\n')
                    .count()
                    + 1
            }),
            what: error.message().to_owned(),
        })?;
        let mut devices = BTreeMap::new();
        for (Name(name), entry) in file.device {
            let whole = |what: &str| ConfigError {
                line: None,
                what: format!("[device.{name}] {what}"),
            };
            let interface = match entry.interface {
                Some(Interface(interface)) => interface,
                None if name == NATIVE => String::new(),
                None => name
                    .strip_prefix(PREFIX)
                    .filter(|rest| !rest.is_empty())
                    .ok_or_else(|| whole("names no interface"))?
                    .to_owned(),
            };
            if name == NATIVE && !interface.is_empty() {
                return Err(whole("is the InfiniBand device: it has no interface"));
            }
            let settings = Settings {
                gids: entry.gids,
                mtu: entry.mtu.map(|mtu| mtu.0),
                dscp: entry.dscp.map(|dscp| dscp.0),
                rate_kbps: entry.rate.map(|rate| rate.0),
                frames: entry.frames,
            };
            devices.insert(
                name,
                DeviceConfig {
                    interface,
                    enabled: entry.enabled.unwrap_or(true),
                    settings,
                },
            );
        }
        Ok(Config { devices })
    }

    /// Reads a file; no file says nothing.
    ///
    /// # Errors
    /// It cannot be read, or something is wrong with it.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let whole = |error: std::io::Error| ConfigError {
            line: None,
            what: error.to_string(),
        };
        match std::fs::metadata(path) {
            // A home that is no directory has no file either.
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(Config::default());
            }
            Err(error) => return Err(whole(error)),
            Ok(found) if !found.is_file() || found.len() > FILE_BYTES => {
                return Err(whole(std::io::Error::other("it is no file of this kind")));
            }
            Ok(_) => {}
        }
        Config::parse(&std::fs::read_to_string(path).map_err(whole)?)
    }
}

/// Where the file is; None if the environment names no home.
pub fn path() -> Option<PathBuf> {
    ferriband_notes::directory("XDG_CONFIG_HOME", ".config").map(|dir| dir.join("devices.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_it_says_and_the_rest_is_as_without() {
        let text = r#"
            # what people write
            [device.storage]
            interface = "eth1"
            gids = ["10.0.0.1", "fe80::1"]
            mtu = 1024
            dscp = 26
            rate = "10Gbit"
            frames = false

            [device.ferri_eth0]
            enabled = false

            [device.ferri0]
        "#;
        let config = Config::parse(text).unwrap();
        let storage = &config.devices["storage"];
        assert_eq!(
            (storage.interface.as_str(), storage.enabled),
            ("eth1", true)
        );
        assert_eq!(
            storage.settings,
            Settings {
                gids: vec!["10.0.0.1".parse().unwrap(), "fe80::1".parse().unwrap()],
                mtu: Some(1024),
                dscp: Some(26),
                rate_kbps: Some(10_000_000),
                frames: Some(false),
            }
        );
        let plain = &config.devices["ferri_eth0"];
        assert_eq!((plain.interface.as_str(), plain.enabled), ("eth0", false));
        assert!(config.devices["ferri0"].enabled);
        assert_eq!(Config::parse("").unwrap(), Config::default());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, says) in [
            (
                "[device.a]\ninterface = \"eth0\"\nmtu = 1500\n",
                Some(3),
                "1500",
            ),
            (
                "[device.a]\ninterface = \"eth0\"\nspeed = 3\n",
                Some(3),
                "speed",
            ),
            ("[device.a]\ninterface = 3\n", Some(2), "string"),
            ("[device.ferri_x]\ndscp = 64\n", Some(2), "64"),
            ("[device.ferri_x]\nrate = \"fast\"\n", Some(2), "fast"),
            ("[device.ferri_x]\ngids = [\"here\"]\n", Some(2), "IP"),
            ("[device.\"a b\"]\ninterface = \"eth0\"\n", Some(1), "a b"),
            ("[device.a]\n", None, "no interface"),
            (
                "[device.ferri0]\ninterface = \"eth0\"\n",
                None,
                "InfiniBand",
            ),
            ("\n[device.a\n", Some(2), ""),
            ("[devices.a]\n", Some(1), "devices"),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.what.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, kbps) in [
            ("10Gbit", 10_000_000),
            ("2.5g", 2_500_000),
            ("500 Mbit/s", 500_000),
            ("64kbit", 64),
        ] {
            assert_eq!(parse_rate(text), Ok(kbps), "{text}");
        }
        for text in [
            "",
            "10",
            "Gbit",
            "-1Mbit",
            "0.1kbit",
            "9999999Gbit",
            "NaNGbit",
            "infGbit",
        ] {
            parse_rate(text).unwrap_err();
        }
    }

    #[test]
    fn no_file_says_nothing_and_a_directory_is_no_file() {
        assert_eq!(
            Config::load(Path::new("/proc/self/nothing")),
            Ok(Config::default())
        );
        Config::load(Path::new("/proc")).unwrap_err();
    }
}
