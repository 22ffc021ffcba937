//! The numbers that can be computed by hand come out of the machines.

use super::*;
use crate::arbiter::{Entry, Tables};
use crate::congestion::{Marking, Scope, Throttle};
use crate::credit::WINDOW;
use crate::host::{Pace, Post, Target};
use crate::shortest;
use crate::switch::{Buffering, Crossbar, NO_PORT, Pick};
use std::sync::Arc;

pub(super) const SDR: LinkRate = LinkRate::new(8_000_000, 4);
/// A packet of 2 KiB of data with its headers: 33 blocks.
pub(super) const LENGTH: u16 = 2048 + 30;

pub(super) fn link(a: (u32, u8), b: (u32, u8)) -> PlanLink {
    PlanLink {
        ends: [a, b],
        rate: SDR,
        latency: Time::from_ns(50),
        bit_error_rate: 0.0,
    }
}

pub(super) fn net(plan: &Plan, settings: Settings) -> Net {
    let mut net = Net::new(plan, settings).unwrap();
    for (node, table) in shortest::tables(plan).into_iter().enumerate() {
        if let Some(switch) = net.switch_mut(node as u32) {
            switch.set_linear(table);
        }
    }
    net
}

pub(super) fn flow(target: Target, pace: Pace) -> FlowSpec {
    FlowSpec {
        target,
        sl: 0,
        length_bytes: LENGTH,
        message_bytes: None,
        pace,
        start: Time::ZERO,
        packets: None,
    }
}

pub(super) fn saturated(lid: u32) -> FlowSpec {
    flow(Target::One(lid), Pace::Saturated)
}

pub(super) fn half(lid: u32) -> FlowSpec {
    flow(
        Target::One(lid),
        Pace::Every(FlowSpec::gap(&SDR, LENGTH, 0.5)),
    )
}

pub(super) fn close(what: &str, got: f64, want: f64, within: f64) {
    assert!(
        (got - want).abs() <= within * want,
        "{what}: {got:.4} instead of {want:.4}"
    );
}

/// Fig. 12: switch 1 with A, P and port x; switch 2 with port y, B, C, R (behind port r) and Q (behind q).
const S1: u32 = 0;
const S2: u32 = 1;
const A: u32 = 2;
const P: u32 = 3;
pub(super) const B: u32 = 4;
pub(super) const C: u32 = 5;
pub(super) const LID_R: u32 = 5;
pub(super) const LID_Q: u32 = 6;

pub(super) fn figure_12() -> Plan {
    let mut nodes = vec![PlanNode::Switch(3), PlanNode::Switch(5)];
    nodes.extend((1..=6).map(PlanNode::Adapter));
    let links = vec![
        link((S1, 1), (A, 1)),
        link((S1, 2), (P, 1)),
        link((S1, 3), (S2, 1)),
        link((S2, 2), (B, 1)),
        link((S2, 3), (C, 1)),
        link((S2, 4), (6, 1)),
        link((S2, 5), (7, 1)),
    ];
    Plan { nodes, links }
}

/// Shares of A, B, C and P when those of `who` send.
fn shares(who: &[u32], model: SwitchModel, throttle: Option<Throttle>) -> [f64; 4] {
    let settings = Settings {
        switch: model,
        ..Settings::default()
    };
    let mut net = net(&figure_12(), settings);
    let long = throttle.is_some();
    if let Some(throttle) = throttle.map(Arc::new) {
        for node in [A, B, C, P] {
            net.adapter_mut(node).unwrap().set_throttle(&throttle);
        }
    }
    for &node in who {
        let spec = match node {
            A => half(LID_R),
            P => half(LID_Q),
            _ => saturated(LID_R),
        };
        assert_eq!(net.add_flow(node, spec), Some(0));
    }
    let (warm, long) = if long {
        (Time::from_us(6_000), Time::from_us(30_000))
    } else {
        (Time::from_us(500), Time::from_us(6_000))
    };
    net.run_until(warm);
    net.begin();
    net.run_until(warm + long);
    [A, B, C, P].map(|node| net.share(node, 0))
}

pub(super) fn model(buffering: Buffering, pick: Pick) -> SwitchModel {
    SwitchModel {
        buffering,
        pick,
        ..SwitchModel::default()
    }
}

const BOTH: [Buffering; 2] = [Buffering::Fifo, Buffering::VirtualOutput];

