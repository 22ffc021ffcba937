//! The row of `bench --sdp` that compares blocking writes by queue pairs without copies and by
//! copies.
//!
//! Owns: what is asked, and that zero copy was used. The processes are those of `tune sdp`. It is
//! chosen as programs have it: by the setting zero_copy. Where that gives none for the length there
//! is no row.

use crate::failure::Failure;
use crate::floor::median;
use crate::progress::Progress;
use crate::repro::open_adapter;
use crate::settings;
use crate::text::{self, Table, bandwidth};
use crate::tune::{self, GAIN, Pair};
use ferriband_sdp_proto::settings::{SETTINGS, ZeroCopy};
use ferriband_sdp_verbs::{FlowKind, Lengths};
use serde::Serialize;

/// Bytes of a write, and the flow control.
const BYTES: u32 = 256 << 10;
const FLOW: FlowKind = FlowKind::Credit;
/// Times as many rounds as other rows have: a round takes some milliseconds.
const ROUNDS: usize = 5;

/// The row's figures.
#[derive(Serialize)]
pub struct Outcome {
    name: String,
    unit: &'static str,
    copies: Option<f64>,
    zero_copy: Option<f64>,
    /// Times as fast as by copies.
    ratio: Option<f64>,
    asked: f64,
    /// Writes that went by zero copy, of those that were to, and their bytes.
    offers: u64,
    offered_bytes: u64,
    pub verdict: &'static str,
    problem: Option<String>,
}

/// The row's name.
pub fn name() -> String {
    let bytes = text::size(BYTES as usize);
    format!("queue pairs, {}, writes of {bytes}: zero copy", FLOW.name())
}

/// From which length on writes go without copies, if these do.
fn least() -> Result<Option<u64>, Failure> {
    let (values, _) = settings::values(&SETTINGS, &[])?;
    let setting = ZeroCopy::of(&values);
    let least = open_adapter()?.zero_copy(setting, &Lengths::measured(), FLOW);
    let least = least.map_err(|error| Failure::new(format!("zero copy: {error}")))?;
    Ok(least.filter(|least| *least <= BYTES.into()))
}

/// Measures it. None: zero copy is not chosen here.
pub fn measure(rounds: usize) -> Option<Outcome> {
    let mut samples = [Vec::new(), Vec::new()];
    let (mut offers, mut offered_bytes) = (0, 0);
    let mut all = || {
        let Some(least) = least()? else {
            return Ok(false);
        };
        let rounds = rounds * ROUNDS;
        let progress = Progress::new(rounds as u64);
        let mut pair = Pair::start(&[])?;
        pair.connect(FLOW)?;
        for round in 0..rounds {
            progress.step(&format!("round {}/{rounds}: {}", round + 1, name()));
            for step in 0..2 {
                let way = (step + round) % 2;
                let found = tune::run(&mut pair, BYTES, (way == 1).then_some(least))?;
                samples[way].push(f64::from(BYTES) / found.ns * 1e9);
                offers += found.offers;
                offered_bytes += found.offered_bytes;
            }
        }
        progress.finish();
        pair.finish()?;
        Ok::<bool, Failure>(true)
    };
    let problem = match all() {
        Ok(false) => return None,
        Ok(true) => None,
        Err(failure) => Some(failure.to_string()),
    };
    let ratios = samples[0]
        .iter()
        .zip(&samples[1])
        .map(|(copies, zero)| zero / copies);
    let ratio = median(ratios.collect()).filter(|_| problem.is_none());
    let wins = ratio.is_some_and(|ratio| ratio >= GAIN);
    let [copies, zero_copy] = samples.map(median);
    Some(Outcome {
        name: name(),
        unit: "bytes/s",
        copies,
        zero_copy,
        ratio,
        asked: GAIN,
        offers,
        offered_bytes,
        verdict: if wins && offers > 0 { "PASS" } else { "FAIL" },
        problem,
    })
}

impl Outcome {
    /// Prints it below the table of the others.
    pub fn print(&self) -> Result<(), Failure> {
        let header = [
            "what",
            "copies",
            "zero copy",
            "ratio",
            "asked",
            "without copies",
            "verdict",
        ];
        let mut table = Table::new(header).right_align(&[1, 2, 3, 4, 5]);
        let rate = |value: Option<f64>| value.map(bandwidth).unwrap_or_default();
        let ratio = self.ratio.map(|ratio| format!("{ratio:.2}"));
        let bytes = text::size(usize::try_from(self.offered_bytes).unwrap_or(usize::MAX));
        table.row([
            self.name.clone(),
            rate(self.copies),
            rate(self.zero_copy),
            ratio.unwrap_or_default(),
            format!("{:.2}", self.asked),
            format!("{} writes, {bytes}", self.offers),
            self.verdict.to_owned(),
        ]);
        text::print_line("")?;
        table.print()?;
        match &self.problem {
            Some(problem) => text::print_line(&format!("\n{}: {problem}", self.name)),
            None => Ok(()),
        }
    }
}
