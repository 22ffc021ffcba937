//! The words of an agreement as bytes, and sets of members.
//!
//! A word is a list of 64-bit numbers, little-endian: what it is, its parts, and for each set of
//! members as many numbers as a communicator of that size needs, a bit for each member. What comes
//! from a peer is hostile: another length, or a bit of nobody, is no word.

use super::{Decision, Vote, Word};

/// Members of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    words: Box<[u64]>,
}

impl Members {
    /// None of `size`.
    pub fn none(size: u32) -> Self {
        Self {
            words: vec![0; size.div_ceil(64) as usize].into(),
        }
    }

    /// Those of `size` that are named.
    pub fn of(size: u32, members: impl IntoIterator<Item = u32>) -> Self {
        let mut all = Self::none(size);
        members.into_iter().for_each(|member| all.insert(member));
        all
    }

    /// Adds one.
    pub fn insert(&mut self, member: u32) {
        self.words[member as usize / 64] |= 1 << (member % 64);
    }

    /// Whether one is among them.
    pub fn contains(&self, member: u32) -> bool {
        let word = self.words.get(member as usize / 64);
        word.is_some_and(|word| word >> (member % 64) & 1 != 0)
    }

    /// Whether all of the others are among them.
    pub fn contains_all(&self, others: &Self) -> bool {
        let mut pairs = self.words.iter().zip(&others.words);
        pairs.all(|(own, other)| own & other == *other)
    }

    /// Whether these are all of `size`.
    pub fn has_all(&self, size: u32) -> bool {
        let count: u32 = self.words.iter().map(|word| word.count_ones()).sum();
        count == size
    }

    /// Adds others.
    pub fn add(&mut self, others: &Self) {
        for (own, other) in self.words.iter_mut().zip(&others.words) {
            *own |= other;
        }
    }

    /// All of them, from the lowest on.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.words.len() as u32 * 64).filter(|member| self.contains(*member))
    }
}

const VOTE: u64 = 1;
const PROPOSE: u64 = 2;
const ACCEPT: u64 = 3;
const DECIDE: u64 = 4;
const FREED: u64 = 5;
const FORGET: u64 = 6;

impl Word {
    /// As bytes.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Vote(vote) => {
                out.extend([VOTE, flags(vote.flags), vote.context]);
                out.extend(&vote.failed.words);
                out.extend(&vote.acked.words);
            }
            Self::Propose(decision) => {
                out.push(PROPOSE);
                put(&mut out, decision);
            }
            Self::Accept => out.push(ACCEPT),
            Self::Decide(decision) => {
                out.push(DECIDE);
                put(&mut out, decision);
            }
            Self::Freed => out.push(FREED),
            Self::Forget => out.push(FORGET),
        }
        out.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// What bytes say in a communicator of `size` members; none if that is no word.
    pub fn parse(bytes: &[u8], size: u32) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            return None;
        }
        let mut from = Reader {
            words: words.iter().map(|word| u64::from_le_bytes(*word)).collect(),
            at: 0,
            size,
        };
        let word = match from.number()? {
            VOTE => Self::Vote(from.vote()?),
            PROPOSE => Self::Propose(from.decision()?),
            ACCEPT => Self::Accept,
            DECIDE => Self::Decide(from.decision()?),
            FREED => Self::Freed,
            FORGET => Self::Forget,
            _ => return None,
        };
        (from.at == from.words.len()).then_some(word)
    }
}

fn flags([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn put(out: &mut Vec<u64>, decision: &Decision) {
    let acked = u64::from(decision.is_acked);
    out.extend([flags(decision.flags), acked, decision.context]);
    out.extend(&decision.failed.words);
}

struct Reader {
    words: Vec<u64>,
    at: usize,
    size: u32,
}

impl Reader {
    fn number(&mut self) -> Option<u64> {
        let word = *self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    fn flags(&mut self) -> Option<[u32; 2]> {
        let word = self.number()?;
        Some([word as u32, (word >> 32) as u32])
    }

    fn members(&mut self) -> Option<Members> {
        let end = self.at + self.size.div_ceil(64) as usize;
        let words = self.words.get(self.at..end)?.into();
        self.at = end;
        let members = Members { words };
        let is_sound = members.iter().all(|member| member < self.size);
        is_sound.then_some(members)
    }

    fn decision(&mut self) -> Option<Decision> {
        let (flags, acked, context) = (self.flags()?, self.number()?, self.number()?);
        let is_acked = match acked {
            0 => false,
            1 => true,
            _ => return None,
        };
        let failed = self.members()?;
        Some(Decision {
            flags,
            failed,
            is_acked,
            context,
        })
    }

    fn vote(&mut self) -> Option<Vote> {
        let (flags, context) = (self.flags()?, self.number()?);
        let (failed, acked) = (self.members()?, self.members()?);
        Some(Vote {
            flags,
            failed,
            acked,
            context,
        })
    }
}
