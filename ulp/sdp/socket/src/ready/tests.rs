//! A program whose connections are linked inside one process.

use super::*;
use crate::testing::{Fork, alone, child, join, soon};
use kernel::{ERR, ET, EXCLUSIVE, HUP, IN, ONESHOT, OUT, RDHUP};
use std::time::Duration;
use world::{Socket, World, pair};

mod asleep;
mod cost;
mod differ;
mod hammer;
mod order;
mod world;

const NOW: Option<Duration> = Some(Duration::ZERO);
const LONG: Option<Duration> = Some(Duration::from_secs(20));
const SHORT: Option<Duration> = Some(Duration::from_millis(30));

/// An epoll instance of the program.
struct Epoll(i32);

impl Epoll {
    fn new() -> Self {
        Self(create(libc::EPOLL_CLOEXEC).expect("a descriptor"))
    }

    fn try_ctl(&self, op: i32, socket: i32, events: u32, data: u64) -> Result<(), Errno> {
        ctl(self.0, op, socket, Some(Event { events, data }))
    }

    fn add(&self, socket: &Socket, events: u32, data: u64) {
        let added = self.try_ctl(libc::EPOLL_CTL_ADD, socket.number, events, data);
        added.expect("added");
    }

    fn change(&self, socket: &Socket, events: u32, data: u64) {
        let changed = self.try_ctl(libc::EPOLL_CTL_MOD, socket.number, events, data);
        changed.expect("changed");
    }

    fn remove(&self, socket: &Socket) {
        let removed = self.try_ctl(libc::EPOLL_CTL_DEL, socket.number, 0, 0);
        removed.expect("removed");
    }

    fn try_wait(&self, most: usize, time: Option<Duration>) -> Result<Vec<(u32, u64)>, Errno> {
        let mut events = vec![Event::default(); most];
        let signals = None;
        let count = wait(self.0, &mut events, Patience { time, signals })?;
        let told = events[..count].iter();
        Ok(told.map(|event| (event.events, event.data)).collect())
    }

    fn wait(&self, time: Option<Duration>) -> Vec<(u32, u64)> {
        self.try_wait(16, time).expect("no signal")
    }

    /// Takes what is there, until nothing is for a while.
    fn quiet(&self) {
        while !self.wait(SHORT).is_empty() {}
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        world::close_number(self.0);
    }
}

fn poll_one(socket: i32, events: u32, time: Option<Duration>) -> u32 {
    let mut polled = [Polled {
        fd: socket,
        events: events as i16,
        revents: 0,
    }];
    let signals = None;
    let count = poll(&mut polled, Patience { time, signals }).expect("no signal");
    let told = u32::from(polled[0].revents.cast_unsigned());
    assert_eq!(count, usize::from(told != 0));
    told
}

#[test]
fn level_triggered_as_long_as_there_are_bytes() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let epoll = Epoll::new();
    epoll.add(&there, IN, 7);
    world.link(&here, &there);
    world.change_over(&here, &there);
    assert_eq!(epoll.wait(NOW), []);
    here.send(b"ab");
    for _ in 0..3 {
        assert_eq!(epoll.wait(LONG), [(IN, 7)]);
    }
    assert_eq!(there.receive(1), b"a");
    assert_eq!(epoll.wait(LONG), [(IN, 7)]);
    assert_eq!(there.receive(9), b"b");
    assert_eq!(epoll.wait(SHORT), []);
    here.send(b"c");
    assert_eq!(epoll.wait(LONG), [(IN, 7)]);
    epoll.change(&there, IN | OUT, 8);
    assert_eq!(epoll.wait(LONG), [(IN | OUT, 8)]);
    epoll.remove(&there);
    assert_eq!(epoll.wait(SHORT), []);
}

