//! The simulated host: memory, the kernel's connection, who lives and who sleeps.
//!
//! Owns what all fibers share, and the laws that can be looked at in the middle of a run. Must not
//! know what a fiber does: it is a coroutine that is resumed.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::memory::{At, Memory, direction, name, own, shared};
use crate::oracle::Oracle;
use crate::tcp::{Event, Tcp};
use crate::{Law, Plant, Stats};
use ferriband_sdp_local::{Own, Shared, Way};
use ferriband_sdp_proto::change::Phase;
use ferriband_seed::Rng;

/// Lines of the trace that a failure shows.
const TRACE_LINES: usize = 60;
/// Steps after which a bounded sleep ends.
pub(crate) const BOUND: u64 = 2_000;
/// Steps for which a reader may leave a full ring as it is.
pub(crate) const PATIENCE: u64 = 3_000;

/// There is news of the kernel's, or of the process's.
pub(crate) const KERNEL: u8 = 1;
/// The peer, or the side itself, has rung.
pub(crate) const RUNG: u8 = 2;
/// So often a service thread may sleep while nothing happens.
const LOOKS: u32 = 20;

/// What a fiber is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Service,
    Program,
}

/// What a fiber waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sleep {
    /// To be woken on this word, until this step.
    Futex(At, u64),
    /// Something to receive from the kernel.
    Read,
    /// Room in the kernel.
    Write,
    /// News of the connection: an epoll instance, a service thread. What it has wanted to be told
    /// of, if its want says so; until this step.
    News(Option<At>, u64),
    /// This step.
    Until(u64),
}

/// What the scheduler knows of a fiber.
pub(crate) struct Fate {
    pub side: usize,
    pub process: usize,
    pub role: Role,
    pub sleep: Cell<Option<Sleep>>,
    /// Until this step it waits for a core.
    pub stalled_until: Cell<u64>,
    /// It sends, or receives, inside the kernel, as if nobody else did.
    pub inside: Cell<Option<Way>>,
    /// [`KERNEL`], [`RUNG`].
    pub news: Cell<u8>,
    /// Of a service thread: how often it slept since bytes moved or something else happened, which
    /// has this number.
    pub looked: Cell<(u64, u32)>,
    /// What it has last seen of the head of the ring that it reads.
    pub seen_head: Cell<u64>,
    pub dead: Cell<bool>,
    pub done: Cell<bool>,
}

/// What the scheduler knows of a process.
#[derive(Default)]
pub(crate) struct Process {
    pub side: usize,
    pub dead: Cell<bool>,
    pub exits: Cell<bool>,
    pub stopped_until: Cell<u64>,
}

pub(crate) struct World {
    pub plant: Option<Plant>,
    pub rings: [u64; 2],
    pub memory: RefCell<Memory>,
    pub tcp: RefCell<Tcp>,
    pub oracle: RefCell<Oracle>,
    pub rng: RefCell<Rng>,
    pub fates: Vec<Fate>,
    pub processes: Vec<Process>,
    /// Processes of each side that hold the socket.
    pub holders: [Cell<u32>; 2],
    /// A process of the side was killed, or exits with threads that run.
    pub killed: [Cell<bool>; 2],
    /// The side has died, and its peer hears of it over the connection of the two processes.
    pub died: [Cell<bool>; 2],
    /// Program fibers of each side that still send.
    pub senders: [Cell<u32>; 2],
    /// A reader of the side goes on without the library.
    pub heirs: [Cell<bool>; 2],
    /// A side's service thread has said that its close resets the connection.
    pub resets: [Cell<bool>; 2],
    /// A call of the side's programs had the kernel's error.
    pub told_error: [Cell<bool>; 2],
    /// What a side's peer had written when the side last asked whether it may close.
    pub closing_head: [Cell<u64>; 2],
    /// The peer of the side has left unread in the ring what it has sent.
    pub left_unread: [Cell<bool>; 2],
    pub agreed_at: u64,
    /// Of a hundred calls, those before which a program does something else.
    pub rests: u64,
    /// The longest of these, in steps.
    pub longest_rest: u64,
    /// Of a hundred wants and sleeps, those before which a thread loses its core.
    pub preemptions: u64,
    /// Which process is killed at which step.
    pub kill: Cell<Option<(usize, u64)>>,
    /// Which process is killed, after how many locked instructions more, and how many steps then.
    pub kill_behind: Cell<Option<(usize, u64, u64)>>,
    pub clock: Cell<u64>,
    pub turn: Cell<u64>,
    /// How often something has moved on.
    pub happenings: Cell<u64>,
    /// The step of the last progress.
    pub progressed_at: Cell<u64>,
    pub violation: RefCell<Option<(Law, String)>>,
    pub trace: Option<RefCell<VecDeque<String>>>,
    pub stats: RefCell<Stats>,
}

