//! The papers whose figures can be run again: for each figure an experiment and the claims that the
//! paper makes of it.
//!
//! Owns: what a figure and a claim are, and how a claim is judged. Must not know: how an experiment
//! is run.

use super::data::{Data, Missing};
use super::flow;
use crate::args::ReproWire;
use crate::failure::Failure;
use crate::progress::Progress;
use serde::Serialize;

/// A paper.
pub struct Paper {
    /// By what it is called on the command line.
    pub id: &'static str,
    /// Authors and title.
    pub title: &'static str,
    /// Its figures.
    pub figures: &'static [Figure],
}

/// All papers.
pub const PAPERS: &[Paper] = &[flow::PAPER];

/// A figure.
pub struct Figure {
    /// As the paper numbers it.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What the axes count.
    pub axes: Axes,
    /// The experiment.
    pub run: fn(&Options, &Progress) -> Result<Data, Failure>,
    /// Steps of the experiment, for the bar.
    pub steps: fn(&Options) -> u64,
    /// What the paper says of the figure.
    pub claims: &'static [Claim],
}

/// The axes of a plot.
pub struct Axes {
    /// What x is, with its unit.
    pub x: &'static str,
    /// What y is, with its unit.
    pub y: &'static str,
    /// Both are logarithmic.
    pub is_logarithmic: bool,
}

/// How an experiment is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Runs.
    pub runs: u32,
    /// Short runs.
    pub is_quick: bool,
    /// Bytes that wait are joined.
    pub coalesce: bool,
    /// What stands for the network.
    pub wire: ReproWire,
}

/// What the paper says of a figure.
pub struct Claim {
    /// The claim, in numbers that can be judged.
    pub text: &'static str,
    /// Where the paper says it.
    pub place: &'static str,
    /// Judges the data.
    pub judge: fn(&Data) -> Result<Judgement, Missing>,
    /// Why the claim is known not to hold on an adapter in software; None if it should.
    pub known: Option<&'static str>,
}

/// What the data say of a claim.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// The claim holds.
    pub holds: bool,
    /// The figures that it rests on, in words.
    pub found: String,
}

/// A verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The claim holds.
    Holds,
    /// It does not hold, which is known of software, with the reason.
    KnownNot,
    /// It does not hold.
    Fails,
}

/// A claim with its verdict.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Judged {
    /// The claim.
    pub claim: &'static str,
    /// Where the paper says it.
    pub place: &'static str,
    /// The verdict.
    pub verdict: Verdict,
    /// The figures that it rests on, in words.
    pub found: String,
    /// Why it does not hold, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

impl Claim {
    /// Judges the claim. A point that is missing makes it fail.
    pub fn verdict(&self, data: &Data) -> Judged {
        let (holds, found, is_measured) = match (self.judge)(data) {
            Ok(Judgement { holds, found }) => (holds, found, true),
            Err(Missing(what)) => (false, what, false),
        };
        let verdict = match self.known {
            _ if holds => Verdict::Holds,
            Some(_) if is_measured => Verdict::KnownNot,
            _ => Verdict::Fails,
        };
        Judged {
            claim: self.text,
            place: self.place,
            verdict,
            found,
            reason: self.known.filter(|_| verdict == Verdict::KnownNot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repro::data::Samples;

    fn claim(known: Option<&'static str>) -> Claim {
        Claim {
            text: "more than two",
            place: "section 1",
            judge: |data| {
                let value = data.at("a", 1)?;
                let (holds, found) = (value > 2.0, value.to_string());
                Ok(Judgement { holds, found })
            },
            known,
        }
    }

    fn data(value: f64) -> Data {
        let mut samples = Samples::default();
        samples.add("a", 1, value);
        samples.data()
    }

    #[test]
    fn a_claim_holds_fails_or_is_known_not_to_hold() {
        let verdict = |known, value| claim(known).verdict(&data(value)).verdict;
        assert_eq!(verdict(None, 3.0), Verdict::Holds);
        assert_eq!(verdict(Some("why"), 3.0), Verdict::Holds);
        assert_eq!(verdict(None, 2.0), Verdict::Fails);
        assert_eq!(verdict(Some("why"), 2.0), Verdict::KnownNot);
        let judged = claim(Some("why")).verdict(&data(2.0));
        assert_eq!(judged.reason, Some("why"));
    }

    #[test]
    fn a_point_that_is_missing_is_no_known_reason() {
        let judged = claim(Some("why")).verdict(&Data::default());
        assert_eq!(judged.verdict, Verdict::Fails);
        assert_eq!(judged.found, "no figure of a at 1");
    }

    #[test]
    fn papers_figures_and_claims_are_told_apart() {
        for paper in PAPERS {
            let ids: Vec<&str> = paper.figures.iter().map(|figure| figure.id).collect();
            let mut unique = ids.clone();
            unique.dedup();
            assert_eq!(ids, unique);
            assert!(paper.figures.iter().all(|figure| !figure.claims.is_empty()));
        }
    }
}
