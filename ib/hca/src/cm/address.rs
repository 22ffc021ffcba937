//! Addresses of identifiers: bound, resolved, listened on.
//!
//! Owns the claim of a port in the host's registry. Which device an address belongs to is [`route`]'s matter.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ferriband_cm::{ListenParams, UserId};
use ferriband_memory::host::{SERVICE_LISTENS, SERVICE_ONE_FAMILY, Service};
use ferriband_wire::cm::PortSpace;
use ferriband_wire::{Lid, ServiceId};

use super::id::{Id, Stage};
use super::news::NewsKind;
use super::post::open_to_fabric;
use super::{Cm, CmAddress, EPHEMERAL, refused, route};
use crate::base::error::Error;
use crate::device::fabric;
use crate::progress::Engine;

/// The bits of a service ID that name a port space (`RDMA_IB_IP_PS_MASK`).
const SPACE_BITS: u64 = 0xffff_ffff_ffff_0000;

impl Cm {
    /// Binds to an address; port 0 chooses one.
    ///
    /// # Errors
    /// `InUse`, `Address` if it is not one of this host's, `Invalid` if the identifier is bound, `Service` for one of AF_IB that no
    /// port space of the identifier has.
    pub fn bind(
        &self,
        engine: &Engine,
        id: u32,
        address: impl Into<CmAddress>,
    ) -> Result<(), Error> {
        let address = as_asked(address.into());
        self.with(engine, id, |_, id| bind(engine, id, &address))
    }

