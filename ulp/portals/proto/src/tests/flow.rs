//! Flow control, and rings that are full.

use super::*;
use EventKind::*;

fn controlled(limits: Limits, events: u64) -> Bed {
    Bed::new(MATCHING, limits, PtOptions::FLOWCTRL, events)
}

fn told(bed: &mut Bed) -> Vec<(EventKind, NiFail)> {
    bed.events()
        .iter()
        .map(|event| (event.kind, event.ni_fail))
        .collect()
}

#[test]
fn a_request_without_match_disables_until_enabled_and_the_target_is_told_once() {
    let mut bed = controlled(Limits::default(), 8);
    bed.append(&entry(1, 8, EntryOptions::empty()), List::Priority, 1);
    for _ in 0..2 {
        assert_eq!(bed.put(2, 8), Admission::Refused(NiFail::PtDisabled));
        // Law 8: what would match does not, and who asks hears why.
        (0..3).for_each(|_| assert_eq!(bed.put(1, 8), Admission::Refused(NiFail::PtDisabled)));
        assert_eq!(told(&mut bed), [(PtDisabled, NiFail::PtDisabled)]);
        assert_eq!(bed.ni.summary().disabled, [bed.pt]);
        bed.ni.pt_enable(bed.pt).expect("it is allocated");
        assert_eq!(bed.ni.summary().disabled, []);
        bed.done(1, 8);
        assert_eq!(told(&mut bed), [(Put, NiFail::Ok)]);
    }
    assert_eq!(bed.ni.status(StatusRegister::DropCount), 8);
    let counts = bed.ni.summary().counts;
    assert_eq!((counts.disabled, counts.priority), (2, 2));
}

#[test]
fn pt_disabled_is_told_after_the_last_event_of_the_table_entry() {
    let mut bed = controlled(Limits::default(), 8);
    bed.append(&entry(1, 8, EntryOptions::empty()), List::Priority, 1);
    let holds = [0; 2].map(|_| bed.granted(1, 8).hold);
    assert_eq!(bed.put(2, 8), Admission::Refused(NiFail::PtDisabled));
    bed.ni.delivered(holds[1], Delivery::Done);
    assert_eq!(told(&mut bed), [(Put, NiFail::Ok)]);
    bed.ni.delivered(holds[0], Delivery::Done);
    assert_eq!(
        told(&mut bed),
        [(Put, NiFail::Ok), (PtDisabled, NiFail::PtDisabled)]
    );
}

#[test]
fn a_full_ring_disables_and_loses_nothing() {
    let mut bed = controlled(Limits::default(), 4);
    bed.append(&entry(1, 8, EntryOptions::empty()), List::Priority, 1);
    let holds = [0; 4].map(|_| bed.granted(1, 8).hold);
    assert_eq!(bed.put(1, 8), Admission::Refused(NiFail::PtDisabled));
    holds
        .into_iter()
        .for_each(|hold| bed.ni.delivered(hold, Delivery::Done));
    for _ in 0..4 {
        let taken = bed.ni.eq_get(bed.eq).expect("an event");
        assert_eq!((taken.event.kind, taken.dropped), (Put, false));
    }
    assert_eq!(told(&mut bed), [(PtDisabled, NiFail::PtDisabled)]);
    bed.ni.pt_enable(bed.pt).expect("it is allocated");
    bed.done(1, 8);
    assert_eq!(told(&mut bed), [(Put, NiFail::Ok)]);
}

#[test]
fn places_are_kept_for_the_events_of_an_entry_s_end() {
    let mut bed = controlled(Limits::default(), 1);
    bed.append(
        &EntryInit {
            options: EntryOptions::empty(),
            ..entry(9, 8, EntryOptions::empty())
        },
        List::Priority,
        9,
    );
    bed.append(&entry(1, 8, EntryOptions::USE_ONCE), List::Overflow, 1);
    bed.append(&entry(1, 8, EntryOptions::empty()), List::Overflow, 2);
    // The ring has its least, four places: LINK, and PUT, AUTO_UNLINK and AUTO_FREE of the first.
    let first = bed.granted(1, 8);
    assert_eq!(bed.put(1, 8), Admission::Refused(NiFail::PtDisabled));
    bed.ni.delivered(first.hold, Delivery::Done);
    let ok = NiFail::Ok;
    assert_eq!(
        told(&mut bed),
        [
            (Link, ok),
            (Put, ok),
            (AutoUnlink, ok),
            (PtDisabled, NiFail::PtDisabled)
        ]
    );
    bed.ni.pt_enable(bed.pt).expect("it is allocated");
    let options = EntryOptions::EVENT_OVER_DISABLE;
    bed.append(&entry(1, 8, options), List::Priority, 3);
    assert_eq!(told(&mut bed), [(AutoFree, NiFail::Ok)]);
    // Nothing is kept any more: four requests find their places.
    let holds = [0; 4].map(|_| bed.granted(1, 8).hold);
    assert_eq!(bed.put(1, 8), Admission::Refused(NiFail::PtDisabled));
    holds
        .into_iter()
        .for_each(|hold| bed.ni.delivered(hold, Delivery::Done));
}

