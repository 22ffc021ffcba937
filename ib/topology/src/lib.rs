//! A fabric on paper: which nodes there are, which of their ports a cable joins, and how good the cable is.
//!
//! Owns the description, its checks ([`Builder::finish`]), the files that people keep it in ([`mod@toml`], [`netlist`]), well-known shapes ([`generate`]). Must not know packets, LIDs nor routes: a subnet manager finds those out by itself, over the links.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod generate;
mod link;
pub mod netlist;
pub mod toml;

use ferriband_wire::Guid;
use std::collections::BTreeMap;
use std::fmt;

pub use link::{Link, Speed, Width};

/// Most external ports of a node: port numbers have eight bits, 255 stands for "dropped" (IBA 14.2.5.4, 18.2.4.3).
pub const MOST_PORTS: u8 = 254;
/// Most nodes that a description may have: bounds what a file can make us allocate.
pub const MOST_NODES: usize = 1 << 21;
/// Longest name: what fits a NodeDescription (IBA 14.2.5.2).
pub const NAME_BYTES: usize = 64;
/// Where numbering begins for nodes that name no GUID: channel adapters and switches, as ibsim counts them.
const FIRST_GUIDS: [u64; 3] = [0x10_0000, 0x20_0000, 0x30_0000];

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum NodeKind {
    /// A host's channel adapter.
    Ca,
    /// A switch.
    Switch,
    /// A router: takes part as an end node does.
    Router,
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeKind::Ca => "Ca",
            NodeKind::Switch => "Switch",
            NodeKind::Router => "Rt",
        })
    }
}

/// Index of a node in [`Topology::nodes`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(pub u32);

/// A port of a node; external ports count from 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PortId {
    /// The node.
    pub node: NodeId,
    /// Its port, 1 ..= `ports`.
    pub port: u8,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// Its name, one of its kind in the fabric; its NodeDescription, if it says no other.
    pub name: String,
    /// External ports.
    pub ports: u8,
    /// Its node GUID.
    pub guid: Guid,
    /// GUID of its first port: a switch's is that of its port 0, others count on from here.
    pub port_guid: Guid,
    /// A switch's port 0 is an enhanced one, which can send and receive data.
    pub enhanced_port0: bool,
    /// What it says of itself and its maker.
    pub plate: Plate,
}

/// What a node says of itself and its maker in NodeDescription and NodeInfo (IBA 14.2.5.2, 14.2.5.3).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plate {
    /// Its NodeDescription, where that is not its name: makers call all their switches the same.
    pub description: Option<String>,
    /// GUID of the chassis or machine that it is a part of; None: its own node GUID.
    pub system_image: Option<Guid>,
    /// Its maker, 24 bits; 0: not said.
    pub vendor: u32,
    /// Its maker's number of the device; 0: not said.
    pub device: u16,
}

impl Node {
    /// Its NodeDescription.
    pub fn description(&self) -> &str {
        self.plate.description.as_deref().unwrap_or(&self.name)
    }

    /// GUID of a port: all of a switch have the same one.
    pub fn guid_of_port(&self, port: u8) -> Guid {
        match self.kind {
            NodeKind::Switch => self.port_guid,
            _ => Guid(self.port_guid.0.wrapping_add(u64::from(port.max(1)) - 1)),
        }
    }

    fn port_guids(&self) -> impl Iterator<Item = Guid> + '_ {
        let count = match self.kind {
            NodeKind::Switch => 1,
            _ => self.ports,
        };
        (1..=count).map(|port| self.guid_of_port(port))
    }
}

/// A cable.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cable {
    /// What it joins; never a port with itself.
    pub ends: [PortId; 2],
    /// How good it is.
    pub link: Link,
}

/// A fabric, checked.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Topology {
    nodes: Vec<Node>,
    cables: Vec<Cable>,
    /// For each node, for each of its ports, the cable in it.
    plugs: Vec<Box<[u32]>>,
}

/// No cable.
const UNPLUGGED: u32 = u32::MAX;

