//! Which device an address belongs to, and how one gets from here to there.
//!
//! Owns nothing. The kernel's routing table is asked by connecting a datagram socket, which sends nothing; on a host of a live fabric that fabric knows
//! its hosts' addresses, and its administration the way.

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

use ferriband_cm::{LocalEnd, Path, Route};
use ferriband_transport::types::AddressVector;
use ferriband_wire::{Gid, Lid, Sl, TimeCode};

use super::{HOP_LIMIT, PACKET_LIFE};
use crate::device::fabric::{self, Way};
use crate::device::{self, Device, gid_of};

/// What an adapter may take to acknowledge, as a code.
const ACK_DELAY: TimeCode = TimeCode(15);

/// A device and its address.
#[derive(Clone, Debug)]
pub(crate) struct Place {
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

    /// The GID of an address as seen from here: InfiniBand reaches this host only, or the other hosts of its fabric.
    pub fn towards(&self, address: IpAddr) -> Gid {
        if self.device.is_ethernet() {
            let elsewhere = address.is_loopback() && self.device.index_of(address).is_none();
            if elsewhere {
                self.gid()
            } else {
                gid_of(address)
            }
        } else if fabric::is_own(address) == Some(false) {
            fabric::gid_at(address).unwrap_or_default()
        } else {
            self.gid()
        }
    }

    /// True if a GID is that of another host of the fabric that this one is in.
    pub fn is_far(&self, gid: Gid) -> bool {
        !self.device.is_ethernet() && fabric::host().is_some() && gid != self.gid()
    }

    /// The local end of a path from here.
    pub fn end(&self) -> LocalEnd {
        LocalEnd {
            device: self.device.info.index as u16,
            guid: self.device.info.guid,
            port_num: self.device.usual_port(),
            sgid_index: self.sgid_index,
            pkey_index: 0,
            ethernet: self.device.is_ethernet(),
            max_mtu: self.device.port().mtu,
            ack_delay: ACK_DELAY,
        }
    }

    /// The path to a GID; `way` is what is known of one through a fabric.
    pub fn path(&self, dgid: Gid, traffic_class: u8, way: Option<Way>) -> Path {
        let lid = self.device.port().lid;
        Path {
            local_gid: self.gid(),
            remote_gid: dgid,
            local_lid: lid,
            remote_lid: way.map_or(lid, |way| way.lid),
            sl: way.map_or(Sl(0), |way| way.sl),
            traffic_class,
            hop_limit: if self.device.is_ethernet() {
                HOP_LIMIT
            } else {
                0
            },
            packet_life: way.map_or(PACKET_LIFE, |way| way.packet_life),
            ..Path::default()
        }
    }
}

/// The GID in an address of AF_IB.
pub(super) fn gid_at(address: &SocketAddr) -> Gid {
    gid_of(address.ip())
}

/// The link of an address that means something on one link only.
fn scope_of(address: &SocketAddr) -> Option<u32> {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() != 0 => {
            Some(v6.scope_id())
        }
        _ => None,
    }
}

/// The place of one of this host's addresses: that of the Ethernet device that has it, else the InfiniBand device; None for an
/// address that is not this host's.
pub(super) fn place_of(address: &SocketAddr) -> Option<Place> {
    let devices = device::all();
    let (ip, scope) = (address.ip(), scope_of(address));
    let on_link = |device: &&Arc<Device>| scope.is_none_or(|link| device.info.ifindex == link);
    let ethernet = devices.iter().filter(|device| device.is_ethernet());
    for device in ethernet.filter(on_link) {
        if let Some(index) = device.index_of(ip) {
            return Some(Place {
                device: device.clone(),
                sgid_index: index as u8,
            });
        }
    }
    let local = match fabric::is_own(ip) {
        Some(own) => own,
        None => ip.is_loopback() || device::is_of_host(ip, scope),
    };
    native().filter(|_| local)
}

/// The place that stands for localhost where no device has that address: as in the kernel (`cma_bind_loopback`) the first device with a link. Programs bind to
/// localhost without it, and so to every address.
pub(super) fn place_for(address: &SocketAddr) -> Option<Place> {
    place_of(address).or_else(|| {
        if !address.ip().is_loopback() || fabric::host().is_some() {
            return None;
        }
        let mut ethernet = device::all()
            .iter()
            .filter(|device| device.is_ethernet() && device.port().active);
        ethernet.find_map(|device| first_gid(device, address.is_ipv4()))
    })
}

/// The first GID of a device, of this family if there is one.
fn first_gid(device: &Arc<Device>, v4: bool) -> Option<Place> {
    let all =
        || (0..device.port().gid_table).filter_map(|index| Some((index, device.source(index)?)));
    let (index, _) = all()
        .find(|(_, ip)| ip.is_ipv4() == v4)
        .or_else(|| all().next())?;
    Some(Place {
        device: device.clone(),
        sgid_index: index as u8,
    })
}

