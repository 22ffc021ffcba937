//! The adapters of a process: which of them can be used, which are closed and opened again, and
//! when one that failed counts again.
//!
//! Owns: the health of at most four adapters and of their ports, the pauses before one is opened
//! again, and the probes that must be answered before it is used again. Must not know: verbs,
//! peers, how a probe goes. Source: the paper, section IV-B 2 (a fatal event: the adapter is opened
//! again, or another one is used) and its Figure 3.
//!
//! A port that is ACTIVE is not yet a port that carries: [`AdapterStep::Back`] comes only behind
//! three probes in a row that were answered, or behind the first one where sessions have no adapter
//! at all. The owner answers each [`AdapterStep::Close`] with [`AdapterNews::Closed`] and each
//! [`AdapterStep::Reopen`] with [`AdapterNews::Opened`].

use crate::card::ADAPTERS;
use crate::number::{AdapterId, Ns};

#[cfg(test)]
mod tests;

const MILLISECOND: u64 = 1_000_000;
/// An adapter that could not be opened is tried again after this part of the time for which it has
/// been away: so what passes while nobody tries stays small beside that.
const PART: u64 = 64;
/// The shortest and the longest of these pauses.
const SHORTEST_NS: u64 = MILLISECOND;
const LONGEST_NS: u64 = 1000 * MILLISECOND;
/// Two connections that meet status 12 within so long make the adapter suspect.
const TOGETHER_NS: u64 = 100 * MILLISECOND;
/// Probes that must be answered in a row.
const ROW: u8 = 3;
/// They are so far apart.
const APART_NS: u64 = 20 * MILLISECOND;
/// One that is not answered within so long is lost.
const ANSWER_NS: u64 = 100 * MILLISECOND;
/// One that nobody answers is used all the same after so long, if there is no other.
const LAST_NS: u64 = 10_000 * MILLISECOND;
/// The bit of a counter that says that an adapter's probe has it, not one of a path.
const OF_ADAPTER: u32 = 1 << 31;
/// Where the counter has the adapter's number.
const ID_AT: u32 = 28;

/// How an adapter is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// It carries.
    Up,
    /// No port of it is up; or it is in doubt, and used only where there is no other.
    Suspect,
    /// It is in error, and is being closed.
    Failed,
    /// It is closed, and opened again; or it is open, and has not answered three probes.
    Reopening,
    /// There is no such device.
    Gone,
}

/// What happened to an adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdapterNews {
    /// DEVICE_FATAL, or an error of one of its queues that all connections use.
    Fatal,
    /// This port is not active.
    PortDown(u8),
    /// It is.
    PortUp(u8),
    /// A port has another address.
    Address,
    /// Nothing of it is left: the answer to [`AdapterStep::Close`].
    Closed,
    /// The answer to [`AdapterStep::Reopen`], with an errno where it could not be opened. All its
    /// ports count as up: the owner says behind it which are not.
    Opened(Result<(), u32>),
    /// The device is no more.
    Deleted,
    /// The connection to this peer met status 12 by it: its adapter has repeated in vain.
    Unanswered(u32),
    /// A probe with this counter has come back.
    Probed(u32),
}

/// What is to be done, or told to all sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdapterStep {
    /// Sessions hear [`crate::AdapterChange::Failed`].
    Failed(AdapterId),
    /// Sessions hear [`crate::AdapterChange::NoneLeft`].
    NoneLeft,
    /// Fence all that lives on it, then destroy its queues, keys and context.
    Close(AdapterId),
    /// Open it, with new queues and keys.
    Reopen(AdapterId),
    /// A PROBE with this counter goes by it to peers that may answer; where there are none, it
    /// counts as answered. The first PROBED is [`AdapterNews::Probed`].
    Probe {
        /// By this adapter.
        id: AdapterId,
        /// [`crate::Datagram::epoch`] of the probe.
        counter: u32,
    },
    /// Sessions hear [`crate::AdapterChange::Back`].
    Back(AdapterId),
}

