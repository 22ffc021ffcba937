//! A subnet manager and the agents of a fabric, joined by a wire that takes no time.

use crate::failure::Failure;
use crate::progress::Progress;
use ferriband_fabric::Time;
use ferriband_fabric::manage::{Place, Plane};
use ferriband_subnet::manager::{Config, Event, Instant, Manager, Subnet};
use ferriband_subnet::routing::{Engine, Options};
use ferriband_topology::{NodeKind, PortId, Topology};
use ferriband_wire::Lid;
use std::time::Duration;

/// A subnet that is up.
pub struct BroughtUp {
    /// What the manager knows.
    pub subnet: Box<Subnet>,
    /// Where it is.
    pub manager: String,
    /// How long discovery and programming took, and how long the engine.
    pub took: Duration,
    /// The fabric, as it was programmed.
    pub plane: Plane,
}

/// Brings a fabric up from the first channel adapter with a cable (or from `at`).
pub fn bring_up(
    topology: Topology,
    engine: &Engine,
    options: Options,
    lmc: u8,
    at: Option<&str>,
) -> Result<BroughtUp, Failure> {
    let place = manager_at(&topology, at)?;
    let name = topology.node(place.node).name.clone();
    let mut config = Config::new(place.port, *engine);
    (config.options, config.lmc) = (options, lmc);
    // a wire without delay needs no patience
    config.timeout_ns = 1_000_000;
    let nodes = topology.nodes().len() as u64;
    let mut plane = Plane::new(topology);
    let mut manager = Manager::new(config, 1);
    let begun = std::time::Instant::now();
    let progress = Progress::new(4 * nodes);
    let (mut now, mut sent, mut came) = (0, 0_u64, Vec::new());
    manager.sweep();
    let event = loop {
        while let Some(smp) = manager.poll_transmit(Instant(now)) {
            sent += 1;
            plane.send(Time::from_ns(now), place, smp, Lid(0), &mut came);
        }
        if sent.is_multiple_of(1024) {
            progress.at((sent / 32).min(4 * nodes));
        }
        let silent = came.is_empty();
        for delivery in came.drain(..) {
            manager.handle_smp(&delivery.smp);
        }
        if let Some(event) = manager.poll_event() {
            break event;
        }
        if silent {
            // what has not come by now never comes
            now = manager.poll_timeout().map_or(now + 1, |due| due.0.max(now));
            manager.handle_timeout(Instant(now));
        }
    };
    progress.finish();
    let took = begun.elapsed();
    match event {
        Event::Up(subnet) => Ok(BroughtUp {
            subnet,
            manager: name,
            took,
            plane,
        }),
        Event::Failed(error) => Err(Failure::new(format!(
            "the subnet does not come up: {error}"
        ))),
        Event::Same | Event::Read(_) => Err(Failure::new("the manager has not swept")),
    }
}

/// Where the manager is.
pub fn manager_at(topology: &Topology, at: Option<&str>) -> Result<Place, Failure> {
    let wired = |node| {
        (1..=topology.node(node).ports).find(|port| {
            let at = PortId { node, port: *port };
            topology.cable_at(at).is_some()
        })
    };
    let place = |node| match topology.node(node).kind {
        NodeKind::Switch => Some(Place { node, port: 0 }),
        _ => wired(node).map(|port| Place { node, port }),
    };
    match at {
        Some(name) => {
            let node = topology.find(name).ok_or_else(|| {
                Failure::new(format!("there is no node \"{name}\" for the manager")).status(2)
            })?;
            place(node).ok_or_else(|| {
                Failure::new(format!(
                    "no cable is plugged into \"{name}\", so no manager can work there"
                ))
            })
        }
        None => {
            let hosts = topology.ids_of(NodeKind::Ca);
            let switches = topology.ids_of(NodeKind::Switch);
            hosts
                .chain(switches)
                .find_map(place)
                .ok_or_else(|| Failure::new("the fabric has no node with a cable"))
        }
    }
}
