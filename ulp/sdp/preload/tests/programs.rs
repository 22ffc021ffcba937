//! Programs over TCP, plain and with the library preloaded at both ends, at the client's, at the
//! server's: what they print is the same. And the comparison of suites (`scripts/sdp-tests`) finds
//! a library that loses bytes.
//!
//! Where a program is preloaded at both ends, connections have to have gone by SDP, as the file of
//! FERRIBAND_SDP_COUNTERS says; with SDP_EXPECT_UPGRADED=1 nine of ten.

use ferriband_testkit::{Cc, cargo, place};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The library, freshly built.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let libs = ["run", "--quiet", "--package", "xtask", "--", "libs"];
        let paths = cargo(&[&libs[..], &["--only", "ferriband_sdp"]].concat());
        PathBuf::from(paths.trim())
    })
}

fn scratch(name: &str) -> PathBuf {
    place!().out(&format!("sdp-{name}"))
}

/// Compiles a source of `tests/c`.
fn compile(source: &str, name: &str, options: &[&str]) -> PathBuf {
    Cc::new(place!(), source, &format!("sdp-{name}"))
        .options(["-O2", "-D_FORTIFY_SOURCE=2", "-pthread"])
        .links(options)
        .compile()
}

/// Where the library is preloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preloaded {
    Nowhere,
    Client,
    Server,
    Both,
}

fn run(program: &Path, mode: &str, preloaded: Preloaded, variables: &[(&str, &Path)]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=1", "60"]).arg(program);
    command.args(Some(mode).filter(|mode| !mode.is_empty()));
    command.envs(variables.iter().copied()).env("LC_ALL", "C");
    command.env_remove("PAIR_PLAIN");
    match preloaded {
        Preloaded::Nowhere => command.env_remove("LD_PRELOAD"),
        _ => command.env("LD_PRELOAD", library()),
    };
    match preloaded {
        Preloaded::Client => command.env("PAIR_PLAIN", "server"),
        Preloaded::Server => command.env("PAIR_PLAIN", "client"),
        _ => &mut command,
    };
    command.output().expect("timeout runs")
}

