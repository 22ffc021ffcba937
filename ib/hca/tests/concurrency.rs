//! Many peers, many threads, and threads that sleep: nothing is lost, and nobody sleeps through a completion.
#![allow(clippy::unwrap_used)]

mod common;

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::party::*;
use common::process::{self, Channel, Child};
use common::rounds;
use ferriband_hca::*;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[("obey", obey), ("echo", echo_role), ("sink", sink_role)]);
}

/// Longer than any scheduling delay: a sleeper that is not woken for this long was forgotten.
const FORGOTTEN_MS: i32 = 8000;

/// Sleeps on a descriptor, without a call into the adapter. False if nothing came.
fn sleep_on(fd: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry, ours.
    unsafe { libc::poll(&mut poll, 1, FORGOTTEN_MS) == 1 }
}

/// The next completion of a queue in event mode: asked for, looked for once more, slept for.
#[track_caller]
fn next_by_event(end: &Endpoint, cq: &Cq) -> Got {
    loop {
        if let Some(got) = poll(cq) {
            return got;
        }
        cq.req_notify(false).unwrap();
        if let Some(got) = poll(cq) {
            return got;
        }
        let channel = end.channel.as_ref().unwrap();
        assert!(sleep_on(channel.events.fd()), "a wake-up was lost");
        channel.next_event().unwrap();
    }
}

fn poll(cq: &Cq) -> Option<Got> {
    let mut got = None;
    cq.poll(1, |entry| got = Some(Got::of(&entry.completion)))
        .unwrap();
    got
}

/// How one side of a ping-pong waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waits {
    /// Sleeps for each completion; one queue for sends and receives.
    Events,
    /// The same, with two queues on one channel, as perftest does.
    TwoQueues,
    /// Polls.
    Polls,
    /// Sleeps, while another thread polls another queue now and then.
    BesidePoller,
}

impl Waits {
    const ALL: [Waits; 4] = [
        Waits::Events,
        Waits::TwoQueues,
        Waits::Polls,
        Waits::BesidePoller,
    ];

    fn of(word: u64) -> Self {
        Self::ALL[word as usize]
    }
}

fn endpoint(waits: Waits, len: usize) -> Endpoint {
    let ctx = Context::open(0).unwrap();
    let setup = Setup {
        events: waits != Waits::Polls,
        len,
        ..Setup::default()
    };
    if waits != Waits::TwoQueues {
        return Endpoint::new(&ctx, setup).unwrap();
    }
    let pd = ctx.alloc_pd().unwrap();
    let channel = ctx.create_comp_channel().unwrap();
    let cq = || {
        ctx.create_cq(CqInit {
            cqe: 64,
            channel: Some(channel.clone()),
            ..CqInit::default()
        })
        .unwrap()
    };
    Endpoint::with(&ctx, setup, pd, Some(channel.clone()), cq(), cq()).unwrap()
}

/// One side of a ping-pong of `count` messages: sends and receives take turns, and both have to be heard of.
fn ping_pong(end: &Endpoint, waits: Waits, first: bool, count: u64, len: u32) {
    let info = end.info(0);
    let (mut sent, mut got) = (0, 0);
    let send = |sent: &mut u64| {
        end.post(&Ask::new(SendOpcode::Send, len, &info).id(1 << 32 | *sent))
            .unwrap();
        *sent += 1;
    };
    for wr_id in 0..4 {
        end.recv(wr_id, 0, len, None).unwrap();
    }
    if first {
        send(&mut sent);
    }
    let (mut acked, mut turn) = (0, 0);
    while got < count || acked < count {
        let done = match waits {
            Waits::Polls => end.wait(),
            Waits::Events | Waits::BesidePoller => next_by_event(end, &end.cq),
            Waits::TwoQueues => {
                turn += 1;
                either_by_event(end, turn)
            }
        };
        assert_eq!(done.status, 0, "{done:?} after {sent} sent, {got} received");
        if done.wr_id >> 32 == 1 {
            assert_eq!(done.wr_id & 0xffff_ffff, acked);
            acked += 1;
            continue;
        }
        assert_eq!(done.wr_id, got, "in order");
        end.recv(got + 4, 0, len, None).unwrap();
        got += 1;
        if sent < count {
            send(&mut sent);
        }
    }
}