#[test]
fn the_last_header_disables() {
    let mut bed = controlled(
        Limits {
            max_unexpected_headers: 1,
            ..Limits::default()
        },
        8,
    );
    bed.append(
        &entry(1, 8, EntryOptions::EVENT_COMM_DISABLE),
        List::Overflow,
        1,
    );
    bed.done(1, 8);
    assert_eq!(bed.put(1, 8), Admission::Refused(NiFail::PtDisabled));
    assert_eq!(told(&mut bed), [(PtDisabled, NiFail::PtDisabled)]);
    bed.ni.pt_enable(bed.pt).expect("it is allocated");
    bed.ni
        .entry_search(
            bed.pt,
            &entry(1, 8, EntryOptions::empty()),
            SearchOp::Delete,
            2,
        )
        .expect("a legal search");
    bed.done(1, 8);
    assert_eq!(told(&mut bed), [(PutOverflow, NiFail::Ok)]);
}

#[test]
fn an_entry_may_switch_the_event_off() {
    let mut bed = controlled(
        Limits {
            max_unexpected_headers: 1,
            ..Limits::default()
        },
        8,
    );
    let options = EntryOptions::EVENT_COMM_DISABLE | EntryOptions::EVENT_FLOWCTRL_DISABLE;
    bed.append(&entry(1, 8, options), List::Overflow, 1);
    bed.done(1, 8);
    assert_eq!(bed.put(1, 8), Admission::Refused(NiFail::PtDisabled));
    assert_eq!(told(&mut bed), []);
}

#[test]
fn disabling_by_hand_is_silent_and_waits_for_what_is_under_way() {
    let mut bed = controlled(Limits::default(), 8);
    bed.append(&entry(1, 8, EntryOptions::empty()), List::Priority, 1);
    let hold = bed.granted(1, 8).hold;
    bed.ni.pt_disable(bed.pt).expect("it is allocated");
    assert_eq!(bed.ni.pt_is_quiet(bed.pt), Ok(false));
    assert_eq!(bed.put(1, 8), Admission::Refused(NiFail::PtDisabled));
    bed.ni.delivered(hold, Delivery::Done);
    assert_eq!(bed.ni.pt_is_quiet(bed.pt), Ok(true));
    assert_eq!(told(&mut bed), [(Put, NiFail::Ok)]);
    let from_the_start = bed
        .ni
        .pt_alloc(PtOptions::ALLOC_DISABLED, bed.eq, None)
        .expect("a table entry");
    let arrival = Arrival {
        pt_index: from_the_start,
        ..bed.arrival(ArrivalOp::Put, 1, 8)
    };
    assert_eq!(
        bed.ni.arrive(&arrival),
        Admission::Refused(NiFail::PtDisabled)
    );
}

#[test]
fn without_flow_control_old_events_are_overwritten_and_that_is_told() {
    let mut bed = Bed::new(MATCHING, Limits::default(), PtOptions::empty(), 4);
    bed.append(&entry(1, 8, EntryOptions::empty()), List::Priority, 1);
    (1..=7).for_each(|length| drop(bed.done(1, length)));
    let taken: Vec<_> = [0; 4]
        .map(|_| bed.ni.eq_get(bed.eq).expect("an event"))
        .to_vec();
    assert_eq!(
        taken
            .iter()
            .map(|t| (t.event.mlength, t.dropped))
            .collect::<Vec<_>>(),
        [(4, true), (5, false), (6, false), (7, false)]
    );
    assert_eq!(bed.ni.eq_get(bed.eq), Err(PtlError::EqEmpty));
}

#[test]
fn a_queue_that_is_freed_under_flow_control_hurts_nobody() {
    let mut bed = controlled(Limits::default(), 8);
    bed.append(&entry(1, 8, EntryOptions::USE_ONCE), List::Overflow, 1);
    let hold = bed.granted(1, 8).hold;
    bed.ni.eq_free(bed.eq).expect("it is allocated");
    let other = bed.ni.eq_alloc(8).expect("a queue");
    bed.ni.delivered(hold, Delivery::Done);
    assert_eq!(bed.put(1, 8), Admission::Refused(NiFail::PtDisabled));
    bed.append(&entry(1, 8, EntryOptions::empty()), List::Priority, 2);
    assert_eq!(bed.ni.eq_get(other), Err(PtlError::EqEmpty));
    assert_eq!(bed.ni.eq_get(bed.eq), Err(PtlError::ArgInvalid));
}

#[test]
fn a_freed_table_entry_gives_its_kept_places_back() {
    let mut bed = controlled(Limits::default(), 4);
    bed.append(&entry(1, 8, EntryOptions::USE_ONCE), List::Overflow, 1);
    bed.done(1, 8);
    assert_eq!(
        told(&mut bed),
        [(Put, NiFail::Ok), (AutoUnlink, NiFail::Ok)]
    );
    // A place for AUTO_FREE is still kept, and nobody will use it.
    bed.ni.pt_free(bed.pt).expect("no entry is linked");
    bed.pt = bed
        .ni
        .pt_alloc(PtOptions::FLOWCTRL, bed.eq, None)
        .expect("a table entry");
    bed.append(&entry(1, 8, EntryOptions::empty()), List::Priority, 2);
    (0..4).for_each(|_| drop(bed.done(1, 8)));
    assert_eq!(bed.put(1, 8), Admission::Refused(NiFail::PtDisabled));
}
