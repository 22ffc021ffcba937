//! Devices: which there are, what their port says of itself, and the addresses by which it is reached.
//!
//! Owns: the list of devices as the host's network interfaces make it, and each device's GID table. `ferri0` is InfiniBand: one LID, one GID, the
//! direct wire. `ferri_<interface>` is Ethernet: RoCEv2 GIDs from the interface's addresses. Must not know: sockets, queue pairs.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use ferriband_admin::config::{Config, NATIVE, PREFIX, Settings};
use ferriband_fork::{PerProcess, Settled};
use ferriband_memory::host::{BlockKind, HostKey};
use ferriband_memory::net::{self, Netdev};
use ferriband_transport::types::{AddressVector, QpType};
use ferriband_wire::{Gid, Guid, Lid, Mtu};

use crate::base::error::Error;
use crate::base::limits;
use crate::lock;
pub use absence::missing;
pub use info::{DeviceInfo, FabricLink, GidEntry, LinkLayer, PortAttr};
use pace::SharedPace;
pub(crate) use unlisted::{answering, by_index, is_listed};
pub(crate) use watch::Seen;

pub(crate) mod absence;
mod config;
pub(crate) mod counters;
pub mod fabric;
mod info;
pub(crate) mod pace;
mod unlisted;
pub(crate) mod wanted;
mod watch;

/// Which devices there are and in which order: names, separated by commas. Unset: `ferri0`, then the usable interfaces' by index.
pub const DEVICES_VARIABLE: &str = "FERRIBAND_DEVICES";
/// Entries of an Ethernet device's GID table.
const ETHERNET_GIDS: usize = 64;
/// Headers and trailer of the largest packet around its payload, with IPv6: 40 + 8 + 12 + 4 + 16 + 4 + 4.
const OVERHEAD_BYTES: u32 = 88;
/// How old what is known of an interface may be before it is asked for again.
const FRESH_NS: u64 = 250_000_000;

/// What an Ethernet device knows of its interface.
#[derive(Debug, Default)]
struct Face {
    asked_at: u64,
    /// It was deleted.
    gone: bool,
    /// It is switched on and has a carrier.
    up: bool,
    mtu: u32,
    speed_mbps: u32,
    /// The table; an address keeps its place, one that goes leaves a hole.
    gids: Vec<Option<IpAddr>>,
}

/// A device of this process.
#[derive(Debug)]
pub struct Device {
    /// Its description.
    pub info: DeviceInfo,
    /// The host's LID, once the device was opened.
    lid: AtomicU32,
    /// What the packets of all its queue pairs have used of its rate.
    pub(crate) pace: SharedPace,
    face: PerProcess<Mutex<Face>>,
}

/// The devices of this host, as this process sees them. The GUID does not depend on whether a device is open.
pub fn devices() -> Vec<DeviceInfo> {
    all().iter().map(|device| device.info.clone()).collect()
}

/// Lists the devices, for callers that can say why the list cannot be had.
///
/// # Errors
/// What the system says while it has too few descriptors or too little memory, or no /proc.
pub fn find_devices() -> Result<Vec<DeviceInfo>, Error> {
    let found = find()?.iter();
    Ok(found.map(|device| device.info.clone()).collect())
}

/// A device by its index in the list, whether or not it is open. The InfiniBand device's LID is 0 until a process has joined its host.
pub fn device_at(index: usize) -> Option<&'static Device> {
    all().get(index).map(|device| &**device)
}

/// The devices themselves; none while they cannot be found out.
pub(crate) fn all() -> &'static [Arc<Device>] {
    find().unwrap_or_default()
}

/// The devices themselves: found out once, so that a program's list stays as it was.
fn find() -> Result<&'static [Arc<Device>], Error> {
    static ALL: Settled<Vec<Arc<Device>>> = Settled::new();
    let look = || {
        let key = HostKey::current(&fabric::label())?;
        let named = std::env::var(DEVICES_VARIABLE).ok();
        fabric::check_reach()?;
        let interfaces = interfaces()?;
        let infos = plan(
            interfaces.as_deref().unwrap_or_default(),
            named.as_deref(),
            fabric::guid().unwrap_or_else(|| key.guid()),
            &config::load()?,
        );
        // a host without interfaces may have no device; one whose kernel tells nobody of them says so
        if let (true, Err(error)) = (infos.is_empty(), interfaces) {
            return Err(error);
        }
        let infos = infos.into_iter().map(info::describe);
        Ok(infos.map(|info| Arc::new(Device::new(info))).collect())
    };
    ALL.get_or_try_init(look).map(Vec::as_slice)
}

