//! Two sides of a connection between hosts in one process and one thread: a real TCP connection,
//! and frames that arrive when a test lets them.

use super::*;
use crate::link::Link;
use crate::meet::bells::Bells;
use crate::own::Event;
use crate::record::Record;
use crate::segment::{LENGTH, Role};
use crate::tcp;
use crate::testing::soon;
use ferriband_sdp_local::{PEER_ENDED, Received, Sent, Writer};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;

/// A direction of frames.
#[derive(Default)]
struct Wire {
    bytes: RefCell<VecDeque<u8>>,
    /// Nothing arrives meanwhile.
    stopped: Cell<bool>,
    lost: Cell<bool>,
}

struct Ends {
    out: Rc<Wire>,
    into: Rc<Wire>,
}

impl Pipe for Ends {
    fn send(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        if self.out.lost.get() {
            return Err(Lost);
        }
        self.out.bytes.borrow_mut().extend(bytes);
        Ok(bytes.len())
    }

    fn receive(&mut self, to: &mut [u8]) -> Result<usize, Lost> {
        if self.into.lost.get() {
            return Err(Lost);
        }
        if self.into.stopped.get() {
            return Ok(0);
        }
        let read = self.into.bytes.borrow_mut().read(to);
        Ok(read.expect("memory"))
    }

    fn want(&mut self) -> Result<bool, Lost> {
        let wire = &self.into;
        match wire.lost.get() {
            true => Err(Lost),
            false => Ok(!wire.stopped.get() && !wire.bytes.borrow().is_empty()),
        }
    }
}

struct Side {
    socket: TcpStream,
    link: Link<'static>,
    tunnel: RefCell<Tunnel<Ends>>,
}

impl Side {
    fn call(&self) -> Call<'_, 'static> {
        self.link.on(self.socket.as_fd())
    }

    fn pump(&self) {
        self.tunnel.borrow_mut().pump(self.call());
    }

    fn offer(&self) {
        assert!(Reader(&self.call()).offer());
    }

    fn look(&self, ended: u64) -> bool {
        self.tunnel.borrow_mut().look(self.call(), ended)
    }

    /// As the service thread does it when the kernel has told of the end.
    fn end(&self) {
        self.look(PEER_ENDED);
        if self.tunnel.borrow().ends_with_tcp() {
            Service(&self.call()).look(PEER_ENDED);
        }
    }

    fn send(&self, bytes: &[u8]) {
        let part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        match Writer(&self.call()).send(&[part], 0, bytes.len() as u64) {
            Sent::Bytes(sent) => assert_eq!(sent, bytes.len() as u64),
            Sent::ByKernel => {
                (&self.socket).write_all(bytes).expect("sent");
                Writer(&self.call()).leave_kernel();
            }
            sent => panic!("{sent:?}"),
        }
    }

    /// What one receive gives. None: nothing.
    fn receive(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; 4096];
        let mut part = [libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        }];
        let received = match Reader(&self.call()).receive(&mut part, 0, 4096) {
            Received::Bytes(received) => received as usize,
            Received::Nothing => return None,
            Received::ByKernel => {
                let received = (&self.socket).read(&mut bytes).expect("received");
                Reader(&self.call()).leave_kernel();
                received
            }
            received => panic!("{received:?}"),
        };
        bytes.truncate(received);
        Some(bytes)
    }

    /// So many bytes lie in the kernel.
    fn awaits(&self, bytes: u64) {
        soon(|| rustix::io::ioctl_fionread(&self.socket) == Ok(bytes));
    }
}

fn sides() -> [Side; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let here = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
    let there = listener.accept().expect("accepted").0;
    let wires = [Rc::new(Wire::default()), Rc::new(Wire::default())];
    let side = |socket, role, out: &Rc<Wire>, into: &Rc<Wire>| {
        let segment = Arc::new(crate::own::memory(LENGTH).expect("memory"));
        let record = Box::leak(Box::new(Record::default()));
        let peer = Arc::new(Bells::new(Event::new().expect("one")));
        let own = Arc::new(Event::new().expect("one"));
        let link = Link::new(segment, 5, role, record, peer, own).expect("a slot");
        let (out, into) = (out.clone(), into.clone());
        Side {
            socket,
            link: link.far(),
            tunnel: RefCell::new(Tunnel::new(Ends { out, into })),
        }
    };
    [
        side(here, Role::Connected, &wires[0], &wires[1]),
        side(there, Role::Accepted, &wires[1], &wires[0]),
    ]
}

/// What arrives at a side.
fn wire(side: &Side) -> Rc<Wire> {
    side.tunnel.borrow().pipe().into.clone()
}

/// A pair of which the first has sent `before` by TCP, and "ring" after its change, which has not
/// been told of so far.
fn changed(before: &[u8]) -> [Side; 2] {
    let [w, r] = sides();
    w.send(before);
    r.offer();
    r.pump();
    w.pump();
    wire(&r).stopped.set(true);
    // TCP has nothing left to acknowledge
    soon(|| tcp::unacknowledged(w.socket.as_fd()) == Ok(0));
    w.send(b"ring");
    assert_eq!(Writer(&w.call()).phase(), Phase::Sdp);
    w.pump();
    [w, r]
}

