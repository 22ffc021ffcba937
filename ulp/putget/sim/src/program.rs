//! What the program of a process does, drawn from the seed: puts, gets, exchanges, notifications,
//! buffers that come and go; then it computes to the end of the run, and its thread serves.
//!
//! Owns: what is asked for. Must not know: what becomes of it.

use crate::direct::BESIDE;
use crate::edge::Edge;
use crate::process::{CELL, EMPTY, Fate, OWN_CELLS, Request, SCRIBBLE, SHARED, value_of};
use crate::rdma::key_of;
use crate::world::World;
use crate::{Law, Plant};
use ferriband_putget_proto::tags::{Direction, Note, Range, TagError};
use ferriband_putget_proto::{Direct, DirectOp, Kind, NotDirect, NotStarted, SEGMENT_BYTES};
use ferriband_putget_proto::{Segment, Start, Started};
use ferriband_seed::Rng;

/// Bytes of the address of a request: its number, and the offset in cells.
const ADDRESS: usize = 8;

/// What a program waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    Nothing,
    /// Room on the way to a peer, for the request that it has in hand.
    Room(usize),
    /// The end of a request.
    Done(usize),
    /// The end of all of its requests.
    All,
    /// The return of a buffer that is to go.
    Returned(usize),
}

/// A request that a program wishes for.
#[derive(Clone, Copy, Debug)]
struct Wish {
    target: usize,
    kind: Kind,
    tag: u32,
    offset: usize,
    cells: usize,
    acknowledge: bool,
    solicit: bool,
    waits: bool,
}

/// A program.
#[derive(Debug)]
pub(crate) struct Program {
    /// Steps that it still has.
    pub left: u64,
    pub wait: Wait,
    /// It does something else until then.
    pub busy_until: u64,
    wish: Option<Wish>,
    /// Longest request that goes in a message, in cells; 0 where none does.
    crossover: usize,
    /// Of a hundred requests.
    acknowledges: u64,
    solicits: u64,
    waits: u64,
    /// Longest length, in cells, and how many places it asks for in a buffer.
    longest: u64,
    places: u64,
    /// Notifications that it has bound.
    pub notes: u64,
    /// It asks the next process only.
    favours: bool,
    /// It does nothing but ask.
    posts: bool,
    /// All that it asks for lies in a few cells of one buffer, and it acknowledges nothing.
    narrow: bool,
}

impl Program {
    pub fn new(rng: &mut Rng) -> Program {
        // long requests whose ends nobody waits for: what comes back is seen late
        let posts = rng.chance(20);
        let narrow = rng.chance(20);
        let program = Program::any(rng);
        if narrow {
            return Program {
                left: rng.pick(&[20, 40, 80]),
                crossover: OWN_CELLS,
                acknowledges: 0,
                waits: 0,
                longest: 2,
                places: 1,
                favours: true,
                narrow,
                ..program
            };
        }
        if !posts {
            return program;
        }
        Program {
            left: rng.pick(&[8, 9, 12]),
            crossover: 0,
            acknowledges: 0,
            solicits: 0,
            waits: 0,
            favours: true,
            posts: true,
            ..program
        }
    }

    fn any(rng: &mut Rng) -> Program {
        Program {
            left: rng.pick(&[0, 5, 20, 40, 80]),
            wait: Wait::Nothing,
            busy_until: 0,
            wish: None,
            crossover: rng.pick(&[0, 1, 2, 8, 16, OWN_CELLS, OWN_CELLS]),
            acknowledges: rng.pick(&[0, 30, 100]),
            solicits: rng.pick(&[0, 50, 100]),
            waits: rng.pick(&[0, 5, 40]),
            longest: rng.pick(&[2, 4, 16, OWN_CELLS as u64]),
            places: rng.pick(&[1, 4, 20]),
            notes: 0,
            favours: rng.chance(20),
            posts: false,
            narrow: false,
        }
    }
}

impl World {
    /// Whether the program of a process can do something.
    pub(crate) fn may_act(&self, me: usize) -> bool {
        let process = &self.processes[me];
        let program = &process.program;
        let waits = match program.wait {
            Wait::Nothing => false,
            Wait::Room(peer) => {
                let link = &self.links[self.link(me, peer)];
                link.machine().waits_for_all() && !link.told_lost
            }
            Wait::Done(request) => process.requests[request].done.is_none(),
            Wait::All => self.has_open(me),
            Wait::Returned(buffer) => !process.buffers[buffer].lent.is_empty(),
        };
        program.left > 0 && program.busy_until <= self.now && !waits
    }

    /// Whether a request of a process is not over.
    pub(crate) fn has_open(&self, me: usize) -> bool {
        let is_open = |request: &Request| request.answered && request.done.is_none();
        self.processes[me].requests.iter().any(is_open)
    }

