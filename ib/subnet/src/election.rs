//! Which of a subnet's managers is its master (IBA 14.4): the one of the highest priority, of equals that of the lowest GUID; the others stand by, ask it every so often whether it
//! is still there, and take over when it is not.
//!
//! Owns this manager's part in that: its state, and the SMInfo packets that managers exchange by LID. Time comes in, packets go out by [`Election::poll_transmit`]. Must not know how a
//! subnet is swept: who becomes master is to do so.

use ferriband_wire::attributes::{SmInfo, SmState};
use ferriband_wire::mad::{MadStatus, Method};
use ferriband_wire::smp::{Direction, Route, Smp, attribute};
use ferriband_wire::{Guid, Lid, MKey, SmKey, TransactionId};
use std::collections::{BTreeMap, VecDeque};

use crate::manager::Instant;

/// The key that managers of one subnet share, and by which administration trusts who asks, where nobody has chosen another: OpenSM's. OpenSM heeds no manager that shows another than its own.
pub const SM_KEY: SmKey = SmKey(1);
/// A standby asks the master so often, and an answer may take so long, in nanoseconds.
const POLL_NS: u64 = 1_000_000_000;
/// Questions without an answer after which the master is none any more.
const MISSED: u8 = 3;
/// Questions that are under way.
const MOST_ASKED: usize = 64;
/// What a Set of SMInfo is for, by its modifier (IBA 14.4.1, table of control packets).
const HANDOVER: u32 = 1;
const ACKNOWLEDGE: u32 = 2;
const DISABLE: u32 = 3;
const STANDBY: u32 = 4;
const DISCOVER: u32 = 5;

/// What has become of this manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Became {
    /// Nothing else than it was.
    Same,
    /// The master: it is to sweep.
    Master,
    /// A standby: it is to touch nothing.
    Standby,
}

/// What a question is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Question {
    /// Who are you?
    Who,
    /// Are you still there? From a standby.
    Alive,
    /// Take over.
    HandOver,
    /// I have taken over.
    Acknowledge,
}

/// A manager's part.
#[derive(Debug)]
pub struct Election {
    guid: Guid,
    priority: u8,
    state: SmState,
    /// The key by which Sets are let in.
    mkey: MKey,
    /// The key that managers of this subnet know each other by.
    sm_key: SmKey,
    master: Lid,
    missed: u8,
    poll_at: Option<Instant>,
    asked: BTreeMap<u64, (Lid, Question, Instant)>,
    /// The other managers that the last sweeps have found, by their ports' GUIDs, as they said of themselves.
    others: BTreeMap<u64, (Lid, SmInfo)>,
    transmit: VecDeque<(Lid, Smp)>,
    next_transaction: u64,
}

impl Election {
    /// A master that has met nobody. `seed` makes its transactions differ from those of others.
    pub fn new(guid: Guid, priority: u8, mkey: MKey, sm_key: SmKey, seed: u32) -> Election {
        Election {
            guid,
            priority: priority & 0xf,
            state: SmState::MASTER,
            mkey,
            sm_key,
            master: Lid(0),
            missed: 0,
            poll_at: None,
            asked: BTreeMap::new(),
            others: BTreeMap::new(),
            transmit: VecDeque::new(),
            next_transaction: u64::from(seed) << 32 | 1 << 31,
        }
    }

    /// True while it manages the subnet.
    pub fn is_master(&self) -> bool {
        self.state == SmState::MASTER
    }

    /// The master's LID, as a standby knows it.
    pub fn master(&self) -> Lid {
        self.master
    }

    /// What it says of itself; `activity` counts what it has done.
    pub fn info(&self, activity: u32) -> SmInfo {
        SmInfo {
            guid: self.guid,
            activity,
            priority: self.priority,
            state: self.state,
            sm_key: self.sm_key,
        }
    }

