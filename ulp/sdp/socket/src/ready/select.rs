//! select(2) and pselect(2). Owns: the sets. Must not know: how a thread waits; that is
//! [`mod@super::poll`]'s, also because bells lie beyond what a set can hold.

use super::kernel::{Patience, Polled};
use super::poll::Call;
use super::room::Room;
use super::sleep::{self, Next, Waits};
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
    sets: [Option<&mut [u64]>; 3],
    patience: Patience<'_>,
) -> Result<usize, Errno> {
    sleep::run(&mut Select::new(count, sets, patience)?, patience.signals)
}

/// One such call.
#[derive(Debug)]
pub struct Select<'a> {
    sets: [Option<&'a mut [u64]>; 3],
    words: usize,
    polled: Room<Polled>,
    call: Call<'a>,
}

impl<'a> Select<'a> {
    /// A call for these sets.
    ///
    /// # Errors
    /// NOMEM; INVAL if a set is too short.
    pub fn new(
        count: i32,
        sets: [Option<&'a mut [u64]>; 3],
        patience: Patience<'a>,
    ) -> Result<Self, Errno> {
        let words = usize::try_from(count).map_err(|_| Errno::INVAL)?;
        let words = words.div_ceil(WORD as usize);
        if sets.iter().flatten().any(|set| set.len() < words) {
            return Err(Errno::INVAL);
        }
        let all = || {
            let all = (0..count).map(|fd| (fd, events(&sets, fd)));
            all.filter(|(_, events)| *events != 0)
        };
        let mut polled = Room::new(all().count())?;
        for (fd, events) in all() {
            polled.push(Polled {
                fd,
                events,
                revents: 0,
            });
        }
        let call = Call::new(&polled, patience)?;
        Ok(Self {
            sets,
            words,
            polled,
            call,
        })
    }

    /// Writes the sets; gives the number of bits.
    fn result(&mut self) -> Result<usize, Errno> {
        if self
            .polled
            .iter()
            .any(|one| one.revents & libc::POLLNVAL != 0)
        {
            return Err(Errno::BADF);
        }
        let asked = |one: &Polled, set: usize| one.events & EVENTS[set] != 0;
        for set in self.sets.iter_mut().flatten() {
            set[..self.words].fill(0);
        }
        let mut bits = 0;
        for one in &*self.polled {
            for (set, words) in self.sets.iter_mut().enumerate() {
                let Some(words) = words else { continue };
                if asked(one, set) && one.revents & REMAINS[set] != 0 {
                    words[(one.fd / WORD) as usize] |= 1 << (one.fd % WORD);
                    bits += 1;
                }
            }
        }
        Ok(bits)
    }
}

impl Waits for Select<'_> {
    fn go_on(&mut self, slept: Option<Result<usize, Errno>>) -> Next {
        match self.call.go_on(&mut self.polled, slept) {
            Next::Over(Ok(_)) => Next::Over(self.result()),
            next => next,
        }
    }
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