#[test]
fn edge_triggered_once_for_what_comes() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let epoll = Epoll::new();
    epoll.add(&there, IN | ET, 1);
    world.link(&here, &there);
    world.change_over(&here, &there);
    epoll.quiet();
    here.send(b"a");
    assert_eq!(epoll.wait(LONG), [(IN, 1)]);
    assert_eq!(epoll.wait(SHORT), []);
    // more bytes are another edge, whether or not those before are read
    here.send(b"b");
    assert_eq!(epoll.wait(LONG), [(IN, 1)]);
    assert_eq!(epoll.wait(SHORT), []);
    assert_eq!(there.receive(9), b"ab");
    assert_eq!(epoll.wait(SHORT), []);
    here.send(b"c");
    epoll.change(&there, IN | ET, 2);
    assert_eq!(epoll.wait(LONG), [(IN, 2)]);
}

#[test]
fn once_until_it_is_enabled_again() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let epoll = Epoll::new();
    epoll.add(&there, IN | ONESHOT, 1);
    world.link(&here, &there);
    // it waits unaided until the program enables it
    assert!(!world.offer(&there));
    here.send(b"a");
    assert_eq!(epoll.wait(LONG), [(IN, 1)]);
    assert_eq!(there.receive(9), b"a");
    epoll.change(&there, IN | ONESHOT, 1);
    world.change_over(&here, &there);
    for byte in [b"b", b"c"] {
        here.send(byte);
        assert_eq!(epoll.wait(LONG), [(IN, 1)]);
        here.send(b"x");
        assert_eq!(epoll.wait(SHORT), []);
        assert_eq!(there.receive(9), [byte[0], b'x']);
        epoll.change(&there, IN | ONESHOT, 1);
        assert_eq!(epoll.wait(SHORT), []);
    }
}

#[test]
fn room_is_told_as_the_kernel_does() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let epoll = Epoll::new();
    epoll.add(&here, OUT | ET, 1);
    world.link(&here, &there);
    world.change_over(&here, &there);
    epoll.quiet();
    let mut sent = 0;
    while let Some(more) = here.try_send(&[7; 5000]) {
        sent += more;
    }
    assert_eq!(sent as u64, crate::segment::RING_BYTES);
    assert_eq!(epoll.wait(SHORT), []);
    // not before a third is free
    assert_eq!(there.receive(20_000).len(), 20_000);
    assert_eq!(epoll.wait(SHORT), []);
    assert_eq!(there.receive(2_000).len(), 2_000);
    assert_eq!(epoll.wait(LONG), [(OUT, 1)]);
    assert_eq!(epoll.wait(SHORT), []);
    epoll.change(&here, OUT, 1);
    assert_eq!(epoll.wait(LONG), [(OUT, 1)]);
    while here.try_send(&[7; 5000]).is_some() {}
    assert_eq!(epoll.wait(SHORT), []);
    assert_eq!(there.receive(30_000).len(), 30_000);
    assert_eq!(epoll.wait(LONG), [(OUT, 1)]);
}

#[test]
fn two_instances_and_a_poll_hear_of_one_connection() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let [one, two] = [Epoll::new(), Epoll::new()];
    one.add(&there, IN, 1);
    two.add(&there, IN | EXCLUSIVE, 2);
    world.link(&here, &there);
    world.change_over(&here, &there);
    for round in 0..50 {
        std::thread::scope(|scope| {
            let waits = [
                scope.spawn(|| one.wait(LONG).len()),
                scope.spawn(|| two.wait(LONG).len()),
                scope.spawn(|| poll_one(there.number, IN, LONG) as usize),
            ];
            if round % 2 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
            here.send(b"a");
            assert_eq!(waits.map(|wait| wait.join().expect("heard")), [1; 3]);
        });
        assert_eq!(there.receive(9), b"a");
    }
    two.remove(&there);
    here.send(b"b");
    assert_eq!(one.wait(LONG), [(IN, 1)]);
    assert_eq!(two.wait(SHORT), []);
}

