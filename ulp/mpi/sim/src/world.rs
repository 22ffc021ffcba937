//! The world: who does what next, what must hold after each step, and at the end.

use crate::rank::{Channel, Inbound, Phase, Rank, Task};
use crate::wire::{Body, DEPTH, Memory, Message, Op, Post};
use crate::{Failure, Fault, Options, Report, Rng};
use ferriband_mpi_proto::envelope::{Envelope, Kind};
use ferriband_mpi_proto::fast::{AnyReceiver, AnySender, Broken, Design, Plan, Push, SLOT};
use std::collections::VecDeque;

/// No run has more steps.
const STEPS: u64 = 300_000;

type Outcome<T = ()> = Result<T, String>;

pub struct World {
    seed: u64,
    step: u64,
    rng: Rng,
    fault: Option<Fault>,
    ranks: Vec<Rank>,
    /// Requests from one rank to another.
    wires: Vec<Vec<VecDeque<Op>>>,
    plans: Vec<Plan>,
    /// How soon a rank that waits falls asleep, of a thousand.
    drowsiness: u64,
    report: Report,
}

/// Bytes of the message with this number.
fn length_of(from: usize, to: usize, seq: u32) -> u32 {
    let mixed = (seq ^ (from as u32) << 8 ^ (to as u32) << 12).wrapping_mul(0x9e37_79b9) >> 8;
    if mixed.is_multiple_of(4) {
        mixed % 2500
    } else {
        mixed % 150
    }
}

/// The plans of a run: one design, blocks of two sizes.
fn plans(rng: &mut Rng) -> Vec<Plan> {
    let design = Design::ALL[rng.below(4) as usize];
    let granule = if design.is_fixed() {
        SLOT
    } else {
        [16, 64, 256][rng.below(3) as usize]
    };
    let sizes = if design.is_fixed() {
        [16384, 32768]
    } else {
        [4096, 8192]
    };
    let plan = |size| Plan::new(design, size, granule).expect("a plan");
    sizes.map(plan).to_vec()
}

impl World {
    pub fn new(seed: u64, options: Options) -> Self {
        let mut rng = Rng(seed);
        let count = 2 + rng.below(2) as usize;
        let plans = plans(&mut rng);
        let drowsiness = [3, 30, 400][rng.below(3) as usize];
        let busyness = 20 + rng.below(80);
        let mut ranks: Vec<Rank> = (0..count).map(|_| Rank::new(count)).collect();
        let mut due = vec![0; count];
        for _ in 0..1 + rng.below(6) {
            for (rank, one) in ranks.iter_mut().enumerate() {
                for _ in 0..rng.below(busyness) {
                    let to = (rank + 1 + rng.below(count as u64 - 1) as usize) % count;
                    one.program.push_back(Task::Send(to));
                    due[to] += 1;
                }
            }
            for (rank, due) in ranks.iter_mut().zip(&due) {
                rank.program.push_back(Task::Await(*due));
            }
        }
        Self {
            seed,
            step: 0,
            rng,
            fault: options.fault,
            ranks,
            wires: vec![vec![VecDeque::new(); count]; count],
            plans,
            drowsiness,
            report: Report::default(),
        }
    }

