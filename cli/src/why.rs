//! `ferriband why`: why requests ended with status 12 or 13, why connections were refused, and
//! which connections of MPI failed and were made anew.
//!
//! Owns: what is asked of the files of incidents and heals, and of running processes. [`causes`]
//! judges, [`words`] shows.

mod causes;
mod words;

use crate::args::WhyArgs;
use crate::failure::Failure;
use crate::heals::{self, Heal};
use crate::members::{Asked, ask_all};
use crate::text::{print_json, print_line};
use causes::Cause;
use ferriband_admin::{Incident, QpReport, incident};
use serde::Serialize;
use std::process::ExitCode;

/// There is nothing to show.
const NOTHING: u8 = 3;

/// An incident, with what may have caused it.
#[derive(Serialize)]
struct Explained {
    #[serde(flatten)]
    incident: Incident,
    causes: Vec<Cause>,
}

/// A queue pair that waits for answers now.
#[derive(Serialize)]
struct Retrying {
    pid: u32,
    program: String,
    qp: QpReport,
    causes: Vec<Cause>,
}

/// `ferriband why`.
pub fn command(args: &WhyArgs) -> Result<ExitCode, Failure> {
    if args.live {
        return live(args.json.json);
    }
    let directory = incident::directory().ok_or_else(|| {
        Failure::new("cannot tell where incidents are kept: neither XDG_STATE_HOME nor HOME is set")
            .remedy("set HOME as it was when the program ran")
    })?;
    let (mut incidents, broken) = incident::read(&directory).map_err(|error| {
        Failure::io(
            "read incidents in",
            &directory.display().to_string(),
            &error,
        )
    })?;
    let (mut heals, unreadable) = heals::read(&directory)?;
    heals::join(&mut heals, &mut incidents);
    if let Some(pid) = args.pid {
        incidents.retain(|incident| incident.pid == pid);
        heals.retain(|heal| heal.note.whose.pid == pid);
    }
    let earlier = incidents.len().saturating_sub(args.last);
    let earlier_heals = heals.len().saturating_sub(args.last);
    let shown: Vec<Explained> = incidents
        .split_off(earlier)
        .into_iter()
        .map(|incident| Explained {
            causes: causes::of(&incident.event),
            incident,
        })
        .collect();
    let heals = heals.split_off(earlier_heals);
    let code = match shown.is_empty() && heals.is_empty() {
        true => ExitCode::from(NOTHING),
        false => ExitCode::SUCCESS,
    };
    if args.json.json {
        print_json(&all(&shown, &heals)?)?;
        return Ok(code);
    }
    if shown.is_empty() && heals.is_empty() {
        print_line(&format!(
            "No request has ended with status 12 or 13, no connection was refused, and none of MPI was made anew, as far as {} says.\n\
             What runs now and waits for answers: ferriband why --live",
            directory.display()
        ))?;
        return Ok(code);
    }
    // the newest first: it is what people ask about
    let texts = shown
        .iter()
        .rev()
        .map(|explained| words::incident(&explained.incident, &explained.causes))
        .chain(heals.iter().rev().map(Heal::lines));
    print_texts(texts)?;
    if earlier + earlier_heals > 0 {
        let most = args.last + earlier.max(earlier_heals);
        print_line(&format!(
            "\n{} earlier: ferriband why --last {most}",
            earlier + earlier_heals
        ))?;
    }
    if broken + unreadable > 0 {
        print_line(&format!(
            "{} lines in {} could not be read",
            broken + unreadable,
            directory.display()
        ))?;
    }
    Ok(code)
}

/// Each text, with an empty line between two.
fn print_texts(texts: impl Iterator<Item = Vec<String>>) -> Result<(), Failure> {
    for (place, lines) in texts.enumerate() {
        if place > 0 {
            print_line("")?;
        }
        for line in lines {
            print_line(&line)?;
        }
    }
    Ok(())
}

