//! Ferriband's own library, and streams that tell if a byte is missing, doubled or elsewhere.
#![allow(dead_code)] // each test file uses its own part

use ferriband_ibv::{Choice, Verbs};
use ferriband_sdp_verbs::{Received, Stream};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A hang is a failure, however busy the machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Ferriband's own library, freshly built, or the one that SDP_TEST_LIBRARY names.
pub fn library() -> PathBuf {
    match std::env::var_os("SDP_TEST_LIBRARY") {
        Some(path) => path.into(),
        None => ferriband_testkit::library("libibverbs.so.1"),
    }
}

/// The library, loaded once.
pub fn verbs() -> &'static Verbs {
    static VERBS: OnceLock<&Verbs> = OnceLock::new();
    VERBS.get_or_init(|| Verbs::load(&Choice::File(library())).expect("our own library"))
}

/// A sequence of bytes that tells if one is missing, doubled or elsewhere.
pub struct Bytes(pub u64);

impl Bytes {
    pub fn next(&mut self) -> u8 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 56) as u8
    }
}

/// Waits for something, by looking again and again.
pub fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "nothing within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

pub fn send_all(stream: &mut Stream, mut bytes: &[u8]) {
    until(|| {
        let given = stream.send(bytes, false).expect("it is open");
        bytes = &bytes[given..];
        bytes.is_empty().then_some(())
    });
}

/// Sends `total` bytes in calls of up to `longest`, and reads as many of the other side, to both
/// ends.
pub fn both_ways(stream: &mut Stream, me: u64, total: u64, longest: u64) {
    let (mut out, mut lengths) = (Bytes(me), Bytes(99 + me));
    let mut expected = Bytes(1 - me);
    let (mut given, mut read, mut at_end) = (0, 0, false);
    let mut call = Vec::new();
    let mut buffer = vec![0; 3000];
    until(|| {
        if call.is_empty() && given < total {
            let length = 1 + (u64::from(lengths.next()) * longest / 256).min(total - given - 1);
            call = (0..length).map(|_| out.next()).collect();
        }
        if !call.is_empty() {
            let sent = stream.send(&call, false).expect("it is open");
            call.drain(..sent);
            given += sent as u64;
        }
        if given == total && stream.machine().reserve().is_some() {
            stream.shut_down().expect("it is open");
        }
        match stream.receive(&mut buffer).expect("it is open") {
            Received::Nothing => {}
            Received::End => at_end = true,
            Received::Bytes(bytes) => {
                for byte in &buffer[..bytes] {
                    assert_eq!(*byte, expected.next(), "byte {read}");
                    read += 1;
                }
            }
        }
        // a peer that has finished may leave before this side's last acknowledgement comes; whether
        // it has all bytes it says itself
        let machine = stream.machine();
        let is_over = machine.is_finished() || machine.over().is_some();
        (at_end && given == total && is_over).then_some(())
    });
    assert_eq!(read, total);
}
