//! The path of a queue pair: how its packets look below the transport header, and what carries
//! them.
//!
//! Owns nothing but its share of a socket. Must not know: queue pairs' state.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

use ferriband_memory::host::ProcessRef;
use ferriband_memory::net::{Gone, SendError, TxOptions, TxPort};
use ferriband_transport::types::AddressVector;
use ferriband_wire::capture::{Endpoints, Ends};
use ferriband_wire::{Grh, Ipv4, ROCE_PORT, RoceHeaders, RoceIp, RunIcrc};

use super::arrived::{GSI, ICRC_BYTES};
use super::hooks::{Hooks, Outgoing};
use crate::base::error::Error;
use crate::device::counters::PortCounts;
use crate::device::{Device, address_of};
use crate::wire::native::path::HostPath;
use crate::wire::roce::ports::{FIRST_PORT, PortPool, Spread, source_port};

/// ECT(0): this sender reacts to congestion marks.
const ECT0: u8 = 2;

/// Where a queue pair's packets go, and how they look below the transport header.
#[derive(Clone, Debug)]
pub(crate) struct TxPath {
    pub(in crate::wire) carrier: Carrier,
    pub(in crate::wire) counts: PortCounts,
    pub(in crate::wire) hooks: Arc<Hooks>,
    ifindex: u32,
    local_qpn: u32,
}

/// What carries them.
#[derive(Clone, Debug)]
pub(in crate::wire) enum Carrier {
    /// UDP, by the kernel.
    Udp {
        to: SocketAddr,
        port: Arc<TxPort>,
        headers: RoceHeaders,
        lasting: bool,
    },
    /// The InfiniBand port: another process of this host.
    Host(HostPath),
}

impl TxPath {
    /// The path of an address vector.
    ///
    /// # Errors
    /// `Invalid` for an address vector without a GID or with an index of an empty entry; what
    /// binding a socket says.
    pub fn resolve(
        device: &Device,
        pool: &PortPool,
        av: &AddressVector,
        (local_qpn, remote_qpn): (u32, u32),
        spread: Spread,
    ) -> Result<Self, Error> {
        let carrier = match &pool.local {
            _ if device.is_ethernet() => {
                resolve_udp(device, pool, av, (local_qpn, remote_qpn), spread)?
            }
            local => {
                let port = local
                    .get()
                    .ok_or(Error::NotFound("the port takes no packets"))?;
                Carrier::Host(HostPath::resolve(port, device, av, remote_qpn)?)
            }
        };
        Ok(TxPath {
            carrier,
            counts: pool.counts.of(device.info.ifindex).clone(),
            hooks: pool.hooks.clone(),
            ifindex: device.info.ifindex,
            local_qpn,
        })
    }

    /// The partition key of management datagrams on this path: what stands first in the port's
    /// table, as a limited member has it.
    pub fn pkey(&self) -> u16 {
        match self.ifindex {
            0 => crate::device::fabric::pkey(crate::device::fabric::usual(), 0),
            _ => crate::base::limits::DEFAULT_PKEY,
        }
    }

    /// The path of management datagrams to another process of this host, by the InfiniBand port.
    pub fn to_process(device: &Device, pool: &PortPool, to: ProcessRef) -> Option<Self> {
        let port = pool.local.get()?;
        Some(TxPath {
            carrier: Carrier::Host(HostPath::to_process(port, device, to)),
            counts: pool.counts.of(device.info.ifindex).clone(),
            hooks: pool.hooks.clone(),
            ifindex: device.info.ifindex,
            local_qpn: GSI.0,
        })
    }

    /// The peer's address; that of the InfiniBand port is its GID.
    pub fn target(&self) -> IpAddr {
        match &self.carrier {
            Carrier::Udp { to, .. } => to.ip(),
            Carrier::Host(path) => path.target(),
        }
    }

    /// The address that its packets come from, if it is one of the kernel's.
    pub fn source(&self) -> Option<IpAddr> {
        match &self.carrier {
            Carrier::Udp { headers, .. } => Some(match &headers.ip {
                RoceIp::V4(ip) => IpAddr::V4(ip.source),
                RoceIp::V6(ip) => address_of(&ip.sgid),
            }),
            Carrier::Host(_) => None,
        }
    }

    /// Addresses or routes have changed: what was learnt of the way goes.
    #[cold]
    pub fn forget_way(&self) {
        if let Carrier::Udp { port, .. } = &self.carrier {
            port.forget_ways();
        }
    }

    /// What packets come from that the peer sends by this path: its address, on the InfiniBand port
    /// both LIDs.
    pub fn origin(&self) -> IpAddr {
        match &self.carrier {
            Carrier::Udp { to, .. } => to.ip(),
            Carrier::Host(path) => path.origin(),
        }
    }

    /// Something speaks for it that the peer does not understand what is sent.
    #[cold]
    pub fn doubt(&self) {
        if let Carrier::Udp { port, to, .. } = &self.carrier {
            port.doubt(to);
        }
    }

    /// Gives a run to the kernel, whose packets may get other identifications on the way. None if
    /// it does not take it.
    pub(in crate::wire) fn transmit_flow(
        &self,
        bytes: &mut [u8],
        segment: usize,
        icrc: &mut RunIcrc,
    ) -> Option<Gone> {
        let Carrier::Udp {
            to, port, lasting, ..
        } = &self.carrier
        else {
            return self.transmit(bytes, segment).then_some(Gone::Copied);
        };
        let mut send = || {
            port.send_flow(to, bytes, segment as u16, *lasting, |first, bytes| {
                icrc.renumber(first, segment, bytes)
            })
        };
        taken(&mut send)
    }

