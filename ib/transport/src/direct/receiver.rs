//! The receiving half of a queue pair on the direct wire: executes the records of its peer.
//!
//! Owns the expected sequence number and the message in progress. It must not know how records arrive; the
//! receive queue (its own or a shared one) is handed in for each record, locked by the caller.

use super::layout::{self, KeyEntry, QpEntry};
use super::{
    AtomicOp, Consumer, Fault, Host, Kind, Link, Record, RecordFlags, RemoteSpan, Response, Words,
    mark,
};
use crate::types::{Access, Completion, QpType, SendOpcode, Sge, WcFlags, WcOpcode, WcStatus};

/// Elements of a scatter/gather list, at the most.
pub const MAX_SGE: usize = 32;
/// Bytes of the global route header that precedes a received datagram.
pub const GRH_BYTES: u64 = 40;

/// A receive taken from a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecvWqe {
    /// The work request's identifier.
    pub wr_id: u64,
}

/// Why a receive was not queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvPostError {
    /// The queue is full.
    Full,
    /// More elements than the queue was created for.
    TooManySges,
}

/// A bounded queue of receives; its memory is allocated once.
#[derive(Debug)]
pub struct RecvQueue {
    /// Receives that fit.
    capacity: u32,
    /// As many places as the next power of two.
    wr_ids: Box<[u64]>,
    counts: Box<[u8]>,
    sges: Box<[Sge]>,
    max_sge: usize,
    head: u32,
    tail: u32,
}

impl RecvQueue {
    /// A queue of `max_wr` receives of up to `max_sge` elements.
    pub fn new(max_wr: u32, max_sge: u32) -> Self {
        let wrs = (max_wr as usize).next_power_of_two();
        let sges = max_sge as usize;
        RecvQueue {
            capacity: max_wr,
            wr_ids: vec![0; wrs].into(),
            counts: vec![0; wrs].into(),
            sges: vec![Sge::default(); wrs * sges].into(),
            max_sge: sges,
            head: 0,
            tail: 0,
        }
    }

    /// Receives queued.
    pub fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// True when none is queued.
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Receives that fit.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The place of a free-running position.
    #[inline]
    fn place(&self, pos: u32) -> usize {
        pos as usize & (self.wr_ids.len() - 1)
    }

    /// Queues a receive.
    pub fn push(&mut self, wr_id: u64, sges: &[Sge]) -> Result<(), RecvPostError> {
        if sges.len() > self.max_sge {
            return Err(RecvPostError::TooManySges);
        }
        if self.len() >= self.capacity() {
            return Err(RecvPostError::Full);
        }
        let index = self.place(self.tail);
        self.wr_ids[index] = wr_id;
        self.counts[index] = sges.len() as u8;
        self.sges[index * self.max_sge..][..sges.len()].copy_from_slice(sges);
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Takes the oldest receive; its elements replace the contents of `into`.
    pub fn take(&mut self, into: &mut Vec<Sge>) -> Option<RecvWqe> {
        if self.is_empty() {
            return None;
        }
        let index = self.place(self.head);
        into.clear();
        into.extend_from_slice(&self.sges[index * self.max_sge..][..self.counts[index] as usize]);
        self.head = self.head.wrapping_add(1);
        Some(RecvWqe {
            wr_id: self.wr_ids[index],
        })
    }
}

/// What the target's process has to do beside answering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetEvent {
    /// First message in RTR: communication established.
    Established,
    /// The queue pair goes to the error state; an access violation is the cause.
    AccessError,
    /// The queue pair goes to the error state; an invalid request is the cause.
    RequestError,
    /// The queue pair goes to the error state; a receive completed in error.
    ReceiveError,
}

/// Where completions and events of a target go.
pub trait TargetSink {
    /// A completion of the receive queue.
    fn received(&mut self, completion: Completion);
    /// Something that the process must act on.
    fn event(&mut self, event: TargetEvent);
}

/// How a record ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handled {
    /// Answer with this.
    Answer(Response),
    /// An atomic was executed; this was the value.
    Value(u64),
    /// A long transfer is under way: call again with the same record.
    More,
}

#[derive(Debug)]
struct Current {
    wqe: RecvWqe,
    placed: u64,
}

