//! The tables: bounds, races, numbers, and what scribbled words do.

use super::*;
use ::proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn blocks_are_unique_reserved_ones_are_kept_and_full_is_an_error() {
    let host = join(&options());
    let mut blocks = BTreeSet::new();
    let error = loop {
        match host.claim_qpn_block(BlockKind::Native) {
            Ok(block) => assert!(blocks.insert(block)),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, HostError::Full { .. }));
    assert_eq!(error.errno(), libc::ENOMEM);
    // All but QP0's, the multicast QPN's and the 256 of XRC.
    assert_eq!(blocks.len(), 65536 - 2 - 256);
    for qpn in [
        0,
        1,
        0xff,
        XRC_QPN_BASE,
        0xfe_ffff,
        0xff_ff00,
        0xff_ffff,
        0x100_0000,
        u32::MAX,
    ] {
        assert_eq!(host.owner_of_qpn(Qpn(qpn)), None, "{qpn:#x}");
    }
    assert!(!host.release_qpn_block(0) && !host.release_qpn_block(u32::MAX));
    assert!(host.release_qpn_block(77) && !host.release_qpn_block(77));
    assert_eq!(host.claim_qpn_block(BlockKind::Native).unwrap(), 77);
    assert_eq!(
        host.owner_of_qpn(Qpn(77 * QPN_BLOCK + 255)),
        Some(host.me())
    );
}

#[test]
fn a_full_table_is_emptied_of_the_dead_before_it_refuses() {
    let options = options();
    let host = join(&options);
    let child_options = options.clone();
    let mut child = Child::spawn(move |line| {
        let held = join(&child_options);
        while held.claim_qpn_block(BlockKind::Native).is_ok() {}
        line.say(&[1]);
        line.forever();
    });
    child.hear::<1>().unwrap();
    assert!(matches!(
        host.claim_qpn_block(BlockKind::Native),
        Err(HostError::Full { .. })
    ));
    child.kill();
    assert!(host.claim_qpn_block(BlockKind::Native).is_ok());
}

#[test]
fn processes_that_claim_at_once_never_share_a_block() {
    let options = options();
    let mut children: Vec<Child> = (0..4)
        .map(|_| {
            let options = options.clone();
            Child::spawn(move |line| {
                let host = join(&options);
                line.say(&[0]);
                line.wait();
                let blocks: Vec<u64> = (0..500)
                    .map(|_| host.claim_qpn_block(BlockKind::Native).unwrap().into())
                    .collect();
                assert!(
                    blocks
                        .iter()
                        .all(|b| host.owner_of_qpn(Qpn(*b as u32 * QPN_BLOCK)) == Some(host.me()))
                );
                line.say(&blocks);
                line.wait();
            })
        })
        .collect();
    children.iter_mut().for_each(|c| _ = c.hear::<1>().unwrap());
    children.iter_mut().for_each(Child::tell);
    let said: Vec<[u64; 500]> = children.iter_mut().map(|c| c.hear().unwrap()).collect();
    let all: BTreeSet<u64> = said.iter().flatten().copied().collect();
    assert_eq!(all.len(), 2000);
    children.into_iter().for_each(Child::finish);
}

#[test]
fn multicast_lists_who_is_attached_until_detached() {
    let options = options();
    let (a, b) = (join(&options), join(&options));
    let (group, other) = (Gid([0xff; 16]), Gid([0xfe; 16]));
    let qpns = |host: &Host, group: &Gid| {
        let mut members = Vec::new();
        host.multicast_members(group, &mut members);
        members
            .into_iter()
            .map(|m| (m.process, m.qpn.0, m.mlid.0))
            .collect::<BTreeSet<_>>()
    };
    let before = a.multicast_epoch();
    a.multicast_attach(&group, Lid(0xc001), Qpn(5)).unwrap();
    a.multicast_attach(&group, Lid(0xc001), Qpn(5)).unwrap();
    b.multicast_attach(&group, Lid(0xc001), Qpn(6)).unwrap();
    b.multicast_attach(&other, Lid(0xc002), Qpn(6)).unwrap();
    assert_ne!(a.multicast_epoch(), before);
    let both = BTreeSet::from([(a.me(), 5, 0xc001), (b.me(), 6, 0xc001)]);
    assert_eq!((qpns(&a, &group), qpns(&b, &group)), (both.clone(), both));
    assert!(
        !a.multicast_detach(&group, Lid(0xc001), Qpn(6)),
        "another's"
    );
    assert!(a.multicast_detach(&group, Lid(0xc001), Qpn(5)));
    assert!(!a.multicast_detach(&group, Lid(0xc001), Qpn(5)));
    assert_eq!(qpns(&a, &group), BTreeSet::from([(b.me(), 6, 0xc001)]));
    drop(b);
    assert!(qpns(&a, &group).is_empty() && qpns(&a, &other).is_empty());
    for qpn in 0..8192 {
        a.multicast_attach(&other, Lid(0xc002), Qpn(qpn)).unwrap();
    }
    let full = a.multicast_attach(&other, Lid(0xc002), Qpn(8192));
    assert!(matches!(full, Err(HostError::Full { limit: 8192, .. })));
}

