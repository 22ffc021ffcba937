//! `ferriband-dev bench --sdp`: sockets by SDP beside TCP, on one host.
//!
//! Owns: the rows, with what is asked of them, and the verdicts. Each round measures every way of a
//! row, one after the other, so that all saw the machine alike; a ratio is the median of the
//! rounds' own. TCP is the congestion control of those that are there (bbr, cubic) with the better
//! median. Beside are a Unix socket, and the floor: a ring in shared memory with futexes. Where the
//! floor itself is not as much faster than TCP as is asked, 0.8 of what it is (the bound) is asked
//! instead. The demonstration shows some of the rows ([`for_demo`]).

mod many;
pub mod pair;
mod programs;
mod redis;
mod report;
mod rows;
mod server;
mod zero_copy;

use crate::args::{BenchArgs, SocketTraffic};
use crate::failure::Failure;
use crate::floor::median;
use crate::launch;
use crate::progress::Progress;
use crate::sdp::LIBRARY;
use report::More;
use rows::{Row, Work, rows};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// What part of the bound is asked, where that is less than the ratio.
const OF_BOUND: f64 = 0.8;
/// What is asked of each row on a busy machine.
const BUSY: f64 = 0.95;
/// Threads that compute meanwhile there, for each core.
const COMPUTERS: usize = 2;
/// How long a floor is measured, about.
const FLOOR_NS: f64 = 2e8;

/// How the bytes of a row go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Way {
    /// TCP, with this congestion control; none: the system's.
    Tcp(Option<&'static str>),
    Unix,
    Floor,
    /// TCP under the library.
    Sdp,
}

/// Variables of SDP's that a row sets.
type Settings = &'static [(&'static str, &'static str)];

const DEFAULTS: Settings = &[];
const NO_SPIN: Settings = &[("FERRIBAND_SDP_SPIN", "0")];

impl Way {
    /// What a program's environment has more.
    fn environment(&self, settings: Settings) -> Result<Vec<(&'static str, OsString)>, Failure> {
        let Way::Sdp = self else {
            return Ok(Vec::new());
        };
        let mut all = launch::preload_settings(LIBRARY)?;
        all.extend(settings.iter().map(|(name, value)| (*name, value.into())));
        Ok(all)
    }
}

/// Whether all these programs are there.
fn are_there(names: &[&str]) -> bool {
    let is_there = |name: &&str| launch::resolve(OsStr::new(name)).is_some();
    names.iter().all(is_there)
}

/// Threads that compute as long as this lives.
struct Computers {
    threads: Vec<std::thread::JoinHandle<()>>,
}

static COMPUTES: AtomicBool = AtomicBool::new(false);

impl Computers {
    fn start(count: usize) -> Self {
        COMPUTES.store(true, Ordering::Relaxed);
        let compute = || {
            while COMPUTES.load(Ordering::Relaxed) {
                for turn in 0..1000_u64 {
                    std::hint::black_box(turn.wrapping_mul(turn));
                }
            }
        };
        let threads = (0..count).map(|_| std::thread::spawn(compute)).collect();
        Self { threads }
    }
}

