//! What the packets on the wire must be, given what was posted: contents, PSNs, retransmissions, acknowledgements.

use super::model::{Check, Model, Plan, Posted, Side, violated};
use ferriband_transport::types::{SendOpcode, rnr_timer_ns};
use ferriband_wire::{Kind, NakCode, Operation, Packet, Position, Psn, Syndrome};

/// Distance of a PSN from the first of its queue.
fn offset(psn: Psn, first: Psn) -> u32 {
    psn.sub(first.get()).get()
}

/// The posted request that a PSN offset belongs to.
fn request_at(side: &Side, offset: u32) -> Option<(usize, &Posted)> {
    let index = side
        .posted
        .partition_point(|p| p.start + p.packets <= offset);
    side.posted.get(index).map(|posted| (index, posted))
}

impl Model {
    /// Side `at` sends a packet.
    pub fn on_transmit(&mut self, at: usize, packet: &Packet<'_>, now: u64) -> Check {
        if !self.trusted {
            return Ok(());
        }
        match packet.opcode().kind() {
            Kind::Request => {
                self.request_contents(at, packet)?;
                self.request_order(at, packet)?;
                self.request_timing(at, packet, now)
            }
            _ => self.answer(at, packet),
        }
    }

    /// I5: the packet is the one that its PSN stands for.
    fn request_contents(&self, at: usize, packet: &Packet<'_>) -> Check {
        let side = &self.sides[at];
        let psn = packet.bth().psn;
        let at = offset(psn, side.sq_psn);
        let Some((index, posted)) = request_at(side, at) else {
            return violated("I5", "a PSN of a posted request", format!("{psn:?}"));
        };
        let part = at - posted.start;
        let start = part as usize * side.mtu;
        let operation = packet.opcode().operation();
        let carries = posted.is_send() || posted.is_write();
        let expected = match posted.op {
            SendOpcode::RdmaRead => Operation::RdmaReadRequest,
            SendOpcode::CmpSwap => Operation::CompareSwap,
            SendOpcode::FetchAdd => Operation::FetchAdd,
            _ if posted.is_write() => Operation::RdmaWrite,
            _ => Operation::Send,
        };
        let position = if carries {
            Position::of(part, posted.packets)
        } else {
            Position::Only
        };
        let payload = if carries {
            &posted.data[start..posted.data.len().min(start + side.mtu)]
        } else {
            &[]
        };
        let solicited = packet.bth().solicited == (posted.solicited && position.ends());
        let reth = packet.ext().reth.is_none_or(|reth| {
            let length = reth.dma_length as usize;
            // A READ may be asked for in pieces of whole packets.
            let fits = if carries {
                length == posted.data.len()
            } else {
                length == posted.data.len() - start
                    || length < posted.data.len() - start
                        && length > 0
                        && length.is_multiple_of(side.mtu)
            };
            reth.virtual_address
                == posted
                    .remote_addr
                    .wrapping_add(start as u64 * u64::from(!carries))
                && reth.rkey.0 == posted.rkey
                && fits
        });
        if (operation, packet.opcode().position()) != (expected, position)
            || packet.payload != payload
            || !reth
            || !solicited
        {
            return violated(
                "I5",
                format!("{psn:?}: packet {part} of request {index}, {expected:?} {position:?}"),
                format!("{} with {} bytes", packet.opcode(), packet.payload.len()),
            );
        }
        Ok(())
    }

    /// The fence holds back what follows a READ; a SEND beyond the peer's credits asks with one packet.
    fn request_order(&self, at: usize, packet: &Packet<'_>) -> Check {
        let side = &self.sides[at];
        let psn = offset(packet.bth().psn, side.sq_psn);
        let Some((index, posted)) = request_at(side, psn) else {
            return Ok(());
        };
        let begins = psn == posted.start;
        let mut earlier = side.posted[..index].iter();
        let open = |p: &Posted| p.is_read_or_atomic() && !p.answers.iter().all(|&a| a);
        if begins && posted.fence && side.reliable() && earlier.any(open) {
            return violated(
                "fence",
                format!("request {index} waits for READs before it"),
                "sent",
            );
        }
        let Some(limit) = side.credit_limit else {
            return Ok(());
        };
        let asks = match posted.op {
            SendOpcode::RdmaWriteImm => psn + 1 == posted.start + posted.packets,
            _ => begins,
        };
        let number = side.message_number(index);
        if !side.reliable() || !posted.consumes_receive() || number <= limit {
            return Ok(());
        }
        // One packet beyond the limit may be unanswered: a SEND's first, a WRITE's last. An answer says that it
        // found its receive, so the rest may follow.
        let asked = side.posted[..index].iter().enumerate().any(|(i, p)| {
            let asks = match p.op {
                SendOpcode::RdmaWriteImm => p.start + p.packets - 1,
                _ => p.start,
            };
            p.consumes_receive() && side.message_number(i) > limit && asks >= side.acked
        });
        let waits = posted.is_send() && !begins && side.acked <= posted.start;
        if asks && asked || waits {
            return violated(
                "credits",
                format!("messages up to {limit}, and one packet"),
                format!("message {number}"),
            );
        }
        Ok(())
    }

