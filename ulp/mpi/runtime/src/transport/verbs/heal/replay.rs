//! What the other end has not taken is sent again in a new life, from the log; and long messages go
//! on, as [`ferriband_mpi_proto::resume`] says.
//!
//! Each message goes with its envelope, before which nothing was left out: what the former life
//! knew of the last messages is forgotten at both ends.

use super::super::acks::release;
use super::super::long::Posted;
use super::super::news::News;
use super::super::queue::What;
use super::super::stages::Stages;
use super::super::{INLINE, Net};
use crate::constants::MPI_ERR_PROC_ABORTED;
use crate::errors::Outcome;
use crate::handle::Token;
use ferriband_heal::kept::{Held, Unit};
use ferriband_heal::{Log, Number, Word};
use ferriband_ibv::{Element, SendFlags, SendWr};
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope, ITEM, Kind};
use ferriband_mpi_proto::resume::{Act, Resume};

/// A replay under way.
pub struct Replay {
    /// What is to be done, in which order.
    resume: Resume,
    /// The number that goes next.
    next: Number,
    /// Bytes that have gone.
    bytes: u64,
    /// Memory that the peer was told of.
    offers: Vec<Token>,
}

/// What became of a step.
enum Again {
    /// It has gone: the last number, and bytes.
    Sent(Number, u64),
    /// There is no room.
    NotNow,
    /// Something was not kept.
    Missing,
}

