use super::*;

fn vote(flag: u32, size: u32) -> Vote {
    Vote {
        flags: [flag, u32::MAX],
        failed: Members::none(size),
        acked: Members::none(size),
        context: 7,
    }
}

/// Members without a wire: every word arrives at once, but for those of the dead and to them.
struct Group {
    all: Vec<Agreements>,
    dead: Vec<bool>,
}

impl Group {
    fn of(size: u32) -> Self {
        let all = (0..size).map(|me| Agreements::new(me, size, Members::none(size)));
        Self {
            all: all.collect(),
            dead: vec![false; size as usize],
        }
    }

    fn carry(&mut self) {
        loop {
            let mut moved = false;
            for from in 0..self.all.len() {
                while let Some((to, number, word)) = self.all[from].poll_transmit() {
                    moved = true;
                    if !self.dead[from] && !self.dead[to as usize] {
                        let bytes = word.emit();
                        let size = self.all.len() as u32;
                        assert_eq!(Word::parse(&bytes, size).as_ref(), Some(&word));
                        self.all[to as usize].handle(from as u32, number, word);
                    }
                }
            }
            if !moved {
                return;
            }
        }
    }

    fn kill(&mut self, member: u32) {
        self.dead[member as usize] = true;
        for (other, one) in self.all.iter_mut().enumerate() {
            if !self.dead[other] {
                one.died(member);
            }
        }
    }

    fn decisions(&mut self) -> Vec<Option<(u32, Decision)>> {
        self.all.iter_mut().map(Agreements::poll_decision).collect()
    }
}

#[test]
fn all_decide_the_bits_that_all_have() {
    let mut group = Group::of(3);
    for (member, flag) in [0b111, 0b110, 0b011].into_iter().enumerate() {
        assert_eq!(group.all[member].begin(vote(flag, 3)), 0);
        group.carry();
    }
    for decided in group.decisions() {
        let (number, decision) = decided.expect("it is decided");
        assert_eq!((number, decision.flags[0]), (0, 0b010));
        assert!(decision.is_acked && decision.failed == Members::none(3));
    }
}

#[test]
fn who_has_not_voted_has_failed_and_must_be_acknowledged_by_all() {
    let mut group = Group::of(3);
    group.kill(1);
    let acks = Vote {
        acked: Members::of(3, [1]),
        ..vote(1, 3)
    };
    group.all[0].begin(acks.clone());
    group.all[2].begin(vote(1, 3));
    group.carry();
    let first = group.decisions();
    let (_, decision) = first[2].clone().expect("it is decided");
    assert_eq!(first[0], first[2]);
    assert!(!decision.is_acked && decision.failed == Members::of(3, [1]));
    group.all[0].begin(acks.clone());
    group.all[2].begin(acks);
    group.carry();
    assert!(
        group.decisions()[0]
            .clone()
            .is_some_and(|(_, one)| one.is_acked)
    );
}

#[test]
fn a_leader_that_dies_with_its_proposal_is_followed_by_one_that_keeps_it() {
    let mut group = Group::of(3);
    for member in 0..3 {
        group.all[member].begin(vote(member as u32 | 4, 3));
    }
    for member in 1..3 {
        let (_, number, word) = group.all[member].poll_transmit().expect("a vote");
        group.all[0].handle(member as u32, number, word);
    }
    // Its proposal reaches the next leader alone.
    let proposals: Vec<Letter> = std::iter::from_fn(|| group.all[0].poll_transmit()).collect();
    assert_eq!(proposals.len(), 2);
    let (to, number, word) = proposals[0].clone();
    group.all[to as usize].handle(0, number, word.clone());
    group.kill(0);
    group.carry();
    let Word::Propose(proposed) = word else {
        panic!("a proposal");
    };
    let decided = group.decisions();
    assert_eq!(decided[1], Some((0, proposed)));
    assert_eq!(decided[1], decided[2]);
}

#[test]
fn who_has_decided_tells_the_next_leader() {
    let mut group = Group::of(3);
    for member in 0..3 {
        group.all[member].begin(vote(1, 3));
    }
    for _ in 0..2 {
        for member in 1..3 {
            while let Some((_, number, word)) = group.all[member].poll_transmit() {
                group.all[0].handle(member as u32, number, word);
            }
        }
        while let Some((to, number, word)) = group.all[0].poll_transmit() {
            // Member 1 is not told that it is decided.
            if to == 2 || !matches!(word, Word::Decide(_)) {
                group.all[to as usize].handle(0, number, word);
            }
        }
    }
    group.kill(0);
    group.carry();
    let decided = group.decisions();
    assert!(decided[1].is_some() && decided[1] == decided[2]);
}

