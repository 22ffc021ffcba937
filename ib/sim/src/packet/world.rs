//! The world of one seed: adapters, queue pairs, the wires between them, programs that post, and virtual time.

use super::env::{Srq, Surroundings, sge_of};
use super::link::{Damage, Faults, Link};
use super::memory::Memory;
use super::model::{Check, Model, Posted, Receive, Side, Violation, violated};
use super::mutation::{self, Mutation};
use super::workload::{self, Layout, Mix};
use super::{Counters, Trace};
use crate::events::EventQueue;
use crate::rng::Rng;
use ferriband_transport::env::BindWindow;
use ferriband_transport::types::{
    Instant, QpAttr, QpAttrMask, QpState, QpType, SendFlags, SendOpcode, Sge,
};
use ferriband_transport::{
    CompletionRing, CompletionTarget, Datagram, MAX_PACKET_BYTES, PacketMeta, Payload, QueuePair,
    SendWr,
};
use ferriband_wire::{
    Bth, LKey, Opcode, Packet, QKey, Qpn, RKey, RoceHeaders, RoceIp, check_datagram,
};
use std::net::Ipv6Addr;

/// Number of the first queue pair; number minus this is its index.
pub(super) const FIRST_QPN: u32 = 0x100;
/// Q_Key of every datagram queue pair.
pub(super) const QKEY: QKey = QKey(0x1234);
/// Virtual time after which a run is stuck: longer than any retry sequence of the settings in use.
const PATIENCE_NS: u64 = 20_000_000_000;
/// Events after which a run is stuck.
const PATIENCE_EVENTS: u64 = 400_000;

/// What happens at an instant.
#[derive(Debug)]
enum Event {
    Arrive {
        from: usize,
        to: usize,
        frame: Vec<u8>,
    },
    Timer(usize),
    Pump(usize),
    Program(usize),
    Heal,
}

/// One queue pair with what belongs to its program.
pub(super) struct Endpoint {
    pub qp: QueuePair,
    pub layout: Layout,
    pub cq: CompletionRing,
    pub cq_dead: bool,
    pub completions_made: u64,
    pub completions_polled: u64,
    /// Requests that the program still wants to post, and turns that it has left.
    pub to_post: u32,
    pub turns: u32,
    pub shared_receive: bool,
    pub timer_at: Option<Instant>,
    pub pump_due: bool,
}

/// All of it.
pub(super) struct World {
    pub rng: Rng,
    pub now: u64,
    events: EventQueue<Event>,
    pub model: Model,
    pub endpoints: Vec<Endpoint>,
    pub memories: Vec<Memory>,
    pub srqs: Vec<Srq>,
    /// By sending adapter times adapters plus receiving adapter.
    pub links: Vec<Link>,
    pub faults: Faults,
    pub mix: Mix,
    pub healed: bool,
    pub mutation: Option<Mutation>,
    pub trace: Trace,
    pub counters: Counters,
    pub next_receive_id: u64,
    /// Receive bytes of an adapter's shared queue come from this endpoint's region.
    pub srq_layouts: Vec<Layout>,
    /// Sides that got fresh work after healing with nothing in its way.
    fresh: Vec<usize>,
    /// The side that got a packet last, and its header if the next may be like it.
    middle: Option<(usize, [u8; Bth::LEN])>,
}

fn address(adapter: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, adapter as u16 + 1)
}

fn headers(from: usize, to: usize) -> RoceHeaders {
    RoceHeaders {
        ip: RoceIp::v6(address(from), address(to)),
        source_port: 0xc000,
    }
}

/// Calls a machine with its surroundings; a macro because they are fields of one world.
macro_rules! with_env {
    ($world:ident, $side:expr, |$qp:ident, $env:ident| $body:expr) => {{
        let adapter = $world.model.sides[$side].adapter;
        let mut surroundings = Surroundings {
            side: $side,
            memory: &mut $world.memories[adapter],
            srq: &mut $world.srqs[adapter],
            model: &mut $world.model,
            mutation: $world.mutation,
        };
        let $env = &mut surroundings;
        let $qp = &mut $world.endpoints[$side].qp;
        $body
    }};
}

