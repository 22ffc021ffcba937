//! What a side is told of its peer's end, or of a reset.

use super::{bytes, over, receive, send};
use crate::{CONNECTION_OVER, Errno, Kernel, PEER_ENDED, Reader, Received, Sent, Service, Writer};
use ferriband_sdp_proto::change::Phase;

const RESET: Errno = Errno(104);
const PIPE: Errno = Errno(32);

#[test]
fn the_kernels_error_of_a_copy_is_the_programs_once() {
    for sends in [false, true] {
        let (w, r) = over(b"");
        assert!(Writer(&r).end());
        w.world.refuses.set(Some(RESET));
        Service(&w).look(PEER_ENDED);
        assert!(Writer(&w).has_error());
        w.world.ended[1].set(true);
        match sends {
            true => {
                assert_eq!(send(&w, b"x"), Sent::Ended);
                assert_eq!(Writer(&w).take_error(), Some(RESET));
            }
            false => assert_eq!(receive(&w).0, Received::Refused(RESET)),
        }
        assert_eq!(Writer(&w).take_error(), None);
        assert_eq!(receive(&w).0, Received::ByKernel);
    }
}

#[test]
fn what_cannot_arrive_is_not_copied() {
    let (w, _r) = over(b"");
    Service(&w).look(PEER_ENDED | CONNECTION_OVER);
    assert_eq!(w.kernel_sends.get(), 0);
    assert_eq!(Writer(&w).phase(), Phase::Done);
}

#[test]
fn a_peer_that_dies_with_bytes_unread_has_reset_the_connection() {
    let (w, r) = over(b"");
    // the other direction, which this side reads to the end
    assert!(Reader(&w).offer());
    assert_eq!(send(&r, b"t"), Sent::Bytes(1));
    r.end();
    Service(&w).look(PEER_ENDED);
    assert_eq!(receive(&w), bytes(b"t"));
    assert_eq!(receive(&w).0, Received::Refused(RESET));
    assert_eq!(receive(&w), bytes(b""));
}

#[test]
fn who_reads_the_copy_without_this_library_and_dies_has_reset_nothing() {
    for arrives in [true, false] {
        let (w, r) = over(b"");
        // the other direction, which this side reads to the end
        assert!(Reader(&w).offer());
        assert_eq!(send(&r, b"t"), Sent::Bytes(1));
        assert_eq!(Reader(&r).give_up(), Ok(false));
        Reader(&r).hand_on();
        assert!(Writer(&w).go_back());
        match arrives {
            true => assert_eq!(r.receive(&mut Vec::new(), 0, 9), Ok(1)),
            // it had died before: its kernel acknowledges nothing
            false => w.unacknowledged.set(1),
        }
        r.end();
        Service(&w).look(PEER_ENDED);
        assert_eq!(receive(&w), bytes(b"t"));
        match arrives {
            true => assert_eq!(receive(&w), bytes(b"")),
            false => assert_eq!(receive(&w).0, Received::Refused(RESET)),
        }
    }
}

#[test]
fn a_send_is_told_once_that_the_peer_has_died_with_bytes_unread() {
    // this side goes back when it hears of that, or just before
    for ended in [PEER_ENDED, 0] {
        let (w, r) = over(b"");
        r.end();
        w.error.set(Some(PIPE));
        match ended {
            0 => assert!(Writer(&w).go_back()),
            ended => Service(&w).look(ended),
        }
        assert_eq!(w.error.get(), None, "the kernel tells no more");
        assert!(Writer(&w).has_error());
        assert_eq!(send(&w, b"t"), Sent::Ended);
        assert_eq!(Writer(&w).take_error(), Some(RESET));
        assert_eq!(Writer(&w).take_error(), None);
        assert_eq!(send(&w, b"t"), Sent::ByKernel);
    }
}

#[test]
fn a_copy_that_the_kernel_refuses_tells_of_a_death() {
    let (w, _r) = over(b"");
    w.world.refuses.set(Some(PIPE));
    assert!(Writer(&w).go_back());
    assert_eq!(Writer(&w).take_error(), Some(RESET));
}

#[test]
fn who_has_read_all_or_has_ended_its_stream_before_has_reset_nothing() {
    for reads in [false, true] {
        let (w, r) = over(b"");
        match reads {
            true => assert_eq!(receive(&r), bytes(b"s")),
            false => assert!(Writer(&r).end()),
        }
        r.end();
        w.error.set(Some(PIPE));
        Service(&w).look(PEER_ENDED);
        assert_eq!(w.error.get(), Some(PIPE), "it stays the kernel's");
        assert_eq!(Writer(&w).take_error(), None);
        assert_eq!(send(&w, b"t"), Sent::ByKernel);
    }
}

#[test]
fn a_stream_that_was_ended_by_whoever_got_the_socket_is_no_death() {
    let (w, r) = over(b"");
    assert_eq!(Reader(&r).give_up(), Ok(false), "it is asked for");
    r.end();
    Service(&w).look(PEER_ENDED);
    assert_eq!(Writer(&w).take_error(), None);
}

#[test]
fn a_side_that_ends_what_it_receives_is_not_reset() {
    let (w, r) = over(b"");
    assert!(Reader(&w).offer());
    assert_eq!(send(&r, b"t"), Sent::Bytes(1));
    Reader(&w).shut();
    // which a receive by the kernel finds as it finds the peer's
    r.end();
    Service(&w).look(PEER_ENDED);
    assert_eq!(Reader(&w).give_up(), Ok(false), "the peer goes on");
    assert_eq!(receive(&w), bytes(b"t"));
    assert_eq!(receive(&w), bytes(b""));
}

#[test]
fn a_reset_that_the_kernel_has_told_a_send_is_told_no_receive() {
    let (w, r) = over(b"");
    assert!(Reader(&w).offer());
    assert_eq!(send(&r, b"t"), Sent::Bytes(1));
    assert!(Writer(&w).go_back());
    // the copy was unread, too
    Writer(&w).has_told_reset();
    r.end();
    Service(&w).look(PEER_ENDED);
    assert_eq!(receive(&w), bytes(b"t"));
    assert_eq!(receive(&w), bytes(b""));
}
