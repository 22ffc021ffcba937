//! Receiving: datagrams to packets, packets to queue pairs.
//!
//! Owns the buffers of one round and the lock under which a process's packets are handled, which keeps each queue pair's in order.
//! Must not know what a packet means. Every byte comes from a stranger: what is not whole, not for us or not from whom it claims is counted
//! and dropped.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use ferriband_memory::net::{RxMeta, RxRing, RxSocket};
use ferriband_transport::{GRH_BYTES, PacketMeta};
use ferriband_wire::{Grh, Ipv4, NextHeader, Packet, RoceHeaders, RoceIp, check_datagram};

use crate::cq::Catch;
use crate::engine::Engine;
use crate::qp::Qp;

/// Datagrams (each a run of packets) taken in one round.
const ROUND_DATAGRAMS: usize = 8;
/// A UDP header.
const UDP_BYTES: usize = 8;
/// Queue pairs whose answers wait for the end of a round.
const TOUCHED: usize = 16;

/// What came and what became of it.
#[derive(Debug, Default)]
pub(crate) struct RxCounters {
    pub packets: AtomicU64,
    pub bytes: AtomicU64,
    /// Not a RoCEv2 packet, or its ICRC is wrong.
    pub malformed: AtomicU64,
    /// No such queue pair, or it does not take packets from there.
    pub unwanted: AtomicU64,
}

fn count(counter: &AtomicU64, by: u64) {
    // one thread at a time counts, under the lock of the round
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

/// The state of a round.
pub(crate) struct RxSide {
    ring: RxRing,
    /// Where the last packet went, with the version of the table in which it was found.
    last: Option<(u64, Arc<Qp>)>,
    touched: ArrayVec<Arc<Qp>, TOUCHED>,
    /// Queue pairs that keep an acknowledgement back.
    owing: ArrayVec<Arc<Qp>, TOUCHED>,
}

impl std::fmt::Debug for RxSide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RxSide")
    }
}

impl RxSide {
    pub fn new() -> Self {
        RxSide {
            ring: RxRing::new(),
            last: None,
            touched: ArrayVec::new(),
            owing: ArrayVec::new(),
        }
    }

    /// Nothing came: acknowledgements that no reply took along go now.
    pub fn idle(&mut self, engine: &Engine) {
        for qp in self.owing.drain(..) {
            qp.send_owed(engine);
        }
    }

    /// Takes what has arrived at a socket. True if anything had.
    pub fn take(
        &mut self,
        engine: &Engine,
        socket: &RxSocket,
        counters: &RxCounters,
        catch: &mut Catch<'_>,
    ) -> bool {
        let Ok(messages) = socket.receive(&mut self.ring, ROUND_DATAGRAMS) else {
            return false;
        };
        let RxSide {
            ring,
            last,
            touched,
            owing,
        } = self;
        let version = engine.qps_version.load(Ordering::Acquire);
        if last
            .as_ref()
            .is_some_and(|(found_in, _)| *found_in != version)
        {
            *last = None;
        }
        for (meta, bytes) in ring.messages() {
            for datagram in bytes.chunks(meta.segment.max(1).into()) {
                count(&counters.packets, 1);
                count(&counters.bytes, datagram.len() as u64);
                let Some((packet, grh)) = open(meta, datagram) else {
                    count(&counters.malformed, 1);
                    continue;
                };
                let qpn = packet.bth().dest_qpn.0;
                if last.as_ref().is_none_or(|(_, qp)| qp.qpn != qpn) {
                    *last = engine.qp_by_number(qpn).map(|qp| (version, qp));
                }
                let Some((_, qp)) = last else {
                    count(&counters.unwanted, 1);
                    continue;
                };
                let about = PacketMeta {
                    grh: Some(&grh),
                    ..PacketMeta::default()
                };
                if !qp.packet_in(engine, meta.source, &about, &packet) {
                    count(&counters.unwanted, 1);
                }
                if !touched.iter().any(|other| Arc::ptr_eq(other, qp)) {
                    if touched.is_full() {
                        turn(engine, touched, owing, catch);
                    }
                    touched.push(qp.clone());
                }
            }
        }
        turn(engine, touched, owing, catch);
        messages > 0
    }
}

/// What a batch of packets brought is answered and told.
fn turn(
    engine: &Engine,
    touched: &mut ArrayVec<Arc<Qp>, TOUCHED>,
    owing: &mut ArrayVec<Arc<Qp>, TOUCHED>,
    catch: &mut Catch<'_>,
) {
    for qp in touched.drain(..) {
        if !qp.turn_packets(engine, catch) || owing.iter().any(|other| Arc::ptr_eq(other, &qp)) {
            continue;
        }
        if let Err(full) = owing.try_push(qp) {
            full.element().send_owed(engine);
        }
    }
}

/// The packet in a datagram, if it is whole, and the network header as it stands before a received datagram's payload.
fn open<'a>(meta: &RxMeta, datagram: &'a [u8]) -> Option<(Packet<'a>, [u8; GRH_BYTES as usize])> {
    let ip = match (meta.source, meta.destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => RoceIp::v4(from, to, 0),
        (IpAddr::V6(from), IpAddr::V6(to)) => RoceIp::v6(from, to),
        _ => return None,
    };
    let headers = RoceHeaders {
        ip,
        source_port: meta.source_port,
    };
    let (transport, _) = check_datagram(&headers, datagram).ok()?;
    let packet = Packet::parse(transport).ok()?;
    let mut grh = [0; GRH_BYTES as usize];
    // an IPv4 header takes the place of the last twenty bytes (annex A17)
    let at = grh.len() - ip.wire_len();
    let udp_len = UDP_BYTES + datagram.len();
    match ip.with_traffic_class(meta.tos) {
        RoceIp::V4(header) => Ipv4 {
            ttl: meta.hop_limit,
            ..header
        }
        .emit(udp_len, &mut grh[at..])
        .ok()?,
        RoceIp::V6(header) => Grh {
            hop_limit: meta.hop_limit,
            ..header
        }
        .emit(NextHeader::Udp, udp_len, &mut grh)
        .ok()?,
    };
    Some((packet, grh))
}
