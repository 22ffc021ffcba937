//! The lane: a second queue pair, whose receives are the programs' own buffers.
//!
//! A fence destroys it with the other one. Receives stay in their order and are posted on the new
//! one before the peer hears of it. What the peer's word does not count as landed is sent again
//! once both have told their ends.

use super::Fault;
use super::roads::LaneState;
use super::wire::{Body, How, Op, Outcome, Part, QueuePairState};
use super::world::World;
use ferriband_heal::Epoch;
use ferriband_mpi_proto::resume::{Doubt, Moving, has_landed, next_landing};

/// Receives that a lane holds.
const RECEIVES: usize = 6;

impl World {
    /// Posts the receive of a message: its number. None if there is no lane, or no room.
    pub fn land(&mut self, me: usize, peer: usize, letter: usize) -> Option<u32> {
        let lane = &mut self.ranks[me].links[peer].lane;
        let is_ready = lane.state == LaneState::Ready && lane.landing.len() < RECEIVES;
        let at = lane.queue_pair.filter(|_| is_ready)?;
        self.queue_pairs[at].landings.push_back(letter);
        lane.landing.push_back(letter);
        lane.posted = next_landing(lane.posted);
        Some(lane.posted)
    }

    /// Makes the lane if somebody wants it, and connects it. True if something was done.
    pub fn tend_lane(&mut self, me: usize, peer: usize) -> bool {
        let link = &self.ranks[me].links[peer];
        if !link.session.is_up() {
            return false;
        }
        let mut sends = link.transfers.values();
        let has_sends = sends.any(|one| one.kind == Moving::Lane);
        let lane = &link.lane;
        let wants = has_sends || !lane.landing.is_empty() || lane.peer.is_some();
        if lane.state == LaneState::Idle && wants {
            return self.tell_lane(me, peer);
        }
        let (LaneState::Told, Some(end), Some(at)) = (lane.state, lane.peer, lane.queue_pair)
        else {
            return false;
        };
        let one = &mut self.queue_pairs[at];
        if one.state == QueuePairState::Init {
            one.state = QueuePairState::Connected;
        }
        one.remote = Some(end as usize - 1);
        self.link(me, peer).lane.state = LaneState::Ready;
        true
    }

    /// Makes this end, with the receives that are left, and says so. False if it cannot be made
    /// now.
    pub fn tell_lane(&mut self, me: usize, peer: usize) -> bool {
        if !self.is_quiet() && self.rng.chance(self.plan.lane_refusals) {
            return false;
        }
        let link = &self.ranks[me].links[peer];
        let main = link.queue_pair.expect("it is up");
        let epoch = link.session.epoch();
        let main = self.queue_pairs[main].clone();
        let at = self.new_queue_pair(me, peer, main.from);
        let landings = self.link(me, peer).lane.landing.clone();
        let one = &mut self.queue_pairs[at];
        (one.is_lane, one.life, one.path, one.landings) = (true, epoch, main.path, landings);
        (one.to, one.route) = (main.to, main.route);
        let link = self.link(me, peer);
        link.lane.queue_pair = Some(at);
        link.lane.state = LaneState::Told;
        link.fifo.push_back(Body::Lane(at as u32 + 1, epoch));
        true
    }

    /// The peer has made its end.
    pub fn take_lane(&mut self, me: usize, peer: usize, end: u32, epoch: Epoch) -> Outcome {
        let takes_all = self.is(Fault::OldLane);
        let link = self.link(me, peer);
        if epoch != link.session.epoch() && !takes_all {
            return Ok(());
        }
        if link.lane.peer.is_some() {
            return Err(format!("H2: {peer} tells {me} a second lane in one life"));
        }
        link.lane.peer = Some(end);
        Ok(())
    }

    /// NOTE or CTS: the last landing at the peer.
    pub fn take_note(&mut self, me: usize, peer: usize, landed: u32) -> Outcome {
        let takes_any = self.is(Fault::LateNote);
        let lane = &mut self.link(me, peer).lane;
        let is_late = landed == lane.known || has_landed(landed, lane.known);
        let is_nothing = landed == 0 || landed == lane.known;
        if is_nothing || is_late && !takes_any {
            return Ok(());
        }
        let before = std::mem::replace(&mut lane.known, landed);
        let link = self.link(me, peer);
        let of_lane = link.transfers.iter();
        let over: Vec<u32> = of_lane
            .filter(|(_, one)| one.kind == Moving::Lane)
            .filter(|(_, one)| {
                let is_counted = takes_any && !has_landed(one.lane, before);
                has_landed(one.lane, landed) || is_late && is_counted
            })
            .map(|(id, _)| *id)
            .collect();
        for id in over {
            self.transfer_over(me, peer, id)?;
        }
        Ok(())
    }

    /// Posts a message by the lane. True if it went.
    pub fn send_by_lane(&mut self, me: usize, peer: usize, part: Part) -> bool {
        let lane = &self.ranks[me].links[peer].lane;
        let is_ready = lane.state == LaneState::Ready;
        let Some(at) = lane.queue_pair.filter(|_| is_ready) else {
            return false;
        };
        self.post(at, Op::Part(part));
        true
    }

    /// A message has come by the lane; without its bytes: one of both ends has no memory for it.
    pub fn landed(&mut self, me: usize, peer: usize, letter: usize, is_whole: bool) -> Outcome {
        let lane = &mut self.link(me, peer).lane;
        if lane.landing.pop_front() != Some(letter) {
            return Err(format!("M1: message {letter} lands out of turn"));
        }
        lane.landed = next_landing(lane.landed);
        (lane.is_news, lane.doubt) = (true, Doubt::default());
        self.link(me, peer).offers.remove(&letter);
        let one = &self.letters.0[letter];
        if one.given_up[1] && one.is_received {
            return Ok(());
        }
        self.letters.received(letter, !is_whole, "M1")
    }
}

/// A message by the lane, whole or nothing but that it cannot be sent.
pub fn by_lane(is_error: bool) -> How {
    How::Lane { is_error }
}
