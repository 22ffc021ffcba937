//! Long messages by verbs: the receiver READs from the sender's buffer (RGet), or the sender WRITEs to the receiver's (RPut).

use super::lane::LONGEST;
use super::memory::{Purpose, Reach, Reachable, Refusal};
use super::offers::{reach_sink, reach_source};
use super::queue::What;
use super::{Id, Net};
use crate::constants::{MPI_ERR_BUFFER, MPI_ERR_PROC_ABORTED, MPI_ERR_TRUNCATE, MPI_SUCCESS};
use crate::errors::{Outcome, broken};
use crate::ground::status::status;
use crate::handle::NOBODY;
use crate::request::Work;
use crate::runtime::Runtime;
use crate::transport::contract::{Offered, Place};
use ferriband_ibv::{RKey, SendFlags, SendWr};
use ferriband_mpi_proto::envelope::{self, Kind};
use std::collections::HashMap;
use zerocopy::IntoBytes;

/// Bytes of long messages after which their receiver hears of them, whatever could go along later.
const PRESSING: u64 = 128 << 10;

/// Long messages, to and from all peers.
pub struct Moves {
    pub(super) reach: Reach,
    /// Messages that peers may read: by the index of their request.
    pub(super) offers: HashMap<u32, Reachable>,
    pub(super) transfers: Vec<Option<Transfer>>,
    /// Ranks with long messages that are not posted whole.
    pub(super) movers: Vec<u32>,
}

/// A long message under way.
pub struct Transfer {
    peer: u32,
    /// The request of this side.
    request: u32,
    /// The peer's.
    token: u64,
    direction: Direction,
    remote: Place,
    length: u64,
    /// Bytes that have been asked for.
    next: u64,
    /// Bytes that have come, or gone.
    done: u64,
    /// Bytes of the whole message, for who sent it.
    whole: u64,
}

impl Transfer {
    /// Who it is from, or to.
    pub fn peer(&self) -> u32 {
        self.peer
    }

    /// This side's request, unless that is over.
    pub fn request(&self) -> Option<u32> {
        Some(self.request).filter(|request| *request != NOBODY)
    }
}

#[derive(Clone)]
enum Direction {
    /// From the peer, into this range.
    Read(Reachable),
    /// To the peer, from this range.
    Write(Reachable),
    /// To the peer, by the lane, from this range; or the class of why it cannot be sent.
    Lane(Result<Reachable, i32>),
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Posted {
    /// Bytes that are under way now.
    Some(u64),
    /// No room.
    None,
}

impl Runtime {
    /// Begins to fetch a message of `whole` bytes from `peer`; the first `wanted` bytes of it,
    /// some, are received. False if it has to come in pieces: elements lie with gaps at either end.
    pub fn fetch_by_verbs(
        &mut self,
        receive: u32,
        source: (u32, i32),
        token: u64,
        lengths: (u64, u64),
        offered: Offered,
    ) -> Outcome<bool> {
        if offered == Offered::Parts {
            return Ok(false);
        }
        let lands = offered == Offered::Whole && self.wants_lane(self.point.requests[receive].peer);
        self.fetch_range(receive, source, token, lengths, offered, lands)
    }

    /// As [`Self::fetch_by_verbs`]; `lands`: by the lane, if there is one.
    fn fetch_range(
        &mut self,
        receive: u32,
        (rank, tag): (u32, i32),
        token: u64,
        (whole, wanted): (u64, u64),
        offered: Offered,
        lands: bool,
    ) -> Outcome<bool> {
        let peer = self.point.requests[receive].peer;
        let is_own = lands || offered.place().is_some();
        let range = match self.reach_receive(receive, wanted, is_own) {
            Ok(Some(range)) => range,
            Ok(None) => return Ok(false),
            // this message's end, and nothing else's: its sender is told
            Err(error) => {
                self.point.requests[receive].status = status(rank, tag, MPI_SUCCESS, 0);
                self.fetch_failed(receive, peer, token, class_of(&error))?;
                return Ok(true);
            }
        };
        let number = if lands {
            self.land(peer, receive, wanted, &range)?
        } else {
            None
        };
        if lands && number.is_none() {
            // It is written, then, and its sender needs a key.
            let lengths = (whole, wanted);
            return self.fetch_range(receive, (rank, tag), token, lengths, offered, false);
        }
        let error = if whole > wanted {
            MPI_ERR_TRUNCATE
        } else {
            MPI_SUCCESS
        };
        let entry = &mut self.point.requests[receive];
        entry.status = status(rank, tag, error, wanted);
        let moving = Work::Moving { expected: wanted };
        entry.work = if lands { Work::Landing } else { moving };
        match offered.place() {
            None => self.ask_for(receive, token, wanted, range, number)?,
            Some(remote) => self.begin_transfer(Transfer {
                peer,
                request: receive,
                token,
                direction: Direction::Read(range),
                remote,
                length: wanted,
                next: 0,
                done: 0,
                whole,
            })?,
        }
        Ok(true)
    }

