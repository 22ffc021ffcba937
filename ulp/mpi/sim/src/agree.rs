//! Members of a communicator that agree while some of them die (the ULFM extension).
//!
//! Owns: a world of members that vote, stop between any two words, learn of deaths late, die with
//! words of theirs on the way, and leave; and the faults that show that a broken rule is found
//! ([`Fault`]). Must not know: MPI, a clock. What it hunts: two decisions of one agreement, that of
//! a member included which died after it (A1); one that has as failed who lives, or bits that no
//! vote has or that a member's vote lacks which has not failed (A2); one that is called
//! acknowledged and is not (A3); members that live and wait for ever (A4); a member that forgets
//! what another one may still ask for (A5); and members that keep what nobody asks for any more
//! (A6).

use crate::Rng;
use ferriband_mpi_proto::agree::{Agreements, Decision, Letter, Members, Vote, Word};
use std::collections::VecDeque;

/// What is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A leader decides without waiting for those who are to accept.
    DecidesUnaccepted,
    /// A proposal of a leader that has died counts as one of the leader that there is.
    TakesOldProposals,
    /// Who has decided tells a new leader nothing.
    KeepsDecision,
    /// Who learns that the leader has died does not vote anew.
    StaysWithLeader,
    /// Who has decided answers nobody that asks late.
    AnswersNobody,
    /// Who leaves does not tell its last decision.
    LeavesSilently,
    /// A leader has all forget when it has freed the communicator itself.
    ForgetsEarly,
    /// Who has freed the communicator does not say so to a new leader.
    KeepsFreed,
    /// Who has forgotten answers no new leader.
    ForgetsSilently,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::DecidesUnaccepted,
        Self::TakesOldProposals,
        Self::KeepsDecision,
        Self::StaysWithLeader,
        Self::AnswersNobody,
        Self::LeavesSilently,
        Self::ForgetsEarly,
        Self::KeepsFreed,
        Self::ForgetsSilently,
    ];
}

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Agreements decided, each member's counted.
    pub decisions: u64,
    /// Members that died.
    pub deaths: u64,
    /// Of these, leaders.
    pub leaders: u64,
    /// Words that died with their sender.
    pub lost: u64,
    /// Members that left while others were still at it.
    pub left: u64,
    /// Members that forgot, as nobody asks any more.
    pub forgotten: u64,
}

/// One member.
struct Member {
    agreements: Agreements,
    /// What it is about to send.
    out: VecDeque<Letter>,
    lives: bool,
    has_left: bool,
    /// Deaths that it knows of, in the order in which it has learned of them.
    knows: Vec<u32>,
    votes: Vec<Vote>,
    decided: usize,
    /// Its program has freed the communicator.
    has_freed: bool,
    /// It keeps nothing any more, and answers a member that says that it has freed the
    /// communicator.
    has_forgotten: bool,
}

struct World {
    rng: Rng,
    fault: Option<Fault>,
    size: u32,
    rounds: usize,
    /// Of a thousand steps so many are deaths, while there is somebody who may die.
    per_mille: u64,
    /// Members may leave.
    leaves: bool,
    members: Vec<Member>,
    /// Words on the way, by sender and receiver.
    wires: Vec<Vec<VecDeque<(u32, Word)>>>,
    dead: Vec<u32>,
    decisions: Vec<Option<Decision>>,
    report: Report,
}

/// What can be done next.
#[derive(Clone, Copy)]
enum Step {
    Begin(usize),
    Send(usize),
    Take(usize, usize),
    Learn(usize, u32),
    Die(usize),
    Leave(usize),
    Free(usize),
}

/// Runs one seed; what broke a law if one was broken. The same seed and fault give the same run.
pub fn run_seed(seed: u64, fault: Option<Fault>) -> Result<Report, String> {
    let mut world = World::new(seed, fault);
    let told = world.run();
    told.map_err(|what| format!("seed {seed}: {what}"))
}

impl World {
    fn new(seed: u64, fault: Option<Fault>) -> Self {
        let mut rng = Rng(seed);
        let size = 2 + rng.below(6) as u32;
        let rounds = 1 + rng.below(4) as usize;
        let per_mille = [10, 40, 150][rng.below(3) as usize];
        let leaves = rng.chance(500);
        let member = |me| Member {
            agreements: Agreements::new(me, size, Members::none(size)),
            out: VecDeque::new(),
            lives: true,
            has_left: false,
            knows: Vec::new(),
            votes: Vec::new(),
            decided: 0,
            has_freed: false,
            has_forgotten: false,
        };
        let wires = || (0..size).map(|_| VecDeque::new()).collect();
        Self {
            members: (0..size).map(member).collect(),
            wires: (0..size).map(|_| wires()).collect(),
            decisions: vec![None; rounds],
            rng,
            fault,
            size,
            rounds,
            per_mille,
            leaves,
            dead: Vec::new(),
            report: Report::default(),
        }
    }

