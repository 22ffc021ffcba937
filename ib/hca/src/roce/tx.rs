//! Sending: the path of a queue pair as headers and a socket, and packets gathered into runs that the kernel cuts apart.
//!
//! Owns the source ports and the buffer of a run. Must not know: queue pairs' state. All packets of a run are of one size but the last,
//! which may be shorter (UDP_SEGMENT); the IPv4 identification, which the ICRC covers, counts up within a run, from 0 or from where the socket says. Runs of the
//! InfiniBand port are the same, but go to another process as they are.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::{Arc, Mutex, OnceLock};

use ferriband_admin::Counter;
use ferriband_memory::Room;
use ferriband_memory::host::ProcessRef;
use ferriband_memory::net::{Gone, SendError, TxOptions, TxPort};
use ferriband_transport::types::AddressVector;
use ferriband_wire::{Grh, Ipv4, ROCE_PORT, RoceHeaders, RoceIp, RunIcrc};

use super::GSI;
use super::hooks::Hooks;
use super::local::{HostPath, LocalPort};
use crate::base::error::Error;
use crate::device::counters::{AllCounts, PortCounts};
use crate::device::{Device, address_of};
use crate::lock;

mod report;

/// Bytes of a run, at the most: what one UDP datagram could hold.
const RUN_BYTES: usize = 65_000;
/// Packets of a run (the kernel's UDP_MAX_SEGMENTS is 64 in older kernels).
const RUN_PACKETS: usize = 64;
/// Room that must be left for a packet before it is made: the largest with its ICRC.
const PACKET_ROOM: usize = ferriband_transport::MAX_PACKET_BYTES + ICRC_BYTES;
pub(super) const ICRC_BYTES: usize = 4;
/// Ports of a process, each a socket; beyond it flows share.
const MOST_PORTS: usize = 64;
/// Those of them that have one destination.
const MOST_FOR_ONE: usize = 32;
/// Source ports lie above this (annex A17 and the kernel: flow label to port).
const FIRST_PORT: u16 = 0xC000;
/// Ports that are tried when one is taken, and how far apart: programs tend to take neighbours.
const NEAR_PORTS: u16 = 8;
const PORT_STRIDE: u16 = 1009;
/// ECT(0): this sender reacts to congestion marks.
const ECT0: u8 = 2;

/// What tells sending sockets apart: source address, interface, port, traffic class, hop limit, and the destination of those that have one.
type PortKey = (IpAddr, u32, u16, u8, u8, Option<SocketAddr>);

/// How the packets of a path are spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spread {
    /// A reliable connection's: all to one place, for long, and if the peer does not understand them, that is seen.
    Reliable,
    /// An unreliable connection's: all to one place.
    One,
    /// Datagrams to many.
    Many,
}

/// The sockets that send, and what stands in the way of packets.
#[derive(Debug)]
pub(crate) struct PortPool {
    ports: Mutex<BTreeMap<PortKey, Arc<TxPort>>>,
    /// The InfiniBand port's, once a queue pair of it takes packets.
    pub local: OnceLock<Arc<LocalPort>>,
    /// What goes and comes is counted here.
    pub counts: AllCounts,
    hooks: Arc<Hooks>,
}

impl PortPool {
    pub fn new(counts: AllCounts, hooks: Arc<Hooks>) -> Self {
        PortPool {
            ports: Mutex::default(),
            local: OnceLock::new(),
            counts,
            hooks,
        }
    }

