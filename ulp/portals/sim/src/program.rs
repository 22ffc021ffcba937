//! What the program of a process does, drawn from the seed; then it computes to the end of the run,
//! and its thread serves.
//!
//! Owns: which call comes next, and what a process has opened. Must not know: what becomes of it.

use crate::entries::Wish;
use crate::memory::Bytes;
use crate::process::{
    COUNTERS, Counter, Ni, Process, Queue, SCRIBBLE, SELF_PT, SLOT_BYTES, SLOTS, Table, id_of,
};
use crate::recalls::{Call, Wait};
use crate::world::World;
use crate::{Law, Plant};
use ferriband_portals_process::{Ni as Opened, Peer, Process as Portals};
use ferriband_portals_proto::{CtEvent, Handle, Interface, Limits, NiKind, Piece, PtOptions};
use ferriband_seed::Rng;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Bytes of the memory that several entries of a process may have.
const HEAP_BYTES: u64 = 300;
/// The most bytes of an atomic operation or a volatile put.
pub(crate) const ATOMIC_BYTES: u64 = 64;

/// A program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// Calls that it still makes.
    pub left: u64,
    /// It does something else until then.
    pub busy_until: u64,
    /// Of a hundred calls: how many take events, and how many begin operations.
    pub takes: u64,
    pub begins: u64,
    /// It takes all events that are there.
    pub drains: bool,
    /// It waits in a call.
    pub wait: Option<Wait>,
    /// Of a hundred entries without matching: how many need no request.
    pub lends: u64,
    /// Of a hundred operations: how many are such as go by leases.
    pub plain: u64,
    /// Of bytes of its puts and gets.
    pub least: u64,
    pub longest: u64,
}

impl Program {
    fn new(rng: &mut Rng, mostly_direct: bool) -> Program {
        Program {
            left: rng.pick(&[0, 20, 80, 150, 250]),
            busy_until: 0,
            takes: rng.pick(&[2, 10, 25]),
            begins: rng.pick(&[10, 40, 55]),
            drains: rng.chance(50),
            wait: None,
            lends: if mostly_direct { 80 } else { 20 },
            plain: if mostly_direct { 70 } else { 0 },
            least: rng.pick(&[0, 0, 110]),
            longest: rng.pick(&[8, 64, SLOT_BYTES, SLOT_BYTES]),
        }
    }
}

impl World {
    /// Opens the interfaces of all processes.
    pub(crate) fn open(&mut self, count: usize) {
        let mostly_direct = self.rng.chance(35);
        let kinds: Vec<usize> = match self.rng.below(3) {
            _ if mostly_direct => {
                let matching = |ni: &usize| NiKind::from_index(*ni as u8).matching;
                let mut without: Vec<usize> = (0..4).filter(|ni| !matching(ni)).collect();
                if self.rng.chance(70) {
                    without.remove(self.rng.index(2));
                }
                without
            }
            0 => vec![self.rng.index(4)],
            _ => {
                let first = self.rng.index(4);
                vec![first, (first + 1 + self.rng.index(3)) % 4]
            }
        };
        for me in 0..count {
            let program = Program::new(&mut self.rng, mostly_direct);
            let uid = 500 + me as u32 % 2;
            let mut memory = Bytes::default();
            memory.atomics = self.rng.chance(60);
            let slots = (0..SLOTS)
                .map(|_| slot(&mut self.rng, &mut memory))
                .collect();
            let heap = memory.allocate(HEAP_BYTES, |at| at as u8);
            let mut portals = Portals::new(id_of(me), uid, memory);
            for other in 0..count {
                portals.identified(Peer(other as u32), id_of(other), 500 + other as u32 % 2);
            }
            self.processes.push(Process {
                portals,
                uid,
                nis: [const { None }; 4],
                slots,
                heap,
                held: Vec::new(),
                due: Vec::new(),
                tokens: BTreeMap::new(),
                order: BTreeMap::new(),
                touched: HashMap::new(),
                program,
                awake: true,
                stopped_until: 0,
                dead: false,
            });
            for (at, kind) in kinds.iter().enumerate() {
                // now and then a peer has not opened it
                if at == 0 || self.rng.chance(90) {
                    self.open_ni(me, *kind, count);
                }
            }
        }
    }

