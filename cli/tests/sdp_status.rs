//! `ferriband sdp status` as its users meet it: what goes by SDP, what does not, and why.

mod libraries;

use libraries::library_dir;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The program of `tests/c/sdp_peer.c`, linked as `options` say.
fn compile(name: &str, options: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/sdp_peer.c");
    let status = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-o"])
        .args([&program, &source])
        .args(options)
        .status();
    assert!(status.expect("a C compiler, as for linking").success());
    program
}

fn peer() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("sdp-peer", &[]))
}

fn ferriband() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferriband"));
    command
        .arg("sdp")
        .env("FERRIBAND_LIB_DIR", library_dir())
        .env("FERRIBAND_SDP_SETTINGS", "")
        .env_remove("LD_PRELOAD");
    command
}

/// A program that runs until this is dropped.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// `ferriband sdp run` of a program.
    fn preloaded(program: &Path, words: &[&str]) -> Self {
        let mut command = ferriband();
        command.args(["run", "--"]).arg(program).args(words);
        Self::start(command)
    }

    fn plain(program: &Path, words: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(words).env_remove("LD_PRELOAD");
        Self::start(command)
    }

    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let output = child.stdout.take().expect("a pipe");
        Self {
            input: child.stdin.take(),
            output: BufReader::new(output),
            child,
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("readable");
        line.trim().to_owned()
    }

    fn pid(&self) -> u64 {
        self.child.id().into()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.input.take());
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > Duration::from_secs(5) {
                // one that was stopped, or hangs
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn status() -> Value {
    let output = ferriband().args(["status", "--json"]).output();
    let output = output.expect("ferriband runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn process(status: &Value, pid: u64) -> &Value {
    let processes = status["processes"].as_array().expect("a list");
    let found = processes.iter().find(|process| process["pid"] == pid);
    found.unwrap_or_else(|| panic!("no process {pid} in {status:#}"))
}

fn connection(status: &Value, pid: u64) -> &Value {
    let connections = &process(status, pid)["connections"];
    assert_eq!(
        connections.as_array().map(Vec::len),
        Some(1),
        "{connections:#}"
    );
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
        _ => Running::plain(peer(), &words),
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
    let program = compile("sdp-peer-static", &["-static"]);
    let plain = || Running::plain(peer(), &["serve"]);
    let cases = [
        (
            plain(),
            "20",
            "nobody",
            "was not started by ferriband sdp run",
        ),
        (
            Running::plain(&program, &["serve"]),
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

/// A listening socket that children inherit, and its port.
fn inheritable() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    // SAFETY: a descriptor of this test's, and no flag.
    assert_eq!(
        unsafe { libc::fcntl(listener.as_raw_fd(), libc::F_SETFD, 0) },
        0
    );
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