impl World {
    #[cold]
    pub fn fail(&self, law: Law, what: impl Into<String>) {
        let mut violation = self.violation.borrow_mut();
        if violation.is_none() {
            let what = what.into();
            self.note(|| format!("{law:?}: {what}"));
            *violation = Some((law, what));
        }
    }

    pub fn failed(&self) -> bool {
        self.violation.borrow().is_some()
    }

    /// A line of the trace; built only when somebody reads it.
    pub fn note(&self, line: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            let mut trace = trace.borrow_mut();
            if trace.len() >= TRACE_LINES {
                trace.pop_front();
            }
            trace.push_back(format!("{:>7}  {}", self.clock.get(), line()));
        }
    }

    pub fn agreed(&self) -> bool {
        self.clock.get() >= self.agreed_at
    }

    pub fn is_planted(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }

    /// A fault that is planted, and shows once in so many times.
    pub fn now_and_then(&self, plant: Plant, one_in: u64) -> bool {
        self.plant == Some(plant) && self.rng.borrow_mut().below(one_in) == 0
    }

    /// The oldest store of a fiber becomes visible to all. False if there is none.
    pub fn drain_one(&self, fiber: usize) -> bool {
        let mut memory = self.memory.borrow_mut();
        if memory.buffered(fiber) == 0 {
            return false;
        }
        let drained = memory.drain_one(fiber);
        drop(memory);
        match drained {
            Ok(None) => {}
            Ok(Some((at, value))) => {
                self.note(|| format!("f{fiber}            {} = {value}", name(at)));
                self.became(at, value);
            }
            Err(what) => self.fail(Law::Overwritten, what),
        }
        true
    }

    /// All stores of a fiber become visible.
    pub fn drain(&self, fiber: usize) {
        while self.drain_one(fiber) {}
    }

    /// Looks at a word that all see from now on.
    pub fn became(&self, at: At, value: u64) {
        for direction in 0..2 {
            if at != shared(direction, Shared::Phase) {
                continue;
            }
            self.happened();
            if value == Phase::Ready as u64 {
                self.check_outside(1 - direction, Way::In);
            }
            if value == Phase::Sdp as u64 {
                self.check_outside(direction, Way::Out);
            }
            let mut stats = self.stats.borrow_mut();
            if value == Phase::Sdp as u64 {
                stats.over += 1;
                let (sent, offset) = (
                    self.tcp.borrow().sent(direction),
                    self.memory.borrow().word(shared(direction, Shared::Offset)),
                );
                if sent != offset {
                    self.fail(
                        Law::Offset,
                        format!("SDP begins at {offset}, TCP carries {sent} bytes"),
                    );
                }
            }
            if value == Phase::Back as u64 {
                stats.back += 1;
            }
        }
    }

    /// No fiber of a side that changes over is inside the kernel for this.
    fn check_outside(&self, side: usize, way: Way) {
        for fiber in self.of_side(side) {
            let fate = &self.fates[fiber];
            if fate.inside.get() == Some(way) && !fate.dead.get() {
                self.fail(Law::Inside, format!("f{fiber} is inside, {way:?}"));
            }
        }
    }

    /// A fiber enters the kernel.
    pub fn enter(&self, fiber: usize, way: Way) {
        let fate = &self.fates[fiber];
        fate.inside.set(Some(way));
        let phase = self.phase(direction(fate.side, way));
        let ready = way == Way::In && phase == Phase::Ready as u64;
        if ready || phase == Phase::Sdp as u64 || phase == Phase::Back as u64 {
            self.fail(
                Law::Inside,
                format!("f{fiber} enters, {way:?}, in phase {phase}"),
            );
        }
    }

    /// It leaves the kernel.
    pub fn leave(&self, fiber: usize) {
        self.fates[fiber].inside.set(None);
    }

    /// A fiber makes a locked instruction, or calls the kernel.
    pub fn count_locked(&self, fiber: usize) {
        let Some((process, left, steps)) = self.kill_behind.get() else {
            return;
        };
        if self.fates[fiber].process != process || !self.agreed() {
            return;
        }
        self.kill_behind
            .set((left > 1).then_some((process, left - 1, steps)));
        if left == 1 {
            self.kill.set(Some((process, self.clock.get() + steps)));
            self.turn.set(self.turn.get().min(steps));
        }
    }

    /// What everybody sees of a direction's phase.
    pub fn phase(&self, direction: usize) -> u64 {
        self.memory.borrow().word(shared(direction, Shared::Phase))
    }

    /// The fibers of a side.
    pub fn of_side(&self, side: usize) -> impl Iterator<Item = usize> {
        (0..self.fates.len()).filter(move |fiber| self.fates[*fiber].side == side)
    }

    /// Tells the epoll instances and the service threads of a side.
    pub fn tell(&self, side: usize, news: u8) {
        for fiber in self.of_side(side) {
            let known = &self.fates[fiber].news;
            known.set(known.get() | news);
        }
    }

    /// Something has moved on: bytes, a phase, time, whoever ends or dies.
    pub fn happened(&self) {
        self.happenings.set(self.happenings.get() + 1);
    }

    /// A program has sent or received a byte, or a fiber has ended: this happens only so often in a
    /// run, unlike all else that moves on.
    pub fn progressed(&self) {
        self.progressed_at.set(self.clock.get());
    }

    /// A service thread is about to sleep.
    pub fn check_idle(&self, fiber: usize) {
        let looked = &self.fates[fiber].looked;
        let (at, times) = looked.get();
        let now = self.happenings.get();
        let times = if at == now { times + 1 } else { 0 };
        looked.set((now, times));
        if times > LOOKS {
            self.fail(
                Law::Idle,
                format!("f{fiber} has looked {times} times, and nothing has happened"),
            );
        }
    }

    /// Whether a fiber could go on.
    pub fn is_ready(&self, fiber: usize) -> bool {
        let fate = &self.fates[fiber];
        let now = self.clock.get();
        if fate.dead.get() || fate.done.get() {
            return false;
        }
        let stopped = self.processes[fate.process].stopped_until.get();
        if stopped.max(fate.stalled_until.get()) > now {
            return false;
        }
        match fate.sleep.get() {
            None => true,
            Some(Sleep::Futex(_, until) | Sleep::Until(until)) => until <= now,
            Some(Sleep::Read) => self.tcp.borrow().may_receive(fate.side),
            Some(Sleep::Write) => self.tcp.borrow().may_send(fate.side),
            Some(Sleep::News(_, until)) => fate.news.get() != 0 || until <= now,
        }
    }

    /// Who sleeps though it could go on, where nobody runs, and no store and no byte is under way.
    /// None as well if somebody was killed or is stopped: who was to wake may be it.
    pub fn sleeps_in_vain(&self) -> Option<String> {
        let now = self.clock.get();
        let stopped = |process: &Process| process.stopped_until.get() > now;
        let stalled = |fate: &Fate| fate.stalled_until.get() > now;
        let waits = self.processes.iter().any(stopped) || self.fates.iter().any(stalled);
        if waits || self.killed.iter().any(Cell::get) {
            return None;
        }
        let waits_for_lock = |at| {
            [Own::SendLock, Own::ReceiveLock]
                .iter()
                .any(|lock| (0..2).any(|side| at == own(side, *lock)))
        };
        let mut sleepers = Vec::new();
        for (fiber, fate) in self.fates.iter().enumerate() {
            match fate.sleep.get() {
                _ if fate.dead.get() || fate.done.get() => {}
                Some(Sleep::Futex(at, _)) if waits_for_lock(at) => return None,
                Some(Sleep::Futex(at, _) | Sleep::News(Some(at), _)) => sleepers.push((fiber, at)),
                _ => {}
            }
        }
        sleepers.into_iter().find_map(|(fiber, at)| {
            (0..2).find_map(|direction| {
                let bytes = at == shared(direction, Shared::WantBytes);
                let room = at == shared(direction, Shared::WantRoom);
                let finds = bytes && self.finds_bytes(direction);
                (finds || room && self.finds_room(direction))
                    .then(|| format!("f{fiber} sleeps on {}, and could go on", name(at)))
            })
        })
    }

    /// A receive would not find nothing.
    fn finds_bytes(&self, direction: usize) -> bool {
        let memory = self.memory.borrow();
        let word = |word| memory.word(shared(direction, word));
        let side = 1 - direction;
        let place = |word| memory.word(own(side, word));
        if place(Own::ReceiveGate) == 0 {
            return false;
        }
        let phase = Phase::from_word(word(Shared::Phase) as u32);
        // others receive from the kernel: what the ring has is not read
        if place(Own::ReceiveGate) > 1 {
            let tcp = self.tcp.borrow();
            let is_first = tcp.taken(side) < word(Shared::Offset);
            return tcp.may_receive(side) && (is_first || phase == Some(Phase::Done));
        }
        match phase {
            Some(Phase::Sdp) if place(Own::FromTcp) >= word(Shared::Offset) => {
                place(Own::FromSdp) < word(Shared::Head)
            }
            Some(Phase::Tcp | Phase::Ready | Phase::Sdp) => self.tcp.borrow().may_receive(side),
            _ => place(Own::FromSdp) < word(Shared::End),
        }
    }

    /// Who waits for room in a ring is to be woken.
    pub fn is_roomy(&self, direction: usize, head: u64, tail: u64) -> bool {
        let size = self.rings[direction];
        (size - (head - tail)) * 3 >= size
    }

    /// A send would find room.
    fn finds_room(&self, direction: usize) -> bool {
        let memory = self.memory.borrow();
        let word = |word| memory.word(shared(direction, word));
        match Phase::from_word(word(Shared::Phase) as u32) {
            Some(Phase::Sdp) => {
                let (head, tail) = (word(Shared::Head), word(Shared::Tail));
                self.is_roomy(direction, head, tail)
            }
            Some(Phase::Back) | None => false,
            Some(_) => self.tcp.borrow().may_send(direction),
        }
    }

    /// The earliest step at which time alone makes a fiber ready.
    pub fn next_time(&self) -> Option<u64> {
        let times = self.fates.iter().filter_map(|fate| {
            if fate.dead.get() || fate.done.get() {
                return None;
            }
            let stopped = self.processes[fate.process].stopped_until.get();
            let stopped = stopped.max(fate.stalled_until.get());
            let until = match fate.sleep.get() {
                Some(Sleep::News(..)) if fate.news.get() != 0 => 0,
                Some(Sleep::Futex(_, until) | Sleep::News(_, until) | Sleep::Until(until)) => until,
                _ => 0,
            };
            Some(until.max(stopped))
        });
        let now = self.clock.get();
        let agreed = (self.agreed_at > now).then_some(self.agreed_at);
        times
            .chain(agreed)
            .filter(|at| (now + 1..u64::MAX).contains(at))
            .min()
    }

    /// One thing happens in the kernel.
    pub fn tcp_step(&self) -> bool {
        let event = self.tcp.borrow_mut().step(&mut self.rng.borrow_mut());
        let Some(event) = event else { return false };
        self.happened();
        self.note(|| format!("kernel: {event:?}"));
        match event {
            Event::In(side) | Event::Room(side) => self.tell(side, KERNEL),
            Event::Refused(side) => self.reset_by(side),
        }
        true
    }

    /// A side's kernel has sent a reset: a TCP that carried the whole stream would have, too.
    pub fn reset_by(&self, side: usize) {
        self.stats.borrow_mut().resets += 1;
        if !self.killed[side].get() && !self.oracle.borrow().has_unread(self.of_side(1 - side)) {
            self.fail(
                Law::Reset,
                format!("side {side} resets, and had read all there was"),
            );
        }
    }

    /// A side that is about to be closed leaves bytes unread in a ring, and nothing has told the
    /// peer that its stream has ended.
    fn leaves_unread(&self, side: usize) -> bool {
        let memory = self.memory.borrow();
        let peer = 1 - side;
        let word_of = |side, word| memory.word(shared(side, word));
        // what is written during the close may come behind the end, as by TCP
        let head = word_of(peer, Shared::Head).min(self.closing_head[side].get());
        let unread = word_of(peer, Shared::Phase) == Phase::Sdp as u64
            && memory.word(own(side, Own::FromSdp)) < head;
        // of one that is killed the peer sees that it was, if it has not gone back
        let phase = word_of(side, Shared::Phase);
        let seen = phase == Phase::Sdp as u64 || !self.killed[side].get();
        unread && seen && !self.tcp.borrow().is_shut(side)
    }

    /// At a stream's end: TCP would have told of a reset once.
    pub fn check_told(&self, side: usize) {
        let kept = self.memory.borrow().word(own(side, Own::Error)) != 0;
        // a copy that has met the error, and has not kept it yet: the next call has it
        let copies = self.phase(side) == Phase::Back as u64;
        if kept || copies || self.told_error[side].get() || self.heirs[side].get() {
            return;
        }
        if !self.tcp.borrow().has_end(side) {
            self.fail(Law::Errno, "the stream's end, where TCP has been reset");
        }
        if self.left_unread[side].get() {
            self.fail(
                Law::Errno,
                "the stream's end, and the peer has left bytes unread",
            );
        }
    }

    /// A process no longer holds the socket.
    pub fn release(&self, side: usize) {
        self.happened();
        self.holders[side].set(self.holders[side].get() - 1);
        if self.holders[side].get() == 0 {
            self.note(|| format!("side {side} is closed"));
            self.left_unread[1 - side].set(self.leaves_unread(side));
            let resets = self.resets[side].get();
            let reset = self
                .tcp
                .borrow_mut()
                .close(&mut self.rng.borrow_mut(), side, resets);
            if reset {
                self.reset_by(side);
            }
        }
    }

    /// Locks and counts of a side of which nobody was killed are as at the beginning.
    pub fn check_record(&self, side: usize) {
        let memory = self.memory.borrow();
        for word in [Own::SendLock, Own::ReceiveLock, Own::Sends] {
            let value = memory.word(own(side, word));
            if value != 0 {
                self.fail(Law::Locks, format!("{word:?} of side {side} is {value}"));
            }
        }
    }
}
