//! Operations by leases between two machines. A READ brings what is there when its end is told, the
//! latest that a READ that was tried again may bring.

use super::{CONFIG, Side, World, begin, carry, move_bytes, pair, settle, start};
use crate::direct::{DIRECT, Direct, NotDirect};
use crate::leases::{LEASES, Lease};
use crate::memory::Answer;
use crate::message::{Header, Kind, Rights, Segment};
use crate::status::Status;
use crate::wire::{DirectJob, DirectOp, Posting};
use crate::{NotStarted, Start, Started, Violation};
use proptest::prelude::*;

const KEY: u32 = 7;

/// An operation has reached the other side's adapter.
pub(super) fn carry_out(
    sides: &mut [Side; 2],
    from: usize,
    job: DirectJob,
    posting: &Posting,
    bytes: &[u8],
) {
    assert_eq!(posting.remote.key, KEY);
    let at = posting.remote.address as usize;
    let length = posting.remote.length as usize;
    let to = &mut sides[1 - from];
    let here = &mut to.world.bytes[at..at + length];
    let before = here.to_vec();
    let value = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
    match posting.op {
        DirectOp::Put => here.copy_from_slice(bytes),
        DirectOp::Get => {}
        DirectOp::Add(add) => {
            here.copy_from_slice(&value(&before).wrapping_add(add).to_ne_bytes());
        }
        DirectOp::Swap { compare, swap } => {
            if value(&before) == compare {
                here.copy_from_slice(&swap.to_ne_bytes());
            }
        }
    }
    if let Some(immediate) = posting.immediate {
        to.events += 1;
        let (machine, world) = (&mut to.machine, &mut to.world);
        machine
            .handle_immediate(immediate, length as u64, world)
            .unwrap();
    }
    let world = &mut sides[from].world;
    world.over.push_back((job, *posting));
    world.found.push((job, before));
}

/// The end of a side's next operation is told.
pub(super) fn complete(sides: &mut [Side; 2], of: usize) -> bool {
    let Some((job, posting)) = sides[of].world.over.pop_front() else {
        return false;
    };
    let world = &mut sides[of].world;
    let found = world.found.iter().position(|found| found.0 == job).unwrap();
    let (_, mut data) = world.found.remove(found);
    if posting.op == DirectOp::Get {
        let at = posting.remote.address as usize;
        let there = &sides[1 - of].world.bytes;
        data.copy_from_slice(&there[at..at + posting.remote.length as usize]);
    }
    let data = if posting.op.reads() { &data[..] } else { &[] };
    let side = &mut sides[of];
    side.machine
        .handle_direct(job, data, &mut side.world)
        .unwrap();
    true
}

fn lease(token: u64, rights: Rights) -> Lease<'static> {
    let memory = Segment {
        address: 1024,
        length: 1024,
        key: KEY,
    };
    Lease {
        token,
        tag: 9,
        address: b"heap",
        rights,
        memory,
    }
}

fn give(side: &mut Side, token: u64, rights: Rights) {
    let given = side.machine.lease(&lease(token, rights), &mut side.world);
    assert!(given);
}

fn direct(op: DirectOp, offset: u64, length: u64) -> Direct<'static> {
    Direct {
        op,
        tag: 9,
        address: b"heap",
        offset,
        length,
        observed: true,
        token: 6,
    }
}

fn go(side: &mut Side, direct: &Direct<'_>) -> Result<Started, NotDirect> {
    side.machine.direct(direct, &mut side.world)
}

const ALL: Rights = Rights::PUT.union(Rights::GET).union(Rights::ATOMIC);

/// Two sides, the first of which holds a lease of the second's memory.
fn leased(rights: Rights) -> [Side; 2] {
    let mut sides = pair();
    give(&mut sides[1], 55, rights);
    settle(&mut sides);
    sides
}

#[test]
fn a_put_by_a_lease_costs_its_target_nothing_and_its_completion_is_the_answer() {
    let mut sides = leased(ALL);
    assert_eq!(
        go(&mut sides[0], &direct(DirectOp::Put, 8, 100)),
        Ok(Started::Answered)
    );
    settle(&mut sides);
    assert_eq!(
        sides[1].world.bytes[1032..1132],
        sides[0].world.local[..100]
    );
    let answer = Answer {
        status: Status::Ok,
        length: 100,
        offset: 8,
        tag: 0,
    };
    assert_eq!(sides[0].world.done, [(6, answer)]);
    assert_eq!(
        (sides[1].events, sides[1].machine.stats().paths.counted),
        (0, 0)
    );
    let unobserved = Direct {
        observed: false,
        ..direct(DirectOp::Put, 0, 4)
    };
    assert_eq!(go(&mut sides[0], &unobserved), Ok(Started::Over));
    assert!(!sides[0].machine.waits_for_direct());
    settle(&mut sides);
    assert_eq!(sides[0].world.done.len(), 1);
    assert!(sides[0].machine.is_quiet());
}

