//! A channel's machines of whatever design it was opened with.

use super::{
    Block, Broken, Busy, Carrier, Design, Plan, Push, Put, Record, Write, Writer, fixed_bottom,
    fixed_top, variable_top, veloblock,
};
use crate::envelope::ENVELOPE;

/// The sender's machine of one channel.
#[derive(Clone, Debug)]
pub struct AnySender {
    plan: Plan,
    machine: Out,
}

#[derive(Clone, Debug)]
enum Out {
    FixedTop(fixed_top::Sender),
    FixedBottom(fixed_bottom::Sender),
    VariableTop(variable_top::Sender),
    VariableBottom(veloblock::Sender),
}

/// A writer as Veloblock's carrier.
struct Carried<'a, W>(&'a mut W);

impl<W: Writer> Carrier for Carried<'_, W> {
    type Payload = W::Payload;

    fn write(&mut self, write: &Write<'_>, payload: W::Payload) -> Result<(), Busy> {
        let put = Put {
            at: write.at,
            front: &write.floor.to_le_bytes(),
            skip: write.pad,
            head: write.head,
            length: write.length,
            fill: 0,
            back: &write.trailer.to_le_bytes(),
        };
        self.0.put(&put, Some(payload))
    }

    fn mark(&mut self, at: u32, word: u64) -> Result<(), Busy> {
        let put = Put {
            at,
            front: &[],
            skip: 0,
            head: &[],
            length: 0,
            fill: 0,
            back: &word.to_le_bytes(),
        };
        self.0.put(&put, None)
    }
}

impl AnySender {
    /// For a fresh block: all of it is zero.
    pub fn new(plan: Plan) -> Self {
        let machine = match plan.design() {
            Design::FixedTop => Out::FixedTop(fixed_top::Sender::new(plan)),
            Design::FixedBottom => Out::FixedBottom(fixed_bottom::Sender::new(plan)),
            Design::VariableTop => Out::VariableTop(variable_top::Sender::new(plan)),
            Design::VariableBottom => Out::VariableBottom(veloblock::Sender::new(plan.shape())),
        };
        Self { plan, machine }
    }

    /// The design and the size of the block.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Writes a message whose head (envelope and what of the body is not the program's) and payload are given; `seq` is its number.
    pub fn push<W: Writer>(
        &mut self,
        head: &[u8],
        seq: u32,
        length: u32,
        payload: W::Payload,
        to: &mut W,
    ) -> Push {
        let own = head.len() as u32 - ENVELOPE as u32;
        let longest = self.plan.longest();
        if length > longest || own + length > longest {
            return Push::TooLong;
        }
        match &mut self.machine {
            Out::FixedTop(machine) => machine.push(head, seq, length, payload, to),
            Out::FixedBottom(machine) => machine.push(head, seq, length, payload, to),
            Out::VariableTop(machine) => machine.push(head, seq, length, payload, to),
            Out::VariableBottom(machine) => {
                machine.push(head, seq, length, payload, &mut Carried(to))
            }
        }
    }

    /// Takes what the receiver says it has consumed in all, if that is more than was known and not more than was sent. True if it was more.
    pub fn credit(&mut self, consumed: u32) -> bool {
        match &mut self.machine {
            Out::FixedTop(machine) => machine.0.account.credit(consumed),
            Out::FixedBottom(machine) => machine.0.account.credit(consumed),
            Out::VariableTop(machine) => machine.account.credit(consumed),
            Out::VariableBottom(machine) => machine.credit(consumed),
        }
    }

    /// Bytes of the block that are not known to be consumed.
    pub fn used(&self) -> u32 {
        match &self.machine {
            Out::FixedTop(machine) => machine.0.account.used() * self.plan.granule,
            Out::FixedBottom(machine) => machine.0.account.used() * self.plan.granule,
            Out::VariableTop(machine) => machine.account.used() * self.plan.granule,
            Out::VariableBottom(machine) => machine.used(),
        }
    }
}

/// The receiver's machine of one channel.
#[derive(Clone, Debug)]
pub struct AnyReceiver {
    plan: Plan,
    machine: In,
}

#[derive(Clone, Debug)]
enum In {
    FixedTop(fixed_top::Receiver),
    FixedBottom(fixed_bottom::Receiver),
    VariableTop(variable_top::Receiver),
    VariableBottom(veloblock::Receiver),
}

impl AnyReceiver {
    /// For a fresh block: all of it is zero.
    pub fn new(plan: Plan) -> Self {
        let machine = match plan.design() {
            Design::FixedTop => In::FixedTop(fixed_top::Receiver::new(plan)),
            Design::FixedBottom => In::FixedBottom(fixed_bottom::Receiver::new(plan)),
            Design::VariableTop => In::VariableTop(variable_top::Receiver::new(plan)),
            Design::VariableBottom => In::VariableBottom(veloblock::Receiver::new(plan.shape())),
        };
        Self { plan, machine }
    }

    /// The design and the size of the block.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Whether there is something to look at.
    #[inline]
    pub fn is_ready(&self, block: &impl Block) -> bool {
        match &self.machine {
            In::FixedTop(machine) => machine.is_ready(block),
            In::FixedBottom(machine) => machine.is_ready(block),
            In::VariableTop(machine) => machine.is_ready(block),
            In::VariableBottom(machine) => machine.is_ready(block),
        }
    }

    /// The next record, if it has come. It stays until it is consumed.
    pub fn peek(&mut self, block: &impl Block) -> Result<Option<Record>, Broken> {
        match &mut self.machine {
            In::FixedTop(machine) => machine.peek(block),
            In::FixedBottom(machine) => machine.peek(block),
            In::VariableTop(machine) => machine.peek(block),
            In::VariableBottom(machine) => machine.peek(block),
        }
    }

    /// Gives the space of the record that was looked at back. True if the sender should be told.
    pub fn consume(&mut self, record: &Record, block: &mut impl Block) -> bool {
        match &mut self.machine {
            In::FixedTop(machine) => {
                machine.consume(block);
                machine.tally.is_due(self.plan)
            }
            In::FixedBottom(machine) => {
                machine.consume(block);
                machine.tally.is_due(self.plan)
            }
            In::VariableTop(machine) => {
                machine.consume();
                machine.tally.is_due(self.plan)
            }
            In::VariableBottom(machine) => machine.consume(record, block),
        }
    }

    /// Granules consumed that the sender has not been told of.
    pub fn unreported(&self) -> u32 {
        match &self.machine {
            In::FixedTop(machine) => machine.tally.unreported(),
            In::FixedBottom(machine) => machine.tally.unreported(),
            In::VariableTop(machine) => machine.tally.unreported(),
            In::VariableBottom(machine) => machine.unreported(),
        }
    }

    /// What to tell the sender: granules consumed in all. Taken as told.
    pub fn report(&mut self) -> u32 {
        match &mut self.machine {
            In::FixedTop(machine) => machine.tally.report(),
            In::FixedBottom(machine) => machine.tally.report(),
            In::VariableTop(machine) => machine.tally.report(),
            In::VariableBottom(machine) => machine.report(),
        }
    }
}

#[cfg(test)]
#[path = "any_tests.rs"]
mod tests;