#[test]
fn figure_12_without_the_victim() {
    for buffering in BOTH {
        let model = model(buffering, Pick::RoundRobin);
        let [_, b, ..] = shares(&[B], model, None);
        close("B alone", b, 1.0, 0.005);
        let [_, b, c, _] = shares(&[B, C], model, None);
        close("B", b, 0.5, 0.005);
        close("C", c, 0.5, 0.005);
        let [a, b, c, _] = shares(&[A, B, C], model, None);
        close("A", a, 1.0 / 3.0, 0.005);
        close("B", b, 1.0 / 3.0, 0.005);
        close("C", c, 1.0 / 3.0, 0.005);
    }
}

#[test]
fn figure_12_packet_by_packet_gives_a_third_to_each() {
    for buffering in BOTH {
        let got = shares(&[A, B, C, P], model(buffering, Pick::RoundRobin), None);
        for share in got {
            close("share", share, 1.0 / 3.0, 0.01);
        }
    }
}

#[test]
fn figure_12_at_random_blocks_the_head_of_the_line() {
    let [a, b, c, p] = shares(&[A, B, C, P], model(Buffering::Fifo, Pick::Random), None);
    close("A", a, 0.25, 0.04);
    close("P", p, 0.25, 0.04);
    close("B", b, 0.375, 0.04);
    close("C", c, 0.375, 0.04);
}

#[test]
fn figure_12_as_the_paper_caps_it_gives_a_sixth() {
    let capped = SwitchModel {
        crossbar: Crossbar::Shared,
        ..model(Buffering::Fifo, Pick::RoundRobin)
    };
    let [a, b, c, p] = shares(&[A, B, C, P], capped, None);
    close("A", a, 1.0 / 6.0, 0.01);
    close("P", p, 1.0 / 6.0, 0.01);
    close("B", b, 1.0 / 3.0, 0.01);
    close("C", c, 1.0 / 3.0, 0.01);
}

#[test]
fn figure_13_congestion_control_sets_the_victim_free() {
    for buffering in BOTH {
        let model = SwitchModel {
            marking: Some(Marking {
                threshold_blocks: 330,
                marking_rate: 3,
                smallest_bytes: 64,
            }),
            ..model(buffering, Pick::RoundRobin)
        };
        let throttle = Throttle {
            table: Throttle::even(128, 1),
            increase: 1,
            timer: Time::from_us(60),
            minimum: 0,
            scope: Scope::QueuePair,
        };
        let [a, b, c, p] = shares(&[A, B, C, P], model, Some(throttle));
        println!("{buffering:?}: {a:.3} {b:.3} {c:.3} {p:.3}");
        close("P", p, 0.5, 0.1);
        close("A", a, 1.0 / 3.0, 0.1);
        close("B", b, 1.0 / 3.0, 0.1);
        close("C", c, 1.0 / 3.0, 0.1);
    }
}

/// Two lanes on the tutorial's example: the second is the slow one.
fn with_slow_lane(buffering: Buffering) -> Net {
    let settings = Settings {
        switch: SwitchModel {
            data_vls: 2,
            ..model(buffering, Pick::RoundRobin)
        },
        ..Settings::default()
    };
    let mut net = net(&figure_12(), settings);
    for node in [A, B, C, P] {
        let map = std::array::from_fn(|sl| u8::from(sl >= 8));
        net.adapter_mut(node).unwrap().set_sl2vl(map);
    }
    net.set_slow_lane(SlowLane::default());
    net
}

#[test]
fn figure_13_a_slow_lane_sets_the_victim_free() {
    for buffering in BOTH {
        let mut net = with_slow_lane(buffering);
        // At random times: r's turns and packets that come at exactly half of the link's rate would fall into step.
        for (node, lid) in [(A, LID_R), (P, LID_Q)] {
            let spec = FlowSpec {
                pace: Pace::About(FlowSpec::gap(&SDR, LENGTH, 0.5)),
                ..half(lid)
            };
            net.add_flow(node, spec);
        }
        net.add_flow(B, saturated(LID_R));
        net.add_flow(C, saturated(LID_R));
        net.run_until(Time::from_us(1_000));
        assert_eq!(net.slow_hosts(), [LID_R], "{buffering:?}");
        net.begin();
        net.run_until(Time::from_us(41_000));
        let [a, b, c, p] = [A, B, C, P].map(|node| net.share(node, 0));
        println!("{buffering:?}: {a:.3} {b:.3} {c:.3} {p:.3}");
        close("P", p, 0.5, 0.02);
        close("R", a + b + c, 1.0, 0.01);
        match buffering {
            Buffering::VirtualOutput => close("A", a, 1.0 / 3.0, 0.01),
            // While y's input lets one of P's packets through, r passes A over: of turns that are A's, B, C's, A has half.
            Buffering::Fifo => close("A", a, 0.5 / 2.5, 0.15),
        }
        assert_eq!((net.slow_hosts(), net.slow_moves()), (vec![LID_R], 1));
    }
}

