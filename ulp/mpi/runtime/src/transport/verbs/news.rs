//! What whoever is told of messages hears beside them: who is lost, and what is over by an
//! acknowledgement, which comes wherever a message does.
//!
//! Owns: what is to be told, and that peers who have asked for an acknowledgement get it before a
//! round is over. Must not know: what becomes of it.

use super::Net;
use crate::errors::Outcome;
use crate::handle::Token;
use crate::transport::contract::{Done, Lost, Roster};

/// What has become of a long message.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// From whom, or to whom.
    pub peer: u32,
    /// What names it to this side.
    pub token: Token,
    /// What it has come to.
    pub done: Done,
}

/// What is to be told, or looked at first.
pub(super) enum News {
    /// A connection was lost.
    Lost(Lost),
    /// What a transfer awaits has come.
    Confirmed(u32),
    /// A long message is over.
    Ended(Ended),
    /// A peer waits for an acknowledgement.
    Asks(u32),
    /// Messages to a peer that wait name keys of before.
    Keys(u32),
}

/// What is told.
#[derive(Debug)]
pub enum Told {
    /// A connection was lost.
    Lost(Lost),
    /// A long message is over.
    Ended(Ended),
    /// Messages to a peer that wait to be sent name keys of before.
    Keys(u32),
}

impl Net {
    /// Whether there is something to be told, or to be answered.
    #[inline]
    pub fn has_news(&self) -> bool {
        !self.life.news.is_empty()
    }

    /// What is to be told next. `ends`: the round does, so peers who have asked are answered,
    /// unless what the round has sent has done so.
    #[cold]
    pub fn take_news<R: Roster>(&mut self, roster: &R, ends: bool) -> Outcome<Option<Told>> {
        let is_due = |news: &News| ends || !matches!(news, News::Asks(_));
        while let Some(at) = self.life.news.iter().position(is_due) {
            match self.life.news.remove(at) {
                News::Lost(lost) => return Ok(Some(Told::Lost(lost))),
                News::Ended(ended) => return Ok(Some(Told::Ended(ended))),
                News::Keys(peer) => return Ok(Some(Told::Keys(peer))),
                News::Confirmed(index) => {
                    if let Some(ended) = self.confirm(index) {
                        return Ok(Some(Told::Ended(ended)));
                    }
                }
                News::Asks(peer) => self.answer_asker(roster, peer)?,
            }
        }
        Ok(None)
    }
}
