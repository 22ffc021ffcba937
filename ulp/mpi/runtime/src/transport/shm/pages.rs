//! Large pages for the program's long buffers.
//!
//! Who reads another process's memory pays the kernel for each page that it finds, more than for copying it. So the kernel is asked to put a long buffer that is used again and again
//! into pages of 2 MiB, as far as such pages lie within the buffer (madvise(2), MADV_HUGEPAGE and MADV_COLLAPSE, Linux 6.1). What lies there stays as it is, and so do other
//! memory, files and what processes share. If the kernel refuses, nothing changes.

use std::fs;

/// Bytes of a large page.
const LARGE: usize = 2 << 20;
/// Buffers that are remembered.
const BUFFERS: usize = 32;
/// Messages of a buffer before the kernel is asked: moving its pages costs about as much as these lose by not having been moved. It is asked again at two, four, eight times as many, as it may have had no such page
/// to give, or the memory may be another one.
const FIRST: u32 = 16;

const MADV_COLLAPSE: i32 = 25;

/// Large pages that lie within a buffer, and how many messages have gone from there or come to there.
#[derive(Clone, Copy, Default)]
struct Seen {
    first: usize,
    end: usize,
    messages: u32,
}

/// The long buffers of this process.
pub struct LargePages {
    /// Bytes of the shortest message that counts.
    least: usize,
    seen: [Seen; BUFFERS],
    next: usize,
    /// Whether the machine's owner lets programs ask; once that was looked up.
    is_allowed: Option<bool>,
}

impl LargePages {
    /// None is known yet. Shorter messages than `least` bytes do not count; none does if there is no `least`.
    pub fn new(least: Option<u64>) -> Self {
        let least = least.and_then(|least| usize::try_from(least).ok());
        Self {
            least: least.unwrap_or(usize::MAX).max(LARGE),
            seen: [Seen::default(); BUFFERS],
            next: 0,
            is_allowed: None,
        }
    }

    /// A message of `length` bytes goes from `address`, or comes to there.
    #[inline]
    pub fn note(&mut self, address: Option<u64>, length: usize) {
        if length >= self.least
            && let Some(address) = address
        {
            self.count(address as usize, length);
        }
    }

    #[cold]
    fn count(&mut self, address: usize, length: usize) {
        let first = address.next_multiple_of(LARGE);
        let end = (address + length) & !(LARGE - 1);
        if first >= end {
            return;
        }
        let known = (self.seen.iter()).position(|seen| (seen.first, seen.end) == (first, end));
        let place = known.unwrap_or_else(|| {
            let place = self.next;
            self.next = (place + 1) % BUFFERS;
            self.seen[place] = Seen {
                first,
                end,
                messages: 0,
            };
            place
        });
        let messages = &mut self.seen[place].messages;
        *messages = messages.saturating_add(1);
        if *messages >= FIRST && messages.is_power_of_two() {
            let allowed = *self.is_allowed.get_or_insert_with(|| {
                fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
                    .is_ok_and(|modes| !modes.contains("[never]"))
            });
            if allowed
                && fs::read_to_string("/proc/self/maps").is_ok_and(|maps| is_own(&maps, first, end))
            {
                ask(first, end);
            }
        }
    }
}

/// Asks for large pages from `first` to before `end`, which is this process's own memory.
fn ask(first: usize, end: usize) {
    for at in (first..end).step_by(LARGE) {
        let page = std::ptr::with_exposed_provenance_mut(at);
        // SAFETY: advice, which changes nothing that the program sees, whatever lies there.
        unsafe {
            libc::madvise(page, LARGE, libc::MADV_HUGEPAGE);
            libc::madvise(page, LARGE, MADV_COLLAPSE);
        }
    }
}

