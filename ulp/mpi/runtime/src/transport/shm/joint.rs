//! Long messages that both sides copy: the receiver reads from the sender's memory, and the sender, if it waits anyway, writes to the receiver's (see `proto`'s `joint`).
//!
//! One core copies between processes at half of what two can, because each page costs the kernel as much as its bytes do; and what each side copies again and again, from the same
//! end on, stays in its own cache.

use crate::ground::memory::{Sink, Source};
use crate::transport::host::Host;
use crate::transport::shm::remote::read_peer;
use ferriband_host::cma;
use ferriband_mpi_proto::joint::{Done, Left, MOST_CHUNKS};
use ferriband_mpi_proto::segment::area;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes of a chunk, unless there would be too many: a call of the kernel costs as much as some 8 KiB do.
const CHUNK: usize = 256 << 10;
/// Bytes of a page: chunks end where one does, if the message begins there.
const PAGE: usize = 4096;
/// Looks at the sender's word before the core is given away.
const LOOKS: u32 = 10_000;
/// After so long without news it is asked whether the sender is still there.
const PATIENCE: Duration = Duration::from_millis(10);

/// A message in a peer's memory, as its sender has offered it.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Its sender.
    pub from: u32,
    /// The sender's name for it.
    pub request: u64,
    /// Where it lies there.
    pub address: u64,
}

/// A chunk that a receiver lets this rank write.
#[derive(Clone, Copy, Debug)]
pub struct CopyRequest {
    /// This rank's name for the message.
    pub request: u64,
    left: Left,
    chunk: usize,
    length: usize,
    address: u64,
}

/// Reads a message to `sink`, which has no gaps, and lets its sender write a part of it.
///
/// # Errors
/// As of reading; ESRCH, too, if the sender has died over its part. Then nobody writes to `sink`
/// any more.
pub fn fetch_jointly(host: &Host, offer: Offer, sink: &Sink) -> io::Result<()> {
    let chunk = chunk_of(sink.len());
    let number = open_joint(host, offer, sink, chunk);
    let pid = host.pid(offer.from);
    let mut outcome = Ok(());
    while outcome.is_ok()
        && let Some(index) = take_front(host)
    {
        let at = index * chunk;
        let part = sink.part(at, chunk.min(sink.len() - at));
        outcome = read_peer(pid, offer.address.wrapping_add(at as u64), &part);
    }
    let end = close_joint(host);
    let taken = sink.len().div_ceil(chunk) - end;
    let done = await_sender(host, offer, number, taken)?;
    if done.failed && outcome.is_ok() {
        let at = end * chunk;
        let part = sink.part(at, sink.len() - at);
        outcome = read_peer(pid, offer.address.wrapping_add(at as u64), &part);
    }
    outcome
}

/// Opens a job; its number.
fn open_joint(host: &Host, offer: Offer, sink: &Sink, chunk: usize) -> u32 {
    let own = host.segment().layout().area(host.me());
    let set = |field, value| {
        let word = host.segment().word64(own + field);
        word.store(value, Ordering::Relaxed);
    };
    let state = host.segment().word64(own + area::JOINT);
    let number = Left::of(state.load(Ordering::Relaxed))
        .number
        .wrapping_add(1);
    host.word(host.me(), area::JOINT_FROM)
        .store(offer.from, Ordering::Relaxed);
    host.word(host.me(), area::JOINT_CHUNK)
        .store(chunk as u32, Ordering::Relaxed);
    set(area::JOINT_REQUEST, offer.request);
    set(
        area::JOINT_ADDRESS,
        sink.pointer().map_or(0, |at| at.addr() as u64),
    );
    set(area::JOINT_LENGTH, sink.len() as u64);
    let left = Left {
        number,
        next: 0,
        end: sink.len().div_ceil(chunk) as u16,
    };
    // The release shows the words above to who sees the job; one who still looks at the last job
    // fails to take a chunk of it, because the number is another.
    state.store(left.word(), Ordering::Release);
    number
}

