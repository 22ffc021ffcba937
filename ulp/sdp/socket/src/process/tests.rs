//! Both sides in one process, or one in a child: what the entries of the preloaded library do.

use super::*;
use crate::calls::Nap;
use crate::meet::message::Message;
use crate::meet::report::Side;
use crate::ready::{self, kernel};
use crate::testing::{Fork, alone, child, join, soon};
use ferriband_sdp_local::{FUTEX, Memory, Reader, Shared, Way, Word, Writer};
use ferriband_sdp_proto::change::Phase;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, IntoRawFd};
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
            Begun::Sleep(sleeper) => panic!("{sleeper:?} sleeps"),
        }
    }

    /// The number may be closed meanwhile: the call is open, which keeps the word.
    fn slept(self, sleeper: Sleeper) -> ferriband_host::wake::Wait {
        match sleeper.nap() {
            Nap::Word { at, value, until } => {
                let until = kernel::spec(until);
                let until = until.as_ref().map_or(ptr::null(), ptr::from_ref);
                // SAFETY: the call is open; the time lives in this frame.
                unsafe { Nap::sleep_on(at, value, until) }
            }
            Nap::Kernel => {
                let pin = process().pin(self.0).expect("a stream");
                let link = pin.link().expect("who sleeps has one");
                sleeper.nap().sleep(link.on(socket(self.0)))
            }
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
            let mut begun = unsafe { process().send(self.0, &[part], 0) };
            while let Begun::Sleep(sleeper) = begun {
                // SAFETY: as above.
                begun = unsafe { sleeper.send(&[part], self.slept(sleeper)) };
            }
            done += Self::ended(begun, || rustix::io::write(socket(self.0), left));
        }
    }

    /// 0 at the end.
    /// recv(2), up to where the kernel is to be called.
    fn try_receive(self, into: &mut [u8], flags: i32) -> Begun {
        let part = part(into);
        // SAFETY: a slice that is this function's own meanwhile.
        let mut begun = unsafe { process().receive(self.0, &mut [part], flags) };
        while let Begun::Sleep(sleeper) = begun {
            // SAFETY: as above.
            begun = unsafe { sleeper.receive(&mut [part], self.slept(sleeper)) };
        }
        begun
    }

    fn receive(self, into: &mut [u8]) -> usize {
        let begun = self.try_receive(into, 0);
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
fn what_a_late_peer_has_sent_comes_once_to_whoever_reads() {
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
    let sent: Vec<u8> = (0..200).collect();
    here.send(&sent);
    let mut read = vec![0; sent.len()];
    here.receive_all(&mut read[..50]);
    // all of it is in the ring
    soon(|| {
        let pin = process().pin(here.0).expect("a stream");
        let link = pin.link().expect("carried");
        Reader(&link.on(socket(here.0))).in_ring() == Some(150)
    });
    signal(served, libc::SIGSTOP);
    process().only_by_kernel_for(here.0, Cause::GivenAway);
    assert_eq!(here.phases(), Some([Phase::Done, Phase::Sdp]));
    let early = here.try_receive(&mut read[50..], libc::MSG_DONTWAIT);
    assert!(matches!(early, Begun::Failed(libc::EAGAIN)), "{early:?}");
    signal(served, libc::SIGCONT);
    // a program without the library takes some
    let mut done = 50;
    while done < 120 {
        done += rustix::io::read(socket(here.0), &mut read[done..120]).expect("the copy");
    }
    here.receive_all(&mut read[120..]);
    assert_eq!(read, sent);
    for round in 0..20 {
        here.exchange(round);
    }
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
fn a_child_does_not_take_away_what_its_parents_instance_was_told() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    soon_or(|| {
        let mut bytes = [1; 10];
        here.send(&bytes);
        there.receive_all(&mut bytes);
        there.send(&bytes);
        here.receive_all(&mut bytes);
        here.phases() == Some([Phase::Sdp; 2])
    });
    let instance = ready::create(libc::EPOLL_CLOEXEC).expect("an instance");
    let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
    let event = ready::Event { events, data: 7 };
    ready::ctl(instance, libc::EPOLL_CTL_ADD, here.0, Some(event)).expect("added");
    let now = || {
        let mut found = [ready::Event::default(); 4];
        let (time, signals) = (Some(std::time::Duration::ZERO), None);
        ready::wait(instance, &mut found, ready::Patience { time, signals }).expect("waited")
    };
    soon(|| now() == 0);
    there.send(&[2; 10]);
    // the child's service thread hears the parent's bells from before, too
    let uses = child(Fork::Called, || {
        process().uses(here.0);
        thread::sleep(std::time::Duration::from_millis(50));
    });
    join(uses);
    assert_eq!(now(), 1);
    assert_eq!(now(), 0);
    process().close(instance);
    // SAFETY: a number of this test's.
    unsafe { rustix::io::close(instance) };
    here.close();
    there.close();
    listener.close();
}

#[test]
fn an_error_that_is_kept_is_told_by_an_instance_to_which_a_stream_comes_later() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    let other = thread::spawn(move || there.echo());
    here.until_carried();
    process().only_by_kernel(here.0);
    soon(|| here.phases() == Some([Phase::Done; 2]));
    process().tell_again(here.0, libc::ECONNRESET);
    let instance = ready::create(libc::EPOLL_CLOEXEC).expect("an instance");
    let events = libc::EPOLLPRI as u32;
    let event = ready::Event { events, data: 7 };
    ready::ctl(instance, libc::EPOLL_CTL_ADD, here.0, Some(event)).expect("added");
    let now = || {
        let mut found = [ready::Event::default(); 4];
        let (time, signals) = (Some(std::time::Duration::ZERO), None);
        let patience = ready::Patience { time, signals };
        let count = ready::wait(instance, &mut found, patience).expect("waited");
        (count, found[0].events)
    };
    assert_eq!(now(), (1, libc::EPOLLERR as u32));
    assert_eq!(process().take_error(here.0), Some(libc::ECONNRESET));
    assert_eq!(now().0, 0);
    process().close(instance);
    // SAFETY: a number of this test's.
    unsafe { rustix::io::close(instance) };
    here.close();
    other.join().expect("echoed");
    listener.close();
}

