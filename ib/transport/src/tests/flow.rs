//! What a driver asks for: answers and requests apart, reasons for drops, counters, a diagnosis.

use super::*;
use crate::{AnswerDue, Cause, Datagram, Path};
use ferriband_wire::Syndrome;

/// The next packet of one half, kept.
fn request(end: &mut End, now: Instant) -> Option<Vec<u8>> {
    let mut buf = vec![0; end.qp.max_packet_bytes()];
    let sent = end.qp.poll_request(now, &mut end.memory, &mut buf);
    end.collect();
    sent.map(|sent| buf[..sent.len].to_vec())
}

fn answer(end: &mut End) -> Option<Vec<u8>> {
    let mut buf = vec![0; end.qp.max_packet_bytes()];
    let len = end.qp.poll_answer(&mut end.memory, &mut buf);
    end.collect();
    len.map(|len| buf[..len].to_vec())
}

fn deliver(end: &mut End, now: Instant, bytes: &[u8]) -> Option<Drop> {
    end.receive(now, &Packet::parse(bytes).unwrap());
    end.dropped
}

#[test]
fn an_acknowledgement_waits_while_requests_leave_and_covers_all_before_it() {
    let mut pair = Pair::new(RC);
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    for id in 0..3 {
        a.post(id, SendOpcode::RdmaWrite, 8);
        let bytes = request(a, now).unwrap();
        assert_eq!(deliver(b, now, &bytes), None);
        assert_eq!(b.qp.answer_due(), AnswerDue::Ack);
    }
    b.post(7, SendOpcode::RdmaWrite, 8);
    let bytes = request(b, now).unwrap();
    assert_eq!(Packet::parse(&bytes).unwrap().opcode(), Opcode::RcWriteOnly);
    assert_eq!(
        b.qp.answer_due(),
        AnswerDue::Ack,
        "a request takes no answer along"
    );
    let ack = answer(b).unwrap();
    assert_eq!((b.qp.answer_due(), answer(b)), (AnswerDue::None, None));
    deliver(a, now, &ack);
    assert_eq!(a.statuses(), [(0, OK), (1, OK), (2, OK)]);
}

#[test]
fn responses_and_naks_are_more_than_an_acknowledgement() {
    let mut pair = Pair::new(RC);
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    a.post(1, SendOpcode::RdmaRead, 600);
    let bytes = request(a, now).unwrap();
    deliver(b, now, &bytes);
    for left in [2, 1, 0] {
        assert_eq!(b.qp.answer_due(), AnswerDue::More);
        let response = answer(b).unwrap();
        assert!(response.len() <= b.qp.max_packet_bytes());
        assert_eq!(deliver(a, now, &response), None, "{left} left");
    }
    assert_eq!(b.qp.answer_due(), AnswerDue::None);
    a.post(2, SendOpcode::Send, 8);
    let bytes = request(a, now).unwrap();
    assert_eq!(deliver(b, now, &bytes), None, "an RNR NAK is an answer");
    assert_eq!(b.qp.answer_due(), AnswerDue::More);
    assert_eq!(b.qp.counters().rnr_naks_sent, 1);
}

#[test]
fn a_queue_pair_made_in_init_goes_on_to_rts() {
    let mut pair = Pair::new(RC);
    let now = pair.now;
    let end = &mut pair.ends[0];
    let attr = QpAttr {
        state: QpState::Init,
        ..end.attr
    };
    let config = QpConfig {
        qpn: end.qp.qpn(),
        qp_type: QpType::Rc,
        cap: end.qp.query().cap,
        shared_receive: false,
        signal_all: false,
        limits: QpLimits::default(),
        tuning: Tuning::default(),
    };
    end.qp = QueuePair::in_init(config, &attr);
    assert_eq!(end.qp.state(), QpState::Init);
    assert_eq!(end.qp.query().access, attr.access);
    end.to(QpState::Rtr);
    end.to(QpState::Rts);
    end.post(1, SendOpcode::RdmaWrite, 8);
    assert!(request(end, now).is_some());
}

