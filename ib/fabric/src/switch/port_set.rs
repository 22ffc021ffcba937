//! Sets of ports: a bit for each, port 0 included.

/// A set of ports.
pub type PortSet = [u64; 4];

/// Bits of a set, ascending.
pub(super) fn members(set: PortSet) -> impl Iterator<Item = u8> {
    set.into_iter().enumerate().flat_map(|(word, mut bits)| {
        std::iter::from_fn(move || {
            if bits == 0 {
                return None;
            }
            let bit = bits.trailing_zeros();
            bits &= bits - 1;
            Some((word as u32 * 64 + bit) as u8)
        })
    })
}

pub(super) fn has(set: &PortSet, port: u8) -> bool {
    set[usize::from(port) / 64] >> (port % 64) & 1 == 1
}

pub(super) fn put(set: &mut PortSet, port: u8) {
    set[usize::from(port) / 64] |= 1 << (port % 64);
}

pub(super) fn take(set: &mut PortSet, port: u8) {
    set[usize::from(port) / 64] &= !(1 << (port % 64));
}

pub(super) fn is_empty(set: &PortSet) -> bool {
    *set == [0; 4]
}

/// The first member of a set after `last`, around.
#[inline]
pub(super) fn after(set: &PortSet, last: u8) -> Option<u8> {
    let (word, bit) = (usize::from(last) / 64, u32::from(last % 64));
    let one = 1u64 << bit;
    let above = set[word] & !(one | (one - 1));
    if above != 0 {
        return Some((word as u32 * 64 + above.trailing_zeros()) as u8);
    }
    for step in 1..=4 {
        let word = (word + step) % 4;
        if set[word] != 0 {
            return Some((word as u32 * 64 + set[word].trailing_zeros()) as u8);
        }
    }
    None
}
