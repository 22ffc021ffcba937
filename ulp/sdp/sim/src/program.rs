//! What a program's thread does with its socket, by the machines of `ferriband-sdp-local`.
//!
//! Owns: how a call waits. Must not know: what lies where; it hears what a call returns.

use crate::Law;
use crate::host::Host;
use crate::memory::Tag;
use crate::oracle::tag;
use crate::plan::{Task, Wait};
use crate::tcp::EAGAIN;
use crate::world::{PATIENCE, Sleep};
use ferriband_sdp_local::{BOX, FUTEX, Reader, Received, Sent, Shared, Way, Word, Writer};
use ferriband_sdp_proto::change::Phase;

const NEVER: u64 = u64::MAX;
const WANT_ROOM: Word = Word::Shared(Way::Out, Shared::WantRoom);
const WANT_BYTES: Word = Word::Shared(Way::In, Shared::WantBytes);

/// A thread.
pub(crate) struct Program<'y> {
    pub host: Host<'y>,
    /// Bytes that it has sent.
    sent: u64,
    /// It sends, or receives, without the library.
    plain: bool,
}

impl<'y> Program<'y> {
    pub fn new(host: Host<'y>) -> Self {
        Program {
            host,
            sent: 0,
            plain: false,
        }
    }

    pub fn run(mut self, task: &Task) {
        match task {
            Task::Send {
                bytes,
                most,
                wait,
                heir_at,
                shuts_down,
            } => {
                self.send_all(*bytes, *most, *wait, *heir_at);
                self.end_sending(*shuts_down);
            }
            Task::Receive {
                bytes,
                most,
                wait,
                heir_at,
            } => {
                self.receive_all(*bytes, *most, *wait, *heir_at);
            }
            Task::Exchange {
                asks,
                lengths,
                wait,
                most,
            } => {
                for (ask, answer) in lengths {
                    let done = if *asks {
                        self.send_all(*ask, *most, *wait, NEVER)
                            && self.receive_all(*answer, *most, *wait, NEVER)
                    } else {
                        self.receive_all(*ask, *most, *wait, NEVER)
                            && self.send_all(*answer, *most, *wait, NEVER)
                    };
                    if !done {
                        break;
                    }
                }
                if !asks {
                    self.receive_all(NEVER, *most, *wait, NEVER);
                }
                self.end_sending(false);
            }
            Task::Flood {
                lengths,
                wait,
                most,
            } => {
                for (own, theirs) in lengths {
                    if !self.send_all(*own, *most, *wait, NEVER)
                        || !self.receive_all(*theirs, *most, *wait, NEVER)
                    {
                        break;
                    }
                }
                self.end_sending(false);
            }
            Task::Hold { steps } => self.host.pause(*steps),
        }
    }

    fn rest(&self) {
        if self.host.chance(self.host.rests) {
            self.host.pause(self.host.below(self.host.longest_rest));
        }
    }

    /// False if the connection is over.
    fn send_all(&mut self, bytes: u64, most: u64, wait: Wait, heir_at: u64) -> bool {
        let end = self.sent + bytes;
        let heir_at = heir_at.saturating_add(self.sent);
        while self.sent < end {
            self.rest();
            if self.sent >= heir_at && !self.plain {
                self.become_plain_writer();
            }
            let bytes = (1 + self.host.below(most)).min(end - self.sent);
            let tags: Vec<Tag> = (self.sent..self.sent + bytes)
                .map(|serial| tag(self.host.me, serial))
                .collect();
            let Some(sent) = self.send(&tags, wait) else {
                return false;
            };
            self.accept(&tags[..sent as usize]);
        }
        true
    }

    fn accept(&mut self, tags: &[Tag]) {
        self.sent += tags.len() as u64;
        if !tags.is_empty() {
            self.host.progressed();
        }
        self.host.oracle.borrow_mut().accepted(tags);
    }

