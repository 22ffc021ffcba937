//! What the simulator has found, each case by hand.

mod ends;
mod pair;

use self::pair::{Call, DEAD, ME, RING, Side, pair};
use crate::{
    BOX, Closing, Errno, FUTEX, Filled, Finds, Kernel, Memory, Own, PEER_ENDED, Reader, Received,
    Sent, Service, Shared, Way, Word, Writer,
};
use ferriband_sdp_proto::change::Phase;

const WANT_BYTES: Word = Word::Shared(Way::In, Shared::WantBytes);
const WANT_ROOM: Word = Word::Shared(Way::Out, Shared::WantRoom);

fn send(w: &Side, bytes: &[u8]) -> Sent {
    Writer(w).send(bytes, 0, bytes.len() as u64)
}

/// All that one receive gives.
fn receive(r: &Side) -> (Received, Vec<u8>) {
    let mut sink = Vec::new();
    let received = Reader(r).receive(&mut sink, 0, 100);
    if !matches!(received, Received::Bytes(_)) {
        sink.clear();
    }
    (received, sink)
}

fn bytes(bytes: &[u8]) -> (Received, Vec<u8>) {
    (Received::Bytes(bytes.len() as u64), bytes.to_vec())
}

/// A pair whose first direction goes by SDP, after `before` went by TCP.
fn over(before: &[u8]) -> (Side, Side) {
    let (w, r) = pair();
    w.plain(before);
    assert!(Reader(&r).offer());
    assert_eq!(send(&w, b"s"), Sent::Bytes(1));
    assert_eq!(Writer(&w).phase(), Phase::Sdp);
    (w, r)
}

#[test]
fn a_stream_goes_over_and_back_whole() {
    let (w, r) = over(b"ab");
    assert_eq!(receive(&r), bytes(b"ab"));
    assert_eq!(receive(&r), bytes(b"s"));
    assert_eq!(send(&w, b"t"), Sent::Bytes(1));
    assert!(Writer(&w).go_back());
    w.plain(b"u");
    assert_eq!(receive(&r), bytes(b"t"));
    assert_eq!(receive(&r), bytes(b"u"));
    assert_eq!(receive(&r).0, Received::ByKernel);
}

#[test]
fn a_ring_says_when_it_was_filled_and_what_the_kernel_was_given_before() {
    let (w, r) = over(b"");
    let filled = |time, given| Some(Filled { time, given });
    w.given.set(7);
    assert_eq!(Reader(&r).filled(), filled(1, 0));
    assert_eq!(send(&w, b"t"), Sent::Bytes(1));
    assert_eq!(Reader(&r).filled(), filled(1, 0), "it was not empty");
    assert_eq!(receive(&r), bytes(b"st"));
    assert_eq!(send(&w, b"u"), Sent::Bytes(1));
    assert_eq!(Reader(&r).filled(), filled(2, 7));
    assert!(Writer(&w).go_back());
    assert_eq!(Reader(&r).filled(), None);
}

#[test]
fn a_call_that_waited_for_the_lock_does_not_read_the_ring_of_one_that_gave_up() {
    let (w, r) = over(b"");
    assert!(Writer(&w).go_back());
    let other = r.clone();
    r.before(Call::Exchange(Word::Own(Own::ReceiveLock)), move || {
        assert_eq!(Reader(&other).give_up(), Ok(true));
    });
    assert_eq!(receive(&r).0, Received::ByKernel);
}

#[test]
fn the_copy_taken_for_the_stream_is_not_read_again() {
    let (w, r) = pair();
    w.plain(b"ab");
    assert!(Reader(&r).offer());
    let writer = w.clone();
    r.before(Call::Receive, move || {
        assert_eq!(send(&writer, b"cd"), Sent::Bytes(2));
        assert!(Writer(&writer).go_back());
        writer.plain(b"e");
    });
    assert_eq!(receive(&r), bytes(b"abcde"));
    assert_eq!(receive(&r).0, Received::Nothing);
}

