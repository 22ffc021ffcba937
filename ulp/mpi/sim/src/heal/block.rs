//! The fast path: blocks that peers write records to, their credit, and who may write.
//!
//! The machines are those of `ferriband_mpi_proto::fast`. M2: nothing is written over what is not
//! consumed, nor into a block that is gone; M3: credit is neither lost nor invented; M4: nobody
//! sleeps while a record waits for him.

use super::Fault;
use super::roads::{Channel, Inbound};
use super::wire::{Body, DEPTH, Message, Op, Outcome};
use super::world::World;
use crate::wire::Memory;
use ferriband_heal::Number;
use ferriband_mpi_proto::envelope::{Envelope, Kind};
use ferriband_mpi_proto::fast::{AnyReceiver, AnySender, Broken, Busy, Design, Push, Put, Writer};
use std::collections::BTreeMap;
use std::ops::Range;

/// Collects the writes of a record.
struct Writes<'a> {
    all: Vec<(u32, Vec<u8>, Option<Range<usize>>)>,
    mirror: &'a mut Vec<u8>,
    design: Design,
}

impl Writer for Writes<'_> {
    type Payload = u8;

    fn put(&mut self, put: &Put<'_>, payload: Option<u8>) -> Result<(), Busy> {
        let (start, whole) = (put.at as usize, put.whole() as usize);
        let mut bytes = self.mirror[start..start + whole].to_vec();
        if !self.design.is_mirrored() {
            bytes.fill(0xff);
        }
        put.lay(&mut bytes, |to| to.fill(payload.unwrap_or(0)));
        self.mirror[start..start + whole].copy_from_slice(&bytes);
        let zeros = match self.design {
            Design::VariableBottom => put.front.len(),
            _ => 0,
        };
        let record = payload.map(|_| start + zeros..start + whole);
        self.all.push((put.at, bytes, record));
        Ok(())
    }

    fn old(&self, at: u32) -> u8 {
        self.mirror[at as usize]
    }
}

fn envelope(seq: u32, ack: u32, credit: u32) -> Envelope {
    Envelope {
        kind: Kind::Eager,
        flags: 0,
        seq,
        ack,
        credit,
        tag: 0,
        context: 0,
    }
}

fn broken(_: Broken) -> String {
    "M1: what lies in the block is no record".to_owned()
}

impl World {
    /// Granules that `me` has consumed of what `peer` writes to, told to it now.
    pub fn report_credit(&mut self, me: usize, peer: usize) -> u32 {
        let inbound = self.link(me, peer).inbound.as_mut();
        inbound.map_or(0, |inbound| inbound.receiver.report())
    }

    /// M3: the credit that a message of `me` tells is true.
    pub fn judge_credit(&self, me: usize, peer: usize, told: u32) -> Outcome {
        let inbound = &self.ranks[me].links[peer].inbound;
        let truth = inbound.as_ref().map_or(0, Inbound::consumed);
        if told > truth {
            return Err(format!(
                "M3: {me} tells {peer} a credit of {told}, and has consumed {truth}"
            ));
        }
        Ok(())
    }

    /// Credit has come from `peer`.
    pub fn credited(&mut self, me: usize, peer: usize, credit: u32) {
        if let Channel::Open(sender) = &mut self.link(me, peer).out.channel {
            sender.credit(credit);
        }
    }

    /// What the return word says.
    pub fn read_returns(&mut self, me: usize, peer: usize) -> Outcome {
        let word = self.link(me, peer).out.returned;
        self.credited(me, peer, word as u32);
        self.acknowledged(me, peer, Number((word >> 32) as u32))
    }

