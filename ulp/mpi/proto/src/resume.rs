//! What becomes of each path of a message when a connection is made anew: docs/design/heal.md,
//! section 4.
//!
//! Owns: which transfers are over, from where the others go on, which keys are void, and in which
//! order what the peer has not taken goes again ([`Resume`]). Must not know: verbs, memory, what a
//! message says.
//!
//! The owner makes a [`Resume`] when the session says [`ferriband_heal::Step::Replay`], **before it
//! takes the first message of the life**: what that message begins is none of what the fence has
//! left. It carries out all acts up to the first [`Act::Renew`], [`Act::Whole`] or
//! [`Act::Message`] at once, for the same reason; the rest as there is room to post.
#![forbid(unsafe_code)]

use ferriband_heal::{Log, Number, Word};
use std::collections::VecDeque;

/// How a part of a message moves, or lies ready to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moving {
    /// It is read from the peer's memory.
    Read,
    /// It is written to the peer's memory.
    Write,
    /// So from staging buffers: its elements lie with gaps.
    Staged,
    /// It is sent by the lane.
    Lane,
    /// It is to come by the lane.
    Landing,
    /// The peer has told a key, and nothing moves yet.
    Held,
    /// The peer has been told a key of this side's.
    Offered,
}

/// What a fence has found under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Under {
    /// The owner's number for it.
    pub transfer: u32,
    /// How it moves.
    pub kind: Moving,
    /// Bytes that have come or gone, in order.
    pub done: u64,
    /// The number of the message that says that all is written, if that was given.
    pub fin: Option<Number>,
    /// The number of its landing; 0 where there is none.
    pub lane: u32,
    /// The number of the message that told the key: the peer's, or of [`Moving::Offered`] the own
    /// one.
    pub told: Number,
    /// Generation of own keys by which the own range is known.
    pub keys: u16,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The peer's word says that this transfer is over.
    Over(u32),
    /// It goes on from here.
    Rewind {
        /// The transfer.
        transfer: u32,
        /// The first byte that is asked for, or goes, again.
        to: u64,
    },
    /// Its own range is made known to the adapter anew.
    Register(u32),
    /// The peer's key is void until RENEW names another one.
    AwaitKey(u32),
    /// RENEW goes: the own range has another key.
    Renew {
        /// What was offered.
        request: u32,
    },
    /// All WRITEs of it go again. The message that says so is the next one.
    Whole {
        /// The transfer.
        transfer: u32,
    },
    /// What the log has with this last number goes again.
    Message(Number),
    /// That was all.
    Up,
}

/// Whether the landing of this number is over if the last one that is has the number `landed`; 0
/// says that none is.
pub fn has_landed(number: u32, landed: u32) -> bool {
    landed != 0 && landed.wrapping_sub(number) < 1 << 31
}

/// The number of the landing behind this one: 0 is none.
pub fn next_landing(number: u32) -> u32 {
    number.wrapping_add(1).max(1)
}

/// Which keys of the peer's are void because it has opened another adapter, or the adapter again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    generation: u16,
    /// Keys that were told up to this message are void; none: what was told so far is judged.
    void: Option<Number>,
}

impl Keys {
    /// The peer's word of a heal has come. True if its keys are others now.
    fn learn(&mut self, peer: &Word) -> bool {
        let is_new = self.generation != peer.keys();
        if is_new {
            self.generation = peer.keys();
            self.void = Some(peer.sent());
        }
        is_new
    }

    /// Whether a key that message `told` names is void when that message is taken.
    pub fn are_void(&self, told: Number) -> bool {
        self.void.is_some_and(|last| !last.is_before(told))
    }

    /// All up to this message is taken.
    pub fn taken(&mut self, received: Number) {
        self.void.take_if(|last| last.is_before(received));
    }
}

/// Whether memory is at fault of which adapters have said that it cannot be read or written.
///
/// An adapter that fails, at either end, may say so of memory that is good: its keys have gone
/// before its queue pairs. So a request is believed to have met such memory when it has met that
/// status twice between the same openings of both adapters: then both have made and connected
/// another queue pair since the first time. An opening is told by its generation of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubt(Option<(u16, u16)>);

impl Doubt {
    /// A request has met such a status, with this generation of own keys. True if memory is at
    /// fault; else it goes again, in the next life.
    pub fn is_proven(&mut self, own: u16, peer: &Keys) -> bool {
        let between = Some((own, peer.generation));
        std::mem::replace(&mut self.0, between) == between
    }
}

/// A transfer that is written whole before the message that says so.
#[derive(Clone, Copy, Debug)]
struct Whole {
    fin: Number,
    transfer: u32,
    is_done: bool,
}