#[test]
fn an_error_behind_bytes_that_were_sent_is_told_by_the_next_call() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    soon_or(|| {
        let mut bytes = [1; 10];
        here.send(&bytes);
        there.receive_all(&mut bytes);
        there.send(&bytes);
        here.receive_all(&mut bytes);
        here.phases() == Some([Phase::Sdp; 2])
    });
    let mut bytes = vec![0; 1 << 20];
    let parts = [part(&mut bytes)];
    // SAFETY: memory of this test's.
    let begun = unsafe { process().send(here.0, &parts, 0) };
    let Begun::Sleep(sleeper) = begun else {
        panic!("{begun:?}");
    };
    // what the ring holds is unread
    there.close();
    soon(|| here.phases().is_some_and(|[sent, _]| sent == Phase::Done));
    // SAFETY: as above.
    let begun = unsafe { sleeper.send(&parts, ferriband_host::wake::Wait::Woken) };
    assert!(matches!(begun, Begun::Done(1..)), "{begun:?}");
    // SAFETY: as above.
    let next = unsafe { process().send(here.0, &[part(&mut [0])], 0) };
    assert!(matches!(next, Begun::Failed(libc::ECONNRESET)), "{next:?}");
    here.close();
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
            Begun::Kernel(ticket) => drop(ticket.end(-1)),
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

