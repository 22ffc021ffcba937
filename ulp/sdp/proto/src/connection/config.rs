//! What the two sides of a connection have agreed on: flow control, buffers, window.
//!
//! Owns: which numbers are possible. Must not know: where the buffers lie.

use ferriband_sdp_wire::{Bsdh, FlowControl};

/// Bytes of a receive buffer that takes no stream bytes, only messages: the longest header, and
/// room for what later versions may add.
pub const MESSAGE_BYTES: u32 = 64;

/// Bytes of the header in front of the data of a message.
pub const HEADER_BYTES: u32 = Bsdh::LEN as u32;

/// Receives that a side has at least. With fewer, the two reserved credits and the acknowledgement
/// after half could not hold together.
pub const LEAST_RECEIVES: u16 = 4;

/// The flow control of a connection, with what only it needs. Both sides use one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// N buffers of S bytes; each message takes one, whatever its length (papers/004, section 3).
    Credit,
    /// N x S bytes are one ring, which the sender manages byte by byte (section 4).
    Ring {
        /// Receives: each RDMA WRITE with immediate data and each message takes one until this
        /// side's machine has seen it.
        receives: u16,
    },
    /// A receive for each W free bytes; the peer's adapter holds back what has none (section 5).
    Nic {
        /// W: bytes of the virtual window, and of the longest segment that the peer may write.
        window_bytes: u32,
        /// Bytes of the ring beyond N x S. What the peer's adapter holds is written there before
        /// its receive exists. At least W.
        reserve_bytes: u32,
        /// Whether this side brings a second queue pair. Zero copy needs one at both sides.
        offers: bool,
    },
}

/// What one side brings to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The flow control.
    pub flow: Flow,
    /// N: buffers, for sending and for receiving each.
    pub buffers: u16,
    /// S: bytes of data that a buffer holds.
    pub buffer_bytes: u32,
    /// Whether bytes that wait for room are joined into long segments. Without it a side takes
    /// bytes from its program only when it can send them at once. *credit* never joins the bytes of
    /// two calls, unless the program asks for it.
    pub coalesce: bool,
}

/// Why a side's or its peer's numbers are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} is {got}, expected {least} to {most}")]
pub struct ConfigError {
    /// Which number.
    pub what: &'static str,
    /// Its value.
    pub got: u64,
    /// The least that is possible.
    pub least: u64,
    /// The most that is possible.
    pub most: u64,
}

/// The longest ring: positions are told modulo 2^32, and half of these must tell two apart.
const LONGEST: u64 = 1 << 30;

fn between(what: &'static str, got: u64, least: u64, most: u64) -> Result<(), ConfigError> {
    if (least..=most).contains(&got) {
        return Ok(());
    }
    Err(ConfigError {
        what,
        got,
        least,
        most,
    })
}

impl Config {
    /// N x S: bytes of data that the receive buffers hold.
    pub fn space_bytes(&self) -> u32 {
        u32::from(self.buffers) * self.buffer_bytes
    }

    /// Bytes of this side's ring; 0 where there is none.
    pub fn ring_bytes(&self) -> u32 {
        match self.flow {
            Flow::Credit => 0,
            Flow::Ring { .. } => self.space_bytes(),
            Flow::Nic { reserve_bytes, .. } => self.space_bytes() + reserve_bytes,
        }
    }

    /// Receive buffers, and receives that are posted at first.
    pub fn receives(&self) -> u16 {
        match self.flow {
            Flow::Credit => self.buffers,
            Flow::Ring { receives } => receives,
            Flow::Nic { window_bytes, .. } => {
                u16::try_from(self.space_bytes() / window_bytes).unwrap_or(u16::MAX)
            }
        }
    }

    /// Bytes of a receive buffer, header included.
    pub fn receive_bytes(&self) -> u32 {
        match self.flow {
            Flow::Credit => self.buffer_bytes + HEADER_BYTES,
            Flow::Ring { .. } | Flow::Nic { .. } => MESSAGE_BYTES,
        }
    }

    /// Bytes of the send buffer: N buffers with a header in front of each, or N x S in one piece.
    pub fn send_bytes(&self) -> u32 {
        match self.flow {
            Flow::Credit => u32::from(self.buffers) * (self.buffer_bytes + HEADER_BYTES),
            Flow::Ring { .. } | Flow::Nic { .. } => self.space_bytes(),
        }
    }

    /// # Errors
    /// The first number that cannot be.
    pub fn check(&self) -> Result<(), ConfigError> {
        let size = u64::from(self.buffer_bytes);
        between("the buffers' length", size, 1, LONGEST)?;
        let space = u64::from(self.buffers) * size;
        between("the receive space", space, 1, LONGEST)?;
        if let Flow::Nic {
            window_bytes,
            reserve_bytes,
            ..
        } = self.flow
        {
            let least = u64::from(LEAST_RECEIVES);
            let window = u64::from(window_bytes);
            let shortest = space.div_ceil(u64::from(u16::MAX));
            between("the virtual window", window, shortest, space / least)?;
            between("the reserve", u64::from(reserve_bytes), window, LONGEST)?;
        }
        let least = u64::from(LEAST_RECEIVES);
        let receives = u64::from(self.receives());
        between("the number of receives", receives, least, u16::MAX.into())
    }
}

