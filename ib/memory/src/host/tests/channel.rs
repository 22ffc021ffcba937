//! Control connections.

use super::*;
use ::proptest::prelude::*;
use std::os::fd::{AsFd, AsRawFd};

type Message = Option<(usize, Vec<OwnedFd>)>;

fn receive(control: &Control) -> Result<Message, HostError> {
    control.recv(&mut [0; MESSAGE_BYTES])
}

/// Both ends of a connection from `a` to `b`.
fn pair(a: &Host, b: &Host) -> (Control, Control) {
    let connected = a.connect(b.me()).unwrap();
    let accepted = b.listener().accept().unwrap().unwrap();
    (connected, accepted)
}

#[test]
fn messages_and_descriptors_cross_in_order_and_whole() {
    let options = options();
    let (a, b) = (join(&options), join(&options));
    let (near, far) = pair(&a, &b);
    assert_eq!((near.peer(), far.peer()), (Some(b.me()), None));
    assert!(receive(&far).unwrap().is_none() && receive(&near).unwrap().is_none());
    assert_eq!(
        far.peer(),
        Some(a.me()),
        "the hello came with the connection"
    );

    let files: Vec<_> = (0..MESSAGE_FDS as u64)
        .map(|i| {
            let segment = crate::Segment::create("sent", 4096).unwrap();
            segment.store(0, 100 + i, Ordering::Relaxed);
            segment
        })
        .collect();
    let fds: Vec<_> = files.iter().map(|f| f.fd().unwrap()).collect();
    let long: Vec<u8> = (0..MESSAGE_BYTES).map(|i| i as u8).collect();
    near.send(&long, &fds).unwrap();
    near.send(&[0], &[]).unwrap();
    far.send(b"back", &[]).unwrap();

    let mut bytes = [0; MESSAGE_BYTES];
    let (length, got) = far.recv(&mut bytes).unwrap().unwrap();
    assert_eq!((&bytes[..length], got.len()), (&long[..], MESSAGE_FDS));
    for (i, fd) in got.into_iter().enumerate() {
        assert!(
            rustix::io::fcntl_getfd(&fd)
                .unwrap()
                .contains(rustix::io::FdFlags::CLOEXEC)
        );
        let segment = crate::Segment::from_fd(fd, 4096, crate::Access::ReadWrite).unwrap();
        assert_eq!(segment.load(0, Ordering::Relaxed), 100 + i as u64);
    }
    let (length, got) = far.recv(&mut bytes).unwrap().unwrap();
    assert_eq!((length, bytes[0], got.len()), (1, 0, 0));
    assert!(receive(&far).unwrap().is_none());
    assert_eq!(receive(&near).unwrap().unwrap().0, 4);
}

#[test]
fn sizes_out_of_range_are_refused_and_a_message_too_long_ends_the_connection() {
    let options = options();
    let (a, b) = (join(&options), join(&options));
    let (near, far) = pair(&a, &b);
    let fd = std::io::stdin();
    let too_many = [fd.as_fd(); MESSAGE_FDS + 1];
    for (bytes, fds) in [
        (&[][..], &[][..]),
        (&[0; MESSAGE_BYTES + 1], &[]),
        (&[0], &too_many),
    ] {
        assert!(matches!(
            near.send(bytes, fds),
            Err(HostError::Message { .. })
        ));
    }
    near.send(&[1; 65], &[fd.as_fd()]).unwrap();
    near.send(&[1], &[]).unwrap();
    for _ in 0..2 {
        assert!(matches!(
            far.recv(&mut [0; 64]),
            Err(HostError::Gone { .. })
        ));
    }
}

#[test]
fn a_full_queue_is_busy_and_drains() {
    let options = options();
    let (a, b) = (join(&options), join(&options));
    let (near, far) = pair(&a, &b);
    let mut sent = 0;
    let error = loop {
        match near.send(&[0], &[]) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 100_000);
    };
    assert_eq!(error, HostError::Busy { peer: Some(b.me()) });
    let mut got = 0;
    while receive(&far).unwrap().is_some() {
        got += 1;
    }
    assert_eq!(got, sent);
    near.send(&[0], &[]).unwrap();
}

#[test]
fn the_end_of_a_process_is_the_end_of_its_connections_after_its_last_words() {
    let options = options();
    let host = join(&options);
    let (child_options, peer) = (options.clone(), host.me());
    let mut child = Child::spawn(move |line| {
        let held = join(&child_options);
        let control = held.connect(peer).unwrap();
        control.send(b"last words", &[]).unwrap();
        line.say(&[held.me().to_word()]);
        line.forever();
    });
    let [word] = child.hear().unwrap();
    let control = host.listener().accept().unwrap().unwrap();
    child.kill();
    assert_eq!(receive(&control).unwrap().unwrap().0, 10);
    let gone = HostError::Gone {
        peer: Some(process(word)),
    };
    assert_eq!(receive(&control).unwrap_err(), gone);
    assert_eq!(control.send(&[0], &[]).unwrap_err(), gone);
    assert!(matches!(
        host.connect(process(word)),
        Err(HostError::Gone { .. })
    ));
    assert_eq!(host.reap_process(process(word)).unwrap(), Fate::Dead);
}

