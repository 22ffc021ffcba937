//! The links' flow control in virtual time: what buffers free becomes flow-control packets, in either of the two ways.

use super::letters::Letter;
use super::part::Part;
use super::port::{self, Freed, Lane, LinkKind, Port, Word};
use super::{Machine, NONE};
use crate::credit::REFRESH_SYMBOLS;
#[cfg(test)]
use crate::event::{FREE, HEAR};
use crate::event::{SETTLE, event};
use crate::frame::Frame;
use crate::time::Time;

/// Blocks of the largest packet: 4,096 bytes, its headers and more.
const LARGEST: u16 = 72;

impl Part {
    /// What a port's link is like.
    #[inline]
    pub(super) fn kind(&self, port: usize) -> &LinkKind {
        &self.kinds[self.ports[port].kind as usize]
    }

    /// Blocks of a port's buffer will be free at a time.
    #[inline]
    pub(super) fn frees(&mut self, port: usize, at: Time, vl: u8, blocks: u16) {
        if self.ahead && self.ports[port].has_freed_much() {
            self.settle(port, self.now);
        }
        let own = &mut self.ports[port];
        own.add_freed(Freed::new(at, vl, blocks), &mut self.rests);
        #[cfg(test)]
        if self.settings.by_packets() {
            return self.queue.push(at, event(FREE, port));
        }
        if let Some(stand_in) = own.peer.checked_sub(self.border) {
            let now = self.now;
            let letter = Letter::Freed {
                now,
                at,
                blocks,
                vl,
            };
            self.mail.post(stand_in as usize, letter);
        } else if own.peer_starves() {
            let peer = own.peer as usize;
            if let Some(at) = self.credit_comes(peer) {
                self.wake(peer, at.max(self.now));
            }
        }
    }

    /// When the next flow-control packet comes to a port that waits for credits, as far as one can know now: its sender may begin another packet before.
    pub(super) fn credit_comes(&self, port: usize) -> Option<Time> {
        let peer = &self.ports[self.ports[port].peer as usize];
        if let Some(word) = peer.first_word() {
            return Some(word.at());
        }
        let freed = peer.first_freed()?;
        Some(freed.at().max(peer.wire_free) + self.kinds[peer.kind as usize].delay)
    }

    /// The flow-control packets that a port has begun to send by a time: what was freed while the wire was busy goes when it is free, in one packet for each VL.
    #[inline]
    pub(super) fn settle(&mut self, port: usize, until: Time) {
        let own = &self.ports[port];
        if let Some(freed) = own.first_freed()
            && freed.at().max(own.wire_free) <= until
        {
            self.tell_freed(port, until);
        }
    }

    /// The same of what can have come to the other end by now: later ones are its own matter, for it may not have come so far.
    #[inline]
    pub(super) fn settle_far(&mut self, port: usize) {
        let until = match self.strict {
            true => self.now,
            false => self.now.since(self.kind(port).delay),
        };
        self.settle(port, until);
    }

    #[inline]
    fn tell_freed(&mut self, port: usize, until: Time) {
        loop {
            let own = &mut self.ports[port];
            let Some(first) = own.first_freed() else {
                return;
            };
            let at = first.at().max(own.wire_free);
            if at > until {
                return;
            }
            let mut due = 0u16;
            while let Some(&freed) = own.first_freed()
                && freed.at() <= at
            {
                own.forget_freed(&mut self.rests);
                let lane = match port::behind_first(port, freed.vl(), self.data_vls) {
                    None => &mut own.lane,
                    Some(place) => &mut self.more_lanes[place],
                };
                lane.receiver.freed(freed.blocks());
                due |= 1 << freed.vl();
            }
            if self.strict {
                self.absorb(port, at);
            }
            while due != 0 {
                let vl = due.trailing_zeros() as u8;
                due &= due - 1;
                self.say(port, vl, at);
            }
        }
    }

