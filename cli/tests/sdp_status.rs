//! `ferriband sdp status` as its users meet it: what goes by SDP, what does not, and why.

mod sdp_programs;

use sdp_programs::{Running, compile, ferriband, listed, status};
use serde_json::Value;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

fn peer() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("sdp_peer", "sdp-peer", &[]))
}

fn plain(program: &Path, words: &[&str]) -> Running {
    let mut command = Command::new(program);
    command.args(words).env_remove("LD_PRELOAD");
    Running::start(command)
}

fn process(status: &Value, pid: u64) -> &Value {
    let processes = status["processes"].as_array().expect("a list");
    let found = processes.iter().find(|process| process["pid"] == pid);
    found.unwrap_or_else(|| panic!("no process {pid} in {status:#}"))
}

fn connection(status: &Value, pid: u64) -> &Value {
    let connections = listed(status, pid, "connections");
    assert_eq!(connections.len(), 1, "{status:#}");
    &connections[0]
}

/// A server, and a client that has made so many exchanges.
fn pair(server: Running, words: [&str; 2]) -> (Running, Running) {
    let mut server = server;
    let port = server.line();
    let [way, exchanges] = words;
    let words = ["meet", port.as_str(), exchanges];
    let mut client = match way {
        "preloaded" => Running::preloaded(peer(), &words),
        _ => plain(peer(), &words),
    };
    assert_eq!(client.line(), "met");
    (server, client)
}

#[test]
fn a_connection_of_two_that_take_part_is_sdp_at_both_ends() {
    let server = Running::preloaded(peer(), &["serve"]);
    let (server, client) = pair(server, ["preloaded", "200"]);
    let status = status();
    for (own, other) in [(&client, &server), (&server, &client)] {
        let one = connection(&status, own.pid());
        assert_eq!(one["transport"], "local", "{one:#}");
        assert_eq!(one["peer"]["pid"], other.pid());
        assert_eq!(one["peer"]["program"], "sdp-peer");
        for direction in ["out", "in"] {
            let direction = &one[direction];
            assert_eq!(direction["carried_by"], "sdp", "{one:#}");
            let [ring, tcp] = ["ring_bytes", "tcp_bytes"].map(|name| direction[name].as_u64());
            let [ring, tcp] = [ring, tcp].map(|bytes| bytes.expect("a number"));
            assert!(ring > 0 && ring + tcp == 200, "{one:#}");
        }
        assert_eq!(one["reason"], Value::Null);
    }
    let listeners = &process(&status, server.pid())["listeners"];
    assert_eq!(listeners.as_array().map(Vec::len), Some(1));
    let wakeups = |of: &Running| connection(&status, of.pid())["wakeups"].as_u64();
    let wakeups = wakeups(&client).into_iter().chain(wakeups(&server));
    assert!(wakeups.sum::<u64>() > 0, "{status:#}");
}

#[test]
fn why_a_connection_is_tcp_is_told() {
    let program = compile("sdp_peer", "sdp-peer-static", &["-static"]);
    let cases = [
        (
            plain(peer(), &["serve"]),
            "20",
            "nobody",
            "was not started by ferriband sdp run",
        ),
        (
            plain(&program, &["serve"]),
            "20",
            "nobody",
            "is a static program",
        ),
        (
            Running::preloaded(peer(), &["serve"]),
            "1",
            "too_short",
            "too few exchanges",
        ),
    ];
    for (server, exchanges, reason, words) in cases {
        let (_server, client) = pair(server, ["preloaded", exchanges]);
        let status = status();
        if reason == "too_short" {
            // nothing in the client answers so far
            let idle = status["idle"].as_array().expect("a list");
            assert!(
                idle.iter().any(|one| one["pid"] == client.pid()),
                "{status:#}"
            );
            continue;
        }
        let one = connection(&status, client.pid());
        assert_eq!(one["reason"], reason, "{one:#}");
        let explanation = one["explanation"].as_str().expect("text");
        assert!(explanation.contains(words), "{explanation}");
        assert_eq!(one["out"]["carried_by"], "tcp");
        assert_eq!(one["out"]["tcp_bytes"], 20);
    }
    let server = Running::preloaded(peer(), &["serve"]);
    let (server, _client) = pair(server, ["plain", "20"]);
    let status = status();
    let one = connection(&status, server.pid());
    assert_eq!(one["reason"], "not_asked", "{one:#}");
}

