//! What every part of a queue pair reads but does not own, and the few types they share.

use crate::rc::held::HoldBudget;
use crate::types::{QpAttr, SendOpcode};
use ferriband_wire::{Operation, Qpn, Service, Suffix};

/// Choices that the specification leaves open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Data packets in flight, at the most (READ responses not counted). At least 1.
    pub max_inflight_packets: u32,
    /// An acknowledgement is asked for at least every so many packets, and at each message's end if somebody waits for it.
    pub ack_interval: u32,
    /// Largest datagram payload in bytes: the port's MTU (UD has no path MTU of its own).
    pub datagram_mtu: u32,
    /// After so many nanoseconds without an answer, and a few round trips, the oldest packet is sent once more to ask for
    /// one. The ack time-out stays what it is; without this a lost tail or NAK would cost all of it.
    pub silence_ns: u64,
    /// No try waits less for its answer, whatever ack time-out was asked for; 0 for none. A peer in software may have to wait for
    /// a processor, and is not dead then.
    pub timeout_floor_ns: u64,
    /// Requests that come before their turn wait behind the gap, as far as this goes, instead of being dropped (RC). None: a lost
    /// packet costs all that was sent after it, as the specification has it.
    pub hold: Option<&'static HoldBudget>,
    /// A peer that was seen to fill gaps alone is told of all of them at once, by a manufacturer's packet
    /// ([`GapReport`](ferriband_wire::GapReport)) which others drop. Where nothing is held there is nothing to tell.
    pub list_gaps: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            max_inflight_packets: 1024,
            ack_interval: 128,
            datagram_mtu: 4096,
            silence_ns: 200_000,
            timeout_floor_ns: 0,
            hold: None,
            list_gaps: false,
        }
    }
}

/// Read-only surroundings of a call into a part of a queue pair.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub qpn: Qpn,
    pub service: Service,
    pub attr: &'a QpAttr,
    pub tuning: &'a Tuning,
    /// BTH MigReq: the path state is Migrated.
    pub migrated: bool,
}

/// An asynchronous event of a queue pair (`ibv_event_type` of the same names).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u16)]
pub enum QpEvent {
    /// The first packet arrived while in RTR.
    CommEst = 0,
    /// The send queue has drained.
    SqDrained = 1,
    /// A failure of this side.
    QpFatal = 2,
    /// The peer sent an invalid request.
    QpReqErr = 3,
    /// The peer violated a key, its rights or its range.
    QpAccessErr = 4,
    /// The path has migrated.
    PathMig = 5,
    /// A migration was asked for and could not be done.
    PathMigErr = 6,
    /// No more receives will be taken from the shared receive queue.
    LastWqeReached = 7,
}

/// Events that wait to be polled: each kind at most once, so that there is no queue to overflow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Events(u16);

impl Events {
    const ALL: [QpEvent; 8] = [
        QpEvent::CommEst,
        QpEvent::SqDrained,
        QpEvent::QpFatal,
        QpEvent::QpReqErr,
        QpEvent::QpAccessErr,
        QpEvent::PathMig,
        QpEvent::PathMigErr,
        QpEvent::LastWqeReached,
    ];

    pub fn raise(&mut self, event: QpEvent) {
        self.0 |= 1 << event as u16;
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn poll(&mut self) -> Option<QpEvent> {
        let event = *Self::ALL.get(self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(event)
    }
}

/// Operation on the wire and what its last packet adds; None for operations without packets.
pub(crate) const fn on_the_wire(opcode: SendOpcode) -> Option<(Operation, Suffix)> {
    Some(match opcode {
        SendOpcode::Send => (Operation::Send, Suffix::None),
        SendOpcode::SendImm => (Operation::Send, Suffix::Immediate),
        SendOpcode::SendInv => (Operation::Send, Suffix::Invalidate),
        SendOpcode::RdmaWrite => (Operation::RdmaWrite, Suffix::None),
        SendOpcode::RdmaWriteImm => (Operation::RdmaWrite, Suffix::Immediate),
        SendOpcode::RdmaRead => (Operation::RdmaReadRequest, Suffix::None),
        SendOpcode::CmpSwap => (Operation::CompareSwap, Suffix::None),
        SendOpcode::FetchAdd => (Operation::FetchAdd, Suffix::None),
        SendOpcode::LocalInv | SendOpcode::BindMw => return None,
    })
}