    /// Writes a message as a record. False if it has to go by SEND.
    pub fn store(&mut self, me: usize, peer: usize, at: usize, size: u32, body: Body) -> bool {
        let credit = self.report_credit(me, peer);
        let link = &mut self.ranks[me].links[peer];
        let seq = link.sent.next().0;
        let is_open = link.out.gate.is_open();
        let out = &mut link.out;
        let Channel::Open(sender) = &mut out.channel else {
            return false;
        };
        if !is_open || self.queue_pairs[at].sends.len() + 2 > DEPTH {
            return false;
        }
        let head = envelope(seq, link.received.0, credit).emit();
        let design = sender.plan().design();
        let mirror = &mut out.mirror;
        let all = Vec::new();
        let mut writes = Writes {
            all,
            mirror,
            design,
        };
        let is_stored = sender.push(&head, seq, size, seq as u8, &mut writes) == Push::Stored;
        let (life, all) = (out.life, writes.all);
        for (place, bytes, record) in all {
            let body = record.as_ref().map(|_| (seq, body));
            self.post(
                at,
                Op::Record {
                    life,
                    at: place,
                    bytes,
                    record,
                    body,
                },
            );
        }
        self.report.records += u64::from(is_stored);
        is_stored
    }

    /// Part of a record, or all of it, comes to the block of rank `to`.
    pub fn place_record(&mut self, from: usize, to: usize, op: &Op, count: usize) -> Outcome {
        let Op::Record {
            life,
            at,
            bytes,
            record,
            body,
        } = op
        else {
            return Ok(());
        };
        let inbound = self.link(to, from).inbound.as_mut();
        let Some(inbound) = inbound.filter(|inbound| inbound.life == *life) else {
            return Err(format!(
                "M2: {from} writes to a block of {to} that was given back"
            ));
        };
        for (at, byte) in (*at as usize..).zip(&bytes[..count]) {
            if inbound.memory.alive[at] {
                return Err(format!("M2: {from} writes over what {to} has not consumed"));
            }
            inbound.memory.bytes[at] = *byte;
        }
        if let Some(record) = record.clone().filter(|_| count == bytes.len()) {
            inbound.memory.alive[record.clone()].fill(true);
            inbound.memory.records.push_back(record);
        }
        if let Some((seq, body)) = *body {
            inbound.bodies.insert(seq, body);
        }
        let rank = &self.ranks[to];
        let sleeps = rank.turn_at.is_none() && self.now >= rank.away_until;
        if count == bytes.len() && sleeps && rank.links[from].lull.is_quiet() {
            return Err(format!("M4: {to} sleeps, and {from} writes a record"));
        }
        Ok(())
    }

    /// Takes the records whose turn has come. True if there was one; false as well if there was no
    /// memory for the next.
    pub fn drain(&mut self, me: usize, from: usize) -> Outcome<bool> {
        let mut did = false;
        loop {
            let link = &mut self.ranks[me].links[from];
            let Some(inbound) = link.inbound.as_mut().filter(|_| link.in_hand.is_none()) else {
                return Ok(did);
            };
            let Some(record) = inbound.receiver.peek(&inbound.memory).map_err(broken)? else {
                return Ok(did);
            };
            let head = Envelope::parse(record.envelope).ok_or("M1: a record without envelope")?;
            if head.seq != link.received.next().0 || !self.has_memory() {
                return Ok(did);
            }
            let inbound = self.link(me, from).inbound.as_mut();
            let inbound = inbound.expect("there is a record in it");
            let range = inbound.memory.records.pop_front();
            let range = range.ok_or("M1: a record is taken before it has come")?;
            let body = record.at as usize..(record.at + record.length) as usize;
            let mut bytes = inbound.memory.bytes[body].iter();
            if bytes.any(|one| *one != head.seq as u8) {
                return Err("M1: a record is torn".to_owned());
            }
            let body = inbound.bodies.remove(&head.seq);
            let body = body.ok_or("M1: a record that nobody has written")?;
            inbound.memory.alive[range].fill(false);
            let is_due = inbound.receiver.consume(&record, &mut inbound.memory);
            inbound.owes |= is_due;
            self.credited(me, from, head.credit);
            self.acknowledged(me, from, Number(head.ack))?;
            self.take(me, from, Number(head.seq), body)?;
            did = true;
        }
    }

