//! What must hold when nothing can go on, and at the end of a run.
//!
//! Owns: law 11, and of the others that nothing is missing. Must not know: the steps that led
//! there.

use crate::Law;
use crate::events::untaken_of;
use crate::link::{Packet, Standing};
use crate::process::Op;
use crate::world::World;
use ferriband_portals_proto::PtlError;

/// Events that a queue has room for in any run.
const ROOMY: usize = 1000;

impl World {
    /// Law 11: nobody waits when nothing can go on.
    pub(crate) fn check_rest(&mut self) {
        for at in 0..self.links.len() {
            let link = &self.links[at];
            let (from, to) = (link.from, link.to);
            if self.processes[from].dead {
                continue;
            }
            let waits = link
                .machine
                .as_ref()
                .is_some_and(|machine| machine.waits_for_all() || machine.waits_for_direct());
            if link.failed {
                let what = format!("p{from} has not heard of the loss of p{to}");
                self.fail(Law::Wake, what);
            } else if link.standing == Standing::Asking || waits {
                let what = format!(
                    "p{from} waits for p{to}: {:?}, {:?}",
                    link.standing, link.machine
                );
                self.fail(Law::Wake, what);
            }
        }
        let told = |packet: &Packet| packet.solicited;
        for at in 0..self.links.len() {
            let (link, back) = (&self.links[at], &self.links[self.back(at)]);
            let (from, to) = (link.from, link.to);
            let arrived = back.arrived.iter().any(told);
            if !self.processes[from].dead && (arrived || !link.completions.is_empty()) {
                let what = format!("p{from} sleeps beside what has come of p{to}");
                self.fail(Law::Wake, what);
            }
        }
        for op in 0..self.ops.len() {
            self.check_op(op);
        }
        for me in 0..self.processes.len() {
            let program = self.processes[me].program;
            if !self.processes[me].dead && (program.left > 0 || program.wait.is_some()) {
                self.fail(Law::Wake, format!("p{me} goes no further: {program:?}"));
            }
        }
    }

    /// Everybody has looked at everything.
    pub(crate) fn check_end(&mut self) {
        for at in 0..self.links.len() {
            let link = &self.links[at];
            let over = link.jobs.is_empty() && link.completions.is_empty() && link.directs() == 0;
            let quiet = link
                .machine
                .as_ref()
                .is_none_or(|machine| machine.is_quiet());
            let gone = self.processes[link.from].dead || link.failed;
            if !gone && (!over || !quiet) {
                let what = format!("p{} towards p{} is not over: {link:?}", link.from, link.to);
                self.fail(Law::Wake, what);
            }
        }
        for op in 0..self.ops.len() {
            self.check_op(op);
        }
        for me in 0..self.processes.len() {
            if self.violation.is_some() {
                return;
            }
            if !self.processes[me].portals.memory.is_whole() {
                self.fail(
                    Law::Range,
                    format!("p{me}: a byte between two ranges was touched"),
                );
            }
            if self.processes[me].dead {
                continue;
            }
            for ni in 0..4 {
                if self.processes[me].nis[ni].is_some() && self.violation.is_none() {
                    self.check_ni(me, ni);
                }
            }
            self.check_counters(me);
            self.tidy(me);
            if self.violation.is_none() && !self.processes[me].portals.rests() {
                self.fail(
                    Law::Wake,
                    format!("p{me}: an operation is under way for ever"),
                );
            }
        }
    }

    /// Laws 7 and 11: an operation is over at both ends.
    fn check_op(&mut self, number: usize) {
        let op = &self.ops[number];
        let Op {
            me,
            target,
            begun,
            started,
            over,
            trigger,
            ..
        } = *op;
        let (me_dead, target_dead) = (self.processes[me].dead, self.processes[target].dead);
        if !me_dead && begun && !over {
            let law = if trigger.is_some() && !started {
                Law::Count
            } else {
                Law::Wake
            };
            let what =
                format!("p{me}: {number} towards p{target} has no end, started: {started}: {op:?}");
            self.fail(law, what);
        } else if !target_dead && matches!(op.fate.admitted, Some(Ok(_))) && op.fate.ended.is_none()
        {
            let what = format!("p{target}: {number} of p{me} is held for ever: {op:?}");
            self.fail(Law::Wake, what);
        }
    }

    /// All events that are due are there.
    fn check_ni(&mut self, me: usize, ni: usize) {
        for eq in 0..self.processes[me].ni(ni).queues.len() {
            self.take_of(me, ni, eq, usize::MAX);
        }
        let operations = self.interface(me, ni).operations();
        if operations > 0 {
            self.fail(
                Law::Wake,
                format!("p{me}: {operations} operations of {ni} are under way for ever"),
            );
        }
        let state = self.processes[me].ni(ni);
        let is_whole = |eq: Option<usize>| {
            let queue = eq.map(|eq| &state.queues[eq]);
            queue.is_some_and(|queue| queue.capacity >= ROOMY && !queue.dropped)
        };
        let mut missing = None;
        for (number, op) in self.ops.iter().enumerate() {
            let own = op.put.or(op.get).filter(|_| (op.me, op.ni) == (me, ni));
            let found = untaken_of(op).into_iter().find(|untaken| untaken.1);
            if let (Some((event, _)), true) = (found, is_whole(own.and_then(|own| own.eq))) {
                let both = op.get.is_none_or(|get| is_whole(get.eq));
                missing = missing.or(both.then(|| (Law::Fate, format!("{event} of {number}"))));
            }
            let lies = (op.target, op.ni) == (me, ni);
            if lies
                && (op.completion.due.is_some() || op.overflow.due.is_some())
                && is_whole(state.tables[op.pt].eq)
            {
                let what = format!(
                    "an event of {number} of p{}, {:?} {:?}",
                    op.me, op.completion, op.overflow
                );
                missing = missing.or(Some((Law::Fate, what)));
            }
        }
        for (number, entry) in state.entries.iter().enumerate() {
            let ends = entry.unlink.due.is_some() || entry.free.due.is_some();
            if (ends || entry.link.due.is_some()) && is_whole(state.tables[entry.pt].eq) {
                let law = if ends { Law::End } else { Law::Once };
                missing = missing.or(Some((
                    law,
                    format!("an event of entry {number}: {entry:?}"),
                )));
            }
        }
        if let Some(table) = state.tables.iter().find(|table| table.disabled) {
            missing = missing.or(Some((
                Law::Disabled,
                format!("PT_DISABLED of {}", table.index),
            )));
        }
        if let Some((law, what)) = missing {
            self.fail(law, format!("p{me}: {what} is never told"));
        }
        for pt in 0..state_tables(self, me, ni) {
            let table = &self.processes[me].ni(ni).tables[pt];
            let (index, active) = (table.index, table.active);
            let quiet: Result<bool, PtlError> = self.interface(me, ni).pt_is_quiet(index);
            if quiet != Ok(active == 0) || active > 0 {
                self.fail(
                    Law::Wake,
                    format!("p{me}: {ni}/{index} is quiet: {quiet:?}, {active} are under way"),
                );
            }
        }
    }
}

fn state_tables(world: &World, me: usize, ni: usize) -> usize {
    world.processes[me].ni(ni).tables.len()
}
