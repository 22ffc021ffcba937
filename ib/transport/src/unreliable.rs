//! Unreliable service: UC drops a message with a gap, UD carries single packets. Nothing is acknowledged.
//!
//! Owns the sender of both and the receiver of each. A bad or unexpected packet is dropped without a word: there is
//! nobody to tell (IBA 9.8).

use crate::context::Context;
use crate::diagnosis::{Drop, QpCounters};
use crate::emit;
use crate::env::Environment;
use crate::execution::{Message, Refusal, in_order, receive_send, receive_write};
use crate::rc::requester::Step;
use crate::rc::responder::Verdict;
use crate::recv_queue::{Acquire, RecvQueue};
use crate::send_queue::{Datagram, Extra, SendQueue, packets_of};
use crate::types::{Completion, WcFlags, WcOpcode, WcStatus};
use ferriband_wire::{Lid, Operation, Packet, Psn, Service, Sl};

/// Bytes of the global route header that precede a received datagram (IBA 11.4.1.2).
pub const GRH_BYTES: u32 = 40;

/// What the link and network headers said about a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PacketMeta<'a> {
    /// Source LID; 0 on Ethernet.
    pub slid: Lid,
    /// Service level.
    pub sl: Sl,
    /// Path bits of the destination LID.
    pub dlid_path_bits: u8,
    /// Index of the P_Key that the port matched.
    pub pkey_index: u16,
    /// The global route header (for IPv4 its last 20 bytes are the IP header), as it goes into the buffer.
    pub grh: Option<&'a [u8; GRH_BYTES as usize]>,
}

/// Sends each request once, in order.
#[derive(Debug)]
pub(crate) struct UnreliableSender {
    pub sq: SendQueue,
    psn: Psn,
    cur_packet: u32,
    draining: bool,
    counters: QpCounters,
    /// Where the last datagram goes. Kept here and not returned with it: what is moved for each packet counts.
    pub sent_to: Option<Datagram>,
}

impl UnreliableSender {
    pub fn new(sq: SendQueue) -> Self {
        UnreliableSender {
            sq,
            psn: Psn::new(0),
            cur_packet: 0,
            draining: false,
            counters: QpCounters::default(),
            sent_to: None,
        }
    }

    pub fn counters(&self) -> &QpCounters {
        &self.counters
    }

    /// The PSN of the next packet.
    pub fn psn(&self) -> Psn {
        self.psn
    }

    /// RTR to RTS.
    pub fn start(&mut self, ctx: &Context<'_>) {
        self.psn = ctx.attr.sq_psn;
        self.cur_packet = 0;
        self.draining = false;
    }

    /// To SQE or Error.
    #[cold]
    pub fn flush(&mut self) {
        self.sq.flush();
        self.cur_packet = 0;
        self.draining = false;
    }

    pub fn clear(&mut self) {
        self.sq.clear();
        self.cur_packet = 0;
        self.draining = false;
    }

    pub fn drain(&mut self) {
        self.draining = true;
    }

    pub fn resume(&mut self) {
        self.draining = false;
    }

    pub fn is_drained(&self) -> bool {
        self.draining && self.cur_packet == 0
    }

    /// The next packet. A request completes with its last packet.
    /// [`Self::sent_to`] says where a datagram goes.
    pub fn poll_transmit(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        buf: &mut [u8],
    ) -> Step {
        loop {
            let done = self.sq.done();
            if done == self.sq.tail() || self.is_drained() {
                return Step::Idle;
            }
            let wqe = *self.sq.get(done);
            if wqe.is_local() {
                match wqe.execute_locally(env) {
                    WcStatus::Success => self.sq.finish(WcStatus::Success, 0),
                    status => return self.fail(status),
                }
                continue;
            }
            let (mtu, to) = match (ctx.service, wqe.extra) {
                (Service::Ud, Extra::Datagram(to)) => (ctx.tuning.datagram_mtu, Some(to)),
                _ => (ctx.attr.path_mtu.bytes(), None),
            };
            let packets = packets_of(wqe.length, mtu);
            if to.is_some() && packets > 1 {
                return self.fail(WcStatus::LocLenErr);
            }
            self.sq.get_mut(done).packets = packets;
            let part = emit::Part {
                request: done,
                index: self.cur_packet,
                psns: 1,
                psn: self.psn,
                ack_req: false,
                again: false,
            };
            let sent = emit::request(ctx, env, &self.sq, part, buf);
            let Ok(len) = sent else {
                return self.fail(WcStatus::LocProtErr);
            };
            self.counters.requests_sent += 1;
            self.psn = self.psn.next();
            self.cur_packet += 1;
            if self.cur_packet == packets {
                self.cur_packet = 0;
                self.sq.finish(WcStatus::Success, 0);
            }
            self.sent_to = to;
            return Step::Packet(len);
        }
    }

    #[cold]
    fn fail(&mut self, status: WcStatus) -> Step {
        self.sq.finish(status, 0);
        self.cur_packet = 0;
        Step::Failed
    }
}

/// Receives UC messages; one with a gap is dropped and its receive used for the next.
#[derive(Debug)]
pub(crate) struct UcReceiver {
    pub rq: RecvQueue,
    e_psn: Psn,
    message: Message,
}

