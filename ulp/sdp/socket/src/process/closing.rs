//! How numbers come and go: close, dup, dup2, ranges.

use super::state::{self, State};
use super::{Process, STANDARD, socket};
use crate::meet::report::Cause;
use crate::numbers::Kind;
use crate::order;
use crate::own;
use crate::ready;
use crate::table::{Left, Pin};
use rustix::io::Errno;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::{self, Relaxed};

/// What a close does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closing {
    /// The kernel closes the number.
    ByKernel,
    /// The kernel closes the number, of which nothing is known, as one of [`own::Closes`].
    Unknown,
    /// To the program it is closed already: EBADF.
    Closed,
}

impl Process {
    /// Before close(2).
    #[inline]
    pub fn close(&'static self, number: i32) -> Closing {
        match self.table.numbers().look(number) {
            Kind::Unknown => {
                if ready::knows(number) {
                    ready::closed(number, &Left::Plain);
                }
                Closing::Unknown
            }
            Kind::Own => Closing::Closed,
            Kind::Plain | Kind::Stream(_) => {
                self.leave(number);
                Closing::ByKernel
            }
        }
    }

    /// A number is left before its descriptor is closed.
    fn leave(&'static self, number: i32) {
        order::by_kernel();
        let served = self.table.pin(number).is_some_and(|pin| {
            let traffic = pin.traffic();
            let keeps_port = traffic.is(state::ACCEPTED) && self.keeps_ports.load(Relaxed);
            pin.link().is_some() || traffic.is(state::SERVED | state::LISTENS) || keeps_port
        });
        if served {
            let mut service = self.served();
            let left = self.table.leave(number);
            service.left(self, number, left);
        } else {
            ready::closed(number, &self.table.leave(number));
        }
    }

    /// A number that was closed without our knowledge.
    pub(super) fn leave_unseen(&'static self, number: i32) {
        let _service = self.served();
        let left = self.table.leave(number);
        if let Left::Calls(pin) = &left
            && let Some(link) = pin.link()
        {
            link.lose();
        }
        ready::closed(number, &left);
    }

    /// Before close_range(2) and closefrom(3). Gives the ranges that the kernel may close.
    pub fn close_range(
        &'static self,
        range: RangeInclusive<u32>,
    ) -> impl Iterator<Item = RangeInclusive<u32>> + use<> {
        let last = i32::try_from(*range.end()).unwrap_or(i32::MAX);
        ready::closed_range(i32::try_from(*range.start()).unwrap_or(i32::MAX)..=last);
        let mut service = self.served();
        self.table.leave_range(range, &mut |number, left| {
            service.left(self, number, left);
        })
    }

    /// Before dup2(2) over a number, and dup3(2).
    ///
    /// # Errors
    /// The kernel would have none, or there is no room for what is the library's own.
    pub fn replace(&'static self, from: i32, number: i32) -> Result<(), Errno> {
        // the kernel says what is wrong with it
        if from == number || from < 0 {
            return Ok(());
        }
        match self.table.numbers().look(number) {
            Kind::Unknown if ready::knows(number) => {
                rustix::io::fcntl_getfd(socket(from))?;
                ready::closed(number, &Left::Plain);
            }
            Kind::Unknown => {}
            Kind::Own => {
                own::make_way(number)?;
                self.ring();
            }
            Kind::Plain | Kind::Stream(_) => {
                rustix::io::fcntl_getfd(socket(from))?;
                self.leave(number);
            }
        }
        Ok(())
    }

    /// After dup(2) and its like: `number` is another for what `from` stands for.
    pub fn duplicated(&'static self, from: i32, number: i32) {
        if from == number {
            return;
        }
        let Some(pin) = self.pin(from) else {
            self.other(number);
            return ready::aliased(from, number);
        };
        self.table.alias(&pin, number);
        // the C library writes to these by itself
        if number <= STANDARD {
            self.only_by_kernel_for(number, Cause::ByLibrary);
        }
    }

    /// A number of a stream.
    pub(super) fn number_of(&self, pin: &Pin<'_>) -> Option<i32> {
        self.number_now(pin, pin.traffic().number.load(Ordering::Relaxed))
    }

    /// A number of a stream: this one, if it still is.
    pub(super) fn number_now(&self, pin: &Pin<'_>, number: i32) -> Option<i32> {
        let index = pin.taken().index;
        if self.is_still(number, index) {
            return Some(number);
        }
        let all = self.table.numbers().known(0..=i32::MAX);
        let mut all = all.filter(|(_, kind)| *kind == Kind::Stream(index));
        all.next().map(|(number, _)| number)
    }
}
