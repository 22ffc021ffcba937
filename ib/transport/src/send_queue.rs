//! The send queue: a bounded ring of work requests, allocated once.
//!
//! Owns the work requests from posting until their completion was polled, in three runs: `[head, done)` finished
//! and not yet polled, `[done, tail)` not finished. Completions need no queue of their own: they are read off the
//! slots, so none can be lost (I11). Knows no PSN arithmetic and no packets.

use crate::env::{BindWindow, Environment};
use crate::types::{
    AddressVector, Completion, QpCap, SendFlags, SendOpcode, Sge, WcOpcode, WcStatus,
};
use ferriband_wire::{Psn, QKey, Qpn, RKey};

/// Largest message: 2^31 bytes (IBA 9.7.6).
pub const MAX_MESSAGE_BYTES: u64 = 1 << 31;
/// What an atomic operates on and answers with.
const ATOMIC_BYTES: u64 = 8;

/// Destination of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Datagram {
    /// Path, from the address handle.
    pub av: AddressVector,
    /// Remote queue pair; 0xffffff is the multicast QPN.
    pub qpn: Qpn,
    /// Remote Q_Key; with the top bit set the queue pair's own is sent (IBA 10.2.5).
    pub qkey: QKey,
    /// The driver's own name for the address handle, handed back with the packet; the machine does not look at it.
    pub handle: u64,
}

/// Bytes of a send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload<'a> {
    /// To be gathered when packets are made (for READ and atomics: where the response goes).
    Gather(&'a [Sge]),
    /// Copied now.
    Inline(&'a [u8]),
}

/// A send work request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SendWr<'a> {
    /// Returned in the completion.
    pub wr_id: u64,
    /// Operation.
    pub opcode: SendOpcode,
    /// FENCE, SIGNALED, SOLICITED; INLINE is told by `payload`.
    pub flags: SendFlags,
    /// Local bytes.
    pub payload: Payload<'a>,
    /// WRITE, READ, atomics: remote address.
    pub remote_addr: u64,
    /// WRITE, READ, atomics: remote key.
    pub rkey: RKey,
    /// Immediate data in network order, or the key to invalidate (SEND_INV: the peer's, LOCAL_INV: ours).
    pub imm_or_key: u32,
    /// CMP_SWAP: value compared with; FETCH_ADD: addend.
    pub compare_add: u64,
    /// CMP_SWAP: new value.
    pub swap: u64,
    /// UD only.
    pub datagram: Option<Datagram>,
    /// XRC only: shared receive queue at the target.
    pub xrc_srq: u32,
    /// BIND_MW only.
    pub bind: Option<BindWindow>,
}

impl<'a> SendWr<'a> {
    /// A request without flags, addresses or keys, to be refined by struct update.
    pub const fn new(wr_id: u64, opcode: SendOpcode, payload: Payload<'a>) -> Self {
        SendWr {
            wr_id,
            opcode,
            flags: SendFlags::empty(),
            payload,
            remote_addr: 0,
            rkey: RKey(0),
            imm_or_key: 0,
            compare_add: 0,
            swap: 0,
            datagram: None,
            xrc_srq: 0,
            bind: None,
        }
    }
}

/// Why a work request was not queued. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PostError {
    /// The ring is full: poll completions.
    #[error("queue full: {capacity} work requests are outstanding")]
    Full {
        /// Size of the ring.
        capacity: u32,
    },
    /// The state takes no such work request.
    #[error("state {0:?} takes no work request")]
    State(crate::types::QpState),
    /// Too many elements.
    #[error("{got} scatter/gather elements, at most {max}")]
    TooManySges {
        /// As given.
        got: usize,
        /// The capacity.
        max: u32,
    },
    /// Too many inline bytes.
    #[error("{got} inline bytes, at most {max}")]
    InlineTooLong {
        /// As given.
        got: usize,
        /// The capacity.
        max: u32,
    },
    /// The message is longer than 2^31 bytes, or than the MTU for a datagram.
    #[error("message of {got} bytes, at most {max}")]
    TooLong {
        /// As given.
        got: u64,
        /// The bound.
        max: u64,
    },
    /// The service does not have this operation, or a part of the request is missing.
    #[error("{0:?} is not possible on this queue pair")]
    Opcode(SendOpcode),
    /// READ and atomics need `max_rd_atomic` above 0.
    #[error("max_rd_atomic is 0")]
    NoReadResources,
    /// The queue pair has no receive queue of its own.
    #[error("this queue pair has no receive queue of its own")]
    NoReceiveQueue,
}

