//! MPI_Finalize, and what a rank knows of time: when a session changes, and what its reports say.

use super::Fault;
use super::wire::Outcome;
use super::world::World;
use ferriband_heal::{Log, PeerNews, State};

impl World {
    /// A rank that has finalised says so when the log and the landings are empty, and leaves when
    /// all others have said so. True if something was done.
    pub fn leave(&mut self, me: usize) -> Outcome<bool> {
        let now = self.now;
        let mut did = false;
        for peer in (0..self.ranks.len()).filter(|peer| *peer != me) {
            if self.ranks[peer].is_over && !self.ranks[me].links[peer].is_lost {
                let session = &mut self.link(me, peer).session;
                session.handle_peer(PeerNews::Over, now);
            }
        }
        if !self.ranks[me].is_closing {
            return Ok(false);
        }
        let mut peers = (0..self.ranks.len()).filter(|peer| *peer != me);
        let is_early = self.is(Fault::LeavesEarly);
        let is_done = |peer: usize| {
            let link = &self.ranks[me].links[peer];
            let is_gone = link.is_lost || self.ranks[peer].is_over;
            let is_acknowledged = link.is_idle() && link.lane.landing.is_empty();
            let is_still = link.held.is_empty() && link.offers.is_empty() && link.in_hand.is_none();
            let is_healing = !matches!(link.session.state(), State::Up | State::Idle);
            let is_said = is_early && link.fifo.is_empty() && link.transfers.is_empty();
            is_gone || is_still && (is_said || is_acknowledged && !is_healing)
        };
        let is_quiet = peers.all(is_done);
        // What comes meanwhile may want an answer: then it is not quiet any more.
        did |= is_quiet && !self.ranks[me].is_quiet;
        self.ranks[me].is_quiet = is_quiet;
        let has_left = |one: &super::rank::Rank| one.is_dead || one.is_over || one.is_quiet;
        let is_last = self.ranks.iter().all(has_left);
        if self.ranks[me].is_quiet && (is_last || self.is(Fault::LeavesEarly)) {
            self.exit(me)?;
            return Ok(true);
        }
        Ok(did)
    }

    /// The process ends.
    fn exit(&mut self, me: usize) -> Outcome {
        for peer in (0..self.ranks.len()).filter(|peer| *peer != me) {
            let one = &self.ranks[peer];
            let is_there = !one.is_dead && !one.is_over && !self.ranks[me].links[peer].is_lost;
            if is_there && !self.is(Fault::LeavesEarly) {
                self.link_at_rest(me, peer)?;
            }
        }
        self.report.left += 1;
        self.ranks[me].is_over = true;
        self.end_process(me);
        for other in 0..self.ranks.len() {
            self.wake_soon(other);
        }
        Ok(())
    }

    /// Whether a message of `peer` is acknowledged at the end of its round.
    pub fn is_closing(&self, me: usize, peer: usize) -> bool {
        self.ranks[me].is_closing || self.ranks[peer].is_closing
    }

    /// Notes when a session changes.
    pub fn watch(&mut self, me: usize, peer: usize) {
        let now = self.now;
        let link = self.link(me, peer);
        let state = link.session.state();
        if link.seen != state {
            (link.seen, link.since) = (state, now);
        }
        if matches!(state, State::Up | State::Idle | State::Lost) {
            link.began = None;
        } else {
            link.began.get_or_insert(now);
        }
    }

    /// H11: the parts of a heal's report are the whole, and what was sent again is told.
    pub fn judge_reports(&mut self, me: usize, peer: usize, bytes: u64) -> Outcome {
        let now = self.now;
        let link = self.link(me, peer);
        while let Some(report) = link.session.poll_report() {
            let began = link.began.unwrap_or(now);
            let whole = report.fence_ns + report.reconnect_ns + report.replay_ns;
            if report.is_lost {
                // The peer was lost at the end of it, which may have been before this look.
                let told = link.began.map_or(whole, |began| now.since(began));
                if whole > told {
                    return Err(format!(
                        "H11: {report:?} of a loss, {told} ns after its heal began"
                    ));
                }
                link.began = None;
                continue;
            }
            if whole != now.since(began) {
                return Err(format!("H11: {report:?} of a heal that began at {began:?}"));
            }
            if !report.lasts {
                link.began = None;
                if report.bytes != bytes {
                    return Err(format!("H11: {report:?}, and {bytes} went again"));
                }
                if link.paths.known(report.to).is_none() {
                    return Err(format!("H11: {report:?} names no path"));
                }
            }
        }
        Ok(())
    }

    /// Whether the end of a program waits for this peer: for acknowledgements, or for what is to
    /// land here.
    pub fn waits_to_leave(&self, me: usize, peer: usize) -> bool {
        let link = &self.ranks[me].links[peer];
        self.ranks[me].is_closing && (link.log.bytes() > 0 || !link.lane.landing.is_empty())
    }
}
