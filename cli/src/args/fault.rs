//! The command line of `ferriband fault`, as far as it is about more than packets.

use super::{JsonFlag, parse_qpn};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// What becomes of a link.
#[derive(Subcommand, Clone)]
pub enum LinkCommand {
    /// No packet gets through: programs get PORT_ERR
    Down {
        /// The device.
        device: String,
    },
    /// As it was: programs get PORT_ACTIVE
    Up {
        /// The device.
        device: String,
    },
    /// Take the link down and bring it up again, several times
    ///
    /// Programs get PORT_ERR and PORT_ACTIVE each time. Interrupted, it leaves the link up.
    #[command(after_help = "Examples:\n  ferriband fault link flap ferri_eth0\n  \
        ferriband fault link flap ferri_eth0 --down 1ms --up 1s --times 100 --json")]
    Flap(FlapArgs),
}

/// How a link flaps.
#[derive(Args, Clone)]
pub struct FlapArgs {
    /// The device.
    pub device: String,
    /// How long it is down each time: a time such as 1ms, 2s or 1m.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = parse_span)]
    pub down: Duration,
    /// How long it is up in between.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_span)]
    pub up: Duration,
    /// How many times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub times: u32,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// How a plan reads.
pub const PLAN_WORDS: &str = "Carry out a file of faults, each at its time.\n\n\
        A line is one of\n  \
        at TIME COMMAND                      once, so long after the beginning\n  \
        every TIME COMMAND                   again and again, first after that time\n  \
        every TIME one of COMMAND | COMMAND  each time one of them, by the seed\n  \
        for TIME                             how long the plan lasts\n  \
        seed N                               what is drawn; 1 if nothing is said\n\
        and # begins a comment. TIME is such as 500ms, 2s or 1m; COMMAND is one of `ferriband fault` \
        without that name: add, clear, link, port-error, fatal, qp-error. One seed gives one order \
        of events. A command that fails is printed, and the plan goes on; the exit status is 1 then. \
        What the plan has set is cleared when it ends, also by Ctrl-C. It ends with the last program, too.";

/// Which plan, and what becomes of it.
#[derive(Args, Clone)]
#[command(
    after_help = "Example of a plan:\n  seed 7\n  at 500ms add drop --probability 0.3\n  \
        at 2s clear all\n  \
        every 2s one of qp-error --all | link flap ferri_eth0 --down 1ms --up 20ms --times 3\n  for 1m"
)]
pub struct PlanArgs {
    /// The file; - for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Another seed than the file's.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Print what would be done and when, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Output format.
    #[command(flatten)]
    pub json: JsonFlag,
}

/// Which queue pairs fail.
#[derive(Args, Clone)]
#[group(required = true, multiple = false)]
pub struct QpErrorArgs {
    /// The queue pair of this number.
    #[arg(long, value_parser = parse_qpn)]
    pub qpn: Option<u32>,
    /// All of this device.
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// All of this user in this network namespace.
    #[arg(long)]
    pub all: bool,
}

/// Longest time: a day.
const MOST_SPAN: Duration = Duration::from_secs(24 * 3600);

/// A time such as 500ms, 2s or 1m.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    let unit_s = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("a time has a unit: 500ms, 2s, 1m".into()),
    };
    let number: f64 = number.parse().map_err(|_| "no number".to_owned())?;
    match Duration::try_from_secs_f64(number * unit_s) {
        Ok(span) if !span.is_zero() && span <= MOST_SPAN => Ok(span),
        _ => Err("more than nothing, and a day at the most".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_a_bound() {
        assert_eq!(parse_span("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_span("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_span("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_span("24h"), Ok(MOST_SPAN));
        for wrong in [
            "2", "", "s", "-1s", "0s", "25h", "1d", "nans", "infs", "2 s",
        ] {
            assert!(parse_span(wrong).is_err(), "{wrong}");
        }
    }
}
