//! A process: its memory, its buffers, and its requests.
//!
//! Owns: what memory is made of. A cell is four bytes, and its value names who has written it:
//! initiator, request, offset. Must not know: what may be written when.

use crate::program::Program;
use ferriband_putget_proto::tags::{Direction, Note, Tags};
use ferriband_putget_proto::{Answer, Kind, Status};

/// Bytes of a cell.
pub(crate) const CELL: usize = 4;
/// What lies in memory that a get is to fill.
pub(crate) const EMPTY: u32 = 0xffff_fffe;
/// What a program writes into memory that is its own again.
pub(crate) const SCRIBBLE: u32 = 0xffff_ffff;
/// Cells that lie between buffers and belong to none.
const GUARD: usize = 3;
/// Buffers of a process that its peers address; the others are for own requests.
pub(crate) const SHARED: usize = 3;
/// Buffers of a process for own requests.
const OWN: usize = 12;
/// Cells of one of those.
pub(crate) const OWN_CELLS: usize = 48;

/// The value that a request writes at an offset, in cells.
pub(crate) const fn value_of(initiator: usize, request: usize, offset: usize) -> u32 {
    (initiator as u32) << 28 | (request as u32 & 0xffff) << 12 | (offset as u32 & 0xfff)
}

/// Target memory that a request holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hold {
    pub initiator: usize,
    pub request: usize,
    pub buffer: usize,
    pub generation: u32,
    /// Its first cell in the process's memory.
    pub first: usize,
    pub cells: usize,
}

/// How a buffer behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Temper {
    Plain,
    /// Grants what fits.
    Cuts,
    /// RDMA cannot reach it, now and then.
    Faults,
    /// Refuses, now and then.
    Refuses,
}

/// A buffer.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub tag: u32,
    pub first: usize,
    pub cells: usize,
    pub temper: Temper,
    pub registered: bool,
    /// How often it was registered.
    pub generation: u32,
    /// Operations that are under way on it.
    pub held: u32,
    /// The notification that is bound to it.
    pub bound: Option<(Direction, Note)>,
    /// The own request that it serves.
    pub request: Option<usize>,
    /// Requests to it are counted.
    pub counts: bool,
    /// How many were, of this generation.
    pub count: u64,
    /// Peers that reach it themselves.
    pub lent: Vec<usize>,
    /// It is about to go: nobody is lent it.
    pub closing: bool,
}

/// What has become of a request at its target.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Fate {
    /// The bytes that were granted, or why none were.
    pub admitted: Option<Result<Hold, Status>>,
    pub offset: u64,
    pub tag: u32,
    pub ended: Option<Status>,
}

/// A request of a process.
#[derive(Debug)]
pub(crate) struct Request {
    pub target: usize,
    pub kind: Kind,
    pub tag: u32,
    pub cells: usize,
    pub long: bool,
    /// It goes by a lease.
    pub direct: bool,
    pub acknowledge: bool,
    /// The own buffer.
    pub buffer: usize,
    pub begun: u64,
    /// Something is still to come.
    pub answered: bool,
    pub fate: Fate,
    pub done: Option<Answer>,
}

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    pub cells: Vec<u32>,
    /// Of each cell all values that it had, and since when.
    pub history: Vec<Vec<(u64, u32)>>,
    pub tags: Tags,
    pub buffers: Vec<Buffer>,
    pub requests: Vec<Request>,
    pub program: Program,
    /// Its thread looks at completions; else it sleeps until it is woken.
    pub awake: bool,
    pub stopped_until: u64,
    pub dead: bool,
    /// It lends buffers.
    pub lends: bool,
    /// Notes that have fired.
    pub fired: Vec<bool>,
}

impl Process {
    /// A process with buffers of these lengths and tempers, none of which is registered.
    pub fn new(
        shared: [(usize, Temper); SHARED],
        (lends, counts): (bool, [bool; SHARED]),
        program: Program,
    ) -> Process {
        let own = [(OWN_CELLS, Temper::Plain); OWN];
        let mut first = GUARD;
        let mut buffers = Vec::new();
        for (tag, (cells, temper)) in shared.into_iter().chain(own).enumerate() {
            buffers.push(Buffer {
                tag: tag as u32,
                first,
                cells,
                temper,
                registered: false,
                generation: 0,
                held: 0,
                bound: None,
                request: None,
                counts: counts.get(tag).is_some_and(|counts| *counts),
                count: 0,
                lent: Vec::new(),
                closing: false,
            });
            first += cells + GUARD;
        }
        Process {
            cells: vec![SCRIBBLE; first],
            history: vec![Vec::new(); first],
            tags: Tags::default(),
            buffers,
            requests: Vec::new(),
            program,
            awake: true,
            stopped_until: 0,
            dead: false,
            lends,
            fired: Vec::new(),
        }
    }

    /// The buffer that a cell belongs to.
    pub fn buffer_at(&self, cell: usize) -> Option<usize> {
        let has = |buffer: &Buffer| (buffer.first..buffer.first + buffer.cells).contains(&cell);
        self.buffers.iter().position(has)
    }

    /// A buffer for own requests that serves none.
    pub fn free_buffer(&self) -> Option<usize> {
        let is_free = |buffer: &Buffer| buffer.registered && buffer.request.is_none();
        (SHARED..self.buffers.len()).find(|at| is_free(&self.buffers[*at]))
    }

    /// Fills an own buffer.
    pub fn fill(&mut self, buffer: usize, value: impl Fn(usize) -> u32) {
        let Buffer { first, cells, .. } = self.buffers[buffer];
        for (at, cell) in self.cells[first..first + cells].iter_mut().enumerate() {
            *cell = value(at);
        }
    }
}
