//! How channels of the fast path rest while their receiver sleeps, and wake.
//!
//! Before a rank sleeps it asks its senders to pause ([`ferriband_mpi_proto::fast::Lull`]): a WRITE
//! wakes nobody.

use super::channel::phase;
use super::{Lent, Net};
use crate::errors::Outcome;
use crate::transport::contract::{Deliver, Roster};
use ferriband_mpi_proto::envelope::{Kind, Phase};
use zerocopy::IntoBytes;

impl Net {
    /// Before this process sleeps: asks each sender that may be writing to stop. Whether all have.
    pub fn quieten<R: Roster>(&mut self, roster: &R) -> Outcome<bool> {
        let mut all = true;
        let closing = self.life.closing;
        for index in 0..self.blocks.inbounds.len() as u32 {
            let Some(from) = self.inbound(index).map(|inbound| inbound.from) else {
                continue;
            };
            let link = self.link(from);
            if link.wire.lost.is_some() || link.fast.lull.is_quiet() {
                continue;
            }
            if roster.is_over(from) {
                // It has left: it writes no more, and nobody answers.
                continue;
            }
            all = false;
            if closing {
                // At the end nobody sleeps for long.
                continue;
            }
            let Some(epoch) = link.fast.lull.ask() else {
                continue;
            };
            let writes = link.fast.out.is_open() && link.fast.gate.is_open();
            if writes {
                link.fast.gate.promise();
            }
            self.stats.channels.pauses += 1;
            self.say(from, Kind::Pause, phase(epoch, writes.into()).as_bytes())?;
        }
        Ok(all)
    }

    /// `peer` goes to sleep.
    pub(super) fn take_pause<R: Roster, D: Deliver>(
        &mut self,
        peer: u32,
        pause: &Phase,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        if pause.own.get() != 0 {
            self.drain_before(peer, lent)?;
        }
        let link = self.link(peer);
        link.fast.gate.pause(pause.epoch.get());
        if pause.own.get() != 0 {
            link.fast.lull.promised();
        }
        self.say(peer, Kind::Paused, phase(pause.epoch.get(), 0).as_bytes())
    }

    /// `peer` has stopped writing.
    pub(super) fn take_paused<R: Roster, D: Deliver>(
        &mut self,
        peer: u32,
        paused: &Phase,
        lent: &mut Lent<'_, R, D>,
    ) -> Outcome {
        self.drain_before(peer, lent)?;
        self.link(peer).fast.lull.answered(paused.epoch.get());
        Ok(())
    }

    /// `peer` is awake again.
    pub(super) fn take_resume(&mut self, peer: u32, resume: &Phase) {
        self.link(peer)
            .fast
            .gate
            .resume(resume.epoch.get(), resume.own.get());
    }

    /// A message of `peer` has come by SEND.
    #[inline]
    pub(super) fn count_arrival(&mut self, peer: u32) -> Outcome {
        let link = self.link(peer);
        if link.fast.inbound.is_none() {
            return Ok(());
        }
        match link.fast.lull.message() {
            Some((epoch, owns)) => self.say(peer, Kind::Resume, phase(epoch, owns).as_bytes()),
            None => Ok(()),
        }
    }
}
