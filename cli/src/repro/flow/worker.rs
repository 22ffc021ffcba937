//! A process of an experiment: connects to its neighbours and does its part.
//!
//! Owns: what is said between the experiment and its processes, and each part. Must not know: which
//! figure it is for.

use super::ends::ToldEnd;
use super::filters::{ISOSURFACE, MICROSCOPE};
use super::socket::Socket;
use crate::domain::NATIVE;
use crate::failure::Failure;
use crate::floor;
use crate::launch;
use crate::perf::channel::Channel;
use ferriband_ibv::{Choice, Device, Verbs};
use ferriband_sdp_proto::connection::{Config, Flow, Usage, UsageMean};
use ferriband_sdp_verbs::{Adapter, Endpoint, Error};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A flow control by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kind {
    Credit,
    Ring,
    Nic,
}

impl Kind {
    /// All, in the order of the paper.
    pub const ALL: [Kind; 3] = [Kind::Credit, Kind::Ring, Kind::Nic];

    /// As the figures call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Credit => "credit",
            Kind::Ring => "ring",
            Kind::Nic => "nic",
        }
    }
}

/// Both sides of a connection of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Side {
    pub kind: Kind,
    /// N: buffers that data may fill.
    pub buffers: u16,
    /// S: bytes of each.
    pub buffer_bytes: u32,
    pub coalesce: bool,
}

impl Side {
    /// N x S.
    pub fn space_bytes(self) -> u32 {
        u32::from(self.buffers) * self.buffer_bytes
    }

    /// The standard protocol keeps two credits for messages without data: in *credit* their buffers
    /// come on top of N, so that N hold data as in the paper.
    fn config(self) -> Config {
        let (flow, buffers) = match self.kind {
            Kind::Credit => {
                let reserved = ferriband_sdp_wire::RESERVED_CREDITS as u16;
                (Flow::Credit, self.buffers + reserved)
            }
            // a WRITE carries no header: with few receives messages that give credits are many
            Kind::Ring => {
                let receives = 4 * self.buffers;
                (Flow::Ring { receives }, self.buffers)
            }
            Kind::Nic => {
                let window_bytes = self.buffer_bytes;
                let reserve_bytes = self.space_bytes();
                (
                    Flow::Nic {
                        window_bytes,
                        reserve_bytes,
                        offers: false,
                    },
                    self.buffers,
                )
            }
        };
        Config {
            flow,
            buffers,
            buffer_bytes: self.buffer_bytes,
            coalesce: self.coalesce,
        }
    }
}

/// The applications of figure 10.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Application {
    Microscope,
    Isosurface,
}

impl Application {
    /// Filters of a chain.
    pub fn filters(self) -> &'static [super::filters::Filter] {
        match self {
            Application::Microscope => &MICROSCOPE,
            Application::Isosurface => &ISOSURFACE,
        }
    }
}

/// What a process does. Of two processes the first is the one that the other follows.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Part {
    /// A message there and one of the same length back, so often. Both measure.
    PingPong { bytes: usize, rounds: u32 },
    /// So many messages there and one of one byte back, after ping-pong of one byte. The first
    /// measures.
    Stream {
        bytes: usize,
        messages: u32,
        is_sampled: bool,
    },
    /// `messages` there, computation of both, as many back; so often. The first measures.
    Bursts {
        bytes: usize,
        messages: u32,
        compute_us: u64,
        rounds: u32,
    },
    /// A filter of a chain, so many units of so many bytes.
    Filter {
        application: Application,
        position: usize,
        bytes: usize,
        units: u32,
        passes: u32,
    },
}

/// What a process is asked to do.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Job {
    pub side: Side,
    /// It has a neighbour before it, and one behind it.
    pub has_before: bool,
    pub has_behind: bool,
    /// How long a call looks again before it sleeps.
    pub spin_us: u64,
    /// Each process has a core of its own: which of those that it may use.
    pub core: Option<usize>,
    pub part: Part,
}

/// The ends of a process's connections.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ends {
    pub before: Option<ToldEnd>,
    pub behind: Option<ToldEnd>,
}

/// What a process has found.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Found {
    /// Time of its part, one way trips subtracted, ns.
    pub elapsed_ns: f64,
    /// Mean of the buffers that were not free, of N x S: of the send buffers the first process of a
    /// stream, of the receive buffers the second.
    pub used_share: f64,
    /// What the last filter has seen.
    pub seen: u64,
}

