//! Which process holds which accepted socket, in memory that the processes of a family share.
//!
//! Owns: the entries. Must not know: who asks. The memory is mapped before any fork and seen by
//! the family's processes alone. No lock: a process may die between any two stores. An entry whose
//! words are not of one store is none, which its last word tells.

use super::message::Name;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Entries.
pub const ENTRIES: usize = 1 << 16;
/// An entry lies within so many of its first place.
const WINDOW: usize = 32;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

#[repr(C)]
struct Entry {
    /// 0: none.
    cookie: AtomicU64,
    high: AtomicU64,
    low: AtomicU64,
    /// What [`check`] gives of the others.
    check: AtomicU64,
}

/// The table.
#[derive(Debug)]
pub struct Table {
    entries: NonNull<Entry>,
    /// Which bits of a number name the socket. The others, above them, tell the older of two.
    names: u64,
}

// SAFETY: the memory is reached by atomic words alone.
unsafe impl Send for Table {}
// SAFETY: as for Send.
unsafe impl Sync for Table {}

impl Table {
    /// An empty one, whose sockets are named by their cookies.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new() -> Result<Self, Errno> {
        Self::of(u64::MAX)
    }

    /// An empty one, whose sockets are named by the lower half of a number, and whose upper half
    /// grows with time.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn by_lower_half() -> Result<Self, Errno> {
        Self::of(u32::MAX.into())
    }

    fn of(names: u64) -> Result<Self, Errno> {
        let length = ENTRIES * size_of::<Entry>();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, access, flags) }?;
        let entries = NonNull::new(base.cast()).ok_or(Errno::FAULT)?;
        Ok(Self { entries, names })
    }

    /// The socket `cookie` is held by the process `name`. If there is no room, the entry of the
    /// oldest socket near its place is lost, which is a dead one's where there are any that old.
    pub fn insert(&self, cookie: u64, name: Name) {
        if cookie & self.names == 0 {
            return;
        }
        loop {
            let held = |entry: &&Entry| self.is_of(entry.cookie.load(Ordering::Acquire), cookie);
            if let Some(entry) = self.window(cookie).find(held) {
                entry.cookie.store(cookie, Ordering::Release);
                return entry.set(cookie, name);
            }
            let oldest = self
                .window(cookie)
                .map(|entry| (entry.cookie.load(Ordering::Acquire), entry))
                .min_by_key(|(cookie, _)| *cookie);
            let (old, entry) = oldest.expect("a window has entries");
            let (won, lost) = (Ordering::AcqRel, Ordering::Acquire);
            if entry
                .cookie
                .compare_exchange(old, cookie, won, lost)
                .is_ok()
            {
                return entry.set(cookie, name);
            }
        }
    }

    /// The socket `cookie` is held by the process `name` no more. What another process has said of
    /// the socket stays.
    pub fn remove(&self, cookie: u64, name: Name) {
        for entry in self.window(cookie) {
            if self.get(entry, cookie) == Some(name) {
                let (won, lost) = (Ordering::AcqRel, Ordering::Acquire);
                let held = entry.cookie.load(Ordering::Acquire);
                // another process has the entry if this fails
                let _ = entry.cookie.compare_exchange(held, 0, won, lost);
            }
        }
    }

    /// Who holds the socket.
    pub fn find(&self, cookie: u64) -> Option<Name> {
        self.window(cookie)
            .find_map(|entry| self.get(entry, cookie))
    }

    fn is_of(&self, held: u64, asked: u64) -> bool {
        (held ^ asked) & self.names == 0
    }

    fn get(&self, entry: &Entry, cookie: u64) -> Option<Name> {
        let held = entry.cookie.load(Ordering::Acquire);
        let is_one = held & self.names != 0 && self.is_of(held, cookie);
        is_one.then(|| entry.get(held)).flatten()
    }

    /// The entries where this socket's may be.
    fn window(&self, cookie: u64) -> impl Iterator<Item = &Entry> {
        // SAFETY: the mapping has so many entries, which begin as zeros, is there as long as
        // `self`, and is reached by atomic words alone.
        let entries = unsafe { std::slice::from_raw_parts(self.entries.as_ptr(), ENTRIES) };
        let first = ((cookie & self.names).wrapping_mul(MIX) >> 48) as usize;
        (0..WINDOW).map(move |step| &entries[(first + step) % ENTRIES])
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let length = ENTRIES * size_of::<Entry>();
        // SAFETY: this object's mapping; whatever was borrowed from it has ended.
        let done = unsafe { rustix::mm::munmap(self.entries.as_ptr().cast(), length) };
        debug_assert!(done.is_ok(), "a whole mapping can be unmapped");
    }
}

