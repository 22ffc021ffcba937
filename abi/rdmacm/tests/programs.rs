//! rdma-core's own programs of the connection manager, unmodified, on our libraries: both ends on this host.
//!
//! Where they are missing (Debian: rdmacm-utils) each test says so and passes without having tested.

mod common;

use std::process::{Child, Command, Output, Stdio};
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

fn start(words: &[&str]) -> Child {
    Command::new(words[0])
        .args(&words[1..])
        .env("LD_LIBRARY_PATH", common::library_dir())
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

/// Runs a server and a client. Nothing tells when a server listens, so a client that was refused right away tries again.
fn pair(server: &[&str], client: &[&str]) {
    if !is_installed(server[0]) {
        return;
    }
    let mut serving = start(server);
    let begin = Instant::now();
    let (succeeded, said) = loop {
        let (succeeded, said) = finish(start(client), PATIENCE);
        let gone = serving.try_wait().expect("waiting for our child").is_some();
        if succeeded || gone || begin.elapsed() > STARTING {
            break (succeeded, said);
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let (served, heard) = finish(serving, if succeeded { PATIENCE } else { Duration::ZERO });
    assert!(
        succeeded && served,
        "{client:?}: {said}\n{server:?}: {heard}"
    );
}

/// A port of this test run's own.
fn port(offset: u32) -> String {
    (20_000 + std::process::id() * 8 % 20_000 + offset).to_string()
}

#[test]
fn rping_validates_what_comes_back() {
    let port = port(0);
    let common = ["-a", "127.0.0.1", "-p", &port, "-C", "20", "-V", "-v"];
    let with = |mode| [&["rping", mode], &common[..]].concat();
    pair(&with("-s"), &with("-c"));
}

#[test]
fn ucmatose_with_several_connections() {
    let port = port(1);
    let common = ["-p", &port, "-c", "5", "-C", "10"];
    pair(
        &[&["ucmatose", "-b", "127.0.0.1"], &common[..]].concat(),
        &[&["ucmatose", "-s", "127.0.0.1"], &common[..]].concat(),
    );
}

/// Identifiers move to another channel once they are connected.
#[test]
fn ucmatose_migrates() {
    let port = port(2);
    let common = ["-m", "-p", &port, "-c", "3"];
    pair(
        &[&["ucmatose", "-b", "127.0.0.1"], &common[..]].concat(),
        &[&["ucmatose", "-s", "127.0.0.1"], &common[..]].concat(),
    );
}

#[test]
fn udaddy_exchanges_datagrams() {
    pair(
        &["udaddy", "-b", "127.0.0.1", "-c", "2"],
        &["udaddy", "-s", "127.0.0.1", "-c", "2"],
    );
}

#[test]
fn rdma_client_and_server_of_endpoints() {
    let port = port(3);
    pair(
        &["rdma_server", "-s", "127.0.0.1", "-p", &port],
        &["rdma_client", "-s", "127.0.0.1", "-p", &port],
    );
}
