//! `ferriband-dev bench --mpi`: Ferriband's MPI beside other MPIs on this host, in one run.
//!
//! Owns: what is measured, what the targets are, and the verdicts. One C source (`compare.c`) is compiled by each MPI's own wrapper; each round runs
//! all of them one after the other, another one first each time, so that both sides of a ratio saw the same machine. A ratio is the median of the
//! rounds' ratios, and the peer that leaves us behind farthest decides. Of two ranks only those rounds count in which a bare line of memory took either side as long: a host
//! that places a virtual machine's cores elsewhere after every sleep makes it 30, 60 or 250 ns, and so decided the ratio. Where the others come from: `peers`; between two hosts: `hosts`.

mod fastpath;
mod hosts;
mod peers;

pub use peers::{compile_own, counts, figures};

use crate::args::{BenchArgs, Wire};
use crate::demo::SKIPPED;
use crate::failure::Failure;
use crate::floor::{Floor, median, message};
use crate::mpi::scratch::Scratch;
use crate::progress::Progress;
use crate::text::{Table, bandwidth, duration, print_json, print_line, size};
use peers::Implementation;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Ranks of the lines about starting and memory.
const MANY: u32 = 16;

/// One run of the program: what it measures, with so many ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    what: What,
    ranks: u32,
}

/// Two ranks that send to one another.
const PAIRS: Run = Run {
    what: What::Pairs,
    ranks: 2,
};

/// The program's first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Pairs,
    Collectives,
    Start,
    Memory,
}

impl What {
    fn word(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Collectives => "collectives",
            Self::Start => "start",
            Self::Memory => "memory",
        }
    }
}

/// What our figure must be, compared with each peer's.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Demand {
    /// Less than theirs, or more where more is better.
    Ahead,
    /// At most theirs.
    NotMore,
    /// Within 5 % of theirs.
    Level,
}

/// How far two figures may be apart that are level.
const LEVEL: f64 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Seconds,
    BytesPerSecond,
    MessagesPerSecond,
    Bytes,
}

/// One line of the table.
struct Line {
    run: Run,
    /// What the program calls it.
    key: String,
    name: String,
    unit: Unit,
    demand: Demand,
}

/// Between two hosts: one rank on each, ahead of all others everywhere.
fn lines_between_hosts() -> Vec<Line> {
    let mut lines = lines();
    lines.retain(|line| line.run == PAIRS);
    for line in &mut lines {
        line.demand = Demand::Ahead;
    }
    lines
}

/// On one host.
fn lines() -> Vec<Line> {
    let pairs = PAIRS;
    let mut lines = Vec::new();
    let mut line = |run, key: String, name: String, unit, demand| {
        lines.push(Line {
            run,
            key,
            name,
            unit,
            demand,
        });
    };
    for bytes in (0..13).map(|power| 1_usize << power) {
        let demand = if bytes == 8 {
            Demand::Ahead
        } else {
            Demand::Level
        };
        let name = format!("latency {}, one way", size(bytes));
        line(
            pairs,
            format!("latency/{bytes}"),
            name,
            Unit::Seconds,
            demand,
        );
    }
    for bytes in (0..12).map(|power| 1_usize << (2 * power)) {
        let name = format!("bandwidth {}, window 64", size(bytes));
        line(
            pairs,
            format!("bandwidth/{bytes}"),
            name,
            Unit::BytesPerSecond,
            Demand::Level,
        );
    }
    line(
        pairs,
        "rate/8".into(),
        "messages of 8 B, window 64".into(),
        Unit::MessagesPerSecond,
        Demand::Ahead,
    );
    for ranks in [2, 4, 8, 16] {
        let run = Run {
            what: What::Collectives,
            ranks,
        };
        let mut collective = |name: &str, bytes: usize| {
            let title = match bytes {
                0 => format!("{name}, {ranks} ranks"),
                _ => format!("{name} {}, {ranks} ranks", size(bytes)),
            };
            line(
                run,
                format!("{name}/{bytes}"),
                title,
                Unit::Seconds,
                Demand::Level,
            );
        };
        collective("barrier", 0);
        for name in ["allreduce", "bcast", "alltoall"] {
            for bytes in [8, 1024, 32768] {
                collective(name, bytes);
            }
        }
    }
    for (what, key, name, unit) in [
        (
            What::Start,
            "start".to_owned(),
            "start and end",
            Unit::Seconds,
        ),
        (
            What::Memory,
            format!("memory/{MANY}"),
            "proportional memory of a rank",
            Unit::Bytes,
        ),
    ] {
        let run = Run { what, ranks: MANY };
        line(
            run,
            key,
            format!("{name}, {MANY} ranks"),
            unit,
            Demand::NotMore,
        );
    }
    lines
}

