//! Random calls in a tree of processes, against a model.
//!
//! The processes do one step at a time, as the test tells them in memory that they share. After
//! each step all numbers of the process, and all records that there ever were, are as the model
//! says.

use super::{Kind, Left, Table, table};
use crate::pages::{Pages, Seen};
use crate::table::thread;
use crate::testing::{Fork, alone, child, soon};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const PROCESSES: u64 = 6;
const NUMBERS: u64 = 6;
const FIRST: i32 = 700_000;

/// Words of the memory: whose turn it is (plus one; 0: the test's), a step, its operands, answers.
const TURN: usize = 0;
const STEP: usize = 8;
const ONE: usize = 16;
const OTHER: usize = 24;
const HOLDER: usize = 32;
const GENERATION: usize = 40;
/// Then what each number stands for: 0, or a record's index plus one.
const KINDS: usize = 64;
/// Not 0: the test is over, whatever has become of it.
const OVER: usize = 48;
/// Whose turn it is while a child is made.
const NOBODY: u64 = u64::MAX;

/// What a process outlives no test by.
const LONGEST: Duration = Duration::from_secs(60);

const ENTER: u64 = 0;
const ALIAS: u64 = 1;
const LEAVE: u64 = 2;
const RANGE: u64 = 3;
const FORK: u64 = 4;
const BARE: u64 = 5;
const EXIT: u64 = 6;

fn number(at: u64) -> i32 {
    FIRST + at as i32
}

fn load(pages: &Pages, at: usize) -> u64 {
    pages.word(at).load(Ordering::SeqCst)
}

fn store(pages: &Pages, at: usize, value: u64) {
    pages.word(at).store(value, Ordering::SeqCst);
}

/// A process: does what it is told until it is told to end.
fn serve(pages: &Pages, mut me: u64, table: &Table) {
    let begun = Instant::now();
    loop {
        while load(pages, TURN) != me + 1 {
            if load(pages, OVER) != 0 || begun.elapsed() > LONGEST {
                return;
            }
            // without an allocation: the process may be a copy of one with threads
            std::thread::yield_now();
        }
        let [one, other] = [ONE, OTHER].map(|at| load(pages, at));
        match load(pages, STEP) {
            ENTER => {
                let pin = table.enter(number(one)).expect("a record");
                store(pages, GENERATION, pin.taken().generation);
            }
            // as dup2
            ALIAS => {
                let pin = table.pin(number(one));
                drop(table.leave(number(other)));
                if let Some(pin) = pin {
                    table.alias(&pin, number(other));
                }
            }
            LEAVE => drop(table.leave(number(one))),
            RANGE => {
                let range = number(one) as u32..=number(other) as u32;
                let gaps =
                    table.leave_range(range, &mut |_, left| assert!(!matches!(left, Left::Own)));
                assert_eq!(gaps.count(), 1);
            }
            step @ (FORK | BARE) => {
                let how = if step == FORK {
                    Fork::Called
                } else {
                    Fork::Bare
                };
                let parent = load(pages, HOLDER);
                // SAFETY: children are reaped by the kernel, of this process and of its children.
                unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
                store(pages, TURN, NOBODY);
                let mut is_child = false;
                if fork(how) == 0 {
                    me = other;
                    is_child = true;
                }
                if !is_child {
                    // the child answers
                    continue;
                }
                assert_ne!(thread() >> 32, parent);
            }
            _ => return,
        }
        answer(pages, table);
    }
}

fn fork(how: Fork) -> i32 {
    let made = match how {
        // SAFETY: the child goes on as its parent would.
        Fork::Called => unsafe { libc::fork() },
        Fork::Bare => {
            let arguments = [libc::SIGCHLD as isize, 0, 0, 0, 0, 0];
            // SAFETY: the child goes on as its parent would.
            let made = unsafe { crate::raw::system_call(libc::SYS_clone, arguments) };
            made.map_or(-1, |made| made as i32)
        }
    };
    assert!(made >= 0, "a child");
    made
}

fn answer(pages: &Pages, table: &Table) {
    for at in 0..NUMBERS {
        let kind = match table.numbers().look(number(at)) {
            Kind::Stream(index) => u64::from(index) + 1,
            _ => 0,
        };
        store(pages, KINDS + at as usize * 8, kind);
    }
    store(pages, HOLDER, thread() >> 32);
    store(pages, TURN, 0);
}

/// What the numbers of each process that lives stand for, by the index of the record and how often
/// it was used.
type Model = BTreeMap<u64, [Option<(u32, u64)>; NUMBERS as usize]>;