/// What the machine remembers of a work request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWqe {
    pub wr_id: u64,
    pub opcode: SendOpcode,
    pub flags: SendFlags,
    pub num_sge: u16,
    pub inline: bool,
    /// Message bytes; for READ and atomics of the response.
    pub length: u32,
    pub remote_addr: u64,
    pub rkey: RKey,
    pub imm_or_key: u32,
    pub compare_add: u64,
    pub swap: u64,
    pub xrc_srq: u32,
    pub extra: Extra,
    /// First PSN; meaningful once begun.
    pub first_psn: Psn,
    /// PSNs that it takes; 0 until begun.
    pub packets: u32,
    /// A READ is asked for in pieces of so many packets, always the same ones; for others as `packets`.
    pub piece: u32,
    /// Number of the message for end-to-end credits, 24 bits; meaningful once begun.
    pub ssn: u32,
    /// A failure found while sending, to be reported when its turn comes; then the outcome.
    pub status: WcStatus,
    /// Detail of the failure.
    pub vendor_err: u32,
}

/// Parts that few operations have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extra {
    None,
    Datagram(Datagram),
    Bind(BindWindow),
}

impl SendWqe {
    const EMPTY: SendWqe = SendWqe {
        wr_id: 0,
        opcode: SendOpcode::Send,
        flags: SendFlags::empty(),
        num_sge: 0,
        inline: false,
        length: 0,
        remote_addr: 0,
        rkey: RKey(0),
        imm_or_key: 0,
        compare_add: 0,
        swap: 0,
        xrc_srq: 0,
        extra: Extra::None,
        first_psn: Psn::new(0),
        packets: 0,
        piece: 0,
        ssn: 0,
        status: WcStatus::Success,
        vendor_err: 0,
    };

    /// READ or atomic: answered with data, counted against `max_rd_atomic`.
    pub fn is_read_or_atomic(&self) -> bool {
        use SendOpcode::{CmpSwap, FetchAdd, RdmaRead};
        matches!(self.opcode, RdmaRead | CmpSwap | FetchAdd)
    }

    /// Executed here without a packet.
    pub fn is_local(&self) -> bool {
        matches!(self.opcode, SendOpcode::LocalInv | SendOpcode::BindMw)
    }

    /// Executes a local operation.
    pub fn execute_locally(&self, env: &mut dyn Environment) -> WcStatus {
        let result = match &self.extra {
            Extra::Bind(bind) => env.bind_window(bind),
            _ => env.invalidate_local(RKey(self.imm_or_key)),
        };
        match result {
            Ok(()) => WcStatus::Success,
            Err(_) => self.opcode.local_failure(),
        }
    }

    /// Takes a receive at the peer, and so a credit.
    pub fn consumes_receive(&self) -> bool {
        use SendOpcode::{RdmaWriteImm, Send, SendImm, SendInv};
        matches!(self.opcode, Send | SendImm | SendInv | RdmaWriteImm)
    }

    /// The packet behind the piece that packet `index` is in.
    pub fn piece_end(&self, index: u32) -> u32 {
        (index - index % self.piece.max(1))
            .saturating_add(self.piece.max(1))
            .min(self.packets)
    }

    pub fn begun(&self) -> bool {
        self.packets != 0
    }