#[test]
fn a_host_leaves_the_slow_lane_when_it_is_congested_no_more() {
    let mut net = with_slow_lane(Buffering::VirtualOutput);
    net.add_flow(A, half(LID_R));
    for node in [B, C] {
        let spec = FlowSpec {
            packets: Some(500),
            ..saturated(LID_R)
        };
        net.add_flow(node, spec);
    }
    net.run_until(Time::from_us(800));
    assert_eq!(net.slow_hosts(), [LID_R]);
    // their packets take three milliseconds
    net.run_until(Time::from_us(5_000));
    assert_eq!((net.slow_hosts(), net.slow_moves()), (vec![], 2));
    net.begin();
    net.run_until(Time::from_us(6_000));
    close("A", net.share(A, 0), 0.5, 0.01);
}

#[test]
fn a_full_link_that_nobody_waits_for_is_no_congestion_and_the_manager_keeps_no_fabric_alive() {
    let mut net = with_slow_lane(Buffering::VirtualOutput);
    let spec = FlowSpec {
        packets: Some(1_000),
        ..saturated(LID_R)
    };
    net.add_flow(B, spec);
    assert!(net.run_until(Time::from_us(1_000)));
    assert_eq!(net.slow_moves(), 0);
    assert!(!net.run_until(Time::from_us(100_000)));
}

/// `n` senders, `n` receivers, one switch: what share of the outputs is used when every sender always has packets for anybody.
fn crossbar(n: u32, buffering: Buffering) -> f64 {
    let mut plan = Plan {
        nodes: vec![PlanNode::Switch(2 * n as u8)],
        links: Vec::new(),
    };
    for host in 1..=2 * n {
        plan.nodes.push(PlanNode::Adapter(host));
        plan.links.push(link((0, host as u8), (host, 1)));
    }
    let settings = Settings {
        buffer_blocks: 2_000,
        switch: model(buffering, Pick::Random),
        ..Settings::default()
    };
    let mut net = net(&plan, settings);
    let receivers: Arc<[u32]> = (n + 1..=2 * n).collect();
    for host in 1..=n {
        net.add_flow(host, flow(Target::Any(receivers.clone()), Pace::Saturated));
    }
    net.run_until(Time::from_us(1_000));
    net.begin();
    net.run_until(Time::from_us(41_000));
    (1..=n).map(|host| net.share(host, 0)).sum::<f64>() / f64::from(n)
}

#[test]
fn input_fifos_saturate_where_theory_says() {
    for (n, want) in [(2, 0.75), (4, 0.655), (8, 0.618)] {
        close("FIFO", crossbar(n, Buffering::Fifo), want, 0.015);
        let free = crossbar(n, Buffering::VirtualOutput);
        assert!(free > 0.98, "{n} virtual output queues: {free}");
    }
}

#[test]
fn lanes_get_the_shares_of_their_weights() {
    let mut plan = Plan {
        nodes: vec![PlanNode::Switch(4)],
        links: Vec::new(),
    };
    for host in 1..=4 {
        plan.nodes.push(PlanNode::Adapter(host));
        plan.links.push(link((0, host as u8), (host, 1)));
    }
    for buffering in BOTH {
        let settings = Settings {
            switch: SwitchModel {
                data_vls: 3,
                ..model(buffering, Pick::RoundRobin)
            },
            ..Settings::default()
        };
        let run = |tables: &Tables| {
            let mut net = net(&plan, settings);
            net.switch_mut(0).unwrap().set_arbitration(4, tables);
            for host in 1..=3 {
                let spec = FlowSpec {
                    sl: host as u8 - 1,
                    ..saturated(4)
                };
                net.add_flow(host, spec);
            }
            net.run_until(Time::from_us(500));
            net.begin();
            net.run_until(Time::from_us(8_500));
            [1, 2, 3].map(|host| net.share(host, 0))
        };
        let entry = |vl, weight| Entry { vl, weight };
        let weights = Tables {
            high: vec![],
            low: vec![entry(0, 33), entry(1, 66), entry(2, 132)],
            limit: 0,
        };
        for (got, want) in run(&weights).into_iter().zip([1.0, 2.0, 4.0]) {
            close("weights", got, want / 7.0, 0.01);
        }
        // 4,096 bytes are two packets; then one of the low table.
        let limited = Tables {
            high: vec![entry(2, 255)],
            low: vec![entry(0, 33), entry(1, 33)],
            limit: 1,
        };
        for (got, want) in run(&limited).into_iter().zip([1.0, 1.0, 4.0]) {
            close("limit", got, want / 6.0, 0.01);
        }
        let absolute = Tables {
            limit: 255,
            ..limited
        };
        let [low, _, high] = run(&absolute);
        close("no limit", high, 1.0, 0.01);
        assert!(low < 0.001, "{low}");
    }
}

