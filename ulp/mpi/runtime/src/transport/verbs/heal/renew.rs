//! Keys of the program's memory: which ones peers know, and what becomes of them when a connection
//! goes on by another adapter, or by one that was opened anew (docs/design/heal.md, section 4,
//! RENEW).
//!
//! Owns: generations of keys, both sides' void keys, the messages that name keys anew. All that a
//! peer was told is void from [`Net::move_keys`] on; what it needs still it is told by RENEW when
//! the connection is there again, before anything else. Must not know: how bytes move.

use super::super::keys::{Kept, Known, Offer};
use super::super::memory::{Reachable, Refusal};
use super::super::moves::{Direction, Transfer};
use super::super::news::News;
use super::super::rail::Rail;
use super::super::{Net, Reached};
use crate::constants::MPI_ERR_BUFFER;
use crate::errors::{Outcome, broken};
use crate::ground::memory::Source;
use crate::handle::Token;
use crate::transport::contract::{Head, Place};
use ferriband_heal::{AdapterId, Number};
use ferriband_ibv::{Access, VerbsError};
use ferriband_mpi_proto::envelope::{Kind, Renew};
use ferriband_mpi_proto::resume::{Doubt, Keys, Moving, Under};
use ferriband_registration::{Purpose, Reach};
use std::collections::HashMap;
use zerocopy::IntoBytes;

/// Messages of a peer whose receive is not known yet and whose key it has named anew, at most.
const MOST_RENEWED: usize = 1 << 16;
/// The bound of void keys is forgotten when so many messages have come behind it.
const FAR: u32 = 1 << 30;

/// What both sides of a connection have told of keys.
#[derive(Default)]
pub struct KeysTold {
    /// The generation of own keys, and the last number that was given before it.
    pub(super) generation: u16,
    pub(super) before: u32,
    /// Which keys of the peer's are void.
    pub(super) void: Keys,
    /// Keys that the peer has named anew, of messages that have not met their receives, by their
    /// names; or the class with which such a message ends.
    renewed: HashMap<u64, Result<Place, i32>>,
    /// Whether memory of the runtimes' own is at fault, and the last acknowledged message when that
    /// was asked.
    doubt: (Doubt, u32),
}

impl KeysTold {
    /// The generation of own keys.
    pub(in super::super) fn generation(&self) -> u16 {
        self.generation
    }

    /// Whether what is doubted was so before, between the same openings of both adapters.
    pub(in super::super) fn prove(&self, doubt: &mut Doubt) -> bool {
        doubt.is_proven(self.generation, &self.void)
    }

    /// Whether memory of the runtimes' own is at fault, of which an adapter says so behind the
    /// message `acknowledged`: then nothing has come through since it last did.
    pub(in super::super) fn prove_own(&mut self, acknowledged: u32) -> bool {
        let (mut doubt, before) = self.doubt;
        let is_proven = self.prove(&mut doubt);
        self.doubt = (doubt, acknowledged);
        is_proven && before == acknowledged
    }
}

impl Net {
    /// The program's memory, as the adapter of the connection to `peer` knows it.
    pub(in super::super) fn reach_of(&mut self, peer: u32) -> &mut Reach {
        let rail = self.rail_of(peer);
        let at = (rail.id, rail.opening);
        self.link(peer).wire.keyed_on.get_or_insert(at);
        &mut self.rail_of(peer).reach
    }

    /// `peer` may reach a range, as soon as it is told so.
    pub(in super::super) fn keep_offer(
        &mut self,
        peer: u32,
        token: Token,
        range: Reachable,
        what: Kept,
    ) {
        let keys = self.link(peer).long.told.generation;
        let offer = Offer {
            peer,
            range,
            what,
            keys,
            told: None,
            class: 0,
        };
        self.moves.offers.insert(token, offer);
    }

    /// What names memory of this side's has gone to `peer` as message `seq`; the peer calls it
    /// `name`.
    pub fn has_told_key(&mut self, token: Token, name: u64, seq: u32) {
        if let Some(offer) = self.moves.offers.get_mut(&token) {
            offer.told = Some((name, seq));
        }
    }

    /// Where the memory lies that `token` names, as the peer is to be told.
    pub fn place_of(&self, token: Token) -> Option<Place> {
        let offer = self.moves.offers.get(&token)?;
        Some(Place {
            address: offer.range.address(),
            rkey: offer.range.rkey(),
        })
    }

