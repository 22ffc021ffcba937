//! Who waits for which connection: epoll instances, and threads in poll(2).
//!
//! Owns: the instances, which of them has a connection, which box the peer tells. Must not know:
//! what is so of a connection.
//!
//! # The box
//! The peer tells one box of a connection. If one waits, that is its box; if several do, box 0, the
//! service thread's, which tells all ([`super::told`]). After the box's number was changed the told
//! bit is looked at: a peer that has told the box from before has set the bit before it has looked
//! at the number. If an instance that is no longer alone takes the bit, it tells the others
//! ([`super::instance::Inside::heard`]): the number of those who wait ([`super::Ready::count`]) is
//! raised before the box is changed, and that before the newcomer sets its wants, so who finds the
//! bit that these have caused finds the number raised.
//!
//! What a parent has linked goes by box 0 once a child's instance or thread waits for it, or has
//! it: peers know the parent's boxes alone, and the parent may choose one while the child waits.
//! Until then it goes by the box that the parent has chosen, and what hears that box finds what it
//! was told of by the bit. So of what others hold as well only who has put the link takes the bit
//! away ([`super::Ready::takes`]); the others look, and leave it.
//!
//! # Locks
//! That of all connections before that of an instance, never two instances' at once.

mod control;

use super::Ready;
use super::boxes::{self, Bell, process};
use super::instance::{self, Instance};
use super::kernel;
use super::lock::Guard;
use crate::arena::Taken;
use crate::numbers::Kind;
use crate::table::{Left, Pin, Table};
use ferriband_sdp_local::{Own, Reader, Writer};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Who waits for one connection.
#[derive(Debug)]
struct Connection {
    taken: Taken,
    instances: Vec<(&'static Instance, u32)>,
    threads: Vec<(&'static Bell, u32)>,
    /// The box that the peer tells; none was set so far.
    number: Option<u32>,
}

/// What the lock of all connections keeps.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    connections: BTreeMap<u32, Connection>,
    pub instances: Vec<&'static Instance>,
    unused: Vec<&'static Instance>,
    pub boxes: boxes::Free,
}

type Held<'a> = Guard<'a, Waiters>;

impl Connection {
    fn new(taken: Taken) -> Self {
        Self {
            taken,
            instances: Vec::new(),
            threads: Vec::new(),
            number: None,
        }
    }

    /// The threads of this process.
    fn threads(&self) -> impl Iterator<Item = &'static Bell> {
        let process = process();
        let mine = self.threads.iter().filter(move |(_, of)| *of == process);
        mine.map(|(bell, _)| *bell)
    }

    /// How many wait, and the box of one of them.
    fn waiters(&self) -> (u32, u32) {
        let mut count = self.threads().count() as u32;
        let mut number = self.threads().next().map_or(0, Bell::number);
        let mut last = None;
        for (instance, at) in &self.instances {
            // two registrations of one instance follow each other
            if last.is_some_and(|last| std::ptr::eq(last, *instance)) {
                continue;
            }
            last = Some(*instance);
            let Some(mut inside) = instance.inside.enter() else {
                continue;
            };
            let one = inside.of(*at, self.taken);
            if one.is_some_and(|one| one.linked.is_some()) {
                count += 1;
                number = inside.bell.map_or(0, Bell::number);
            }
        }
        (count, number)
    }
}

impl Ready {
    /// All who wait for a connection look at it.
    pub(super) fn tell(&self, held: &Held<'_>, index: u32, of_kernel: bool) {
        let Some(connection) = held.connections.get(&index) else {
            return;
        };
        for (instance, at) in &connection.instances {
            if let Some(mut inside) = instance.inside.enter() {
                inside.news(*at, of_kernel);
                inside.leave(instance);
            }
        }
        connection.threads().for_each(Bell::ring);
    }