    /// Lets the first `wanted` bytes of what `receive` is for be written by requests: of this rank
    /// if `is_own`, else of its peer. None if they are no one range.
    fn reach_receive(
        &mut self,
        receive: u32,
        wanted: u64,
        is_own: bool,
    ) -> Result<Option<Reachable>, Refusal> {
        let entry = &self.point.requests[receive];
        let (peer, sink) = (entry.peer, entry.sink.part(0, wanted as usize));
        let purpose = if is_own {
            Purpose::Own
        } else {
            self.purpose(peer)
        };
        let Some(net) = &mut self.net else {
            return Ok(None);
        };
        reach_sink(&mut net.moves.reach, sink, purpose)
    }

    /// Asks for the first `length` bytes of the message `token`: by the lane, into its receive
    /// `number`, if there is that; else to be written to `range`.
    fn ask_for(
        &mut self,
        receive: u32,
        token: u64,
        length: u64,
        range: Reachable,
        number: Option<u32>,
    ) -> Outcome {
        let (address, rkey) = match number {
            Some(_) => (0, 0),
            None => (range.address(), range.rkey()),
        };
        let cts = envelope::Cts {
            send_request: token.into(),
            receive_request: self.point.requests.token(receive).into(),
            offset: 0.into(),
            length: length.into(),
            address: address.into(),
            rkey: rkey.into(),
            lane: number.unwrap_or(0).into(),
        };
        if let Some(net) = &mut self.net {
            net.moves.offers.insert(receive, range);
        }
        let peer = self.point.requests[receive].peer;
        self.answer(peer, Kind::Cts, cts.as_bytes())
    }

    /// The receiver asks for the first `length` bytes, some, of a message to be written to `remote`.
    pub fn write_by_verbs(
        &mut self,
        peer: u32,
        request: u32,
        token: u64,
        length: u64,
        remote: Place,
    ) -> Outcome {
        let source = self.point.requests[request].source.part(0, length as usize);
        let Some(net) = &mut self.net else {
            return Err(broken(peer));
        };
        let range = match reach_source(&mut net.moves.reach, source, Purpose::Own) {
            Ok(Some(range)) => range,
            // nothing of that kind was offered
            Ok(None) => return Err(self.broken_off(peer)),
            Err(error) => {
                let class = class_of(&error);
                self.point.requests[request].status.error = class;
                self.withdraw(request);
                self.finish(request);
                return self.fin(peer, token, length, class);
            }
        };
        self.begin_transfer(Transfer {
            peer,
            request,
            token,
            direction: Direction::Write(range),
            remote,
            length,
            next: 0,
            done: 0,
            whole: length,
        })
    }

    /// The receiver has posted a receive of the lane, that of this number, for the first `length` bytes, some, of a message.
    pub fn send_asked_by_lane(
        &mut self,
        peer: u32,
        request: u32,
        number: u32,
        length: u64,
    ) -> Outcome {
        let source = self.point.requests[request].source.part(0, length as usize);
        let is_turn = self.is_asked_by_lane(peer, number) && length <= LONGEST;
        let Some(net) = self.net.as_mut().filter(|_| is_turn) else {
            return Err(self.broken_off(peer));
        };
        let range = match reach_source(&mut net.moves.reach, source, Purpose::Own) {
            Ok(Some(range)) => Ok(range),
            Ok(None) => return Err(self.broken_off(peer)),
            // The receive that waits for it has to be used up all the same.
            Err(error) => Err(class_of(&error)),
        };
        self.point.requests[request].work = Work::Moving { expected: length };
        let length = match &range {
            Ok(_) => length,
            Err(class) => {
                self.point.requests[request].status.error = *class;
                0
            }
        };
        self.send_landing(peer, request, range, length)
    }

    /// The receiver asks for a message that has ended meanwhile: in a collective of whose ranks one has died. Its receive ends, too.
    #[cold]
    pub fn asked_too_late(&mut self, peer: u32, cts: &envelope::Cts) -> Outcome {
        let class = MPI_ERR_PROC_ABORTED;
        match cts.lane.get() {
            0 => self.fin(peer, cts.receive_request.get(), cts.length.get(), class),
            number if self.is_asked_by_lane(peer, number) => {
                self.send_landing(peer, NOBODY, Err(class), 0)
            }
            _ => Err(self.broken_off(peer)),
        }
    }

    /// Sends `length` bytes, or why there are none, into the receive whose turn it is.
    fn send_landing(
        &mut self,
        peer: u32,
        request: u32,
        range: Result<Reachable, i32>,
        length: u64,
    ) -> Outcome {
        self.begin_transfer(Transfer {
            peer,
            request,
            token: 0,
            direction: Direction::Lane(range),
            remote: Place::default(),
            length,
            next: 0,
            done: 0,
            whole: length,
        })
    }

