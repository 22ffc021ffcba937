//! Queue pairs: creation, transitions, posting, and the two halves on the direct wire.
//!
//! Owns what a queue pair is made of and the order of its locks: attributes, then send half, then receive half, then
//! receive queue, then completion queue. Must not know how records travel.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ferriband_memory::{AppMemory, Span};
use ferriband_transport::direct::layout::QpEntry;
use ferriband_transport::direct::mark::Revoked;
use ferriband_transport::direct::{
    self, Answered, BindRequest, Consumer, Handled, Link, Receiver, Record, RecvQueue, SendAttr,
    SendState, Sender, TargetEvent, TargetSink,
};
use ferriband_transport::qp_state::{self, QpLimits};
use ferriband_transport::types::{
    AddressVector, Completion, QpAttr, QpAttrMask, QpCap, QpState, QpType, SendFlags, SendOpcode,
    Sge, WcOpcode, WcStatus,
};

use ferriband_wire::{Gid, Lid, Qpn};

use crate::ah::Ah;
use crate::context::{AsyncKind, Context, Pd};
use crate::cq::{Catch, Cq};
use crate::engine::Engine;
use crate::error::Error;
use crate::peer::PeerLink;
use crate::srq::Srq;
use crate::xrc::{TargetProxy, Xrcd, shown_state};
use crate::{FastMutex, limits, lock};

/// How to create a queue pair.
#[derive(Clone, Debug)]
pub struct QpInit {
    /// Service.
    pub qp_type: QpType,
    /// Completion queue of sends; None for an XRC target.
    pub send_cq: Option<Arc<Cq>>,
    /// Completion queue of receives; None for XRC.
    pub recv_cq: Option<Arc<Cq>>,
    /// Shared receive queue.
    pub srq: Option<Arc<Srq>>,
    /// XRC domain of a target.
    pub xrcd: Option<Arc<Xrcd>>,
    /// Capacities asked for.
    pub cap: QpCap,
    /// Every send completes with an entry.
    pub signal_all: bool,
}

/// A window to bind with a work request.
#[derive(Clone, Copy, Debug)]
pub struct BindMw {
    /// The window's first key ([`crate::Mw::first_key`]).
    pub window: u32,
    /// Its new key.
    pub rkey: u32,
    /// Key of the region.
    pub lkey: u32,
    /// First byte.
    pub addr: u64,
    /// Length in bytes, 0 to unbind.
    pub length: u64,
    /// Rights.
    pub access: ferriband_transport::types::Access,
}

/// A send work request.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// Identifier.
    pub wr_id: u64,
    /// Operation.
    pub opcode: SendOpcode,
    /// Flags.
    pub flags: SendFlags,
    /// Elements; with INLINE their addresses are read at once and their keys ignored.
    pub sges: &'a [Sge],
    /// Immediate data (network order), or key to invalidate.
    pub imm_or_key: u32,
    /// Remote address.
    pub remote_addr: u64,
    /// Remote key.
    pub rkey: u32,
    /// Compare or add operand.
    pub compare_add: u64,
    /// Swap operand.
    pub swap: u64,
    /// Path of a datagram.
    pub ah: Option<&'a Ah>,
    /// Target of a datagram.
    pub remote_qpn: u32,
    /// Queue key of a datagram.
    pub remote_qkey: u32,
    /// SRQ number of an extended connection.
    pub srqn: u32,
    /// Window to bind.
    pub bind: Option<BindMw>,
}

/// Where completions of a send queue go.
struct SendSink<'a, 'c> {
    cq: Option<&'a Cq>,
    place: u64,
    catch: &'a mut Catch<'c>,
}

