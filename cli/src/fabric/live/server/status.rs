//! What the process says of its fabric and of adapters in it.

use super::{Role, Server};
use ferriband_attach::address;
use ferriband_attach::ask::{
    Adapter, AdapterPort, Attached, CreditsLine, HostLine, LinkCount, MadCount, NodeCount,
    PacketCount, Status,
};
use ferriband_fabric::live::state_name;
use ferriband_topology::{NodeId, NodeKind, PortId, Speed, Topology, Width};
use ferriband_wire::MKey;
use ferriband_wire::attributes::PortState;

impl Server {
    pub(super) fn adapter(&self, node: NodeId) -> Adapter {
        let plane = self.fabric.plane();
        let own = plane.node(node);
        let (node_type, ports) = match own.kind {
            NodeKind::Ca => (1, 1..=own.port_count()),
            NodeKind::Switch => (2, 0..=0),
            NodeKind::Router => (3, 1..=own.port_count()),
        };
        Adapter {
            host: plane.topology().node(node).name.clone(),
            description: plane.topology().node(node).description().to_owned(),
            node_type,
            node_guid: own.guid.0,
            system_guid: own.system_image.0,
            port_count: own.port_count(),
            port_used: match own.kind {
                NodeKind::Switch => 0,
                _ => port_used(plane.topology(), node),
            },
            number: self.numbers.get(&node).copied().unwrap_or(0),
            paced: self.paced,
            ports: ports.map(|port| self.adapter_port(node, port)).collect(),
        }
    }

    fn adapter_port(&self, node: NodeId, port: u8) -> AdapterPort {
        let own = self.fabric.plane().node(node);
        let state = &own.ports[usize::from(port)];
        let info = &state.info;
        AdapterPort {
            port,
            guid: own.guid_of_port(port).0,
            prefix: info.gid_prefix,
            lid: info.lid.0,
            lmc: info.lmc,
            sm_lid: info.master_sm_lid.0,
            sm_sl: info.master_sm_sl.0,
            state: info.state.0,
            phys_state: info.phys_state.0,
            rate_mbps: rate_mbps(
                info.link_width_active,
                info.link_speed_active,
                info.link_speed_ext_active,
            ),
            width: info.link_width_active,
            speed: info.link_speed_active,
            speed_ext: info.link_speed_ext_active,
            mtu: info.neighbor_mtu,
            capabilities: info.capabilities.bits(),
            pkeys: state.pkeys.iter().map(|key| key.0).collect(),
        }
    }