/// The adapter of whose probe this is the counter; none: it is a path's.
pub fn adapter_of(counter: u32) -> Option<AdapterId> {
    let id = counter >> ID_AT & (ADAPTERS as u32 - 1);
    (counter & OF_ADAPTER != 0).then_some(AdapterId(id as u8))
}

/// How far closing and opening is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// It is open.
    Open,
    /// It is to be closed.
    Close,
    /// That is told.
    Closing,
    /// It is closed, and is to be opened at this time.
    Wait(Ns),
    /// It is to be opened.
    Reopen,
    /// That is told.
    Opening,
}

/// The probes of an adapter.
#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    /// When the next one goes; none: there are none.
    at: Option<Ns>,
    began: Ns,
    sent: Ns,
    counter: u32,
    /// Those that were answered in a row.
    row: u8,
    /// The one under way is.
    is_answered: bool,
    pause_ns: u64,
    /// One is to go.
    is_due: bool,
}

impl Rounds {
    fn begin(&mut self, now: Ns) {
        (self.row, self.pause_ns, self.began) = (0, 0, now);
        self.go(now);
    }

    fn end(&mut self) {
        (self.at, self.is_due) = (None, false);
    }

    fn go(&mut self, now: Ns) {
        self.counter = self.counter.wrapping_add(1);
        (self.sent, self.is_answered, self.is_due) = (now, false, true);
        self.at = Some(now.after(ANSWER_NS + self.pause_ns));
    }

    /// True if the last one of a row is answered.
    fn answered(&mut self, now: Ns) -> bool {
        // Who has not looked for so long knows nothing of today.
        let is_old = now.since(self.sent) >= LONGEST_NS;
        if self.at.is_none() || self.is_answered || self.is_due || is_old {
            return false;
        }
        (self.is_answered, self.pause_ns) = (true, 0);
        self.row += 1;
        self.at = Some(self.sent.after(APART_NS).max(now));
        self.row >= ROW
    }

    fn handle_timeout(&mut self, now: Ns) {
        if self.at.is_none_or(|at| now < at) {
            return;
        }
        if !self.is_answered {
            self.row = 0;
            self.pause_ns = (self.pause_ns * 2).clamp(APART_NS, LONGEST_NS);
        }
        self.go(now);
    }

    fn counter(&self, id: usize) -> u32 {
        OF_ADAPTER | (id as u32) << ID_AT | self.counter & ((1 << ID_AT) - 1)
    }
}

#[derive(Clone, Copy, Debug)]
struct Adapter {
    health: Health,
    work: Work,
    ports: u8,
    /// Ports that are not up, by their number.
    down: u32,
    /// Sessions have been told that it failed, and not that it is back; or they will be.
    is_out: bool,
    tells_failed: bool,
    tells_back: bool,
    /// When it was first closed since it last carried.
    away: Option<Ns>,
    rounds: Rounds,
    /// The last connection that met status 12, and when.
    unanswered: Option<(u32, Ns)>,
}

impl Adapter {
    fn new(ports: u8) -> Self {
        Self {
            health: Health::Up,
            work: Work::Open,
            ports,
            down: 0,
            is_out: false,
            tells_failed: false,
            tells_back: false,
            away: None,
            rounds: Rounds::default(),
            unanswered: None,
        }
    }

    fn port(&self) -> Option<u8> {
        (1..=self.ports).find(|port| self.down & 1 << port == 0)
    }

    /// No session may use it from here on.
    fn out(&mut self) {
        self.rounds.end();
        self.tells_failed |= !self.is_out;
        (self.is_out, self.tells_back) = (true, false);
    }

    fn fatal(&mut self, health: Health) {
        self.out();
        self.health = health;
        if self.work == Work::Open {
            self.work = Work::Close;
        }
    }

    fn wait(&mut self, now: Ns) {
        let is_gone = self.health == Health::Gone;
        let pause = match self.away {
            _ if is_gone => LONGEST_NS,
            None => 0,
            Some(away) => (now.since(away) / PART).clamp(SHORTEST_NS, LONGEST_NS),
        };
        self.work = Work::Wait(now.after(pause));
        self.away.get_or_insert(now);
    }

