//! `routes ENGINE SHAPE|FILE [LMC]`: routes a fabric (a shape of `ferriband_topology::generate`, or a netlist) and judges the tables; says how long each took.

use ferriband_subnet::check::{self, Scope};
use ferriband_subnet::graph::Graph;
use ferriband_subnet::routing::{ENGINES, Engine, Options};
use ferriband_topology::{generate, netlist};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(name), Some(shape)) = (words.first(), words.get(1)) else {
        let names: Vec<&str> = ENGINES.iter().map(|engine| engine.name).collect();
        eprintln!(
            "routes ENGINE SHAPE|FILE [LMC]\nengines: {}\nshapes: {}",
            names.join(", "),
            generate::FORMS
        );
        return ExitCode::from(2);
    };
    let lmc = words.get(2).and_then(|lmc| lmc.parse().ok()).unwrap_or(0);
    match run(name, shape, lmc) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, shape: &str, lmc: u8) -> Result<(), Box<dyn std::error::Error>> {
    let topology = match std::fs::read_to_string(shape) {
        Ok(text) => netlist::parse(&text)?,
        Err(_) => generate::generate(shape)?,
    };
    let engine = Engine::find(name).ok_or_else(|| format!("there is no engine \"{name}\""))?;
    let options = Options::default();
    let mut from = Instant::now();
    let mut lap = |what: &str| {
        println!("{what:<9} {:8.3} s", from.elapsed().as_secs_f64());
        from = Instant::now();
    };
    let graph = Graph::from_topology(&topology, lmc)?;
    println!(
        "{} switches, {} end ports, LIDs to {}",
        graph.switches().len(),
        graph.ends().len(),
        graph.top()
    );
    lap("graph");
    let routing = (engine.route)(&graph, &options)?;
    lap(engine.name);
    let reach = check::reach(&graph, &routing.tables);
    lap("reach");
    let balance = check::balance(&graph, &routing.tables);
    lap("balance");
    let hosts = check::deadlock(&graph, &[&routing], Scope::Hosts);
    lap("deadlock");
    println!("lanes {}", routing.lanes_needed);
    println!(
        "routes {} of hosts {} lost {} (hosts), {} (switches); by hops {:?}",
        reach.routes, reach.host_routes, reach.host_faults, reach.switch_faults, reach.by_hops
    );
    for fault in reach.faults.iter().take(3) {
        println!("  {fault}");
    }
    println!(
        "routes per link: {} to {}, {:.1} on average; {} of {} idle",
        balance.least, balance.most, balance.mean, balance.idle, balance.links
    );
    match hosts {
        Some(found) => println!("may deadlock: {found}"),
        None => println!("no deadlock between hosts"),
    }
    Ok(())
}
