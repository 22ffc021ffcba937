//! The machine of one side of a connection (papers/002, Figs. 3 to 5).
//!
//! Owns: which message follows from which, and when one may be sent. Must not know: whose memory,
//! which queue pair, time.

use crate::credits::{Credits, LEAST_RECEIVES};
use crate::direct::Directs;
use crate::leases::{Leased, Leases};
use crate::memory::{Answer, Asked, Granted, Memory};
use crate::message::{ADDRESS_BYTES, BadMessage, Flags, HEADER_BYTES, Header, Kind, Message};
use crate::message::{SEGMENT_BYTES, Segment};
use crate::requests::{Pending, Requests};
use crate::serving::{Long, Serving, Waiting, cut};
use crate::stats::Stats;
use crate::status::Status;
use crate::wire::{Job, NotBegun, Wire};

/// What a side tells its peer when they connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Bytes of the longest message that this side receives, header included.
    pub message_bytes: u32,
    /// Receives that this side keeps posted; at least [`LEAST_RECEIVES`].
    pub receives: u16,
    /// Most requests of the peer that this side answers at a time; at least 1.
    pub requests: u16,
}

/// Why a configuration, the own or the peer's, is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadConfig {
    /// Messages that carry nothing.
    #[error("messages of {0} bytes; at least {HEADER_BYTES} are needed")]
    MessageBytes(u32),
    /// Too few receives.
    #[error("{0} receives; at least {LEAST_RECEIVES} are needed")]
    Receives(u16),
    /// No requests.
    #[error("no request is answered")]
    Requests,
}

impl Config {
    /// Whether it is one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub const fn check(&self) -> Result<(), BadConfig> {
        if (self.message_bytes as usize) < HEADER_BYTES {
            return Err(BadConfig::MessageBytes(self.message_bytes));
        }
        if self.receives < LEAST_RECEIVES {
            return Err(BadConfig::Receives(self.receives));
        }
        if self.requests == 0 {
            return Err(BadConfig::Requests);
        }
        Ok(())
    }

    /// Bytes that a message to this side carries behind header and address.
    pub const fn room(&self, address_bytes: usize) -> u64 {
        (self.message_bytes as u64).saturating_sub((HEADER_BYTES + address_bytes) as u64)
    }
}

/// A request to be begun.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Put, get or exchange.
    pub kind: Kind,
    /// Which memory of the target.
    pub tag: u32,
    /// What that memory needs beside the tag; its length is a multiple of 4.
    pub address: &'a [u8],
    /// Bytes asked for.
    pub length: u64,
    /// Bytes of the payload of a short request: of a put its length, of an exchange at least that.
    pub payload: usize,
    /// The memory of this side that the target reaches by RDMA, if the request is to go long. It
    /// has as many bytes as are asked for.
    pub long: Option<&'a [Segment]>,
    /// Whether an acknowledgement is asked for.
    pub acknowledge: bool,
    /// Whether somebody waits for the response.
    pub solicit: bool,
    /// What [`Memory::gather`], [`Memory::scatter`] and [`Memory::done`] are called with.
    pub token: u64,
}

/// What is still to come of a request that was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Started {
    /// Nothing: its bytes were copied, and nobody answers.
    Over,
    /// [`Memory::done`]; the bytes of a short one were copied.
    Answered,
}

/// Why a request was not begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotStarted {
    /// There is no room until the peer has taken messages or answered requests.
    #[error("too much is under way to this peer")]
    Full,
    /// It does not fit into a message to this peer, or has more pieces than are counted.
    #[error("the request does not fit into a message")]
    TooLong,
    /// The connection is lost.
    #[error("the connection is lost")]
    Lost,
}

/// What a peer may not do: the connection is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// No message.
    #[error(transparent)]
    Message(#[from] BadMessage),
    /// More messages than receives, or more credits than messages.
    #[error("the peer's credits do not add up")]
    Credits,
    /// More requests than are answered at a time.
    #[error("the peer has more requests under way than it may")]
    TooMany,
    /// A response to nothing, or with other bytes than the request asked for.
    #[error("the response to request {0} belongs to none")]
    Response(u32),
    /// RDMA that was not begun has ended: a fault of this side's transport.
    #[error("RDMA operation {0} is not under way")]
    Job(u16),
    /// Too many leases, a word on one that there is not, or an operation that one does not allow.
    #[error("the peer's word on lease {0} does not fit")]
    Lease(u32),
}

