//! What goes wrong in a run: connections that fail, processes that stop for long or die.
//!
//! Owns: when, and what of the wire is left then. Must not know: what must hold.

use crate::Plant;
use crate::link::Standing;
use crate::world::World;

/// What goes wrong, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// The connection between two processes fails.
    Fails(usize, usize),
    /// It fails when next an operation by a lease is on its way from the first to the second.
    FailsDirect(usize, usize),
    /// A process dies.
    Dies(usize),
    /// A process is stopped for so many steps.
    Stops(usize, u64),
}

impl World {
    /// What goes wrong in this run.
    pub(crate) fn plan(&mut self) {
        let count = self.rng.pick(&[0, 0, 1, 1, 2, 4]);
        let latest = self.rng.pick(&[100, 500, 1500]);
        let processes = self.processes.len();
        for _ in 0..count {
            let (process, when) = (self.rng.index(processes), self.rng.below(latest));
            let other = (process + 1 + self.rng.index(processes - 1)) % processes;
            let trouble = match self.rng.below(10) {
                0..=2 => Trouble::Fails(process, other),
                3..=4 => Trouble::FailsDirect(process, other),
                5 => Trouble::Dies(process),
                _ => Trouble::Stops(process, self.rng.pick(&[20, 300, 3000])),
            };
            self.troubles.push((when, trouble));
        }
    }

    /// What the plan has for this step.
    pub(crate) fn strike(&mut self) {
        let now = self.now;
        while let Some(at) = self
            .troubles
            .iter()
            .position(|(when, trouble)| *when <= now && self.may_strike(trouble))
        {
            let (_, trouble) = self.troubles.swap_remove(at);
            self.note(|_| format!("{trouble:?}"));
            match trouble {
                Trouble::Fails(one, other) | Trouble::FailsDirect(one, other) => {
                    let at = self.link(one, other);
                    self.stats.losses += u64::from(self.links[at].standing == Standing::Joined);
                    self.lose(at);
                }
                Trouble::Stops(process, steps) => {
                    self.stats.stops += 1;
                    self.processes[process].stopped_until = now + steps;
                }
                Trouble::Dies(process) => {
                    self.stats.deaths += u64::from(!self.processes[process].dead);
                    self.processes[process].dead = true;
                    for at in self.sides_of(process).collect::<Vec<_>>() {
                        self.lose(at);
                    }
                }
            }
        }
    }

    fn may_strike(&self, trouble: &Trouble) -> bool {
        match trouble {
            Trouble::FailsDirect(from, to) => {
                let flying = &self.links[self.link(*from, *to)].flying;
                flying.iter().any(|packet| packet.direct.is_some())
            }
            _ => true,
        }
    }

    /// A connection fails: of the messages of either side some have still landed, RDMA ends where
    /// it is, and each side hears of it in its own time.
    fn lose(&mut self, at: usize) {
        for at in [at, self.back(at)] {
            if self.links[at].failed || self.links[at].standing != Standing::Joined {
                continue;
            }
            let landing = self.rng.index(self.links[at].flying.len() + 1);
            for _ in 0..landing {
                // a dead process's memory is touched by nobody
                let front = self.links[at].flying.front();
                let direct = front.is_some_and(|packet| packet.direct.is_some());
                let ends = [self.links[at].from, self.links[at].to];
                let dead = ends.iter().any(|end| self.processes[*end].dead);
                if self.may_land(at) && !(direct && dead) {
                    self.land(at);
                }
            }
            let after = self.rng.pick(&[0, 10, 300, 2000]);
            let goes_on = self.plant == Some(Plant::DirectAfterLoss);
            let link = &mut self.links[at];
            link.flying
                .retain(|packet| goes_on && packet.direct.is_some());
            link.failed = true;
            link.heard_from = self.now + after;
        }
    }

    /// Processes are woken that a failure reaches.
    pub(crate) fn tell_failures(&mut self) {
        for at in 0..self.links.len() {
            let link = &self.links[at];
            if link.failed && link.heard_from <= self.now {
                self.wake(link.from);
            }
        }
    }
}
