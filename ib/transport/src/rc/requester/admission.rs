//! What may be sent now: every limit on what a requester may have outstanding, and which packets
//! ask for an acknowledgement.
//!
//! A part of [`Requester`], which is read here and sent from there; a request that begins is given
//! its PSNs. Must not
//! know what was lost.

use super::Requester;
use crate::context::Context;
use crate::rc::flow::Reach;
use crate::send_queue::{SendWqe, packets_of};
use crate::timer::Timer;
use crate::types::{SendFlags, SendOpcode, WcStatus};
use ferriband_wire::{Psn, Service};

/// Packets of a piece of a READ, at the most (those between its first and its last go by one call
/// of the kernel's), and
/// packets that all pieces together may have before that counts.
const READ_PIECE: u32 = 64;
const READ_PIECES: u32 = 128;
/// Of so many messages in a row one asks for an acknowledgement even if nobody waits for any of
/// them.
const QUIET_MESSAGES: u32 = 8;
/// Packets of a message that may go without being acknowledged by itself: for longer ones a packet
/// more is little.
const QUIET_PACKETS: u32 = 8;

/// A packet that may be sent now.
#[derive(Clone, Copy, Debug)]
pub(in crate::rc) struct Admitted {
    pub psn: Psn,
    pub psns: u32,
    /// It goes beyond the peer's credits.
    pub probing: bool,
    /// It is a READ or atomic.
    pub data: bool,
    /// Packets of its request.
    pub packets: u32,
}

/// Middle packets of the current request that may be sent now.
#[derive(Clone, Copy, Debug)]
pub(in crate::rc) struct Middles {
    /// The first one's.
    pub psn: Psn,
    /// At least 1.
    pub count: u32,
    /// Packets under way before them, and how many there may be.
    pub in_flight: u32,
    pub window: u32,
}

impl Requester {
    /// The middle packets that follow the one that was sent last, where nothing but the window has
    /// a say: as many as may
    /// go now, `places` at the most. None leaves it to [`Requester::poll_transmit`] to find out
    /// what there is to do.
    pub(in crate::rc) fn admit_middles(&self, ctx: &Context<'_>, places: u32) -> Option<Middles> {
        if self.repair.is_pending()
            || self.timers.is_set(Timer::Rnr)
            || self.at.request == self.sq.tail()
            || self.stop.holds(self.at.request)
            || ctx.service != Service::Rc
        {
            return None;
        }
        let wqe = self.sq.get(self.at.request);
        let psn = wqe.first_psn.add(self.at.packet);
        let plain = wqe.status == WcStatus::Success
            && wqe.begun()
            && self.at.packet > 0
            && !wqe.is_local()
            && !wqe.is_read_or_atomic();
        // What goes again, and what has to do with credits, is looked at one by one.
        if !plain
            || psn != self.at.next
            || self.within_credits(wqe, wqe.ssn, wqe.packets) != Some(false)
        {
            return None;
        }
        let in_flight = self.in_flight(psn);
        let window = self.window(ctx);
        let count = places
            .min(wqe.packets - 1 - self.at.packet)
            .min(window.saturating_sub(in_flight));
        (count > 0).then_some(Middles {
            psn,
            count,
            in_flight,
            window,
        })
    }

    /// Packets of requests that may be under way.
    fn window(&self, ctx: &Context<'_>) -> u32 {
        let most = ctx.tuning.max_inflight_packets;
        self.flow.requests.size().min(most)
    }

    /// Whether the current packet may be sent; gives the request its PSNs if it begins.
    #[inline]
    pub(in crate::rc) fn admit(&mut self, ctx: &Context<'_>) -> Option<Admitted> {
        let wqe = self.sq.get(self.at.request);
        let fenced = wqe.flags.contains(SendFlags::FENCE) && self.at.packet == 0;
        if fenced && !self.reads.ends.is_empty() {
            return None;
        }
        let data = wqe.is_read_or_atomic();
        // I8: counted here for every transmission, so that going back cannot exceed it either.
        if data && self.reads.ends.len() >= usize::from(ctx.attr.max_rd_atomic) {
            return None;
        }
        if !wqe.begun() {
            return self.admit_first(ctx);
        }
        let psn = wqe.first_psn.add(self.at.packet);
        let psns = if data {
            wqe.piece_end(self.at.packet) - self.at.packet
        } else {
            1
        };
        let (probing, packets) = (self.within_credits(wqe, wqe.ssn, wqe.packets)?, wqe.packets);
        let fits = self.fits_window(ctx, psn, data, psns);
        fits.then_some(Admitted {
            psn,
            psns,
            probing,
            data,
            packets,
        })
    }