    fn get(&self, how: &TxOptions, to: &SocketAddr, spread: Spread) -> Result<Arc<TxPort>, Error> {
        let mut ports = lock(&self.ports);
        let key = |to| {
            (
                how.source,
                how.ifindex,
                how.port,
                how.tos,
                how.hop_limit,
                to,
            )
        };
        // for IPv4 the socket that sends most to one place keeps the way: see TxPort::send_flow
        if spread != Spread::Many && to.is_ipv6() {
            if let Some(port) = ports.get(&key(Some(*to))) {
                return Ok(port.clone());
            }
            let for_one =
                |ports: &BTreeMap<PortKey, _>| ports.keys().filter(|key| key.5.is_some()).count();
            if for_one(&ports) >= MOST_FOR_ONE {
                // those of connections that have ended
                ports.retain(|key, port| key.5.is_none() || Arc::strong_count(port) > 1);
            }
            if for_one(&ports) < MOST_FOR_ONE && ports.len() < MOST_PORTS {
                let port = Arc::new(bind_near(how, |how| TxPort::bind_for(how, to))?);
                ports.insert(key(Some(*to)), port.clone());
                return Ok(port);
            }
        }
        if let Some(port) = ports.get(&key(None)) {
            return Ok(port.clone());
        }
        if ports.len() >= MOST_PORTS {
            let alike = ports
                .iter()
                .find(|((source, ifindex, _, tos, hops, _), _)| {
                    (*source, *ifindex, *tos, *hops)
                        == (how.source, how.ifindex, how.tos, how.hop_limit)
                });
            if let Some((_, port)) = alike {
                return Ok(port.clone());
            }
        }
        let port = Arc::new(bind_near(how, TxPort::bind)?);
        ports.insert(key(None), port.clone());
        Ok(port)
    }
}

/// Another process may have the port: the next one tells flows apart as well, and so does any that the kernel has left.
fn bind_near(
    how: &TxOptions,
    bind: impl Fn(&TxOptions) -> Result<TxPort, ferriband_memory::Error>,
) -> Result<TxPort, Error> {
    let near = (1..NEAR_PORTS).map(|step| FIRST_PORT | how.port.wrapping_add(step * PORT_STRIDE));
    let mut result = bind(how);
    for port in near.chain([0]) {
        if !matches!(&result, Err(error) if error.errno() == libc::EADDRINUSE) {
            break;
        }
        result = bind(&TxOptions { port, ..*how });
    }
    Ok(result?)
}

/// Where a queue pair's packets go, and how they look below the transport header.
#[derive(Clone, Debug)]
pub(crate) struct TxPath {
    carrier: Carrier,
    counts: PortCounts,
    hooks: Arc<Hooks>,
    ifindex: u32,
    local_qpn: u32,
}

