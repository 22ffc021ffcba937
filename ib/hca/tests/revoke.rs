//! Memory that is taken back while a peer uses it: once the call returns, no byte changes any more.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::memory::Kind;
use common::party::*;
use common::{eventually, process};
use ferriband_hca::*;
use ferriband_transport::types::*;

#[test]
fn child_entry() {
    process::run_role(&[("obey", obey)]);
}

const LIMIT: Duration = Duration::from_secs(10);

/// A peer that writes 0xff to the region of an endpoint here, again and again.
fn written_to(memory: Kind, len: u32) -> Pair {
    let setup = Setup {
        memory,
        len: 2 << 20,
        timeout: 10,
        retry: 2,
        ..Setup::default()
    };
    let mut pair = Pair::alike(Party::here(), Party::there(), setup);
    pair.b.fill(&pair.bi, 0, setup.len, 0xff);
    let ask = Ask::new(SendOpcode::RdmaWrite, len, &pair.ai);
    pair.b.start_stream(&pair.bi, &ask, 8, LIMIT);
    let end = pair.a.agent().end(pair.ai.at);
    eventually("the first write", || {
        end.memory.byte(len as usize - 1) == 0xff
    });
    pair
}

/// For a while, no byte of the memory changes.
#[track_caller]
fn watch(end: &Endpoint) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(20) {
        if end.memory.extremes(0, end.memory.len()) == (0, 0) {
            continue;
        }
        let written = (0..end.memory.len()).filter(|at| end.memory.byte(*at) != 0);
        let (first, last) = (written.clone().next(), { written }.next_back());
        panic!(
            "bytes {first:?} to {last:?} were written up to {:?} after the end",
            begin.elapsed()
        );
    }
}

const LENGTHS: [u32; 5] = [8, 64, 4096, 100_000, 2 << 20];

#[test]
fn a_region_deregistered_under_writes_is_free_at_once() {
    for memory in [Kind::Private, Kind::Shared] {
        for len in LENGTHS {
            let mut pair = written_to(memory, len);
            {
                let end = pair.a.agent().end(pair.ai.at);
                let begin = Instant::now();
                end.mr.deregister().unwrap();
                end.memory.reuse();
                assert!(
                    begin.elapsed() < Duration::from_secs(1),
                    "{:?}",
                    begin.elapsed()
                );
                watch(end);
            }
            let flow = pair.b.end_stream();
            assert_eq!(
                flow.status,
                Some(WcStatus::RemAccessErr as u32),
                "{memory:?} {len} {flow:?}"
            );
            assert_eq!(flow.flushed, 7);
        }
    }
}

#[test]
fn device_memory_deregistered_under_writes_is_free_at_once() {
    for len in LENGTHS {
        let mut pair = written_to(Kind::Device, len);
        let end = pair.a.agent().end(pair.ai.at);
        end.mr.deregister().unwrap();
        end.memory.fill(0, end.memory.len(), 0);
        watch(end);
        assert_eq!(
            pair.b.end_stream().status,
            Some(WcStatus::RemAccessErr as u32)
        );
    }
}

#[test]
fn a_deregistered_shared_region_is_unmapped_by_the_peers_that_mapped_it() {
    let setup = Setup {
        memory: Kind::Shared,
        ..Setup::default()
    };
    let mut pair = Pair::new(Party::here(), Party::there(), setup, Setup::default());
    let pid = pair.b.child().pid();
    let mapped = || {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        maps.lines()
            .filter(|line| line.contains("ferriband-test"))
            .count()
    };
    assert_eq!(mapped(), 0);
    let ask = Ask::new(SendOpcode::RdmaWrite, 4096, &pair.ai);
    pair.b.start_stream(&pair.bi, &ask, 8, LIMIT);
    eventually("the peer to map the region", || mapped() == 1);
    pair.a.agent().end(pair.ai.at).mr.deregister().unwrap();
    eventually("the peer to unmap the region", || mapped() == 0);
    assert_eq!(
        pair.b.end_stream().status,
        Some(WcStatus::RemAccessErr as u32)
    );
}

