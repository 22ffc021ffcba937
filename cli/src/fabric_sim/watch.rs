//! Looks at a running fabric again and again: what arrived, how long it took, which outputs packets wait for and who waits because of them.

use super::world::World;
use ferriband_fabric::net::PortReport;
use ferriband_fabric::{Latencies, Time};
use std::collections::BTreeMap;

/// An output is congested while so much waits for it, in blocks of 64 bytes: four packets of 2 KiB.
const CONGESTED_BLOCKS: u64 = 132;
/// It waits for credits if it did so for more than this share of the time.
const STARVED: f64 = 0.1;
/// Most outputs that are kept of a point in time.
const MOST: usize = 4_000;

/// An output with its node.
pub type Output = (u32, u8);

/// An output of a congestion tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// Which.
    pub output: Output,
    /// What waits for it, in bytes; 0 of a host.
    pub waiting_bytes: u64,
    /// Share of the time that it lacked credits.
    pub starved: f64,
    /// The output of the next switch that most waits for; None: the congestion begins here.
    pub toward: Option<Output>,
}

/// What was seen at a point in time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Since when.
    pub from: Time,
    /// Until when: now.
    pub to: Time,
    /// Bytes that arrived at hosts.
    pub delivered_bytes: u64,
    /// Half of the packets took no longer.
    pub p50: Time,
    /// 99 of 100 took no longer.
    pub p99: Time,
    /// All that waits in switches, in bytes.
    pub waiting_bytes: u64,
    /// Outputs that are congested, or wait for such ones.
    pub branches: Vec<Branch>,
}

/// What is remembered between two looks.
pub struct Watch {
    /// Congestion trees are looked for.
    from: Time,
    latencies: Latencies,
    /// By port, as they are reported: bytes that hosts received, time that outputs lacked credits.
    earlier: Vec<(u64, Time)>,
    is_switch: Vec<bool>,
}

impl Watch {
    /// Begins to look.
    pub fn new(world: &World) -> Watch {
        let nodes = world.names.len() as u32;
        let is_switch = (0..nodes)
            .map(|node| world.net.switch(node).is_some())
            .collect();
        Watch {
            from: world.net.now(),
            latencies: world.net.latencies().clone(),
            earlier: Vec::new(),
            is_switch,
        }
    }

    /// Looks.
    pub fn look(&mut self, world: &mut World) -> Sample {
        let reports = world.net.reports();
        let (from, to) = (self.from, world.net.now());
        let span = to.since(from);
        let mut delivered_bytes = 0;
        let mut waits = BTreeMap::new();
        // the same ports each time
        self.earlier.resize(reports.len(), Default::default());
        for (report, then) in reports.iter().zip(&mut self.earlier) {
            let output = (report.node, report.port);
            let now = (report.counters.rcv_bytes, report.counters.xmit_wait);
            let then = std::mem::replace(then, now);
            if !self.is_switch[report.node as usize] {
                delivered_bytes += now.0 - then.0;
            }
            let share = now.1.since(then.1).0 as f64 / (span.0 as f64).max(1.0);
            if share > STARVED {
                waits.insert(output, share);
            }
        }
        let latencies = world.net.latencies().clone();
        let since = latencies.since(&self.latencies);
        let sample = Sample {
            from,
            to,
            delivered_bytes,
            p50: since.quantile(0.5),
            p99: since.quantile(0.99),
            waiting_bytes: world.net.waiting_blocks() * 64,
            branches: self.branches(world, &reports, &waits),
        };
        (self.from, self.latencies) = (to, latencies);
        sample
    }

