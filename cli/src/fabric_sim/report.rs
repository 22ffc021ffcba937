//! What an experiment gave, in figures.

use super::Results;
use super::watch::{Branch, Output, Sample, trees};
use crate::args::{FabricSimArgs, PickKind, SwitchKind, Traffic};
use crate::failure::Failure;
use crate::text::{Table, duration, plural, print_json, print_line};
use ferriband_fabric::net::PortReport;
use ferriband_fabric::{Latencies, Time};
use serde::Serialize;

/// Directions of links that are named: the busiest.
const NAMED: usize = 10;
/// Directions of links up to which JSON has them all.
const FEW: usize = 2_000;
/// Trees of a point in time that JSON has.
const MOST_TREES: usize = 8;

/// All that is said.
#[derive(Serialize)]
pub struct Report {
    /// What was run.
    pub fabric: String,
    pub engine: String,
    pub traffic: String,
    pub load: Option<f64>,
    pub mtu: u16,
    pub message_bytes: Option<u32>,
    pub switch: String,
    pub congestion_control: bool,
    /// How often a manager looked for congested hosts.
    pub slow_lane_ns: Option<f64>,
    pub buffer_bytes: u32,
    pub seed: u64,
    pub warm_up_ns: f64,
    pub duration_ns: f64,
    /// What it was run on.
    pub switches: usize,
    pub switch_ports: usize,
    pub hosts: usize,
    pub hosts_left_out: usize,
    pub links: usize,
    pub lanes: u8,
    pub top_lid: u32,
    pub beyond_the_iba: bool,
    /// What came out.
    pub packet_hops: u64,
    pub throughput: Throughput,
    pub packet_latency: Quantiles,
    pub message_latency: Quantiles,
    pub messages_offered: Option<u64>,
    pub messages_local: u64,
    pub utilisation_mean: f64,
    pub packets_marked: u64,
    /// How often a host's flows changed to the slow lane or back, and the hosts whose flows are there at the end.
    pub slow_lane_moves: u64,
    pub slow_hosts: Vec<String>,
    pub packets_discarded: u64,
    pub packets_lost: u64,
    pub locked_up: bool,
    /// Directions of links, the busiest first; all of them in a small fabric.
    pub link_directions: Vec<Link>,
    pub over_time: Vec<Moment>,
}

#[derive(Serialize)]
pub struct Throughput {
    /// Shares of all hosts' links.
    pub offered: Option<f64>,
    pub delivered: f64,
    pub gbps: f64,
    /// What hosts received, as shares of their links.
    pub host_least: f64,
    pub host_most: f64,
}

#[derive(Serialize)]
pub struct Quantiles {
    pub count: u64,
    pub mean_ns: f64,
    pub p50_ns: f64,
    pub p90_ns: f64,
    pub p99_ns: f64,
    pub p999_ns: f64,
    pub most_ns: f64,
}

#[derive(Serialize)]
pub struct Link {
    pub from: String,
    pub port: u8,
    pub to: String,
    pub to_port: u8,
    pub utilisation: f64,
    /// Share of the time that it lacked credits.
    pub starved: f64,
    pub packets: u64,
    pub marked: u64,
    pub discarded: u64,
}

#[derive(Serialize)]
pub struct Moment {
    pub from_ns: f64,
    pub to_ns: f64,
    /// As a share of all hosts' links.
    pub delivered: f64,
    pub p50_ns: f64,
    pub p99_ns: f64,
    pub waiting_bytes: u64,
    pub congested_outputs: usize,
    pub congestion_trees: usize,
    /// The largest of them.
    pub trees: Vec<Vec<Place>>,
}

#[derive(Serialize)]
pub struct Place {
    pub node: String,
    pub port: u8,
    /// 0: where the congestion begins.
    pub depth: u32,
    pub waiting_bytes: u64,
    pub starved: f64,
}

pub fn ns(time: Time) -> f64 {
    time.0 as f64 / 1e3
}

/// The hosts whose flows are in the slow lane, by name.
fn slow_hosts(results: &Results) -> Vec<String> {
    let world = &results.world;
    let slow = world.net.slow_hosts();
    let there = world.hosts.iter().filter(|host| slow.contains(&host.lid));
    there
        .map(|host| world.names[host.node as usize].clone())
        .collect()
}