#[test]
fn a_region_registered_anew_elsewhere_gets_the_writes_there_only() {
    for memory in [Kind::Private, Kind::Shared] {
        let mut pair = written_to(memory, 4096);
        let end = pair.a.agent().end(pair.ai.at);
        // the same addresses of the key's space now name other memory of this process
        let rights = Access::LOCAL_WRITE | Access::REMOTE_READ;
        end.mr.reregister(None, None, Some(rights)).unwrap();
        end.memory.fill(0, end.memory.len(), 0);
        watch(end);
        assert_eq!(
            pair.b.end_stream().status,
            Some(WcStatus::RemAccessErr as u32)
        );
    }
}

#[test]
fn a_queue_pair_destroyed_reset_or_failed_under_writes_is_written_to_no_more() {
    for memory in [Kind::Private, Kind::Shared] {
        for len in [8, 4096, 2 << 20] {
            for how in ["destroy", "reset", "error"] {
                let mut pair = written_to(memory, len);
                {
                    let end = pair.a.agent().end(pair.ai.at);
                    match how {
                        "destroy" => end.qp.destroy().unwrap(),
                        "reset" => end.set_state(QpState::Reset).unwrap(),
                        _ => end.set_state(QpState::Err).unwrap(),
                    }
                    end.memory.fill(0, end.memory.len(), 0);
                    watch(end);
                }
                let flow = pair.b.end_stream();
                assert_eq!(
                    flow.status,
                    Some(WcStatus::RetryExcErr as u32),
                    "{how} {len} {flow:?}"
                );
            }
        }
    }
}

/// Binds a type 2 window over an endpoint's region; its key.
fn bind(end: &Endpoint, window: &Arc<Mw>, variant: u32) -> u32 {
    let rkey = window.first_key & !0xff | variant;
    let bind = BindMw {
        window: window.first_key,
        rkey,
        lkey: end.mr.key(),
        addr: end.base(),
        length: end.memory.len() as u64,
        access: Access::REMOTE_WRITE,
    };
    let request = request(SendOpcode::BindMw);
    end.qp
        .post_send(&SendRequest {
            bind: Some(bind),
            ..request
        })
        .unwrap();
    assert_eq!(end.wait().status, 0, "the window is bound");
    rkey
}

fn request(opcode: SendOpcode) -> SendRequest<'static> {
    SendRequest {
        wr_id: 9,
        opcode,
        flags: SendFlags::SIGNALED,
        sges: &[],
        imm_or_key: 0,
        remote_addr: 0,
        rkey: 0,
        compare_add: 0,
        swap: 0,
        ah: None,
        remote_qpn: 0,
        remote_qkey: 0,
        srqn: 0,
        bind: None,
    }
}

/// As [`written_to`], by a window that is bound to all of the region; the window and its key.
fn written_by_window(memory: Kind, len: u32) -> (Pair, Arc<Mw>, u32) {
    let setup = Setup {
        memory,
        len: 1 << 20,
        mr_access: ALL | Access::MW_BIND.bits(),
        timeout: 10,
        retry: 2,
        ..Setup::default()
    };
    let mut pair = Pair::alike(Party::here(), Party::there(), setup);
    pair.b.fill(&pair.bi, 0, setup.len, 0xff);
    let end = pair.a.agent().end(pair.ai.at);
    let window = end.pd.alloc_mw(MwKind::Type2).unwrap();
    let key = bind(end, &window, 0x42);
    let ask = Ask {
        key,
        ..Ask::new(SendOpcode::RdmaWrite, len, &pair.ai)
    };
    pair.b.start_stream(&pair.bi, &ask, 8, LIMIT);
    let end = pair.a.agent().end(pair.ai.at);
    eventually("the first write", || {
        end.memory.byte(len as usize - 1) == 0xff
    });
    (pair, window, key)
}

/// Invalidates a window's key by a work request.
fn invalidate(end: &Endpoint, key: u32) -> Got {
    end.qp
        .post_send(&SendRequest {
            imm_or_key: key,
            ..request(SendOpcode::LocalInv)
        })
        .unwrap();
    end.wait()
}