    /// Sends a flow-control packet of a VL, not before a time.
    #[inline]
    pub(super) fn say(&mut self, port: usize, vl: u8, at: Time) {
        let lane = self.lane(port, vl);
        let (fctbs, fccl) = (lane.sender.total_sent(), lane.receiver.credit_limit());
        let own: &mut Port = &mut self.ports[port];
        let kind = self.kinds[own.kind as usize];
        let start = at.max(own.wire_free);
        own.wire_free = start + kind.flow_time;
        own.flow_packets += 1;
        if own.peer >= self.border {
            // what stands in for this port there says it by itself
            return;
        }
        let (peer, at) = (own.peer as usize, start + kind.delay);
        let word = Word::new(at, vl, fctbs, fccl);
        // Nobody can look before this: of what has come by then only the last of each VL need lie there.
        if self.ahead && own.has_said_much() && !own.replaces(self.known, &mut self.rests) {
            self.absorb(peer, self.known);
        }
        self.ports[port].add_word(word, &mut self.rests);
        #[cfg(test)]
        if self.settings.by_packets() {
            self.queue.push(at, event(HEAR, peer));
        }
    }

    /// A VL's credits may not do for the next packet: it is time to look for more.
    #[inline]
    pub(super) fn is_short(&self, port: usize) -> bool {
        let short = |lane: &Lane| lane.sender.credits() < LARGEST;
        let others = self.data_vls - 1;
        short(&self.ports[port].lane)
            || self.more_lanes[port * others..][..others].iter().any(short)
    }

    /// The flow-control packets that have come to a port by a time.
    #[inline]
    pub(super) fn absorb(&mut self, port: usize, until: Time) {
        let in_time = self.strict || self.settings.by_packets();
        let peer = self.ports[port].peer as usize;
        while let Some(&word) = self.ports[peer].first_word()
            && word.at() <= until
        {
            let lane = self.lane(port, word.vl());
            lane.sender.limit(word.fccl());
            // Where nothing is lost it says nothing new, and may be looked at later than it came.
            if in_time {
                lane.receiver.total_sent(word.fctbs());
            }
            self.ports[peer].forget_word(&mut self.rests);
        }
    }

    /// A port lacks credits, or does no more.
    #[inline]
    pub(super) fn set_starving(&mut self, port: usize, starving: bool) {
        let own = &mut self.ports[port];
        if own.starves() == starving {
            return;
        }
        own.set_starving(starving);
        let peer = own.peer as usize;
        if let Some(peer) = self.ports.get_mut(peer) {
            peer.set_peer_starving(starving);
        }
    }

    /// Brings all that was put off up to now.
    pub(super) fn settle_all(&mut self) {
        if !self.settings.by_packets() {
            for port in 0..self.ports.len() {
                self.settle(port, self.now);
            }
        }
    }

    /// A packet may not survive the link. One that does not is dropped here (a cut-through switch would send it on, marked as bad), and what it took of the credit comes
    /// back with the next flow-control packet of its sender.
    pub(super) fn is_lost(&mut self, port: usize, frame: &Frame) -> bool {
        if !self.settings.by_packets() {
            self.settle(port, self.now);
            self.settle(self.ports[port].peer as usize, self.now);
            self.absorb(port, self.now);
        }
        let rate = match self.errors.get(port) {
            Some(rate) if *rate > 0.0 => *rate,
            _ => return false,
        };
        let bits = f64::from(frame.length_bytes) * 8.0;
        let whole = (bits * (-rate).ln_1p()).exp();
        if self.random.unit() < whole {
            return false;
        }
        self.lost += 1;
        let own = &self.ports[port];
        match own.machine() {
            Machine::Switch(index) => self.switches[index as usize].receive_error(own.number),
            Machine::Adapter(index) => self.adapters[index as usize].receive_error(),
        }
        if !self.settings.by_packets() && own.peer != NONE {
            // Both ends tell once more: the sender what it has sent, then, when that is here, this end what is free.
            let peer = own.peer as usize;
            let refresh = self.now + self.rates[port].symbols(REFRESH_SYMBOLS);
            let most = self.rates[port].wire_time(u32::from(u16::MAX));
            let answer = refresh + most + self.kind(peer).delay;
            self.frees(peer, refresh, frame.vl, 0);
            self.queue.push(refresh, event(SETTLE, peer));
            self.frees(port, answer, frame.vl, 0);
            self.queue.push(answer, event(SETTLE, port));
        }
        true
    }

    /// The time of a flow-control packet that nobody may ask for has come.
    pub(super) fn resynchronise(&mut self, port: usize) {
        self.settle(port, self.now);
        let free = self.ports[port].wire_free;
        if free > self.now
            && self.ports[port]
                .first_freed()
                .is_some_and(|freed| freed.at() <= self.now)
        {
            self.queue.push(free, event(SETTLE, port));
        }
    }
}
