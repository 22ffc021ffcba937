//! The overflow list, unexpected headers, and who meets them.

use super::*;
use EventKind::*;

/// A bed with an overflow entry of a thousand bytes for all bits below 256, whose events have the
/// value 100.
fn with_overflow(options: EntryOptions) -> (Bed, Handle) {
    let mut bed = Bed::matching();
    let init = EntryInit {
        ignore_bits: 0xff,
        ..entry(0, 1000, options | EntryOptions::MANAGE_LOCAL)
    };
    let handle = bed.append(&init, List::Overflow, 100);
    (bed, handle)
}

#[test]
fn an_append_meets_what_came_before_in_order_and_then_links() {
    let (mut bed, _) = with_overflow(EntryOptions::empty());
    for (bits, length) in [(1, 10), (2, 20), (1, 30)] {
        assert_eq!(bed.done(bits, length).list, List::Overflow);
    }
    assert_eq!(bed.kinds(), [(Put, 100); 3]);
    let summary = bed.ni.summary();
    assert_eq!((summary.overflow, summary.unexpected), (1, 3));
    assert_eq!((summary.counts.overflow, summary.counts.priority), (3, 0));
    let mut init = entry(1, 5, EntryOptions::empty());
    init.options.remove(EntryOptions::EVENT_LINK_DISABLE);
    bed.append(&init, List::Priority, 1);
    let told: Vec<_> = bed
        .events()
        .iter()
        .map(|e| (e.kind, e.user_ptr, e.start, e.mlength, e.list))
        .collect();
    let overflow = List::Overflow;
    let expected = [
        (PutOverflow, 1, START, 10, overflow),
        (PutOverflow, 1, START + 30, 30, overflow),
        (Link, 1, 0, 0, List::Priority),
    ];
    assert_eq!(told, expected);
    assert_eq!(bed.done(1, 3).list, List::Priority);
    assert_eq!(bed.ni.unexpected_headers, 1);
}

#[test]
fn a_use_once_entry_meets_one_header_and_is_not_linked() {
    let (mut bed, overflow) = with_overflow(EntryOptions::EVENT_COMM_DISABLE);
    (0..2).for_each(|_| drop(bed.done(1, 10)));
    let once = entry(1, 5, EntryOptions::USE_ONCE);
    let handle = bed.append(&once, List::Priority, 1);
    assert_eq!(bed.kinds(), [(PutOverflow, 1), (AutoUnlink, 1)]);
    assert_eq!(bed.ni.entry_unlink(handle), Err(PtlError::ArgInvalid));
    assert_eq!(bed.ni.entry_unlink(overflow), Err(PtlError::InUse));
    bed.append(&once, List::Priority, 2);
    bed.append(&once, List::Priority, 3);
    assert_eq!(bed.kinds(), [(PutOverflow, 2), (AutoUnlink, 2)]);
    assert_eq!(bed.done(1, 1).list, List::Priority);
    assert_eq!(bed.ni.entry_unlink(overflow), Ok(()));
}

#[test]
fn every_operation_has_its_overflow_event() {
    let (mut bed, _) = with_overflow(EntryOptions::OP_GET | EntryOptions::EVENT_COMM_DISABLE);
    let sum = Some((AtomicOp::Sum, Datatype::Int8));
    let swap = Some((AtomicOp::Swap, Datatype::Int8));
    let all = [
        (ArrivalOp::Put, None, PutOverflow),
        (ArrivalOp::Get, None, GetOverflow),
        (ArrivalOp::Atomic, sum, AtomicOverflow),
        (ArrivalOp::FetchAtomic, sum, FetchAtomicOverflow),
        (ArrivalOp::Swap, swap, FetchAtomicOverflow),
    ];
    for (op, atomic, _) in all {
        let arrival = Arrival {
            atomic,
            ..bed.arrival(op, 1, 4)
        };
        let grant = grant(bed.ni.arrive(&arrival));
        bed.ni.delivered(grant.hold, Delivery::Done);
    }
    bed.append(&entry(1, 5, EntryOptions::empty()), List::Priority, 1);
    assert_eq!(
        bed.events()
            .iter()
            .map(|event| event.kind)
            .collect::<Vec<_>>(),
        all.map(|(_, _, kind)| kind)
    );
}