#[test]
fn a_datagram_goes_where_its_own_request_says() {
    let mut pair = Pair::new(Setup {
        types: [QpType::Ud; 2],
        ..RC
    });
    let now = pair.now;
    let a = &mut pair.ends[0];
    let to = |qpn: u32, handle: u64| Datagram {
        qpn: Qpn(qpn),
        qkey: QKey(5),
        handle,
        ..Datagram::default()
    };
    for (qpn, handle) in [(11, 1), (0xff_ffff, 2)] {
        a.post_with(handle, SendOpcode::Send, 8, |wr| {
            wr.datagram = Some(to(qpn, handle));
        });
    }
    let mut buf = vec![0; a.qp.max_packet_bytes()];
    for (qpn, handle) in [(11, 1), (0xff_ffff, 2)] {
        let sent = a.qp.poll_request(now, &mut a.memory, &mut buf).unwrap();
        assert_eq!(sent.path, Path::Datagram);
        assert_eq!(a.qp.datagram(), Some(&to(qpn, handle)));
        let packet = Packet::parse(&buf[..sent.len]).unwrap();
        assert_eq!(packet.bth().dest_qpn, Qpn(qpn));
    }
}

#[test]
fn every_packet_without_effect_says_why() {
    let mut pair = Pair::new(Setup {
        types: [QpType::Ud; 2],
        attr: |attr| attr.qkey = QKey(5),
        ..RC
    });
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    let mut datagram = |qkey: u32| {
        a.post_with(1, SendOpcode::Send, 8, |wr| {
            wr.datagram = Some(Datagram {
                qpn: Qpn(11),
                qkey: QKey(qkey),
                ..Datagram::default()
            });
        });
        request(a, now).unwrap()
    };
    let (good, bad) = (datagram(5), datagram(6));
    assert_eq!(deliver(b, now, &bad), Some(Drop::QKey));
    assert_eq!(deliver(b, now, &good), Some(Drop::NoReceive));
    b.post_recv(1, 47);
    assert_eq!(
        deliver(b, now, &good),
        Some(Drop::Length),
        "40 bytes precede the payload"
    );
    b.to(QpState::Err);
    assert_eq!(deliver(b, now, &good), Some(Drop::State));
    let mut rc = Pair::new(RC);
    assert_eq!(deliver(&mut rc.ends[1], now, &good), Some(Drop::Service));
    let counters = b.qp.counters();
    assert_eq!(counters.packets_received, 4);
    assert_eq!(counters.drops.iter().sum::<u64>(), 4);
    assert_eq!(counters.drops[Drop::Length as usize], 1);
}

#[test]
fn a_gap_is_answered_once_and_then_dropped() {
    let mut pair = Pair::new(RC);
    let now = pair.now;
    let [a, b] = &mut pair.ends;
    let packets: Vec<_> = (0..3)
        .map(|id| {
            a.post(id, SendOpcode::RdmaWrite, 8);
            request(a, now).unwrap()
        })
        .collect();
    assert_eq!(deliver(b, now, &packets[1]), None);
    assert_eq!(deliver(b, now, &packets[2]), Some(Drop::Psn));
    assert_eq!(deliver(b, now, &packets[0]), None);
    assert_eq!(deliver(b, now, &packets[0]), None, "acknowledged again");
    let counters = b.qp.counters();
    assert_eq!((counters.gaps_reported, counters.duplicates), (1, 1));
    let ack = answer(b).unwrap();
    assert_eq!(deliver(a, now, &ack), None);
    let nak_of_the_past = answer(b);
    assert_eq!(nak_of_the_past, None);
}

#[test]
fn a_diagnosis_tells_what_was_lost_and_how_often() {
    let mut pair = Pair::new(RC);
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 8);
    pair.settle(&mut |from, _| usize::from(from == 1));
    assert_eq!(pair.ends[0].statuses(), [(1, WcStatus::RetryExcErr)]);
    let diagnosis = pair.ends[0].qp.diagnosis();
    assert_eq!(diagnosis.state, QpState::Err);
    assert_eq!((diagnosis.retries_left, diagnosis.last_heard), (0, None));
    let first = Psn::new(0xff_fffe);
    assert_eq!((diagnosis.una, diagnosis.next), (first, first.next()));
    let incidents: Vec<_> = diagnosis.incidents.iter().flatten().collect();
    // Three retries, and the time-out that found none left.
    assert_eq!(incidents.len(), 4);
    for pair in incidents.windows(2) {
        assert!(pair[0].at < pair[1].at);
    }
    for incident in incidents {
        assert_eq!((incident.cause, incident.psn), (Cause::Timeout, first));
    }
    let counters = pair.ends[0].qp.counters();
    assert_eq!((counters.requests_sent, counters.requests_repeated), (4, 3));
    assert_eq!(counters.timeouts, 4);
}

