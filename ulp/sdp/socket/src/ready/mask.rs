//! What is so of one connection that SDP carries: the events that poll(2) and epoll(7) would tell
//! if the kernel carried it.
//!
//! Owns: which bits come from the ring, which from the kernel's socket. Must not know: who asks.

use super::full;
use super::kernel::{self, ERR, HUP, IN, OUT, PRI, RDHUP, RDNORM, WRNORM};
use crate::link::Call;
use ferriband_sdp_local::{
    BOX, CONNECTION_OVER, Finds, Memory, Own, PEER_ENDED, Reader, Service, Word, Writer,
};
use ferriband_sdp_proto::change::Phase;

/// Bits that mean bytes to receive.
const INPUT: u32 = IN | RDNORM;
/// Bits that mean room to send.
const OUTPUT: u32 = OUT | WRNORM;
/// Bits that the kernel tells and that may go without news of the kernel: another call takes an
/// error, or the urgent byte.
const PASSING: u32 = ERR | PRI;

/// What is known of the kernel's socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// What it was when it was last looked at.
    pub bits: u32,
    /// It has told of news since.
    pub stale: bool,
}

impl Seen {
    /// Nothing is known.
    pub fn nothing() -> Self {
        let (bits, stale) = (0, true);
        Self { bits, stale }
    }
}

/// Where a way's readiness is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// The kernel's socket tells.
    Kernel,
    /// The kernel's socket has a copy of what was read, which has not come so far.
    Copy,
    /// It is so.
    Ready,
    /// It is not so, whatever the kernel says.
    Idle,
}

/// Both ways of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ways {
    /// Bytes to receive.
    pub input: Source,
    /// Room to send.
    pub output: Source,
    /// An error that the kernel has told this library, and that the program has not had.
    has_error: bool,
}

impl Ways {
    /// As of this moment.
    pub fn of(call: Call<'_, '_>) -> Self {
        Self {
            input: input(call),
            output: output(call),
            has_error: Writer(&call).has_error(),
        }
    }

    /// What the kernel has to be asked, if this is of interest.
    pub fn asks(self, interest: u32) -> u32 {
        let input = matches!(self.input, Source::Kernel | Source::Copy);
        let input = if input { interest & INPUT } else { 0 };
        let output = self.output == Source::Kernel;
        input | if output { interest & OUTPUT } else { 0 }
    }

    /// The events, where the kernel has these.
    pub fn events(self, kernel: u32, interest: u32) -> u32 {
        let mut events = kernel & (HUP | ERR | RDHUP | PRI);
        if self.has_error {
            events |= ERR;
        }
        let has = |bits| kernel & bits != 0;
        match self.input {
            Source::Kernel if has(INPUT) => events |= INPUT,
            Source::Ready => events |= INPUT,
            _ => {}
        }
        match self.output {
            Source::Kernel if has(OUTPUT) => events |= OUTPUT,
            Source::Ready => events |= OUTPUT,
            _ => {}
        }
        events & (interest | ERR | HUP)
    }
}

fn input(call: Call<'_, '_>) -> Source {
    let reader = Reader(&call);
    match reader.finds() {
        Finds::ByKernel => Source::Kernel,
        Finds::Something => Source::Ready,
        Finds::Nothing => Source::Idle,
        Finds::Copy => {
            reader.pass_over_copy();
            match reader.finds() {
                Finds::ByKernel => Source::Kernel,
                Finds::Something => Source::Ready,
                Finds::Nothing => Source::Idle,
                Finds::Copy => Source::Copy,
            }
        }
    }
}

fn output(call: Call<'_, '_>) -> Source {
    let writer = Writer(&call);
    if writer.phase() != Phase::Sdp {
        return Source::Kernel;
    }
    if writer.has_room() || call.load(Word::Own(Own::Ended)) & CONNECTION_OVER != 0 {
        Source::Ready
    } else {
        Source::Idle
    }
}