impl Unit {
    fn is_better_if_more(self) -> bool {
        matches!(self, Self::BytesPerSecond | Self::MessagesPerSecond)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::BytesPerSecond => "bytes/s",
            Self::MessagesPerSecond => "messages/s",
            Self::Bytes => "bytes",
        }
    }

    fn show(self, figure: Option<f64>) -> String {
        let Some(figure) = figure else {
            return "-".to_owned();
        };
        match self {
            Self::Seconds => duration(figure * 1e9),
            Self::BytesPerSecond => bandwidth(figure),
            Self::MessagesPerSecond => format!("{:.2} M/s", figure / 1e6),
            Self::Bytes => format!("{:.2} MiB", figure / f64::from(1 << 20)),
        }
    }
}

impl Demand {
    /// Whether a ratio, of ours to theirs, is as demanded.
    fn is_met(self, ratio: f64, unit: Unit) -> bool {
        match (self, unit.is_better_if_more()) {
            (Self::Ahead, false) => ratio < 1.0,
            (Self::Ahead, true) => ratio > 1.0,
            (Self::NotMore, false) => ratio <= 1.0,
            (Self::NotMore, true) => ratio >= 1.0,
            (Self::Level, false) => ratio <= 1.0 + LEVEL,
            (Self::Level, true) => ratio >= 1.0 - LEVEL,
        }
    }

    fn in_words(self, unit: Unit) -> String {
        match (self, unit.is_better_if_more()) {
            (Self::Ahead, false) => "< 1".to_owned(),
            (Self::Ahead, true) => "> 1".to_owned(),
            (Self::NotMore, false) => "<= 1".to_owned(),
            (Self::NotMore, true) => ">= 1".to_owned(),
            (Self::Level, false) => format!("<= {}", 1.0 + LEVEL),
            (Self::Level, true) => format!(">= {}", 1.0 - LEVEL),
        }
    }
}

/// The figures of one implementation: for each run and each of the program's names those of the rounds; none where it gave none.
type Figures = BTreeMap<(Run, String), Vec<Option<Sample>>>;

/// What one round gave.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    figure: f64,
    /// Seconds that a bare line took one way from rank to rank meanwhile; none if that was not measured, or if it changed.
    line: Option<f64>,
    /// Whether it is known what the line took, or does not matter.
    is_sure: bool,
}

/// How many times as long a line may take as another that is of the same kind.
const SAME_LINE: f64 = 1.5;
/// So many times the rounds are run at the most until each ratio has as many as were asked for.
const MORE_ROUNDS: usize = 3;

impl Sample {
    /// Of what the program printed; a line that changed meanwhile is less than nothing there. Between hosts nothing goes by such a line.
    fn find(found: &BTreeMap<String, f64>, key: &str, is_one_host: bool) -> Option<Self> {
        let said = found.get(&format!("line/{key}")).copied();
        let said = said.filter(|_| is_one_host);
        let line = said.filter(|seconds| *seconds > 0.0);
        Some(Self {
            figure: found.get(key).copied()?,
            line,
            is_sure: said.is_none() || line.is_some(),
        })
    }

    /// Whether both saw the same kind of line.
    fn is_like(&self, other: &Self) -> bool {
        let alike = |one: f64, other: f64| one < other * SAME_LINE && other < one * SAME_LINE;
        match (self.line, other.line) {
            (Some(one), Some(another)) => alike(one, another),
            _ => self.is_sure && other.is_sure,
        }
    }
}

/// One line of the result.
#[derive(Serialize)]
struct Outcome {
    target: String,
    unit: &'static str,
    figure: Option<f64>,
    /// The peer that decides.
    peer: Option<&'static str>,
    peer_figure: Option<f64>,
    ratio: Option<f64>,
    /// Rounds of that ratio: those in which both saw the same kind of line.
    pairs: usize,
    /// What a bare line took us one way, in seconds: the median of the rounds in which it was measured.
    line: Option<f64>,
    demand: String,
    verdict: &'static str,
    /// Medians of all.
    medians: BTreeMap<&'static str, f64>,
    #[serde(skip)]
    shown: Unit,
}

