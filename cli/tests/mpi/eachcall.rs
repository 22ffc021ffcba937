//! Jobs over a library of verbs that fails one of its calls (`ulp/ibv/tests/failing`): whichever
//! call fails, and however, all bytes come, or the job ends with an error that names what failed.
//!
//! How often each function is called is counted first, of each rank, in a run of its own. Then the
//! job runs once for each function, each of its calls and each way to fail: all of them if
//! [`ALL`] is set (`make test-verbs-calls`; behind the first calls of a function each fails in one
//! way), else a choice that a seed makes.

use super::{FERRIBAND, Program, has_network_namespaces, library_dir};
use ferriband_seed::Rng;
use ferriband_testkit::place;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[path = "../../../ulp/ibv/tests/failing/library.rs"]
mod library;

/// Set, it lets each call fail in turn.
const ALL: &str = "FERRIBAND_TEST_EACH_CALL";
/// What chooses otherwise, if it is set.
const SEED: &str = "FERRIBAND_TEST_SEED";
/// Cases of each job that the seed chooses beside one of each function.
const MORE: usize = 12;
/// So many calls of a function fail in each way, and those behind them in one way each, in turn:
/// there are hundreds of posts.
const IN_EACH_WAY: u64 = 16;
/// Jobs that run at a time: many of those that fail wait for one of their ranks.
const PARALLEL: usize = 4;
/// Seconds after which a job hangs. It takes a tenth of a second, and half a second more where one
/// rank waits for what the other says and that has ended.
const PATIENCE: &str = "60";
/// The call that fails is one of those that make a connection anew: this has broken it before.
const BROKEN: &str = "completion:20:13";

/// A job that is run again and again.
struct Job {
    name: &'static str,
    options: &'static [&'static str],
    /// What fails before, for which there is a case of each call, too.
    before: &'static str,
    /// Between two hosts, over what upper protocols take for our own library.
    is_far: bool,
}

const JOBS: [Job; 8] = [
    Job::near("read by the receiver", &[], ""),
    Job::near("read by the receiver, made anew", &[], BROKEN),
    Job::near("written by the sender", &["--set", "rndv=put"], BROKEN),
    Job::near("sent by the lane", &["--set", "rndv=send"], ""),
    Job::near(
        "sent by the lane, made anew",
        &["--set", "rndv=send"],
        BROKEN,
    ),
    Job::near(
        "records in mirrors",
        &["--set", "open_after=1", "--set", "design=variable-top"],
        BROKEN,
    ),
    Job::far("hosts", ""),
    Job::far("hosts, made anew", BROKEN),
];

impl Job {
    const fn near(
        name: &'static str,
        options: &'static [&'static str],
        before: &'static str,
    ) -> Self {
        Self {
            name,
            options,
            before,
            is_far: false,
        }
    }

    const fn far(name: &'static str, before: &'static str) -> Self {
        Self {
            name,
            options: &[],
            before,
            is_far: true,
        }
    }
}

/// How calls fail: by which errno, and completions with which status. What is not listed fails by
/// ENOMEM, which may pass, and by EINVAL.
const HOWS: [(&str, &[&str]); 8] = [
    ("ibv_open_device", &["ENODEV", "EMFILE"]),
    ("ibv_destroy_qp", &["EBUSY", "EINVAL"]),
    ("ibv_poll_cq", &["EIO", "EINVAL"]),
    ("ibv_get_cq_event", &["EIO", "EINVAL"]),
    ("ibv_get_async_event", &["EIO", "EINVAL"]),
    ("ibv_post_send", &["ENOMEM", "EINVAL", "EIO"]),
    ("ibv_modify_qp/INIT", &["ENOMEM", "EAGAIN", "EINVAL"]),
    (
        COMPLETION,
        &["1", "4", "5", "8", "9", "10", "11", "12", "13", "21"],
    ),
];
const COMPLETION: &str = "completion";
/// Statuses that are about memory: the message ends with that class, and names no status.
const OF_MEMORY: [&str; 5] = ["1", "4", "9", "10", "11"];

