//! The network interfaces of the calling thread's network namespace, and notice of their changes.
//!
//! Owns: what of rtnetlink's answers is read. Must not know: which interface becomes a device, and what its
//! addresses mean to it.

use super::netlink::{
    Attributes, Messages, Questions, READS, dump, half, push_attribute, socket, word,
};
use super::{guarded, system};
use crate::Error;
use crate::host::ForkFd;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SocketFlags};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

/// One address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetAddress {
    /// The address.
    pub ip: IpAddr,
    /// Bits of its network's prefix.
    pub prefix: u8,
    /// How far it is known, as linux/rtnetlink.h counts: 0 everywhere, 253 on the link (fe80::/10), 254 on this host.
    pub scope: u8,
    /// It may be bound and used: not tentative, not a duplicate of somebody's.
    pub usable: bool,
}

/// One interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Netdev {
    /// Its number in this namespace, never 0.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address; None if it has none of six bytes that are not all zero.
    pub mac: Option<[u8; 6]>,
    /// Longest IP packet in bytes.
    pub mtu: u32,
    /// Switched on by its administrator (IFF_UP).
    pub up: bool,
    /// It has a carrier (IFF_LOWER_UP).
    pub carrier: bool,
    /// It is the loopback interface.
    pub loopback: bool,
    /// Megabits per second, if the driver says.
    pub speed_mbps: Option<u32>,
    /// Its addresses, in the kernel's order.
    pub addresses: Vec<NetAddress>,
}

/// All interfaces by number, with their addresses.
///
/// # Errors
/// `System` if the kernel offers no rtnetlink (a sandbox may forbid it) or is out of memory.
pub fn netdevs() -> Result<Vec<Netdev>, Error> {
    let mut last = system("rtnetlink", libc::EINTR);
    for _ in 0..ATTEMPTS {
        match snapshot() {
            // Something changed while the kernel listed it.
            Err(Error::System {
                errno: libc::EINTR, ..
            }) => last = system("rtnetlink", libc::EBUSY),
            done => return done,
        }
    }
    Err(last)
}

/// A descriptor that becomes readable when interfaces, addresses or routes change. A forked child
/// has none.
#[derive(Debug)]
pub struct NetWatch(ForkFd);

/// Which interfaces have changed, or their addresses; and whether routes have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NetChanges {
    /// More happened than the kernel could keep: it may be any.
    all: bool,
    of: BTreeSet<u32>,
    routes: bool,
}

impl NetChanges {
    /// False if nothing has changed.
    pub fn any(&self) -> bool {
        self.all || self.routes || !self.of.is_empty()
    }

    /// True if some way may lead elsewhere.
    pub fn has_routes(&self) -> bool {
        self.all || self.routes
    }

    /// True if the interface of this number may have changed.
    pub fn has(&self, ifindex: u32) -> bool {
        self.all || self.of.contains(&ifindex)
    }

    /// Reads a datagram of the kernel's. Messages of links and of addresses both have the
    /// interface's number in their second word.
    fn read(&mut self, bytes: &[u8]) {
        for message in Messages(bytes) {
            match (message.kind, word(message.body, 4)) {
                (RTM_NEWROUTE | RTM_DELROUTE, _) => self.routes = true,
                (_, Some(ifindex)) => _ = self.of.insert(ifindex),
                (_, None) => self.all = true,
            }
        }
    }
}

impl NetWatch {
    /// Watches the calling thread's network namespace from now on.
    ///
    /// # Errors
    /// As [`netdevs`].
    pub fn open() -> Result<NetWatch, Error> {
        guarded(|| {
            let fd = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
            // The kernel chooses the address; a socket without one would get no notices.
            rustix::net::bind(&fd, &SocketAddrNetlink::new(0, GROUPS))
                .map_err(|e| system("bind of rtnetlink", e.raw_os_error()))?;
            Ok(fd)
        })
        .map(NetWatch)
    }

    /// What has changed since the last call: [`netdevs`] says how it is now. Never waits.
    pub fn changes(&self) -> NetChanges {
        let mut bytes = [0; 8192];
        let mut changes = NetChanges::default();
        let Ok(fd) = self.0.get() else {
            return changes;
        };
        for _ in 0..READS {
            match rustix::net::recv(fd, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((length, _)) => changes.read(bytes.get(..length).unwrap_or(&bytes)),
                Err(Errno::INTR) => {}
                // More happened than the kernel could keep.
                Err(Errno::NOBUFS) => changes.all = true,
                Err(_) => break,
            }
        }
        changes
    }
}

impl AsFd for NetWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_or_closed()
    }
}

/// Listings that are begun again because something changed meanwhile.
const ATTEMPTS: usize = 8;

// linux/rtnetlink.h.
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
/// RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_IFADDR, RTMGRP_IPV6_ROUTE.
const GROUPS: u32 = 0x001 | 0x010 | 0x040 | 0x100 | 0x400;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_QDISC: u16 = 6;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_EXT_MASK: u16 = 29;
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_TENTATIVE: u32 = 0x40;
/// Usable although tentative: the kernel lets it be bound.
const IFA_F_OPTIMISTIC: u32 = 0x04;
const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 8;
const IFF_LOWER_UP: u32 = 1 << 16;

fn snapshot() -> Result<Vec<Netdev>, Error> {
    let mut devices = Vec::new();
    dump(RTM_GETLINK, |kind, body| {
        if kind == RTM_NEWLINK {
            devices.extend(read_link(body));
        }
    })?;
    dump(RTM_GETADDR, |kind, body| {
        if kind == RTM_NEWADDR
            && let Some((ifindex, address)) = read_address(body)
            && let Some(device) = devices
                .iter_mut()
                .find(|d: &&mut Netdev| d.ifindex == ifindex)
        {
            device.addresses.push(address);
        }
    })?;
    devices.sort_by_key(|d| d.ifindex);
    for device in &mut devices {
        device.speed_mbps = speed_of(device);
    }
    Ok(devices)
}

