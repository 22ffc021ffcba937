//! What processes share besides queue pairs: kinds of numbers, the steered port, services, connections, an administrator's wishes.

use super::*;

fn service(id: u64, gid: [u8; 16], flags: u32) -> Service {
    let word = id ^ 0x55;
    Service {
        id,
        gid: Gid(gid),
        flags,
        word,
    }
}

fn mapped(last: u8) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[10..12].copy_from_slice(&[0xff; 2]);
    gid[12..].copy_from_slice(&if last == 0 { [0; 4] } else { [10, 0, 0, last] });
    gid
}

const ANY: [u8; 16] = [0; 16];
const V6: [u8; 16] = [0xfd; 16];

#[test]
fn the_kind_of_a_number_is_that_of_its_block_and_blocks_of_a_kind_lie_together() {
    let options = options();
    let (a, b) = (join(&options), join(&options));
    let kinds = [BlockKind::Native, BlockKind::Auto, BlockKind::Packets];
    for round in 0..4 {
        for kind in kinds {
            let (mine, theirs) = (
                a.claim_qpn_block(kind).unwrap(),
                b.claim_qpn_block(kind).unwrap(),
            );
            for (host, block) in [(&a, mine), (&b, theirs)] {
                let qpn = Qpn(block * QPN_BLOCK + 9);
                assert_eq!(
                    (b.kind_of_qpn(qpn), a.owner_of_qpn(qpn)),
                    (Some(kind), Some(host.me()))
                );
            }
            assert!(round == 0 || a.owner_of_qpn(Qpn((mine - 1) * QPN_BLOCK)) == Some(a.me()));
            assert!(round == 0 || a.kind_of_qpn(Qpn((theirs - 1) * QPN_BLOCK)) == Some(kind));
        }
    }
    assert_eq!(a.qpn_blocks().len(), 24);
    // A neighbour that is taken is no obstacle.
    let next = a.claim_qpn_block(BlockKind::Auto).unwrap() + 1;
    let taken = a
        .registry
        .claim_qpn_block(b.me(), BlockKind::Native, Some(next));
    assert_eq!(taken.unwrap(), next);
    let elsewhere = a.claim_qpn_block(BlockKind::Auto).unwrap();
    assert_ne!(elsewhere, next);
    assert!(a.release_qpn_block(elsewhere) && a.kind_of_qpn(Qpn(elsewhere * QPN_BLOCK)).is_none());
    drop(b);
    assert!(a.qpn_blocks().iter().all(|(_, owner, _)| *owner == a.me()));
}

#[test]
fn steering_entries_carry_indices_and_answers_and_go_with_their_process() {
    let options = options();
    let host = join(&options);
    assert!(!host.steering_close() && host.steering_answer(false, 1, 1).is_none());
    host.steering_open().unwrap();
    assert!(matches!(host.steering_open(), Err(HostError::Full { .. })));
    let child_options = options.clone();
    let mut child = Child::spawn(move |line| {
        let held = join(&child_options);
        held.steering_open().unwrap();
        line.say(&[held.me().to_word()]);
        line.wait();
        let probe = held.steering_probe();
        held.steering_answer(true, probe - 1, 8).unwrap();
        held.steering_answer(true, probe, 7).unwrap();
        let entry = held.steering_answer(true, probe, 9).unwrap();
        line.say(&[entry.index[0].map_or(99, u64::from)]);
        line.forever();
    });
    let peer = process(child.hear::<1>().unwrap()[0]);
    assert!(host.set_steering_index(host.me(), false, Some(0)));
    assert!(
        host.set_steering_index(peer, false, Some(0xffff))
            && host.set_steering_index(peer, true, Some(0))
    );
    assert!(host.set_steering_index(peer, false, Some(3)));
    assert_eq!(host.steering_of(peer).unwrap().index, [Some(3), Some(0)]);
    assert!(host.set_steering_index(peer, true, None));
    let probe = host.begin_steering_probe();
    assert_ne!(probe, 0);
    child.tell();
    assert_eq!(child.hear::<1>().unwrap(), [3]);
    let entries = host.steering_entries();
    assert_eq!(
        entries.iter().map(|e| e.process).collect::<Vec<_>>(),
        [host.me(), peer]
    );
    assert_eq!(
        (entries[1].index, entries[1].answer),
        ([Some(3), None], [None, Some((probe, 7))])
    );
    let epoch = host.steering_epoch();
    child.kill();
    assert_eq!(host.reap_process(peer).unwrap(), Fate::Dead);
    assert!(host.steering_epoch() > epoch && host.steering_of(peer).is_none());
    assert!(!host.set_steering_index(peer, false, Some(1)));
    assert!(host.steering_close() && host.steering_entries().is_empty());
}