fn quantiles(of: &Latencies) -> Quantiles {
    let at = |share| ns(of.quantile(share));
    Quantiles {
        count: of.count(),
        mean_ns: ns(of.mean()),
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        most_ns: ns(of.most()),
    }
}

/// What all hosts' links carry, in bits a second.
pub fn capacity(results: &Results) -> f64 {
    let hosts = results.world.hosts.iter();
    hosts
        .map(|host| host.rate.kbps() as f64 * 1e3)
        .sum::<f64>()
        .max(1.0)
}

/// The share of all hosts' links that arrived between two looks.
pub fn delivered(sample: &Sample, capacity: f64) -> f64 {
    let seconds = sample.to.since(sample.from).seconds().max(1e-15);
    sample.delivered_bytes as f64 * 8.0 / seconds / capacity
}

impl Report {
    /// Puts it together.
    pub fn new(args: &FabricSimArgs, fabric: &str, results: &Results) -> Report {
        let world = &results.world;
        let counted = world.net.counted();
        let is_host: std::collections::BTreeMap<u32, f64> = world
            .hosts
            .iter()
            .map(|host| (host.node, host.rate.kbps() as f64 * 1e3))
            .collect();
        let seconds = counted.seconds().max(1e-15);
        let received = results.links.iter().filter_map(|link| {
            let rate = is_host.get(&link.node)?;
            Some((link.counters.rcv_bytes as f64 * 8.0 / seconds, *rate))
        });
        let received: Vec<(f64, f64)> = received.collect();
        let bits: f64 = received.iter().map(|(bits, _)| bits).sum();
        // a packet is counted when its header comes, all of it
        let shares = received.iter().map(|(bits, rate)| (bits / rate).min(1.0));
        let sum = |of: fn(&PortReport) -> u64| results.links.iter().map(of).sum();
        let used: f64 = results.links.iter().map(|link| link.utilisation).sum();
        Report {
            fabric: fabric.to_owned(),
            engine: args.engine.clone(),
            traffic: traffic(&args.traffic),
            load: results.offered.load.map(|_| args.load),
            mtu: args.mtu,
            message_bytes: match args.traffic {
                Traffic::Trace(_) => None,
                _ => Some(args.message.unwrap_or(args.mtu.into())),
            },
            switch: switch(args).to_owned(),
            congestion_control: args.congestion_control,
            slow_lane_ns: args.slow_lane.map(ns),
            buffer_bytes: u32::from(args.buffer) * 64,
            seed: args.seed,
            warm_up_ns: ns(results.warm_up),
            duration_ns: ns(counted),
            switches: world.switches,
            switch_ports: world.switch_ports,
            hosts: world.hosts.len(),
            hosts_left_out: world.left_out,
            links: world.links,
            lanes: world.lanes,
            top_lid: world.top_lid,
            beyond_the_iba: world.top_lid > ferriband_subnet::graph::TOP_LID,
            packet_hops: results.packet_hops,
            throughput: Throughput {
                offered: results.offered.load,
                delivered: bits / capacity(results),
                gbps: bits / 1e9,
                host_least: shares.clone().fold(f64::INFINITY, f64::min).min(1e9),
                host_most: shares.fold(0.0, f64::max),
            },
            packet_latency: quantiles(world.net.latencies()),
            message_latency: quantiles(world.net.messages()),
            messages_offered: results.offered.messages,
            messages_local: results.offered.local,
            utilisation_mean: used / (results.links.len() as f64).max(1.0),
            packets_marked: sum(|link| link.counters.marked),
            slow_lane_moves: world.net.slow_moves(),
            slow_hosts: slow_hosts(results),
            packets_discarded: sum(|link| link.counters.xmit_discards + link.counters.rcv_discards),
            packets_lost: world.net.lost(),
            locked_up: results.locked_up,
            link_directions: links(args, results),
            over_time: results
                .samples
                .iter()
                .map(|sample| moment(results, sample))
                .collect(),
        }
    }

