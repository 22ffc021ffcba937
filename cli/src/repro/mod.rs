//! `ferriband repro`: the experiments behind figures of papers, on this machine, and what becomes
//! of the papers' claims.
//!
//! Owns: what is printed, and the exit status. What there is stands in `registry.rs`; the
//! experiments of papers/004 are in `flow/`. A verdict is computed from the CSV alone, so that a
//! file of data can be judged again.

mod data;
mod flow;
mod plot;
mod registry;

use crate::args::ReproArgs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::text::{Table, print_json, print_line};
use data::Data;
use registry::{Figure, Judged, Options, PAPERS, Paper, Verdict};
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
    quick: bool,
    coalescing: bool,
    wire: &'static str,
    x: &'static str,
    y: &'static str,
    data: &'a Data,
    verdicts: &'a [Judged],
}

/// `ferriband repro`.
pub fn command(args: &ReproArgs) -> Result<ExitCode, Failure> {
    let (Some(paper), Some(figure)) = (&args.paper, &args.figure) else {
        return list(args.json.json);
    };
    let (paper, figure) = find(paper, figure)?;
    let options = Options {
        runs: args
            .runs
            .unwrap_or(if args.quick { QUICK_RUNS } else { RUNS }),
        is_quick: args.quick,
        coalesce: !args.without_coalescing,
        wire: args.wire,
    };
    let csv = match &args.from {
        Some(path) => read(path)?,
        None => measure(figure, &options)?.csv(),
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
    let verdicts: Vec<Judged> = claims.map(|claim| claim.verdict(&data)).collect();
    if args.json.json {
        print_json(&Report {
            paper: paper.id,
            figure: figure.id,
            title: figure.title,
            quick: options.is_quick,
            coalescing: options.coalesce,
            wire: options.wire.name(),
            x: figure.axes.x,
            y: figure.axes.y,
            data: &data,
            verdicts: &verdicts,
        })?;
    } else {
        show(paper, figure, &options, &csv, &data, &verdicts)?;
    }
    let fails = verdicts
        .iter()
        .any(|judged| judged.verdict == Verdict::Fails);
    Ok(if fails {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn find(paper: &str, figure: &str) -> Result<(&'static Paper, &'static Figure), Failure> {
    let fail = |what: String| {
        Failure::new(what)
            .remedy("ferriband repro lists them")
            .status(2)
    };
    let found = PAPERS.iter().find(|known| known.id == paper);
    let paper = found.ok_or_else(|| fail(format!("there is no paper '{paper}'")))?;
    let found = paper.figures.iter().find(|known| known.id == figure);
    let missing = || {
        fail(format!(
            "of paper {} there is no figure '{figure}'",
            paper.id
        ))
    };
    Ok((paper, found.ok_or_else(missing)?))
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

fn show(
    paper: &Paper,
    figure: &Figure,
    options: &Options,
    csv: &str,
    data: &Data,
    verdicts: &[Judged],
) -> Result<(), Failure> {
    print_line(&format!(
        "{}\nFigure {}: {}\n",
        paper.title, figure.id, figure.title
    ))?;
    print_line(&plot::draw(data, &figure.axes))?;
    print_line(&format!("\n{csv}"))?;
    for judged in verdicts {
        let word = match judged.verdict {
            Verdict::Holds => "holds",
            Verdict::KnownNot => "does not hold here, as known",
            Verdict::Fails => "DOES NOT HOLD",
        };
        print_line(&format!("{word}: {} ({})", judged.claim, judged.place))?;
        print_line(&format!("    found: {}", judged.found))?;
        if let Some(reason) = judged.reason {
            print_line(&format!("    reason: {reason}"))?;
        }
    }
    if options.is_quick {
        print_line("\nshort runs: these figures show that it works, and little more")?;
    }
    if !options.coalesce {
        print_line("\nwithout coalescing: claims that rest on it are expected not to hold")?;
    }
    Ok(())
}
