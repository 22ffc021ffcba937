//! The directories and files that the kernel would show for our devices: what is where, and what each file says.
//!
//! Owns no state: every answer is made from what the adapter knows at that moment. A file's text is made only when it is read, because the
//! LID of the InfiniBand device is not known before the process has joined its host.

use crate::context::any_adapter;
use crate::device::{self, Device};
use crate::query::{port_cap_flags, states, width_and_speed};
use ferriband_admin::Counter;
use ferriband_hca::{self as hca, LinkLayer, limits};
use std::path::{Component, Path, PathBuf};

/// Character device numbers of `/dev/infiniband/uverbsN`, as the kernel's first 32 have them.
const UVERBS_MAJOR: u32 = 231;
const UVERBS_FIRST_MINOR: u32 = 192;
/// Of `/dev/infiniband/rdma_cm`: a miscellaneous device, the first of those whose minor number the kernel chooses.
const RDMA_CM: (u32, u32) = (10, 256);
/// Where the devices are.
const CLASS: &str = "/sys/class/infiniband";
const VERBS_CLASS: &str = "/sys/class/infiniband_verbs";

/// What lies at a path.
pub enum Node {
    /// Names, each with the kind of what it names.
    Directory(Vec<(Kind, String)>),
    /// Its text without the final newline, when it is asked for; the error is an errno.
    File(Box<dyn FnOnce() -> Result<String, i32>>),
    /// Another path stands for this one. `below` is what follows the link in the path that was asked for.
    Link {
        /// Where it points.
        target: PathBuf,
        /// Empty for the link itself.
        below: PathBuf,
    },
    /// Major and minor number.
    Device(u32, u32),
}

/// What a name in a directory names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A file.
    File,
    /// A symbolic link.
    Link,
    /// A character device.
    Device,
}

type Found = Result<Node, i32>;
/// What answers for the paths below a directory, which come as their words.
type Answer = fn(&[&str]) -> Found;

/// The node at `path`, `None` if the path is none of ours. Paths are taken literally but for repeated slashes, `.` and `..`.
pub fn find(path: &Path) -> Option<Found> {
    let path = normal(path)?;
    let words = |rest: &'_ Path| -> Option<Vec<String>> {
        rest.iter()
            .map(|part| part.to_str().map(str::to_owned))
            .collect()
    };
    let roots: [(&str, Answer); 4] = [
        (CLASS, class),
        (VERBS_CLASS, verbs_class),
        ("/sys/class/infiniband_mad", mad_class),
        ("/dev/infiniband", device_files),
    ];
    roots.iter().find_map(|(root, answer)| {
        let rest = path.strip_prefix(root).ok()?;
        let Some(words) = words(rest) else {
            return Some(Err(libc::ENOENT));
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Some(answer(&words))
    })
}

/// An absolute path without `.`, `..` and repeated slashes; None for a relative one.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir | Component::Prefix(_) => {}
            Component::RootDir | Component::Normal(_) => out.push(part),
        }
    }
    out.is_absolute().then_some(out)
}

fn text(text: impl Into<String>) -> Found {
    let text = text.into();
    Ok(Node::File(Box::new(move || Ok(text))))
}

fn directory<'a>(entries: impl IntoIterator<Item = (Kind, &'a str)>) -> Found {
    let entries = entries.into_iter();
    Ok(Node::Directory(
        entries
            .map(|(kind, name)| (kind, name.to_owned()))
            .collect(),
    ))
}

fn numbered(kind: Kind, count: u32) -> Found {
    Ok(Node::Directory(
        (0..count).map(|index| (kind, index.to_string())).collect(),
    ))
}

fn link(target: impl Into<PathBuf>, below: &[&str]) -> Found {
    Ok(Node::Link {
        target: target.into(),
        below: below.iter().collect(),
    })
}

/// `/sys/class/infiniband`.
fn class(words: &[&str]) -> Found {
    let Some((name, rest)) = words.split_first() else {
        let names = device::all().iter().map(|device| &*device.info().name);
        return directory(names.map(|name| (Kind::Directory, name)));
    };
    let device = device::all()
        .iter()
        .find(|device| device.info().name == *name)
        .ok_or(libc::ENOENT)?;
    of_device(device, rest)
}

