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
    let crc = match bytes.len() {
        // a fold leaves 512 bytes by wide words, 128 by narrow ones
        0..256 => by_tables(u16::MAX, bytes),
        256..1024 => {
            let (left, rest) = fold::<1>(bytes, u16::MAX);
            by_tables(by_tables(0, left.as_flattened().as_flattened()), rest)
        }
        _ => {
            let (wide, rest) = fold::<WIDE>(bytes, u16::MAX);
            let (left, _) = fold::<1>(wide.as_flattened().as_flattened(), 0);
            by_tables(by_tables(0, left.as_flattened().as_flattened()), rest)
        }
    };
    !crc
}

/// A word that messages are folded by: so many times eight bytes.
type Word<const N: usize> = [[u8; 8]; N];
/// Eight bytes of a word of long packets, so many times.
const WIDE: usize = 4;
/// Words that are left of what was folded.
const LEFT: usize = 16;

/// Takes words off the front of a message, until [`LEFT`] are left, and fewer bytes behind them than a word has: another message with the same remainder, that begins with a register of 0
/// and not with `crc` any more. One that is shorter gets zeros before it.
///
/// x^16 is x^12 + x^3 + x + 1, and squaring keeps that, so for words of w bits, w a power of two, x^16w is x^12w + x^3w + x^w + 1: a word is as good as four copies of it 4, 13, 15 and 16 words further
/// back, whatever the order of bits in it. No bit is shifted, and no table is asked.
fn fold<const N: usize>(bytes: &[u8], crc: u16) -> ([Word<N>; LEFT], &[u8]) {
    const { assert!(N.is_power_of_two()) };
    let (words, _) = bytes.as_chunks::<8>().0.as_chunks::<N>();
    let rest = &bytes[words.len() * N * 8..];
    // rounds are whole: words are missing at the beginning, where zeros change nothing
    let (first, rounds) = words.as_rchunks::<LEFT>();
    let mut left = [[0; N]; LEFT];
    let begin = LEFT - first.len();
    for (own, word) in left[begin..].iter_mut().zip(first) {
        *own = word.map(u64::from_le_bytes);
    }
    let mut rounds = rounds.iter();
    // `crc` belongs to the first two bytes, wherever they are
    match left.get_mut(begin) {
        Some(word) => word[0] ^= u64::from(crc),
        None => {
            if let Some(round) = rounds.next() {
                left = round.map(|word| word.map(u64::from_le_bytes));
                left[0][0] ^= u64::from(crc);
            }
        }
    }
    for round in rounds {
        let next = round.map(|word| word.map(u64::from_le_bytes));
        macro_rules! words {
            ($($at:literal)*) => { $(
                // this word goes, and one of the message takes its place
                for part in 0..N {
                    let first = left[$at][part];
                    left[($at + 4) % LEFT][part] ^= first;
                    left[($at + 13) % LEFT][part] ^= first;
                    left[($at + 15) % LEFT][part] ^= first;
                    left[$at][part] = first ^ next[$at][part];
                }
            )* };
        }
        words!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }
    (left.map(|word| word.map(u64::to_le_bytes)), rest)
}

/// The register after `bytes`, from a register.
fn by_tables(mut crc: u16, bytes: &[u8]) -> u16 {
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
    crc
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

        #[test]
        fn what_is_folded_agrees_with_tables(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            prop_assert_eq!(vcrc(&bytes), !by_tables(u16::MAX, &bytes));
        }
    }

    #[test]
    fn every_length_of_packets_is_right() {
        let bytes: Vec<u8> = (0..4500_u32)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        for length in (0..1200).chain(4000..4500) {
            let message = &bytes[..length];
            assert_eq!(vcrc(message), !by_tables(u16::MAX, message), "{length}");
        }
        assert_eq!(vcrc(&bytes[..700]), by_division(&bytes[..700]));
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
