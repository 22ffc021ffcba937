//! Rounds: every transport is looked at, and what is told of messages is done between the looks.
//!
//! Owns: in which order transports are looked at, what they tell is done, and what waits is sent.
//! Must not know: how a transport moves a message, what a message says.

use super::Transports;
use super::contract::{Deliver, Lost, Message};
use super::shm::{Link, Ran};
use super::verbs::{Round, Told, call_attention, heed_attention, wants_attention};
use crate::constants::MPI_SUCCESS;
use crate::errors::Outcome;
use ferriband_mpi_proto::envelope::{Fin, Kind};
use zerocopy::IntoBytes;

/// Records of one channel that are taken before the others are looked at.
const BATCH: u32 = 64;
/// Looks that find something, before what devices say by themselves is heard.
const LOOKS: u32 = 64;

/// Who has transports, and does what they tell of between the looks at them.
pub trait Owner {
    /// Who is told of messages.
    type Told: Deliver;

    /// The transports.
    fn transports(&mut self) -> &mut Transports;
    /// The transports and who is told, for a look: nothing has come yet that a call waits for.
    fn lend(&mut self) -> (&mut Transports, &mut Self::Told);
    /// Who is told of messages.
    fn told(&mut self) -> &mut Self::Told;
    /// Whether what a call waits for has come since: to look for the next message is to fetch a
    /// line that its sender has just written, which the call need not wait for.
    fn has_enough(&self) -> bool;
    /// Does what messages ask for that were told of.
    fn settle(&mut self) -> Outcome;
    /// Ends what concerns a rank that cannot be reached any more, and the call if the program wants
    /// to end then.
    fn handle_loss(&mut self, lost: Lost) -> Outcome;
    /// Messages that wait for `peer` are to name the keys that [`Transports::place_of`] tells.
    fn handle_keys(&mut self, peer: u32);
    /// Puts a message behind those that wait for `peer`, and sends what can be sent.
    fn queue(&mut self, peer: u32, message: Message) -> Outcome;
    /// Sends what waits for room, as far as there is any. True if something has gone.
    fn unstall(&mut self) -> Outcome<bool>;
    /// Sends what waits for `peer`: not behind the next long message.
    fn press(&mut self, peer: u32) -> Outcome;
}

impl Transports {
    /// Looks at what is in use, and at one of the others in turn. True if something happened.
    #[inline(always)]
    pub fn progress<O: Owner>(owner: &mut O) -> Outcome<bool> {
        let mut did = false;
        let mut place = 0;
        while let Some(from) = owner.transports().shm.polling.hot(place) {
            let shm = &mut owner.transports().shm;
            if shm.link(from).poll() {
                shm.polling.hit(place);
                drain(owner, from)?;
                did = true;
            }
            place += 1;
        }
        if let Some(from) = owner.transports().shm.next_in_turn() {
            did |= look(owner, from)?;
        }
        let Self { shm, host, .. } = owner.transports();
        if let Some(host) = host
            && let Some(rank) = shm.newcomers.next(host)
        {
            shm.accept(host, rank)?;
            did = true;
        }
        if owner.transports().net.is_some() {
            did |= Self::look_at_device(owner)?;
        }
        Ok(did)
    }

    /// Looks at all others: before the core is given away. True if something came.
    pub fn progress_others<O: Owner>(owner: &mut O) -> Outcome<bool> {
        let mut did = false;
        for place in 0..owner.transports().shm.order.len() {
            let from = owner.transports().shm.order[place];
            did |= look(owner, from)?;
        }
        Ok(did)
    }

    /// Looks at the devices. True if something happened.
    pub fn look_at_device<O: Owner>(owner: &mut O) -> Outcome<bool> {
        let net = owner.transports().net.as_mut();
        let Some(net) = net.filter(|net| !net.needs_care()) else {
            return Self::look_at_devices(owner);
        };
        net.look_anew();
        let round = look_at_one(owner)?;
        look_after(owner, round)
    }

