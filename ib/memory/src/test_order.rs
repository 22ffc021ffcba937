//! The test of "last byte last", for every way to write into memory that another thread or process polls.
//!
//! Round r writes a buffer of a size and an alignment that both sides derive from r, every byte r's stamp. The
//! receiver polls the last byte; as soon as it is the stamp all others must be. Control words at the start of a shared
//! segment carry acknowledgements and the count of buffers that were torn.

use crate::Segment;
use crate::wait::Spin;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Offsets of the control words.
const ACKED: usize = 0;
const TORN: usize = 8;
const STOP: usize = 16;
const STARTED: usize = 24;
/// The first torn buffer: its round, and the last byte that was missing.
const FIRST_ROUND: usize = 40;
const FIRST_BYTE: usize = 48;
/// Nonzero: the receiver uses the large sizes.
const LARGE: usize = 32;

const SIZES: [usize; 20] = [
    1, 2, 3, 5, 8, 9, 12, 16, 17, 24, 33, 63, 64, 100, 192, 255, 1000, 2048, 4096, 5000,
];
/// For the system calls.
const LARGE_SIZES: [usize; 12] = [
    8, 13, 64, 200, 1024, 2047, 2049, 4096, 4100, 9000, 16384, 65536,
];

/// Bytes that the buffers need.
pub(crate) const AREA_BYTES: usize = 65536 + 64;

/// Rounds without which a run says nothing.
const ENOUGH: u64 = 1000;
/// Rounds end early after this long, unless the environment asks for a long run.
const LIMIT: Duration = Duration::from_millis(1200);

fn plan(round: u64, large: bool) -> (usize, usize) {
    let sizes: &[usize] = if large { &LARGE_SIZES } else { &SIZES };
    let n = sizes.len() as u64;
    // Sizes times alignments is below 251, so a byte never holds the stamp of an older round that it awaits.
    ((round / n % 8) as usize, sizes[(round % n) as usize])
}

fn stamp(round: u64) -> u8 {
    (round % 251 + 1) as u8
}

/// Receives at `base` until the sender stops it.
pub(crate) fn run_receiver(control: &Segment, base: usize) {
    let large = control.load(LARGE, Ordering::Acquire) != 0;
    control.store(STARTED, 1, Ordering::Release);
    let base: *const u8 = std::ptr::with_exposed_provenance(base);
    for round in 0.. {
        let (off, len) = plan(round, large);
        let mut polls = 0u32;
        // SAFETY: the buffer lies within the area.
        let last = unsafe { base.add(off + len - 1) };
        // SAFETY: as above; another process writes it, so the read is volatile.
        while unsafe { last.read_volatile() } != stamp(round) {
            // No pause: a late look would miss what this looks for.
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(4096) {
                if control.load(STOP, Ordering::Relaxed) != 0 {
                    return;
                }
                std::thread::yield_now();
            }
        }
        std::sync::atomic::fence(Ordering::Acquire);
        // SAFETY: as above.
        let torn = (0..len)
            .rev()
            .find(|&at| unsafe { base.add(off + at).read_volatile() } != stamp(round));
        if let Some(at) = torn
            && control.fetch_add(TORN, 1, Ordering::Relaxed) == 0
        {
            control.store(FIRST_ROUND, round, Ordering::Relaxed);
            control.store(FIRST_BYTE, at as u64, Ordering::Relaxed);
        }
        control.store(ACKED, round + 1, Ordering::Release);
    }
}

/// The sender's side: `next` gives what to write, after the receiver acknowledged the one before.
pub(crate) struct Sender<'a> {
    control: &'a Segment,
    round: u64,
    count: u64,
    large: bool,
    started: Instant,
    bytes: Vec<u8>,
}

impl<'a> Sender<'a> {
    pub(crate) fn new(control: &'a Segment, count: u64) -> Self {
        Self::with(control, count, false)
    }

    /// With the sizes for system calls; make it before the receiver starts.
    pub(crate) fn new_large(control: &'a Segment, count: u64) -> Self {
        control.store(LARGE, 1, Ordering::Release);
        Self::with(control, count, true)
    }

    fn with(control: &'a Segment, count: u64, large: bool) -> Self {
        Sender {
            control,
            round: 0,
            count,
            large,
            started: Instant::now(),
            bytes: vec![0; 65536],
        }
    }

    /// Waits for the receiver, then gives offset in the area, length, and the bytes (at least `length` of them).
    pub(crate) fn next(&mut self) -> Option<(usize, usize, &[u8])> {
        if self.round == 0 {
            self.wait_for(STARTED, 1);
            self.started = Instant::now();
        }
        self.wait_for(ACKED, self.round);
        let long_run = std::env::var_os("FERRIBAND_TEST_FACTOR").is_some();
        // on a busy machine the rounds that the test needs take their time
        let enough = self.round > ENOUGH && self.round % 256 == 255;
        let late = enough && !long_run && self.started.elapsed() > LIMIT;
        if self.round == self.count || late {
            return None;
        }
        let (off, len) = plan(self.round, self.large);
        self.bytes[..len].fill(stamp(self.round));
        self.round += 1;
        Some((off, len, &self.bytes))
    }

    /// Stops the receiver; gives the number of torn buffers.
    pub(crate) fn finish(self) -> u64 {
        self.control.store(STOP, 1, Ordering::Release);
        assert!(self.round > ENOUGH, "only {} rounds", self.round);
        println!("{} buffers in {:?}", self.round, self.started.elapsed());
        let torn = self.control.load(TORN, Ordering::Acquire);
        if torn > 0 {
            let [round, byte] =
                [FIRST_ROUND, FIRST_BYTE].map(|off| self.control.load(off, Ordering::Relaxed));
            let (off, len) = plan(round, self.large);
            println!("first torn buffer: {len} bytes at alignment {off}, byte {byte} was missing");
        }
        torn
    }

    fn wait_for(&self, off: usize, value: u64) {
        let mut spin = Spin::new(20_000_000_000);
        while self.control.load(off, Ordering::Acquire) < value {
            assert!(spin.step(), "the receiver is stuck in round {}", self.round);
        }
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        // A failing sender must not leave a receiver thread behind.
        self.control.store(STOP, 1, Ordering::Release);
    }
}
