//! `ferriband fabric route`: what a manager with an engine makes of a fabric, and the checker's judgement.

use super::bring_up::{BroughtUp, bring_up};
use super::load;
use crate::args::RouteArgs;
use crate::failure::Failure;
use crate::text::{Table, counted, duration, print_json, print_line};
use ferriband_subnet::check::{self, Report};
use ferriband_subnet::routing::{ENGINES, Engine, Options, multicast};
use ferriband_topology::{NodeKind, Topology};
use ferriband_wire::Guid;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::process::ExitCode;

/// What is said of a routing, as JSON.
#[derive(Serialize)]
struct Said<'a> {
    fabric: &'a str,
    engine: &'a str,
    manager: &'a str,
    switches: usize,
    hosts: usize,
    cables: usize,
    top_lid: u32,
    smps: u64,
    bring_up_ns: u64,
    /// Of packets to one port.
    lanes: u8,
    group_level: u8,
    host_routes: u64,
    host_routes_lost: u64,
    switch_routes_lost: u64,
    routes_by_hops: &'a [u64],
    links_between_switches: usize,
    links_idle: usize,
    routes_per_link_least: u64,
    routes_per_link_mean: f64,
    routes_per_link_most: u64,
    faults: Vec<String>,
    trouble: Vec<String>,
    deadlock: Option<String>,
    deadlock_with_switches: Option<String>,
    deadlock_with_groups: Option<String>,
    good: bool,
}

/// Lists the engines.
pub fn engines(json: bool) -> Result<ExitCode, Failure> {
    if json {
        let all: Vec<_> = ENGINES
            .iter()
            .map(|engine| serde_json::json!({ "name": engine.name, "about": engine.about }))
            .collect();
        print_json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(["engine", "what it does"]);
    for engine in ENGINES {
        table.row([engine.name.into(), engine.about.into()]);
    }
    table.print()?;
    Ok(ExitCode::SUCCESS)
}

/// Exit status: 0 hosts reach each other without a deadlock, 1 they do not.
pub fn command(args: &RouteArgs) -> Result<ExitCode, Failure> {
    let engine = engine(&args.engine)?;
    let topology = load(&args.fabric)?;
    let roots = args.root.iter().map(|name| root(&topology, name));
    let options = Options {
        roots: roots.collect::<Result<_, _>>()?,
        lanes: args.lanes,
    };
    let cables = topology.cables().len();
    let up = bring_up(topology, engine, options, args.lmc, args.manager.as_deref())?;
    let report = check::check(&up.subnet.graph, &up.subnet.routing);
    if let Some(path) = &args.tables {
        let name = path.display().to_string();
        std::fs::write(path, tables(&up)).map_err(|error| Failure::io("write", &name, &error))?;
    }
    let good = report.is_good() && up.subnet.trouble.is_empty() && left(&up) == 0;
    let said = said(args, &up, &report, cables, good);
    if args.json.json {
        print_json(&said)?;
    } else {
        print(&said, &up)?;
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// An engine by its name.
pub fn engine(name: &str) -> Result<&'static Engine, Failure> {
    Engine::find(name).ok_or_else(|| {
        let known: Vec<_> = ENGINES.iter().map(|engine| engine.name).collect();
        Failure::new(format!("there is no routing engine \"{name}\""))
            .remedy(format!("engines: {}", known.join(", ")))
            .status(2)
    })
}

/// A switch by its name or GUID.
pub fn root(topology: &Topology, name: &str) -> Result<Guid, Failure> {
    if let Some(node) = topology.find(name) {
        return Ok(topology.node(node).guid);
    }
    let digits = name.strip_prefix("0x").unwrap_or(name);
    let guid = u64::from_str_radix(digits, 16).map(Guid);
    guid.map_err(|_| {
        Failure::new(format!(
            "\"{name}\" is neither a switch of the fabric nor a GUID"
        ))
        .status(2)
    })
}

fn said<'a>(
    args: &'a RouteArgs,
    up: &'a BroughtUp,
    report: &'a Report,
    cables: usize,
    good: bool,
) -> Said<'a> {
    let (graph, reach, balance) = (&up.subnet.graph, &report.reach, &report.balance);
    let who = |(guid, status): &(Option<Guid>, _)| match guid {
        Some(guid) => {
            format!("{guid} refused what it was told, or did not answer: status {status}")
        }
        None => "a port with a link behind which nobody answers".to_owned(),
    };
    Said {
        fabric: &args.fabric,
        engine: &args.engine,
        manager: &up.manager,
        switches: graph.switches().len(),
        hosts: graph.ends().len(),
        cables,
        top_lid: graph.top(),
        smps: up.subnet.requests,
        bring_up_ns: up.took.as_nanos() as u64,
        lanes: up.subnet.routing.lanes_of_pairs(),
        group_level: up.subnet.routing.groups,
        host_routes: reach.host_routes,
        host_routes_lost: reach.host_faults,
        switch_routes_lost: reach.switch_faults,
        routes_by_hops: &reach.by_hops,
        links_between_switches: balance.links,
        links_idle: balance.idle,
        routes_per_link_least: balance.least,
        routes_per_link_mean: balance.mean,
        routes_per_link_most: balance.most,
        faults: reach.faults.iter().map(ToString::to_string).collect(),
        trouble: up.subnet.trouble.iter().map(who).collect(),
        deadlock: report.hosts.as_ref().map(ToString::to_string),
        deadlock_with_switches: report.all.as_ref().map(ToString::to_string),
        deadlock_with_groups: report
            .hosts
            .is_none()
            .then(|| multicast::circle(graph, &up.subnet.routing))
            .flatten()
            .map(|circle| circle.to_string()),
        good,
    }
}

