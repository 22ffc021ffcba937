//! poll(2) and ppoll(2).
//!
//! Owns: what a thread sleeps on that waits for several descriptors. Must not know: what is so of a
//! connection.
//!
//! A stream without a link is the kernel's; a thread that may sleep for its bytes counts itself in
//! the record, so that nobody says meanwhile that this side looks at both. A linked one is asked for
//! what its words tell, and the kernel for the rest. Who finds nothing makes itself known with a bell
//! of its own, sets the wants, and looks once more before it sleeps: what comes later rings the bell.
//! The bell's eventfd is emptied after it was heard, and before the look that follows.

use super::boxes::Bell;
use super::kernel::{self, IN, PRI, Patience, Polled, RDHUP, RDNORM};
use super::mask::{self, Ways};
use super::waiters::{count_in, count_out};
use super::{Ready, instance, instance_of, nest};
use crate::numbers::Kind;
use crate::table::{Pin, Table};
use ferriband_host::wake::now;
use ferriband_sdp_local::Reader;
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Bits that mean bytes to receive.
const INPUT: u32 = IN | RDNORM;

/// How long a thread without a bell sleeps at a time.
const SLICE: Duration = Duration::from_millis(5);

/// A stream among the descriptors.
struct Stream<'a> {
    /// Its place among them.
    at: usize,
    pin: Pin<'a>,
    /// It is counted as one who waits in the kernel.
    is_counted: bool,
}

impl Stream<'_> {
    fn interest(&self, polled: &[Polled]) -> u32 {
        u32::from(polled[self.at].events.cast_unsigned())
    }
}

/// Waits until something is so of one of these descriptors; gives of how many.
///
/// # Errors
/// As ppoll(2).
pub fn poll(polled: &mut [Polled], patience: Patience<'_>) -> Result<usize, Errno> {
    let Ok(table) = Table::get() else {
        return kernel::poll(polled, patience);
    };
    let is_ours = |one: &Polled| {
        let is_stream = matches!(table.numbers().look(one.fd), Kind::Stream(_));
        is_stream || instance_of(one.fd).is_some()
    };
    if !polled.iter().any(is_ours) {
        return kernel::poll(polled, patience);
    }
    let mut call = Call::new(table, polled, patience);
    let answer = match call.streams.iter().any(|one| one.pin.link().is_some()) || call.has_instances
    {
        true => call.wait(),
        false => kernel::poll(call.polled, patience),
    };
    call.end();
    answer
}

/// One call.
struct Call<'a, 'b> {
    polled: &'b mut [Polled],
    patience: Patience<'b>,
    streams: Vec<Stream<'a>>,
    /// An epoll instance of the program is among them.
    has_instances: bool,
    /// What the kernel is asked, the bell last.
    asked: Vec<Polled>,
    bell: Option<&'static Bell>,
    is_known: bool,
}

impl<'a, 'b> Call<'a, 'b> {
    fn new(table: &'a Table, polled: &'b mut [Polled], patience: Patience<'b>) -> Self {
        let waits = patience.time != Some(Duration::ZERO);
        let mut streams = Vec::new();
        let mut has_instances = false;
        for (at, one) in polled.iter().enumerate() {
            if one.fd < 0 {
                continue;
            }
            let Some(pin) = table.pin(one.fd) else {
                if let Some(inner) = instance_of(one.fd) {
                    has_instances = true;
                    nest(inner);
                }
                continue;
            };
            let is_counted = waits
                && u32::from(one.events.cast_unsigned()) & INPUT != 0
                && pin.link().is_none()
                && count_in(&pin);
            streams.push(Stream {
                at,
                pin,
                is_counted,
            });
        }
        Self {
            polled,
            patience,
            streams,
            has_instances,
            asked: Vec::new(),
            bell: None,
            is_known: false,
        }
    }

    fn wait(&mut self) -> Result<usize, Errno> {
        let waits = self.patience.time != Some(Duration::ZERO);
        let end = self.patience.time.filter(|_| waits);
        let end = end.map(|time| now() + time);
        self.asked.extend_from_slice(self.polled);
        loop {
            let left = end.map(|end| end.saturating_sub(now()));
            let mut is_ready = self.look();
            if !is_ready && waits {
                self.make_known();
                for stream in &self.streams {
                    let interest = stream.interest(self.polled);
                    if let Some(call) = instance::call_on(&stream.pin, self.fd(stream)) {
                        mask::want(call, interest);
                    }
                }
                is_ready = self.look();
            }
            let time = match is_ready || !waits {
                true => Some(Duration::ZERO),
                false if self.bell.is_some() => left,
                // without a bell it looks again and again
                false => Some(left.map_or(SLICE, |left| left.min(SLICE))),
            };
            let how = Patience {
                time,
                ..self.patience
            };
            kernel::poll(&mut self.asked, how)?;
            self.hear_bell();
            let count = self.result();
            if count > 0 || !waits || left == Some(Duration::ZERO) {
                return Ok(count);
            }
        }
    }