impl Net {
    /// `peer` has told what it has taken: that is acknowledged. What needs no room is done at once,
    /// before a message of the new life is taken; the rest by [`Net::carry_replay`].
    pub(super) fn begin_replay(&mut self, peer: u32, own: Word, word: Word) -> Outcome {
        let mut under = self.under(peer);
        let (offers, told) = self.offered(peer);
        under.extend(told);
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(());
        };
        let (log, sent) = (&mut link.acks.log, Number(link.sent));
        let keys = &mut link.long.told.void;
        let before = *keys;
        let Some(resume) = Resume::new(own, word, keys, log, sent, &under) else {
            return Err(self.broken_off(peer));
        };
        release(log, (&mut self.stages, &mut self.life.news));
        link.wire.replay = Some(Box::new(Replay {
            resume,
            next: word.expected(),
            bytes: 0,
            offers,
        }));
        let are_others = link.long.told.void != before;
        self.has_learnt_keys(peer, are_others);
        while let Some(act) = self.next_act(peer) {
            match act {
                Act::Over(transfer) => {
                    let ended = self.end_transfer(transfer).map(News::Ended);
                    self.life.news.extend(ended);
                }
                Act::Rewind { transfer, to } => self.rewind(transfer, to),
                Act::AwaitKey(transfer) => self.await_key(transfer),
                // That was done when the queue pair was made.
                Act::Register(_) => (),
                Act::Renew { .. } | Act::Whole { .. } | Act::Message(_) | Act::Up => break,
            }
            self.has_done(peer);
        }
        Ok(())
    }

    /// Goes on with the replay to `peer`, if there is one, as far as there is room.
    pub(super) fn carry_replay(&mut self, peer: u32) -> Outcome {
        while let Some(act) = self.next_act(peer) {
            let has_gone = match act {
                Act::Whole { transfer } => self.write_whole(peer, transfer)?,
                Act::Up => return self.end_replay(peer),
                Act::Message(_) => match self.send_again(peer)? {
                    Again::Sent(last, more) => {
                        if let Some(replay) = &mut self.link(peer).wire.replay {
                            replay.next = last.next();
                            replay.bytes += more;
                        }
                        true
                    }
                    Again::NotNow => false,
                    Again::Missing => return self.lose_unkept(peer),
                },
                Act::Renew { request } => match self.offer_of(peer, request) {
                    Some(token) => self.renew(peer, token)?,
                    None => true,
                },
                // They were done when it began.
                Act::Over(_) | Act::Rewind { .. } | Act::Register(_) | Act::AwaitKey(_) => true,
            };
            if !has_gone {
                break;
            }
            self.has_done(peer);
        }
        Ok(())
    }

    fn next_act(&mut self, peer: u32) -> Option<Act> {
        let link = self.link(peer);
        link.wire.replay.as_mut()?.resume.next(&link.acks.log)
    }

    fn offer_of(&mut self, peer: u32, request: u32) -> Option<Token> {
        let replay = self.link(peer).wire.replay.as_ref()?;
        replay.offers.get(request as usize).copied()
    }

    fn has_done(&mut self, peer: u32) {
        if let Some(replay) = &mut self.link(peer).wire.replay {
            replay.resume.done();
        }
    }

    /// Writes all of a long message. True if it is posted whole.
    fn write_whole(&mut self, peer: u32, index: u32) -> Outcome<bool> {
        let piece = self.limits.piece as u64;
        while let Some(transfer) = self.moves.transfers[index as usize].as_ref()
            && !transfer.course.is_posted
        {
            let Posted::Some(bytes) = self.post_piece(peer, index, piece)? else {
                return Ok(false);
            };
            if let Some(transfer) = &mut self.moves.transfers[index as usize] {
                transfer.has_posted(bytes);
            }
        }
        Ok(true)
    }

    /// All of the log has gone again. Messages whose receiver is told that they are written as soon
    /// as the connection is up are written first.
    fn end_replay(&mut self, peer: u32) -> Outcome {
        while let Some(index) = self.said_too_early(peer) {
            if !self.write_whole(peer, index)? {
                return Ok(());
            }
        }
        let (now, link) = (self.connect.now(), self.link(peer));
        let Some(replay) = link.wire.replay.take() else {
            return Ok(());
        };
        if replay.next != Number(link.sent).next() {
            return self.lose_unkept(peer);
        }
        link.wire.session.replayed(replay.bytes, now);
        Ok(())
    }

    /// What was not kept cannot be sent again.
    #[cold]
    fn lose_unkept(&mut self, peer: u32) -> Outcome {
        let told = self.tell_end(peer);
        let why = "it has failed, and messages were not kept";
        self.lose_aloud(peer, why, MPI_ERR_PROC_ABORTED);
        told
    }

    /// Sends again what goes next, and what went together with it.
    fn send_again(&mut self, peer: u32) -> Outcome<Again> {
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(Again::NotNow);
        };
        let Some(Replay { next, .. }) = link.wire.replay.as_deref() else {
            return Ok(Again::NotNow);
        };
        let next = *next;
        let (stages, received) = (&mut self.stages, link.received);
        let Some((last, unit)) = link.acks.log.unit(next) else {
            return Ok(Again::Missing);
        };
        let Some(head) = head_of(stages, &unit, received) else {
            return Ok(Again::Missing);
        };
        if next.is_before(head.first) {
            return Ok(Again::Missing);
        }
        let (queue, id, closing) = (&mut link.wire.queue, link.wire.id, self.life.closing);
        let key = queue.stage;
        let (posted, length) = match unit {
            Unit::Copy(bytes) if bytes.len() <= INLINE => {
                let mut loose = [0; INLINE];
                let loose = &mut loose[..bytes.len()];
                loose.copy_from_slice(bytes);
                loose[..ENVELOPE].copy_from_slice(&head.bytes);
                let elements = [Element::inline(loose)];
                let request = SendWr::send(id, &elements);
                let posted = queue.submit(request, SendFlags::INLINE, What::Room, closing);
                (posted, bytes.len())
            }
            Unit::Copy(bytes) => {
                let Some(buffer) = stages.take() else {
                    return Ok(Again::NotNow);
                };
                stages.memory.write(buffer, 0, bytes);
                stages.memory.write(buffer, 0, &head.bytes);
                let elements = [(stages.memory).element_by(key, buffer, 0, bytes.len() as u32)];
                let request = SendWr::send(id, &elements);
                let what = What::Buffer(buffer);
                let posted = queue.submit(request, SendFlags::empty(), what, closing);
                if !matches!(posted, Ok(true)) {
                    stages.give(buffer);
                }
                (posted, bytes.len())
            }
            Unit::Held(Held {
                buffer, at, length, ..
            }) => {
                stages.memory.write(buffer, at, &head.bytes);
                let elements = [stages.memory.element_by(key, buffer, at, length)];
                let request = SendWr::send(id, &elements);
                let posted = queue.submit(request, SendFlags::empty(), What::Room, closing);
                (posted, length as usize)
            }
        };
        Ok(match posted {
            Ok(true) => {
                self.stats.sends += 1;
                Again::Sent(last, length as u64)
            }
            Ok(false) => Again::NotNow,
            Err(error) => {
                self.unposted(peer, &error)?;
                Again::NotNow
            }
        })
    }
}

/// The envelope of what is sent again.
struct Head {
    /// Number of the first message.
    first: Number,
    /// What it says now: the former life's credit is void.
    bytes: [u8; ENVELOPE],
}

/// None of what no log holds.
fn head_of(stages: &Stages, unit: &Unit<'_>, received: u32) -> Option<Head> {
    let mut bytes = [0; ENVELOPE];
    match unit {
        Unit::Copy(copy) => bytes.copy_from_slice(copy.get(..ENVELOPE)?),
        Unit::Held(held) => stages.memory.read(held.buffer, held.at, &mut bytes),
    }
    let envelope = Envelope::parse(bytes)?;
    let first = match (envelope.kind, unit) {
        (Kind::Bundle, Unit::Held(held)) => {
            let mut item = [0; ENVELOPE];
            let at = held.at + (ENVELOPE + ITEM) as u32;
            stages.memory.read(held.buffer, at, &mut item);
            Envelope::parse(item)?.seq
        }
        _ => envelope.seq,
    };
    let bytes = Envelope {
        ack: received,
        credit: 0,
        ..envelope
    }
    .emit();
    Some(Head {
        first: Number(first),
        bytes,
    })
}
