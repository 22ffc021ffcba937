//! One of the two processes: opens, connects, and does its part.
//!
//! Owns: the programs of papers/002, Figs. 2 and 6, on the library's own code. Must not know: what
//! is compared.

use super::{Ask, Operations, Part, Work};
use crate::failure::Failure;
use crate::floor;
use crate::launch;
use crate::perf::channel::Channel;
use ferriband_ibv::{Access, Choice, Cm, Mr, Region, Verbs};
use ferriband_putget::process::{Errno, NOTIFICATION_BYTES, Process, begin, bind};
use ferriband_putget_proto::Kind;
use ferriband_putget_proto::matching::{NotBegun, Outcome};
use ferriband_putget_proto::tags::{Direction, Note, Range};
use ferriband_putget_verbs::channels::{Channels, ELEMENT_BYTES, Memory, Number, Transfer, Way};
use ferriband_putget_verbs::crossover::Crossover;
use ferriband_putget_verbs::{Node, Peer, Server, Waited};
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// The longest put, get or message.
const LONGEST: usize = 1 << 20;
/// Without any progress for so long the other process is gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// Looks between two looks at the time.
const LOOKS: u32 = 1 << 12;
/// Writes of a stream that are under way; its reads are twice as many, so that a write seldom has
/// to wait for one.
const WINDOW: usize = 16;
const DATA: u32 = 1;
const NOTES: u32 = 2;

/// The process: `ferriband putget-peer`, its standard input one end of a socket pair.
pub fn command() -> Result<ExitCode, Failure> {
    let mut channel = Channel::inherited()?;
    let mut sides: Vec<Side> = Vec::new();
    let mut matching = None;
    loop {
        match channel.hear()? {
            Ask::Pin(processor) => {
                floor::pin(processor);
                channel.say(&())?;
            }
            Ask::Open { at, message_bytes } => {
                sides.push(Side::open(at, message_bytes)?);
                let side = sides.last().ok_or_else(|| missing("side"))?;
                channel.say(&side.server.with(|node| node.address()))?;
            }
            Ask::Connect(to) => {
                let side = sides.last_mut().ok_or_else(|| missing("side"))?;
                side.connect(to)?;
                channel.say(&())?;
            }
            Ask::OpenChannels { at } => {
                let opened = Matching::open(at)?;
                channel.say(&opened.channels.address())?;
                matching = Some(opened);
            }
            Ask::ConnectChannel(to) => {
                let matching = matching.as_mut().ok_or_else(|| missing("channel"))?;
                matching.connect(to)?;
                channel.say(&())?;
            }
            Ask::Work(work, is_first) => {
                let mut job = Job {
                    channel: &mut channel,
                    is_first,
                };
                let part = match work {
                    Work::Puts(of) => job.puts(side_of(&sides, &of)?, &of),
                    Work::Gets(of) => job.gets(side_of(&sides, &of)?, &of),
                    Work::Matching { .. } | Work::Stream { .. } => {
                        let matching = matching.as_ref().ok_or_else(|| missing("channel"))?;
                        job.matching(matching, work)
                    }
                }?;
                channel.say(&part)?;
            }
            Ask::Leave => return Ok(ExitCode::SUCCESS),
        }
    }
}

fn missing(what: &str) -> Failure {
    Failure::new(format!("a process of the measurement has no {what}"))
}

fn explain(error: impl Display) -> Failure {
    Failure::new(format!("a connection of the measurement: {error}"))
}

fn refused(errno: Errno) -> Failure {
    explain(std::io::Error::from_raw_os_error(errno.0))
}

fn side_of<'a>(sides: &'a [Side], of: &Operations) -> Result<&'a Side, Failure> {
    sides
        .get(of.connection)
        .ok_or_else(|| missing("such connection"))
}

/// The connection manager of Ferriband's own library.
pub fn manager() -> Result<&'static Cm, Failure> {
    let library = launch::lib_dir()?.join(launch::VERBS_SONAME);
    let verbs = Verbs::load(&Choice::File(library)).map_err(explain)?;
    Cm::load(verbs).map_err(explain)
}

