//! The words of `ferriband sim fabric`.

use super::JsonFlag;
use crate::text::parse_size;
use clap::{Args, Subcommand, ValueEnum};
use ferriband_fabric::Time;
use ferriband_topology::{Speed, Width};
use std::path::PathBuf;

/// What `sim` simulates besides the transport.
#[derive(Subcommand, Clone)]
pub enum SimCommand {
    /// Let packets cross a fabric in virtual time: throughput, latency, busy links, congestion
    ///
    /// Links have credits and virtual lanes, switches are cut-through; forwarding tables, service levels and lanes are those of a routing engine.
    /// The same words give the same result on every machine. One subnet has 49,151 unicast LIDs; --wide-lids goes beyond.
    #[command(
        after_help = "Traffic: uniform (each message to any host), permutation (each host to one other), hot-spot[:SHARE] (that share of all messages to the first host, 0.2, the others uniform to the rest), \
        incast[:N] (N hosts, or all, to the first), all-to-all (each host to each in turn), shift[:N] (host i to host i+N, half of the hosts), trace:FILE (the messages of an MPI run, as \
        `ferriband trace` writes them).\n\n\
        Examples:\n  ferriband sim fabric fat-tree:36x18x18 --engine ftree --load 0.6 --html run.html\n  ferriband sim fabric torus:4x4:2 --engine torus-2qos --traffic hot-spot:0.3 --congestion-control\n  \
        ferriband sim fabric --example congestion\n\n\
        Exit status: 0 it ran, 1 packets blocked each other for ever or it cannot run, 2 wrong usage."
    )]
    Fabric(Box<FabricSimArgs>),
}

/// The tutorial's own examples.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Example {
    /// Figs. 12 and 13: who gets which share of a congested link, and what congestion control does for the victim.
    Congestion,
    /// Fig. 7: nine switches, which direction of each link is up, and the turns that UpDown forbids.
    Tutorial,
}

/// Who sends to whom.
#[derive(Clone, PartialEq, Debug)]
pub enum Traffic {
    /// Each message to any host.
    Uniform,
    /// Each host to one other, all different.
    Permutation,
    /// A share of all messages to the first host, the rest uniform.
    HotSpot(f64),
    /// So many hosts to the first one; None: all.
    Incast(Option<u32>),
    /// Each host to each in turn.
    AllToAll,
    /// Host i to host i + N; None: half of the hosts.
    Shift(Option<u32>),
    /// The messages of an MPI run.
    Trace(PathBuf),
}

/// Input buffers of switches.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwitchKind {
    /// Virtual output queues: nobody blocks others.
    Voq,
    /// A FIFO for each lane of an input: its head blocks those behind.
    Fifo,
    /// FIFOs, and one packet at a time through the whole switch: what the tutorial presumes in its example.
    Capped,
}

/// Who of the inputs comes next.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum PickKind {
    /// Packet by packet in turn.
    Turn,
    /// Any, each as likely.
    Random,
}

/// What `sim fabric` runs.
#[derive(Args, Clone)]
pub struct FabricSimArgs {
    /// A file (.toml, netlist of ibsim, output of ibnetdiscover) or a shape, such as torus:4x4:2.
    #[arg(required_unless_present = "example")]
    pub fabric: Option<String>,
    /// Run an example of the InfiniBand tutorial instead.
    #[arg(long, value_enum, conflicts_with = "fabric")]
    pub example: Option<Example>,
    /// The routing engine; `fabric engines` lists them.
    #[arg(long, default_value = "minhop")]
    pub engine: String,
    /// A switch at the top, by name or GUID, for updn, dnup and ftree. May be repeated.
    #[arg(long, value_name = "SWITCH")]
    pub root: Vec<String>,
    /// Data lanes that the engine may use.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=15))]
    pub lanes: u8,
    /// Who sends to whom; see below.
    #[arg(long, default_value = "uniform", value_parser = parse_traffic)]
    pub traffic: Traffic,
    /// What each host offers, as a share of its link; 1: as much as goes. Messages come at random times.
    #[arg(long, default_value_t = 0.5, value_parser = parse_load)]
    pub load: f64,
    /// Data of a message [default: one packet].
    #[arg(long, value_name = "SIZE", value_parser = parse_message)]
    pub message: Option<u32>,
    /// Data of a packet.
    #[arg(long, default_value_t = 2048, value_parser = parse_path_mtu)]
    pub mtu: u16,
    /// How long it runs, in virtual time: 200us, 3ms [default: 200us; a trace: to its end].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub duration: Option<Time>,
    /// How long before that, without counting [default: 50us; a trace: 0].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub warm_up: Option<Time>,
    /// All that is random comes from this.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Switches mark packets where congestion begins (FECN), receivers tell senders (BECN), senders slow down.
    #[arg(long)]
    pub congestion_control: bool,
    /// Packets that wait for an output when it begins to mark, in bytes.
    #[arg(long, value_name = "SIZE", default_value = "21K", value_parser = parse_message)]
    pub mark_at: u32,
    /// Packets that go unmarked between two that are marked.
    #[arg(long, default_value_t = 0, value_name = "PACKETS")]
    pub mark_gap: u16,
    /// The time in which a sender forgets one notification [default: 120 packets of the slowest host's link].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub recover: Option<Time>,
    /// A manager reads the counters of hosts' links so often, and has flows to congested hosts use lanes of their own: twice as many lanes, of which the engine may use 7.
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "100us",
        value_parser = parse_interval
    )]
    pub slow_lane: Option<Time>,
    /// How switches are built.
    #[arg(long, value_enum, default_value = "voq")]
    pub switch: SwitchKind,
    /// Who of a switch's inputs comes next.
    #[arg(long, value_enum, default_value = "turn")]
    pub pick: PickKind,
    /// Buffer of each lane of each port.
    #[arg(long, value_name = "SIZE", default_value = "32K", value_parser = parse_buffer)]
    pub buffer: u16,
    /// Width and speed of all links, such as 4xEDR [default: as the fabric says].
    #[arg(long, value_name = "LINK", value_parser = ferriband_topology::toml::read_rate)]
    pub link: Option<(Width, Speed)>,
    /// LIDs beyond 49,151, which the IBA does not have.
    #[arg(long)]
    pub wide_lids: bool,
    /// Times of a trace are multiplied by this.
    #[arg(long, default_value_t = 1.0, value_parser = parse_scale)]
    pub time_scale: f64,
    /// Points in time that are looked at.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub samples: u16,
    /// Write pictures as one HTML file that needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write each picture to this directory, which is made: throughput.svg, latency.svg, links.svg, congestion.svg.
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Threads that a large fabric runs on, a part of it on each [default: as many as there are processors for us]. The result is the same.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// With --json: every direction of every link, however many.
    #[arg(long)]
    pub all_links: bool,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