    /// Finds device and address for a destination; ADDR_RESOLVED or ADDR_ERROR follows. After the latter another may be tried, from the
    /// same address here.
    ///
    /// # Errors
    /// As [`Cm::bind`] for `from`; `Invalid` once an address is resolved, and for one of another family than the identifier's own.
    pub fn resolve_addr(
        &self,
        engine: &Engine,
        id: u32,
        from: Option<CmAddress>,
        to: impl Into<CmAddress>,
    ) -> Result<(), Error> {
        let mut to = to.into();
        if to.service.is_none() && to.at.ip().is_unspecified() {
            // as in the kernel no address is this host's
            to.at.set_ip(match to.at {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        open_to_fabric(engine);
        self.with(engine, id, |_, found| {
            if !matches!(found.stage, Stage::Idle | Stage::Bound) {
                return Err(Error::Invalid(
                    "the identifier has an address to go to, or listens",
                ));
            }
            if let Some(from) = &from
                && found.src.is_none()
            {
                bind(engine, found, &as_asked(*from))?;
            }
            if let Some(src) = found.src {
                check_family((&src, found.native), &to)?;
            }
            let bound = found.src.filter(|src| !src.ip().is_unspecified());
            let resolved = match to.service {
                Some(_) => route::resolve_native(bound, to.at),
                None => route::resolve(bound, to.at),
            };
            let status = match resolved {
                Ok((source, place)) => {
                    found.dgid = match to.service {
                        Some(_) => route::gid_at(&to.at),
                        None => place.towards(to.at.ip()),
                    };
                    found.dst = Some(to.at);
                    match found.src {
                        Some(src) if !src.ip().is_unspecified() => {}
                        Some(src) => found.src = Some(with_port(source, src.port())),
                        None => bind_unnamed(engine, found, source, &to)?,
                    }
                    // localhost is no device's to bind to, but one stands for it
                    found.place = Some(place);
                    found.stage = Stage::AddressResolved;
                    0
                }
                Err(errno) => {
                    if found.src.is_none() {
                        bind_unnamed(engine, found, any_like(&to.at), &to)?;
                    }
                    -errno
                }
            };
            let kind = match status {
                0 => NewsKind::AddrResolved,
                _ => NewsKind::AddrError,
            };
            found.tell(id, kind, status);
            Ok(())
        })
    }

    /// Finds the path; ROUTE_RESOLVED follows, or ROUTE_ERROR. On a host of a fabric its administration is asked, and asked again while it has no way, for as long as `patience`.
    ///
    /// # Errors
    /// `Invalid` unless an address was resolved and nothing was asked for since; after ROUTE_ERROR it may be tried again.
    pub fn resolve_route(
        &self,
        engine: &Arc<Engine>,
        id: u32,
        patience: Duration,
    ) -> Result<(), Error> {
        let unresolved = Error::Invalid("no address is resolved, or a path was asked for already");
        let far = self.with(engine, id, |_, found| {
            let (Some(place), Stage::AddressResolved) = (&found.place, found.stage) else {
                return Err(unresolved);
            };
            let far = place.is_far(found.dgid) && !found.dgid.is_multicast();
            found.stage = Stage::SeeksRoute;
            if !far {
                found.way = None;
                found.stage = Stage::RouteResolved;
                found.tell(id, NewsKind::RouteResolved, 0);
            }
            Ok(far.then_some(found.dgid))
        })?;
        let Some(dgid) = far else { return Ok(()) };
        // the administration may take its time: neither the lock nor the caller waits
        let engine = Arc::downgrade(engine);
        fabric::seek_way(dgid, patience, move |way| {
            let Some(engine) = engine.upgrade() else {
                return;
            };
            // who has been destroyed meanwhile is told nothing
            let _ = Cm::of(&engine).with(&engine, id, |_, found| {
                if found.stage != Stage::SeeksRoute {
                    return Ok(());
                }
                match way {
                    Ok(way) => {
                        found.way = Some(way);
                        found.stage = Stage::RouteResolved;
                        found.tell(id, NewsKind::RouteResolved, 0);
                    }
                    Err(errno) => {
                        found.stage = Stage::AddressResolved;
                        found.tell(id, NewsKind::RouteError, -errno);
                    }
                }
                Ok(())
            });
        });
        Ok(())
    }

    /// Listens.
    ///
    /// # Errors
    /// `InUse`; `Invalid` if the identifier listens already or goes somewhere.
    pub fn listen(&self, engine: &Engine, id: u32, backlog: u32) -> Result<(), Error> {
        // before the table is locked: joining the port takes its time
        let ethernet = crate::device::all()
            .iter()
            .any(|device| device.is_ethernet());
        if ethernet {
            // without the port the service is there for this host only
            let _ = engine.roce();
        }
        open_to_fabric(engine);
        self.with(engine, id, |machine, found| {
            let any = SocketAddr::from(([0, 0, 0, 0], 0));
            match found.stage {
                Stage::Idle => bind(engine, found, &any.into())?,
                Stage::Bound => {}
                _ => {
                    return Err(Error::Invalid(
                        "the identifier listens already, or goes somewhere",
                    ));
                }
            }
            let src = found.src.unwrap_or(any);
            let any = src.ip().is_unspecified();
            // the kernel's rule: all of IPv4 is no IPv6, and all of IPv6 is IPv4 too unless the program says otherwise
            let every_family = any && src.is_ipv6() && found.flags & SERVICE_ONE_FAMILY == 0;
            machine
                .listen(&ListenParams {
                    user: UserId(id.into()),
                    service_id: found.service(src.port()),
                    mask: u64::MAX,
                    gid: (found.native && !any).then(|| route::gid_at(&src)),
                    ip: (!found.native && !every_family).then_some(src.ip()),
                    backlog,
                })
                .map_err(refused)?;
            if let Some(claim) = found.claim {
                match engine.process.registry.service_listen(claim) {
                    Ok(listening) => found.claim = Some(listening),
                    Err(error) => {
                        let _ = machine.unlisten(ferriband_memory::wait::now(), UserId(id.into()));
                        return Err(error.into());
                    }
                }
            }
            found.stage = Stage::Listening;
            Ok(())
        })?;
        engine.services_changed();
        Ok(())
    }
}

/// What a program that binds to an address means. On a host of a fabric localhost is every address, as in the kernel (`cma_any_addr`): no device has it, and who
/// listens there is reached by the host's own.
fn as_asked(mut address: CmAddress) -> CmAddress {
    let is_elsewhere = address.service.is_some() || fabric::own_address().is_none();
    if is_elsewhere || fabric::is_own(address.at.ip()).is_some() {
        return address;
    }
    match address.at.ip().to_canonical() {
        IpAddr::V4(v4) if v4.is_loopback() => address.at.set_ip(Ipv4Addr::UNSPECIFIED.into()),
        IpAddr::V6(v6) if v6.is_loopback() => address.at.set_ip(Ipv6Addr::UNSPECIFIED.into()),
        _ => {}
    }
    address
}

/// Every address of the family of another.
fn any_like(other: &SocketAddr) -> SocketAddr {
    match other {
        SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
    }
}

/// An identifier has one family: that of its address here.
fn check_family(own: (&SocketAddr, bool), to: &CmAddress) -> Result<(), Error> {
    let (src, native) = own;
    if native == to.service.is_some() && src.is_ipv4() == to.at.is_ipv4() {
        Ok(())
    } else {
        Err(Error::Invalid(
            "the address is of another family than the identifier's own",
        ))
    }
}

/// Binds the identifier of somebody who asks without having bound: to the address from which the destination is reached, or to every one if it is not.
fn bind_unnamed(
    engine: &Engine,
    id: &mut Id,
    source: SocketAddr,
    to: &CmAddress,
) -> Result<(), Error> {
    let address = CmAddress {
        at: with_port(source, 0),
        // the destination's port space is the connection's
        service: to
            .service
            .map(|(service, mask)| (service & SPACE_BITS, mask & SPACE_BITS)),
    };
    bind(engine, id, &address)
}

fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

/// Binds an identifier: claims the port, finds the device.
fn bind(engine: &Engine, id: &mut Id, address: &CmAddress) -> Result<(), Error> {
    if id.stage != Stage::Idle {
        return Err(Error::Invalid("the identifier is bound"));
    }
    let at = address.at;
    let foreign = Error::Address("the address is none of this host's");
    let place = match address.service {
        _ if at.ip().is_unspecified() => None,
        Some(_) => Some(route::place_of_gid(&route::gid_at(&at), Lid(0)).ok_or(foreign)?),
        None => match route::place_of(&at) {
            // As in the kernel a loopback address that no device has means every address: libfabric binds to it to see whether it can.
            None if !at.ip().is_loopback() => return Err(foreign),
            place => place,
        },
    };
    let service_gid = match address.service {
        Some((service, mask)) => {
            id.space = native_space(id.space, service, mask)?;
            route::gid_at(&at)
        }
        None => route::service_gid(at.ip()),
    };
    let claim = |port: u16| {
        engine.process.registry.service_claim(&Service {
            id: ServiceId::from_port(id.space, port).0,
            gid: service_gid,
            flags: id.flags & !SERVICE_LISTENS,
            word: 0,
        })
    };
    let (port, held) = if at.port() != 0 {
        (at.port(), claim(at.port())?)
    } else {
        // others look for one at the same time: each begins elsewhere
        let span = u32::from(EPHEMERAL.end - EPHEMERAL.start);
        let first = (ferriband_memory::wait::now().0 >> 8) as u32
            ^ std::process::id().wrapping_mul(2_654_435_761);
        (0..span)
            .map(|step| EPHEMERAL.start + (first.wrapping_add(step) % span) as u16)
            .find_map(|port| claim(port).ok().map(|held| (port, held)))
            .ok_or(Error::InUse("no port is free"))?
    };
    id.claim = Some(held);
    id.src = Some(with_port(at, port));
    id.native = address.service.is_some();
    id.place = place;
    id.stage = Stage::Bound;
    Ok(())
}

/// The port space that a service of AF_IB lies in, of those that an identifier may have: its own, and as Linux has it, that of
/// InfiniBand may be any.
fn native_space(own: PortSpace, service: u64, mask: u64) -> Result<PortSpace, Error> {
    let mask = mask & SPACE_BITS;
    [PortSpace::Ib, PortSpace::Tcp, PortSpace::Udp]
        .into_iter()
        .filter(|space| own == *space || own == PortSpace::Ib)
        .find(|space| ServiceId::from_port(*space, 0).0 & mask == service & mask)
        .ok_or(Error::Unsupported("the service is of no port space"))
}
