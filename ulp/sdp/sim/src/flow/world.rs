//! The steps of a run: which of the two programs, machines and directions goes on, and what must
//! hold then.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::fabric::{Arrival, Posted, ReceiveMemory, Tag, What, Wire};
use super::side::{Posting, Program, Side, config, peer};
use super::{Failure, Kind, Law, Plant, Scenario, Stats};
use ferriband_sdp_proto::connection::{Connection, Flow, HEAD_BYTES, Pair};
use ferriband_sdp_proto::driver::drive_once;
use ferriband_seed::Rng;

/// Steps after which a run that does not end is a failure.
const STEP_LIMIT: u64 = 400_000;
const TRACE_LINES: usize = 60;
const NEVER: u64 = u64::MAX;

/// What can happen next: at a side, or in the direction that it sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// The program gives bytes, or says that it gives no more.
    Give,
    /// The program reads.
    Read,
    /// The driver takes the completion of a receive, or of a work.
    Arrive(Pair),
    Complete(Pair),
    /// The driver hands over a work.
    Drive,
    /// A packet lands; a work takes its receive.
    Land,
    Execute(Pair),
    /// The driver hears that the transport has failed.
    Lost,
}

const STEPS: [Step; 11] = [
    Step::Give,
    Step::Read,
    Step::Arrive(Pair::Stream),
    Step::Complete(Pair::Stream),
    Step::Drive,
    Step::Land,
    Step::Execute(Pair::Stream),
    Step::Lost,
    Step::Arrive(Pair::Offers),
    Step::Complete(Pair::Offers),
    Step::Execute(Pair::Offers),
];

pub(super) struct World {
    pub(super) kind: Kind,
    pub(super) plant: Option<Plant>,
    pub(super) rng: Rng,
    pub(super) sides: [Side; 2],
    /// `wires[side]`: what that side sends.
    pub(super) wires: [Wire; 2],
    /// `offers[side]`: what that side sends by the second queue pair, of zero copy.
    pub(super) offers: [Wire; 2],
    /// How likely each of [`STEPS`] is.
    weights: [[u64; STEPS.len()]; 2],
    packet: u32,
    /// A side is killed, the transport fails, a side gives up: at this step.
    pub(super) kill: Option<(usize, u64)>,
    pub(super) reset_at: u64,
    pub(super) abort: Option<(usize, u64)>,
    pub(super) lost: bool,
    pub(super) violation: Option<(Law, String)>,
    trace: Option<VecDeque<String>>,
    pub(super) stats: Stats,
}

/// Runs one seed with one flow control. The same seed and scenario give the same run.
///
/// # Errors
/// The first law that is broken, with the steps that led to it.
pub fn run(seed: u64, scenario: &Scenario) -> Result<Stats, Failure> {
    // the trace costs time: only a run that fails is run again with it
    run_once(seed, scenario, false)
        .map_err(|failure| run_once(seed, scenario, true).err().unwrap_or(failure))
}

fn run_once(seed: u64, scenario: &Scenario, trace: bool) -> Result<Stats, Failure> {
    let mut world = World::new(seed, scenario, trace);
    let caught = catch_unwind(AssertUnwindSafe(|| world.run()));
    if let Err(panic) = caught {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
        world.fail(Law::Panic, text.unwrap_or_default());
    }
    match world.violation {
        None => Ok(world.stats),
        Some((law, what)) => Err(Failure {
            seed,
            kind: scenario.kind,
            law,
            what,
            trace: world.trace.unwrap_or_default().into(),
        }),
    }
}