/// Looks again, gives the core to others, and fails when nothing happens for long.
fn poll<R>(mut found: impl FnMut() -> Result<Option<R>, Failure>) -> Result<R, Failure> {
    let mut end = None;
    loop {
        for _ in 0..LOOKS {
            if let Some(done) = found()? {
                return Ok(done);
            }
            yield_now();
        }
        let begun = end.get_or_insert_with(Instant::now);
        if begun.elapsed() > PATIENCE {
            return Err(explain("nothing has come for long"));
        }
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A side of a connection of the second driver.
struct Side {
    server: Server<Process>,
    notes: Arc<Region>,
    /// What the buffer with the tag `DATA` is.
    _data: Arc<Region>,
    peer: Option<Peer>,
}

impl Side {
    fn open(at: IpAddr, message_bytes: u32) -> Result<Side, Failure> {
        let settings = ferriband_putget::settings(message_bytes);
        let process = Process::new(Crossover::USUAL);
        let at = SocketAddr::new(at, 0);
        let node = Node::listen(manager()?, at, settings, process).map_err(explain)?;
        let server = Server::begin(node).map_err(explain)?;
        let register = |tag, bytes: usize| {
            let region = Region::create(c"putget-peer", bytes).map_err(explain)?;
            let range = Range {
                address: region.address(),
                length: bytes as u64,
            };
            let registered = server.with(|node| {
                let pd = node.own_domain().map_err(explain)?;
                // SAFETY: the region lives as long as the server, and is reached by copies alone.
                let tag = unsafe { node.users.register(&pd, range, Some(tag)) };
                tag.map_err(refused)
            });
            registered.map(|_| region)
        };
        let data = register(DATA, LONGEST)?;
        let notes = register(NOTES, NOTIFICATION_BYTES)?;
        Ok(Side {
            server,
            notes,
            _data: data,
            peer: None,
        })
    }

    fn connect(&mut self, to: Option<SocketAddr>) -> Result<(), Failure> {
        let asked = match to {
            Some(to) => Some(self.server.with(|node| {
                let peer = node.peer(to);
                node.users.asked.push(peer);
                node.join(peer).map(|()| peer).map_err(explain)
            })?),
            None => None,
        };
        let end = ferriband_host::wake::now() + PATIENCE;
        let joined = self.server.wait(Some(end), |node| match asked {
            Some(peer) => node.is_joined(peer).then_some(peer),
            None => node.users.arrived.pop_front(),
        });
        match joined.map_err(explain)? {
            Waited::Done(peer) => self.peer = Some(peer),
            Waited::TimedOut => return Err(explain("nobody answers")),
        }
        Ok(())
    }

    /// Binds the notification of the next data.
    fn bind(&self) -> Result<(), Failure> {
        let note = Note(self.notes.address());
        bind(&self.server, DATA, Direction::Incoming, note).map_err(refused)
    }

    fn start(&self, kind: Kind, bytes: u32) -> Result<(), Failure> {
        let peer = self.peer.ok_or_else(|| missing("peer"))?;
        poll(|| {
            let begun = self
                .server
                .with(|node| begin(node, peer, kind, (DATA, DATA), bytes.into(), None));
            match begun {
                Ok(()) => Ok(Some(())),
                Err(Errno(libc::EAGAIN)) => Ok(None),
                Err(errno) => Err(refused(errno)),
            }
        })
    }

    /// Polls the notification.
    fn await_note(&self) -> Result<(), Failure> {
        let word = |at| self.notes.word32(at).map_err(explain);
        let (state, status) = (word(0)?, word(4)?);
        poll(|| Ok((state.load(Ordering::Acquire) != 0).then_some(())))?;
        state.store(0, Ordering::Relaxed);
        match status.load(Ordering::Relaxed) {
            0 => Ok(()),
            status => Err(explain(format!("an operation has ended with {status}"))),
        }
    }

    /// What this side has done so far.
    fn part(&self) -> Result<Part, Failure> {
        let peer = self.peer.ok_or_else(|| missing("peer"))?;
        // what ends the last request may be under way, and comes without an event
        poll(|| {
            let looked = self
                .server
                .with(|node| node.look().map(|_| node.is_quiet(peer)));
            Ok(looked.map_err(explain)?.then_some(()))
        })?;
        let stats = self.server.with(|node| node.stats(peer).copied());
        let stats = stats.ok_or_else(|| missing("connection"))?;
        Ok(Part {
            ns: 0.0,
            messages: stats.paths.messages,
            message_bytes: stats.paths.message_bytes,
            solicited: stats.paths.solicited,
            events: stats.paths.rdma,
            processor: 0.0,
        })
    }
}

/// The part of a process.
struct Job<'a> {
    channel: &'a mut Channel,
    is_first: bool,
}

impl Job<'_> {
    /// Waits until both can begin, and takes the time of what is done.
    fn timed(&mut self, act: impl FnOnce() -> Result<(), Failure>) -> Result<(f64, f64), Failure> {
        self.channel.barrier()?;
        let (begun, before) = (Instant::now(), processor_time());
        act()?;
        let elapsed = begun.elapsed();
        let spent = processor_time().saturating_sub(before);
        Ok((
            elapsed.as_nanos() as f64,
            spent.as_secs_f64() / elapsed.as_secs_f64(),
        ))
    }

    fn measured(
        &mut self,
        side: &Side,
        act: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Part, Failure> {
        let before = side.part()?;
        let (ns, processor) = self.timed(act)?;
        let after = side.part()?;
        Ok(Part {
            ns,
            messages: after.messages - before.messages,
            message_bytes: after.message_bytes - before.message_bytes,
            solicited: after.solicited - before.solicited,
            events: after.events - before.events,
            processor,
        })
    }

    /// Fig. 6. The slave has bound before the master can put.
    fn puts(&mut self, side: &Side, of: &Operations) -> Result<Part, Failure> {
        set_crossover(side, of);
        let (bytes, rounds, is_first) = (of.bytes, of.rounds, self.is_first);
        if !is_first {
            side.bind()?;
        }
        self.measured(side, || {
            for round in 1..=rounds {
                if is_first {
                    side.bind()?;
                    side.start(Kind::Put, bytes)?;
                    side.await_note()?;
                    continue;
                }
                side.await_note()?;
                if round < rounds {
                    side.bind()?;
                }
                side.start(Kind::Put, bytes)?;
            }
            Ok(())
        })
    }

    fn gets(&mut self, side: &Side, of: &Operations) -> Result<Part, Failure> {
        set_crossover(side, of);
        let gets = if self.is_first { of.rounds } else { 0 };
        self.measured(side, || {
            for _ in 0..gets {
                side.bind()?;
                side.start(Kind::Get, of.bytes)?;
                side.await_note()?;
            }
            Ok(())
        })
    }

    fn matching(&mut self, matching: &Matching, work: Work) -> Result<Part, Failure> {
        let is_first = self.is_first;
        let before = matching.channels.events();
        let (ns, processor) = match work {
            Work::Matching {
                bytes,
                rounds,
                blocking,
            } => {
                // the first read of the slave is there before the master's first message
                let first = (!is_first).then(|| matching.start(Way::Read, 0, bytes));
                let first = first.transpose()?;
                self.timed(|| matching.ping_pong(first, bytes, rounds, blocking))
            }
            Work::Stream { bytes, messages } => {
                self.timed(|| matching.stream(is_first, bytes, messages))
            }
            Work::Puts(_) | Work::Gets(_) => return Err(missing("such work")),
        }?;
        Ok(Part {
            ns,
            events: matching.channels.events() - before,
            processor,
            ..Part::default()
        })
    }
}

fn set_crossover(side: &Side, of: &Operations) {
    let bytes = of.crossover.into();
    let crossover = Crossover {
        put: bytes,
        get: bytes,
    };
    side.server.with(|node| node.users.crossover = crossover);
}

/// A side of a channel of the first driver.
struct Matching {
    channels: Channels,
    mr: Arc<Mr>,
    channel: Option<Number>,
}

impl Matching {
    fn open(at: IpAddr) -> Result<Matching, Failure> {
        let at = SocketAddr::new(at, 0);
        let channels = Channels::listen(manager()?, at, ELEMENT_BYTES as u32).map_err(explain)?;
        let pd = channels.domain().map_err(explain)?;
        let region = Region::create(c"putget-peer", 2 * LONGEST).map_err(explain)?;
        let mr = Mr::register(&pd, &region, Access::LOCAL_WRITE).map_err(explain)?;
        Ok(Matching {
            channels,
            mr,
            channel: None,
        })
    }

    fn connect(&mut self, to: Option<SocketAddr>) -> Result<(), Failure> {
        let end = Some(ferriband_host::wake::now() + PATIENCE);
        let found = match to {
            Some(to) => match self.channels.connect(to, end).map_err(explain)? {
                Waited::Done(connected) => connected.ok(),
                Waited::TimedOut => None,
            },
            None => match self.channels.accept(end).map_err(explain)? {
                Waited::Done(number) => Some(number),
                Waited::TimedOut => None,
            },
        };
        self.channel = found;
        self.number().map(drop)
    }

    fn number(&self) -> Result<Number, Failure> {
        self.channel.ok_or_else(|| missing("channel"))
    }

    /// Begins a read or a write; of messages that are under way at a time each has its own memory
    /// as far as there is some.
    fn start(&self, way: Way, slot: usize, bytes: u32) -> Result<Transfer, Failure> {
        let base = if way == Way::Read { LONGEST } else { 0 };
        let at = slot * bytes as usize % (LONGEST - bytes as usize).max(1);
        let element = self.mr.element(base + at, bytes).map_err(explain)?;
        let channel = self.number()?;
        poll(|| {
            let memory = Memory {
                mr: Some(Arc::clone(&self.mr)),
                elements: vec![element],
            };
            match self.channels.start(channel, way, memory, bytes.into()) {
                Ok(transfer) => Ok(Some(transfer)),
                Err(NotBegun::Full) => Ok(None),
                Err(why) => Err(explain(why)),
            }
        })
    }

    fn wait(&self, transfer: Transfer, blocking: bool) -> Result<(), Failure> {
        let outcome = if blocking {
            let end = Some(ferriband_host::wake::now() + PATIENCE);
            match self.channels.wait_for(transfer, end).map_err(explain)? {
                Waited::Done(outcome) => outcome,
                Waited::TimedOut => return Err(explain("nothing has come for long")),
            }
        } else {
            poll(|| self.channels.test(transfer).map_err(explain))?
        };
        match outcome {
            Outcome::Moved(_) => Ok(()),
            outcome => Err(explain(format!("a message has ended as {outcome:?}"))),
        }
    }

    /// Fig. 2. `first` is the read with which the slave begins.
    fn ping_pong(
        &self,
        first: Option<Transfer>,
        bytes: u32,
        rounds: u32,
        blocking: bool,
    ) -> Result<(), Failure> {
        let is_first = first.is_none();
        if let Some(first) = first {
            self.wait(first, blocking)?;
        }
        for round in 1..=rounds {
            let is_last = !is_first && round == rounds;
            let read = (!is_last).then(|| self.start(Way::Read, 0, bytes));
            let read = read.transpose()?;
            let write = self.start(Way::Write, 0, bytes)?;
            self.wait(write, blocking)?;
            if let Some(read) = read {
                self.wait(read, blocking)?;
            }
        }
        Ok(())
    }

    /// Messages of the first process, several at a time.
    fn stream(&self, is_first: bool, bytes: u32, messages: u32) -> Result<(), Failure> {
        let (way, window) = match is_first {
            true => (Way::Write, WINDOW),
            false => (Way::Read, 2 * WINDOW),
        };
        let mut under_way = std::collections::VecDeque::new();
        for message in 0..messages as usize {
            if under_way.len() == window {
                under_way
                    .pop_front()
                    .map_or(Ok(()), |oldest| self.wait(oldest, true))?;
            }
            under_way.push_back(self.start(way, message % window, bytes)?);
        }
        under_way
            .into_iter()
            .try_for_each(|left| self.wait(left, true))
    }
}
