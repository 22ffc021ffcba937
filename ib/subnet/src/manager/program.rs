//! What ports and switches are told, in groups: addresses, then tables, then links Armed, then Active. A link carries data only when all
//! switches know the way.

use super::Config;
use super::discovery::{Discovery, Seen, request};
use crate::graph::{Found, Graph};
use crate::routing::Routing;
use ferriband_wire::attributes::{
    LinearForwardingBlock, NodeType, PhysState, PortCapabilities, PortInfo, PortState, SlToVlTable,
    SwitchInfo,
};
use ferriband_wire::mad::{AttributeId, Method};
use ferriband_wire::smp::{Smp, attribute};
use ferriband_wire::{Guid, Header, Lid, MKey, TimeCode, Vl};
use std::collections::{BTreeMap, VecDeque};

/// Of a port whose M_Key is set: anybody may read all but the key (IBA 14.2.4).
const PROTECT: u8 = 1;
/// 4.096 us * 2^18: about a second.
const SUBNET_TIMEOUT: TimeCode = TimeCode(18);
/// The same for packets in a switch: about a second.
const PACKET_LIFETIME: TimeCode = TimeCode(18);

type Group = Vec<(Guid, Smp)>;

/// All that there is to tell.
pub(super) fn groups(
    config: &Config,
    discovery: &Discovery,
    found: &[Found],
    graph: &Graph,
    routing: &Routing,
    own_port: u8,
) -> VecDeque<Group> {
    let own = found[0].ports.iter().find(|port| port.number == own_port);
    let manager = Lid(own.map_or(0, |port| port.lid) as u16);
    let mut groups: [Group; 4] = Default::default();
    for (seen, node) in discovery.nodes.iter().zip(found) {
        let is_switch = node.switch.is_some();
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
                let address = PortInfo {
                    lid: Lid(port.lid as u16),
                    lmc: port.lmc,
                    master_sm_lid: manager,
                    mkey: config.mkey,
                    mkey_protect: if config.mkey == MKey(0) { 0 } else { PROTECT },
                    mkey_lease_period_s: config.mkey_lease_s,
                    subnet_timeout: SUBNET_TIMEOUT,
                    client_reregister: info
                        .capabilities
                        .contains(PortCapabilities::CLIENT_REREGISTRATION),
                    ..wanted
                };
                wanted = address;
            }
            let mut tell = |group: usize, value: &PortInfo| {
                let modifier = port.number.into();
                groups[group].extend(set(seen, attribute::PORT_INFO, modifier, value));
            };
            tell(0, &wanted);
            wanted.client_reregister = false;
            if info.state == PortState::INIT && other.is_some() {
                wanted.state = PortState::ARMED;
                tell(2, &wanted);
            }
            if matches!(info.state, PortState::INIT | PortState::ARMED) && other.is_some() {
                wanted.state = PortState::ACTIVE;
                tell(3, &wanted);
            }
        }
        if !is_switch && routing.lanes_needed > 1 {
            let lanes = std::array::from_fn(|sl| Vl(routing.lanes.of_host(sl as u8)));
            groups[1].extend(set(seen, attribute::SL_TO_VL, 0, &SlToVlTable(lanes)));
        }
    }
    let index: BTreeMap<u64, u32> = (0..)
        .zip(graph.switches())
        .map(|(index, switch)| (switch.guid.0, index))
        .collect();
    for seen in discovery.nodes.iter() {
        if seen.info.node_type == NodeType::SWITCH
            && let Some(switch) = index.get(&seen.info.node_guid.0)
        {
            tables(seen, *switch, graph, routing, &mut groups[1]);
        }
    }
    groups.into()
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
        group.extend(set(seen, attribute::SWITCH_INFO, 0, &value));
    }
    if routing.lanes_needed > 1 {
        let ports = 0..=seen.info.num_ports;
        for (input, output) in ports
            .clone()
            .flat_map(|input| ports.clone().map(move |output| (input, output)))
        {
            let wired = |port: u8| {
                port == 0
                    || seen
                        .ports
                        .get(&port)
                        .is_some_and(|info| info.state != PortState::DOWN)
            };
            if output == 0 || !wired(input) || !wired(output) {
                continue;
            }
            let lanes =
                std::array::from_fn(|sl| Vl(routing.lanes.at(switch, input, output, sl as u8)));
            let modifier = u32::from(input) << 8 | u32::from(output);
            group.extend(set(
                seen,
                attribute::SL_TO_VL,
                modifier,
                &SlToVlTable(lanes),
            ));
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