#[test]
fn who_reads_beside_others_reads_no_ring_and_passes_over_nothing_that_they_took() {
    let (w, r) = over(b"");
    assert_eq!(send(&w, b"tuvwxyz"), Sent::Bytes(7));
    let mut sink = Vec::new();
    assert_eq!(Reader(&r).receive(&mut sink, 0, 3), Received::Bytes(3));
    // W is late, and a program without the library goes on
    assert_eq!(Reader(&r).give_up(), Ok(false));
    Reader(&r).hand_on();
    assert_eq!(Reader(&r).phase(), Phase::Sdp);
    assert_eq!(receive(&r).0, Received::Nothing);
    assert_eq!(Reader(&r).finds(), Finds::Nothing);
    assert!(Writer(&w).go_back());
    w.plain(b"!");
    assert_eq!(r.receive(&mut sink, 0, 3), Ok(3));
    assert_eq!(sink, b"vwx");
    assert_eq!(Reader(&r).finds(), Finds::ByKernel);
    assert_eq!(receive(&r), bytes(b"yz!"));
    assert_eq!(receive(&r).0, Received::ByKernel);
}

#[test]
fn what_was_read_before_others_came_is_passed_over() {
    let (w, r) = over(b"a");
    assert_eq!(send(&w, b"tu"), Sent::Bytes(2));
    assert_eq!(receive(&r), bytes(b"a"));
    let reader = r.clone();
    // W has looked at what was read before this side reads on
    w.before(
        Call::Load(Word::Shared(Way::Out, Shared::CopyFrom)),
        move || {
            assert_eq!(receive(&reader), bytes(b"stu"));
            assert_eq!(Reader(&reader).give_up(), Ok(false));
            Reader(&reader).hand_on();
            assert_eq!(Reader(&reader).phase(), Phase::Back);
        },
    );
    assert!(Writer(&w).go_back());
    w.plain(b"v");
    assert_eq!(Reader(&r).finds(), Finds::Copy);
    assert_eq!(receive(&r), bytes(b"v"));
}

#[test]
fn who_ends_receiving_waits_for_a_copy_of_what_was_read() {
    let (w, r) = over(b"a");
    assert_eq!(receive(&r), bytes(b"a"));
    assert!(Reader(&r).is_past_copy());
    assert_eq!(r.recalls.get(), 0, "the ring stays as it is");
    let reader = r.clone();
    // W has looked at what was read before this side reads on
    let from = Word::Shared(Way::Out, Shared::CopyFrom);
    w.before(Call::Load(from), move || {
        assert_eq!(receive(&reader), bytes(b"s"));
        assert!(!Reader(&reader).is_past_copy());
    });
    assert!(Writer(&w).go_back());
    assert!(Reader(&r).is_past_copy());
    assert!(r.world.queues.borrow()[0].is_empty());
}

#[test]
fn beside_others_the_ring_of_the_dead_is_read_behind_what_the_kernel_has() {
    let (w, r) = over(b"abcd");
    assert_eq!(Reader(&r).give_up(), Ok(false));
    Reader(&r).hand_on();
    let mut sink = Vec::new();
    assert_eq!(r.receive(&mut sink, 0, 2), Ok(2));
    assert_eq!(receive(&r), bytes(b"cd"));
    assert_eq!(receive(&r).0, Received::Nothing);
    w.end();
    Service(&r).look(PEER_ENDED);
    let mut peeked = Vec::new();
    assert_eq!(Reader(&r).peek(&mut peeked, 9), Some(Received::Bytes(1)));
    assert_eq!(receive(&r), bytes(b"s"));
    assert_eq!(receive(&r), bytes(b""));
}