/// The replay of one life.
#[derive(Clone, Debug)]
pub struct Resume {
    /// What is done before anything of the log goes.
    first: VecDeque<Act>,
    wholes: Vec<Whole>,
    /// The next message to go.
    from: Number,
    /// What is done behind the log.
    last: VecDeque<Act>,
    told: Option<Act>,
}

impl Resume {
    /// Compares what the two sides have told with what is under way here; `sent` is the last
    /// number given, `keys` what is known of the peer's. What the peer has taken is acknowledged.
    /// None if the peer asks for what cannot be: it has broken the rules.
    pub fn new(
        own: Word,
        peer: Word,
        keys: &mut Keys,
        log: &mut impl Log,
        sent: Number,
        under: &[Under],
    ) -> Option<Self> {
        let acknowledged = log.acknowledged();
        if peer.expected().previous().since(acknowledged) > sent.since(acknowledged) {
            return None;
        }
        log.acknowledge(peer.expected().previous(), sent);
        let are_others = keys.learn(&peer);
        let mut all = Self {
            first: VecDeque::new(),
            wholes: Vec::new(),
            from: peer.expected(),
            last: VecDeque::new(),
            told: None,
        };
        for one in under {
            let is_void = are_others && keys.are_void(one.told);
            all.judge(one, &own, &peer, is_void);
        }
        let renews = under.iter().filter(|one| one.kind == Moving::Offered);
        for one in renews.filter(|one| one.keys != own.keys()) {
            let renew = Act::Renew {
                request: one.transfer,
            };
            // What the peer does not know yet cannot be named anew: it goes before, from the log.
            if one.told.is_before(peer.expected()) {
                all.first.push_back(renew);
            } else {
                all.last.push_back(renew);
            }
        }
        all.wholes.sort_by_key(|one| one.fin.since(peer.expected()));
        all.last.push_back(Act::Up);
        Some(all)
    }

    /// What becomes of one transfer.
    fn judge(&mut self, one: &Under, own: &Word, peer: &Word, is_void: bool) {
        let transfer = one.transfer;
        let is_over = match one.kind {
            Moving::Write | Moving::Staged => {
                one.fin.is_some_and(|fin| fin.is_before(peer.expected()))
            }
            Moving::Lane => has_landed(one.lane, peer.landed()),
            Moving::Read | Moving::Landing | Moving::Held | Moving::Offered => false,
        };
        if is_over {
            self.first.push_back(Act::Over(transfer));
            return;
        }
        let is_new = one.keys != own.keys();
        let acts = match one.kind {
            Moving::Read => [Some(one.done), is_new.then_some(0), is_void.then_some(0)],
            Moving::Write | Moving::Staged => [Some(0), is_new.then_some(0), is_void.then_some(0)],
            Moving::Lane => [Some(0), is_new.then_some(0), None],
            Moving::Landing => [None, is_new.then_some(0), None],
            Moving::Held => [None, None, is_void.then_some(0)],
            Moving::Offered => [None; 3],
        };
        let rewind = acts[0].map(|to| Act::Rewind { transfer, to });
        let register = acts[1].map(|_| Act::Register(transfer));
        let await_key = acts[2].map(|_| Act::AwaitKey(transfer));
        let acts = [rewind, register, await_key];
        self.first.extend(acts.into_iter().flatten());
        if let (Moving::Write | Moving::Staged, Some(fin)) = (one.kind, one.fin) {
            let is_done = false;
            self.wholes.push(Whole {
                fin,
                transfer,
                is_done,
            });
        }
    }

    /// What is to be done next; the same again until [`Resume::done`].
    pub fn next(&mut self, log: &impl Log) -> Option<Act> {
        if self.told.is_none() {
            self.told = self.find(log);
        }
        self.told
    }

    fn find(&self, log: &impl Log) -> Option<Act> {
        if let Some(act) = self.first.front() {
            return Some(*act);
        }
        let Some((last, _)) = log.unit(self.from) else {
            return self.last.front().copied();
        };
        let mut wholes = self.wholes.iter();
        let whole = wholes.find(|one| !one.is_done && !last.is_before(one.fin));
        Some(whole.map_or(Act::Message(last), |one| Act::Whole {
            transfer: one.transfer,
        }))
    }

    /// What [`Resume::next`] told is done.
    pub fn done(&mut self) {
        match self.told.take() {
            Some(Act::Message(last)) => self.from = last.next(),
            Some(Act::Whole { transfer }) => {
                let mut wholes = self.wholes.iter_mut();
                let whole = wholes.find(|one| one.transfer == transfer && !one.is_done);
                if let Some(whole) = whole {
                    whole.is_done = true;
                }
            }
            Some(_) if !self.first.is_empty() => drop(self.first.pop_front()),
            Some(_) => drop(self.last.pop_front()),
            None => (),
        }
    }
}

#[cfg(test)]
#[path = "resume_tests.rs"]
mod tests;