/// What a program that succeeds prints.
fn printed(
    program: &Path,
    mode: &str,
    preloaded: Preloaded,
    variables: &[(&str, &Path)],
) -> String {
    let output = run(program, mode, preloaded, variables);
    let said = String::from_utf8_lossy(&output.stderr);
    let name = program.display();
    assert!(
        output.status.success(),
        "{name} {mode} {preloaded:?}: {}\n{said}",
        output.status
    );
    assert_eq!(said, "", "{name} {mode} {preloaded:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Connections that could have gone by SDP, and that did, by the lines of a counter file.
fn counted(file: &Path) -> (u64, u64) {
    let lines = fs::read_to_string(file).unwrap_or_default();
    let of = |line: &str, name: &str| {
        let row: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        row[name].as_u64().expect("a count")
    };
    lines.lines().fold((0, 0), |(could, did), line| {
        (could + of(line, "eligible"), did + of(line, "upgraded"))
    })
}

/// Runs a program of `tests/c` plain, and preloaded in each way, with the same output. `variables`
/// name files that it needs.
fn same_with(source: &str, mode: &str, variables: &[(&str, &Path)]) {
    let program = compile(source, &format!("{source}-{mode}"), &[]);
    let plain = printed(&program, mode, Preloaded::Nowhere, variables);
    assert!(!plain.is_empty());
    for preloaded in [Preloaded::Client, Preloaded::Server] {
        assert_eq!(
            printed(&program, mode, preloaded, variables),
            plain,
            "{preloaded:?}"
        );
    }
    let counters = scratch(&format!("{source}-{mode}.counters"));
    let _ = fs::remove_file(&counters);
    let variables = [variables, &[("FERRIBAND_SDP_COUNTERS", counters.as_path())]].concat();
    let both = printed(&program, mode, Preloaded::Both, &variables);
    assert_eq!(both, plain, "both ends preloaded");
    let (could, did) = counted(&counters);
    let strict = std::env::var_os("SDP_EXPECT_UPGRADED").is_some_and(|flag| flag == "1");
    let least = if strict { (could * 9).div_ceil(10) } else { 1 };
    assert!(
        could > 0 && did >= least,
        "{did} of {could} connections went by SDP"
    );
    for file in [&counters, &program] {
        let _ = fs::remove_file(file);
    }
}

fn same(source: &str, mode: &str) {
    same_with(source, mode, &[]);
}

#[test]
fn blocking_calls() {
    same("echo", "");
}

#[test]
fn connections_are_taken_over_when_the_settings_say() {
    let program = compile("echo", "echo-set", &[]);
    let [counters, file] = ["set.counters", "set.conf"].map(scratch);
    fs::write(&file, "after_exchanges = 1000000\nafter_bytes = 1G\n").expect("writable");
    let with = |more: &[(&str, &Path)]| {
        let _ = fs::remove_file(&counters);
        let common = [
            ("FERRIBAND_SDP_COUNTERS", counters.as_path()),
            ("FERRIBAND_SDP_SETTINGS", &file),
        ];
        printed(&program, "", Preloaded::Both, &[&common, more].concat());
        counted(&counters)
    };
    assert_eq!(with(&[]), (0, 0), "the file of settings");
    let (_, did) = with(&[("FERRIBAND_SDP_AFTER_EXCHANGES", Path::new("0"))]);
    assert!(did > 0, "the environment stands above the file");
    for file in [counters, file, program] {
        fs::remove_file(file).expect("it was there");
    }
}

#[test]
fn where_each_connection_is_wanted_one_that_is_accepted_late_is_asked_for_again() {
    let program = compile("late_accept", "late_accept", &[]);
    let plain = printed(&program, "", Preloaded::Nowhere, &[]);
    let counters = scratch("late_accept.counters");
    let _ = fs::remove_file(&counters);
    let variables = [
        ("FERRIBAND_SDP_COUNTERS", counters.as_path()),
        ("FERRIBAND_SDP_AFTER_EXCHANGES", Path::new("0")),
    ];
    assert_eq!(printed(&program, "", Preloaded::Both, &variables), plain);
    assert_eq!(counted(&counters), (2, 2), "both ends of the first alone");
    for file in [counters, program] {
        fs::remove_file(file).expect("it was there");
    }
}

#[test]
fn level_triggered_epoll() {
    same("ready", "lt");
}

#[test]
fn edge_triggered_epoll() {
    same("ready", "et");
}

#[test]
fn oneshot_epoll() {
    same("ready", "oneshot");
}

#[test]
fn poll() {
    same("ready", "poll");
}

#[test]
fn select() {
    same("ready", "select");
}

#[test]
fn threads_that_are_cancelled_while_they_wait() {
    same("cancel", "");
}

#[test]
fn half_closed_connections() {
    same("half_close", "");
}

#[test]
fn long_streams_in_both_directions_at_once() {
    same("both_ways", "");
}

#[test]
fn both_ends_in_one_process() {
    same("one_process", "");
}

#[test]
fn forks_after_accept() {
    same("forks", "");
}

#[test]
fn parent_and_child_wait_for_one_connection() {
    same("both_wait", "");
}

#[test]
fn rings_that_stay_full_while_a_writer_waits() {
    for mode in ["poll", "select", "lt", "et"] {
        same("full", mode);
    }
}

#[test]
fn a_number_is_closed_while_a_call_is_in_progress() {
    for mode in ["reads", "writes", "reads-dup", "writes-dup", "cancels"] {
        same("closes", mode);
    }
}

#[test]
fn descriptors_of_the_library_are_never_met() {
    same("strays", "");
}

#[test]
fn memory_that_cannot_be_accessed() {
    for mode in ["0", "1", "2", "3", "r0", "r1", "r2", "r3", "r4"] {
        same("faults", mode);
    }
}

#[test]
fn several_numbers_for_a_connection() {
    same("dups", "");
}

#[test]
fn a_static_program_takes_over_in_the_middle_of_a_transfer() {
    let reader = compile("execs", "reader", &["-DREADER", "-static"]);
    for mode in ["reads", "writes", "forks"] {
        same_with("execs", mode, &[("READER", &reader)]);
    }
    fs::remove_file(reader).expect("it was there");
}

#[test]
fn time_limits_and_looks_ahead() {
    same("calls", "");
}

#[test]
fn looks_ahead_and_several_messages() {
    same("peeks", "");
}

#[test]
fn sendfile_and_splice() {
    same("sendfile", "");
}

#[test]
fn killed_peers() {
    for mode in ["writes", "reads", "sleeps", "unread", "fills", "exits"] {
        same("killed", mode);
    }
}

#[test]
fn what_becomes_ready_is_told_in_that_order() {
    same("arrival", "");
}

#[test]
fn peers_that_are_killed_at_any_moment() {
    same("killed_often", "");
}

#[test]
fn a_peer_that_writes_any_bytes_into_the_segment() {
    same("hostile", "");
}

#[test]
fn a_peer_that_is_stopped() {
    same("mixed", "stopped");
}

#[test]
fn numbers_that_go_in_the_middle_of_a_transfer() {
    same("mixed", "over");
    same("mixed", "range");
}

#[test]
fn a_connection_that_is_handed_on() {
    same("mixed", "heir");
    same("mixed", "heir-plain");
}

#[test]
fn descriptors_run_out() {
    same("mixed", "limits");
}

#[test]
fn threads_and_a_child_that_use_a_connection_at_once() {
    for seed in ["1", "2", "3", "4"] {
        same("at_once", seed);
    }
}

#[test]
fn resets_and_urgent_bytes() {
    same("ends", "");
}

#[test]
fn threads_with_the_least_stack() {
    same("corners", "stack");
}

#[test]
fn options_by_which_calls_tell_more() {
    for mode in ["rest", "time", "peeks"] {
        same("corners", mode);
    }
}

#[test]
fn a_program_that_is_executed_by_execveat() {
    same("corners", "execveat");
}

#[test]
fn second_names_of_calls() {
    same("corners", "names");
}

#[test]
fn a_mount_namespace_is_entered() {
    same("corners", "space");
}

#[test]
fn a_library_that_is_loaded_with_deepbind() {
    let plugin = compile("corners", "corners.so", &["-DPLUGIN", "-shared", "-fPIC"]);
    same_with("corners", "deep", &[("CORNERS_PLUGIN", &plugin)]);
    fs::remove_file(plugin).expect("it was there");
}

/// The fuzzer of sequences of calls, with the static program that it executes.
struct Fuzzer {
    program: PathBuf,
    reader: PathBuf,
}

impl Fuzzer {
    fn new(name: &str) -> Self {
        Self {
            program: compile("fuzz/fuzz", name, &[]),
            reader: compile("fuzz/static", &format!("{name}-static"), &["-static"]),
        }
    }

    /// Sequences of so many seeds from `first` on, with a library.
    fn drive(&self, library: &Path, first: u64, count: u64) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("drive").arg(library);
        command.args([first.to_string(), count.to_string()]);
        command.env("FUZZ_READER", &self.reader);
        command.env_remove("LD_PRELOAD");
        command
    }
}

impl Drop for Fuzzer {
    fn drop(&mut self) {
        for file in [&self.program, &self.reader] {
            let _ = fs::remove_file(file);
        }
    }
}

fn number(variable: &str, otherwise: u64) -> u64 {
    let set = std::env::var(variable).ok();
    set.map_or(otherwise, |set| set.parse().expect("a number"))
}

/// FUZZ_SEQUENCES sequences from FUZZ_SEED on, by four at once.
#[test]
fn sequences_of_calls_answer_as_by_tcp() {
    let fuzzer = Fuzzer::new("fuzz");
    let (first, count) = (number("FUZZ_SEED", 1), number("FUZZ_SEQUENCES", 10_000));
    let part = count.div_ceil(4);
    let drives = [0, 1, 2, 3].map(|at| {
        let mut command = fuzzer.drive(library(), first + at * part, part);
        command.stdout(std::process::Stdio::piped());
        command.spawn().expect("it runs")
    });
    for drive in drives {
        let output = drive.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}\n{said}", output.status);
        println!("{said}");
    }
}

