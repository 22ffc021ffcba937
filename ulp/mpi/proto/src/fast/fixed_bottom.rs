//! Fixed bottom-fill: slots of 8 KiB; a record ends where its slot ends, in a trailer that the receiver zeroes before it gives the slot back.

use super::trailer::{self, FLAG, WORD};
use super::{Block, Broken, Plan, Push, Put, Record, SlotSender, Slots, Tally, Writer};
use crate::envelope::ENVELOPE;

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
        let own = head.len() as u32 - ENVELOPE as u32;
        let put = Put {
            at: slot.end() - WORD - length - head.len() as u32,
            front: &[],
            skip: 0,
            head,
            length,
            fill: 0,
            back: &trailer::of(seq, own + length).to_le_bytes(),
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

    fn trailer(&self) -> u32 {
        self.slots.end() - WORD
    }

    pub fn is_ready(&self, block: &impl Block) -> bool {
        block.word(self.trailer()) & FLAG != 0
    }

    pub fn peek(&self, block: &impl Block) -> Result<Option<Record>, Broken> {
        let word = block.word(self.trailer());
        if word & FLAG == 0 {
            return Ok(None);
        }
        trailer::length(word, self.plan.longest())?;
        trailer::record(word, self.trailer(), block).map(Some)
    }

    pub fn consume(&mut self, block: &mut impl Block) {
        block.clear(self.trailer());
        self.slots.pass();
        self.tally.add(1);
    }
}
