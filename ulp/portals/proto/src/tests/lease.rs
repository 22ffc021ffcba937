//! Which entries may be reached without a request, and what is counted of that.

use crate::*;

fn interface(matching: bool, wish: impl FnOnce(&mut Limits)) -> Interface {
    let mut limits = Limits::default();
    wish(&mut limits);
    let kind = NiKind {
        matching,
        logical: false,
    };
    Interface::new(kind, Limits::granted(Some(&limits), &Limits::default()))
}

fn entry(options: EntryOptions, ct: Handle) -> EntryInit {
    EntryInit {
        region: Region::flat(0x1000, 64),
        ct,
        uid: EntryInit::UID_ANY,
        options,
        match_id: Peer::Physical(Process {
            nid: Peer::NID_ANY,
            pid: Peer::PID_ANY,
        }),
        match_bits: 0,
        ignore_bits: u64::MAX,
        min_free: 0,
    }
}

const BOTH: EntryOptions = EntryOptions::OP_PUT.union(EntryOptions::OP_GET);

/// The terms of a table entry with these options, with or without an event queue, whose list begins
/// with an entry of these options.
fn terms(pt: PtOptions, has_eq: bool, options: EntryOptions) -> Option<Terms> {
    let mut ni = interface(false, |_| ());
    let eq = match has_eq {
        true => ni.eq_alloc(8).expect("legal"),
        false => Handle::EQ_NONE,
    };
    let ct = ni.ct_alloc().expect("legal");
    let index = ni.pt_alloc(pt, eq, None).expect("legal");
    assert_eq!(ni.terms(index), None);
    ni.entry_append(index, &entry(options, ct), List::Priority, 0)
        .expect("legal");
    ni.terms(index)
}

#[test]
fn only_silent_persistent_entries_have_terms() {
    let none = PtOptions::empty();
    let plain = terms(none, false, BOTH).expect("legal");
    assert_eq!((plain.start, plain.length), (0x1000, 64));
    assert!(plain.puts && plain.gets && plain.atomics && !plain.counts);
    let put = terms(none, false, EntryOptions::OP_PUT).expect("legal");
    assert!(put.puts && !put.gets && !put.atomics);
    assert!(
        terms(none, false, BOTH | EntryOptions::EVENT_CT_COMM)
            .expect("legal")
            .counts
    );
    assert_eq!(terms(none, true, BOTH), None);
    for quiet in [
        EntryOptions::EVENT_COMM_DISABLE,
        EntryOptions::EVENT_SUCCESS_DISABLE,
    ] {
        assert!(terms(none, true, BOTH | quiet).is_some());
        assert_eq!(terms(PtOptions::FLOWCTRL, true, BOTH | quiet), None);
    }
    assert_eq!(terms(PtOptions::ALLOC_DISABLED, false, BOTH), None);
    assert_eq!(terms(none, false, BOTH | EntryOptions::USE_ONCE), None);
}

#[test]
fn matching_overflow_pieces_and_short_messages_have_none() {
    let appended = |mut ni: Interface, init: &EntryInit, list| {
        let index = ni
            .pt_alloc(PtOptions::empty(), Handle::EQ_NONE, None)
            .expect("legal");
        ni.entry_append(index, init, list, 0).expect("legal");
        ni.terms(index)
    };
    let init = entry(BOTH, Handle::CT_NONE);
    let plain = || interface(false, |_| ());
    assert!(appended(plain(), &init, List::Priority).is_some());
    assert_eq!(appended(plain(), &init, List::Overflow), None);
    assert_eq!(
        appended(interface(true, |_| ()), &init, List::Priority),
        None
    );
    let short = interface(false, |limits| limits.max_msg_size = 4096);
    assert_eq!(appended(short, &init, List::Priority), None);
    let asks = |features| {
        let limits = Limits {
            features,
            ..Limits::default()
        };
        let kind = NiKind {
            matching: false,
            logical: false,
        };
        Interface::new(kind, Limits::granted(Some(&limits), &limits))
    };
    let accessible = EntryInit {
        options: BOTH | EntryOptions::IS_ACCESSIBLE,
        ..init.clone()
    };
    let bind = || asks(Features::BIND_INACCESSIBLE);
    assert_eq!(appended(bind(), &init, List::Priority), None);
    assert!(appended(bind(), &accessible, List::Priority).is_some());
    let ordered = asks(Features::TOTAL_DATA_ORDERING);
    assert_eq!(appended(ordered, &init, List::Priority), None);
    let small = interface(false, |limits| limits.max_atomic_size = 4);
    assert!(
        !appended(small, &init, List::Priority)
            .expect("legal")
            .atomics
    );
    let pieces = EntryInit {
        region: Region::Iovec(vec![Piece {
            address: 1,
            length: 2,
        }]),
        ..init
    };
    assert_eq!(appended(plain(), &pieces, List::Priority), None);
}

#[test]
fn terms_end_with_the_entry_and_stay_when_another_comes_behind_it() {
    let mut ni = interface(false, |_| ());
    let index = ni
        .pt_alloc(PtOptions::empty(), Handle::EQ_NONE, None)
        .expect("legal");
    let init = entry(BOTH, Handle::CT_NONE);
    let first = ni
        .entry_append(index, &init, List::Priority, 0)
        .expect("legal");
    let terms = ni.terms(index).expect("legal");
    assert_eq!(terms.entry, first);
    let second = ni
        .entry_append(index, &init, List::Priority, 0)
        .expect("legal");
    assert_eq!(ni.terms(index), Some(terms));
    ni.pt_disable(index).expect("legal");
    assert_eq!(ni.terms(index), None);
    ni.pt_enable(index).expect("legal");
    ni.entry_unlink(first).expect("legal");
    assert_eq!(ni.terms(index).expect("legal").entry, second);
}

#[test]
fn a_direct_put_counts_as_one_that_was_delivered() {
    let mut ni = interface(false, |_| ());
    let ct = ni.ct_alloc().expect("legal");
    let index = ni
        .pt_alloc(PtOptions::empty(), Handle::EQ_NONE, None)
        .expect("legal");
    let counted = |ni: &Interface| ni.ct_get(ct).expect("legal").success;
    let one = ni
        .entry_append(
            index,
            &entry(BOTH | EntryOptions::EVENT_CT_COMM, ct),
            List::Priority,
            0,
        )
        .expect("legal");
    let trigger = ni.ct_alloc().expect("legal");
    let one_more = CtEvent {
        success: 1,
        failure: 0,
    };
    ni.triggered_ct_inc(trigger, one_more, ct, 2)
        .expect("legal");
    ni.count_direct(one, 24);
    assert_eq!(
        (counted(&ni), ni.ct_get(trigger).expect("legal").success),
        (1, 0)
    );
    ni.count_direct(one, 24);
    assert_eq!(
        (counted(&ni), ni.ct_get(trigger).expect("legal").success),
        (2, 1)
    );
    ni.entry_unlink(one).expect("legal");
    ni.count_direct(one, 24);
    assert_eq!(counted(&ni), 2);
    let options = BOTH | EntryOptions::EVENT_CT_COMM | EntryOptions::EVENT_CT_BYTES;
    let bytes = ni
        .entry_append(index, &entry(options, ct), List::Priority, 0)
        .expect("legal");
    ni.count_direct(bytes, 24);
    assert_eq!(counted(&ni), 26);
    let silent = ni
        .entry_append(index, &entry(BOTH, ct), List::Priority, 0)
        .expect("legal");
    ni.count_direct(silent, 24);
    assert_eq!(counted(&ni), 26);
}