    fn fd(&self, stream: &Stream<'_>) -> i32 {
        self.polled[stream.at].fd
    }

    /// What the words tell: whether something is so. Says what the kernel is asked.
    fn look(&mut self) -> bool {
        let mut is_ready = self.has_instances && self.has_ready_instance();
        for at in 0..self.streams.len() {
            let stream = &self.streams[at];
            let (place, interest) = (stream.at, stream.interest(self.polled));
            let Some(call) = instance::call_on(&stream.pin, self.polled[place].fd) else {
                continue;
            };
            if interest & INPUT != 0 && Reader(&call).phase() as u32 == 0 {
                // whoever polls looks at both from here on
                Reader(&call).offer();
            }
            let ways = Ways::of(call);
            is_ready |= ways.events(0, interest) != 0;
            let asks = ways.asks(interest) | interest & (PRI | RDHUP);
            self.asked[place].events = asks as i16;
        }
        is_ready
    }

    fn has_ready_instance(&self) -> bool {
        self.polled
            .iter()
            .any(|one| u32::from(one.events.cast_unsigned()) & INPUT != 0 && is_ready(one.fd))
    }

    /// From here on this thread's bell is rung.
    fn make_known(&mut self) {
        if self.is_known {
            return;
        }
        self.is_known = true;
        let mut pins = self.streams.iter();
        let mut pins = pins
            .by_ref()
            .filter(|one| one.pin.link().is_some())
            .map(|one| &one.pin);
        let bell = Ready::get().ok().and_then(|ready| ready.sleeps(&mut pins));
        self.bell = bell;
        // none: descriptors are exhausted, or a handler has interrupted this thread's own hold
        if let Some(bell) = bell {
            self.asked.push(Polled {
                fd: bell.as_fd().as_raw_fd(),
                events: IN as i16,
                revents: 0,
            });
        }
    }

    fn hear_bell(&self) {
        let heard = self.asked.get(self.polled.len());
        let (Some(bell), Some(heard)) = (self.bell, heard) else {
            return;
        };
        if heard.revents == 0 {
            return;
        }
        bell.silence();
        for stream in &self.streams {
            if let Some(call) = instance::call_on(&stream.pin, self.fd(stream)) {
                mask::serve(call);
            }
        }
    }

    /// What is told to the program: of how many descriptors something is so.
    fn result(&mut self) -> usize {
        for (one, asked) in self.polled.iter_mut().zip(&self.asked) {
            one.revents = asked.revents;
        }
        for stream in &self.streams {
            let interest = stream.interest(self.polled);
            let one = &mut self.polled[stream.at];
            let Some(call) = instance::call_on(&stream.pin, one.fd) else {
                continue;
            };
            let kernel = u32::from(one.revents.cast_unsigned());
            if kernel & u32::from(libc::POLLNVAL.cast_unsigned()) != 0 {
                continue;
            }
            mask::hear(call, kernel);
            one.revents = Ways::of(call).events(kernel, interest) as i16;
        }
        for one in &mut *self.polled {
            let wants = u32::from(one.events.cast_unsigned()) & INPUT;
            if wants != 0 && self.has_instances && one.revents == 0 && is_ready(one.fd) {
                one.revents = wants as i16;
            }
        }
        self.polled.iter().filter(|one| one.revents != 0).count()
    }

    fn end(self) {
        if let (Some(bell), Ok(ready)) = (self.bell, Ready::get()) {
            let linked = self.streams.iter().filter(|one| one.pin.link().is_some());
            ready.woke(bell, &mut linked.map(|one| &one.pin));
        }
        for stream in &self.streams {
            if stream.is_counted {
                count_out(stream.pin.taken());
            }
        }
    }
}

/// Whether an epoll instance has something of what is linked.
fn is_ready(number: i32) -> bool {
    let Some(known) = instance_of(number) else {
        return false;
    };
    let (Some(mut inside), Ok(table)) = (known.inside.enter(), Table::get()) else {
        return false;
    };
    inside.is_ready(table)
}