    /// True for what a manager of this subnet says: it shows the key, or none, as OpenSM does to whom it does not take for the master (IBA 14.4.4).
    fn is_one_of_us(&self, other: &SmInfo) -> bool {
        other.sm_key == self.sm_key || other.sm_key == SmKey(0)
    }

    /// True if another manager comes before this one.
    fn yields_to(&self, other: &SmInfo) -> bool {
        (other.priority, std::cmp::Reverse(other.guid.0))
            > (self.priority, std::cmp::Reverse(self.guid.0))
    }

    fn ask(&mut self, now: Instant, to: Lid, question: Question, method: Method, modifier: u32) {
        if self.asked.len() >= MOST_ASKED {
            return;
        }
        let mut smp = Smp {
            transaction_id: TransactionId(self.next_transaction),
            mkey: self.mkey,
            route: Route::Lid,
            ..Smp::new(method, attribute::SM_INFO, modifier)
        };
        if smp.set_data(&self.info(0)).is_err() {
            return;
        }
        let due = Instant(now.0.saturating_add(POLL_NS));
        self.asked
            .insert(self.next_transaction, (to, question, due));
        self.next_transaction += 1;
        self.transmit.push_back((to, smp));
    }

    /// A sweep of this master has found other managers, by their LIDs: it asks who they are.
    pub fn swept(&mut self, now: Instant, others: &[Lid]) {
        self.others.retain(|_, (lid, _)| others.contains(lid));
        for lid in others {
            self.ask(now, *lid, Question::Who, Method::GET, 0);
        }
    }

