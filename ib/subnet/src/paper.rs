//! A subnet from a fabric on paper: what discovery would find, with the LIDs that OpenSM would give.

use crate::graph::{Found, FoundPort, Graph, GraphError, TOP_LID, give_lids};
use ferriband_topology::{NodeKind, PortId, Topology};

/// What a manager at a port would find: all that cables join with it.
pub fn discover(topology: &Topology, manager: PortId) -> Vec<Found> {
    let mut place = vec![usize::MAX; topology.nodes().len()];
    let mut nodes = vec![manager.node];
    place[manager.node.0 as usize] = 0;
    let mut found = Vec::new();
    while let Some(&id) = nodes.get(found.len()) {
        let node = topology.node(id);
        let switch = (node.kind == NodeKind::Switch).then_some(node.enhanced_port0);
        let first = if switch.is_some() { 0 } else { 1 };
        let mut ports = Vec::new();
        for number in first..=node.ports {
            let peer = topology.peer(PortId {
                node: id,
                port: number,
            });
            if switch.is_none() && peer.is_none() {
                continue;
            }
            let peer = peer.map(|peer| {
                let place = &mut place[peer.node.0 as usize];
                // the path of a directed route begins at a port of the manager's node: others of its ports are found from the fabric
                if *place == usize::MAX {
                    *place = nodes.len();
                    nodes.push(peer.node);
                }
                (*place, peer.port)
            });
            ports.push(FoundPort {
                number,
                guid: node.guid_of_port(number),
                lid: 0,
                lmc: 0,
                peer,
            });
        }
        found.push(Found {
            guid: node.guid,
            system: node.guid,
            switch,
            ports,
        });
    }
    found
}

impl Graph {
    /// The subnet that a manager at the first plugged port of the first channel adapter would find (of the first switch, if there is none), with LIDs as OpenSM would give them.
    ///
    /// # Errors
    /// More LIDs are needed than there are.
    pub fn from_topology(topology: &Topology, lmc: u8) -> Result<Graph, GraphError> {
        Self::from_topology_at(topology, None, lmc, TOP_LID)
    }

    /// The same, for a manager at a port, and with LIDs up to one of the caller's choice.
    ///
    /// # Errors
    /// More LIDs are needed than there are.
    pub fn from_topology_at(
        topology: &Topology,
        manager: Option<PortId>,
        lmc: u8,
        top: u32,
    ) -> Result<Graph, GraphError> {
        let plugged = |node| {
            let ports = (1..=topology.node(node).ports).map(move |port| PortId { node, port });
            ports.filter(|at| topology.peer(*at).is_some())
        };
        let first = topology.ids_of(NodeKind::Ca).flat_map(plugged).next();
        let switch = || topology.ids_of(NodeKind::Switch).next();
        let manager = manager.or(first);
        let manager = manager.or_else(|| {
            Some(PortId {
                node: switch()?,
                port: 0,
            })
        });
        let Some(manager) = manager else {
            return Graph::new(&[]);
        };
        let mut found = discover(topology, manager);
        give_lids(&mut found, (0, manager.port), lmc, top)?;
        Graph::new(&found)
    }
}
