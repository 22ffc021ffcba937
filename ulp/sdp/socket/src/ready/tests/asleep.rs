//! Calls that sleep while something is done to what they wait for.

use super::world::{Socket, World, pair, table};
use super::*;
use crate::numbers::Kind;
use crate::ready::sleep::{Next, Sleep, Waits};
use crate::ready::wait::Wait;
use ferriband_sdp_local::Own;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Scope, sleep};

/// Long enough for who is not woken.
const PATIENCE: Duration = Duration::from_secs(5);
const A_WHILE: Duration = Duration::from_millis(20);

/// A thread that waits once; gives what it was told.
fn sleeper<'s>(scope: &'s Scope<'s, '_>, epoll: &'s Epoll) -> Receiver<Vec<(u32, u64)>> {
    let (tell, told) = channel();
    scope.spawn(move || tell.send(epoll.wait(Some(PATIENCE))));
    sleep(A_WHILE);
    told
}

/// Nothing more can be sent by the kernel, also after a while.
fn fill(socket: &Socket) {
    while kernel::state(socket.fd()) & OUT != 0 {
        while socket.try_send(&[7; 65_536]).is_some() {}
        sleep(A_WHILE);
    }
}

/// A box that was used before has a bell that has rung, which is news to an instance.
fn silence_bells() {
    let ready = Ready::get().expect("memory");
    let mut held = ready.waiters.enter().expect("free");
    let mut all = Vec::new();
    loop {
        let (bell, is_new) = held.boxes.take().expect("a descriptor");
        bell.silence();
        all.push(bell);
        if is_new {
            break;
        }
    }
    for bell in all {
        held.boxes.give_back(bell);
    }
}

#[test]
fn whoever_sleeps_already_hears_of_the_ring_though_the_kernel_has_no_hint() {
    let _alone = alone();
    silence_bells();
    let world = World::new();
    let (here, there) = pair();
    let epoll = Epoll::new();
    epoll.add(&here, IN, 1);
    // no room: the kernel has nothing to tell of it
    fill(&here);
    std::thread::scope(|scope| {
        let told = sleeper(scope, &epoll);
        world.link(&here, &there);
        assert!(world.offer(&here));
        there.send(b"a");
        assert_eq!(there.phases()[0], ferriband_sdp_proto::change::Phase::Sdp);
        assert_eq!(told.recv(), Ok(vec![(IN, 1)]));
    });
}

#[test]
fn the_second_of_those_who_slept_before_the_link_is_woken_by_a_change() {
    let _alone = alone();
    silence_bells();
    let world = World::new();
    let (here, there) = pair();
    let epoll = Epoll::new();
    epoll.add(&there, IN | ET, 1);
    std::thread::scope(|scope| {
        let told = [sleeper(scope, &epoll), sleeper(scope, &epoll)];
        world.link(&here, &there);
        assert!(world.offer(&there));
        sleep(A_WHILE);
        here.send(b"a");
        let first = || told.iter().find_map(|told| told.try_recv().ok());
        let mut heard = None;
        for _ in 0..1000 {
            heard = heard.or_else(first);
            if heard.is_some() {
                break;
            }
            sleep(Duration::from_millis(1));
        }
        assert_eq!(heard, Some(vec![(IN, 1)]));
        epoll.change(&there, IN | ET, 2);
        let second = told.iter().find_map(|told| told.recv().ok());
        assert_eq!(second, Some(vec![(IN, 2)]));
    });
}

#[test]
fn a_call_that_ends_in_its_sleep_leaves_nothing() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    let epoll = Epoll::new();
    epoll.add(&there, IN, 1);
    let asked = || Polled {
        fd: there.number,
        events: libc::POLLIN,
        revents: 0,
    };
    let patience = Patience {
        time: None,
        signals: None,
    };
    let counted = || {
        let pin = there.pin();
        pin.record().word(Own::Receives).load(Ordering::SeqCst)
    };
    for _ in 0..2 {
        let (mut polled, mut events) = ([asked()], [Event::default(); 4]);
        let before = counted();
        let mut poll = Poll::new(&mut polled, patience).expect("memory");
        assert!(matches!(poll.go_on(None), Next::Sleep(_)));
        let mut wait = Wait::new(epoll.0, &mut events, patience);
        assert!(matches!(wait.go_on(None), Next::Sleep(_)));
        assert!(
            instance_of(epoll.0)
                .expect("known")
                .inside
                .enter()
                .is_some()
        );
        drop(poll);
        drop(wait);
        assert_eq!(counted(), before);
        assert!(ready().expect("made").waiters.enter().is_some());
        if there.pin().link().is_none() {
            world.link(&here, &there);
            world.change_over(&here, &there);
            epoll.quiet();
        }
    }
    here.send(b"a");
    assert_eq!(epoll.wait(LONG), [(IN, 1)]);
}