/// Segments that the send queue holds at most: the driver's queue has room for these and for
/// [`CONTROL_WORKS`].
pub const DATA_WORKS: u32 = 64;

/// Messages without data that the send queue holds at most.
pub const CONTROL_WORKS: u32 = 8;

/// Receives of the second queue pair, of [`MESSAGE_BYTES`] each.
pub const OFFER_RECEIVES: u16 = 8;

/// What a side knows of its peer's buffers, from Hello or HelloAck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Receives that the peer has posted.
    pub receives: u16,
    /// Bytes of each, header included.
    pub receive_bytes: u32,
    /// Its ring.
    pub flow: PeerFlow,
    /// Whether it has a second queue pair: in *nic* alone.
    pub offers: bool,
}

/// What a side knows of its peer's flow control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerFlow {
    /// No ring.
    Credit,
    /// A ring of so many bytes.
    Ring {
        /// Bytes.
        ring_bytes: u32,
    },
    /// A ring of so many bytes, and the peer's virtual window. The ring is as long as all receives'
    /// windows and the reserve together.
    Nic {
        /// Bytes, reserve included.
        ring_bytes: u32,
        /// Bytes of the longest segment.
        window_bytes: u32,
    },
}

impl Peer {
    /// What Hello or HelloAck says: `bufs` of its BSDH, its receive size, its negotiation.
    pub fn new(bufs: u16, receive_bytes: u32, flow_control: Option<FlowControl>) -> Self {
        let second = match flow_control {
            Some(FlowControl::Nic { second_qp, .. }) => second_qp,
            _ => 0,
        };
        let flow = match flow_control {
            None | Some(FlowControl::Credit) => PeerFlow::Credit,
            Some(FlowControl::Ring(ring)) => PeerFlow::Ring {
                ring_bytes: ring.size_bytes,
            },
            Some(FlowControl::Nic {
                ring, window_bytes, ..
            }) => PeerFlow::Nic {
                ring_bytes: ring.size_bytes,
                window_bytes,
            },
        };
        Peer {
            receives: bufs,
            receive_bytes,
            flow,
            offers: second != 0,
        }
    }

    /// What the peer of a side with these numbers knows.
    pub fn of(config: &Config) -> Self {
        let ring_bytes = config.ring_bytes();
        let flow = match config.flow {
            Flow::Credit => PeerFlow::Credit,
            Flow::Ring { .. } => PeerFlow::Ring { ring_bytes },
            Flow::Nic { window_bytes, .. } => PeerFlow::Nic {
                ring_bytes,
                window_bytes,
            },
        };
        Peer {
            receives: config.receives(),
            receive_bytes: config.receive_bytes(),
            flow,
            offers: matches!(config.flow, Flow::Nic { offers: true, .. }),
        }
    }

    /// Bytes that the peer's adapter takes before their receives exist: what its ring holds beyond
    /// the windows of all its receives.
    pub(crate) fn reserve_bytes(&self) -> u32 {
        match self.flow {
            PeerFlow::Nic {
                ring_bytes,
                window_bytes,
            } => ring_bytes.saturating_sub(u32::from(self.receives) * window_bytes),
            PeerFlow::Credit | PeerFlow::Ring { .. } => 0,
        }
    }

    /// # Errors
    /// The first number that no side can work with, or another kind than `flow`.
    pub(crate) fn check(&self, flow: &Flow) -> Result<(), ConfigError> {
        let is_kind = matches!(
            (flow, self.flow),
            (Flow::Credit, PeerFlow::Credit)
                | (Flow::Ring { .. }, PeerFlow::Ring { .. })
                | (Flow::Nic { .. }, PeerFlow::Nic { .. })
        );
        between("the peer's kind of flow control", is_kind.into(), 1, 1)?;
        // two credits are reserved
        between(
            "the peer's receives",
            self.receives.into(),
            3,
            u16::MAX.into(),
        )?;
        let shortest = match self.flow {
            PeerFlow::Credit => u64::from(HEADER_BYTES) + 1,
            PeerFlow::Ring { .. } | PeerFlow::Nic { .. } => MESSAGE_BYTES.into(),
        };
        let receive = u64::from(self.receive_bytes);
        between(
            "the peer's receive size",
            receive,
            shortest,
            u32::MAX.into(),
        )?;
        match self.flow {
            PeerFlow::Credit => Ok(()),
            PeerFlow::Ring { ring_bytes } => {
                between("the peer's ring", ring_bytes.into(), 1, LONGEST)
            }
            PeerFlow::Nic {
                ring_bytes,
                window_bytes,
            } => {
                between("the peer's ring", ring_bytes.into(), 1, 2 * LONGEST)?;
                let window = u64::from(window_bytes);
                let most = u64::from(ring_bytes) / (u64::from(self.receives) + 1);
                between("the peer's virtual window", window, 1, most)
            }
        }
    }
}
