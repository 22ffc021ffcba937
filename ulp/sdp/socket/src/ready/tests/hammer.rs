//! Threads that wait, send, receive and change directions as they like. Every byte arrives, in its
//! order, nobody sleeps while there is something, and nobody is awake for nothing.

use super::world::{Socket, World, pair};
use super::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::Instant;

/// A generator of the test's own.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// The byte at a place of a stream.
fn byte(stream: u64, at: u64) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16) ^ stream.wrapping_mul(31)) as u8
}

/// How a registration is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Level,
    Edge,
    Once,
}

/// One end of a connection: it sends so many bytes, and receives those of its peer.
struct End {
    socket: Socket,
    stream: u64,
    progress: Mutex<Progress>,
}

struct Progress {
    sent: u64,
    received: u64,
    random: Random,
    /// What is registered, so far as it changes.
    wants: u32,
}

impl End {
    fn new(socket: Socket, stream: u64) -> Self {
        let progress = Progress {
            sent: 0,
            received: 0,
            random: Random::new(stream + 1),
            wants: IN | OUT,
        };
        Self {
            socket,
            stream,
            progress: Mutex::new(progress),
        }
    }

    /// Sends and receives as far as it goes. `is_lazy`: not always.
    fn go_on(&self, length: u64, is_lazy: bool) -> (u64, u32) {
        let mut progress = self.progress.lock().expect("no panic");
        let before = progress.sent + progress.received;
        loop {
            let most = 1 + progress.random.below(20_000);
            let Ok(bytes) = self.socket.try_receive(most as usize) else {
                break;
            };
            if bytes.is_empty() {
                break;
            }
            for got in bytes {
                assert_eq!(got, byte(self.stream ^ 1, progress.received));
                progress.received += 1;
            }
            if is_lazy && progress.random.below(3) == 0 {
                break;
            }
        }
        while progress.sent < length {
            let most = (1 + progress.random.below(9_000)).min(length - progress.sent);
            let from = progress.sent;
            let bytes: Vec<_> = (from..from + most)
                .map(|at| byte(self.stream, at))
                .collect();
            let Some(sent) = self.socket.try_send(&bytes) else {
                break;
            };
            progress.sent += sent as u64;
            if is_lazy && progress.random.below(3) == 0 {
                break;
            }
        }
        progress.wants = if progress.sent < length { IN | OUT } else { IN };
        let done = progress.sent + progress.received;
        (done - before, progress.wants)
    }

    fn is_done(&self, length: u64) -> bool {
        let progress = self.progress.lock().expect("no panic");
        progress.sent == length && progress.received == length
    }
}

/// What wakes all threads at the end: a descriptor that SDP does not carry.
struct Stop {
    event: std::os::fd::OwnedFd,
    over: AtomicBool,
}

const STOP: u64 = u64::MAX;

impl Stop {
    fn new(instances: &[Epoll]) -> Self {
        use std::os::fd::AsRawFd;
        let event = kernel::event().expect("a descriptor");
        for epoll in instances {
            let add = libc::EPOLL_CTL_ADD;
            epoll
                .try_ctl(add, event.as_raw_fd(), IN, STOP)
                .expect("added");
        }
        let over = AtomicBool::new(false);
        Self { event, over }
    }

    fn ring(&self) {
        self.over.store(true, Ordering::SeqCst);
        ferriband_host::wake::signal(std::os::fd::AsFd::as_fd(&self.event));
    }
}

struct RingOnPanic<'a>(&'a Stop);

impl Drop for RingOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.ring();
        }
    }
}

struct Run {
    kind: Kind,
    threads: usize,
    instances: usize,
    connections: u64,
    length: u64,
    goes_back: bool,
}

impl Run {
    fn bits(&self) -> u32 {
        match self.kind {
            Kind::Level => 0,
            Kind::Edge => ET,
            Kind::Once => ONESHOT,
        }
    }

