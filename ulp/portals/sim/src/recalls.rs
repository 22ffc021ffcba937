//! Calls of a program that wait until leases have come back: unlinking, and disabling a table
//! entry.
//!
//! Owns: when such a call returns, and that its program does nothing meanwhile. Must not know: who
//! holds leases.

use crate::Plant;
use crate::edge::Edge;
use crate::world::World;
use ferriband_portals_process::{Recall, recall};

/// A call that waits for leases to come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wait {
    /// Of this interface,
    pub ni: usize,
    pub call: Call,
    /// and ends without success then.
    pub gives_up: Option<u64>,
}

/// What a program has called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    /// PtlLEUnlink, PtlMEUnlink of an entry.
    Unlink(usize),
    /// PtlPTDisable of a table entry.
    Disable(usize),
}

impl World {
    /// What a call has called back.
    fn recall_of(&self, me: usize, wait: &Wait) -> Recall {
        let ni = self.processes[me].ni(wait.ni);
        match wait.call {
            Call::Unlink(entry) => Recall::Entry(ni.entries[entry].handle),
            Call::Disable(pt) => Recall::Table(wait.ni as u8, ni.tables[pt].index),
        }
    }

    /// Whether what a call waits for is there.
    pub(crate) fn is_back(&self, me: usize, wait: &Wait) -> bool {
        let portals = &self.processes[me].portals;
        let is_quiet = match wait.call {
            Call::Unlink(_) if self.plant == Some(Plant::UnlinkUnawaited) => return true,
            Call::Unlink(_) => true,
            Call::Disable(pt) => {
                let index = self.processes[me].ni(wait.ni).tables[pt].index;
                let ni = portals.interfaces[wait.ni].as_ref();
                ni.is_some_and(|ni| ni.interface.pt_is_quiet(index) == Ok(true))
            }
        };
        let kept = self.plant == Some(Plant::LeaseKept);
        is_quiet && (kept || portals.is_back(self.recall_of(me, wait)))
    }

    /// A call calls back what is lent of what it takes away, and returns if nothing is. Laws 4 and
    /// 8.
    pub(crate) fn call_back(&mut self, me: usize, ni: usize, call: Call) {
        let mut wait = Wait {
            ni,
            call,
            gives_up: None,
        };
        if let Call::Unlink(_) = call {
            let what = self.recall_of(me, &wait);
            recall(&mut Edge { world: self, me }, what);
            if self.rng.chance(50) {
                wait.gives_up = Some(self.now + self.rng.pick(&[10, 100, 1000]));
            }
        }
        if self.is_back(me, &wait) {
            return self.return_from(me, wait);
        }
        self.stats.recalls += 1;
        self.note(|_| format!("p{me} waits: {wait:?}"));
        self.processes[me].program.wait = Some(wait);
    }

    /// The call returns.
    pub(crate) fn return_from(&mut self, me: usize, wait: Wait) {
        let is_back = self.is_back(me, &wait);
        self.processes[me].program.wait = None;
        match wait.call {
            Call::Unlink(entry) => {
                let recall = self.recall_of(me, &wait);
                if is_back {
                    self.unlink(me, wait.ni, entry);
                } else {
                    self.stats.given_up += 1;
                    self.note(|_| format!("p{me} does not wait any longer to unlink {entry}"));
                }
                self.processes[me].portals.recalled(recall);
            }
            Call::Disable(pt) => {
                self.note(|_| format!("p{me} has disabled {}/{pt}", wait.ni));
                self.processes[me].ni_mut(wait.ni).tables[pt].disabling = false;
            }
        }
    }
}
