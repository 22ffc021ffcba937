use super::*;
use crate::testing::{Fork, alone, child, join, soon};
use std::sync::atomic::AtomicBool;

mod model;

/// Says that it is over.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Numbers that no descriptor of the test has.
fn number(of_test: i32, at: i32) -> i32 {
    500_000 + of_test * 100 + at
}

fn table() -> &'static Table {
    Table::get().expect("memory")
}

#[test]
fn numbers_share_a_record_until_the_last_is_closed() {
    let _alone = alone();
    let table = table();
    let [first, second] = [0, 1].map(|at| number(0, at));
    let pin = table.enter(first).expect("a record");
    let taken = pin.taken();
    table.alias(&pin, second);
    drop(pin);
    assert_eq!(table.numbers().look(second), Kind::Stream(taken.index));
    assert!(matches!(table.leave(first), Left::Others(left) if left == taken));
    assert!(table.pin(first).is_none());
    assert_eq!(table.pin(second).expect("it is there").taken(), taken);
    let left = table.leave(second);
    assert!(matches!(&left, Left::Last(last) if last.taken() == taken && !last.others_hold()));
    assert!(table.arena().is(taken), "until the last is dropped");
    drop(left);
    assert!(!table.arena().is(taken));
    assert!(matches!(table.leave(second), Left::Plain));
}

#[test]
fn a_call_keeps_its_record_while_its_number_becomes_another_s() {
    let _alone = alone();
    let table = table();
    let one = number(1, 0);
    drop(table.enter(one).expect("a record"));
    let inside = table.pin(one).expect("a stream");
    assert!(matches!(table.leave(one), Left::Calls(pin) if pin.taken() == inside.taken()));
    let next = table.enter(one).expect("a record").taken();
    assert_ne!(next.index, inside.taken().index);
    assert!(table.arena().is(inside.taken()));
    let taken = inside.taken();
    drop(inside);
    assert!(!table.arena().is(taken));
    assert_eq!(table.pin(one).expect("the new one").taken(), next);
    drop(table.leave(one));
}

#[test]
fn a_number_that_was_closed_behind_our_back_is_the_new_socket_s() {
    let _alone = alone();
    let table = table();
    let one = number(2, 0);
    let lost = table.enter(one).expect("a record").taken();
    let found = table.enter(one).expect("a record").taken();
    assert!(!table.arena().is(lost));
    assert!(table.arena().is(found));
    drop(table.leave(one));
    assert!(!table.arena().is(found));
}

#[test]
fn numbers_beyond_all_stay_plain() {
    let _alone = alone();
    let table = table();
    assert!(table.enter(crate::numbers::NUMBERS).is_none());
    assert!(table.enter(-1).is_none());
    assert!(matches!(table.leave(-1), Left::Plain));
}

#[test]
fn a_range_is_left_but_for_what_is_the_library_s() {
    let _alone = alone();
    let table = table();
    let own = crate::own::Own::hide(
        std::fs::File::open("/dev/null")
            .expect("it is there")
            .into(),
    )
    .expect("room");
    let streams = [0, 1, 5].map(|at| number(3, at));
    let taken = streams.map(|one| table.enter(one).expect("a record").taken());
    let mut left = Vec::new();
    let range = number(3, 1) as u32..=number(3, 99) as u32;
    let gaps = table.leave_range(range.clone(), &mut |number, one| {
        assert!(matches!(one, Left::Last(_)));
        left.push(number);
    });
    assert_eq!(gaps.collect::<Vec<_>>(), [range]);
    assert_eq!(left, streams[1..]);
    assert!(table.arena().is(taken[0]) && !table.arena().is(taken[2]));
    let hidden = own.number() as u32;
    let mut gaps = table.leave_range(hidden..=hidden, &mut |_, _| {});
    assert_eq!(gaps.next(), None);
    assert!(matches!(table.leave(own.number()), Left::Own));
    drop(table.leave(streams[0]));
}

