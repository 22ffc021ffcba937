//! Routing engines: pure functions from a graph to what the switches and hosts are programmed with.
//!
//! Where OpenSM's result is determined by the fabric alone, an engine's is the same, port for port. Each engine says where it differs and why.
//! None of them judges itself: [`crate::check`] does, from the tables alone.

mod balance;
mod dfsssp;
mod dnup;
mod dor;
mod ftree;
mod hops;
mod lash;
mod layers;
mod minhop;
pub mod multicast;
mod torus;
mod updn;

pub use updn::{UpLink, directions};

use crate::graph::Graph;
use ferriband_wire::Guid;

/// What an unused entry of a linear forwarding table holds (IBA 14.2.5.9: a packet to it is dropped).
pub const NO_PORT: u8 = 255;
/// Most data lanes (IBA 7.6.1: VL15 is for management).
pub const MOST_LANES: u8 = 15;

/// Linear forwarding tables of all switches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tables {
    width: usize,
    ports: Vec<u8>,
}

impl Tables {
    /// Empty ones for a graph: each entry [`NO_PORT`].
    pub fn new(graph: &Graph) -> Self {
        let width = graph.top() as usize + 1;
        let ports = vec![NO_PORT; width * graph.switches().len()];
        Self { width, ports }
    }

    /// Those that a graph's switches have, by its order, as far as is known: of each the ports by LID.
    pub(crate) fn of_rows(rows: &[Vec<u8>]) -> Self {
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut ports = vec![NO_PORT; width * rows.len()];
        for (at, row) in rows.iter().enumerate() {
            ports[at * width..][..row.len()].copy_from_slice(row);
        }
        Self { width, ports }
    }

    /// The output port of a switch for a LID; [`NO_PORT`] beyond the table.
    pub fn port(&self, switch: u32, lid: u32) -> u8 {
        let row = self.row(switch);
        row.get(lid as usize).copied().unwrap_or(NO_PORT)
    }

    /// Changes an entry, if the table has it.
    pub fn set(&mut self, switch: u32, lid: u32, port: u8) {
        if let Some(entry) = self.row_mut(switch).get_mut(lid as usize) {
            *entry = port;
        }
    }

    /// A switch's whole table, by LID.
    pub fn row(&self, switch: u32) -> &[u8] {
        &self.ports[switch as usize * self.width..][..self.width]
    }

    /// The same, to write.
    pub fn row_mut(&mut self, switch: u32) -> &mut [u8] {
        &mut self.ports[switch as usize * self.width..][..self.width]
    }

    /// How many LIDs a table has room for, LID 0 included.
    pub fn width(&self) -> usize {
        self.width
    }
}

/// Which service level packets of a pair must have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServiceLevels {
    /// Any; 0 is as good as others.
    Same(u8),
    /// By the switches at which the two are: source times the number of switches, plus destination.
    BySwitches(Box<[u8]>),
    /// By the source's switch and the destination's LID: source times the width of the tables, plus LID.
    ByLid(Box<[u8]>),
}

/// Which lane a service level takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lanes {
    /// Everywhere the same: the service level, modulo a number of lanes.
    Modulo(u8),
    /// By switch, input and output.
    Table(LaneTable),
}

/// SL2VL tables of switches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneTable {
    /// For each switch, its ports (0 included) and where its entries begin: by input, then output.
    switches: Vec<(usize, usize)>,
    entries: Vec<[u8; 16]>,
    /// What a host's port does with the service level.
    host: [u8; 16],
}

impl LaneTable {
    /// One in which each switch and host takes the lane that `host` says.
    pub fn new(graph: &Graph, host: [u8; 16]) -> Self {
        let mut switches = Vec::new();
        let mut at = 0;
        for switch in graph.switches() {
            let ports = switch.ports.len();
            switches.push((ports, at));
            at += ports * ports;
        }
        Self {
            switches,
            entries: vec![host; at],
            host,
        }
    }

    /// The lanes at an output of a switch, by service level, for what came in at a port (0: from itself).
    pub fn entry_mut(&mut self, switch: u32, input: u8, output: u8) -> &mut [u8; 16] {
        let (ports, at) = self.switches[switch as usize];
        &mut self.entries[at + usize::from(input) * ports + usize::from(output)]
    }
}

impl Lanes {
    /// The lane for a service level at an output of a switch.
    pub fn at(&self, switch: u32, input: u8, output: u8, sl: u8) -> u8 {
        match self {
            Lanes::Modulo(lanes) => sl % lanes,
            Lanes::Table(table) => {
                let (ports, at) = table.switches[switch as usize];
                table.entries[at + usize::from(input) * ports + usize::from(output)]
                    [usize::from(sl & 15)]
            }
        }
    }

