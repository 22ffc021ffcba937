//! Long messages by verbs: the receiver READs from the sender's buffer (RGet), or the sender WRITEs
//! to the receiver's (RPut).

use super::keys::{Kept, Known};
use super::lane::LONGEST;
use super::memory::{Purpose, Reachable};
use super::moves::{Awaits, Direction, Transfer};
use super::offers::{reach_sink, reach_source};
use super::queue::What;
use super::{Lent, Net};
use crate::errors::Outcome;
use crate::ground::memory::{Sink, Source};
use crate::handle::Token;
use crate::transport::contract::{Asked, Deliver, Fetch, Fetched, Offered, Place, Roster, Served};
use ferriband_heal::PeerNews;
use ferriband_ibv::{RKey, SendFlags, SendWr};
use ferriband_mpi_proto::envelope::ACKNOW;

/// Bytes of long messages after which their receiver hears of them, whatever could go along later.
const PRESSING: u64 = 128 << 10;

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Posted {
    /// Bytes that are under way now.
    Some(u64),
    /// No room.
    None,
}

/// A message has been written whole, and its receiver does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// What names it to this side.
    pub token: Token,
    /// What its receiver calls it.
    pub receive: u64,
    /// Its bytes.
    pub length: u64,
    /// Flags of the envelope that says so.
    pub flags: u8,
}

impl Net {
    /// How a message from `peer`, some bytes, comes that has met its receive. One that is
    /// [`Fetched::Coming`] goes on by [`Net::move_on`].
    pub fn fetch(&mut self, peer: u32, what: &Fetch) -> Outcome<Fetched> {
        if what.offered == Offered::Parts {
            return Ok(Fetched::Ask {
                asked: Asked::Pieces,
                note: 0,
            });
        }
        let lands = what.offered == Offered::Whole && self.wants_lane(peer);
        if lands {
            let range = match self.reach_receive(peer, what.sink, true) {
                Ok(range) => range,
                Err(fetched) => return Ok(fetched),
            };
            let length = what.sink.len() as u64;
            if let Some(lane) = self.land(peer, what.receive, length, &range)? {
                self.keep_offer(peer, what.receive, range, Kept::Landing);
                return Ok(Fetched::Ask {
                    asked: Asked::Lane(lane),
                    note: self.link(peer).long.lane.tell_landed(),
                });
            }
            // It is written, then, and its sender needs a key.
        }
        let is_own = what.offered.place().is_some();
        let range = match self.reach_receive(peer, what.sink, is_own) {
            Ok(range) => range,
            Err(fetched) => return Ok(fetched),
        };
        if let Some(place) = what.offered.place() {
            let (direction, length) = (Direction::Read(range), what.sink.len() as u64);
            let (remote, awaits_key) = match self.known_key(peer, what.send, what.told, place) {
                Known::Good(place) => (place, false),
                Known::Void => (place, true),
                Known::Over(class) => return Ok(Fetched::Failed(class)),
            };
            self.begin_transfer(Transfer {
                whole: what.length,
                remote,
                told: what.told,
                awaits_key,
                ..Transfer::new(peer, what.receive, direction, what.send, length)
            });
            return Ok(Fetched::Coming);
        }
        let place = Place {
            address: range.address(),
            rkey: range.rkey(),
        };
        self.keep_offer(peer, what.receive, range, Kept::Sink);
        Ok(Fetched::Ask {
            asked: Asked::Written(place),
            note: self.link(peer).long.lane.tell_landed(),
        })
    }

    /// Lets `sink` be written by requests: of this rank if `is_own`, else of its peer. Else how the
    /// message comes instead: in pieces if it is no one range; not at all if requests cannot reach
    /// it, which is this message's end and nothing else's.
    fn reach_receive(&mut self, peer: u32, sink: Sink, is_own: bool) -> Result<Reachable, Fetched> {
        let purpose = if is_own {
            Purpose::Own
        } else {
            self.purpose(peer)
        };
        let range = reach_sink(self.reach_of(peer), sink, purpose);
        let start = sink.pointer().map_or(0, |start| start.addr() as u64);
        match self.made_known(peer, range, (start, sink.len() as u64)) {
            Ok(Some(range)) => Ok(range),
            Ok(None) => Err(Fetched::Ask {
                asked: Asked::Pieces,
                note: 0,
            }),
            Err(class) => Err(Fetched::Failed(class)),
        }
    }

