//! The reference model: what was posted, what may be touched, what must arrive. It knows nothing of the machine's state.
//!
//! Applications tell it what they post before the machine hears of it; completions, answers and every store that
//! reaches application memory are held against that. A broken law is reported with its ID of `facts/invariants.md`.

use std::collections::VecDeque;

use ferriband_transport::direct::sender::TIMEOUT_FLOOR_NS;
use ferriband_transport::direct::{Record, Response};
use ferriband_transport::types::{
    Completion, SendOpcode, WcFlags, WcOpcode, WcStatus, ack_timeout_ns, rnr_timer_ns,
};

use super::memory::{SegId, Store};
use super::ringwatch::takes_receive;
use super::world::{Ctx, World};

const I1: &str = "I1 (a message executes once, in posting order)";
const I2: &str = "I2 (an atomic executes once, and returns the value it found)";
const I3: &str = "I3 (a READ returns the bytes of its own range)";
const I4_RECV: &str = "I4 (a receive completes only after all its bytes are placed)";
const I4_SEND: &str = "I4 (a send completes only after a receive was consumed)";
const I4_LAST: &str = "I4 (the last byte of a WRITE becomes visible last)";
const I7: &str =
    "I7/MARKS (memory is touched only as a valid key allows, and never after its revocation)";
const I9: &str = "I9 (an RNR NAK holds the sender back for its timer)";
const I11: &str =
    "I11 (each request completes once, in order, with its status; errors flush the rest)";
const I12: &str = "I12 (SQD: nothing new begins, what was begun ends)";

/// Content of a message: byte `i` follows from the number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Pattern(pub u64);

impl Pattern {
    pub fn byte(self, i: usize) -> u8 {
        let mixed = (self.0 ^ (i as u64 >> 3)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (8 * (i & 7))) as u8
    }

    pub fn bytes(self, len: usize) -> Vec<u8> {
        (0..len).map(|i| self.byte(i)).collect()
    }
}

/// Service of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Service {
    Rc,
    Uc,
    Ud,
}

/// A request as the application knows it.
#[derive(Clone, Debug)]
pub(super) struct Req {
    pub wr_id: u64,
    pub opcode: SendOpcode,
    pub len: usize,
    pub imm: u32,
    pub signaled: bool,
    pub solicited: bool,
    /// What arrives: at the peer, or here for a READ.
    pub pattern: Pattern,
    /// Offset of the own source or destination in this process's application memory.
    pub local: usize,
    /// Offset of the remote range in the peer's.
    pub remote: usize,
    pub rkey: u32,
    /// Value that an atomic finds.
    pub finds: u64,
    /// The one status with which it has to fail.
    pub bad: Option<WcStatus>,
    pub received: bool,
}

impl Req {
    fn takes_receive(&self) -> bool {
        use SendOpcode::{RdmaWriteImm, Send, SendImm, SendInv};
        matches!(self.opcode, Send | SendImm | SendInv | RdmaWriteImm)
    }

    fn writes(&self) -> bool {
        matches!(
            self.opcode,
            SendOpcode::RdmaWrite | SendOpcode::RdmaWriteImm
        )
    }

    fn is_atomic(&self) -> bool {
        matches!(self.opcode, SendOpcode::CmpSwap | SendOpcode::FetchAdd)
    }
}

/// A receive as posted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recv {
    pub wr_id: u64,
    pub offset: usize,
    pub len: usize,
}

/// One direction of a connection.
#[derive(Default, Debug)]
pub(super) struct Flow {
    pub reqs: Vec<Req>,
    /// Requests below have completed, with an entry or silently.
    pub completed: usize,
    pub failed: bool,
    next_consumer: usize,
    pub recvs: VecDeque<Recv>,
    /// Writes whose bytes the next message proves.
    unproven: Vec<usize>,
    pub word: u64,
    pub sqd_from: Option<usize>,
    pub drained: bool,
    rnr: Option<(u32, u64)>,
    /// The record refused last, and how often in a row.
    refused: (u32, u32),
}

/// How far an end of a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EndState {
    Reset,
    Rtr,
    Rts,
    Error,
    Dead,
}

