//! Packets for queue pair 1: whose message each is, and that it gets there.
//!
//! Owns nothing; a message that nobody listens for yet is kept in [`super::unheard`]. Must not know
//! sockets. Every byte comes from a stranger.

use ferriband_cm::Route;
use ferriband_memory::host::HAND_OVER_HEAD;
use ferriband_memory::net::RxMeta;
use ferriband_transport::types::AddressVector;
use ferriband_wire::mad::{GSI_QKEY, MAD_LEN};
use ferriband_wire::{Gid, Lid, Opcode, Packet, check_datagram};

use super::Cm;
use super::outbox::Refused;
use super::owner::{Owner, owner_of_far_mad, owner_of_mad};
use super::post::{hand_to, speaks_for_host};
use super::route::{far, place_of_gid};
use crate::base::limits;
use crate::device::fabric::Way;
use crate::device::{self, fabric, gid_of};
use crate::progress::Engine;
use crate::wire::native::meta::NativeMeta;
use crate::wire::packets::arrived::{GSI, ICRC_BYTES, destination};
use crate::wire::roce::head::{headers_of, read_meta, write_meta};
use crate::wire::to::Services;

impl Services for Engine {
    fn came(&self, meta: &RxMeta, datagram: &[u8], transport: &[u8], handed: bool) -> bool {
        let patience = match handed {
            true => Patience::Handed,
            false => Patience::Fresh,
        };
        general_services(self, meta, datagram, transport, patience)
    }

    fn came_by_port(&self, meta: &NativeMeta, packet: &[u8], transport: &[u8]) -> bool {
        take_mad(self, meta.from, transport)
            || take_far_mad(self, meta, packet, transport, Patience::Fresh)
    }

    fn is_anothers(&self, meta: &RxMeta, datagram: &[u8]) -> bool {
        is_anothers(self, meta, datagram)
    }
}

/// What may still be done with a packet for queue pair 1.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// It has just come.
    Fresh,
    /// Another process handed it over: going round once is enough.
    Handed,
    /// It has waited for a listener, and waits on if there is none.
    Waiting,
    /// It has waited long enough.
    Over,
}

/// Looks again whether somebody listens for a request that was kept. False if nobody does and it is
/// to wait on; never if this is the last time.
pub(crate) fn ask_again(
    engine: &Engine,
    head: &[u8; HAND_OVER_HEAD],
    datagram: &[u8],
    last: bool,
) -> bool {
    let patience = if last {
        Patience::Over
    } else {
        Patience::Waiting
    };
    if let Some(meta) = NativeMeta::read(head, None) {
        return ask_again_of_fabric(engine, &meta, datagram, patience) || last;
    }
    let Some(meta) = read_meta(head) else {
        return true;
    };
    let whole = headers_of(&meta).and_then(|headers| check_datagram(&headers, datagram).ok());
    let Some((transport, _)) = whole else {
        return true;
    };
    general_services(engine, &meta, datagram, transport, patience) || last
}

/// The management datagram in a packet from queue pair 1 to queue pair 1.
fn mad_of(transport: &[u8]) -> Option<[u8; MAD_LEN]> {
    let packet = Packet::parse(transport).ok()?;
    let asks = packet
        .ext()
        .deth
        .is_some_and(|deth| deth.qkey == GSI_QKEY && deth.src_qpn == GSI);
    let pkey = packet.bth().pkey.0 & 0x7fff == limits::DEFAULT_PKEY & 0x7fff;
    let right = packet.opcode() == Opcode::UdSendOnly && asks && pkey;
    packet.payload.try_into().ok().filter(|_| right)
}

