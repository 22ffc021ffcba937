//! The sending side: requests as posted, driving what waits, answers, failure.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferriband_memory::{AppMemory, Span};
use ferriband_transport::direct::layout::QpEntry;
use ferriband_transport::direct::{self, Answered, BindRequest, Link, SendState, Sender};
use ferriband_transport::types::{AddressVector, Completion, QpState, QpType, SendFlags};
use ferriband_wire::Qpn;

use crate::base::error::Error;
use crate::base::{incident, limits};
use crate::lock;
use crate::objects::catch::Catch;
use crate::objects::cq::Cq;
use crate::objects::event::AsyncKind;
use crate::qp::PeerLink;
use crate::qp::adapter::Adapter;
use crate::qp::{Qp, SendRequest};

/// Where completions of a send queue go.
pub(super) struct SendSink<'a, 'c> {
    qp: &'a Qp,
    cq: Option<&'a Cq>,
    place: u64,
    catch: &'a mut Catch<'c>,
}

impl direct::Sink for SendSink<'_, '_> {
    #[inline]
    fn sent(&mut self, completion: Completion) {
        if incident::explains(completion.status) {
            self.qp.direct_failed(&completion);
        }
        if let Some(cq) = self.cq {
            self.place = cq.push_or_hand(&completion, self.catch);
        }
    }

    #[inline]
    fn place(&self) -> u64 {
        self.place
    }

    #[inline]
    fn taken(&self) -> u64 {
        self.cq.map_or(u64::MAX, Cq::taken)
    }
}

#[derive(Debug)]
pub(crate) struct SendHalf {
    pub(crate) sender: Sender<PeerLink>,
    /// Channel of the last datagram's target.
    pub(super) cache: Option<(u32, PeerLink)>,
}

impl Qp {
    #[inline]
    pub(super) fn sink<'a, 'c>(&'a self, catch: &'a mut Catch<'c>) -> SendSink<'a, 'c> {
        SendSink {
            qp: self,
            cq: self.send_cq.as_deref(),
            place: 0,
            catch,
        }
    }

    /// True if the path leads to this host.
    pub(super) fn reaches_host(&self, av: &AddressVector) -> bool {
        self.ctx.device.is_local(av)
    }

    /// Queues a send and does at once what can be done.
    #[inline]
    pub fn post_send(self: &Arc<Self>, request: &SendRequest<'_>) -> Result<(), Error> {
        let adapter = &*self.adapter;
        adapter.check_alive()?;
        if self.on_packets.load(Ordering::Acquire) {
            return self.post_packets(adapter, request);
        }
        let mut send = lock(&self.send);
        self.enqueue(adapter, &mut send, request)?;
        send.sender.settle(&mut self.sink(&mut Catch::nobody()));
        self.advance(adapter, &mut send, false);
        Ok(())
    }

