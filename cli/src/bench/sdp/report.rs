//! What `bench --sdp` prints.
//!
//! Owns: the table, and its JSON. Must not know: how a row is measured and judged.

use super::{Outcome, many, zero_copy};
use crate::demo::programs::Figure;
use crate::demo::show_figure;
use crate::failure::Failure;
use crate::text::{Table, print_json, print_line};
use serde::Serialize;

fn show(unit: &str, value: Option<f64>) -> String {
    match (value, unit) {
        (None, _) => String::new(),
        (Some(value), "ns") => show_figure(Figure::Nanoseconds(value)),
        (Some(value), "bytes/s") => show_figure(Figure::BytesPerSecond(value)),
        (Some(value), _) => format!("{value:.0}/s"),
    }
}

/// A row of the result.
#[derive(Serialize)]
#[serde(untagged)]
enum Reported<'a> {
    Socket(&'a Outcome),
    Pairs(&'a zero_copy::Outcome),
    Idle(&'a many::Idle),
}

/// What was measured beside the table's rows.
#[derive(Clone, Copy)]
pub struct More<'a> {
    pub idle: Option<&'a many::Idle>,
    pub by_pairs: Option<&'a zero_copy::Outcome>,
}

pub fn print(
    outcomes: &[Outcome],
    more: More<'_>,
    rounds: usize,
    json: bool,
) -> Result<(), Failure> {
    if json {
        let rows = outcomes.iter().map(Reported::Socket);
        let rows = rows.chain(more.by_pairs.map(Reported::Pairs));
        let all: Vec<Reported<'_>> = rows.chain(more.idle.map(Reported::Idle)).collect();
        return print_json(&all);
    }
    let header = [
        "what",
        "TCP",
        "",
        "Unix socket",
        "floor",
        "SDP",
        "ratio",
        "asked",
        "bound",
        "verdict",
    ];
    let mut table = Table::new(header).right_align(&[1, 3, 4, 5, 6, 7, 8]);
    let number = |value: Option<f64>| value.map(|value| format!("{value:.2}")).unwrap_or_default();
    for outcome in outcomes {
        let shown = |value| show(outcome.unit, value);
        table.row([
            outcome.name.clone(),
            shown(outcome.tcp),
            outcome.congestion.unwrap_or_default().to_owned(),
            shown(outcome.unix),
            shown(outcome.floor),
            shown(outcome.sdp),
            number(outcome.ratio),
            number(Some(outcome.asked)),
            number(outcome.bound),
            outcome.verdict.to_owned(),
        ]);
    }
    if !outcomes.is_empty() {
        table.print()?;
    }
    more.by_pairs.map_or(Ok(()), zero_copy::Outcome::print)?;
    more.idle.map_or(Ok(()), many::Idle::print)?;
    for outcome in outcomes {
        if let Some(problem) = &outcome.problem {
            print_line(&format!("\n{}: {problem}", outcome.name))?;
        }
    }
    print_line(&format!(
        "\nmedians of {rounds} rounds; a ratio says how many times as fast as TCP, median of the rounds' own; the bound is the floor's; asked is at most 0.8 of it"
    ))
}
