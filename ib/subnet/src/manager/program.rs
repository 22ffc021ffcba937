//! What ports and switches are told, node by node: addresses and links Armed, tables, links Active. What a node has already is not told again: a port says so itself, of tables it
//! is known what they were told before ([`super::told::Told`]).

use super::Config;
use super::discovery::{Discovery, Seen, request};
use super::told::Told;
use crate::graph::{Found, Graph};
use crate::routing::{NO_PORT, Routing};
use ferriband_wire::attributes::{
    LinearForwardingBlock, NodeType, PhysState, PortCapabilities, PortInfo, PortState, SlToVlTable,
    SwitchInfo, VlArbitrationBlock, VlWeight,
};
use ferriband_wire::mad::{AttributeId, Method};
use ferriband_wire::smp::{Smp, attribute};
use ferriband_wire::{Guid, Header, Lid, MKey, TimeCode, Vl};

/// Of a port whose M_Key is set: anybody may read all but the key (IBA 14.2.4).
const PROTECT: u8 = 1;
/// 4.096 us * 2^18: about a second.
const SUBNET_TIMEOUT: TimeCode = TimeCode(18);
/// The same for packets in a switch: about a second.
const PACKET_LIFETIME: TimeCode = TimeCode(18);

/// What a lane may send in a turn, in units of 64 bytes: a packet of the largest MTU.
const WEIGHT: u8 = 64;

pub(super) type Group = Vec<(Guid, Smp)>;

/// What is known when it is decided what to tell ports.
pub(super) struct Plan<'a> {
    pub config: &'a Config,
    pub discovery: &'a Discovery,
    pub found: &'a [Found],
    /// The port that the manager is at.
    pub own_port: u8,
    /// End ports hear that the manager is a new one.
    pub anew: bool,
}

impl Plan<'_> {
    /// What a node's ports are told: addresses and that links are Armed, or (`up`) that they are Active.
    pub(super) fn ports(&self, at: usize, up: bool) -> Group {
        let Plan {
            config,
            discovery,
            found,
            own_port,
            anew,
        } = *self;
        let own = found[0].ports.iter().find(|port| port.number == own_port);
        let manager = Lid(own.map_or(0, |port| port.lid) as u16);
        let (seen, node) = (&discovery.nodes[at], &found[at]);
        let is_switch = node.switch.is_some();
        let mut group = Group::new();
        for port in &node.ports {
            let Some(info) = seen.ports.get(&port.number) else {
                continue;
            };
            let other = port.peer.and_then(|(there, number)| {
                let there: &Seen = discovery.nodes.get(there)?;
                there.ports.get(&number)
            });
            let own_port = !is_switch || port.number == 0;
            if !own_port && other.is_none() {
                continue;
            }
            let mut wanted = together(info, other);
            if own_port {
                wanted = PortInfo {
                    lid: Lid(port.lid as u16),
                    lmc: port.lmc,
                    master_sm_lid: manager,
                    mkey: config.mkey,
                    mkey_protect: if config.mkey == MKey(0) { 0 } else { PROTECT },
                    mkey_lease_period_s: config.mkey_lease_s,
                    subnet_timeout: SUBNET_TIMEOUT,
                    ..wanted
                };
            }
            let tell = |group: &mut Group, value: &PortInfo| {
                let modifier = port.number.into();
                group.extend(set(seen, attribute::PORT_INFO, modifier, value));
            };
            if up {
                if matches!(info.state, PortState::INIT | PortState::ARMED) && other.is_some() {
                    wanted.state = PortState::ACTIVE;
                    tell(&mut group, &wanted);
                }
                continue;
            }
            let rises = info.state == PortState::INIT && other.is_some();
            if rises {
                // a link takes its state along with what it is to be: Armed, it does not carry data yet
                wanted.state = PortState::ARMED;
            }
            if rises || own_port && anew || !has(info, &wanted) {
                let registers = PortCapabilities::CLIENT_REREGISTRATION;
                wanted.client_reregister = own_port && info.capabilities.contains(registers);
                tell(&mut group, &wanted);
            }
        }
        group
    }
}

/// What a node is told of routes: lanes, arbiters, and forwarding tables. `switch`: its place in the graph, if it is one.
pub(super) fn routes(seen: &Seen, switch: Option<u32>, graph: &Graph, routing: &Routing) -> Group {
    let mut group = Group::new();
    let is_switch = seen.info.node_type == NodeType::SWITCH;
    if routing.lanes_needed > 1 {
        arbitration(seen, is_switch, routing.lanes_needed, &mut group);
    }
    if let Some(switch) = switch {
        tables(seen, switch, graph, routing, &mut group);
    }
    group.extend(lanes(seen, switch, routing));
    group
}

