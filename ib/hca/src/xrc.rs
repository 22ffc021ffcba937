//! Extended reliable connections: target queue pairs, which belong to domains, and the shared
//! receive queues of those.
//!
//! A target's state lies in the host's registry, so it outlives the process that made it (IBA A14).
//! Its requests are executed by the process that owns the shared receive queue they name: that
//! process takes the state from the registry, executes, and puts the sequence number back. The
//! initiator never has requests under way to two processes at once.

pub(crate) mod targets;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

pub use ferriband_memory::host::XrcOpen;
use ferriband_memory::host::{XrcDomain, XrcTarget};
use ferriband_transport::direct::layout::QpEntry;
use ferriband_transport::direct::{Receiver, TargetEvent};
use ferriband_transport::types::{Access, QpAttr, QpState};
use ferriband_wire::Qpn;

use crate::base::error::Error;
use crate::lock;
use crate::objects::event::AsyncKind;
use crate::objects::srq::Srq;
use crate::process::process::Process;
use targets::Targets;

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

/// A target queue pair as a program sees it: a handle.
pub(crate) trait Handle: std::fmt::Debug + Send + Sync {
    /// Tells the program of an event.
    fn hear(&self, kind: AsyncKind);

    /// The interface of its device.
    fn ifindex(&self) -> u32;

    /// Fails, and the target with it. False if it does nothing that could fail.
    fn break_down(self: Arc<Self>) -> bool;
}

/// Makes a target queue pair of a domain, with one handle.
///
/// # Errors
/// What the host's registry says.
pub(crate) fn make_target(process: &Process, domain: &XrcDomain) -> Result<u32, Error> {
    let registry = &process.registry;
    let claimed = registry.xrc_tgt_claim(domain)?;
    registry.xrc_tgt_store(&claimed, WORD_HANDLES, 1);
    Ok(registry.xrc_tgt_publish(claimed)?.qpn.0)
}

/// An existing target queue pair of a domain gets a handle more, whoever made it.
///
/// # Errors
/// `Invalid` if the domain has no such target.
pub(crate) fn open_target(process: &Process, domain: &XrcDomain, qpn: u32) -> Result<(), Error> {
    let found = process.registry.xrc_tgt_find(Qpn(qpn));
    let target = found
        .filter(|target| target.domain == domain.id)
        .ok_or(Error::Invalid(
            "the XRC domain has no such target queue pair",
        ))?;
    count_handles(process, &target, 1);
    Ok(())
}