    /// The PSN after the last.
    pub fn end_psn(&self) -> Psn {
        self.first_psn.add(self.packets)
    }
}

/// PSNs that a message of `length` bytes takes: one even when empty (IBA 9.7.2).
pub(crate) const fn packets_of(length: u32, mtu: u32) -> u32 {
    let count = length.div_ceil(mtu);
    if count == 0 { 1 } else { count }
}

/// The ring. Positions are counters that never wrap in practice (64 bits).
#[derive(Debug)]
pub(crate) struct SendQueue {
    slots: Box<[SendWqe]>,
    sges: Box<[Sge]>,
    inline: Box<[u8]>,
    cap: QpCap,
    signal_all: bool,
    head: u64,
    done: u64,
    tail: u64,
}

impl SendQueue {
    pub fn new(cap: QpCap, signal_all: bool) -> Self {
        // A power of two makes the slot a mask; the capacity asked for still bounds what is posted.
        let slots = cap.max_send_wr.next_power_of_two() as usize;
        let slots = if cap.max_send_wr == 0 { 0 } else { slots };
        SendQueue {
            slots: vec![SendWqe::EMPTY; slots].into(),
            sges: vec![Sge::default(); slots * cap.max_send_sge as usize].into(),
            inline: vec![0; slots * cap.max_inline_data as usize].into(),
            cap,
            signal_all,
            head: 0,
            done: 0,
            tail: 0,
        }
    }

    fn slot(&self, index: u64) -> usize {
        index as usize & (self.slots.len() - 1)
    }

    /// Requests that it holds.
    pub fn room(&self) -> u64 {
        self.cap.max_send_wr.into()
    }

    /// True if the request at `index` has a completion even if it succeeds.
    pub fn is_signaled(&self, index: u64) -> bool {
        self.signal_all || self.get(index).flags.contains(SendFlags::SIGNALED)
    }

    /// Position after the newest request whose completion was told, or that had none.
    pub fn told(&self) -> u64 {
        self.head
    }

    /// Position of the oldest unfinished request.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Position after the newest request.
    pub fn tail(&self) -> u64 {
        self.tail
    }

    pub fn get(&self, index: u64) -> &SendWqe {
        debug_assert!((self.head..self.tail).contains(&index));
        &self.slots[self.slot(index)]
    }

    pub fn get_mut(&mut self, index: u64) -> &mut SendWqe {
        debug_assert!((self.head..self.tail).contains(&index));
        let slot = self.slot(index);
        &mut self.slots[slot]
    }

    /// The request's scatter/gather list.
    pub fn sges(&self, index: u64) -> &[Sge] {
        let slot = self.slot(index);
        let start = slot * self.cap.max_send_sge as usize;
        &self.sges[start..start + self.slots[slot].num_sge as usize]
    }

    /// The request's inline bytes.
    pub fn inline(&self, index: u64) -> &[u8] {
        let slot = self.slot(index);
        let start = slot * self.cap.max_inline_data as usize;
        &self.inline[start..start + self.slots[slot].length as usize]
    }