    /// As `admit`, for a request of which nothing was ever sent.
    fn admit_first(&mut self, ctx: &Context<'_>) -> Option<Admitted> {
        let wqe = self.sq.get(self.at.request);
        let data = wqe.is_read_or_atomic();
        let packets = match wqe.opcode {
            SendOpcode::CmpSwap | SendOpcode::FetchAdd => 1,
            _ => packets_of(wqe.length, ctx.attr.path_mtu.bytes()),
        };
        let piece = match wqe.opcode {
            SendOpcode::RdmaRead => self.read_piece(ctx).min(packets),
            _ => packets,
        };
        let psns = if data { piece } else { 1 };
        let psn = self.at.next;
        let ssn = self.credits.next_ssn();
        let probing = self.within_credits(wqe, ssn, packets)?;
        if !self.fits_window(ctx, psn, data, psns) {
            return None;
        }
        // Each piece of a READ is a message of its own to the peer, which counts them.
        self.credits.begin(packets.div_ceil(piece));
        let wqe = self.sq.get_mut(self.at.request);
        (wqe.first_psn, wqe.packets, wqe.piece, wqe.ssn) = (psn, packets, piece, ssn);
        Some(Admitted {
            psn,
            psns,
            probing,
            data,
            packets,
        })
    }

    /// A READ's pieces: a quarter of the window, so that several keep it full while one is
    /// answered, and not so large
    /// that one alone fills it when it has shrunk; but with few READs outstanding, pieces that fill
    /// it.
    fn read_piece(&self, ctx: &Context<'_>) -> u32 {
        let at_once = u32::from(ctx.attr.max_rd_atomic).max(1);
        let most = (READ_PIECES / at_once).max(READ_PIECE);
        (self.flow.responses.size() / at_once.min(4)).clamp(1, most)
    }

    /// Packets that are under way if this one is the next.
    pub(in crate::rc) fn in_flight(&self, psn: Psn) -> u32 {
        let heard = self.repair.heard();
        self.flow.in_flight(Reach {
            ahead: self.ahead(psn),
            heard: heard.map_or(0, |heard| self.ahead(heard.next())),
            responses: self.reads.psns,
        })
    }

    fn fits_window(&mut self, ctx: &Context<'_>, psn: Psn, data: bool, psns: u32) -> bool {
        if data {
            // A piece that is larger than a window that has shrunk since goes alone.
            let fits = self.reads.psns == 0 || self.reads.psns + psns <= self.flow.responses.size();
            if !fits {
                self.flow.responses.is_full();
            }
            return fits;
        }
        let in_flight = self.in_flight(psn);
        if in_flight >= self.flow.requests.size() {
            self.flow.requests.is_full();
            return false;
        }
        in_flight < ctx.tuning.max_inflight_packets.max(1)
    }

    /// Whether the peer's credits allow the current packet, or it may ask for them (true). IBA
    /// 9.7.7.2: beyond the credits a single packet may ask whether there is a receive after all;
    /// the rest of the message follows when that packet was acknowledged. A WRITE asks with its
    /// last packet.
    pub(in crate::rc) fn within_credits(
        &self,
        wqe: &SendWqe,
        ssn: u32,
        packets: u32,
    ) -> Option<bool> {
        if self.credits.cover(ssn) || !wqe.consumes_receive() {
            return Some(false);
        }
        let write = wqe.opcode == SendOpcode::RdmaWriteImm;
        let asks = if write {
            self.at.packet + 1 == packets
        } else {
            self.at.packet == 0
        };
        let answered = write
            || (wqe.begun() && self.at.una != wqe.first_psn && self.at.request == self.sq.done());
        if asks && self.credits.is_probing() || !asks && !answered {
            return None;
        }
        Some(asks)
    }

    /// Nobody waits for the end of the current request, a message of few `packets`: it has no
    /// completion, and there is
    /// room for others. Its acknowledgement, which costs each end as much as sending and receiving
    /// the message, may come
    /// with that of a later one: of one in a few, so that where messages come one by one the
    /// silence is never long enough
    /// for a question. IBA leaves it to the requester when to ask.
    pub(in crate::rc) fn is_quiet(&self, ctx: &Context<'_>, packets: u32) -> bool {
        packets <= QUIET_PACKETS
            && self.acks.quiet + 1 < QUIET_MESSAGES
            && self.acks.since_asked < QUIET_MESSAGES * QUIET_PACKETS
            && self.silence_ns(ctx).is_some()
            && self.sq.tail() - self.sq.done() <= self.sq.room() / 2
            && !self.sq.is_signaled(self.at.request)
            && (self.credits.are_unlimited() || !self.sq.get(self.at.request).consumes_receive())
    }

    /// An acknowledgement is asked for often enough that the window never fills without one under
    /// way.
    pub(in crate::rc) fn wants_ack(&self, ctx: &Context<'_>, psn: Psn) -> bool {
        let window = self.window(ctx);
        let in_flight = self.in_flight(psn);
        self.acks.since_asked + 1 >= ctx.tuning.ack_interval.min(window / 4)
            || in_flight + 1 >= window
    }
}