#[test]
fn an_instance_inside_another_and_in_poll_is_ready_while_its_list_is() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let [outer, inner] = [Epoll::new(), Epoll::new()];
    inner.add(&there, IN, 1);
    let into = outer.try_ctl(libc::EPOLL_CTL_ADD, inner.0, IN, 2);
    into.expect("added");
    world.link(&here, &there);
    world.change_over(&here, &there);
    inner.quiet();
    assert_eq!(outer.wait(SHORT), []);
    for _ in 0..10 {
        here.send(b"a");
        for _ in 0..2 {
            assert_eq!(outer.wait(LONG), [(IN, 2)]);
            assert_eq!(poll_one(inner.0, IN, LONG), IN);
            assert_eq!(inner.wait(NOW), [(IN, 1)]);
        }
        assert_eq!(there.receive(9), b"a");
        inner.quiet();
        assert_eq!(outer.wait(SHORT), []);
        assert_eq!(poll_one(inner.0, IN, SHORT), 0);
    }
}

#[test]
fn the_kernel_s_answers_are_the_program_s() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let [epoll, other] = [Epoll::new(), Epoll::new()];
    for is_linked in [false, true] {
        let (add, change) = (libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD);
        let delete = libc::EPOLL_CTL_DEL;
        let number = there.number;
        assert_eq!(epoll.try_ctl(change, number, IN, 0), Err(Errno::NOENT));
        assert_eq!(epoll.try_ctl(delete, number, IN, 0), Err(Errno::NOENT));
        assert_eq!(epoll.try_ctl(add, number, IN, 0), Ok(()));
        assert_eq!(epoll.try_ctl(add, number, IN, 0), Err(Errno::EXIST));
        let exclusive = IN | EXCLUSIVE;
        assert_eq!(
            epoll.try_ctl(change, number, exclusive, 0),
            Err(Errno::INVAL)
        );
        assert_eq!(
            other.try_ctl(add, number, exclusive | ONESHOT, 0),
            Err(Errno::INVAL)
        );
        assert_eq!(other.try_ctl(add, number, exclusive, 0), Ok(()));
        assert_eq!(other.try_ctl(change, number, IN, 0), Err(Errno::INVAL));
        assert_eq!(ctl(epoll.0, add, number, None), Err(Errno::FAULT));
        assert_eq!(
            ctl(epoll.0, 9, number, Some(Event::default())),
            Err(Errno::INVAL)
        );
        assert_eq!(epoll.try_ctl(add, epoll.0, IN, 0), Err(Errno::INVAL));
        assert_eq!(epoll.try_ctl(add, other.0, IN, 0), Ok(()));
        assert_eq!(other.try_ctl(add, epoll.0, IN, 0), Err(Errno::LOOP));
        assert_eq!(epoll.try_ctl(delete, other.0, IN, 0), Ok(()));
        let file = std::fs::File::open("/proc/self/exe").expect("a file");
        let file = std::os::fd::AsRawFd::as_raw_fd(&file);
        assert_eq!(epoll.try_ctl(add, file, IN, 0), Err(Errno::PERM));
        assert_eq!(
            ctl(number, add, number, Some(Event::default())),
            Err(Errno::INVAL)
        );
        assert_eq!(epoll.try_ctl(add, -1, IN, 0), Err(Errno::BADF));
        assert_eq!(epoll.try_wait(0, NOW), Err(Errno::INVAL));
        assert_eq!(epoll.try_ctl(delete, number, 0, 0), Ok(()));
        assert_eq!(other.try_ctl(delete, number, 0, 0), Ok(()));
        if !is_linked {
            world.link(&here, &there);
            world.change_over(&here, &there);
        }
    }
}

#[test]
fn another_number_is_a_registration_of_its_own_and_stays_until_the_last_is_closed() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let epoll = Epoll::new();
    epoll.add(&there, IN, 1);
    let twin = there.duplicate();
    epoll.add(&twin, IN, 2);
    world.link(&here, &there);
    world.change_over(&here, &there);
    here.send(b"a");
    let mut told = epoll.wait(LONG);
    told.sort_unstable();
    assert_eq!(told, [(IN, 1), (IN, 2)]);
    let number = there.number;
    drop(there);
    // the closed number's registration lives with the open file
    let mut told = epoll.wait(LONG);
    told.sort_unstable();
    assert_eq!(told, [(IN, 1), (IN, 2)]);
    let gone = epoll.try_ctl(libc::EPOLL_CTL_DEL, number, 0, 0);
    assert!(matches!(gone, Err(Errno::BADF | Errno::NOENT)));
    drop(twin);
    assert_eq!(epoll.wait(SHORT), []);
}

