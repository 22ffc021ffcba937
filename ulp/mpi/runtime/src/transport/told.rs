//! What programs and people are told of this rank's traffic, whatever transport it took.
//!
//! Owns: the words. Must not know: who asks.

use super::Transports;
use super::counters::{Told, ToldHeal};
use super::shm::{Link, Pair};
use ferriband_mpi_proto::heals::{CAUSES, RankReport};

impl Transports {
    /// The counters of this rank.
    pub fn told(&self) -> Told {
        let links = &self.shm.links;
        let placed = |link: &Link| link.places.as_ref().map_or(0, Pair::sent);
        let is_told = |link: &&Link| link.sent > 0 || placed(link) > 0;
        Told {
            placed: links.iter().map(placed).sum(),
            host_peers: links.iter().filter(is_told).count() as u64,
            host_records: links.iter().map(|link| u64::from(link.sent)).sum(),
            ..self
                .net
                .as_ref()
                .map_or_else(Told::default, |net| net.counters())
        }
    }

    /// The last heals, the oldest of them first; none where nothing can heal.
    pub fn last_heals(&self) -> Option<impl ExactSizeIterator<Item = &ToldHeal>> {
        self.net.as_ref().map(|net| net.last_heals())
    }

    /// Leaves what this rank has moved, and its heals, for the launcher.
    pub fn leave_report(&self) {
        let Some(host) = &self.host else {
            return;
        };
        let told = self.told();
        host.leave_report(&RankReport {
            host_records: told.host_records + told.placed,
            messages: told.messages,
            fast: told.fast,
            long: told.moved,
            heals: told.heals,
            longest_ns: told.heals_longest_ns,
            total_ns: told.heals_total_ns,
            bytes: told.healed_bytes,
            causes: self.net.as_ref().map_or([0; CAUSES], |net| net.causes()),
        });
    }

    /// The counters of rank `rank` on stderr.
    pub fn tell(&self, rank: u32) {
        let told = self.told();
        if told.host_peers > 0 || self.net.is_none() {
            complain!(
                "ferriband MPI: rank {}: {} peers on this host: {} records in shared memory, {} messages left where they had been read",
                rank,
                told.host_peers,
                told.host_records,
                told.placed
            );
        }
        let Some(net) = &self.net else {
            return;
        };
        let share = told.fast as f64 * 100.0 / told.messages.max(1) as f64;
        complain!(
            "ferriband MPI: rank {}: {} remote peers; fast path: {}, {} channels out, {} in, {} bytes ({} of blocks, {} of mirrors, {} of staging, {} of return words), \
             {} of {} messages ({share:.2} %); not by it: {} without a channel, {} paused, {} without credit, {} too long, {} without room, {} in bundles; channels opened {}, closed {} \
             (for a larger block {}), refused {}; {} pauses; {} long messages moved, {} came by SEND; {} bytes of logs, full {} times; \
             {} heals, {:.3} ms in all, {:.3} ms the longest, {} bytes sent again; \
             {} went on by a second path",
            rank,
            told.remote_peers,
            net.design().name(),
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
            told.heals,
            told.heals_total_ns as f64 / 1e6,
            told.heals_longest_ns as f64 / 1e6,
            told.healed_bytes,
            told.migrations,
        );
        if let Some(counts) = net.registered() {
            complain!(
                "ferriband MPI: rank {}: memory of long messages: registered {} times, found registered {} times, {} registrations dropped because the \
                 memory was another",
                rank,
                counts.misses,
                counts.hits,
                counts.stale
            );
        }
    }
}
