//! What becomes of packets from one LID to another: the cables that they take by the switches'
//! tables, and where they end.
//!
//! Owns nothing: tables, links and cables are the plane's. Nothing is sent.

use ferriband_attach::ask::{PathEnd, PathWord};
use ferriband_fabric::manage::Plane;
use ferriband_topology::{NodeId, PortId};
use ferriband_wire::Lid;
use ferriband_wire::attributes::PortState;

/// Links that a packet can pass: no table of a manager's leads further.
const MOST_HOPS: usize = 64;

/// A walk from port to port.
struct Walk<'a> {
    plane: &'a Plane,
    to: Lid,
    word: PathWord,
}

/// The way of packets from one LID to another, as it is now.
pub(super) fn between(plane: &Plane, from: u16, to: u16) -> PathWord {
    let mut walk = Walk {
        plane,
        to: Lid(to),
        word: PathWord::default(),
    };
    let end = match (owner(plane, Lid(from)), owner(plane, Lid(to))) {
        (None, _) => (PathEnd::NoSuchLid, format!("no port has LID {from}")),
        (_, None) => (PathEnd::NoSuchLid, format!("no port has LID {to}")),
        (Some(start), Some(goal)) => walk.go(start, goal),
    };
    (walk.word.end, walk.word.says) = end;
    walk.word
}

/// The port that has a LID: of a switch port 0.
fn owner(plane: &Plane, lid: Lid) -> Option<PortId> {
    plane.topology().ids().find_map(|node| {
        let port = plane.node(node).port_of_lid(lid)?;
        Some(PortId { node, port })
    })
}

impl Walk<'_> {
    fn name(&self, node: NodeId) -> &str {
        &self.plane.topology().node(node).name
    }

    fn go(&mut self, start: PortId, goal: PortId) -> (PathEnd, String) {
        let mut at = start;
        for _ in 0..MOST_HOPS {
            if self.plane.is_off(at.node) {
                let what = format!("{} is switched off", self.name(at.node));
                return (PathEnd::SwitchedOff, what);
            }
            if at.node == goal.node && (at.port == goal.port || goal.port == 0) {
                return (
                    PathEnd::Arrives,
                    format!("it leads to {}", self.name(at.node)),
                );
            }
            let out = match self.way_out(at, start) {
                Ok(out) => out,
                Err(end) => return end,
            };
            at = match self.pass(out) {
                Ok(far) => far,
                Err(end) => return end,
            };
        }
        (PathEnd::Circle, "it leads in a circle".to_owned())
    }

    /// The port by which packets leave a node: their own, or what the switch's table says.
    fn way_out(&self, at: PortId, start: PortId) -> Result<PortId, (PathEnd, String)> {
        let name = self.name(at.node);
        let Some(tables) = &self.plane.node(at.node).switch else {
            return match at == start {
                true => Ok(at),
                false => {
                    let what = format!("it leads to {name}, which has another LID there");
                    Err((PathEnd::NoWay, what))
                }
            };
        };
        match tables.port_of(self.to) {
            None | Some(0) => {
                let what = format!("{name} has no way to LID {}", self.to.0);
                Err((PathEnd::NoWay, what))
            }
            Some(port) => Ok(PortId { port, ..at }),
        }
    }

    /// Over the cable in a port: the port at its other end.
    fn pass(&mut self, out: PortId) -> Result<PortId, (PathEnd, String)> {
        let topology = self.plane.topology();
        let here = format!("{} port {}", self.name(out.node), out.port);
        let (Some(cable), Some(far)) = (topology.cable_at(out), topology.peer(out)) else {
            return Err((PathEnd::NoCable, format!("{here} has no cable")));
        };
        let there = format!("{} port {}", self.name(far.node), far.port);
        self.word.links.push(format!("{here} to {there}"));
        if self.plane.is_off(far.node) {
            let what = format!("{} is switched off", self.name(far.node));
            return Err((PathEnd::SwitchedOff, what));
        }
        if self.plane.is_cut(cable) {
            return Err((PathEnd::LinkDown, format!("cut: {here} to {there}")));
        }
        let active = |end: PortId| {
            let ports = &self.plane.node(end.node).ports;
            ports[usize::from(end.port)].info.state == PortState::ACTIVE
        };
        if let Some(end) = [out, far].into_iter().find(|end| !active(*end)) {
            let what = format!("{} port {} is not Active", self.name(end.node), end.port);
            return Err((PathEnd::LinkDown, what));
        }
        if let Some((_, share)) = self.plane.spoils().find(|(own, _)| *own == cable) {
            let share = f64::from(share) / 1e4;
            self.word
                .losses
                .push(format!("{here} to {there} spoils {share} % of packets"));
        }
        Ok(far)
    }
}
