//! The examples of the InfiniBand tutorial (papers/000): Figs. 12 and 13 about congestion, Fig. 7 about UpDown routing.

use super::world::{self, World};
use crate::args::{Example, FabricSimArgs, PickKind, SwitchKind};
use crate::failure::Failure;
use crate::text::{Table, print_json, print_line};
use ferriband_fabric::Time;
use ferriband_fabric::host::{FlowSpec, PACKET_OVERHEAD, Pace, Target};
use ferriband_subnet::graph::Graph;
use ferriband_subnet::routing::{self, Engine, Options, UpLink};
use ferriband_topology::generate;
use serde::Serialize;
use std::process::ExitCode;

pub fn command(example: Example, args: &FabricSimArgs) -> Result<ExitCode, Failure> {
    match example {
        Example::Congestion => congestion(args),
        Example::Tutorial => tutorial(args),
    }
}

/// A step of the example of Figs. 12 and 13.
struct Step {
    senders: &'static str,
    switch: SwitchKind,
    pick: PickKind,
    remedy: Remedy,
    /// What comes out by hand, of A, B, C and P.
    wanted: [f64; 4],
    by_hand: &'static str,
}

/// What is done about the congestion.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remedy {
    None,
    CongestionControl,
    SlowLane,
}

const THIRD: f64 = 1.0 / 3.0;

const STEPS: &[Step] = &[
    step(
        "B",
        SwitchKind::Voq,
        PickKind::Turn,
        [0.0, 1.0, 0.0, 0.0],
        "B 1",
    ),
    step(
        "BC",
        SwitchKind::Voq,
        PickKind::Turn,
        [0.0, 0.5, 0.5, 0.0],
        "B, C 1/2",
    ),
    step(
        "ABC",
        SwitchKind::Voq,
        PickKind::Turn,
        [THIRD, THIRD, THIRD, 0.0],
        "A, B, C 1/3",
    ),
    step(
        "ABCP",
        SwitchKind::Voq,
        PickKind::Turn,
        [THIRD; 4],
        "all 1/3: P could have 1/2",
    ),
    step(
        "ABCP",
        SwitchKind::Fifo,
        PickKind::Turn,
        [THIRD; 4],
        "all 1/3: P could have 1/2",
    ),
    step(
        "ABCP",
        SwitchKind::Fifo,
        PickKind::Random,
        [0.25, 0.375, 0.375, 0.25],
        "A, P 1/4; B, C 3/8",
    ),
    step(
        "ABCP",
        SwitchKind::Capped,
        PickKind::Turn,
        [THIRD / 2.0, THIRD, THIRD, THIRD / 2.0],
        "A, P 1/6; B, C 1/3: as the tutorial says",
    ),
    remedied(SwitchKind::Voq, Remedy::CongestionControl),
    remedied(SwitchKind::Fifo, Remedy::CongestionControl),
    remedied(SwitchKind::Voq, Remedy::SlowLane),
];

const fn step(
    senders: &'static str,
    switch: SwitchKind,
    pick: PickKind,
    wanted: [f64; 4],
    by_hand: &'static str,
) -> Step {
    Step {
        senders,
        switch,
        pick,
        remedy: Remedy::None,
        wanted,
        by_hand,
    }
}

const fn remedied(switch: SwitchKind, remedy: Remedy) -> Step {
    Step {
        remedy,
        by_hand: "P 1/2 again; A, B, C 1/3",
        ..step(
            "ABCP",
            switch,
            PickKind::Turn,
            [THIRD, THIRD, THIRD, 0.5],
            "",
        )
    }
}

/// What a step gave.
#[derive(Serialize)]
struct Shares {
    senders: &'static str,
    switch: &'static str,
    congestion_control: bool,
    slow_lane: bool,
    /// Of A, B, C and P.
    shares: [f64; 4],
    by_hand: [f64; 4],
}