/// A call of another thread has the open file for a moment longer than the program has its number:
/// in the service thread's the kernel looks at what is watched.
#[test]
fn what_is_closed_tells_nothing_while_a_call_goes_on() {
    let _alone = alone();
    for in_call in [false, true] {
        let (here, there) = pair();
        let epoll = Epoll::new();
        epoll.add(&there, IN, 1);
        here.send(b"a");
        assert_eq!(epoll.wait(LONG), [(IN, 1)]);
        let file = rustix::io::dup(there.fd()).expect("room");
        let pin = in_call.then(|| there.pin());
        drop(there);
        assert_eq!(epoll.wait(SHORT), [], "pinned: {in_call}");
        drop((pin, file));
    }
}

/// How many descriptors the kernel's instance watches.
fn watched(epoll: &Epoll) -> usize {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", epoll.0));
    let info = info.expect("a descriptor");
    info.lines().filter(|line| line.starts_with("tfd")).count()
}

#[test]
fn what_is_deleted_and_added_again_takes_no_system_call_and_tells_nothing_in_between() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let epoll = Epoll::new();
    epoll.add(&there, IN, 1);
    world.link(&here, &there);
    world.change_over(&here, &there);
    // the bell and the socket
    assert_eq!(watched(&epoll), 2);
    for events in [IN, IN | ET, IN | ONESHOT] {
        epoll.remove(&there);
        here.send(b"a");
        assert_eq!((epoll.wait(SHORT), watched(&epoll)), (vec![], 2));
        epoll.add(&there, events, 3);
        assert_eq!(epoll.wait(LONG), [(IN, 3)]);
        assert_eq!(there.receive(9), b"a");
        assert_eq!(epoll.wait(SHORT), []);
        epoll.remove(&there);
        epoll.add(&there, IN, 4);
        here.send(b"b");
        assert_eq!(epoll.wait(LONG), [(IN, 4)]);
        assert_eq!(there.receive(9), b"b");
    }
    epoll.remove(&there);
    // the kernel alone has these
    epoll.add(&there, IN | EXCLUSIVE, 5);
    here.send(b"c");
    assert_eq!(epoll.wait(LONG), [(IN, 5)]);
    epoll.remove(&there);
    assert_eq!(watched(&epoll), 1);
}

#[test]
fn what_is_deleted_goes_once_another_waits_or_a_child_comes_or_the_number_is_closed() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let [one, two] = [Epoll::new(), Epoll::new()];
    let again = || {
        one.add(&there, IN, 1);
        one.remove(&there);
        assert_eq!(watched(&one), 2);
    };
    one.add(&there, IN, 1);
    world.link(&here, &there);
    world.change_over(&here, &there);
    one.remove(&there);
    let is_shared = |is: bool| {
        let ready = super::ready().expect("made");
        let count = ready.count(there.pin().taken().index);
        assert_eq!(count.load(Ordering::SeqCst) > 1, is);
    };
    two.add(&there, IN, 2);
    assert_eq!(watched(&one), 1);
    is_shared(false);
    here.send(b"a");
    assert_eq!((two.wait(LONG), one.wait(NOW)), (vec![(IN, 2)], vec![]));
    two.remove(&there);
    again();
    std::thread::scope(|scope| {
        let wait = scope.spawn(|| poll_one(there.number, IN, LONG));
        assert_eq!(wait.join().expect("heard"), IN);
    });
    assert_eq!(there.receive(9), b"a");
    again();
    std::thread::scope(|scope| {
        let wait = scope.spawn(|| poll_one(there.number, IN, LONG));
        soon(|| watched(&one) == 1);
        here.send(b"b");
        assert_eq!(wait.join().expect("heard"), IN);
    });
    again();
    let twin = there.duplicate();
    let number = twin.number;
    one.add(&twin, IN, 3);
    one.remove(&twin);
    drop(twin);
    let numbers = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", one.0)).expect("there");
    let gone = format!("tfd: {number:>8}");
    assert!(!numbers.contains(&gone), "{numbers}");
    again();
    join(child(Fork::Called, || {
        assert_eq!(watched(&one), 1);
        one.add(&there, IN, 4);
        assert_eq!(one.wait(LONG), [(IN, 4)]);
        one.remove(&there);
    }));
    assert_eq!(watched(&one), 1);
    one.add(&there, IN, 5);
    assert_eq!(one.wait(LONG), [(IN, 5)]);
    one.remove(&there);
    assert_eq!(watched(&one), 1);
}