/// The next completion of either of two queues on one channel.
fn either_by_event(end: &Endpoint, turn: u64) -> Got {
    let queues = if turn.is_multiple_of(2) {
        [&end.cq, &end.recv_cq]
    } else {
        [&end.recv_cq, &end.cq]
    };
    loop {
        if let Some(got) = queues.iter().find_map(|cq| poll(cq)) {
            return got;
        }
        queues.iter().for_each(|cq| cq.req_notify(false).unwrap());
        if let Some(got) = queues.iter().find_map(|cq| poll(cq)) {
            return got;
        }
        let channel = end.channel.as_ref().unwrap();
        assert!(sleep_on(channel.events.fd()), "a wake-up was lost");
        channel.next_event().unwrap();
    }
}

/// Runs `work` while another thread of this process polls a queue of its own in bursts.
fn beside_poller(waits: Waits, work: impl FnOnce()) {
    if waits != Waits::BesidePoller {
        return work();
    }
    let stop = AtomicBool::new(false);
    let end = endpoint(Waits::Polls, 4096);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0u64.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                for _ in 0..(round % 97) * 3 {
                    assert_eq!(end.poll(), None);
                }
                std::thread::sleep(Duration::from_micros(round % 1500));
            }
        });
        work();
        stop.store(true, Ordering::Relaxed);
    });
}

/// The other side of a ping-pong.
fn echo_role(channel: Channel) {
    let words = channel.recv();
    let (waits, count, len) = (Waits::of(words[0]), words[1], words[2] as u32);
    let end = endpoint(waits, len as usize);
    let info = end.info(0);
    channel.send(&[u64::from(info.qpn), u64::from(info.lid)]);
    let peer = channel.recv();
    end.connect(peer[0] as u32, peer[1] as u16).unwrap();
    channel.send(&[]);
    beside_poller(waits, || ping_pong(&end, waits, false, count, len));
    channel.send(&[]);
    // what the last message's sender has still to hear of is told while this process waits
    channel.try_recv();
}

fn ping_pong_with_process(here: Waits, there: Waits, count: u64, len: u32) {
    let child = Child::spawn("echo");
    child.channel.send(&[there as u64, count, u64::from(len)]);
    let w = child.channel.recv();
    let end = endpoint(here, len as usize);
    let info = end.info(0);
    end.connect(w[0] as u32, w[1] as u16).unwrap();
    child
        .channel
        .send(&[u64::from(info.qpn), u64::from(info.lid)]);
    child.channel.recv();
    beside_poller(here, || ping_pong(&end, here, true, count, len));
    child.channel.recv();
}

#[test]
fn sleepers_on_both_sides_are_always_woken() {
    ping_pong_with_process(Waits::Events, Waits::Events, rounds(15_000), 8);
    ping_pong_with_process(Waits::Events, Waits::Events, rounds(2_000), 4096);
}

#[test]
fn a_sleeper_is_woken_by_a_poller_and_the_other_way_around() {
    ping_pong_with_process(Waits::Events, Waits::Polls, rounds(8_000), 8);
    ping_pong_with_process(Waits::Polls, Waits::Events, rounds(8_000), 8);
}

#[test]
fn two_queues_on_one_channel_lose_no_event() {
    ping_pong_with_process(Waits::TwoQueues, Waits::TwoQueues, rounds(10_000), 8);
    ping_pong_with_process(Waits::TwoQueues, Waits::Events, rounds(5_000), 100);
}

#[test]
fn a_sleeper_beside_a_thread_that_polls_now_and_then_is_always_woken() {
    ping_pong_with_process(Waits::BesidePoller, Waits::Events, rounds(6_000), 8);
    ping_pong_with_process(Waits::BesidePoller, Waits::BesidePoller, rounds(6_000), 8);
}

#[test]
fn long_messages_wake_sleepers_too() {
    // beyond what a post does itself: the thread moves the data
    ping_pong_with_process(Waits::Events, Waits::Events, rounds(150), 1 << 20);
    ping_pong_with_process(Waits::TwoQueues, Waits::BesidePoller, rounds(150), 1 << 20);
}

#[test]
fn two_threads_of_one_process_wake_each_other() {
    let (a, b) = (endpoint(Waits::Events, 4096), endpoint(Waits::Events, 4096));
    join(&a, &b);
    std::thread::scope(|scope| {
        scope.spawn(|| ping_pong(&b, Waits::Events, false, rounds(8_000), 8));
        ping_pong(&a, Waits::Events, true, rounds(8_000), 8);
    });
}

