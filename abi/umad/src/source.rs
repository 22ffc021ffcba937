//! Where adapters come from: the process of a live fabric, or what /sys shows.

use ferriband_attach::ask::{Adapter, AdapterPort, Answer, Ask};
use ferriband_attach::{AttachError, DEVICE, HostName, Link};
use std::ffi::c_int;
use std::path::{Path, PathBuf};

/// Where the kernel, or the files that `ferriband run` shows, have devices.
const CLASS: &str = "/sys/class/infiniband";

/// An adapter with its name and what it says of itself.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub name: String,
    pub kind: String,
    pub firmware: String,
    pub hardware: String,
    pub system_guid: u64,
    pub adapter: Adapter,
    /// For each port "InfiniBand" or "Ethernet".
    pub link_layers: Vec<String>,
}

/// What went wrong, as an errno.
pub fn errno_of(error: &AttachError) -> c_int {
    match error {
        AttachError::NoFabric(_) | AttachError::Stranger(_) | AttachError::Refused(_) => {
            libc::ENODEV
        }
        AttachError::NameTaken(_) | AttachError::NoRange => libc::EADDRINUSE,
        AttachError::Late => libc::ETIMEDOUT,
        AttachError::Full => libc::EAGAIN,
        AttachError::Gone | AttachError::Malformed(_) => libc::EIO,
        AttachError::System { errno, .. } => errno.raw_os_error(),
    }
}

/// True for an errno that says that the system, or this process's share of it, has no more of something just now.
pub fn is_scarcity(errno: c_int) -> bool {
    matches!(
        errno,
        libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS | libc::EAGAIN
    )
}

/// Names of the adapters, sorted. The error is the system's errno while they cannot be looked for.
pub fn names() -> Result<Vec<String>, c_int> {
    match HostName::of_environment() {
        Some(_) => Ok(vec![DEVICE.to_owned()]),
        None => {
            let listed = std::fs::read_dir(CLASS);
            let errno = listed.as_ref().err().and_then(std::io::Error::raw_os_error);
            if let Some(errno) = errno.filter(|errno| is_scarcity(*errno)) {
                return Err(errno);
            }
            let entries = listed.into_iter().flatten().flatten();
            let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
            let mut names: Vec<_> = names.filter(|name| of_sys(name).is_some()).collect();
            names.sort();
            Ok(names)
        }
    }
}

/// An adapter by its name.
pub fn find(name: &str) -> Result<Found, c_int> {
    let Some(host) = HostName::of_environment() else {
        return of_sys(name).ok_or(libc::ENODEV);
    };
    if name != DEVICE {
        return Err(libc::ENODEV);
    }
    let link = Link::dial(&host.fabric).map_err(|error| errno_of(&error))?;
    match link.ask(&Ask::Adapter { host: host.host }) {
        Ok(Answer::Adapter(adapter)) => Ok(Found {
            name: name.to_owned(),
            kind: "Ferriband".to_owned(),
            firmware: env!("CARGO_PKG_VERSION").to_owned(),
            hardware: "0".to_owned(),
            system_guid: adapter.system_guid,
            link_layers: vec!["InfiniBand".to_owned(); adapter.ports.len()],
            adapter,
        }),
        Ok(_) => Err(libc::EIO),
        Err(error) => Err(errno_of(&error)),
    }
}

/// What /sys says of a device; None if it is none.
fn of_sys(name: &str) -> Option<Found> {
    if name.contains('/') || name.starts_with('.') {
        return None;
    }
    let dir = Path::new(CLASS).join(name);
    let node_type = number(&dir, "node_type").filter(|kind| (1..=3).contains(kind))? as u8;
    let mut ports = Vec::new();
    let mut link_layers = Vec::new();
    let listed = std::fs::read_dir(dir.join("ports")).ok()?;
    let mut numbers: Vec<u8> = listed
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    for port in numbers {
        let at = dir.join("ports").join(port.to_string());
        ports.push(port_of_sys(&at, port)?);
        link_layers.push(text(&at, "link_layer").unwrap_or_else(|| "IB".to_owned()));
    }
    let guid = |file| guid_of(&text(&dir, file)?);
    Some(Found {
        name: name.to_owned(),
        kind: text(&dir, "hca_type").unwrap_or_default(),
        firmware: text(&dir, "fw_ver").unwrap_or_default(),
        hardware: text(&dir, "hw_rev").unwrap_or_default(),
        system_guid: guid("sys_image_guid").unwrap_or(0),
        link_layers,
        adapter: Adapter {
            node_type,
            node_guid: guid("node_guid")?,
            port_count: ports.len() as u8,
            port_used: ports.first().map_or(1, |port| port.port),
            ports,
            ..Adapter::default()
        },
    })
}

fn port_of_sys(dir: &Path, port: u8) -> Option<AdapterPort> {
    let gid = text(dir, "gids/0")?;
    let parts: Vec<u64> = gid
        .split(':')
        .map(|part| u64::from_str_radix(part, 16).ok())
        .collect::<Option<_>>()?;
    let half = |parts: &[u64]| parts.iter().fold(0, |sum, part| sum << 16 | part & 0xffff);
    let (prefix, guid) = parts.split_at_checked(4)?;
    let mut pkeys = Vec::new();
    while let Some(key) = number(&dir.join("pkeys"), &pkeys.len().to_string()) {
        pkeys.push(key as u16);
        if pkeys.len() >= 1024 {
            break;
        }
    }
    let own = |file| number(dir, file);
    Some(AdapterPort {
        port,
        guid: half(guid),
        prefix: half(prefix),
        lid: own("lid")? as u16,
        lmc: own("lid_mask_count")? as u8,
        sm_lid: own("sm_lid")? as u16,
        sm_sl: own("sm_sl")? as u8,
        state: own("state")? as u8,
        phys_state: own("phys_state")? as u8,
        rate_mbps: own("rate")? as u32 * 1000,
        capabilities: own("cap_mask")? as u32,
        pkeys,
        ..AdapterPort::default()
    })
}

fn text(dir: &Path, file: &str) -> Option<String> {
    let path: PathBuf = dir.join(file);
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim_end_matches('\n').to_owned())
}

/// The number that a file begins with, as strtoul(3) with base 0 reads it.
fn number(dir: &Path, file: &str) -> Option<u64> {
    let text = text(dir, file)?;
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text.as_str(), 10),
    };
    let end = digits
        .find(|c: char| !c.is_digit(radix))
        .unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], radix).ok()
}

fn guid_of(text: &str) -> Option<u64> {
    u64::from_str_radix(&text.replace(':', ""), 16).ok()
}
