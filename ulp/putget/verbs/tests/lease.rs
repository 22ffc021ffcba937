//! Two processes in one, on Ferriband's own adapter: memory that is reached by leases.

mod common;

use common::{Process, Side};
use ferriband_ibv::Region;
use ferriband_putget_proto::{Direct, DirectOp, Kind, Lease, NotDirect, Rights, Started, Status};
use ferriband_putget_verbs::{Left, Node, Peer, Waited};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LENGTH: usize = 1 << 20;
const ALL: Rights = Rights::PUT.union(Rights::GET).union(Rights::ATOMIC);

/// Two processes, the first of which holds a lease of the second's buffer 2, and the second's name
/// for the first.
fn leased(rights: Rights) -> (Side, Side, Peer, Peer) {
    let (one, other) = (Side::new(16, 8), Side::new(16, 8));
    let peer = one.join(other.address());
    one.register(1, LENGTH);
    other.register(2, LENGTH);
    let back = other.until(|node| node.users.joined.first().copied());
    give(&other, back, 5, rights);
    holds(&one, peer);
    (one, other, peer, back)
}

/// Waits for a lease of a peer. It comes unsolicited, so nobody who sleeps is woken for it.
fn holds(side: &Side, peer: Peer) {
    let end = Instant::now() + common::PATIENCE;
    let once = Some(Duration::ZERO);
    let is_there = |node: &mut Node<Process>| node.has_leases(peer).then_some(());
    while side.server.wait(once, is_there).expect("it looks") == Waited::TimedOut {
        assert!(
            Instant::now() < end,
            "no lease within {:?}",
            common::PATIENCE
        );
        std::thread::yield_now();
    }
}

fn give(side: &Side, to: Peer, token: u64, rights: Rights) {
    let given = side.server.with(|node| {
        let lease = Lease {
            token,
            tag: 2,
            address: b"here",
            rights,
            memory: node.users.lendable(2),
        };
        node.lease(to, &lease)
    });
    assert!(given);
}

/// Begins an operation as soon as there is room, and waits for its end.
fn go(side: &Side, peer: Peer, op: DirectOp, offset: u64, length: u64) -> Result<(), NotDirect> {
    let begun = side.until(|node| {
        let kind = if op == DirectOp::Put {
            Kind::Put
        } else {
            Kind::Get
        };
        let token = node.users.note(1, kind, length);
        let direct = Direct {
            op,
            tag: 2,
            address: b"here",
            offset,
            length,
            observed: true,
            token,
        };
        match node.direct(peer, &direct) {
            Err(NotDirect::Full) => None,
            other => Some((token, other)),
        }
    });
    let (token, started) = begun;
    assert_eq!(started?, Started::Answered);
    let answer = side.until(|node| {
        let mut ended = node.users.ended.iter();
        ended.find(|ended| ended.0 == token).map(|ended| ended.1)
    });
    assert_eq!((answer.status, answer.length), (Status::Ok, length));
    Ok(())
}

fn word(side: &Side, tag: u32, at: usize) -> u64 {
    let bytes = side.read(tag, at, 8);
    u64::from_ne_bytes(bytes.try_into().expect("eight"))
}

#[test]
fn puts_and_gets_of_all_lengths_move_each_byte() {
    let (one, other, peer, back) = leased(ALL);
    for (round, length) in [0, 1, 8, 188, 189, 2048, 2049, 65537, LENGTH]
        .into_iter()
        .enumerate()
    {
        let bytes: Vec<u8> = (0..length).map(|at| (at * 31 + round) as u8).collect();
        let offset = LENGTH - length;
        one.write(1, 0, &bytes);
        go(&one, peer, DirectOp::Put, offset as u64, length as u64).expect("it goes");
        assert_eq!(other.read(2, offset, length), bytes, "put of {length}");
        one.write(1, 0, &vec![0; length]);
        go(&one, peer, DirectOp::Get, offset as u64, length as u64).expect("it goes");
        assert_eq!(one.read(1, 0, length), bytes, "get of {length}");
    }
    let served = other
        .server
        .with(|node| node.stats(back).map(|stats| stats.served));
    assert_eq!(served, Some(Default::default()));
    let past = go(&one, peer, DirectOp::Put, LENGTH as u64 - 7, 8);
    assert_eq!(past, Err(NotDirect::ByMessage));
}

