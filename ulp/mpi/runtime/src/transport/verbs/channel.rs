//! How channels of the fast path come and go, and grow.
//!
//! A sender asks for a block after so many messages (OPEN); the receiver makes one if its queue
//! pair vouches for the order of what comes in and the cap is not reached (OPENED). A receiver that
//! has had to refuse somebody takes the block of the slowest sender back (CLOSE), if that is slow
//! enough; a sender that lacks credit too often gives its block up for a larger one; either way
//! CLOSED lies behind the last record. How channels rest is in [`super::rest`].

use super::acks::fresh_return_word;
use super::block::PostInbound;
use super::memory::Buffers;
use super::stats::Why;
use super::{Lent, Net};
use crate::errors::{Outcome, broken};
use crate::transport::contract::{Deliver, Place, Roster};
use ferriband_ibv::{Access, WrOpcode};
use ferriband_mpi_proto::envelope::{Channel, Kind, Phase};
use ferriband_mpi_proto::fast::{AnySender, Design, Plan};
use std::sync::atomic::Ordering;
use std::time::Duration;
use zerocopy::IntoBytes;

/// After a refusal, so many times more messages pass before the next question as before the first,
/// then twice as many.
const AGAIN: u32 = 64;
/// Senders are judged by what they have sent in so long at least.
const WINDOW: Duration = Duration::from_millis(100);
/// A sender judges its block by so many messages.
const JUDGED: u32 = 1024;
/// It is too small if more of them, of a hundred, found no room.
const LACKING: u32 = 3;

/// The way of records to a peer.
#[derive(Default)]
pub struct Outbound {
    /// Whether there is one.
    pub state: State,
    /// Messages since the last question.
    messages: u32,
    refusals: u32,
    /// Lives of the channel, from 1.
    life: u32,
    /// The block that is asked for; none: what the settings say.
    plan: Option<Plan>,
    /// No larger block is to be had.
    is_full_grown: bool,
    /// Messages since the block was last judged, and those that found no room in it.
    judged: (u32, u32),
    is_too_small: bool,
    /// Mirrors of former lives, from which records may still be on their way: until the request of
    /// that number has completed.
    old: Vec<(u32, Buffers)>,
}

/// Whether there is a block.
#[derive(Default)]
pub enum State {
    /// No.
    #[default]
    Closed,
    /// It has been asked for.
    Opening(Plan),
    /// Yes.
    Open(Box<Open>),
}

/// A block of a peer's.
pub struct Open {
    /// What lies in it.
    pub machine: AnySender,
    /// Where it lies.
    pub block: Place,
    /// A copy of it, for the designs that need one.
    pub mirror: Option<Buffers>,
}

impl Outbound {
    /// Whether there is a block.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Bytes of the copy of the block, and of those of former blocks.
    pub fn mirror(&self) -> u64 {
        let now = match &self.state {
            State::Open(open) => open.mirror.as_ref(),
            _ => None,
        };
        let old = self.old.iter().map(|(_, mirror)| mirror);
        old.chain(now).map(|mirror| mirror.bytes()).sum()
    }

    /// Gives the block up; `posted` is the number of the last request.
    fn close(&mut self, posted: u32) {
        if let State::Open(open) = std::mem::take(&mut self.state) {
            self.old.extend(open.mirror.map(|mirror| (posted, mirror)));
        }
    }

    /// The connection is made anew: there is no block, and none is on its way.
    pub(super) fn fence(&mut self) {
        self.state = State::Closed;
        self.messages = 0;
        self.judged = (0, 0);
        self.is_too_small = false;
        self.old.clear();
    }

    /// Counts what became of a message that had a block.
    #[inline]
    pub fn judge(&mut self, why: Option<Why>) {
        let (messages, lacking) = &mut self.judged;
        *messages += 1;
        *lacking += u32::from(matches!(why, Some(Why::NoCredit | Why::TooLong)));
        if *messages == JUDGED {
            self.is_too_small = *lacking * 100 > JUDGED * LACKING;
            self.judged = (0, 0);
        }
    }

