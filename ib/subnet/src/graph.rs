//! What discovery found, in the shape that routing wants: switches numbered from 0, ports with their peers, and who owns which LID.
//!
//! Switches and end ports are numbered in the order in which OpenSM walks its tables on a little-endian machine: by GUID, the **last** byte
//! counting most ([`order`]). Engines break ties by it, so it decides which of many equally good tables comes out.
//!
//! A LID is a `u32` here: a simulated fabric may, when asked to, have more than the IBA's 49,151 unicast LIDs ([`TOP_LID`]).

use ferriband_wire::Guid;

/// Highest unicast LID (IBA 4.1.3).
pub const TOP_LID: u32 = 0xbfff;
/// Highest LMC (IBA 14.2.5.6: three bits).
pub const TOP_LMC: u8 = 7;

/// Where a GUID stands among others in OpenSM's tables.
pub const fn order(guid: Guid) -> u64 {
    guid.0.swap_bytes()
}

/// A node that discovery found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its node GUID.
    pub guid: Guid,
    /// GUID of the system that it is a part of (SystemImageGUID); its own if it has none.
    pub system: Guid,
    /// Of a switch: whether its port 0 is an enhanced one. None: a channel adapter or router.
    pub switch: Option<bool>,
    /// Its ports that are of interest: a switch's port 0 and all its external ports in order from 1; of other nodes, those with a link.
    pub ports: Vec<FoundPort>,
}

/// A port of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundPort {
    /// Its number.
    pub number: u8,
    /// Its GUID.
    pub guid: Guid,
    /// Its base LID; 0: none, as all external ports of a switch have.
    pub lid: u32,
    /// How many low bits of the LID it does not look at.
    pub lmc: u8,
    /// At the other end of its link: index of a found node, and its port.
    pub peer: Option<(usize, u8)>,
}

/// What a port of a switch is joined with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// No link.
    Nothing,
    /// A port of a switch.
    Switch {
        /// Its index.
        switch: u32,
        /// Its port.
        port: u8,
    },
    /// An end port, by its index.
    End(u32),
}

/// A switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switch {
    /// Its node GUID.
    pub guid: Guid,
    /// GUID of the system that it is a part of.
    pub system: Guid,
    /// Its base LID; 0: none yet.
    pub lid: u32,
    /// LMC of its port 0; 0 unless that is an enhanced one.
    pub lmc: u8,
    /// Its port 0 is an enhanced one.
    pub enhanced_port0: bool,
    /// What its ports are joined with, by their numbers; of port 0, [`Peer::Nothing`].
    pub ports: Box<[Peer]>,
}

/// A port of a channel adapter or router that has a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndPort {
    /// Its port GUID.
    pub guid: Guid,
    /// GUID of its node.
    pub node: Guid,
    /// Its number.
    pub number: u8,
    /// Its base LID; 0: none yet.
    pub lid: u32,
    /// How many low bits of the LID it does not look at.
    pub lmc: u8,
    /// The switch, by its index, and the switch's port; None if it is joined with another end port.
    pub attached: Option<(u32, u8)>,
}

/// Who has a LID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// Nobody.
    Nobody,
    /// Port 0 of a switch.
    Switch(u32),
    /// An end port.
    End(u32),
}

/// A subnet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Graph {
    switches: Vec<Switch>,
    ends: Vec<EndPort>,
    owners: Vec<Owner>,
}

/// Why what was found is no subnet.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GraphError {
    /// A LID of two ports.
    #[error("LID {lid} belongs to {first} and to {second}; a LID names one port")]
    LidTwice {
        /// The LID.
        lid: u32,
        /// One owner.
        first: Guid,
        /// The other.
        second: Guid,
    },
    /// A link whose other end does not say the same.
    #[error("port {port} of {guid} names a peer that does not name it")]
    OneSided {
        /// A node.
        guid: Guid,
        /// Its port.
        port: u8,
    },
    /// No LIDs are left.
    #[error("the subnet needs LIDs beyond {top}, the highest; {without} ports would have none")]
    OutOfLids {
        /// The highest that may be given.
        top: u32,
        /// How many ports got none.
        without: usize,
    },
}