    /// The program does something.
    pub(crate) fn act(&mut self, me: usize) {
        let program = &mut self.processes[me].program;
        if let Wait::Returned(buffer) = std::mem::replace(&mut program.wait, Wait::Nothing) {
            self.unregister(me, buffer);
            return;
        }
        let program = &mut self.processes[me].program;
        if let Some(wish) = program.wish.take() {
            self.ask(me, wish);
            return;
        }
        program.left -= 1;
        let most = if program.posts { 70 } else { 100 };
        match self.rng.below(most) {
            0..=69 => self.wish(me),
            70..=77 => self.come_or_go(me),
            78..=91 => self.bind(me),
            92..=94 => self.wait_for(me, Wait::All),
            _ => {
                let steps = self.rng.pick(&[3, 30, 300]);
                self.processes[me].program.busy_until = self.now + steps;
            }
        }
    }

    /// The program sleeps: whoever waits looks at what comes.
    fn wait_for(&mut self, me: usize, wait: Wait) {
        self.processes[me].program.wait = wait;
        self.wake(me);
    }

    fn wish(&mut self, me: usize) {
        let count = self.processes.len();
        let program = &self.processes[me].program;
        let others = if program.favours { 1 } else { count - 1 };
        let target = (me + 1 + self.rng.index(others)) % count;
        let (longest, places, narrow) = (program.longest, program.places, program.narrow);
        let (acknowledges, solicits, waits) =
            (program.acknowledges, program.solicits, program.waits);
        let rng = &mut self.rng;
        let kind = rng.pick(&[Kind::Put, Kind::Put, Kind::Get, Kind::Get, Kind::Exchange]);
        let buffer = if narrow { 0 } else { rng.index(SHARED) };
        let buffer = &self.processes[target].buffers[buffer];
        let (none, least) = (rng.chance(3), u64::from(!rng.chance(5)));
        let offset = rng.below(places) as usize;
        let mut cells = rng.range(least, longest) as usize;
        if rng.chance(85) {
            cells = cells.min(buffer.cells.saturating_sub(offset));
        }
        let wish = Wish {
            target,
            kind,
            tag: if none { 99 } else { buffer.tag },
            offset,
            cells,
            acknowledge: rng.chance(acknowledges),
            solicit: rng.chance(solicits),
            waits: rng.chance(waits),
        };
        self.ask(me, wish);
    }

    /// Begins a request, or keeps it until there is room.
    fn ask(&mut self, me: usize, wish: Wish) {
        let Some(buffer) = self.processes[me].free_buffer() else {
            if self.has_open(me) {
                self.processes[me].program.wish = Some(wish);
                self.wait_for(me, Wait::All);
            }
            return;
        };
        let at = self.link(me, wish.target);
        if self.ask_direct(me, &wish, buffer) {
            return;
        }
        let Some(mut machine) = self.links[at].machine.take() else {
            return;
        };
        let bytes = wish.cells * CELL;
        let carried = if wish.kind == Kind::Get { 0 } else { bytes } as u64;
        let brought = if wish.kind == Kind::Put { 0 } else { bytes } as u64;
        let room = machine.put_room(ADDRESS);
        let fits = carried <= room && brought <= machine.get_room();
        let crossover = self.processes[me].program.crossover;
        let long = !fits || wish.cells > crossover || crossover == 0;
        let long = long && wish.kind != Kind::Exchange;
        let request = self.prepare(me, &wish, buffer, long);
        let segments = self.cut(me, buffer, bytes, room);
        let mut address = [0; ADDRESS];
        address[..4].copy_from_slice(&(request as u32).to_be_bytes());
        address[4..].copy_from_slice(&(wish.offset as u32).to_be_bytes());
        let start = Start {
            kind: wish.kind,
            tag: wish.tag,
            address: &address,
            length: bytes as u64,
            payload: carried as usize,
            long: long.then_some(&segments),
            acknowledge: wish.acknowledge,
            solicit: wish.solicit,
            token: request as u64,
        };
        let started = machine.start(&start, &mut Edge::new(self, at));
        self.links[at].machine = Some(machine);
        self.note(|_| format!("p{me} begins {request}, long: {long}: {wish:?}: {started:?}"));
        match started {
            Ok(started) => self.begun(me, request, started, wish.waits),
            Err(why) => self.not_begun(me, wish, why, fits || long),
        }
    }