/// All of the result.
#[derive(Serialize)]
struct Comparison {
    rounds: usize,
    implementations: Vec<Described>,
    missing: Vec<peers::Missing>,
    problems: Vec<String>,
    lines: Vec<Outcome>,
    /// Between two hosts: what the kernel alone takes for a small message, and what it carries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    floors: Vec<KernelFloor>,
}

#[derive(Serialize)]
struct KernelFloor {
    way: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_second: Option<f64>,
}

#[derive(Serialize)]
struct Described {
    name: &'static str,
    version: String,
}

/// `ferriband-dev bench --mpi`.
pub fn command(args: &BenchArgs) -> Result<ExitCode, Failure> {
    if args.fastpath {
        return fastpath::command(args);
    }
    if args.fetch && !args.inside {
        peers::fetch()?;
    }
    let hosts = match args.wire {
        Wire::Direct => None,
        Wire::Roce if !args.inside => return hosts::run_inside(&args.json),
        Wire::Roce => Some(hosts::Hosts::make()?),
    };
    let wanted = |line: &Line| {
        args.only
            .as_ref()
            .is_none_or(|text| line.name.contains(text.as_str()))
    };
    let lines = match hosts {
        None => lines(),
        Some(_) => lines_between_hosts(),
    };
    let lines: Vec<Line> = lines.into_iter().filter(wanted).collect();
    if lines.is_empty() {
        return Err(Failure::new("no target has that in its name").status(2));
    }
    let (all, missing) = peers::find(&args.peer, hosts.as_ref())?;
    let rounds = args.rounds();
    let mut floors = Floors::new(hosts.as_ref(), &lines);
    let (figures, problems) = measure(&all, &lines, rounds, &mut floors)?;
    let floors = floors.medians();
    // whoever reads the report may stop reading
    drop(hosts);
    let outcomes: Vec<Outcome> = lines
        .iter()
        .map(|line| judge(line, &all, &figures))
        .collect();
    let is_met = outcomes
        .iter()
        .all(|outcome| matches!(outcome.verdict, "PASS" | "no peer"));
    report(
        &Comparison {
            rounds,
            implementations: all
                .iter()
                .map(|one| Described {
                    name: one.name,
                    version: one.version.clone(),
                })
                .collect(),
            missing,
            problems,
            lines: outcomes,
            floors,
        },
        args.json.json,
    )?;
    Ok(if all.len() == 1 {
        ExitCode::from(SKIPPED)
    } else if is_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What is measured of the kernel alone.
#[derive(Clone, Copy)]
enum KernelWay {
    Message(message::Way),
    /// A stream, with ICRCs or without.
    Stream(bool),
}

impl KernelWay {
    fn name(self) -> &'static str {
        match self {
            KernelWay::Message(way) => way.name(),
            KernelWay::Stream(false) => "UDP in runs of 62 packets of 1 KiB",
            KernelWay::Stream(true) => "the same, ICRCs made at one end and checked at the other",
        }
    }

    fn measure(self, hosts: &hosts::Hosts) -> Result<Floor, Failure> {
        match self {
            KernelWay::Message(way) => hosts.floor(way),
            KernelWay::Stream(icrc) => hosts.stream_floor(icrc),
        }
    }
}

/// What the kernel alone takes and carries between two hosts, as far as the lines are about it: measured in each round, beside the implementations, for the
/// machine is faster and slower by the minute.
struct Floors<'a> {
    hosts: Option<&'a hosts::Hosts>,
    ways: Vec<(KernelWay, Vec<f64>)>,
}

impl<'a> Floors<'a> {
    fn new(hosts: Option<&'a hosts::Hosts>, lines: &[Line]) -> Self {
        let has = |unit| hosts.is_some() && lines.iter().any(|line| line.unit == unit);
        let messages = message::Way::ALL.map(KernelWay::Message);
        let streams = [false, true].map(KernelWay::Stream);
        let ways = messages
            .into_iter()
            .filter(|_| has(Unit::Seconds))
            .chain(streams.into_iter().filter(|_| has(Unit::BytesPerSecond)))
            .map(|way| (way, Vec::new()))
            .collect();
        Floors { hosts, ways }
    }

    /// One round.
    fn measure(&mut self, progress: &Progress, round: &str) -> Result<(), Failure> {
        let Some(hosts) = self.hosts else {
            return Ok(());
        };
        for (way, samples) in &mut self.ways {
            progress.step(&format!("{round}: the kernel alone, {}", way.name()));
            samples.extend(way.measure(hosts)?);
        }
        Ok(())
    }

