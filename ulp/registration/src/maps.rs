//! The mappings of this process, as the kernel lists them.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;

const QUERY: libc::c_ulong = 0xc068_6611;
/// Bytes of the kernel's question.
const SIZE: u64 = 104;
/// Flags of the question: only a mapping that can be read, or written.
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;

/// What is to be done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is read.
    Read,
    /// It is written.
    Write,
}

/// Mappings that are remembered.
const REMEMBERED: usize = 8;

/// The list.
pub struct Maps {
    file: Option<File>,
    /// Start, end, and what the program might do there when the kernel was asked last; the next one takes the place at `next`.
    known: [(u64, u64, Use); REMEMBERED],
    next: usize,
}

impl Maps {
    /// Opens it.
    pub fn open() -> Self {
        Self::of(File::open("/proc/self/maps").ok())
    }

    fn of(file: Option<File>) -> Self {
        Self {
            file,
            known: [(0, 0, Use::Read); REMEMBERED],
            next: 0,
        }
    }

    /// Start and end of the mapping at `address`, if there is one.
    pub fn around(&self, address: u64) -> Option<(u64, u64)> {
        if let Some(Some(found)) = self.ask(address, 0) {
            return Some(found);
        }
        self.all()
            .into_iter()
            .find(|(start, end)| *start <= address && address < *end)
    }

    /// Whether the program may do that with `length` bytes at `address`, some. What is remembered of the mapping is believed if the last byte can be read still,
    /// which is a call that does nothing else (130 ns); else the kernel is asked (500 ns).
    pub fn allow(&mut self, address: u64, length: u64, what: Use) -> bool {
        let Some(end) = address.checked_add(length) else {
            return false;
        };
        let holds = |one: &&mut (u64, u64, Use)| one.0 <= address && end <= one.1 && one.2 == what;
        if let Some(known) = self.known.iter_mut().find(holds) {
            if can(end - 1, Use::Read) {
                return true;
            }
            *known = (0, 0, what);
        }
        self.ask_for(address, end, what)
    }

    /// The same, of the kernel: one question for each mapping. Where it does not answer, the first and the last byte are tried.
    #[cold]
    fn ask_for(&mut self, address: u64, end: u64, what: Use) -> bool {
        let flag = match what {
            Use::Read => READABLE,
            Use::Write => WRITABLE,
        };
        let (mut from, mut at) = (address, address);
        while at < end {
            match self.ask(at, flag) {
                Some(Some((start, next))) => (from, at) = (from.min(start), next),
                Some(None) => return false,
                None if can(address, what) && can(end - 1, what) => at = end,
                None => return false,
            }
        }
        self.known[self.next] = (from, at, what);
        self.next = (self.next + 1) % REMEMBERED;
        true
    }

    /// Start and end of the mapping at `address` that has what `flags` ask for; no mapping; or no answer.
    #[inline]
    fn ask(&self, address: u64, flags: u64) -> Option<Option<(u64, u64)>> {
        let file = self.file.as_ref()?;
        let mut asked = [0_u64; SIZE as usize / 8];
        asked[0] = SIZE;
        asked[1] = flags;
        asked[2] = address;
        // SAFETY: a local structure of the call's shape; kernels before 6.11 do not know it.
        let returned = unsafe { libc::ioctl(file.as_raw_fd(), QUERY, asked.as_mut_ptr()) };
        if returned == 0 {
            return Some(Some((asked[3], asked[4])));
        }
        let why = std::io::Error::last_os_error().raw_os_error();
        (why == Some(libc::ENOENT)).then_some(None)
    }

    /// All of them.
    pub fn all(&self) -> Vec<(u64, u64)> {
        let Ok(file) = File::open("/proc/self/maps") else {
            return Vec::new();
        };
        let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
        lines.filter_map(|line| range(&line)).collect()
    }
}

