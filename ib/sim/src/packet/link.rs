//! The impaired wire: what happens to a frame between two adapters.

use crate::rng::Rng;

/// Faults of a wire, in thousandths of the frames, and its delays.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub loss: u64,
    pub duplication: u64,
    pub reordering: u64,
    /// Flipped bits under an unchanged ICRC.
    pub corruption: u64,
    /// Changed bytes under a recomputed ICRC: a hostile sender.
    pub hostility: u64,
    pub latency_ns: u64,
    pub jitter_ns: u64,
    /// Nothing passes from the first instant to the second.
    pub partitions: Vec<(u64, u64)>,
}

/// One arrival of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arrival {
    pub at: u64,
    pub damage: Damage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Damage {
    None,
    /// The ICRC will tell.
    Corrupt,
    /// The ICRC will not.
    Hostile,
}

/// One direction between two adapters: in order unless the faults say otherwise.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    last: u64,
}

impl Link {
    /// The arrivals of a frame sent now: none, one or two.
    pub fn send(&mut self, now: u64, faults: &Faults, rng: &mut Rng) -> [Option<Arrival>; 2] {
        let mut arrivals = [None, None];
        if faults
            .partitions
            .iter()
            .any(|&(from, to)| (from..to).contains(&now))
        {
            return arrivals;
        }
        let copies = if rng.chance(faults.duplication) { 2 } else { 1 };
        for arrival in arrivals.iter_mut().take(copies) {
            if rng.chance(faults.loss) {
                continue;
            }
            let mut at = now + faults.latency_ns + rng.below(faults.jitter_ns + 1);
            if rng.chance(faults.reordering) {
                at += rng.below(20 * (faults.latency_ns + 1));
            } else {
                at = at.max(self.last + 1);
                self.last = at;
            }
            let damage = if rng.chance(faults.corruption) {
                Damage::Corrupt
            } else if rng.chance(faults.hostility) {
                Damage::Hostile
            } else {
                Damage::None
            };
            *arrival = Some(Arrival { at, damage });
        }
        arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_healthy_wire_keeps_order_and_loses_nothing() {
        let (mut link, mut rng) = (Link::default(), Rng::new(1));
        let faults = Faults {
            latency_ns: 1000,
            jitter_ns: 500,
            ..Faults::default()
        };
        let mut last = 0;
        for now in 0..1000 {
            let [Some(arrival), None] = link.send(now, &faults, &mut rng) else {
                panic!("one")
            };
            assert!(arrival.at > last && arrival.damage == Damage::None);
            last = arrival.at;
        }
    }

    #[test]
    fn a_partition_swallows_everything() {
        let (mut link, mut rng) = (Link::default(), Rng::new(1));
        let faults = Faults {
            partitions: vec![(10, 20)],
            ..Faults::default()
        };
        assert_eq!(link.send(10, &faults, &mut rng), [None, None]);
        assert!(link.send(20, &faults, &mut rng)[0].is_some());
    }
}