    /// The next queue pair to `peer` is made on this adapter. Where keys are of another one, or of
    /// another opening of it, all memory that is under way is made known to this one, and all that
    /// the peer knows of keys is void.
    ///
    /// # Errors
    /// An errno of the adapter's: then it is to be tried again.
    pub(in super::super) fn move_keys(&mut self, peer: u32, adapter: AdapterId) -> Result<(), u32> {
        const ENODEV: u32 = libc::ENODEV.unsigned_abs();
        let opening = self.rail(adapter).ok_or(ENODEV)?.opening;
        let to = Some((adapter, opening));
        let wire = &mut self.link(peer).wire;
        let before = wire.keyed_on;
        if before == to {
            wire.on = Some(adapter);
            if self.link(peer).long.given_up.voids_keys() {
                self.count_keys_on(peer);
            }
            return Ok(());
        }
        if before.is_some()
            && let Err(error) = self.register_anew(peer, adapter)
        {
            // Some of it may be known to this one now: of no opening, so all is done again.
            self.link(peer).wire.keyed_on = Some((adapter, 0));
            return Err(self.no_queue_pair(peer, &error));
        }
        let link = self.link(peer);
        (link.wire.on, link.wire.keyed_on) = (Some(adapter), to);
        if before.is_some() {
            self.count_keys_on(peer);
        }
        Ok(())
    }

    /// All that `peer` knows of keys is void from here on, as the word of the next life says.
    fn count_keys_on(&mut self, peer: u32) {
        let link = self.link(peer);
        link.long.given_up.has_voided_keys();
        let told = &mut link.long.told;
        told.generation = told.generation.wrapping_add(1);
        told.before = link.sent;
        let generation = told.generation;
        let session = &mut link.wire.session;
        session.handle_keys(generation, Number(link.sent));
        for offer in self.moves.offers.values_mut() {
            if offer.peer == peer && offer.told.is_none() {
                offer.keys = generation;
            }
        }
        // What waits to be sent names keys of before.
        self.life.news.push(News::Keys(peer));
    }

    /// All memory of messages to and from `peer` is made known to another adapter.
    fn register_anew(&mut self, peer: u32, adapter: AdapterId) -> Result<(), VerbsError> {
        let purpose = self.purpose_of(peer);
        let mut failed = Vec::new();
        let Self { rail, rails, .. } = self;
        let mut all = std::iter::once(rail).chain(&mut rails.others);
        let Some(rail) = all.find(|rail| rail.id == adapter) else {
            return Ok(());
        };
        for (index, place) in (0..).zip(&mut self.moves.transfers) {
            let Some(one) = place.as_mut().filter(|one| one.peer == peer) else {
                continue;
            };
            let (range, access) = match &mut one.direction {
                Direction::Read(range) => (range, Kept::Sink.access()),
                Direction::Write(range) | Direction::Lane(Ok(range)) => {
                    (range, Kept::Source.access())
                }
                Direction::Lane(Err(_)) => continue,
            };
            match anew(rail, range, access, Purpose::Own) {
                Ok(made) => *range = made,
                Err(Refusal::Unreachable) => failed.push(index),
                Err(Refusal::Device(error)) => return Err(error),
            }
        }
        for offer in self.moves.offers.values_mut() {
            // What ends is memory of the program's no more.
            if offer.peer != peer || offer.class != 0 {
                continue;
            }
            let purpose = match offer.what {
                Kept::Landing => Purpose::Own,
                Kept::Source | Kept::Sink => purpose,
            };
            match anew(rail, &offer.range, offer.what.access(), purpose) {
                Ok(made) => offer.range = made,
                // Its peer is told so.
                Err(Refusal::Unreachable) => offer.class = MPI_ERR_BUFFER,
                Err(Refusal::Device(error)) => return Err(error),
            }
        }
        for index in failed {
            let ended = self.end_moving(index, MPI_ERR_BUFFER).map(News::Ended);
            self.life.news.extend(ended);
        }
        Ok(())
    }

    fn purpose_of(&self, peer: u32) -> Purpose {
        match self.connect.reached[peer as usize] == Reached::Far {
            true => Purpose::Stranger,
            false => Purpose::Neighbor,
        }
    }

    /// Memory that `peer` was told of, with what a replay must know of it.
    pub(super) fn offered(&self, peer: u32) -> (Vec<Token>, Vec<Under>) {
        let offers = self.moves.offers.iter();
        let told = offers.filter_map(|(token, offer)| {
            let has_word = offer.what != Kept::Landing || offer.class != 0;
            let is_known = offer.peer == peer && has_word;
            let (_, seq) = offer.told.filter(|_| is_known)?;
            Some((*token, offer.keys, seq))
        });
        let mut all: Vec<_> = told.collect();
        // In the order in which they were told.
        all.sort_by_key(|(_, _, seq)| seq.wrapping_sub(self.acknowledged_by(peer)));
        let under = (0..).zip(&all).map(|(at, (_, keys, seq))| Under {
            transfer: at,
            kind: Moving::Offered,
            done: 0,
            fin: None,
            lane: 0,
            told: Number(*seq),
            keys: *keys,
        });
        let under = under.collect();
        (all.into_iter().map(|(token, ..)| token).collect(), under)
    }

