//! The subnet management agent of a node: what a Get tells and what a Set changes (IBA 14.2.5, 14.3, 14.4).

use ferriband_topology::NodeKind;
use ferriband_wire::attributes::{
    GuidInfo, LinearForwardingBlock, MlnxExtendedPortInfo, MulticastForwardingBlock, NodeInfo,
    NodeType, PKEYS_PER_BLOCK, PKeyTable, PhysState, PortInfo, PortState, SlToVlTable, SwitchInfo,
    VlArbitrationBlock,
};
use ferriband_wire::mad::{MadStatus, Method};
use ferriband_wire::smp::{Smp, attribute};
use ferriband_wire::{Guid, Header, Lid, MKey};

use super::node::{Node, Port};
use super::training::{ALL_EXTENDED, NO_EXTENDED};
use crate::Time;

/// Who answers: a device of ours, revision 1.
const REVISION: u32 = 1;

/// Bit of PortInfo's modifier: the manager knows extended speeds (IBA 14.2.5.6). OpenSM says so in its Sets.
pub(super) const KNOWS_EXTENDED_SPEEDS: u32 = 1 << 31;

/// Why a request is answered with an error, or not at all.
type Refused = MadStatus;

impl Node {
    /// What the agent answers to a request that came by `port` (0 in a switch: by LID, or from the node itself). None if it says
    /// nothing: wrong keys and answers are not answered (IBA 14.2.4.1). `now` tells when the key's lease ends.
    pub fn answer(&mut self, now: Time, port: u8, request: &Smp) -> Option<Smp> {
        let set = match request.method {
            Method::GET => false,
            Method::SET => true,
            // traps and what represses them are a manager's, not an agent's
            _ => return None,
        };
        let keeper = self.keeper(port);
        if !self
            .ports
            .get_mut(usize::from(keeper))?
            .admits(now, set, request.mkey)
        {
            return None;
        }
        let mut answer = *request;
        answer.method = Method::GET_RESP;
        answer.status = MadStatus::OK;
        answer.mkey = MKey(0);
        let done = match set {
            true => self.set(port, &mut answer),
            false => self.get(port, &mut answer),
        };
        if let Err(status) = done {
            answer.status = status;
        }
        if answer.attribute == attribute::PORT_INFO && answer.status == MadStatus::OK {
            self.hide_key(keeper, request.mkey, &mut answer);
        }
        Some(answer)
    }

    /// The port whose management key lets a packet in that came by `port`.
    pub(super) fn keeper(&self, port: u8) -> u8 {
        match self.kind {
            NodeKind::Switch => 0,
            _ => port,
        }
    }

    /// True if a packet was not answered for its key.
    pub(super) fn has_wrong_key(&self, keeper: u8, request: &Smp) -> bool {
        let own = self
            .ports
            .get(usize::from(keeper))
            .map(|port| port.info.mkey);
        let asks = [Method::GET, Method::SET].contains(&request.method);
        asks && own.is_some_and(|own| own != MKey(0) && own != request.mkey)
    }

    /// A protected key is shown to whoever has it (IBA 14.2.4, table of M_KeyProtectBits).
    fn hide_key(&self, keeper: u8, shown: MKey, answer: &mut Smp) {
        let own = &self.ports[usize::from(keeper)].info;
        if own.mkey_protect == 0 || own.mkey == shown {
            return;
        }
        if let Ok(info) = answer.data_as::<PortInfo>() {
            let hidden = PortInfo {
                mkey: MKey(0),
                ..info
            };
            // it was emitted before
            let _ = answer.set_data(&hidden);
        }
    }

    /// The port that an attribute's modifier means; 0 is the one that the request came by, in a switch port 0.
    fn port_meant(&self, came_by: u8, modifier: u32) -> Result<u8, Refused> {
        let number = match (self.kind, modifier) {
            (NodeKind::Switch, number) => number,
            (_, 0) => u32::from(came_by),
            (_, number) => number,
        };
        let number = u8::try_from(number).map_err(|_| MadStatus::INVALID_FIELD)?;
        let first = u8::from(self.kind != NodeKind::Switch);
        if number < first || number > self.port_count() {
            return Err(MadStatus::INVALID_FIELD);
        }
        Ok(number)
    }

    fn port(&self, number: u8) -> &Port {
        &self.ports[usize::from(number)]
    }

    fn port_mut(&mut self, number: u8) -> &mut Port {
        &mut self.ports[usize::from(number)]
    }

