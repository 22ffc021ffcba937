//! Both sides in one process, or one in a child: what the entries of the preloaded library do.

use super::*;
use crate::ready;
use crate::testing::{Fork, alone, child, join, soon};
use ferriband_sdp_local::{Reader, Writer};
use ferriband_sdp_proto::change::Phase;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::IntoRawFd;
use std::thread;

fn process() -> &'static Process {
    Process::get().expect("memory")
}

/// A descriptor of the program's.
#[derive(Clone, Copy)]
struct Number(i32);

impl Number {
    fn listener() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let number = listener.into_raw_fd();
        process().made(number);
        process().listening(number);
        (Self(number), address)
    }

    fn connect(to: SocketAddr) -> Self {
        let number = TcpStream::connect(to).expect("connected").into_raw_fd();
        process().made(number);
        process().connected(number);
        Self(number)
    }

    fn accept(self) -> Self {
        let accepted = rustix::net::accept(socket(self.0)).expect("one");
        let number = accepted.into_raw_fd();
        process().accepted(self.0, number);
        Self(number)
    }

    fn ended(begun: Begun, by_kernel: impl FnOnce() -> rustix::io::Result<usize>) -> usize {
        match begun {
            Begun::Plain => by_kernel().expect("moved"),
            Begun::Kernel(ticket) => {
                let moved = by_kernel();
                ticket.end(moved.map_or(-1, usize::cast_signed));
                moved.expect("moved")
            }
            Begun::Done(bytes) => bytes,
            Begun::Failed(errno) => panic!("errno {errno}"),
        }
    }

    fn send(self, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let left = &bytes[done..];
            let part = libc::iovec {
                iov_base: left.as_ptr().cast_mut().cast(),
                iov_len: left.len(),
            };
            // SAFETY: a slice.
            let begun = unsafe { process().send(self.0, &[part], 0) };
            done += Self::ended(begun, || rustix::io::write(socket(self.0), left));
        }
    }

    /// 0 at the end.
    fn receive(self, into: &mut [u8]) -> usize {
        let part = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        // SAFETY: a slice that is this function's own meanwhile.
        let begun = unsafe { process().receive(self.0, &mut [part], 0) };
        Self::ended(begun, || rustix::io::read(socket(self.0), into))
    }

    fn receive_all(self, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            let more = self.receive(&mut into[done..]);
            assert_ne!(more, 0, "the stream ends after {done} bytes");
            done += more;
        }
    }

    fn echo(self) {
        let mut bytes = [0; 4096];
        loop {
            match self.receive(&mut bytes) {
                0 => return self.close(),
                received => self.send(&bytes[..received]),
            }
        }
    }

    fn exchange(self, round: usize) {
        let sent = vec![round as u8; 1 + round * 37 % 3000];
        self.send(&sent);
        let mut received = vec![0; sent.len()];
        self.receive_all(&mut received);
        assert!(received == sent, "round {round}");
    }

    /// Exchanges until both directions are carried by the ring.
    fn until_carried(self) {
        let mut round = 0;
        soon_or(|| {
            round += 1;
            self.exchange(round);
            self.phases() == Some([Phase::Sdp; 2])
        });
    }

    fn phases(self) -> Option<[Phase; 2]> {
        let pin = process().pin(self.0)?;
        let call = pin.link()?.on(socket(self.0));
        Some([Writer(&call).phase(), Reader(&call).phase()])
    }

    fn close(self) {
        assert_eq!(process().close(self.0), Closing::ByKernel);
        // SAFETY: a number of this test's.
        unsafe { rustix::io::close(self.0) };
    }
}

/// As [`soon`], for what changes something.
fn soon_or(mut what: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !what() {
        assert!(std::time::Instant::now() < until, "it does not come");
    }
}

