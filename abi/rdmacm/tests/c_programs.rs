//! C programs, compiled against the system's own `rdma/rdma_cma.h`, run on our libraries.
//!
//! The private functions are played by `tests/c/mock.c` where a test is of this library's own part.
//! Where the headers are missing (Debian: librdmacm-dev) each test says so and passes without having tested.

use ferriband_testkit::{Cc, has_header, library, library_dir, place, port_is_to_be_had};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// No program here takes more than a second or two; a hang is a failure.
const PATIENCE: Duration = Duration::from_secs(30);

fn has_headers() -> bool {
    has_header("rdma/rdma_cma.h", "librdmacm-dev")
}

/// Compiles a file of `tests/c`. Tests run at the same time, so each has an output of its own.
fn compile(name: &str, options: &[&str]) -> PathBuf {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    Cc::new(place!(), name, &format!("rdmacm-{name}-{number}"))
        .options(["-O1", "-g"])
        .options(options)
        .on_libraries()
        .links(["-lrdmacm", "-libverbs", "-lpthread"])
        .compile()
}

/// The mock of the private functions, built once.
fn mock() -> &'static Path {
    static MOCK: OnceLock<PathBuf> = OnceLock::new();
    MOCK.get_or_init(|| compile("mock", &["-shared", "-fPIC"]))
}

/// Runs a program to its end, which must come.
fn finish(command: &mut Command) -> Output {
    ferriband_testkit::finish(command.stderr(Stdio::piped()), PATIENCE)
}

