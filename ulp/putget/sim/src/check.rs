//! What must hold when nothing can go on, and at the end of a run.
//!
//! Owns: the laws 1, 4, 10, 11 and 12 at rest. Must not know: the steps that led there.

use crate::Law;
use crate::world::World;
use ferriband_putget_proto::{Kind, Status};

impl World {
    /// A request was told *full*: there is a reason. Laws 10 and 11.
    pub(crate) fn check_full(&mut self, at: usize) {
        let back = self.back(at);
        let peer = self.links[back].config;
        let link = &self.links[at];
        let tally = link.tally;
        let have = u64::from(peer.receives) + tally.returned_in - tally.sent;
        let requests = tally.asked >= u64::from(peer.requests);
        if have > 1 && !requests && tally.unanswered == 0 {
            self.fail(Law::Wake, format!("full with {have} credits, {tally:?}"));
            return;
        }
        if !self.links[at].machine().waits_for_all() {
            self.fail(Law::Wake, "full, and nothing is waited for");
        }
    }

    /// Law 11: nobody waits when nothing can go on.
    pub(crate) fn check_rest(&mut self) {
        for me in 0..self.processes.len() {
            let process = &self.processes[me];
            if process.dead {
                continue;
            }
            if process.program.left > 0 {
                let (left, wait) = (process.program.left, process.program.wait);
                let what = format!("p{me} waits for {wait:?} for ever, {left} steps are left");
                self.fail(Law::Wake, what);
                return;
            }
            for at in self.sides_of(me).collect::<Vec<_>>() {
                let link = &self.links[at];
                let to = link.to;
                if link.failed && !link.told_lost {
                    self.fail(
                        Law::Wake,
                        format!("p{me} has not heard of the loss of p{to}"),
                    );
                } else if !link.direct_over.is_empty() && link.machine().waits_for_direct() {
                    let what = format!("p{me} does not hear of {:?}", link.direct_over);
                    self.fail(Law::Wake, what);
                } else if !link.failed && link.machine().waits_for_all() {
                    let what = format!("p{me} waits for p{to}: {:?}", link.machine());
                    self.fail(Law::Wake, what);
                }
            }
        }
    }

    /// Everybody has looked at everything.
    pub(crate) fn check_end(&mut self) {
        for at in 0..self.links.len() {
            self.check_link(at);
        }
        for me in 0..self.processes.len() {
            for request in 0..self.processes[me].requests.len() {
                self.check_request(me, request);
            }
            self.check_counters(me);
            let process = &self.processes[me];
            let held = process.buffers.iter().find(|buffer| buffer.held > 0);
            if let (false, Some(held)) = (process.dead, held) {
                self.fail(Law::Fate, format!("p{me}: {held:?} is held for ever"));
            }
            self.check_memory(me);
        }
    }

    /// Law 7: buffers have counted each request that was carried out there, once.
    fn check_counters(&mut self, me: usize) {
        if self.processes[me].dead {
            return;
        }
        for at in 0..crate::process::SHARED {
            let buffer = &self.processes[me].buffers[at];
            let is_here = |request: &&crate::process::Request| {
                let hold = request.fate.admitted.and_then(Result::ok);
                let here = hold
                    .is_some_and(|hold| (hold.buffer, hold.generation) == (at, buffer.generation));
                request.target == me && here && request.fate.ended == Some(Status::Ok)
            };
            let requests = self.processes.iter().flat_map(|process| &process.requests);
            let due = requests.filter(is_here).count() as u64;
            if buffer.counts && buffer.registered && buffer.count != due {
                let what = format!("p{me}, buffer {at} has counted {}, not {due}", buffer.count);
                self.fail(Law::Counter, what);
                return;
            }
        }
    }

    /// Law 12 at rest, and nothing is under way.
    fn check_link(&mut self, at: usize) {
        let link = &self.links[at];
        let back = &self.links[self.back(at)];
        if link.failed {
            return;
        }
        let due = back.tally.taken - back.tally.returned_out;
        let conserved = link.tally.returned_in == back.tally.returned_out
            && link.tally.sent == back.tally.taken
            && due < u64::from(back.config.receives / 2);
        let over = link.jobs.is_empty() && link.completions.is_empty() && link.begun.is_empty();
        let over = over && link.answering.is_empty() && link.direct_over.is_empty();
        let (from, to) = (link.from, link.to);
        if !conserved {
            let what = format!("p{from}: {:?}, p{to}: {:?}", link.tally, back.tally);
            self.fail(Law::Credits, what);
        } else if !over || link.receives != back.config.receives || !link.machine().is_quiet() {
            self.fail(
                Law::Wake,
                format!("p{from} towards p{to} is not over: {link:?}"),
            );
        }
    }

    /// Laws 1 and 11: a request is over at both ends.
    fn check_request(&mut self, me: usize, at: usize) {
        let request = &self.processes[me].requests[at];
        let (target, fate) = (request.target, request.fate);
        let lost = self.links[self.link(me, target)].failed;
        let ended = match fate.admitted {
            Some(Ok(_)) => fate.ended.is_some(),
            Some(Err(_)) => true,
            None => lost,
        };
        let told = !request.answered || request.done.is_some();
        let (me_dead, target_dead) = (self.processes[me].dead, self.processes[target].dead);
        if !me_dead && !told || !target_dead && !ended {
            let what = format!("p{me}'s request {at} has no end: {request:?}");
            self.fail(Law::Fate, what);
            return;
        }
        let puts = request.kind == Kind::Put || request.kind == Kind::Exchange;
        if let (true, Some(Ok(hold)), Some(Status::Ok)) = (puts, fate.admitted, fate.ended) {
            self.check_put(target, &hold);
        }
    }

    /// Laws 1 and 4: each cell has the value that it was given last, and what lies between buffers
    /// was never touched.
    fn check_memory(&mut self, me: usize) {
        let process = &self.processes[me];
        for (cell, value) in process.cells.iter().enumerate() {
            let buffer = process.buffer_at(cell);
            let due = match buffer {
                Some(at) if at < crate::process::SHARED => process.history[cell].last(),
                Some(_) => continue,
                None => Some(&(0, crate::process::SCRIBBLE)),
            };
            if due.map(|due| due.1) != Some(*value) {
                let what = format!("p{me}: cell {cell} of {buffer:?} has {value:#x}, not {due:x?}");
                self.fail(Law::Range, what);
                return;
            }
        }
    }
}