#[test]
fn no_call_is_in_progress_while_poll_sleeps() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    world.link(&here, &there);
    world.change_over(&here, &there);
    let mut polled = [Polled {
        fd: there.number,
        events: libc::POLLIN,
        revents: 0,
    }];
    let patience = Patience {
        time: None,
        signals: None,
    };
    let mut poll = Poll::new(&mut polled, patience).expect("memory");
    assert!(matches!(poll.go_on(None), Next::Sleep(_)));
    let left = table().leave(there.number);
    assert!(matches!(left, Left::Last(_)), "{left:?}");
    closed(there.number, &left);
    drop(left);
    assert!(table().numbers().look(there.number) == Kind::Unknown);
    // what follows is what the kernel says of the number
    let there = {
        let number = there.number;
        std::mem::forget(there);
        // SAFETY: the test's own descriptor.
        unsafe { rustix::io::close(number) };
        number
    };
    let over = poll.go_on(Some(Err(Errno::INTR)));
    assert!(matches!(over, Next::Over(Err(Errno::INTR))), "{over:?}");
    drop(poll);
    assert_eq!(poll_one(there, IN, SHORT), libc::POLLNVAL as u32);
}

#[test]
fn as_many_descriptors_as_there_may_be() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    world.link(&here, &there);
    world.change_over(&here, &there);
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = most.expect("a limit") as usize;
    let nobody = Polled {
        fd: -1,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polled = vec![nobody; most];
    polled[0].fd = there.number;
    let mut ask = |time| {
        let signals = None;
        poll(&mut polled, Patience { time, signals })
    };
    assert_eq!(ask(SHORT), Ok(0));
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| ask(LONG));
        sleep(A_WHILE);
        here.send(b"a");
        assert_eq!(asks.join().expect("heard"), Ok(1));
    });
    polled.push(nobody);
    let (time, signals) = (SHORT, None);
    let answer = poll(&mut polled, Patience { time, signals });
    // something is so: the kernel says what it thinks of so many
    assert_eq!(answer, Err(Errno::INVAL));
}

/// The machine's allocator, which counts for each thread.
struct Counting;

thread_local! {
    static ALLOCATED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

// SAFETY: all is the machine's allocator's.
unsafe impl std::alloc::GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        let _ = ALLOCATED.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { std::alloc::System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: std::alloc::Layout) {
        // SAFETY: the caller's promise.
        unsafe { std::alloc::System.dealloc(at, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn poll_and_select_of_what_is_ready_allocate_nothing() {
    let _alone = alone();
    let world = World::new();
    let (here, there) = pair();
    world.link(&here, &there);
    world.change_over(&here, &there);
    here.send(b"a");
    let (time, signals) = (LONG, None);
    let patience = Patience { time, signals };
    let one = Polled {
        fd: there.number,
        events: libc::POLLIN,
        revents: 0,
    };
    for count in [1, 64, 500] {
        let mut polled = vec![one; count];
        let (word, bit) = (there.number as usize / 64, 1 << (there.number % 64));
        let mut set = [0_u64; 16];
        set[word] = bit;
        let before = ALLOCATED.get();
        assert_eq!(poll(&mut polled, patience), Ok(count));
        let sets = [Some(&mut set[..]), None, None];
        assert_eq!(select(there.number + 1, sets, patience), Ok(1));
        assert_eq!(ALLOCATED.get(), before);
    }
}

#[test]
fn what_the_kernel_told_before_a_registration_got_its_link_is_not_told_again_by_that_wait() {
    let _alone = alone();
    for has_linked in [false, true] {
        let world = World::new();
        let (epoll, others) = (Epoll::new(), pair());
        if has_linked {
            epoll.add(&others.1, IN, 1);
            world.link(&others.0, &others.1);
            world.change_over(&others.0, &others.1);
            epoll.quiet();
        }
        let (here, there) = pair();
        epoll.add(&there, IN, 2);
        here.send(b"a");
        let mut events = [Event::default(); 4];
        let at = events.as_mut_ptr();
        let (time, signals) = (LONG, None);
        let mut wait = Wait::new(epoll.0, &mut events, Patience { time, signals });
        let Next::Sleep(Sleep::Epoll { events, most, .. }) = wait.go_on(None) else {
            panic!("it asks the kernel in its sleep");
        };
        assert_eq!((events, most), (at, 4));
        // SAFETY: room for so many, which the wait leaves alone meanwhile.
        let slept = unsafe { kernel::wait(epoll.0, events, most, Patience { time, signals }) };
        assert_eq!(slept, Ok(1));
        world.link(&here, &there);
        let Next::Over(Ok(1)) = wait.go_on(Some(slept)) else {
            panic!("the same number was told twice");
        };
        drop(wait);
        // SAFETY: an element of the array, which nobody borrows.
        let told = unsafe { at.read() };
        assert_eq!((told.events, told.data), (IN, 2));
        assert_eq!(epoll.wait(LONG), [(IN, 2)], "it is so still");
        assert_eq!(there.receive(9), b"a");
        assert_eq!(epoll.wait(NOW), []);
    }
}