    /// Those, with what they have said of themselves.
    pub fn others(&self) -> impl Iterator<Item = (Lid, SmInfo)> + '_ {
        self.others.values().copied()
    }

    /// The next packet, and the LID that it goes to.
    pub fn poll_transmit(&mut self) -> Option<(Lid, Smp)> {
        self.transmit.pop_front()
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let asked = self.asked.values().map(|(_, _, due)| *due);
        asked.chain(self.poll_at).min()
    }

    /// Questions that were not answered; and the next one to the master.
    pub fn handle_timeout(&mut self, now: Instant) -> Became {
        let late = self.asked.iter().filter(|(_, (_, _, due))| *due <= now);
        let late: Vec<u64> = late.map(|(transaction, _)| *transaction).collect();
        let mut became = Became::Same;
        for transaction in late {
            if let Some((_, Question::Alive, _)) = self.asked.remove(&transaction) {
                became = self.miss();
            }
        }
        if became == Became::Same && self.poll_at.is_some_and(|at| at <= now) {
            self.poll_at = Some(Instant(now.0.saturating_add(POLL_NS)));
            self.ask(now, self.master, Question::Alive, Method::GET, 0);
        }
        became
    }

    /// The master did not answer, or is none.
    fn miss(&mut self) -> Became {
        self.missed += 1;
        match self.missed >= MISSED && self.state == SmState::STANDBY {
            true => self.take_over(),
            false => Became::Same,
        }
    }

    fn take_over(&mut self) -> Became {
        self.state = SmState::MASTER;
        (self.master, self.missed, self.poll_at) = (Lid(0), 0, None);
        self.asked.clear();
        Became::Master
    }

    fn stand_by(&mut self, now: Instant, master: Lid) -> Became {
        let before = std::mem::replace(&mut self.state, SmState::STANDBY);
        (self.master, self.missed) = (master, 0);
        self.poll_at = Some(Instant(now.0.saturating_add(POLL_NS)));
        match before == SmState::STANDBY {
            true => Became::Same,
            false => Became::Standby,
        }
    }

    /// An SMInfo packet came. What is not asked for, or means nothing in this state, changes nothing.
    pub fn handle(&mut self, now: Instant, from: Lid, smp: &Smp, activity: u32) -> Became {
        if smp.attribute != attribute::SM_INFO {
            return Became::Same;
        }
        match smp.method {
            Method::GET_RESP => self.answered(now, from, smp),
            Method::GET => {
                self.answer(from, smp, MadStatus::OK, activity);
                Became::Same
            }
            Method::SET => self.controlled(now, from, smp, activity),
            _ => Became::Same,
        }
    }

    fn answered(&mut self, now: Instant, from: Lid, smp: &Smp) -> Became {
        let transaction = smp.transaction_id.0;
        let Some((to, question, _)) = self.asked.get(&transaction).copied() else {
            return Became::Same;
        };
        if to != from {
            return Became::Same;
        }
        self.asked.remove(&transaction);
        let info = smp.data_as::<SmInfo>().ok();
        let Some(info) = info.filter(|_| smp.status == MadStatus::OK) else {
            return Became::Same;
        };
        if question == Question::Who && self.is_one_of_us(&info) {
            self.others.insert(info.guid.0, (from, info));
        }
        match question {
            Question::Who
                if self.is_master() && self.is_one_of_us(&info) && self.yields_to(&info) =>
            {
                // a manager that only discovers is asked by the next sweep again
                if info.state == SmState::STANDBY || info.state == SmState::MASTER {
                    self.ask(now, from, Question::HandOver, Method::SET, HANDOVER);
                }
                Became::Same
            }
            // its ACKNOWLEDGE need not be waited for, and OpenSM sends none: a standby whose master is none takes over again
            Question::HandOver if self.is_master() => self.stand_by(now, from),
            Question::Alive if self.state == SmState::STANDBY => {
                if info.state == SmState::MASTER {
                    self.missed = 0;
                    return Became::Same;
                }
                self.miss()
            }
            _ => Became::Same,
        }
    }

    /// Another manager tells this one something. Who has not the key of the ports is told nothing (IBA 14.2.4).
    fn controlled(&mut self, now: Instant, from: Lid, smp: &Smp, activity: u32) -> Became {
        if smp.mkey != self.mkey && self.mkey != MKey(0) {
            return Became::Same;
        }
        let known = smp.data_as::<SmInfo>().ok();
        let known = known.filter(|other| other.guid != self.guid && self.is_one_of_us(other));
        let Some(other) = known else {
            self.answer(from, smp, MadStatus::INVALID_FIELD, activity);
            return Became::Same;
        };
        let (became, acknowledges) = match (smp.attribute_modifier, self.state) {
            (HANDOVER, SmState::STANDBY | SmState::NOT_ACTIVE) => (self.take_over(), true),
            // it is already: the other one has not heard of it yet
            (HANDOVER, SmState::MASTER) => (Became::Same, true),
            (ACKNOWLEDGE, SmState::MASTER) if self.yields_to(&other) => {
                (self.stand_by(now, from), false)
            }
            (DISABLE, SmState::STANDBY) => {
                self.state = SmState::NOT_ACTIVE;
                self.poll_at = None;
                (Became::Same, false)
            }
            (STANDBY, SmState::NOT_ACTIVE) => (self.stand_by(now, from), false),
            // a standby that discovers would find the master, and stand by again: it asks it now
            (DISCOVER, SmState::STANDBY) => {
                self.poll_at = Some(now);
                (Became::Same, false)
            }
            _ => {
                self.answer(from, smp, MadStatus::INVALID_FIELD, activity);
                return Became::Same;
            }
        };
        self.answer(from, smp, MadStatus::OK, activity);
        if acknowledges {
            self.ask(now, from, Question::Acknowledge, Method::SET, ACKNOWLEDGE);
        }
        became
    }

    fn answer(&mut self, to: Lid, asked: &Smp, status: MadStatus, activity: u32) {
        let mut answer = Smp {
            method: Method::GET_RESP,
            status,
            mkey: MKey(0),
            ..*asked
        };
        // back the way that it came
        if let Route::Directed(route) = &mut answer.route {
            route.direction = Direction::Returning;
        }
        let mut info = self.info(activity);
        if asked.mkey != self.mkey {
            info.sm_key = SmKey(0);
        }
        if answer.set_data(&info).is_ok() {
            self.transmit.push_back((to, answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two managers and a wire that takes no time; the LID of each is its place and one.
    struct Two {
        managers: [Election; 2],
        alive: [bool; 2],
        became: Vec<(usize, Became)>,
        now: Instant,
    }

    impl Two {
        fn new(priorities: [u8; 2]) -> Two {
            let manager = |at: usize| {
                let guid = Guid(10 + at as u64);
                Election::new(guid, priorities[at], MKey(5), SmKey(6), 7 + at as u32)
            };
            Two {
                managers: [manager(0), manager(1)],
                alive: [true; 2],
                became: Vec::new(),
                now: Instant(0),
            }
        }

        fn carry(&mut self) {
            for _ in 0..100 {
                let mut any = false;
                for from in 0..2 {
                    while let Some((to, smp)) = self.managers[from].poll_transmit() {
                        any = true;
                        let to = usize::from(to.0) - 1;
                        if self.alive[from] && self.alive[to] {
                            let lid = Lid(from as u16 + 1);
                            let became = self.managers[to].handle(self.now, lid, &smp, 0);
                            if became != Became::Same {
                                self.became.push((to, became));
                            }
                        }
                    }
                }
                if !any {
                    return;
                }
            }
            panic!("they talk for ever");
        }

        fn wait(&mut self, ns: u64) {
            let end = self.now.0 + ns;
            while self.now.0 < end {
                self.now.0 += POLL_NS / 4;
                for at in 0..2 {
                    let due = self.managers[at].poll_timeout();
                    if self.alive[at] && due.is_some_and(|due| due <= self.now) {
                        let became = self.managers[at].handle_timeout(self.now);
                        if became != Became::Same {
                            self.became.push((at, became));
                        }
                    }
                }
                self.carry();
            }
        }

        fn masters(&self) -> [bool; 2] {
            [self.managers[0].is_master(), self.managers[1].is_master()]
        }

        /// The second one stands by the first one.
        fn settled(priorities: [u8; 2]) -> Two {
            let mut two = Two::new(priorities);
            two.managers[1].stand_by(two.now, Lid(1));
            two
        }
    }

    #[test]
    fn the_better_one_is_given_the_subnet_and_the_other_stands_by() {
        let mut two = Two::settled([1, 5]);
        two.managers[0].swept(two.now, &[Lid(2)]);
        two.carry();
        assert_eq!(two.masters(), [false, true]);
        assert_eq!(two.became, [(1, Became::Master), (0, Became::Standby)]);
        assert_eq!(two.managers[0].master(), Lid(2));
        // and back, once the better one is gone
        two.alive[1] = false;
        two.wait(POLL_NS * 8);
        assert_eq!(two.became.last(), Some(&(0, Became::Master)));
    }

    #[test]
    fn the_master_stays_while_it_is_there() {
        for priorities in [[5, 1], [3, 3]] {
            let mut two = Two::settled(priorities);
            two.managers[0].swept(two.now, &[Lid(2)]);
            two.wait(POLL_NS * 20);
            assert_eq!(two.masters(), [true, false], "{priorities:?}");
            assert!(two.became.is_empty());
        }
    }

    #[test]
    fn of_two_masters_the_worse_one_gives_up() {
        let mut two = Two::new([2, 4]);
        two.managers[0].swept(two.now, &[Lid(2)]);
        two.managers[1].swept(two.now, &[Lid(1)]);
        two.carry();
        assert_eq!(two.masters(), [false, true]);
    }

    #[test]
    fn a_standby_that_is_to_discover_asks_the_master_at_once_and_stands_by() {
        let mut two = Two::settled([5, 1]);
        let mut discover = Smp {
            mkey: MKey(5),
            ..Smp::new(Method::SET, attribute::SM_INFO, DISCOVER)
        };
        discover.set_data(&two.managers[0].info(0)).unwrap();
        let standby = &mut two.managers[1];
        assert_eq!(standby.handle(two.now, Lid(1), &discover, 0), Became::Same);
        let answer = standby.poll_transmit().unwrap().1;
        assert_eq!(answer.status, MadStatus::OK);
        assert_eq!(standby.poll_timeout(), Some(two.now));
        assert_eq!(standby.handle_timeout(two.now), Became::Same);
        let (to, asked) = standby.poll_transmit().unwrap();
        assert_eq!((to, asked.method), (Lid(1), Method::GET));
        // whether there is a master or not
        two.wait(POLL_NS * 8);
        assert_eq!(two.masters(), [true, false]);
        two.managers[1].handle(two.now, Lid(1), &discover, 0);
        two.alive[0] = false;
        two.wait(POLL_NS * 8);
        assert_eq!(two.became, [(1, Became::Master)]);
    }

    #[test]
    fn what_nobody_asked_for_changes_nothing() {
        let mut two = Two::settled([5, 1]);
        let forged = |method, modifier, guid: u64, priority| {
            let mut smp = Smp {
                mkey: MKey(5),
                ..Smp::new(method, attribute::SM_INFO, modifier)
            };
            let info = SmInfo {
                guid: Guid(guid),
                priority,
                state: SmState::MASTER,
                ..SmInfo::default()
            };
            smp.set_data(&info).unwrap();
            smp
        };
        let master = &mut two.managers[0];
        for smp in [
            forged(Method::GET_RESP, 0, 99, 15),
            forged(Method::SET, ACKNOWLEDGE, 99, 1),
            forged(Method::SET, DISABLE, 99, 15),
            forged(Method::SET, 77, 99, 15),
            forged(Method::SET, ACKNOWLEDGE, 10, 15),
        ] {
            assert_eq!(master.handle(two.now, Lid(9), &smp, 0), Became::Same);
        }
        assert!(master.is_master());
        let standby = &mut two.managers[1];
        let status = |own: &mut Election| own.poll_transmit().unwrap().1.status;
        let acknowledge = forged(Method::SET, ACKNOWLEDGE, 99, 15);
        assert_eq!(
            standby.handle(two.now, Lid(9), &acknowledge, 0),
            Became::Same
        );
        assert_eq!(status(standby), MadStatus::INVALID_FIELD);
        // who has not the ports' key, or another than this subnet's managers, disables nobody
        let disable = forged(Method::SET, DISABLE, 99, 15);
        for key in [0, 4] {
            let stranger = Smp {
                mkey: MKey(key),
                ..disable
            };
            assert_eq!(standby.handle(two.now, Lid(9), &stranger, 0), Became::Same);
            assert!(standby.poll_transmit().is_none(), "he is told nothing");
            assert_eq!(standby.info(0).state, SmState::STANDBY);
        }
        let mut other = disable;
        let mut info: SmInfo = other.data_as().unwrap();
        info.sm_key = SmKey(7);
        other.set_data(&info).unwrap();
        assert_eq!(standby.handle(two.now, Lid(9), &other, 0), Became::Same);
        assert_eq!(status(standby), MadStatus::INVALID_FIELD);
        // the key is shown to whom the port would let in
        for (mkey, shown) in [(5, 6), (4, 0)] {
            let ask = Smp {
                mkey: MKey(mkey),
                ..Smp::new(Method::GET, attribute::SM_INFO, 0)
            };
            assert_eq!(standby.handle(two.now, Lid(9), &ask, 0), Became::Same);
            let info: SmInfo = standby.poll_transmit().unwrap().1.data_as().unwrap();
            assert_eq!(info.sm_key, SmKey(shown));
        }
        assert_eq!(standby.handle(two.now, Lid(9), &disable, 0), Became::Same);
        assert_eq!(status(standby), MadStatus::OK);
        two.alive[0] = false;
        two.wait(POLL_NS * 8);
        assert!(
            !two.managers[1].is_master(),
            "who is disabled takes nothing over"
        );
    }
}
