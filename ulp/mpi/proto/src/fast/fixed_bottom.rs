//! Fixed bottom-fill: slots of 8 KiB; a record ends where its slot ends, in a trailer that the receiver zeroes before it gives the slot back.

use super::{Account, Block, Broken, Plan, Push, Put, Record, SLOT, Tally, Writer};
use crate::envelope::ENVELOPE;

const RECORD: u64 = 0x80 << 56;
const FLAG: u64 = 0xff << 56;
const SEQ: u32 = 0x00ff_ffff;
const WORD: u32 = 8;

#[derive(Clone, Debug)]
pub struct Sender {
    plan: Plan,
    slot: u32,
    pub account: Account,
}

impl Sender {
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            slot: 0,
            account: Account::default(),
        }
    }

    pub fn push<W: Writer>(
        &mut self,
        head: &[u8],
        seq: u32,
        length: u32,
        payload: W::Payload,
        to: &mut W,
    ) -> Push {
        let slots = self.plan.size / SLOT;
        if self.account.used() >= slots {
            return Push::NoCredit;
        }
        let own = head.len() as u32 - ENVELOPE as u32;
        let trailer = RECORD | u64::from(seq & SEQ) << 32 | u64::from(own + length);
        let put = Put {
            at: (self.slot + 1) * SLOT - WORD - length - head.len() as u32,
            front: &[],
            skip: 0,
            head,
            length,
            fill: 0,
            back: &trailer.to_le_bytes(),
        };
        if to.put(&put, Some(payload)).is_err() {
            return Push::Busy;
        }
        self.slot = (self.slot + 1) % slots;
        self.account.sent = self.account.sent.wrapping_add(1);
        Push::Stored
    }
}

#[derive(Clone, Debug)]
pub struct Receiver {
    plan: Plan,
    slot: u32,
    pub tally: Tally,
}

impl Receiver {
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            slot: 0,
            tally: Tally::default(),
        }
    }

    fn trailer(&self) -> u32 {
        (self.slot + 1) * SLOT - WORD
    }

    pub fn is_ready(&self, block: &impl Block) -> bool {
        block.word(self.trailer()) & FLAG != 0
    }

    pub fn peek(&self, block: &impl Block) -> Result<Option<Record>, Broken> {
        let word = block.word(self.trailer());
        if word & FLAG == 0 {
            return Ok(None);
        }
        let length = word as u32;
        if word & FLAG != RECORD || length > self.plan.longest() {
            return Err(Broken);
        }
        let at = self.trailer() - length;
        let envelope = block.envelope(at - ENVELOPE as u32);
        let seq = u32::from_le_bytes([envelope[4], envelope[5], envelope[6], 0]);
        if (word >> 32) as u32 & SEQ != seq {
            return Err(Broken);
        }
        Ok(Some(Record {
            envelope,
            at,
            length,
        }))
    }

    pub fn consume(&mut self, block: &mut impl Block) {
        block.clear(self.trailer());
        self.slot = (self.slot + 1) % (self.plan.size / SLOT);
        self.tally.add(1);
    }
}
