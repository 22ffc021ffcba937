//! The thread that serves the sockets of the family.
//!
//! Owns: the adapter, listeners and connections of this process, and when each goes on. Must not
//! know: the program's calls.
//!
//! It begins with the first socket, and lasts as long as the process. A child has none of its
//! parent's: it starts one of its own with its own first call that needs it.

use super::carry::{Carried, Fate};
use super::errors::{errno_of, why_not};
use super::loopback::{self, Plug};
use super::names::{Names, Socket, State};
use crate::own::{Event, Own};
use crate::process::count_carried;
use ferriband_host::wake;
use ferriband_ibv::{Choice, Cm, ErrorKind, Verbs};
use ferriband_sdp_verbs::{Error, Event as Told, FlowKind, Key, Listener, Manager};
use ferriband_sdp_verbs::{Request, Stream};
use ferriband_sdp_wire::Refusal;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// Buffers of a stream, and bytes of each. The flow control is the standard's, by credits, so that
/// other implementations of SDP may be the peer.
const BUFFERS: u16 = 16;
const BUFFER_BYTES: u32 = 16 << 10;

/// How often it is looked whether an end has come to the program's socket.
const AGAIN: Duration = Duration::from_millis(1);
/// How long that may take: a program that has called connect(2) may wait for a core.
const JOIN: Duration = Duration::from_secs(5);
/// A listener's queue that takes no connection so long is full.
const FULL: Duration = Duration::from_millis(50);
/// How long a peer is given to hear of a reset.
const GOODBYE: Duration = Duration::from_millis(200);
/// A program's end waits as long as bytes go on at least so often.
const STUCK: Duration = Duration::from_secs(2);

/// Data of the epoll instance; above them are joins and connections.
const BELL: u64 = 0;
const MANAGER: u64 = 1;

/// What the program's calls want.
pub(super) enum Command {
    /// A port.
    Bind(Socket, SocketAddr, Sender<Result<SocketAddr, Errno>>),
    /// A connection from an address, or any, to another.
    Ask(Socket, Option<SocketAddr>, SocketAddr),
    /// Sockets may have been closed.
    Look,
    /// The program ends (or executes another): to be answered when the peers have what it sent.
    Leave { ends: bool, answer: Sender<()> },
    /// Another thread serves.
    Retire,
}

/// An end that is to come to the program's socket.
struct Join {
    end: Own,
    purpose: Purpose,
    until: Duration,
}

enum Purpose {
    /// The program's socket has its connection.
    Connect(Socket, Key, Box<Stream>),
    /// The program's socket is told that there is none.
    Refuse(Socket),
    /// The program's listener is to accept one.
    Accept(Socket, Request),
}

pub(super) struct Service {
    manager: Manager,
    plug: Plug,
    epoll: Own,
    commands: Receiver<Command>,
    bell: Arc<Event>,
    bound: Vec<(Socket, Vec<Listener>)>,
    asked: BTreeMap<Key, Socket>,
    joins: BTreeMap<u64, Join>,
    carried: BTreeMap<u64, Carried>,
    /// Streams that say AbortConn, until when.
    departing: Vec<(Key, Stream, Duration)>,
    /// What is to go on at once.
    due: BTreeSet<u64>,
    next: u64,
    leaving: Option<Leaving>,
}

/// The program ends.
struct Leaving {
    ends: bool,
    answer: Sender<()>,
    moved: u64,
    until: Duration,
}

/// The adapter's connection manager.
fn manager() -> Result<Manager, Errno> {
    let unsupported = Errno::AFNOSUPPORT;
    let choice = Choice::from_env().map_err(|_| unsupported)?;
    let verbs = Verbs::load(&choice).map_err(|_| unsupported)?;
    let cm = Cm::load(verbs).map_err(|_| unsupported)?;
    Manager::new(cm).map_err(|_| unsupported)
}

impl Service {
    /// # Errors
    /// AFNOSUPPORT: there is no adapter, or no loopback interface.
    pub fn new(commands: Receiver<Command>, bell: Arc<Event>) -> Result<Self, Errno> {
        let manager = manager()?;
        let plug = Plug::new().map_err(|_| Errno::AFNOSUPPORT)?;
        let epoll = Own::make(|| epoll::create(epoll::CreateFlags::CLOEXEC))?;
        let descriptors = [(bell.as_fd(), BELL), (manager.fd(), MANAGER)];
        for (descriptor, data) in descriptors {
            epoll::add(&epoll, descriptor, EventData::new_u64(data), EventFlags::IN)?;
        }
        Ok(Service {
            manager,
            plug,
            epoll,
            commands,
            bell,
            bound: Vec::new(),
            asked: BTreeMap::new(),
            joins: BTreeMap::new(),
            carried: BTreeMap::new(),
            departing: Vec::new(),
            due: BTreeSet::new(),
            next: MANAGER + 1,
            leaving: None,
        })
    }

