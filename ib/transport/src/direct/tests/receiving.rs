//! What the target does with records: receives, errors, unreliable services, keys, the receive queue.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::direct::layout::{KeyEntry, MAX_KEYS};

fn event_of(pair: &Pair) -> Option<TargetEvent> {
    pair.b
        .seen
        .events
        .iter()
        .copied()
        .find(|event| *event != TargetEvent::Established)
}

#[test]
fn a_receive_that_is_too_short_ends_in_a_length_error_on_both_sides() {
    let mut pair = Pair::new(QpType::Rc);
    pair.b.recv(1, 0, 10);
    pair.a.post(request(1, SendOpcode::Send, sge(0, 11)));
    pair.settle(5);
    assert_eq!(pair.b.seen.received[0].status, WcStatus::LocLenErr);
    assert_eq!(event_of(&pair), Some(TargetEvent::RequestError));
    assert_eq!(pair.a.statuses(), [(1, WcStatus::RemInvReqErr)]);
}

#[test]
fn a_receive_with_a_wrong_key_ends_in_a_protection_error() {
    let mut pair = Pair::new(QpType::Rc);
    pair.b
        .rq
        .push(
            1,
            &[Sge {
                addr: 0,
                length: 100,
                lkey: 0x300,
            }],
        )
        .unwrap();
    pair.a.post(request(1, SendOpcode::Send, sge(0, 11)));
    pair.settle(5);
    assert_eq!(pair.b.seen.received[0].status, WcStatus::LocProtErr);
    assert_eq!(event_of(&pair), Some(TargetEvent::ReceiveError));
    assert_eq!(pair.a.statuses(), [(1, WcStatus::RemOpErr)]);
}

#[test]
fn a_send_with_invalidate_ends_the_key_before_the_receive_completes() {
    let mut pair = Pair::new(QpType::Rc);
    pair.b.host.bound.set(0x900);
    for wr_id in 1..3 {
        pair.b.recv(wr_id, 0, 100);
    }
    pair.a.post(SendRequest {
        imm: 0x900,
        ..request(1, SendOpcode::SendInv, sge(0, 11))
    });
    pair.a.post(SendRequest {
        imm: 0x900,
        ..request(2, SendOpcode::SendInv, sge(0, 11))
    });
    pair.settle(5);
    let got = pair.b.seen.received[0];
    assert!(got.flags.contains(crate::types::WcFlags::WITH_INV));
    assert_eq!((got.status, got.imm_or_rkey), (WcStatus::Success, 0x900));
    // the second finds the key gone
    assert_eq!(pair.b.seen.received[1].status, WcStatus::LocAccessErr);
    assert_eq!(
        pair.a.statuses(),
        [(1, WcStatus::Success), (2, WcStatus::RemAccessErr)]
    );
}

/// A stranger's record neither executes nor disturbs.
#[test]
fn records_of_anybody_but_the_connected_queue_pair_are_not_executed() {
    let mut pair = Pair::new(QpType::Rc);
    pair.b.receiver.dest_qpn += 1;
    pair.b.recv(1, 0, 100);
    pair.a.post(request(1, SendOpcode::Send, sge(0, 11)));
    pair.a.advance(0);
    assert_eq!(pair.b.drain(), [Handled::Answer(Response::NotReady)]);
    assert!(pair.b.seen.received.is_empty() && pair.b.seen.events.is_empty());
}

#[test]
fn an_operation_that_the_queue_pair_does_not_grant_is_refused() {
    let mut pair = Pair::new(QpType::Rc);
    pair.a.link.0.reachable.set(false);
    pair.b.receiver.access = Access::LOCAL_WRITE;
    pair.a.fill(0, 9, 1);
    pair.a.post(request(1, SendOpcode::RdmaWrite, sge(0, 9)));
    pair.settle(5);
    assert_ne!(pair.a.sent[0].status, WcStatus::Success);
    assert_eq!(pair.b.bytes(0, 9), [0; 9]);
}

#[test]
fn an_unreliable_connection_drops_what_finds_no_receive_and_goes_on() {
    let mut pair = Pair::new(QpType::Uc);
    pair.a.link.0.reachable.set(false);
    let bytes = pair.a.fill(0, 20_000, 1);
    pair.a.post(request(1, SendOpcode::Send, sge(0, 20_000)));
    pair.settle(5);
    pair.b.recv(1, 100_000, 20_000);
    pair.a.post(request(2, SendOpcode::Send, sge(0, 20_000)));
    pair.settle(5);
    assert_eq!(pair.b.bytes(100_000, 20_000), bytes);
    assert_eq!(pair.b.seen.received.len(), 1);
    assert_eq!(event_of(&pair), None);
    assert_eq!(pair.a.sent.len(), 2);
}

