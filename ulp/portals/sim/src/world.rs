//! The steps of a run: whose program, thread, message or RDMA goes on.
//!
//! Owns: the order of steps, and the run of a seed. Must not know: what a step does.

use crate::failures::Trouble;
use crate::link::Link;
use crate::process::{Op, Process};
use crate::{Failure, Law, Plant, Scenario, Stats};
use ferriband_portals_proto::{Interface, Piece};
use ferriband_putget_proto::Config;
use ferriband_seed::Rng;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Steps after which a run that does not end is a failure.
const STEP_LIMIT: u64 = 200_000;
const TRACE_LINES: usize = 120;

/// What can happen next: to a process, or to a side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Act(usize),
    Look(usize),
    Sleep(usize),
    Land(usize),
    Move(usize),
    Complete(usize),
    Answer(usize),
    Meet(usize),
}

/// Bytes that a planted fault places late, or once more.
pub(crate) struct Late {
    pub op: usize,
    pub pieces: Vec<Piece>,
    pub data: Vec<u8>,
}

pub(crate) struct World {
    pub plant: Option<Plant>,
    pub rng: Rng,
    pub now: u64,
    /// Processes.
    count: usize,
    pub processes: Vec<Process>,
    pub links: Vec<Link>,
    /// Operations of all processes.
    pub ops: Vec<Op>,
    /// Operations that were begun so far.
    pub begun: u64,
    pub troubles: Vec<(u64, Trouble)>,
    pub late: Vec<Late>,
    /// The counter of a failure that a planted fault may take back.
    pub uncounted: Option<(usize, usize, usize)>,
    /// How likely each step of a process is, and of a side.
    process_weights: Vec<[u64; 3]>,
    link_weights: Vec<[u64; 4]>,
    possible: Vec<(Step, u64)>,
    pub violation: Option<(Law, String)>,
    trace: Option<VecDeque<String>>,
    pub stats: Stats,
}

/// Runs one seed. The same seed and scenario give the same run.
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
            law,
            what,
            trace: world.trace.unwrap_or_default().into(),
        }),
    }
}

impl World {
    fn new(seed: u64, scenario: &Scenario, trace: bool) -> World {
        let mut rng = Rng::new(seed ^ 0x706f_7274_616c);
        let count = rng.pick(&[2, 2, 3, 4]);
        // one length of messages for all: the least carries the longest ordered exchange
        let message_bytes = rng.pick(&[172, 172, 172, 232, 320, 520]);
        let links = (0..count * count).map(|at| {
            let config = Config {
                message_bytes,
                receives: rng.pick(&[8, 8, 9, 12]),
                requests: rng.pick(&[1, 2, 4, 10, 10]),
            };
            let (job_room, buffer_bytes) = (rng.pick(&[1, 1, 2, 8]), rng.pick(&[16, 64, 172, 400]));
            Link::new((at / count, at % count), config, job_room, buffer_bytes)
        });
        let links = links.collect();
        let weight = |rng: &mut Rng| rng.pick(&[1, 3, 10, 30]);
        let process_weights = (0..count)
            .map(|_| [(); 3].map(|()| weight(&mut rng)))
            .collect();
        let links_weights = (0..count * count).map(|_| [(); 4].map(|()| weight(&mut rng)));
        let link_weights = links_weights.collect();
        let mut world = World {
            plant: scenario.plant,
            rng,
            now: 0,
            count,
            processes: Vec::new(),
            links,
            ops: Vec::new(),
            begun: 0,
            troubles: Vec::new(),
            late: Vec::new(),
            uncounted: None,
            process_weights,
            link_weights,
            possible: Vec::new(),
            violation: None,
            trace: trace.then(VecDeque::new),
            stats: Stats::default(),
        };
        world.open(count);
        world.plan();
        world
    }

    /// A process's side of its connection to another.
    pub fn link(&self, from: usize, to: usize) -> usize {
        from * self.count + to
    }

    /// The other side.
    pub fn back(&self, link: usize) -> usize {
        let link = &self.links[link];
        self.link(link.to, link.from)
    }

    /// The sides of a process.
    pub fn sides_of(&self, process: usize) -> impl Iterator<Item = usize> + use<> {
        let count = self.count;
        let others = (0..count).filter(move |to| *to != process);
        others.map(move |to| process * count + to)
    }

    /// An interface of a process, which is open.
    pub fn interface(&mut self, me: usize, ni: usize) -> &mut Interface {
        let ni = self.processes[me].portals.interfaces[ni].as_mut();
        &mut ni.expect("it is open").interface
    }

    #[cold]
    pub fn fail(&mut self, law: Law, what: impl Into<String>) {
        if self.violation.is_none() {
            self.violation = Some((law, what.into()));
        }
    }

    /// Whether a planted fault strikes, once in so many times.
    pub fn strikes(&mut self, plant: Plant, one_in: u64) -> bool {
        self.plant == Some(plant) && self.rng.below(one_in) == 0
    }

    pub fn note(&mut self, line: impl FnOnce(&World) -> String) {
        if self.trace.is_none() {
            return;
        }
        let line = format!("{:>6}  {}", self.now, line(self));
        let trace = self.trace.as_mut().expect("looked at before");
        if trace.len() >= TRACE_LINES {
            trace.pop_front();
        }
        trace.push_back(line);
    }

