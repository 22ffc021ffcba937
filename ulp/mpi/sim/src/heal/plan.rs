//! What the ranks of a run do, and which faults meet them until it is quiet.

use super::rank::Task;
use crate::Rng;
use ferriband_heal::{Ns, PathId};
use ferriband_mpi_proto::fast::{Design, Plan as BlockPlan, SLOT};
use std::collections::VecDeque;

const MICROSECOND: u64 = 1000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const HOUR_NS: u64 = 3600 * SECOND;

/// A fault from outside.
#[derive(Clone, Copy, Debug)]
pub enum Blow {
    /// The queue pair of the first rank to the second goes to error.
    QueuePair(usize, usize),
    /// A path carries nothing from the first rank to the second for so long.
    Path(usize, usize, PathId, u64),
    /// Each queue pair between the two fails as soon as it is connected, until then.
    Storm(usize, usize, Ns),
    /// A rank computes, or is stopped, for so long.
    Away(usize, u64),
    /// A rank's adapter cannot be used for so long.
    Adapter(usize, u64),
    /// A rank dies.
    Kill(usize),
}

/// The world's nature in one run.
pub struct Plan {
    pub ranks: usize,
    pub paths: u8,
    pub programs: Vec<VecDeque<Task>>,
    pub blows: Vec<(Ns, Blow)>,
    /// From here on nothing fails any more.
    pub quiet_at: Ns,
    /// The launcher says who lives and who has died; else there is only silence.
    pub has_launcher: bool,
    /// Datagrams lost, doubled and late, of a thousand.
    pub loss: u64,
    pub double: u64,
    pub late: u64,
    /// Messages behind whose arrival a queue pair of either end fails, of a thousand.
    pub breaks: u64,
    /// Attempts of a verb that fail, of a thousand.
    pub refusals: u64,
    /// Messages for which there is no memory, of a thousand.
    pub no_memory: u64,
    /// Messages that may be unacknowledged.
    pub window: u32,
    /// Bytes that may be.
    pub log_bytes: u64,
    /// Long messages that are to come by the lane, of a thousand, and attempts to make one that
    /// fail.
    pub lanes: u64,
    pub lane_refusals: u64,
    /// Blocks for records, and the messages after which one is asked for.
    pub block: BlockPlan,
    pub open_after: u32,
    /// Queue pairs that cannot be destroyed at once, of a thousand.
    pub busy: u64,
    /// Long messages whose memory is not there, of a thousand.
    pub faulty: u64,
    /// Turns in which a receive is given up, of a thousand.
    pub given_up: u64,
    /// How long an adapter tries at most.
    pub tries_ns: u64,
}

impl Plan {
    pub fn new(rng: &mut Rng) -> Self {
        let ranks = 2 + rng.below(3) as usize;
        let has_launcher = rng.chance(800);
        let span = [2 * MILLISECOND, 50 * MILLISECOND, 2 * SECOND, 20 * SECOND];
        let span = span[rng.below(4) as usize];
        let paths = 1 + rng.below(3) as u8;
        let mut plan = Self {
            ranks,
            paths,
            programs: programs(rng, ranks, span),
            blows: Vec::new(),
            quiet_at: Ns(span),
            has_launcher,
            loss: [0, 30, 300][rng.below(3) as usize],
            double: [0, 50, 300][rng.below(3) as usize],
            late: [0, 50, 300][rng.below(3) as usize],
            breaks: [0, 10, 60][rng.below(3) as usize],
            refusals: [0, 0, 30][rng.below(3) as usize],
            no_memory: [0, 50, 400][rng.below(3) as usize],
            window: 4 + rng.below(30) as u32,
            log_bytes: [6_000, 20_000, 256 << 10][rng.below(3) as usize],
            lanes: [0, 500, 900][rng.below(3) as usize],
            lane_refusals: [0, 300][rng.below(2) as usize],
            block: block([3, 3, 3, 0, 1, 2][rng.below(6) as usize]),
            open_after: [1, 1, 4][rng.below(3) as usize],
            busy: [0, 0, 200][rng.below(3) as usize],
            given_up: [0, 0, 2][rng.below(3) as usize],
            faulty: [0, 0, 100][rng.below(3) as usize],
            tries_ns: [5 * MILLISECOND, 300 * MILLISECOND, 4 * SECOND][rng.below(3) as usize],
        };
        for _ in 0..rng.below(14) {
            let early = span.min(MILLISECOND);
            let within = if rng.chance(500) { early } else { span };
            let at = Ns(rng.below(within));
            let blow = plan.blow(rng, at);
            let lasts = match blow {
                Blow::Path(.., for_ns) | Blow::Away(_, for_ns) | Blow::Adapter(_, for_ns) => for_ns,
                Blow::Storm(.., until) => until.since(at),
                Blow::QueuePair(..) | Blow::Kill(_) => 0,
            };
            plan.quiet_at = plan.quiet_at.max(at.after(lasts));
            plan.blows.push((at, blow));
        }
        plan
    }