#[test]
fn the_receive_of_a_message_that_was_cut_off_serves_the_next_one() {
    let mut pair = Pair::new(QpType::Uc);
    pair.a.link.0.reachable.set(false);
    pair.b.recv(1, 100_000, 20_000);
    let bytes = pair.a.fill(0, 20_000, 1);
    pair.a.post(request(1, SendOpcode::Send, sge(0, 20_000)));
    pair.a.advance(0);
    // the first piece arrives, then the sender starts anew: the rest is lost
    let link = pair.b.link.clone();
    {
        let mut ring = link.0.consumer.borrow_mut();
        let record = ring.peek(&link.0.pair).unwrap().unwrap();
        let side = &mut pair.b;
        side.receiver.handle(
            &side.host,
            &link,
            &ring,
            &record,
            &mut side.rq,
            1 << 20,
            &mut side.seen,
        );
        for _ in 0..3 {
            ring.answer(&link.0.pair, Response::Ok(0));
        }
    }
    pair.settle(3);
    pair.a.post(request(2, SendOpcode::Send, sge(0, 20_000)));
    pair.settle(5);
    assert_eq!(pair.b.seen.received.len(), 1);
    assert_eq!(pair.b.seen.received[0].wr_id, 1);
    assert_eq!(pair.b.bytes(100_000, 20_000), bytes);
}

#[test]
fn a_datagram_lands_behind_room_for_its_route_header_if_the_queue_key_fits() {
    for (grh, key, arrives) in [(None, 7, true), (Some([6; 40]), 7, true), (None, 8, false)] {
        let mut pair = Pair::new(QpType::Ud);
        pair.b.receiver.qkey = 7;
        pair.b.recv(1, 1_000, 200);
        let bytes = pair.a.fill(0, 100, 5);
        let link = pair.a.link.clone();
        let send = request(1, SendOpcode::Send, sge(0, 100));
        let (remote_qpn, link) = (pair.b.receiver.qpn, Some(&link));
        pair.a.post(SendRequest {
            remote_key: key,
            remote_qpn,
            link,
            grh: grh.as_ref(),
            ..send
        });
        pair.settle(5);
        assert_eq!(pair.a.statuses(), [(1, WcStatus::Success)]);
        assert_eq!(pair.b.seen.received.len(), usize::from(arrives));
        if arrives {
            let got = pair.b.seen.received[0];
            assert_eq!((got.byte_len, got.src_qp), (140, pair.a.receiver.qpn));
            assert_eq!(pair.b.bytes(1_040, 100), bytes);
            assert_eq!(
                got.flags.contains(crate::types::WcFlags::GRH),
                grh.is_some()
            );
        }
    }
}

proptest! {
    /// I7: an offset is given only for ranges that lie inside, computed without any sum that could wrap.
    #[test]
    fn a_key_covers_exactly_its_range(iova: u64, length in 0u64..1 << 40, addr: u64, len: u64, near in 0u64..64) {
        let entry = KeyEntry {
            key: 1, access: Access::empty(), iova, length, addr: 0, pd: 0, map_id: 0, map_offset: 0, only_qp: 0,
            window: false,
        };
        for addr in [addr, iova.wrapping_add(near), iova.wrapping_add(length).wrapping_sub(near)] {
            for len in [len, near, length, length.saturating_sub(near)] {
                let offset = u128::from(addr.wrapping_sub(iova));
                let inside = offset + u128::from(len) <= u128::from(length);
                prop_assert_eq!(entry.offset_of(addr, len).is_some(), inside);
            }
        }
    }

    #[test]
    fn a_key_entry_reads_as_written_and_only_under_its_own_key(
        index in 1usize..MAX_KEYS, low: u8, bits in 0u32..1 << 21, iova: u64, length: u64, pd: u32, map_id: u32,
        only_qp in 0u32..1 << 24, window: bool,
    ) {
        let seg = Seg::new(crate::direct::layout::PROC_LEN);
        let access = Access::from_bits_truncate(bits);
        let key = (index as u32) << 8 | u32::from(low);
        let entry = KeyEntry { key, access, iova, length, addr: !iova, pd, map_id, map_offset: length ^ 5, only_qp, window };
        entry.write(&seg, index);
        prop_assert_eq!(KeyEntry::read(&seg, key), Some(entry));
        prop_assert_eq!(KeyEntry::read(&seg, key ^ 1), None);
        KeyEntry::revoke(&seg, index);
        prop_assert_eq!(KeyEntry::read(&seg, key), None);
    }

    /// A receive queue is a bounded first-in first-out queue, for any capacity and however long it lives.
    #[test]
    fn receives_come_out_as_they_went_in(capacity in 0u32..20, steps in prop::collection::vec(any::<bool>(), 0..300)) {
        let mut queue = RecvQueue::new(capacity, 2);
        let mut model = VecDeque::new();
        let mut sges = Vec::new();
        for (wr_id, push) in steps.into_iter().enumerate() {
            if push {
                let list = [Sge { addr: wr_id as u64, length: 1, lkey: 2 }; 2];
                let list = &list[..wr_id % 3];
                let taken = queue.push(wr_id as u64, list);
                prop_assert_eq!(taken.is_ok(), model.len() < capacity as usize);
                if taken.is_ok() {
                    model.push_back((wr_id as u64, list.to_vec()));
                }
            } else {
                let got = queue.take(&mut sges).map(|wqe| (wqe.wr_id, sges.clone()));
                prop_assert_eq!(got, model.pop_front());
            }
            prop_assert_eq!(queue.len() as usize, model.len());
        }
    }
}
