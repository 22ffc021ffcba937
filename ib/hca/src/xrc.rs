//! Extended reliable connections: domains, target queue pairs that belong to them, and their shared receive queues.
//!
//! A target's state lies in the host's registry, so it outlives the process that made it (IBA A14). Its requests are executed by
//! the process that owns the shared receive queue they name: that process takes the state from the registry, executes,
//! and puts the sequence number back. The initiator never has requests under way to two processes at once.

pub(crate) mod targets;

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

pub use ferriband_memory::host::XrcOpen;
use ferriband_memory::host::{ProcessRef, XrcDomain, XrcTarget};
use ferriband_transport::direct::layout::QpEntry;
use ferriband_transport::direct::{Consumer, Handled, Receiver, Record, Response, TargetEvent};
use ferriband_transport::types::{Access, QpAttr, QpState, QpType};
use ferriband_wire::Qpn;

use crate::base::error::Error;
use crate::lock;
use crate::objects::context::Context;
use crate::objects::event::AsyncKind;
use crate::objects::srq::Srq;
use crate::process::peer::PeerLink;
use crate::progress::Engine;
use crate::qp::{Outcome, Qp, QpInit};

/// Words of a target in the registry.
const WORD_STATE: usize = 0;
const WORD_PEER: usize = 1;
const WORD_SEQUENCE: usize = 2;
const WORD_HANDLES: usize = 3;
const WORD_WIRE: usize = 4;

/// Which wire the connection of a target of the InfiniBand device takes, once it was asked.
const WIRE_DIRECT: u64 = 1;
const WIRE_PACKETS: u64 = 2;

const STATE_RECEIVES: u64 = 1 << 63;
const STATE_FAILED: u64 = 1 << 62;
const SEQUENCE_FRESH: u64 = 1 << 32;

/// An XRC domain, as this process has it open.
#[derive(Debug)]
pub struct Xrcd {
    /// The context it belongs to.
    pub ctx: Arc<Context>,
    /// What the C face stores to find its object.
    pub cookie: AtomicUsize,
    domain: XrcDomain,
    pub(crate) users: AtomicUsize,
}

/// Which domain to open.
#[derive(Clone, Copy, Debug)]
pub enum XrcFile {
    /// One that nobody else can open.
    Private,
    /// That of a file, by device and inode number.
    Of(u64, u64, XrcOpen),
}

impl Xrcd {
    pub(crate) fn open(ctx: &Arc<Context>, file: XrcFile) -> Result<Arc<Self>, Error> {
        let registry = &ctx.engine.process.registry;
        let domain = match file {
            XrcFile::Private => registry.xrc_domain_private()?,
            XrcFile::Of(device, inode, how) => registry.xrc_domain_open(device, inode, how)?,
        };
        Ok(Arc::new(Xrcd {
            ctx: ctx.clone(),
            cookie: AtomicUsize::new(0),
            domain,
            users: AtomicUsize::new(0),
        }))
    }

    /// A number for a shared receive queue of the domain, whose requests are checked against protection domain `pd`.
    pub(crate) fn claim_srq(&self, pd: u32) -> Result<u32, Error> {
        Ok(self
            .ctx
            .engine
            .process
            .registry
            .xrc_srq_claim(&self.domain, [u64::from(pd), 0])?)
    }

    pub(crate) fn add_srq(&self, srq: &Arc<Srq>) {
        self.users.fetch_add(1, Ordering::AcqRel);
        let mut srqs = self
            .ctx
            .engine
            .targets
            .srqs
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        srqs.insert(srq.number, srq.clone());
    }

    pub(crate) fn remove_srq(&self, number: u32) {
        self.users.fetch_sub(1, Ordering::AcqRel);
        let engine = &self.ctx.engine;
        engine.process.registry.xrc_srq_free(number);
        engine
            .targets
            .srqs
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .remove(&number);
    }

    /// A new target queue pair of the domain.
    pub fn create_qp(self: &Arc<Self>, init: QpInit) -> Result<Arc<Qp>, Error> {
        self.ctx.engine.check_alive()?;
        let registry = &self.ctx.engine.process.registry;
        let claimed = registry.xrc_tgt_claim(&self.domain)?;
        registry.xrc_tgt_store(&claimed, WORD_HANDLES, 1);
        let target = registry.xrc_tgt_publish(claimed)?;
        self.handle(target, init)
    }

