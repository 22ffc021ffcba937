//! Packets between hosts of a ring of three switches.

use super::*;
use crate::Random;
use crate::live::Fabric;
use crate::live::tests::{hosts, ring};
use ferriband_wire::attributes::{PortInfo, PortState};
use ferriband_wire::{Lid, LinkNext, Lrh, Sl, Vl, vcrc};

const MS: u64 = 1_000_000_000;

/// A packet of so many bytes from LRH to ICRC, a multiple of four.
pub(super) fn packet(from: Place, to: Place, sl: u8, length: usize) -> Vec<u8> {
    let lid = |place: Place| Lid(place.node.0 as u16 + 1);
    let mut packet = vec![0; length + 2];
    let lrh = Lrh {
        vl: Vl(0),
        sl: Sl(sl),
        dlid: lid(to),
        slid: lid(from),
    };
    lrh.emit(LinkNext::Transport, length, &mut packet).unwrap();
    // the default partition
    packet[10..12].fill(0xff);
    let trailer = vcrc(&packet[..length]);
    packet[length..].copy_from_slice(&trailer.to_le_bytes());
    packet
}

fn counters(fabric: &Fabric, at: PortId) -> crate::manage::Counters {
    fabric.plane().node(at.node).ports[usize::from(at.port)].counters
}

/// The switch port that leads to a host.
fn last_hop(fabric: &Fabric, to: Place) -> PortId {
    let end = PortId {
        node: to.node,
        port: to.port,
    };
    fabric.plane().topology().peer(end).unwrap()
}

fn all_at_rest(fabric: &mut Fabric) {
    let Credits {
        taken_blocks,
        wrong,
        waiting,
        ..
    } = fabric.credits();
    assert_eq!((taken_blocks, wrong, waiting), (0, 0, 0));
}

#[test]
fn a_receiver_that_takes_nothing_holds_up_its_senders_and_nothing_is_lost() {
    let mut fabric = ring();
    let (a, b) = (hosts(&fabric)[0], hosts(&fabric)[5]);
    let mut sent = 0;
    let mut rooms = VecDeque::new();
    while fabric.has_room(a) {
        // 1,024 bytes are 16 blocks
        assert!(fabric.send_packet(Time(0), a, packet(a, b, 0, 1024)));
        sent += 1;
        rooms.extend(std::iter::from_fn(|| fabric.poll_packet(Time(0))));
    }
    let in_buffer = usize::from(BUFFER_BLOCKS) / 16;
    assert_eq!(
        rooms.len(),
        in_buffer,
        "as many as the last buffer has room for"
    );
    let before = fabric.credits();
    assert_eq!(before.wrong, 0);
    // buffers on the way are full as well
    assert!(before.taken_blocks > u64::from(BUFFER_BLOCKS));
    assert!(sent > 2 * in_buffer);
    // now it takes one each millisecond
    let mut now = Time(0);
    let mut came = 0;
    while let Some(arrived) = rooms.pop_front() {
        now += Time(MS);
        came += 1;
        fabric.taken(arrived.room.unwrap());
        rooms.extend(std::iter::from_fn(|| fabric.poll_packet(now)));
    }
    assert_eq!((came, fabric.packets()), (sent, [sent as u64, 0]));
    all_at_rest(&mut fabric);
    // its switch had something to send all the time and no credits: in ticks of 4 bytes, 4 ns each on 4x SDR
    let waited = counters(&fabric, last_hop(&fabric, b)).xmit_wait;
    let blocked_ms = (sent - in_buffer) as u64;
    assert!(waited.abs_diff(blocked_ms * 250_000) < 500_000, "{waited}");
}

#[test]
fn a_paced_link_passes_no_more_than_its_rate() {
    let mut fabric = ring();
    // 4x SDR carries 8 Gb/s: 1 MB/s is a thousandth
    fabric.set_rate_scale(Some(0.001));
    let (a, b) = (hosts(&fabric)[0], hosts(&fabric)[5]);
    for _ in 0..100 {
        fabric.send_packet(Time(0), a, packet(a, b, 0, 996));
    }
    let mut times = Vec::new();
    while let Some(next) = fabric.poll_timeout() {
        while let Some(arrived) = fabric.poll_packet(next) {
            times.push(next);
            fabric.taken(arrived.room.unwrap());
        }
    }
    assert_eq!(times.len(), 100);
    // the first passes its links one after the other, 998 us each; then one comes each 998 us
    assert!(times[0].0 > MS && times[0].0 <= 4 * MS, "{:?}", times[0]);
    let each: Vec<u64> = times.windows(2).map(|two| two[1].0 - two[0].0).collect();
    assert!(
        each.iter().all(|gap| gap.abs_diff(998 * MS / 1000) < 1000),
        "{each:?}"
    );
    all_at_rest(&mut fabric);
}