    /// Looks at several devices, or at those that have something to say by themselves, or at none
    /// if the only one has failed.
    #[cold]
    #[inline(never)]
    fn look_at_devices<O: Owner>(owner: &mut O) -> Outcome<bool> {
        let net = &owner.transports().net;
        if net.as_ref().is_none_or(|net| net.is_dead()) {
            return Ok(false);
        }
        match wants_attention() {
            true => look_and_hear(owner),
            false => Self::look_at_all(owner),
        }
    }

    fn look_at_all<O: Owner>(owner: &mut O) -> Outcome<bool> {
        let Some(net) = &mut owner.transports().net else {
            return Ok(false);
        };
        net.look_anew();
        let (count, all) = (net.rails(), net.looks_at_all());
        let mut round = Round::default();
        let mut outcome = Ok(());
        for at in 0..count {
            let net = owner.transports().net.as_mut();
            if net.is_some_and(|net| net.take_in_hand(at, all)) {
                let looked = look_at_one(owner).map(|one| round.add(one));
                if let Some(net) = &mut owner.transports().net {
                    net.put_back(at);
                }
                outcome = outcome.and(looked);
            }
        }
        outcome?;
        look_after(owner, round)
    }

    /// Gives up peers that cannot be reached any more, and tells of messages that are over without
    /// a completion. `ends`: the round does.
    #[inline]
    pub fn hear<O: Owner>(owner: &mut O, ends: bool) -> Outcome {
        match owner.transports().has_news() {
            true => hear_news(owner, ends),
            false => Ok(()),
        }
    }

    /// Posts more of the long messages to and from `peer`, and has it told of those that are
    /// written.
    pub fn carry<O: Owner>(owner: &mut O, peer: u32) -> Outcome {
        loop {
            let Self { net, host, .. } = owner.transports();
            let (Some(net), Some(host)) = (net, host) else {
                return Ok(());
            };
            let Some(written) = net.move_on(host, peer)? else {
                return Ok(());
            };
            let fin = Fin::of(written.receive, written.length, MPI_SUCCESS);
            let mut message = Message::answer(Kind::Fin, fin.as_bytes());
            (message.head.flags, message.token) = (written.flags, written.token);
            owner.queue(peer, message)?;
            let Some(net) = &mut owner.transports().net else {
                return Ok(());
            };
            if net.presses(peer, written.length) {
                let pressed = owner.press(peer);
                if let Some(net) = &mut owner.transports().net {
                    net.has_pressed();
                }
                pressed?;
            }
        }
    }
}

/// Looks at devices that have something to say by themselves: behind their completions, which say
/// more of a failure than that does.
fn look_and_hear<O: Owner>(owner: &mut O) -> Outcome<bool> {
    heed_attention();
    let mut outcome = Ok(true);
    for _ in 0..LOOKS {
        outcome = Transports::look_at_all(owner);
        if !matches!(outcome, Ok(true)) {
            break;
        }
    }
    let heard = owner.transports().look_about();
    if heard.is_err() {
        // What is left is heard by the next look.
        call_attention();
    }
    outcome.and(heard)?;
    Transports::hear(owner, true)?;
    Ok(true)
}

/// Looks at the device in hand, and takes what has come by it.
#[inline(always)]
fn look_at_one<O: Owner>(owner: &mut O) -> Outcome<Round> {
    let net = owner.transports().net.as_ref();
    if net.is_some_and(|net| net.has_parked()) {
        take_parked(owner)?;
    }
    let Some(net) = &mut owner.transports().net else {
        return Ok(Round::default());
    };
    let round = net.look()?;
    if round.count != 0 {
        take_completions(owner)?;
    }
    Ok(round)
}

/// What a look at devices has to do beside completions.
#[inline(always)]
fn look_after<O: Owner>(owner: &mut O, round: Round) -> Outcome<bool> {
    carry_all(owner)?;
    let Transports { net, host, .. } = owner.transports();
    let (Some(net), Some(host)) = (net, host) else {
        return Ok(false);
    };
    let mut did = net.look_after(round, host)?;
    if net.has_blocks() {
        did |= poll_blocks(owner)?;
    }
    Transports::hear(owner, true)?;
    Ok(round.count != 0 || did)
}

