//! `ferriband-dev bench --heal`: what connections that heal cost while nothing fails, and how long
//! it takes when something does, each beside its floor in the same run.
//!
//! Owns: the targets, which docs/repro-003.md names. Two hosts are network
//! namespaces joined by a veth pair. The programs are those of `ferriband repro 003`, which runs
//! the paper's own experiments. Must not know: how figures are judged.

use super::{Against, Demand, Target, Unit, measure};
use crate::args::BenchArgs;
use crate::demo::skip;
use crate::failure::Failure;
use crate::floor::Floor;
use crate::netns::{self, TwoHosts};
use crate::progress::Progress;
use crate::repro::resilient::experiments::{all_of, of, percentile};
use crate::repro::resilient::flaps::{self, End, Flaps, Return};
use crate::repro::resilient::jobs::{Figures, Job, Jobs};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

/// Bytes of the messages that are long.
const LONG: [u64; 2] = [64 << 10, 1 << 20];
/// What a failure may take until the first message, in nanoseconds.
const FIRST_NS: f64 = 5e6;
const FIRST_P99_NS: f64 = 50e6;
/// What 1,024 connections may take.
const SET_UP_NS: f64 = 2e9;
/// Until all know that a rank was killed.
const NOTICED_NS: f64 = 50e6;
/// Ranks of a job that a rank of is killed in.
const SURVIVORS: u32 = 16;

/// Where jobs run, and what those of this round have found.
struct Bench {
    jobs: Jobs<'static>,
    hosts: &'static TwoHosts,
    is_quick: bool,
    found: RefCell<BTreeMap<String, Figures>>,
    returns: RefCell<BTreeMap<String, Vec<Return>>>,
}

type Row = Target<Bench, ()>;

/// The figure of a job that is compared with another one of the same run.
const fn beside(
    name: &'static str,
    probe: fn(&Bench) -> Result<f64, Failure>,
    floor_name: &'static str,
    floor: fn(&Bench) -> Result<Floor, Failure>,
    demand: Demand,
) -> Row {
    Target {
        name,
        probe,
        unit: Unit::Nanoseconds,
        floor_name,
        floor: Against::Within(floor),
        demand,
        once: false,
    }
}

/// A row of two sides that take turns in one run: what it is called, which run, which figure.
macro_rules! turns {
    ($name:expr, $against:expr, $run:ident, $key:expr, $bytes:expr, $most:expr) => {
        beside(
            $name,
            |bench| bench.with(&bench.$run()?, $key, $bytes),
            $against,
            |bench| bench.without(&bench.$run()?, $key, $bytes),
            Demand::AtMost($most),
        )
    };
}

/// A row of a message of 64 KiB that is sent alone: it may take one of 8 B more.
macro_rules! alone {
    ($name:expr, $run:ident) => {
        beside(
            $name,
            |bench| bench.with(&bench.$run()?, "alone", LONG[0]),
            "acks=0, and a message of 8 B",
            |bench| {
                let found = bench.$run()?;
                let without = bench.without(&found, "alone", LONG[0])?;
                let short = bench.without(&found, "latency", 8)?;
                Ok(without.zip(short).map(|(long, short)| long + short))
            },
            Demand::AtMost(1.0),
        )
    };
}

/// A row of links that flap: which end's, for how many milliseconds.
macro_rules! flaps {
    ($name:expr, $end:expr, $down_ms:expr) => {
        beside(
            $name,
            |bench| {
                let p99 = bench.p99($end, $down_ms, |seen| Some(seen.message))?;
                p99.ok_or_else(|| Failure::new("the link did not flap"))
            },
            "TCP's",
            |bench| bench.p99($end, $down_ms, |seen| seen.tcp),
            Demand::Limit(FIRST_P99_NS),
        )
    };
}

const HEAL_0: &str = "heal=0";
const ACKS_0: &str = "acks=0";
const FIRST: &str = "the job's first connection";

