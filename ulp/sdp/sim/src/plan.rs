//! What the programs of a run do: drawn from the seed.

use ferriband_seed::Rng;

/// How a program waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// In the call.
    Block,
    /// In epoll_wait, before the call.
    Poll,
}

/// What a thread does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// Sends so many bytes.
    Send {
        bytes: u64,
        /// At most so many in a call.
        most: u64,
        wait: Wait,
        /// Becomes a program without the library after so many.
        heir_at: u64,
        /// The last one that sends ends the stream.
        shuts_down: bool,
    },
    /// Receives to the end, or so many bytes.
    Receive {
        bytes: u64,
        most: u64,
        wait: Wait,
        heir_at: u64,
    },
    /// Asks and is answered, or the other way round: lengths of both.
    Exchange {
        asks: bool,
        lengths: Vec<(u64, u64)>,
        wait: Wait,
        most: u64,
    },
    /// Sends, then receives, in each round: lengths of both. TCP holds what it sends, so nobody
    /// waits for the other to begin to read.
    Flood {
        lengths: Vec<(u64, u64)>,
        wait: Wait,
        most: u64,
    },
    /// Has the socket, and does nothing for so long.
    Hold { steps: u64 },
}

impl Task {
    /// Whether it sends.
    pub fn sends(&self) -> bool {
        !matches!(self, Task::Receive { .. } | Task::Hold { .. })
    }
}

/// A thread.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub side: usize,
    pub process: usize,
    pub task: Task,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub rings: [u64; 2],
    /// What the kernel's socket of the side that sends holds, in each direction, and what that of
    /// the other does.
    pub limits: [(u64, u64); 2],
    /// The side of each process.
    pub processes: Vec<usize>,
    pub threads: Vec<Thread>,
    pub agreed_at: u64,
    /// Which process is killed, and at which step.
    pub kill: Option<(usize, u64)>,
    /// Which process is killed, after how many locked instructions and kernel calls of it behind
    /// the agreement, and how many steps then: what could be torn lies just behind one.
    pub kill_behind: Option<(usize, u64, u64)>,
    /// Which process exits while its threads run, and at which step.
    pub exit: Option<(usize, u64)>,
    /// Of a hundred calls, those before which a program does something else.
    pub rests: u64,
    /// The longest of these, in steps.
    pub longest_rest: u64,
    /// Of a hundred wants and sleeps, those before which a thread loses its core.
    pub preemptions: u64,
    /// Of a hundred turns, those in which a thread waits for a core for a while.
    pub stalls: u64,
    /// Of a hundred turns.
    pub stops: u64,
    pub longest_turn: u64,
    /// Of a hundred turns, those that drain a store, and those that move something in the kernel.
    pub drains: u64,
    pub kernel: u64,
}

const RINGS: [u64; 4] = [64, 128, 256, 512];
const NEVER: u64 = u64::MAX;

impl Plan {
    pub fn new(rng: &mut Rng) -> Self {
        let rings = [rng.pick(&RINGS), rng.pick(&RINGS)];
        let limits = [(); 2].map(|()| {
            let send = rng.pick(&[64, 300, 1024, 4096]);
            (send, rng.pick(&[32, 200, 1024, 4096]))
        });
        let mut plan = Plan {
            rings,
            limits,
            processes: Vec::new(),
            threads: Vec::new(),
            agreed_at: rng.pick(&[0, 100, 1_000]),
            kill: None,
            kill_behind: None,
            exit: None,
            rests: 10,
            longest_rest: rng.pick(&[300, 300, 1_500]),
            preemptions: 0,
            stalls: rng.pick(&[0, 0, 2]),
            stops: rng.pick(&[0, 0, 1]),
            longest_turn: rng.pick(&[1, 2, 4, 12, 50]),
            drains: rng.pick(&[2, 10, 30]),
            kernel: rng.pick(&[2, 10, 40]),
        };
        let kind = rng.below(10);
        if kind < 4 {
            plan.exchange(rng);
        } else if kind < 5 {
            plan.flood(rng);
        } else if kind < 6 {
            plan.crowd(rng);
            return plan;
        } else {
            // if neither side reads to the end, both may wait for ever, by TCP as well
            let early = rng.pick(&[None, None, None, None, Some(0), Some(1)]);
            for side in 0..2 {
                plan.stream(rng, side, early == Some(side));
            }
            if early.is_some() {
                return plan;
            }
        }
        let process = rng.below(plan.processes.len() as u64) as usize;
        let latest = rng.pick(&[500, 3_000, 10_000]);
        let step = rng.range(1, latest);
        match rng.below(10) {
            0..=1 => plan.kill = Some((process, step)),
            2..=3 => {
                let most = rng.pick(&[20, 100, 500]);
                let behind = rng.pick(&[3, 25]);
                plan.kill_behind = Some((process, rng.range(1, most), rng.below(behind)));
            }
            4 => plan.exit = Some((process, step)),
            _ => {}
        }
        plan
    }