/// A packet for queue pair 1: a message of the connection manager, or nobody's. False if it is not
/// taken.
fn general_services(
    engine: &Engine,
    meta: &RxMeta,
    datagram: &[u8],
    transport: &[u8],
    patience: Patience,
) -> bool {
    let Some(mad) = mad_of(transport) else {
        return false;
    };
    let mad = &mad;
    let to = gid_of(meta.destination);
    // the datagram as it is: the answer goes back over the network
    let head = || write_meta(meta, datagram.len() as u16);
    match (owner_of_mad(engine, &to, mad), patience) {
        (_, Patience::Handed)
        | (Owner::Here | Owner::Nobody, _)
        | (Owner::Unheard, Patience::Over) => {}
        (Owner::Other(slot), _) => match hand_to(engine, slot, &head(), datagram) {
            Ok(()) => return true,
            Err(Refused::Full | Refused::Unsent) => return false,
            // it has died, and the registry lists it for a moment longer
            Err(Refused::Gone) => {}
        },
        (Owner::Unheard, Patience::Waiting) => return false,
        (Owner::Unheard, Patience::Fresh) => {
            // refused at once if too many wait already
            if Cm::of(engine).keep_packet(engine, &head(), datagram) {
                return true;
            }
        }
    }
    // what is nobody's may have come to a process that has no device there: it is answered for the
    // host
    let Some((device, index)) = device::answering(meta.destination, meta.ifindex) else {
        return false;
    };
    let from = Route::Gsi {
        device: device.info.index as u16,
        sgid_index: index,
        av: AddressVector {
            dgid: gid_of(meta.source),
            sgid_index: index,
            traffic_class: meta.tos & !3,
            hop_limit: 64,
            is_global: true,
            port_num: device.usual_port(),
            ..AddressVector::default()
        },
    };
    Cm::of(engine).message(engine, from, Some(to), mad);
    true
}

/// True if a packet is to be handed over to another process.
#[cold]
fn is_anothers(engine: &Engine, meta: &RxMeta, datagram: &[u8]) -> bool {
    match destination(datagram) {
        Some(qpn) if qpn == GSI.0 => {
            let to = gid_of(meta.destination);
            let mad = datagram
                .get(..datagram.len().saturating_sub(ICRC_BYTES))
                .and_then(|transport| Packet::parse(transport).ok())
                .and_then(|packet| <&[u8; MAD_LEN]>::try_from(packet.payload).ok());
            mad.is_some_and(|mad| matches!(owner_of_mad(engine, &to, mad), Owner::Other(_)))
        }
        Some(qpn) => {
            let owner = engine.owner_of_packets(qpn);
            owner.is_some_and(|owner| owner != engine.process.registry.me())
        }
        None => false,
    }
}

/// A packet for queue pair 1: a message of another process's connection manager. False for anything
/// else.
fn take_mad(engine: &Engine, from: Option<u32>, transport: &[u8]) -> bool {
    let Some((slot, mad)) = from.zip(mad_of(transport)) else {
        return false;
    };
    Cm::of(engine).message_in_packet(engine, slot, &mad);
    true
}

/// A packet for queue pair 1 that came by a fabric: a message of another host's connection manager,
/// which all processes of this host get that have opened the port. False if it is none, or if it is
/// to wait on.
fn take_far_mad(
    engine: &Engine,
    meta: &NativeMeta,
    packet: &[u8],
    transport: &[u8],
    patience: Patience,
) -> bool {
    let mad = match (meta.from, fabric::host()) {
        (None, Some(_)) => mad_of(transport),
        _ => None,
    };
    let Some(mad) = mad else { return false };
    let own = engine.gid();
    match (owner_of_far_mad(engine, &own, &mad), patience) {
        // that process gets it, too
        (Owner::Other(_), _) => return true,
        (Owner::Unheard | Owner::Nobody, _) if !speaks_for_host(engine) => return true,
        (Owner::Unheard, Patience::Waiting) => return false,
        (Owner::Unheard, Patience::Fresh)
            if Cm::of(engine).keep_packet(engine, &meta.to_head(), packet) =>
        {
            return true;
        }
        _ => {}
    }
    let Some(place) = place_of_gid(&own, Lid(0)) else {
        return false;
    };
    let headers = &meta.headers;
    let way = Way {
        lid: headers.lrh.slid,
        sl: headers.lrh.sl,
        ..Way::default()
    };
    let sender = headers.grh.map_or(Gid::default(), |grh| grh.sgid);
    let from = far(&place, sender, way);
    Cm::of(engine).message(engine, from, Some(own), &mad);
    true
}

/// As [`ask_again`], for a packet that came by a fabric.
fn ask_again_of_fabric(
    engine: &Engine,
    meta: &NativeMeta,
    packet: &[u8],
    patience: Patience,
) -> bool {
    match meta.headers.check(packet) {
        Ok(transport) => take_far_mad(engine, meta, packet, transport, patience),
        Err(_) => true,
    }
}
