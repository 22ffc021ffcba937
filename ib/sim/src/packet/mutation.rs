//! Bugs that a test can plant, one per invariant, between the machine and its surroundings. A run without one never
//! touches this. That each is caught proves that the checkers can fail.

use ferriband_transport::types::{Completion, SendOpcode};
use ferriband_wire::{AtomicAckEth, Headers, NakCode, Operation, Packet, Psn, Syndrome};

/// A planted bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), allow(dead_code))] // Only tests plant bugs.
pub(super) enum Mutation {
    /// I1: a WRITE takes effect twice.
    ExecuteTwice,
    /// I2: an atomic answers with the value after it.
    AnswerNewValue,
    /// I3: a READ response carries the bytes of another address.
    ReadElsewhere,
    /// I4: a receive completes with its last byte missing.
    LoseLastByte,
    /// I5: after 0xffffff comes 1.
    SkipPsnZero,
    /// I6: the sequence NAK is sent for every packet beyond a gap.
    NakTwice,
    /// I7: the responder's key check says yes.
    SkipKeyCheck,
    /// I8: the machine was told of more READs than the program allowed.
    MoreReads,
    /// I9: the machine gives up after fewer RNR NAKs than the program said.
    ImpatientRnr,
    /// I10: the machine's ack timer runs out in a quarter of the time.
    HastyTimer,
    /// I11: every tenth completion of a send disappears.
    SwallowCompletion,
    /// I12: a refused modify leaves something behind.
    HalfModify,
    /// I13: a completion queue drops what does not fit and says nothing.
    DropOnOverrun,
}

/// Rewrites an outgoing packet as the planted bug would have; None leaves it alone.
pub(super) fn rewrite(
    mutation: Option<Mutation>,
    packet: &Packet<'_>,
    scratch: &mut Vec<u8>,
) -> Option<usize> {
    let mut headers: Headers = packet.headers;
    let mut payload = packet.payload.to_vec();
    match (mutation?, packet.opcode().operation()) {
        (Mutation::AnswerNewValue, Operation::AtomicAcknowledge) => {
            let original = headers.ext.atomic_ack?.original.wrapping_add(1);
            headers.ext.atomic_ack = Some(AtomicAckEth { original });
        }
        (Mutation::ReadElsewhere, Operation::RdmaReadResponse) if !payload.is_empty() => {
            payload.rotate_left(1);
        }
        (Mutation::SkipPsnZero, Operation::Send | Operation::RdmaWrite)
            if headers.bth.psn.get() < 1 << 20 =>
        {
            headers.bth.psn = Psn::new(headers.bth.psn.get() + 1);
        }
        _ => return None,
    }
    scratch.resize(headers.packet_len(payload.len()), 0);
    Packet {
        headers,
        payload: &payload,
    }
    .emit(scratch)
    .ok()
}

/// Whether the planted bug sends this packet once more.
pub(super) fn repeats(mutation: Option<Mutation>, packet: &Packet<'_>) -> bool {
    mutation == Some(Mutation::NakTwice)
        && packet
            .ext()
            .aeth
            .is_some_and(|aeth| aeth.syndrome == Syndrome::Nak(NakCode::PsnSequenceError))
}

/// Whether the planted bug swallows this completion.
pub(super) fn swallows(mutation: Option<Mutation>, completion: &Completion) -> bool {
    mutation == Some(Mutation::SwallowCompletion) && completion.wr_id % 10 == 3
}

/// The operation that a mutation needs to show itself.
pub(super) const fn favours(mutation: Option<Mutation>) -> Option<SendOpcode> {
    match mutation {
        Some(Mutation::ExecuteTwice | Mutation::SkipKeyCheck) => Some(SendOpcode::RdmaWrite),
        Some(Mutation::AnswerNewValue) => Some(SendOpcode::FetchAdd),
        Some(Mutation::ReadElsewhere | Mutation::MoreReads) => Some(SendOpcode::RdmaRead),
        Some(Mutation::LoseLastByte | Mutation::ImpatientRnr) => Some(SendOpcode::Send),
        _ => None,
    }
}
