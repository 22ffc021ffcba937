//! Requests that match in the priority list.

use super::*;
use EventKind::*;

/// The event of the PUT of the test that follows.
fn told_of_the_put(kind: NiKind, pt_index: u32) -> Event {
    Event {
        kind: Put,
        list: List::Priority,
        ni_fail: NiFail::Ok,
        atomic: None,
        start: START + 8,
        user_ptr: 77,
        hdr_data: 0xabcd,
        match_bits: 5,
        rlength: 16,
        mlength: 16,
        remote_offset: 8,
        initiator: if kind.logical {
            Peer::Rank(7)
        } else {
            Peer::Physical(Process { nid: 10, pid: 20 })
        },
        uid: 500,
        pt_index,
    }
}

#[test]
fn a_put_tells_all_that_the_initiator_said() {
    for kind in [MATCHING, UNMATCHED] {
        let mut bed = Bed::new(kind, Limits::default(), PtOptions::empty(), 8);
        let ct = bed.ni.ct_alloc().expect("a counter");
        let options = EntryOptions::EVENT_CT_COMM | EntryOptions::EVENT_CT_BYTES;
        bed.append(
            &EntryInit {
                ct,
                ..entry(5, 64, options)
            },
            List::Priority,
            77,
        );
        let arrival = Arrival {
            remote_offset: 8,
            ..bed.arrival(ArrivalOp::Put, 5, 16)
        };
        let grant = grant(bed.ni.arrive(&arrival));
        assert_eq!(bed.kinds(), []);
        assert_eq!(
            (grant.length, grant.offset, grant.list),
            (16, 8, List::Priority)
        );
        assert_eq!(
            grant.pieces.as_slice(),
            [Piece {
                address: START + 8,
                length: 16
            }]
        );
        assert!(!bed.ni.pt_is_quiet(bed.pt).expect("it is allocated"));
        bed.ni.delivered(grant.hold, Delivery::Done);
        let told = told_of_the_put(kind, bed.pt);
        assert_eq!(bed.events(), [told]);
        assert_eq!(
            bed.ni.ct_get(ct),
            Ok(CtEvent {
                success: 16,
                failure: 0
            })
        );
        assert_eq!(
            grant.answer(Delivery::Done),
            AckInfo {
                fail: NiFail::Ok,
                length: 16,
                offset: 8,
                list: List::Priority
            }
        );
        assert_eq!(
            bed.ni.take_news(),
            News {
                events: true,
                counters: true
            }
        );
        assert_eq!(bed.ni.take_news(), News::default());
    }
}

#[test]
fn a_failed_delivery_is_told_counted_as_one_and_answered() {
    let mut bed = Bed::matching();
    let ct = bed.ni.ct_alloc().expect("a counter");
    let options = EntryOptions::EVENT_CT_COMM
        | EntryOptions::EVENT_CT_BYTES
        | EntryOptions::EVENT_SUCCESS_DISABLE;
    bed.append(
        &EntryInit {
            ct,
            ..entry(5, 64, options)
        },
        List::Priority,
        1,
    );
    bed.done(5, 8);
    assert_eq!(bed.kinds(), []);
    let grant = bed.granted(5, 8);
    let outcome = Delivery::Failed(NiFail::Segv);
    bed.ni.delivered(grant.hold, outcome);
    assert_eq!(
        bed.events()
            .iter()
            .map(|event| event.ni_fail)
            .collect::<Vec<_>>(),
        [NiFail::Segv]
    );
    assert_eq!(
        bed.ni.ct_get(ct),
        Ok(CtEvent {
            success: 8,
            failure: 1
        })
    );
    assert_eq!(grant.answer(outcome).fail, NiFail::Segv);
}

#[test]
fn what_does_not_fit_is_cut_or_does_not_match() {
    let mut bed = Bed::matching();
    bed.append(&entry(5, 10, EntryOptions::NO_TRUNCATE), List::Priority, 1);
    bed.append(&entry(5, 12, EntryOptions::empty()), List::Priority, 2);
    assert_eq!(bed.done(5, 10).length, 10);
    assert_eq!(bed.done(5, 100).length, 12);
    let past = Arrival {
        remote_offset: u64::MAX,
        ..bed.arrival(ArrivalOp::Put, 5, 4)
    };
    let past = grant(bed.ni.arrive(&past));
    assert_eq!((past.length, past.pieces.as_slice()), (0, &[][..]));
    bed.ni.delivered(past.hold, Delivery::Done);
    let told: Vec<_> = bed
        .events()
        .iter()
        .map(|event| (event.user_ptr, event.rlength, event.mlength))
        .collect();
    assert_eq!(told, [(1, 10, 10), (2, 100, 12), (2, 4, 0)]);
}