fn print(said: &Said<'_>, up: &BroughtUp) -> Result<(), Failure> {
    let left = left(up);
    print_line(&format!(
        "{}: {}, {}, {}; LIDs 1 to {}",
        said.fabric,
        counted(said.switches, "switch", "switches"),
        counted(said.hosts, "host's port", "hosts' ports"),
        counted(said.cables, "cable", "cables"),
        said.top_lid
    ))?;
    if left > 0 {
        print_line(&format!(
            "  {left} channel adapters are not joined with the manager's"
        ))?;
    }
    print_line(&format!(
        "brought up from {} by {} management packets in {}",
        said.manager,
        said.smps,
        duration(said.bring_up_ns as f64)
    ))?;
    print_line(&format!(
        "routes of {}: {} between hosts' switches and hosts, {} of them lost; {} data lane{}{}",
        said.engine,
        said.host_routes,
        said.host_routes_lost,
        said.lanes,
        if said.lanes == 1 { "" } else { "s" },
        match said.group_level {
            0 => String::new(),
            level =>
                format!(", and one of their own for multicast groups, on service level {level}"),
        }
    ))?;
    let hops: Vec<_> = (0..)
        .zip(said.routes_by_hops)
        .filter(|(_, count)| **count > 0)
        .collect();
    let hops: Vec<_> = hops
        .iter()
        .map(|(hops, count): &(u32, _)| {
            format!("{hops} link{}: {count}", if *hops == 1 { "" } else { "s" })
        })
        .collect();
    print_line(&format!("  lengths: {}", hops.join(", ")))?;
    print_line(&format!(
        "  routes on a link between switches: {} to {}, {:.1} on average; {} of {} directions carry none",
        said.routes_per_link_least,
        said.routes_per_link_most,
        said.routes_per_link_mean,
        said.links_idle,
        said.links_between_switches
    ))?;
    let names = names(up.plane.topology());
    for text in said.faults.iter().chain(&said.trouble) {
        print_line(&format!("  {}", by_name(text, &names)))?;
    }
    match (&said.deadlock, &said.deadlock_with_switches) {
        (Some(found), _) => print_line(&format!(
            "  DEADLOCK possible between hosts: {}",
            by_name(found, &names)
        )),
        (None, Some(found)) => print_line(&format!(
            "  no deadlock between hosts; with packets to or from switches themselves: {}",
            by_name(found, &names)
        )),
        (None, None) => print_line("  no deadlock"),
    }?;
    match &said.deadlock_with_groups {
        Some(found) => print_line(&format!(
            "  with packets to multicast groups on the same lane: {}",
            by_name(found, &names)
        )),
        None => Ok(()),
    }
}

/// Channel adapters that the manager has not met: no cables lead to them, or more than directed routes go over.
fn left(up: &BroughtUp) -> usize {
    let nodes = up.subnet.nodes.iter();
    let met: HashSet<Guid> = nodes.map(|node| node.info.node_guid).collect();
    let topology = up.plane.topology();
    let adapters = topology.ids_of(NodeKind::Ca);
    adapters
        .filter(|id| !met.contains(&topology.node(*id).guid))
        .count()
}

/// Nodes' names by their GUIDs, as findings write these.
pub(super) fn names(topology: &Topology) -> HashMap<String, &str> {
    let nodes = topology.nodes().iter();
    nodes
        .map(|node| (node.guid.to_string(), node.name.as_str()))
        .collect()
}

/// A finding with names instead of GUIDs, for people; JSON has the GUIDs.
pub(super) fn by_name(finding: &str, names: &HashMap<String, &str>) -> String {
    let words = finding.split(' ').map(|word| {
        let bare = word.trim_end_matches([',', ':', ';']);
        match names.get(bare) {
            Some(name) => format!("{name}{}", &word[bare.len()..]),
            None => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The forwarding tables in the words of OpenSM's dump of them.
fn tables(up: &BroughtUp) -> String {
    let (graph, routing) = (&up.subnet.graph, &up.subnet.routing);
    let mut out = String::new();
    for (index, switch) in (0..).zip(graph.switches()) {
        // writing to a string does not fail
        let _ = writeln!(
            out,
            "Unicast lids [0-{}] of switch Lid {} guid {:#018x}:",
            graph.top(),
            switch.lid,
            switch.guid.0
        );
        for (lid, port) in (0..).zip(routing.tables.row(index)).skip(1) {
            if *port != ferriband_subnet::routing::NO_PORT {
                let _ = writeln!(out, "{lid:#06x} {port:03}");
            }
        }
    }
    out
}
