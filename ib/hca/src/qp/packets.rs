//! A queue pair whose wire is packets: the transport's machine, its path, and what it owes the program.
//!
//! Owns the machine and the order in which what it says becomes visible: packets are on their way before the program hears of
//! completions, and a send's completion is told before a receive's. Must not know sockets.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferriband_fork::PerProcess;
use ferriband_memory::host::BlockKind;
use ferriband_transport::direct::{self, TargetEvent};
use ferriband_transport::qp_state::QpLimits;
use ferriband_transport::types::{
    AddressVector, Completion, Instant, QpAttr, QpAttrMask, QpState, QpType, Sge,
};
use ferriband_transport::{
    AnswerDue, CompletionTarget, HoldBudget, QpConfig, QpCounters, QpEvent, QueuePair, Tuning,
};
use ferriband_wire::{Packet, Qpn};

use crate::base::error::Error;
use crate::base::{incident, limits};
use crate::device::pace;
use crate::lock;
use crate::objects::catch::Catch;
use crate::objects::event::AsyncKind;
use crate::qp::Qp;
use crate::qp::adapter::Adapter;
use crate::wire::packets::path::TxPath;
use crate::wire::packets::{handling, run};
use crate::xrc::{self, TargetProxy};

pub(crate) use self::incoming::Incoming;
use self::migrate::{Sender, Ways};
use self::transmit::TURN_PACKETS;
use self::wait::Wait;

mod asking;
pub(super) mod incoming;
mod migrate;
mod owed;
mod patience;
mod post;
mod report;
mod transmit;
mod wait;

/// What all queue pairs of a process may keep behind gaps: a few dozen windows.
static HOLD: PerProcess<HoldBudget> = PerProcess::new(|| HoldBudget::new(64 << 20));

/// Why packets are let go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// A program posted.
    Posted,
    /// Packets came, to a program that polls, which will come back soon.
    Polled,
    /// Packets came to the thread, a timer went off, an idle round: everything goes.
    Due,
}

/// What the machine does not see, counted.
#[derive(Clone, Copy, Debug, Default)]
struct Oddities {
    strangers: u64,
    notices_in: u64,
    notices_out: u64,
    marked: u64,
}

/// The packet side of a queue pair.
#[derive(Debug)]
pub(crate) struct PacketSide {
    machine: QueuePair,
    /// The connection's path, made anew after each change of attributes.
    path: Option<TxPath>,
    /// Its other path, and whom packets come from by both.
    ways: Ways,
    /// The last datagram's path.
    datagram: Option<(AddressVector, u32, TxPath)>,
    /// A packet came that a switch had marked; when the peer was last told of such.
    marked: bool,
    notified_at: u64,
    /// More came than requests since the last turn: this side's own may move.
    stirred: bool,
    /// Packets from somebody else than the peer; notices of congestion, received and sent; packets that had met it.
    oddities: Oddities,
    /// What the port's counters have of this queue pair's.
    published: report::Counts,
    /// When packets wait, and for what.
    wait: Wait,
    scratch: Vec<Sge>,
    sums: Vec<u32>,
    told: Vec<(CompletionTarget, Completion, u64)>,
    places: post::Places,
}

/// Takes the machine's completions, each with the number of sends that are over with it.
fn gather(machine: &mut QueuePair, told: &mut Vec<(CompletionTarget, Completion, u64)>) {
    while let Some((target, completion)) = machine.poll_completion() {
        told.push((target, completion, machine.sends().0));
    }
}

impl Qp {
    /// The wire was found to be packets: makes the machine in the state that the queue pair is in, INIT.
    pub(super) fn begin_packets(&self, attr: &QpAttr) {
        *lock(&self.packets) = Some(self.new_packets(attr));
        self.on_packets.store(true, Ordering::Release);
    }

