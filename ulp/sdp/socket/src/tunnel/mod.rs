//! Connections to other hosts: the slot of a connection is this process's own, and its service
//! thread stands for the peer. Two such threads carry bytes and words from slot to slot.
//!
//! Owns: what is said in frames, and when ([`Tunnel`]); how two hosts come to have one ([`hosts`]).
//! Must not know: how a stream of SDP comes to its bytes ([`Pipe`]).
//!
//! A direction's ring at W's side and that at R's hold the same window of the stream: W's tail is
//! what R's program has said. So whatever comes has room in the ring, and what a transport loses
//! still lies in W's ring, which goes back with it as on one host.
//!
//! W's side says `Change` and waits for `Hold` before it sends data. From then on R's program takes
//! no byte of TCP behind the change before this thread has looked at it: it is the preface that
//! W's copy begins with, or, if W has never heard the `Hold`, the stream.

pub mod hosts;
mod proof;
mod range;

pub use proof::{Proof, save_syns, saved_stamp, stamp};
pub use range::{Peers, Ranges};

use crate::link::{Call, PREFACE_BYTES, preface};
use crate::segment::NARROW_BYTES;
use ferriband_sdp_local::{BOX, CONNECTION_OVER, Far, Hold, Kernel, Memory, Own, Reader, Service};
use ferriband_sdp_local::{Shared, UNKNOWN, Way, Word};
use ferriband_sdp_proto::change::Phase;
use ferriband_sdp_wire::Frame;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::sync::atomic::Ordering;

/// The transport has failed, or the peer has left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost;

/// The byte stream between two service threads. No call waits.
pub trait Pipe {
    /// Takes bytes: as many as there is room for.
    ///
    /// # Errors
    /// It carries no more.
    fn send(&mut self, bytes: &[u8]) -> Result<usize, Lost>;

    /// Gives bytes: as many as there are, perhaps none.
    ///
    /// # Errors
    /// It carries no more, and all that came was given.
    fn receive(&mut self, to: &mut [u8]) -> Result<usize, Lost>;

    /// Asks to be told of the next news. True if there may have been some meanwhile: the caller
    /// looks again.
    ///
    /// # Errors
    /// It carries no more.
    fn want(&mut self) -> Result<bool, Lost>;
}

/// Bytes of frames that wait for room in the pipe, at most.
const MOST_WAITING: usize = 32 << 10;
/// Bytes of a frame's data at most: one frame does not hold up the tails behind it for long.
const MOST_DATA: u64 = 16 << 10;
/// So many bytes that the program has read are told of by a frame of their own.
const TELL_AFTER: u64 = NARROW_BYTES / 4;

/// How far this side's writer has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Out {
    /// It goes by TCP.
    Tcp,
    /// The peer was told that it has changed over.
    Said,
    /// The peer takes no byte of TCP beyond: the ring is carried.
    Carried,
    /// It has gone back.
    Over,
}

/// How far the peer's writer has got, as this side knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum In {
    /// It goes by TCP, and this side's program has not said that it looks at both.
    Tcp,
    /// The peer was told that it may change over.
    Offered,
    /// It has changed over behind so many bytes; the number stands there if it goes back.
    Held { offset: u64, number: u64 },
    /// It has gone back.
    Over,
}

/// One side of a connection between hosts.
pub struct Tunnel<P> {
    pipe: P,
    /// The pipe carries no more.
    lost: bool,
    /// TCP may have told already that the peer's writer has gone back.
    looks: bool,
    output: Out,
    input: In,
    /// The peer's program looks at both.
    may_change: bool,
    /// Bytes of this side's ring that were put into the pipe.
    sent: u64,
    /// Bytes that came for this side's program.
    arrived: u64,
    /// What of them the peer knows to be read.
    told: u64,
    recalled: bool,
    /// Frames that the pipe had no room for.
    waiting: Vec<u8>,
    /// The beginning of a frame.
    head: Vec<u8>,
    /// Bytes of data that belong to the last frame and have not come.
    data: u64,
}

impl<P: Pipe> Tunnel<P> {
    /// A connection whose two sides have agreed to have it.
    pub fn new(pipe: P) -> Self {
        Tunnel {
            pipe,
            lost: false,
            looks: false,
            output: Out::Tcp,
            input: In::Tcp,
            may_change: false,
            sent: 0,
            arrived: 0,
            told: 0,
            recalled: false,
            waiting: Vec::new(),
            head: Vec::new(),
            data: 0,
        }
    }

    /// What carries it.
    pub fn pipe(&self) -> &P {
        &self.pipe
    }

    /// The transport has failed: both directions go on by TCP.
    pub fn lose(&mut self, call: Call<'_, '_>) {
        if !std::mem::replace(&mut self.lost, true) {
            self.end(call);
        }
    }

