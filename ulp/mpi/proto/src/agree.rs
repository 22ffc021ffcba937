//! How the members of a communicator agree although some of them die.
//!
//! The lowest member that lives is the leader. Each member sends it a vote; when all that live have
//! voted, the leader proposes a decision, and when all that live have accepted that, it is decided.
//! Who learns that the leader has died votes anew, to the next one. A leader proposes what it has
//! itself accepted last, if it has: it was among those without whom nothing is decided. So whatever
//! one member has decided all others decide, even if that one is dead by then (uniform agreement; a
//! leader that changes as in Chandra and Toueg 1996, section 6, with a detector that is never
//! wrong).
//!
//! A member keeps the last decision for those who may still ask. When its program has freed the
//! communicator it tells the leader; once all that live have done so, all have decided, and the
//! leader has all forget what they keep.
//!
//! Owns: the agreements of one communicator, one after the other. Must not know: who finds out who
//! has died, by what a word travels, what is agreed about. A member that is said to be dead has to
//! be dead, and all that live hear of it in the end.

mod words;

use std::collections::VecDeque;
pub use words::Members;

/// What a member brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The bits of both sides: all bits of the one that it does not belong to.
    pub flags: [u32; 2],
    /// Members that it knows to have failed.
    pub failed: Members,
    /// Those of them that its program has acknowledged.
    pub acked: Members,
    /// A context that it leads and that nobody has used.
    pub context: u64,
}

/// What is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The bits that all votes of a side have.
    pub flags: [u32; 2],
    /// Members that have failed.
    pub failed: Members,
    /// All of them are acknowledged by all who have voted.
    pub is_acked: bool,
    /// The leader's context.
    pub context: u64,
}

/// What members say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// To the leader: a vote.
    Vote(Vote),
    /// The leader's: shall it be this?
    Propose(Decision),
    /// To the leader: yes.
    Accept,
    /// It is decided.
    Decide(Decision),
    /// To the leader, which tells the others when it is one: this member's program has freed the
    /// communicator, and all that it has voted for is decided.
    Freed,
    /// All have freed it: nobody asks for the last decision any more.
    Forget,
}

/// One agreement.
#[derive(Debug)]
struct Agreement {
    own: Vote,
    /// The leader whose proposal was answered last: proposals of those before it are refused.
    round: u32,
    /// What was accepted last.
    accepted: Option<Decision>,
    /// What members have sent to this one, as a leader, and who has.
    votes: Vec<Option<Vote>>,
    voted: Members,
    /// What this one has proposed as a leader, and who has accepted it.
    proposed: Option<(Decision, Members)>,
}

/// A word for a member: the member, the number of the agreement, the word.
pub type Letter = (u32, u32, Word);

/// The agreements of a communicator at one member.
#[derive(Debug)]
pub struct Agreements {
    me: u32,
    size: u32,
    dead: Members,
    /// Number of the agreement that is under way or comes next.
    number: u32,
    now: Option<Agreement>,
    /// The last decision.
    last: Option<Decision>,
    /// Votes of agreements that begin when those before them are over.
    waiting: VecDeque<Vote>,
    /// Words of an agreement that has not begun here.
    early: Vec<Letter>,
    out: VecDeque<Letter>,
    over: VecDeque<(u32, Decision)>,
    /// This member's program has freed the communicator.
    is_freed: bool,
    /// Members that have said so of theirs.
    freed: Members,
    is_forgotten: bool,
}

impl Agreements {
    /// Of member `me` of `size`, of whom `dead` have died.
    pub fn new(me: u32, size: u32, dead: Members) -> Self {
        Self {
            me,
            size,
            dead,
            number: 0,
            now: None,
            last: None,
            waiting: VecDeque::new(),
            early: Vec::new(),
            out: VecDeque::new(),
            over: VecDeque::new(),
            is_freed: false,
            freed: Members::none(size),
            is_forgotten: false,
        }
    }

    /// This member begins its next agreement; its number.
    pub fn begin(&mut self, vote: Vote) -> u32 {
        let ahead = self.waiting.len() as u32 + u32::from(self.now.is_some());
        self.waiting.push_back(vote);
        let number = self.number.wrapping_add(ahead);
        self.start_next();
        number
    }

