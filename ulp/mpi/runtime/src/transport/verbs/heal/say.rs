//! Datagrams of sessions: by which path each goes, and what is made of those that come.
//!
//! Owns: address handles, where this rank can be answered, which path a datagram has come by. Must
//! not know: what a session makes of one.

use super::super::errors::failed;
use super::super::rail::Rail;
use super::super::{Id, MOST_DATAGRAMS, Net};
use super::refused::Needed;
use crate::errors::Outcome;
use ferriband_heal::card::Card;
use ferriband_heal::datagram::{ONLY_ADAPTER, Origin};
use ferriband_heal::{
    AdapterId, AdapterNews, Cause, Datagram, Endpoint, Epoch, Kind, Path, PathId, PeerNews,
    Transmit, Word, adapter_of,
};
use ferriband_ibv::{Ah, Element, Gid, Lid, Qpn, Route, SendFlags, SendWr};
use std::sync::Arc;

/// Address handles of a connection at most: as many as it has paths.
const WAYS: usize = 32;

/// How datagrams go by a path.
pub struct Way {
    path: Path,
    /// The opening of the adapter that the handle is of.
    opening: u32,
    ah: Arc<Ah>,
}

/// What became of a datagram.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gone {
    Yes,
    /// There is no room.
    NotNow,
}

impl Net {
    /// Sends what the session of `peer` has to say, as far as there is room.
    pub(super) fn transmit(&mut self, peer: u32) -> Outcome {
        loop {
            let now = self.connect.now();
            let wire = &mut self.link(peer).wire;
            let next = wire.session.poll_transmit(&mut wire.paths, now);
            wire.waits_to_say = false;
            let Some(Transmit { datagram, by }) = next else {
                return Ok(());
            };
            if self.send_datagram(peer, datagram, by)? == Gone::NotNow {
                self.link(peer).wire.waits_to_say = true;
                return Ok(());
            }
            self.link(peer).wire.session.transmitted();
        }
    }

    /// A PROBE with this counter goes to `peer` by this path, if there is room.
    pub(super) fn probe(&mut self, peer: u32, by: PathId, counter: u32) -> Outcome {
        let datagram = Datagram {
            kind: Kind::Probe,
            cause: Cause::First,
            secret: self.connect.secret,
            from: self.connect.me,
            to: peer,
            epoch: Epoch(counter),
            word: Word::default(),
            errno: 0,
            end: Endpoint::default(),
            path: PathId(0),
            origin: Origin::default(),
            since_us: 0,
            tries: 0,
            after: Epoch::NONE,
        };
        self.send_datagram(peer, datagram, by).map(drop)
    }

    /// Sends a datagram by a path. One for which there is no way any more is lost, as any may be.
    fn send_datagram(&mut self, peer: u32, datagram: Datagram, by: PathId) -> Outcome<Gone> {
        let wire = &self.link(peer).wire;
        let Some(path) = wire.paths.get(by).copied() else {
            return Ok(Gone::Yes);
        };
        let Some(address) = wire.reach.of(&path) else {
            return Ok(Gone::Yes);
        };
        let number = match (datagram.kind, address.echo) {
            (Kind::Probe, echo @ 1..) => echo,
            _ => address.ud,
        };
        let (serial, key, heals) = (
            self.rails.serial(),
            self.rails.common.key,
            self.limits.heal.is_on,
        );
        let is_only = self.rails() == 1;
        let Some(ah) = self.way_by(peer, &path)? else {
            return Ok(Gone::Yes);
        };
        let Some(rail) = self.rail_mut(path.adapter) else {
            return Ok(Gone::Yes);
        };
        let datagram = addressed(rail, &path, datagram, (serial, is_only));
        let name = rail.device.name.clone();
        let Some(port) = rail.port_mut(path.port) else {
            return Ok(Gone::Yes);
        };
        if port.under_way >= MOST_DATAGRAMS {
            return Ok(Gone::NotNow);
        }
        let bytes = datagram.emit();
        let elements = [Element::inline(&bytes)];
        let mut request = SendWr::send(Id::Sent(path.port).code(), &elements)
            .flags(SendFlags::INLINE | SendFlags::SIGNALED)
            .to(&ah, Qpn(number), key);
        match port.ud.post_send(&mut request) {
            Ok(()) => {
                port.under_way += 1;
                self.has_gone(peer);
            }
            // Of an adapter that has failed it says so by itself.
            Err(error) if heals => self.is_refused(peer, Needed::Datagram, &error),
            Err(error) => return Err(failed(&name, error)),
        }
        Ok(Gone::Yes)
    }

