//! How a connection comes back to TCP, and what is told of it meanwhile.

use super::state::{self, State};
use super::{Process, far, fit, report, socket};
use crate::calls;
use crate::link::Call;
use crate::meet::report::{Cause, Why};
use crate::order;
use crate::table::Pin;
use ferriband_host::wake::{self, Until};
use ferriband_sdp_local::{FUTEX, Own, Reader, Shared, Way, Word, Writer};
use ferriband_sdp_proto::change::Phase;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the peer is waited for before all is looked at once more.
const LOOK: Duration = Duration::from_millis(100);

/// How long a call waits for the peer that never waits without the library. A peer that is stopped
/// answers when it continues.
pub(super) const BRIEFLY: Duration = Duration::from_millis(200);

/// How much longer a peer on another host is waited for: without its answer the connection ends. A
/// peer of this host that is in the middle of its copy is given as long: of what was read it may
/// copy some again, which nobody else may meet.
const FARTHER: Duration = Duration::from_millis(1800);

/// Who receives from the kernel's socket once a connection was asked back to TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Receivers {
    /// Calls that this library sees.
    Seen,
    /// Others as well: programs without it, or the C library.
    Unseen,
}

impl Process {
    /// What the program is about to do is the kernel's alone: the connection is TCP when this
    /// returns, and stays so. If the peer does not go back in a short time, what it sends from its
    /// last byte that was read on comes by TCP when it does.
    pub fn only_by_kernel(&'static self, number: i32) {
        self.only_by_kernel_until(number, wake::now() + BRIEFLY, Receivers::Seen);
    }

    /// As [`Process::only_by_kernel`], and why: somebody uses the kernel's socket whom this library
    /// does not see.
    pub fn only_by_kernel_for(&'static self, number: i32, cause: Cause) {
        if let Some(pin) = self.pin(number) {
            if cause == Cause::GivenAway {
                state::give_away(&pin);
            }
            self.never(&pin, cause);
        }
        self.only_by_kernel_until(number, wake::now() + BRIEFLY, Receivers::Unseen);
    }

    /// The stream stays TCP. The first cause is remembered.
    pub(super) fn never(&self, pin: &Pin<'_>, cause: Cause) {
        if !state::stays(pin) {
            report::note(pin, Why::Cause(cause), None);
            state::stay(pin);
        }
    }

    pub(super) fn only_by_kernel_until(
        &'static self,
        number: i32,
        until: Duration,
        receivers: Receivers,
    ) {
        let Some(pin) = self.pin(number) else {
            return;
        };
        let is_far = pin.link().is_some_and(|link| link.is_far());
        let until = if is_far { until + FARTHER } else { until };
        if !self.bring_back(&pin, number, Some(until), receivers) && is_far {
            far::reset(number);
        }
    }

    /// Before a call that receives in a way that only the kernel has.
    ///
    /// # Errors
    /// EAGAIN: the socket does not block, and the peer does not go back in a short time.
    pub fn receives_by_kernel(&'static self, number: i32, flags: i32) -> Result<(), i32> {
        match self.pin(number) {
            Some(pin) => self.bring_back_received(&pin, number, flags),
            None => Ok(()),
        }
    }

    pub(super) fn bring_back_received(
        &self,
        pin: &Pin<'_>,
        number: i32,
        flags: i32,
    ) -> Result<(), i32> {
        let until = (!blocks(number, flags)).then(|| wake::now() + BRIEFLY);
        match self.bring_back(pin, number, until, Receivers::Seen) {
            true => Ok(()),
            false => Err(libc::EAGAIN),
        }
    }

    /// Before a call that sends in a way that only the kernel has. The peer is not waited for.
    pub fn sends_by_kernel(&'static self, number: i32) {
        if let Some(pin) = self.pin(number) {
            self.bring_back_sent(&pin, number);
        }
    }

    pub(super) fn bring_back_sent(&self, pin: &Pin<'_>, number: i32) {
        self.bring_back(pin, number, Some(Duration::ZERO), Receivers::Seen);
    }

    /// Before a program is executed, by this process or by a child that has its descriptors. All
    /// peers together have the time of one.
    pub fn before_exec(&'static self) {
        let until = wake::now() + BRIEFLY;
        for number in self.table.kept_by_exec() {
            let pin = self.table.pin(number);
            // a listener is the kernel's anyway
            if pin.is_some_and(|pin| pin.traffic().is(state::INHERITED | state::LISTENS)) {
                continue;
            }
            if let Some(pin) = self.pin(number) {
                state::give_away(&pin);
                self.never(&pin, Cause::Executed);
            }
            self.only_by_kernel_until(number, until, Receivers::Unseen);
        }
    }

