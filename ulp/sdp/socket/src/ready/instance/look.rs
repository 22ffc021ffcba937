//! What the program is told of the registrations on an instance's list.
//!
//! Owns: the order of wants and looks, what stays on the list. Must not know: who has listed them.
//! [`super`] says why nothing is missed.

use super::order::{BY_KERNEL, Found};
use super::{Inside, Registration, borrow};
use crate::link::Call;
use crate::numbers::Kind;
use crate::ready::kernel::{self, ET, EXCLUSIVE, Event, IN, ONESHOT, WAKEUP};
use crate::ready::mask;
use crate::table::Table;
use ferriband_sdp_local::{Filled, Reader};

impl Registration {
    /// A number of the socket that is open. None if there is none.
    fn open_number(&self, table: &Table) -> Option<i32> {
        let kind = Kind::Stream(self.taken.index);
        if table.numbers().look(self.number) == kind {
            return Some(self.number);
        }
        let mut known = table.numbers().known(0..=i32::MAX);
        known
            .find(|(_, one)| *one == kind)
            .map(|(number, _)| number)
    }

    fn is_level(&self) -> bool {
        let events = self.event.events;
        events & (ET | ONESHOT) == 0
    }
}

/// How registrations are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// What is not ready stays on the list for some looks, and its peer need not tell. For a thread
    /// that looks again before it sleeps.
    Lightly,
    /// What is not ready is parked.
    Finally,
}

/// What a wait has reported already, and is not looked at: it stays on the list.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    /// The wait's number: what it has reported itself.
    pub number: u32,
    /// Registrations that have got a later link than this: the kernel may have told of them with
    /// the program's data, just before.
    pub links: u64,
    /// When the kernel was asked.
    pub asked: u64,
}

/// So many looks that have found nothing cost as much as a peer that tells.
const MOST_IN_VAIN: u8 = 32;

/// What has become of a look at a registration.
enum Look {
    /// These events are reported, which are so since then ([`order`](super::order)).
    Report(u32, Filled),
    /// Nothing is so, and it is on the list as before.
    Stays,
    /// It is parked.
    Parked,
    /// The kernel alone carries the connection from here on.
    Left,
    /// There is no such connection any more.
    Gone,
}

impl Inside {
    /// Reports what is so, as far as there is room, in the order in which it became so.
    pub fn report(
        &mut self,
        table: &Table,
        wait: &Reported,
        how: How,
        into: &mut [Event],
    ) -> Found {
        self.own_list();
        self.times.begin(wait.asked);
        for _ in 0..self.list.len() {
            let reported = self.times.count();
            if reported == into.len() {
                break;
            }
            let Some(tag) = self.list.pop_front() else {
                break;
            };
            let Some(at) = self.of_tag(tag) else {
                continue;
            };
            let Some(linked) = &mut self.at(at).linked else {
                continue;
            };
            if linked.wait == wait.number || linked.link > wait.links {
                self.list.push_back(tag);
                continue;
            }
            linked.is_listed = false;
            if let Some((events, time)) = self.take_look(table, at, how) {
                let place = self.at(at);
                let data = place.event.data;
                into[reported] = Event { events, data };
                let is_level = place.is_level();
                let is_once = place.event.events & ONESHOT != 0;
                if let Some(linked) = &mut place.linked {
                    linked.wait = wait.number;
                    linked.in_vain = 0;
                    linked.is_disabled = is_once;
                }
                self.times.push(time);
                if is_level {
                    self.list(at);
                }
            }
        }
        let count = self.times.count();
        self.times.order(&mut into[..count])
    }

    /// What a registration is to report, and since when; it is off the list, unless it stays there.
    fn take_look(&mut self, table: &Table, at: u32, how: How) -> Option<(u32, Filled)> {
        match self.look(table, at, how) {
            Look::Report(events, time) => Some((events, time)),
            Look::Parked => None,
            Look::Stays => {
                self.list(at);
                None
            }
            Look::Left => {
                self.give_to_kernel(at);
                None
            }
            // closed without our knowledge
            Look::Gone => {
                self.remove(at);
                None
            }
        }
    }

    fn look(&mut self, table: &Table, at: u32, how: How) -> Look {
        let place = self.at(at);
        let Some(number) = place.open_number(table) else {
            return Look::Gone;
        };
        let events = place.event.events;
        let is_edge = events & (ET | ONESHOT) == ET;
        let is_level = place.is_level();
        let Some(linked) = &mut place.linked else {
            return Look::Parked;
        };
        let Some(pin) = table.pin_taken(place.taken) else {
            return Look::Gone;
        };
        let Some(call) = pin.link().map(|link| link.on(borrow(number))) else {
            return Look::Gone;
        };
        if std::mem::take(&mut linked.is_told) {
            mask::serve(call);
        }
        if linked.is_disabled {
            return Look::Parked;
        }
        let interest = events & !(ET | ONESHOT | EXCLUSIVE | WAKEUP);
        if how == How::Lightly && is_level && linked.in_vain < MOST_IN_VAIN {
            match mask::glance(call, interest, &linked.seen) {
                Some(0) => {
                    linked.in_vain += 1;
                    return Look::Stays;
                }
                Some(found) => return Look::Report(found, since(call, found)),
                None => {}
            }
        }
        let found = mask::find(call, interest, &mut linked.seen, is_edge);
        match found {
            0 if mask::is_left(call) && place.number == number => Look::Left,
            0 => Look::Parked,
            found => Look::Report(found, since(call, found)),
        }
    }

    /// Both directions have gone back to TCP: the kernel's registration becomes the program's.
    fn give_to_kernel(&mut self, at: u32) {
        let Some(instance) = self.numbers.first().copied() else {
            return;
        };
        let place = self.at(at);
        let (number, event) = (place.number, place.event);
        // one of these cannot be changed, and costs a look at each hint
        if event.events & EXCLUSIVE != 0 {
            return;
        }
        if kernel::ctl(instance, libc::EPOLL_CTL_MOD, number, Some(event)).is_ok() {
            self.detach(at);
        }
    }

    /// Whether a wait would report something, of what is linked.
    pub fn is_ready(&mut self, table: &Table) -> bool {
        self.own_list();
        for _ in 0..self.list.len() {
            let Some(tag) = self.list.pop_front() else {
                break;
            };
            let Some(at) = self.of_tag(tag) else {
                continue;
            };
            let Some(linked) = &mut self.at(at).linked else {
                continue;
            };
            linked.is_listed = false;
            if self.take_look(table, at, How::Finally).is_some() {
                self.list(at);
                return true;
            }
        }
        false
    }
}

/// Since when events are so. Of what is no news of bytes it does not matter.
#[inline]
fn since(call: Call<'_, '_>, events: u32) -> Filled {
    let [time, given] = [0; 2];
    match events & IN {
        0 => Filled { time, given },
        _ => Reader(&call).filled().unwrap_or(BY_KERNEL),
    }
}
