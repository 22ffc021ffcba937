//! Where a peer can be reached: what its cards say, what its datagrams say of where they come
//! from, and the paths that there are to all of it.
//!
//! Owns: the newest card of one peer and addresses that are newer. Must not know: where cards lie,
//! which path is taken. A card changes whenever an adapter of its owner is opened anew, or a port
//! has another address: its serial says which is newer.

use crate::card::{ADAPTERS, Address, Card};
use crate::datagram::{Datagram, Kind};
use crate::number::AdapterId;
use crate::paths::{MOST, Path, ROUTES};

/// The UDP ports beside the one that the adapter chooses (RoCEv2 gives the upper ones to senders).
const FIRST_UDP_PORT: u16 = 0xc000;

/// What is known of where a peer can be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    serial: Option<u32>,
    card: [Option<Address>; ADAPTERS],
    /// Where datagrams came from, with the serial that they told.
    heard: [Option<(u32, Address)>; ADAPTERS],
}

/// Whether serial `one` is newer than `other`: they wrap.
fn is_newer(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() > 0
}

impl Reach {
    /// A card of the peer's was read. False if it says nothing new: it is older than what is known,
    /// or was being written (its serial is odd).
    pub fn handle_card(&mut self, card: &Card) -> bool {
        let is_old = self
            .serial
            .is_some_and(|known| !is_newer(card.serial, known));
        if is_old || card.serial % 2 == 1 {
            return false;
        }
        (self.serial, self.card) = (Some(card.serial), card.addresses);
        let is_left = |told: u32| is_newer(told, card.serial);
        for heard in &mut self.heard {
            heard.take_if(|(told, _)| !is_left(*told));
        }
        true
    }

    /// A datagram of the peer's says where it can be answered, whatever its card said. False if
    /// that is nothing new, or it was sent before the card that is known was written.
    pub fn handle_origin(&mut self, datagram: &Datagram) -> bool {
        let origin = &datagram.origin;
        let at = usize::from(origin.adapter.0);
        if datagram.kind == Kind::Rtu || at >= ADAPTERS {
            return false;
        }
        let told = origin.serial;
        let known = [self.serial, self.heard[at].map(|(told, _)| told)];
        if known
            .into_iter()
            .flatten()
            .any(|known| is_newer(known, told))
        {
            return false;
        }
        let before = self.heard[at].map(|(_, one)| one).or(self.card[at]);
        let end = &datagram.end;
        let address = Address {
            ud: origin.ud,
            echo: origin.echo,
            lid: before.map_or(end.lid, |one| one.first_of(end.lid)),
            gid: end.gid,
            is_ethernet: end.lid == 0,
            is_active: true,
            mtu: before.map_or(1, |one| one.mtu),
            lmc: before.map_or(0, |one| one.lmc),
            port: before.map_or(0, |one| one.port),
        };
        let is_known = |one: &Address| {
            (one.ud, one.echo, one.lid, one.gid)
                == (address.ud, address.echo, address.lid, address.gid)
        };
        let is_new = !self
            .addresses()
            .any(|(id, one)| id == origin.adapter && is_known(one));
        let is_newest = self.heard[at].is_none_or(|(known, _)| is_newer(told, known));
        if is_new || is_newest && self.serial != Some(told) {
            self.heard[at] = Some((told, address));
        }
        is_new
    }

    /// The serial of the newest card.
    pub fn serial(&self) -> Option<u32> {
        self.serial
    }

    /// Whether a datagram has told of a newer card than the one that was read.
    pub fn wants_card(&self) -> bool {
        let heard = self.heard.iter().flatten();
        let mut told = heard.map(|(told, _)| *told);
        told.any(|told| self.serial.is_none_or(|known| is_newer(told, known)))
    }

    /// All addresses, those of datagrams behind those of the card.
    pub fn addresses(&self) -> impl Iterator<Item = (AdapterId, &Address)> {
        let card = (0..).map(AdapterId).zip(&self.card);
        let heard = (0..).map(AdapterId).zip(&self.heard);
        let card = card.filter_map(|(id, one)| Some((id, one.as_ref()?)));
        card.chain(heard.filter_map(|(id, one)| Some((id, &one.as_ref()?.1))))
    }

    /// Where datagrams by this path go.
    pub fn of(&self, path: &Path) -> Option<&Address> {
        let is_it = |one: &&Address| one.gid == path.dgid;
        let heard = self.heard.get(usize::from(path.peer.0))?.as_ref();
        let heard = heard.map(|(_, one)| one).filter(is_it);
        let card = self.card[usize::from(path.peer.0)].as_ref();
        heard.or(card.filter(is_it))
    }
}

