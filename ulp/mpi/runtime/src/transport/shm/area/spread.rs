//! On which cores ranks are that outnumber them: as many on each.
//!
//! Ranks that wait for each other give their cores away every few microseconds. To the system all of them are busy, and as hot as can be, so it leaves them where they are, be it seven on one core and one
//! on the other. Who finds too many beside it goes where there are fewest. It is not bound to that core: it is moved, and the system may move it on.

use std::io;

/// What a rank knows of its communicator's cores.
#[derive(Debug)]
pub struct Spread {
    /// Those that it may use; none if there is nothing to choose.
    cores: Box<[u32]>,
    /// Collectives until it looks again, and between two looks: more after each move, so that nobody quarrels for long with a system that knows better.
    left: u32,
    pause: u32,
}

/// Collectives between two looks at first, and at most.
const PAUSE: u32 = 256;
const LONGEST: u32 = 1 << 20;

impl Spread {
    pub fn new() -> Self {
        let cores = usable();
        Self {
            cores: if cores.len() > 1 {
                cores
            } else {
                Box::default()
            },
            left: 0,
            pause: PAUSE,
        }
    }

    /// Whether it is time to look.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        self.left = self.pause;
        !self.cores.is_empty()
    }

    /// Where the rank at `me` of those whose cores these are, as far as known, should be moved to.
    pub fn better(&self, me: usize, ranks: &[Option<u32>]) -> Option<u32> {
        let here = (*ranks.get(me)?)?;
        let each = ranks.len().div_ceil(self.cores.len());
        let before = ranks[..me].iter().filter(|core| **core == Some(here));
        if before.count() < each {
            return None;
        }
        // As many as are too many elsewhere go with this one: each to where it finds room when those of lower rank have gone.
        let mut load: Vec<(usize, u32)> = self
            .cores
            .iter()
            .map(|core| {
                (
                    ranks
                        .iter()
                        .filter(|one| **one == Some(*core))
                        .count()
                        .min(each),
                    *core,
                )
            })
            .collect();
        let mut target = None;
        for rank in 0..=me {
            let Some(core) = ranks[rank] else { continue };
            let place = ranks[..rank]
                .iter()
                .filter(|one| **one == Some(core))
                .count();
            if place < each {
                continue;
            }
            let least = load.iter_mut().min()?;
            least.0 += 1;
            target = Some(least.1);
        }
        target.filter(|core| *core != here)
    }

    /// Goes to `core`.
    pub fn go(&mut self, core: u32) -> io::Result<()> {
        self.pause = (self.pause * 2).min(LONGEST);
        let before = affinity()?;
        // SAFETY: a set of bits, of which none is set.
        let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `core` comes from a set of this kind.
        unsafe { libc::CPU_SET(core as usize, &mut one) };
        set_affinity(&one)?;
        set_affinity(&before)
    }
}

/// The core that this thread is on.
pub fn here() -> Option<u32> {
    // SAFETY: asks alone.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

fn usable() -> Box<[u32]> {
    let Ok(set) = affinity() else {
        return Box::default();
    };
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: within the set.
        .filter(|core| unsafe { libc::CPU_ISSET(*core, &set) })
        .map(|core| core as u32)
        .collect()
}

fn affinity() -> io::Result<libc::cpu_set_t> {
    // SAFETY: a set of bits.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: of this thread; the set is as long as is said.
    match unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } {
        0 => Ok(set),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_affinity(set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: of this thread; the set is as long as is said.
    match unsafe { libc::sched_setaffinity(0, size_of_val(set), set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(cores: &[u32]) -> Spread {
        Spread {
            cores: cores.into(),
            left: 0,
            pause: PAUSE,
        }
    }

    /// All look at the same words, and go.
    fn after(spread: &Spread, ranks: &[u32]) -> Vec<u32> {
        let known: Vec<_> = ranks.iter().copied().map(Some).collect();
        let better = |(me, core): (usize, &u32)| spread.better(me, &known).unwrap_or(*core);
        ranks.iter().enumerate().map(better).collect()
    }

    #[test]
    fn who_is_too_many_goes_where_there_are_fewest() {
        let two = spread(&[0, 1]);
        assert_eq!(after(&two, &[0, 0, 1, 0]), [0, 0, 1, 1]);
        assert_eq!(after(&two, &[1; 8]), [1, 1, 1, 1, 0, 0, 0, 0]);
        let three = spread(&[2, 3, 7]);
        let mut ended = after(&three, &[2; 9]);
        ended.sort_unstable();
        assert_eq!(ended, [2, 2, 2, 3, 3, 3, 7, 7, 7]);
    }

    #[test]
    fn who_is_well_placed_stays() {
        let two = spread(&[0, 1]);
        for ranks in [[0, 1, 0, 1], [1, 1, 0, 0]] {
            assert_eq!(after(&two, &ranks), ranks);
        }
        assert_eq!(after(&two, &[0, 0, 1]), [0, 0, 1], "as even as can be");
        assert_eq!(two.better(1, &[Some(0), None, Some(0)]), None);
    }

    #[test]
    fn a_thread_goes_and_is_not_bound() {
        let before = usable();
        let mut spread = Spread::new();
        for core in before.clone() {
            spread.go(core).expect("a core that it may use");
            assert_eq!(usable(), before);
        }
    }

    #[test]
    fn looks_become_rare_where_they_do_not_help() {
        let mut spread = spread(&[0, 1]);
        assert!(spread.is_due());
        assert_eq!((0..PAUSE).filter(|_| spread.is_due()).count(), 0);
        assert!(spread.is_due());
    }
}
