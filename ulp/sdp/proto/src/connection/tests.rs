//! The flow controls by hand: two machines, and a transport that the test moves.

mod credits;

use super::*;
use ferriband_sdp_wire::{Advert, RKey};
use std::collections::VecDeque;

/// A side, and what its transport was asked for.
struct Side {
    machine: Connection,
    sent: VecDeque<Work>,
    receives: u32,
    /// Of the second queue pair.
    offers: VecDeque<Work>,
    offer_receives: u32,
}

fn config(flow: Flow, buffers: u16, buffer_bytes: u32) -> Config {
    Config {
        flow,
        buffers,
        buffer_bytes,
        coalesce: true,
    }
}

fn pair(config: Config) -> [Side; 2] {
    let side = || {
        let machine = Connection::new(config, Peer::of(&config)).expect("the numbers are possible");
        let mut side = Side {
            machine,
            sent: VecDeque::new(),
            receives: 0,
            offers: VecDeque::new(),
            offer_receives: 0,
        };
        side.poll();
        side
    };
    [side(), side()]
}

impl Side {
    fn poll(&mut self) {
        while let Some(work) = self.machine.poll_work() {
            match work {
                Work::Receive { pair, .. } => *self.receives_of(pair) += 1,
                work => match pair_of(&work) {
                    Pair::Stream => self.sent.push_back(work),
                    Pair::Offers => self.offers.push_back(work),
                },
            }
        }
    }

    fn receives_of(&mut self, pair: Pair) -> &mut u32 {
        match pair {
            Pair::Stream => &mut self.receives,
            Pair::Offers => &mut self.offer_receives,
        }
    }

    /// The program sends; returns what was taken.
    fn send(&mut self, bytes: u32) -> u32 {
        let mut given = 0;
        while given < bytes {
            let Some(piece) = self.machine.reserve() else {
                break;
            };
            let take = piece.bytes.min(bytes - given);
            given += take;
            self.machine.commit(take, given < bytes);
            self.poll();
        }
        self.machine.push();
        self.poll();
        given
    }

    fn read(&mut self, bytes: u32) -> u32 {
        let mut read = 0;
        while let Some(piece) = self.machine.readable().filter(|_| read < bytes) {
            let take = piece.bytes.min(bytes - read);
            self.machine.consume(take);
            read += take;
            self.poll();
        }
        read
    }

    fn writes(&self) -> Vec<u32> {
        let bytes = |work: &Work| match work {
            Work::Write(write) => Some(write.from.bytes),
            Work::Send(send) => send.data.map(|piece| piece.bytes),
            Work::Receive { .. } | Work::Read(_) => None,
        };
        self.sent.iter().filter_map(bytes).collect()
    }
}

fn pair_of(work: &Work) -> Pair {
    match work {
        Work::Receive { pair, .. } => *pair,
        Work::Send(send) => send.pair,
        Work::Read(read) => read.pair,
        Work::Write(_) => Pair::Stream,
    }
}

/// The oldest work of `from` arrives at the other side, and completes. False if there is none, or
/// no receive for it.
fn carry(sides: &mut [Side; 2], from: usize) -> bool {
    carry_by(Pair::Stream, sides, from) || carry_by(Pair::Offers, sides, from)
}

fn carry_by(pair: Pair, sides: &mut [Side; 2], from: usize) -> bool {
    let [a, b] = sides;
    let (from, to) = if from == 0 { (a, b) } else { (b, a) };
    if *to.receives_of(pair) == 0 {
        return false;
    }
    let works = match pair {
        Pair::Stream => &mut from.sent,
        Pair::Offers => &mut from.offers,
    };
    let Some(work) = works.pop_front() else {
        return false;
    };
    *to.receives_of(pair) -= 1;
    let id = match work {
        Work::Read(read) => {
            *to.receives_of(pair) += 1;
            read.id
        }
        Work::Send(send) => {
            let length = send.head.bytes().len() as u32 + send.data.map_or(0, |data| data.bytes);
            let handled = to.machine.handle_message(pair, send.head.bytes(), length);
            handled.expect("the machine's own messages");
            send.id
        }
        Work::Write(write) => {
            let handled = to.machine.handle_write(write.from.bytes, write.immediate);
            handled.expect("the machine's own writes");
            write.id
        }
        Work::Receive { .. } => unreachable!("receives are not sent"),
    };
    from.machine
        .handle_sent(pair, id)
        .expect("it was under way");
    to.poll();
    from.poll();
    true
}

