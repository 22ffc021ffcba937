//! What a node is and was told: the values behind the attributes of subnet management (IBA 14.2.5).

use ferriband_topology as paper;
use ferriband_topology::{Link, NodeKind};
use ferriband_wire::attributes::{
    MlnxExtendedPortInfo, MulticastForwardingBlock, NodeDescription, PhysState, PortCapabilities,
    PortInfo, PortState, SwitchInfo, VlArbitrationBlock, VlWeight,
};
use ferriband_wire::{Guid, Lid, Mtu, PKey, Sl, TimeCode, Vl};

use super::training::{speed_bits, vendor_bit, width_bits};
use crate::Time;

/// Lanes for data of every port: 8, which is code 4 of VLCap.
const DATA_VLS: u8 = 8;
const VL_CAP: u8 = 4;
/// Entries of each table of the VL arbiter.
const ARBITER_ENTRIES: u8 = 32;
/// Partition keys of a port.
const PKEYS: usize = 32;
/// GUIDs of an adapter's port.
const GUIDS: usize = 8;
/// Multicast LIDs that a switch has rows for.
const MULTICAST_ROWS: u16 = 4096;
/// Unicast LIDs that a switch has entries for.
const LINEAR_ENTRIES: u16 = 0xc000;
/// The subnet prefix of ports that nobody has given another (IBA 4.1.1).
const DEFAULT_PREFIX: u64 = 0xfe80_0000_0000_0000;

/// A port's state. Index 0 of a switch is the port of its own agents; that of an adapter is not used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// What PortInfo says.
    pub info: PortInfo,
    /// What Mellanox's devices say beside it.
    pub vendor_info: MlnxExtendedPortInfo,
    /// Its partition keys; 0 for an unused entry.
    pub pkeys: Box<[PKey]>,
    /// Its GUIDs beyond the first; 0 for an unused entry.
    pub guids: Box<[Guid]>,
    /// For each input, the lane of each service level. An adapter has one row.
    pub sl_to_vl: Box<[[Vl; 16]]>,
    /// The tables of the VL arbiter: two blocks of low priority, two of high.
    pub arbitration: [VlArbitrationBlock; 4],
    /// What it has counted.
    pub counters: super::Counters,
    /// When the protection of its management key lapses.
    pub(super) lease_ends: Option<Time>,
    /// Packets with errors of late, less those without that came since.
    pub(super) recent_errors: u8,
}

/// The tables of a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchTables {
    /// What SwitchInfo says.
    pub info: SwitchInfo,
    /// For each LID the port; as long as what was written.
    linear: Vec<u8>,
    /// For each multicast LID and each 16 ports a mask; as many rows as were written.
    multicast: Vec<[u16; 16]>,
}

impl SwitchTables {
    /// The port for a unicast LID; None if it has none.
    pub fn port_of(&self, lid: Lid) -> Option<u8> {
        let port = *self.linear.get(usize::from(lid.0))?;
        (lid.0 <= self.info.linear_fdb_top.0 && port != NO_PORT).then_some(port)
    }

    /// 64 entries from `lid` on.
    pub fn linear_block(&self, block: u16) -> [u8; 64] {
        let at = usize::from(block) * 64;
        let mut out = [NO_PORT; 64];
        let there = self.linear.get(at..).unwrap_or_default();
        for (out, port) in out.iter_mut().zip(there) {
            *out = *port;
        }
        out
    }

    /// Writes them. False for a block that a switch has not.
    pub fn set_linear_block(&mut self, block: u16, ports: &[u8; 64]) -> bool {
        let at = usize::from(block) * 64;
        if at + 64 > usize::from(LINEAR_ENTRIES) {
            return false;
        }
        if self.linear.len() < at + 64 {
            self.linear.resize(at + 64, NO_PORT);
        }
        self.linear[at..at + 64].copy_from_slice(ports);
        true
    }

    /// The ports that get a copy of what goes to a multicast LID, as a mask for each 16 of them.
    pub fn copies(&self, lid: Lid) -> [u16; 16] {
        let row = lid.0.checked_sub(FIRST_MULTICAST).map(usize::from);
        let row = row.and_then(|row| self.multicast.get(row));
        row.copied().unwrap_or_default()
    }

    /// 32 rows of a column of 16 ports.
    pub fn multicast_block(&self, block: u16, position: u8) -> MulticastForwardingBlock {
        let at = usize::from(block) * 32;
        let mut out = [0; 32];
        let there = self.multicast.get(at..).unwrap_or_default();
        for (out, row) in out.iter_mut().zip(there) {
            *out = row[usize::from(position & 15)];
        }
        MulticastForwardingBlock(out)
    }

