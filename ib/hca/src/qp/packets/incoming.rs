//! Packets of one source as they come to a queue pair, under one lock of its machine.
//!
//! Owns what a batch of packets has in common: the region that was found last, and whether the
//! source is the peer. Must
//! not know sockets, nor what the batch lets go ([`super::Qp::turn_packets`]).

use std::sync::Arc;

use ferriband_transport::direct::layout::KeyEntry;
use ferriband_transport::types::Instant;
use ferriband_transport::{AnswerDue, Drop as Lost, PacketMeta};
use ferriband_wire::{Kind, Opcode, Packet, Psn};

use super::{PacketSide, Qp, gather};
use crate::qp::adapter::Adapter;
use crate::qp::env::PacketEnv;
use crate::wire;

/// A queue pair that takes packets from one source.
pub(crate) struct Incoming<'a> {
    pub(super) qp: &'a Arc<Qp>,
    pub(super) adapter: &'a Adapter,
    pub(super) now: Instant,
    pub(super) side: &'a mut PacketSide,
    /// The region that the last WRITE went to.
    pub(super) region: Option<KeyEntry>,
    /// The source is not the queue pair's peer.
    pub(super) stranger: bool,
    /// Why the last packet was not taken, if the machine said so.
    pub(super) lost: Option<Lost>,
}

impl wire::to::Incoming for Incoming<'_> {
    fn lost(&self) -> Option<Lost> {
        self.lost
    }

    #[inline]
    fn owes_more(&self) -> bool {
        self.side.machine.answer_due() == AnswerDue::More
    }

    #[inline]
    fn is_settled(&self) -> bool {
        let side = &*self.side;
        !side.stirred
            && !side.wait.keeps_acknowledgement()
            && !side.marked
            && side.told.is_empty()
            && side.machine.is_quiet()
            && side.machine.state() == self.qp.state_now()
            && self.qp.target.is_none()
    }

    fn take_alike(&mut self, opcode: Opcode, numbers: (Psn, bool), payload: &[u8]) -> bool {
        let PacketSide {
            machine,
            scratch,
            sums,
            ..
        } = &mut *self.side;
        let mut env = PacketEnv {
            adapter: self.adapter,
            qp: self.qp,
            scratch,
            region: &mut self.region,
            sums,
        };
        machine.take_alike(self.now, &mut env, opcode, numbers, payload)
    }

    fn take(&mut self, marked: bool, meta: &PacketMeta<'_>, packet: &Packet<'_>) -> bool {
        if self.stranger {
            self.side.oddities.strangers += 1;
            return false;
        }
        if let Some(target) = &self.qp.target
            && !self
                .qp
                .enter_domain(self.adapter, self.side, target, packet)
        {
            return false;
        }
        self.side.stirred |= packet.opcode().kind() != Kind::Request;
        if packet.opcode() == Opcode::Cnp {
            self.side.oddities.notices_in += 1;
            self.side.machine.congested(self.now);
            return true;
        }
        self.side.marked |= marked;
        self.side.oddities.marked += u64::from(marked);
        let PacketSide {
            machine,
            scratch,
            sums,
            told,
            ..
        } = &mut *self.side;
        let mut env = PacketEnv {
            adapter: self.adapter,
            qp: self.qp,
            scratch,
            region: &mut self.region,
            sums,
        };
        // what it drops it counts
        let taken = machine.handle_packet(self.now, &mut env, meta, packet);
        self.lost = taken.err();
        let taken = taken.is_ok();
        if taken && packet.opcode().is_unseen() {
            self.adapter.note_unseen();
        }
        loop {
            gather(machine, told);
            if !machine.catch_up(&mut env) {
                return taken;
            }
        }
    }
}
