//! select(2) and pselect(2). Owns: the sets. Must not know: how a thread waits; that is
//! [`mod@super::poll`]'s, also because bells lie beyond what a set can hold.

use super::kernel::{self, Patience, Polled};
use super::poll;
use crate::numbers::Kind;
use crate::table::Table;
use rustix::io::Errno;

/// What a descriptor of a set is polled for, and what of that makes it remain in the set, as
/// Linux's select has it: what it reads, writes, and what is exceptional.
const EVENTS: [i16; 3] = [
    libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND,
    libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND,
    libc::POLLPRI,
];
const REMAINS: [i16; 3] = [
    EVENTS[0] | libc::POLLHUP | libc::POLLERR,
    EVENTS[1] | libc::POLLERR,
    EVENTS[2],
];
const WORD: i32 = u64::BITS as i32;

/// Waits until something is so of the descriptors below `count` in sets of bits, for reading, for
/// writing, and for what is exceptional; leaves in the sets those of which it is so, and gives the
/// number of bits. A set has a word for each 64 descriptors.
///
/// # Errors
/// As pselect(2); INVAL if a set is too short.
pub fn select(
    count: i32,
    sets: &mut [Option<&mut [u64]>; 3],
    patience: Patience<'_>,
) -> Result<usize, Errno> {
    let words = usize::try_from(count).map_err(|_| Errno::INVAL)?;
    let words = words.div_ceil(WORD as usize);
    if sets.iter().flatten().any(|set| set.len() < words) {
        return Err(Errno::INVAL);
    }
    let mut polled = Vec::new();
    let mut is_ours = false;
    let table = Table::get().ok();
    for fd in 0..count {
        let events = events(sets, fd);
        if events != 0 {
            let kind = table.map(|table| table.numbers().look(fd));
            is_ours |= matches!(kind, Some(Kind::Stream(_))) || super::instance_of(fd).is_some();
            polled.push(Polled {
                fd,
                events,
                revents: 0,
            });
        }
    }
    if !is_ours {
        return kernel::select(count, sets, patience);
    }
    poll(&mut polled, patience)?;
    if polled.iter().any(|one| one.revents & libc::POLLNVAL != 0) {
        return Err(Errno::BADF);
    }
    let asked = |one: &Polled, set: usize| one.events & EVENTS[set] != 0;
    for set in sets.iter_mut().flatten() {
        set[..words].fill(0);
    }
    let mut bits = 0;
    for one in &polled {
        for (set, words) in sets.iter_mut().enumerate() {
            let Some(words) = words else { continue };
            if asked(one, set) && one.revents & REMAINS[set] != 0 {
                words[(one.fd / WORD) as usize] |= 1 << (one.fd % WORD);
                bits += 1;
            }
        }
    }
    Ok(bits)
}

/// What a descriptor is polled for.
fn events(sets: &[Option<&mut [u64]>; 3], fd: i32) -> i16 {
    let mut events = 0;
    for (set, bits) in sets.iter().zip(EVENTS) {
        let word = set.as_ref().map_or(0, |set| set[(fd / WORD) as usize]);
        if word & 1 << (fd % WORD) != 0 {
            events |= bits;
        }
    }
    events
}
