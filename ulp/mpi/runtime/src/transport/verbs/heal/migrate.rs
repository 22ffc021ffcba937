//! The second path of a connection: the adapters of both ends go over to it by themselves, and the
//! life goes on (automatic path migration, IBA 17.2.8). It is the first thing that is tried where a
//! path fails; a heal comes where it is not there, or fails as well.
//!
//! Owns: which second path ([`Second`]) the queue pairs to a peer load, and what becomes of the
//! connection when they have gone over. Must not know: when a path is at fault. What both ends
//! load is [`Path::second`]'s; devices that do not offer it have none, and RoCE has none.

use super::super::Net;
use super::super::link::Wire;
use super::super::rail::Face;
use super::second::Second;
use crate::ground::memory::Source;
use crate::transport::contract::Head;
use ferriband_heal::{AdapterId, Cause, Endpoint, Lids, Path, PathId};
use ferriband_ibv::{PathState, Qp, SecondPath};
use ferriband_mpi_proto::envelope::Kind;
use std::sync::Arc;

impl Wire {
    /// The table was read anew: a life that has gone over to another port of the peer's is by the
    /// path that the peer's card names today.
    pub(super) fn follow_table(&mut self) {
        let has_left = self.by.is_some_and(|by| self.paths.get(by).is_none());
        if has_left
            && self.second.is_some()
            && let Some(by) = self.paths.nearest(&self.path)
        {
            self.by = Some(by);
            let life = self.session.epoch();
            self.session.handle_migration(life, by);
        }
    }
}

impl Net {
    /// The LIDs by which connections by a port of an adapter may go on; none where the adapter does
    /// not offer that.
    pub(in super::super) fn lids_of(&self, adapter: AdapterId, port: u8) -> Lids {
        let rail = self.rail(adapter).filter(|rail| {
            rail.device.limits.path_migration
                && self.limits.heal.is_on
                && !self.rails.common.is_ethernet
        });
        let face = |port| rail.and_then(|rail| rail.port(port)).map(|port| port.face);
        let Some(own) = face(port) else {
            return Lids::default();
        };
        let ports = rail.into_iter().flat_map(|rail| &rail.ports);
        // One of another subnet does not lead to the peer.
        let is_alike = |other: &Face| other.is_active && other.gid.0[..8] == own.gid.0[..8];
        let mut others = ports.filter(|other| other.number != port && is_alike(&other.face));
        Lids {
            first: own.lid,
            lmc: own.lmc,
            other: others.next().map(|other| (other.number, other.face.lid)),
        }
    }

    /// The second path of the life with `peer` that begins between here, as it was told, and
    /// `end`.
    pub(in super::super) fn choose_second(&mut self, peer: u32, end: &Endpoint) {
        let wire = &mut self.link(peer).wire;
        let (path, own) = (wire.path, wire.lids);
        let known = wire.reach.of(&path);
        let there = Lids {
            first: known.map_or(end.lid, |one| one.first_of(end.lid)),
            lmc: known.map_or(0, |one| one.lmc),
            other: Some((0, end.other_lid)).filter(|(_, lid)| *lid != 0),
        };
        let second = path.second(&own, &there, None);
        wire.second = second.map(|path| Second {
            path,
            own,
            peer: there,
            is_loaded: true,
        });
    }

    /// What the queue pairs to `peer` are to load.
    pub(in super::super) fn path_to_load(&mut self, peer: u32) -> Option<SecondPath> {
        let second = self.link(peer).wire.second.filter(|one| one.is_loaded)?;
        Some(self.loaded(peer, &second.path))
    }

    /// A path as the queue pairs to `peer` load it.
    fn loaded(&mut self, peer: u32, path: &Path) -> SecondPath {
        SecondPath {
            route: self.route(path),
            timeout: self.rail_of(peer).device.timeout,
        }
    }

    /// The queue pairs to `peer`: that of messages, that of the lane.
    fn pairs(&mut self, peer: u32) -> [Option<Arc<Qp>>; 2] {
        let link = self.link(peer);
        [link.wire.queue.qp.clone(), link.long.lane.queue.qp.clone()]
    }

    /// The path in use to `peer` is at fault: it goes over to the second one, if that may carry.
    /// True if it does, and the life goes on.
    #[cold]
    pub(super) fn go_over(&mut self, peer: u32, cause: Cause) -> bool {
        let wire = &self.link(peer).wire;
        let Some(second) = wire.second.filter(|one| one.is_loaded) else {
            return false;
        };
        if !wire.has_life() || !self.is_port_active(&second.path) {
            return false;
        }
        let [Some(qp), _] = self.pairs(peer) else {
            return false;
        };
        let Ok(in_use) = qp.path_in_use() else {
            return false;
        };
        let has_gone = (in_use.port, in_use.dlid.0) == (second.path.port, second.path.dlid);
        if !has_gone && (in_use.state != PathState::Armed || qp.migrate().is_err()) {
            return false;
        }
        self.went_over(peer, cause)
    }