    /// One call. None if the connection is over.
    fn send(&mut self, tags: &[Tag], wait: Wait) -> Option<u64> {
        if self.plain {
            return self.send_by_kernel(tags);
        }
        let host = &self.host;
        let writer = Writer(host);
        let mut wants = None;
        loop {
            match writer.send(tags, 0, tags.len() as u64) {
                Sent::Bytes(bytes) => return Some(bytes),
                Sent::ByKernel if wait == Wait::Block => {
                    host.enter(host.me, Way::Out);
                    let sent = self.send_by_kernel(tags);
                    host.leave(host.me);
                    writer.leave_kernel();
                    return sent;
                }
                Sent::ByKernel => {
                    host.enter(host.me, Way::Out);
                    let sent = host.tcp_send(tags, false);
                    host.leave(host.me);
                    writer.leave_kernel();
                    match sent {
                        Ok(bytes) => return Some(bytes),
                        Err(EAGAIN) => host.wait(Sleep::Write),
                        Err(_) => return None,
                    }
                }
                sent @ (Sent::NoRoom | Sent::KernelFull) => match (wants.take(), wait) {
                    (None, Wait::Block) => wants = Some(writer.want_room(FUTEX)),
                    (None, Wait::Poll) => wants = Some(writer.want_room(BOX)),
                    (Some(wants), wait) => {
                        let left = match sent {
                            Sent::NoRoom => writer.tire(host.clock.get(), PATIENCE),
                            _ => Some(NEVER),
                        };
                        let Some(left) = left else { continue };
                        match wait {
                            Wait::Block => writer.sleep(wants),
                            Wait::Poll => drop(host.wait_news(Some(WANT_ROOM), left)),
                        }
                    }
                },
                Sent::Busy => {
                    host.fail(Law::Locks, "a send interrupts itself");
                    return None;
                }
                Sent::Ended => {
                    let (ended, over) = host.kernel_ends();
                    let has_died = ended && host.killed[1 - host.side].get();
                    if !over && !has_died {
                        host.fail(Law::End, "a send was refused, and the connection lives");
                    }
                    if writer.take_error().is_none() {
                        host.hear_error();
                    }
                    return None;
                }
            }
        }
    }

    /// send(2) that waits: all, or what went before an error.
    fn send_by_kernel(&self, tags: &[Tag]) -> Option<u64> {
        let mut sent = 0;
        while sent < tags.len() {
            match self.host.tcp_send(&tags[sent..], false) {
                Ok(bytes) => sent += bytes as usize,
                Err(EAGAIN) => self.host.wait(Sleep::Write),
                Err(_) if sent > 0 => break,
                Err(_) => return None,
            }
        }
        Some(sent as u64)
    }

    /// exec of a program without the library that sends.
    fn become_plain_writer(&mut self) {
        self.plain = true;
        self.host.stats.borrow_mut().heirs += 1;
        while !Writer(&self.host).go_back() {
            self.host.wait(Sleep::Write);
        }
    }

    fn end_sending(&self, shuts_down: bool) {
        let host = &self.host;
        let left = host.senders[host.side].get() - 1;
        host.senders[host.side].set(left);
        if left > 0 || !shuts_down {
            return;
        }
        while !Writer(host).end() {
            host.wait(Sleep::Write);
        }
        host.shut_down();
    }

    /// False at the stream's end, or at an error.
    fn receive_all(&mut self, bytes: u64, most: u64, wait: Wait, heir_at: u64) -> bool {
        let mut received = 0;
        while received < bytes {
            self.rest();
            if received >= heir_at && !self.plain && !self.become_plain_reader() {
                return false;
            }
            let most = (1 + self.host.below(most)).min(bytes - received);
            let before = self.host.oracle.borrow().seen();
            let mut sink = Vec::new();
            let Some(more) = self.receive(&mut sink, most, wait) else {
                return false;
            };
            sink.truncate(more as usize);
            let mut oracle = self.host.oracle.borrow_mut();
            let lawful = oracle.received(self.host.me, &sink, before);
            drop(oracle);
            if let Err(what) = lawful {
                self.host.fail(Law::Stream, what);
            }
            if more == 0 {
                self.check_end();
                return false;
            }
            received += more;
            self.host.progressed();
        }
        true
    }