    /// Queues several sends, all or none of them, and does at once what can be done.
    ///
    /// # Errors
    /// Why the first that cannot be queued cannot; nothing was changed.
    pub fn post_batch<'a>(
        self: &Arc<Self>,
        requests: impl Iterator<Item = SendRequest<'a>>,
    ) -> Result<(), Error> {
        let adapter = &*self.adapter;
        adapter.check_alive()?;
        if self.on_packets.load(Ordering::Acquire) {
            return self.post_batch_packets(adapter, requests);
        }
        let mut send = lock(&self.send);
        for (count, request) in (0..).zip(requests) {
            if let Err(error) = self.enqueue(adapter, &mut send, &request) {
                send.sender.unqueue(count);
                return Err(error);
            }
        }
        send.sender.settle(&mut self.sink(&mut Catch::nobody()));
        self.advance(adapter, &mut send, false);
        Ok(())
    }

    /// Queues a send, to be followed by others or by the sender's `settle`.
    fn enqueue(
        &self,
        adapter: &Adapter,
        send: &mut SendHalf,
        request: &SendRequest<'_>,
    ) -> Result<(), Error> {
        let (mut small, mut large);
        let inline = if request.flags.contains(SendFlags::INLINE) {
            let length = request
                .sges
                .iter()
                .map(|sge| u64::from(sge.length))
                .sum::<u64>();
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
            app().gather_bytes(request.sges, 0, bytes);
            &*bytes
        } else {
            &[]
        };
        let mut grh = None;
        let mut link = None;
        let group;
        let mut fanout: &[_] = &[];
        let mut route = (0, 0);
        let mut remote_key = request.srqn;
        if self.qp_type == QpType::Ud {
            let ah = request
                .ah
                .ok_or(Error::Invalid("a datagram needs an address handle"))?;
            remote_key = request.remote_qkey;
            // a queue key with the top bit set means the queue pair's own (IBA 10.2.5)
            if remote_key & 0x8000_0000 != 0 {
                remote_key = lock(&self.recv).qkey;
            }
            route = (adapter.process.lid.0, u16::from(ah.av.sl.0));
            if ah.av.is_global {
                let length: u64 = request.sges.iter().map(|sge| u64::from(sge.length)).sum();
                grh = Some(ah.grh(length as u16));
            }
            if ah.av.is_global && ah.av.dgid.is_multicast() {
                group = self.group_members(adapter, &ah.av);
                fanout = &group;
            } else if self.reaches_host(&ah.av) {
                if send
                    .cache
                    .as_ref()
                    .is_none_or(|(qpn, link)| *qpn != request.remote_qpn || link.dead())
                {
                    adapter.check_descriptors(Qpn(request.remote_qpn))?;
                    send.cache = adapter
                        .link_to(request.remote_qpn)
                        .map(|link| (request.remote_qpn, link));
                }
                link = send.cache.as_ref().map(|(_, link)| link.clone());
            }
        }
        let mut remote_qpn = request.remote_qpn;
        if self.qp_type == QpType::XrcSend
            && let Some(srq) = adapter.process.registry.xrc_srq_find(request.srqn)
        {
            // the process that owns the shared receive queue executes; its protection domain guards the memory
            link = Some(adapter.link_to_process(srq.process));
            remote_qpn = srq.words[0] as u32;
        }
        let bind = request.bind.map(|bind| BindRequest {
            window: bind.window >> 8,
            rkey: bind.rkey,
            lkey: bind.lkey,
            addr: bind.addr,
            length: bind.length,
            access: bind.access,
        });
        let posted = direct::SendRequest {
            wr_id: request.wr_id,
            opcode: request.opcode,
            flags: request.flags,
            sges: if request.flags.contains(SendFlags::INLINE) {
                &[]
            } else {
                request.sges
            },
            inline,
            imm: request.imm_or_key,
            remote_addr: request.remote_addr,
            rkey: request.rkey,
            compare_add: request.compare_add,
            swap: request.swap,
            remote_qpn,
            remote_key,
            link: link.as_ref(),
            grh: grh.as_ref(),
            route,
            bind,
            fanout,
        };
        let taken = self.send_cq.as_deref().map_or(u64::MAX, Cq::taken);
        Ok(send.sender.queue(&posted, taken)?)
    }

    /// Who receives what is sent to a multicast group: every attached queue pair but this one.
    fn group_members(&self, adapter: &Adapter, av: &AddressVector) -> Vec<(PeerLink, u32)> {
        let mut members = Vec::new();
        adapter
            .process
            .registry
            .multicast_members(&av.dgid, &mut members);
        members.retain(|member| member.qpn.0 != self.qpn);
        members
            .iter()
            .map(|member| (adapter.link_to_process(member.process), member.qpn.0))
            .collect()
    }

    /// Drives the send half. True if something moved.
    pub(crate) fn drive(self: &Arc<Self>, adapter: &Adapter, long: bool) -> bool {
        if self.on_packets.load(Ordering::Acquire) {
            return self.drive_packets(adapter);
        }
        let mut send = lock(&self.send);
        // a record that was pushed while the peer's death was being noticed has nobody left to answer it
        if send.sender.awaits_answers() && send.sender.link().is_some_and(Link::dead) {
            send.sender.peer_died(
                ferriband_memory::wait::now(),
                &mut self.sink(&mut Catch::nobody()),
            );
        }
        self.advance(adapter, &mut send, long)
    }

    #[inline]
    fn advance(self: &Arc<Self>, adapter: &Adapter, send: &mut SendHalf, long: bool) -> bool {
        let before = send.sender.outstanding();
        let advance = send.sender.advance(
            adapter,
            ferriband_memory::wait::now,
            long,
            &mut self.sink(&mut Catch::nobody()),
        );
        let moved = send.sender.outstanding() != before;
        if advance != direct::Advance::Idle {
            after(adapter, self, advance);
            if !long {
                adapter.kick(advance == direct::Advance::Again);
            }
        }
        self.check_send_state(send);
        moved || long && advance == direct::Advance::Again
    }

    /// A failed send takes the queue pair to the error state; a drained one says so.
    #[inline]
    fn check_send_state(self: &Arc<Self>, send: &SendHalf) {
        match send.sender.state() {
            SendState::Running | SendState::Stopped => {}
            SendState::Flushing => self.send_failed(),
            SendState::Draining => self.send_drained(send),
        }
    }

    #[cold]
    fn send_failed(self: &Arc<Self>) {
        let unreliable = matches!(self.qp_type, QpType::Uc | QpType::Ud);
        match self.state_now() {
            QpState::Rts | QpState::Sqd if unreliable => {
                self.state.store(QpState::Sqe as u32, Ordering::Release);
            }
            QpState::Rts | QpState::Sqd => {
                self.state.store(QpState::Err as u32, Ordering::Release);
                QpEntry::fail(&**self.adapter.process.own, self.index as usize, self.qpn);
                self.flush_receives();
                if self.srq.is_some() && !self.last_wqe.swap(true, Ordering::AcqRel) {
                    self.raise(AsyncKind::QpLastWqeReached);
                }
            }
            _ => {}
        }
    }

    #[cold]
    fn send_drained(&self, send: &SendHalf) {
        // raised once
        if send.sender.drained() && self.tells_drained.swap(false, Ordering::AcqRel) {
            self.raise(AsyncKind::SqDrained);
        }
    }

    /// An answer of the target.
    /// True if the send half wants to be driven.
    pub(crate) fn answered(
        self: &Arc<Self>,
        adapter: &Adapter,
        pair: &Span,
        answer: Answered,
        catch: &mut Catch<'_>,
    ) -> bool {
        let mut send = lock(&self.send);
        send.sender.answered(
            adapter,
            pair,
            answer,
            ferriband_memory::wait::now,
            &mut self.sink(catch),
        );
        self.check_send_state(&send);
        !send.sender.idle()
    }

    pub(crate) fn peer_died(self: &Arc<Self>, adapter: &Adapter) {
        let mut send = lock(&self.send);
        send.sender.peer_died(
            ferriband_memory::wait::now(),
            &mut self.sink(&mut Catch::nobody()),
        );
        self.check_send_state(&send);
        drop(send);
        adapter.schedule(self);
    }
}

fn app() -> AppMemory {
    // SAFETY: used only for the ranges of inline data that the program hands in with the call being served.
    unsafe { AppMemory::assume_registered() }
}

/// What became of driving a queue pair, as the adapter needs it.
fn after(adapter: &Adapter, qp: &Arc<Qp>, advance: direct::Advance) {
    match advance {
        direct::Advance::Idle => {}
        direct::Advance::Again | direct::Advance::Blocked => adapter.schedule(qp),
        direct::Advance::Until(at) => adapter.set_timer(qp, at.0),
    }
}
