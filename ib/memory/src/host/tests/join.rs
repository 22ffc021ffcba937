//! Joining: who meets whom, in which registry.

use super::*;
use std::collections::BTreeSet;

#[test]
fn simultaneous_first_joiners_make_one_registry() {
    let options = options();
    let (gate, open) = pipe();
    let mut children: Vec<Child> = (0..64)
        .map(|_| {
            let options = options.clone();
            let gate = gate.try_clone().unwrap();
            Child::spawn(move |line| {
                // One byte for each, written at once.
                let _ = File::from(gate).read(&mut [0]);
                let host = join(&options);
                line.say(&[host.me().to_word(), host.inode().unwrap()]);
                line.wait();
            })
        })
        .collect();
    File::from(open).write_all(&[1; 64]).unwrap();
    let said: Vec<[u64; 2]> = children.iter_mut().map(|c| c.hear().unwrap()).collect();
    let members: BTreeSet<u64> = said.iter().map(|s| s[0]).collect();
    let inodes: BTreeSet<u64> = said.iter().map(|s| s[1]).collect();
    assert_eq!((members.len(), inodes.len()), (64, 1));
    let host = join(&options);
    assert_eq!(Some(&host.inode().unwrap()), inodes.first());
    assert_eq!(host.members().len(), 65);
    children.into_iter().for_each(Child::finish);
    // They left in good order: nobody had to be found dead.
    assert_eq!(host.members().len(), 1);
    assert_eq!(host.reap().unwrap(), 0);
}

#[test]
fn the_registry_outlives_its_creator_and_ends_with_its_last_member() {
    let options = options();
    let mut creator = member(&options);
    let [first, inode] = creator.hear().unwrap();
    let mut second = member(&options);
    assert_eq!(second.hear::<2>().unwrap()[1], inode);
    creator.kill();
    let mut third = member(&options);
    let [slot, same] = third.hear().unwrap();
    assert_eq!(same, inode);
    // The dead creator's slot was found and reused, under a new generation.
    assert_eq!(process(slot).slot, process(first).slot);
    assert_eq!(process(slot).generation, process(first).generation + 1);
    second.kill();
    third.kill();
    let host = join(&options);
    assert_eq!(host.members().len(), 1);
    assert_eq!(
        host.me().generation,
        1,
        "a new registry, not one that somebody kept"
    );
}

#[test]
fn kills_at_any_moment_of_joining_leave_one_registry_and_no_litter() {
    let options = options();
    let mut anchor = member(&options);
    let [_, inode] = anchor.hear().unwrap();
    let mut seed = 1_u64;
    let mut living = Vec::new();
    for round in 0..300 {
        let child_options = options.clone();
        let mut child = Child::spawn(move |line| {
            let host = join(&child_options);
            let block = host.claim_qpn_block(BlockKind::Native).unwrap();
            line.say(&[host.me().to_word(), host.inode().unwrap(), block.into()]);
            line.forever();
        });
        if round % 10 == 0 {
            living.push(child);
            continue;
        }
        // From before its first system call to after its report.
        seed = identity::mix(seed);
        std::thread::sleep(Duration::from_micros(seed % 1500));
        child.kill();
    }
    let mut refs = BTreeSet::new();
    for child in &mut living {
        let [word, same, _] = child.hear().unwrap();
        assert_eq!(same, inode);
        refs.insert(process(word));
    }
    anchor.kill();
    let host = join(&options);
    assert_eq!(host.inode().unwrap(), inode);
    host.reap().unwrap();
    refs.insert(host.me());
    let members: BTreeSet<ProcessRef> = host.members().iter().map(|m| m.process).collect();
    assert_eq!(members, refs);
    let owned = (0..1 << 16)
        .filter_map(|block| host.owner_of_qpn(Qpn(block * QPN_BLOCK)))
        .collect::<Vec<_>>();
    assert_eq!(owned.len(), living.len());
    assert!(owned.iter().all(|owner| refs.contains(owner)));
}

#[test]
fn without_an_anchor_whoever_lives_shares_one_registry() {
    let options = options();
    let mut seed = 7_u64;
    for _ in 0..25 {
        let mut children: Vec<Child> = (0..4).map(|_| member(&options)).collect();
        seed = identity::mix(seed);
        std::thread::sleep(Duration::from_micros(seed % 3000));
        children[(seed >> 32) as usize % 4].kill();
        let other = &children[(seed >> 40) as usize % 4];
        if !other.reaped {
            // Not waited for: it may still be dying while the next one joins.
            other.signal(libc::SIGKILL);
        }
        let mut inodes = BTreeSet::new();
        for child in &mut children {
            if !child.reaped
                && let Some([_, inode]) = child.hear()
                && is_running(child)
            {
                inodes.insert(inode);
            }
        }
        assert!(inodes.len() <= 1, "{inodes:?}");
        let host = join(&options);
        assert!(inodes.iter().all(|inode| *inode == host.inode().unwrap()));
    }
}