impl direct::Sink for SendSink<'_, '_> {
    #[inline]
    fn sent(&mut self, completion: Completion) {
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
    cache: Option<(u32, PeerLink)>,
}

/// Index of a queue pair that has no place in the process's table.
const NO_INDEX: u32 = u32::MAX;

/// A queue pair.
#[derive(Debug)]
pub struct Qp {
    /// The context it belongs to.
    pub ctx: Arc<Context>,
    /// Its protection domain; None for an XRC target.
    pub pd: Option<Arc<Pd>>,
    /// What the C face stores to find its object.
    pub cookie: AtomicUsize,
    /// Its number.
    pub qpn: u32,
    /// Its place in this process.
    pub index: u32,
    /// Service.
    pub qp_type: QpType,
    /// Capacities as granted.
    pub cap: QpCap,
    /// Completion queue of sends.
    pub send_cq: Option<Arc<Cq>>,
    /// Completion queue of receives.
    pub recv_cq: Option<Arc<Cq>>,
    /// Shared receive queue.
    pub srq: Option<Arc<Srq>>,
    /// XRC domain.
    pub xrcd: Option<Arc<Xrcd>>,
    /// Every send completes with an entry.
    pub signal_all: bool,
    pub(crate) scheduled: AtomicBool,
    state: AtomicU32,
    attr: Mutex<QpAttr>,
    pub(crate) send: FastMutex<SendHalf>,
    recv: FastMutex<Receiver>,
    rq: FastMutex<RecvQueue>,
    last_wqe: AtomicBool,
    /// Multicast groups that it is attached to.
    groups: Mutex<Vec<(Gid, Lid)>>,
    /// An XRC target: its state is the domain's.
    target: Option<Arc<TargetProxy>>,
}

/// What a record brought, beside its answer. A record for an ordinary queue pair leaves out which one: its ring remembers.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The target queue pair of an XRC domain that it was for, and the shared receive queue that it named.
    extended: Option<(Arc<TargetProxy>, Arc<Srq>)>,
    completion: Option<Completion>,
    event: Option<TargetEvent>,
}

impl TargetSink for Outcome {
    fn received(&mut self, completion: Completion) {
        self.completion = Some(completion);
    }

    fn event(&mut self, event: TargetEvent) {
        self.event = Some(event);
    }
}

impl Outcome {
    pub(crate) fn of_extended(target: Arc<TargetProxy>, srq: Arc<Srq>) -> Self {
        Outcome {
            extended: Some((target, srq)),
            ..Outcome::default()
        }
    }

    /// True if something has to be told to the program.
    #[inline]
    pub(crate) fn tells(&self) -> bool {
        self.completion.is_some() || self.event.is_some()
    }

    /// Tells the program. To be called after the record is acknowledged; `qp` is the queue pair that it was for.
    pub(crate) fn deliver(&self, engine: &Engine, qp: Option<&Arc<Qp>>, catch: &mut Catch<'_>) {
        if let Some((target, srq)) = &self.extended {
            if let (Some((_, cq)), Some(completion)) = (&srq.xrc, &self.completion) {
                cq.push_or_hand(completion, catch);
            }
            srq.check_limit();
            match self.event {
                Some(TargetEvent::Established) | None => {}
                Some(event) => target.fail(engine, event),
            }
            return;
        }
        let Some(qp) = qp else { return };
        if let (Some(cq), Some(completion)) = (&qp.recv_cq, &self.completion) {
            cq.push_or_hand(completion, catch);
        }
        if let Some(srq) = &qp.srq {
            srq.check_limit();
        }
        if let Some(event) = self.event {
            qp.target_event(event);
        }
    }
}

