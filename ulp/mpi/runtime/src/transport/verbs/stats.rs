//! What is counted of messages by verbs: the figures of the Veloblock paper's Table 2, and why a
//! message did not take the fast path.

use super::{Net, STAGE};
use crate::transport::counters::{TOLD_HEALS, Told, ToldHeal};
use ferriband_mpi_proto::fast::Design;
use ferriband_mpi_proto::heals::CAUSES;
use ferriband_notes::Budget;
use ferriband_registration::Counts;
use std::collections::VecDeque;

/// Why a message did not take the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no block for it.
    NoChannel,
    /// The receiver sleeps, or is about to.
    Paused,
    /// The block is full.
    NoCredit,
    /// It is longer than a record.
    TooLong,
    /// There is no room in a queue.
    Busy,
    /// It has gone together with others.
    Bundled,
}

/// What has been counted of channels to peers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Channels {
    /// Those that were opened, in all.
    pub opened: u64,
    /// Of these, those that were closed again.
    pub closed: u64,
    /// Of these, those that were closed for a larger block.
    pub grown: u64,
    /// Blocks that a peer has not given, and that this rank has not.
    pub refused: u64,
    /// PAUSEs that this rank has sent before it slept.
    pub pauses: u64,
}

/// What has been counted of connections that failed.
#[derive(Debug, Default)]
pub struct Heals {
    /// Those that were made anew.
    pub number: u64,
    /// The longest heal, in nanoseconds,
    pub longest_ns: u64,
    /// and all together.
    pub total_ns: u64,
    /// Bytes that were sent again.
    pub bytes: u64,
    /// Times that a connection went on by its second path, without a heal.
    pub migrations: u64,
    /// Heals by the numbers of their causes.
    pub causes: [u32; CAUSES],
    /// The last of them, the newest last.
    pub last: VecDeque<ToldHeal>,
    /// Lines that this process may write down of them: of short heals, and of those that last,
    /// which many short ones do not crowd out.
    pub budgets: [Budget; 2],
}

impl Heals {
    /// A connection has been made anew.
    #[cold]
    pub fn count(&mut self, heal: ToldHeal) {
        let whole_ns = heal.fence_ns + heal.reconnect_ns + heal.replay_ns;
        self.number += 1;
        self.longest_ns = self.longest_ns.max(whole_ns);
        self.total_ns += whole_ns;
        self.bytes += heal.bytes;
        if let Some(of_cause) = self.causes.get_mut(heal.cause as usize) {
            *of_cause += 1;
        }
        if self.last.len() == TOLD_HEALS {
            self.last.pop_front();
        }
        self.last.push_back(heal);
    }
}

/// What has been counted.
#[derive(Debug, Default)]
pub struct Stats {
    /// Messages by SEND: all of them, with those that only carry word between the two runtimes.
    pub sends: u64,
    /// Messages of the program, and of rendezvous, by the fast path.
    pub stored: u64,
    /// Those by SEND, by their [`Why`].
    pub not: [u64; 6],
    /// Channels to peers.
    pub channels: Channels,
    /// Long messages that were read from, or written or sent to, a peer; and those that came by a
    /// lane.
    pub moved: u64,
    /// Of these, those that came by a lane.
    pub landed: u64,
    /// Times that a message waited for room in the log of what is not acknowledged.
    pub log_full: u64,
    /// Connections that failed.
    pub heals: Heals,
    /// The most bytes of blocks and mirrors that there were at one time.
    pub most: u64,
    /// Staging buffers that a record has lain in, a bit for each.
    pub staged: u128,
}

impl Stats {
    /// One message more that did not take the fast path.
    #[inline]
    pub fn count(&mut self, why: Why) {
        self.not[why as usize] += 1;
    }

    /// Messages of the program and of rendezvous, by whatever path.
    pub fn messages(&self) -> u64 {
        self.stored + self.not.iter().sum::<u64>()
    }
}

impl Net {
    /// Bytes of blocks here and of mirrors of blocks elsewhere.
    pub(super) fn fast_memory(&self) -> (u64, u64) {
        let blocks = self
            .blocks
            .inbounds
            .iter()
            .flatten()
            .map(|inbound| inbound.size());
        let mirrors = self
            .links
            .iter()
            .flatten()
            .map(|link| link.fast.out.mirror());
        (blocks.sum(), mirrors.sum())
    }

    /// A block or a mirror has been made.
    pub(super) fn note_memory(&mut self) {
        let (blocks, mirrors) = self.fast_memory();
        self.stats.most = self.stats.most.max(blocks + mirrors);
    }
}

impl Net {
    /// The counters of what has gone by verbs.
    pub fn counters(&self) -> Told {
        let stats = &self.stats;
        let links = || self.links.iter().flatten();
        let (blocks, mirrors) = self.fast_memory();
        let staging = u64::from(stats.staged.count_ones()) * u64::from(STAGE);
        let channels_out = links().filter(|link| link.fast.out.is_open()).count() as u64;
        let returns = channels_out * 8;
        let [no_channel, paused, no_credit, too_long, busy, bundled] = stats.not;
        Told {
            remote_peers: links().count() as u64,
            channels_out,
            channels_in: self.blocks.inbounds.iter().flatten().count() as u64,
            memory: blocks + mirrors + staging + returns,
            blocks,
            mirrors,
            staging,
            returns,
            most: stats.most,
            messages: stats.messages(),
            fast: stats.stored,
            no_channel,
            paused,
            no_credit,
            too_long,
            busy,
            opened: stats.channels.opened,
            closed: stats.channels.closed,
            grown: stats.channels.grown,
            refused: stats.channels.refused,
            pauses: stats.channels.pauses,
            moved: stats.moved,
            log: links().map(|link| link.acks.log.memory()).sum(),
            log_full: stats.log_full,
            bundled,
            landed: stats.landed,
            heals: stats.heals.number,
            heals_longest_ns: stats.heals.longest_ns,
            heals_total_ns: stats.heals.total_ns,
            healed_bytes: stats.heals.bytes,
            healing: links().filter(|link| link.is_healing()).count() as u64,
            migrations: stats.heals.migrations,
            ..Told::default()
        }
    }

    /// Heals by the numbers of their causes.
    pub fn causes(&self) -> [u32; CAUSES] {
        self.stats.heals.causes
    }

    /// The last heals, the oldest of them first.
    pub fn last_heals(&self) -> impl ExactSizeIterator<Item = &ToldHeal> {
        self.stats.heals.last.iter()
    }

    /// How blocks that are asked for are filled.
    pub fn design(&self) -> Design {
        self.limits.fast.plan.design()
    }

    /// How often memory of long messages was registered, if that is counted.
    pub fn registered(&self) -> Option<Counts> {
        self.rail.reach.counts()
    }

    /// Whether messages are kept from here on until they are acknowledged.
    pub fn keep_messages(&mut self, acks: bool) {
        self.limits.acks = acks;
    }
}