/// One end.
#[derive(Debug)]
pub(super) struct End {
    pub process: usize,
    pub qpn: u32,
    pub state: EndState,
    /// Remote key of its window region now; 0 while there is none.
    pub rkey: u32,
    /// Remote key of its memory window while bound.
    pub window: u32,
    pub arena: Arena,
}

/// Where an end's buffers lie in its process's application memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arena {
    pub base: usize,
    pub slot: usize,
    pub window: usize,
}

/// Receives of one end at a time.
pub(super) const RECVS: usize = 12;

impl Arena {
    pub fn source(&self, index: usize) -> usize {
        self.base + index % self.window * self.slot
    }

    pub fn read_dst(&self, index: usize) -> usize {
        self.base + (self.window + index % self.window) * self.slot
    }

    pub fn recv(&self, index: usize) -> usize {
        self.base + (2 * self.window + index % RECVS) * self.slot
    }

    /// First byte and length of what peers reach.
    pub fn exposed(&self) -> (usize, usize) {
        (
            self.base + (2 * self.window + RECVS) * self.slot,
            (self.window + 2) * self.slot,
        )
    }

    pub fn landing(&self, index: usize) -> usize {
        self.exposed().0 + index % self.window * self.slot
    }

    /// A range that never changes.
    pub fn fixed(&self) -> usize {
        self.exposed().0 + self.window * self.slot
    }

    pub fn word(&self) -> usize {
        self.exposed().0 + (self.window + 1) * self.slot
    }

    pub fn end(&self) -> usize {
        let (start, len) = self.exposed();
        start + len
    }
}

/// A connection (or two datagram queue pairs that talk to each other).
#[derive(Debug)]
pub(super) struct Conn {
    pub service: Service,
    pub ends: [End; 2],
    pub flows: [Flow; 2],
    pub wants_reset: bool,
    pub generation: u32,
    pub seq: [u32; 2],
    pub rnr_retry: u8,
    pub rnr_code: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    /// Nothing happened to it that could end a request badly.
    pub clean: bool,
    /// An end was not ready to receive, or died.
    /// Since when.
    pub unsteady: Option<u64>,
    pub revoked: bool,
    pub short_recv: bool,
    pub bad_recv: bool,
}

impl Conn {
    /// Something happened that may end its requests badly.
    pub fn disturb(&mut self, now: u64) {
        self.clean = false;
        self.unsteady.get_or_insert(now);
    }
}

struct Allow {
    owner: usize,
    start: usize,
    end: usize,
    write: bool,
    /// Process that may touch it beside its owner's machine.
    by: usize,
    key: u32,
    conn: usize,
    dir: usize,
    req: usize,
    /// Ends with the completion; else with the reuse of the range, or a revocation.
    local: bool,
    whole: Option<Pattern>,
}

/// The model of everything.
#[derive(Default)]
pub(super) struct Oracle {
    pub conns: Vec<Conn>,
    pub apps: Vec<SegId>,
    allows: Vec<Allow>,
    pub messages: u64,
    pub bytes: u64,
    pub failures: u64,
}

impl Oracle {
    /// Connection and end of a queue pair number.
    pub fn find(&self, qpn: u32) -> (usize, usize) {
        let ends = self.conns.iter().enumerate();
        let found = ends
            .flat_map(|(conn, it)| {
                it.ends
                    .iter()
                    .enumerate()
                    .map(move |(side, end)| (conn, side, end))
            })
            .find(|(_, _, end)| end.qpn == qpn);
        found
            .map(|(conn, side, _)| (conn, side))
            .expect("queue pairs belong to connections")
    }

