//! Which device an address belongs to, and how one gets from here to there.
//!
//! Owns nothing. The kernel's routing table is asked by connecting a datagram socket, which sends nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use ferriband_cm::{LocalEnd, Path};
use ferriband_memory::net;
use ferriband_wire::{Gid, Lid, TimeCode};

use super::{HOP_LIMIT, PACKET_LIFE};
use crate::device::{self, Device, gid_of};

/// What an adapter may take to acknowledge, as a code.
const ACK_DELAY: TimeCode = TimeCode(15);

/// A device and its address.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub device: Arc<Device>,
    pub sgid_index: u8,
}

impl Place {
    /// The GID here.
    pub fn gid(&self) -> Gid {
        self.device
            .gid(self.sgid_index.into())
            .map_or(Gid::default(), |entry| entry.gid)
    }

    /// The GID of an address as seen from here: InfiniBand reaches this host only.
    pub fn towards(&self, address: IpAddr) -> Gid {
        if self.device.is_ethernet() {
            gid_of(address)
        } else {
            self.gid()
        }
    }

    /// The local end of a path from here.
    pub fn end(&self) -> LocalEnd {
        LocalEnd {
            device: self.device.info.index as u16,
            guid: self.device.info.guid,
            port_num: 1,
            sgid_index: self.sgid_index,
            pkey_index: 0,
            ethernet: self.device.is_ethernet(),
            max_mtu: self.device.port().mtu,
            ack_delay: ACK_DELAY,
        }
    }

    /// The path to a GID.
    pub fn path(&self, dgid: Gid, traffic_class: u8) -> Path {
        let lid = self.device.port().lid;
        Path {
            local_gid: self.gid(),
            remote_gid: dgid,
            local_lid: lid,
            remote_lid: lid,
            traffic_class,
            hop_limit: if self.device.is_ethernet() {
                HOP_LIMIT
            } else {
                0
            },
            packet_life: PACKET_LIFE,
            ..Path::default()
        }
    }
}

/// The place of one of this host's addresses: that of the Ethernet device that has it, else the InfiniBand device; None for an
/// address that is not this host's.
pub(super) fn place_of(address: IpAddr) -> Option<Place> {
    let devices = device::all();
    let ethernet = devices.iter().filter(|device| device.is_ethernet());
    for device in ethernet {
        let table = device.port().gid_table;
        let index = (0..table).find(|index| device.source(*index) == Some(address));
        if let Some(index) = index {
            return Some(Place {
                device: device.clone(),
                sgid_index: index as u8,
            });
        }
    }
    let local = address.is_loopback()
        || net::netdevs()
            .unwrap_or_default()
            .iter()
            .flat_map(|interface| &interface.addresses)
            .any(|known| known.ip == address);
    let native = devices.iter().find(|device| !device.is_ethernet())?;
    local.then(|| Place {
        device: native.clone(),
        sgid_index: 0,
    })
}

/// The place of a GID of this host, if it is one.
pub(super) fn place_of_gid(gid: &Gid, lid: Lid) -> Option<Place> {
    device::all().iter().find_map(|device| {
        let table = device.port().gid_table;
        let index = (0..table)
            .find(|index| device.gid(*index).is_some_and(|entry| entry.gid == *gid))
            .or_else(|| {
                (!device.is_ethernet() && lid.0 != 0 && device.port().lid == lid).then_some(0)
            })?;
        Some(Place {
            device: device.clone(),
            sgid_index: index as u8,
        })
    })
}

/// The address from which the kernel reaches `to`, and its place. The error is an errno.
pub(super) fn resolve(from: Option<IpAddr>, to: SocketAddr) -> Result<(IpAddr, Place), i32> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let bound = from.filter(|from| !from.is_unspecified()).unwrap_or(any);
    let errno = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::ENETUNREACH);
    let socket = UdpSocket::bind(SocketAddr::new(bound, 0)).map_err(errno)?;
    let port = if to.port() == 0 { 9 } else { to.port() };
    socket
        .connect(SocketAddr::new(to.ip(), port))
        .map_err(errno)?;
    let source = socket.local_addr().map_err(errno)?.ip();
    // a destination of this host is reached from its own address, and by its own device
    let place = place_of(source).ok_or(libc::ENODEV)?;
    let native = !place.device.is_ethernet();
    if native && place_of(to.ip()).is_none() {
        return Err(libc::ENETUNREACH);
    }
    Ok((source, place))
}

/// The GID by which a service at an address is claimed: zeros for every address, of every family or IPv4 alone.
pub(super) fn service_gid(address: IpAddr) -> Gid {
    match address {
        IpAddr::V6(v6) if v6.is_unspecified() => Gid([0; 16]),
        other => gid_of(other),
    }
}

/// MGID and MLID of an IP multicast group on InfiniBand (the mapping of IP over InfiniBand, RFC 4391): prefix, scope, signature, P_Key,
/// and the address's low bits.
pub(super) fn group(address: IpAddr) -> Option<(Gid, Lid)> {
    if !address.is_multicast() {
        return None;
    }
    let mut gid = [0; 16];
    (gid[0], gid[1]) = (0xff, 0x12);
    (gid[4], gid[5]) = (0xff, 0xff);
    let low = match address {
        IpAddr::V4(v4) => {
            (gid[2], gid[3]) = (0x40, 0x1b);
            gid[12..].copy_from_slice(&v4.octets());
            gid[12] &= 0x0f;
            u16::from_be_bytes([gid[14], gid[15]])
        }
        IpAddr::V6(v6) => {
            (gid[2], gid[3]) = (0x60, 0x1b);
            gid[6..].copy_from_slice(&v6.octets()[6..]);
            u16::from_be_bytes([gid[14], gid[15]])
        }
    };
    // multicast LIDs lie above the unicast ones; which one it is makes no difference on one host
    Some((Gid(gid), Lid(0xc000 | low & 0x3ffe)))
}
