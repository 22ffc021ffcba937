//! Faults of the reference implementation (sandialabs/portals4, by issue), each a case that must
//! not be one here.

use super::*;
use EventKind::*;

#[test]
fn fault_22_auto_unlink_is_told_after_the_last_put() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut bed = Bed::matching();
        bed.append(
            &EntryInit {
                min_free: 1,
                ..entry(1, 24, EntryOptions::MANAGE_LOCAL)
            },
            List::Priority,
            1,
        );
        let holds = [0; 3].map(|_| bed.granted(1, 8).hold);
        order
            .into_iter()
            .for_each(|which| bed.ni.delivered(holds[which], Delivery::Done));
        assert_eq!(bed.kinds(), [(Put, 1), (Put, 1), (Put, 1), (AutoUnlink, 1)]);
    }
}

#[test]
fn fault_70_a_use_once_entry_lives_until_its_request_has_ended() {
    let mut bed = Bed::matching();
    let handle = bed.append(&entry(1, 8, EntryOptions::USE_ONCE), List::Priority, 1);
    let grant = bed.granted(1, 8);
    assert_eq!(bed.ni.entry_unlink(handle), Err(PtlError::InUse));
    assert!(bed.ni.owns(handle));
    assert_eq!(bed.put(1, 8), Admission::Refused(NiFail::Dropped));
    bed.ni.delivered(grant.hold, Delivery::Done);
    assert_eq!(bed.kinds(), [(Put, 1), (AutoUnlink, 1)]);
    assert!(!bed.ni.owns(handle));
    // The transport's second word about the request changes nothing.
    bed.ni.delivered(grant.hold, Delivery::Done);
    assert_eq!(bed.kinds(), []);
}

#[test]
fn fault_28_an_entry_all_of_whose_events_came_is_unlinked() {
    let mut bed = Bed::matching();
    let handle = bed.append(&entry(1, 8, EntryOptions::empty()), List::Priority, 1);
    let holds = [0; 4].map(|_| bed.granted(1, 8).hold);
    for (told, hold) in holds.into_iter().enumerate() {
        assert_eq!(
            bed.ni.entry_unlink(handle),
            Err(PtlError::InUse),
            "after {told} events"
        );
        bed.ni.delivered(hold, Delivery::Done);
        assert_eq!(bed.kinds(), [(Put, 1)]);
    }
    assert_eq!(bed.ni.entry_unlink(handle), Ok(()));
}

#[test]
fn fault_42_headers_on_a_table_entry_without_queue_are_met_in_silence() {
    let mut bed = Bed::matching();
    bed.pt = bed
        .ni
        .pt_alloc(PtOptions::empty(), Handle::EQ_NONE, None)
        .expect("a table entry");
    bed.append(&entry(1, 8, EntryOptions::USE_ONCE), List::Overflow, 100);
    bed.done(1, 8);
    bed.append(&entry(1, 8, EntryOptions::empty()), List::Priority, 1);
    bed.ni
        .entry_search(
            bed.pt,
            &entry(1, 8, EntryOptions::empty()),
            SearchOp::Only,
            2,
        )
        .expect("a legal search");
    assert_eq!(bed.kinds(), []);
    assert_eq!(bed.ni.unexpected_headers, 0);
}

#[test]
fn fault_52_headers_are_counted_by_what_is_there() {
    let mut bed = Bed::new(
        MATCHING,
        Limits {
            max_unexpected_headers: 2,
            ..Limits::default()
        },
        PtOptions::empty(),
        100,
    );
    bed.append(
        &EntryInit {
            ignore_bits: 0xff,
            ..entry(0, 8, EntryOptions::empty())
        },
        List::Overflow,
        100,
    );
    bed.append(&entry(0x100, 8, EntryOptions::empty()), List::Priority, 1);
    for _ in 0..5 {
        let late = bed.granted(1, 8);
        bed.done(2, 8);
        assert_eq!(bed.put(3, 8), Admission::Refused(NiFail::Dropped));
        bed.done(0x100, 8);
        // One is consumed while its data is under way, one by a search.
        let one = |bits| entry(bits, 8, EntryOptions::USE_ONCE);
        bed.append(&one(1), List::Priority, 2);
        assert_eq!(bed.put(3, 8), Admission::Refused(NiFail::Dropped));
        bed.ni.delivered(late.hold, Delivery::Done);
        bed.ni
            .entry_search(bed.pt, &one(2), SearchOp::Delete, 3)
            .expect("a legal search");
        assert_eq!(bed.ni.unexpected_headers, 0);
    }
}