    /// Begins a request by a lease, or keeps it until there is room. False if it goes by message.
    fn ask_direct(&mut self, me: usize, wish: &Wish, buffer: usize) -> bool {
        let at = self.link(me, wish.target);
        let op = match wish.kind {
            Kind::Put => DirectOp::Put,
            Kind::Get => DirectOp::Get,
            _ => return false,
        };
        if !self.links[at].machine().has_leases() {
            return false;
        }
        let Some(mut machine) = self.links[at].machine.take() else {
            return false;
        };
        let request = self.prepare(me, wish, buffer, false);
        self.processes[me].requests[request].direct = true;
        let direct = Direct {
            op,
            tag: wish.tag,
            address: &BESIDE,
            offset: (wish.offset * CELL) as u64,
            length: (wish.cells * CELL) as u64,
            observed: wish.acknowledge,
            token: request as u64,
        };
        let started = machine.direct(&direct, &mut Edge::new(self, at));
        // the thread may sleep
        let armed = machine.waits_for_direct() && self.plant != Some(Plant::DirectUnarmed);
        self.links[at].armed_for_direct |= armed;
        self.links[at].machine = Some(machine);
        self.note(|_| format!("p{me} begins {request} by a lease: {wish:?}: {started:?}"));
        match started {
            Ok(started) => {
                let known = &mut self.processes[me].requests[request];
                known.answered = started == Started::Answered;
                // its memory is its program's again at its end, as of a long one
                known.long = known.answered;
                known.fate.offset = (wish.offset * CELL) as u64;
                let (answered, cells) = (known.answered, known.cells);
                self.stats.direct_puts += u64::from(wish.kind == Kind::Put);
                self.stats.direct_gets += u64::from(wish.kind == Kind::Get);
                if !answered {
                    let end = (ferriband_putget_proto::Status::Ok, (cells * CELL) as u64);
                    self.give_back(me, buffer, wish.kind, Some(end));
                } else if wish.waits {
                    self.wait_for(me, Wait::Done(request));
                }
                true
            }
            Err(why) => {
                if let Some(request) = self.processes[me].requests.pop() {
                    self.give_back(me, request.buffer, request.kind, None);
                }
                if why == NotDirect::Full {
                    self.stats.full += 1;
                    self.processes[me].program.wish = Some(*wish);
                    self.wait_for(me, Wait::Room(wish.target));
                }
                why == NotDirect::Full
            }
        }
    }

    /// Takes note of a request and fills its memory.
    fn prepare(&mut self, me: usize, wish: &Wish, buffer: usize, long: bool) -> usize {
        let process = &mut self.processes[me];
        let request = process.requests.len();
        process.requests.push(Request {
            target: wish.target,
            kind: wish.kind,
            tag: wish.tag,
            cells: wish.cells,
            long,
            direct: false,
            acknowledge: wish.acknowledge,
            buffer,
            begun: self.now,
            answered: false,
            fate: Fate::default(),
            done: None,
        });
        let cells = wish.cells;
        let gets = wish.kind == Kind::Get;
        process.fill(buffer, |at| match at < cells {
            _ if gets => EMPTY,
            true => value_of(me, request, at),
            false => SCRIBBLE,
        });
        let tag = process.buffers[buffer].tag;
        process.buffers[buffer].request = Some(request);
        process.buffers[buffer].held += 1;
        if let Err(why) = process.tags.hold(tag, (cells * CELL) as u64) {
            self.fail(Law::Range, format!("p{me}'s own buffer {buffer}: {why}"));
        }
        request
    }

    /// The pieces of an own buffer's first bytes, as many as a message has room for.
    fn cut(&mut self, me: usize, buffer: usize, bytes: usize, room: u64) -> Vec<Segment> {
        let first = (self.processes[me].buffers[buffer].first * CELL) as u64;
        let key = key_of(me, buffer);
        let pieces = self.rng.pick(&[1, 1, 2, 3]);
        let fits = (pieces * SEGMENT_BYTES) as u64 <= room;
        let pieces = if fits { pieces } else { 1 };
        let mut segments = Vec::with_capacity(pieces);
        let mut done = 0;
        for piece in 1..=pieces {
            let rest = bytes - done;
            let some = self.rng.index(rest / CELL + 1) * CELL;
            let length = if piece == pieces { rest } else { some };
            segments.push(Segment {
                address: first + done as u64,
                length: length as u64,
                key,
            });
            done += length;
        }
        segments
    }

    fn begun(&mut self, me: usize, request: usize, started: Started, waits: bool) {
        let known = &mut self.processes[me].requests[request];
        known.answered = started == Started::Answered;
        let (kind, long, buffer, target) = (known.kind, known.long, known.buffer, known.target);
        let (answered, cells) = (known.answered, known.cells);
        let expected = kind != Kind::Put || long || known.acknowledge;
        if answered != expected {
            self.fail(Law::Fate, format!("p{me}, request {request}: {started:?}"));
        }
        let at = self.link(me, target);
        self.links[at].begun.push_back(request);
        if kind == Kind::Exchange {
            self.processes[me].fill(buffer, |_| EMPTY);
        }
        if kind == Kind::Put && !long {
            let end = (ferriband_putget_proto::Status::Ok, (cells * CELL) as u64);
            self.give_back(me, buffer, kind, Some(end));
        }
        if waits && answered {
            self.wait_for(me, Wait::Done(request));
        }
    }