impl World {
    fn new(seed: u64, scenario: &Scenario, trace: bool) -> Self {
        let (kind, plant) = (scenario.kind, scenario.plant);
        let mut rng = Rng::new(seed ^ ((kind as u64 + 1) << 40));
        let configs = [config(&mut rng, kind), config(&mut rng, kind)];
        let side = |me: usize, rng: &mut Rng| {
            let (own, other) = (configs[me], configs[1 - me]);
            let machine = Connection::new(own, peer(&other, plant)).expect("possible numbers");
            let memory = match own.flow {
                Flow::Credit => u32::from(own.receives()) * own.receive_bytes(),
                Flow::Ring { .. } | Flow::Nic { .. } => own.ring_bytes(),
            };
            Side {
                config: own,
                machine,
                send_memory: vec![0; own.send_bytes() as usize],
                memory: ReceiveMemory::new(memory),
                program: Program::new(rng, other.space_bytes().into()),
                stale: true,
                armed: false,
                dead: false,
                told_lost: false,
                offered: Vec::new(),
                offered_at: 1 << 20,
                fetched: Vec::new(),
                uncopied: None,
            }
        };
        let sides = [side(0, &mut rng), side(1, &mut rng)];
        let mut weights = [[0; STEPS.len()]; 2];
        for weight in weights.iter_mut().flatten() {
            *weight = rng.pick(&[1, 3, 10, 30]);
        }
        let mut world = World {
            kind,
            plant,
            sides,
            wires: Default::default(),
            offers: Default::default(),
            weights,
            packet: rng.pick(&[1, 8, 64]),
            kill: None,
            reset_at: NEVER,
            abort: None,
            lost: false,
            violation: None,
            trace: trace.then(VecDeque::new),
            stats: Stats::default(),
            rng,
        };
        world.plan();
        world
    }

    #[cold]
    pub(super) fn fail(&mut self, law: Law, what: impl Into<String>) {
        if self.violation.is_none() {
            self.violation = Some((law, what.into()));
        }
    }

    pub(super) fn note(&mut self, line: impl FnOnce(&World) -> String) {
        if self.trace.is_none() {
            return;
        }
        let line = format!("{:>6}  {}", self.stats.steps, line(self));
        let trace = self.trace.as_mut().expect("looked at before");
        if trace.len() >= TRACE_LINES {
            trace.pop_front();
        }
        trace.push_back(line);
    }

    fn run(&mut self) {
        self.note(|world| format!("{:?}", world.sides.each_ref().map(|side| side.config)));
        // the receives are posted before Hello and HelloAck tell of them
        for side in 0..2 {
            while self.sides[side].stale {
                self.drive(side);
            }
        }
        while self.violation.is_none() {
            if self.stats.steps > STEP_LIMIT {
                self.fail(Law::Progress, "no end");
            }
            self.stats.steps += 1;
            self.strike();
            if !self.step() && !self.time_passes() {
                break;
            }
            self.check_credits();
        }
        if self.violation.is_none() {
            self.check_end();
        }
        for side in &self.sides {
            let stats = side.machine.stats();
            self.stats.joined += stats.joined;
            self.stats.updates += stats.updates_sent;
            self.stats.segments += stats.writes_sent;
        }
    }

    /// One of the steps that are possible. False if none is.
    fn step(&mut self) -> bool {
        let mut possible = [(Step::Give, 0, 0); 2 * STEPS.len()];
        let (mut count, mut sum) = (0, 0);
        for side in 0..2 {
            for (step, weight) in STEPS.into_iter().zip(self.weights[side]) {
                if self.is_possible(step, side) {
                    sum += weight;
                    possible[count] = (step, side, sum);
                    count += 1;
                }
            }
        }
        if count == 0 {
            return false;
        }
        let dice = self.rng.below(sum);
        let chosen = possible[..count].iter().find(|(_, _, upto)| dice < *upto);
        let (step, side, _) = *chosen.expect("the dice are below the sum");
        match step {
            Step::Give => self.give(side),
            Step::Read => self.read(side),
            Step::Arrive(pair) => self.arrive(pair, side),
            Step::Complete(pair) => self.complete(pair, side),
            Step::Drive => self.drive(side),
            Step::Land => self.land(side),
            Step::Execute(pair) => self.execute(pair, side),
            Step::Lost => self.tell_lost(side),
        }
        true
    }

