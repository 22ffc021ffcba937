//! What is so when nothing fails any more: all is delivered, and nobody waits for anything.

use super::wire::Outcome;
use super::world::World;
use ferriband_heal::State;

impl World {
    /// H3 and H9: all is delivered, and nobody waits for anything.
    pub fn at_rest(&mut self) -> Outcome {
        let count = self.ranks.len();
        for (me, peer) in (0..count * count).map(|pair| (pair / count, pair % count)) {
            if me == peer || self.ranks[me].is_dead {
                continue;
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
            let other = self.ranks[peer].links[me].delivered;
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
            if !is_dead && other != link.given {
                let given = link.given;
                return Err(format!(
                    "H3: {other} of {given} messages of {me} came to {peer}"
                ));
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
