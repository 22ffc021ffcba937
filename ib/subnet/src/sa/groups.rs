//! Multicast groups (IBA 15.2.5.17): who joins, who leaves, who is in, and what of each switch's table that makes.
//!
//! Owns the groups; they outlive a sweep. A group lives while it has a full member; its LID is its own from 0xc000 on. Who gives the SM_Key is
//! trusted and hears who is in a group.

use super::paths::{mtu_of, rate, rate_code, rate_of};
use super::records::{end_ports, push};
use super::{Answered, Refused};
use crate::graph::Graph;
use crate::manager::Subnet;
use crate::routing::multicast::{Ports, Tree};
use ferriband_wire::attributes::{
    JoinState, McMemberRecord, McMemberRecordMask as Mask, PortInfo, Selected, Selector, trap,
};
use ferriband_wire::mad::DEFAULT_PKEY;
use ferriband_wire::sa::{SaMad, status};
use ferriband_wire::{Gid, Header, Lid, Mtu, PKey, QKey, Sl, SmKey};
use std::collections::{BTreeMap, BTreeSet};

/// The first LID of a group.
pub const FIRST_MLID: u16 = 0xc000;
/// Groups: as many rows as the least of switches has.
const MOST_GROUPS: u16 = 1024;
/// Members of all groups.
const MOST_MEMBERS: usize = 65_536;
/// 4.096 us * 2^18: about a second.
const LIFETIME: u8 = 18;
/// The scope of a group that the manager names itself: the subnet.
const LINK_SCOPE: u8 = 2;
/// The key of those who may hear who is in a group.
const TRUSTED: SmKey = crate::election::SM_KEY;
/// What a question must give that makes a group (IBA 15.2.5.17.2).
const MAKING: Mask = Mask::QKEY
    .union(Mask::PKEY)
    .union(Mask::SL)
    .union(Mask::FLOW_LABEL)
    .union(Mask::TRAFFIC_CLASS);
/// How one may be a member that gets packets.
const RECEIVES: JoinState = JoinState::FULL_MEMBER.union(JoinState::NON_MEMBER);
/// How one may be a member that keeps the group.
const KEEPS: JoinState = JoinState::FULL_MEMBER.union(JoinState::SEND_ONLY_FULL_MEMBER);

/// What groups' GIDs that a manager chooses begin with, behind flags and scope.
const MANAGERS_NAME: [u8; 2] = [0xa0, 0x1b];
/// Q_Key of IP over InfiniBand's groups where nobody says another.
const IPOIB_QKEY: QKey = QKey(0xb1b);
/// Code of 10 Gbit/s.
const IPOIB_RATE: u8 = 3;
/// Codes of MTUs and rates have six bits.
const MOST_CODE: u8 = 63;

/// A group.
#[derive(Clone, PartialEq, Debug)]
struct Group {
    /// All but the member's part.
    record: McMemberRecord,
    members: BTreeMap<[u8; 16], JoinState>,
    /// The service level that its maker asked for: others who join may ask for that, and hear which it has.
    wanted: Sl,
    /// It is there whether it has members or not.
    stays: bool,
}

/// The service level of a group: its maker's wish, but where packets of hosts need several lanes, or groups one of their own, only one is sure to block nobody.
fn level(subnet: &Subnet, wanted: Sl) -> Sl {
    match subnet.routing.lanes_needed {
        1 => wanted,
        _ => Sl(subnet.routing.groups),
    }
}

/// The group that all of IP over InfiniBand's hosts of the default partition join (RFC 4391, section 4): a manager makes it, of the least that any port can do with 2 KiB packets.
fn broadcast() -> Group {
    let mut mgid = [0; 16];
    mgid[..6].copy_from_slice(&[0xff, 0x12, 0x40, 0x1b, 0xff, 0xff]);
    mgid[12..].fill(0xff);
    Group {
        record: McMemberRecord {
            mgid: Gid(mgid),
            qkey: IPOIB_QKEY,
            mlid: Lid(FIRST_MLID),
            mtu: Selected::exactly(Mtu::M2048 as u8),
            rate: Selected::exactly(IPOIB_RATE),
            packet_lifetime: Selected::exactly(LIFETIME),
            pkey: DEFAULT_PKEY,
            scope: LINK_SCOPE,
            ..McMemberRecord::default()
        },
        members: BTreeMap::new(),
        wanted: Sl(0),
        stays: true,
    }
}