    fn new_packets(&self, attr: &QpAttr) -> Box<PacketSide> {
        let config = QpConfig {
            qpn: Qpn(self.qpn),
            qp_type: self.qp_type,
            cap: self.cap,
            // receives stay in the queue that post_recv knows
            shared_receive: true,
            signal_all: self.signal_all,
            limits: self.limits(),
            tuning: Tuning {
                datagram_mtu: self.ctx.device.port().mtu.bytes(),
                timeout_floor_ns: patience::TIMEOUT_FLOOR_NS,
                hold: Some(HOLD.get()),
                list_gaps: true,
                ..Tuning::default()
            },
        };
        Box::new(PacketSide {
            machine: QueuePair::in_init(config, attr),
            path: None,
            ways: Ways::default(),
            datagram: None,
            marked: false,
            notified_at: 0,
            stirred: false,
            wait: Wait::default(),
            oddities: Oddities::default(),
            published: report::Counts::default(),
            scratch: Vec::with_capacity(limits::MAX_SGE as usize),
            sums: Vec::new(),
            told: Vec::with_capacity(16),
            places: post::Places::new(self.cap.max_send_wr),
        })
    }

    /// Datagrams of the InfiniBand device may come by either wire, whichever their own sender takes.
    pub(crate) fn takes_both_wires(&self) -> bool {
        self.is_datagram() && !self.ctx.device.is_ethernet()
    }

    /// Before a packet is taken: a datagram queue pair that sends by the direct wire gets a machine that receives. It knows nothing
    /// but the attributes, so it is made anew after each change of them.
    pub(crate) fn open_for_datagrams(&self) {
        if !self.takes_both_wires() || self.on_packets.load(Ordering::Acquire) {
            return;
        }
        // one that is changing at this moment, by somebody who may wait for us, loses the datagram
        let Ok(attr) = self.attr.try_lock() else {
            return;
        };
        let receives = matches!(
            self.state_now(),
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe
        );
        let mut guard = lock(&self.packets);
        if !receives || guard.is_some() {
            return;
        }
        let mut side = self.new_packets(&QpAttr {
            state: QpState::Init,
            ..*attr
        });
        let ready = QpAttr {
            state: QpState::Rtr,
            ..*attr
        };
        if side.machine.modify(&ready, QpAttrMask::STATE).is_ok() {
            *guard = Some(side);
        }
    }

    /// Attributes change: what was made by the old ones goes.
    pub(super) fn close_for_datagrams(&self) {
        if self.takes_both_wires() {
            self.end_machine();
        }
    }

    /// Bounds of attribute values on this device.
    pub(super) fn limits(&self) -> QpLimits {
        let port = self.ctx.device.port();
        QpLimits {
            gids: if self.ctx.device.is_ethernet() {
                port.gid_table as u16
            } else {
                1
            },
            max_mtu: port.mtu,
            pkeys: port.pkey_table as u16,
            ports: self.ctx.device.ports(),
            ..QpLimits::default()
        }
    }

    /// Applies a change that the state table has accepted.
    ///
    /// # Errors
    /// A path that leads nowhere: nothing was changed.
    pub(super) fn modify_packets(
        self: &Arc<Self>,
        new: &QpAttr,
        mask: QpAttrMask,
    ) -> Result<(), Error> {
        let adapter = &*self.adapter;
        let roce = adapter.packets_of(&self.ctx.device)?;
        let _handling = handling();
        let mut guard = lock(&self.packets);
        let Some(side) = guard.as_deref_mut() else {
            return Ok(());
        };
        let paths = self.new_paths(&roce.ports, side, new, mask)?;
        if side.wait.keeps_acknowledgement() {
            // what was taken is acknowledged before the queue pair stops: nobody would after it
            self.turn(adapter, side, Turn::Due, &mut Catch::nobody());
        }
        side.machine.modify(new, mask)?;
        side.take_paths(paths);
        self.follow_paths(side);
        if mask.contains(QpAttrMask::PATH_MTU) {
            side.machine
                .set_window(roce.window(self.ctx.device.is_ethernet()));
        }
        self.set_pace(side);
        self.turn(adapter, side, Turn::Due, &mut Catch::nobody());
        Ok(())
    }

    /// Limits of the program, of the path and of the device.
    fn set_pace(&self, side: &mut PacketSide) {
        let device = &self.ctx.device;
        let path = match side.machine.query().av.static_rate {
            0 => 0,
            code => pace::static_rate_kbps(code, device.port().speed_mbps),
        };
        let own = u64::from(self.rate_kbps.load(Ordering::Acquire));
        side.wait.pace.set(
            pace::least(own, path).unwrap_or(0),
            device.info.settings.rate_kbps.unwrap_or(0),
        );
    }

