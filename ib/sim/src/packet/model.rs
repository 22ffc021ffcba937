//! The reference model: what each side posted, and so what may happen at the other. It never looks into the machine.
//!
//! Owns a [`Side`] per queue pair. Effects on memory are checked as the machine makes them, completions as it hands
//! them over; packets are checked in [`super::observer`]. Every check names its invariant.

use super::memory::{Memory, PD};
use ferriband_transport::types::{
    Access, Completion, QpType, SendOpcode, WcFlags, WcOpcode, WcStatus,
};
use ferriband_wire::Psn;
use std::collections::{BTreeMap, BTreeSet};

/// A broken invariant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Violation {
    pub invariant: &'static str,
    pub expected: String,
    pub got: String,
}

pub(super) type Check = Result<(), Violation>;

pub(super) fn violated(
    invariant: &'static str,
    expected: impl Into<String>,
    got: impl Into<String>,
) -> Check {
    Err(Violation {
        invariant,
        expected: expected.into(),
        got: got.into(),
    })
}

/// What the workload planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plan {
    /// Must succeed if anything does.
    Good,
    /// The responder must refuse it with this status.
    RemoteFails(WcStatus),
    /// The requester must refuse it with this status.
    LocalFails(WcStatus),
}

/// A posted send.
#[derive(Clone, Debug)]
pub(super) struct Posted {
    pub op: SendOpcode,
    pub signaled: bool,
    pub solicited: bool,
    pub fence: bool,
    /// Number of the message from 1; operations without packets have none of their own.
    pub ssn: u32,
    pub plan: Plan,
    /// Bytes that arrive at the peer, or for a READ those that come back.
    pub data: Vec<u8>,
    /// Where the response of a READ or atomic lands.
    pub local_addr: u64,
    pub remote_addr: u64,
    pub rkey: u32,
    pub compare_add: u64,
    pub swap: u64,
    /// Immediate data or key to invalidate.
    pub imm_or_key: u32,
    /// PSNs that it takes and the offset of the first from the queue's start.
    pub packets: u32,
    pub start: u32,
    /// Bytes executed at the peer.
    pub progress: usize,
    /// Ranges beyond that which were placed before their turn.
    pub early: Vec<(usize, usize)>,
    /// An atomic's previous value, as the model knows it.
    pub original: Option<u64>,
    /// Response packets that have been delivered.
    pub answers: Vec<bool>,
    /// A READ's messages on the wire so far: it may be asked for in pieces. Others: 0 or 1.
    pub pieces: u32,
    /// Its last byte lies out of range and the others in it.
    pub last_byte_out: bool,
    /// PSN offset up to which a READ was asked for at some time.
    pub asked_to: u32,
}

impl Posted {
    pub fn is_read_or_atomic(&self) -> bool {
        use SendOpcode::{CmpSwap, FetchAdd, RdmaRead};
        matches!(self.op, RdmaRead | CmpSwap | FetchAdd)
    }

    pub fn is_atomic(&self) -> bool {
        matches!(self.op, SendOpcode::CmpSwap | SendOpcode::FetchAdd)
    }

    /// These are bytes of the middle of this WRITE, beyond what is in order, placed for the first time. Its last packet is never early.
    fn is_early(&self, key: u32, addr: u64, data: &[u8]) -> bool {
        let Some(from) = addr.checked_sub(self.remote_addr).map(|at| at as usize) else {
            return false;
        };
        let end = from + data.len();
        self.is_write()
            && self.rkey == key
            && from > self.progress
            && self.progress > 0
            && end < self.data.len()
            && self.data[from..end] == *data
            && self.early.iter().all(|e| e.1 <= from || end <= e.0)
    }

    pub fn is_write(&self) -> bool {
        matches!(self.op, SendOpcode::RdmaWrite | SendOpcode::RdmaWriteImm)
    }

    pub fn is_send(&self) -> bool {
        matches!(
            self.op,
            SendOpcode::Send | SendOpcode::SendImm | SendOpcode::SendInv
        )
    }

    /// Whether the response packet at a PSN offset may exist: a READ that has to fail for its last byte may be asked
    /// for in pieces, of which those before the last are right.
    pub fn may_answer(&self, place: u32) -> bool {
        let early = place + 1 < self.start + self.packets;
        self.plan == Plan::Good || self.op == SendOpcode::RdmaRead && self.last_byte_out && early
    }