/// The groups, by LID.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Groups {
    all: BTreeMap<u16, Group>,
    /// LIDs of groups whose trees may be others since they were last asked for.
    changed: BTreeSet<u16>,
    /// Groups that were made or are gone since this was last asked, by the number of the trap.
    news: Vec<(u16, Gid)>,
    named: u32,
}

/// A port by its GID.
fn port_of(subnet: &Subnet, gid: Gid) -> Option<&PortInfo> {
    subnet.nodes.iter().find_map(|node| {
        end_ports(node)
            .find(|(number, info)| {
                let guid = node.guids.get(number).copied();
                let guid = guid.unwrap_or(node.info.port_guid);
                Gid::from_prefix_guid(info.gid_prefix, guid) == gid
            })
            .map(|(_, info)| info)
    })
}

/// Where packets for a port leave the last switch; None if no switch is before it.
fn leaving(graph: &Graph, lid: Lid) -> Option<(u32, u8)> {
    let ends = graph.ends().iter();
    let mut ends = ends.filter(|end| end.lid == u32::from(lid.0));
    if let Some(end) = ends.next() {
        return end.attached;
    }
    let mut switches = (0_u32..).zip(graph.switches());
    let found = switches.find(|(_, switch)| switch.lid == u32::from(lid.0));
    found.map(|(index, _)| (index, 0))
}

/// True if a value that is asked for can be had of a group or a port that has `own`.
fn suits(own: u32, asked: Selected, value: u32) -> bool {
    match asked.selector {
        Selector::GreaterThan => own > value,
        Selector::LessThan => own < value,
        Selector::Exactly => own == value,
        Selector::Best => true,
    }
}

/// Whether who makes a group may choose this GID (IBA o15-0.1.6): reserved flags are 0, and a manager's own names are not the link's. IP over InfiniBand has rules of its own.
fn may_be_named(mgid: Gid) -> bool {
    let [_, flags_and_scope, signature @ ..] = mgid.0;
    match [signature[0], signature[1]] {
        [0x40 | 0x60, 0x1b] => true,
        MANAGERS_NAME if flags_and_scope & 0xf == LINK_SCOPE => false,
        _ => flags_and_scope & 0xe0 == 0,
    }
}

impl Default for Groups {
    fn default() -> Groups {
        Groups {
            all: BTreeMap::from([(FIRST_MLID, broadcast())]),
            changed: BTreeSet::new(),
            news: Vec::new(),
            named: 0,
        }
    }
}

impl Groups {
    fn by_gid(&self, mgid: Gid) -> Option<u16> {
        let mut all = self.all.iter();
        all.find(|(_, group)| group.record.mgid == mgid)
            .map(|(mlid, _)| *mlid)
    }