/// The process: `ferriband repro-peer`, its standard input one end of a socket pair.
pub fn command() -> Result<ExitCode, Failure> {
    let mut channel = Channel::inherited()?;
    let adapter = open_adapter()?;
    while let Some(job) = channel.hear::<Option<Job>>()? {
        work(&adapter, &job, &mut channel)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The first port of this host's own adapter.
pub fn open_adapter() -> Result<Arc<Adapter>, Failure> {
    let library = launch::lib_dir()?.join(launch::VERBS_SONAME);
    let explain =
        |error: &dyn std::fmt::Display| Failure::new(format!("adapter {NATIVE}: {error}"));
    let verbs = Verbs::load(&Choice::File(library)).map_err(|error| explain(&error))?;
    let devices = Device::list(verbs).map_err(|error| explain(&error))?;
    let device = devices.iter().find(|device| device.name() == NATIVE);
    let device = device.ok_or_else(|| Failure::new(format!("there is no adapter {NATIVE}")))?;
    let context = device.open().map_err(|error| explain(&error))?;
    Adapter::new(&context, 1).map_err(|error| explain(&error))
}

fn work(adapter: &Arc<Adapter>, job: &Job, channel: &mut Channel) -> Result<(), Failure> {
    let explain = |error: Error| Failure::new(format!("a connection of the experiment: {error}"));
    let config = job.side.config();
    let make = |wanted: bool| {
        let made = wanted.then(|| Endpoint::new(adapter, config));
        made.transpose().map_err(explain)
    };
    let (before, behind) = (make(job.has_before)?, make(job.has_behind)?);
    let told = |endpoint: &Option<Endpoint>| endpoint.as_ref().map(|side| side.end().into());
    channel.say(&Ends {
        before: told(&before),
        behind: told(&behind),
    })?;
    let peers: Ends = channel.hear()?;
    let connect = |endpoint: Option<Endpoint>, peer: Option<ToldEnd>| {
        let Some((endpoint, peer)) = endpoint.zip(peer) else {
            return Ok(None);
        };
        let stream = endpoint.connect(&peer.into()).map_err(explain)?;
        let spin = Duration::from_micros(job.spin_us);
        Ok(Some(Socket::new(stream, config.flow, spin)))
    };
    let before = connect(before, peers.before)?;
    let behind = connect(behind, peers.behind)?;
    channel.barrier()?;
    // the thread that stands for the interrupt runs where there is room
    let affinity = floor::Affinity::save()?;
    let core = job
        .core
        .and_then(|index| affinity.processors().get(index).copied());
    core.into_iter().for_each(floor::pin);
    let found = part(job, before.as_ref(), behind.as_ref());
    drop(affinity);
    channel.say(&found?)?;
    // a connection ends when the parts of all are done
    channel.hear()
}

fn part(job: &Job, before: Option<&Socket>, behind: Option<&Socket>) -> Result<Found, Failure> {
    let (socket, is_first) = match (before, behind) {
        (_, Some(behind)) => (behind, before.is_none()),
        (Some(before), None) => (before, false),
        (None, None) => {
            return Err(Failure::new(
                "a process of the experiment has no connection",
            ));
        }
    };
    match job.part {
        Part::PingPong { bytes, rounds } => {
            ping_pong(socket, is_first, bytes, rounds / 10 + 1)?;
            let elapsed_ns = ping_pong(socket, is_first, bytes, rounds)?;
            Ok(Found {
                elapsed_ns,
                ..Found::default()
            })
        }
        Part::Stream {
            bytes,
            messages,
            is_sampled,
        } => {
            let reply_ns = ping_pong(socket, is_first, 1, REPLY_ROUNDS)? / 2.0;
            let side = is_sampled.then_some(&job.side);
            if is_first {
                send_stream(socket, side, bytes, messages, reply_ns)
            } else {
                receive_stream(socket, side, bytes, messages)
            }
        }
        Part::Bursts {
            bytes,
            messages,
            compute_us,
            rounds,
        } => {
            let compute = Duration::from_micros(compute_us);
            bursts(socket, is_first, bytes, messages, compute, rounds / 10 + 1)?;
            let elapsed_ns = bursts(socket, is_first, bytes, messages, compute, rounds)?;
            Ok(Found {
                elapsed_ns,
                ..Found::default()
            })
        }
        Part::Filter {
            application,
            position,
            bytes,
            units,
            passes,
        } => {
            let filter = application.filters()[position];
            let mut unit = vec![0; bytes];
            let mut sum = 0;
            let begun = Instant::now();
            for _ in 0..units {
                if let Some(before) = before {
                    before.receive(&mut unit)?;
                }
                for _ in 0..passes {
                    filter(&mut unit, &mut sum);
                }
                if let Some(behind) = behind {
                    behind.send(&unit)?;
                }
            }
            if let Some(behind) = behind {
                behind.flush()?;
            }
            let elapsed_ns = begun.elapsed().as_nanos() as f64;
            Ok(Found {
                elapsed_ns,
                seen: sum,
                ..Found::default()
            })
        }
    }
}

/// Mean time of a round trip, ns.
fn ping_pong(socket: &Socket, is_first: bool, bytes: usize, rounds: u32) -> Result<f64, Failure> {
    let mut message = vec![7; bytes];
    let begun = Instant::now();
    for _ in 0..rounds {
        if is_first {
            socket.send(&message)?;
        }
        socket.receive(&mut message)?;
        if !is_first {
            socket.send(&message)?;
        }
    }
    Ok(begun.elapsed().as_nanos() as f64 / f64::from(rounds))
}

/// Rounds of ping-pong that a stream takes its reply's time from.
const REPLY_ROUNDS: u32 = 200;
/// Between two samples of the buffers.
const SAMPLE: Duration = Duration::from_micros(20);

/// Neither the first messages, which fill the buffers, nor the last, which nobody follows.
fn is_steady(index: u32, messages: u32) -> bool {
    (messages / 10..messages - messages / 10).contains(&index)
}

/// Sends a stream and waits for the reply, whose time is subtracted. With `side`, looks at the send
/// buffers after each call.
fn send_stream(
    socket: &Socket,
    side: Option<&Side>,
    bytes: usize,
    messages: u32,
    reply_ns: f64,
) -> Result<Found, Failure> {
    let message = vec![7; bytes];
    let mut usage = UsageMean::default();
    let begun = Instant::now();
    let (mut held, mut since) = (Usage::default(), begun);
    for index in 0..messages {
        socket.send(&message)?;
        if side.is_none() {
            continue;
        }
        let now = Instant::now();
        if is_steady(index, messages) {
            // what a call has left in the buffers stays there until the next ends
            usage.sample(held, (now - since).as_nanos() as u64);
        }
        (held, since) = (socket.usage(), now);
    }
    socket.receive(&mut [0])?;
    let elapsed_ns = begun.elapsed().as_nanos() as f64 - reply_ns;
    let mean = usage.mean().unwrap_or_default();
    let space = side.map_or(1, |side| side.space_bytes());
    Ok(Found {
        elapsed_ns,
        used_share: f64::from(mean.send_bytes) / f64::from(space),
        ..Found::default()
    })
}

/// Receives a stream and replies. With `side`, samples the receive buffers.
fn receive_stream(
    socket: &Socket,
    side: Option<&Side>,
    bytes: usize,
    messages: u32,
) -> Result<Found, Failure> {
    let mut message = vec![7; bytes];
    let (mut samples, mut used) = (0.0, 0.0);
    let mut next = Instant::now();
    for index in 0..messages {
        socket.receive(&mut message)?;
        let Some(side) = side.filter(|_| is_steady(index, messages)) else {
            continue;
        };
        if Instant::now() >= next {
            used += unfree_bytes(socket, side, bytes)? / f64::from(side.space_bytes());
            samples += 1.0;
            next = Instant::now() + SAMPLE;
        }
    }
    socket.send(&[7])?;
    socket.flush()?;
    let used_share = if samples > 0.0 { used / samples } else { 0.0 };
    Ok(Found {
        used_share,
        ..Found::default()
    })
}

/// Bytes of the receive buffers "in which data is already copied and is not free to be used"
/// (papers/004, section 6.2.3): not read, or read and the sender does not know it.
fn unfree_bytes(socket: &Socket, side: &Side, bytes: usize) -> Result<f64, Failure> {
    socket.look(|stream| {
        let machine = stream.machine();
        let unread = f64::from(machine.usage().receive_bytes);
        let untold = match side.kind {
            // free buffers that the sender does not know of, each of which held a message
            Kind::Credit => {
                let held = (bytes as f64).min(f64::from(side.buffer_bytes));
                f64::from(machine.account().untold.max(0)) * held
            }
            Kind::Ring | Kind::Nic => f64::from(machine.untold_bytes()),
        };
        unread + untold
    })
}

/// Mean time of a round, ns.
fn bursts(
    socket: &Socket,
    is_first: bool,
    bytes: usize,
    messages: u32,
    compute: Duration,
    rounds: u32,
) -> Result<f64, Failure> {
    let mut message = vec![7; bytes];
    let begun = Instant::now();
    for _ in 0..rounds {
        if is_first {
            (0..messages).try_for_each(|_| socket.send(&message))?;
            burn(compute);
        }
        (0..messages).try_for_each(|_| socket.receive(&mut message))?;
        if !is_first {
            burn(compute);
            (0..messages).try_for_each(|_| socket.send(&message))?;
        }
    }
    let elapsed = begun.elapsed().as_nanos() as f64 / f64::from(rounds);
    socket.flush()?;
    Ok(elapsed)
}

/// Computes for so long.
fn burn(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}
