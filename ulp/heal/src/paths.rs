//! The paths to one peer, and which of them is tried next.
//!
//! Owns: at most 32 candidates; when each last failed, was heard of and has answered a probe; and
//! what the probes of one round say. Must not know: how a path table is read, what a probe is.
//! Source: the paper's Figure 3 (the path of before, then others, then other adapters).
//!
//! A [`PathId`] stays the same path's when the table is read anew: sessions remember it. The place
//! of a path that is in the table no more is given to another one only where no other place is
//! left, the one that went first before the others.

use crate::datagram::Datagram;
use crate::number::{AdapterId, Ns, PathId};

#[cfg(test)]
mod tests;

/// Paths of a peer at most.
pub const MOST: usize = 32;
/// Routes between two ports that are tried at most.
pub(crate) const ROUTES: u8 = 4;
const MILLISECOND: u64 = 1_000_000;
/// A path that failed is tried behind those that did not, for so long.
const AVOIDED_NS: u64 = 10_000 * MILLISECOND;
/// A path by which a probe was answered is tried before all others, for so long.
const PROVEN_NS: u64 = 1000 * MILLISECOND;
/// What probes have said counts for so long.
const FRESH_NS: u64 = 1000 * MILLISECOND;
/// Probes of a round by each path;
pub(crate) const PROBES: u8 = 3;
/// and answers by another path that say that this one should have answered as well.
const CARRIES: u32 = 2;

/// Own adapter and port, address of the peer, route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Own adapter.
    pub adapter: AdapterId,
    /// Its port.
    pub port: u8,
    /// Index of the GID that it sends from.
    pub sgid_index: u8,
    /// Low bits of the LID that it sends from.
    pub slid_bits: u8,
    /// LID of the peer's port; 0 on Ethernet.
    pub dlid: u16,
    /// GID of the peer's port.
    pub dgid: [u8; 16],
    /// UDP source port; 0 where there is none.
    pub udp_port: u16,
    /// The peer's adapter.
    pub peer: AdapterId,
    /// Path MTU, as the verbs API codes it.
    pub mtu: u8,
}

impl Path {
    /// Whether both lead from one own port to one adapter of the peer's.
    fn is_of_pair(&self, other: &Self) -> bool {
        self.is_from(other) && self.peer == other.peer
    }

    fn is_from(&self, other: &Self) -> bool {
        (self.adapter, self.port) == (other.adapter, other.port)
    }

    /// How far it is from the path of before, in the order of the paper's Figure 3: that path
    /// itself; other LIDs, GIDs and UDP ports of the pair; other ports; other adapters; the peer's
    /// other adapters.
    fn distance(&self, before: &Self) -> u8 {
        match () {
            () if self == before => 0,
            () if self.is_of_pair(before) => 1,
            () if self.peer != before.peer => 4,
            () if self.adapter != before.adapter => 3,
            () => 2,
        }
    }
}

/// LIDs of the port of one end of a connection, and of another port of its adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lids {
    /// The first of the port; 0 on Ethernet.
    pub first: u16,
    /// As many low bits of it lead to the port all the same.
    pub lmc: u8,
    /// Another port by which the adapter can be reached, and its LID.
    pub other: Option<(u8, u16)>,
}

impl Path {
    /// The path to which the adapters of a connection by this one may go over by themselves
    /// (automatic path migration, IBA 17.2.8): by other ports of the two adapters, where there are
    /// some, else between the next pair of LIDs of these ports, but not to `past`, unless that is
    /// the only other one. None: there is no second path, or none that both ends know.
    ///
    /// Both ends load the path of the other: each asks this of what it has told its peer, and of
    /// what that has told. So it depends on nothing else.
    pub fn second(&self, own: &Lids, peer: &Lids, past: Option<&Self>) -> Option<Self> {
        if own.first == 0 || peer.first == 0 {
            return None;
        }
        if own.other.is_some() || peer.other.is_some() {
            let (port, slid_bits) = own
                .other
                .map_or((self.port, self.slid_bits), |(port, _)| (port, 0));
            let dlid = peer.other.map_or(self.dlid, |(_, lid)| lid);
            return Some(Self {
                port,
                slid_bits,
                dlid,
                ..*self
            });
        }
        let count = u16::from(ROUTES).min(1 << own.lmc.min(peer.lmc).min(7));
        let route = self.dlid.checked_sub(peer.first)?;
        if route >= count || u16::from(self.slid_bits) != route {
            return None;
        }
        let by = |route: u16| Self {
            slid_bits: route as u8,
            dlid: peer.first.wrapping_add(route),
            ..*self
        };
        let mut others = (1..count).map(|more| by((route + more) % count));
        let is_past = |other: &Self| past == Some(other);
        others
            .clone()
            .find(|other| !is_past(other))
            .or_else(|| others.next())
    }
}