    /// Notes a request before the machine hears of it.
    pub fn posts(&mut self, conn: usize, dir: usize, req: Req) {
        let (from, to) = (
            self.conns[conn].ends[dir].process,
            self.conns[conn].ends[1 - dir].process,
        );
        let index = self.conns[conn].flows[dir].reqs.len();
        let (len, bad) = (req.len, req.bad.is_some());
        // a store may linger in its process's buffer after the completion, but not for so many requests
        let old = 2 * self.conns[conn].ends[dir].arena.window;
        self.allows.retain(|allow| {
            allow.local || (allow.conn, allow.dir) != (conn, dir) || allow.req + old > index
        });
        let flow = &mut self.conns[conn].flows[dir];
        let mut allow = |owner, start, len, write, by, local, whole| {
            let key = if local { 0 } else { req.rkey };
            let end = start + len;
            self.allows.push(Allow {
                owner,
                start,
                end,
                write,
                by,
                key,
                conn,
                dir,
                req: index,
                local,
                whole,
            });
        };
        if req.writes() || req.takes_receive() {
            allow(from, req.local, len, false, to, true, None);
        }
        if req.writes() && !bad {
            allow(to, req.remote, len, true, from, false, Some(req.pattern));
            let reused = req.remote;
            let reqs = &flow.reqs;
            flow.unproven.retain(|write| reqs[*write].remote != reused);
            flow.unproven.push(index);
        }
        if req.opcode == SendOpcode::RdmaRead {
            allow(from, req.local, len, true, from, true, None);
            if !bad {
                // reading needs no exclusive range
                let (start, end, key) = (req.remote, req.remote + len, req.rkey);
                let (owner, by, local) = (to, from, false);
                self.allows.push(Allow {
                    owner,
                    start,
                    end,
                    write: false,
                    by,
                    key,
                    conn,
                    dir,
                    req: index,
                    local,
                    whole: None,
                });
            }
        }
        if req.is_atomic() {
            let mut allow = |owner, start, by, local| {
                let (end, key) = (start + 8, if local { 0 } else { req.rkey });
                self.allows.push(Allow {
                    owner,
                    start,
                    end,
                    write: true,
                    by,
                    key,
                    conn,
                    dir,
                    req: index,
                    local,
                    whole: None,
                });
            };
            allow(from, req.local, from, true);
            if !bad {
                allow(to, req.remote, from, false);
            }
        }
        if bad {
            self.conns[conn].clean = false;
        }
        self.conns[conn].flows[dir].reqs.push(req);
    }

    /// Notes a receive of the end that `dir` leads to.
    pub fn posts_recv(&mut self, conn: usize, dir: usize, recv: Recv) {
        let owner = self.conns[conn].ends[1 - dir].process;
        let (start, end) = (recv.offset, recv.offset + recv.len);
        let req = recv.wr_id as usize;
        self.allows.push(Allow {
            owner,
            start,
            end,
            write: true,
            by: owner,
            key: 0,
            conn,
            dir: dir + 2,
            req,
            local: true,
            whole: None,
        });
        self.conns[conn].flows[dir].recvs.push_back(recv);
    }

    fn end_local(&mut self, conn: usize, dir: usize, req: usize) {
        self.allows.retain(|allow| {
            !(allow.local && (allow.conn, allow.dir, allow.req) == (conn, dir, req))
        });
    }

    /// A key is revoked and its marks are gone: nobody may touch what it named.
    pub fn key_is_gone(&mut self, owner: usize, key: u32) {
        self.allows
            .retain(|allow| allow.owner != owner || allow.key != key || allow.local);
    }

    /// What an end of this queue pair gave out may be refused from here on.
    pub fn end_revokes(&mut self, qpn: u32) {
        let (conn, _) = self.find(qpn);
        let it = &mut self.conns[conn];
        (it.revoked, it.clean) = (true, false);
    }

    /// An end's queue pair is revoked and its marks are gone: nobody may touch anything by it.
    pub fn end_is_gone(&mut self, conn: usize, side: usize) {
        let toward = 1 - side;
        self.allows
            .retain(|allow| (allow.conn, allow.dir) != (conn, toward) || allow.local);
    }

    /// A new life of a connection, after both ends were reset.
    pub fn renew(&mut self, conn: usize) {
        self.allows.retain(|allow| allow.conn != conn);
        let conn = &mut self.conns[conn];
        conn.flows = Default::default();
        conn.generation += 1;
        conn.wants_reset = false;
        (conn.clean, conn.unsteady, conn.revoked) = (conn.rnr_retry == 7, None, false);
        (conn.short_recv, conn.bad_recv) = (false, false);
    }

