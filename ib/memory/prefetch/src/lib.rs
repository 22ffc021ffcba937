//! A hint to the processor that memory will be looked at soon. Changes nothing but time.
//!
//! A crate of its own, for rooms that have no other business with memory and forbid unsafe code. It goes when `core::hint::prefetch_read` is stable.

/// Bytes of a line.
const LINE: usize = 64;

/// The first so many lines of what something refers to, or all if it has less, will be looked at soon.
#[inline(always)]
pub fn lines<T>(of: &T, most: usize) {
    let bytes = size_of::<T>().min(most * LINE);
    let first = std::ptr::from_ref(of).cast::<i8>();
    for at in (0..bytes).step_by(LINE) {
        let line = first.wrapping_add(at);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the instruction reads nothing that a program could see, and faults nowhere.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}

/// The first line of an element of a slice will be looked at soon; nothing if there is none.
#[inline(always)]
pub fn element<T>(of: &[T], index: usize) {
    if let Some(element) = of.get(index) {
        lines(element, 1);
    }
}

#[cfg(test)]
mod tests {
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
