//! Links that go down and come back under a job, with datagrams both ways and a TCP connection
//! beside it.
//!
//! Owns: what is done to the interface and when, and what came when. Times are of the clock that
//! all processes of this machine share. Must not know: what is made of the figures.

use super::jobs::{Job, Jobs};
use crate::failure::Failure;
use crate::netns::{self, Host, TwoHosts};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A datagram goes so often, and bytes by TCP so often.
const DATAGRAM_EVERY: Duration = Duration::from_micros(200);
const SEGMENT_EVERY: Duration = Duration::from_millis(1);
/// A socket looks up so often whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What a job takes to begin, at the most; how long it goes on before the first flap, and behind
/// the last one.
const PATIENCE: Duration = Duration::from_secs(20);
const BEFORE: Duration = Duration::from_millis(300);
const BEHIND: Duration = Duration::from_secs(1);

/// Whose interface goes down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// That of the sender's host.
    Here,
    /// That of the receiver's.
    There,
}

/// What a link does.
#[derive(Clone, Copy, Debug)]
pub struct Flaps {
    /// Whose.
    pub end: End,
    /// How long it is down.
    pub down: Duration,
    /// How often.
    pub times: u32,
}

/// What came after a link was up again, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Return {
    /// From the link's return until a datagram has come each way: each host's kernel has to learn
    /// the other's address anew, and asks once a second.
    pub datagram: f64,
    /// The first message of MPI behind these datagrams; 0: it came before.
    pub message: f64,
    /// The first byte by TCP behind these datagrams, 0: before; None: none came until the next
    /// flap.
    pub tcp: Option<f64>,
}

/// When something came, in nanoseconds, in order.
type Arrivals = Vec<i64>;

impl Flaps {
    /// Until the next flap: a TCP connection doubles its pauses while nothing answers.
    fn up(self) -> Duration {
        BEFORE + self.down * 2
    }

    fn seconds(self) -> f64 {
        let whole = (self.down + self.up()) * self.times + BEFORE + BEHIND;
        whole.as_secs_f64()
    }
}

/// Runs a job of two ranks, one on each host, while the link flaps.
///
/// # Errors
/// The job does not end well, or something never came again.
pub fn run(jobs: &Jobs<'_>, hosts: &TwoHosts, flaps: Flaps) -> Result<Vec<Return>, Failure> {
    let path = jobs.path("arrivals");
    let _ = fs::remove_file(&path);
    let is_over = AtomicBool::new(false);
    let (ran, ups, forth, back, bytes) = thread::scope(|scope| {
        let (is_over, path) = (&is_over, path.as_path());
        let flapping = scope.spawn(move || flap(hosts, flaps, path, is_over));
        let forth = scope.spawn(move || datagrams([&hosts.first, &hosts.second], is_over));
        let back = scope.spawn(move || datagrams([&hosts.second, &hosts.first], is_over));
        let stream = scope.spawn(move || segments(hosts, is_over));
        let ran = jobs.run(&Job {
            ranks: 2,
            settings: &[],
            words: vec![
                "steady".to_owned(),
                flaps.seconds().to_string(),
                path.display().to_string(),
            ],
        });
        is_over.store(true, Ordering::Release);
        let (forth, back) = (joined(forth), joined(back));
        (ran, joined(flapping), forth, back, joined(stream))
    });
    ran?;
    let fail = |error: io::Error| Failure::new(format!("beside a job: {error}"));
    let seen = Seen {
        datagrams: [forth.map_err(fail)?, back.map_err(fail)?],
        messages: read(&path)?,
        bytes: bytes.map_err(fail)?,
    };
    seen.returns(&ups.map_err(fail)?)
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    let ended = thread.join();
    ended.unwrap_or_else(|_| Err(io::Error::other("a thread has failed")))
}

/// What has come.
struct Seen {
    /// Forth and back.
    datagrams: [Arrivals; 2],
    messages: Arrivals,
    bytes: Arrivals,
}

impl Seen {
    /// What came first behind each return of the link.
    fn returns(&self, ups: &[i64]) -> Result<Vec<Return>, Failure> {
        let each = ups.iter().enumerate().map(|(index, &up)| {
            let lost =
                |what: &str| Failure::new(format!("no {what} came behind flap {}", index + 1));
            let [forth, back] = self.datagrams.each_ref().map(|way| first(way, up));
            let both = forth.zip(back).map(|(forth, back)| forth.max(back));
            let datagram = both.ok_or_else(|| lost("datagram"))?;
            let message = first(&self.messages, up).ok_or_else(|| lost("message"))?;
            let next = ups.get(index + 1).copied().unwrap_or(i64::MAX);
            let tcp = first(&self.bytes, up).filter(|at| *at < next);
            let behind = |at: i64| (at - datagram).max(0) as f64;
            Ok(Return {
                datagram: (datagram - up) as f64,
                message: behind(message),
                tcp: tcp.map(behind),
            })
        });
        each.collect()
    }
}