impl UcReceiver {
    pub fn new(rq: RecvQueue) -> Self {
        UcReceiver {
            rq,
            e_psn: Psn::new(0),
            message: Message::None,
        }
    }

    pub fn start(&mut self, ctx: &Context<'_>) {
        self.e_psn = ctx.attr.rq_psn;
        self.message = Message::None;
    }

    pub fn stop(&mut self) {
        self.message = Message::None;
    }

    /// The PSN expected next.
    pub fn expected(&self) -> Psn {
        self.e_psn
    }

    pub fn handle_packet(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        packet: &Packet<'_>,
    ) -> Verdict {
        let info = packet.opcode().info();
        let psn = packet.bth().psn;
        // IBA 9.8.2.2.1: whatever is unexpected ends the message; only a packet that starts one is taken then.
        if psn != self.e_psn || info.position.starts() {
            self.message = Message::None;
        }
        self.e_psn = psn.next();
        let mtu = ctx.attr.path_mtu.bytes() as usize;
        let fits = info.payload.allows(packet.payload.len(), mtu);
        if in_order(self.message, info.operation, info.position).is_err() || !fits {
            self.message = Message::None;
            let reason = if fits {
                Drop::NotExpected
            } else {
                Drop::Length
            };
            return Verdict::Dropped(reason);
        }
        let result = match info.operation {
            Operation::Send => receive_send(&mut self.rq, &mut self.message, ctx, env, packet),
            Operation::RdmaWrite => {
                receive_write(&mut self.rq, &mut self.message, ctx, env, packet)
            }
            _ => Err(Refusal::Invalid),
        };
        match result {
            Ok(_) => Verdict::Continue,
            Err(Refusal::LocalProtection) => {
                self.rq.complete(Completion {
                    status: WcStatus::LocProtErr,
                    opcode: WcOpcode::Recv,
                    qp_num: ctx.qpn.0,
                    ..Completion::default()
                });
                Verdict::Fatal(None)
            }
            Err(refusal) => {
                self.message = Message::None;
                Verdict::Dropped(match refusal {
                    Refusal::NotReady => Drop::NoReceive,
                    Refusal::Silent => Drop::Unpolled,
                    Refusal::LocalLength => Drop::Length,
                    _ => Drop::NotExpected,
                })
            }
        }
    }
}

/// Receives datagrams.
#[derive(Debug)]
pub(crate) struct UdReceiver {
    pub rq: RecvQueue,
}

impl UdReceiver {
    /// Takes a datagram or drops it: wrong Q_Key, no receive, or a receive too short for header and payload.
    pub fn handle_packet(
        &mut self,
        ctx: &Context<'_>,
        env: &mut dyn Environment,
        meta: &PacketMeta<'_>,
        packet: &Packet<'_>,
    ) -> Verdict {
        let Some(deth) = packet.ext().deth else {
            return Verdict::Dropped(Drop::NotExpected);
        };
        // IBA 10.2.5.
        if deth.qkey != ctx.attr.qkey {
            return Verdict::Dropped(Drop::QKey);
        }
        if packet.payload.len() > ctx.tuning.datagram_mtu as usize {
            return Verdict::Dropped(Drop::Length);
        }
        match self.rq.acquire(env, None) {
            Acquire::Ready => {}
            Acquire::Unpolled => return Verdict::Dropped(Drop::Unpolled),
            Acquire::Empty | Acquire::NoSuchQueue => return Verdict::Dropped(Drop::NoReceive),
        }
        let bytes = GRH_BYTES + packet.payload.len() as u32;
        if u64::from(bytes) > self.rq.capacity() {
            // The receive stays in use for the next datagram.
            return Verdict::Dropped(Drop::Length);
        }
        let header = meta.grh.map_or(Ok(()), |grh| self.rq.scatter(env, 0, grh));
        let placed = header.and_then(|()| {
            if packet.payload.is_empty() {
                return Ok(());
            }
            self.rq.scatter(env, GRH_BYTES, packet.payload)
        });
        if placed.is_err() {
            self.rq.complete(Completion {
                status: WcStatus::LocProtErr,
                opcode: WcOpcode::Recv,
                qp_num: ctx.qpn.0,
                ..Completion::default()
            });
            return Verdict::Fatal(None);
        }
        let mut flags = WcFlags::empty();
        flags.set(WcFlags::GRH, meta.grh.is_some());
        flags.set(WcFlags::WITH_IMM, packet.ext().imm.is_some());
        self.rq.complete(Completion {
            status: WcStatus::Success,
            opcode: WcOpcode::Recv,
            byte_len: bytes,
            imm_or_rkey: packet.ext().imm.map_or(0, |imm| imm.to_network()),
            qp_num: ctx.qpn.0,
            src_qp: deth.src_qpn.0,
            flags,
            pkey_index: meta.pkey_index,
            slid: meta.slid.0,
            sl: meta.sl.0,
            dlid_path_bits: meta.dlid_path_bits,
            solicited: packet.bth().solicited,
            ..Completion::default()
        });
        Verdict::Continue
    }
}