#[test]
fn a_vote_that_comes_before_the_last_decision_is_kept() {
    let mut group = Group::of(3);
    for member in 0..3 {
        group.all[member].begin(vote(1, 3));
    }
    let mut decide = None;
    for _ in 0..2 {
        for member in 1..3 {
            while let Some((_, number, word)) = group.all[member].poll_transmit() {
                group.all[0].handle(member as u32, number, word);
            }
        }
        while let Some((to, number, word)) = group.all[0].poll_transmit() {
            match word {
                Word::Decide(_) if to == 2 => decide = Some(word),
                Word::Decide(_) => (),
                _ => group.all[to as usize].handle(0, number, word),
            }
        }
    }
    // Member 2 hears of the death before the last word of the dead, and goes on behind that.
    group.dead[0] = true;
    group.all[2].died(0);
    group.all[2].handle(0, 0, decide.expect("it has decided"));
    group.all[2].begin(vote(4, 3));
    group.carry();
    group.all[1].died(0);
    group.all[1].begin(vote(6, 3));
    group.carry();
    for member in 1..3 {
        let found: Vec<u32> = std::iter::from_fn(|| group.all[member].poll_decision())
            .map(|(_, decision)| decision.flags[0])
            .collect();
        assert_eq!(found, [1, 4], "member {member}");
    }
}

#[test]
fn agreements_that_begin_together_are_decided_one_after_the_other() {
    let mut group = Group::of(2);
    assert_eq!(group.all[0].begin(vote(3, 2)), 0);
    assert_eq!(group.all[0].begin(vote(5, 2)), 1);
    group.carry();
    assert_eq!(group.all[1].begin(vote(1, 2)), 0);
    assert_eq!(group.all[1].begin(vote(4, 2)), 1);
    group.carry();
    for one in &mut group.all {
        let found: Vec<(u32, u32)> = std::iter::from_fn(|| one.poll_decision())
            .map(|(number, decision)| (number, decision.flags[0]))
            .collect();
        assert_eq!(found, [(0, 1), (1, 4)]);
    }
}

#[test]
fn bytes_that_no_member_sends_are_no_word() {
    let decision = Decision {
        flags: [1, 2],
        failed: Members::of(3, [2]),
        is_acked: true,
        context: 9,
    };
    let ballot = Word::Vote(vote(1, 3));
    assert_eq!(Word::parse(&ballot.emit(), 3), Some(ballot));
    let word = Word::Decide(decision);
    let bytes = word.emit();
    assert_eq!(Word::parse(&bytes, 3), Some(word));
    assert_eq!(Word::parse(&bytes, 2), None, "a failed member of nobody");
    assert_eq!(Word::parse(&bytes[..bytes.len() - 8], 3), None);
    assert_eq!(Word::parse(&bytes[..bytes.len() - 1], 3), None);
    assert_eq!(Word::parse(&[], 3), None);
    assert_eq!(Word::parse(&77_u64.to_le_bytes(), 3), None);
}

#[test]
fn what_all_have_freed_is_forgotten_by_all() {
    let mut group = Group::of(3);
    for member in 0..3 {
        group.all[member].begin(vote(1, 3));
    }
    group.carry();
    for member in 0..3 {
        assert!(group.all.iter().all(|one| !one.is_forgotten()));
        group.all[member].free();
        group.carry();
    }
    assert!(group.all.iter().all(Agreements::is_forgotten));
}

#[test]
fn who_leads_after_a_death_has_the_others_forget() {
    let mut group = Group::of(4);
    for member in 0..4 {
        group.all[member].begin(vote(1, 4));
    }
    group.carry();
    for member in 1..4 {
        group.all[member].free();
        group.carry();
    }
    // The leader has not freed it, and dies.
    group.kill(0);
    group.carry();
    assert!(group.all[1..].iter().all(Agreements::is_forgotten));
}

#[test]
fn a_leader_that_is_wrong_makes_nobody_forget() {
    let mut group = Group::of(2);
    group.all[1].handle(0, 0, Word::Forget);
    assert!(!group.all[1].is_forgotten());
    group.all[1].begin(vote(1, 2));
    group.all[1].free();
    group.all[1].handle(0, 0, Word::Forget);
    assert!(!group.all[1].is_forgotten(), "it waits for a decision");
}