    /// Goes on with all that can be gone on with, and wants to be told of what comes then.
    pub fn pump(&mut self, call: Call<'_, '_>) {
        for _ in 0..MOST_TURNS {
            if self.lost {
                return;
            }
            let more = self.carry(call).and_then(|()| {
                let of_program = self.want(call);
                self.pipe.want().map(|of_pipe| of_program || of_pipe)
            });
            match more {
                Ok(true) => {}
                Ok(false) => return,
                Err(Lost) => self.lose(call),
            }
        }
        // a peer that talks without end does not keep the thread from others
        call.ring_own();
    }

    /// Looks at TCP, after the kernel has told of it, or if that is due. True if it has to be
    /// looked at again though nobody tells: the program has not read up to there.
    ///
    /// `ended` is what the kernel has told of the connection's end before.
    pub fn look(&mut self, call: Call<'_, '_>, ended: u64) -> bool {
        self.looks = self.look_at_tcp(call, ended);
        self.looks
    }

    /// Whether TCP is to be looked at.
    pub fn looks(&self) -> bool {
        self.looks
    }

    fn carry(&mut self, call: Call<'_, '_>) -> Result<(), Lost> {
        self.hear(call)?;
        self.offer(call);
        self.flush()?;
        self.change(call)?;
        self.tell(call, false)?;
        self.recall(call)
    }

    /// Says that it wants to be told of news. True if there were some meanwhile.
    fn want(&mut self, call: Call<'_, '_>) -> bool {
        if self.may_change && self.output != Out::Over {
            call.set(Word::Shared(Way::Out, Shared::WantBytes), BOX);
        }
        let mut has_read = false;
        if self.arrived - self.told > NARROW_BYTES / 2 {
            call.set(Word::Shared(Way::In, Shared::WantRoom), BOX);
            let tail = call.load(Word::Shared(Way::In, Shared::Tail));
            has_read = tail <= self.arrived && tail - self.told.min(tail) >= TELL_AFTER;
        }
        let phase = phase(call, Way::Out);
        let has_more = match self.output {
            Out::Tcp => self.may_change && self.has_changed(call, phase),
            Out::Said => false,
            Out::Carried => {
                let head = call.load(Word::Shared(Way::Out, Shared::Head));
                self.waiting.is_empty() && (phase > Phase::Sdp || head != self.sent)
            }
            Out::Over => false,
        };
        let is_offered = self.input == In::Tcp && phase_is(call, Way::In, Phase::Ready);
        has_more || has_read || is_offered
    }

    /// Whether there is something to say of a writer that has changed over. Only one that has
    /// written is told of: its end in TCP without a copy is that of a process that died.
    fn has_changed(&self, call: Call<'_, '_>, now: Phase) -> bool {
        let head = || call.load(Word::Shared(Way::Out, Shared::Head));
        now > Phase::Sdp || now == Phase::Sdp && head() > 0
    }

    fn offer(&mut self, call: Call<'_, '_>) {
        if self.input == In::Tcp && Far(&call).take_offer() {
            self.input = In::Offered;
            self.say(Frame::Ready);
        }
    }

    /// What the program sends.
    fn change(&mut self, call: Call<'_, '_>) -> Result<(), Lost> {
        let now = phase(call, Way::Out);
        if self.output == Out::Tcp && self.has_changed(call, now) {
            if now == Phase::Sdp {
                let offset = call.load(Word::Shared(Way::Out, Shared::Offset));
                self.output = Out::Said;
                self.say(Frame::Change(offset));
            } else {
                self.output = Out::Over;
                self.say(Frame::Stays);
            }
        }
        while self.output == Out::Carried && self.waiting.is_empty() {
            // the base first: it is put forward only when all that was sent is read
            let head = call.load(Word::Shared(Way::Out, Shared::Head));
            let base = call.load(Word::Shared(Way::Out, Shared::Base));
            if phase(call, Way::Out) != Phase::Sdp {
                self.output = Out::Over;
                break;
            }
            let bytes = head.saturating_sub(self.sent).min(MOST_DATA);
            if bytes == 0 {
                break;
            }
            // what the program has read goes along
            self.tell(call, true)?;
            self.say(Frame::Data {
                position: self.sent,
                length_bytes: bytes as u32,
            });
            let at = self.waiting.len();
            self.waiting.resize(at + bytes as usize, 0);
            call.link()
                .copy_out(base, self.sent, &mut self.waiting[at..]);
            self.sent += bytes;
            self.flush()?;
        }
        self.flush()
    }