#[test]
fn atomics_bring_the_value_before() {
    let (one, other, peer, _) = leased(ALL);
    other.write(2, 64, &40_u64.to_ne_bytes());
    go(&one, peer, DirectOp::Add(2), 64, 8).expect("it goes");
    assert_eq!((word(&one, 1, 0), word(&other, 2, 64)), (40, 42));
    for (compare, after) in [(41, 42), (42, 9)] {
        let swap = DirectOp::Swap { compare, swap: 9 };
        go(&one, peer, swap, 64, 8).expect("it goes");
        assert_eq!((word(&one, 1, 0), word(&other, 2, 64)), (42, after));
    }
}

#[test]
fn puts_that_count_are_told_with_their_lengths() {
    let (one, other, peer, _) = leased(Rights::PUT | Rights::COUNTS);
    let lengths: Vec<u64> = (0..100).map(|round| round * 41).collect();
    for length in &lengths {
        go(&one, peer, DirectOp::Put, 0, *length).expect("it goes");
    }
    other.until(|node| (node.users.counted.len() == lengths.len()).then_some(()));
    let counted = other.server.with(|node| node.users.counted.clone());
    let due: Vec<(u64, u64)> = lengths.into_iter().map(|length| (5, length)).collect();
    assert_eq!(counted, due);
}

#[test]
fn a_lease_comes_back_when_it_is_revoked_and_can_be_given_again() {
    let (one, other, peer, back) = leased(ALL);
    for _ in 0..20 {
        holds(&one, peer);
        for _ in 0..10 {
            go(&one, peer, DirectOp::Put, 0, 4096).expect("it goes");
        }
        other.server.with(|node| node.revoke(back, 5));
        other.until(|node| node.users.returned.pop());
        let refused = go(&one, peer, DirectOp::Put, 0, 8);
        assert_eq!(refused, Err(NotDirect::ByMessage));
        give(&other, back, 5, ALL);
    }
}

#[test]
fn a_target_that_does_nothing_is_written_to() {
    let (one, other, peer, _) = leased(Rights::PUT);
    let region = other.server.with(|node| node.users.region_of(2));
    // nobody can look at the target's completions while this goes on
    other.server.with(|_| {
        for value in 1..=1000_u64 {
            one.write(1, 0, &value.to_ne_bytes());
            go(&one, peer, DirectOp::Put, 8, 8).expect("it goes");
            assert_eq!(read(&region, 8), value);
        }
    });
}

fn read(region: &Region, at: usize) -> u64 {
    let mut bytes = [0; 8];
    region.read(at, &mut bytes).expect("it fits");
    u64::from_ne_bytes(bytes)
}

#[test]
fn who_keeps_a_revoked_lease_is_disconnected() {
    let (one, other, _, back) = leased(ALL);
    let (held, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // the holder does not look
        scope.spawn(|| {
            one.server.with(|_| {
                held.store(true, Ordering::SeqCst);
                let end = Instant::now() + common::PATIENCE;
                while !over.load(Ordering::SeqCst) && Instant::now() < end {
                    std::thread::yield_now();
                }
            });
        });
        while !held.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        other.server.with(|node| node.revoke(back, 5));
        let returned = other.until(|node| node.users.returned.pop());
        let left = other.server.with(|node| node.users.left.pop());
        over.store(true, Ordering::SeqCst);
        assert_eq!((returned, left), (5, Some((back, Left::Lost))));
    });
}