/// The InfiniBand device, if there is one.
fn native() -> Option<Place> {
    let device = device::all().iter().find(|device| !device.is_ethernet())?;
    Some(Place {
        device: device.clone(),
        sgid_index: 0,
    })
}

/// The place of a GID of this host, if it is one.
pub(crate) fn place_of_gid(gid: &Gid, lid: Lid) -> Option<Place> {
    device::all().iter().find_map(|device| {
        let index = if device.is_ethernet() {
            device.index_of(device::address_of(gid))?
        } else {
            let named = device.gid(0).is_some_and(|entry| entry.gid == *gid);
            (named || lid.0 != 0 && device.port().lid == lid).then_some(0)?
        };
        Some(Place {
            device: device.clone(),
            sgid_index: index as u8,
        })
    })
}

/// The address from which the kernel reaches `to`, and its place. The error is an errno.
pub(super) fn resolve(
    from: Option<SocketAddr>,
    to: SocketAddr,
) -> Result<(SocketAddr, Place), i32> {
    if let Some(far) = resolve_in_fabric(from, to) {
        return far;
    }
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let group = to.ip().is_multicast();
    let source = match (
        ask_kernel(from.unwrap_or(SocketAddr::new(any, 0)), to),
        from,
    ) {
        (Ok(source), _) => source,
        // no route is needed to a group: it is where its senders are
        (Err(_), Some(from)) if group => from,
        (Err(errno), _) if group => first_address(to).ok_or(errno)?,
        (Err(errno), _) => return Err(errno),
    };
    // a destination of this host is reached from its own address, and by its own device
    let place = place_for(&source).ok_or(libc::ENODEV)?;
    let native = !place.device.is_ethernet();
    if native && !group && place_of(&to).is_none() {
        return Err(libc::ENETUNREACH);
    }
    Ok((source, place))
}

/// The same on a host of a fabric, for its hosts' addresses and for groups. None for what is neither.
fn resolve_in_fabric(
    from: Option<SocketAddr>,
    to: SocketAddr,
) -> Option<Result<(SocketAddr, Place), i32>> {
    let own = fabric::own_address()?;
    let group = to.ip().is_multicast();
    let from = from.filter(|from| !from.ip().is_unspecified());
    if !group && fabric::is_own(to.ip()).is_none() {
        return None;
    }
    // from an Ethernet device that the program was given as well there is no way into the fabric
    let place = match from {
        Some(from) => place_of(&from).filter(|place| !place.device.is_ethernet()),
        None => native(),
    };
    let own: IpAddr = match to {
        SocketAddr::V4(_) => own.into(),
        SocketAddr::V6(_) => own.to_ipv6_mapped().into(),
    };
    let source = from.unwrap_or(SocketAddr::new(own, 0));
    let known = group || fabric::gid_at(to.ip()).is_some();
    Some(match place {
        None => Err(libc::ENETUNREACH),
        Some(_) if !known => Err(libc::EHOSTUNREACH),
        Some(place) => Ok((SocketAddr::new(source.ip(), 0), place)),
    })
}

/// The source that the routing table has for a destination.
fn ask_kernel(from: SocketAddr, to: SocketAddr) -> Result<SocketAddr, i32> {
    let errno = rustix::io::Errno::raw_os_error;
    let mut from = from;
    from.set_port(0);
    let family = match from {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    // a system call of our own: the C library's `socket` may be a preload's that makes sockets over queue pairs, and asks us
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(errno)?;
    rustix::net::bind(&socket, &from).map_err(errno)?;
    let mut to = to;
    if to.port() == 0 {
        to.set_port(9);
    }
    rustix::net::connect(&socket, &to).map_err(errno)?;
    let name = rustix::net::getsockname(&socket).map_err(errno)?;
    let mut source = SocketAddr::try_from(name).map_err(errno)?;
    source.set_port(0);
    // what getsockname says of a link-local address has its link; it may be missing where none was asked for
    if let (SocketAddr::V6(known), SocketAddr::V6(asked)) = (&mut source, to)
        && known.scope_id() == 0
    {
        known.set_scope_id(asked.scope_id());
    }
    Ok(source)
}

/// An address of the family of `like` from which one can send to a group without a route: the first Ethernet device's, or this host's
/// own where the InfiniBand device is the only one.
fn first_address(like: SocketAddr) -> Option<SocketAddr> {
    let ethernet = device::all().iter().filter(|device| device.is_ethernet());
    let mut known = ethernet.flat_map(|device| {
        let scope = device.info.ifindex;
        let table = (0..device.port().gid_table).filter_map(|index| device.source(index));
        table.map(move |ip| match ip {
            IpAddr::V6(v6) => SocketAddrV6::new(v6, 0, 0, scope).into(),
            v4 => SocketAddr::new(v4, 0),
        })
    });
    let own = match like {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::LOCALHOST),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::LOCALHOST),
    };
    known
        .find(|address| address.is_ipv4() == like.is_ipv4())
        .or_else(|| native().map(|_| SocketAddr::new(own, 0)))
}

