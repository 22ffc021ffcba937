//! redis-benchmark against redis-server, both plain or both with the library of SDP.
//!
//! Owns: how the two are called, and the reading of what the benchmark prints.

use super::server::{Server, free_port};
use super::{Settings, Way, are_there};
use crate::failure::Failure;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

const SERVER: &str = "redis-server";
const BENCHMARK: &str = "redis-benchmark";
/// redis's program under the name that Debian's redis-tools install it by, without a service. It is
/// the server if the name it was started by says so.
const CHECK: &str = "redis-check-rdb";

/// Whether both programs are there.
pub fn is_there() -> bool {
    are_there(&[BENCHMARK]) && (are_there(&[SERVER]) || are_there(&[CHECK]))
}

/// Requests a second by so many connections with so many requests under way on each: GET's and
/// SET's, their geometric mean.
pub fn requests(
    way: &Way,
    settings: Settings,
    connections: u32,
    pipeline: u32,
) -> Result<f64, Failure> {
    let port = free_port()?;
    let path = std::env::temp_dir().join(format!("ferriband-redis-{}", std::process::id()));
    let program = if are_there(&[SERVER]) { SERVER } else { CHECK };
    let mut command = Command::new(program);
    command.arg0(SERVER);
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no"]);
    let address = match way {
        Way::Unix => {
            command.arg("--unixsocket").arg(&path);
            vec!["-s".to_owned(), path.display().to_string()]
        }
        _ => vec!["-p".to_owned(), port.to_string()],
    };
    let _server = Server::start(command, port, way, settings)?;
    let requests = count(connections, pipeline);
    let failed = |error: io::Error| Failure::io("run", BENCHMARK, &error);
    let output = Command::new(BENCHMARK)
        .args(&address)
        .args(["-t", "get,set", "--csv"])
        .args(["-c", &connections.to_string(), "-P", &pipeline.to_string()])
        .args(["-n", &requests.to_string()])
        .envs(way.environment(settings)?)
        .output()
        .map_err(failed)?;
    if *way == Way::Unix {
        let _ = std::fs::remove_file(&path);
    }
    let said = String::from_utf8_lossy(&output.stdout);
    parse(&said).ok_or_else(|| {
        let error = String::from_utf8_lossy(&output.stderr);
        Failure::new(format!("{BENCHMARK} gives no figures: {said}{error}"))
    })
}

/// Requests of each kind.
fn count(connections: u32, pipeline: u32) -> u32 {
    match (connections, pipeline) {
        (1, 1) => 30_000,
        (_, 1) => 100_000,
        _ => 400_000,
    }
}

/// Processor time of a request, nanoseconds: of both programs, from their beginning to their end.
pub fn processor_ns(
    way: &Way,
    settings: Settings,
    connections: u32,
    pipeline: u32,
) -> Result<f64, Failure> {
    let before = time_of_children()?;
    requests(way, settings, connections, pipeline)?;
    let used = time_of_children()? - before;
    Ok(used / f64::from(2 * count(connections, pipeline)))
}

/// Processor time of processes that were children of this one and have ended, nanoseconds.
fn time_of_children() -> Result<f64, Failure> {
    // SAFETY: plain memory.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a local structure.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } != 0 {
        return Err(Failure::os("ask for", "the processor time of programs"));
    }
    let ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
    Ok(ns(usage.ru_utime) + ns(usage.ru_stime))
}

/// Lines `"SET","123.45",...`.
fn parse(said: &str) -> Option<f64> {
    let rate = |name: &str| -> Option<f64> {
        let line = said.lines().find(|line| line.starts_with(name))?;
        line.split(',').nth(1)?.trim_matches('"').parse().ok()
    };
    Some((rate("\"GET\"")? * rate("\"SET\"")?).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let said = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"40000.00\",\"0.2\"\n\"GET\",\"90000.00\",\"0.1\"\n";
        assert_eq!(parse(said), Some(60_000.0));
        assert_eq!(parse("\"SET\",\"1\""), None);
    }
}