    fn not_begun(&mut self, me: usize, wish: Wish, why: NotStarted, fits: bool) {
        if let Some(request) = self.processes[me].requests.pop() {
            self.give_back(me, request.buffer, request.kind, None);
        }
        let at = self.link(me, wish.target);
        match why {
            NotStarted::Full => {
                self.stats.full += 1;
                self.note(|_| format!("p{me} finds no room towards p{}", wish.target));
                self.check_full(at);
                self.processes[me].program.wish = Some(wish);
                self.wait_for(me, Wait::Room(wish.target));
            }
            NotStarted::TooLong if !fits => {}
            NotStarted::Lost if self.links[at].told_lost => {}
            why => self.fail(Law::Breach, format!("p{me}: {wish:?}: {why}")),
        }
    }

    /// A buffer is registered or unregistered. Law 4.
    fn come_or_go(&mut self, me: usize) {
        let count = self.processes[me].buffers.len();
        // mostly those that others use
        let most = self.rng.pick(&[SHARED, SHARED, count]);
        let buffer = self.rng.index(most);
        if !self.processes[me].buffers[buffer].registered {
            self.register(me, buffer);
            return;
        }
        if self.rng.chance(60) {
            return;
        }
        match self.call_back(me, buffer) {
            true => self.unregister(me, buffer),
            false => self.wait_for(me, Wait::Returned(buffer)),
        }
    }

    /// A buffer goes that nobody reaches himself.
    fn unregister(&mut self, me: usize, buffer: usize) {
        let process = &mut self.processes[me];
        let known = &mut process.buffers[buffer];
        known.closing = false;
        match process.tags.unregister(known.tag) {
            Ok(_) if known.held == 0 => {
                known.registered = false;
                known.bound = None;
                known.lent.clear();
                self.stats.unregistered += 1;
                self.note(|_| format!("p{me} unregisters buffer {buffer}"));
            }
            Err(TagError::Busy(_)) if known.held > 0 => self.stats.busy += 1,
            result => {
                let what = format!("p{me}: unregister says {result:?} of {known:?}");
                self.fail(Law::Range, what);
            }
        }
    }

    /// A buffer comes, with values of its own.
    pub(crate) fn register(&mut self, me: usize, buffer: usize) {
        let now = self.now;
        let process = &mut self.processes[me];
        let known = &mut process.buffers[buffer];
        known.generation += 1;
        known.registered = true;
        known.count = 0;
        let (first, cells, tag) = (known.first, known.cells, known.tag);
        let generation = known.generation as usize;
        let range = Range {
            address: (first * CELL) as u64,
            length: (cells * CELL) as u64,
        };
        let result = process.tags.register(range, Some(tag));
        process.fill(buffer, |at| value_of(8 + me, generation, at));
        for at in first..first + cells {
            process.history[at].push((now, process.cells[at]));
        }
        self.note(|_| format!("p{me} registers buffer {buffer}"));
        if result != Ok(tag) {
            self.fail(Law::Range, format!("p{me}: register says {result:?}"));
        }
    }

    /// A notification is bound, or unbound. Law 9.
    fn bind(&mut self, me: usize) {
        let count = self.processes[me].buffers.len();
        let most = self.rng.pick(&[SHARED, count]);
        let buffer = self.rng.index(most);
        let process = &mut self.processes[me];
        let known = &mut process.buffers[buffer];
        let unbinds = self.rng.chance(10);
        if unbinds {
            let unbound = process.tags.unbind(known.tag);
            let unbound = unbound.map(|bound| bound.map(|(_, note)| note));
            let due = known
                .registered
                .then(|| known.bound.take().map(|(_, note)| note));
            if unbound != due.ok_or(TagError::Unknown(known.tag)) {
                let what = format!("p{me}, buffer {buffer}: unbound {unbound:?}, due is {due:?}");
                self.fail(Law::Notification, what);
            }
            return;
        }
        let direction = self.rng.pick(&[Direction::Incoming, Direction::Outgoing]);
        let note = Note(process.program.notes);
        let result = process.tags.bind(known.tag, direction, note);
        let due = match (known.registered, known.bound) {
            (false, _) => Err(TagError::Unknown(known.tag)),
            (true, Some(_)) => Err(TagError::Bound(known.tag)),
            (true, None) => Ok(()),
        };
        if due.is_ok() {
            known.bound = Some((direction, note));
            process.program.notes += 1;
            process.fired.push(false);
        }
        if result != due {
            let what = format!("p{me}, buffer {buffer}: bind says {result:?}, due is {due:?}");
            self.fail(Law::Notification, what);
        }
    }
}
