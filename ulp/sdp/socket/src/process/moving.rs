//! Calls that move bytes.
//!
//! Owns: what a call does first, and what is counted while the kernel does it. Must not know: the
//! kernel's functions. What the kernel is to do is told with a [`Ticket`], which has no destructor:
//! whoever has it sees to it that it ends, though the thread be cancelled inside the kernel.
//!
//! A call keeps its connection, whoever closes the number meanwhile: it goes on by the socket that
//! its link keeps then, as a call inside the kernel does.

use super::memory::{self, Access};
use super::state::{self, State};
use super::{Process, socket};
use crate::calls::{self, Answer, Nap, Progress};
use crate::link::{Call, Link};
use crate::meet::report::Cause;
use crate::order;
use crate::parts::{ahead, behind, length};
use crate::segment::RING_BYTES;
use crate::spin;
use crate::table::{Open, Pin};
use crate::tcp;
use ferriband_host::wake::{self, Wait};
use ferriband_sdp_local::{Own, Reader, Writer};
use ferriband_sdp_proto::change::Phase;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a call does.
#[derive(Clone, Copy, Debug)]
pub enum Begun {
    /// The kernel's function is all.
    Plain,
    /// The kernel's function is called as the program has called it, then [`Ticket::end`].
    Kernel(Ticket),
    /// So many bytes were moved.
    Done(usize),
    /// An error, by its number.
    Failed(i32),
    /// The thread sleeps as [`Sleeper::nap`] says, and [`Sleeper::send`] or [`Sleeper::receive`]
    /// goes on.
    Sleep(Sleeper),
}

/// A call whose thread is about to sleep. It has no destructor: who was cancelled in the sleep is
/// told by [`Sleeper::end`].
#[derive(Clone, Copy, Debug)]
pub struct Sleeper {
    process: &'static Process,
    open: Open,
    call: Paused,
    nap: Nap,
}

/// What a call keeps from one sleep to the next.
#[derive(Clone, Copy, Debug)]
struct Paused {
    number: i32,
    /// The program's number was closed, and this is another one of the socket.
    is_renumbered: bool,
    flags: i32,
    /// Bytes that were received (MSG_WAITALL).
    done: u64,
    progress: Progress,
    /// How long the call may sleep, once it was looked at.
    known: Option<Result<Option<Duration>, i32>>,
}

impl Paused {
    fn new(number: i32, flags: i32) -> Self {
        Self {
            number,
            is_renumbered: false,
            flags,
            done: 0,
            progress: Progress::default(),
            known: None,
        }
    }
}

impl Paused {
    /// Whether the kernel's function may be called with the program's own number.
    fn may_go_as_called(&self, link: &Link<'_>) -> bool {
        !self.is_renumbered && link.kept().is_none()
    }
}

impl Sleeper {
    /// Where the thread sleeps.
    pub fn nap(&self) -> Nap {
        self.nap
    }

    /// The number of the socket.
    pub fn number(&self) -> i32 {
        self.call.number
    }

    /// A call that sends goes on.
    ///
    /// # Safety
    /// The parts are those that it began with, and may be read.
    pub unsafe fn send(mut self, parts: &[libc::iovec], woken: Wait) -> Begun {
        self.call.progress.slept(woken);
        let pin = self.take_up();
        self.process.send_on(pin, parts, self.call)
    }

    /// A call that receives goes on.
    ///
    /// # Safety
    /// The parts are those that it began with, and may be written.
    pub unsafe fn receive(mut self, parts: &mut [libc::iovec], woken: Wait) -> Begun {
        self.call.progress.slept(woken);
        let pin = self.take_up();
        self.process.receive_on(pin, parts, self.call)
    }

    /// The number may have been closed while the thread slept: the connection's other numbers, or
    /// what its link keeps, are the same socket.
    fn take_up(&mut self) -> Pin<'static> {
        let pin = self.process.table.take_up(self.open);
        if let Some(number) = self.process.number_now(&pin, self.call.number) {
            self.call.is_renumbered |= number != self.call.number;
            self.call.number = number;
        }
        pin
    }

    /// The thread was cancelled.
    pub fn end(self) {
        drop(self.process.table.take_up(self.open));
    }
}