/// What is so of a connection, of what is of interest, as far as its words tell: the peer is not
/// asked to tell what comes later. None: the kernel has to be asked.
pub(super) fn glance(call: Call<'_, '_>, interest: u32, seen: &Seen) -> Option<u32> {
    let ways = Ways::of(call);
    let is_known = !seen.stale && seen.bits & PASSING == 0 && ways.asks(interest) == 0;
    is_known.then(|| ways.events(seen.bits, interest))
}

/// What is so of a connection, of what is of interest. If nothing is, or `is_edge`, what comes
/// later is told: the wants were set before the look whose result this is.
///
/// The kernel is asked if `seen` says so, or if a way goes by TCP, and not again after a want was
/// set: what has come since is news, which the kernel tells. Room is wanted only where the ring has
/// too little, as the kernel tells of room only who has found none. While TCP carries what is sent,
/// the kernel tells of it: a change to SDP needs an empty queue, of which it has told.
pub(super) fn find(call: Call<'_, '_>, interest: u32, seen: &mut Seen, is_edge: bool) -> u32 {
    let mut wants_bytes = interest & INPUT == 0;
    let mut wants_room = interest & OUTPUT == 0;
    let mut has_asked = false;
    let mut is_set = is_edge;
    loop {
        if is_set && !wants_bytes {
            // also while TCP carries the direction: whoever changes it over looks at the want
            Reader(&call).want_bytes(BOX);
            wants_bytes = true;
        }
        let mut ways = Ways::of(call);
        let passing = seen.bits & PASSING != 0;
        if seen.stale || !has_asked && (passing || ways.asks(interest) != 0) {
            // first, so that news of meanwhile is not forgotten
            seen.stale = false;
            seen.bits = kernel::state(call.socket());
            has_asked = true;
            hear(call, seen.bits);
            // after the kernel was asked: an error that a copy has taken from it is kept
            ways = Ways::of(call);
        }
        let found = ways.events(seen.bits, interest);
        if found != 0 && !is_edge {
            return found;
        }
        is_set = true;
        if !wants_room && ways.output == Source::Idle {
            want_room(call);
            wants_room = true;
        } else if wants_bytes {
            return found;
        }
    }
}

/// The kernel has told of the connection's end: what the service thread does then, so that a
/// receive finds what is told here.
pub(super) fn hear(call: Call<'_, '_>, kernel: u32) {
    // what a peer on another host says in TCP comes before the end, and the service thread takes it
    if call.link().is_far() {
        return;
    }
    let mut ended = 0;
    if kernel & (RDHUP | HUP) != 0 {
        ended |= PEER_ENDED;
    }
    // ERR alone may be a message about what was sent (MSG_ERRQUEUE)
    if kernel & HUP != 0 {
        ended |= CONNECTION_OVER;
    }
    if ended & !call.load(Word::Own(Own::Ended)) != 0 {
        Service(&call).look(ended);
    }
}

/// The peer has told of news: it may want its direction back in TCP, which the service thread would
/// do; or the kernel has room for the rest of a copy.
pub(super) fn serve(call: Call<'_, '_>) {
    Service(&call).rung();
}

/// Wants to be told of what is of interest. What comes from then on is told; the caller looks once
/// more before it believes that there is nothing.
pub(super) fn want(call: Call<'_, '_>, interest: u32) {
    if interest & INPUT != 0 {
        Reader(&call).want_bytes(BOX);
    }
    if interest & OUTPUT != 0 && output(call) != Source::Ready {
        want_room(call);
    }
}

fn want_room(call: Call<'_, '_>) {
    Writer(&call).want_room(BOX);
    full::watch(call.link());
}

/// The kernel alone carries both ways, for good, and knows all that is to be told: of an error that
/// this library has had from it, it tells no more.
pub(super) fn is_left(call: Call<'_, '_>) -> bool {
    let writer = Writer(&call);
    Reader(&call).is_left() && writer.phase() == Phase::Done && !writer.has_error()
}