/// A device by its index.
pub(crate) fn at(index: usize) -> Result<&'static Arc<Device>, Error> {
    find()?.get(index).ok_or(Error::NotFound("no such device"))
}

/// The host's interfaces; the error within is that of a kernel which tells nobody.
fn interfaces() -> Result<Result<Vec<Netdev>, Error>, Error> {
    match net::netdevs() {
        Ok(interfaces) => Ok(Ok(interfaces)),
        // another time, or with a higher limit, there are some
        Err(error) if ferriband_memory::Error::is_scarcity(error.errno()) => Err(error.into()),
        Err(error) => Ok(Err(error.into())),
    }
}

/// What a host's interfaces, the file of devices and a choice of names make. Names that nothing answers to are left out.
fn plan(
    interfaces: &[Netdev],
    named: Option<&str>,
    guid: Guid,
    config: &Config,
) -> Vec<DeviceInfo> {
    let mut sorted: Vec<&Netdev> = interfaces.iter().collect();
    sorted.sort_by_key(|interface| interface.ifindex);
    let native = || DeviceInfo {
        name: NATIVE.into(),
        guid,
        system_guid: guid,
        description: format!("Ferriband {NATIVE}"),
        index: 0,
        link_layer: LinkLayer::InfiniBand,
        ifindex: 0,
        interface: String::new(),
        settings: Settings::default(),
    };
    // devices of one interface have GUIDs of their own
    let ethernet = |name: &str, place: usize, interface: &Netdev, settings: &Settings| {
        let guid = Guid(interface_guid(interface, guid).0 ^ (place as u64) << 24);
        DeviceInfo {
            name: name.into(),
            guid,
            system_guid: guid,
            description: format!("Ferriband {name}"),
            index: 0,
            link_layer: LinkLayer::Ethernet,
            ifindex: interface.ifindex,
            interface: interface.name.clone(),
            settings: settings.clone(),
        }
    };
    let plain = |interface: &Netdev| {
        let name = format!("{PREFIX}{}", interface.name);
        ethernet(&name, 0, interface, &Settings::default())
    };
    let mut known = Vec::new();
    let listed = config.devices.get(NATIVE);
    known.extend(listed.is_none_or(|device| device.enabled).then(native));
    for interface in &sorted {
        let all = config.devices.iter();
        let configured: Vec<_> = all
            .filter(|(_, device)| device.interface == interface.name)
            .collect();
        if configured.is_empty() && usable(interface) {
            known.push(plain(interface));
        }
        for (place, (name, device)) in configured.into_iter().enumerate() {
            if device.enabled {
                known.push(ethernet(name, place, interface, &device.settings));
            }
        }
    }
    let by_name = |name: &str| {
        let found = known.iter().find(|device| device.name == name).cloned();
        found.or_else(|| match name.strip_prefix(PREFIX) {
            _ if name == NATIVE => Some(native()),
            Some(interface) => sorted
                .iter()
                .find(|known| known.name == interface)
                .map(|known| plain(known)),
            None => None,
        })
    };
    let mut list: Vec<DeviceInfo> = match named {
        Some(names) => names
            .split(',')
            .map(str::trim)
            .filter_map(by_name)
            .collect(),
        None => known,
    };
    for (index, info) in list.iter_mut().enumerate() {
        info.index = index;
    }
    list
}

/// An interface that becomes a device without being named.
fn usable(interface: &Netdev) -> bool {
    interface.up
        && !interface.loopback
        && mtu_of(interface.mtu).is_some()
        && !usable_addresses(interface).is_empty()
}

fn usable_addresses(interface: &Netdev) -> Vec<IpAddr> {
    interface
        .addresses
        .iter()
        .filter(|address| address.usable)
        .map(|address| address.ip)
        .collect()
}

/// The EUI-64 of the interface's address, as the kernel makes it; without one, the host's with the interface's index.
fn interface_guid(interface: &Netdev, host: Guid) -> Guid {
    let Some([a, b, c, d, e, f]) = interface.mac else {
        return Guid(host.0 ^ u64::from(interface.ifindex));
    };
    Guid(u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]))
}

