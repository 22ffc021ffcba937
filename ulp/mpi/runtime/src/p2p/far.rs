//! Ranks that are reached by verbs: a round's look at the device, and what becomes of those whom it
//! has lost.
//!
//! Owns: in which order the device is looked at, what it tells is done, and what waits is sent.
//! Must not know: how the device moves a message.

use crate::constants::{
    MPI_ERR_OTHER, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_SUCCESS, MPI_THREAD_MULTIPLE,
};
use crate::errors::{MpiError, Outcome};
use crate::host::{Link, Pair};
use crate::objects::comms::WORLD;
use crate::runtime::Runtime;
use crate::transport::counters::Told;
use ferriband_mpi_proto::fast::Design;
use ferriband_mpi_proto::heals::{CAUSES, RankReport};
use std::os::fd::RawFd;

impl Runtime {
    /// Looks at the device. True if something happened.
    pub fn poll_net(&mut self) -> Outcome<bool> {
        let Some(net) = self.net.as_mut().filter(|net| !net.is_dead()) else {
            return Ok(false);
        };
        net.look_anew();
        if net.has_parked() {
            self.take_parked()?;
        }
        let Some(net) = &mut self.net else {
            return Ok(false);
        };
        let round = net.look()?;
        if round.count != 0 {
            self.take_completions()?;
        }
        if self.net.as_ref().is_some_and(|net| net.movers() != 0) {
            self.carry_all()?;
        }
        let (Some(net), Some(host)) = (&mut self.net, &self.host) else {
            return Ok(false);
        };
        let mut did = net.look_after(round, host)?;
        if net.has_blocks() {
            did |= self.poll_blocks()?;
        }
        self.hear_of_losses()?;
        Ok(round.count != 0 || did)
    }

    /// Takes all completions that there are, and does what they ask for. One that fails does not
    /// lose the others.
    fn take_completions(&mut self) -> Outcome {
        let mut outcome = Ok(());
        loop {
            self.point.requests.waits.satisfied = false;
            let (Some(net), Some(host)) = (&mut self.net, &self.host) else {
                return outcome;
            };
            let taken = net.take(host, &mut self.point);
            let has_more = net.has_more();
            outcome = outcome.and(taken).and(self.settle_told());
            if !has_more {
                break;
            }
        }
        if self.net.as_mut().is_some_and(|net| net.has_taken()) {
            outcome = outcome.and(self.unstall().map(drop));
        }
        if let Some(net) = &mut self.net {
            outcome = outcome.and(net.give_back());
        }
        outcome
    }

    /// Takes messages for which there was no memory.
    #[cold]
    fn take_parked(&mut self) -> Outcome {
        loop {
            let (Some(net), Some(host)) = (&mut self.net, &self.host) else {
                return Ok(());
            };
            let stopped = net.take_parked(host, &mut self.point);
            let settled = self.settle_told();
            if !stopped? {
                return settled;
            }
            settled?;
        }
    }

    /// Takes records from the blocks that peers write to. True if something came.
    fn poll_blocks(&mut self) -> Outcome<bool> {
        let mut did = false;
        loop {
            self.point.requests.waits.satisfied = false;
            let (Some(net), Some(host)) = (&mut self.net, &self.host) else {
                return Ok(did);
            };
            let polled = net.poll_blocks(host, &mut self.point);
            let settled = self.settle_told();
            let polled = polled?;
            did |= polled.did;
            settled?;
            if !polled.stopped {
                return Ok(did);
            }
        }
    }

    /// Does what the device's messages ask for, once those are buried whom it has lost.
    #[inline]
    fn settle_told(&mut self) -> Outcome {
        let heard = self.hear_of_losses();
        heard.and(self.settle_due())
    }

    /// Posts more of all long messages.
    #[cold]
    fn carry_all(&mut self) -> Outcome {
        for at in (0..self.net.as_ref().map_or(0, |net| net.movers())).rev() {
            if let Some(peer) = self.net.as_ref().and_then(|net| net.mover(at)) {
                self.carry(peer)?;
            }
        }
        Ok(())
    }

    /// Posts more of the long messages to and from `peer`, and tells it of those that are written.
    pub(super) fn carry(&mut self, peer: u32) -> Outcome {
        loop {
            let (Some(net), Some(host)) = (&mut self.net, &self.host) else {
                return Ok(());
            };
            let Some(written) = net.move_on(host, peer)? else {
                return Ok(());
            };
            self.fin(peer, written.receive, written.length, MPI_SUCCESS)?;
            let presses = self
                .net
                .as_mut()
                .is_some_and(|net| net.presses(peer, written.length));
            if presses {
                let pumped = self.press(peer);
                if let Some(net) = &mut self.net {
                    net.has_pressed();
                }
                pumped?;
            }
        }
    }

