//! One run: lays out the host, resumes processes in a seeded order, stops and kills them, heals, and demands rest.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use ferriband_transport::direct::layout::{PAIR_LEN, PROC_BLOCKS, PROC_LEN, ring_offset};
use ferriband_transport::direct::{Completer, Consumer, Producer, TxShared};

use super::app::{App, fixed_pattern};
use super::host::{Peer, SimHost, SimLink, SimSeg};
use super::memory::SegId;
use super::plan::Plan;
use super::process::{Process, Qp};
use super::world::{Ctx, Pause, World};
use super::{Failure, Options, Report};
use crate::rng::Rng;

/// Steps after which a run that does not end is a failure.
const STEP_LIMIT: u64 = 4_000_000;
/// Steps of the unsafe phase.
const TROUBLE_STEPS: u64 = 1_500_000;
/// Virtual time in which everything has to come to rest once all is well.
const HEAL_NS: u64 = 60_000_000_000;
/// A run of a coroutine needs little stack: no recursion, no large locals.
const STACK: usize = 256 << 10;
const LIVENESS: &str = "LIVENESS (once all is well, everything ends)";

type Fiber = Coroutine<(), Pause, (), DefaultStack>;

thread_local! {
    /// Stacks of earlier runs, to save mapping them anew.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Runs one seed.
///
/// # Errors
/// The first broken invariant, with the trace that led to it.
pub fn run_seed(seed: u64, options: &Options) -> Result<Report, Failure> {
    run_caught(seed, options).map_err(|failure| {
        if options.trace {
            return failure;
        }
        // the same run again, this time with eyes open
        let traced = Options {
            trace: true,
            ..options.clone()
        };
        run_caught(seed, &traced).err().unwrap_or(failure)
    })
}

/// A panic of the machine is a broken invariant too.
fn run_caught(seed: u64, options: &Options) -> Result<Report, Failure> {
    let caught = catch_unwind(AssertUnwindSafe(|| Run::new(seed, options).run()));
    caught.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
        Err(Failure {
            seed,
            invariant: "PANIC (a bug is an assertion, and there are none)",
            expected: "no panic".into(),
            got: text.unwrap_or_default(),
            at_ns: 0,
            steps: 0,
            trace: Vec::new(),
        })
    })
}

/// Segments of the host.
struct Segments {
    tables: Vec<SegId>,
    apps: Vec<SegId>,
    /// By lower and higher slot.
    pairs: Vec<((usize, usize), SegId)>,
}

struct Run {
    seed: u64,
    world: Rc<World>,
    plan: Rc<Plan>,
    fibers: Vec<Option<Fiber>>,
    rng: Rng,
    report: Report,
    heal_began: u64,
    /// When deaths become known.
    notices: Vec<u64>,
}