    fn begin_transfer(&mut self, transfer: Transfer) -> Outcome {
        let peer = transfer.peer;
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        let index = match net.moves.transfers.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                net.moves.transfers.push(None);
                net.moves.transfers.len() - 1
            }
        };
        net.moves.transfers[index] = Some(transfer);
        net.link(peer).long.moving.push_back(index as u32);
        if !net.moves.movers.contains(&peer) {
            net.moves.movers.push(peer);
        }
        self.move_on(peer)
    }

    /// Posts more of the long messages to and from all peers.
    pub(super) fn move_all(&mut self) -> Outcome {
        for at in (0..self.net.as_ref().map_or(0, |net| net.moves.movers.len())).rev() {
            let Some(net) = &mut self.net else {
                break;
            };
            let Some(peer) = net.moves.movers.get(at).copied() else {
                continue;
            };
            self.move_on(peer)?;
        }
        Ok(())
    }

    /// Posts more of the long messages to and from `peer`, as much as there is room for.
    fn move_on(&mut self, peer: u32) -> Outcome {
        if self.ready(peer)? == super::Ready::NotYet {
            return Ok(());
        }
        let piece = self.settings.verbs.piece as u64;
        loop {
            let Some(net) = &mut self.net else {
                return Ok(());
            };
            let Some(index) = net.link(peer).long.moving.front().copied() else {
                net.moves.movers.retain(|mover| *mover != peer);
                return Ok(());
            };
            let Posted::Some(bytes) = net.post_piece(peer, index, piece)? else {
                return Ok(());
            };
            let Some(transfer) = net.moves.transfers[index as usize].as_mut() else {
                return Ok(());
            };
            transfer.next += bytes;
            if transfer.next < transfer.length {
                continue;
            }
            let (token, length) = (transfer.token, transfer.length);
            let is_written = matches!(transfer.direction, Direction::Write(_));
            net.link(peer).long.moving.pop_front();
            if is_written {
                // It comes after the WRITEs, on the same queue pair, and they are placed before it is received.
                self.fin(peer, token, length, MPI_SUCCESS)?;
                self.press(peer, length)?;
            }
        }
    }

    /// What waits for `peer` does not wait behind the next long message, once `bytes` more have gone since it was last sent: a receiver that heard of a window's messages together would
    /// have nothing to do until then, and sleep.
    fn press(&mut self, peer: u32, bytes: u64) -> Outcome {
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        let link = net.link(peer);
        link.long.unsaid += bytes;
        if link.long.unsaid < PRESSING {
            return Ok(());
        }
        link.long.unsaid = 0;
        if self.point.peers[peer as usize].fifo.is_empty() {
            return Ok(());
        }
        net.coalesce.presses = true;
        let outcome = self.pump(peer);
        if let Some(net) = &mut self.net {
            net.coalesce.presses = false;
        }
        outcome.map(drop)
    }

    /// `bytes` of a transfer have come, or gone.
    pub(super) fn moved(&mut self, peer: u32, index: u32, bytes: u32) -> Outcome {
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        let Some(transfer) = net.moves.transfers[index as usize].as_mut() else {
            return Ok(());
        };
        transfer.done += u64::from(bytes);
        let is_done = transfer.done == transfer.length;
        let is_read = matches!(transfer.direction, Direction::Read(_));
        let (request, token, whole) = (transfer.request(), transfer.token, transfer.whole);
        if is_done {
            net.moves.transfers[index as usize] = None;
            net.stats.moved += 1;
        }
        if is_read {
            net.link(peer).long.reads -= 1;
        }
        // The rank may have died, and its requests with it.
        if is_done && let Some(request) = request {
            self.finish(request);
            if is_read {
                self.fin(peer, token, whole, MPI_SUCCESS)?;
            }
        }
        Ok(())
    }
}

impl Net {
    /// The requests that move bytes from or to `peer` are over, whatever comes of them.
    #[cold]
    pub fn forget_requests(&mut self, peer: u32) {
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return;
        };
        // Nothing comes into the program's memory by it any more.
        link.long.lane.lose();
        for (index, place) in (0..).zip(&mut self.moves.transfers) {
            let Some(transfer) = place.as_mut().filter(|one| one.peer == peer) else {
                continue;
            };
            // What is posted completes; nothing more of it is.
            transfer.request = NOBODY;
            transfer.length = transfer.next;
            link.long.moving.retain(|moving| *moving != index);
            if matches!(transfer.direction, Direction::Lane(_)) || transfer.done == transfer.next {
                *place = None;
            }
        }
    }

    /// Posts the next piece of transfer `index`.
    fn post_piece(&mut self, peer: u32, index: u32, piece: u64) -> Outcome<Posted> {
        let most_reads = self.most_reads();
        let Some(transfer) = self.moves.transfers[index as usize].as_ref() else {
            return Ok(Posted::None);
        };
        let (next, left) = (transfer.next, transfer.length - transfer.next);
        let remote = transfer.remote.address.wrapping_add(next);
        let key = RKey(transfer.remote.rkey);
        let id = Id::Peer(peer).code();
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

/// The class of a range of memory that requests cannot name.
#[cold]
fn class_of(refusal: &Refusal) -> i32 {
    match refusal {
        Refusal::Unreachable => MPI_ERR_BUFFER,
        Refusal::Device(error) => super::errors::class_of(error.errno()),
    }
}
