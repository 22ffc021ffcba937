//! What goes wrong in a run: connections that fail, processes that stop for long or die.
//!
//! Owns: when, and what of the wire is left then. Must not know: what must hold.

use crate::world::World;

/// What goes wrong, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// The connection between two processes fails.
    Fails(usize, usize),
    /// A process dies.
    Dies(usize),
    /// A process is stopped for so many steps.
    Stops(usize, u64),
}

impl World {
    /// What goes wrong in this run.
    pub(crate) fn plan(&mut self) {
        let count = self.rng.pick(&[0, 0, 1, 1, 2, 4]);
        let latest = self.rng.pick(&[50, 300, 1000]);
        for _ in 0..count {
            let (process, when) = (self.rng.index(self.processes.len()), self.rng.below(latest));
            let other =
                (process + 1 + self.rng.index(self.processes.len() - 1)) % self.processes.len();
            let trouble = match self.rng.below(10) {
                0..=3 => Trouble::Fails(process, other),
                4..=5 => Trouble::Dies(process),
                _ => Trouble::Stops(process, self.rng.pick(&[20, 500, 5000])),
            };
            self.troubles.push((when, trouble));
        }
    }

    /// What the plan has for this step.
    pub(crate) fn strike(&mut self) {
        let now = self.now;
        while let Some(at) = self.troubles.iter().position(|trouble| trouble.0 <= now) {
            let (_, trouble) = self.troubles.swap_remove(at);
            self.note(|_| format!("{trouble:?}"));
            match trouble {
                Trouble::Fails(one, other) => {
                    let alive = !self.processes[one].dead && !self.processes[other].dead;
                    let at = self.link(one, other);
                    if alive && !self.links[at].failed {
                        self.stats.losses += 1;
                        self.lose(at);
                    }
                }
                Trouble::Stops(process, steps) => {
                    self.stats.stops += 1;
                    self.processes[process].stopped_until = now + steps;
                }
                Trouble::Dies(process) => {
                    self.stats.deaths += u64::from(!self.processes[process].dead);
                    self.processes[process].dead = true;
                    for to in (0..self.processes.len()).filter(|to| *to != process) {
                        let at = self.link(process, to);
                        self.lose(at);
                    }
                }
            }
        }
    }

    /// A connection fails: of the messages of either side some have still landed, RDMA ends where
    /// it is, and each side hears of it in its own time.
    fn lose(&mut self, at: usize) {
        for at in [at, self.back(at)] {
            if self.links[at].failed {
                continue;
            }
            let landing = self.rng.index(self.links[at].flying.len() + 1);
            for _ in 0..landing {
                // a dead process's memory is read by nobody
                let front = self.links[at].flying.front();
                let direct = front.is_some_and(|packet| packet.direct.is_some());
                if self.may_land(at) && !(direct && self.processes[self.links[at].from].dead) {
                    self.land(at);
                }
            }
            let after = self.rng.pick(&[0, 10, 300, 3000]);
            let link = &mut self.links[at];
            link.flying.clear();
            link.failed = true;
            link.heard_from = self.now + after;
        }
    }

    /// Processes are woken that a failure reaches.
    pub(crate) fn tell_failures(&mut self) {
        for at in 0..self.links.len() {
            let link = &self.links[at];
            if link.failed && !link.told_lost && link.heard_from <= self.now {
                self.wake(link.from);
            }
        }
    }
}
