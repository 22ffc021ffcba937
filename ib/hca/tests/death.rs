//! Peers that are killed, call exec, or are stopped: what the others see, and that nothing else happens to them.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::eventually;
use common::memory::{Kind, Memory};
use common::party::*;
use common::process::{self, Channel, Child};
use ferriband_hca::*;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[("obey", obey), ("exec", exec_role), ("image", image_role)]);
}

/// Status 12 after 4.096 us << 12, four times: 67 ms.
const TIMED: Setup = Setup {
    service: QpType::Rc,
    memory: Kind::Private,
    len: 1 << 20,
    mr_access: ALL,
    qp_access: ALL,
    send_wr: 64,
    recv_wr: 64,
    sge: 4,
    inline: 64,
    cqe: 256,
    timeout: 12,
    retry: 3,
    rnr_retry: 7,
    min_rnr: 1,
    events: false,
};
const TIMEOUT: Duration = Duration::from_millis(67);

/// What of Ferriband's lies in the places where software leaves things behind, and is this user's: files and
/// directories, and what lies in the directory that programs with an adapter share.
fn lying_about() -> BTreeSet<PathBuf> {
    let uid = std::fs::metadata("/proc/self").unwrap().uid();
    let mut found = BTreeSet::new();
    for place in ["/dev/shm", "/tmp", "/run/user", &format!("/run/user/{uid}")] {
        for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.contains("ferriband") || !entry.metadata().is_ok_and(|it| it.uid() == uid) {
                continue;
            }
            let shared = name == "ferriband" || name == format!("ferriband-{uid}");
            if !shared || place == "/dev/shm" {
                found.insert(entry.path());
                continue;
            }
            // the directory stays, empty
            let inside = std::fs::read_dir(entry.path()).into_iter().flatten();
            found.extend(inside.flatten().map(|entry| entry.path()));
        }
    }
    found
}

/// Nothing lies about that did not before, but for what another test that runs has there. What somebody else's
/// program left on this machine earlier is not this test's to judge.
#[track_caller]
fn expect_clean_since(before: &BTreeSet<PathBuf>) {
    for path in lying_about().difference(before) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // its test may have ended since
        let left = !is_at_work(&name) && path.exists();
        assert!(!left, "left behind: {path:?}");
    }
}

/// Whether a name is that of another test's scratch file: it holds the number of a process that lives.
fn is_at_work(name: &str) -> bool {
    let numbers = name.split(|c: char| !c.is_ascii_digit());
    numbers
        .filter(|number| number.len() > 1)
        .any(|number| std::path::Path::new("/proc").join(number).exists())
}

/// Runs a stream of requests towards a process that is killed in the middle. A third process, an idle connection to the
/// victim, and this process's other queue pairs look on.
fn killed_under(op: SendOpcode, memory: Kind, len: u32) {
    let setup = Setup { memory, ..TIMED };
    let mut pair = Pair::alike(Party::here(), Party::there(), setup);
    let (idle_here, idle_there) = (pair.a.make(TIMED), pair.b.make(TIMED));
    pair.a.connect(&idle_here, &idle_there);
    pair.b.connect(&idle_there, &idle_here);
    let mut other = Pair::alike(Party::here(), Party::there(), TIMED);
    other.exchange();
    for wr_id in 0..64 {
        pair.b.recv(&pair.bi, wr_id, 0, TIMED.len as u32);
    }
    pair.exchange_on(idle_here, idle_there);
    pair.a.recv(&idle_here, 77, 0, 64);
    let Party::Here(agent) = &pair.a else {
        unreachable!()
    };
    let Party::There(victim) = &pair.b else {
        unreachable!()
    };
    let begin = Instant::now();
    let mut shot = None;
    let flow = stream(
        agent.end(pair.ai.at),
        &Ask::new(op, len, &pair.bi),
        16,
        common::PATIENCE,
        || {
            if shot.is_none() && begin.elapsed() > Duration::from_millis(5) {
                shot = Some(Instant::now());
                victim.shoot();
            }
        },
    );
    let after = shot.unwrap().elapsed();
    assert_eq!(
        flow.status,
        Some(WcStatus::RetryExcErr as u32),
        "{op:?} {memory:?} {len}: {flow:?}"
    );
    assert!(
        after >= TIMEOUT - Duration::from_millis(5),
        "too early: {after:?}"
    );
    assert!(
        after < TIMEOUT + Duration::from_secs(10),
        "too late: {after:?}"
    );
    assert_eq!(pair.a.state(&pair.ai), QpState::Err);
    // the idle queue pair hears nothing, until it asks for something
    pair.a.expect_quiet(&idle_here, 20);
    assert_eq!(pair.a.state(&idle_here), QpState::Rts);
    // the memory of a process that is killed may outlive the first of its threads for a while
    let end = Instant::now() + common::PATIENCE;
    loop {
        pair.a.post(&idle_here, &Ask::new(op, 8, &idle_there).id(5));
        match pair.a.wait(&idle_here).status {
            0 => {}
            status => break assert_eq!(status, WcStatus::RetryExcErr as u32),
        }
        assert!(Instant::now() < end, "a dead peer answers");
    }
    pair.a.post(&idle_here, &Ask::new(op, 8, &idle_there).id(6));
    let mut rest =
        [pair.a.wait(&idle_here), pair.a.wait(&idle_here)].map(|got| (got.wr_id, got.status));
    rest.sort_unstable();
    assert_eq!(rest, [(6, 5), (77, 5)]);
    other.exchange();
}