/// A sleeper whose only work is its own: long writes that the progress thread moves for it.
#[test]
fn a_sleeper_hears_of_its_own_long_transfers() {
    let mut pair = Pair::alike(
        Party::here(),
        Party::there(),
        Setup {
            len: 4 << 20,
            events: true,
            ..Setup::default()
        },
    );
    let end = pair.a.agent().end(pair.ai.at);
    for round in 0..rounds(60) {
        let op = if round % 2 == 0 {
            SendOpcode::RdmaWrite
        } else {
            SendOpcode::RdmaRead
        };
        for wr_id in 0..3 {
            end.post(&Ask::new(op, 4 << 20, &pair.bi).id(wr_id))
                .unwrap();
        }
        for wr_id in 0..3 {
            let got = next_by_event(end, &end.cq);
            assert_eq!((got.wr_id, got.status), (wr_id, 0));
        }
    }
    pair.exchange();
}

/// Takes in everything that arrives on so many queue pairs, for ever.
fn sink_role(channel: Channel) {
    let count = channel.recv()[0] as usize;
    let ctx = Context::open(0).unwrap();
    let pd = ctx.alloc_pd().unwrap();
    let cq = ctx
        .create_cq(CqInit {
            cqe: 4096,
            ..CqInit::default()
        })
        .unwrap();
    let setup = Setup {
        len: 1 << 20,
        ..Setup::default()
    };
    let make = |_| Endpoint::with(&ctx, setup, pd.clone(), None, cq.clone(), cq.clone()).unwrap();
    let ends: Vec<Endpoint> = (0..count).map(make).collect();
    let words = ends.iter().flat_map(|end| {
        let info = end.info(0);
        [
            u64::from(info.qpn),
            info.addr,
            u64::from(info.key),
            u64::from(info.lid),
        ]
    });
    channel.send(&words.collect::<Vec<_>>());
    let peers = channel.recv();
    for (at, (end, peer)) in ends.iter().zip(peers.chunks(2)).enumerate() {
        end.connect(peer[0] as u32, peer[1] as u16).unwrap();
        (0..64).for_each(|_| end.recv(at as u64, 0, 1 << 16, None).unwrap());
    }
    channel.send(&[]);
    let total = channel.recv()[0];
    let mut taken = 0;
    let stop = Instant::now() + common::PATIENCE;
    while taken < total && Instant::now() < stop {
        if let Some(got) = poll(&cq) {
            assert_eq!(got.status, 0);
            ends[got.wr_id as usize]
                .recv(got.wr_id, 0, 1 << 16, None)
                .unwrap();
            taken += 1;
        }
    }
    channel.send(&[taken]);
    channel.try_recv();
}

/// Queue pairs here on one completion queue, joined with those of a sink.
fn with_sink(count: usize) -> (Child, Vec<(Endpoint, Info)>) {
    let child = Child::spawn("sink");
    child.channel.send(&[count as u64]);
    let ctx = Context::open(0).unwrap();
    let pd = ctx.alloc_pd().unwrap();
    let cq = ctx
        .create_cq(CqInit {
            cqe: 1 << 16,
            ..CqInit::default()
        })
        .unwrap();
    let setup = Setup {
        len: 1 << 20,
        ..Setup::default()
    };
    let theirs = child.channel.recv();
    let mut ends = Vec::new();
    let mut words = Vec::new();
    for (at, w) in theirs.chunks(4).enumerate() {
        let end = Endpoint::with(&ctx, setup, pd.clone(), None, cq.clone(), cq.clone()).unwrap();
        let info = Info {
            at,
            qpn: w[0] as u32,
            addr: w[1],
            key: w[2] as u32,
            lid: w[3] as u16,
        };
        end.connect(info.qpn, info.lid).unwrap();
        words.extend([u64::from(end.qp.qpn), u64::from(info.lid)]);
        ends.push((end, info));
    }
    child.channel.send(&words);
    child.channel.recv();
    (child, ends)
}

