//! A process: its Portals, and what its program and an observer know of them.
//!
//! Owns: what operations, entries, counters and table entries are to the observer. Must not know:
//! the rules by which they change.

use crate::memory::Bytes;
use crate::program::Program;
use ferriband_portals_process::{Hold, Process as Portals};
use ferriband_portals_proto::{
    AckInfo, AckRequest, ArrivalOp, AtomicOp, Datatype, EntryOptions, Handle, List, MdOptions,
    NiFail, NiKind, Piece, Process as Id, PtOptions,
};
use ferriband_putget_proto::Status;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// What a program writes into memory that is its own again.
pub(crate) const SCRIBBLE: u8 = 0xee;
/// Ranges of own memory that operations use.
pub(crate) const SLOTS: usize = 16;
/// Bytes of one.
pub(crate) const SLOT_BYTES: u64 = 400;
/// Table entry whose requests all come from the process itself.
pub(crate) const SELF_PT: usize = 2;
/// Counters of an interface; the last one is for operations on the process itself.
pub(crate) const COUNTERS: usize = 4;
/// The node on which all processes are.
const NID: u32 = 7;
/// The first process's number on it.
const FIRST_PID: u32 = 100;

/// The identifier of a process.
pub(crate) const fn id_of(process: usize) -> Id {
    Id {
        nid: NID,
        pid: FIRST_PID + process as u32,
    }
}

/// The process with an identifier.
pub(crate) const fn process_of(id: Id) -> usize {
    (id.pid - FIRST_PID) as usize
}

/// The byte that an operation writes at an offset.
pub(crate) const fn byte_of(op: usize, at: u64) -> u8 {
    let mixed = (op as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (at + 1).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let byte = (mixed >> 32) as u8;
    if byte == SCRIBBLE { 1 } else { byte }
}

/// What the program's value in an event names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    Op(usize),
    Entry(usize),
    Search(usize),
}

impl Name {
    pub const fn user_ptr(self) -> u64 {
        match self {
            Name::Op(op) => op as u64,
            Name::Entry(entry) => 1 << 32 | entry as u64,
            Name::Search(search) => 2 << 32 | search as u64,
        }
    }
}

/// What a grant says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grant {
    pub entry: usize,
    pub offset: u64,
    pub length: u64,
    pub list: List,
}

/// What has become of an operation at its target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fate {
    pub admitted: Option<Result<Grant, Status>>,
    pub ended: Option<NiFail>,
    /// Bytes that were moved.
    pub moved: u64,
    /// Who has met its unexpected header.
    pub met: Option<Finder>,
    /// Its unexpected header is in the list, or was.
    pub listed: bool,
}

/// Who meets an unexpected header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Finder {
    pub name: Name,
    pub options: EntryOptions,
    pub ct: Option<usize>,
}

/// Own memory of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub slot: usize,
    pub md: Handle,
    pub options: MdOptions,
    pub eq: Option<usize>,
    pub ct: Option<usize>,
    /// The descriptor is bound, and the slot serves nothing else.
    pub bound: bool,
}

/// Events of an operation that were told, and those that are still to be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due<T> {
    pub due: Option<T>,
    pub taken: bool,
}

/// An operation.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub me: usize,
    pub target: usize,
    pub ni: usize,
    pub pt: usize,
    pub kind: ArrivalOp,
    pub atomic: Option<(AtomicOp, Datatype)>,
    pub operand: [u8; 32],
    pub bits: u64,
    pub offset: u64,
    pub length: u64,
    pub ack: AckRequest,
    pub put: Option<Own>,
    pub get: Option<Own>,
    /// The counter and threshold that it waits for.
    pub trigger: Option<(usize, u64)>,
    /// It was begun by the program, or its threshold was reached.
    pub begun: bool,
    /// The join has it: it is on its way, or waits.
    pub dispatched: bool,
    /// Its place among all operations that were begun.
    pub place: u64,
    /// That place, if the program has begun it by a call.
    pub seq: Option<u64>,
    /// Its connection's machine has it.
    pub started: bool,
    /// It goes by a lease.
    pub direct: bool,
    /// SEND was told.
    pub sent: bool,
    /// Nothing of it is under way any more.
    pub over: bool,
    pub fate: Fate,
    /// Bytes that a get or exchange brings.
    pub brought: Vec<u8>,
    pub send: Due<NiFail>,
    pub answer: Due<AckInfo>,
    pub completion: Due<NiFail>,
    pub overflow: Due<NiFail>,
}

