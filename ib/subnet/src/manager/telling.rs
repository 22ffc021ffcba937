//! What a sweep tells, and in which order: addresses and links Armed, then tables, both without waiting; links Active once all of that is answered. A link carries data only when all
//! switches know the way. If packets that meet old tables here and new ones there could wait for each other in a circle ([`change`]), those who would close it are stopped before, and
//! what is under way is waited for.
//!
//! Owns how far that has come; the packets are made a node at a time ([`program`]), when the ones before have gone. Routes may be computed meanwhile ([`Work`]).

use super::discovery::Discovery;
use super::program::{self, Group, Plan};
use super::told::Told;
use super::{Config, Instant, Known, Subnet};
use crate::check::{Before, Change, change};
use crate::graph::{Found, Graph};
use crate::routing::{Engine, Options, RouteError, Routing, Tables, multicast};
use ferriband_wire::attributes::NodeType;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Routes that are to be computed: a graph, an engine, and what that is told. Owns all of it, for another thread.
#[derive(Clone, Debug)]
pub struct Work {
    sweep: u64,
    graph: Graph,
    engine: Engine,
    options: Options,
    /// Asked in turn, if that engine refuses.
    instead: Vec<Engine>,
    /// What switches have now, if they have any.
    now: Option<(Arc<Before>, Tables)>,
}

impl Work {
    pub(super) fn new(
        sweep: u64,
        graph: &Graph,
        config: &Config,
        is_managed: bool,
        now: Option<(Arc<Before>, Tables)>,
    ) -> Self {
        let instead = is_managed.then(|| config.instead.clone());
        Work {
            sweep,
            graph: graph.clone(),
            engine: config.engine,
            options: config.options.clone(),
            instead: instead.unwrap_or_default(),
            now,
        }
    }

    /// Computes them.
    pub fn run(&self) -> Routed {
        let mut by = self.engine.name;
        let asked = (self.engine.route)(&self.graph, &self.options);
        let refused = asked.as_ref().err().cloned();
        // roots were named for the engine that was asked for
        let options = Options {
            roots: Vec::new(),
            ..self.options.clone()
        };
        let mut routing = self.instead.iter().fold(asked, |so_far, engine| {
            so_far.or_else(|first| {
                by = engine.name;
                (engine.route)(&self.graph, &options).map_err(|_| first)
            })
        });
        // the tree of groups is updn's own
        if let Some(routing) = routing.as_mut().ok().filter(|_| by != "updn") {
            multicast::give_level(&self.graph, routing, self.options.lanes);
        }
        let changes = match (&self.now, &routing) {
            (Some((before, tables)), Ok(routing)) => change(&self.graph, before, tables, routing),
            _ => Change::default(),
        };
        Routed {
            sweep: self.sweep,
            routing,
            refused,
            change: changes,
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
    /// How switches come from what they have to these.
    pub(super) change: Change,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Addresses, links Armed.
    Ports,
    /// Switches stop packets that could close a circle while tables change.
    Stops,
    /// Those under way go.
    Drain,
    /// SL2VL tables, if packets were stopped.
    Lanes,
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
    /// How they are told.
    pub change: Change,
    /// When packets under way are gone: from the first time on that somebody says what time it is.
    drained: Option<Instant>,
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
        routed: Option<(Routing, Option<RouteError>, Change)>,
    ) -> Self {
        let guids = graph.switches().iter().map(|switch| switch.guid.0);
        let mut telling = Telling {
            switches: guids.zip(0..).collect(),
            discovery,
            found,
            own_port,
            nodes,
            graph,
            routing: None,
            refused: None,
            change: Change::default(),
            drained: None,
            step: Step::Ports,
            node: 0,
        };
        if let Some(routed) = routed {
            telling.take(routed);
        }
        telling
    }

    /// The routes are there.
    pub fn take(&mut self, (routing, refused, change): (Routing, Option<RouteError>, Change)) {
        (self.routing, self.refused, self.change) = (Some(routing), refused, change);
    }

    /// While nothing is told because packets under way are waited for: until when, if somebody has said what time it is. True if they are gone.
    pub fn drain(&mut self, now: Instant, drain_ns: u64) -> bool {
        if self.step != Step::Drain {
            return false;
        }
        let until = Instant(now.0.saturating_add(drain_ns));
        let until = *self.drained.get_or_insert(until);
        if now < until {
            return false;
        }
        (self.step, self.node) = (Step::Lanes, 0);
        true
    }

    /// When [`Self::drain`] is to be asked again.
    pub fn drained(&self) -> Option<Instant> {
        self.drained.filter(|_| self.step == Step::Drain)
    }

    /// What the next node is told that it does not have; None: nobody is told anything more before all is answered, or before there are routes.
    pub fn next(&mut self, config: &Config, told: &Told, anew: bool) -> Option<Group> {
        if self.node == self.discovery.nodes.len() && self.step == Step::Ports {
            // tables go beside addresses, unless something is stopped first
            self.routing.as_ref()?;
            let next = match self.change.stopped.is_empty() {
                true => Step::Routes,
                false => Step::Stops,
            };
            (self.step, self.node) = (next, 0);
        }
        let seen = self.discovery.nodes.get(self.node)?;
        let plan = Plan {
            config,
            discovery: &self.discovery,
            found: &self.found,
            own_port: self.own_port,
            anew,
        };
        let switch = match seen.info.node_type {
            NodeType::SWITCH => self.switches.get(&seen.info.node_guid.0).copied(),
            _ => None,
        };
        let routing = || self.routing.as_ref();
        let mut group = match self.step {
            Step::Ports => plan.ports(self.node, false),
            Step::Up => plan.ports(self.node, true),
            Step::Stops => match switch {
                Some(switch) => {
                    let what = (&self.change.stopped[..], self.change.lanes);
                    program::stops(seen, switch, told, what, routing()?)
                }
                None => Group::new(),
            },
            Step::Drain => return None,
            Step::Lanes => program::lanes(seen, switch, routing()?),
            Step::Routes => program::routes(seen, switch, &self.graph, routing()?),
        };
        group.retain(|(guid, smp)| !told.has(*guid, smp));
        self.node += 1;
        Some(group)
    }

    /// All that [`Self::next`] gave is answered.
    pub fn go_on(&mut self) -> Next {
        match self.step {
            Step::Ports if self.routing.is_none() => Next::Wait,
            Step::Ports => Next::More,
            Step::Stops => {
                self.step = Step::Drain;
                Next::Wait
            }
            Step::Drain => Next::Wait,
            Step::Lanes => {
                (self.step, self.node) = (Step::Routes, 0);
                Next::More
            }
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
                    stopped: self.change.stopped.len(),
                    requests: 0,
                    trouble: Vec::new(),
                })),
                None => Next::Wait,
            },
        }
    }
}
