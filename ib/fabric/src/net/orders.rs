//! Nothing that comes out of a run depends on the order in which nodes are looked at: by windows, each switch for itself, is the same as in the order of time, to the picosecond.

use super::tests::{LENGTH, SDR, fat_tree, flow, hosts, net};
use super::*;
use crate::congestion::{Marking, Scope, Throttle};
use crate::host::{Pace, Post, Target};
use std::sync::Arc;

/// All that can be asked of a fabric but for how many events it took: who looks for credits in vain may look once more or less.
type Outcome = (
    u64,
    Latencies,
    Latencies,
    Vec<Vec<FlowCount>>,
    Vec<PortReport>,
    Vec<u64>,
);

/// What hosts send in one of the runs.
fn spec(kind: u32, at: usize, lids: &Arc<[u32]>, random: &mut Random) -> FlowSpec {
    let any = || Target::Any(lids.clone());
    let shift = lids[(at + 5) % lids.len()];
    let load = 0.2 + 0.7 * random.unit();
    let (target, pace) = match kind {
        0 => (any(), Pace::About(FlowSpec::gap(&SDR, LENGTH, load))),
        // all at once, so that many things happen at the same picosecond
        1 => (Target::Turns(lids.clone(), at as u32 + 1), Pace::Saturated),
        2 => (
            Target::One(shift),
            Pace::Every(FlowSpec::gap(&SDR, LENGTH, 0.5)),
        ),
        // incast
        3 if at > 0 => (Target::One(lids[0]), Pace::Saturated),
        // the latter so that nothing happens for longer than windows are planned ahead
        4 | 7 => {
            let gap_us = if kind == 4 { 3 } else { 60 };
            let posts: Vec<Post> = (0..30)
                .map(|turn| Post {
                    at: Time::from_us(turn * gap_us),
                    lid: lids[random.below(lids.len() as u32) as usize],
                    bytes: random.below(9_000),
                })
                .filter(|post| post.lid != lids[at])
                .collect();
            (Target::Listed(posts.into()), Pace::Saturated)
        }
        _ => (any(), Pace::Saturated),
    };
    FlowSpec {
        message_bytes: (kind == 5).then(|| 1 + random.below(10_000)),
        sl: random.below(4) as u8,
        length_bytes: if kind == 6 {
            64 + random.below(4_000) as u16
        } else {
            LENGTH
        },
        ..flow(target, pace)
    }
}

/// A run that a seed decides, looked at four times.
fn run(seed: u64, windows: WindowsUse, parts: usize, threads: bool) -> Vec<Outcome> {
    let mut random = Random::new(seed, 77);
    let mut plan = fat_tree(5, 4, 3);
    // two leaves have a link to each other for one to a spine each: windows are as wide as news takes, and not twice
    let across = random.below(3) == 0;
    if across {
        let ups = [[(0, 5), (5, 1)], [(1, 5), (5, 2)]];
        let like = plan.links[0];
        plan.links.retain(|link| !ups.contains(&link.ends));
        plan.links.push(PlanLink {
            ends: [(0, 5), (1, 5)],
            ..like
        });
    }
    let fast = random.below(2) == 0;
    for (index, link) in plan.links.iter_mut().enumerate() {
        if fast {
            link.rate = LinkRate::new(100_000_000, 4);
        }
        match seed % 3 {
            // links differ in length, or in speed too, or all are alike
            0 => link.latency += Time(index as u64 * 37 % 911),
            1 if index % 5 == 0 => link.rate = LinkRate::new(50_000_000, 4),
            _ => {}
        }
    }
    let data_vls = 1 + random.below(3) as u8;
    let congestion = random.below(4) == 0;
    let settings = Settings {
        seed,
        buffer_blocks: [34, 40, 70, 512][random.below(4) as usize],
        switch: SwitchModel {
            data_vls,
            marking: congestion.then_some(Marking {
                threshold_blocks: 60,
                smallest_bytes: 0,
                marking_rate: 0,
            }),
            ..SwitchModel::default()
        },
        windows,
        threads: parts,
        ..Settings::default()
    };
    let mut net = net(&plan, settings);
    net.pace.forced = Some(threads);
    let by_windows = matches!(net.parts[0].queue, Agenda::Windows(_));
    assert_eq!(by_windows, windows == WindowsUse::Always);
    if let Agenda::Windows(windows) = &net.parts[0].queue {
        assert_eq!(windows.groups().1, !across, "seed {seed}");
    }
    let hosts = hosts(&plan);
    let lids: Arc<[u32]> = hosts.iter().map(|(_, lid)| *lid).collect();
    let kind = random.below(8);
    let flows = 1 + random.below(2);
    for (at, (node, _)) in hosts.iter().enumerate() {
        if congestion {
            let throttle = Arc::new(Throttle {
                table: Throttle::even(128, 8),
                increase: 4,
                timer: Time::from_us(5),
                minimum: 0,
                scope: Scope::QueuePair,
            });
            net.adapter_mut(*node).unwrap().set_throttle(&throttle);
        }
        for _ in 0..flows {
            net.add_flow(*node, spec(kind, at, &lids, &mut random));
        }
    }
    let mut outcomes = Vec::new();
    let mut until = Time::ZERO;
    for step in 0..4 {
        until += Time(u64::from(random.below(40_000_000)));
        net.run_until(until);
        assert_eq!(net.parts.len(), parts);
        assert_eq!(net.threads(), if threads { parts } else { 1 });
        let delivered = |(node, _): &(u32, u32)| {
            let of = |flow| net.delivered(*node, flow);
            (0..flows).map(of).collect::<Vec<_>>()
        };
        let delivered = hosts.iter().map(delivered).collect();
        let switches = (0..8).map(|node| net.switch_mut(node).unwrap().waiting_blocks(None));
        let waiting = switches.collect();
        outcomes.push((
            net.hops(),
            net.latencies().clone(),
            net.messages().clone(),
            delivered,
            net.reports(),
            waiting,
        ));
        if step == 1 {
            net.begin();
            // more to do, in the middle of a window
            let node = hosts[3].0;
            net.add_flow(node, spec(2, 3, &lids, &mut random));
        }
    }
    outcomes
}

