//! How a connection comes back to TCP, and what is told of it meanwhile.

use super::state::{self, State};
use super::{Process, socket};
use crate::table::Pin;
use ferriband_host::wake::{self, Until};
use ferriband_sdp_local::{FUTEX, Own, Reader, Shared, Way, Word, Writer};
use ferriband_sdp_proto::change::Phase;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the peer is waited for before all is looked at once more.
const LOOK: Duration = Duration::from_millis(100);

impl Process {
    /// What the program is about to do is the kernel's alone: the connection is TCP when this
    /// returns, and stays so.
    pub fn only_by_kernel(&'static self, number: i32) {
        if let Some(pin) = self.pin(number) {
            self.bring_back(&pin, number);
        }
    }

    /// Before a program is executed, by this process or by a child that has its descriptors.
    pub fn before_exec(&'static self) {
        for number in self.table.kept_by_exec() {
            self.only_by_kernel(number);
        }
    }

    /// Both directions are TCP's afterwards. Waits for the peer's service thread.
    pub(super) fn bring_back(&self, pin: &Pin<'_>, number: i32) {
        pin.traffic().add(state::NEVER);
        let Some(link) = pin.link() else {
            return;
        };
        let call = link.on(socket(number));
        let writer = Writer(&call);
        while !writer.go_back() {
            // a handler that has interrupted a send of its thread: the kernel has it as it is
            if writer.is_interrupted() {
                return;
            }
            call.wait_for_kernel();
        }
        let reader = Reader(&call);
        let gate = pin.record().word(Own::ReceiveGate);
        if reader.phase() != Phase::Done || gate.load(Ordering::SeqCst) != 0 {
            let want = Word::Shared(Way::In, Shared::WantBytes);
            // what the peer has broken is the kernel's as well
            while reader.give_up() == Ok(false) {
                let wants = reader.want_bytes(FUTEX);
                if reader.give_up() != Ok(false) {
                    break;
                }
                let _ = link.wait(want, wants, Until::Deadline(wake::now() + LOOK));
            }
        }
        rough(pin, number);
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
        let bit = remembered(level, name)?;
        let pin = self.pin(number)?;
        pin.link()?;
        if pin.traffic().is(state::NEVER) {
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
        let bit = remembered(level, name)?;
        let pin = self.pin(number)?;
        pin.link()?;
        if pin.traffic().is(state::NEVER) {
            return None;
        }
        Some(i32::from(pin.traffic().is(bit) == (bit == state::CORKED)))
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
        Some(crate::segment::RING_BYTES - writer.room()?)
    }

    /// Before shutdown(2).
    pub fn shutdown(&'static self, number: i32, how: i32) {
        let Some(pin) = self.pin(number) else {
            return;
        };
        if how != libc::SHUT_WR {
            return self.bring_back(&pin, number);
        }
        if let Some(link) = pin.link() {
            let call = link.on(socket(number));
            let writer = Writer(&call);
            while !writer.go_back() && !writer.is_interrupted() {
                call.wait_for_kernel();
            }
        }
    }
}

fn remembered(level: i32, name: i32) -> Option<u32> {
    match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Some(state::DELAYS),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => Some(state::CORKED),
        _ => None,
    }
}

/// What the program has set and was remembered is the kernel's again.
fn rough(pin: &Pin<'_>, number: i32) {
    if pin.traffic().is(state::DELAYS) {
        pin.traffic().take(state::DELAYS);
        let _ = rustix::net::sockopt::set_tcp_nodelay(socket(number), false);
    }
    if pin.traffic().is(state::CORKED) {
        pin.traffic().take(state::CORKED);
        let _ = rustix::net::sockopt::set_tcp_cork(socket(number), true);
    }
}