    fn process(&mut self, side: usize) -> usize {
        self.processes.push(side);
        self.processes.len() - 1
    }

    fn thread(&mut self, side: usize, process: usize, task: Task) {
        self.threads.push(Thread {
            side,
            process,
            task,
        });
    }

    /// One thread on each side; perhaps a forked process that only has the socket.
    fn exchange(&mut self, rng: &mut Rng) {
        let rounds = rng.range(1, 12);
        let longest = rng.pick(&[8, 60, 600]);
        let length = |rng: &mut Rng| rng.range(1, longest);
        let lengths: Vec<_> = (0..rounds).map(|_| (length(rng), length(rng))).collect();
        for side in 0..2 {
            let process = self.process(side);
            let task = Task::Exchange {
                asks: side == 0,
                lengths: lengths.clone(),
                wait: wait(rng),
                most: rng.pick(&[5, 100, 2_000]),
            };
            self.thread(side, process, task);
            if rng.chance(20) {
                let process = self.process(side);
                let steps = rng.range(1, 3_000);
                self.thread(side, process, Task::Hold { steps });
            }
        }
    }

    /// One thread on each side, which sends more than a ring holds before it reads.
    fn flood(&mut self, rng: &mut Rng) {
        // what TCP takes that nobody reads
        let most = self.limits.map(|(send, receive)| send / 2 + receive);
        let rounds = rng.range(1, 3);
        let lengths: Vec<_> = (0..rounds)
            .map(|_| most.map(|most| rng.range(1, most)))
            .collect();
        for side in 0..2 {
            let process = self.process(side);
            let own = lengths.iter().map(|both| (both[side], both[1 - side]));
            let task = Task::Flood {
                lengths: own.collect(),
                wait: wait(rng),
                most: rng.pick(&[20, 100, 5_000]),
            };
            self.thread(side, process, task);
        }
    }

    /// Several threads of one side wait for what the other sends now and then. They lose their
    /// cores anywhere, or where it matters most: one that has said that it sleeps does not yet,
    /// while another takes what came and says the same.
    fn crowd(&mut self, rng: &mut Rng) {
        self.rests = 25;
        (self.stalls, self.preemptions) = rng.pick(&[(14, 0), (14, 0), (14, 0), (0, 40)]);
        if self.preemptions > 0 {
            // longer than a thread is without its core
            self.longest_rest = 3_000;
        }
        let process = self.process(0);
        let task = Task::Send {
            bytes: rng.range(100, 1_000),
            most: 5,
            wait: Wait::Block,
            heir_at: NEVER,
            shuts_down: true,
        };
        self.thread(0, process, task);
        let process = self.process(1);
        for _ in 0..3 {
            let task = Task::Receive {
                bytes: NEVER,
                most: 3,
                wait: Wait::Block,
                heir_at: NEVER,
            };
            self.thread(1, process, task);
        }
    }

    /// One or two threads that send, one or two that receive, in one or two processes.
    fn stream(&mut self, rng: &mut Rng, side: usize, early: bool) {
        let mut processes = vec![self.process(side)];
        if rng.chance(50) {
            processes.push(self.process(side));
        }
        let first = rng.below(2) as usize;
        let long = 3 * self.rings[side];
        for thread in 0..rng.pick(&[1, 2]) {
            let most = rng.pick(&[20, long, 4 * long]);
            let bytes = rng.range(1, most);
            let heir_at = if rng.chance(15) {
                rng.below(bytes)
            } else {
                NEVER
            };
            let task = Task::Send {
                bytes,
                most: rng.pick(&[1, 20, long]),
                wait: wait(rng),
                heir_at,
                // a close with bytes unread, and no end before it
                shuts_down: !early || rng.chance(50),
            };
            let process = processes[(first + thread) % processes.len()];
            self.thread(side, process, task);
        }
        for thread in 0..rng.pick(&[1, 2]) {
            let long = 3 * self.rings[1 - side];
            let task = Task::Receive {
                bytes: if early { rng.below(long) } else { NEVER },
                most: rng.pick(&[1, 20, long]),
                wait: wait(rng),
                heir_at: if rng.chance(15) {
                    rng.below(long)
                } else {
                    NEVER
                },
            };
            let process = processes[(first + thread) % processes.len()];
            self.thread(side, process, task);
        }
        for process in processes {
            if self.threads.iter().all(|thread| thread.process != process) {
                let steps = rng.range(1, 3_000);
                self.thread(side, process, Task::Hold { steps });
            }
        }
    }
}

fn wait(rng: &mut Rng) -> Wait {
    rng.pick(&[Wait::Block, Wait::Block, Wait::Poll])
}
