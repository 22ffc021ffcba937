//! Matching reads and writes between two processes in one, on Ferriband's own adapter.

mod common;

use common::{PATIENCE, cm};
use ferriband_host::wake;
use ferriband_ibv::{Access, Mr, Region};
use ferriband_putget_proto::matching::{NotBegun, Outcome};
use ferriband_putget_verbs::channels::{Channels, Memory, Number, Transfer, Way};
use ferriband_putget_verbs::{Left, Waited};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const LENGTH: usize = 1 << 16;

struct Side {
    channels: Channels,
    mr: Arc<Mr>,
}

impl Side {
    fn new(request_bytes: u32) -> Side {
        let at = SocketAddr::from(([127, 0, 0, 1], 0));
        let channels = Channels::listen(cm(), at, request_bytes).expect("it listens");
        let pd = channels.domain().expect("an adapter");
        let region = Region::create(c"memory", LENGTH).expect("memory");
        let mr = Mr::register(&pd, &region, Access::LOCAL_WRITE).expect("a registration");
        Side { channels, mr }
    }

    fn start(&self, channel: Number, way: Way, at: usize, length: usize) -> Transfer {
        let begun = self.try_start(channel, way, at, length);
        begun.expect("there is room")
    }

    fn try_start(
        &self,
        channel: Number,
        way: Way,
        at: usize,
        length: usize,
    ) -> Result<Transfer, NotBegun> {
        let element = self.mr.element(at, length as u32).expect("it fits");
        let memory = Memory {
            mr: Some(Arc::clone(&self.mr)),
            elements: vec![element],
        };
        self.channels.start(channel, way, memory, length as u64)
    }

    fn wait(&self, transfer: Transfer) -> Outcome {
        let end = Some(wake::now() + PATIENCE);
        match self.channels.wait_for(transfer, end).expect("it is known") {
            Waited::Done(outcome) => outcome,
            Waited::TimedOut => panic!("nothing within {PATIENCE:?}"),
        }
    }

    fn fill(&self, seed: u8) -> Vec<u8> {
        let bytes: Vec<u8> = (0..LENGTH)
            .map(|at| (at as u8).wrapping_mul(13).wrapping_add(seed))
            .collect();
        let region = self.mr.region().expect("memory of our own");
        region.write(0, &bytes).expect("it fits");
        bytes
    }

    fn bytes(&self, at: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let region = self.mr.region().expect("memory of our own");
        region.read(at, &mut bytes).expect("it fits");
        bytes
    }
}

/// Two sides and a channel between them.
fn pair(one: u32, other: u32) -> (Side, Side, Number, Number) {
    let (one, other) = (Side::new(one), Side::new(other));
    let end = Some(wake::now() + PATIENCE);
    let (connected, accepted) = std::thread::scope(|scope| {
        // who listens answers in its own calls
        let accepting = scope.spawn(|| other.channels.accept(end));
        let connected = one.channels.connect(other.channels.address(), end);
        (connected, accepting.join().expect("it ends"))
    });
    let Ok(Waited::Done(Ok(there))) = connected else {
        panic!("{connected:?}");
    };
    let Ok(Waited::Done(here)) = accepted else {
        panic!("{accepted:?}");
    };
    (one, other, there, here)
}

#[test]
fn messages_of_one_request_and_of_many_bring_each_byte() {
    // both sides take the smaller number of bytes
    let (one, other, there, here) = pair(1 << 20, 4096);
    let lengths = [0, 1, 4095, 4096, 4097, 8192, 10_000, LENGTH];
    for (round, length) in lengths.into_iter().enumerate() {
        for room in [length, LENGTH] {
            let bytes = one.fill(round as u8);
            other.fill(77);
            let write = one.start(there, Way::Write, 0, length);
            let read = other.start(here, Way::Read, 0, room);
            assert_eq!(other.wait(read), Outcome::Moved(length as u64));
            assert_eq!(one.wait(write), Outcome::Moved(length as u64));
            assert_eq!(
                other.bytes(0, length),
                bytes[..length],
                "{length} in {room}"
            );
        }
    }
}

#[test]
fn a_write_waits_for_its_read_and_nothing_is_lost() {
    let (one, other, there, here) = pair(4096, 4096);
    one.fill(1);
    // as many as the work queue holds
    let begin = |at| one.try_start(there, Way::Write, at, 4).ok();
    let writes: Vec<Transfer> = (0..1000).map_while(begin).collect();
    let count = writes.len();
    assert!((16..1000).contains(&count), "{count}");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(one.channels.test(writes[0]).expect("known"), None);
    let bytes = one.bytes(0, count + 4);
    for at in 0..count {
        let read = other.start(here, Way::Read, 0, 8);
        assert_eq!(other.wait(read), Outcome::Moved(4));
        assert_eq!(other.bytes(0, 4), bytes[at..at + 4]);
    }
    assert!(
        writes
            .into_iter()
            .all(|write| one.wait(write) == Outcome::Moved(4))
    );
}

#[test]
fn a_message_that_is_too_long_is_an_error_of_both_sides_however_many_requests_it_is() {
    for (write, read) in [(9, 8), (4096, 4095), (4097, 4096), (12_000, 8192), (1, 0)] {
        let (one, other, there, here) = pair(4096, 4096);
        let written = one.start(there, Way::Write, 0, write);
        let taken = other.start(here, Way::Read, 0, read);
        let behind = other.start(here, Way::Read, 0, 4096);
        assert_eq!(other.wait(taken), Outcome::TooLong, "{write} into {read}");
        assert_eq!(other.wait(behind), Outcome::Lost, "{write} into {read}");
        assert_eq!(one.wait(written), Outcome::TooLong, "{write} into {read}");
        let again = one.try_start(there, Way::Write, 0, 1);
        assert_eq!(again, Err(NotBegun::Lost));
    }
}

#[test]
fn several_threads_wait_at_once_and_each_hears_of_its_own() {
    let (one, other, there, here) = pair(4096, 4096);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let one = &one;
            scope.spawn(move || {
                for _ in 0..200 {
                    let write = one.start(there, Way::Write, thread * 8, 8);
                    assert_eq!(one.wait(write), Outcome::Moved(8));
                }
            });
            let other = &other;
            scope.spawn(move || {
                for _ in 0..200 {
                    let read = other.start(here, Way::Read, thread * 8, 8);
                    assert_eq!(other.wait(read), Outcome::Moved(8));
                }
            });
        }
    });
}

#[test]
fn the_end_of_a_channel_is_told_to_who_waits() {
    let (one, other, there, here) = pair(4096, 4096);
    let read = one.start(there, Way::Read, 0, 8);
    assert!(other.channels.disconnect(here));
    assert_eq!(one.wait(read), Outcome::Lost);
    assert!(!other.channels.disconnect(here));
    drop(other);
    assert!(one.channels.disconnect(there));
}

#[test]
fn what_listens_for_something_else_is_told_apart() {
    let one = Side::new(4096);
    let putget = common::Side::new(16, 8);
    let end = Some(wake::now() + PATIENCE);
    let connected = one.channels.connect(putget.address(), end);
    let connected = connected.expect("it looks");
    assert_eq!(connected, Waited::Done(Err(Left::Foreign)));
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let connected = one.channels.connect(nobody, end).expect("it looks");
    assert_eq!(connected, Waited::Done(Err(Left::Unreachable)));
}