fn count_handles(process: &Process, target: &XrcTarget, by: i64) -> u64 {
    let mut count = process.registry.xrc_tgt_load(target, WORD_HANDLES);
    loop {
        let next = count.saturating_add_signed(by);
        match process
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
    pub(crate) recv: Mutex<Receiver>,
    handles: Mutex<Vec<Weak<dyn Handle>>>,
    /// On packets: the protection domain of the shared receive queue that the last request named.
    packets_pd: AtomicU32,
}

impl TargetProxy {
    /// Its number.
    pub fn qpn(&self) -> u32 {
        self.target.qpn.0
    }

    /// The target's entry as an initiator checks it before it executes a request itself; the
    /// protection domain is that of the shared receive queue and is filled in by the caller.
    pub(crate) fn entry(&self, process: &Process) -> Option<QpEntry> {
        let mut recv = lock(&self.recv);
        self.load(process, &mut recv)?;
        Some(QpEntry {
            qpn: self.qpn(),
            receives: true,
            access: recv.access,
            pd: 0,
            dest_qpn: recv.dest_qpn,
            dest_slot: recv.peer_slot,
        })
    }

    /// This handle hears of the target's failure from now on.
    pub(crate) fn tell(&self, handle: Weak<dyn Handle>) {
        lock(&self.handles).push(handle);
    }

    /// Its domain.
    pub(crate) fn domain(&self) -> u64 {
        self.target.domain
    }

    /// RTR: requests of the peer are accepted from now on.
    pub(crate) fn accept(&self, process: &Process, attr: &QpAttr, peer_slot: u32) {
        let registry = &process.registry;
        let peer = u64::from(attr.dest_qpn.0) | u64::from(peer_slot) << 32;
        registry.xrc_tgt_store(&self.target, WORD_PEER, peer);
        registry.xrc_tgt_store(
            &self.target,
            WORD_SEQUENCE,
            u64::from(attr.rq_psn.get()) | SEQUENCE_FRESH,
        );
        self.set_rights(process, attr);
    }

    /// Rights and timer, with the state: accepting.
    pub(crate) fn set_rights(&self, process: &Process, attr: &QpAttr) {
        let word =
            STATE_RECEIVES | u64::from(attr.min_rnr_timer) << 32 | u64::from(attr.access.bits());
        process
            .registry
            .xrc_tgt_store(&self.target, WORD_STATE, word);
    }

    /// RESET: the next connection may take another wire.
    pub(crate) fn forget_wire(&self, process: &Process) {
        process.registry.xrc_tgt_store(&self.target, WORD_WIRE, 0);
    }

    /// RESET and ERR: requests are no longer accepted.
    pub(crate) fn refuse(&self, process: &Process, failed: bool) {
        process.registry.xrc_tgt_store(
            &self.target,
            WORD_STATE,
            if failed { STATE_FAILED } else { 0 },
        );
    }

    /// True once a request has taken the target to the error state.
    pub(crate) fn has_failed(&self, process: &Process) -> bool {
        process.registry.xrc_tgt_load(&self.target, WORD_STATE) & STATE_FAILED != 0
    }

    /// A handle goes; the target goes with the last one: then true, and who carries it lets go of
    /// it.
    pub(crate) fn release(&self, process: &Process, targets: &Targets) -> bool {
        if count_handles(process, &self.target, -1) == 0 {
            self.refuse(process, false);
            process.registry.xrc_tgt_free(self.target);
            lock(&targets.known).remove(&self.qpn());
            return true;
        }
        false
    }

    /// True if this process made it: then its packets are steered here.
    pub(crate) fn was_made_here(&self, process: &Process) -> bool {
        self.target.creator() == process.registry.me()
    }

    /// True while it takes requests, whoever has a say in that.
    pub(crate) fn accepts(&self, process: &Process) -> bool {
        let registry = &process.registry;
        registry.xrc_tgt_is_current(&self.target)
            && registry.xrc_tgt_load(&self.target, WORD_STATE) & STATE_RECEIVES != 0
    }

    /// A shared receive queue of the domain that this process owns.
    pub(crate) fn srq(&self, targets: &Targets, number: u32) -> Option<Arc<Srq>> {
        targets
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
    pub(crate) fn fail(&self, process: &Process, event: TargetEvent) {
        let kind = match event {
            TargetEvent::AccessError => AsyncKind::QpAccessErr,
            TargetEvent::RequestError => AsyncKind::QpReqErr,
            TargetEvent::Established | TargetEvent::ReceiveError => AsyncKind::QpFatal,
        };
        self.refuse(process, true);
        for handle in self.handles() {
            handle.hear(kind);
        }
    }

    /// Its handles in this process.
    pub(crate) fn handles(&self) -> Vec<Arc<dyn Handle>> {
        let handles = lock(&self.handles);
        handles.iter().filter_map(Weak::upgrade).collect()
    }

    /// Takes the state from the registry. None if the target does not accept.
    pub(crate) fn load(&self, process: &Process, recv: &mut Receiver) -> Option<()> {
        let registry = &process.registry;
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

    pub(crate) fn store(&self, process: &Process, recv: &Receiver) {
        let fresh = if recv.fresh { SEQUENCE_FRESH } else { 0 };
        process.registry.xrc_tgt_store(
            &self.target,
            WORD_SEQUENCE,
            u64::from(recv.expected) | fresh,
        );
    }
}

/// The state that a handle shows: what it was set to, or error once a request failed anywhere.
pub(crate) fn shown_state(process: &Process, proxy: &TargetProxy, set: QpState) -> QpState {
    if proxy.has_failed(process) && set != QpState::Reset {
        QpState::Err
    } else {
        set
    }
}

/// True if a connection to a target of the InfiniBand device, whose initiator wants packets, takes
/// them. Packets reach the shared receive queues of the process that made the target: while others
/// have its domain open the wire is the direct one. Settled by whichever end asks first, for both.
pub(crate) fn takes_packets(process: &Process, qpn: Qpn) -> bool {
    let registry = &process.registry;
    let Some(target) = registry.xrc_tgt_find(qpn) else {
        return true;
    };
    let alone = registry.xrc_domain_members(target.domain) == [target.creator()];
    let wire = if alone { WIRE_PACKETS } else { WIRE_DIRECT };
    let before = registry.xrc_tgt_cas(&target, WORD_WIRE, 0, wire);
    before.map_or_else(|settled| settled, |_| wire) == WIRE_PACKETS
}
