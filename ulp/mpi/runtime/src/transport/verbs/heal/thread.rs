//! The thread beside the program: it hears what adapters say by themselves, answers probes and
//! questions for the rank's card, and asks other hosts for cards, also while the rank polls or
//! computes (docs/design/heal.md, section 5.4).
//!
//! Owns: the thread, which adapters it looks at, and when it ends. Must not know: what an event
//! means ([`super::events`]), what a probe says ([`super::echo`]), how a card is told and asked for
//! ([`super::teller`], [`super::asking`]). It holds no lock of the runtime's, reads no queue of the
//! rank's, takes no signal, and does nothing while nothing comes.

use super::asking::Asking;
use super::echo::{Echo, Spot, Whose};
use super::mail::{Mail, Mailbox, call_attention};
use super::teller::Teller;
use ferriband_heal::Datagram;
use ferriband_heal::card::{ADAPTERS, Card};
use ferriband_heal::inquiry::CardPort;
use ferriband_host::{Event, signals};
use ferriband_ibv::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Calls of a verbs library are made on it. What is not touched costs no memory.
const STACK: usize = 256 << 10;

/// The thread, as the rank knows it. It ends when this goes.
pub struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The process that has it: a forked child has not.
    process: u32,
}

struct Shared {
    /// There are orders.
    wake: Event,
    mailbox: Mailbox,
    orders: Mutex<Orders>,
    /// Some have been carried out, or the thread has ended.
    carried: Condvar,
    /// What the rank's card says of each adapter.
    spots: Mutex<[Spot; ADAPTERS]>,
    /// The rank's card, for who asks by TCP.
    card: Mutex<Card>,
    /// The rank wants to be called then.
    call: Mutex<Option<Instant>>,
    /// Whose the thread is.
    whose: Whose,
}

#[derive(Default)]
struct Orders {
    next: VecDeque<Order>,
    given: u64,
    carried: u64,
    is_over: bool,
}

enum Order {
    Watch(Box<Watched>),
    Forget(u8),
    /// Answers at this port.
    Tell(TcpListener),
    /// Asks for the card of this rank, which tells it at that port.
    Ask(u32, CardPort),
    End,
}

/// An adapter that the thread looks at.
struct Watched {
    adapter: u8,
    opening: u32,
    context: Arc<Context>,
    echo: Option<Echo>,
    /// Its events can be read.
    is_heard: bool,
    /// What the echo told last of each peer.
    told: Vec<Datagram>,
}

impl Watch {
    /// Starts the thread of a rank with this card, which looks at no adapter yet.
    ///
    /// # Errors
    /// What the kernel answers where there can be no thread or no descriptor more.
    pub fn begin(whose: Whose, card: Card) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            wake: Event::new()?,
            mailbox: Mailbox::new()?,
            orders: Mutex::default(),
            carried: Condvar::new(),
            spots: Mutex::default(),
            card: Mutex::new(card),
            call: Mutex::default(),
            whose,
        });
        let theirs = Arc::clone(&shared);
        let thread = signals::without(|| {
            std::thread::Builder::new()
                .name("ferriband-heal".to_owned())
                .stack_size(STACK)
                .spawn(move || run(&theirs))
        })?;
        Ok(Self {
            shared,
            thread: Some(thread),
            process: std::process::id(),
        })
    }

    /// Looks at this opening of an adapter from here on; its events must not be waited for by
    /// reading ([`Context::set_nonblocking`]).
    pub fn watch(&self, (adapter, opening): (u8, u32), context: &Arc<Context>, echo: Option<Echo>) {
        self.shared.order(Order::Watch(Box::new(Watched {
            adapter,
            opening,
            context: Arc::clone(context),
            echo,
            is_heard: true,
            told: Vec::new(),
        })));
    }

    /// Looks at an adapter no more: nothing of it is held when this returns.
    pub fn forget(&self, adapter: u8) {
        let shared = &self.shared;
        let number = shared.order(Order::Forget(adapter));
        let orders = shared.orders();
        let is_open = |orders: &mut Orders| !orders.is_over && orders.carried < number;
        let waited = shared.carried.wait_while(orders, is_open);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// What the rank's card says of an adapter.
    pub fn set_spot(&self, adapter: u8, spot: Spot) {
        if let Some(place) = self.shared.spots().get_mut(usize::from(adapter)) {
            *place = spot;
        }
    }

    /// Tells the card, as [`Watch::set_card`] has said it last, at this port from here on.
    pub fn tell_at(&self, port: TcpListener) {
        self.shared.order(Order::Tell(port));
    }

    /// What is told who asks for the rank's card.
    pub fn set_card(&self, card: Card) {
        *self.shared.card() = card;
    }

    /// Asks for the card of rank `rank`, which tells it at that port: it comes by mail, or not.
    pub fn ask(&self, rank: u32, port: CardPort) {
        self.shared.order(Order::Ask(rank, port));
    }

    /// Calls for a look in that time, unless it does so sooner.
    pub fn call_in(&self, time: Duration) {
        let at = Instant::now() + time;
        let mut call = self.shared.call();
        if call.is_some_and(|before| before <= at) {
            return;
        }
        *call = Some(at);
        drop(call);
        self.shared.wake.signal();
    }

    /// Readable while there is mail.
    pub fn fd(&self) -> RawFd {
        self.shared.mailbox.fd()
    }

    /// The next that has come.
    pub fn take(&self) -> Option<Mail> {
        self.shared.mailbox.take()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        if self.process != std::process::id() {
            // In a forked child there is no thread; its parent's goes on.
            return;
        }
        self.shared.order(Order::End);
        // One that has panicked has ended as well.
        let _ = thread.join();
    }
}