/// What carries them.
#[derive(Clone, Debug)]
pub(super) enum Carrier {
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

/// The source port of a flow: from the flow label if one is given, else from both queue pair numbers (the rule of the Linux
/// kernel's `rdma_flow_label_to_udp_sport` and `rdma_calc_flow_label`, which peers and switches know).
fn source_port(flow_label: u32, local_qpn: u32, remote_qpn: u32) -> u16 {
    let label = if flow_label & 0xf_ffff != 0 {
        flow_label & 0xf_ffff
    } else {
        let mut mixed = u64::from(local_qpn) * u64::from(remote_qpn);
        mixed ^= mixed >> 20;
        mixed ^= mixed >> 40;
        mixed as u32 & 0xf_ffff
    };
    let (low, high) = (label & 0x3fff, (label & 0xf_c000) >> 14);
    (low ^ high) as u16 | FIRST_PORT
}

impl TxPath {
    /// The path of an address vector.
    ///
    /// # Errors
    /// `Invalid` for an address vector without a GID or with an index of an empty entry; what binding a socket says.
    pub fn resolve(
        device: &Device,
        pool: &PortPool,
        av: &AddressVector,
        (local_qpn, remote_qpn): (u32, u32),
        spread: Spread,
    ) -> Result<Self, Error> {
        let carrier = match &pool.local {
            _ if device.is_ethernet() => {
                Self::resolve_udp(device, pool, av, (local_qpn, remote_qpn), spread)?
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

    /// The partition key of management datagrams on this path: what stands first in the port's table, as a limited member has it.
    pub fn pkey(&self) -> u16 {
        match self.ifindex {
            0 => crate::device::fabric::pkey(0),
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
            // few sockets: the flows that nobody named share sixteen ports, which other processes hardly want
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

    /// The peer's address; that of the InfiniBand port is its GID.
    pub fn target(&self) -> IpAddr {
        match &self.carrier {
            Carrier::Udp { to, .. } => to.ip(),
            Carrier::Host(path) => path.target(),
        }
    }

    /// What carries its packets, with the headers below theirs, whatever the identification.
    pub(super) fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    /// The interface of its device; 0 for the InfiniBand port.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// The queue pair whose it is.
    pub fn local_qpn(&self) -> u32 {
        self.local_qpn
    }

    /// Something speaks for it that the peer does not understand what is sent.
    #[cold]
    pub fn doubt(&self) {
        if let Carrier::Udp { port, to, .. } = &self.carrier {
            port.doubt(to);
        }
    }

    /// Gives a run to the kernel, whose packets may get other identifications on the way. None if it does not take it.
    fn transmit_flow(&self, bytes: &mut [u8], segment: usize, icrc: &mut RunIcrc) -> Option<Gone> {
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

/// What came of it, if the kernel took it.
fn taken<T>(send: &mut dyn FnMut() -> Result<T, SendError>) -> Option<T> {
    match send() {
        Ok(gone) => Some(gone),
        Err(SendError::Again) => None,
        // an ICMP message of earlier packets is told once and costs the packet that hears of it: again, once
        Err(_) => send().ok(),
    }
}

/// A run of packets to one destination.
#[derive(Debug)]
pub(crate) struct Run {
    bytes: Room,
    len: usize,
    segment: usize,
    count: usize,
    closed: bool,
    icrc: RunIcrc,
    /// Packets that the kernel did not take.
    pub lost: u64,
    /// Packets and system calls.
    pub packets: u64,
    pub calls: u64,
}

impl Run {
    fn new() -> Self {
        Run {
            bytes: Room::new(RUN_BYTES + PACKET_ROOM),
            len: 0,
            segment: 0,
            count: 0,
            closed: false,
            icrc: RunIcrc::new(),
            lost: 0,
            packets: 0,
            calls: 0,
        }
    }

    /// Room for the next packet, from BTH.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.len..self.len + PACKET_ROOM - ICRC_BYTES]
    }

    /// Packets that wait for [`Run::flush`].
    pub fn gathered(&self) -> usize {
        self.count
    }

    /// The packet of `len` bytes that was written to the room goes to `path`, soon: all packets of a run have one path, so
    /// [`Run::flush`] comes before another's.
    pub fn push(&mut self, path: &TxPath, len: usize) {
        let whole = len + ICRC_BYTES;
        if self.count > 0 && (self.closed || whole > self.segment || self.count == RUN_PACKETS) {
            self.send_off(path, len);
        }
        if self.count == 0 {
            self.segment = whole;
        }
        let (at, place) = (self.len, self.count);
        let (packet, trailer) = self.bytes[at..at + whole].split_at_mut(len);
        let icrc = match &path.carrier {
            // the kernel counts the packets of a run up from identification 0
            Carrier::Udp { headers, .. } => self.icrc.icrc(headers, place as u16, packet),
            Carrier::Host(path) => path
                .headers()
                .icrc(len)
                .ok()
                .map(|begun| begun.finish_with(packet)),
        };
        let icrc = icrc.expect("a packet has a BTH and fits a datagram");
        trailer.copy_from_slice(&icrc.to_le_bytes());
        self.len += whole;
        self.count += 1;
        self.closed = whole < self.segment;
        // the next is no longer than this one, or begins another run
        if self.len + self.segment > RUN_BYTES {
            self.closed = true;
        }
    }

    /// Places for more packets of the size that this run's have, behind it: the length of each without its ICRC, and from where to where
    /// they are apart; `most` at the most. None if it has no room, or begins anew.
    pub fn places(&mut self, most: usize) -> Option<(&mut [u8], usize, usize)> {
        let (stride, at) = (self.segment, self.len);
        if self.closed || self.count == 0 {
            return None;
        }
        let room = (RUN_BYTES.saturating_sub(at) / stride).min(RUN_PACKETS - self.count);
        let end = at + most.min(room) * stride;
        (end > at).then(|| (&mut self.bytes[at..end], stride - ICRC_BYTES, stride))
    }

    /// The first `count` of [`Run::places`] hold packets for `path` now; `sums` are the CRCs of their payloads, if there are as many.
    pub fn push_alike(&mut self, path: &TxPath, count: usize, sums: &[u32]) {
        if count == 0 {
            return;
        }
        let (stride, len) = (self.segment, self.segment - ICRC_BYTES);
        let Carrier::Udp { headers, .. } = &path.carrier else {
            (0..count).for_each(|_| self.push(path, len));
            return;
        };
        let end = self.len + count * stride;
        let packets = self.bytes[self.len..end].chunks_mut(stride);
        let packets = (self.count as u16..).zip(packets.map(|packet| packet.split_at_mut(len)));
        const LIKE_THE_ONE_BEFORE: &str = "which had a BTH and fitted a datagram";
        if sums.len() == count {
            let mut summed = self.icrc.summed(headers, len).expect(LIKE_THE_ONE_BEFORE);
            for ((place, (packet, trailer)), crc) in packets.zip(sums) {
                let header = packet.first_chunk().expect(LIKE_THE_ONE_BEFORE);
                trailer.copy_from_slice(&summed.icrc(place, header, *crc).to_le_bytes());
            }
        } else {
            let alike = self.icrc.alike(headers, len).expect(LIKE_THE_ONE_BEFORE);
            for (place, (packet, trailer)) in packets {
                let icrc = alike.icrc(place, packet).expect("a run's place and length");
                trailer.copy_from_slice(&icrc.to_le_bytes());
            }
        }
        self.len = end;
        self.count += count;
        self.closed |= self.len + self.segment > RUN_BYTES;
    }

    /// Sends what is gathered. A packet that the kernel does not take is lost, as on any wire: the transport tries again.
    pub fn flush(&mut self, path: &TxPath) {
        if self.count > 0 {
            self.send_off(path, 0);
        }
    }

    /// The same; a packet of `behind` bytes lies behind the run already and begins the next.
    fn send_off(&mut self, path: &TxPath, behind: usize) {
        self.calls += 1;
        self.packets += self.count as u64;
        let length = self.len;
        let bytes = &mut self.bytes[..length];
        let (lost, gone) = if path.hooks.active() {
            (path.hooks.send(path, bytes, self.segment), None)
        } else {
            match path.transmit_flow(bytes, self.segment, &mut self.icrc) {
                None => (self.count as u64, None),
                gone => (0, gone),
            }
        };
        self.bytes.copy_within(length..length + behind, 0);
        if lost > 0 {
            self.lost += lost;
            path.counts.add(Counter::SendErr, 1);
            path.counts.add(Counter::XmitDiscards, lost);
            self.len = self.len.saturating_sub(lost as usize * self.segment);
        }
        path.counts.add(
            Counter::XmitPackets,
            (self.count as u64).saturating_sub(lost),
        );
        path.counts.add(Counter::XmitData, self.len as u64 / 4);
        if gone == Some(Gone::Framed) {
            path.counts.add(Counter::Frames, self.count as u64);
        }
        (self.len, self.count, self.closed) = (0, 0, false);
    }
}

thread_local! {
    static RUN: RefCell<Option<Box<Run>>> = const { RefCell::new(None) };
}

/// Gives this thread's run, empty, to `fill`.
pub(crate) fn with_run<T>(fill: impl FnOnce(&mut Run) -> T) -> T {
    // a thread that ends, in a destructor of the program, has none any more
    let kept = RUN.try_with(|place| place.borrow_mut().take());
    let mut run = kept.ok().flatten().unwrap_or_else(|| Box::new(Run::new()));
    let value = fill(&mut run);
    let _ = RUN.try_with(|place| *place.borrow_mut() = Some(run));
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_that_want_one_port_get_one_each() {
        let how = TxOptions {
            source: "127.0.0.77".parse().unwrap(),
            ifindex: 0,
            port: 0xebe2,
            tos: 0,
            hop_limit: 64,
            frames: false,
        };
        let bound: Vec<TxPort> = (0..12)
            .map(|_| bind_near(&how, TxPort::bind).unwrap())
            .collect();
        let mut ports: Vec<u16> = bound.iter().map(TxPort::port).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 12);
        // nor does any of them take what is another program's
        let other = std::net::UdpSocket::bind(("127.0.0.78", 0)).unwrap();
        let taken = other.local_addr().unwrap().port();
        let near = TxOptions {
            source: "127.0.0.78".parse().unwrap(),
            port: taken,
            ..how
        };
        assert_ne!(bind_near(&near, TxPort::bind).unwrap().port(), taken);
    }

    #[test]
    fn the_source_port_follows_the_kernels_rule() {
        // seen in a capture of the kernel's connection manager: flow label and port of one connection
        assert_eq!(source_port(0x0_2be2, 1, 1), 0xebe2);
        assert!(source_port(0, 17, 0x123) >= FIRST_PORT);
    }
}
