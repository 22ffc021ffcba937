//! How channels of the fast path rest while their receiver sleeps, and wake.
//!
//! Before a rank sleeps it asks its senders to pause ([`ferriband_mpi_proto::fast::Lull`]): a WRITE
//! wakes nobody.

use super::channel::phase;
use crate::errors::{Outcome, broken};
use crate::runtime::Runtime;
use ferriband_mpi_proto::envelope::{Kind, Phase};
use zerocopy::IntoBytes;

impl Runtime {
    /// Before this process sleeps: asks each sender that may be writing to stop. Whether all have.
    pub(super) fn quieten(&mut self) -> Outcome<bool> {
        let mut all = true;
        for index in 0..self.net.as_ref().map_or(0, |net| net.blocks.inlets.len()) {
            let Some(net) = &mut self.net else {
                break;
            };
            let closing = net.life.closing;
            let Some(from) = net.inlet(index as u32).map(|inlet| inlet.from) else {
                continue;
            };
            let link = net.link(from);
            if link.wire.lost.is_some() || link.fast.lull.is_quiet() {
                continue;
            }
            if self.is_over(from) {
                // It has left: it writes no more, and nobody answers.
                continue;
            }
            let Some(net) = &mut self.net else {
                break;
            };
            let link = net.link(from);
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
            net.stats.pauses += 1;
            self.answer(from, Kind::Pause, phase(epoch, writes.into()).as_bytes())?;
        }
        Ok(all)
    }

    /// `peer` goes to sleep.
    pub fn take_pause(&mut self, peer: u32, pause: &Phase) -> Outcome {
        if pause.own.get() != 0 {
            self.drain_before(peer)?;
        }
        let Some(net) = &mut self.net else {
            return Err(broken(peer));
        };
        let link = net.link(peer);
        link.fast.gate.pause(pause.epoch.get());
        if pause.own.get() != 0 {
            link.fast.lull.promised();
        }
        self.answer(peer, Kind::Paused, phase(pause.epoch.get(), 0).as_bytes())
    }

    /// `peer` has stopped writing.
    pub fn take_paused(&mut self, peer: u32, paused: &Phase) -> Outcome {
        self.drain_before(peer)?;
        let Some(net) = &mut self.net else {
            return Err(broken(peer));
        };
        net.link(peer).fast.lull.answered(paused.epoch.get());
        Ok(())
    }

    /// `peer` is awake again.
    pub fn take_resume(&mut self, peer: u32, resume: &Phase) -> Outcome {
        let Some(net) = &mut self.net else {
            return Err(broken(peer));
        };
        net.link(peer)
            .fast
            .gate
            .resume(resume.epoch.get(), resume.own.get());
        Ok(())
    }

    /// A message of `peer` has come by SEND.
    #[inline]
    pub(super) fn count_arrival(&mut self, peer: u32) -> Outcome {
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        let link = net.link(peer);
        if link.fast.inlet.is_none() {
            return Ok(());
        }
        match link.fast.lull.message() {
            Some((epoch, owns)) => self.answer(peer, Kind::Resume, phase(epoch, owns).as_bytes()),
            None => Ok(()),
        }
    }
}