    pub fn consumes_receive(&self) -> bool {
        self.is_send() || self.op == SendOpcode::RdmaWriteImm
    }

    /// Leaves no trace at the peer that could be seen when it is executed.
    fn is_silent(&self) -> bool {
        self.plan == Plan::Good
            && match self.op {
                SendOpcode::RdmaRead | SendOpcode::LocalInv | SendOpcode::BindMw => true,
                SendOpcode::RdmaWrite => self.data.is_empty(),
                _ => false,
            }
    }
}

/// A posted receive, in the order of use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receive {
    pub wr_id: u64,
    pub addr: u64,
    pub length: u32,
    /// Its local key is wrong.
    pub bad: bool,
}

/// Transmissions of one PSN.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub count: u32,
    pub last: u64,
    /// The last transmission that was no question: the next one needs an answer since, or the time-out.
    pub anchor: u64,
    /// When the ack timer began: with a transmission that neither asked nor filled a gap, or with an answer since.
    pub since: u64,
}

/// One queue pair as its program sees it.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub qp_type: QpType,
    pub adapter: usize,
    pub peer: usize,
    pub mtu: usize,
    pub sq_psn: Psn,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub timeout_ns: Option<u64>,
    pub min_rnr_timer: u8,
    pub max_rd_atomic: u8,
    /// The peer accepts fewer READs and atomics than this side sends.
    pub overcommits: bool,
    /// Local key and receive region of this side.
    pub local_key: u32,
    pub recv_key: u32,

    pub posted: Vec<Posted>,
    pub psn_total: u32,
    /// The first posted send that is not executed at the peer.
    pub cursor: usize,
    pub next_completion: usize,
    /// A send completed in error: all others flush.
    pub failed: Option<WcStatus>,
    /// The peer posts, or this side receives, what ends this queue pair.
    pub may_be_killed: bool,
    /// The program itself moved it to Error.
    pub forced: bool,
    pub receives: Vec<Receive>,
    pub next_receive: usize,
    pub receive_failed: bool,

    pub sent: Vec<Sent>,
    pub last_offset: Option<u32>,
    pub last_answer_at: Option<u64>,
    /// Silence after which the machine may ask whether anything arrived.
    pub silence_ns: u64,
    /// It keeps what comes beyond a gap.
    pub holds: bool,
    /// PSN offsets of the READs and atomics asked for in the present pass.
    pub reads: Vec<std::ops::Range<u32>>,
    pub naks: BTreeSet<u32>,
    pub rnr_naks: BTreeMap<u32, u32>,
    pub rnr_quiet: Option<(u32, u64)>,
    /// Last message that delivered credits allow; None when the peer does not count.
    pub credit_limit: Option<u32>,
    /// PSN offset before which everything was acknowledged by what was delivered.
    pub acked: u32,
}

impl Side {
    pub fn reliable(&self) -> bool {
        matches!(self.qp_type, QpType::Rc | QpType::XrcSend | QpType::XrcRecv)
    }

    /// Number of a request's message as the peer counts: READs before it may have been several.
    pub fn message_number(&self, index: usize) -> u32 {
        let more = |p: &Posted| p.pieces.saturating_sub(1);
        self.posted[index].ssn + self.posted[..index].iter().map(more).sum::<u32>()
    }

    /// Passes over what cannot be seen.
    fn pass_silent(&mut self) {
        while self.posted.get(self.cursor).is_some_and(Posted::is_silent) {
            self.cursor += 1;
        }
    }
}

/// All sides, and whether every packet is what a side sent.
#[derive(Debug)]
pub(super) struct Model {
    pub sides: Vec<Side>,
    /// False when hostile packets are about: contents cannot be demanded then, the rest can.
    pub trusted: bool,
    /// The words that atomics work on, by adapter and address.
    pub words: BTreeMap<(usize, u64), u64>,
    /// When the wire healed.
    pub healed_at: Option<u64>,
    /// First violation seen inside a callback of the machine.
    pub pending: Option<Violation>,
}

impl Model {
    /// Keeps the first violation until the world asks.
    pub fn note(&mut self, check: Check) {
        if let (Err(violation), None) = (check, &self.pending) {
            self.pending = Some(violation);
        }
    }