    /// What the program has read.
    fn tell(&mut self, call: Call<'_, '_>, along: bool) -> Result<(), Lost> {
        let tail = call.load(Word::Shared(Way::In, Shared::Tail));
        let news = tail.saturating_sub(self.told);
        let tells = along || news >= TELL_AFTER || self.has_recalled(call);
        if news == 0 || !tells || tail > self.arrived {
            return Ok(());
        }
        self.told = tail;
        self.say(Frame::Tail(tail));
        self.flush()
    }

    fn has_recalled(&self, call: Call<'_, '_>) -> bool {
        !self.recalled && call.load(Word::Shared(Way::In, Shared::Recall)) != 0
    }

    fn recall(&mut self, call: Call<'_, '_>) -> Result<(), Lost> {
        if self.has_recalled(call) && self.input != In::Over {
            self.recalled = true;
            self.say(Frame::Recall);
        }
        self.flush()
    }

    fn say(&mut self, frame: Frame) {
        self.waiting.extend_from_slice(&frame.bytes());
    }

    fn flush(&mut self) -> Result<(), Lost> {
        while !self.waiting.is_empty() {
            let sent = self.pipe.send(&self.waiting)?;
            if sent == 0 {
                // each side answers a frame with one at most: a peer that asks without end and
                // never reads breaks the rules
                return match self.waiting.len() > MOST_WAITING {
                    true => Err(Lost),
                    false => Ok(()),
                };
            }
            self.waiting.drain(..sent);
        }
        Ok(())
    }

    /// Hears what the peer says.
    fn hear(&mut self, call: Call<'_, '_>) -> Result<(), Lost> {
        let mut buffer = [0; 16 << 10];
        let before = self.arrived;
        loop {
            let came = self.pipe.receive(&mut buffer)?;
            if came == 0 {
                break;
            }
            self.take(call, &buffer[..came])?;
        }
        if self.arrived != before && self.input != In::Over {
            Far(&call).arrived(self.arrived);
            Reader(&call).heard(0);
        }
        Ok(())
    }

    fn take(&mut self, call: Call<'_, '_>, mut bytes: &[u8]) -> Result<(), Lost> {
        while !bytes.is_empty() {
            if self.data > 0 {
                let part = bytes.len().min(self.data as usize);
                // what comes behind the end is in TCP as well
                if self.input != In::Over {
                    call.link().copy_in(self.arrived, &bytes[..part]);
                    self.arrived += part as u64;
                }
                self.data -= part as u64;
                bytes = &bytes[part..];
                continue;
            }
            let part = bytes.len().min(Frame::LEN - self.head.len());
            self.head.extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            if let Ok(head) = <&[u8; Frame::LEN]>::try_from(&self.head[..]) {
                let frame = Frame::parse(head).map_err(|_| Lost)?;
                self.head.clear();
                self.obey(call, frame)?;
            }
        }
        Ok(())
    }

    fn obey(&mut self, call: Call<'_, '_>, frame: Frame) -> Result<(), Lost> {
        let is_possible = match frame {
            Frame::Ready => {
                Far(&call).may_change();
                !std::mem::replace(&mut self.may_change, true)
            }
            Frame::Change(offset) => return self.hold(call, offset),
            Frame::Hold(number) => {
                let is_asked = self.output == Out::Said && number != 0;
                let put = || call.link().preface().store(number, Ordering::SeqCst);
                if is_asked {
                    self.output = match Far(&call).is_held(put) {
                        true => Out::Carried,
                        false => Out::Over,
                    };
                }
                is_asked
            }
            Frame::Data {
                position,
                length_bytes,
            } => {
                let tail = call.load(Word::Shared(Way::In, Shared::Tail));
                let end = position.checked_add(length_bytes.into());
                let fits = end.is_some_and(|end| end <= tail.saturating_add(NARROW_BYTES));
                let is_next = position == self.arrived && fits;
                self.data = length_bytes.into();
                match self.input {
                    In::Held { .. } => is_next,
                    In::Over => true,
                    In::Tcp | In::Offered => false,
                }
            }
            Frame::Tail(position) => {
                let is_possible = position <= self.sent && Far(&call).freed(position);
                // a writer that waits for room looks again
                if is_possible && call.load(Word::Shared(Way::Out, Shared::WantRoom)) != 0 {
                    Reader(&call).heard(0);
                }
                is_possible
            }
            Frame::Recall => {
                let recall = Word::Shared(Way::Out, Shared::Recall);
                call.store(recall, 1);
                Service(&call).rung();
                true
            }
            Frame::Stays => {
                let is_possible = matches!(self.input, In::Tcp | In::Offered);
                if self.input == In::Offered {
                    Far(&call).never_mind();
                }
                self.input = In::Over;
                is_possible
            }
            Frame::Proof(_) => false,
        };
        match is_possible {
            true => Ok(()),
            false => Err(Lost),
        }
    }