impl Pair {
    fn exchange_on(&mut self, a: Info, b: Info) {
        self.b.recv(&b, 900, 0, 64);
        self.a.post(&a, &Ask::new(SendOpcode::Send, 8, &b).id(901));
        self.a.expect(&a, 901, WcStatus::Success);
        self.b.expect(&b, 900, WcStatus::Success);
    }
}

#[test]
fn a_peer_killed_under_writes_into_its_private_memory_times_out() {
    for len in [8, 4096, 100_000, 1 << 20] {
        killed_under(SendOpcode::RdmaWrite, Kind::Private, len);
    }
}

#[test]
fn a_peer_killed_under_writes_into_its_shared_memory_times_out() {
    for len in [8, 4096, 1 << 20] {
        killed_under(SendOpcode::RdmaWrite, Kind::Shared, len);
    }
}

#[test]
fn a_peer_killed_under_writes_into_its_device_memory_times_out() {
    killed_under(SendOpcode::RdmaWrite, Kind::Device, 4096);
}

#[test]
fn a_peer_killed_under_reads_times_out() {
    for memory in [Kind::Private, Kind::Shared] {
        killed_under(SendOpcode::RdmaRead, memory, 4096);
        killed_under(SendOpcode::RdmaRead, memory, 1 << 20);
    }
}

#[test]
fn a_peer_killed_under_atomics_times_out() {
    for memory in [Kind::Private, Kind::Shared] {
        killed_under(SendOpcode::FetchAdd, memory, 8);
    }
}

#[test]
fn a_peer_killed_while_it_receives_times_out() {
    // after 64 messages it has no receive, so it is killed under RNR retries too
    for len in [8, 4096, 1 << 20] {
        killed_under(SendOpcode::Send, Kind::Private, len);
    }
    killed_under(SendOpcode::RdmaWriteImm, Kind::Private, 100_000);
}

#[test]
fn a_peer_killed_while_its_messages_are_read_from_its_memory_is_not_heard_of_again() {
    for after_ms in [0, 1, 3, 7] {
        let setup = Setup {
            len: 32 << 20,
            ..TIMED
        };
        let mut pair = Pair::alike(Party::here(), Party::there(), setup);
        let mut other = Pair::alike(Party::here(), Party::there(), TIMED);
        for wr_id in 0..8 {
            pair.a.recv(&pair.ai, wr_id, 0, 32 << 20);
        }
        let ask = Ask::new(SendOpcode::Send, 32 << 20, &pair.ai);
        pair.b
            .start_stream(&pair.bi, &ask, 4, Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(after_ms));
        pair.b.child().kill();
        let mut arrived = 0;
        while let Some(got) = pair.a.wait_for(&pair.ai, Duration::from_millis(150)) {
            assert_eq!(
                (got.wr_id, got.status, got.len),
                (arrived, 0, 32 << 20),
                "whole or not at all"
            );
            arrived += 1;
        }
        assert!(arrived < 8, "killed in the middle");
        assert_eq!(pair.a.state(&pair.ai), QpState::Rts);
        // the half-received message's receive is still the queue pair's: it flushes with the others
        pair.a
            .post(&pair.ai, &Ask::new(SendOpcode::Send, 8, &pair.bi).id(50));
        pair.a.expect(&pair.ai, 50, WcStatus::RetryExcErr);
        for wr_id in arrived..8 {
            pair.a.expect(&pair.ai, wr_id, WcStatus::WrFlushErr);
        }
        other.exchange();
    }
}