impl Graph {
    /// Brings in order what was found.
    ///
    /// # Errors
    /// A LID that two ports have, a link whose ends contradict each other.
    pub fn new(found: &[Found]) -> Result<Graph, GraphError> {
        let mut switches: Vec<usize> = (0..found.len()).collect();
        switches.retain(|&node| found[node].switch.is_some());
        switches.sort_by_key(|&node| order(found[node].guid));
        let mut ends = Vec::new();
        for (node, about) in found.iter().enumerate() {
            if about.switch.is_none() {
                ends.extend((0..about.ports.len()).map(|port| (node, port)));
            }
        }
        ends.sort_by_key(|&(node, port)| order(found[node].ports[port].guid));
        let mut switch_of = vec![0_u32; found.len()];
        for (index, &node) in switches.iter().enumerate() {
            switch_of[node] = index as u32;
        }
        let mut end_of: Vec<Vec<(u8, u32)>> = vec![Vec::new(); found.len()];
        for (index, &(node, port)) in ends.iter().enumerate() {
            end_of[node].push((found[node].ports[port].number, index as u32));
        }
        let peer_of = |node: usize, port: &FoundPort| -> Result<Peer, GraphError> {
            let Some((there, number)) = port.peer else {
                return Ok(Peer::Nothing);
            };
            let one_sided = || GraphError::OneSided {
                guid: found[node].guid,
                port: port.number,
            };
            let remote = found.get(there).ok_or_else(one_sided)?;
            let mut ports = remote.ports.iter();
            let back = ports.find(|port| port.number == number);
            if back.and_then(|back| back.peer) != Some((node, port.number)) {
                return Err(one_sided());
            }
            Ok(if remote.switch.is_some() {
                Peer::Switch {
                    switch: switch_of[there],
                    port: number,
                }
            } else {
                let mut known = end_of[there].iter();
                let end = known.find(|(port, _)| *port == number);
                Peer::End(end.ok_or_else(one_sided)?.1)
            })
        };
        let mut graph = Graph::default();
        for &node in &switches {
            let about = &found[node];
            let most = about.ports.iter().map(|port| port.number).max();
            let mut ports = vec![Peer::Nothing; usize::from(most.unwrap_or(0)) + 1];
            for port in about.ports.iter().filter(|port| port.number != 0) {
                ports[usize::from(port.number)] = peer_of(node, port)?;
            }
            let own = about.ports.iter().find(|port| port.number == 0);
            let enhanced_port0 = about.switch == Some(true);
            graph.switches.push(Switch {
                guid: about.guid,
                system: about.system,
                lid: own.map_or(0, |port| port.lid),
                lmc: own.map_or(0, |port| if enhanced_port0 { port.lmc } else { 0 }),
                enhanced_port0,
                ports: ports.into(),
            });
        }
        for &(node, port) in &ends {
            let port = &found[node].ports[port];
            let attached = match peer_of(node, port)? {
                Peer::Switch { switch, port } => Some((switch, port)),
                _ => None,
            };
            graph.ends.push(EndPort {
                guid: port.guid,
                node: found[node].guid,
                number: port.number,
                lid: port.lid,
                lmc: port.lmc,
                attached,
            });
        }
        graph.own_lids()?;
        Ok(graph)
    }

    fn own_lids(&mut self) -> Result<(), GraphError> {
        let switches = (0..).zip(&self.switches);
        let switches =
            switches.map(|(index, about)| (Owner::Switch(index), about.lid, about.lmc, about.guid));
        let ends = (0..).zip(&self.ends);
        let ends = ends.map(|(index, about)| (Owner::End(index), about.lid, about.lmc, about.guid));
        let mut owners: Vec<Owner> = vec![Owner::Nobody];
        for (owner, lid, lmc, guid) in switches.chain(ends).filter(|(_, lid, ..)| *lid != 0) {
            for lid in lid..lid + (1 << lmc.min(TOP_LMC)) {
                if owners.len() <= lid as usize {
                    owners.resize(lid as usize + 1, Owner::Nobody);
                }
                let first = std::mem::replace(&mut owners[lid as usize], owner);
                let first = match first {
                    Owner::Nobody => continue,
                    Owner::Switch(index) => self.switches[index as usize].guid,
                    Owner::End(index) => self.ends[index as usize].guid,
                };
                return Err(GraphError::LidTwice {
                    lid,
                    first,
                    second: guid,
                });
            }
        }
        self.owners = owners;
        Ok(())
    }