#[test]
fn an_xrc_domain_and_its_target_outlive_their_creator_and_end_with_the_last_opening() {
    let options = options();
    let (a, b) = (join(&options), join(&options));
    assert!(matches!(
        a.xrc_domain_open(7, 8, XrcOpen::Existing),
        Err(HostError::NoDomain)
    ));
    let opened = a.xrc_domain_open(7, 8, XrcOpen::CreateNew).unwrap();
    assert!(matches!(
        b.xrc_domain_open(7, 8, XrcOpen::CreateNew),
        Err(HostError::DomainExists)
    ));
    let shared = b.xrc_domain_open(7, 8, XrcOpen::Existing).unwrap();
    let private = b.xrc_domain_private().unwrap();
    assert_eq!(opened.id, shared.id);
    assert!(private.id != shared.id && b.xrc_domain_private().unwrap().id != private.id);
    assert_eq!(a.xrc_domain_members(opened.id), [a.me(), b.me()]);

    let claimed = a.xrc_tgt_claim(&opened).unwrap();
    assert!(b.xrc_tgt_find(claimed.qpn).is_none(), "not published");
    a.xrc_tgt_store(&claimed, XRC_TARGET_WORDS - 1, 9);
    let made = a.xrc_tgt_publish(claimed).unwrap();
    let found = b.xrc_tgt_find(made.qpn).unwrap();
    assert_eq!(
        (found.domain, found.creator(), found.index()),
        (opened.id, a.me(), made.index())
    );
    assert_eq!(b.xrc_tgt_load(&found, XRC_TARGET_WORDS - 1), 9);
    assert_eq!(b.xrc_tgt_cas(&found, 0, 0, 5), Ok(0));
    assert_eq!(a.xrc_tgt_cas(&made, 0, 0, 6), Err(5));

    drop(a);
    assert!(b.xrc_tgt_is_current(&found));
    assert_eq!(
        b.xrc_tgt_find(made.qpn).map(|t| b.xrc_tgt_load(&t, 0)),
        Some(5)
    );
    assert!(b.xrc_domain_close(shared) && !b.xrc_domain_close(shared));
    assert!(!b.xrc_tgt_is_current(&found) && b.xrc_tgt_find(made.qpn).is_none());
    assert!(matches!(
        b.xrc_domain_open(7, 8, XrcOpen::Existing),
        Err(HostError::NoDomain)
    ));
}

#[test]
fn of_many_that_make_one_xrc_domain_exactly_one_succeeds() {
    let options = options();
    for round in 0..8 {
        let mut children: Vec<Child> = (0..6)
            .map(|_| {
                let options = options.clone();
                Child::spawn(move |line| {
                    let host = join(&options);
                    line.say(&[0]);
                    line.wait();
                    let made = host.xrc_domain_open(1, round, XrcOpen::CreateNew);
                    line.say(&[u64::from(made.is_ok())]);
                    line.wait();
                })
            })
            .collect();
        children.iter_mut().for_each(|c| _ = c.hear::<1>().unwrap());
        children.iter_mut().for_each(Child::tell);
        let winners: u64 = children.iter_mut().map(|c| c.hear::<1>().unwrap()[0]).sum();
        assert_eq!(winners, 1);
        children.into_iter().for_each(Child::finish);
    }
}