#[test]
fn the_fuzzer_finds_a_library_that_is_broken() {
    let fuzzer = Fuzzer::new("fuzz-planted");
    let plants = compile("fuzz/plants", "plants.so", &["-shared", "-fPIC", "-ldl"]);
    let both = format!("{}:{}", plants.display(), library().display());
    for plant in [
        "byte twice, seldom",
        "byte lost",
        "byte twice",
        "other error",
        "end lost",
        "wake-up lost",
        "event lost",
        "bit lost",
        "never ready",
        "option",
        "no reset",
    ] {
        let mut command = fuzzer.drive(Path::new(&both), 1, 512);
        command.env("PLANT", plant).env("FUZZ_MOST", "1");
        // of what comes up in no second run wrong bytes alone are judged
        let is_seldom = plant.ends_with("seldom");
        if !is_seldom {
            command.env("FUZZ_WHOLE", "1");
        }
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{plant}: {said}");
        let found = match is_seldom {
            true => "the bytes are wrong",
            false => "differs at step",
        };
        assert!(said.contains(found), "{plant}: {said}");
    }
    fs::remove_file(plants).expect("it was there");
}

/// The comparison of suites, over CPython's tests of socketserver, where they are installed.
#[test]
fn the_comparison_of_suites_finds_a_library_that_loses_bytes() {
    let lossy = compile("lossy", "lossy.so", &["-shared", "-fPIC", "-ldl"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/sdp-tests");
    let compare = |library: &Path| {
        let under = format!("env LD_PRELOAD={}", library.display());
        Command::new(&script)
            .args(["--under", &under, "cpython:test_socketserver"])
            .env("SDP_PATIENCE", "20")
            .output()
            .expect("python3 runs")
    };
    let found = compare(&lossy);
    fs::remove_file(&lossy).expect("it was there");
    let said = String::from_utf8_lossy(&found.stdout);
    if found.status.code() == Some(77) {
        eprintln!("left out: {said}");
        return;
    }
    assert_eq!(found.status.code(), Some(1), "{said}");
    assert!(
        said.contains("ONLY UNDER IT: cpython:test_socketserver"),
        "{said}"
    );
    let none = compare(library());
    let said = String::from_utf8_lossy(&none.stdout);
    assert_eq!(none.status.code(), Some(0), "{said}");
}
