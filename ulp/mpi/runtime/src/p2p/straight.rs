//! Receives that wait for one rank of this host, of a process in which one thread calls: the message goes from the channel to the program, and no receive is posted for it.
//!
//! On a Zen 3 this spares a third of the time of 8 B one way (docs/bench-mpi.md). It is allowed where the next message of that rank is this receive's if it matches at all: nothing waits on either side of the matching but receives from other ranks, and nothing
//! else is under way that would have to go on meanwhile. Whatever is not so, or takes more than to look at channels, is left to the way that all receives can go.

use crate::constants::MPI_SUCCESS;
use crate::ground::status::{Status, status};
use crate::host::{Host, Sink, Words};
use crate::runtime::Runtime;
use ferriband_mpi_proto::envelope::Envelope;
use ferriband_mpi_proto::fast::Record;
use ferriband_mpi_proto::matching::Tag;

/// Looks at the channel before the usual way is taken.
const LOOKS: u32 = 512;
/// With each of so many looks the other channels are looked at, too.
const OTHERS: u32 = 4;

impl Runtime {
    /// Waits a while for a message of `source` and puts it into one run of bytes. None if it has not come by then, or if to take it is more than to copy it: then nothing has
    /// happened.
    #[inline(always)]
    pub fn receive_straight(
        &mut self,
        comm: u32,
        source: u32,
        tag: Tag,
        sink: Sink,
    ) -> Option<Status> {
        let entry = self.point.objects.comms.get_mut(comm)?;
        let context = entry.context;
        let world = entry.world_of(context, source)?;
        if !entry.point.is_still(source) {
            return None;
        }
        let index = self.point.peers.get(world as usize)?.inlet?;
        let is_busy = self.point.losses != 0
            || self.net.is_some()
            || !self.point.stalled.is_empty()
            || !self.offered.is_empty()
            || !self.executions.is_empty()
            || !self.flags.is_empty();
        // A sender that is always ahead must not keep this rank from all else.
        if is_busy || !self.polling.may_wait() {
            return None;
        }
        let mut looks = 0_u32;
        let record = loop {
            let inlet = &mut self.inlets.get_mut(index as usize)?.inlet;
            // What lies there may be the mark that the block goes on elsewhere.
            if inlet.poll()
                && let Some(record) = inlet.peek().ok()?
            {
                break record;
            }
            looks += 1;
            if looks.is_multiple_of(OTHERS)
                && (looks > self.settings.job.spins.min(LOOKS) || self.has_other(index))
            {
                return None;
            }
        };
        self.take_straight(index, &record, context, (source, tag), sink)
    }

    /// Whether there is something to do about other channels than this one.
    #[inline(always)]
    fn has_other(&mut self, inlet: u32) -> bool {
        let mut place = 0;
        while let Some(hot) = self.polling.hot(place) {
            if hot != inlet && self.inlets[hot as usize].inlet.is_ready() {
                return true;
            }
            place += 1;
        }
        let next = self.polling.next(self.inlets.len());
        if let Some(next) = next.filter(|next| *next != inlet) {
            let next = &self.inlets[next as usize].inlet;
            if next.is_ready() || next.owes_relief() {
                // The round that comes now serves it.
                self.polling.again(self.inlets.len());
                return true;
            }
        }
        self.host.as_ref().is_some_and(Host::has_newcomer)
    }

    /// Takes the next record of a channel, which has been looked at, for such a receive, if it is a message for it.
    #[inline(always)]
    fn take_straight(
        &mut self,
        index: u32,
        record: &Record<Words>,
        wanted: u64,
        (source, tag): (u32, Tag),
        sink: Sink,
    ) -> Option<Status> {
        let inbound = self.inlets.get_mut(index as usize)?;
        let (from, inlet) = (inbound.from, &mut inbound.inlet);
        let peer = self.point.peers.get_mut(from as usize)?;
        let [first, second, context] = record.envelope;
        let number = peer.received.wrapping_add(1);
        let is_placed = first == Envelope::placed(number);
        if first != Envelope::plain(number) && !is_placed || context != wanted {
            return None;
        }
        let (sent, credit) = Envelope::tag_and_credit(second);
        let (mut body, mut placed) = (inlet.payload(record), None);
        if is_placed {
            let (message, place) = peer.placed(&body)?;
            (body, placed) = (message, Some(place));
        }
        if !tag.takes(sent) || body.len() > sink.len() {
            return None;
        }
        body.copy_to(&sink);
        peer.received = number;
        if let Some(placed) = placed {
            peer.has_taken(placed);
        }
        let is_starved = inlet.consume(record, number);
        if let Some(outlet) = &mut peer.outlet {
            outlet.credit(credit);
        }
        if is_starved && let Some(host) = &self.host {
            host.ring(from);
        }
        self.polling.touch(index);
        Some(status(source, sent, MPI_SUCCESS, body.len() as u64))
    }
}
