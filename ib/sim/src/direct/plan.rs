//! What a seed means: how many processes, who talks to whom, how memory is reached, what goes wrong.

use super::Options;
use super::oracle::{Arena, Conn, End, EndState, Oracle, RECVS, Service};
use crate::rng::Rng;

/// Whether applications disturb what they set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mood {
    /// They only talk: every request of an undisturbed connection has to succeed.
    Calm,
    /// They revoke, reset, fail, destroy.
    Rough,
}

/// A run, as its seed lays it out.
#[derive(Debug)]
pub(super) struct Plan {
    pub processes: usize,
    pub mood: Mood,
    pub ops: u32,
    pub pace_ns: u64,
    pub burst: u64,
    /// Receives kept posted.
    pub receives: usize,
    /// Per mille of requests that are wrong.
    pub bad: u64,
    /// A side may send before the other receives.
    pub eager: bool,
    /// Bit per process: waits for its doorbell instead of polling.
    pub sleepers: u32,
    /// Bit per end: its memory can be mapped by peers.
    pub mapped: u32,
    /// `reachable[a][b]`: a may touch b's private memory.
    pub reachable: [[bool; 4]; 4],
    /// `.0` may and may not touch the private memory of `.1`, in turn, for so many nanoseconds each.
    pub moody: Option<(usize, usize, u64)>,
    pub ready_at: [[u64; 4]; 4],
    pub chunk: u64,
    /// Longest turn in steps.
    pub longest_turn: u64,
    pub drain_rate: u64,
    /// Per mille of turns after which a process is stopped.
    pub stops: u64,
    pub kill: Option<(usize, u64)>,
    pub big: bool,
    /// Per cent of an application's deeds that take a region back, in the rough mood.
    pub revokes: u64,
    pub conns: Vec<(Service, usize, usize)>,
}

impl Plan {
    pub fn of(rng: &mut Rng, options: &Options) -> Self {
        let processes = rng.range(2, options.max_processes.clamp(2, 4) as u64) as usize;
        let style = rng.below(10);
        let mut reachable = [[style < 6; 4]; 4];
        if style >= 8 {
            for row in &mut reachable {
                for cell in row {
                    *cell = rng.chance(500);
                }
            }
        }
        let mut ready_at = [[0; 4]; 4];
        for a in 0..4 {
            for b in 0..4 {
                reachable[a][b] |= a == b;
                ready_at[a][b] = rng.below(100_000);
            }
        }
        let (big, storm) = (rng.chance(40), rng.chance(60));
        let mut plan = Plan {
            processes,
            mood: if rng.chance(500) {
                Mood::Calm
            } else {
                Mood::Rough
            },
            ops: options.ops,
            pace_ns: rng.pick(&[500, 3_000, 20_000]),
            burst: rng.pick(&[1, 3, 8]),
            receives: rng.pick(&[1, 3, RECVS]),
            bad: rng.pick(&[0, 0, 15, 60]),
            eager: rng.chance(150),
            sleepers: rng.below(16) as u32,
            mapped: rng.pick(&[0, u32::MAX, 0x5a5a_a5a5]),
            reachable,
            // long transfers are moved in chunks: between two of them the system may change its mind
            moody: rng.chance(if big { 700 } else { 80 }).then(|| {
                let (by, of) = (rng.below(2), rng.below(2));
                (by as usize, of as usize, rng.range(500, 50_000))
            }),
            ready_at,
            chunk: rng.pick(&[1_000, 4_096, 256 << 10]),
            longest_turn: rng.pick(&[1, 4, 40, 400]),
            drain_rate: rng.pick(&[30, 200, 500, 1000]),
            stops: rng.pick(&[0, 0, 2, 10]),
            kill: None,
            big,
            revokes: 3,
            conns: Vec::new(),
        };
        if storm && !big {
            // many small messages between few: rings go round
            (plan.burst, plan.pace_ns, plan.ops) = (40, 500, options.ops * 2);
            plan.processes = 2;
        }
        if rng.chance(100) {
            // regions come and go under fire, and stores linger
            (plan.mood, plan.revokes, plan.bad) = (Mood::Rough, 30, 0);
            (plan.drain_rate, plan.longest_turn) = (rng.pick(&[10, 40]), rng.pick(&[2, 8, 40]));
            plan.reachable = [[true; 4]; 4];
        }
        if options.kills && rng.chance(350) {
            plan.kill = Some((
                rng.below(plan.processes as u64) as usize,
                rng.range(1, 8_000),
            ));
        }
        if !options.stops {
            plan.stops = 0;
        }
        let processes = plan.processes;
        for _ in 0..rng.range(1, 5) {
            let service = rng.pick(&[
                Service::Rc,
                Service::Rc,
                Service::Rc,
                Service::Uc,
                Service::Ud,
            ]);
            let a = rng.below(processes as u64) as usize;
            let other = rng.below(processes as u64) as usize;
            let b = if other == a && rng.chance(700) {
                (a + 1) % processes
            } else {
                other
            };
            plan.conns.push((service, a, b));
        }
        plan
    }

    /// A small fixed workload between two processes, for the kill after every step.
    pub fn small(rng: &mut Rng, options: &Options) -> Self {
        let mut plan = Plan::of(rng, options);
        plan.processes = 2;
        (plan.mood, plan.bad, plan.stops, plan.kill) = (Mood::Calm, 0, 0, options.kill_at);
        (plan.big, plan.moody, plan.burst) = (false, None, 3);
        plan.ready_at = [[0; 4]; 4];
        plan.conns = vec![(Service::Rc, 0, 1), (Service::Uc, 1, 0)];
        plan
    }

    /// Room for each connection, in the order of the plan.
    pub fn lay_out(&self, rng: &mut Rng) -> (Oracle, Vec<usize>) {
        let mut oracle = Oracle::default();
        let mut used = vec![4096; self.processes];
        let mut count = vec![0; self.processes];
        for (service, a, b) in &self.conns {
            let storm = self.burst == 40;
            let slot = if self.big {
                600 << 10
            } else if storm {
                128
            } else {
                20 << 10
            };
            let window = if self.big {
                4
            } else if storm {
                64
            } else {
                8
            };
            let mut end = |process: usize| {
                let arena = Arena {
                    base: used[process],
                    slot,
                    window,
                };
                used[process] = arena.end().next_multiple_of(64);
                let qpn = (process as u32 + 1) << 8 | count[process];
                count[process] += 1;
                End {
                    process,
                    qpn,
                    state: EndState::Reset,
                    rkey: 0,
                    window: 0,
                    arena,
                }
            };
            let ends = [end(*a), end(*b)];
            let rnr_retry = rng.pick(&[7, 7, 7, 2]);
            oracle.conns.push(Conn {
                service: *service,
                ends,
                flows: Default::default(),
                wants_reset: false,
                generation: 0,
                seq: [rng.pick(&[0, 0xff_fffe, 77]), rng.pick(&[0, 0xff_ffff, 5])],
                rnr_retry,
                rnr_code: rng.pick(&[1, 2, 8]),
                timeout: rng.pick(&[1, 8, 14]),
                retry_cnt: rng.pick(&[0, 3, 7]),
                clean: rnr_retry == 7,
                unsteady: None,
                revoked: false,
                short_recv: false,
                bad_recv: false,
            });
        }
        (oracle, used)
    }
}
