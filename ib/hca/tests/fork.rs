//! Fork: the child's inherited objects answer EIO and touch nothing of the parent's; the child may start anew.
#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::party::*;
use common::process::{self, Channel, Child};
use ferriband_hca::*;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[("forker", forker_role), ("leaver", leaver_role)]);
}

const MESSAGES: u64 = 32;

/// How the forked child ends.
const ENDS: [&str; 3] = ["exit", "_exit", "SIGKILL"];

fn finish(how: u64) -> ! {
    match how {
        // SAFETY: runs the handlers of atexit, as a program does that returns from main.
        0 => unsafe { libc::exit(0) },
        // SAFETY: ends the process.
        1 => unsafe { libc::_exit(0) },
        _ => {
            // SAFETY: ends the process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            unreachable!()
        }
    }
}

/// Has a connection with the test, and forks while messages arrive.
fn forker_role(channel: Channel) {
    let how = channel.recv()[0];
    let ctx = Context::open(0).unwrap();
    let end = Endpoint::new(
        &ctx,
        Setup {
            events: true,
            ..Setup::default()
        },
    )
    .unwrap();
    let info = end.info(0);
    channel.send(&[
        u64::from(info.qpn),
        info.addr,
        u64::from(info.key),
        u64::from(info.lid),
    ]);
    let peer = channel.recv();
    end.connect(peer[0] as u32, peer[1] as u16).unwrap();
    (0..MESSAGES).for_each(|wr_id| end.recv(wr_id, 0, 64, None).unwrap());
    end.cq.req_notify(false).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    // SAFETY: the child below uses the C library as any forked program does.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        forked(&ctx, &end, Channel::new(theirs));
        drop((ctx, end, ours));
        finish(how);
    }
    drop(theirs);
    let child = Channel::new(ours);
    channel.send(&[pid as u64]);
    // this thread only sleeps meanwhile: the progress thread takes the messages in
    let verdict = child.recv();
    child.send(&[]);
    // the child's new connection, with a queue pair of the parent's
    let second = Endpoint::new(&ctx, Setup::default()).unwrap();
    let mine = second.info(0);
    child.send(&[u64::from(mine.qpn), u64::from(mine.lid)]);
    let theirs = child.recv();
    second.connect(theirs[0] as u32, theirs[1] as u16).unwrap();
    second.recv(5, 0, 64, None).unwrap();
    child.send(&[]);
    child.recv();
    second
        .post(&Ask::new(SendOpcode::Send, 8, &mine).id(6))
        .unwrap();
    let mut got = [second.wait(), second.wait()].map(|got| (got.wr_id, got.status));
    got.sort_unstable();
    assert_eq!(got, [(5, 0), (6, 0)]);
    child.send(&[]);
    let mut status = 0;
    // SAFETY: reaps our own child.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    let clean = if how == 2 {
        libc::WIFSIGNALED(status)
    } else {
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    };
    channel.send(&[u64::from(clean), verdict.len() as u64]);
    // all messages came to the parent, in order
    for wr_id in 0..MESSAGES {
        let got = end.wait();
        assert_eq!((got.wr_id, got.status), (wr_id, 0));
    }
    channel.recv();
    // and the connection still works
    end.recv(70, 0, 64, None).unwrap();
    channel.send(&[]);
    assert_eq!(end.wait().wr_id, 70);
    end.post(&Ask::new(SendOpcode::Send, 8, &info).id(71))
        .unwrap();
    assert_eq!((end.wait().wr_id, end.qp.state()), (71, QpState::Rts));
    end.close();
    channel.send(&[]);
}

