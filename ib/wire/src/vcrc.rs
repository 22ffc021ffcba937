//! Variant CRC (IBA 7.8.2): CRC-16 with the polynomial x^16 + x^12 + x^3 + x + 1 over everything from the LRH to the
//! ICRC, as the link sees it; every switch that changes a header computes it anew. Like the ICRC it takes the least
//! significant bit of each byte first, starts from ones, is complemented and travels low byte first.

/// 0x100b with its bits reversed, as a register that shifts right needs it.
const POLYNOMIAL: u16 = 0x100b_u16.reverse_bits();

/// `TABLES[k][b]`: the CRC of byte `b` followed by `k` zero bytes, so that eight bytes take eight independent look-ups.
static TABLES: [[u16; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ POLYNOMIAL
            } else {
                crc >> 1
            };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[k - 1][byte];
            tables[k][byte] = crc >> 8 ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
};

/// The VCRC of `bytes` (LRH to ICRC). `vcrc(..).to_le_bytes()` is what follows them on the wire.
pub fn vcrc(bytes: &[u8]) -> u16 {
    let mut crc = u16::MAX;
    let mut eights = bytes.chunks_exact(8);
    for eight in eights.by_ref() {
        let [low, high] = crc.to_le_bytes();
        crc = TABLES[7][usize::from(eight[0] ^ low)]
            ^ TABLES[6][usize::from(eight[1] ^ high)]
            ^ TABLES[5][usize::from(eight[2])]
            ^ TABLES[4][usize::from(eight[3])]
            ^ TABLES[3][usize::from(eight[4])]
            ^ TABLES[2][usize::from(eight[5])]
            ^ TABLES[1][usize::from(eight[6])]
            ^ TABLES[0][usize::from(eight[7])];
    }
    for byte in eights.remainder() {
        let [low, _] = crc.to_le_bytes();
        crc = crc >> 8 ^ TABLES[0][usize::from(byte ^ low)];
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bit by bit and in the other direction: long division of the message, most significant coefficient first.
    fn by_division(bytes: &[u8]) -> u16 {
        let mut remainder: u32 = 0xffff;
        for byte in bytes {
            for bit in 0..8 {
                let incoming = u32::from(byte >> bit & 1);
                let carry = (remainder >> 15 & 1) ^ incoming;
                remainder = (remainder << 1 & 0xffff) ^ if carry == 1 { 0x100b } else { 0 };
            }
        }
        !(remainder as u16).reverse_bits()
    }

    proptest! {
        #[test]
        fn tables_agree_with_division(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(vcrc(&bytes), by_division(&bytes));
        }
    }

    #[test]
    fn a_packet_with_its_vcrc_leaves_a_constant() {
        let residue = |message: &[u8]| {
            let mut bytes = message.to_vec();
            bytes.extend(vcrc(message).to_le_bytes());
            vcrc(&bytes)
        };
        assert_eq!(residue(b""), residue(b"any message at all"));
    }
}