impl World {
    #[allow(clippy::too_many_arguments)] // The builder in `setup` is its one caller.
    pub fn new(
        rng: Rng,
        sides: Vec<Side>,
        endpoints: Vec<Endpoint>,
        memories: Vec<Memory>,
        srq_layouts: Vec<Layout>,
        faults: Faults,
        mix: Mix,
        mutation: Option<Mutation>,
        trace: Trace,
    ) -> Self {
        let adapters = memories.len();
        let srqs = srq_layouts.iter().enumerate();
        let srqs = srqs.map(|(i, layout)| Srq {
            number: i as u32 + 1,
            key: layout.recv_key,
            ..Srq::default()
        });
        World {
            rng,
            now: 0,
            events: EventQueue::default(),
            model: Model {
                sides,
                trusted: faults.hostility == 0,
                words: Default::default(),
                healed_at: None,
                pending: None,
            },
            endpoints,
            memories,
            srqs: srqs.collect(),
            links: vec![Link::default(); adapters * adapters],
            faults,
            mix,
            healed: false,
            mutation,
            trace,
            counters: Counters::default(),
            next_receive_id: 1 << 40,
            srq_layouts,
            fresh: Vec::new(),
            middle: None,
        }
    }

    /// The whole run: faults, healing, liveness, the end of all queue pairs.
    pub fn run(&mut self, heal_at: u64) -> Result<(), Violation> {
        for side in 0..self.endpoints.len() {
            let at = self.rng.below(5_000);
            self.events.push(at, Event::Program(side));
        }
        self.events.push(heal_at, Event::Heal);
        self.settle()?;
        self.check_live()?;
        self.fresh_work()?;
        self.settle()?;
        self.check_fresh()?;
        self.end()
    }

    /// Runs until nothing is left to happen.
    fn settle(&mut self) -> Check {
        let (deadline, mut steps) = (self.now + PATIENCE_NS, 0);
        while let Some((at, event)) = self.events.pop() {
            steps += 1;
            if at > deadline || steps > PATIENCE_EVENTS {
                let expected = "everything completes or fails after the wire healed";
                return violated(
                    "liveness",
                    expected,
                    format!("busy at {at} ns, {steps} events"),
                );
            }
            self.now = self.now.max(at);
            self.step(event)?;
            if let Some(violation) = self.model.pending.take() {
                return Err(violation);
            }
        }
        Ok(())
    }

    fn step(&mut self, event: Event) -> Check {
        match event {
            Event::Arrive { from, to, frame } => self.arrive(from, to, &frame),
            Event::Timer(side) => {
                self.endpoints[side].timer_at = None;
                self.endpoints[side].qp.handle_timeout(Instant(self.now));
                self.after(side)
            }
            Event::Pump(side) => {
                self.endpoints[side].pump_due = false;
                self.pump(side)
            }
            Event::Program(side) => self.program(side),
            Event::Heal => self.heal(),
        }
    }

    fn heal(&mut self) -> Check {
        self.healed = true;
        self.model.healed_at = Some(self.now);
        let (latency_ns, jitter_ns) = (self.faults.latency_ns, self.faults.jitter_ns);
        self.faults = Faults {
            latency_ns,
            jitter_ns,
            ..Faults::default()
        };
        self.trace.say(self.now, || "the wire heals".into());
        for side in 0..self.endpoints.len() {
            self.supply_receives(side)?;
        }
        Ok(())
    }