    /// A WRITE reached the memory of `to`.
    pub fn remote_write(&mut self, to: usize, key: u32, addr: u64, data: &[u8]) -> Check {
        let from = self.sides[to].peer;
        if !self.trusted {
            return Ok(());
        }
        let holds = self.sides[to].holds;
        let side = &mut self.sides[from];
        if !side.reliable() {
            let known = side.posted.iter().any(|p| {
                p.is_write()
                    && p.rkey == key
                    && addr.checked_sub(p.remote_addr).is_some_and(|at| {
                        p.data
                            .get(at as usize..)
                            .is_some_and(|rest| rest.starts_with(data))
                    })
            });
            if known {
                return Ok(());
            }
            return violated(
                "I1",
                "a WRITE that was posted",
                format!("{} bytes at {addr:#x}", data.len()),
            );
        }
        side.pass_silent();
        let cursor = side.cursor;
        let Some(posted) = side.posted.get_mut(cursor) else {
            return violated(
                "I1",
                "no WRITE: all posted is executed",
                format!("WRITE at {addr:#x}"),
            );
        };
        if posted.plan != Plan::Good {
            return violated(
                "I7",
                format!("request {cursor} refused"),
                format!("WRITE at {addr:#x}"),
            );
        }
        let at = posted.remote_addr + posted.progress as u64;
        if holds && posted.is_early(key, addr, data) {
            let from = (addr - posted.remote_addr) as usize;
            posted.early.push((from, from + data.len()));
            return Ok(());
        }
        let due = &posted.data[posted.progress.min(posted.data.len())..];
        if !posted.is_write() || posted.rkey != key || at != addr || !due.starts_with(data) {
            return violated(
                "I1",
                format!(
                    "request {cursor} {:?}, byte {} next, at {at:#x}",
                    posted.op, posted.progress
                ),
                format!("WRITE of {} bytes at {addr:#x}", data.len()),
            );
        }
        posted.progress += data.len();
        while let Some((_, end)) = posted.early.iter().find(|e| e.0 == posted.progress) {
            posted.progress = *end;
        }
        if posted.progress == posted.data.len() && posted.op == SendOpcode::RdmaWrite {
            side.cursor += 1;
        }
        Ok(())
    }

    /// An atomic changed the memory of `to`. `original` is what the memory held.
    pub fn remote_atomic(
        &mut self,
        to: usize,
        addr: u64,
        next: impl Fn(u64) -> u64,
        original: u64,
    ) -> Check {
        if !self.trusted {
            return Ok(());
        }
        let (from, adapter) = (self.sides[to].peer, self.sides[to].adapter);
        let side = &mut self.sides[from];
        side.pass_silent();
        let cursor = side.cursor;
        let known = self.words.entry((adapter, addr)).or_insert(0);
        let Some(posted) = side.posted.get_mut(cursor) else {
            return violated(
                "I1",
                "no atomic: all posted is executed",
                format!("atomic at {addr:#x}"),
            );
        };
        if posted.plan != Plan::Good {
            return violated("I7", format!("request {cursor} refused"), "atomic executed");
        }
        if !posted.is_atomic() || posted.remote_addr != addr {
            return violated(
                "I1",
                format!("request {cursor} {:?}", posted.op),
                "an atomic",
            );
        }
        if *known != original {
            return violated(
                "I1",
                format!("{known:#x} in the word"),
                format!("{original:#x}"),
            );
        }
        *known = match posted.op {
            SendOpcode::CmpSwap if original == posted.compare_add => posted.swap,
            SendOpcode::CmpSwap => original,
            _ => original.wrapping_add(posted.compare_add),
        };
        if *known != next(original) {
            return violated(
                "I1",
                format!("{known:#x} stored"),
                format!("{:#x}", next(original)),
            );
        }
        posted.original = Some(original);
        side.cursor += 1;
        Ok(())
    }