    /// Where the program's sockets connect to.
    pub fn plug(&self) -> u16 {
        self.plug.port()
    }

    /// Serves until another thread does.
    pub fn run(mut self) {
        loop {
            self.sleep();
            self.bell.take();
            while let Ok(command) = self.commands.try_recv() {
                if matches!(command, Command::Retire) {
                    return;
                }
                self.obey(command);
            }
            loop {
                match self.manager.next_event() {
                    Ok(Some(event)) => self.hear(event),
                    Ok(None) => break,
                    Err(_) => {
                        // it has no news any more: connections go on, and no others are made
                        let _ = epoll::delete(&self.epoll, self.manager.fd());
                        break;
                    }
                }
            }
            let now = wake::now();
            self.join(now);
            for id in std::mem::take(&mut self.due) {
                self.pump(id);
            }
            self.departing.retain_mut(|(_, stream, until)| {
                let _ = stream.progress();
                *until > now
            });
            self.leave(now);
        }
    }

    fn sleep(&mut self) {
        let brief = !self.joins.is_empty() || !self.departing.is_empty() || self.leaving.is_some();
        let within = match (self.due.is_empty(), brief) {
            (false, _) => Some(Duration::ZERO),
            (true, true) => Some(AGAIN),
            (true, false) => None,
        };
        let within = within.and_then(|within| Timespec::try_from(within).ok());
        let mut events = [epoll::Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }; 64];
        let count = epoll::wait(&self.epoll, &mut events[..], within.as_ref()).unwrap_or(0);
        let told = events[..count].iter().map(|event| event.data.u64());
        self.due
            .extend(told.filter(|data| !matches!(*data, BELL | MANAGER)));
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Bind(socket, at, answer) => {
                let bound = self.bind(socket, at);
                // a thread that was cancelled is told nothing
                let _ = answer.send(bound);
            }
            Command::Ask(socket, from, to) => self.ask(socket, from, to),
            Command::Look => self.look(),
            Command::Leave { ends, answer } => {
                if ends {
                    self.carried.values_mut().for_each(Carried::leave);
                }
                self.due.extend(self.carried.keys());
                self.leaving = Some(Leaving {
                    ends,
                    answer,
                    moved: 0,
                    until: wake::now() + STUCK,
                });
            }
            Command::Retire => {}
        }
    }

    /// Takes a port, at which nobody is answered before the socket listens.
    fn bind(&mut self, socket: Socket, at: SocketAddr) -> Result<SocketAddr, Errno> {
        let listener = match self.manager.listen(at, 128) {
            Err(error) if self.is_taken(&error, at) => {
                // by a socket that was closed, perhaps
                self.look();
                let again = self.manager.listen(at, 128);
                again.map_err(|_| Errno::ADDRINUSE)?
            }
            other => other.map_err(|error| errno_of(&error))?,
        };
        let bound = listener.address().ok_or(Errno::ADDRNOTAVAIL)?;
        let mut listeners = vec![listener];
        if bound.is_ipv6() && bound.ip().is_unspecified() {
            let four = SocketAddr::from((Ipv4Addr::UNSPECIFIED, bound.port()));
            // whoever has that port of IPv4 keeps it
            listeners.extend(self.manager.listen(four, 128));
        }
        self.bound.push((socket, listeners));
        Ok(bound)
    }

    /// Whether somebody has that port. Of one who has it at all addresses the manager says that
    /// there is no such address, as the kernel's does.
    fn is_taken(&mut self, error: &Error, at: SocketAddr) -> bool {
        let Error::Verbs(error) = error else {
            return false;
        };
        match error.kind() {
            ErrorKind::AddressInUse => true,
            ErrorKind::NoSuchAddress => {
                let other = SocketAddr::new(at.ip(), 0);
                self.manager.listen(other, 1).is_ok()
            }
            _ => false,
        }
    }

    fn ask(&mut self, socket: Socket, from: Option<SocketAddr>, to: SocketAddr) {
        // the port is to be free for it
        self.bound.retain(|(bound, _)| *bound != socket);
        let config = FlowKind::Credit.config(BUFFERS, BUFFER_BYTES);
        match self.manager.ask(from, to, config) {
            Ok(key) => {
                self.asked.insert(key, socket);
            }
            Err(error) => self.fail(socket, errno_of(&error)),
        }
    }

    /// The program's socket gets no connection.
    fn fail(&mut self, socket: Socket, why: Errno) {
        let own = socket.own();
        let is_bound = own.port() != 0 && self.bind(socket, own).is_ok();
        socket.fail(why);
        socket.set(if is_bound { State::Bound } else { State::Made });
        self.begin_join(Purpose::Refuse(socket));
    }

    fn begin_join(&mut self, purpose: Purpose) {
        self.try_join(purpose, wake::now() + JOIN);
    }

    fn try_join(&mut self, purpose: Purpose, until: Duration) {
        if let Some((end, id)) = self.dial(&purpose) {
            let join = Join {
                end,
                purpose,
                until,
            };
            self.joins.insert(id, join);
        }
    }

    fn dial(&mut self, purpose: &Purpose) -> Option<(Own, u64)> {
        let (Purpose::Connect(socket, ..) | Purpose::Refuse(socket)) = purpose else {
            return None;
        };
        let end = self.plug.join(socket.ports().0).ok()?;
        let id = self.watch(end.as_fd());
        Some((end, id))
    }

    /// Watches an end of the program's socket; gives by which number it is told of.
    fn watch(&mut self, end: BorrowedFd<'_>) -> u64 {
        let id = self.next;
        self.next += 1;
        self.watch_as(end, id);
        id
    }

    fn watch_as(&self, descriptor: BorrowedFd<'_>, id: u64) {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        // without it the connection is looked at when the other descriptor tells
        let _ = epoll::add(&self.epoll, descriptor, EventData::new_u64(id), flags);
    }

    fn hear(&mut self, event: Told) {
        match event {
            Told::Asked(request) => self.offer(request),
            Told::Stands(key, stream) => {
                if let Some(socket) = self.asked.remove(&key) {
                    if let Some(address) = stream.address() {
                        socket.name(address);
                    }
                    socket.set(State::Stands);
                    self.begin_join(Purpose::Connect(socket, key, stream));
                }
            }
            Told::Failed(key, why) => {
                if let Some(socket) = self.asked.remove(&key) {
                    self.fail(socket, why_not(&why));
                }
            }
            Told::Established(_) => {}
            Told::Ended(key) => {
                self.departing.retain(|(departing, ..)| *departing != key);
                let mut carried = self.carried.iter_mut();
                if let Some((id, carried)) = carried.find(|(_, carried)| carried.key == key) {
                    carried.end();
                    self.due.insert(*id);
                }
                for join in self.joins.values_mut() {
                    if let Purpose::Connect(_, of, stream) = &mut join.purpose
                        && *of == key
                    {
                        // told by the stream, once it is carried
                        let _ = stream.end();
                    }
                }
            }
        }
    }

    /// Somebody asks for a connection.
    fn offer(&mut self, request: Request) {
        let is_at = |(_, listeners): &&(Socket, Vec<Listener>)| {
            let mut keys = listeners.iter().map(Listener::key);
            keys.any(|key| key == request.listener)
        };
        let listener = self.bound.iter().find(is_at).map(|(socket, _)| *socket);
        let Some(listener) = listener.filter(|socket| socket.state() == State::Listens) else {
            return request.refuse(Refusal::NoSuchSocket);
        };
        let names = Names::there().and_then(Names::take);
        let (Some(socket), Ok((end, port))) = (names, loopback::offer()) else {
            return request.refuse(Refusal::NoResources);
        };
        // before it can be accepted
        let at = listener.ports().0;
        socket.name(request.to);
        socket.name_peer(request.from);
        socket.begin(State::Waits, 0, (at, port));
        let id = self.watch(end.as_fd());
        let until = wake::now() + FULL;
        match loopback::present(&end, at) {
            Ok(()) => {
                let purpose = Purpose::Accept(socket, request);
                let join = Join {
                    end,
                    purpose,
                    until,
                };
                self.joins.insert(id, join);
            }
            Err(_) => {
                socket.set(State::Free);
                request.refuse(Refusal::NoResources);
            }
        }
    }

    /// Ends that have come to the program's sockets, and those that have not.
    fn join(&mut self, now: Duration) {
        let outcome = |(id, join): (&u64, &Join)| {
            let late = (join.until <= now).then_some(Err(Errno::TIMEDOUT));
            Some((*id, loopback::outcome(&join.end).or(late)?))
        };
        let outcomes: Vec<_> = self.joins.iter().filter_map(outcome).collect();
        for (id, outcome) in outcomes {
            let Some(join) = self.joins.remove(&id) else {
                continue;
            };
            match (outcome, &join.purpose) {
                (Err(Errno::CONNREFUSED | Errno::TIMEDOUT), _) | (Err(_), Purpose::Accept(..)) => {
                    self.rejoin(join, now);
                }
                // a program that has reset its socket at once was connected
                (Ok(()) | Err(_), _) => self.joined(id, join),
            }
        }
    }

    fn joined(&mut self, id: u64, join: Join) {
        let Join { end, purpose, .. } = join;
        match purpose {
            Purpose::Connect(socket, key, stream) => {
                self.carry(id, Carried::new(socket, key, end, *stream));
            }
            // the end that is closed resets
            Purpose::Refuse(_) => {}
            Purpose::Accept(socket, request) => {
                let config = request.flow().config(BUFFERS, BUFFER_BYTES);
                match self.manager.accept(request, config) {
                    Ok((key, stream)) => self.carry(id, Carried::new(socket, key, end, stream)),
                    Err(_) => {
                        if !socket.change(State::Waits, State::Free) {
                            socket.set(State::Gone);
                        }
                    }
                }
            }
        }
    }

    /// The program's socket does not connect at this moment, or its listener is gone or full.
    fn rejoin(&mut self, join: Join, now: Duration) {
        let Join { purpose, until, .. } = join;
        match purpose {
            Purpose::Accept(socket, request) => {
                socket.set(State::Free);
                request.refuse(Refusal::NoResources);
                self.look();
            }
            Purpose::Connect(socket, ..) if until <= now => socket.set(State::Gone),
            // a program that was told may ask anew, which this one must not answer
            Purpose::Refuse(socket) if until <= now || !socket.has_error() => {}
            // a program that has given up is found by its port
            purpose => self.try_join(purpose, until),
        }
    }

    fn carry(&mut self, id: u64, carried: Carried) {
        count_carried();
        let [_, channel] = carried.interest();
        self.watch_as(channel, id);
        self.carried.insert(id, carried);
        self.due.insert(id);
    }

    fn pump(&mut self, id: u64) {
        let Some(carried) = self.carried.get_mut(&id) else {
            return;
        };
        match carried.pump() {
            Fate::Waits => {}
            Fate::Again => {
                self.due.insert(id);
            }
            fate => {
                let over = self.carried.remove(&id).and_then(|it| it.over(fate));
                if let Some((key, stream)) = over {
                    let until = wake::now() + GOODBYE;
                    self.departing.push((key, stream, until));
                }
            }
        }
    }

    /// Gives up the ports of sockets that were closed.
    fn look(&mut self) {
        let Some(names) = Names::there() else {
            return;
        };
        let here = rustix::process::getpid().as_raw_nonzero().get();
        for socket in names.idle(here.unsigned_abs()) {
            let listens = socket.state() == State::Listens;
            if !loopback::is_there(socket.ports().0, listens) {
                self.bound.retain(|(bound, _)| *bound != socket);
                let mut asked = self.asked.iter();
                if let Some((key, _)) = asked.find(|(_, asked)| **asked == socket) {
                    let key = *key;
                    self.asked.remove(&key);
                    self.manager.give_up(key);
                }
                socket.set(State::Free);
            }
        }
    }

    /// The program ends: its peers have all that it has sent, or take nothing.
    fn leave(&mut self, now: Duration) {
        let Some(leaving) = &mut self.leaving else {
            return;
        };
        let moved = self.carried.values().map(|carried| carried.moved).sum();
        if moved != leaving.moved {
            leaving.moved = moved;
            leaving.until = now + STUCK;
        }
        let is_done = |carried: &Carried| match leaving.ends {
            true => carried.is_sent(),
            false => carried.is_idle(),
        };
        let all = self.due.is_empty() && self.carried.values().all(is_done);
        if (all && self.departing.is_empty()) || leaving.until <= now {
            let _ = leaving.answer.send(());
            self.leaving = None;
        }
    }
}

/// An address that stands for this host, as connect(2) takes it.
pub(super) fn reachable(to: SocketAddr) -> SocketAddr {
    let ip = match to.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, to.port())
}