    /// What waits for `peer` does not wait behind the next long message.
    fn press(&mut self, peer: u32) -> Outcome {
        if self.point.peers[peer as usize].fifo.is_empty() {
            return Ok(());
        }
        self.pump(peer).map(drop)
    }

    /// Breaks the connection to `peer`: nothing that it sends reaches memory of this rank any more.
    #[cold]
    pub fn cut_off(&mut self, peer: u32, why: &str) {
        if let Some(net) = &mut self.net {
            net.cut_off(peer, why);
        }
        if !self.point.peers[peer as usize].lost {
            self.lose(peer);
        }
    }

    /// Ends what concerns ranks whose connections were lost, and the call if the program wants
    /// that.
    #[inline]
    fn hear_of_losses(&mut self) -> Outcome {
        match &self.net {
            Some(net) if net.has_lost() => self.bury_lost(),
            _ => Ok(()),
        }
    }

    #[cold]
    fn bury_lost(&mut self) -> Outcome {
        let mut outcome = Ok(());
        while let Some(lost) = self.net.as_mut().and_then(|net| net.take_lost()) {
            if !self.point.peers[lost.peer as usize].lost {
                self.lose(lost.peer);
            }
            let Some(error) = lost.error else {
                continue;
            };
            if self.is_loss_fatal() {
                outcome = outcome.and(Err(error));
            } else {
                // Those who have to do with that rank learn of it by their requests; the others go
                // on.
                complain!("ferriband MPI: rank {}: {}", self.point.rank, error.text);
            }
        }
        outcome
    }

    /// Whether the program wants to end when another rank cannot be reached: it has not asked for
    /// errors to be returned.
    fn is_loss_fatal(&self) -> bool {
        matches!(
            self.point.objects.comms[WORLD].errhandler,
            MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT
        )
    }

    /// The device has failed, and with it all connections.
    #[cold]
    fn device_failed(&mut self, why: &str) -> Outcome {
        let fatal = self.is_loss_fatal();
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        let text = net.fail(why);
        self.bury_lost()?;
        if fatal {
            return Err(MpiError::with(MPI_ERR_OTHER, text));
        }
        complain!("ferriband MPI: rank {}: {text}", self.point.rank);
        Ok(())
    }

    /// Before this process sleeps: the device shall say when something comes. The descriptors to
    /// wait on, and for how long at most, in milliseconds.
    /// A round must follow before the sleep.
    pub fn arm_net(&mut self) -> Outcome<(Vec<RawFd>, i32)> {
        // Among threads nobody sleeps for long.
        let is_shared = self.settings.job.threads == MPI_THREAD_MULTIPLE;
        let (Some(net), Some(host)) = (&mut self.net, &self.host) else {
            return Ok((Vec::new(), -1));
        };
        let are_quiet = !is_shared && net.quieten(host)?;
        let failure = if net.is_dead() { None } else { net.hear()? };
        if let Some(why) = failure {
            self.device_failed(&why)?;
        }
        match self.net.as_mut().filter(|net| !net.is_dead()) {
            Some(net) => {
                net.keep_alive()?;
                net.arm(are_quiet, &self.point.stalled)
            }
            None => Ok((Vec::new(), -1)),
        }
    }

    /// The end begins: from here on each request has a completion, so that it can be waited for.
    pub fn close_net(&mut self) -> Outcome {
        self.net.as_mut().map_or(Ok(()), |net| net.close())
    }

    /// It was not the end: messages go as they did before.
    pub fn reopen_net(&mut self) {
        if let Some(net) = &mut self.net {
            net.go_on();
        }
    }

    /// Whether all that was sent by verbs has come.
    pub fn is_drained(&self) -> bool {
        match (&self.net, &self.host) {
            (Some(net), Some(host)) => net.is_drained(host),
            _ => true,
        }
    }

    /// From here on blocks are filled by `design`: those that there are are given up for such ones.
    pub fn change_design(&mut self, design: Design) -> Outcome {
        match &mut self.net {
            Some(net) => net.change_design(design),
            None => Ok(()),
        }
    }

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
        let Some(net) = &self.net else {
            return;
        };
        let share = told.fast as f64 * 100.0 / told.messages.max(1) as f64;
        complain!(
            "ferriband MPI: rank {}: {} remote peers; fast path: {}, {} channels out, {} in, {} bytes ({} of blocks, {} of mirrors, {} of staging, {} of return words), \
             {} of {} messages ({share:.2} %); not by it: {} without a channel, {} paused, {} without credit, {} too long, {} without room, {} in bundles; channels opened {}, closed {} \
             (for a larger block {}), refused {}; {} pauses; {} long messages moved, {} came by SEND; {} bytes of logs, full {} times; \
             {} heals, {:.3} ms in all, {:.3} ms the longest, {} bytes sent again",
            self.point.rank,
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
        );
        if let Some(counts) = net.registered() {
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