    /// At a stream's end nothing of it is missing, unless somebody was killed or reset.
    fn check_end(&self) {
        let host = &self.host;
        host.check_told(host.side);
        let lost = host.tcp.borrow().was_reset
            || host.heirs[host.side].get() && host.killed[1 - host.side].get();
        if lost {
            return;
        }
        let missing = host.oracle.borrow().missing(host.of_side(1 - host.side));
        if let Some(what) = missing {
            host.fail(Law::End, format!("at the stream's end {what}"));
        }
        if !host.kernel_ends().0 {
            host.fail(Law::End, "the stream's end, which the peer has not sent");
        }
    }

    /// One call. None after an error.
    fn receive(&self, sink: &mut Vec<Tag>, most: u64, wait: Wait) -> Option<u64> {
        if self.plain {
            return self.receive_by_kernel(sink, most);
        }
        let host = &self.host;
        let reader = Reader(host);
        if host.agreed() && host.chance(30) {
            reader.offer();
        }
        let mut wants = None;
        loop {
            match reader.receive(sink, 0, most) {
                Received::Bytes(bytes) => return Some(bytes),
                Received::ByKernel if wait == Wait::Block => {
                    host.enter(host.me, Way::In);
                    let received = self.receive_by_kernel(sink, most);
                    host.leave(host.me);
                    reader.leave_kernel();
                    return received.filter(|bytes| *bytes > 0 || reader.error_at_end().is_none());
                }
                Received::ByKernel => {
                    host.enter(host.me, Way::In);
                    let received = host.tcp_receive(sink, 0, most);
                    host.leave(host.me);
                    reader.leave_kernel();
                    match received {
                        Ok(0) => return reader.error_at_end().is_none().then_some(0),
                        Ok(bytes) => return Some(bytes),
                        Err(EAGAIN) => self.epoll(&reader),
                        Err(_) => return None,
                    }
                }
                Received::Nothing if wait == Wait::Poll => self.epoll(&reader),
                Received::Nothing => match wants.take() {
                    None => wants = Some(reader.want_bytes(FUTEX)),
                    Some(wants) => reader.sleep(wants),
                },
                Received::Refused(_) => return None,
                Received::Broken(broken) => {
                    host.fail(Law::Broken, broken.to_string());
                    return None;
                }
            }
        }
    }

    fn receive_by_kernel(&self, sink: &mut Vec<Tag>, most: u64) -> Option<u64> {
        loop {
            match self.host.tcp_receive(sink, 0, most) {
                Ok(bytes) => return Some(bytes),
                Err(EAGAIN) => self.host.wait(Sleep::Read),
                Err(_) => return None,
            }
        }
    }

    /// epoll_wait of an instance that has only this socket: it has edges of the kernel's, and looks
    /// at the ring itself.
    fn epoll(&self, reader: &Reader<'_, Host<'y>>) {
        reader.want_bytes(BOX);
        if !reader.has_bytes() {
            self.host.wait_news(Some(WANT_BYTES), NEVER);
        }
    }

    /// exec of a program without the library that receives. False after an error.
    fn become_plain_reader(&mut self) -> bool {
        let reader = Reader(&self.host);
        self.host.stats.borrow_mut().heirs += 1;
        self.host.heirs[self.host.side].set(true);
        let waits = self.host.chance(50);
        let mut wants = None;
        loop {
            let given = reader.give_up();
            reader.hand_on();
            match given {
                Ok(true) => break,
                // the peer is late
                Ok(false) if !waits && wants.is_some() && reader.phase() == Phase::Sdp => break,
                Ok(false) => match wants.take() {
                    None => wants = Some(reader.want_bytes(FUTEX)),
                    Some(wants) => reader.sleep(wants),
                },
                Err(Received::Broken(broken)) => {
                    self.host.fail(Law::Broken, broken.to_string());
                    return false;
                }
                Err(_) => return false,
            }
        }
        self.plain = true;
        true
    }
}
