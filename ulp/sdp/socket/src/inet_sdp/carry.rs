//! A connection of queue pairs, and the service's end of the program's socket.
//!
//! Owns: the bytes between them, and how each end of a stream and each reset goes on. Must not
//! know: how the two came together.

use super::loopback;
use super::names::{Socket, State};
use crate::own::Own;
use ferriband_sdp_verbs::{Key, Received, Stream};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes under way in each direction, beside what the kernel and the queue pair hold.
const BYTES: usize = 64 << 10;
/// Rounds that one connection has before the others.
const ROUNDS: usize = 32;

/// What becomes of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// There is more to be moved at once.
    Again,
    /// It waits for the program or the peer.
    Waits,
    /// Both streams have ended.
    Finished,
    /// The peer, or the way to it, is gone: the program is told by a reset.
    Lost,
    /// The program has reset its socket: the peer is told.
    Left,
}

/// Bytes that came from one side and go to the other.
struct Piece {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
}

impl Piece {
    fn new() -> Self {
        Piece {
            bytes: vec![0; BYTES].into(),
            from: 0,
            to: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.from == self.to
    }

    fn left(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    fn put(&mut self, bytes: usize) {
        (self.from, self.to) = (0, bytes);
    }
}

/// A connection that is carried.
pub(super) struct Carried {
    pub socket: Socket,
    pub key: Key,
    end: Own,
    stream: Stream,
    /// From the program to the peer.
    up: Piece,
    /// From the peer to the program.
    down: Piece,
    /// The program sends no more, and whether the peer was told.
    ended: bool,
    told_peer: bool,
    /// The peer sends no more, and whether the program was told.
    peer_ended: bool,
    told: bool,
    /// The program ends: what it has sent is all.
    leaves: bool,
    /// Bytes that were moved.
    pub moved: u64,
}

impl Carried {
    pub fn new(socket: Socket, key: Key, end: Own, stream: Stream) -> Self {
        Carried {
            socket,
            key,
            end,
            stream,
            up: Piece::new(),
            down: Piece::new(),
            ended: false,
            told_peer: false,
            peer_ended: false,
            told: false,
            leaves: false,
            moved: 0,
        }
    }

    /// The descriptors that tell of news.
    pub fn interest(&self) -> [BorrowedFd<'_>; 2] {
        [self.end.as_fd(), self.stream.channel().fd()]
    }

    /// The peer has left, as the connection manager says.
    pub fn end(&mut self) {
        // what fails here is told by the next call
        let _ = self.stream.end();
    }

    /// The program ends.
    pub fn leave(&mut self) {
        self.leaves = true;
    }

    /// The peer has all that the program has sent.
    pub fn is_sent(&self) -> bool {
        self.told_peer && self.stream.machine().has_arrived()
    }

    /// The peer has all that the program has sent so far.
    pub fn is_idle(&self) -> bool {
        self.up.is_empty() && self.stream.machine().usage().send_bytes == 0
    }

    /// Moves what can be moved.
    pub fn pump(&mut self) -> Fate {
        for _ in 0..ROUNDS {
            match self.round() {
                Ok(true) => {}
                Ok(false) => return Fate::Waits,
                Err(fate) => return fate,
            }
        }
        Fate::Again
    }

    fn round(&mut self) -> Result<bool, Fate> {
        let up = self.move_up()?;
        let down = self.move_down()?;
        let machine = self.stream.machine();
        let is_over = machine.is_finished() || machine.over().is_some();
        if self.told_peer && self.told && is_over {
            return Err(Fate::Finished);
        }
        Ok(up || down || self.wants_more())
    }

    /// Before it sleeps: asks for news, and looks once more.
    fn wants_more(&mut self) -> bool {
        while let Ok(Some(_)) = self.stream.channel().next_event() {}
        // a queue pair that fails says so by the next send or receive
        let armed = self.stream.arm(false);
        armed.is_ok() && self.stream.progress().is_ok_and(|news| news > 0)
    }

    fn move_up(&mut self) -> Result<bool, Fate> {
        let mut moved = false;
        if self.up.is_empty() && !self.ended {
            match rustix::net::recv(&self.end, &mut *self.up.bytes, RecvFlags::empty()) {
                Ok((0, _)) => self.ended = true,
                Ok((bytes, _)) => self.up.put(bytes),
                Err(Errno::AGAIN) if self.leaves => self.ended = true,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return Err(Fate::Left),
            }
            moved = self.ended;
        }
        if !self.up.is_empty() {
            let sent = self.stream.send(self.up.left(), false);
            let sent = sent.map_err(|_| self.lost())?;
            self.up.from += sent;
            self.moved += sent as u64;
            moved |= sent > 0;
        }
        if self.up.is_empty() && self.ended && !self.told_peer {
            let told = self.stream.shut_down();
            let is_over = told.is_err() || self.stream.machine().over().is_some();
            if is_over && !self.peer_ended {
                return Err(self.lost());
            }
            self.told_peer = true;
        }
        Ok(moved)
    }

    fn move_down(&mut self) -> Result<bool, Fate> {
        let mut moved = false;
        if self.down.is_empty() && !self.peer_ended {
            match self.stream.receive(&mut self.down.bytes) {
                Ok(Received::Bytes(bytes)) => self.down.put(bytes),
                Ok(Received::End) => self.peer_ended = true,
                Ok(Received::Nothing) => {}
                Err(_) => return Err(Fate::Lost),
            }
            moved = self.peer_ended;
        }
        if !self.down.is_empty() {
            match rustix::net::send(&self.end, self.down.left(), SendFlags::NOSIGNAL) {
                Ok(bytes) => {
                    self.down.from += bytes;
                    self.moved += bytes as u64;
                    moved = true;
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return Err(Fate::Left),
            }
        }
        if self.down.is_empty() && self.peer_ended && !self.told {
            // a program that has reset is seen by the next read
            let _ = rustix::net::shutdown(&self.end, Shutdown::Write);
            self.told = true;
        }
        Ok(moved)
    }

    /// The connection is over: the program gets what came before as far as there is room for it,
    /// as by TCP, whose peer sends no more than that.
    fn lost(&mut self) -> Fate {
        while let Ok(true) = self.move_down() {}
        Fate::Lost
    }

    /// Ends it; gives the stream if it has something to say to the peer.
    pub fn over(mut self, fate: Fate) -> Option<(Key, Stream)> {
        match fate {
            Fate::Finished => loopback::close_well(&self.end),
            Fate::Left => {
                let _ = self.stream.abort();
            }
            _ => {}
        }
        if !self.socket.change(State::Waits, State::Free) {
            self.socket.set(State::Gone);
        }
        (fate == Fate::Left).then_some((self.key, self.stream))
    }
}
