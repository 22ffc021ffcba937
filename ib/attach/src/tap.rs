//! What passes a link, for somebody who looks at it: whole native packets, LRH to VCRC, one or several in a message.
//!
//! A message is a byte that says what it is, and for each packet its time (eight bytes), how many before it were lost (four), which way it went (one), its length (two) and
//! its bytes; numbers are big-endian.

use crate::AttachError;
use crate::packet::PACKET_BYTES;

/// First byte of such a message.
pub const TAPPED: u8 = b'T';
/// Bytes before each packet.
const HEAD_BYTES: usize = 8 + 4 + 1 + 2;

/// A packet that passed a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tapped<'a> {
    /// When, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Packets before it that the looker was too slow for, since the last one.
    pub lost: u32,
    /// It left by the port that was named; else it came.
    pub out: bool,
    /// LRH to VCRC.
    pub bytes: &'a [u8],
}

/// Appends a packet to a message, which it begins if it is empty.
pub fn push(message: &mut Vec<u8>, tapped: &Tapped<'_>) {
    if message.is_empty() {
        message.push(TAPPED);
    }
    let length = tapped.bytes.len().min(PACKET_BYTES);
    message.extend_from_slice(&tapped.time_ns.to_be_bytes());
    message.extend_from_slice(&tapped.lost.to_be_bytes());
    message.push(u8::from(tapped.out));
    message.extend_from_slice(&(length as u16).to_be_bytes());
    message.extend_from_slice(&tapped.bytes[..length]);
}

/// The packets of a message.
///
/// # Errors
/// `Malformed` if it is no such message; what is cut off at its end is left out.
pub fn packets(message: &[u8]) -> Result<impl Iterator<Item = Tapped<'_>>, AttachError> {
    let Some((&TAPPED, mut rest)) = message.split_first() else {
        return Err(AttachError::Malformed("no packets of a link"));
    };
    Ok(std::iter::from_fn(move || {
        let (head, after) = rest.split_first_chunk::<HEAD_BYTES>()?;
        let (time, lost) = (head.first_chunk()?, head[8..].first_chunk()?);
        let length = usize::from(u16::from_be_bytes([head[13], head[14]]));
        let (bytes, after) = after.split_at_checked(length)?;
        rest = after;
        Some(Tapped {
            time_ns: u64::from_be_bytes(*time),
            lost: u32::from_be_bytes(*lost),
            out: head[12] != 0,
            bytes,
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packets_come_back_as_they_were() {
        let first = Tapped {
            time_ns: 1 << 60 | 5,
            lost: 7,
            out: true,
            bytes: b"one",
        };
        let second = Tapped {
            out: false,
            bytes: b"",
            ..first
        };
        let mut message = Vec::new();
        push(&mut message, &first);
        push(&mut message, &second);
        let came: Vec<_> = packets(&message).unwrap().collect();
        assert_eq!(came, [first, second]);
        assert!(packets(b"P").is_err() && packets(b"").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(mut bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
            bytes[0] = TAPPED;
            let total: usize = packets(&bytes).unwrap().map(|tapped| tapped.bytes.len() + HEAD_BYTES).sum();
            prop_assert!(total < bytes.len());
        }
    }
}
