//! One side of a connection: what it sends, what it receives, and when.
//!
//! Owns: the flow control, the order of data and messages, the ends of both streams, coalescing.
//! Must not know: queue pairs, memory, threads, time. Bytes are moved by the driver
//! ([`crate::driver`]), at places that the machine names.
//!
//! The three flow controls of papers/004 differ in two places: `send_buffer.rs` (how the sender
//! knows that the peer has room) and `receive_buffer.rs` (when a receive is posted, where unread
//! bytes are). Everything else is one for all.
//!
//! ```
//! use ferriband_sdp_proto::connection::{Config, Connection, Flow, Pair, Peer, Work};
//!
//! let flow = Flow::Nic { window_bytes: 8192, reserve_bytes: 16384, offers: false };
//! let config = Config { flow, buffers: 8, buffer_bytes: 8192, coalesce: true };
//! let mut side = Connection::new(config, Peer::of(&config))?;
//! while let Some(Work::Receive { .. }) = side.poll_work() {}
//! let place = side.reserve().expect("the buffer is empty");
//! // the program's five bytes are copied to `place.at` of the send buffer
//! side.commit(5, false);
//! let Some(Work::Write(write)) = side.poll_work() else { panic!("there is room") };
//! assert_eq!((write.from.bytes, write.to), (5, 0));
//! side.handle_sent(Pair::Stream, write.id)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod offers;
mod pairs;
mod receive_buffer;
mod requests;
mod send_buffer;
mod sequence;
mod stats;
#[cfg(test)]
mod tests;
mod work;
mod zero_copy;

pub use config::{CONTROL_WORKS, Config, ConfigError, DATA_WORKS, Flow, HEADER_BYTES};
pub use config::{LEAST_RECEIVES, MESSAGE_BYTES, OFFER_RECEIVES, Peer, PeerFlow};
pub use stats::{Stats, Usage, UsageMean};
pub use work::WriteWork;
pub use work::{HEAD_BYTES, Head, Pair, Piece, ReadWork, SendWork, Violation, Work, WorkId};

use ferriband_sdp_wire::{Body, Flags, Message, MessageHeader, Mid};
use pairs::{Flight, Flights, OfferPair};
use receive_buffer::ReceiveBuffer;
use requests::Requests;
use send_buffer::{Segment, SendBuffer};
use sequence::Sequence;
use zero_copy::{Offer, Source};

/// Why a connection is over before both streams have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Over {
    /// The transport has failed, or the peer has gone.
    #[error("the transport has failed")]
    Lost,
    /// The peer has ended it (AbortConn).
    #[error("the peer has aborted the connection")]
    Aborted,
    /// This side has ended it.
    #[error("this side has aborted the connection")]
    Aborting,
    /// The peer has broken the protocol.
    #[error(transparent)]
    Violation(#[from] Violation),
}

/// One side of a connection.
#[derive(Clone, Debug)]
pub struct Connection {
    config: Config,
    sequence: Sequence,
    send: Sending,
    receive: ReceiveBuffer,
    /// The second queue pair, where both sides have one.
    offers: Option<OfferPair>,
    offer: Option<Offer>,
    source: Source,
    requests: Requests,
    /// The peer's stream has ended.
    peer_ended: bool,
    over: Option<Over>,
    stats: Stats,
}

/// What this side sends.
#[derive(Clone, Debug)]
struct Sending {
    buffer: SendBuffer,
    /// Works under way.
    flights: Flights,
    /// How many of them are segments.
    segments: u32,
    /// Bytes that the program has given, up to where they may leave in a short segment.
    short: bool,
    corked: bool,
    /// Calls of the program whose bytes wait.
    calls: u32,
    end: End,
    abort: bool,
}

/// The end of the stream that this side sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Open,
    /// The program sends no more.
    Wanted,
    /// DisConn is under way or has arrived.
    Sent,
}

