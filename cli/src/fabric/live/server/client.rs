//! Somebody who is attached, and what waits for him.

use ferriband_attach::{AttachError, Link, PIECE_BYTES, packet, pieces, whole_piece};
use ferriband_fabric::interface::AgentId;
use ferriband_fabric::live::Room;
use ferriband_fabric::manage::Place;
use ferriband_topology::PortId;
use std::collections::VecDeque;
use std::time::Instant;

/// What somebody does by his connection.
#[derive(Debug)]
pub(super) enum Role {
    /// Asks.
    Asks,
    /// Sends and gets management packets at a place; by his numbers, the agents.
    Mads(Place, Vec<Option<AgentId>>),
    /// Sends and gets data packets at a place.
    Packets(Place),
    /// Is in a multicast group.
    InGroup,
    /// Looks at the cable of a port; so many packets were lost to him since the last that he got.
    Looks(PortId, usize, u32),
}

/// Somebody who is attached.
#[derive(Debug)]
pub(super) struct Client {
    pub link: Link,
    pub pid: u32,
    pub role: Role,
    /// A message whose end has not come.
    pub coming: Vec<u8>,
    pub going: VecDeque<Vec<u8>>,
    pub going_bytes: usize,
    /// Data packets that go together.
    pub packets: Vec<u8>,
    /// Room of pieces that have gone, for the next ones.
    spare: Vec<Vec<u8>>,
    /// Room in the buffer of his adapter's port that is given back when he has taken more.
    pub rooms: Vec<Room>,
    /// When he took something last.
    pub took: Instant,
    /// He takes nothing for long: his adapter lets go of what is for him.
    pub stopped: bool,
    /// Of who gets data packets: the partition keys of which he was told.
    pub pkeys: Vec<u16>,
    /// Whether his port's link is Active, as he was told.
    pub active: Option<bool>,
    /// He gets what waits, and that is the end.
    pub last: bool,
    /// He takes nothing any more: he has closed. What he had said before may still lie here to be read.
    pub deaf: bool,
    pub gone: bool,
}

/// Pieces that go to a connection by one call.
const BATCH: usize = 64;
/// Data packets that go together, in bytes: the message is one piece.
const MESSAGE_BYTES: usize = 24 << 10;
/// Bytes of such a message at the most, with what says how long the last packet is and that it is the last piece.
const MOST_MESSAGE_BYTES: usize = MESSAGE_BYTES + packet::PACKET_BYTES + 3;
const _: () = assert!(MOST_MESSAGE_BYTES < PIECE_BYTES);
/// Pieces whose room is kept.
const SPARES: usize = 4;

impl Client {
    pub fn new(link: Link) -> Client {
        Client {
            pid: link.peer(),
            link,
            role: Role::Asks,
            coming: Vec::new(),
            going: VecDeque::new(),
            going_bytes: 0,
            packets: Vec::new(),
            spare: Vec::new(),
            rooms: Vec::new(),
            took: Instant::now(),
            stopped: false,
            pkeys: Vec::new(),
            active: None,
            last: false,
            deaf: false,
            gone: false,
        }
    }

    /// Bytes that wait for him.
    pub fn waiting(&self) -> usize {
        self.going_bytes + self.packets.len()
    }

    /// A data packet for him.
    pub fn push_packet(&mut self, bytes: &[u8]) {
        if self.deaf {
            return;
        }
        if self.packets.capacity() == 0 {
            let fresh = || Vec::with_capacity(MOST_MESSAGE_BYTES);
            self.packets = self.spare.pop().unwrap_or_else(fresh);
        }
        packet::push(&mut self.packets, bytes);
        if self.packets.len() >= MESSAGE_BYTES {
            self.finish_packets();
        }
    }

    /// What was put together waits to go.
    fn finish_packets(&mut self) {
        let message = std::mem::take(&mut self.packets);
        if message.len() >= PIECE_BYTES {
            // who looks at a cable may get more at a time
            return self.send_later(&message);
        }
        let piece = whole_piece(message);
        self.going_bytes += piece.len();
        self.going.push_back(piece);
    }

    /// Sends on what was put together.
    pub fn send_packets(&mut self) {
        if !self.packets.is_empty() {
            match self.deaf {
                true => self.packets = Vec::new(),
                false => self.finish_packets(),
            }
        }
        self.flush();
    }

    /// Lets go of what waits for him, but for one piece that shows when he takes something again. How many packets that were.
    pub fn stop(&mut self) -> u64 {
        self.stopped = true;
        // word of them may be among what is let go of
        self.pkeys.clear();
        self.active = None;
        let mut lost = 0;
        let mut count = |message: &[u8]| {
            lost += packet::packets(message).map_or(0, Iterator::count) as u64;
        };
        while self.going.len() > 1 {
            if let Some(piece) = self.going.pop_back() {
                self.going_bytes -= piece.len();
                // behind the byte that says that it is a whole message
                count(piece.get(1..).unwrap_or_default());
            }
        }
        count(&std::mem::take(&mut self.packets));
        lost
    }

    pub fn send(&mut self, message: &[u8]) {
        self.send_later(message);
        self.flush();
    }

    /// The same with the next ones, by [`Self::flush`].
    pub fn send_later(&mut self, message: &[u8]) {
        if self.deaf {
            return;
        }
        for piece in pieces(message) {
            self.going_bytes += piece.len();
            self.going.push_back(piece);
        }
    }

    pub fn flush(&mut self) {
        while !self.going.is_empty() {
            let pieces = self.going.iter().take(BATCH).map(Vec::as_slice);
            match self.link.send_pieces(pieces) {
                Ok(went) => {
                    for mut piece in self.going.drain(..went) {
                        self.going_bytes -= piece.len();
                        let is_large = piece.capacity() >= MOST_MESSAGE_BYTES;
                        if is_large && piece.capacity() <= PIECE_BYTES && self.spare.len() < SPARES
                        {
                            piece.clear();
                            self.spare.push(piece);
                        }
                    }
                    if went == 0 {
                        return;
                    }
                    (self.took, self.stopped) = (Instant::now(), false);
                }
                Err(AttachError::Gone) => {
                    self.deaf = true;
                    self.going.clear();
                    self.going_bytes = 0;
                    return;
                }
                Err(_) => {
                    self.gone = true;
                    return;
                }
            }
        }
    }
}
