//! Long messages that are under way: what is known of each one, and when it is over.
//!
//! A message that is read is here when all requests have completed. Of one that is written, a
//! completion says that the peer's adapter has it: it is over when the peer's runtime has
//! acknowledged the message (FIN) that says that it is written (Koop et al., resilience, section
//! IV-A: RPut). One that goes by the lane is over when the peer has said that it has landed. Must
//! not know: how requests are posted.

use super::Net;
use super::keys::Offer;
use super::memory::Reachable;
use super::news::{Ended, News};
use crate::constants::MPI_SUCCESS;
use crate::handle::Token;
use crate::transport::contract::{Done, Place};
use ferriband_heal::{Log, Number};
use ferriband_mpi_proto::resume::{Doubt, Moving, Under, has_landed};
use std::collections::HashMap;

/// Long messages, to and from all peers.
#[derive(Default)]
pub struct Moves {
    /// Memory that peers may reach, by what names its message.
    pub(super) offers: HashMap<Token, Offer>,
    pub(super) transfers: Vec<Option<Transfer>>,
    /// Ranks with long messages that are not posted whole.
    pub(super) movers: Vec<u32>,
}

/// A long message under way.
pub struct Transfer {
    pub(super) peer: u32,
    /// What names it to this side; [`Token::NONE`]: nobody asks what becomes of it.
    pub(super) token: Token,
    /// What the peer calls it.
    pub(super) name: u64,
    pub(super) direction: Direction,
    pub(super) remote: Place,
    pub(super) length: u64,
    /// Bytes of the whole message, for who sent it.
    pub(super) whole: u64,
    pub(super) course: Course,
    pub(super) awaits: Awaits,
    /// What it awaits has come.
    pub(super) is_confirmed: bool,
    /// The number of the peer's message that told the key of its memory.
    pub(super) told: u32,
    /// That key is void: nothing moves until the peer names another one.
    pub(super) awaits_key: bool,
    /// Whether its memory is at fault, at either end.
    pub(super) doubt: Doubt,
}

/// How a long message moves.
#[derive(Clone)]
pub(super) enum Direction {
    /// From the peer, into this range.
    Read(Reachable),
    /// To the peer, from this range.
    Write(Reachable),
    /// To the peer, by the lane, from this range; or the class of why it cannot be sent.
    Lane(Result<Reachable, i32>),
}

/// How far a message has come in one life of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Course {
    /// Bytes that have been asked for.
    pub(super) next: u64,
    /// Bytes that have come, or gone.
    pub(super) done: u64,
    /// Requests that have not completed.
    pending: u32,
    /// All of it is posted.
    pub(super) is_posted: bool,
}

impl Course {
    /// From this byte on.
    pub(super) fn from(byte: u64) -> Self {
        Self {
            next: byte,
            done: byte,
            ..Self::default()
        }
    }

    /// Whether no request of it is under way.
    pub(super) fn is_still(&self) -> bool {
        self.pending == 0
    }

    /// A request has completed.
    pub(super) fn has_moved(&mut self, bytes: u32) {
        self.done += u64::from(bytes);
        self.pending = self.pending.saturating_sub(1);
    }
}

/// What must be known of a message, beside completions, before it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaits {
    /// Nothing.
    Nothing,
    /// That the peer is told that it is written.
    Word {
        /// The message that says so waits for its turn.
        is_said: bool,
    },
    /// That the peer has acknowledged the message of this number, which says so.
    Ack(u32),
    /// That the landing of this number is over.
    Landing(u32),
}

impl Transfer {
    pub(super) fn new(
        peer: u32,
        token: Token,
        direction: Direction,
        name: u64,
        length: u64,
    ) -> Self {
        let awaits = match direction {
            Direction::Write(_) => Awaits::Word { is_said: false },
            Direction::Read(_) | Direction::Lane(_) => Awaits::Nothing,
        };
        Self {
            peer,
            token,
            name,
            direction,
            remote: Place::default(),
            length,
            whole: length,
            course: Course::default(),
            awaits,
            is_confirmed: false,
            told: 0,
            awaits_key: false,
            doubt: Doubt::default(),
        }
    }