#[test]
fn an_atomic_is_cut_to_whole_values() {
    let mut bed = Bed::matching();
    let both = EntryOptions::OP_GET;
    bed.append(&entry(5, 13, both), List::Priority, 1);
    let sum = Some((AtomicOp::Sum, Datatype::Int32));
    let arrival = Arrival {
        atomic: sum,
        ..bed.arrival(ArrivalOp::FetchAtomic, 5, 16)
    };
    let grant = grant(bed.ni.arrive(&arrival));
    assert_eq!(grant.length, 12);
    bed.ni.delivered(grant.hold, Delivery::Done);
    assert_eq!(
        bed.events()
            .iter()
            .map(|event| (event.kind, event.atomic))
            .collect::<Vec<_>>(),
        [(FetchAtomic, sum)]
    );
    let illegal = Arrival {
        atomic: sum,
        ..bed.arrival(ArrivalOp::Swap, 5, 16)
    };
    assert_eq!(
        bed.ni.arrive(&illegal),
        Admission::Refused(NiFail::OpViolation)
    );
}

#[test]
fn a_violation_is_dropped_counted_and_tried_on_no_other_entry() {
    let mut bed = Bed::matching();
    bed.append(
        &EntryInit {
            uid: 3,
            ..entry(5, 64, EntryOptions::empty())
        },
        List::Priority,
        1,
    );
    bed.append(&entry(5, 64, EntryOptions::OP_GET), List::Priority, 2);
    bed.append(&entry(6, 64, EntryOptions::empty()), List::Priority, 3);
    assert_eq!(bed.put(5, 8), Admission::Refused(NiFail::PermViolation));
    for op in [ArrivalOp::Get, ArrivalOp::FetchAtomic] {
        let atomic = (op != ArrivalOp::Get).then_some((AtomicOp::Min, Datatype::Int8));
        let arrival = Arrival {
            atomic,
            ..bed.arrival(op, 6, 8)
        };
        assert_eq!(
            bed.ni.arrive(&arrival),
            Admission::Refused(NiFail::OpViolation)
        );
    }
    assert_eq!(bed.put(9, 8), Admission::Refused(NiFail::Dropped));
    let nowhere = Arrival {
        pt_index: 1_000_000,
        ..bed.arrival(ArrivalOp::Put, 5, 8)
    };
    assert_eq!(bed.ni.arrive(&nowhere), Admission::Refused(NiFail::Dropped));
    use StatusRegister::*;
    assert_eq!(
        [DropCount, PermissionViolations, OperationViolations].map(|sr| bed.ni.status(sr)),
        [2, 1, 2]
    );
    assert_eq!(bed.kinds(), []);
}

#[test]
fn a_local_offset_moves_and_min_free_unlinks() {
    let mut bed = Bed::matching();
    let init = EntryInit {
        min_free: 4,
        ..entry(5, 20, EntryOptions::MANAGE_LOCAL)
    };
    let handle = bed.append(&init, List::Priority, 1);
    let first = bed.granted(5, 8);
    let second = bed.granted(5, 8);
    let third = bed.granted(5, 1);
    assert_eq!([first.offset, second.offset, third.offset], [0, 8, 16]);
    assert_eq!(bed.put(5, 1), Admission::Refused(NiFail::Dropped));
    // AUTO_UNLINK waits for the slowest (law 6); until then the entry is in use (law 4).
    for hold in [third.hold, first.hold] {
        bed.ni.delivered(hold, Delivery::Done);
        assert_eq!(bed.kinds(), [(Put, 1)]);
        assert_eq!(bed.ni.entry_unlink(handle), Err(PtlError::InUse));
    }
    bed.ni.delivered(second.hold, Delivery::Done);
    assert_eq!(bed.kinds(), [(Put, 1), (AutoUnlink, 1)]);
    assert_eq!(bed.ni.entry_unlink(handle), Err(PtlError::ArgInvalid));
}

#[test]
fn events_and_counts_are_switched_off_one_by_one() {
    let switches = [
        (EntryOptions::empty(), vec![Put, AutoUnlink]),
        (EntryOptions::EVENT_COMM_DISABLE, vec![AutoUnlink]),
        (EntryOptions::EVENT_SUCCESS_DISABLE, vec![AutoUnlink]),
        (EntryOptions::EVENT_UNLINK_DISABLE, vec![Put]),
    ];
    for (options, expected) in switches {
        let mut bed = Bed::matching();
        bed.append(
            &entry(5, 8, options | EntryOptions::USE_ONCE),
            List::Priority,
            1,
        );
        bed.done(5, 8);
        assert_eq!(
            bed.kinds()
                .iter()
                .map(|&(kind, _)| kind)
                .collect::<Vec<_>>(),
            expected
        );
        assert_eq!(bed.ni.objects.entries.len(), 0);
    }
}