/// Why a description is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TopologyError {
    /// Two nodes of one name.
    #[error("two nodes are called \"{0}\"; each needs a name of its own")]
    NameTwice(String),
    /// A name that no NodeDescription holds.
    #[error(
        "\"{0}\" is no name for a node: it must have 1 to 64 bytes, without quotation marks and control characters"
    )]
    BadName(String),
    /// Two ports or nodes of one GUID.
    #[error("{guid} is the GUID of \"{first}\" and of \"{second}\"; a GUID names one node")]
    GuidTwice {
        /// The GUID.
        guid: Guid,
        /// One owner.
        first: String,
        /// The other.
        second: String,
    },
    /// GUID 0, or port GUIDs that run over.
    #[error("\"{0}\" has the GUID 0, or one from which its ports cannot be counted on")]
    BadGuid(String),
    /// A number of ports that no node has.
    #[error("\"{name}\" has {ports} ports; a node has 1 to 254")]
    PortCount {
        /// The node.
        name: String,
        /// What was said.
        ports: u32,
    },
    /// A cable to a port that the node has not.
    #[error("\"{name}\" has {ports} ports, so there is no port {port}")]
    NoSuchPort {
        /// The node.
        name: String,
        /// Its ports.
        ports: u8,
        /// The port that was named.
        port: u32,
    },
    /// A cable to a node that is not there.
    #[error("there is no node \"{0}\"")]
    NoSuchNode(String),
    /// Two cables in one port.
    #[error("port {port} of \"{name}\" has two cables")]
    PortTwice {
        /// The node.
        name: String,
        /// The port.
        port: u8,
    },
    /// A cable from a port to itself.
    #[error("port {port} of \"{name}\" is joined with itself")]
    Loopback {
        /// The node.
        name: String,
        /// The port.
        port: u8,
    },
    /// A cable whose ends say different things.
    #[error("port {port} of \"{name}\": {what}")]
    Disagree {
        /// The node.
        name: String,
        /// The port.
        port: u8,
        /// What they disagree about.
        what: String,
    },
    /// Too much.
    #[error("{0} nodes are more than a description may have (2,097,152)")]
    TooMany(usize),
}

impl Topology {
    /// The nodes, in the order of the description.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The cables, in the order of the description.
    pub fn cables(&self) -> &[Cable] {
        &self.cables
    }

    /// A node; `id` must be of this topology.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// All nodes with their indices.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// The indices of one kind.
    pub fn ids_of(&self, kind: NodeKind) -> impl Iterator<Item = NodeId> + '_ {
        self.ids().filter(move |id| self.node(*id).kind == kind)
    }

    /// The node of a name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.ids().find(|id| self.node(*id).name == name)
    }

    /// The node that somebody means: by its name; by its node GUID (`0x2c902002227b8`, `S-0002c902002227b8`); or by the first word of its NodeDescription, if that
    /// is no other's (hosts call themselves `node7 mlx5_0`).
    ///
    /// # Errors
    /// The nodes that could be meant: none, or more than one.
    pub fn meant(&self, words: &str) -> Result<NodeId, Vec<NodeId>> {
        if let Some(found) = self.find(words) {
            return Ok(found);
        }
        let digits = ["0x", "S-", "H-", "R-"];
        let digits = digits.iter().find_map(|before| words.strip_prefix(before));
        let guid = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let first = |id: &NodeId| self.node(*id).description().split(' ').next() == Some(words);
        let of_guid = |id: &NodeId| guid == Some(self.node(*id).guid.0);
        let found: Vec<_> = match self.ids().find(of_guid) {
            Some(found) => vec![found],
            None => self.ids().filter(first).collect(),
        };
        match found[..] {
            [only] => Ok(only),
            _ => Err(found),
        }
    }

    /// The cable in a port, by its index in [`Self::cables`]; None if nothing is plugged in or there is no such port.
    pub fn cable_at(&self, at: PortId) -> Option<usize> {
        let plugs = self.plugs.get(at.node.0 as usize)?;
        let cable = *plugs.get(usize::from(at.port).checked_sub(1)?)?;
        (cable != UNPLUGGED).then_some(cable as usize)
    }

    /// What a port is joined with.
    pub fn peer(&self, at: PortId) -> Option<PortId> {
        let [a, b] = self.cables[self.cable_at(at)?].ends;
        Some(if a == at { b } else { a })
    }

    /// Groups of nodes that cables join, each in ascending order; a subnet is one of them.
    pub fn components(&self) -> Vec<Vec<NodeId>> {
        let mut seen = vec![false; self.nodes.len()];
        let mut found = Vec::new();
        for start in self.ids() {
            if seen[start.0 as usize] {
                continue;
            }
            seen[start.0 as usize] = true;
            let (mut group, mut next) = (vec![start], 0);
            while let Some(&node) = group.get(next) {
                next += 1;
                for port in 1..=self.node(node).ports {
                    let Some(peer) = self.peer(PortId { node, port }) else {
                        continue;
                    };
                    if !std::mem::replace(&mut seen[peer.node.0 as usize], true) {
                        group.push(peer.node);
                    }
                }
            }
            group.sort_unstable();
            found.push(group);
        }
        found
    }
}