/// Takes the next chunk of this rank's job.
fn take_front(host: &Host) -> Option<usize> {
    let at = host.segment().layout().area(host.me()) + area::JOINT;
    let state = host.segment().word64(at);
    let mut seen = state.load(Ordering::Relaxed);
    loop {
        let (index, then) = Left::of(seen).from_front()?;
        match state.compare_exchange(seen, then.word(), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return Some(index),
            Err(now) => seen = now,
        }
    }
}

/// Ends this rank's job: nothing more is taken from it. The first of the sender's chunks.
fn close_joint(host: &Host) -> usize {
    let at = host.segment().layout().area(host.me()) + area::JOINT;
    let state = host.segment().word64(at);
    let mut seen = state.load(Ordering::Relaxed);
    loop {
        let left = Left::of(seen);
        let over = Left {
            next: left.end,
            ..left
        };
        match state.compare_exchange(seen, over.word(), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return usize::from(left.end),
            Err(now) => seen = now,
        }
    }
}

/// Waits until the sender is done with its `taken` chunks.
fn await_sender(host: &Host, offer: Offer, number: u32, taken: usize) -> io::Result<Done> {
    let at = host.segment().layout().area(host.me()) + area::JOINT_DONE;
    let word = host.segment().word64(at);
    let mut looks = 0;
    let mut since = None;
    loop {
        let done = Done::of(word.load(Ordering::Acquire));
        if taken == 0 {
            return Ok(Done {
                failed: false,
                ..done
            });
        }
        if done.number == number && usize::from(done.chunks) >= taken {
            return Ok(done);
        }
        looks += 1;
        if looks < LOOKS {
            std::hint::spin_loop();
            continue;
        }
        let since = since.get_or_insert_with(Instant::now);
        if since.elapsed() > PATIENCE {
            *since = Instant::now();
            is_there(host, offer)?;
        }
        std::thread::yield_now();
    }
}

/// Whether a message's sender still has its memory: ESRCH if it has ended, reaped or not.
#[cold]
fn is_there(host: &Host, offer: Offer) -> io::Result<()> {
    let mut byte = 0_u8;
    // SAFETY: a local variable.
    let read = unsafe { cma::read(host.pid(offer.from), offer.address, &raw mut byte, 1) };
    match read {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(error),
        _ => Ok(()),
    }
}

/// What `rank` would have this rank write, if it copies a message of this rank just now.
#[inline]
pub fn copy_request(host: &Host, rank: u32) -> Option<CopyRequest> {
    let base = host.segment().layout().area(rank);
    let word = |field| host.segment().word64(base + field).load(Ordering::Relaxed);
    let left = Left::of(
        host.segment()
            .word64(base + area::JOINT)
            .load(Ordering::Acquire),
    );
    let from = || host.word(rank, area::JOINT_FROM).load(Ordering::Relaxed);
    if left.is_over() || from() != host.me() {
        return None;
    }
    let chunk = host.word(rank, area::JOINT_CHUNK).load(Ordering::Relaxed);
    Some(CopyRequest {
        request: word(area::JOINT_REQUEST),
        left,
        chunk: chunk as usize,
        length: usize::try_from(word(area::JOINT_LENGTH)).ok()?,
        address: word(area::JOINT_ADDRESS),
    })
}