    fn arrive(&mut self, from: usize, to: usize, frame: &[u8]) -> Check {
        let Ok((bytes, _)) = check_datagram(&headers(from, to), frame) else {
            self.counters.corrupted += 1;
            return Ok(());
        };
        let Ok(packet) = Packet::parse(bytes) else {
            self.counters.malformed += 1;
            return Ok(());
        };
        let side = packet.bth().dest_qpn.0.wrapping_sub(FIRST_QPN) as usize;
        if self.model.sides.get(side).is_none_or(|s| s.adapter != to) {
            return Ok(());
        }
        self.counters.delivered += 1;
        self.trace.packet(self.now, "-> ", side, &packet);
        self.model.on_deliver(side, &packet, self.now);
        let grh = [0x60; 40];
        let meta = PacketMeta {
            grh: Some(&grh),
            ..PacketMeta::default()
        };
        let now = Instant(self.now);
        if let Some((last, header)) = self.middle.take()
            && last == side
            && let Some((psn, ack_req, payload)) = Bth::alike(bytes, &header)
            && with_env!(self, side, |qp, env| qp.take_alike(
                now,
                env,
                packet.opcode(),
                (psn, ack_req),
                payload
            ))
        {
            self.middle = Some((side, header));
            return self.after(side);
        }
        let taken = with_env!(self, side, |qp, env| qp
            .handle_packet(now, env, &meta, &packet));
        let bulk = [Opcode::RcSendMiddle, Opcode::RcWriteMiddle];
        if taken.is_ok() && bulk.contains(&packet.opcode()) {
            self.middle = bytes.first_chunk().map(|header| (side, *header));
        }
        if let Err(reason) = taken {
            self.counters.dropped += 1;
            self.trace
                .say(self.now, || format!("QP {side} drops it: {reason}"));
        }
        self.after(side)?;
        while with_env!(self, side, |qp, env| qp.catch_up(env)) {
            self.after(side)?;
        }
        Ok(())
    }

    /// Sends a few packets; the rest after the time that they take.
    fn pump(&mut self, side: usize) -> Check {
        let mut buf = [0; MAX_PACKET_BYTES];
        for _ in 0..4 {
            let now = Instant(self.now);
            let sent = with_env!(self, side, |qp, env| qp.poll_transmit(now, env, &mut buf));
            let Some(transmit) = sent else {
                return self.after_quietly(side);
            };
            let len = transmit.len;
            self.transmit(side, &buf[..len])?;
            // as a driver does that fills a run: more of the same at once
            let stride = len + 4;
            let mut places = vec![0; stride * self.rng.below(4) as usize];
            let count = with_env!(self, side, |qp, env| qp.poll_middles(
                now,
                env,
                (&mut places, len, stride)
            ));
            for packet in places.chunks(stride).take(count as usize) {
                self.transmit(side, &packet[..len])?;
            }
        }
        self.after_quietly(side)?;
        self.schedule_pump(side, 200);
        Ok(())
    }

    fn transmit(&mut self, side: usize, bytes: &[u8]) -> Check {
        let mut scratch = Vec::new();
        let packet = Packet::parse(bytes).map_err(|error| Violation {
            invariant: "I5",
            expected: "a well-formed packet".into(),
            got: error.to_string(),
        })?;
        let repeats = mutation::repeats(self.mutation, &packet);
        let rewritten = mutation::rewrite(self.mutation, &packet, &mut scratch);
        let bytes = rewritten.map_or(bytes, |len| &scratch[..len]);
        let Ok(packet) = Packet::parse(bytes) else {
            return Ok(());
        };
        for _ in 0..1 + u32::from(repeats) {
            self.trace.packet(self.now, "<- ", side, &packet);
            self.model.on_transmit(side, &packet, self.now)?;
        }
        self.counters.sent += 1;
        self.counters.digest.packet(self.now, bytes);
        let from = self.model.sides[side].adapter;
        let to = self.model.sides[self.model.sides[side].peer].adapter;
        let link = &mut self.links[from * self.memories.len() + to];
        for arrival in link
            .send(self.now, &self.faults, &mut self.rng)
            .into_iter()
            .flatten()
        {
            let mut frame = bytes.to_vec();
            if arrival.damage == Damage::Hostile {
                let at = self.rng.below(frame.len() as u64) as usize;
                frame[at] ^= self.rng.range(1, 255) as u8;
            }
            let icrc = headers(from, to)
                .icrc(frame.len())
                .expect("a frame fits a datagram");
            let icrc = icrc.finish_with(&frame);
            frame.extend_from_slice(&icrc.to_le_bytes());
            if arrival.damage == Damage::Corrupt {
                let bit = self.rng.below(frame.len() as u64 * 8) as usize;
                frame[bit / 8] ^= 1 << (bit % 8);
            }
            self.events
                .push(arrival.at, Event::Arrive { from, to, frame });
        }
        Ok(())
    }