#[test]
fn a_link_of_each_speed_is_used_but_for_its_flow_control_packets() {
    let lanes = [
        2_000_000,
        4_000_000,
        8_000_000,
        13_636_363,
        25_000_000,
        50_000_000,
        100_000_000,
    ];
    for kbps in lanes {
        for width in [1u8, 4, 8, 12] {
            for credits in [Credits::Lazy, Credits::Packets] {
                let rate = LinkRate::new(kbps * u64::from(width), width);
                let plan = Plan {
                    nodes: vec![PlanNode::Adapter(1), PlanNode::Adapter(2)],
                    links: vec![PlanLink {
                        rate,
                        ..link((0, 1), (1, 1))
                    }],
                };
                let settings = Settings {
                    credits,
                    ..Settings::default()
                };
                let mut net = net(&plan, settings);
                net.add_flow(0, saturated(2));
                net.add_flow(1, saturated(1));
                let packet = rate.wire_time(LENGTH.into());
                net.run_until(Time(packet.0 * 100));
                net.begin();
                net.run_until(Time(packet.0 * 1_100));
                // One flow-control packet of 8 bytes for each packet the other way.
                let want = f64::from(LENGTH) / (f64::from(LENGTH) + 8.0);
                close("both ways", net.share(0, 0), want, 0.001);
                let told = net.reports()[0].flow_packets as f64;
                close("flow-control packets", told, 1_000.0 * want, 0.01);
            }
        }
    }
}

#[test]
fn a_link_that_is_always_busy_is_used_all_of_the_time_and_no_more() {
    let plan = Plan {
        nodes: vec![
            PlanNode::Adapter(1),
            PlanNode::Switch(2),
            PlanNode::Adapter(2),
        ],
        links: vec![link((0, 1), (1, 1)), link((1, 2), (2, 1))],
    };
    let mut net = net(&plan, Settings::default());
    let table = vec![crate::switch::NO_PORT, 1, 2];
    net.switch_mut(1).unwrap().set_linear(table);
    net.add_flow(0, saturated(2));
    net.run_until(Time::from_us(20));
    let packet = plan.links[0].rate.wire_time(LENGTH.into());
    // counting begins and ends anywhere in a packet
    for part in 1..40u64 {
        net.begin();
        net.run_until(net.now() + Time(packet.0 * part * 3 / 7));
        for report in net.reports() {
            let want =
                if (report.node, report.port) == (0, 1) || (report.node, report.port) == (1, 2) {
                    1.0
                } else {
                    0.0
                };
            assert!(report.utilisation <= 1.0);
            close("used", report.utilisation + 1.0, want + 1.0, 0.02);
        }
    }
}

/// Two levels: `leaves` switches of `down` hosts each, `spines` above.
pub(super) fn fat_tree(leaves: u32, down: u32, spines: u32) -> Plan {
    let mut plan = Plan::default();
    for _ in 0..leaves {
        plan.nodes.push(PlanNode::Switch((down + spines) as u8));
    }
    for _ in 0..spines {
        plan.nodes.push(PlanNode::Switch(leaves as u8));
    }
    for leaf in 0..leaves {
        for host in 0..down {
            let node = plan.nodes.len() as u32;
            plan.nodes.push(PlanNode::Adapter(leaf * down + host + 1));
            plan.links.push(link((leaf, host as u8 + 1), (node, 1)));
        }
        for spine in 0..spines {
            let up = (leaf, (down + spine) as u8 + 1);
            plan.links.push(link(up, (leaves + spine, leaf as u8 + 1)));
        }
    }
    plan
}

pub(super) fn hosts(plan: &Plan) -> Vec<(u32, u32)> {
    let nodes = plan.nodes.iter().enumerate();
    nodes
        .filter_map(|(node, what)| match what {
            PlanNode::Adapter(lid) => Some((node as u32, *lid)),
            PlanNode::Switch(_) => None,
        })
        .collect()
}