    /// A number of messages without a block has passed: whether to ask for one.
    fn is_due(&mut self, open_after: u32) -> bool {
        self.messages = self.messages.saturating_add(1);
        let enough = match self.refusals {
            0 => open_after,
            times => open_after
                .saturating_mul(AGAIN)
                .saturating_mul(1 << (times - 1).min(20)),
        };
        matches!(self.state, State::Closed) && self.messages >= enough
    }
}

pub(super) fn phase(epoch: u32, own: u32) -> Phase {
    Phase {
        epoch: epoch.into(),
        own: own.into(),
    }
}

impl Net {
    /// Makes a block for `peer`, if it may have one. The error says whether there would be one if
    /// another sender had none.
    fn grant(
        &mut self,
        peer: u32,
        asked: &Channel,
        most: u32,
        budget: u64,
    ) -> Result<Channel, bool> {
        let design = Design::of(asked.design.get()).ok_or(false)?;
        let plan = Plan::new(design, asked.size.get(), asked.granule.get()).ok_or(false)?;
        if self.link(peer).fast.inbound.is_some() {
            return Err(false);
        }
        // Who receives asks: the answer is about what comes in to its queue pair.
        let qp = self.link(peer).wire.queue.qp.as_ref().ok_or(false)?;
        if !qp.in_order(WrOpcode::RdmaWrite).last_byte_last {
            return Err(false);
        }
        let used: u64 = self
            .blocks
            .inbounds
            .iter()
            .flatten()
            .map(PostInbound::size)
            .sum();
        let count = self.blocks.inbounds.iter().flatten().count();
        if count >= most as usize || used + u64::from(plan.size()) > budget {
            return Err(most > 0);
        }
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let name = c"ferriband-mpi-block";
        let memory = Buffers::new(&self.rail_of(peer).device.pd, name, 1, plan.size(), access)
            .map_err(|_| false)?;
        let granted = Channel {
            rkey: memory.rkey().into(),
            address: memory.address().into(),
            granted: 1.into(),
            ..*asked
        };
        let returns = Place {
            address: asked.address.get(),
            rkey: asked.rkey.get(),
        };
        let inbound = PostInbound::new(peer, asked.epoch.get(), plan, memory, returns);
        let index = match self.blocks.inbounds.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.blocks.inbounds.push(None);
                self.blocks.inbounds.len() - 1
            }
        };
        self.blocks.inbounds[index] = Some(inbound);
        let link = self.link(peer);
        link.fast.inbound = Some(index as u32);
        link.fast.lull.reopen();
        self.note_memory();
        Ok(granted)
    }

    /// Somebody was refused: the sender with the fewest records since the last time, if those were
    /// few; with the life of its channel.
    fn slowest(&mut self, below: u32) -> Option<(u32, u32)> {
        let passed = self.blocks.judged.elapsed();
        let is_closing = self
            .blocks
            .inbounds
            .iter()
            .flatten()
            .any(|inbound| inbound.is_closing);
        if passed < WINDOW || is_closing {
            return None;
        }
        let slowest = self
            .blocks
            .inbounds
            .iter_mut()
            .flatten()
            .min_by_key(|inbound| inbound.records)?;
        let rate = slowest.records as f64 / passed.as_secs_f64();
        let chosen = (rate < f64::from(below)).then(|| {
            slowest.is_closing = true;
            (slowest.from, slowest.life)
        });
        for inbound in self.blocks.inbounds.iter_mut().flatten() {
            inbound.records = 0;
        }
        self.blocks.judged = std::time::Instant::now();
        chosen
    }
}