    fn schedule_pump(&mut self, side: usize, delay: u64) {
        if !std::mem::replace(&mut self.endpoints[side].pump_due, true) {
            self.events.push(self.now + delay, Event::Pump(side));
        }
    }

    /// After a call into a machine: completions, events, timer, and its turn to send.
    fn after(&mut self, side: usize) -> Check {
        self.after_quietly(side)?;
        self.schedule_pump(side, 0);
        Ok(())
    }

    fn after_quietly(&mut self, side: usize) -> Check {
        let adapter = self.model.sides[side].adapter;
        while let Some((target, completion)) = self.endpoints[side].qp.poll_completion() {
            self.trace
                .say(self.now, || format!("QP {side} {target:?} {completion:?}"));
            self.counters.completions += 1;
            if target == CompletionTarget::Send {
                if mutation::swallows(self.mutation, &completion) {
                    continue;
                }
                let now = self.now;
                let memory = &mut self.memories[adapter];
                self.model.send_completion(side, &completion, now, memory)?;
            } else {
                self.model
                    .receive_completion(side, &completion, &mut self.memories[adapter])?;
            }
            self.endpoints[side].completions_made += 1;
            if self.endpoints[side].cq.push(completion).is_err()
                && self.mutation != Some(Mutation::DropOnOverrun)
            {
                self.endpoints[side].cq_dead = true;
            }
        }
        while let Some(event) = self.endpoints[side].qp.poll_event() {
            self.trace.say(self.now, || format!("QP {side} {event:?}"));
        }
        if self.endpoints[side].cq_dead && self.endpoints[side].qp.state() != QpState::Err {
            // IBA 11.6.3.1: the queue pairs of an overrun completion queue go to Error.
            self.force_error(side)?;
        }
        let next = self.endpoints[side].qp.poll_timeout();
        if let Some(at) = next
            && self.endpoints[side].timer_at.is_none_or(|set| at < set)
        {
            self.endpoints[side].timer_at = Some(at);
            self.events.push(at.0.max(self.now), Event::Timer(side));
        }
        Ok(())
    }

    fn force_error(&mut self, side: usize) -> Check {
        self.model.sides[side].forced = true;
        let peer = self.model.sides[side].peer;
        self.model.sides[peer].may_be_killed = true;
        let new = QpAttr {
            state: QpState::Err,
            ..QpAttr::default()
        };
        let moved = self.endpoints[side].qp.modify(&new, QpAttrMask::STATE);
        if moved.is_err() {
            return violated("I12", "any state may go to Error", format!("{moved:?}"));
        }
        self.after_quietly(side)
    }

    /// A turn of the program: polls, posts receives and sends, sometimes asks for nonsense.
    fn program(&mut self, side: usize) -> Check {
        self.poll_cq(side)?;
        if self.rng.chance(300) {
            self.illegal_modify(side)?;
        }
        if self.rng.chance(700) {
            for _ in 0..self.rng.below(4) {
                self.post_receive(side)?;
            }
        }
        for _ in 0..self.rng.below(5) {
            if self.endpoints[side].to_post > 0 {
                self.endpoints[side].to_post -= 1;
                self.post_random(side)?;
            }
        }
        self.after(side)?;
        self.endpoints[side].turns = self.endpoints[side].turns.saturating_sub(1);
        if self.endpoints[side].turns > 0 {
            let delay = self.rng.range(1_000, 60_000);
            self.events.push(self.now + delay, Event::Program(side));
        }
        Ok(())
    }

