//! The next hop to a destination, as the kernel would take it: by which interface, and to whose Ethernet address.
//!
//! Owns: the questions for the route, the neighbour and the interface, and which answers can be used without the kernel's IP layer.
//! Must not know: what goes there.

use super::netlink::{Attributes, Questions, half, push_attribute, word};
use std::net::{Ipv4Addr, SocketAddrV4};

/// A destination's next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hop {
    /// The interface.
    pub ifindex: u32,
    /// Its own Ethernet address.
    pub own: [u8; 6],
    /// Whose frames they are: the destination itself, or the router on the way to it.
    pub next: [u8; 6],
    /// Longest IP packet of the interface in bytes.
    pub mtu: u32,
}

// linux/rtnetlink.h, linux/if_link.h, linux/neighbour.h.
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
const RTN_UNICAST: u8 = 1;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_MULTIPATH: u16 = 9;
const RTA_VIA: u16 = 18;
const RTA_ENCAP: u16 = 22;
const RTA_IP_PROTO: u16 = 27;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const IFLA_ADDRESS: u16 = 1;
const IFLA_MTU: u16 = 4;
const IFLA_QDISC: u16 = 6;
const IFLA_EXT_MASK: u16 = 29;
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;
/// NUD_REACHABLE, STALE, DELAY, PROBE, PERMANENT: the states in which the kernel sends to the address that it has.
const USABLE: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x80;
const IFF_UP: u32 = 1;
const IFF_LOWER_UP: u32 = 1 << 16;
/// The queueing discipline of interfaces that hand on at once what they get, so that what goes by two sockets keeps its order.
const NO_QUEUE: &[u8] = b"noqueue";

/// Where UDP from `from` to `to` with type of service `tos` goes next. None if the kernel knows no neighbour for it yet, or it goes by anything but an
/// Ethernet interface without a queue (a veth's end, a bridge, what lies on such).
pub(super) fn next_hop(
    kernel: &Questions,
    from: SocketAddrV4,
    to: SocketAddrV4,
    tos: u8,
) -> Option<Hop> {
    let (ifindex, gateway) = route(kernel, from, to, tos)?;
    let next = neighbour(kernel, ifindex, gateway)?;
    let (own, mtu) = link(kernel, ifindex)?;
    Some(Hop {
        ifindex,
        own,
        next,
        mtu,
    })
}

fn route(
    kernel: &Questions,
    from: SocketAddrV4,
    to: SocketAddrV4,
    tos: u8,
) -> Option<(u32, Ipv4Addr)> {
    // struct rtmsg: family, lengths of both prefixes, type of service, table, protocol, scope, type, flags
    const FULL: u8 = 32;
    // without the bits of ECN, which choose no route
    let mut body = vec![libc::AF_INET as u8, FULL, FULL, tos & 0xfc];
    body.resize(12, 0);
    push_attribute(&mut body, RTA_DST, &to.ip().octets());
    push_attribute(&mut body, RTA_SRC, &from.ip().octets());
    push_attribute(&mut body, RTA_IP_PROTO, &[libc::IPPROTO_UDP as u8]);
    push_attribute(&mut body, RTA_SPORT, &from.port().to_be_bytes());
    push_attribute(&mut body, RTA_DPORT, &to.port().to_be_bytes());
    kernel.ask((RTM_GETROUTE, RTM_NEWROUTE), &body, |answer| {
        read_route(answer, *to.ip())
    })
}

fn read_route(body: &[u8], to: Ipv4Addr) -> Option<(u32, Ipv4Addr)> {
    let (mut ifindex, mut gateway) = (None, to);
    if *body.get(7)? != RTN_UNICAST {
        return None;
    }
    for (kind, value) in Attributes(body.get(12..)?) {
        match kind {
            RTA_OIF => ifindex = word(value, 0),
            RTA_GATEWAY => gateway = <[u8; 4]>::try_from(value).ok()?.into(),
            RTA_VIA | RTA_ENCAP | RTA_MULTIPATH => return None,
            _ => {}
        }
    }
    Some((ifindex?, gateway))
}