    /// A process is gone.
    pub fn process_died(&mut self, process: usize, now: u64) {
        for conn in &mut self.conns {
            for side in 0..2 {
                if conn.ends[side].process == process {
                    conn.ends[side].state = EndState::Dead;
                    conn.disturb(now);
                }
            }
        }
    }

    /// The machine of `me` loads application memory.
    pub fn machine_load(&self, world: &World, me: usize, owner: usize, off: usize, len: usize) {
        if len == 0 {
            return;
        }
        let allowed = self.allows.iter().any(|allow| {
            allow.owner == owner
                && (me == owner || allow.by == me)
                && allow.start <= off
                && off + len <= allow.end
        });
        if !allowed {
            let got = format!(
                "process {me} loads {off:#x}..{:#x} of process {owner}",
                off + len
            );
            world.fail(I7, "a load that an outstanding request asks for", got);
        }
    }

    /// The machine of `me` stores to its own application memory.
    pub fn own_store(&self, world: &World, me: usize, off: usize, len: usize) {
        self.check_store(world, me, me, off, len);
    }

    fn check_store(&self, world: &World, by: usize, owner: usize, off: usize, len: usize) {
        let allowed = self.allows.iter().any(|allow| {
            allow.write
                && allow.owner == owner
                && (by == owner || allow.by == by)
                && allow.start <= off
                && off + len <= allow.end
        });
        if !allowed {
            let got = format!(
                "process {by} stores {off:#x}..{:#x} of process {owner}",
                off + len
            );
            world.fail(
                I7,
                "a store that an outstanding request asks for, before any revocation ended",
                got,
            );
        }
    }

    /// A store reached memory.
    pub fn became_visible(&self, world: &World, by: usize, store: &Store) {
        let Some(owner) = self.apps.iter().position(|app| *app == store.seg) else {
            return;
        };
        let (off, len) = (store.off, store.bytes().len());
        if owner != by {
            self.check_store(world, by, owner, off, len);
        }
        let covers = |allow: &&Allow| {
            allow.owner == owner
                && allow.whole.is_some()
                && off < allow.end
                && allow.end <= off + len
        };
        for allow in self.allows.iter().filter(covers) {
            let pattern = allow.whole.unwrap_or_default();
            let from = allow.start.max(off);
            let is_its_own = (from..allow.end)
                .all(|at| store.bytes()[at - off] == pattern.byte(at - allow.start));
            if !is_its_own {
                // the range's former use
                continue;
            }
            let mut seen = vec![0; allow.end - allow.start];
            world
                .memory
                .borrow()
                .read(store.seg, allow.start, &mut seen);
            if let Some(wrong) = (0..seen.len()).find(|i| seen[*i] != pattern.byte(*i)) {
                let got = format!(
                    "byte {wrong} of {} is still old when the last is new",
                    seen.len()
                );
                world.fail(I4_LAST, "all bytes before the last", got);
            }
        }
    }

    /// A completion of a send queue.
    pub fn sent(&mut self, ctx: Ctx<'_>, completion: &Completion) {
        let (conn, dir) = self.find(completion.qp_num);
        let flow = &self.conns[conn].flows[dir];
        let Some(at) =
            (flow.completed..flow.reqs.len()).find(|i| flow.reqs[*i].wr_id == completion.wr_id)
        else {
            let expected = format!(
                "a request not completed yet, from {} of {}",
                flow.completed,
                flow.reqs.len()
            );
            return ctx.world.fail(I11, expected, format!("{completion:?}"));
        };
        for silent in flow.completed..at {
            if self.conns[conn].flows[dir].reqs[silent].signaled
                || self.conns[conn].flows[dir].failed
            {
                let expected = format!("first {:?}", self.conns[conn].flows[dir].reqs[silent]);
                return ctx.world.fail(I11, expected, format!("{completion:?}"));
            }
            self.succeeded(ctx, conn, dir, silent);
        }
        self.conns[conn].flows[dir].completed = at + 1;
        if !self.legal(ctx.world.now(), conn, dir, at, completion.status) {
            let req = self.conns[conn].flows[dir].reqs[at].clone();
            let it = &self.conns[conn];
            let why = format!(
                "clean {}, unsteady {:?}, revoked {}, failed {}, ends {:?} {:?}",
                it.clean,
                it.unsteady,
                it.revoked,
                it.flows[dir].failed,
                it.ends[0].state,
                it.ends[1].state
            );
            return ctx.world.fail(
                I11,
                format!("a status that {req:?} may end with ({why})"),
                format!("{completion:?}"),
            );
        }
        if completion.status == WcStatus::Success {
            self.succeeded(ctx, conn, dir, at);
            let req = &self.conns[conn].flows[dir].reqs[at];
            if completion.opcode != req.opcode.completion() {
                ctx.world.fail(
                    I11,
                    format!("{:?}", req.opcode.completion()),
                    format!("{completion:?}"),
                );
            }
        } else {
            self.failures += 1;
            self.end_local(conn, dir, at);
            self.conns[conn].flows[dir].failed = true;
            self.conns[conn].disturb(ctx.world.now());
        }
    }