    /// A request for so many bytes is posted. True if that was the last one.
    pub(super) fn has_posted(&mut self, bytes: u64) -> bool {
        let course = &mut self.course;
        course.next += bytes;
        course.pending += 1;
        course.is_posted = course.next >= self.length;
        course.is_posted
    }

    /// All of it is posted: true if its receiver is to be told so from here on.
    pub(super) fn says_written(&mut self) -> bool {
        let is_news = self.awaits == Awaits::Word { is_said: false };
        if is_news {
            self.awaits = Awaits::Word { is_said: true };
        }
        is_news
    }

    /// The peer has died: what is posted of it completes, and that is all.
    pub(super) fn give_up(&mut self) {
        self.token = Token::NONE;
        self.length = self.course.next;
        self.course.is_posted = true;
        self.awaits = Awaits::Nothing;
    }

    pub(super) fn is_over(&self) -> bool {
        let is_known = self.awaits == Awaits::Nothing || self.is_confirmed;
        is_known && self.course.is_posted && self.course.pending == 0
    }

    pub(super) fn ended(&self) -> Ended {
        let done = match self.direction {
            Direction::Read(_) => Done::Told {
                name: self.name,
                length: self.whole,
                class: MPI_SUCCESS,
            },
            Direction::Lane(Err(class)) => Done::Over { class },
            Direction::Write(_) | Direction::Lane(Ok(_)) => Done::Over { class: MPI_SUCCESS },
        };
        Ended {
            peer: self.peer,
            token: self.token,
            done,
        }
    }

    /// What a replay must know of it.
    fn under(&self, index: u32, keys: u16) -> Under {
        Under {
            transfer: index,
            kind: match self.direction {
                Direction::Read(_) => Moving::Read,
                Direction::Write(_) => Moving::Write,
                Direction::Lane(_) => Moving::Lane,
            },
            done: self.course.done,
            fin: match self.awaits {
                Awaits::Ack(fin) => Some(Number(fin)),
                _ => None,
            },
            lane: match self.awaits {
                Awaits::Landing(number) => number,
                _ => 0,
            },
            told: Number(self.told),
            keys,
        }
    }
}

impl Net {
    /// Transfer `index` is forgotten if it is over. What has become of it, if anybody asks.
    pub(super) fn end_if_over(&mut self, index: u32) -> Option<Ended> {
        let place = self.moves.transfers.get_mut(index as usize)?;
        place.as_ref().filter(|one| one.is_over())?;
        self.end_transfer(index)
    }

    /// Transfer `index` is over, and forgotten. What has become of it, if anybody asks.
    pub(super) fn end_transfer(&mut self, index: u32) -> Option<Ended> {
        let transfer = self.moves.transfers.get_mut(index as usize)?.take()?;
        self.stats.moved += 1;
        // The rank may have died, and its messages with it.
        (transfer.token != Token::NONE).then(|| transfer.ended())
    }

    /// `peer` is told by message `seq` that all of the message of `token` is written.
    #[cold]
    pub fn has_told_written(&mut self, peer: u32, token: Token, seq: u32) {
        let mut transfers = (0..).zip(&mut self.moves.transfers);
        let is_it = |one: &&mut Transfer| {
            (one.peer, one.token) == (peer, token) && matches!(one.awaits, Awaits::Word { .. })
        };
        let found = transfers.find_map(|(index, one)| Some((index, one.as_mut().filter(is_it)?)));
        let Some((index, transfer)) = found else {
            return;
        };
        if self.limits.acks {
            transfer.awaits = Awaits::Ack(seq);
            self.link(peer).acks.log.hold_request(seq, index);
        } else {
            transfer.awaits = Awaits::Nothing;
            self.life.news.push(News::Confirmed(index));
        }
    }

