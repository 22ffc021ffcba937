//! Two processes in one, on Ferriband's own adapter: the paper's puts and gets.

mod common;

use common::Side;
use ferriband_putget_proto::tags::Direction;
use ferriband_putget_proto::{Kind, Status};
use ferriband_putget_verbs::{Left, Peer};
use std::time::{Duration, Instant};

fn pair() -> (Side, Side, Peer) {
    let (one, other) = (Side::new(16, 8), Side::new(16, 8));
    let peer = one.join(other.address());
    (one, other, peer)
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed))
        .collect()
}

#[test]
fn puts_and_gets_of_all_lengths_by_both_ways_bring_each_byte() {
    let (one, other, peer) = pair();
    one.register(1, 1 << 20);
    other.register(2, 1 << 20);
    let lengths = [0, 1, 4, 28, 100, 152, 153, 2012, 2013, 4096, 65537, 1 << 20];
    for (round, length) in lengths.into_iter().enumerate() {
        for long in [false, true] {
            if !long && length > 2012 {
                continue;
            }
            let bytes = pattern(length, round as u8);
            one.write(1, 0, &bytes);
            other.bind(2, Direction::Incoming, 7);
            one.ask(peer, Kind::Put, (1, 2), length as u64, long, Some(8));
            let (told, acknowledged) = (other.told(), one.told());
            assert_eq!((told.note.0, told.status), (7, Status::Ok));
            assert_eq!(
                (acknowledged.note.0, acknowledged.length),
                (8, length as u64)
            );
            assert_eq!(
                other.read(2, 0, length),
                bytes,
                "put of {length}, long: {long}"
            );

            let bytes = pattern(length, 77 + round as u8);
            other.write(2, 0, &bytes);
            one.bind(1, Direction::Incoming, 9);
            one.ask(peer, Kind::Get, (1, 2), length as u64, long, None);
            assert_eq!(one.told().note.0, 9);
            assert_eq!(
                one.read(1, 0, length),
                bytes,
                "get of {length}, long: {long}"
            );
        }
    }
    assert_eq!(other.server.with(|node| node.users.held), 0);
}

#[test]
fn the_papers_ping_pong() {
    let (master, slave, there) = pair();
    master.register(1, 4096);
    slave.register(1, 4096);
    let here = slave.until(|node| node.users.joined.first().copied());
    for round in 0..500_u32 {
        let length = if round % 2 == 0 { 4 } else { 4096 };
        master.bind(1, Direction::Incoming, 1);
        slave.bind(1, Direction::Incoming, 2);
        master.write(1, 0, &round.to_ne_bytes());
        master.ask(there, Kind::Put, (1, 1), length, length > 2012, None);
        assert_eq!(slave.told().note.0, 2);
        assert_eq!(slave.read(1, 0, 4), round.to_ne_bytes());
        slave.ask(here, Kind::Put, (1, 1), length, length > 2012, None);
        assert_eq!(master.told().note.0, 1);
    }
    let stats = slave.server.with(|node| *node.stats(here).expect("joined"));
    assert_eq!(
        (stats.served.short_puts, stats.served.long_puts),
        (250, 250)
    );
}

/// The paper's accounting: an interrupt for the request, and one for the RDMA of a long one; a
/// message is a header of 36 bytes and its payload.
#[test]
fn a_round_trip_costs_each_side_one_notification_if_it_is_short_and_two_if_it_is_long() {
    const ROUNDS: u64 = 300;
    for (length, rdma) in [(4, 0), (2012, 0), (2013, 1), (65_536, 1)] {
        let (master, slave, there) = pair();
        master.register(1, 1 << 16);
        slave.register(1, 1 << 16);
        let here = slave.until(|node| node.users.joined.first().copied());
        for _ in 0..ROUNDS {
            for (from, to, peer) in [(&master, &slave, there), (&slave, &master, here)] {
                to.bind(1, Direction::Incoming, 1);
                from.ask(peer, Kind::Put, (1, 1), length, rdma > 0, None);
                assert_eq!(to.told().length, length);
            }
        }
        // the last request's end may be under way, and comes without an event
        let is_quiet = |side: &Side, peer| {
            side.server.with(|node| {
                node.look().expect("a look");
                node.is_quiet(peer)
            })
        };
        let quiet = |side: &Side, peer| {
            let end = Instant::now() + common::PATIENCE;
            while !is_quiet(side, peer) {
                assert!(Instant::now() < end, "a request does not end");
                std::thread::yield_now();
            }
            side.server.with(|node| *node.stats(peer).expect("joined"))
        };
        for stats in [quiet(&master, there), quiet(&slave, here)] {
            assert_eq!(
                (stats.paths.solicited, stats.paths.rdma),
                (ROUNDS, ROUNDS * rdma)
            );
            // a long one's request and the end of the peer's carry no payload
            let (messages, payload) = match rdma {
                0 => (ROUNDS, length),
                _ => (2 * ROUNDS, 0),
            };
            assert_eq!(
                (stats.paths.messages, stats.paths.credits),
                (messages, 0),
                "{length}"
            );
            assert_eq!(
                stats.paths.message_bytes,
                messages * (36 + payload),
                "{length}"
            );
        }
    }
}