    /// Each the median of its rounds.
    fn medians(self) -> Vec<KernelFloor> {
        let floors = self.ways.into_iter().filter_map(|(way, samples)| {
            let figure = median(samples)?;
            let is_message = matches!(way, KernelWay::Message(_));
            Some(KernelFloor {
                way: way.name(),
                seconds: is_message.then_some(figure / 1e9),
                bytes_per_second: (!is_message).then_some(figure),
            })
        });
        floors.collect()
    }
}

/// All rounds: what each implementation gave, and what went wrong.
fn measure(
    all: &[Implementation],
    lines: &[Line],
    rounds: usize,
    floors: &mut Floors<'_>,
) -> Result<(Vec<Figures>, Vec<String>), Failure> {
    let is_one_host = floors.hosts.is_none();
    let scratch = Scratch::make()?;
    let mut runs: Vec<Run> = lines.iter().map(|line| line.run).collect();
    runs.dedup();
    let progress = Progress::new((rounds * (runs.len() * all.len() + floors.ways.len())) as u64);
    let mut figures: Vec<Figures> = all.iter().map(|_| Figures::new()).collect();
    let mut problems = Vec::new();
    let mut given_up = Vec::new();
    for round in 0..rounds * MORE_ROUNDS {
        if round < rounds {
            floors.measure(&progress, &format!("round {}/{rounds}", round + 1))?;
        }
        for run in &runs {
            if round >= rounds && has_enough(all, &figures, (lines, *run), rounds) {
                continue;
            }
            for turn in 0..all.len() {
                let index = (turn + round) % all.len();
                let one = &all[index];
                progress.step(&format!(
                    "round {}/{rounds}: {}, {} {}",
                    round + 1,
                    one.name,
                    run.what.word(),
                    run.ranks
                ));
                if given_up.contains(&(index, *run)) {
                    continue;
                }
                let found = one.run(run.what, run.ranks, &scratch);
                scratch.stopped()?;
                let found = found.unwrap_or_else(|why| {
                    problems.push(format!(
                        "{}, {} with {} ranks: {why}",
                        one.name,
                        run.what.word(),
                        run.ranks
                    ));
                    given_up.push((index, *run));
                    BTreeMap::new()
                });
                for line in lines.iter().filter(|line| line.run == *run) {
                    let samples = figures[index].entry((*run, line.key.clone())).or_default();
                    samples.resize(round, None);
                    samples.push(Sample::find(&found, &line.key, is_one_host));
                }
            }
        }
    }
    progress.finish();
    Ok((figures, problems))
}

/// Whether each ratio of a run to each peer that still runs has as many rounds as were asked for. The first implementation is ours.
fn has_enough(
    all: &[Implementation],
    figures: &[Figures],
    (lines, run): (&[Line], Run),
    rounds: usize,
) -> bool {
    lines.iter().filter(|line| line.run == run).all(|line| {
        let key = (run, line.key.clone());
        let samples = |index: usize| figures[index].get(&key).map_or(&[][..], Vec::as_slice);
        (1..all.len()).all(|index| {
            // Who failed is not asked again, and has no line.
            let is_out = |index: usize| samples(index).iter().any(Option::is_none);
            is_out(0) || is_out(index) || pairs(samples(0), samples(index)).count() >= rounds
        })
    })
}

/// The figures of those rounds in which both saw the same kind of line.
fn pairs<'a>(
    ours: &'a [Option<Sample>],
    theirs: &'a [Option<Sample>],
) -> impl Iterator<Item = (f64, f64)> + 'a {
    ours.iter().zip(theirs).filter_map(|(ours, theirs)| {
        let (ours, theirs) = ((*ours)?, (*theirs)?);
        ours.is_like(&theirs)
            .then_some((ours.figure, theirs.figure))
    })
}

