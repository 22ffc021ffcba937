//! Who is woken, who looks at what has come, and who sleeps; how two processes meet.
//!
//! Owns: a process's thread, as the design of put/get has it: it looks until there is nothing, arms
//! its queues, looks once more, and sleeps until a solicited message, any message where all are
//! armed, RDMA of its own, or a failure. Must not know: what messages mean.

use crate::edge::{Edge, Port};
use crate::link::Standing;
use crate::world::World;
use crate::{Law, Plant};
use ferriband_portals_process::{Hold, Peer, advance};
use ferriband_putget_proto::{Connection, Kind, Message, Violation};

/// What a thread finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    /// A message by this side of a connection.
    Message(usize),
    /// RDMA of this side that is over.
    Rdma(usize),
    /// An operation by a lease of this side's that is over.
    Direct(usize),
    /// This side's connection is lost, and all that completed before was handed over.
    Loss(usize),
}

impl World {
    /// A process's thread is to look.
    pub(crate) fn wake(&mut self, process: usize) {
        let process = &mut self.processes[process];
        if !process.awake && !process.dead {
            process.awake = true;
            self.stats.woken += 1;
        }
    }

    /// Whether the next message of a side can land.
    pub(crate) fn may_land(&self, at: usize) -> bool {
        let link = &self.links[at];
        let goes = !link.failed || self.plant == Some(Plant::DirectAfterLoss);
        goes && !link.flying.is_empty() && !self.is_fenced(at)
    }

    /// It takes a receive of the peer's. Law 10.
    pub(crate) fn take_receive(&mut self, at: usize) {
        let link = &mut self.links[at];
        let (from, to) = (link.from, link.to);
        match link.receives.checked_sub(1) {
            Some(left) => link.receives = left,
            None => {
                let what = format!("p{from}'s message finds no receive of p{to}");
                self.fail(Law::Bound, what);
            }
        }
    }

    /// It lands: it takes a receive, and tells of itself.
    pub(crate) fn land(&mut self, at: usize) {
        let link = &mut self.links[at];
        let (from, to) = (link.from, link.to);
        let front = link.flying.front();
        self.stats.fenced += u64::from(front.is_some_and(|packet| packet.fence));
        if front.is_some_and(|packet| packet.direct.is_some()) {
            return self.land_direct(at);
        }
        let Some(mut packet) = link.flying.pop_front() else {
            return;
        };
        self.take_receive(at);
        if let Some(pieces) = packet.late.take() {
            let bytes = self.processes[from].portals.memory.read(&pieces);
            let rest = packet.bytes.len() - bytes.len();
            packet.bytes[rest..].copy_from_slice(&bytes);
        }
        let solicited = packet.solicited;
        self.note(|_| format!("p{from}'s message lands at p{to}, solicited: {solicited}"));
        self.links[at].arrived.push_back(packet);
        let back = self.back(at);
        if solicited || self.links[back].armed_for_all {
            self.wake(to);
        } else if !self.processes[to].awake {
            self.stats.unheard += 1;
        }
    }