/// Uniform random traffic of a load.
fn uniform(plan: &Plan, settings: Settings, load: f64) -> Net {
    let mut net = net(plan, settings);
    let hosts = hosts(plan);
    let lids: Arc<[u32]> = hosts.iter().map(|(_, lid)| *lid).collect();
    for (node, _) in hosts {
        let pace = Pace::About(FlowSpec::gap(&SDR, LENGTH, load));
        net.add_flow(node, flow(Target::Any(lids.clone()), pace));
    }
    net
}

/// What each host sent that arrived, each port's report, and how many events it took, in uniform traffic of so many microseconds.
fn traffic(settings: Settings, us: u64, load: f64) -> (Vec<FlowCount>, Vec<PortReport>, u64) {
    let mut plan = fat_tree(4, 4, 2);
    for (index, link) in plan.links.iter_mut().enumerate() {
        link.latency += Time(index as u64 * 37 % 911);
    }
    let mut net = uniform(&plan, settings, load);
    net.run_until(Time::from_us(us));
    let hosts = hosts(&plan);
    let counts = hosts.iter().map(|host| net.delivered(host.0, 0)).collect();
    let reports = net.reports();
    (counts, reports, net.events())
}

#[test]
fn lazy_credits_are_those_of_packets_to_the_picosecond() {
    // As long as no refresh comes in between (262 us): a packet of buffer each, so that credits decide everything. Only where two things happen at the
    // same picosecond may the two ways take them in another order, and then all that follows differs: that is seldom.
    let mut same = 0;
    for seed in 1..=40 {
        let run = |credits| {
            let settings = Settings {
                seed,
                credits,
                buffer_blocks: 40,
                switch: model(Buffering::Fifo, Pick::RoundRobin),
                ..Settings::default()
            };
            traffic(settings, 120, 0.7)
        };
        let (lazy, lazy_ports, few) = run(Credits::Lazy);
        let (packets, packet_ports, many) = run(Credits::Packets);
        assert!(few < many, "{few} events, {many} events");
        if lazy != packets {
            continue;
        }
        same += 1;
        for (lazy, packet) in lazy_ports.iter().zip(&packet_ports) {
            assert_eq!(lazy.counters, packet.counters);
            assert!(lazy.flow_packets.abs_diff(packet.flow_packets) <= 1);
        }
    }
    assert!(same >= 30, "{same} of 40 runs are the same");
}

#[test]
fn lazy_credits_are_those_of_packets_over_refreshes() {
    for (buffering, buffer_blocks) in [
        (Buffering::Fifo, 512),
        (Buffering::VirtualOutput, 70),
        (Buffering::VirtualOutput, 3_000),
    ] {
        // Things that happen at the same time may come in another order, so single packets differ.
        let run = |credits| {
            let settings = Settings {
                credits,
                buffer_blocks,
                switch: model(buffering, Pick::RoundRobin),
                ..Settings::default()
            };
            traffic(settings, 3_000, 0.3)
        };
        let (lazy, lazy_ports, _) = run(Credits::Lazy);
        let (packets, packet_ports, _) = run(Credits::Packets);
        let sum = |counts: &[FlowCount]| counts.iter().map(|count| count.bytes).sum::<u64>() as f64;
        close("bytes", sum(&lazy), sum(&packets), 0.01);
        let mean = |counts: &[FlowCount]| {
            let sum: u64 = counts.iter().map(|count| count.latency_sum).sum();
            sum as f64 / counts.iter().map(|count| count.packets).sum::<u64>() as f64
        };
        close("latency", mean(&lazy), mean(&packets), 0.05);
        let told =
            |ports: &[PortReport]| ports.iter().map(|port| port.flow_packets).sum::<u64>() as f64;
        // 3 ms have 11 refreshes of each port.
        let refreshes = 11.0 * lazy_ports.len() as f64;
        close(
            "flow-control packets",
            told(&lazy_ports) + refreshes,
            told(&packet_ports),
            0.05,
        );
    }
}

#[test]
fn the_same_seed_is_the_same_run_and_another_is_not() {
    let plan = fat_tree(4, 4, 2);
    let run = |seed| {
        let settings = Settings {
            seed,
            ..Settings::default()
        };
        let mut net = uniform(&plan, settings, 0.5);
        net.run_until(Time::from_us(1_000));
        let reports = net.reports();
        (net.hops(), net.events(), net.latencies().clone(), reports)
    };
    assert!(run(7) == run(7));
    assert!(run(7) != run(8));
}

