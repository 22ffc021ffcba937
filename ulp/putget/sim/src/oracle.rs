//! What must hold whenever memory is touched, a request is admitted or ends, or a message is sent.
//!
//! Owns: the laws 1 to 5, 9, 10 and 12, as far as they hold at each step. Must not know: the
//! machines.

use crate::link::{Packet, is_answered};
use crate::process::{CELL, EMPTY, Hold, Request, SCRIBBLE, value_of};
use crate::world::World;
use crate::{Law, Plant};
use ferriband_putget_proto::tags::{Direction, Note};
use ferriband_putget_proto::{Answer, Asked, Header, Kind, Status};

/// Cells up to which short puts keep their order at one address.
const ORDERED_PUT: usize = 64 / CELL;
/// Cells up to which short gets, and those by leases, do.
const ORDERED_GET: usize = 8 / CELL;

/// Whether a request that writes keeps its order at one address.
const fn is_ordered(request: &Request) -> bool {
    let short = !request.long || request.direct;
    !matches!(request.kind, Kind::Get) && short && request.cells <= ORDERED_PUT
}

impl World {
    /// Law 2: it is this request's turn. False if not.
    pub(crate) fn check_turn(&mut self, link: usize, request: usize, asked: &Asked<'_>) -> bool {
        let back = self.back(link);
        let (me, initiator) = (self.links[link].from, self.links[link].to);
        let due = self.links[back].begun.pop_front();
        if due != Some(request) {
            let what = format!("p{me} admits p{initiator}'s request {request}, due is {due:?}");
            self.fail(Law::Order, what);
            return false;
        }
        let known = &self.processes[initiator].requests[request];
        let is_it = (known.kind, known.tag) == (asked.kind, asked.tag)
            && asked.length == (known.cells * CELL) as u64
            && known.acknowledge == asked.acknowledged;
        if !is_it || known.fate.admitted.is_some() {
            let what = format!("p{me} admits {asked:?} as request {request}: {known:?}");
            self.fail(Law::Fate, what);
            return false;
        }
        true
    }

    /// A request was admitted or refused.
    pub(crate) fn admitted(&mut self, link: usize, request: usize, fate: Result<Hold, Status>) {
        let (me, initiator) = (self.links[link].from, self.links[link].to);
        let known = &mut self.processes[initiator].requests[request];
        known.fate.admitted = Some(fate);
        let (kind, long) = (known.kind, known.long);
        let stats = &mut self.stats;
        *match (kind, long) {
            (Kind::Put, false) => &mut stats.short_puts,
            (Kind::Put, true) => &mut stats.long_puts,
            (Kind::Get, false) => &mut stats.short_gets,
            (Kind::Get, true) => &mut stats.long_gets,
            _ => &mut stats.exchanges,
        } += 1;
        stats.refused += u64::from(fate.is_err());
        self.note(|_| format!("p{me} admits p{initiator}'s {kind:?} {request}: {fate:?}"));
    }

    /// Laws 1 and 4: a request ends once at its target.
    pub(crate) fn ended(&mut self, link: usize, hold: &Hold, status: Status) {
        let (me, initiator) = (self.links[link].from, self.links[link].to);
        let request = hold.request;
        self.note(|_| format!("p{me} ends p{initiator}'s request {request}: {status:?}"));
        let fate = &mut self.processes[initiator].requests[request].fate;
        if fate.admitted != Some(Ok(*hold)) || fate.ended.is_some() {
            let what = format!("p{me} ends p{initiator}'s request {request} twice: {fate:?}");
            self.fail(Law::Fate, what);
            return;
        }
        fate.ended = Some(status);
        if status == Status::Ok {
            self.processes[me].buffers[hold.buffer].count += 1;
        }
    }

    /// The bytes that are moved are those that were granted.
    pub(crate) fn check_length(&mut self, hold: &Hold, bytes: usize) {
        if bytes != hold.cells * CELL {
            self.fail(Law::Range, format!("{bytes} bytes are moved of {hold:?}"));
        }
    }