/// An own port that is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The adapter.
    pub adapter: AdapterId,
    /// Its port.
    pub port: u8,
    /// Index of the GID that it sends from.
    pub sgid_index: u8,
    /// Whether it lies on Ethernet.
    pub is_ethernet: bool,
    /// The largest path MTU, as the verbs API codes it.
    pub mtu: u8,
    /// It is in doubt: paths by it come last.
    pub is_suspect: bool,
    /// As many low bits of its LID lead to it all the same.
    pub lmc: u8,
}

/// All paths from the own ports to the peer's addresses, the best first, as
/// [`crate::Paths::renew`] wants them: the first route of each pair before the second of any, and
/// ports in doubt, or not active when the card was written, behind all others. Own ports are best
/// in the order in which they are given, the peer's in that of the card.
pub fn candidates(own: &[Source], reach: &Reach) -> Vec<Path> {
    let mut all = Vec::new();
    for is_last in [false, true] {
        for route in 0..ROUTES {
            for source in own {
                let to = reach.addresses().filter(|(_, one)| {
                    let is_behind = source.is_suspect || !one.is_active;
                    is_behind == is_last && one.is_ethernet == source.is_ethernet
                });
                let paths = to.filter_map(|(peer, one)| by_route(source, peer, one, route));
                all.extend(paths);
            }
        }
    }
    all.truncate(MOST);
    all
}

