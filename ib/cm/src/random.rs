//! Numbers that nobody guesses: a keyed function of a counter (SipHash-2-4, Aumasson and Bernstein 2012). A peer sees
//! transaction and communication identifiers and first PSNs; from them it learns nothing about the next ones, which is
//! what keeps a stranger from ending a connection.

/// The generator. Its key comes from outside.
#[derive(Debug)]
pub(crate) struct Random {
    key: [u64; 2],
    count: u64,
}

impl Random {
    pub(crate) const fn new(key: [u64; 2]) -> Self {
        Random { key, count: 0 }
    }

    /// The next 64 bits.
    pub(crate) const fn next(&mut self) -> u64 {
        self.count += 1;
        siphash_word(self.key, self.count)
    }

    /// The next 32 bits.
    pub(crate) const fn next_u32(&mut self) -> u32 {
        // The low half.
        self.next() as u32
    }
}

const fn round(mut v: [u64; 4]) -> [u64; 4] {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
    v
}

/// SipHash-2-4 of the eight bytes of `word`, little-endian.
const fn siphash_word(key: [u64; 2], word: u64) -> u64 {
    // "somepseudorandomlygeneratedbytes", the function's initial state.
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    // The message is one word; the last one holds its length, 8.
    let words = [word, 8 << 56];
    let mut index = 0;
    while index < words.len() {
        v[3] ^= words[index];
        v = round(round(v));
        v[0] ^= words[index];
        index += 1;
    }
    v[2] ^= 0xff;
    v = round(round(round(round(v))));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What peers see of it, PSNs and identifiers: each bit is set in half of the numbers (six standard deviations), whatever the key, and
    /// so is each bit of the difference from one number to the next.
    #[test]
    fn numbers_say_nothing_of_the_next() {
        const COUNT: u32 = 10_000;
        let balanced = |values: &[u32]| {
            for bit in 0..32 {
                let set = values.iter().filter(|value| *value >> bit & 1 == 1).count() as f64;
                let off = (set - f64::from(COUNT) / 2.0).abs();
                assert!(off < 3.0 * f64::from(COUNT).sqrt(), "bit {bit}: {set}");
            }
        };
        for key in [[0, 0], [1, 0], [u64::MAX, 7]] {
            let mut random = Random::new(key);
            let numbers: Vec<u32> = (0..=COUNT).map(|_| random.next_u32()).collect();
            balanced(&numbers[1..]);
            let steps: Vec<u32> = numbers
                .windows(2)
                .map(|pair| pair[1].wrapping_sub(pair[0]))
                .collect();
            balanced(&steps);
        }
        // processes that draw keys draw other numbers
        let first = |key| Random::new(key).next();
        assert_ne!(first([1, 2]), first([2, 1]));
    }

    /// The vector for eight bytes (00 01 .. 07 under the key 00 01 .. 0f) of the function's reference vectors.
    #[test]
    fn the_function_is_siphash() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let expected = u64::from_le_bytes([0x62, 0x24, 0x93, 0x9a, 0x79, 0xf5, 0xf5, 0x93]);
        assert_eq!(siphash_word(key, 0x0706_0504_0302_0100), expected);
    }
}
