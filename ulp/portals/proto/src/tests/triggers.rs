//! Triggered operations.

use super::initiator::put;
use super::*;

const ONE: CtEvent = CtEvent {
    success: 1,
    failure: 0,
};

fn counters<const N: usize>(bed: &mut Bed) -> [Handle; N] {
    [0; N].map(|_| bed.ni.ct_alloc().expect("a counter"))
}

fn descriptor(bed: &mut Bed) -> Handle {
    let init = MdInit {
        region: Region::flat(0, 64),
        options: MdOptions::empty(),
        eq: bed.eq,
        ct: Handle::CT_NONE,
    };
    bed.ni.md_bind(&init).expect("a legal descriptor")
}

/// The program's values of the operations that are due.
fn due(bed: &mut Bed) -> Vec<u64> {
    std::iter::from_fn(|| bed.ni.next_due())
        .map(|operation| operation.user_ptr)
        .collect()
}

#[test]
fn operations_fire_once_by_threshold_and_then_by_issue() {
    let mut bed = Bed::matching();
    let [ct] = counters(&mut bed);
    let md = descriptor(&mut bed);
    for (threshold, user_ptr) in [(3, 1), (2, 2), (3, 3), (9, 4), (1, 5)] {
        let operation = Operation {
            user_ptr,
            ..put(md, 8, AckRequest::None)
        };
        bed.ni
            .triggered(operation, ct, threshold)
            .expect("a legal operation");
    }
    assert_eq!(due(&mut bed), []);
    bed.ni
        .ct_set(
            ct,
            CtEvent {
                success: 2,
                failure: 1,
            },
        )
        .expect("it is allocated");
    assert_eq!(due(&mut bed), [5, 2, 1, 3]);
    bed.ni
        .ct_set(ct, CtEvent::default())
        .expect("it is allocated");
    bed.ni
        .ct_inc(
            ct,
            CtEvent {
                success: 0,
                failure: 8,
            },
        )
        .expect("it is allocated");
    assert_eq!(due(&mut bed), []);
    bed.ni.ct_inc(ct, ONE).expect("it is allocated");
    assert_eq!(due(&mut bed), [4]);
    // A threshold that is reached already fires at once.
    bed.ni
        .triggered(
            Operation {
                user_ptr: 6,
                ..put(md, 8, AckRequest::None)
            },
            ct,
            9,
        )
        .expect("a legal operation");
    assert_eq!(due(&mut bed), [6]);
}

#[test]
fn counters_chain_operations_in_order() {
    // PtlTriggeredCTInc: what waits for the counter that it moves comes after what fired beside it.
    let mut bed = Bed::matching();
    let [a, b] = counters(&mut bed);
    let md = descriptor(&mut bed);
    let operation = |user_ptr| Operation {
        user_ptr,
        ..put(md, 8, AckRequest::None)
    };
    bed.ni
        .triggered(operation(2), b, 1)
        .expect("a legal operation");
    bed.ni.triggered_ct_inc(b, ONE, a, 1).expect("legal");
    bed.ni
        .triggered(operation(1), a, 1)
        .expect("a legal operation");
    bed.ni
        .triggered_ct_set(
            a,
            CtEvent {
                success: 50,
                failure: 0,
            },
            b,
            1,
        )
        .expect("legal");
    bed.ni.ct_inc(a, ONE).expect("it is allocated");
    assert_eq!(due(&mut bed), [1, 2]);
    assert_eq!(
        bed.ni.ct_get(a),
        Ok(CtEvent {
            success: 50,
            failure: 0
        })
    );
}

#[test]
fn a_long_chain_needs_no_stack() {
    let mut bed = Bed::new(
        MATCHING,
        Limits {
            max_triggered_ops: 200_000,
            ..Limits::default()
        },
        PtOptions::empty(),
        8,
    );
    let [a, b, end] = counters(&mut bed);
    for step in 0..50_000 {
        bed.ni.triggered_ct_inc(b, ONE, a, step + 1).expect("legal");
        bed.ni.triggered_ct_inc(a, ONE, b, step + 1).expect("legal");
    }
    bed.ni.triggered_ct_inc(end, ONE, b, 50_000).expect("legal");
    bed.ni.ct_inc(a, ONE).expect("it is allocated");
    assert_eq!(bed.ni.ct_get(end), Ok(ONE));
    assert_eq!(
        bed.ni.ct_get(a),
        Ok(CtEvent {
            success: 50_001,
            failure: 0
        })
    );
}

#[test]
fn events_of_requests_and_operations_fire() {
    let mut bed = Bed::matching();
    let [ct] = counters(&mut bed);
    let md = descriptor(&mut bed);
    bed.append(
        &EntryInit {
            ct,
            ..entry(1, 8, EntryOptions::EVENT_CT_COMM)
        },
        List::Priority,
        1,
    );
    bed.ni
        .triggered(put(md, 8, AckRequest::None), ct, 2)
        .expect("a legal operation");
    bed.done(1, 8);
    assert_eq!(due(&mut bed), []);
    bed.done(1, 8);
    assert_eq!(due(&mut bed), [7]);
}

