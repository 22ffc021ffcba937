//! Transitions: what each state lets the two halves do, and how memory is taken back from peers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferriband_transport::direct::layout::QpEntry;
use ferriband_transport::direct::mark::Revoked;
use ferriband_transport::direct::{Link, RecvQueue, SendAttr, SendState};
use ferriband_transport::qp_state;
use ferriband_transport::types::{
    Completion, QpAttr, QpAttrMask, QpState, QpType, WcOpcode, WcStatus,
};

use crate::base::error::Error;
use crate::lock;
use crate::objects::catch::Catch;
use crate::objects::event::AsyncKind;
use crate::objects::regions::Quiet;
use crate::qp::Qp;

impl Qp {
    /// Changes attributes and state (I12): a refused call changes nothing.
    ///
    /// # Errors
    /// `Transition`; `Busy` for a reset while a peer is stopped in the middle of an access: the state stays, peers
    /// are refused, and the program may try again.
    pub fn modify(self: &Arc<Self>, new: &QpAttr, mask: QpAttrMask) -> Result<(), Error> {
        let may_send = self.change(&mut lock(&self.attr), new, mask)?;
        if may_send {
            self.drive(&self.adapter, false);
        }
        Ok(())
    }

    /// As [`Qp::modify`], with the attributes locked: transitions of one queue pair follow each
    /// other. True if the direct wire's send half is to be driven.
    pub(super) fn change(
        self: &Arc<Self>,
        attr: &mut QpAttr,
        new: &QpAttr,
        mask: QpAttrMask,
    ) -> Result<bool, Error> {
        let adapter = &self.adapter;
        adapter.check_alive()?;
        let limits = self.limits();
        let without_gid = mask.contains(QpAttrMask::AV) && !new.av.is_global
            || mask.contains(QpAttrMask::ALT_PATH) && !new.alt_av.is_global;
        if without_gid && self.ctx.device.is_ethernet() {
            return Err(Error::Invalid("a path over Ethernet needs a GID"));
        }
        attr.state = self.state();
        self.learn_paths(attr);
        let old = *attr;
        let (from, to) = qp_state::modify(attr, self.qp_type, new, mask, &limits)?;
        let now = *attr;
        if (from, to) == (QpState::Init, QpState::Rtr)
            && self.travels_in_packets(&now.av, now.dest_qpn)
        {
            let ready = match &self.target {
                Some(target) if !target.was_made_here(&adapter.process) => Err(Error::Unsupported(
                    "a connection over packets to an XRC target that another process made: connect it there",
                )),
                _ => adapter.packets_of(&self.ctx.device).map(|_| ()),
            };
            if let Err(error) = ready {
                *attr = old;
                return Err(error);
            }
            self.begin_packets(&old);
        } else if (from, to) == (QpState::Init, QpState::Rtr)
            && matches!(self.qp_type, QpType::Rc | QpType::Uc)
            && let Err(error) = adapter.check_descriptors(now.dest_qpn)
        {
            *attr = old;
            return Err(error);
        }
        if (from, to) == (QpState::Init, QpState::Rtr) {
            // what is known of an earlier connection, of a queue pair of this number
            adapter.ends.forget(self.qpn);
        }
        self.port.store(now.port_num, Ordering::Relaxed);
        let on_packets = self.on_packets.load(Ordering::Acquire);
        if on_packets && (from, to) == (QpState::Rts, QpState::Err) {
            self.look_into_silence();
        }
        if !on_packets {
            self.close_for_datagrams();
        }
        if on_packets && matches!(to, QpState::Reset | QpState::Err) {
            // what the program has seen arrive is acknowledged, or the peer would take it for lost
            self.send_owed(adapter);
        }
        if on_packets
            && to != QpState::Reset
            && let Err(error) = self.modify_packets(new, mask)
        {
            *attr = old;
            if from == QpState::Init {
                self.end_packets();
            }
            return Err(error);
        }
        match (from, to) {
            (_, QpState::Reset) => {
                adapter.stop_carrying(self);
                if let Some(target) = &self.target {
                    target.forget_wire(&adapter.process);
                }
                self.end_packets();
                self.rate_kbps.store(0, Ordering::Release);
                self.reset().inspect_err(|_| *attr = old)?;
            }
            _ if on_packets && to != QpState::Err => {
                self.state.store(to as u32, Ordering::Release);
                if to == QpState::Rtr
                    && let Some(target) = &self.target
                {
                    target.accept(&adapter.process, &now, u32::MAX);
                    adapter.carry(self);
                }
                if self.takes_both_wires() {
                    match (from, to) {
                        (QpState::Init, QpState::Rtr) => self.become_receiver(&now),
                        _ => self.refresh(&now),
                    }
                }
                return Ok(false);
            }
            (_, QpState::Err) => self.enter_error(),
            (_, QpState::Rtr) => self.become_receiver(&now),
            (QpState::Rtr, QpState::Rts) => self.become_sender(&now),
            (_, QpState::Rts) => self.resume(&now, from),
            (QpState::Rts, QpState::Sqd) => self.drain(&now),
            _ => {}
        }
        self.state.store(to as u32, Ordering::Release);
        let of_receiver = QpAttrMask::ACCESS_FLAGS | QpAttrMask::MIN_RNR_TIMER | QpAttrMask::QKEY;
        if to == QpState::Rts && from != QpState::Rtr || mask.intersects(of_receiver) {
            self.refresh(&now);
        }
        Ok(matches!(to, QpState::Rts | QpState::Sqd))
    }

