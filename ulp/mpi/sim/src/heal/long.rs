//! Long messages: read (RGet), written (RPut), by the lane, in pieces; what meets its receive, what
//! is taken back, and what ends because its memory is not there.

use super::Fault;
use super::lane::by_lane;
use super::rank::{Held, Offer, Transfer};
use super::wire::{Body, DEPTH, How, Op, Outcome, Part, To, Way};
use super::world::World;
use ferriband_heal::{Cause, Number};
use ferriband_mpi_proto::resume::{Doubt, Moving, next_landing};

impl World {
    /// A message of those that wait meets its receive. True if one did.
    pub fn meet_one(&mut self, me: usize, from: usize) -> Outcome<bool> {
        let count = self.ranks[me].links[from].held.len() as u64;
        if count == 0 || self.rng.chance(600) {
            return Ok(false);
        }
        let at = self.rng.below(count) as usize;
        let held = self.link(me, from).held.remove(at);
        let letter = held.letter;
        let held = self.named_anew(me, from, held);
        self.letters.meet(letter);
        let keys = self.link(me, from).own_keys;
        let way = self.letters.0[letter].way;
        let to = match way {
            Way::Eager | Way::Synchronous => {
                self.letters.received(letter, false, "M1")?;
                self.link(me, from).fifo.push_back(Body::Matched(letter));
                return Ok(true);
            }
            Way::Read if held.is_over => {
                let is_error = true;
                self.letters.received(letter, is_error, "M1")?;
                let fin = Body::Fin { letter, is_error };
                self.link(me, from).fifo.push_back(fin);
                return Ok(true);
            }
            Way::Read => {
                self.begin(me, from, Moving::Read, 0, held);
                return Ok(true);
            }
            Way::Whole => {
                let landing = if self.rng.chance(self.plan.lanes) {
                    self.land(me, from, letter)
                } else {
                    None
                };
                landing.map_or(To::Key(keys), To::Lane)
            }
            Way::Pieces => To::Pieces,
        };
        let link = self.link(me, from);
        let cts = Body::Cts(letter, to, link.lane.landed);
        link.fifo.push_back(cts);
        link.lane.is_news = false;
        let wants_lane = matches!(to, To::Key(_)) && self.rng.chance(self.plan.lanes);
        let link = &self.ranks[me].links[from];
        if wants_lane && link.session.is_up() && link.lane.state == Default::default() {
            self.tell_lane(me, from);
        }
        Ok(true)
    }

    /// The receiver asks for a message.
    pub fn asked(
        &mut self,
        me: usize,
        peer: usize,
        letter: usize,
        to: To,
        told: Number,
    ) -> Outcome {
        let is_void = self.link(me, peer).keys.are_void(told) && !self.is(Fault::OldKey);
        let is_over = false;
        match to {
            To::Key(key) => {
                let kind = if self.rng.chance(300) {
                    Moving::Staged
                } else {
                    Moving::Write
                };
                let key = Some(key).filter(|_| !is_void);
                self.begin(
                    me,
                    peer,
                    kind,
                    0,
                    Held {
                        letter,
                        told,
                        memory: letter,
                        key,
                        is_over,
                    },
                );
            }
            To::Lane(number) => {
                let lane = &mut self.link(me, peer).lane;
                let next = next_landing(lane.asked);
                lane.asked = next;
                if number != next {
                    return Err(format!(
                        "M1: {peer} asks {me} by landing {number}, not {next}"
                    ));
                }
                let key = None;
                // Its receiver may have ended it before.
                let is_over = self.letters.0[letter].is_sent;
                let held = Held {
                    letter,
                    told,
                    memory: letter,
                    key,
                    is_over,
                };
                self.begin(me, peer, Moving::Lane, number, held);
            }
            To::Pieces => {
                let parts = self.letters.0[letter].parts;
                let pieces = (0..parts).map(|part| Body::Piece(letter, part));
                self.link(me, peer).fifo.extend(pieces);
            }
        }
        Ok(())
    }