    /// Says which box the peer tells, after those who wait have changed.
    pub(super) fn settle(&self, held: &mut Held<'_>, pin: &Pin<'_>) {
        let Some(link) = pin.link() else { return };
        let index = pin.taken().index;
        let Some(connection) = held.connections.get(&index) else {
            return;
        };
        let (count, number) = connection.waiters();
        if count > 1 && self.drop_retired(held, pin.taken()) {
            // which has settled it
            return;
        }
        let Some(connection) = held.connections.get_mut(&index) else {
            return;
        };
        self.count(index).store(count, Ordering::SeqCst);
        // of a parent's link peers know the parent's boxes
        let is_mine = self.linker(index).load(Ordering::Acquire) == process();
        let number = match count {
            // whoever waits next says so
            0 => return,
            1 if is_mine && !pin.others_hold() => number,
            _ => 0,
        };
        if connection.number == Some(number) {
            return;
        }
        connection.number = Some(number);
        link.set_box(number);
        let told = match self.takes(pin.taken()) {
            true => link.take_told(),
            false => link.is_told(),
        };
        if told {
            self.tell(held, index, false);
        }
    }

    /// Whether this process takes away that a peer has told of a connection.
    pub(super) fn takes(&self, taken: Taken) -> bool {
        if self.linker(taken.index).load(Ordering::Acquire) == process() {
            return true;
        }
        let pin = Table::get().ok().and_then(|table| table.pin_taken(taken));
        pin.is_none_or(|pin| !pin.others_hold())
    }