    fn get(&self, came_by: u8, answer: &mut Smp) -> Result<(), Refused> {
        let modifier = answer.attribute_modifier;
        let switch = self.switch.as_ref().ok_or(MadStatus::UNSUPPORTED_ATTRIBUTE);
        match answer.attribute {
            attribute::NODE_DESCRIPTION => put(answer, &self.description),
            attribute::NODE_INFO => put(answer, &self.node_info(came_by)),
            attribute::PORT_INFO => {
                let port = self.port_meant(came_by, modifier & !KNOWS_EXTENDED_SPEEDS)?;
                // who asks a switch about any port is told by which it came (IBA 14.2.5.6)
                let info = PortInfo {
                    local_port: if self.kind == NodeKind::Switch {
                        came_by
                    } else {
                        port
                    },
                    ..self.port(port).info
                };
                put(answer, &info)
            }
            attribute::SWITCH_INFO => put(answer, &switch?.info),
            attribute::GUID_INFO => {
                let port = self.guid_port(came_by)?;
                let (at, len) = (modifier as usize * 8, self.port(port).guids.len());
                if modifier > 31 || at >= len {
                    return Err(MadStatus::INVALID_FIELD);
                }
                let mut block: [Guid; 8] = std::array::from_fn(|i| {
                    self.port(port)
                        .guids
                        .get(at + i)
                        .copied()
                        .unwrap_or(Guid(0))
                });
                if at == 0 {
                    block[0] = self.guid_of_port(port);
                }
                put(answer, &GuidInfo(block))
            }
            attribute::PKEY_TABLE => {
                let (port, at) = self.pkey_block(came_by, modifier)?;
                let keys = &self.port(port).pkeys[at..at + PKEYS_PER_BLOCK];
                put(answer, &PKeyTable(std::array::from_fn(|i| keys[i])))
            }
            attribute::SL_TO_VL => {
                let (port, input) = self.lanes_meant(came_by, modifier)?;
                put(answer, &SlToVlTable(self.port(port).sl_to_vl[input]))
            }
            attribute::VL_ARBITRATION => {
                let (port, block) = self.arbitration_meant(came_by, modifier)?;
                put(answer, &self.port(port).arbitration[block])
            }
            attribute::LINEAR_FORWARDING => {
                let block = linear_block(modifier)?;
                put(answer, &LinearForwardingBlock(switch?.linear_block(block)))
            }
            attribute::MULTICAST_FORWARDING => {
                let (block, position) = multicast_block(modifier);
                put(answer, &switch?.multicast_block(block, position))
            }
            attribute::MLNX_EXTENDED_PORT_INFO => {
                let port = self.vendor_port(came_by, modifier)?;
                put(answer, &self.port(port).vendor_info)
            }
            _ => Err(MadStatus::UNSUPPORTED_ATTRIBUTE),
        }
    }