    fn legal(&self, now: u64, conn: usize, dir: usize, at: usize, status: WcStatus) -> bool {
        let it = &self.conns[conn];
        let (flow, req) = (&it.flows[dir], &it.flows[dir].reqs[at]);
        if flow.failed {
            return status == WcStatus::WrFlushErr;
        }
        if status == WcStatus::Success {
            return req.bad.is_none();
        }
        if it.clean {
            return false;
        }
        let reliable = it.service == Service::Rc;
        match status {
            status if req.bad == Some(status) => true,
            WcStatus::WrFlushErr => matches!(it.ends[dir].state, EndState::Error | EndState::Reset),
            // I10: not before the timeout, times the retries and the first try, nor before the floor
            WcStatus::RetryExcErr => {
                let timeout = ack_timeout_ns(it.timeout).unwrap_or(u64::MAX);
                let limit = timeout.saturating_mul(u64::from(it.retry_cnt) + 1);
                let waited = it.unsteady.map_or(0, |since| now - since);
                reliable && waited >= limit.max(TIMEOUT_FLOOR_NS)
            }
            WcStatus::RemAccessErr => reliable && it.revoked,
            WcStatus::MwBindErr => it.revoked && req.opcode == SendOpcode::BindMw,
            WcStatus::LocQpOpErr => it.revoked && req.opcode == SendOpcode::LocalInv,
            WcStatus::RemInvReqErr => reliable && it.short_recv,
            WcStatus::RemOpErr => reliable && it.bad_recv,
            // I9: every retry was used, and the count began anew with this request
            WcStatus::RnrRetryExcErr => {
                let refusals = u32::from(it.rnr_retry) + 1;
                reliable && it.rnr_retry < 7 && flow.refused.1 == refusals
            }
            _ => false,
        }
    }

    /// A request succeeded, by an entry or silently: its effect must be there.
    fn succeeded(&mut self, ctx: Ctx<'_>, conn: usize, dir: usize, at: usize) {
        let it = &self.conns[conn];
        let (req, service) = (&it.flows[dir].reqs[at], it.service);
        let (here, there) = (it.ends[dir].process, it.ends[1 - dir].process);
        if service == Service::Rc && req.takes_receive() && !req.received {
            ctx.world
                .fail(I4_SEND, "a receive completed before", format!("{req:?}"));
        }
        let check = |invariant, process: usize, offset: usize, bytes: &[u8]| {
            let mut seen = vec![0; bytes.len()];
            ctx.peek(self.apps[process], offset, &mut seen);
            if let Some(wrong) = (0..seen.len()).find(|i| seen[*i] != bytes[*i]) {
                let got = format!("byte {wrong} is {:#x} for {req:?}", seen[wrong]);
                ctx.world
                    .fail(invariant, format!("{:#x}", bytes[wrong]), got);
            }
        };
        if req.opcode == SendOpcode::RdmaRead {
            check(I3, here, req.local, &req.pattern.bytes(req.len));
        }
        if req.is_atomic() {
            check(I2, here, req.local, &req.finds.to_ne_bytes());
        }
        if req.writes()
            && service == Service::Rc
            && !it.revoked
            && it.ends[1 - dir].state != EndState::Error
        {
            check(I1, there, req.remote, &req.pattern.bytes(req.len));
        }
        self.messages += 1;
        self.bytes += self.conns[conn].flows[dir].reqs[at].len as u64;
        self.end_local(conn, dir, at);
    }