#[test]
fn a_member_that_is_stopped_is_seen_to_be_until_it_goes_on() {
    let options = options();
    let host = join(&options);
    let child_options = options.clone();
    let mut child = Child::spawn(move |line| {
        let held = join(&child_options);
        line.say(&[held.me().to_word()]);
        line.forever();
    });
    let peer = process(child.hear::<1>().unwrap()[0]);
    assert!(!host.is_stopped(peer) && !host.is_stopped(host.me()));
    child.stop();
    assert!(host.is_stopped(peer));
    child.resume();
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while host.is_stopped(peer) {
        assert!(std::time::Instant::now() < end, "it goes on");
        std::thread::yield_now();
    }
    child.kill();
    assert!(!host.is_stopped(peer));
}

#[test]
fn only_one_works_under_the_lock_and_a_killed_holder_lets_go() {
    let options = options();
    let host = join(&options);
    let child_options = options.clone();
    let mut child = Child::spawn(move |line| {
        let held = join(&child_options);
        held.locked(Duration::from_secs(5), |_| {
            line.say(&[1]);
            line.forever();
        })
        .unwrap();
    });
    child.hear::<1>().unwrap();
    child.stop();
    let busy = host.locked(Duration::from_millis(30), |_| ());
    assert!(
        matches!(busy, Err(HostError::LockTimeout { .. })),
        "{busy:?}"
    );
    child.kill();
    let members = host.locked(Duration::from_secs(5), |registry| registry.members().len());
    assert!(members.unwrap() >= 1);
}

#[test]
fn a_service_is_had_once_at_overlapping_addresses() {
    let options = options();
    let (a, b) = (join(&options), join(&options));
    let taken = |result: Result<ServiceClaim, HostError>| match result {
        Err(e @ HostError::ServiceTaken { owner, .. }) if owner == a.me() => Some(e.errno()),
        _ => None,
    };
    let epoch = a.service_epoch();
    let first = a
        .service_claim(&service(5, mapped(1), SERVICE_LISTENS))
        .unwrap();
    assert_ne!(a.service_epoch(), epoch);
    // errno as in Linux (cma_check_port)
    for (gid, errno) in [
        (mapped(1), libc::EADDRINUSE),
        (mapped(0), libc::EADDRNOTAVAIL),
        (ANY, libc::EADDRNOTAVAIL),
    ] {
        assert_eq!(
            taken(b.service_claim(&service(5, gid, 0))),
            Some(errno),
            "{gid:?}"
        );
    }
    // Other addresses, another service, a wildcard of the other family.
    let mut kept = Vec::new();
    for (id, gid, flags) in [(5, mapped(2), 0), (5, V6, 0), (6, mapped(1), 0)] {
        kept.push(b.service_claim(&service(id, gid, flags)).unwrap());
    }
    assert!(b.service_release(kept[1]) && !b.service_release(kept[1]));
    b.service_claim(&service(5, ANY, SERVICE_ONE_FAMILY))
        .unwrap();
    assert!(a.service_release(first));
    b.service_claim(&service(5, mapped(1), 0)).unwrap();
    assert_eq!(a.services().len(), 4);
    drop(b);
    assert!(a.services().is_empty());
}