    /// Gives how often a wait gave events with which nothing could be done, and how many waits gave
    /// any.
    fn run(&self, seed: u64) -> (u64, u64) {
        let world = World::new();
        let mut ends = Vec::new();
        for connection in 0..self.connections {
            let (here, there) = pair();
            ends.push(End::new(here, seed * 1000 + connection * 2));
            ends.push(End::new(there, seed * 1000 + connection * 2 + 1));
        }
        let instances: Vec<_> = (0..self.instances).map(|_| Epoll::new()).collect();
        for (at, end) in ends.iter().enumerate() {
            for epoll in &instances {
                epoll.add(&end.socket, IN | OUT | self.bits(), at as u64);
            }
        }
        let (idle, busy) = (AtomicU64::new(0), AtomicU64::new(0));
        let stop = Stop::new(&instances);
        let begun = Instant::now();
        thread::scope(|scope| {
            for number in 0..self.threads {
                let epoll = &instances[number % instances.len()];
                let (ends, stop, idle, busy) = (&ends, &stop, &idle, &busy);
                scope.spawn(move || self.wait(epoll, ends, stop, idle, busy));
            }
            let mut random = Random::new(seed);
            for ends in ends.chunks(2) {
                thread::sleep(Duration::from_micros(random.below(1000)));
                world.link(&ends[0].socket, &ends[1].socket);
            }
            while !ends.iter().all(|end| end.is_done(self.length)) {
                if begun.elapsed() > Duration::from_secs(30) {
                    stop.ring();
                    panic!("{}", self.stuck(&ends));
                }
                let end = &ends[random.below(ends.len() as u64) as usize];
                if self.goes_back && random.below(8) == 0 {
                    end.socket.go_back();
                } else {
                    world.offer(&end.socket);
                }
                thread::sleep(Duration::from_micros(random.below(700)));
            }
            stop.ring();
        });
        let mut by_tcp = 0;
        for end in &ends {
            assert_eq!(end.socket.try_receive(1), Err(Errno::AGAIN));
            by_tcp += crate::tcp::info(end.socket.fd()).expect("told").sent;
        }
        eprint!(
            "{} % by TCP, ",
            by_tcp * 100 / (self.length * ends.len() as u64)
        );
        (idle.load(Ordering::SeqCst), busy.load(Ordering::SeqCst))
    }

    fn wait(&self, epoll: &Epoll, ends: &[End], stop: &Stop, idle: &AtomicU64, busy: &AtomicU64) {
        // a failure ends the others as well
        let _end = RingOnPanic(stop);
        while !stop.over.load(Ordering::SeqCst) {
            // without an end: who is not woken sleeps on
            let told = epoll.wait(None);
            busy.fetch_add(1, Ordering::SeqCst);
            for (_, at) in told.into_iter().filter(|(_, at)| *at != STOP) {
                let end = &ends[at as usize];
                let is_lazy = self.kind != Kind::Edge;
                let (done, wants) = end.go_on(self.length, is_lazy);
                idle.fetch_add(u64::from(done == 0), Ordering::SeqCst);
                if self.kind != Kind::Edge {
                    epoll.change(&end.socket, wants | self.bits(), at);
                }
            }
        }
    }

    fn stuck(&self, ends: &[End]) -> String {
        let mut text = format!("{:?}:", self.kind);
        for end in ends {
            let progress = end.progress.lock().expect("no panic");
            let phases = end.socket.phases();
            text += &format!(" {}/{} {phases:?};", progress.sent, progress.received);
        }
        text
    }
}

#[test]
fn bytes_arrive_whatever_waits() {
    let _alone = alone();
    let mut seed = 0;
    for kind in [Kind::Level, Kind::Edge, Kind::Once] {
        for (threads, instances) in [(1, 1), (3, 1), (2, 2), (4, 2)] {
            for goes_back in [false, true] {
                seed += 1;
                // ONESHOT is of an instance: another would report it as well
                let run = Run {
                    kind,
                    threads,
                    instances,
                    connections: 3,
                    length: 6_000_000,
                    goes_back,
                };
                let (idle, busy) = run.run(seed);
                eprintln!(
                    "{kind:?} {threads} threads {instances} instances, goes back {goes_back}: {busy} waits, {idle} for nothing"
                );
            }
        }
    }
}

#[test]
fn pollers_and_an_instance_share_the_work() {
    const LENGTH: u64 = 6_000_000;
    let _alone = alone();
    for seed in 0..4 {
        let world = World::new();
        let (here, there) = pair();
        world.link(&here, &there);
        let ends = [End::new(here, seed * 2), End::new(there, seed * 2 + 1)];
        let epoll = Epoll::new();
        // one end is an instance's and a poller's, the other two pollers'
        epoll.add(&ends[0].socket, IN | OUT, 0);
        let stop = Stop::new(std::slice::from_ref(&epoll));
        let begun = Instant::now();
        thread::scope(|scope| {
            for end in [0, 1, 1] {
                let (end, stop) = (&ends[end], &stop);
                scope.spawn(move || poll_on(end, stop, LENGTH));
            }
            scope.spawn(|| {
                let _end = RingOnPanic(&stop);
                while !stop.over.load(Ordering::SeqCst) {
                    if epoll.wait(None).iter().any(|(_, at)| *at != STOP) {
                        let (_, wants) = ends[0].go_on(LENGTH, true);
                        epoll.change(&ends[0].socket, wants, 0);
                    }
                }
            });
            let mut random = Random::new(seed);
            while !ends.iter().all(|end| end.is_done(LENGTH)) {
                if begun.elapsed() > Duration::from_secs(30) {
                    stop.ring();
                    panic!(
                        "{:?} {:?}",
                        ends[0].socket.phases(),
                        ends[1].socket.phases()
                    );
                }
                world.offer(&ends[random.below(2) as usize].socket);
                thread::sleep(Duration::from_micros(random.below(700)));
            }
            stop.ring();
        });
    }
}

