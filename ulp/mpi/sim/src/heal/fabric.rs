//! What the adapters of all ranks carry: which paths there are, datagrams on their way, the echo of
//! each rank, and the board on which cards lie.
//!
//! Must not know: what a rank believes of all this.

use super::device::{Device, Flight, Happening, Ruin, Spot, numbers};
use super::wire::{QueuePair, QueuePairState, SECRET};
use super::world::{Event, World};
use ferriband_heal::card::{ADAPTERS, Address, Card};
use ferriband_heal::datagram::Origin;
use ferriband_heal::{AdapterId, Datagram, Kind, Ns, PathId, Transmit};

const MICROSECOND: u64 = 1000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
/// Receives for datagrams: what comes while none is left is lost.
const INBOX: usize = 64;

impl World {
    pub fn device(&self, rank: usize, adapter: usize) -> &Device {
        &self.ranks[rank].devices[adapter]
    }

    pub fn device_mut(&mut self, rank: usize, adapter: usize) -> &mut Device {
        &mut self.ranks[rank].devices[adapter]
    }

    pub fn spot(&self, rank: usize, adapter: usize, port: u8) -> Spot {
        let one = &self.device(rank, adapter).ports[usize::from(port) - 1];
        Spot {
            rank,
            adapter,
            port,
            address: one.address,
        }
    }

    /// Whether the port says that it is ACTIVE.
    pub fn is_active(&self, rank: usize, adapter: usize, port: u8) -> bool {
        let one = &self.device(rank, adapter).ports[usize::from(port) - 1];
        self.now >= one.down_until
    }

    pub fn is_working(&self, rank: usize, adapter: usize) -> bool {
        let one = self.device(rank, adapter);
        one.is_open && !one.is_fatal && !self.ranks[rank].is_dead
    }

    /// Whether something can come and go by this address.
    pub fn carries(&self, spot: Spot) -> bool {
        let Some(rank) = self.ranks.get(spot.rank) else {
            return false;
        };
        let Some(device) = rank.devices.get(spot.adapter) else {
            return false;
        };
        let port = device.ports.get(usize::from(spot.port).wrapping_sub(1));
        let is_good = port.is_some_and(|port| {
            port.address == spot.address && self.now >= port.down_until.max(port.carries_at)
        });
        is_good && self.is_working(spot.rank, spot.adapter)
    }

    /// Whether a path carries in this direction.
    pub fn is_passable(&self, from: Spot, to: Spot, route: u16) -> bool {
        let mut ruins = self.ruins.iter();
        let is_ruined =
            |(ruin, until): &(Ruin, Ns)| self.now < *until && ruin.is_of(from, to, route);
        self.carries(from) && self.carries(to) && !ruins.any(is_ruined)
    }

    /// Whether a path has been ruined until a little while ago, or its ports have failed.
    pub fn was_broken(&self, from: Spot, to: Spot, route: u16, for_ns: u64) -> bool {
        let both = [(from, to), (to, from)];
        let is_recent = |(ruin, until): &(Ruin, Ns)| {
            let is_it = both.iter().any(|(from, to)| ruin.is_of(*from, *to, route));
            is_it && self.now < until.after(for_ns)
        };
        let fails = |spot: Spot| {
            let device = &self.ranks[spot.rank].devices[spot.adapter];
            let port = &device.ports[usize::from(spot.port) - 1];
            let again = port.failed.max(port.down_until).max(port.carries_at);
            self.now < again.after(for_ns) && again != Ns(0)
        };
        self.ruins.iter().any(is_recent)
            || fails(from)
            || fails(to)
            || !self.is_passable(from, to, route)
            || !self.is_passable(to, from, route)
    }

    /// Whether both ends of a queue pair still have what it was connected by.
    pub fn reaches(&self, at: usize) -> bool {
        let one = &self.queue_pairs[at];
        self.is_passable(one.from, one.to, one.route)
            && self.is_passable(one.to, one.from, one.route)
            && self.device(one.owner, one.from.adapter).opening == one.opening
    }