    /// A handle of an existing target queue pair of the domain, whoever made it.
    ///
    /// # Errors
    /// `Invalid` if the domain has no such target.
    pub fn open_qp(self: &Arc<Self>, qpn: u32) -> Result<Arc<Qp>, Error> {
        let engine = &self.ctx.engine;
        engine.check_alive()?;
        let registry = &engine.process.registry;
        let target = registry
            .xrc_tgt_find(Qpn(qpn))
            .filter(|target| target.domain == self.domain.id)
            .ok_or(Error::Invalid(
                "the XRC domain has no such target queue pair",
            ))?;
        count_handles(engine, &target, 1);
        let init = QpInit {
            qp_type: QpType::XrcRecv,
            send_cq: None,
            recv_cq: None,
            srq: None,
            xrcd: None,
            cap: Default::default(),
            signal_all: false,
        };
        self.handle(target, init)
    }

    fn handle(self: &Arc<Self>, target: XrcTarget, init: QpInit) -> Result<Arc<Qp>, Error> {
        let engine = &self.ctx.engine;
        let proxy = engine
            .xrc_target(target.qpn.0)
            .ok_or(Error::Gone("the XRC target was destroyed"))?;
        let init = QpInit {
            xrcd: Some(self.clone()),
            ..init
        };
        let qp = Qp::create(&self.ctx, None, init, Some(proxy.clone()))?;
        lock(&proxy.handles).push(Arc::downgrade(&qp));
        Ok(qp)
    }

    /// Leaves the domain.
    ///
    /// # Errors
    /// `Busy` while queues of this process belong to it.
    pub fn close(&self) -> Result<(), Error> {
        self.ctx.engine.check_alive()?;
        if self.users.load(Ordering::Acquire) > 0 {
            return Err(Error::Busy("queues belong to the XRC domain"));
        }
        self.ctx.engine.stop_carrying_domain(self);
        self.ctx
            .engine
            .process
            .registry
            .xrc_domain_close(self.domain);
        Ok(())
    }
}

fn count_handles(engine: &Engine, target: &XrcTarget, by: i64) -> u64 {
    let mut count = engine.process.registry.xrc_tgt_load(target, WORD_HANDLES);
    loop {
        let next = count.saturating_add_signed(by);
        match engine
            .process
            .registry
            .xrc_tgt_cas(target, WORD_HANDLES, count, next)
        {
            Ok(_) => return next,
            Err(found) => count = found,
        }
    }
}

/// A target queue pair as this process knows it: its entry in the registry, and what executes its requests here.
#[derive(Debug)]
pub struct TargetProxy {
    target: XrcTarget,
    recv: Mutex<Receiver>,
    handles: Mutex<Vec<Weak<Qp>>>,
    /// On packets: the protection domain of the shared receive queue that the last request named.
    packets_pd: AtomicU32,
}

impl TargetProxy {
    /// Its number.
    pub fn qpn(&self) -> u32 {
        self.target.qpn.0
    }

    /// RTR: requests of the peer are accepted from now on.
    pub(crate) fn accept(&self, engine: &Engine, attr: &QpAttr, peer_slot: u32) {
        let registry = &engine.process.registry;
        let peer = u64::from(attr.dest_qpn.0) | u64::from(peer_slot) << 32;
        registry.xrc_tgt_store(&self.target, WORD_PEER, peer);
        registry.xrc_tgt_store(
            &self.target,
            WORD_SEQUENCE,
            u64::from(attr.rq_psn.get()) | SEQUENCE_FRESH,
        );
        self.set_rights(engine, attr);
    }

    /// Rights and timer, with the state: accepting.
    pub(crate) fn set_rights(&self, engine: &Engine, attr: &QpAttr) {
        let word =
            STATE_RECEIVES | u64::from(attr.min_rnr_timer) << 32 | u64::from(attr.access.bits());
        engine
            .process
            .registry
            .xrc_tgt_store(&self.target, WORD_STATE, word);
    }

    /// RESET: the next connection may take another wire.
    pub(crate) fn forget_wire(&self, engine: &Engine) {
        engine
            .process
            .registry
            .xrc_tgt_store(&self.target, WORD_WIRE, 0);
    }

    /// RESET and ERR: requests are no longer accepted.
    pub(crate) fn refuse(&self, engine: &Engine, failed: bool) {
        engine.process.registry.xrc_tgt_store(
            &self.target,
            WORD_STATE,
            if failed { STATE_FAILED } else { 0 },
        );
    }

    /// True once a request has taken the target to the error state.
    pub(crate) fn has_failed(&self, engine: &Engine) -> bool {
        engine
            .process
            .registry
            .xrc_tgt_load(&self.target, WORD_STATE)
            & STATE_FAILED
            != 0
    }

    /// A handle goes; the target goes with the last one.
    pub(crate) fn release(&self, engine: &Engine) {
        if count_handles(engine, &self.target, -1) == 0 {
            self.refuse(engine, false);
            engine.process.registry.xrc_tgt_free(self.target);
            lock(&engine.targets.known).remove(&self.qpn());
            engine.drop_carried(|qp| qp.qpn == self.qpn());
        }
    }