    /// I8, I9, I10: what is outstanding, and when a PSN may be sent again.
    fn request_timing(&mut self, at: usize, packet: &Packet<'_>, now: u64) -> Check {
        let fills = self.sides[self.sides[at].peer].holds;
        let side = &mut self.sides[at];
        let psn = offset(packet.bth().psn, side.sq_psn);
        let index = side.posted.partition_point(|p| p.start + p.packets <= psn);
        if side.sent.len() <= psn as usize {
            side.sent.resize(psn as usize + 1, Default::default());
        }
        let sent = side.sent[psn as usize];
        // Going back is to the oldest unacknowledged packet; its timer began with it, or with an answer since.
        // A READ is resumed in its middle, which was asked for and not sent.
        let resumes = sent.count == 0 && psn < side.posted[index].asked_to;
        let again = sent.count > 0 || resumes;
        let goes_back = again && side.last_offset.is_some_and(|last| psn <= last);
        let answered = side.last_answer_at.filter(|&at| at >= sent.anchor);
        // A packet may be sent early, after a silence, to ask whether anything arrived. The timer runs on.
        let silent = side.reliable() && now - sent.last >= side.silence_ns;
        let waited = now - sent.since;
        let passed = |since| side.timeout_ns.is_some_and(|due| now - since >= due);
        let (may_be_due, due) = (passed(sent.since), passed(sent.anchor));
        let anchor = match answered {
            // This may be a question, and the timer may have begun with the answer.
            Some(at) if again && silent => at,
            None if goes_back && silent && !due => sent.anchor,
            None if goes_back && !(side.reliable() && may_be_due) => {
                return violated(
                    "I10",
                    format!("{:?} ns before sending again", side.timeout_ns),
                    format!("{waited} ns"),
                );
            }
            _ => now,
        };
        // What fills a gap of a peer that keeps what comes after it is no try of its own: the timer runs on, as after a question.
        let since = match answered {
            Some(_) if goes_back && fills => sent.since,
            None if goes_back && silent && !due => sent.since,
            _ => anchor,
        };
        if let Some((refused, until)) = side.rnr_quiet
            && refused == psn
        {
            side.rnr_quiet = None;
            if now < until {
                return violated(
                    "I9",
                    format!("silence until {until}"),
                    format!("sent again at {now}"),
                );
            }
        }
        side.sent[psn as usize] = super::model::Sent {
            count: sent.count + 1,
            last: now,
            anchor,
            since,
        };
        side.last_offset = Some(psn);
        if side.posted[index].is_read_or_atomic() {
            let bytes = packet.ext().reth.map_or(0, |reth| reth.dma_length as usize);
            let end = psn + bytes.div_ceil(side.mtu).max(1) as u32;
            let posted = &mut side.posted[index];
            if posted.pieces == 0 || psn >= posted.asked_to {
                posted.pieces += 1;
                posted.asked_to = end;
            }
            // Whatever is asked for again was not outstanding any more.
            side.reads.retain(|read| read.end <= psn);
            side.reads.push(psn..end);
            let answered = |at: u32| {
                let place = side.posted.partition_point(|p| p.start + p.packets <= at);
                let posted = &side.posted[place];
                posted.answers[(at - posted.start) as usize]
            };
            let open = side.reads.iter();
            let open = open.filter(|read| !(*read).clone().all(answered)).count();
            if open > usize::from(side.max_rd_atomic) {
                return violated(
                    "I8",
                    format!("at most {} outstanding", side.max_rd_atomic),
                    format!("{open}"),
                );
            }
        }
        Ok(())
    }

    /// Responses and acknowledgements of side `at` to its peer's requests.
    fn answer(&mut self, at: usize, packet: &Packet<'_>) -> Check {
        let peer = self.sides[at].peer;
        let psn = packet.bth().psn;
        let place = offset(psn, self.sides[peer].sq_psn);
        match packet.opcode().operation() {
            Operation::RdmaReadResponse => {
                self.executed_before(peer, place)?;
                return self.read_response(peer, place, packet);
            }
            Operation::AtomicAcknowledge => {
                self.executed_before(peer, place + 1)?;
                let original = request_at(&self.sides[peer], place).and_then(|(_, p)| p.original);
                let got = packet.ext().atomic_ack.map(|ack| ack.original);
                if original != got {
                    return violated(
                        "I2",
                        format!("the saved value {original:x?}"),
                        format!("{got:x?}"),
                    );
                }
                return Ok(());
            }
            _ => {}
        }
        let Some(aeth) = packet.ext().aeth else {
            return Ok(());
        };
        match aeth.syndrome {
            // The PSN before the first is acknowledged when a duplicate of the past is answered.
            Syndrome::Ack(_) if place == Psn::MODULUS - 1 => Ok(()),
            Syndrome::Ack(_) => self.executed_before(peer, place + 1),
            Syndrome::RnrNak(code) => {
                if code != self.sides[at].min_rnr_timer {
                    let timer = self.sides[at].min_rnr_timer;
                    return violated("I9", format!("RNR timer {timer}"), format!("{code}"));
                }
                self.executed_before(peer, place)
            }
            Syndrome::Nak(NakCode::PsnSequenceError) => {
                if !self.sides[at].naks.insert(psn.get()) {
                    return violated("I6", format!("one NAK for the gap at {psn:?}"), "another");
                }
                self.executed_before(peer, place)
            }
            _ => self.executed_before(peer, place),
        }
    }

