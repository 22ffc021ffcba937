//! By what other ranks are reached: memory that the ranks of a host share ([`shm`]), and a device
//! ([`verbs`]), both above what ranks of a host know of each other ([`host`]).
//!
//! Owns: moving envelopes and bytes from one rank to another, in order; which transport does so for
//! which rank ([`Transports`]), and in which order they are looked at ([`round`]). Must not know:
//! communicators, which receive takes a message, what a message is for.

pub mod contract;
pub mod counters;
pub mod host;
pub mod limits;
pub mod polling;
pub mod round;
pub mod shm;
mod told;
pub mod verbs;

use crate::constants::MPI_ERR_OTHER;
use crate::errors::{MpiError, Outcome, broken};
use crate::ground::memory::{Sink, Source};
use crate::handle::Token;
use contract::{
    Asked, Deliver, Fetch, Fetched, Head, LongSend, Lost, Message, Offered, Place, Reached,
    Refused, Sent, Served,
};
use ferriband_heal::card::Card;
use ferriband_heal::inquiry::CardPort;
use ferriband_mpi_proto::fast::Design;
use ferriband_mpi_proto::sizes::SharedSizes;
use host::Host;
use limits::{SharedLimits, Wanted};
use shm::{Shm, Stored};
use std::os::fd::RawFd;
use verbs::{Net, Told};

/// What moves messages between this rank and the others.
pub struct Transports {
    /// By what each rank of the world is reached.
    reached: Box<[Reached]>,
    /// The ranks of this host; none if this process is alone.
    pub host: Option<Host>,
    /// Memory that this rank shares with others of its host.
    shm: Shm,
    /// A device; none if no rank is reached by one.
    net: Option<Box<Net>>,
    /// The device has failed as a whole, and nobody has heard of it.
    failure: Option<MpiError>,
    /// Lengths of messages by memory, and the longest that is sent eagerly by whatever transport.
    sizes: SharedSizes,
}

/// The transport of one rank, and who the ranks are.
enum By<'a> {
    Memory(&'a mut Shm, &'a Host),
    Device(&'a mut Net, &'a Host),
}

impl Transports {
    /// For a process that is a rank of `host`, whose ranks reach each other by `same_host`, or
    /// alone.
    pub fn new(
        host: Option<Host>,
        same_host: Reached,
        sizes: SharedSizes,
        limits: SharedLimits,
    ) -> Self {
        let sizes = match &host {
            Some(host) => sizes.within(shm::open::longest(host)),
            None => sizes,
        };
        let ranks = host.as_ref().map_or(1, Host::ranks);
        let reached = |rank| match &host {
            Some(host) if rank != host.me() && host.is_near(rank) => same_host,
            Some(host) if rank != host.me() => Reached::Far,
            _ => Reached::Own,
        };
        Self {
            reached: (0..ranks).map(reached).collect(),
            host,
            shm: Shm::new(ranks, sizes.exchange, limits),
            net: None,
            failure: None,
            sizes,
        }
    }

    /// Opens a device if there are ranks that are reached by one, and leaves this rank's card for
    /// them: the card.
    pub fn open(&mut self, wanted: Wanted<'_>) -> Outcome<Option<Card>> {
        let Some(host) = &self.host else {
            return Ok(None);
        };
        if !self.reached.iter().any(|reached| reached.is_by_device()) {
            return Ok(None);
        }
        let net = Net::open(wanted, host.me(), self.reached.clone(), host.secret())?;
        let card = net.card();
        host.set_card(&card);
        self.net = Some(Box::new(net));
        Ok(Some(card))
    }

    /// Where this process tells its rank's card to ranks of other hosts from here on, if there is
    /// need of it.
    pub fn open_card_port(&mut self) -> Option<CardPort> {
        self.net.as_mut()?.open_card_port()
    }