/// Makes a [`Topology`], part by part. Mistakes are told by [`Builder::finish`], or at once where a part names another.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    nodes: Vec<(Node, [bool; 2])>,
    names: BTreeMap<String, NodeId>,
    cables: Vec<Cable>,
}

/// A node to be.
#[derive(Clone, Debug, Default)]
pub struct NewNode<'a> {
    /// Its name.
    pub name: &'a str,
    /// External ports.
    pub ports: u32,
    /// Node GUID; numbered if there is none.
    pub guid: Option<Guid>,
    /// GUID of its first port; else a switch's node GUID, others' plus one.
    pub port_guid: Option<Guid>,
    /// A switch's port 0 is an enhanced one.
    pub enhanced_port0: bool,
    /// What it says of itself.
    pub plate: Plate,
}

impl Builder {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A node more.
    ///
    /// # Errors
    /// A name that is none or was given before, a number of ports that no node has, too many nodes.
    pub fn node(&mut self, kind: NodeKind, new: NewNode<'_>) -> Result<NodeId, TopologyError> {
        let name = new.name;
        let odd = |c: char| c.is_control() || c == '"';
        for name in std::iter::once(name).chain(new.plate.description.as_deref()) {
            if name.is_empty() || name.len() > NAME_BYTES || name.contains(odd) {
                return Err(TopologyError::BadName(name.to_owned()));
            }
        }
        if self.nodes.len() >= MOST_NODES {
            return Err(TopologyError::TooMany(self.nodes.len() + 1));
        }
        let ports = u8::try_from(new.ports).ok();
        let Some(ports) = ports.filter(|ports| (1..=MOST_PORTS).contains(ports)) else {
            return Err(TopologyError::PortCount {
                name: name.to_owned(),
                ports: new.ports,
            });
        };
        let id = NodeId(self.nodes.len() as u32);
        if self.names.insert(name.to_owned(), id).is_some() {
            return Err(TopologyError::NameTwice(name.to_owned()));
        }
        let node = Node {
            kind,
            name: name.to_owned(),
            ports,
            guid: new.guid.unwrap_or_default(),
            port_guid: new.port_guid.unwrap_or_default(),
            enhanced_port0: new.enhanced_port0,
            plate: new.plate,
        };
        let said = [new.guid.is_some(), new.port_guid.is_some()];
        self.nodes.push((node, said));
        Ok(id)
    }

    /// The node of a name.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, name: &str) -> Result<NodeId, TopologyError> {
        let found = self.names.get(name).copied();
        found.ok_or_else(|| TopologyError::NoSuchNode(name.to_owned()))
    }

    /// A port by its node and number.
    ///
    /// # Errors
    /// The node has no such port.
    pub fn port(&self, node: NodeId, port: u32) -> Result<PortId, TopologyError> {
        let (about, _) = &self.nodes[node.0 as usize];
        match u8::try_from(port) {
            Ok(port) if (1..=about.ports).contains(&port) => Ok(PortId { node, port }),
            _ => Err(TopologyError::NoSuchPort {
                name: about.name.clone(),
                ports: about.ports,
                port,
            }),
        }
    }

    /// A cable more.
    pub fn cable(&mut self, a: PortId, b: PortId, link: Link) {
        let ends = [a, b];
        self.cables.push(Cable { ends, link });
    }

    /// Checks everything, and numbers what has no GUID.
    ///
    /// # Errors
    /// A port with two cables or joined with itself, a GUID that is given twice or is 0.
    pub fn finish(self) -> Result<Topology, TopologyError> {
        let mut next = FIRST_GUIDS;
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for (mut node, [guid_said, port_guid_said]) in self.nodes {
            if !guid_said {
                let next = &mut next[node.kind as usize];
                node.guid = Guid(*next);
                *next += match node.kind {
                    NodeKind::Switch => 1,
                    _ => 1 + u64::from(node.ports),
                };
            }
            if !port_guid_said {
                node.port_guid = match node.kind {
                    NodeKind::Switch => node.guid,
                    _ => Guid(node.guid.0.wrapping_add(1)),
                };
            }
            let last = node.port_guid.0.checked_add(u64::from(node.ports));
            if node.guid.0 == 0 || node.port_guid.0 == 0 || last.is_none() {
                return Err(TopologyError::BadGuid(node.name));
            }
            nodes.push(node);
        }
        each_guid_once(&nodes)?;
        let mut plugs: Vec<Box<[u32]>> = nodes
            .iter()
            .map(|node| vec![UNPLUGGED; node.ports.into()].into())
            .collect();
        for (index, cable) in self.cables.iter().enumerate() {
            let [a, b] = cable.ends;
            let name = |at: PortId| nodes[at.node.0 as usize].name.clone();
            if a == b {
                return Err(TopologyError::Loopback {
                    name: name(a),
                    port: a.port,
                });
            }
            for at in [a, b] {
                let plug = &mut plugs[at.node.0 as usize][usize::from(at.port) - 1];
                if std::mem::replace(plug, index as u32) != UNPLUGGED {
                    return Err(TopologyError::PortTwice {
                        name: name(at),
                        port: at.port,
                    });
                }
            }
        }
        Ok(Topology {
            nodes,
            cables: self.cables,
            plugs,
        })
    }
}

