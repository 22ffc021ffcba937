//! Handing over: long messages, full queues, strangers, the dead, forks.

use super::*;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

const HEAD: [u8; HAND_OVER_HEAD] = [0x5a; HAND_OVER_HEAD];

fn room() -> Vec<u8> {
    vec![0; HAND_OVER_HEAD + HAND_OVER_BODY]
}

/// A child that opens its socket, says who it is and goes on.
fn receiver(options: &JoinOptions, body: impl FnOnce(&mut Line, &HandOver)) -> (Child, ProcessRef) {
    let options = options.clone();
    let mut child = Child::spawn(move |line| {
        let host = join(&options);
        let end = host.hand_over().unwrap();
        line.say(&[host.me().to_word()]);
        body(line, &end);
    });
    let peer = process(child.hear::<1>().unwrap()[0]);
    (child, peer)
}

#[test]
fn messages_arrive_whole_in_order_and_say_who_sent_them() {
    let options = options();
    let host = join(&options);
    let end = host.hand_over().unwrap();
    let (mut child, peer) = receiver(&options, |line, end| {
        line.wait();
        let mut bytes = room();
        while let Some(got) = end.receive(&mut bytes).unwrap() {
            let sum: u64 = bytes[HAND_OVER_HEAD..got.length]
                .iter()
                .map(|&b| u64::from(b))
                .sum();
            line.say(&[got.from.map_or(u64::MAX, u64::from), got.length as u64, sum]);
        }
        line.wait();
    });
    let longest = vec![3; HAND_OVER_BODY];
    let bodies: [&[u8]; 3] = [&longest, &[], &[1, 2, 3]];
    for body in bodies {
        end.send(peer, &HEAD, body).unwrap();
    }
    child.tell();
    for (length, sum) in [(HAND_OVER_BODY, 3 * HAND_OVER_BODY), (0, 0), (3, 6)] {
        let expected = [
            u64::from(host.me().slot),
            (HAND_OVER_HEAD + length) as u64,
            sum as u64,
        ];
        assert_eq!(child.hear::<3>().unwrap(), expected);
    }
    let longer = vec![0; HAND_OVER_BODY + 1];
    assert!(matches!(
        end.send(peer, &HEAD, &longer),
        Err(HostError::Message { .. })
    ));
    // To ourselves as well.
    end.send(host.me(), &HEAD, b"self").unwrap();
    let mut bytes = room();
    let got = end.receive(&mut bytes).unwrap().unwrap();
    assert_eq!(
        (got.from, &bytes[..64], &bytes[64..got.length]),
        (Some(host.me().slot), &HEAD[..], &b"self"[..])
    );
    assert!(end.receive(&mut bytes).unwrap().is_none());
    assert!(matches!(
        host.hand_over(),
        Err(HostError::System {
            errno: libc::EADDRINUSE,
            ..
        })
    ));
    child.finish();
}

#[test]
fn a_full_queue_refuses_and_a_dead_process_is_gone() {
    let options = options();
    let host = join(&options);
    let end = host.hand_over().unwrap();
    let (mut child, peer) = receiver(&options, |line, end| {
        line.wait();
        let mut bytes = room();
        let mut got = 0;
        while end.receive(&mut bytes).unwrap().is_some() {
            got += 1;
        }
        line.say(&[got]);
        line.forever();
    });
    let mut sent = 0;
    let refused = loop {
        match end.send(peer, &HEAD, b"x") {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 100_000);
    };
    assert_eq!(refused, HostError::Busy { peer: Some(peer) });
    child.tell();
    assert_eq!(child.hear::<1>().unwrap(), [sent]);
    end.send(peer, &HEAD, b"x").unwrap();
    assert!(end.is_open_at(peer).unwrap());
    child.kill();
    assert!(!end.is_open_at(peer).unwrap());
    // Its name goes with it, whether it was reaped or not.
    let gone = HostError::Gone { peer: Some(peer) };
    assert_eq!(end.send(peer, &HEAD, b"x"), Err(gone.clone()));
    assert_eq!(host.reap_process(peer).unwrap(), Fate::Dead);
    assert_eq!(end.send(peer, &HEAD, b"x"), Err(gone));
    // A member without such a socket.
    let other = join(&options);
    assert!(!end.is_open_at(other.me()).unwrap());
    assert!(matches!(
        end.send(other.me(), &HEAD, b"x"),
        Err(HostError::Gone { .. })
    ));
}