    /// Writes them. False for a block that a switch has not.
    pub fn set_multicast_block(&mut self, block: u16, position: u8, ports: &[u16; 32]) -> bool {
        let at = usize::from(block) * 32;
        if at + 32 > usize::from(MULTICAST_ROWS) {
            return false;
        }
        if self.multicast.len() < at + 32 {
            self.multicast.resize(at + 32, [0; 16]);
        }
        for (row, mask) in self.multicast[at..].iter_mut().zip(ports) {
            row[usize::from(position & 15)] = *mask;
        }
        true
    }
}

/// No port, in a linear forwarding table.
const NO_PORT: u8 = ferriband_wire::attributes::LinearForwardingBlock::NO_PORT;
/// The first LID of a group.
pub(super) const FIRST_MULTICAST: u16 = 0xc000;

/// A node's state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// What it calls itself.
    pub description: NodeDescription,
    /// GUID of the chassis or machine that it is a part of.
    pub system_image: Guid,
    /// Its maker.
    pub vendor: u32,
    /// Its maker's number of the device.
    pub device: u16,
    /// Node GUID.
    pub guid: Guid,
    /// GUID of its first port, or of a switch's port 0.
    pub port_guid: Guid,
    /// Its ports from 0 on.
    pub ports: Vec<Port>,
    /// A switch's tables.
    pub switch: Option<SwitchTables>,
    /// Its part in congestion control.
    pub congestion: super::Congestion,
}

impl Node {
    /// The node as it is when it has just been switched on; `link` says how good the cable in each port is, if there is one.
    pub fn new(node: &paper::Node, link: impl Fn(u8) -> Option<Link>) -> Node {
        let is_switch = node.kind == NodeKind::Switch;
        let inputs = if is_switch {
            usize::from(node.ports) + 1
        } else {
            1
        };
        let ports = (0..=node.ports).map(|port| {
            let mut made = Port::new(port, link(port), inputs);
            if is_switch && port == 0 {
                made.begin_as_port0();
            }
            if is_switch && port > 0 {
                // what is known of a switch as a whole is known of its port 0
                made.info.capabilities = PortCapabilities::empty();
                made.info.guid_cap = 0;
            }
            made
        });
        Node {
            kind: node.kind,
            description: NodeDescription::new(node.description()),
            system_image: node.plate.system_image.unwrap_or(node.guid),
            vendor: node.plate.vendor,
            device: node.plate.device,
            guid: node.guid,
            port_guid: node.port_guid,
            ports: ports.collect(),
            congestion: super::Congestion::new(node.kind, usize::from(node.ports) + 1),
            switch: is_switch.then(|| SwitchTables {
                info: SwitchInfo {
                    linear_fdb_cap: LINEAR_ENTRIES,
                    multicast_fdb_cap: MULTICAST_ROWS,
                    lifetime: TimeCode(20),
                    enhanced_port0: node.enhanced_port0,
                    ..SwitchInfo::default()
                },
                linear: Vec::new(),
                multicast: Vec::new(),
            }),
        }
    }

    /// GUID of a port.
    pub fn guid_of_port(&self, port: u8) -> Guid {
        match self.kind {
            NodeKind::Switch => self.port_guid,
            _ => Guid(self.port_guid.0 + u64::from(port.max(1)) - 1),
        }
    }

    /// External ports.
    pub fn port_count(&self) -> u8 {
        (self.ports.len() - 1) as u8
    }

    /// The port that a LID means: an adapter's own, or a switch's port 0.
    pub fn port_of_lid(&self, lid: Lid) -> Option<u8> {
        let owns = |port: &Port| {
            let base = port.info.lid.0;
            base != 0
                && lid
                    .0
                    .checked_sub(base)
                    .is_some_and(|at| at < 1 << port.info.lmc)
        };
        let mut ports = (0_u8..=254).zip(&self.ports);
        match self.kind {
            NodeKind::Switch => ports.next().filter(|(_, port)| owns(port)),
            _ => ports.skip(1).find(|(_, port)| owns(port)),
        }
        .map(|(number, _)| number)
    }

