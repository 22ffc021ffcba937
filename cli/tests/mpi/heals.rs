//! What people are told of connections that failed and were made anew.

use super::{FERRIBAND, Program, library_dir};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A job of two ranks whose messages go by connections that heal; what follows is added.
const JOB: [&str; 5] = ["mpirun", "-n", "2", "--same-host", "verbs"];

/// A directory that goes with its test, for what is written down of heals.
struct State(PathBuf);

impl State {
    fn new(name: &str) -> Self {
        let place = format!("heals.{name}.{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(place);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("ASCII").to_owned()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(FERRIBAND);
        command
            .args(words)
            .env("FERRIBAND_LIB_DIR", library_dir())
            .env("XDG_STATE_HOME", &self.0)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("it runs")
    }

    /// What a command says that ends well.
    fn said(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {complained}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.said(words)).expect("JSON")
    }

    fn file(&self, name: &str) -> Value {
        let text = std::fs::read_to_string(self.path(name)).expect("it was written");
        serde_json::from_str(&text).expect("JSON")
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn number(of: &Value, name: &str) -> f64 {
    let value = of[name].as_f64();
    value.unwrap_or_else(|| panic!("{name} of {of}"))
}

/// The heals' own bars of a timeline: their parts follow one another, and are the whole.
fn check_bars(timeline: &Value) -> usize {
    let events = timeline["traceEvents"].as_array().expect("events");
    let bars: Vec<&Value> = events
        .iter()
        .filter(|event| event["cat"] == "heal")
        .collect();
    for five in bars.chunks(5) {
        let [whole, parts @ ..] = five else {
            panic!("{five:?}");
        };
        assert_eq!(whole["name"], "heal");
        let mut at = number(whole, "ts");
        for (part, name) in parts.iter().zip(["detect", "fence", "reconnect", "replay"]) {
            assert_eq!(part["name"], name);
            assert_eq!(part["tid"], whole["tid"]);
            assert!((number(part, "ts") - at).abs() < 0.01, "{part} at {at}");
            at += number(part, "dur");
        }
        let end = number(whole, "ts") + number(whole, "dur");
        assert!((at - end).abs() < 0.01, "{whole}");
    }
    bars.len() / 5
}

/// What `mpirun --report` says of a rank's heals; their number.
fn check_report(rank: &Value) -> f64 {
    let heals = &rank["moved"]["heals"];
    let causes = heals["causes"].as_object().expect("causes");
    let sum: f64 = causes.values().filter_map(Value::as_f64).sum();
    assert_eq!(number(heals, "number"), sum, "{heals}");
    assert!(number(heals, "longest_ms") <= number(heals, "total_ms"));
    assert!(number(&rank["moved"], "verbs_messages") > 0.0, "{rank}");
    sum
}

#[test]
fn a_jobs_heals_are_in_its_report_its_trace_and_its_counters_and_why_knows_them() {
    let state = State::new("told");
    let program = Program::new("heals");
    let path = program.0.to_str().expect("ASCII");
    let (timeline, page) = (state.path("trace.json"), state.path("page.html"));
    let report = state.path("report.json");
    let trace = ["trace", "-o", &timeline, "--html", &page, "--json", "--"];
    let job = ["--report", &report, "--set", "stats=1"];
    let rest = ["--env", "ROUNDS=3", path];
    let output = state.run(&[&trace[..], &JOB, &job, &rest].concat());
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(output.status.success(), "{said}{complained}");
    let ranks = state.file("report.json");
    let heals: f64 = ranks["ranks"]
        .as_array()
        .expect("ranks")
        .iter()
        .map(check_report)
        .sum();
    assert!(heals > 0.0, "{ranks}");
    let (_, traced) = said
        .split_once("heals: 2 ranks: ok\n")
        .expect("its own line");
    let traced: Value = serde_json::from_str(traced).expect("JSON");
    let traced = traced["heals"].as_array().expect("heals");
    // What heals while a rank leaves is not in its report any more.
    assert!(traced.len() as f64 >= heals);
    assert!(
        traced
            .iter()
            .all(|heal| heal["tries"] != 0 && heal["cause"] != "")
    );
    assert_eq!(check_bars(&state.file("trace.json")), traced.len());
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("\"parts\":[\"detect\",\"fence\",\"reconnect\",\"replay\"]"));
    let counted = complained
        .lines()
        .filter(|line| line.contains(" heals, ") && line.contains(" ms the longest, "));
    assert_eq!(counted.count(), 2, "{complained}");
    let why = state.json(&["why", "--json", "--last", "1000"]);
    let why = why.as_array().expect("heals");
    // A process writes few at a time.
    assert!(!why.is_empty() && why.len() <= traced.len());
    for heal in why {
        assert_eq!(
            (&heal["event"], &heal["state"]),
            (&"heal".into(), &"healed".into())
        );
        let sum =
            number(heal, "fence_ms") + number(heal, "reconnect_ms") + number(heal, "replay_ms");
        assert!((sum - number(heal, "whole_ms")).abs() < 0.001, "{heal}");
        assert_eq!(heal["from"]["adapter"], "ferri0");
        assert_eq!(heal["from"], heal["to"]);
    }
    let why = state.said(&["why"]);
    assert!(
        why.contains(" was made anew in ") && why.contains("\n  parts "),
        "{why}"
    );
}

#[test]
fn a_report_is_a_table_too() {
    let state = State::new("table");
    let program = Program::new("heals");
    let path = program.0.to_str().expect("ASCII");
    let rest = ["--report", "-", "--env", "ROUNDS=2", path];
    let output = state.run(&[&JOB[..], &rest].concat());
    let table = String::from_utf8_lossy(&output.stderr);
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(output.status.success() && rows.len() == 4, "{table}");
    assert!(table.starts_with("rank  ended "), "{table}");
    for (rank, row) in (0..).zip(&rows[2..]) {
        assert_eq!(row[0], format!("{rank}"));
        assert_eq!(row[1..4], ["status", "0,", "finalized"]);
    }
    assert!(
        table.contains("qp_error") || table.contains("peer"),
        "{table}"
    );
}

#[test]
fn the_settings_of_heals_are_shown_and_nonsense_is_refused() {
    let state = State::new("settings");
    let set = ["heal_for=7", "rails=2", "detect=250", "heal_log=1M"];
    let set = set.iter().flat_map(|one| ["--set", one]);
    let words: Vec<&str> = ["mpi-info", "--json"].into_iter().chain(set).collect();
    let info = state.json(&words);
    let settings = info["settings"].as_array().expect("settings");
    let of = |name: &str| {
        let found = settings.iter().find(|setting| setting["name"] == name);
        found.unwrap_or_else(|| panic!("{name}"))
    };
    assert_eq!(
        (&of("heal")["value"], &of("heal_for")["value"]),
        (&"1".into(), &"7".into())
    );
    for (name, value) in [("rails", "2"), ("detect", "250"), ("heal_log", "1M")] {
        assert_eq!(of(name)["value"], value);
    }
    for (bad, good) in [
        ("heal=2", "0 or 1"),
        ("rails=5", "a number from 1 to 4"),
        ("detect=10", "a number from 50 to 3600000"),
        ("heal_log=4K", "bytes from 65536 to"),
    ] {
        let output = state.run(&["mpi-info", "--set", bad]);
        let complained = String::from_utf8_lossy(&output.stderr);
        let wanted = format!("{bad}: it can be {good}");
        assert!(complained.contains(&wanted), "{complained}");
    }
}

#[test]
fn what_is_kept_for_all_peers_stays_within_its_bound_and_the_rest_waits() {
    let state = State::new("bounded");
    let program = Program::new("bounded");
    let path = program.0.to_str().expect("ASCII");
    let job = ["mpirun", "-n", "4", "--timeout", "100"];
    for (set, bound) in [("heal_log=64K", "65536"), ("heal_log=16M", "0")] {
        let words = ["--same-host", "verbs", "--set", set, path, bound];
        let said = state.said(&[&job[..], &words].concat());
        assert!(said.contains("bounded: 4 ranks: ok"), "{said}");
    }
}

#[test]
fn without_heals_the_first_failure_loses_the_peer_and_nothing_is_kept() {
    let state = State::new("off");
    let program = Program::new("heals");
    let path = program.0.to_str().expect("ASCII");
    let rest = ["--set", "heal=0", "--env", "ROUNDS=50", path];
    let output = state.run(&[&JOB[..], &rest].concat());
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{complained}");
    assert!(complained.contains("is lost: "), "{complained}");
    assert_eq!(state.run(&["why"]).status.code(), Some(3), "no heal");
    // What does not fail needs no log.
    let ring = Program::new("ring");
    let path = ring.0.to_str().expect("ASCII");
    for (heal, is_kept) in [("heal=0", false), ("heal=1", true)] {
        let set = ["--set", heal, "--set", "stats=1", path];
        let output = state.run(&[&JOB[..], &set].concat());
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        assert_ne!(
            told.contains("; 0 bytes of logs, "),
            is_kept,
            "{heal}: {told}"
        );
    }
}

#[test]
fn a_heal_that_lasts_is_told_while_it_does_and_when_it_ends() {
    let state = State::new("lasts");
    let program = Program::new("healed");
    let path = program.0.to_str().expect("ASCII");
    let mut job = state
        .command(&[&JOB[..], &["--timeout", "300", path]].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mpirun runs");
    let mut input = job.stdin.take().expect("a pipe");
    let mut output = BufReader::new(job.stdout.take().expect("a pipe")).lines();
    let mut complaints = BufReader::new(job.stderr.take().expect("a pipe")).lines();
    let mut line = || output.next().expect("a line").expect("text");
    let process = line();
    let process = process
        .strip_prefix("process ")
        .and_then(|pid| pid.parse::<i32>().ok());
    let process = process.expect("rank 1's process");
    writeln!(input, "once").expect("it is read");
    assert_eq!(line(), "healed");
    // Who is stopped answers nobody.
    // SAFETY: a process of this test's job, which waits for a message.
    assert_eq!(unsafe { libc::kill(process, libc::SIGSTOP) }, 0);
    writeln!(input, "twice").expect("it is read");
    let lasts = complaints.next().expect("a line").expect("text");
    let live = state.json(&["why", "--live", "--json"]);
    let why = state.said(&["why"]);
    let status = state.json(&["status", "--json"]);
    let shown = state.said(&["status"]);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(process, libc::SIGCONT) }, 0);
    assert_eq!(line(), "healed");
    let ends = complaints.next().expect("a line").expect("text");
    drop(input);
    assert_eq!(line(), "healed: 2 ranks: ok");
    assert!(job.wait().expect("it ends").success());

