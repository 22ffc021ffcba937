//! What the other end has not taken is sent again in a new life, from the log.
//!
//! Each message goes with its envelope, before which nothing was left out: what the former life
//! knew of the last messages is forgotten at both ends.

use super::super::acks::acknowledged;
use super::super::queue::What;
use super::super::stages::Stages;
use super::super::{INLINE, Net};
use crate::constants::MPI_ERR_PROC_ABORTED;
use crate::errors::Outcome;
use ferriband_heal::kept::{Held, Unit};
use ferriband_heal::{Log, Number, Word};
use ferriband_ibv::{Element, SendFlags, SendWr};
use ferriband_mpi_proto::envelope::{ENVELOPE, Envelope, ITEM, Kind};

/// A replay under way.
#[derive(Clone, Copy, Debug)]
pub struct Replay {
    /// The number that goes next.
    next: Number,
    /// Bytes that have gone.
    bytes: u64,
}

/// What became of a step.
enum Again {
    /// It has gone: the last number, and bytes.
    Sent(Number, u64),
    /// There is no room.
    NotNow,
    /// All has gone.
    Done,
    /// Something was not kept.
    Missing,
}

impl Net {
    /// `peer` has told what it has taken: that is acknowledged, and all behind it is to go again.
    pub(super) fn begin_replay(&mut self, peer: u32, word: Word) -> Outcome {
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(());
        };
        let (taken, sent) = (word.expected().previous(), Number(link.sent));
        let log = &mut link.acks.log;
        let told = Number(log.acknowledged());
        if taken.since(told) > sent.since(told) {
            return Err(self.broken_off(peer));
        }
        acknowledged(log, &mut self.stages, taken.0, sent.0);
        link.wire.replay = Some(Replay {
            next: word.expected(),
            bytes: 0,
        });
        Ok(())
    }

    /// Goes on with the replay to `peer`, if there is one, as far as there is room.
    pub(super) fn carry_replay(&mut self, peer: u32) -> Outcome {
        while let Some(Replay { next, bytes }) = self.link(peer).wire.replay {
            let now = self.connect.now();
            match self.send_again(peer, next)? {
                Again::Sent(last, more) => {
                    self.link(peer).wire.replay = Some(Replay {
                        next: last.next(),
                        bytes: bytes + more,
                    });
                }
                Again::NotNow => break,
                Again::Done => {
                    let wire = &mut self.link(peer).wire;
                    wire.replay = None;
                    wire.session.replayed(bytes, now);
                }
                Again::Missing => {
                    let told = self.tell_end(peer);
                    let why = "it has failed, and messages were not kept";
                    self.lose_aloud(peer, why, MPI_ERR_PROC_ABORTED);
                    return told;
                }
            }
        }
        Ok(())
    }

    /// Sends again what has the number `next`, and what went together with it.
    fn send_again(&mut self, peer: u32, next: Number) -> Outcome<Again> {
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return Ok(Again::Done);
        };
        let (stages, received) = (&mut self.stages, link.received);
        let Some((last, unit)) = link.acks.log.unit(next) else {
            let is_all = next == Number(link.sent).next();
            return Ok(if is_all { Again::Done } else { Again::Missing });
        };
        let Some(head) = head_of(stages, &unit, received) else {
            return Ok(Again::Missing);
        };
        if next.is_before(head.first) {
            return Ok(Again::Missing);
        }
        let (queue, id, closing) = (&mut link.wire.queue, link.wire.id, self.life.closing);
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
                let elements = [stages.memory.element(buffer, bytes.len() as u32)];
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
                let elements = [stages.memory.element_at(buffer, at, length)];
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