    /// What moves messages to and from a rank.
    #[inline]
    fn by(&mut self, peer: u32) -> Outcome<By<'_>> {
        match (self.reached[peer as usize], &self.host, &mut self.net) {
            (Reached::Memory, Some(host), _) => Ok(By::Memory(&mut self.shm, host)),
            (Reached::Near | Reached::Far, Some(host), Some(net)) => Ok(By::Device(net, host)),
            (Reached::Own | Reached::Memory | Reached::Near | Reached::Far, ..) => {
                Err(unreachable(peer))
            }
        }
    }

    /// Whether this rank and another have memory in common.
    pub fn shares_memory(&self, rank: u32) -> bool {
        self.reached[rank as usize].is_by_memory()
    }

    /// Bytes of the longest message that is sent eagerly to any rank.
    #[inline(always)]
    pub fn eager(&self) -> usize {
        self.sizes.eager
    }

    /// Whether a message of `length` bytes to `peer`, even a longer one, may be stored at once.
    #[inline(always)]
    pub fn stores(&self, peer: u32, length: usize) -> bool {
        self.shm.links[peer as usize].has_place(length)
    }

    /// Whether a message to `peer`, longer than what is sent eagerly to all, goes eagerly.
    pub fn goes_eager(&self, peer: u32, source: &Source) -> bool {
        match (self.reached[peer as usize], &self.net) {
            (Reached::Memory, _) => source.len() <= self.sizes.eager_near,
            (Reached::Near | Reached::Far, Some(net)) => net.goes_eager(peer, source),
            (Reached::Own | Reached::Near | Reached::Far, _) => false,
        }
    }

    /// Bytes of the pieces in which a message goes to `peer` that cannot go otherwise.
    pub fn piece(&self, peer: u32) -> usize {
        let host = self.host.as_ref();
        match self.reached[peer as usize] {
            Reached::Memory => shm::long::piece(host.map_or(0, shm::open::longest)),
            Reached::Own | Reached::Near | Reached::Far => shm::long::piece(0),
        }
    }
}

impl Transports {
    /// Stores a message of the program of an untraced process where that takes nothing but the
    /// stores. False if it takes more: then nothing has happened.
    #[inline(always)]
    pub fn try_send(&mut self, to: u32, tag: i32, context: u64, source: &Source) -> bool {
        let Some(link) = self.shm.links.get_mut(to as usize) else {
            return false;
        };
        let stored = if source.len() < link.exchange.0 {
            link.try_send(tag, context, source)
        } else {
            link.try_send_large(self.host.as_ref(), tag, context, *source)
        };
        if stored == Stored::Asleep
            && let Some(host) = &self.host
        {
            host.ring(to);
        }
        stored != Stored::Not
    }

    /// Sends a message that nothing waits before, whatever that takes. Its number; none if there is
    /// no room now.
    pub fn post(
        &mut self,
        to: u32,
        head: &Head,
        body: &[u8],
        source: Source,
    ) -> Outcome<Option<u32>> {
        match self.by(to)? {
            By::Memory(shm, host) => shm.link(to).send(host, to, head, body, source),
            By::Device(net, host) => net.post(host, to, head, body, source),
        }
    }

