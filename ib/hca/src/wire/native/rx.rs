//! Receiving by the InfiniBand port: messages of other processes of this user, every byte of which
//! is looked at as one from a wire.
//!
//! Owns nothing. Must not know what a packet means to its queue pair.

use std::sync::Arc;

use ferriband_admin::Counter;
use ferriband_attach::packet::WRONG_BYTES;
use ferriband_transport::types::Instant;
use ferriband_transport::{Drop as Lost, GRH_BYTES, PacketMeta};
use ferriband_wire::capture::Fate;
use ferriband_wire::{Gid, NativeHeaders, NextHeader, Packet, VCRC_LEN};

use super::meta::NativeMeta;
use super::path::origin;
use crate::device::counters::PortCounts;
use crate::device::fabric;
use crate::objects::catch::Catch;
use crate::wire::packets::arrived::{GSI, MULTICAST_QPN, destination};
use crate::wire::packets::batch::{Batch, count};
use crate::wire::packets::ways::Ways;
use crate::wire::to::{Deliver, Incoming, Queue, To};

impl<D: Deliver> Batch<D> {
    /// Gives a run of packets to their queue pairs. Says what became of the last one.
    pub(in crate::wire) fn deliver_native(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        meta: &NativeMeta,
        bytes: &[u8],
        catch: &mut Catch<'_>,
    ) -> Fate {
        let port = roce.ports.counts.of(0);
        let headers = &meta.headers;
        // one port: whoever sends has our LID; a GID is ours or a group's
        let right = if fabric::host().is_some() {
            meets_port(headers)
        } else {
            headers.lrh.slid == to.adapter.process().lid
                && match &headers.grh {
                    None => headers.lrh.dlid == to.adapter.process().lid,
                    Some(grh) => {
                        let to_us = headers.lrh.dlid == to.adapter.process().lid
                            && grh.dgid == to.adapter.gid();
                        grh.sgid == to.adapter.gid() && (to_us || grh.dgid.is_multicast())
                    }
                }
        };
        if !right {
            port.add(Counter::WrongSource, 1);
            return Fate::Refused;
        }
        let now = ferriband_memory::wait::now();
        let segment = usize::from(meta.segment.max(1));
        let (mut rest, mut packets) = (bytes, 0);
        let mut fate = Fate::Malformed;
        while !rest.is_empty() {
            let whole = rest;
            let (first, after) = rest.split_at(segment.min(rest.len()));
            rest = after;
            packets += 1;
            fate = Fate::Malformed;
            let Some(qpn) = destination(first) else {
                port.add(Counter::RcvErrors, 1);
                continue;
            };
            if qpn == GSI.0 {
                let checked = headers.check(first);
                let taken =
                    checked.is_ok_and(|transport| to.services.came_by_port(meta, first, transport));
                fate = if taken { Fate::Passed } else { Fate::Refused };
                if !taken {
                    port.add(Counter::UnknownQp, 1);
                }
                continue;
            }
            if qpn == MULTICAST_QPN {
                fate = self.native_group(to, roce, headers, (now, first), catch);
                continue;
            }
            fate = Fate::NoQueuePair;
            let Some(qp) = self.find(to, qpn, false).cloned() else {
                port.add(Counter::UnknownQp, 1);
                continue;
            };
            qp.open_for_datagrams();
            let taken = take_native_run(to, roce, (&qp, port), headers, now, whole, segment);
            let Some((more, became)) = taken else {
                // it has not been connected yet, or not any more
                port.add(Counter::UnknownQp, 1);
                continue;
            };
            // the first of them has been counted
            (fate, packets) = (became, packets + more.saturating_sub(1));
            rest = whole.get(more as usize * segment..).unwrap_or_default();
            self.touch(to, qp, catch);
        }
        count(&roce.counters.packets, packets);
        port.add(Counter::RcvPackets, packets);
        port.add(Counter::RcvData, bytes.len() as u64 / 4);
        fate
    }

