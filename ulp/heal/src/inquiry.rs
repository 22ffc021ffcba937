//! How a process asks another one, by TCP, for the card of its rank: what goes over the connection,
//! and where the other one listens.
//!
//! Owns: the bytes of a question and of its answer, and of a [`CardPort`]. Must not know: sockets,
//! when a card is wanted ([`crate::Reading`]). It is the way that is left where the adapters of
//! both ends were opened anew, so that neither knows where the other's datagrams go. A connection
//! carries one question and one answer. Anybody may connect, so all bytes are hostile.

use crate::card::{CARD, Card};
use crate::datagram::{MAGIC, VERSION};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a question.
pub const QUESTION: usize = 32;
/// Bytes of an answer.
pub const ANSWER: usize = QUESTION + CARD;
/// IP addresses of a process at most.
pub const ADDRESSES: usize = 6;
/// Bytes of a [`CardPort`].
pub const CARD_PORT: usize = 4 + 16 * ADDRESSES;

const ASKS: u16 = 1;
const ANSWERS: u16 = 2;

/// Where a process answers questions for its rank's card: a TCP port, and the IP addresses of its
/// host, to be tried in their order. That of an adapter's interface stays when the adapter fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardPort {
    port: u16,
    count: u8,
    /// Those of version 4 are mapped into version 6.
    addresses: [Ipv6Addr; ADDRESSES],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PortBytes {
    port: U16,
    count: u8,
    zero: u8,
    addresses: [[u8; 16]; ADDRESSES],
}

const _: () = assert!(size_of::<PortBytes>() == CARD_PORT);

impl CardPort {
    /// This port at these addresses, of which the first six count, each once; none without a port
    /// or an address by which another host can come.
    pub fn new(port: u16, addresses: impl IntoIterator<Item = IpAddr>) -> Option<Self> {
        let mut made = Self {
            port,
            count: 0,
            addresses: [Ipv6Addr::UNSPECIFIED; ADDRESSES],
        };
        for address in addresses {
            let at = usize::from(made.count);
            let mapped = mapped(address);
            if at < ADDRESSES && may_be_reached(mapped) && !made.addresses[..at].contains(&mapped) {
                made.addresses[at] = mapped;
                made.count += 1;
            }
        }
        (port != 0 && made.count != 0).then_some(made)
    }

    /// Where to connect, in order.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let all = self.addresses.iter().take(usize::from(self.count));
        all.map(|one| SocketAddr::new(IpAddr::from(*one).to_canonical(), self.port))
    }

    /// Its bytes.
    pub fn emit(&self) -> [u8; CARD_PORT] {
        zerocopy::transmute!(PortBytes {
            port: U16::new(self.port),
            count: self.count,
            zero: 0,
            addresses: self.addresses.map(|one| one.octets()),
        })
    }

    /// What the bytes say; none if that cannot be.
    pub fn parse(bytes: &[u8; CARD_PORT]) -> Option<Self> {
        let bytes = PortBytes::read_from_bytes(bytes).ok()?;
        let count = usize::from(bytes.count);
        let addresses = bytes.addresses.iter().take(count);
        let made = Self::new(
            bytes.port.get(),
            addresses.map(|one| IpAddr::from(Ipv6Addr::from(*one))),
        )?;
        (usize::from(made.count) == count).then_some(made)
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(four) => four.to_ipv6_mapped(),
        IpAddr::V6(six) => six,
    }
}

/// Whether another host can come to an address: those of one host alone, and those that want the
/// name of an interface beside them, are none.
fn may_be_reached(address: Ipv6Addr) -> bool {
    let is_of_link = match address.to_canonical() {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    };
    let canonical = IpAddr::from(address).to_canonical();
    !(canonical.is_loopback()
        || canonical.is_unspecified()
        || canonical.is_multicast()
        || is_of_link)
}

/// A question for the card of a rank, or what an answer begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// What only ranks of the job know.
    pub secret: u64,
    /// World rank of who asks.
    pub from: u32,
    /// World rank of whose card is wanted.
    pub to: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    magic: U32,
    version: U16,
    kind: U16,
    secret: U64,
    from: U32,
    to: U32,
    zero: U64,
}

const _: () = assert!(size_of::<Head>() == QUESTION);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AnswerBytes {
    head: Head,
    card: [u8; CARD],
}

const _: () = assert!(size_of::<AnswerBytes>() == ANSWER);

impl Question {
    fn head(&self, kind: u16) -> Head {
        Head {
            magic: U32::new(MAGIC),
            version: U16::new(VERSION),
            kind: U16::new(kind),
            secret: U64::new(self.secret),
            from: U32::new(self.from),
            to: U32::new(self.to),
            zero: U64::ZERO,
        }
    }

    fn of(head: &Head, kind: u16) -> Option<Self> {
        let is_one = (head.magic.get(), head.version.get(), head.kind.get());
        (is_one == (MAGIC, VERSION, kind)).then(|| Self {
            secret: head.secret.get(),
            from: head.from.get(),
            to: head.to.get(),
        })
    }

    /// Its bytes.
    pub fn emit(&self) -> [u8; QUESTION] {
        zerocopy::transmute!(self.head(ASKS))
    }