    /// Law 4: a cell may be touched. It is where it lies.
    fn check_held(&mut self, me: usize, hold: &Hold, at: usize) -> Option<usize> {
        let fate = self.processes[hold.initiator].requests[hold.request].fate;
        let process = &self.processes[me];
        let buffer = &process.buffers[hold.buffer];
        let cell = hold.first + at;
        let inside = at < hold.cells && cell < buffer.first + buffer.cells;
        let is_there = buffer.registered && buffer.generation == hold.generation;
        let is_held = fate.admitted == Some(Ok(*hold)) && fate.ended.is_none();
        if process.dead || !inside || !is_there || !is_held {
            let what = format!("p{me}: cell {at} of {hold:?} is touched: {fate:?}, {buffer:?}");
            self.fail(Law::Range, what);
            return None;
        }
        Some(cell)
    }

    /// A cell of a target's memory is written.
    pub(crate) fn write_held(&mut self, me: usize, hold: &Hold, at: usize, value: u32) {
        if self.check_held(me, hold, at).is_some() {
            self.put_cell(me, hold, at, value);
        }
    }

    /// A cell that may be touched is written. Laws 1, 3 and 5.
    pub(crate) fn put_cell(&mut self, me: usize, hold: &Hold, at: usize, value: u32) {
        let (cell, initiator) = (hold.first + at, hold.initiator);
        if value != value_of(initiator, hold.request, at) {
            let late = value == SCRIBBLE || value == EMPTY;
            let law = if late { Law::Local } else { Law::Fate };
            self.fail(
                law,
                format!("p{me}: {value:#x} is written at {at} of {hold:?}"),
            );
            return;
        }
        let requests = &self.processes[initiator].requests;
        if is_ordered(&requests[hold.request]) {
            let later = self.processes[me].history[cell].iter().rev().find(|then| {
                let (by, request) = owner(then.1);
                by == initiator && request > hold.request && is_ordered(&requests[request])
            });
            if let Some(later) = later {
                let what = format!("p{me}: cell {at} of {hold:?} is written behind {later:x?}");
                self.fail(Law::Address, what);
                return;
            }
        }
        let now = self.now;
        let process = &mut self.processes[me];
        process.cells[cell] = value;
        process.history[cell].push((now, value));
    }

    /// A cell of a target's memory is read.
    pub(crate) fn read_held(&mut self, me: usize, hold: &Hold, at: usize) -> u32 {
        let cell = self.check_held(me, hold, at);
        cell.map_or(EMPTY, |cell| self.processes[me].cells[cell])
    }

    /// Law 5: a cell of an initiator's memory may be touched for a request. It is where it lies.
    pub(crate) fn own_memory(&mut self, me: usize, request: usize, at: usize) -> Option<usize> {
        let process = &self.processes[me];
        let known = &process.requests[request];
        let buffer = &process.buffers[known.buffer];
        let lives = buffer.request == Some(request) && known.done.is_none();
        if process.dead || !lives || at >= known.cells {
            let what = format!("p{me}: cell {at} for request {request} is touched: {known:?}");
            self.fail(Law::Local, what);
            return None;
        }
        Some(buffer.first + at)
    }

    /// Laws 10 and 12: a message may be sent.
    pub(crate) fn check_sent(&mut self, at: usize, header: &Header) {
        let back = self.back(at);
        let receives = u64::from(self.links[back].config.receives);
        let requests = u64::from(self.links[back].config.requests);
        let link = &mut self.links[at];
        let (from, to) = (link.from, link.to);
        let tally = &mut link.tally;
        let have = (receives + tally.returned_in).saturating_sub(tally.sent);
        tally.sent += 1;
        tally.returned_out += u64::from(header.returned);
        tally.asked += u64::from(is_answered(header));
        tally.unanswered -= u64::from(header.kind == Kind::Response);
        let tally = *tally;
        let least = if header.kind == Kind::Credits { 1 } else { 2 };
        if have < least || tally.returned_out > tally.taken {
            let what = format!("p{from} to p{to}, {have} credits: {header:?}, {tally:?}");
            self.fail(Law::Credits, what);
        }
        if tally.asked > requests {
            self.fail(Law::Bound, format!("p{from} to p{to}: {tally:?}"));
        }
        self.stats.credits += u64::from(header.kind == Kind::Credits);
        self.note(|_| {
            let Header { kind, request, .. } = *header;
            let returned = header.returned;
            format!("p{from} to p{to}: {kind:?} {request} returns {returned}, had {have} credits")
        });
    }