#[test]
fn many_puts_that_nobody_waits_for_arrive() {
    let (one, other, peer) = pair();
    one.register(1, 8192);
    other.register(1, 8192);
    for round in 0..3000_u32 {
        let long = round % 3 == 0;
        one.ask(
            peer,
            Kind::Put,
            (1, 1),
            if long { 8192 } else { 16 },
            long,
            None,
        );
    }
    one.ask(peer, Kind::Put, (1, 1), 16, false, Some(5));
    assert_eq!(one.told().note.0, 5);
    let back = other.until(|node| node.users.joined.first().copied());
    let stats = other.server.with(|node| *node.stats(back).expect("joined"));
    assert_eq!(
        (stats.served.short_puts, stats.served.long_puts),
        (2001, 1000)
    );
}

#[test]
fn a_refusal_is_told_to_who_asked_for_it() {
    let (one, _other, peer) = pair();
    one.register(1, 64);
    one.ask(peer, Kind::Put, (1, 9), 64, false, Some(3));
    assert_eq!(one.told().status, Status::NoMemory);
    one.bind(1, Direction::Incoming, 4);
    one.ask(peer, Kind::Get, (1, 9), 64, true, None);
    one.ask(peer, Kind::Get, (1, 9), 64, true, Some(5));
    let told = one.told();
    // an acknowledged get fires the notification, too
    assert_eq!((told.note.0, told.status), (4, Status::NoMemory));
    assert_eq!(one.told().note.0, 5);
}

#[test]
fn both_ask_at_once_and_one_connection_stands() {
    for _ in 0..20 {
        let (one, other) = (Side::new(16, 8), Side::new(16, 8));
        let (to_other, to_one) = std::thread::scope(|scope| {
            let first = scope.spawn(|| one.join(other.address()));
            let second = scope.spawn(|| other.join(one.address()));
            (
                first.join().expect("joined"),
                second.join().expect("joined"),
            )
        });
        one.register(1, 64);
        other.register(1, 64);
        one.ask(to_other, Kind::Put, (1, 1), 64, false, Some(1));
        other.ask(to_one, Kind::Put, (1, 1), 64, true, Some(2));
        assert_eq!((one.told().note.0, other.told().note.0), (1, 2));
    }
}

#[test]
fn who_only_begins_hears_of_credits_that_come_unsolicited() {
    let (one, other, peer) = pair();
    one.register(1, 8192);
    other.register(1, 8192);
    // the thread has armed for solicited messages, and nobody else looks
    std::thread::sleep(Duration::from_millis(20));
    let end = Instant::now() + common::PATIENCE;
    for round in 0..300 {
        let long = round % 2 == 0;
        let length = if long { 8192 } else { 16 };
        let begin = || {
            one.server
                .with(|node| common::ask(node, peer, Kind::Put, (1, 1), length, long, None))
        };
        while begin().is_none() {
            assert!(Instant::now() < end, "no room after {round} puts");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_peer_that_leaves_and_comes_back_at_once_is_joined() {
    let (one, other, mut peer) = pair();
    one.register(1, 64);
    other.register(1, 64);
    for round in 0..50 {
        one.server.with(|node| {
            node.leave(peer);
            node.users.left.clear();
        });
        peer = one.join(other.address());
        one.ask(peer, Kind::Put, (1, 1), 64, round % 2 == 0, Some(round));
        let told = one.told();
        assert_eq!((told.note.0, told.status), (round, Status::Ok));
    }
}

#[test]
fn the_end_of_a_process_is_told_and_nobody_listens_afterwards() {
    let (one, other, peer) = pair();
    one.register(1, 64);
    let address = other.address();
    drop(other);
    let left = one.until(|node| node.users.left.pop());
    assert_eq!(left, (peer, Left::Lost));
    one.server.with(|node| {
        assert_eq!(node.peer(address), peer);
        node.join(peer).expect("asked");
    });
    let left = one.until(|node| node.users.left.pop());
    assert_eq!(left, (peer, Left::Unreachable));
}
