//! Application memory: ranges of our own address space that belong to the program.
//!
//! Owns: every copy and atomic on memory that the application registered. Must not know: keys and rights; the
//! caller translated and checked them, and hands in local virtual addresses.
//!
//! The program may read, write or unmap this memory whenever it likes, from any thread; it is never behind a
//! reference or a slice. Bytes that change during a copy arrive as a mixture, as from an adapter. Memory that the
//! program unmapped while registered is SIGSEGV in the program, where an adapter would have kept the pages.

use crate::Error;
use crate::copy::copy_ascending;
use crate::segment::Span;
use ferriband_transport::types::Sge;
use std::sync::atomic::{AtomicU64, Ordering};

/// A range of application memory: address and length in bytes, never a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct AppRange {
    /// First byte, a virtual address of this process.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
}

impl AppRange {
    /// The range, if it does not wrap around the address space.
    pub const fn new(addr: u64, len: u64) -> Option<AppRange> {
        match addr.checked_add(len) {
            Some(_) => Some(AppRange { addr, len }),
            None => None,
        }
    }

    /// True when all `len` bytes at `addr` lie within; no sum overflows (I7, CVE-2016-8636).
    #[inline]
    pub const fn contains(&self, addr: u64, len: u64) -> bool {
        addr >= self.addr && len <= self.len && addr - self.addr <= self.len - len
    }
}

/// The right to touch application memory by address.
///
/// Whoever makes one answers for every address that goes through it; the functions themselves are then safe to
/// call. It has no size and is copied freely.
///
/// Lists are slices of [`Sge`] whose `addr` is a local virtual address; `lkey` is ignored, an element of length 0
/// is skipped. `skip` counts from the start of the list. A list that ends early shortens the copy: every copy
/// returns the bytes moved. Bytes ascend, and the last one becomes visible last ([`crate::copy`]).
#[derive(Clone, Copy, Debug)]
pub struct AppMemory(());

impl AppMemory {
    /// Makes the capability.
    ///
    /// # Safety
    /// The holder must pass only ranges that the application has registered, or handed in with the call being
    /// served, for reading or writing respectively, and that are still so. No such range may hold memory that
    /// Rust code of this process has references to.
    pub const unsafe fn assume_registered() -> AppMemory {
        AppMemory(())
    }

    /// Copies `len` bytes of the list, from byte `skip`, to offset `off` of `dst` (a segment or peer mapping).
    /// Panics if `dst` cannot take `len` bytes there.
    #[inline]
    pub fn gather(self, list: &[Sge], skip: u64, len: usize, dst: &Span, off: usize) -> usize {
        let base = dst.write_ptr(off, len);
        walk(list, skip, len, |addr, done, n| {
            // SAFETY: the application's range (the capability's promise); write_ptr checked the other.
            unsafe { copy_ascending(base.add(done), source(addr), n) }
        })
    }

    /// Copies `len` bytes from offset `off` of `src` into the list, from byte `skip`.
    /// Panics if `src` does not hold `len` bytes there.
    #[inline]
    pub fn scatter(self, list: &[Sge], skip: u64, len: usize, src: &Span, off: usize) -> usize {
        let base = src.read_ptr(off, len);
        walk(list, skip, len, |addr, done, n| {
            // SAFETY: the application's range (the capability's promise); read_ptr checked the other.
            unsafe { copy_ascending(target(addr), base.add(done), n) }
        })
    }

    /// Copies `len` bytes of the list, from byte `skip`, to one range at `dst_addr`.
    #[inline]
    pub fn gather_to_addr(self, list: &[Sge], skip: u64, len: usize, dst_addr: u64) -> usize {
        walk(list, skip, len, |addr, done, n| {
            // SAFETY: both are the application's ranges (the capability's promise).
            unsafe { copy_ascending(target(dst_addr).add(done), source(addr), n) }
        })
    }

    /// Copies `len` bytes from one range at `src_addr` into the list, from byte `skip`.
    #[inline]
    pub fn scatter_from_addr(self, list: &[Sge], skip: u64, len: usize, src_addr: u64) -> usize {
        walk(list, skip, len, |addr, done, n| {
            // SAFETY: both are the application's ranges (the capability's promise).
            unsafe { copy_ascending(target(addr), source(src_addr).add(done), n) }
        })
    }

