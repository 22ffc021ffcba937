use super::*;
use ferriband_sdp_local::Own;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;

const FEW: u32 = 4096;

/// Places of the table of holders of which the first ones live.
#[derive(Default)]
struct Places([AtomicBool; 16]);

impl Places {
    fn all() -> Self {
        let places = Self::default();
        for place in &places.0 {
            place.store(true, Ordering::SeqCst);
        }
        places
    }

    fn die(&self, place: usize) {
        self.0[place].store(false, Ordering::SeqCst);
    }
}

impl Living for Places {
    fn lives(&self, place: u32) -> bool {
        self.0[place as usize].load(Ordering::SeqCst)
    }
}

/// The process with this place.
fn who(place: u32) -> Holder {
    Holder {
        number: HOLDERS | place,
        forks: 0,
    }
}

/// The process once it has forked.
fn forked(place: u32) -> Holder {
    Holder {
        forks: 1,
        ..who(place)
    }
}

#[test]
fn records_are_taken_once_and_come_back_clean() {
    let (arena, places) = (Arena::with(FEW).expect("memory"), Places::all());
    let all: Vec<_> = std::iter::from_fn(|| arena.take(who(1), &places)).collect();
    assert_eq!(all.len(), FEW as usize);
    let mut seen: Vec<_> = all.iter().map(|taken| taken.index).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..FEW).collect::<Vec<_>>());
    let one = all[1234];
    arena
        .record(one.index)
        .word(Own::Head)
        .store(7, Ordering::SeqCst);
    assert!(arena.leave(who(1), one, &places));
    assert!(!arena.is(one));
    let again = arena.take(who(2), &places).expect("one is free");
    assert_eq!(
        (again.index, again.generation),
        (one.index, one.generation + 1)
    );
    assert_eq!(
        arena
            .record(one.index)
            .word(Own::Head)
            .load(Ordering::SeqCst),
        0
    );
    assert_eq!(arena.take(who(2), &places), None);
}

#[test]
fn what_a_child_inherits_stays_until_both_have_left() {
    let (arena, places) = (Arena::with(FEW).expect("memory"), Places::all());
    let shared = arena.take(who(1), &places).expect("free");
    arena.inherit(who(1).number, who(2).number);
    let later = arena.take(forked(1), &places).expect("free");
    assert!(arena.others_hold(forked(1), shared, &places));
    assert!(!arena.others_hold(forked(1), later, &places));
    assert!(!arena.leave(forked(1), shared, &places));
    assert!(arena.is(shared));
    assert!(arena.leave(who(2), shared, &places));
    assert!(!arena.is(shared));
    assert!(arena.leave(forked(1), later, &places));
}

#[test]
fn who_died_holds_nothing() {
    let (arena, places) = (Arena::with(FEW).expect("memory"), Places::all());
    let [first, second] = [(); 2].map(|()| arena.take(who(1), &places).expect("free"));
    arena.inherit(who(1).number, who(2).number);
    places.die(2);
    assert!(arena.leave(forked(1), first, &places), "the other is dead");
    places.die(1);
    assert!(arena.is(second));
    places.0[1].store(true, Ordering::SeqCst);
    arena.clear_row(who(1).number, &places);
    assert!(!arena.is(second));
    assert_eq!(arena.held(who(1).number).count(), 0);
}

#[test]
fn a_death_in_the_middle_loses_no_record() {
    let (arena, places) = (Arena::with(FEW).expect("memory"), Places::all());
    let all: Vec<_> = std::iter::from_fn(|| arena.take(who(1), &places)).collect();
    // it has cleared its bit, and died before it gave the record back
    arena.clear(1, all[5].index);
    // it has given the record back, and died before it said so in the map
    arena.clear(1, all[6].index);
    let free = (all[6].generation + 1) << 1;
    arena
        .record(all[6].index)
        .state
        .store(free, Ordering::SeqCst);
    // it has said so in the map's words, and died before it said so in the map of these
    assert!(arena.leave(who(1), all[7], &places));
    arena.free_words(0).store(0, Ordering::SeqCst);
    let again: Vec<_> = std::iter::from_fn(|| arena.take(who(2), &places)).collect();
    let mut indices: Vec<_> = again.iter().map(|taken| taken.index).collect();
    indices.sort_unstable();
    let mut lost = [5, 6, 7].map(|at: usize| all[at].index);
    lost.sort_unstable();
    assert_eq!(indices, lost);
    assert!(again.iter().all(|taken| arena.is(*taken)));
}

#[test]
fn a_record_is_joined_only_while_it_is_held() {
    let (arena, places) = (Arena::with(FEW).expect("memory"), Places::all());
    let one = arena.take(who(1), &places).expect("free");
    assert!(arena.join(who(2), one));
    assert!(
        !arena.leave(who(1), one, &places),
        "it is not alone any more"
    );
    assert!(arena.leave(who(2), one, &places));
    assert!(!arena.join(who(3), one));
    assert_eq!(arena.held(who(3).number).count(), 0);
}

#[test]
fn processes_and_threads_that_take_at_once_get_different_ones() {
    let (arena, places) = (Arena::with(FEW).expect("memory"), Places::all());
    let owned: Vec<_> = (0..FEW).map(|_| AtomicBool::new(false)).collect();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let (arena, places, owned) = (&arena, &places, &owned);
            scope.spawn(move || {
                // two threads to a process
                let me = who(thread / 2);
                let mut have = Vec::new();
                let mut random = u64::from(thread) + 1;
                for _ in 0..20_000 {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    if random >> 63 == 0 || have.is_empty() {
                        let taken = arena.take(me, places).expect("there are enough");
                        assert!(!owned[taken.index as usize].swap(true, Ordering::SeqCst));
                        have.push(taken);
                    } else {
                        let at = (random >> 32) as usize % have.len();
                        let taken = have.swap_remove(at);
                        owned[taken.index as usize].store(false, Ordering::SeqCst);
                        assert!(arena.leave(me, taken, places));
                    }
                    if have.len() > 100 {
                        let taken = have.swap_remove(0);
                        owned[taken.index as usize].store(false, Ordering::SeqCst);
                        assert!(arena.leave(me, taken, places));
                    }
                }
                for taken in have {
                    owned[taken.index as usize].store(false, Ordering::SeqCst);
                    assert!(arena.leave(me, taken, places));
                }
            });
        }
    });
    assert!((0..FEW).all(|index| arena.used(index).is_none()));
}

#[test]
fn of_several_that_leave_at_once_one_is_the_last() {
    let (arena, places) = (Arena::with(FEW).expect("memory"), Places::all());
    for _ in 0..500 {
        let shared = arena.take(who(0), &places).expect("free");
        let barrier = Barrier::new(3);
        // the parent lets go right behind its fork
        let lasts: u32 = std::thread::scope(|scope| {
            let leave = |place: u32| {
                let (arena, places, barrier) = (&arena, &places, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    if place == 2 {
                        arena.inherit(who(2).number, who(1).number);
                    }
                    u32::from(arena.leave(forked(place), shared, places))
                })
            };
            arena.inherit(who(0).number, who(2).number);
            arena.inherit(who(0).number, who(3).number);
            let all = [leave(2), leave(3), leave(0)];
            all.map(|one| one.join().expect("it ends")).iter().sum()
        });
        assert_eq!(lasts, 0, "the child has it");
        assert!(arena.is(shared));
        assert!(arena.leave(who(1), shared, &places));
    }
}
