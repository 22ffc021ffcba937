//! poll(2) and ppoll(2).
//!
//! Owns: what a thread sleeps on that waits for several descriptors. Must not know: what is so of a
//! connection.
//!
//! A stream without a link is the kernel's; a thread that may sleep for its bytes counts itself in
//! the record, so that nobody says meanwhile that this side looks at both. A linked one is asked
//! for what its words tell, and the kernel for the rest. Who finds nothing makes itself known with
//! a bell of its own, sets the wants, and looks once more before it sleeps: what comes later rings
//! the bell. The bell's eventfd is emptied after it was heard, and before the look that follows.
//!
//! A call keeps no stream while its thread sleeps: whoever closes the last number meanwhile finds
//! no call in progress. A stream that is gone after a sleep is what the kernel says of its number.

use super::boxes::Bell;
use super::kernel::{self, IN, PRI, Patience, Polled, RDHUP, RDNORM};
use super::mask::{self, Ways};
use super::room::Room;
use super::sleep::{self, Next, Sleep, Waits};
use super::waiters::{count_in, count_out};
use super::{Ready, instance, instance_of, nest};
use crate::arena::Taken;
use crate::link;
use crate::numbers::Kind;
use crate::spin::{self, For, Vain};
use crate::table::Table;
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
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Its place among them.
    at: u32,
    /// It is counted as one who waits in the kernel.
    is_counted: bool,
    taken: Taken,
}

impl Stream {
    /// Does something with it by its words. None: it has no link, or this number is closed.
    fn with<R>(&self, number: i32, does: impl FnOnce(link::Call<'_, '_>) -> R) -> Option<R> {
        let table = Table::get().ok()?;
        if table.numbers().look(number) != Kind::Stream(self.taken.index) {
            return None;
        }
        let pin = table.pin_taken(self.taken)?;
        instance::call_on(&pin, number).map(does)
    }
}

/// What is of interest.
fn interest(one: &Polled) -> u32 {
    u32::from(one.events.cast_unsigned())
}

/// Waits until something is so of one of these descriptors; gives of how many.
///
/// # Errors
/// As ppoll(2).
pub fn poll(polled: &mut [Polled], patience: Patience<'_>) -> Result<usize, Errno> {
    sleep::run(&mut Poll::new(polled, patience)?, patience.signals)
}

/// One such call.
#[derive(Debug)]
pub struct Poll<'a> {
    polled: &'a mut [Polled],
    call: Call<'a>,
}

impl<'a> Poll<'a> {
    /// A call for these descriptors.
    ///
    /// # Errors
    /// NOMEM.
    pub fn new(polled: &'a mut [Polled], patience: Patience<'a>) -> Result<Self, Errno> {
        let call = Call::new(polled, patience)?;
        Ok(Self { polled, call })
    }
}

impl Waits for Poll<'_> {
    fn go_on(&mut self, slept: Option<Result<usize, Errno>>) -> Next {
        self.call.go_on(self.polled, slept)
    }
}

/// What a call keeps beside its descriptors.
#[derive(Debug)]
pub(super) struct Call<'a> {
    patience: Patience<'a>,
    waits: bool,
    end: Option<Duration>,
    /// Its time is over with the sleep that it makes.
    is_last: bool,
    streams: Room<Stream>,
    has_links: bool,
    /// An epoll instance of the program is among them.
    has_instances: bool,
    /// What the kernel is asked, the bell last.
    asked: Room<Polled>,
    bell: Option<&'static Bell>,
    is_bell_asked: bool,
    is_known: bool,
    /// The look before the sleep.
    vain: Option<Vain>,
}

impl<'a> Call<'a> {
    pub fn new(polled: &[Polled], patience: Patience<'a>) -> Result<Self, Errno> {
        let waits = patience.time != Some(Duration::ZERO);
        let time = patience.time.filter(|_| waits);
        let mut call = Self {
            patience,
            waits,
            end: time.and_then(|time| now().checked_add(time)),
            is_last: false,
            streams: Room::new(polled.len())?,
            has_links: false,
            has_instances: false,
            asked: Room::new(polled.len() + 1)?,
            bell: None,
            is_bell_asked: false,
            is_known: false,
            vain: None,
        };
        if let Ok(table) = Table::get() {
            let descriptors = polled.iter().enumerate().filter(|(_, one)| one.fd >= 0);
            descriptors.for_each(|(at, one)| call.add(table, at, one));
        }
        Ok(call)
    }

    fn add(&mut self, table: &Table, at: usize, one: &Polled) {
        let Some(pin) = table.pin(one.fd) else {
            if let Some(inner) = instance_of(one.fd) {
                self.has_instances = true;
                nest(inner);
            }
            return;
        };
        let reads = self.waits && interest(one) & INPUT != 0;
        let is_counted = reads && pin.link().is_none() && count_in(&pin);
        self.has_links |= pin.link().is_some();
        self.streams.push(Stream {
            at: at as u32,
            taken: pin.taken(),
            is_counted,
        });
    }

    /// As [`Waits::go_on`], with the descriptors that it began with.
    pub fn go_on(&mut self, polled: &mut [Polled], slept: Option<Result<usize, Errno>>) -> Next {
        let is_plain = !self.has_links && !self.has_instances;
        match slept {
            None if is_plain => Next::Sleep(Sleep::Poll {
                polled: polled.as_mut_ptr(),
                count: polled.len(),
                time: self.patience.time,
            }),
            None => {
                polled.iter().for_each(|one| self.asked.push(*one));
                self.wait(polled)
            }
            Some(answer) if is_plain => Next::Over(answer),
            Some(answer) => match self.slept(polled, answer) {
                Some(over) => Next::Over(over),
                None => self.wait(polled),
            },
        }
    }