    /// I4, I6: whatever is acknowledged has been done.
    fn executed_before(&mut self, from: usize, place: u32) -> Check {
        let side = &mut self.sides[from];
        while side.posted.get(side.cursor).is_some_and(|p| {
            p.plan == Plan::Good
                && (p.op == SendOpcode::RdmaRead
                    || p.packets == 0
                    || p.op == SendOpcode::RdmaWrite && p.data.is_empty())
        }) {
            side.cursor += 1;
        }
        let Some(posted) = side.posted.get(side.cursor) else {
            return Ok(());
        };
        if place <= posted.start || posted.plan != Plan::Good && posted.may_answer(place - 1) {
            return Ok(());
        }
        let done = posted.progress.min(posted.data.len());
        let claimed = (place - posted.start) as usize * side.mtu;
        let partial = place < posted.start + posted.packets && !posted.is_read_or_atomic();
        if partial && done >= claimed && posted.plan == Plan::Good {
            return Ok(());
        }
        let invariant = if posted.plan == Plan::Good {
            "I6"
        } else {
            "I7"
        };
        violated(
            invariant,
            format!(
                "nothing acknowledged beyond request {} ({:?})",
                side.cursor, posted.plan
            ),
            format!("PSN offset {place}, the request begins at {}", posted.start),
        )
    }

    /// I3: the part of the READ that the PSN stands for, and no other bytes.
    fn read_response(&self, from: usize, place: u32, packet: &Packet<'_>) -> Check {
        let side = &self.sides[from];
        let found = request_at(side, place).filter(|(_, p)| p.op == SendOpcode::RdmaRead);
        let Some((index, posted)) = found else {
            return violated(
                "I3",
                "a PSN of a READ",
                format!("response at offset {place}"),
            );
        };
        if !posted.may_answer(place) {
            return violated("I7", format!("request {index} refused"), "a response");
        }
        let start = (place - posted.start) as usize * side.mtu;
        let end = posted.data.len().min(start + side.mtu);
        // A request that was made to fail was moved away from the bytes that the model knows.
        if posted.plan == Plan::Good && packet.payload != &posted.data[start..end] {
            return violated(
                "I3",
                format!("bytes {start}..{end} of request {index}"),
                "other bytes",
            );
        }
        Ok(())
    }

    /// A packet is handed to side `at`.
    pub fn on_deliver(&mut self, at: usize, packet: &Packet<'_>, now: u64) {
        if packet.opcode().kind() == Kind::Request {
            return;
        }
        let peer = self.sides[at].peer;
        let code = self.sides[peer].min_rnr_timer;
        let side = &mut self.sides[at];
        side.last_answer_at = Some(now);
        let place = offset(packet.bth().psn, side.sq_psn);
        let index = side
            .posted
            .partition_point(|p| p.start + p.packets <= place);
        let syndrome = packet.ext().aeth.map(|aeth| aeth.syndrome);
        if let (Some(Syndrome::Ack(credits)), Some(aeth)) = (syndrome, packet.ext().aeth) {
            let limit = credits.credits().map(|count| aeth.msn.0 + count);
            side.credit_limit = limit.and_then(|new| side.credit_limit.map(|old| old.max(new)));
        }
        // The PSN before the first is acknowledged when a duplicate of the past is answered.
        if place < Psn::MODULUS / 2 {
            let acks = u32::from(matches!(syndrome, Some(Syndrome::Ack(_))));
            side.acked = side.acked.max(place + acks);
        }
        if packet.opcode().kind() == Kind::Response {
            if let Some(posted) = side.posted.get_mut(index)
                && let Some(answer) = posted.answers.get_mut((place - posted.start) as usize)
            {
                *answer = true;
            }
            return;
        }
        if let Some(Syndrome::RnrNak(_)) = syndrome {
            *side.rnr_naks.entry(place).or_default() += 1;
            // With a READ or atomic missing before it, the refusal is not what the requester acts on; nor is its
            // echo then.
            let earlier = &side.posted[side.next_completion.min(index)..index];
            let missing = earlier.iter().any(Posted::is_read_or_atomic);
            // An echo of a refusal that was overcome means nothing.
            let stale = place < side.acked;
            if !stale && side.rnr_quiet.is_none_or(|(refused, _)| refused != place) {
                let until = if missing {
                    now
                } else {
                    now + rnr_timer_ns(code)
                };
                side.rnr_quiet = Some((place, until));
            }
        }
    }
}