    fn acknowledged_by(&self, peer: u32) -> u32 {
        let link = self.links[peer as usize].as_deref();
        link.map_or(0, |link| link.acks.log.acknowledged())
    }

    /// Tells `peer` the key that the memory of `token` has now. False if there is no room.
    pub(super) fn renew(&mut self, peer: u32, token: Token) -> Outcome<bool> {
        let Some(offer) = self.moves.offers.get(&token) else {
            // The message is over.
            return Ok(true);
        };
        let Some((name, _)) = offer.told else {
            return Ok(true);
        };
        let renew = Renew {
            token: name.into(),
            address: offer.range.address().into(),
            rkey: offer.range.rkey().into(),
            class: offer.class.cast_unsigned().into(),
            what: match offer.what {
                Kept::Source => Renew::SOURCE,
                Kept::Sink => Renew::SINK,
                Kept::Landing => Renew::LANDING,
            }
            .into(),
            zero: 0.into(),
        };
        let head = Head::of(Kind::Renew);
        let sent = self.post_now(peer, &head, renew.as_bytes(), Source::EMPTY)?;
        Ok(sent.is_some())
    }

    /// `peer` names a key anew.
    #[cold]
    pub(in super::super) fn take_renew(&mut self, peer: u32, renew: &Renew) -> Outcome {
        let (name, what) = (renew.token.get(), renew.what.get());
        let class = renew.class.get().cast_signed();
        let place = Place {
            address: renew.address.get(),
            rkey: renew.rkey.get(),
        };
        let is_it = |one: &Transfer| {
            let kind = match one.direction {
                Direction::Read(_) => Renew::SOURCE,
                Direction::Write(_) => Renew::SINK,
                Direction::Lane(_) => Renew::LANDING,
            };
            // What moves already has a key: its requests are under way.
            let waits = one.awaits_key || what == Renew::LANDING;
            waits && (one.peer, one.name, kind) == (peer, name, what)
        };
        let mut all = (0..).zip(&self.moves.transfers);
        let found = all.find_map(|(at, one)| one.as_ref().is_some_and(is_it).then_some(at));
        let Some(index) = found else {
            let renewed = &mut self.link(peer).long.told.renewed;
            if renewed.len() == MOST_RENEWED {
                return Err(broken(peer));
            }
            if what == Renew::SOURCE {
                let told = if class == 0 { Ok(place) } else { Err(class) };
                renewed.insert(name, told);
            }
            return Ok(());
        };
        if class != 0 {
            let ended = self.end_moving(index, class).map(News::Ended);
            self.life.news.extend(ended);
        } else if what != Renew::LANDING
            && let Some(one) = &mut self.moves.transfers[index as usize]
        {
            (one.remote, one.awaits_key) = (place, false);
        }
        Ok(())
    }

    /// What a key is that message `told` of `peer` has named for the message that it calls `name`.
    pub(in super::super) fn known_key(
        &mut self,
        peer: u32,
        name: u64,
        told: u32,
        place: Place,
    ) -> Known {
        self.forget_far_bound(peer);
        let all = &mut self.link(peer).long.told;
        let renewed = all.renewed.remove(&name);
        // Only what was told before is named anew: a name comes again.
        if !all.void.are_void(Number(told)) {
            return Known::Good(place);
        }
        match renewed {
            Some(Ok(place)) => Known::Good(place),
            Some(Err(class)) => Known::Over(class),
            None => Known::Void,
        }
    }

    /// What both have told at a heal is known. Keys of before, of messages that the peer has named
    /// anew, mean nothing any more.
    pub(super) fn has_learnt_keys(&mut self, peer: u32, are_others: bool) {
        match are_others {
            true => self.link(peer).long.told.renewed.clear(),
            false => self.forget_far_bound(peer),
        }
    }

    /// Numbers wrap: a bound that lies far behind would come to lie ahead.
    fn forget_far_bound(&mut self, peer: u32) {
        let link = self.link(peer);
        let received = link.received;
        let void = &mut link.long.told.void;
        if !void.are_void(Number(received.wrapping_sub(FAR))) {
            void.taken(Number(received));
        }
    }
}

/// A range as another adapter knows it.
fn anew(
    rail: &mut Rail,
    range: &Reachable,
    access: Access,
    purpose: Purpose,
) -> Result<Reachable, Refusal> {
    let (address, length) = (range.address(), range.length() as usize);
    rail.reach.range(address, length, access, purpose)
}
