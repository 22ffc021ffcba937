//! What a sweep tells, and in which order: addresses and links Armed, then tables, both without waiting; links Active once all of that is answered. A link carries data only when all
//! switches know the way.
//!
//! Owns how far that has come; the packets are made a node at a time ([`program`]), when the ones before have gone. Routes may be computed meanwhile ([`Work`]).

use super::discovery::Discovery;
use super::program::{self, Group, Plan};
use super::told::Told;
use super::{Config, Known, Subnet};
use crate::graph::{Found, Graph};
use crate::routing::{Engine, Options, RouteError, Routing};
use ferriband_wire::attributes::NodeType;
use std::collections::BTreeMap;

/// Routes that are to be computed: a graph, an engine, and what that is told. Owns all of it, for another thread.
#[derive(Clone, Debug)]
pub struct Work {
    sweep: u64,
    graph: Graph,
    engine: Engine,
    options: Options,
    /// Asked in turn, if that engine refuses.
    instead: Vec<Engine>,
}

impl Work {
    pub(super) fn new(sweep: u64, graph: &Graph, config: &Config, is_managed: bool) -> Self {
        let instead = is_managed.then(|| config.instead.clone());
        Work {
            sweep,
            graph: graph.clone(),
            engine: config.engine,
            options: config.options.clone(),
            instead: instead.unwrap_or_default(),
        }
    }

    /// Computes them.
    pub fn run(&self) -> Routed {
        let asked = (self.engine.route)(&self.graph, &self.options);
        let refused = asked.as_ref().err().cloned();
        // roots were named for the engine that was asked for
        let options = Options {
            roots: Vec::new(),
            ..self.options.clone()
        };
        let routing = self.instead.iter().fold(asked, |so_far, engine| {
            so_far.or_else(|first| (engine.route)(&self.graph, &options).map_err(|_| first))
        });
        Routed {
            sweep: self.sweep,
            routing,
            refused,
        }
    }
}

/// What came of [`Work`].
#[derive(Debug)]
pub struct Routed {
    pub(super) sweep: u64,
    pub(super) routing: Result<Routing, RouteError>,
    /// What the engine that was asked for has refused.
    pub(super) refused: Option<RouteError>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Addresses, links Armed.
    Ports,
    /// Tables.
    Routes,
    /// Links Active.
    Up,
}

/// What is next once all is answered.
pub(super) enum Next {
    /// Routes are being computed.
    Wait,
    /// There is more to tell.
    More,
    /// All is told.
    Up(Box<Subnet>),
}

#[derive(Debug)]
pub(super) struct Telling {
    discovery: Box<Discovery>,
    found: Vec<Found>,
    own_port: u8,
    /// What nodes have said of themselves, their answers to this sweep included.
    pub nodes: Vec<Known>,
    graph: Graph,
    /// Place of each switch in the graph, by GUID.
    switches: BTreeMap<u64, u32>,
    /// None while they are computed.
    pub routing: Option<Routing>,
    /// Why they are another engine's.
    pub refused: Option<RouteError>,
    step: Step,
    /// The node that is next.
    node: usize,
}

impl Telling {
    pub fn new(
        discovery: Box<Discovery>,
        found: Vec<Found>,
        own_port: u8,
        nodes: Vec<Known>,
        graph: Graph,
        (routing, refused): (Option<Routing>, Option<RouteError>),
    ) -> Self {
        let guids = graph.switches().iter().map(|switch| switch.guid.0);
        Telling {
            switches: guids.zip(0..).collect(),
            discovery,
            found,
            own_port,
            nodes,
            graph,
            routing,
            refused,
            step: Step::Ports,
            node: 0,
        }
    }

    /// What the next node is told that it does not have; None: nobody is told anything more before all is answered, or before there are routes.
    pub fn next(&mut self, config: &Config, told: &Told, anew: bool) -> Option<Group> {
        if self.node == self.discovery.nodes.len() && self.step == Step::Ports {
            (self.step, self.node) = (Step::Routes, 0);
        }
        let seen = self.discovery.nodes.get(self.node)?;
        let plan = Plan {
            config,
            discovery: &self.discovery,
            found: &self.found,
            own_port: self.own_port,
            anew,
        };
        let group = match self.step {
            Step::Ports => plan.ports(self.node, false),
            Step::Up => plan.ports(self.node, true),
            Step::Routes => {
                let guid = seen.info.node_guid;
                let switch = match seen.info.node_type {
                    NodeType::SWITCH => self.switches.get(&guid.0).copied(),
                    _ => None,
                };
                let mut group = program::routes(seen, switch, &self.graph, self.routing.as_ref()?);
                group.retain(|(guid, smp)| !told.has(*guid, smp));
                group
            }
        };
        self.node += 1;
        Some(group)
    }

    /// All that [`Self::next`] gave is answered.
    pub fn go_on(&mut self) -> Next {
        match self.step {
            Step::Ports => Next::More,
            Step::Routes if self.routing.is_none() => Next::Wait,
            Step::Routes => {
                (self.step, self.node) = (Step::Up, 0);
                Next::More
            }
            Step::Up => match self.routing.take() {
                Some(routing) => Next::Up(Box::new(Subnet {
                    nodes: std::mem::take(&mut self.nodes),
                    graph: std::mem::take(&mut self.graph),
                    routing,
                    refused: self.refused.take(),
                    requests: 0,
                    trouble: Vec::new(),
                })),
                None => Next::Wait,
            },
        }
    }
}
