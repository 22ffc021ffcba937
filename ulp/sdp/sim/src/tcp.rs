//! The kernel's TCP: one connection, whose bytes move when the scheduler says so.
//!
//! Owns: what lies where on the way, ends and resets, as Linux has them. Must not know: rings, who
//! sleeps. Direction `d` carries what side `d` sends.

use std::collections::VecDeque;

use crate::memory::Tag;
use ferriband_sdp_local::Errno;
use ferriband_seed::Rng;

pub(crate) const EAGAIN: Errno = Errno(11);
const EPIPE: Errno = Errno(32);
const ECONNRESET: Errno = Errno(104);

/// What an empty queue takes in one call, whatever its limit: as much as a ring may hold.
const AT_LEAST: u64 = 512;

#[derive(Default)]
struct Direction {
    /// Sent, and not at the receiver.
    flight: VecDeque<Tag>,
    /// At the receiver, and not acknowledged.
    unacknowledged: u64,
    /// Lost with the connection, and never acknowledged: SIOCOUTQ counts them on, as Linux does.
    refused: u64,
    queue: VecDeque<Tag>,
    sent: u64,
    taken: u64,
    send_limit: u64,
    receive_limit: u64,
    /// The sender's end is behind what is in flight.
    ends: bool,
    ended: bool,
}

impl Direction {
    /// What is in flight comes to nobody.
    fn refuse(&mut self) {
        self.refused += self.flight.len() as u64;
        self.flight.clear();
    }
}

#[derive(Default)]
struct Socket {
    closed: bool,
    /// A reset is on its way to it.
    reset_comes: bool,
    reset: bool,
    error: Option<Errno>,
}

/// What happened, and to which side's socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// Bytes, an end or a reset came to this side.
    In(usize),
    /// This side can send more.
    Room(usize),
    /// Bytes came to a side that had closed: it answers with a reset.
    Refused(usize),
}

#[derive(Default)]
pub(crate) struct Tcp {
    directions: [Direction; 2],
    sockets: [Socket; 2],
    /// A reset was sent.
    pub was_reset: bool,
}

impl Tcp {
    /// Of each direction what the sender's socket holds, and what the receiver's does.
    pub fn new(limits: [(u64, u64); 2]) -> Self {
        let mut tcp = Tcp::default();
        for (direction, limits) in tcp.directions.iter_mut().zip(limits) {
            (direction.send_limit, direction.receive_limit) = limits;
        }
        tcp
    }

    pub fn sent(&self, side: usize) -> u64 {
        self.directions[side].sent
    }

    pub fn taken(&self, side: usize) -> u64 {
        self.directions[1 - side].taken
    }

    pub fn send_queue(&self, side: usize) -> (u64, u64) {
        let out = &self.directions[side];
        let held = out.flight.len() as u64 + out.unacknowledged + out.refused;
        (held, out.send_limit)
    }

    /// As send(2) of a socket that does not wait.
    pub fn send(&mut self, rng: &mut Rng, side: usize, tags: &[Tag]) -> Result<u64, Errno> {
        let socket = &mut self.sockets[side];
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let out = &mut self.directions[side];
        if socket.reset || socket.closed || out.ends {
            return Err(EPIPE);
        }
        let held = out.flight.len() as u64 + out.unacknowledged;
        let mut room = (out.send_limit / 2).saturating_sub(held);
        if held == 0 {
            room = room.max(AT_LEAST);
        } else if room == 0 && held < out.send_limit && rng.chance(50) {
            room = rng.range(1, out.send_limit - held);
        }
        let taken = room.min(tags.len() as u64);
        if taken == 0 {
            return Err(EAGAIN);
        }
        out.flight.extend(&tags[..taken as usize]);
        out.sent += taken;
        Ok(taken)
    }

    pub fn may_send(&self, side: usize) -> bool {
        let (held, limit) = self.send_queue(side);
        let socket = &self.sockets[side];
        held == 0 || held < limit / 2 || socket.reset || socket.error.is_some()
    }

    pub fn may_receive(&self, side: usize) -> bool {
        let inward = &self.directions[1 - side];
        let socket = &self.sockets[side];
        !inward.queue.is_empty() || inward.ended || socket.reset || socket.error.is_some()
    }

    /// As recv(2) of a socket that does not wait. No bytes: the end.
    pub fn receive(&mut self, side: usize, most: u64) -> Result<Vec<Tag>, Errno> {
        let inward = &mut self.directions[1 - side];
        let socket = &mut self.sockets[side];
        let bytes = (inward.queue.len() as u64).min(most);
        if bytes > 0 {
            inward.taken += bytes;
            return Ok(inward.queue.drain(..bytes as usize).collect());
        }
        // behind the peer's end there is nothing, whatever has happened since
        if inward.ended {
            return Ok(Vec::new());
        }
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        if socket.reset {
            return Ok(Vec::new());
        }
        Err(EAGAIN)
    }

