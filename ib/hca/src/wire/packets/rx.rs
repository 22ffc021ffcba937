//! Receiving: what came by either wire of packets, to queue pairs.
//!
//! Owns the lock's contents under which a process's packets are handled, which keeps each queue
//! pair's in order. Must not know what a packet means. Every byte comes from a stranger.

mod senders;

use ferriband_admin::Counter;
use ferriband_memory::host::HAND_OVER_HEAD;
use ferriband_memory::net::RxSocket;
use ferriband_wire::capture::Fate;

use super::arrived::Arrived;
use super::batch::Batch;
use super::ways::Ways;
use crate::objects::catch::Catch;
use crate::wire::native::fabric::Wire;
use crate::wire::native::meta::NativeMeta;
use crate::wire::native::port::LocalPort;
use crate::wire::roce::flows::Flows;
use crate::wire::roce::head::read_meta;
use crate::wire::roce::rx::{Hands, Pace, ROUND_DATAGRAMS};
use crate::wire::to::{Deliver, To};

/// The state of a round.
pub(crate) struct RxSide<D: Deliver> {
    pub(in crate::wire) hands: Hands<D>,
    /// Room for a message of the InfiniBand port, once one may come.
    room: Vec<u8>,
    /// Of the sockets of all senders.
    pub(in crate::wire) pace: Pace,
    pub(in crate::wire) flows: Flows,
}

impl<D: Deliver> std::fmt::Debug for RxSide<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RxSide")
    }
}

impl<D: Deliver> RxSide<D> {
    pub fn new() -> Self {
        RxSide {
            hands: Hands::new(),
            room: Vec::new(),
            pace: Pace::default(),
            flows: Flows::default(),
        }
    }

    /// Nothing came: acknowledgements that no reply took along go now.
    pub fn idle(&mut self, to: To<'_, D>) {
        self.hands.batch.idle(to);
    }

    /// Takes what has arrived at a socket of all senders. True if anything had.
    pub fn take(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        socket: &RxSocket,
        catch: &mut Catch<'_>,
    ) -> bool {
        let found = self.hands.take(to, roce, (socket, &mut self.pace), catch);
        if found && catch.somebody_polls() && self.note_sender() {
            self.open_flow(to, roce, socket);
        }
        found
    }

    /// Takes all that lies in a socket of all senders.
    pub fn drain(&mut self, to: To<'_, D>, roce: &Ways, socket: &RxSocket) {
        self.hands.drain(to, roce, (socket, &mut self.pace));
    }

    /// Takes what has come by the InfiniBand port. True if anything had.
    pub fn take_local(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        local: &LocalPort,
        catch: &mut Catch<'_>,
    ) -> bool {
        let RxSide { room, hands, .. } = self;
        let batch = &mut hands.batch;
        let mut worked = false;
        for _ in 0..ROUND_DATAGRAMS {
            let Some((length, from)) = local.receive(room) else {
                break;
            };
            worked = true;
            let (head, bytes) = room[..length].split_at(HAND_OVER_HEAD);
            match NativeMeta::read(head, from) {
                Some(meta) => {
                    batch.run(to, roce, &Arrived::Native(meta), bytes, true, catch);
                }
                None => roce.ports.counts.of(0).add(Counter::RcvErrors, 1),
            }
        }
        if worked {
            batch.turn(to, catch);
        }
        for news in local.fabric.iter().filter_map(Wire::news) {
            to.adapter.port_changed(news);
        }
        worked
    }

    /// Takes a run of packets that another process got and handed over.
    pub fn take_handed(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        head: &[u8],
        body: &[u8],
        catch: &mut Catch<'_>,
    ) {
        if let Some(meta) = read_meta(head) {
            // what is handed over once more might go round for ever
            let batch = &mut self.hands.batch;
            batch.run(to, roce, &Arrived::Roce(meta), body, false, catch);
            batch.turn(to, catch);
        }
    }

    /// Takes a packet that a fault had held back.
    pub fn take_held(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        came: &Arrived,
        packet: &[u8],
        catch: &mut Catch<'_>,
    ) -> Fate {
        let batch = &mut self.hands.batch;
        let fate = batch.deliver(to, roce, came, packet, true, catch);
        batch.turn(to, catch);
        fate
    }
}

impl<D: Deliver> Batch<D> {
    /// A run of packets from one source, by the hooks if there are any.
    pub(in crate::wire) fn run(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        came: &Arrived,
        bytes: &[u8],
        may_hand_over: bool,
        catch: &mut Catch<'_>,
    ) {
        if !roce.hooks.active() {
            self.deliver(to, roce, came, bytes, may_hand_over, catch);
            return;
        }
        roce.hooks
            .receive(to.services, came, bytes, &mut |came, datagram| {
                self.deliver(to, roce, came, datagram, may_hand_over, catch)
            });
    }

    /// Gives a run of packets to their queue pairs. Says what became of the last one.
    fn deliver(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        came: &Arrived,
        bytes: &[u8],
        may_hand_over: bool,
        catch: &mut Catch<'_>,
    ) -> Fate {
        let version = to.adapter.version();
        if self
            .last
            .as_ref()
            .is_some_and(|(found_in, _)| *found_in != version)
        {
            self.last = None;
        }
        match came {
            Arrived::Roce(meta) => self.deliver_roce(to, roce, meta, bytes, may_hand_over, catch),
            Arrived::Native(meta) => self.deliver_native(to, roce, meta, bytes, catch),
        }
    }
}