    /// True if this process made it: then its packets are steered here.
    pub(crate) fn was_made_here(&self, engine: &Engine) -> bool {
        self.target.creator() == engine.process.registry.me()
    }

    /// True while it takes requests, whoever has a say in that.
    pub(crate) fn accepts(&self, engine: &Engine) -> bool {
        let registry = &engine.process.registry;
        registry.xrc_tgt_is_current(&self.target)
            && registry.xrc_tgt_load(&self.target, WORD_STATE) & STATE_RECEIVES != 0
    }

    /// A shared receive queue of the domain that this process owns.
    pub(crate) fn srq(&self, engine: &Engine, number: u32) -> Option<Arc<Srq>> {
        engine
            .srq_by_number(number)
            .filter(|srq| srq.in_domain(self.target.domain))
    }

    /// The protection domain that packets work in. Written and read under the queue pair's packet lock.
    pub(crate) fn packets_pd(&self) -> u32 {
        self.packets_pd.load(Ordering::Relaxed)
    }

    pub(crate) fn set_packets_pd(&self, pd: u32) {
        self.packets_pd.store(pd, Ordering::Relaxed);
    }

    /// A request failed here: the target is in error for everybody; handles of this process hear of it.
    pub(crate) fn fail(&self, engine: &Engine, event: TargetEvent) {
        let kind = match event {
            TargetEvent::AccessError => AsyncKind::QpAccessErr,
            TargetEvent::RequestError => AsyncKind::QpReqErr,
            TargetEvent::Established | TargetEvent::ReceiveError => AsyncKind::QpFatal,
        };
        self.refuse(engine, true);
        for qp in lock(&self.handles).iter().filter_map(Weak::upgrade) {
            qp.ctx.raise(kind, qp.cookie.load(Ordering::Acquire));
        }
    }

    /// Takes the state from the registry. None if the target does not accept.
    fn load(&self, engine: &Engine, recv: &mut Receiver) -> Option<()> {
        let registry = &engine.process.registry;
        let state = registry.xrc_tgt_load(&self.target, WORD_STATE);
        if state & STATE_RECEIVES == 0 || !registry.xrc_tgt_is_current(&self.target) {
            return None;
        }
        let peer = registry.xrc_tgt_load(&self.target, WORD_PEER);
        let sequence = registry.xrc_tgt_load(&self.target, WORD_SEQUENCE);
        recv.receives = true;
        recv.access = Access::from_bits_truncate(state as u32);
        recv.min_rnr_timer = (state >> 32) as u8 & 31;
        recv.dest_qpn = peer as u32;
        recv.peer_slot = (peer >> 32) as u32;
        recv.expected = sequence as u32 & 0xff_ffff;
        recv.fresh = sequence & SEQUENCE_FRESH != 0;
        Some(())
    }

    fn store(&self, engine: &Engine, recv: &Receiver) {
        let fresh = if recv.fresh { SEQUENCE_FRESH } else { 0 };
        engine.process.registry.xrc_tgt_store(
            &self.target,
            WORD_SEQUENCE,
            u64::from(recv.expected) | fresh,
        );
    }
}

/// SRQ number that a record names.
fn srq_number(record: &Record) -> u32 {
    u32::from(record.extra) | record.seq >> 24 << 16
}

impl Engine {
    /// What this process knows of a target, if the registry has it.
    pub(crate) fn xrc_target(&self, qpn: u32) -> Option<Arc<TargetProxy>> {
        let mut targets = lock(&self.targets.known);
        if let Some(proxy) = targets.get(&qpn)
            && self.process.registry.xrc_tgt_is_current(&proxy.target)
        {
            return Some(proxy.clone());
        }
        let target = self.process.registry.xrc_tgt_find(Qpn(qpn))?;
        let proxy = Arc::new(TargetProxy {
            target,
            recv: Mutex::new(Receiver::new(
                qpn,
                QpType::XrcRecv,
                0,
                0,
                crate::base::limits::MAX_SGE,
            )),
            handles: Mutex::default(),
            packets_pd: AtomicU32::new(0),
        });
        targets.insert(qpn, proxy.clone());
        Some(proxy)
    }