/// The receiving half of a queue pair.
#[derive(Debug)]
pub struct Receiver {
    /// Its number.
    pub qpn: u32,
    /// Service.
    pub qp_type: QpType,
    /// Protection domain.
    pub pd: u32,
    /// Protection domain of the receive queue's elements (that of the SRQ if there is one).
    pub recv_pd: u32,
    /// Requests are accepted.
    pub receives: bool,
    /// No message has arrived since RTR.
    pub fresh: bool,
    /// The peer's process slot.
    pub peer_slot: u32,
    /// The peer's queue pair.
    pub dest_qpn: u32,
    /// Remote rights.
    pub access: Access,
    /// RNR NAK timer code.
    pub min_rnr_timer: u8,
    /// Queue key (UD).
    pub qkey: u32,
    /// Sequence number of the next record, 24 bits.
    pub expected: u32,
    current: Option<Current>,
    /// A receive whose message an unreliable connection lost: the next message takes it.
    kept: Option<RecvWqe>,
    /// Elements of the receive at hand, as posted.
    sges: Vec<Sge>,
    /// The same as process addresses.
    ranges: Vec<Sge>,
    pulled: u64,
}

const SEQ_MASK: u32 = 0xff_ffff;

impl Receiver {
    /// A receiver in the reset state; `max_sge` of its receive queue.
    pub fn new(qpn: u32, qp_type: QpType, pd: u32, recv_pd: u32, max_sge: u32) -> Self {
        Receiver {
            qpn,
            qp_type,
            pd,
            recv_pd,
            receives: false,
            fresh: true,
            peer_slot: u32::MAX,
            dest_qpn: 0,
            access: Access::empty(),
            min_rnr_timer: 0,
            qkey: 0,
            expected: 0,
            current: None,
            kept: None,
            sges: Vec::with_capacity((max_sge as usize).min(MAX_SGE)),
            ranges: Vec::with_capacity((max_sge as usize).min(MAX_SGE)),
            pulled: 0,
        }
    }

    /// Forgets a message in progress; its receive, if one was taken, flushes.
    pub fn stop(&mut self) -> Option<RecvWqe> {
        self.receives = false;
        self.pulled = 0;
        let kept = self.kept.take();
        self.current.take().map(|current| current.wqe).or(kept)
    }

    /// Executes one record. `chunk` bounds the bytes moved in one call. `peer` is the channel that the record came by.
    #[allow(clippy::too_many_arguments)]
    pub fn handle<H: Host>(
        &mut self,
        host: &H,
        peer: &H::Link,
        ring: &Consumer,
        record: &Record,
        rq: &mut RecvQueue,
        chunk: u64,
        sink: &mut impl TargetSink,
    ) -> Handled {
        if record.kind == Kind::Datagram {
            self.datagram(host, peer, ring, record, rq, sink);
            return Handled::Answer(Response::Ok(0));
        }
        if !self.receives || record.src_qpn != self.dest_qpn || peer.slot() != self.peer_slot {
            return Handled::Answer(Response::NotReady);
        }
        let uc = self.qp_type == QpType::Uc;
        if uc && record.arg & 0xffff_ffff == 0 {
            // an unreliable connection takes up wherever a message begins (IBA 9.8.2)
            let first_call = self.pulled == 0 || record.seq & SEQ_MASK != self.expected;
            self.expected = record.seq & SEQ_MASK;
            if first_call && let Some(current) = self.current.take() {
                self.kept = Some(current.wqe);
                self.pulled = 0;
            }
        }
        if record.seq & SEQ_MASK != self.expected {
            return Handled::Answer(Response::Sequence);
        }
        let handled = match record.kind {
            // an operation that the queue pair does not offer is an invalid request, whatever the key says
            kind if !self.access.contains(right_of(kind)) => {
                Handled::Answer(Response::InvalidRequest)
            }
            Kind::Send | Kind::WriteImm => self.message(host, peer, ring, record, rq, chunk, sink),
            Kind::Write => self.write(host, peer, ring, record),
            Kind::Read => self.read(host, peer, ring, record),
            Kind::CmpSwap | Kind::FetchAdd => self.atomic(host, record),
            Kind::Violation if record.imm == 0 => Handled::Answer(Response::RemoteAccess),
            Kind::Violation | Kind::Datagram => Handled::Answer(Response::InvalidRequest),
        };
        match handled {
            Handled::Answer(Response::Ok(_)) | Handled::Value(_) => {
                self.expected = (self.expected + 1) & SEQ_MASK;
                if self.fresh {
                    self.fresh = false;
                    sink.event(TargetEvent::Established);
                }
            }
            // what a peer does wrong on an unreliable connection is dropped without a word
            Handled::Answer(Response::RemoteAccess | Response::InvalidRequest) if uc => {}
            Handled::Answer(Response::RemoteAccess) => sink.event(TargetEvent::AccessError),
            Handled::Answer(Response::InvalidRequest) => sink.event(TargetEvent::RequestError),
            Handled::Answer(Response::RemoteOperation) => sink.event(TargetEvent::ReceiveError),
            Handled::Answer(_) | Handled::More => {}
        }
        handled
    }