    /// Prints it.
    pub fn print(&self, args: &FabricSimArgs, results: &Results) -> Result<(), Failure> {
        if args.json.json {
            return print_json(self);
        }
        self.print_course()?;
        let mut table = Table::new([
            "latency", "count", "mean", "50 %", "90 %", "99 %", "99.9 %", "most",
        ])
        .right_align(&[1, 2, 3, 4, 5, 6, 7]);
        for (name, of) in [
            ("packets", &self.packet_latency),
            ("messages", &self.message_latency),
        ] {
            table.row([
                name.into(),
                of.count.to_string(),
                duration(of.mean_ns),
                duration(of.p50_ns),
                duration(of.p90_ns),
                duration(of.p99_ns),
                duration(of.p999_ns),
                duration(of.most_ns),
            ]);
        }
        table.print()?;
        let mut table = Table::new(["busiest links", "", "used", "lacked credits", "marked"])
            .right_align(&[2, 3, 4]);
        for link in self.link_directions.iter().take(NAMED) {
            table.row([
                format!("{} port {}", link.from, link.port),
                format!("to {} port {}", link.to, link.to_port),
                format!("{:.1} %", link.utilisation * 100.0),
                format!("{:.1} %", link.starved * 100.0),
                link.marked.to_string(),
            ]);
        }
        print_line("")?;
        table.print()?;
        self.print_trees()?;
        if self.locked_up {
            print_line(
                "\nLOCKED UP: packets wait for each other's buffers, and nothing moves any more (ferriband fabric route names the circle)",
            )?;
        }
        let seconds = results.took.as_secs_f64();
        let threads = match results.world.net.threads() {
            1 => String::new(),
            threads => format!(" on {threads} threads"),
        };
        print_line(&format!(
            "\n{} packet-hops in {seconds:.1} s{threads}: {:.2} million a second",
            self.packet_hops,
            self.packet_hops as f64 / seconds.max(1e-9) / 1e6
        ))
    }

    fn print_course(&self) -> Result<(), Failure> {
        print_line(&format!(
            "{}: {} switches with {} ports in use, {} hosts, {} links; {} with {} data lane{}",
            self.fabric,
            self.switches,
            self.switch_ports,
            self.hosts,
            self.links,
            self.engine,
            self.lanes,
            if self.lanes == 1 { "" } else { "s" }
        ))?;
        if self.hosts_left_out > 0 {
            print_line(&format!(
                "  {} hosts' ports are not joined with the others and left out",
                self.hosts_left_out
            ))?;
        }
        if self.beyond_the_iba {
            print_line(&format!(
                "  LIDs up to {}: outside the IBA, whose subnets end at 49,151",
                self.top_lid
            ))?;
        }
        let what = match (self.load, self.messages_offered) {
            (Some(load), _) => format!("{} at load {load}", self.traffic),
            (None, Some(count)) => format!(
                "{}: {count} messages, {} more within hosts",
                self.traffic, self.messages_local
            ),
            (None, None) => self.traffic.clone(),
        };
        print_line(&format!(
            "{what}, packets of {} bytes of data, {}, {}; {} counted after {}",
            self.mtu,
            self.switch,
            self.remedies(),
            duration(self.duration_ns),
            duration(self.warm_up_ns)
        ))?;
        let through = &self.throughput;
        let offered = through
            .offered
            .map_or(String::new(), |share| format!(" of {share:.3} offered"));
        print_line(&format!(
            "delivered {:.4}{offered} of all hosts' links, {:.1} Gb/s; a host receives {:.3} to {:.3} of its link",
            through.delivered, through.gbps, through.host_least, through.host_most
        ))?;
        if self.packets_discarded + self.packets_lost > 0 {
            print_line(&format!(
                "{} packets dropped in switches, {} lost to bit errors",
                self.packets_discarded, self.packets_lost
            ))?;
        }
        if self.slow_lane_ns.is_some() {
            print_line(&format!(
                "slow lane: flows moved for congested hosts (or back) {} times; hosts congested at the end: {}",
                self.slow_lane_moves,
                self.slow_hosts.len()
            ))?;
        }
        print_line("")
    }

    /// What is done about congestion.
    pub fn remedies(&self) -> String {
        let control = if self.congestion_control { "on" } else { "off" };
        let slow = self.slow_lane_ns.map_or(String::new(), |interval| {
            format!(", slow lane by looks every {}", duration(interval))
        });
        format!("congestion control {control}{slow}")
    }