    /// Gives a run to the kernel as it is. False if it does not take it.
    pub fn transmit(&self, bytes: &[u8], segment: usize) -> bool {
        let (to, port) = match &self.carrier {
            Carrier::Udp { to, port, .. } => (to, port),
            Carrier::Host(path) => return path.transmit(bytes, segment),
        };
        taken(&mut || port.send(to, bytes, segment as u16)).is_some()
    }

    /// Writes the ICRC behind a packet that is the `place`-th of its run.
    pub fn seal(&self, place: usize, packet: &mut [u8], len: usize) {
        let begun = match &self.carrier {
            Carrier::Udp { headers, .. } => {
                let mut headers = *headers;
                if let RoceIp::V4(ip) = &mut headers.ip {
                    ip.identification = place as u16;
                }
                headers.icrc(len)
            }
            Carrier::Host(path) => path.headers().icrc(len),
        };
        let icrc = begun
            .expect("a packet fits a datagram")
            .finish_with(&packet[..len]);
        packet[len..len + ICRC_BYTES].copy_from_slice(&icrc.to_le_bytes());
    }
}

impl Outgoing for TxPath {
    fn transmit(&self, bytes: &[u8], segment: usize) -> bool {
        TxPath::transmit(self, bytes, segment)
    }

    fn seal(&self, place: usize, packet: &mut [u8], len: usize) {
        TxPath::seal(self, place, packet, len);
    }

    fn target(&self) -> IpAddr {
        TxPath::target(self)
    }

    fn ifindex(&self) -> u32 {
        self.ifindex
    }

    fn local_qpn(&self) -> u32 {
        self.local_qpn
    }

    fn ends(&self, identification: Option<u16>) -> Ends {
        let headers = match &self.carrier {
            Carrier::Udp { headers, .. } => headers,
            Carrier::Host(path) => return Ends::Native(*path.headers()),
        };
        let (source, hop_limit) = match &headers.ip {
            RoceIp::V4(ip) => (IpAddr::V4(ip.source), ip.ttl),
            RoceIp::V6(ip) => (IpAddr::V6(ip.sgid.0.into()), ip.hop_limit),
        };
        Ends::Roce(Endpoints {
            source,
            destination: TxPath::target(self),
            source_port: headers.source_port,
            traffic_class: headers.ip.traffic_class(),
            hop_limit,
            identification,
        })
    }

    fn boxed(&self) -> Box<dyn Outgoing> {
        Box::new(self.clone())
    }
}

/// What carries the packets of an address vector over Ethernet.
fn resolve_udp(
    device: &Device,
    pool: &PortPool,
    av: &AddressVector,
    (local_qpn, remote_qpn): (u32, u32),
    spread: Spread,
) -> Result<Carrier, Error> {
    if !av.is_global {
        return Err(Error::Invalid("a path over Ethernet needs a GID"));
    }
    let source = device
        .source(av.sgid_index.into())
        .ok_or(Error::Invalid("the entry of the GID table is empty"))?;
    let target = address_of(&av.dgid);
    if source.is_ipv4() != target.is_ipv4() {
        return Err(Error::Invalid("the GIDs are of different address families"));
    }
    let hop_limit = if av.hop_limit == 0 { 64 } else { av.hop_limit };
    let mut wanted = source_port(av.flow_label, local_qpn, remote_qpn);
    if av.flow_label & 0xf_ffff == 0 {
        // few sockets: the flows that nobody named share sixteen ports, which other processes
        // hardly want
        wanted = FIRST_PORT | (std::process::id() << 4) as u16 | wanted & 0xf;
    }
    let class = match (av.traffic_class, device.info.settings.dscp) {
        (0, Some(dscp)) => dscp << 2,
        (class, _) => class,
    };
    let to = match target {
        IpAddr::V6(v6) if v6.is_unicast_link_local() || v6.is_multicast() => {
            SocketAddrV6::new(v6, ROCE_PORT, 0, device.info.ifindex).into()
        }
        other => SocketAddr::new(other, ROCE_PORT),
    };
    let how = TxOptions {
        source,
        ifindex: device.info.ifindex,
        port: wanted,
        tos: class & !3 | ECT0,
        hop_limit,
        frames: device.info.settings.frames.unwrap_or(true),
    };
    let port = pool.get(&how, &to, spread)?;
    let plain = match (source, target) {
        (IpAddr::V4(from), IpAddr::V4(to)) => RoceIp::v4(from, to, 0),
        (IpAddr::V6(from), IpAddr::V6(to)) => RoceIp::v6(from, to),
        _ => return Err(Error::Invalid("the GIDs are of different address families")),
    };
    // what a capture shows; the ICRC covers neither
    let ip = match plain.with_traffic_class(class & !3 | ECT0) {
        RoceIp::V4(ip) => RoceIp::V4(Ipv4 {
            ttl: hop_limit,
            ..ip
        }),
        RoceIp::V6(ip) => RoceIp::V6(Grh { hop_limit, ..ip }),
    };
    let headers = RoceHeaders {
        ip,
        source_port: port.port(),
    };
    Ok(Carrier::Udp {
        to,
        port,
        headers,
        lasting: spread == Spread::Reliable,
    })
}

/// What came of it, if the kernel took it.
fn taken<T>(send: &mut dyn FnMut() -> Result<T, SendError>) -> Option<T> {
    match send() {
        Ok(gone) => Some(gone),
        Err(SendError::Again) => None,
        // an ICMP message of earlier packets is told once and costs the packet that hears of it:
        // again, once
        Err(_) => send().ok(),
    }
}