#[test]
fn a_dead_owner_does_not_make_an_xrc_domain_exist() {
    let options = options();
    let host = join(&options);
    let child_options = options.clone();
    let mut child = Child::spawn(move |line| {
        let held = join(&child_options);
        let domain = held.xrc_domain_open(3, 4, XrcOpen::CreateNew).unwrap();
        let target = held.xrc_tgt_claim(&domain).unwrap();
        line.say(&[held.xrc_tgt_publish(target).unwrap().qpn.0.into()]);
        line.forever();
    });
    let [qpn] = child.hear().unwrap();
    assert!(host.xrc_tgt_find(Qpn(qpn as u32)).is_some());
    child.kill();
    assert!(matches!(
        host.xrc_domain_open(3, 4, XrcOpen::Existing),
        Err(HostError::NoDomain)
    ));
    assert!(host.xrc_tgt_find(Qpn(qpn as u32)).is_none());
    host.xrc_domain_open(3, 4, XrcOpen::CreateNew).unwrap();
}

#[test]
fn numbers_of_targets_and_srqs_are_unique_nonzero_and_rest_after_use() {
    let host = join(&options());
    let domain = host.xrc_domain_private().unwrap();
    let first = host
        .xrc_tgt_publish(host.xrc_tgt_claim(&domain).unwrap())
        .unwrap();
    assert!(host.xrc_tgt_free(first) && !host.xrc_tgt_free(first));
    let second = host
        .xrc_tgt_publish(host.xrc_tgt_claim(&domain).unwrap())
        .unwrap();
    assert_eq!(first.index(), second.index());
    assert_ne!(first.qpn, second.qpn);
    assert!(host.xrc_tgt_find(first.qpn).is_none() && !host.xrc_tgt_is_current(&first));
    let mut numbers = BTreeSet::new();
    for _ in 0..16383 {
        let number = host.xrc_srq_claim(&domain, [1, 2]).unwrap();
        assert!(number != 0 && number < 1 << 24 && numbers.insert(number));
    }
    assert!(matches!(
        host.xrc_srq_claim(&domain, [1, 2]),
        Err(HostError::Full { .. })
    ));
    let number = *numbers.first().unwrap();
    let expected = XrcSrq {
        process: host.me(),
        domain: domain.id,
        words: [1, 2],
    };
    assert_eq!(host.xrc_srq_find(number), Some(expected));
    assert!(host.xrc_srq_free(number) && !host.xrc_srq_free(number));
    assert!(host.xrc_srq_find(number).is_none());
    assert!(!numbers.contains(&host.xrc_srq_claim(&domain, [1, 2]).unwrap()));
}

#[test]
fn flags_and_identity_are_seen_by_others() {
    let options = options();
    let (a, b) = (join(&options), join(&options));
    a.set_flags(0x8000_0001).unwrap();
    let seen = b.member(a.me()).unwrap();
    assert_eq!(
        (seen.flags, seen.identity, seen.process),
        (0x8000_0001, a.identity(), a.me())
    );
    let stale = ProcessRef {
        generation: 99,
        ..a.me()
    };
    assert!(b.member(stale).is_none() && !b.is_live(stale));
    assert!(!b.is_live(ProcessRef {
        slot: u32::MAX,
        generation: 1
    }));
    assert_eq!(ProcessRef::from_word(a.me().to_word()), Some(a.me()));
    for bad in [0, 0xffff, 1 << 48, u64::MAX, 1 << 16 | 4096] {
        assert_eq!(ProcessRef::from_word(bad), None, "{bad:#x}");
    }
}