/// A call that is inside the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    process: &'static Process,
    open: Open,
    counted: Own,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Process")
    }
}

impl Ticket {
    /// The kernel has answered: so many bytes, or minus an error's number. Gives an error that the
    /// program is to have in the place of the answer.
    #[inline]
    pub fn end(self, answer: isize) -> Option<i32> {
        spin::by_kernel();
        if self.counted == Own::Sends {
            order::by_kernel();
        }
        let pin = self.process.table.take_up(self.open);
        pin.record()
            .word(self.counted)
            .fetch_sub(1, Ordering::SeqCst);
        if answer == RESET {
            self.process.was_reset(&pin);
        }
        let bytes = u64::try_from(answer).ok()?;
        if bytes == 0 && self.counted == Own::Receives && pin.link().is_some() {
            return self.process.error_at_end(&pin);
        }
        if pin.traffic().is_settled() {
            return None;
        }
        let is_worth = match self.counted {
            Own::Sends => pin.traffic().sent(bytes),
            _ => pin.traffic().received(bytes),
        };
        if is_worth {
            self.process.worth(&pin, bytes);
        } else if pin.traffic().is_sought() {
            self.process.sought(&pin);
        }
        None
    }
}

/// The connection was reset.
const RESET: isize = -(libc::ECONNRESET as isize);

/// So much is sent at a time whose memory was looked at.
const PIECE: u64 = 128 << 10;
/// Of the memory of a receive so much is looked at though less is there.
pub(super) const FEW: u64 = 4096;

/// Flags that a call on the ring obeys.
const SEND_FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_EOR;
const RECEIVE_FLAGS: i32 =
    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_WAITALL | libc::MSG_CMSG_CLOEXEC | AHEAD;
/// Flags of a receive that leaves bytes, or throws them away.
const AHEAD: i32 = libc::MSG_PEEK | libc::MSG_TRUNC;

impl Process {
    /// send(2), write(2) and their like.
    ///
    /// # Safety
    /// The parts may be read.
    #[inline]
    pub unsafe fn send(&'static self, number: i32, parts: &[libc::iovec], flags: i32) -> Begun {
        let Some(pin) = self.pin(number) else {
            return Begun::Plain;
        };
        loop {
            if pin.link().is_some() {
                return self.send_by(pin, number, parts, flags);
            }
            let word = pin.record().word(Own::Sends);
            word.fetch_add(1, Ordering::SeqCst);
            // before the kernel has it: whoever puts a link looks at this afterwards
            if flags & libc::MSG_OOB != 0 {
                self.never(&pin, Cause::Flags);
            }
            // only a link closes the gate, and lets a direction change
            let gate = pin.record().word(Own::SendGate).load(Ordering::SeqCst);
            if gate == 0 && pin.link().is_none() {
                return self.by_kernel(pin, Own::Sends);
            }
            word.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// recv(2), read(2) and their like.
    ///
    /// # Safety
    /// The parts may be written.
    #[inline]
    pub unsafe fn receive(
        &'static self,
        number: i32,
        parts: &mut [libc::iovec],
        flags: i32,
    ) -> Begun {
        let Some(pin) = self.pin(number) else {
            return Begun::Plain;
        };
        loop {
            if pin.link().is_some() {
                return self.receive_by(pin, number, parts, flags);
            }
            let word = pin.record().word(Own::Receives);
            word.fetch_add(1, Ordering::SeqCst);
            if pin.record().word(Own::ReceiveGate).load(Ordering::SeqCst) == 0 {
                return self.by_kernel(pin, Own::Receives);
            }
            word.fetch_sub(1, Ordering::SeqCst);
        }
    }

    pub(super) fn by_kernel(&'static self, pin: Pin<'static>, counted: Own) -> Begun {
        Begun::Kernel(Ticket {
            process: self,
            open: pin.keep_open(),
            counted,
        })
    }

    fn send_by(
        &'static self,
        pin: Pin<'static>,
        number: i32,
        parts: &[libc::iovec],
        flags: i32,
    ) -> Begun {
        if flags & !SEND_FLAGS != 0 {
            self.never(&pin, Cause::Flags);
            self.bring_back_sent(&pin, number);
        }
        self.send_on(pin, parts, Paused::new(number, flags))
    }

    fn send_on(
        &'static self,
        pin: Pin<'static>,
        parts: &[libc::iovec],
        mut paused: Paused,
    ) -> Begun {
        let Some(link) = pin.link() else {
            return Begun::Plain;
        };
        let flags = paused.flags;
        let call = link.on(socket(paused.number));
        let answer = self.send_pieces(&pin, call, parts, &mut paused);
        match answer {
            Answer::Sleep(nap) => self.sleep(pin, paused, nap),
            Answer::Kernel(0) if paused.may_go_as_called(link) => self.by_kernel(pin, Own::Sends),
            Answer::Kernel(done) => {
                let moved = move_parts(libc::SYS_sendmsg, call, parts, done, flags);
                calls::sent_by_kernel(call);
                moved
            }
            Answer::Bytes(sent) => Begun::Done(sent as usize),
            Answer::Error(libc::EPIPE) => {
                if flags & libc::MSG_NOSIGNAL == 0 {
                    // SAFETY: to the calling thread, as the kernel does.
                    unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGPIPE) };
                }
                Begun::Failed(libc::EPIPE)
            }
            Answer::Error(errno) => Begun::Failed(errno),
        }
    }