impl Connection {
    /// A side that has sent and received Hello or HelloAck.
    ///
    /// # Errors
    /// Numbers that cannot be.
    pub fn new(config: Config, peer: Peer) -> Result<Self, ConfigError> {
        config.check()?;
        peer.check(&config.flow)?;
        let has_offers = matches!(config.flow, Flow::Nic { offers: true, .. }) && peer.offers;
        Ok(Connection {
            config,
            sequence: Sequence::new(config.receives(), peer.receives),
            send: Sending {
                buffer: SendBuffer::new(&config, &peer),
                flights: Flights::new(DATA_WORKS + CONTROL_WORKS),
                segments: 0,
                short: false,
                corked: false,
                calls: 0,
                end: End::Open,
                abort: false,
            },
            receive: ReceiveBuffer::new(&config),
            offers: has_offers.then(OfferPair::new),
            offer: None,
            source: Source::default(),
            requests: Requests::default(),
            peer_ended: false,
            over: None,
            stats: Stats::default(),
        })
    }

    /// The flow control, which is the peer's as well.
    pub fn flow(&self) -> &Flow {
        &self.config.flow
    }

    /// Where in the send buffer the program's next bytes go, in one piece. None: there is no room,
    /// or this side sends no more. The caller drives the connection, and waits if it is None still.
    pub fn reserve(&self) -> Option<Piece> {
        if self.over.is_some() || self.send.end != End::Open || self.offer.is_some() {
            return None;
        }
        let credits = self.sequence.credits();
        self.send.buffer.reserve(credits, self.send.segments)
    }

    /// The first `bytes` of the piece that [`Connection::reserve`] gave are there; nothing else was
    /// called in between. `more`: the program will give more at once (the same call goes on,
    /// MSG_MORE), so a short segment waits.
    ///
    /// # Panics
    /// If the piece is shorter: a fault of the caller.
    pub fn commit(&mut self, bytes: u32, more: bool) {
        let room = self.reserve().map_or(0, |piece| piece.bytes);
        assert!(bytes <= room, "{bytes} bytes in a piece of {room}");
        self.send.buffer.write(bytes);
        self.send.calls += u32::from(!more);
        if !self.config.coalesce || !(more || self.send.corked) {
            self.push();
        }
    }

    /// The program's call ends with less than it wanted to give: what it gave with `more` set waits
    /// no longer, unless there is a cork.
    pub fn end_call(&mut self) {
        self.send.calls += 1;
        if !self.send.corked {
            self.push();
        }
    }

    /// What waits because a segment is short may leave: TCP_NODELAY was set. Without TCP_NODELAY
    /// nothing is held back either: bytes leave at once while there is room (papers/004, section
    /// 4.1), and are joined only while there is none.
    pub fn push(&mut self) {
        self.send.buffer.close();
        self.send.short = self.send.buffer.waiting() > 0;
    }

    /// TCP_CORK: short segments wait until the cork is drawn.
    pub fn set_cork(&mut self, corked: bool) {
        self.send.corked = corked;
        if !corked {
            self.push();
        }
    }

    /// The program sends no more: the stream ends behind what it has given.
    pub fn shut_down(&mut self) {
        if self.send.end == End::Open {
            self.push();
            self.send.end = End::Wanted;
        }
    }

    /// This side gives the connection up: the peer is told, if that can be done at once, and the
    /// transport may be closed when [`Connection::poll_work`] gives nothing more.
    pub fn abort(&mut self) {
        self.send.abort = self.over.is_none();
    }

    /// The next unread bytes that lie in one piece of the receive buffers.
    pub fn readable(&self) -> Option<Piece> {
        self.receive.readable()
    }

    /// The program has read the first `bytes` of the piece that [`Connection::readable`] gave.
    ///
    /// # Panics
    /// If the piece is shorter: a fault of the caller.
    pub fn consume(&mut self, bytes: u32) {
        let readable = self.readable().map_or(0, |piece| piece.bytes);
        assert!(bytes <= readable, "{bytes} bytes of a piece of {readable}");
        if bytes > 0 {
            self.receive.consume(bytes);
        }
    }

    /// The peer's stream has ended, and all of it was read.
    pub fn is_at_end(&self) -> bool {
        self.peer_ended && self.receive.unread() == 0 && !self.source.is_open()
    }

    /// Both streams have ended, and what this side has sent has arrived.
    pub fn is_finished(&self) -> bool {
        self.is_at_end() && self.has_arrived()
    }

    /// This side's stream has ended, and all of it has arrived.
    pub fn has_arrived(&self) -> bool {
        // the peer's offer is over for it only when it hears so
        let offers = self.offers.as_ref();
        let has_arrived = offers.is_none_or(|offers| offers.flights.is_empty());
        has_arrived && self.send.flights.is_empty() && self.send.end == End::Sent
    }

