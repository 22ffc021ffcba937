//! Streams between two sides over Ferriband's own library, with each flow control.

mod common;

use common::{Bytes, both_ways, send_all, until, verbs};
use ferriband_ibv::{Access, Context, Device, Mr, Region};
use ferriband_sdp_proto::connection::{Config, Flow};
use ferriband_sdp_verbs::{Adapter, Endpoint, Received, Stream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn open() -> Arc<Context> {
    let devices = Device::list(verbs()).expect("a list");
    let first = devices.iter().find(|device| device.name() == "ferri0");
    let device = first.expect("the adapter of this host is always there");
    device.open().expect("it opens")
}

const CREDIT: Flow = Flow::Credit;
const RING: Flow = Flow::Ring { receives: 32 };
const NIC: Flow = Flow::Nic {
    window_bytes: 4096,
    reserve_bytes: 16_384,
    offers: true,
};

fn config(flow: Flow) -> Config {
    Config {
        flow,
        buffers: 8,
        buffer_bytes: 4096,
        coalesce: true,
    }
}

fn pair(config: Config) -> (Stream, Stream) {
    let context = open();
    let adapter = Adapter::new(&context, 1).expect("a port");
    let side = || Endpoint::new(&adapter, config).expect("a side");
    let (one, other) = (side(), side());
    let ends = (one.end(), other.end());
    (
        one.connect(&ends.1).expect("RTS"),
        other.connect(&ends.0).expect("RTS"),
    )
}

/// Reads to the end, `most` bytes at a time, and compares.
fn read_all(stream: &mut Stream, seed: u64, most: usize) -> u64 {
    let mut expected = Bytes(seed);
    let mut buffer = vec![0; most];
    let mut count = 0;
    loop {
        let received = until(|| match stream.receive(&mut buffer).expect("it is open") {
            Received::Nothing => None,
            other => Some(other),
        });
        let Received::Bytes(bytes) = received else {
            return count;
        };
        for byte in &buffer[..bytes] {
            assert_eq!(*byte, expected.next(), "byte {count}");
            count += 1;
        }
    }
}

#[test]
fn each_flow_control_carries_both_streams_to_their_ends() {
    for flow in [CREDIT, RING, NIC] {
        for (longest, total) in [(1, 5_000), (300, 1 << 18), (30_000, 1 << 20)] {
            let (mut one, mut other) = pair(config(flow));
            std::thread::scope(|scope| {
                scope.spawn(|| both_ways(&mut one, 0, total, longest));
                scope.spawn(|| both_ways(&mut other, 1, total, longest));
            });
        }
    }
}

#[test]
fn a_reader_that_stops_holds_the_writer_up_and_loses_nothing() {
    for flow in [CREDIT, RING, NIC] {
        let (mut one, mut other) = pair(config(flow));
        let mut bytes = Bytes(7);
        let mut given = 0;
        let mut left: Vec<u8> = Vec::new();
        let begun = Instant::now();
        // the reader's adapter takes what it has room for; its program takes nothing
        while begun.elapsed() < Duration::from_millis(200) {
            if left.is_empty() {
                left = (0..1000).map(|_| bytes.next()).collect();
            }
            let sent = one.send(&left, false).expect("it is open");
            left.drain(..sent);
            given += sent as u64;
            other.progress().expect("it is open");
        }
        let usage = (one.machine().usage(), other.machine().usage());
        assert!(usage.1.receive_bytes <= 8 * 4096, "{flow:?}: {usage:?}");
        assert!(given >= 4000, "{flow:?}: {given}");
        if flow != CREDIT {
            // both buffers are full
            assert!(given > 50_000, "{flow:?}: {given}, {usage:?}");
        }
        one.shut_down().expect("it is open");
        let read = std::thread::scope(|scope| {
            let reader = scope.spawn(|| read_all(&mut other, 7, 777));
            until(|| {
                one.progress().expect("it is open");
                reader.is_finished().then_some(())
            });
            reader.join().expect("no panic")
        });
        assert_eq!(read, given, "{flow:?}");
    }
}

/// Papers/004, section 5.2: what waits in the software-handled part leaves although the program
/// computes, for a completion wakes the driver. In *ring* it waits for the next call.
#[test]
fn in_nic_bytes_leave_while_the_program_computes() {
    for flow in [NIC, RING] {
        let (one, mut other) = pair(config(flow));
        let one = Mutex::new(one);
        let total = 50_000;
        let bytes: Vec<u8> = {
            let mut bytes = Bytes(3);
            (0..total).map(|_| bytes.next()).collect()
        };
        // both buffers are filled: 32 KiB and what the other takes
        let mut given = 0;
        until(|| {
            let mut one = one.lock().expect("no panic");
            given += one.send(&bytes[given..], false).expect("it is open");
            (given > 45_000).then_some(())
        });
        let computed = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            // the thread of the driver: it sleeps unless the machine wants to hear of completions
            scope.spawn(|| {
                let channel = Arc::clone(one.lock().expect("no panic").channel());
                while !computed.load(std::sync::atomic::Ordering::Acquire) {
                    let mut one = one.lock().expect("no panic");
                    if one.machine().wants_completion() {
                        one.arm(true).expect("armed");
                        while one.progress().expect("it is open") > 0 {}
                    }
                    drop(one);
                    wait_readable(&channel);
                }
            });
            let mut read = 0;
            let mut buffer = [0; 1000];
            let begun = Instant::now();
            while read < given && begun.elapsed() < Duration::from_millis(500) {
                if let Received::Bytes(count) = other.receive(&mut buffer).expect("it is open") {
                    assert_eq!(buffer[..count], bytes[read..read + count]);
                    read += count;
                }
            }
            computed.store(true, std::sync::atomic::Ordering::Release);
            assert_eq!(read == given, flow == NIC, "{flow:?}: {read} of {given}");
        });
    }
}