/// `/sys/class/infiniband_verbs`.
fn verbs_class(words: &[&str]) -> Found {
    let Some((name, rest)) = words.split_first() else {
        let mut entries = vec![(Kind::File, "abi_version".to_owned())];
        let devices = device::all().iter();
        entries.extend(devices.map(|device| (Kind::Directory, uverbs(device))));
        return Ok(Node::Directory(entries));
    };
    if *name == "abi_version" && rest.is_empty() {
        return text("6");
    }
    let device = by_uverbs(name)?;
    let index = device.info().index as u32;
    match rest {
        [] => directory([
            (Kind::File, "abi_version"),
            (Kind::File, "dev"),
            (Kind::Link, "device"),
            (Kind::File, "ibdev"),
        ]),
        ["abi_version"] => text("1"),
        ["dev"] => text(format!("{UVERBS_MAJOR}:{}", UVERBS_FIRST_MINOR + index)),
        ["ibdev"] => text(&*device.info().name),
        ["device", below @ ..] => link(format!("{CLASS}/{}/device", device.info().name), below),
        _ => Err(libc::ENOENT),
    }
}

/// `/sys/class/infiniband_mad`: the interface is there, no device offers it.
fn mad_class(words: &[&str]) -> Found {
    match words {
        [] => directory([(Kind::File, "abi_version")]),
        ["abi_version"] => text("5"),
        _ => Err(libc::ENOENT),
    }
}

/// `/dev/infiniband`.
fn device_files(words: &[&str]) -> Found {
    match words {
        [] => {
            let devices = device::all().iter().map(uverbs);
            let names = devices.chain(["rdma_cm".to_owned()]);
            Ok(Node::Directory(
                names.map(|name| (Kind::Device, name)).collect(),
            ))
        }
        ["rdma_cm"] => Ok(Node::Device(RDMA_CM.0, RDMA_CM.1)),
        [name] => {
            let index = by_uverbs(name)?.info().index as u32;
            Ok(Node::Device(UVERBS_MAJOR, UVERBS_FIRST_MINOR + index))
        }
        _ => Err(libc::ENOENT),
    }
}

fn uverbs(device: &Device) -> String {
    format!("uverbs{}", device.info().index)
}

fn by_uverbs(name: &str) -> Result<&'static Device, i32> {
    device::all()
        .iter()
        .find(|device| uverbs(device) == name)
        .ok_or(libc::ENOENT)
}

/// Eight groups of four hexadecimal digits.
fn gid_text(gid: [u8; 16]) -> String {
    let groups: Vec<String> = gid
        .chunks(2)
        .map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]))
        .collect();
    groups.join(":")
}

/// Four groups of four hexadecimal digits.
fn guid_text(guid: u64) -> String {
    let [a, b, c, d] = [48, 32, 16, 0].map(|shift| (guid >> shift) as u16);
    format!("{a:04x}:{b:04x}:{c:04x}:{d:04x}")
}

/// A path under the device's directory.
fn of_device(device: &'static Device, rest: &[&str]) -> Found {
    let info = device.info();
    match rest {
        [] => directory([
            (Kind::File, "board_id"),
            (Kind::Directory, "device"),
            (Kind::File, "fw_ver"),
            (Kind::File, "hca_type"),
            (Kind::File, "hw_rev"),
            (Kind::File, "node_desc"),
            (Kind::File, "node_guid"),
            (Kind::File, "node_type"),
            (Kind::Directory, "ports"),
            (Kind::File, "sys_image_guid"),
        ]),
        ["node_guid"] => text(guid_text(info.guid.0)),
        ["sys_image_guid"] => text(guid_text(info.system_guid.0)),
        ["node_type"] => text("1: CA"),
        ["node_desc"] => text(info.description.as_str()),
        ["fw_ver"] => text(env!("CARGO_PKG_VERSION")),
        ["hca_type" | "board_id"] => text(format!("FB{:X}", limits::VENDOR_PART_ID)),
        ["hw_rev"] => text("1"),
        ["device", rest @ ..] => of_parent(device, rest),
        ["ports"] => Ok(Node::Directory(
            (1..=hca::device_at(info.index).map_or(1, hca::Device::ports))
                .map(|port| (Kind::Directory, port.to_string()))
                .collect(),
        )),
        ["ports", port, rest @ ..] => {
            let port: u8 = port.parse().map_err(|_| libc::ENOENT)?;
            let hca = hca::device_at(info.index).ok_or(libc::ENODEV)?;
            if port == 0 || port > hca.ports() {
                return Err(libc::ENOENT);
            }
            of_port(device, hca, port, rest)
        }
        _ => Err(libc::ENOENT),
    }
}

/// The interface whose addresses lead to the device: to the InfiniBand device those of this host do, the loopback's above all.
fn interface(info: &hca::DeviceInfo) -> &str {
    match info.link_layer {
        LinkLayer::Ethernet => &info.interface,
        LinkLayer::InfiniBand => "lo",
    }
}