#[test]
fn an_end_behind_a_change_is_not_the_streams() {
    let (w, r) = pair();
    assert!(Reader(&r).offer());
    let writer = w.clone();
    // W dies with a byte in the ring
    r.before(Call::Receive, move || {
        assert_eq!(send(&writer, b"c"), Sent::Bytes(1));
        writer.end();
    });
    assert_eq!(receive(&r), bytes(b"c"));
}

#[test]
fn what_w_wrote_before_it_died_comes_before_the_end() {
    let (w, r) = over(b"");
    assert_eq!(receive(&r), bytes(b"s"));
    let (writer, reader) = (w.clone(), r.clone());
    r.before(Call::Load(Word::Own(Own::Ended)), move || {
        assert_eq!(send(&writer, b"c"), Sent::Bytes(1));
        writer.end();
        reader.set(Word::Own(Own::Ended), PEER_ENDED);
    });
    assert_eq!(receive(&r), bytes(b"c"));
    assert_eq!(receive(&r), bytes(b""));
}

#[test]
fn what_a_dead_call_took_from_the_kernel_is_counted() {
    let (w, r) = over(b"abcd");
    let mut lost = Vec::new();
    assert_eq!(r.receive(&mut lost, 0, 3), Ok(3));
    r.store(Word::Own(Own::ReceiveLock), DEAD);
    assert_eq!(receive(&r), bytes(b"d"));
    assert_eq!(receive(&r), bytes(b"s"));
    drop(w);
}

#[test]
fn who_finds_the_ring_full_or_empty_wakes_for_one_that_died() {
    let (w, r) = over(b"");
    while send(&w, b"x") == Sent::Bytes(1) {}
    Reader(&r).want_bytes(FUTEX);
    assert_eq!(send(&w, b"x"), Sent::NoRoom);
    assert_eq!(w.word(Word::Shared(Way::Out, Shared::WantBytes)) % 8, 0);
    assert_eq!(w.wakes.borrow().len(), 1);
    assert_eq!(receive(&r).0, Received::Bytes(RING));
    // the bytes are read, and who read them has died
    Writer(&w).want_room(BOX);
    assert_eq!(receive(&r).0, Received::Nothing);
    assert_eq!(r.rings.get(), 1);
}

#[test]
fn who_dies_while_it_wakes_leaves_the_waking_to_the_next() {
    let (w, r) = over(b"");
    assert_eq!(receive(&r), bytes(b"s"));
    Reader(&r).want_bytes(FUTEX);
    // as a writer leaves it that dies behind its swap
    w.swap(Word::Shared(Way::Out, Shared::WantBytes), 4);
    assert_eq!(send(&w, b"x"), Sent::Bytes(1));
    assert_eq!(w.wakes.borrow().len(), 1);
    assert_eq!(r.word(WANT_BYTES) % 8, 0);
}

#[test]
fn who_is_woken_before_it_sleeps_does_not_sleep_on_the_want_of_another() {
    let (w, r) = over(b"");
    assert_eq!(receive(&r), bytes(b"s"));
    let wants = Reader(&r).want_bytes(FUTEX);
    assert_eq!(send(&w, b"x"), Sent::Bytes(1));
    // another thread of R takes it, and wants more
    assert_eq!(receive(&r), bytes(b"x"));
    let others = Reader(&r).want_bytes(FUTEX);
    assert_ne!(wants as u32, others as u32);
}

#[test]
fn going_back_wakes_this_sides_writers_and_waiters() {
    let (w, _r) = over(b"");
    assert_eq!(Writer(&w).want_room(BOX), BOX);
    assert_eq!(Writer(&w).want_room(FUTEX), BOX | FUTEX);
    assert!(Writer(&w).go_back());
    assert_eq!(*w.wakes.borrow(), [WANT_ROOM]);
    assert_eq!(w.own_rings.get(), 1);
}