    /// SEND and WRITE with immediate: the records that consume a receive.
    #[allow(clippy::too_many_arguments)]
    fn message<H: Host>(
        &mut self,
        host: &H,
        peer: &H::Link,
        ring: &Consumer,
        record: &Record,
        rq: &mut RecvQueue,
        chunk: u64,
        sink: &mut impl TargetSink,
    ) -> Handled {
        let (offset, total) = (record.arg & 0xffff_ffff, record.arg >> 32);
        let is_send = record.kind == Kind::Send;
        if self.current.is_none() {
            if offset != 0 {
                return Handled::Answer(Response::InvalidRequest);
            }
            if !is_send
                && record.length > 0
                && self
                    .key_span(host, record, total, Access::REMOTE_WRITE)
                    .is_none()
            {
                return Handled::Answer(Response::RemoteAccess);
            }
            let taken = self.kept.take().or_else(|| rq.take(&mut self.sges));
            let Some(wqe) = taken else {
                return match self.qp_type {
                    // an unreliable connection drops the message
                    QpType::Uc => Handled::Answer(Response::Ok(0)),
                    _ => Handled::Answer(Response::Rnr(self.min_rnr_timer)),
                };
            };
            self.current = Some(Current { wqe, placed: 0 });
        }
        // looked up anew for each piece: a region that was deregistered in between is not written to any more
        if is_send && let Err(status) = self.prepare(host, total) {
            self.finish(record, status, 0, sink);
            return Handled::Answer(match status {
                WcStatus::LocLenErr => Response::InvalidRequest,
                _ => Response::RemoteOperation,
            });
        }
        let placed = self.current.as_ref().map_or(0, |current| current.placed);
        if placed != offset || u64::from(record.length) > total - offset.min(total) {
            return Handled::Answer(Response::InvalidRequest);
        }
        if record.length > 0 {
            let outcome = if is_send {
                self.place(host, peer, ring, record, offset, chunk)
            } else {
                let span = self.key_span(host, record, total, Access::REMOTE_WRITE);
                span.map_or(Err(Response::RemoteAccess), |addr| {
                    let to = [Sge {
                        addr,
                        length: record.length,
                        lkey: 0,
                    }];
                    Self::place_payload(host, peer, ring, record, &to, 0).map(|()| true)
                })
            };
            match outcome {
                Ok(true) => {}
                Ok(false) => return Handled::More,
                Err(response) => {
                    self.pulled = 0;
                    // what is not the receive's fault leaves the receive to a new try, or to the flush
                    if is_send && matches!(response, Response::RemoteOperation) {
                        self.finish(record, WcStatus::LocProtErr, 0, sink);
                    }
                    return Handled::Answer(response);
                }
            }
        }
        if let Some(current) = &mut self.current {
            current.placed += u64::from(record.length);
        }
        if record.flags.contains(RecordFlags::LAST) {
            if record.flags.contains(RecordFlags::INVALIDATE)
                && !host.invalidate(self.pd, self.qpn, record.imm)
            {
                self.finish(record, WcStatus::LocAccessErr, 0, sink);
                return Handled::Answer(Response::RemoteAccess);
            }
            self.finish(record, WcStatus::Success, total as u32, sink);
        }
        Handled::Answer(Response::Ok(0))
    }