    /// Checks everything that does not depend on the service and queues.
    #[inline]
    pub fn post(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        if self.tail - self.head >= u64::from(self.cap.max_send_wr) {
            return Err(PostError::Full {
                capacity: self.cap.max_send_wr,
            });
        }
        let (num_sge, inline, length) = match wr.payload {
            Payload::Gather(sges) => {
                if sges.len() > self.cap.max_send_sge as usize {
                    let max = self.cap.max_send_sge;
                    return Err(PostError::TooManySges {
                        got: sges.len(),
                        max,
                    });
                }
                let total: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
                (sges.len(), false, total)
            }
            Payload::Inline(bytes) => {
                if bytes.len() > self.cap.max_inline_data as usize {
                    let max = self.cap.max_inline_data;
                    return Err(PostError::InlineTooLong {
                        got: bytes.len(),
                        max,
                    });
                }
                (0, true, bytes.len() as u64)
            }
        };
        if length > MAX_MESSAGE_BYTES {
            return Err(PostError::TooLong {
                got: length,
                max: MAX_MESSAGE_BYTES,
            });
        }
        let extra = match (wr.opcode, wr.datagram, wr.bind) {
            (SendOpcode::BindMw, _, Some(bind)) => Extra::Bind(bind),
            (SendOpcode::BindMw, _, None) => return Err(PostError::Opcode(wr.opcode)),
            (_, Some(datagram), _) => Extra::Datagram(datagram),
            _ => Extra::None,
        };
        // The answer to an atomic is eight bytes: without room for it the peer must not execute it. Told in its turn.
        let atomic = matches!(wr.opcode, SendOpcode::CmpSwap | SendOpcode::FetchAdd);
        let status = if atomic && length != ATOMIC_BYTES {
            WcStatus::LocLenErr
        } else {
            WcStatus::Success
        };
        let slot = self.slot(self.tail);
        self.slots[slot] = SendWqe {
            wr_id: wr.wr_id,
            opcode: wr.opcode,
            flags: wr.flags,
            num_sge: num_sge as u16,
            inline,
            length: length as u32,
            remote_addr: wr.remote_addr,
            rkey: wr.rkey,
            imm_or_key: wr.imm_or_key,
            compare_add: wr.compare_add,
            swap: wr.swap,
            xrc_srq: wr.xrc_srq,
            extra,
            status,
            ..SendWqe::EMPTY
        };
        match wr.payload {
            Payload::Gather(sges) => {
                let start = slot * self.cap.max_send_sge as usize;
                self.sges[start..start + sges.len()].copy_from_slice(sges);
            }
            Payload::Inline(bytes) => {
                let start = slot * self.cap.max_inline_data as usize;
                self.inline[start..start + bytes.len()].copy_from_slice(bytes);
            }
        }
        self.tail += 1;
        Ok(())
    }

    /// Takes back the last `count` requests, none of which has begun.
    #[cold]
    pub fn unpost(&mut self, count: u64) {
        debug_assert!(count <= self.tail - self.done);
        self.tail -= count;
    }

    /// The oldest unfinished request is finished with `status`.
    pub fn finish(&mut self, status: WcStatus, vendor_err: u32) {
        let done = self.done;
        debug_assert!(done < self.tail);
        let wqe = self.get_mut(done);
        wqe.status = status;
        wqe.vendor_err = vendor_err;
        self.done += 1;
    }

    /// Finishes all that is unfinished with a flush error, in order (IBA 10.3.1.7, I11).
    #[cold]
    pub fn flush(&mut self) {
        while self.done < self.tail {
            self.finish(WcStatus::WrFlushErr, 0);
        }
    }

    /// Forgets everything (state Reset).
    pub fn clear(&mut self) {
        self.done = self.tail;
        self.head = self.tail;
    }

