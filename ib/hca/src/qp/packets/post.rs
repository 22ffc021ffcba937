//! Requests of the program, one or a batch, into the machine's queue.
//!
//! Owns the count of what fits. Must not know what becomes of requests.

use std::collections::VecDeque;
use std::sync::Arc;

use ferriband_transport::env::BindWindow;
use ferriband_transport::types::{QpType, SendFlags};
use ferriband_transport::{Datagram, Payload, SendWr, direct};
use ferriband_wire::{QKey, Qpn, RKey};

use crate::base::error::Error;
use crate::base::limits;
use crate::lock;
use crate::objects::catch::Catch;
use crate::objects::cq::Cq;
use crate::qp::adapter::Adapter;
use crate::qp::packets::{PacketSide, Turn};
use crate::qp::{Qp, SendRequest};

const NOT_READY: Error = Error::Invalid("the queue pair is not ready to send");

/// Which requests keep their places in the send queue. As on the direct wire one does until the program has taken its completion, or that of
/// a later one if it has none: so a completion queue as long as the send queue never overruns.
#[derive(Debug)]
pub(super) struct Places {
    capacity: u64,
    /// Requests that have given their places up.
    retired: u64,
    /// Completions that the program may not have taken: how many requests are over with each, and its place in its queue.
    told: VecDeque<(u64, u64)>,
}

impl Places {
    pub(super) fn new(capacity: u32) -> Self {
        Places {
            capacity: capacity.into(),
            retired: 0,
            told: VecDeque::with_capacity(capacity as usize),
        }
    }

    /// A completion went to its queue, where it has this place; `over` requests are over with it.
    pub(super) fn told(&mut self, over: u64, place: u64) {
        self.told.push_back((over, place));
    }

    /// True if one more request fits after `posted`. `taken`: completions that the program has taken.
    fn has_room(&mut self, posted: u64, taken: u64) -> bool {
        if posted - self.retired >= self.capacity {
            self.retire(taken);
        }
        posted - self.retired < self.capacity
    }

    fn retire(&mut self, taken: u64) {
        while let Some((over, place)) = self.told.front()
            && (*place < taken || *place == direct::TAKEN_AT_ONCE)
        {
            self.retired = *over;
            self.told.pop_front();
        }
    }
}

impl Qp {
    /// Queues a send and lets its packets go.
    pub(in crate::qp) fn post_packets(
        self: &Arc<Self>,
        adapter: &Adapter,
        request: &SendRequest<'_>,
    ) -> Result<(), Error> {
        let _handling = crate::wire::packets::handling();
        let mut guard = lock(&self.packets);
        let side = guard.as_deref_mut().ok_or(NOT_READY)?;
        self.enqueue_packets(side, request)?;
        side.machine.settle_sends();
        self.turn(adapter, side, Turn::Posted, &mut Catch::nobody());
        Ok(())
    }

    /// Queues several sends, all or none of them, and lets their packets go.
    pub(in crate::qp) fn post_batch_packets<'a>(
        self: &Arc<Self>,
        adapter: &Adapter,
        requests: impl Iterator<Item = SendRequest<'a>>,
    ) -> Result<(), Error> {
        let _handling = crate::wire::packets::handling();
        let mut guard = lock(&self.packets);
        let side = guard.as_deref_mut().ok_or(NOT_READY)?;
        for (count, request) in (0..).zip(requests) {
            if let Err(error) = self.enqueue_packets(side, &request) {
                side.machine.unqueue_sends(count);
                return Err(error);
            }
        }
        side.machine.settle_sends();
        self.turn(adapter, side, Turn::Posted, &mut Catch::nobody());
        Ok(())
    }

    /// Queues a send, to be followed by others or by the machine's `settle_sends`.
    fn enqueue_packets(
        &self,
        side: &mut PacketSide,
        request: &SendRequest<'_>,
    ) -> Result<(), Error> {
        let taken = self.send_cq.as_deref().map_or(u64::MAX, Cq::taken);
        if !side.places.has_room(side.machine.sends().1, taken) {
            return Err(direct::PostError::Full.into());
        }
        let mut small;
        let mut large;
        let payload = if request.flags.contains(SendFlags::INLINE) {
            let length: u64 = request.sges.iter().map(|sge| u64::from(sge.length)).sum();
            if length > u64::from(self.cap.max_inline_data) {
                return Err(Error::Invalid(
                    "more inline data than the send queue was created for",
                ));
            }
            let bytes = if length <= 64 {
                small = [0; 64];
                &mut small[..length as usize]
            } else {
                large = [0; limits::MAX_INLINE as usize];
                &mut large[..length as usize]
            };
            crate::wire::direct::app::app().gather_bytes(request.sges, 0, bytes);
            Payload::Inline(bytes)
        } else {
            Payload::Gather(request.sges)
        };
        let datagram = match (self.qp_type, request.ah) {
            (QpType::Ud, Some(ah)) => Some(Datagram {
                av: ah.av,
                qpn: Qpn(request.remote_qpn),
                qkey: QKey(request.remote_qkey),
                handle: 0,
            }),
            (QpType::Ud, None) => {
                return Err(Error::Invalid("a datagram needs an address handle"));
            }
            _ => None,
        };
        let bind = request.bind.map(|bind| BindWindow {
            window: RKey(bind.window),
            new_key: RKey(bind.rkey),
            region: ferriband_wire::LKey(bind.lkey),
            addr: bind.addr,
            length: bind.length,
            access: bind.access,
        });
        Ok(side.machine.queue_send(&SendWr {
            wr_id: request.wr_id,
            opcode: request.opcode,
            flags: request.flags,
            payload,
            remote_addr: request.remote_addr,
            rkey: RKey(request.rkey),
            imm_or_key: request.imm_or_key,
            compare_add: request.compare_add,
            swap: request.swap,
            datagram,
            xrc_srq: request.srqn,
            bind,
        })?)
    }
}