    /// I13: what was made is polled, or the queue says that it overran.
    fn poll_cq(&mut self, side: usize) -> Check {
        let endpoint = &mut self.endpoints[side];
        loop {
            match endpoint.cq.poll() {
                Ok(Some(_)) => endpoint.completions_polled += 1,
                Ok(None) => break,
                // The planted bug: the error does not reach the program.
                Err(_) if self.mutation == Some(Mutation::DropOnOverrun) => break,
                Err(_) => return Ok(()),
            }
        }
        if endpoint.completions_polled == endpoint.completions_made || endpoint.cq_dead {
            return Ok(());
        }
        let (made, polled) = (endpoint.completions_made, endpoint.completions_polled);
        violated(
            "I13",
            format!("{made} completions, or an overrun reported"),
            format!("{polled}"),
        )
    }

    /// I12: a modify with a mask that the table does not allow changes nothing.
    fn illegal_modify(&mut self, side: usize) -> Check {
        let qp = &mut self.endpoints[side].qp;
        let before = qp.query();
        let mut new = before;
        new.timeout = 31;
        new.retry_cnt = 0;
        new.dest_qpn = Qpn(0xabcdef);
        // CAP is in no transition's mask.
        let mask = QpAttrMask::from_bits_truncate(self.rng.next_u64() as u32) | QpAttrMask::CAP;
        let mask = mask - QpAttrMask::STATE;
        let result = qp.modify(&new, mask);
        if result.is_ok() {
            return violated("I12", format!("{mask:?} refused"), "accepted");
        }
        if self.mutation == Some(Mutation::HalfModify) && before.state == QpState::Rts {
            let access = QpAttr {
                access: before.access ^ super::model::REMOTE,
                ..before
            };
            let mask = QpAttrMask::ACCESS_FLAGS | QpAttrMask::STATE;
            // The access rights are what the planted bug leaves behind (queue pairs of a connected service).
            let _ = qp.modify(&access, mask);
        }
        let after = qp.query();
        if after == before {
            return Ok(());
        }
        violated(
            "I12",
            "attributes unchanged by a refused modify",
            format!("{before:?} -> {after:?}"),
        )
    }

    fn next_receive(
        &mut self,
        length: usize,
        layout: impl Fn(&mut World) -> &mut Layout,
    ) -> Option<Receive> {
        let addr = layout(self).take_recv(length)?;
        self.next_receive_id += 1;
        Some(Receive {
            wr_id: self.next_receive_id,
            addr,
            length: length as u32,
            bad: false,
        })
    }

    fn post_receive(&mut self, side: usize) -> Check {
        let longest = match self.model.sides[side].qp_type {
            QpType::XrcSend => return Ok(()),
            // Whoever draws it may have the largest MTU.
            _ if self.endpoints[side].shared_receive => 8192,
            QpType::Ud => 40 + self.model.sides[side].mtu,
            _ => (8 * self.model.sides[side].mtu).min(8192),
        };
        let flawed = self.rng.chance(self.mix.errors_per_mille);
        let length = if flawed && self.rng.chance(500) {
            longest / 4
        } else {
            longest
        };
        let adapter = self.model.sides[side].adapter;
        let shared = self.endpoints[side].shared_receive;
        let receive = if shared {
            self.next_receive(length, |world| &mut world.srq_layouts[adapter])
        } else {
            self.next_receive(length, |world| &mut world.endpoints[side].layout)
        };
        let Some(mut receive) = receive else {
            return Ok(());
        };
        receive.bad = flawed && length == longest;
        if flawed {
            // Whoever draws it, from a shared queue perhaps another, dies of it.
            for victim in 0..self.endpoints.len() {
                let draws = shared
                    && self.endpoints[victim].shared_receive
                    && self.model.sides[victim].adapter == adapter;
                if draws || victim == side {
                    let peer = self.model.sides[victim].peer;
                    self.model.sides[victim].may_be_killed = true;
                    self.model.sides[peer].may_be_killed = true;
                }
            }
        }
        if shared {
            self.srqs[adapter].queue.push_back(receive);
            return Ok(());
        }
        let sge = sge_of(&receive, self.endpoints[side].layout.recv_key);
        if self.endpoints[side]
            .qp
            .post_recv(receive.wr_id, &[sge])
            .is_ok()
        {
            self.model.sides[side].receives.push(receive);
        }
        self.after_quietly(side)
    }