#[test]
fn link_is_told_and_masks_are_checked() {
    let mut bed = Bed::matching();
    let mut init = entry(5, 8, EntryOptions::empty());
    init.options.remove(EntryOptions::EVENT_LINK_DISABLE);
    let handle = bed.append(&init, List::Overflow, 4);
    assert_eq!(
        bed.events()
            .iter()
            .map(|e| (e.kind, e.list, e.user_ptr))
            .collect::<Vec<_>>(),
        [(Link, List::Overflow, 4)]
    );
    assert!(bed.ni.owns(handle));
    assert_eq!(bed.ni.entry_unlink(handle), Ok(()));
    assert!(!bed.ni.owns(handle));
    assert_eq!(bed.ni.entry_unlink(handle), Err(PtlError::ArgInvalid));
    let physical = EntryInit {
        match_id: Peer::Physical(Process { nid: 1, pid: 1 }),
        ..init.clone()
    };
    assert_eq!(
        bed.ni.entry_append(bed.pt, &physical, List::Priority, 0),
        Err(PtlError::ArgInvalid)
    );
    let mut plain = Bed::new(UNMATCHED, Limits::default(), PtOptions::empty(), 8);
    let managed = entry(5, 8, EntryOptions::MANAGE_LOCAL);
    assert_eq!(
        plain.ni.entry_append(plain.pt, &managed, List::Priority, 0),
        Err(PtlError::ArgInvalid)
    );
    assert_eq!(
        bed.ni.entry_append(bed.pt + 1, &init, List::Priority, 0),
        Err(PtlError::ArgInvalid)
    );
}

#[test]
fn an_iovec_is_one_region() {
    let mut bed = Bed::matching();
    let pieces = vec![
        Piece {
            address: 100,
            length: 3,
        },
        Piece {
            address: 200,
            length: 0,
        },
        Piece {
            address: 300,
            length: 5,
        },
    ];
    let init = EntryInit {
        region: Region::Iovec(pieces),
        ..entry(5, 0, EntryOptions::empty())
    };
    bed.append(&init, List::Priority, 1);
    let arrival = Arrival {
        remote_offset: 2,
        ..bed.arrival(ArrivalOp::Put, 5, 100)
    };
    let grant = grant(bed.ni.arrive(&arrival));
    assert_eq!(
        grant.pieces.as_slice(),
        [
            Piece {
                address: 102,
                length: 1
            },
            Piece {
                address: 300,
                length: 5
            }
        ]
    );
    bed.ni.delivered(grant.hold, Delivery::Done);
    assert_eq!(bed.events()[0].start, 102);
}

#[test]
fn matching_asks_for_bits_and_initiator() {
    let mut bed = Bed::matching();
    bed.append(
        &EntryInit {
            match_id: Peer::Rank(8),
            ..entry(5, 8, EntryOptions::empty())
        },
        List::Priority,
        1,
    );
    bed.append(
        &EntryInit {
            ignore_bits: 0xf0,
            ..entry(5, 8, EntryOptions::empty())
        },
        List::Priority,
        2,
    );
    bed.append(
        &EntryInit {
            match_id: Peer::Rank(7),
            ..entry(5, 8, EntryOptions::empty())
        },
        List::Priority,
        3,
    );
    bed.done(0x35, 1);
    bed.done(5, 1);
    let other = Arrival {
        rank: 8,
        ..bed.arrival(ArrivalOp::Put, 5, 1)
    };
    let other = grant(bed.ni.arrive(&other));
    bed.ni.delivered(other.hold, Delivery::Done);
    assert_eq!(bed.kinds(), [(Put, 2), (Put, 2), (Put, 1)]);
}

