//! Discovery: from port to port, breadth first, by directed routes.
//!
//! Owns what is known of each node and by which ports it is reached. A cable is gone along once: whoever is at its other end says by which
//! port the question came.

use crate::graph::{Found, FoundPort};
use ferriband_wire::Guid;
use ferriband_wire::attributes::{
    NodeDescription, NodeInfo, NodeType, PhysState, PortInfo, PortState, SwitchInfo,
};
use ferriband_wire::mad::{AttributeId, Method};
use ferriband_wire::smp::{DirectedRoute, MAX_HOPS, Route, Smp, attribute};
use std::collections::BTreeMap;

/// What an answer tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Finding {
    /// Who is there, behind a port of a known node; None: at the manager itself.
    Who(Option<(usize, u8)>),
    /// What a switch can do.
    Switch(usize),
    /// A port's state.
    Port(usize, u8),
    /// What a node is called.
    Name(usize),
}

/// What is known of a node.
#[derive(Debug)]
pub(super) struct Seen {
    pub info: NodeInfo,
    /// The ports to leave by, from the manager on.
    pub path: Vec<u8>,
    pub switch: Option<SwitchInfo>,
    description: Option<NodeDescription>,
    /// By number.
    pub ports: BTreeMap<u8, PortInfo>,
    /// GUIDs of an adapter's ports, as each was met.
    pub guids: BTreeMap<u8, Guid>,
    links: BTreeMap<u8, (usize, u8)>,
}

#[derive(Debug)]
pub(super) struct Discovery {
    port: u8,
    pub nodes: Vec<Seen>,
    by_guid: BTreeMap<u64, usize>,
}

impl Discovery {
    pub fn new(port: u8) -> Self {
        Discovery {
            port,
            nodes: Vec::new(),
            by_guid: BTreeMap::new(),
        }
    }

    pub fn begin(&mut self) -> Option<(Smp, Finding)> {
        ask(&[], attribute::NODE_INFO, 0).map(|smp| (smp, Finding::Who(None)))
    }

    /// Whom a question was about.
    pub fn guid_of(&self, finding: Finding) -> Option<Guid> {
        match finding {
            Finding::Who(_) => None,
            Finding::Switch(node) | Finding::Port(node, _) | Finding::Name(node) => {
                Some(self.nodes[node].info.node_guid)
            }
        }
    }

    /// Takes an answer; gives what is to be asked next.
    pub fn answered(&mut self, finding: Finding, smp: &Smp) -> Vec<(Smp, Finding)> {
        match finding {
            Finding::Who(behind) => match smp.data_as::<NodeInfo>() {
                Ok(info) => self.met(behind, &info),
                Err(_) => Vec::new(),
            },
            Finding::Switch(node) => {
                self.nodes[node].switch = smp.data_as().ok();
                Vec::new()
            }
            Finding::Name(node) => {
                self.nodes[node].description = smp.data_as().ok();
                Vec::new()
            }
            Finding::Port(node, port) => match smp.data_as::<PortInfo>() {
                Ok(info) => self.port_is(node, port, info),
                Err(_) => Vec::new(),
            },
        }
    }

