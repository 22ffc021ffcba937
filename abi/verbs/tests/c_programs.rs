//! C programs, compiled against the system's own `infiniband/verbs.h`, run on our library.
//!
//! Where the headers are missing (Debian: libibverbs-dev) each test says so and passes without having tested.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// No program here takes more than a second or two; a hang is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/c")
        .join(format!("{name}.c"))
}

fn has_headers() -> bool {
    Command::new("cc")
        .args([
            "-E",
            "-include",
            "infiniband/verbs.h",
            "-x",
            "c",
            "/dev/null",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("a C compiler, which linking Rust needs anyway")
        .success()
}

/// Compiles a program of `tests/c` and runs it with our library in front of the system's.
fn run(name: &str) {
    run_on(name, "");
}

/// As [`run`], with what goes from process to process on a wire: "packets", or "" for shared memory.
fn run_on(name: &str, wire: &str) {
    if !has_headers() {
        eprintln!("skipped: infiniband/verbs.h is not installed (apt install libibverbs-dev)");
        return;
    }
    let library = common::library_dir();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("verbs-{name}{wire}"));
    let status = Command::new("cc")
        .args([
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O1",
            "-g",
            "-o",
        ])
        .arg(&program)
        .arg(source(name))
        .arg("-L")
        .arg(library)
        .args(["-libverbs", "-lpthread", "-ldl"])
        .status()
        .expect("cc runs");
    assert!(status.success(), "compiling {name}.c: {status}");

    let mut child = Command::new(&program)
        .env("LD_LIBRARY_PATH", library)
        .env("FERRIBAND_WIRE", wire)
        .spawn()
        .expect("the program starts");
    let end = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().expect("waiting for our child") {
            break status;
        }
        if Instant::now() > end {
            child.kill().expect("killing our child");
            child.wait().expect("waiting for our child");
            panic!("{name} did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(
        status.success(),
        "{name}: {status}; what failed stands above"
    );
}

#[test]
fn pure_functions() {
    run("pure");
}

#[test]
fn device_queries() {
    run("device");
}

#[test]
fn objects_and_refusals() {
    run("objects");
}

#[test]
fn traffic_of_every_kind() {
    run("traffic");
}

#[test]
fn events_and_acknowledgements() {
    run("events");
}

#[test]
fn cancelled_threads_in_shared_memory() {
    run("cancel");
}

#[test]
fn cancelled_threads_in_packets() {
    run_on("cancel", "packets");
}

#[test]
fn signals_while_a_thread_waits_for_an_event_in_shared_memory() {
    run("interrupted");
}

#[test]
fn signals_while_a_thread_waits_for_an_event_in_packets() {
    run_on("interrupted", "packets");
}

#[test]
fn version_nodes_and_providers() {
    run("versions");
}

#[test]
fn calls_of_newer_releases() {
    run("newer");
}

#[test]
fn extended_reliable_connections() {
    run("xrc");
}

#[test]
fn forked_children() {
    run("fork");
}

#[test]
fn forked_children_of_busy_threads() {
    run("busyfork");
}

#[test]
fn threads_on_one_queue_pair() {
    run("threads");
}

#[test]
fn the_hot_path_allocates_nothing() {
    run("hotpath");
}

#[test]
fn room_of_queues_in_shared_memory() {
    run("queues");
}

#[test]
fn room_of_queues_in_packets() {
    run_on("queues", "packets");
}

#[test]
fn rules_of_verbs_in_shared_memory() {
    run("rules");
}

#[test]
fn rules_of_verbs_in_packets() {
    run_on("rules", "packets");
}