    /// RTR: finds the peer and accepts requests.
    fn become_receiver(&self, attr: &QpAttr) {
        let adapter = &self.adapter;
        let connected = matches!(self.qp_type, QpType::Rc | QpType::Uc);
        let link = if connected && self.reaches_host(&attr.av) {
            adapter.link_to(attr.dest_qpn.0)
        } else {
            None
        };
        if let Some(target) = &self.target {
            let slot = adapter
                .process
                .registry
                .owner_of_qpn(attr.dest_qpn)
                .map_or(u32::MAX, |owner| owner.slot);
            return target.accept(&adapter.process, attr, slot);
        }
        if let Some(link) = &link {
            // what an earlier connection left in the ring is refused now; it must not be taken for this one's
            adapter.hear_out(link);
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
    fn resume(&self, attr: &QpAttr, from: QpState) {
        let mut send = lock(&self.send);
        self.tells_drained.store(false, Ordering::Release);
        if from == QpState::Sqd {
            // time-outs and retries may have been changed there
            let seq = send.sender.attr().seq;
            send.sender.start(SendAttr {
                seq,
                ..send_attr(attr)
            });
        }
        send.sender.set_state(SendState::Running, &mut |_| {});
    }

    /// SQD: what was begun ends. Whoever drives the send half next says that it has, at the latest at the end of the transition.
    fn drain(&self, attr: &QpAttr) {
        let mut send = lock(&self.send);
        self.tells_drained
            .store(attr.en_sqd_async_notify, Ordering::Release);
        send.sender.set_state(SendState::Draining, &mut |_| {});
    }

    /// Attributes that the receiving side and the peers see.
    fn refresh(&self, attr: &QpAttr) {
        if let Some(target) = &self.target {
            if matches!(attr.state, QpState::Rtr | QpState::Rts) {
                target.set_rights(&self.adapter.process, attr);
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
        entry.write(&**self.adapter.process.own, self.index as usize);
    }

    /// Takes the queue pair back from peers: when this returns Ok, none is in the middle of an access by it.
    ///
    /// # Errors
    /// `Busy` if a peer stopped in the middle of an access: it begins no other, but it may end this one.
    fn revoke(&self, failed: bool) -> Result<(), Error> {
        let adapter = &self.adapter;
        if let Some(target) = &self.target {
            target.refuse(&adapter.process, failed);
            return Ok(());
        }
        match failed {
            true => QpEntry::fail(&**adapter.process.own, self.index as usize, self.qpn),
            false => QpEntry::revoke(&**adapter.process.own, self.index as usize),
        }
        adapter.wait_for_marks(Revoked::Qp(self.qpn))
    }

    pub(super) fn reset(&self) -> Result<(), Error> {
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
        self.tells_drained.store(false, Ordering::Release);
        for cq in [&self.send_cq, &self.recv_cq].into_iter().flatten() {
            cq.forget(self.qpn);
        }
        Ok(())
    }

    /// Everything flushes (I11).
    pub(super) fn enter_error(&self) {
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

    pub(super) fn flush_receives(&self) {
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
