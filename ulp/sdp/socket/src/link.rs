//! A connection as `ulp/sdp/local` touches it: its words and rings in this process, and its TCP
//! socket.

use crate::holder;
use crate::meet::bells::Bells;
use crate::order;
use crate::own::{Event, Own, Segment};
use crate::record::Record;
use crate::segment::{self, LENGTH, NARROW_BYTES, RING_BYTES, Role, SLOTS};
use crate::{table, tcp};
use ferriband_host::copy;
use ferriband_host::segment::OutOfRange;
use ferriband_host::wake::{self, Until, Wait};
use ferriband_sdp_local::{Errno, Kernel, Memory, Shared, Way, Word};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a lock is waited for before its holder's life is doubted.
const DOUBT: Duration = Duration::from_millis(10);

/// Where the words and rings of one connection lie in this process.
pub struct Link<'a> {
    segment: Arc<Segment>,
    record: &'a Record,
    slot: u64,
    role: Role,
    rings: [NonNull<u8>; 2],
    /// What tells the peer's waiters.
    peer: Arc<Bells>,
    /// What tells this process's service thread, which tells this side's waiters.
    own: Arc<Event>,
    /// The socket, once the program has closed its last number of it.
    kept: OnceLock<Own>,
    /// There was no descriptor to keep the socket by.
    is_lost: AtomicBool,
    /// The peer is on another host: this process's service thread stands for it.
    is_far: bool,
    /// Bytes that each ring holds.
    ring_bytes: u64,
}

// SAFETY: the rings are shared memory, which is read and written as bytes that somebody else may
// change; the segment, which keeps them mapped, goes with them.
unsafe impl Send for Link<'_> {}
// SAFETY: as above.
unsafe impl Sync for Link<'_> {}

/// Where one side is told that there is news of a connection. Keeps the memory mapped.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    segment: Arc<Segment>,
    role: Role,
    slot: u32,
}

impl Told {
    /// The word, in which each connection of the segment has a bit.
    pub fn word(&self) -> &AtomicU64 {
        let told = self.segment.word64(segment::told(self.role));
        told.expect("each segment has it")
    }

    /// The number of the connection's bit.
    pub fn slot(&self) -> u32 {
        self.slot
    }
}

impl<'a> Link<'a> {
    /// A connection in a slot of a segment, which is [`LENGTH`] bytes long. `peer` and `own` are
    /// rung.
    ///
    /// # Errors
    /// There is no such slot, or the segment is too short.
    pub fn new(
        segment: Arc<Segment>,
        slot: u64,
        role: Role,
        record: &'a Record,
        peer: Arc<Bells>,
        own: Arc<Event>,
    ) -> Result<Self, OutOfRange> {
        // the last byte tells whether all that is addressed here is there
        let end = if slot < SLOTS { LENGTH - 1 } else { u64::MAX };
        segment.address(end, 1)?;
        let ring = |out| {
            let at = segment::ring(slot, segment::direction(role, out));
            segment.address(at, RING_BYTES as usize)
        };
        let rings = [ring(true)?, ring(false)?];
        Ok(Link {
            segment,
            record,
            slot,
            role,
            rings,
            peer,
            own,
            kept: OnceLock::new(),
            is_lost: AtomicBool::new(false),
            is_far: false,
            ring_bytes: RING_BYTES,
        })
    }

    /// Before the program's last number of the socket is closed: calls that are in progress, and
    /// whoever has something left to do, reach the socket by this from here on. A call that has
    /// read its number just before uses it once more: that window is some instructions long.
    pub(crate) fn keep(&self, socket: Own) {
        let _ = self.kept.set(socket);
    }