#[test]
fn strangers_runts_and_descriptors_are_refused_without_stopping_what_follows() {
    let options = options();
    // In a process of its own, whose descriptors nobody else opens and closes.
    Child::spawn(move |_| {
        let host = join(&options);
        let end = host.hand_over().unwrap();
        let name = format!("{}/h{}", host.key().name_prefix(), host.me().slot);
        let to = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        send_raw(&to, b"a runt", false);
        if is_root() {
            send_as_nobody(&to);
        }
        send_raw(&to, &[2; 100], false);
        send_raw(&to, &[3; 100], true);
        send_raw(&to, &[4; 100], false);
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        let mut bytes = room();
        for expected in [2, 4] {
            let got = end.receive(&mut bytes).unwrap().unwrap();
            let whole = HandedOver {
                from: None,
                length: 100,
            };
            assert_eq!((got, bytes[99]), (whole, expected));
        }
        assert!(end.receive(&mut bytes).unwrap().is_none());
        assert_eq!(open(), before);
    })
    .finish();
}

/// Sends from a socket without a name, and with a descriptor if so wished.
fn send_raw(to: &SocketAddrUnix, bytes: &[u8], descriptor: bool) {
    let kind = SocketType::DGRAM;
    let fd =
        rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    let fds = [std::os::fd::AsFd::as_fd(&fd)];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut with = rustix::net::SendAncillaryBuffer::new(&mut space);
    if descriptor {
        with.push(rustix::net::SendAncillaryMessage::ScmRights(&fds));
    }
    let parts = [std::io::IoSlice::new(bytes)];
    rustix::net::sendmsg_addr(&fd, to, &parts, &mut with, SendFlags::DONTWAIT).unwrap();
}

fn send_as_nobody(to: &SocketAddrUnix) {
    // SAFETY: the child has one thread, and ends by _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: no precondition.
        let left = unsafe { libc::setuid(65534) } == 0;
        if left {
            send_raw(to, &[1; 100], false);
        }
        // SAFETY: no precondition.
        unsafe { libc::_exit(i32::from(!left)) };
    }
    let mut status = -1;
    // SAFETY: our own child, and a status of ours.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0);
}

#[test]
fn a_forked_child_neither_hands_over_nor_keeps_the_name() {
    let options = options();
    let host = join(&options);
    let peer_options = options.clone();
    let mut parent = Child::spawn(move |line| {
        let held = join(&peer_options);
        let end = held.hand_over().unwrap();
        // SAFETY: as in the harness.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: no precondition.
                unsafe { libc::alarm(CHILD_SECONDS) };
                let refused = end.send(held.me(), &HEAD, b"x") == Err(HostError::Forked)
                    && end.receive(&mut room()) == Err(HostError::Forked);
                line.say(&[
                    u64::from(refused),
                    held.me().to_word(),
                    std::process::id().into(),
                ]);
                line.forever();
            }
            _ => line.forever(),
        }
    });
    let [refused, word, grandchild] = parent.hear().unwrap();
    assert_eq!(refused, 1);
    parent.kill();
    let end = host.hand_over().unwrap();
    assert!(matches!(
        end.send(process(word), &HEAD, b"x"),
        Err(HostError::Gone { .. })
    ));
    // SAFETY: the grandchild lives: it waits, and its alarm is far away.
    unsafe { libc::kill(grandchild as i32, libc::SIGKILL) };
}

#[test]
fn packets_wait_a_moment_for_room_and_no_longer() {
    let options = options();
    let host = join(&options);
    let end = host.packets_over().unwrap();
    let inner = options.clone();
    let mut child = Child::spawn(move |line| {
        let host = join(&inner);
        let end = host.packets_over().unwrap();
        line.say(&[host.me().to_word()]);
        line.wait();
        let mut bytes = room();
        let mut taken = 0u64;
        // slower than they come, for as long as they come
        while taken < 200 {
            match end.receive(&mut bytes).unwrap() {
                Some(_) => taken += 1,
                None => std::thread::yield_now(),
            }
        }
        line.say(&[taken]);
        line.wait();
    });
    let peer = process(child.hear::<1>().unwrap()[0]);
    // nobody takes anything: the queue fills, and who waits does not wait for ever
    let mut held = 0u64;
    let refused = loop {
        match end.send_in_time(peer, &HEAD, b"packet") {
            Ok(()) => held += 1,
            Err(error) => break error,
        }
        assert!(held < 200, "a queue has an end");
    };
    assert!(matches!(refused, HostError::Busy { .. }), "{refused:?}");
    child.tell();
    // now somebody does: none of the rest is refused for good
    let begun = std::time::Instant::now();
    for _ in held..200 {
        while let Err(error) = end.send_in_time(peer, &HEAD, b"packet") {
            assert!(matches!(error, HostError::Busy { .. }), "{error:?}");
            assert!(begun.elapsed() < std::time::Duration::from_secs(20));
        }
    }
    assert_eq!(child.hear::<1>().unwrap(), [200]);
    // the two sockets of a process are two
    host.hand_over().unwrap();
    child.finish();
}