#[test]
fn who_shares_a_service_may_reserve_it_but_one_alone_listens() {
    let options = options();
    let (a, b) = (join(&options), join(&options));
    let shared = service(9, ANY, SERVICE_SHARED);
    let (mine, theirs) = (
        a.service_claim(&shared).unwrap(),
        b.service_claim(&shared).unwrap(),
    );
    assert!(matches!(
        a.service_listen(mine),
        Err(HostError::ServiceTaken { .. })
    ));
    assert!(a.service_find(9, &Gid(V6)).is_none(), "reserved only");
    assert!(b.service_release(theirs));
    let listening = a.service_listen(mine).unwrap();
    assert!(!a.service_release(mine), "the claim before it is used up");
    let found = b.service_find(9, &Gid(mapped(3))).unwrap();
    assert_eq!((found.process, found.service.word), (a.me(), shared.word));
    assert!(matches!(
        b.service_claim(&shared),
        Err(HostError::ServiceTaken { .. })
    ));
    assert!(a.service_release(listening) && b.service_find(9, &Gid(V6)).is_none());
}

#[test]
fn the_listener_of_just_this_address_comes_first() {
    let host = join(&options());
    for (gid, flags) in [(ANY, SERVICE_ONE_FAMILY), (mapped(0), 0)] {
        host.service_claim(&service(1, gid, flags | SERVICE_LISTENS))
            .unwrap();
    }
    let found = |gid| host.service_find(1, &Gid(gid)).map(|e| e.service.gid.0);
    assert_eq!((found(mapped(4)), found(V6)), (Some(mapped(0)), Some(ANY)));
    assert_eq!(host.service_find(2, &Gid(V6)), None);
}

#[test]
fn of_processes_that_want_one_service_at_once_one_gets_it() {
    let options = options();
    for round in 0..6 {
        let mut children: Vec<Child> = (0..5)
            .map(|which| {
                let options = options.clone();
                Child::spawn(move |line| {
                    let host = join(&options);
                    line.say(&[0]);
                    line.wait();
                    let gid = if which % 2 == 0 { ANY } else { mapped(which) };
                    let claimed = host.service_claim(&service(round, gid, 0));
                    line.say(&[u64::from(claimed.is_ok()), u64::from(which)]);
                    line.wait();
                })
            })
            .collect();
        children.iter_mut().for_each(|c| _ = c.hear::<1>().unwrap());
        children.iter_mut().for_each(Child::tell);
        let won: Vec<u64> = children
            .iter_mut()
            .filter_map(|c| {
                c.hear::<2>()
                    .filter(|said| said[0] == 1)
                    .map(|said| said[1])
            })
            .collect();
        // The two at addresses of their own are in nobody's way but the wildcards'.
        assert!(!won.is_empty());
        assert!(
            won.len() == 1 || won.iter().all(|which| which % 2 == 1),
            "{won:?}"
        );
        children.into_iter().for_each(Child::finish);
    }
}

#[test]
fn the_dead_keep_no_service() {
    let options = options();
    let host = join(&options);
    let child_options = options.clone();
    let mut child = Child::spawn(move |line| {
        let held = join(&child_options);
        held.service_claim(&service(3, ANY, SERVICE_LISTENS))
            .unwrap();
        line.say(&[1]);
        line.forever();
    });
    child.hear::<1>().unwrap();
    assert!(matches!(
        host.service_claim(&service(3, V6, 0)),
        Err(HostError::ServiceTaken { .. })
    ));
    child.kill();
    host.service_claim(&service(3, V6, 0)).unwrap();
}