/// The largest MTU of the IBA's that fits an interface's.
fn mtu_of(interface_mtu: u32) -> Option<Mtu> {
    [Mtu::M4096, Mtu::M2048, Mtu::M1024, Mtu::M512, Mtu::M256]
        .into_iter()
        .find(|mtu| mtu.bytes() + OVERHEAD_BYTES <= interface_mtu)
}

/// The Ethernet device that has an address, and the address's index; a link-local address only that of its link.
pub(crate) fn at_address(address: IpAddr, ifindex: u32) -> Option<(&'static Arc<Device>, u8)> {
    let there = |device: &&Arc<Device>| {
        device.is_ethernet() && (!is_link_local(&address) || device.info.ifindex == ifindex)
    };
    all().iter().filter(there).find_map(|device| {
        let index = device.index_of(address)?;
        Some((device, index as u8))
    })
}

/// True if one of this host's interfaces has the address; a link-local one that of link `scope`, if that is known.
pub(crate) fn is_of_host(address: IpAddr, scope: Option<u32>) -> bool {
    with_interfaces(|interfaces| {
        interfaces
            .iter()
            .filter(|interface| scope.is_none_or(|link| interface.ifindex == link))
            .flat_map(|interface| &interface.addresses)
            .any(|known| known.ip == address)
    })
}

/// Looks at the host's interfaces as they were a moment ago: asking the kernel takes longer than what is done with the answer.
fn with_interfaces<T>(look: impl FnOnce(&[Netdev]) -> T) -> T {
    static KNOWN: PerProcess<Mutex<(u64, Vec<Netdev>)>> = PerProcess::new(Mutex::default);
    let mut known = lock(KNOWN.get());
    let now = ferriband_memory::wait::now().0;
    if known.0 == 0 || now - known.0 > FRESH_NS {
        // what was known stays while the kernel cannot be asked
        if let Ok(found) = interfaces() {
            *known = (now, found.unwrap_or_default());
        }
    }
    look(&known.1)
}

/// True for the GID of a multicast group: one of InfiniBand's or IPv6's own, or an IPv4 group's mapped into IPv6 (annex A17).
pub(crate) fn is_group(gid: &Gid) -> bool {
    address_of(gid).is_multicast()
}

/// The GID of an address: IPv4 is mapped into IPv6 (IBA annex A17).
pub fn gid_of(address: IpAddr) -> Gid {
    Gid(match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    })
}

