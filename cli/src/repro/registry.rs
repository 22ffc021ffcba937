//! Papers whose figures can be run again: for each figure an experiment and the claims that the
//! paper makes of it.
//!
//! Owns: what a figure and a claim are, and how a claim is judged. Must not know: which papers
//! there are (`papers.rs`), and how an experiment is run.

use super::data::{Data, Missing};
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
    /// What is to be said beside each of its figures.
    pub note: Option<&'static str>,
    /// Its figures.
    pub figures: &'static [Figure],
}

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
    /// The paper's own figures, as far as it prints them.
    pub printed: &'static [Printed],
}

/// A figure that the paper prints.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Printed {
    /// The series that it stands beside.
    pub series: &'static str,
    /// Where on the x axis.
    pub x: u64,
    /// None where the paper has "error".
    pub value: Option<f64>,
}

/// The axes of a plot.
pub struct Axes {
    /// What x is, with its unit.
    pub x: &'static str,
    /// What y is, with its unit.
    pub y: &'static str,
    /// Both are logarithmic.
    pub is_logarithmic: bool,
    /// Which series are drawn; others have another unit, or no place on the x axis.
    pub draws: fn(&str) -> bool,
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
    /// What is expected of it on an adapter in software.
    pub expect: Expect,
}

/// What is expected of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// It should hold.
    Holds,
    /// It is known not to hold, with the reason.
    Not(&'static str),
    /// Only the paper's hardware could show it, with the reason: it is not judged, but what is
    /// found is told.
    OnlyThere(&'static str),
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
    /// Only the paper's hardware could show it.
    OnlyThere,
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
    /// Why it does not hold, or is not judged, where that is known.
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
        let verdict = match self.expect {
            _ if !is_measured => Verdict::Fails,
            Expect::OnlyThere(_) => Verdict::OnlyThere,
            _ if holds => Verdict::Holds,
            Expect::Not(_) => Verdict::KnownNot,
            Expect::Holds => Verdict::Fails,
        };
        let told = matches!(verdict, Verdict::KnownNot | Verdict::OnlyThere);
        let reason = match self.expect {
            Expect::Not(reason) | Expect::OnlyThere(reason) => Some(reason).filter(|_| told),
            Expect::Holds => None,
        };
        Judged {
            claim: self.text,
            place: self.place,
            verdict,
            found,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repro::data::Samples;

    fn claim(expect: Expect) -> Claim {
        Claim {
            text: "more than two",
            place: "section 1",
            judge: |data| {
                let value = data.at("a", 1)?;
                let (holds, found) = (value > 2.0, value.to_string());
                Ok(Judgement { holds, found })
            },
            expect,
        }
    }

    fn data(value: f64) -> Data {
        let mut samples = Samples::default();
        samples.add("a", 1, value);
        samples.data()
    }

    #[test]
    fn a_claim_holds_fails_or_is_known_not_to_hold() {
        let verdict = |expect, value| claim(expect).verdict(&data(value)).verdict;
        let not = Expect::Not("why");
        assert_eq!(verdict(Expect::Holds, 3.0), Verdict::Holds);
        assert_eq!(verdict(not, 3.0), Verdict::Holds);
        assert_eq!(verdict(Expect::Holds, 2.0), Verdict::Fails);
        assert_eq!(verdict(not, 2.0), Verdict::KnownNot);
        assert_eq!(claim(not).verdict(&data(2.0)).reason, Some("why"));
        assert_eq!(claim(not).verdict(&data(3.0)).reason, None);
    }

    #[test]
    fn what_only_the_papers_hardware_showed_is_told_and_not_judged() {
        for value in [2.0, 3.0] {
            let judged = claim(Expect::OnlyThere("cards")).verdict(&data(value));
            assert_eq!(judged.verdict, Verdict::OnlyThere);
            assert_eq!(
                (judged.reason, judged.found),
                (Some("cards"), value.to_string())
            );
        }
    }

    #[test]
    fn a_point_that_is_missing_is_no_known_reason() {
        let judged = claim(Expect::Not("why")).verdict(&Data::default());
        assert_eq!(judged.verdict, Verdict::Fails);
        assert_eq!(judged.found, "no figure of a at 1");
    }
}