    /// Checks the receive at hand and turns what `total` bytes reach of its elements into process addresses: an adapter looks at nothing
    /// else. A program may post elements that go on beyond their region (perftest does, with XRC) if no message does.
    fn prepare<H: Host>(&mut self, host: &H, total: u64) -> Result<(), WcStatus> {
        let room: u64 = self.sges.iter().map(|sge| u64::from(sge.length)).sum();
        if total > room {
            return Err(WcStatus::LocLenErr);
        }
        self.ranges.clear();
        let mut left = total;
        for sge in &self.sges {
            if left == 0 {
                break;
            }
            let mut range = *sge;
            range.length = u64::from(sge.length).min(left) as u32;
            left -= u64::from(range.length);
            if range.length > 0 {
                range.addr = host
                    .local(self.recv_pd, &range, Access::LOCAL_WRITE)
                    .ok_or(WcStatus::LocProtErr)?;
            }
            self.ranges.push(range);
        }
        Ok(())
    }

    /// Moves a SEND's payload into the receive. Ok(false): more remains.
    fn place<H: Host>(
        &mut self,
        host: &H,
        peer: &H::Link,
        ring: &Consumer,
        record: &Record,
        offset: u64,
        chunk: u64,
    ) -> Result<bool, Response> {
        if record.flags.contains(RecordFlags::PULL) {
            self.pull(host, peer, ring, record, offset, chunk)
        } else {
            Self::place_payload(host, peer, ring, record, &self.ranges, offset).map(|()| true)
        }
    }

    fn place_payload<H: Host>(
        host: &H,
        peer: &H::Link,
        ring: &Consumer,
        record: &Record,
        to: &[Sge],
        skip: u64,
    ) -> Result<(), Response> {
        let length = record.length as usize;
        if record.flags.contains(RecordFlags::IN_RECORD) {
            let bytes = record.data.to_le_bytes();
            host.put(
                bytes.get(..length).ok_or(Response::InvalidRequest)?,
                to,
                skip,
            );
            return Ok(());
        }
        let at = ring
            .payload(record, length)
            .ok_or(Response::InvalidRequest)?;
        host.scatter(peer.pair(), at, to, skip, length as u64);
        Ok(())
    }

    /// Reads a long message from the sender's memory, at most `chunk` bytes a call.
    fn pull<H: Host>(
        &mut self,
        host: &H,
        peer: &H::Link,
        ring: &Consumer,
        record: &Record,
        offset: u64,
        chunk: u64,
    ) -> Result<bool, Response> {
        let ranges = (record.addr as usize).min(MAX_SGE);
        let list = ring
            .payload(record, ranges * 16)
            .ok_or(Response::InvalidRequest)?;
        let mut before = 0;
        let mut budget = chunk;
        for index in 0..ranges {
            let addr = peer.pair().load(list + index * 16);
            let length = peer
                .pair()
                .load(list + index * 16 + 8)
                .min(u64::from(record.length) - before);
            let end = before + length;
            if self.pulled < end && budget > 0 {
                let skip = self.pulled - before;
                let now = (length - skip).min(budget);
                let span = RemoteSpan {
                    addr: addr.wrapping_add(skip),
                    map_id: 0,
                    map_offset: 0,
                };
                match self.pull_range(host, peer, span, offset + self.pulled, now) {
                    Ok(()) => {}
                    Err(Fault::LocalUnmapped) => return Err(Response::RemoteOperation),
                    Err(Fault::RemoteUnmapped) => return Err(Response::InvalidRequest),
                    Err(Fault::Forbidden) => return Err(Response::CannotPull),
                    Err(Fault::Gone) => return Err(Response::NotReady),
                }
                self.pulled += now;
                budget -= now;
            }
            before = end;
        }
        if self.pulled < before {
            return Ok(false);
        }
        self.pulled = 0;
        if before == u64::from(record.length) {
            Ok(true)
        } else {
            Err(Response::InvalidRequest)
        }
    }