    /// The receiver asks for `source`, some bytes, to be written where it has said or sent by the
    /// lane. What is [`Served::Moving`] goes on by [`Net::move_on`]. `receive`: what the receiver
    /// calls it.
    pub fn serve(
        &mut self,
        peer: u32,
        token: Token,
        source: Source,
        asked: Asked,
        receive: u64,
    ) -> Outcome<Served> {
        let length = source.len() as u64;
        let (landing, remote) = match asked {
            Asked::Lane(lane) if self.is_asked_by_lane(peer, lane) && length <= LONGEST => {
                (lane, Place::default())
            }
            Asked::Written(place) => (0, place),
            // p2p serves pieces itself
            Asked::Lane(_) | Asked::Pieces => return Err(self.broken_off(peer)),
        };
        let by_lane = landing != 0;
        let range = reach_source(self.reach_of(peer), source, Purpose::Own);
        let start = source.address().unwrap_or(0);
        let direction = match self.made_known(peer, range, (start, length)) {
            // nothing of that kind was offered
            Ok(None) => return Err(self.broken_off(peer)),
            Ok(Some(range)) if by_lane => Direction::Lane(Ok(range)),
            Ok(Some(range)) => Direction::Write(range),
            // The receive that waits for it has to be used up all the same.
            Err(class) if by_lane => Direction::Lane(Err(class)),
            Err(class) => {
                self.withdraw(token);
                return Ok(Served::Failed(class));
            }
        };
        let length = match direction {
            Direction::Lane(Err(_)) => 0,
            _ => length,
        };
        let transfer = Transfer::new(peer, token, direction, receive, length);
        // All that was taken with the CTS was told in one life, with keys of one generation.
        let told = self.link(peer).received;
        let (remote, awaits_key) = match by_lane {
            true => (remote, false),
            false => match self.known_key(peer, receive, told, remote) {
                Known::Good(place) => (place, false),
                Known::Void => (remote, true),
                Known::Over(class) => return Ok(Served::Failed(class)),
            },
        };
        self.begin_transfer(Transfer {
            remote,
            told,
            awaits_key,
            awaits: self.awaited(&transfer, landing),
            ..transfer
        });
        Ok(Served::Moving)
    }

    /// The receiver has posted a receive of the lane, that of this number, for a message that has
    /// ended meanwhile: it is told the class of why.
    #[cold]
    pub fn refuse_by_lane(&mut self, peer: u32, number: u32, class: i32) -> Outcome {
        if !self.is_asked_by_lane(peer, number) {
            return Err(self.broken_off(peer));
        }
        let direction = Direction::Lane(Err(class));
        let transfer = Transfer::new(peer, Token::NONE, direction, 0, 0);
        self.begin_transfer(Transfer {
            awaits: self.awaited(&transfer, number),
            ..transfer
        });
        Ok(())
    }

    /// What must be known of a message that goes into the landing of this number, or into none.
    /// Where nothing is kept it is over when it has gone.
    fn awaited(&self, transfer: &Transfer, landing: u32) -> Awaits {
        match transfer.direction {
            Direction::Lane(_) if self.limits.acks => Awaits::Landing(landing),
            _ => transfer.awaits,
        }
    }

