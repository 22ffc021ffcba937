//! The set-up datagram, version 6: 128 bytes, little-endian, over an unreliable service.
//!
//! Everything received is hostile: what names something that cannot be is no datagram.

use crate::cause::Cause;
use crate::number::{AdapterId, Epoch, Number, PathId, Word};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a datagram.
pub const DATAGRAM: usize = 128;
pub(crate) const MAGIC: u32 = 0x4d_46_75_70;
/// The version of datagram and card.
pub const VERSION: u16 = 6;

/// Flag: the sender has no other adapter.
pub const ONLY_ADAPTER: u8 = 1;
/// Flag: the sender's card has changed.
pub const CARD_CHANGED: u8 = 2;

/// One end of a connection, as the other end must know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// Number of the queue pair, 24 bits.
    pub qpn: u32,
    /// The PSN that its sends begin with, 24 bits.
    pub psn: u32,
    /// Path MTU as the verbs API codes it, 1 (256 bytes) to 5 (4,096).
    pub mtu: u8,
    /// LID of its port; 0 on Ethernet.
    pub lid: u16,
    /// GID of its port.
    pub gid: [u8; 16],
    /// LID of another port of the adapter by which the connection may go on; 0: there is none.
    pub other_lid: u16,
}

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Connect to this end, in this life.
    Req = 1,
    /// Done; connect to that one.
    Rep = 2,
    /// Done as well: send.
    Rtu = 3,
    /// No, and never again.
    Rej = 4,
    /// This life is over here.
    Down = 5,
    /// Is anybody there?
    Probe = 6,
    /// Yes.
    Probed = 7,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Req,
            2 => Self::Rep,
            3 => Self::Rtu,
            4 => Self::Rej,
            5 => Self::Down,
            6 => Self::Probe,
            7 => Self::Probed,
            _ => return None,
        })
    }

    /// Whether it carries a word and an end.
    pub fn has_word(self) -> bool {
        matches!(self, Self::Req | Self::Rep)
    }
}

/// Where the sender can be answered, whatever its card said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Its adapter.
    pub adapter: AdapterId,
    /// [`ONLY_ADAPTER`] and [`CARD_CHANGED`].
    pub flags: u8,
    /// Number of its datagram queue pair, 24 bits.
    pub ud: u32,
    /// Number of the datagram queue pair of its echo, 24 bits.
    pub echo: u32,
    /// Serial of its card.
    pub serial: u32,
}

/// A set-up datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// What it is.
    pub kind: Kind,
    /// Why the last life ended.
    pub cause: Cause,
    /// What only ranks of the job know.
    pub secret: u64,
    /// World rank of who sends it.
    pub from: u32,
    /// World rank of whom it is for.
    pub to: u32,
    /// The life that is asked for, answered, confirmed or over; of PROBE and PROBED a counter.
    pub epoch: Epoch,
    /// Of REQ and REP: what the sender tells.
    pub word: Word,
    /// Of REJ: why not.
    pub errno: u32,
    /// Of REQ and REP: the sender's end. LID and GID are those of its port in all kinds but RTU.
    pub end: Endpoint,
    /// Of REQ, REP and RTU: the asker's path by which the question came.
    pub path: PathId,
    /// Where the sender can be answered.
    pub origin: Origin,
    /// Microseconds since the sender noticed the failure.
    pub since_us: u32,
    /// Of REQ: which try.
    pub tries: u16,
    /// Of REQ: the last life of the asker when it asked.
    pub after: Epoch,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Bytes {
    magic: U32,
    version: U16,
    kind: u8,
    cause: u8,
    secret: U64,
    from: U32,
    to: U32,
    epoch: U32,
    expected: U32,
    sent: U32,
    landed: U32,
    errno: U32,
    qpn: U32,
    psn: U32,
    mtu: u8,
    path: u8,
    lid: U16,
    gid: [u8; 16],
    keys: U16,
    adapter: u8,
    flags: u8,
    ud: U32,
    echo: U32,
    serial: U32,
    since_us: U32,
    tries: U16,
    zero: U16,
    after: U32,
    /// For atomic operations.
    zero_word: U32,
    other_lid: U16,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<Bytes>() == DATAGRAM);