/// Incidents and heals by their time, the oldest first.
fn all(incidents: &[Explained], heals: &[Heal]) -> Result<Vec<serde_json::Value>, Failure> {
    let broken = |error| Failure::new(format!("cannot be told as JSON: {error}"));
    let mut all = Vec::with_capacity(incidents.len() + heals.len());
    for explained in incidents {
        let value = serde_json::to_value(explained).map_err(broken)?;
        all.push((explained.incident.at_ms, value));
    }
    for heal in heals {
        let value = serde_json::to_value(heal).map_err(broken)?;
        all.push((heal.note.at_ms, value));
    }
    all.sort_by_key(|(at_ms, _)| *at_ms);
    Ok(all.into_iter().map(|(_, value)| value).collect())
}

/// Heals that are under way now; none where it cannot be told where they are written.
fn under_way() -> Result<Vec<Heal>, Failure> {
    let Some(directory) = incident::directory() else {
        return Ok(Vec::new());
    };
    let (mut heals, _) = heals::read(&directory)?;
    let mut incidents = incident::read(&directory).map_or_else(|_| Vec::new(), |(all, _)| all);
    heals::join(&mut heals, &mut incidents);
    heals.retain(Heal::is_under_way);
    Ok(heals)
}

/// True for a queue pair that has sent something again and waits.
fn is_retrying(qp: &QpReport) -> bool {
    qp.progress.as_ref().is_some_and(|progress| {
        let newest_try = progress.tries.last().map(|one| one.psn);
        progress.outstanding() > 0 && newest_try == Some(progress.una)
    })
}

fn live(json: bool) -> Result<ExitCode, Failure> {
    let mut found = Vec::new();
    let mut silent = 0;
    for Asked { pid, answer, .. } in ask_all()? {
        let Some(member) = answer else {
            silent += 1;
            complain!(
                "ferriband: process {pid} did not answer: it is stopped, or of another version"
            );
            continue;
        };
        for qp in member.qps.into_iter().filter(is_retrying) {
            found.push(Retrying {
                pid: member.pid,
                program: member.program.clone(),
                causes: causes::of_silence(&qp),
                qp,
            });
        }
    }
    let heals = under_way()?;
    let code = match found.is_empty() && heals.is_empty() {
        true => ExitCode::from(NOTHING),
        false => ExitCode::SUCCESS,
    };
    if json {
        let mut values: Vec<serde_json::Value> = Vec::new();
        let broken = |error| Failure::new(format!("cannot be told as JSON: {error}"));
        for one in &found {
            values.push(serde_json::to_value(one).map_err(broken)?);
        }
        for heal in &heals {
            values.push(serde_json::to_value(heal).map_err(broken)?);
        }
        print_json(&values)?;
        return Ok(code);
    }
    if found.is_empty() && heals.is_empty() && silent == 0 {
        print_line(
            "No queue pair of a running program of yours waits for an answer that had to be asked for again, and no connection of MPI is being made anew.",
        )?;
    }
    let waiting = found
        .iter()
        .map(|one| words::retrying(&one.program, one.pid, &one.qp, &one.causes));
    print_texts(waiting.chain(heals.iter().map(Heal::lines)))?;
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_admin::{Progress, Try};

    #[test]
    fn a_queue_pair_retries_while_the_oldest_packet_was_sent_again_and_is_not_acknowledged() {
        let qp = |una, next, tried: &[u32]| QpReport {
            progress: Some(Progress {
                una,
                next,
                tries: tried
                    .iter()
                    .map(|psn| Try {
                        psn: *psn,
                        ..Try::default()
                    })
                    .collect(),
                ..Progress::default()
            }),
            ..QpReport::default()
        };
        assert!(is_retrying(&qp(5, 6, &[3, 5])));
        assert!(
            !is_retrying(&qp(5, 6, &[3])),
            "since then something arrived"
        );
        assert!(!is_retrying(&qp(5, 5, &[5])), "nothing waits");
        assert!(!is_retrying(&QpReport::default()));
    }
}
