//! A batch of packets: which queue pairs they reached, and what these say when it is at its end.
//!
//! Owns what a round knows of queue pairs. Must not know what a packet means, nor by which wire it
//! came.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use ferriband_wire::RunIcrc;

use crate::objects::catch::Catch;
use crate::wire::to::{Deliver, Queue, To};

/// Queue pairs whose answers wait for the end of a round.
const TOUCHED: usize = 16;

/// What came; what became of it is counted with the port.
#[derive(Debug, Default)]
pub(crate) struct RxCounters {
    /// Packets that were ever taken from the sockets.
    pub packets: AtomicU64,
}

pub(in crate::wire) fn count(counter: &AtomicU64, by: u64) {
    // one thread at a time counts, under the lock of the round
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

/// What a round knows of queue pairs.
pub(in crate::wire) struct Batch<D: Deliver> {
    /// Where the last packet went, with the version of the table in which it was found.
    pub(in crate::wire) last: Option<(u64, Arc<D::Queue>)>,
    pub(in crate::wire) touched: ArrayVec<Arc<D::Queue>, TOUCHED>,
    /// Queue pairs that keep an acknowledgement back.
    owing: ArrayVec<Arc<D::Queue>, TOUCHED>,
    pub(in crate::wire) icrc: RunIcrc,
    /// The IPv4 identification that the next datagram probably has.
    pub(in crate::wire) likely: u16,
    /// What is looked at came by a sender's own socket; and something of it was another process's.
    pub(in crate::wire) by_flow: bool,
    pub(in crate::wire) foreign: bool,
}

impl<D: Deliver> Batch<D> {
    pub(in crate::wire) fn new() -> Self {
        Batch {
            last: None,
            touched: ArrayVec::new(),
            owing: ArrayVec::new(),
            icrc: RunIcrc::default(),
            likely: 0,
            by_flow: false,
            foreign: false,
        }
    }

    /// The queue pair of a device of this kind that takes the packets for a number; found once for
    /// a run.
    pub(in crate::wire) fn find(
        &mut self,
        to: To<'_, D>,
        qpn: u32,
        ethernet: bool,
    ) -> Option<&Arc<D::Queue>> {
        let right = |qp: &D::Queue| qp.device().is_ethernet() == ethernet;
        if !matches!(&self.last, Some((_, qp)) if qp.number() == qpn && right(qp)) {
            let version = to.adapter.version();
            let found = to.adapter.queue_of_packets(qpn).filter(|qp| right(qp));
            self.last = found.map(|qp| (version, qp));
        }
        self.last.as_ref().map(|(_, qp)| qp)
    }

    /// A packet has reached a queue pair: its answers and completions come at the end of the batch.
    pub(in crate::wire) fn touch(
        &mut self,
        to: To<'_, D>,
        qp: Arc<D::Queue>,
        catch: &mut Catch<'_>,
    ) {
        if !self.touched.iter().any(|other| Arc::ptr_eq(other, &qp)) {
            self.touch_first(to, qp, catch);
        }
    }

    /// As [`Batch::touch`], for the first packet of the batch that reaches it.
    #[inline]
    pub(in crate::wire) fn touch_first(
        &mut self,
        to: To<'_, D>,
        qp: Arc<D::Queue>,
        catch: &mut Catch<'_>,
    ) {
        if self.touched.is_full() {
            self.turn(to, catch);
        }
        self.touched.push(qp);
    }

    pub(in crate::wire) fn turn(&mut self, to: To<'_, D>, catch: &mut Catch<'_>) {
        turn(to, &mut self.touched, &mut self.owing, catch);
    }

    /// Nothing came: acknowledgements that no reply took along go now.
    pub(in crate::wire) fn idle(&mut self, to: To<'_, D>) {
        for qp in self.owing.drain(..) {
            qp.send_owed(to.adapter);
        }
    }
}

/// What a batch of packets brought is answered and told.
fn turn<D: Deliver>(
    to: To<'_, D>,
    touched: &mut ArrayVec<Arc<D::Queue>, TOUCHED>,
    owing: &mut ArrayVec<Arc<D::Queue>, TOUCHED>,
    catch: &mut Catch<'_>,
) {
    for qp in touched.drain(..) {
        if !qp.turn_packets(to.adapter, catch) || owing.iter().any(|other| Arc::ptr_eq(other, &qp))
        {
            continue;
        }
        if let Err(full) = owing.try_push(qp) {
            full.element().send_owed(to.adapter);
        }
    }
}