    /// What a process's thread would find.
    fn finds(&self, process: usize) -> impl Iterator<Item = Found> + '_ {
        self.sides_of(process).flat_map(move |at| {
            let link = &self.links[at];
            let arrived = !self.links[self.back(at)].arrived.is_empty();
            let completed = !link.completions.is_empty();
            let over = !link.direct_over.is_empty();
            let joined = link.standing == Standing::Joined;
            let rest = !arrived && !completed && !over;
            let heard = link.failed && link.heard_from <= self.now;
            let found = [
                (joined && arrived, Found::Message(at)),
                (joined && completed, Found::Rdma(at)),
                (joined && over, Found::Direct(at)),
                (joined && heard && rest, Found::Loss(at)),
            ];
            found
                .into_iter()
                .filter_map(|(is, found)| is.then_some(found))
        })
    }

    /// Whether a process's thread has something to look at.
    pub(crate) fn may_look(&self, process: usize) -> bool {
        self.processes[process].awake && self.finds(process).next().is_some()
    }

    /// It looks at one thing.
    pub(crate) fn look(&mut self, process: usize) {
        let count = self.finds(process).count();
        let chosen = self.rng.index(count);
        let found = self.finds(process).nth(chosen);
        match found {
            Some(Found::Message(at)) => self.take_message(at),
            Some(Found::Rdma(at)) => self.take_rdma(at),
            Some(Found::Direct(at)) => self.take_direct(at),
            Some(Found::Loss(at)) => self.hear_of_loss(at),
            None => return,
        }
        self.advance(process);
    }

    /// What can begin begins. Whatever waits for room is found by this alone.
    pub(crate) fn advance(&mut self, me: usize) {
        if self.violation.is_some()
            || self.processes[me].dead
            || self.strikes(Plant::RoomUnnoticed, 1)
        {
            return;
        }
        advance(&mut Edge { world: self, me });
        // what was volatile was copied, what was in many pieces staged
        drop(self.processes[me].portals.memory.touched());
        // the thread is woken where its queues are armed for less than is waited for
        let narrow = |at: usize| {
            let link = &self.links[at];
            link.machine.as_ref().is_some_and(|machine| {
                machine.waits_for_all() && !link.armed_for_all
                    || machine.waits_for_direct() && !link.armed_for_direct
            })
        };
        if self.sides_of(me).any(narrow) {
            self.wake(me);
        }
        for op in std::mem::take(&mut self.processes[me].due) {
            self.ops[op].dispatched = true;
        }
        self.miscount();
    }

    fn take_message(&mut self, at: usize) {
        let back = self.back(at);
        let link = &mut self.links[back];
        let Some(packet) = link.arrived.pop_front() else {
            return;
        };
        // the receive is posted again before the message is carried out
        link.receives += 1;
        if let Some((immediate, length, op)) = packet.immediate {
            self.run_machine(at, |machine, port| {
                machine.handle_immediate(immediate, length, port)
            });
            return self.count_direct(op);
        }
        let header = Message::parse(&packet.bytes)
            .expect("a machine's own message")
            .header;
        let twice = header.kind == Kind::Response && self.strikes(Plant::ResponseDoubled, 5);
        for _ in 0..=usize::from(twice) {
            self.run_machine(at, |machine, port| {
                machine.handle_message(&packet.bytes, port)
            });
        }
    }

    fn take_rdma(&mut self, at: usize) {
        if let Some(job) = self.links[at].completions.pop_front() {
            self.run_machine(at, |machine, port| machine.handle_rdma(job, port));
        }
    }

    fn take_direct(&mut self, at: usize) {
        if let Some((job, brings)) = self.links[at].direct_over.pop_front() {
            self.run_machine(at, |machine, port| {
                machine.handle_direct(job, &brings, port)
            });
        }
    }

    fn hear_of_loss(&mut self, at: usize) {
        let (from, to) = (self.links[at].from, self.links[at].to);
        self.note(|_| format!("p{from} hears that its connection to p{to} is lost"));
        let kept = match self.plant {
            Some(Plant::LossEarly) => std::mem::take(&mut self.links[at].jobs),
            _ => Vec::new(),
        };
        self.links[at].part();
        self.links[at].jobs = kept;
        self.run_machine(at, |machine, port| {
            machine.handle_lost(port);
            Ok(())
        });
        self.links[at].machine = None;
        self.leave(from, to);
    }

    /// A process has no connection to another: what waits for it has failed.
    fn leave(&mut self, me: usize, to: usize) {
        self.processes[me].portals.left(Peer(to as u32));
        let waits = |op: &usize| {
            let op = &self.ops[*op];
            op.me == me && op.target == to && op.dispatched && !op.started && !op.over
        };
        let waiting: Vec<usize> = (0..self.ops.len()).filter(waits).collect();
        let mut in_order = waiting.clone();
        in_order.sort_by_key(|op| self.ops[*op].place);
        for op in in_order {
            self.undeliverable(op);
        }
        for order in self.processes[me].order.values_mut() {
            order.retain(|op| !waiting.contains(op));
        }
        self.miscount();
    }

    /// Law 12: a machine is given something, and finds no breach in it.
    fn run_machine(
        &mut self,
        at: usize,
        work: impl FnOnce(&mut Connection<Hold>, &mut Port<'_>) -> Result<(), Violation>,
    ) {
        let Some(mut machine) = self.links[at].machine.take() else {
            return;
        };
        let result = work(&mut machine, &mut Port::new(self, at));
        self.links[at].machine = Some(machine);
        if let Err(why) = result {
            let (from, to) = (self.links[at].from, self.links[at].to);
            self.fail(Law::Breach, format!("p{from} of p{to}: {why}"));
        }
    }

    /// Whether a process's thread can go to sleep.
    pub(crate) fn may_sleep(&self, process: usize) -> bool {
        let unlooked = self.plant == Some(Plant::SleptUnlooked);
        self.processes[process].awake && (unlooked || self.finds(process).next().is_none())
    }

    /// It arms its queues, and sleeps.
    pub(crate) fn sleep(&mut self, process: usize) {
        self.note(|_| format!("p{process} sleeps"));
        self.processes[process].awake = false;
        for at in self.sides_of(process).collect::<Vec<_>>() {
            let link = &mut self.links[at];
            let machine = link.machine.as_ref();
            link.armed_for_all = machine.is_some_and(|machine| machine.waits_for_all());
            let direct = machine.is_some_and(|machine| machine.waits_for_direct());
            link.armed_for_direct = direct && self.plant != Some(Plant::DirectUnarmed);
        }
    }

    /// Whether a side that asks for a connection can have an answer.
    pub(crate) fn may_meet(&self, at: usize) -> bool {
        let (link, other) = (&self.links[at], &self.links[self.back(at)]);
        let target = &self.processes[link.to];
        let asks = link.standing == Standing::Asking && !self.processes[link.from].dead;
        let answers = target.stopped_until <= self.now && other.standing != Standing::Joined;
        let heard = self.processes[link.from].stopped_until <= self.now;
        asks && heard && (target.dead || answers)
    }

    /// It has one: a connection, or nobody is there.
    pub(crate) fn meet_peer(&mut self, at: usize) {
        let (from, to) = (self.links[at].from, self.links[at].to);
        let back = self.back(at);
        if self.processes[to].dead {
            self.note(|_| format!("p{from} finds no p{to}"));
            self.links[at].part();
            self.leave(from, to);
            self.advance(from);
            return;
        }
        self.note(|_| format!("p{from} and p{to} meet"));
        self.stats.meetings += 1;
        for (at, back) in [(at, back), (back, at)] {
            let (own, peer) = (self.links[at].config, self.links[back].config);
            let mut believed = peer;
            believed.receives += u16::from(self.plant == Some(Plant::ReceivesForgotten)) * 3;
            let machine = Connection::new(own, believed).expect("possible numbers");
            self.links[at].join(machine, peer);
            self.links[at].arrived.clear();
            let (me, other) = (self.links[at].from, self.links[at].to);
            // what was under way to it before never arrives
            let ops = &self.ops;
            for ((target, _), order) in &mut self.processes[me].order {
                if *target == other {
                    order.retain(|op| !ops[*op].started);
                }
            }
        }
        for me in [from, to] {
            self.wake(me);
            self.advance(me);
        }
    }
}
