//! `ferriband fault link flap`.
//!
//! Owns: how long the link was down, as far as it can be told from here. What is done and when,
//! [`super::timeline`] says.

use std::cell::Cell;
use std::process::ExitCode;
use std::time::Duration;

use super::timeline::{Ended, Timeline, run};
use crate::args::{FaultCommand, FlapArgs, LinkCommand};
use crate::domain::Answers;
use crate::failure::Failure;
use crate::members;
use crate::progress::Progress;
use crate::text;

/// What the link has done.
#[derive(Debug, Default)]
struct Seen {
    down_at: Duration,
    /// How long it was down, each time.
    downs: Vec<Duration>,
    told: Answers,
}

impl Seen {
    fn least(&self) -> Duration {
        self.downs.iter().min().copied().unwrap_or_default()
    }

    fn most(&self) -> Duration {
        self.downs.iter().max().copied().unwrap_or_default()
    }
}

/// The command.
pub(super) fn command(args: &FlapArgs) -> Result<ExitCode, Failure> {
    super::interface(&args.device)?;
    let host = members::join()?;
    let mut timeline = Timeline::default();
    let times = (args.down, args.up);
    timeline.flap(&args.device, Duration::ZERO, times, args.times);
    let progress = Progress::new(timeline.steps.len() as u64);
    let mut seen = Seen::default();
    let steps = Cell::new(0);
    let ended = run(
        &host,
        &timeline,
        |at, place, done| {
            let done = done?;
            steps.set(place as u64 + 1);
            progress.at(steps.get());
            seen.told.processes = seen.told.processes.max(done.answers.processes);
            seen.told.silent = seen.told.silent.max(done.answers.silent);
            match &timeline.steps[place].command {
                FaultCommand::Link(LinkCommand::Up { .. }) => seen.downs.push(at - seen.down_at),
                _ => seen.down_at = at,
            }
            Ok(())
        },
        |_| progress.at(steps.get()),
    );
    progress.finish();
    let ended = ended?;
    report(args, &seen, ended)?;
    Ok(match ended {
        Ended::Interrupted => ExitCode::from(128 + libc::SIGINT as u8),
        Ended::Whole | Ended::Alone => ExitCode::SUCCESS,
    })
}

fn report(args: &FlapArgs, seen: &Seen, ended: Ended) -> Result<(), Failure> {
    let ms = |span: Duration| span.as_secs_f64() * 1e3;
    if args.json.json {
        return text::print_json(&serde_json::json!({
            "device": args.device,
            "times": seen.downs.len(),
            "down_ms": { "least": ms(seen.least()), "most": ms(seen.most()) },
            "processes": seen.told.processes,
            "interrupted": ended == Ended::Interrupted,
            "programs_ended": ended == Ended::Alone,
        }));
    }
    let device = &args.device;
    let mut line = format!(
        "{device}: link down and up again {}",
        text::counted(seen.downs.len() as u64, "time", "times")
    );
    if !seen.downs.is_empty() {
        line += &format!(
            ", for {} to {} each, in {} processes",
            super::span(seen.least()),
            super::span(seen.most()),
            seen.told.processes
        );
    }
    match ended {
        Ended::Whole => {}
        Ended::Interrupted => line += "; interrupted, the link is up",
        Ended::Alone => line += "; the programs have ended",
    }
    text::print_line(&line)
}
