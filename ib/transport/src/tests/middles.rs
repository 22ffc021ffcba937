//! Packets that are made many at a time: the same ones as one by one.

use super::*;
use proptest::prelude::*;

/// Messages, their elements, and what bounds the flight.
#[derive(Clone, Debug)]
struct Flight {
    messages: Vec<(SendOpcode, u32, u32)>,
    ack_interval: u32,
    max_inflight_packets: u32,
    places: usize,
    lost: usize,
}

fn flight() -> impl Strategy<Value = Flight> {
    let opcode = prop::sample::select(vec![
        SendOpcode::RdmaWrite,
        SendOpcode::RdmaWriteImm,
        SendOpcode::Send,
        SendOpcode::RdmaRead,
    ]);
    (
        prop::collection::vec((opcode, 0..4_000_u32, 0..4_000_u32), 1..6),
        1..40_u32,
        1..80_u32,
        1..9_usize,
        0..20_usize,
    )
        .prop_map(
            |(messages, ack_interval, max_inflight_packets, places, lost)| Flight {
                messages,
                ack_interval,
                max_inflight_packets,
                places,
                lost,
            },
        )
}

/// Posts a request of two elements.
fn post_two(end: &mut End, wr_id: u64, opcode: SendOpcode, lengths: [u32; 2]) {
    let sge = |addr, length| Sge {
        addr,
        length,
        lkey: LOCAL_KEY,
    };
    let sges = [sge(0, lengths[0]), sge(0x3000, lengths[1])];
    let mut wr = SendWr::new(wr_id, opcode, Payload::Gather(&sges));
    wr.flags = SendFlags::SIGNALED;
    (wr.remote_addr, wr.rkey) = (0x1000, RKey(KEY));
    end.qp.post_send(&wr).unwrap();
    end.collect();
}

/// Everything that two ends say until all is done, the requester's packets made one by one or `places` at a time.
fn said(flight: &Flight, places: usize) -> (Vec<Vec<u8>>, Vec<(u64, WcStatus)>) {
    let mut pair = Pair::new(Setup {
        tuning: Tuning {
            ack_interval: flight.ack_interval,
            max_inflight_packets: flight.max_inflight_packets,
            ..RC.tuning
        },
        ..RC
    });
    for (byte, value) in pair.ends[0].memory.bytes.iter_mut().zip(0_u32..) {
        *byte = (value.wrapping_mul(2_654_435_761) >> 24) as u8;
    }
    let [a, b] = &mut pair.ends;
    for (id, (opcode, one, other)) in (0..).zip(&flight.messages) {
        b.post_recv(id, 8_000);
        post_two(a, id, *opcode, [*one, *other]);
    }
    let (mut sent, mut lost) = (Vec::new(), flight.lost);
    for _ in 0..2_000 {
        let [a, b] = &mut pair.ends;
        let mut buf = [0; MAX_PACKET_BYTES];
        let mut came = Vec::new();
        while let Some(one) = a.qp.poll_request(pair.now, &mut a.memory, &mut buf) {
            came.push(buf[..one.len].to_vec());
            let stride = one.len + 4;
            let mut room = vec![0; places * stride];
            let count =
                a.qp.poll_middles(pair.now, &mut a.memory, (&mut room, one.len, stride));
            assert!(count as usize <= places);
            came.extend(
                room.chunks(stride)
                    .take(count as usize)
                    .map(|packet| packet[..one.len].to_vec()),
            );
        }
        for bytes in came {
            sent.push(bytes);
            let gone = lost == 0;
            lost = lost.wrapping_sub(1);
            if gone {
                continue;
            }
            let bytes = sent.last().expect("just pushed");
            b.receive(pair.now, &Packet::parse(bytes).unwrap());
        }
        while let Some(len) = b.qp.poll_answer(&mut b.memory, &mut buf) {
            a.receive(pair.now, &Packet::parse(&buf[..len]).unwrap());
        }
        pair.now = pair.now.plus_ns(1_000_000);
        for end in &mut pair.ends {
            end.qp.handle_timeout(pair.now);
            end.collect();
        }
        if pair.ends[0].done.len() == flight.messages.len() {
            break;
        }
    }
    (sent, pair.ends[0].statuses())
}

proptest! {
    #[test]
    fn the_wire_sees_no_difference(flight in flight()) {
        let (one_by_one, ends) = said(&flight, 0);
        let (together, others) = said(&flight, flight.places);
        prop_assert_eq!(ends.len(), flight.messages.len());
        prop_assert_eq!(&ends, &others);
        prop_assert_eq!(one_by_one.len(), together.len());
        for (one, other) in one_by_one.iter().zip(&together) {
            prop_assert_eq!(one, other);
        }
    }
}

#[test]
fn a_long_message_goes_in_few_steps_but_for_its_ends() {
    let mut pair = Pair::new(RC);
    let [a, _] = &mut pair.ends;
    a.post(1, SendOpcode::RdmaWrite, 10 * 256);
    let mut buf = [0; MAX_PACKET_BYTES];
    let mut room = [0; 20 * 300];
    let mut one = |a: &mut End| {
        let sent = a.qp.poll_request(Instant(1), &mut a.memory, &mut buf);
        sent.map(|sent| sent.len)
    };
    let mut more = |a: &mut End, len| {
        a.qp.poll_middles(Instant(1), &mut a.memory, (&mut room, len, len + 4))
    };
    let first = one(a).unwrap();
    assert_eq!(
        more(a, first),
        0,
        "a first packet is longer than those that follow"
    );
    let middle = one(a).unwrap();
    assert_eq!(more(a, middle), 7);
    assert_eq!(more(a, middle), 0, "the last one is another");
    assert!(one(a).is_some());
    assert!(one(a).is_none());
}