impl Qp {
    pub(crate) fn create(
        ctx: &Arc<Context>,
        pd: Option<Arc<Pd>>,
        init: QpInit,
        target: Option<Arc<TargetProxy>>,
    ) -> Result<Arc<Self>, Error> {
        let cap = check_init(&init)?;
        let sends = limits::queue_bytes(cap.max_send_wr, cap.max_send_sge, cap.max_inline_data);
        limits::check_room(sends + limits::queue_bytes(cap.max_recv_wr, cap.max_recv_sge, 0))?;
        let engine = &ctx.engine;
        let (qpn, index) = match &target {
            Some(target) => (target.qpn(), NO_INDEX),
            None => engine.claim_qpn()?,
        };
        let pd_id = pd.as_ref().map_or(0, |pd| pd.id);
        let (recv_pd, recv_sge) = match &init.srq {
            Some(srq) => (srq.pd.id, srq.max_sge),
            None => (pd_id, cap.max_recv_sge),
        };
        let own_rq =
            init.srq.is_none() && !matches!(init.qp_type, QpType::XrcSend | QpType::XrcRecv);
        let (rq_wr, rq_sge) = if own_rq {
            (cap.max_recv_wr, cap.max_recv_sge)
        } else {
            (0, 0)
        };
        let sender = Sender::new(
            qpn,
            index,
            init.qp_type,
            pd_id,
            init.signal_all,
            cap.max_send_wr,
            cap.max_send_sge,
            cap.max_inline_data,
        )
        .after_incarnation(engine.last_incarnation(index));
        if let Some(pd) = &pd {
            pd.use_it();
        }
        for cq in [&init.send_cq, &init.recv_cq].into_iter().flatten() {
            cq.users.fetch_add(1, Ordering::AcqRel);
        }
        if let Some(srq) = &init.srq {
            srq.users.fetch_add(1, Ordering::AcqRel);
        }
        if let Some(xrcd) = &init.xrcd {
            xrcd.users.fetch_add(1, Ordering::AcqRel);
        }
        let qp = Arc::new(Qp {
            ctx: ctx.clone(),
            pd,
            cookie: AtomicUsize::new(0),
            qpn,
            index,
            qp_type: init.qp_type,
            cap,
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            srq: init.srq,
            xrcd: init.xrcd,
            signal_all: init.signal_all,
            scheduled: AtomicBool::new(false),
            state: AtomicU32::new(QpState::Reset as u32),
            attr: Mutex::new(QpAttr {
                cap,
                ..QpAttr::default()
            }),
            send: FastMutex::new(SendHalf {
                sender,
                cache: None,
            }),
            recv: FastMutex::new(Receiver::new(qpn, init.qp_type, pd_id, recv_pd, recv_sge)),
            rq: FastMutex::new(RecvQueue::new(rq_wr, rq_sge)),
            last_wqe: AtomicBool::new(false),
            groups: Mutex::default(),
            target,
        });
        if qp.target.is_none() {
            engine.insert_qp(&qp);
        }
        Ok(qp)
    }

    /// Its state.
    #[inline]
    pub fn state(&self) -> QpState {
        let set = state_of(self.state.load(Ordering::Acquire));
        match &self.target {
            Some(target) => shown_state(&self.ctx.engine, target, set),
            None => set,
        }
    }

    /// Its attributes. The sequence numbers are those of the next packet.
    pub fn query(&self) -> QpAttr {
        let mut attr = *lock(&self.attr);
        attr.state = self.state();
        attr.cur_state = attr.state;
        attr.sq_draining = attr.state == QpState::Sqd && !lock(&self.send).sender.drained();
        attr
    }

    /// Changes attributes and state (I12): a refused call changes nothing.
    ///
    /// # Errors
    /// `Transition`; `Busy` for a reset while a peer is stopped in the middle of an access: the state stays, peers
    /// are refused, and the program may try again.
    pub fn modify(self: &Arc<Self>, new: &QpAttr, mask: QpAttrMask) -> Result<(), Error> {
        let engine = &self.ctx.engine;
        engine.check_alive()?;
        let limits = QpLimits {
            gids: 1,
            ..QpLimits::default()
        };
        let mut attr = lock(&self.attr);
        attr.state = self.state();
        let old = *attr;
        let (from, to) = qp_state::modify(&mut attr, self.qp_type, new, mask, &limits)?;
        let now = *attr;
        // the attributes stay locked: transitions of one queue pair follow each other
        match (from, to) {
            (_, QpState::Reset) => self.reset().inspect_err(|_| *attr = old)?,
            (_, QpState::Err) => self.enter_error(),
            (_, QpState::Rtr) => self.become_receiver(&now),
            (QpState::Rtr, QpState::Rts) => self.become_sender(&now),
            (_, QpState::Rts) => self.resume(&now, mask),
            (_, QpState::Sqd) => self.drain(&now),
            _ => {}
        }
        self.state.store(to as u32, Ordering::Release);
        if to == QpState::Rts && from != QpState::Rtr || mask.contains(QpAttrMask::ACCESS_FLAGS) {
            self.refresh(&now);
        }
        drop(attr);
        if matches!(to, QpState::Rts | QpState::Sqd) {
            self.drive(engine, false);
        }
        Ok(())
    }