#[test]
fn connections_of_the_dead_are_inherited_once() {
    let options = options();
    let (a, b) = (join(&options), join(&options));
    let child_options = options.clone();
    let mut child = Child::spawn(move |line| {
        let held = join(&child_options);
        for i in 0..20 {
            held.connection_open(&[i; CONNECTION_WORDS]).unwrap();
        }
        let ended = held.connection_open(&[99; CONNECTION_WORDS]).unwrap();
        assert!(held.connection_close(ended) && !held.connection_close(ended));
        line.say(&[held.me().to_word()]);
        line.forever();
    });
    let peer = process(child.hear::<1>().unwrap()[0]);
    let ours = a.connection_open(&[50; CONNECTION_WORDS]).unwrap();
    assert_eq!(a.connection_inherit(), None);
    child.kill();
    assert_eq!(b.reap_process(peer).unwrap(), Fate::Dead);
    let mut got = std::collections::BTreeSet::new();
    for turn in 0..20 {
        let heir = if turn % 3 == 0 { &a } else { &b };
        let one = heir.connection_inherit().unwrap();
        assert_eq!(
            (one.process, one.words),
            (peer, [one.words[0]; CONNECTION_WORDS])
        );
        assert!(got.insert(one.words[0]));
    }
    assert_eq!((got.first(), got.last()), (Some(&0), Some(&19)));
    assert_eq!(
        (a.connection_inherit(), b.connection_inherit()),
        (None, None)
    );
    assert!(a.connection_close(ours));
}

#[test]
fn orphans_that_nobody_wants_give_way() {
    let options = options();
    let a = join(&options);
    let b = join(&options);
    let mut claims = Vec::new();
    while let Ok(claim) = b.connection_open(&[1; CONNECTION_WORDS]) {
        claims.push(claim);
    }
    assert_eq!(claims.len(), 8192);
    assert!(matches!(
        a.connection_open(&[2; CONNECTION_WORDS]),
        Err(HostError::Full { .. })
    ));
    drop(b);
    a.connection_open(&[2; CONNECTION_WORDS]).unwrap();
    assert_eq!(a.connection_inherit(), None);
}

#[test]
fn hooks_rules_and_ports_are_everybodys_until_taken_back() {
    let options = options();
    let (a, b) = (join(&options), join(&options));
    assert!(!a.hooks().any(u32::MAX));
    let wants_packets = Tool {
        captures: false,
        wants_packets: true,
        ring_bytes: 1,
        snap_bytes: 0,
    };
    a.become_tool(&wants_packets).unwrap();
    assert!(b.hooks().any(HOOK_PACKETS) && !b.hooks().any(HOOK_FAULTS | HOOK_CAPTURE));
    let epoch = b.hooks().epoch();
    let mut numbers: Vec<usize> = (0..64)
        .map(|i| a.fault_add(&[i; FAULT_WORDS]).unwrap())
        .collect();
    assert!(matches!(
        a.fault_add(&[0; FAULT_WORDS]),
        Err(HostError::Full { .. })
    ));
    assert!(b.hooks().any(HOOK_FAULTS) && b.hooks().epoch() != epoch);
    assert_eq!((a.fault_hit(numbers[5]), b.fault_hit(numbers[5])), (0, 1));
    drop(a);
    let rules = b.fault_rules();
    assert_eq!((rules.len(), rules[5].hits, rules[6].hits), (64, 2, 0));
    assert_eq!(rules[5].words, [5; FAULT_WORDS]);
    let last = numbers.pop().unwrap();
    assert!(numbers.iter().all(|&n| b.fault_remove(n)) && b.hooks().any(HOOK_FAULTS));
    assert!(b.fault_remove(last) && !b.fault_remove(last) && !b.fault_remove(64));
    // The tool is gone as well.
    assert!(!b.hooks().any(u32::MAX));
    // A number that is used again begins without hits.
    let again = b.fault_add(&[7; FAULT_WORDS]).unwrap();
    assert_eq!(
        b.fault_rules()[0],
        FaultRule {
            index: again,
            words: [7; FAULT_WORDS],
            hits: 0
        }
    );

    let epoch = b.hooks().epoch();
    b.set_port_word(3, 5).unwrap();
    b.set_port_word(0, 6).unwrap();
    b.set_port_word(3, 7).unwrap();
    assert_eq!([0, 3, 4].map(|ifindex| b.port_word(ifindex)), [6, 7, 0]);
    assert_ne!(b.hooks().epoch(), epoch);
    assert!(b.hooks().any(HOOK_PORTS));
    b.set_port_word(3, 6).unwrap();
    assert!(!b.hooks().any(HOOK_PORTS));
    // a time stays until another one is said
    b.set_port(3, 8, 99).unwrap();
    b.set_port_word(3, 10).unwrap();
    b.set_port(5, 2, 7).unwrap();
    let said = |ifindex| (b.port_word(ifindex), b.port_until(ifindex));
    assert_eq!([3, 5, 0, 4].map(said), [(10, 99), (2, 7), (6, 0), (0, 0)]);
}