#[test]
fn a_call_goes_on_though_its_number_is_closed_and_its_slot_comes_back() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let before = process().served().carried_count();
    for by_tcp in [false, true] {
        let here = Number::connect(address);
        let there = listener.accept();
        let other = thread::spawn(move || {
            let mut byte = [0; 1];
            there.receive_all(&mut byte);
            while byte[0] != 9 {
                there.send(&byte);
                there.receive_all(&mut byte);
            }
            there
        });
        soon_or(|| {
            here.send(&[1]);
            here.receive_all(&mut [0; 1]);
            here.phases() == Some([Phase::Sdp; 2])
        });
        here.send(&[9]);
        let there = other.join().expect("echoed");
        let asleep = thread::spawn(move || {
            let mut bytes = [0; 4];
            match here.try_receive(&mut bytes, 0) {
                Begun::Done(4) => bytes,
                begun => panic!("{begun:?}"),
            }
        });
        let pin = process().pin(here.0).expect("a stream");
        let want = Word::Shared(Way::In, Shared::WantBytes);
        let call = |pin: &Pin<'static>| pin.link().expect("carried").on(socket(here.0)).load(want);
        soon(|| call(&pin) & FUTEX != 0);
        drop(pin);
        assert_eq!(process().close(here.0), Closing::ByKernel);
        // SAFETY: a number of this test's.
        unsafe { rustix::io::close(here.0) };
        let again = rustix::io::fcntl_dupfd_cloexec(socket(listener.0), here.0).expect("one");
        assert_eq!(
            again.as_raw_fd(),
            here.0,
            "another descriptor has the number"
        );
        if by_tcp {
            process().only_by_kernel(there.0);
        }
        there.send(&[7; 4]);
        assert_eq!(asleep.join().expect("received"), [7; 4]);
        assert_eq!(
            there.receive(&mut [0; 1]),
            0,
            "the end comes with the call's"
        );
        there.close();
        soon(|| process().served().carried_count() == before);
    }
    listener.close();
}

#[test]
fn urgent_bytes_keep_a_connection_in_tcp_whoever_has_sent_them() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    let sender = child(Fork::Called, || {
        // SAFETY: a slice that lives.
        let begun = unsafe { process().send(here.0, &[part(&mut [1])], libc::MSG_OOB) };
        Number::ended(begun, || {
            rustix::net::send(socket(here.0), &[1], rustix::net::SendFlags::OOB)
        });
    });
    join(sender);
    let other = thread::spawn(move || there.echo());
    let carried = Number::connect(address);
    let second = listener.accept();
    let echo = thread::spawn(move || second.echo());
    for round in 0..200 {
        here.exchange(round);
    }
    carried.until_carried();
    for round in 0..200 {
        here.exchange(round);
    }
    assert!(matches!(here.phases(), None | Some([Phase::Done, _])));
    for one in [here, carried] {
        one.close();
    }
    for thread in [other, echo] {
        thread.join().expect("echoed");
    }
    listener.close();
}

#[test]
fn a_signal_handler_meets_no_lock_of_a_fork() {
    extern "C" fn handler(_: i32) {
        drop(process().served());
    }
    let _alone = alone();
    process();
    let forks = child(Fork::Called, || {
        let action: extern "C" fn(i32) = handler;
        // SAFETY: a function that stays.
        unsafe { libc::signal(libc::SIGALRM, action as *const () as libc::sighandler_t) };
        let often = libc::timeval {
            tv_sec: 0,
            tv_usec: 50,
        };
        let timer = libc::itimerval {
            it_interval: often,
            it_value: often,
        };
        // SAFETY: a time.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
        for _ in 0..200 {
            // SAFETY: the child ends at once.
            let made = unsafe { libc::fork() };
            assert!(made >= 0);
            if made == 0 {
                // SAFETY: ends the child.
                unsafe { libc::_exit(0) };
            }
            // SAFETY: no status is wanted.
            while unsafe { libc::waitpid(made, std::ptr::null_mut(), 0) } != made {}
        }
    });
    let mut status = -1;
    // SAFETY: writes one number.
    let ended = || unsafe { libc::waitpid(forks, &raw mut status, libc::WNOHANG) } == forks;
    soon_or(ended);
    assert_eq!(status, 0);
}

