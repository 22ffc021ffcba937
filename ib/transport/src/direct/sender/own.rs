//! What this process executes itself: WRITE, READ and atomics on memory that it reaches, and local operations.
//!
//! Owns the check of the peer's tables and the access between the marks. It must not know the ring, but for the word that tells
//! a target of a violation.

use super::*;

impl<L: Link> Sender<L> {
    pub(super) fn local_operation<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        wqe: &Wqe<L>,
    ) -> WcStatus {
        match (wqe.opcode, &wqe.bind) {
            (SendOpcode::LocalInv, _) if host.invalidate(self.pd, self.qpn, wqe.imm) => {
                WcStatus::Success
            }
            (SendOpcode::BindMw, Some(bind)) if host.bind(self.pd, self.qpn, bind) => {
                WcStatus::Success
            }
            _ => wqe.opcode.local_failure(),
        }
    }

    /// The request's own bytes: inline data, or local elements as process addresses.
    #[inline]
    pub(super) fn local<'a, H: Host<Link = L, Seg = L::Seg>>(
        &'a self,
        host: &H,
        slot: usize,
        need: Access,
        into: &'a mut Ranges,
    ) -> Result<Local<'a>, WcStatus> {
        let wqe = &self.wqes[slot];
        if wqe.is_inline() {
            let bytes = &self.inline[slot * self.max_inline..][..wqe.length as usize];
            return Ok(Local::Inline(bytes));
        }
        self.ranges(host, slot, need, into).map(Local::Ranges)
    }

    /// Local elements as process addresses.
    #[inline]
    pub(super) fn ranges<'a, H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        slot: usize,
        need: Access,
        into: &'a mut Ranges,
    ) -> Result<&'a [Sge], WcStatus> {
        let wqe = &self.wqes[slot];
        let from = &self.sges[slot * self.max_sge..][..wqe.sge_count as usize];
        for sge in from {
            let mut to = *sge;
            if sge.length > 0 {
                to.addr = host.local(self.pd, sge, need).ok_or(WcStatus::LocProtErr)?;
            }
            into.push(to);
        }
        Ok(into)
    }

    /// Executes WRITE, READ or an atomic from here.
    #[inline]
    pub(super) fn execute<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        link: &L,
        slot: usize,
        done: u64,
        long: bool,
    ) -> Executed {
        let wqe = &self.wqes[slot];
        let writes = matches!(wqe.opcode, SendOpcode::RdmaWrite | SendOpcode::RdmaWriteImm);
        let need = if writes {
            Access::empty()
        } else {
            Access::LOCAL_WRITE
        };
        let mut buffer = Ranges::new();
        let local = match self.local(host, slot, need, &mut buffer) {
            Ok(local) => local,
            Err(status) => return Executed::Step(Step::Done(status)),
        };
        let length = u64::from(wqe.length);
        if length >= ASYNC_THRESHOLD && !long {
            return Executed::Step(Step::Partial(done));
        }
        if wqe.is_atomic() && length != 8 {
            return Executed::Step(Step::Done(WcStatus::LocLenErr));
        }
        let piece = if length >= ASYNC_THRESHOLD {
            host.chunk_bytes().min(length - done)
        } else {
            length
        };
        let mark = host.claim_mark();
        mark::publish(host.own(), mark, link.slot(), wqe.rkey, self.attr.dest_qpn);
        let outcome = self.access(host, link, wqe, local, done, piece);
        mark::clear(host.own(), mark);
        host.release_mark(mark);
        Executed::Step(match outcome {
            Accessed::Moved if done + piece < length => Step::Partial(done + piece),
            Accessed::Moved => Step::Done(WcStatus::Success),
            // an unreliable connection hears nothing of what happens at the target
            Accessed::Refused(_) | Accessed::Lost if self.qp_type == QpType::Uc => {
                Step::Done(WcStatus::Success)
            }
            Accessed::Refused(status) => {
                self.report_violation(link, wqe, status);
                Step::Done(status)
            }
            Accessed::Lost => Step::Lost,
            Accessed::ByTarget => return Executed::ByTarget,
        })
    }

    /// Tells the target what its own responder would have found (the same end on every wire: IBA 9.9.3). Without
    /// room in the ring the target is not told; its queue pair then ends with the next request that it refuses.
    #[cold]
    pub(super) fn report_violation(&self, link: &L, wqe: &Wqe<L>, status: WcStatus) {
        let imm = match status {
            WcStatus::RemAccessErr => 0,
            WcStatus::RemInvReqErr => 1,
            _ => return,
        };
        let mut tx = link.tx();
        let Some(place) = tx.reserve(0) else { return };
        let record = Record {
            kind: Kind::Violation,
            flags: RecordFlags::LAST,
            dst_qpn: self.attr.dest_qpn,
            src_qpn: self.qpn,
            seq: self.seq.get() | (wqe.remote_key & 0xff_0000) << 8,
            length: 0,
            imm,
            key: 0,
            addr: 0,
            arg: 0,
            data: 0,
            extra: wqe.remote_key as u16,
        };
        tx.publish(link.pair(), place, &record, NO_OWNER);
        drop(tx);
        link.ring_doorbell();
    }

    /// The peer queue pair's entry in its table, if it takes requests from this one.
    #[inline]
    pub(super) fn target<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        link: &L,
        wqe: &Wqe<L>,
    ) -> Option<QpEntry> {
        if self.qp_type == QpType::XrcSend {
            // the target's state is its domain's; its memory is that of the shared receive queue's protection domain
            let qp = host.extended_target(self.attr.dest_qpn)?;
            let connected = qp.dest_qpn == self.qpn && qp.dest_slot == host.slot();
            return (qp.receives && connected).then_some(QpEntry {
                pd: wqe.remote_qpn,
                ..qp
            });
        }
        let index = match self.dest_index.get() {
            Some(index) => index,
            None => {
                let index = layout::find_qp(link.table(), self.attr.dest_qpn)?;
                self.dest_index.set(Some(index));
                index
            }
        };
        let qp = QpEntry::read(link.table(), index as usize)?;
        let connected = qp.dest_qpn == self.qpn && qp.dest_slot == host.slot();
        (qp.receives && connected && qp.qpn == self.attr.dest_qpn).then_some(qp)
    }

    /// The access itself, between the marks: first the peer's word on queue pair and key, then the bytes.
    #[inline]
    pub(super) fn access<H: Host<Link = L, Seg = L::Seg>>(
        &self,
        host: &H,
        link: &L,
        wqe: &Wqe<L>,
        local: Local<'_>,
        done: u64,
        piece: u64,
    ) -> Accessed {
        let Some(qp) = self.target(host, link, wqe) else {
            return Accessed::Lost;
        };
        let need = match wqe.opcode {
            SendOpcode::RdmaWrite | SendOpcode::RdmaWriteImm => Access::REMOTE_WRITE,
            SendOpcode::RdmaRead => Access::REMOTE_READ,
            _ => Access::REMOTE_ATOMIC,
        };
        // an operation that the queue pair does not offer is an invalid request, whatever the key says
        if !qp.access.contains(need) {
            return Accessed::Refused(WcStatus::RemInvReqErr);
        }
        if wqe.length == 0 {
            return Accessed::Moved;
        }
        if wqe.is_atomic() && !wqe.remote_addr.is_multiple_of(8) {
            return Accessed::Refused(WcStatus::RemInvReqErr);
        }
        let refused = Accessed::Refused(WcStatus::RemAccessErr);
        let Some(key) = KeyEntry::read(link.table(), wqe.rkey) else {
            return refused;
        };
        let Some(offset) = key.offset_of(wqe.remote_addr, u64::from(wqe.length)) else {
            return refused;
        };
        let scoped = key.only_qp == 0 || key.only_qp == qp.qpn + 1;
        if !key.access.contains(need) || key.pd != qp.pd || !scoped {
            return refused;
        }
        let span = RemoteSpan {
            addr: key.addr.wrapping_add(offset),
            map_id: key.map_id,
            map_offset: key.map_offset.wrapping_add(offset),
        }
        .advanced(done);
        let moved = match need {
            Access::REMOTE_WRITE => match local {
                Local::Inline(bytes) => host.remote_put(link, span, bytes),
                Local::Ranges(ranges) => host.remote_write(link, span, ranges, done, piece),
            },
            Access::REMOTE_READ => host.remote_read(link, span, local.as_ranges(), done, piece),
            _ => {
                let op = match wqe.opcode {
                    SendOpcode::CmpSwap => AtomicOp::CompareSwap(wqe.compare_add, wqe.swap),
                    _ => AtomicOp::FetchAdd(wqe.compare_add),
                };
                let Some(value) = host.remote_atomic(link, span, op) else {
                    return Accessed::ByTarget;
                };
                host.put(&value.to_ne_bytes(), local.as_ranges(), 0);
                Ok(())
            }
        };
        match moved {
            Ok(()) => Accessed::Moved,
            Err(Fault::Gone) => Accessed::Lost,
            Err(Fault::Forbidden) => Accessed::ByTarget,
            Err(Fault::LocalUnmapped) => Accessed::Refused(WcStatus::LocProtErr),
            Err(Fault::RemoteUnmapped) => Accessed::Refused(WcStatus::RemOpErr),
        }
    }
}