    fn open_ni(&mut self, me: usize, number: usize, count: usize) {
        let kind = NiKind::from_index(number as u8);
        let most_headers = self.rng.pick(&[1, 3, 8, 1000]);
        let most_entries = self.rng.pick(&[4, 8, 100]);
        let wish = Limits {
            max_unexpected_headers: most_headers,
            max_list_size: most_entries,
            max_pt_index: 3,
            max_atomic_size: ATOMIC_BYTES,
            max_fetch_atomic_size: ATOMIC_BYTES,
            max_volatile_size: ATOMIC_BYTES,
            ..Limits::default()
        };
        let mut interface = Interface::new(kind, Limits::granted(Some(&wish), &Limits::default()));
        let queues = self.queues(&mut interface);
        let counters = (0..COUNTERS).map(|_| Counter {
            handle: interface.ct_alloc().expect("the first counters"),
            success: 0,
            failure: 0,
        });
        let counters = counters.collect();
        let tables = self.tables(&mut interface, &queues);
        self.processes[me].portals.interfaces[number] = Some(Opened {
            interface,
            opened: 1,
            map: if kind.logical {
                (0..count).map(id_of).collect()
            } else {
                Vec::new()
            },
            rank: me as u32,
        });
        self.processes[me].nis[number] = Some(Ni {
            kind,
            most_headers,
            most_entries: most_entries as usize,
            headers: 0,
            queues,
            counters,
            waiting: Vec::new(),
            issued: 0,
            fired: VecDeque::new(),
            tables,
            entries: Vec::new(),
            searches: Vec::new(),
        });
        self.append(me, number, &Wish::of_self(me));
        self.append_first(me, number);
    }

    /// Event queues: two for anything, and one for requests of the process itself.
    fn queues(&mut self, interface: &mut Interface) -> Vec<Queue> {
        let grown = self.plant == Some(Plant::QueueUnbounded);
        let mut queues = Vec::new();
        for at in 0..3 {
            let some = self.rng.pick(&[4, 8, 20, 1000, 1000]);
            let capacity = if at == 2 { 1000 } else { some };
            let asked = if grown { 5 * capacity } else { capacity };
            queues.push(Queue {
                handle: interface.eq_alloc(asked).expect("the first queues"),
                capacity: capacity as usize,
                dropped: false,
                told: 0,
            });
        }
        queues
    }

    /// Table entries: one without and one with flow control, and one for requests of the process
    /// itself.
    fn tables(&mut self, interface: &mut Interface, queues: &[Queue]) -> Vec<Table> {
        let first = (!self.rng.chance(15)).then_some(0);
        let second = if self.rng.chance(70) { 1 } else { 0 };
        let tables = [
            (PtOptions::empty(), first),
            (PtOptions::FLOWCTRL, Some(second)),
            (PtOptions::empty(), Some(2)),
        ];
        let tables = tables.into_iter().map(|(options, eq)| {
            let handle = eq.map_or(Handle::EQ_NONE, |eq| queues[eq].handle);
            let index = interface.pt_alloc(options, handle, None);
            Table {
                index: index.expect("the first table entries"),
                options,
                eq,
                priority: Vec::new(),
                overflow: Vec::new(),
                headers: Vec::new(),
                enabled: true,
                disabling: false,
                owes_disabled: false,
                disabled: false,
                active: 0,
            }
        });
        tables.collect()
    }

    /// Whether the program of a process can do something.
    pub(crate) fn may_act(&self, me: usize) -> bool {
        let program = &self.processes[me].program;
        match &program.wait {
            Some(wait) => wait.gives_up.is_some_and(|at| at <= self.now) || self.is_back(me, wait),
            None => program.left > 0 && program.busy_until <= self.now,
        }
    }

    /// One of the interfaces that a process has opened.
    fn some_ni(&mut self, me: usize) -> usize {
        let open: Vec<usize> = (0..4)
            .filter(|ni| self.processes[me].nis[*ni].is_some())
            .collect();
        self.rng.pick(&open)
    }