/// The nth route: by the nth LID of the own port to the nth of the peer's, so that its answers take
/// the nth route, too.
fn by_route(source: &Source, peer: AdapterId, to: &Address, route: u8) -> Option<Path> {
    let nth = u16::from(route);
    let (dlid, udp_port) = match (to.is_ethernet, route) {
        (true, 0) => (0, 0),
        (true, _) => (0, FIRST_UDP_PORT + nth),
        (false, _) if to.has_lid(route) => (to.lid.wrapping_add(nth), 0),
        (false, _) => return None,
    };
    let has_own = !to.is_ethernet && nth < 1 << source.lmc.min(7);
    Some(Path {
        adapter: source.adapter,
        port: source.port,
        sgid_index: source.sgid_index,
        slid_bits: if has_own { route } else { 0 },
        dlid,
        dgid: to.gid,
        udp_port,
        peer,
        mtu: source.mtu.min(to.mtu),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Paths;
    use crate::datagram::{Endpoint, Origin};
    use crate::number::PathId;

    fn address(gid: u8) -> Address {
        Address {
            ud: u32::from(gid),
            echo: 100 + u32::from(gid),
            gid: [gid; 16],
            lid: 8 * u16::from(gid),
            lmc: 1,
            mtu: 4,
            is_active: true,
            ..Address::default()
        }
    }

    fn card(serial: u32, gids: &[u8]) -> Card {
        let mut addresses = [None; ADAPTERS];
        for (to, gid) in addresses.iter_mut().zip(gids) {
            *to = Some(address(*gid));
        }
        Card {
            serial,
            receive: 64,
            addresses,
        }
    }

    fn datagram(adapter: u8, serial: u32, gid: u8) -> Datagram {
        let from = address(gid);
        let mut datagram = crate::datagram::tests::probe();
        datagram.end = Endpoint {
            lid: from.lid,
            gid: from.gid,
            ..Endpoint::default()
        };
        datagram.origin = Origin {
            adapter: AdapterId(adapter),
            flags: 0,
            ud: from.ud,
            echo: from.echo,
            serial,
        };
        datagram
    }

    fn uds(reach: &Reach) -> Vec<u32> {
        reach.addresses().map(|(_, one)| one.ud).collect()
    }

    #[test]
    fn the_newest_card_counts_and_one_that_is_being_written_does_not() {
        let mut reach = Reach::default();
        assert!(reach.handle_card(&card(u32::MAX - 1, &[1, 2])));
        assert!(!reach.handle_card(&card(u32::MAX - 1, &[3])));
        assert!(!reach.handle_card(&card(u32::MAX - 3, &[3])), "it is older");
        assert!(!reach.handle_card(&card(1, &[3])), "it is being written");
        assert_eq!(uds(&reach), [1, 2]);
        assert!(reach.handle_card(&card(0, &[4])), "serials wrap");
        assert_eq!((uds(&reach), reach.serial()), (vec![4], Some(0)));
    }

    #[test]
    fn a_datagram_says_where_its_sender_is_unless_the_card_is_newer() {
        let mut reach = Reach::default();
        reach.handle_card(&card(4, &[1, 2]));
        assert!(!reach.handle_origin(&datagram(0, 4, 1)), "as the card says");
        assert!(!reach.handle_origin(&datagram(1, 2, 7)), "it is of before");
        assert!(!reach.wants_card());
        assert!(reach.handle_origin(&datagram(1, 6, 7)), "opened anew");
        assert_eq!(uds(&reach), [1, 2, 7]);
        assert!(reach.wants_card());
        assert!(!reach.handle_origin(&datagram(1, 4, 2)), "it comes late");
        let path = |gid: u8| Path {
            peer: AdapterId(1),
            dgid: [gid; 16],
            ..Path::default()
        };
        assert_eq!(reach.of(&path(7)).map(|one| one.ud), Some(7));
        assert_eq!(reach.of(&path(2)).map(|one| one.ud), Some(2));
        assert_eq!(reach.of(&path(3)), None);
        assert!(reach.handle_card(&card(6, &[1, 7])));
        assert_eq!((uds(&reach), reach.wants_card()), (vec![1, 7], false));
        let mut rtu = datagram(0, 8, 9);
        rtu.kind = Kind::Rtu;
        assert!(!reach.handle_origin(&rtu), "it has no address");
    }

    #[test]
    fn answers_take_the_route_of_their_question() {
        let mut reach = Reach::default();
        reach.handle_card(&card(2, &[1]));
        let own = Source {
            port: 1,
            mtu: 5,
            lmc: 1,
            ..Source::default()
        };
        let all = candidates(&[own], &reach);
        let seen: Vec<_> = all.iter().map(|one| (one.slid_bits, one.dlid)).collect();
        assert_eq!(seen, [(0, 8), (1, 9)]);
        let mut paths = Paths::default();
        paths.renew(&all);
        // What comes from the second LID is answered by the second route, and is no new address.
        let mut by_second = datagram(0, 2, 1);
        by_second.end.lid = 9;
        assert!(!reach.handle_origin(&by_second));
        let by = paths.found(AdapterId(0), 1, &[1; 16], by_second.end.lid);
        assert_eq!(by, Some(PathId(1)));
        by_second.end.lid = 16;
        assert!(reach.handle_origin(&by_second), "it has another LID");
    }

    #[test]
    fn candidates_are_all_pairs_by_their_first_route_then_by_the_next() {
        let mut reach = Reach::default();
        let mut known = card(2, &[1, 2]);
        known.addresses[2] = Some(Address {
            is_active: false,
            ..address(3)
        });
        known.addresses[3] = Some(Address {
            is_ethernet: true,
            lid: 0,
            ..address(4)
        });
        reach.handle_card(&known);
        let source = |adapter: u8| Source {
            adapter: AdapterId(adapter),
            port: 1,
            mtu: 5,
            ..Source::default()
        };
        let doubtful = Source {
            is_suspect: true,
            ..source(2)
        };
        let ethernet = Source {
            is_ethernet: true,
            mtu: 3,
            ..source(3)
        };
        let all = candidates(&[source(0), source(1), doubtful, ethernet], &reach);
        let seen: Vec<_> = all
            .iter()
            .map(|one| (one.adapter.0, one.peer.0, one.dlid, one.udp_port))
            .collect();
        assert_eq!(
            seen[..5],
            [
                (0, 0, 8, 0),
                (0, 1, 16, 0),
                (1, 0, 8, 0),
                (1, 1, 16, 0),
                (3, 3, 0, 0)
            ]
        );
        assert_eq!(seen[5], (0, 0, 9, 0));
        let first_doubtful = seen.iter().position(|one| one.0 == 2 || one.1 == 2);
        let last_good = seen.iter().rposition(|one| one.0 != 2 && one.1 != 2);
        assert!(first_doubtful > last_good, "{seen:?}");
        assert!(seen.contains(&(3, 3, 0, 0xc003)) && all.iter().all(|one| one.mtu < 5));
        let mut paths = Paths::default();
        paths.renew(&all);
        assert_eq!(paths.found(AdapterId(1), 1, &[2; 16], 0), Some(PathId(3)));
        assert_eq!(paths.found(AdapterId(1), 2, &[2; 16], 16), None);
        let again = candidates(&[source(0), source(1), doubtful, ethernet], &reach);
        assert!(again.len() <= MOST);
    }
}