    let about = "ferriband MPI: rank 0: the connection to rank 1 by ferri0 ";
    assert!(
        lasts.starts_with(about) && lasts.contains("is not made anew after 1 s"),
        "{lasts}"
    );
    assert!(lasts.contains("ferriband why"), "{lasts}");
    assert!(
        ends.starts_with(about) && ends.contains("is made anew after "),
        "{ends}"
    );
    let is_it =
        |heal: &&Value| heal["state"] == "under_way" && heal["rank"] == 0 && heal["peer"] == 1;
    for heals in [&live, &status["heals"]] {
        let heal = heals.as_array().and_then(|heals| heals.iter().find(is_it));
        let heal = heal.unwrap_or_else(|| panic!("{heals}"));
        assert!(number(heal, "whole_ms") >= 1000.0, "{heal}");
    }
    assert!(
        why.contains("is being made anew since ") && why.contains("\n  look at "),
        "{why}"
    );
    assert!(shown.contains("under way"), "{shown}");
    let over = state.json(&["why", "--json", "--last", "10"]);
    let over = over.as_array().expect("heals");
    let of_first = over.iter().filter(|heal| heal["rank"] == 0);
    assert!(
        of_first.clone().all(|heal| heal["state"] == "healed"),
        "{over:?}"
    );
    assert!(of_first.count() >= 2, "{over:?}");
    program.leaves_nobody();
}

#[test]
fn the_demonstration_breaks_a_connection_and_shows_its_heal() {
    let state = State::new("demo");
    let (html, json) = (state.path("heal.html"), state.path("heal.json"));
    let said = state.said(&["demo", "heal", "--html", &html, "-o", &json]);
    for part in [
        "$ ferriband fault qp-error --qpn 0x",
        "each once and in its turn",
        "rank 0: the connection failed, was made anew after ",
        "heals, in ms",
        "a queue pair was in error",
        "$ ferriband why --pid ",
        " was made anew in ",
    ] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    assert!(check_bars(&state.file("heal.json")) >= 2);
    let page = std::fs::read_to_string(html).expect("a page");
    assert!(page.contains("\"heals\":[["));
}