/// The verdict on a line. The first implementation is ours.
fn judge(line: &Line, all: &[Implementation], figures: &[Figures]) -> Outcome {
    let key = (line.run, line.key.clone());
    let samples = |index: usize| figures[index].get(&key).map_or(&[][..], Vec::as_slice);
    let middle = |index: usize| {
        let figures = samples(index).iter().flatten();
        median(figures.map(|sample| sample.figure).collect())
    };
    let compared = |index: usize| pairs(samples(0), samples(index));
    let ratio_to = |index: usize| {
        let ratios = compared(index).map(|(ours, theirs)| ours / theirs);
        median(ratios.collect())
    };
    let worse = |one: f64, other: f64| {
        if line.unit.is_better_if_more() {
            one < other
        } else {
            one > other
        }
    };
    let mut decides: Option<(usize, f64)> = None;
    for index in 1..all.len() {
        if let Some(ratio) = ratio_to(index)
            && decides.is_none_or(|(_, known)| worse(ratio, known))
        {
            decides = Some((index, ratio));
        }
    }
    // What is shown beside a ratio are the figures of its rounds.
    let figure = match decides {
        Some((index, _)) => median(compared(index).map(|(ours, _)| ours).collect()),
        None => middle(0),
    };
    let peer_figure =
        decides.and_then(|(index, _)| median(compared(index).map(|(_, theirs)| theirs).collect()));
    let is_compared = (1..all.len()).any(|index| samples(index).iter().any(Option::is_some));
    let own_lines = samples(0).iter().flatten().filter_map(|one| one.line);
    let verdict = match (figure, decides) {
        (None, _) if samples(0).iter().all(Option::is_none) => "FAIL",
        (_, None) if is_compared => "no rounds",
        (_, None) => "no peer",
        (_, Some((_, ratio))) if line.demand.is_met(ratio, line.unit) => "PASS",
        _ => "FAIL",
    };
    Outcome {
        target: line.name.clone(),
        unit: line.unit.name(),
        figure,
        peer: decides.map(|(index, _)| all[index].name),
        peer_figure,
        ratio: decides.map(|(_, ratio)| ratio),
        pairs: decides.map_or(0, |(index, _)| compared(index).count()),
        line: median(own_lines.collect()),
        demand: line.demand.in_words(line.unit),
        verdict,
        medians: (0..all.len())
            .filter_map(|index| Some((all[index].name, middle(index)?)))
            .collect(),
        shown: line.unit,
    }
}