    /// An adapter says that the queue pair to `peer` has gone over.
    #[cold]
    pub(super) fn heard_of_migration(&mut self, peer: u32) {
        let old = self.link(peer).wire.path;
        let cause = match self.is_port_active(&old) {
            true => Cause::Peer,
            false => Cause::PortDown,
        };
        self.went_over(peer, cause);
    }

    /// The queue pair to `peer` may have gone over: if it has, the connection goes by the second
    /// path from here on, and the next one is loaded.
    fn went_over(&mut self, peer: u32, cause: Cause) -> bool {
        let [Some(qp), lane] = self.pairs(peer) else {
            return false;
        };
        let wire = &self.link(peer).wire;
        let (old, made_by, second) = (wire.path, wire.made_by, wire.second);
        let Some(second) = second.filter(|_| wire.has_life()) else {
            return false;
        };
        let new = second.path;
        let is_there = |qp: &Qp| {
            let in_use = qp.path_in_use();
            in_use.is_ok_and(|path| (path.port, path.dlid.0) == (new.port, new.dlid))
        };
        if !is_there(&qp) {
            // It was known before.
            return false;
        }
        if let Some(lane) = lane.filter(|lane| !is_there(lane)) {
            // One that cannot fails by itself, and the life with it.
            let _ = lane.migrate();
        }
        let face = self.rail(new.adapter).and_then(|rail| rail.port(new.port));
        let made_at = face.map(|port| (port.face.lid, port.face.gid.0));
        let now = self.connect.now();
        let link = self.link(peer);
        let wire = &mut link.wire;
        wire.path = new;
        wire.made_by = made_by.map(|(adapter, _)| (adapter, new.port));
        wire.made_at = made_at.unwrap_or(wire.made_at);
        if let Some(left) = wire.by.filter(|_| cause != Cause::Return) {
            wire.paths.failed(left, now);
        }
        if let Some(by) = wire.paths.nearest(&new) {
            wire.by = Some(by);
            wire.paths.heard(by, now);
            let life = wire.session.epoch();
            wire.session.handle_migration(life, by);
        }
        let by_lids = old.port == new.port;
        let next = new.second(&second.own, &second.peer, Some(&old));
        wire.second = Some(Second {
            path: next.filter(|_| by_lids).unwrap_or(old),
            is_loaded: false,
            ..second
        });
        self.tell_migration(peer, cause, (&old, &new));
        self.arm_second(peer);
        if self.link(peer).is_ready() {
            // The peer goes over with the first packet that comes to it.
            let note = Head::of(Kind::Note);
            let _ = self.post_now(peer, &note, &[], Source::EMPTY);
        }
        true
    }

    /// The second path to `peer` is loaded and armed, if it is not, and its port is up.
    fn arm_second(&mut self, peer: u32) {
        let wire = &self.link(peer).wire;
        let has_life = wire.has_life();
        let second = wire.second.filter(|one| !one.is_loaded && has_life);
        let Some(second) = second.filter(|one| self.is_port_active(&one.path)) else {
            return;
        };
        let path = self.loaded(peer, &second.path);
        // What the lane does not take is missed when its path fails: that is a heal.
        let [main, _] = self.pairs(peer).map(|qp| qp.map(|qp| qp.load_path(&path)));
        let is_loaded = main.is_some_and(|loaded| loaded.is_ok());
        self.link(peer).wire.second = Some(Second {
            is_loaded,
            ..second
        });
    }

    /// A port has come up: second paths by it are armed again.
    pub(super) fn arm_seconds(&mut self) {
        for peer in 0..self.links.len() as u32 {
            if self.links[peer as usize].is_some() {
                self.arm_second(peer);
            }
        }
    }

    /// Whether the second path to `peer` is one that probes have shown to carry.
    pub(super) fn is_second_proven(&self, peer: u32) -> bool {
        let now = self.connect.now();
        let link = self.links[peer as usize].as_deref();
        link.is_some_and(|link| {
            let wire = &link.wire;
            let by = wire
                .second
                .and_then(|second| wire.paths.nearest(&second.path));
            by.is_some_and(|by| wire.paths.is_proven(by, now))
        })
    }

    /// Whether this path leaves from the own port of the second path to `peer`.
    pub(super) fn is_second(&self, peer: u32, by: PathId) -> bool {
        let link = self.links[peer as usize].as_deref();
        link.is_some_and(|link| {
            let wire = &link.wire;
            let second = wire
                .second
                .and_then(|second| wire.paths.nearest(&second.path));
            second == Some(by)
        })
    }

    /// Whether the own port of a path carries.
    fn is_port_active(&self, path: &Path) -> bool {
        let port = self
            .rail(path.adapter)
            .and_then(|rail| rail.port(path.port));
        port.is_some_and(|port| port.face.is_active)
    }
}