/// What all ends of links know of credits when nothing is on its way.
fn all_credits_are_back(net: &mut Net) {
    let net = &mut net.parts[0];
    for port in 0..net.ports.len() {
        if net.ports[port].peer == NONE {
            continue;
        }
        net.settle(net.ports[port].peer as usize, net.now);
        net.absorb(port, net.now);
    }
    let whole = net.settings.buffer_blocks;
    for port in 0..net.ports.len() {
        if net.ports[port].peer == NONE {
            continue;
        }
        for vl in 0..net.data_vls {
            let lane = *net.lane(port, vl as u8);
            assert_eq!(lane.receiver.free_blocks(), whole, "port {port} VL {vl}");
            assert_eq!(
                lane.sender.credits(),
                whole.min(WINDOW),
                "port {port} VL {vl}"
            );
        }
    }
}

#[test]
fn credits_come_back_after_packets_were_lost() {
    for credits in [Credits::Lazy, Credits::Packets] {
        let mut plan = fat_tree(3, 2, 2);
        for link in &mut plan.links {
            link.bit_error_rate = 3e-6;
        }
        let settings = Settings {
            credits,
            buffer_blocks: 100,
            ..Settings::default()
        };
        let mut net = net(&plan, settings);
        let hosts = hosts(&plan);
        let lids: Arc<[u32]> = hosts.iter().map(|(_, lid)| *lid).collect();
        for &(node, _) in &hosts {
            let spec = FlowSpec {
                packets: Some(2_000),
                ..flow(Target::Any(lids.clone()), Pace::Saturated)
            };
            net.add_flow(node, spec);
        }
        // 12,000 packets; one in twenty is lost on each link.
        net.run_until(Time::from_us(300_000));
        let got: u64 = hosts
            .iter()
            .map(|host| net.delivered(host.0, 0).packets)
            .sum();
        assert!(net.lost() > 1_000);
        assert_eq!(got + net.lost(), 12_000);
        let errors: u64 = net.reports().iter().map(|r| r.counters.rcv_errors).sum();
        assert_eq!(errors, net.lost());
        assert_eq!(net.waiting_blocks(), 0);
        all_credits_are_back(&mut net);
    }
}

#[test]
fn multicast_reaches_all_members_and_gives_its_buffer_back() {
    for buffering in BOTH {
        for credits in [Credits::Lazy, Credits::Packets] {
            let plan = fat_tree(2, 3, 1);
            let settings = Settings {
                credits,
                buffer_blocks: 70,
                switch: model(buffering, Pick::RoundRobin),
                ..Settings::default()
            };
            let mut net = net(&plan, settings);
            // Leaves 0 and 1 have hosts at ports 1 to 3 and the spine, node 2, at port 4. Host 3 is no member.
            let group = 0xc001;
            let ports = |of: &[u8]| {
                let bits = of.iter().fold(0u64, |bits, port| bits | 1 << port);
                [bits, 0, 0, 0]
            };
            assert!(
                net.switch_mut(0)
                    .unwrap()
                    .set_multicast(group, ports(&[1, 2, 4]))
            );
            assert!(
                net.switch_mut(1)
                    .unwrap()
                    .set_multicast(group, ports(&[1, 2, 3, 4]))
            );
            assert!(
                net.switch_mut(2)
                    .unwrap()
                    .set_multicast(group, ports(&[1, 2]))
            );
            assert!(
                !net.switch_mut(2)
                    .unwrap()
                    .set_multicast(0xbfff, ports(&[1]))
            );
            let count = |spec: FlowSpec| FlowSpec {
                packets: Some(500),
                ..spec
            };
            // LID 1 to the group; others disturb it, on the same ports.
            net.add_flow(3, count(saturated(group)));
            net.add_flow(4, count(saturated(5)));
            net.add_flow(7, count(saturated(2)));
            net.run_until(Time::from_us(20_000));
            assert_eq!(net.delivered(3, 0).packets, 4 * 500);
            assert_eq!(net.delivered(4, 0).packets, 500);
            assert_eq!(net.delivered(7, 0).packets, 500);
            assert_eq!(net.waiting_blocks(), 0);
            all_credits_are_back(&mut net);
        }
    }
}