    /// The instance of a number, which is made known if it is not.
    pub(super) fn adopt(&self, held: &mut Held<'_>, number: i32) -> Option<&'static Instance> {
        if let Some(known) = self.instance(number) {
            return Some(known);
        }
        let place = self.place(number)?;
        let instance = match held.unused.pop() {
            Some(unused) => unused,
            None => {
                let new: &'static Instance = Box::leak(Box::new(Instance::new()));
                held.instances.push(new);
                new
            }
        };
        instance.inside.enter()?.begin(number);
        place.store(std::ptr::from_ref(instance).cast_mut(), Ordering::Release);
        Some(instance)
    }

    /// Another number of an instance.
    pub(super) fn alias(&self, number: i32, other: i32) {
        let Some(instance) = self.instance(number) else {
            return;
        };
        let Some(_held) = self.waiters.enter() else {
            return;
        };
        if let (Some(place), Some(mut inside)) = (self.place(other), instance.inside.enter()) {
            inside.numbers.push(other);
            place.store(std::ptr::from_ref(instance).cast_mut(), Ordering::Release);
        }
    }

    /// A number of an instance is closed.
    pub(super) fn leave_instance(&self, number: i32) {
        let Some(mut held) = self.waiters.enter() else {
            // a handler has interrupted the hold: the next instance of this number takes its place
            return;
        };
        let Some(place) = self.place(number) else {
            return;
        };
        let instance = place.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: instances stay for ever.
        let Some(instance) = (unsafe { instance.as_ref() }) else {
            return;
        };
        let instance: &'static Instance = instance;
        let Some(mut inside) = instance.inside.enter() else {
            return;
        };
        inside.numbers.retain(|one| *one != number);
        if !inside.numbers.is_empty() {
            return;
        }
        let all: Vec<_> = inside.all().map(|(at, one)| (at, one.taken)).collect();
        // of a parent's instance the kernel keeps the box, too
        let is_mine = inside.process == process();
        let bell = inside.bell.take().filter(|_| is_mine);
        drop(inside);
        for (at, taken) in all {
            self.remove(&mut held, instance, at, taken);
        }
        instance.is_tagged.store(false, Ordering::Release);
        instance.is_nested.store(false, Ordering::Release);
        if let Some(bell) = bell {
            held.boxes.give_back(bell);
        }
        held.unused.push(instance);
    }

    /// Takes a registration away.
    fn remove(&self, held: &mut Held<'_>, instance: &'static Instance, at: u32, taken: Taken) {
        let Some(mut inside) = instance.inside.enter() else {
            return;
        };
        let is_mine = inside.process == process();
        if let Some(one) = inside.of(at, taken) {
            let is_counted = std::mem::take(&mut one.is_counted);
            inside.remove(at);
            // a parent's are the parent's to take away
            if is_counted && is_mine {
                count_out(taken);
            }
        }
        drop(inside);
        let Some(connection) = held.connections.get_mut(&taken.index) else {
            return;
        };
        if connection.taken != taken {
            return;
        }
        let is_it = |one: &(&'static Instance, u32)| std::ptr::eq(one.0, instance) && one.1 == at;
        connection.instances.retain(|one| !is_it(one));
        if connection.instances.is_empty() && connection.threads.is_empty() {
            held.connections.remove(&taken.index);
            self.count(taken.index).store(0, Ordering::SeqCst);
            return;
        }
        let pin = Table::get().ok().and_then(|table| table.pin_taken(taken));
        if let Some(pin) = pin {
            self.settle(held, &pin);
        }
    }

    /// Takes a connection's registrations away that the program has deleted. False: there is none.
    fn drop_retired(&self, held: &mut Held<'_>, taken: Taken) -> bool {
        let known = held.connections.get(&taken.index);
        let Some(connection) = known.filter(|known| known.taken == taken) else {
            return false;
        };
        let retired: Vec<_> = connection
            .instances
            .iter()
            .filter(|(instance, at)| {
                let inside = instance.inside.enter();
                inside.is_some_and(|mut inside| inside.unwatch_retired(*at, taken))
            })
            .copied()
            .collect();
        for (instance, at) in &retired {
            self.remove(held, instance, *at, taken);
        }
        !retired.is_empty()
    }

    /// A child is about to share the kernel's instances: what the program has deleted goes there,
    /// too, from here on at once.
    pub(super) fn share(&self) {
        let Some(mut held) = self.waiters.enter() else {
            return;
        };
        let mut retired = Vec::new();
        for instance in &held.instances {
            if let Some(mut inside) = instance.inside.enter() {
                inside.is_inherited = true;
                retired.extend(inside.retired());
            }
        }
        for taken in retired {
            self.drop_retired(&mut held, taken);
        }
    }

    /// All that is known of who waits for a connection; what an earlier one of this place had is
    /// forgotten.
    fn connection<'a>(&self, held: &'a mut Held<'_>, taken: Taken) -> &'a mut Connection {
        let known = held.connections.entry(taken.index);
        let connection = known.or_insert_with(|| Connection::new(taken));
        if connection.taken != taken {
            *connection = Connection::new(taken);
        }
        connection
    }

    /// Whether the connection may be given a link, as far as those are concerned who wait for it.
    pub(super) fn fits(&self, pin: &Pin<'_>) -> bool {
        let Some(held) = self.waiters.enter() else {
            return false;
        };
        let (Some(connection), Ok(table)) =
            (held.connections.get(&pin.taken().index), Table::get())
        else {
            return true;
        };
        let process = process();
        let kind = Kind::Stream(pin.taken().index);
        connection.taken != pin.taken()
            || connection.instances.iter().all(|(instance, at)| {
                let inside = instance.inside.enter();
                inside.is_some_and(|mut inside| {
                    let is_mine = inside.process == process;
                    let one = inside.of(*at, pin.taken());
                    let number = one.map(|one| one.number);
                    is_mine && number.is_none_or(|number| table.numbers().look(number) == kind)
                })
            })
    }

    /// After a link was put. False: the connection cannot be served, and stays TCP.
    pub(super) fn linked(&self, pin: &Pin<'_>, number: i32) -> bool {
        let Some(mut held) = self.waiters.enter() else {
            return false;
        };
        let index = pin.taken().index;
        self.linker(index).store(process(), Ordering::Release);
        let Some(connection) = held.connections.get_mut(&index) else {
            return true;
        };
        if connection.taken != pin.taken() {
            return true;
        }
        connection.number = None;
        let all = connection.instances.clone();
        let mut is_served = true;
        for (instance, at) in all {
            let Some(mut inside) = instance.inside.enter() else {
                continue;
            };
            let one = inside.of(at, pin.taken());
            let one = one.map(|one| (one.number, one.is_counted));
            drop(inside);
            if let Some((registered, false)) = one {
                is_served &= self.tag(&mut held, instance, pin, registered).is_ok();
            }
        }
        self.settle(&mut held, pin);
        if !is_served && let Some(call) = instance::call_on(pin, number) {
            // nobody has offered, or will: the kernel has the connection
            let _ = Reader(&call).give_up();
            Writer(&call).go_back();
        }
        is_served
    }

    /// A thread is about to sleep in poll(2) for those of some connections that have a link.
    pub(super) fn sleeps(&self, all: &mut dyn Iterator<Item = Taken>) -> Option<&'static Bell> {
        let table = Table::get().ok()?;
        let mut held = self.waiters.enter()?;
        let (bell, is_new) = held.boxes.take().ok()?;
        let mut is_untold = is_new;
        for taken in all {
            let Some(pin) = table.pin_taken(taken).filter(|pin| pin.link().is_some()) else {
                continue;
            };
            let connection = self.connection(&mut held, taken);
            connection.threads.push((bell, process()));
            self.settle(&mut held, &pin);
            if is_untold && let Some(link) = pin.link() {
                link.ring_service();
                is_untold = false;
            }
        }
        Some(bell)
    }

    /// It has slept.
    pub(super) fn woke(&self, bell: &'static Bell, all: &mut dyn Iterator<Item = Taken>) {
        let Some(mut held) = self.waiters.enter() else {
            return;
        };
        for taken in all {
            let known = held.connections.get_mut(&taken.index);
            let Some(connection) = known.filter(|known| known.taken == taken) else {
                continue;
            };
            let threads = &mut connection.threads;
            if let Some(at) = threads.iter().position(|(one, _)| std::ptr::eq(*one, bell)) {
                threads.swap_remove(at);
            }
            if connection.instances.is_empty() {
                continue;
            }
            let pin = Table::get().ok().and_then(|table| table.pin_taken(taken));
            if let Some(pin) = pin {
                self.settle(&mut held, &pin);
            }
        }
        held.boxes.give_back(bell);
    }

    /// A number of a stream is about to be closed.
    pub(super) fn leave_stream(&self, number: i32, left: &Left<'_>) {
        // of the last number: whether other processes hold the connection
        let (taken, last) = match left {
            Left::Others(taken) => (*taken, None),
            Left::Calls(pin) => (pin.taken(), Some(pin.others_hold())),
            Left::Last(last) => (last.taken(), Some(last.others_hold())),
            Left::Plain | Left::Own => return,
        };
        let Some(mut held) = self.waiters.enter() else {
            // a handler has interrupted the hold: whoever looks at what is left finds it gone
            return;
        };
        let Some(connection) = held.connections.get(&taken.index) else {
            return;
        };
        if connection.taken != taken {
            return;
        }
        let all = connection.instances.clone();
        for (instance, at) in all {
            let Some(mut inside) = instance.inside.enter() else {
                continue;
            };
            // whoever looks at it by this number is done: the lock was free
            let Some(others_hold) = last else {
                let one = inside.of(at, taken);
                let is_by_it = one.is_some_and(|one| one.number == number);
                let is_retired = is_by_it && inside.unwatch_retired(at, taken);
                drop(inside);
                if is_retired {
                    self.remove(&mut held, instance, at, taken);
                }
                continue;
            };
            let is_mine = inside.process == process();
            let one = inside.of(at, taken).filter(|one| one.number == number);
            let is_linked = one.map(|one| one.linked.is_some());
            let own = inside.numbers.first().copied();
            drop(inside);
            // A socket stays in the kernel's instance while anybody has it. Another process that
            // holds it is the program's affair where the kernel has the program's data. The service
            // thread is not: it may be in the middle of a call, or the kernel may be looking at the
            // socket for it, and an event of a number that is closed would reach the program.
            if is_mine
                && is_linked == Some(others_hold)
                && let Some(own) = own
            {
                let _ = kernel::ctl(own, libc::EPOLL_CTL_DEL, number, None);
            }
            self.remove(&mut held, instance, at, taken);
        }
        if last.is_some() {
            held.connections.remove(&taken.index);
            self.count(taken.index).store(0, Ordering::SeqCst);
        }
    }
}

/// Counts one who waits in the kernel for a connection's bytes. False: there is a link, by which he
/// is told.
pub(super) fn count_in(pin: &Pin<'_>) -> bool {
    let record = pin.record();
    record.word(Own::Receives).fetch_add(1, Ordering::SeqCst);
    if record.word(Own::ReceiveGate).load(Ordering::SeqCst) == 0 {
        return true;
    }
    record.word(Own::Receives).fetch_sub(1, Ordering::SeqCst);
    false
}

/// After [`count_in`].
pub(super) fn count_out(taken: Taken) {
    if let Ok(table) = Table::get()
        && table.arena().is(taken)
    {
        let record = table.arena().record(taken.index);
        record.word(Own::Receives).fetch_sub(1, Ordering::SeqCst);
    }
}