    /// Sends the parts, and looks at their memory before.
    fn send_pieces(
        &'static self,
        pin: &Pin<'_>,
        call: Call<'_, 'static>,
        parts: &[libc::iovec],
        paused: &mut Paused,
    ) -> Answer {
        let bytes = length(parts);
        let (known, flags) = (&mut paused.known, paused.flags);
        let mut patience = patience(call, known, libc::SO_SNDTIMEO, flags);
        loop {
            let done = paused.progress.done();
            let end = bytes.min(done + PIECE);
            let is_good = match done {
                0 => memory::is_good(parts, end, Access::Read),
                _ => memory::is_good(&behind(parts, done), end - done, Access::Read),
            };
            if !is_good {
                if done > 0 {
                    return Answer::Bytes(done);
                }
                // the kernel answers as it does for TCP
                self.bring_back_sent(pin, call.socket().as_raw_fd());
            }
            let answer = calls::send(call, parts, end, &mut paused.progress, &mut patience);
            if answer != Answer::Bytes(end) || end == bytes {
                return answer;
            }
        }
    }

    /// The parts that a receive from the ring may write to, of those behind so many bytes. None: as
    /// many as there are.
    ///
    /// # Errors
    /// Memory that cannot be written.
    fn place_for(
        call: Call<'_, 'static>,
        parts: &[libc::iovec],
        bytes: u64,
        done: u64,
    ) -> Result<Option<Vec<libc::iovec>>, ()> {
        let left = bytes - done;
        let there = Reader(&call).in_ring();
        // what is not there so far is no more than this, or is left for the next call
        let most = there.unwrap_or(0).max(FEW).min(left);
        let rest = if done > 0 {
            Some(behind(parts, done))
        } else {
            None
        };
        if !memory::is_good(rest.as_deref().unwrap_or(parts), most, Access::Write) {
            return Err(());
        }
        if there.is_none() || most == left {
            return Ok(rest);
        }
        Ok(Some(ahead(rest.as_deref().unwrap_or(parts), most)))
    }

