//! The registry segment's layout: header words, tables, and the claim word that each entry starts with.
//!
//! Owns: offsets and bit fields. Must not know: who stores there.

/// "ferrihst" as a little-endian word.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"ferrihst");
/// Changes with every change of this file's meaning. Sockets of other versions have other names, so a mismatch means
/// that somebody edited this file without raising the number in [`super::HostKey::name_prefix`].
pub(super) const VERSION: u64 = 5;

/// Header words, by byte offset.
pub(super) mod header {
    pub(in super::super) const MAGIC: usize = 0;
    pub(in super::super) const VERSION: usize = 8;
    pub(in super::super) const BYTES: usize = 16;
    pub(in super::super) const UID: usize = 24;
    pub(in super::super) const BOOT_HIGH: usize = 32;
    pub(in super::super) const BOOT_LOW: usize = 40;
    pub(in super::super) const NET_NAMESPACE: usize = 48;
    pub(in super::super) const LABEL: usize = 56;
    pub(in super::super) const GUID: usize = 64;
    pub(in super::super) const LID: usize = 72;
    /// Where the next joiner looks for dead members.
    pub(in super::super) const REAP_CURSOR: usize = 80;
    /// Where the next search for a free block of queue pair numbers starts.
    pub(in super::super) const QPN_CURSOR: usize = 88;
    /// Counts changes of the multicast table.
    pub(in super::super) const MULTICAST_EPOCH: usize = 96;
    /// Numbers handed out to private XRC domains.
    pub(in super::super) const PRIVATE_DOMAINS: usize = 104;
    /// One word per table: one past the highest entry ever claimed.
    pub(in super::super) const USED: usize = 128;
    /// Read for each packet, changed hardly ever: in a cache line of its own.
    pub(in super::super) const HOOKS: usize = 512;
    /// Counts changes of who steers where.
    pub(in super::super) const STEERING_EPOCH: usize = 576;
    /// Number of the last probe of the steered port.
    pub(in super::super) const STEERING_PROBE: usize = 584;
    /// Counts changes of the table of services.
    pub(in super::super) const SERVICE_EPOCH: usize = 592;
    /// Bytes of the header.
    pub(in super::super) const SIZE: usize = 4096;
}

/// A table of entries with a fixed bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// What an error calls it.
    pub(super) name: &'static str,
    /// Byte offset of entry 0.
    pub(super) offset: usize,
    /// Bytes from one entry to the next.
    pub(super) stride: usize,
    /// Entries.
    pub(super) count: usize,
    /// Offset of its high-water mark in the header.
    pub(super) used: usize,
}

impl Table {
    const fn after(previous: Table, name: &'static str, stride: usize, count: usize) -> Table {
        Table {
            name,
            offset: previous.end(),
            stride,
            count,
            used: previous.used + 8,
        }
    }

    const fn end(&self) -> usize {
        self.offset + self.stride * self.count
    }

    /// Byte offset of word `word` of entry `index`.
    #[inline]
    pub(super) const fn at(&self, index: usize, word: usize) -> usize {
        assert!(index < self.count && word * 8 < self.stride);
        self.offset + index * self.stride + word * 8
    }
}

/// Members: claim, pid | flags << 32, pid namespace, start time, nonce.
pub(super) const PROCESSES: Table = Table {
    name: "processes",
    offset: header::SIZE,
    stride: 64,
    count: super::PROCESS_LIMIT,
    used: header::USED,
};
/// Blocks of 256 queue pair numbers: claim, whose state says of which kind it is.
pub(super) const QPN_BLOCKS: Table =
    Table::after(PROCESSES, "blocks of queue pair numbers", 8, 1 << 16);
/// Multicast attachments: claim, MGID high, MGID low, QPN | MLID << 32.
pub(super) const MULTICAST: Table = Table::after(QPN_BLOCKS, "multicast attachments", 32, 8192);
/// Openings of XRC domains: claim, domain.
pub(super) const XRC_OPENINGS: Table = Table::after(MULTICAST, "openings of XRC domains", 16, 8192);
/// XRC target queue pairs: claim, QPN, domain, [`super::XRC_TARGET_WORDS`] words of the adapter.
pub(super) const XRC_TARGETS: Table =
    Table::after(XRC_OPENINGS, "XRC target queue pairs", 128, 8192);
/// XRC shared receive queues: claim, domain, two words of the adapter.
pub(super) const XRC_SRQS: Table =
    Table::after(XRC_TARGETS, "XRC shared receive queues", 32, 1 << 14);

/// Processes with sockets on the steered port, by slot: claim, indices, answers to the last probe for IPv4 and IPv6.
pub(super) const STEERING: Table = Table::after(
    XRC_SRQS,
    "processes on the steered port",
    32,
    super::PROCESS_LIMIT,
);
/// Services and bound ports: claim, ID, GID high, GID low, flags, the owner's word.
pub(super) const SERVICES: Table = Table::after(STEERING, "services", 64, 4096);
/// Connections: claim, [`super::CONNECTION_WORDS`] words of the adapter.
pub(super) const CONNECTIONS: Table = Table::after(SERVICES, "connections", 64, 8192);
/// Rules of fault injection: claim, [`super::FAULT_WORDS`] words of the adapter, hits.
pub(super) const FAULTS: Table = Table::after(CONNECTIONS, "fault rules", 128, 64);
/// What administrators have said of interfaces: claim, number of the interface, word, until when
/// its device cannot be opened.
pub(super) const PORTS: Table = Table::after(FAULTS, "administered ports", 32, 64);