/// Rows that want several adapters are to be added here: both ends fatal, and the throughput in the
/// second after a fail-over's return beside that of before.
const TARGETS: [Row; 25] = [
    turns!("heal=1: 8 B, one way", HEAL_0, heal, "latency", 8, 1.015),
    turns!(
        "heal=1: 1 KiB, one way",
        HEAL_0,
        heal,
        "latency",
        1024,
        1.015
    ),
    turns!(
        "heal=1: 4 KiB, one way",
        HEAL_0,
        heal,
        "latency",
        4096,
        1.015
    ),
    turns!(
        "heal=1: a message of 8 B of a window",
        HEAL_0,
        heal,
        "message",
        8,
        1.015
    ),
    turns!(
        "heal=1: a message of 1 KiB of a window",
        HEAL_0,
        heal,
        "message",
        1024,
        1.015
    ),
    turns!(
        "heal=1: a message of 4 KiB of a window",
        HEAL_0,
        heal,
        "message",
        4096,
        1.015
    ),
    turns!(
        "heal=1: a stream of 64 KiB",
        HEAL_0,
        heal,
        "message",
        LONG[0],
        1.015
    ),
    turns!(
        "heal=1: a stream of 1 MiB",
        HEAL_0,
        heal,
        "message",
        LONG[1],
        1.015
    ),
    turns!(
        "the lane with acks: a stream of 64 KiB",
        ACKS_0,
        lane,
        "message",
        LONG[0],
        1.01
    ),
    turns!(
        "the lane with acks: a stream of 1 MiB",
        ACKS_0,
        lane,
        "message",
        LONG[1],
        1.01
    ),
    alone!("the lane with acks: MPI_Send of 64 KiB alone", lane),
    turns!(
        "RPut with acks: a stream of 64 KiB",
        ACKS_0,
        put,
        "message",
        LONG[0],
        1.01
    ),
    turns!(
        "RPut with acks: a stream of 1 MiB",
        ACKS_0,
        put,
        "message",
        LONG[1],
        1.01
    ),
    alone!("RPut with acks: MPI_Send of 64 KiB alone", put),
    beside(
        "queue pair error: to the first message, p50",
        |bench| bench.first(50),
        FIRST,
        Bench::first_connection,
        Demand::AtMost(2.0),
    ),
    beside(
        "queue pair error: to the first message, p50 alone",
        |bench| bench.first(50),
        FIRST,
        Bench::first_connection,
        Demand::Limit(FIRST_NS),
    ),
    beside(
        "queue pair error: to the first message, p99",
        |bench| bench.first(99),
        FIRST,
        Bench::first_connection,
        Demand::Limit(FIRST_P99_NS),
    ),
    flaps!(
        "link down for 1 ms here: first message behind datagrams both ways, p99",
        End::Here,
        1
    ),
    flaps!(
        "link down for 1 ms there: first message behind datagrams both ways, p99",
        End::There,
        1
    ),
    flaps!(
        "link down for 100 ms here: first message behind datagrams both ways, p99",
        End::Here,
        100
    ),
    flaps!(
        "link down for 1 s here: first message behind datagrams both ways, p99",
        End::Here,
        1000
    ),
    flaps!(
        "link down for 1 s there: first message behind datagrams both ways, p99",
        End::There,
        1000
    ),
    beside(
        "1,024 connections (2 x 32 ranks): first set-up",
        |bench| bench.many("set-up"),
        "",
        |_| Ok(None),
        Demand::Limit(SET_UP_NS),
    ),
    beside(
        "1,024 connections (2 x 32 ranks): all broken at once",
        |bench| bench.many("broken"),
        "their first set-up",
        |bench| bench.many("set-up").map(Some),
        Demand::AtMost(1.0),
    ),
    beside(
        "kill -9 of a rank of 16: noticed by all others",
        Bench::noticed,
        "",
        |_| Ok(None),
        Demand::Limit(NOTICED_NS),
    ),
];

/// `ferriband-dev bench --heal`.
pub fn command(args: &BenchArgs) -> Result<ExitCode, Failure> {
    let hosts: &'static TwoHosts = match netns::two_hosts() {
        // they live as long as this process
        Ok(hosts) => Box::leak(Box::new(hosts)),
        Err(why) => return skip(&args.json, &why),
    };
    let bench = Bench {
        jobs: Jobs::new(Some(hosts))?,
        hosts,
        is_quick: args.quick,
        found: RefCell::default(),
        returns: RefCell::default(),
    };
    measure(args, &TARGETS, &bench, 0, Bench::begin)
}

impl Bench {
    /// A round begins: each job runs once in it.
    fn begin(&self, _: &Progress) -> Result<(), Failure> {
        self.found.borrow_mut().clear();
        self.returns.borrow_mut().clear();
        Ok(())
    }