#[test]
fn a_ring_that_wraps_is_copied_in_one_call() {
    let (w, r) = over(b"");
    assert_eq!(send(&w, &[1; 9]), Sent::Bytes(9));
    let mut sink = Vec::new();
    assert_eq!(Reader(&r).receive(&mut sink, 0, 8), Received::Bytes(8));
    assert_eq!(send(&w, &[2; 12]), Sent::Bytes(12));
    assert!(Writer(&w).go_back());
    assert_eq!(w.kernel_sends.get(), 1);
    assert_eq!(w.world.queues.borrow()[0].len(), 14);
}

#[test]
fn the_queue_is_asked_only_when_nobody_sends() {
    let (w, r) = pair();
    assert_eq!(send(&w, b"a"), Sent::ByKernel);
    assert!(Reader(&r).offer());
    assert_eq!(send(&w, b"b"), Sent::ByKernel);
    assert_eq!(w.queue_looks.get(), 0);
}

#[test]
fn a_writer_is_woken_when_a_third_of_the_ring_is_free() {
    let (w, r) = over(b"");
    while send(&w, b"x") == Sent::Bytes(1) {}
    Writer(&w).want_room(FUTEX);
    let read = |bytes| Reader(&r).receive(&mut Vec::new(), 0, bytes);
    assert_eq!(read(5), Received::Bytes(5));
    assert!(!Writer(&w).has_room());
    assert!(r.wakes.borrow().is_empty());
    assert_eq!(read(1), Received::Bytes(1));
    assert!(Writer(&w).has_room());
    assert_eq!(r.wakes.borrow().len(), 1);
}

#[test]
fn a_ring_that_stays_full_goes_back_to_tcp() {
    let (w, r) = over(b"");
    while send(&w, b"x") == Sent::Bytes(1) {}
    assert_eq!(Writer(&w).tire(7, 100), Some(100));
    assert_eq!(Writer(&w).tire(70, 100), Some(37));
    // R reads, and so is given as long again
    assert_eq!(
        Reader(&r).receive(&mut Vec::new(), 0, 1),
        Received::Bytes(1)
    );
    assert_eq!(send(&w, b"x"), Sent::Bytes(1));
    assert_eq!(send(&w, b"x"), Sent::NoRoom);
    assert_eq!(Writer(&w).tire(107, 100), Some(100));
    assert_eq!(Writer(&w).tire(206, 100), Some(1));
    assert_eq!(Writer(&w).phase(), Phase::Sdp);
    assert_eq!(Writer(&w).tire(207, 100), None);
    assert_eq!(Writer(&w).phase(), Phase::Done);
    assert_eq!(send(&w, b"x"), Sent::ByKernel);
}

#[test]
fn going_back_from_tcp_is_for_good() {
    let (w, r) = pair();
    assert!(Writer(&w).go_back());
    assert!(Reader(&r).offer());
    assert_eq!(send(&w, b"a"), Sent::ByKernel);
    w.plain(b"a");
    assert_eq!(Writer(&w).phase(), Phase::Done);
    assert_eq!(receive(&r).0, Received::ByKernel);
}

#[test]
fn nothing_is_offered_for_one_that_gave_up() {
    let (w, r) = pair();
    assert!(Reader(&r).offer());
    assert_eq!(Reader(&r).give_up(), Ok(true));
    assert!(!Reader(&r).offer());
    assert_eq!(send(&w, b"a"), Sent::ByKernel);
    Reader(&r).leave_kernel();
    assert!(Reader(&r).offer());
}

#[test]
fn giving_up_recalls_and_leaves_unread_tcp_where_it_is() {
    let (w, r) = over(b"ab");
    assert_eq!(Reader(&r).give_up(), Ok(false));
    assert_eq!(r.recalls.get(), 1);
    Service(&w).look(0);
    assert_eq!(Reader(&r).give_up(), Ok(true));
    assert_eq!(w.world.queues.borrow()[0], b"abs");
}