/// RC that asks after 10 us of silence. Its ack time-out is 67 ms.
fn asking() -> Setup {
    Setup {
        tuning: Tuning {
            silence_ns: 10_000,
            ..RC.tuning
        },
        ..RC
    }
}

/// Four packets of which the `lost` are lost once, and the first `naks` NAKs; returns the requester's counters.
fn found_by_asking(lost: std::ops::Range<u32>, naks: u32) -> crate::QpCounters {
    let mut pair = Pair::new(asking());
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 1000);
    let (mut requests, mut naks_seen) = (0, 0);
    let start = pair.now;
    pair.settle(&mut |from, packet| {
        if from == 0 {
            requests += 1;
            return usize::from(!lost.contains(&(requests - 1)));
        }
        let nak = matches!(packet.ext().aeth.unwrap().syndrome, Syndrome::Nak(_));
        naks_seen += u32::from(nak);
        usize::from(!nak || naks_seen > naks)
    });
    assert_eq!(pair.ends[0].statuses(), [(1, OK)]);
    assert_eq!(pair.ends[1].memory.writes.len(), 4, "each packet once");
    assert!(pair.now.0 - start.0 < 1_000_000, "no ack time-out");
    pair.ends[0].qp.counters()
}

#[test]
fn a_lost_tail_is_found_by_asking_and_costs_no_retry() {
    for lost in [3..4, 1..4, 0..4] {
        let counters = found_by_asking(lost.clone(), 0);
        assert_eq!(
            (counters.timeouts, counters.questions),
            (0, 1),
            "{lost:?} lost"
        );
    }
}

#[test]
fn a_lost_nak_is_found_by_asking() {
    let counters = found_by_asking(1..2, 1);
    assert_eq!((counters.timeouts, counters.questions), (0, 1));
}

#[test]
fn a_peer_that_is_only_behind_is_not_sent_everything_again() {
    let mut pair = Pair::new(Setup {
        tuning: Tuning {
            silence_ns: 200_000,
            ack_interval: 1,
            ..RC.tuning
        },
        ..RC
    });
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 1000);
    let [a, b] = &mut pair.ends;
    let mut sent = Vec::new();
    while let Some(bytes) = request(a, pair.now) {
        sent.push(bytes);
    }
    let asked_at = a.qp.poll_timeout().unwrap();
    a.qp.handle_timeout(asked_at);
    sent.push(request(a, asked_at).unwrap());
    assert_eq!(sent[4].len(), sent[0].len(), "the oldest once more");
    // The peer comes to it now, and acknowledges each packet: duplicates are acknowledged too.
    let mut now = asked_at;
    for bytes in &sent {
        deliver(b, now, bytes);
        if let Some(ack) = answer(b) {
            deliver(a, now, &ack);
        }
        now = now.plus_ns(40_000);
        a.qp.handle_timeout(now);
        assert_eq!(request(a, now), None);
    }
    assert_eq!(a.statuses(), [(1, OK)]);
    let counters = a.qp.counters();
    assert_eq!((counters.requests_sent, counters.questions), (5, 1));
}

#[test]
fn questions_become_rarer_and_the_ack_time_out_stays_what_it_is() {
    let mut pair = Pair::new(asking());
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 8);
    let start = pair.now;
    pair.settle(&mut |from, _| usize::from(from == 1));
    assert_eq!(pair.ends[0].statuses(), [(1, WcStatus::RetryExcErr)]);
    // 67 ms, and three retries.
    assert_eq!(pair.now.0 - start.0, 4 * (4096 << 14));
    let counters = pair.ends[0].qp.counters();
    assert_eq!(counters.timeouts, 4);
    // 10 us, doubled each time, and the thirteenth after 25 ms: at 66 of 67 ms.
    assert_eq!(counters.questions, 4 * 13);
}

#[test]
fn questions_are_at_most_25_ms_apart_however_long_the_ack_time_out_is() {
    let mut pair = Pair::new(Setup {
        attr: |attr| attr.timeout = 20,
        ..asking()
    });
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 8);
    let a = &mut pair.ends[0];
    assert!(request(a, pair.now).is_some());
    let (mut before, mut longest) = (pair.now, 0);
    while a.qp.counters().timeouts == 0 {
        let now = a.qp.poll_timeout().unwrap();
        a.qp.handle_timeout(now);
        if request(a, now).is_some() {
            longest = longest.max(now.0 - before.0);
            before = now;
        }
    }
    assert_eq!(longest, 25_000_000);
    // it is sent again after 4.3 s
    assert_eq!(before.0 - pair.now.0, 4096 << 20);
}

