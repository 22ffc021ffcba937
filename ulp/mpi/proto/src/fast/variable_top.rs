//! Variable top-fill: records of any length from the block's beginning, each a multiple of the granule.
//!
//! A record: `flag | l0 | l1 | stale (3) | pad | number's low byte | envelope | body | pad bytes | flag`. The three stale bytes are those that lie
//! at the *next* record's flag, l0 and l1 now (the sender's mirror of the block knows), and each of the next three new bytes differs from its stale one:
//! so the receiver, which never writes to the block, knows when each has come, in whatever order they do. l0 and l1 hold seven bits of the length in granules
//! each, and one that makes them differ; the flag is neither 0, nor stale, nor what lies where the tail will. A length of all ones is the mark that sends the
//! receiver back to the beginning; there is always room for it.

use super::{Account, Block, Broken, Plan, Push, Put, Record, Tally, Writer};
use crate::envelope::ENVELOPE;

/// Bytes before the envelope.
const HEAD: u32 = 8;
/// Bytes that are not body: head, envelope, tail.
const FRAME: u32 = HEAD + ENVELOPE as u32 + 1;
const WRAP: u32 = 0x3fff;

#[derive(Clone, Debug)]
pub struct Sender {
    plan: Plan,
    at: u32,
    pub account: Account,
}

impl Sender {
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            at: 0,
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
        let Plan { size, granule, .. } = self.plan;
        let filled = HEAD + head.len() as u32 + length + 1;
        let whole = filled.next_multiple_of(granule);
        if self.at + whole > size - granule
            && let Err(push) = self.wrap(to)
        {
            return push;
        }
        if self.account.used() * granule + whole > size {
            return Push::NoCredit;
        }
        let pad = whole - filled;
        let (front, flag) = self.front(
            whole,
            whole / granule,
            self.at + whole,
            [pad as u8, seq as u8],
            to,
        );
        let put = Put {
            at: self.at,
            front: &front,
            skip: 0,
            head,
            length,
            fill: pad,
            back: &[flag],
        };
        if to.put(&put, Some(payload)).is_err() {
            return Push::Busy;
        }
        self.at += whole;
        self.account.sent = self.account.sent.wrapping_add(whole / granule);
        Push::Stored
    }

    #[cold]
    fn wrap<W: Writer>(&mut self, to: &mut W) -> Result<(), Push> {
        let Plan { size, granule, .. } = self.plan;
        let left = size - self.at;
        if self.account.used() * granule + left > size {
            return Err(Push::NoCredit);
        }
        let (front, flag) = self.front(granule, WRAP, 0, [0, 0], to);
        let put = Put {
            at: self.at,
            front: &front,
            skip: granule - HEAD - 1,
            head: &[],
            length: 0,
            fill: 0,
            back: &[flag],
        };
        to.put(&put, None).map_err(|_| Push::Busy)?;
        self.at = 0;
        self.account.sent = self.account.sent.wrapping_add(left / granule);
        Ok(())
    }

    /// The first eight bytes of what takes `whole` bytes here, and its flag.
    fn front<W: Writer>(
        &self,
        whole: u32,
        code: u32,
        next: u32,
        [pad, number]: [u8; 2],
        to: &W,
    ) -> ([u8; 8], u8) {
        let stale = [0, 1, 2].map(|byte| to.old(self.at + byte));
        let coming = [0, 1, 2].map(|byte| to.old(next + byte));
        let tail = to.old(self.at + whole - 1);
        let flag = if stale[0] != 1 && tail != 1 {
            1
        } else if stale[0] != 2 && tail != 2 {
            2
        } else {
            3
        };
        let l0 = differing((code & 0x7f) as u8, stale[1]);
        let l1 = differing((code >> 7 & 0x7f) as u8, stale[2]);
        let [n0, n1, n2] = coming;
        ([flag, l0, l1, n0, n1, n2, pad, number], flag)
    }
}

/// Seven bits with an eighth that makes them differ from `stale`.
fn differing(bits: u8, stale: u8) -> u8 {
    if bits == stale { bits | 0x80 } else { bits }
}

#[derive(Clone, Debug)]
pub struct Receiver {
    plan: Plan,
    at: u32,
    /// What lay at the next head before it comes.
    stale: [u8; 3],
    /// Bytes of the record that was looked at, and what it says of the next head.
    found: Option<(u32, [u8; 3])>,
    pub tally: Tally,
}

impl Receiver {
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            at: 0,
            stale: [0; 3],
            found: None,
            tally: Tally::default(),
        }
    }

    pub fn is_ready(&self, block: &impl Block) -> bool {
        self.head(block).is_some()
    }

    /// Flag and length in granules, once all three bytes have come.
    fn head(&self, block: &impl Block) -> Option<(u8, u32)> {
        let [flag, l0, l1, ..] = block.word(self.at).to_le_bytes();
        let [s0, s1, s2] = self.stale;
        let code = u32::from(l0 & 0x7f) | u32::from(l1 & 0x7f) << 7;
        (flag != s0 && l0 != s1 && l1 != s2).then_some((flag, code))
    }

    pub fn peek(&mut self, block: &impl Block) -> Result<Option<Record>, Broken> {
        let Plan { size, granule, .. } = self.plan;
        let Some((mut flag, mut code)) = self.head(block) else {
            return Ok(None);
        };
        if code == WRAP {
            // At the beginning there is never a reason to wrap.
            if self.at == 0 || flag == 0 {
                return Err(Broken);
            }
            if block.byte(self.at + granule - 1) != flag {
                return Ok(None);
            }
            let [_, _, _, n0, n1, n2, ..] = block.word(self.at).to_le_bytes();
            self.tally.add((size - self.at) / granule);
            self.stale = [n0, n1, n2];
            self.at = 0;
            match self.head(block) {
                Some(next) => (flag, code) = next,
                None => return Ok(None),
            }
        }
        let whole = code.saturating_mul(granule);
        let longest = (FRAME + self.plan.longest()).next_multiple_of(granule);
        if flag == 0 || whole < FRAME || whole > longest || self.at + whole > size - granule {
            return Err(Broken);
        }
        if block.byte(self.at + whole - 1) != flag {
            return Ok(None);
        }
        let [_, _, _, n0, n1, n2, pad, number] = block.word(self.at).to_le_bytes();
        let pad = u32::from(pad);
        if pad >= granule || pad > whole - FRAME || whole - FRAME - pad > self.plan.longest() {
            return Err(Broken);
        }
        let envelope = block.envelope(self.at + HEAD);
        if envelope[4] != number {
            return Err(Broken);
        }
        self.found = Some((whole, [n0, n1, n2]));
        Ok(Some(Record {
            envelope,
            at: self.at + HEAD + ENVELOPE as u32,
            length: whole - FRAME - pad,
        }))
    }

    pub fn consume(&mut self) {
        let Some((whole, stale)) = self.found.take() else {
            return;
        };
        self.at += whole;
        self.stale = stale;
        self.tally.add(whole / self.plan.granule);
    }
}
