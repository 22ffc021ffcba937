//! `ferriband repro`: the experiments behind figures of papers, on this machine, and what becomes
//! of the papers' claims.
//!
//! Owns: what is printed, and the exit status. What there is stands in `papers.rs`; the
//! experiments of papers/002 are in `drivers/`, those of papers/003 in `resilient/`, those of
//! papers/004 in `flow/`. A verdict is
//! computed from the CSV alone, so that a file of data can be judged again.

mod data;
mod drivers;
mod flow;
mod hosts;
mod judging;
mod papers;
mod plot;
mod registry;
pub mod resilient;

use crate::args::ReproArgs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::text::{Table, print_json, print_line};
use data::Data;
use papers::PAPERS;
use registry::{Figure, Judged, Options, Paper, Printed, Verdict};
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

pub use flow::{ToldEnd, open_adapter, peer_command};

/// Runs (papers/004, section 6.1).
const RUNS: u32 = 10;
/// Runs of `--quick`: the fewest of which the highest and the lowest can be dropped.
const QUICK_RUNS: u32 = 3;

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    paper: &'static str,
    figure: &'static str,
    title: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    quick: bool,
    coalescing: bool,
    wire: &'static str,
    x: &'static str,
    y: &'static str,
    data: &'a Data,
    /// What the paper prints of the same.
    printed: &'static [Printed],
    verdicts: &'a [Judged],
}

/// A figure that was run, or whose data were read.
struct Outcome {
    figure: &'static Figure,
    csv: String,
    data: Data,
    verdicts: Vec<Judged>,
}

