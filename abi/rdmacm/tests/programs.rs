//! rdma-core's own programs of the connection manager, unmodified, on our libraries: both ends on this host.
//!
//! Where they are missing (Debian: rdmacm-utils) each test says so and passes without having tested.

use ferriband_testkit::{library_dir, port_is_to_be_had};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Each pair is done within a second; a hang is a failure.
const PATIENCE: Duration = Duration::from_secs(30);
/// A server that listens by then listens at all.
const STARTING: Duration = Duration::from_secs(5);

fn is_installed(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .stdout(Stdio::null())
        .status()
        .expect("a shell")
        .success();
    if !found {
        eprintln!("skipped: {program} is not installed (apt install rdmacm-utils)");
    }
    found
}

/// The wire between two processes of this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wire {
    /// The InfiniBand device, without packets.
    Direct,
    /// RoCEv2 over the loopback interface.
    Packets,
    /// Another Ethernet device alone, with its packets or without.
    Other(&'static str),
}

/// An interface that is not the loopback's, and has a link.
fn other_interface() -> Option<&'static str> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    let find = || {
        let all = std::fs::read_dir("/sys/class/net").ok()?;
        let names = all.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_up = |name: &String| {
            std::fs::read_to_string(format!("/sys/class/net/{name}/operstate"))
                .is_ok_and(|state| state.trim() == "up")
        };
        names.filter(is_up).min()
    };
    FOUND.get_or_init(find).as_deref()
}

fn start(wire: Wire, words: &[&str]) -> Child {
    let (devices, way) = match wire {
        Wire::Direct => ("ferri0".to_owned(), "direct"),
        Wire::Packets => ("ferri_lo".to_owned(), "roce"),
        Wire::Other(way) => (format!("ferri_{}", other_interface().unwrap_or("lo")), way),
    };
    Command::new(words[0])
        .args(&words[1..])
        .env("LD_LIBRARY_PATH", library_dir())
        .env("FERRIBAND_DEVICES", devices)
        .env("FERRIBAND_WIRE", way)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// What a program said and how it ended; one that does not end is killed.
fn finish(mut child: Child, patience: Duration) -> (bool, String) {
    let end = Instant::now() + patience;
    let mut ended = true;
    while child.try_wait().expect("waiting for our child").is_none() {
        if Instant::now() > end {
            ended = false;
            child.kill().expect("killing our child");
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().expect("what it said");
    let said = format!(
        "{status}\n{}{}",
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr)
    );
    (ended && status.success(), said)
}

/// How a server ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// By itself, with its client.
    Own,
    /// It serves on until it is killed.
    Ours,
}

/// Programs whose client asks for several connections at once. If it does so while its server begins to listen, one may be refused and another
/// accepted, and both ends wait for ever.
const ASK_FOR_SEVERAL: [&str; 3] = ["cmtime", "ucmatose", "udaddy"];

/// Waits until a server sleeps in the kernel, which these do once they listen.
fn wait_until_it_sleeps(server: &Child) {
    let until = Instant::now() + STARTING;
    let does = format!("/proc/{}/syscall", server.id());
    let mut looks = 0;
    while looks < 3 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
        let call = std::fs::read_to_string(&does).unwrap_or_default();
        let number = call.split_ascii_whitespace().next().map(str::parse::<i64>);
        // "running" is no number; at its start it may wait for a thread by futex
        let sleeps = matches!(number, Some(Ok(number)) if number != libc::SYS_futex);
        looks = if sleeps { looks + 1 } else { 0 };
    }
}