    /// Sends the first of `messages`, which wait for `to` in this order, or several where they go
    /// together.
    pub fn send<'a>(
        &mut self,
        to: u32,
        mut messages: impl Iterator<Item = &'a Message> + Clone,
    ) -> Outcome<Sent> {
        match self.by(to)? {
            By::Memory(shm, host) => {
                let Some(first) = messages.next() else {
                    return Ok(Sent::NONE);
                };
                let (head, body) = (&first.head, first.body.as_slice());
                let number = shm.link(to).send(host, to, head, body, first.source)?;
                Ok(number.map_or(Sent::NONE, Sent::one))
            }
            By::Device(net, host) => net.send(host, to, messages),
        }
    }

    /// Messages to `to` wait, or no longer: where some do, none is stored before them.
    pub fn hold(&mut self, to: u32, waits: bool) {
        self.shm.link(to).hold(waits);
    }

    /// There is no room for what waits for `to`, who is to say when there is; unless that has just
    /// come.
    pub fn starve(&mut self, to: u32) {
        if self.shm.link(to).starve()
            && let Some(host) = &self.host
        {
            host.ring(to);
        }
    }

    /// How `to` can have a long message, until [`Transports::withdraw`].
    pub fn offer(&mut self, to: u32, what: &LongSend) -> Offered {
        match self.by(to) {
            Ok(By::Memory(shm, _)) => shm.long.offer(to, what),
            Ok(By::Device(net, _)) => net.offer(to, what.token, what.source),
            Err(_) => Offered::Parts,
        }
    }

    /// The memory of a message need not be reached any more.
    #[inline]
    pub fn withdraw(&mut self, token: Token) {
        self.shm.long.withdraw(token);
        if let Some(net) = &mut self.net {
            net.withdraw(token);
        }
    }

    /// How a message of `from`, some bytes, comes that has met its receive.
    pub fn fetch(&mut self, from: u32, what: &Fetch) -> Outcome<Fetched> {
        match self.by(from)? {
            By::Memory(shm, host) => Ok(shm.long.fetch(host, from, what)),
            By::Device(net, _) => net.fetch(from, what),
        }
    }

    /// The word to `to` that all of a message is written has gone as number `seq`.
    pub fn has_told_written(&mut self, to: u32, token: Token, seq: u32) {
        if let Some(net) = &mut self.net {
            net.has_told_written(to, token, seq);
        }
    }

    /// What names memory of this side's for `to` has gone as number `seq`; the peer calls the
    /// message `name`.
    pub fn has_told_key(&mut self, token: Token, name: u64, seq: u32) {
        if let Some(net) = &mut self.net {
            net.has_told_key(token, name, seq);
        }
    }

    /// Where the memory lies that a peer is to be told of for `token`.
    pub fn place_of(&self, token: Token) -> Option<Place> {
        self.net.as_ref()?.place_of(token)
    }

    /// The last piece is there of a message of `length` bytes that came from `from` in pieces.
    pub fn has_come(&mut self, from: u32, length: u64) {
        if self.reached[from as usize] == Reached::Memory {
            self.shm.long.ways.came(length);
        }
    }

    /// The receiver asks for `source`, some bytes, not in pieces. `receive`: what it calls it.
    pub fn serve(
        &mut self,
        to: u32,
        token: Token,
        source: Source,
        asked: Asked,
        receive: u64,
    ) -> Outcome<Served> {
        match self.by(to)? {
            By::Memory(..) => Err(broken(to)),
            By::Device(net, _) => net.serve(to, token, source, asked, receive),
        }
    }

    /// The receiver asks not in pieces for a message that has ended meanwhile, and its receive is
    /// to end with that class. False if only a word to its rank does that.
    pub fn refuse(&mut self, to: u32, asked: Asked, class: i32) -> Outcome<bool> {
        match (asked, self.by(to)?) {
            (Asked::Pieces | Asked::Written(_), _) => Ok(false),
            (Asked::Lane(_), By::Memory(..)) => Err(broken(to)),
            (Asked::Lane(lane), By::Device(net, _)) => {
                net.refuse_by_lane(to, lane, class).map(|()| true)
            }
        }
    }

    /// Reads memory of a rank of this host.
    pub fn read(&mut self, rank: u32, address: u64, sink: &Sink) -> Result<(), Refused> {
        match self.by(rank) {
            Ok(By::Memory(shm, host)) => shm.long.read(host, rank, address, sink),
            _ => Err(Refused::Always),
        }
    }

    /// Whether memory of ranks of this host can be read, as far as is known.
    pub fn may_read(&self) -> bool {
        self.shm.long.may_read()
    }

    /// Nothing more is sent to a rank, which has died or cannot be reached.
    pub fn lose(&mut self, rank: u32) {
        match self.by(rank) {
            Ok(By::Memory(shm, _)) => shm.link(rank).lose(),
            Ok(By::Device(net, _)) => net.forget(rank),
            Err(_) => (),
        }
    }

    /// Sees to it that nothing which `peer` sends reaches memory of this rank any more. False if
    /// that cannot be: what comes is taken by this rank, which can put it elsewhere.
    #[cold]
    pub fn cut(&mut self, peer: u32, why: &str) -> bool {
        match self.by(peer) {
            Ok(By::Device(net, _)) => {
                net.cut_off(peer, why);
                true
            }
            Ok(By::Memory(..)) | Err(_) => false,
        }
    }

    /// A call that waited for the message of `token`, from `peer` or to it, has failed, and the
    /// message ends with this class at both sides: [`Told::Ended`] says when nothing reads or
    /// writes its memory any more. False if the connection is not made anew, or there is none.
    #[cold]
    pub fn give_up(&mut self, peer: u32, token: Token, class: i32) -> bool {
        match self.by(peer) {
            Ok(By::Device(net, _)) => net.give_up(peer, token, class),
            Ok(By::Memory(..)) | Err(_) => false,
        }
    }

    /// `peer` has taken back message `seq`, which was given up: it says nothing more of it.
    #[cold]
    pub fn has_taken_back(&mut self, peer: u32, seq: u32) {
        if let Some(net) = &mut self.net {
            net.has_taken_back(peer, seq);
        }
    }

    /// Whether `rank` is reached by a device.
    pub fn is_by_device(&self, rank: u32) -> bool {
        self.reached[rank as usize].is_by_device()
    }

    /// Whether a rank of this host has left MPI: it reads nothing, and answers nothing.
    pub fn has_left(&self, rank: u32) -> bool {
        let host = self.host.as_ref();
        self.reached[rank as usize] == Reached::Memory && host.is_some_and(|one| one.is_over(rank))
    }

    /// Whether a rank may need an answer of this one's transports; `is_seen`: what ranks of other
    /// hosts say about themselves.
    pub fn is_needed_by(&self, rank: u32, is_seen: bool) -> bool {
        let needs = |host: &Host| (is_seen || host.is_near(rank)) && !host.is_over(rank);
        self.reached[rank as usize].is_by_device() && self.host.as_ref().is_some_and(needs)
    }
}