    /// The sending direction is TCP's afterwards, and the peer was asked for the other: whether
    /// that is TCP's as well. Waits for the peer's service thread until this time of
    /// CLOCK_MONOTONIC, if there is one; once only, if it was late. A peer that is late leaves what
    /// it has sent where it is until it goes back, if others receive by then.
    pub(super) fn bring_back(
        &self,
        pin: &Pin<'_>,
        number: i32,
        until: Option<Duration>,
        receivers: Receivers,
    ) -> bool {
        state::stay(pin);
        let Some(link) = pin.link() else {
            return true;
        };
        let call = link.on(socket(number));
        let writer = Writer(&call);
        while !writer.go_back() {
            // a handler that has interrupted a send of its thread: the kernel has it as it is
            if writer.is_interrupted() {
                return true;
            }
            call.wait_for_kernel();
        }
        rough(pin, number);
        let gate = pin.record().word(Own::ReceiveGate);
        if Reader(&call).phase() == Phase::Done && gate.load(Ordering::SeqCst) == 0 {
            return true;
        }
        await_back(pin, call, until, receivers)
    }

    /// For one that has its link, and of which nothing was offered so far.
    pub(super) fn bring_back_now(&self, pin: &Pin<'_>, number: i32) {
        if let Some(link) = pin.link() {
            let call = link.on(socket(number));
            Writer(&call).go_back();
            let _ = Reader(&call).give_up();
            rough(pin, number);
        }
    }

    /// setsockopt(2) of an option that is remembered while the ring carries: None if it is the
    /// kernel's.
    pub fn set_option(&'static self, number: i32, level: i32, name: i32, value: i32) -> Option<()> {
        if keeps_alive(level, name)
            && let Some(pin) = self.pin(number)
        {
            // the program has its own from here on
            fit::let_be(&pin, number);
        }
        let bit = remembered(level, name)?;
        let pin = self.pin(number)?;
        pin.link()?;
        if state::stays(&pin) {
            return None;
        }
        if (value != 0) == (bit == state::CORKED) {
            pin.traffic().add(bit);
        } else {
            pin.traffic().take(bit);
        }
        Some(())
    }

    /// getsockopt(2), likewise.
    pub fn get_option(&'static self, number: i32, level: i32, name: i32) -> Option<i32> {
        if keeps_alive(level, name) {
            let pin = self.pin(number)?;
            return match pin.traffic().is(state::KEPT_ALIVE) {
                true if level == libc::SOL_SOCKET => Some(0),
                true => fit::default_idle(),
                false => None,
            };
        }
        let bit = remembered(level, name)?;
        let pin = self.pin(number)?;
        pin.link()?;
        if state::stays(&pin) {
            return None;
        }
        Some(i32::from(pin.traffic().is(bit) == (bit == state::CORKED)))
    }

    /// SO_ERROR: an error that the kernel has told this library, by its number. None: the kernel
    /// is to be asked.
    pub fn take_error(&'static self, number: i32) -> Option<i32> {
        let pin = self.pin(number)?;
        calls::take_error(pin.link()?.on(socket(number)))
    }

    /// After the kernel has received nothing: the error that a copy of this side's has taken from
    /// it.
    #[cold]
    pub(super) fn error_at_end(&'static self, pin: &Pin<'_>) -> Option<i32> {
        let number = self.number_of(pin)?;
        let call = pin.link()?.on(socket(number));
        Reader(&call).error_at_end().map(|error| error.0)
    }

    /// The kernel has told the program that the connection was reset.
    #[cold]
    pub(super) fn was_reset(&'static self, pin: &Pin<'_>) {
        if let Some(number) = self.number_of(pin)
            && let Some(link) = pin.link()
        {
            Writer(&link.on(socket(number))).has_told_reset();
        }
    }

    /// An error of the connection's, which a call was told that has answered with bytes: the
    /// program's next call is told.
    pub fn tell_again(&'static self, number: i32, errno: i32) {
        if let Some(pin) = self.pin(number)
            && let Some(link) = pin.link()
        {
            calls::tell_again(link.on(socket(number)), errno);
        }
    }

    /// FIONREAD: None if it is the kernel's.
    pub fn unread(&'static self, number: i32) -> Option<u64> {
        let pin = self.pin(number)?;
        let call = pin.link()?.on(socket(number));
        let kernel = rustix::io::ioctl_fionread(socket(number)).ok()?;
        Some(Reader(&call).unread(kernel))
    }

