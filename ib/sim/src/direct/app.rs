//! The application of a simulated process: posts, receives, disturbs, reconnects. All it does follows from its seed.
//!
//! Owns buffers, keys and the connection set-up of its ends; tells the oracle everything before the machine hears it.

use ferriband_transport::direct::layout::KeyEntry;
use ferriband_transport::direct::mark::Revoked;
use ferriband_transport::direct::{BindRequest, SendRequest};
use ferriband_transport::types::{Access, SendFlags, SendOpcode, Sge, WcStatus};

use super::host::{SimLink, app_base};
use super::oracle::{Arena, EndState, Pattern, RECVS, Recv, Req, Service};
use super::plan::{Mood, Plan};
use super::process::{MAX_INLINE, PD, Process, Qp};
use crate::rng::Rng;

/// Content of the range of an end that never changes.
pub(super) fn fixed_pattern(conn: usize, side: usize) -> Pattern {
    Pattern(0xf1f1_0000_0000 + conn as u64 * 2 + side as u64)
}

#[derive(Default)]
struct EndApp {
    generation: u32,
    lkey: u32,
    slot: u32,
    variant: u32,
    next_recv: u64,
    /// Requests below have completed and their sources were overwritten.
    scribbled: usize,
    /// A bind on its way: request and key.
    binding: Option<(usize, u32)>,
    bound: u32,
    held_until: u64,
    /// SQD lasts until the queue has drained, as a program that waits for the event has it.
    until_drained: bool,
}

/// A process with its application.
pub(super) struct App<'s> {
    pub process: Process<'s>,
    plan: &'s Plan,
    ends: Vec<EndApp>,
    rng: Rng,
    ops_left: u32,
    next_op: u64,
}

impl<'s> App<'s> {
    pub fn new(process: Process<'s>, plan: &'s Plan, rng: Rng) -> Self {
        let ends = process
            .qps
            .iter()
            .map(|_| EndApp {
                variant: 1,
                ..EndApp::default()
            })
            .collect();
        App {
            process,
            plan,
            ends,
            rng,
            ops_left: plan.ops,
            next_op: 0,
        }
    }

    /// The program, until the run ends.
    pub fn run(mut self) {
        for at in 0..self.ends.len() {
            self.register(at);
        }
        let world = self.process.ctx.world;
        let me = self.process.ctx.me;
        while !world.stop.get() {
            let mut worked = self.process.round(true);
            for at in 0..self.ends.len() {
                worked |= self.manage(at);
            }
            if world.healing.get() {
                self.ops_left = 0;
            } else if self.ops_left > 0 && world.now() >= self.next_op {
                self.ops_left -= 1;
                self.act();
                self.next_op = world.now() + self.rng.below(self.plan.pace_ns);
                worked = true;
            }
            world.fates[me].finished.set(self.ops_left == 0);
            if !worked {
                self.wait();
            }
        }
    }

    fn wait(&mut self) {
        let world = self.process.ctx.world;
        let held = self.ends.iter().any(|end| end.held_until != 0);
        let quiet = self.ops_left == 0 && self.process.at_rest() && !held;
        world.resting[self.process.ctx.me].set(quiet);
        let until = if self.ops_left > 0 {
            self.next_op
        } else {
            u64::MAX
        };
        if self.plan.sleepers & 1 << self.process.ctx.me != 0 {
            let look = if world.healing.get() {
                until
            } else {
                until.min(world.now() + 50_000)
            };
            let look = if held {
                look.min(world.now() + 5_000)
            } else {
                look
            };
            // a channel that comes up wakes the process, as its control socket does
            let channels = self.process.host.links.iter().map(|link| link.0.ready_at);
            let comes_up = channels.filter(|at| *at > world.now()).min();
            self.process.sleep(look.min(comes_up.unwrap_or(u64::MAX)));
        } else {
            let pause = 200 + self.rng.below(1_000);
            self.process
                .ctx
                .sleep_until(world.now() + if world.healing.get() { 20_000 } else { pause });
        }
        world.resting[self.process.ctx.me].set(false);
    }