    /// A port joins, and makes the group if it is not there. The answer says what the group is and how the port is a member now.
    pub fn join(&mut self, subnet: &Subnet, asked: &SaMad) -> Result<Answered, Refused> {
        let mask = Mask::from_bits(asked.component_mask).ok_or(status::REQUEST_INVALID)?;
        let wish: McMemberRecord = asked.data_as().map_err(|_| status::REQUEST_INVALID)?;
        if !mask.contains(Mask::PORT_GID | Mask::JOIN_STATE) {
            return Err(status::INSUFFICIENT_COMPONENTS);
        }
        if wish.join_state.is_empty() {
            return Err(status::REQUEST_INVALID);
        }
        let port = port_of(subnet, wish.port_gid).ok_or(status::INVALID_GID)?;
        let named = mask.contains(Mask::MGID) && wish.mgid != Gid([0; 16]);
        if named && !wish.mgid.is_multicast() {
            return Err(status::REQUEST_INVALID);
        }
        let members: usize = self.all.values().map(|group| group.members.len()).sum();
        if members >= MOST_MEMBERS {
            return Err(status::NO_RESOURCES);
        }
        let known = if named { self.by_gid(wish.mgid) } else { None };
        let mlid = match known {
            Some(mlid) => {
                self.all[&mlid].admits(mask, &wish, port)?;
                mlid
            }
            None => {
                let sl = level(subnet, wish.sl);
                self.make(mask, &wish, port, (named, sl))?
            }
        };
        let group = self.all.get_mut(&mlid).ok_or(status::NO_RESOURCES)?;
        let state = group.members.entry(wish.port_gid.0).or_default();
        *state |= wish.join_state;
        self.changed.insert(mlid);
        let record = McMemberRecord {
            port_gid: wish.port_gid,
            join_state: *state,
            ..group.record
        };
        let mut found = Answered::of(McMemberRecord::LEN);
        push(&mut found, &record, &[])?;
        Ok(found)
    }

    fn make(
        &mut self,
        mask: Mask,
        wish: &McMemberRecord,
        port: &PortInfo,
        (named, sl): (bool, Sl),
    ) -> Result<u16, Refused> {
        if !mask.contains(MAKING) {
            return Err(status::INSUFFICIENT_COMPONENTS);
        }
        if named && !may_be_named(wish.mgid) {
            return Err(status::REQUEST_INVALID);
        }
        let partition = |key: PKey| key.0 & 0x7fff;
        if !wish.join_state.intersects(KEEPS) || partition(wish.pkey) != partition(DEFAULT_PKEY) {
            return Err(status::REQUEST_INVALID);
        }
        let value = |bit, asked: Selected, own: u8, of: &dyn Fn(u8) -> u32| {
            // a code that means nothing is no bound
            if mask.contains(bit) && asked.selector != Selector::Best && of(asked.value) == 0 {
                return Err(status::REQUEST_INVALID);
            }
            // the best that the port has of what is asked for
            let right = |code: &u8| {
                of(*code) > 0
                    && of(*code) <= of(own)
                    && (!mask.contains(bit) || suits(of(*code), asked, of(asked.value)))
            };
            let best = (0..=MOST_CODE)
                .filter(right)
                .max_by_key(|code| (of(*code), *code == own));
            let chosen = best.ok_or(status::REQUEST_INVALID)?;
            Ok(Selected::exactly(chosen))
        };
        let mtu = value(Mask::MTU, wish.mtu, port.neighbor_mtu, &mtu_of)?;
        let rate = value(Mask::RATE, wish.rate, rate_code(rate(port)), &rate_of)?;
        let mut free = FIRST_MLID..FIRST_MLID + MOST_GROUPS;
        let mlid = free.find(|mlid| !self.all.contains_key(mlid));
        let mlid = mlid.ok_or(status::NO_RESOURCES)?;
        let mgid = match named {
            true => wish.mgid,
            false => self.name(port.gid_prefix),
        };
        let record = McMemberRecord {
            mgid,
            port_gid: Gid([0; 16]),
            mlid: Lid(mlid),
            mtu,
            rate,
            packet_lifetime: Selected::exactly(LIFETIME),
            pkey: DEFAULT_PKEY,
            scope: mgid.0[1] & 0xf,
            join_state: JoinState::empty(),
            proxy_join: false,
            sl,
            ..*wish
        };
        let members = BTreeMap::new();
        self.news.push((trap::GROUP_MADE, mgid));
        let group = Group {
            record,
            members,
            wanted: wish.sl,
            stays: false,
        };
        self.all.insert(mlid, group);
        Ok(mlid)
    }

    /// A GID for a group that was made without one.
    fn name(&mut self, prefix: u64) -> Gid {
        loop {
            self.named = self.named.wrapping_add(1);
            let mut gid = [0; 16];
            // transient, of the link's scope, and marked as a manager's
            (gid[0], gid[1]) = (0xff, 0x10 | LINK_SCOPE);
            [gid[2], gid[3]] = MANAGERS_NAME;
            gid[4..12].copy_from_slice(&prefix.to_be_bytes());
            gid[12..].copy_from_slice(&self.named.to_be_bytes());
            if self.by_gid(Gid(gid)).is_none() {
                return Gid(gid);
            }
        }
    }