/// A node's GUID may be that of its own first port, and of nobody else's.
fn each_guid_once(nodes: &[Node]) -> Result<(), TopologyError> {
    let mut owners = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for guid in std::iter::once(node.guid).chain(node.port_guids()) {
            let first = *owners.entry(guid.0).or_insert(index);
            if first != index {
                return Err(TopologyError::GuidTwice {
                    guid,
                    first: nodes[first].name.clone(),
                    second: node.name.clone(),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch<'a>(name: &'a str, ports: u32) -> NewNode<'a> {
        NewNode {
            name,
            ports,
            ..NewNode::default()
        }
    }

    #[test]
    fn nodes_without_a_guid_are_counted_by_kind() {
        let mut new = Builder::new();
        for (kind, name, ports) in [
            (NodeKind::Ca, "h0", 2),
            (NodeKind::Switch, "s0", 36),
            (NodeKind::Ca, "h1", 1),
            (NodeKind::Switch, "s1", 36),
        ] {
            new.node(kind, switch(name, ports)).unwrap();
        }
        let made = new.finish().unwrap();
        let guids: Vec<_> = made.nodes().iter().map(|node| node.guid.0).collect();
        assert_eq!(guids, [0x10_0000, 0x20_0000, 0x10_0003, 0x20_0001]);
        assert_eq!(made.node(NodeId(0)).guid_of_port(2).0, 0x10_0002);
        assert_eq!(made.node(NodeId(1)).guid_of_port(7).0, 0x20_0000);
    }

    #[test]
    fn what_contradicts_itself_is_named() {
        let mut new = Builder::new();
        let a = new.node(NodeKind::Switch, switch("a", 2)).unwrap();
        let b = new.node(NodeKind::Switch, switch("b", 2)).unwrap();
        assert!(matches!(
            new.node(NodeKind::Ca, switch("a", 1)),
            Err(TopologyError::NameTwice(name)) if name == "a"
        ));
        for (name, ports) in [("", 1), ("x\"y", 1), ("z", 0), ("z", 255)] {
            assert!(new.node(NodeKind::Ca, switch(name, ports)).is_err());
        }
        assert!(new.port(a, 0).is_err() && new.port(a, 3).is_err());
        assert!(new.find("c").is_err());
        let (a1, a2) = (new.port(a, 1).unwrap(), new.port(a, 2).unwrap());
        let (b1, b2) = (new.port(b, 1).unwrap(), new.port(b, 2).unwrap());
        let with = |cables: &[(PortId, PortId)]| {
            let mut new = new.clone();
            for (a, b) in cables {
                new.cable(*a, *b, Link::default());
            }
            new.finish()
        };
        assert!(matches!(
            with(&[(a1, a1)]),
            Err(TopologyError::Loopback { .. })
        ));
        assert!(matches!(
            with(&[(a1, b1), (b1, a2)]),
            Err(TopologyError::PortTwice { port: 1, .. })
        ));
        let made = with(&[(a1, b1), (a2, b2)]).unwrap();
        assert_eq!(made.peer(b2), Some(a2));
        assert_eq!(made.components().len(), 1);
        assert_eq!(with(&[]).unwrap().components().len(), 2);
    }

    #[test]
    fn a_guid_belongs_to_one_node() {
        let with = |guids: [Option<u64>; 2]| {
            let mut new = Builder::new();
            for (name, guid) in ["a", "b"].into_iter().zip(guids) {
                let new_node = NewNode {
                    guid: guid.map(Guid),
                    ..switch(name, 2)
                };
                new.node(NodeKind::Ca, new_node).unwrap();
            }
            new.finish()
        };
        assert!(with([Some(8), Some(16)]).is_ok());
        assert!(matches!(
            with([Some(8), Some(10)]),
            Err(TopologyError::GuidTwice { guid: Guid(10), .. })
        ));
        assert!(matches!(
            with([Some(0), None]),
            Err(TopologyError::BadGuid(_))
        ));
        assert!(with([Some(u64::MAX), None]).is_err());
    }
}