#[test]
fn the_dead_leave_no_descriptor_no_mapping_and_no_file() {
    let before_all = lying_about();
    // in a process of its own: other tests open descriptors here
    let mut watcher = Party::there();
    let figures = |pid: i32| {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .count();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let count = |name: &str| maps.lines().filter(|line| line.contains(name)).count();
        // the adapter's segments, and the memory of the dead
        (fds, count("ferriband-p"), count("ferriband-test"))
    };
    let round = |watcher: Party| {
        let setup = Setup {
            memory: Kind::Shared,
            ..TIMED
        };
        let mut pair = Pair::alike(watcher, Party::there(), setup);
        pair.exchange();
        for _ in 0..3 {
            pair.a
                .post(&pair.ai, &Ask::new(SendOpcode::RdmaWrite, 4096, &pair.bi));
            pair.a.expect(&pair.ai, 1, WcStatus::Success);
        }
        pair.b.child().kill();
        pair.a
            .post(&pair.ai, &Ask::new(SendOpcode::Send, 8, &pair.bi));
        pair.a.expect(&pair.ai, 1, WcStatus::RetryExcErr);
        pair.a.destroy(&pair.ai);
        pair.a
    };
    // the first few peers keep their places while the device is open: a bounded number
    for _ in 0..10 {
        watcher = round(watcher);
    }
    let pid = watcher.child().pid();
    let before = figures(pid);
    for _ in 0..5 {
        watcher = round(watcher);
    }
    // the tests' own memfds stay open: one a round
    eventually("the dead to be forgotten", || {
        let after = figures(pid);
        after.0 <= before.0 + 5 && after.1 <= before.1 && after.2 == 0
    });
    expect_clean_since(&before_all);
}

/// Obeys one command and then becomes another program, told where its memory was.
fn exec_role(channel: Channel) {
    let ctx = Context::open(0).unwrap();
    let end = Endpoint::new(
        &ctx,
        Setup {
            memory: Kind::Private,
            ..TIMED
        },
    )
    .unwrap();
    let info = end.info(0);
    channel.send(&[
        u64::from(info.qpn),
        info.addr,
        u64::from(info.key),
        u64::from(info.lid),
    ]);
    let peer = channel.recv();
    end.connect(peer[0] as u32, peer[1] as u16).unwrap();
    channel.send(&[]);
    channel.recv();
    let error = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_entry", "--nocapture", "--test-threads=1"])
        .env("FERRIBAND_HCA_TEST_ROLE", "image")
        .env("FERRIBAND_HCA_TEST_ADDR", info.addr.to_string())
        .exec();
    panic!("exec: {error}");
}

/// The new program: has memory at the same place, and watches it.
fn image_role(channel: Channel) {
    let addr: usize = std::env::var("FERRIBAND_HCA_TEST_ADDR")
        .unwrap()
        .parse()
        .unwrap();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, refused where something is mapped already.
    let base = unsafe {
        libc::mmap(
            std::ptr::with_exposed_provenance_mut(addr),
            TIMED.len,
            prot,
            flags,
            -1,
            0,
        )
    };
    // the place may be taken by chance: then there is nothing to watch
    if base == libc::MAP_FAILED {
        return channel.send(&[2]);
    }
    let memory = Memory::foreign(addr as u64, TIMED.len);
    let end = Instant::now() + Duration::from_millis(150);
    while Instant::now() < end {
        if memory.extremes(0, TIMED.len) != (0, 0) {
            return channel.send(&[1]);
        }
    }
    channel.send(&[0]);
}

