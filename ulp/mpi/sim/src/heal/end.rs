//! What is so when nothing fails any more: all is delivered, and nobody waits for anything.

use super::device::RECEIVES;
use super::wire::Outcome;
use super::world::World;
use ferriband_heal::{Log, State};

impl World {
    /// H3 and H9: all is delivered, and nobody waits for anything.
    pub fn at_rest(&mut self) -> Outcome {
        let count = self.ranks.len();
        for (me, peer) in (0..count * count).map(|pair| (pair / count, pair % count)) {
            if me == peer || self.ranks[me].is_dead || self.ranks[me].is_over {
                continue;
            }
            if self.ranks[me].is_closing {
                let is_quiet = self.ranks[me].is_quiet;
                return Err(format!(
                    "H9: {me} does not leave ({is_quiet}); {}",
                    self.states()
                ));
            }
            let left = self.ranks[me].program.len();
            if left > 0 {
                let next = self.ranks[me].program.front().cloned();
                return Err(format!(
                    "H9: {left} tasks of {me} are left: {next:?}; {}",
                    self.states()
                ));
            }
            let is_dead = self.ranks[peer].is_dead;
            let link = &self.ranks[me].links[peer];
            let state = link.session.state();
            let is_settled = match state {
                State::Up | State::Idle => true,
                State::Lost => is_dead,
                _ => false,
            };
            if !is_settled {
                return Err(format!(
                    "H9: {me} to {peer} is {state:?}; {}",
                    self.states()
                ));
            }
            if !is_dead {
                self.read_returns(me, peer)?;
                self.link_at_rest(me, peer)?;
                self.block_at_rest(me, peer)?;
            }
        }
        self.letters_at_rest()?;
        self.sleeps_at_rest()?;
        self.receives_at_rest()
    }

    fn letters_at_rest(&self) -> Outcome {
        for (id, one) in self.letters.0.iter().enumerate() {
            if !self.ranks[one.from].is_dead && !self.ranks[one.to].is_dead {
                self.letters.at_rest(id)?;
            }
        }
        Ok(())
    }

    /// H3 and H10: all has come, and nothing is left of it.
    pub fn link_at_rest(&self, me: usize, peer: usize) -> Outcome {
        let other = self.ranks[peer].links[me].delivered;
        let link = &self.ranks[me].links[peer];
        if other != link.given {
            let given = link.given;
            return Err(format!(
                "H3: {other} of {given} messages of {me} came to {peer}"
            ));
        }
        let lane = &link.lane;
        let left = [
            ("bytes in the log", link.log.bytes() as usize),
            ("copies", link.copies.len()),
            ("staging buffers", link.staged.len()),
            ("transfers", link.transfers.len()),
            ("messages without receive", link.held.len()),
            ("offers", link.offers.len()),
            ("landings", lane.landing.len()),
            ("words", link.fifo.len()),
        ];
        match left.into_iter().find(|(_, count)| *count > 0) {
            Some((what, count)) => Err(format!("H10: {count} {what} of {me} for {peer} are left")),
            None => Ok(()),
        }
    }

    /// H10: all receives are posted again.
    fn receives_at_rest(&self) -> Outcome {
        for (me, rank) in self.ranks.iter().enumerate() {
            let is_there = !rank.is_dead && !rank.is_over;
            let open = rank.devices.iter().filter(|device| device.is_open);
            let posted = open.map(|device| device.receives);
            if let Some(posted) = posted
                .filter(|_| is_there)
                .find(|posted| *posted != RECEIVES)
            {
                return Err(format!(
                    "H10: {posted} of {RECEIVES} receives of {me} are posted"
                ));
            }
        }
        Ok(())
    }

    /// H9: nobody looks for ever at a block that may be written to.
    fn sleeps_at_rest(&self) -> Outcome {
        for (me, rank) in self
            .ranks
            .iter()
            .enumerate()
            .filter(|(_, one)| !one.is_dead && !one.is_over)
        {
            for (peer, link) in rank.links.iter().enumerate() {
                let sleeps = link.inbound.is_none() || link.lull.is_quiet();
                let is_still = link.moving.is_empty() && link.unanswered == 0;
                if peer != me && !(sleeps && is_still) && !self.ranks[peer].is_dead {
                    let (moving, unanswered) = (link.moving.len(), link.unanswered);
                    return Err(format!(
                        "H9: {me} does not sleep: {peer} writes {}, {moving} move, {unanswered} wait",
                        !sleeps
                    ));
                }
            }
        }
        Ok(())
    }

    fn states(&self) -> String {
        let links = |me: usize| {
            let rank = &self.ranks[me];
            let links = rank
                .links
                .iter()
                .enumerate()
                .filter(|(peer, _)| *peer != me);
            let states = links.map(|(peer, link)| {
                let (session, received) = (&link.session, link.received);
                format!(
                    "{peer} {:?} {:?} {received:?}",
                    session.state(),
                    session.epoch()
                )
            });
            format!("{me}: {:?}", states.collect::<Vec<_>>())
        };
        (0..self.ranks.len())
            .map(links)
            .collect::<Vec<_>>()
            .join("; ")
    }
}
