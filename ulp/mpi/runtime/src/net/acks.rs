//! Message-level acknowledgements: what was sent by verbs is kept until the peer's runtime says that it has taken it.
//!
//! The number of the last message taken rides on every envelope and on every return of credit; after many messages or bytes it goes alone, in the return word where
//! there is a channel, else in a NOTE. A return word wakes nobody: a rank whose messages wait for room in the log does not sleep for long.

use super::Net;
use super::channel::State;
use crate::errors::Outcome;
use crate::host::Source;
use crate::runtime::Runtime;
use ferriband_mpi_proto::envelope::{ENVELOPE, Kind};
use std::sync::atomic::Ordering;

impl Net {
    /// Whether a message to `peer` can be kept; `sent` is the number of the last one.
    #[inline]
    pub(super) fn has_log_room(&mut self, peer: u32, length: usize, sent: u32) -> bool {
        if self.link(peer).log.has_room(length) {
            return true;
        }
        self.has_log_room_now(peer, length, sent)
    }

    #[cold]
    fn has_log_room_now(&mut self, peer: u32, length: usize, sent: u32) -> bool {
        let word = self.returns.word(peer * 8).load(Ordering::Acquire);
        let link = self.link(peer);
        link.log.acknowledge((word >> 32) as u32, sent);
        let has_room = link.log.has_room(length);
        let is_news = !has_room && !link.is_log_full;
        link.is_log_full = !has_room;
        self.stats.log_full += u64::from(is_news);
        has_room
    }

    /// Keeps a message that has gone: its bytes are copied while it is on its way.
    #[inline]
    pub(super) fn keep(
        &mut self,
        peer: u32,
        seq: u32,
        head: &[u8; ENVELOPE],
        body: &[u8],
        source: Source,
    ) {
        let log = &mut self.link(peer).log;
        log.keep(seq, [head, body], source.len(), |rest| {
            source.copy_into(rest);
        });
    }

    /// Whether records to `peer` lie in a mirror.
    #[inline]
    pub(super) fn is_mirrored(&mut self, peer: u32) -> bool {
        match &self.link(peer).out.state {
            State::Open(Some(open)) => open.mirror.is_some(),
            _ => false,
        }
    }

    /// An envelope has gone, or not.
    #[inline]
    pub(super) fn told(&mut self, peer: u32, has_gone: bool) {
        if has_gone {
            self.link(peer).owed.told();
        }
    }

    /// `peer` has taken all up to `ack`.
    #[inline]
    pub(super) fn acknowledge(&mut self, peer: u32, ack: u32, sent: u32) {
        let link = self.link(peer);
        if link.log.acknowledge(ack, sent) {
            link.is_log_full = false;
        }
    }

    /// `peer` is to be told what has been taken, unless what the program sends to it does so first; or there was no room to.
    #[inline]
    pub(super) fn owe(&mut self, peer: u32) {
        if !self.owing.contains(&peer) {
            self.owing.push(peer);
        }
    }

    /// Whether a message waits for an acknowledgement, which may come without waking anybody.
    pub(super) fn waits_for_acks(&self) -> bool {
        self.links.iter().flatten().any(|link| link.is_log_full)
    }
}

impl Runtime {
    /// A message of `length` bytes has been taken from `peer`: whether it must be told so now.
    #[inline]
    pub(super) fn owes(&mut self, peer: u32, length: u32) -> bool {
        match &mut self.net {
            Some(net) if self.settings.acks => net.link(peer).owed.take(length),
            _ => false,
        }
    }

    /// Tells `peer` what has been taken: by the return word of its channel, or by a message that does not wait behind others, which may themselves wait for
    /// an acknowledgement.
    pub(super) fn tell_taken(&mut self, peer: u32) -> Outcome {
        let ack = self.peers[peer as usize].received;
        let is_over = self.is_over(peer);
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        let link = net.link(peer);
        if is_over || link.lost.is_some() {
            // Who has left needs to know nothing.
            link.owed.told();
            return Ok(());
        }
        if let Some(index) = link.inlet {
            link.owed.told();
            return net.return_credit(index, ack);
        }
        let has_gone = self.post(peer, Kind::Note, 0, 0, 0, &[], Source::EMPTY)?;
        if let (false, Some(net)) = (has_gone, &mut self.net) {
            net.owe(peer);
        }
        Ok(())
    }

    /// Tells those whom there was no room to tell.
    #[cold]
    pub(super) fn pay(&mut self) -> Outcome {
        let owing = match &mut self.net {
            Some(net) => std::mem::take(&mut net.owing),
            None => return Ok(()),
        };
        for peer in owing {
            let is_due = self.net.as_mut().is_some_and(|net| {
                net.link(peer).owed.is_due()
                    || net.inlet_of(peer).is_some_and(|inlet| inlet.is_due())
            });
            if is_due {
                self.tell_taken(peer)?;
            }
        }
        Ok(())
    }
}