#[test]
fn a_link_that_is_back_is_asked_at_once() {
    let mut pair = Pair::new(asking());
    let a = &mut pair.ends[0];
    a.qp.ask_now();
    assert_eq!(request(a, pair.now), None, "there is nothing to ask for");
    a.post(1, SendOpcode::RdmaWrite, 1000);
    while request(a, pair.now).is_some() {}
    // some questions are lost
    let mut now = pair.now;
    for _ in 0..8 {
        now = a.qp.poll_timeout().unwrap();
        a.qp.handle_timeout(now);
        assert!(request(a, now).is_some());
    }
    a.qp.ask_now();
    let question = request(a, now).unwrap();
    assert_eq!(request(a, now), None, "one question");
    let next = a.qp.poll_timeout().unwrap();
    assert!(next.0 - now.0 <= 20_000, "and the next one soon");
    pair.now = now;
    let [a, b] = &mut pair.ends;
    assert_eq!(deliver(b, now, &question), None);
    let ack = answer(b).unwrap();
    assert_eq!(deliver(a, now, &ack), None);
    pair.run();
    assert_eq!(pair.ends[0].statuses(), [(1, OK)]);
    assert_eq!(pair.ends[0].qp.counters().timeouts, 0);
}

#[test]
fn the_last_question_before_an_ack_time_out_has_time_for_its_answer() {
    let mut setup = asking();
    // doubled each time up to 25 ms, the twelfth question comes 27 ns before 67 ms are over
    const SILENCE: u64 = 20_571;
    setup.tuning.silence_ns = SILENCE;
    let mut pair = Pair::new(setup);
    pair.ends[0].post(1, SendOpcode::RdmaWrite, 8);
    let a = &mut pair.ends[0];
    assert!(request(a, pair.now).is_some());
    let mut sent = 1;
    while let Some(now) = a.qp.poll_timeout() {
        a.qp.handle_timeout(now);
        while request(a, now).is_some() {
            sent += 1;
        }
        let next = a.qp.poll_timeout();
        assert!(
            next.is_none_or(|next| next.0 - now.0 >= SILENCE),
            "after packet {sent}"
        );
    }
    // four tries, and twelve questions in each
    assert_eq!(sent, 52);
    assert_eq!(a.statuses(), [(1, WcStatus::RetryExcErr)]);
}

#[test]
fn a_congestion_notification_narrows_the_window() {
    let mut pair = Pair::new(RC);
    let before = pair.ends[0].qp.diagnosis().window;
    pair.ends[0].qp.congested(Instant(5));
    let after = pair.ends[0].qp.diagnosis().window;
    assert_eq!((after[0], after[1]), (before[0] / 2, before[1]));
}

/// Posts a WRITE without a completion.
fn post_quietly(pair: &mut Pair, wr_id: u64, bytes: u32) {
    pair.ends[0].post_with(wr_id, SendOpcode::RdmaWrite, bytes, |wr| {
        wr.flags = SendFlags::empty();
    });
}

/// The same, and delivers what that sends. How many acknowledgements came.
fn write_quietly(pair: &mut Pair, wr_id: u64, bytes: u32) -> usize {
    post_quietly(pair, wr_id, bytes);
    let mut acks = 0;
    pair.exchange(&mut |from, _| {
        acks += from;
        1
    });
    acks
}

/// Acknowledgements of 24 messages that nobody waits for; then one is waited for, and one more goes last.
fn acks_of_quiet_messages(bytes: u32) -> usize {
    let mut setup = asking();
    setup.tuning.ack_interval = 128;
    let mut pair = Pair::new(setup);
    let acks = (0..24)
        .map(|wr_id| write_quietly(&mut pair, wr_id, bytes))
        .sum();
    // the last of them was acknowledged: there is nothing to ask
    pair.run();
    assert_eq!(pair.ends[0].qp.counters().questions, 0);
    // a completion that is waited for comes at once, and says the same of those before
    assert_eq!(write_quietly(&mut pair, 24, 8), 0);
    pair.ends[0].post(25, SendOpcode::RdmaWrite, 8);
    pair.exchange(&mut |_, _| 1);
    assert_eq!(pair.ends[0].statuses(), [(25, OK)]);
    // at the end of the traffic a question finds out that all has come
    assert_eq!(write_quietly(&mut pair, 26, 8), 0);
    let begun = pair.now;
    pair.run();
    let counters = pair.ends[0].qp.counters();
    assert_eq!((counters.questions, counters.timeouts), (1, 0));
    assert!(pair.now.0 - begun.0 < 1_000_000, "no ack time-out");
    acks
}