#[test]
fn a_joiner_that_only_takes_the_registry_is_a_connection_that_ends() {
    let options = options();
    let host = join(&options);
    let names::Dialled::Member(fd, who) = names::dial(host.key(), host.me().slot).unwrap() else {
        panic!("no listener")
    };
    assert_eq!(who.pid, std::process::id());
    let control = host.listener().accept().unwrap().unwrap();
    let (process, registry) = control::receive_welcome(&fd).unwrap();
    assert_eq!(process, host.me());
    assert_eq!(
        rustix::fs::fstat(registry).unwrap().st_ino,
        host.inode().unwrap()
    );
    drop(fd);
    assert_eq!(
        receive(&control).unwrap_err(),
        HostError::Gone { peer: None }
    );
}

#[test]
fn a_stopped_peer_takes_connections_until_its_backlog_is_full_and_never_blocks_us() {
    let options = options();
    let host = join(&options);
    let mut child = member(&options);
    let peer = process(child.hear::<2>().unwrap()[0]);
    child.stop();
    let control = host.connect(peer).unwrap();
    control.send(b"later", &[]).unwrap();
    let start = Instant::now();
    let mut connections = 1;
    let error = loop {
        // Each is dropped at once; its place in the backlog stays taken.
        match host.connect(peer) {
            Ok(_) => connections += 1,
            Err(error) => break error,
        }
        assert!(connections < 10_000);
    };
    assert_eq!(error, HostError::Busy { peer: Some(peer) });
    assert!(start.elapsed() < Duration::from_secs(5));
    // Full or not, it is no corpse, and others still join.
    assert_eq!(host.reap_process(peer).unwrap(), Fate::Alive);
    let third = join(&options);
    assert_eq!(third.inode().unwrap(), host.inode().unwrap());
    drop((host, third));
    // Only the stopped one is left, and it cannot even be asked for its number.
    assert_eq!(join(&options).members().len(), 2);
    child.signal(libc::SIGCONT);
    child.finish();
}

#[test]
fn an_impostor_and_a_stranger_are_cut_off() {
    let options = options();
    let (a, b) = (join(&options), join(&options));
    let dial = || match names::dial(b.key(), b.me().slot).unwrap() {
        names::Dialled::Member(fd, _) => fd,
        other => panic!("{other:?}"),
    };
    let hello = |who: ProcessRef, nonce: u64| {
        let words = [u64::from_le_bytes(*b"ferrihel"), who.to_word(), nonce];
        words
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let nonce = a.nonce;
    let stale = ProcessRef {
        generation: a.me().generation + 1,
        ..a.me()
    };
    for (message, good) in [
        (hello(a.me(), nonce), true),
        (hello(a.me(), nonce ^ 1), false),
        (hello(stale, nonce), false),
        (b"GET / HTTP/1.1".to_vec(), false),
        (vec![0; MESSAGE_BYTES], false),
    ] {
        let fd = dial();
        let control = b.listener().accept().unwrap().unwrap();
        rustix::io::write(&fd, &message).unwrap();
        rustix::io::write(&fd, b"x").unwrap();
        match receive(&control) {
            Ok(Some((1, _))) => assert!(good && control.peer() == Some(a.me())),
            Err(HostError::Gone { peer: None }) => assert!(!good),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn descriptors_that_we_have_no_room_for_end_the_connection_without_a_leak() {
    let options = options();
    let host = join(&options);
    let (child_options, peer) = (options.clone(), host.me());
    let mut child = Child::spawn(move |line| {
        let held = join(&child_options);
        let control = held.connect(peer).unwrap();
        assert!(receive(&control).unwrap().is_none());
        line.say(&[1]);
        line.wait();
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        let limit = |soft: u64| {
            let limits = libc::rlimit {
                rlim_cur: soft,
                rlim_max: 1024,
            };
            // SAFETY: limits is ours.
            let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits) };
            assert_eq!(result, 0);
        };
        // Room for two of the four.
        let lowest_free = rustix::io::dup(std::io::stdin()).unwrap().as_raw_fd();
        limit(lowest_free as u64 + 2);
        let result = receive(&control);
        limit(1024);
        line.say(&[
            u64::from(matches!(result, Err(HostError::Gone { .. }))),
            (open() - before) as u64,
        ]);
    });
    child.hear::<1>().unwrap();
    let control = host.listener().accept().unwrap().unwrap();
    let fd = std::io::stdin();
    control.send(b"four", &[fd.as_fd(); MESSAGE_FDS]).unwrap();
    child.tell();
    assert_eq!(child.hear().unwrap(), [1, 0]);
    child.finish();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn greetings_round_trip_and_any_other_bytes_are_none(
        slot in 0_u32..4096,
        generation in 1_u32..,
        nonce: u64,
        magic: u64,
        noise in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let process = ProcessRef { slot, generation };
        let bytes = control::greeting(magic, process, nonce);
        prop_assert_eq!(control::parse_greeting(magic, &bytes), Some((process, nonce)));
        prop_assert_eq!(control::parse_greeting(magic ^ 1, &bytes), None);
        prop_assert_eq!(control::parse_greeting(magic, &bytes[..23]), None);
        prop_assert_eq!(control::parse_greeting(magic, &noise), None);
    }
}