    /// A port leaves, as what it names of its memberships.
    pub fn leave(&mut self, asked: &SaMad) -> Result<Answered, Refused> {
        let mask = Mask::from_bits(asked.component_mask).ok_or(status::REQUEST_INVALID)?;
        let wish: McMemberRecord = asked.data_as().map_err(|_| status::REQUEST_INVALID)?;
        if !mask.contains(Mask::MGID | Mask::PORT_GID | Mask::JOIN_STATE) {
            return Err(status::INSUFFICIENT_COMPONENTS);
        }
        let mlid = self.by_gid(wish.mgid).ok_or(status::REQUEST_INVALID)?;
        let group = self.all.get_mut(&mlid).ok_or(status::REQUEST_INVALID)?;
        let state = group.members.get_mut(&wish.port_gid.0);
        let state = state.ok_or(status::REQUEST_INVALID)?;
        // all that it names, and something (IBA o15-0.1.14)
        if wish.join_state.is_empty() || !state.contains(wish.join_state) {
            return Err(status::REQUEST_INVALID);
        }
        *state = state.difference(wish.join_state);
        let record = McMemberRecord {
            port_gid: wish.port_gid,
            join_state: *state,
            ..group.record
        };
        self.tidy(|_| true);
        self.changed.insert(mlid);
        let mut found = Answered::of(McMemberRecord::LEN);
        push(&mut found, &record, &[])?;
        Ok(found)
    }

    /// Those who are in no way members go, or are not there any more; then groups that nobody keeps.
    fn tidy(&mut self, is_there: impl Fn(Gid) -> bool) {
        for (mlid, group) in &mut self.all {
            let before = group.members.len();
            group
                .members
                .retain(|gid, state| !state.is_empty() && is_there(Gid(*gid)));
            if group.members.len() != before {
                self.changed.insert(*mlid);
            }
        }
        let kept = |group: &Group| {
            group.stays || group.members.values().any(|state| state.intersects(KEEPS))
        };
        let news = &mut self.news;
        self.all.retain(|_, group| {
            let kept = kept(group);
            if !kept {
                news.push((trap::GROUP_GONE, group.record.mgid));
            }
            kept
        });
    }

    /// Groups that were made or are gone since this was last asked, by the number of the trap.
    pub fn take_news(&mut self) -> Vec<(u16, Gid)> {
        std::mem::take(&mut self.news)
    }

    /// Routes are known: groups have the service levels that go with them. Who has joined before goes on with the one that was true then.
    pub fn levels(&mut self, subnet: &Subnet) {
        for group in self.all.values_mut() {
            group.record.sl = level(subnet, group.wanted);
        }
    }

    /// The subnet is another: ports that are gone are no members, and all trees are to be made anew.
    pub fn renew(&mut self, subnet: &Subnet) {
        self.levels(subnet);
        self.tidy(|gid| port_of(subnet, gid).is_some());
        self.changed.extend(self.all.keys());
    }

    /// The records that a question means.
    pub fn find(&self, asked: &SaMad) -> Result<Answered, Refused> {
        let mask = Mask::from_bits(asked.component_mask).ok_or(status::REQUEST_INVALID)?;
        let wish: McMemberRecord = asked.data_as().map_err(|_| status::REQUEST_INVALID)?;
        let mut found = Answered::of(McMemberRecord::LEN);
        let members = mask.contains(Mask::PORT_GID) || asked.sm_key == TRUSTED;
        for group in self
            .all
            .values()
            .filter(|group| group.is_meant(mask, &wish))
        {
            if !members {
                push(&mut found, &group.record, &[])?;
                continue;
            }
            for (gid, state) in &group.members {
                let other = mask.contains(Mask::PORT_GID) && wish.port_gid.0 != *gid
                    || mask.contains(Mask::JOIN_STATE) && !state.contains(wish.join_state);
                if other {
                    continue;
                }
                let record = McMemberRecord {
                    port_gid: Gid(*gid),
                    join_state: *state,
                    ..group.record
                };
                push(&mut found, &record, &[])?;
            }
        }
        Ok(found)
    }

