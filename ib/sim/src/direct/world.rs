//! The simulated host: memory, clock, who lives, and the step that every access to shared memory is.
//!
//! Owns what all processes share. Must not know what a process does: it is a coroutine that is resumed.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use corosensei::Yielder;

use super::Options;
use super::memory::{Memory, SegId};
use super::oracle::Oracle;
use super::ringwatch::RingWatch;
use crate::rng::Rng;

/// Virtual nanoseconds of one step.
const STEP_NS: u64 = 15;
/// Lines of the trace that a failure shows.
const TRACE_LINES: usize = 60;

/// Why a process gave up the processor.
pub(super) enum Pause {
    /// Its turn is over.
    Turn,
    /// Nothing to do before this time, or until somebody wakes it.
    Sleep(u64),
}

/// A broken invariant.
#[derive(Clone, Debug)]
pub(super) struct Violation {
    pub invariant: &'static str,
    pub expected: String,
    pub got: String,
}

/// What the scheduler knows of a process.
#[derive(Default)]
pub(super) struct Fate {
    pub dead: Cell<bool>,
    /// When peers hear of the death.
    pub notice_at: Cell<u64>,
    pub stopped_until: Cell<u64>,
    pub wake_at: Cell<u64>,
    /// Its doorbell rang, and it has not looked since (an eventfd keeps that too).
    pub rang: Cell<bool>,
    pub finished: Cell<bool>,
    pub steps: Cell<u64>,
    pub kill_at: Cell<u64>,
}

/// Everything that the processes share.
pub(super) struct World {
    pub options: Options,
    pub memory: RefCell<Memory>,
    pub rings: RefCell<RingWatch>,
    pub oracle: RefCell<Oracle>,
    pub clock: Cell<u64>,
    pub steps: Cell<u64>,
    pub fates: Vec<Fate>,
    pub rng: RefCell<Rng>,
    pub turn: Cell<u32>,
    /// Per mille of steps after which stores leave a buffer.
    pub drain_rate: u64,
    pub healing: Cell<bool>,
    pub resting: Vec<Cell<bool>>,
    pub stop: Cell<bool>,
    pub violation: RefCell<Option<Violation>>,
    pub trace: Option<RefCell<VecDeque<String>>>,
}

impl World {
    pub fn new(
        options: &Options,
        processes: usize,
        rng: Rng,
        drain_rate: u64,
        oracle: Oracle,
    ) -> Self {
        World {
            options: options.clone(),
            memory: RefCell::new(Memory::new(processes)),
            rings: RefCell::new(RingWatch::default()),
            oracle: RefCell::new(oracle),
            clock: Cell::new(1_000_000),
            steps: Cell::new(0),
            fates: (0..processes)
                .map(|_| Fate {
                    kill_at: Cell::new(u64::MAX),
                    ..Fate::default()
                })
                .collect(),
            rng: RefCell::new(rng),
            turn: Cell::new(0),
            drain_rate,
            healing: Cell::new(false),
            resting: (0..processes).map(|_| Cell::new(false)).collect(),
            stop: Cell::new(false),
            violation: RefCell::new(None),
            trace: options.trace.then(RefCell::default),
        }
    }

    pub fn now(&self) -> u64 {
        self.clock.get()
    }

    /// Notes the first broken invariant; the scheduler ends the run.
    #[cold]
    pub fn fail(
        &self,
        invariant: &'static str,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) {
        let mut slot = self.violation.borrow_mut();
        if slot.is_none() {
            *slot = Some(Violation {
                invariant,
                expected: expected.into(),
                got: got.into(),
            });
        }
    }

    pub fn failed(&self) -> bool {
        self.violation.borrow().is_some()
    }