    /// What the bytes ask; none if they are no question of this version.
    pub fn parse(bytes: &[u8; QUESTION]) -> Option<Self> {
        Self::of(&Head::read_from_bytes(bytes).ok()?, ASKS)
    }

    /// Whether a rank of this job (below `ranks`) asks for the card of rank `me`.
    pub fn is_for(&self, me: u32, ranks: u32, secret: u64) -> bool {
        // One comparison of a difference: its time tells nothing of where the first wrong byte
        // lies.
        let differs = self.secret ^ secret;
        differs == 0 && self.to == me && self.from < ranks && self.from != me
    }

    /// The bytes of the answer to it.
    pub fn answered(&self, card: &Card) -> [u8; ANSWER] {
        zerocopy::transmute!(AnswerBytes {
            head: self.head(ANSWERS),
            card: card.emit(),
        })
    }

    /// The card that the bytes tell; none if they are no answer to this question.
    pub fn card_in(&self, bytes: &[u8; ANSWER]) -> Option<Card> {
        let bytes = AnswerBytes::read_from_bytes(bytes).ok()?;
        let answered = Self::of(&bytes.head, ANSWERS)?;
        let card = Card::parse(&bytes.card).ok()?;
        let is_of_it = (answered.from, answered.to) == (self.from, self.to);
        (is_of_it && answered.secret ^ self.secret == 0).then_some(card)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::ADAPTERS;
    use proptest::prelude::*;

    fn card() -> Card {
        Card {
            serial: 4,
            receive: 64,
            addresses: [None; ADAPTERS],
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn question() -> Question {
        Question {
            secret: 0x0102_0304_0506_0708,
            from: 3,
            to: 1,
        }
    }

    #[test]
    fn addresses_by_which_no_other_host_comes_are_left_out() {
        let all = [
            "127.0.0.1",
            "10.0.0.1",
            "::1",
            "fe80::1",
            "169.254.1.1",
            "10.0.0.1",
            "2001:db8::1",
            "::ffff:127.0.0.2",
        ];
        let made = CardPort::new(7, all.map(ip)).expect("two are left");
        let told: Vec<String> = made.addresses().map(|one| one.to_string()).collect();
        assert_eq!(told, ["10.0.0.1:7", "[2001:db8::1]:7"]);
        assert_eq!(CardPort::new(7, [ip("127.0.0.1")]), None);
        assert_eq!(CardPort::new(0, [ip("10.0.0.1")]), None);
        let many = (0..20).map(|last| IpAddr::from([10, 0, 0, last]));
        let made = CardPort::new(9, many).expect("some");
        assert_eq!(made.addresses().count(), ADDRESSES);
    }

    #[test]
    fn only_a_question_of_the_job_for_this_rank_is_answered() {
        let one = question();
        let parsed = Question::parse(&one.emit()).expect("it is one");
        assert!(parsed.is_for(1, 4, one.secret));
        assert!(!parsed.is_for(1, 4, one.secret ^ 1));
        assert!(!parsed.is_for(2, 4, one.secret));
        assert!(!parsed.is_for(1, 3, one.secret), "there is no such rank");
        assert!(!Question { from: 1, ..one }.is_for(1, 4, one.secret));
        let mut older = one.emit();
        older[4] = 5;
        assert_eq!(Question::parse(&older), None);
    }

    #[test]
    fn only_an_answer_to_the_question_is_taken() {
        let one = question();
        let bytes = one.answered(&card());
        assert_eq!(one.card_in(&bytes), Some(card()));
        for other in [
            Question { secret: 1, ..one },
            Question { from: 2, ..one },
            Question { to: 2, ..one },
        ] {
            assert_eq!(other.card_in(&bytes), None);
        }
        let mut echoed = [0; ANSWER];
        echoed[..QUESTION].copy_from_slice(&one.emit());
        echoed[QUESTION..].copy_from_slice(&card().emit());
        assert_eq!(one.card_in(&echoed), None, "it is a question");
        let mut foreign = bytes;
        foreign[QUESTION] ^= 1;
        assert_eq!(one.card_in(&foreign), None, "it has no card");
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_a_port_or_none(
            port in 1_u16..,
            addresses in prop::collection::vec(any::<[u8; 16]>(), 1..10),
            hits in prop::collection::vec((0..CARD_PORT, any::<u8>()), 0..12),
        ) {
            let all = addresses.into_iter().map(|one| IpAddr::from(Ipv6Addr::from(one)));
            let Some(made) = CardPort::new(port, all) else {
                return Ok(());
            };
            let mut bytes = made.emit();
            prop_assert_eq!(CardPort::parse(&bytes), Some(made));
            for (at, byte) in hits {
                bytes[at] = byte;
            }
            if let Some(again) = CardPort::parse(&bytes) {
                prop_assert!((1..=ADDRESSES).contains(&again.addresses().count()));
            }
        }

        #[test]
        fn hostile_bytes_are_a_question_or_none(bytes: [u8; QUESTION]) {
            prop_assert_eq!(Question::parse(&bytes), None);
        }
    }
}
