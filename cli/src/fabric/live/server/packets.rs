//! Data packets between adapters and the fabric's links.
//!
//! An adapter takes what comes as fast as it comes, and keeps [`ADAPTER_BYTES`] for a program that is slow. What is more stays in the port's buffer, so that the link runs out of credits and senders
//! wait. A program that takes nothing at all holds nobody up for longer than [`PATIENCE`]: its adapter lets go of what is for it, as hosts of a fabric must not depend on each other's programs.

use super::super::deputy;
use super::{Role, Server};
use ferriband_attach::ask::{self, Answer};
use ferriband_attach::{AttachError, packet};
use ferriband_fabric::Time;
use ferriband_fabric::manage::Place;
use ferriband_wire::attributes::PortState;
use std::time::Duration;

/// What an adapter keeps for a program, in bytes, before its link gets no more credits: an adapter of hardware writes to memory and does not wait for programs, so this is more than what a
/// queue pair may have unacknowledged.
const ADAPTER_BYTES: usize = 4 << 20;
/// How long a program may take nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Who has a packet.
enum Given {
    /// Nobody takes packets there.
    Nobody,
    /// All who do, and none of them has too much waiting.
    Taken,
    /// The same, but this one is behind.
    Behind(u64),
}

impl Server {
    /// Takes the packets of an adapter.
    pub(super) fn take_packets(&mut self, at: Place, message: &[u8]) -> Result<(), AttachError> {
        let now = Time::from_ns(self.now_ns());
        if let Some((which, packet)) = packet::as_wrong(message) {
            let is_qkey = which == packet::Wrong::QKey;
            self.fabric.hear_wrong_key(at, is_qkey, packet);
            self.carry_packets();
            return Ok(());
        }
        for bytes in packet::packets(message)? {
            self.fabric.send_packet(now, at, bytes.to_vec());
        }
        self.carry_packets();
        Ok(())
    }

    /// True if more packets may be taken from somebody.
    pub(super) fn may_send(&self, role: &Role) -> bool {
        match role {
            Role::Packets(at) => self.fabric.has_room(*at),
            _ => true,
        }
    }

    /// Hands out what has come to its end by now.
    pub(super) fn carry_packets(&mut self) {
        let now = Time::from_ns(self.now_ns());
        while let Some(arrived) = self.fabric.poll_packet(now) {
            let given = self.give_packet(arrived.at, &arrived.bytes);
            if let Given::Nobody = given
                && let Some(answer) = deputy::answer(&arrived.bytes)
            {
                self.fabric.send_packet(now, arrived.at, answer);
            }
            let Some(room) = arrived.room else { continue };
            let keeper = match given {
                Given::Behind(number) => Some(number),
                _ => None,
            };
            match keeper.and_then(|number| self.clients.get_mut(&number)) {
                Some(client) => {
                    client.rooms.push(room);
                    self.behind.extend(keeper);
                }
                None => self.fabric.taken(room),
            }
        }
    }

    /// Puts a packet with what goes to those who take packets at a place.
    fn give_packet(&mut self, at: Place, bytes: &[u8]) -> Given {
        let takers = self.takers.get(&at).map_or(&[][..], Vec::as_slice);
        let mut given = Given::Nobody;
        for taker in takers {
            let Some(client) = self.clients.get_mut(taker) else {
                continue;
            };
            if let Given::Nobody = given {
                given = Given::Taken;
            }
            if client.stopped && !client.going.is_empty() {
                self.untaken += 1;
                continue;
            }
            client.push_packet(bytes);
            if client.waiting() > ADAPTER_BYTES {
                given = Given::Behind(*taker);
            }
        }
        given
    }

    /// Those who were behind give room back when they have caught up; those who take nothing are not waited for.
    pub(super) fn look_after_those_behind(&mut self) {
        let mut freed = Vec::new();
        let (clients, untaken) = (&mut self.clients, &mut self.untaken);
        self.behind.retain(|number| {
            let Some(client) = clients.get_mut(number) else {
                return false;
            };
            if client.waiting() > ADAPTER_BYTES / 2 {
                if client.took.elapsed() < PATIENCE {
                    return true;
                }
                *untaken += client.stop();
                self.partitions_seen = None;
            }
            freed.append(&mut client.rooms);
            false
        });
        if !freed.is_empty() {
            for room in freed {
                self.fabric.taken(room);
            }
            self.carry_packets();
            self.send_packets();
        }
    }

    /// When [`Self::look_after_those_behind`] is due at the latest, in nanoseconds.
    pub(super) fn behind_due(&self) -> Option<u64> {
        let clients = self.behind.iter().filter_map(|own| self.clients.get(own));
        let left = clients.map(|client| PATIENCE.saturating_sub(client.took.elapsed()));
        let left = left.min()?;
        Some(self.now_ns() + left.as_nanos() as u64)
    }

    /// Tells adapters what partition keys their ports have, where that has changed.
    pub(super) fn tell_partitions(&mut self) {
        let told = Some(self.fabric.partitions_told());
        if self.partitions_seen == told {
            return;
        }
        self.partitions_seen = told;
        for client in self.clients.values_mut() {
            let Role::Packets(at) = client.role else {
                continue;
            };
            let port = &self.fabric.plane().node(at.node).ports[usize::from(at.port)];
            let keys = port.pkeys.iter().map(|key| key.0);
            if !keys.clone().eq(client.pkeys.iter().copied()) {
                client.pkeys = keys.collect();
                let keys = client.pkeys.clone();
                client.send(&ask::emit(&Answer::PartitionKeys { keys }));
            }
        }
    }

    /// Tells adapters what has become of their ports' links.
    pub(super) fn tell_links(&mut self) {
        for client in self.clients.values_mut() {
            let Role::Packets(at) = client.role else {
                continue;
            };
            let port = &self.fabric.plane().node(at.node).ports[usize::from(at.port)];
            let active = port.info.state == PortState::ACTIVE;
            if client.active != Some(active) {
                client.active = Some(active);
                client.send(&ask::emit(&Answer::PortState { active }));
            }
        }
    }

    /// Sends on what was put together.
    pub(super) fn send_packets(&mut self) {
        for client in self.clients.values_mut() {
            if !client.packets.is_empty() || !client.going.is_empty() {
                client.send_packets();
            }
        }
    }
}