#[test]
fn a_program_that_is_stopped_does_not_answer_and_others_do() {
    let server = Running::preloaded(peer(), &["serve"]);
    let (server, client) = pair(server, ["preloaded", "200"]);
    // SAFETY: a child of this test's.
    assert_eq!(unsafe { libc::kill(server.pid() as i32, libc::SIGSTOP) }, 0);
    let status = status();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(server.pid() as i32, libc::SIGCONT) }, 0);
    assert_eq!(process(&status, server.pid())["answers"], false);
    assert_eq!(process(&status, client.pid())["answers"], true);
}

#[test]
fn people_get_a_table() {
    let server = Running::preloaded(peer(), &["serve"]);
    let (server, client) = pair(server, ["preloaded", "200"]);
    for option in [None, Some("--connections")] {
        let output = ferriband().arg("status").args(option).output();
        let output = output.expect("ferriband runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let row = |of: &Running| {
            let pid = of.pid().to_string();
            let mut rows = said.lines().map(str::split_whitespace);
            let mut row = rows.find(|row| row.clone().next() == Some(&pid));
            row.as_mut()
                .map(|row| row.clone().collect::<Vec<_>>().join(" "))
        };
        let [client, server] = [row(&client), row(&server)];
        assert!(client.is_some_and(|row| row.contains("sdp sdp")), "{said}");
        assert!(server.is_some_and(|row| row.contains("sdp sdp")), "{said}");
    }
}

/// A user who is nobody here.
const STRANGER: u32 = 4711;

#[test]
fn another_user_who_has_taken_a_name_gets_nothing_and_is_named() {
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can be two users");
        return;
    }
    let mut server = plain(peer(), &["serve"]);
    let port = server.line();
    let reachable = std::env::temp_dir().join(format!("sdp-squat-{}", std::process::id()));
    std::fs::copy(peer(), &reachable).expect("writable");
    let mut squatter = Command::new(&reachable);
    squatter.args(["squat", &port]).uid(STRANGER);
    let mut squatter = Running::start(squatter);
    std::fs::remove_file(&reachable).expect("it was there");
    assert_eq!(squatter.line(), "here");
    let mut client = Running::preloaded(peer(), &["meet", &port, "20"]);
    assert_eq!(client.line(), "met");
    let begun = Instant::now();
    loop {
        let status = status();
        let one = connection(&status, client.pid());
        if one["reason"] != "asked" {
            assert_eq!(one["reason"], "no_answer", "{one:#}");
            assert_eq!(one["by_uid"], STRANGER);
            assert_eq!(one["out"]["tcp_bytes"], 20);
            let strangers = listed(&status, client.pid(), "strangers");
            assert_eq!(strangers.len(), 1, "{status:#}");
            assert_eq!(strangers[0]["uid"], STRANGER);
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{one:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A listening socket that children inherit, and its port.
fn inheritable() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    // SAFETY: a descriptor of this test's, and no flag.
    let cleared = unsafe { libc::fcntl(listener.as_raw_fd(), libc::F_SETFD, 0) };
    assert_eq!(cleared, 0);
    let port = listener.local_addr().expect("bound").port().to_string();
    (listener, port)
}

#[test]
fn what_is_accepted_at_a_listener_that_came_by_exec_is_sdp() {
    let (listener, port) = inheritable();
    let number = listener.as_raw_fd().to_string();
    let servers = [(); 2].map(|()| Running::preloaded(peer(), &["serve", &number]));
    drop(listener);
    // by turns one of the two accepts
    let words = ["meet", port.as_str(), "200"];
    let mut clients = [(); 4].map(|()| Running::preloaded(peer(), &words));
    for client in &mut clients {
        assert_eq!(client.line(), "met");
    }
    let status = status();
    for client in &clients {
        let one = connection(&status, client.pid());
        assert_eq!(one["out"]["carried_by"], "sdp", "{one:#}");
        let holder = one["peer"]["pid"].as_u64();
        assert!(servers.iter().any(|server| Some(server.pid()) == holder));
    }
}

#[test]
fn a_listener_that_is_inherited_and_not_used_has_no_name() {
    let (listener, port) = inheritable();
    let mut shell = ferriband();
    shell.args(["run", "--", "sh", "-c", "echo begun; read line"]);
    let mut shell = Running::start(shell);
    assert_eq!(shell.line(), "begun");
    let names = std::fs::read("/proc/net/unix").expect("readable");
    let names = String::from_utf8_lossy(&names).into_owned();
    assert!(
        !names.contains(&format!("@ferriband-sdp.{port}.")),
        "{names}"
    );
    drop(listener);
}
