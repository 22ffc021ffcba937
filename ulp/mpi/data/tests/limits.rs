//! Arguments without measure: no panic, no long loop, no large allocation, and the standard's error classes.

#![allow(clippy::unwrap_used)]

use ferriband_mpi_data::{
    Class, Datatype, Distribution, Error, Form, Named, Order, Segment, View, external,
};
use std::time::Instant;

const FORM: Form = Form::Count;

fn int() -> Datatype {
    Datatype::named(Named::Int)
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    let int = int();
    let overflow = Err(Error::Overflow);
    let size = |made: Result<Datatype, Error>| made.map(|made| made.size());
    for count in [i64::MAX, i64::MAX / 2, i64::MAX / 4 + 1] {
        assert_eq!(size(Datatype::contiguous_of(FORM, count, &int)), overflow);
        assert_eq!(size(Datatype::vector(FORM, count, 1, 1, &int)), overflow);
        assert_eq!(size(Datatype::vector(FORM, 2, count, 1, &int)), overflow);
        assert_eq!(size(Datatype::vector(FORM, 3, 1, count, &int)), overflow);
        assert_eq!(
            size(Datatype::indexed(FORM, &[1], &[count], &int)),
            overflow
        );
        assert_eq!(
            size(Datatype::indexed(FORM, &[count], &[0], &int)),
            overflow
        );
    }
    let far = [i64::MAX - 1];
    assert_eq!(size(Datatype::hindexed(FORM, &[1], &far, &int)), overflow);
    let apart = [i64::MIN, i64::MAX - 8];
    assert_eq!(
        size(Datatype::hindexed(FORM, &[1, 1], &apart, &int)),
        overflow
    );
    assert_eq!(
        size(Datatype::structure(
            FORM,
            &[1],
            &far,
            std::slice::from_ref(&int)
        )),
        overflow
    );
    assert_eq!(size(Datatype::resized(FORM, 5, i64::MAX, &int)), overflow);
    let large = [1 << 31, 1 << 31];
    assert_eq!(
        size(Datatype::subarray(
            FORM,
            &large,
            &[1, 1],
            &[0, 0],
            Order::C,
            &int
        )),
        overflow
    );
    assert_eq!(Error::Overflow.class(), Class::Arg);

    let widest = Datatype::contiguous_of(FORM, i64::MAX / 4, &int).unwrap();
    assert_eq!(widest.size(), i64::MAX / 4 * 4);
    assert_eq!(View::new(&widest, 2).unwrap_err(), Error::Overflow);
    assert_eq!(external::size(&widest, 2), Err(Error::Overflow));
    assert!(View::new(&widest, 1).unwrap().contiguous().is_some());
    let stretched = Datatype::resized(FORM, 0, i64::MAX / 2, &int).unwrap();
    assert_eq!(View::new(&stretched, 4).unwrap_err(), Error::Overflow);
}

#[test]
fn nothing_many_times_is_nothing() {
    let int = int();
    let none = Datatype::contiguous_of(FORM, 0, &int).unwrap();
    for made in [
        Datatype::vector(FORM, i64::MAX, 0, i64::MAX, &int),
        Datatype::contiguous_of(FORM, i64::MAX, &none),
        Datatype::hvector(FORM, 0, i64::MAX, i64::MIN, &none),
        Datatype::structure(FORM, &[], &[], &[]),
    ] {
        let made = made.unwrap();
        assert_eq!((made.size(), made.extent(), made.true_extent()), (0, 0, 0));
        let view = View::new(&made, i64::MAX).unwrap();
        assert_eq!(view.size(), 0);
        assert!(view.contiguous().is_some());
        assert_eq!(made.count_of(0), Some(0));
        assert_eq!(made.count_of(4), None);
        assert_eq!(made.elements_of(4), None);
        assert_eq!(made.bytes_of(3), None);
    }
}