impl Datagram {
    /// Its bytes.
    pub fn emit(&self) -> [u8; DATAGRAM] {
        zerocopy::transmute!(Bytes {
            magic: U32::new(MAGIC),
            version: U16::new(VERSION),
            kind: self.kind as u8,
            cause: self.cause as u8,
            secret: U64::new(self.secret),
            from: U32::new(self.from),
            to: U32::new(self.to),
            epoch: U32::new(self.epoch.0),
            expected: U32::new(self.word.expected.0),
            sent: U32::new(self.word.sent.0),
            landed: U32::new(self.word.landed),
            errno: U32::new(self.errno),
            qpn: U32::new(self.end.qpn),
            psn: U32::new(self.end.psn),
            mtu: self.end.mtu,
            path: self.path.0,
            lid: U16::new(self.end.lid),
            gid: self.end.gid,
            keys: U16::new(self.word.keys),
            adapter: self.origin.adapter.0,
            flags: self.origin.flags,
            ud: U32::new(self.origin.ud),
            echo: U32::new(self.origin.echo),
            serial: U32::new(self.origin.serial),
            since_us: U32::new(self.since_us),
            tries: U16::new(self.tries),
            zero: U16::ZERO,
            after: U32::new(self.after.0),
            zero_word: U32::ZERO,
            other_lid: U16::new(self.end.other_lid),
            rest: [0; 22],
        })
    }