    /// After healing there is a receive for every message that is still to come.
    fn supply_receives(&mut self, side: usize) -> Check {
        let errors = std::mem::take(&mut self.mix.errors_per_mille);
        let adapter = self.model.sides[side].adapter;
        let shared = self.endpoints[side].shared_receive;
        let sharing = |s: usize| {
            s == side
                || shared
                    && self.endpoints[s].shared_receive
                    && self.model.sides[s].adapter == adapter
        };
        let (mut wanted, mut posted) = (0, self.srqs[adapter].queue.len() * usize::from(shared));
        for s in (0..self.endpoints.len()).filter(|&s| sharing(s)) {
            let sends = &self.model.sides[self.model.sides[s].peer].posted;
            // One more each: a queue pair that dies takes the receive in use with it.
            wanted += 1 + sends.iter().filter(|p| p.consumes_receive()).count();
            posted += self.model.sides[s].receives.len();
        }
        for _ in posted..wanted {
            self.post_receive(side)?;
        }
        self.mix.errors_per_mille = errors;
        Ok(())
    }

    fn post_random(&mut self, side: usize) -> Check {
        let peer = self.model.sides[side].peer;
        let mut own = self.endpoints[side].layout;
        let mut theirs = self.endpoints[peer].layout;
        let peer_adapter = self.model.sides[peer].adapter;
        let posted = workload::generate(
            &mut self.rng,
            self.mix,
            &self.model.sides[side],
            &mut own,
            &mut theirs,
            &mut self.memories,
            peer_adapter,
        );
        self.endpoints[side].layout = own;
        self.endpoints[peer].layout = theirs;
        match posted {
            Some(posted) => self.post(side, posted),
            None => Ok(()),
        }
    }