impl Shared {
    /// Gives an order: its number.
    fn order(&self, order: Order) -> u64 {
        let mut orders = self.orders();
        orders.next.push_back(order);
        orders.given += 1;
        let number = orders.given;
        drop(orders);
        self.wake.signal();
        number
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self) -> MutexGuard<'_, Option<Instant>> {
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn card(&self) -> MutexGuard<'_, Card> {
        self.card.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the rank is to be called. It is called if that has come.
    fn call_when_due(&self, now: Instant) -> Option<Instant> {
        let mut call = self.call();
        if call.is_some_and(|at| at <= now) {
            *call = None;
            call_attention();
        }
        *call
    }

    fn spots(&self) -> MutexGuard<'_, [Spot; ADAPTERS]> {
        self.spots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that the thread has ended, however it has.
struct Ends<'a>(&'a Shared);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.orders().is_over = true;
        self.0.carried.notify_all();
    }
}

/// What the thread looks at.
#[derive(Default)]
struct Work {
    adapters: Vec<Watched>,
    /// None where no rank is on another host.
    teller: Option<Teller>,
    asking: Asking,
}

fn run(shared: &Shared) {
    let _ends = Ends(shared);
    let mut work = Work::default();
    while carry_out(shared, &mut work) {
        work.exchange_cards(shared);
        for at in sleep(shared, &work) {
            work.adapters[at].look(shared);
        }
    }
}

impl Work {
    /// Answers who asks for the rank's card, and goes on with what the rank has asked.
    fn exchange_cards(&mut self, shared: &Shared) {
        let now = Instant::now();
        if let Some(teller) = &mut self.teller {
            let card = *shared.card();
            teller.serve(&card, now);
        }
        self.asking.go_on(now, |rank, card| {
            shared.mailbox.put(Mail::Card { rank, card });
        });
    }
}

/// Sleeps until something comes: the adapters that it may be of.
fn sleep(shared: &Shared, work: &Work) -> Vec<usize> {
    let all = &work.adapters;
    let mut whose = Vec::new();
    let mut polls = vec![PollFd::new(&shared.wake, PollFlags::IN)];
    for (at, one) in all.iter().enumerate() {
        let events = one.is_heard.then(|| one.context.async_fd());
        let probes = one.echo.as_ref().map(|echo| echo.fd());
        for fd in events.into_iter().chain(probes) {
            polls.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
            whose.push(at);
        }
    }
    let guests = work.teller.iter().flat_map(Teller::fds);
    let guests = guests.map(|fd| (fd, PollFlags::IN));
    let others = guests.chain(work.asking.fds());
    polls.extend(others.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
    let now = Instant::now();
    let due = [
        shared.call_when_due(now),
        work.teller.as_ref().and_then(Teller::due),
        work.asking.due(),
    ];
    let due = due.into_iter().flatten().min();
    let left = due.map(|at| at.saturating_duration_since(now));
    let timeout = left.and_then(|left| Timespec::try_from(left).ok());
    if poll(&mut polls, timeout.as_ref()).is_err() {
        // An interruption is a wake-up like any other; without memory for it all are looked at.
        return (0..all.len()).collect();
    }
    let came = polls[1..].iter().zip(&whose);
    let mut came: Vec<usize> = came
        .filter(|(poll, _)| !poll.revents().is_empty())
        .map(|(_, at)| *at)
        .collect();
    came.dedup();
    came
}

/// Carries out what was ordered. False once that is to end.
fn carry_out(shared: &Shared, work: &mut Work) -> bool {
    let all = &mut work.adapters;
    shared.wake.take();
    loop {
        let order = shared.orders().next.pop_front();
        match order {
            Some(Order::Watch(one)) => all.push(*one),
            Some(Order::Forget(adapter)) => all.retain(|one| one.adapter != adapter),
            Some(Order::Tell(port)) => work.teller = Some(Teller::new(port, shared.whose)),
            Some(Order::Ask(rank, port)) => work.asking.want(&shared.whose, rank, port),
            Some(Order::End) => return false,
            None => return true,
        }
        shared.orders().carried += 1;
        shared.carried.notify_all();
    }
}

impl Watched {
    /// Something may have come.
    fn look(&mut self, shared: &Shared) {
        while self.is_heard {
            match self.context.next_async_event() {
                Ok(Some(event)) => shared.mailbox.put(Mail::Event {
                    adapter: self.adapter,
                    opening: self.opening,
                    event,
                }),
                Ok(None) => break,
                Err(_) => {
                    // To ask again and again would keep a core busy for nothing.
                    self.is_heard = false;
                    shared.mailbox.put(Mail::Silent {
                        adapter: self.adapter,
                        opening: self.opening,
                    });
                }
            }
        }
        let Some(echo) = &mut self.echo else {
            return;
        };
        let spot = shared.spots()[usize::from(self.adapter) % ADAPTERS];
        let told = &mut self.told;
        let answered = echo.answer_all(&spot, |datagram| {
            if is_news(told, datagram) {
                shared.mailbox.put(Mail::Probed {
                    datagram: *datagram,
                });
            }
        });
        if answered.is_err() {
            // Of a device that has failed its event says so.
            self.echo = None;
        }
    }
}

/// Whether a peer's PROBE says of its sender what the last one of it did not say.
fn is_news(told: &mut Vec<Datagram>, datagram: &Datagram) -> bool {
    let of = |one: &Datagram| (one.from, one.origin.adapter);
    let says = |one: &Datagram| (one.origin, one.end);
    match told.iter_mut().find(|one| of(one) == of(datagram)) {
        Some(last) if says(last) == says(datagram) => false,
        Some(last) => {
            *last = *datagram;
            true
        }
        None => {
            // Ranks times adapters, no more.
            told.push(*datagram);
            true
        }
    }
}