    /// The switches, in their order.
    pub fn switches(&self) -> &[Switch] {
        &self.switches
    }

    /// The end ports, in their order.
    pub fn ends(&self) -> &[EndPort] {
        &self.ends
    }

    /// The highest LID that somebody has; 0 if nobody has one.
    pub fn top(&self) -> u32 {
        self.owners.len().saturating_sub(1) as u32
    }

    /// Who has a LID.
    pub fn owner(&self, lid: u32) -> Owner {
        let owner = self.owners.get(lid as usize);
        owner.copied().unwrap_or(Owner::Nobody)
    }

    /// The switch at which a LID's packets arrive: that of its end port, or itself. None if nobody has it, or two end ports are joined directly.
    pub fn switch_of(&self, lid: u32) -> Option<u32> {
        match self.owner(lid) {
            Owner::Nobody => None,
            Owner::Switch(switch) => Some(switch),
            Owner::End(end) => Some(self.ends[end as usize].attached?.0),
        }
    }

    /// What a port of a switch is joined with; [`Peer::Nothing`] if there is no such port.
    pub fn peer(&self, switch: u32, port: u8) -> Peer {
        let ports = &self.switches[switch as usize].ports;
        let peer = ports.get(usize::from(port));
        peer.copied().unwrap_or(Peer::Nothing)
    }

    /// Ports of a switch that lead to other switches: port, peer, the peer's port.
    pub fn links(&self, switch: u32) -> impl Iterator<Item = (u8, u32, u8)> + '_ {
        let ports = (0_u8..=254).zip(&self.switches[switch as usize].ports);
        ports.filter_map(move |(port, peer)| match *peer {
            // a cable from a switch to itself leads nowhere
            Peer::Switch {
                switch: there,
                port: back,
            } if there != switch => Some((port, there, back)),
            _ => None,
        })
    }

    /// End ports at each switch.
    pub fn hosts(&self) -> Vec<u32> {
        let mut hosts = vec![0; self.switches.len()];
        for (switch, _) in self.ends.iter().filter_map(|end| end.attached) {
            hosts[switch as usize] += 1;
        }
        hosts
    }

    /// The highest LMC of a port.
    pub fn lmc(&self) -> u8 {
        let switches = self.switches.iter().map(|switch| switch.lmc);
        let ends = self.ends.iter().map(|end| end.lmc);
        switches.chain(ends).max().unwrap_or(0)
    }
}

/// Gives each port a LID, as OpenSM does on a fresh subnet: 1 (or the first that the LMC allows) to the manager's own port, then on through the
/// other ports, switches' port 0 and end ports alike, in the order of their GUIDs ([`order`]). Where an LMC makes a port's first LID skip
/// some, those stay unused. Base ports 0 of switches have one LID, whatever the LMC.
///
/// # Errors
/// More are needed than `top` allows ([`TOP_LID`] for all but a simulation).
pub fn give_lids(
    found: &mut [Found],
    manager: (usize, u8),
    lmc: u8,
    top: u32,
) -> Result<(), GraphError> {
    let mut ports = Vec::new();
    for (node, about) in found.iter().enumerate() {
        for (index, port) in about.ports.iter().enumerate() {
            if about.switch.is_none() || port.number == 0 {
                let other = (node, port.number) != manager;
                ports.push((other, order(port.guid), node, index));
            }
        }
    }
    ports.sort_unstable();
    let (mut next, mut without) = (1_u32, 0);
    for (_, _, node, index) in ports {
        let lmc = match found[node].switch {
            Some(false) => 0,
            _ => lmc.min(TOP_LMC),
        };
        let lid = next.next_multiple_of(1 << lmc);
        if lid + (1 << lmc) - 1 > top {
            without += 1;
            continue;
        }
        next = lid + (1 << lmc);
        let port = &mut found[node].ports[index];
        (port.lid, port.lmc) = (lid, lmc);
    }
    if without > 0 {
        return Err(GraphError::OutOfLids { top, without });
    }
    Ok(())
}