fn parse_traffic(text: &str) -> Result<Traffic, String> {
    let (name, more) = match text.split_once(':') {
        Some((name, more)) => (name, Some(more)),
        None => (text, None),
    };
    let number = |more: Option<&str>| match more.map(str::parse::<u32>) {
        None => Ok(None),
        Some(Ok(number)) if number > 0 => Ok(Some(number)),
        _ => Err(format!(
            "\"{text}\": what comes behind the colon is no number of hosts"
        )),
    };
    match (name, more) {
        ("uniform", None) => Ok(Traffic::Uniform),
        ("permutation", None) => Ok(Traffic::Permutation),
        ("all-to-all", None) => Ok(Traffic::AllToAll),
        ("incast", more) => Ok(Traffic::Incast(number(more)?)),
        ("shift", more) => Ok(Traffic::Shift(number(more)?)),
        ("trace", Some(file)) if !file.is_empty() => Ok(Traffic::Trace(file.into())),
        ("hot-spot", more) => match more.unwrap_or("0.2").parse() {
            Ok(share) if share > 0.0 && share <= 1.0 => Ok(Traffic::HotSpot(share)),
            _ => Err(format!("\"{text}\": a share is more than 0, and 1 at most")),
        },
        _ => Err(format!(
            "\"{text}\" is no traffic: uniform, permutation, hot-spot[:SHARE], incast[:N], all-to-all, shift[:N], trace:FILE"
        )),
    }
}

fn parse_load(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(load) if load > 0.0 && load <= 1.0 => Ok(load),
        _ => Err(format!("'{text}' is no load: more than 0, and 1 at most")),
    }
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if (1e-6..=1e6).contains(&scale) => Ok(scale),
        _ => Err(format!("'{text}' is no scale: 0.000001 to 1000000")),
    }
}

fn parse_message(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text)?;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("'{text}' is no size of a message"))
}

fn parse_path_mtu(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(mtu @ (256 | 512 | 1024 | 2048 | 4096)) => Ok(mtu),
        _ => Err(format!(
            "'{text}' is no path MTU: 256, 512, 1024, 2048 or 4096"
        )),
    }
}

/// A buffer, in blocks of 64 bytes.
fn parse_buffer(text: &str) -> Result<u16, String> {
    let blocks = parse_size(text)? / 64;
    // the largest packet must fit; counters have 12 bits, half of which tell before from after
    match u16::try_from(blocks) {
        Ok(blocks) if (66..=4_000).contains(&blocks) => Ok(blocks),
        _ => Err(format!(
            "'{text}' is no buffer: 4,224 bytes (a packet of 4,096 and its headers) to 250K"
        )),
    }
}

/// A time with its unit.
fn parse_time(text: &str) -> Result<Time, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ns" => 1e3,
        "us" => 1e6,
        "ms" => 1e9,
        "s" => 1e12,
        _ => {
            return Err(format!(
                "'{text}' is no time: write a number and ns, us, ms or s"
            ));
        }
    };
    match digits.parse::<f64>() {
        // a day of virtual time: births are counted in 40 bits of nanoseconds
        Ok(value) if value >= 0.0 && value * unit <= 1e15 => Ok(Time((value * unit) as u64)),
        _ => Err(format!("'{text}' is no time: 0 to 1000 s")),
    }
}

/// A time that is more than none.
fn parse_interval(text: &str) -> Result<Time, String> {
    let time = parse_time(text)?;
    match time.0 >= 1_000_000 {
        true => Ok(time),
        false => Err(format!("'{text}' is too often: 1us at the least")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood_or_refused() {
        assert_eq!(parse_traffic("hot-spot"), Ok(Traffic::HotSpot(0.2)));
        assert_eq!(parse_traffic("incast:7"), Ok(Traffic::Incast(Some(7))));
        for text in [
            "",
            "uniform:2",
            "incast:0",
            "hot-spot:2",
            "trace:",
            "shift:x",
        ] {
            assert!(parse_traffic(text).is_err(), "{text}");
        }
        assert_eq!(parse_time("1.5ms"), Ok(Time(1_500_000_000)));
        for text in ["", "5", "-1us", "us", "1e9s"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        assert_eq!(parse_interval("1us"), Ok(Time(1_000_000)));
        assert!(parse_interval("999ns").is_err() && parse_interval("soon").is_err());
        assert_eq!(parse_buffer("32K"), Ok(512));
        assert!(parse_buffer("4K").is_err() && parse_path_mtu("1500").is_err());
    }
}