/// Writes a chunk of `source`, the message that `copy_request` names, to the memory of `rank`,
/// unless that has taken it meanwhile or asks for what the message has not. An error says
/// that the kernel lets nobody write there; then the receiver reads that chunk, too.
pub fn copy_as_requested(
    host: &Host,
    rank: u32,
    copy_request: &CopyRequest,
    source: &Source,
) -> io::Result<bool> {
    let Some((index, then)) = copy_request.left.from_back() else {
        return Ok(false);
    };
    let at = index.saturating_mul(copy_request.chunk);
    if copy_request.length > source.len() || at >= copy_request.length {
        return Ok(false);
    }
    let base = host.segment().layout().area(rank);
    let state = host.segment().word64(base + area::JOINT);
    let (before, then) = (copy_request.left.word(), then.word());
    let taken = state.compare_exchange(before, then, Ordering::AcqRel, Ordering::Relaxed);
    if taken.is_err() {
        return Ok(false);
    }
    let part = source.part(at, copy_request.chunk.min(copy_request.length - at));
    let to = copy_request.address.wrapping_add(at as u64);
    let written = match part.pointer() {
        // SAFETY: the range may be read as long as its send is not over, which it is when the
        // receiver has said so.
        Some(from) => unsafe { cma::write(host.pid(rank), to, from, part.len()) },
        None => Err(io::Error::from_raw_os_error(libc::EFAULT)),
    };
    let word = host.segment().word64(base + area::JOINT_DONE);
    let done = Done::of(word.load(Ordering::Relaxed));
    let done = done.and_one(copy_request.left.number, written.is_err());
    // The release puts the bytes before the word that says they are there.
    word.store(done.word(), Ordering::Release);
    written.map(|()| true)
}