    /// A word of member `from` about agreement `number` has come.
    pub fn handle(&mut self, from: u32, number: u32, word: Word) {
        if from >= self.size {
            return;
        }
        match word {
            Word::Freed => {
                self.freed.insert(from);
                return self.have_all_forget();
            }
            Word::Forget => return self.forget(),
            _ => (),
        }
        if number.wrapping_add(1) == self.number {
            self.answer(from, number, &word);
        } else if number == self.number && self.now.is_some() {
            self.take(from, word);
        } else if self.is_next(number) && self.early.len() < self.size as usize * EARLY {
            self.early.push((from, number, word));
        }
    }

    /// Member `member` has died.
    pub fn died(&mut self, member: u32) {
        if member >= self.size || self.dead.contains(member) {
            return;
        }
        let before = self.leader();
        self.dead.insert(member);
        let has_new_leader = self.leader() != before;
        if has_new_leader {
            self.pass_on();
        }
        match self.now.is_some() {
            true if has_new_leader => self.vote(),
            true => self.lead(),
            false if has_new_leader => self.say_freed(),
            false => self.have_all_forget(),
        }
    }

    /// This member's program has freed the communicator: it begins no agreement any more.
    pub fn free(&mut self) {
        self.is_freed = true;
        self.say_freed();
    }

    /// All that live have freed the communicator: nothing of this is needed any more, once what is
    /// to be sent is.
    pub fn is_forgotten(&self) -> bool {
        self.is_forgotten
    }

    /// This member answers nobody any more: those who may still ask for its last decision have it.
    pub fn part(&mut self) {
        self.tell_all();
    }

    /// A word that is to be sent.
    pub fn poll_transmit(&mut self) -> Option<Letter> {
        self.out.pop_front()
    }

    /// An agreement that is decided, in their order.
    pub fn poll_decision(&mut self) -> Option<(u32, Decision)> {
        self.over.pop_front()
    }

    fn leader(&self) -> u32 {
        let mut living = (0..self.size).filter(|member| !self.dead.contains(*member));
        living.next().unwrap_or(self.me)
    }

    /// Whether an agreement has not begun here and may have begun elsewhere: the one after that
    /// which is under way, too, for others may know the decision that this member still waits for.
    /// No one is further ahead, for that takes this member's vote.
    fn is_next(&self, number: u32) -> bool {
        let ahead = number.wrapping_sub(self.number);
        ahead == u32::from(self.now.is_some()) || ahead == 1
    }

    /// Whether all others that live are among these.
    fn has_all_others(&self, members: &Members) -> bool {
        let mut all = members.clone();
        all.add(&self.dead);
        all.insert(self.me);
        all.has_all(self.size)
    }

    /// The others that live.
    fn others(&self) -> Vec<u32> {
        let is_other = |member: &u32| *member != self.me && !self.dead.contains(*member);
        (0..self.size).filter(is_other).collect()
    }

    fn send(&mut self, to: u32, word: Word) {
        self.out.push_back((to, self.number, word));
    }

    fn start_next(&mut self) {
        if self.now.is_some() {
            return;
        }
        let Some(own) = self.waiting.pop_front() else {
            return;
        };
        self.now = Some(Agreement {
            own,
            round: 0,
            accepted: None,
            votes: (0..self.size).map(|_| None).collect(),
            voted: Members::none(self.size),
            proposed: None,
        });
        self.vote();
        for (from, of, word) in std::mem::take(&mut self.early) {
            self.handle(from, of, word);
        }
    }

    /// Votes, with the leader that there is.
    fn vote(&mut self) {
        let leader = self.leader();
        let Some(now) = &mut self.now else { return };
        now.round = now.round.max(leader);
        let own = now.own.clone();
        if leader == self.me {
            now.votes[leader as usize] = Some(own);
            now.voted.insert(leader);
            self.lead();
        } else {
            self.send(leader, Word::Vote(own));
        }
    }

    /// What the leader does that has heard something.
    fn lead(&mut self) {
        if self.leader() != self.me {
            return;
        }
        let Some(now) = &self.now else { return };
        if now.proposed.is_none() {
            if !self.has_all_others(&now.voted) {
                return;
            }
            let others = self.others();
            let Some(now) = &mut self.now else { return };
            let before = now.accepted.take();
            let decision =
                before.unwrap_or_else(|| decide(&now.votes, &self.dead, now.own.context));
            let mut accepts = Members::none(self.size);
            accepts.insert(self.me);
            now.round = self.me;
            now.accepted = Some(decision.clone());
            now.proposed = Some((decision.clone(), accepts));
            for member in &others {
                self.send(*member, Word::Propose(decision.clone()));
            }
        }
        if let Some((decision, accepts)) = self.now.as_ref().and_then(|now| now.proposed.as_ref())
            && self.has_all_others(accepts)
        {
            let decision = decision.clone();
            self.end(decision);
        }
    }

