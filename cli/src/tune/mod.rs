//! `ferriband tune`: what is the fastest way on this machine, kept for programs.
//!
//! Owns: lengths, rounds, and what follows from the figures. What is kept, and where, is
//! `ferriband_sdp_verbs::Lengths`'s. Each round measures both ways one after the other, so that
//! both saw the machine alike; what counts is the median of the rounds.

mod peer;
pub mod putget;

use crate::args::{TuneCommand, TuneSdpArgs};
use crate::failure::Failure;
use crate::floor::median;
use crate::progress::Progress;
use crate::repro::open_adapter;
use crate::text::{self, Table, duration, print_json, print_line};
use ferriband_ibv::AdapterKind;
use ferriband_sdp_verbs::{FlowKind, Lengths};
use serde::Serialize;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

pub use peer::{Found, Messages, Pair, command as peer_command};

/// How much faster a way has to be to count as faster: what differs less may be chance.
pub const GAIN: f64 = 1.05;
/// Bytes of a measurement, about, and its messages at least.
const BYTES: u32 = 16 << 20;
const FEWEST: u32 = 8;
const MOST: u32 = 500;

/// Does what the subcommand says.
pub fn command(command: &TuneCommand) -> Result<ExitCode, Failure> {
    match command {
        TuneCommand::Sdp(args) => sdp(args),
        TuneCommand::Putget(args) => putget::command(args),
    }
}

/// A flow control and a length.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Figure {
    flow: &'static str,
    bytes: u32,
    /// Time of a message, ns.
    copies_ns: f64,
    zero_copy_ns: f64,
    /// Median of the rounds' own: times as fast as by copies.
    ratio: f64,
    /// Messages that went by zero copy where they were to, of all rounds, and their bytes.
    offers: u64,
    offered_bytes: u64,
}

/// What follows from the figures of a flow control.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
struct Least {
    flow: &'static str,
    /// From which length on zero copy is faster; null: never.
    bytes: Option<u32>,
}

#[derive(Serialize)]
struct Tuned {
    adapter: String,
    rounds: u16,
    figures: Vec<Figure>,
    least: [Least; 3],
    file: Option<PathBuf>,
}

