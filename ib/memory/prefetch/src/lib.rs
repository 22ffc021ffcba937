//! Hints about memory: to the processor that some will be looked at soon, to the kernel that some is looked at all over. They change nothing but time.
//!
//! A crate of its own, for rooms that have no other business with memory and forbid unsafe code. Half of it goes when `core::hint::prefetch_read` is stable.

/// Bytes of a line.
const LINE: usize = 64;

/// The first so many lines of what something refers to, or all if it has less, will be looked at soon.
#[inline(always)]
pub fn lines<T>(of: &T, most: usize) {
    let bytes = size_of::<T>().min(most * LINE);
    let first = std::ptr::from_ref(of).addr();
    for at in (0..bytes).step_by(LINE) {
        line(first + at);
    }
}

/// The line at an address, if there is anything, will be looked at soon.
#[inline(always)]
fn line(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction reads nothing that a program could see, and faults nowhere.
    unsafe {
        let address = std::ptr::without_provenance(address);
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// The first line of an element of a slice will be looked at soon; nothing if there is none.
#[inline(always)]
pub fn element<T>(of: &[T], index: usize) {
    if let Some(element) = of.get(index) {
        lines(element, 1);
    }
}

/// Memory that will be looked at soon, asked for line by line in the order in which it lies, and so several times as fast as in another order. It knows addresses alone, and may outlive what is
/// there.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// The address of the next line, and of what is behind the last.
    next: usize,
    end: usize,
}

impl Stretch {
    /// All of a slice.
    pub fn of<T>(slice: &[T]) -> Stretch {
        let first = slice.as_ptr().addr();
        let bytes = size_of_val(slice);
        let begin = match bytes {
            0 => first,
            _ => first / LINE * LINE,
        };
        Stretch {
            next: begin,
            end: first + bytes,
        }
    }

    /// How many lines are left.
    pub const fn left(&self) -> usize {
        (self.end - self.next).div_ceil(LINE)
    }

    /// Asks for so many lines more; how many of them it had not.
    #[inline]
    pub fn ask(&mut self, lines: usize) -> usize {
        let own = lines.min(self.left());
        let begin = self.next;
        for at in 0..own {
            line(begin + at * LINE);
        }
        self.next = self.end.min(begin + own * LINE);
        lines - own
    }
}

/// Bytes of a large page.
#[cfg(target_os = "linux")]
const LARGE: usize = 2 << 20;

/// As of linux/mman.h; not every C library has it.
#[cfg(target_os = "linux")]
const MADV_COLLAPSE: i32 = 25;

/// Where large pages have been asked for: what lies side by side is asked for once.
#[derive(Debug, Default)]
pub struct LargePages {
    asked: std::ops::Range<usize>,
}

impl LargePages {
    /// The memory of a slice will be looked at all over, in no order: it, and what lies on the same 2 MiB, had better lie on large pages, so that a look needs fewer of the page tables.
    /// (madvise(2), MADV_COLLAPSE, Linux 6.1. Where the kernel has no such pages to give, or does not know how, all stays as it is.)
    pub fn ask<T>(&mut self, of: &[T]) {
        #[cfg(target_os = "linux")]
        {
            let begin = of.as_ptr().addr();
            let end = (begin + size_of_val(of)).next_multiple_of(LARGE);
            let begin = begin / LARGE * LARGE;
            if self.asked.start <= begin && end <= self.asked.end {
                return;
            }
            let mut at = begin;
            // one at a time: those that are not mapped as a whole are refused, and the others are not to suffer from it
            while at < end {
                // SAFETY: this moves what is in memory, and changes none of it; it keeps no address.
                unsafe {
                    libc::madvise(std::ptr::without_provenance_mut(at), LARGE, MADV_COLLAPSE);
                }
                at += LARGE;
            }
            self.asked = begin..end;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = of;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn asking_for_large_pages_changes_nothing() {
        let memory: Vec<u64> = (0..1 << 20).collect();
        let (small, none) = ([5u8; 100], [0u8; 0]);
        let mut pages = super::LargePages::default();
        pages.ask(&memory);
        pages.ask(&memory[1_000..]);
        pages.ask(&small);
        pages.ask(&none);
        assert!(
            memory
                .iter()
                .enumerate()
                .all(|(at, word)| at as u64 == *word)
        );
        assert_eq!((small, none), ([5; 100], [0; 0]));
    }

    #[test]
    fn a_stretch_ends_where_its_slice_does() {
        let memory = vec![7u8; 2_000];
        let mut stretch = super::Stretch::of(&memory);
        let all = stretch.left();
        assert!(
            (2_000usize.div_ceil(64)..=2_000 / 64 + 2).contains(&all),
            "{all}"
        );
        let mut asked = 0;
        loop {
            let missing = stretch.ask(3);
            asked += 3 - missing;
            assert_eq!(stretch.left(), all - asked);
            if missing > 0 {
                break;
            }
        }
        assert_eq!((asked, stretch.ask(1)), (all, 1));
        assert_eq!(super::Stretch::of(&memory[..0]).left(), 0);
    }

    #[test]
    fn hints_change_nothing_and_fault_nowhere() {
        let memory = vec![[7u8; 200]; 3];
        super::lines(&memory[2], 9);
        for index in [0, 2, 3, usize::MAX] {
            super::element(&memory, index);
        }
        assert!(memory.iter().flatten().all(|byte| *byte == 7));
    }
}