    fn begin(&mut self, me: usize, peer: usize, kind: Moving, lane: u32, of: Held) {
        let Held {
            letter,
            told,
            memory,
            key,
            is_over,
        } = of;
        let length = match kind {
            Moving::Lane => 1,
            _ => self.letters.0[letter].parts,
        };
        let link = self.link(me, peer);
        let id = link.next_transfer;
        link.next_transfer += 1;
        let keys = link.own_keys;
        let transfer = Transfer {
            letter,
            kind,
            length,
            next: 0,
            done: 0,
            fin: None,
            lane,
            told,
            memory,
            key,
            keys,
            is_error: is_over,
            doubt: Doubt::default(),
        };
        link.transfers.insert(id, transfer);
        link.moving.push_back(id);
    }

    /// Posts more of the long messages. True if something went.
    pub fn move_on(&mut self, me: usize, peer: usize) -> bool {
        if !self.ranks[me].links[peer].session.is_up() {
            return false;
        }
        let mut has_lane = false;
        for id in self.link(me, peer).moving.clone() {
            let Some(one) = self.link(me, peer).transfers.get(&id).copied() else {
                self.link(me, peer).moving.retain(|moving| *moving != id);
                continue;
            };
            let waits_turn = one.kind == Moving::Lane && has_lane;
            has_lane |= one.kind == Moving::Lane;
            if waits_turn || !self.post_part(me, peer, id) {
                continue;
            }
            let link = self.link(me, peer);
            let one = link.transfers[&id];
            if one.next == one.length {
                link.moving.retain(|moving| *moving != id);
                if matches!(one.kind, Moving::Write | Moving::Staged) {
                    let (letter, is_error) = (one.letter, false);
                    link.fifo.push_back(Body::Fin { letter, is_error });
                }
            }
            return true;
        }
        false
    }

    /// Posts the next part of a transfer. False if that cannot be now.
    pub fn post_part(&mut self, me: usize, peer: usize, id: u32) -> bool {
        let link = &self.ranks[me].links[peer];
        let (one, main) = (link.transfers[&id], link.queue_pair);
        let how = match one.kind {
            Moving::Read => How::Read,
            Moving::Lane => by_lane(one.is_error),
            _ => How::Write,
        };
        let part = Part {
            how,
            transfer: id,
            letter: one.letter,
            memory: one.memory,
            chunk: one.next,
            key: one.key.unwrap_or_default(),
            own: one.keys,
        };
        let is_posted = if one.kind == Moving::Lane {
            self.send_by_lane(me, peer, part)
        } else {
            let has_room = |at: &usize| self.queue_pairs[*at].sends.len() < DEPTH;
            let main = main.filter(has_room).filter(|_| one.key.is_some());
            if let Some(at) = main {
                self.post(at, Op::Part(part));
            }
            main.is_some()
        };
        if is_posted && let Some(one) = self.link(me, peer).transfers.get_mut(&id) {
            one.next += 1;
        }
        is_posted
    }

    /// A part has come or gone.
    pub fn moved(&mut self, me: usize, peer: usize, id: u32) -> Outcome {
        let is_early = match self.fault {
            Some(Fault::WriteOverEarly) => Some(Moving::Write),
            Some(Fault::LaneOverEarly) => Some(Moving::Lane),
            _ => None,
        };
        let Some(one) = self.link(me, peer).transfers.get_mut(&id) else {
            return Ok(());
        };
        one.done += 1;
        if one.done != one.length {
            return Ok(());
        }
        let one = *one;
        if one.kind == Moving::Read {
            let letter = one.letter;
            self.link(me, peer).transfers.remove(&id);
            self.letters.received(letter, false, "M1")?;
            let is_error = false;
            let fin = Body::Fin { letter, is_error };
            self.link(me, peer).fifo.push_back(fin);
        } else if is_early == Some(one.kind) {
            self.transfer_over(me, peer, id)?;
        }
        Ok(())
    }

    /// The send that a transfer is for is over.
    pub fn transfer_over(&mut self, me: usize, peer: usize, id: u32) -> Outcome {
        let Some(one) = self.link(me, peer).transfers.remove(&id) else {
            return Ok(());
        };
        self.letters.sent(one.letter, one.is_error)
    }

    /// An adapter says of transfer `id`, or of the oldest landing, that the program's memory is not
    /// there: whether that is believed.
    pub fn is_proven(&mut self, me: usize, peer: usize, id: Option<u32>) -> bool {
        let believes = self.is(Fault::FirstBelieved);
        let link = self.link(me, peer);
        let doubt = match id {
            Some(id) => link.transfers.get_mut(&id).map(|one| &mut one.doubt),
            None => Some(&mut link.lane.doubt),
        };
        let is_proven = doubt.is_some_and(|one| one.is_proven(link.own_keys, &link.keys));
        is_proven || believes
    }