    /// Why the connection is over, if it is. What came before can still be read.
    pub fn over(&self) -> Option<Over> {
        self.over
    }

    /// What the transport is to do next. The driver asks until there is nothing, whenever something
    /// has happened: the program's calls and completions alike.
    pub fn poll_work(&mut self) -> Option<Work> {
        if self.over.is_some() {
            return None;
        }
        // receives come first: the messages behind them tell the peer of them
        if let Some((pair, slot)) = self.poll_receive() {
            return Some(Work::Receive { pair, slot });
        }
        if self.send.abort {
            return self.poll_abort();
        }
        if let Some(work) = self.poll_segment() {
            return Some(work);
        }
        let answer = self.poll_answer().or_else(|| self.poll_request());
        if let Some(work) = answer.or_else(|| self.poll_offer()) {
            return Some(work);
        }
        let behind_all = self.send.buffer.waiting() == 0 && self.offer.is_none();
        if self.send.end == End::Wanted && behind_all && self.may_control(3) {
            self.send.end = End::Sent;
            return Some(self.control(Body::DisConn));
        }
        if self.is_update_due() && self.may_control(1) {
            return Some(self.update());
        }
        None
    }

    /// Works of a queue pair up to this one have completed.
    ///
    /// # Errors
    /// The work was not under way.
    pub fn handle_sent(&mut self, pair: Pair, last: WorkId) -> Result<(), Violation> {
        if self.over.is_some() {
            return Ok(());
        }
        let flights = match (&mut self.offers, pair) {
            (Some(offers), Pair::Offers) => &mut offers.flights,
            (None, Pair::Offers) => return self.fail(Violation::Completion),
            (_, Pair::Stream) => &mut self.send.flights,
        };
        let Ok(completed) = flights.complete(last) else {
            return self.fail(Violation::Completion);
        };
        for flight in completed {
            match flight {
                Flight::Segment { bytes } => {
                    self.send.segments -= 1;
                    self.send.buffer.complete(bytes);
                }
                Flight::Read => self.source.complete(),
                Flight::Control => {}
            }
        }
        Ok(())
    }

    /// An RDMA WRITE with immediate data has taken the oldest receive.
    ///
    /// # Errors
    /// The peer breaks the protocol; the connection is over.
    pub fn handle_write(&mut self, bytes: u32, immediate: u32) -> Result<(), Violation> {
        if self.over.is_some() {
            return Ok(());
        }
        let handled = self.receive_write(bytes, immediate);
        handled.or_else(|violation| self.fail(violation))
    }

    /// A message has taken the oldest receive of a queue pair: `prefix` is its start, all of it or
    /// [`HEAD_BYTES`].
    ///
    /// # Errors
    /// The peer breaks the protocol; the connection is over.
    pub fn handle_message(
        &mut self,
        pair: Pair,
        prefix: &[u8],
        length_bytes: u32,
    ) -> Result<(), Violation> {
        if self.over.is_some() {
            return Ok(());
        }
        let handled = match pair {
            Pair::Stream => self.receive_message(prefix, length_bytes),
            Pair::Offers => self.receive_of_offers(prefix, length_bytes),
        };
        handled.or_else(|violation| self.fail(violation))
    }

    /// The transport has failed: nothing comes any more, and nothing arrives.
    pub fn handle_lost(&mut self) {
        self.over.get_or_insert(Over::Lost);
    }

    /// Whether the completion of what is under way should wake the driver although no thread of
    /// the program waits: bytes are in the software-handled part of the buffer (*nic*, papers/004,
    /// section 5.2). In *ring* they wait for the program's next call.
    pub fn wants_completion(&self) -> bool {
        let is_nic = matches!(self.config.flow, Flow::Nic { .. });
        is_nic && self.over.is_none() && self.send.short && self.send.segments > 0
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// How full the buffers are.
    pub fn usage(&self) -> Usage {
        Usage {
            send_bytes: self.send.buffer.bytes(),
            receive_bytes: self.receive.unread(),
        }
    }

    /// Bytes that the program has read and the peer does not know of: *ring* alone.
    pub fn untold_bytes(&self) -> u32 {
        self.receive.untold()
    }

    /// What this side may send, and what it has: for checkers.
    pub fn account(&self) -> Account {
        Account {
            credits: self.sequence.credits(),
            posted: self.receive.posted(),
            untold: self.sequence.untold(self.receive.posted()),
            waiting: self.send.buffer.waiting(),
            segments: self.send.segments,
            spare: self.receive.spare(),
        }
    }

    fn fail(&mut self, violation: Violation) -> Result<(), Violation> {
        self.over = Some(Over::Violation(violation));
        Err(violation)
    }
}

/// What a side may send and what it has, as a checker compares it with the truth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Account {
    /// Messages that it knows the peer has receives for. Nothing in *nic*.
    pub credits: u32,
    /// Receives that it has posted.
    pub posted: u16,
    /// Of these, those that the peer does not know of.
    pub untold: i32,
    /// Bytes in the send buffer that are not under way.
    pub waiting: u32,
    /// Segments under way.
    pub segments: u32,
    /// Bytes that neither unread data nor a receive's window has; *nic* alone.
    pub spare: Option<u32>,
}