#[test]
fn fault_58_overflow_is_counted_with_and_without_its_events() {
    let switches = [
        (EntryOptions::empty(), true),
        (EntryOptions::EVENT_OVER_DISABLE, true),
        (EntryOptions::empty(), false),
    ];
    for (options, queue) in switches {
        let mut bed = Bed::matching();
        if !queue {
            bed.pt = bed
                .ni
                .pt_alloc(PtOptions::empty(), Handle::EQ_NONE, None)
                .expect("a table entry");
        }
        let (came, met) = (
            bed.ni.ct_alloc().expect("a counter"),
            bed.ni.ct_alloc().expect("a counter"),
        );
        bed.append(
            &EntryInit {
                ct: came,
                ..entry(1, 100, EntryOptions::EVENT_CT_COMM)
            },
            List::Overflow,
            100,
        );
        let late = bed.granted(1, 8);
        bed.done(1, 9);
        let counted = options | EntryOptions::EVENT_CT_OVERFLOW | EntryOptions::EVENT_CT_BYTES;
        bed.append(
            &EntryInit {
                ct: met,
                ..entry(1, 8, counted)
            },
            List::Priority,
            1,
        );
        assert_eq!(
            bed.ni.ct_get(met),
            Ok(CtEvent {
                success: 9,
                failure: 0
            })
        );
        bed.ni.delivered(late.hold, Delivery::Done);
        assert_eq!(
            bed.ni.ct_get(met),
            Ok(CtEvent {
                success: 17,
                failure: 0
            })
        );
        assert_eq!(
            bed.ni.ct_get(came),
            Ok(CtEvent {
                success: 2,
                failure: 0
            })
        );
    }
}

#[test]
fn fault_14_pt_disabled_is_told_in_the_ack_alone() {
    let mut bed = Bed::matching();
    let init = MdInit {
        region: Region::flat(0, 8),
        options: MdOptions::empty(),
        eq: bed.eq,
        ct: Handle::CT_NONE,
    };
    let md = bed.ni.md_bind(&init).expect("a legal descriptor");
    for sent_is_told_first in [true, false] {
        let started = bed
            .ni
            .start(initiator::put(md, 8, AckRequest::Full))
            .expect("a legal operation");
        if sent_is_told_first {
            bed.ni.sent(started.id);
        }
        bed.ni
            .acked(started.id, AckInfo::refused(NiFail::PtDisabled));
        let told: Vec<_> = bed
            .events()
            .iter()
            .map(|event| (event.kind, event.ni_fail))
            .collect();
        assert_eq!(told, [(Send, NiFail::Ok), (Ack, NiFail::PtDisabled)]);
    }
}

#[test]
fn fault_3_no_count_is_lost_between_many_requests() {
    let mut bed = Bed::matching();
    let ct = bed.ni.ct_alloc().expect("a counter");
    let counted = EntryOptions::EVENT_CT_COMM | EntryOptions::EVENT_COMM_DISABLE;
    bed.append(
        &EntryInit {
            ct,
            ..entry(1, 8, counted)
        },
        List::Priority,
        1,
    );
    let holds: Vec<_> = (0..1000).map(|_| bed.granted(1, 8).hold).collect();
    for (number, hold) in holds.into_iter().rev().enumerate() {
        bed.ni.delivered(
            hold,
            if number % 10 == 0 {
                Delivery::Failed(NiFail::Segv)
            } else {
                Delivery::Done
            },
        );
        bed.ni
            .ct_inc(
                ct,
                CtEvent {
                    success: 1,
                    failure: 0,
                },
            )
            .expect("it is allocated");
    }
    assert_eq!(
        bed.ni.ct_get(ct),
        Ok(CtEvent {
            success: 1900,
            failure: 100
        })
    );
}

#[test]
fn fault_79_a_counter_is_usable_after_its_triggers_are_cancelled() {
    let mut bed = Bed::matching();
    let (ct, other) = (
        bed.ni.ct_alloc().expect("a counter"),
        bed.ni.ct_alloc().expect("a counter"),
    );
    let one = CtEvent {
        success: 1,
        failure: 0,
    };
    bed.ni.triggered_ct_inc(other, one, ct, 1).expect("legal");
    bed.ni.ct_cancel_triggered(ct).expect("it is allocated");
    bed.ni.ct_inc(ct, one).expect("it is allocated");
    assert_eq!(
        (bed.ni.ct_get(ct), bed.ni.ct_get(other)),
        (Ok(one), Ok(CtEvent::default()))
    );
    bed.ni.triggered_ct_inc(other, one, ct, 2).expect("legal");
    bed.ni.ct_inc(ct, one).expect("it is allocated");
    assert_eq!(bed.ni.ct_get(other), Ok(one));
    let two = CtEvent {
        success: 2,
        failure: 0,
    };
    assert_eq!(bed.ni.ct_poll(&[(ct, 2)], &mut []), Ok(Some((0, two))));
    assert_eq!(bed.ni.ct_poll(&[(ct, 3)], &mut []), Ok(None));
}
