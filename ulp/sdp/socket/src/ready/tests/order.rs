//! In which order a wait tells what is ready.

use super::*;

/// What is told once this many are ready.
fn told(epoll: &Epoll, count: usize) -> Vec<u64> {
    // what the kernel has may be told by a later wait
    for _ in 0..1_000 {
        let told = epoll.wait(LONG);
        if told.len() == count {
            return told.into_iter().map(|(_, data)| data).collect();
        }
    }
    panic!("{count} were never ready at once");
}

/// Connections that go by rings; the ends there are watched by their places.
fn rings(world: &World, epoll: &Epoll, count: u64) -> Vec<(Socket, Socket)> {
    let all = (0..count).map(|at| {
        let (here, there) = pair();
        epoll.add(&there, IN, at);
        world.link(&here, &there);
        world.change_over(&here, &there);
        (here, there)
    });
    all.collect()
}

#[test]
fn rings_are_told_as_they_were_filled() {
    let _alone = alone();
    let world = World::new();
    let epoll = Epoll::new();
    let pairs = rings(&world, &epoll, 6);
    for is_parked in [true, false] {
        for order in [[3, 0, 5, 1, 4, 2], [5, 4, 3, 2, 1, 0], [1, 5, 0, 4, 2, 3]] {
            if is_parked {
                epoll.quiet();
            }
            for at in order {
                pairs[at as usize].0.send(b"a");
            }
            assert_eq!(told(&epoll, 6), order);
            // what is added makes none ready
            pairs[order[0] as usize].0.send(b"b");
            assert_eq!(told(&epoll, 6), order);
            for (_, there) in &pairs {
                assert!(!there.receive(9).is_empty());
            }
            assert_eq!(epoll.wait(NOW), []);
        }
    }
}

#[test]
fn what_comes_by_tcp_is_told_before_a_ring_that_was_filled_later() {
    let _alone = alone();
    let world = World::new();
    let epoll = Epoll::new();
    let mut pairs = rings(&world, &epoll, 2);
    for is_linked in [false, true] {
        let (here, there) = pair();
        epoll.add(&there, IN, 2);
        if is_linked {
            world.link(&here, &there);
        }
        pairs.push((here, there));
        for is_parked in [true, false] {
            for order in [[0, 2, 1], [2, 0, 1], [2, 1, 0], [1, 0, 2], [0, 1, 2]] {
                if is_parked {
                    epoll.quiet();
                }
                for at in order {
                    pairs[at as usize].0.send(b"a");
                }
                assert_eq!(told(&epoll, 3), order, "linked: {is_linked}");
                for (_, there) in &pairs {
                    assert_eq!(there.receive(9), b"a");
                }
                assert_eq!(epoll.wait(NOW), []);
            }
        }
        pairs.pop();
    }
}