/// The same for an address of AF_IB, whose IP is a GID: the InfiniBand device reaches its own GID, Ethernet devices what IP reaches.
pub(super) fn resolve_native(
    from: Option<SocketAddr>,
    to: SocketAddr,
) -> Result<(SocketAddr, Place), i32> {
    let target = gid_at(&to);
    let bound = from.and_then(|from| place_of_gid(&gid_at(&from), Lid(0)));
    let here = |place: Place| {
        (
            SocketAddr::new(Ipv6Addr::from(place.gid().0).into(), 0),
            place,
        )
    };
    match (bound, place_of_gid(&target, Lid(0))) {
        (Some(place), other) if !place.device.is_ethernet() => match other {
            Some(other) if !other.device.is_ethernet() => Ok(here(place)),
            None if place.is_far(target) => Ok(here(place)),
            _ => Err(libc::ENETUNREACH),
        },
        (None, Some(place)) => Ok(here(place)),
        (None, None) if native().is_some_and(|place| place.is_far(target)) => {
            native().map(here).ok_or(libc::ENODEV)
        }
        (bound, _) => {
            let like = |gid: Gid, scope: u32| match device::address_of(&gid) {
                IpAddr::V6(v6) => SocketAddrV6::new(v6, 0, 0, scope).into(),
                v4 => SocketAddr::new(v4, 0),
            };
            let link = match (&bound, to) {
                (Some(place), _) => place.device.info.ifindex,
                (None, SocketAddr::V6(to)) => to.scope_id(),
                (None, SocketAddr::V4(_)) => 0,
            };
            let from = bound.as_ref().map(|place| like(place.gid(), link));
            let (_, place) = resolve(from, like(target, link))?;
            Ok(here(place))
        }
    }
}

/// The GID by which a service at an address is claimed: zeros for every address, of every family or IPv4 alone.
pub(super) fn service_gid(address: IpAddr) -> Gid {
    match address {
        IpAddr::V6(v6) if v6.is_unspecified() => Gid([0; 16]),
        other => gid_of(other),
    }
}

/// MGID and MLID of a multicast group as a device has it; None for what is no group's address. `native`: it is the MGID itself.
pub(super) fn group(device: &Device, address: IpAddr, native: bool) -> Option<(Gid, Lid)> {
    let itself = gid_of(address);
    if native || device.is_ethernet() {
        // on Ethernet the IP group's own address, IPv4 mapped into IPv6 (annex A17), and no LID
        let lid = if device.is_ethernet() {
            Lid(0)
        } else {
            multicast_lid(&itself)
        };
        return device::is_group(&itself).then_some((itself, lid));
    }
    let mapped = over_infiniband(address)?;
    Some((mapped, multicast_lid(&mapped)))
}

/// Multicast LIDs lie above the unicast ones; which one it is makes no difference on one host.
fn multicast_lid(mgid: &Gid) -> Lid {
    Lid(0xc000 | u16::from_be_bytes([mgid.0[14], mgid.0[15]]) & 0x3ffe)
}

/// The MGID of an IP multicast group in the mapping of IP over InfiniBand (RFC 4391): prefix, scope, signature, P_Key, and the
/// address's low bits.
fn over_infiniband(address: IpAddr) -> Option<Gid> {
    if !address.is_multicast() {
        return None;
    }
    let mut gid = [0; 16];
    (gid[0], gid[1]) = (0xff, 0x12);
    (gid[4], gid[5]) = (0xff, 0xff);
    match address {
        IpAddr::V4(v4) => {
            (gid[2], gid[3]) = (0x40, 0x1b);
            gid[12..].copy_from_slice(&v4.octets());
            gid[12] &= 0x0f;
        }
        IpAddr::V6(v6) => {
            (gid[2], gid[3]) = (0x60, 0x1b);
            gid[6..].copy_from_slice(&v6.octets()[6..]);
        }
    }
    Some(Gid(gid))
}

/// The route to a port of the fabric: by its LID, which is what is known of who sends, too.
pub(super) fn far(place: &Place, dgid: Gid, way: Way) -> Route {
    Route::Gsi {
        device: place.device.info.index as u16,
        sgid_index: place.sgid_index,
        av: AddressVector {
            dgid,
            dlid: way.lid,
            sl: way.sl,
            sgid_index: place.sgid_index,
            port_num: place.device.usual_port(),
            ..AddressVector::default()
        },
    }
}