fn hows(call: &str) -> &'static [&'static str] {
    let listed = HOWS.iter().find(|(name, _)| *name == call);
    listed.map_or(&["ENOMEM", "EINVAL"], |(_, hows)| hows)
}

/// What an error says instead of the name of a function.
const WORDS: [(&str, &str); 1] = [("ibv_query_gid", " has no GID to be reached by")];

/// A run: call `at` of a function by a rank fails.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Case {
    rank: usize,
    call: String,
    at: u64,
    how: &'static str,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rank,
            call,
            at,
            how,
        } = self;
        write!(f, "rank {rank}: {call}:{at}:{how}")
    }
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum End {
    /// All bytes have come.
    Well,
    /// There were not so many calls this time, and all bytes have come.
    NotReached,
    /// An error says what has failed.
    Told,
    /// It is not as it has to be.
    Bad(&'static str),
}

/// The libraries and the program.
struct Bench {
    program: Program,
    near: PathBuf,
    far: PathBuf,
    logs: PathBuf,
}

impl Bench {
    fn new(name: &str) -> Option<Self> {
        let (near, far) = (
            library::libraries(place!())?,
            library::our_libraries(place!())?,
        );
        let logs = place!().out(&format!("eachcall.{name}.{}", std::process::id()));
        std::fs::create_dir_all(&logs).expect("a directory");
        Some(Self {
            program: Program::new("eachcall"),
            near,
            far,
            logs,
        })
    }

    /// Runs a job in which `plan` fails at a rank, and what its library wrote down there.
    fn run(&self, job: &Job, rank: usize, plan: &str) -> (Output, String) {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let log = self
            .logs
            .join(COUNT.fetch_add(1, Ordering::Relaxed).to_string());
        let fails = format!("FERRIBAND_FAIL={plan}");
        let writes = format!("FERRIBAND_FAIL_LOG={}", log.display());
        let program = self.program.0.to_str().expect("ASCII");
        let one = |of: usize| {
            let variables = if of == rank {
                [fails.as_str(), writes.as_str()]
            } else {
                // the rank whose call fails says first what it knows
                ["PATIENCE=500", "FERRIBAND_FAIL="]
            };
            ["-n", "1"]
                .into_iter()
                .chain(variables.into_iter().flat_map(|set| ["--env", set]))
                .chain([program])
        };
        let output = self
            .launcher(job)
            .args(["mpirun", "--timeout", PATIENCE])
            .args(if job.is_far {
                ["--netns", "@HOSTS@"]
            } else {
                ["--same-host", "verbs"]
            })
            .args(job.options)
            .args(one(0).chain([":"]).chain(one(1)))
            .output()
            .expect("mpirun runs");
        let written = std::fs::read_to_string(&log).unwrap_or_default();
        let _ = std::fs::remove_file(&log);
        (output, written)
    }

    fn launcher(&self, job: &Job) -> Command {
        let mut command = if job.is_far {
            let mut command = Command::new("unshare");
            command
                .args(["--user", "--map-current-user", "--keep-caps", "--net", "sh"])
                .arg(concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/tests/mpi_two_hosts.sh"
                ))
                .args(["--", FERRIBAND]);
            command
        } else {
            Command::new(FERRIBAND)
        };
        let failing = if job.is_far { &self.far } else { &self.near };
        command
            .env("FERRIBAND_LIB_DIR", library_dir())
            .env("FERRIBAND_VERBS", failing.join("libibverbs.so.1"))
            .env("FAILING_REAL", library_dir())
            .env("XDG_STATE_HOME", &self.logs)
            .stdin(Stdio::null());
        command
    }

    /// How often a rank calls each function in a job in which no more fails.
    fn count(&self, job: &Job, rank: usize) -> BTreeMap<String, u64> {
        let (output, written) = self.run(job, rank, job.before);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {complained}", job.name);
        let counts = written.lines().filter_map(|line| {
            let (call, count) = line.strip_prefix("called ")?.split_once(' ')?;
            Some((call.to_owned(), count.parse().ok()?))
        });
        let counts: BTreeMap<_, _> = counts.collect();
        assert!(
            counts.contains_key("ibv_post_send"),
            "{}: {written}",
            job.name
        );
        counts
    }

    /// All cases of a job.
    fn cases(&self, job: &Job) -> Vec<Case> {
        let mut cases = Vec::new();
        for rank in 0..2 {
            for (call, count) in self.count(job, rank) {
                let ats = (1..=count).flat_map(|at| {
                    let ways = hows(&call).iter();
                    let turn = at % hows(&call).len() as u64;
                    let is_due = move |way: u64| at <= IN_EACH_WAY || way == turn;
                    let ways = (0..).zip(ways).filter(move |(way, _)| is_due(*way));
                    ways.map(move |(_, how)| (at, *how))
                });
                let ats = ats.collect::<Vec<_>>();
                cases.extend(ats.into_iter().map(|(at, how)| Case {
                    rank,
                    call: call.clone(),
                    at,
                    how,
                }));
            }
        }
        cases
    }

    /// Runs a case, and judges it; what it said.
    fn judge(&self, job: &Job, case: &Case) -> (End, String) {
        let Case { call, at, how, .. } = case;
        let plan = format!("{call}:{at}:{how}");
        let before = Some(job.before).filter(|before| !before.is_empty());
        let plan = before.map_or(plan.clone(), |before| format!("{before},{plan}"));
        let (output, written) = self.run(job, case.rank, &plan);
        let complained = String::from_utf8_lossy(&output.stderr).into_owned();
        let has_come = output.stdout == b"eachcall: 2 ranks: ok\n";
        let has_failed = written
            .lines()
            .any(|line| line == format!("failed {call} {at}"));
        let end = match output.status.code() {
            _ if complained.contains("panicked at") => End::Bad("crashed"),
            Some(0) if has_come && has_failed => End::Well,
            Some(0) if has_come => End::NotReached,
            Some(0 | 3) => End::Bad("other bytes, or none"),
            Some(124) => End::Bad("hung"),
            Some(128..) | None => End::Bad("crashed"),
            _ if case.is_named(&complained) => End::Told,
            _ => End::Bad("an error that does not say what"),
        };
        (end, complained)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.logs);
    }
}