#[test]
fn who_is_no_member_reads_the_registry_of_those_who_are() {
    let options = options();
    assert!(Host::glance(&options.label).unwrap().is_none());
    let member = join(&options);
    member.set_port(3, PORT_GONE, 7).unwrap();
    let seen = Host::glance(&options.label).unwrap().unwrap();
    assert_eq!((seen.port_word(3), seen.port_until(3)), (PORT_GONE, 7));
    assert_eq!(seen.members().len(), 1, "to look is not to join");
    drop(member);
    assert!(Host::glance(&options.label).unwrap().is_none());
}

#[test]
fn hooks_last_as_long_as_the_tools_that_want_them() {
    let options = options();
    let adapter = join(&options);
    let tool = Tool {
        captures: true,
        wants_packets: true,
        ring_bytes: 1 << 20,
        snap_bytes: 96,
    };
    let (first, second) = (join(&options), join(&options));
    for host in [&first, &second] {
        host.become_tool(&tool).unwrap();
    }
    let seen = adapter.lookout().capturing();
    assert_eq!(
        seen,
        [(first.me(), tool), (second.me(), tool)],
        "what they said of themselves"
    );
    assert_eq!(Tool::of(&adapter.member(adapter.me()).unwrap()), None);
    drop(first);
    adapter.settle_hooks();
    assert!(adapter.hooks().any(HOOK_CAPTURE) && adapter.hooks().any(HOOK_PACKETS));
    let epoch = adapter.hooks().epoch();
    adapter.settle_hooks();
    assert_eq!(adapter.hooks().epoch(), epoch, "nothing was to be done");
    second.set_flags(0).unwrap();
    adapter.settle_hooks();
    assert!(!adapter.hooks().any(u32::MAX));
}

#[test]
fn a_process_takes_its_own_rules_along_when_it_ends() {
    let options = options();
    let (a, b) = (join(&options), join(&options));
    a.fault_add(&[1; FAULT_WORDS]).unwrap();
    a.fault_add_own(&[2; FAULT_WORDS]).unwrap();
    assert_eq!(b.fault_rules().len(), 2);
    let epoch = b.hooks().epoch();
    drop(a);
    let words: Vec<_> = b.fault_rules().iter().map(|rule| rule.words[0]).collect();
    assert_eq!(words, [1]);
    assert_ne!(b.hooks().epoch(), epoch, "others read the rules again");
}

#[test]
fn a_tool_hears_what_a_process_said_before_it_ended() {
    let options = options();
    let (tool, process) = (join(&options), join(&options));
    let call = process.lookout().connect(tool.me()).unwrap();
    call.send(b"last words", &[]).unwrap();
    drop((call, process));
    let mut bytes = [0; 32];
    // The joiner asked for the registry, too, and went.
    let joiner = tool.listener().accept_last_words().unwrap().unwrap();
    assert!(joiner.recv(&mut bytes).is_err());
    let heard = tool.listener().accept_last_words().unwrap().unwrap();
    let (length, _) = heard.recv(&mut bytes).unwrap().unwrap();
    assert_eq!(&bytes[..length], b"last words");
    assert!(heard.recv(&mut bytes).is_err());
    assert!(tool.listener().accept().unwrap().is_none());
}