fn carry_all(sides: &mut [Side; 2]) {
    while carry(sides, 0) || carry(sides, 1) {}
}

#[test]
fn credit_takes_a_buffer_for_each_message_and_tells_after_half() {
    let mut sides = pair(config(Flow::Credit, 8, 100));
    for _ in 0..6 {
        assert_eq!(sides[0].send(1), 1);
    }
    // two credits are reserved
    assert_eq!(sides[0].send(1), 0);
    carry_all(&mut sides);
    assert_eq!(sides[0].send(1), 0);
    assert_eq!(sides[1].read(3), 3);
    carry_all(&mut sides);
    assert_eq!(sides[0].send(1), 0);
    assert_eq!(sides[1].machine.stats().updates_sent, 0);
    assert_eq!(sides[1].read(1), 1);
    assert_eq!(sides[1].machine.stats().updates_sent, 1);
    carry_all(&mut sides);
    for _ in 0..4 {
        assert_eq!(sides[0].send(1), 1);
    }
    assert_eq!(sides[0].send(1), 0);
    // a long one is segmented
    carry_all(&mut sides);
    assert_eq!(sides[1].read(9), 6);
    carry_all(&mut sides);
    assert_eq!(sides[0].send(250), 250);
    assert_eq!(sides[0].writes(), [100, 100, 50]);
}

#[test]
fn ring_uses_every_byte_and_joins_what_waits() {
    let flow = Flow::Ring { receives: 64 };
    let mut sides = pair(config(flow, 4, 100));
    for _ in 0..20 {
        assert_eq!(sides[0].send(20), 20);
    }
    assert_eq!(sides[0].machine.usage().send_bytes, 400);
    carry_all(&mut sides);
    assert_eq!(sides[1].machine.usage().receive_bytes, 400);
    for _ in 0..20 {
        assert_eq!(sides[0].send(20), 20);
    }
    assert_eq!(sides[0].send(20), 0);
    assert_eq!(sides[0].machine.account().waiting, 400);
    assert_eq!(sides[1].read(199), 199);
    carry_all(&mut sides);
    assert_eq!(sides[0].machine.stats().writes_sent, 20);
    // half of the ring is told
    assert_eq!(sides[1].read(1), 1);
    carry(&mut sides, 1);
    assert_eq!(sides[0].writes(), [200]);
    assert_eq!(sides[0].machine.stats().joined, 1);
    carry_all(&mut sides);
    assert_eq!(sides[1].read(1000), 400);
    carry_all(&mut sides);
    assert_eq!(sides[1].read(1000), 200);
}

#[test]
fn ring_stops_before_the_receives_run_out() {
    let flow = Flow::Ring { receives: 8 };
    let mut sides = pair(config(flow, 4, 100));
    let taken: u32 = (0..30).map(|_| sides[0].send(1)).sum();
    assert_eq!(taken, 30);
    assert_eq!(sides[0].writes(), [1; 6]);
    // the machine gives receives back without the program
    carry_all(&mut sides);
    assert_eq!(sides[1].machine.usage().receive_bytes, 30);
    assert!(sides[0].machine.stats().writes_sent < 12);
}

/// The example of papers/004, section 5.1: 64 KiB, a window of 8 KiB, two messages of 1 KiB.
#[test]
fn nic_posts_a_receive_whenever_a_window_is_free() {
    const KIB: u32 = 1024;
    let flow = Flow::Nic {
        window_bytes: 8 * KIB,
        reserve_bytes: 16 * KIB,
        offers: false,
    };
    let mut sides = pair(config(flow, 8, 8 * KIB));
    assert_eq!(sides[1].receives, 8);
    sides[0].send(KIB);
    carry_all(&mut sides);
    assert_eq!(sides[1].receives, 7);
    assert_eq!(sides[1].machine.account().spare, Some(7 * KIB));
    sides[0].send(KIB);
    carry_all(&mut sides);
    assert_eq!(sides[1].receives, 7);
    assert_eq!(sides[1].machine.account().spare, Some(6 * KIB));
    assert_eq!(sides[1].machine.stats().messages_sent, 0);
}

