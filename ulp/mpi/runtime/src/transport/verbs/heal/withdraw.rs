//! Messages that are given up while bytes of theirs may move: a call has failed, and the memory is
//! the program's again (docs/design/heal.md, section 4, "Given up").
//!
//! The life of the connection ends, if something of the message may be under way; behind the fence
//! nothing reads or writes its memory, and all others go on in the next life. Who owns memory that
//! the peer was told of names it to him as void, with the class with which the message ends: keys
//! are counted on, others are named anew. Owns: which messages are given up, and those that the
//! peer does not know of yet. Must not know: what a message says.

use super::super::Net;
use super::super::keys::Kept;
use super::super::moves::Direction;
use super::super::news::{Ended, News};
use crate::handle::Token;
use crate::transport::contract::Done;
use ferriband_heal::Cause;

/// Messages of one peer that are given up.
#[derive(Default)]
pub struct GivenUp {
    /// Those whose bytes may still move, and the classes with which they end.
    moving: Vec<(Token, i32)>,
    /// Those of which the peer is told, until it says that it knows.
    told: Vec<Token>,
    /// The peer knows keys that are to be void in the next life.
    voids_keys: bool,
}

impl GivenUp {
    /// Whether the peer is to be told of some.
    pub(in super::super) fn is_any(&self) -> bool {
        !self.told.is_empty()
    }

    /// Whether keys that the peer knows are to be void before the next life begins.
    pub(in super::super) fn voids_keys(&self) -> bool {
        self.voids_keys
    }

    /// They are, as the peer is about to be told.
    pub(super) fn has_voided_keys(&mut self) {
        self.voids_keys = false;
    }
}

impl Net {
    /// A call that waited for the message of `token`, from `peer` or to it, has failed: the message
    /// ends with this class. [`News::Ended`] says when nothing reads or writes its memory any more.
    /// False if the connection is not made anew.
    #[cold]
    pub fn give_up(&mut self, peer: u32, token: Token, class: i32) -> bool {
        if !self.heals(peer) {
            return false;
        }
        let given_up = &mut self.link(peer).long.given_up;
        if given_up.moving.iter().any(|(known, _)| *known == token) {
            return true;
        }
        given_up.moving.push((token, class));
        if self.link(peer).wire.id == 0 {
            // No queue pair is connected.
            self.end_given_up(peer);
        } else if self.link(peer).wire.has_life() {
            match self.may_move(peer, token) {
                true => self.end_life(peer, Cause::Withdrawn),
                false => self.end_given_up(peer),
            }
        }
        // Else a fence is about to end it.
        true
    }

    /// Whether requests under way, of this side or of the peer's, may be about the memory of a
    /// message.
    fn may_move(&self, peer: u32, token: Token) -> bool {
        let mut transfers = self.moves.transfers.iter().flatten();
        let own = transfers.find(|one| (one.peer, one.token) == (peer, token));
        let is_told = |what: Kept, is_told: bool| is_told || what == Kept::Landing;
        let offer = self.moves.offers.get(&token);
        own.is_some_and(|one| !one.course.is_still())
            || offer.is_some_and(|offer| is_told(offer.what, offer.told.is_some()))
    }

    /// Nothing moves by the last life of the connection to `peer` any more: what was given up is
    /// over.
    pub(super) fn end_given_up(&mut self, peer: u32) {
        let all = std::mem::take(&mut self.link(peer).long.given_up.moving);
        for (token, class) in all {
            let ended = match self.end_own(peer, token, class) {
                Some(ended) => ended,
                None => {
                    self.void_offer(peer, token, class);
                    let done = Done::Over { class };
                    Ended { peer, token, done }
                }
            };
            self.life.news.push(News::Ended(ended));
        }
    }

    /// What this side moves of a message ends. None if it moves nothing of it, or nothing but the
    /// class from here on.
    fn end_own(&mut self, peer: u32, token: Token, class: i32) -> Option<Ended> {
        let mut transfers = (0..).zip(&self.moves.transfers);
        let (index, is_by_lane) = transfers.find_map(|(index, one)| {
            let one = one
                .as_ref()
                .filter(|one| (one.peer, one.token) == (peer, token))?;
            Some((index, matches!(one.direction, Direction::Lane(_))))
        })?;
        let ended = self.end_moving(index, class);
        if is_by_lane && let Some(one) = &mut self.moves.transfers[index as usize] {
            // Its landing is used up; nobody asks here what becomes of that.
            one.token = Token::NONE;
        }
        ended
    }

    /// Memory that `peer` was told of, or that its message is to land in, is none any more.
    fn void_offer(&mut self, peer: u32, token: Token, class: i32) {
        let Some(offer) = self.moves.offers.get_mut(&token) else {
            return;
        };
        let (is_told, lands) = (offer.told.is_some(), offer.what == Kept::Landing);
        offer.class = class;
        let long = &mut self.link(peer).long;
        if lands {
            long.lane.throw_away(token);
        }
        if !is_told && !lands {
            self.moves.offers.remove(&token);
            return;
        }
        long.given_up.voids_keys |= is_told;
        long.given_up.told.push(token);
    }

    /// `peer` says that a message is over which it knows by this name.
    #[cold]
    pub(in super::super) fn has_heard_end(&mut self, peer: u32, name: u64) {
        self.forget_told(peer, |(known, _)| known == name);
    }

    /// `peer` has taken back message `seq`: it says nothing more of what that has told of.
    #[cold]
    pub fn has_taken_back(&mut self, peer: u32, seq: u32) {
        self.forget_told(peer, |(_, known)| known == seq);
    }

    fn forget_told(&mut self, peer: u32, is_it: impl Fn((u64, u32)) -> bool) {
        let Some(link) = self.links[peer as usize].as_deref_mut() else {
            return;
        };
        let offers = &mut self.moves.offers;
        link.long.given_up.told.retain(|token| {
            let told = offers.get(token).map(|offer| (offer.what, offer.told));
            let is_over = match told {
                // It has landed.
                None => true,
                // It is over when it has landed.
                Some((Kept::Landing, _)) => return true,
                Some((_, told)) => told.is_some_and(&is_it),
            };
            if is_over {
                offers.remove(token);
            }
            !is_over
        });
    }

    /// `peer` is lost: it is told nothing more.
    pub(in super::super) fn forget_given_up(&mut self, peer: u32) {
        let given_up = std::mem::take(&mut self.link(peer).long.given_up);
        for token in given_up.told {
            self.moves.offers.remove(&token);
        }
    }
}