    fn receive_by(
        &'static self,
        pin: Pin<'static>,
        number: i32,
        parts: &mut [libc::iovec],
        flags: i32,
    ) -> Begun {
        let Some(link) = pin.link() else {
            return Begun::Plain;
        };
        if flags & !RECEIVE_FLAGS != 0 {
            // urgent bytes and errors are the kernel's in any case
            if flags & (libc::MSG_OOB | libc::MSG_ERRQUEUE) != 0 {
                return Begun::Plain;
            }
            self.never(&pin, Cause::Flags);
            if let Err(errno) = self.bring_back_received(&pin, number, flags) {
                return Begun::Failed(errno);
            }
        }
        if length(parts) == 0 {
            return Begun::Done(0);
        }
        let call = link.on(socket(number));
        let reader = Reader(&call);
        if reader.phase() == Phase::Tcp && !state::stays(&pin) {
            reader.offer();
        }
        self.receive_on(pin, parts, Paused::new(number, flags))
    }

    fn receive_on(
        &'static self,
        pin: Pin<'static>,
        parts: &mut [libc::iovec],
        mut paused: Paused,
    ) -> Begun {
        let Some(link) = pin.link() else {
            return Begun::Plain;
        };
        let bytes = length(parts);
        let flags = paused.flags;
        // bytes that nobody wants have a place of their own
        if flags & libc::MSG_TRUNC != 0 {
            return self.throw_away(pin, bytes, paused);
        }
        let call = link.on(socket(paused.number));
        if flags & libc::MSG_PEEK != 0 {
            let answer = {
                let known = &mut paused.known;
                let mut patience = patience(call, known, libc::SO_RCVTIMEO, flags);
                self.look_ahead(
                    &pin,
                    call,
                    parts,
                    flags,
                    &mut paused.progress,
                    &mut patience,
                )
            };
            return self.received(pin, parts, paused, answer);
        }
        let all = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_DONTWAIT == 0;
        let mut done = paused.done;
        loop {
            let mut rest = match Self::place_for(call, parts, bytes, done) {
                Ok(rest) => rest,
                Err(()) if done > 0 => return Begun::Done(done as usize),
                // the kernel answers as it does for TCP
                Err(()) => match self.bring_back_received(&pin, paused.number, flags) {
                    Ok(()) => None,
                    Err(errno) => return Begun::Failed(errno),
                },
            };
            let answer = {
                let known = &mut paused.known;
                let mut patience = patience(call, known, libc::SO_RCVTIMEO, flags);
                let room = rest.as_deref_mut().unwrap_or(parts);
                let most = length(room);
                calls::receive(call, room, most, &mut paused.progress, &mut patience)
            };
            match answer {
                Answer::Sleep(nap) => {
                    paused.done = done;
                    return self.sleep(pin, paused, nap);
                }
                Answer::Bytes(0) => return Begun::Done(done as usize),
                Answer::Bytes(received) => done += received,
                Answer::Kernel(_) if done == 0 && paused.may_go_as_called(link) => {
                    return self.by_kernel(pin, Own::Receives);
                }
                Answer::Kernel(_) => {
                    let moved = move_parts(libc::SYS_recvmsg, call, parts, done, flags);
                    calls::received_by_kernel(call);
                    return moved;
                }
                Answer::Error(errno) if done == 0 => return Begun::Failed(errno),
                Answer::Error(errno) => {
                    calls::tell_again(call, errno);
                    return Begun::Done(done as usize);
                }
            }
            if !all || done == bytes {
                return Begun::Done(done as usize);
            }
        }
    }

    fn sleep(&'static self, pin: Pin<'static>, call: Paused, nap: Nap) -> Begun {
        Begun::Sleep(Sleeper {
            process: self,
            open: pin.keep_open(),
            call,
            nap,
        })
    }

    /// What has come of a receive of which nothing was taken before.
    fn received(
        &'static self,
        pin: Pin<'static>,
        parts: &[libc::iovec],
        paused: Paused,
        answer: Answer,
    ) -> Begun {
        let Some(link) = pin.link() else {
            return Begun::Plain;
        };
        match answer {
            Answer::Sleep(nap) => self.sleep(pin, paused, nap),
            Answer::Kernel(_) if paused.may_go_as_called(link) => {
                self.by_kernel(pin, Own::Receives)
            }
            Answer::Kernel(_) => {
                let call = link.on(socket(paused.number));
                let moved = move_parts(libc::SYS_recvmsg, call, parts, 0, paused.flags);
                calls::received_by_kernel(call);
                moved
            }
            Answer::Bytes(bytes) => Begun::Done(bytes as usize),
            Answer::Error(errno) => Begun::Failed(errno),
        }
    }

