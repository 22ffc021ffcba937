//! What this process says of its streams.
//!
//! Owns: how each is looked at, and the cause of TCP that is given for it. Must not know: who asks.
//! Nothing is counted for this but wake-ups: bytes of rings stand in the records, those of TCP in
//! the kernel. One question is answered with few streams, so that a program's call that needs the
//! service waits for some of these at most.

use super::fit::unfit;
use super::state::{self, State};
use super::{Process, counters, socket};
use crate::meet::message::Message;
use crate::meet::report::{About, Cause, NOWHERE, Row, Side, Stranger, Traffic, Why};
use crate::numbers::Kind;
use crate::table::Pin;
use crate::tcp;
use ferriband_sdp_local::{Own, Reader, Writer};
use ferriband_sdp_proto::change::Phase;
use ferriband_sdp_verbs::FlowKind;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

/// Streams of one answer.
const PAGE: usize = 32;

/// The flow control of the queue pairs that carry the connection of a record, if any do.
pub(super) type FlowOf<'a> = &'a dyn Fn(u32) -> Option<FlowKind>;

/// The answer to who asks for the streams from a descriptor number on.
pub(super) fn answer(
    process: &Process,
    strangers: &[Stranger],
    flow_of: FlowOf<'_>,
    from: i32,
) -> Vec<Message> {
    let mut answer = Vec::with_capacity(PAGE + 2);
    if from == 0 {
        answer.push(Message::About(about()));
        answer.extend(strangers.iter().copied().map(Message::Stranger));
    }
    let mut rows = 0;
    let mut next = -1;
    for (number, kind) in process.table.numbers().known(from..=i32::MAX) {
        let Kind::Stream(index) = kind else { continue };
        if rows == PAGE {
            next = number;
            break;
        }
        let pin = process.table.pin(number);
        if let Some(pin) = pin.filter(|pin| pin.taken().index == index)
            && is_first(process, &pin, number)
        {
            answer.push(Message::Row(row(&pin, number, flow_of(index))));
            rows += 1;
        }
    }
    answer.push(Message::Rows { next });
    answer
}

fn about() -> About {
    let (eligible, upgraded) = counters::both();
    About {
        pid: rustix::process::getpid()
            .as_raw_nonzero()
            .get()
            .cast_unsigned(),
        eligible,
        upgraded,
        program: About::name(counters::program().as_bytes()),
    }
}

/// Whether the number is that of the stream's numbers that is shown.
fn is_first(process: &Process, pin: &Pin<'_>, number: i32) -> bool {
    let shown = pin.traffic().number.load(Ordering::Relaxed);
    shown == number || !process.is_still(shown, pin.taken().index)
}

fn row(pin: &Pin<'_>, number: i32, flow: Option<FlowKind>) -> Row {
    let traffic = pin.traffic();
    let side = match () {
        () if traffic.is(state::LISTENS) => Side::Listener,
        () if said(pin) == Some(Why::Cause(Cause::NoName)) && !traffic.is(state::ACCEPTED) => {
            Side::Listener
        }
        () if traffic.is(state::CONNECTED) => Side::Connected,
        () if traffic.is(state::ACCEPTED) => Side::Accepted,
        () => Side::Unconnected,
    };
    let own = rustix::net::getsockname(socket(number)).ok();
    let peer = rustix::net::getpeername(socket(number)).ok().flatten();
    let address = |got: Option<_>| got.and_then(|got| SocketAddr::try_from(got).ok());
    let phases = pin.link().map(|link| {
        let call = link.on(socket(number));
        [Writer(&call).phase(), Reader(&call).phase()]
    });
    let by = traffic.by.load(Ordering::Relaxed);
    Row {
        number,
        side,
        own: address(own).unwrap_or(NOWHERE),
        peer: address(peer).unwrap_or(NOWHERE),
        phases,
        flow,
        why: why(pin, number, side, phases),
        by: by.checked_sub(1),
        traffic: moved(pin, number),
    }
}

fn moved(pin: &Pin<'_>, number: i32) -> Traffic {
    let record = pin.record();
    let (ring_out, ring_in) = match pin.link() {
        None => (0, 0),
        Some(_) => {
            let word = |word| record.word(word).load(Ordering::Relaxed);
            (word(Own::Head), word(Own::FromSdp))
        }
    };
    let info = tcp::info(socket(number)).ok();
    Traffic {
        ring_out,
        ring_in,
        tcp_out: info.map_or(0, |info| info.sent),
        tcp_in: info.map_or(0, |info| info.received),
        wakes: record.wakes.load(Ordering::Relaxed),
    }
}

/// Why a stream is TCP, or a direction of it.
fn why(pin: &Pin<'_>, number: i32, side: Side, phases: Option<[Phase; 2]>) -> Option<Why> {
    let traffic = pin.traffic();
    let said = said(pin);
    let is_left = |phase: Phase| phase >= Phase::Back;
    match phases {
        Some(both) if !both.into_iter().any(is_left) => said,
        Some(_) if state::stays(pin) => Some(said.unwrap_or_else(|| own(number))),
        Some([out, _]) => {
            let recalled = pin
                .link()
                .is_none_or(|link| Writer(&link.on(socket(number))).is_recalled());
            let cause = match is_left(out) && !recalled {
                true => Cause::RingFull,
                false => Cause::PeerWent,
            };
            Some(Why::Cause(cause))
        }
        None if matches!(side, Side::Unconnected | Side::Listener) => said,
        None if state::stays(pin) => Some(said.unwrap_or_else(|| own(number))),
        None if said.is_some() => said,
        None if unfit(number).is_some() => Some(own(number)),
        None if traffic.is(state::ASKED) => Some(Why::Cause(Cause::Asked)),
        None if side == Side::Accepted && traffic.is(state::COUNTED) => {
            Some(Why::Cause(Cause::NotAsked))
        }
        None => Some(Why::Cause(Cause::TooShort)),
    }
}

/// What was found when it happened.
fn said(pin: &Pin<'_>) -> Option<Why> {
    let code = pin.traffic().why.load(Ordering::Relaxed);
    // this process has written it
    Why::from_code(code as u16).ok().flatten()
}

/// What can be seen of how the program uses the socket.
fn own(number: i32) -> Why {
    Why::Cause(unfit(number).unwrap_or(Cause::ByKernel))
}

/// Remembers why a stream is TCP.
pub(super) fn note(pin: &Pin<'_>, why: Why, by: Option<u32>) {
    let by = by.map_or(0, |uid| uid.saturating_add(1));
    pin.traffic().by.store(by, Ordering::Relaxed);
    pin.traffic()
        .why
        .store(why.code().into(), Ordering::Relaxed);
}

/// It may have another reason from now on.
pub(super) fn clear(pin: &Pin<'_>) {
    pin.traffic().why.store(0, Ordering::Relaxed);
    pin.traffic().by.store(0, Ordering::Relaxed);
}