/// Counters of ports: claim, number of the interface, [`super::PORT_COUNTERS`] words of the adapter.
pub(super) const COUNTERS: Table = Table::after(PORTS, "counters of ports", 384, 1024);

/// Tables whose entries belong to a process and go with it, unless they are shared.
pub(super) const OWNED: [Table; 10] = [
    QPN_BLOCKS,
    MULTICAST,
    XRC_OPENINGS,
    XRC_TARGETS,
    XRC_SRQS,
    STEERING,
    SERVICES,
    CONNECTIONS,
    COUNTERS,
    FAULTS,
];

/// Bytes of the segment.
pub(super) const BYTES: usize = COUNTERS.end();

/// What an entry is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum State {
    /// Nobody's.
    Free = 0,
    /// Its owner is filling it in.
    Claimed = 1,
    /// In use by its owner.
    Live = 2,
    /// In use, and no longer its creator's: it lasts as long as its XRC domain; or it is what a dead process's connection left;
    /// or it was never anybody's.
    Shared = 3,
    /// Never to be handed out.
    Reserved = 4,
    /// In use by its owner: a block of queue pair numbers that choose their wire.
    LiveAuto = 5,
    /// In use by its owner: a block of queue pair numbers that are on packets.
    LivePackets = 6,
}

/// First word of an entry: state (4 bits), owner's slot (12), owner's generation (32), tag (16). The tag counts the claims
/// of the entry and survives in the free word, so that a compare-and-swap by somebody who was stopped for long does not
/// take a later claim for the one that it saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claim(pub(super) u64);

impl Claim {
    pub(super) const fn new(state: State, owner: super::ProcessRef, tag: u16) -> Claim {
        let owner = (owner.slot as u64 & 0xfff) << 4 | (owner.generation as u64) << 16;
        Claim(state as u64 | owner | (tag as u64) << 48)
    }

    /// None for a number that no state has: somebody scribbled there.
    pub(super) const fn state(self) -> Option<State> {
        Some(match self.0 & 15 {
            0 => State::Free,
            1 => State::Claimed,
            2 => State::Live,
            3 => State::Shared,
            4 => State::Reserved,
            5 => State::LiveAuto,
            6 => State::LivePackets,
            _ => return None,
        })
    }

    pub(super) const fn owner(self) -> super::ProcessRef {
        super::ProcessRef {
            slot: (self.0 >> 4 & 0xfff) as u32,
            generation: (self.0 >> 16) as u32,
        }
    }

    pub(super) const fn tag(self) -> u16 {
        (self.0 >> 48) as u16
    }

    pub(super) fn is(self, state: State) -> bool {
        self.state() == Some(state)
    }

    /// Neither free nor shared nor reserved: goes when its owner goes. Scribbled states count as owned, so that
    /// they are swept some day.
    pub(super) fn is_owned(self) -> bool {
        !matches!(
            self.state(),
            Some(State::Free | State::Shared | State::Reserved)
        )
    }

    /// The same claim in another state.
    pub(super) const fn with(self, state: State) -> Claim {
        Claim(self.0 & !15 | state as u64)
    }

    /// The free word that follows this claim.
    pub(super) const fn freed(self) -> Claim {
        Claim(self.0 & 0xffff << 48)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ProcessRef;
    use proptest::prelude::*;

    #[test]
    fn tables_do_not_overlap_and_are_aligned() {
        let all = [
            PROCESSES,
            QPN_BLOCKS,
            MULTICAST,
            XRC_OPENINGS,
            XRC_TARGETS,
            XRC_SRQS,
            STEERING,
            SERVICES,
            CONNECTIONS,
            FAULTS,
            PORTS,
            COUNTERS,
        ];
        for pair in all.windows(2) {
            assert!(pair[0].end() <= pair[1].offset);
            assert!(pair[0].used < pair[1].used);
        }
        for table in all {
            assert_eq!(table.offset % 64, 0, "{}", table.name);
            assert_eq!(table.stride % 8, 0);
            assert!(table.used < header::HOOKS);
        }
        const { assert!(header::SERVICE_EPOCH < header::SIZE) };
        const { assert!(XRC_TARGETS.stride >= 8 * (3 + crate::host::XRC_TARGET_WORDS)) };
        const { assert!(CONNECTIONS.stride >= 8 * (1 + crate::host::CONNECTION_WORDS)) };
        const { assert!(COUNTERS.stride >= 8 * (2 + crate::host::PORT_COUNTERS)) };
        const { assert!(FAULTS.stride >= 8 * (2 + crate::host::FAULT_WORDS)) };
    }

    proptest! {
        #[test]
        fn claims_keep_their_parts(slot in 0u32..4096, generation: u32, tag: u16) {
            let owner = ProcessRef { slot, generation };
            for state in [
                State::Free, State::Claimed, State::Live, State::Shared, State::Reserved, State::LiveAuto,
                State::LivePackets,
            ] {
                let claim = Claim::new(state, owner, tag);
                prop_assert_eq!(claim.state(), Some(state));
                prop_assert_eq!(claim.owner(), owner);
                prop_assert_eq!(claim.tag(), tag);
                prop_assert_eq!(claim.freed().tag(), tag);
                prop_assert!(claim.freed().is(State::Free));
                prop_assert_eq!(claim.with(State::Live).owner(), owner);
            }
        }
    }
}
