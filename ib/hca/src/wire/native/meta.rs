//! What is known of a run of the InfiniBand port's packets: how its message's head says it.
//!
//! Owns the head. Must not know sockets or queue pairs. Every byte comes from a stranger.

use ferriband_memory::host::HAND_OVER_HEAD;
use ferriband_wire::{
    Gid, Grh, Lid, LinkNext, Lrh, NativeHeaders, NativePacket, NextHeader, Sl, VCRC_LEN, Vl,
};

/// A BTH and an ICRC: what any packet has.
const LEAST_PACKET: u16 = 16;
/// First byte of a message's head.
const HEAD_PACKETS: u8 = b'I';
/// Second byte: there is a GRH.
const HAS_GRH: u8 = 1;

/// What is known of a run of packets that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NativeMeta {
    /// Below the transport header.
    pub headers: NativeHeaders,
    /// Bytes of each packet but the last; what comes has no room for less than a BTH and an ICRC.
    pub segment: u16,
    /// Slot of the process that sent them, as the kernel says it.
    pub from: Option<u32>,
}

impl NativeMeta {
    pub fn to_head(self) -> [u8; HAND_OVER_HEAD] {
        let mut head = [0; HAND_OVER_HEAD];
        let lrh = &self.headers.lrh;
        head[0] = HEAD_PACKETS;
        head[2] = lrh.sl.0;
        head[4..6].copy_from_slice(&self.segment.to_be_bytes());
        head[6..8].copy_from_slice(&lrh.slid.0.to_be_bytes());
        head[8..10].copy_from_slice(&lrh.dlid.0.to_be_bytes());
        if let Some(grh) = &self.headers.grh {
            head[1] = HAS_GRH;
            (head[3], head[10]) = (grh.hop_limit, grh.traffic_class);
            head[12..16].copy_from_slice(&grh.flow_label.to_be_bytes());
            head[16..32].copy_from_slice(&grh.sgid.0);
            head[32..48].copy_from_slice(&grh.dgid.0);
        }
        head
    }

    /// Of a whole packet, LRH to VCRC, and its bytes from BTH to ICRC; None for what is none.
    pub(in crate::wire) fn of_packet(packet: &[u8]) -> Option<(Self, &[u8])> {
        NativePacket::check_vcrc(packet).ok()?;
        let body = packet.len().checked_sub(VCRC_LEN)?;
        let (lrh, next, length, _) = Lrh::parse(packet).ok()?;
        let rest = packet.get(Lrh::LEN..body)?;
        let (grh, bytes) = match next {
            LinkNext::Transport => (None, rest),
            LinkNext::Global => {
                let (grh, length, bytes) = Grh::parse(rest, NextHeader::Transport).ok()?;
                (length == bytes.len()).then_some((Some(grh), bytes))?
            }
            _ => return None,
        };
        let segment = u16::try_from(bytes.len()).ok()?;
        let headers = NativeHeaders { lrh, grh };
        (length == body && segment >= LEAST_PACKET).then_some((
            NativeMeta {
                headers,
                segment,
                from: None,
            },
            bytes,
        ))
    }

    /// From a message's head, and who sent it; None if it is none of ours.
    pub fn read(head: &[u8], from: Option<u32>) -> Option<Self> {
        let head: &[u8; HAND_OVER_HEAD] = head.try_into().ok()?;
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let gid = |at: usize| Some(Gid(head.get(at..at + 16)?.try_into().ok()?));
        let known = head[0] == HEAD_PACKETS && head[1] & !HAS_GRH == 0 && head[2] < 16;
        let segment = half(4);
        if !known || segment < LEAST_PACKET || head[12] != 0 || head[13] > 0xf {
            return None;
        }
        let grh = match head[1] {
            0 => None,
            _ => Some(Grh {
                traffic_class: head[10],
                flow_label: u32::from_be_bytes([0, head[13], head[14], head[15]]),
                hop_limit: head[3],
                sgid: gid(16)?,
                dgid: gid(32)?,
            }),
        };
        Some(NativeMeta {
            headers: NativeHeaders {
                lrh: Lrh {
                    vl: Vl(0),
                    sl: Sl(head[2]),
                    dlid: Lid(half(8)),
                    slid: Lid(half(6)),
                },
                grh,
            },
            segment,
            from,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_head_is_read_or_refused_and_a_right_one_comes_back() {
        let mut state = 11u64;
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
                head[0] = HEAD_PACKETS;
                head[1] &= HAS_GRH;
                head[2] &= 0xf;
                head[12] = 0;
                head[13] &= 0xf;
            }
            match NativeMeta::read(&head, Some(3)) {
                Some(meta) => {
                    read += 1;
                    assert_eq!(NativeMeta::read(&meta.to_head(), Some(3)), Some(meta));
                }
                None => refused += 1,
            }
        }
        assert!(read > 10_000 && refused > 10_000, "{read} {refused}");
        assert_eq!(NativeMeta::read(&[], None), None);
    }
}
