//! Queue pairs: what one is made of. Creation, transitions, sending, receiving and multicast groups lie in files of their own.
//!
//! Owns what a queue pair is made of and the order of its locks: attributes, then send half, then receive half, then
//! receive queue, then completion queue. Must not know how records travel.

pub(crate) mod adapter;
mod create;
mod deliver;
pub(crate) mod env;
mod fault;
mod groups;
mod host;
mod links;
mod modify;
pub(crate) mod packets;
mod quiet;
mod receive;
mod report;
mod send;
pub(crate) mod serve;
pub(crate) mod table;
mod target;
pub(crate) mod wires;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ferriband_transport::direct::{Receiver, RecvQueue};
use ferriband_transport::types::{QpAttr, QpCap, QpState, QpType, SendFlags, SendOpcode, Sge};

use ferriband_wire::{Gid, Lid};

use crate::base::error::Error;
use crate::objects::ah::Ah;
use crate::objects::cq::Cq;
use crate::objects::domain::Domain;
use crate::objects::event::AsyncKind;
use crate::objects::open::OpenDevice;
use crate::objects::srq::Srq;
use crate::objects::xrcd::Xrcd;
use crate::xrc::{Handle, TargetProxy, shown_state};
use crate::{FastMutex, lock};

use adapter::Adapter;
pub(crate) use receive::Outcome;
use send::SendHalf;

/// The channel to a peer, as queue pairs know it.
pub type PeerLink = crate::process::peer::PeerLink<Qp>;

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

/// Index of a queue pair that has no place in the process's table.
const NO_INDEX: u32 = u32::MAX;

/// A queue pair.
#[derive(Debug)]
pub struct Qp {
    /// It goes before the device does, which keeps its loop alive.
    pub(crate) adapter: Arc<Adapter>,
    /// The device, as it was opened.
    pub ctx: Arc<OpenDevice>,
    /// Its protection domain; None for an XRC target.
    pub pd: Option<Arc<Domain>>,
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
    /// The program waits for SQ_DRAINED. On packets the machine remembers it.
    tells_drained: AtomicBool,
    /// Multicast groups that it is attached to.
    groups: Mutex<Vec<(Gid, Lid)>>,
    /// Its wire is packets: the machine below has both halves, those of the direct wire rest.
    pub(crate) on_packets: AtomicBool,
    packets: FastMutex<Option<Box<packets::PacketSide>>>,
    /// What the program allows its packets, in kbit/s; 0: everything.
    rate_kbps: AtomicU32,
    /// The port that its packets go by: partition keys are a port's.
    port: AtomicU8,
    /// When the timer is set to go off for its packets.
    armed_at: AtomicU64,
    /// An XRC target: its state is the domain's.
    pub(crate) target: Option<Arc<TargetProxy>>,
}

impl Qp {
    /// The state that a program sees. Whoever completes a request in error holds a lock until the
    /// state is set, too.
    pub fn state(&self) -> QpState {
        drop(lock(&self.send));
        drop(lock(&self.packets));
        self.state_now()
    }

    /// The port that it uses; 0 in RESET.
    #[inline]
    pub(crate) fn port(&self) -> u8 {
        self.port.load(Ordering::Relaxed)
    }

    /// The state, which another thread may be about to change.
    #[inline]
    pub(crate) fn state_now(&self) -> QpState {
        let set = state_of(self.state.load(Ordering::Acquire));
        match &self.target {
            Some(target) => shown_state(&self.adapter.process, target, set),
            None => set,
        }
    }

    /// Its attributes. The sequence numbers are those of the next packet.
    pub fn query(&self) -> QpAttr {
        let mut attr = *lock(&self.attr);
        if let Some(mut of_packets) = self.query_packets() {
            of_packets.rate_limit = self.rate_kbps.load(Ordering::Acquire);
            return of_packets;
        }
        attr.state = self.state();
        attr.cur_state = attr.state;
        attr.sq_draining = attr.state == QpState::Sqd && !lock(&self.send).sender.drained();
        attr
    }

    /// True if its wire is packets.
    pub(crate) fn is_on_packets(&self) -> bool {
        self.on_packets.load(Ordering::Acquire)
    }

    fn raise(&self, kind: AsyncKind) {
        self.ctx.raise(kind, self.cookie.load(Ordering::Acquire));
    }

    /// Queues a receive.
    #[inline]
    pub fn post_recv(&self, wr_id: u64, sges: &[Sge]) -> Result<(), Error> {
        self.adapter.check_alive()?;
        if self.srq.is_some() || matches!(self.qp_type, QpType::XrcSend | QpType::XrcRecv) {
            return Err(Error::Invalid(
                "the queue pair has no receive queue of its own",
            ));
        }
        match self.state_now() {
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
    /// `Busy` while it is attached to a multicast group, and then nothing has changed; and while a peer is stopped in the middle of
    /// an access: peers are refused, and the program may try again.
    pub fn destroy(self: &Arc<Self>) -> Result<(), Error> {
        let adapter = &self.adapter;
        adapter.check_alive()?;
        if self.is_attached() {
            return Err(Error::Busy(
                "the queue pair is attached to a multicast group: detach it first",
            ));
        }
        match &self.target {
            // other processes may go on with it
            Some(target) => {
                self.send_owed(adapter);
                if target.release(&adapter.process, &adapter.targets) {
                    adapter.drop_carried(|qp| qp.qpn == target.qpn());
                }
            }
            None => {
                self.send_owed(adapter);
                // after this it is in RESET, where nothing raises events of it
                let attr = lock(&self.attr);
                self.end_packets();
                self.reset()?;
                self.state.store(QpState::Reset as u32, Ordering::Release);
                drop(attr);
                adapter.remove_qp(self);
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
            adapter.release_qpn(self.index, lock(&self.send).sender.incarnation());
        }
        Ok(())
    }
}

impl Handle for Qp {
    fn hear(&self, kind: AsyncKind) {
        self.raise(kind);
    }

    fn ifindex(&self) -> u32 {
        self.ctx.device.info.ifindex
    }

    fn break_down(self: Arc<Self>) -> bool {
        Qp::break_down(&self, true)
    }
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