fn neighbour(kernel: &Questions, ifindex: u32, address: Ipv4Addr) -> Option<[u8; 6]> {
    // struct ndmsg: family, padding, interface, state, flags, type
    let mut body = vec![0u8; 12];
    body[0] = libc::AF_INET as u8;
    body[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    push_attribute(&mut body, NDA_DST, &address.octets());
    kernel.ask((RTM_GETNEIGH, RTM_NEWNEIGH), &body, read_neighbour)
}

fn read_neighbour(body: &[u8]) -> Option<[u8; 6]> {
    let state = half(body, 8)?;
    let (_, address) = Attributes(body.get(12..)?).find(|(kind, _)| *kind == NDA_LLADDR)?;
    let address: [u8; 6] = address.try_into().ok()?;
    // a group's address has the lowest bit of its first byte
    (state & USABLE != 0 && address[0] & 1 == 0 && address != [0; 6]).then_some(address)
}

fn link(kernel: &Questions, ifindex: u32) -> Option<([u8; 6], u32)> {
    // struct ifinfomsg: family, padding, type, number, flags, change mask
    let mut body = vec![0u8; 16];
    body[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    push_attribute(
        &mut body,
        IFLA_EXT_MASK,
        &RTEXT_FILTER_SKIP_STATS.to_ne_bytes(),
    );
    kernel.ask((RTM_GETLINK, RTM_NEWLINK), &body, read_link)
}

fn read_link(body: &[u8]) -> Option<([u8; 6], u32)> {
    let kind = half(body, 2)?;
    let flags = word(body, 8)?;
    let (mut own, mut mtu, mut queued) = (None, None, true);
    for (kind, value) in Attributes(body.get(16..)?) {
        match kind {
            IFLA_ADDRESS => own = value.try_into().ok(),
            IFLA_MTU => mtu = word(value, 0),
            IFLA_QDISC => queued = value.split(|&b| b == 0).next() != Some(NO_QUEUE),
            _ => {}
        }
    }
    let usable = kind == libc::ARPHRD_ETHER
        && flags & (IFF_UP | IFF_LOWER_UP) == IFF_UP | IFF_LOWER_UP
        && !queued;
    usable.then_some((own?, mtu?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_answers_lead_nowhere_without_panic() {
        let mut seed = 11u64;
        let mut roll = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u32
        };
        for _ in 0..20_000 {
            let length = roll() as usize % 96;
            let bytes: Vec<u8> = (0..length)
                .map(|_| (roll() % 7 * (roll() % 40)) as u8)
                .collect();
            let _ = read_route(&bytes, Ipv4Addr::LOCALHOST);
            let _ = read_neighbour(&bytes);
            let _ = read_link(&bytes);
        }
    }

    #[test]
    fn only_what_the_kernel_itself_would_send_to_is_a_neighbour() {
        let answer = |state: u16, address: &[u8]| {
            let mut body = vec![0u8; 12];
            body[8..10].copy_from_slice(&state.to_ne_bytes());
            push_attribute(&mut body, NDA_LLADDR, address);
            read_neighbour(&body)
        };
        let address = [2, 0, 0, 0, 0, 7];
        for state in [0x02, 0x04, 0x08, 0x10, 0x80] {
            assert_eq!(answer(state, &address), Some(address));
        }
        // none, incomplete, failed, NOARP
        for state in [0, 0x01, 0x20, 0x40] {
            assert_eq!(answer(state, &address), None);
        }
        assert_eq!(answer(0x02, &[1, 0, 0x5e, 0, 0, 1]), None);
        assert_eq!(answer(0x02, &[0; 6]), None);
        assert_eq!(answer(0x02, &address[..4]), None);
    }
}