/// Waits for an event, or 10 ms.
fn wait_readable(channel: &ferriband_ibv::CompChannel) {
    use std::os::fd::AsRawFd;
    let mut poll = libc::pollfd {
        fd: channel.fd().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure, which lives.
    unsafe { libc::poll(&raw mut poll, 1, 10) };
    while channel.next_event().expect("no failure").is_some() {}
}

#[test]
fn an_abort_and_a_lost_peer_are_heard() {
    for flow in [CREDIT, RING, NIC] {
        let (mut one, mut other) = pair(config(flow));
        send_all(&mut one, b"before");
        one.abort().expect("it is open");
        assert!(one.send(b"x", false).is_err());
        let mut buffer = [0; 10];
        let first = until(|| match other.receive(&mut buffer).expect("it is open") {
            Received::Nothing => None,
            other => Some(other),
        });
        assert_eq!(first, Received::Bytes(6));
        let told = until(|| other.receive(&mut buffer).err());
        assert_eq!(told.to_string(), "the peer has aborted the connection");
        // a peer that is gone is heard of by who sends; others hear of it by the connection manager
        let (one, mut other) = pair(config(flow));
        drop(one);
        let told = until(|| {
            let sent = other.send(b"behind", false).err();
            sent.or_else(|| other.receive(&mut buffer).err())
        });
        assert_eq!(told.to_string(), "the transport has failed");
    }
}

/// Zero copy: the reader fetches from the writer's memory, some of it in parts, and wants some by
/// messages.
#[test]
fn offers_are_read_refused_and_taken_back() {
    const LENGTH: u32 = 1 << 20;
    for flow in [CREDIT, RING, NIC] {
        let context = open();
        let adapter = Adapter::new(&context, 1).expect("a port");
        let side = || Endpoint::new(&adapter, config(flow)).expect("a side");
        let (one, other) = (side(), side());
        let memory = |endpoint: &Endpoint| {
            let region = Region::create(c"test", LENGTH as usize).expect("memory");
            let access = Access::LOCAL_WRITE | Access::REMOTE_READ;
            Mr::register(endpoint.pd(), &region, access).expect("registered")
        };
        let (from, to) = (memory(&one), memory(&other));
        let ends = (one.end(), other.end());
        let mut one = one.connect(&ends.1).expect("RTS");
        let mut other = other.connect(&ends.0).expect("RTS");
        let bytes: Vec<u8> = {
            let mut bytes = Bytes(5);
            (0..LENGTH).map(|_| bytes.next()).collect()
        };
        let source = from.region().expect("our own");
        source.write(0, &bytes).expect("inside");
        // some bytes by messages, then the offer
        send_all(&mut one, b"head");
        one.offer(&from, 0, LENGTH).expect("an offer");
        assert!(one.send(b"x", false).expect("it is open") == 0);
        let mut head = [0; 10];
        let first = until(|| match other.receive(&mut head).expect("it is open") {
            Received::Nothing => None,
            other => Some(other),
        });
        assert_eq!(first, Received::Bytes(4));
        until(|| {
            other.progress().expect("it is open");
            other.fetchable()
        });
        for (at, length) in [(0, 1000), (1000, LENGTH - 5000)] {
            other.fetch(&to, at, length).expect("fetchable");
            assert_eq!(until(|| other.take_fetched().expect("it is open")), length);
        }
        // the last 4,000 bytes come by messages
        assert_eq!(other.fetchable(), Some(4000));
        assert!(other.fetch(&to, 0, 4001).is_err());
        other.refuse_offer().expect("it is open");
        let read = until(|| one.take_offer().expect("it is open"));
        assert_eq!(read, LENGTH - 4000);
        send_all(&mut one, &bytes[read as usize..]);
        let mut rest = vec![0; 4000];
        let mut have = 0;
        until(|| {
            if let Received::Bytes(count) = other.receive(&mut rest[have..]).expect("it is open") {
                have += count;
            }
            one.progress().expect("it is open");
            (have == 4000).then_some(())
        });
        let mut copied = vec![0; LENGTH as usize];
        to.region()
            .expect("our own")
            .read(0, &mut copied)
            .expect("inside");
        assert!(copied[..read as usize] == bytes[..read as usize]);
        assert!(rest == bytes[read as usize..]);
        // an offer that nobody reads is taken back
        one.offer(&from, 0, LENGTH).expect("an offer");
        one.cancel_offer().expect("it is open");
        let read = until(|| {
            other.progress().expect("it is open");
            one.take_offer().expect("it is open")
        });
        assert_eq!((read, other.fetchable()), (0, None));
        assert_eq!(
            one.machine().stats().bytes_offered,
            u64::from(LENGTH) - 4000
        );
    }
}