    /// The program does something.
    pub(crate) fn act(&mut self, me: usize) {
        if let Some(wait) = self.processes[me].program.wait {
            self.return_from(me, wait);
            return self.advance(me);
        }
        let program = &mut self.processes[me].program;
        program.left -= 1;
        let Program {
            takes,
            begins,
            drains,
            ..
        } = *program;
        let ni = self.some_ni(me);
        if self.strikes(Plant::HeaderLost, 4) {
            self.lose_header(me, ni);
        }
        let dice = self.rng.below(100);
        if dice < takes {
            self.take_events(me, ni, drains);
        } else if dice < takes + begins {
            self.post(me, ni);
        } else {
            self.act_otherwise(me, ni);
        }
        self.advance(me);
    }

    fn act_otherwise(&mut self, me: usize, ni: usize) {
        if self.rng.chance(25) {
            self.enable_some(me, ni);
        }
        match self.rng.below(100) {
            0..=29 => self.append_some(me, ni),
            30..=41 => self.unlink_some(me, ni),
            42..=61 => self.tidy(me),
            62..=69 => self.trigger(me, ni),
            70..=75 => self.search(me, ni),
            76..=83 => self.enable_some(me, ni),
            84..=85 => self.disable_some(me, ni),
            86..=92 => {
                let ct = self.rng.index(COUNTERS - 1);
                let success = self.rng.range(1, 3);
                let handle = self.processes[me].ni(ni).counters[ct].handle;
                let by = CtEvent {
                    success,
                    failure: 0,
                };
                let done = self.interface(me, ni).ct_inc(handle, by);
                self.note(|_| format!("p{me} adds {success} to counter {ct} of {ni}"));
                self.bump(me, ni, ct, (success, 0));
                self.carry_out(me, ni);
                if done.is_err() {
                    self.fail(Law::Breach, format!("p{me}: ct_inc says {done:?}"));
                }
            }
            _ => {
                let steps = self.rng.pick(&[3, 30, 300]);
                self.processes[me].program.busy_until = self.now + steps;
            }
        }
    }

    /// A table entry that was disabled is enabled. Law 8.
    fn enable_some(&mut self, me: usize, ni: usize) {
        let tables = &mut self.processes[me].ni_mut(ni).tables;
        let disabled = tables.iter_mut().find(|table| !table.enabled);
        let Some(table) = disabled else {
            return;
        };
        let index = table.index;
        table.enabled = true;
        table.owes_disabled = false;
        self.stats.enabled += 1;
        self.note(|_| format!("p{me} enables {ni}/{index}"));
        let done = self.interface(me, ni).pt_enable(index);
        if done.is_err() {
            self.fail(Law::Breach, format!("p{me}: pt_enable says {done:?}"));
        }
    }

    fn disable_some(&mut self, me: usize, ni: usize) {
        let pt = self.rng.index(SELF_PT);
        let table = &mut self.processes[me].ni_mut(ni).tables[pt];
        (table.enabled, table.disabling) = (false, true);
        let (index, active) = (table.index, table.active);
        self.note(|_| format!("p{me} disables {ni}/{index}"));
        let interface = self.interface(me, ni);
        let done = interface.pt_disable(index);
        let quiet = interface.pt_is_quiet(index);
        if done.is_err() || quiet != Ok(active == 0) {
            let what =
                format!("p{me}: pt_disable says {done:?}, quiet {quiet:?} with {active} under way");
            self.fail(Law::Disabled, what);
        }
        self.call_back(me, ni, Call::Disable(pt));
    }
}

/// Memory of one slot: in one piece, or in several.
fn slot(rng: &mut Rng, memory: &mut Bytes) -> Vec<Piece> {
    let pieces = rng.pick(&[1, 1, 2, 4, 10]);
    let length = SLOT_BYTES / pieces;
    let pieces = (0..pieces).map(|_| memory.allocate(length, |_| SCRIBBLE));
    pieces.collect()
}