    /// Reads one piece of the sender's memory, under a mark: the sender's queue pair takes the memory back only after it
    /// has revoked its entry and waited, so what is read is what was posted.
    fn pull_range<H: Host>(
        &self,
        host: &H,
        peer: &H::Link,
        from: RemoteSpan,
        skip: u64,
        len: u64,
    ) -> Result<(), Fault> {
        let mark = host.claim_mark();
        mark::publish(host.own(), mark, peer.slot(), 0, self.dest_qpn);
        let connected = layout::find_qp(peer.table(), self.dest_qpn)
            .and_then(|index| QpEntry::read(peer.table(), index as usize))
            .is_some_and(|qp| {
                // an extended target belongs to a domain, not to a process: its initiator names none
                let mine = self.qp_type == QpType::XrcRecv || qp.dest_slot == host.slot();
                qp.qpn == self.dest_qpn && qp.dest_qpn == self.qpn && mine
            });
        let outcome = if connected {
            host.remote_read(peer, from, &self.ranges, skip, len)
        } else {
            Err(Fault::Gone)
        };
        mark::clear(host.own(), mark);
        host.release_mark(mark);
        outcome
    }

    /// Completes the receive at hand.
    fn finish(
        &mut self,
        record: &Record,
        status: WcStatus,
        byte_len: u32,
        sink: &mut impl TargetSink,
    ) {
        let Some(current) = self.current.take() else {
            return;
        };
        self.pulled = 0;
        let mut flags = WcFlags::empty();
        flags.set(WcFlags::WITH_IMM, record.flags.contains(RecordFlags::IMM));
        flags.set(
            WcFlags::WITH_INV,
            record.flags.contains(RecordFlags::INVALIDATE),
        );
        sink.received(Completion {
            wr_id: current.wqe.wr_id,
            status,
            opcode: if record.kind == Kind::Send {
                WcOpcode::Recv
            } else {
                WcOpcode::RecvRdmaWithImm
            },
            byte_len,
            imm_or_rkey: record.imm,
            qp_num: self.qpn,
            src_qp: record.src_qpn,
            flags,
            solicited: record.flags.contains(RecordFlags::SOLICITED),
            ..Completion::default()
        });
    }

    /// Process address of a record's remote range, if the key, the rights of the region, the protection
    /// domain and the bounds of the whole message allow it (I7).
    fn key_span<H: Host>(
        &self,
        host: &H,
        record: &Record,
        total: u64,
        need: Access,
    ) -> Option<u64> {
        let entry = KeyEntry::read(host.own(), record.key)?;
        let offset = record.arg & 0xffff_ffff;
        let first = record.addr.wrapping_sub(offset);
        let whole = entry.offset_of(first, total)?;
        let allowed = entry.access.contains(need)
            && entry.pd == self.pd
            && (entry.only_qp == 0 || entry.only_qp == self.qpn + 1)
            && offset + u64::from(record.length) <= total;
        allowed.then(|| entry.addr.wrapping_add(whole).wrapping_add(offset))
    }

    fn write<H: Host>(
        &mut self,
        host: &H,
        peer: &H::Link,
        ring: &Consumer,
        record: &Record,
    ) -> Handled {
        let total = record.arg >> 32;
        if record.length == 0 {
            return Handled::Answer(Response::Ok(0));
        }
        let Some(addr) = self.key_span(host, record, total, Access::REMOTE_WRITE) else {
            return Handled::Answer(Response::RemoteAccess);
        };
        let to = [Sge {
            addr,
            length: record.length,
            lkey: 0,
        }];
        Handled::Answer(
            match Self::place_payload(host, peer, ring, record, &to, 0) {
                Ok(()) => Response::Ok(0),
                Err(response) => response,
            },
        )
    }

    fn read<H: Host>(
        &mut self,
        host: &H,
        peer: &H::Link,
        ring: &Consumer,
        record: &Record,
    ) -> Handled {
        let total = record.arg >> 32;
        if record.length == 0 {
            return Handled::Answer(Response::Ok(0));
        }
        let Some(addr) = self.key_span(host, record, total, Access::REMOTE_READ) else {
            return Handled::Answer(Response::RemoteAccess);
        };
        let length = u64::from(record.length);
        let Some(at) = ring.payload(record, record.length as usize) else {
            return Handled::Answer(Response::InvalidRequest);
        };
        let from = [Sge {
            addr,
            length: record.length,
            lkey: 0,
        }];
        host.gather(peer.pair(), at, &from, 0, length);
        Handled::Answer(Response::Ok(0))
    }