    /// Before the program's last number of the socket is closed, which nothing keeps: calls that
    /// are in progress end.
    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
    }

    /// Whether the calls in progress have no socket any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Whether processes that do not take part may hold the socket.
    pub(crate) fn is_given_away(&self) -> bool {
        self.record.strangers.load(Ordering::SeqCst) != 0
    }

    /// The socket that was kept.
    #[inline]
    pub(crate) fn kept(&self) -> Option<BorrowedFd<'_>> {
        self.kept.get().map(AsFd::as_fd)
    }

    /// A connection to another host, in a slot of this process's own.
    #[must_use]
    pub(crate) fn far(self) -> Self {
        // what has become of the peer the service thread hears by other ways
        let ended = self.shared(Way::In, Shared::EndedByProgram);
        ended.store(1, Ordering::SeqCst);
        Link {
            is_far: true,
            ..self.narrow()
        }
    }

    /// A connection that goes from one network namespace to another: each ring holds half as much.
    #[must_use]
    pub(crate) fn narrow(self) -> Self {
        Link {
            ring_bytes: NARROW_BYTES,
            ..self
        }
    }

    /// Bytes that each of its rings holds.
    #[inline]
    pub(crate) fn ring_bytes(&self) -> u64 {
        self.ring_bytes
    }

    /// Whether the peer is on another host.
    pub(crate) fn is_far(&self) -> bool {
        self.is_far
    }

    /// The number that stands in TCP before a copy of what this side sends, if it is not 0.
    pub(crate) fn preface(&self) -> &AtomicU64 {
        let direction = segment::direction(self.role, true);
        let at = segment::preface(self.slot, direction);
        self.segment.word64(at).expect("a slot of the segment")
    }

    /// Where the peer is told of this connection, as [`Link::where_told`].
    pub(crate) fn where_peer_told(&self) -> Told {
        Told {
            role: self.role.other(),
            ..self.where_told()
        }
    }

    /// Copies out of the ring of what this side sends, whose first byte has position `base`.
    pub(crate) fn copy_out(&self, base: u64, position: u64, to: &mut [u8]) {
        let ring = self.ring(Way::Out).as_ptr();
        pieces(position.wrapping_sub(base), to.len(), |at, from, length| {
            let to = to[from..from + length].as_mut_ptr();
            // SAFETY: a piece of the ring, which is mapped as long as the link lives, and as much
            // of the buffer.
            unsafe { copy::bytes(ring.wrapping_add(at), to, length) };
        });
    }

    /// Copies into the ring of what this side receives, whose first byte has position 0.
    pub(crate) fn copy_in(&self, position: u64, from: &[u8]) {
        let ring = self.ring(Way::In).as_ptr();
        pieces(position, from.len(), |at, begin, length| {
            let from = from[begin..begin + length].as_ptr().cast_mut();
            // SAFETY: as above, the other way round; the buffer is only read.
            unsafe { copy::bytes(from, ring.wrapping_add(at), length) };
        });
    }

    /// This connection, with the number that its TCP socket has for the caller.
    pub fn on<'b>(&'b self, socket: BorrowedFd<'b>) -> Call<'b, 'a> {
        Call { link: self, socket }
    }

    #[inline]
    fn shared(&self, way: Way, word: Shared) -> &AtomicU64 {
        let direction = segment::direction(self.role, way == Way::Out);
        let at = segment::word(self.slot, direction, word);
        self.segment.word64(at).expect("a slot of the segment")
    }

    #[inline]
    fn word(&self, word: Word) -> &AtomicU64 {
        match word {
            Word::Shared(way, word) => self.shared(way, word),
            Word::Own(word) => self.record.word(word),
        }
    }

    /// Which box of this process its waiters are in, from now on.
    pub fn set_box(&self, number: u32) {
        for out in [false, true] {
            let direction = segment::direction(self.role, out);
            let at = segment::box_word(self.slot, direction, !out);
            let word = self.segment.word64(at).expect("a slot of the segment");
            word.store(number.into(), Ordering::SeqCst);
        }
    }

    /// The word in which a side is told that there is news of a slot, a bit for each.
    fn told(&self, side: Role) -> &AtomicU64 {
        let told = self.segment.word64(segment::told(side));
        told.expect("each segment has it")
    }

    /// Whether this side was told of news, which is taken away. All connections of a segment share
    /// the word.
    pub fn take_told(&self) -> bool {
        let (told, bit) = (self.told(self.role), 1 << self.slot);
        // most of the time there is none
        self.is_told() && told.fetch_and(!bit, Ordering::SeqCst) & bit != 0
    }

    /// Whether this side was told of news.
    pub(crate) fn is_told(&self) -> bool {
        self.told(self.role).load(Ordering::SeqCst) >> self.slot & 1 != 0
    }

    /// Where this side is told of this connection.
    pub(crate) fn where_told(&self) -> Told {
        Told {
            segment: self.segment.clone(),
            role: self.role,
            slot: self.slot as u32,
        }
    }

    /// Wakes this process's service thread.
    pub(crate) fn ring_service(&self) {
        self.own.signal();
    }

    /// The half of a word that futexes compare.
    pub(crate) fn futex(&self, word: Word) -> &AtomicU32 {
        let low = usize::from(cfg!(target_endian = "big"));
        let word: *const AtomicU64 = self.word(word);
        // SAFETY: a half of a living word, aligned; that both are accessed is what futexes are for.
        unsafe { &*word.cast::<AtomicU32>().add(low) }
    }

    /// Sleeps while the word's lower half is `value`'s.
    pub(crate) fn wait(&self, word: Word, value: u64, until: Until) -> Wait {
        wake::wait(self.futex(word), value as u32, until).unwrap_or(Wait::Changed)
    }

    /// Beside a system call.
    fn count_wake(&self) {
        self.record.wakes.fetch_add(1, Ordering::Relaxed);
    }

    fn ring(&self, way: Way) -> NonNull<u8> {
        self.rings[usize::from(way == Way::In)]
    }
}