#[test]
fn gets_and_atomics_by_a_lease_bring_what_was_there() {
    let mut sides = leased(ALL);
    sides[1].world.bytes[1024..1032].copy_from_slice(&40_u64.to_ne_bytes());
    let value = |sides: &[Side; 2]| {
        let bytes = &sides[0].world.local[..8];
        u64::from_ne_bytes(bytes.try_into().unwrap())
    };
    for (op, before) in [
        (DirectOp::Add(2), 40),
        (
            DirectOp::Swap {
                compare: 41,
                swap: 1,
            },
            42,
        ),
        (
            DirectOp::Swap {
                compare: 42,
                swap: 7,
            },
            42,
        ),
        (DirectOp::Get, 7),
    ] {
        go(&mut sides[0], &direct(op, 0, 8)).unwrap();
        settle(&mut sides);
        assert_eq!(value(&sides), before);
    }
}

#[test]
fn what_a_lease_does_not_allow_goes_by_message() {
    let mut sides = leased(Rights::PUT);
    let refused = [
        direct(DirectOp::Get, 0, 8),
        direct(DirectOp::Add(1), 0, 8),
        direct(DirectOp::Put, 1020, 8),
        direct(DirectOp::Put, u64::MAX, 8),
        Direct {
            tag: 8,
            ..direct(DirectOp::Put, 0, 8)
        },
        Direct {
            address: b"data",
            ..direct(DirectOp::Put, 0, 8)
        },
    ];
    for refused in refused {
        assert_eq!(go(&mut sides[0], &refused), Err(NotDirect::ByMessage));
    }
    let mut sides = leased(ALL);
    let refused = [
        direct(DirectOp::Add(1), 4, 8),
        direct(DirectOp::Add(1), 0, 4),
    ];
    for refused in refused {
        assert_eq!(go(&mut sides[0], &refused), Err(NotDirect::ByMessage));
    }
    let mut sides = leased(ALL | Rights::COUNTS);
    assert_eq!(
        go(&mut sides[0], &direct(DirectOp::Get, 0, 8)),
        Err(NotDirect::ByMessage)
    );
    assert_eq!(
        go(&mut sides[0], &direct(DirectOp::Put, 0, 8)),
        Ok(Started::Answered)
    );
}

#[test]
fn a_put_that_counts_takes_a_credit_and_is_told_with_its_length() {
    let mut sides = leased(Rights::PUT | Rights::COUNTS);
    let put = direct(DirectOp::Put, 0, 24);
    // the last of eight credits is kept
    for _ in 0..7 {
        go(&mut sides[0], &put).unwrap();
    }
    assert_eq!(go(&mut sides[0], &put), Err(NotDirect::Full));
    assert!(sides[0].machine.waits_for_all());
    settle(&mut sides);
    assert_eq!(sides[1].world.counted, [(55, 24); 7]);
    assert!(!sides[0].machine.waits_for_all());
    assert_eq!(go(&mut sides[0], &put), Ok(Started::Answered));
}

#[test]
fn a_message_that_was_not_carried_out_keeps_operations_on_its_road() {
    let mut sides = leased(ALL);
    let put = direct(DirectOp::Put, 0, 8);
    begin(&mut sides[0], &start(Kind::Put, 0, 8)).unwrap();
    assert_eq!(go(&mut sides[0], &put), Err(NotDirect::ByMessage));
    // it was carried out, and the peer has said nothing since
    settle(&mut sides);
    assert_eq!(go(&mut sides[0], &put), Err(NotDirect::ByMessage));
    // what the peer says gives the credit back
    begin(&mut sides[1], &start(Kind::Put, 0, 8)).unwrap();
    settle(&mut sides);
    assert_eq!(go(&mut sides[0], &put), Ok(Started::Answered));
    let get = start(Kind::Get, 0, 8);
    begin(&mut sides[0], &get).unwrap();
    assert_eq!(go(&mut sides[0], &put), Err(NotDirect::ByMessage));
    settle(&mut sides);
    assert_eq!(go(&mut sides[0], &put), Ok(Started::Answered));
}

