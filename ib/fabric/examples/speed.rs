//! How fast the simulator is: uniform random traffic over the fabric of a netlist, shortest paths, 2 KiB packets.
//!
//! `cargo run --release -p ferriband-fabric --example speed -- FILE.net LOAD [MICROSECONDS [BUFFER_BLOCKS [time|windows [THREADS]]]]`, or `fat:LEAVES:DOWN:SPINES` for the
//! file: prints packet-hops per second (a packet that crosses a link is one), by the clock and of CPU time, which tells more on a busy machine, events a hop, and the memory that it took.
//! `speed table [--json]`: fat trees of 648 to 32,258 hosts at loads 0.3 and 0.5, three times in turns, and what a hop costs beside the smallest fabric's: CPU time on one thread, and time by the clock
//! on as many as there are processors, which is to be compared with the smallest fabric's on one. Between them, what a line of memory costs
//! that is changed somewhere in as much memory as the fabric took: if it is asked for 16 lines before, and if one waits for it; at the end the floor: a hop of
//! the smallest fabric's work that meets seven lines more in as much memory, window by window, beside it.

use ferriband_fabric::host::{FlowSpec, Pace, Target};
use ferriband_fabric::net::{Net, Plan, PlanError, PlanLink, PlanNode, Settings, WindowsUse};
use ferriband_fabric::{Latencies, LinkRate, Time, shortest};
use ferriband_prefetch::{LargePages, element};
use ferriband_topology::{NodeKind, netlist};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

/// 2 KiB of data, and its headers.
const LENGTH: u16 = 2048 + 30;

fn edr(ends: [(u32, u8); 2]) -> PlanLink {
    PlanLink {
        ends,
        rate: LinkRate::new(100_000_000, 4),
        latency: Time::from_ns(50),
        bit_error_rate: 0.0,
    }
}

/// Two levels of switches.
fn fat_tree(leaves: u32, down: u32, spines: u32) -> Plan {
    let mut plan = Plan::default();
    let switch = |ports: u32| PlanNode::Switch(ports.min(254) as u8);
    plan.nodes
        .extend((0..leaves).map(|_| switch(down + spines)));
    plan.nodes.extend((0..spines).map(|_| switch(leaves)));
    for leaf in 0..leaves {
        for host in 0..down {
            let node = plan.nodes.len() as u32;
            plan.nodes.push(PlanNode::Adapter(leaf * down + host + 1));
            plan.links.push(edr([(leaf, host as u8 + 1), (node, 1)]));
        }
        for spine in 0..spines {
            let up = (leaf, (down + spine) as u8 + 1);
            plan.links.push(edr([up, (leaves + spine, leaf as u8 + 1)]));
        }
    }
    plan
}

/// The fabric of a file, all links 4x EDR.
fn read(file: &str) -> Result<Plan, Box<dyn Error>> {
    if let Some(numbers) = file.strip_prefix("fat:") {
        let numbers: Vec<u32> = numbers
            .split(':')
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let &[leaves, down, spines] = &numbers[..] else {
            return Err("fat:LEAVES:DOWN:SPINES".into());
        };
        return Ok(fat_tree(leaves, down, spines));
    }
    let topology = netlist::parse(&std::fs::read_to_string(file)?)?;
    let mut plan = Plan::default();
    let mut lid = 0;
    for node in topology.nodes() {
        plan.nodes.push(match node.kind {
            NodeKind::Switch => PlanNode::Switch(node.ports),
            _ => {
                lid += 1;
                PlanNode::Adapter(lid)
            }
        });
    }
    for cable in topology.cables() {
        let ends = cable.ends.map(|end| (end.node.0, end.port));
        let adapters = |(node, port): &(u32, u8)| {
            matches!(plan.nodes[*node as usize], PlanNode::Adapter(_)) && *port > 1
        };
        if !ends.iter().any(adapters) {
            plan.links.push(edr(ends));
        }
    }
    Ok(plan)
}

/// Memory of the process now, in MB.
fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kb = line.and_then(|text| text.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kb.unwrap_or(0.0) / 1024.0
}

/// CPU time that all threads of the process took in user mode, in seconds, to a hundredth.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // behind the name, which may hold anything: the twelfth word is in ticks of a hundredth
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = rest.split_whitespace().nth(11);
    ticks
        .and_then(|word| word.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 100.0
}

