//! The processes of an experiment, and what they do together.
//!
//! Owns: their lives, and who is connected with whom: each with the next. Must not know: figures.

use super::worker::{Ends, Found, Job, Part, Side};
use crate::args::ReproWire;
use crate::failure::Failure;
use crate::floor;
use crate::perf::channel::Channel;

/// Processes that wait for jobs.
pub struct Lab {
    workers: Vec<Channel>,
}

/// A chain of neighbours, the first process first.
pub struct Chain {
    /// Parts of its processes, in their order.
    pub parts: Vec<Part>,
}

impl Lab {
    /// Starts so many processes, which reach each other by `wire`.
    pub fn start(processes: usize, wire: ReproWire) -> Result<Lab, Failure> {
        let variables = [("FERRIBAND_WIRE", wire.name())];
        let start = |_| Channel::spawn(["repro-peer"], &variables);
        let workers = (0..processes).map(start);
        Ok(Lab {
            workers: workers.collect::<Result<_, _>>()?,
        })
    }

    /// Connects the processes of each chain, lets all begin at once, and returns what each has
    /// found, chain after chain.
    pub fn run(
        &mut self,
        side: Side,
        spin_us: u64,
        chains: &[Chain],
    ) -> Result<Vec<Vec<Found>>, Failure> {
        let total = chains.iter().map(|chain| chain.parts.len()).sum();
        let workers = &mut self.workers[..total];
        let cores = floor::Affinity::save()?.processors().len();
        let mut jobs = Vec::with_capacity(total);
        for chain in chains {
            let last = chain.parts.len() - 1;
            jobs.extend(chain.parts.iter().enumerate().map(|(index, part)| Job {
                side,
                has_before: index > 0,
                has_behind: index < last,
                spin_us,
                core: (total <= cores).then_some(index),
                part: *part,
            }));
        }
        for (worker, job) in workers.iter_mut().zip(&jobs) {
            worker.say(&Some(job))?;
        }
        let told = workers.iter_mut().map(Channel::hear);
        let told: Vec<Ends> = told.collect::<Result<_, _>>()?;
        for (index, worker) in workers.iter_mut().enumerate() {
            let job = &jobs[index];
            worker.say(&Ends {
                before: job.has_before.then(|| told[index - 1].behind).flatten(),
                behind: job.has_behind.then(|| told[index + 1].before).flatten(),
            })?;
        }
        // a barrier of all
        workers.iter_mut().try_for_each(Channel::hear::<()>)?;
        workers.iter_mut().try_for_each(|worker| worker.say(&()))?;
        let found = workers.iter_mut().map(Channel::hear);
        let found: Vec<Found> = found.collect::<Result<_, _>>()?;
        workers.iter_mut().try_for_each(|worker| worker.say(&()))?;
        let mut found = found.into_iter();
        let of_chain = |chain: &Chain| found.by_ref().take(chain.parts.len()).collect();
        Ok(chains.iter().map(of_chain).collect())
    }

    /// Ends the processes.
    pub fn finish(self) -> Result<(), Failure> {
        for mut worker in self.workers {
            worker.say(&None::<Job>)?;
            worker.finish()?;
        }
        Ok(())
    }
}
