//! Where nodes lie in memory: a switch beside its hosts, small neighbours together, so that what happens at one group of nodes looks at memory of its own.

use super::{Plan, PlanError, PlanNode};
use crate::windows::ROOM_BITS;

/// Switches are put together until their groups have so many ports, their hosts' among them.
pub(super) const FEW_PORTS: u32 = 256;

/// The place of each port.
pub(super) struct Layout {
    /// By node: the place of its port 0, or where that would be.
    pub bases: Vec<u32>,
    /// Nodes in the order of their places.
    pub order: Vec<u32>,
    /// By place, [`ROOM_BITS`] less: the group.
    pub groups: Vec<u16>,
    /// Places, with those that are nobody's.
    pub count: u32,
}

impl Layout {
    /// Lays nodes out, in groups of no less than `few` ports; `hosts_switch` is the switch of each adapter that has one. Groups end between a level of switches and another, too.
    ///
    /// # Errors
    /// More ports than can be counted.
    pub fn new(
        nodes: &[PlanNode],
        hosts_switch: &[Option<u32>],
        levels: Option<&[bool]>,
        few: u32,
    ) -> Result<Layout, PlanError> {
        let mut hosts = vec![Vec::new(); nodes.len()];
        let mut alone = Vec::new();
        let mut total = 0u32;
        for (node, what) in (0u32..).zip(nodes) {
            let ports = match what {
                PlanNode::Switch(ports) => u32::from(*ports) + 1,
                PlanNode::Adapter(_) => {
                    match hosts_switch[node as usize] {
                        Some(switch) => hosts[switch as usize].push(node),
                        None => alone.push(node),
                    }
                    1
                }
            };
            total = total.checked_add(ports).ok_or(PlanError::TooLarge)?;
        }
        let enough = few.max(total / (1 << 15));
        let room = 1 << ROOM_BITS;
        let mut made = Layout {
            bases: vec![0; nodes.len()],
            order: Vec::with_capacity(nodes.len()),
            groups: Vec::new(),
            // the first place is nobody's
            count: 1,
        };
        let (mut group, mut begun) = (0u16, 0);
        let mut level = None;
        let switches = (0u32..)
            .zip(nodes)
            .filter(|(_, what)| matches!(what, PlanNode::Switch(_)));
        for (switch, what) in switches {
            let own = levels.and_then(|levels| levels.get(switch as usize));
            let another = level.replace(own).is_some_and(|level| level != own);
            if made.count - begun >= enough || another {
                made.count = made
                    .count
                    .checked_next_multiple_of(room)
                    .ok_or(PlanError::TooLarge)?;
                made.groups.resize((made.count / room) as usize, group);
                (group, begun) = (group + 1, made.count);
            }
            made.place(switch, *what)?;
            for &host in &hosts[switch as usize] {
                made.place(host, nodes[host as usize])?;
            }
        }
        // these have links to each other, if any
        for host in alone {
            made.place(host, nodes[host as usize])?;
        }
        made.groups
            .resize(made.count.div_ceil(room) as usize, group);
        Ok(made)
    }

    fn place(&mut self, node: u32, what: PlanNode) -> Result<(), PlanError> {
        let (base, ports) = match what {
            PlanNode::Switch(ports) => (self.count, u32::from(ports) + 1),
            // an adapter has no port 0: the place is another port's
            PlanNode::Adapter(_) => (self.count - 1, 1),
        };
        self.bases[node as usize] = base;
        self.order.push(node);
        self.count = self.count.checked_add(ports).ok_or(PlanError::TooLarge)?;
        Ok(())
    }
}

/// By node: the switch at the other end of an adapter's link.
pub(super) fn switches_of_hosts(plan: &Plan) -> Vec<Option<u32>> {
    let mut switches = vec![None; plan.nodes.len()];
    for link in &plan.links {
        let [(one, _), (other, _)] = link.ends;
        for (host, switch) in [(one, other), (other, one)] {
            if let (Some(PlanNode::Adapter(_)), Some(PlanNode::Switch(_))) = (
                plan.nodes.get(host as usize),
                plan.nodes.get(switch as usize),
            ) {
                switches[host as usize] = Some(switch);
            }
        }
    }
    switches
}

/// By node: which of two levels a switch is of, if no link is between two of one level, and switches of a level mostly follow each other.
pub(super) fn levels(plan: &Plan) -> Option<Vec<bool>> {
    let is_switch = |node: u32| matches!(plan.nodes.get(node as usize), Some(PlanNode::Switch(_)));
    let mut joined = vec![Vec::new(); plan.nodes.len()];
    for [(one, _), (other, _)] in plan.links.iter().map(|link| link.ends) {
        if is_switch(one) && is_switch(other) {
            joined[one as usize].push(other);
            joined[other as usize].push(one);
        }
    }
    let levels = two_colours(&joined)?;
    let mut switches = Vec::new();
    for (node, level) in (0u32..).zip(&levels) {
        if is_switch(node) {
            switches.push(*level);
        }
    }
    let changes = switches.windows(2).filter(|two| two[0] != two[1]).count();
    (changes * 8 <= switches.len()).then_some(levels)
}

/// Two colours for what is joined so, in both directions, so that none is joined with another of its own; none if that cannot be.
pub(super) fn two_colours(joined: &[Vec<u32>]) -> Option<Vec<bool>> {
    let mut colours = vec![None; joined.len()];
    for first in 0..joined.len() {
        if colours[first].is_some() {
            continue;
        }
        colours[first] = Some(false);
        let mut reached = vec![first];
        while let Some(own) = reached.pop() {
            let colour = colours[own].is_some_and(|colour: bool| !colour);
            for &other in &joined[own] {
                match colours[other as usize] {
                    Some(known) if known != colour => return None,
                    Some(_) => {}
                    None => {
                        colours[other as usize] = Some(colour);
                        reached.push(other as usize);
                    }
                }
            }
        }
    }
    colours.into_iter().collect()
}
