//! What the kernel says of a run of RoCEv2's packets, and the headers below theirs that follow from
//! it.
//!
//! Owns how it is written for a process that the run is handed over to. Must not know queue pairs.

use std::net::IpAddr;

use ferriband_memory::host::HAND_OVER_HEAD;
use ferriband_memory::net::RxMeta;
use ferriband_transport::GRH_BYTES;
use ferriband_wire::{Gid, Grh, Ipv4, NextHeader, RoceHeaders, RoceIp, Sl};

use crate::device::{address_of, gid_of};

/// A UDP header.
const UDP_BYTES: usize = 8;

/// What the kernel said of a run, for the process that it is handed over to; `segment` is the
/// length of its packets.
pub(crate) fn write_meta(meta: &RxMeta, segment: u16) -> [u8; HAND_OVER_HEAD] {
    let mut head = [0; HAND_OVER_HEAD];
    head[0] = if meta.source.is_ipv6() { 6 } else { 4 };
    (head[1], head[2]) = (meta.tos, meta.hop_limit);
    head[4..6].copy_from_slice(&meta.source_port.to_be_bytes());
    head[6..8].copy_from_slice(&segment.to_be_bytes());
    head[8..12].copy_from_slice(&meta.ifindex.to_be_bytes());
    head[16..32].copy_from_slice(&gid_of(meta.source).0);
    head[32..48].copy_from_slice(&gid_of(meta.destination).0);
    head
}

/// What [`write_meta`] wrote; None if it is none of ours.
pub(crate) fn read_meta(head: &[u8]) -> Option<RxMeta> {
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let address = |at: usize| -> Option<IpAddr> {
        let bytes: [u8; 16] = head[at..at + 16].try_into().ok()?;
        let address = address_of(&Gid(bytes));
        (address.is_ipv6() == (head[0] == 6)).then_some(address)
    };
    Some(RxMeta {
        source: address(16)?,
        source_port: word(4),
        destination: address(32)?,
        ifindex: u32::from(word(8)) << 16 | u32::from(word(10)),
        tos: head[1],
        hop_limit: head[2],
        segment: word(6),
    })
}

/// What stands for the service level in the completion of a RoCEv2 datagram, which has none: the
/// kind of its network header, as ConnectX adapters report it. A completion has no other place for
/// what annex A17 (A17.4.5.1) asks it to tell, and UCX before 1.14 reads it there.
pub(in crate::wire) fn header_kind(meta: &RxMeta) -> Sl {
    const UDP: u8 = 8;
    const IPV6: u8 = 1;
    const IPV4: u8 = 2;
    Sl(UDP | if meta.source.is_ipv4() { IPV4 } else { IPV6 })
}

/// What the kernel shows of the headers below the packets of a run.
pub(crate) fn headers_of(meta: &RxMeta) -> Option<RoceHeaders> {
    let ip = match (meta.source, meta.destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => RoceIp::v4(from, to, 0),
        (IpAddr::V6(from), IpAddr::V6(to)) => RoceIp::v6(from, to),
        _ => return None,
    };
    Some(RoceHeaders {
        ip,
        source_port: meta.source_port,
    })
}

/// The network header as it stands before a received datagram's payload; an IPv4 header takes the
/// place of the last twenty bytes (annex A17).
pub(in crate::wire) fn network_header(
    headers: &RoceHeaders,
    meta: &RxMeta,
    datagram_bytes: usize,
) -> [u8; GRH_BYTES as usize] {
    let mut grh = [0; GRH_BYTES as usize];
    let udp_bytes = UDP_BYTES + datagram_bytes;
    let written = match headers.ip.with_traffic_class(meta.tos) {
        RoceIp::V4(header) => {
            let at = grh.len() - headers.ip.wire_len();
            let header = Ipv4 {
                ttl: meta.hop_limit,
                ..header
            };
            header.emit(udp_bytes, &mut grh[at..]).map(|_| ())
        }
        RoceIp::V6(header) => {
            let header = Grh {
                hop_limit: meta.hop_limit,
                ..header
            };
            header
                .emit(NextHeader::Udp, udp_bytes, &mut grh)
                .map(|_| ())
        }
    };
    debug_assert!(written.is_ok(), "a datagram's length fits its headers");
    grh
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_head_of_a_hand_over_is_read_or_refused_and_a_right_one_comes_back() {
        let mut state = 7u64;
        let mut next = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        let (mut read, mut refused) = (0, 0);
        for round in 0..100_000 {
            let mut head = [0; HAND_OVER_HEAD];
            head.fill_with(&mut next);
            if round % 2 == 0 {
                // addresses of the family that it says, both or one of them
                head[0] = 4;
                for at in [16, 32] {
                    head[at..at + 12].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255]);
                }
                head[16] = u8::from(round % 4 == 0);
            }
            match read_meta(&head) {
                Some(meta) => {
                    read += 1;
                    assert_eq!(read_meta(&write_meta(&meta, meta.segment)), Some(meta));
                }
                None => refused += 1,
            }
        }
        assert!(read > 10_000 && refused > 10_000, "{read} {refused}");
    }
}
