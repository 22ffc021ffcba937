//! Which of its two paths a connection uses (IBA 17.2.8).
//!
//! Owns nothing: the attributes are the parent's. What is to be done, and when, says
//! [`crate::migration`]; here it is carried out. Requests that are on their way when the path
//! changes are asked for, or sent again, by the new one; an RNR wait and what is known of gaps
//! stay.

use super::{QueuePair, Sender, service_of};
use crate::context::{Context, QpEvent};
use crate::env::{Environment, pkeys_match};
use crate::migration::{self, CameBy, Migration};
use crate::types::MigState;
use ferriband_wire::Packet;

impl QueuePair {
    /// By which path the packets come that [`handle_packet`](QueuePair::handle_packet) gets from
    /// now on. Looked at only while the path is not [`MigState::Migrated`].
    pub fn packets_come_by(&mut self, by: CameBy) {
        self.came_by = by;
    }

    /// State of the path.
    pub fn path_state(&self) -> MigState {
        self.attr.path_mig_state
    }

    /// How often it has gone over to its alternate path, which was then the primary one: a driver
    /// that keeps something of both paths compares.
    pub fn migrations(&self) -> u32 {
        self.migrations
    }

    /// The primary path has failed, as far as the driver knows: its port is down. If the path is
    /// armed, the connection goes on by the alternate one. True if it does.
    pub fn fail_over(&mut self) -> bool {
        let armed = self.attr.path_mig_state == MigState::Armed;
        if armed {
            self.migrate();
            self.start_over();
        }
        armed
    }

    /// The path is armed, and what was outstanding goes again by the alternate one, with all its
    /// retries.
    pub(super) fn start_over(&mut self) {
        let ctx = context!(self);
        if let Sender::Reliable(requester) = &mut self.sender {
            requester.restart_on_new_path(&ctx);
        }
    }

    /// By the alternate path from now on. What was sent by the other one may be lost: the next
    /// request asks.
    #[cold]
    pub(super) fn migrate(&mut self) {
        migration::migrate(&mut self.attr);
        self.migrations = self.migrations.wrapping_add(1);
        self.events.raise(QpEvent::PathMig);
        self.ask_now();
    }

    /// What the packet's MigReq bit asks for.
    #[inline]
    pub(super) fn follow_migration(&mut self, packet: &Packet<'_>) {
        // Nothing is armed nor to be armed: the usual case, in which no packet changes anything.
        if self.attr.path_mig_state != MigState::Migrated {
            self.follow(packet.bth().migrated);
        }
    }

    #[cold]
    fn follow(&mut self, migrated: bool) {
        match migration::on_packet(self.attr.path_mig_state, migrated, self.came_by) {
            Migration::Stay => {}
            Migration::Arm => self.attr.path_mig_state = MigState::Armed,
            Migration::Migrate => self.migrate(),
            // once for each time that a program rearms, however many packets come
            Migration::Impossible if self.refused => {}
            Migration::Impossible => {
                self.refused = true;
                self.events.raise(QpEvent::PathMigErr);
            }
        }
    }

    /// A packet's partition key is not the primary path's: it may be that of the path it came by.
    #[cold]
    pub(super) fn is_of_alternate(&self, env: &mut dyn Environment, packet: &Packet<'_>) -> bool {
        self.came_by != CameBy::Primary
            && migration::is_loaded(&self.attr)
            && pkeys_match(packet.bth().pkey, env.pkey(self.attr.alt_pkey_index))
    }
}