#[test]
fn nothing_is_written_into_the_program_that_a_peer_becomes_by_exec() {
    let mut watched = 0;
    for len in [8, 4096, 4096, 100_000, 1 << 20] {
        let mut here = Party::here();
        let child = Child::spawn("exec");
        let w = child.channel.recv();
        let there = Info {
            at: 0,
            qpn: w[0] as u32,
            addr: w[1],
            key: w[2] as u32,
            lid: w[3] as u16,
        };
        let mine = here.make(TIMED);
        here.fill(&mine, 0, TIMED.len, 0xff);
        here.connect(&mine, &there);
        child
            .channel
            .send(&[u64::from(mine.qpn), u64::from(mine.lid)]);
        child.channel.recv();
        // it is written to before, however long the two take to meet
        let ask = Ask::new(SendOpcode::RdmaWrite, len, &there);
        here.post(&mine, &ask);
        here.expect(&mine, 1, WcStatus::Success);
        let begin = Instant::now();
        let mut told = false;
        let flow = stream(here.agent().end(mine.at), &ask, 8, common::PATIENCE, || {
            if !told && begin.elapsed() > Duration::from_millis(5) {
                child.channel.send(&[]);
                told = true;
            }
        });
        assert_eq!(flow.status, Some(WcStatus::RetryExcErr as u32));
        let verdict = child.channel.recv()[0];
        assert_ne!(
            verdict, 1,
            "a byte landed in the new program's memory ({len} bytes)"
        );
        watched += u64::from(verdict == 0);
    }
    assert!(
        watched > 0,
        "the place was taken each time: nothing was tested"
    );
}

/// How long a peer is stopped: a minute where the environment asks for long runs.
fn stopped_for() -> Duration {
    match std::env::var_os("FERRIBAND_LONG_TESTS") {
        Some(_) => Duration::from_secs(60),
        None => Duration::from_secs(3),
    }
}

#[test]
fn a_stopped_peer_is_waited_for_and_disturbs_nobody() {
    let setup = Setup {
        timeout: 8,
        retry: 0,
        ..TIMED
    };
    let mut pair = Pair::alike(Party::here(), Party::there(), setup);
    let mut other = Pair::alike(Party::here(), Party::there(), setup);
    pair.exchange();
    other.exchange();
    let quiet = pair.b.make(setup);
    pair.b.child().stop();
    let begin = Instant::now();
    // what the initiator does itself works on; what needs the target waits
    pair.a.post(
        &pair.ai,
        &Ask::new(SendOpcode::RdmaWrite, 4096, &pair.bi).id(1),
    );
    pair.a.expect(&pair.ai, 1, WcStatus::Success);
    pair.a
        .post(&pair.ai, &Ask::new(SendOpcode::Send, 8, &pair.bi).id(2));
    pair.a.post(
        &pair.ai,
        &Ask::new(SendOpcode::Send, 1 << 20, &pair.bi).id(3),
    );
    pair.a
        .post(&pair.ai, &Ask::new(SendOpcode::FetchAdd, 8, &pair.bi).id(4));
    pair.a.post(
        &pair.ai,
        &Ask::new(SendOpcode::RdmaWrite, 8, &pair.bi).id(5),
    );
    while begin.elapsed() < stopped_for() {
        pair.a.expect_quiet(&pair.ai, 50);
        other.exchange();
        // processes join and connect, to others and to this one
        let mut newcomers = Pair::alike(Party::there(), Party::there(), setup);
        newcomers.exchange();
        let mut newcomer = Pair::alike(newcomers.a, Party::here(), setup);
        newcomer.exchange();
        std::thread::sleep(Duration::from_millis(200));
    }
    // a process that wants to connect to the stopped one waits as well
    let mut late = Party::there();
    let late_info = late.make(Setup {
        timeout: 14,
        retry: 7,
        ..setup
    });
    late.connect(&late_info, &quiet);
    late.post(
        &late_info,
        &Ask::new(SendOpcode::RdmaWrite, 8, &quiet).id(8),
    );
    late.expect_quiet(&late_info, 100);
    assert_eq!(pair.a.state(&pair.ai), QpState::Rts);
    pair.b.child().resume();
    pair.b.connect(&quiet, &late_info);
    late.expect(&late_info, 8, WcStatus::Success);
    pair.b.recv(&pair.bi, 12, 0, 64);
    pair.b.recv(&pair.bi, 13, 0, 1 << 20);
    for wr_id in 2..6 {
        pair.a.expect(&pair.ai, wr_id, WcStatus::Success);
    }
    pair.b.expect(&pair.bi, 12, WcStatus::Success);
    pair.b.expect(&pair.bi, 13, WcStatus::Success);
}