#[test]
fn nic_joins_what_the_adapter_does_not_hold_and_sends_it_on_a_completion() {
    let flow = Flow::Nic {
        window_bytes: 100,
        reserve_bytes: 150,
        offers: false,
    };
    let mut sides = pair(config(flow, 8, 50));
    // four receives: so many segments are the adapter's
    for _ in 0..4 {
        sides[0].send(10);
    }
    assert!(!sides[0].machine.wants_completion());
    for _ in 0..9 {
        sides[0].send(10);
    }
    assert_eq!(sides[0].writes(), [10; 4]);
    assert!(sides[0].machine.wants_completion());
    carry(&mut sides, 0);
    assert_eq!(sides[0].writes(), [10, 10, 10, 90]);
    assert!(!sides[0].machine.wants_completion());
    // nobody reads: 400 bytes are let in, 150 more are held
    while sides[0].send(100) > 0 {
        carry_all(&mut sides);
    }
    let unread = sides[1].machine.usage().receive_bytes;
    assert!(unread > 300 && unread <= 400, "{unread} unread");
    assert_eq!(sides[1].receives, 0);
    let held: u32 = sides[0].writes().iter().sum();
    assert!(held > 50 && held <= 150, "{held} held");
}

#[test]
fn a_cork_holds_short_segments_and_more_does_for_one_call() {
    let nic = Flow::Nic {
        window_bytes: 100,
        reserve_bytes: 200,
        offers: false,
    };
    for flow in [Flow::Credit, Flow::Ring { receives: 64 }, nic] {
        let [mut side, _] = pair(config(flow, 8, 100));
        side.machine.set_cork(true);
        for _ in 0..3 {
            assert!(side.machine.reserve().is_some());
            side.machine.commit(30, false);
            side.poll();
        }
        assert_eq!(side.writes(), [0; 0]);
        side.machine.set_cork(false);
        side.poll();
        assert_eq!(side.writes(), [90], "{flow:?}");
        side.machine.commit(1, true);
        side.poll();
        assert_eq!(side.writes(), [90]);
        side.machine.commit(1, false);
        side.poll();
        assert_eq!(side.writes(), [90, 2]);
        side.machine.set_cork(true);
        side.machine.commit(1, false);
        side.machine.shut_down();
        side.poll();
        assert_eq!(side.writes(), [90, 2, 1]);
    }
}

#[test]
fn without_joining_nothing_is_taken_that_cannot_leave() {
    let nic = Flow::Nic {
        window_bytes: 100,
        reserve_bytes: 200,
        offers: false,
    };
    for flow in [Flow::Ring { receives: 64 }, nic] {
        let config = Config {
            coalesce: false,
            ..config(flow, 4, 100)
        };
        let mut sides = pair(config);
        let mut total = 0;
        loop {
            let taken = sides[0].send(30);
            total += taken;
            assert_eq!(sides[0].machine.account().waiting, 0);
            if taken == 0 && !carry(&mut sides, 0) {
                break;
            }
        }
        assert!(total >= 400, "{total}");
        assert_eq!(sides[0].machine.stats().joined, 0);
    }
}

