//! What must hold: the laws of docs/design/heal.md, of connections; those of
//! messages and memory are in [`super::letter`], those of blocks in [`super::block`].

use super::wire::{Completion, Outcome, QueuePair, QueuePairState};
use ferriband_heal::{Cause, Datagram, Epoch, Ns, Number, Reason};
use std::collections::{BTreeMap, VecDeque};

/// So much silence, and no less, loses a peer.
const HEAL_FOR_NS: u64 = 300_000_000_000;
/// Lives that may begin within a second while no message is taken at either end. Each side asks
/// three times at once and ten times with pauses of 1 ms, doubled; and one of them may begin anew
/// when it hears from the peer's word of a message that was taken long before.
const LIVES: usize = 45;

/// A life of a pair of ranks, the lower one first.
#[derive(Clone, Debug, Default)]
struct Life {
    ends: Option<[usize; 2]>,
    is_open: [bool; 2],
    /// Something has happened that may end it.
    is_spoiled: bool,
}

type Pair = (usize, usize);

pub struct Laws {
    lives: BTreeMap<(Pair, u32), Life>,
    /// When a rank last heard of another one.
    contacts: Vec<Vec<Ns>>,
    /// Lives that were open at a rank.
    opened: Vec<Vec<u32>>,
}

fn pair(one: usize, other: usize) -> Pair {
    (one.min(other), one.max(other))
}

impl Laws {
    pub fn new(ranks: usize) -> Self {
        Self {
            lives: BTreeMap::new(),
            contacts: vec![vec![Ns(0); ranks]; ranks],
            opened: vec![vec![0; ranks]; ranks],
        }
    }

    fn life(&mut self, one: usize, other: usize, epoch: Epoch) -> &mut Life {
        self.lives.entry((pair(one, other), epoch.0)).or_default()
    }

    /// A rank has heard of another one.
    pub fn contact(&mut self, me: usize, peer: usize, now: Ns) {
        self.contacts[me][peer] = now;
    }

    /// Something happens to a queue pair that may end its life.
    pub fn spoil(&mut self, one: &QueuePair) {
        self.life(one.owner, one.peer, one.life).is_spoiled = true;
    }

    /// A life is open at one end.
    pub fn open(&mut self, me: usize, peer: usize, epoch: Epoch) {
        self.life(me, peer, epoch).is_open[usize::from(me > peer)] = true;
        self.opened[me][peer] += 1;
    }

    /// Whether a life that came up was not the first.
    pub fn is_heal(&self, me: usize, peer: usize) -> bool {
        self.opened[me][peer] > 1
    }

    /// H9: what is open at both ends ends for a cause.
    pub fn fenced(&mut self, me: usize, peer: usize, of: Epoch, cause: Cause) -> Outcome {
        let life = self.life(me, peer, of);
        if life.is_open == [true; 2] && !life.is_spoiled {
            return Err(format!(
                "H9: life {of:?} of {me} and {peer} is broken without a cause ({cause:?})"
            ));
        }
        life.is_spoiled = true;
        Ok(())
    }

    /// H1: one number, one connection.
    pub fn connects(&mut self, one: &QueuePair, epoch: Epoch, [own, other]: [usize; 2]) -> Outcome {
        let ends = if one.owner < one.peer {
            [own, other]
        } else {
            [other, own]
        };
        let life = self.life(one.owner, one.peer, epoch);
        let known = *life.ends.get_or_insert(ends);
        if known != ends {
            return Err(format!(
                "H1: {epoch:?} names two connections: {known:?}, {ends:?}"
            ));
        }
        Ok(())
    }

    /// H8: lives that carry nothing do not follow one another at once.
    pub fn begins(&self, begun: &[Ns], now: Ns) -> Outcome {
        let recent = begun
            .iter()
            .filter(|then| now.since(**then) < 1_000_000_000)
            .count();
        if recent >= LIVES {
            return Err(format!("H8: {recent} lives in a second, and no message"));
        }
        Ok(())
    }

    /// H6: nobody is lost who lives, and for silence only after enough of it.
    pub fn lost(
        &self,
        me: usize,
        peer: usize,
        why: Reason,
        (is_dead, is_over): (bool, bool),
        now: Ns,
    ) -> Outcome {
        let silence = now.since(self.contacts[me][peer]);
        let is_due = match why {
            Reason::Dead => is_dead,
            Reason::Over => is_over,
            Reason::Silent { .. } | Reason::NoAdapter { .. } => is_dead && silence >= HEAL_FOR_NS,
            _ => false,
        };
        if is_due {
            return Ok(());
        }
        Err(format!(
            "H6: {me} loses {peer} ({why:?}), heard of {silence} ns ago"
        ))
    }

    /// H1: nothing that a former life has delivered lies untaken behind a fence.
    pub fn untaken(
        &self,
        me: usize,
        peer: usize,
        completions: &VecDeque<(usize, Completion)>,
        current: Option<usize>,
        all: &[QueuePair],
    ) -> Outcome {
        let mut completions = completions.iter();
        let old = completions.find(|(at, one)| {
            let is_theirs = all[*at].peer == peer && !all[*at].is_lane && Some(*at) != current;
            is_theirs && matches!(one, Completion::Message(_))
        });
        match old {
            Some((at, _)) => Err(format!(
                "H1: {me} tells {peer} a word, and queue pair {at} has delivered more"
            )),
            None => Ok(()),
        }
    }

    /// H1: a word is told behind the fence, and is the truth.
    pub fn word(
        &self,
        me: usize,
        peer: usize,
        datagram: &Datagram,
        current: Option<usize>,
        received: Number,
        all: &[QueuePair],
    ) -> Outcome {
        let is_old = |(at, one): (usize, &QueuePair)| {
            let is_theirs = one.owner == me && one.peer == peer && Some(at) != current;
            is_theirs && one.state != QueuePairState::Destroyed
        };
        if let Some(old) = all.iter().enumerate().position(is_old) {
            return Err(format!(
                "H1: {me} tells {peer} a word, and queue pair {old} is there"
            ));
        }
        let expected = datagram.word.expected();
        if expected != received.next() {
            return Err(format!(
                "H1: {me} tells {peer} {expected:?}, and has taken {received:?}"
            ));
        }
        Ok(())
    }
}