/// Whether all from `first` to before `end` is private memory of no file, by the lines of /proc/self/maps (proc_pid_maps(5)), which are in order.
fn is_own(maps: &str, first: usize, end: usize) -> bool {
    let mut reached = first;
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let range = fields.next().and_then(|range| range.split_once('-'));
        let Some((from, to)) = range.and_then(|(from, to)| {
            let number = |digits| usize::from_str_radix(digits, 16).ok();
            number(from).zip(number(to))
        }) else {
            return false;
        };
        if to <= reached {
            continue;
        }
        let is_private = fields.next().is_some_and(|flags| flags.ends_with('p'));
        let inode = fields.nth(2);
        if from > reached || !is_private || inode != Some("0") {
            return false;
        }
        reached = to;
        if reached >= end {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_memory_of_no_file_is_ones_own() {
        let maps = "00400000-00600000 r-xp 00000000 fe:00 77 /bin/program\n\
            01000000-01400000 rw-p 00000000 00:00 0 [heap]\n\
            01400000-01800000 rw-p 00000000 00:00 0\n\
            02000000-02400000 rw-s 00000000 00:01 1024 /dev/shm/x\n\
            02400000-02800000 rw-s 00000000 00:01 0\n";
        assert!(is_own(maps, 0x0100_0000, 0x0180_0000));
        assert!(is_own(maps, 0x0120_0000, 0x0160_0000));
        for (first, end) in [
            (0x0040_0000, 0x0060_0000),
            (0x0160_0000, 0x01a0_0000),
            (0x0180_0000, 0x0200_0000),
            (0x0200_0000, 0x0220_0000),
            (0x0240_0000, 0x0260_0000),
            (0x0280_0000, 0x02a0_0000),
        ] {
            assert!(!is_own(maps, first, end), "{first:#x}");
        }
        assert!(!is_own("no maps at all", 0x0100_0000, 0x0180_0000));
    }

    /// Bytes of large pages in the mapping that holds `address`.
    fn large_bytes(address: usize) -> u64 {
        let maps = fs::read_to_string("/proc/self/smaps").expect("one's own maps");
        let mut is_it = false;
        for line in maps.lines() {
            let mut fields = line.split_ascii_whitespace();
            let first = fields.next().expect("a word");
            if let Some((from, to)) = first.split_once('-') {
                let number = |digits| usize::from_str_radix(digits, 16).expect("a number");
                is_it = (number(from)..number(to)).contains(&address);
            } else if is_it && first == "AnonHugePages:" {
                let kib: u64 = fields.next().and_then(|kib| kib.parse().ok()).expect("KiB");
                return kib << 10;
            }
        }
        0
    }

    /// New memory that is written all over.
    struct Memory {
        at: *mut libc::c_void,
        length: usize,
    }

    impl Memory {
        fn new(length: usize) -> Self {
            let (read_write, own) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            );
            // SAFETY: a new mapping, which nobody else knows; advice about it.
            let at = unsafe {
                let at = libc::mmap(std::ptr::null_mut(), length, read_write, own, -1, 0);
                assert_ne!(at, libc::MAP_FAILED);
                libc::madvise(at, length, libc::MADV_NOHUGEPAGE);
                at
            };
            let memory = Self { at, length };
            for (place, byte) in memory.bytes().iter_mut().enumerate() {
                *byte = (place % 251) as u8;
            }
            memory
        }

        #[expect(clippy::mut_from_ref, reason = "one at a time, in tests")]
        fn bytes(&self) -> &mut [u8] {
            // SAFETY: the mapping, as long as it is one.
            unsafe { std::slice::from_raw_parts_mut(self.at.cast(), self.length) }
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            // SAFETY: the mapping, which nobody uses any more.
            unsafe { libc::munmap(self.at, self.length) };
        }
    }

    #[test]
    fn a_buffer_of_many_messages_gets_large_pages_and_keeps_its_bytes() {
        let length = 8 << 20;
        // What this kernel has to give: perhaps nothing.
        let trial = Memory::new(length);
        ask(
            trial.at.addr().next_multiple_of(LARGE),
            (trial.at.addr() + length) & !(LARGE - 1),
        );
        let gives = large_bytes(trial.at.addr() + length / 2) != 0;
        let memory = Memory::new(length);
        let (address, middle) = (memory.at.addr() as u64, memory.at.addr() + length / 2);
        let mut pages = LargePages::new(Some(2 << 20));
        for _ in 1..FIRST {
            pages.note(Some(address + 64), length - 64);
        }
        assert_eq!(large_bytes(middle), 0, "nothing is asked for yet");
        pages.note(Some(address + 64), length - 64);
        let whole = memory.bytes().iter().enumerate();
        assert!({ whole }.all(|(place, byte)| *byte == (place % 251) as u8));
        if gives && pages.is_allowed == Some(true) {
            assert!(large_bytes(middle) >= LARGE as u64);
        }
    }

    #[test]
    fn short_messages_and_pieces_of_a_page_do_not_count() {
        let mut pages = LargePages::new(Some(2 << 20));
        pages.note(Some(LARGE as u64), LARGE - 1);
        pages.note(Some(LARGE as u64 + 1), LARGE);
        pages.note(None, 2 * LARGE);
        assert_eq!(pages.next, 0);
        let mut none = LargePages::new(None);
        none.note(Some(LARGE as u64), 4 * LARGE);
        assert_eq!(none.next, 0);
        for buffer in 0..2 * BUFFERS as u64 {
            pages.note(Some((2 * buffer + 1) * LARGE as u64), LARGE);
        }
        assert_eq!(pages.next, 0, "the oldest are forgotten");
    }
}