    /// Bytes of a SEND were placed into the receive buffer at `addr` of `to`.
    pub fn receive_bytes(&mut self, to: usize, addr: u64, offset: u32, data: &[u8]) -> Check {
        if !self.trusted || !self.sides[to].reliable() {
            return Ok(());
        }
        let receive = self.sides[to]
            .receives
            .get(self.sides[to].next_receive)
            .copied();
        if receive.is_none_or(|receive| receive.addr != addr) {
            return violated(
                "I11",
                format!("receive {receive:?}"),
                format!("bytes at {addr:#x}"),
            );
        }
        let from = self.sides[to].peer;
        let side = &mut self.sides[from];
        side.pass_silent();
        let cursor = side.cursor;
        let Some(posted) = side.posted.get_mut(cursor) else {
            return violated(
                "I1",
                "no SEND: all posted is executed",
                format!("{} bytes", data.len()),
            );
        };
        let due = &posted.data[posted.progress.min(posted.data.len())..];
        if !posted.is_send() || posted.progress != offset as usize || !due.starts_with(data) {
            return violated(
                "I1",
                format!(
                    "request {cursor} {:?}, byte {} next",
                    posted.op, posted.progress
                ),
                format!("{} bytes of a SEND at {offset}", data.len()),
            );
        }
        posted.progress += data.len();
        Ok(())
    }

    /// A receive of side `at` completed.
    pub fn receive_completion(&mut self, at: usize, c: &Completion, memory: &mut Memory) -> Check {
        let side = &mut self.sides[at];
        let Some(receive) = side.receives.get(side.next_receive).copied() else {
            return violated("I11", "no more receives", format!("{c:?}"));
        };
        if receive.wr_id != c.wr_id {
            return violated(
                "I11",
                format!("receive {}", receive.wr_id),
                format!("{}", c.wr_id),
            );
        }
        side.next_receive += 1;
        if c.status == WcStatus::WrFlushErr {
            side.receive_failed = true;
            return Ok(());
        }
        if side.receive_failed {
            return violated("I11", "only flushes after an error", format!("{c:?}"));
        }
        let from = side.peer;
        if c.status != WcStatus::Success {
            side.receive_failed = true;
            side.may_be_killed = true;
            return self.receive_failure(from, &receive, c);
        }
        if !self.trusted {
            return Ok(());
        }
        let key = self.sides[at].recv_key;
        if !self.sides[from].reliable() {
            return self.unreliable_receive(from, &receive, c, key, memory);
        }
        let side = &mut self.sides[from];
        side.pass_silent();
        let cursor = side.cursor;
        let Some(posted) = side.posted.get(cursor) else {
            return violated("I1", "nothing more to receive", format!("{c:?}"));
        };
        if !posted.consumes_receive() || posted.plan != Plan::Good {
            return violated(
                "I1",
                format!("request {cursor} {:?}", posted.op),
                format!("{c:?}"),
            );
        }
        if posted.progress != posted.data.len() {
            return violated(
                "I4",
                format!("all {} bytes of request {cursor} placed", posted.data.len()),
                format!("{} placed when the receive completed", posted.progress),
            );
        }
        if !describes(posted, c, posted.data.len()) {
            return violated(
                "I1",
                format!("request {cursor} {:?}", posted.op),
                format!("{c:?}"),
            );
        }
        let (wanted, addr) = match posted.op {
            SendOpcode::RdmaWriteImm => (None, 0),
            _ => (Some(&posted.data), receive.addr),
        };
        if let Some(data) = wanted
            && memory.peek(key, addr, data.len()) != data.as_slice()
        {
            return violated(
                "I4",
                format!("the bytes of request {cursor}"),
                "other bytes",
            );
        }
        if posted.op == SendOpcode::SendInv && memory.is_alive(posted.imm_or_key) {
            return violated("I7", "the key invalidated", "still valid");
        }
        side.cursor += 1;
        Ok(())
    }

    fn receive_failure(&mut self, from: usize, receive: &Receive, c: &Completion) -> Check {
        let trusted = self.trusted;
        let side = &mut self.sides[from];
        side.may_be_killed = true;
        side.pass_silent();
        let length = side
            .posted
            .get(side.cursor)
            .map_or(0, |posted| posted.data.len());
        let explained = match c.status {
            WcStatus::LocLenErr => length > receive.length as usize,
            WcStatus::LocProtErr => receive.bad,
            _ => false,
        };
        if explained || !trusted {
            return Ok(());
        }
        violated(
            "I11",
            "a failure with a reason",
            format!("{c:?} for {receive:?}"),
        )
    }