    fn met(&mut self, behind: Option<(usize, u8)>, info: &NodeInfo) -> Vec<(Smp, Finding)> {
        let known = self.by_guid.get(&info.node_guid.0).copied();
        let here = known.unwrap_or(self.nodes.len());
        let is_switch = info.node_type == NodeType::SWITCH;
        let path = match behind {
            None => Vec::new(),
            Some((node, port)) => [&self.nodes[node].path[..], &[port]].concat(),
        };
        if known.is_none() {
            self.by_guid.insert(info.node_guid.0, here);
            self.nodes.push(Seen {
                info: *info,
                path: path.clone(),
                switch: None,
                description: None,
                ports: BTreeMap::new(),
                guids: BTreeMap::new(),
                links: BTreeMap::new(),
            });
        }
        if !is_switch {
            self.nodes[here]
                .guids
                .insert(info.local_port, info.port_guid);
        }
        if let Some((node, port)) = behind {
            // the first that says so is right: a cable has two ends
            let (there, back) = ((node, port), (here, info.local_port));
            let free = !self.nodes[node].links.contains_key(&port)
                && !self.nodes[here].links.contains_key(&info.local_port);
            if free && there != back {
                self.nodes[node].links.insert(port, back);
                self.nodes[here].links.insert(info.local_port, there);
            }
        }
        let mut next = Vec::new();
        let mut want = |attribute, modifier: u8, finding| {
            let asked = ask(&path, attribute, modifier.into());
            next.extend(asked.map(|smp| (smp, finding)));
        };
        if known.is_none() {
            want(attribute::NODE_DESCRIPTION, 0, Finding::Name(here));
        }
        match (is_switch, known.is_none()) {
            (true, true) => {
                want(attribute::SWITCH_INFO, 0, Finding::Switch(here));
                for port in 0..=info.num_ports {
                    want(attribute::PORT_INFO, port, Finding::Port(here, port));
                }
            }
            (true, false) => {}
            (false, _) => {
                let port = info.local_port;
                want(attribute::PORT_INFO, port, Finding::Port(here, port));
            }
        }
        next
    }

    fn port_is(&mut self, node: usize, port: u8, info: PortInfo) -> Vec<(Smp, Finding)> {
        let has_link = info.state != PortState::DOWN && info.phys_state == PhysState::LINK_UP;
        let seen = &mut self.nodes[node];
        seen.ports.insert(port, info);
        let is_switch = seen.info.node_type == NodeType::SWITCH;
        // an adapter passes nothing on; the manager's own sends by its port
        let leads_on = match is_switch {
            true => port != 0,
            false => node == 0 && port == self.port,
        };
        if !has_link || !leads_on || seen.links.contains_key(&port) {
            return Vec::new();
        }
        let path = [&seen.path[..], &[port]].concat();
        let who = ask(&path, attribute::NODE_INFO, 0);
        let finding = Finding::Who(Some((node, port)));
        who.map(|smp| (smp, finding)).into_iter().collect()
    }

    /// What nodes say of themselves, the manager's own first.
    pub fn known(&self) -> Vec<super::Known> {
        let known = self.nodes.iter().map(|seen| super::Known {
            info: seen.info,
            description: seen.description,
            switch: seen.switch,
            ports: seen.ports.clone(),
            guids: seen.guids.clone(),
            path: seen.path.clone(),
        });
        known.collect()
    }

    /// What was found, the manager's own node first.
    pub fn found(&self) -> Vec<Found> {
        let nodes = self.nodes.iter().map(|seen| {
            let switch = match seen.info.node_type {
                NodeType::SWITCH => Some(seen.switch.is_some_and(|info| info.enhanced_port0)),
                _ => None,
            };
            let ports = seen.ports.keys().filter_map(|number| {
                let peer = seen.links.get(number).copied();
                let guid = match switch {
                    Some(_) => seen.info.port_guid,
                    None => *seen.guids.get(number)?,
                };
                Some(FoundPort {
                    number: *number,
                    guid,
                    lid: 0,
                    lmc: 0,
                    peer,
                })
            });
            Found {
                guid: seen.info.node_guid,
                system: seen.info.system_image_guid,
                switch,
                ports: ports.collect(),
            }
        });
        nodes.collect()
    }
}

/// A question by a list of ports; None if there is no room for more hops.
fn ask(path: &[u8], attribute: AttributeId, modifier: u32) -> Option<Smp> {
    request(path, Method::GET, attribute, modifier)
}

pub(super) fn request(
    path: &[u8],
    method: Method,
    attribute: AttributeId,
    modifier: u32,
) -> Option<Smp> {
    if path.len() > usize::from(MAX_HOPS) {
        return None;
    }
    Some(Smp {
        route: Route::Directed(DirectedRoute::new(path).ok()?),
        ..Smp::new(method, attribute, modifier)
    })
}