    fn run(&mut self) {
        self.go_on();
        if self.violation.is_none() {
            self.check_rest();
        }
        // messages that nobody was told of are left
        while self.violation.is_none() && self.look_everywhere() {
            self.go_on();
        }
        if self.violation.is_none() {
            self.check_end();
        }
        self.stats.steps = self.now;
    }

    /// Steps until none is possible.
    fn go_on(&mut self) {
        while self.violation.is_none() {
            if self.stats.steps > STEP_LIMIT {
                self.fail(Law::Wake, "no end");
            }
            self.stats.steps += 1;
            self.now += 1;
            self.strike();
            self.tell_failures();
            self.place_late();
            if self.violation.is_none() && !self.step() && !self.time_passes() {
                break;
            }
        }
    }

    /// One of the steps that are possible. False if none is.
    fn step(&mut self) -> bool {
        let mut possible = std::mem::take(&mut self.possible);
        possible.clear();
        let mut sum = 0;
        let mut may = |is: bool, step: Step, weight: u64| {
            if is {
                sum += weight;
                possible.push((step, sum));
            }
        };
        for (me, process) in self.processes.iter().enumerate() {
            if process.dead || process.stopped_until > self.now {
                continue;
            }
            let [act, look, sleep] = self.process_weights[me];
            may(self.may_act(me), Step::Act(me), act);
            may(self.may_look(me), Step::Look(me), look);
            may(self.may_sleep(me), Step::Sleep(me), sleep);
        }
        for (at, [land, piece, complete, meet]) in self.link_weights.iter().copied().enumerate() {
            may(self.may_land(at), Step::Land(at), land);
            may(self.may_move(at), Step::Move(at), piece);
            may(self.may_complete(at), Step::Complete(at), complete);
            may(self.may_answer(at), Step::Answer(at), complete);
            may(self.may_meet(at), Step::Meet(at), meet);
        }
        let chosen = (sum > 0).then(|| self.rng.below(sum));
        let chosen = chosen.and_then(|dice| possible.iter().find(|(_, upto)| dice < *upto));
        let chosen = chosen.map(|(step, _)| *step);
        self.possible = possible;
        match chosen {
            None => return false,
            Some(Step::Act(me)) => self.act(me),
            Some(Step::Look(me)) => self.look(me),
            Some(Step::Sleep(me)) => self.sleep(me),
            Some(Step::Land(at)) => self.land(at),
            Some(Step::Move(at)) => self.move_piece(at),
            Some(Step::Complete(at)) => self.complete(at),
            Some(Step::Answer(at)) => self.answer(at),
            Some(Step::Meet(at)) => self.meet_peer(at),
        }
        if let Some(Step::Act(me) | Step::Look(me)) = chosen {
            self.check_counters(me);
        }
        true
    }

    /// Nothing is possible: time goes to where something may be. False if nothing will be.
    fn time_passes(&mut self) -> bool {
        let processes = self.processes.iter().filter(|process| !process.dead);
        let times =
            processes.flat_map(|process| [process.stopped_until, process.program.busy_until]);
        let heard = self
            .links
            .iter()
            .filter(|link| link.failed && !self.processes[link.from].dead);
        let times = times.chain(heard.map(|link| link.heard_from));
        let waits = self.processes.iter().filter(|process| !process.dead);
        let waits = waits.filter_map(|process| process.program.wait?.gives_up);
        let times = times.chain(waits);
        let times = times.chain(self.troubles.iter().map(|trouble| trouble.0));
        match times.filter(|at| *at > self.now).min() {
            Some(at) => self.now = at,
            None => return false,
        }
        true
    }

    /// Everybody looks once more. False if there is nothing.
    fn look_everywhere(&mut self) -> bool {
        let mut found = false;
        for me in 0..self.processes.len() {
            self.processes[me].awake = !self.processes[me].dead;
            found |= self.may_look(me);
        }
        found
    }

    /// What a planted fault places late.
    fn place_late(&mut self) {
        if self.late.is_empty() || self.rng.chance(80) {
            return;
        }
        let late = self.late.remove(0);
        let me = self.ops[late.op].target;
        self.note(|_| format!("p{me}: the bytes of {} are placed late", late.op));
        for address in late
            .pieces
            .iter()
            .flat_map(|piece| piece.address..piece.address + piece.length)
        {
            self.keep_order(late.op, address, true);
        }
        let memory = &mut self.processes[me].portals.memory;
        memory.write(&late.pieces, &late.data);
        if self.violation.is_none() && !late.pieces.is_empty() {
            self.fail(
                Law::Range,
                format!("p{me}: the bytes of {} are placed after its end", late.op),
            );
        }
    }

    /// A failure that was counted is taken back, where that fault is planted.
    pub fn miscount(&mut self) {
        if let Some((me, ni, ct)) = self.uncounted.take()
            && self.strikes(Plant::FailureUncounted, 1)
        {
            let handle = self.processes[me].ni(ni).counters[ct].handle;
            let back = ferriband_portals_proto::CtEvent {
                success: 0,
                failure: u64::MAX,
            };
            self.interface(me, ni)
                .ct_inc(handle, back)
                .expect("it is there");
        }
    }
}