#[test]
fn what_waits_and_what_is_due_is_bounded_together() {
    let mut bed = Bed::new(
        MATCHING,
        Limits {
            max_triggered_ops: 2,
            ..Limits::default()
        },
        PtOptions::empty(),
        8,
    );
    let [ct, other] = counters(&mut bed);
    let md = descriptor(&mut bed);
    let operation = put(md, 8, AckRequest::None);
    bed.ni
        .triggered(operation, ct, 0)
        .expect("a legal operation");
    bed.ni
        .triggered(operation, ct, 1)
        .expect("a legal operation");
    assert_eq!(bed.ni.triggered(operation, ct, 5), Err(PtlError::NoSpace));
    assert_eq!(
        bed.ni.triggered_ct_inc(other, ONE, ct, 5),
        Err(PtlError::NoSpace)
    );
    assert_eq!(due(&mut bed).len(), 1);
    bed.ni
        .triggered_ct_inc(other, ONE, ct, 5)
        .expect("one was started");
    bed.ni.ct_free(ct).expect("it is allocated");
    assert_eq!(
        (due(&mut bed), bed.ni.ct_get(other)),
        (vec![], Ok(CtEvent::default()))
    );
    for _ in 0..2 {
        bed.ni
            .triggered(operation, other, 5)
            .expect("both were destroyed");
    }
}

#[test]
fn an_operation_is_checked_when_it_is_issued_and_when_it_starts() {
    let mut bed = Bed::matching();
    let [ct] = counters(&mut bed);
    let md = descriptor(&mut bed);
    assert_eq!(
        bed.ni.triggered(put(md, 65, AckRequest::None), ct, 1),
        Err(PtlError::ArgInvalid)
    );
    assert_eq!(
        bed.ni
            .triggered(put(md, 8, AckRequest::None), Handle::CT_NONE, 1),
        Err(PtlError::ArgInvalid)
    );
    bed.ni
        .triggered(put(md, 8, AckRequest::None), ct, 1)
        .expect("a legal operation");
    bed.ni.md_release(md).expect("nothing has started");
    bed.ni.ct_inc(ct, ONE).expect("it is allocated");
    let operation = bed.ni.next_due().expect("it has fired");
    assert_eq!(bed.ni.start(operation), Err(PtlError::ArgInvalid));
}

#[test]
fn entries_come_and_go_by_trigger() {
    let mut bed = Bed::matching();
    let [ct] = counters(&mut bed);
    let init = entry(1, 8, EntryOptions::empty());
    let handle = bed
        .ni
        .triggered_append(bed.pt, &init, List::Priority, 1, ct, 1)
        .expect("a legal entry");
    bed.ni
        .triggered_unlink(handle, ct, 2)
        .expect("the handle is valid at once");
    assert_eq!(bed.put(1, 8), Admission::Refused(NiFail::Dropped));
    assert_eq!(bed.ni.entry_unlink(handle), Err(PtlError::InUse));
    bed.ni.ct_inc(ct, ONE).expect("it is allocated");
    let hold = bed.granted(1, 8).hold;
    bed.ni.ct_inc(ct, ONE).expect("it is allocated");
    // Out of its list at once, gone when the request under way has ended.
    assert_eq!(bed.put(1, 8), Admission::Refused(NiFail::Dropped));
    assert!(bed.ni.owns(handle));
    bed.ni.delivered(hold, Delivery::Done);
    assert!(!bed.ni.owns(handle));
    assert_eq!(bed.kinds(), [(EventKind::Put, 1)]);
    bed.ni
        .triggered_append(bed.pt, &init, List::Priority, 1, ct, 9)
        .expect("a legal entry");
    bed.ni.ct_cancel_triggered(ct).expect("it is allocated");
    assert_eq!(bed.ni.objects.entries.len(), 0);
    // what is cancelled has not fired
    assert_eq!(bed.ni.summary().counts.triggered, 2);
}

#[test]
fn a_triggered_append_that_finds_its_list_full_is_gone() {
    let mut bed = Bed::new(
        MATCHING,
        Limits {
            max_list_size: 1,
            ..Limits::default()
        },
        PtOptions::empty(),
        8,
    );
    let [ct] = counters(&mut bed);
    let init = entry(1, 8, EntryOptions::empty());
    let handle = bed
        .ni
        .triggered_append(bed.pt, &init, List::Overflow, 1, ct, 1)
        .expect("a legal entry");
    bed.append(&init, List::Overflow, 2);
    assert_eq!(
        bed.ni.entry_append(bed.pt, &init, List::Overflow, 3),
        Err(PtlError::NoSpace)
    );
    bed.ni.ct_inc(ct, ONE).expect("it is allocated");
    assert!(!bed.ni.owns(handle));
    assert_eq!(bed.ni.objects.entries.len(), 1);
}
