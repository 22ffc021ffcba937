//! The card that a rank leaves for the others: how its datagrams' queue pairs are reached, on up to
//! four adapters.

use crate::datagram::{MAGIC, VERSION};
use std::fmt;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a card.
pub const CARD: usize = 144;
/// Adapters that a card names at most.
pub const ADAPTERS: usize = 4;
/// No receive buffer is longer.
pub const MOST_RECEIVE: u32 = 1 << 20;

/// How one adapter is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// Number of the datagram queue pair.
    pub ud: u32,
    /// Number of the echo's.
    pub echo: u32,
    /// LID of the port; 0 on Ethernet.
    pub lid: u16,
    /// Bits of the LID that choose a path.
    pub lmc: u8,
    /// The largest path MTU, as the verbs API codes it.
    pub mtu: u8,
    /// Whether the port lies on Ethernet.
    pub is_ethernet: bool,
    /// Whether the port was active when the card was written.
    pub is_active: bool,
    /// The port, from 1.
    pub port: u8,
    /// GID of the port.
    pub gid: [u8; 16],
}

impl Address {
    /// Whether the port has so many LIDs beside its first.
    pub fn has_lid(&self, nth: u8) -> bool {
        u16::from(nth) < 1 << self.lmc.min(7)
    }

    /// The first LID of the port that has this one: its own, unless that is of another port.
    pub fn first_of(&self, lid: u16) -> u16 {
        let is_own = lid.wrapping_sub(self.lid) < 1 << self.lmc.min(7);
        if is_own { self.lid } else { lid }
    }
}

/// A card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// Even, and larger each time the card changes; it wraps.
    pub serial: u32,
    /// Bytes of the receive buffers.
    pub receive: u32,
    /// Adapters, by their [`crate::AdapterId`]; those that there are come first.
    pub addresses: [Option<Address>; ADAPTERS],
}

/// Why bytes are no card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardError {
    /// They are something else.
    Foreign,
    /// They are one of another version than [`VERSION`].
    Version(u16),
    /// They name what cannot be.
    Wrong,
}

impl fmt::Display for CardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => write!(f, "no card of Ferriband's"),
            Self::Version(other) => write!(f, "a card of version {other}, not {VERSION}"),
            Self::Wrong => write!(f, "a card that names what cannot be"),
        }
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AddressBytes {
    ud: U32,
    echo: U32,
    lid: U16,
    lmc: u8,
    mtu: u8,
    flags: u8,
    port: u8,
    zero: U16,
    gid: [u8; 16],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Bytes {
    magic: U32,
    version: U16,
    count: u8,
    zero: u8,
    serial: U32,
    receive: U32,
    addresses: [AddressBytes; ADAPTERS],
}

const _: () = assert!(size_of::<Bytes>() == CARD);

const ETHERNET: u8 = 1;
const ACTIVE: u8 = 2;

impl Address {
    fn emit(&self) -> AddressBytes {
        let ethernet = if self.is_ethernet { ETHERNET } else { 0 };
        let active = if self.is_active { ACTIVE } else { 0 };
        AddressBytes {
            ud: U32::new(self.ud),
            echo: U32::new(self.echo),
            lid: U16::new(self.lid),
            lmc: self.lmc,
            mtu: self.mtu,
            flags: ethernet | active,
            port: self.port,
            zero: U16::ZERO,
            gid: self.gid,
        }
    }

    fn parse(bytes: &AddressBytes) -> Option<Self> {
        const NUMBERS: u32 = 1 << 24;
        let may_be = bytes.ud.get() < NUMBERS
            && bytes.echo.get() < NUMBERS
            && (1..=5).contains(&bytes.mtu)
            && bytes.lmc < 8;
        may_be.then_some(Self {
            ud: bytes.ud.get(),
            echo: bytes.echo.get(),
            lid: bytes.lid.get(),
            lmc: bytes.lmc,
            mtu: bytes.mtu,
            is_ethernet: bytes.flags & ETHERNET != 0,
            is_active: bytes.flags & ACTIVE != 0,
            port: bytes.port,
            gid: bytes.gid,
        })
    }
}

impl Card {
    /// Its bytes.
    pub fn emit(&self) -> [u8; CARD] {
        let count = self.addresses.iter().flatten().count();
        let none = Address::default();
        zerocopy::transmute!(Bytes {
            magic: U32::new(MAGIC),
            version: U16::new(VERSION),
            count: count as u8,
            zero: 0,
            serial: U32::new(self.serial),
            receive: U32::new(self.receive),
            addresses: self.addresses.map(|address| address.unwrap_or(none).emit()),
        })
    }

    /// What the bytes say.
    pub fn parse(bytes: &[u8; CARD]) -> Result<Self, CardError> {
        let bytes = Bytes::read_from_bytes(bytes).map_err(|_| CardError::Foreign)?;
        if bytes.magic.get() != MAGIC {
            return Err(CardError::Foreign);
        }
        if bytes.version.get() != VERSION {
            return Err(CardError::Version(bytes.version.get()));
        }
        let count = usize::from(bytes.count);
        if count > ADAPTERS || bytes.receive.get() > MOST_RECEIVE {
            return Err(CardError::Wrong);
        }
        let mut addresses = [None; ADAPTERS];
        for (to, from) in addresses.iter_mut().zip(&bytes.addresses).take(count) {
            *to = Some(Address::parse(from).ok_or(CardError::Wrong)?);
        }
        Ok(Self {
            serial: bytes.serial.get(),
            receive: bytes.receive.get(),
            addresses,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address() -> impl Strategy<Value = Address> {
        let numbers = (0_u32..1 << 24, 0_u32..1 << 24, any::<u16>());
        let rest = (
            0_u8..8,
            1_u8..=5,
            any::<[bool; 2]>(),
            any::<u8>(),
            any::<[u8; 16]>(),
        );
        (numbers, rest).prop_map(|((ud, echo, lid), (lmc, mtu, is, port, gid))| Address {
            ud,
            echo,
            lid,
            lmc,
            mtu,
            is_ethernet: is[0],
            is_active: is[1],
            port,
            gid,
        })
    }

    fn card() -> impl Strategy<Value = Card> {
        let addresses = prop::collection::vec(address(), 0..=ADAPTERS);
        (any::<u32>(), 0..=MOST_RECEIVE, addresses).prop_map(|(serial, receive, some)| {
            let mut addresses = [None; ADAPTERS];
            for (to, from) in addresses.iter_mut().zip(some) {
                *to = Some(from);
            }
            Card {
                serial,
                receive,
                addresses,
            }
        })
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(card in card()) {
            prop_assert_eq!(Card::parse(&card.emit()), Ok(card));
        }

        #[test]
        fn hostile_bytes_are_a_card_or_none(
            card in card(),
            hits in prop::collection::vec((0..CARD, any::<u8>()), 0..12),
        ) {
            let mut bytes = card.emit();
            for (at, byte) in hits {
                bytes[at] = byte;
            }
            if let Ok(again) = Card::parse(&bytes) {
                prop_assert_eq!(Card::parse(&again.emit()), Ok(again));
            }
        }
    }

    #[test]
    fn a_card_of_another_version_says_so() {
        let card = Card {
            serial: 2,
            receive: 64,
            addresses: [None; ADAPTERS],
        };
        let mut bytes = card.emit();
        bytes[4] = 4;
        let error = Card::parse(&bytes).expect_err("another version");
        assert_eq!(error.to_string(), "a card of version 4, not 6");
        assert_eq!(Card::parse(&[0; CARD]), Err(CardError::Foreign));
    }
}
