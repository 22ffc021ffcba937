//! `ferriband mpi-tune`: which algorithm is the fastest for which collective on this machine, as a table that MPI programs can be given.
//!
//! Owns: what is measured and what becomes of the figures. A C program is compiled by our own wrapper and run by our own launcher, with each algorithm made the
//! preferred one in turn; rounds are interleaved, and what counts is the median of the rounds. Rows that this machine cannot measure (more ranks
//! than cores, or not) stay as they are in the built-in table. The table's form is that of `ferriband_mpi_coll::tuning`.

mod choose;

use crate::args::MpiTuneArgs;
use crate::demo::runner::{Words, run_plain};
use crate::failure::Failure;
use crate::floor::median;
use crate::mpi::ranks;
use crate::mpi::scratch::Scratch;
use crate::progress::Progress;
use crate::text::{self, Table as Shown, duration, print_json, print_line};
use choose::{Figure, Figures};
use ferriband_mpi_coll::tuning::Table;
use ferriband_mpi_coll::{Algorithm, Blocks, Collective, Kind, Place, applicable};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

/// The program.
const SOURCE: &str = include_str!("tune.c");
/// A run that takes longer is a failure.
const LIMIT: Duration = Duration::from_secs(300);
/// Bytes of a rank's slot of the memory that ranks of one host share for collectives.
const SLOT: u64 = ferriband_mpi_proto::segment::HALF as u64;

/// One line of the result.
#[derive(Serialize)]
struct Best {
    operation: &'static str,
    ranks: u32,
    bytes: u64,
    oversubscribed: bool,
    algorithm: &'static str,
    seconds: f64,
    /// What the table that was in force chose, and how long that took.
    before: &'static str,
    seconds_before: f64,
    /// Medians of all algorithms.
    medians: BTreeMap<&'static str, f64>,
}

#[derive(Serialize)]
struct Tuned {
    cores: usize,
    rounds: u16,
    best: Vec<Best>,
    table: String,
}