    fn set(&mut self, came_by: u8, answer: &mut Smp) -> Result<(), Refused> {
        let modifier = answer.attribute_modifier;
        match answer.attribute {
            attribute::PORT_INFO => {
                let port = self.port_meant(came_by, modifier & !KNOWS_EXTENDED_SPEEDS)?;
                let wanted: PortInfo = read(answer)?;
                let is_switch = self.kind == NodeKind::Switch;
                // PortStateChange is for what nobody has asked for: a Set leaves it as it is (IBA 14.2.5.4)
                self.port_mut(port).set_info(
                    &wanted,
                    is_switch && port == 0,
                    !is_switch || port == 0,
                )?;
            }
            attribute::SWITCH_INFO => {
                let wanted: SwitchInfo = read(answer)?;
                let tables = self
                    .switch
                    .as_mut()
                    .ok_or(MadStatus::UNSUPPORTED_ATTRIBUTE)?;
                let own = &mut tables.info;
                if wanted.linear_fdb_top.0 >= own.linear_fdb_cap {
                    return Err(MadStatus::INVALID_FIELD);
                }
                own.linear_fdb_top = wanted.linear_fdb_top;
                own.default_port = wanted.default_port;
                own.default_multicast_primary_port = wanted.default_multicast_primary_port;
                own.default_multicast_not_primary_port = wanted.default_multicast_not_primary_port;
                own.lifetime = wanted.lifetime;
                own.multicast_fdb_top = wanted.multicast_fdb_top;
                // written 1 to clear
                own.port_state_change &= !wanted.port_state_change;
            }
            attribute::GUID_INFO => {
                let port = self.guid_port(came_by)?;
                let at = modifier as usize * 8;
                let wanted: GuidInfo = read(answer)?;
                let guids = &mut self.port_mut(port).guids;
                let place = guids.get_mut(at..at + 8).filter(|_| modifier <= 31);
                place
                    .ok_or(MadStatus::INVALID_FIELD)?
                    .copy_from_slice(&wanted.0);
            }
            attribute::PKEY_TABLE => {
                let (port, at) = self.pkey_block(came_by, modifier)?;
                let wanted: PKeyTable = read(answer)?;
                self.port_mut(port).pkeys[at..at + PKEYS_PER_BLOCK].copy_from_slice(&wanted.0);
            }
            attribute::SL_TO_VL => {
                let (port, input) = self.lanes_meant(came_by, modifier)?;
                let wanted: SlToVlTable = read(answer)?;
                self.port_mut(port).sl_to_vl[input] = wanted.0;
            }
            attribute::VL_ARBITRATION => {
                let (port, block) = self.arbitration_meant(came_by, modifier)?;
                let wanted: VlArbitrationBlock = read(answer)?;
                self.port_mut(port).arbitration[block] = wanted;
            }
            attribute::LINEAR_FORWARDING => {
                let wanted: LinearForwardingBlock = read(answer)?;
                let block = linear_block(modifier)?;
                let tables = self
                    .switch
                    .as_mut()
                    .ok_or(MadStatus::UNSUPPORTED_ATTRIBUTE)?;
                if !tables.set_linear_block(block, &wanted.0) {
                    return Err(MadStatus::INVALID_FIELD);
                }
            }
            attribute::MULTICAST_FORWARDING => {
                let wanted: MulticastForwardingBlock = read(answer)?;
                let (block, position) = multicast_block(modifier);
                let tables = self
                    .switch
                    .as_mut()
                    .ok_or(MadStatus::UNSUPPORTED_ATTRIBUTE)?;
                if !tables.set_multicast_block(block, position, &wanted.0) {
                    return Err(MadStatus::INVALID_FIELD);
                }
            }
            attribute::MLNX_EXTENDED_PORT_INFO => {
                let port = self.vendor_port(came_by, modifier)?;
                let wanted: MlnxExtendedPortInfo = read(answer)?;
                let own = &mut self.port_mut(port).vendor_info;
                own.link_speed_enabled = wanted.link_speed_enabled & own.link_speed_supported;
            }
            attribute::NODE_INFO | attribute::NODE_DESCRIPTION => {
                return Err(MadStatus::UNSUPPORTED_METHOD);
            }
            _ => return Err(MadStatus::UNSUPPORTED_ATTRIBUTE),
        }
        // a Set is answered with what is there now
        self.get(came_by, answer)
    }

    fn node_info(&self, came_by: u8) -> NodeInfo {
        NodeInfo {
            base_version: 1,
            class_version: 1,
            node_type: match self.kind {
                NodeKind::Ca => NodeType::CA,
                NodeKind::Switch => NodeType::SWITCH,
                NodeKind::Router => NodeType::ROUTER,
            },
            num_ports: self.port_count(),
            system_image_guid: self.system_image,
            node_guid: self.guid,
            port_guid: self.guid_of_port(came_by),
            partition_cap: self.ports[0].pkeys.len() as u16,
            device_id: self.device,
            revision: REVISION,
            local_port: came_by,
            vendor_id: self.vendor,
        }
    }

    /// The port that Mellanox's attribute means. Devices of no maker have none. All others have it: diagnostics go by the number of the device alone, whoever made it, and take an error for a fault of the port.
    fn vendor_port(&self, came_by: u8, modifier: u32) -> Result<u8, Refused> {
        match (self.vendor, self.device) {
            (0, 0) => Err(MadStatus::UNSUPPORTED_ATTRIBUTE),
            _ => self.port_meant(came_by, modifier),
        }
    }

    /// GUIDs belong to an adapter's port, or to a switch's port 0.
    fn guid_port(&self, came_by: u8) -> Result<u8, Refused> {
        match self.kind {
            NodeKind::Switch => Ok(0),
            _ => self.port_meant(came_by, 0),
        }
    }