/// A path under `device`, which on other adapters is the directory of the PCI function.
fn of_parent(device: &'static Device, rest: &[&str]) -> Found {
    let info = device.info();
    let interface = interface(info);
    match rest {
        [] => directory([
            (Kind::Directory, "infiniband"),
            (Kind::Directory, "infiniband_verbs"),
            (Kind::Directory, "net"),
            (Kind::File, "numa_node"),
        ]),
        ["infiniband"] => directory([(Kind::Link, &*info.name)]),
        ["infiniband", name, below @ ..] if *name == info.name => {
            link(format!("{CLASS}/{name}"), below)
        }
        ["infiniband_verbs"] => directory([(Kind::Link, &*uverbs(device))]),
        ["infiniband_verbs", name, below @ ..] if *name == uverbs(device) => {
            link(format!("{VERBS_CLASS}/{name}"), below)
        }
        ["net"] => directory([(Kind::Link, interface)]),
        ["net", name, below @ ..] if *name == interface => {
            link(format!("/sys/class/net/{name}"), below)
        }
        ["numa_node"] => {
            let real = format!("/sys/class/net/{interface}/device/numa_node");
            let node = std::fs::read_to_string(real).unwrap_or_else(|_| "-1".to_owned());
            text(node.trim_end())
        }
        _ => Err(libc::ENOENT),
    }
}

/// The rate as the kernel prints it.
fn rate_text((width, speed): (u8, u8)) -> String {
    let lanes = match width {
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 1,
    };
    let (name, tenths) = match speed {
        2 => ("DDR", 50),
        4 => ("QDR", 100),
        8 => ("FDR10", 100),
        16 => ("FDR", 140),
        32 => ("EDR", 250),
        64 => ("HDR", 500),
        128 => ("NDR", 1000),
        _ => ("SDR", 25),
    };
    let tenths = tenths * lanes;
    let half = if tenths % 10 == 0 { "" } else { ".5" };
    format!("{}{half} Gb/sec ({lanes}X {name})", tenths / 10)
}

/// The link's state as the kernel prints it.
fn state_text(code: u8) -> &'static str {
    match code {
        2 => "2: INIT",
        3 => "3: ARMED",
        4 => "4: ACTIVE",
        5 => "5: ACTIVE_DEFER",
        _ => "1: DOWN",
    }
}

/// The physical link's.
fn phys_state_text(code: u8) -> &'static str {
    match code {
        1 => "1: Sleep",
        2 => "2: Polling",
        4 => "4: PortConfigurationTraining",
        5 => "5: LinkUp",
        6 => "6: LinkErrorRecovery",
        7 => "7: Phy Test",
        _ => "3: Disabled",
    }
}

/// What the directory of every port has.
const PORT_ENTRIES: [(Kind, &str); 12] = [
    (Kind::File, "cap_mask"),
    (Kind::Directory, "gid_attrs"),
    (Kind::Directory, "gids"),
    (Kind::File, "lid"),
    (Kind::File, "lid_mask_count"),
    (Kind::File, "link_layer"),
    (Kind::File, "phys_state"),
    (Kind::Directory, "pkeys"),
    (Kind::File, "rate"),
    (Kind::File, "sm_lid"),
    (Kind::File, "sm_sl"),
    (Kind::File, "state"),
];

/// The port's counters: those of the IBA, or those that RoCE adapters have besides.
fn counters(standard: bool) -> impl Iterator<Item = Counter> {
    Counter::ALL
        .into_iter()
        .filter(move |counter| counter.is_standard() == standard)
}