impl Case {
    /// Whether what a job has said names what failed.
    fn is_named(&self, said: &str) -> bool {
        if self.call == COMPLETION {
            let status = format!("status {}", self.how);
            let is_of_memory = OF_MEMORY.contains(&self.how);
            return said.contains(&status) || is_of_memory && said.contains("MPI_ERR_BUFFER");
        }
        let function = self.call.split('/').next().unwrap_or(&self.call);
        let words = WORDS.iter().filter(|(name, _)| *name == function);
        said.contains(function) || words.into_iter().any(|(_, words)| said.contains(words))
    }
}

/// One case of each function, by one of its ranks, and [`MORE`].
fn chosen(cases: &[Case], rng: &mut Rng) -> Vec<Case> {
    let calls: BTreeSet<&String> = cases.iter().map(|case| &case.call).collect();
    let mut chosen = BTreeSet::new();
    for call in calls {
        let of_it: Vec<&Case> = cases.iter().filter(|case| case.call == *call).collect();
        chosen.insert(of_it[rng.index(of_it.len())].clone());
    }
    for _ in 0..MORE {
        chosen.insert(cases[rng.index(cases.len())].clone());
    }
    chosen.into_iter().collect()
}

/// Runs cases, several at a time, and what became of each.
fn run_all(bench: &Bench, job: &Job, cases: &[Case]) -> Vec<(End, String)> {
    let next = AtomicUsize::new(0);
    let ends = Mutex::new(Vec::new());
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (end, said) = bench.judge(job, case);
            let said = format!("{}: {case}: {end:?}\n{said}", job.name);
            ends.lock().expect("no test fails here").push((end, said));
        }
    };
    thread::scope(|scope| (0..PARALLEL).for_each(|_| drop(scope.spawn(work))));
    ends.into_inner().expect("no test fails here")
}