    /// A part cannot be had because the program's memory is not there: the message ends, and the
    /// peer is told; then the connection heals (law H7).
    pub fn at_fault(&mut self, me: usize, peer: usize, id: u32) -> Outcome {
        let Some(one) = self.link(me, peer).transfers.get_mut(&id) else {
            return Ok(());
        };
        one.is_error = true;
        let (letter, kind) = (one.letter, one.kind);
        if kind == Moving::Lane {
            // Its landing is used up by a message without bytes.
            return Ok(());
        }
        let (fin, is_error) = (one.fin, true);
        let link = self.link(me, peer);
        link.transfers.remove(&id);
        let body = Body::Fin { letter, is_error };
        link.fifo.retain(|one| !is_fin(one, letter));
        match link
            .copies
            .iter_mut()
            .find(|one| Some(Number(one.0)) == fin)
        {
            // What the log has does not say any more that all is written.
            Some(copy) => copy.1 = body,
            None => link.fifo.push_back(body),
        }
        if kind == Moving::Read {
            self.letters.received(letter, true, "M1")?;
        } else {
            self.letters.sent(letter, true)?;
        }
        if self.is(Fault::OneForAll) {
            let others: Vec<u32> = self.link(me, peer).transfers.keys().copied().collect();
            for id in others {
                self.at_fault(me, peer, id)?;
            }
        }
        Ok(())
    }

    /// FIN: the peer has read it, or has written it; or one of the two could not.
    pub fn finished(&mut self, me: usize, peer: usize, letter: usize, is_error: bool) -> Outcome {
        self.link(me, peer).offers.remove(&letter);
        if self.letters.0[letter].from == me {
            return self.letters.sent(letter, is_error);
        }
        let one = &self.letters.0[letter];
        if one.given_up[1] && one.is_received {
            return Ok(());
        }
        self.letters.received(letter, is_error, "H5")
    }

    /// The peer wants a message back.
    pub fn recalled(&mut self, me: usize, from: usize, letter: usize) -> Outcome {
        let held = &mut self.link(me, from).held;
        let before = held.len();
        held.retain(|one| one.letter != letter);
        let is_found = held.len() < before;
        let answer = Body::Cancelled(letter, is_found);
        self.link(me, from).fifo.push_back(answer);
        Ok(())
    }

    /// What became of a message that this rank wanted back.
    pub fn cancelled(&mut self, me: usize, peer: usize, letter: usize, is_found: bool) -> Outcome {
        if is_found {
            self.link(me, peer).offers.remove(&letter);
            self.letters.cancelled(letter)?;
            self.report.cancelled += 1;
        }
        Ok(())
    }

    /// The program wants a message back, now and then.
    pub fn recall(&mut self, me: usize, peer: usize) {
        if !self.rng.chance(30) || self.letters.0.is_empty() {
            return;
        }
        let letter = self.rng.below(self.letters.0.len() as u64) as usize;
        let one = &mut self.letters.0[letter];
        let is_it = (one.from, one.to) == (me, peer) && !one.is_sent && !one.is_recalled;
        let is_queued = |body: &Body| match body {
            Body::Data(other) | Body::Rts(other, ..) => *other == letter,
            _ => false,
        };
        if is_it && !self.ranks[me].links[peer].fifo.iter().any(is_queued) {
            self.letters.0[letter].is_recalled = true;
            self.link(me, peer).fifo.push_back(Body::Cancel(letter));
        }
    }

    /// RENEW: the peer's memory for a message has this key now; none: the message is over.
    pub fn renewed(&mut self, me: usize, peer: usize, letter: usize, key: Option<u16>) -> Outcome {
        let link = self.link(me, peer);
        let is_moving = link.transfers.values().any(|one| one.letter == letter);
        let one = &self.letters.0[letter];
        if (one.from, one.way) == (peer, Way::Read) && !is_moving {
            // It has not met its receive, or is over.
            let name = one.name;
            self.link(me, peer).renewed.insert(name, (letter, key));
        }
        let link = self.link(me, peer);
        if key.is_none() {
            let mut transfers = link.transfers.iter();
            let found = transfers.find(|(_, one)| one.letter == letter);
            let found = found.map(|(id, _)| *id);
            return found.map_or(Ok(()), |id| self.at_fault(me, peer, id));
        }
        let transfers = link.transfers.values_mut();
        let moving = transfers.filter(|one| one.letter == letter);
        for one in moving {
            one.key = key;
        }
        self.report.renewed += 1;
        Ok(())
    }