fn must_succeed(command: &mut Command) {
    let output = finish(command);
    assert!(
        output.status.success(),
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs a program with the mock in the place of the private functions.
fn run_with_mock(name: &str, arguments: &[&str]) {
    if !has_headers() {
        return;
    }
    let program = compile(name, &[]);
    must_succeed(
        Command::new(program)
            .args(arguments)
            .env("LD_LIBRARY_PATH", library_dir())
            .env("LD_PRELOAD", mock())
            .env("FERRIBAND_TEST_UNREACHABLE", "1"),
    );
}

/// Runs a program with the connection manager of libibverbs.so.1 itself.
fn run(name: &str) {
    if !has_headers() {
        return;
    }
    let program = compile(name, &[]);
    must_succeed(Command::new(program).env("LD_LIBRARY_PATH", library_dir()));
}

/// The same over both wires, on the loopback interface.
fn run_on_both_wires(name: &str) {
    if !has_headers() {
        return;
    }
    let program = compile(name, &[]);
    for (device, wire) in [("ferri0", "direct"), ("ferri_lo", "roce")] {
        if wire == "roce" && !port_is_to_be_had() {
            return;
        }
        eprintln!("{device}, {wire}");
        must_succeed(
            Command::new(&program)
                .env("LD_LIBRARY_PATH", library_dir())
                .env("FERRIBAND_DEVICES", device)
                .env("FERRIBAND_WIRE", wire),
        );
    }
}

#[test]
fn connections_with_event_channels() {
    run_with_mock("connect", &["unfit"]);
}

#[test]
fn synchronous_endpoints() {
    run_with_mock("endpoints", &[]);
}

#[test]
fn datagrams_and_groups() {
    run_with_mock("datagrams", &[]);
}

#[test]
fn refusals() {
    run_with_mock("refusals", &[]);
}

/// The mock plays subnet administration; this machine alone has none.
#[test]
fn names_services_and_own_events() {
    run_with_mock("names", &["administration"]);
}

#[test]
fn names_and_own_events_of_the_adapter() {
    run("names");
}

#[test]
fn connections_of_the_adapter() {
    run("connect");
}

#[test]
fn synchronous_endpoints_of_the_adapter() {
    run("endpoints");
}

#[test]
fn datagrams_and_groups_of_the_adapter() {
    run("datagrams");
}

#[test]
fn refusals_of_the_adapter() {
    run("refusals");
}

#[test]
fn calls_in_every_stage_of_an_identifier() {
    run_on_both_wires("stages");
}

#[test]
fn private_data_of_every_event() {
    run_on_both_wires("private");
}

/// A new connection beside three hundred others: correct here; how long it takes with a thousand is for `many` run by hand.
/// A server that listens and has no clients, on the devices and the wire that nobody chose.
struct Idle(Child);

impl Idle {
    fn start() -> Self {
        let program = compile("listener", &[]);
        let mut child = Command::new(program)
            .env("LD_LIBRARY_PATH", library_dir())
            .env_remove("FERRIBAND_DEVICES")
            .env_remove("FERRIBAND_WIRE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the listener starts");
        let mut line = [0];
        let said = child.stdout.as_mut().expect("its output").read(&mut line);
        assert_eq!(said.expect("what it said"), 1, "it listens");
        Idle(child)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The processes of a host share the port of RoCEv2 whatever devices they have: what is nobody's
/// reaches any of them, and is answered.
#[test]
fn beside_an_idle_listener_with_other_devices() {
    if !has_headers() || !port_is_to_be_had() {
        return;
    }
    let _idle = Idle::start();
    for name in ["private", "stages"] {
        must_succeed(
            Command::new(compile(name, &[]))
                .env("LD_LIBRARY_PATH", library_dir())
                .env("FERRIBAND_DEVICES", "ferri_lo")
                .env("FERRIBAND_WIRE", "roce"),
        );
    }
}

#[test]
fn hundreds_of_connections_stand_and_end() {
    const COUNT: &str = "300";
    if !has_headers() {
        return;
    }
    let program = compile("many", &[]);
    let port = (20_000 + std::process::id() * 16 % 20_000 + 15).to_string();
    let start = |words: &[&str]| {
        let mut command = Command::new(&program);
        command
            .args(words)
            .env("LD_LIBRARY_PATH", library_dir())
            .env("FERRIBAND_DEVICES", "ferri0")
            .stdout(Stdio::null());
        command
    };
    let mut server = start(&["server", "127.0.0.1", &port, COUNT])
        .spawn()
        .expect("the program starts");
    let client = ["client", "127.0.0.1", &port, COUNT, "100"];
    let end = Instant::now() + PATIENCE;
    let mut output = finish(&mut start(&client));
    // nothing tells when the server listens: who is refused asks again
    while !output.status.success() && Instant::now() < end {
        let gone = server.try_wait().expect("waiting for our child").is_some();
        if gone {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        output = finish(&mut start(&client));
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        server.kill().expect("killing our child");
    }
    let served = server.wait().expect("waiting for our child");
    assert!(output.status.success() && served.success(), "{said}");
}

/// What is written down of the failure says that the other side had disconnected, and not that it was never ready.
#[test]
fn a_request_after_the_other_side_disconnected() {
    if !has_headers() {
        return;
    }
    let program = compile("disconnected", &[]);
    for (device, wire) in [("ferri0", "direct"), ("ferri_lo", "roce")] {
        if wire == "roce" && !port_is_to_be_had() {
            return;
        }
        let state = place!().out(&format!("disconnected-{device}-{}", std::process::id()));
        must_succeed(
            Command::new(&program)
                .env("LD_LIBRARY_PATH", library_dir())
                .env("FERRIBAND_DEVICES", device)
                .env("FERRIBAND_WIRE", wire)
                .env("XDG_STATE_HOME", &state),
        );
        let incidents = std::fs::read_to_string(state.join("ferriband/incidents"));
        std::fs::remove_dir_all(&state).expect("ours");
        let incidents = incidents.expect("it was written");
        assert!(
            incidents.contains(r#""peer_disconnected":true"#),
            "{device}: {incidents}"
        );
    }
}

#[test]
fn stream_sockets() {
    run_on_both_wires("streams");
}

#[test]
fn datagram_sockets() {
    run_on_both_wires("messages");
}

/// epoll over sockets and descriptors of the system.
#[test]
fn sets_of_descriptors() {
    run_on_both_wires("sets");
}

/// A socket of a set is heard beside hundreds of idle ones; how long it takes beside a thousand is for `idle` run by hand.
#[test]
fn a_set_with_hundreds_of_idle_sockets() {
    run_on_both_wires("idle");
}

/// The other side is spoken by hand.
#[test]
fn protocol_of_sockets() {
    run_on_both_wires("peer");
}

#[test]
fn ends_of_sockets() {
    run_on_both_wires("ends");
}

#[test]
fn cancelled_threads() {
    run_on_both_wires("cancel");
}

#[test]
fn forked_children_of_busy_threads() {
    run_on_both_wires("forks");
}

/// Descriptors, threads, memory: what the system says is what the program hears.
#[test]
fn what_the_system_refuses_is_told_by_its_own_errno() {
    run_on_both_wires("scarce");
}

/// The system's libibverbs has none of the private functions.
#[test]
fn a_foreign_libibverbs_is_no_device_and_is_told_once() {
    if !has_headers() {
        return;
    }
    let program = compile("foreign", &[]);
    let alone = place!().out("rdmacm-alone");
    std::fs::create_dir_all(&alone).expect("a directory for one library");
    std::fs::copy(library("librdmacm.so.1"), alone.join("librdmacm.so.1"))
        .expect("copying the library");
    let output = finish(Command::new(program).env("LD_LIBRARY_PATH", alone));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert_eq!(
        said.matches("needs Ferriband's own libibverbs").count(),
        1,
        "{said}"
    );
}
