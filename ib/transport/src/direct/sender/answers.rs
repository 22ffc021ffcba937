//! What becomes of requests: answers, tries anew, death of the peer, completions in order.

use super::*;

impl<L: Link> Sender<L> {
    /// The target's answer to the oldest unanswered record of this queue pair; `pair` holds the payload of a READ.
    pub fn answered<H: Host<Link = L, Seg = L::Seg>>(
        &mut self,
        host: &H,
        pair: &L::Seg,
        answer: Answered,
        now: impl Fn() -> Instant,
        sink: &mut impl Sink,
    ) {
        if answer.owner != self.owner() || self.in_ring.get() == 0 {
            return;
        }
        self.in_ring.set(self.in_ring.get() - 1);
        if self.recovery.is_some() || self.state == SendState::Flushing {
            return;
        }
        let slot = self.slot(self.head);
        let response = match answer.response {
            // an unreliable connection hears nothing; what could not be read is lost, the next goes through the ring
            response if self.qp_type == QpType::Uc => {
                self.no_pull |= response == Response::CannotPull;
                Response::Ok(0)
            }
            response => response,
        };
        let status = match response {
            Response::Ok(value) => match self.executed(host, pair, slot, value, answer.data_at) {
                Some(status) => status,
                None => return,
            },
            Response::Rnr(code) => {
                // it lives
                self.lost_since = None;
                let until = now().plus_ns(rnr_timer_ns(code));
                match self.rnr_left {
                    0 => WcStatus::RnrRetryExcErr,
                    left => {
                        if left < 7 {
                            self.rnr_left = left - 1;
                        }
                        return self.go_back(answer.seq, until);
                    }
                }
            }
            Response::Sequence | Response::NotReady => {
                let now = now();
                self.go_back(answer.seq, now);
                return self.lost(now, sink);
            }
            Response::CannotPull => {
                self.no_pull = true;
                return self.go_back(answer.seq, now());
            }
            Response::InvalidRequest => WcStatus::RemInvReqErr,
            Response::RemoteAccess => WcStatus::RemAccessErr,
            Response::RemoteOperation => WcStatus::RemOpErr,
        };
        self.wqes[slot].progress = Progress::Done(status);
        if self.next == self.head {
            self.next += 1;
        }
        if status == WcStatus::Success {
            self.progressed();
        }
        self.complete(sink);
    }

    /// A record of the oldest request was executed. Its status once that was the last.
    pub(super) fn executed<H: Host<Link = L, Seg = L::Seg>>(
        &mut self,
        host: &H,
        pair: &L::Seg,
        slot: usize,
        value: u64,
        data_at: usize,
    ) -> Option<WcStatus> {
        let wqe = &self.wqes[slot];
        if wqe.opcode == SendOpcode::RdmaRead || wqe.is_atomic() {
            let mut buffer = Ranges::new();
            let ranges = match self.ranges(host, slot, Access::LOCAL_WRITE, &mut buffer) {
                Ok(ranges) => ranges,
                Err(status) => return Some(status),
            };
            if wqe.is_atomic() {
                host.put(&value.to_ne_bytes(), ranges, 0);
            } else if wqe.length > 0 {
                let skip = u64::from(wqe.answered) * INLINE_THRESHOLD;
                let len = (u64::from(wqe.length) - skip).min(INLINE_THRESHOLD);
                host.scatter(pair, data_at, ranges, skip, len);
            }
        }
        let wqe = &mut self.wqes[slot];
        wqe.answered += 1;
        (wqe.progress == Progress::InRing && wqe.answered == wqe.pushed.get())
            .then_some(WcStatus::Success)
    }

    /// Begins again with the oldest request, whose first unaccepted record had `seq`, not before `until`. Answers that are still
    /// to come belong to records that the target refuses.
    pub(super) fn go_back(&mut self, seq: u32, until: Instant) {
        let head = self.slot(self.head);
        let rewind = self.wqes[head].answered;
        self.seq.set(seq.wrapping_sub(rewind) & SEQ_MASK);
        let mut pos = self.head;
        while pos <= self.next && pos != self.tail {
            let slot = self.slot(pos);
            let wqe = &mut self.wqes[slot];
            // data that this process has placed itself stays placed
            let placed = wqe.placed.get();
            wqe.progress = Progress::Queued(if placed { u64::from(wqe.length) } else { 0 });
            wqe.pushed.set(0);
            wqe.answered = 0;
            pos += 1;
        }
        self.next = self.head;
        self.recovery = Some(until);
    }

