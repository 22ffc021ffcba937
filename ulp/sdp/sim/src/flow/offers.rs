//! Zero copy in a run: programs that offer their buffers, fetch, refuse and take back.
//!
//! Owns: the steps of offers. Must not know: how a machine decides.

use super::fabric::What;
use super::world::World;
use super::{Law, Plant};
use ferriband_sdp_proto::connection::Pair;
use ferriband_sdp_wire::{Advert, RKey};

/// Bytes of the longest offer.
const LONGEST: u64 = 150;

impl World {
    /// The program offers a buffer with the next of its `left` bytes.
    pub(super) fn offer(&mut self, side: usize, left: u64) {
        let bytes = self.rng.range(1, left.min(LONGEST));
        let me = &mut self.sides[side];
        let given = me.program.given;
        me.offered = (given + 1..=given + bytes).collect();
        me.offered_at += 1 << 20;
        me.machine.offer(Advert {
            length_bytes: bytes as u32,
            rkey: RKey(side as u32),
            virtual_address: me.offered_at,
        });
        (me.program.offering, me.program.cancelled) = (true, false);
        me.stale = true;
        self.note(|_| format!("s{side} offers {bytes} behind {given}"));
    }

    /// The program looks after its offer.
    pub(super) fn wait_for_offer(&mut self, side: usize) {
        let me = &mut self.sides[side];
        if let Some(read) = me.machine.take_offer() {
            me.program.offering = false;
            me.program.given += u64::from(read);
            // the program uses its buffer for something else
            me.offered.fill(0);
            me.stale = true;
            self.stats.offers += 1;
            self.note(|_| format!("{read} bytes of the offer of s{side} were read"));
            return;
        }
        if self.rng.chance(me.program.cancels) {
            self.take_back(side);
        } else {
            me.program.blocked = !me.stale;
        }
    }

    /// The program waits no longer for its offer.
    pub(super) fn take_back(&mut self, side: usize) {
        let me = &mut self.sides[side];
        me.machine.cancel_offer();
        me.program.cancelled = true;
        self.look_again(side);
        if self.plant == Some(Plant::OfferReused) {
            self.sides[side].offered.fill(0);
        }
        self.note(|_| format!("s{side} takes its offer back"));
    }

    /// The peer offers `most` bytes.
    pub(super) fn fetch(&mut self, side: usize, most: u32) {
        let me = &mut self.sides[side];
        me.stale = true;
        if self.rng.chance(me.program.refuses) {
            me.machine.refuse_offer();
            self.note(|_| format!("s{side} wants the offer by messages"));
            return;
        }
        let left = me.program.reads_until - me.program.read;
        let bytes = self.rng.range(1, u64::from(most).min(left)) as u32;
        me.machine.fetch(bytes);
        me.program.fetching = true;
        self.note(|_| format!("s{side} fetches {bytes} of {most}"));
    }

    /// The program looks after its fetch.
    pub(super) fn finish_fetch(&mut self, side: usize) {
        let me = &mut self.sides[side];
        let Some(bytes) = me.machine.take_fetched() else {
            me.program.blocked_fetch = !me.stale;
            return;
        };
        me.program.fetching = false;
        me.stale = true;
        let tags = std::mem::take(&mut me.fetched);
        if tags.len() != bytes as usize {
            let what = format!("s{side} is told of {bytes} bytes, {} came", tags.len());
            self.fail(Law::Stream, what);
        }
        self.compare(side, &tags);
    }

    /// The RDMA READ in front of what `side` sends by a queue pair is carried out.
    pub(super) fn execute_read(&mut self, pair: Pair, side: usize) {
        let Some(read) = self.wires(pair)[side].works.pop_front() else {
            return;
        };
        let What::Read { from } = read.what else {
            return;
        };
        let other = &self.sides[1 - side];
        let at = from.virtual_address.wrapping_sub(other.offered_at) as usize;
        let end = at.saturating_add(from.length_bytes as usize);
        let Some(tags) = other.offered.get(at..end) else {
            let what = format!("s{side} reads {from:?}, which is not offered");
            return self.fail(Law::Stream, what);
        };
        let tags = tags.to_vec();
        self.sides[side].fetched = tags;
        if self.plant != Some(Plant::CompletedEarly) {
            self.wires(pair)[side].completions.push_back(read.id);
        }
        self.note(|_| format!("work {} of s{side} reads {from:?}", read.id.0));
    }
}