    /// A line of the trace; built only when somebody reads it.
    pub fn trace(&self, line: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            let mut trace = trace.borrow_mut();
            if trace.len() >= TRACE_LINES {
                trace.pop_front();
            }
            trace.push_back(format!("{:>10} ns  {}", self.now(), line()));
        }
    }

    /// The oldest store of a process becomes visible to all. False if there is none.
    pub fn drain_one(&self, by: usize) -> bool {
        let Some(store) = self.memory.borrow_mut().oldest(by) else {
            return false;
        };
        self.rings.borrow_mut().becomes_visible(self, by, &store);
        self.memory
            .borrow_mut()
            .write(store.seg, store.off, store.bytes());
        self.oracle.borrow().became_visible(self, by, &store);
        true
    }

    /// All stores of a process become visible.
    pub fn drain(&self, by: usize) {
        while self.drain_one(by) {}
    }

    /// True when `peer` is dead and the kernel has told `me`.
    pub fn heard_of_death(&self, peer: usize) -> bool {
        let fate = &self.fates[peer];
        fate.dead.get() && fate.notice_at.get() <= self.now()
    }

    /// Ends a process's sleep.
    pub fn wake(&self, process: usize) {
        self.fates[process].rang.set(true);
        self.fates[process].wake_at.set(0);
    }
}

/// A process's access to the world.
#[derive(Clone, Copy)]
pub(super) struct Ctx<'s> {
    pub world: &'s World,
    pub yielder: &'s Yielder<(), Pause>,
    pub me: usize,
}

impl Ctx<'_> {
    /// One step: time passes, stores may leave the buffer, others may have their turn, the process may end here.
    pub fn step(&self) {
        let world = self.world;
        world.steps.set(world.steps.get() + 1);
        world.clock.set(world.clock.get() + STEP_NS);
        let fate = &world.fates[self.me];
        fate.steps.set(fate.steps.get() + 1);
        if fate.steps.get() >= fate.kill_at.get() {
            fate.dead.set(true);
            self.yielder.suspend(Pause::Turn);
        }
        let dice = world.rng.borrow_mut().below(1000);
        if dice < world.drain_rate {
            world.drain_one(self.me);
        }
        match world.turn.get() {
            0 => {
                self.yielder.suspend(Pause::Turn);
            }
            left => world.turn.set(left - 1),
        }
        // the run is over: nothing that follows counts
        while world.failed() {
            self.yielder.suspend(Pause::Turn);
        }
    }

    /// Sleeps until a time, or until woken.
    pub fn sleep_until(&self, at: u64) {
        self.yielder.suspend(Pause::Sleep(at));
        while self.world.failed() {
            self.yielder.suspend(Pause::Turn);
        }
    }

    /// Lets others run for a little while.
    pub fn pause(&self) {
        self.sleep_until(self.world.now() + 300);
    }

    pub fn load(&self, seg: SegId, off: usize) -> u64 {
        self.step();
        let mut bytes = [0; 8];
        self.world
            .memory
            .borrow()
            .view(self.me, seg, off, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    pub fn store(&self, seg: SegId, off: usize, bytes: &[u8]) {
        self.step();
        let mut memory = self.world.memory.borrow_mut();
        memory.store(self.me, seg, off, bytes);
        let full = memory.is_full(self.me);
        drop(memory);
        if full {
            self.world.drain_one(self.me);
        }
    }

    /// A sequentially consistent change of a word: the buffer empties first. `change` gives the new word, or None.
    pub fn modify(&self, seg: SegId, off: usize, change: impl FnOnce(u64) -> Option<u64>) -> u64 {
        self.step();
        self.world.drain(self.me);
        let mut bytes = [0; 8];
        self.world.memory.borrow().read(seg, off, &mut bytes);
        let old = u64::from_le_bytes(bytes);
        if let Some(new) = change(old) {
            self.world
                .memory
                .borrow_mut()
                .store(self.me, seg, off, &new.to_le_bytes());
            self.world.drain(self.me);
        }
        old
    }

    pub fn fence(&self) {
        self.step();
        self.world.drain(self.me);
    }

    /// What this process sees, without a step: for checkers.
    pub fn peek(&self, seg: SegId, off: usize, into: &mut [u8]) {
        self.world.memory.borrow().view(self.me, seg, off, into);
    }
}