    /// RTR: finds the peer and accepts requests.
    fn become_receiver(&self, attr: &QpAttr) {
        let engine = &self.ctx.engine;
        let connected = matches!(self.qp_type, QpType::Rc | QpType::Uc);
        let link = if connected && self.reaches_host(&attr.av) {
            engine.link_to(attr.dest_qpn.0)
        } else {
            None
        };
        if let Some(target) = &self.target {
            let slot = engine
                .registry
                .owner_of_qpn(attr.dest_qpn)
                .map_or(u32::MAX, |owner| owner.slot);
            return target.accept(engine, attr, slot);
        }
        if let Some(link) = &link {
            // what an earlier connection left in the ring is refused now; it must not be taken for this one's
            engine.hear_out(link);
        }
        let mut recv = lock(&self.recv);
        recv.receives = true;
        recv.fresh = true;
        recv.expected = attr.rq_psn.get();
        recv.dest_qpn = attr.dest_qpn.0;
        recv.peer_slot = link.as_ref().map_or(u32::MAX, Link::slot);
        recv.access = attr.access;
        recv.min_rnr_timer = attr.min_rnr_timer;
        recv.qkey = attr.qkey.0;
        drop(recv);
        let dest = SendAttr {
            dest_qpn: attr.dest_qpn.0,
            ..SendAttr::default()
        };
        lock(&self.send).sender.connect(dest, link);
        self.publish(attr, true);
    }

    fn become_sender(&self, attr: &QpAttr) {
        let mut send = lock(&self.send);
        send.sender.start(send_attr(attr));
        send.sender.set_state(SendState::Running, &mut |_| {});
    }

    /// RTS from SQD, SQE or RTS itself.
    fn resume(&self, attr: &QpAttr, mask: QpAttrMask) {
        let mut send = lock(&self.send);
        if mask.intersects(QpAttrMask::TIMEOUT | QpAttrMask::RETRY_CNT | QpAttrMask::RNR_RETRY) {
            let seq = send.sender.attr().seq;
            send.sender.start(SendAttr {
                seq,
                ..send_attr(attr)
            });
        }
        send.sender.set_state(SendState::Running, &mut |_| {});
    }

    fn drain(&self, attr: &QpAttr) {
        let mut send = lock(&self.send);
        send.sender.set_state(SendState::Draining, &mut |_| {});
        let drained = send.sender.drained();
        drop(send);
        if attr.en_sqd_async_notify && drained {
            self.raise(AsyncKind::SqDrained);
        }
    }

    /// Attributes that the receiving side and the peers see.
    fn refresh(&self, attr: &QpAttr) {
        if let Some(target) = &self.target {
            if matches!(attr.state, QpState::Rtr | QpState::Rts) {
                target.set_rights(&self.ctx.engine, attr);
            }
            return;
        }
        let mut recv = lock(&self.recv);
        recv.access = attr.access;
        recv.min_rnr_timer = attr.min_rnr_timer;
        recv.qkey = attr.qkey.0;
        let receives = recv.receives;
        drop(recv);
        if receives {
            self.publish(attr, true);
        }
    }

    fn publish(&self, attr: &QpAttr, receives: bool) {
        let recv = lock(&self.recv);
        let entry = QpEntry {
            qpn: self.qpn,
            receives,
            access: attr.access,
            pd: recv.pd,
            dest_qpn: attr.dest_qpn.0,
            dest_slot: recv.peer_slot,
        };
        entry.write(&**self.ctx.engine.own, self.index as usize);
    }

    /// Takes the queue pair back from peers: when this returns Ok, none is in the middle of an access by it.
    ///
    /// # Errors
    /// `Busy` if a peer stopped in the middle of an access: it begins no other, but it may end this one.
    fn revoke(&self, failed: bool) -> Result<(), Error> {
        let engine = &self.ctx.engine;
        if let Some(target) = &self.target {
            target.refuse(engine, failed);
            return Ok(());
        }
        QpEntry::revoke(&**engine.own, self.index as usize);
        engine.wait_for_marks(Revoked::Qp(self.qpn))
    }

    fn reset(&self) -> Result<(), Error> {
        self.revoke(false)?;
        lock(&self.send)
            .sender
            .set_state(SendState::Stopped, &mut |_| {});
        let mut recv = lock(&self.recv);
        recv.stop();
        let mut rq = lock(&self.rq);
        *rq = RecvQueue::new(rq.capacity(), self.cap.max_recv_sge);
        drop((rq, recv));
        self.last_wqe.store(false, Ordering::Release);
        for cq in [&self.send_cq, &self.recv_cq].into_iter().flatten() {
            cq.forget(self.qpn);
        }
        Ok(())
    }