    /// From now on packets for this handle's target are executed by its machine. They are steered here, for this process made the
    /// target; the machine stays until the target ends or this process leaves the domain.
    pub(crate) fn carry(&self, qp: &Arc<Qp>) {
        let before = lock(&self.table.carried).insert(qp.qpn, qp.clone());
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, qp)) {
            before.end_packets();
        }
        self.table.version.fetch_add(1, Ordering::AcqRel);
        if let Some(roce) = self.wires.roce.get() {
            roce.steer(self);
        }
    }

    /// The handle goes back to its beginning.
    pub(crate) fn stop_carrying(&self, qp: &Arc<Qp>) {
        if qp.target.is_some() {
            self.drop_carried(|other| Arc::ptr_eq(other, qp));
        }
    }

    fn stop_carrying_domain(&self, domain: &Xrcd) {
        self.drop_carried(|qp| {
            let of = qp.xrcd.as_ref();
            of.is_some_and(|xrcd| std::ptr::eq(&**xrcd, domain))
        });
    }

    fn drop_carried(&self, which: impl Fn(&Arc<Qp>) -> bool) {
        let mut dropped = Vec::new();
        lock(&self.table.carried).retain(|_, qp| {
            let goes = which(qp);
            if goes {
                dropped.push(qp.clone());
            }
            !goes
        });
        if !dropped.is_empty() {
            self.table.version.fetch_add(1, Ordering::AcqRel);
        }
        for qp in dropped {
            qp.end_packets();
        }
    }

    /// True if a connection to a target of the InfiniBand device, whose initiator wants packets, takes them. Packets reach the shared
    /// receive queues of the process that made the target: while others have its domain open the wire is the direct one. Settled by whichever
    /// end asks first, for both.
    pub(crate) fn xrc_takes_packets(&self, qpn: Qpn) -> bool {
        let registry = &self.process.registry;
        let Some(target) = registry.xrc_tgt_find(qpn) else {
            return true;
        };
        let alone = registry.xrc_domain_members(target.domain) == [target.creator()];
        let wire = if alone { WIRE_PACKETS } else { WIRE_DIRECT };
        let before = registry.xrc_tgt_cas(&target, WORD_WIRE, 0, wire);
        before.map_or_else(|settled| settled, |_| wire) == WIRE_PACKETS
    }

    /// The queue pair of this process that takes the packets for a number.
    pub(crate) fn qp_of_packets(&self, qpn: u32) -> Option<Arc<Qp>> {
        self.qp_by_number(qpn)
            .or_else(|| lock(&self.table.carried).get(&qpn).cloned())
    }

    /// The process that takes the packets for a number.
    pub(crate) fn owner_of_packets(&self, qpn: u32) -> Option<ProcessRef> {
        crate::process::numbers::owner_of_packets(&self.process.registry, qpn)
    }

    /// Executes a record for a target queue pair.
    pub(crate) fn receive_extended(
        &self,
        link: &PeerLink,
        ring: &Consumer,
        record: &Record,
        chunk: u64,
    ) -> (Handled, Option<Outcome>) {
        let refuse = |response| (Handled::Answer(response), None);
        let Some(proxy) = self.xrc_target(record.dst_qpn) else {
            return refuse(Response::NotReady);
        };
        let srqs = self
            .targets
            .srqs
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let srq = srqs.get(&srq_number(record)).cloned();
        drop(srqs);
        let Some(srq) = srq.filter(|srq| srq.in_domain(proxy.target.domain)) else {
            return refuse(Response::InvalidRequest);
        };
        let mut recv = lock(&proxy.recv);
        if proxy.load(self, &mut recv).is_none() {
            return refuse(Response::NotReady);
        }
        (recv.pd, recv.recv_pd) = (srq.pd.id, srq.pd.id);
        let mut outcome = Outcome::of_extended(proxy.clone(), srq.clone());
        let mut queue = lock(&srq.queue);
        let handled = recv.handle(self, link, ring, record, &mut queue, chunk, &mut outcome);
        drop(queue);
        proxy.store(self, &recv);
        drop(recv);
        (handled, Some(outcome))
    }

    /// The target's entry as an initiator checks it before it executes a request itself; the protection domain is that of
    /// the shared receive queue and is filled in by the caller.
    pub(crate) fn xrc_entry(&self, qpn: u32) -> Option<QpEntry> {
        let proxy = self.xrc_target(qpn)?;
        let mut recv = lock(&proxy.recv);
        proxy.load(self, &mut recv)?;
        Some(QpEntry {
            qpn,
            receives: true,
            access: recv.access,
            pd: 0,
            dest_qpn: recv.dest_qpn,
            dest_slot: recv.peer_slot,
        })
    }
}

impl Srq {
    /// True for an extended queue of this domain.
    fn in_domain(&self, domain: u64) -> bool {
        self.xrc
            .as_ref()
            .is_some_and(|(xrcd, _)| xrcd.domain.id == domain)
    }
}

/// The state that a handle shows: what it was set to, or error once a request failed anywhere.
pub(crate) fn shown_state(engine: &Engine, proxy: &TargetProxy, set: QpState) -> QpState {
    if proxy.has_failed(engine) && set != QpState::Reset {
        QpState::Err
    } else {
        set
    }
}