    /// The lane for a service level on the way out of a host.
    pub fn of_host(&self, sl: u8) -> u8 {
        match self {
            Lanes::Modulo(lanes) => sl % lanes,
            Lanes::Table(table) => table.host[usize::from(sl & 15)],
        }
    }
}

/// What an engine made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routing {
    /// The forwarding tables.
    pub tables: Tables,
    /// The service level of each pair.
    pub levels: ServiceLevels,
    /// The SL2VL tables.
    pub lanes: Lanes,
    /// Data lanes that must be there, 1 ..= 15.
    pub lanes_needed: u8,
    /// The service level of packets to groups ([`multicast::give_level`]).
    pub groups: u8,
}

impl Routing {
    /// One that needs a single lane.
    pub(crate) fn plain(tables: Tables) -> Self {
        Self {
            tables,
            levels: ServiceLevels::Same(0),
            lanes: Lanes::Modulo(1),
            lanes_needed: 1,
            groups: 0,
        }
    }

    /// Of the lanes that must be there, those that packets of pairs go on: groups may have one besides.
    pub fn lanes_of_pairs(&self) -> u8 {
        match &self.lanes {
            Lanes::Modulo(_) if self.groups > 0 => self.lanes_needed - 1,
            _ => self.lanes_needed,
        }
    }

    /// The service level for packets from a port at (or of) a switch to a LID.
    pub fn level(&self, graph: &Graph, from: u32, lid: u32) -> u8 {
        match &self.levels {
            ServiceLevels::Same(level) => *level,
            ServiceLevels::BySwitches(levels) => graph.switch_of(lid).map_or(0, |to| {
                levels[from as usize * graph.switches().len() + to as usize]
            }),
            ServiceLevels::ByLid(levels) => {
                let at = from as usize * self.tables.width() + lid as usize;
                levels.get(at).copied().unwrap_or(0)
            }
        }
    }
}

/// What a user may say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Node GUIDs of the switches at the top, for updn, dnup and ftree; none: they are found.
    pub roots: Vec<Guid>,
    /// Data lanes that all ports have, 1 ..= 15.
    pub lanes: u8,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            lanes: 8,
        }
    }
}

/// Why an engine has no routes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RouteError {
    /// A root that is no switch of this subnet.
    #[error("{0} is to be a root, but no switch has this GUID")]
    NoSuchRoot(Guid),
    /// Not the shape that the engine is for.
    #[error("{engine} routes {wants}, which this subnet is not: {why}")]
    WrongShape {
        /// The engine.
        engine: &'static str,
        /// What it routes.
        wants: &'static str,
        /// What is otherwise.
        why: String,
    },
    /// Lanes that are not there.
    #[error("{engine} needs {needed} lanes, and there are {lanes}")]
    Lanes {
        /// The engine.
        engine: &'static str,
        /// At least so many.
        needed: u32,
        /// What the options allow.
        lanes: u8,
    },
    /// Hosts between which no route is allowed.
    #[error("{engine} allows no route from switch {from} to switch {to}; both have hosts")]
    NoRoute {
        /// The engine.
        engine: &'static str,
        /// GUID of a switch.
        from: Guid,
        /// GUID of another.
        to: Guid,
    },
}

/// A routing engine.
#[derive(Clone, Copy)]
pub struct Engine {
    /// What it is called, as OpenSM calls it.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Computes.
    pub route: fn(&Graph, &Options) -> Result<Routing, RouteError>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Engine").field(&self.name).finish()
    }
}

/// All of them.
pub static ENGINES: &[Engine] = &[
    Engine {
        name: "minhop",
        about: "shortest paths, spread over equally short ones; may deadlock where there are rings",
        route: minhop::route,
    },
    Engine {
        name: "updn",
        about: "first up, then down a tree from roots: no deadlock with one lane, any shape",
        route: updn::route,
    },
    Engine {
        name: "dnup",
        about: "as updn, but ranked from the switches that have hosts",
        route: dnup::route,
    },
    Engine {
        name: "dor",
        about: "shortest paths in the order of ports: no deadlock in meshes and hypercubes cabled in order",
        route: dor::route,
    },
    Engine {
        name: "ftree",
        about: "regular fat trees, free of contention for shift patterns",
        route: ftree::route,
    },
    Engine {
        name: "torus-2qos",
        about: "tori and meshes of up to three dimensions: two lanes for each of two levels of service",
        route: torus::route,
    },
    Engine {
        name: "lash",
        about: "shortest paths, and as many lanes as keep them from deadlock, any shape",
        route: lash::route,
    },
    Engine {
        name: "dfsssp",
        about: "shortest paths spread over the whole fabric, and as many lanes as keep them from deadlock, any shape",
        route: dfsssp::route,
    },
];

impl Engine {
    /// The engine of a name, in any case.
    pub fn find(name: &str) -> Option<&'static Engine> {
        let mut engines = ENGINES.iter();
        engines.find(|engine| engine.name.eq_ignore_ascii_case(name))
    }
}