fn sdp(args: &TuneSdpArgs) -> Result<ExitCode, Failure> {
    if args.shortest > args.longest {
        return Err(Failure::new("the shortest message is longer than the longest").status(2));
    }
    let adapter = open_adapter()?
        .kind()
        .map_err(|error| Failure::new(format!("the adapter does not say what it is: {error}")))?;
    let file = file_of(args.write.as_deref(), Lengths::path)?;
    let figures = measure(args)?;
    let least = FlowKind::ALL.map(|flow| least(&figures, flow));
    if let Some(file) = &file {
        keep(file, adapter, &least)?;
    }
    if args.json.json {
        print_json(&Tuned {
            adapter: adapter.to_string(),
            rounds: args.rounds,
            figures,
            least,
            file,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    show(&figures)?;
    print_line("")?;
    for one in least {
        let from = one.bytes.map(|bytes| text::size(bytes as usize));
        let said = from.map_or("never".to_owned(), |from| format!("from {from} on"));
        print_line(&format!("{adapter}, {}: zero copy {said}", one.flow))?;
    }
    if let Some(file) = &file {
        print_line(&format!("kept in {}, for zero_copy = auto", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where a result is kept: in the user's own file, or as said; None: nowhere.
fn file_of(
    write: Option<&Path>,
    own: fn(Option<&str>, Option<&str>) -> Option<PathBuf>,
) -> Result<Option<PathBuf>, Failure> {
    match write {
        Some(none) if none == Path::new("-") => return Ok(None),
        Some(file) => return Ok(Some(file.to_owned())),
        None => {}
    }
    let text = |name: &str| env::var_os(name).and_then(|value| value.into_string().ok());
    let path = own(text("XDG_CONFIG_HOME").as_deref(), text("HOME").as_deref());
    let missing = || {
        Failure::new("there is no home directory to keep the result in").remedy("give --write FILE")
    };
    path.map(Some).ok_or_else(missing)
}

/// Writes the adapter's rows anew, and leaves those of others.
fn keep(file: &Path, adapter: AdapterKind, least: &[Least]) -> Result<(), Failure> {
    let change = |mut lengths: Lengths| {
        for (flow, least) in FlowKind::ALL.into_iter().zip(least) {
            lengths.set(adapter, flow, least.bytes.map(u64::from));
        }
        format!(
            "# From which length on zero copy is the faster way of a blocking write by SDP: three fields between tabs (adapter as vendor:part, flow control, bytes or never).\n\
             # Written by `ferriband tune sdp`.\n{lengths}"
        )
    };
    rewrite(file, |text| Lengths::parse(text).map(change))
}

/// Writes a file of results anew, from what stood there: nothing, if it was not there. One that
/// means nothing is left as it is.
fn rewrite<E: Display>(
    file: &Path,
    change: impl FnOnce(&str) -> Result<String, E>,
) -> Result<(), Failure> {
    let shown = file.display().to_string();
    let failed = |verb, error: &io::Error| Failure::io(verb, &shown, error);
    let before = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed("read", &error)),
    };
    let text = change(&before).map_err(|wrong| {
        Failure::new(format!("{shown}: {wrong}")).remedy("mend it, or remove it")
    })?;
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory).map_err(|error| failed("make the directory of", &error))?;
    }
    fs::write(file, text).map_err(|error| failed("write", &error))
}

/// Each flow control with each length.
fn places(args: &TuneSdpArgs) -> Vec<(FlowKind, u32)> {
    let next = |bytes: &u32| bytes.checked_mul(2).filter(|bytes| *bytes <= args.longest);
    let lengths = || std::iter::successors(Some(args.shortest), next);
    let of = |flow: FlowKind| lengths().map(move |bytes| (flow, bytes));
    FlowKind::ALL.into_iter().flat_map(of).collect()
}

/// Figures of a place by copies and by zero copy, of each round.
#[derive(Clone, Default)]
struct Samples {
    copies: Vec<f64>,
    zero_copy: Vec<f64>,
    offers: u64,
    offered_bytes: u64,
}

fn measure(args: &TuneSdpArgs) -> Result<Vec<Figure>, Failure> {
    let places = places(args);
    let rounds = args.rounds;
    let progress = Progress::new(u64::from(rounds) * places.len() as u64);
    let wire = args.wire.map(|wire| ("FERRIBAND_WIRE", wire.name()));
    let mut pair = Pair::start(wire.as_slice())?;
    let mut samples = vec![Samples::default(); places.len()];
    for round in 0..rounds {
        let mut connected = None;
        for ((flow, bytes), samples) in places.iter().zip(&mut samples) {
            let (name, shown) = (flow.name(), text::size(*bytes as usize));
            progress.step(&format!("round {}/{rounds}: {name} {shown}", round + 1));
            if connected.replace(*flow) != Some(*flow) {
                pair.connect(*flow)?;
            }
            for step in 0..2 {
                // the other way is the first one in each round
                let is_zero = (step + round) % 2 == 1;
                let found = run(&mut pair, *bytes, is_zero.then_some(1))?;
                match is_zero {
                    true => samples.zero_copy.push(found.ns),
                    false => samples.copies.push(found.ns),
                }
                samples.offers += found.offers;
                samples.offered_bytes += found.offered_bytes;
            }
        }
    }
    pair.finish()?;
    progress.finish();
    let figures = places.into_iter().zip(samples);
    Ok(figures
        .map(|(place, samples)| figure(place, samples))
        .collect())
}

fn figure((flow, bytes): (FlowKind, u32), samples: Samples) -> Figure {
    let both = samples.copies.iter().zip(&samples.zero_copy);
    let ratios = both.map(|(copies, zero_copy)| copies / zero_copy);
    Figure {
        flow: flow.name(),
        bytes,
        ratio: median(ratios.collect()).unwrap_or_default(),
        copies_ns: median(samples.copies).unwrap_or_default(),
        zero_copy_ns: median(samples.zero_copy).unwrap_or_default(),
        offers: samples.offers,
        offered_bytes: samples.offered_bytes,
    }
}

/// Messages of a length that go by zero copy from a length on: after some that warm up, as many as
/// take a moment.
pub fn run(pair: &mut Pair, bytes: u32, least: Option<u64>) -> Result<Found, Failure> {
    let warm = Messages {
        bytes,
        count: 2,
        least,
    };
    pair.run(warm)?;
    let count = (BYTES / bytes).clamp(FEWEST, MOST);
    pair.run(Messages { count, ..warm })
}

/// The shortest length at which zero copy is faster, if it is slower at none that is longer.
fn least(figures: &[Figure], flow: FlowKind) -> Least {
    let of = || figures.iter().filter(|figure| figure.flow == flow.name());
    let loses = of().filter(|figure| figure.ratio < 1.0 / GAIN);
    let longest = loses.map(|figure| figure.bytes).max().unwrap_or(0);
    let wins = of().filter(|figure| figure.ratio >= GAIN && figure.bytes > longest);
    Least {
        flow: flow.name(),
        bytes: wins.map(|figure| figure.bytes).min(),
    }
}

fn show(figures: &[Figure]) -> Result<(), Failure> {
    let header = [
        "flow",
        "bytes",
        "copies",
        "zero copy",
        "ratio",
        "without copies",
    ];
    let mut table = Table::new(header).right_align(&[1, 2, 3, 4, 5]);
    for figure in figures {
        table.row([
            figure.flow.to_owned(),
            text::size(figure.bytes as usize),
            duration(figure.copies_ns),
            duration(figure.zero_copy_ns),
            format!("{:.2}", figure.ratio),
            figure.offers.to_string(),
        ]);
    }
    table.print()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(flow: FlowKind, bytes: u32, ratio: f64) -> Figure {
        let samples = Samples {
            copies: vec![ratio; 3],
            zero_copy: vec![1.0; 3],
            ..Samples::default()
        };
        figure((flow, bytes), samples)
    }

    #[test]
    fn zero_copy_is_chosen_where_it_wins_if_it_loses_at_nothing_longer() {
        let mut figures = vec![
            at(FlowKind::Ring, 4096, 1.2),
            at(FlowKind::Ring, 8192, 0.94),
            at(FlowKind::Ring, 16_384, 1.04),
            at(FlowKind::Ring, 32_768, 1.06),
            at(FlowKind::Ring, 65_536, 0.96),
            at(FlowKind::Credit, 65_536, 1.04),
        ];
        assert_eq!(least(&figures, FlowKind::Ring).bytes, Some(32_768));
        assert_eq!(least(&figures, FlowKind::Credit).bytes, None);
        figures.push(at(FlowKind::Ring, 131_072, 0.9));
        assert_eq!(least(&figures, FlowKind::Ring).bytes, None);
    }

    #[test]
    fn a_result_is_kept_beside_those_of_other_adapters() {
        let directory = env::temp_dir().join(format!("ferriband-tune-{}", std::process::id()));
        let file = directory.join("deep/lengths.tsv");
        let [one, other] = [1, 2].map(|part| AdapterKind { vendor: 7, part });
        let all = |bytes| {
            FlowKind::ALL.map(|flow| Least {
                flow: flow.name(),
                bytes,
            })
        };
        keep(&file, one, &all(Some(65_536))).expect("written");
        keep(&file, other, &all(None)).expect("written");
        keep(&file, one, &all(Some(4096))).expect("written");
        let text = fs::read_to_string(&file).expect("there");
        let kept = Lengths::parse(&text).expect("a table");
        assert_eq!(kept.of(one, FlowKind::Nic), Some(Some(4096)));
        assert_eq!(kept.of(other, FlowKind::Ring), Some(None));
        fs::write(&file, "rubbish").expect("written");
        keep(&file, one, &all(None)).expect_err("it is left as it is");
        fs::remove_dir_all(&directory).expect("removed");
    }
}