    /// recv(2) with MSG_TRUNC: bytes are taken, or looked at, and no memory is written.
    fn throw_away(&'static self, pin: Pin<'static>, bytes: u64, mut paused: Paused) -> Begun {
        let Some(link) = pin.link() else {
            return Begun::Plain;
        };
        let (call, flags) = (link.on(socket(paused.number)), paused.flags);
        let most = bytes.min(RING_BYTES);
        let mut nowhere = vec![0_u8; most as usize];
        let mut parts = [libc::iovec {
            iov_base: nowhere.as_mut_ptr().cast(),
            iov_len: nowhere.len(),
        }];
        let answer = {
            let (known, progress) = (&mut paused.known, &mut paused.progress);
            let mut patience = patience(call, known, libc::SO_RCVTIMEO, flags);
            match flags & libc::MSG_PEEK {
                0 => calls::receive(call, &mut parts, most, progress, &mut patience),
                _ => self.look_ahead(&pin, call, &mut parts, flags, progress, &mut patience),
            }
        };
        self.received(pin, &parts, paused, answer)
    }
}

/// How long a call sleeps: what the socket is set to when it first would.
fn patience<'b, 'k>(
    call: Call<'b, 'static>,
    known: &'k mut Option<Result<Option<Duration>, i32>>,
    option: i32,
    flags: i32,
) -> impl FnMut() -> Result<Option<Duration>, i32> + use<'b, 'k> {
    move || {
        if call.link().is_lost() {
            return Err(libc::EBADF);
        }
        *known.get_or_insert_with(|| match flags & libc::MSG_DONTWAIT {
            0 => sleeps(call.socket(), option),
            _ => Err(libc::EAGAIN),
        })
    }
}

/// Until when a call on a socket may sleep that the program has set so.
fn sleeps(socket: BorrowedFd<'_>, option: i32) -> Result<Option<Duration>, i32> {
    let flags = rustix::fs::fcntl_getfl(socket).map_err(|error| error.raw_os_error())?;
    if flags.contains(rustix::fs::OFlags::NONBLOCK) {
        return Err(libc::EAGAIN);
    }
    let mut time = [0; 16];
    let got = tcp::get_option(socket, libc::SOL_SOCKET, option, &mut time);
    if got != Ok(time.len()) {
        return Ok(None);
    }
    let word = |at: usize| i64::from_ne_bytes(time[at..at + 8].try_into().expect("eight bytes"));
    let (seconds, micros) = (word(0), word(8));
    match (u64::try_from(seconds), u64::try_from(micros)) {
        (Ok(0), Ok(0)) | (Err(_), _) | (_, Err(_)) => Ok(None),
        (Ok(seconds), Ok(micros)) => {
            let time = Duration::from_secs(seconds) + Duration::from_micros(micros);
            Ok(wake::now().checked_add(time))
        }
    }
}

/// The parts behind so many bytes by the kernel, which waits as the socket is set. An error behind
/// bytes that were moved is for the program's next call, as where one call of the kernel moves all.
fn move_parts(
    way: libc::c_long,
    call: Call<'_, '_>,
    parts: &[libc::iovec],
    done: u64,
    flags: i32,
) -> Begun {
    let quiet = if done > 0 { libc::MSG_NOSIGNAL } else { 0 };
    let rest = behind(parts, done);
    // SAFETY: memory of the program's call.
    let by_kernel = unsafe { tcp::by_message(way, call.socket(), &rest, flags | quiet) };
    match by_kernel {
        Ok(bytes) => Begun::Done(done as usize + bytes),
        Err(error) if done > 0 => {
            calls::tell_again(call, error.raw_os_error());
            Begun::Done(done as usize)
        }
        Err(error) => {
            if error == Errno::CONNRESET {
                Writer(&call).has_told_reset();
            }
            Begun::Failed(error.raw_os_error())
        }
    }
}