    /// What the job of this name has found in this round.
    fn once(
        &self,
        name: &str,
        run: impl FnOnce() -> Result<Figures, Failure>,
    ) -> Result<Figures, Failure> {
        if let Some(found) = self.found.borrow().get(name) {
            return Ok(found.clone());
        }
        let found = run()?;
        let mut known = self.found.borrow_mut();
        known.insert(name.to_owned(), found.clone());
        Ok(found)
    }

    /// So many, or few.
    fn count(&self, whole: u32, quick: u32) -> String {
        let count = if self.is_quick { quick } else { whole };
        count.to_string()
    }

    /// Two jobs that take turns, of which one heals.
    fn heal(&self) -> Result<Figures, Failure> {
        self.once("heal", || {
            let meeting = self.jobs.meeting()?;
            let side = |with: &str, settings| Job {
                ranks: 2,
                settings,
                words: vec![
                    "side".to_owned(),
                    with.to_owned(),
                    meeting.clone(),
                    self.count(200, 2),
                ],
            };
            let (without, with) = (side("0", &["heal=0"]), side("1", &["heal=1"]));
            self.jobs.run_both([&without, &with])
        })
    }

    fn lane(&self) -> Result<Figures, Failure> {
        self.streams("rndv=send")
    }

    fn put(&self) -> Result<Figures, Failure> {
        self.streams("rndv=put")
    }

    fn streams(&self, setting: &str) -> Result<Figures, Failure> {
        self.once(setting, || {
            self.jobs.run(&Job {
                ranks: 2,
                settings: &[setting],
                words: vec!["streams".to_owned(), self.count(200, 2)],
            })
        })
    }

    /// Nanoseconds with what is compared.
    fn with(&self, found: &Figures, key: &str, bytes: u64) -> Result<f64, Failure> {
        Ok(of(found, &format!("{key}-with"), bytes)? * 1e9)
    }

    /// Those without it, as the median of the ratios of neighbours has them: the machine may have
    /// changed in the run.
    fn without(&self, found: &Figures, key: &str, bytes: u64) -> Result<Floor, Failure> {
        let ratio = of(found, &format!("{key}-ratio"), bytes)?;
        Ok(Some(self.with(found, key, bytes)? / ratio))
    }

    fn breaks(&self) -> Result<Figures, Failure> {
        self.once("breaks", || {
            self.jobs.run(&Job {
                ranks: 2,
                settings: &[],
                words: vec!["breaks".to_owned(), self.count(1000, 5)],
            })
        })
    }

    fn first(&self, percent: u64) -> Result<f64, Failure> {
        let found = self.breaks()?;
        let value = percentile(all_of(&found, "first"), percent);
        let value = value.ok_or_else(|| Failure::new("no queue pair failed"))?;
        Ok(value * 1e9)
    }

    fn first_connection(&self) -> Result<Floor, Failure> {
        Ok(Some(of(&self.breaks()?, "connection", 0)? * 1e9))
    }

    fn many(&self, what: &str) -> Result<f64, Failure> {
        let ranks = if self.is_quick { 8 } else { 64 };
        let found = self.once("many", || {
            self.jobs.run(&Job {
                ranks,
                settings: &[],
                words: vec!["many".to_owned(), self.jobs.meeting()?],
            })
        })?;
        Ok(of(&found, what, ranks.into())? * 1e9)
    }

    fn noticed(&self) -> Result<f64, Failure> {
        let found = self.jobs.run_to_a_death(&Job {
            ranks: SURVIVORS,
            settings: &[],
            words: vec!["killed".to_owned(), self.jobs.meeting()?],
        })?;
        Ok(of(&found, "noticed", SURVIVORS.into())? * 1e9)
    }

    /// The 99th percentile of what came behind the link's returns; what never came until the next
    /// flap is not among it.
    fn p99(
        &self,
        end: End,
        down_ms: u64,
        what: fn(&Return) -> Option<f64>,
    ) -> Result<Floor, Failure> {
        let name = format!("{end:?} {down_ms}");
        let known = self.returns.borrow().get(&name).cloned();
        let returns = match known {
            Some(returns) => returns,
            None => {
                let times = match (self.is_quick, down_ms) {
                    (true, _) => 1,
                    (false, 1000..) => 5,
                    (false, _) => 20,
                };
                let down = Duration::from_millis(down_ms);
                let flaps = Flaps { end, down, times };
                let returns = flaps::run(&self.jobs, self.hosts, flaps)?;
                self.returns.borrow_mut().insert(name, returns.clone());
                returns
            }
        };
        let seen = returns.iter().filter_map(what).collect();
        Ok(percentile(seen, 99))
    }
}
