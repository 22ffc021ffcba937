//! `ferriband dump` and `ferriband fault` upon a running adapter: this test is the program, with queue pairs of its own on device
//! `ferri_lo` or `ferri0`, in a network of its own; the tools are the real ones. Where the system allows no network namespaces the tests
//! say so and pass, because rules would meet everybody else's packets there.
#![allow(clippy::unwrap_used)]

#[path = "../../ib/hca/tests/common/mod.rs"]
mod common;
#[path = "tools/plans.rs"]
mod plans;

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::Ordering;

use common::memory::Kind;
use common::namespace::{loopback_up, write};
use common::party::*;
use common::{eventually, process};
use ferriband_hca::*;
use ferriband_testkit::Scratch;
use ferriband_transport::types::*;
use ferriband_wire::pcap::{LinkType, PcapReader};
use ferriband_wire::{NativePacket, Opcode, RocePacket};

#[test]
fn child_entry() {
    process::run_role(&[("obey", obey)]);
}

/// A test whose body runs in a process that has `ferri_lo` and sends packets to everybody.
macro_rules! on_packets {
    ($name:ident, $body:block) => {
        #[test]
        fn $name() {
            inside(stringify!($name), ETHERNET, Some("roce"), || $body);
        }
    };
}

/// The devices of these tests.
const ETHERNET: &str = "ferri_lo";
const NATIVE: &str = "ferri0";

fn inside(name: &str, device: &str, wire: Option<&str>, body: impl FnOnce()) {
    const INSIDE: &str = "FERRIBAND_CLI_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .env("FERRIBAND_DEVICES", device)
        .env_remove("FERRIBAND_WIRE");
    if let Some(wire) = wire {
        command.env("FERRIBAND_WIRE", wire);
    }
    // SAFETY: neither has preconditions.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let text = |text: String| CString::new(text).unwrap();
    let maps = [
        (c"/proc/self/setgroups", text("deny".into())),
        (c"/proc/self/gid_map", text(format!("{group} {group} 1"))),
        (c"/proc/self/uid_map", text(format!("{user} {user} 1"))),
    ];
    let begin = move || {
        // SAFETY: changes only when this process is to die; the test that starts it waits for it.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        // SAFETY: unshare takes a number.
        if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) } != 0 {
            return Err(io::Error::last_os_error());
        }
        maps.iter().for_each(|(file, text)| write(file, text));
        loopback_up()
    };
    // SAFETY: the closure makes only async-signal-safe calls.
    unsafe { command.pre_exec(begin) };
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("{name} is left out: no network namespace of its own ({error})");
            return;
        }
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

const SETUP: Setup = Setup {
    service: QpType::Rc,
    memory: Kind::Private,
    len: (4 << 20) + 4096,
    mr_access: ALL,
    qp_access: ALL,
    send_wr: 64,
    recv_wr: 64,
    sge: 4,
    inline: 512,
    cqe: 256,
    timeout: 14,
    retry: 7,
    rnr_retry: 7,
    min_rnr: 1,
    events: false,
};

fn here() -> Pair {
    Pair::alike(Party::here(), Party::here(), SETUP)
}

/// A message of so many bytes arrives.
fn write_and_see(Pair { a, b, ai, bi }: &mut Pair, len: u32, fill: u8) {
    a.fill(ai, 0, len as usize, fill);
    b.fill(bi, 0, len as usize + 1, 0x77);
    a.post(ai, &Ask::new(SendOpcode::RdmaWrite, len, bi).id(1));
    a.expect(ai, 1, WcStatus::Success);
    b.expect_bytes(bi, 0, len as usize, fill);
    b.expect_bytes(bi, len as usize, 1, 0x77);
}

fn ferriband(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferriband"));
    command.args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    ferriband(arguments).output().expect("ferriband runs")
}

/// What a command prints that has to succeed.
#[track_caller]
fn done(arguments: &[&str]) -> String {
    let output = output(arguments);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{arguments:?}: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

#[track_caller]
fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&done(arguments)).expect("JSON")
}