/// As [`changed`], and the ring's bytes are at the other side.
fn carried(before: &[u8]) -> [Side; 2] {
    let [w, r] = changed(before);
    wire(&r).stopped.set(false);
    r.pump();
    w.pump();
    r.pump();
    [w, r]
}

#[test]
fn a_stream_goes_over_and_back_whole() {
    let [w, r] = carried(b"before ");
    assert_eq!(r.receive().as_deref(), Some(&b"before "[..]));
    assert_eq!(r.receive().as_deref(), Some(&b"ring"[..]));
    assert_eq!(r.receive(), None);
    assert!(Writer(&w.call()).go_back());
    w.send(b"after");
    // the preface, the copy, for nobody has told that it is read, and what follows
    r.awaits(PREFACE_BYTES + 4 + 5);
    assert_eq!(r.receive(), None, "the preface is no byte of the stream");
    assert!(!r.look(0));
    w.socket.shutdown(Shutdown::Write).expect("shut");
    assert_eq!(r.receive().as_deref(), Some(&b"after"[..]));
    assert_eq!(r.receive().as_deref(), Some(&b""[..]));
}

#[test]
fn a_change_that_comes_behind_the_end_leaves_the_stream_to_tcp() {
    let [w, r] = changed(b"before ");
    assert!(Writer(&w.call()).go_back());
    w.socket.shutdown(Shutdown::Write).expect("shut");
    r.awaits(7 + 4);
    r.end();
    wire(&r).stopped.set(false);
    r.pump();
    // the thread that looks after TCP has not come to it
    assert_eq!(r.receive().as_deref(), Some(&b"before ring"[..]));
    assert_eq!(r.receive().as_deref(), Some(&b""[..]));
}

#[test]
fn an_end_behind_bytes_that_are_not_read_is_looked_at_again() {
    for ended in [PEER_ENDED, PEER_ENDED | CONNECTION_OVER] {
        let [w, r] = carried(b"before ");
        assert!(Writer(&w.call()).go_back());
        w.socket.shutdown(Shutdown::Write).expect("shut");
        r.awaits(7 + PREFACE_BYTES + 4);
        assert!(r.look(ended), "its reader does not tell");
        assert!(!r.tunnel.borrow().ends_with_tcp(), "an end is not told");
        assert_eq!(r.receive().as_deref(), Some(&b"before "[..]));
        assert_eq!(r.receive().as_deref(), Some(&b"ring"[..]));
        assert_eq!(r.receive(), None);
        r.end();
        assert_eq!(r.receive().as_deref(), Some(&b""[..]));
    }
}

#[test]
fn an_end_of_a_process_that_died_is_a_reset_behind_what_came() {
    let [w, r] = carried(b"before ");
    // nothing of the ring goes by TCP
    w.socket.shutdown(Shutdown::Write).expect("shut");
    soon(|| tcp::info(r.socket.as_fd()).is_ok_and(|info| info.peer_ended));
    assert!(r.look(PEER_ENDED), "its reader does not tell");
    assert_eq!(r.receive().as_deref(), Some(&b"before "[..]));
    r.end();
    assert_eq!(r.receive().as_deref(), Some(&b"ring"[..]));
    let reset = ferriband_sdp_local::Errno(libc::ECONNRESET);
    let mut nowhere: [libc::iovec; 0] = [];
    let received = Reader(&r.call()).receive(&mut nowhere[..], 0, 0);
    assert_eq!(received, Received::Refused(reset));
}

#[test]
fn a_transport_that_fails_at_any_step_leaves_the_stream_to_tcp() {
    for steps in 0..8 {
        let [w, r] = sides();
        r.offer();
        for step in 0..steps {
            match step {
                2 => w.send(b"ring"),
                _ if step % 2 == 0 => r.pump(),
                _ => w.pump(),
            }
        }
        let has_sent = steps > 2;
        for wire in [wire(&w), wire(&r)] {
            wire.lost.set(true);
        }
        w.pump();
        r.pump();
        if !has_sent {
            w.send(b"ring");
        }
        w.send(b" and on");
        assert_eq!(Writer(&w.call()).phase(), Phase::Done, "{steps}");
        w.socket.shutdown(Shutdown::Write).expect("shut");
        soon(|| tcp::info(r.socket.as_fd()).is_ok_and(|info| info.peer_ended));
        let mut all = Vec::new();
        for _ in 0..10 {
            r.end();
            match r.receive() {
                Some(bytes) if bytes.is_empty() => break,
                Some(bytes) => all.extend(bytes),
                None => {}
            }
        }
        assert_eq!(String::from_utf8_lossy(&all), "ring and on", "{steps}");
    }
}

#[test]
fn a_window_that_is_read_between_two_looks_is_told() {
    let [w, r] = carried(b"");
    assert_eq!(r.receive().as_deref(), Some(&b"ring"[..]));
    for _ in 0..6 {
        w.send(&[7; 4000]);
    }
    w.pump();
    r.pump();
    // what the thread has told is behind it, and it has not said that it wants to be told
    r.call().store(Word::Shared(Way::In, Shared::WantRoom), 0);
    while r.receive().is_some() {}
    assert!(
        r.tunnel.borrow_mut().want(r.call()),
        "there is a tail to tell"
    );
}