/// Bytes that stand in TCP before a copy of what a tunnel has carried.
pub(crate) const PREFACE_BYTES: u64 = 16;

/// The number that both sides know, and where the copy begins.
pub(crate) fn preface(number: u64, from: u64) -> [u8; PREFACE_BYTES as usize] {
    let mut bytes = [0; PREFACE_BYTES as usize];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..].copy_from_slice(&from.to_be_bytes());
    bytes
}

/// The one or two pieces of a ring to another host in which bytes lie: where in the ring, where in
/// the bytes, how many.
fn pieces(position: u64, length: usize, mut each: impl FnMut(usize, usize, usize)) {
    let length = length.min(NARROW_BYTES as usize);
    let at = (position % NARROW_BYTES) as usize;
    let first = length.min(NARROW_BYTES as usize - at);
    each(at, 0, first);
    if first < length {
        each(0, first, length - first);
    }
}

/// One call of a program on a connection.
#[derive(Clone, Copy)]
pub struct Call<'b, 'a> {
    link: &'b Link<'a>,
    socket: BorrowedFd<'b>,
}

impl<'b, 'a> Call<'b, 'a> {
    /// The connection.
    pub fn link(&self) -> &'b Link<'a> {
        self.link
    }

    /// The TCP socket.
    #[inline]
    pub(crate) fn socket(&self) -> BorrowedFd<'b> {
        self.link.kept().unwrap_or(self.socket)
    }

    /// Waits until the kernel takes bytes to send, or has an error.
    pub(crate) fn wait_for_kernel(&self) {
        let mut asked = [PollFd::from_borrowed_fd(self.socket(), PollFlags::OUT)];
        // whoever called looks again, whatever ended the wait
        let _ = rustix::event::poll(&mut asked, None);
    }

    /// The socket's error, which is told once.
    pub(crate) fn pending_error(&self) -> Option<i32> {
        let error = rustix::net::sockopt::socket_error(self.socket()).ok()?;
        error.err().map(|error| error.raw_os_error())
    }
}

/// Runs over what of the parts lies behind `skip` bytes, `bytes` of it at most. `each` has the
/// address and the length of a piece, and says how much it has done; 0 ends the run.
fn walk(
    parts: &[libc::iovec],
    mut skip: u64,
    mut bytes: u64,
    mut each: impl FnMut(*mut u8, usize) -> Result<usize, Errno>,
) -> Result<u64, Errno> {
    let mut done = 0;
    for part in parts {
        let length = part.iov_len as u64;
        if skip >= length {
            skip -= length;
            continue;
        }
        let piece = (length - skip).min(bytes) as usize;
        if piece == 0 {
            break;
        }
        let from = part.iov_base.cast::<u8>().wrapping_add(skip as usize);
        let moved = match each(from, piece) {
            Ok(moved) => moved,
            // what was moved before is the answer
            Err(_) if done > 0 => return Ok(done),
            Err(error) => return Err(error),
        };
        done += moved as u64;
        bytes -= moved as u64;
        skip = 0;
        if moved < piece {
            break;
        }
    }
    Ok(done)
}