    /// Copies `len` bytes between two lists of this process: from byte `src_skip` of `src` to byte `dst_skip` of
    /// `dst`. Ranges that overlap give unspecified bytes.
    pub fn copy_lists(
        self,
        dst: &[Sge],
        dst_skip: u64,
        src: &[Sge],
        src_skip: u64,
        len: usize,
    ) -> usize {
        walk(src, src_skip, len, |addr, done, n| {
            let moved = self.scatter_from_addr(dst, dst_skip + done as u64, n, addr);
            debug_assert!(moved <= n);
        })
        .min(list_len(dst).saturating_sub(dst_skip).min(len as u64) as usize)
    }

    /// Copies bytes of our own (an inline payload, a packet's) into the list, from byte `skip`.
    #[inline]
    pub fn scatter_bytes(self, list: &[Sge], skip: u64, bytes: &[u8]) -> usize {
        walk(list, skip, bytes.len(), |addr, done, n| {
            // SAFETY: the application's range (the capability's promise); done + n <= bytes.len().
            unsafe { copy_ascending(target(addr), bytes.as_ptr().add(done), n) }
        })
    }

    /// Copies the list, from byte `skip`, into `bytes` of our own.
    #[inline]
    pub fn gather_bytes(self, list: &[Sge], skip: u64, bytes: &mut [u8]) -> usize {
        let base = bytes.as_mut_ptr();
        walk(list, skip, bytes.len(), |addr, done, n| {
            // SAFETY: the application's range (the capability's promise); done + n <= bytes.len().
            unsafe { copy_ascending(base.add(done), source(addr), n) }
        })
    }

    /// Copies as many bytes from `addr` as `bytes` takes, and gives their CRC-32 (Ethernet's). None where the processor does not do both at once, or not for this length: then nothing was
    /// copied.
    #[inline]
    pub fn gather_summed(self, addr: u64, bytes: &mut [u8]) -> Option<u32> {
        // SAFETY: the application's range (the capability's promise).
        unsafe { ferriband_crc::copy(bytes, source(addr)) }
    }

    /// As [`AppMemory::gather_bytes`], of a list that the program may have unmapped: the kernel copies, and finds out. About a
    /// microsecond. The bytes moved; fewer than asked for where the memory is not there or cannot be read.
    pub fn gather_bytes_if_there(self, list: &[Sge], skip: u64, bytes: &mut [u8]) -> usize {
        let base = bytes.as_mut_ptr();
        let own = std::process::id().cast_signed();
        let mut moved = 0;
        walk(list, skip, bytes.len(), |addr, done, n| {
            if moved != done {
                return;
            }
            let to = libc::iovec {
                // SAFETY: done + n <= bytes.len().
                iov_base: unsafe { base.add(done) }.cast(),
                iov_len: n,
            };
            let from = libc::iovec {
                iov_base: target(addr).cast(),
                iov_len: n,
            };
            // SAFETY: it writes at most `n` bytes to the piece of `bytes`; what it reads it looks up itself.
            let got = unsafe { libc::process_vm_readv(own, &to, 1, &from, 1, 0) };
            match usize::try_from(got) {
                Ok(got) => moved += got,
                Err(_) if is_missing(std::io::Error::last_os_error().raw_os_error()) => {}
                // The call is forbidden here, as in some containers.
                Err(_) => {
                    // SAFETY: the application's range (the capability's promise); done + n <= bytes.len().
                    unsafe { copy_ascending(base.add(done), source(addr), n) };
                    moved += n;
                }
            }
        });
        moved
    }

    /// Compare and swap of the 8 bytes at `addr`, sequentially consistent: gives the value found; `new` was stored
    /// if that equals `expected`.
    ///
    /// # Errors
    /// `Misaligned` unless `addr` is a multiple of 8 (I7).
    #[inline]
    pub fn compare_swap(self, addr: u64, expected: u64, new: u64) -> Result<u64, Error> {
        let result =
            word(addr)?.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst);
        Ok(result.unwrap_or_else(|found| found))
    }

    /// Adds to the 8 bytes at `addr`, wrapping, sequentially consistent: gives the value found.
    ///
    /// # Errors
    /// `Misaligned` unless `addr` is a multiple of 8 (I7).
    #[inline]
    pub fn fetch_add(self, addr: u64, add: u64) -> Result<u64, Error> {
        Ok(word(addr)?.fetch_add(add, Ordering::SeqCst))
    }
}

/// The sum of a list's lengths.
#[inline]
pub fn list_len(list: &[Sge]) -> u64 {
    list.iter().map(|sge| u64::from(sge.length)).sum()
}

