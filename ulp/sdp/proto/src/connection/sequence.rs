//! Numbers of messages, and the credits that follow from them.
//!
//! Owns: how many messages this side may send, and what it has told the peer. An RDMA WRITE with
//! immediate data takes a receive of the peer's and so counts as a message. Must not know: what
//! messages say.

use super::work::Violation;
use ferriband_sdp_wire::{Flags, MessageHeader, MessageSeq, credits};

#[derive(Clone, Debug)]
pub(super) struct Sequence {
    /// Number of the next message.
    next: MessageSeq,
    /// Number of the last message received.
    received: MessageSeq,
    /// What the peer has last acknowledged, and how many receives it had posted then.
    peer_acknowledged: MessageSeq,
    peer_receives: u16,
    /// The last message that the peer knows it may send.
    told: MessageSeq,
    /// New credits that are worth a message of their own.
    due: i32,
}

impl Sequence {
    /// Hello and HelloAck had number 0, and told of `receives` and `peer_receives`.
    pub fn new(receives: u16, peer_receives: u16) -> Self {
        Sequence {
            next: MessageSeq(1),
            received: MessageSeq(0),
            peer_acknowledged: MessageSeq(0),
            peer_receives,
            told: MessageSeq(receives.into()),
            // after half (papers/004, section 3.1), and before a peer that leaves two credits is
            // out of them
            due: i32::from((receives / 2).min(receives - 2)),
        }
    }

    /// Messages that the peer has receives for.
    pub fn credits(&self) -> u32 {
        credits(self.peer_acknowledged, self.next, self.peer_receives).unwrap_or(0)
    }

    /// The header of the next message, which tells of `posted` receives.
    pub fn header(&mut self, posted: u16) -> MessageHeader {
        self.told = MessageSeq(self.received.0.wrapping_add(posted.into()));
        MessageHeader {
            flags: Flags::empty(),
            bufs: posted,
            mseq: self.number(),
            mseq_ack: self.received,
        }
    }

    /// The next message is an RDMA WRITE, which has no header.
    pub fn number(&mut self) -> MessageSeq {
        let number = self.next;
        self.next = number.next();
        number
    }

    /// A message came.
    pub fn receive(&mut self, header: &MessageHeader) -> Result<(), Violation> {
        let expected = self.received.next();
        if header.mseq != expected {
            let got = header.mseq;
            return Err(Violation::Number { expected, got });
        }
        if credits(header.mseq_ack, self.next, header.bufs).is_none() {
            return Err(Violation::Acknowledged {
                last: MessageSeq(self.next.0.wrapping_sub(1)),
                got: header.mseq_ack,
            });
        }
        self.received = expected;
        self.peer_acknowledged = header.mseq_ack;
        self.peer_receives = header.bufs;
        Ok(())
    }

    /// An RDMA WRITE with immediate data came.
    pub fn receive_write(&mut self) {
        self.received = self.received.next();
    }

    /// Credits that the peer does not know of, when `posted` receives are.
    pub fn untold(&self, posted: u16) -> i32 {
        let may_send = MessageSeq(self.received.0.wrapping_add(posted.into()));
        may_send.distance(self.told)
    }

    /// Whether these are worth a message of their own: many, or any for a peer that has none left.
    /// Two receives at least are never held by unread data, so telling of them does not make the
    /// other side tell in its turn.
    pub fn is_due(&self, posted: u16) -> bool {
        let untold = self.untold(posted);
        untold >= self.due || (untold > 0 && self.told == self.received)
    }
}