#[test]
fn messages_of_few_packets_that_nobody_waits_for_are_acknowledged_now_and_then() {
    // one packet, two, four and eight of 256 bytes
    for bytes in [8, 257, 1000, 2048] {
        assert_eq!(acks_of_quiet_messages(bytes), 3, "of {bytes} bytes");
    }
    // of longer ones each is: another packet is little to them
    assert_eq!(acks_of_quiet_messages(2049), 24);
}

#[test]
fn a_message_that_nobody_waits_for_is_sent_again_if_it_is_lost() {
    // all of it, its end, and its beginning
    for (bytes, lost) in [(8, 0..1), (1000, 0..4), (1000, 3..4), (1000, 0..1)] {
        let mut pair = Pair::new(asking());
        post_quietly(&mut pair, 1, bytes);
        let mut sent = 0;
        pair.settle(&mut |from, _| {
            let dropped = from == 0 && lost.contains(&sent);
            sent += 1 - from;
            usize::from(!dropped)
        });
        let written: usize = pair.ends[1].memory.writes.iter().map(|w| w.1).sum();
        assert_eq!(written, bytes as usize, "{lost:?} of {bytes} bytes lost");
        assert_eq!(pair.ends[0].qp.counters().timeouts, 0);
    }
}

#[test]
fn slow_messages_to_and_fro_are_no_silence() {
    // each takes 4 us, a silence is 10, and every eighth of an end's is acknowledged: 64 us
    let mut setup = asking();
    setup.tuning.ack_interval = 128;
    let mut pair = Pair::new(setup);
    for turn in 0..200 {
        let from = (turn % 2) as usize;
        let quiet = |wr: &mut SendWr<'_>| wr.flags = SendFlags::empty();
        pair.ends[from].post_with(turn, SendOpcode::RdmaWrite, 8, quiet);
        pair.exchange(&mut |_, _| 1);
        pair.now = pair.now.plus_ns(4_000);
        for end in &mut pair.ends {
            end.qp.handle_timeout(pair.now);
        }
        pair.exchange(&mut |_, _| 1);
    }
    for end in &pair.ends {
        assert_eq!(end.qp.counters().questions, 0);
    }
}

#[test]
fn what_is_lost_is_asked_for_though_the_peer_is_heard() {
    // the last of one end's, which then only listens
    let mut setup = asking();
    setup.tuning.ack_interval = 128;
    let mut pair = Pair::new(setup);
    post_quietly(&mut pair, 1, 8);
    pair.exchange(&mut |_, _| 0);
    let begun = pair.now;
    while pair.ends[1].memory.writes.is_empty() {
        pair.now = pair.now.plus_ns(4_000);
        pair.ends[1].post(9, SendOpcode::RdmaWrite, 8);
        pair.exchange(&mut |_, _| 1);
        for end in &mut pair.ends {
            end.qp.handle_timeout(pair.now);
        }
        pair.exchange(&mut |_, _| 1);
        assert!(pair.now.0 - begun.0 < 120_000, "nine silences of 10 us");
    }
    assert!(pair.now.0 - begun.0 > 80_000, "eight are put off");
    let counters = pair.ends[0].qp.counters();
    assert_eq!((counters.questions, counters.timeouts), (1, 0));
}

#[test]
fn an_answer_that_is_asked_for_late_has_a_whole_silence() {
    let mut pair = Pair::new(asking());
    assert_eq!(write_quietly(&mut pair, 1, 8), 0);
    pair.now = pair.now.plus_ns(9_000);
    pair.ends[0].post(2, SendOpcode::RdmaWrite, 8);
    pair.exchange(&mut |from, _| 1 - from);
    for (passed, questions) in [(2_000, 0), (7_000, 0), (2_000, 1)] {
        pair.now = pair.now.plus_ns(passed);
        pair.ends[0].qp.handle_timeout(pair.now);
        pair.exchange(&mut |from, _| 1 - from);
        assert_eq!(pair.ends[0].qp.counters().questions, questions);
    }
}

#[test]
fn a_queue_that_is_half_full_asks_for_each_acknowledgement() {
    let mut pair = Pair::new(Setup {
        max_send_wr: 2,
        ..asking()
    });
    assert_eq!(write_quietly(&mut pair, 1, 8), 0);
    assert_eq!(write_quietly(&mut pair, 2, 8), 1);
}