    fn post(&mut self, side: usize, posted: Posted) -> Check {
        let peer = self.model.sides[side].peer;
        let layout = self.endpoints[side].layout;
        let local_fails = matches!(posted.plan, super::model::Plan::LocalFails(_));
        let remote_fails = matches!(posted.plan, super::model::Plan::RemoteFails(_));
        let index = self.model.sides[side].posted.len() as u64;
        let lkey = layout.local_key | u32::from(local_fails);
        let total = if posted.is_atomic() {
            8
        } else {
            posted.data.len() as u32
        };
        // One to three elements that follow each other.
        let cut = self.rng.below(u64::from(total) + 1) as u32;
        let second = self.rng.below(u64::from(total - cut) + 1) as u32;
        let sges = [
            (0, cut),
            (cut, second),
            (cut + second, total - cut - second),
        ];
        let sges = sges.map(|(at, length)| Sge {
            addr: posted.local_addr + u64::from(at),
            length,
            lkey,
        });
        let inline = total <= 64
            && !posted.is_read_or_atomic()
            && posted.packets > 0
            && !local_fails
            && self.rng.chance(300);
        let payload = if inline {
            Payload::Inline(&posted.data)
        } else {
            Payload::Gather(&sges)
        };
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, posted.signaled);
        flags.set(SendFlags::SOLICITED, posted.solicited);
        flags.set(SendFlags::FENCE, posted.fence);
        let mut wr = SendWr::new(index, posted.op, payload);
        wr.flags = flags;
        wr.remote_addr = posted.remote_addr;
        wr.rkey = RKey(posted.rkey);
        wr.imm_or_key = posted.imm_or_key;
        wr.compare_add = posted.compare_add;
        wr.swap = posted.swap;
        wr.xrc_srq = self.model.sides[peer].adapter as u32 + 1;
        if self.model.sides[side].qp_type == QpType::Ud {
            let qpn = Qpn(FIRST_QPN + peer as u32);
            wr.datagram = Some(Datagram {
                qpn,
                qkey: QKEY,
                ..Datagram::default()
            });
        }
        if posted.op == SendOpcode::BindMw {
            wr.bind = Some(BindWindow {
                window: RKey(0),
                new_key: RKey(0),
                region: LKey(layout.local_key),
                addr: layout.local_base,
                length: 64,
                access: super::model::REMOTE,
            });
        }
        // The ring may be full: then the program would poll; here the request is not posted.
        if self.endpoints[side].qp.post_send(&wr).is_err() {
            return Ok(());
        }
        self.counters.posted += 1;
        let op = posted.op;
        let (bytes, plan) = (posted.data.len(), posted.plan);
        self.trace.say(self.now, || {
            format!("QP {side} posts {index}: {op:?} {bytes} bytes, {plan:?}")
        });
        self.model.sides[side].psn_total += posted.packets;
        self.model.sides[side].posted.push(posted);
        if remote_fails || self.model.sides[side].overcommits {
            self.model.sides[peer].may_be_killed = true;
        }
        if self.healed {
            self.supply_receives(peer)?;
        }
        self.after_quietly(side)
    }

    /// After healing every queue pair has done its work or is in Error for a reason that was checked.
    fn check_live(&mut self) -> Check {
        for side in 0..self.endpoints.len() {
            let model = &self.model.sides[side];
            let failed = model.failed.is_some() || self.endpoints[side].qp.state() == QpState::Err;
            let open =
                (model.next_completion..model.posted.len()).find(|&i| model.posted[i].signaled);
            if let (false, Some(index)) = (failed, open) {
                let got = format!("QP {side} waits for request {index}");
                return violated("liveness", "every request completes or fails", got);
            }
        }
        Ok(())
    }

    /// Pairs that are alive on both sides get one more signaled request each way.
    fn fresh_work(&mut self) -> Check {
        self.mix.errors_per_mille = 0;
        for side in 0..self.endpoints.len() {
            if !self.both_alive(side) {
                continue;
            }
            let doomed = |s: usize| {
                let side = &self.model.sides[s];
                side.may_be_killed || side.forced || side.overcommits
            };
            // A bad receive may still lie in wait.
            if !doomed(side) && !doomed(self.model.sides[side].peer) {
                self.fresh.push(side);
            }
            for endpoint in [side, self.model.sides[side].peer] {
                self.poll_cq(endpoint)?;
            }
            let before = self.model.sides[side].posted.len();
            self.post_random(side)?;
            if let Some(posted) = self.model.sides[side].posted.get(before)
                && !posted.signaled
            {
                // An unsignaled one is followed by one that is seen.
                for _ in 0..8 {
                    if self.model.sides[side]
                        .posted
                        .last()
                        .is_some_and(|p| p.signaled)
                    {
                        break;
                    }
                    self.post_random(side)?;
                }
            }
            self.after(side)?;
        }
        Ok(())
    }

    fn both_alive(&self, side: usize) -> bool {
        [side, self.model.sides[side].peer].iter().all(|&s| {
            matches!(self.endpoints[s].qp.state(), QpState::Rts | QpState::Rtr)
                && self.model.sides[s].failed.is_none()
                && !self.model.sides[s].receive_failed
        })
    }

    fn check_fresh(&mut self) -> Check {
        self.check_live()?;
        if !self.model.trusted {
            return Ok(());
        }
        for &side in &self.fresh {
            if self.endpoints[self.model.sides[side].peer].cq_dead {
                // It could not hold the completions of this work, too.
                continue;
            }
            if let Some(status) = self.model.sides[side].failed {
                let expected = "fresh work succeeds on a healed wire";
                return violated("liveness", expected, format!("QP {side}: {status:?}"));
            }
        }
        Ok(())
    }

    /// The end: everything to Error, everything accounted for.
    fn end(&mut self) -> Check {
        for side in 0..self.endpoints.len() {
            self.force_error(side)?;
            self.model.all_accounted(side)?;
            if !self.endpoints[side].cq_dead {
                self.poll_cq(side)?;
            }
        }
        if let Some(violation) = self.model.pending.take() {
            return Err(violation);
        }
        Ok(())
    }
}
