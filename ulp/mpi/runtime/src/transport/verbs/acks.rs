//! Message-level acknowledgements: what was sent by verbs is kept until the peer's runtime says
//! that it has taken it.
//!
//! A short message is laid out in the log and posted from there; a longer one stays in the staging
//! buffer that the adapter sends it from. So keeping a message costs a copy only where staging
//! buffers run short, and where the sender has a mirror of the block: that is a picture of a block
//! which is gone once the connection has failed.
//!
//! The number of the last message taken rides on every envelope and on every return of credit;
//! after many messages or bytes it goes alone, in the return word where there is a channel, else in
//! a NOTE. A return word wakes nobody: a rank whose messages wait for room in the log does not
//! sleep for long.

use super::Net;
use super::news::News;
use super::queue::What;
use super::stages::Stages;
use crate::errors::Outcome;
use crate::ground::memory::Source;
use crate::transport::contract::{Head, Roster};
use ferriband_heal::kept::request_of;
use ferriband_mpi_proto::envelope::{ACKNOW, Kind};
use ferriband_mpi_proto::replay::{Held, Replay};
use std::sync::atomic::Ordering;

impl Net {
    /// Whether a message to `peer` can be kept.
    #[inline]
    pub(super) fn has_log_room(&mut self, peer: u32, length: usize) -> bool {
        if self.link(peer).acks.log.has_room(length) {
            return true;
        }
        self.has_log_room_now(peer, length)
    }

    #[cold]
    fn has_log_room_now(&mut self, peer: u32, length: usize) -> bool {
        let word = self.blocks.returns.word(peer * 8).load(Ordering::Acquire);
        self.acknowledge(peer, (word >> 32) as u32);
        let link = self.link(peer);
        let has_room = link.acks.log.has_room(length);
        let is_news = !has_room && !link.acks.is_log_full;
        link.acks.is_log_full = !has_room;
        let is_bounded = is_news && link.acks.log.is_bounded(length);
        self.stats.log_full += u64::from(is_news);
        if is_bounded {
            // Too little is kept here for the peer to tell by itself what it has taken.
            self.ask_for_acknowledgement(peer);
        }
        has_room
    }

    /// An envelope has gone by the peer's block.
    #[inline]
    pub(super) fn told(&mut self, peer: u32) {
        self.link(peer).acks.pending.told();
    }

    /// `peer` has taken all up to `ack`.
    #[inline]
    pub(super) fn acknowledge(&mut self, peer: u32, ack: u32) {
        if let Some(link) = self.links[peer as usize].as_deref_mut()
            && ack != link.acks.log.acknowledged()
            && acknowledged(
                &mut link.acks.log,
                (&mut self.stages, &mut self.life.news),
                ack,
                link.sent,
            )
        {
            link.acks.is_log_full = false;
        }
    }

    /// `peer` is to be told what has been taken, unless what the program sends to it does so first;
    /// or there was no room to.
    #[inline]
    pub(super) fn owe(&mut self, peer: u32) {
        if !self.blocks.owing.contains(&peer) {
            self.blocks.owing.push(peer);
        }
    }

    /// Whether a message waits for an acknowledgement, which may come without waking anybody.
    pub(super) fn waits_for_acks(&self) -> bool {
        self.links
            .iter()
            .flatten()
            .any(|link| link.acks.is_log_full)
    }
}

/// The peer of a log has taken all up to `ack`. True if that is news.
#[inline]
pub(super) fn acknowledged(
    log: &mut Replay,
    to: (&mut Stages, &mut Vec<News>),
    ack: u32,
    sent: u32,
) -> bool {
    let is_news = log.acknowledge(ack, sent);
    if is_news {
        release(log, to);
    }
    is_news
}

/// What a log held for its owner, and does not need any more, is free or confirmed.
#[inline]
pub(super) fn release(log: &mut Replay, (stages, news): (&mut Stages, &mut Vec<News>)) {
    while let Some(held) = log.released() {
        match request_of(held) {
            None => stages.give(held),
            Some(transfer) => confirmed(news, transfer),
        }
    }
}

#[cold]
fn confirmed(news: &mut Vec<News>, transfer: u32) {
    news.push(News::Confirmed(transfer));
}

/// How a message in a staging buffer is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// It is not.
    No,
    /// In that buffer, which belongs to the log from now on.
    Held,
    /// By a copy: buffers run short.
    Copied,
}

impl Keep {
    /// How to keep `length` bytes in `buffer`; none if there is no room.
    #[inline]
    pub(super) fn choose(
        log: Option<&Replay>,
        stages: &Stages,
        buffer: u32,
        length: usize,
    ) -> Option<Self> {
        match log {
            None => Some(Self::No),
            Some(_) if stages.may_hold(buffer) => Some(Self::Held),
            Some(log) if log.has_room(length) => Some(Self::Copied),
            Some(_) => None,
        }
    }