/// Measures, and writes the table.
pub fn command(args: &MpiTuneArgs) -> Result<ExitCode, Failure> {
    let kinds = kinds(&args.only)?;
    let cores = ranks::cores()?.len();
    let scratch = Scratch::make()?;
    let program = scratch.compile("tune", SOURCE)?;
    let base = Table::default();
    let figures = measure(args, &kinds, &program, &scratch)?;
    let table = choose::table(&base, &figures, cores as u32);
    let text = format!(
        "# Which algorithm for which collective operation: five fields between tabs (operation, ranks at most, bytes at most, 1 if ranks are more than cores, algorithm).\n\
         # Written by `ferriband mpi-tune`: {cores} cores, ranks {}, {} rounds. Used by FERRIBAND_MPI_COLL_TABLE, or mpirun --set coll_table=FILE.\n{table}",
        list(&args.ranks),
        args.rounds
    );
    // What is written must be readable.
    Table::parse(&text).map_err(|error| Failure::new(format!("the table is wrong: {error}")))?;
    if let Some(path) = &args.write {
        fs::write(path, &text)
            .map_err(|error| Failure::io("write", &path.display().to_string(), &error))?;
    }
    let best: Vec<Best> = figures
        .iter()
        .map(|figure| best(figure, &base, cores))
        .collect();
    if args.json.json {
        print_json(&Tuned {
            cores,
            rounds: args.rounds,
            best,
            table: text,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    show(&best)?;
    match &args.write {
        Some(path) => print_line(&format!(
            "\nThe table is in {0}: mpirun --set coll_table={0}, or coll_table = {0} in ~/.config/ferriband/mpi.conf",
            path.display()
        ))?,
        None => print_line("\n--write FILE keeps it as a table that MPI programs can be given")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(ranks: &[u32]) -> String {
    let words: Vec<String> = ranks.iter().map(u32::to_string).collect();
    words.join(",")
}

fn kinds(only: &[String]) -> Result<Vec<Kind>, Failure> {
    if only.is_empty() {
        return Ok(Kind::ALL.to_vec());
    }
    only.iter()
        .map(|name| {
            Kind::from_name(name).ok_or_else(|| {
                let names = Kind::ALL.map(Kind::name).join(", ");
                Failure::new(format!("{name} is no operation; there are {names}")).status(2)
            })
        })
        .collect()
}

/// The operation as it is measured: what decides whether an algorithm can do it.
fn collective(kind: Kind, bytes: u64, ranks: u32) -> Collective<'static> {
    let blocks = Blocks::Equal(bytes);
    let (root, commutative, in_place) = (0, true, false);
    match kind {
        Kind::Barrier => Collective::Barrier,
        Kind::Bcast => Collective::Bcast { count: bytes, root },
        Kind::Reduce => Collective::Reduce {
            count: bytes,
            root,
            commutative,
            in_place,
        },
        Kind::Allreduce => Collective::Allreduce {
            count: bytes,
            commutative,
            in_place,
        },
        Kind::Gather => Collective::Gather {
            blocks,
            root,
            in_place,
        },
        Kind::Scatter => Collective::Scatter {
            blocks,
            root,
            in_place,
        },
        Kind::Allgather => Collective::Allgather { blocks, in_place },
        Kind::Alltoall => Collective::Alltoall {
            send: blocks,
            recv: blocks,
            in_place,
        },
        Kind::ReduceScatter => Collective::ReduceScatter {
            blocks: Blocks::Equal(bytes / u64::from(ranks.max(1))),
            commutative,
            in_place,
        },
        Kind::Scan => Collective::Scan {
            count: bytes,
            exclusive: false,
            commutative,
            in_place,
        },
    }
}

fn place(ranks: u32) -> Place {
    Place {
        shared_units: SLOT,
        ..Place::new(0, ranks)
    }
}

/// All rounds. In each run every operation has one of its algorithms, so there are as many runs as the operation with the most has algorithms.
fn measure(
    args: &MpiTuneArgs,
    kinds: &[Kind],
    program: &Path,
    scratch: &Scratch,
) -> Result<Figures, Failure> {
    let exe = env::current_exe()
        .map_err(|error| Failure::io("find", "this program's own file", &error))?;
    let most = kinds
        .iter()
        .map(|kind| kind.algorithms().len())
        .max()
        .unwrap_or(0);
    let rounds = usize::from(args.rounds);
    let progress = Progress::new((rounds * args.ranks.len() * most) as u64);
    let mut samples: BTreeMap<(Kind, u32, u64), BTreeMap<Algorithm, Vec<f64>>> = BTreeMap::new();
    for round in 0..rounds {
        for &ranks in &args.ranks {
            for turn in 0..most {
                let which = (turn + round) % most;
                progress.step(&format!(
                    "round {}/{rounds}: {ranks} ranks, algorithm {} of {most}",
                    round + 1,
                    which + 1
                ));
                let chosen: Vec<(Kind, Algorithm)> = kinds
                    .iter()
                    .filter_map(|kind| Some((*kind, *kind.algorithms().get(which)?)))
                    .collect();
                let words = words(&exe, program, ranks, args.longest, &chosen);
                let (output, _) = run_plain(&words, LIMIT, scratch)?;
                scratch.stopped()?;
                if !output.is_fine() {
                    return Err(Failure::new(format!(
                        "{}: {}: {}",
                        output.command,
                        output.ending(),
                        output.text.trim().lines().last().unwrap_or_default()
                    )));
                }
                for ((kind, bytes), seconds) in figures(&output.text) {
                    let Some((_, algorithm)) = chosen.iter().find(|(one, _)| *one == kind) else {
                        continue;
                    };
                    // What cannot be done so was done otherwise.
                    if applicable(&collective(kind, bytes, ranks), *algorithm, place(ranks)) {
                        let all = samples.entry((kind, ranks, bytes)).or_default();
                        all.entry(*algorithm).or_default().push(seconds);
                    }
                }
            }
        }
    }
    progress.finish();
    let figures = samples.into_iter().map(|((kind, ranks, bytes), all)| {
        let medians = all
            .into_iter()
            .filter_map(|(algorithm, samples)| Some((algorithm, median(samples)?)))
            .collect();
        Figure {
            kind,
            ranks,
            bytes,
            medians,
        }
    });
    Ok(figures.collect())
}

fn words(
    exe: &Path,
    program: &Path,
    ranks: u32,
    longest: u64,
    chosen: &[(Kind, Algorithm)],
) -> Words {
    let preferred: Vec<String> = chosen
        .iter()
        .map(|(kind, algorithm)| format!("{}={}", kind.name(), algorithm.name()))
        .collect();
    let mut words: Words = vec![
        exe.display().to_string(),
        "mpirun".to_owned(),
        // A core for each, where there are as many: else two may share one for a while.
        "--bind".to_owned(),
        "core".to_owned(),
        "--set".to_owned(),
        format!("coll={}", preferred.join(",")),
        "-n".to_owned(),
        ranks.to_string(),
        program.display().to_string(),
        longest.to_string(),
    ];
    words.extend(chosen.iter().map(|(kind, _)| kind.name().to_owned()));
    words
}

/// What the program printed.
fn figures(text: &str) -> Vec<((Kind, u64), f64)> {
    text.lines()
        .filter_map(|line| {
            let (name, seconds) = line.split_once(' ')?;
            let (kind, bytes) = name.split_once('/')?;
            let seconds: f64 = seconds.trim().parse().ok()?;
            let what = (Kind::from_name(kind)?, bytes.parse().ok()?);
            (seconds.is_finite() && seconds > 0.0).then_some((what, seconds))
        })
        .collect()
}

fn best(figure: &Figure, base: &Table, cores: usize) -> Best {
    let oversubscribed = figure.ranks as usize > cores;
    let what = collective(figure.kind, figure.bytes, figure.ranks);
    let before = base.choose(&what, place(figure.ranks), figure.bytes, oversubscribed);
    let (algorithm, seconds) = figure.fastest().unwrap_or((before, 0.0));
    Best {
        operation: figure.kind.name(),
        ranks: figure.ranks,
        bytes: figure.bytes,
        oversubscribed,
        algorithm: algorithm.name(),
        seconds,
        before: before.name(),
        seconds_before: figure.medians.get(&before).copied().unwrap_or(0.0),
        medians: figure
            .medians
            .iter()
            .map(|(one, median)| (one.name(), *median))
            .collect(),
    }
}

fn show(best: &[Best]) -> Result<(), Failure> {
    let header = [
        "operation",
        "ranks",
        "bytes",
        "fastest",
        "time",
        "built in",
        "time",
    ];
    let mut table = Shown::new(header).right_align(&[1, 2, 4, 6]);
    for one in best {
        let bytes = usize::try_from(one.bytes).unwrap_or(usize::MAX);
        table.row([
            one.operation.to_owned(),
            one.ranks.to_string(),
            text::size(bytes),
            one.algorithm.to_owned(),
            duration(one.seconds * 1e9),
            one.before.to_owned(),
            duration(one.seconds_before * 1e9),
        ]);
    }
    table.print()
}
