//! One run: makes the fibers, resumes them in a seeded order, stops and kills processes, and looks
//! at what is left.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};

use crate::host::{Host, is_running};
use crate::memory::Memory;
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::program::Program;
use crate::service::serve;
use crate::tcp::Tcp;
use crate::world::{Fate, KERNEL, Process, Role, World};
use crate::{Failure, Law, Scenario, Stats};
use ferriband_seed::Rng;

/// Steps without progress ([`World::progressed`]) after which a run is one that does not end. The
/// longest wait is shorter by far: a stop, a rest, the patience with a full ring, each of a few
/// thousand steps, one behind the other. All of a run has no limit of its own: it has thousands of
/// bytes, and where its reader takes one at a time, each may take some hundred steps.
const PROGRESS_LIMIT: u64 = 500_000;
const STACK: usize = 128 << 10;

type Fiber = Coroutine<(), (), (), DefaultStack>;

thread_local! {
    /// Stacks of earlier runs, to save mapping them anew.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Runs one seed. The same seed and scenario give the same run.
///
/// # Errors
/// The first law that is broken, with the steps that led to it.
pub fn run(seed: u64, scenario: &Scenario) -> Result<Stats, Failure> {
    // the trace costs time: only a run that fails is run again with it
    run_caught(seed, scenario, false)
        .map_err(|failure| run_caught(seed, scenario, true).err().unwrap_or(failure))
}

fn run_caught(seed: u64, scenario: &Scenario, trace: bool) -> Result<Stats, Failure> {
    let mut run = Run::new(seed, scenario, trace);
    let caught = catch_unwind(AssertUnwindSafe(|| run.run()));
    if let Err(panic) = caught {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
        run.world.fail(Law::Panic, text.unwrap_or_default());
    }
    run.end();
    let world = &run.world;
    world.stats.borrow_mut().steps = world.clock.get();
    match world.violation.borrow_mut().take() {
        None => Ok(*world.stats.borrow()),
        Some((law, what)) => Err(Failure {
            seed,
            law,
            what,
            trace: world
                .trace
                .as_ref()
                .map(|trace| {
                    let plan = std::iter::once(format!("{:?}", run.plan));
                    plan.chain(trace.borrow().iter().cloned()).collect()
                })
                .unwrap_or_default(),
        }),
    }
}

struct Run {
    world: Rc<World>,
    plan: Rc<Plan>,
    fibers: Vec<Option<Fiber>>,
}

impl Run {
    fn new(seed: u64, scenario: &Scenario, trace: bool) -> Self {
        let mut rng = Rng::new(seed ^ 0x5d9_0000_0000);
        let plan = Plan::new(&mut rng);
        let threads = plan.threads.iter();
        let mut fates: Vec<Fate> = threads
            .map(|thread| fate(thread.side, thread.process, Role::Program))
            .collect();
        let services = plan.processes.iter().enumerate();
        fates.extend(services.map(|(process, side)| fate(*side, process, Role::Service)));
        let count = |side: usize| plan.processes.iter().filter(|of| **of == side).count() as u32;
        let senders = |side: usize| {
            let threads = plan.threads.iter();
            threads
                .filter(|thread| thread.side == side && thread.task.sends())
                .count() as u32
        };
        let fibers = fates.len();
        let world = Rc::new(World {
            plant: scenario.plant,
            rings: plan.rings,
            memory: RefCell::new(Memory::new(plan.rings, fibers)),
            tcp: RefCell::new(Tcp::new(plan.limits)),
            oracle: RefCell::new(Oracle::new(fibers)),
            rng: RefCell::new(rng),
            processes: plan
                .processes
                .iter()
                .map(|side| Process {
                    side: *side,
                    ..Process::default()
                })
                .collect(),
            fates,
            holders: [count(0), count(1)].map(Cell::new),
            killed: Default::default(),
            died: Default::default(),
            senders: [senders(0), senders(1)].map(Cell::new),
            heirs: Default::default(),
            resets: Default::default(),
            told_error: Default::default(),
            closing_head: [Cell::new(u64::MAX), Cell::new(u64::MAX)],
            left_unread: Default::default(),
            agreed_at: plan.agreed_at,
            rests: plan.rests,
            longest_rest: plan.longest_rest,
            preemptions: plan.preemptions,
            kill: Cell::new(plan.kill),
            kill_behind: Cell::new(plan.kill_behind),
            clock: Cell::new(0),
            turn: Cell::new(0),
            happenings: Cell::new(0),
            progressed_at: Cell::new(0),
            violation: RefCell::default(),
            trace: trace.then(RefCell::default),
            stats: RefCell::default(),
        });
        let plan = Rc::new(plan);
        let spawn = |me| Some(spawn(me, world.clone(), plan.clone()));
        let fibers = (0..fibers).map(spawn).collect();
        Run {
            world,
            plan,
            fibers,
        }
    }

    fn run(&mut self) {
        while !self.world.failed() && self.turn() {
            if self.world.clock.get() - self.world.progressed_at.get() > PROGRESS_LIMIT {
                let stuck = self.stuck();
                self.world.fail(Law::Steps, format!("no end: {stuck}"));
            }
        }
        let world = &self.world;
        for side in 0..2 {
            if !world.killed[side].get() {
                world.check_record(side);
            }
        }
        if let Some(what) = world.oracle.borrow().gap() {
            world.fail(Law::Stream, what);
        }
    }

    /// One turn: a fiber runs, or the kernel does something. False when nothing is left to do.
    fn turn(&mut self) -> bool {
        let world = self.world.clone();
        self.strike();
        let plan = self.plan.clone();
        let dice = world.rng.borrow_mut().below(100);
        if dice < plan.kernel && world.tcp_step() {
            return true;
        }
        if world.rng.borrow_mut().below(100) < plan.drains {
            let fiber = world.rng.borrow_mut().below(self.fibers.len() as u64);
            world.drain_one(fiber as usize);
        }
        if world.rng.borrow_mut().below(1000) < plan.stops {
            self.stop();
        }
        let fibers = 0..self.fibers.len();
        let ready: Vec<usize> = fibers.filter(|fiber| world.is_ready(*fiber)).collect();
        if ready.is_empty() {
            return self.idle();
        }
        let me = world.rng.borrow_mut().pick(&ready);
        if world.rng.borrow_mut().chance(plan.stalls) {
            let until = world.clock.get() + world.rng.borrow_mut().below(1_000);
            world.fates[me].stalled_until.set(until);
            return true;
        }
        let longest = world.rng.borrow_mut().below(plan.longest_turn);
        let now = world.clock.get();
        let strikes = [world.kill.get(), plan.exit].into_iter().flatten();
        let next = strikes.map(|(_, at)| at).filter(|at| *at > now).min();
        world
            .turn
            .set(next.map_or(longest, |at| longest.min(at - now - 1)));
        let Some(fiber) = &mut self.fibers[me] else {
            return true;
        };
        if let CoroutineResult::Return(()) = fiber.resume(()) {
            world.fates[me].done.set(true);
            world.drain(me);
            self.ended(me);
        }
        true
    }

    /// Nobody can run: what is under way goes on, then time passes.
    fn idle(&self) -> bool {
        let world = &self.world;
        if (0..self.fibers.len()).any(|fiber| world.drain_one(fiber)) || world.tcp_step() {
            return true;
        }
        if let Some(what) = world.sleeps_in_vain() {
            world.fail(Law::Asleep, what);
            return false;
        }
        if let Some(at) = world.next_time() {
            world.happened();
            world.clock.set(at);
            if at == world.agreed_at {
                (0..2).for_each(|side| world.tell(side, KERNEL));
            }
            return true;
        }
        if (0..2).any(|side| self.tell_death(side)) {
            return true;
        }
        let stuck = self.stuck();
        if !stuck.is_empty() {
            world.fail(Law::Asleep, format!("sleeps for ever: {stuck}"));
        }
        false
    }

    /// The peer of a side that was killed hears of it. False if there is nothing to tell.
    fn tell_death(&self, side: usize) -> bool {
        let world = &self.world;
        let died = world.killed[side].get() && world.holders[side].get() == 0;
        if !died || world.died[side].replace(true) {
            return false;
        }
        world.note(|| format!("side {side} has died"));
        world.tell(1 - side, KERNEL);
        true
    }

    /// Who has not ended, and on what it sleeps.
    fn stuck(&self) -> String {
        let world = &self.world;
        let mut text = String::new();
        for (fiber, fate) in world.fates.iter().enumerate() {
            if fate.dead.get() || fate.done.get() {
                continue;
            }
            let readable = world.tcp.borrow().may_receive(fate.side);
            let phases = [0, 1].map(|direction| world.phase(direction));
            text += &format!(
                "f{fiber} (side {}, {:?}) on {:?}, kernel readable: {readable}, phases {phases:?}; ",
                fate.side,
                fate.role,
                fate.sleep.get(),
            );
        }
        text
    }

    /// A fiber has returned.
    fn ended(&mut self, me: usize) {
        let world = self.world.clone();
        let (process, side) = (world.fates[me].process, world.fates[me].side);
        world.progressed();
        if world.fates[me].role == Role::Program {
            world.tell(side, KERNEL);
            return;
        }
        for fiber in 0..self.fibers.len() {
            if world.fates[fiber].process == process && is_running(&world, fiber) {
                self.kill_fiber(fiber);
            }
        }
        world.processes[process].dead.set(true);
        world.release(side);
    }

    /// Kills, or lets exit, the process whose time has come.
    fn strike(&mut self) {
        let world = self.world.clone();
        let now = world.clock.get();
        let due = |what: Option<(usize, u64)>| {
            let due = what.filter(|(_, at)| *at <= now);
            due.filter(|(process, _)| !world.processes[*process].dead.get())
        };
        if let Some((process, _)) = due(world.kill.get()) {
            let side = world.processes[process].side;
            world.note(|| format!("process {process} of side {side} is killed"));
            world.stats.borrow_mut().kills += 1;
            world.killed[side].set(true);
            world.processes[process].dead.set(true);
            for fiber in 0..self.fibers.len() {
                let fate = &world.fates[fiber];
                if fate.process == process && !fate.done.get() {
                    self.kill_fiber(fiber);
                }
            }
            world.release(side);
            if world.rng.borrow_mut().chance(30) {
                self.tell_death(side);
            }
        }
        if let Some((process, _)) = due(self.plan.exit)
            && !world.processes[process].exits.replace(true)
        {
            let side = world.processes[process].side;
            world.note(|| format!("process {process} of side {side} exits"));
            world.killed[side].set(true);
            world.tell(side, KERNEL);
        }
    }

    /// A fiber ends where it is. Of its stores some are seen, in order.
    fn kill_fiber(&mut self, fiber: usize) {
        let world = self.world.clone();
        let buffered = world.memory.borrow().buffered(fiber) as u64;
        for _ in 0..world.rng.borrow_mut().below(buffered + 1) {
            world.drain_one(fiber);
        }
        world.memory.borrow_mut().forget(fiber);
        world.fates[fiber].dead.set(true);
        world.oracle.borrow_mut().killed(fiber);
        let thread = self.plan.threads.get(fiber);
        let sends = thread.is_some_and(|thread| thread.task.sends());
        let side = world.fates[fiber].side;
        if sends && world.senders[side].get() > 0 {
            world.senders[side].set(world.senders[side].get() - 1);
        }
        if let Some(fiber) = self.fibers[fiber].take() {
            end(fiber);
        }
    }

    fn stop(&self) {
        let world = &self.world;
        let mut rng = world.rng.borrow_mut();
        let process = rng.below(world.processes.len() as u64) as usize;
        let until = world.clock.get() + rng.below(5_000);
        world.processes[process].stopped_until.set(until);
        world.stats.borrow_mut().stops += 1;
        drop(rng);
        world.note(|| format!("process {process} is stopped until {until}"));
    }

    fn end(&mut self) {
        for fate in &self.world.fates {
            fate.dead.set(true);
        }
        for fiber in std::mem::take(&mut self.fibers).into_iter().flatten() {
            end(fiber);
        }
    }
}

fn fate(side: usize, process: usize, role: Role) -> Fate {
    Fate {
        side,
        process,
        role,
        sleep: Cell::default(),
        stalled_until: Cell::default(),
        inside: Cell::default(),
        news: Cell::default(),
        looked: Cell::default(),
        seen_head: Cell::default(),
        dead: Cell::default(),
        done: Cell::default(),
    }
}

/// Ends a coroutine wherever it is, and keeps its stack.
fn end(mut fiber: Fiber) {
    if fiber.started() && !fiber.done() {
        fiber.force_unwind();
    }
    if fiber.done() {
        STACKS.with(|stacks| stacks.borrow_mut().push(fiber.into_stack()));
    }
}

fn spawn(me: usize, world: Rc<World>, plan: Rc<Plan>) -> Fiber {
    let stack = STACKS.with(|stacks| stacks.borrow_mut().pop());
    let stack =
        stack.unwrap_or_else(|| DefaultStack::new(STACK).expect("memory for a coroutine's stack"));
    Coroutine::with_stack(stack, move |yielder, ()| {
        let host = Host {
            world: &world,
            yielder,
            me,
            side: world.fates[me].side,
        };
        match plan.threads.get(me) {
            Some(thread) => Program::new(host).run(&thread.task),
            None => serve(&host, world.fates[me].process),
        }
    })
}