    pub fn run(mut self) -> Result<Report, Failure> {
        match self.go() {
            Ok(()) => Ok(self.report),
            Err(what) => Err(Failure {
                seed: self.seed,
                step: self.step,
                what: format!("{:?}: {what}", self.plans[0].design()),
            }),
        }
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn go(&mut self) -> Outcome {
        loop {
            self.step += 1;
            if self.step > STEPS {
                return Err("it comes to no end".to_owned());
            }
            if self.is_over() {
                return self.balance();
            }
            let wires = self.busy_wires();
            let awake: Vec<usize> = (0..self.ranks.len())
                .filter(|rank| {
                    let rank = &self.ranks[*rank];
                    rank.phase != Phase::Away
                        && (rank.has_event || rank.phase != Phase::Asleep(true))
                })
                .collect();
            let is_dozing = |rank: &usize| {
                let rank = &self.ranks[*rank];
                rank.phase == Phase::Asleep(false) && !rank.has_event
            };
            if wires.is_empty() && awake.iter().all(is_dozing) {
                let came = self.come_back()?;
                if came {
                    continue;
                }
                if awake.is_empty() {
                    return Err(self.lost());
                }
            }
            let pick = self.rng.below((wires.len() + awake.len()) as u64) as usize;
            match wires.get(pick) {
                Some((from, to)) => self.arrive(*from, *to)?,
                None => self.turn(awake[pick - wires.len()])?,
            }
        }
    }

    /// Nothing happens any more but that ranks compute: who sleeps must have nothing to do.
    fn come_back(&mut self) -> Outcome<bool> {
        let has_work = |rank: &Rank| {
            let mut inbounds = rank.from.iter().filter_map(|from| from.inbound.as_ref());
            rank.phase == Phase::Asleep(true)
                && (!rank.queue.is_empty()
                    || inbounds.any(|inbound| inbound.receiver.is_ready(&inbound.memory)))
        };
        if self.ranks.iter().any(has_work) {
            return Err(self.lost());
        }
        let away = |rank: &&mut Rank| rank.phase == Phase::Away;
        let found = self.ranks.iter_mut().find(away);
        Ok(found.map(|rank| rank.phase = Phase::Awake).is_some())
    }

    fn busy_wires(&self) -> Vec<(usize, usize)> {
        let count = self.ranks.len();
        (0..count * count)
            .map(|pair| (pair / count, pair % count))
            .filter(|(from, to)| !self.wires[*from][*to].is_empty())
            .collect()
    }

    fn is_over(&self) -> bool {
        let is_still = |rank: &Rank| {
            rank.program.is_empty()
                && rank.queue.is_empty()
                && rank.to.iter().all(|to| to.waiting.is_empty())
        };
        self.ranks.iter().all(is_still) && self.busy_wires().is_empty()
    }

    fn lost(&self) -> String {
        let state: Vec<String> = self
            .ranks
            .iter()
            .map(|rank| {
                let ready = rank.from.iter().filter_map(|from| from.inbound.as_ref());
                let ready = ready
                    .filter(|inbound| inbound.receiver.is_ready(&inbound.memory))
                    .count();
                let waiting: usize = rank.to.iter().map(|to| to.waiting.len()).sum();
                format!(
                    "{:?} of its program next ({} of it left), {} messages got, {ready} blocks with records, {} completions, {waiting} messages wait",
                    rank.program.front(),
                    rank.program.len(),
                    rank.got,
                    rank.queue.len()
                )
            })
            .collect();
        format!("M4: all sleep, and nobody will wake them: {state:?}")
    }

    /// At the end: all that was sent has been consumed, and the sender can know.
    fn balance(&mut self) -> Outcome {
        for from in 0..self.ranks.len() {
            for to in 0..self.ranks.len() {
                if self.ranks[from].to[to].sent != self.ranks[to].from[from].delivered {
                    return Err(format!("M1: messages of {from} to {to} are missing"));
                }
                let Some(inbound) = &mut self.ranks[to].from[from].inbound else {
                    continue;
                };
                let left = inbound.receiver.peek(&inbound.memory).map_err(broken)?;
                if left.is_some() || inbound.memory.alive.contains(&true) {
                    return Err("a record is left over".to_owned());
                }
                let (told, life) = (inbound.receiver.report(), inbound.life);
                let way = &mut self.ranks[from].to[to];
                if let Channel::Open(sender) = &mut way.channel
                    && way.life == life
                {
                    sender.credit(told);
                    if sender.used() != 0 {
                        return Err(format!("{} bytes of credit are lost", sender.used()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Some of what is under way arrives.
    fn arrive(&mut self, from: usize, to: usize) -> Outcome {
        let fault = self.fault;
        let second = fault == Some(Fault::WritesOvertake) && self.rng.chance(300);
        let wire = &mut self.wires[from][to];
        let at = usize::from(
            second
                && matches!(
                    (wire.front(), wire.get(1)),
                    (Some(Op::Write { .. }), Some(Op::Write { .. }))
                ),
        );
        let is_done = match &mut wire[at] {
            Op::Write {
                life,
                bytes,
                record,
            } => {
                let way = &mut self.ranks[to].from[from];
                let Some(inbound) = way.inbound.as_mut().filter(|inbound| inbound.life == *life)
                else {
                    return Err("a write to memory that was given back".to_owned());
                };
                for _ in 0..=self.rng.below(120) {
                    let Some((at, byte)) = bytes.pop() else {
                        break;
                    };
                    if inbound.memory.alive[at as usize] {
                        return Err(format!("byte {at} is written over what is not consumed"));
                    }
                    inbound.memory.bytes[at as usize] = byte;
                }
                let is_done = bytes.is_empty();
                if let Some(record) = record.clone().filter(|_| is_done) {
                    inbound.memory.alive[record.clone()].fill(true);
                    inbound.memory.records.push_back(record);
                }
                is_done
            }
            Op::Word(word) => {
                self.ranks[to].to[from].returned = *word;
                true
            }
            Op::Send(message) => {
                let message = *message;
                self.ranks[to].queue.push_back((from, message));
                self.ranks[to].hear();
                true
            }
        };
        if is_done {
            self.wires[from][to].remove(at);
            // A completion says that there is room.
            self.ranks[from].hear();
        }
        Ok(())
    }

    /// Rank `me` does something.
    fn turn(&mut self, me: usize) -> Outcome {
        match self.ranks[me].phase {
            Phase::Awake => self.work(me),
            Phase::Away => Ok(()),
            Phase::Asked(quiet) => {
                let rank = &mut self.ranks[me];
                rank.has_event = false;
                rank.is_armed = true;
                rank.phase = Phase::Armed(quiet);
                Ok(())
            }
            Phase::Armed(quiet) => {
                let came = !self.is(Fault::NoLastLook) && self.progress(me, true)?;
                self.report.sleeps += u64::from(quiet && !came);
                self.ranks[me].phase = if came {
                    Phase::Awake
                } else {
                    Phase::Asleep(quiet)
                };
                Ok(())
            }
            Phase::Asleep(unbounded) => {
                let rank = &mut self.ranks[me];
                if rank.has_event || (!unbounded && self.rng.chance(100)) {
                    rank.phase = Phase::Awake;
                }
                Ok(())
            }
        }
    }

    fn work(&mut self, me: usize) -> Outcome {
        self.ranks[me].advance();
        if let Some(Task::Send(to)) = self.ranks[me].program.front().copied() {
            if self.rng.chance(200) {
                self.progress(me, false)?;
            }
            if self.rng.chance(15) {
                self.ranks[me].phase = Phase::Away;
            } else if self.rng.chance(800) {
                self.ranks[me].program.pop_front();
                self.send(me, to)?;
            }
            return Ok(());
        }
        if !self.progress(me, false)? && self.rng.chance(self.drowsiness) {
            let quiet = self.quieten(me)?;
            self.ranks[me].phase = Phase::Asked(quiet);
        }
        Ok(())
    }

    fn send(&mut self, me: usize, to: usize) -> Outcome {
        let way = &mut self.ranks[me].to[to];
        let seq = way.sent.wrapping_add(
            1 + way
                .waiting
                .iter()
                .filter(|one| matches!(one, Body::Data(_)))
                .count() as u32,
        );
        let is_open = matches!(way.channel, Channel::Open(_));
        if is_open && self.rng.chance(6) {
            // For a block of another size.
            let life = way.life;
            way.channel = Channel::Closed;
            self.report.closed += 1;
            self.post(me, to, Body::Closed(life))?;
            self.ask(me, to)?;
        } else if !is_open && self.rng.chance(250) {
            self.ask(me, to)?;
        }
        self.post(me, to, Body::Data(length_of(me, to, seq)))
    }

    fn ask(&mut self, me: usize, to: usize) -> Outcome {
        let plan = self.plans[self.rng.below(2) as usize];
        let way = &mut self.ranks[me].to[to];
        if !matches!(way.channel, Channel::Closed) {
            return Ok(());
        }
        way.life += 1;
        way.channel = Channel::Opening(plan);
        let life = way.life;
        self.post(me, to, Body::Open(plan, life))
    }

    /// Sends, or lets it wait its turn.
    fn post(&mut self, me: usize, to: usize, body: Body) -> Outcome {
        if !self.ranks[me].to[to].waiting.is_empty() || !self.try_post(me, to, body) {
            self.ranks[me].to[to].waiting.push_back(body);
        }
        Ok(())
    }

    fn try_post(&mut self, me: usize, to: usize, body: Body) -> bool {
        let early = u32::from(self.is(Fault::EarlyCredit));
        let credit = match &mut self.ranks[me].from[to].inbound {
            Some(inbound) => inbound.receiver.report() + early,
            None => 0,
        };
        let queue = &mut self.wires[me][to];
        let way = &mut self.ranks[me].to[to];
        let mut seq = 0;
        if let Body::Data(length) = body {
            seq = way.sent + 1;
            let may_write = way.gate.is_open() || self.fault == Some(Fault::WritesOn);
            if let Channel::Open(sender) = &mut way.channel
                && may_write
            {
                sender.credit(way.returned as u32);
                let head = envelope(seq, credit).emit();
                let mut post = Post {
                    queue,
                    mirror: &mut way.mirror,
                    design: sender.plan().design(),
                    life: way.life,
                    rng: &mut self.rng,
                    fault: self.fault,
                };
                if sender.push(&head, seq, length, seq as u8, &mut post) == Push::Stored {
                    way.sent = seq;
                    self.report.records += 1;
                    return true;
                }
            }
        }
        let queue = &mut self.wires[me][to];
        if queue.len() >= DEPTH {
            return false;
        }
        if seq != 0 {
            way.sent = seq;
        }
        queue.push_back(Op::Send(Message { seq, credit, body }));
        true
    }

    /// One round. True if something happened. A round looks at some of the blocks, the last before a sleep at all.
    fn progress(&mut self, me: usize, all: bool) -> Outcome<bool> {
        let mut did = false;
        for _ in 0..4 {
            let Some((from, message)) = self.ranks[me].queue.pop_front() else {
                break;
            };
            did = true;
            self.arrived(me, from, message)?;
        }
        for from in 0..self.ranks.len() {
            if all || self.rng.chance(600) {
                did |= self.drain(me, from)?;
                self.tend(me, from)?;
            }
        }
        for to in 0..self.ranks.len() {
            while let Some(body) = self.ranks[me].to[to].waiting.front().copied() {
                if !self.try_post(me, to, body) {
                    break;
                }
                self.ranks[me].to[to].waiting.pop_front();
                did = true;
            }
        }
        Ok(did)
    }

    /// Returns credit that found no room, and takes a block back now and then.
    fn tend(&mut self, me: usize, from: usize) -> Outcome {
        let takes_back = self.rng.chance(3);
        let Some(inbound) = &mut self.ranks[me].from[from].inbound else {
            return Ok(());
        };
        if inbound.owes {
            self.return_credit(me, from);
        } else if takes_back && !inbound.is_closing {
            inbound.is_closing = true;
            let life = inbound.life;
            self.post(me, from, Body::Close(life))?;
        }
        Ok(())
    }

    fn return_credit(&mut self, me: usize, from: usize) {
        let early = u32::from(self.is(Fault::EarlyCredit));
        let queue = &mut self.wires[me][from];
        if let Some(inbound) = &mut self.ranks[me].from[from].inbound {
            inbound.owes = queue.len() >= DEPTH;
            if !inbound.owes {
                queue.push_back(Op::Word(u64::from(inbound.receiver.report() + early)));
            }
        }
    }

    fn arrived(&mut self, me: usize, from: usize, message: Message) -> Outcome {
        if let Channel::Open(sender) = &mut self.ranks[me].to[from].channel {
            sender.credit(message.credit);
        }
        let life_there = |inbound: &Option<Inbound>| inbound.as_ref().map(|inbound| inbound.life);
        match message.body {
            Body::Data(length) => {
                if message.seq != self.ranks[me].from[from].received + 1 {
                    while self.drain(me, from)? {}
                }
                self.ranks[me].from[from].received = message.seq;
                self.deliver(me, from, message.seq, length)?;
                let way = &mut self.ranks[me].from[from];
                if way.inbound.is_some()
                    && let Some((epoch, owns)) = way.lull.message()
                {
                    self.post(me, from, Body::Resume { epoch, owns })?;
                }
                Ok(())
            }
            Body::Open(plan, life) => {
                let is_granted =
                    self.ranks[me].from[from].inbound.is_none() && !self.rng.chance(120);
                if is_granted {
                    let way = &mut self.ranks[me].from[from];
                    way.lull.reopen();
                    way.inbound = Some(Inbound {
                        receiver: AnyReceiver::new(plan),
                        memory: Memory::new(plan, self.fault),
                        life,
                        is_closing: false,
                        owes: false,
                    });
                }
                self.post(me, from, Body::Opened(plan, life, is_granted))
            }
            Body::Opened(plan, life, is_granted) => {
                while self.drain(me, from)? {}
                let keeps = self.is(Fault::OldCredit);
                let way = &mut self.ranks[me].to[from];
                if !matches!(way.channel, Channel::Opening(asked) if asked == plan && life == way.life)
                {
                    return Err("an answer to no question".to_owned());
                }
                way.channel = Channel::Closed;
                if is_granted {
                    way.channel = Channel::Open(AnySender::new(plan));
                    way.mirror = vec![0; plan.size() as usize];
                    way.gate.reopen();
                    if !keeps {
                        way.returned = 0;
                    }
                }
                Ok(())
            }
            Body::Close(life) => {
                let way = &mut self.ranks[me].to[from];
                if way.life != life || !matches!(way.channel, Channel::Open(_)) {
                    return Ok(());
                }
                way.channel = Channel::Closed;
                self.report.closed += 1;
                self.post(me, from, Body::Closed(life))
            }
            Body::Closed(life) => {
                if !self.is(Fault::NoDrain) {
                    while self.drain(me, from)? {}
                }
                let way = &mut self.ranks[me].from[from];
                if life_there(&way.inbound) == Some(life)
                    && let Some(inbound) = way.inbound.take()
                    && inbound.memory.alive.contains(&true)
                {
                    return Err("a block is given back with a record in it".to_owned());
                }
                Ok(())
            }
            Body::Pause { epoch, own } => {
                if own {
                    while self.drain(me, from)? {}
                    self.ranks[me].from[from].lull.promised();
                }
                self.ranks[me].to[from].gate.pause(epoch);
                self.post(me, from, Body::Paused(epoch))
            }
            Body::Paused(epoch) => {
                while self.drain(me, from)? {}
                let any = self.is(Fault::AnyAnswer);
                let lull = &mut self.ranks[me].from[from].lull;
                for older in 0..if any { 3 } else { 1 } {
                    lull.answered(epoch + older);
                }
                Ok(())
            }
            Body::Resume { epoch, owns } => {
                let way = &mut self.ranks[me].to[from];
                let counts = way.gate.resume(epoch, owns);
                self.report.resumes += u64::from(counts);
                Ok(())
            }
        }
    }

    /// Takes the records of `from` whose turn has come.
    fn drain(&mut self, me: usize, from: usize) -> Outcome<bool> {
        let mut did = false;
        loop {
            let way = &mut self.ranks[me].from[from];
            let Some(inbound) = &mut way.inbound else {
                return Ok(did);
            };
            let Some(record) = inbound.receiver.peek(&inbound.memory).map_err(broken)? else {
                return Ok(did);
            };
            let Some(head) = Envelope::parse(record.envelope) else {
                return Err("a record without an envelope".to_owned());
            };
            if head.seq != way.received + 1 && self.fault != Some(Fault::NoTurn) {
                return Ok(did);
            }
            let Some(range) = inbound.memory.records.pop_front() else {
                return Err("a record is taken before it has come".to_owned());
            };
            let body = record.at as usize..(record.at + record.length) as usize;
            if body.start < range.start || body.end > range.end {
                return Err("a record is found where none lies".to_owned());
            }
            let byte = head.seq as u8;
            if inbound.memory.bytes[body].iter().any(|one| *one != byte) {
                return Err("a record is torn".to_owned());
            }
            if head != envelope(head.seq, head.credit) {
                return Err("an envelope is torn".to_owned());
            }
            inbound.memory.alive[range].fill(false);
            let is_due = inbound.receiver.consume(&record, &mut inbound.memory);
            way.received = head.seq;
            did = true;
            if let Channel::Open(sender) = &mut self.ranks[me].to[from].channel {
                sender.credit(head.credit);
            }
            if is_due {
                self.return_credit(me, from);
            }
            self.deliver(me, from, head.seq, record.length)?;
        }
    }

    /// The program gets a message.
    fn deliver(&mut self, me: usize, from: usize, seq: u32, length: u32) -> Outcome {
        let rank = &mut self.ranks[me];
        let way = &mut rank.from[from];
        if seq != way.delivered + 1 {
            return Err(format!(
                "M1: message {seq} of {from} comes after {}",
                way.delivered
            ));
        }
        if length != length_of(from, me, seq) {
            return Err(format!("message {seq} has {length} bytes"));
        }
        way.delivered = seq;
        rank.got += 1;
        rank.advance();
        self.report.messages += 1;
        Ok(())
    }

    /// Asks the senders to stop. Whether all had.
    fn quieten(&mut self, me: usize) -> Outcome<bool> {
        if self.is(Fault::SleepsUnasked) {
            return Ok(true);
        }
        let mut all = true;
        for from in 0..self.ranks.len() {
            let rank = &mut self.ranks[me];
            let way = &mut rank.from[from];
            if way.inbound.is_none() || way.lull.is_quiet() {
                continue;
            }
            all = false;
            let Some(epoch) = way.lull.ask() else {
                continue;
            };
            let to = &mut rank.to[from];
            let own = matches!(to.channel, Channel::Open(_)) && to.gate.is_open();
            if own && self.fault != Some(Fault::BreaksPromise) {
                to.gate.promise();
            }
            self.report.pauses += 1;
            self.post(me, from, Body::Pause { epoch, own })?;
        }
        Ok(all || self.is(Fault::SleepsUnanswered))
    }
}

fn envelope(seq: u32, credit: u32) -> Envelope {
    Envelope {
        kind: Kind::Eager,
        flags: 0,
        seq,
        ack: !seq,
        credit,
        tag: 7,
        context: u64::from(seq) << 20,
    }
}

fn broken(_: Broken) -> String {
    "what lies in the block is no record".to_owned()
}