#[test]
fn the_end_comes_behind_the_last_byte_and_both_ends_finish() {
    let nic = Flow::Nic {
        window_bytes: 100,
        reserve_bytes: 200,
        offers: false,
    };
    for flow in [Flow::Credit, Flow::Ring { receives: 64 }, nic] {
        let mut sides = pair(config(flow, 4, 100));
        let sent = sides[0].send(390);
        sides[0].machine.shut_down();
        assert!(sides[0].machine.reserve().is_none());
        sides[0].poll();
        carry_all(&mut sides);
        let mut read = 0;
        while !sides[1].machine.is_at_end() {
            let some = sides[1].read(70);
            assert!(some > 0, "{flow:?}: {read} of {sent}");
            read += some;
            carry_all(&mut sides);
        }
        assert_eq!(read, sent);
        assert_eq!(sides[1].send(10), 10);
        sides[1].machine.shut_down();
        sides[1].poll();
        carry_all(&mut sides);
        assert_eq!(sides[0].read(100), 10);
        // the end may have waited for the credit of what was read now
        carry_all(&mut sides);
        assert!(sides[0].machine.is_finished() && sides[1].machine.is_finished());
    }
}

#[test]
fn an_abort_is_told_and_ends_both() {
    let mut sides = pair(config(Flow::Credit, 4, 100));
    sides[0].send(10);
    sides[0].machine.abort();
    sides[0].poll();
    assert_eq!(sides[0].machine.over(), Some(Over::Aborting));
    carry_all(&mut sides);
    assert_eq!(sides[1].machine.over(), Some(Over::Aborted));
    // what came before can be read
    assert_eq!(
        sides[1].machine.readable().map(|piece| piece.bytes),
        Some(10)
    );
}

#[test]
fn what_the_peer_may_not_do_ends_the_connection() {
    let ring = Flow::Ring { receives: 8 };
    let nic = Flow::Nic {
        window_bytes: 50,
        reserve_bytes: 100,
        offers: false,
    };
    let after = |flow, act: &dyn Fn(&mut Connection) -> Result<(), Violation>| {
        let [mut side, _] = pair(config(flow, 4, 100));
        let result = act(&mut side.machine);
        let violation = result.expect_err("refused");
        assert_eq!(side.machine.over(), Some(Over::Violation(violation)));
        assert_eq!(side.machine.poll_work(), None);
        violation
    };
    let message = |mseq, mseq_ack, body| {
        let header = MessageHeader {
            bufs: 8,
            mseq: ferriband_sdp_wire::MessageSeq(mseq),
            mseq_ack: ferriband_sdp_wire::MessageSeq(mseq_ack),
            ..MessageHeader::default()
        };
        Head::new(&Message { header, body }, 0)
    };
    let give = |flow, head: Head| {
        let length = head.bytes().len() as u32;
        after(flow, &|side| {
            side.handle_message(Pair::Stream, head.bytes(), length)
        })
    };
    let mut out = Vec::new();
    out.push(give(Flow::Credit, message(2, 0, Body::DisConn)));
    out.push(give(Flow::Credit, message(1, 1, Body::DisConn)));
    out.push(give(Flow::Credit, message(1, 0, Body::SuspCommAck)));
    out.push(give(ring, message(1, 0, Body::Data(&[0, 0, 0, 1]))));
    out.push(give(ring, message(1, 0, Body::Data(&[0; 5]))));
    out.push(give(nic, message(1, 0, Body::Data(&[0; 4]))));
    out.push(after(Flow::Credit, &|side| {
        side.handle_message(Pair::Stream, &[0xff; 3], 3)
    }));
    out.push(after(Flow::Credit, &|side| side.handle_write(1, 0)));
    out.push(after(ring, &|side| side.handle_write(401, 0)));
    out.push(after(ring, &|side| side.handle_write(1, 1)));
    out.push(after(nic, &|side| side.handle_write(51, 0)));
    out.push(after(nic, &|side| side.handle_write(50, 1)));
    out.push(after(nic, &|side| {
        side.handle_sent(Pair::Stream, WorkId(0))
    }));
    let told: Vec<String> = out.iter().map(ToString::to_string).collect();
    let expected = [
        "message 0x00000002 came, 0x00000001 is next",
        "message 0x00000001 is acknowledged, 0x00000000 was the last",
        "SuspCommAck has no place here",
        "the peer tells position 0x1 where 0x0 to 0x0 are possible",
        "5 bytes came, there was room for 4",
        "Data has no place here",
        "BSDH needs 16 bytes, 3 are left",
        "an RDMA WRITE with immediate data has no place here",
        "401 bytes came, there was room for 400",
        "the peer tells position 0x1 where 0x0 to 0x0 are possible",
        "51 bytes came, there was room for 50",
        "the peer tells position 0x1 where 0x0 to 0x0 are possible",
        "a completion for nothing that was posted",
    ];
    assert_eq!(told, expected);
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let nic = |window_bytes, reserve_bytes| Flow::Nic {
        window_bytes,
        reserve_bytes,
        offers: false,
    };
    for refused in [
        config(Flow::Credit, 3, 100),
        config(Flow::Credit, 8, 0),
        config(Flow::Ring { receives: 3 }, 8, 100),
        config(Flow::Ring { receives: 8 }, 60_000, 1 << 20),
        config(nic(0, 100), 8, 100),
        config(nic(201, 300), 8, 100),
        config(nic(200, 199), 8, 100),
    ] {
        assert!(refused.check().is_err(), "{refused:?}");
    }
    let own = config(Flow::Credit, 8, 100);
    let peer = Peer::of(&config(Flow::Ring { receives: 8 }, 8, 100));
    assert!(Connection::new(own, peer).is_err());
    let few = Peer {
        receives: 2,
        ..Peer::of(&own)
    };
    assert!(Connection::new(own, few).is_err());
    let own = config(nic(100, 100), 8, 100);
    let tight = Peer {
        flow: PeerFlow::Nic {
            ring_bytes: 899,
            window_bytes: 100,
        },
        ..Peer::of(&own)
    };
    assert!(Connection::new(own, tight).is_err());
}