    /// A completion of a receive queue.
    pub fn received(&mut self, ctx: Ctx<'_>, completion: &Completion) {
        let (conn, side) = self.find(completion.qp_num);
        let dir = 1 - side;
        let state = self.conns[conn].ends[side].state;
        let Some(recv) = self.conns[conn].flows[dir].recvs.pop_front() else {
            return ctx
                .world
                .fail(I11, "a posted receive", format!("{completion:?}"));
        };
        self.end_local(conn, dir + 2, recv.wr_id as usize);
        if recv.wr_id != completion.wr_id {
            return ctx.world.fail(
                I11,
                format!("the oldest receive, {}", recv.wr_id),
                format!("{completion:?}"),
            );
        }
        let it = &self.conns[conn];
        let legal = match completion.status {
            WcStatus::Success => matches!(state, EndState::Rtr | EndState::Rts),
            WcStatus::WrFlushErr => state == EndState::Error,
            WcStatus::LocLenErr => it.short_recv && it.service == Service::Rc,
            WcStatus::LocProtErr => it.bad_recv,
            WcStatus::LocAccessErr => it.revoked,
            _ => false,
        };
        if !legal {
            return ctx.world.fail(
                I11,
                format!("a legal end of a receive while {state:?}"),
                format!("{completion:?}"),
            );
        }
        if completion.status == WcStatus::Success {
            self.arrived(ctx, conn, dir, recv, completion);
        } else {
            self.conns[conn].disturb(ctx.world.now());
        }
    }

    /// A message arrived: it must be the next one, whole, after everything that was posted before it.
    fn arrived(
        &mut self,
        ctx: Ctx<'_>,
        conn: usize,
        dir: usize,
        recv: Recv,
        completion: &Completion,
    ) {
        let it = &self.conns[conn];
        let (service, flow) = (it.service, &it.flows[dir]);
        let mut consumers =
            (flow.next_consumer..flow.reqs.len()).filter(|i| flow.reqs[*i].takes_receive());
        // unreliable services lose messages; each carries its number
        let next = match service {
            Service::Rc => consumers.next(),
            _ => consumers.find(|i| flow.reqs[*i].imm == completion.imm_or_rkey),
        };
        let Some(at) = next else {
            return ctx.world.fail(
                I1,
                "a message that was posted and has not arrived",
                format!("{completion:?}"),
            );
        };
        let req = &flow.reqs[at];
        let is_write = req.writes();
        let grh = if service == Service::Ud { 40 } else { 0 };
        let right = completion.byte_len as usize == req.len + grh
            && (completion.opcode == WcOpcode::RecvRdmaWithImm) == is_write
            && completion.solicited == req.solicited
            && match req.opcode {
                SendOpcode::SendImm | SendOpcode::RdmaWriteImm => {
                    completion.flags.contains(WcFlags::WITH_IMM)
                        && completion.imm_or_rkey == req.imm
                }
                SendOpcode::SendInv => {
                    completion.flags.contains(WcFlags::WITH_INV)
                        && completion.imm_or_rkey == req.imm
                }
                _ => !completion
                    .flags
                    .intersects(WcFlags::WITH_IMM | WcFlags::WITH_INV),
            };
        if !right || req.bad.is_some() {
            return ctx
                .world
                .fail(I1, format!("{req:?}"), format!("{completion:?}"));
        }
        let drained = flow.drained && service != Service::Ud;
        if drained || flow.sqd_from.is_some_and(|from| at >= from) {
            return ctx.world.fail(
                I12,
                "no message while SQD holds the queue",
                format!("{req:?}"),
            );
        }
        let here = it.ends[1 - dir].process;
        let place = if is_write {
            req.remote
        } else {
            recv.offset + grh
        };
        let check = |invariant, what: &Req, offset: usize| {
            let mut seen = vec![0; what.len];
            ctx.peek(self.apps[here], offset, &mut seen);
            if let Some(wrong) = (0..seen.len()).find(|i| seen[*i] != what.pattern.byte(*i)) {
                let expected = format!(
                    "{:#x} at byte {wrong} of {}",
                    what.pattern.byte(wrong),
                    what.len
                );
                ctx.world.fail(
                    invariant,
                    expected,
                    format!("{:#x} for {what:?}", seen[wrong]),
                );
            }
        };
        let overwritten = is_write && (service != Service::Rc || it.revoked);
        if !overwritten {
            check(I4_RECV, req, place);
        }
        if service == Service::Rc && !it.revoked {
            for write in flow.unproven.iter().filter(|write| **write < at) {
                check(I1, &flow.reqs[*write], flow.reqs[*write].remote);
            }
        }
        if service == Service::Ud
            && !completion.flags.contains(WcFlags::GRH)
            && completion.src_qp != it.ends[dir].qpn
        {
            ctx.world.fail(
                I1,
                format!("from {}", it.ends[dir].qpn),
                format!("{completion:?}"),
            );
        }
        let flow = &mut self.conns[conn].flows[dir];
        flow.unproven.retain(|write| *write > at);
        flow.reqs[at].received = true;
        flow.next_consumer = at + 1;
    }

