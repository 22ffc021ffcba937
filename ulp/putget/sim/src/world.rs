//! The steps of a run: whose program, thread, message or RDMA goes on.
//!
//! Owns: the order of steps, and the run of a seed. Must not know: what a step does.

use crate::failures::Trouble;
use crate::link::Link;
use crate::process::{Process, SHARED, Temper};
use crate::program::Program;
use crate::{Failure, Law, Plant, Scenario, Stats};
use ferriband_putget_proto::{Config, Connection};
use ferriband_seed::Rng;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Steps after which a run that does not end is a failure.
const STEP_LIMIT: u64 = 200_000;
const TRACE_LINES: usize = 80;

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
}

pub(crate) struct World {
    pub plant: Option<Plant>,
    pub rng: Rng,
    pub now: u64,
    pub processes: Vec<Process>,
    pub links: Vec<Link>,
    pub troubles: Vec<(u64, Trouble)>,
    /// How likely each step of a process is, and of a side.
    process_weights: Vec<[u64; 3]>,
    link_weights: Vec<[u64; 3]>,
    possible: Vec<(Step, u64)>,
    violation: Option<(Law, String)>,
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

fn config(rng: &mut Rng) -> Config {
    Config {
        message_bytes: rng.pick(&[60, 100, 256]),
        receives: rng.pick(&[8, 8, 9, 12]),
        requests: rng.pick(&[1, 2, 4, 10, 10]),
    }
}

fn process(rng: &mut Rng) -> Process {
    let tempers = [Temper::Plain, Temper::Cuts, Temper::Faults, Temper::Refuses];
    let shared = [(); SHARED].map(|()| {
        let temper = if rng.chance(60) {
            Temper::Plain
        } else {
            rng.pick(&tempers)
        };
        (rng.pick(&[4, 16, 50, 70]), temper)
    });
    let counts = [(); SHARED].map(|()| rng.chance(30));
    Process::new(shared, (rng.chance(70), counts), Program::new(rng))
}

impl World {
    fn new(seed: u64, scenario: &Scenario, trace: bool) -> World {
        let mut rng = Rng::new(seed ^ 0x7075_7467_6574);
        let count = rng.pick(&[2, 2, 3, 4]);
        let processes = (0..count).map(|_| process(&mut rng)).collect();
        let configs: Vec<Config> = (0..count * count).map(|_| config(&mut rng)).collect();
        let mut links = Vec::with_capacity(count * count);
        for at in 0..count * count {
            let (from, to) = (at / count, at % count);
            let (own, peer) = (configs[at], configs[to * count + from]);
            let mut link = Link::new(from, to, own, peer, rng.pick(&[1, 2, 8]));
            let mut believed = peer;
            believed.receives += u16::from(scenario.plant == Some(Plant::LastCredit));
            link.machine = Some(Connection::new(own, believed).expect("possible numbers"));
            links.push(link);
        }
        let mut weights = |count: usize| -> Vec<[u64; 3]> {
            let weight = |rng: &mut Rng| rng.pick(&[1, 3, 10, 30]);
            (0..count)
                .map(|_| [(); 3].map(|()| weight(&mut rng)))
                .collect()
        };
        let (process_weights, link_weights) = (weights(count), weights(count * count));
        let mut world = World {
            plant: scenario.plant,
            rng,
            now: 0,
            processes,
            links,
            troubles: Vec::new(),
            process_weights,
            link_weights,
            possible: Vec::new(),
            violation: None,
            trace: trace.then(VecDeque::new),
            stats: Stats::default(),
        };
        for me in 0..count {
            for buffer in 0..world.processes[me].buffers.len() {
                world.register(me, buffer);
            }
        }
        world.plan();
        world
    }

    /// A process's side of its connection to another.
    pub fn link(&self, from: usize, to: usize) -> usize {
        from * self.processes.len() + to
    }

    /// The other side.
    pub fn back(&self, link: usize) -> usize {
        let link = &self.links[link];
        self.link(link.to, link.from)
    }

    /// The sides of a process.
    pub fn sides_of(&self, process: usize) -> impl Iterator<Item = usize> + use<> {
        let count = self.processes.len();
        let others = (0..count).filter(move |to| *to != process);
        others.map(move |to| process * count + to)
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
            if !self.step() && !self.time_passes() {
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
        for (at, [land, piece, complete]) in self.link_weights.iter().copied().enumerate() {
            may(self.may_land(at), Step::Land(at), land);
            may(self.may_move(at), Step::Move(at), piece);
            may(self.may_complete(at), Step::Complete(at), complete);
            may(self.may_answer(at), Step::Answer(at), complete);
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
            .filter(|link| link.failed && !link.told_lost);
        let heard = heard.filter(|link| !self.processes[link.from].dead);
        let times = times.chain(heard.map(|link| link.heard_from));
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
}
