//! The receive buffers: what differs between the flow controls on the receiving side.
//!
//! Owns: which receives are posted, which bytes of the stream are unread and where. Must not know:
//! what messages say.

use super::config::{Config, Flow};
use super::work::{Piece, Violation};
use std::collections::VecDeque;

/// Receives and the stream's unread bytes.
#[derive(Clone, Debug)]
pub(super) struct ReceiveBuffer {
    /// Receive buffers that are posted, in their order, and those that are free.
    posted: VecDeque<u16>,
    free: VecDeque<u16>,
    unread: Unread,
    /// Bytes of the stream that came and that were read.
    arrived: u64,
    read: u64,
}

/// Where the unread bytes are.
#[derive(Clone, Debug)]
enum Unread {
    /// *credit*: in the receive buffers, which are so far apart.
    Slots {
        stride: u32,
        /// Data that are not wholly read: whose buffer, and what is left of it.
        pieces: VecDeque<(u16, Piece)>,
    },
    /// *ring*: in the ring.
    Ring {
        size: u32,
        /// The position that the peer was told as read.
        told: u64,
    },
    /// *nic*: in the ring.
    Nic {
        size: u32,
        window: u32,
        /// Bytes that the windows of all receives have: what may be unread.
        space: u32,
    },
}

impl ReceiveBuffer {
    pub fn new(config: &Config) -> Self {
        let receives = config.receives();
        let size = config.ring_bytes();
        let unread = match config.flow {
            Flow::Credit => Unread::Slots {
                stride: config.receive_bytes(),
                pieces: VecDeque::with_capacity(receives.into()),
            },
            Flow::Ring { .. } => Unread::Ring { size, told: 0 },
            Flow::Nic { window_bytes, .. } => Unread::Nic {
                size,
                window: window_bytes,
                space: window_bytes * u32::from(receives),
            },
        };
        ReceiveBuffer {
            posted: VecDeque::with_capacity(receives.into()),
            free: (0..receives).collect(),
            unread,
            arrived: 0,
            read: 0,
        }
    }

    /// Receives that are posted.
    pub fn posted(&self) -> u16 {
        // there are at most u16::MAX buffers
        self.posted.len() as u16
    }

    /// A buffer that is to be posted now, and counts as posted.
    pub fn post(&mut self) -> Option<u16> {
        if let Unread::Nic { window, space, .. } = self.unread {
            // papers/004, section 5.1: each receive has W bytes of its own
            let windows = u64::from(window) * (self.posted.len() as u64 + 1);
            if self.arrived - self.read + windows > u64::from(space) {
                return None;
            }
        }
        let slot = self.free.pop_front()?;
        self.posted.push_back(slot);
        Some(slot)
    }

    /// A message has taken the oldest receive.
    pub fn take(&mut self) -> Result<u16, Violation> {
        self.posted.pop_front().ok_or(Violation::Completion)
    }

    /// The buffer holds nothing.
    pub fn free(&mut self, slot: u16) {
        self.free.push_back(slot);
    }

    /// The buffer, of *credit*, holds so many bytes of the stream behind a message's headers.
    pub fn arrive_message(&mut self, slot: u16, headers: u32, bytes: u32) {
        if let Unread::Slots { stride, pieces } = &mut self.unread {
            let at = u32::from(slot) * *stride + headers;
            pieces.push_back((slot, Piece { at, bytes }));
            self.arrived += u64::from(bytes);
        }
    }

    /// So many bytes of the stream were written into the ring. Returns the position of the first.
    pub fn arrive_write(&mut self, bytes: u32) -> Result<u64, Violation> {
        let unread = (self.arrived - self.read) as u32;
        let room = match self.unread {
            Unread::Slots { .. } => return Err(Violation::UnexpectedWrite),
            Unread::Ring { size, .. } => size - unread,
            Unread::Nic { window, space, .. } => window.min(space - unread),
        };
        if bytes > room {
            return Err(Violation::Overrun { room, got: bytes });
        }
        let position = self.arrived;
        self.arrived += u64::from(bytes);
        Ok(position)
    }

    /// The next unread bytes that lie in one piece.
    pub fn readable(&self) -> Option<Piece> {
        match &self.unread {
            Unread::Slots { pieces, .. } => pieces.front().map(|(_, piece)| *piece),
            Unread::Ring { size, .. } | Unread::Nic { size, .. } => {
                let at = (self.read % u64::from(*size)) as u32;
                let bytes = self.unread().min(*size - at);
                (bytes > 0).then_some(Piece { at, bytes })
            }
        }
    }

    /// So many bytes of that piece were read.
    pub fn consume(&mut self, bytes: u32) {
        self.read += u64::from(bytes);
        if let Unread::Slots { pieces, .. } = &mut self.unread
            && let Some((slot, piece)) = pieces.front_mut()
        {
            piece.at += bytes;
            piece.bytes -= bytes;
            if piece.bytes == 0 {
                self.free.push_back(*slot);
                pieces.pop_front();
            }
        }
    }

    /// Bytes of the stream that came by messages and RDMA WRITEs.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Bytes that came and were not read.
    pub fn unread(&self) -> u32 {
        // at most the space
        (self.arrived - self.read) as u32
    }

    /// Bytes that the program has read and the peer was not told of: *ring* alone.
    pub fn untold(&self) -> u32 {
        match self.unread {
            // at most the ring
            Unread::Ring { told, .. } => (self.read - told) as u32,
            Unread::Slots { .. } | Unread::Nic { .. } => 0,
        }
    }

    /// What the program has read is worth a message of its own: half of the ring.
    pub fn is_due(&self) -> bool {
        match self.unread {
            Unread::Ring { size, told } => self.read - told >= u64::from(size.div_ceil(2)),
            Unread::Slots { .. } | Unread::Nic { .. } => false,
        }
    }

    /// The position up to which the program has read, modulo 2^32, which the peer is told: *ring*
    /// alone.
    pub fn tell(&mut self) -> Option<u32> {
        match &mut self.unread {
            Unread::Ring { told, .. } => {
                *told = self.read;
                Some(self.read as u32)
            }
            Unread::Slots { .. } | Unread::Nic { .. } => None,
        }
    }

    /// Bytes of the space that neither unread data nor a posted receive has: *nic* alone, where the
    /// three together are the space.
    pub fn spare(&self) -> Option<u32> {
        match self.unread {
            Unread::Nic { window, space, .. } => {
                Some(space - self.unread() - window * u32::from(self.posted()))
            }
            Unread::Slots { .. } | Unread::Ring { .. } => None,
        }
    }
}