#[test]
fn by_windows_comes_out_what_comes_out_in_the_order_of_time() {
    let mut hops = 0;
    for seed in 1..=200 {
        let time = run(seed, WindowsUse::Never, 1, false);
        let parts = 2 + seed as usize % 2;
        for (parts, threads) in [(1, false), (parts, false), (parts, true)] {
            let windows = run(seed, WindowsUse::Always, parts, threads);
            assert!(
                time == windows,
                "seed {seed}, {parts} parts, threads: {threads}"
            );
        }
        hops += time.last().map_or(0, |outcome| outcome.0);
    }
    assert!(hops > 100_000, "{hops}");
}

/// A fabric with traffic that will have three parts, each on a thread of its own.
pub(super) fn three_parts() -> Net {
    let plan = fat_tree(5, 4, 3);
    let settings = Settings {
        windows: WindowsUse::Always,
        threads: 3,
        ..Settings::default()
    };
    let mut net = net(&plan, settings);
    net.pace.forced = Some(true);
    let lids: Arc<[u32]> = hosts(&plan).iter().map(|(_, lid)| *lid).collect();
    let mut random = Random::new(3, 3);
    for (at, (node, _)) in hosts(&plan).into_iter().enumerate() {
        net.add_flow(node, spec(0, at, &lids, &mut random));
    }
    net
}

#[test]
fn a_manager_of_slow_lanes_sees_all_hosts_at_one_time() {
    let plan = fat_tree(5, 4, 3);
    let run = |windows| {
        let settings = Settings {
            windows,
            buffer_blocks: 40,
            switch: SwitchModel {
                data_vls: 2,
                ..SwitchModel::default()
            },
            ..Settings::default()
        };
        let mut net = net(&plan, settings);
        let lids: Arc<[u32]> = hosts(&plan).iter().map(|(_, lid)| *lid).collect();
        let mut random = Random::new(3, 3);
        for (at, (node, _)) in hosts(&plan).into_iter().enumerate() {
            net.add_flow(node, spec(3, at, &lids, &mut random));
        }
        net.run_until(Time::from_us(7));
        net.set_slow_lane(SlowLane {
            interval: Time::from_us(20),
            ..SlowLane::default()
        });
        net.run_until(Time::from_us(300));
        (net.slow_moves(), net.latencies().clone(), net.reports())
    };
    assert!(run(WindowsUse::Never) == run(WindowsUse::Always));
}