/// The address behind a RoCEv2 GID.
pub fn address_of(gid: &Gid) -> IpAddr {
    let v6 = Ipv6Addr::from(gid.0);
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// The order of a fresh table: the link-local address, which programs take index 0 for, then IPv4, then the other IPv6.
fn rank(address: &IpAddr) -> u8 {
    match address {
        IpAddr::V6(_) if is_link_local(address) => 0,
        IpAddr::V4(_) => 1,
        IpAddr::V6(_) => 2,
    }
}

/// Brings a table up to date: what is gone leaves a hole, what is new takes the first one.
fn update(gids: &mut Vec<Option<IpAddr>>, addresses: &[IpAddr]) {
    for place in gids.iter_mut() {
        if place.is_some_and(|address| !addresses.contains(&address)) {
            *place = None;
        }
    }
    let mut fresh: Vec<IpAddr> = addresses
        .iter()
        .copied()
        .filter(|address| !gids.contains(&Some(*address)))
        .collect();
    fresh.sort_by_key(rank);
    for address in fresh {
        match gids.iter().position(Option::is_none) {
            Some(place) => gids[place] = Some(address),
            None if gids.len() < ETHERNET_GIDS => gids.push(Some(address)),
            None => {}
        }
    }
}

impl Device {
    fn new(info: DeviceInfo) -> Self {
        Device {
            info,
            lid: AtomicU32::new(0),
            pace: SharedPace::default(),
            face: PerProcess::new(Mutex::default),
        }
    }

    /// Opened in a process that has joined its host.
    pub(crate) fn opened(&self, lid: Lid) {
        self.lid.store(lid.0.into(), Ordering::Release);
    }

    fn lid(&self) -> Lid {
        if let Some(port) = fabric::port().filter(|_| !self.is_ethernet()) {
            return Lid(port.lid);
        }
        Lid(self.lid.load(Ordering::Acquire) as u16)
    }

    /// How many ports it has, numbered from 1.
    pub fn ports(&self) -> u8 {
        match self.is_ethernet() {
            true => 1,
            false => fabric::ports(),
        }
    }

    /// The port that is used where a program names none.
    pub(crate) fn usual_port(&self) -> u8 {
        match self.is_ethernet() {
            true => 1,
            false => fabric::usual(),
        }
    }

    /// The LID that packets of a path come from: the port's base LID, with the path bits that LMC
    /// leaves it (IBA 4.1.3, 11.2.2.1).
    pub(crate) fn source_lid(&self, port: u8, base: Lid, path_bits: u8) -> Lid {
        Lid(base.0 | u16::from(fabric::usable_bits(port, path_bits)))
    }

    /// True for RoCEv2.
    #[inline]
    pub fn is_ethernet(&self) -> bool {
        self.info.link_layer == LinkLayer::Ethernet
    }

    /// Err while nothing is known of the interface, because the system has too few descriptors or too little memory to ask.
    pub(crate) fn check_known(&self) -> Result<(), Error> {
        self.look_at(|_| ()).1
    }

    /// Looks at the interface as it is now.
    fn with_face<T>(&self, look: impl FnOnce(&Face) -> T) -> T {
        self.look_at(look).0
    }

    /// As [`Device::with_face`], and whether anything is known.
    fn look_at<T>(&self, look: impl FnOnce(&Face) -> T) -> (T, Result<(), Error>) {
        let mut face = lock(self.face.get());
        let now = ferriband_memory::wait::now().0;
        if self.is_ethernet() && (face.asked_at == 0 || now - face.asked_at > FRESH_NS) {
            let found = match interfaces() {
                Ok(Ok(found)) => found,
                // what was known stays, if anything was
                Ok(Err(_)) if face.asked_at != 0 => return (look(&face), Ok(())),
                Ok(Err(_)) => Vec::new(),
                Err(error) => {
                    let known = if face.asked_at == 0 {
                        Err(error)
                    } else {
                        Ok(())
                    };
                    return (look(&face), known);
                }
            };
            face.asked_at = now;
            match found
                .iter()
                .find(|other| other.ifindex == self.info.ifindex)
            {
                Some(interface) => {
                    face.gone = false;
                    face.up = interface.up && interface.carrier;
                    face.mtu = interface.mtu;
                    face.speed_mbps = interface.speed_mbps.unwrap_or(0);
                    let there = usable_addresses(interface);
                    match self.info.settings.gids.as_slice() {
                        [] => update(&mut face.gids, &there),
                        // their places are the file's
                        chosen => {
                            let gid = |chosen: &IpAddr| there.contains(chosen).then_some(*chosen);
                            face.gids = chosen.iter().take(ETHERNET_GIDS).map(gid).collect();
                        }
                    }
                }
                None => {
                    face.up = false;
                    // a kernel that tells of none says nothing of this one
                    face.gone = !found.is_empty();
                }
            }
        }
        (look(&face), Ok(()))
    }

    /// The smaller of an MTU and what the file of devices allows.
    fn limited(&self, mtu: Mtu) -> Mtu {
        match self
            .info
            .settings
            .mtu
            .and_then(|bytes| mtu_of(bytes + OVERHEAD_BYTES))
        {
            Some(limit) if limit.bytes() < mtu.bytes() => limit,
            _ => mtu,
        }
    }

    /// The P_Key at an index of a port's table, in host order; 0 where there is none. Whether or
    /// not this process hears of changes.
    pub fn pkey_now(&self, port: u8, index: u16) -> u16 {
        match self.is_ethernet() {
            true => limits::DEFAULT_PKEY,
            false => fabric::pkey_now(port, index),
        }
    }

    /// Attributes of the port that is used where a program names none.
    pub fn port(&self) -> PortAttr {
        self.port_at(self.usual_port())
    }

    /// A port's attributes.
    pub fn port_at(&self, number: u8) -> PortAttr {
        let native = PortAttr {
            lid: self.lid(),
            lmc: 0,
            sm_lid: self.lid(),
            link_layer: LinkLayer::InfiniBand,
            active: true,
            max_mtu: limits::MTU,
            mtu: limits::MTU,
            speed_mbps: 0,
            link: None,
            gid_table: limits::GID_TABLE,
            pkey_table: match self.is_ethernet() {
                true => 1,
                false => fabric::pkeys(),
            },
        };
        if !self.is_ethernet() {
            return fabric::port_at(number).map_or(native, |port| PortAttr {
                lid: Lid(port.lid),
                lmc: port.lmc,
                sm_lid: Lid(port.sm_lid),
                active: port.state == ferriband_wire::attributes::PortState::ACTIVE.0,
                mtu: Mtu::from_code(port.mtu)
                    .filter(|mtu| mtu.bytes() < limits::MTU.bytes())
                    .unwrap_or(limits::MTU),
                link: Some(FabricLink {
                    state: port.state,
                    phys_state: port.phys_state,
                    width: port.width,
                    speed: port.speed,
                    speed_ext: port.speed_ext,
                }),
                ..native
            });
        }
        self.with_face(|face| PortAttr {
            lid: Lid(0),
            sm_lid: Lid(0),
            link_layer: LinkLayer::Ethernet,
            active: face.up,
            mtu: self.limited(mtu_of(face.mtu).unwrap_or(Mtu::M256)),
            speed_mbps: face.speed_mbps,
            gid_table: ETHERNET_GIDS as u32,
            ..native
        })
    }

    /// An entry of the GID table of the port that is used where a program names none; None for an
    /// empty one.
    pub fn gid(&self, index: u32) -> Option<GidEntry> {
        self.gid_at(self.usual_port(), index)
    }

    /// An entry of a port's GID table; None for an empty one.
    pub fn gid_at(&self, port: u8, index: u32) -> Option<GidEntry> {
        if !self.is_ethernet() {
            let of_host = || Gid::from_prefix_guid(limits::SUBNET_PREFIX, self.info.guid);
            return (index == 0).then(|| GidEntry {
                gid: fabric::port_at(port).map_or_else(of_host, |port| fabric::gid_of(&port)),
                index,
                ifindex: 0,
            });
        }
        let address = self.source(index)?;
        Some(GidEntry {
            gid: gid_of(address),
            index,
            ifindex: self.info.ifindex,
        })
    }

    /// The address of an entry of an Ethernet device's GID table.
    pub fn source(&self, index: u32) -> Option<IpAddr> {
        self.with_face(|face| face.gids.get(index as usize).copied().flatten())
    }

    /// The index of an address in an Ethernet device's GID table.
    pub(crate) fn index_of(&self, address: IpAddr) -> Option<u32> {
        let place =
            self.with_face(|face| face.gids.iter().position(|known| *known == Some(address)));
        place.map(|index| index as u32)
    }

    /// Which kind of number a new queue pair takes: it says for its life which wires it may travel on. `packets_wanted`: a tool wants
    /// to see its packets, or to meddle with them.
    pub(crate) fn number_kind(
        &self,
        qp_type: QpType,
        packets_wanted: impl FnOnce() -> bool,
    ) -> BlockKind {
        if !self.is_ethernet() {
            match wanted::forced(false) || packets_wanted() {
                true => BlockKind::Packets,
                false => BlockKind::Native,
            }
        } else if qp_type == QpType::Ud || wanted::forced(true) {
            // datagrams go to this host and to others in one order
            BlockKind::Packets
        } else if matches!(qp_type, QpType::Rc | QpType::Uc) && packets_wanted() {
            BlockKind::Packets
        } else {
            BlockKind::Auto
        }
    }

    /// True if a path from this device leads to this host.
    pub(crate) fn is_local(&self, av: &AddressVector) -> bool {
        if !self.is_ethernet() {
            if fabric::host().is_some() {
                let own_lid = fabric::port_of_lid(av.dlid).is_some();
                return own_lid || av.is_global && fabric::has_gid(av.dgid);
            }
            let own = self.gid(0).is_some_and(|entry| entry.gid == av.dgid);
            return av.dlid == self.lid() || av.is_global && own;
        }
        let target = address_of(&av.dgid);
        av.is_global
            && with_interfaces(|interfaces| {
                interfaces.iter().any(|interface| {
                    // a link-local address means that of this link
                    let same_link =
                        !is_link_local(&target) || interface.ifindex == self.info.ifindex;
                    same_link && usable_addresses(interface).contains(&target)
                })
            })
    }
}

#[cfg(test)]
mod tests;