/// Neither ended nor about to: a signal 9 that is under way shows as pending or as a zombie.
fn is_running(child: &Child) -> bool {
    std::thread::sleep(Duration::from_millis(5));
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.pid)).unwrap();
    let state = stat.rsplit(')').next().unwrap().trim().chars().next();
    !matches!(state, Some('Z' | 'X'))
}

#[test]
fn stopped_members_do_not_keep_others_out() {
    let options = options();
    let mut members: Vec<Child> = (0..3).map(|_| member(&options)).collect();
    let said: Vec<[u64; 2]> = members.iter_mut().map(|m| m.hear().unwrap()).collect();
    members.iter().for_each(Child::stop);
    let start = Instant::now();
    let host = join(&options);
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(host.inode().unwrap(), said[0][1]);
    assert_eq!(host.reap().unwrap(), 0);
    for [word, _] in said {
        assert_eq!(host.reap_process(process(word)).unwrap(), Fate::Alive);
    }
    members.iter().for_each(|m| m.signal(libc::SIGCONT));
    members.into_iter().for_each(Child::finish);
}

#[test]
fn a_member_that_cannot_be_looked_up_hands_the_registry_over_when_it_accepts() {
    let options = options();
    let mut silent = member(&options);
    silent.hear::<2>().unwrap();
    let key = HostKey::current(&options.label).unwrap();
    let me = ProcessIdentity::current().unwrap();
    let wait = Duration::from_millis(100);
    let find = || discover::find(&key, &me, wait, false);
    let start = Instant::now();
    match find() {
        Err(HostError::NoAnswer { pid }) => assert_eq!(pid as i32, silent.pid),
        other => panic!("{other:?}"),
    }
    assert!(start.elapsed() >= wait);
    let child_options = options.clone();
    let mut talker = Child::spawn(move |line| {
        let host = join(&child_options);
        line.say(&[host.inode().unwrap()]);
        loop {
            while host.listener().accept().unwrap().is_some() {}
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let [inode] = talker.hear().unwrap();
    assert_eq!(find().unwrap().unwrap().inode().unwrap(), inode);
    silent.kill();
    talker.kill();
    assert!(find().unwrap().is_none());
}

#[test]
fn a_stopped_joiner_of_another_domain_delays_nobody_for_long() {
    let other = options().label;
    let mut child = Child::spawn(move |line| {
        let key = HostKey::current(&other).unwrap();
        let _lock = DomainLock::acquire(&key, Duration::from_secs(5)).unwrap();
        line.say(&[0]);
        line.forever();
    });
    child.hear::<1>().unwrap();
    child.stop();
    let start = Instant::now();
    let host = join(&options());
    host.locked(Duration::from_secs(10), |_| ()).unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_joiner_that_stopped_holding_the_lock_is_named_and_its_death_frees_the_lock() {
    let options = options();
    let key = HostKey::current(&options.label).unwrap();
    let mut holder = Child::spawn(move |line| {
        let _lock = DomainLock::acquire(&key, Duration::from_secs(5)).unwrap();
        line.say(&[1]);
        line.forever();
    });
    holder.hear::<1>().unwrap();
    holder.stop();
    let hasty = JoinOptions {
        lock_wait: Duration::from_millis(300),
        ..options.clone()
    };
    match Host::join(hasty) {
        Err(HostError::LockTimeout {
            waited_ms: 300,
            holder: Some(pid),
        }) => assert_eq!(pid as i32, holder.pid),
        other => panic!("{other:?}"),
    }
    holder.kill();
    join(&options);
}

#[test]
fn another_user_has_another_domain_and_gets_nothing_of_ours() {
    if !is_root() {
        return;
    }
    const NOBODY: u32 = 65534;
    let options = options();
    let host = join(&options);
    let (child_options, key) = (options.clone(), host.key().clone());
    let mut child = Child::spawn(move |line| {
        // SAFETY: plain system calls; the child has one thread.
        assert_eq!(unsafe { libc::setgid(NOBODY) | libc::setuid(NOBODY) }, 0);
        let other = join(&child_options);
        assert_eq!(other.key().uid, NOBODY);
        // Dialling the root domain's listener: it takes the connection and drops it without a welcome.
        let Ok(names::Dialled::Member(fd, _)) = names::dial(&key, 0) else {
            panic!("no listener")
        };
        line.say(&[other.inode().unwrap(), other.guid().0, other.me().to_word()]);
        line.wait();
        line.say(&[u64::from(control::receive_welcome(&fd).is_some())]);
        line.wait();
    });
    let [inode, guid, me] = child.hear().unwrap();
    assert_ne!(inode, host.inode().unwrap());
    assert_ne!(guid, host.guid().0);
    assert_eq!(process(me).slot, 0, "names of the two do not collide");
    assert!(host.listener().accept().unwrap().is_none());
    child.tell();
    assert_eq!(child.hear().unwrap(), [0]);
    assert_eq!(host.members().len(), 1);
    child.finish();
    let directory = format!("/tmp/ferriband-{NOBODY}");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    std::fs::remove_dir(directory).unwrap();
}

#[test]
fn who_is_root_in_a_namespace_of_his_own_needs_nothing_of_the_true_root() {
    if !is_root() {
        return;
    }
    const USER: u32 = 65_432;
    let options = options();
    let host = join(&options);
    let mut child = Child::spawn(move |line| {
        // SAFETY: plain system calls, in a process of one thread.
        let left = unsafe {
            // its table is the process's own only while it may be dumped
            libc::setuid(USER) == 0
                && libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) == 0
                && libc::unshare(libc::CLONE_NEWUSER) == 0
        };
        let mapped = left && std::fs::write("/proc/self/uid_map", format!("0 {USER} 1")).is_ok();
        if !mapped {
            eprintln!("SKIPPED: user namespaces are not allowed here");
            return line.say(&[0, 0]);
        }
        assert!(is_root());
        let own = join(&options);
        line.say(&[own.inode().unwrap(), 1]);
        line.wait();
    });
    let [inode, joined] = child.hear().unwrap();
    assert_ne!(inode, host.inode().unwrap());
    if joined == 1 {
        child.tell();
    }
    child.finish();
    // not in the true root's place
    let _ = std::fs::remove_dir(format!("/tmp/ferriband-{USER}"));
    drop(host);
    drop(join(&self::options()));
}

#[test]
fn names_that_another_user_squats_on_are_passed_over() {
    if !is_root() {
        return;
    }
    let options = options();
    let key = HostKey::current(&options.label).unwrap();
    let mut squatter = Child::spawn(move |line| {
        // SAFETY: a plain system call.
        assert_eq!(unsafe { libc::setuid(65534) }, 0);
        let held: Vec<_> = (0..3)
            .map(|slot| {
                (
                    names::bind_presence(&key, slot),
                    names::bind_listener(&key, slot),
                )
            })
            .collect();
        let lock = names::bind_lock(&key).unwrap();
        line.say(&[held.len() as u64 + u64::from(lock.is_some())]);
        line.wait();
    });
    assert_eq!(squatter.hear().unwrap(), [4]);
    let host = join(&options);
    assert_eq!(host.me().slot, 3);
    let mut other = member(&options);
    assert_eq!(other.hear::<2>().unwrap()[1], host.inode().unwrap());
    // A squatter on the name of a process that is gone does not keep its entry.
    squatter.finish();
    other.finish();
}

#[test]
fn what_is_left_is_at_most_one_empty_directory() {
    let options = options();
    let mut child = member(&options);
    child.hear::<2>().unwrap();
    child.kill();
    let uid = rustix::process::geteuid().as_raw();
    for path in [
        format!("/run/user/{uid}/ferriband"),
        format!("/tmp/ferriband-{uid}"),
    ] {
        if let Ok(entries) = std::fs::read_dir(&path) {
            assert_eq!(entries.count(), 0, "{path}");
        }
    }
    let names = std::fs::read_to_string("/proc/net/unix").unwrap();
    assert!(!names.contains(&options.label), "{names}");
}

/// A pipe for each child is more than the usual soft limit of an ordinary user.
fn raise_descriptor_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    assert_eq!(
        // SAFETY: fills a structure of ours.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) },
        0
    );
    limit.rlim_cur = limit.rlim_max.min(65_536);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

#[test]
fn a_thousand_processes_join_and_each_in_short_time() {
    const PROCESSES: usize = 1024;
    const IN_TIME: Duration = Duration::from_secs(30);
    raise_descriptor_limit();
    let options = JoinOptions {
        lock_wait: IN_TIME,
        ..options()
    };
    let start = Instant::now();
    let mut children: Vec<Child> = (0..PROCESSES)
        .map(|_| {
            let options = options.clone();
            Child::spawn(move |line| {
                let start = Instant::now();
                let host = join(&options);
                let took = start.elapsed().as_micros() as u64;
                line.say(&[host.me().slot.into(), took]);
                line.wait();
            })
        })
        .collect();
    let mut said: Vec<[u64; 2]> = children.iter_mut().map(|c| c.hear().unwrap()).collect();
    let total = start.elapsed();
    let slots: BTreeSet<u64> = said.iter().map(|s| s[0]).collect();
    assert_eq!(slots.len(), PROCESSES);
    said.sort_by_key(|s| s[1]);
    // Alone, with all the others there: what a join costs without the wait for its turn.
    let alone = Instant::now();
    let host = join(&options);
    let alone = alone.elapsed();
    assert_eq!(host.members().len(), PROCESSES + 1);
    eprintln!(
        "{PROCESSES} joins in {total:?}; median {} us, slowest {} us with the wait for the lock; one more: {alone:?}",
        said[PROCESSES / 2][1],
        said[PROCESSES - 1][1]
    );
    assert!(total < IN_TIME && alone < Duration::from_millis(500));
    for child in &mut children {
        child.signal(libc::SIGKILL);
    }
    drop(children);
    let start = Instant::now();
    assert_eq!(host.reap().unwrap(), PROCESSES);
    eprintln!("{PROCESSES} dead processes reaped in {:?}", start.elapsed());
    assert_eq!(host.members().len(), 1);
}