fn congestion(args: &FabricSimArgs) -> Result<ExitCode, Failure> {
    let mut all = Vec::new();
    for step in STEPS {
        let args = FabricSimArgs {
            switch: step.switch,
            pick: step.pick,
            congestion_control: step.remedy == Remedy::CongestionControl,
            slow_lane: (step.remedy == Remedy::SlowLane)
                .then_some(args.slow_lane.unwrap_or(Time::from_us(100))),
            // four senders notice each other's packets soon enough if every fourth is marked
            mark_gap: 3,
            recover: args.recover.or(Some(Time::from_us(60))),
            ..args.clone()
        };
        let mut world = world::make(&args, "congestion")?;
        let shares = shares(&mut world, step, args.mtu)?;
        all.push(Shares {
            senders: step.senders,
            switch: match (step.switch, step.pick) {
                (SwitchKind::Voq, _) => "virtual output queues, in turn",
                (SwitchKind::Fifo, PickKind::Turn) => "FIFOs, in turn",
                (SwitchKind::Fifo, PickKind::Random) => "FIFOs, at random",
                (SwitchKind::Capped, _) => "one packet at a time",
            },
            congestion_control: step.remedy == Remedy::CongestionControl,
            slow_lane: step.remedy == Remedy::SlowLane,
            shares,
            by_hand: step.wanted,
        });
    }
    if args.json.json {
        print_json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    print_line(
        "Two switches, joined from port x to port y. A and P are at the first switch, B and C at the second; A, B and C send to R (behind port r), P to Q.\n\
         A and P offer half of a link, B and C as much as goes. Shares of a link that arrive:\n",
    )?;
    let mut table = Table::new([
        "senders", "switches", "remedy", "A", "B", "C", "P", "by hand",
    ])
    .right_align(&[3, 4, 5, 6]);
    for (step, got) in STEPS.iter().zip(&all) {
        let share = |at: usize, name: char| match step.senders.contains(name) {
            true => format!("{:.3}", got.shares[at]),
            false => "-".into(),
        };
        table.row([
            step.senders.into(),
            got.switch.into(),
            match step.remedy {
                Remedy::None => "none",
                Remedy::CongestionControl => "congestion control",
                Remedy::SlowLane => "slow lane",
            }
            .into(),
            share(0, 'A'),
            share(1, 'B'),
            share(2, 'C'),
            share(3, 'P'),
            step.by_hand.into(),
        ]);
    }
    table.print()?;
    print_line(
        "\nPort r serves its three inputs in turn, so y brings a third through it. P's packets stand behind A's in x's and y's buffers, and while r serves B and C they leave y by q: \
         so P has as much as A, a third. The tutorial's sixth comes out only if all that leaves y together is held to y's third of r, which a crossbar does not do. With congestion control \
         port r marks A, B and C, the queue at x goes away, and P has what it offers. With a slow lane a manager sees that R's link is full while senders wait for credits, and has flows to R use a \
         lane of their own: P's packets stand behind A's no more.",
    )?;
    Ok(ExitCode::SUCCESS)
}

fn shares(world: &mut World, step: &Step, mtu: u16) -> Result<[f64; 4], Failure> {
    let length_bytes = mtu + PACKET_OVERHEAD;
    let find = |world: &World, name: &str| {
        let node = world.names.iter().position(|known| known == name);
        let node = node.map(|node| node as u32);
        let host = world.hosts.iter().find(|host| Some(host.node) == node);
        host.map(|host| (host.node, host.lid, host.rate))
            .ok_or_else(|| Failure::new(format!("the example has no host {name}")))
    };
    let names = ["A", "B", "C", "P"];
    for name in names.into_iter().filter(|name| step.senders.contains(name)) {
        let (node, _, rate) = find(world, name)?;
        let to = if name == "P" { "Q" } else { "R" };
        let (_, lid, _) = find(world, to)?;
        let pace = match name {
            // in step with r's turns a lane of its own may never be free when its turn comes
            "A" | "P" if step.remedy == Remedy::SlowLane => {
                Pace::About(FlowSpec::gap(&rate, length_bytes, 0.5))
            }
            "A" | "P" => Pace::Every(FlowSpec::gap(&rate, length_bytes, 0.5)),
            _ => Pace::Saturated,
        };
        let spec = FlowSpec {
            target: Target::One(lid),
            sl: 0,
            length_bytes,
            message_bytes: None,
            pace,
            start: Time::ZERO,
            packets: None,
        };
        world.net.add_flow(node, spec);
    }
    // packets of a 4x SDR link last two microseconds, and congestion control looks for its balance for some hundreds of them
    let (warm_up, span) = match step.remedy {
        Remedy::None => (500, 6_000),
        Remedy::CongestionControl | Remedy::SlowLane => (6_000, 30_000),
    };
    world.net.run_until(Time::from_us(warm_up));
    world.net.begin();
    world.net.run_until(Time::from_us(warm_up + span));
    let mut shares = [0.0; 4];
    for (share, name) in shares.iter_mut().zip(names) {
        let (node, ..) = find(world, name)?;
        *share = world.net.share(node, 0);
    }
    Ok(shares)
}

/// Fig. 7, as JSON.
#[derive(Serialize)]
struct Tutorial {
    root: String,
    /// Switches by how far they are from the root.
    ranks: Vec<Vec<String>>,
    /// Lower and upper end of each link.
    up: Vec<[String; 2]>,
    /// Turns that go down and then up.
    forbidden_turns: Vec<[String; 3]>,
    /// A path that would use one.
    forbidden_path: [&'static str; 4],
    /// Where it would turn up again.
    forbidden_at: String,
    /// What UpDown takes instead.
    taken: Vec<String>,
}

fn tutorial(args: &FabricSimArgs) -> Result<ExitCode, Failure> {
    let said = figure_7()?;
    if args.json.json {
        print_json(&said)?;
        return Ok(ExitCode::SUCCESS);
    }
    print_line(&format!("UpDown from the root {}:", said.root))?;
    for (rank, switches) in said.ranks.iter().enumerate() {
        print_line(&format!("  {rank} links from it: {}", switches.join(" ")))?;
    }
    let up: Vec<_> = said
        .up
        .iter()
        .map(|[low, high]| format!("{low}->{high}"))
        .collect();
    print_line(&format!("  up is: {}", up.join(" ")))?;
    print_line(
        "  (towards the root; between switches equally far from it, towards the one with the lower GUID, as from c to b)",
    )?;
    print_line(&format!(
        "A packet that has gone down never goes up again, so {} of all turns are forbidden.",
        said.forbidden_turns.len()
    ))?;
    print_line(&format!(
        "  {} is one of the shortest paths from f to d, and forbidden: c-g goes down, and {} would go up again",
        said.forbidden_path.join("-"),
        said.forbidden_at
    ))?;
    print_line(&format!(
        "  packets from f to d take {}",
        said.taken.join("-")
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn figure_7() -> Result<Tutorial, Failure> {
    let said = |error: &dyn std::fmt::Display| Failure::new(error.to_string());
    let topology = generate::generate("tutorial").map_err(|error| said(&error))?;
    let graph = Graph::from_topology(&topology, 0).map_err(|error| said(&error))?;
    let name = |switch: u32| {
        let guid = graph.switches()[switch as usize].guid;
        let mut nodes = topology.nodes().iter();
        nodes
            .find(|node| node.guid == guid)
            .map_or_else(String::new, |node| node.name.clone())
    };
    let index = |wanted: &str| {
        let mut switches = 0..graph.switches().len() as u32;
        switches
            .find(|switch| name(*switch) == wanted)
            .ok_or_else(|| Failure::new("no such switch"))
    };
    let root = index("a")?;
    let options = Options {
        roots: vec![graph.switches()[root as usize].guid],
        ..Options::default()
    };
    let (ranks, links) = routing::directions(&graph, &options).map_err(|error| said(&error))?;
    let mut by_rank: Vec<Vec<String>> = Vec::new();
    for (switch, rank) in (0..).zip(&ranks) {
        let rank = rank.unwrap_or(0) as usize;
        by_rank.resize(by_rank.len().max(rank + 1), Vec::new());
        by_rank[rank].push(name(switch));
    }
    by_rank.iter_mut().for_each(|names| names.sort());
    let ends = |link: &UpLink| [name(link.lower.0), name(link.upper.0)];
    let mut up: Vec<[String; 2]> = links.iter().map(ends).collect();
    up.sort();
    // down to a switch, and up from it by another link
    let mut turns = Vec::new();
    for down in &links {
        let rest = links
            .iter()
            .filter(|up| up.lower.0 == down.lower.0 && *up != down);
        turns.extend(rest.map(|up| [name(down.upper.0), name(down.lower.0), name(up.upper.0)]));
    }
    turns.sort();
    let engine = Engine::find("updn").ok_or_else(|| Failure::new("there is no engine updn"))?;
    let routing = (engine.route)(&graph, &options).map_err(|error| said(&error))?;
    let (mut here, to) = (index("f")?, index("d")?);
    let lid = graph.switches()[to as usize].lid;
    let mut taken = vec![name(here)];
    while here != to && taken.len() <= ranks.len() {
        let port = routing.tables.port(here, lid);
        let Some(link) = graph.links(here).find(|link| link.0 == port) else {
            break;
        };
        here = link.1;
        taken.push(name(here));
    }
    let path = ["f", "c", "g", "d"];
    let turn = path
        .windows(3)
        .find(|turn| turns.iter().any(|known| known[..] == **turn));
    Ok(Tutorial {
        root: name(root),
        ranks: by_rank,
        up,
        forbidden_path: path,
        forbidden_at: turn
            .map(|turn| format!("{}-{}", turn[1], turn[2]))
            .unwrap_or_default(),
        forbidden_turns: turns,
        taken,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_7_has_its_directions_and_its_forbidden_turn() {
        let said = figure_7().expect("the example is there");
        assert_eq!(said.root, "a");
        let ranks: Vec<String> = said.ranks.iter().map(|names| names.concat()).collect();
        assert_eq!(ranks, ["a", "bcde", "fghi"]);
        let up = |low: &str, high: &str| said.up.contains(&[low.to_owned(), high.to_owned()]);
        assert!(up("c", "b") && !up("b", "c"), "the up end of b-c is at b");
        assert!(up("f", "c") && up("g", "c") && up("g", "d") && up("d", "a"));
        assert_eq!(said.up.len(), 13);
        // c-g goes down, so g-d may not follow
        let turn = ["c", "g", "d"].map(str::to_owned);
        assert!(said.forbidden_turns.contains(&turn));
        assert_eq!(said.forbidden_at, "g-d");
        assert_eq!(
            (said.taken.len(), &*said.taken[2]),
            (4, "a"),
            "{:?}",
            said.taken
        );
    }
}