/// The longest IP packet, in bytes, of an interface that is an end of a veth and hands on at once what it gets: none lies in a queue, so what goes by two sockets
/// keeps its order, and on to the other end. None if it is anything else, or down.
pub(super) fn mtu_if_direct(kernel: &Questions, ifindex: u32) -> Option<u32> {
    let mut body = vec![0u8; 16];
    body[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    let mask = RTEXT_FILTER_SKIP_STATS.to_ne_bytes();
    push_attribute(&mut body, IFLA_EXT_MASK, &mask);
    kernel.ask((RTM_GETLINK, RTM_NEWLINK), &body, read_direct)
}

fn read_direct(body: &[u8]) -> Option<u32> {
    let (kind, flags) = (half(body, 2)?, word(body, 8)?);
    let (mut mtu, mut direct, mut veth) = (None, false, false);
    for (kind, value) in Attributes(body.get(16..)?) {
        let text = |value: &[u8], wanted: &[u8]| value.split(|&b| b == 0).next() == Some(wanted);
        match kind {
            IFLA_MTU => mtu = word(value, 0),
            IFLA_QDISC => direct = text(value, b"noqueue"),
            IFLA_LINKINFO => {
                veth = Attributes(value)
                    .any(|(kind, value)| kind == IFLA_INFO_KIND && text(value, b"veth"));
            }
            _ => {}
        }
    }
    let up = flags & (IFF_UP | IFF_LOWER_UP) == IFF_UP | IFF_LOWER_UP;
    mtu.filter(|_| kind == libc::ARPHRD_ETHER && up && direct && veth)
}

/// struct ifinfomsg: family, padding, type, number, flags, change mask; then attributes.
fn read_link(body: &[u8]) -> Option<Netdev> {
    let (ifindex, flags) = (word(body, 4)?, word(body, 8)?);
    let mut device = Netdev {
        ifindex,
        name: String::new(),
        mac: None,
        mtu: 0,
        up: flags & IFF_UP != 0,
        carrier: flags & IFF_LOWER_UP != 0,
        loopback: flags & IFF_LOOPBACK != 0,
        speed_mbps: None,
        addresses: Vec::new(),
    };
    for (kind, value) in Attributes(body.get(16..)?) {
        match kind {
            IFLA_ADDRESS => device.mac = value.try_into().ok().filter(|mac| *mac != [0; 6]),
            IFLA_IFNAME => {
                let name = value.split(|&b| b == 0).next().unwrap_or(value);
                device.name = String::from_utf8_lossy(name).into_owned();
            }
            IFLA_MTU => device.mtu = word(value, 0)?,
            _ => {}
        }
    }
    (ifindex != 0 && !device.name.is_empty()).then_some(device)
}

/// struct ifaddrmsg: family, prefix, flags, scope (a byte each), number; then attributes.
fn read_address(body: &[u8]) -> Option<(u32, NetAddress)> {
    let &[family, prefix, flags, scope] = body.get(..4)? else {
        return None;
    };
    let ifindex = word(body, 4)?;
    let mut flags = u32::from(flags);
    // IFA_ADDRESS of a point-to-point interface is the other end's; IFA_LOCAL, where it is given, is ours.
    let (mut address, mut local) = (None, None);
    for (kind, value) in Attributes(body.get(8..)?) {
        match kind {
            IFA_ADDRESS => address = Some(value),
            IFA_LOCAL => local = Some(value),
            IFA_FLAGS => flags = word(value, 0)?,
            _ => {}
        }
    }
    let value = local.or(address)?;
    let ip = match i32::from(family) {
        libc::AF_INET => Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?).into(),
        _ => return None,
    };
    let tentative = flags & IFA_F_TENTATIVE != 0 && flags & IFA_F_OPTIMISTIC == 0;
    let usable = !tentative && flags & IFA_F_DADFAILED == 0;
    Some((
        ifindex,
        NetAddress {
            ip,
            prefix,
            scope,
            usable,
        },
    ))
}

/// What /sys says, if the /sys that is mounted shows this namespace: the number behind the name tells.
fn speed_of(device: &Netdev) -> Option<u32> {
    if device.name.contains('/') {
        return None;
    }
    let read = |what: &str| {
        let path = format!("/sys/class/net/{}/{what}", device.name);
        std::fs::read_to_string(path)
            .ok()?
            .trim()
            .parse::<i64>()
            .ok()
    };
    if read("ifindex")? != i64::from(device.ifindex) || read("mtu")? != i64::from(device.mtu) {
        return None;
    }
    // -1 where the driver does not know.
    read("speed")
        .and_then(|speed| u32::try_from(speed).ok())
        .filter(|&speed| speed != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_answers_are_read_without_panic() {
        let mut seed = 7u64;
        let mut roll = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u32
        };
        for _ in 0..20_000 {
            let length = roll() as usize % 96;
            let mut bytes: Vec<u8> = (0..length)
                .map(|_| (roll() % 7 * (roll() % 40)) as u8)
                .collect();
            if length > 1 && roll() % 2 == 0 {
                bytes[..2].copy_from_slice(&(length as u16).to_ne_bytes());
            }
            let _ = read_link(&bytes);
            let _ = read_address(&bytes);
            let _ = read_direct(&bytes);
            NetChanges::default().read(&bytes);
            let mut count = 0;
            for message in Messages(&bytes) {
                count += 1;
                let _ = Attributes(message.body).count();
            }
            assert!(count <= length / 16 + 1);
        }
    }
}
