//! The rows of `ferriband-dev bench --sdp`.
//!
//! Owns: what is measured in each, by which ways, and how much faster than TCP it has to be. Must
//! not know: rounds, medians, verdicts.

use super::programs::Program;
use super::{DEFAULTS, FLOOR_NS, NO_SPIN, Settings, Way, redis};
use crate::args::SocketTraffic;
use crate::failure::Failure;
use crate::floor::ring::{self, Looking};
use crate::launch;
use clap::ValueEnum;
use std::ffi::OsString;
use std::process::Command;

/// What is done in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    Pair(SocketTraffic, usize),
    /// Connections, and requests under way on each.
    Redis(u32, u32),
    /// A connection is made for one exchange of a message, and closed: too short for SDP.
    Connections(usize),
    /// Many connections are made and kept, with some exchanges of a message on each.
    Many(usize),
    /// Processor time of a request of [`Work::Redis`].
    RedisTime(u32, u32),
    Program(Program),
}

/// A row of the table.
pub struct Row {
    pub name: String,
    pub work: Work,
    pub settings: Settings,
    /// At least so many times as fast as TCP.
    pub asked: f64,
}

impl Row {
    pub fn is_latency(&self) -> bool {
        matches!(
            self.work,
            Work::Pair(SocketTraffic::Sleeping | SocketTraffic::Polled, _) | Work::RedisTime(..)
        )
    }