/// `ferriband repro`.
pub fn command(args: &ReproArgs) -> Result<ExitCode, Failure> {
    let Some(paper) = &args.paper else {
        return list(args.json.json);
    };
    let (paper, figures) = find(paper, args.figure.as_deref())?;
    if args.figure.is_none() && (args.csv.is_some() || args.from.is_some()) {
        let what = "a file of data is one figure's: say which";
        return Err(Failure::new(what).status(2));
    }
    let options = Options {
        runs: args
            .runs
            .unwrap_or(if args.quick { QUICK_RUNS } else { RUNS }),
        is_quick: args.quick,
        coalesce: !args.without_coalescing,
        wire: args.wire,
    };
    let mut outcomes = Vec::new();
    for figure in figures {
        let outcome = outcome(figure, &options, args)?;
        if !args.json.json {
            show(paper, &options, &outcome)?;
        }
        outcomes.push(outcome);
    }
    if args.json.json {
        print_reports(paper, &options, &outcomes, args.figure.is_some())?;
    }
    let mut verdicts = outcomes.iter().flat_map(|outcome| &outcome.verdicts);
    let fails = verdicts.any(|judged| judged.verdict == Verdict::Fails);
    Ok(if fails {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Runs the experiment, or reads its data, and judges.
fn outcome(
    figure: &'static Figure,
    options: &Options,
    args: &ReproArgs,
) -> Result<Outcome, Failure> {
    let csv = match &args.from {
        Some(path) => read(path)?,
        None => measure(figure, options)?.csv(),
    };
    let data = Data::parse(&csv).map_err(|why| {
        let path = args.from.as_deref().unwrap_or(Path::new("the data"));
        Failure::new(format!("{}: {why}", path.display()))
    })?;
    if let Some(path) = &args.csv {
        fs::write(path, &csv)
            .map_err(|error| Failure::io("write", &path.display().to_string(), &error))?;
    }
    let claims = figure.claims.iter();
    let verdicts = claims.map(|claim| claim.verdict(&data)).collect();
    Ok(Outcome {
        figure,
        csv,
        data,
        verdicts,
    })
}

/// One report, or the list of those of all of a paper's figures.
fn print_reports(
    paper: &'static Paper,
    options: &Options,
    outcomes: &[Outcome],
    is_one: bool,
) -> Result<(), Failure> {
    let report = |outcome| report(paper, options, outcome);
    let reports: Vec<Report<'_>> = outcomes.iter().map(report).collect();
    match reports.first() {
        Some(report) if is_one => print_json(report),
        _ => print_json(&reports),
    }
}

fn report<'a>(paper: &'static Paper, options: &Options, outcome: &'a Outcome) -> Report<'a> {
    let figure = outcome.figure;
    Report {
        paper: paper.id,
        figure: figure.id,
        title: figure.title,
        note: paper.note,
        quick: options.is_quick,
        coalescing: options.coalesce,
        wire: options.wire.name(),
        x: figure.axes.x,
        y: figure.axes.y,
        data: &outcome.data,
        printed: figure.printed,
        verdicts: &outcome.verdicts,
    }
}

/// The paper, and its figures that are asked for.
fn find(paper: &str, figure: Option<&str>) -> Result<(&'static Paper, &'static [Figure]), Failure> {
    let fail = |what: String| {
        Failure::new(what)
            .remedy("ferriband repro lists them")
            .status(2)
    };
    let found = PAPERS.iter().find(|known| known.id == paper);
    let paper = found.ok_or_else(|| fail(format!("there is no paper '{paper}'")))?;
    let Some(figure) = figure else {
        return Ok((paper, paper.figures));
    };
    let mut figures = paper.figures.iter();
    let at = figures.position(|known| known.id == figure);
    let at = at.ok_or_else(|| {
        fail(format!(
            "of paper {} there is no figure '{figure}'",
            paper.id
        ))
    })?;
    Ok((paper, &paper.figures[at..=at]))
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|error| Failure::io("read", &path.display().to_string(), &error))
}

fn measure(figure: &Figure, options: &Options) -> Result<Data, Failure> {
    let progress = Progress::new((figure.steps)(options));
    let measured = (figure.run)(options, &progress);
    progress.finish();
    measured
}

/// What can be run.
fn list(json: bool) -> Result<ExitCode, Failure> {
    #[derive(Serialize)]
    struct Line {
        paper: &'static str,
        figure: &'static str,
        title: &'static str,
        claims: Vec<&'static str>,
    }
    let lines = PAPERS.iter().flat_map(|paper| {
        paper.figures.iter().map(|figure| Line {
            paper: paper.id,
            figure: figure.id,
            title: figure.title,
            claims: figure.claims.iter().map(|claim| claim.text).collect(),
        })
    });
    let lines: Vec<Line> = lines.collect();
    if json {
        print_json(&lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(["paper", "figure", "shows", "claims"]).right_align(&[3]);
    for line in &lines {
        let claims = line.claims.len().to_string();
        table.row([
            line.paper.into(),
            line.figure.into(),
            line.title.into(),
            claims,
        ]);
    }
    table.print()?;
    print_line("")?;
    for paper in PAPERS {
        print_line(&format!("{}: {}", paper.id, paper.title))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(paper: &Paper, options: &Options, outcome: &Outcome) -> Result<(), Failure> {
    let Outcome {
        figure,
        csv,
        data,
        verdicts,
    } = outcome;
    let what = match figure
        .id
        .starts_with(|letter: char| letter.is_ascii_digit())
    {
        true => "Figure ",
        false => "",
    };
    let (id, title) = (figure.id, figure.title);
    print_line(&format!("{}\n{what}{id}: {title}\n", paper.title))?;
    print_line(&plot::draw(data, &figure.axes))?;
    if !figure.printed.is_empty() {
        print_line("")?;
        beside(figure.printed, data)?;
    }
    print_line(&format!("\n{csv}"))?;
    for judged in verdicts {
        let word = match judged.verdict {
            Verdict::Holds => "holds",
            Verdict::KnownNot => "does not hold here, as known",
            Verdict::Fails => "DOES NOT HOLD",
            Verdict::OnlyThere => "of the paper's hardware alone, not judged",
        };
        print_line(&format!("{word}: {} ({})", judged.claim, judged.place))?;
        print_line(&format!("    found: {}", judged.found))?;
        if let Some(reason) = judged.reason {
            print_line(&format!("    reason: {reason}"))?;
        }
    }
    print_line("")?;
    if options.is_quick {
        print_line("\nshort runs: these figures show that it works, and little more")?;
    }
    if let Some(note) = paper.note {
        print_line(&format!("\n{note}"))?;
    }
    if !options.coalesce {
        print_line("\nwithout coalescing: claims that rest on it are expected not to hold")?;
    }
    Ok(())
}

/// The paper's figures beside ours.
fn beside(printed: &[Printed], data: &Data) -> Result<(), Failure> {
    let mut table = Table::new(["series", "x", "paper", "here"]).right_align(&[1, 2, 3]);
    for Printed { series, x, value } in printed {
        let paper = value.map_or("error".to_owned(), |value| value.to_string());
        let here = data.at(series, *x).map_or("-".to_owned(), plot::number);
        table.row([(*series).to_owned(), x.to_string(), paper, here]);
    }
    table.print()
}