    pub(super) fn status(&mut self) -> Status {
        let credits = self.fabric.credits();
        let [came, let_go] = self.fabric.packets();
        let plane = self.fabric.plane();
        let topology = plane.topology();
        let count = |kind| {
            let all = topology.ids_of(kind);
            let (on, off): (Vec<_>, Vec<_>) = all.partition(|id| !plane.is_off(*id));
            NodeCount {
                total: (on.len() + off.len()) as u32,
                on: on.len() as u32,
            }
        };
        let state = |end: &PortId| {
            let node = plane.node(end.node);
            node.ports[usize::from(end.port)].info.state
        };
        let cables = topology.cables().iter();
        let both = |wanted: fn(PortState) -> bool| {
            let cables = cables.clone();
            let up = cables.filter(|cable| cable.ends.iter().all(|end| wanted(state(end))));
            up.count() as u32
        };
        let name_of = |end: &PortId| format!("{} port {}", topology.node(end.node).name, end.port);
        let cut = topology.cables().iter().enumerate();
        let cut = cut.filter(|(cable, _)| plane.is_cut(*cable));
        let cut = cut.map(|(_, cable)| {
            let [a, b] = &cable.ends;
            format!("cut: {} to {}", name_of(a), name_of(b))
        });
        let spoils = plane.spoils().map(|(cable, share)| {
            let [a, b] = &topology.cables()[cable].ends;
            let share = f64::from(share) / 1e4;
            format!(
                "spoils {share} % of packets: {} to {}",
                name_of(a),
                name_of(b)
            )
        });
        let off = topology.ids().filter(|id| plane.is_off(*id));
        let off = off.map(|id| format!("switched off: {}", topology.node(id).name));
        let attached = self.clients.values().filter_map(|client| {
            let (at, how) = match &client.role {
                Role::Asks | Role::InGroup | Role::Looks(..) => return None,
                Role::Mads(at, _) => (at, "mads"),
                Role::Packets(at) => (at, "packets"),
            };
            Some(Attached {
                host: topology.node(at.node).name.clone(),
                how: how.to_owned(),
                pid: client.pid,
            })
        });
        let hosts = topology.ids_of(NodeKind::Ca).map(|id| {
            let port = &plane.node(id).ports[usize::from(port_used(topology, id))];
            HostLine {
                name: topology.node(id).name.clone(),
                lid: port.info.lid.0,
                state: state_name(port).to_owned(),
                address: address(self.numbers.get(&id).copied().unwrap_or(0)).to_string(),
            }
        });
        Status {
            name: self.name.clone(),
            source: self.source.clone(),
            pid: std::process::id(),
            up_s: self.begun.elapsed().as_secs(),
            switches: count(NodeKind::Switch),
            hosts: count(NodeKind::Ca),
            links: LinkCount {
                total: topology.cables().len() as u32,
                up: both(|state| state != PortState::DOWN),
                active: both(|state| state == PortState::ACTIVE),
            },
            manager: if self.own.is_some() { "ours" } else { "none" }.to_owned(),
            manager_says: match &self.own {
                Some(own) => own.says.clone(),
                None => "it has no manager of its own".to_owned(),
            },
            failed: self.own.as_ref().is_some_and(|own| own.failed),
            warnings: match &self.own {
                Some(own) => own.warnings.clone(),
                None => Some(Vec::new()),
            },
            sweeps: self.own.as_ref().map_or(0, |own| own.sweeps),
            mads: MadCount {
                carried: self.fabric.mads,
                unwanted: self.fabric.unwanted(),
            },
            packets: PacketCount {
                delivered: came,
                dropped: let_go + self.untaken,
            },
            pace: self.pace.clone(),
            keys: match (self.keys.mkey, &self.keys.file) {
                (MKey(0), _) => None,
                (_, Some(file)) => Some(file.display().to_string()),
                (_, None) => Some(String::new()),
            },
            credits: CreditsLine {
                lanes: credits.lanes,
                taken_blocks: credits.taken_blocks,
                waiting_packets: credits.waiting,
                wrong_lanes: credits.wrong,
            },
            attached: attached.collect(),
            broken: cut.chain(spoils).chain(off).collect(),
            host_list: hosts.collect(),
        }
    }
}

/// What a link carries, from the codes of PortInfo.
fn rate_mbps(width: u8, speed: u8, extended: u8) -> u32 {
    let width = Width::ALL.into_iter().find(|own| own.bit() == width);
    let speed = match (speed, extended) {
        (_, 8) => Speed::Ndr,
        (_, 4) => Speed::Hdr,
        (_, 2) => Speed::Edr,
        (_, 1) => Speed::Fdr,
        (4, _) => Speed::Qdr,
        (2, _) => Speed::Ddr,
        _ => Speed::Sdr,
    };
    let lanes = width.map_or(1, |width| match width {
        Width::X1 => 1,
        Width::X2 => 2,
        Width::X4 => 4,
        Width::X8 => 8,
        Width::X12 => 12,
    });
    let each = match speed {
        Speed::Sdr => 2_500,
        Speed::Ddr => 5_000,
        Speed::Qdr | Speed::Fdr10 => 10_000,
        Speed::Fdr => 14_000,
        Speed::Edr => 25_000,
        Speed::Hdr => 50_000,
        Speed::Ndr => 100_000,
    };
    lanes * each
}

/// The port of a host that its programs use: the first with a cable.
fn port_used(topology: &Topology, node: NodeId) -> u8 {
    let cabled = |port: &u8| topology.cable_at(PortId { node, port: *port }).is_some();
    let ports = 1..=topology.node(node).ports;
    ports.into_iter().find(cabled).unwrap_or(1)
}