/// Sending.
impl Connection {
    /// Whether a message without data may leave, which leaves the peer `least - 1` receives.
    fn may_control(&self, least: u32) -> bool {
        let under_way = self.send.flights.len() - self.send.segments;
        let held_back = matches!(self.config.flow, Flow::Nic { .. });
        under_way < CONTROL_WORKS && (held_back || self.sequence.credits() >= least)
    }

    fn poll_receive(&mut self) -> Option<(Pair, u16)> {
        if let Some(slot) = self.receive.post() {
            return Some((Pair::Stream, slot));
        }
        let slot = self.offers.as_mut()?.post()?;
        Some((Pair::Offers, slot))
    }

    /// The header of the next message, with what the peer is told by each.
    fn header(&mut self) -> MessageHeader {
        self.stats.messages_sent += 1;
        self.sequence.header(self.receive.posted())
    }

    fn control(&mut self, body: Body<'_>) -> Work {
        let header = self.header();
        Work::Send(SendWork {
            pair: Pair::Stream,
            head: Head::new(&Message { header, body }, 0),
            id: self.under_way(Pair::Stream, Flight::Control),
            data: None,
        })
    }

    fn poll_abort(&mut self) -> Option<Work> {
        let tell = self.may_control(1).then(|| self.control(Body::AbortConn));
        self.over = Some(Over::Aborting);
        tell
    }

    fn is_update_due(&self) -> bool {
        let counted = !matches!(self.config.flow, Flow::Nic { .. });
        let credits = counted && self.sequence.is_due(self.receive.posted());
        credits || self.receive.is_due()
    }

    /// Credits, and in *ring* the position up to which the program has read: four bytes of a Data
    /// message, which carries no bytes of the stream there.
    fn update(&mut self) -> Work {
        self.stats.updates_sent += 1;
        match self.receive.tell() {
            Some(tail) => self.control(Body::Data(&tail.to_be_bytes())),
            None => self.control(Body::Data(&[])),
        }
    }

    fn poll_segment(&mut self) -> Option<Work> {
        let credits = self.sequence.credits();
        let (works, short) = (self.send.segments, self.send.short);
        let segment = self.send.buffer.next(credits, works, short)?;
        let bytes = segment.from.bytes;
        self.stats.bytes_sent += u64::from(bytes);
        self.stats.joined += u64::from(segment.to.is_some() && self.send.calls > 1);
        if self.send.buffer.waiting() == 0 {
            (self.send.short, self.send.calls) = (false, 0);
        }
        let id = self.under_way(Pair::Stream, Flight::Segment { bytes });
        Some(match segment.to {
            None => self.segment_by_message(id, &segment),
            Some(to) => self.segment_by_write(id, &segment, to),
        })
    }

    fn segment_by_message(&mut self, id: WorkId, segment: &Segment) -> Work {
        let header = self.header();
        let body = Body::Data(&[]);
        Work::Send(SendWork {
            pair: Pair::Stream,
            head: Head::new(&Message { header, body }, segment.from.bytes),
            id,
            data: Some(segment.from),
        })
    }

    /// The immediate data of *ring* are the position up to which this side's program has read; of
    /// *nic* the position of the segment, for the peer to compare. Both modulo 2^32.
    fn segment_by_write(&mut self, id: WorkId, segment: &Segment, to: u32) -> Work {
        self.stats.writes_sent += 1;
        self.sequence.number();
        let told = self.receive.tell();
        Work::Write(WriteWork {
            id,
            from: segment.from,
            to,
            immediate: told.unwrap_or(segment.position as u32),
        })
    }
}

