//! The source ports of RoCEv2: sockets that send, and which of them a flow has.
//!
//! Owns the sockets. Must not know: queue pairs' state.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock};

use ferriband_memory::net::{TxOptions, TxPort};

use crate::base::error::Error;
use crate::device::counters::AllCounts;
use crate::lock;
use crate::wire::native::port::LocalPort;
use crate::wire::packets::hooks::Hooks;

/// Ports of a process, each a socket; beyond it flows share.
const MOST_PORTS: usize = 64;
/// Those of them that have one destination.
const MOST_FOR_ONE: usize = 32;
/// Source ports lie above this (annex A17 and the kernel: flow label to port).
pub(in crate::wire) const FIRST_PORT: u16 = 0xC000;
/// Ports that are tried when one is taken, and how far apart: programs tend to take neighbours.
const NEAR_PORTS: u16 = 8;
const PORT_STRIDE: u16 = 1009;

/// What tells sending sockets apart: source address, interface, port, traffic class, hop limit, and
/// the destination of those that have one.
type PortKey = (IpAddr, u32, u16, u8, u8, Option<SocketAddr>);

/// How the packets of a path are spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spread {
    /// A reliable connection's: all to one place, for long, and if the peer does not understand
    /// them, that is seen.
    Reliable,
    /// An unreliable connection's: all to one place.
    One,
    /// Datagrams to many.
    Many,
}

/// The sockets that send, and what stands in the way of packets.
#[derive(Debug)]
pub(crate) struct PortPool {
    ports: Mutex<BTreeMap<PortKey, Arc<TxPort>>>,
    /// The InfiniBand port's, once a queue pair of it takes packets.
    pub local: OnceLock<Arc<LocalPort>>,
    /// What goes and comes is counted here.
    pub counts: AllCounts,
    pub(in crate::wire) hooks: Arc<Hooks>,
}

impl PortPool {
    pub fn new(counts: AllCounts, hooks: Arc<Hooks>) -> Self {
        PortPool {
            ports: Mutex::default(),
            local: OnceLock::new(),
            counts,
            hooks,
        }
    }

    pub(in crate::wire) fn get(
        &self,
        how: &TxOptions,
        to: &SocketAddr,
        spread: Spread,
    ) -> Result<Arc<TxPort>, Error> {
        let mut ports = lock(&self.ports);
        let key = |to| {
            (
                how.source,
                how.ifindex,
                how.port,
                how.tos,
                how.hop_limit,
                to,
            )
        };
        // for IPv4 the socket that sends most to one place keeps the way: see TxPort::send_flow
        if spread != Spread::Many && to.is_ipv6() {
            if let Some(port) = ports.get(&key(Some(*to))) {
                return Ok(port.clone());
            }
            let for_one =
                |ports: &BTreeMap<PortKey, _>| ports.keys().filter(|key| key.5.is_some()).count();
            if for_one(&ports) >= MOST_FOR_ONE {
                // those of connections that have ended
                ports.retain(|key, port| key.5.is_none() || Arc::strong_count(port) > 1);
            }
            if for_one(&ports) < MOST_FOR_ONE && ports.len() < MOST_PORTS {
                let port = Arc::new(bind_near(how, |how| TxPort::bind_for(how, to))?);
                ports.insert(key(Some(*to)), port.clone());
                return Ok(port);
            }
        }
        if let Some(port) = ports.get(&key(None)) {
            return Ok(port.clone());
        }
        if ports.len() >= MOST_PORTS {
            let alike = ports
                .iter()
                .find(|((source, ifindex, _, tos, hops, _), _)| {
                    (*source, *ifindex, *tos, *hops)
                        == (how.source, how.ifindex, how.tos, how.hop_limit)
                });
            if let Some((_, port)) = alike {
                return Ok(port.clone());
            }
        }
        let port = Arc::new(bind_near(how, TxPort::bind)?);
        ports.insert(key(None), port.clone());
        Ok(port)
    }
}

/// Another process may have the port: the next one tells flows apart as well, and so does any that
/// the kernel has left.
fn bind_near(
    how: &TxOptions,
    bind: impl Fn(&TxOptions) -> Result<TxPort, ferriband_memory::Error>,
) -> Result<TxPort, Error> {
    let near = (1..NEAR_PORTS).map(|step| FIRST_PORT | how.port.wrapping_add(step * PORT_STRIDE));
    let mut result = bind(how);
    for port in near.chain([0]) {
        if !matches!(&result, Err(error) if error.errno() == libc::EADDRINUSE) {
            break;
        }
        result = bind(&TxOptions { port, ..*how });
    }
    Ok(result?)
}

/// The source port of a flow: from the flow label if one is given, else from both queue pair
/// numbers (the rule of the Linux kernel's `rdma_flow_label_to_udp_sport` and
/// `rdma_calc_flow_label`, which peers and switches know).
pub(in crate::wire) fn source_port(flow_label: u32, local_qpn: u32, remote_qpn: u32) -> u16 {
    let label = if flow_label & 0xf_ffff != 0 {
        flow_label & 0xf_ffff
    } else {
        let mut mixed = u64::from(local_qpn) * u64::from(remote_qpn);
        mixed ^= mixed >> 20;
        mixed ^= mixed >> 40;
        mixed as u32 & 0xf_ffff
    };
    let (low, high) = (label & 0x3fff, (label & 0xf_c000) >> 14);
    (low ^ high) as u16 | FIRST_PORT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_that_want_one_port_get_one_each() {
        let how = TxOptions {
            source: "127.0.0.77".parse().unwrap(),
            ifindex: 0,
            port: 0xebe2,
            tos: 0,
            hop_limit: 64,
            frames: false,
        };
        let bound: Vec<TxPort> = (0..12)
            .map(|_| bind_near(&how, TxPort::bind).unwrap())
            .collect();
        let mut ports: Vec<u16> = bound.iter().map(TxPort::port).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 12);
        // nor does any of them take what is another program's
        let other = std::net::UdpSocket::bind(("127.0.0.78", 0)).unwrap();
        let taken = other.local_addr().unwrap().port();
        let near = TxOptions {
            source: "127.0.0.78".parse().unwrap(),
            port: taken,
            ..how
        };
        assert_ne!(bind_near(&near, TxPort::bind).unwrap().port(), taken);
    }

    #[test]
    fn the_source_port_follows_the_kernels_rule() {
        // seen in a capture of the kernel's connection manager: flow label and port of one
        // connection
        assert_eq!(source_port(0x0_2be2, 1, 1), 0xebe2);
        assert!(source_port(0, 17, 0x123) >= FIRST_PORT);
    }
}
