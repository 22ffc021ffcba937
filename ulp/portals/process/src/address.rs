//! The address of a Portals request: what the target needs beside the table index.
//!
//! Owns: its bytes, 32, in a message of `ferriband-putget-proto` behind the header. Must not know:
//! interfaces. Who asks is the connection's, and no message says it but for the rank.

use ferriband_portals_proto::{Arrival, ArrivalOp, AtomicOp, Datatype, NiKind, Operation, Process};

/// Bytes of the address of a Portals request, in a message behind the header.
pub const ADDRESS_BYTES: usize = 32;
/// Bytes of the operand that goes before the data of a conditional or masked swap.
pub(crate) const OPERAND_BYTES: usize = 32;
/// No atomic operation.
const NONE: u8 = 0xff;

/// Writes the address of a request by the process that has `rank`.
pub(crate) fn emit(ni: NiKind, operation: &Operation, rank: u32) -> [u8; ADDRESS_BYTES] {
    let (atomic, datatype) = match operation.atomic {
        Some((atomic, datatype)) => (atomic.code(), datatype.code()),
        None => (NONE, NONE),
    };
    let mut bytes = [0; ADDRESS_BYTES];
    bytes[..4].copy_from_slice(&[ni.index(), operation.op as u8, atomic, datatype]);
    bytes[4..8].copy_from_slice(&rank.to_be_bytes());
    bytes[8..16].copy_from_slice(&operation.match_bits.to_be_bytes());
    bytes[16..24].copy_from_slice(&operation.remote_offset.to_be_bytes());
    bytes[24..].copy_from_slice(&operation.hdr_data.to_be_bytes());
    bytes
}

/// Reads an address; None if it is none. The table index and the length are the header's.
pub(crate) fn parse(
    bytes: &[u8],
    initiator: Process,
    uid: u32,
    pt_index: u32,
    length: u64,
) -> Option<Arrival> {
    let bytes: &[u8; ADDRESS_BYTES] = bytes.try_into().ok()?;
    let [ni, op, atomic, datatype, ..] = *bytes;
    let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|byte| bytes[at + byte]));
    let op = match op {
        0 => ArrivalOp::Put,
        1 => ArrivalOp::Get,
        2 => ArrivalOp::Atomic,
        3 => ArrivalOp::FetchAtomic,
        4 => ArrivalOp::Swap,
        _ => return None,
    };
    let atomic = match (atomic, datatype) {
        (NONE, NONE) => None,
        _ => Some((AtomicOp::from_code(atomic)?, Datatype::from_code(datatype)?)),
    };
    (ni < 4).then_some(Arrival {
        ni: NiKind::from_index(ni),
        initiator,
        rank: (word(0) & 0xffff_ffff) as u32,
        uid,
        op,
        atomic,
        pt_index,
        match_bits: word(8),
        remote_offset: word(16),
        length,
        hdr_data: word(24),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferriband_portals_proto::{AckRequest, Peer};

    #[test]
    fn an_address_comes_back() {
        let operation = Operation {
            op: ArrivalOp::Swap,
            put: None,
            get: None,
            length: 8,
            ack: AckRequest::None,
            target: Peer::Rank(1),
            pt_index: 9,
            match_bits: 0x0102_0304_0506_0708,
            remote_offset: 77,
            user_ptr: 5,
            hdr_data: u64::MAX,
            atomic: AtomicOp::from_code(11).zip(Datatype::from_code(7)),
            operand: [0; 32],
        };
        let ni = NiKind {
            matching: false,
            logical: true,
        };
        let bytes = emit(ni, &operation, 0xdead_beef);
        let initiator = Process { nid: 3, pid: 4 };
        let arrival = parse(&bytes, initiator, 1000, 9, 8).unwrap();
        assert_eq!(
            (arrival.ni, arrival.op, arrival.rank),
            (ni, operation.op, 0xdead_beef)
        );
        assert_eq!(
            (arrival.atomic, arrival.hdr_data),
            (operation.atomic, u64::MAX)
        );
        assert_eq!(
            (arrival.match_bits, arrival.remote_offset),
            (operation.match_bits, 77)
        );
        assert_eq!(parse(&bytes[1..], initiator, 0, 0, 0), None);
        assert_eq!(parse(&[0xff; 32], initiator, 0, 0, 0), None);
    }
}
