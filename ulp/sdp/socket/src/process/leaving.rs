//! What is left to do when a number goes, or the last call on a connection whose number has gone.
//!
//! Owns: which of a process's connections are kept, and when their slots are given back. Must not
//! know: how the service hears of news.

use super::carried::{Carried, Kept, Slot};
use super::service::{Known, Service};
use super::state::{self, State};
use super::thread::start;
use super::{Process, cookie, set, socket};
use crate::arena::Taken;
use crate::calls;
use crate::link::{Link, Told};
use crate::meet::family::Family;
use crate::meet::holder::HolderService;
use crate::own::Own;
use crate::ready;
use crate::table::{Last, Left, Pin};
use ferriband_sdp_local::Service as Look;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// So many slots that other processes use are not looked at: half of a segment's.
const FEW_AWAY: usize = 32;

impl Service {
    /// A connection that was closed has nothing left to do.
    pub(super) fn let_go(&mut self, index: u32) {
        let Some(carried) = self.carried.remove(index) else {
            return;
        };
        if let Some(socket) = carried.kept.as_ref().and_then(|kept| kept.link()?.kept()) {
            self.delete(socket);
        }
        drop(carried.kept);
        self.give_back(carried.slot);
    }

    /// Calls have ended that were in progress when their connections' last numbers were closed.
    pub(super) fn calls_have_ended(&mut self) {
        let kept = self.carried.iter();
        let kept = kept.filter(|(_, carried)| matches!(carried.kept, Some(Kept::Calls(..))));
        let kept: Vec<_> = kept.map(|(index, _)| index).collect();
        for index in kept {
            let may_be_shared = self.carried.may_be_shared(index);
            let Some(mut carried) = self.carried.remove(index) else {
                continue;
            };
            let is_over = match carried.kept.take() {
                Some(Kept::Calls(pin, changing)) => match pin.into_last() {
                    Ok(last) if last.others_hold() => {
                        if let Some(socket) = last.link().and_then(Link::kept) {
                            self.delete(socket);
                        }
                        self.go_away(&last, carried.slot.take());
                        true
                    }
                    Ok(last) => {
                        let kept = carried.kept.insert(Kept::Last(last));
                        kept.may_close()
                    }
                    Err(pin) => {
                        carried.kept = Some(Kept::Calls(pin, changing));
                        false
                    }
                },
                kept => {
                    carried.kept = kept;
                    false
                }
            };
            self.carried.insert(index, carried, may_be_shared);
            if is_over {
                self.let_go(index);
            }
        }
    }

    /// A number was left, whose descriptor is still open.
    pub(super) fn left(&mut self, process: &'static Process, number: i32, left: Left<'static>) {
        ready::closed(number, &left);
        match left {
            Left::Plain | Left::Own => {}
            Left::Others(taken) => self.renumber(process, number, taken),
            Left::Calls(pin) => match pin.into_last() {
                Ok(last) => self.left_by_all(process, number, last),
                Err(pin) => self.left_to_calls(process, number, pin),
            },
            Left::Last(last) => self.left_by_all(process, number, last),
        }
    }

    /// The connection has another number from now on.
    fn renumber(&mut self, process: &Process, number: i32, taken: Taken) {
        let all = process.table.numbers().known(0..=i32::MAX);
        let stream = crate::numbers::Kind::Stream(taken.index);
        let mut others = all.filter(|(other, kind)| *kind == stream && *other != number);
        let Some((other, _)) = others.next() else {
            return;
        };
        if let Some(known) = self.known.get_mut(&cookie(number)) {
            known.number = other;
        }
        if let Some(carried) = self.carried.get_mut(taken.index)
            && carried.number == number
        {
            carried.number = other;
            if !carried.is_quiet {
                self.delete(socket(number));
                self.add(socket(other), taken.index);
            }
        }
    }

    /// The last number goes while other threads are in calls, which go on. Those inside the kernel
    /// keep its socket themselves.
    fn left_to_calls(&mut self, process: &'static Process, number: i32, pin: Pin<'static>) {
        let taken = pin.taken();
        self.unlist(process, number, taken);
        let carried = self.carried.remove(taken.index);
        let Some(link) = pin.link() else {
            return;
        };
        self.delete(socket(number));
        let Ok(copy) = Own::copy(socket(number)) else {
            // without a descriptor they end, and what the ring holds goes first
            link.lose();
            let call = link.on(socket(number));
            if !pin.others_hold() {
                calls::may_close(call);
            }
            self.drop_tunnel(taken.index);
            process.ring();
            return Look(&call).look(0);
        };
        link.keep(copy);
        if let Some(kept) = link.kept() {
            self.add(kept, taken.index);
        }
        let (told, slot) = (link.where_told(), carried.and_then(|carried| carried.slot));
        let kept = Some(Kept::Calls(pin, process.table.changing()));
        self.keep(taken, told, slot, kept);
        // they may have ended meanwhile
        self.calls_have_ended();
    }

    fn keep(&mut self, taken: Taken, told: Told, slot: Option<Slot>, kept: Option<Kept>) {
        self.carried.insert(
            taken.index,
            Carried {
                taken,
                number: -1,
                told,
                slot,
                kept,
                is_quiet: false,
            },
            true,
        );
    }