    /// What the bytes say; none if they are no datagram of this version, or name what cannot be.
    /// Whether it is for this rank and job is [`Datagram::is_for`]'s question.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = Bytes::read_from_bytes(bytes).ok()?;
        if bytes.magic.get() != MAGIC || bytes.version.get() != VERSION {
            return None;
        }
        let datagram = Self {
            kind: Kind::from_byte(bytes.kind)?,
            cause: Cause::from_byte(bytes.cause)?,
            secret: bytes.secret.get(),
            from: bytes.from.get(),
            to: bytes.to.get(),
            epoch: Epoch(bytes.epoch.get()),
            word: Word {
                expected: Number(bytes.expected.get()),
                sent: Number(bytes.sent.get()),
                landed: bytes.landed.get(),
                keys: bytes.keys.get(),
            },
            errno: bytes.errno.get(),
            end: Endpoint {
                qpn: bytes.qpn.get(),
                psn: bytes.psn.get(),
                mtu: bytes.mtu,
                lid: bytes.lid.get(),
                gid: bytes.gid,
                other_lid: bytes.other_lid.get(),
            },
            path: PathId(bytes.path),
            origin: Origin {
                adapter: AdapterId(bytes.adapter),
                flags: bytes.flags & (ONLY_ADAPTER | CARD_CHANGED),
                ud: bytes.ud.get(),
                echo: bytes.echo.get(),
                serial: bytes.serial.get(),
            },
            since_us: bytes.since_us.get(),
            tries: bytes.tries.get(),
            after: Epoch(bytes.after.get()),
        };
        datagram.may_be().then(|| datagram.bare())
    }

    /// Whether what it names can be.
    fn may_be(&self) -> bool {
        const NUMBERS: u32 = 1 << 24;
        let end = &self.end;
        let has_end = end.qpn < NUMBERS && end.psn < NUMBERS && (1..=5).contains(&end.mtu);
        let has_life = !self.epoch.is_none();
        let is_whole = match self.kind {
            Kind::Req | Kind::Rep => has_end && has_life,
            Kind::Rtu | Kind::Down => has_life,
            Kind::Rej | Kind::Probe | Kind::Probed => true,
        };
        let origin = &self.origin;
        let is_there = origin.adapter.0 < 4 && origin.ud < NUMBERS && origin.echo < NUMBERS;
        is_whole && is_there && self.path.0 < 32
    }

    /// Without what its kind does not carry.
    #[must_use]
    pub fn bare(mut self) -> Self {
        if !self.kind.has_word() {
            self.word = Word::default();
            let end = self.end;
            self.end = Endpoint {
                qpn: 0,
                psn: 0,
                mtu: 0,
                other_lid: 0,
                ..end
            };
        }
        if self.kind == Kind::Rtu {
            self.end = Endpoint::default();
        }
        if !self.kind.has_word() && self.kind != Kind::Rtu {
            self.path = PathId(0);
        }
        if self.kind != Kind::Rej {
            self.errno = 0;
        }
        if self.kind != Kind::Req {
            (self.tries, self.after) = (0, Epoch::NONE);
        }
        self
    }

    /// Whether it comes from a rank of this job (below `ranks`), and is for rank `me`.
    pub fn is_for(&self, me: u32, ranks: u32, secret: u64) -> bool {
        // One comparison of a difference: its time tells nothing of where the first wrong byte
        // lies.
        let differs = self.secret ^ secret;
        differs == 0 && self.to == me && self.from < ranks && self.from != me
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A PROBE of rank 1 to rank 0, from its first adapter.
    pub fn probe() -> Datagram {
        Datagram {
            kind: Kind::Probe,
            cause: Cause::First,
            secret: 0,
            from: 1,
            to: 0,
            epoch: Epoch(1),
            word: Word::default(),
            errno: 0,
            end: Endpoint::default(),
            path: PathId(0),
            origin: Origin::default(),
            since_us: 0,
            tries: 0,
            after: Epoch::NONE,
        }
    }

    fn datagram() -> impl Strategy<Value = Datagram> {
        let head = (1_u8..=7, 0_u8..17, any::<u64>(), any::<[u32; 2]>(), 1_u32..);
        let word = (any::<[u32; 3]>(), any::<u16>(), any::<u32>());
        let end = (
            0_u32..1 << 24,
            0_u32..1 << 24,
            1_u8..=5,
            any::<[u16; 2]>(),
            any::<[u8; 16]>(),
        );
        let origin = (
            0_u8..4,
            0_u8..4,
            0_u32..1 << 24,
            0_u32..1 << 24,
            any::<u32>(),
        );
        let rest = (0_u8..32, any::<u32>(), any::<u16>(), any::<u32>());
        (head, word, end, origin, rest).prop_map(|(head, word, end, origin, rest)| {
            let [expected, sent, landed] = word.0;
            Datagram {
                kind: Kind::from_byte(head.0).expect("a kind"),
                cause: Cause::from_byte(head.1).expect("a cause"),
                secret: head.2,
                from: head.3[0],
                to: head.3[1],
                epoch: Epoch(head.4),
                word: Word {
                    expected: Number(expected),
                    sent: Number(sent),
                    landed,
                    keys: word.1,
                },
                errno: word.2,
                end: Endpoint {
                    qpn: end.0,
                    psn: end.1,
                    mtu: end.2,
                    lid: end.3[0],
                    gid: end.4,
                    other_lid: end.3[1],
                },
                path: PathId(rest.0),
                origin: Origin {
                    adapter: AdapterId(origin.0),
                    flags: origin.1,
                    ud: origin.2,
                    echo: origin.3,
                    serial: origin.4,
                },
                since_us: rest.1,
                tries: rest.2,
                after: Epoch(rest.3),
            }
            .bare()
        })
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(datagram in datagram()) {
            prop_assert_eq!(Datagram::parse(&datagram.emit()), Some(datagram));
        }

        #[test]
        fn hostile_bytes_are_a_datagram_or_none(
            datagram in datagram(),
            hits in prop::collection::vec((0..DATAGRAM, any::<u8>()), 0..12),
            length in 0..=DATAGRAM,
        ) {
            let mut bytes = datagram.emit();
            for (at, byte) in hits {
                bytes[at] = byte;
            }
            prop_assert_eq!(Datagram::parse(&bytes[..length]).is_some() && length != DATAGRAM, false);
            if let Some(again) = Datagram::parse(&bytes) {
                prop_assert_eq!(Datagram::parse(&again.emit()), Some(again));
            }
        }
    }

    #[test]
    fn fields_lie_where_the_design_says() {
        let datagram = Datagram {
            kind: Kind::Req,
            cause: Cause::Launcher,
            secret: 0x0807_0605_0403_0201,
            from: 9,
            to: 10,
            epoch: Epoch(11),
            word: Word {
                expected: Number(12),
                sent: Number(13),
                landed: 14,
                keys: 15,
            },
            errno: 0,
            end: Endpoint {
                qpn: 16,
                psn: 17,
                mtu: 5,
                lid: 18,
                gid: [19; 16],
                other_lid: 27,
            },
            path: PathId(20),
            origin: Origin {
                adapter: AdapterId(3),
                flags: 1,
                ud: 21,
                echo: 22,
                serial: 23,
            },
            since_us: 24,
            tries: 25,
            after: Epoch(26),
        };
        let bytes = datagram.emit();
        #[rustfmt::skip]
        let places = [
            (4, 6), (6, 1), (7, 16), (8, 1), (16, 9), (20, 10), (24, 11), (28, 12), (32, 13),
            (36, 14), (40, 0), (44, 16), (48, 17), (52, 5), (53, 20), (54, 18), (56, 19),
            (72, 15), (74, 3), (75, 1), (76, 21), (80, 22), (84, 23), (88, 24), (92, 25),
            (94, 0), (96, 26), (100, 0), (104, 27), (106, 0),
        ];
        for (at, value) in places {
            assert_eq!(bytes[at], value, "at {at}");
        }
        assert!(datagram.is_for(10, 20, datagram.secret));
        assert!(!datagram.is_for(10, 9, datagram.secret) && !datagram.is_for(10, 20, 1));
        let mut older = bytes;
        older[4] = 5;
        assert_eq!(Datagram::parse(&older), None);
    }
}