#[test]
fn giving_up_waits_for_the_copy_and_not_for_the_dead() {
    let (w, r) = over(b"");
    assert_eq!(receive(&r), bytes(b"s"));
    assert_eq!(send(&w, b"t"), Sent::Bytes(1));
    assert!(Writer(&w).go_back());
    assert_eq!(receive(&r), bytes(b"t"));
    let copy = std::mem::take(&mut w.world.queues.borrow_mut()[0]);
    assert_eq!(Reader(&r).give_up(), Ok(false));
    w.world.queues.borrow_mut()[0] = copy;
    assert_eq!(Reader(&r).give_up(), Ok(true));
    assert!(w.world.queues.borrow()[0].is_empty());
    let (w, r) = over(b"");
    w.end();
    Service(&r).look(PEER_ENDED);
    assert_eq!(Reader(&r).give_up(), Ok(true));
    assert_eq!(receive(&r), bytes(b"s"));
}

#[test]
fn behind_the_peers_end_nothing_goes_by_the_ring() {
    let (w, r) = over(b"");
    r.end();
    Service(&w).look(PEER_ENDED);
    assert_eq!(Writer(&w).phase(), Phase::Done);
}

#[test]
fn a_close_waits_for_a_peer_that_goes_back_only() {
    let (w, r) = over(b"");
    assert_eq!(receive(&r), bytes(b"s"));
    assert_eq!(Service(&r).may_close(), Closing::Close);
    assert_eq!(r.word(Word::Own(Own::ReceiveLock)), 0);
    // and the peer is not asked for anything
    assert_eq!(r.word(Word::Shared(Way::In, Shared::Recall)), 0);
    let (w2, r2) = over(b"");
    w2.store(Word::Shared(Way::Out, Shared::Phase), Phase::Back as u64);
    assert_eq!(Service(&r2).may_close(), Closing::Wait);
    drop(w);
}

#[test]
fn a_close_leaves_what_was_unread_before_the_peer_went_back() {
    // W goes back between two looks of the close
    let (w, r) = over(b"");
    let other = w.clone();
    r.before(Call::Load(Word::Shared(Way::In, Shared::Head)), move || {
        assert!(Writer(&other).go_back());
    });
    assert_eq!(Service(&r).may_close(), Closing::Reset);
    // W has gone back before it, and the copy is on its way
    let (w, r) = over(b"");
    assert!(Writer(&w).go_back());
    w.world.queues.borrow_mut()[0].clear();
    assert_eq!(Service(&r).may_close(), Closing::Reset);
    // all was read, of the ring or of the copy
    for from_ring in [true, false] {
        let (w, r) = over(b"");
        if from_ring {
            assert_eq!(receive(&r), bytes(b"s"));
        }
        assert!(Writer(&w).go_back());
        if !from_ring {
            assert_eq!(receive(&r), bytes(b"s"));
        }
        assert_eq!(Service(&r).may_close(), Closing::Close);
    }
}

#[test]
fn an_error_that_a_copy_has_met_is_told_at_the_end() {
    // the copy's lock is free when it has kept the error
    let (w, r) = over(b"");
    w.world.refuses.set(Some(Errno(104)));
    r.end();
    let service = w.clone();
    w.before(Call::Exchange(Word::Own(Own::SendLock)), move || {
        assert!(Writer(&service).go_back())
    });
    w.store(Word::Own(Own::ReceiveGate), 1);
    assert_eq!(receive(&w).0, Received::Refused(Errno(104)));
    // by the kernel alone as well
    let (w, r) = over(b"");
    w.world.refuses.set(Some(Errno(104)));
    r.end();
    assert_eq!(receive(&w).0, Received::ByKernel);
    Reader(&w).leave_kernel();
    assert!(Writer(&w).go_back());
    assert_eq!(Reader(&w).error_at_end(), Some(Errno(104)));
    assert_eq!(Reader(&w).error_at_end(), None);
}