impl Run {
    fn new(seed: u64, options: &Options) -> Self {
        let mut rng = Rng::new(seed ^ 0xd1ec_7000_0000);
        let plan = if options.small {
            Plan::small(&mut rng, options)
        } else {
            Plan::of(&mut rng, options)
        };
        let (mut oracle, used) = plan.lay_out(&mut rng);
        let segments = {
            let mut memory = super::memory::Memory::new(plan.processes);
            let tables: Vec<_> = (0..plan.processes)
                .map(|_| memory.segment(PROC_LEN))
                .collect();
            let apps: Vec<_> = used.iter().map(|len| memory.segment(*len + 4096)).collect();
            let mut pairs = Vec::new();
            for a in 0..plan.processes {
                pairs.extend((a..plan.processes).map(|b| ((a, b), memory.segment(PAIR_LEN))));
            }
            for (process, table) in tables.iter().enumerate() {
                memory.write(*table, PROC_BLOCKS, &(process as u64 + 2).to_le_bytes());
            }
            for (index, conn) in oracle.conns.iter().enumerate() {
                for (side, end) in conn.ends.iter().enumerate() {
                    let bytes = fixed_pattern(index, side).bytes(end.arena.slot);
                    memory.write(apps[end.process], end.arena.fixed(), &bytes);
                }
            }
            (
                memory,
                Segments {
                    tables,
                    apps,
                    pairs,
                },
            )
        };
        let (memory, segments) = segments;
        oracle.apps = segments.apps.clone();
        let world = World::new(
            options,
            plan.processes,
            Rng::new(rng.next_u64()),
            plan.drain_rate,
            oracle,
        );
        *world.memory.borrow_mut() = memory;
        for ((a, b), pair) in &segments.pairs {
            let mut rings = world.rings.borrow_mut();
            rings.add(*pair, ring_offset(*a as u32, *b as u32), *a, *b);
            if a != b {
                rings.add(*pair, ring_offset(*b as u32, *a as u32), *b, *a);
            }
        }
        if let Some((victim, step)) = plan.kill {
            world.fates[victim].kill_at.set(step);
        }
        let (world, plan, segments) = (Rc::new(world), Rc::new(plan), Rc::new(segments));
        let fibers = (0..plan.processes)
            .map(|me| {
                let rng = Rng::new(rng.next_u64());
                Some(spawn(
                    me,
                    world.clone(),
                    plan.clone(),
                    segments.clone(),
                    rng,
                ))
            })
            .collect();
        let report = Report {
            seed,
            ..Report::default()
        };
        Run {
            seed,
            world,
            plan,
            fibers,
            rng,
            report,
            heal_began: 0,
            notices: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Report, Failure> {
        while !self.world.failed() && self.turn() {}
        if !self.world.failed() {
            self.world.oracle.borrow().at_rest(&self.world);
        }
        let world = self.world.clone();
        for fiber in std::mem::take(&mut self.fibers).into_iter().flatten() {
            end(fiber);
        }
        if let Some(violation) = world.violation.borrow_mut().take() {
            let trace = world
                .trace
                .as_ref()
                .map(|trace| trace.borrow().iter().cloned().collect());
            return Err(Failure {
                seed: self.seed,
                invariant: violation.invariant,
                expected: violation.expected,
                got: violation.got,
                at_ns: world.now(),
                steps: world.steps.get(),
                trace: trace.unwrap_or_default(),
            });
        }
        let oracle = world.oracle.borrow();
        Ok(Report {
            steps: world.steps.get(),
            virtual_ns: world.now(),
            messages: oracle.messages,
            bytes: oracle.bytes,
            failures: oracle.failures,
            ..self.report
        })
    }

    /// One turn of one process. False when the run is over.
    fn turn(&mut self) -> bool {
        let world = self.world.clone();
        self.heal_if_due();
        if world.stop.get() {
            return false;
        }
        let now = world.now();
        // the kernel closes a dead process's sockets, which wakes whoever waits at the other end
        if self.notices.iter().any(|at| *at <= now) {
            self.notices.retain(|at| *at > now);
            (0..self.fibers.len()).for_each(|other| world.wake(other));
        }
        let alive = |me: &usize| !world.fates[*me].dead.get();
        let awake = |me: &usize| {
            world.fates[*me].wake_at.get() <= now && world.fates[*me].stopped_until.get() <= now
        };
        let ready: Vec<usize> = (0..self.fibers.len()).filter(alive).filter(awake).collect();
        if ready.is_empty() {
            return self.skip_time();
        }
        let me = self.rng.pick(&ready);
        world
            .turn
            .set(self.rng.below(self.plan.longest_turn) as u32);
        let Some(fiber) = &mut self.fibers[me] else {
            return false;
        };
        let outcome = fiber.resume(());
        if world.fates[me].dead.get() {
            self.died(me);
            return true;
        }
        match outcome {
            CoroutineResult::Yield(Pause::Turn) => {}
            CoroutineResult::Yield(Pause::Sleep(until)) => {
                if until > world.now() + 1_000 {
                    // no buffer holds a store for so long
                    world.drain(me);
                }
                let rang = world.fates[me].rang.take();
                world.fates[me].wake_at.set(if rang { 0 } else { until });
            }
            CoroutineResult::Return(()) => world.fates[me].wake_at.set(u64::MAX),
        }
        // others' stores leave their buffers too
        let other = self.rng.below(self.fibers.len() as u64) as usize;
        if self.rng.below(1000) < self.plan.drain_rate {
            world.drain_one(other);
        }
        if !world.healing.get() && self.rng.chance(self.plan.stops) {
            self.report.stops += 1;
            let pause = self.rng.pick(&[1_000, 50_000, 3_000_000, 200_000_000]);
            world.fates[other]
                .stopped_until
                .set(now + self.rng.below(pause));
            world.drain(other);
        }
        true
    }

    fn died(&mut self, me: usize) {
        let world = &self.world;
        self.report.kills += 1;
        world.trace(|| {
            format!(
                "p{me} is killed at its step {}",
                world.fates[me].steps.get()
            )
        });
        // what the processor has retired reaches memory
        world.drain(me);
        world.fates[me]
            .notice_at
            .set(world.now() + self.rng.below(2_000_000));
        self.notices.push(world.fates[me].notice_at.get());
        world.oracle.borrow_mut().process_died(me, world.now());
        if let Some(fiber) = self.fibers[me].take() {
            end(fiber);
        }
    }

    /// Nobody can run: stores leave, then time passes. False when all is at rest.
    fn skip_time(&mut self) -> bool {
        let world = &self.world;
        (0..self.fibers.len()).for_each(|me| world.drain(me));
        let living = || world.fates.iter().filter(|fate| !fate.dead.get());
        let next = living()
            .map(|fate| fate.wake_at.get().max(fate.stopped_until.get()))
            .min();
        let notice = self.notices.iter().copied().min().unwrap_or(u64::MAX);
        let next = next.map(|at| at.min(notice));
        match next {
            Some(u64::MAX) | None => {
                if living().count() > 0 && !self.all_rest() {
                    world.fail(
                        LIVENESS,
                        "somebody who looks after the work that is left",
                        "all sleep for ever",
                    );
                }
                false
            }
            Some(at) => {
                world.clock.set(world.now().max(at));
                true
            }
        }
    }

    fn all_rest(&self) -> bool {
        let world = &self.world;
        (0..self.fibers.len()).all(|me| world.fates[me].dead.get() || world.resting[me].get())
    }

    /// Ends the trouble when everybody is done, and the run when all rest.
    fn heal_if_due(&mut self) {
        let world = &self.world;
        if !world.healing.get() {
            let done = world
                .fates
                .iter()
                .all(|fate| fate.dead.get() || fate.finished.get());
            if done || world.steps.get() > TROUBLE_STEPS {
                world.healing.set(true);
                self.heal_began = world.now();
                world.trace(|| "healing".into());
                for fate in &world.fates {
                    fate.stopped_until.set(0);
                    fate.wake_at.set(0);
                    if !self.plan_kills_late() {
                        fate.kill_at.set(u64::MAX);
                    }
                }
            }
            return;
        }
        if self.all_rest() {
            world.stop.set(true);
        } else if world.now() - self.heal_began > HEAL_NS || world.steps.get() > STEP_LIMIT {
            let busy: Vec<_> = (0..self.fibers.len())
                .filter(|me| !world.resting[*me].get())
                .collect();
            world.fail(
                LIVENESS,
                "rest",
                format!("processes {busy:?} are still busy"),
            );
        }
    }

    /// The exhaustive mode kills at any step, also of the last ones.
    fn plan_kills_late(&self) -> bool {
        self.world.options.small
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

fn spawn(me: usize, world: Rc<World>, plan: Rc<Plan>, segments: Rc<Segments>, rng: Rng) -> Fiber {
    let stack = STACKS.with(|stacks| stacks.borrow_mut().pop());
    let stack =
        stack.unwrap_or_else(|| DefaultStack::new(STACK).expect("memory for a coroutine's stack"));
    Coroutine::with_stack(stack, move |yielder, ()| {
        let ctx = Ctx {
            world: &world,
            yielder,
            me,
        };
        let host = host(ctx, &plan, &segments);
        let qps = queue_pairs(ctx, me);
        App::new(Process::new(ctx, host, qps, plan.chunk), &plan, rng).run();
    })
}

fn host<'s>(ctx: Ctx<'s>, plan: &Plan, segments: &Segments) -> SimHost<'s> {
    let me = ctx.me;
    let seg = |id| SimSeg { ctx, id };
    let links = (0..plan.processes)
        .map(|slot| {
            let key = (me.min(slot), me.max(slot));
            let pair = segments.pairs.iter().find(|(pair, _)| *pair == key);
            let pair = pair
                .map(|(_, id)| *id)
                .expect("every pair of processes has a segment");
            let (out, inward) = (
                ring_offset(me as u32, slot as u32),
                ring_offset(slot as u32, me as u32),
            );
            let shared = TxShared::new();
            let moody = plan.moody.filter(|(by, of, _)| (*by, *of) == (me, slot));
            SimLink(Rc::new(Peer {
                slot,
                table: seg(segments.tables[slot]),
                pair: seg(pair),
                producer: RefCell::new(Producer::new(out, shared.clone())),
                completer: RefCell::new(Completer::new(out, shared)),
                consumer: RefCell::new(Consumer::new(inward)),
                ready_at: 1_000_000 + plan.ready_at[me][slot],
                dead: std::cell::Cell::new(false),
                reachable: plan.reachable[me][slot],
                moods_ns: moody.map_or(0, |(_, _, ns)| ns),
            }))
        })
        .collect();
    SimHost::new(ctx, seg(segments.tables[me]), links, segments.apps.clone())
}

fn queue_pairs<'s>(ctx: Ctx<'s>, me: usize) -> Vec<Qp<'s>> {
    let oracle = ctx.world.oracle.borrow();
    let mut qps = Vec::new();
    for (index, conn) in oracle.conns.iter().enumerate() {
        for (side, end) in conn.ends.iter().enumerate() {
            if end.process == me {
                let max_wr = end.arena.window as u32 + 2;
                qps.push(Qp::new(
                    end.qpn,
                    end.qpn & 0xff,
                    index,
                    side,
                    conn.service,
                    max_wr,
                    0,
                ));
            }
        }
    }
    qps
}