    /// The highest LID of a group.
    pub fn top(&self) -> Option<u16> {
        self.all.keys().max().copied()
    }

    /// Groups whose trees may be others since this was last asked: LID, and for each switch its row; empty rows for a group that is gone.
    pub fn take_changed(&mut self, subnet: &Subnet) -> Vec<(u16, Vec<Ports>)> {
        let changed = std::mem::take(&mut self.changed);
        if changed.is_empty() || subnet.graph.switches().is_empty() {
            return Vec::new();
        }
        let tree = Tree::new(&subnet.graph);
        let rows = changed.into_iter().map(|mlid| {
            let group = self.all.get(&mlid);
            (
                mlid,
                group.map_or_else(
                    || vec![[0; 4]; subnet.graph.switches().len()],
                    |group| group.rows(subnet, &tree),
                ),
            )
        });
        rows.collect()
    }
}

impl Group {
    /// Whether a port may join as it says.
    fn admits(&self, mask: Mask, wish: &McMemberRecord, port: &PortInfo) -> Result<(), Refused> {
        let able = mtu_of(port.neighbor_mtu) >= mtu_of(self.record.mtu.value)
            && rate(port) >= rate_of(self.record.rate.value);
        let wish = &McMemberRecord {
            sl: match wish.sl == self.wanted {
                true => self.record.sl,
                false => wish.sl,
            },
            ..*wish
        };
        match able && self.is_meant(mask, wish) {
            true => Ok(()),
            false => Err(status::REQUEST_INVALID),
        }
    }

    /// Whether the group is as a question says, its members left aside.
    fn is_meant(&self, mask: Mask, wish: &McMemberRecord) -> bool {
        let own = &self.record;
        let given = |bit, same: bool| !mask.contains(bit) || same;
        let partition = |key: PKey| key.0 & 0x7fff;
        given(Mask::MGID, own.mgid == wish.mgid)
            && given(Mask::QKEY, own.qkey == wish.qkey)
            && given(Mask::MLID, own.mlid == wish.mlid)
            && given(Mask::PKEY, partition(own.pkey) == partition(wish.pkey))
            && given(Mask::TRAFFIC_CLASS, own.traffic_class == wish.traffic_class)
            && given(Mask::SL, own.sl == wish.sl)
            && given(Mask::FLOW_LABEL, own.flow_label == wish.flow_label)
            && given(Mask::HOP_LIMIT, own.hop_limit == wish.hop_limit)
            && given(Mask::SCOPE, own.scope == wish.scope)
            && given(
                Mask::MTU,
                suits(mtu_of(own.mtu.value), wish.mtu, mtu_of(wish.mtu.value)),
            )
            && given(
                Mask::RATE,
                suits(rate_of(own.rate.value), wish.rate, rate_of(wish.rate.value)),
            )
    }

    /// The rows of its tree. Who only sends is led into the tree, and gets nothing.
    fn rows(&self, subnet: &Subnet, tree: &Tree) -> Vec<Ports> {
        let members = self.members.iter().filter_map(|(gid, state)| {
            let port = port_of(subnet, Gid(*gid))?;
            Some((leaving(&subnet.graph, port.lid)?, *state))
        });
        let members: Vec<_> = members.collect();
        let all: Vec<_> = members.iter().map(|(at, _)| *at).collect();
        let mut rows = tree.rows(&all);
        let deaf = members
            .iter()
            .filter(|(_, state)| !state.intersects(RECEIVES));
        for ((switch, port), _) in deaf {
            if let Some(row) = rows.get_mut(*switch as usize) {
                row[usize::from(*port / 64)] &= !(1 << (*port % 64));
            }
        }
        rows
    }
}