/// Receiving.
impl Connection {
    fn receive_write(&mut self, bytes: u32, immediate: u32) -> Result<(), Violation> {
        let slot = self.receive.take()?;
        self.receive.free(slot);
        self.sequence.receive_write();
        let end = self.receive.arrived() + u64::from(bytes);
        if self.peer_ended || self.source.is_open() && end > self.source.position() {
            return Err(Violation::BehindEnd(bytes));
        }
        let position = self.receive.arrive_write(bytes)? as u32;
        if matches!(self.config.flow, Flow::Nic { .. }) && immediate != position {
            return Err(Violation::Position {
                got: immediate,
                from: position,
                to: position,
            });
        }
        self.stats.messages_received += 1;
        self.stats.bytes_received += u64::from(bytes);
        // of ring alone
        self.send.buffer.tell_tail(immediate)
    }

    fn receive_message(&mut self, prefix: &[u8], length_bytes: u32) -> Result<(), Violation> {
        let slot = self.receive.take()?;
        let (message, data_bytes) = Message::parse_prefix(prefix, length_bytes)?;
        self.sequence.receive(&message.header)?;
        self.stats.messages_received += 1;
        if message.header.flags.contains(Flags::OOB_PRES) && data_bytes > 0 {
            self.requests.urgent = Some(self.receive.arrived() + u64::from(data_bytes) - 1);
        }
        let headers = length_bytes - data_bytes;
        let is_nic = matches!(self.config.flow, Flow::Nic { .. });
        let position = self.receive.arrived() + u64::from(data_bytes);
        if !is_nic && self.receive_zero_copy(&message.body, data_bytes, position)? {
            return self.receive_inline(slot, headers, data_bytes);
        }
        match message.body {
            Body::Data(prefix) if data_bytes > 0 => {
                return self.receive_data(slot, prefix, data_bytes);
            }
            Body::Data(_) => {}
            Body::DisConn if !self.peer_ended && !self.source.is_open() => self.peer_ended = true,
            Body::AbortConn => self.over = Some(Over::Aborted),
            Body::ChRcvBuf { .. } => self.requests.resize = true,
            Body::ModeChange(change) => self.requests.change(change),
            // taking no offers of the sink is allowed: what is sent by messages makes them stale
            Body::SinkAvail { .. } if data_bytes == 0 && self.requests.may_sink() => {}
            Body::SinkAvailCancel => self.requests.sink_cancelled += 1,
            other => return Err(Violation::Unexpected(other.mid())),
        }
        self.receive.free(slot);
        Ok(())
    }

    /// Bytes of the stream behind the headers of a message: in *credit* alone.
    fn receive_inline(&mut self, slot: u16, headers: u32, bytes: u32) -> Result<(), Violation> {
        if bytes == 0 {
            self.receive.free(slot);
            return Ok(());
        }
        let room = match self.config.flow {
            Flow::Credit => self.config.receive_bytes() - headers,
            Flow::Ring { .. } | Flow::Nic { .. } => 0,
        };
        if bytes > room {
            return Err(Violation::Overrun { room, got: bytes });
        }
        self.stats.bytes_received += u64::from(bytes);
        self.receive.arrive_message(slot, headers, bytes);
        Ok(())
    }

    /// A Data message with data: bytes of the stream in *credit*, the position that the peer's
    /// program has read in *ring*.
    fn receive_data(&mut self, slot: u16, prefix: &[u8], bytes: u32) -> Result<(), Violation> {
        match self.config.flow {
            Flow::Credit if self.peer_ended => Err(Violation::BehindEnd(bytes)),
            Flow::Credit if self.source.is_open() => Err(Violation::Unexpected(Mid::Data)),
            Flow::Credit => self.receive_inline(slot, HEADER_BYTES, bytes),
            Flow::Ring { .. } => {
                let tail: [u8; 4] = prefix.try_into().map_err(|_| Violation::Overrun {
                    room: 4,
                    got: bytes,
                })?;
                self.receive.free(slot);
                self.send.buffer.tell_tail(u32::from_be_bytes(tail))
            }
            Flow::Nic { .. } => Err(Violation::Unexpected(Mid::Data)),
        }
    }
}