#[test]
fn a_window_invalidated_under_writes_is_closed_at_once() {
    for memory in [Kind::Private, Kind::Shared] {
        for len in [8, 4096, 1 << 20] {
            let (mut pair, window, key) = written_by_window(memory, len);
            {
                let end = pair.a.agent().end(pair.ai.at);
                assert_eq!(
                    end.mr.deregister().unwrap_err().errno(),
                    libc::EBUSY,
                    "a window is bound"
                );
                let invalidated = invalidate(end, key);
                assert_eq!(
                    (invalidated.status, invalidated.opcode),
                    (0, WcOpcode::LocalInv as u32)
                );
                end.memory.fill(0, end.memory.len(), 0);
                watch(end);
                window.deallocate().unwrap();
            }
            assert_eq!(
                pair.b.end_stream().status,
                Some(WcStatus::RemAccessErr as u32)
            );
        }
    }
}

#[test]
fn a_window_whose_peer_stopped_in_the_middle_is_not_said_to_be_invalid_and_keeps_its_region() {
    for _attempt in 0..40 {
        let (mut pair, window, key) = written_by_window(Kind::Private, 500_000);
        pair.b.child().stop();
        let end = pair.a.agent().end(pair.ai.at);
        let begin = Instant::now();
        let invalidated = invalidate(end, key);
        if invalidated.status == 0 {
            // nobody was in the middle: what was said holds, also for the region
            assert!(begin.elapsed() < Duration::from_millis(500));
            end.mr.deregister().unwrap();
            end.memory.fill(0, end.memory.len(), 0);
            pair.b.child().resume();
            watch(pair.a.agent().end(pair.ai.at));
            continue;
        }
        assert_eq!(invalidated.status, WcStatus::LocQpOpErr as u32);
        assert_eq!(errno(end.mr.deregister()), libc::EBUSY, "a window is bound");
        assert_eq!(
            errno(window.deallocate()),
            libc::EBUSY,
            "the peer may go on"
        );
        pair.b.child().resume();
        let flow = pair.b.end_stream();
        assert!(flow.status.is_some(), "{flow:?}");
        window.deallocate().unwrap();
        let end = pair.a.agent().end(pair.ai.at);
        end.mr.deregister().unwrap();
        end.memory.fill(0, end.memory.len(), 0);
        return watch(end);
    }
    panic!("the peer never stopped in the middle");
}

#[test]
fn a_receives_region_deregistered_while_a_long_message_arrives_is_free_at_once() {
    let len = 32 << 20;
    let setup = Setup {
        len,
        ..Setup::default()
    };
    let mut pair = Pair::alike(Party::here(), Party::there(), setup);
    pair.b.fill(&pair.bi, 0, len, 0xff);
    pair.a.recv(&pair.ai, 1, 0, len as u32);
    pair.a.recv(&pair.ai, 2, 0, 8);
    let ask = Ask::new(SendOpcode::Send, len as u32, &pair.ai);
    pair.b.start_stream(&pair.bi, &ask, 1, LIMIT);
    {
        let end = pair.a.agent().end(pair.ai.at);
        eventually("the first byte", || end.memory.byte(0) == 0xff);
        end.mr.deregister().unwrap();
        end.memory.reuse();
        watch(end);
    }
    assert_eq!(pair.b.end_stream().status, Some(WcStatus::RemOpErr as u32));
    pair.a.expect(&pair.ai, 1, WcStatus::LocProtErr);
    pair.a.expect(&pair.ai, 2, WcStatus::WrFlushErr);
}

#[test]
fn a_region_deregistered_under_reads_ends_them_with_remote_access_error() {
    for memory in [Kind::Private, Kind::Shared] {
        let setup = Setup {
            memory,
            len: 1 << 20,
            ..Setup::default()
        };
        let mut pair = Pair::alike(Party::here(), Party::there(), setup);
        let once = Ask::new(SendOpcode::RdmaRead, 8, &pair.ai);
        pair.b.post(&pair.bi, &once);
        pair.b.expect(&pair.bi, 1, WcStatus::Success);
        pair.b.start_stream(
            &pair.bi,
            &Ask::new(SendOpcode::RdmaRead, 1 << 20, &pair.ai),
            8,
            LIMIT,
        );
        std::thread::sleep(Duration::from_millis(20));
        let end = pair.a.agent().end(pair.ai.at);
        end.mr.deregister().unwrap();
        end.memory.reuse();
        let flow = pair.b.end_stream();
        assert_eq!(flow.status, Some(WcStatus::RemAccessErr as u32));
    }
}