    /// Its link came up or went down; false if it is as it was.
    pub fn link_changes(&mut self, port: u8, up: bool) -> bool {
        let Some(changed) = self.ports.get_mut(usize::from(port)) else {
            return false;
        };
        let info = &mut changed.info;
        let (state, phys) = match (up, info.phys_state) {
            (_, PhysState::DISABLED) => return false,
            (true, _) => (PortState::INIT, PhysState::LINK_UP),
            (false, _) => (PortState::DOWN, PhysState::POLLING),
        };
        if (info.state, info.phys_state) == (state, phys) {
            return false;
        }
        (info.state, info.phys_state) = (state, phys);
        changed.counters.link_downed += u64::from(!up);
        if let Some(switch) = &mut self.switch {
            switch.info.port_state_change = true;
        }
        true
    }
}

impl Port {
    fn new(number: u8, link: Option<Link>, inputs: usize) -> Port {
        let up = link.is_some();
        let best = link.unwrap_or_default();
        let (speed, extended) = speed_bits(best.speed);
        let info = PortInfo {
            gid_prefix: DEFAULT_PREFIX,
            capabilities: PortCapabilities::TRAP
                | PortCapabilities::AUTOMATIC_MIGRATION
                | PortCapabilities::SL_MAPPING
                | PortCapabilities::EXTENDED_SPEEDS
                | PortCapabilities::COMMUNICATION_MANAGEMENT
                | PortCapabilities::CLIENT_REREGISTRATION,
            local_port: number,
            link_width_enabled: width_bits(best.width),
            link_width_supported: width_bits(best.width),
            link_width_active: best.width.bit(),
            link_speed_supported: speed_mask(speed),
            link_speed_active: speed,
            link_speed_enabled: speed_mask(speed),
            link_speed_ext_active: extended,
            link_speed_ext_supported: extended_mask(extended),
            link_speed_ext_enabled: extended_mask(extended),
            state: if up { PortState::INIT } else { PortState::DOWN },
            phys_state: if up {
                PhysState::LINK_UP
            } else {
                PhysState::POLLING
            },
            link_down_default_state: PhysState::POLLING,
            neighbor_mtu: Mtu::M4096 as u8,
            vl_cap: VL_CAP,
            vl_arbitration_high_cap: ARBITER_ENTRIES,
            vl_arbitration_low_cap: ARBITER_ENTRIES,
            mtu_cap: Mtu::M4096 as u8,
            operational_vls: VL_CAP,
            guid_cap: GUIDS as u8,
            subnet_timeout: TimeCode(18),
            response_time: TimeCode(16),
            local_phy_errors: 8,
            overrun_errors: 8,
            master_sm_sl: Sl(0),
            // 4 ns a unit, both ways
            link_round_trip_latency: (best.latency_ns / 2).min(0xff_ffff),
            ..PortInfo::default()
        };
        let fdr10 = vendor_bit(best.speed);
        let mut pkeys = vec![PKey(0); PKEYS].into_boxed_slice();
        pkeys[0] = ferriband_wire::mad::DEFAULT_PKEY;
        let lanes = std::array::from_fn(|sl| Vl(sl as u8 % DATA_VLS));
        Port {
            info,
            vendor_info: MlnxExtendedPortInfo {
                state_change_enable: 0,
                link_speed_supported: fdr10,
                link_speed_enabled: fdr10,
                link_speed_active: fdr10,
            },
            pkeys,
            guids: vec![Guid(0); GUIDS].into(),
            sl_to_vl: vec![lanes; inputs].into(),
            arbitration: default_arbitration(),
            counters: super::Counters::default(),
            lease_ends: None,
            recent_errors: 0,
        }
    }

    /// A switch's port 0 has no link: it is always there.
    fn begin_as_port0(&mut self) {
        self.info.state = PortState::ACTIVE;
        self.info.phys_state = PhysState::LINK_UP;
        self.info.vl_cap = 1;
        self.info.operational_vls = 1;
    }

    /// Data lanes in use.
    pub fn data_vls(&self) -> u8 {
        match self.info.operational_vls {
            0 | 1 => 1,
            2 => 2,
            3 => 4,
            4 => 8,
            _ => 15,
        }
    }
}

/// All lanes alike, in the table of low priority.
fn default_arbitration() -> [VlArbitrationBlock; 4] {
    let mut blocks = [VlArbitrationBlock::default(); 4];
    for (vl, entry) in (0..DATA_VLS).zip(&mut blocks[0].0) {
        *entry = VlWeight {
            vl: Vl(vl),
            weight: 64,
        };
    }
    blocks
}

fn speed_mask(active: u8) -> u8 {
    (active << 1) - 1
}

fn extended_mask(active: u8) -> u8 {
    match active {
        0 => 0,
        active => (active << 1) - 1,
    }
}