impl Transports {
    /// Looks at what `from` has sent until something is there, `looks` times or until something
    /// else wants a round, and tells `to` of one message. None if it may not be looked at alone.
    #[inline(always)]
    pub fn watch<D: Deliver>(&mut self, from: u32, looks: u32, to: &mut D) -> Option<()> {
        // A sender that is always ahead must not keep this rank from all else.
        if self.net.is_some() || self.has_offers() || !self.shm.polling.may_wait() {
            return None;
        }
        // What breaks the rules is found again by the round that comes now.
        let host = self.host.as_ref()?;
        self.shm.watch(host, from, looks, to).ok()?;
        Some(())
    }

    /// Whether a look costs more than to look at memory.
    #[inline]
    pub fn has_net(&self) -> bool {
        self.net.is_some()
    }

    /// Whether ranks of this host may want to know that the program waits, and have this one copy a
    /// part of a message then.
    #[inline(always)]
    pub fn has_offers(&self) -> bool {
        self.shm.long.has_offers()
    }

    /// Tells them whether it does.
    #[cold]
    pub fn say_it_waits(&self, waits: bool) {
        if let Some(host) = &self.host {
            host.set_waits(waits);
        }
    }

    /// Copies a part of a message for a receiver that wants that. True if there was one.
    #[inline]
    pub fn help(&mut self) -> bool {
        match &self.host {
            Some(host) if self.shm.long.has_offers() => self.shm.long.help(host),
            _ => false,
        }
    }

    /// Whether a round would do something: the last look before falling asleep. Messages wait for
    /// `stalled`.
    pub fn has_work(&self, stalled: &[u32]) -> bool {
        let (host, net) = (self.host.as_ref(), self.net.as_ref());
        self.shm.has_work()
            || host.is_some_and(|host| self.shm.newcomers.has_next(host))
            || net.is_some_and(|net| net.has_records())
            || host.is_some_and(|host| self.shm.long.has_copy_request(host))
            || stalled
                .iter()
                .any(|peer| self.shm.links[*peer as usize].has_news())
    }