    /// A message that has met its receive: its key, if the peer has named it anew. Only what was
    /// told before is named anew, for a name comes again.
    fn named_anew(&mut self, me: usize, from: usize, held: Held) -> Held {
        let one = &self.letters.0[held.letter];
        if one.way != Way::Read {
            return held;
        }
        let (name, believes) = (one.name, self.is(Fault::OldName));
        match self.link(me, from).renewed.remove(&name) {
            Some((memory, key)) if held.key.is_none() || believes => Held {
                memory,
                key,
                is_over: key.is_none(),
                ..held
            },
            _ => held,
        }
    }

    /// A number is given to what this rank says.
    pub fn numbered(&mut self, me: usize, peer: usize, body: Body, number: Number) -> Outcome {
        let link = &mut self.ranks[me].links[peer];
        let keys = link.own_keys;
        let told = number;
        match body {
            Body::Data(letter) if self.letters.0[letter].way == Way::Eager => {
                self.letters.sent(letter, false)?;
            }
            Body::Rts(letter, Way::Read, _) | Body::Cts(letter, To::Key(_) | To::Lane(_), _) => {
                let is_over = false;
                let lands = matches!(body, Body::Cts(_, To::Lane(_), _));
                let offer = Offer {
                    told,
                    keys,
                    is_over,
                    lands,
                };
                let names: Vec<u32> = (link.offers.keys())
                    .map(|other| self.letters.0[*other].name)
                    .collect();
                let free = (1..).find(|name| !names.contains(name));
                self.letters.0[letter].name = free.unwrap_or_default();
                link.offers.insert(letter, offer);
            }
            Body::Fin { letter, .. } => {
                let transfers = link.transfers.values_mut();
                let is_written = |one: &&mut Transfer| {
                    one.letter == letter && matches!(one.kind, Moving::Write | Moving::Staged)
                };
                for one in transfers.filter(is_written) {
                    one.fin = Some(number);
                }
            }
            Body::Piece(letter, part) if part + 1 == self.letters.0[letter].parts => {
                self.letters.sent(letter, false)?;
            }
            _ => (),
        }
        Ok(())
    }

    /// The peer has taken all up to this number.
    pub fn acknowledged(&mut self, me: usize, peer: usize, number: Number) -> Outcome {
        let link = &mut self.ranks[me].links[peer];
        if !link.log.acknowledge(number.0, link.sent.0) {
            return Ok(());
        }
        link.begun.clear();
        self.judge_acknowledged(me, peer)
    }

    /// H3: nothing is forgotten that the peer has not taken; and what is over then.
    pub fn judge_acknowledged(&mut self, me: usize, peer: usize) -> Outcome {
        let taken = self.ranks[peer].links[me].received;
        let link = &mut self.ranks[me].links[peer];
        let number = Number(link.log.acknowledged());
        if taken.is_before(number) {
            return Err(format!(
                "H3: {me} forgets {number:?}, and {peer} has taken {taken:?}"
            ));
        }
        while let Some(buffer) = link.log.released() {
            link.staged.remove(&buffer);
        }
        let is_over = |seq: &u32| !number.is_before(Number(*seq));
        while link.copies.front().is_some_and(|(seq, ..)| is_over(seq)) {
            link.copies.pop_front();
        }
        let transfers = link.transfers.iter();
        let over = transfers.filter(|(_, one)| one.fin.is_some_and(|fin| is_over(&fin.0)));
        let over: Vec<u32> = over.map(|(id, _)| *id).collect();
        for id in over {
            self.transfer_over(me, peer, id)?;
        }
        Ok(())
    }

    /// The life has failed by a message's fault.
    pub fn fails_by_message(&mut self, me: usize, at: usize) {
        let (peer, life, now) = (
            self.queue_pairs[at].peer,
            self.queue_pairs[at].life,
            self.now,
        );
        let session = &mut self.link(me, peer).session;
        session.handle_failure(life, Cause::Message, now);
    }
}

/// Whether this says that all of a message is written.
pub fn is_fin(body: &Body, of: usize) -> bool {
    matches!(body, Body::Fin { letter, .. } if *letter == of)
}