    pub(super) fn progressed(&mut self) {
        self.rnr_left = self.attr.rnr_retry;
        self.lost_since = None;
    }

    /// The target does not answer: tries again every millisecond until timeout times (retries + 1) has passed (I10).
    pub(super) fn lost(&mut self, now: Instant, sink: &mut impl Sink) {
        let since = *self.lost_since.get_or_insert(now);
        if let Some(timeout) = ack_timeout_ns(self.attr.timeout) {
            let tries = u64::from(self.attr.retry_cnt) + 1;
            let limit = timeout.saturating_mul(tries).max(TIMEOUT_FLOOR_NS);
            if now.0.saturating_sub(since.0) >= limit {
                let slot = self.slot(self.head);
                self.wqes[slot].progress = Progress::Done(WcStatus::RetryExcErr);
                self.next = self.next.max(self.head + 1);
                self.recovery = None;
                return self.complete(sink);
            }
        }
        self.recovery = Some(now.plus_ns(RETRY_INTERVAL_NS));
    }

    /// The peer's process died: what is in the ring will never be answered.
    pub fn peer_died(&mut self, now: Instant, sink: &mut impl Sink) {
        if self.in_ring.get() == 0 || self.state == SendState::Flushing {
            return;
        }
        // an extended connection may have its records in another, living process's ring
        let oldest = &self.wqes[self.slot(self.head)];
        if oldest
            .link
            .as_ref()
            .or(self.link.as_ref())
            .is_some_and(|link| !link.dead())
        {
            return;
        }
        self.incarnation = self.incarnation.wrapping_add(1) & 0x7fff_ffff;
        self.in_ring.set(0);
        self.recovery = None;
        if self.qp_type == QpType::Uc {
            while self.head < self.next {
                let slot = self.slot(self.head);
                if self.wqes[slot].progress == Progress::InRing {
                    self.wqes[slot].progress = Progress::Done(WcStatus::Success);
                }
                self.complete(sink);
            }
            return;
        }
        let seq = self.seq.get();
        self.go_back(seq, now);
        self.lost(now, sink);
    }

    /// Completes what is done, in order. A failure flushes the rest (I11).
    pub(super) fn complete(&mut self, sink: &mut impl Sink) {
        while self.head < self.next {
            let slot = self.slot(self.head);
            let Progress::Done(status) = self.wqes[slot].progress else {
                return;
            };
            self.pop(status, sink);
            if status != WcStatus::Success {
                self.state = SendState::Flushing;
                return self.flush(sink);
            }
        }
    }

    /// Removes the oldest request with this status; an error completes even when unsignaled.
    #[inline]
    pub(super) fn pop(&mut self, status: WcStatus, sink: &mut impl Sink) {
        let slot = self.slot(self.head);
        let wqe = &mut self.wqes[slot];
        wqe.link = None;
        wqe.bind = None;
        wqe.fanout = None;
        self.head += 1;
        if self.signal_all || wqe.flags.contains(SendFlags::SIGNALED) || status != WcStatus::Success
        {
            let byte_len = match wqe.opcode {
                SendOpcode::RdmaRead => wqe.length,
                SendOpcode::CmpSwap | SendOpcode::FetchAdd => 8,
                _ => wqe.length,
            };
            sink.sent(Completion {
                wr_id: wqe.wr_id,
                status,
                opcode: wqe.opcode.completion(),
                byte_len,
                qp_num: self.qpn,
                flags: WcFlags::empty(),
                ..Completion::default()
            });
            self.places[slot] = sink.place();
        } else {
            self.places[slot] = UNSIGNALED;
        }
    }

    pub(super) fn flush(&mut self, sink: &mut impl Sink) {
        self.ignore_answers();
        while self.head != self.tail {
            self.pop(WcStatus::WrFlushErr, sink);
        }
        self.next = self.tail;
    }
}
