//! Which packets of a capture are wanted.

use crate::args::{DumpArgs, Way};
use crate::domain::Devices;
use crate::failure::Failure;
use ferriband_wire::capture::Captured;
use ferriband_wire::fault::OpcodeSet;
use ferriband_wire::pcapng::Direction;
use std::net::IpAddr;

/// All conditions, each of which a packet has to meet.
pub struct Filter {
    qpns: Vec<u32>,
    opcodes: OpcodeSet,
    peers: Vec<IpAddr>,
    direction: Option<Direction>,
    interfaces: Vec<u32>,
}

impl Filter {
    /// As the command line says.
    pub fn new(args: &DumpArgs, devices: &Devices) -> Result<Self, Failure> {
        let opcodes = match &args.opcode {
            Some(text) => {
                OpcodeSet::parse(text).map_err(|error| Failure::new(error.to_string()).status(2))?
            }
            None => OpcodeSet::ALL,
        };
        let interface = |name: &String| {
            devices.interface(name).ok_or_else(|| {
                Failure::new(format!("there is no device {name}"))
                    .remedy("ferriband devices lists them")
            })
        };
        Ok(Filter {
            qpns: args.qpn.clone(),
            opcodes,
            peers: args.peer.clone(),
            direction: args.direction.map(Way::direction),
            interfaces: args
                .device
                .iter()
                .map(interface)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Whether a packet is wanted.
    pub fn passes(&self, captured: &Captured<'_>) -> bool {
        let dest = captured
            .bytes
            .get(5..8)
            .map(|b| u32::from_be_bytes([0, b[0], b[1], b[2]]));
        let local = captured.local_qpn.map(|qpn| qpn.0);
        let peer =
            captured
                .ends
                .addresses()
                .map(|(source, destination)| match captured.direction {
                    Direction::Inbound => source,
                    Direction::Outbound => destination,
                });
        let any =
            |wanted: &[u32], have: Option<u32>| have.is_some_and(|have| wanted.contains(&have));
        (self.qpns.is_empty() || any(&self.qpns, dest) || any(&self.qpns, local))
            && captured
                .bytes
                .first()
                .is_none_or(|code| self.opcodes.has(*code))
            && (self.peers.is_empty() || peer.is_some_and(|peer| self.peers.contains(&peer)))
            && self.direction.is_none_or(|way| way == captured.direction)
            && (self.interfaces.is_empty() || self.interfaces.contains(&captured.ifindex))
    }
}