/// What a run took, and what came out.
struct Measured {
    hosts: usize,
    links: usize,
    hops: f64,
    events: f64,
    threads: usize,
    /// By the clock.
    seconds: f64,
    cpu_seconds: f64,
    resident_mb: f64,
    /// Share of a link.
    throughput: f64,
    latencies: Latencies,
}

impl Measured {
    fn per_second(&self) -> f64 {
        self.hops / self.seconds
    }

    fn per_cpu_second(&self) -> f64 {
        self.hops / self.cpu_seconds.max(0.01)
    }
}

/// Uniform traffic for some time after 20 us that do not count.
fn measure(plan: &Plan, settings: Settings, load: f64, span: Time) -> Result<Measured, PlanError> {
    let mut net = Net::new(plan, settings)?;
    for (node, table) in shortest::tables(plan).into_iter().enumerate() {
        if let Some(switch) = net.switch_mut(node as u32) {
            switch.set_linear(table);
        }
    }
    let hosts: Vec<(u32, u32)> = (0u32..)
        .zip(&plan.nodes)
        .filter_map(|(node, what)| match what {
            PlanNode::Adapter(lid) => Some((node, *lid)),
            PlanNode::Switch(_) => None,
        })
        .collect();
    let lids: Arc<[u32]> = hosts.iter().map(|(_, lid)| *lid).collect();
    let rate = LinkRate::new(100_000_000, 4);
    for (node, _) in &hosts {
        let spec = FlowSpec {
            target: Target::Any(lids.clone()),
            sl: 0,
            length_bytes: LENGTH,
            message_bytes: None,
            pace: Pace::About(FlowSpec::gap(&rate, LENGTH, load)),
            start: Time::ZERO,
            packets: None,
        };
        net.add_flow(*node, spec);
    }
    net.run_until(Time::from_us(20));
    net.begin();
    let (hops, events, begun, used) = (net.hops(), net.events(), Instant::now(), cpu_seconds());
    net.run_until(Time::from_us(20) + span);
    let seconds = begun.elapsed().as_secs_f64();
    let cpu_seconds = cpu_seconds() - used;
    let carried: f64 = hosts.iter().map(|host| net.share(host.0, 0)).sum();
    Ok(Measured {
        hosts: hosts.len(),
        links: plan.links.len(),
        hops: (net.hops() - hops) as f64,
        events: (net.events() - events) as f64,
        threads: net.threads(),
        seconds,
        cpu_seconds,
        resident_mb: resident_mb(),
        throughput: carried / hosts.len() as f64,
        latencies: net.latencies().clone(),
    })
}

/// A line of memory.
#[derive(Clone)]
#[repr(align(64))]
struct Line([u64; 8]);

/// Nanoseconds of a line somewhere in so many MB: each asked for 16 lines before it is changed, and each known only from the one before.
fn line_ns(megabytes: f64) -> (f64, f64) {
    const LOOKS: usize = 400_000;
    const AHEAD: usize = 16;
    let count = ((megabytes * 16384.0) as usize).max(1024);
    let mut lines = vec![Line([0; 8]); count];
    LargePages::default().ask(&lines);
    let mut state = 1u64;
    let mut somewhere = || {
        // Knuth's MMIX generator: its upper bits will do
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(state) * count as u128) >> 64) as usize
    };
    let places: Vec<usize> = (0..LOOKS + AHEAD).map(|_| somewhere()).collect();
    let mut best = (f64::MAX, f64::MAX);
    for _ in 0..2 {
        let begun = Instant::now();
        for (at, place) in places[..LOOKS].iter().enumerate() {
            element(&lines, places[at + AHEAD]);
            lines[*place].0[1] += 1;
        }
        best.0 = best
            .0
            .min(begun.elapsed().as_secs_f64() * 1e9 / LOOKS as f64);
        let (begun, mut found) = (Instant::now(), 0);
        for place in &places[..LOOKS / 8] {
            // always 0, but the processor does not know
            found = lines[(place + found as usize) % count].0[0];
        }
        best.1 = best
            .1
            .min(begun.elapsed().as_secs_f64() * 8e9 / LOOKS as f64);
        std::hint::black_box(found);
    }
    best
}