    fn is_possible(&self, step: Step, side: usize) -> bool {
        let me = &self.sides[side];
        let program = &me.program;
        let awake = !me.dead && program.reads_from <= self.stats.steps;
        let over = me.machine.over().is_some();
        match step {
            Step::Give => awake && !over && !program.computing && !program.shut && !program.blocked,
            Step::Read => {
                let more = me.machine.readable().is_some()
                    || me.uncopied.is_some()
                    || me.machine.fetchable().is_some()
                    || program.fetching;
                let end = me.machine.is_at_end() || self.plant == Some(Plant::EndEarly);
                let waits = program.fetching && program.blocked_fetch;
                awake && !waits && program.reads() && (more || (end && !program.at_end && !over))
            }
            Step::Arrive(pair) => {
                !me.dead && !program.computing && !self.wire(pair, 1 - side).arrivals.is_empty()
            }
            Step::Complete(pair) => {
                let looks = !program.computing || me.armed;
                !me.dead && looks && !self.wire(pair, side).completions.is_empty()
            }
            Step::Drive => !me.dead && me.stale,
            Step::Land => self.wires[side].has_packet(),
            Step::Execute(Pair::Offers) => {
                let wire = &self.offers[side];
                let is_one = self.plant == Some(Plant::OneQueuePair);
                let waits = is_one && !self.wires[side].works.is_empty();
                wire.is_ready() && !wire.is_held() && !waits
            }
            Step::Execute(Pair::Stream) => {
                // what is held waits, and is looked at when there is a receive
                let held = self.wires[side].is_held();
                let promised = self.is_promised(side);
                self.wires[side].is_ready() && (!held || promised.is_some())
            }
            Step::Lost => {
                let drained = [Pair::Stream, Pair::Offers].iter().all(|pair| {
                    self.wire(*pair, 1 - side).arrivals.is_empty()
                        && self.wire(*pair, side).completions.is_empty()
                });
                let computing = program.computing;
                self.lost && !me.dead && !me.told_lost && (drained || computing)
            }
        }
    }

    /// Nothing is possible: a sleep ends, or a transport whose side gave up. False if that is all.
    fn time_passes(&mut self) -> bool {
        let now = self.stats.steps;
        let sleeps = self.sides.iter().map(|side| side.program.reads_from);
        if let Some(at) = sleeps.filter(|at| *at > now).min() {
            self.stats.steps = at;
            return true;
        }
        let over = self.sides.iter().any(|side| side.machine.over().is_some());
        if over && !self.lost {
            self.lose();
            return true;
        }
        for side in 0..2 {
            let program = &self.sides[side].program;
            let waits = program.offering && program.waits_for_offers && !program.cancelled;
            let lives = !self.sides[side].dead && self.sides[side].machine.over().is_none();
            if waits && lives {
                self.take_back(side);
                return true;
            }
        }
        false
    }

    pub(super) fn wire(&self, pair: Pair, side: usize) -> &Wire {
        match pair {
            Pair::Stream => &self.wires[side],
            Pair::Offers => &self.offers[side],
        }
    }

    pub(super) fn wires(&mut self, pair: Pair) -> &mut [Wire; 2] {
        match pair {
            Pair::Stream => &mut self.wires,
            Pair::Offers => &mut self.offers,
        }
    }

    fn give(&mut self, side: usize) {
        if self.sides[side].program.offering {
            return self.wait_for_offer(side);
        }
        let me = &mut self.sides[side];
        let program = &mut me.program;
        let left = program.total - program.given;
        if left > 0 && me.machine.may_offer() && self.rng.chance(program.offers) {
            return self.offer(side, left);
        }
        if left == 0 {
            program.shut = true;
            me.machine.shut_down();
            me.stale = true;
            self.note(|_| format!("s{side} sends no more"));
            return;
        }
        if program.corked && self.rng.chance(30) || self.rng.chance(program.corks) {
            program.corked = !program.corked;
            if program.corked || self.plant != Some(Plant::CorkStays) {
                me.machine.set_cork(program.corked);
            }
            me.stale = true;
        }
        let Some(piece) = me.machine.reserve() else {
            // a cork holds nothing that fills the buffer, but may hold its last bytes
            program.blocked = !me.stale && !program.corked;
            return;
        };
        let longest = program.longest.min(left).min(piece.bytes.into());
        let bytes = self.rng.range(1, longest) as u32;
        for at in 0..bytes {
            program.given += 1;
            me.send_memory[(piece.at + at) as usize] = program.given;
        }
        let mut more = self.rng.chance(program.more);
        if program.given >= program.computes_at {
            (program.computing, more) = (true, false);
            self.stats.computing += 1;
        }
        me.machine.commit(bytes, more);
        if program.computing && self.plant != Some(Plant::CorkStays) {
            me.machine.set_cork(false);
        }
        me.stale = true;
        let given = program.given;
        self.note(|_| format!("s{side} gives {bytes}, up to {given}, more: {more}"));
    }

