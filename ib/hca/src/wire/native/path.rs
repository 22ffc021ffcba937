//! Paths by the InfiniBand port: who gets the packets of a queue pair, and how they look below the
//! transport header.
//!
//! Owns a path's headers. Must not know what a packet does to a queue pair.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use ferriband_admin::PathReport;
use ferriband_memory::host::ProcessRef;
use ferriband_transport::types::AddressVector;
use ferriband_wire::{Gid, Grh, Lid, Lrh, NativeHeaders, Sl, Vl};

use super::meta::NativeMeta;
use super::port::LocalPort;
use crate::base::error::Error;
use crate::device::Device;
use crate::process::numbers::owner_of_packets;

/// Who gets the packets of a path.
#[derive(Clone, Copy, Debug)]
enum To {
    /// Whoever owns this queue pair.
    Queue(u32),
    /// A port of the fabric that this host is in.
    Fabric,
    /// All members of a group.
    Group(Gid),
    /// The connection manager of this process.
    Process(ProcessRef),
    /// No port has the address.
    Nobody,
}

/// A path by the InfiniBand port.
#[derive(Clone, Debug)]
pub(crate) struct HostPath {
    port: Arc<LocalPort>,
    /// By which port of this host's.
    by: u8,
    headers: NativeHeaders,
    to: To,
    target: IpAddr,
}

impl HostPath {
    /// The path of an address vector.
    ///
    /// # Errors
    /// `Invalid` for an index of an empty entry of the GID table.
    pub fn resolve(
        port: &Arc<LocalPort>,
        device: &Device,
        av: &AddressVector,
        remote_qpn: u32,
    ) -> Result<Self, Error> {
        let by = match av.port_num {
            0 => device.usual_port(),
            named => named,
        };
        let source = device.gid_at(by, av.sgid_index.into());
        let grh = match (av.is_global, source) {
            (false, _) => None,
            (true, None) => return Err(Error::Invalid("the entry of the GID table is empty")),
            (true, Some(source)) => Some(Grh {
                traffic_class: av.traffic_class,
                flow_label: av.flow_label & 0xf_ffff,
                hop_limit: av.hop_limit,
                sgid: source.gid,
                dgid: av.dgid,
            }),
        };
        let to = match grh {
            Some(grh) if grh.dgid.is_multicast() => To::Group(grh.dgid),
            _ if device.is_local(av) => To::Queue(remote_qpn),
            _ if !port.fabric.is_empty() => To::Fabric,
            _ => To::Nobody,
        };
        // by its GID alone this port is meant, too
        let dlid = match (av.dlid, to) {
            (Lid(0), To::Queue(_)) => port.lid(by),
            (dlid, _) => dlid,
        };
        Ok(HostPath {
            port: port.clone(),
            by,
            headers: NativeHeaders {
                lrh: Lrh {
                    vl: Vl(0),
                    sl: Sl(av.sl.0 & 0xf),
                    dlid,
                    slid: device.source_lid(by, port.lid(by), av.src_path_bits),
                },
                grh,
            },
            to,
            target: address(device),
        })
    }

    /// The path of management datagrams to another process of this host.
    pub fn to_process(port: &Arc<LocalPort>, device: &Device, to: ProcessRef) -> Self {
        let by = device.usual_port();
        HostPath {
            port: port.clone(),
            by,
            headers: NativeHeaders {
                lrh: Lrh {
                    vl: Vl(0),
                    sl: Sl(0),
                    dlid: port.lid(by),
                    slid: port.lid(by),
                },
                grh: None,
            },
            to: To::Process(to),
            target: address(device),
        }
    }

    /// LRH and GRH.
    pub fn headers(&self) -> &NativeHeaders {
        &self.headers
    }

    /// The port of the peer, as [`address`] says it.
    pub fn target(&self) -> IpAddr {
        self.target
    }

    /// What packets of the peer's come from by this path, as [`origin`] says it.
    pub fn origin(&self) -> IpAddr {
        origin(self.headers.lrh.dlid, self.headers.lrh.slid)
    }

    /// Gives a run of packets to whom it is for. False if one of them has no room for it.
    pub fn transmit(&self, bytes: &[u8], segment: usize) -> bool {
        let meta = NativeMeta {
            headers: self.headers,
            // a packet is shorter than 2^16
            segment: segment as u16,
            from: None,
        };
        let (head, registry) = (meta.to_head(), self.port.post.registry());
        match self.to {
            To::Queue(qpn) => owner_of_packets(registry, qpn)
                .is_none_or(|owner| self.port.give(owner, &head, bytes)),
            To::Group(group) => {
                let mut members = Vec::new();
                registry.multicast_members(&group, &mut members);
                let mut processes: Vec<_> = members.iter().map(|member| member.process).collect();
                processes.sort_unstable();
                processes.dedup();
                let mut given = self.to_fabric(bytes, segment);
                for process in processes {
                    given &= self.port.give(process, &head, bytes);
                }
                given
            }
            To::Fabric => self.to_fabric(bytes, segment),
            // who takes no packets is told otherwise
            To::Process(process) => matches!(self.port.given(process, &head, bytes), Ok(true)),
            To::Nobody => true,
        }
    }

    /// Sends a run of packets into the fabric, if there is one.
    fn to_fabric(&self, bytes: &[u8], segment: usize) -> bool {
        let Some(wire) = self.port.wire(self.by) else {
            return true;
        };
        let mut packets = bytes.chunks(segment.max(1));
        wire.send(|room| {
            let packet = packets.next()?;
            self.headers.emit(packet, packet.len(), room).ok()
        })
    }

    /// The path as whoever runs the program knows it.
    pub fn report(&self) -> PathReport {
        let text = |lid: Lid| format!("LID {}", lid.0);
        PathReport {
            source: text(self.headers.lrh.slid),
            destination: text(self.headers.lrh.dlid),
            ..PathReport::default()
        }
    }
}

/// Where packets come from and to which of this port's LIDs, in the form in which Ethernet has an
/// address for it. Paths of one connection differ in it.
pub(crate) fn origin(from: Lid, to: Lid) -> IpAddr {
    let both = u128::from(from.0) << u16::BITS | u128::from(to.0);
    IpAddr::V6(Ipv6Addr::from_bits(both))
}

/// The InfiniBand port where an address is asked for: its GID.
pub(crate) fn address(device: &Device) -> IpAddr {
    let gid = device.gid(0).map_or(Gid([0; 16]), |entry| entry.gid);
    IpAddr::V6(gid.0.into())
}
