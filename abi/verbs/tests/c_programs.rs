//! C programs, compiled against the system's own `infiniband/verbs.h`, run on our library.
//!
//! Where the headers are missing (Debian: libibverbs-dev) each test says so and passes without having tested.

use ferriband_testkit::{Cc, finish, has_header, library_dir, place};
use std::process::Command;
use std::time::Duration;

/// No program here takes more than a second or two; a hang is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// Compiles a program of `tests/c` and runs it with our library in front of the system's.
fn run(name: &str) {
    run_on(name, "");
}

/// As [`run`], with what goes from process to process on a wire: "packets", or "" for shared memory.
fn run_on(name: &str, wire: &str) {
    if !has_header("infiniband/verbs.h", "libibverbs-dev") {
        return;
    }
    let program = Cc::new(place!(), name, &format!("verbs-{name}{wire}"))
        .options(["-O1", "-g"])
        .on_libraries()
        .links(["-libverbs", "-lpthread", "-ldl"])
        .compile();
    let mut command = Command::new(program);
    command
        .env("LD_LIBRARY_PATH", library_dir())
        .env("FERRIBAND_WIRE", wire);
    let status = finish(&mut command, PATIENCE).status;
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
