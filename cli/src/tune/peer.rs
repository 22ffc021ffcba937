//! A process of `tune sdp`, or of a row of `bench --sdp`, and the two of them together.
//!
//! Owns: one connection for each job, whose messages go by copies or by zero copy. Must not know:
//! what becomes of the figures.

use crate::failure::Failure;
use crate::perf::channel::Channel;
use crate::repro::{ToldEnd, open_adapter};
use ferriband_sdp_verbs::{Adapter, Endpoint, Error, FlowKind, Received, Stream, Wait};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Buffers of a side, for data, and bytes of each: as tunnels of sockets have.
const BUFFERS: u16 = 16;
const BUFFER_BYTES: u32 = 16 << 10;
/// Without any progress for so long a call fails: the other process is gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// Messages from the first process to the second, and one byte back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Messages {
    pub bytes: u32,
    pub count: u32,
    /// From which length on they go by zero copy; none: never.
    pub least: Option<u64>,
}

/// For so long a call that waits keeps its core.
const ALONE: Duration = Duration::from_millis(1);

/// What a process is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Ask {
    /// A new connection in the place of the one before, with this of the flow controls.
    Connect(usize),
    Send(Messages),
    Receive(Messages),
    Leave,
}

/// What the first process has found.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Found {
    /// Time of a message.
    pub ns: f64,
    /// Messages of which the peer has read bytes by zero copy, and these bytes.
    pub offers: u64,
    pub offered_bytes: u64,
}

/// The two processes.
pub struct Pair {
    processes: [Channel; 2],
}

impl Pair {
    /// Starts them, with these variables.
    pub fn start(variables: &[(&str, &str)]) -> Result<Self, Failure> {
        let start = || Channel::spawn(["tune-peer"], variables);
        Ok(Pair {
            processes: [start()?, start()?],
        })
    }

    /// Connects them by a flow control.
    pub fn connect(&mut self, flow: FlowKind) -> Result<(), Failure> {
        let [one, other] = &mut self.processes;
        let ask = Ask::Connect(flow as usize);
        one.say(&ask)?;
        other.say(&ask)?;
        let ends: (ToldEnd, ToldEnd) = (one.hear()?, other.hear()?);
        one.say(&ends.1)?;
        other.say(&ends.0)?;
        one.hear::<()>()?;
        other.hear()
    }

    /// Lets messages go.
    pub fn run(&mut self, messages: Messages) -> Result<Found, Failure> {
        let [one, other] = &mut self.processes;
        other.say(&Ask::Receive(messages))?;
        one.say(&Ask::Send(messages))?;
        other.hear::<Found>()?;
        one.hear()
    }

    /// Ends them.
    pub fn finish(self) -> Result<(), Failure> {
        for mut process in self.processes {
            process.say(&Ask::Leave)?;
            process.finish()?;
        }
        Ok(())
    }
}

fn explain(error: Error) -> Failure {
    Failure::new(format!("a connection of the measurement: {error}"))
}

/// The process: `ferriband tune-peer`, its standard input one end of a socket pair.
pub fn command() -> Result<ExitCode, Failure> {
    let mut channel = Channel::inherited()?;
    let adapter = open_adapter()?;
    let mut stream = None;
    loop {
        match channel.hear()? {
            Ask::Connect(flow) => {
                // the old one is left before
                drop(stream.take());
                stream = Some(connect(&adapter, FlowKind::ALL[flow], &mut channel)?);
            }
            Ask::Leave => return Ok(ExitCode::SUCCESS),
            Ask::Send(messages) => channel.say(&send(&mut stream, messages)?)?,
            Ask::Receive(messages) => channel.say(&receive(&mut stream, messages)?)?,
        }
    }
}

fn connect(
    adapter: &Arc<Adapter>,
    flow: FlowKind,
    channel: &mut Channel,
) -> Result<Stream, Failure> {
    let config = flow.config_with_offers(BUFFERS, BUFFER_BYTES);
    let endpoint = Endpoint::new(adapter, config).map_err(explain)?;
    channel.say(&ToldEnd::from(endpoint.end()))?;
    let peer: ToldEnd = channel.hear()?;
    let stream = endpoint.connect(&peer.into()).map_err(explain)?;
    channel.say(&())?;
    Ok(stream)
}

/// Waits by looking again, and lets others have the core when that takes longer than any of the
/// waits that are compared.
fn waiting() -> impl FnMut(&mut Stream) -> Result<Wait, Error> {
    let mut begun = None;
    let mut looks = 0_u64;
    move |stream| {
        looks += 1;
        if stream.progress()? > 0 {
            begun = None;
        } else if looks.is_multiple_of(16) {
            let waited = begun.get_or_insert_with(Instant::now).elapsed();
            if waited > PATIENCE {
                return Err(ferriband_sdp_proto::connection::Over::Lost.into());
            }
            if waited > ALONE {
                std::thread::yield_now();
            }
        }
        Ok(Wait::Longer)
    }
}

fn stream_of(stream: &mut Option<Stream>) -> Result<&mut Stream, Failure> {
    let missing = || Failure::new("a process of the measurement has no connection");
    stream.as_mut().ok_or_else(missing)
}

fn read_all(stream: &mut Stream, to: &mut [u8]) -> Result<(), Failure> {
    let mut have = 0;
    while have < to.len() {
        match stream.read(&mut to[have..], waiting()).map_err(explain)? {
            Received::Bytes(bytes) => have += bytes,
            Received::Nothing => {}
            Received::End => return Err(Failure::new("the measurement's peer has ended")),
        }
    }
    Ok(())
}

fn send(stream: &mut Option<Stream>, messages: Messages) -> Result<Found, Failure> {
    let stream = stream_of(stream)?;
    let bytes = vec![7; messages.bytes as usize];
    let before = *stream.machine().stats();
    stream.set_zero_copy(messages.least);
    let begun = Instant::now();
    for _ in 0..messages.count {
        stream.write(&bytes, waiting()).map_err(explain)?;
    }
    read_all(stream, &mut [0])?;
    let ns = begun.elapsed().as_nanos() as f64 / f64::from(messages.count);
    let stats = stream.machine().stats();
    Ok(Found {
        ns,
        offers: stats.offers_read - before.offers_read,
        offered_bytes: stats.bytes_offered - before.bytes_offered,
    })
}

fn receive(stream: &mut Option<Stream>, messages: Messages) -> Result<Found, Failure> {
    let stream = stream_of(stream)?;
    let mut to = vec![0; messages.bytes as usize];
    stream.set_zero_copy(messages.least);
    for _ in 0..messages.count {
        read_all(stream, &mut to)?;
    }
    stream.set_zero_copy(None);
    stream.write(&[7], waiting()).map_err(explain)?;
    // the byte has left when the peer's adapter has it
    let mut wait = waiting();
    while stream.machine().account().segments > 0 {
        wait(stream).map_err(explain)?;
    }
    Ok(Found::default())
}