#[test]
fn select_finds_what_poll_finds() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    world.link(&here, &there);
    world.change_over(&here, &there);
    let number = there.number;
    let ask = |time| {
        let (mut read, mut write) = ([0_u64; 16], [0_u64; 16]);
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        read[word] |= bit;
        write[word] |= bit;
        let signals = None;
        let sets = [Some(&mut read[..]), Some(&mut write[..]), None];
        let bits = select(number + 1, sets, Patience { time, signals });
        (bits, read[word] & bit != 0, write[word] & bit != 0)
    };
    assert_eq!(ask(LONG), (Ok(1), false, true));
    here.send(b"a");
    assert_eq!(ask(LONG), (Ok(2), true, true));
    while there.try_send(&[7; 5000]).is_some() {}
    assert_eq!(ask(LONG), (Ok(1), true, false));
    there.receive(9);
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| ask(LONG));
        std::thread::sleep(Duration::from_millis(5));
        here.send(b"b");
        assert_eq!(asks.join().expect("heard"), (Ok(1), true, false));
    });
    there.receive(9);
    assert_eq!(ask(SHORT), (Ok(0), false, false));
}

#[test]
fn the_end_is_told_with_what_is_unread() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let epoll = Epoll::new();
    epoll.add(&there, IN | OUT | RDHUP, 1);
    world.link(&here, &there);
    world.change_over(&here, &there);
    here.send(b"end");
    here.shut();
    soon(|| epoll.wait(NOW) == [(IN | OUT | RDHUP, 1)]);
    assert_eq!(there.receive(9), b"end");
    assert_eq!(epoll.wait(LONG), [(IN | OUT | RDHUP, 1)]);
    assert_eq!(there.receive(9), b"");
    there.shut();
    soon(|| epoll.wait(NOW) == [(IN | OUT | RDHUP | HUP, 1)]);
    assert_eq!(poll_one(there.number, 0, LONG), HUP);
}

#[test]
fn a_reset_is_told() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let epoll = Epoll::new();
    epoll.add(&there, IN | RDHUP | ET, 1);
    world.link(&here, &there);
    world.change_over(&here, &there);
    epoll.quiet();
    here.reset();
    soon(|| epoll.wait(LONG) == [(IN | RDHUP | HUP | ERR, 1)]);
    assert_eq!(there.try_receive(9), Err(Errno::CONNRESET));
    assert_eq!(poll_one(there.number, IN, LONG), IN | HUP);
}

#[test]
fn a_message_about_what_was_sent_is_told_and_is_no_end() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let epoll = Epoll::new();
    epoll.add(&here, IN, 1);
    // when each segment is sent, by MSG_ERRQUEUE: SOF_TIMESTAMPING_TX_SOFTWARE, _SOFTWARE, _OPT_TSONLY
    let about: i32 = 1 << 1 | 1 << 4 | 1 << 11;
    // SAFETY: a number and its length.
    let set = unsafe {
        libc::setsockopt(
            here.number,
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const about).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    assert_eq!(set, 0);
    here.send(b"by TCP");
    soon(|| there.try_receive(9).is_ok());
    world.link(&here, &there);
    world.change_over(&here, &there);
    soon(|| poll_one(here.number, IN, NOW) == ERR);
    assert_eq!(epoll.wait(LONG), [(ERR, 1)]);
    there.send(b"a");
    soon(|| poll_one(here.number, IN, NOW) == IN | ERR);
    assert_eq!(epoll.wait(LONG), [(IN | ERR, 1)]);
    assert_eq!(here.receive(9), b"a");
    here.send(b"b");
    assert_eq!(there.receive(9), b"b");
    let sdp = ferriband_sdp_proto::change::Phase::Sdp;
    assert_eq!(here.phases(), [sdp; 2]);
}