    fn run(&mut self) -> Result<Report, String> {
        loop {
            let steps = self.steps();
            if steps.is_empty() {
                break;
            }
            let at = self.rng.below(steps.len() as u64) as usize;
            self.take_step(steps[at])?;
        }
        let waits = |member: &Member| member.lives && member.decided < self.rounds;
        if let Some(member) = self.members.iter().position(waits) {
            return Err(format!("A4: member {member} waits for ever"));
        }
        // Who has left says nothing, so the others cannot know.
        let keeps = |member: &Member| member.lives && !member.has_forgotten;
        let has_any_left = self.members.iter().any(|member| member.has_left);
        match self.members.iter().position(keeps) {
            Some(member) if !has_any_left => Err(format!("A6: member {member} forgets nothing")),
            _ => Ok(self.report),
        }
    }

    /// All that can be done. Deaths are rare, and somebody lives on; words of the dead come late.
    fn steps(&mut self) -> Vec<Step> {
        let (mut steps, mut last_words) = (Vec::new(), Vec::new());
        let mut is_over = true;
        for (at, member) in self.members.iter().enumerate().filter(|(_, one)| one.lives) {
            is_over &= member.has_forgotten;
            if member.has_left {
                continue;
            }
            if member.decided == self.rounds && !member.has_freed {
                steps.push(Step::Free(at));
            }
            let is_idle = member.decided == member.votes.len();
            if member.votes.len() < self.rounds && (is_idle || self.rng.chance(100)) {
                steps.push(Step::Begin(at));
            }
            if !member.out.is_empty() {
                steps.push(Step::Send(at));
            }
            let unknown = self.dead.iter().find(|dead| !member.knows.contains(dead));
            if let Some(dead) = unknown {
                steps.push(Step::Learn(at, *dead));
            }
            let may_leave = member.decided == self.rounds && !member.knows.is_empty();
            if may_leave && member.out.is_empty() && self.leaves {
                steps.push(Step::Leave(at));
            }
            for from in 0..self.members.len() {
                if !self.wires[from][at].is_empty() {
                    match self.members[from].lives {
                        true => steps.push(Step::Take(from, at)),
                        false => last_words.push(Step::Take(from, at)),
                    }
                }
            }
        }
        if steps.is_empty() || self.rng.chance(100) {
            steps.extend(last_words);
        }
        let living = self.members.iter().filter(|one| one.lives && !one.has_left);
        if !is_over && living.count() > 1 && self.rng.chance(self.per_mille) {
            let victim = self.rng.below(self.members.len() as u64) as usize;
            let victim_lives = self.members[victim].lives && !self.members[victim].has_left;
            if victim_lives && self.dead.len() + 1 < self.members.len() {
                return vec![Step::Die(victim)];
            }
        }
        steps
    }