#[test]
fn a_connection_that_gets_no_link_has_its_options_back() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    let nodelay = || rustix::net::sockopt::tcp_nodelay(socket(there.0)).expect("told");
    assert!(!nodelay());
    let holds = child(Fork::Called, crate::testing::sleep_for_ever);
    let met = crate::meet::Met {
        cookie: cookie(there.0),
        ticket: crate::meet::Ticket {
            pair: u64::MAX,
            segment: 0,
            slot: 0,
        },
        role: crate::segment::Role::Accepted,
        segment: std::sync::Arc::new(crate::own::memory(crate::segment::LENGTH).expect("memory")),
        peer: std::sync::Arc::new(crate::meet::bells::Bells::new(Event::new().expect("one"))),
        is_narrow: false,
    };
    let given = process().served().carries(process(), &met);
    assert!(!given && !nodelay());
    crate::testing::kill(holds);
    here.close();
    there.close();
    listener.close();
}

#[test]
fn a_child_without_a_place_goes_on_with_what_it_has_inherited() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    let other = thread::spawn(move || {
        let mut byte = [0; 1];
        while byte[0] != 9 {
            there.receive_all(&mut byte);
            there.send(&byte);
        }
    });
    soon_or(|| {
        here.send(&[1]);
        here.receive_all(&mut [0; 1]);
        here.phases() == Some([Phase::Sdp; 2])
    });
    here.send(&[9]);
    here.receive_all(&mut [0; 1]);
    other.join().expect("echoed");
    let full = crate::holder::Family::get().expect("made").fill();
    let echoes = child(Fork::Called, || {
        let mut bytes = [0; 100];
        there.receive_all(&mut bytes);
        assert_eq!(crate::table::thread() >> 32, u64::from(u32::MAX));
        assert_eq!(there.phases(), Some([Phase::Sdp; 2]));
        there.send(&bytes);
    });
    there.close();
    here.send(&[7; 100]);
    let mut bytes = [0; 100];
    here.receive_all(&mut bytes);
    assert_eq!(bytes, [7; 100]);
    join(echoes);
    assert_eq!(here.receive(&mut bytes), 0, "the end");
    drop(full);
    here.close();
    listener.close();
}

#[test]
fn looks_ahead_leave_a_connection_in_the_ring() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    let other = thread::spawn(move || there.echo());
    here.until_carried();
    for round in 0..20 {
        here.send(b"look ahead");
        let mut bytes = [0; 20];
        let ask = |bytes: &mut [u8], flags| match here.try_receive(bytes, flags) {
            Begun::Done(count) => count,
            begun => panic!("{round}: {begun:?}"),
        };
        let all = libc::MSG_PEEK | libc::MSG_WAITALL;
        assert_eq!(ask(&mut bytes[..10], all), 10);
        assert_eq!(&bytes[..10], b"look ahead");
        assert_eq!(ask(&mut bytes, libc::MSG_PEEK | libc::MSG_TRUNC), 10);
        assert_eq!(ask(&mut bytes[..5], libc::MSG_TRUNC), 5);
        assert_eq!(ask(&mut bytes, 0), 5);
        assert_eq!(&bytes[..5], b"ahead");
        assert_eq!(here.phases(), Some([Phase::Sdp; 2]));
    }
    here.close();
    other.join().expect("echoed");
    listener.close();
}

#[test]
fn a_buffer_that_holds_no_copy_of_a_ring_leaves_the_direction_to_tcp() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let here = Number::connect(address);
    let there = listener.accept();
    rustix::net::sockopt::set_socket_send_buffer_size(socket(here.0), 8192).expect("set");
    let other = thread::spawn(move || there.echo());
    let mut round = 0;
    soon_or(|| {
        round += 1;
        here.exchange(round);
        here.phases() == Some([Phase::Done, Phase::Sdp])
    });
    here.close();
    other.join().expect("echoed");
    listener.close();
}