    fn blow(&self, rng: &mut Rng, at: Ns) -> Blow {
        let one = rng.below(self.ranks as u64) as usize;
        let other = (one + 1 + rng.below(self.ranks as u64 - 1) as usize) % self.ranks;
        let is_dead = self
            .blows
            .iter()
            .any(|(_, blow)| matches!(blow, Blow::Kill(_)));
        let lasting = [MILLISECOND, 100 * MILLISECOND, 3 * SECOND][rng.below(3) as usize];
        let lasting = 1 + rng.below(lasting);
        match rng.below(100) {
            0..48 => Blow::QueuePair(one, other),
            48..60 => Blow::Adapter(one, lasting),
            60..75 => Blow::Path(
                one,
                other,
                PathId(rng.below(self.paths.into()) as u8),
                lasting,
            ),
            75..80 => Blow::Storm(one, other, at.after(rng.below(2 * SECOND))),
            80..97 => {
                let was_hour = |(_, blow): &(Ns, Blow)| matches!(blow, Blow::Away(_, HOUR_NS));
                let may_be = self.has_launcher && !self.blows.iter().any(was_hour);
                let is_hour = may_be && rng.chance(10);
                Blow::Away(one, if is_hour { HOUR_NS } else { lasting })
            }
            _ if is_dead => Blow::QueuePair(one, other),
            _ => Blow::Kill(one),
        }
    }
}

/// Rounds of messages to all, with work between them, and a wait for all at the end of each.
fn programs(rng: &mut Rng, ranks: usize, span: u64) -> Vec<VecDeque<Task>> {
    let mut programs = vec![VecDeque::new(); ranks];
    let mut due = vec![vec![0; ranks]; ranks];
    let rounds = 1 + rng.below(5);
    for _ in 0..rounds {
        for (rank, program) in programs.iter_mut().enumerate() {
            for _ in 0..rng.below(20) {
                let to = (rank + 1 + rng.below(ranks as u64 - 1) as usize) % ranks;
                program.push_back(Task::Send(to));
                due[to][rank] += 1;
                if rng.chance(150) {
                    let longest = [10 * MICROSECOND, span / rounds / 8][rng.below(2) as usize];
                    program.push_back(Task::Compute(rng.below(longest.max(1))));
                }
            }
        }
        for (program, due) in programs.iter_mut().zip(&due) {
            program.push_back(Task::Await(due.clone()));
        }
    }
    programs
}

/// The block of a run.
fn block(design: u64) -> BlockPlan {
    let design = Design::ALL[design as usize % 4];
    let (size, granule) = if design.is_fixed() {
        (2 * SLOT, SLOT)
    } else {
        (4096, 64)
    };
    BlockPlan::new(design, size, granule).expect("a plan")
}