#[test]
fn a_header_is_met_at_once_and_told_when_its_data_is_there() {
    let (mut bed, _) = with_overflow(EntryOptions::empty());
    let late = bed.granted(1, 10);
    bed.done(1, 20);
    let handle = bed.append(&entry(1, 5, EntryOptions::empty()), List::Priority, 1);
    assert_eq!(bed.kinds(), [(Put, 100), (PutOverflow, 1)]);
    assert_eq!(bed.ni.entry_unlink(handle), Err(PtlError::InUse));
    bed.ni
        .delivered(late.hold, Delivery::Failed(NiFail::Undeliverable));
    let told: Vec<_> = bed
        .events()
        .iter()
        .map(|event| (event.kind, event.ni_fail))
        .collect();
    assert_eq!(
        told,
        [
            (Put, NiFail::Undeliverable),
            (PutOverflow, NiFail::Undeliverable)
        ]
    );
    assert_eq!(bed.ni.entry_unlink(handle), Ok(()));
    assert_eq!(bed.ni.unexpected_headers, 0);
}

#[test]
fn a_use_once_entry_that_met_data_under_way_unlinks_after_it() {
    let (mut bed, _) = with_overflow(EntryOptions::EVENT_COMM_DISABLE);
    let late = bed.granted(1, 10);
    let handle = bed.append(&entry(1, 5, EntryOptions::USE_ONCE), List::Priority, 1);
    assert_eq!(bed.kinds(), []);
    assert_eq!(bed.ni.entry_unlink(handle), Err(PtlError::InUse));
    bed.ni.delivered(late.hold, Delivery::Done);
    assert_eq!(bed.kinds(), [(PutOverflow, 1), (AutoUnlink, 1)]);
}

#[test]
fn auto_free_comes_after_the_last_header_and_before_the_unlink_of_who_met_it() {
    // The order is that of test/sfw/test_n2/test_put_overflow-008.
    let mut bed = Bed::matching();
    let init = entry(1, 100, EntryOptions::USE_ONCE);
    let overflow = bed.append(&init, List::Overflow, 100);
    bed.done(1, 4);
    assert_eq!(bed.kinds(), [(Put, 100), (AutoUnlink, 100)]);
    assert_eq!(bed.ni.entry_unlink(overflow), Err(PtlError::ArgInvalid));
    bed.append(&init, List::Priority, 1);
    assert_eq!(
        bed.kinds(),
        [(PutOverflow, 1), (AutoFree, 100), (AutoUnlink, 1)]
    );
    assert_eq!(bed.ni.objects.entries.len(), 0);
}

#[test]
fn an_overflow_entry_without_headers_is_free_with_its_last_request() {
    let mut bed = Bed::matching();
    let options = EntryOptions::USE_ONCE | EntryOptions::UNEXPECTED_HDR_DISABLE;
    bed.append(&entry(1, 0, options), List::Overflow, 100);
    assert_eq!(bed.done(1, 50).length, 0);
    assert_eq!(
        bed.kinds(),
        [(Put, 100), (AutoUnlink, 100), (AutoFree, 100)]
    );
    bed.append(&entry(1, 8, EntryOptions::empty()), List::Priority, 1);
    assert_eq!(bed.kinds(), []);
}

#[test]
fn a_search_shows_or_consumes() {
    let (mut bed, _) = with_overflow(EntryOptions::EVENT_COMM_DISABLE);
    for bits in [1, 2, 1] {
        bed.done(bits, 10);
    }
    let every = entry(1, 0, EntryOptions::empty());
    let first = entry(1, 0, EntryOptions::USE_ONCE);
    bed.ni
        .entry_search(bed.pt, &every, SearchOp::Only, 1)
        .expect("a legal search");
    bed.ni
        .entry_search(bed.pt, &first, SearchOp::Only, 2)
        .expect("a legal search");
    assert_eq!(bed.kinds(), [(Search, 1), (Search, 1), (Search, 2)]);
    bed.ni
        .entry_search(bed.pt, &first, SearchOp::Delete, 3)
        .expect("a legal search");
    bed.ni
        .entry_search(bed.pt, &every, SearchOp::Delete, 4)
        .expect("a legal search");
    assert_eq!(bed.kinds(), [(PutOverflow, 3), (PutOverflow, 4)]);
    for op in [SearchOp::Only, SearchOp::Delete] {
        bed.ni
            .entry_search(bed.pt, &every, op, 5)
            .expect("a legal search");
        assert_eq!(
            bed.events()
                .iter()
                .map(|e| (e.kind, e.ni_fail))
                .collect::<Vec<_>>(),
            [(Search, NiFail::NoMatch)]
        );
    }
    assert_eq!(bed.ni.status(StatusRegister::DropCount), 0);
    assert_eq!(bed.ni.unexpected_headers, 1);
}

