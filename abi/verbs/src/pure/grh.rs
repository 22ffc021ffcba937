//! The 40 bytes in front of a received datagram: a GRH, or what RoCEv2 adapters put there instead.
//!
//! RoCEv2 over IPv6 delivers the IPv6 header, which has the GRH's layout; over IPv4 the 20-byte IPv4 header lies in the
//! last half (IBA annex A17.4.5.2). Which one it is must be told from the bytes alone.

/// The header of the network layer, as the receiver needs it to answer.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Header {
    /// IPv4 of RoCEv2; addresses in wire order.
    V4 {
        /// Sender.
        source: [u8; 4],
        /// Receiver: our address.
        destination: [u8; 4],
        /// Time to live as received.
        hop_limit: u8,
        /// Type of service.
        traffic_class: u8,
    },
    /// GRH, or IPv6 of RoCEv2.
    V6 {
        /// Sender.
        source: [u8; 16],
        /// Receiver: our GID.
        destination: [u8; 16],
        /// The protocol that follows: 0x1b for the BTH of native InfiniBand and RoCEv1, 17 for UDP.
        next_header: u8,
        /// Hop limit as received.
        hop_limit: u8,
        /// Traffic class.
        traffic_class: u8,
    },
}

/// The flow label, the low 20 bits of the first word.
pub fn flow_label(bytes: &[u8; 40]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) & 0xf_ffff
}

/// Reads the header; None if it is neither.
///
/// A first nibble of 6 is not decisive: in front of an IPv4 header the first 20 bytes are undefined. An IPv4 header with a
/// right checksum is believed.
pub fn parse(bytes: &[u8; 40]) -> Option<Header> {
    let (front, tail) = bytes.split_at(20);
    let is_v6 = front[0] >> 4 == 6;
    let is_v4 = tail[0] >> 4 == 4;
    let checks = tail[0] & 0xf == 5 && checksum_is_right(tail);
    if is_v4 && (!is_v6 || checks) {
        return Some(Header::V4 {
            source: part(bytes, 32),
            destination: part(bytes, 36),
            hop_limit: tail[8],
            traffic_class: tail[1],
        });
    }
    is_v6.then(|| Header::V6 {
        source: part(bytes, 8),
        destination: part(bytes, 24),
        next_header: bytes[6],
        hop_limit: bytes[7],
        traffic_class: bytes[0] << 4 | bytes[1] >> 4,
    })
}

fn part<const N: usize>(bytes: &[u8; 40], from: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[from + index])
}

/// RFC 791: the one's complement sum of all 16-bit words of an intact header is all ones.
fn checksum_is_right(header: &[u8]) -> bool {
    let mut sum: u32 = header
        .chunks_exact(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

/// An IPv4 address as a GID: ::ffff:a.b.c.d.
pub fn mapped(address: [u8; 4]) -> [u8; 16] {
    std::net::Ipv4Addr::from(address).to_ipv6_mapped().octets()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 header from RFC 1071's arithmetic, worked by hand: 192.168.0.1 to 192.168.0.199, checksum 0xb861.
    const V4: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];

    fn behind(front: u8) -> [u8; 40] {
        let mut bytes = [front; 40];
        bytes[20..].copy_from_slice(&V4);
        bytes
    }

    #[test]
    fn ipv4_is_found_behind_any_front() {
        for front in [0, 0x60, 0xff] {
            let expected = Header::V4 {
                source: [192, 168, 0, 1],
                destination: [192, 168, 0, 199],
                hop_limit: 64,
                traffic_class: 0,
            };
            assert_eq!(parse(&behind(front)), Some(expected), "front {front:#x}");
        }
    }

    #[test]
    fn a_grh_whose_gid_looks_like_ipv4_stays_a_grh() {
        let mut bytes = behind(0x60);
        bytes[30] ^= 1;
        assert!(
            matches!(parse(&bytes), Some(Header::V6 { .. })),
            "the checksum is wrong"
        );
    }

    #[test]
    fn a_grh_gives_its_fields() {
        let mut bytes = [0u8; 40];
        bytes[..8].copy_from_slice(&[0x61, 0x23, 0x45, 0x67, 0, 8, 0x1b, 63]);
        bytes[8] = 0xfe;
        bytes[39] = 7;
        let mut source = [0; 16];
        source[0] = 0xfe;
        let mut destination = [0; 16];
        destination[15] = 7;
        let expected = Header::V6 {
            source,
            destination,
            next_header: 0x1b,
            hop_limit: 63,
            traffic_class: 0x12,
        };
        assert_eq!(parse(&bytes), Some(expected));
        assert_eq!(flow_label(&bytes), 0x34567);
    }

    #[test]
    fn anything_else_is_nothing() {
        assert_eq!(parse(&[0; 40]), None);
    }

    #[test]
    fn ipv4_maps_to_the_gid_of_rocev2() {
        assert_eq!(
            mapped([10, 0, 0, 1]),
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]
        );
    }
}