    /// A switch's modifier names the port in its upper half.
    fn pkey_block(&self, came_by: u8, modifier: u32) -> Result<(u8, usize), Refused> {
        let port = match self.kind {
            NodeKind::Switch => self.port_meant(came_by, modifier >> 16)?,
            _ => self.port_meant(came_by, 0)?,
        };
        let at = (modifier & 0xffff) as usize * PKEYS_PER_BLOCK;
        if at + PKEYS_PER_BLOCK > self.port(port).pkeys.len() {
            return Err(MadStatus::INVALID_FIELD);
        }
        Ok((port, at))
    }

    /// Output port and row; an adapter has one row whatever the modifier says.
    fn lanes_meant(&self, came_by: u8, modifier: u32) -> Result<(u8, usize), Refused> {
        if self.kind != NodeKind::Switch {
            return Ok((self.port_meant(came_by, 0)?, 0));
        }
        let (input, output) = (modifier >> 8 & 0xff, modifier & 0xff);
        let output = self.port_meant(came_by, output)?;
        let input = self.port_meant(came_by, input)?;
        // short ways to write many rows are not offered (OptimizedSLtoVLMappingProgramming is 0)
        if modifier >> 16 != 0 {
            return Err(MadStatus::INVALID_FIELD);
        }
        Ok((output, input.into()))
    }

    fn arbitration_meant(&self, came_by: u8, modifier: u32) -> Result<(u8, usize), Refused> {
        let port = match self.kind {
            NodeKind::Switch => self.port_meant(came_by, modifier & 0xffff)?,
            _ => self.port_meant(came_by, 0)?,
        };
        match modifier >> 16 {
            block @ 1..=4 => Ok((port, block as usize - 1)),
            _ => Err(MadStatus::INVALID_FIELD),
        }
    }
}

fn put<A: Header>(answer: &mut Smp, value: &A) -> Result<(), Refused> {
    answer.set_data(value).map_err(|_| MadStatus::INVALID_FIELD)
}

fn read<A: Header>(request: &Smp) -> Result<A, Refused> {
    request.data_as().map_err(|_| MadStatus::INVALID_FIELD)
}

fn linear_block(modifier: u32) -> Result<u16, Refused> {
    u16::try_from(modifier).map_err(|_| MadStatus::INVALID_FIELD)
}

fn multicast_block(modifier: u32) -> (u16, u8) {
    ((modifier & 0x1ff) as u16, (modifier >> 28) as u8)
}

impl Port {
    /// Whether the key that a request shows lets it in (IBA 14.2.4.1). A wrong one is counted and begins the lease.
    fn admits(&mut self, now: Time, set: bool, shown: MKey) -> bool {
        if self.lease_ends.is_some_and(|ends| ends <= now) {
            self.lease_ends = None;
            self.info.mkey_protect = 0;
        }
        let own = self.info.mkey;
        if own == MKey(0) || shown == own {
            self.lease_ends = None;
            return true;
        }
        // without protection anybody may read; with it as well but for 2 and 3
        if !set && self.info.mkey_protect < 2 {
            return true;
        }
        self.info.mkey_violations = self.info.mkey_violations.saturating_add(1);
        if self.info.mkey_lease_period_s != 0 && self.lease_ends.is_none() {
            let lease = Time::from_ns(u64::from(self.info.mkey_lease_period_s) * 1_000_000_000);
            self.lease_ends = Some(now + lease);
        }
        false
    }