    /// UC and UD: the message is one of those posted, whole.
    fn unreliable_receive(
        &mut self,
        from: usize,
        receive: &Receive,
        c: &Completion,
        key: u32,
        memory: &mut Memory,
    ) -> Check {
        let header = if self.sides[from].qp_type == QpType::Ud {
            40
        } else {
            0
        };
        let known = self.sides[from].posted.iter().any(|posted| {
            posted.consumes_receive()
                && describes(posted, c, posted.data.len() + header)
                && (!posted.is_send()
                    || memory.peek(key, receive.addr + header as u64, posted.data.len())
                        == posted.data.as_slice())
        });
        if known {
            Ok(())
        } else {
            violated("I4", "a message that was posted, whole", format!("{c:?}"))
        }
    }

    /// A send of side `at` completed.
    pub fn send_completion(
        &mut self,
        at: usize,
        c: &Completion,
        now: u64,
        memory: &mut Memory,
    ) -> Check {
        let side = &self.sides[at];
        let index = c.wr_id as usize;
        let next = side.next_completion;
        if index < next || index >= side.posted.len() {
            return violated(
                "I11",
                format!("a completion from request {next} on"),
                format!("{c:?}"),
            );
        }
        let skipped_wrongly = (next..index).any(|i| side.posted[i].signaled);
        if skipped_wrongly || (side.failed.is_some() && index != next) {
            return violated(
                "I11",
                format!("request {next} completes first"),
                format!("{c:?}"),
            );
        }
        if c.status == WcStatus::Success && !side.posted[index].signaled {
            return violated(
                "I11",
                "no completion of an unsignaled success",
                format!("{c:?}"),
            );
        }
        self.sides[at].next_completion = index + 1;
        for i in next..index {
            self.send_succeeded(at, i, memory)?;
        }
        match (c.status, self.sides[at].failed) {
            (WcStatus::Success, None) => self.send_succeeded(at, index, memory),
            (WcStatus::WrFlushErr, Some(_)) => Ok(()),
            (status, Some(_)) => violated(
                "I11",
                format!("request {index} flushed"),
                format!("{status:?}"),
            ),
            (status, None) => {
                self.sides[at].failed = Some(status);
                self.send_failed(at, index, status, now)
            }
        }
    }

    fn send_succeeded(&mut self, at: usize, index: usize, memory: &mut Memory) -> Check {
        if !self.trusted {
            return Ok(());
        }
        let side = &mut self.sides[at];
        side.pass_silent();
        let posted = &side.posted[index];
        if posted.plan != Plan::Good {
            return violated(
                "I7",
                format!("request {index} fails: {:?}", posted.plan),
                "success",
            );
        }
        if side.reliable() && index >= side.cursor {
            return violated(
                "I4",
                format!("request {index} executed before it completes"),
                format!("only those before {} are", side.cursor),
            );
        }
        let landed = match posted.op {
            SendOpcode::RdmaRead => Some(posted.data.clone()),
            SendOpcode::CmpSwap | SendOpcode::FetchAdd => posted
                .original
                .map(|original| original.to_ne_bytes().to_vec()),
            _ => None,
        };
        if let Some(bytes) = landed
            && memory.peek(side.local_key, posted.local_addr, bytes.len()) != bytes.as_slice()
        {
            let invariant = if posted.is_atomic() { "I2" } else { "I4" };
            return violated(
                invariant,
                format!("the response of request {index}"),
                "other bytes",
            );
        }
        Ok(())
    }