impl Net {
    /// A message has gone by SEND to `peer`: asks for a block once there have been enough, or for a
    /// larger one.
    pub(super) fn count_send(&mut self, peer: u32) -> Outcome {
        let fast = self.limits.fast;
        if fast.channels == 0 || self.life.closing {
            return Ok(());
        }
        let out = &mut self.link(peer).fast.out;
        if out.is_too_small && fast.grows && !out.is_full_grown {
            out.is_too_small = false;
            return self.grow(peer);
        }
        if out.is_due(fast.open_after) {
            self.ask_for_block(peer)?;
        }
        Ok(())
    }

    fn ask_for_block(&mut self, peer: u32) -> Outcome {
        let usual = self.limits.fast.plan;
        let (address, rkey) = (
            self.blocks.returns.address() + u64::from(peer) * 8,
            self.rail_of(peer).returns.rkey().0,
        );
        let out = &mut self.link(peer).fast.out;
        let plan = *out.plan.get_or_insert(usual);
        out.state = State::Opening(plan);
        out.messages = 0;
        out.life = out.life.wrapping_add(1);
        let open = Channel {
            design: (plan.design() as u32).into(),
            size: plan.size().into(),
            granule: plan.granule().into(),
            rkey: rkey.into(),
            address: address.into(),
            epoch: out.life.into(),
            granted: 0.into(),
        };
        self.say(peer, Kind::Open, open.as_bytes())
    }

    /// Gives the block up for one of twice the size.
    fn grow(&mut self, peer: u32) -> Outcome {
        let out = &mut self.link(peer).fast.out;
        let Some(plan) = out.plan.filter(|_| out.is_open()) else {
            return Ok(());
        };
        let larger = Plan::new(plan.design(), plan.size() * 2, plan.granule())
            .filter(|larger| larger.size() <= Plan::growth(plan.design()).1.size());
        let Some(larger) = larger else {
            out.is_full_grown = true;
            return Ok(());
        };
        self.stats.channels.grown += 1;
        self.reopen(peer, larger)
    }

    /// From here on blocks are filled by `design`: those that there are are given up for such ones.
    pub fn change_design(&mut self, design: Design) -> Outcome {
        let plan = Plan::usual(design);
        self.limits.fast.plan = plan;
        for peer in 0..self.links.len() as u32 {
            let link = self.links[peer as usize].as_deref_mut();
            let Some(out) = link.map(|link| &mut link.fast.out) else {
                continue;
            };
            let is_other = out.plan.is_some_and(|old| old.design() != design);
            if is_other && out.is_open() {
                self.reopen(peer, plan)?;
            } else if is_other && matches!(out.state, State::Closed) {
                out.plan = None;
            }
        }
        Ok(())
    }

    /// Gives the block up for another one.
    fn reopen(&mut self, peer: u32, plan: Plan) -> Outcome {
        let link = self.link(peer);
        let posted = link.wire.queue.last_posted();
        let out = &mut link.fast.out;
        let life = out.life;
        out.close(posted);
        out.plan = Some(plan);
        self.stats.channels.closed += 1;
        self.say(peer, Kind::Closed, phase(life, 0).as_bytes())?;
        self.ask_for_block(peer)
    }

    /// `peer` asks for a block of this process.
    pub(super) fn take_open(&mut self, peer: u32, open: &Channel) -> Outcome {
        let fast = self.limits.fast;
        let mut closing = None;
        let answer = match self.grant(peer, open, fast.channels, fast.budget()) {
            Ok(granted) => granted,
            Err(has_no_room) => {
                self.stats.channels.refused += 1;
                if has_no_room {
                    closing = self.slowest(fast.close_below);
                }
                Channel {
                    granted: 0.into(),
                    ..*open
                }
            }
        };
        self.say(peer, Kind::Opened, answer.as_bytes())?;
        match closing {
            Some((slow, life)) => self.say(slow, Kind::Close, phase(life, 0).as_bytes()),
            None => Ok(()),
        }
    }