/// Whether a byte can be read or written, as the kernel finds when it does that. Nothing is changed.
/// One system call.
pub fn can(address: u64, what: Use) -> bool {
    let (byte, fault) = (address as usize, libc::EFAULT);
    match what {
        Use::Read => {
            // A null pointer would be no set at all: the next word of its page stands for it.
            let set = std::ptr::with_exposed_provenance::<u64>((byte & !7).max(8));
            // SAFETY: the kernel reads a set of signals there, or finds that it cannot; then it finds that there is no such thing to do with it.
            let returned = unsafe {
                let none = std::ptr::null_mut::<u64>();
                libc::syscall(libc::SYS_rt_sigprocmask, -1, set, none, 8)
            };
            returned == 0 || std::io::Error::last_os_error().raw_os_error() != Some(fault)
        }
        Use::Write => {
            let word = std::ptr::with_exposed_provenance_mut::<u32>(byte & !3);
            let own = 0_u32;
            // FUTEX_OP_OR of nothing, and a comparison that is of no account.
            let operation = libc::FUTEX_OP_OR << 28;
            // SAFETY: atomically sets no bit of the word there, or finds that it cannot; wakes nobody who waits for either word.
            let returned = unsafe {
                let command = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
                libc::syscall(
                    libc::SYS_futex,
                    &raw const own,
                    command,
                    0,
                    0_usize,
                    word,
                    operation,
                )
            };
            returned >= 0 || std::io::Error::last_os_error().raw_os_error() != Some(fault)
        }
    }
}

/// The two numbers that a line begins with.
fn range(line: &[u8]) -> Option<(u64, u64)> {
    let line = std::str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?;
    let (start, end) = line.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_at_an_address_is_found_both_ways() {
        let here = 5_u8;
        let address = (&raw const here).expose_provenance() as u64;
        let (asked, read) = (Maps::open(), Maps::of(None));
        let found = asked.around(address).expect("a stack");
        assert!(found.0 <= address && address < found.1);
        assert_eq!(read.around(address), Some(found));
        assert_eq!(asked.around(1), None);
        assert!(read.all().contains(&found));
        assert_eq!(range(b"1000-2000 r--p 0 0"), Some((4096, 8192)));
        assert_eq!(range(b"nothing"), None);
        assert_eq!(range(b""), None);
    }

    #[test]
    fn memory_that_cannot_be_read_or_written_is_found_both_ways() {
        let (page, pages) = (4096_u64, 6);
        let map = |address, count: u64, protection| {
            let fixed = if address == 0 { 0 } else { libc::MAP_FIXED };
            // SAFETY: new pages, or in the place of those that the first call made.
            let made = unsafe {
                libc::mmap(
                    std::ptr::with_exposed_provenance_mut(address as usize),
                    (count * page) as usize,
                    protection,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed,
                    -1,
                    0,
                )
            };
            assert_ne!(made, libc::MAP_FAILED);
            made.expose_provenance() as u64
        };
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let start = map(0, pages, libc::PROT_NONE);
        map(start + page, 1, libc::PROT_READ);
        map(start + 2 * page, 1, both);
        map(start + 4 * page, 1, both);
        let (mut asked, mut tried) = (Maps::open(), Maps::of(None));
        let knows = asked.ask(start, 0).is_some();
        for (from, length, reads, writes) in [
            (0, 1, false, false),
            (page - 1, 2, false, false),
            (page, page, true, false),
            (page, 2 * page, true, false),
            (2 * page, page, true, true),
            (2 * page + 5, 1, true, true),
            (2 * page + 5, page, false, false),
            (4 * page, 2 * page, false, false),
        ] {
            for maps in [&mut asked, &mut tried] {
                let place = start + from;
                assert_eq!(
                    maps.allow(place, length, Use::Read),
                    reads,
                    "{from} {length}"
                );
                let may = maps.allow(place, length, Use::Write);
                assert_eq!(may, writes, "{from} {length}");
            }
        }
        // What lies between is known to the list alone.
        let may = |maps: &mut Maps| maps.allow(start + 2 * page, 3 * page, Use::Write);
        assert_eq!(may(&mut asked), !knows);
        assert!(may(&mut tried));
        assert!(!asked.allow(u64::MAX - 5, 10, Use::Read));
        for what in [Use::Read, Use::Write] {
            assert!(!can(0, what) && !can(7, what) && !can(u64::MAX, what));
        }
        // What is remembered does not outlive the memory.
        assert!(asked.allow(start + 2 * page, page, Use::Write));
        map(start + 2 * page, 1, libc::PROT_NONE);
        assert!(!asked.allow(start + 2 * page, page, Use::Write));
        // SAFETY: the pages of this test.
        unsafe {
            let pages = pages * page;
            libc::munmap(
                std::ptr::with_exposed_provenance_mut(start as usize),
                pages as usize,
            )
        };
    }
}