    /// A packet for a group: each queue pair of this process that is attached gets it, but the one
    /// that has sent it.
    fn native_group(
        &mut self,
        to: To<'_, D>,
        roce: &Ways,
        headers: &NativeHeaders,
        (now, bytes): (Instant, &[u8]),
        catch: &mut Catch<'_>,
    ) -> Fate {
        let port = roce.ports.counts.of(0);
        let Some(group) = headers.grh.map(|grh| grh.dgid).filter(Gid::is_multicast) else {
            port.add(Counter::UnknownQp, 1);
            return Fate::NoQueuePair;
        };
        let Ok(transport) = headers.check(bytes) else {
            port.add(Counter::RcvErrors, 1);
            port.add(Counter::IcrcErrors, 1);
            return Fate::Malformed;
        };
        let Ok(packet) = Packet::parse(transport) else {
            port.add(Counter::RcvErrors, 1);
            return Fate::Malformed;
        };
        let grh = global_header(headers, bytes.len());
        let about = about(headers, grh.as_ref());
        let sender = packet.ext().deth.map(|deth| deth.src_qpn.0);
        let mut members = Vec::new();
        to.adapter
            .process()
            .registry
            .multicast_members(&group, &mut members);
        let me = to.adapter.process().registry.me();
        let mut fate = Fate::NoQueuePair;
        for member in members.iter().filter(|member| member.process == me) {
            let found = to.adapter.queue(member.qpn.0);
            let Some(qp) = found.filter(|qp| !qp.device().is_ethernet()) else {
                continue;
            };
            if sender == Some(qp.number()) {
                continue;
            }
            qp.open_for_datagrams();
            let from = origin(headers.lrh.slid, headers.lrh.dlid);
            qp.packets_in(to.adapter, now, (from, true), |incoming| {
                if !incoming.take(false, &about, &packet) {
                    tell_wrong_key(roce, incoming.lost(), headers, bytes);
                }
            });
            fate = Fate::Passed;
            self.touch(to, qp, catch);
        }
        fate
    }
}

/// On a host of a fabric: whoever may have sent it, it is to one of the ports, or to a group.
fn meets_port(headers: &NativeHeaders) -> bool {
    let group = headers.grh.is_some_and(|grh| grh.dgid.is_multicast());
    let gid = headers.grh.is_none_or(|grh| fabric::has_gid(grh.dgid));
    group || gid && fabric::port_of_lid(headers.lrh.dlid).is_some()
}

fn about<'a>(headers: &NativeHeaders, grh: Option<&'a [u8; GRH_BYTES as usize]>) -> PacketMeta<'a> {
    PacketMeta {
        slid: headers.lrh.slid,
        sl: headers.lrh.sl,
        dlid_path_bits: fabric::path_bits(headers.lrh.dlid),
        grh,
        ..PacketMeta::default()
    }
}

/// The global route header as it stands before the payload of a packet of `bytes` from BTH to ICRC.
fn global_header(headers: &NativeHeaders, bytes: usize) -> Option<[u8; GRH_BYTES as usize]> {
    let mut grh = [0; GRH_BYTES as usize];
    let header = headers.grh.as_ref()?;
    header.emit(NextHeader::Transport, bytes, &mut grh).ok()?;
    Some(grh)
}

/// On a host of a fabric the port hears of a packet that had another key than its queue pair: it
/// counts that, and tells its manager (IBA 10.9.4, 10.2.4).
#[cold]
fn tell_wrong_key(roce: &Ways, lost: Option<Lost>, headers: &NativeHeaders, bytes: &[u8]) {
    let (Some(lost @ (Lost::PKey | Lost::QKey)), Some(local)) = (lost, roce.ports.local.get())
    else {
        return;
    };
    let port = fabric::port_of_lid(headers.lrh.dlid).unwrap_or_else(fabric::usual);
    let Some(wire) = local.wire(port) else { return };
    let mut beginning = [0; WRONG_BYTES + VCRC_LEN];
    let room = WRONG_BYTES - headers.wire_len();
    let shown = &bytes[..room.min(bytes.len())];
    if let Ok(length) = headers.emit(shown, bytes.len(), &mut beginning) {
        wire.tell_wrong_key(lost, &beginning[..length]);
    }
}

/// The packets at the head of a run that are for one queue pair: how many, and what became of the
/// last one. None if the queue pair takes no packets.
fn take_native_run<D: Deliver>(
    to: To<'_, D>,
    roce: &Ways,
    (qp, port): (&Arc<D::Queue>, &PortCounts),
    headers: &NativeHeaders,
    now: Instant,
    whole: &[u8],
    segment: usize,
) -> Option<(u64, Fate)> {
    let mut result = None;
    let theirs = whole
        .chunks(segment)
        .take_while(|bytes| destination(bytes) == Some(qp.number()));
    let source = origin(headers.lrh.slid, headers.lrh.dlid);
    qp.packets_in(to.adapter, now, (source, true), |incoming| {
        let (mut packets, mut fate) = (0, Fate::Malformed);
        for bytes in theirs {
            packets += 1;
            fate = Fate::Malformed;
            let Ok(transport) = headers.check(bytes) else {
                port.add(Counter::RcvErrors, 1);
                port.add(Counter::IcrcErrors, 1);
                continue;
            };
            let parsed = Packet::parse(transport);
            let Ok(packet) = &parsed else {
                port.add(Counter::RcvErrors, 1);
                continue;
            };
            let grh = match qp.is_datagram() {
                true => global_header(headers, bytes.len()),
                false => None,
            };
            let taken = incoming.take(false, &about(headers, grh.as_ref()), packet);
            fate = if taken { Fate::Passed } else { Fate::Refused };
            if !taken {
                tell_wrong_key(roce, incoming.lost(), headers, bytes);
            }
        }
        result = Some((packets, fate));
    });
    result
}