    /// Everything flushes (I11).
    fn enter_error(&self) {
        // a stopped peer keeps its mark; the state changes all the same, since it gives no memory back
        let _ = self.revoke(true);
        self.state.store(QpState::Err as u32, Ordering::Release);
        let mut send = lock(&self.send);
        send.sender
            .set_state(SendState::Flushing, &mut self.sink(&mut Catch::nobody()));
        drop(send);
        self.flush_receives();
        if self.srq.is_some() && !self.last_wqe.swap(true, Ordering::AcqRel) {
            self.raise(AsyncKind::QpLastWqeReached);
        }
    }

    fn flush_receives(&self) {
        let mut recv = lock(&self.recv);
        let current = recv.stop();
        let Some(cq) = &self.recv_cq else { return };
        let flush = |wr_id| {
            cq.push(Completion {
                wr_id,
                status: WcStatus::WrFlushErr,
                opcode: WcOpcode::Recv,
                qp_num: self.qpn,
                ..Completion::default()
            });
        };
        if let Some(wqe) = current {
            flush(wqe.wr_id);
        }
        let mut rq = lock(&self.rq);
        let mut sges = Vec::new();
        while let Some(wqe) = rq.take(&mut sges) {
            flush(wqe.wr_id);
        }
    }

    fn raise(&self, kind: AsyncKind) {
        self.ctx.raise(kind, self.cookie.load(Ordering::Acquire));
    }

    #[inline]
    fn sink<'a, 'c>(&'a self, catch: &'a mut Catch<'c>) -> SendSink<'a, 'c> {
        SendSink {
            cq: self.send_cq.as_deref(),
            place: 0,
            catch,
        }
    }

    /// True if the path leads to this host's port.
    fn reaches_host(&self, av: &AddressVector) -> bool {
        let engine = &self.ctx.engine;
        av.dlid == engine.lid || av.is_global && av.dgid == engine.gid()
    }

    /// Queues a send and does at once what can be done.
    #[inline]
    pub fn post_send(self: &Arc<Self>, request: &SendRequest<'_>) -> Result<(), Error> {
        let engine = &*self.ctx.engine;
        engine.check_alive()?;
        let mut send = lock(&self.send);
        self.enqueue(engine, &mut send, request)?;
        self.advance(engine, &mut send, false);
        Ok(())
    }

