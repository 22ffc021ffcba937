//! `ferriband why`: why requests ended with status 12 or 13, and why connections were refused.
//!
//! Owns: what is asked of the file of incidents and of running processes. [`causes`] judges, [`words`] shows.

mod causes;
mod words;

use crate::args::WhyArgs;
use crate::failure::Failure;
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
    if let Some(pid) = args.pid {
        incidents.retain(|incident| incident.pid == pid);
    }
    let earlier = incidents.len().saturating_sub(args.last);
    let shown: Vec<Explained> = incidents
        .split_off(earlier)
        .into_iter()
        .map(|incident| Explained {
            causes: causes::of(&incident.event),
            incident,
        })
        .collect();
    let code = match shown.is_empty() {
        true => ExitCode::from(NOTHING),
        false => ExitCode::SUCCESS,
    };
    if args.json.json {
        print_json(&shown)?;
        return Ok(code);
    }
    if shown.is_empty() {
        print_line(&format!(
            "No request has ended with status 12 or 13, and no connection was refused, as far as {} says.\n\
             What runs now and waits for answers: ferriband why --live",
            directory.display()
        ))?;
        return Ok(code);
    }
    // the newest first: it is what people ask about
    for (place, explained) in shown.iter().rev().enumerate() {
        if place > 0 {
            print_line("")?;
        }
        for line in words::incident(&explained.incident, &explained.causes) {
            print_line(&line)?;
        }
    }
    if earlier > 0 {
        print_line(&format!(
            "\n{earlier} earlier: ferriband why --last {}",
            earlier + shown.len()
        ))?;
    }
    if broken > 0 {
        print_line(&format!(
            "{broken} lines in {} could not be read",
            directory.display()
        ))?;
    }
    Ok(code)
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
    let code = match found.is_empty() {
        true => ExitCode::from(NOTHING),
        false => ExitCode::SUCCESS,
    };
    if json {
        print_json(&found)?;
        return Ok(code);
    }
    if found.is_empty() && silent == 0 {
        print_line(
            "No queue pair of a running program of yours waits for an answer that had to be asked for again.",
        )?;
    }
    for (place, one) in found.iter().enumerate() {
        if place > 0 {
            print_line("")?;
        }
        for line in words::retrying(&one.program, one.pid, &one.qp, &one.causes) {
            print_line(&line)?;
        }
    }
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