    /// Laws 10 and 12: a put by a lease may take a receive.
    pub(crate) fn check_immediate(&mut self, at: usize) {
        let back = self.back(at);
        let receives = u64::from(self.links[back].config.receives);
        let link = &mut self.links[at];
        let tally = &mut link.tally;
        let have = (receives + tally.returned_in).saturating_sub(tally.sent);
        tally.sent += 1;
        if have < 2 {
            let what = format!("p{}, a put by a lease with {have} credits", link.from);
            self.fail(Law::Credits, what);
        }
    }

    /// What a planted fault says of receives in place of `returned`: those of messages that were
    /// sent and not looked at, too, as if they had been carried out.
    pub(crate) fn forge_credits(&mut self, at: usize, returned: u16) -> u16 {
        let back = self.back(at);
        let there = &self.links[back];
        let takes = |packet: &&Packet| packet.direct.is_none();
        let flying = there.flying.iter().filter(takes).count();
        let early = (there.arrived.len() + flying) as u16;
        let link = &mut self.links[at];
        // what was given back too early is not given back again
        let says = (returned + early).saturating_sub(link.forged);
        link.forged = link.forged + says - returned;
        says
    }

    /// An operation on a buffer has ended. Law 9.
    pub(crate) fn release(
        &mut self,
        me: usize,
        buffer: usize,
        direction: Direction,
        end: Option<(Status, u64)>,
    ) {
        let told_direction = match (self.plant, direction) {
            (Some(Plant::DirectionSwapped), Direction::Incoming) => Direction::Outgoing,
            (Some(Plant::DirectionSwapped), Direction::Outgoing) => Direction::Incoming,
            _ => direction,
        };
        let process = &mut self.processes[me];
        let tag = process.buffers[buffer].tag;
        process.tags.release(tag, told_direction, end);
        let bound = &mut process.buffers[buffer].bound;
        let fires = |bound: &mut (Direction, Note)| bound.0 == direction;
        let due = end.and_then(|end| bound.take_if(fires).map(|(_, note)| (note, end)));
        let told = process.tags.next_told();
        let found = told.map(|told| (told.note, (told.status, told.length)));
        let again = found
            .is_some_and(|(note, _)| std::mem::replace(&mut process.fired[note.0 as usize], true));
        if found != due || again || process.tags.next_told().is_some() {
            let what = format!("p{me}, buffer {buffer}: {found:?} fires, due is {due:?}");
            self.fail(Law::Notification, what);
            return;
        }
        if let Some((note, _)) = found {
            self.stats.notes += 1;
            self.note(|_| format!("p{me}: {note:?} fires"));
            if self.plant == Some(Plant::NotificationKept) {
                // an error means that it is not kept
                let _ = self.processes[me].tags.bind(tag, direction, note);
            }
        }
    }