/// A manager that enables one lane of four, at one end, has a quarter of the rate once the link is trained anew.
#[test]
fn a_link_is_as_fast_as_it_was_trained_to_be() {
    let mut fabric = ring();
    fabric.set_rate_scale(Some(0.001));
    let (a, b) = (hosts(&fabric)[0], hosts(&fabric)[5]);
    let times = |fabric: &mut Fabric| {
        let begin = fabric.links.clock;
        for _ in 0..20 {
            fabric.send_packet(begin, a, packet(a, b, 0, 996));
        }
        let mut times = Vec::new();
        while let Some(next) = fabric.poll_timeout() {
            while let Some(arrived) = fabric.poll_packet(next) {
                times.push(next);
                fabric.taken(arrived.room.unwrap());
            }
        }
        assert_eq!(times.len(), 20);
        (times[19].0 - times[0].0) / 19
    };
    let whole = times(&mut fabric);
    let last = last_hop(&fabric, b);
    let cable = fabric.plane().topology().cable_at(last).unwrap();
    let port = |fabric: &mut Fabric, end: PortId, change: fn(&mut PortInfo)| {
        let node = fabric.plane.node_mut(end.node);
        change(&mut node.ports[usize::from(end.port)].info);
    };
    port(&mut fabric, last, |info| info.link_width_enabled = 1);
    assert_eq!(times(&mut fabric), whole, "it is not trained anew yet");
    let now = fabric.links.clock;
    for up in [false, true] {
        fabric.set_cable(now, cable, up);
    }
    for end in fabric.plane().topology().cables()[cable].ends {
        port(&mut fabric, end, |info| info.state = PortState::ACTIVE);
    }
    assert!(times(&mut fabric).abs_diff(4 * whole) < 1000);
    all_at_rest(&mut fabric);
}

#[test]
fn a_link_that_goes_down_loses_what_waits_and_begins_again() {
    let mut fabric = ring();
    let (a, b) = (hosts(&fabric)[0], hosts(&fabric)[5]);
    for _ in 0..100 {
        fabric.send_packet(Time(0), a, packet(a, b, 0, 1024));
    }
    let came: Vec<_> = std::iter::from_fn(|| fabric.poll_packet(Time(0))).collect();
    let hop = last_hop(&fabric, b);
    let cable = fabric.plane().topology().cable_at(hop).unwrap();
    fabric.set_cable(Time(0), cable, false);
    while fabric.poll_packet(Time(0)).is_some() {}
    assert_eq!(
        fabric.packets(),
        [came.len() as u64, 100 - came.len() as u64]
    );
    let counted = counters(&fabric, hop);
    assert!(counted.xmit_discards > 0);
    assert_eq!(counted.discards.inactive, counted.xmit_discards);
    fabric.set_cable(Time(0), cable, true);
    // what lay in the old buffer is given back late: nothing comes of it
    for arrived in came {
        fabric.taken(arrived.room.unwrap());
    }
    all_at_rest(&mut fabric);
}

#[test]
fn credits_survive_spoilt_packets() {
    let mut fabric = ring();
    let (a, b) = (hosts(&fabric)[0], hosts(&fabric)[5]);
    let cable = fabric.plane().topology().cable_at(last_hop(&fabric, b));
    fabric.set_spoils(Time(0), cable.unwrap(), 500_000);
    // far more blocks than the buffer has
    for _ in 0..2000 {
        fabric.send_packet(Time(0), a, packet(a, b, 0, 1024));
        while let Some(arrived) = fabric.poll_packet(Time(0)) {
            fabric.taken(arrived.room.unwrap());
        }
    }
    let [came, lost] = fabric.packets();
    assert!(
        came + lost == 2000 && came.abs_diff(lost) < 200,
        "{came} {lost}"
    );
    all_at_rest(&mut fabric);
}

#[test]
fn a_packet_to_a_group_keeps_its_room_until_its_last_copy_has_left() {
    let mut fabric = ring();
    let all = hosts(&fabric);
    let a = all[0];
    // at each switch to every port but the ring's third cable: a tree
    let topology = fabric.plane().topology().clone();
    let switches: Vec<_> = topology.ids_of(NodeKind::Switch).collect();
    for id in &switches {
        let ports = 1..=topology.node(*id).ports;
        let wanted = ports.filter(|port| {
            let peer = topology.peer(PortId {
                node: *id,
                port: *port,
            });
            peer.is_some_and(|peer| {
                let ends = [*id, peer.node];
                !(ends.contains(&switches[1]) && ends.contains(&switches[2]))
            })
        });
        let mask = wanted.fold(0, |mask, port| mask | 1_u16 << port);
        let tables = fabric.plane.node_mut(*id).switch.as_mut().unwrap();
        assert!(tables.set_multicast_block(0, 0, &[mask; 32]));
    }
    let mut group = packet(a, a, 0, 1024);
    group[2..4].copy_from_slice(&0xc001_u16.to_be_bytes());
    let trailer = vcrc(&group[..1024]);
    group[1024..].copy_from_slice(&trailer.to_le_bytes());
    // one of them takes nothing: its switch keeps what comes, and gets no more when its buffer is full
    let slow = all[5];
    let mut kept = Vec::new();
    let mut came = std::collections::BTreeMap::<Place, usize>::new();
    for _ in 0..80 {
        assert!(fabric.send_packet(Time(0), a, group.clone()));
        while let Some(arrived) = fabric.poll_packet(Time(0)) {
            *came.entry(arrived.at).or_default() += 1;
            match arrived.at == slow {
                true => kept.extend(arrived.room),
                false => fabric.taken(arrived.room.unwrap()),
            }
        }
        assert_eq!(fabric.credits().wrong, 0);
    }
    assert_eq!(came.get(&all[0]), None, "not to whom it came from");
    let in_buffer = usize::from(BUFFER_BLOCKS) / 16;
    assert_eq!((came[&all[1]], came[&slow]), (80, in_buffer));
    // what waits for the slow one fills the buffer that its neighbour's copies came by
    assert_eq!(came[&all[4]], 2 * in_buffer);
    while let Some(room) = kept.pop() {
        fabric.taken(room);
        while let Some(arrived) = fabric.poll_packet(Time(0)) {
            *came.entry(arrived.at).or_default() += 1;
            match arrived.at == slow {
                true => kept.extend(arrived.room),
                false => fabric.taken(arrived.room.unwrap()),
            }
        }
    }
    assert!(all[1..].iter().all(|host| came[host] == 80), "{came:?}");
    all_at_rest(&mut fabric);
}

