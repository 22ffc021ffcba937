//! Connections between two hosts, which are two network namespaces, by queue pairs: programs that
//! are preloaded at both ends print what they print by TCP, and their bytes go by queue pairs; in
//! the middle of it the server executes itself or another, forks, or dies, and the adapter loses
//! all packets. Where the system allows no namespaces, the tests say so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The directory of the libraries, freshly built by `cargo xtask libs`.
fn libraries() -> &'static Path {
    static LIBRARIES: OnceLock<PathBuf> = OnceLock::new();
    LIBRARIES.get_or_init(|| {
        let built = cargo(&["run", "--quiet", "--package", "xtask", "--", "libs"]);
        let first = built.lines().next().expect("a library");
        let directory = Path::new(first).parent().expect("a directory");
        directory.to_path_buf()
    })
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// `ferriband`, freshly built.
fn ferriband() -> String {
    let arguments = ["build", "--quiet", "--package", "ferriband"];
    let said = cargo(&[&arguments[..], &["--message-format", "json"]].concat());
    let (_, path) = said.rsplit_once("\"executable\":\"").expect("a program");
    path.split('"').next().expect("a path").to_owned()
}

fn scratch(name: &str) -> PathBuf {
    let name = format!("hosts-{}-{name}", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/c")
        .join(name)
}

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = scratch("program");
        let status = Command::new("cc")
            .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2"])
            .args(["-pthread", "-o"])
            .arg(&program)
            .arg(source("hosts.c"))
            .status()
            .expect("a C compiler, which linking Rust needs anyway");
        assert!(status.success());
        program
    })
}

/// A shell in a user's and a network's namespaces of its own.
fn alone() -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after", "5", "240"]).args([
        "unshare",
        "--user",
        "--map-root-user",
        "--net",
        "--",
        "sh",
    ]);
    command
}

fn may_have_hosts() -> bool {
    let wants =
        "ip link add eth0 type veth peer name eth1 && unshare --net true && nsenter --version";
    let mut command = alone();
    command
        .args(["-c", wants])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let may = command.status().is_ok_and(|status| status.success());
    if !may {
        eprintln!("SKIP: namespaces, veth or iproute2 are not to be had here");
    }
    may
}

/// What a run says, and how many processes have had connections that were taken over.
struct Run {
    said: String,
    upgraded: usize,
}

/// Runs both programs, which begin when their connection is taken over if the ranges are
/// [`RANGES`].
fn run(mode: &str, rounds: u32, settings: &str, with: Option<&str>) -> Run {
    let counters = scratch(&format!("{mode}-{}", settings.len()));
    let _ = fs::remove_file(&counters);
    let library = libraries().join("libferriband_sdp.so");
    let environment = format!(
        "LD_PRELOAD={} FERRIBAND_SDP_SETTINGS= FERRIBAND_SDP_COUNTERS={} TAKEN_OVER={} {settings}",
        library.display(),
        counters.display(),
        u8::from(settings.starts_with(RANGES)),
    );
    let program = program().display();
    let server = format!("exec env {environment} {program} server 17080 {mode} {rounds}");
    let client = format!("exec env {environment} {program} client 192.0.2.2 17080 {mode} {rounds}");
    let output: Output = alone()
        .arg(source("two_hosts.sh"))
        .env("SERVER", server)
        .env("CLIENT", client)
        .env("FERRIBAND", with.unwrap_or_default())
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{mode}: {}: {said}{errors}",
        output.status
    );
    let counted = fs::read_to_string(&counters).unwrap_or_default();
    let _ = fs::remove_file(&counters);
    // shown with what fails
    eprintln!("{mode} {settings}: {said}{errors}");
    let lines = counted
        .lines()
        .filter(|line| line.contains("\"upgraded\":"));
    let upgraded = lines.filter(|line| !line.contains("\"upgraded\":0"));
    Run {
        said,
        upgraded: upgraded.count(),
    }
}

const RANGES: &str = "FERRIBAND_SDP_RANGES=192.0.2.0/24 FERRIBAND_SDP_AFTER_EXCHANGES=1";

/// The part of the client's bytes that went by TCP, in percent; all came back, and both programs
/// ended well.
fn by_tcp(said: &str) -> u32 {
    let part = said.split_once("all came back, ").and_then(|(_, rest)| {
        let (percent, rest) = rest.split_once("% by tcp\n")?;
        rest.is_empty().then(|| percent.parse().ok())?
    });
    part.unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn bytes_go_by_queue_pairs_with_each_flow_control() {
    if !may_have_hosts() {
        return;
    }
    for flow in ["nic", "ring", "credit"] {
        for mode in ["blocking", "epoll"] {
            let settings = format!("{RANGES} FERRIBAND_SDP_FLOW={flow}");
            let run = run(mode, 6000, &settings, None);
            assert_eq!(run.upgraded, 2, "{flow} {mode}: {}", run.said);
            let by_tcp = by_tcp(&run.said);
            // an adapter that a busy machine keeps from answering is left for TCP
            assert!(by_tcp < 50, "{flow} {mode}: {by_tcp} %");
        }
    }
}

#[test]
fn a_program_that_sends_all_before_it_reads_goes_on() {
    if may_have_hosts() {
        by_tcp(&run("stream", 6000, RANGES, None).said);
    }
}

#[test]
fn hosts_that_are_not_listed_and_one_side_alone_stay_tcp() {
    if !may_have_hosts() {
        return;
    }
    for settings in ["", "FERRIBAND_SDP_RANGES=198.51.100.0/24"] {
        let run = run("blocking", 2000, settings, None);
        assert_eq!((run.upgraded, by_tcp(&run.said)), (0, 100));
    }
}

#[test]
fn a_server_that_executes_another_program_or_forks_goes_on_by_tcp() {
    if !may_have_hosts() {
        return;
    }
    for mode in ["exec", "plain", "fork"] {
        let run = run(mode, 6000, RANGES, None);
        assert!(run.upgraded >= 1, "{mode}: {}", run.said);
        assert!(by_tcp(&run.said) > 10, "{mode}: {}", run.said);
    }
}

#[test]
fn a_server_that_is_killed_resets_the_connection() {
    if may_have_hosts() {
        let run = run("die", 6000, RANGES, None);
        let told = ["Connection reset by peer\n", "Broken pipe\n"];
        let is_told = told.iter().any(|told| run.said.contains(told));
        assert!(
            is_told && run.said.contains("the server: 137"),
            "{}",
            run.said
        );
    }
}

#[test]
fn an_adapter_that_loses_all_packets_is_left_for_tcp() {
    if may_have_hosts() {
        let run = run("half", 6000, RANGES, Some(&ferriband()));
        assert_eq!(run.upgraded, 2, "{}", run.said);
        let (half, rest) = run.said.split_once('\n').expect("lines");
        assert_eq!(half, "half");
        assert!(by_tcp(rest) > 10, "{}", run.said);
    }
}
