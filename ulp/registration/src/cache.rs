//! Registrations of the program's memory that outlive a message: for devices without paging on demand.
//!
//! Owns: which ranges are registered, until something happens to their memory ([`Watch`] tells) or others need the room. Must not know: verbs; what
//! registers is handed in. Ranges are whole pages and lie apart from each other. What is in use when it leaves the cache lives as long as its
//! messages do.

use crate::watch::{RANGES, Watch};
use std::collections::BTreeMap;
use std::io;

/// Registered ranges.
pub struct Cache<T> {
    watch: Watch,
    /// By their starts.
    entries: BTreeMap<u64, Entry<T>>,
    /// Bytes of all of them, and the most that there may be.
    bytes: u64,
    limit: u64,
    page: u64,
    clock: u64,
    /// What has been counted.
    pub counts: Counts,
}

/// What has been counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages whose memory was registered already,
    pub hits: u64,
    /// and those that it was registered for.
    pub misses: u64,
    /// Ranges that were let go because their memory is another now.
    pub stale: u64,
}

struct Entry<T> {
    end: u64,
    /// Whether it may be written.
    writable: bool,
    /// Its number with the watch.
    range: u32,
    used: u64,
    kept: T,
}

/// What a range is registered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Reading, by requests of this process and of peers.
    Read,
    /// And writing.
    Write,
}

impl<T: Clone> Cache<T> {
    /// Empty, for `limit` bytes.
    ///
    /// # Errors
    /// What the kernel answers where memory cannot be watched.
    pub fn new(limit: u64) -> io::Result<Self> {
        // SAFETY: a question.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Ok(Self {
            watch: Watch::begin()?,
            entries: BTreeMap::new(),
            bytes: 0,
            limit,
            page: u64::try_from(page).unwrap_or(4096),
            clock: 0,
            counts: Counts::default(),
        })
    }

    /// What `[start, start + length)`, not empty, is registered as; `register` does it for a range if it is not. `None` if the range cannot be kept here:
    /// then it has to be registered for its message alone.
    pub fn find<E>(
        &mut self,
        (start, length): (u64, u64),
        rights: Rights,
        mut register: impl FnMut(u64, u64, Rights) -> Result<T, E>,
    ) -> Option<T> {
        let end = start.checked_add(length)?;
        if !self.watch.settle() {
            return None;
        }
        if self.watch.has_news() {
            self.drop_stale();
        }
        self.clock += 1;
        let may_serve = |entry: &Entry<T>| entry.writable || rights == Rights::Read;
        if let Some((_, entry)) = self.entries.range_mut(..=start).next_back()
            && entry.end >= end
            && may_serve(entry)
        {
            entry.used = self.clock;
            self.counts.hits += 1;
            return Some(entry.kept.clone());
        }
        self.counts.misses += 1;
        let first = start / self.page * self.page;
        let last = end.checked_next_multiple_of(self.page)?;
        self.add(first, last, rights, &mut register)
    }

    fn add<E>(
        &mut self,
        mut start: u64,
        mut end: u64,
        rights: Rights,
        register: &mut impl FnMut(u64, u64, Rights) -> Result<T, E>,
    ) -> Option<T> {
        if end - start > self.limit {
            return None;
        }
        // One that reaches into the new one becomes a part of it, if there is room for both.
        while let Some((at, entry)) = self.entries.range(..end).next_back()
            && entry.end > start
        {
            let (at, stop) = (*at, entry.end);
            if end.max(stop) - start.min(at) <= self.limit {
                (start, end) = (start.min(at), end.max(stop));
            }
            self.remove(at);
        }
        while self.bytes + (end - start) > self.limit || self.entries.len() >= RANGES {
            self.drop_oldest();
        }
        let range = self.watch.take_up(start, end)?;
        // Memory that may be written is registered so at once: it will be received into. Constants cannot be.
        let done = register(start, end - start, Rights::Write)
            .map(|kept| (kept, true))
            .or_else(|error| match rights {
                Rights::Read => {
                    register(start, end - start, Rights::Read).map(|kept| (kept, false))
                }
                Rights::Write => Err(error),
            });
        let Ok((kept, writable)) = done else {
            self.watch.drop_range(range);
            return None;
        };
        if !self.watch.settle() || !self.watch.is_fresh(range) {
            // Somebody else has changed a neighbour meanwhile. What was registered holds for this message.
            self.watch.drop_range(range);
            return Some(kept);
        }
        self.bytes += end - start;
        self.entries.insert(
            start,
            Entry {
                end,
                writable,
                range,
                used: self.clock,
                kept: kept.clone(),
            },
        );
        Some(kept)
    }

    #[cold]
    fn drop_stale(&mut self) {
        let stale: Vec<u64> = self
            .entries
            .iter()
            .filter(|(_, entry)| !self.watch.is_fresh(entry.range))
            .map(|(start, _)| *start)
            .collect();
        self.counts.stale += stale.len() as u64;
        for start in stale {
            self.remove(start);
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
        if let Some(start) = oldest.map(|(start, _)| *start) {
            self.remove(start);
        }
    }

    fn remove(&mut self, start: u64) {
        if let Some(entry) = self.entries.remove(&start) {
            self.bytes -= entry.end - start;
            self.watch.drop_range(entry.range);
        }
    }
}

/// How many bytes may be kept registered: an eighth of what may be locked, or of the machine's memory.
pub fn limit() -> u64 {
    let mut most = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a local structure, which the call fills.
    let locked = match unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut most) } {
        0 => most.rlim_cur,
        _ => libc::RLIM_INFINITY,
    };
    // SAFETY: questions.
    let (pages, size) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    let memory = u64::try_from(pages)
        .unwrap_or(0)
        .saturating_mul(u64::try_from(size).unwrap_or(0));
    locked.min(memory) / 8
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
