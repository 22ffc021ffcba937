//! Data packets between an adapter and the port of its host: whole native packets, LRH to VCRC, one or several in a message.
//!
//! A message is a byte that says what it is, and for each packet its length (two bytes) and its bytes. By the same connection an adapter tells its port of packets with keys that their queue
//! pairs do not have ([`Wrong`]), and the port its adapter of partition keys ([`crate::ask::Answer::PartitionKeys`]).

use crate::AttachError;

/// First byte of such a message.
pub const PACKETS: u8 = b'P';
/// First byte of a message about a packet with a wrong key.
pub const WRONG: u8 = b'W';
/// What of a packet is told: LRH, GRH, BTH and DETH.
pub const WRONG_BYTES: usize = 8 + 40 + 12 + 8;
/// Longest packet: LRH, GRH, headers and 4 KiB, with some room.
pub const PACKET_BYTES: usize = 4096 + 256;

/// Appends a packet to a message, which it begins if it is empty.
pub fn push(message: &mut Vec<u8>, packet: &[u8]) {
    if message.is_empty() {
        message.push(PACKETS);
    }
    let length = packet.len().min(PACKET_BYTES);
    message.extend_from_slice(&(length as u16).to_be_bytes());
    message.extend_from_slice(&packet[..length]);
}

/// Which key of a packet is not that of the queue pair that it came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// The partition key.
    PKey,
    /// A datagram's Q_Key.
    QKey,
}

/// A message about a packet with a wrong key, of which it has the beginning.
pub fn wrong(which: Wrong, packet: &[u8]) -> Vec<u8> {
    let mut message = vec![WRONG, which as u8];
    message.extend_from_slice(&packet[..packet.len().min(WRONG_BYTES)]);
    message
}

/// Reads such a message; None if it is none.
pub fn as_wrong(message: &[u8]) -> Option<(Wrong, &[u8])> {
    let (&[kind, which], packet) = message.split_first_chunk::<2>()?;
    let which = [Wrong::PKey, Wrong::QKey]
        .into_iter()
        .find(|known| *known as u8 == which)?;
    (kind == WRONG && packet.len() <= WRONG_BYTES).then_some((which, packet))
}

/// The packets of a message.
///
/// # Errors
/// `Malformed` if it is no such message; what is cut off at its end is left out.
pub fn packets(message: &[u8]) -> Result<impl Iterator<Item = &[u8]>, AttachError> {
    let Some((&PACKETS, mut rest)) = message.split_first() else {
        return Err(AttachError::Malformed("no packets"));
    };
    Ok(std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (packet, after) = after.split_at_checked(length)?;
        rest = after;
        Some(packet)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packets_come_back_as_they_were() {
        let mut message = Vec::new();
        push(&mut message, b"one");
        push(&mut message, b"three");
        let came: Vec<_> = packets(&message).unwrap().collect();
        assert_eq!(came, [&b"one"[..], b"three"]);
        assert!(packets(b"").is_err());
        for which in [Wrong::PKey, Wrong::QKey] {
            let told = wrong(which, &[7; 300]);
            assert_eq!(as_wrong(&told), Some((which, &[7; WRONG_BYTES][..])));
            assert!(packets(&told).is_err());
        }
        assert_eq!(as_wrong(&message), None);
        assert_eq!(as_wrong(&[WRONG, 2, 0]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(mut bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
            bytes[0] = PACKETS;
            let total: usize = packets(&bytes).unwrap().map(|packet| packet.len() + 2).sum();
            prop_assert!(total < bytes.len());
        }
    }
}