/// Why nothing comes by a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// By none of the paths of the own port, and by another own port something does.
    Here,
    /// By this path, and by another one something does.
    Path,
    /// The path carries: its peer computes, or is stopped.
    Peer,
    /// Nothing comes by any path, or too little was asked.
    Unknown,
}

/// The probes of a round by one path.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    sent: u8,
    /// A bit for each that was answered.
    answered: u8,
    last: Ns,
}

impl Window {
    fn is_fresh(&self, now: Ns) -> bool {
        now.since(self.last) < FRESH_NS
    }

    fn is_lost(&self, now: Ns) -> bool {
        self.is_fresh(now) && self.sent >= PROBES && self.answered == 0
    }

    fn carries(&self, now: Ns) -> bool {
        self.is_fresh(now) && self.answered.count_ones() >= CARRIES
    }
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    path: Path,
    /// Its place in the table, or when it left it.
    place: Result<u8, u64>,
    /// The turn in which it was last tried; 0: not since the path of before failed.
    tried: u64,
    failed: Option<Ns>,
    heard: Option<Ns>,
    answered: Option<Ns>,
    window: Window,
}

impl Candidate {
    fn is_avoided(&self, now: Ns) -> bool {
        self.failed.is_some_and(|then| now.since(then) < AVOIDED_NS)
    }

    fn is_proven(&self, now: Ns) -> bool {
        self.answered
            .is_some_and(|then| now.since(then) < PROVEN_NS)
    }
}

/// The paths to one peer.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    all: Vec<Candidate>,
    /// The path of the last life.
    before: Option<Path>,
    turn: u64,
}

impl Paths {
    /// The path table was read anew: these are the candidates, the best first; those behind the
    /// first 32 are left out. What is known of a path that was there before stays known, and its
    /// number stays.
    pub fn renew(&mut self, found: &[Path]) {
        self.turn += 1;
        let turn = self.turn;
        let mut wanted: Vec<Path> = Vec::new();
        for path in found {
            if wanted.len() < MOST && !wanted.contains(path) {
                wanted.push(*path);
            }
        }
        for one in &mut self.all {
            let place = wanted.iter().position(|path| *path == one.path);
            one.place = match (place, one.place) {
                (Some(place), _) => Ok(place as u8),
                (None, Ok(_)) => Err(turn),
                (None, left) => left,
            };
        }
        for (place, path) in wanted.iter().enumerate() {
            if !self.all.iter().any(|one| one.path == *path) {
                self.add(*path, place as u8);
            }
        }
    }

    fn add(&mut self, path: Path, place: u8) {
        let fresh = Candidate {
            path,
            place: Ok(place),
            tried: 0,
            failed: None,
            heard: None,
            answered: None,
            window: Window::default(),
        };
        if self.all.len() < MOST {
            self.all.push(fresh);
            return;
        }
        // At most 32 are wanted and this one has no place yet, so one of 32 is not wanted.
        let gone = self.all.iter_mut().filter(|one| one.place.is_err());
        if let Some(oldest) = gone.min_by_key(|one| one.place.err()) {
            *oldest = fresh;
        }
    }

    /// A life has ended whose path was this one: what is tried next is counted from it.
    pub fn begin(&mut self, before: PathId) {
        let known = self.all.get(usize::from(before.0));
        self.before = known.map(|one| one.path).or(self.before);
        for one in &mut self.all {
            one.tried = 0;
        }
    }

    /// The path to try next, in the order of the paper's Figure 3: the path of before; other LIDs,
    /// GIDs and UDP ports of the pair; other ports; other adapters; the peer's other adapters; then
    /// from the beginning. One by which a probe was answered within a second comes first, those
    /// that failed within 10 s come last.
    pub fn next(&mut self, now: Ns) -> Option<PathId> {
        self.next_of(now, |_| true)
    }

