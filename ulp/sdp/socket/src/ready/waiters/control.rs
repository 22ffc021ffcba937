//! epoll_ctl(2) with stream sockets.
//!
//! Owns: what the kernel watches of a registration, and what is noted of it. Must not know: what is
//! so of a connection.

use super::{Held, count_in, count_out};
use crate::numbers::Kind;
use crate::ready::instance::{self, Inside, Instance};
use crate::ready::kernel::{self, Event, ONESHOT};
use crate::ready::{Ready, mask};
use crate::table::{Pin, Table};
use rustix::io::Errno;
use std::sync::atomic::Ordering;

impl Ready {
    /// epoll_ctl(2) with a stream socket.
    pub(in crate::ready) fn control(
        &self,
        pin: &Pin<'_>,
        instance: i32,
        op: i32,
        number: i32,
        event: Option<Event>,
    ) -> Result<(), Errno> {
        if let Some(known) = self.instance(instance)
            && let Some(answer) = at_once(known, pin, instance, op, number, event)
        {
            return answer;
        }
        let Some(mut held) = self.waiters.enter() else {
            return kernel::ctl(instance, op, number, event);
        };
        match (op, event) {
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, Some(event)) => {
                self.put(&mut held, pin, instance, op, number, event)
            }
            _ => {
                kernel::ctl(instance, op, number, event)?;
                if let Some(known) = self.instance(instance) {
                    let found = known.inside.enter();
                    let found = found.and_then(|inside| inside.find(number, pin.taken()));
                    if let Some(at) = found {
                        self.remove(&mut held, known, at, pin.taken());
                    }
                }
                Ok(())
            }
        }
    }

    fn put(
        &self,
        held: &mut Held<'_>,
        pin: &Pin<'_>,
        instance: i32,
        op: i32,
        number: i32,
        event: Event,
    ) -> Result<(), Errno> {
        self.drop_retired(held, pin.taken());
        let is_carried = || instance::call_on(pin, number).is_some_and(|call| !mask::is_left(call));
        // one that is disabled by its report waits in the kernel unaided: it cannot be told from
        // here whether that has happened, so it gets its tag when the program enables it
        let once = event.events & ONESHOT != 0;
        let mut is_counted = once && !is_carried();
        if is_counted && !count_in(pin) {
            is_counted = false;
        }
        let is_carried = !is_counted && is_carried();
        // with the program's own, so that the kernel's answer is what it would be; what is told
        // once is not told by both
        let first = match is_carried && once {
            true => Event {
                events: event.events & !(kernel::IN | kernel::OUT | kernel::RDHUP | kernel::PRI),
                ..event
            },
            false => event,
        };
        let answer = kernel::ctl(instance, op, number, Some(first));
        let known = answer.and_then(|()| self.adopt(held, instance).ok_or(Errno::NOMEM));
        let known = match known {
            Ok(known) => known,
            Err(error) => {
                if is_counted {
                    count_out(pin.taken());
                }
                return Err(error);
            }
        };
        let put = self.register(held, known, pin, number, event, is_counted);
        if !is_carried {
            return put;
        }
        let put = put.and_then(|()| self.tag(held, known, pin, number));
        if put.is_err() {
            let _ = kernel::ctl(instance, libc::EPOLL_CTL_DEL, number, None);
            let found = known.inside.enter();
            let found = found.and_then(|inside| inside.find(number, pin.taken()));
            if let Some(at) = found {
                self.remove(held, known, at, pin.taken());
            }
        }
        self.settle(held, pin);
        put
    }

    /// Notes what the kernel watches.
    fn register(
        &self,
        held: &mut Held<'_>,
        known: &'static Instance,
        pin: &Pin<'_>,
        number: i32,
        event: Event,
        is_counted: bool,
    ) -> Result<(), Errno> {
        let taken = pin.taken();
        let mut inside = known.inside.enter().ok_or(Errno::BUSY)?;
        if let Some(at) = inside.find(number, taken) {
            let was = std::mem::replace(&mut inside.at(at).is_counted, is_counted);
            inside.change(at, event);
            if was {
                count_out(taken);
            }
            return Ok(());
        }
        let at = inside.insert(number, taken, event).ok_or(Errno::NOSPC)?;
        inside.at(at).is_counted = is_counted;
        drop(inside);
        let all = &mut self.connection(held, taken).instances;
        let beside = all
            .iter()
            .position(|(other, _)| std::ptr::eq(*other, known));
        all.insert(beside.unwrap_or(all.len()), (known, at));
        Ok(())
    }

    /// Makes a registration of a connection that has a link a linked one.
    pub(super) fn tag(
        &self,
        held: &mut Held<'_>,
        known: &'static Instance,
        pin: &Pin<'_>,
        number: i32,
    ) -> Result<(), Errno> {
        let link = pin.link().ok_or(Errno::INVAL)?;
        let mut inside = known.inside.enter().ok_or(Errno::BUSY)?;
        let at = inside.find(number, pin.taken()).ok_or(Errno::NOENT)?;
        if inside.at(at).linked.is_some() {
            return Ok(());
        }
        let numbers = Table::get()?.numbers();
        if numbers.look(number) != Kind::Stream(pin.taken().index) {
            return Err(Errno::BADF);
        }
        let instance = *inside.numbers.first().ok_or(Errno::BADF)?;
        // before the kernel has any of it: whoever wakes up with it looks here
        known.is_tagged.store(true, Ordering::SeqCst);
        if inside.bell.is_none() {
            let (bell, is_new) = held.boxes.take()?;
            if let Err(error) = inside.watch_bell(bell) {
                held.boxes.give_back(bell);
                return Err(error);
            }
            if is_new {
                // which tells peers of it
                link.ring_service();
            }
        }
        let watched = inside.watched(at);
        if inside.at(at).event.events & kernel::EXCLUSIVE != 0 {
            // the kernel does not change one of these
            kernel::ctl(instance, libc::EPOLL_CTL_DEL, number, None)?;
            kernel::ctl(instance, libc::EPOLL_CTL_ADD, number, Some(watched))?;
        } else {
            kernel::ctl(instance, libc::EPOLL_CTL_MOD, number, Some(watched))?;
        }
        inside.attach(at, link.where_told());
        // the kernel need not have a hint for those who sleep already
        if let Some(bell) = inside.bell {
            bell.ring();
        }
        Ok(())
    }
}