#[test]
fn what_changes_memory_behind_a_read_is_fenced() {
    let mut sides = leased(ALL);
    let fences = |sides: &[Side; 2]| {
        let sent = sides[0].world.sent.iter();
        sent.map(|sent| sent.fence).collect::<Vec<_>>()
    };
    go(&mut sides[0], &direct(DirectOp::Put, 0, 8)).unwrap();
    go(&mut sides[0], &direct(DirectOp::Get, 0, 8)).unwrap();
    go(&mut sides[0], &direct(DirectOp::Get, 0, 8)).unwrap();
    go(&mut sides[0], &direct(DirectOp::Put, 0, 8)).unwrap();
    begin(&mut sides[0], &start(Kind::Put, 0, 8)).unwrap();
    begin(&mut sides[0], &start(Kind::Get, 0, 8)).unwrap();
    assert_eq!(fences(&sides), [false, false, false, true, true, false]);
    settle(&mut sides);
    begin(&mut sides[0], &start(Kind::Put, 0, 8)).unwrap();
    assert_eq!(fences(&sides), [false]);
}

#[test]
fn a_lease_comes_back_when_what_is_under_way_by_it_has_ended() {
    let mut sides = leased(ALL);
    go(&mut sides[0], &direct(DirectOp::Put, 0, 8)).unwrap();
    let Side { machine, world, .. } = &mut sides[1];
    machine.revoke(55, world);
    machine.revoke(55, world);
    assert!(machine.waits_for_leases());
    while carry(&mut sides, 1) {}
    assert_eq!(
        go(&mut sides[0], &direct(DirectOp::Put, 0, 8)),
        Err(NotDirect::ByMessage)
    );
    // the operation is carried out, and its end was not told
    while carry(&mut sides, 0) {}
    assert!(sides[1].world.returned.is_empty());
    assert!(sides[0].machine.waits_for_direct());
    settle(&mut sides);
    assert_eq!(sides[1].world.returned, [55]);
    assert!(!sides[1].machine.waits_for_leases());
    // another one may be given
    give(&mut sides[1], 55, ALL);
    settle(&mut sides);
    assert!(go(&mut sides[0], &direct(DirectOp::Put, 0, 8)).is_ok());
}

#[test]
fn a_lease_that_was_never_told_is_over_at_once() {
    let mut sides = pair();
    while begin(&mut sides[1], &start(Kind::Put, 0, 8)).is_ok() {}
    give(&mut sides[1], 3, ALL);
    assert!(sides[1].machine.waits_for_all());
    let Side { machine, world, .. } = &mut sides[1];
    machine.revoke(3, world);
    assert_eq!(world.returned, [3]);
    settle(&mut sides);
    assert_eq!(
        go(&mut sides[0], &direct(DirectOp::Put, 0, 8)),
        Err(NotDirect::ByMessage)
    );
}

#[test]
fn a_lease_is_revoked_before_a_request_is_refused() {
    let mut sides = leased(ALL);
    while begin(&mut sides[1], &start(Kind::Put, 0, 8)).is_ok() {}
    let get = start(Kind::Get, 8, 8);
    begin(&mut sides[0], &get).unwrap();
    let Side { machine, world, .. } = &mut sides[1];
    machine.revoke(55, world);
    while carry(&mut sides, 0) {}
    settle(&mut sides);
    assert_eq!(sides[0].world.done[0].1.status, Status::NoMemory);
    assert_eq!(sides[1].world.returned, [55]);
}

#[test]
fn operations_by_leases_are_bounded_and_a_loss_ends_them_once() {
    let mut sides = leased(ALL);
    let get = direct(DirectOp::Get, 0, 8);
    for _ in 0..DIRECT {
        go(&mut sides[0], &get).unwrap();
    }
    assert_eq!(go(&mut sides[0], &get), Err(NotDirect::Full));
    for side in &mut sides {
        side.machine.handle_lost(&mut side.world);
        side.machine.handle_lost(&mut side.world);
    }
    let done = &sides[0].world.done;
    assert_eq!(done.len(), DIRECT);
    assert!(
        done.iter()
            .all(|done| done.1.status == Status::Undeliverable)
    );
    assert_eq!(sides[1].world.returned, [55]);
    assert_eq!(go(&mut sides[0], &get), Err(NotDirect::Lost));
    let Side { machine, world, .. } = &mut sides[1];
    assert!(!machine.lease(&lease(1, ALL), world));
}