    fn read(&mut self, side: usize) {
        let me = &mut self.sides[side];
        if me.program.fetching {
            return self.finish_fetch(side);
        }
        if let Some(piece) = me.uncopied.take_if(|_| self.rng.chance(5)) {
            return self.copy(side, piece);
        }
        if me.uncopied.is_some() {
            return;
        }
        let early = self.plant == Some(Plant::EndEarly) && self.wires[1 - side].executed > 3;
        let Some(mut piece) = me.machine.readable().filter(|_| !early) else {
            if let Some(most) = me.machine.fetchable() {
                return self.fetch(side, most);
            }
            if early || me.machine.is_at_end() {
                self.end(side);
            }
            return;
        };
        let most = me
            .program
            .most
            .min(me.program.reads_until - me.program.read);
        piece.bytes = piece.bytes.min(self.rng.range(1, most) as u32);
        me.machine.consume(piece.bytes);
        me.stale |= self.plant != Some(Plant::ReadUnseen);
        if self.plant == Some(Plant::ConsumedFirst) {
            me.uncopied = Some(piece);
            return;
        }
        self.copy(side, piece);
    }

    fn copy(&mut self, side: usize, piece: ferriband_sdp_proto::connection::Piece) {
        let tags = self.sides[side].memory.read(piece);
        self.compare(side, &tags);
    }

    /// The program has these as its next bytes.
    pub(super) fn compare(&mut self, side: usize, tags: &[Tag]) {
        let program = &mut self.sides[side].program;
        for tag in tags {
            let expected = program.read;
            program.read += 1;
            if *tag != expected + 1 && self.violation.is_none() {
                let got = tag.wrapping_sub(1);
                let what = format!("s{side} reads byte {got} for byte {expected}");
                self.violation = Some((Law::Stream, what));
            }
        }
        self.stats.bytes += tags.len() as u64;
        let read = program.read;
        self.note(|_| format!("s{side} reads {} up to {read}", tags.len()));
    }

    fn end(&mut self, side: usize) {
        let other = &self.sides[1 - side].program;
        let (shut, given) = (other.shut, other.given);
        let program = &mut self.sides[side].program;
        program.at_end = true;
        self.stats.ends += 1;
        if !shut || program.read != given {
            let what = format!("s{side} sees the end after {} of {given}", program.read);
            self.fail(Law::End, what);
        }
        self.note(|_| format!("s{side} is at the end"));
    }

    /// Something has happened at a side: its program and its driver look again.
    pub(super) fn look_again(&mut self, side: usize) {
        self.sides[side].stale = true;
        self.sides[side].program.blocked = false;
        self.sides[side].program.blocked_fetch = false;
    }

    fn arrive(&mut self, pair: Pair, side: usize) {
        let swaps = self.plant == Some(Plant::ReceivesSwapped);
        let wire = &mut self.wires(pair)[1 - side];
        if swaps && wire.arrivals.len() > 1 {
            wire.arrivals.swap(0, 1);
        }
        let Some(arrival) = wire.arrivals.pop_front() else {
            return;
        };
        let machine = &mut self.sides[side].machine;
        let handled = match &arrival {
            Arrival::Message { head, length_bytes } => {
                machine.handle_message(pair, head, *length_bytes)
            }
            Arrival::Write { bytes, immediate } => machine.handle_write(*bytes, *immediate),
        };
        if let Err(violation) = handled {
            self.fail(Law::Broken, format!("s{side}: {violation}"));
        }
        self.look_again(side);
        self.note(|_| format!("s{side} handles an arrival"));
    }