fn report(result: &Comparison, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(result);
    }
    let header = [
        "target",
        "ours",
        "best peer",
        "",
        "ratio",
        "rounds",
        "line",
        "demand",
        "verdict",
    ];
    let mut table = Table::new(header).right_align(&[1, 2, 4, 5, 6]);
    for outcome in &result.lines {
        table.row([
            outcome.target.clone(),
            outcome.shown.show(outcome.figure),
            outcome.shown.show(outcome.peer_figure),
            outcome.peer.unwrap_or_default().to_owned(),
            outcome
                .ratio
                .map(|ratio| format!("{ratio:.2}"))
                .unwrap_or_default(),
            outcome.pairs.to_string(),
            outcome
                .line
                .map(|line| duration(line * 1e9))
                .unwrap_or_default(),
            outcome.demand.clone(),
            outcome.verdict.to_owned(),
        ]);
    }
    table.print()?;
    print_line("")?;
    for floor in &result.floors {
        let one_way = floor.seconds.map(|seconds| duration(seconds * 1e9));
        let stream = floor.bytes_per_second.map(bandwidth);
        let way = floor.way;
        if let Some(figure) = one_way {
            print_line(&format!("the kernel alone, one way: {figure} by {way}"))?;
        }
        if let Some(figure) = stream {
            print_line(&format!("the kernel alone, a stream: {figure} by {way}"))?;
        }
    }
    for one in &result.implementations {
        print_line(&format!("{}: {}", one.name, one.version))?;
    }
    if result.implementations.len() == 1 {
        print_line("there is no other MPI to compare with; --fetch brings some from PyPI")?;
    }
    for peer in &result.missing {
        print_line(&format!("missing: {}: {}", peer.name, peer.why))?;
    }
    for problem in &result.problems {
        print_line(&format!("problem: {problem}"))?;
    }
    let met = result.lines.iter().filter(|line| line.verdict == "PASS");
    let compared = if result.lines.iter().any(|line| line.line.is_some()) {
        format!(
            " or up to {}, until as many ratios are of rounds in which a bare line of memory took both alike",
            result.rounds * MORE_ROUNDS
        )
    } else {
        String::new()
    };
    print_line(&format!(
        "\n{} of {} targets met; medians of {} rounds{compared}; a ratio is the median of the rounds' own, against the peer that is farthest ahead",
        met.count(),
        result.lines.len(),
        result.rounds,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(line: &Line, samples: &[f64]) -> Figures {
        let samples = samples
            .iter()
            .map(|figure| {
                (*figure > 0.0).then_some(Sample {
                    figure: *figure,
                    line: None,
                    is_sure: true,
                })
            })
            .collect();
        BTreeMap::from([((line.run, line.key.clone()), samples)])
    }

    #[test]
    fn rounds_with_other_lines_do_not_count_and_more_are_run_for_them() {
        let lines = lines();
        let latency = lines
            .iter()
            .find(|line| line.key == "latency/16")
            .expect("a line");
        let all = ["ours", "other"].map(peers::Implementation::named);
        let sample = |figure: f64, line: f64| {
            let printed = format!("latency/16 {figure}\nline/latency/16 {line}\n");
            Sample::find(&peers::figures(&printed), "latency/16", true)
        };
        let key = (latency.run, latency.key.clone());
        let runs = |samples: &[Option<Sample>]| BTreeMap::from([(key.clone(), samples.to_vec())]);
        // The host was slow for one side in two rounds; in the third the line changed meanwhile, and is not said.
        let ours = [
            sample(290e-9, 250e-9),
            sample(105e-9, 60e-9),
            sample(1e-9, -1.0),
        ];
        let theirs = [
            sample(100e-9, 62e-9),
            sample(100e-9, 58e-9),
            sample(100e-9, 60e-9),
        ];
        let outcome = judge(latency, &all, &[runs(&ours), runs(&theirs)]);
        let ratio = outcome.ratio.expect("one round is left");
        assert!((ratio - 1.05).abs() < 1e-9, "{ratio}");
        assert_eq!((outcome.pairs, outcome.verdict), (1, "PASS"));
        assert_eq!(outcome.figure, Some(105e-9), "that round's");
        let enough = |ours: &[Option<Sample>], rounds| {
            let one = std::slice::from_ref(latency);
            has_enough(
                &all,
                &[runs(ours), runs(&theirs)],
                (one, latency.run),
                rounds,
            )
        };
        assert!(enough(&ours, 1) && !enough(&ours, 2));
        assert!(
            enough(&[None, None, None], 3),
            "who failed is not asked again"
        );
        let outcome = judge(latency, &all, &[runs(&ours[..1]), runs(&theirs[..1])]);
        assert_eq!((outcome.pairs, outcome.verdict), (0, "no rounds"));
    }

    #[test]
    fn ratios_are_those_of_the_rounds_and_the_farthest_peer_decides() {
        let lines = lines();
        let latency = lines
            .iter()
            .find(|line| line.key == "latency/16")
            .expect("a line");
        let all = ["ours", "one", "other"].map(peers::Implementation::named);
        // The second round was slow for everybody: 1.0 of the median, not 10 of the means. Zeros are rounds without a figure.
        let outcome = judge(
            latency,
            &all,
            &[
                figures(latency, &[1.0, 10.0, 1.0, 1.0]),
                figures(latency, &[2.0, 20.0, 2.0, 2.0]),
                figures(latency, &[0.0, 8.0, 0.98, 0.8]),
            ],
        );
        assert_eq!((outcome.peer, outcome.verdict), (Some("other"), "FAIL"));
        let ratio = outcome.ratio.expect("a ratio");
        assert!((ratio - 1.25).abs() < 1e-9, "{ratio}");
        let alone = judge(
            latency,
            &all[..2],
            &[figures(latency, &[1.04]), figures(latency, &[1.0])],
        );
        assert_eq!(alone.verdict, "PASS", "level is within 5 %");
        let nothing = judge(latency, &all[..1], &[figures(latency, &[1.0])]);
        assert_eq!(nothing.verdict, "no peer");
        let failed = judge(
            latency,
            &all[..2],
            &[figures(latency, &[0.0]), figures(latency, &[1.0])],
        );
        assert_eq!(failed.verdict, "FAIL", "we gave no figure");
    }

    #[test]
    fn more_is_better_for_rates_only() {
        assert!(Demand::Level.is_met(0.96, Unit::BytesPerSecond));
        assert!(!Demand::Level.is_met(0.94, Unit::BytesPerSecond));
        assert!(Demand::Level.is_met(0.5, Unit::Seconds));
        assert!(!Demand::Ahead.is_met(1.0, Unit::Seconds));
        assert!(!Demand::NotMore.is_met(1.01, Unit::Bytes));
    }
}