/// Four threads post on sixteen queue pairs, two threads poll the one completion queue.
#[test]
fn threads_that_post_and_threads_that_poll_share_queues_and_lose_nothing() {
    let each = rounds(3_000);
    let (child, ends) = with_sink(16);
    let total = each * 16;
    // every fourth request is a SEND
    child.channel.send(&[total / 4]);
    let room: Vec<AtomicU64> = ends.iter().map(|_| AtomicU64::new(0)).collect();
    let seen: Vec<AtomicU64> = ends.iter().map(|_| AtomicU64::new(0)).collect();
    let taken = AtomicU64::new(0);
    let cq: Arc<Cq> = ends[0].0.cq.clone();
    let stop = Instant::now() + common::PATIENCE;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (ends, room) = (&ends, &room);
            scope.spawn(move || {
                for wr in 0..each * 4 {
                    let at = thread * 4 + (wr % 4) as usize;
                    let (end, info) = &ends[at];
                    while room[at].load(Ordering::Acquire) >= 32 {
                        assert!(Instant::now() < stop, "completions are missing");
                        std::thread::yield_now();
                    }
                    room[at].fetch_add(1, Ordering::AcqRel);
                    let round = wr / 4;
                    let op = [
                        SendOpcode::Send,
                        SendOpcode::RdmaWrite,
                        SendOpcode::FetchAdd,
                        SendOpcode::RdmaRead,
                    ];
                    let len = if round % 4 == 2 { 8 } else { 1 << (round % 15) };
                    let ask =
                        Ask::new(op[(round % 4) as usize], len, info).id((at as u64) << 32 | round);
                    end.post(&ask).unwrap();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                while taken.load(Ordering::Acquire) < total {
                    assert!(
                        Instant::now() < stop,
                        "{} of {total}",
                        taken.load(Ordering::Acquire)
                    );
                    cq.poll(8, |entry| {
                        let (id, status) = (entry.completion.wr_id, entry.completion.status);
                        assert_eq!(status, WcStatus::Success, "{id:x}");
                        let at = (id >> 32) as usize;
                        // each identifier once: the sum of 1 + identifier tells
                        seen[at].fetch_add(1 + (id & 0xffff_ffff), Ordering::Relaxed);
                        room[at].fetch_sub(1, Ordering::AcqRel);
                        taken.fetch_add(1, Ordering::AcqRel);
                    })
                    .unwrap();
                }
            });
        }
    });
    for sum in &seen {
        assert_eq!(sum.load(Ordering::Relaxed), each * (each + 1) / 2);
    }
    assert_eq!(child.channel.recv(), [total / 4]);
}

/// Everybody sends to one process, in all sizes; it takes in everything by one completion queue.
#[test]
fn sixty_four_peers_send_to_one_target() {
    let ctx = Context::open(0).unwrap();
    let pd = ctx.alloc_pd().unwrap();
    let channel = ctx.create_comp_channel().unwrap();
    let init = CqInit {
        cqe: 8192,
        channel: Some(channel.clone()),
        ..CqInit::default()
    };
    let cq = ctx.create_cq(init).unwrap();
    let setup = Setup {
        recv_wr: 32,
        send_wr: 16,
        ..Setup::default()
    };
    let mut peers = Vec::new();
    for at in 0..64u64 {
        let mut party = Party::there();
        let theirs = party.make(setup);
        let end = Endpoint::with(
            &ctx,
            setup,
            pd.clone(),
            Some(channel.clone()),
            cq.clone(),
            cq.clone(),
        )
        .unwrap();
        let info = end.info(0);
        party.connect(&theirs, &info);
        end.connect(theirs.qpn, theirs.lid).unwrap();
        (0..32).for_each(|_| end.recv(at, 0, 1 << 15, None).unwrap());
        peers.push((party, theirs, end, info));
    }
    let begin = Instant::now();
    for (at, (party, theirs, _, info)) in peers.iter_mut().enumerate() {
        let len = [8, 64, 4096, 20_000][at % 4];
        party.start_stream(
            theirs,
            &Ask::new(SendOpcode::Send, len, info),
            8,
            Duration::from_millis(1500),
        );
    }
    let mut taken = vec![0u64; 64];
    let mut idle = 0;
    // first by polling, then by events, until nothing comes any more
    while idle < 3 {
        let polls = begin.elapsed() < Duration::from_millis(700);
        let mut ids = Vec::new();
        cq.poll(32, |entry| {
            assert_eq!(entry.completion.status, WcStatus::Success);
            ids.push(entry.completion.wr_id);
        })
        .unwrap();
        for at in &ids {
            taken[*at as usize] += 1;
            peers[*at as usize].2.recv(*at, 0, 1 << 15, None).unwrap();
        }
        if !ids.is_empty() || polls {
            continue;
        }
        cq.req_notify(false).unwrap();
        let mut poll = libc::pollfd {
            fd: channel.events.fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, ours.
        if unsafe { libc::poll(&mut poll, 1, 500) } == 1 {
            channel.next_event().unwrap();
        } else if begin.elapsed() > Duration::from_millis(1600) {
            idle += 1;
        }
    }
    let mut total = 0;
    for (at, (party, ..)) in peers.iter_mut().enumerate() {
        let flow = party.end_stream();
        assert_eq!((flow.status, flow.done), (None, taken[at]), "peer {at}");
        assert!(flow.done > 0, "peer {at} was starved");
        total += flow.done;
    }
    eprintln!("64 peers: {total} messages in {:?}", begin.elapsed());
}
