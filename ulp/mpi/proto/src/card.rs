//! A rank's card: how its set-up datagrams reach it. The datagrams themselves, and the connections
//! that come of them, are `ferriband-heal`'s.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a card.
pub const CARD: usize = 40;

const MAGIC: u32 = 0x4d_46_75_70;
const VERSION: u16 = 6;

/// No receive buffer is longer.
pub const MOST_RECEIVE: u32 = 1 << 20;

/// How a rank can be reached by datagrams: what it leaves for the others before they have anything
/// to do with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Card {
    /// Number of the queue pair that takes set-up datagrams.
    pub qpn: u32,
    /// LID of its port; 0 on Ethernet.
    pub lid: u16,
    /// Whether the port lies on Ethernet.
    pub is_ethernet: bool,
    /// The largest path MTU, as the verbs API codes it.
    pub mtu: u8,
    /// GID of its port.
    pub gid: [u8; 16],
    /// Bytes of its receive buffers.
    pub receive: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CardBytes {
    magic: U32,
    version: U16,
    is_ethernet: u8,
    mtu: u8,
    qpn: U32,
    lid: U16,
    zero: U16,
    gid: [u8; 16],
    receive: U32,
    rest: [u8; 4],
}

const _: () = assert!(size_of::<CardBytes>() == CARD);

impl Card {
    /// Its bytes.
    pub fn emit(&self) -> [u8; CARD] {
        zerocopy::transmute!(CardBytes {
            magic: U32::new(MAGIC),
            version: U16::new(VERSION),
            is_ethernet: u8::from(self.is_ethernet),
            mtu: self.mtu,
            qpn: U32::new(self.qpn),
            lid: U16::new(self.lid),
            zero: U16::ZERO,
            gid: self.gid,
            receive: U32::new(self.receive),
            rest: [0; 4],
        })
    }

    /// What the bytes say; none if they are no card.
    pub fn parse(bytes: &[u8; CARD]) -> Option<Self> {
        let bytes = CardBytes::read_from_bytes(bytes).ok()?;
        let is_one = bytes.magic.get() == MAGIC
            && bytes.version.get() == VERSION
            && bytes.qpn.get() < 1 << 24
            && (1..=5).contains(&bytes.mtu)
            && bytes.receive.get() <= MOST_RECEIVE;
        is_one.then_some(Self {
            qpn: bytes.qpn.get(),
            lid: bytes.lid.get(),
            is_ethernet: bytes.is_ethernet != 0,
            mtu: bytes.mtu,
            gid: bytes.gid,
            receive: bytes.receive.get(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            qpn in 0..1_u32 << 24, lid: u16, mtu in 1..=5_u8, gid: [u8; 16], receive in 0..=MOST_RECEIVE,
        ) {
            let card = Card { qpn, lid, is_ethernet: lid == 0, mtu, gid, receive };
            prop_assert_eq!(Card::parse(&card.emit()), Some(card));
        }

        #[test]
        fn hostile_bytes_are_a_card_or_none(hits in prop::collection::vec((0..CARD, any::<u8>()), 0..12)) {
            let mut bytes = Card { mtu: 3, ..Card::default() }.emit();
            for (at, byte) in hits {
                bytes[at] = byte;
            }
            if let Some(card) = Card::parse(&bytes) {
                prop_assert_eq!(Card::parse(&card.emit()), Some(card));
            }
        }
    }

    #[test]
    fn a_card_of_another_version_is_none() {
        let mut bytes = Card {
            mtu: 3,
            ..Card::default()
        }
        .emit();
        assert!(Card::parse(&bytes).is_some());
        bytes[4] = 5;
        assert_eq!(Card::parse(&bytes), None);
    }
}
