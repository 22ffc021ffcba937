//! `ferriband tune putget`: up to how many bytes puts and gets are faster in protocol messages.
//!
//! Owns: lengths, rounds, and where the two curves cross. What is kept, and where, is
//! `ferriband_putget_verbs`'s. Each round measures both ways of a length one after the other, so
//! that both saw the machine alike; what counts is the median of the rounds.

use super::{file_of, rewrite};
use crate::args::TunePutgetArgs;
use crate::failure::Failure;
use crate::floor::median;
use crate::netns;
use crate::progress::Progress;
use crate::putget::{Cores, Found, Operations, Pair, Place, Work, device_at};
use crate::text::{self, Table, duration, print_json, print_line};
use ferriband_putget_proto::HEADER_BYTES;
use ferriband_putget_verbs::crossover::{Crossover, Crossovers, DeviceKind};
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How long a measurement takes, about, and its operations at least and at most.
const MOMENT_NS: f64 = 50e6;
const FEWEST: u32 = 5;
const MOST: u32 = 1000;

/// An operation and a length.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    operation: &'static str,
    pub bytes: u32,
    /// Time of a round trip of puts, or of a get, ns: in messages, and by RDMA.
    pub short_ns: f64,
    pub long_ns: f64,
}

#[derive(Serialize)]
struct Tuned {
    device: String,
    rounds: u16,
    figures: Vec<Figure>,
    put_bytes: u64,
    get_bytes: u64,
    file: Option<PathBuf>,
}

/// The two operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Put,
    Get,
}

impl Operation {
    const ALL: [Operation; 2] = [Operation::Put, Operation::Get];

    pub fn name(self) -> &'static str {
        match self {
            Operation::Put => "put",
            Operation::Get => "get",
        }
    }

    fn work(self, of: Operations) -> Work {
        match self {
            Operation::Put => Work::Puts(of),
            Operation::Get => Work::Gets(of),
        }
    }
}