/// Lines of memory that a hop meets beyond a core's own cache on a fabric that does not fit it, and does not on the smallest, by Cachegrind (docs/design/fabric.md).
const LINES_A_HOP: usize = 7;

/// Steps of work, each of which waits for the one before.
fn work(mut state: u64, steps: usize) -> u64 {
    for _ in 0..steps {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
    }
    state
}

/// Nanoseconds of a hop that takes `work_ns` where all is at hand, and meets [`LINES_A_HOP`] lines in so many MB: region by region as windows do, anywhere in a region, each asked for
/// 16 lines before it is changed. No hop of such a fabric can take less here but by meeting fewer lines: one measurement, work and memory beside each other.
fn floor_ns(megabytes: f64, work_ns: f64) -> f64 {
    const REGION: usize = 4096;
    const HOPS: usize = 256;
    const AHEAD: usize = 16;
    let regions = ((megabytes * 16384.0) as usize / REGION).max(1);
    let mut lines = vec![Line([0; 8]); regions * REGION];
    LargePages::default().ask(&lines);
    let mut state = 1u64;
    let places: Vec<u32> = (0..regions * HOPS * LINES_A_HOP + AHEAD)
        .map(|at| {
            state = work(state, 1);
            let region = at / (HOPS * LINES_A_HOP) % regions;
            (region * REGION) as u32 + (state >> 33) as u32 % REGION as u32
        })
        .collect();
    // what a step takes
    const STEPS: usize = 4_000_000;
    let step_ns = (0..3)
        .map(|_| {
            let begun = Instant::now();
            std::hint::black_box(work(std::hint::black_box(state), STEPS));
            begun.elapsed().as_secs_f64() * 1e9 / STEPS as f64
        })
        .fold(f64::MAX, f64::min);
    let steps = (work_ns / step_ns) as usize;
    let hops = regions * HOPS;
    let rounds = (200_000 / hops).max(3);
    (0..3)
        .map(|_| {
            let begun = Instant::now();
            for _ in 0..rounds {
                for hop in 0..hops {
                    for at in hop * LINES_A_HOP..(hop + 1) * LINES_A_HOP {
                        element(&lines, places[at + AHEAD] as usize);
                        lines[places[at] as usize].0[1] += 1;
                    }
                    state = work(state, steps);
                }
            }
            std::hint::black_box(state);
            begun.elapsed().as_secs_f64() * 1e9 / (rounds * hops) as f64
        })
        .fold(f64::MAX, f64::min)
}

/// Fat trees, and for how many microseconds they run at load 1: some millions of hops each.
const SIZES: [(u32, u32, u32, f64); 4] = [
    (36, 18, 18, 300.0),
    (72, 36, 36, 75.0),
    (144, 72, 72, 18.0),
    (254, 127, 127, 5.0),
];
const ROUNDS: usize = 3;