/// epoll_ctl(2) where no other instance is concerned: that of a linked registration takes no system
/// call. None: it is another's business.
fn at_once(
    known: &'static Instance,
    pin: &Pin<'_>,
    instance: i32,
    op: i32,
    number: i32,
    event: Option<Event>,
) -> Option<Result<(), Errno>> {
    let mut inside = known.inside.enter()?;
    let taken = pin.taken();
    if let Some(at) = inside.find_retired(number, taken) {
        return match (op, event) {
            (libc::EPOLL_CTL_ADD, Some(event)) => {
                let is_done = inside.revive(at, event);
                inside.leave(known);
                is_done.then_some(Ok(()))
            }
            (libc::EPOLL_CTL_MOD, Some(event)) if event.events & kernel::EXCLUSIVE != 0 => {
                Some(Err(Errno::INVAL))
            }
            (libc::EPOLL_CTL_MOD, Some(_)) | (libc::EPOLL_CTL_DEL, _) => Some(Err(Errno::NOENT)),
            _ => None,
        };
    }
    let at = inside.find(number, taken)?;
    match (op, event) {
        (libc::EPOLL_CTL_MOD, Some(event)) => {
            modify(&mut inside, known, pin, (instance, number), at, event)
        }
        (libc::EPOLL_CTL_DEL, _) => inside.retire(at).then_some(Ok(())),
        _ => None,
    }
}

/// epoll_ctl(2) that changes what is registered.
fn modify(
    inside: &mut Inside,
    known: &'static Instance,
    pin: &Pin<'_>,
    (instance, number): (i32, i32),
    at: u32,
    event: Event,
) -> Option<Result<(), Errno>> {
    let place = inside.at(at);
    if place.linked.is_none() {
        let is_simple = pin.link().is_none() && (place.event.events | event.events) & ONESHOT == 0;
        if !is_simple {
            return None;
        }
        let answer = kernel::ctl(instance, libc::EPOLL_CTL_MOD, number, Some(event));
        if answer.is_ok() {
            place.event = event;
        }
        return Some(answer);
    }
    // the kernel's registration stays as it is, and this is its answer
    if (place.event.events | event.events) & kernel::EXCLUSIVE != 0 {
        return Some(Err(Errno::INVAL));
    }
    inside.change(at, event);
    inside.leave(known);
    Some(Ok(()))
}