    /// A datagram leaves by a path of a link.
    pub fn transmit(&mut self, from: usize, to: usize, sent: &Transmit) {
        let link = &self.ranks[from].links[to];
        let Some(path) = link.paths.get(sent.by).copied() else {
            return;
        };
        let Some(address) = link.reach.of(&path).copied() else {
            return;
        };
        let number = match sent.datagram.kind {
            Kind::Probe => address.echo,
            _ => address.ud,
        };
        let source = self.spot(from, path.adapter.0.into(), path.port);
        let target = Spot::of(&path.dgid);
        let route = path.dlid.wrapping_sub(target.lid());
        self.send_datagram(source, target, route, number, sent.datagram);
    }

    fn send_datagram(
        &mut self,
        from: Spot,
        to: Spot,
        route: u16,
        number: u32,
        mut datagram: Datagram,
    ) {
        let opening = self.device(from.rank, from.adapter).opening;
        let (ud, echo) = numbers(from.adapter, from.port, opening);
        datagram.origin = Origin {
            adapter: AdapterId(from.adapter as u8),
            flags: 0,
            ud,
            echo,
            serial: self.ranks[from.rank].serial,
        };
        if datagram.kind != Kind::Rtu {
            (datagram.end.lid, datagram.end.gid) = (from.lid(), from.gid());
        }
        let flight = Flight {
            to,
            route,
            number,
            bytes: datagram.emit().to_vec(),
        };
        self.history.push(flight.clone());
        if !self.is_passable(from, to, route) {
            return;
        }
        let is_quiet = self.is_quiet();
        let copies = match () {
            () if is_quiet => 1,
            () if self.rng.chance(self.plan.loss) => 0,
            () if self.rng.chance(self.plan.double) => 2,
            () => 1,
        };
        if copies == 0 {
            self.probe_is_lost(&datagram);
        }
        for _ in 0..copies {
            let late = if is_quiet || !self.rng.chance(self.plan.late) {
                50 * MICROSECOND
            } else {
                self.probe_is_lost(&datagram);
                [5 * MILLISECOND, SECOND, 60 * SECOND][self.rng.below(3) as usize]
            };
            let at = self.now.after(1 + self.rng.below(late));
            self.at(at, Event::Arrive(flight.clone()));
        }
    }

    /// A probe does not come back in time by chance: a verdict may be wrong.
    fn probe_is_lost(&mut self, datagram: &Datagram) {
        if matches!(datagram.kind, Kind::Probe | Kind::Probed) {
            let pair = (datagram.from as usize, datagram.to as usize);
            let now = self.now;
            self.link(pair.0, pair.1).probe_lost = Some(now);
            self.link(pair.1, pair.0).probe_lost = Some(now);
        }
    }

    pub fn repeat_old(&mut self) {
        if !self.history.is_empty() {
            let at = self.rng.below(self.history.len() as u64) as usize;
            let flight = self.history[at].clone();
            self.at(self.now, Event::Arrive(flight));
        }
    }

    /// A datagram comes.
    pub fn arrive(&mut self, flight: Flight) {
        let to = flight.to;
        if !self.carries(to) {
            return;
        }
        let opening = self.device(to.rank, to.adapter).opening;
        let (ud, echo) = numbers(to.adapter, to.port, opening);
        if flight.number == echo {
            self.echo(&flight);
        } else if flight.number != ud {
            return;
        }
        if self.ranks[to.rank].inbox.len() >= INBOX {
            if let Some(datagram) = Datagram::parse(&flight.bytes) {
                self.probe_is_lost(&datagram);
            }
            return;
        }
        self.ranks[to.rank].inbox.push_back(flight);
        self.wake_soon(to.rank);
    }

    /// The echo answers while its rank computes; not if the process is stopped.
    fn echo(&mut self, flight: &Flight) {
        let me = flight.to.rank;
        let count = self.ranks.len() as u32;
        let probe = Datagram::parse(&flight.bytes)
            .filter(|one| one.kind == Kind::Probe && one.is_for(me as u32, count, SECRET));
        let Some(probe) = probe.filter(|_| self.now >= self.ranks[me].stopped_until) else {
            return;
        };
        let mut answer = probe;
        (answer.kind, answer.from, answer.to) = (Kind::Probed, probe.to, probe.from);
        let target = Spot::of(&probe.end.gid);
        self.send_datagram(flight.to, target, flight.route, probe.origin.ud, answer);
    }