#[test]
fn packets_without_a_way_are_dropped_and_counted() {
    let mut plan = fat_tree(2, 2, 1);
    plan.links.pop();
    let mut net = net(&plan, Settings::default());
    // The spine has lost its link to the second leaf; LID 9 is nobody's; and one table leads back to where packets came from.
    let mut table = vec![NO_PORT; 10];
    (table[1], table[3], table[2]) = (1, 3, 1);
    net.switch_mut(0).unwrap().set_linear(table);
    net.switch_mut(2).unwrap().set_linear(vec![2; 10]);
    let some = |lid| FlowSpec {
        packets: Some(100),
        ..saturated(lid)
    };
    for lid in [9, 2, 3, 200] {
        net.add_flow(3, some(lid));
    }
    net.run_until(Time::from_us(5_000));
    let leaf = net.switch_mut(0).unwrap();
    assert_eq!(leaf.counters(1).rcv_discards, 200);
    assert_eq!(leaf.counters(1).xmit_discards, 100);
    let spine = net.switch_mut(2).unwrap();
    assert_eq!(spine.counters(2).xmit_discards, 100);
    all_credits_are_back(&mut net);
}

#[test]
fn a_ring_without_care_locks_up() {
    // Five switches in a ring, everything two hops clockwise.
    let mut plan = Plan::default();
    for _ in 0..5 {
        plan.nodes.push(PlanNode::Switch(3));
    }
    for host in 0..5 {
        plan.nodes.push(PlanNode::Adapter(host + 1));
        plan.links.push(link((host, 1), (5 + host, 1)));
        plan.links.push(link((host, 2), ((host + 1) % 5, 3)));
    }
    let settings = Settings {
        buffer_blocks: 70,
        switch: model(Buffering::Fifo, Pick::Random),
        ..Settings::default()
    };
    let mut net = net(&plan, settings);
    for host in 0..5u32 {
        net.add_flow(5 + host, saturated((host + 2) % 5 + 1));
    }
    assert!(
        !net.run_until(Time::from_us(10_000)),
        "nothing is left to happen"
    );
    assert!(net.waiting_blocks() > 5 * 33);
    let waits = net.reports();
    assert_eq!(waits.len(), 20);
}

#[test]
fn cut_through_takes_a_header_a_hop_and_a_faster_link_waits_for_the_tail() {
    let edr = LinkRate::new(100_000_000, 4);
    let latency = |rates: [LinkRate; 2]| {
        let plan = Plan {
            nodes: vec![
                PlanNode::Switch(2),
                PlanNode::Adapter(1),
                PlanNode::Adapter(2),
            ],
            links: vec![
                PlanLink {
                    rate: rates[0],
                    ..link((0, 1), (1, 1))
                },
                PlanLink {
                    rate: rates[1],
                    ..link((0, 2), (2, 1))
                },
            ],
        };
        let mut net = net(&plan, Settings::default());
        let spec = FlowSpec {
            packets: Some(1),
            ..saturated(2)
        };
        net.add_flow(1, spec);
        net.run_until(Time::from_us(100));
        assert_eq!(net.latencies().count(), 1);
        net.latencies().most()
    };
    let ns = Time::from_ns;
    let (slow, quick) = (SDR.wire_time(LENGTH.into()), edr.wire_time(LENGTH.into()));
    // Link, header, switch, link, and the whole packet once.
    assert_eq!(latency([SDR, SDR]), ns(50 + 8 + 100 + 50) + slow);
    let header = edr.wire_time(8);
    assert_eq!(latency([edr, SDR]), ns(50 + 100 + 50) + header + slow);
    // Its last bit leaves as soon as it could have.
    assert_eq!(latency([SDR, edr]), ns(50 + 100 + 50) + slow);
    assert!(quick < slow);
}

#[test]
fn who_waits_for_credits_is_counted() {
    // Fig. 12 without congestion control: x waits, r never does.
    let mut net = net(&figure_12(), Settings::default());
    net.add_flow(A, half(LID_R));
    net.add_flow(P, half(LID_Q));
    net.add_flow(B, saturated(LID_R));
    net.add_flow(C, saturated(LID_R));
    net.run_until(Time::from_us(1_000));
    net.begin();
    net.run_until(Time::from_us(2_000));
    let waited = |net: &mut Net, node, port| {
        let switch = net.switch_mut(node).unwrap();
        switch.counters(port).xmit_wait.0 as f64 / 1e9
    };
    assert_eq!(waited(&mut net, S2, 4), 0.0);
    let x = waited(&mut net, S1, 3);
    assert!(
        (0.2..0.4).contains(&x),
        "x sends two thirds of the time: {x}"
    );
}