#[test]
fn a_search_counts_what_it_finds_and_where_it_ends() {
    // 4.3, as test_search_{only,delete}_counter_{le,me}* expect: a search for all ends with a
    // failure, one for the first fails if there is none.
    for op in [SearchOp::Only, SearchOp::Delete] {
        let (mut bed, _) = with_overflow(EntryOptions::EVENT_COMM_DISABLE);
        let ct = bed.ni.ct_alloc().expect("a counter");
        (0..3).for_each(|_| drop(bed.done(1, 10)));
        let counted = |bits, options| EntryInit {
            ct,
            ..entry(bits, 0, options | EntryOptions::EVENT_CT_OVERFLOW)
        };
        let steps = [
            (counted(1, EntryOptions::USE_ONCE), 1, 0),
            (counted(9, EntryOptions::USE_ONCE), 1, 1),
            (
                counted(1, EntryOptions::empty()),
                if op == SearchOp::Only { 4 } else { 3 },
                2,
            ),
        ];
        for (init, success, failure) in steps {
            bed.ni
                .entry_search(bed.pt, &init, op, 0)
                .expect("a legal search");
            assert_eq!(bed.ni.ct_get(ct), Ok(CtEvent { success, failure }));
        }
    }
}

#[test]
fn a_no_truncate_entry_does_not_meet_what_it_could_not_have_taken() {
    let (mut bed, _) = with_overflow(EntryOptions::EVENT_COMM_DISABLE);
    for length in [50, 8] {
        bed.done(1, length);
    }
    bed.append(
        &entry(1, 10, EntryOptions::NO_TRUNCATE | EntryOptions::USE_ONCE),
        List::Priority,
        1,
    );
    let told: Vec<_> = bed
        .events()
        .iter()
        .map(|event| (event.kind, event.rlength))
        .collect();
    assert_eq!(told, [(PutOverflow, 8), (AutoUnlink, 0)]);
}

#[test]
fn headers_move_the_local_offset_until_min_free() {
    // test_manage_local_and_inc_uh_rlength: five headers of 8, an entry of 48 that leaves below 30.
    let (mut bed, _) = with_overflow(EntryOptions::EVENT_COMM_DISABLE);
    (0..5).for_each(|_| drop(bed.done(1, 8)));
    let options = EntryOptions::MANAGE_LOCAL | EntryOptions::LOCAL_INC_UH_RLENGTH;
    let mut init = EntryInit {
        min_free: 30,
        ..entry(1, 48, options)
    };
    init.options.remove(EntryOptions::EVENT_LINK_DISABLE);
    let handle = bed.append(&init, List::Priority, 1);
    assert_eq!(
        bed.kinds(),
        [
            (PutOverflow, 1),
            (PutOverflow, 1),
            (PutOverflow, 1),
            (AutoUnlink, 1)
        ]
    );
    assert_eq!(bed.ni.entry_unlink(handle), Ok(()));
    assert_eq!(bed.ni.entry_unlink(handle), Err(PtlError::ArgInvalid));
    bed.append(
        &EntryInit {
            min_free: 0,
            ..init.clone()
        },
        List::Priority,
        2,
    );
    assert_eq!(bed.kinds(), [(PutOverflow, 2), (PutOverflow, 2), (Link, 2)]);
    assert_eq!(bed.granted(1, 8).offset, 16);
    init.options.remove(EntryOptions::LOCAL_INC_UH_RLENGTH);
}

#[test]
fn a_freed_table_entry_gives_its_headers_up() {
    let mut bed = Bed::matching();
    bed.append(&entry(1, 100, EntryOptions::USE_ONCE), List::Overflow, 100);
    let hold = bed.granted(1, 4);
    assert_eq!(bed.ni.pt_free(bed.pt), Err(PtlError::PtInUse));
    bed.ni.delivered(hold.hold, Delivery::Done);
    assert_eq!(bed.ni.pt_free(bed.pt), Ok(()));
    assert_eq!(
        (bed.ni.unexpected_headers, bed.ni.objects.entries.len()),
        (0, 0)
    );
}