/// How many came to which end, for people.
fn tell(job: &Job, ends: &[(End, String)], took: Duration) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (end, _) in ends {
        *counts.entry(format!("{end:?}")).or_default() += 1;
    }
    eprintln!(
        "{}: {} runs in {took:.1?}: {counts:?}",
        job.name,
        ends.len()
    );
}

/// What is in /dev/shm.
fn shared() -> BTreeSet<std::ffi::OsString> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten();
    entries.flatten().map(|entry| entry.file_name()).collect()
}

/// Nothing stays in /dev/shm that was not there before; what other tests have there goes.
fn leaves_nothing(before: &BTreeSet<std::ffi::OsString>) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let new: Vec<_> = shared().difference(before).cloned().collect();
    while new.iter().any(|name| shared().contains(name)) {
        assert!(Instant::now() < deadline, "{new:?} are left");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn whichever_call_of_verbs_fails_all_bytes_come_or_an_error_names_it() {
    let Some(bench) = Bench::new("each") else {
        return;
    };
    let (before, is_all) = (shared(), std::env::var_os(ALL).is_some());
    let seed = std::env::var(SEED).map_or(1, |seed| seed.parse().expect("a number"));
    let (mut rng, has_hosts) = (Rng::new(seed), has_network_namespaces());
    let mut bad = Vec::new();
    for job in JOBS.iter().filter(|job| has_hosts || !job.is_far) {
        let begun = Instant::now();
        let mut cases = bench.cases(job);
        if is_all {
            eprintln!("{}: {} runs", job.name, cases.len());
        }
        if !is_all {
            cases = chosen(&cases, &mut rng);
        }
        let ends = run_all(&bench, job, &cases);
        tell(job, &ends, begun.elapsed());
        assert!(
            ends.iter().any(|(end, _)| *end == End::Well),
            "{}",
            job.name
        );
        let ends = ends.into_iter();
        bad.extend(ends.filter_map(|(end, said)| matches!(end, End::Bad(_)).then_some(said)));
    }
    bench.program.leaves_nobody();
    leaves_nothing(&before);
    assert!(bad.is_empty(), "seed {seed}: {}", bad.join("\n"));
}

#[test]
fn a_plan_lets_that_call_fail_and_no_other() {
    let Some(bench) = Bench::new("plan") else {
        return;
    };
    let job = &JOBS[0];
    let counts = bench.count(job, 1);
    // those of this host and network, up to four
    assert!((1..=4).contains(&counts["ibv_open_device"]));
    assert!(counts["ibv_post_send"] > 20 && counts["ibv_modify_qp/RTR"] >= 2);
    let (output, written) = bench.run(job, 1, "ibv_alloc_pd:1:EACCES,ibv_create_cq:1:ENOMEM");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("ibv_alloc_pd: Permission denied"), "{said}");
    let failed: Vec<&str> = written
        .lines()
        .filter(|line| line.starts_with("failed "))
        .collect();
    assert_eq!(failed, ["failed ibv_alloc_pd 1"], "{written}");
}

/// RCCL's FailoverErrorCodeWhitelist, with our answer: no status of a completion ends the job. One
/// that is about memory may be that of an adapter that fails, so it ends no message either, unless
/// it comes again.
#[test]
fn each_status_is_healed() {
    let Some(bench) = Bench::new("statuses") else {
        return;
    };
    for status in hows(COMPLETION) {
        for rank in 0..2 {
            let case = Case {
                rank,
                call: COMPLETION.to_owned(),
                at: 20,
                how: status,
            };
            let (end, said) = bench.judge(&JOBS[0], &case);
            assert!(end == End::Well, "{case}: {end:?}: {said}");
        }
    }
    bench.program.leaves_nobody();
}