/// What a node is told of lanes: SL2VL tables.
pub(super) fn lanes(seen: &Seen, switch: Option<u32>, routing: &Routing) -> Group {
    let mut group = Group::new();
    if routing.lanes_needed <= 1 {
        return group;
    }
    let mut tell = |modifier: u32, lane: &dyn Fn(u8) -> u8| {
        let lanes = std::array::from_fn(|sl| Vl(lane(sl as u8)));
        let table = SlToVlTable(lanes);
        group.extend(set(seen, attribute::SL_TO_VL, modifier, &table));
    };
    let Some(switch) = switch else {
        if seen.info.node_type != NodeType::SWITCH {
            tell(0, &|sl| routing.lanes.of_host(sl));
        }
        return group;
    };
    let ports = 0..=seen.info.num_ports;
    let wired = |port: u8| {
        port == 0
            || seen
                .ports
                .get(&port)
                .is_some_and(|info| info.state != PortState::DOWN)
    };
    for (input, output) in ports
        .clone()
        .flat_map(|input| ports.clone().map(move |output| (input, output)))
    {
        if output > 0 && wired(input) && wired(output) {
            let modifier = u32::from(input) << 8 | u32::from(output);
            tell(modifier, &|sl| routing.lanes.at(switch, input, output, sl));
        }
    }
    group
}

/// What a switch is told so that it drops packets to LIDs that it is to send elsewhere soon, or (`all`) has a port for: of its forwarding table as it is known, the blocks with them.
pub(super) fn stops(
    seen: &Seen,
    switch: u32,
    told: &Told,
    (stopped, all): (&[u32], bool),
    routing: &Routing,
) -> Group {
    let mut group = Group::new();
    for lids in stopped.chunk_by(|one, next| one / 64 == next / 64) {
        let block = lids[0] / 64;
        let Some(now) = told.forwarding(seen.info.node_guid, block) else {
            continue;
        };
        let mut ports = *now;
        for lid in lids {
            let port = &mut ports[*lid as usize % 64];
            if all || *port != routing.tables.port(switch, *lid) {
                *port = NO_PORT;
            }
        }
        if ports != *now {
            let value = LinearForwardingBlock(ports);
            group.extend(set(seen, attribute::LINEAR_FORWARDING, block, &value));
        }
    }
    group
}

/// Lanes that are used take turns on every link, equally: a lane that an arbiter does not know would wait for ever. The table of high priority is empty.
fn arbitration(seen: &Seen, is_switch: bool, lanes: u8, group: &mut Group) {
    let links = seen.ports.iter().filter(|(number, info)| {
        (**number > 0 || !is_switch)
            && info.state != PortState::DOWN
            && info.vl_arbitration_low_cap >= lanes
    });
    for (number, info) in links {
        let port = if is_switch { u32::from(*number) } else { 0 };
        let mut low = VlArbitrationBlock::default();
        for (entry, vl) in low.0.iter_mut().zip(0..lanes) {
            *entry = VlWeight {
                vl: Vl(vl),
                weight: WEIGHT,
            };
        }
        let mut tell = |block: u32, value| {
            let modifier = block << 16 | port;
            group.extend(set(seen, attribute::VL_ARBITRATION, modifier, value));
        };
        tell(1, &low);
        if info.vl_arbitration_high_cap > 0 {
            tell(3, &VlArbitrationBlock::default());
        }
    }
}

/// True if a port says already what it is to be told: but for what it counts, and for states, of which `wanted` says no change.
fn has(info: &PortInfo, wanted: &PortInfo) -> bool {
    let settled = PortInfo {
        state: info.state,
        phys_state: info.phys_state,
        link_down_default_state: info.link_down_default_state,
        mkey_violations: info.mkey_violations,
        pkey_violations: info.pkey_violations,
        qkey_violations: info.qkey_violations,
        client_reregister: info.client_reregister,
        ..*wanted
    };
    settled == *info
}

/// What both ends of a link can do.
fn together(info: &PortInfo, other: Option<&PortInfo>) -> PortInfo {
    let least = |own: u8, other: Option<u8>| other.map_or(own, |other| own.min(other));
    PortInfo {
        state: PortState::NO_CHANGE,
        phys_state: PhysState::NO_CHANGE,
        link_down_default_state: PhysState::NO_CHANGE,
        neighbor_mtu: least(info.mtu_cap, other.map(|port| port.mtu_cap)),
        operational_vls: least(info.vl_cap, other.map(|port| port.vl_cap)),
        client_reregister: false,
        mkey_violations: 0,
        pkey_violations: 0,
        qkey_violations: 0,
        ..*info
    }
}

fn tables(seen: &Seen, switch: u32, graph: &Graph, routing: &Routing, group: &mut Group) {
    let top = graph.top().min(u32::from(u16::MAX)) as u16;
    let row = routing.tables.row(switch);
    for (block, ports) in (0_u32..).zip(row.chunks(64)) {
        let mut value = LinearForwardingBlock([LinearForwardingBlock::NO_PORT; 64]);
        value.0[..ports.len()].copy_from_slice(ports);
        group.extend(set(seen, attribute::LINEAR_FORWARDING, block, &value));
    }
    if let Some(info) = seen.switch {
        let value = SwitchInfo {
            linear_fdb_top: Lid(top),
            lifetime: PACKET_LIFETIME,
            // seen
            port_state_change: true,
            ..info
        };
        // a switch of which nothing has changed says so itself
        if info.port_state_change
            || info.linear_fdb_top != value.linear_fdb_top
            || info.lifetime != value.lifetime
        {
            group.extend(set(seen, attribute::SWITCH_INFO, 0, &value));
        }
    }
}

fn set<A: Header>(
    seen: &Seen,
    attribute: AttributeId,
    modifier: u32,
    value: &A,
) -> Option<(Guid, Smp)> {
    let mut smp = request(&seen.path, Method::SET, attribute, modifier)?;
    smp.set_data(value).ok()?;
    Some((seen.info.node_guid, smp))
}
