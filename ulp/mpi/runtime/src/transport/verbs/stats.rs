//! What is counted of messages by verbs: the figures of the Veloblock paper's Table 2, and why a message did not take the fast path.

use super::{Net, STAGE};
use crate::host::{Link, Pair};
use crate::runtime::Runtime;

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

/// What has been counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Messages by SEND: all of them, with those that only carry word between the two runtimes.
    pub sends: u64,
    /// Messages of the program, and of rendezvous, by the fast path.
    pub stored: u64,
    /// Those by SEND, by their [`Why`].
    pub not: [u64; 6],
    /// Channels to peers that were opened, in all.
    pub opened: u64,
    /// Of these, those that were closed again.
    pub closed: u64,
    /// Of these, those that were closed for a larger block.
    pub grown: u64,
    /// Blocks that a peer has not given, and that this rank has not.
    pub refused: u64,
    /// PAUSEs that this rank has sent before it slept.
    pub pauses: u64,
    /// Long messages that were read from, or written or sent to, a peer; and those that came by a lane.
    pub moved: u64,
    /// Of these, those that came by a lane.
    pub landed: u64,
    /// Times that a message waited for room in the log of what is not acknowledged.
    pub log_full: u64,
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

/// What `ferriband_mpi_stats` tells: 64-bit numbers, in this order. New ones come at the end.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Told {
    /// Ranks that this one has a connection to.
    pub remote_peers: u64,
    /// Blocks of peers that this rank writes to now.
    pub channels_out: u64,
    /// Blocks of this rank that peers write to now.
    pub channels_in: u64,
    /// Bytes of fast-path memory in this process now: the four below.
    pub memory: u64,
    /// Bytes of blocks.
    pub blocks: u64,
    /// Bytes of mirrors of peers' blocks.
    pub mirrors: u64,
    /// Bytes of staging buffers that records have lain in.
    pub staging: u64,
    /// Bytes of return words.
    pub returns: u64,
    /// The most bytes of blocks and mirrors that there were.
    pub most: u64,
    /// Messages to other ranks by verbs.
    pub messages: u64,
    /// Those by the fast path.
    pub fast: u64,
    /// Not by it: there is no channel,
    pub no_channel: u64,
    /// the receiver sleeps,
    pub paused: u64,
    /// the block is full,
    pub no_credit: u64,
    /// it is longer than a record,
    pub too_long: u64,
    /// there is no room in a queue.
    pub busy: u64,
    /// Channels that were opened in all,
    pub opened: u64,
    /// and closed again,
    pub closed: u64,
    /// for a larger block.
    pub grown: u64,
    /// Blocks that were asked for and not given, by peers and by this rank.
    pub refused: u64,
    /// PAUSEs sent.
    pub pauses: u64,
    /// Long messages read or written.
    pub moved: u64,
    /// Bytes of the logs of what is not acknowledged, beside the memory above.
    pub log: u64,
    /// Times that a message waited for room in a log.
    pub log_full: u64,
    /// Messages not by the fast path: they have gone together with others.
    pub bundled: u64,
    /// Messages to ranks of this host that lay in memory which this rank had just read; they are not among those above.
    pub placed: u64,
    /// Ranks of this host that this one has sent something to, by memory that both share.
    pub host_peers: u64,
    /// Records to them, those of the two runtimes among them; to each modulo 2^32, as they are numbered.
    pub host_records: u64,
    /// Of the long messages, those that were sent by another host's rank into the program's buffer.
    pub landed: u64,
}

impl Net {
    /// Bytes of blocks here and of mirrors of blocks elsewhere.
    pub(super) fn fast_memory(&self) -> (u64, u64) {
        let blocks = self
            .blocks
            .inlets
            .iter()
            .flatten()
            .map(|inlet| inlet.size());
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

impl Runtime {
    /// The counters of this rank.
    pub fn told(&self) -> Told {
        let links = &self.shm.links;
        let placed = |link: &Link| link.places.as_ref().map_or(0, Pair::sent);
        let is_told = |link: &&Link| link.sent > 0 || placed(link) > 0;
        let host_peers = links.iter().filter(is_told).count() as u64;
        let host_records = links.iter().map(|link| u64::from(link.sent)).sum();
        let placed = links.iter().map(placed).sum();
        let Some(net) = &self.net else {
            return Told {
                placed,
                host_peers,
                host_records,
                ..Told::default()
            };
        };
        let stats = &net.stats;
        let links = || net.links.iter().flatten();
        let (blocks, mirrors) = net.fast_memory();
        let staging = u64::from(stats.staged.count_ones()) * u64::from(STAGE);
        let channels_out = links().filter(|link| link.fast.out.is_open()).count() as u64;
        let returns = channels_out * 8;
        let [no_channel, paused, no_credit, too_long, busy, bundled] = stats.not;
        Told {
            remote_peers: links().count() as u64,
            channels_out,
            channels_in: net.blocks.inlets.iter().flatten().count() as u64,
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
            opened: stats.opened,
            closed: stats.closed,
            grown: stats.grown,
            refused: stats.refused,
            pauses: stats.pauses,
            moved: stats.moved,
            log: links().map(|link| link.acks.log.memory()).sum(),
            log_full: stats.log_full,
            bundled,
            placed,
            host_peers,
            host_records,
            landed: stats.landed,
        }
    }

    /// The counters on stderr, if they were asked for.
    pub fn tell_stats(&self) {
        if !self.settings.job.stats {
            return;
        }
        let told = self.told();
        if told.host_peers > 0 || self.net.is_none() {
            complain!(
                "ferriband MPI: rank {}: {} peers on this host: {} records in shared memory, {} messages left where they had been read",
                self.point.rank,
                told.host_peers,
                told.host_records,
                told.placed
            );
        }
        if self.net.is_none() {
            return;
        }
        let share = told.fast as f64 * 100.0 / told.messages.max(1) as f64;
        complain!(
            "ferriband MPI: rank {}: {} remote peers; fast path: {}, {} channels out, {} in, {} bytes ({} of blocks, {} of mirrors, {} of staging, {} of return words), \
             {} of {} messages ({share:.2} %); not by it: {} without a channel, {} paused, {} without credit, {} too long, {} without room, {} in bundles; channels opened {}, closed {} \
             (for a larger block {}), refused {}; {} pauses; {} long messages moved, {} came by SEND; {} bytes of logs, full {} times",
            self.point.rank,
            told.remote_peers,
            self.settings.verbs.fast.plan.design().name(),
            told.channels_out,
            told.channels_in,
            told.memory,
            told.blocks,
            told.mirrors,
            told.staging,
            told.returns,
            told.fast,
            told.messages,
            told.no_channel,
            told.paused,
            told.no_credit,
            told.too_long,
            told.busy,
            told.bundled,
            told.opened,
            told.closed,
            told.grown,
            told.refused,
            told.pauses,
            told.moved,
            told.landed,
            told.log,
            told.log_full,
        );
        if let Some(counts) = self.net.as_ref().and_then(|net| net.moves.reach.counts()) {
            complain!(
                "ferriband MPI: rank {}: memory of long messages: registered {} times, found registered {} times, {} registrations dropped because the \
                 memory was another",
                self.point.rank,
                counts.misses,
                counts.hits,
                counts.stale
            );
        }
    }
}
