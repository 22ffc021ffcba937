//! What a wait costs, and that it finds what is there each time: `cargo test -p
//! ferriband-sdp-socket --lib -- --nocapture cost`.

use super::world::{Socket, World, pair};
use super::*;
use std::time::Instant;

/// 200,000 for figures to be believed, on an idle machine.
const ROUNDS: u32 = 2_000;

/// Nanoseconds of one, the best of five runs.
fn best(mut what: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let begun = Instant::now();
        (0..ROUNDS).for_each(|_| what());
        best = best.min(begun.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
    }
    best
}

fn wait_one(epoll: &Epoll, events: &mut [Event], time: Option<Duration>) -> usize {
    let signals = None;
    wait(epoll.0, events, Patience { time, signals }).expect("no signal")
}

fn kernel_wait(epoll: &Epoll, events: &mut [Event]) -> usize {
    let (time, signals) = (NOW, None);
    let patience = Patience { time, signals };
    // SAFETY: a slice of so many.
    let count = unsafe { kernel::wait(epoll.0, events.as_mut_ptr(), events.len(), patience) };
    count.expect("no signal")
}

#[test]
fn cost_of_a_wait() {
    let _alone = alone();
    let kind = rustix::process::Resource::Nofile;
    let mut limit = rustix::process::getrlimit(kind);
    limit.current = limit.maximum;
    rustix::process::setrlimit(kind, limit).expect("set");
    // two descriptors a connection
    let most = limit
        .maximum
        .map_or(10_000, |most| (most as usize - 1000) / 2);
    let mut events = [Event::default(); 64];
    {
        let epoll = Epoll::new();
        let bell = kernel::event().expect("a descriptor");
        let number = std::os::fd::AsRawFd::as_raw_fd(&bell);
        let idle = best(|| assert_eq!(kernel_wait(&epoll, &mut events), 0));
        epoll
            .try_ctl(libc::EPOLL_CTL_ADD, number, IN, 1)
            .expect("added");
        ferriband_host::wake::signal(std::os::fd::AsFd::as_fd(&bell));
        let kernel = best(|| assert_eq!(kernel_wait(&epoll, &mut events), 1));
        let ours = best(|| assert_eq!(wait_one(&epoll, &mut events, NOW), 1));
        eprintln!("kernel alone: nothing {idle:.0} ns, one ready {kernel:.0} ns");
        eprintln!("instance without links, one ready: {ours:.0} ns");
    }
    measure_tcp(&mut events);
    for idle in [0, 50, most.min(200)] {
        measure(idle, &mut events);
    }
}

/// Prints what a wait costs in an instance whose sockets TCP alone carries.
fn measure_tcp(events: &mut [Event]) {
    let epoll = Epoll::new();
    let (here, there) = pair();
    epoll.add(&there, IN, 1);
    let send = |bytes: &[u8]| here.try_send(bytes);
    send(b"a");
    let level = best(|| assert_eq!(wait_one(&epoll, events, None), 1));
    there.receive(9);
    let cycle = best(|| {
        send(b"a");
        assert_eq!(wait_one(&epoll, events, None), 1);
        there.try_receive(9).expect("a byte");
        assert_eq!(wait_one(&epoll, events, NOW), 0);
    });
    eprintln!(
        "TCP: one ready {level:.0} ns; with send, receive and wait for nothing {cycle:.0} ns"
    );
}

fn measure(idle: usize, events: &mut [Event]) {
    let world = World::new();
    let epoll = Epoll::new();
    let mut pairs: Vec<(Socket, Socket)> = Vec::new();
    let (here, there) = pair();
    epoll.add(&there, IN, 1);
    world.link(&here, &there);
    world.change_over(&here, &there);
    for _ in 0..idle {
        let (here, there) = pair();
        epoll.add(&there, IN, 2);
        world.link(&here, &there);
        world.offer(&here);
        world.offer(&there);
        pairs.push((here, there));
    }
    epoll.quiet();
    let nothing = best(|| assert_eq!(wait_one(&epoll, events, NOW), 0));
    let send = |bytes: &[u8]| here.try_send(bytes);
    send(b"a");
    let level = best(|| assert_eq!(wait_one(&epoll, events, None), 1));
    there.receive(9);
    epoll.quiet();
    let talk = best(|| {
        send(b"a");
        there.try_receive(9).expect("a byte");
    });
    let cycle = best(|| {
        send(b"a");
        assert_eq!(wait_one(&epoll, events, None), 1);
        there.try_receive(9).expect("a byte");
        assert_eq!(wait_one(&epoll, events, NOW), 0);
    });
    epoll.change(&there, IN | ET, 1);
    epoll.quiet();
    let edges = best(|| {
        send(b"a");
        assert_eq!(wait_one(&epoll, events, None), 1);
        there.try_receive(9).expect("a byte");
    });
    eprintln!(
        "{idle} idle beside: nothing {nothing:.0} ns, one ready {level:.0} ns; \
         send + receive {talk:.0} ns, with wait and wait for nothing {cycle:.0} ns, \
         edge-triggered with wait {edges:.0} ns"
    );
}