    /// The target answered a record of a connection.
    pub fn answered(&mut self, world: &World, record: &Record, response: Response) {
        let (conn, side) = self.find(record.dst_qpn);
        let flow = &mut self.conns[conn].flows[1 - side];
        let seq = record.seq & 0xff_ffff;
        if let Response::Rnr(code) = response {
            flow.rnr = Some((seq, world.now() + rnr_timer_ns(code)));
            let again = if flow.refused.0 == seq {
                flow.refused.1
            } else {
                0
            };
            flow.refused = (seq, again + 1);
        }
    }

    /// The machine says that nothing that was begun is left (SQD).
    pub fn drained(&mut self, world: &World, conn: usize, dir: usize) {
        let flow = &mut self.conns[conn].flows[dir];
        flow.drained = true;
        if let Some((seq, _)) = flow.rnr {
            let got = format!("record {seq} waits for its RNR timer");
            world.fail(I12, "what was begun ends before the queue is drained", got);
        }
    }

    /// The target is about to execute a record.
    pub fn executes(&mut self, world: &World, record: &Record) {
        let Some((conn, side)) = self.known(record.dst_qpn) else {
            return;
        };
        let flow = &mut self.conns[conn].flows[1 - side];
        if let Some((seq, until)) = flow.rnr
            && seq == record.seq & 0xff_ffff
            && takes_receive(record)
        {
            if world.now() < until {
                world.fail(
                    I9,
                    format!("nothing before {until}"),
                    format!("record {seq} again at {}", world.now()),
                );
            }
            flow.rnr = None;
        }
    }

    fn known(&self, qpn: u32) -> Option<(usize, usize)> {
        let known = self
            .conns
            .iter()
            .any(|conn| conn.ends.iter().any(|end| end.qpn == qpn));
        known.then(|| self.find(qpn))
    }

    /// After everything came to rest: nothing may be missing.
    pub fn at_rest(&self, world: &World) {
        for conn in &self.conns {
            if !conn.clean || conn.service != Service::Rc {
                continue;
            }
            for flow in &conn.flows {
                let lost = flow
                    .reqs
                    .iter()
                    .find(|req| req.takes_receive() && !req.received);
                if let Some(lost) = lost {
                    world.fail(
                        "LIVENESS",
                        "every message of an undisturbed connection arrives",
                        format!("{lost:?}"),
                    );
                }
                let last = flow.reqs[flow.completed..].iter().find(|req| req.signaled);
                if let Some(last) = last {
                    world.fail(
                        "LIVENESS",
                        "every signaled request completes",
                        format!("{last:?}"),
                    );
                }
            }
        }
    }
}