    fn take_step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Begin(at) => {
                let vote = self.vote(at);
                let member = &mut self.members[at];
                member.agreements.begin(vote.clone());
                member.votes.push(vote);
                self.after(at, |_| true)
            }
            Step::Send(at) => {
                let Some((to, number, word)) = self.members[at].out.pop_front() else {
                    return Ok(());
                };
                let is_proposal = matches!(word, Word::Propose(_));
                self.wires[at][to as usize].push_back((number, word));
                if is_proposal && self.fault == Some(Fault::DecidesUnaccepted) {
                    let agreements = &mut self.members[at].agreements;
                    agreements.handle(to, number, Word::Accept);
                    return self.after(at, |_| true);
                }
                Ok(())
            }
            Step::Take(from, at) => self.take(from, at),
            Step::Learn(at, dead) => {
                let has_decided = self.members[at].decided == self.members[at].votes.len();
                self.members[at].knows.push(dead);
                self.members[at].agreements.died(dead);
                let fault = self.fault;
                self.after(at, |word| match fault {
                    Some(Fault::KeepsDecision) => !(has_decided && matches!(word, Word::Decide(_))),
                    Some(Fault::StaysWithLeader) => !matches!(word, Word::Vote(_)),
                    Some(Fault::KeepsFreed) => *word != Word::Freed,
                    _ => true,
                })
            }
            Step::Die(at) => {
                self.die(at);
                Ok(())
            }
            Step::Free(at) => {
                let member = &mut self.members[at];
                member.has_freed = true;
                if self.fault == Some(Fault::ForgetsEarly) {
                    for other in 0..self.size {
                        member.agreements.handle(other, 0, Word::Freed);
                    }
                }
                member.agreements.free();
                self.after(at, |_| true)
            }
            Step::Leave(at) => {
                if self.fault != Some(Fault::LeavesSilently) {
                    self.members[at].agreements.part();
                    self.after(at, |_| true)?;
                }
                while let Some((to, number, word)) = self.members[at].out.pop_front() {
                    self.wires[at][to as usize].push_back((number, word));
                }
                self.members[at].has_left = true;
                let waits = |one: &Member| one.lives && one.decided < self.rounds;
                self.report.left += u64::from(self.members.iter().any(waits));
                Ok(())
            }
        }
    }

    fn take(&mut self, from: usize, at: usize) -> Result<(), String> {
        let Some((number, word)) = self.wires[from][at].pop_front() else {
            return Ok(());
        };
        let mut sender = from as u32;
        let bytes = word.emit();
        if Word::parse(&bytes, self.size).as_ref() != Some(&word) {
            return Err(format!("{word:?} is not what its bytes say"));
        }
        if self.fault == Some(Fault::TakesOldProposals) && matches!(word, Word::Propose(_)) {
            let knows = &self.members[at].knows;
            let leader = (0..self.size).find(|member| !knows.contains(member));
            sender = leader.unwrap_or(sender).max(sender);
        }
        if self.members[at].has_forgotten {
            if word == Word::Freed && self.fault != Some(Fault::ForgetsSilently) {
                let answer = (from as u32, number, Word::Forget);
                self.members[at].out.push_back(answer);
            }
            return Ok(());
        }
        let is_late = (number as usize) < self.members[at].decided;
        self.members[at].agreements.handle(sender, number, word);
        let is_mute = is_late && self.fault == Some(Fault::AnswersNobody);
        self.after(at, |_| !is_mute)
    }

    /// What a member brings: bits, the deaths that it knows of, some of them acknowledged.
    fn vote(&mut self, at: usize) -> Vote {
        let knows = self.members[at].knows.clone();
        let acked = match self.rng.chance(500) {
            true => knows.len(),
            false => self.rng.below(knows.len() as u64 + 1) as usize,
        };
        Vote {
            flags: [self.rng.next_u64() as u32, u32::MAX],
            acked: Members::of(self.size, knows[..acked].iter().copied()),
            failed: Members::of(self.size, knows),
            context: self.rng.next_u64(),
        }
    }

    /// A member has done something: what it sends of it, and the laws of what it has decided.
    fn after(&mut self, at: usize, keeps: impl Fn(&Word) -> bool) -> Result<(), String> {
        let member = &mut self.members[at];
        while let Some(letter) = member.agreements.poll_transmit() {
            if keeps(&letter.2) {
                member.out.push_back(letter);
            }
        }
        while let Some((number, decision)) = self.members[at].agreements.poll_decision() {
            let number = number as usize;
            if number != self.members[at].decided {
                return Err(format!("member {at} decides {number} out of order"));
            }
            self.members[at].decided += 1;
            self.report.decisions += 1;
            self.check(at, number, &decision)?;
            match &self.decisions[number] {
                Some(other) if *other != decision => {
                    return Err(format!("A1: {number} is {other:?} and {decision:?}"));
                }
                _ => self.decisions[number] = Some(decision),
            }
        }
        let member = &mut self.members[at];
        if member.agreements.is_forgotten() && !member.has_forgotten {
            member.has_forgotten = true;
            self.report.forgotten += 1;
            let needs = |one: &Member| one.lives && one.decided < one.votes.len();
            let asks = |one: &Member| needs(one) || one.lives && !one.has_left && !one.has_freed;
            if let Some(other) = self.members.iter().position(asks) {
                return Err(format!(
                    "A5: member {at} forgets, and member {other} may ask"
                ));
            }
        }
        Ok(())
    }

    fn check(&self, at: usize, number: usize, decision: &Decision) -> Result<(), String> {
        let lives = |member: u32| !self.dead.contains(&member);
        if let Some(member) = decision.failed.iter().find(|member| lives(*member)) {
            return Err(format!("A2: member {member} lives, says member {at}"));
        }
        let mut all = u32::MAX;
        let mut is_acked = true;
        for (member, one) in (0..).zip(&self.members) {
            let Some(vote) = one.votes.get(number) else {
                if !decision.failed.contains(member) {
                    return Err(format!("A2: member {member} has not voted"));
                }
                continue;
            };
            all &= vote.flags[0];
            if !decision.failed.contains(member) {
                is_acked &= vote.acked.contains_all(&decision.failed);
                if decision.flags[0] & !vote.flags[0] != 0 {
                    return Err(format!("A2: a bit that member {member} has not"));
                }
            }
        }
        if all & !decision.flags[0] != 0 {
            return Err("A2: a bit is missing that all have".to_owned());
        }
        if decision.is_acked && !is_acked {
            return Err("A3: not all have acknowledged".to_owned());
        }
        Ok(())
    }

    /// A member dies: what it was about to send is lost, and the last words on each of its wires
    /// may be.
    fn die(&mut self, at: usize) {
        let me = at as u32;
        let is_leader = (0..me).all(|lower| self.dead.contains(&lower));
        self.report.deaths += 1;
        self.report.leaders += u64::from(is_leader);
        self.members[at].lives = false;
        self.members[at].out.clear();
        self.dead.push(me);
        for to in 0..self.members.len() {
            self.wires[to][at].clear();
            let wire = &mut self.wires[at][to];
            let stays = self.rng.below(wire.len() as u64 + 1) as usize;
            self.report.lost += (wire.len() - stays) as u64;
            wire.truncate(stays);
        }
    }
}