#[test]
fn a_region_deregistered_under_atomics_of_several_peers_keeps_its_last_value() {
    for memory in [Kind::Private, Kind::Shared] {
        let setup = Setup {
            memory,
            ..Setup::default()
        };
        let mut pairs: Vec<_> = (0..3)
            .map(|_| Pair::alike(Party::here(), Party::there(), setup))
            .collect();
        for pair in &mut pairs {
            let ask = Ask::new(SendOpcode::FetchAdd, 8, &pair.ai);
            pair.b.start_stream(&pair.bi, &ask, 8, LIMIT);
        }
        std::thread::sleep(Duration::from_millis(30));
        let mut sums = Vec::new();
        for pair in &pairs {
            let end = pair.a.agent().end(pair.ai.at);
            end.mr.deregister().unwrap();
            sums.push(end.memory.word(0));
        }
        for (pair, sum) in pairs.iter_mut().zip(sums) {
            let flow = pair.b.end_stream();
            assert_eq!(flow.status, Some(WcStatus::RemAccessErr as u32));
            // one that was executed and not answered for counts as done by the answer, so the two agree
            assert_eq!(flow.done, sum, "{memory:?}: done as many as were counted");
            assert_eq!(
                pair.a.agent().end(pair.ai.at).memory.word(0),
                sum,
                "later ones change nothing"
            );
        }
    }
}

/// Stops a peer until it is in the middle of an access to this process's memory, by luck: the access takes nearly all of
/// its time. Then `take` is tried; it gives the errno.
fn stopped_in_the_middle(mut take: impl FnMut(&Endpoint) -> i32, last: WcStatus) {
    for _attempt in 0..40 {
        // below the size from which transfers are cut in chunks: one call, one mark
        let mut pair = written_to(Kind::Private, 500_000);
        pair.b.child().stop();
        let begin = Instant::now();
        let errno = take(pair.a.agent().end(pair.ai.at));
        let took = begin.elapsed();
        if errno == 0 {
            pair.b.child().resume();
            continue;
        }
        assert_eq!(errno, libc::EBUSY);
        assert!(
            took > Duration::from_millis(500) && took < Duration::from_secs(4),
            "bounded: {took:?}"
        );
        pair.b.child().resume();
        let flow = pair.b.end_stream();
        assert_eq!(flow.status, Some(last as u32), "revoked all the same");
        let again = take(pair.a.agent().end(pair.ai.at));
        assert_eq!(again, 0, "tried again after the peer went on");
        return;
    }
    panic!("the peer never stopped in the middle");
}

fn errno(result: Result<(), Error>) -> i32 {
    result.map_or_else(|error| error.errno(), |()| 0)
}

#[test]
fn a_peer_stopped_in_the_middle_makes_deregistration_busy_and_the_key_is_revoked() {
    stopped_in_the_middle(|end| errno(end.mr.deregister()), WcStatus::RemAccessErr);
}

#[test]
fn a_peer_stopped_in_the_middle_makes_destroy_busy_and_the_queue_pair_is_revoked() {
    stopped_in_the_middle(|end| errno(end.qp.destroy()), WcStatus::RetryExcErr);
}

#[test]
fn a_peer_stopped_in_the_middle_makes_reset_busy_and_the_queue_pair_is_revoked() {
    stopped_in_the_middle(
        |end| errno(end.set_state(QpState::Reset)),
        WcStatus::RetryExcErr,
    );
}

#[test]
fn a_peer_killed_in_the_middle_does_not_keep_the_memory() {
    for _ in 0..5 {
        let mut pair = written_to(Kind::Private, 500_000);
        pair.b.child().stop();
        pair.b.child().shoot();
        let end = pair.a.agent().end(pair.ai.at);
        let begin = Instant::now();
        end.mr.deregister().unwrap();
        assert!(
            begin.elapsed() < Duration::from_secs(1),
            "{:?}",
            begin.elapsed()
        );
        end.memory.reuse();
        watch(end);
    }
}