    fn qp(&self, at: usize) -> &Qp<'s> {
        &self.process.qps[at]
    }

    /// Makes the end's memory known: one local key, one that peers use, one window.
    fn register(&mut self, at: usize) {
        let (conn, side) = (self.qp(at).conn, self.qp(at).side);
        let me = self.process.ctx.me;
        let arena = self.process.ctx.world.oracle.borrow().conns[conn].ends[side].arena;
        let base = app_base(me);
        let lkey = ((1 + 3 * at) as u32) << 8 | 1;
        let addr = base + arena.base as u64;
        let local = KeyEntry {
            key: lkey,
            access: Access::LOCAL_WRITE,
            iova: addr,
            length: (arena.end() - arena.base) as u64,
            addr,
            pd: PD,
            map_id: 0,
            map_offset: 0,
            only_qp: 0,
            window: false,
        };
        local.write(&self.process.host.own, 1 + 3 * at);
        self.ends[at].lkey = lkey;
        self.ends[at].slot = (3 + 3 * at) as u32;
        self.process.host.add_window((3 + 3 * at) as u32);
        self.expose(at);
    }

    /// Registers what peers reach, by a new key.
    fn expose(&mut self, at: usize) {
        let (conn, side) = (self.qp(at).conn, self.qp(at).side);
        let arena = self.process.ctx.world.oracle.borrow().conns[conn].ends[side].arena;
        let (start, len) = arena.exposed();
        let addr = app_base(self.process.ctx.me) + start as u64;
        let key = ((2 + 3 * at) as u32) << 8 | self.ends[at].variant & 0xfe;
        self.ends[at].variant += 2;
        let mapped = self.plan.mapped & 1 << (2 * conn + side) != 0;
        let entry = KeyEntry {
            key,
            access: Access::all() & !Access::ZERO_BASED,
            iova: addr,
            length: len as u64,
            addr,
            pd: PD,
            map_id: u32::from(mapped),
            map_offset: start as u64,
            only_qp: 0,
            window: false,
        };
        entry.write(&self.process.host.own, 2 + 3 * at);
        self.process.ctx.world.drain(self.process.ctx.me);
        self.process.ctx.world.oracle.borrow_mut().conns[conn].ends[side].rkey = key;
    }

    /// Takes what peers reach back while they use it, overwrites it, and exposes it again. With a
    /// window bound to it, or about to be, a region cannot be taken back (IBA 11.2.8.5).
    fn revoke_and_renew(&mut self, at: usize) {
        let (conn, side) = (self.qp(at).conn, self.qp(at).side);
        let world = self.process.ctx.world;
        if self.ends[at].bound != 0 || self.ends[at].binding.is_some() {
            return;
        }
        let (key, arena) = {
            let mut oracle = world.oracle.borrow_mut();
            let it = &mut oracle.conns[conn];
            (it.revoked, it.clean) = (true, false);
            (std::mem::take(&mut it.ends[side].rkey), it.ends[side].arena)
        };
        world.trace(|| format!("p{} revokes key {key:#x}", self.process.ctx.me));
        KeyEntry::revoke(&self.process.host.own, (key >> 8) as usize);
        // EBUSY: the memory is not the program's yet, which tries again
        while !self.process.host.wait_for_marks(Revoked::Key(key)) {}
        let app = {
            let mut oracle = world.oracle.borrow_mut();
            oracle.key_is_gone(self.process.ctx.me, key);
            oracle.apps[self.process.ctx.me]
        };
        for slot in 0..arena.window {
            self.process
                .ctx
                .store(app, arena.landing(slot), &[0xdd; 16]);
        }
        self.expose(at);
    }

    /// Connection set-up and upkeep of one end. True if something changed.
    fn manage(&mut self, at: usize) -> bool {
        let (conn, side) = (self.qp(at).conn, self.qp(at).side);
        let world = self.process.ctx.world;
        let (mine, other, wants_reset, generation) = {
            let oracle = world.oracle.borrow();
            let it = &oracle.conns[conn];
            (
                it.ends[side].state,
                it.ends[1 - side].state,
                it.wants_reset,
                it.generation,
            )
        };
        if self.ends[at].generation != generation {
            let old = std::mem::take(&mut self.ends[at]);
            let (lkey, slot, variant) = (old.lkey, old.slot, old.variant);
            self.ends[at] = EndApp {
                generation,
                lkey,
                slot,
                variant,
                ..EndApp::default()
            };
        }
        let peer = 1 - side;
        let link_ready = {
            let to = world.oracle.borrow().conns[conn].ends[peer].process;
            ferriband_transport::direct::Link::ready(&self.process.host.links[to])
        };
        let mut changed = false;
        match mine {
            EndState::Error if !wants_reset && other != EndState::Dead && !world.healing.get() => {
                world.oracle.borrow_mut().conns[conn].wants_reset = true;
                changed = true;
            }
            EndState::Rtr | EndState::Rts | EndState::Error
                if wants_reset && other != EndState::Dead =>
            {
                self.reset(at);
                changed = true;
            }
            EndState::Reset if !wants_reset && link_ready && other != EndState::Dead => {
                self.process.become_receiver(self.qp(at));
                changed = true;
            }
            EndState::Rtr if matches!(other, EndState::Rtr | EndState::Rts | EndState::Dead) => {
                self.process.become_sender(self.qp(at));
                changed = true;
            }
            EndState::Rtr if self.plan.eager && !wants_reset => {
                let mut oracle = world.oracle.borrow_mut();
                oracle.conns[conn].disturb(world.now());
                drop(oracle);
                self.process.become_sender(self.qp(at));
                changed = true;
            }
            _ => {}
        }
        changed |= self.scribble(at);
        changed |= self.release(at);
        changed | self.receive(at)
    }

    /// Resets an end; the second to do so begins the connection's next life.
    fn reset(&mut self, at: usize) {
        let (conn, side) = (self.qp(at).conn, self.qp(at).side);
        let world = self.process.ctx.world;
        world.oracle.borrow_mut().conns[conn].ends[side].window = 0;
        self.process.reset(self.qp(at));
        let slot = self.ends[at].slot;
        self.process.host.drop_window(slot);
        (self.ends[at].binding, self.ends[at].bound) = (None, 0);
        if self.rng.chance(400) {
            // destroyed, and created again at the same place
            let (qpn, index, service) = (self.qp(at).qpn, self.qp(at).index, self.qp(at).service);
            let earlier = self.qp(at).sender.borrow().incarnation();
            let max_wr = self.qp(at).max_wr;
            self.process.qps[at] = Qp::new(qpn, index, conn, side, service, max_wr, earlier);
        }
        let mut oracle = world.oracle.borrow_mut();
        let it = &oracle.conns[conn];
        if it.ends[1 - side].state != EndState::Reset || !it.wants_reset {
            return;
        }
        oracle.renew(conn);
        if self.rng.chance(500) {
            oracle.conns[conn].seq = [
                self.rng.below(1 << 24) as u32,
                self.rng.below(1 << 24) as u32,
            ];
        }
        for dir in 0..2 {
            let end = &oracle.conns[conn].ends[1 - dir];
            let mut word = [0; 8];
            world
                .memory
                .borrow()
                .read(oracle.apps[end.process], end.arena.word(), &mut word);
            oracle.conns[conn].flows[dir].word = u64::from_ne_bytes(word);
        }
    }

    /// Overwrites the sources of requests that completed: nobody may read them any more.
    fn scribble(&mut self, at: usize) -> bool {
        let (conn, dir) = (self.qp(at).conn, self.qp(at).side);
        let world = self.process.ctx.world;
        let from = self.ends[at].scribbled;
        let (app, done): (_, Vec<(usize, usize)>) = {
            let oracle = world.oracle.borrow();
            let it = &oracle.conns[conn];
            let (flow, arena) = (&it.flows[dir], it.ends[dir].arena);
            let done = &flow.reqs[from.min(flow.completed)..flow.completed];
            let used = done
                .iter()
                .enumerate()
                .filter(|(i, req)| req.local == arena.source(from + i));
            (
                oracle.apps[self.process.ctx.me],
                used.map(|(_, req)| (req.local, req.len)).collect(),
            )
        };
        let completed = world.oracle.borrow().conns[conn].flows[dir].completed;
        self.ends[at].scribbled = completed;
        for (offset, len) in done {
            if len > 0 {
                self.process.ctx.store(app, offset, &vec![0xee; len]);
            }
        }
        if let Some((req, key)) = self.ends[at].binding
            && completed > req
        {
            // the peer hears of the key by a message, which no store overtakes
            world.drain(self.process.ctx.me);
            let mut oracle = world.oracle.borrow_mut();
            self.ends[at].binding = None;
            if !oracle.conns[conn].flows[dir].failed {
                oracle.conns[conn].ends[dir].window = key;
                self.ends[at].bound = key;
            }
        }
        self.notice_invalidation(at, conn, dir);
        completed > from
    }

    /// The peer's SEND with invalidate, or a request of this side, ended the window: it may be
    /// bound again.
    fn notice_invalidation(&mut self, at: usize, conn: usize, side: usize) {
        let bound = self.ends[at].bound;
        if bound != 0
            && self.process.ctx.world.oracle.borrow().conns[conn].ends[side].window == 0
            && KeyEntry::read(&self.process.host.own, bound).is_none()
        {
            self.ends[at].bound = 0;
        }
    }

    /// Ends SQD when its time is over.
    fn release(&mut self, at: usize) -> bool {
        let world = self.process.ctx.world;
        let until = self.ends[at].held_until;
        if until == 0 || world.now() < until && !world.healing.get() {
            return false;
        }
        let (conn, dir) = (self.qp(at).conn, self.qp(at).side);
        {
            let oracle = world.oracle.borrow();
            let it = &oracle.conns[conn];
            let draining = it.ends[dir].state == EndState::Rts && !it.flows[dir].drained;
            if draining && self.ends[at].until_drained {
                return false;
            }
        }
        self.ends[at].held_until = 0;
        let running = {
            let mut oracle = world.oracle.borrow_mut();
            let flow = &mut oracle.conns[conn].flows[dir];
            (flow.sqd_from, flow.drained) = (None, false);
            oracle.conns[conn].ends[dir].state == EndState::Rts
        };
        if running {
            self.process.hold(at, false);
        }
        true
    }

    /// Keeps receives posted, all of them or a few.
    fn receive(&mut self, at: usize) -> bool {
        let (conn, side) = (self.qp(at).conn, self.qp(at).side);
        let world = self.process.ctx.world;
        let mut posted = false;
        loop {
            let (state, waiting, arena, service) = {
                let oracle = world.oracle.borrow();
                let it = &oracle.conns[conn];
                let waiting = it.flows[1 - side].recvs.len();
                (
                    it.ends[side].state,
                    waiting,
                    it.ends[side].arena,
                    it.service,
                )
            };
            let wanted = if world.healing.get() {
                RECVS
            } else {
                self.plan.receives
            };
            let open = matches!(state, EndState::Rtr | EndState::Rts);
            if !open || waiting >= wanted || !world.healing.get() && self.rng.chance(300) {
                return posted;
            }
            let number = self.ends[at].next_recv;
            self.ends[at].next_recv += 1;
            let mut len = arena.slot;
            let mut bad = false;
            if service == Service::Rc && self.rng.chance(self.plan.bad / 2) {
                let mut oracle = world.oracle.borrow_mut();
                let it = &mut oracle.conns[conn];
                it.clean = false;
                if self.rng.chance(500) {
                    (it.short_recv, len) = (true, 6);
                } else {
                    (it.bad_recv, bad) = (true, true);
                }
            }
            let recv = Recv {
                wr_id: u64::from(self.ends[at].generation) << 32 | number,
                offset: arena.recv(number as usize),
                len,
            };
            world.oracle.borrow_mut().posts_recv(conn, 1 - side, recv);
            self.process
                .post_recv(self.qp(at), recv, self.ends[at].lkey, bad);
            self.process.ctx.step();
            posted = true;
        }
    }

    /// One thing that the application does.
    fn act(&mut self) {
        if self.ends.is_empty() {
            return;
        }
        let at = self.rng.below(self.ends.len() as u64) as usize;
        let (conn, side) = (self.qp(at).conn, self.qp(at).side);
        let world = self.process.ctx.world;
        if self.plan.mood == Mood::Rough {
            if self.rng.below(100) < self.plan.revokes {
                return self.revoke_and_renew(at);
            }
            match self.rng.below(100) {
                3 => {
                    let open = {
                        let oracle = world.oracle.borrow();
                        matches!(
                            oracle.conns[conn].ends[side].state,
                            EndState::Rts | EndState::Rtr
                        )
                    };
                    if open {
                        self.process.enter_error(&self.process.qps[at]);
                    }
                    return;
                }
                4 | 5 => {
                    world.oracle.borrow_mut().conns[conn].wants_reset = true;
                    return;
                }
                _ => {}
            }
        }
        match self.rng.below(100) {
            0..4 => {
                let nap = self.rng.below(100_000);
                self.process.ctx.sleep_until(world.now() + nap);
            }
            4..7 => self.hold(at),
            _ => {
                for _ in 0..=self.rng.below(self.plan.burst) {
                    self.post(at);
                }
            }
        }
    }

    fn hold(&mut self, at: usize) {
        let (conn, dir) = (self.qp(at).conn, self.qp(at).side);
        let world = self.process.ctx.world;
        {
            let mut oracle = world.oracle.borrow_mut();
            let it = &mut oracle.conns[conn];
            if it.ends[dir].state != EndState::Rts
                || it.flows[dir].failed
                || self.ends[at].held_until != 0
            {
                return;
            }
            it.flows[dir].sqd_from = Some(it.flows[dir].reqs.len());
        }
        self.ends[at].held_until = world.now() + 1 + self.rng.below(40_000);
        self.ends[at].until_drained = self.rng.chance(500);
        self.process.hold(at, true);
    }

    /// Posts one request on an end, if it may.
    fn post(&mut self, at: usize) {
        let (conn, dir) = (self.qp(at).conn, self.qp(at).side);
        let world = self.process.ctx.world;
        let (service, index) = {
            let oracle = world.oracle.borrow();
            let it = &oracle.conns[conn];
            let flow = &it.flows[dir];
            let window = it.ends[dir].arena.window;
            if it.ends[dir].state != EndState::Rts
                || flow.failed
                || it.wants_reset
                || flow.reqs.len() - flow.completed + 2 > window
                || it.ends[1 - dir].rkey == 0
            {
                return;
            }
            (it.service, flow.reqs.len())
        };
        self.scribble(at);
        let opcode = self.choose(service, at);
        let mut req = self.request(at, index, opcode);
        let chain = opcode == SendOpcode::RdmaRead
            && req.bad.is_none()
            && req.len > 0
            && self.rng.chance(300);
        if chain {
            req.signaled = false;
        }
        let (local, pattern, len) = (req.local, req.pattern, req.len);
        self.submit(at, req, false);
        if chain && world.oracle.borrow().conns[conn].ends[dir].state == EndState::Rts {
            // what the READ brings goes on with the next SEND, which a fence holds back
            let mut next = self.request(at, index + 1, SendOpcode::Send);
            (next.local, next.pattern, next.len, next.bad) = (local, pattern, len, None);
            self.submit(at, next, true);
        }
    }

    fn choose(&mut self, service: Service, at: usize) -> SendOpcode {
        use SendOpcode::{
            BindMw, CmpSwap, FetchAdd, LocalInv, RdmaRead, RdmaWrite, RdmaWriteImm, Send, SendImm,
            SendInv,
        };
        match service {
            Service::Ud => SendImm,
            Service::Uc => self.rng.pick(&[SendImm, SendImm, RdmaWrite, RdmaWriteImm]),
            Service::Rc => {
                let (conn, side) = (self.qp(at).conn, self.qp(at).side);
                let oracle = self.process.ctx.world.oracle.borrow();
                let (mine, theirs) = (
                    oracle.conns[conn].ends[side].window,
                    oracle.conns[conn].ends[1 - side].window,
                );
                drop(oracle);
                match self.rng.below(100) {
                    0..6 if self.ends[at].binding.is_none() && self.ends[at].bound == 0 => BindMw,
                    6..8 if mine != 0 && self.plan.mood == Mood::Rough => LocalInv,
                    0..12 if theirs != 0 => SendInv,
                    _ => self.rng.pick(&[
                        Send,
                        Send,
                        SendImm,
                        RdmaWrite,
                        RdmaWrite,
                        RdmaWriteImm,
                        RdmaRead,
                        CmpSwap,
                        FetchAdd,
                    ]),
                }
            }
        }
    }

    fn length(&mut self, service: Service, slot: usize) -> usize {
        let most = if service == Service::Ud {
            slot.min(4096) - 40
        } else {
            slot
        } as u64;
        let len = match self.rng.below(10) {
            // moved in chunks
            0..4 if most > 512 << 10 => self.rng.range(512 << 10, most),
            0 => 0,
            1..4 => self.rng.range(1, 8),
            4..6 => self.rng.range(9, 500),
            6..8 => self.rng.range(9, 8 << 10),
            _ => self.rng.range(1, most),
        };
        len.min(most) as usize
    }

    fn request(&mut self, at: usize, index: usize, opcode: SendOpcode) -> Req {
        let (conn, dir) = (self.qp(at).conn, self.qp(at).side);
        let world = self.process.ctx.world;
        let mut oracle = world.oracle.borrow_mut();
        let it = &mut oracle.conns[conn];
        let (arena, there) = (it.ends[dir].arena, it.ends[1 - dir].arena);
        let mut len = self.length(it.service, arena.slot);
        if matches!(opcode, SendOpcode::BindMw | SendOpcode::LocalInv) {
            len = 0;
        }
        let window = it.ends[1 - dir].window;
        let rkey = if window != 0 && self.rng.chance(300) {
            window
        } else {
            it.ends[1 - dir].rkey
        };
        let seed = (conn as u64) << 56
            | u64::from(it.generation) << 40
            | (dir as u64) << 39
            | index as u64;
        let mut req = Req {
            wr_id: u64::from(it.generation) << 32 | (index as u64 + 1),
            opcode,
            len,
            imm: index as u32,
            signaled: self.rng.chance(600) || index.is_multiple_of(arena.window / 2),
            solicited: self.rng.chance(100),
            pattern: Pattern(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)),
            local: arena.source(index),
            remote: there.landing(index),
            rkey,
            finds: 0,
            bad: None,
            received: false,
        };
        if !matches!(
            opcode,
            SendOpcode::Send | SendOpcode::SendImm | SendOpcode::SendInv | SendOpcode::RdmaWriteImm
        ) {
            req.solicited = false;
        }
        match opcode {
            SendOpcode::RdmaRead => {
                req.local = arena.read_dst(index);
                req.remote = there.fixed();
                req.pattern = fixed_pattern(conn, 1 - dir);
                let flow = &it.flows[dir];
                let earlier = flow.reqs.iter().rev().take(arena.window - 2).find(|old| {
                    matches!(old.opcode, SendOpcode::RdmaWrite | SendOpcode::RdmaWriteImm)
                        && old.bad.is_none()
                });
                if let Some(earlier) = earlier
                    && !it.revoked
                    && self.rng.chance(500)
                {
                    // posting order: it finds what the earlier WRITE left
                    (req.remote, req.len, req.pattern) =
                        (earlier.remote, earlier.len, earlier.pattern);
                }
            }
            SendOpcode::CmpSwap | SendOpcode::FetchAdd => {
                (req.local, req.remote, req.len) = (arena.read_dst(index), there.word(), 8);
                req.finds = it.flows[dir].word;
            }
            SendOpcode::SendInv => {
                req.imm = std::mem::take(&mut it.ends[1 - dir].window);
            }
            SendOpcode::LocalInv => {
                // The window is bound until the request has been executed, not until it is posted.
                req.imm = std::mem::take(&mut it.ends[dir].window);
                (it.revoked, it.clean) = (true, false);
            }
            SendOpcode::BindMw => {
                req.signaled = true;
                req.rkey = it.ends[dir].rkey;
            }
            _ => {}
        }
        if self.rng.chance(self.plan.bad) {
            let dest = (there, it.ends[1 - dir].qpn);
            self.spoil(&mut req, it.service, dest);
        }
        req
    }

    /// Makes a request wrong in one way. `there` is the peer's end as its arena and queue pair number.
    fn spoil(&mut self, req: &mut Req, service: Service, there: (Arena, u32)) {
        let remote = matches!(
            req.opcode,
            SendOpcode::RdmaWrite | SendOpcode::RdmaWriteImm | SendOpcode::RdmaRead
        );
        let atomic = matches!(req.opcode, SendOpcode::CmpSwap | SendOpcode::FetchAdd);
        let reliable = service == Service::Rc;
        if req.len == 0 {
            return;
        }
        match self.rng.below(6) {
            0 if (remote || atomic) && reliable => {
                req.rkey ^= 1;
                req.bad = Some(WcStatus::RemAccessErr);
            }
            1 if remote && reliable => {
                req.remote += 1 << 30;
                req.bad = Some(WcStatus::RemAccessErr);
            }
            2 if atomic => {
                req.remote += 4;
                req.bad = Some(WcStatus::RemInvReqErr);
            }
            3 if remote && reliable => {
                // its last byte lies outside
                req.remote = there.0.end() + 1 - req.len;
                req.bad = Some(WcStatus::RemAccessErr);
            }
            4 if (remote || atomic) && reliable => {
                // a key that exists, without a peer's rights
                req.rkey = (1 + 3 * (there.1 & 0xff)) << 8 | 1;
                req.bad = Some(WcStatus::RemAccessErr);
            }
            5 if remote || atomic || req.opcode == SendOpcode::Send => {
                req.bad = Some(WcStatus::LocProtErr);
            }
            _ => {}
        }
    }

    /// Tells the oracle, fills the source, posts.
    fn submit(&mut self, at: usize, req: Req, fence: bool) {
        let (conn, dir) = (self.qp(at).conn, self.qp(at).side);
        let (ctx, world) = (self.process.ctx, self.process.ctx.world);
        let me = ctx.me;
        let (peer, dest_qpn, app, source) = {
            let oracle = world.oracle.borrow();
            let end = &oracle.conns[conn].ends[1 - dir];
            let arena = oracle.conns[conn].ends[dir].arena;
            let index = oracle.conns[conn].flows[dir].reqs.len();
            (end.process, end.qpn, oracle.apps[me], arena.source(index))
        };
        let fills = req.local == source && req.len > 0;
        let bytes = if fills {
            req.pattern.bytes(req.len)
        } else {
            Vec::new()
        };
        let may_inline = fills && req.len <= MAX_INLINE as usize && req.bad.is_none();
        let inline = may_inline && self.rng.chance(300);
        if fills && !inline {
            ctx.store(app, req.local, &bytes);
        }
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, req.signaled);
        flags.set(SendFlags::SOLICITED, req.solicited);
        flags.set(SendFlags::INLINE, inline);
        flags.set(SendFlags::FENCE, fence || self.rng.chance(100));
        let bad_local = req.bad == Some(WcStatus::LocProtErr);
        let lkey = self.ends[at].lkey ^ u32::from(bad_local);
        let sges = self.cut(app_base(me) + req.local as u64, req.len, lkey);
        let (word, next) = self.atomic_operands(&req, conn, dir);
        let bind = (req.opcode == SendOpcode::BindMw).then(|| self.bind(at, conn, dir));
        let link: Option<SimLink<'s>> =
            (self.qp(at).service == Service::Ud).then(|| self.process.host.links[peer].clone());
        let grh = self.rng.chance(300).then_some([0x60; 40]);
        let imm = if matches!(req.opcode, SendOpcode::Send | SendOpcode::RdmaWrite) {
            0
        } else {
            req.imm
        };
        let request = SendRequest {
            wr_id: req.wr_id,
            opcode: req.opcode,
            flags,
            sges: if inline { &[] } else { &sges },
            inline: if inline { &bytes } else { &[] },
            imm,
            remote_addr: app_base(peer).wrapping_add(req.remote as u64),
            rkey: req.rkey,
            compare_add: word,
            swap: next,
            remote_qpn: dest_qpn,
            remote_key: if link.is_some() { 0x11 } else { 0 },
            link: link.as_ref(),
            grh: if link.is_some() { grh.as_ref() } else { None },
            route: (3, 0),
            bind,
            fanout: &[],
        };
        world.trace(|| format!("p{me} qp {:#x} posts {req:?}", self.qp(at).qpn));
        world.oracle.borrow_mut().posts(conn, dir, req);
        if let Err(error) = self.process.post_send(at, &request) {
            world.fail("I11", "room in the send queue", format!("{error:?}"));
        }
    }

    /// Operands of an atomic and what the word is after it.
    fn atomic_operands(&mut self, req: &Req, conn: usize, dir: usize) -> (u64, u64) {
        let mut oracle = self.process.ctx.world.oracle.borrow_mut();
        let word = &mut oracle.conns[conn].flows[dir].word;
        match req.opcode {
            SendOpcode::FetchAdd => {
                let add = self.rng.next_u64();
                *word = word.wrapping_add(add);
                (add, 0)
            }
            SendOpcode::CmpSwap => {
                let compare = if self.rng.chance(700) {
                    *word
                } else {
                    word.wrapping_add(1)
                };
                let swap = self.rng.next_u64();
                if compare == *word {
                    *word = swap;
                }
                (compare, swap)
            }
            _ => (0, 0),
        }
    }

    fn bind(&mut self, at: usize, conn: usize, dir: usize) -> BindRequest {
        let oracle = self.process.ctx.world.oracle.borrow();
        let (end, index) = (
            &oracle.conns[conn].ends[dir],
            oracle.conns[conn].flows[dir].reqs.len(),
        );
        let (start, len) = end.arena.exposed();
        let mine = &mut self.ends[at];
        mine.variant += 2;
        let rkey = mine.slot << 8 | mine.variant & 0xfe;
        mine.binding = Some((index, rkey));
        BindRequest {
            window: mine.slot,
            rkey,
            lkey: end.rkey,
            addr: app_base(self.process.ctx.me) + start as u64,
            length: len as u64,
            access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
        }
    }

    /// Cuts a range into one to three elements.
    fn cut(&mut self, addr: u64, len: usize, lkey: u32) -> Vec<Sge> {
        let mut sges = Vec::new();
        let mut done = 0;
        if len == 8 {
            return vec![Sge {
                addr,
                length: 8,
                lkey,
            }];
        }
        while done < len && sges.len() < 2 && self.rng.chance(400) {
            let length = self.rng.below((len - done) as u64 + 1) as u32;
            sges.push(Sge {
                addr: addr + done as u64,
                length,
                lkey,
            });
            done += length as usize;
        }
        if done < len {
            sges.push(Sge {
                addr: addr + done as u64,
                length: (len - done) as u32,
                lkey,
            });
        }
        sges
    }
}