    fn begin_transfer(&mut self, transfer: Transfer) {
        let peer = transfer.peer;
        let index = match self.moves.transfers.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.moves.transfers.push(None);
                self.moves.transfers.len() - 1
            }
        };
        self.moves.transfers[index] = Some(transfer);
        self.link(peer).long.moving.push_back(index as u32);
        if !self.moves.movers.contains(&peer) {
            self.moves.movers.push(peer);
        }
    }

    /// The peer at that place among those whose long messages are not posted whole.
    #[inline]
    pub fn mover(&self, at: usize) -> Option<u32> {
        self.moves.movers.get(at).copied()
    }

    /// How many those are.
    #[inline]
    pub fn movers(&self) -> usize {
        self.moves.movers.len()
    }

    /// Posts more of the long messages to and from `peer`, as much as there is room for, or up to
    /// the end of one that is written: its receiver is to be told now, for what tells it comes
    /// after the WRITEs, on the same queue pair, and they are placed before it is received.
    pub fn move_on<R: Roster>(&mut self, roster: &R, peer: u32) -> Outcome<Option<Written>> {
        if self.ready(roster, peer)? == super::Ready::NotYet {
            return Ok(None);
        }
        let piece = self.limits.piece as u64;
        loop {
            let Some(index) = self.link(peer).long.moving.front().copied() else {
                self.moves.movers.retain(|mover| *mover != peer);
                return Ok(None);
            };
            let Posted::Some(bytes) = self.post_piece(peer, index, piece)? else {
                return Ok(None);
            };
            let Some(transfer) = self.moves.transfers[index as usize].as_mut() else {
                return Ok(None);
            };
            if !transfer.has_posted(bytes) {
                continue;
            }
            let (token, receive, length) = (transfer.token, transfer.name, transfer.length);
            let is_written = transfer.says_written();
            self.link(peer).long.moving.pop_front();
            if is_written {
                return Ok(Some(Written {
                    token,
                    receive,
                    length,
                    flags: if self.limits.acks { ACKNOW } else { 0 },
                }));
            }
        }
    }

    /// Whether what waits for `peer` is not to wait behind the next long message, nor for others to
    /// go with, once `length` bytes more have gone since it was last sent: a receiver that heard of
    /// a window's messages together would have nothing to do until then, and sleep. If so, until
    /// [`Net::has_pressed`].
    pub fn presses(&mut self, peer: u32, length: u64) -> bool {
        let long = &mut self.link(peer).long;
        long.unreported += length;
        if long.unreported < PRESSING {
            return false;
        }
        long.unreported = 0;
        self.coalesce.presses = true;
        true
    }

    /// What waited has been sent, as far as there was room.
    pub fn has_pressed(&mut self) {
        self.coalesce.presses = false;
    }

    /// `bytes` of a transfer have come, or gone.
    pub(super) fn moved<R, D: Deliver>(
        &mut self,
        peer: u32,
        index: u32,
        bytes: u32,
        lent: &mut Lent<'_, R, D>,
    ) {
        let Some(transfer) = self.moves.transfers[index as usize].as_mut() else {
            return;
        };
        transfer.course.has_moved(bytes);
        if matches!(transfer.direction, Direction::Read(_)) {
            self.link(peer).long.reads -= 1;
        }
        if let Some(ended) = self.end_if_over(index) {
            lent.done(peer, ended.token, ended.done);
        }
    }

    /// The rank `peer` has died: what moves bytes from or to it is over, whatever comes of that,
    /// and it is told nothing more.
    #[cold]
    pub fn forget(&mut self, peer: u32) {
        let now = self.connect.now();
        if self.links[peer as usize].is_none() {
            return;
        }
        self.forget_given_up(peer);
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return;
        };
        link.wire.is_dead = true;
        link.words.clear();
        if !link.is_ready() {
            // Nobody answers.
            link.wire.session.handle_peer(PeerNews::Dead, now);
        }
        // Nothing comes into the program's memory by it any more.
        link.long.lane.lose();
        for (index, place) in (0..).zip(&mut self.moves.transfers) {
            let Some(transfer) = place.as_mut().filter(|one| one.peer == peer) else {
                continue;
            };
            // What is posted completes; nothing more of it is.
            transfer.give_up();
            link.long.moving.retain(|moving| *moving != index);
            if matches!(transfer.direction, Direction::Lane(_)) || transfer.is_over() {
                *place = None;
            }
        }
    }

    /// Posts the next piece of transfer `index`.
    pub(super) fn post_piece(&mut self, peer: u32, index: u32, piece: u64) -> Outcome<Posted> {
        let link = self.link(peer);
        let (most_reads, id) = (link.long.most_reads, link.wire.id);
        let Some(transfer) = self.moves.transfers[index as usize].as_ref() else {
            return Ok(Posted::None);
        };
        if transfer.awaits_key {
            return Ok(Posted::None);
        }
        let next = transfer.course.next;
        let left = transfer.length - next;
        let remote = transfer.remote.address.wrapping_add(next);
        let key = RKey(transfer.remote.rkey);
        let bytes = match transfer.direction {
            Direction::Lane(_) => left as u32,
            _ => left.min(piece) as u32,
        };
        let what = What::Moved {
            transfer: index,
            bytes,
        };
        let posted = match transfer.direction.clone() {
            Direction::Lane(range) => {
                let message = range.as_ref().map(|range| (range, left as u32));
                self.send_by_lane(peer, message.map_err(|class| *class), what)?
            }
            Direction::Read(range) => {
                if self.link(peer).long.reads >= most_reads {
                    return Ok(Posted::None);
                }
                let elements = [range.element(next, left.min(piece) as u32)];
                let request = SendWr::read(id, remote, key, &elements);
                let posted = self.submit(peer, request, SendFlags::empty(), what)?;
                self.link(peer).long.reads += u32::from(posted);
                posted
            }
            Direction::Write(range) => {
                let elements = [range.element(next, left.min(piece) as u32)];
                let request = SendWr::write(id, remote, key, &elements);
                self.submit(peer, request, SendFlags::empty(), what)?
            }
        };
        Ok(if posted {
            Posted::Some(u64::from(bytes))
        } else {
            Posted::None
        })
    }
}