fn rule(list: &serde_json::Value, at: usize) -> (u64, u64) {
    let rule = &list["rules"][at];
    (
        rule["id"].as_u64().expect("a number"),
        rule["hits"].as_u64().expect("a number"),
    )
}

/// A dump that listens.
struct Dump {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Dump {
    /// Returns when it listens.
    fn start(arguments: &[&str]) -> Self {
        let mut child = ferriband(&["dump"])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert!(line.contains("listening"), "{line}");
        Dump { child, stderr }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: our own child, which nobody has waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Ends it in good order; what it says then.
    fn stop(mut self) -> String {
        self.signal(libc::SIGINT);
        self.said()
    }

    fn said(&mut self) -> String {
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        said
    }
}

fn lost(said: &str) -> u64 {
    let before = said.split(" lost because").next().unwrap();
    before.rsplit(' ').next().unwrap().parse().expect(said)
}

/// Rings that this process has.
fn rings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.matches("ferriband-tap").count()
}

on_packets!(
    a_capture_holds_every_packet_whole_with_right_lengths_and_checksums,
    {
        let mut pair = here();
        // the program ran before the capture began
        write_and_see(&mut pair, 5000, 1);
        let file = Scratch::file("whole.pcap");
        let dump = Dump::start(&["-w", file.text(), "--buffer", "32"]);
        let len = 1 << 20;
        write_and_see(&mut pair, len, 2);
        pair.exchange();
        let said = dump.stop();
        assert_eq!(lost(&said), 0, "{said}");
        let bytes = std::fs::read(file.path()).unwrap();
        let reader = PcapReader::new(&bytes).unwrap();
        assert_eq!(reader.link_type(), LinkType::Raw as u32);
        let (mut written, mut sent, mut acknowledged) = (BTreeSet::new(), 0, 0);
        for record in reader {
            let record = record.unwrap();
            // checks IP, UDP and ICRC
            let roce = RocePacket::parse(record.bytes).unwrap();
            let bth = roce.packet.bth();
            use Opcode::*;
            match bth.opcode {
                RcWriteFirst | RcWriteMiddle | RcWriteLast => {
                    _ = written.insert((bth.psn.get(), roce.packet.payload.len()));
                }
                RcSendOnly => sent += 1,
                RcAcknowledge => acknowledged += 1,
                other => panic!("{other:?} was not sent"),
            }
        }
        let total: usize = written.iter().map(|(_, len)| len).sum();
        assert_eq!(total, len as usize, "each byte once, tries again left out");
        // of each packet two are seen, one that goes and one that comes
        assert!(sent >= 2 && acknowledged >= 4, "{sent} {acknowledged}");
        eventually("the ring to be unmapped", || rings() == 0);
    }
);

on_packets!(filters_and_json_show_what_is_asked_for, {
    let mut pair = here();
    let mut dump = ferriband(&[
        "dump",
        "--json",
        "-c",
        "3",
        "--opcode",
        "rc-send",
        "--direction",
        "tx",
    ])
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    // it says nothing until packets come: messages go on until it has seen enough
    let mut status = None;
    eventually("three packets to be seen", || {
        pair.exchange();
        status = dump.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success());
    let mut text = String::new();
    dump.stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("one object for each packet"))
        .collect();
    assert_eq!(lines.len(), 3);
    for line in &lines {
        assert_eq!(line["opcode"], "RC SEND Only");
        assert_eq!(line["direction"], "tx");
        assert_eq!(line["device"], "ferri_lo");
        assert_eq!(line["payload"], 8);
        assert_eq!(line["icrc_ok"], true);
        assert_eq!(line["fate"], "passed");
        assert_eq!(line["local_qpn"], pair.ai.qpn);
        assert_eq!(line["qpn"], pair.bi.qpn);
    }
});

on_packets!(
    a_stopped_dump_costs_its_own_records_and_a_killed_one_leaves_nothing,
    {
        let mut pair = here();
        let file = Scratch::file("stopped.pcapng");
        let dump = Dump::start(&["-w", file.text(), "--buffer", "1"]);
        dump.signal(libc::SIGSTOP);
        for round in 1..4 {
            // far more than the ring holds
            write_and_see(&mut pair, 4 << 20, round);
        }
        assert!(rings() > 0, "it was listened to");
        dump.signal(libc::SIGCONT);
        let said = dump.stop();
        assert!(lost(&said) > 1000, "{said}");

        let mut dump = Dump::start(&["-w", file.text()]);
        pair.exchange();
        assert!(rings() > 0);
        dump.signal(libc::SIGKILL);
        dump.child.wait().unwrap();
        eventually("the ring to be unmapped", || rings() == 0);
        // the next capture finds all in order
        let dump = Dump::start(&["-w", file.text()]);
        pair.exchange();
        assert_eq!(lost(&dump.stop()), 0);
    }
);

on_packets!(rules_meet_what_they_say_and_count_it, {
    let mut pair = here();
    let text = done(&[
        "fault",
        "add",
        "drop",
        "--opcode",
        "rc-send",
        "--count",
        "2",
        "--direction",
        "tx",
    ]);
    assert!(text.starts_with("rule 0: drop opcode="), "{text}");
    let file = Scratch::file("fate.json");
    let seen = std::fs::File::create(file.path()).unwrap();
    let mut dump = ferriband(&[
        "dump",
        "--json",
        "-c",
        "2",
        "--opcode",
        "rc-send",
        "--direction",
        "tx",
    ])
    .stdout(seen)
    .spawn()
    .unwrap();
    eventually("the dump to listen", || {
        done(&["fault", "list"]);
        // a hook that a test cannot see is seen by its ring
        write_and_see(&mut pair, 64, 3);
        rings() > 0
    });
    pair.exchange();
    assert!(dump.wait().unwrap().success());
    let text = std::fs::read_to_string(file.path()).unwrap();
    assert_eq!(text.matches("dropped by a fault").count(), 2, "{text}");
    assert_eq!(rule(&json(&["fault", "list", "--json"]), 0), (0, 2));
    // it is used up
    pair.exchange();
    assert_eq!(rule(&json(&["fault", "list", "--json"]), 0), (0, 2));
    assert_eq!(done(&["fault", "clear", "0"]), "1 rules cleared\n");
    assert!(!output(&["fault", "clear", "0"]).status.success());
    assert_eq!(done(&["fault", "list"]), "no fault rules\n");
});

on_packets!(what_faults_do_is_overcome_but_for_losing_everything, {
    faults_are_overcome();
});

#[test]
fn so_it_is_on_the_infiniband_device() {
    let name = "so_it_is_on_the_infiniband_device";
    inside(name, NATIVE, Some("packets"), faults_are_overcome);
}

fn faults_are_overcome() {
    let mut pair = here();
    for (round, action) in ["duplicate", "corrupt", "reorder", "delay", "drop"]
        .iter()
        .enumerate()
    {
        done(&[
            "fault",
            "add",
            action,
            "--probability",
            "0.1",
            "--delay-us",
            "300",
        ]);
        for len in [1, 100, 5000, 70_000] {
            write_and_see(&mut pair, len, round as u8 + 1);
            pair.exchange();
        }
        let mut hits = 0;
        eventually("the rule to hit", || {
            write_and_see(&mut pair, 20_000, 0x40);
            hits = rule(&json(&["fault", "list", "--json"]), 0).1;
            hits > 0
        });
        done(&["fault", "clear", "all"]);
    }
    let patience = Setup {
        timeout: 8,
        retry: 1,
        ..SETUP
    };
    let Pair {
        mut a,
        mut b,
        ai,
        bi,
    } = Pair::alike(Party::here(), Party::here(), patience);
    done(&["fault", "add", "drop", "--qpn", &bi.qpn.to_string()]);
    a.post(&ai, &Ask::new(SendOpcode::RdmaWrite, 8, &bi).id(7));
    a.expect(&ai, 7, WcStatus::RetryExcErr);
    // others go on
    pair.exchange();
    b.destroy(&bi);
    a.destroy(&ai);
}

on_packets!(rules_name_a_path, {
    // the addresses of the loopback device's GID table are those of its interface
    let other_peer = ["--peer", "192.0.2.1"];
    rules_meet_their_path(&["--peer", "127.0.0.1"], &other_peer);
});

#[test]
fn rules_name_a_path_of_lids() {
    let name = "rules_name_a_path_of_lids";
    inside(name, NATIVE, Some("packets"), || {
        let lid = here().ai.lid.to_string();
        rules_meet_their_path(&["--slid", &lid, "--dlid", &lid], &["--dlid", "0xbffe"]);
    });
}

/// Packets that go meet the rule of the first path and not that of the other one.
fn rules_meet_their_path(path: &[&str], other: &[&str]) {
    let mut pair = here();
    for words in [other, path] {
        done(&[&["fault", "add", "duplicate", "--direction", "tx"], words].concat());
    }
    pair.exchange();
    let list = json(&["fault", "list", "--json"]);
    assert_eq!(rule(&list, 0).1, 0, "{list}");
    assert!(rule(&list, 1).1 > 0, "{list}");
    done(&["fault", "clear", "all"]);
}

on_packets!(links_go_down_and_up_and_a_device_ends, {
    links_and_devices_fail(ETHERNET);
});

#[test]
fn so_do_those_of_the_infiniband_device() {
    let name = "so_do_those_of_the_infiniband_device";
    inside(name, NATIVE, Some("packets"), || {
        links_and_devices_fail(NATIVE);
    });
}

fn links_and_devices_fail(device: &str) {
    let (down, up) = (AsyncKind::PortErr as u64, AsyncKind::PortActive as u64);
    // tries that last longer than the commands take on a busy machine
    let patience = Setup {
        timeout: 19,
        ..SETUP
    };
    let mut pair = Pair::alike(Party::here(), Party::here(), patience);
    let active = |pair: &Pair| pair.a.agent().end(0).qp.ctx.query_port(1).unwrap().active;
    write_and_see(&mut pair, 64, 1);
    done(&["fault", "link", "down", device]);
    assert_eq!(next_event(&mut pair), Some(down));
    assert!(!active(&pair));
    assert!(json(&["fault", "list", "--json"])["links_down"][0] == device);
    pair.a.post(
        &pair.ai,
        &Ask::new(SendOpcode::RdmaWrite, 8, &pair.bi).id(1),
    );
    pair.a.expect_quiet(&pair.ai, 30);
    done(&["fault", "link", "up", device]);
    assert_eq!(next_event(&mut pair), Some(up));
    assert!(active(&pair));
    pair.a.expect(&pair.ai, 1, WcStatus::Success);
    done(&["fault", "port-error", device]);
    assert_eq!(next_event(&mut pair), Some(down));
    assert_eq!(next_event(&mut pair), Some(up));
    pair.b.recv(&pair.bi, 5, 0, 8);
    done(&["fault", "fatal", device]);
    assert_eq!(next_event(&mut pair), Some(AsyncKind::DeviceFatal as u64));
    pair.b.expect(&pair.bi, 5, WcStatus::WrFlushErr);
    pair.a.post(
        &pair.ai,
        &Ask::new(SendOpcode::RdmaWrite, 8, &pair.bi).id(2),
    );
    pair.a.expect(&pair.ai, 2, WcStatus::WrFlushErr);
    let ctx = &pair.a.agent().end(0).ctx;
    assert_eq!(ctx.alloc_pd().unwrap_err().errno(), libc::EIO);
    // opened again it works
    Context::open(0).unwrap().alloc_pd().unwrap();
    assert!(
        !output(&["fault", "link", "down", "ferri_none"])
            .status
            .success()
    );
    fails_for_a_time(device);
    is_gone_until_it_is_brought_back(device);
}

/// What opening the device answers.
fn opened() -> i32 {
    Context::open(0).map_or_else(|error| error.errno(), |_| 0)
}

fn fails_for_a_time(device: &str) {
    let mut pair = here();
    let said = done(&["fault", "fatal", "--for", "3s", device]);
    assert!(said.contains("failed for 3.0 s"), "{said}");
    assert_eq!(next_event(&mut pair), Some(AsyncKind::DeviceFatal as u64));
    assert_eq!(opened(), libc::EIO);
    let list = json(&["fault", "list", "--json"]);
    assert_eq!(list["devices_failed"][0]["device"], device, "{list}");
    assert_eq!(list["devices_failed"][0]["gone"], false, "{list}");
    eventually("the device to be back", || opened() == 0);
    here().exchange();
    let list = json(&["fault", "list", "--json"]);
    assert_eq!(list["devices_failed"].as_array().unwrap().len(), 0);
    // what was open stays failed
    let ctx = &pair.a.agent().end(0).ctx;
    assert_eq!(ctx.alloc_pd().unwrap_err().errno(), libc::EIO);
    // or sooner
    done(&["fault", "fatal", "--for", "1h", device]);
    assert_eq!(opened(), libc::EIO);
    let said = done(&["fault", "clear", device]);
    assert_eq!(said, format!("{device}: can be opened again\n"));
    assert_eq!(opened(), 0);
    assert!(!output(&["fault", "clear", device]).status.success());
    for wrong in [
        &["--for", "3"][..],
        &["--for", "25h"],
        &["--for", "3s", "--gone"],
    ] {
        let command = [&["fault", "fatal", device], wrong].concat();
        assert_eq!(output(&command).status.code(), Some(2), "{wrong:?}");
    }
}

fn is_gone_until_it_is_brought_back(device: &str) {
    let mut pair = here();
    let ifindex = pair.a.agent().end(0).qp.ctx.device.info.ifindex;
    let missing = || missing(std::iter::once(ifindex)).len();
    assert_eq!(missing(), 0);
    done(&["fault", "fatal", "--gone", device]);
    assert_eq!(next_event(&mut pair), Some(AsyncKind::DeviceFatal as u64));
    assert_eq!((opened(), missing()), (libc::ENODEV, 1));
    let list = done(&["fault", "list"]);
    assert!(list.contains(&format!("{device}: gone\n")), "{list}");
    let said = done(&["fault", "clear", "all"]);
    assert!(said.contains("can be opened again"), "{said}");
    assert_eq!((opened(), missing()), (0, 0));
    here().exchange();
}

on_packets!(what_a_link_has_lost_is_asked_for_when_it_is_back, {
    asked_for_when_the_link_is_back(ETHERNET);
});

#[test]
fn so_it_is_by_the_infiniband_device() {
    let name = "so_it_is_by_the_infiniband_device";
    inside(name, NATIVE, Some("packets"), || {
        asked_for_when_the_link_is_back(NATIVE);
    });
}

fn asked_for_when_the_link_is_back(device: &str) {
    // without a time-out nothing else would ever find out
    let endless = Setup {
        timeout: 0,
        ..SETUP
    };
    let mut pair = Pair::alike(Party::here(), Party::here(), endless);
    write_and_see(&mut pair, 64, 1);
    done(&["fault", "link", "down", device]);
    let lost = Ask::new(SendOpcode::RdmaWrite, 5000, &pair.bi).id(1);
    pair.a.post(&pair.ai, &lost);
    pair.a.expect_quiet(&pair.ai, 30);
    done(&["fault", "link", "up", device]);
    pair.a.expect(&pair.ai, 1, WcStatus::Success);
    pair.exchange();
}

on_packets!(queue_pairs_fail_by_themselves, {
    queue_pairs_fail(ETHERNET);
});

/// Devices and wires beside packets of the Ethernet device.
#[test]
fn so_they_do_on_the_direct_wire() {
    let name = "so_they_do_on_the_direct_wire";
    inside(name, ETHERNET, None, || queue_pairs_fail(ETHERNET));
}

#[test]
fn so_they_do_on_the_infiniband_device() {
    let name = "so_they_do_on_the_infiniband_device";
    inside(name, NATIVE, Some("packets"), || queue_pairs_fail(NATIVE));
}

#[test]
fn so_they_do_on_the_infiniband_devices_direct_wire() {
    let name = "so_they_do_on_the_infiniband_devices_direct_wire";
    inside(name, NATIVE, None, || queue_pairs_fail(NATIVE));
}

fn queue_pairs_fail(device: &str) {
    let patience = Setup {
        timeout: 8,
        retry: 1,
        ..SETUP
    };
    let pair = || Pair::alike(Party::here(), Party::here(), patience);
    let (mut failing, mut other) = (pair(), pair());
    failing.exchange();
    other.exchange();
    let Pair { a, b, ai, bi } = &mut failing;
    b.recv(bi, 5, 0, 8);
    let said = done(&["fault", "qp-error", "--qpn", &bi.qpn.to_string()]);
    assert!(said.starts_with("1 queue pairs failed, in"), "{said}");
    assert_eq!(event_of(b, bi), Some(AsyncKind::QpFatal as u64));
    b.expect(bi, 5, WcStatus::WrFlushErr);
    assert_eq!(b.state(bi), QpState::Err);
    b.post(bi, &Ask::new(SendOpcode::RdmaWrite, 8, ai).id(6));
    b.expect(bi, 6, WcStatus::WrFlushErr);
    // the peer finds out by itself, and has no event
    assert_eq!(a.state(ai), QpState::Rts);
    a.post(ai, &Ask::new(SendOpcode::RdmaWrite, 8, bi).id(7));
    a.expect(ai, 7, WcStatus::RetryExcErr);
    other.exchange();
    // those that have failed do so no more
    let qpn = bi.qpn.to_string();
    assert_eq!(
        output(&["fault", "qp-error", "--qpn", &qpn]).status.code(),
        Some(1)
    );
    let said = done(&["fault", "qp-error", "--device", device]);
    assert!(said.starts_with("2 queue pairs failed, in"), "{said}");
    for (party, info) in [(&mut other.a, &other.ai), (&mut other.b, &other.bi)] {
        assert_eq!(event_of(party, info), Some(AsyncKind::QpFatal as u64));
        assert_eq!(party.state(info), QpState::Err);
    }
    let mut third = pair();
    let said = done(&["fault", "qp-error", "--all"]);
    assert!(said.starts_with("2 queue pairs failed, in"), "{said}");
    assert_eq!(
        event_of(&mut third.b, &third.bi),
        Some(AsyncKind::QpFatal as u64)
    );
    // nothing stays: what is made afterwards is as before
    pair().exchange();
    for wrong in [&[][..], &["--qpn", "0x1000000"], &["--all", "--qpn", "7"]] {
        let command = [&["fault", "qp-error"], wrong].concat();
        assert_eq!(output(&command).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn an_xrc_target_fails_for_all_its_handles() {
    let name = "an_xrc_target_fails_for_all_its_handles";
    inside(name, NATIVE, None, || {
        use common::extended::{accept, domain, target_init};
        let ctx = Context::open(0).unwrap();
        let domain = domain(&ctx, (7, 7));
        let target = Qp::make_target(&domain, target_init()).unwrap();
        let other = Qp::open_target(&domain, target.qpn).unwrap();
        for (cookie, handle) in [(1, &target), (2, &other)] {
            handle.cookie.store(cookie, Ordering::Release);
        }
        accept(&target, target.qpn);
        assert_eq!(target.state(), QpState::Rtr);
        let said = done(&["fault", "qp-error", "--qpn", &target.qpn.to_string()]);
        assert!(said.starts_with("1 queue pairs failed, in"), "{said}");
        for cookie in [1, 2] {
            let event = ctx.next_async_event().unwrap();
            assert_eq!((event.kind, event.element), (AsyncKind::QpFatal, cookie));
        }
        assert_eq!(target.state(), QpState::Err);
        other.destroy().unwrap();
        target.destroy().unwrap();
    });
}

/// As [`next_event`], of any party.
fn event_of(party: &mut Party, info: &Info) -> Option<u64> {
    let patience = common::PATIENCE.as_millis() as u64;
    loop {
        let event = party.event(info, patience);
        if event != Some(AsyncKind::CommEst as u64) {
            return event;
        }
    }
}

/// The next event that is not about a connection's first packet.
fn next_event(pair: &mut Pair) -> Option<u64> {
    let patience = common::PATIENCE.as_millis() as u64;
    loop {
        let event = pair.a.event(&pair.ai, patience);
        if event != Some(AsyncKind::CommEst as u64) {
            return event;
        }
    }
}

#[test]
fn queue_pairs_of_one_host_take_packets_while_somebody_wants_to_see_them() {
    inside(
        "queue_pairs_of_one_host_take_packets_while_somebody_wants_to_see_them",
        ETHERNET,
        None,
        || {
            let mut before = here();
            before.exchange();
            let file = Scratch::file("wanted.pcapng");
            let dump = Dump::start(&["-w", file.text()]);
            let mut during = here();
            during.exchange();
            before.exchange();
            let said = dump.stop();
            assert!(
                said.contains("queue pairs are up on the direct wire"),
                "{said}"
            );
            assert!(!said.contains("\nferriband: 0 packets"), "{said}");
            // on its wire for life
            during.exchange();
            let mut after = here();
            let dump = Dump::start(&["-w", file.text(), "--leave-direct"]);
            after.exchange();
            let said = dump.stop();
            assert!(said.contains("ferriband: 0 packets"), "{said}");
        },
    );
}

#[test]
fn where_nothing_runs_faults_say_so() {
    inside(
        "where_nothing_runs_faults_say_so",
        ETHERNET,
        Some("roce"),
        || {
            let refused = output(&["fault", "add", "drop"]);
            assert_eq!(refused.status.code(), Some(1));
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(
                said.contains("nothing runs") && said.contains("ferriband run --fault"),
                "{said}"
            );
            assert_eq!(done(&["fault", "list"]), "no fault rules\n");
            for wrong in [
                &["fault", "add", "lose"][..],
                &["fault", "add", "drop", "--probability", "2"],
                &["run", "--fault", "drop opcode=none", "--", "true"],
            ] {
                assert_eq!(output(wrong).status.code(), Some(2), "{wrong:?}");
            }
        },
    );
}

#[test]
fn a_program_brings_its_own_faults_along() {
    inside(
        "a_program_brings_its_own_faults_along",
        ETHERNET,
        Some("roce"),
        || {
            // SAFETY: this process has one thread yet that reads the environment.
            unsafe { std::env::set_var("FERRIBAND_FAULTS", "delay probability=0.5;drop psn=5") };
            let _pair = here();
            let list = json(&["fault", "list", "--json"]);
            assert_eq!(list["rules"].as_array().unwrap().len(), 2, "{list}");
            assert_eq!(
                list["rules"][0]["rule"],
                "delay probability=0.5 delay-us=1000"
            );
        },
    );
}

/// Packets of a classic capture file, each whole, with both checksums right.
fn native_packets(file: &Scratch) -> Vec<(Opcode, u32, usize)> {
    let bytes = std::fs::read(file.path()).unwrap();
    let reader = PcapReader::new(&bytes).unwrap();
    assert_eq!(reader.link_type(), LinkType::Erf as u32);
    let packet = |bytes: &[u8]| {
        let native = NativePacket::parse(bytes).unwrap();
        let bth = native.packet.bth();
        (bth.opcode, bth.psn.get(), native.packet.payload.len())
    };
    reader.map(|record| packet(record.unwrap().bytes)).collect()
}

#[test]
fn queue_pairs_of_ferri0_take_packets_while_somebody_wants_to_see_them() {
    let name = "queue_pairs_of_ferri0_take_packets_while_somebody_wants_to_see_them";
    inside(name, NATIVE, None, || {
        let mut before = here();
        before.exchange();
        let file = Scratch::file("native.pcap");
        let dump = Dump::start(&["-w", file.text(), "--buffer", "32"]);
        let mut during = here();
        let len = 1 << 20;
        write_and_see(&mut during, len, 2);
        during.exchange();
        before.exchange();
        let said = dump.stop();
        assert!(
            said.contains("queue pairs are up on the direct wire"),
            "{said}"
        );
        assert_eq!(lost(&said), 0, "{said}");
        let (mut written, mut sent, mut acknowledged) = (BTreeSet::new(), 0, 0);
        for (opcode, psn, payload) in native_packets(&file) {
            use Opcode::*;
            match opcode {
                RcWriteFirst | RcWriteMiddle | RcWriteLast => _ = written.insert((psn, payload)),
                RcSendOnly => sent += 1,
                RcAcknowledge => acknowledged += 1,
                other => panic!("{other:?} was not sent"),
            }
        }
        let total: usize = written.iter().map(|(_, len)| len).sum();
        assert_eq!(total, len as usize, "each byte once, tries again left out");
        assert!(sent >= 2 && acknowledged >= 4, "{sent} {acknowledged}");
        // on their wires for life
        during.exchange();
        let mut after = here();
        let dump = Dump::start(&["-w", file.text(), "--leave-direct"]);
        after.exchange();
        let said = dump.stop();
        assert!(said.contains("ferriband: 0 packets"), "{said}");
        let counted = json(&["counters", NATIVE, "--json"]);
        let packets = &counted[NATIVE]["port_xmit_packets"];
        assert!(packets.as_u64().unwrap() >= 256, "{counted}");
    });
}

#[test]
fn wireshark_finds_nothing_wrong_with_packets_of_ferri0() {
    let name = "wireshark_finds_nothing_wrong_with_packets_of_ferri0";
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("SKIPPED {name}: tshark is not installed (apt-get install tshark)");
        return;
    }
    inside(name, NATIVE, Some("packets"), || {
        let mut pair = here();
        let file = Scratch::file("native.pcapng");
        let dump = Dump::start(&["-w", file.text(), "--buffer", "32"]);
        for len in [1, 100, 5000, 70_000] {
            write_and_see(&mut pair, len, 3);
            pair.exchange();
        }
        let said = dump.stop();
        // it guesses at what programs send; the packets are our matter
        let dissected = Command::new("tshark")
            .args(["-r", file.text(), "--disable-protocol", "rpcordma"])
            .args([
                "-T",
                "fields",
                "-e",
                "infiniband.bth.opcode",
                "-e",
                "_ws.malformed",
            ])
            .output()
            .unwrap();
        assert!(dissected.status.success(), "{dissected:?}");
        let text = String::from_utf8_lossy(&dissected.stdout).into_owned();
        let taken = said.split("ferriband: ").last().unwrap();
        let taken: usize = taken.split(' ').next().unwrap().parse().expect(&said);
        assert!(taken > 40, "{said}");
        assert_eq!(text.lines().count(), taken);
        for line in text.lines() {
            let mut fields = line.split('\t');
            assert!(
                fields.next().is_some_and(|opcode| !opcode.is_empty()),
                "{line}"
            );
            assert_eq!(fields.next().unwrap_or(""), "", "{line}");
        }
    });
}

#[test]
fn rules_of_ferri0_meet_its_packets_alone() {
    let name = "rules_of_ferri0_meet_its_packets_alone";
    inside(name, NATIVE, None, || {
        let mut before = here();
        done(&[
            "fault", "add", "drop", "--opcode", "rc-send", "--count", "2", "--device", NATIVE,
        ]);
        let mut pair = here();
        // what is on the direct wire meets no rule
        before.exchange();
        assert_eq!(rule(&json(&["fault", "list", "--json"]), 0), (0, 0));
        pair.exchange();
        eventually("both to be dropped", || {
            pair.exchange();
            rule(&json(&["fault", "list", "--json"]), 0) == (0, 2)
        });
        done(&["fault", "clear", "all"]);
        // the next ones are on the direct wire again
        let mut after = here();
        let file = Scratch::file("after.pcap");
        let dump = Dump::start(&["-w", file.text(), "--leave-direct"]);
        after.exchange();
        assert!(dump.stop().contains("ferriband: 0 packets"));
    });
}