    /// The one among those that `may` names.
    pub fn next_of(&mut self, now: Ns, may: impl Fn(PathId) -> bool) -> Option<PathId> {
        let id = self.peek(now, may)?;
        self.turn += 1;
        self.all[usize::from(id.0)].tried = self.turn;
        Some(id)
    }

    /// The one that would be next, which does not count as tried.
    pub fn peek(&self, now: Ns, may: impl Fn(PathId) -> bool) -> Option<PathId> {
        let there = self.ids().filter(|id| may(*id));
        there.min_by_key(|id| {
            let one = &self.all[usize::from(id.0)];
            let distance = self.before.map_or(0, |before| one.path.distance(&before));
            let is_last = (one.is_avoided(now), !one.is_proven(now));
            (is_last, one.tried, distance, one.place.ok())
        })
    }

    /// Those that are in the table.
    pub fn ids(&self) -> impl Iterator<Item = PathId> + '_ {
        let all = self.all.iter().enumerate();
        all.filter(|(_, one)| one.place.is_ok())
            .map(|(at, _)| PathId(at as u8))
    }

    /// The best `count` of them in the order of the table, and `of` before them.
    pub(crate) fn best(&self, of: Option<PathId>, count: usize) -> Vec<PathId> {
        let mut all: Vec<PathId> = self.ids().filter(|id| Some(*id) != of).collect();
        all.sort_by_key(|id| self.all[usize::from(id.0)].place.ok());
        let of = of.filter(|of| self.get(*of).is_some());
        of.into_iter().chain(all).take(count).collect()
    }

    /// A path that comes before `of` in the table, and leads from another own port or to another
    /// adapter of the peer's: the best one.
    pub fn better(&self, of: PathId) -> Option<PathId> {
        let current = self.all.get(usize::from(of.0))?;
        let best = self.best(None, MOST);
        let mut others = best.into_iter().filter(|id| {
            let one = &self.all[usize::from(id.0)];
            let is_before = current.place.is_err() || one.place.ok() < current.place.ok();
            is_before && !one.path.is_of_pair(&current.path)
        });
        others.next()
    }

    /// Nothing could be done by this path.
    pub fn failed(&mut self, id: PathId, now: Ns) {
        if let Some(one) = self.all.get_mut(usize::from(id.0)) {
            (one.failed, one.answered) = (Some(now), None);
        }
    }

    /// Something of the peer has come by this path.
    pub fn heard(&mut self, id: PathId, now: Ns) {
        if let Some(one) = self.all.get_mut(usize::from(id.0)) {
            (one.heard, one.failed) = (Some(now), None);
        }
    }

    /// A probe has come back by this path: both directions carry.
    pub fn answered(&mut self, id: PathId, now: Ns) {
        if let Some(one) = self.all.get_mut(usize::from(id.0)) {
            (one.heard, one.answered, one.failed) = (Some(now), Some(now), None);
        }
    }

    /// By which path the probe of an own adapter with this counter goes: one by which a probe was
    /// answered within a second; else by all paths from that adapter in turn.
    pub fn probe_by(&self, adapter: AdapterId, counter: u32, now: Ns) -> Option<PathId> {
        let is_by = |by: &PathId| self.all[usize::from(by.0)].path.adapter == adapter;
        let all: Vec<PathId> = self.ids().filter(is_by).collect();
        let mut proven = all.iter().filter(|by| self.is_proven(**by, now));
        let in_turn = || all.get(counter as usize % all.len().max(1));
        proven.next().or_else(in_turn).copied()
    }

    /// Whether it failed within 10 s.
    pub fn is_avoided(&self, id: PathId, now: Ns) -> bool {
        let one = self.all.get(usize::from(id.0));
        one.is_some_and(|one| one.is_avoided(now))
    }

    /// Whether a probe was answered by it within a second.
    pub fn is_proven(&self, id: PathId, now: Ns) -> bool {
        let one = self.all.get(usize::from(id.0));
        one.is_some_and(|one| one.is_proven(now))
    }

    /// When something of the peer last came by this path.
    pub fn last_heard(&self, id: PathId) -> Option<Ns> {
        self.all.get(usize::from(id.0))?.heard
    }

    /// The path with this number, if it is in the table.
    pub fn get(&self, id: PathId) -> Option<&Path> {
        let one = self.all.get(usize::from(id.0))?;
        one.place.is_ok().then_some(&one.path)
    }

    /// The path with this number, also if it has left the table.
    pub fn known(&self, id: PathId) -> Option<&Path> {
        self.all.get(usize::from(id.0)).map(|one| &one.path)
    }

    /// The path by which a datagram has come to this own port: one to the address that it comes
    /// from; else, as the table may be of before, one to the adapter that it names. `route` is how
    /// far the LID that it was sent from is from the port's first, where that can be seen.
    pub fn came_by(&self, to: (AdapterId, u8), datagram: &Datagram, route: u16) -> Option<PathId> {
        let end = &datagram.end;
        let exact = self.found(to.0, to.1, &end.gid, end.lid.wrapping_add(route));
        let is_between = |by: &PathId| {
            let path = self.all[usize::from(by.0)].path;
            (path.adapter, path.port, path.peer) == (to.0, to.1, datagram.origin.adapter)
        };
        exact.or_else(|| self.best(None, MOST).into_iter().find(is_between))
    }

    /// The path in the table from this own port to this address: the one to this LID if it is
    /// there, else the best.
    pub(crate) fn found(
        &self,
        adapter: AdapterId,
        port: u8,
        dgid: &[u8; 16],
        dlid: u16,
    ) -> Option<PathId> {
        let path = |id: &PathId| &self.all[usize::from(id.0)].path;
        let mut best = self.best(None, MOST);
        best.retain(|id| {
            (path(id).adapter, path(id).port) == (adapter, port) && path(id).dgid == *dgid
        });
        let exact = best.iter().find(|id| path(id).dlid == dlid);
        exact.or(best.first()).copied()
    }

    /// The path in the table that comes nearest to this one: itself, else the best between its port
    /// and the peer's adapter.
    pub fn nearest(&self, to: &Path) -> Option<PathId> {
        let best = self.best(None, MOST);
        let path = |id: &&PathId| self.all[usize::from(id.0)].path;
        let exact = best.iter().find(|id| path(id) == *to);
        exact
            .or_else(|| best.iter().find(|id| path(id).is_of_pair(to)))
            .copied()
    }

    /// A round of probes begins.
    pub(crate) fn begin_round(&mut self) {
        for one in &mut self.all {
            one.window = Window::default();
        }
    }

    /// A probe of the round goes by this path.
    pub(crate) fn probe_sent(&mut self, id: PathId, now: Ns) {
        if let Some(one) = self.all.get_mut(usize::from(id.0)) {
            (one.window.sent, one.window.last) = (one.window.sent + 1, now);
        }
    }

    /// The probe of the round with this number has come back.
    pub(crate) fn probe_answered(&mut self, id: PathId, nth: u8) {
        if let Some(one) = self.all.get_mut(usize::from(id.0)) {
            one.window.answered |= 1 << nth;
        }
    }

    /// Why nothing comes by path `of`, as the probes of the last round say. A path is at fault
    /// only where three of three are lost by it and two of three answered by another one: a crowded
    /// machine may lose one by chance.
    pub fn verdict(&self, of: PathId, now: Ns) -> Verdict {
        let Some(one) = self.all.get(usize::from(of.0)) else {
            return Verdict::Unknown;
        };
        if one.window.is_fresh(now) && one.window.answered > 0 {
            return Verdict::Peer;
        }
        // By a path that has left the table nobody can ask, so no probe of it was lost: it may
        // carry all the same, as the peer's card names one port of two.
        let there = || self.all.iter().filter(|other| other.place.is_ok());
        if !one.window.is_lost(now) || !there().any(|other| other.window.carries(now)) {
            return Verdict::Unknown;
        }
        let from_here = there().filter(|other| other.path.is_from(&one.path));
        let lost = from_here.filter(|other| other.window.is_lost(now)).count();
        let is_heard =
            |other: &Candidate| other.path.is_from(&one.path) && other.window.answered > 0;
        if lost > 1 && !there().any(is_heard) {
            Verdict::Here
        } else {
            Verdict::Path
        }
    }
}