fn poll_on(end: &End, stop: &Stop, length: u64) {
    let _end = RingOnPanic(stop);
    let mut wants = IN | OUT;
    while !stop.over.load(Ordering::SeqCst) {
        let one = |fd, events: u32| Polled {
            fd,
            events: events as i16,
            revents: 0,
        };
        let event = std::os::fd::AsRawFd::as_raw_fd(&stop.event);
        let mut polled = [one(end.socket.number, wants), one(event, IN)];
        let (time, signals) = (None, None);
        poll(&mut polled, Patience { time, signals }).expect("no signal");
        if polled[0].revents != 0 {
            wants = end.go_on(length, true).1;
        }
    }
}

#[test]
fn connections_come_and_go_while_threads_wait() {
    let _alone = alone();
    let world = World::new();
    let epoll = Epoll::new();
    let stop = Stop::new(std::slice::from_ref(&epoll));
    let told = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.over.load(Ordering::SeqCst) {
                    let found = epoll.wait(None);
                    told.fetch_add(found.len() as u64, Ordering::SeqCst);
                }
            });
        }
        for round in 0..150 {
            let _end = RingOnPanic(&stop);
            let (here, there) = pair();
            epoll.add(&there, [IN, IN | ET, IN | ONESHOT][round % 3], 0);
            world.link(&here, &there);
            let before = told.load(Ordering::SeqCst);
            here.send(b"a");
            soon(|| told.load(Ordering::SeqCst) > before);
            if round % 2 == 0 {
                epoll.remove(&there);
            }
            drop(if round % 4 < 2 { here } else { there });
        }
        stop.ring();
    });
    // nothing is left of them
    let known = super::instance_of(epoll.0).expect("known");
    assert_eq!(known.inside.enter().expect("free").all().count(), 0);
}

/// How often the calling thread has gone to sleep.
fn sleeps() -> i64 {
    // SAFETY: of this structure zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes the structure.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nvcsw
}

#[test]
fn who_waits_for_nothing_sleeps() {
    let _alone = alone();
    let world = World::new();
    let epoll = Epoll::new();
    let mut pairs = Vec::new();
    for at in 0..100 {
        let (here, there) = pair();
        epoll.add(&there, [IN, IN | ET, IN | ONESHOT, IN | RDHUP][at % 4], 0);
        world.link(&here, &there);
        if at % 4 != 2 {
            world.change_over(&here, &there);
        }
        pairs.push((here, there));
    }
    epoll.quiet();
    let before = world.woken();
    let waits = |time| {
        let before = sleeps();
        assert_eq!(epoll.wait(time), []);
        sleeps() - before
    };
    assert!(waits(Some(Duration::from_millis(300))) <= 2);
    thread::scope(|scope| {
        let polls = scope.spawn(|| {
            let before = sleeps();
            let told = poll_one(pairs[0].1.number, IN, Some(Duration::from_millis(300)));
            (told, sleeps() - before)
        });
        let (told, sleeps) = polls.join().expect("no panic");
        assert_eq!(told, 0);
        assert!(sleeps <= 3, "{sleeps}");
    });
    assert!(world.woken() - before <= 4, "{}", world.woken() - before);
}

#[test]
fn a_ping_pong_costs_a_sleep_each() {
    const ROUNDS: i64 = 2000;
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    world.link(&here, &there);
    world.change_over(&here, &there);
    let answers = |socket: &Socket, begins: bool| {
        let epoll = Epoll::new();
        epoll.add(socket, IN, 0);
        let before = sleeps();
        for round in 0..ROUNDS {
            if begins {
                socket.send(b"a");
            }
            assert_eq!(epoll.wait(LONG), [(IN, 0)], "round {round}");
            assert_eq!(socket.receive(9), b"a");
            if !begins {
                socket.send(b"a");
            }
        }
        sleeps() - before
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| answers(&there, false));
        let one = answers(&here, true);
        let other = other.join().expect("no panic");
        assert!(one <= ROUNDS + 50 && other <= ROUNDS + 50, "{one} {other}");
    });
    assert!(world.woken() < 200, "{}", world.woken());
}
