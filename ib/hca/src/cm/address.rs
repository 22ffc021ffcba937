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

use super::events::NewsKind;
use super::id::Id;
use super::{Cm, CmAddress, EPHEMERAL, refused, route};
use crate::engine::Engine;
use crate::error::Error;
use crate::fabric;

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

    /// Finds device and address for a destination; ADDR_RESOLVED or ADDR_ERROR follows.
    ///
    /// # Errors
    /// As [`Cm::bind`] for `from`.
    pub fn resolve_addr(
        &self,
        engine: &Engine,
        id: u32,
        from: Option<CmAddress>,
        to: impl Into<CmAddress>,
    ) -> Result<(), Error> {
        let to = to.into();
        engine.open_to_fabric();
        self.with(engine, id, |_, found| {
            if found.comm.is_some() || found.listening {
                return Err(Error::Invalid("the identifier is in use"));
            }
            if let Some(from) = &from
                && found.src.is_none()
            {
                bind(engine, found, &as_asked(*from))?;
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
                    0
                }
                Err(errno) => -errno,
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
    /// `Invalid` before an address is resolved, and while the path is looked for.
    pub fn resolve_route(
        &self,
        engine: &Arc<Engine>,
        id: u32,
        patience: Duration,
    ) -> Result<(), Error> {
        let unresolved = Error::Invalid("the address is not resolved");
        let far = self.with(engine, id, |_, found| {
            let place = found.place.as_ref().filter(|_| found.dst.is_some());
            let place = place.ok_or(unresolved)?;
            if found.seeking {
                return Err(Error::Invalid("the path is looked for already"));
            }
            let far = place.is_far(found.dgid) && !found.dgid.is_multicast();
            found.seeking = far;
            if !far {
                found.way = None;
                found.routed = true;
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
            let _ = engine.cm().with(&engine, id, |_, found| {
                found.seeking = false;
                match way {
                    Ok(way) => {
                        found.way = Some(way);
                        found.routed = true;
                        found.tell(id, NewsKind::RouteResolved, 0);
                    }
                    Err(errno) => found.tell(id, NewsKind::RouteError, -errno),
                }
                Ok(())
            });
        });
        Ok(())
    }

    /// Listens.
    ///
    /// # Errors
    /// `InUse`; `Invalid` if the identifier is not bound.
    pub fn listen(&self, engine: &Engine, id: u32, backlog: u32) -> Result<(), Error> {
        // before the table is locked: joining the port takes its time
        let ethernet = crate::device::all()
            .iter()
            .any(|device| device.is_ethernet());
        if ethernet {
            // without the port the service is there for this host only
            let _ = engine.roce();
        }
        engine.open_to_fabric();
        self.with(engine, id, |machine, found| {
            let src = match found.src {
                Some(src) => src,
                None => {
                    let any = SocketAddr::from(([0, 0, 0, 0], 0));
                    bind(engine, found, &any.into())?;
                    found.src.unwrap_or(any)
                }
            };
            if found.listening {
                return Err(Error::Invalid("it listens already"));
            }
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
                match engine.registry.service_listen(claim) {
                    Ok(listening) => found.claim = Some(listening),
                    Err(error) => {
                        let _ = machine.unlisten(Engine::now(), UserId(id.into()));
                        return Err(error.into());
                    }
                }
            }
            found.listening = true;
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

/// Binds the identifier of somebody who asks without having bound: to the address from which the destination is reached.
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
    if id.src.is_some() {
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
        engine.registry.service_claim(&Service {
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
        let first = (Engine::now().0 >> 8) as u32 ^ std::process::id().wrapping_mul(2_654_435_761);
        (0..span)
            .map(|step| EPHEMERAL.start + (first.wrapping_add(step) % span) as u16)
            .find_map(|port| claim(port).ok().map(|held| (port, held)))
            .ok_or(Error::InUse("no port is free"))?
    };
    id.claim = Some(held);
    id.src = Some(with_port(at, port));
    id.native = address.service.is_some();
    id.place = place;
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
