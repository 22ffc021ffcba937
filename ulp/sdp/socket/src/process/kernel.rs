//! Calls that only the kernel has: sendfile(2), splice(2).
//!
//! Owns: whether the kernel may do one, or the ring carries what it moves. Must not know: how the
//! caller moves it then.

use super::moving::Begun;
use super::{Process, socket, state};
use ferriband_sdp_local::{Own, Reader, Writer};
use ferriband_sdp_proto::change::Phase;
use std::sync::atomic::Ordering;

impl Process {
    /// A call that moves bytes out of this stream in a way that only the kernel has: None if the
    /// ring carries it.
    pub fn send_by_kernel(&'static self, number: i32) -> Option<Begun> {
        let Some(pin) = self.pin(number) else {
            return Some(Begun::Plain);
        };
        loop {
            if let Some(link) = pin.link()
                && Writer(&link.on(socket(number))).phase() != Phase::Done
            {
                return None;
            }
            let word = pin.record().word(Own::Sends);
            word.fetch_add(1, Ordering::SeqCst);
            let gate = pin.record().word(Own::SendGate).load(Ordering::SeqCst);
            if gate == 0 {
                // what the kernel has told a copy, it tells nobody again
                let link = pin.link();
                let error = link.and_then(|link| Writer(&link.on(socket(number))).take_error());
                // the kernel answers EPIPE in any case, and sends the signal
                if let Some(error) = error.filter(|error| error.0 != libc::EPIPE) {
                    word.fetch_sub(1, Ordering::SeqCst);
                    return Some(Begun::Failed(error.0));
                }
                return Some(self.by_kernel(pin, Own::Sends));
            }
            word.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// A call that takes bytes out of this stream in a way that only the kernel has: None if the
    /// ring carries it.
    pub fn receive_by_kernel(&'static self, number: i32) -> Option<Begun> {
        let Some(pin) = self.pin(number) else {
            return Some(Begun::Plain);
        };
        loop {
            if let Some(link) = pin.link() {
                let call = link.on(socket(number));
                if Reader(&call).phase() == Phase::Tcp && !state::stays(&pin) {
                    Reader(&call).offer();
                }
            }
            let word = pin.record().word(Own::Receives);
            word.fetch_add(1, Ordering::SeqCst);
            if pin.record().word(Own::ReceiveGate).load(Ordering::SeqCst) == 0 {
                return Some(self.by_kernel(pin, Own::Receives));
            }
            word.fetch_sub(1, Ordering::SeqCst);
            if pin.link().is_some() {
                return None;
            }
        }
    }

    /// Bytes for which a send into the ring would not wait; as many as there are if that is the
    /// kernel's to say so far, and None if it is for good.
    pub fn room(&'static self, number: i32) -> Option<u64> {
        let pin = self.pin(number)?;
        let call = pin.link()?.on(socket(number));
        let writer = Writer(&call);
        match writer.phase() {
            Phase::Done => None,
            // one whose tail cannot be has an error to tell
            Phase::Sdp => Some(writer.room().unwrap_or(1)),
            _ => Some(u64::MAX),
        }
    }
}