#[test]
fn an_offer_is_read_in_parts_and_its_rest_refused() {
    let mut sides = pair(config(Flow::Credit, 8, 100));
    let advert = advert(1000);
    sides[0].send(10);
    assert!(sides[0].machine.may_offer());
    sides[0].machine.offer(advert);
    sides[0].poll();
    // the program gives nothing else meanwhile
    assert_eq!(sides[0].send(1), 0);
    assert!(!sides[0].machine.may_offer());
    carry_all(&mut sides);
    // what came before comes first
    assert_eq!(sides[1].machine.fetchable(), None);
    assert_eq!(sides[1].read(100), 10);
    assert_eq!(sides[1].machine.fetchable(), Some(1000));
    sides[1].machine.fetch(600);
    sides[1].poll();
    let Some(Work::Read(read)) = sides[1].sent.front() else {
        panic!("no READ: {:?}", sides[1].sent);
    };
    assert_eq!(
        (read.from.length_bytes, read.from.virtual_address),
        (600, 5000)
    );
    assert_eq!(sides[1].machine.fetchable(), None);
    carry_all(&mut sides);
    assert_eq!(sides[1].machine.take_fetched(), Some(600));
    assert_eq!(sides[0].machine.take_offer(), None);
    assert_eq!(sides[1].machine.fetchable(), Some(400));
    sides[1].machine.refuse_offer();
    sides[1].poll();
    carry_all(&mut sides);
    assert_eq!(sides[0].machine.take_offer(), Some(600));
    assert_eq!(sides[0].send(1), 1);
    carry_all(&mut sides);
    assert_eq!(sides[1].read(10), 1);
    assert_eq!(sides[0].machine.stats().bytes_offered, 600);
}

#[test]
fn an_offer_that_is_taken_back_is_over_when_the_peer_says_so() {
    let flow = Flow::Ring { receives: 8 };
    let mut sides = pair(config(flow, 8, 100));
    let advert = advert(1000);
    // before it was sent
    sides[0].machine.offer(advert);
    sides[0].machine.cancel_offer();
    assert_eq!(sides[0].machine.take_offer(), Some(0));
    sides[0].poll();
    assert!(sides[0].sent.is_empty());
    // while the peer reads
    sides[0].machine.offer(advert);
    sides[0].poll();
    carry_all(&mut sides);
    sides[1].machine.fetch(300);
    sides[1].poll();
    sides[0].machine.cancel_offer();
    sides[0].poll();
    carry(&mut sides, 0);
    assert_eq!(sides[0].machine.take_offer(), None);
    carry_all(&mut sides);
    assert_eq!(sides[0].machine.take_offer(), Some(300));
    assert_eq!(sides[1].machine.take_fetched(), Some(300));
}