    /// A request has ended at its initiator. Laws 1, 3 and 11.
    pub(crate) fn done(&mut self, link: usize, request: usize, answer: Answer) {
        let (me, target) = (self.links[link].from, self.links[link].to);
        self.note(|_| format!("p{me} is told of its request {request} to p{target}: {answer:?}"));
        let told_lost = self.links[link].told_lost;
        let known = &mut self.processes[me].requests[request];
        if known.done.replace(answer).is_some() || !known.answered {
            self.fail(Law::Fate, format!("p{me}: request {request} ends twice"));
            return;
        }
        let (kind, long, buffer) = (known.kind, known.long, known.buffer);
        let (fate, cells) = (known.fate, known.cells);
        if answer.status == Status::Undeliverable {
            self.stats.undeliverable += 1;
            if !told_lost {
                self.fail(Law::Wake, format!("p{me}: request {request}, no loss"));
            }
        } else {
            let says = match (fate.admitted, fate.ended) {
                (Some(Err(why)), None) => Some((why, 0)),
                (Some(Ok(hold)), Some(Status::Ok)) => Some((Status::Ok, hold.cells)),
                (Some(Ok(_)), Some(why)) => Some((why, 0)),
                _ => None,
            };
            let answered = (answer.status, answer.length as usize / CELL);
            let is_ok = answer.status == Status::Ok;
            let details = !is_ok || (answer.offset, answer.tag) == (fate.offset, fate.tag);
            if says != Some(answered) || !details {
                let what = format!("p{me}, request {request}: {answer:?}, {fate:?}");
                self.fail(Law::Fate, what);
            }
            if let (true, Some(Ok(hold))) = (is_ok, fate.admitted) {
                match kind {
                    Kind::Put => self.check_put(target, &hold),
                    _ => self.check_brought(target, &hold, cells),
                }
            }
        }
        if kind != Kind::Put || long {
            let end = Some((answer.status, answer.length));
            self.give_back(me, buffer, kind, end);
        }
    }

    /// An own buffer is its program's again, which writes into it at once.
    pub(crate) fn give_back(
        &mut self,
        me: usize,
        buffer: usize,
        kind: Kind,
        end: Option<(Status, u64)>,
    ) {
        let process = &mut self.processes[me];
        process.buffers[buffer].request = None;
        process.buffers[buffer].held -= 1;
        process.fill(buffer, |_| SCRIBBLE);
        self.release(me, buffer, Direction::of_own(kind), end);
    }

    /// Law 1: the bytes of a put are where they belong.
    pub(crate) fn check_put(&mut self, target: usize, hold: &Hold) {
        for at in 0..hold.cells {
            let value = value_of(hold.initiator, hold.request, at);
            let history = &self.processes[target].history[hold.first + at];
            let times = history.iter().filter(|then| then.1 == value).count();
            if times != 1 {
                let what = format!("cell {at} of {hold:?} was written {times} times");
                self.fail(Law::Fate, what);
                return;
            }
        }
    }

    /// Laws 1 and 3: what a get has brought was there while the get was under way, and fits between
    /// the short puts before and behind it.
    fn check_brought(&mut self, target: usize, hold: &Hold, cells: usize) {
        let (me, request) = (hold.initiator, hold.request);
        let known = &self.processes[me].requests[request];
        let buffer = &self.processes[me].buffers[known.buffer];
        let (first, begun) = (buffer.first, known.begun);
        let is_short = (!known.long || known.direct) && cells <= ORDERED_GET;
        for at in 0..cells {
            let value = self.processes[me].cells[first + at];
            if at >= hold.cells {
                if value != EMPTY {
                    self.fail(Law::Local, format!("{value:#x} lies behind {hold:?}"));
                }
                continue;
            }
            let history = &self.processes[target].history[hold.first + at];
            let Some(index) = history.iter().rposition(|then| then.1 == value) else {
                self.fail(Law::Fate, format!("{value:#x} is brought for {hold:?}"));
                return;
            };
            // of an exchange the own value follows
            let until = history.get(index + 1).map(|then| then.0);
            if until.is_some_and(|until| until < begun) {
                self.fail(Law::Address, format!("{value:#x} is too old for {hold:?}"));
                return;
            }
            let requests = &self.processes[me].requests;
            let misplaced = history.iter().enumerate().any(|(when, then)| {
                let (by, other) = owner(then.1);
                let crosses = other < request && when > index || other > request && when <= index;
                by == me && crosses && is_ordered(&requests[other])
            });
            if is_short && misplaced {
                let what = format!("{value:#x} is brought for {hold:?}: {history:x?}");
                self.fail(Law::Address, what);
                return;
            }
        }
    }
}

/// Who has written a value: a process, or more than any process for what was there first; and by
/// which request.
pub(crate) const fn owner(value: u32) -> (usize, usize) {
    ((value >> 28) as usize, (value >> 12 & 0xffff) as usize)
}
