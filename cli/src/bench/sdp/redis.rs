//! redis-benchmark against redis-server, both plain or both with the library of SDP.
//!
//! Owns: the life of a server, and the reading of what the benchmark prints.

use super::Way;
use crate::failure::Failure;
use crate::launch;
use std::ffi::OsStr;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SERVER: &str = "redis-server";
const BENCHMARK: &str = "redis-benchmark";
/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether both programs are there.
pub fn is_there() -> bool {
    [SERVER, BENCHMARK]
        .iter()
        .all(|name| launch::resolve(OsStr::new(name)).is_some())
}

/// A server that ends with its value.
struct Server {
    process: Child,
    address: Vec<String>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start(way: &Way) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::io("start", SERVER, &error);
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .map_err(failed)?
            .port();
        let path = std::env::temp_dir().join(format!("ferriband-redis-{}", std::process::id()));
        let path = path.display().to_string();
        let mut command = Command::new(SERVER);
        command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .envs(way.environment()?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let unix = *way == Way::Unix;
        if unix {
            command.args(["--unixsocket", &path]);
        }
        let server = Self {
            process: command.spawn().map_err(failed)?,
            address: match unix {
                true => vec!["-s".to_owned(), path],
                false => vec!["-p".to_owned(), port.to_string()],
            },
        };
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begin.elapsed() > PATIENCE {
                return Err(Failure::new(format!("{SERVER} does not listen")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }
}

/// Requests a second by so many connections with so many requests under way on each: GET's and
/// SET's, their geometric mean.
pub fn requests(way: &Way, connections: u32, pipeline: u32) -> Result<f64, Failure> {
    let server = Server::start(way)?;
    let requests = match (connections, pipeline) {
        (1, 1) => 30_000,
        (_, 1) => 100_000,
        _ => 400_000,
    };
    let failed = |error: io::Error| Failure::io("run", BENCHMARK, &error);
    let output = Command::new(BENCHMARK)
        .args(&server.address)
        .args(["-t", "get,set", "--csv"])
        .args(["-c", &connections.to_string(), "-P", &pipeline.to_string()])
        .args(["-n", &requests.to_string()])
        .envs(way.environment()?)
        .output()
        .map_err(failed)?;
    if let [_, path] = &server.address[..]
        && *way == Way::Unix
    {
        let _ = std::fs::remove_file(path);
    }
    let said = String::from_utf8_lossy(&output.stdout);
    parse(&said).ok_or_else(|| {
        let error = String::from_utf8_lossy(&output.stderr);
        Failure::new(format!("{BENCHMARK} gives no figures: {said}{error}"))
    })
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