/// Neither side's program reads what came: what is left of the credits is enough to take an offer
/// back.
#[test]
fn an_offer_is_taken_back_with_the_last_credit() {
    let mut sides = pair(config(Flow::Credit, 8, 100));
    let advert = advert(1000);
    sides[1].machine.offer(advert);
    sides[1].poll();
    carry_all(&mut sides);
    for _ in 0..5 {
        assert_eq!(sides[0].send(1), 1);
    }
    sides[0].machine.offer(advert);
    sides[0].machine.fetch(1);
    sides[0].poll();
    carry_all(&mut sides);
    assert_eq!(sides[0].machine.account().credits, 1);
    sides[0].machine.cancel_offer();
    sides[0].poll();
    carry_all(&mut sides);
    assert_eq!(sides[0].machine.take_offer(), Some(0));
}

fn advert(length_bytes: u32) -> Advert {
    Advert {
        length_bytes,
        rkey: RKey(7),
        virtual_address: 5000,
    }
}

fn nic_with_offers(offers: bool) -> Config {
    let flow = Flow::Nic {
        window_bytes: 100,
        reserve_bytes: 200,
        offers,
    };
    config(flow, 8, 100)
}

/// What the first side has sent waits for its peer to read. The peer offers, and does not read: it
/// is answered, and so is its taking back of another offer.
#[test]
fn in_nic_answers_do_not_wait_behind_bytes_that_nobody_reads() {
    let mut sides = pair(nic_with_offers(true));
    while sides[0].send(100) > 0 {
        while carry_by(Pair::Stream, &mut sides, 0) {}
    }
    assert!(!sides[0].sent.is_empty() && sides[1].receives == 0);
    let advert = advert(1000);
    sides[1].machine.offer(advert);
    sides[1].poll();
    carry_all(&mut sides);
    sides[0].machine.fetch(1000);
    sides[0].poll();
    carry_all(&mut sides);
    assert_eq!(sides[0].machine.take_fetched(), Some(1000));
    assert_eq!(sides[1].machine.take_offer(), Some(1000));
    sides[1].machine.offer(advert);
    sides[1].poll();
    carry_all(&mut sides);
    sides[1].machine.cancel_offer();
    sides[1].poll();
    carry_all(&mut sides);
    assert_eq!(sides[1].machine.take_offer(), Some(0));
    assert!(!sides[0].sent.is_empty() && sides[1].receives == 0);
}

/// The two queue pairs have no order: an offer that comes first waits for the bytes in front of it.
#[test]
fn in_nic_an_offer_that_overtakes_bytes_is_read_behind_them() {
    let mut sides = pair(nic_with_offers(true));
    assert_eq!(sides[0].send(150), 150);
    sides[0].machine.offer(advert(10));
    sides[0].poll();
    assert!(carry_by(Pair::Offers, &mut sides, 0));
    assert_eq!(sides[1].machine.fetchable(), None);
    for left in [50, 0] {
        assert!(carry_by(Pair::Stream, &mut sides, 0));
        assert_eq!(sides[1].machine.fetchable(), None);
        let read = sides[1].read(u32::MAX);
        assert_eq!(read, if left == 50 { 100 } else { 50 });
        let fetchable = sides[1].machine.fetchable();
        assert_eq!(fetchable, (left == 0).then_some(10));
    }
    // bytes behind an offer that is not over are none of the stream
    let position = sides[1].machine.receive.arrived() as u32;
    let refused = sides[1].machine.handle_write(1, position);
    assert_eq!(refused, Err(Violation::BehindEnd(1)));
}