#[test]
fn a_peer_that_died_with_bytes_unread_is_told_at_an_end_that_comes_before_anybody_has_gone_back() {
    let reset = Received::Refused(Errno(104));
    let (w, r) = over(b"");
    r.end();
    w.store(Word::Own(Own::ReceiveGate), 1);
    assert_eq!(receive(&w).0, reset);
    assert_eq!(receive(&w).0, Received::Bytes(0), "it is told once");
    // by the kernel alone as well
    let (w, r) = over(b"");
    r.end();
    assert_eq!(receive(&w).0, Received::ByKernel);
    Reader(&w).leave_kernel();
    assert_eq!(Reader(&w).error_at_end(), Some(Errno(104)));
    assert_eq!(Reader(&w).error_at_end(), None);
    // it has read all; its program has ended its stream, and goes on reading; others have its
    // socket
    for why in ["read", "ended", "recalled"] {
        let (w, r) = over(b"");
        match why {
            "read" => assert_eq!(receive(&r), bytes(b"s")),
            "ended" => assert!(Writer(&r).end()),
            _ => r.store(Word::Shared(Way::In, Shared::Recall), 1),
        }
        r.end();
        w.store(Word::Own(Own::ReceiveGate), 1);
        assert_eq!(receive(&w).0, Received::Bytes(0), "{why}");
    }
}

#[test]
fn an_error_that_a_look_has_met_is_the_next_calls() {
    let (w, r) = over(b"");
    assert!(Writer(&w).go_back());
    assert_eq!(receive(&r), bytes(b"s"));
    assert_eq!(Reader(&r).finds(), Finds::Copy);
    r.world.refuses.set(Some(Errno(104)));
    Reader(&r).pass_over_copy();
    assert!(Writer(&r).has_error());
    assert_eq!(Writer(&r).take_error(), Some(Errno(104)));
    // a call that had bytes before it
    Writer(&r).put_error_back(Errno(104));
    w.end();
    assert_eq!(receive(&r).0, Received::Refused(Errno(104)));
    // an error that the kernel alone has told
    let (_, r) = over(b"");
    Writer(&r).put_error_back(Errno(104));
    assert_eq!(Writer(&r).take_error(), Some(Errno(104)));
    assert_eq!(Writer(&r).take_error(), None);
}

#[test]
fn a_handler_that_interrupts_its_own_send_is_told_to_come_again() {
    let (w, r) = over(b"");
    let handler = w.clone();
    w.before(
        Call::Load(Word::Shared(Way::Out, Shared::Tail)),
        move || {
            assert_eq!(send(&handler, b"h"), Sent::Busy);
            assert!(Writer(&handler).is_interrupted());
            assert!(!Writer(&handler).go_back());
            assert_eq!(Service(&handler).may_close(), Closing::Wait);
            // the other way is not in the middle of anything
            assert_eq!(receive(&handler).0, Received::ByKernel);
        },
    );
    assert_eq!(send(&w, b"ab"), Sent::Bytes(2));
    assert!(!Writer(&w).is_interrupted());
    assert_eq!(receive(&r), bytes(b"sab"));
}

#[test]
fn a_handler_does_not_send_by_the_kernel_while_its_thread_changes_over() {
    let (w, r) = pair();
    assert!(Reader(&r).offer());
    let handler = w.clone();
    w.before(
        Call::Exchange(Word::Shared(Way::Out, Shared::Phase)),
        move || {
            assert_eq!(send(&handler, b"h"), Sent::Busy);
        },
    );
    assert_eq!(send(&w, b"a"), Sent::Bytes(1));
    assert_eq!(receive(&r), bytes(b"a"));
}

#[test]
fn a_handler_that_interrupts_its_own_receive_is_told_to_come_again() {
    let (w, r) = over(b"");
    let handler = r.clone();
    r.before(Call::Load(Word::Shared(Way::In, Shared::Head)), move || {
        let busy = Received::Refused(Errno(11));
        assert_eq!(receive(&handler).0, busy);
        assert_eq!(Reader(&handler).give_up(), Err(busy));
        assert!(!Reader(&handler).offer());
    });
    assert_eq!(receive(&r), bytes(b"s"));
    drop(w);
}