#[test]
fn wrong_arguments_have_the_standards_classes() {
    let int = int();
    let class = |made: Result<Datatype, Error>| made.unwrap_err().class();
    assert_eq!(class(Datatype::contiguous_of(FORM, -1, &int)), Class::Count);
    assert_eq!(class(Datatype::vector(FORM, -1, 1, 1, &int)), Class::Count);
    assert_eq!(class(Datatype::vector(FORM, 1, -1, 1, &int)), Class::Arg);
    assert_eq!(
        class(Datatype::indexed(FORM, &[1, -2], &[0, 9], &int)),
        Class::Arg
    );
    assert_eq!(
        class(Datatype::indexed(FORM, &[1], &[0, 9], &int)),
        Class::Arg
    );
    let sub = |sizes: &[i64], parts: &[i64], starts: &[i64]| {
        class(Datatype::subarray(
            FORM,
            sizes,
            parts,
            starts,
            Order::C,
            &int,
        ))
    };
    assert_eq!(sub(&[], &[], &[]), Class::Dims);
    assert_eq!(sub(&[0], &[1], &[0]), Class::Arg);
    assert_eq!(sub(&[4], &[5], &[0]), Class::Arg);
    assert_eq!(sub(&[4], &[0], &[0]), Class::Arg);
    assert_eq!(sub(&[4], &[2], &[3]), Class::Arg);
    assert_eq!(sub(&[4], &[2], &[-1]), Class::Arg);
    assert_eq!(sub(&[i64::MAX], &[1], &[i64::MAX]), Class::Arg);
    let dealt = |size, rank, processes, distribution, argument| {
        let made = Datatype::darray(
            FORM,
            size,
            rank,
            &[8],
            &[distribution],
            &[argument],
            &[processes],
            Order::C,
            &int,
        );
        made.map(|made| made.size()).map_err(|error| error.class())
    };
    assert_eq!(dealt(2, 1, 2, Distribution::Block, 19), Ok(16));
    assert_eq!(dealt(3, 1, 2, Distribution::Block, 19), Err(Class::Arg));
    assert_eq!(dealt(2, 2, 2, Distribution::Block, 19), Err(Class::Arg));
    assert_eq!(dealt(2, -1, 2, Distribution::Block, 19), Err(Class::Arg));
    assert_eq!(dealt(2, 1, 2, Distribution::Block, 3), Err(Class::Arg));
    assert_eq!(dealt(2, 1, 2, Distribution::None, 19), Err(Class::Arg));
    assert_eq!(dealt(2, 1, 2, Distribution::Cyclic, 0), Err(Class::Arg));
    assert_eq!(dealt(0, 0, 0, Distribution::Cyclic, 1), Err(Class::Arg));
    assert!(Order::from_value(3).is_err() && Distribution::from_value(19).is_err());
}

/// Types of types: what they hold grows by a power, what they cost must not.
#[test]
fn nested_structures_stay_small() {
    let begin = Instant::now();
    let char = Datatype::named(Named::Char);
    let mut made = Datatype::structure(FORM, &[1, 1], &[0, 8], &[int(), char]).unwrap();
    let mut levels = 0;
    loop {
        let extent = made.extent();
        let places = [0, extent.saturating_add(3), extent.saturating_mul(2)];
        let types = [made.clone(), made.clone(), made.clone()];
        match Datatype::structure(FORM, &[1, 1, 1], &places, &types) {
            Ok(next) => made = next,
            Err(error) => break assert_eq!(error, Error::Overflow),
        }
        levels += 1;
    }
    assert!(levels > 30, "{levels}");
    // The middle is found without walking there.
    let view = View::new(&made, 1).unwrap();
    let mut out = [Segment::default(); 64];
    for part in 1..1000 {
        let from = view.size() / 1000 * part;
        let filled = view.segments(0, from, i64::MAX, &mut out);
        assert_eq!(filled.segments, 64);
    }
    let half = view.size() / 2 / 5 * 5;
    assert_eq!(made.elements_of(half), Some(half / 5 * 2));
    assert_eq!(made.bytes_of(half / 5 * 2), Some(half));
    assert_eq!(made.elements_of(half + 2), None);
    assert_eq!(external::size(&made, 1), Ok(view.size()));
    assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
}

#[test]
fn nesting_ends_before_the_stack_does() {
    let mut made = int();
    let error = loop {
        match Datatype::dup(&made) {
            Ok(next) => made = next,
            Err(error) => break error,
        }
    };
    assert_eq!(error.class(), Class::Other);
    // On a small stack, too, the last reference drops all of them.
    std::thread::Builder::new()
        .stack_size(1 << 20)
        .spawn(move || drop(made))
        .unwrap()
        .join()
        .unwrap();

    let mut deep = Datatype::vector(FORM, 2, 1, 3, &int()).unwrap();
    let mut levels = 1;
    while let Ok(next) = Datatype::hvector(FORM, 2, 1, deep.extent().saturating_add(1), &deep) {
        deep = next;
        levels += 1;
    }
    assert!(levels > 50, "{levels}");
    let mut out = [Segment::default(); 5];
    let filled = View::new(&deep, 1)
        .unwrap()
        .segments(0, deep.size() - 20, 20, &mut out);
    assert_eq!((filled.segments, filled.bytes), (5, 20));
}

#[test]
fn large_counts_are_seen_at_once() {
    // 2^40 blocks of 8 bytes, 24 apart
    let double = Datatype::named(Named::Double);
    let made = Datatype::vector(FORM, 1 << 40, 1, 3, &double).unwrap();
    assert_eq!(made.size(), 8 << 40);
    assert_eq!(made.runs(), 1 << 40);
    let view = View::new(&made, 1).unwrap();
    let mut out = [Segment::default(); 2];
    let filled = view.segments(0, (1 << 42) + 4, i64::MAX, &mut out);
    assert_eq!(filled.bytes, 12);
    let block = (1_usize << 42) / 8 * 24;
    assert_eq!(
        out[0],
        Segment {
            address: block + 4,
            len: 4
        }
    );
    assert_eq!(
        out[1],
        Segment {
            address: block + 24,
            len: 8
        }
    );
    assert_eq!(made.elements_of(16), Some(2));
    assert_eq!(made.elements_of(17), None);
}

/// Requests of all threads hold types and cursors.
#[test]
fn types_and_cursors_move_between_threads() {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    shared::<Datatype>();
    shared::<View>();
    shared::<ferriband_mpi_data::Cursor>();
}