    fn wait(&mut self, polled: &mut [Polled]) -> Next {
        loop {
            let left = self.end.map(|end| end.saturating_sub(now()));
            self.is_last = left == Some(Duration::ZERO);
            let mut is_ready = self.look(polled);
            if !is_ready && self.waits && self.has_links {
                let end = self.end;
                self.vain = spin::look(For::Bytes, end, || self.look(polled));
                is_ready = self.vain.is_none();
            }
            if !is_ready && self.waits {
                self.make_known();
                for stream in &*self.streams {
                    let one = &polled[stream.at as usize];
                    stream.with(one.fd, |call| mask::want(call, interest(one)));
                }
                is_ready = self.look(polled);
            }
            if !is_ready && self.waits {
                let time = match self.is_bell_asked {
                    true => left,
                    // without a bell it looks again and again
                    false => Some(left.map_or(SLICE, |left| left.min(SLICE))),
                };
                return Next::Sleep(Sleep::Poll {
                    polled: self.asked.as_mut_ptr(),
                    count: self.asked.len(),
                    time,
                });
            }
            let answer = kernel::poll(&mut self.asked, self.patience.none());
            if let Some(over) = self.answered(polled, answer) {
                return Next::Over(over);
            }
        }
    }

    fn slept(
        &mut self,
        polled: &mut [Polled],
        answer: Result<usize, Errno>,
    ) -> Option<Result<usize, Errno>> {
        if let Some(vain) = self.vain.take() {
            vain.slept();
        }
        self.answered(polled, answer)
    }

    /// After the kernel was asked. None: the call goes on.
    fn answered(
        &mut self,
        polled: &mut [Polled],
        answer: Result<usize, Errno>,
    ) -> Option<Result<usize, Errno>> {
        match answer {
            Ok(_) => {}
            // as many as the process may have descriptors, and the bell
            Err(Errno::INVAL) if self.is_bell_asked => {
                self.asked.pop();
                self.is_bell_asked = false;
                return None;
            }
            Err(error) => return Some(Err(error)),
        }
        self.hear_bell(polled);
        let count = self.result(polled);
        (count > 0 || !self.waits || self.is_last).then_some(Ok(count))
    }

    /// What the words tell: whether something is so. Says what the kernel is asked.
    fn look(&mut self, polled: &[Polled]) -> bool {
        let reads = |one: &Polled| interest(one) & INPUT != 0;
        let mut is_ready =
            self.has_instances && polled.iter().any(|one| reads(one) && is_ready(one.fd));
        for at in 0..self.streams.len() {
            let stream = self.streams[at];
            let one = &polled[stream.at as usize];
            let interest = interest(one);
            let found = stream.with(one.fd, |call| {
                if interest & INPUT != 0 && Reader(&call).phase() as u32 == 0 {
                    // whoever polls looks at both from here on
                    Reader(&call).offer();
                }
                let ways = Ways::of(call);
                let asks = ways.asks(interest) | interest & (PRI | RDHUP);
                (ways.events(0, interest) != 0, asks)
            });
            let (is_so, asks) = found.unwrap_or((false, interest));
            is_ready |= is_so;
            self.asked[stream.at as usize].events = asks as i16;
        }
        is_ready
    }

    /// From here on this thread's bell is rung.
    fn make_known(&mut self) {
        if self.is_known {
            return;
        }
        self.is_known = true;
        let mut streams = self.streams.iter().map(|one| one.taken);
        let bell = Ready::get().ok();
        self.bell = bell.and_then(|ready| ready.sleeps(&mut streams));
        // none: descriptors are exhausted, or a handler has interrupted this thread's own hold
        if let Some(bell) = self.bell {
            self.is_bell_asked = true;
            self.asked.push(Polled {
                fd: bell.as_fd().as_raw_fd(),
                events: IN as i16,
                revents: 0,
            });
        }
    }

    fn hear_bell(&self, polled: &[Polled]) {
        let heard = self.asked.get(polled.len());
        let (Some(bell), Some(heard)) = (self.bell, heard) else {
            return;
        };
        if heard.revents == 0 {
            return;
        }
        bell.silence();
        for stream in &*self.streams {
            stream.with(polled[stream.at as usize].fd, mask::serve);
        }
    }

    /// What is told to the program: of how many descriptors something is so.
    fn result(&self, polled: &mut [Polled]) -> usize {
        for (one, asked) in polled.iter_mut().zip(&*self.asked) {
            one.revents = asked.revents;
        }
        for stream in &*self.streams {
            let one = &mut polled[stream.at as usize];
            let kernel = u32::from(one.revents.cast_unsigned());
            if kernel & u32::from(libc::POLLNVAL.cast_unsigned()) != 0 {
                continue;
            }
            let events = stream.with(one.fd, |call| {
                mask::hear(call, kernel);
                Ways::of(call).events(kernel, interest(one)) as i16
            });
            one.revents = events.unwrap_or(one.revents);
        }
        for one in &mut *polled {
            let wants = interest(one) & INPUT;
            if wants != 0 && self.has_instances && one.revents == 0 && is_ready(one.fd) {
                one.revents = wants as i16;
            }
        }
        polled.iter().filter(|one| one.revents != 0).count()
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let (Some(bell), Ok(ready)) = (self.bell, Ready::get()) {
            ready.woke(bell, &mut self.streams.iter().map(|one| one.taken));
        }
        for stream in &*self.streams {
            if stream.is_counted {
                count_out(stream.taken);
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