    /// Limits how fast packets go, in kbit/s; 0 takes the limit away.
    ///
    /// # Errors
    /// `Unsupported` where no packets go, `Invalid` before RTS.
    pub fn limit_rate(self: &Arc<Self>, kbps: u32) -> Result<(), Error> {
        let adapter = &*self.adapter;
        adapter.check_alive()?;
        if !matches!(self.state_now(), QpState::Rts | QpState::Sqd) {
            return Err(Error::Invalid("a rate is limited in RTS"));
        }
        let _handling = handling();
        let mut guard = lock(&self.packets);
        let side = guard.as_deref_mut().ok_or(Error::Unsupported(
            "the direct wire has no packets to hold back",
        ))?;
        self.rate_kbps.store(kbps, Ordering::Release);
        self.set_pace(side);
        self.turn(adapter, side, Turn::Due, &mut Catch::nobody());
        Ok(())
    }

    /// True if its receives begin with the network header.
    pub(crate) fn is_datagram(&self) -> bool {
        self.qp_type == QpType::Ud
    }

    /// Packets from `source` for this queue pair come in: what `run` hands to
    /// [`crate::wire::to::Incoming::take`], all under one lock. What they bring
    /// is told by [`Qp::turn_packets`], soon. Without a machine nothing runs.
    ///
    /// `together` says that the sender is known to take what comes together together: a request, and behind it the acknowledgement of
    /// what the peer had sent before. Any peer may be sent that (IBA 9.7.5 orders responses among themselves), but to one that handles and tells
    /// packet by packet the reply comes before the completion of what it replies to, and perftest 4.5's `-e` then waits for ever. Until it is
    /// known, an acknowledgement goes first, in a datagram of its own.
    pub(crate) fn packets_in(
        self: &Arc<Self>,
        adapter: &Adapter,
        now: Instant,
        (source, together): (IpAddr, bool),
        run: impl FnOnce(&mut Incoming<'_>),
    ) {
        let mut guard = lock(&self.packets);
        let Some(side) = guard.as_deref_mut() else {
            return;
        };
        let from = match side.ways.is_usual(source) || self.is_datagram() {
            true => Sender::Peer,
            false => self.look_at_source(side, source),
        };
        let stranger = from == Sender::Stranger;
        if together && !stranger {
            side.wait.may_go_together();
        }
        run(&mut Incoming {
            stranger,
            lost: None,
            qp: self,
            adapter,
            now,
            side,
            region: None,
        });
        if from == Sender::Watched {
            self.follow_paths(side);
        }
    }

    /// After a batch of packets: answers, requests, completions, events, the timer. True if an acknowledgement is kept back, which
    /// the next idle round has to send.
    pub(crate) fn turn_packets(self: &Arc<Self>, adapter: &Adapter, catch: &mut Catch<'_>) -> bool {
        let _handling = handling();
        let mut guard = lock(&self.packets);
        let Some(side) = guard.as_deref_mut() else {
            return false;
        };
        let why = if catch.somebody_polls() {
            Turn::Polled
        } else {
            Turn::Due
        };
        self.turn(adapter, side, why, catch);
        side.wait.keeps_acknowledgement()
    }

    /// The timer, or work that was left.
    pub(super) fn drive_packets(self: &Arc<Self>, adapter: &Adapter) -> bool {
        // what is late is judged by the time until which packets were looked at
        let judged = adapter
            .opened_roce()
            .map_or(Instant(0), |roce| roce.caught_up_at());
        let _handling = handling();
        let mut guard = lock(&self.packets);
        let Some(side) = guard.as_deref_mut() else {
            return false;
        };
        self.armed_at.store(u64::MAX, Ordering::Release);
        if side.machine.handle_timeout(judged) {
            patience::end_try(&mut side.machine, judged);
        }
        self.follow_paths(side);
        self.add_to_port(side);
        self.turn(adapter, side, Turn::Due, &mut Catch::nobody())
    }

    /// Lets go of everything that the machine has to say. True if anything moved.
    fn turn(
        self: &Arc<Self>,
        adapter: &Adapter,
        side: &mut PacketSide,
        why: Turn,
        catch: &mut Catch<'_>,
    ) -> bool {
        let now = ferriband_memory::wait::now();
        side.stirred = false;
        if side.machine.is_unheard()
            && let Some(path) = &side.path
        {
            path.doubt();
        }
        if side.marked {
            self.notify(side, now);
        }
        // whoever hears of a failure by the packets that follow finds this side's state changed
        let failed = self.follow_state(adapter, side);
        let due = side.machine.answer_due() == AnswerDue::Ack;
        side.wait.begin(why, due, now.0);
        let sent = run::with_run(|run| self.transmit(adapter, side, now, run));
        if sent == TURN_PACKETS {
            adapter.schedule(self);
        }
        gather(&mut side.machine, &mut side.told);
        let moved = sent > 0 || !side.told.is_empty();
        self.tell(adapter, side, catch);
        while let Some(event) = side.machine.poll_event() {
            self.packet_event(adapter, event);
        }
        if self.follow_state(adapter, side) || failed {
            match self.on_packets.load(Ordering::Acquire) {
                true => self.flush_receives(),
                // a datagram queue pair that sends by the direct wire
                false => self.enter_error(),
            }
        }
        let timeout = side.machine.poll_timeout().map(|Instant(at)| at);
        let due = timeout.into_iter().chain(side.wait.until()).min();
        if let Some(at) = due
            && at < self.armed_at.load(Ordering::Acquire)
        {
            self.armed_at.store(at, Ordering::Release);
            adapter.set_timer(self, at);
        }
        moved
    }

    /// Completions to their queues: those of sends first, so that nobody hears of a reply before its own send has completed.
    fn tell(&self, adapter: &Adapter, side: &mut PacketSide, catch: &mut Catch<'_>) {
        if side.told.is_empty() {
            return;
        }
        for sends in [true, false] {
            for (target, completion, over) in &side.told {
                if (*target == CompletionTarget::Send) != sends {
                    continue;
                }
                match target {
                    CompletionTarget::Send => {
                        if incident::explains(completion.status) {
                            // before the program hears of it: it may end at once
                            self.packets_failed(side, completion);
                        }
                        if let Some(cq) = &self.send_cq {
                            let place = cq.push_or_hand(completion, catch);
                            side.places.told(*over, place);
                        }
                    }
                    CompletionTarget::Recv => {
                        if let Some(cq) = &self.recv_cq {
                            cq.push_or_hand(completion, catch);
                        }
                    }
                    CompletionTarget::XrcSrq(number) => {
                        if let Some(srq) = adapter.targets.srq_by_number(*number)
                            && let Some((_, cq)) = &srq.xrc
                        {
                            cq.push_or_hand(completion, catch);
                        }
                    }
                }
            }
        }
        side.told.clear();
    }

    /// Before a packet of an XRC target: it works in the protection domain of the shared receive queue that it names. False if it is
    /// not to be taken (now).
    #[cold]
    fn enter_domain(
        self: &Arc<Self>,
        adapter: &Adapter,
        side: &mut PacketSide,
        target: &TargetProxy,
        packet: &Packet<'_>,
    ) -> bool {
        let number = packet.ext().xrceth.map(|eth| eth.xrc_srq);
        let pd = number
            .and_then(|number| target.srq(&adapter.targets, number))
            .map_or(0, |srq| srq.pd.id);
        if pd != target.packets_pd() && side.machine.answer_due() == AnswerDue::More {
            // what was asked for in the other domain is read there
            self.turn(adapter, side, Turn::Due, &mut Catch::nobody());
            if side.machine.answer_due() == AnswerDue::More {
                return false;
            }
        }
        target.set_packets_pd(pd);
        target.accepts(&adapter.process)
    }

    fn packet_event(&self, adapter: &Adapter, event: QpEvent) {
        if let Some(target) = &self.target {
            // it has handles in other places, which hear of errors alone
            let failed = match event {
                QpEvent::QpFatal => TargetEvent::ReceiveError,
                QpEvent::QpReqErr => TargetEvent::RequestError,
                QpEvent::QpAccessErr => TargetEvent::AccessError,
                _ => return,
            };
            return target.fail(&adapter.process, failed);
        }
        match event {
            QpEvent::CommEst => self.raise(AsyncKind::CommEst),
            QpEvent::SqDrained => self.raise(AsyncKind::SqDrained),
            QpEvent::QpFatal => self.raise(AsyncKind::QpFatal),
            QpEvent::QpReqErr => self.raise(AsyncKind::QpReqErr),
            QpEvent::QpAccessErr => self.raise(AsyncKind::QpAccessErr),
            QpEvent::PathMig => self.raise(AsyncKind::PathMig),
            QpEvent::PathMigErr => self.raise(AsyncKind::PathMigErr),
            QpEvent::LastWqeReached if self.srq.is_some() => {
                if !self.last_wqe.swap(true, Ordering::AcqRel) {
                    self.raise(AsyncKind::QpLastWqeReached);
                }
            }
            // the machine takes every receive from a queue that it shares with us
            QpEvent::LastWqeReached => {}
        }
    }

    /// The machine goes to the error states by itself. True if it has gone to ERR: receives are to be flushed, behind what the
    /// machine has completed.
    #[inline]
    fn follow_state(&self, adapter: &Adapter, side: &PacketSide) -> bool {
        let state = side.machine.state();
        matches!(state, QpState::Err | QpState::Sqe) && self.follow_error(adapter, state)
    }

    #[cold]
    fn follow_error(&self, adapter: &Adapter, state: QpState) -> bool {
        if let Some(target) = &self.target
            && state == QpState::Err
            && target.accepts(&adapter.process)
        {
            target.refuse(&adapter.process, true);
        }
        if state == self.state_now() {
            return false;
        }
        self.state.store(state as u32, Ordering::Release);
        state == QpState::Err
    }

    /// Takes a receive of the queue pair's own queue.
    pub(crate) fn take_receive(&self, into: &mut Vec<Sge>) -> Option<direct::RecvWqe> {
        lock(&self.rq).take(into)
    }

    /// Attributes as the machine has them.
    pub(super) fn query_packets(&self) -> Option<QpAttr> {
        if !self.is_on_packets() {
            return None;
        }
        lock(&self.packets)
            .as_deref()
            .map(|side| side.machine.query())
    }

    /// What it has done on packets; None on another wire.
    pub fn packet_counters(&self) -> Option<QpCounters> {
        lock(&self.packets)
            .as_deref()
            .map(|side| side.machine.counters())
    }

    /// True if what goes to this path and queue pair goes in packets. Both sides come to the same answer without talking: it
    /// depends on where the other is and on the kinds of both numbers.
    pub(super) fn travels_in_packets(&self, av: &AddressVector, dest: Qpn) -> bool {
        let device = &self.ctx.device;
        let registry = &self.adapter.process.registry;
        if !device.is_ethernet() {
            if crate::device::fabric::host().is_some() && !device.is_local(av) {
                // nothing else leads to another host of a fabric, whose numbers may be ours as well
                return true;
            }
            let in_packets = |qpn| registry.kind_of_qpn(qpn) == Some(BlockKind::Packets);
            let adapter = &self.adapter;
            return match self.qp_type {
                QpType::XrcSend => {
                    in_packets(Qpn(self.qpn)) && xrc::takes_packets(&adapter.process, dest)
                }
                QpType::XrcRecv => {
                    in_packets(dest) && xrc::takes_packets(&adapter.process, Qpn(self.qpn))
                }
                _ => in_packets(Qpn(self.qpn)) || device.is_local(av) && in_packets(dest),
            };
        }
        // an XRC target takes the wire that its initiator's number stands for
        let directly = |qpn| match registry.kind_of_qpn(qpn) {
            Some(kind) => kind == BlockKind::Auto,
            None => registry.xrc_tgt_find(qpn).is_some(),
        };
        !(directly(Qpn(self.qpn)) && device.is_local(av) && directly(dest))
    }

    /// The machine ends: no packet is handled any more when this returns.
    pub(crate) fn end_packets(&self) {
        if self.on_packets.swap(false, Ordering::AcqRel) || self.takes_both_wires() {
            self.end_machine();
        }
    }

    fn end_machine(&self) {
        let ended = lock(&self.packets).take();
        if let Some(mut side) = ended {
            self.add_to_port(&mut side);
        }
    }

    /// Waits until nobody is in the middle of one of this queue pair's packets.
    pub(crate) fn wait_for_packets(&self) {
        if self.on_packets.load(Ordering::Acquire) {
            drop(lock(&self.packets));
        }
    }
}