#[test]
fn a_program_with_little_room_or_locked_memory_keeps_it() {
    use crate::pages::{Pages, Seen};
    let _alone = alone();
    join(child(Fork::Called, || {
        let limits = rustix::process::getrlimit(rustix::process::Resource::As);
        let less = rustix::process::Rlimit {
            current: Some(8 << 30),
            ..limits
        };
        rustix::process::setrlimit(rustix::process::Resource::As, less).expect("lower");
        assert!(Pages::reserve(4096, Seen::Copied).is_err());
        rustix::process::setrlimit(rustix::process::Resource::As, limits).expect("as before");
        drop(Pages::reserve(4096, Seen::Copied).expect("memory"));
        assert!(Process::locks_memory());
        assert!(Pages::reserve(4096, Seen::Copied).is_err());
    }));
}

/// A slice, as a call gets it.
fn part(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
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

#[test]
fn a_port_can_be_asked_as_long_as_a_connection_of_it_is_open() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let is_asked = || process().served().ports().contains(&address.port());
    let here = Number::connect(address);
    let there = listener.accept();
    let is_served = |number: Number| {
        let pin = process().pin(number.0).expect("a stream");
        pin.traffic().is(state::SERVED)
    };
    assert!(is_asked() && !is_served(there), "nobody can ask so far");
    listener.close();
    assert!(is_asked(), "the connection may still be asked for");
    let short = {
        let (listener, address) = Number::listener();
        let short = (Number::connect(address), listener.accept());
        listener.close();
        short
    };
    let other = thread::spawn(move || there.echo());
    here.until_carried();
    here.close();
    other.join().expect("it ends");
    short.0.close();
    short.1.close();
    assert_eq!(
        process().served().ports(),
        [] as [u16; 0],
        "nothing is left"
    );
}

#[test]
fn what_this_process_says_of_its_streams_comes_in_pages() {
    let _alone = alone();
    let (listener, address) = Number::listener();
    let streams: Vec<_> = (0..50)
        .map(|_| (Number::connect(address), listener.accept()))
        .collect();
    streams[0].0.send(&[1; 7]);
    let (mut numbers, mut from, mut pages) = (Vec::new(), 0, 0);
    while from >= 0 {
        let answer = report::answer(process(), &[], &|_| None, from);
        assert!(answer.len() <= 36, "a page is short");
        let mut next = None;
        for message in answer {
            match message {
                Message::Row(row) => numbers.push(row),
                Message::Rows { next: number } => next = Some(number),
                Message::About(about) => assert_eq!(about.pid, std::process::id()),
                other => panic!("{other:?}"),
            }
        }
        from = next.expect("each page has an end");
        pages += 1;
    }
    assert!(pages > 3);
    let row = |number: Number| numbers.iter().find(|row| row.number == number.0);
    assert_eq!(row(listener).map(|row| row.side), Some(Side::Listener));
    for (here, there) in &streams {
        let (here, there) = (row(*here).expect("told"), row(*there).expect("told"));
        assert_eq!((here.side, there.side), (Side::Connected, Side::Accepted));
        assert_eq!((here.own, here.peer), (there.peer, there.own));
        assert_eq!(here.why, Some(Why::Cause(Cause::TooShort)));
    }
    let sent = row(streams[0].0).map(|row| (row.traffic.tcp_out, row.traffic.ring_out));
    assert_eq!(sent, Some((7, 0)));
    process().only_by_kernel_for(streams[1].0.0, Cause::ByLibrary);
    let answer = report::answer(process(), &[], &|_| None, streams[1].0.0);
    let Some(Message::Row(told)) = answer.first() else {
        panic!("{answer:?}");
    };
    assert_eq!(told.why, Some(Why::Cause(Cause::ByLibrary)));
    for (here, there) in streams {
        here.close();
        there.close();
    }
    listener.close();
}
