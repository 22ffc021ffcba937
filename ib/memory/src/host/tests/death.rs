//! Deaths, seeming deaths, forks and execs.

use super::*;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;

/// A child that owns one of everything; says its reference, its block and its SRQ number.
fn owner_of_everything(options: &JoinOptions) -> Child {
    let options = options.clone();
    Child::spawn(move |line| {
        let host = join(&options);
        let block = host.claim_qpn_block(BlockKind::Native).unwrap();
        let qpn = Qpn(block * QPN_BLOCK);
        host.multicast_attach(&Gid([0xff; 16]), Lid(0xc000), qpn)
            .unwrap();
        let domain = host.xrc_domain_open(1, 2, XrcOpen::OrCreate).unwrap();
        let target = host.xrc_tgt_claim(&domain).unwrap();
        let target = host.xrc_tgt_publish(target).unwrap();
        let srq = host.xrc_srq_claim(&domain, [3, 4]).unwrap();
        line.say(&[
            host.me().to_word(),
            block.into(),
            srq.into(),
            target.qpn.0.into(),
        ]);
        line.wait();
    })
}

/// What of it is still there.
fn remains(host: &Host, block: u64, srq: u64, target: u64) -> [bool; 5] {
    let mut members = Vec::new();
    host.multicast_members(&Gid([0xff; 16]), &mut members);
    let id = xrc::domain_of_file(1, 2);
    [
        host.owner_of_qpn(Qpn(block as u32 * QPN_BLOCK + 7))
            .is_some(),
        !members.is_empty(),
        !host.xrc_domain_members(id).is_empty(),
        host.xrc_srq_find(srq as u32).is_some(),
        host.xrc_tgt_find(Qpn(target as u32)).is_some(),
    ]
}

#[test]
fn a_killed_process_leaves_nothing_once_somebody_looks() {
    let options = options();
    let host = join(&options);
    let mine = host.claim_qpn_block(BlockKind::Native).unwrap();
    let mut child = owner_of_everything(&options);
    let [word, block, srq, target] = child.hear().unwrap();
    assert_eq!(
        host.owner_of_qpn(Qpn(block as u32 * QPN_BLOCK)),
        Some(process(word))
    );
    assert_eq!(host.reap_process(process(word)).unwrap(), Fate::Alive);
    assert_eq!(remains(&host, block, srq, target), [true; 5]);
    let epoch = host.multicast_epoch();
    child.kill();
    assert_eq!(remains(&host, block, srq, target), [true; 5]);
    assert_eq!(host.reap_process(process(word)).unwrap(), Fate::Dead);
    assert_eq!(remains(&host, block, srq, target), [false; 5]);
    assert_ne!(host.multicast_epoch(), epoch);
    assert!(!host.is_live(process(word)));
    assert_eq!(host.reap_process(process(word)).unwrap(), Fate::Dead);
    assert_eq!(host.owner_of_qpn(Qpn(mine * QPN_BLOCK)), Some(host.me()));
    // The next owner of the slot inherits neither name nor numbers.
    let mut next = member(&options);
    let [again, _] = next.hear().unwrap();
    assert_eq!(process(again).slot, process(word).slot);
    assert_ne!(again, word);
    assert_eq!(host.reap_process(process(word)).unwrap(), Fate::Dead);
    assert!(host.is_live(process(again)));
    assert!(matches!(
        host.connect(process(word)),
        Err(HostError::Gone { .. })
    ));
}

#[test]
fn leaving_in_good_order_frees_everything_at_once() {
    let options = options();
    let host = join(&options);
    let mut child = owner_of_everything(&options);
    let [_, block, srq, target] = child.hear().unwrap();
    child.finish();
    assert_eq!(remains(&host, block, srq, target), [false; 5]);
}