/// A path under a port's directory.
fn of_port(device: &'static Device, hca: &'static hca::Device, port: u8, rest: &[&str]) -> Found {
    let attr = hca.port_at(port);
    let ethernet = attr.link_layer == LinkLayer::Ethernet;
    match rest {
        [] => directory(
            ["counters", "hw_counters"]
                .into_iter()
                .filter(|_| ethernet)
                .map(|name| (Kind::Directory, name))
                .chain(PORT_ENTRIES),
        ),
        [which @ ("counters" | "hw_counters")] if ethernet => {
            let names = counters(*which == "counters").map(Counter::name);
            directory(names.map(|name| (Kind::File, name)))
        }
        [which @ ("counters" | "hw_counters"), name] if ethernet => {
            let counter = counters(*which == "counters")
                .find(|counter| counter.name() == *name)
                .ok_or(libc::ENOENT)?;
            Ok(Node::File(Box::new(move || {
                let sums = any_adapter(device)?.port_counters();
                Ok(sums[counter as usize].to_string())
            })))
        }
        ["cap_mask"] => text(format!("{:#010x}", port_cap_flags(ethernet))),
        ["state"] => text(state_text(states(&attr).0)),
        ["phys_state"] => text(phys_state_text(states(&attr).1)),
        ["link_layer"] if ethernet => text("Ethernet"),
        ["link_layer"] => text("InfiniBand"),
        ["rate"] => text(rate_text(width_and_speed(&attr))),
        [which @ ("lid" | "sm_lid")] => lid(device, port, *which == "lid"),
        ["lid_mask_count"] => text(attr.lmc.to_string()),
        ["sm_sl"] => text("0"),
        ["gids"] => numbered(Kind::File, attr.gid_table),
        ["gids", number] => {
            let index = entry(number, attr.gid_table)?;
            let gid = hca.gid_at(port, index).map_or([0; 16], |entry| entry.gid.0);
            text(gid_text(gid))
        }
        ["pkeys"] => numbered(Kind::File, attr.pkey_table),
        ["pkeys", number] => {
            let index = entry(number, attr.pkey_table)?;
            text(format!("{:#06x}", hca.pkey_now(port, index as u16)))
        }
        ["gid_attrs"] => directory([(Kind::Directory, "ndevs"), (Kind::Directory, "types")]),
        ["gid_attrs", "types" | "ndevs"] => numbered(Kind::File, attr.gid_table),
        ["gid_attrs", what @ ("types" | "ndevs"), number] => {
            let index = entry(number, attr.gid_table)?;
            let what = match *what {
                "types" => "RoCE v2",
                _ => device.info().interface.as_str(),
            };
            // The kernel answers reads with EINVAL on InfiniBand ports, and for empty entries.
            Ok(Node::File(Box::new(move || {
                let there = ethernet && hca.gid(index).is_some();
                there.then(|| what.to_owned()).ok_or(libc::EINVAL)
            })))
        }
        _ => Err(libc::ENOENT),
    }
}

/// The index of an entry of a table that is there.
fn entry(number: &str, length: u32) -> Result<u32, i32> {
    let index = number.parse().map_err(|_| libc::ENOENT)?;
    if index < length {
        Ok(index)
    } else {
        Err(libc::ENOENT)
    }
}

/// The port's LID, or its subnet manager's: only a process that has joined its host knows them.
fn lid(device: &'static Device, port: u8, own: bool) -> Found {
    Ok(Node::File(Box::new(move || {
        let attr = any_adapter(device)?
            .query_port(port)
            .map_err(|error| error.errno())?;
        let lid = if own { attr.lid } else { attr.sm_lid };
        Ok(format!("{:#x}", lid.0))
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_look_as_the_kernel_prints_them() {
        assert_eq!(guid_text(0x0002_c903_0000_1234), "0002:c903:0000:1234");
        let mut gid = [0; 16];
        (gid[0], gid[1], gid[15]) = (0xfe, 0x80, 1);
        assert_eq!(gid_text(gid), "fe80:0000:0000:0000:0000:0000:0000:0001");
    }

    #[test]
    fn other_paths_are_not_ours() {
        for path in [
            "/sys/class/net",
            "/sys/class/infiniband_srp",
            "/dev/infiniband0",
            "sys/class/infiniband",
            "/sys/class/infiniband/..",
        ] {
            assert!(find(Path::new(path)).is_none(), "{path}");
        }
    }

    /// Everything that a directory lists is there, is of the kind that was said, and ends somewhere.
    fn walk(path: &Path, kind: Kind, count: &mut usize) {
        *count += 1;
        let node = find(path)
            .expect("ours")
            .unwrap_or_else(|errno| panic!("{}: {errno}", path.display()));
        let found = match &node {
            Node::Directory(_) => Kind::Directory,
            Node::File(_) => Kind::File,
            Node::Link { .. } => Kind::Link,
            Node::Device(..) => Kind::Device,
        };
        assert_eq!(found, kind, "{}", path.display());
        if let Node::Directory(entries) = node {
            for (kind, name) in entries {
                walk(&path.join(name), kind, count);
            }
        }
    }

    #[test]
    fn what_is_listed_is_there() {
        let mut count = 0;
        walk(
            Path::new("/sys/class/infiniband/"),
            Kind::Directory,
            &mut count,
        );
        walk(
            Path::new("/sys/class//infiniband_verbs"),
            Kind::Directory,
            &mut count,
        );
        walk(
            Path::new("/sys/class/infiniband_mad/."),
            Kind::Directory,
            &mut count,
        );
        walk(Path::new("/dev/infiniband"), Kind::Directory, &mut count);
        assert!(count > 20 * device::all().len(), "{count}");
    }

    #[test]
    fn links_keep_what_follows_them() {
        let uverbs = Path::new("/sys/class/infiniband_verbs/uverbs0/device/net/x");
        let Some(Ok(Node::Link { target, below })) = find(uverbs) else {
            panic!("a link");
        };
        assert!(target.starts_with(CLASS) && target.ends_with("device"));
        assert_eq!(below, Path::new("net/x"));
    }
}
