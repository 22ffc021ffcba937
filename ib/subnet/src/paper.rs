//! A subnet from a fabric on paper: what discovery would find, with the LIDs that OpenSM would give.

use crate::graph::{Found, FoundPort, Graph, GraphError, TOP_LID, give_lids};
use ferriband_topology::{NodeId, NodeKind, PortId, Topology};
use std::collections::BTreeSet;

/// What a manager at a port would find: all that switches join with it. An adapter ends a path: a port of its own that leads to another subnet is not found, nor is what lies there (IBA 14.2.2: only switches pass directed routes on).
pub fn discover(topology: &Topology, manager: PortId) -> Vec<Found> {
    let is_switch = |id: NodeId| topology.node(id).kind == NodeKind::Switch;
    let mut place = vec![usize::MAX; topology.nodes().len()];
    let mut nodes = vec![manager.node];
    place[manager.node.0 as usize] = 0;
    // by node in the order of discovery: of all but switches, the ports at which somebody has come
    let mut reached = vec![BTreeSet::from([manager.port])];
    let mut next = 0;
    while let Some(&id) = nodes.get(next) {
        let ports = match is_switch(id) {
            true => Some(1..=topology.node(id).ports),
            // others of the manager's ports are found from the fabric, if they are in it
            false => (next == 0).then_some(manager.port..=manager.port),
        };
        let ports = ports.into_iter().flatten();
        let ends = ports.filter_map(|port| topology.peer(PortId { node: id, port }));
        for peer in ends {
            let place = &mut place[peer.node.0 as usize];
            if *place == usize::MAX {
                *place = nodes.len();
                nodes.push(peer.node);
                reached.push(BTreeSet::new());
            }
            reached[*place].insert(peer.port);
        }
        next += 1;
    }
    let found = nodes.iter().zip(reached).map(|(&id, reached)| {
        let node = topology.node(id);
        let peer = |port| topology.peer(PortId { node: id, port });
        let ports: Vec<u8> = match is_switch(id) {
            true => (0..=node.ports).collect(),
            false => reached
                .into_iter()
                .filter(|port| peer(*port).is_some())
                .collect(),
        };
        let ports = ports.into_iter().map(|number| FoundPort {
            number,
            guid: node.guid_of_port(number),
            lid: 0,
            lmc: 0,
            peer: peer(number).map(|peer| (place[peer.node.0 as usize], peer.port)),
        });
        Found {
            guid: node.guid,
            system: node.guid,
            switch: is_switch(id).then_some(node.enhanced_port0),
            ports: ports.collect(),
        }
    });
    found.collect()
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
