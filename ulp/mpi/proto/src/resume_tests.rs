use super::*;
use ferriband_heal::kept::{Held, Kept};
use ferriband_heal::{
    AdapterId, Cause, Datagram, Endpoint, Epoch, Kind, PathId, Word, datagram::Origin,
};
use proptest::prelude::*;

/// A word as a peer tells it.
fn word(expected: u32, sent: u32, landed: u32, keys: u16) -> Word {
    let datagram = Datagram {
        kind: Kind::Req,
        cause: Cause::QpError,
        secret: 0,
        from: 0,
        to: 1,
        epoch: Epoch(1),
        word: Word::default(),
        errno: 0,
        end: Endpoint {
            mtu: 5,
            ..Endpoint::default()
        },
        path: PathId(0),
        origin: Origin {
            adapter: AdapterId(0),
            ..Origin::default()
        },
        since_us: 0,
        tries: 0,
        after: Epoch::NONE,
    };
    let mut bytes = datagram.emit();
    bytes[28..32].copy_from_slice(&expected.to_le_bytes());
    bytes[32..36].copy_from_slice(&sent.to_le_bytes());
    bytes[36..40].copy_from_slice(&landed.to_le_bytes());
    bytes[72..74].copy_from_slice(&keys.to_le_bytes());
    Datagram::parse(&bytes).expect("a datagram").word
}

const FIRST: u32 = u32::MAX - 3;

fn number(at: u32) -> Number {
    Number(FIRST.wrapping_add(at))
}

/// A log of messages 1 to `count` behind [`FIRST`]; the third and the fourth went together.
fn log(count: u32) -> Kept {
    let mut log = Kept::behind(Number(FIRST));
    for at in (1..=count).filter(|at| *at != 3) {
        let seq = number(at).0;
        if at == 4 {
            let (buffer, at, length) = (0, 0, 16);
            log.hold(Held {
                seq,
                buffer,
                at,
                length,
            });
        } else {
            log.keep(seq, [&[0; 8], &[]], 0, |_| ());
        }
    }
    log
}

fn under(transfer: u32, kind: Moving) -> Under {
    Under {
        transfer,
        kind,
        done: 700,
        fin: None,
        lane: 0,
        told: number(0),
        keys: 0,
    }
}

/// All acts of a replay behind `FIRST + 7` numbers given.
fn acts(own: Word, peer: Word, keys: &mut Keys, under: &[Under]) -> Option<Vec<Act>> {
    let mut log = log(7);
    let mut resume = Resume::new(own, peer, keys, &mut log, number(7), under)?;
    let mut acts = Vec::new();
    while let Some(act) = resume.next(&log) {
        assert_eq!(resume.next(&log), Some(act), "until it is done");
        acts.push(act);
        resume.done();
    }
    Some(acts)
}

fn wants(at: u32) -> Word {
    word(number(at).0, 0, 0, 0)
}

#[test]
fn what_the_peer_has_not_taken_goes_in_order() {
    let all = acts(wants(1), wants(6), &mut Keys::default(), &[]);
    let rest = [6, 7].map(|at| Act::Message(number(at)));
    assert_eq!(all, Some(vec![rest[0], rest[1], Act::Up]));
    // Half of what went together was taken: all of it goes.
    let all = acts(wants(1), wants(4), &mut Keys::default(), &[]).expect("it can be");
    assert_eq!(all[0], Act::Message(number(4)));
    assert_eq!(all.len(), 5);
    // All, none, and what cannot be.
    assert_eq!(
        acts(wants(1), wants(8), &mut Keys::default(), &[]),
        Some(vec![Act::Up])
    );
    assert_eq!(acts(wants(1), wants(9), &mut Keys::default(), &[]), None);
    assert_eq!(acts(wants(1), wants(0), &mut Keys::default(), &[]), None);
}

#[test]
fn a_message_is_written_whole_before_the_message_that_says_so() {
    let written = |transfer, fin| Under {
        fin: Some(number(fin)),
        ..under(transfer, Moving::Write)
    };
    let all = [
        written(1, 7),
        written(2, 5),
        under(3, Moving::Write),
        under(4, Moving::Read),
    ];
    let acts = acts(wants(1), wants(6), &mut Keys::default(), &all).expect("it can be");
    let rewind = |transfer, to| Act::Rewind { transfer, to };
    assert_eq!(
        acts,
        [
            rewind(1, 0),
            Act::Over(2),
            rewind(3, 0),
            rewind(4, 700),
            Act::Message(number(6)),
            Act::Whole { transfer: 1 },
            Act::Message(number(7)),
            Act::Up
        ]
    );
}