/// One side of a connection.
#[derive(Debug)]
pub struct Connection<H> {
    config: Config,
    peer: Config,
    pub(crate) credits: Credits,
    pub(crate) requests: Requests,
    serving: Serving<H>,
    pub(crate) leases: Leases,
    pub(crate) direct: Directs,
    /// How many messages were sent up to the last request.
    pub(crate) last_request: u64,
    /// A request or an operation was not begun for want of room.
    pub(crate) starved: bool,
    pub(crate) lost: bool,
    scratch: Vec<u8>,
    pub(crate) stats: Stats,
}

impl<H: Copy> Connection<H> {
    /// A connection whose receives are posted at both ends.
    ///
    /// # Errors
    /// A configuration is none.
    pub fn new(config: Config, peer: Config) -> Result<Connection<H>, BadConfig> {
        config.check()?;
        peer.check()?;
        Ok(Connection {
            config,
            peer,
            credits: Credits::new(config.receives, peer.receives),
            requests: Requests::new(peer.requests),
            serving: Serving::new(config.requests),
            leases: Leases::default(),
            direct: Directs::new(),
            last_request: 0,
            starved: false,
            lost: false,
            scratch: Vec::with_capacity(peer.message_bytes as usize),
            stats: Stats::default(),
        })
    }

    /// Bytes that a short put to this peer carries.
    pub const fn put_room(&self, address_bytes: usize) -> u64 {
        self.peer.room(address_bytes)
    }

    /// Bytes that a short get from this peer brings.
    pub const fn get_room(&self) -> u64 {
        self.config.room(0)
    }

    /// Whether what comes unsolicited has to be looked at, too: something waits for it.
    pub fn waits_for_all(&self) -> bool {
        self.starved || !self.serving.waiting.is_empty() || !self.leases.due.is_empty()
    }

    /// Whether responses may come unsolicited.
    pub fn has_unsolicited(&self) -> bool {
        self.requests.has_unsolicited()
    }

    /// Whether no request of this side waits for a response, and no operation of its own is under
    /// way.
    pub fn is_quiet(&self) -> bool {
        self.requests.is_empty() && self.direct.is_empty()
    }

    /// Whether the connection was lost.
    pub const fn is_lost(&self) -> bool {
        self.lost
    }

    /// Leases that this side has given, and those that it holds.
    pub fn leased(&self) -> (Leased, Leased) {
        self.leases.leased()
    }