#[test]
fn an_offer_that_is_not_taken_up_is_withdrawn_for_a_while() {
    let (w, r) = pair();
    assert!(Reader(&r).offer());
    for round in 0..8 {
        assert_eq!(Reader(&r).phase(), Phase::Ready, "{round}");
        assert_eq!(receive(&r).0, Received::Nothing);
        assert_eq!(receive(&r).0, Received::Nothing);
        w.plain(b"a");
        if round < 7 {
            assert_eq!(receive(&r), bytes(b"a"));
        }
    }
    assert_eq!(Reader(&r).phase(), Phase::Tcp);
    assert_eq!(receive(&r).0, Received::ByKernel);
    Reader(&r).leave_kernel();
    assert_eq!(send(&w, b"b"), Sent::ByKernel);
    Writer(&w).leave_kernel();
    let refused = (0..1_000).take_while(|_| !Reader(&r).offer()).count();
    assert_eq!(refused, 256);
    assert_eq!(send(&w, b"c"), Sent::Bytes(1));
    assert_eq!(receive(&r), bytes(b"a"));
    assert_eq!(receive(&r), bytes(b"c"));
}

#[test]
fn a_close_with_bytes_unread_resets() {
    let (_w, r) = over(b"");
    assert_eq!(Service(&r).may_close(), Closing::Reset);
}

#[test]
fn a_sleeper_sees_no_ring_of_one_that_gave_up() {
    let (w, r) = over(b"");
    assert!(Reader(&r).has_bytes());
    assert!(Writer(&w).go_back());
    assert_eq!(Reader(&r).give_up(), Ok(true));
    assert!(!Reader(&r).has_bytes());
    assert_eq!(r.me(), ME);
}

/// All that one look ahead gives.
fn peek(r: &Side, most: u64) -> Option<(Received, Vec<u8>)> {
    let mut sink = Vec::new();
    let received = Reader(r).peek(&mut sink, most)?;
    Some((received, sink))
}

#[test]
fn a_look_ahead_spans_the_rest_in_tcp_and_the_ring() {
    let (w, r) = over(b"ab");
    assert_eq!(send(&w, b"tuv"), Sent::Bytes(3));
    assert_eq!(peek(&r, 1), Some(bytes(b"a")));
    assert_eq!(peek(&r, 2), Some(bytes(b"ab")));
    assert_eq!(peek(&r, 4), Some(bytes(b"abst")));
    assert_eq!(peek(&r, 100), Some(bytes(b"abstuv")));
    assert_eq!(receive(&r), bytes(b"ab"));
    assert_eq!(peek(&r, 100), Some(bytes(b"stuv")));
    assert_eq!(r.word(Word::Shared(Way::In, Shared::Tail)), 0);
    assert_eq!(receive(&r), bytes(b"stuv"));
    assert_eq!(
        peek(&r, 100).map(|(found, _)| found),
        Some(Received::Nothing)
    );
    // the ring's end and its beginning
    for text in [b"0123456789".as_slice(), b"abcdefghij"] {
        assert_eq!(send(&w, text), Sent::Bytes(10));
        assert_eq!(peek(&r, 100), Some(bytes(text)));
        assert_eq!(receive(&r), bytes(text));
    }
    w.end();
    Service(&r).look(PEER_ENDED);
    assert_eq!(peek(&r, 100), Some(bytes(b"")));
}

#[test]
fn nothing_is_looked_at_in_a_ring_whose_bytes_come_by_tcp() {
    let (w, r) = over(b"");
    assert!(Writer(&w).go_back());
    assert_eq!(peek(&r, 100), None);
    assert_eq!(Reader(&r).give_up(), Ok(true));
    assert_eq!(
        peek(&r, 100).map(|(found, _)| found),
        Some(Received::ByKernel)
    );
}
