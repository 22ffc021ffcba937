//! The shared port under traffic: processes join it, leave it, die, stop and fork beside two that talk all the time, whose packets must
//! not suffer.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::PATIENCE;
use common::memory::Kind;
use common::party::*;
use common::process::{self, Channel, Child};
use ferriband_admin::Counter;
use ferriband_hca::*;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[
        ("obey", obey),
        ("fork", fork_role),
        ("stranger", stranger_role),
    ]);
}

const SETUP: Setup = Setup {
    service: QpType::Rc,
    memory: Kind::Private,
    len: 64 << 10,
    mr_access: ALL,
    qp_access: ALL,
    send_wr: 64,
    recv_wr: 64,
    sge: 4,
    inline: 64,
    cqe: 256,
    timeout: 17,
    retry: 7,
    rnr_retry: 7,
    min_rnr: 1,
    events: false,
};
/// How long the bystanders talk.
const TALK: Duration = Duration::from_secs(3);

/// Two processes that talk, while `disturb` goes on; they are told of nothing, and see nothing.
fn beside_traffic(mut disturb: impl FnMut()) {
    let mut pairs: Vec<Pair> = [SendOpcode::RdmaWrite, SendOpcode::RdmaRead]
        .into_iter()
        .map(|op| {
            let mut pair = Pair::alike(Party::there(), Party::there(), SETUP);
            let ask = Ask::new(op, 16 << 10, &pair.bi);
            pair.a.start_stream(&pair.ai, &ask, 4, TALK);
            pair
        })
        .collect();
    let begin = Instant::now();
    while begin.elapsed() < TALK {
        disturb();
    }
    for pair in &mut pairs {
        let flow = pair.a.end_stream();
        let [sent, again, gaps, timeouts] = pair.a.counters(&pair.ai);
        eprintln!("{flow:?}: {sent} packets, {again} again, {gaps} gaps, {timeouts} time-outs");
        assert_eq!(flow.status, None, "{flow:?}");
        assert!(flow.done > 0);
        // who waits for a processor is asked again now and then; what was lost costs more than that
        assert!(again * 10 <= sent + 1000, "{again} of {sent} packets again");
    }
    let counters = Context::open(0).unwrap().port_counters();
    let handed_over = counters[Counter::HandedOver as usize];
    eprintln!("{handed_over} packets came to the wrong process first");
    assert_eq!(full_sockets(), 0);
}

/// Datagrams that found a socket of this network full.
fn full_sockets() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|name| name == "RcvbufErrors");
    values.split(' ').nth(at.unwrap()).unwrap().parse().unwrap()
}

on_packets!(joining_and_leaving_disturbs_nobody, {
    beside_traffic(|| {
        let mut pair = Pair::alike(Party::there(), Party::there(), SETUP);
        pair.exchange();
        pair.a.destroy(&pair.ai);
        pair.b.destroy(&pair.bi);
    });
});

on_packets!(dying_disturbs_nobody, {
    beside_traffic(|| {
        let mut pair = Pair::alike(Party::there(), Party::there(), SETUP);
        pair.exchange();
        pair.a.child().kill();
        pair.b.child().kill();
    });
});

on_packets!(who_is_stopped_holds_up_nobody, {
    let mut stopped = Pair::alike(Party::there(), Party::there(), SETUP);
    stopped.exchange();
    stopped.a.child().stop();
    beside_traffic(|| {
        // a death makes the next who joins find out where everybody is: the stopped one does not say
        let mut pair = Pair::alike(Party::there(), Party::there(), SETUP);
        pair.exchange();
        pair.a.child().kill();
    });
    stopped.a.child().resume();
    stopped.exchange();
});

on_packets!(a_child_of_a_member_takes_nothing_from_it, {
    let forking = Child::spawn("fork");
    beside_traffic(|| {
        forking.channel.send(&[]);
        assert_eq!(forking.channel.recv(), [1]);
    });
});

/// Has a queue pair with itself, forks children that live for a while, and sees that its own packets come.
fn fork_role(channel: Channel) {
    let ctx = Context::open(0).unwrap();
    let (a, b) = (
        Endpoint::new(&ctx, SETUP).unwrap(),
        Endpoint::new(&ctx, SETUP).unwrap(),
    );
    join(&a, &b);
    let info = b.info(0);
    while channel.try_recv().is_some() {
        // SAFETY: the child makes async-signal-safe calls only.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above.
            unsafe {
                libc::usleep(20_000);
                libc::_exit(0);
            }
        }
        for wr_id in 0..20 {
            a.post(&Ask::new(SendOpcode::RdmaWrite, 4096, &info).id(wr_id))
                .unwrap();
            let got = a.wait();
            assert_eq!((got.wr_id, got.status), (wr_id, 0));
        }
        // SAFETY: our own child.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        channel.send(&[1]);
    }
}

