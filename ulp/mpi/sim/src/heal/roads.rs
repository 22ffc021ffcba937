//! What a link knows of the ways beside SEND: the blocks for records, and the lane.

use super::wire::Body;
pub use crate::rank::Channel;
use crate::wire::Memory;
use ferriband_heal::Number;
use ferriband_mpi_proto::fast::{AnyReceiver, Gate};
use ferriband_mpi_proto::resume::Doubt;
use std::collections::{BTreeMap, VecDeque};

/// The way of records to a peer.
#[derive(Default)]
pub struct Outbound {
    pub channel: Channel,
    pub life: u32,
    pub mirror: Vec<u8>,
    /// The word that the peer returns credit and acknowledgements to.
    pub returned: u64,
    pub gate: Gate,
    /// Messages since there was none.
    pub messages: u32,
}

impl Outbound {
    pub fn behind(acknowledged: Number) -> Self {
        Self {
            returned: u64::from(acknowledged.0) << 32,
            ..Self::default()
        }
    }

    /// A life is over.
    pub fn close(&mut self, acknowledged: Number) {
        let (life, gate) = (self.life, Gate::default());
        *self = Self {
            life,
            gate,
            ..Self::behind(acknowledged)
        };
    }
}

/// A block that a peer writes to.
pub struct Inbound {
    pub receiver: AnyReceiver,
    pub memory: Memory,
    pub life: u32,
    /// What the records in it say.
    pub bodies: BTreeMap<u32, Body>,
    pub owes: bool,
}

impl Inbound {
    /// Granules consumed in all, without telling anybody.
    pub fn consumed(&self) -> u32 {
        self.receiver.clone().report()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneState {
    /// Nobody has wanted it in this life.
    #[default]
    Idle,
    /// The peer has been told.
    Told,
    /// Both have.
    Ready,
}

/// The lane to one peer.
#[derive(Default)]
pub struct Lane {
    pub state: LaneState,
    pub queue_pair: Option<usize>,
    /// The peer's end, if it has told it.
    pub peer: Option<u32>,
    /// Receives in their order.
    pub landing: VecDeque<usize>,
    /// The number of the last receive, and of the last that has its message.
    pub posted: u32,
    pub landed: u32,
    /// Whether the memory of the oldest receive is not there.
    pub doubt: Doubt,
    /// The peer has not been told of the last one.
    pub is_news: bool,
    /// The number of the last receive there that a message was asked for, and of the last that has
    /// its message.
    pub asked: u32,
    pub known: u32,
}

impl Lane {
    /// A life is over.
    pub fn close(&mut self) {
        *self = Self {
            landing: std::mem::take(&mut self.landing),
            posted: self.posted,
            landed: self.landed,
            doubt: self.doubt,
            asked: self.asked,
            known: self.known,
            ..Self::default()
        };
    }
}