    /// What the completion of the request is about.
    #[inline]
    pub(super) fn completion(self, buffer: u32) -> What {
        match self {
            Self::Held => What::Room,
            _ => What::Buffer(buffer),
        }
    }

    /// Keeps what has been posted so and lies at `place`.
    #[inline]
    pub(super) fn keep(self, log: &mut Replay, stages: &Stages, place: Held) {
        match self {
            Self::No => (),
            Self::Held => log.hold(place),
            Self::Copied => copy_staged(log, stages, place),
        }
    }
}

/// Keeps what lies in a staging buffer and has gone.
#[cold]
fn copy_staged(log: &mut Replay, stages: &Stages, place: Held) {
    log.keep(place.seq, [&[], &[]], place.length as usize, |bytes| {
        stages.memory.read(place.buffer, place.at, bytes);
    });
}

impl Net {
    /// A message of `length` bytes has been taken from `peer`: whether it must be told so now.
    #[inline]
    pub(super) fn owes(&mut self, peer: u32, length: u32) -> bool {
        self.limits.acks && self.link(peer).acks.pending.take(length)
    }

    /// Tells `peer` what has been taken: by the return word of its channel, or by a message that
    /// does not wait behind others, which may themselves wait for an acknowledgement.
    fn tell_taken<R: Roster>(&mut self, roster: &R, peer: u32) -> Outcome {
        let is_over = roster.is_over(peer);
        let link = self.link(peer);
        let ack = link.received;
        let wakes = link.acks.pending.is_asked() || link.long.lane.has_news();
        if is_over || link.wire.lost.is_some() {
            // Who has left needs to know nothing.
            link.acks.pending.told();
            return Ok(());
        }
        // A return word wakes nobody, and who has asked may sleep.
        if let Some(index) = link.fast.inbound.filter(|_| !wakes) {
            link.acks.pending.told();
            return self.return_credit(index, ack);
        }
        let head = Head {
            context: link.long.lane.landed().into(),
            ..Head::of(Kind::Note)
        };
        if link.is_ready() && self.post_now(peer, &head, &[], Source::EMPTY)?.is_some() {
            self.link(peer).long.lane.tell_landed();
        } else {
            self.owe(peer);
        }
        Ok(())
    }

    /// `peer` has asked for an acknowledgement, for what it sends is over only then.
    #[cold]
    pub(super) fn is_asked(&mut self, peer: u32) {
        self.link(peer).acks.pending.ask();
        self.life.news.push(News::Asks(peer));
    }

    /// Asks `peer` to acknowledge the last message to it, once.
    #[cold]
    pub(super) fn ask_for_acknowledgement(&mut self, peer: u32) {
        let link = self.link(peer);
        let last = Some(link.sent);
        if link.is_ready() && link.acks.asked != last {
            let head = Head {
                flags: ACKNOW,
                ..Head::of(Kind::Note)
            };
            // What cannot be asked now is asked in the next round, or in the next life.
            if let Ok(Some(_)) = self.post_now(peer, &head, &[], Source::EMPTY) {
                self.link(peer).acks.asked = last;
            }
        }
    }

    /// Tells `peer` what has been taken and what has landed, if it waits for that and does not
    /// know.
    #[cold]
    pub(super) fn answer_asker<R: Roster>(&mut self, roster: &R, peer: u32) -> Outcome {
        let link = self.link(peer);
        if link.acks.pending.is_asked() || link.long.lane.has_news() {
            self.tell_taken(roster, peer)?;
        }
        Ok(())
    }

    /// Tells those whom there was no room to tell.
    #[cold]
    pub(super) fn pay<R: Roster>(&mut self, roster: &R) -> Outcome {
        for peer in std::mem::take(&mut self.blocks.owing) {
            let link = self.link(peer);
            let is_due = link.acks.pending.is_due()
                || link.long.lane.has_news()
                || self
                    .inbound_of(peer)
                    .is_some_and(|inbound| inbound.is_due());
            if is_due {
                self.tell_taken(roster, peer)?;
            }
        }
        Ok(())
    }
}

/// A return word that tells of no credit, and of no message that the peer has not acknowledged: its
/// upper half is an acknowledgement, so a 0 there would be one, too.
pub(super) fn fresh_return_word(acknowledged: u32) -> u64 {
    u64::from(acknowledged) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_heal::Number;

    #[test]
    fn a_fresh_return_word_acknowledges_nothing() {
        for acknowledged in [0, 7, u32::MAX - 1, u32::MAX] {
            let mut log = Replay::behind(Number(acknowledged));
            let seqs = [1, 2, 3].map(|more| acknowledged.wrapping_add(more));
            for seq in seqs {
                log.keep(seq, [&[1, 2], &[]], 0, |_| ());
            }
            let word = fresh_return_word(acknowledged);
            assert_eq!(word as u32, 0, "no credit");
            assert!(!log.acknowledge((word >> 32) as u32, seqs[2]));
            assert_eq!(log.unacknowledged().len(), 3);
        }
    }
}