/// Calls `each(address, bytes before it, bytes)` for the pieces of the list that make up `len` bytes from byte
/// `skip`; gives the bytes found, fewer than `len` if the list ends early.
#[inline(always)]
pub(crate) fn walk(
    list: &[Sge],
    skip: u64,
    len: usize,
    mut each: impl FnMut(u64, usize, usize),
) -> usize {
    let mut skip = skip;
    let mut done = 0;
    for sge in list {
        let length = u64::from(sge.length);
        if skip >= length {
            skip -= length;
            continue;
        }
        if done == len {
            break;
        }
        let n = ((length - skip) as usize).min(len - done);
        each(sge.addr.wrapping_add(skip), done, n);
        skip = 0;
        done += n;
    }
    done
}

#[inline(always)]
fn source(addr: u64) -> *const u8 {
    std::ptr::with_exposed_provenance(addr as usize)
}

#[inline(always)]
fn target(addr: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(addr as usize)
}

fn is_missing(errno: Option<i32>) -> bool {
    errno == Some(libc::EFAULT)
}

/// The aligned word at `addr`. Private to this module: only `AppMemory` gives addresses in.
#[inline(always)]
fn word(addr: u64) -> Result<&'static AtomicU64, Error> {
    if !addr.is_multiple_of(8) {
        return Err(Error::Misaligned { addr });
    }
    // SAFETY: a registered range (the capability's promise), aligned; the reference does not leave the caller's
    // expression.
    Ok(unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(addr as usize)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Segment;
    use proptest::prelude::*;

    fn memory() -> AppMemory {
        // SAFETY: the tests below hand in only ranges of buffers that they own and do not borrow meanwhile.
        unsafe { AppMemory::assume_registered() }
    }

    /// A buffer that stands for the application's, cut into a list.
    struct App {
        base: *mut u8,
        len: usize,
    }

    impl App {
        fn new(bytes: Vec<u8>) -> App {
            let bytes = bytes.into_boxed_slice();
            let len = bytes.len();
            App {
                base: Box::into_raw(bytes).cast(),
                len,
            }
        }

        fn list(&self, cuts: &[u32]) -> Vec<Sge> {
            let mut at = self.base.expose_provenance() as u64;
            let mut list = Vec::new();
            for &length in cuts {
                list.push(Sge {
                    addr: at,
                    length,
                    lkey: 0,
                });
                at += u64::from(length);
            }
            assert!(cuts.iter().map(|&c| c as usize).sum::<usize>() <= self.len);
            list
        }

        fn bytes(&self) -> Vec<u8> {
            // SAFETY: the buffer holds `len` initialised bytes and nobody writes it now.
            unsafe { std::slice::from_raw_parts(self.base, self.len) }.to_vec()
        }
    }

    impl Drop for App {
        fn drop(&mut self) {
            // SAFETY: made by Box::into_raw of a boxed slice of this length.
            drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.base, self.len)) });
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "makes the system call that Miri does not know")]
    fn what_is_not_there_any_more_is_found_out() {
        let page = rustix::param::page_size();
        // Where the kernel maps nothing of its own accord: the hole stays a hole while other threads map memory.
        let aside = std::ptr::without_provenance_mut(0x21_0000_0000);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: a new mapping; where there is one already, this fails.
        let at = unsafe { libc::mmap(aside, 2 * page, libc::PROT_READ, flags, -1, 0) };
        assert_eq!(at.addr(), aside.addr());
        let (addr, length) = (at.expose_provenance() as u64, 2 * page as u32);
        let list = [Sge {
            addr,
            length,
            lkey: 0,
        }];
        let mut out = vec![1; 2 * page];
        assert_eq!(memory().gather_bytes_if_there(&list, 0, &mut out), 2 * page);
        assert!(out.iter().all(|byte| *byte == 0));
        // SAFETY: the second page of our own mapping.
        assert_eq!(unsafe { libc::munmap(at.byte_add(page), page) }, 0);
        let half = page as u64 - 8;
        assert_eq!(
            memory().gather_bytes_if_there(&list, half, &mut out[..16]),
            8
        );
        assert_eq!(
            memory().gather_bytes_if_there(&list, page as u64, &mut out[..16]),
            0
        );
        // SAFETY: what is left of it.
        assert_eq!(unsafe { libc::munmap(at, page) }, 0);
    }

    fn pattern(len: usize, seed: u8) -> Vec<u8> {
        (0..len)
            .map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed))
            .collect()
    }

    fn cuts() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(prop_oneof![Just(0u32), 1u32..40, 1u32..600], 0..8)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn every_copy_moves_the_bytes_that_the_list_names(
            src_cuts in cuts(), dst_cuts in cuts(), skip in 0usize..700, dst_skip in 0usize..700,
            len in 0usize..1500, off in 0usize..100,
        ) {
            let total: usize = src_cuts.iter().map(|&c| c as usize).sum();
            let dst_total: usize = dst_cuts.iter().map(|&c| c as usize).sum();
            let src = App::new(pattern(total, 1));
            let list = src.list(&src_cuts);
            let want = src.bytes().get(skip..).unwrap_or(&[]).iter().copied().take(len).collect::<Vec<_>>();
            let m = memory();

            let segment = Segment::private(2000).expect("memory");
            prop_assert_eq!(m.gather(&list, skip as u64, len, &segment, off), want.len());
            let mut all = vec![0; 2000];
            segment.copy_out(0, &mut all);
            prop_assert_eq!(&all[off..off + want.len()], &want[..]);
            prop_assert!(all[..off].iter().chain(&all[off + want.len()..]).all(|&b| b == 0));

            let mut ours = vec![0; len];
            prop_assert_eq!(m.gather_bytes(&list, skip as u64, &mut ours), want.len());
            prop_assert_eq!(&ours[..want.len()], &want[..]);

            let dst = App::new(vec![0xEE; dst_total]);
            let dst_list = dst.list(&dst_cuts);
            let fits = want.len().min(dst_total.saturating_sub(dst_skip));
            prop_assert_eq!(m.copy_lists(&dst_list, dst_skip as u64, &list, skip as u64, len), fits);
            let mut expected = vec![0xEE; dst_total];
            if fits > 0 {
                expected[dst_skip..dst_skip + fits].copy_from_slice(&want[..fits]);
            }
            prop_assert_eq!(&dst.bytes(), &expected);

            let again = App::new(vec![0xEE; dst_total]);
            let again_list = again.list(&dst_cuts);
            prop_assert_eq!(m.scatter(&again_list, dst_skip as u64, want.len(), &segment, off), fits);
            prop_assert_eq!(&again.bytes(), &expected);

            let third = App::new(vec![0xEE; dst_total]);
            prop_assert_eq!(m.scatter_bytes(&third.list(&dst_cuts), dst_skip as u64, &want), fits);
            prop_assert_eq!(&third.bytes(), &expected);

            let flat = App::new(vec![0; len]);
            let flat_addr = flat.base.expose_provenance() as u64;
            prop_assert_eq!(m.gather_to_addr(&list, skip as u64, len, flat_addr), want.len());
            prop_assert_eq!(&flat.bytes()[..want.len()], &want[..]);
            let fourth = App::new(vec![0xEE; dst_total]);
            let n = m.scatter_from_addr(&fourth.list(&dst_cuts), dst_skip as u64, want.len(), flat_addr);
            prop_assert_eq!(n, fits);
            prop_assert_eq!(&fourth.bytes(), &expected);
        }
    }

    #[test]
    fn ranges_never_wrap() {
        let r = AppRange::new(0x1000, 0x100).unwrap();
        assert!(r.contains(0x1000, 0x100) && r.contains(0x1100, 0) && r.contains(0x10ff, 1));
        assert!(!r.contains(0x1000, 0x101) && !r.contains(0xfff, 1) && !r.contains(0x1100, 1));
        assert!(!r.contains(0x1001, u64::MAX) && !r.contains(u64::MAX, 2));
        assert_eq!(AppRange::new(u64::MAX, 1), None);
        assert!(
            AppRange::new(0, u64::MAX)
                .unwrap()
                .contains(5, u64::MAX - 5)
        );
    }

    #[test]
    fn atomics_give_the_old_value_and_refuse_misalignment() {
        let app = App::new(vec![0; 24]);
        let addr = (app.base.expose_provenance() as u64).next_multiple_of(8);
        let m = memory();
        assert_eq!(m.fetch_add(addr, 5), Ok(0));
        assert_eq!(m.fetch_add(addr, u64::MAX), Ok(5));
        assert_eq!(m.compare_swap(addr, 4, 9), Ok(4));
        assert_eq!(m.compare_swap(addr, 4, 1), Ok(9));
        assert_eq!(m.fetch_add(addr, 0), Ok(9));
        for off in 1..8 {
            assert_eq!(
                m.fetch_add(addr + off, 1),
                Err(Error::Misaligned { addr: addr + off })
            );
            assert_eq!(
                m.compare_swap(addr + off, 0, 1).unwrap_err().errno(),
                libc::EINVAL
            );
        }
    }
}
