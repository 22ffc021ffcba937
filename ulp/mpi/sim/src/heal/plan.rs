//! What the ranks of a run do, and which faults meet them until it is quiet.

use super::device::Ruin;
use super::rank::Task;
use crate::Rng;
use ferriband_heal::Ns;
use ferriband_mpi_proto::fast::{Design, Plan as BlockPlan, SLOT};
use std::collections::VecDeque;

const MICROSECOND: u64 = 1000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const HOUR_NS: u64 = 3600 * SECOND;
/// Longer than any run.
pub const FOR_GOOD: u64 = 1 << 62;

/// A fault from outside.
#[derive(Clone, Copy, Debug)]
pub enum Blow {
    /// The queue pair of the first rank to the second goes to error.
    QueuePair(usize, usize),
    /// Paths carry nothing in one direction for so long.
    Path(Ruin, u64),
    /// Each queue pair between the two fails as soon as it is connected, until then.
    Storm(usize, usize, Ns),
    /// A rank computes for so long; or it is stopped, its echo with it.
    Away(usize, u64, bool),
    /// An adapter of a rank is in error, and cannot be opened for so long; perhaps with what nobody
    /// has polled.
    Adapter(usize, usize, u64, bool),
    /// All adapters of two ranks.
    Both(usize, usize, u64),
    /// A port is down for so long, and carries nothing for so much longer.
    Port(usize, usize, u8, [u64; 2]),
    /// It has another address.
    Address(usize, usize, u8),
    /// A rank dies.
    Kill(usize),
}

/// The world's nature in one run.
pub struct Plan {
    pub ranks: usize,
    /// The ports of each adapter of each rank.
    pub adapters: Vec<Vec<u8>>,
    /// Bits of a LID that choose a route.
    pub lmc: u8,
    /// Nothing lasts for good that all paths between these adapters need, by their first ports.
    pub survivor: usize,
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
    /// Turns in which a message is given up, of a thousand.
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
        let port = |rng: &mut Rng| if rng.chance(300) { 2 } else { 1 };
        let count = |rng: &mut Rng| [1, 1, 2, 2, 3][rng.below(5) as usize];
        let adapters: Vec<Vec<u8>> = (0..ranks)
            .map(|_| (0..count(rng)).map(|_| port(rng)).collect())
            .collect();
        let least = adapters.iter().map(Vec::len).min().unwrap_or(1);
        let survivor = rng.below(least as u64) as usize;
        let finalizes = rng.chance(500);
        let mut plan = Self {
            ranks,
            adapters,
            lmc: rng.below(3) as u8,
            survivor,
            programs: programs(rng, ranks, span, finalizes),
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
            given_up: [0, 0, 4][rng.below(3) as usize],
            faulty: [0, 0, 100][rng.below(3) as usize],
            tries_ns: [5 * MILLISECOND, 300 * MILLISECOND, 4 * SECOND][rng.below(3) as usize],
        };
        for _ in 0..rng.below(14) {
            let early = span.min(MILLISECOND);
            let within = if rng.chance(500) { early } else { span };
            let at = Ns(rng.below(within));
            let blow = plan.blow(rng, at);
            let lasts = match blow {
                Blow::Path(_, for_ns)
                | Blow::Away(_, for_ns, _)
                | Blow::Adapter(.., for_ns, _)
                | Blow::Both(.., for_ns) => for_ns,
                Blow::Port(.., [down, shaky]) => down.saturating_add(shaky),
                Blow::Storm(.., until) => until.since(at),
                Blow::QueuePair(..) | Blow::Kill(_) | Blow::Address(..) => 0,
            };
            // What lasts for good does so when it is quiet.
            let lasts = if lasts > FOR_GOOD / 2 { 0 } else { lasts };
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
        let adapter = rng.below(self.adapters[one].len() as u64) as usize;
        let port = 1 + rng.below(self.adapters[one][adapter].into()) as u8;
        let may_end = adapter != self.survivor && rng.chance(250);
        let for_ns = if may_end { FOR_GOOD } else { lasting };
        match rng.below(100) {
            0..36 => Blow::QueuePair(one, other),
            36..48 => Blow::Adapter(one, adapter, for_ns, rng.chance(400)),
            48..51 => Blow::Both(one, other, lasting),
            51..58 => {
                let shaky = [0, 2 * MILLISECOND, SECOND][rng.below(3) as usize];
                Blow::Port(one, adapter, port, [for_ns, 1 + rng.below(shaky + 1)])
            }
            58..61 => Blow::Address(one, adapter, port),
            61..75 => {
                let far = rng.below(self.adapters[other].len() as u64) as usize;
                let route = rng.chance(500).then(|| rng.below(1 << self.lmc) as u16);
                let is_vital = adapter == self.survivor && far == self.survivor;
                let may_end = !is_vital && rng.chance(400);
                let ruin = Ruin {
                    from: one,
                    to: other,
                    adapters: (may_end || rng.chance(800)).then_some((adapter, far)),
                    route,
                };
                Blow::Path(ruin, if may_end { FOR_GOOD } else { lasting })
            }
            75..80 => Blow::Storm(one, other, at.after(rng.below(2 * SECOND))),
            80..97 => {
                let was_hour = |(_, blow): &(Ns, Blow)| matches!(blow, Blow::Away(_, HOUR_NS, _));
                let may_be = self.has_launcher && !self.blows.iter().any(was_hour);
                let is_hour = may_be && rng.chance(10);
                Blow::Away(
                    one,
                    if is_hour { HOUR_NS } else { lasting },
                    rng.chance(300),
                )
            }
            _ if is_dead => Blow::QueuePair(one, other),
            _ => Blow::Kill(one),
        }
    }
}

/// Rounds of messages to all, with work between them, and a wait for all at the end of each.
fn programs(rng: &mut Rng, ranks: usize, span: u64, finalizes: bool) -> Vec<VecDeque<Task>> {
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
    for program in programs.iter_mut().filter(|_| finalizes) {
        program.push_back(Task::Finalize);
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