#[test]
fn what_lives_too_long_in_a_switch_is_let_go_of_and_its_neighbours_go_on() {
    let mut fabric = ring();
    let all = hosts(&fabric);
    // the second host at b's switch is the victim of who sends to b
    let (a, b, victim) = (all[0], all[5], all[4]);
    let switch = last_hop(&fabric, b).node;
    assert_eq!(switch, last_hop(&fabric, victim).node);
    let topology = fabric.plane().topology().clone();
    for id in topology.ids_of(NodeKind::Switch) {
        let tables = fabric.plane.node_mut(id).switch.as_mut().unwrap();
        // 4.096 us times 1024
        tables.info.lifetime = ferriband_wire::TimeCode(10);
    }
    while fabric.has_room(a) {
        fabric.send_packet(Time(0), a, packet(a, b, 0, 1024));
        while fabric.poll_packet(Time(0)).is_some() {}
    }
    fabric.send_packet(Time(0), a, packet(a, victim, 0, 1024));
    let mut reached = None;
    while let Some(next) = fabric.poll_timeout() {
        assert!(next < Time(1000 * MS));
        while let Some(arrived) = fabric.poll_packet(next) {
            if arrived.at == victim {
                reached = Some(next);
            }
        }
    }
    let reached = reached.expect("it gets there");
    assert!(
        reached > Time(4 * MS),
        "{reached}: it was behind those for b"
    );
    let counted = counters(&fabric, last_hop(&fabric, b));
    assert!(counted.xmit_discards > 0);
    assert_eq!(counted.discards.lifetime, counted.xmit_discards);
    assert_eq!(fabric.credits().wrong, 0);
}

#[test]
fn whatever_happens_no_credit_is_lost() {
    for seed in 0..40 {
        let mut chance = Random::new(seed, 0);
        let mut fabric = ring();
        fabric.set_rate_scale((seed % 2 == 1).then_some(0.001));
        let all = hosts(&fabric);
        let cables = fabric.plane().topology().cables().len() as u32;
        let mut now = Time(0);
        let mut rooms = Vec::new();
        for _ in 0..2000 {
            match chance.below(20) {
                0..10 => {
                    let from = all[chance.below(6) as usize];
                    let to = all[chance.below(6) as usize];
                    let length = 24 + 4 * chance.below(1000) as usize;
                    let sl = chance.below(8) as u8;
                    fabric.send_packet(now, from, packet(from, to, sl, length));
                }
                10..17 => {
                    let count = rooms.len().min(1 + chance.below(4) as usize);
                    for room in rooms.drain(..count) {
                        fabric.taken(room);
                    }
                }
                17 => {
                    let cable = chance.below(cables) as usize;
                    fabric.set_cable(now, cable, chance.below(3) > 0);
                    activate(&mut fabric);
                }
                18 => {
                    let cable = chance.below(cables) as usize;
                    fabric.set_spoils(Time(0), cable, chance.below(2) * 100_000);
                }
                _ => now += Time(u64::from(chance.below(20)) * MS),
            }
            while let Some(arrived) = fabric.poll_packet(now) {
                rooms.extend(arrived.room);
            }
            assert_eq!(fabric.credits().wrong, 0, "seed {seed}");
        }
        // everybody takes what is there
        loop {
            while let Some(room) = rooms.pop() {
                fabric.taken(room);
            }
            let Some(next) = fabric.poll_timeout() else {
                break;
            };
            now = now.max(next);
            while let Some(arrived) = fabric.poll_packet(now) {
                rooms.extend(arrived.room);
            }
        }
        all_at_rest(&mut fabric);
    }
}

/// What a manager does with links that came up.
fn activate(fabric: &mut Fabric) {
    use ferriband_wire::attributes::PortState;
    for id in fabric.plane().topology().clone().ids() {
        for port in &mut fabric.plane.node_mut(id).ports {
            if port.info.state == PortState::INIT {
                port.info.state = PortState::ACTIVE;
            }
        }
    }
}