    fn handle(&mut self, id: usize, news: AdapterNews, now: Ns) {
        let is_open = self.work == Work::Open;
        match news {
            AdapterNews::Fatal if is_open => self.fatal(Health::Failed),
            AdapterNews::Deleted => self.fatal(Health::Gone),
            AdapterNews::Closed if self.work == Work::Closing => {
                if self.health == Health::Failed {
                    self.health = Health::Reopening;
                }
                self.wait(now);
            }
            AdapterNews::Opened(Ok(())) if self.work == Work::Opening => {
                (self.health, self.work, self.down) = (Health::Reopening, Work::Open, 0);
                self.rounds.begin(now);
            }
            AdapterNews::Opened(Err(_)) if self.work == Work::Opening => self.wait(now),
            AdapterNews::PortDown(port) if is_open && self.has(port) => {
                self.down |= 1 << port;
                if self.port().is_none() {
                    self.out();
                    if self.health == Health::Up {
                        self.health = Health::Suspect;
                    }
                }
            }
            AdapterNews::PortUp(port) if is_open && self.has(port) => {
                self.down &= !(1 << port);
                if self.is_out && self.rounds.at.is_none() {
                    self.rounds.begin(now);
                }
            }
            AdapterNews::Address => self.rounds.row = 0,
            AdapterNews::Unanswered(peer) if is_open => self.doubt(peer, now),
            AdapterNews::Probed(counter) if self.is_last(id, counter, now) => self.carries(),
            _ => (),
        }
    }

    fn has(&self, port: u8) -> bool {
        (1..=self.ports).contains(&port)
    }

    fn doubt(&mut self, peer: u32, now: Ns) {
        let before = self.unanswered.replace((peer, now));
        let are_two =
            before.is_some_and(|(other, then)| other != peer && now.since(then) <= TOGETHER_NS);
        if are_two && self.health == Health::Up {
            self.health = Health::Suspect;
            self.rounds.begin(now);
        }
    }

    /// Whether this is the answer to the last probe of a row.
    fn is_last(&mut self, id: usize, counter: u32, now: Ns) -> bool {
        counter == self.rounds.counter(id) && self.rounds.answered(now)
    }

    /// Three probes are answered.
    fn carries(&mut self) {
        self.rounds.end();
        (self.health, self.away) = (Health::Up, None);
        self.tells_back = self.is_out;
        self.is_out = false;
    }

    /// Whether this has been the answer to the probe under way.
    fn is_answer(&self, id: usize, counter: u32) -> bool {
        let rounds = &self.rounds;
        rounds.at.is_some() && rounds.is_answered && counter == rounds.counter(id)
    }

    /// Whether it is open, and nobody has answered for long.
    fn is_unanswered(&self, now: Ns) -> bool {
        self.rounds.at.is_some() && now.since(self.rounds.began) >= LAST_NS
    }

    /// It is used without the proof of a row, because there is no other.
    fn last(&mut self) {
        self.health = Health::Suspect;
        (self.tells_back, self.is_out) = (true, false);
    }

    fn poll_timeout(&self) -> Option<Ns> {
        let opens = match self.work {
            Work::Wait(at) => Some(at),
            _ => None,
        };
        opens.or(self.rounds.at)
    }

    fn handle_timeout(&mut self, now: Ns) {
        if matches!(self.work, Work::Wait(at) if now >= at) {
            self.work = Work::Reopen;
        }
        self.rounds.handle_timeout(now);
    }
}

/// The adapters of a process.
#[derive(Clone, Debug)]
pub struct Adapters {
    all: Vec<Adapter>,
    tells_none: bool,
}

impl Adapters {
    /// Adapters that are open, by their [`AdapterId`], with so many ports each, all of them up.
    /// Those behind the fourth are left out.
    pub fn new(ports: &[u8]) -> Self {
        let all = ports.iter().take(ADAPTERS);
        Self {
            all: all.map(|ports| Adapter::new((*ports).min(31))).collect(),
            tells_none: false,
        }
    }