#[test]
fn an_error_that_the_program_has_not_had_is_told_until_it_takes_it() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let epoll = Epoll::new();
    epoll.add(&here, IN, 1);
    world.link(&here, &there);
    world.change_over(&here, &there);
    epoll.quiet();
    let pin = here.pin();
    let error = pin.record().word(ferriband_sdp_local::Own::Error);
    error.store(libc::ECONNRESET as u64, std::sync::atomic::Ordering::SeqCst);
    there.send(b"a");
    assert_eq!(poll_one(here.number, IN, LONG), IN | ERR);
    assert_eq!(epoll.wait(LONG), [(IN | ERR, 1)]);
    let call = pin.link().expect("linked").on(here.fd());
    let taken = ferriband_sdp_local::Writer(&call).take_error();
    assert_eq!(taken.map(|error| error.0), Some(libc::ECONNRESET));
    assert_eq!(poll_one(here.number, IN, LONG), IN);
    assert_eq!(epoll.wait(LONG), [(IN, 1)]);
}

#[test]
fn a_sleeper_hears_of_the_link_and_of_the_way_back() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let epoll = Epoll::new();
    epoll.add(&there, IN, 1);
    std::thread::scope(|scope| {
        let hears = |text: &'static [u8]| {
            let (epoll, there) = (&epoll, &there);
            scope.spawn(move || {
                assert_eq!(epoll.wait(LONG), [(IN, 1)]);
                assert_eq!(there.receive(9), text);
            })
        };
        let sleeper = hears(b"a");
        std::thread::sleep(Duration::from_millis(5));
        world.link(&here, &there);
        assert!(world.offer(&there));
        assert!(!sleeper.is_finished());
        // with which it changes over
        here.send(b"a");
        assert_eq!(here.phases()[0], ferriband_sdp_proto::change::Phase::Sdp);
        sleeper.join().expect("heard");
        world.change_over(&here, &there);
        let sleeper = hears(b"b");
        std::thread::sleep(Duration::from_millis(5));
        assert!(here.go_back());
        here.send(b"b");
        sleeper.join().expect("heard");
        assert!(there.go_back());
        let sleeper = hears(b"c");
        here.send(b"c");
        sleeper.join().expect("heard");
    });
    assert_eq!(epoll.wait(SHORT), []);
    // nothing of it is left: the kernel's registration is the program's
    soon(|| epoll.wait(NOW).is_empty() && !world::is_linked(&epoll, &there));
    here.send(b"d");
    assert_eq!(epoll.wait(LONG), [(IN, 1)]);
}

/// Sets a flag when it goes, however that comes about.
struct Over<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_child_finds_its_instance_and_the_locks_free() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let epoll = Epoll::new();
    epoll.add(&there, IN, 1);
    world.link(&here, &there);
    world.change_over(&here, &there);
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                epoll.change(&there, IN | OUT, 1);
                epoll.wait(NOW);
                epoll.change(&there, IN, 1);
            }
        });
        // a child that fails ends the other thread, too
        let _end = Over(&over);
        for round in 0..50 {
            let how = if round % 5 == 0 {
                Fork::Bare
            } else {
                Fork::Called
            };
            join(child(how, || {
                let fresh = Epoll::new();
                fresh.add(&here, OUT, 5);
                assert_eq!(fresh.wait(LONG), [(OUT, 5)]);
                epoll.change(&there, IN | OUT, 1);
                assert_eq!(epoll.wait(LONG), [(OUT, 1)]);
                std::mem::forget(fresh);
            }));
        }
    });
    here.send(b"a");
    assert_eq!(epoll.wait(LONG), [(IN, 1)]);
}