#[test]
fn landings_are_compared_as_numbers_without_0() {
    assert!(!has_landed(1, 0) && has_landed(7, 7) && has_landed(6, 7) && !has_landed(8, 7));
    assert_eq!(next_landing(u32::MAX), 1);
    assert!(has_landed(u32::MAX, 1) && !has_landed(1, u32::MAX));
    let lane = |transfer, lane| Under {
        lane,
        ..under(transfer, Moving::Lane)
    };
    let peer = word(number(8).0, 0, 1, 0);
    let under = [lane(1, u32::MAX), lane(2, 1), lane(3, 2)];
    let acts = acts(wants(1), peer, &mut Keys::default(), &under).expect("it can be");
    let rewind = Act::Rewind { transfer: 3, to: 0 };
    assert_eq!(acts, [Act::Over(1), Act::Over(2), rewind, Act::Up]);
}

#[test]
fn keys_of_another_generation_are_void_and_named_anew() {
    let told = |one: Under, at| Under {
        told: number(at),
        ..one
    };
    let all = [
        told(under(1, Moving::Read), 3),
        told(under(2, Moving::Held), 4),
        told(under(3, Moving::Held), 5),
        told(under(4, Moving::Offered), 5),
        told(under(5, Moving::Offered), 6),
    ];
    // The peer's keys are others since its message 4, the own ones are as well.
    let mut keys = Keys::default();
    let peer = word(number(6).0, number(4).0, 0, 9);
    let found = acts(word(0, 0, 0, 2), peer, &mut keys, &all).expect("it can be");
    let rewind = Act::Rewind {
        transfer: 1,
        to: 700,
    };
    assert_eq!(
        found,
        [
            rewind,
            Act::Register(1),
            Act::AwaitKey(1),
            Act::AwaitKey(2),
            Act::Renew { request: 4 },
            Act::Message(number(6)),
            Act::Message(number(7)),
            // The peer has not heard of it before.
            Act::Renew { request: 5 },
            Act::Up
        ]
    );
    assert!(keys.are_void(number(4)) && !keys.are_void(number(5)));
    // At the next heal they are no others: what was named anew stays so.
    let found = acts(word(0, 0, 0, 0), peer, &mut keys, &all[..3]).expect("it can be");
    assert!(!found.contains(&Act::AwaitKey(1)));
    keys.taken(number(4));
    assert!(keys.are_void(number(4)));
    keys.taken(number(5));
    assert!(!keys.are_void(number(4)));
}

proptest! {
    #[test]
    fn each_message_goes_once_and_each_transfer_has_one_end(
        wanted in 1_u32..=8, fins in prop::collection::vec(prop::option::of(1_u32..=7), 0..5),
    ) {
        let all: Vec<Under> = (0..).zip(&fins).map(|(transfer, fin)| Under {
            fin: fin.map(number),
            ..under(transfer, Moving::Staged)
        }).collect();
        let acts = acts(wants(1), wants(wanted), &mut Keys::default(), &all).expect("it can be");
        let messages = acts.iter().filter(|act| matches!(act, Act::Message(_))).count() as u32;
        prop_assert_eq!(messages, 8 - wanted - u32::from(wanted <= 3));
        for (transfer, fin) in (0..).zip(fins) {
            let at = |act| acts.iter().position(|one| *one == act);
            let over = at(Act::Over(transfer));
            let whole = at(Act::Whole { transfer });
            prop_assert_eq!(over.is_some(), fin.is_some_and(|fin| fin < wanted));
            prop_assert_eq!(whole.is_some(), fin.is_some_and(|fin| fin >= wanted));
            if let (Some(fin), Some(whole)) = (fin, whole) {
                let fin = if fin == 3 { 4 } else { fin };
                prop_assert!(at(Act::Message(number(fin))).is_some_and(|at| whole < at));
            }
        }
    }
}

#[test]
fn memory_is_at_fault_once_it_is_said_twice_between_the_same_openings_of_both_adapters() {
    let mut keys = Keys::default();
    let mut doubt = Doubt::default();
    assert!(!doubt.is_proven(4, &keys), "the adapter may be failing");
    assert!(doubt.is_proven(4, &keys));
    assert!(!doubt.is_proven(5, &keys), "the own one was opened anew");
    keys.learn(&word(1, 0, 0, 7));
    assert!(!doubt.is_proven(5, &keys), "the peer's was");
    assert!(doubt.is_proven(5, &keys));
}