impl Drop for Computers {
    fn drop(&mut self) {
        COMPUTES.store(false, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Congestion controls to compare with.
fn congestions() -> Vec<&'static str> {
    let list = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let there = fs::read_to_string(list).unwrap_or_default();
    let is_there = |name: &&str| there.split_whitespace().any(|word| word == *name);
    ["bbr", "cubic"].into_iter().filter(is_there).collect()
}

/// One line of the result.
#[derive(Serialize)]
struct Outcome {
    name: String,
    unit: &'static str,
    tcp: Option<f64>,
    congestion: Option<&'static str>,
    unix: Option<f64>,
    floor: Option<f64>,
    sdp: Option<f64>,
    /// Times as fast as TCP.
    ratio: Option<f64>,
    /// Times as fast as TCP the floor is.
    bound: Option<f64>,
    asked: f64,
    verdict: &'static str,
    problem: Option<String>,
}

/// `ferriband-dev bench --sdp`.
pub fn command(args: &BenchArgs) -> Result<ExitCode, Failure> {
    launch::preload_settings(LIBRARY)?;
    let wanted = |row: &Row| {
        args.only
            .as_ref()
            .is_none_or(|text| row.name.contains(text.as_str()))
    };
    let mut rows: Vec<Row> = rows().into_iter().filter(wanted).collect();
    if args.busy {
        rows.iter_mut().for_each(|row| row.asked = BUSY);
    }
    let by_pairs = args
        .only
        .as_ref()
        .is_none_or(|text| zero_copy::name().contains(text.as_str()));
    let by_pairs = by_pairs && !args.busy;
    if rows.is_empty() && !by_pairs {
        return Err(Failure::new("no row has that in its name").status(2));
    }
    let rounds = args.rounds();
    let outcomes = measure(&rows, rounds, args.busy);
    let keeps_many = |row: &Row| matches!(row.work, Work::Many(_));
    let idle = match !args.busy && rows.iter().any(keeps_many) {
        true => Some(many::idle()?),
        false => None,
    };
    let by_pairs = by_pairs.then(|| zero_copy::measure(rounds)).flatten();
    let more = More {
        idle: idle.as_ref(),
        by_pairs: by_pairs.as_ref(),
    };
    report::print(&outcomes, more, rounds, args.json.json)?;
    let verdicts = outcomes.iter().map(|outcome| outcome.verdict);
    let idle = idle.iter().map(many::Idle::verdict);
    let mut verdicts = verdicts
        .chain(by_pairs.iter().map(|row| row.verdict))
        .chain(idle);
    Ok(match verdicts.all(|verdict| verdict != "FAIL") {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Measures rows in interleaved rounds, on a machine that computes meanwhile if it is to be busy.
fn measure(rows: &[Row], rounds: usize, busy: bool) -> Vec<Outcome> {
    let congestions = congestions();
    let ways = rows.iter().map(|row| row.ways(&congestions, busy));
    let ways: Vec<Vec<Way>> = ways.collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let computers = busy.then(|| Computers::start(COMPUTERS * cores));
    let steps: usize = ways.iter().map(Vec::len).sum();
    let progress = Progress::new((steps * rounds) as u64);
    // by row, way, round
    let mut samples: Vec<Vec<Vec<f64>>> = ways
        .iter()
        .map(|ways| vec![Vec::new(); ways.len()])
        .collect();
    let mut problems: Vec<Option<String>> = vec![None; rows.len()];
    for round in 0..rounds {
        for (at, row) in rows.iter().enumerate() {
            for step in 0..ways[at].len() {
                // another way is the first one in each round
                let which = (step + round) % ways[at].len();
                progress.step(&format!("round {}/{rounds}: {}", round + 1, row.name));
                if problems[at].is_some() {
                    continue;
                }
                match row.measure(&ways[at][which]) {
                    Ok(Some(figure)) => samples[at][which].push(figure),
                    Ok(None) => problems[at] = Some("a process of the floor ended".to_owned()),
                    Err(failure) => problems[at] = Some(failure.to_string()),
                }
            }
        }
    }
    progress.finish();
    drop(computers);
    rows.iter()
        .zip(problems)
        .enumerate()
        .map(|(at, (row, problem))| judge(row, &ways[at], &samples[at], problem))
        .collect()
}

/// What the demonstration shows of a program.
#[derive(Serialize)]
pub struct Shown {
    pub name: String,
    /// Requests of a second.
    pub tcp: Option<f64>,
    pub sdp: Option<f64>,
    /// Times as fast as TCP.
    pub ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Programs that the demonstration shows, as far as they are there.
const DEMO: [&str; 4] = [
    "redis GET, SET, c1 P1",
    "redis GET, SET, c50 P1",
    "nginx 100 B, keep-alive",
    "nginx 100 B, open_file_cache",
];

/// Whether a program that the demonstration shows is there.
pub fn has_demo() -> bool {
    rows().iter().any(|row| DEMO.contains(&row.name.as_str()))
}

/// The programs that the demonstration shows, beside TCP.
///
/// # Errors
/// The library is not there.
pub fn for_demo(rounds: usize) -> Result<Vec<Shown>, Failure> {
    launch::preload_settings(LIBRARY)?;
    let mut rows = rows();
    rows.retain(|row| DEMO.contains(&row.name.as_str()));
    let shown = measure(&rows, rounds, false)
        .into_iter()
        .map(|outcome| Shown {
            name: outcome.name,
            tcp: outcome.tcp,
            sdp: outcome.sdp,
            ratio: outcome.ratio,
            problem: outcome.problem,
        });
    Ok(shown.collect())
}

/// Medians, ratios and the verdict of a row.
fn judge(row: &Row, ways: &[Way], samples: &[Vec<f64>], problem: Option<String>) -> Outcome {
    let latency = row.is_latency();
    let times = |of: &[f64], than: &[f64]| {
        let ratios = of.iter().zip(than).map(|(of, than)| match latency {
            true => than / of,
            false => of / than,
        });
        median(ratios.collect()).filter(|_| problem.is_none())
    };
    let of = |is: &dyn Fn(&Way) -> bool| {
        let found = ways.iter().zip(samples).find(|(way, _)| is(way));
        found.map_or(&[][..], |(_, samples)| samples)
    };
    let middle = |samples: &[f64]| median(samples.to_vec()).filter(|_| problem.is_none());
    let tcp = ways
        .iter()
        .zip(samples)
        .filter_map(|(way, samples)| match way {
            Way::Tcp(name) => Some((*name, &samples[..])),
            _ => None,
        })
        .reduce(|one, other| match times(other.1, one.1) {
            Some(ratio) if ratio > 1.0 => other,
            _ => one,
        });
    let (congestion, tcp) = tcp.expect("each row has TCP");
    let (floor, sdp) = (
        of(&|way| *way == Way::Floor),
        of(&|way| matches!(way, Way::Sdp)),
    );
    let (ratio, bound) = (times(sdp, tcp), times(floor, tcp));
    let demanded = bound.map_or(row.asked, |bound| row.asked.min(OF_BOUND * bound));
    Outcome {
        name: row.name.clone(),
        unit: match row.work {
            Work::Pair(SocketTraffic::Stream, _) => "bytes/s",
            Work::Pair(..) | Work::RedisTime(..) => "ns",
            Work::Redis(..) => "requests/s",
            Work::Connections(_) | Work::Many(_) => "connections/s",
            Work::Program(program) => program.unit(),
        },
        tcp: middle(tcp),
        congestion,
        unix: middle(of(&|way| *way == Way::Unix)),
        floor: middle(floor),
        sdp: middle(sdp),
        ratio,
        bound,
        asked: demanded,
        verdict: match ratio {
            Some(ratio) if ratio >= demanded => "PASS",
            _ => "FAIL",
        },
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(work: Work, asked: f64) -> Row {
        Row {
            name: "r".to_owned(),
            work,
            settings: DEFAULTS,
            asked,
        }
    }

    const WAYS: [Way; 4] = [
        Way::Tcp(Some("bbr")),
        Way::Tcp(Some("cubic")),
        Way::Floor,
        Way::Sdp,
    ];

    #[test]
    fn the_better_tcp_is_compared_with_and_times_count_the_other_way_than_rates() {
        let samples = [vec![10.0; 3], vec![8.0; 3], vec![1.0; 3], vec![2.0; 3]];
        let latency = judge(
            &row(Work::Pair(SocketTraffic::Polled, 1), 4.0),
            &WAYS,
            &samples,
            None,
        );
        assert_eq!(latency.congestion, Some("cubic"));
        assert_eq!((latency.ratio, latency.bound), (Some(4.0), Some(8.0)));
        assert_eq!(latency.verdict, "PASS");
        let rate = judge(
            &row(Work::Pair(SocketTraffic::Stream, 1), 0.2),
            &WAYS,
            &samples,
            None,
        );
        assert_eq!((rate.congestion, rate.ratio), (Some("bbr"), Some(0.2)));
    }

    #[test]
    fn a_floor_that_is_hardly_faster_asks_for_less() {
        let samples = [vec![10.0; 3], vec![10.0; 3], vec![5.0; 3], vec![6.0; 3]];
        let found = judge(
            &row(Work::Pair(SocketTraffic::Sleeping, 1), 4.0),
            &WAYS,
            &samples,
            None,
        );
        assert_eq!((found.asked, found.verdict), (1.6, "PASS"));
        let slower = [vec![10.0; 3], vec![10.0; 3], vec![5.0; 3], vec![6.3; 3]];
        let found = judge(
            &row(Work::Pair(SocketTraffic::Sleeping, 1), 4.0),
            &WAYS,
            &slower,
            None,
        );
        assert_eq!(found.verdict, "FAIL");
    }

    #[test]
    fn a_problem_fails_and_has_no_figures() {
        let samples = [vec![1.0], vec![1.0], vec![1.0], vec![]];
        let found = judge(
            &row(Work::Redis(1, 1), 1.0),
            &WAYS,
            &samples,
            Some("why".to_owned()),
        );
        assert_eq!(
            (found.verdict, found.ratio, found.tcp),
            ("FAIL", None, None)
        );
    }
}
