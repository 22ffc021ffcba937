//! Many connections that are kept: how fast they are made, and what they cost while nothing moves.
//!
//! Owns: the loops of `ferriband socket-pair many` and `idle`, and what is read of the two
//! processes in /proc. Must not know: what carries the bytes.

use super::pair::{receive, send, start};
use super::{Way, rows};
use crate::args::{SocketPairArgs, SocketTraffic};
use crate::failure::Failure;
use crate::launch::allow_descriptors;
use crate::text::print_line;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Connections that are kept.
const CONNECTIONS: u32 = 10_000;
/// Until the two sides have agreed on all, on a busy machine too.
const SETTLED: Duration = Duration::from_secs(3);
/// Exchanges on each when both sides have agreed: its bytes go by SDP.
const CARRIED: usize = 3;
/// What part of them has to go by SDP, for their cost to count.
const LEAST_UPGRADED: f64 = 0.9;
/// How long nothing moves.
const IDLE: Duration = Duration::from_secs(5);
/// What a connection may take, KiB of both processes.
const MOST_KIB: f64 = 24.0;
/// What all of them may take, percent of a core: a clock tick of each process in that time.
const MOST_PERCENT: f64 = 0.4;

/// What connections cost on which nothing moves.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Idle {
    pub connections: u32,
    /// Those that go by SDP.
    pub upgraded: u32,
    /// Memory of both processes for each, KiB.
    pub kib: f64,
    /// Processor time of both, percent of a core.
    pub percent: f64,
}

impl Idle {
    /// Whether they cost as little as is asked.
    pub fn verdict(&self) -> &'static str {
        let upgraded = f64::from(self.upgraded) >= LEAST_UPGRADED * f64::from(self.connections);
        match upgraded && self.kib <= MOST_KIB && self.percent <= MOST_PERCENT {
            true => "PASS",
            false => "FAIL",
        }
    }

    pub fn print(&self) -> Result<(), Failure> {
        let Self {
            connections,
            upgraded,
            kib,
            percent,
        } = self;
        let verdict = self.verdict();
        print_line(&format!(
            "\n{connections} idle connections, {upgraded} by SDP: {kib:.1} KiB each at both ends together (asked: at most {MOST_KIB}), {percent:.1} % of a core (asked: none): {verdict}"
        ))
    }
}

/// What they cost by SDP.
pub fn idle() -> Result<Idle, Failure> {
    let counters = std::env::temp_dir().join(format!("ferriband-idle-{}", std::process::id()));
    let mut environment = Way::Sdp.environment(super::DEFAULTS)?;
    environment.push(("FERRIBAND_SDP_COUNTERS", counters.clone().into()));
    let said = rows::by_socket(SocketTraffic::Idle, 64, &Way::Sdp, environment);
    let lines = std::fs::read_to_string(&counters).unwrap_or_default();
    let _ = std::fs::remove_file(&counters);
    let said = said?;
    let mut idle: Idle = serde_json::from_str(&said)
        .map_err(|error| Failure::new(format!("idle connections: {error}: {said}")))?;
    let ends = lines.lines().filter_map(|line| {
        let row: serde_json::Value = serde_json::from_str(line).ok()?;
        u32::try_from(row["upgraded"].as_u64()?).ok()
    });
    // each connection has two ends, and the one that tells when to go on may be among them
    idle.upgraded = (ends.sum::<u32>() / 2).min(idle.connections);
    Ok(idle)
}

/// Takes all connections; gives how many in a second, or, for `idle`, what they cost then.
pub fn first(args: &SocketPairArgs) -> io::Result<String> {
    allow_descriptors(u64::from(CONNECTIONS) * 2);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    super::pair::set_congestion(&listener, args)?;
    let mut child = start(args, &listener.local_addr()?.to_string())?;
    let mut bytes = vec![0; args.bytes];
    // the first one says when the others may come, and when all may end
    let mut control = listener.accept()?.0;
    let both = [std::process::id(), child.id()];
    let before = memory_kib(both)?;
    send(&mut control, &bytes)?;
    let begin = Instant::now();
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = listener.accept()?.0;
        stream.set_nodelay(true)?;
        answer(&mut stream, &mut bytes, args.exchanges)?;
        streams.push(stream);
    }
    let rate = f64::from(CONNECTIONS) / begin.elapsed().as_secs_f64();
    if args.traffic != SocketTraffic::Idle {
        drop(control);
        child.wait()?;
        return Ok(rate.to_string());
    }
    std::thread::sleep(SETTLED);
    send(&mut control, &bytes)?;
    for stream in &mut streams {
        exchange(stream, &mut bytes, CARRIED)?;
    }
    std::thread::sleep(SETTLED);
    let kib = (memory_kib(both)? - before) / f64::from(CONNECTIONS);
    let used = processor_time(both)?;
    let quiet = Instant::now();
    std::thread::sleep(IDLE);
    let used = processor_time(both)? - used;
    let percent = used / quiet.elapsed().as_secs_f64() * 100.0;
    // each of them still carries bytes
    send(&mut control, &bytes)?;
    for stream in &mut streams {
        exchange(stream, &mut bytes, 1)?;
    }
    child.wait()?;
    let idle = Idle {
        connections: CONNECTIONS,
        upgraded: 0,
        kib,
        percent,
    };
    Ok(serde_json::to_string(&idle)?)
}

/// Makes all connections, and answers on each as often as the first process wants it.
pub fn second(args: &SocketPairArgs, peer: &str) -> io::Result<()> {
    allow_descriptors(u64::from(CONNECTIONS) * 2);
    let mut bytes = vec![0; args.bytes];
    let mut control = TcpStream::connect(peer)?;
    expect(&mut control, &mut bytes)?;
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(peer)?;
        stream.set_nodelay(true)?;
        exchange(&mut stream, &mut bytes, args.exchanges)?;
        streams.push(stream);
    }
    for exchanges in [CARRIED, 1] {
        if !receive(&mut control, &mut bytes)? {
            break;
        }
        for stream in &mut streams {
            answer(stream, &mut bytes, exchanges)?;
        }
    }
    Ok(())
}

/// Sends a message and receives its answer, so many times.
fn exchange(stream: &mut TcpStream, bytes: &mut [u8], times: usize) -> io::Result<()> {
    for _ in 0..times {
        send(stream, bytes)?;
        expect(stream, bytes)?;
    }
    Ok(())
}

/// The other end of [`exchange`].
fn answer(stream: &mut TcpStream, bytes: &mut [u8], times: usize) -> io::Result<()> {
    for _ in 0..times {
        expect(stream, bytes)?;
        send(stream, bytes)?;
    }
    Ok(())
}

/// Receives a message, before which the peer must not close.
fn expect(stream: &mut TcpStream, bytes: &mut [u8]) -> io::Result<()> {
    match receive(stream, bytes)? {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Memory of processes, KiB; each page that both have counts half for each.
fn memory_kib(processes: [u32; 2]) -> io::Result<f64> {
    let mut sum = 0.0;
    for pid in processes {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let figure = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        sum += figure.ok_or(io::ErrorKind::InvalidData)?;
    }
    Ok(sum)
}

/// Processor time of processes, seconds.
fn processor_time(processes: [u32; 2]) -> io::Result<f64> {
    let mut ticks = 0;
    for pid in processes {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // behind the name, which may hold anything: user and system time are the 12th and the 13th
        let (_, rest) = text.rsplit_once(')').ok_or(io::ErrorKind::InvalidData)?;
        let times = rest.split_whitespace().skip(11).take(2);
        ticks += times
            .filter_map(|word| word.parse::<u64>().ok())
            .sum::<u64>();
    }
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