    /// The outputs that packets wait for, and those that wait for credits because of them.
    fn branches(
        &self,
        world: &World,
        reports: &[PortReport],
        waits: &BTreeMap<Output, f64>,
    ) -> Vec<Branch> {
        let mut waiting = BTreeMap::new();
        // the output of each switch that most waits for
        let mut fullest: BTreeMap<u32, (u64, u8)> = BTreeMap::new();
        let mut peers = BTreeMap::new();
        for report in reports {
            let output = (report.node, report.port);
            let Some(switch) = world.net.switch(report.node) else {
                if waits.contains_key(&output) {
                    peers.insert(output, report.peer);
                }
                continue;
            };
            let blocks = switch.waiting_blocks(Some(report.port));
            if blocks >= CONGESTED_BLOCKS || waits.contains_key(&output) {
                peers.insert(output, report.peer);
                waiting.insert(output, blocks);
            }
            if blocks >= CONGESTED_BLOCKS {
                let most = fullest.entry(report.node).or_default();
                // of equally many the first
                *most = (*most).max((blocks, 255 - report.port));
            }
        }
        let mut branches: Vec<Branch> = peers
            .into_iter()
            .map(|(output, peer)| {
                let starved = waits.get(&output).copied().unwrap_or(0.0);
                let next = fullest.get(&peer.0);
                let next = next.map(|(_, port)| (peer.0, 255 - port));
                Branch {
                    output,
                    waiting_bytes: waiting.get(&output).copied().unwrap_or(0) * 64,
                    starved,
                    toward: next.filter(|next| starved > STARVED && *next != output),
                }
            })
            .collect();
        // a host alone that waits for nothing congested is nobody's branch
        branches.retain(|branch| branch.toward.is_some() || branch.waiting_bytes > 0);
        if branches.len() > MOST {
            branches.sort_by_key(|branch| std::cmp::Reverse(branch.waiting_bytes));
            branches.truncate(MOST);
            branches.sort_by_key(|branch| branch.output);
        }
        branches
    }
}

/// A tree: an output with those that wait for it, and so on; each output is in one.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The outputs with their depth, the root first, each before those that wait for it.
    pub outputs: Vec<(Branch, u32)>,
}

/// The trees of a point in time, the largest first. A circle of outputs that wait for each other has no root: it is a tree from its first.
pub fn trees(branches: &[Branch]) -> Vec<Tree> {
    let by_output: BTreeMap<Output, &Branch> = branches
        .iter()
        .map(|branch| (branch.output, branch))
        .collect();
    let mut below: BTreeMap<Output, Vec<&Branch>> = BTreeMap::new();
    for branch in branches {
        if let Some(next) = branch.toward.filter(|next| by_output.contains_key(next)) {
            below.entry(next).or_default().push(branch);
        }
    }
    let is_root = |branch: &&Branch| {
        let next = branch.toward;
        next.is_none_or(|next| !by_output.contains_key(&next))
    };
    let (roots, others): (Vec<&Branch>, Vec<&Branch>) = branches.iter().partition(is_root);
    let mut seen = std::collections::BTreeSet::new();
    let mut found = Vec::new();
    for start in roots.into_iter().chain(others) {
        if !seen.insert(start.output) {
            continue;
        }
        let mut outputs = Vec::new();
        let mut stack = vec![(start, 0)];
        while let Some((branch, depth)) = stack.pop() {
            outputs.push((branch.clone(), depth));
            for next in below.get(&branch.output).into_iter().flatten().rev() {
                if seen.insert(next.output) {
                    stack.push((next, depth + 1));
                }
            }
        }
        found.push(Tree { outputs });
    }
    found.sort_by_key(|tree| std::cmp::Reverse(tree.outputs.len()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(output: Output, toward: Option<Output>) -> Branch {
        Branch {
            output,
            waiting_bytes: 1,
            starved: 0.5,
            toward,
        }
    }

    #[test]
    fn who_waits_is_below_what_it_waits_for() {
        let branches = [
            branch((0, 1), None),
            branch((1, 1), Some((0, 1))),
            branch((2, 1), Some((1, 1))),
            branch((3, 1), Some((0, 1))),
            branch((9, 9), Some((8, 8))),
        ];
        let found = trees(&branches);
        let shape: Vec<Vec<(u32, u32)>> = found
            .iter()
            .map(|tree| {
                tree.outputs
                    .iter()
                    .map(|(branch, depth)| (branch.output.0, *depth))
                    .collect()
            })
            .collect();
        assert_eq!(shape, [vec![(0, 0), (1, 1), (2, 2), (3, 1)], vec![(9, 0)]]);
        // three that wait for each other
        let ring = [
            branch((0, 1), Some((1, 1))),
            branch((1, 1), Some((2, 1))),
            branch((2, 1), Some((0, 1))),
        ];
        let found = trees(&ring);
        assert_eq!((found.len(), found[0].outputs.len()), (1, 3));
    }
}