/// All sizes and loads, in turns.
fn table(json: bool) -> Result<(), Box<dyn Error>> {
    let loads = [0.3, 0.5];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut rates = vec![Vec::new(); SIZES.len() * loads.len()];
    // by the clock, of one thread and of all
    let mut clock = vec![[Vec::new(), Vec::new()]; rates.len()];
    let mut last = Vec::new();
    let mut lines = vec![(f64::MAX, f64::MAX); rates.len()];
    // a later round's has what was kept of the larger fabrics of the one before
    let mut megabytes = vec![f64::MAX; rates.len()];
    for _ in 0..ROUNDS {
        last.clear();
        for (at, &(leaves, down, spines, span)) in SIZES.iter().enumerate() {
            let plan = fat_tree(leaves, down, spines);
            for (which, load) in loads.into_iter().enumerate() {
                let span = Time::from_us((span / load) as u64);
                let measured = measure(&plan, Settings::default(), load, span)?;
                let row = at * loads.len() + which;
                rates[row].push(measured.per_cpu_second());
                clock[row][0].push(measured.per_second());
                megabytes[row] = megabytes[row].min(measured.resident_mb);
                let line = line_ns(megabytes[row]);
                lines[row] = (lines[row].0.min(line.0), lines[row].1.min(line.1));
                let settings = Settings {
                    threads: cores,
                    ..Settings::default()
                };
                let together = measure(&plan, settings, load, span)?;
                clock[row][1].push(together.per_second());
                last.push((load, measured, together.threads));
            }
        }
    }
    if !json {
        println!(
            " hosts  switch ports  load  million packet-hops per second of CPU time  ns a hop  times 648 hosts'  by the clock, threads  times one's  ns a hop  times 648 hosts' on one    MB  ns a line, asked for  waited for  floor, times 648 hosts'"
        );
    }
    let median_ns = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        1e9 / rates[ROUNDS / 2]
    };
    let clock: Vec<[f64; 2]> = clock
        .iter_mut()
        .map(|both| both.each_mut().map(median_ns))
        .collect();
    let mut rows = Vec::new();
    for (at, ((load, measured, threads), rates)) in last.iter().zip(&mut rates).enumerate() {
        let ns = median_ns(rates);
        rows.push(ns);
        let [alone, together] = clock[at];
        let faster = alone / together;
        let together_times = together / clock[at % loads.len()][0];
        let ports = 2 * measured.links - measured.hosts;
        let times = ns / rows[at % loads.len()];
        let ((asked, waited), megabytes) = (lines[at], megabytes[at]);
        let smallest = rows[at % loads.len()];
        let floor = match at < loads.len() {
            true => 1.0,
            false => floor_ns(megabytes, smallest) / smallest,
        };
        let shown: Vec<String> = rates
            .iter()
            .map(|rate| format!("{:.2}", rate / 1e6))
            .collect();
        if json {
            println!(
                r#"{{"hosts":{},"switch_ports":{ports},"load":{load},"million_hops_per_cpu_second":[{}],"ns_per_hop":{ns:.1},"times_smallest":{times:.2},"threads":{threads},"times_one_thread":{faster:.2},"clock_ns_per_hop":{together:.1},"clock_times_smallest_on_one":{together_times:.2},"megabytes":{megabytes:.0},"ns_per_line_asked_for":{asked:.1},"ns_per_line_waited_for":{waited:.0},"floor_times_smallest":{floor:.2}}}"#,
                measured.hosts,
                shown.join(","),
            );
        } else {
            println!(
                "{:6}  {ports:12}  {load:4}  {:43}  {ns:8.0}  {times:16.2}  {threads:21}  {faster:11.2}  {together:8.0}  {together_times:23.2}  {megabytes:4.0}  {asked:20.1}  {waited:10.0}  {floor:23.2}",
                measured.hosts,
                shown.join(", "),
            );
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == "table") {
        return table(args.get(1).is_some_and(|option| option == "--json"));
    }
    let (Some(file), Some(load)) = (args.first(), args.get(1)) else {
        return Err(
            "usage: speed FILE.net LOAD [MICROSECONDS [BUFFER_BLOCKS [time|windows [THREADS]]]], or speed table [--json]"
                .into(),
        );
    };
    let load: f64 = load.parse()?;
    let span = Time::from_us(args.get(2).map_or(Ok(200), |text| text.parse())?);
    let mut settings = Settings::default();
    if let Some(blocks) = args.get(3) {
        settings.buffer_blocks = blocks.parse()?;
    }
    settings.windows = match args.get(4).map(String::as_str) {
        None => WindowsUse::Large,
        Some("time") => WindowsUse::Never,
        Some("windows") => WindowsUse::Always,
        Some(other) => return Err(format!("{other}: events come by time or by windows").into()),
    };
    if let Some(threads) = args.get(5) {
        settings.threads = threads.parse()?;
    }
    let measured = measure(&read(file)?, settings, load, span)?;
    println!(
        "{} hosts, {} links, load {load}, threads {}: {:.0} packet-hops in {:.2} s, {:.2} Mhops/s, {:.2} of CPU time, {:.2} events a hop, {:.0} MB",
        measured.hosts,
        measured.links,
        measured.threads,
        measured.hops,
        measured.seconds,
        measured.per_second() / 1e6,
        measured.per_cpu_second() / 1e6,
        measured.events / measured.hops,
        measured.resident_mb,
    );
    let latencies = &measured.latencies;
    println!(
        "throughput {:.4} of a link, latency mean {:.0} ns, 50 % {:.0} ns, 99 % {:.0} ns",
        measured.throughput,
        latencies.mean().0 as f64 / 1e3,
        latencies.quantile(0.5).0 as f64 / 1e3,
        latencies.quantile(0.99).0 as f64 / 1e3,
    );
    Ok(())
}