#[test]
fn table_entries_are_allocated_freed_and_bounded() {
    let mut ni = Interface::new(
        MATCHING,
        Limits::granted(
            None,
            &Limits {
                max_pt_index: 63,
                ..Limits::default()
            },
        ),
    );
    let none = PtOptions::empty();
    assert_eq!(
        ni.pt_alloc(none, Handle::EQ_NONE, Some(64)),
        Err(PtlError::ArgInvalid)
    );
    assert_eq!(
        ni.pt_alloc(PtOptions::FLOWCTRL, Handle::EQ_NONE, None),
        Err(PtlError::PtEqNeeded)
    );
    assert_eq!(ni.pt_alloc(none, Handle::EQ_NONE, Some(0)), Ok(0));
    assert_eq!(
        ni.pt_alloc(none, Handle::EQ_NONE, Some(0)),
        Err(PtlError::PtInUse)
    );
    for index in 1..64 {
        assert_eq!(ni.pt_alloc(none, Handle::EQ_NONE, None), Ok(index));
    }
    assert_eq!(
        ni.pt_alloc(none, Handle::EQ_NONE, None),
        Err(PtlError::PtFull)
    );
    let handle = ni
        .entry_append(3, &entry(1, 1, EntryOptions::empty()), List::Priority, 0)
        .expect("a legal entry");
    assert_eq!(ni.pt_free(3), Err(PtlError::PtInUse));
    assert_eq!(ni.entry_unlink(handle), Ok(()));
    assert_eq!(
        (ni.pt_free(3), ni.pt_free(3)),
        (Ok(()), Err(PtlError::ArgInvalid))
    );
    assert_eq!(ni.pt_alloc(none, Handle::EQ_NONE, None), Ok(3));
}

#[test]
fn who_waits_for_a_count_sees_it_as_it_was_reached() {
    let mut bed = Bed::matching();
    let [ct, other] = [0; 2].map(|_| bed.ni.ct_alloc().expect("a counter"));
    let tests = [(other, 1), (ct, 3)];
    let (mut first, mut second) = ([NOT_WATCHED; 2], [NOT_WATCHED; 1]);
    assert_eq!(bed.ni.ct_poll(&tests, &mut first), Ok(None));
    assert_eq!(bed.ni.ct_poll(&[(ct, 5)], &mut second), Ok(None));
    let count = |success| CtEvent {
        success,
        failure: 0,
    };
    for _ in 0..4 {
        bed.ni.ct_inc(ct, count(1)).expect("it is allocated");
    }
    bed.ni.ct_set(ct, count(0)).expect("it is allocated");
    // watched tests have numbers of their own: each is found, and only its own
    let found = bed.ni.ct_poll(&tests, &mut first);
    assert_eq!(found, Ok(Some((1, count(3)))));
    assert_eq!(bed.ni.ct_poll(&[(ct, 5)], &mut second), Ok(None));
    bed.ni.ct_unwatch(&tests, &first);
    assert_eq!(bed.ni.ct_poll(&tests, &mut [NOT_WATCHED; 2]), Ok(None));
    bed.ni.ct_inc(ct, count(7)).expect("it is allocated");
    bed.ni.ct_inc(ct, count(7)).expect("it is allocated");
    let found = bed.ni.ct_poll(&[(ct, 5)], &mut second);
    assert_eq!(found, Ok(Some((0, count(7)))));
    // a failure ends a wait, whatever the test
    let both = CtEvent {
        success: 1,
        failure: 1,
    };
    assert_eq!(bed.ni.ct_inc(other, both), Err(PtlError::ArgInvalid));
    bed.ni.ct_set(other, both).expect("it is allocated");
    let found = bed.ni.ct_poll(&[(other, 10)], &mut [NOT_WATCHED]);
    assert_eq!(found, Ok(Some((0, both))));
    // what is reached before anybody waits is seen as it is
    let found = bed.ni.ct_poll(&[(ct, 5)], &mut [NOT_WATCHED]);
    assert_eq!(found, Ok(Some((0, count(14)))));
}

#[test]
fn polls_go_round_and_name_who_is_ready() {
    let mut bed = Bed::matching();
    let cts = [0; 3].map(|_| bed.ni.ct_alloc().expect("a counter"));
    let tests = cts.map(|ct| (ct, 1));
    assert_eq!(bed.ni.ct_poll(&tests, &mut []), Ok(None));
    for ct in [cts[0], cts[2]] {
        bed.ni
            .ct_inc(
                ct,
                CtEvent {
                    success: 0,
                    failure: 1,
                },
            )
            .expect("it is allocated");
    }
    let mut seen = [0; 3];
    for _ in 0..6 {
        seen[bed
            .ni
            .ct_poll(&tests, &mut [])
            .ok()
            .flatten()
            .expect("two are ready")
            .0] += 1;
    }
    assert!(seen[0] > 0 && seen[2] > 0 && seen[1] == 0, "{seen:?}");
    assert_eq!(bed.ni.ct_poll(&[], &mut []), Err(PtlError::ArgInvalid));
    assert_eq!(
        bed.ni.eq_poll(&[bed.eq, Handle::EQ_NONE]),
        Err(PtlError::ArgInvalid)
    );
    assert_eq!(bed.ni.eq_poll(&[bed.eq]), Err(PtlError::EqEmpty));
    let other = bed.ni.eq_alloc(1).expect("a queue");
    bed.append(&entry(5, 8, EntryOptions::empty()), List::Priority, 9);
    bed.done(5, 1);
    let (which, taken) = bed.ni.eq_poll(&[other, bed.eq]).expect("an event is there");
    assert_eq!((which, taken.event.user_ptr, taken.dropped), (1, 9, false));
}