#[test]
fn a_stopped_reaper_that_wakes_late_harms_no_later_owner() {
    let options = options();
    let host = join(&options);
    let mut child = owner_of_everything(&options);
    let [word, ..] = child.hear::<4>().unwrap();
    // What a reaper knows when it is stopped between reading and reaping.
    let known = host.occupant(process(word).slot).unwrap();
    child.kill();
    host.reap().unwrap();
    let mut next = owner_of_everything(&options);
    let [again, block, srq, target] = next.hear().unwrap();
    assert_eq!(process(again).slot, process(word).slot);
    host.free_all_of(known);
    assert_eq!(remains(&host, block, srq, target), [true; 5]);
    assert!(host.is_live(process(again)));
    next.finish();
}

#[test]
fn a_child_of_fork_neither_uses_nor_keeps_what_its_parent_held() {
    let options = options();
    let host = join(&options);
    let parent_options = options.clone();
    let mut parent = Child::spawn(move |line| {
        let held = join(&parent_options);
        let control = held.connect(held.me()).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        // SAFETY: as in the harness.
        match unsafe { libc::fork() } {
            0 => {
                // A fork does not inherit the alarm.
                // SAFETY: no precondition.
                unsafe { libc::alarm(CHILD_SECONDS) };
                let mut ok = matches!(
                    held.claim_qpn_block(BlockKind::Native),
                    Err(HostError::Forked)
                );
                ok &= matches!(held.connect(held.me()), Err(HostError::Forked));
                ok &= matches!(control.send(&[0], &[]), Err(HostError::Forked));
                ok &= matches!(held.listener().accept(), Err(HostError::Forked));
                // A new descriptor takes a number that the parent's had: dropping the old objects must spare it.
                let fresh: Vec<_> = (0..4).map(|_| std::io::pipe().unwrap()).collect();
                drop((held, control));
                ok &= fresh.iter().all(|(r, w)| {
                    rustix::io::fcntl_getfd(r).is_ok() && rustix::io::fcntl_getfd(w).is_ok()
                });
                // The child may join as itself.
                let own = join(&parent_options);
                line.say(&[u64::from(ok), own.me().to_word()]);
                drop(reader);
                line.forever();
            }
            pid => {
                drop(writer);
                line.say(&[held.me().to_word(), pid as u64]);
                line.forever();
            }
        }
    });
    // Parent and child write one record of two words each, in either order.
    let (a, b): ([u64; 2], [u64; 2]) = (parent.hear().unwrap(), parent.hear().unwrap());
    let (of_child, of_parent) = if a[0] <= 1 { (a, b) } else { (b, a) };
    assert_eq!(of_child[0], 1);
    assert_eq!(
        host.reap_process(process(of_parent[0])).unwrap(),
        Fate::Alive
    );
    parent.kill();
    assert_eq!(
        host.reap_process(process(of_parent[0])).unwrap(),
        Fate::Dead
    );
    assert_eq!(
        host.reap_process(process(of_child[1])).unwrap(),
        Fate::Alive
    );
    // SAFETY: the grandchild lives on until its alarm or now; its number was just seen in use by its name.
    unsafe { libc::kill(of_parent[1] as i32, libc::SIGKILL) };
    eventually("the grandchild is found dead", || {
        host.reap_process(process(of_child[1])).unwrap() == Fate::Dead
    });
}

#[test]
fn exec_ends_membership_though_the_process_lives_on() {
    let options = options();
    let host = join(&options);
    let child_options = options.clone();
    let mut child = Child::spawn(move |line| {
        let held = join(&child_options);
        line.say(&[held.me().to_word()]);
        line.wait();
        let error = std::process::Command::new("sleep").arg("60").exec();
        panic!("{error}");
    });
    let [word] = child.hear().unwrap();
    assert_eq!(host.reap_process(process(word)).unwrap(), Fate::Alive);
    child.tell();
    eventually("the old image is found gone", || {
        host.reap_process(process(word)).unwrap() == Fate::Dead
    });
    // SAFETY: our child, not waited for.
    assert_eq!(unsafe { libc::kill(child.pid, 0) }, 0);
}