    /// Before this process sleeps: what comes shall wake it. The descriptors to wait on besides the
    /// bell, and for how long at most, in milliseconds. Messages wait for `stalled`; `is_shared`:
    /// other threads call MPI meanwhile, so nobody sleeps for long. A round must follow before the
    /// sleep.
    pub fn arm(&mut self, is_shared: bool, stalled: &[u32]) -> Outcome<(Vec<RawFd>, i32)> {
        let (Some(net), Some(host)) = (&mut self.net, &self.host) else {
            return Ok((Vec::new(), -1));
        };
        let are_quiet = !is_shared && net.quieten(host)?;
        self.look_about()?;
        match &mut self.net {
            Some(net) if !net.is_dead() => {
                net.keep_alive()?;
                net.arm(are_quiet, stalled)
            }
            _ => Ok((Vec::new(), -1)),
        }
    }

    /// Takes what devices say by themselves, and looks whether peers are silent. If the only device
    /// has failed for good, all whom it reached are lost.
    fn look_about(&mut self) -> Outcome {
        let (Some(net), Some(host)) = (&mut self.net, &self.host) else {
            return Ok(());
        };
        if net.is_dead() {
            return Ok(());
        }
        if let Some(why) = net.hear()? {
            self.failure = Some(MpiError::with(MPI_ERR_OTHER, net.fail(&why)));
            return Ok(());
        }
        net.look_for_silence(host)
    }

    /// A call that only tests has found nothing and yields the processor: the next round looks
    /// about if that is due.
    pub fn ask_about(&self) {
        if let Some(net) = &self.net {
            net.ask_about();
        }
    }

    /// The program's part in MPI is over: nobody listens for what devices say by themselves.
    pub fn rest(&mut self) {
        if let Some(net) = &mut self.net {
            net.end_watch();
        }
    }

    /// It begins again.
    pub fn wake(&mut self) {
        if let Some(net) = &mut self.net {
            net.begin_watch();
        }
    }

    /// Whether there is something to be told besides messages that have come.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.failure.is_some() || self.net.as_ref().is_some_and(|net| net.has_news())
    }

    /// What is to be told next; the device at last if it has failed itself. `ends`: the round does.
    #[cold]
    pub fn take_news(&mut self, ends: bool) -> Outcome<Option<Told>> {
        if let (Some(net), Some(host)) = (&mut self.net, &self.host)
            && let Some(told) = net.take_news(host, ends)?
        {
            return Ok(Some(told));
        }
        let error = self.failure.take();
        Ok(error.map(|error| {
            let error = Some(error);
            Told::Lost(Lost { peer: None, error })
        }))
    }

    /// The end begins: from here on whatever is sent can be waited for.
    pub fn close(&mut self) -> Outcome {
        self.net.as_mut().map_or(Ok(()), |net| net.close())
    }

    /// It was not the end: messages go as they did before.
    pub fn reopen(&mut self) {
        if let Some(net) = &mut self.net {
            net.go_on();
        }
    }

    /// Whether all that was sent has come, as far as that can be waited for.
    pub fn is_drained(&mut self) -> bool {
        match (&mut self.net, &self.host) {
            (Some(net), Some(host)) => net.is_drained(host),
            _ => true,
        }
    }

    /// Changes a setting while MPI runs (`ferriband_mpi.h`). None if there is no such setting or
    /// value.
    pub fn switch(&mut self, name: &[u8], value: &[u8]) -> Option<Outcome> {
        let net = self.net.as_deref_mut();
        match (name, value) {
            (b"acks", b"0" | b"1") => {
                if let Some(net) = net {
                    net.keep_messages(value == b"1");
                }
                Some(Ok(()))
            }
            (b"queue-pairs", b"error") => {
                if let Some(net) = net {
                    net.break_connections();
                }
                Some(Ok(()))
            }
            (b"design", _) => {
                let named = |design: &Design| design.name().as_bytes() == value;
                let design = Design::ALL.into_iter().find(named)?;
                Some(net.map_or(Ok(()), |net| net.change_design(design)))
            }
            _ => None,
        }
    }
}

/// There is no way to a rank.
#[cold]
fn unreachable(peer: u32) -> MpiError {
    let text = format!("rank {peer} cannot be reached");
    MpiError::with(MPI_ERR_OTHER, text)
}