/// A channel that is not looked at in each round. True if something came.
fn look<O: Owner>(owner: &mut O, from: u32) -> Outcome<bool> {
    let Transports { shm, host, .. } = owner.transports();
    let link = shm.link(from);
    if link.is_ready() {
        shm.polling.warm(from);
        drain(owner, from)?;
        return Ok(true);
    }
    if link.relieve()
        && let Some(host) = host
    {
        host.ring(from);
    }
    Ok(false)
}

/// Takes what lies in the channel from rank `from`, in order; no more once what the caller waits
/// for is over.
#[inline]
fn drain<O: Owner>(owner: &mut O, from: u32) -> Outcome {
    let mut left = BATCH;
    loop {
        let (Transports { shm, host, .. }, told) = owner.lend();
        let link: Option<&mut Link> = shm.links.get_mut(from as usize);
        let (Some(host), Some(link)) = (host, link) else {
            return Ok(());
        };
        let ran = link.run(host, from, &mut left, told);
        let settled = owner.settle();
        if ran? != Ran::Stopped || owner.has_enough() {
            return settled;
        }
        settled?;
    }
}

/// Takes all completions that there are, and does what they ask for. One that fails does not lose
/// the others.
fn take_completions<O: Owner>(owner: &mut O) -> Outcome {
    let mut outcome = Ok(());
    loop {
        let (Transports { net, host, .. }, told) = owner.lend();
        let (Some(net), Some(host)) = (net, host) else {
            return outcome;
        };
        let taken = net.take(host, told);
        let has_more = net.has_more();
        outcome = outcome.and(taken).and(settle_told(owner));
        if !has_more {
            break;
        }
    }
    let net = &mut owner.transports().net;
    if net.as_mut().is_some_and(|net| net.has_taken()) {
        outcome = outcome.and(owner.unstall().map(drop));
    }
    if let Some(net) = &mut owner.transports().net {
        outcome = outcome.and(net.give_back());
    }
    outcome
}

/// Takes messages for which there was no memory.
#[cold]
fn take_parked<O: Owner>(owner: &mut O) -> Outcome {
    loop {
        let (Transports { net, host, .. }, told) = owner.lend();
        let (Some(net), Some(host)) = (net, host) else {
            return Ok(());
        };
        let stopped = net.take_parked(host, told);
        let settled = settle_told(owner);
        if !stopped? {
            return settled;
        }
        settled?;
    }
}

/// Takes records from the blocks that peers write to. True if something came.
fn poll_blocks<O: Owner>(owner: &mut O) -> Outcome<bool> {
    let mut did = false;
    loop {
        let (Transports { net, host, .. }, told) = owner.lend();
        let (Some(net), Some(host)) = (net, host) else {
            return Ok(did);
        };
        let polled = net.poll_blocks(host, told);
        let settled = settle_told(owner);
        let polled = polled?;
        did |= polled.did;
        settled?;
        if !polled.stopped {
            return Ok(did);
        }
    }
}

/// Does what the device's messages ask for, once peers that it has lost are given up.
#[inline]
fn settle_told<O: Owner>(owner: &mut O) -> Outcome {
    let heard = Transports::hear(owner, false);
    heard.and(owner.settle())
}

#[cold]
fn hear_news<O: Owner>(owner: &mut O, ends: bool) -> Outcome {
    let mut outcome = Ok(());
    while let Some(told) = owner.transports().take_news(ends)? {
        match told {
            Told::Lost(lost) => outcome = outcome.and(owner.handle_loss(lost)),
            Told::Ended(ended) => {
                owner.told().done(ended.peer, ended.token, ended.done);
            }
            Told::Keys(peer) => owner.handle_keys(peer),
        }
    }
    match ends {
        true => outcome.and(owner.settle()),
        false => outcome,
    }
}

/// Posts more of all long messages.
fn carry_all<O: Owner>(owner: &mut O) -> Outcome {
    let movers = |owner: &mut O| {
        owner
            .transports()
            .net
            .as_ref()
            .map_or(0, |net| net.movers())
    };
    for at in (0..movers(owner)).rev() {
        let net = &owner.transports().net;
        if let Some(peer) = net.as_ref().and_then(|net| net.mover(at)) {
            Transports::carry(owner, peer)?;
        }
    }
    Ok(())
}