/// Does what the arguments say.
pub fn command(args: &TunePutgetArgs) -> Result<ExitCode, Failure> {
    if args.shortest > args.longest {
        return Err(Failure::new("the shortest put is longer than the longest").status(2));
    }
    let file = file_of(args.write.as_deref(), Crossovers::path)?;
    let hosts = match args.hosts {
        true => Some(netns::two_hosts().map_err(|why| Failure::new(why.0).status(77))?),
        false => None,
    };
    let (place, address) = match &hosts {
        Some(hosts) => (Place::TwoHosts(hosts), hosts.first.address),
        None => (Place::OneHost(args.wire), Ipv4Addr::LOCALHOST),
    };
    let places: Vec<(Operation, u32)> = Operation::ALL
        .into_iter()
        .flat_map(|operation| {
            let lengths = lengths(args.shortest, args.longest).into_iter();
            lengths.map(move |bytes| (operation, bytes))
        })
        .collect();
    let progress = Progress::new(u64::from(args.rounds) * places.len() as u64);
    let figures = measure(place, places, args.rounds, |what| progress.step(what))?;
    progress.finish();
    let device = device_at(IpAddr::V4(address))?;
    let of = |operation: Operation| {
        let own = figures
            .iter()
            .filter(|figure| figure.operation == operation.name());
        u64::from(crossing(own))
    };
    let crossover = Crossover {
        put: of(Operation::Put),
        get: of(Operation::Get),
    };
    if let Some(file) = &file {
        keep(file, device, crossover)?;
    }
    if args.json.json {
        print_json(&Tuned {
            device: device.to_string(),
            rounds: args.rounds,
            figures,
            put_bytes: crossover.put,
            get_bytes: crossover.get,
            file,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    show(&figures)?;
    print_line(&format!(
        "\n{device}: puts of up to {} bytes and gets of up to {} bytes in messages",
        crossover.put, crossover.get
    ))?;
    if let Some(file) = &file {
        print_line(&format!("kept in {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the device's row anew, and leaves those of others.
fn keep(file: &Path, device: DeviceKind, crossover: Crossover) -> Result<(), Failure> {
    rewrite(file, |text| {
        Crossovers::parse(text).map(|mut table| {
            table.set(device, crossover);
            format!(
                "# Up to how many bytes puts and gets go in protocol messages: four fields between tabs (adapter as vendor:part, link, bytes of a put, bytes of a get).\n\
                 # Written by `ferriband tune putget`.\n{table}"
            )
        })
    })
}

/// Lengths from the shortest to the longest: powers of two, and half way between them.
pub fn lengths(shortest: u32, longest: u32) -> Vec<u32> {
    let powers = (0..=16).map(|power| 1_u32 << power);
    let steps = powers.flat_map(|power| [power, power + power / 2]);
    let inside = steps.filter(|bytes| (shortest + 1..longest).contains(bytes));
    let mut lengths: Vec<u32> = inside.chain([shortest, longest]).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// Times of both ways, of each round.
#[derive(Clone, Default)]
struct Samples {
    short: Vec<f64>,
    long: Vec<f64>,
}

/// Times both ways of operations of lengths, in rounds; `step` hears what comes next.
pub fn measure(
    place: Place<'_>,
    places: Vec<(Operation, u32)>,
    rounds: u16,
    step: impl Fn(&str),
) -> Result<Vec<Figure>, Failure> {
    let longest = places.iter().map(|(_, bytes)| *bytes).max().unwrap_or(1);
    let mut pair = Pair::start(place, Cores::All)?;
    pair.open(longest + HEADER_BYTES as u32)?;
    let mut samples = vec![Samples::default(); places.len()];
    for round in 0..rounds {
        for ((operation, bytes), samples) in places.iter().zip(&mut samples) {
            let shown = format!("{} {}", operation.name(), text::size(*bytes as usize));
            step(&format!("round {}/{rounds}: {shown}", round + 1));
            for turn in 0..2 {
                // the other way is the first one in each round
                let is_short = (turn + round) % 2 == 1;
                let ns = run(&mut pair, *operation, *bytes, is_short)?.ns;
                match is_short {
                    true => samples.short.push(ns),
                    false => samples.long.push(ns),
                }
            }
        }
    }
    pair.finish()?;
    let figures = places.into_iter().zip(samples);
    Ok(figures
        .map(|((operation, bytes), samples)| Figure {
            operation: operation.name(),
            bytes,
            short_ns: median(samples.short).unwrap_or_default(),
            long_ns: median(samples.long).unwrap_or_default(),
        })
        .collect())
}

/// Operations of a length by one way: after some that warm up, as many as take a moment.
fn run(
    pair: &mut Pair,
    operation: Operation,
    bytes: u32,
    is_short: bool,
) -> Result<Found, Failure> {
    let of = Operations {
        connection: 0,
        bytes,
        rounds: FEWEST,
        crossover: if is_short { bytes } else { bytes - 1 },
    };
    let warm = pair.work(operation.work(of))?;
    let rounds = ((MOMENT_NS / warm.ns) as u32).clamp(FEWEST, MOST);
    pair.work(operation.work(Operations { rounds, ..of }))
}

/// Where the curves cross: the length up to which messages are to be used. Of all choices between
/// two lengths that one is taken that loses the least against the better way of each length, so
/// that a single figure that is off decides nothing; the place between these two lengths follows
/// from straight lines through both curves.
pub fn crossing<'a>(figures: impl Iterator<Item = &'a Figure>) -> u32 {
    let mut figures: Vec<&Figure> = figures.collect();
    figures.sort_by_key(|figure| figure.bytes);
    // how much longer messages take, of logarithms
    let more = |figure: &Figure| (figure.short_ns / figure.long_ns).ln();
    let loss_of = |first: usize| {
        let short = figures[..first].iter().map(|figure| more(figure).max(0.0));
        let long = figures[first..]
            .iter()
            .map(|figure| (-more(figure)).max(0.0));
        short.sum::<f64>() + long.sum::<f64>()
    };
    let choices = 0..=figures.len();
    let best = choices.min_by(|one, other| loss_of(*one).total_cmp(&loss_of(*other)));
    let best = best.unwrap_or_default();
    let Some(before) = best.checked_sub(1).map(|last| figures[last]) else {
        return 0;
    };
    let Some(behind) = figures.get(best) else {
        return before.bytes;
    };
    let (gain, loss) = (
        before.long_ns - before.short_ns,
        behind.short_ns - behind.long_ns,
    );
    if gain <= 0.0 || loss <= 0.0 {
        return before.bytes;
    }
    let share = gain / (gain + loss);
    before.bytes + (share * f64::from(behind.bytes - before.bytes)) as u32
}

/// A figure of one length, for [`crossing`].
pub fn figure(bytes: u32, short_ns: f64, long_ns: f64) -> Figure {
    Figure {
        operation: Operation::Put.name(),
        bytes,
        short_ns,
        long_ns,
    }
}

fn show(figures: &[Figure]) -> Result<(), Failure> {
    let header = ["operation", "bytes", "in messages", "by RDMA", "ratio"];
    let mut table = Table::new(header).right_align(&[1, 2, 3, 4]);
    for figure in figures {
        table.row([
            figure.operation.to_owned(),
            figure.bytes.to_string(),
            duration(figure.short_ns),
            duration(figure.long_ns),
            format!("{:.2}", figure.long_ns / figure.short_ns),
        ]);
    }
    table.print()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_ibv::AdapterKind;
    use std::{env, fs};

    fn crossing_of(figures: &[(u32, f64, f64)]) -> u32 {
        let figures: Vec<Figure> = figures
            .iter()
            .map(|(bytes, short, long)| figure(*bytes, *short, *long))
            .collect();
        crossing(figures.iter())
    }

    #[test]
    fn the_papers_curves_cross_where_it_found_its_crossover() {
        // Table 4: short by protocol messages of 4,096 B, long by those of 64
        let paper = [
            (4, 36.5, 66.9),
            (32, 38.2, 67.0),
            (256, 47.8, 76.0),
            (2048, 98.0, 97.0),
            (4060, 151.0, 123.0),
        ];
        let found = crossing_of(&paper);
        assert!((1900..2048).contains(&found), "{found}");
    }

    #[test]
    fn a_figure_that_is_off_decides_nothing_and_curves_that_do_not_cross_have_an_end() {
        let mut figures = vec![
            (4, 10.0, 20.0),
            (64, 10.5, 20.0),
            (512, 12.0, 20.5),
            (1024, 16.0, 21.0),
            (2048, 24.0, 22.0),
            (4096, 40.0, 24.0),
        ];
        let found = crossing_of(&figures);
        assert!((1024..2048).contains(&found), "{found}");
        figures[1].1 = 23.0;
        assert_eq!(crossing_of(&figures), found);
        assert_eq!(crossing_of(&figures[..3]), 512);
        assert_eq!(crossing_of(&figures[4..]), 0);
        assert_eq!(crossing_of(&[]), 0);
    }

    #[test]
    fn lengths_begin_and_end_as_said() {
        assert_eq!(lengths(4, 20), [4, 6, 8, 12, 16, 20]);
        assert_eq!(lengths(7, 7), [7]);
    }

    #[test]
    fn a_result_is_kept_beside_those_of_other_devices() {
        let directory = env::temp_dir().join(format!("ferriband-putget-{}", std::process::id()));
        let file = directory.join("deep/crossover.tsv");
        let [one, other] = [false, true].map(|is_ethernet| DeviceKind {
            adapter: AdapterKind { vendor: 7, part: 1 },
            is_ethernet,
        });
        let crossover = |put| Crossover { put, get: 9 };
        keep(&file, one, crossover(1)).expect("written");
        keep(&file, other, crossover(2)).expect("written");
        keep(&file, one, crossover(3)).expect("written");
        let text = fs::read_to_string(&file).expect("there");
        let kept = Crossovers::parse(&text).expect("a table");
        assert_eq!(kept.of(one), Some(crossover(3)));
        assert_eq!(kept.of(other), Some(crossover(2)));
        fs::write(&file, "rubbish").expect("written");
        keep(&file, one, crossover(4)).expect_err("it is left as it is");
        fs::remove_dir_all(&directory).expect("removed");
    }
}