    /// Whether a record waits whose turn has come: there was no memory for it.
    pub fn is_due(&mut self, me: usize, from: usize) -> bool {
        let link = self.link(me, from);
        let next = link.received.next().0;
        let Some(inbound) = &mut link.inbound else {
            return false;
        };
        let record = inbound.receiver.peek(&inbound.memory).ok().flatten();
        let head = record.and_then(|record| Envelope::parse(record.envelope));
        head.is_some_and(|head| head.seq == next)
    }

    /// Returns credit. True if it went.
    pub fn return_credit(&mut self, me: usize, from: usize) -> bool {
        let link = &self.ranks[me].links[from];
        let owes = link.inbound.as_ref().is_some_and(|inbound| inbound.owes);
        let at = link.queue_pair.filter(|_| owes && link.session.is_up());
        let Some(at) = at.filter(|at| self.queue_pairs[*at].sends.len() < DEPTH) else {
            return false;
        };
        let ack = self.link(me, from).received.0;
        let credit = self.report_credit(me, from);
        if let Some(inbound) = &mut self.link(me, from).inbound {
            inbound.owes = false;
        }
        self.link(me, from).unanswered = 0;
        self.post(at, Op::Word(u64::from(ack) << 32 | u64::from(credit)));
        true
    }

    /// A message has gone by SEND: asks for a block once there were enough, or gives it up.
    pub fn count_send(&mut self, me: usize, peer: usize) {
        let plan = self.plan.block;
        let (after, gives_up) = (self.plan.open_after, self.rng.chance(15));
        let out = &mut self.link(me, peer).out;
        out.messages += 1;
        let body = match &out.channel {
            Channel::Closed if out.messages >= after => {
                out.messages = 0;
                out.life += 1;
                out.channel = Channel::Opening(plan);
                Body::Open(plan, out.life)
            }
            Channel::Open(_) if gives_up => {
                out.channel = Channel::Closed;
                Body::Closed(out.life)
            }
            _ => return,
        };
        self.link(me, peer).fifo.push_back(body);
    }

    /// What blocks have to say has come by SEND.
    pub fn take_channel(&mut self, me: usize, from: usize, body: Body) -> Outcome {
        let (fault, is_granted) = (self.fault, !self.rng.chance(120));
        let link = self.link(me, from);
        match body {
            Body::Open(plan, life) => {
                let is_granted = is_granted && link.inbound.is_none();
                if is_granted {
                    link.lull.reopen();
                    link.inbound = Some(Inbound {
                        receiver: AnyReceiver::new(plan),
                        memory: Memory::new(plan, None),
                        life,
                        bodies: BTreeMap::new(),
                        owes: false,
                    });
                }
                link.fifo.push_back(Body::Opened(life, is_granted));
            }
            Body::Opened(life, is_granted) => {
                let acknowledged = link.log.acknowledged();
                let out = &mut link.out;
                let Channel::Opening(plan) = out.channel else {
                    return Err(format!("M3: {from} answers {me}, which did not ask"));
                };
                if life != out.life {
                    return Err(format!("M3: {from} answers an old question of {me}"));
                }
                out.channel = Channel::Closed;
                if is_granted {
                    out.channel = Channel::Open(AnySender::new(plan));
                    out.mirror = vec![0; plan.size() as usize];
                    let is_zeroed = fault == Some(Fault::ZeroedWord);
                    let acknowledged = if is_zeroed { 0 } else { acknowledged };
                    out.returned = u64::from(acknowledged) << 32;
                    out.gate.reopen();
                }
            }
            Body::Closed(life) => {
                let is_it = |inbound: &mut Inbound| inbound.life == life;
                if let Some(inbound) = link.inbound.take_if(is_it)
                    && inbound.memory.alive.contains(&true)
                {
                    return Err("M2: a block is given back with a record in it".to_owned());
                }
            }
            Body::Pause { epoch, own } => {
                if own {
                    link.lull.promised();
                }
                link.out.gate.pause(epoch);
                link.fifo.push_back(Body::Paused(epoch));
            }
            Body::Paused(epoch) => link.lull.answered(epoch),
            Body::Resume { epoch, owns } => drop(link.out.gate.resume(epoch, owns)),
            _ => (),
        }
        Ok(())
    }