#[test]
fn what_exec_keeps_is_told() {
    let _alone = alone();
    let table = table();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let number = std::os::fd::AsRawFd::as_raw_fd(&socket);
    drop(table.enter(number).expect("a record"));
    assert!(!table.kept_by_exec().any(|kept| kept == number));
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::empty()).expect("set");
    assert!(table.kept_by_exec().any(|kept| kept == number));
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).expect("set");
    drop(table.leave(number));
}

#[test]
fn a_child_holds_what_it_has_inherited() {
    let _alone = alone();
    let table = table();
    for how in [Fork::Called, Fork::Bare] {
        let one = number(4, 0);
        let taken = table.enter(one).expect("a record").taken();
        let go = Pages::reserve(4096, Seen::ByChildren).expect("memory");
        let inheritor = child(how, || {
            let pin = table.pin(one).expect("it is there");
            go.word(8).store(1, Ordering::SeqCst);
            soon(|| go.word(0).load(Ordering::SeqCst) != 0);
            assert_eq!(pin.taken(), taken);
            drop(pin);
            let Left::Last(last) = table.leave(one) else {
                panic!("it was the last number");
            };
            assert!(!last.others_hold());
        });
        if how == Fork::Bare {
            // it holds it once it has looked
            soon(|| go.word(8).load(Ordering::SeqCst) != 0);
        }
        let Left::Last(last) = table.leave(one) else {
            panic!("it was the last number");
        };
        assert!(last.others_hold());
        drop(last);
        assert!(table.arena().is(taken));
        go.word(0).store(1, Ordering::SeqCst);
        join(inheritor);
        assert!(!table.arena().is(taken));
    }
}

#[test]
fn a_child_has_none_of_its_parent_s_calls() {
    let _alone = alone();
    let table = table();
    let one = number(5, 0);
    let pin = table.enter(one).expect("a record");
    join(child(Fork::Called, || {
        assert!(matches!(table.leave(one), Left::Last(_)));
    }));
    assert!(matches!(table.leave(one), Left::Calls(_)));
    let taken = pin.taken();
    drop(pin);
    assert!(!table.arena().is(taken));
}

#[test]
fn threads_that_close_and_call_at_once_never_see_another_s_record() {
    let _alone = alone();
    let table = table();
    let numbers = [0, 1].map(|at| number(6, at));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for one in numbers {
            let over = &over;
            scope.spawn(move || {
                let mut seen = 0;
                while !over.load(Ordering::SeqCst) {
                    if let Some(pin) = table.pin(one) {
                        assert!(table.arena().is(pin.taken()));
                        seen += 1;
                    }
                }
                assert!(seen > 0);
            });
        }
        for round in 0..20_000 {
            let (here, there) = (numbers[round % 2], numbers[1 - round % 2]);
            let pin = table.enter(here).expect("a record");
            drop(table.leave(there));
            table.alias(&pin, there);
            assert!(table.arena().is(pin.taken()));
        }
        for one in numbers {
            drop(table.leave(one));
        }
        // let them see something before they end
        drop(table.enter(numbers[0]));
        drop(table.enter(numbers[1]));
        std::thread::sleep(std::time::Duration::from_millis(20));
        over.store(true, Ordering::SeqCst);
    });
    for one in numbers {
        drop(table.leave(one));
    }
}

#[test]
fn forks_amid_other_threads_changes_lose_nothing() {
    let _alone = alone();
    let table = table();
    let one = number(7, 0);
    let over = AtomicBool::new(false);
    let kept = table.enter(number(7, 1)).expect("a record").taken();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                let taken = table.enter(one).expect("a record").taken();
                assert!(table.arena().is(taken));
                drop(table.leave(one));
            }
        });
        // a failure ends the other thread as well
        let _end = Ends(&over);
        for _ in 0..100 {
            join(child(Fork::Called, || {
                assert_eq!(table.pin(number(7, 1)).expect("kept").taken(), kept);
                // all that this process holds, a number stands for
                for index in table.arena().held(table.holder()) {
                    let mut known = table.numbers().known(0..=i32::MAX);
                    assert!(known.any(|(_, kind)| kind == Kind::Stream(index)));
                }
                drop(table.leave(one));
            }));
        }
    });
    assert!(matches!(table.leave(number(7, 1)), Left::Last(last) if !last.others_hold()));
}
