//! What a standard peer may ask for beside data: other buffers, other modes, that its own offers be
//! taken or forgotten; and urgent bytes.
//!
//! Owns: the answers. Must not know: data and their order. This side asks for none of it.

use super::Connection;
use super::work::Work;
use ferriband_sdp_wire::{Body, ConnectionHalf, ModeChange, TransferMode};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Requests {
    /// The peer asks for buffers of another size. It is told the size that there is.
    pub resize: bool,
    /// SinkAvailCancel that are to be answered.
    pub sink_cancelled: u32,
    /// Position of the last urgent byte, among the bytes that came by messages.
    pub urgent: Option<u64>,
    /// How the stream that this side sends moves, as the peer wants it. It may offer sinks in
    /// pipelined mode only.
    sends: TransferMode,
}

impl Default for Requests {
    fn default() -> Self {
        Requests {
            resize: false,
            sink_cancelled: 0,
            urgent: None,
            sends: TransferMode::Combined,
        }
    }
}

impl Requests {
    pub fn change(&mut self, change: ModeChange) {
        if change.half == ConnectionHalf::Send {
            self.sends = change.mode;
        }
    }

    pub fn may_sink(&self) -> bool {
        self.sends == TransferMode::Pipelined
    }

    /// Whether the peer wants no offers (SrcAvail).
    pub fn is_buffered(&self) -> bool {
        self.sends == TransferMode::Buffered
    }
}

impl Connection {
    /// Position of the last urgent byte that came, among the bytes that came by messages.
    pub fn urgent(&self) -> Option<u64> {
        self.requests.urgent
    }

    /// The answer to what the peer asks for.
    pub(super) fn poll_request(&mut self) -> Option<Work> {
        let asked = self.requests.resize || self.requests.sink_cancelled > 0;
        if !asked || !self.may_control(2) {
            return None;
        }
        if self.requests.resize {
            self.requests.resize = false;
            let size_bytes = self.config.receive_bytes();
            return Some(self.control(Body::ChRcvBufAck { size_bytes }));
        }
        self.requests.sink_cancelled -= 1;
        Some(self.control(Body::SinkCancelAck))
    }
}