/// Runs a server and a client. Nothing tells when a server listens, so a client that was refused right away tries again.
fn meet(wire: Wire, end: End, server: &[&str], client: &[&str]) {
    if !is_installed(server[0]) || wire != Wire::Direct && !port_is_to_be_had() {
        return;
    }
    let mut serving = start(wire, server);
    if ASK_FOR_SEVERAL.contains(&server[0]) {
        wait_until_it_sleeps(&serving);
    }
    let begin = Instant::now();
    let (succeeded, said) = loop {
        let (succeeded, said) = finish(start(wire, client), PATIENCE);
        let gone = serving.try_wait().expect("waiting for our child").is_some();
        if succeeded || gone || begin.elapsed() > STARTING {
            break (succeeded, said);
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let patience = if succeeded && end == End::Own {
        PATIENCE
    } else {
        Duration::ZERO
    };
    let (served, heard) = finish(serving, patience);
    assert!(
        succeeded && (served || end == End::Ours),
        "{wire:?} {client:?}: {said}\n{server:?}: {heard}"
    );
}

/// The same over both wires.
fn pair(server: &[&str], client: &[&str]) {
    for wire in [Wire::Direct, Wire::Packets] {
        meet(wire, End::Own, server, client);
    }
}

/// Processes that compute, two for each core, until this is dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn machine() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let compute = |_| {
            let mut shell = Command::new("sh");
            shell.args(["-c", "while :; do :; done"]);
            shell.spawn().expect("a shell")
        };
        Busy((0..2 * cores).map(compute).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A port of this test run's own.
fn port(offset: u32) -> String {
    (20_000 + std::process::id() * 16 % 20_000 + offset).to_string()
}

#[test]
fn who_waits_for_events_on_a_busy_machine_misses_none() {
    let _busy = Busy::machine();
    let port = port(10);
    for _ in 0..3 {
        let server = [
            "rping",
            "-s",
            "-a",
            "127.0.0.1",
            "-p",
            &port,
            "-V",
            "-C",
            "20",
        ];
        let client = [
            "rping",
            "-c",
            "-a",
            "127.0.0.1",
            "-p",
            &port,
            "-V",
            "-C",
            "20",
        ];
        pair(&server, &client);
    }
}

#[test]
fn rping_validates_what_comes_back() {
    let port = port(0);
    for more in [&["-C", "20"][..], &["-C", "5", "-q", "-S", "4096"]] {
        let common = ["-a", "127.0.0.1", "-p", &port, "-V", "-v"];
        let with = |mode| [&["rping", mode], &common[..], more].concat();
        pair(&with("-s"), &with("-c"));
    }
}

#[test]
fn rping_serves_on() {
    let port = port(1);
    let common = ["-a", "127.0.0.1", "-p", &port, "-V"];
    let with = |modes: &[&'static str]| -> Vec<&str> { [&["rping"], modes, &common].concat() };
    for wire in [Wire::Direct, Wire::Packets] {
        meet(
            wire,
            End::Ours,
            &with(&["-s", "-P"]),
            &with(&["-c", "-C", "10"]),
        );
    }
}

#[test]
fn rping_over_ipv6() {
    let port = port(2);
    let common = ["-a", "::1", "-p", &port, "-C", "10", "-V"];
    let with = |mode| [&["rping", mode], &common[..]].concat();
    pair(&with("-s"), &with("-c"));
}

#[test]
fn ucmatose_with_several_connections() {
    let port = port(3);
    let common = ["-p", &port, "-c", "5", "-C", "10", "-t", "32"];
    pair(
        &[&["ucmatose", "-b", "127.0.0.1"], &common[..]].concat(),
        &[&["ucmatose", "-s", "127.0.0.1"], &common[..]].concat(),
    );
}

/// Identifiers move to another channel once they are connected.
#[test]
fn ucmatose_migrates() {
    let port = port(4);
    let common = ["-m", "-p", &port, "-c", "3"];
    pair(
        &[&["ucmatose", "-b", "127.0.0.1"], &common[..]].concat(),
        &[&["ucmatose", "-s", "127.0.0.1"], &common[..]].concat(),
    );
}

/// GIDs for addresses (AF_IB), in the port spaces of TCP and of InfiniBand.
#[test]
fn programs_find_each_other_by_gid() {
    let Some(gid) = native_gid() else {
        eprintln!("skipped: ibv_devinfo is not installed (apt install ibverbs-utils)");
        return;
    };
    let port = port(5);
    for space in ["tcp", "ib"] {
        let common = ["-f", "gid", "-P", space, "-p", &port, "-c", "2", "-C", "3"];
        meet(
            Wire::Direct,
            End::Own,
            &[&["ucmatose", "-b", &gid], &common[..]].concat(),
            &[&["ucmatose", "-s", &gid], &common[..]].concat(),
        );
    }
}

/// The GID of the InfiniBand device, as ibv_devinfo prints it.
fn native_gid() -> Option<String> {
    let listed = Command::new("ibv_devinfo")
        .args(["-v", "-d", "ferri0"])
        .env("LD_LIBRARY_PATH", library_dir())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let line = text.lines().find(|line| line.contains("GID["))?;
    Some(line.split_ascii_whitespace().last()?.to_owned())
}

/// Its port is fixed: one after the other.
#[test]
fn udaddy_exchanges_datagrams() {
    pair(
        &["udaddy", "-b", "127.0.0.1", "-c", "2"],
        &["udaddy", "-s", "127.0.0.1", "-c", "2"],
    );
    if let Some(gid) = native_gid() {
        meet(
            Wire::Direct,
            End::Own,
            &["udaddy", "-f", "gid", "-b", &gid],
            &["udaddy", "-f", "gid", "-s", &gid],
        );
    }
    if other_interface().is_some() {
        meet(
            Wire::Other("roce"),
            End::Own,
            &["udaddy", "-c", "2"],
            &["udaddy", "-s", "127.0.0.1", "-c", "2"],
        );
    }
}

/// As in the kernel the first device with a link stands for localhost.
#[test]
fn localhost_is_reached_by_a_device_that_does_not_have_it() {
    if other_interface().is_none() {
        eprintln!("skipped: no interface but the loopback's has a link");
        return;
    }
    let port = port(9);
    let client = [
        "rping",
        "-c",
        "-a",
        "127.0.0.1",
        "-p",
        &port,
        "-C",
        "5",
        "-V",
    ];
    for wire in [Wire::Other("direct"), Wire::Other("roce")] {
        for own in [&["-a", "127.0.0.1"][..], &[]] {
            let server = [&["rping", "-s", "-p", &port, "-C", "5", "-V"], own].concat();
            meet(wire, End::Own, &server, &client);
        }
    }
}

/// The sender waits three seconds for those who join: a receiver that has begun before is there by then.
#[test]
fn mckey_reaches_a_group() {
    pair(
        &["mckey", "-m", "239.77.3.4", "-b", "127.0.0.1"],
        &["mckey", "-m", "239.77.3.4", "-b", "127.0.0.1", "-s"],
    );
}

#[test]
fn rdma_client_and_server_of_endpoints() {
    let port = port(6);
    pair(
        &["rdma_server", "-s", "127.0.0.1", "-p", &port],
        &["rdma_client", "-s", "127.0.0.1", "-p", &port],
    );
}

#[test]
fn endpoints_with_shared_receive_queues_and_extended_connections() {
    let port = port(7);
    pair(
        &["rdma_xserver", "-p", &port],
        &["rdma_xclient", "-s", "127.0.0.1", "-p", &port],
    );
    meet(
        Wire::Direct,
        End::Own,
        &["rdma_xserver", "-p", &port, "-c", "x"],
        &["rdma_xclient", "-s", "127.0.0.1", "-p", &port, "-c", "x"],
    );
}

/// A burst: what is lost of it comes seconds later.
#[test]
fn cmtime_connects_two_hundred_at_once() {
    let port = port(8);
    let common = ["-p", &port, "-c", "200"];
    for wire in [Wire::Direct, Wire::Packets] {
        meet(
            wire,
            End::Ours,
            &[&["cmtime", "-b", "127.0.0.1"], &common[..]].concat(),
            &[&["cmtime", "-s", "127.0.0.1"], &common[..]].concat(),
        );
    }
}

/// A client sends and receives what the server checks, in each way that a program may wait.
#[test]
fn rstream_verifies_in_each_mode() {
    let modes: [&[&str]; 5] = [
        &[],
        &["-T", "b"],
        &["-T", "a"],
        &["-T", "n"],
        &["-T", "r", "-T", "a", "-B", "9000"],
    ];
    for (number, mode) in modes.iter().enumerate() {
        let port = port(12);
        let common = ["-p", &port, "-T", "v", "-S", "30000", "-I", "10", "-C", "5"];
        eprintln!("mode {number}: {mode:?}");
        pair(
            &[&["rstream", "-b", "127.0.0.1"], &common[..], mode].concat(),
            &[&["rstream", "-s", "127.0.0.1"], &common[..], mode].concat(),
        );
    }
}

/// Bytes go straight into the other side's buffer.
#[test]
fn riostream_verifies() {
    let port = port(13);
    let common = ["-p", &port, "-T", "v", "-S", "50000", "-I", "5", "-C", "3"];
    pair(
        &[&["riostream", "-b", "127.0.0.1"], &common[..]].concat(),
        &[&["riostream", "-s", "127.0.0.1"], &common[..]].concat(),
    );
}

#[test]
fn udpong_gets_its_datagrams_back() {
    let port = port(14);
    let common = ["-p", &port, "-T", "b"];
    let test = ["-T", "e", "-C", "100", "-S", "500"];
    for wire in [Wire::Direct, Wire::Packets] {
        meet(
            wire,
            End::Ours,
            &[&["udpong", "-b", "127.0.0.1"], &common[..]].concat(),
            &[&["udpong", "-s", "127.0.0.1"], &common[..], &test].concat(),
        );
    }
}

#[test]
fn rcopy_copies_a_file() {
    let port = port(15);
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let from = directory.join(format!("rcopy-from-{port}"));
    let to = directory.join(format!("rcopy-to-{port}"));
    let bytes: Vec<u8> = (0..3_000_001u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8)
        .collect();
    std::fs::write(&from, &bytes).expect("a file to copy");
    let target = format!("127.0.0.1:{}", to.display());
    let source = from.to_str().expect("a name");
    for wire in [Wire::Direct, Wire::Packets] {
        let _ = std::fs::remove_file(&to);
        let client = ["rcopy", source, &target, "-p", &port];
        meet(wire, End::Ours, &["rcopy", "-p", &port], &client);
        // Nothing was copied where the program, or the port of the wire, is not to be had.
        if let Ok(copy) = std::fs::read(&to) {
            assert!(copy == bytes, "{wire:?}: the copy differs");
        }
    }
    for path in [from, to] {
        let _ = std::fs::remove_file(path);
    }
}
