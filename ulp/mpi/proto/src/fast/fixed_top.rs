//! Fixed top-fill, the classic: slots of 8 KiB; a head of 8 bytes, the record, and one byte after it that repeats the head's flag.
//!
//! The head: flag, zero, the body's length (2 bytes), its complement (2), the low bits of the number (2). The receiver zeroes it before it gives the slot back, so a
//! byte of it is 0 or new, and length and complement fit only when both have come, in whatever order their bytes do. The flag is not 0 and not
//! what lies where the tail will: the sender's mirror of the block knows that.

use super::{Block, Broken, Plan, Push, Put, Record, SlotSender, Slots, Tally, Writer};
use crate::envelope::ENVELOPE;

const HEAD: u32 = 8;

#[derive(Clone, Debug)]
pub struct Sender(pub SlotSender);

impl Sender {
    pub fn new(plan: Plan) -> Self {
        Self(SlotSender::new(plan))
    }

    pub fn push<W: Writer>(
        &mut self,
        head: &[u8],
        seq: u32,
        length: u32,
        payload: W::Payload,
        to: &mut W,
    ) -> Push {
        let Some(slot) = self.0.free() else {
            return Push::NoCredit;
        };
        let at = slot.start();
        let body = (head.len() - ENVELOPE) as u16 + length as u16;
        let tail = at + HEAD + ENVELOPE as u32 + u32::from(body);
        let flag = 1 + u8::from(to.old(tail) == 1);
        let [l0, l1] = body.to_le_bytes();
        let [c0, c1] = (!body).to_le_bytes();
        let [s0, s1, ..] = seq.to_le_bytes();
        let put = Put {
            at,
            front: &[flag, 0, l0, l1, c0, c1, s0, s1],
            skip: 0,
            head,
            length,
            fill: 0,
            back: &[flag],
        };
        self.0.put(&put, payload, to)
    }
}

#[derive(Clone, Debug)]
pub struct Receiver {
    plan: Plan,
    slots: Slots,
    pub tally: Tally,
}

impl Receiver {
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            slots: Slots::new(plan),
            tally: Tally::default(),
        }
    }

    pub fn is_ready(&self, block: &impl Block) -> bool {
        block.word(self.slots.start()) & 0xff != 0
    }

    pub fn peek(&self, block: &impl Block) -> Result<Option<Record>, Broken> {
        let at = self.slots.start();
        let [flag, _, l0, l1, c0, c1, ..] = block.word(at).to_le_bytes();
        let length = u16::from_le_bytes([l0, l1]);
        if flag == 0 || length ^ u16::from_le_bytes([c0, c1]) != u16::MAX {
            return Ok(None);
        }
        let length = u32::from(length);
        if length > self.plan.longest() {
            return Err(Broken);
        }
        if block.byte(at + HEAD + ENVELOPE as u32 + length) != flag {
            return Ok(None);
        }
        // The number may have come after the length; before the tail it has.
        let [.., s0, s1] = block.word(at).to_le_bytes();
        let envelope = block.envelope(at + HEAD);
        if envelope[4..6] != [s0, s1] {
            return Err(Broken);
        }
        Ok(Some(Record {
            envelope,
            at: at + HEAD + ENVELOPE as u32,
            length,
        }))
    }

    pub fn consume(&mut self, block: &mut impl Block) {
        block.clear(self.slots.start());
        self.slots.pass();
        self.tally.add(1);
    }
}