    /// Something happened to an adapter. What does not fit its state is nothing: news may come
    /// late, twice and in any order.
    pub fn handle(&mut self, id: AdapterId, news: AdapterNews, now: Ns) {
        let had = self.has_any();
        let Some(one) = self.all.get_mut(usize::from(id.0)) else {
            return;
        };
        one.handle(usize::from(id.0), news, now);
        // A row keeps connections from going back to what fails again; here they have nothing.
        let at = usize::from(id.0);
        let is_heard = matches!(news, AdapterNews::Probed(counter) if one.is_answer(at, counter));
        if is_heard && !self.has_any() {
            self.all[at].last();
        }
        let has = self.has_any();
        self.tells_none = (self.tells_none || had) && !has;
    }

    /// Whether there is an adapter that sessions may use.
    pub fn has_any(&self) -> bool {
        self.all.iter().any(|one| !one.is_out)
    }

    /// Whether sessions may use this one.
    pub fn may_use(&self, id: AdapterId) -> bool {
        let one = self.all.get(usize::from(id.0));
        one.is_some_and(|one| !one.is_out)
    }

    /// Whether it is open, so that a datagram may go by it.
    pub fn is_open(&self, id: AdapterId) -> bool {
        let one = self.all.get(usize::from(id.0));
        one.is_some_and(|one| one.work == Work::Open)
    }

    /// The counter of its probe that is under way, and that nobody has answered: it may go once
    /// more, to a peer of whom it is known only now where it is.
    pub fn unanswered_probe(&self, id: AdapterId) -> Option<u32> {
        let at = usize::from(id.0);
        let rounds = self.all.get(at).map(|one| &one.rounds)?;
        let is_under_way = rounds.at.is_some() && !rounds.is_due && !rounds.is_answered;
        is_under_way.then(|| rounds.counter(at))
    }

    /// How it is.
    pub fn health(&self, id: AdapterId) -> Health {
        let one = self.all.get(usize::from(id.0));
        one.map_or(Health::Gone, |one| one.health)
    }

    /// Its first port that is up: the one that its place in the card names.
    pub fn port(&self, id: AdapterId) -> Option<u8> {
        self.all.get(usize::from(id.0))?.port()
    }

    /// Whether this port of it is up.
    pub fn is_up(&self, id: AdapterId, port: u8) -> bool {
        let one = self.all.get(usize::from(id.0));
        one.is_some_and(|one| one.has(port) && one.down & 1 << port == 0)
    }

    /// When [`Adapters::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Ns> {
        self.all.iter().filter_map(Adapter::poll_timeout).min()
    }

    /// The time has come, or has not.
    pub fn handle_timeout(&mut self, now: Ns) {
        for one in &mut self.all {
            one.handle_timeout(now);
        }
        if !self.has_any() {
            let mut all = self.all.iter_mut();
            // All that could answer may be stopped.
            if let Some(one) = all.find(|one| one.is_unanswered(now)) {
                one.last();
            }
        }
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<AdapterStep> {
        for (at, one) in self.all.iter_mut().enumerate() {
            if std::mem::take(&mut one.tells_failed) {
                return Some(AdapterStep::Failed(AdapterId(at as u8)));
            }
        }
        if std::mem::take(&mut self.tells_none) {
            return Some(AdapterStep::NoneLeft);
        }
        let mut all = self.all.iter_mut().enumerate();
        all.find_map(|(at, one)| one.poll(at))
    }
}

impl Adapter {
    fn poll(&mut self, at: usize) -> Option<AdapterStep> {
        let id = AdapterId(at as u8);
        match self.work {
            Work::Close => {
                self.work = Work::Closing;
                return Some(AdapterStep::Close(id));
            }
            Work::Reopen => {
                self.work = Work::Opening;
                return Some(AdapterStep::Reopen(id));
            }
            _ => (),
        }
        if std::mem::take(&mut self.rounds.is_due) {
            let counter = self.rounds.counter(at);
            return Some(AdapterStep::Probe { id, counter });
        }
        std::mem::take(&mut self.tells_back).then_some(AdapterStep::Back(id))
    }
}