#[test]
fn whoever_closes_our_sockets_behind_our_back_has_expelled_us() {
    let options = options();
    let host = join(&options);
    let child_options = options.clone();
    let mut child = Child::spawn(move |line| {
        let held = join(&child_options);
        let block = held.claim_qpn_block(BlockKind::Native).unwrap();
        line.say(&[held.me().to_word(), block.into()]);
        for fd in [
            held.listener.as_fd().as_raw_fd(),
            held.presence.get().unwrap().as_raw_fd(),
        ] {
            // SAFETY: the number is this process's, and `held`, which still names it, makes no use of it below.
            unsafe { libc::close(fd) };
        }
        line.say(&[1]);
        line.wait();
        let result = held.claim_qpn_block(BlockKind::Native);
        line.say(&[u64::from(matches!(result, Err(HostError::Expelled)))]);
        std::mem::forget(held);
    });
    let [word, block] = child.hear().unwrap();
    child.hear::<1>().unwrap();
    assert_eq!(host.reap_process(process(word)).unwrap(), Fate::Dead);
    child.tell();
    assert_eq!(child.hear().unwrap(), [1]);
    assert_eq!(host.owner_of_qpn(Qpn(block as u32 * QPN_BLOCK)), None);
    child.finish();
}

#[test]
fn a_thread_in_another_network_namespace_declares_nobody_dead() {
    if !is_root() {
        return;
    }
    let options = options();
    let host = join(&options);
    let mut child = member(&options);
    let [word, _] = child.hear().unwrap();
    let result = std::thread::scope(|scope| {
        let moved = scope.spawn(|| {
            // SAFETY: moves this thread alone, which ends soon.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
            let elsewhere = HostKey::current("").unwrap();
            assert_ne!(elsewhere.net_namespace, host.key().net_namespace);
            (host.reap_process(process(word)), host.reap())
        });
        moved.join().unwrap()
    });
    assert_eq!(
        result,
        (
            Err(HostError::OtherNamespace),
            Err(HostError::OtherNamespace)
        )
    );
    assert!(host.is_live(process(word)));
    child.finish();
}

#[test]
fn members_of_another_pid_namespace_join_and_their_death_is_seen() {
    if !is_root() {
        return;
    }
    let options = options();
    let host = join(&options);
    let child_options = options.clone();
    let mut child = Child::spawn(move |line| {
        // SAFETY: no precondition; it concerns the next fork.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWPID) }, 0);
        // SAFETY: as in the harness; the grandchild is process 1 of a new namespace.
        let pid = unsafe { libc::fork() };
        if pid != 0 {
            // SAFETY: no status is asked for.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            return;
        }
        // SAFETY: no precondition; a fork does not inherit the alarm.
        unsafe { libc::alarm(CHILD_SECONDS) };
        // /proc still counts as the old namespace does, so only the welcome can help.
        assert!(!identity::proc_is_of_our_namespace());
        let held = join(&child_options);
        let me = held.identity();
        line.say(&[
            held.me().to_word(),
            held.inode().unwrap(),
            me.pid.into(),
            me.pid_namespace,
        ]);
        line.wait();
        // SAFETY: ends this process only.
        unsafe { libc::raise(libc::SIGKILL) };
    });
    let stop = std::sync::atomic::AtomicBool::new(false);
    let said: [u64; 4] = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                while host.listener().accept().unwrap().is_some() {}
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let said = child.hear();
        stop.store(true, Ordering::Relaxed);
        said.unwrap()
    });
    assert_eq!((said[1], said[2]), (host.inode().unwrap(), 1));
    assert_ne!(said[3], host.identity().pid_namespace);
    assert_eq!(host.reap_process(process(said[0])).unwrap(), Fate::Alive);
    // Processes of its own number exist here, and do not count.
    child.tell();
    child.finish();
    assert_eq!(host.reap_process(process(said[0])).unwrap(), Fate::Dead);
}

#[test]
fn joiners_find_the_dead_without_anybody_asking() {
    let options = options();
    let anchor = join(&options);
    for _ in 0..200 {
        let mut child = member(&options);
        child.hear::<2>().unwrap();
        child.kill();
    }
    // Each joiner looks at more slots than it leaves behind.
    assert!(anchor.members().len() <= 3, "{}", anchor.members().len());
}