#[test]
fn a_blocking_pair_is_carried_and_comes_back() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    let other = thread::spawn(move || there.echo());
    here.until_carried();
    for round in 0..500 {
        here.exchange(round);
    }
    process().only_by_kernel(here.0);
    assert_eq!(here.phases(), Some([Phase::Done; 2]));
    for round in 0..100 {
        here.exchange(round);
    }
    here.close();
    other.join().expect("echoed");
    listener.close();
}

#[test]
fn what_was_sent_before_a_close_arrives_and_then_the_end() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    for _ in 0..20 {
        let here = Number::connect(address);
        let there = listener.accept();
        let other = thread::spawn(move || {
            let mut bytes = [0; 4096];
            let mut sum = 0;
            loop {
                let received = there.receive(&mut bytes);
                if received == 0 {
                    there.close();
                    return sum;
                }
                sum += received;
                // answers, but not to the last
                if sum < 1000 {
                    there.send(&bytes[..received]);
                }
            }
        });
        let mut sum = 0;
        while here.phases() != Some([Phase::Sdp; 2]) && sum < 900 {
            here.send(&[1; 9]);
            here.receive_all(&mut [0; 9]);
            sum += 9;
            thread::sleep(std::time::Duration::from_micros(100));
        }
        let last = vec![2; 50_000];
        here.send(&last);
        here.close();
        assert_eq!(other.join().expect("read"), sum + last.len());
    }
    listener.close();
}

#[test]
fn a_child_serves_what_its_parent_has_accepted() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    let served = child(Fork::Called, || {
        listener.close();
        here.close();
        there.echo();
    });
    there.close();
    here.until_carried();
    for round in 0..100 {
        here.exchange(round);
    }
    here.close();
    join(served);
    listener.close();
}

#[test]
fn numbers_of_a_carried_connection_come_and_go() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    let other = thread::spawn(move || there.echo());
    here.until_carried();
    let second = rustix::io::fcntl_dupfd_cloexec(socket(here.0), 0).expect("a number");
    let second = Number(second.into_raw_fd());
    process().duplicated(here.0, second.0);
    here.close();
    for round in 0..100 {
        second.exchange(round);
    }
    assert_eq!(second.phases(), Some([Phase::Sdp; 2]));
    // the service knows it by its other number
    process().only_by_kernel(second.0);
    second.exchange(1);
    second.close();
    other.join().expect("echoed");
    listener.close();
}

#[test]
fn slots_come_back_when_both_sides_have_closed() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let before = process().served().carried_count();
    for _ in 0..5 {
        let here = Number::connect(address);
        let there = listener.accept();
        let other = thread::spawn(move || there.echo());
        here.until_carried();
        here.close();
        other.join().expect("echoed");
    }
    soon(|| process().served().carried_count() == before);
    listener.close();
}

#[test]
fn a_side_that_only_receives_asks_as_well() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    let mut bytes = [0; 4096];
    soon_or(|| {
        there.send(&[7; 4096]);
        here.receive_all(&mut bytes);
        bytes == [7; 4096] && here.phases().is_some_and(|[_, read]| read == Phase::Sdp)
    });
    here.close();
    there.close();
    listener.close();
}

#[test]
fn a_peer_that_is_stopped_holds_up_no_call_that_need_not_wait() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    let served = child(Fork::Called, || {
        listener.close();
        here.close();
        there.echo();
    });
    there.close();
    here.until_carried();
    signal(served, libc::SIGSTOP);
    let begun = std::time::Instant::now();
    process().only_by_kernel(here.0);
    process().sends_by_kernel(here.0);
    for _ in 0..100 {
        let peeks = process().receives_by_kernel(here.0, libc::MSG_DONTWAIT);
        assert_eq!(peeks, Err(libc::EAGAIN));
    }
    assert!(begun.elapsed() < std::time::Duration::from_secs(2));
    here.send(&[3; 100]);
    signal(served, libc::SIGCONT);
    let mut bytes = [0; 100];
    here.receive_all(&mut bytes);
    assert_eq!(bytes, [3; 100]);
    assert_eq!(process().receives_by_kernel(here.0, 0), Ok(()));
    assert_eq!(here.phases(), Some([Phase::Done; 2]));
    here.exchange(1);
    here.close();
    join(served);
    listener.close();
}

