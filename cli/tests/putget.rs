//! What `ferriband` shows of processes that put and get.

use ferriband_testkit::{Cc, library_dir, place};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// Compiles a program of a library's own tests.
fn compiled(room: &str, name: &str, link: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../ulp")
        .join(room);
    let source = tests.join(format!("abi/tests/c/{name}.c"));
    Cc::of(source, scratch().join(format!("{room}-{name}")))
        .options(["-O2"])
        .on_libraries()
        .links([link, "-lpthread"])
        .compile()
}

fn pingpong() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("putget", "pingpong", "-lferriband_putget"))
}

fn seen() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("portals", "seen", "-lportals"))
}

fn scratch() -> PathBuf {
    let dir = place!().out(&format!("putget-cli-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("writable");
    dir
}

fn ferriband(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_ferriband"))
        .args(args)
        .env("FERRIBAND_LIB_DIR", library_dir())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
    output
}

/// The timeline's events of what a script does under `ferriband trace`.
fn traced(name: &str, script: &str) -> Vec<Value> {
    let json = scratch().join(format!("{name}.json"));
    let json = json.to_str().expect("text");
    ferriband(&["trace", "-o", json, "--", "sh", "-c", script]);
    let text = fs::read_to_string(json).expect("a timeline");
    let timeline: Value = serde_json::from_str(&text).expect("JSON");
    timeline["traceEvents"].as_array().expect("events").clone()
}

/// Both processes of a latency program.
fn traced_pair(program: &Path, rest: &str) -> Vec<Value> {
    let (program, address) = (program.display(), scratch().join(rest));
    let address = address.display();
    // the first one says where it listens
    let script = format!(
        "timeout 60 {program} listen {rest} >'{address}' & \
         while ! grep -q : '{address}'; do sleep 0.02; done; \
         timeout 60 {program} $(cat '{address}') {rest} && wait $!"
    );
    traced(rest, &script)
}

/// When something was, in microseconds.
fn at(event: &Value) -> f64 {
    event["ts"].as_f64().expect("a time")
}

/// Messages of a kind: sender, when it was sent, receiver, when it came.
fn messages(events: &[Value], kind: &str) -> Vec<(u64, f64, u64, f64)> {
    let of = |phase: &'static str| {
        let all = events.iter();
        all.filter(move |event| event["ph"] == phase && event["name"] == kind)
    };
    let process = |event: &Value| event["pid"].as_u64().expect("a process");
    of("s")
        .map(|sent| {
            let came = of("f").find(|came| came["id"] == sent["id"]);
            let came = came.expect("both ends");
            (process(sent), at(sent), process(came), at(came))
        })
        .collect()
}

/// Calls of a name: process, begin, end.
fn calls(events: &[Value], name: &str) -> Vec<(u64, f64, f64)> {
    let all = events.iter();
    all.filter(|event| event["ph"] == "X" && event["name"] == name)
        .map(|event| {
            let duration = event["dur"].as_f64().expect("a duration");
            let process = event["pid"].as_u64().expect("a process");
            (process, at(event), at(event) + duration)
        })
        .collect()
}

/// The paper's Fig. 3: request, RDMA READ by the target, response.
fn is_long_put(
    request: (u64, f64, u64, f64),
    read: (u64, f64, f64),
    response: (u64, f64, u64, f64),
) -> bool {
    let (initiator, _, target, came) = request;
    let in_order = came <= read.1 && read.1 <= read.2 && read.2 <= response.1;
    in_order && read.0 == target && (response.0, response.2) == (target, initiator)
}

#[test]
fn a_long_put_is_drawn_as_request_read_and_response() {
    let events = traced_pair(pingpong(), "4096 1 2012");
    // the second put, of the other side, asks for an acknowledgement
    let [first, second] = messages(&events, "long put")[..] else {
        panic!("two puts: {events:?}");
    };
    let [read, other_read] = calls(&events, "RDMA READ")[..] else {
        panic!("two READs: {events:?}");
    };
    let [fin] = messages(&events, "FIN")[..] else {
        panic!("one FIN: {events:?}");
    };
    let [ack] = messages(&events, "ack")[..] else {
        panic!("one acknowledgement: {events:?}");
    };
    assert!(is_long_put(first, read, fin), "{events:?}");
    assert!(is_long_put(second, other_read, ack), "{events:?}");
    assert_eq!((first.0, first.2), (second.2, second.0));
    // each begins within the call that begins it
    let begun = calls(&events, "begin put");
    for (request, call) in [first, second].into_iter().zip(begun) {
        assert_eq!(call.0, request.0);
        assert!(call.1 <= request.1 && request.1 <= call.2);
    }
}

#[test]
fn short_puts_are_messages_alone() {
    let events = traced_pair(pingpong(), "28 20 2012");
    assert_eq!(messages(&events, "short put").len(), 40);
    assert_eq!(messages(&events, "ack").len(), 1);
    assert_eq!(calls(&events, "RDMA READ"), []);
    let labels = events
        .iter()
        .filter(|event| event["name"] == "process_name");
    let mut labels = labels.map(|event| event["args"]["name"].as_str().expect("a name"));
    assert!(labels.all(|label| label.starts_with("127.0.0.1:")));
}

#[test]
fn matching_reads_and_writes_are_drawn_with_their_messages() {
    let program = compiled("putget", "matching", "-lferriband_putget");
    let events = traced_pair(&program, "64 20");
    let sent = messages(&events, "matching message");
    assert_eq!(sent.len(), 40);
    assert!(sent.iter().all(|message| message.0 != message.2));
    let [writes, reads] = ["matching write", "matching read"].map(|name| calls(&events, name));
    assert_eq!(writes.len(), 40);
    assert!(reads.len() >= 40);
}

#[test]
fn operations_of_portals_that_the_initiator_carries_out_are_drawn() {
    let events = traced(
        "seen",
        &format!("timeout 60 {} </dev/null", seen().display()),
    );
    let leases = messages(&events, "lease");
    let [(target, _, initiator, told)] = leases[..] else {
        panic!("one lease: {events:?}");
    };
    let puts = calls(&events, "direct put");
    assert!(!puts.is_empty(), "{events:?}");
    for (process, begin, _) in puts {
        assert!(process == initiator && begin >= told);
    }
    // where puts are counted they carry immediate data, which come as messages do
    let counted = messages(&events, "direct put");
    assert!(
        counted
            .iter()
            .all(|put| (put.0, put.2) == (initiator, target))
    );
    // gets go by message there: of so many bytes by RDMA of the target
    let [(writer, ..)] = calls(&events, "RDMA WRITE")[..] else {
        panic!("one WRITE: {events:?}");
    };
    assert_eq!(writer, target);
}

/// A field that is a number.
fn count(of: &Value, name: &str) -> u64 {
    let number = of[name].as_u64();
    number.unwrap_or_else(|| panic!("{name} of {of}"))
}

#[test]
fn leases_disabled_entries_and_peers_are_named_while_the_program_runs() {
    // another test runs it, too, and its processes are shown beside these
    let own = scratch().join("portals-own");
    fs::copy(seen(), &own).expect("writable");
    let mut program = Command::new(env!("CARGO_BIN_EXE_ferriband"))
        .args(["run", "--", "timeout", "120"])
        .arg(own)
        .env("FERRIBAND_LIB_DIR", library_dir())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = BufReader::new(program.stdout.take().expect("a pipe"));
    said.read_line(&mut String::new()).expect("it is ready");

    let json =
        |args: &[&str]| -> Value { serde_json::from_slice(&ferriband(args).stdout).expect("JSON") };
    let status = json(&["putget", "status", "--json"]);
    let processes = status["processes"].as_array().expect("processes").iter();
    let processes = processes.filter(|one| one["program"] == "portals-own");
    // ranks in their order
    let mut processes: Vec<&Value> = processes.collect();
    processes.sort_by_key(|one| one["portals"]["interfaces"][0]["rank"].as_u64());
    let [target, initiator] = processes[..] else {
        panic!("two processes: {status}");
    };
    let interface = &target["portals"]["interfaces"][0];
    assert_eq!(interface["table"], serde_json::json!([4, 5]));
    assert_eq!(interface["disabled"], serde_json::json!([5]));
    let leases = |of: &Value, which: &str| {
        let leases = &of["connections"][0][which];
        (count(leases, "count"), count(leases, "bytes"))
    };
    assert_eq!(leases(target, "leases_given"), (1, 1 << 17));
    assert_eq!(leases(initiator, "leases_held"), (1, 1 << 17));
    assert_eq!(initiator["connections"][0]["peer"], target["address"]);
    let peers = initiator["peers"].as_object().expect("peers");
    let [peer] = peers.values().collect::<Vec<_>>()[..] else {
        panic!("one peer: {peers:?}");
    };
    assert_eq!(peer["pid"], target["pid"]);

    // all puts came, in messages or by the lease
    let (begun, matched) = (&initiator["counters"], &interface["counters"]);
    let direct = count(begun, "direct_puts");
    assert!(direct > 0);
    assert_eq!(count(begun, "begun_short_puts") + direct, 8);
    assert_eq!(count(begun, "begun_long_gets"), 1);
    assert_eq!(count(matched, "counted_direct"), direct);
    assert_eq!(count(matched, "matched_priority"), 8 - direct + 1);

    // the tables for people say so, too
    let pid = count(target, "pid").to_string();
    let text = |args: &[&str]| String::from_utf8(ferriband(args).stdout).expect("text");
    for args in [&["status"][..], &["putget", "status", "--connections"]] {
        let shown = text(args);
        let rows = shown
            .lines()
            .filter(|row| row.trim_start().starts_with(&pid));
        assert!(
            rows.clone().any(|row| row.contains("1, 131072 bytes")),
            "{shown}"
        );
        assert!(
            rows.clone().any(|row| row.contains("no matching, logical")),
            "{shown}"
        );
    }
    let shown = text(&["putget", "counters"]);
    assert!(shown.contains("direct_put_bytes"), "{shown}");

    drop(program.stdin.take());
    assert!(program.wait().expect("it ends").success());
}

#[test]
fn settings_of_put_and_get_and_of_portals_have_their_sources() {
    let output = Command::new(env!("CARGO_BIN_EXE_ferriband"))
        .args(["putget", "settings", "--json"])
        .env("FERRIBAND_PUTGET_PUT_CROSSOVER", "4K")
        .env("PTL_IFACE_NAME", "eth7")
        .env("FERRIBAND_PUTGET_SETTINGS", "")
        .output()
        .expect("it starts");
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let setting = |table: &str, name: &str| {
        let rows = shown[table]["settings"].as_array().expect("settings");
        let row = rows.iter().find(|row| row["name"] == name);
        let row = row.expect("it is there");
        (row["value"].clone(), row["source"].clone())
    };
    let expected = |value: &str, source: &str| (Value::from(value), Value::from(source));
    assert_eq!(
        setting("putget", "put_crossover"),
        expected("4K", "environment")
    );
    assert_eq!(
        setting("putget", "get_crossover"),
        expected("auto", "default")
    );
    assert_eq!(
        setting("portals", "iface_name"),
        expected("eth7", "environment")
    );
}