/// Bytes of a chunk of a message of `length` bytes: half of it, if that is not much.
fn chunk_of(length: usize) -> usize {
    let half = length.div_ceil(2).next_multiple_of(PAGE).min(CHUNK);
    half.max(length.div_ceil(MOST_CHUNKS).next_multiple_of(PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::host::bell::Bells;
    use crate::transport::host::segment::Segment;
    use ferriband_mpi_proto::segment::{Layout, slot};
    use std::sync::atomic::{AtomicBool, AtomicU32};
    use std::time::{Duration, Instant};

    /// Both ranks of a host in this process, each with a mapping of its own.
    fn two() -> (Host, Host) {
        let layout = Layout::new(2, slot(2)).expect("a layout");
        let fd = Segment::make(layout).expect("a segment");
        let other = fd.try_clone().expect("a descriptor");
        let host = |fd, me| {
            Host::new(
                Segment::map(fd).expect("mapped"),
                Bells::new(vec![-1; 2]),
                me,
            )
        };
        (host(fd, 0), host(other, 1))
    }

    #[test]
    fn chunks_are_few_enough_and_cover_a_message() {
        for length in [1, 4096, 4097, 65536, 1 << 20, 1 << 33, 1 << 45] {
            let chunk = chunk_of(length);
            let chunks = length.div_ceil(chunk);
            assert!((1..=MOST_CHUNKS).contains(&chunks), "{length}");
            assert!(u32::try_from(chunk).is_ok(), "{length}");
        }
        assert_eq!(chunk_of(65536), 32768);
        assert_eq!(chunk_of(4 << 20), CHUNK);
    }

    fn message(length: usize, salt: usize) -> Vec<u8> {
        (0..length)
            .map(|at| (at * 31 + at / 4096 + salt) as u8)
            .collect()
    }

    fn offer(bytes: &[u8]) -> Offer {
        Offer {
            from: 1,
            request: 77,
            address: bytes.as_ptr().addr() as u64,
        }
    }

    fn fetch(receiver: &Host, bytes: &[u8]) {
        let mut to = vec![0xaa_u8; bytes.len()];
        // SAFETY: a local buffer that outlives the fetch.
        let sink = unsafe { Sink::new(to.as_mut_ptr(), to.len()) };
        fetch_jointly(receiver, offer(bytes), &sink).expect("fetched");
        assert!(to == bytes, "{} bytes", bytes.len());
    }

    /// Fetches in `rounds` rounds, and on until the sender has taken a chunk: it may get no processor for long.
    fn until_taken(taken: &AtomicU32, rounds: usize, fetch: impl Fn(usize)) {
        let begun = Instant::now();
        let mut round = 0;
        let patience = Duration::from_secs(120);
        while round < rounds || taken.load(Ordering::Relaxed) == 0 && begun.elapsed() < patience {
            fetch(round % rounds);
            round += 1;
        }
    }

    #[test]
    fn a_receiver_alone_reads_all() {
        let (receiver, _) = two();
        for length in [1, CHUNK, CHUNK + 1, 2 * CHUNK, 5 * CHUNK - 3] {
            fetch(&receiver, &message(length, length));
        }
    }

    #[test]
    fn both_copy_and_each_byte_is_there_when_the_fetch_ends() {
        let (receiver, sender) = two();
        let (over, taken) = (AtomicBool::new(false), AtomicU32::new(0));
        let bytes = message(9 * CHUNK + 17, 5);
        let (over, taken, all) = (&over, &taken, &bytes);
        std::thread::scope(|scope| {
            let helper = scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let Some(copy_request) = copy_request(&sender, 0) else {
                        std::hint::spin_loop();
                        continue;
                    };
                    assert_eq!(copy_request.request, 77);
                    let length = copy_request.length;
                    // SAFETY: the message outlives the thread.
                    let source = unsafe { Source::new(all.as_ptr(), length) };
                    let ran =
                        copy_as_requested(&sender, 0, &copy_request, &source).expect("written");
                    taken.fetch_add(u32::from(ran), Ordering::Relaxed);
                }
            });
            until_taken(taken, 300, |round| {
                fetch(&receiver, &bytes[..bytes.len() - round * 1237]);
            });
            over.store(true, Ordering::Relaxed);
            helper.join().expect("the sender ends");
        });
        let taken = taken.load(Ordering::Relaxed);
        assert!(taken > 0, "the sender never took a chunk");
    }

    #[test]
    fn what_the_sender_could_not_write_is_read() {
        let (receiver, sender) = two();
        let bytes = message(4 * CHUNK, 9);
        let (over, taken) = (AtomicBool::new(false), AtomicU32::new(0));
        let (over, taken, all) = (&over, &taken, &bytes);
        std::thread::scope(|scope| {
            let helper = scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    if let Some(mut copy_request) = copy_request(&sender, 0) {
                        // No process has this page.
                        copy_request.address = 4096;
                        // SAFETY: the message outlives the thread.
                        let source = unsafe { Source::new(all.as_ptr(), all.len()) };
                        let ran = copy_as_requested(&sender, 0, &copy_request, &source);
                        taken.fetch_add(u32::from(ran.is_err()), Ordering::Relaxed);
                    }
                }
            });
            until_taken(taken, 100, |_| fetch(&receiver, &bytes));
            over.store(true, Ordering::Relaxed);
            helper.join().expect("the sender ends");
        });
        let taken = taken.load(Ordering::Relaxed);
        assert!(taken > 0, "the sender never took a chunk");
    }

    #[test]
    fn an_errand_beyond_the_message_or_of_another_time_is_not_run() {
        let (receiver, sender) = two();
        let bytes = message(2 * CHUNK, 3);
        let mut to = vec![0_u8; bytes.len()];
        // SAFETY: a local buffer that outlives the job.
        let sink = unsafe { Sink::new(to.as_mut_ptr(), to.len()) };
        open_joint(&receiver, offer(&bytes), &sink, CHUNK);
        let asked = copy_request(&sender, 0).expect("a job");
        // SAFETY: the message outlives the call.
        let (short, whole) = unsafe {
            (
                Source::new(bytes.as_ptr(), bytes.len() - 1),
                Source::new(bytes.as_ptr(), bytes.len()),
            )
        };
        assert!(!copy_as_requested(&sender, 0, &asked, &short).expect("nothing done"));
        assert_eq!(close_joint(&receiver), 2, "no chunk was taken");
        assert!(copy_request(&sender, 0).is_none());
        open_joint(&receiver, offer(&bytes), &sink, CHUNK);
        assert!(!copy_as_requested(&sender, 0, &asked, &whole).expect("nothing done"));
        assert!(
            copy_request(&receiver, 0).is_none(),
            "it is not this rank's message"
        );
        let asked = copy_request(&sender, 0).expect("a job");
        assert!(copy_as_requested(&sender, 0, &asked, &whole).expect("written"));
        assert_eq!(to[CHUNK..], bytes[CHUNK..]);
        assert!(to[..CHUNK].iter().all(|byte| *byte == 0));
        assert_eq!(close_joint(&receiver), 1);
    }
}