fn first(of: &Arrivals, behind: i64) -> Option<i64> {
    of.get(of.partition_point(|at| *at < behind)).copied()
}

fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Flaps once messages go; when the link was up again, each time.
fn flap(
    hosts: &TwoHosts,
    flaps: Flaps,
    begun: &Path,
    is_over: &AtomicBool,
) -> io::Result<Arrivals> {
    let host = match flaps.end {
        End::Here => &hosts.first,
        End::There => &hosts.second,
    };
    host.enter()?;
    let patience = Instant::now() + PATIENCE;
    while !begun.exists() {
        if is_over.load(Ordering::Acquire) || Instant::now() > patience {
            return Err(io::Error::other("the job has not begun"));
        }
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(BEFORE);
    let mut ups = Vec::new();
    for _ in 0..flaps.times {
        netns::set_link(false)?;
        thread::sleep(flaps.down);
        netns::set_link(true)?;
        ups.push(now());
        thread::sleep(flaps.up());
    }
    Ok(ups)
}

fn any_port(host: &Host) -> SocketAddr {
    SocketAddr::from((host.address, 0))
}

/// Datagrams from one host to another: when each came.
fn datagrams([from, to]: [&Host; 2], is_over: &AtomicBool) -> io::Result<Arrivals> {
    to.enter()?;
    let taker = UdpSocket::bind(any_port(to))?;
    taker.set_read_timeout(Some(LOOK_EVERY))?;
    let address = taker.local_addr()?;
    thread::scope(|scope| {
        let sender = scope.spawn(move || {
            from.enter()?;
            let socket = UdpSocket::bind(any_port(from))?;
            while !is_over.load(Ordering::Acquire) {
                // while the link is down there is no way
                let _ = socket.send_to(&[0; 8], address);
                thread::sleep(DATAGRAM_EVERY);
            }
            Ok(())
        });
        let mut arrivals = Vec::new();
        while !is_over.load(Ordering::Acquire) {
            match taker.recv(&mut [0; 64]) {
                Ok(_) => arrivals.push(now()),
                Err(error) if is_no_news(&error) => {}
                Err(error) => return Err(error),
            }
        }
        joined(sender)?;
        Ok(arrivals)
    })
}

/// Bytes by TCP from the first host to the second: when some came.
fn segments(hosts: &TwoHosts, is_over: &AtomicBool) -> io::Result<Arrivals> {
    hosts.second.enter()?;
    let listener = TcpListener::bind(any_port(&hosts.second))?;
    let to = listener.local_addr()?;
    thread::scope(|scope| {
        let sender = scope.spawn(move || {
            hosts.first.enter()?;
            let mut stream = TcpStream::connect(to)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            while !is_over.load(Ordering::Acquire) {
                match stream.write(&[0; 8]) {
                    Err(error) if !is_no_news(&error) => return Err(error),
                    _ => thread::sleep(SEGMENT_EVERY),
                }
            }
            Ok(())
        });
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(LOOK_EVERY))?;
        let mut arrivals = Vec::new();
        while !is_over.load(Ordering::Acquire) {
            match stream.read(&mut [0; 4096]) {
                Ok(0) => break,
                Ok(_) => arrivals.push(now()),
                Err(error) if is_no_news(&error) => {}
                Err(error) => return Err(error),
            }
        }
        joined(sender)?;
        Ok(arrivals)
    })
}

fn is_no_news(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// When messages came, as rank 1 has written it down.
fn read(path: &Path) -> Result<Arrivals, Failure> {
    let bytes =
        fs::read(path).map_err(|error| Failure::io("read", &path.display().to_string(), &error))?;
    let (whole, _) = bytes.as_chunks::<8>();
    Ok(whole.iter().map(|word| i64::from_ne_bytes(*word)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_first_behind_a_return_counts() {
        let ups = [100, 1000];
        let mut seen = Seen {
            datagrams: [vec![50, 115, 130, 1010], vec![120, 1002]],
            messages: vec![60, 150, 900, 1005],
            bytes: vec![90, 1200],
        };
        let found = seen.returns(&ups).expect("all came");
        assert_eq!((found[0].datagram, found[0].message), (20.0, 30.0));
        // TCP was silent until the next flap
        assert_eq!((found[0].tcp, found[1].tcp), (None, Some(190.0)));
        assert_eq!(found[1].message, 0.0, "it came before the datagram");
        seen.messages = vec![60, 150];
        let said = seen.returns(&ups).expect_err("no message").to_string();
        assert!(said.contains("no message came behind flap 2"), "{said}");
    }
}