    /// `peer` answers.
    pub(super) fn take_opened<R: Roster, D: Deliver>(
        &mut self,
        peer: u32,
        opened: &Channel,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        // Records before this may tell of credit of the channel's last life.
        self.drain_before(peer, lent)?;
        let out = &mut self.link(peer).fast.out;
        let State::Opening(plan) = out.state else {
            return Err(broken(peer));
        };
        let design = Design::of(opened.design.get());
        let is_asked = design
            .and_then(|design| Plan::new(design, opened.size.get(), opened.granule.get()))
            == Some(plan)
            && opened.epoch.get() == out.life;
        if !is_asked {
            return Err(broken(peer));
        }
        out.state = State::Closed;
        if opened.granted.get() == 0 {
            self.stats.channels.refused += 1;
            return self.refused_block(peer, plan);
        }
        let mirror = if plan.mirror() == 0 {
            None
        } else {
            let name = c"ferriband-mpi-mirror";
            let pd = &self.rail_of(peer).device.pd;
            match Buffers::new(pd, name, 1, plan.mirror(), Access::LOCAL_WRITE) {
                Ok(mirror) => Some(mirror),
                Err(_) => {
                    // Without memory for the mirror the block is of no use.
                    let life = self.link(peer).fast.out.life;
                    self.link(peer).fast.out.refusals += 1;
                    return self.say(peer, Kind::Closed, phase(life, 0).as_bytes());
                }
            }
        };
        // What the word holds is credit of the last life; nobody writes to it before a record of
        // this one has come.
        let acknowledged = self.link(peer).acks.log.acknowledged();
        self.blocks
            .returns
            .word(peer * 8)
            .store(fresh_return_word(acknowledged), Ordering::Relaxed);
        let open = Open {
            machine: AnySender::new(plan),
            block: Place {
                address: opened.address.get(),
                rkey: opened.rkey.get(),
            },
            mirror,
        };
        let link = self.link(peer);
        let mut old = std::mem::take(&mut link.fast.out.old);
        old.retain(|(posted, _)| !link.wire.queue.has_completed(*posted));
        link.fast.out.old = old;
        link.fast.out.state = State::Open(Box::new(open));
        link.fast.out.judged = (0, 0);
        link.fast.gate.reopen();
        self.stats.channels.opened += 1;
        self.note_memory();
        Ok(())
    }

    /// There is no block of that size: one of the former size, which was given up for it, there
    /// was.
    fn refused_block(&mut self, peer: u32, plan: Plan) -> Outcome {
        let usual = self.limits.fast.plan;
        let out = &mut self.link(peer).fast.out;
        if plan.size() > usual.size() && !out.is_full_grown {
            out.is_full_grown = true;
            out.plan = Plan::new(plan.design(), plan.size() / 2, plan.granule());
            return self.ask_for_block(peer);
        }
        out.refusals = out.refusals.saturating_add(1);
        Ok(())
    }

    /// `peer` needs the block for others.
    pub(super) fn take_close(&mut self, peer: u32, close: &Phase) -> Outcome {
        let link = self.link(peer);
        let posted = link.wire.queue.last_posted();
        let out = &mut link.fast.out;
        if !out.is_open() || out.life != close.epoch.get() {
            // It has been given up already.
            return Ok(());
        }
        out.close(posted);
        out.messages = 0;
        out.refusals = out.refusals.max(1);
        self.stats.channels.closed += 1;
        self.say(peer, Kind::Closed, close.as_bytes())
    }

    /// `peer` writes no more to its block.
    pub(super) fn take_closed<R: Roster, D: Deliver>(
        &mut self,
        peer: u32,
        closed: &Phase,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        self.drain_before(peer, lent)?;
        let is_it = self
            .inbound_of(peer)
            .is_some_and(|inbound| inbound.life == closed.epoch.get());
        if is_it && let Some(index) = self.link(peer).fast.inbound.take() {
            self.blocks.inbounds[index as usize] = None;
        }
        Ok(())
    }
}