struct Test {
    pages: Pages,
    model: Model,
    holders: BTreeMap<u64, u32>,
    /// All records that there ever were.
    ever: BTreeSet<(u32, u64)>,
    random: u64,
}

impl Test {
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    fn tell(&self, process: u64, step: u64, [one, other]: [u64; 2]) {
        store(&self.pages, STEP, step);
        store(&self.pages, ONE, one);
        store(&self.pages, OTHER, other);
        let holder = self.holders.get(&process).copied();
        store(&self.pages, HOLDER, u64::from(holder.unwrap_or(0)));
        store(&self.pages, TURN, process + 1);
        if step != EXIT {
            soon(|| load(&self.pages, TURN) == 0);
            return;
        }
        let holder = holder.expect("it has answered");
        soon(|| !table().family.lives(holder));
    }

    fn step(&mut self) {
        let living: Vec<u64> = self.model.keys().copied().collect();
        let process = living[self.below(living.len() as u64) as usize];
        let (one, other) = (self.below(NUMBERS), self.below(NUMBERS));
        let mut numbers = self.model[&process];
        let (at, to) = (one as usize, other as usize);
        let free = (0..PROCESSES).find(|process| !self.model.contains_key(process));
        match (self.below(20), free) {
            (0..6, _) => {
                self.tell(process, ENTER, [one, 0]);
                let index = load(&self.pages, KINDS + at * 8) as u32 - 1;
                let record = (index, load(&self.pages, GENERATION));
                assert!(self.ever.insert(record), "in use before");
                numbers[at] = Some(record);
            }
            (6..10, _) if one != other => {
                self.tell(process, ALIAS, [one, other]);
                numbers[to] = numbers[at];
            }
            (10..14, _) => {
                self.tell(process, LEAVE, [one, 0]);
                numbers[at] = None;
            }
            (14, _) if one <= other => {
                self.tell(process, RANGE, [one, other]);
                numbers[at..=to].fill(None);
            }
            (15..18, Some(child)) => {
                let how = if self.below(3) == 0 { BARE } else { FORK };
                self.tell(process, how, [0, child]);
                self.heard(child, numbers);
                return;
            }
            (18, _) if living.len() > 1 => {
                self.tell(process, EXIT, [0, 0]);
                self.model.remove(&process);
                // what it was the last to hold comes back when somebody looks
                table().arena().collect(table().family);
                return;
            }
            _ => return,
        }
        self.heard(process, numbers);
    }

    fn heard(&mut self, process: u64, numbers: [Option<(u32, u64)>; NUMBERS as usize]) {
        for (at, number) in numbers.iter().enumerate() {
            let kind = load(&self.pages, KINDS + at * 8);
            assert_eq!(kind, number.map_or(0, |(index, _)| u64::from(index) + 1));
        }
        let holder = load(&self.pages, HOLDER) as u32;
        if let Some(known) = self.holders.insert(process, holder)
            && self.model.contains_key(&process)
        {
            assert_eq!(known, holder);
        }
        self.model.insert(process, numbers);
    }

    fn check(&self) {
        let held: BTreeSet<_> = self.model.values().flatten().flatten().copied().collect();
        for (index, generation) in &self.ever {
            let (index, generation) = (*index, *generation);
            let is = table().arena().is(super::Taken { index, generation });
            assert_eq!(is, held.contains(&(index, generation)), "{index}");
        }
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        store(&self.pages, OVER, 1);
    }
}

#[test]
fn random_calls_of_a_tree_of_processes_are_as_the_model_says() {
    let _alone = alone();
    let table = table();
    for seed in 0..20 {
        let mut test = Test {
            pages: Pages::reserve(4096, Seen::ByChildren).expect("memory"),
            model: Model::new(),
            holders: BTreeMap::new(),
            ever: BTreeSet::new(),
            random: seed * 7919 + 1,
        };
        let root = child(Fork::Called, || serve(&test.pages, 0, table));
        test.tell(0, LEAVE, [0, 0]);
        test.heard(0, [None; NUMBERS as usize]);
        for _ in 0..200 {
            test.step();
            test.check();
        }
        let living: Vec<u64> = test.model.keys().copied().collect();
        for process in living {
            test.tell(process, EXIT, [0, 0]);
        }
        table.arena().collect(table.family);
        test.model.clear();
        test.check();
        let mut status = -1;
        // SAFETY: writes one number.
        assert_eq!(unsafe { libc::waitpid(root, &raw mut status, 0) }, root);
        assert_eq!(status, 0);
    }
}