/// An entry of a list.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub pt: usize,
    pub list: List,
    pub handle: Handle,
    /// None is anybody.
    pub peer: Option<usize>,
    pub bits: u64,
    pub ignore: u64,
    pub uid: Option<u32>,
    pub options: EntryOptions,
    pub pieces: Vec<Piece>,
    pub length: u64,
    pub min_free: u64,
    pub ct: Option<usize>,
    pub stage: Stage,
    pub local_offset: u64,
    /// Requests that it has taken and that are under way, and headers that it has met whose
    /// requests are.
    pub pending: u32,
    /// Unexpected headers whose data lies in it.
    pub headers: u32,
    /// Completion events that were told and not taken.
    pub untaken: u32,
    pub link: Due<()>,
    pub unlink: Due<()>,
    pub free: Due<()>,
}

/// How far an entry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Linked,
    /// Out of its list by itself; AUTO_UNLINK is not told.
    Leaving,
    /// AUTO_UNLINK was told.
    Left,
    /// Gone.
    Gone,
}

/// A search.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Search {
    /// SEARCH events that were told and not taken: found, and none found.
    pub found: u32,
    pub none: bool,
}

/// An event queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub handle: Handle,
    pub capacity: usize,
    /// Events were lost.
    pub dropped: bool,
    /// Events that may have been told since it was seen to be empty.
    pub told: usize,
}

/// A counter, as it has to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter {
    pub handle: Handle,
    pub success: u64,
    pub failure: u64,
}

/// What waits for a counter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    Start(usize),
    Inc(usize, u64),
}

/// A portal table entry.
#[derive(Debug)]
pub(crate) struct Table {
    pub index: u32,
    pub options: PtOptions,
    pub eq: Option<usize>,
    pub priority: Vec<usize>,
    pub overflow: Vec<usize>,
    /// Operations whose unexpected headers are in the list, in order.
    pub headers: Vec<usize>,
    pub enabled: bool,
    /// PtlPTDisable has been called and has not returned.
    pub disabling: bool,
    pub owes_disabled: bool,
    /// A PT_DISABLED event is in the queue.
    pub disabled: bool,
    pub active: u32,
}

/// An interface.
#[derive(Debug)]
pub(crate) struct Ni {
    pub kind: NiKind,
    pub most_headers: u32,
    pub most_entries: usize,
    pub headers: u32,
    pub queues: Vec<Queue>,
    pub counters: Vec<Counter>,
    /// Counter, threshold, number, effect.
    pub waiting: Vec<(usize, u64, u64, Effect)>,
    pub issued: u64,
    pub fired: VecDeque<Effect>,
    pub tables: Vec<Table>,
    pub entries: Vec<Entry>,
    pub searches: Vec<Search>,
}

/// A process.
pub(crate) struct Process {
    pub portals: Portals<Bytes>,
    pub uid: u32,
    /// By the interface's number.
    pub nis: [Option<Ni>; 4],
    pub slots: Vec<Vec<Piece>>,
    /// Memory that several entries may have.
    pub heap: Piece,
    /// Operations under way at this target.
    pub held: Vec<(Hold, usize)>,
    /// Own operations that have fired since the join last began what can begin.
    pub due: Vec<usize>,
    /// Operations that a connection's machine has.
    pub tokens: BTreeMap<u64, usize>,
    /// Operations in the order in which they were begun and have to be let in, by target and
    /// interface.
    pub order: BTreeMap<(usize, usize), VecDeque<usize>>,
    /// By address and initiator: the last ordered operations that have read and written the byte.
    pub touched: HashMap<(u64, usize), (u64, u64)>,
    pub program: Program,
    /// Its thread looks at completions; else it sleeps until it is woken.
    pub awake: bool,
    pub stopped_until: u64,
    pub dead: bool,
}

impl Process {
    pub const fn ni(&self, ni: usize) -> &Ni {
        self.nis[ni].as_ref().expect("it is open")
    }

    pub const fn ni_mut(&mut self, ni: usize) -> &mut Ni {
        self.nis[ni].as_mut().expect("it is open")
    }
}

impl Table {
    /// Whether operations by leases may come.
    pub const fn lets_in(&self) -> bool {
        self.enabled || self.disabling
    }
}

impl Entry {
    pub const fn has(&self, option: EntryOptions) -> bool {
        self.options.contains(option)
    }
}

impl<T> Default for Due<T> {
    fn default() -> Due<T> {
        Due {
            due: None,
            taken: false,
        }
    }
}

impl<T> Due<T> {
    /// It is told.
    pub fn tell(&mut self, what: T) {
        self.due = Some(what);
    }

    /// It is taken: what was told, if it was and has not been taken.
    pub fn take(&mut self) -> Option<T> {
        let due = self.due.take();
        self.taken |= due.is_some();
        due
    }
}