    fn enqueue(
        &self,
        engine: &Engine,
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
        let mut fanout = Vec::new();
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
            route = (engine.lid.0, u16::from(ah.av.sl.0));
            if ah.av.is_global {
                let length = request.sges.iter().map(|sge| sge.length).sum::<u32>();
                grh = Some(ah.grh(length as u16));
            }
            if ah.av.is_global && ah.av.dgid.is_multicast() {
                fanout = self.group_members(engine, &ah.av);
            } else if self.reaches_host(&ah.av) {
                if send
                    .cache
                    .as_ref()
                    .is_none_or(|(qpn, link)| *qpn != request.remote_qpn || link.dead())
                {
                    send.cache = engine
                        .link_to(request.remote_qpn)
                        .map(|link| (request.remote_qpn, link));
                }
                link = send.cache.as_ref().map(|(_, link)| link.clone());
            }
        }
        let mut remote_qpn = request.remote_qpn;
        if self.qp_type == QpType::XrcSend
            && let Some(srq) = engine.registry.xrc_srq_find(request.srqn)
        {
            // the process that owns the shared receive queue executes; its protection domain guards the memory
            link = Some(engine.link_to_process(srq.process));
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
            fanout: &fanout,
        };
        Ok(send
            .sender
            .post(&posted, &mut self.sink(&mut Catch::nobody()))?)
    }

    /// Who receives what is sent to a multicast group: every attached queue pair but this one.
    fn group_members(&self, engine: &Engine, av: &AddressVector) -> Vec<(PeerLink, u32)> {
        let mut members = Vec::new();
        engine.registry.multicast_members(&av.dgid, &mut members);
        members.retain(|member| member.qpn.0 != self.qpn);
        members
            .iter()
            .map(|member| (engine.link_to_process(member.process), member.qpn.0))
            .collect()
    }

    /// Attaches the queue pair to a multicast group.
    ///
    /// # Errors
    /// `Invalid` unless it is a datagram queue pair and the GID is a multicast one.
    pub fn attach_mcast(&self, mgid: Gid, mlid: Lid) -> Result<(), Error> {
        self.check_group(mgid)?;
        self.ctx
            .engine
            .registry
            .multicast_attach(&mgid, mlid, Qpn(self.qpn))?;
        lock(&self.groups).push((mgid, mlid));
        Ok(())
    }

    /// Detaches the queue pair from a multicast group.
    ///
    /// # Errors
    /// `Invalid` if it was not attached.
    pub fn detach_mcast(&self, mgid: Gid, mlid: Lid) -> Result<(), Error> {
        self.check_group(mgid)?;
        if !self
            .ctx
            .engine
            .registry
            .multicast_detach(&mgid, mlid, Qpn(self.qpn))
        {
            return Err(Error::Invalid(
                "the queue pair is not attached to the multicast group",
            ));
        }
        lock(&self.groups).retain(|group| *group != (mgid, mlid));
        Ok(())
    }

    fn check_group(&self, mgid: Gid) -> Result<(), Error> {
        self.ctx.engine.check_alive()?;
        if self.qp_type != QpType::Ud {
            return Err(Error::Invalid(
                "only datagram queue pairs join multicast groups",
            ));
        }
        if !mgid.is_multicast() {
            return Err(Error::Invalid("the GID is no multicast GID"));
        }
        Ok(())
    }

    /// Drives the send half. True if something moved.
    pub(crate) fn drive(self: &Arc<Self>, engine: &Engine, long: bool) -> bool {
        let mut send = lock(&self.send);
        // a record that was pushed while the peer's death was being noticed has nobody left to answer it
        if send.sender.awaits_answers() && send.sender.link().is_some_and(Link::dead) {
            send.sender
                .peer_died(Engine::now(), &mut self.sink(&mut Catch::nobody()));
        }
        self.advance(engine, &mut send, long)
    }

    #[inline]
    fn advance(self: &Arc<Self>, engine: &Engine, send: &mut SendHalf, long: bool) -> bool {
        let before = send.sender.outstanding();
        let advance = send.sender.advance(
            engine,
            Engine::now,
            long,
            &mut self.sink(&mut Catch::nobody()),
        );
        let moved = send.sender.outstanding() != before;
        if advance != direct::Advance::Idle {
            crate::engine::after(engine, self, advance);
            if !long {
                engine.kick(advance == direct::Advance::Again);
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
        match self.state() {
            QpState::Rts | QpState::Sqd if unreliable => {
                self.state.store(QpState::Sqe as u32, Ordering::Release);
            }
            QpState::Rts | QpState::Sqd => {
                self.state.store(QpState::Err as u32, Ordering::Release);
                QpEntry::revoke(&**self.ctx.engine.own, self.index as usize);
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
        // raised once: the attribute is one-shot
        if send.sender.drained()
            && let Ok(mut attr) = self.attr.try_lock()
            && attr.en_sqd_async_notify
        {
            attr.en_sqd_async_notify = false;
            drop(attr);
            self.raise(AsyncKind::SqDrained);
        }
    }

    /// An answer of the target.
    /// True if the send half wants to be driven.
    pub(crate) fn answered(
        self: &Arc<Self>,
        engine: &Engine,
        pair: &Span,
        answer: Answered,
        catch: &mut Catch<'_>,
    ) -> bool {
        let mut send = lock(&self.send);
        send.sender
            .answered(engine, pair, answer, Engine::now, &mut self.sink(catch));
        self.check_send_state(&send);
        !send.sender.idle()
    }

    pub(crate) fn peer_died(self: &Arc<Self>, engine: &Engine) {
        let mut send = lock(&self.send);
        send.sender
            .peer_died(Engine::now(), &mut self.sink(&mut Catch::nobody()));
        self.check_send_state(&send);
        drop(send);
        engine.schedule(self);
    }

    /// Executes a record of a peer. What the program has to be told is left for later.
    pub(crate) fn receive(
        self: &Arc<Self>,
        engine: &Engine,
        link: &PeerLink,
        ring: &Consumer,
        record: &Record,
        chunk: u64,
    ) -> (Handled, Outcome) {
        let mut outcome = Outcome::default();
        let mut recv = lock(&self.recv);
        let handled = match &self.srq {
            Some(srq) => {
                let mut queue = lock(&srq.queue);
                recv.handle(engine, link, ring, record, &mut queue, chunk, &mut outcome)
            }
            None => recv.handle(
                engine,
                link,
                ring,
                record,
                &mut lock(&self.rq),
                chunk,
                &mut outcome,
            ),
        };
        (handled, outcome)
    }

    #[cold]
    fn target_event(&self, event: TargetEvent) {
        match event {
            TargetEvent::Established => {
                if self.state() == QpState::Rtr {
                    self.raise(AsyncKind::CommEst);
                }
                return;
            }
            TargetEvent::AccessError => self.raise(AsyncKind::QpAccessErr),
            TargetEvent::RequestError => self.raise(AsyncKind::QpReqErr),
            TargetEvent::ReceiveError => {}
        }
        self.enter_error();
    }

    /// Queues a receive.
    #[inline]
    pub fn post_recv(&self, wr_id: u64, sges: &[Sge]) -> Result<(), Error> {
        self.ctx.engine.check_alive()?;
        if self.srq.is_some() {
            return Err(Error::Invalid(
                "the queue pair receives by its shared receive queue",
            ));
        }
        match self.state() {
            QpState::Reset => return Err(Error::Invalid("the queue pair is in the reset state")),
            QpState::Err => {
                lock(&self.rq).push(wr_id, sges)?;
                self.flush_receives();
                return Ok(());
            }
            _ => {}
        }
        Ok(lock(&self.rq).push(wr_id, sges)?)
    }

    /// Ends the queue pair: nothing of it happens any more.
    ///
    /// # Errors
    /// `Busy` while a peer is stopped in the middle of an access: peers are refused, and the program may try again.
    pub fn destroy(self: &Arc<Self>) -> Result<(), Error> {
        let engine = &self.ctx.engine;
        engine.check_alive()?;
        for (mgid, mlid) in lock(&self.groups).drain(..) {
            engine.registry.multicast_detach(&mgid, mlid, Qpn(self.qpn));
        }
        match &self.target {
            // other processes may go on with it
            Some(target) => target.release(engine),
            None => {
                self.reset()?;
                self.state.store(QpState::Reset as u32, Ordering::Release);
                engine.remove_qp(self);
            }
        }
        self.ctx.retract(self.cookie.load(Ordering::Acquire));
        for cq in [&self.send_cq, &self.recv_cq].into_iter().flatten() {
            cq.users.fetch_sub(1, Ordering::AcqRel);
        }
        if let Some(srq) = &self.srq {
            srq.users.fetch_sub(1, Ordering::AcqRel);
        }
        if let Some(xrcd) = &self.xrcd {
            xrcd.users.fetch_sub(1, Ordering::AcqRel);
        }
        if let Some(pd) = &self.pd {
            pd.release();
        }
        if self.target.is_none() {
            engine.release_qpn(self.index, lock(&self.send).sender.incarnation());
        }
        Ok(())
    }
}

fn app() -> AppMemory {
    // SAFETY: used only for the ranges of inline data that the program hands in with the call being served.
    unsafe { AppMemory::assume_registered() }
}

fn state_of(value: u32) -> QpState {
    match value {
        0 => QpState::Reset,
        1 => QpState::Init,
        2 => QpState::Rtr,
        3 => QpState::Rts,
        4 => QpState::Sqd,
        5 => QpState::Sqe,
        _ => QpState::Err,
    }
}

fn send_attr(attr: &QpAttr) -> SendAttr {
    SendAttr {
        dest_qpn: attr.dest_qpn.0,
        seq: attr.sq_psn.get(),
        timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
    }
}

/// Checks what is asked for; the capacities granted.
fn check_init(init: &QpInit) -> Result<QpCap, Error> {
    let cap = init.cap;
    if cap.max_send_wr > limits::MAX_QP_WR || cap.max_recv_wr > limits::MAX_QP_WR {
        return Err(Error::Invalid("more work requests than max_qp_wr"));
    }
    if cap.max_send_sge > limits::MAX_SGE || cap.max_recv_sge > limits::MAX_SGE {
        return Err(Error::Invalid("more scatter/gather elements than max_sge"));
    }
    if cap.max_inline_data > limits::MAX_INLINE {
        return Err(Error::Invalid("more inline data than the device offers"));
    }
    let needs_cqs = !matches!(init.qp_type, QpType::XrcRecv);
    if needs_cqs && init.send_cq.is_none()
        || needs_cqs && init.recv_cq.is_none() && init.qp_type != QpType::XrcSend
    {
        return Err(Error::Invalid("the queue pair needs completion queues"));
    }
    Ok(cap)
}