    pub fn ways(&self, congestions: &[&'static str], busy: bool) -> Vec<Way> {
        let pair = matches!(self.work, Work::Pair(..));
        let own = pair || matches!(self.work, Work::Connections(_) | Work::Many(_));
        let tcp = congestions
            .iter()
            .filter(|_| own)
            .map(|name| Way::Tcp(Some(name)));
        let mut ways: Vec<Way> = tcp.collect();
        if ways.is_empty() {
            ways.push(Way::Tcp(None));
        }
        if !busy {
            let has_unix = !matches!(self.work, Work::Program(_) | Work::Many(_));
            ways.extend(Some(Way::Unix).filter(|_| has_unix));
            ways.extend(Some(Way::Floor).filter(|_| pair));
        }
        ways.push(Way::Sdp);
        ways
    }

    /// A figure of this row: nanoseconds one way, or bytes, requests or connections in a second.
    pub fn measure(&self, way: &Way) -> Result<Option<f64>, Failure> {
        match (self.work, way) {
            (Work::Pair(SocketTraffic::Stream, bytes), Way::Floor) => {
                let few = ring::stream(bytes, 1000)?;
                let Some(rate) = few else { return Ok(None) };
                let messages = rate / bytes as f64 * FLOOR_NS / 1e9;
                ring::stream(bytes, messages.max(1000.0) as u64)
            }
            (Work::Pair(traffic, bytes), Way::Floor) => {
                let looking = match traffic {
                    SocketTraffic::Polled => Looking::Always,
                    _ if self.settings == NO_SPIN => Looking::Never,
                    _ => Looking::AWhile,
                };
                let few = ring::ping_pong_ns(bytes, 500, looking)?;
                let Some(ns) = few else { return Ok(None) };
                let rounds = (FLOOR_NS / ns / 2.0).max(500.0) as u64;
                ring::ping_pong_ns(bytes, rounds, looking)
            }
            (Work::Connections(_) | Work::Many(_), Way::Floor) => Ok(None),
            (Work::Connections(bytes), way) => {
                figure_by_socket(SocketTraffic::Connections, bytes, way, self.settings).map(Some)
            }
            (Work::Many(bytes), way) => {
                figure_by_socket(SocketTraffic::Many, bytes, way, self.settings).map(Some)
            }
            (Work::Pair(traffic, bytes), way) => {
                figure_by_socket(traffic, bytes, way, self.settings).map(Some)
            }
            (Work::Redis(connections, pipeline), way) => {
                redis::requests(way, self.settings, connections, pipeline).map(Some)
            }
            (Work::RedisTime(connections, pipeline), way) => {
                redis::processor_ns(way, self.settings, connections, pipeline).map(Some)
            }
            (Work::Program(program), way) => program.measure(way, self.settings).map(Some),
        }
    }
}

/// What two processes of this program find, a figure.
fn figure_by_socket(
    traffic: SocketTraffic,
    bytes: usize,
    way: &Way,
    settings: Settings,
) -> Result<f64, Failure> {
    let said = by_socket(traffic, bytes, way, way.environment(settings)?)?;
    said.parse()
        .map_err(|_| Failure::new(format!("two processes by {way:?} gave no figure: {said}")))
}

/// Two processes of this program, with more in their environment; what the first one prints.
pub fn by_socket(
    traffic: SocketTraffic,
    bytes: usize,
    way: &Way,
    environment: Vec<(&'static str, OsString)>,
) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::io("run", "socket-pair", &error);
    let traffic = traffic.to_possible_value().expect("each has a name");
    let mut command = Command::new(launch::ferriband()?);
    command
        .args(["socket-pair", traffic.get_name()])
        .args(["--bytes", &bytes.to_string()])
        .envs(environment);
    match way {
        Way::Unix => command.arg("--unix"),
        Way::Tcp(Some(name)) => command.args(["--congestion", name]),
        _ => &mut command,
    };
    let output = command.output().map_err(failed)?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        let why = format!("two processes by {way:?}: {}", error.trim());
        return Err(Failure::new(why));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// All rows, as far as their programs are there.
pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let row = |name: String, work, asked| Row {
        name,
        work,
        settings: DEFAULTS,
        asked,
    };
    for bytes in [1, 64, 1024] {
        let polled = Work::Pair(SocketTraffic::Polled, bytes);
        rows.push(row(format!("ping-pong {bytes} B, both poll"), polled, 8.0));
        let sleeping = Work::Pair(SocketTraffic::Sleeping, bytes);
        rows.push(row(format!("ping-pong {bytes} B, blocking"), sleeping, 4.0));
        rows.push(Row {
            settings: NO_SPIN,
            ..row(
                format!("ping-pong {bytes} B, blocking, spin = 0"),
                sleeping,
                1.4,
            )
        });
    }
    for (bytes, name, asked) in [
        (1, "1 B", 6.0),
        (64, "64 B", 4.0),
        (1 << 10, "1 KiB", 2.0),
        (4 << 10, "4 KiB", 1.2),
        (64 << 10, "64 KiB", 1.2),
        (256 << 10, "256 KiB", 1.5),
        (1 << 20, "1 MiB", 1.5),
    ] {
        rows.push(row(
            format!("stream of {name}"),
            Work::Pair(SocketTraffic::Stream, bytes),
            asked,
        ));
    }
    rows.push(row(
        "connect, 64 B there and back, close".to_owned(),
        Work::Connections(64),
        0.9,
    ));
    rows.push(row(
        "10,000 connections: made, 4 exchanges".to_owned(),
        Work::Many(64),
        0.9,
    ));
    if redis::is_there() {
        for (connections, pipeline, asked) in
            [(1, 1, 2.0), (1, 16, 1.3), (50, 1, 1.6), (50, 16, 1.2)]
        {
            let name = format!("redis GET, SET, c{connections} P{pipeline}");
            rows.push(row(name, Work::Redis(connections, pipeline), asked));
        }
        let name = "redis GET, SET, c50 P1, processor time".to_owned();
        rows.push(row(name, Work::RedisTime(50, 1), 1.0 / 0.6));
    }
    let nginx = |bytes, closes, caches| Program::Nginx {
        bytes,
        closes,
        caches,
    };
    let programs = [
        ("nginx 100 B, keep-alive", nginx(100, false, false), 1.2),
        ("nginx 100 B, open_file_cache", nginx(100, false, true), 1.4),
        ("nginx 1 MiB", nginx(1 << 20, false, false), 1.0),
        (
            "nginx 100 B, Connection: close",
            nginx(100, true, false),
            0.95,
        ),
        ("memcached c1", Program::Memcached, 1.4),
        ("iperf3", Program::Iperf3, 1.0),
        ("node echo", Program::Node, 1.2),
    ];
    let there = programs
        .into_iter()
        .filter(|(_, program, _)| program.is_there());
    rows.extend(
        there.map(|(name, program, asked)| row(name.to_owned(), Work::Program(program), asked)),
    );
    rows
}