    /// The next completion in order. An unsignaled success makes none; any failure does.
    #[inline]
    pub fn poll(&mut self, qpn: Qpn) -> Option<Completion> {
        while self.head < self.done {
            let (slot, signaled) = (self.slot(self.head), self.is_signaled(self.head));
            self.head += 1;
            let wqe = &self.slots[slot];
            if wqe.status == WcStatus::Success && !signaled {
                continue;
            }
            let opcode = wqe.opcode.completion();
            return Some(Completion {
                wr_id: wqe.wr_id,
                status: wqe.status,
                opcode,
                vendor_err: wqe.vendor_err,
                byte_len: match opcode {
                    WcOpcode::CompSwap | WcOpcode::FetchAdd => 8,
                    _ => wqe.length,
                },
                qp_num: qpn.0,
                ..Completion::default()
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(max_send_wr: u32) -> SendQueue {
        let cap = QpCap {
            max_send_wr,
            max_send_sge: 2,
            max_inline_data: 8,
            ..QpCap::default()
        };
        SendQueue::new(cap, false)
    }

    fn wr(wr_id: u64, flags: SendFlags) -> SendWr<'static> {
        SendWr {
            flags,
            ..SendWr::new(wr_id, SendOpcode::Send, Payload::Inline(b"abc"))
        }
    }

    #[test]
    fn a_full_ring_refuses_until_a_completion_was_polled() {
        let mut sq = queue(3);
        for id in 0..3 {
            sq.post(&wr(id, SendFlags::SIGNALED)).unwrap();
        }
        assert_eq!(
            sq.post(&wr(3, SendFlags::SIGNALED)),
            Err(PostError::Full { capacity: 3 })
        );
        sq.finish(WcStatus::Success, 0);
        assert!(
            sq.post(&wr(3, SendFlags::SIGNALED)).is_err(),
            "the slot still holds a completion"
        );
        assert_eq!(sq.poll(Qpn(1)).map(|c| c.wr_id), Some(0));
        sq.post(&wr(3, SendFlags::SIGNALED)).unwrap();
    }

    #[test]
    fn i11_flush_reports_unsignaled_requests_too_in_order() {
        let mut sq = queue(4);
        for id in 0..4 {
            sq.post(&wr(id, SendFlags::empty())).unwrap();
        }
        sq.finish(WcStatus::Success, 0);
        sq.finish(WcStatus::RemAccessErr, 0x62);
        sq.flush();
        let seen: Vec<_> = std::iter::from_fn(|| sq.poll(Qpn(1)))
            .map(|c| (c.wr_id, c.status))
            .collect();
        let flush = WcStatus::WrFlushErr;
        assert_eq!(seen, [(1, WcStatus::RemAccessErr), (2, flush), (3, flush)]);
    }

    #[test]
    fn requests_that_are_taken_back_leave_their_places_to_others() {
        let mut sq = queue(3);
        sq.post(&wr(0, SendFlags::SIGNALED)).unwrap();
        for _ in 0..10 {
            sq.post(&wr(1, SendFlags::SIGNALED)).unwrap();
            sq.post(&wr(2, SendFlags::SIGNALED)).unwrap();
            assert!(sq.post(&wr(3, SendFlags::SIGNALED)).is_err());
            sq.unpost(2);
        }
        sq.post(&wr(4, SendFlags::SIGNALED)).unwrap();
        sq.flush();
        let seen: Vec<_> = std::iter::from_fn(|| sq.poll(Qpn(1)))
            .map(|c| c.wr_id)
            .collect();
        assert_eq!(seen, [0, 4]);
    }

    #[test]
    fn limits_are_enforced_and_change_nothing() {
        let mut sq = queue(1);
        let sges = [Sge {
            length: u32::MAX,
            ..Sge::default()
        }; 3];
        let post =
            |sq: &mut SendQueue, payload| sq.post(&SendWr::new(0, SendOpcode::Send, payload));
        assert!(matches!(
            post(&mut sq, Payload::Gather(&sges)),
            Err(PostError::TooManySges { got: 3, max: 2 })
        ));
        assert!(matches!(
            post(&mut sq, Payload::Gather(&sges[..1])),
            Err(PostError::TooLong { .. })
        ));
        assert!(matches!(
            post(&mut sq, Payload::Inline(&[0; 9])),
            Err(PostError::InlineTooLong { got: 9, max: 8 })
        ));
        assert_eq!(sq.tail(), 0);
        let half = Sge {
            length: 1 << 30,
            ..Sge::default()
        };
        post(&mut sq, Payload::Gather(&[half; 2])).unwrap();
        assert_eq!(sq.get(0).length, 1 << 31);
    }

    #[test]
    fn an_empty_message_takes_one_psn() {
        assert_eq!(packets_of(0, 256), 1);
        assert_eq!(packets_of(256, 256), 1);
        assert_eq!(packets_of(257, 256), 2);
        assert_eq!(packets_of(1 << 31, 256), 1 << 23);
    }
}