    /// Nobody finds a socket by its number from here on.
    fn unlist(&mut self, process: &Process, number: i32, taken: Taken) {
        for port in &mut self.families {
            port.listeners.retain(|listener| *listener != taken.index);
        }
        let cookie = cookie(number);
        match self.known.remove(&cookie) {
            Some(known) => self.forget(process, cookie, known),
            None => self.close_ports(process),
        }
    }

    /// A socket is known no more.
    pub(super) fn forget(&mut self, process: &Process, cookie: u64, known: Known) {
        if let (Some(ends), Some(holder)) = (known.ends, &mut self.holder) {
            holder.holds_no_more(ends, cookie);
        }
        if let Some(port) = known.port.and_then(|at| self.port(at)) {
            port.accepted = port.accepted.saturating_sub(1);
            self.close_ports(process);
        }
    }

    /// Nobody asks at a port of which nothing is left.
    fn close_ports(&mut self, process: &Process) {
        let (mut keeps, mut closed) = (false, Vec::new());
        self.families.retain_mut(|port| {
            if !port.listeners.is_empty() || port.accepted > 0 {
                return true;
            }
            let has_accepted = has_accepted(process, port.family.place().0);
            keeps |= has_accepted;
            if !has_accepted {
                closed.extend(port.abroad.take());
            }
            has_accepted
        });
        if !closed.is_empty() {
            // the thread sleeps on what is closed until it is woken, and removes the names then
            let closed = closed.into_iter().filter_map(Family::close);
            self.left_names.extend(closed);
            process.ring();
        }
        process.keeps_ports.store(keeps, Ordering::Relaxed);
    }

    fn left_by_all(&mut self, process: &'static Process, number: i32, last: Last<'static>) {
        let taken = last.taken();
        self.unlist(process, number, taken);
        let carried = self.carried.remove(taken.index);
        let Some(link) = last.link() else {
            return;
        };
        self.delete(socket(number));
        let slot = carried.and_then(|carried| carried.slot);
        self.look_at_last(taken.index, link.on(socket(number)));
        if last.others_hold() {
            return self.go_away(&last, slot);
        }
        if !calls::may_close(link.on(socket(number)))
            && start(process, self).is_ok()
            && let Ok(copy) = Own::copy(socket(number))
        {
            link.keep(copy);
            if let Some(kept) = link.kept() {
                self.add(kept, taken.index);
            }
            let (told, kept) = (link.where_told(), Kept::Last(last));
            let is_over = kept.may_close();
            self.keep(taken, told, slot, Some(kept));
            if is_over {
                self.let_go(taken.index);
            }
            return;
        }
        drop(last);
        self.give_back(slot);
    }

    /// Other processes hold what this one has closed: its slot is this process's to give back when
    /// they do not any more.
    fn go_away(&mut self, last: &Last<'static>, slot: Option<Slot>) {
        let Some(slot) = slot else {
            return;
        };
        self.away.push((last.taken(), slot));
        if self.away.len() < self.most_away.max(FEW_AWAY) {
            return;
        }
        let away = std::mem::take(&mut self.away);
        let (away, over): (Vec<_>, Vec<_>) = away
            .into_iter()
            .partition(|(taken, _)| *taken == last.taken() || last.is_held_elsewhere(*taken));
        self.most_away = 2 * away.len();
        self.away = away;
        for (_, slot) in over {
            self.give_back(Some(slot));
        }
    }
}

impl Process {
    /// As the process ends: its names in a directory go with it. Those of one that is killed are
    /// removed by others.
    pub fn at_end(&'static self) {
        if set::meets().is_none() {
            return;
        }
        let mut service = self.served();
        let mut left: Vec<_> = service
            .holder
            .iter_mut()
            .filter_map(HolderService::close_door)
            .collect();
        left.append(&mut service.left_names);
        let families = service.families.iter_mut();
        left.extend(families.filter_map(|port| port.abroad.take()?.close()));
        drop(service);
        // the thread sleeps on what was closed until it is woken
        let looks = if self.ring() { LOOKS } else { 1 };
        for look in 0..looks {
            if look > 0 {
                std::thread::sleep(BETWEEN);
            }
            left.retain(|name| !name.remove());
            if left.is_empty() {
                return;
            }
        }
    }
}

/// How often a process that ends looks whether its own thread has let go of a name, and how long it
/// waits between: where a forked process listens on, all of this time.
const LOOKS: u32 = 10;
const BETWEEN: Duration = Duration::from_micros(50);

/// Whether the process has a connection that was accepted at a port, asked for or not.
fn has_accepted(process: &Process, port: u16) -> bool {
    let mut all = process.table.numbers().known(0..=i32::MAX);
    all.any(|(_, kind)| {
        let crate::numbers::Kind::Stream(index) = kind else {
            return false;
        };
        let pin = process.table.pin_index(index);
        pin.is_some_and(|pin| {
            let at = pin.traffic().port.load(Ordering::Relaxed);
            pin.traffic().is(state::ACCEPTED) && at == u32::from(port)
        })
    })
}