#[test]
fn in_nic_nothing_is_offered_to_a_peer_without_a_second_queue_pair() {
    for (here, there) in [(false, false), (true, false), (false, true)] {
        let (own, peer) = (nic_with_offers(here), nic_with_offers(there));
        let mut side = Connection::new(own, Peer::of(&peer)).expect("possible numbers");
        assert!(!side.may_offer(), "{here} {there}");
        let told = side.handle_sent(Pair::Offers, WorkId(0));
        assert_eq!(told, Err(Violation::Completion));
    }
    // what a peer may not say there
    let told = |body: Body<'_>, data: &[u8]| {
        let config = nic_with_offers(true);
        let mut side = Connection::new(config, Peer::of(&config)).expect("possible numbers");
        while side.poll_work().is_some() {}
        let header = MessageHeader {
            bufs: 8,
            mseq: ferriband_sdp_wire::MessageSeq(1),
            ..MessageHeader::default()
        };
        let mut bytes = [0; HEAD_BYTES];
        let length = Message { header, body }.emit(&mut bytes).expect("it fits");
        let data_at = length - data.len();
        assert_eq!(&bytes[data_at..length], data);
        side.handle_message(Pair::Offers, &bytes[..length], length as u32)
    };
    let advert = advert(10);
    let offer = |data| Body::SrcAvail { advert, data };
    assert_eq!(told(offer(&[0, 0, 0, 9]), &[0, 0, 0, 9]), Ok(()));
    let far = told(offer(&[0, 0, 4, 0]), &[0, 0, 4, 0]);
    assert!(matches!(far, Err(Violation::Position { .. })), "{far:?}");
    let none = told(offer(&[]), &[]);
    assert!(matches!(none, Err(Violation::Overrun { .. })), "{none:?}");
    let data = told(Body::Data(&[]), &[]);
    assert_eq!(data, Err(Violation::Unexpected(Mid::Data)));
}

#[test]
fn what_a_standard_peer_asks_for_is_answered() {
    use ferriband_sdp_wire::{ConnectionHalf, MessageSeq, ModeChange, TransferMode};
    let [mut side, _] = pair(config(Flow::Credit, 8, 100));
    let give = |side: &mut Side, mseq, flags, body| {
        let header = MessageHeader {
            flags,
            bufs: 8,
            mseq: MessageSeq(mseq),
            mseq_ack: MessageSeq(0),
        };
        let mut bytes = [0; HEAD_BYTES];
        let length = Message { header, body }.emit(&mut bytes).expect("it fits");
        side.machine
            .handle_message(Pair::Stream, &bytes[..length], length as u32)
    };
    let none = Flags::empty();
    let size_bytes = 4096;
    give(&mut side, 1, none, Body::ChRcvBuf { size_bytes }).expect("allowed");
    give(&mut side, 2, none, Body::SinkAvailCancel).expect("allowed");
    side.poll();
    let answers: Vec<Work> = side.sent.drain(..).collect();
    let is = |work: &Work, expected: Body<'_>| {
        let Work::Send(send) = work else {
            return false;
        };
        Message::parse(send.head.bytes()).expect("our own").body == expected
    };
    assert_eq!(answers.len(), 2);
    assert!(is(&answers[0], Body::ChRcvBufAck { size_bytes: 116 }));
    assert!(is(&answers[1], Body::SinkCancelAck));
    // urgent bytes are bytes of the stream, and their last one is known
    give(&mut side, 3, Flags::OOB_PRES, Body::Data(b"abc")).expect("allowed");
    assert_eq!(side.machine.urgent(), Some(2));
    assert_eq!(side.read(10), 3);
    // a peer that wants messages only is offered nothing; one that pipelines may offer sinks
    let change = |half, mode| Body::ModeChange(ModeChange { half, mode });
    let half = ConnectionHalf::Send;
    give(&mut side, 4, none, change(half, TransferMode::Buffered)).expect("allowed");
    assert!(!side.machine.may_offer());
    let advert = advert(1000);
    let sink = Body::SinkAvail {
        advert,
        non_discards: 0,
        data: &[],
    };
    give(&mut side, 5, none, change(half, TransferMode::Pipelined)).expect("allowed");
    assert!(side.machine.may_offer());
    give(&mut side, 6, none, sink).expect("allowed");
    give(&mut side, 7, none, change(half, TransferMode::Combined)).expect("allowed");
    give(&mut side, 8, none, sink).expect_err("not in combined mode");
}
