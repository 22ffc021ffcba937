//! Writes and reads that wait, with and without copies, over Ferriband's own library.

mod common;

use common::{Bytes, PATIENCE, verbs};
use ferriband_ibv::Device;
use ferriband_sdp_proto::connection::Stats;
use ferriband_sdp_proto::settings::ZeroCopy;
use ferriband_sdp_verbs::{Adapter, Endpoint, Error, FlowKind, Lengths, Received, Stream, Wait};
use std::sync::Arc;
use std::time::Instant;

const LEAST: u64 = 100_000;

fn adapter() -> Arc<Adapter> {
    let devices = Device::list(verbs()).expect("a list");
    let first = devices.iter().find(|device| device.name() == "ferri0");
    let device = first.expect("the adapter of this host is always there");
    Adapter::new(&device.open().expect("it opens"), 1).expect("a port")
}

/// Two sides of which each goes without copies from its length on.
fn pair(kind: FlowKind, least: [Option<u64>; 2]) -> [Stream; 2] {
    let adapter = adapter();
    let side = || Endpoint::new(&adapter, kind.config_with_offers(8, 4096)).expect("a side");
    let (one, other) = (side(), side());
    let ends = [one.end(), other.end()];
    let mut sides = [one.connect(&ends[1]), other.connect(&ends[0])].map(|side| side.expect("RTS"));
    for (side, least) in sides.iter_mut().zip(least) {
        side.set_zero_copy(least);
    }
    sides
}

/// Waits for `longest` looks that find nothing, then no longer.
fn waits(longest: u32) -> impl FnMut(&mut Stream) -> Result<Wait, Error> {
    let end = Instant::now() + PATIENCE;
    let mut looks = 0;
    move |stream| {
        assert!(Instant::now() < end, "nothing within {PATIENCE:?}");
        looks = if stream.progress()? > 0 { 0 } else { looks + 1 };
        std::thread::yield_now();
        Ok(if looks < longest {
            Wait::Longer
        } else {
            Wait::NoLonger
        })
    }
}

fn write(stream: &mut Stream, bytes: &[u8]) {
    stream.write(bytes, waits(u32::MAX)).expect("it is open");
}

/// Reads so many bytes, `most` at a time.
fn read(stream: &mut Stream, total: usize, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; total];
    let mut have = 0;
    while have < total {
        let end = total.min(have + most);
        match stream
            .read(&mut bytes[have..end], waits(u32::MAX))
            .expect("it is open")
        {
            Received::Bytes(count) => have += count,
            Received::Nothing => {}
            Received::End => panic!("the end after {have} bytes"),
        }
    }
    bytes
}

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = Bytes(seed);
    (0..length).map(|_| bytes.next()).collect()
}

/// Writes of these lengths from one side to the other, whose reads are of so many bytes; what the
/// two have counted.
fn carry(sides: [Stream; 2], lengths: &[usize], most: usize) -> [Stats; 2] {
    let [mut from, mut to] = sides;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for (seed, length) in (0..).zip(lengths) {
                write(&mut from, &bytes(seed, *length));
            }
            from.shut_down().expect("it is open");
            // an answer by which all has arrived
            read(&mut from, 1, 1);
            *from.machine().stats()
        });
        for (seed, length) in (0..).zip(lengths) {
            assert!(
                read(&mut to, *length, most) == bytes(seed, *length),
                "write {seed}"
            );
        }
        write(&mut to, &[1]);
        while to.machine().account().segments > 0 {
            to.progress().expect("it is open");
        }
        let to = *to.machine().stats();
        [writer.join().expect("no panic"), to]
    })
}

#[test]
fn long_writes_go_without_copies_and_short_ones_by_copies() {
    let lengths = [10, 100_000, 99_999, 1_000_000, 1];
    for kind in FlowKind::ALL {
        let [from, to] = carry(pair(kind, [Some(LEAST); 2]), &lengths, 1 << 20);
        assert_eq!(
            (from.offers_read, from.bytes_offered),
            (2, 1_100_000),
            "{kind:?}"
        );
        assert_eq!((to.fetches, to.bytes_fetched), (2, 1_100_000), "{kind:?}");
        assert_eq!(from.bytes_sent, 1_200_010, "{kind:?}");
    }
}

#[test]
fn a_peer_that_takes_no_part_or_reads_little_at_a_time_has_all_by_copies() {
    let lengths = [200_000; 40];
    for kind in FlowKind::ALL {
        for (reader, most) in [(None, 1 << 20), (Some(LEAST), 5000)] {
            let [from, to] = carry(pair(kind, [Some(LEAST), reader]), &lengths, most);
            assert_eq!((from.bytes_offered, to.bytes_fetched), (0, 0), "{kind:?}");
            assert_eq!(from.bytes_sent, 8_000_000, "{kind:?}");
        }
        let [from, _] = carry(pair(kind, [None, Some(LEAST)]), &lengths[..1], 1 << 20);
        assert_eq!(
            (from.bytes_offered, from.bytes_sent),
            (0, 200_000),
            "{kind:?}"
        );
    }
}

/// Where each side writes before it reads, TCP has room for what both write.
#[test]
fn sides_that_both_write_before_they_read_go_on_by_copies() {
    for kind in FlowKind::ALL {
        let sides = pair(kind, [Some(10_000); 2]);
        std::thread::scope(|scope| {
            for (seed, mut side) in (0..).zip(sides) {
                scope.spawn(move || {
                    let sent = bytes(seed, 20_000);
                    side.write(&sent, waits(1000)).expect("it is open");
                    assert!(read(&mut side, 20_000, 20_000) == bytes(1 - seed, 20_000));
                    write(&mut side, &[1]);
                    read(&mut side, 1, 1);
                    while side.machine().account().segments > 0 {
                        side.progress().expect("it is open");
                    }
                });
            }
        });
    }
}

/// The peer knows the key of memory that the program has back: nobody reads there.
#[test]
fn a_write_that_is_left_ends_the_connection() {
    for kind in FlowKind::ALL {
        let [mut from, mut to] = pair(kind, [Some(LEAST); 2]);
        let end = Instant::now() + PATIENCE;
        let left = from.write(&bytes(0, 200_000), |_| {
            assert!(Instant::now() < end, "{kind:?}");
            to.progress()?;
            // the peer is about to read
            match to.fetchable() {
                Some(_) => Err(Error::NoOffer),
                None => Ok(Wait::Longer),
            }
        });
        assert!(matches!(left, Err(Error::NoOffer)), "{kind:?}");
        from.write(b"x", waits(1)).expect_err("it is over");
        let mut buffer = vec![0; 200_000];
        to.read(&mut buffer, waits(u32::MAX))
            .expect_err("it is over");
        assert!(buffer.iter().all(|byte| *byte == 0), "{kind:?}");
    }
}

#[test]
fn the_setting_says_from_which_length_on() {
    let adapter = adapter();
    let kind = adapter.kind().expect("it answers");
    let mut measured = Lengths::default();
    let of = |setting, measured: &Lengths| {
        let least = adapter.zero_copy(setting, measured, FlowKind::Ring);
        least.expect("it answers")
    };
    assert_eq!(of(ZeroCopy::Never, &measured), None);
    assert_eq!(of(ZeroCopy::From(7), &measured), Some(7));
    let shipped = Lengths::shipped().of(kind, FlowKind::Ring);
    assert_eq!(of(ZeroCopy::Auto, &measured), shipped.expect("our own"));
    measured.set(kind, FlowKind::Ring, Some(5));
    assert_eq!(of(ZeroCopy::Auto, &measured), Some(5));
}