    /// The handle for a path; none if its adapter is not open.
    fn way_by(&mut self, peer: u32, path: &Path) -> Outcome<Option<Arc<Ah>>> {
        let route = self.route(path);
        let heals = self.limits.heal.is_on;
        let Some(rail) = self.rail(path.adapter).filter(|rail| rail.is_open) else {
            return Ok(None);
        };
        let opening = rail.opening;
        let (pd, name) = (Arc::clone(&rail.device.pd), rail.device.name.clone());
        let ways = &mut self.link(peer).wire.ways;
        let known = ways
            .iter()
            .find(|way| way.path == *path && way.opening == opening);
        if let Some(way) = known {
            return Ok(Some(Arc::clone(&way.ah)));
        }
        let ah = match Ah::create(&pd, &route) {
            Ok(ah) => ah,
            Err(error) if heals => {
                self.is_refused(peer, Needed::Datagram, &error);
                return Ok(None);
            }
            Err(error) => return Err(failed(&name, error)),
        };
        ways.retain(|way| way.path.adapter != path.adapter || way.opening == opening);
        if ways.len() == WAYS {
            ways.remove(0);
        }
        ways.push(Way {
            path: *path,
            opening,
            ah: Arc::clone(&ah),
        });
        Ok(Some(ah))
    }

    /// Where requests by a path go.
    pub(in super::super) fn route(&self, path: &Path) -> Route {
        let global = (Gid(path.dgid), path.sgid_index);
        Route {
            dlid: Lid(path.dlid),
            global: self.rails.common.is_ethernet.then_some(global),
            hop_limit: 64,
            port: path.port,
            path_bits: path.slid_bits,
            ..Route::default()
        }
    }

    /// A datagram of `peer` has come to this port of the adapter in hand.
    pub(in super::super) fn handle_datagram(
        &mut self,
        peer: u32,
        port: u8,
        datagram: &Datagram,
    ) -> Outcome {
        let (now, adapter) = (self.connect.now(), self.rail.id);
        if self.link(peer).wire.reach.handle_origin(datagram) {
            self.handle_reach(peer)?;
        }
        if datagram.kind == Kind::Probed {
            self.handle_probed(peer, datagram.epoch.0);
        }
        let wire = &mut self.link(peer).wire;
        let by = wire.paths.came_by((adapter, port), datagram, 0);
        match by {
            Some(by) => {
                wire.session.handle_datagram(datagram, by, now);
                match datagram.kind {
                    Kind::Probed => wire.paths.answered(by, now),
                    _ => wire.paths.heard(by, now),
                }
            }
            // It is of a port of old; a sign of life it is all the same.
            None => wire.session.handle_peer(PeerNews::Alive, now),
        }
        self.heed(peer);
        Ok(())
    }

    /// A probe of an adapter, or of a path to `peer`, has come back.
    fn handle_probed(&mut self, peer: u32, counter: u32) {
        let now = self.connect.now();
        if let Some(id) = adapter_of(counter) {
            let news = AdapterNews::Probed(counter);
            self.rails.adapters.handle(id, news, now);
            self.heed_adapters();
        } else {
            let wire = &mut self.link(peer).wire;
            let (probes, paths) = (&mut wire.watched.probes, &mut wire.paths);
            probes.handle_probed(counter, paths, now);
        }
    }

    /// The echo has answered a PROBE of `peer`, which is a sign of life, and says where it is.
    pub(super) fn handle_echoed(&mut self, peer: u32, datagram: &Datagram) -> Outcome {
        if self.links[peer as usize].is_none() {
            // Whoever has nothing to do with it finds it by its card.
            return Ok(());
        }
        let now = self.connect.now();
        if self.link(peer).wire.reach.handle_origin(datagram) {
            self.handle_reach(peer)?;
        }
        self.link(peer)
            .wire
            .session
            .handle_peer(PeerNews::Alive, now);
        self.heed(peer);
        Ok(())
    }

    /// A card of `peer` was read.
    pub(super) fn handle_card(&mut self, peer: u32, card: &Card) -> Outcome {
        match self.link(peer).wire.reach.handle_card(card) {
            true => self.handle_reach(peer),
            false => Ok(()),
        }
    }

    /// It is known anew where `peer` is. A probe that nobody has answered may reach it now.
    fn handle_reach(&mut self, peer: u32) -> Outcome {
        self.renew_paths(peer);
        let now = self.connect.now();
        for id in (0..self.rails() as u8).map(AdapterId) {
            let paths = &self.link(peer).wire.paths;
            let is_by = |by: PathId| paths.get(by).is_some_and(|path| path.adapter == id);
            let by = paths.peek(now, is_by);
            if let Some(counter) = self.rails.adapters.unanswered_probe(id)
                && let Some(by) = by
            {
                self.probe(peer, by, counter)?;
            }
        }
        Ok(())
    }
}

/// With where this rank can be answered by the port of that path.
fn addressed(
    rail: &Rail,
    path: &Path,
    mut datagram: Datagram,
    (serial, is_only): (u32, bool),
) -> Datagram {
    let echo = rail.echo_at(path.port);
    let Some(port) = rail.port(path.port) else {
        return datagram;
    };
    datagram.origin = Origin {
        adapter: rail.id,
        flags: if is_only { ONLY_ADAPTER } else { 0 },
        ud: port.ud.number().0,
        echo,
        serial,
    };
    if datagram.kind != Kind::Rtu {
        // From the LID by which it comes, so that answers take the route of their question.
        let lid = port.face.lid.wrapping_add(u16::from(path.slid_bits));
        (datagram.end.lid, datagram.end.gid) = (lid, port.face.gid.0);
    }
    datagram
}