    /// A card says this of a rank.
    pub fn card(&self, me: usize) -> Card {
        let rank = &self.ranks[me];
        let mut addresses = [None; ADAPTERS];
        for (adapter, device) in rank.devices.iter().enumerate() {
            let id = AdapterId(adapter as u8);
            let port = rank.adapters.port(id).unwrap_or(1);
            let spot = self.spot(me, adapter, port);
            let (ud, echo) = numbers(adapter, port, device.opening);
            addresses[adapter] = Some(Address {
                ud,
                echo,
                lid: spot.lid(),
                lmc: self.plan.lmc,
                mtu: 5,
                is_ethernet: false,
                is_active: rank.adapters.may_use(id),
                port,
                gid: spot.gid(),
            });
        }
        Card {
            serial: rank.serial,
            receive: 64,
            addresses,
        }
    }

    /// A rank's card changes: for a moment its serial is odd, and half of it is written.
    pub fn publish(&mut self, me: usize) {
        self.ranks[me].serial = self.ranks[me].serial.wrapping_add(2);
        let card = self.card(me);
        self.told[me] = card;
        let half = &mut self.board[me];
        half.serial = card.serial.wrapping_sub(1);
        half.addresses[0] = card.addresses[0];
        let at = self.now.after(1 + self.rng.below(20 * MICROSECOND));
        self.at(at, Event::Publish(me));
    }

    /// What is so of a rank's queue pairs when a port or the adapter of theirs fails: that is a
    /// cause for a heal.
    pub fn ruin_port(&mut self, rank: usize, adapter: usize, port: Option<u8>) -> Vec<usize> {
        let now = self.now;
        for (at, one) in (1..).zip(&mut self.ranks[rank].devices[adapter].ports) {
            if port.is_none_or(|port| port == at) {
                one.failed = now;
            }
        }
        let is_mine = |one: &QueuePair| {
            one.owner == rank
                && one.from.adapter == adapter
                && port.is_none_or(|port| port == one.from.port)
                && matches!(one.state, QueuePairState::Connected | QueuePairState::Init)
        };
        let all = self.queue_pairs.iter().enumerate();
        let mine: Vec<usize> = all
            .filter(|(_, one)| is_mine(one))
            .map(|(at, _)| at)
            .collect();
        for at in &mine {
            self.laws.spoil(&self.queue_pairs[*at]);
        }
        mine
    }

    /// An adapter tells its process: late, twice, in any order, now and then of another port.
    pub fn tell(&mut self, rank: usize, adapter: usize, what: Happening) {
        let opening = self.device(rank, adapter).opening;
        let twice = 1 + u64::from(self.rng.chance(200));
        for _ in 0..twice {
            let late =
                [10 * MICROSECOND, MILLISECOND, 40 * MILLISECOND][self.rng.below(3) as usize];
            let at = self.now.after(1 + self.rng.below(late));
            self.at(at, Event::Tell(rank, adapter, opening, what));
        }
        if self.rng.chance(200) {
            let other = self
                .rng
                .below(self.device(rank, adapter).ports.len() as u64) as u8
                + 1;
            let at = self.now.after(1 + self.rng.below(MILLISECOND));
            self.at(
                at,
                Event::Tell(rank, adapter, opening, Happening::Port(other)),
            );
        }
    }

    /// The path of a link by which a datagram has come.
    pub fn path_of(
        &self,
        me: usize,
        peer: usize,
        flight: &Flight,
        one: &Datagram,
    ) -> Option<PathId> {
        let paths = &self.ranks[me].links[peer].paths;
        let to = (AdapterId(flight.to.adapter as u8), flight.to.port);
        paths.came_by(to, one, flight.route)
    }
}
