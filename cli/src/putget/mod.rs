//! Two processes that put, get, read and write, for `tune putget` and `repro 002`; and what
//! `ferriband putget` shows of others ([`status`]).
//!
//! Owns: their lives, where they run, what is said to them. What they do is `peer.rs`'s. Must not
//! know: what becomes of the figures.

mod peer;
mod show;
pub mod status;

use crate::args::ReproWire;
use crate::failure::Failure;
use crate::floor;
use crate::netns::TwoHosts;
use crate::perf::channel::Channel;
use ferriband_putget_verbs::crossover::DeviceKind;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub use peer::command as peer_command;

/// The kind of the device that has an address here.
pub fn device_at(address: IpAddr) -> Result<DeviceKind, Failure> {
    let kind = DeviceKind::at(peer::manager()?, address);
    kind.map_err(|error| Failure::new(format!("the device at {address}: {error}")))
}

/// Where the two processes are.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// On this host, which they reach each other on by this.
    OneHost(Option<ReproWire>),
    /// Each on a host of its own, by RoCEv2.
    TwoHosts(&'a TwoHosts),
}

/// Which processors they have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cores {
    /// A host has one: on one host both share it.
    One,
    /// A host has all of this machine's.
    All,
}

/// What one of the two processes is asked.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
enum Ask {
    /// To stay on this processor, with all threads to come.
    Pin(usize),
    /// To begin to listen at an address for puts and gets, with protocol messages of so many bytes.
    Open {
        at: IpAddr,
        message_bytes: u32,
    },
    /// To begin to listen at an address for channels.
    OpenChannels {
        at: IpAddr,
    },
    /// To connect what it has opened last; the other one listens there. None: to be connected.
    Connect(Option<SocketAddr>),
    ConnectChannel(Option<SocketAddr>),
    /// To do this, as the one that begins, or as the other.
    Work(Work, bool),
    Leave,
}

/// What the two processes do together.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Work {
    /// The latency program of the second driver (papers/002, Fig. 6).
    Puts(Operations),
    /// Gets of the first process, one after the other.
    Gets(Operations),
    /// The latency program of the first driver (Fig. 2): so many bytes, so many rounds.
    Matching {
        bytes: u32,
        rounds: u32,
        /// Reads are waited for, as in the paper, or tested again and again.
        blocking: bool,
    },
    /// Messages from the first process to the second, by the first driver.
    Stream { bytes: u32, messages: u32 },
}

/// Puts or gets of the second driver.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Operations {
    /// Over which of the connections, in the order in which they were opened.
    pub connection: usize,
    pub bytes: u32,
    pub rounds: u32,
    /// Up to how many bytes go in messages.
    pub crossover: u32,
}

/// What the first process has found.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Found {
    /// Time of a round trip, a get or a message, ns.
    pub ns: f64,
    /// What the paper counts as interrupts, here and there, for each of these.
    pub notifications: [f64; 2],
    /// Bytes of a protocol message, in the mean of both sides'.
    pub message_bytes: f64,
    /// How much of a processor each process took.
    pub processor: [f64; 2],
}

/// What one process has found.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
struct Part {
    ns: f64,
    /// Messages of this side, their bytes, and those that were solicited.
    messages: u64,
    message_bytes: u64,
    solicited: u64,
    /// Events of its own: RDMA that has ended, or completions of the first driver.
    events: u64,
    processor: f64,
}

/// The two processes.
pub struct Pair {
    processes: [Channel; 2],
    at: [IpAddr; 2],
    opened: usize,
}

impl Pair {
    /// Starts them.
    pub fn start(place: Place<'_>, cores: Cores) -> Result<Pair, Failure> {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let spawn = |wire: Option<ReproWire>| {
            let wire = wire.map(|wire| ("FERRIBAND_WIRE", wire.name()));
            Channel::spawn(["putget-peer"], wire.as_slice())
        };
        let (processes, at) = match place {
            Place::OneHost(wire) => ([spawn(wire)?, spawn(wire)?], [loopback; 2]),
            Place::TwoHosts(hosts) => {
                let at = [hosts.first.address, hosts.second.address].map(IpAddr::V4);
                let enter = |host: &crate::netns::Host| {
                    let entered = host.enter();
                    entered.map_err(|error| Failure::io("enter", "a network namespace", &error))
                };
                enter(&hosts.second)?;
                let second = spawn(None);
                enter(&hosts.first)?;
                ([spawn(None)?, second?], at)
            }
        };
        let mut pair = Pair {
            processes,
            at,
            opened: 0,
        };
        if cores == Cores::One {
            let affinity = floor::Affinity::save()?;
            let processors = affinity.processors();
            let shared = matches!(place, Place::OneHost(_));
            let second = usize::from(!shared) % processors.len();
            pair.say_each([Ask::Pin(processors[0]), Ask::Pin(processors[second])])?;
            pair.hear_each::<()>()?;
        }
        Ok(pair)
    }

    /// Opens a connection of the second driver; its number.
    pub fn open(&mut self, message_bytes: u32) -> Result<usize, Failure> {
        let asks = self.at.map(|at| Ask::Open { at, message_bytes });
        let [_, there] = self.both::<SocketAddr>(asks)?;
        self.both::<()>([Ask::Connect(Some(there)), Ask::Connect(None)])?;
        self.opened += 1;
        Ok(self.opened - 1)
    }

    /// Opens the channel of the first driver.
    pub fn open_channel(&mut self) -> Result<(), Failure> {
        let asks = self.at.map(|at| Ask::OpenChannels { at });
        let [_, there] = self.both::<SocketAddr>(asks)?;
        let asks = [Some(there), None].map(Ask::ConnectChannel);
        self.both::<()>(asks).map(drop)
    }

    /// Lets them work.
    pub fn work(&mut self, work: Work) -> Result<Found, Failure> {
        // each says when it can begin
        self.both::<()>([Ask::Work(work, true), Ask::Work(work, false)])?;
        self.say_each([(), ()])?;
        let [one, other] = self.hear_each::<Part>()?;
        let times = f64::from(match work {
            Work::Puts(of) | Work::Gets(of) => of.rounds,
            Work::Matching { rounds, .. } => rounds,
            Work::Stream { messages, .. } => messages,
        });
        let notified = |here: &Part, there: &Part| (here.events + there.solicited) as f64 / times;
        let bytes = (one.message_bytes + other.message_bytes) as f64;
        Ok(Found {
            ns: one.ns / times,
            notifications: [notified(&one, &other), notified(&other, &one)],
            message_bytes: bytes / (one.messages + other.messages).max(1) as f64,
            processor: [one.processor, other.processor],
        })
    }

    /// Ends them.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.say_each([Ask::Leave, Ask::Leave])?;
        self.processes.into_iter().try_for_each(Channel::finish)
    }

    fn both<T: serde::de::DeserializeOwned>(&mut self, asks: [Ask; 2]) -> Result<[T; 2], Failure> {
        self.say_each(asks)?;
        self.hear_each()
    }

    fn say_each(&mut self, values: [impl Serialize; 2]) -> Result<(), Failure> {
        let mut both = self.processes.iter_mut().zip(values);
        both.try_for_each(|(process, value)| process.say(&value))
    }

    fn hear_each<T: serde::de::DeserializeOwned>(&mut self) -> Result<[T; 2], Failure> {
        let [one, other] = &mut self.processes;
        Ok([one.hear()?, other.hear()?])
    }
}