impl Memory for Call<'_, '_> {
    /// What the program gave, whose memory is readable.
    type Source = [libc::iovec];
    /// What the program gave, whose memory is writable.
    type Sink = [libc::iovec];

    #[inline]
    fn load(&self, word: Word) -> u64 {
        self.link.word(word).load(Ordering::Acquire)
    }

    #[inline]
    fn store(&self, word: Word, value: u64) {
        self.link.word(word).store(value, Ordering::Release);
    }

    #[inline]
    fn swap(&self, word: Word, value: u64) -> u64 {
        self.link.word(word).swap(value, Ordering::SeqCst)
    }

    #[inline]
    fn exchange(&self, word: Word, from: u64, to: u64) -> Result<(), u64> {
        let word = self.link.word(word);
        word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
            .map(drop)
    }

    #[inline]
    fn add(&self, word: Word, by: u64) -> u64 {
        self.link.word(word).fetch_add(by, Ordering::SeqCst)
    }

    fn set(&self, word: Word, bits: u64) -> u64 {
        self.link.word(word).fetch_or(bits, Ordering::SeqCst)
    }

    #[inline]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn ring_bytes(&self, _way: Way) -> u64 {
        self.link.ring_bytes()
    }

    fn put(&self, at: u64, source: &[libc::iovec], from: u64, bytes: u64) {
        let mut to = self.link.ring(Way::Out).as_ptr().wrapping_add(at as usize);
        let put = walk(source, from, bytes, |from, length| {
            // SAFETY: the program's memory, and a piece of the ring that `local` has asked for: it
            // does not pass its end.
            unsafe { copy::bytes(from, to, length) };
            to = to.wrapping_add(length);
            Ok(length)
        });
        debug_assert_eq!(put, Ok(bytes));
    }

    fn take(&self, at: u64, sink: &mut [libc::iovec], to: u64, bytes: u64) {
        let mut from = self.link.ring(Way::In).as_ptr().wrapping_add(at as usize);
        let taken = walk(sink, to, bytes, |to, length| {
            // SAFETY: as in `put`, the other way round.
            unsafe { copy::bytes(from, to, length) };
            from = from.wrapping_add(length);
            Ok(length)
        });
        debug_assert_eq!(taken, Ok(bytes));
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

impl Kernel for Call<'_, '_> {
    fn sent(&self) -> u64 {
        tcp::info(self.socket()).map_or(0, |info| info.sent)
    }

    fn taken(&self) -> u64 {
        tcp::taken(self.socket()).unwrap_or(0)
    }

    fn send_queue(&self) -> (u64, u64) {
        let most = rustix::net::sockopt::socket_send_buffer_size(self.socket()).unwrap_or(0);
        // one that cannot be asked is not changed over
        let unacknowledged = tcp::unacknowledged(self.socket()).unwrap_or(u64::MAX / 2);
        (unacknowledged, most as u64)
    }

    fn send_from_ring(&self, at: u64, bytes: u64) -> Result<u64, Errno> {
        let (ring, size) = (self.link.ring(Way::Out).as_ptr(), self.link.ring_bytes());
        let (at, bytes) = (at.min(size), bytes.min(size));
        let first = bytes.min(size - at);
        let part = |at: u64, length: u64| libc::iovec {
            iov_base: ring.wrapping_add(at as usize).cast(),
            iov_len: length as usize,
        };
        let parts = [part(at, first), part(0, bytes - first)];
        // SAFETY: pieces of the ring, which is mapped as long as the link lives.
        let sent = unsafe { tcp::send(self.socket(), &parts) };
        sent.map(|sent| sent as u64).map_err(errno)
    }

    fn receive(&self, sink: &mut [libc::iovec], to: u64, most: u64) -> Result<u64, Errno> {
        let received = match &*sink {
            // one piece, as most programs have
            [part] if to == 0 => {
                let iov_len = part
                    .iov_len
                    .min(usize::try_from(most).unwrap_or(usize::MAX));
                let part = libc::iovec { iov_len, ..*part };
                // SAFETY: memory of the program that it wants written.
                unsafe { tcp::receive(self.socket(), &[part]) }
            }
            _ => {
                let (parts, _) = crate::parts::window(sink, to, most);
                // SAFETY: memory of the program that it wants written.
                unsafe { tcp::receive(self.socket(), &parts) }
            }
        };
        received.map(|received| received as u64).map_err(errno)
    }

    fn peek(&self, sink: &mut [libc::iovec], to: u64, most: u64) -> Result<u64, Errno> {
        let (parts, _) = crate::parts::window(sink, to, most);
        // SAFETY: memory of the program that it wants written.
        let peeked = unsafe { tcp::peek(self.socket(), &parts) };
        peeked.map(|peeked| peeked as u64).map_err(errno)
    }

    fn pass_over(&self, most: u64) -> Result<u64, Errno> {
        let mut nowhere = [0_u8; 512];
        let most = (most as usize).min(nowhere.len());
        rustix::net::recv(self.socket(), &mut nowhere[..most], RecvFlags::DONTWAIT)
            .map(|(passed, _)| passed as u64)
            .map_err(errno)
    }

    #[inline]
    fn me(&self) -> u64 {
        table::thread()
    }

    fn send_preface(&self, from: u64, sent: u64) -> Result<u64, Errno> {
        let number = self.link.preface().load(Ordering::SeqCst);
        if number == 0 {
            return Ok(0);
        }
        let preface = preface(number, from);
        let mut sent = sent as usize;
        while let Some(rest) = preface.get(sent..).filter(|rest| !rest.is_empty()) {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            sent += rustix::net::send(self.socket(), rest, flags).map_err(errno)?;
        }
        Ok(PREFACE_BYTES)
    }

    #[inline]
    fn time(&self) -> u64 {
        order::time()
    }

    #[inline]
    fn given(&self) -> u64 {
        order::given()
    }

    fn take_error(&self) -> Option<Errno> {
        self.pending_error().map(Errno)
    }

    fn offered(&self) {
        if self.link.is_far {
            self.ring(Way::In);
        }
    }

    fn lives(&self, thread: u64) -> bool {
        holder::thread_lives(thread)
    }

    fn sleep(&self, word: Word, value: u64, bounded: bool) -> bool {
        let until = if bounded {
            Until::For(DOUBT)
        } else {
            Until::Woken
        };
        self.link.wait(word, value, until) != Wait::TimedOut
    }

    fn wake(&self, word: Word) {
        if matches!(word, Word::Shared(..)) {
            self.link.count_wake();
        }
        wake::wake(self.link.futex(word), u32::MAX);
    }

    fn ring(&self, way: Way) {
        let link = self.link;
        link.count_wake();
        let bit = 1 << link.slot;
        link.told(link.role.other()).fetch_or(bit, Ordering::SeqCst);
        // bytes of what this side sends are the peer's to read
        let direction = segment::direction(link.role, way == Way::Out);
        let at = segment::box_word(link.slot, direction, way == Way::Out);
        let number = link.segment.word64(at).expect("a slot of the segment");
        link.peer.ring(number.load(Ordering::SeqCst));
    }

    fn recall(&self) {
        let link = self.link;
        let bit = 1 << link.slot;
        link.told(link.role.other()).fetch_or(bit, Ordering::SeqCst);
        // the service thread's box: that of an epoll instance is heard when the program looks
        link.peer.ring(0);
    }

    fn ring_own(&self) {
        let link = self.link;
        let bit = 1 << link.slot;
        link.told(link.role).fetch_or(bit, Ordering::SeqCst);
        link.own.signal();
    }
}

#[cfg(test)]
mod tests;