/// RCCL's FailoverAllDevicesFailed: what has failed cannot be made anew.
#[test]
fn an_adapter_that_makes_no_queue_pair_any_more_loses_the_peer() {
    let Some(bench) = Bench::new("none") else {
        return;
    };
    // the first is that of datagrams, the second that of the connection
    let plan = format!("{BROKEN},ibv_create_qp:3+:EINVAL");
    for rank in 0..2 {
        let (output, written) = bench.run(&JOBS[0], rank, &plan);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(written.contains("failed ibv_create_qp 3\n"), "{written}");
        let is_an_error = matches!(output.status.code(), Some(1..=123));
        assert!(is_an_error, "{}: {said}", output.status);
        let words = ": no queue pair can be connected to it: ibv_create_qp: Invalid argument";
        assert!(said.contains(words), "{said}");
    }
    bench.program.leaves_nobody();
}

/// What a device refuses for ever is named while it lasts, and ends the job after `heal_for`: in
/// the first life of a connection, and while it is made anew.
#[test]
fn a_post_that_is_refused_for_ever_is_named_and_ends_after_heal_for() {
    let Some(bench) = Bench::new("refused") else {
        return;
    };
    let job = Job::near("refused", &["--set", "heal_for=2"], "");
    let refuses = |rank: usize, plan: &str| {
        let (output, _) = bench.run(&job, rank, plan);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_an_error = matches!(output.status.code(), Some(1..=123));
        assert!(is_an_error, "{plan}: {}: {said}", output.status);
        said
    };
    let first = || refuses(0, "ibv_post_send:15+:ENOMEM");
    let anew = || refuses(1, &format!("{BROKEN},ibv_post_send:20+:ENOMEM"));
    let all = thread::scope(|scope| {
        let all = [scope.spawn(first), scope.spawn(anew)];
        all.map(|one| one.join().expect("as it has to be"))
    });
    for said in all {
        let verb = "ibv_post_send: Cannot allocate memory";
        let lost = said.contains(&format!(
            " is lost: {verb} (os error 12), again and again for"
        ));
        let told = said.lines().any(|line| {
            line.contains("heal_for: 2 s") && line.contains(verb) && line.contains(" 1 s")
        });
        assert!(lost && told, "{said}");
    }
    bench.program.leaves_nobody();
}

/// A device that knows no such queue pair has none to be waited for.
#[test]
fn a_queue_pair_that_a_device_does_not_know_any_more_holds_up_no_heal() {
    let Some(bench) = Bench::new("unknown") else {
        return;
    };
    let plan = format!("{BROKEN},ibv_destroy_qp:1+:EINVAL");
    for rank in 0..2 {
        let (output, written) = bench.run(&JOBS[0], rank, &plan);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", output.status);
        assert!(written.contains("failed ibv_destroy_qp 1\n"), "{written}");
    }
    bench.program.leaves_nobody();
}

/// A look that fails may have lost what it had found: nothing behind that has its turn.
#[test]
fn what_a_failed_look_at_completions_has_lost_is_sent_again() {
    let Some(bench) = Bench::new("looks") else {
        return;
    };
    // The first look of a rank that has no connection yet, and such as are in a heal.
    for (rank, at) in [(1, 1)].into_iter().chain((40..48).map(|at| (0, at))) {
        let case = Case {
            rank,
            call: "ibv_poll_cq".to_owned(),
            at,
            how: "EIO",
        };
        let (end, said) = bench.judge(&JOBS[1], &case);
        let is_right = matches!(end, End::Well | End::NotReached);
        assert!(is_right, "{case}: {end:?}: {said}");
    }
    bench.program.leaves_nobody();
}