#[test]
fn law_2_requests_match_in_the_order_in_which_they_came_whenever_their_data_does() {
    for kind in [MATCHING, UNMATCHED] {
        let mut bed = Bed::new(kind, Limits::default(), PtOptions::empty(), 100);
        for user_ptr in 0..6 {
            // Every other entry is wild, so that hashed and walked entries take turns.
            let ignore_bits = if kind.matching && user_ptr % 2 == 0 {
                u64::MAX
            } else {
                0
            };
            let init = EntryInit {
                match_id: Peer::Rank(7),
                ignore_bits,
                ..entry(5, 8, EntryOptions::USE_ONCE)
            };
            let init = if kind.matching {
                init
            } else {
                EntryInit {
                    match_id: Peer::Rank(Peer::RANK_ANY),
                    ..init
                }
            };
            bed.append(&init, List::Priority, user_ptr);
        }
        let holds: Vec<_> = (0..6)
            .map(|number| {
                let arrival = Arrival {
                    hdr_data: number,
                    ..bed.arrival(ArrivalOp::Put, 5, 8)
                };
                grant(bed.ni.arrive(&arrival)).hold
            })
            .collect();
        holds
            .into_iter()
            .rev()
            .for_each(|hold| bed.ni.delivered(hold, Delivery::Done));
        let puts: Vec<_> = bed
            .events()
            .iter()
            .filter(|e| e.kind == Put)
            .map(|e| (e.hdr_data, e.user_ptr))
            .collect();
        assert_eq!(
            puts,
            (0..6)
                .rev()
                .map(|number| (number, number))
                .collect::<Vec<_>>()
        );
    }
}

#[test]
fn law_10_requests_and_operations_under_way_are_bounded() {
    let mut bed = Bed::matching();
    bed.append(&entry(5, 8, EntryOptions::empty()), List::Priority, 1);
    let first = bed.granted(5, 8).hold;
    (1..1 << 16).for_each(|_| drop(bed.granted(5, 8)));
    assert_eq!(bed.put(5, 8), Admission::Refused(NiFail::Dropped));
    bed.ni.delivered(first, Delivery::Done);
    bed.granted(5, 8);
    let init = MdInit {
        region: Region::flat(0, 8),
        options: MdOptions::empty(),
        eq: bed.eq,
        ct: Handle::CT_NONE,
    };
    let md = bed.ni.md_bind(&init).expect("a legal descriptor");
    let put = initiator::put(md, 8, AckRequest::None);
    let first = bed.ni.start(put).expect("a legal operation").id;
    (1..1 << 16).for_each(|_| drop(bed.ni.start(put).expect("there is room")));
    assert_eq!(bed.ni.start(put), Err(PtlError::NoSpace));
    bed.ni.sent(first);
    assert!(bed.ni.start(put).is_ok());
}

#[test]
fn an_entry_may_fault_where_the_program_may_bind_what_is_not_there() {
    let offered = Limits {
        features: Features::BIND_INACCESSIBLE,
        ..Limits::default()
    };
    let accessible = EntryOptions::IS_ACCESSIBLE;
    for (asks, options, may_fault) in [
        (false, EntryOptions::empty(), false),
        (true, EntryOptions::empty(), true),
        (true, accessible, false),
    ] {
        let limits = match asks {
            true => offered,
            false => Limits::default(),
        };
        let mut ni = Interface::new(MATCHING, Limits::granted(Some(&limits), &offered));
        let pt = ni.pt_alloc(PtOptions::empty(), Handle::EQ_NONE, None);
        let mut bed = Bed {
            pt: pt.expect("a table entry"),
            eq: Handle::EQ_NONE,
            ni,
        };
        bed.append(&entry(1, 8, options), List::Priority, 1);
        assert_eq!(bed.granted(1, 8).may_fault, may_fault);
    }
}