#[test]
fn a_peer_that_computes_goes_back_though_its_epoll_instance_is_told() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    let exchange = |bytes: &mut [u8]| {
        here.send(bytes);
        there.receive_all(bytes);
        there.send(bytes);
        here.receive_all(bytes);
    };
    soon_or(|| {
        exchange(&mut [1; 10]);
        here.phases() == Some([Phase::Sdp; 2])
    });
    let instance = ready::create(libc::EPOLL_CLOEXEC).expect("an instance");
    let event = ready::Event {
        events: (libc::EPOLLIN | libc::EPOLLET) as u32,
        data: 0,
    };
    ready::ctl(instance, libc::EPOLL_CTL_ADD, there.0, Some(event)).expect("added");
    // nobody waits in the instance
    process().only_by_kernel(here.0);
    assert_eq!(here.phases(), Some([Phase::Done; 2]));
    exchange(&mut [2; 10]);
    process().close(instance);
    // SAFETY: a number of this test's.
    unsafe { rustix::io::close(instance) };
    here.close();
    there.close();
    listener.close();
}

#[test]
fn what_a_childs_program_may_use_stays_tcp_in_its_parent() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    rustix::io::fcntl_setfd(socket(here.0), rustix::io::FdFlags::empty()).expect("open");
    let executes = child(Fork::Called, || process().before_exec());
    join(executes);
    let other = thread::spawn(move || there.echo());
    for round in 0..300 {
        here.exchange(round);
        thread::sleep(std::time::Duration::from_micros(300));
    }
    let phases = here.phases().unwrap_or([Phase::Tcp; 2]);
    assert!(!phases.contains(&Phase::Sdp), "{phases:?}");
    here.close();
    other.join().expect("echoed");
    listener.close();
}

#[test]
fn nothing_is_sent_after_an_end_though_the_connection_becomes_worth_it() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    process().shutdown(here.0, libc::SHUT_WR);
    rustix::net::shutdown(socket(here.0), rustix::net::Shutdown::Write).expect("connected");
    let mut bytes = [0; 4096];
    let part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: 1,
    };
    for _ in 0..300 {
        there.send(&[1; 4096]);
        here.receive_all(&mut bytes);
        // SAFETY: memory of this test's.
        match unsafe { process().send(here.0, &[part], libc::MSG_NOSIGNAL) } {
            Begun::Kernel(ticket) => ticket.end(-1),
            Begun::Failed(errno) => assert_eq!(errno, libc::EPIPE),
            begun => panic!("{begun:?}"),
        }
        thread::sleep(std::time::Duration::from_micros(300));
    }
    here.close();
    there.close();
    listener.close();
}

#[test]
fn a_shutdown_waits_for_nobody_and_what_was_sent_arrives() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    let served = child(Fork::Called, || {
        listener.close();
        here.close();
        there.echo();
    });
    there.close();
    here.until_carried();
    signal(served, libc::SIGSTOP);
    process().shutdown(here.0, libc::SHUT_RDWR);
    rustix::net::shutdown(socket(here.0), rustix::net::Shutdown::Both).expect("connected");
    assert_eq!(here.receive(&mut [0; 10]), 0, "the end");
    signal(served, libc::SIGCONT);
    here.close();
    join(served);
    listener.close();
}

fn signal(process: i32, signal: i32) {
    // SAFETY: a child of this test's.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
    if signal == libc::SIGSTOP {
        // its threads run until the kernel has stopped them
        let mut status = 0;
        // SAFETY: writes one number.
        let stopped = unsafe { libc::waitpid(process, &raw mut status, libc::WUNTRACED) };
        assert!(stopped == process && libc::WIFSTOPPED(status));
    }
}