    /// The first failure of a queue pair has to have a reason.
    fn send_failed(&mut self, at: usize, index: usize, status: WcStatus, now: u64) -> Check {
        let peer = self.sides[at].peer;
        let side = &self.sides[at];
        let posted = &side.posted[index];
        let range = posted.start..posted.start + posted.packets;
        let explained = match status {
            // Moved to Error from outside its send queue.
            _ if !self.trusted => true,
            WcStatus::WrFlushErr => side.forced || side.may_be_killed || side.receive_failed,
            WcStatus::RetryExcErr => {
                let most = side.sent.iter().enumerate().skip(range.start as usize);
                let most = most
                    .take(posted.packets as usize)
                    .map(|(_, sent)| sent.count)
                    .max();
                // A READ that is resumed has its first transmission under another PSN.
                let least =
                    u32::from(side.retry_cnt) + u32::from(posted.op != SendOpcode::RdmaRead);
                if most.unwrap_or(0) < least {
                    return violated(
                        "I10",
                        format!("request {index} sent {least} times before giving up"),
                        format!("{most:?} times"),
                    );
                }
                if self
                    .healed_at
                    .is_some_and(|healed| self.must_be_answered(at, index, healed))
                {
                    return violated(
                        "liveness",
                        format!("request {index} answered on the healed wire"),
                        format!("given up at {now}"),
                    );
                }
                true
            }
            WcStatus::RnrRetryExcErr => {
                let most = side
                    .rnr_naks
                    .range(range)
                    .map(|(_, &count)| count)
                    .max()
                    .unwrap_or(0);
                if side.rnr_retry == 7 || most <= u32::from(side.rnr_retry) {
                    return violated(
                        "I9",
                        format!(
                            "rnr_retry {} before giving up (7 is infinite)",
                            side.rnr_retry
                        ),
                        format!("{most} RNR NAKs"),
                    );
                }
                true
            }
            WcStatus::RemInvReqErr if posted.is_read_or_atomic() && side.overcommits => true,
            WcStatus::RemInvReqErr | WcStatus::RemOpErr if self.sides[peer].receive_failed => true,
            status => match posted.plan {
                Plan::RemoteFails(planned) | Plan::LocalFails(planned) => planned == status,
                Plan::Good => false,
            },
        };
        if explained {
            return Ok(());
        }
        violated(
            "I11",
            format!(
                "request {index} {:?} succeeds or fails for a reason",
                posted.plan
            ),
            format!("{status:?}"),
        )
    }

    /// Whether a request was sent so long after the wire healed that a living peer had to answer it.
    fn must_be_answered(&self, at: usize, index: usize, healed: u64) -> bool {
        /// Longer than the latest straggler from before and the way there and back.
        const STRAGGLERS_NS: u64 = 100_000;
        const ROUND_TRIP_NS: u64 = 30_000;
        let side = &self.sides[at];
        let peer = &self.sides[side.peer];
        let posted = &side.posted[index];
        let range = posted.start as usize..(posted.start + posted.packets) as usize;
        let last = side.sent.get(range.start..range.end.min(side.sent.len()));
        let last = last
            .and_then(|sent| sent.iter().map(|sent| sent.last).max())
            .unwrap_or(0);
        let doomed = peer.may_be_killed || peer.forced || peer.failed.is_some();
        !doomed
            && !peer.receive_failed
            && !side.overcommits
            && posted.plan == Plan::Good
            && last >= healed + STRAGGLERS_NS
            && side
                .timeout_ns
                .is_some_and(|timeout| timeout >= ROUND_TRIP_NS)
    }

    /// After everything was moved to Error: each request and receive has completed exactly once (I11).
    pub fn all_accounted(&self, at: usize) -> Check {
        let side = &self.sides[at];
        let left = side.next_completion..side.posted.len();
        let open = left
            .clone()
            .find(|&i| side.posted[i].signaled || side.failed.is_some());
        if let Some(index) = open {
            return violated(
                "I11",
                format!("request {index} of {} completes", left.end),
                "it never did",
            );
        }
        if side.next_receive != side.receives.len() {
            return violated(
                "I11",
                format!("{} receives complete", side.receives.len()),
                format!("{}", side.next_receive),
            );
        }
        Ok(())
    }
}

fn describes(posted: &Posted, c: &Completion, bytes: usize) -> bool {
    let (opcode, flags) = match posted.op {
        SendOpcode::RdmaWriteImm => (WcOpcode::RecvRdmaWithImm, WcFlags::WITH_IMM),
        SendOpcode::SendImm => (WcOpcode::Recv, WcFlags::WITH_IMM),
        SendOpcode::SendInv => (WcOpcode::Recv, WcFlags::WITH_INV),
        _ => (WcOpcode::Recv, WcFlags::empty()),
    };
    let value = flags.is_empty() || c.imm_or_rkey == posted.imm_or_key;
    c.opcode == opcode
        && c.flags - WcFlags::GRH == flags
        && value
        && c.byte_len as usize == bytes
        && c.solicited == posted.solicited
}

/// Rights of the region that a peer may write, read and work on.
pub(super) const REMOTE: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC);

/// The protection domain of a foreign region.
pub(super) const FOREIGN_PD: u32 = PD + 1;