impl Entry {
    fn set(&self, cookie: u64, name: Name) {
        let (high, low) = halves(name);
        self.high.store(high, Ordering::Relaxed);
        self.low.store(low, Ordering::Relaxed);
        self.check
            .store(check(cookie, high, low), Ordering::Release);
    }

    fn get(&self, cookie: u64) -> Option<Name> {
        if cookie == 0 || self.cookie.load(Ordering::Acquire) != cookie {
            return None;
        }
        let sum = self.check.load(Ordering::Acquire);
        let high = self.high.load(Ordering::Relaxed);
        let low = self.low.load(Ordering::Relaxed);
        let name = u128::from(high) << 64 | u128::from(low);
        (sum == check(cookie, high, low)).then_some(Name(name.to_be_bytes()))
    }
}

fn halves(name: Name) -> (u64, u64) {
    let name = u128::from_be_bytes(name.0);
    ((name >> 64) as u64, name as u64)
}

fn check(cookie: u64, high: u64, low: u64) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(MIX).rotate_left(29);
    mix(mix(mix(MIX, cookie), high), low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u64) -> Name {
        Name((u128::from(number) * 0x1_0000_0001_0000_0003).to_be_bytes())
    }

    #[test]
    fn what_is_inserted_is_found_until_it_is_removed() {
        let table = Table::new().expect("memory");
        assert_eq!(table.find(7), None);
        assert_eq!(table.find(0), None);
        table.insert(7, name(1));
        table.insert(8, name(2));
        assert_eq!(
            (table.find(7), table.find(8)),
            (Some(name(1)), Some(name(2)))
        );
        // a child has it
        table.insert(7, name(3));
        table.remove(7, name(1));
        assert_eq!(
            table.find(7),
            Some(name(3)),
            "the parent's word does not count"
        );
        table.remove(7, name(3));
        assert_eq!((table.find(7), table.find(8)), (None, Some(name(2))));
        table.insert(0, name(1));
        assert_eq!(table.find(0), None);
    }

    #[test]
    fn half_an_entry_is_none() {
        let table = Table::new().expect("memory");
        table.insert(5, name(1));
        let entry = table.window(5).next().expect("an entry");
        entry.high.fetch_xor(1, Ordering::Relaxed);
        assert_eq!(table.find(5), None);
        table.insert(5, name(2));
        assert_eq!(table.find(5), Some(name(2)));
    }

    #[test]
    fn entries_of_the_dead_give_way() {
        let table = Table::new().expect("memory");
        // four times what it holds; the cookies of later sockets are larger
        let last = 4 * ENTRIES as u64;
        for cookie in 1..=last {
            table.insert(cookie, name(cookie));
            assert_eq!(table.find(cookie), Some(name(cookie)));
        }
        for cookie in last - 1000..=last {
            assert_eq!(table.find(cookie), Some(name(cookie)));
        }
        let kept = (1..=last).filter(|cookie| table.find(*cookie).is_some());
        assert!(kept.count() > ENTRIES * 9 / 10);
    }

    #[test]
    fn a_lower_half_names_a_socket_whenever_it_was_said() {
        let table = Table::by_lower_half().expect("memory");
        let at = |time: u64, half: u64| time << 32 | half;
        table.insert(at(5, 7), name(1));
        assert_eq!(table.find(7), Some(name(1)));
        table.insert(at(6, 7), name(2));
        assert_eq!(table.find(at(9, 7)), Some(name(2)));
        assert_eq!(table.find(8), None);
        table.insert(at(6, 0), name(3));
        assert_eq!(table.find(0), None, "no socket");
        table.remove(7, name(2));
        assert_eq!(table.find(7), None);
        // whoever was said last is found, whatever their halves are
        let mut half = 1_u64;
        let said = (0..4 * ENTRIES as u64).map(|time| {
            half = half.wrapping_mul(MIX) | 1;
            at(time, half & 0xffff_ffff)
        });
        let said: Vec<_> = said.collect();
        for socket in &said {
            table.insert(*socket, name(*socket));
        }
        let last = &said[said.len() - 1000..];
        assert!(
            last.iter()
                .all(|one| table.find(one & 0xffff_ffff) == Some(name(*one)))
        );
    }

    #[test]
    fn threads_insert_side_by_side() {
        let table = Table::new().expect("memory");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for cookie in (1 + thread..=20_000).step_by(4) {
                        table.insert(cookie, name(cookie));
                    }
                });
            }
        });
        assert!((1..=20_000).all(|cookie| table.find(cookie) == Some(name(cookie))));
    }
}