    /// Takes what may be set.
    ///
    /// # Errors
    /// A state that does not follow the present one, or a value that the port has not; then nothing is changed.
    fn set_info(
        &mut self,
        wanted: &PortInfo,
        is_port0: bool,
        has_lid: bool,
    ) -> Result<(), Refused> {
        let own = self.info;
        let state = next_state(&own, wanted, is_port0)?;
        let speeds = match wanted.link_speed_enabled {
            0 => own.link_speed_enabled,
            15 => own.link_speed_supported,
            mask => mask & own.link_speed_supported,
        };
        let extended = match (own.link_speed_ext_supported, wanted.link_speed_ext_enabled) {
            (0, _) => 0,
            (_, 0) => own.link_speed_ext_enabled,
            (_, NO_EXTENDED) => NO_EXTENDED,
            (all, ALL_EXTENDED) => all,
            (all, mask) => mask & all,
        };
        // without any speed there would be no link
        let speeds_known =
            (speeds != 0 || is_port0) && (extended != 0 || own.link_speed_ext_supported == 0);
        let unicast = |lid: Lid| lid.0 < super::node::FIRST_MULTICAST;
        let known = |mask: u8, there: u8| mask & !there == 0 || mask == 0xff;
        if !unicast(wanted.lid)
            || !unicast(wanted.master_sm_lid)
            || !known(wanted.link_width_enabled, own.link_width_supported)
            || !speeds_known
            || wanted.operational_vls > own.vl_cap
            || wanted.neighbor_mtu > own.mtu_cap
        {
            return Err(MadStatus::INVALID_FIELD);
        }
        let keep = |wanted: u8, own: u8| if wanted == 0 { own } else { wanted };
        // a switch has LIDs at port 0 alone; who sets another port may write there what he likes (ibportstate: 0x1234)
        let (lid, lmc, master_sm_lid) = match has_lid {
            true => (wanted.lid, wanted.lmc, wanted.master_sm_lid),
            false => (own.lid, own.lmc, own.master_sm_lid),
        };
        self.info = PortInfo {
            mkey: wanted.mkey,
            gid_prefix: wanted.gid_prefix,
            lid,
            master_sm_lid,
            mkey_lease_period_s: wanted.mkey_lease_period_s,
            link_width_enabled: match wanted.link_width_enabled {
                0 => own.link_width_enabled,
                0xff => own.link_width_supported,
                mask => mask,
            },
            link_speed_enabled: speeds,
            link_speed_ext_enabled: extended,
            link_down_default_state: match wanted.link_down_default_state {
                PhysState::NO_CHANGE => own.link_down_default_state,
                state => state,
            },
            mkey_protect: wanted.mkey_protect,
            lmc,
            neighbor_mtu: keep(wanted.neighbor_mtu, own.neighbor_mtu),
            master_sm_sl: wanted.master_sm_sl,
            vl_high_limit: wanted.vl_high_limit,
            operational_vls: keep(wanted.operational_vls, own.operational_vls),
            vl_stall_count: wanted.vl_stall_count,
            hoq_life: wanted.hoq_life,
            partition_enforcement_inbound: wanted.partition_enforcement_inbound,
            partition_enforcement_outbound: wanted.partition_enforcement_outbound,
            filter_raw_inbound: wanted.filter_raw_inbound,
            filter_raw_outbound: wanted.filter_raw_outbound,
            // counters are set to what is written: 0 clears them
            mkey_violations: wanted.mkey_violations,
            pkey_violations: wanted.pkey_violations,
            qkey_violations: wanted.qkey_violations,
            subnet_timeout: wanted.subnet_timeout,
            multicast_pkey_trap_suppression: wanted.multicast_pkey_trap_suppression,
            local_phy_errors: wanted.local_phy_errors,
            overrun_errors: wanted.overrun_errors,
            client_reregister: wanted.client_reregister,
            state: state.0,
            phys_state: state.1,
            ..own
        };
        Ok(())
    }
}

/// The link's states after a Set (IBA 7.2.7, 14.2.5.6).
fn next_state(
    own: &PortInfo,
    wanted: &PortInfo,
    is_port0: bool,
) -> Result<(PortState, PhysState), Refused> {
    if is_port0 {
        // it has no link
        return Ok((own.state, own.phys_state));
    }
    let has_link = own.phys_state == PhysState::LINK_UP;
    let state = match (wanted.state, own.state) {
        (PortState::NO_CHANGE, _) => own.state,
        (PortState::DOWN, _) => PortState::DOWN,
        (PortState::ARMED, PortState::INIT | PortState::ARMED) => PortState::ARMED,
        (PortState::ACTIVE, PortState::ARMED | PortState::ACTIVE) => PortState::ACTIVE,
        _ => return Err(MadStatus::INVALID_FIELD),
    };
    match wanted.phys_state {
        PhysState::NO_CHANGE if state == PortState::DOWN && has_link => {
            // it is trained anew and is there again
            Ok((PortState::INIT, PhysState::LINK_UP))
        }
        PhysState::NO_CHANGE => Ok((state, own.phys_state)),
        PhysState::DISABLED => Ok((PortState::DOWN, PhysState::DISABLED)),
        PhysState::POLLING if has_link => Ok((PortState::INIT, PhysState::LINK_UP)),
        PhysState::POLLING => Ok((PortState::DOWN, PhysState::POLLING)),
        PhysState::SLEEP => Ok((PortState::DOWN, PhysState::SLEEP)),
        _ => Err(MadStatus::INVALID_FIELD),
    }
}