    /// recv(2) with MSG_PEEK.
    pub fn peek(&mut self, side: usize, most: u64) -> Result<Vec<Tag>, Errno> {
        let queue = &self.directions[1 - side].queue;
        if queue.is_empty() || most == 0 {
            return self.receive(side, 0);
        }
        let bytes = queue.len().min(most as usize);
        Ok(queue.iter().take(bytes).copied().collect())
    }

    /// SO_ERROR, which takes it.
    pub fn take_error(&mut self, side: usize) -> Option<Errno> {
        self.sockets[side].error.take()
    }

    /// The peer's end has come to this side.
    pub fn has_end(&self, side: usize) -> bool {
        self.directions[1 - side].ended
    }

    /// This side has ended its stream.
    pub fn is_shut(&self, side: usize) -> bool {
        self.directions[side].ends
    }

    pub fn shut_down(&mut self, side: usize) {
        self.directions[side].ends = true;
    }

    /// The last descriptor of a side is gone. True if that sends a reset: if something is unread,
    /// or `resets` says so.
    pub fn close(&mut self, rng: &mut Rng, side: usize, resets: bool) -> bool {
        self.sockets[side].closed = true;
        let unread = !self.directions[1 - side].queue.is_empty();
        if (unread || resets) && !self.sockets[side].reset {
            self.reset(rng, side);
            return true;
        }
        self.directions[side].ends = true;
        false
    }

    /// `side` resets the connection: what it has in flight is lost, or some of it.
    fn reset(&mut self, rng: &mut Rng, side: usize) {
        let out = &mut self.directions[side];
        let room = out.receive_limit.saturating_sub(out.queue.len() as u64);
        let arrive = room.min(out.flight.len() as u64);
        out.flight.truncate(rng.below(arrive + 1) as usize);
        self.sockets[1 - side].reset_comes = true;
        self.sockets[side].reset = true;
        self.was_reset = true;
    }

    /// What poll(2) says of the peer: it has ended, the connection is over.
    pub fn ends(&self, side: usize) -> (bool, bool) {
        let ended = self.directions[1 - side].ended;
        let reset = self.sockets[side].reset;
        let shut = self.directions[side].ends && ended;
        (ended || reset, reset || shut)
    }

    fn can_move(&self, direction: usize) -> bool {
        let here = &self.directions[direction];
        let receiver = &self.sockets[1 - direction];
        if receiver.reset {
            return false;
        }
        let room = receiver.closed || (here.queue.len() as u64) < here.receive_limit;
        !here.flight.is_empty() && room
            || here.unacknowledged > 0 && !self.sockets[direction].reset
            || here.flight.is_empty() && (here.ends && !here.ended || receiver.reset_comes)
    }

    /// Moves something.
    pub fn step(&mut self, rng: &mut Rng) -> Option<Event> {
        let start = rng.below(2) as usize;
        let direction = [start, 1 - start]
            .into_iter()
            .find(|direction| self.can_move(*direction))?;
        let (sender, receiver) = (direction, 1 - direction);
        let here = &mut self.directions[direction];
        let room = here.receive_limit.saturating_sub(here.queue.len() as u64);
        let moves = !here.flight.is_empty() && (room > 0 || self.sockets[receiver].closed);
        let acknowledges = here.unacknowledged > 0 && !self.sockets[sender].reset;
        if acknowledges && (!moves || rng.chance(50)) {
            here.unacknowledged -= rng.range(1, here.unacknowledged);
            return Some(Event::Room(sender));
        }
        if here.flight.is_empty() {
            if self.sockets[receiver].reset_comes {
                self.be_reset(receiver);
            } else {
                here.ended = true;
                // what ends a stream acknowledges all that has come the other way
                self.directions[receiver].unacknowledged = 0;
            }
            return Some(Event::In(receiver));
        }
        if self.sockets[receiver].closed {
            here.refuse();
            self.reset(rng, receiver);
            return Some(Event::Refused(receiver));
        }
        let most = room.min(here.flight.len() as u64);
        let bytes = rng.range(1, most);
        here.unacknowledged += bytes;
        here.queue.extend(here.flight.drain(..bytes as usize));
        Some(Event::In(receiver))
    }

    fn be_reset(&mut self, side: usize) {
        let socket = &mut self.sockets[side];
        socket.reset_comes = false;
        socket.reset = true;
        let error = if self.directions[1 - side].ended {
            EPIPE
        } else {
            ECONNRESET
        };
        socket.error = Some(error);
        let out = &mut self.directions[side];
        out.refused += std::mem::take(&mut out.unacknowledged);
        out.refuse();
    }
}