    /// What it has done so far.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Begins a request.
    ///
    /// # Errors
    /// It was not begun, and nothing will be heard of it.
    pub fn start<W>(&mut self, start: &Start<'_>, wire: &mut W) -> Result<Started, NotStarted>
    where
        W: Wire<Hold = H>,
    {
        if self.lost {
            return Err(NotStarted::Lost);
        }
        self.check_fit(start)?;
        let answered = start.kind != Kind::Put || start.acknowledge || start.long.is_some();
        if !self.has_room() || answered && self.requests.is_full() {
            self.starved = true;
            self.stats.paths.waited += 1;
            return Err(NotStarted::Full);
        }
        let solicited = start.solicit;
        let pending = Pending {
            token: start.token,
            kind: start.kind,
            long: start.long.is_some(),
            length: start.length,
            solicited,
        };
        let number = match answered {
            true => self.requests.add(pending).ok_or(NotStarted::Full)?,
            false => 0,
        };
        let mut header = Header::new(start.kind, number);
        header.tag = start.tag;
        header.length = start.length;
        header.flags.set(Flags::ACK, start.acknowledge);
        header.flags.set(Flags::SOLICIT, answered && solicited);
        if let Some(segments) = start.long {
            header.set_segments(segments);
        }
        self.stats
            .started(start.kind, start.long.is_some(), start.length);
        self.send(header, start.address, true, wire, |wire, to| {
            match start.long {
                Some([_]) => {}
                Some(segments) => segments.iter().for_each(|segment| segment.emit(to)),
                None => append(to, start.payload, |room| wire.gather(start.token, room)),
            }
        });
        self.last_request = self.credits.spent();
        Ok(match answered {
            true => Started::Answered,
            false => Started::Over,
        })
    }

    fn check_fit(&self, start: &Start<'_>) -> Result<(), NotStarted> {
        let carried = match start.long {
            None => start.payload,
            Some([_]) => 0,
            Some(segments) => segments.len() * SEGMENT_BYTES,
        };
        let pieces = start.long.map_or(0, <[_]>::len);
        let fits = carried as u64 <= self.put_room(start.address.len())
            && start.address.len() <= ADDRESS_BYTES
            && start.address.len().is_multiple_of(4)
            && pieces <= usize::from(u16::MAX)
            && start.long.is_none_or(|segments| !segments.is_empty());
        // what a short get or an exchange brings has to fit into a message to this side
        let brings = start.kind != Kind::Put && start.long.is_none();
        match fits && (!brings || start.length <= self.get_room()) {
            true => Ok(()),
            false => Err(NotStarted::TooLong),
        }
    }

    /// A message has come, and its receive is posted again.
    ///
    /// # Errors
    /// The peer has broken the protocol: the connection has to be ended.
    pub fn handle_message<W>(&mut self, bytes: &[u8], wire: &mut W) -> Result<(), Violation>
    where
        W: Wire<Hold = H>,
    {
        if self.lost {
            return Ok(());
        }
        let message = Message::parse(bytes)?;
        let credits = &mut self.credits;
        credits.received().map_err(|_| Violation::Credits)?;
        let returned = message.header.returned;
        credits
            .take_back(returned)
            .map_err(|_| Violation::Credits)?;
        match message.header.kind {
            Kind::Credits => {}
            Kind::Response => self.end(&message, wire)?,
            Kind::Put | Kind::Get | Kind::Exchange => self.serve(&message, wire)?,
            Kind::Lease | Kind::Revoke | Kind::Returned => self.heard_of_lease(&message, wire)?,
        }
        self.flush(wire);
        self.feed();
        Ok(())
    }

    fn heard_of_lease<W: Wire<Hold = H>>(
        &mut self,
        message: &Message<'_>,
        wire: &mut W,
    ) -> Result<(), Violation> {
        let number = message.header.request;
        let leases = &mut self.leases;
        let heard = match message.header.kind {
            Kind::Lease => leases.take(&message.header, message.address),
            Kind::Revoke => leases.revoked(number),
            _ => leases
                .returned(number)
                .map(|given| wire.returned(given.token)),
        };
        heard.map_err(|_| Violation::Lease(number))
    }

    /// Whether a message may be sent before anything else is.
    pub(crate) fn has_room(&self) -> bool {
        let waits = !self.serving.waiting.is_empty() || !self.leases.due.is_empty();
        self.credits.may_send() && !waits
    }

    /// There may be room for what was not begun.
    pub(crate) fn feed(&mut self) {
        self.starved &= !self.has_room() || self.requests.is_full() || self.direct.is_full();
    }

    /// RDMA that was begun for the peer has ended well.
    ///
    /// # Errors
    /// No such operation is under way.
    pub fn handle_rdma<W>(&mut self, job: Job, wire: &mut W) -> Result<(), Violation>
    where
        W: Wire<Hold = H>,
    {
        if self.lost {
            return Ok(());
        }
        if self.serving.get(job).is_none() {
            return Err(Violation::Job(job.0));
        }
        self.stats.paths.rdma += 1;
        self.finish(job, Status::Ok, wire);
        while let Some(due) = self.serving.first_due() {
            match self.begin(due, wire) {
                Err(NotBegun::Full) => break,
                Ok(()) => self.serving.begun(),
                Err(NotBegun::Fault) => {
                    self.serving.begun();
                    self.finish(due, Status::Fault, wire);
                }
            }
        }
        self.flush(wire);
        Ok(())
    }

    /// The connection is lost: nothing of it touches memory any more, and nothing will come.
    pub fn handle_lost<M: Memory<Hold = H>>(&mut self, memory: &mut M) {
        self.lost = true;
        for long in self.serving.drain() {
            memory.ended(long.granted.hold, Status::Undeliverable);
        }
        while let Some(pending) = self.requests.pop() {
            memory.done(pending.token, Answer::undeliverable());
        }
        self.lose_direct(memory);
    }

    /// A response.
    fn end<W: Wire<Hold = H>>(
        &mut self,
        message: &Message<'_>,
        wire: &mut W,
    ) -> Result<(), Violation> {
        let header = &message.header;
        let unknown = Violation::Response(header.request);
        let pending = *self.requests.get(header.request).ok_or(unknown)?;
        let ok = header.status == Status::Ok;
        let brings = pending.kind != Kind::Put && !pending.long && ok;
        let expected = if brings { header.length } else { 0 };
        if header.length > pending.length || message.payload.len() as u64 != expected {
            return Err(unknown);
        }
        self.requests.remove(header.request);
        self.stats.paths.refusals += u64::from(!ok);
        if brings {
            wire.scatter(pending.token, message.payload);
        }
        let answer = Answer {
            status: header.status,
            length: header.length,
            offset: header.memory,
            tag: header.tag,
        };
        wire.done(pending.token, answer);
        Ok(())
    }

    /// A request of the peer's.
    fn serve<W: Wire<Hold = H>>(
        &mut self,
        message: &Message<'_>,
        wire: &mut W,
    ) -> Result<(), Violation> {
        let header = &message.header;
        let flags = header.flags;
        let is_long = flags.contains(Flags::LONG);
        let answered = header.kind != Kind::Put || is_long || flags.contains(Flags::ACK);
        if answered && self.serving.is_full() {
            return Err(Violation::TooMany);
        }
        self.stats.served(header.kind, is_long, header.length);
        let asked = Asked {
            kind: header.kind,
            tag: header.tag,
            address: message.address,
            length: header.length,
            acknowledged: flags.contains(Flags::ACK),
        };
        let mut response = Header::new(Kind::Response, header.request);
        let solicited = flags.contains(Flags::SOLICIT);
        let granted = match wire.admit(&asked) {
            Ok(granted) => granted,
            Err(status) => {
                self.stats.paths.refused += 1;
                response.status = status;
                if answered {
                    self.respond(response, solicited, wire, |_, _| ());
                }
                return Ok(());
            }
        };
        response.length = granted.length;
        response.memory = granted.offset;
        response.tag = granted.tag;
        if is_long {
            let long = Long {
                writes: header.kind == Kind::Get,
                response,
                solicited,
                granted,
                segments: cut(message.segments(), granted.length),
            };
            return self.serve_long(long, wire);
        }
        let carried = if header.kind == Kind::Put {
            0
        } else {
            granted.length
        };
        if carried > self.put_room(0) {
            wire.ended(granted.hold, Status::TooLong);
            response.status = Status::TooLong;
            (response.length, response.memory) = (0, 0);
            self.respond(response, solicited, wire, |_, _| ());
            return Ok(());
        }
        self.serve_short(message, granted, response, wire);
        Ok(())
    }

    fn serve_short<W: Wire<Hold = H>>(
        &mut self,
        message: &Message<'_>,
        granted: Granted<H>,
        response: Header,
        wire: &mut W,
    ) {
        let (flags, data) = (message.header.flags, message.payload);
        let solicited = flags.contains(Flags::SOLICIT);
        let (hold, length) = (granted.hold, granted.length as usize);
        match message.header.kind {
            Kind::Put => {
                // a grant is never more than was asked for
                wire.place(hold, data.get(..length).unwrap_or(data));
                wire.ended(hold, Status::Ok);
                if flags.contains(Flags::ACK) {
                    self.respond(response, solicited, wire, |_, _| ());
                }
            }
            Kind::Get => self.respond(response, solicited, wire, |wire, to| {
                append(to, length, |room| wire.fetch(hold, room));
                wire.ended(hold, Status::Ok);
            }),
            _ => self.respond(response, solicited, wire, |wire, to| {
                append(to, length, |room| wire.exchange(hold, data, room));
                wire.ended(hold, Status::Ok);
            }),
        }
    }

    fn serve_long<W: Wire<Hold = H>>(
        &mut self,
        long: Long<H>,
        wire: &mut W,
    ) -> Result<(), Violation> {
        let nothing = long.granted.length == 0;
        let job = self.serving.add(long).ok_or(Violation::TooMany)?;
        if nothing {
            self.finish(job, Status::Ok, wire);
            return Ok(());
        }
        let begun = match self.serving.has_due() {
            true => Err(NotBegun::Full),
            false => self.begin(job, wire),
        };
        match begun {
            Ok(()) => {}
            Err(NotBegun::Full) => self.serving.wait(job),
            Err(NotBegun::Fault) => self.finish(job, Status::Fault, wire),
        }
        Ok(())
    }

    fn begin<W: Wire<Hold = H>>(&self, job: Job, wire: &mut W) -> Result<(), NotBegun> {
        let Some(long) = self.serving.get(job) else {
            return Ok(());
        };
        match long.writes {
            true => wire.write(job, long.granted.hold, &long.segments),
            false => wire.read(job, long.granted.hold, &long.segments),
        }
    }

    /// A long request of the peer's is over.
    fn finish<W: Wire<Hold = H>>(&mut self, job: Job, status: Status, wire: &mut W) {
        if let Some(long) = self.serving.remove(job) {
            wire.ended(long.granted.hold, status);
            self.respond(long.answer(status), long.solicited, wire, |_, _| ());
        }
    }

    /// Sends a response, or keeps it until there is a credit. Its data are taken now in any case.
    fn respond<W: Wire<Hold = H>>(
        &mut self,
        header: Header,
        solicited: bool,
        wire: &mut W,
        data: impl FnOnce(&mut W, &mut Vec<u8>),
    ) {
        if self.has_room() {
            return self.send(header, &[], solicited, wire, data);
        }
        self.stats.paths.late_answers += 1;
        let mut kept = Vec::new();
        data(wire, &mut kept);
        self.serving.waiting.push_back(Waiting {
            header,
            data: kept,
            solicited,
        });
    }

    /// Sends what waits for credits, and gives credits back if that is due. A lease is revoked
    /// before a request is answered that came behind the reason for that.
    pub(crate) fn flush<W: Wire<Hold = H>>(&mut self, wire: &mut W) {
        while self.credits.may_send()
            && let Some((header, address)) = self.leases.due.pop_front()
        {
            let solicited = header.kind != Kind::Lease;
            self.send(header, &address, solicited, wire, |_, _| ());
        }
        while self.credits.may_send()
            && let Some(waiting) = self.serving.waiting.pop_front()
        {
            self.send(waiting.header, &[], waiting.solicited, wire, |_, to| {
                to.extend_from_slice(&waiting.data);
            });
        }
        if self.credits.must_return() {
            let header = Header::new(Kind::Credits, 0);
            self.stats.paths.credits += 1;
            self.send(header, &[], false, wire, |_, _| ());
        }
    }

    fn send<W: Wire<Hold = H>>(
        &mut self,
        mut header: Header,
        address: &[u8],
        solicited: bool,
        wire: &mut W,
        payload: impl FnOnce(&mut W, &mut Vec<u8>),
    ) {
        header.returned = self.credits.spend();
        self.scratch.clear();
        header.emit(address, &mut self.scratch);
        payload(wire, &mut self.scratch);
        let changes = matches!(header.kind, Kind::Put | Kind::Exchange);
        let fence = changes && self.direct.has_reads();
        // messages that nobody looks at must not take all receives of the peer
        let solicited = solicited || self.credits.presses();
        self.stats.sent(self.scratch.len(), solicited);
        wire.send(&self.scratch, solicited, fence);
    }
}

/// Appends `length` bytes that `fill` gives.
fn append(to: &mut Vec<u8>, length: usize, fill: impl FnOnce(&mut [u8])) {
    let at = to.len();
    to.resize(at + length, 0);
    fill(&mut to[at..]);
}