    /// A numbered message has come by SEND from somebody who may not write records.
    pub fn count_receipt(&mut self, me: usize, from: usize) {
        let link = self.link(me, from);
        if link.inbound.is_some()
            && let Some((epoch, owns)) = link.lull.message()
        {
            link.fifo.push_back(Body::Resume { epoch, owns });
        }
    }

    /// Asks all who may write records to stop. True if they have.
    pub fn quieten(&mut self, me: usize) -> bool {
        let mut all = true;
        for link in self.ranks[me].links.iter_mut() {
            if link.inbound.is_none() || link.lull.is_quiet() {
                continue;
            }
            all = false;
            if let Some(epoch) = link.lull.ask() {
                let is_open = matches!(link.out.channel, Channel::Open(_));
                let own = is_open && link.out.gate.is_open();
                if own {
                    link.out.gate.promise();
                }
                self.report.pauses += 1;
                link.fifo.push_back(Body::Pause { epoch, own });
            }
        }
        all
    }

    /// M3 and H9: what is so of the block that `me` writes to at the end.
    pub fn block_at_rest(&mut self, me: usize, peer: usize) -> Outcome {
        let Some(inbound) = &self.ranks[peer].links[me].inbound else {
            let is_open = matches!(self.ranks[me].links[peer].out.channel, Channel::Open(_));
            return if is_open {
                Err(format!("M2: {me} may write to {peer}, which has no block"))
            } else {
                Ok(())
            };
        };
        if inbound.memory.alive.contains(&true) {
            return Err(format!("H9: a record of {me} is left with {peer}"));
        }
        let (consumed, life) = (inbound.consumed(), inbound.life);
        let mut lull = self.ranks[peer].links[me].lull.clone();
        let resume = (0..1000).find_map(|_| lull.message());
        let out = &mut self.ranks[me].links[peer].out;
        let Channel::Open(sender) = &mut out.channel else {
            return Ok(());
        };
        if out.life != life {
            return Ok(());
        }
        sender.credit(consumed);
        if sender.used() != 0 {
            let used = sender.used();
            return Err(format!(
                "M3: {used} bytes of credit of {me} at {peer} are lost"
            ));
        }
        // The next messages would open the gate.
        let mut gate = out.gate.clone();
        let opens = resume.is_some_and(|(epoch, owns)| gate.resume(epoch, owns));
        if !out.gate.is_open() && !opens {
            return Err(format!(
                "H9: {me} waits for a RESUME of {peer} that never comes"
            ));
        }
        Ok(())
    }

    /// What is drained at a fence; then the block is gone, and what lies in it.
    pub fn close_channels(&mut self, me: usize, peer: usize) -> Outcome {
        self.drain(me, peer)?;
        let fault = self.fault;
        let link = self.link(me, peer);
        let acknowledged = Number(link.log.acknowledged());
        let gate = link.out.gate.clone();
        link.out.close(acknowledged);
        if fault == Some(Fault::ZeroedWord) {
            link.out.returned = 0;
        }
        if fault == Some(Fault::GateStays) {
            link.out.gate = gate;
        }
        link.inbound = None;
        link.lull = Default::default();
        Ok(())
    }
}

/// What goes with a message by SEND of this rank.
pub fn alone(body: Body, ack: u32, credit: u32) -> Message {
    Message {
        items: [body].into(),
        ack,
        credit,
        ..Message::default()
    }
}