    fn atomic<H: Host>(&mut self, host: &H, record: &Record) -> Handled {
        if !record.addr.is_multiple_of(8) {
            return Handled::Answer(Response::InvalidRequest);
        }
        let named = Record {
            arg: 8 << 32,
            length: 8,
            ..*record
        };
        let Some(addr) = self.key_span(host, &named, 8, Access::REMOTE_ATOMIC) else {
            return Handled::Answer(Response::RemoteAccess);
        };
        if !addr.is_multiple_of(8) {
            return Handled::Answer(Response::InvalidRequest);
        }
        let op = match record.kind {
            Kind::CmpSwap => AtomicOp::CompareSwap(record.arg, record.data),
            _ => AtomicOp::FetchAdd(record.arg),
        };
        Handled::Value(host.local_atomic(addr, op))
    }

    /// A datagram: delivered if the queue key fits and a receive is there, else dropped.
    fn datagram<H: Host>(
        &mut self,
        host: &H,
        peer: &H::Link,
        ring: &Consumer,
        record: &Record,
        rq: &mut RecvQueue,
        sink: &mut impl TargetSink,
    ) {
        if !self.receives || self.qp_type != QpType::Ud || record.key != self.qkey {
            return;
        }
        let has_grh = record.flags.contains(RecordFlags::GRH);
        let grh = if has_grh { GRH_BYTES } else { 0 };
        let length = u64::from(record.length);
        if length < grh {
            return;
        }
        let Some(at) = ring.payload(record, record.length as usize) else {
            return;
        };
        let Some(wqe) = rq.take(&mut self.sges) else {
            return;
        };
        self.current = Some(Current { wqe, placed: 0 });
        let total = length - grh + GRH_BYTES;
        let status = match self.prepare(host, total) {
            Ok(()) => {
                host.scatter(peer.pair(), at, &self.ranges, GRH_BYTES - grh, length);
                WcStatus::Success
            }
            Err(status) => status,
        };
        let slid = (record.addr & 0xffff) as u16;
        let Some(current) = self.current.take() else {
            return;
        };
        let mut flags = WcFlags::empty();
        flags.set(WcFlags::GRH, has_grh);
        flags.set(WcFlags::WITH_IMM, record.flags.contains(RecordFlags::IMM));
        sink.received(Completion {
            wr_id: current.wqe.wr_id,
            status,
            opcode: WcOpcode::Recv,
            byte_len: total as u32,
            imm_or_rkey: record.imm,
            qp_num: self.qpn,
            src_qp: record.src_qpn,
            flags,
            slid,
            sl: (record.extra & 0xf) as u8,
            dlid_path_bits: (record.extra >> 4 & 0x7f) as u8,
            solicited: record.flags.contains(RecordFlags::SOLICITED),
            ..Completion::default()
        });
        if status != WcStatus::Success {
            sink.event(TargetEvent::ReceiveError);
        }
    }
}

/// The right that a queue pair must grant for a record to be executed.
fn right_of(kind: Kind) -> Access {
    match kind {
        Kind::Write | Kind::WriteImm => Access::REMOTE_WRITE,
        Kind::Read => Access::REMOTE_READ,
        Kind::CmpSwap | Kind::FetchAdd => Access::REMOTE_ATOMIC,
        Kind::Send | Kind::Violation | Kind::Datagram => Access::empty(),
    }
}

/// The record kind of an operation that the target executes.
pub fn kind_of(opcode: SendOpcode) -> Option<Kind> {
    Some(match opcode {
        SendOpcode::Send | SendOpcode::SendImm | SendOpcode::SendInv => Kind::Send,
        SendOpcode::RdmaWriteImm => Kind::WriteImm,
        SendOpcode::RdmaWrite => Kind::Write,
        SendOpcode::RdmaRead => Kind::Read,
        SendOpcode::CmpSwap => Kind::CmpSwap,
        SendOpcode::FetchAdd => Kind::FetchAdd,
        SendOpcode::LocalInv | SendOpcode::BindMw => return None,
    })
}