#[test]
fn a_plan_that_is_none_is_refused() {
    let make = |plan: &Plan| Net::new(plan, Settings::default()).map(|_| ());
    let plan = |lids: [u32; 2], ends: &[[(u32, u8); 2]]| {
        let mut nodes = vec![PlanNode::Switch(2)];
        nodes.extend(lids.map(PlanNode::Adapter));
        let links = ends.iter().map(|[a, b]| link(*a, *b)).collect();
        Plan { nodes, links }
    };
    assert_eq!(
        make(&plan([1, 2], &[[(0, 1), (1, 1)], [(0, 2), (2, 1)]])),
        Ok(())
    );
    let refused = make(&plan([1, 1], &[]));
    assert_eq!(refused, Err(PlanError::Lid(1)));
    assert_eq!(make(&plan([0, 1], &[])), Err(PlanError::Lid(0)));
    for ends in [(0, 0), (0, 3), (1, 2), (7, 1)] {
        let refused = make(&plan([1, 2], &[[(2, 1), ends]]));
        assert!(
            matches!(refused, Err(PlanError::NoSuchPort { .. })),
            "{ends:?}"
        );
    }
    let twice = make(&plan([1, 2], &[[(0, 1), (1, 1)], [(0, 1), (2, 1)]]));
    assert_eq!(twice, Err(PlanError::PortTwice { node: 0, port: 1 }));
    let itself = make(&plan([1, 2], &[[(0, 1), (0, 1)]]));
    assert!(matches!(itself, Err(PlanError::PortTwice { .. })));
}

#[test]
fn messages_of_several_packets_go_to_one_place_and_are_timed_as_a_whole() {
    let plan = fat_tree(2, 2, 1);
    let mut net = net(&plan, Settings::default());
    // 5,000 bytes are two packets of 2,052 bytes of data and one of 896.
    let spec = FlowSpec {
        message_bytes: Some(5_000),
        packets: Some(3),
        ..saturated(4)
    };
    net.add_flow(3, spec);
    net.run_until(Time::from_us(100));
    let got = net.delivered(3, 0);
    assert_eq!((got.packets, got.bytes), (3, 5_000 + 3 * 26));
    assert_eq!((net.messages().count(), net.latencies().count()), (1, 3));
    assert_eq!(net.messages().most(), net.latencies().most());
    // three links, three switches, three headers, and the whole message once
    let path = Time::from_ns(4 * 50 + 3 * (100 + 8));
    let whole = SDR.wire_time(5_000 + 3 * 26);
    assert_eq!(net.messages().most(), path + whole);
}

#[test]
fn listed_messages_go_at_their_times() {
    let plan = fat_tree(2, 2, 1);
    let mut net = net(&plan, Settings::default());
    let post = |us, lid, bytes| Post {
        at: Time::from_us(us),
        lid,
        bytes,
    };
    let posts = [post(10, 2, 100), post(10, 4, 3_000), post(50, 3, 0)];
    net.add_flow(3, flow(Target::Listed(posts.into()), Pace::Saturated));
    net.run_until(Time::from_us(9));
    assert_eq!(net.hops(), 0);
    net.run_until(Time::from_us(49));
    assert_eq!(net.messages().count(), 2);
    assert!(!net.run_until(Time::from_us(100)), "nothing more happens");
    assert_eq!(net.messages().count(), 3);
    assert_eq!(net.delivered(3, 0).packets, 1 + 2 + 1);
}

#[test]
fn the_level_of_a_path_decides_its_lane() {
    let mut plan = Plan {
        nodes: vec![PlanNode::Switch(3)],
        links: Vec::new(),
    };
    for host in 1..=3 {
        plan.nodes.push(PlanNode::Adapter(host));
        plan.links.push(link((0, host as u8), (host, 1)));
    }
    let settings = Settings {
        switch: SwitchModel {
            data_vls: 2,
            ..SwitchModel::default()
        },
        ..Settings::default()
    };
    let mut net = net(&plan, settings);
    let levels: Arc<[u8]> = [0, 0, 0, 1].into();
    net.adapter_mut(1).unwrap().set_path_levels(&levels);
    let both: Arc<[u32]> = [2, 3].into();
    let spec = FlowSpec {
        packets: Some(10),
        ..flow(Target::Turns(both, 0), Pace::Saturated)
    };
    net.add_flow(1, spec);
    net.run_until(Time::from_us(100));
    assert_eq!(net.delivered(1, 0).packets, 10);
    let port = net.bases[1] as usize + 1;
    let mut sent = |vl| net.parts[0].lane(port, vl).sender.total_sent();
    assert_eq!((sent(0), sent(1)), (5 * 33, 5 * 33));
}