#[test]
fn breaches_of_leases_are_named() {
    let message = |kind: Kind, number: u32| {
        let mut bytes = Vec::new();
        Header::new(kind, number).emit(&[], &mut bytes);
        bytes
    };
    let say = |sides: &mut [Side; 2], bytes: &[u8]| {
        let Side { machine, world, .. } = &mut sides[1];
        machine.handle_message(bytes, world)
    };
    let mut sides = leased(ALL);
    let returned = message(Kind::Returned, 0);
    assert_eq!(say(&mut sides, &returned), Err(Violation::Lease(0)));
    let unknown = message(Kind::Revoke, 4);
    assert_eq!(say(&mut sides, &unknown), Err(Violation::Lease(4)));
    let mut sides = pair();
    for number in 0..LEASES as u32 {
        let given = say(&mut sides, &message(Kind::Lease, number));
        assert_eq!(given, Ok(()));
        sides[1].world.sent.clear();
    }
    let more = message(Kind::Lease, 100);
    assert_eq!(say(&mut sides, &more), Err(Violation::Lease(100)));
    let mut sides = leased(ALL);
    let World { counted, .. } = &sides[1].world;
    assert!(counted.is_empty());
    let Side { machine, world, .. } = &mut sides[1];
    // the lease does not count
    assert_eq!(
        machine.handle_immediate(0, 8, world),
        Err(Violation::Lease(0))
    );
}

/// Puts and gets of one word by the first side: by a lease where one allows it, else by message.
fn word(side: &mut Side, kind: Kind, value: u64) -> Result<Started, NotStarted> {
    side.world.local[..8].copy_from_slice(&value.to_ne_bytes());
    let op = match kind {
        Kind::Put => DirectOp::Put,
        _ => DirectOp::Get,
    };
    let token = value;
    let wish = Direct {
        observed: kind == Kind::Get,
        token,
        ..direct(op, 0, 8)
    };
    match go(side, &wish) {
        Ok(started) => Ok(started),
        Err(NotDirect::Full) => Err(NotStarted::Full),
        Err(NotDirect::Lost) => Err(NotStarted::Lost),
        Err(NotDirect::ByMessage) => {
            let start = Start {
                token,
                ..start(kind, 9, 8)
            };
            begin(side, &start)
        }
    }
}

proptest! {
    /// Puts and gets of one word, while a lease comes and goes and the other side puts, too: each
    /// get brings what the last put before it has put, whatever road both took, and each lease
    /// comes back once.
    #[test]
    fn order_at_one_address_holds_on_all_roads(
        steps in proptest::collection::vec(0..12_u8, 1..400),
        counts in any::<bool>(),
    ) {
        let mut sides = pair();
        let rights = if counts { ALL | Rights::COUNTS } else { ALL };
        // tag 9 of messages is where the lease is
        sides[1].world.windows = vec![(1024, 1024); 10];
        let (mut last, mut next, mut given) = (0, 1, 0);
        let mut gets: Vec<(u64, u64)> = Vec::new();
        let mut puts = 0;
        for step in steps {
            match step {
                0 | 1 => if word(&mut sides[0], Kind::Put, next).is_ok() {
                    (last, next, puts) = (next, next + 1, puts + 1);
                },
                2 => if word(&mut sides[0], Kind::Get, next).is_ok() {
                    gets.push((next, last));
                    next += 1;
                },
                3 => {
                    given += 1;
                    let Side { machine, world, .. } = &mut sides[1];
                    if !machine.lease(&lease(given, rights), world) {
                        given -= 1;
                    }
                },
                4 => {
                    let Side { machine, world, .. } = &mut sides[1];
                    machine.revoke(given, world);
                },
                5 => { let _ = begin(&mut sides[1], &start(Kind::Put, 0, 8)); },
                6 => { move_bytes(&mut sides, 0); complete(&mut sides, 0); },
                7 => { complete(&mut sides, 0); },
                8 | 9 => { carry(&mut sides, 0); },
                _ => { carry(&mut sides, 1); },
            }
            let messages = |side: &Side| {
                let takes = |sent: &&super::Sent| {
                    sent.direct.is_none_or(|(_, posting)| posting.immediate.is_some())
                };
                side.world.sent.iter().filter(takes).count()
            };
            prop_assert!(sides.iter().all(|side| messages(side) <= usize::from(CONFIG.receives)));
        }
        settle(&mut sides);
        for token in 0..=given {
            let Side { machine, world, .. } = &mut sides[1];
            machine.revoke(token, world);
        }
        settle(&mut sides);
        let mut returned = sides[1].world.returned.clone();
        returned.sort_unstable();
        prop_assert_eq!(returned, (1..=given).collect::<Vec<u64>>());
        prop_assert_eq!(sides[0].world.brought.len(), gets.len());
        for brought in &sides[0].world.brought {
            prop_assert!(gets.contains(brought), "{:x?} of {:x?}", brought, gets);
        }
        let counted = sides[1].world.counted.len() as u64;
        prop_assert_eq!(counted, sides[0].machine.stats().paths.direct_puts * u64::from(counts));
        prop_assert_eq!(sides[1].machine.stats().served.short_puts + sides[0].machine.stats().paths.direct_puts, puts);
        prop_assert!(sides.iter().all(|side| side.machine.is_quiet()));
    }
}