    /// What transfer `index` awaits may have come: what has become of it then.
    pub(super) fn confirm(&mut self, index: u32) -> Option<Ended> {
        let transfer = self.moves.transfers.get_mut(index as usize)?.as_mut()?;
        if let Awaits::Ack(fin) = transfer.awaits {
            let log = &self.links[transfer.peer as usize].as_deref()?.acks.log;
            // Its place may be another's by now.
            transfer.is_confirmed = !Log::acknowledged(log).is_before(Number(fin));
        }
        self.end_if_over(index)
    }

    /// The landings of `peer` up to this number are over: the sends into them are, too.
    pub(super) fn confirm_landings(&mut self, peer: u32, landed: u32) {
        for index in 0..self.moves.transfers.len() as u32 {
            let Some(one) = &mut self.moves.transfers[index as usize] else {
                continue;
            };
            if one.peer != peer {
                continue;
            }
            one.is_confirmed |= matches!(one.awaits, Awaits::Landing(it) if has_landed(it, landed));
            let ended = self.end_if_over(index).map(News::Ended);
            self.life.news.extend(ended);
        }
    }

    /// Whether there are messages for the lane to `peer`.
    pub(super) fn has_sends_by_lane(&self, peer: u32) -> bool {
        let mut all = self.moves.transfers.iter().flatten();
        all.any(|one| one.peer == peer && matches!(one.direction, Direction::Lane(_)))
    }

    /// What is under way to and from `peer`: what goes by the lane in the order of its landings.
    pub(super) fn under(&mut self, peer: u32) -> Vec<Under> {
        let known = self.link(peer).long.lane.known();
        // Own ranges are made known anew when the queue pair is made.
        let keys = self.link(peer).long.told.generation();
        let transfers = (0..).zip(&self.moves.transfers);
        let of_peer = transfers.filter_map(|(index, one)| Some((index, one.as_ref()?)));
        let mut all: Vec<Under> = of_peer
            .filter(|(_, one)| one.peer == peer)
            .map(|(index, one)| one.under(index, keys))
            .collect();
        all.sort_by_key(|one| one.lane.wrapping_sub(known));
        all
    }

    /// Transfer `index` goes on from byte `to` in the life that begins. What its receiver is told
    /// of already goes again before that is said; the others move as there is room.
    pub(super) fn rewind(&mut self, index: u32, to: u64) {
        let place = self.moves.transfers.get_mut(index as usize);
        let Some(transfer) = place.and_then(Option::as_mut) else {
            return;
        };
        transfer.course = Course::from(to);
        let (peer, is_said) = (transfer.peer, transfer.is_said());
        let moving = &mut self.link(peer).long.moving;
        moving.retain(|one| *one != index);
        if !is_said {
            moving.push_back(index);
            if !self.moves.movers.contains(&peer) {
                self.moves.movers.push(peer);
            }
        }
    }

    /// The key that the peer has told for transfer `index` is void until it names another one.
    pub(super) fn await_key(&mut self, index: u32) {
        let place = self.moves.transfers.get_mut(index as usize);
        if let Some(one) = place.and_then(Option::as_mut) {
            one.awaits_key = true;
        }
    }

    /// Messages to `peer` that are to be written before what says so, which waits for its turn.
    pub(super) fn said_too_early(&self, peer: u32) -> Option<u32> {
        let mut transfers = (0..).zip(&self.moves.transfers);
        transfers.find_map(|(index, one)| {
            let one = one.as_ref().filter(|one| one.peer == peer)?;
            (one.is_said() && !one.course.is_posted).then_some(index)
        })
    }
}

impl Transfer {
    /// Its receiver is told that it is written, or is about to be.
    fn is_said(&self) -> bool {
        matches!(self.awaits, Awaits::Word { is_said: true } | Awaits::Ack(_))
    }
}