    /// A word about the agreement that is under way.
    fn take(&mut self, from: u32, word: Word) {
        let Some(now) = &mut self.now else { return };
        match word {
            Word::Vote(vote) => {
                now.votes[from as usize] = Some(vote);
                now.voted.insert(from);
                self.lead();
            }
            Word::Propose(_) if from < now.round => (),
            Word::Propose(decision) => {
                now.round = from;
                now.accepted = Some(decision);
                self.send(from, Word::Accept);
            }
            Word::Accept => {
                if let Some((_, accepts)) = &mut now.proposed {
                    accepts.insert(from);
                }
                self.lead();
            }
            Word::Decide(decision) => self.end(decision),
            // no word about an agreement
            Word::Freed | Word::Forget => (),
        }
    }

    /// A word about the last agreement, which is over here.
    fn answer(&mut self, from: u32, number: u32, word: &Word) {
        let answer = match (word, &self.last) {
            (Word::Vote(_), Some(decision)) => Word::Decide(decision.clone()),
            (Word::Propose(_), _) => Word::Accept,
            _ => return,
        };
        self.out.push_back((from, number, answer));
    }

    /// It is decided.
    fn end(&mut self, decision: Decision) {
        let Some(now) = self.now.take() else { return };
        let number = self.number;
        self.number = number.wrapping_add(1);
        self.last = Some(decision.clone());
        self.over.push_back((number, decision.clone()));
        if self.leader() == self.me {
            self.tell_all();
        } else {
            // Those who know already that this one is the leader.
            for (voter, vote) in (0..).zip(&now.votes) {
                if vote.is_some() && voter != self.me {
                    let word = Word::Decide(decision.clone());
                    self.out.push_back((voter, number, word));
                }
            }
        }
        self.start_next();
        self.say_freed();
    }

    /// Whether this member's program has freed the communicator and waits for no decision.
    fn has_freed(&self) -> bool {
        self.is_freed && self.now.is_none() && self.waiting.is_empty()
    }

    /// The leader hears that this member has freed the communicator. One that leads because others
    /// have died says it to all: who has forgotten already, as the last leader had it do, answers.
    fn say_freed(&mut self) {
        if !self.has_freed() {
            return;
        }
        let leader = self.leader();
        if leader != self.me {
            return self.send(leader, Word::Freed);
        }
        if self.me != 0 {
            for member in self.others() {
                self.send(member, Word::Freed);
            }
        }
        self.have_all_forget();
    }

    /// The leader has all forget, once all have freed the communicator.
    fn have_all_forget(&mut self) {
        if self.has_freed() && self.leader() == self.me && self.has_all_others(&self.freed) {
            self.forget();
        }
    }

    fn forget(&mut self) {
        // a leader that says so too early is wrong
        if !self.has_freed() || self.is_forgotten {
            return;
        }
        self.is_forgotten = true;
        if self.leader() == self.me {
            for member in self.others() {
                self.send(member, Word::Forget);
            }
        }
    }

    /// There is a new leader: it gets the last decision, or all others have it from this one.
    fn pass_on(&mut self) {
        let leader = self.leader();
        if leader == self.me {
            self.tell_all();
        } else if let Some(decision) = &self.last {
            let word = Word::Decide(decision.clone());
            self.out
                .push_back((leader, self.number.wrapping_sub(1), word));
        }
    }

    fn tell_all(&mut self) {
        let Some(decision) = self.last.clone() else {
            return;
        };
        let number = self.number.wrapping_sub(1);
        for member in self.others() {
            let word = Word::Decide(decision.clone());
            self.out.push_back((member, number, word));
        }
    }
}

/// Words of one member about agreements that have not begun here, at most: a vote and a decision of
/// each of two.
const EARLY: usize = 4;

/// What votes come to.
fn decide(votes: &[Option<Vote>], dead: &Members, context: u64) -> Decision {
    let all = || votes.iter().flatten();
    let (mut flags, mut failed) = ([u32::MAX; 2], dead.clone());
    for vote in all() {
        flags[0] &= vote.flags[0];
        flags[1] &= vote.flags[1];
        failed.add(&vote.failed);
    }
    for (member, vote) in (0..).zip(votes) {
        if vote.is_none() {
            failed.insert(member);
        }
    }
    Decision {
        flags,
        is_acked: all().all(|vote| vote.acked.contains_all(&failed)),
        failed,
        context,
    }
}

#[cfg(test)]
mod tests;