#[test]
fn registries_of_other_domains_sizes_and_kinds_are_refused() {
    let key = HostKey::current("a").unwrap();
    let registry = Registry::create(&key).unwrap();
    let handed = || registry.fd().try_clone_to_owned().unwrap();
    assert!(Registry::open(handed(), &key).is_ok());
    for other in [
        HostKey {
            uid: key.uid + 1,
            ..key.clone()
        },
        HostKey {
            boot_id: key.boot_id ^ 1,
            ..key.clone()
        },
        HostKey {
            net_namespace: 1,
            ..key.clone()
        },
        HostKey {
            label: "b".into(),
            ..key.clone()
        },
    ] {
        assert!(matches!(
            Registry::open(handed(), &other),
            Err(HostError::BadRegistry { .. })
        ));
    }
    registry.store(header::VERSION, 1);
    assert!(matches!(
        Registry::open(handed(), &key),
        Err(HostError::BadRegistry { .. })
    ));
    let mut longer = crate::Segment::create("x", layout::BYTES + 4096).unwrap();
    assert!(matches!(
        Registry::open(longer.take_fd().unwrap(), &key),
        Err(HostError::BadRegistry { .. })
    ));
    let file = File::open("/proc/self/exe").unwrap();
    assert!(matches!(
        Registry::open(file.into(), &key),
        Err(HostError::Memory(_))
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever stands in the segment, nothing panics or runs on.
    #[test]
    fn scribbled_tables_are_survived(seed: u64, density in 1_usize..200) {
        let key = HostKey::current("scribble").unwrap();
        let registry = Registry::create(&key).unwrap();
        let mut random = seed;
        for at in (header::GUID..layout::BYTES).step_by(8 * density) {
            random = identity::mix(random);
            // Often a plausible claim, else noise.
            registry.store(at, if random & 1 == 0 { random >> 60 | (random & 0xfff0) } else { random });
        }
        let me = ProcessRef { slot: seed as u32 % 4096, generation: 1 };
        let mut members = Vec::new();
        for i in 0..64_u64 {
            random = identity::mix(random ^ i);
            let number = random as u32;
            registry.owner_of_qpn(Qpn(number));
            registry.kind_of_qpn(Qpn(number));
            registry.steering_of(ProcessRef { slot: number, generation: number });
            registry.xrc_tgt_find(Qpn(number));
            registry.xrc_tgt_find(Qpn(XRC_QPN_BASE | number & 0xffff));
            registry.xrc_srq_find(number);
            registry.is_live(ProcessRef { slot: number, generation: number });
            registry.xrc_domain_members(random);
        }
        registry.multicast_members(&Gid([0; 16]), &mut members);
        registry.members();
        let _ = registry.claim_qpn_block(me, BlockKind::Auto, Some(random as u32));
        registry.qpn_blocks();
        registry.xrc_targets();
        registry.steering_entries();
        registry.set_steering_index(me, true, Some(random as u16));
        registry.begin_steering_probe();
        registry.services();
        registry.service_find(random, &Gid([0; 16]));
        registry.fault_rules();
        registry.port_word(random as u32);
        registry.change_hooks(1, 2);
        while registry.take_orphan().is_some() {}
        let _ = registry.multicast_attach(me, &Gid([0; 16]), Lid(0), Qpn(0));
        let _ = registry.xrc_create_domain(me, seed);
        let _ = registry.xrc_srq_claim(me, seed, [0; 2]);
        let prober = Prober::new(&key).unwrap();
        reap_some(&registry, &prober, 256).unwrap();
        registry.sweep_orphans();
    }
}

#[test]
fn what_ended_processes_counted_stays_and_is_put_together() {
    const ETH: u32 = 7;
    let options = options();
    let host = join(&options);
    let own = host.count_port(ETH).unwrap();
    own.add(0, 5);
    let sum_of = |ifindex: u32, counter: usize| -> u64 {
        let counts = host.port_counts();
        let of_it = counts.iter().filter(|count| count.ifindex == ifindex);
        of_it.map(|count| count.counters[counter]).sum()
    };
    for round in 1..=3 {
        let child_options = options.clone();
        let mut child = Child::spawn(move |line| {
            let held = join(&child_options);
            let eth = held.count_port(ETH).unwrap();
            let other = held.count_port(ETH + 1).unwrap();
            eth.add(0, 10);
            eth.add(PORT_COUNTERS - 1, 3);
            other.add(0, 1);
            line.say(&[1]);
            line.forever();
        });
        child.hear::<1>().unwrap();
        assert_eq!(sum_of(ETH, 0), 5 + 10 * round);
        child.kill();
        host.reap().unwrap();
        assert_eq!(sum_of(ETH, 0), 5 + 10 * round);
        assert_eq!(sum_of(ETH, PORT_COUNTERS - 1), 3 * round);
        assert_eq!(sum_of(ETH + 1, 0), round);
        // each that begins puts together what it finds: the last one's is left beside it
        let ended = host.port_counts();
        let ended = ended.iter().filter(|count| count.process.is_none());
        assert!(ended.count() <= 4);
    }
    let more = host.count_port(ETH).unwrap();
    more.add(0, 100);
    assert_eq!(sum_of(ETH, 0), 135);
    let counts = host.port_counts();
    let of = |process| {
        counts
            .iter()
            .filter(move |c| c.process == process && c.ifindex == ETH)
    };
    assert_eq!(of(None).count(), 1);
    assert_eq!(of(Some(host.me())).map(|c| c.counters[0]).sum::<u64>(), 105);
}