/// Sockets of this process on the RoCE port that are connected to somebody.
fn senders_with_sockets() -> usize {
    let of_this_process: Vec<String> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|name| {
            let name = name.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some(name.to_owned())
        })
        .collect();
    // place, local and remote address, state, queues, timer, retransmissions, user, time-out, inode (proc(5))
    let is_one = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words[1].ends_with(":12B7")
            && !words[2].ends_with(":0000")
            && of_this_process.iter().any(|inode| inode == words[9])
    };
    let of = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        let text = text.unwrap_or_default();
        text.lines().skip(1).filter(|line| is_one(line)).count()
    };
    of("udp") + of("udp6")
}

on_packets!(a_sender_has_a_socket_of_its_own_until_it_sends_to_others, {
    const QUEUE_PAIRS: usize = 64;
    let (mut sender, mut here, mut third) = (Party::there(), Party::here(), Party::there());
    let connect = |sender: &mut Party, other: &mut Party| {
        let (from, to) = (sender.make(SETUP), other.make(SETUP));
        sender.connect(&from, &to);
        other.connect(&to, &from);
        (from, to)
    };
    let (from, to) = connect(&mut sender, &mut here);
    // a process's sixteen source ports: one of these queue pairs has that of the first
    let others: Vec<_> = (0..QUEUE_PAIRS)
        .map(|_| connect(&mut sender, &mut third))
        .collect();
    let mut talk = |sender: &mut Party, from: &Info, with: &Info, ms: u64| {
        let ask = Ask::new(SendOpcode::RdmaWrite, 64, with);
        sender.start_stream(from, &ask, 4, Duration::from_millis(ms));
        here.spin(&to, ms + ms / 2);
        let flow = sender.end_stream();
        assert_eq!(flow.status, None, "{flow:?}");
        assert!(flow.done > 0);
    };
    let have_socket = |sender: &mut Party, talk: &mut dyn FnMut(&mut Party, &Info, &Info, u64)| {
        let begun = Instant::now();
        while senders_with_sockets() == 0 {
            let waited = begun.elapsed();
            assert!(waited < PATIENCE, "nobody has a socket of its own");
            talk(sender, &from, &to, 50);
        }
    };
    // all of it arrives, although some of it comes here first
    let handed_over = || {
        let counters = Context::open(0).unwrap().port_counters();
        counters[Counter::HandedOver as usize]
    };
    let before = handed_over();
    let shared = others.iter().position(|(other, to_third)| {
        // one that was silent for a second, on a busy machine, has none any more
        talk(&mut sender, &from, &to, 10);
        have_socket(&mut sender, &mut talk);
        talk(&mut sender, other, to_third, 10);
        handed_over() > before
    });
    let shared = shared.expect("two of 65 queue pairs have a port in common");
    eprintln!("the {shared}th had the port of the first");
    // it was given back, and what is the third's goes there again
    assert_eq!(senders_with_sockets(), 0);
    let after = handed_over();
    let (other, to_third) = &others[shared];
    talk(&mut sender, other, to_third, 50);
    assert_eq!(handed_over(), after);
});

#[test]
fn a_second_user_is_refused_the_port_and_takes_nothing() {
    common::namespace::run_among_users(
        "a_second_user_is_refused_the_port_and_takes_nothing",
        || {
            beside_traffic(|| {
                let stranger = Child::spawn("stranger");
                assert_eq!(stranger.channel.recv(), [libc::EADDRINUSE as u64]);
            });
        },
    );
}

/// Becomes somebody else, and tries to get on the port.
fn stranger_role(channel: Channel) {
    const NOBODY: u32 = 65_534;
    // SAFETY: both take numbers; this process has one thread that matters.
    let changed = unsafe { (libc::setgid(NOBODY), libc::setuid(NOBODY)) };
    assert_eq!(changed, (0, 0));
    let end = Endpoint::new(&Context::open(0).unwrap(), SETUP).unwrap();
    let errno = end
        .connect(0x101, 0)
        .map_or_else(|error| error.errno(), |()| 0);
    channel.send(&[errno as u64]);
}
