//! What of an envelope goes in a SEND's immediate data, where the rest is as the receiver knows it.
//!
//! A message of 1,024 bytes fills a packet of that size; with the envelope before it, it takes two. Where the last whole envelope that went by
//! SEND on the connection says the same but for the two numbers, those go as immediate data, 16 bits each, and no envelope goes at all. SENDs of a reliable connection
//! come in order, so both ends mean the same envelope.
//!
//! 16 bits are enough: fewer records lie in a block, and fewer messages in receive buffers, than 65,536. An acknowledgement that is further behind is taken for an old one, which
//! says nothing; others that are whole follow it.

use super::envelope::{Envelope, Kind};

/// What a whole envelope of a plain message of the program said beyond its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    tag: i32,
    context: u64,
    credit: u32,
}

impl Pattern {
    /// What `envelope` says; none if such a message never goes without.
    #[inline]
    pub fn of(envelope: &Envelope) -> Option<Self> {
        let is_plain = envelope.kind == Kind::Eager && envelope.flags == 0;
        is_plain.then_some(Self {
            tag: envelope.tag,
            context: envelope.context,
            credit: envelope.credit,
        })
    }

    /// The envelope's numbers as immediate data.
    #[inline]
    pub fn numbers(envelope: &Envelope) -> u32 {
        envelope.seq << 16 | envelope.ack & 0xffff
    }

    /// The envelope that immediate data stands for, at a receiver that has taken `received`
    /// messages and whose own were acknowledged up to `acknowledged`.
    #[inline]
    pub fn whole(self, numbers: u32, received: u32, acknowledged: u32) -> Envelope {
        let ahead = ((numbers >> 16) as u16).wrapping_sub(received as u16);
        let news = (numbers as u16).wrapping_sub(acknowledged as u16);
        Envelope {
            kind: Kind::Eager,
            flags: 0,
            seq: received.wrapping_add(u32::from(ahead)),
            ack: acknowledged.wrapping_add_signed(i32::from(news.cast_signed())),
            credit: self.credit,
            tag: self.tag,
            context: self.context,
        }
    }
}

/// Whether a message of `length` bytes goes by one packet of `mtu` without the `envelope` bytes before it, and by two with them.
///
/// Longer ones gain less than nothing: their last packet would be longer than those before it by the immediate data, and systems take packets in one call
/// whose last is no longer than the others (UDP_SEGMENT).
#[inline]
pub fn fills_a_packet(length: usize, envelope: usize, mtu: usize) -> bool {
    length <= mtu && length + envelope > mtu
}

#[cfg(test)]
mod tests {
    use super::super::envelope::{ENVELOPE, SYNC};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_left_out_comes_back(
            received: u32, ahead in 1_u32..65_536, acknowledged: u32, behind in -32_768_i32..32_768,
            credit: u32, tag: i32, context: u64,
        ) {
            let envelope = Envelope {
                kind: Kind::Eager,
                flags: 0,
                seq: received.wrapping_add(ahead),
                ack: acknowledged.wrapping_add_signed(behind),
                credit,
                tag,
                context,
            };
            let pattern = Pattern::of(&envelope).expect("a plain message");
            let again = pattern.whole(Pattern::numbers(&envelope), received, acknowledged);
            prop_assert_eq!(again, envelope);
        }
    }

    #[test]
    fn what_asks_for_more_than_to_be_taken_goes_whole() {
        let plain = Envelope {
            kind: Kind::Eager,
            flags: 0,
            seq: 1,
            ack: 2,
            credit: 3,
            tag: 4,
            context: 5,
        };
        assert!(Pattern::of(&plain).is_some());
        let sync = Envelope {
            flags: SYNC,
            ..plain
        };
        assert_eq!(Pattern::of(&sync), None);
        let rts = Envelope {
            kind: Kind::Rts,
            ..plain
        };
        assert_eq!(Pattern::of(&rts), None);
        let credit = Envelope { credit: 9, ..plain };
        assert_ne!(Pattern::of(&credit), Pattern::of(&plain));
    }

    #[test]
    fn one_packet_instead_of_two() {
        let fills = |length| fills_a_packet(length, ENVELOPE, 1024);
        assert!(!fills(0) && !fills(996) && fills(997) && fills(1024));
        assert!(!fills(1025) && !fills(2048));
    }
}