/// What the child does with what it inherited; then it starts anew.
fn forked(ctx: &Arc<Context>, end: &Endpoint, parent: Channel) {
    let eio = |what: &str, result: Result<(), Error>| match result {
        Err(error) => assert_eq!(error.errno(), libc::EIO, "{what}: {error}"),
        Ok(()) => panic!("{what} succeeded with what the parent opened"),
    };
    let info = end.info(0);
    let init = MrInit {
        addr: end.memory.addr(),
        length: 64,
        iova: 0,
        access: Access::empty(),
    };
    let cqe = CqInit {
        cqe: 1,
        ..CqInit::default()
    };
    eio("post_send", end.post(&Ask::new(SendOpcode::Send, 8, &info)));
    eio("post_recv", end.recv(1, 0, 8, None));
    eio("poll_cq", end.cq.poll(1, |_| ()).map(|_| ()));
    eio("req_notify_cq", end.cq.req_notify(false));
    eio("resize_cq", end.cq.resize(512));
    eio("modify_qp", end.set_state(QpState::Err));
    eio("destroy_qp", end.qp.destroy());
    eio("destroy_cq", end.cq.destroy());
    eio("dereg_mr", end.mr.deregister());
    eio(
        "rereg_mr",
        end.mr.reregister(None, None, Some(Access::empty())),
    );
    eio("reg_mr", end.pd.reg_mr(init).map(|_| ()));
    eio("alloc_pd", ctx.alloc_pd().map(|_| ()));
    eio("dealloc_pd", end.pd.dealloc());
    eio("create_cq", ctx.create_cq(cqe).map(|_| ()));
    eio("create_comp_channel", ctx.create_comp_channel().map(|_| ()));
    eio("alloc_mw", end.pd.alloc_mw(MwKind::Type2).map(|_| ()));
    // a child that goes on polling takes nothing of what arrives for its parent
    let stop = Instant::now() + Duration::from_millis(60);
    while Instant::now() < stop {
        assert!(end.cq.poll(1, |_| ()).is_err());
    }
    parent.send(&[1]);
    parent.recv();
    let ctx = Context::open(0).unwrap();
    let own = Endpoint::new(&ctx, Setup::default()).unwrap();
    let info = own.info(0);
    let peer = parent.recv();
    own.connect(peer[0] as u32, peer[1] as u16).unwrap();
    own.recv(8, 0, 64, None).unwrap();
    parent.send(&[u64::from(info.qpn), u64::from(info.lid)]);
    parent.recv();
    own.post(&Ask::new(SendOpcode::Send, 8, &info).id(9))
        .unwrap();
    parent.send(&[]);
    let mut got = [own.wait(), own.wait()].map(|got| (got.wr_id, got.status));
    got.sort_unstable();
    assert_eq!(got, [(8, 0), (9, 0)]);
    parent.recv();
}

#[test]
fn a_forked_child_harms_nothing_of_its_parents_and_starts_anew() {
    for how in 0..ENDS.len() as u64 {
        let child = Child::spawn("forker");
        child.channel.send(&[how]);
        let ctx = Context::open(0).unwrap();
        let end = Endpoint::new(&ctx, Setup::default()).unwrap();
        let w = child.channel.recv();
        let there = Info {
            at: 0,
            qpn: w[0] as u32,
            addr: w[1],
            key: w[2] as u32,
            lid: w[3] as u16,
        };
        end.connect(there.qpn, there.lid).unwrap();
        child
            .channel
            .send(&[u64::from(end.qp.qpn), u64::from(there.lid)]);
        child.channel.recv();
        // these arrive while the forked child meddles
        for wr_id in 0..MESSAGES {
            end.post(&Ask::new(SendOpcode::Send, 8, &there).id(wr_id))
                .unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        for wr_id in 0..MESSAGES {
            assert_eq!((end.wait().wr_id, end.qp.state()), (wr_id, QpState::Rts));
        }
        let verdict = child.channel.recv();
        assert_eq!(
            verdict,
            [1, 1],
            "the child ended by {} as it should",
            ENDS[how as usize]
        );
        child.channel.send(&[]);
        child.channel.recv();
        end.recv(71, 0, 64, None).unwrap();
        end.post(&Ask::new(SendOpcode::Send, 8, &there).id(70))
            .unwrap();
        let mut got = [end.wait(), end.wait()].map(|got| (got.wr_id, got.status));
        got.sort_unstable();
        assert_eq!(got, [(70, 0), (71, 0)]);
        child.channel.recv();
        end.close();
    }
}

/// Forks with nothing but an open device; the child drops it and exits, and the parent goes on.
fn leaver_role(channel: Channel) {
    for how in 0..2 {
        let ctx = Context::open(0).unwrap();
        let pd = ctx.alloc_pd().unwrap();
        // SAFETY: as above.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            drop((ctx, pd));
            if how == 0 {
                // and opens it anew without using it
                drop(Context::open(0).unwrap());
            }
            finish(0);
        }
        let mut status = 0;
        // SAFETY: reaps our own child.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
            "{status:x}"
        );
        pd.dealloc().unwrap();
        let (a, b) = (
            Endpoint::new(&ctx, Setup::default()).unwrap(),
            Endpoint::new(&ctx, Setup::default()).unwrap(),
        );
        join(&a, &b);
        b.recv(1, 0, 64, None).unwrap();
        a.post(&Ask::new(SendOpcode::Send, 8, &b.info(0)).id(2))
            .unwrap();
        assert_eq!((b.wait().wr_id, a.wait().wr_id), (1, 2));
        a.close();
        b.close();
    }
    // the parent is still found by others
    obey(channel);
}

#[test]
fn a_child_that_drops_the_device_leaves_it_to_the_parent() {
    let mut pair = Pair::alike(
        Party::here(),
        Party::There(Child::spawn("leaver")),
        Setup::default(),
    );
    pair.exchange();
}