    fn complete(&mut self, pair: Pair, side: usize) {
        let Some(id) = self.wires(pair)[side].completions.pop_front() else {
            return;
        };
        if self.plant == Some(Plant::CompletionLost) && self.rng.chance(50) {
            return;
        }
        if let Err(violation) = self.sides[side].machine.handle_sent(pair, id) {
            self.fail(Law::Broken, format!("s{side}: {violation}"));
        }
        self.look_again(side);
        self.note(|_| format!("s{side} handles the completion of {}", id.0));
    }

    fn drive(&mut self, side: usize) {
        let ([a, b], [c, d]) = (&mut self.wires, &mut self.offers);
        let (out, inward) = match side {
            0 => ([a, c], [b, d]),
            _ => ([b, d], [a, c]),
        };
        let me = &mut self.sides[side];
        let mut posting = Posting {
            out,
            inward,
            rng: &mut self.rng,
            plant: self.plant,
        };
        let posted = drive_once(&mut me.machine, &mut posting);
        if self.lost {
            // the queue pair is in error: what is posted is flushed
            let wires = self.wires.iter_mut().chain(&mut self.offers);
            wires.for_each(Wire::lose);
        }
        if !posted.unwrap_or(false) {
            me.stale = false;
            me.armed = me.machine.wants_completion() && self.plant != Some(Plant::WakeLost);
            self.check_spare(side);
        } else {
            me.program.blocked = false;
            self.note(|world| {
                let posted = world.wires[side].works.back().map_or(0, |last| last.id.0);
                format!("s{side} posts; its last work is {posted}")
            });
        }
    }

    fn land(&mut self, side: usize) {
        let Some((to, from)) = self.wires[side].next_packet(self.packet) else {
            return;
        };
        if self.wires[side].receives.is_empty() {
            self.stats.ahead += u64::from(from.bytes);
        }
        let range = from.at as usize..(from.at + from.bytes) as usize;
        let tags = self.sides[side].send_memory[range].to_vec();
        let landed = self.sides[1 - side].memory.land(to, &tags);
        if let Err(what) = landed {
            self.fail(Law::Overwritten, what);
        }
        self.note(|_| format!("{} bytes of s{side} land at {to}", from.bytes));
    }

    fn execute(&mut self, pair: Pair, side: usize) {
        let first = self.wire(pair, side).works.front();
        if let Some(What::Read { .. }) = first.map(|first| &first.what) {
            return self.execute_read(pair, side);
        }
        let promised = self.is_promised(side);
        let Some(slot) = self.wires(pair)[side].receives.pop_front() else {
            self.stats.held += 1;
            let why = promised.unwrap_or("nothing");
            self.fail(Law::Receive, format!("a work of s{side} finds none: {why}"));
            return;
        };
        let Some(Posted { id, what, .. }) = self.wires(pair)[side].works.pop_front() else {
            return;
        };
        self.wires(pair)[side].executed += 1;
        let bytes = what.bytes();
        let arrival = match what {
            What::Write { immediate, .. } => Arrival::Write { bytes, immediate },
            What::Send { mut head, data } => {
                let length = head.len() as u32 + bytes;
                if let Some(from) = data {
                    self.stats.segments += 1;
                    let other = &mut self.sides[1 - side];
                    let at = u32::from(slot) * other.config.receive_bytes() + head.len() as u32;
                    let range = from.at as usize..(from.at + from.bytes) as usize;
                    let tags = self.sides[side].send_memory[range].to_vec();
                    // the driver hands over the start of the buffer; of the data it matters nothing
                    head.resize(HEAD_BYTES.min(length as usize), 0);
                    let landed = self.sides[1 - side].memory.land(at, &tags);
                    if let Err(what) = landed {
                        self.fail(Law::Overwritten, what);
                    }
                }
                Arrival::Message {
                    head,
                    length_bytes: length,
                }
            }
            What::Read { .. } => return,
        };
        let early = self.plant == Some(Plant::CompletedEarly);
        let wire = &mut self.wires(pair)[side];
        wire.arrivals.push_back(arrival);
        if !early {
            wire.completions.push_back(id);
        }
        if wire.is_held() {
            self.stats.held += 1;
        }
        self.note(|_| format!("work {} of s{side} takes receive {slot}", id.0));
    }
}