    fn hold(&mut self, call: Call<'_, '_>, offset: u64) -> Result<(), Lost> {
        if self.input != In::Offered || offset == UNKNOWN {
            return Err(Lost);
        }
        match Far(&call).hold(offset) {
            Hold::Held => {}
            Hold::Late => {
                Far(&call).never_mind();
                self.input = In::Over;
                self.recalled = true;
                self.say(Frame::Recall);
                return self.flush();
            }
            Hold::Wrong => return Err(Lost),
        }
        let number = random();
        self.input = In::Held { offset, number };
        self.say(Frame::Hold(number));
        self.looks = true;
        self.flush()?;
        // a program that sleeps looks where its next byte comes from
        Reader(&call).heard(0);
        Ok(())
    }

    /// Whether TCP says that the peer's writer has gone back. True if it may say so when the
    /// program has read on.
    fn look_at_tcp(&mut self, call: Call<'_, '_>, ended: u64) -> bool {
        let In::Held { offset, number } = self.input else {
            return false;
        };
        let taken = call.load(Word::Own(Own::FromTcp));
        let before = offset.saturating_sub(taken);
        let mut seen = [0; PREFACE_BYTES as usize];
        if before > 0 {
            // bytes of the stream come first, and its reader does not tell of them, nor the kernel
            // of what follows them, if it has told already
            return ended != 0
                || rustix::io::ioctl_fionread(call.socket()).is_ok_and(|there| there > before);
        }
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let length = match rustix::net::recv(call.socket(), &mut seen[..], flags) {
            Ok((length, _)) => length,
            Err(Errno::INTR) => return true,
            Err(Errno::AGAIN) if ended & CONNECTION_OVER == 0 => return false,
            // the kernel tells it once
            Err(error) => return self.fail(call, error),
        };
        let expected = preface(number, 0);
        let known = length.min(8);
        if seen[..known] != expected[..known] && self.arrived == 0 {
            Far(&call).never_mind();
            self.input = In::Over;
            return false;
        }
        if length == 0 || seen[..known] != expected[..known] {
            // its end, or other bytes, in the middle of what the tunnel carries
            return self.fail(call, Errno::CONNRESET);
        }
        let Ok(seen) = <[u8; 16]>::try_from(&seen[..length]) else {
            return match ended {
                0 => false,
                _ => self.fail(call, Errno::CONNRESET),
            };
        };
        let from = u64::from_be_bytes([8, 9, 10, 11, 12, 13, 14, 15].map(|at: usize| seen[at]));
        match Far(&call).gone_back(PREFACE_BYTES, from) {
            Some(true) => self.input = In::Over,
            Some(false) => return true,
            None => return self.fail(call, Errno::CONNRESET),
        }
        false
    }

    /// The stream ends with an error behind what the ring holds.
    fn fail(&mut self, call: Call<'_, '_>, error: Errno) -> bool {
        Far(&call).fail(ferriband_sdp_local::Errno(error.raw_os_error()));
        self.input = In::Over;
        false
    }

    /// The pipe carries no more: both directions go on by TCP.
    fn end(&mut self, call: Call<'_, '_>) {
        self.waiting.clear();
        match self.input {
            In::Tcp => {
                // an offer that the peer has not heard of
                if Far(&call).take_offer() {
                    Far(&call).never_mind();
                }
                self.input = In::Over;
            }
            In::Offered => {
                Far(&call).never_mind();
                self.input = In::Over;
            }
            In::Held { .. } => self.looks = true,
            In::Over => {}
        }
        self.output = Out::Over;
        call.store(Word::Shared(Way::Out, Shared::Recall), 1);
        Service(&call).rung();
    }

    /// Whether TCP's end is the stream's: while W has to say first how it goes on there, the
    /// program is not told of an end.
    pub fn ends_with_tcp(&self) -> bool {
        !matches!(self.input, In::Held { .. })
    }
}

/// Turns of one call, in which peer and program may go on without end.
const MOST_TURNS: usize = 16;

fn phase(call: Call<'_, '_>, way: Way) -> Phase {
    let word = call.load(Word::Shared(way, Shared::Phase));
    let phase = u32::try_from(word).ok().and_then(Phase::from_word);
    phase.unwrap_or(Phase::Done)
}

fn phase_is(call: Call<'_, '_>, way: Way, expected: Phase) -> bool {
    phase(call, way) == expected
}

/// A number that nobody can know, not 0.
fn random() -> u64 {
    let mut bytes = [0; 8];
    let flags = rustix::rand::GetRandomFlags::empty();
    let filled = rustix::rand::getrandom(&mut bytes[..], flags);
    debug_assert_eq!(filled, Ok(8), "short requests are served whole");
    u64::from_ne_bytes(bytes) | 1
}

#[cfg(test)]
mod tests;