    /// SIOCOUTQ beside what the kernel has: None if nothing is.
    pub fn unsent(&'static self, number: i32) -> Option<u64> {
        let pin = self.pin(number)?;
        let call = pin.link()?.on(socket(number));
        let writer = Writer(&call);
        (writer.phase() == Phase::Sdp).then_some(())?;
        Some(call.link().ring_bytes() - writer.room()?)
    }

    /// Before shutdown(2). What the peer has sent stays where it is: a copy that came by TCP after
    /// the end of receiving would reset the connection. So a peer that is in the middle of its copy
    /// is waited for in this direction, for a short time; who ends sending waits for nobody.
    pub fn shutdown(&'static self, number: i32, how: i32) {
        let Some(pin) = self.pin(number) else {
            return;
        };
        order::by_kernel();
        if how != libc::SHUT_WR || pin.link().is_none() {
            // a link that is put meanwhile goes back at once: what this side has ended in TCP, no
            // ring carries on
            self.never(&pin, Cause::Shut);
        }
        if how != libc::SHUT_WR
            && let Some(link) = pin.link()
        {
            let call = link.on(socket(number));
            await_copy(call);
            Reader(&call).shut();
        }
        if how != libc::SHUT_RD
            && let Some(link) = pin.link()
        {
            let call = link.on(socket(number));
            let writer = Writer(&call);
            while !writer.end() && !writer.is_interrupted() {
                call.wait_for_kernel();
            }
        }
    }
}

/// As [`Process::bring_back`], of the receiving direction.
fn await_back(
    pin: &Pin<'_>,
    call: Call<'_, '_>,
    until: Option<Duration>,
    receivers: Receivers,
) -> bool {
    let reader = Reader(&call);
    let want = Word::Shared(Way::In, Shared::WantBytes);
    let is_unseen = receivers == Receivers::Unseen && !call.link().is_far();
    // what the peer has broken is the kernel's as well
    let is_back = || {
        let is_back = reader.give_up() != Ok(false);
        if is_unseen {
            reader.hand_on();
        }
        is_back
    };
    while !is_back() {
        let wants = reader.want_bytes(FUTEX);
        if is_back() {
            break;
        }
        let now = wake::now();
        let copies = is_unseen && reader.phase() != Phase::Sdp;
        let until = until.map(|until| if copies { until + FARTHER } else { until });
        let was_late = pin.traffic().is(state::LATE) && !copies;
        if until.is_some_and(|until| until <= now || was_late) {
            if until != Some(Duration::ZERO) {
                pin.traffic().add(state::LATE);
            }
            return false;
        }
        let look = until.map_or(now + LOOK, |until| until.min(now + LOOK));
        let _ = call.link().wait(want, wants, Until::Deadline(look));
    }
    true
}

/// Until what was read does not come by TCP any more.
fn await_copy(call: Call<'_, '_>) {
    let reader = Reader(&call);
    let want = Word::Shared(Way::In, Shared::WantBytes);
    let until = wake::now() + BRIEFLY;
    while !reader.is_past_copy() {
        let wants = reader.want_bytes(FUTEX);
        let now = wake::now();
        if reader.is_past_copy() || now >= until {
            break;
        }
        let look = until.min(now + LOOK);
        let _ = call.link().wait(want, wants, Until::Deadline(look));
    }
}

/// Whether a call with these flags may wait.
fn blocks(number: i32, flags: i32) -> bool {
    let set = rustix::fs::fcntl_getfl(socket(number));
    flags & libc::MSG_DONTWAIT == 0
        && set.is_ok_and(|set| !set.contains(rustix::fs::OFlags::NONBLOCK))
}

/// Whether an option is one of those that connections by queue pairs have of their own.
fn keeps_alive(level: i32, name: i32) -> bool {
    let options = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    ];
    options.contains(&(level, name))
}

fn remembered(level: i32, name: i32) -> Option<u32> {
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Some(state::DELAYS),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => Some(state::CORKED),
        _ => None,
    }
}

/// What the program has set and was remembered is the kernel's again.
pub(super) fn rough(pin: &Pin<'_>, number: i32) {
    fit::let_be(pin, number);
    if pin.traffic().is(state::DELAYS) {
        pin.traffic().take(state::DELAYS);
        let _ = rustix::net::sockopt::set_tcp_nodelay(socket(number), false);
    }
    if pin.traffic().is(state::CORKED) {
        pin.traffic().take(state::CORKED);
        let _ = rustix::net::sockopt::set_tcp_cork(socket(number), true);
    }
}