    fn print_trees(&self) -> Result<(), Failure> {
        let with = self
            .over_time
            .iter()
            .filter(|moment| !moment.trees.is_empty());
        let most = with.clone().max_by_key(|moment| moment.congested_outputs);
        let Some(moment) = most else {
            return print_line("\nno output was congested when it was looked at");
        };
        print_line(&format!(
            "\ncongestion at {} of {} looks; most at {}: {} {} in {} {}, the largest:",
            with.count(),
            self.over_time.len(),
            duration(moment.to_ns),
            moment.congested_outputs,
            plural(moment.congested_outputs, "output", "outputs"),
            moment.congestion_trees,
            plural(moment.congestion_trees, "tree", "trees"),
        ))?;
        for place in moment.trees[0].iter().take(NAMED) {
            print_line(&format!(
                "  {}{} port {}: {} KiB wait, lacked credits {:.0} % of the time",
                "  ".repeat(place.depth.min(20) as usize),
                place.node,
                place.port,
                place.waiting_bytes / 1024,
                place.starved * 100.0
            ))?;
        }
        let more = moment.trees[0].len().saturating_sub(NAMED);
        match more {
            0 => Ok(()),
            more => print_line(&format!("  and {more} more")),
        }
    }
}

fn traffic(of: &Traffic) -> String {
    match of {
        Traffic::Uniform => "uniform".into(),
        Traffic::Permutation => "permutation".into(),
        Traffic::HotSpot(share) => format!("hot-spot:{share}"),
        Traffic::Incast(None) => "incast".into(),
        Traffic::Incast(Some(n)) => format!("incast:{n}"),
        Traffic::AllToAll => "all-to-all".into(),
        Traffic::Shift(None) => "shift".into(),
        Traffic::Shift(Some(n)) => format!("shift:{n}"),
        Traffic::Trace(path) => format!("trace:{}", path.display()),
    }
}

fn switch(args: &FabricSimArgs) -> &'static str {
    match (args.switch, args.pick) {
        (SwitchKind::Voq, PickKind::Turn) => "virtual output queues in turn",
        (SwitchKind::Voq, PickKind::Random) => "virtual output queues at random",
        (SwitchKind::Fifo, PickKind::Turn) => "FIFOs in turn",
        (SwitchKind::Fifo, PickKind::Random) => "FIFOs at random",
        (SwitchKind::Capped, _) => "one packet at a time in a switch",
    }
}

fn links(args: &FabricSimArgs, results: &Results) -> Vec<Link> {
    let span = results.world.net.counted();
    let name = |node: u32| results.world.names[node as usize].clone();
    let mut order: Vec<&PortReport> = results.links.iter().collect();
    order.sort_by(|a, b| {
        b.utilisation
            .total_cmp(&a.utilisation)
            .then((a.node, a.port).cmp(&(b.node, b.port)))
    });
    if order.len() > FEW && !(args.json.json && args.all_links) {
        order.truncate(NAMED.max(100));
    }
    let one = |link: &PortReport| Link {
        from: name(link.node),
        port: link.port,
        to: name(link.peer.0),
        to_port: link.peer.1,
        utilisation: link.utilisation,
        starved: link.counters.xmit_wait.0 as f64 / (span.0 as f64).max(1.0),
        packets: link.counters.xmit_packets,
        marked: link.counters.marked,
        discarded: link.counters.xmit_discards + link.counters.rcv_discards,
    };
    order.into_iter().map(one).collect()
}

fn moment(results: &Results, sample: &Sample) -> Moment {
    let found = trees(&sample.branches);
    let place = |(branch, depth): &(Branch, u32)| {
        let (node, port): Output = branch.output;
        Place {
            node: results.world.names[node as usize].clone(),
            port,
            depth: *depth,
            waiting_bytes: branch.waiting_bytes,
            starved: branch.starved,
        }
    };
    Moment {
        from_ns: ns(sample.from),
        to_ns: ns(sample.to),
        delivered: delivered(sample, capacity(results)),
        p50_ns: ns(sample.p50),
        p99_ns: ns(sample.p99),
        waiting_bytes: sample.waiting_bytes,
        congested_outputs: sample.branches.len(),
        congestion_trees: found.len(),
        trees: found
            .iter()
            .take(MOST_TREES)
            .map(|tree| tree.outputs.iter().map(place).collect())
            .collect(),
    }
}
