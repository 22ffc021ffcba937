//! A span of shared memory as the direct wire's machine sees it.

use crate::segment::Span;
use ferriband_transport::direct::Words;
use std::sync::atomic::{Ordering, fence};

impl Words for Span {
    #[inline(always)]
    fn load(&self, off: usize) -> u64 {
        Span::load(self, off, Ordering::Acquire)
    }

    #[inline(always)]
    fn store(&self, off: usize, value: u64) {
        Span::store(self, off, value, Ordering::Release);
    }

    #[inline]
    fn swap(&self, off: usize, value: u64) -> u64 {
        Span::swap(self, off, value, Ordering::SeqCst)
    }

    #[inline]
    fn fetch_or(&self, off: usize, bits: u64) -> u64 {
        Span::fetch_or(self, off, bits, Ordering::SeqCst)
    }

    #[inline]
    fn fetch_and(&self, off: usize, bits: u64) -> u64 {
        Span::fetch_and(self, off, bits, Ordering::SeqCst)
    }

    #[inline]
    fn compare_exchange(&self, off: usize, old: u64, new: u64) -> Result<u64, u64> {
        Span::compare_exchange(self, off, old, new, Ordering::SeqCst, Ordering::SeqCst)
    }

    #[inline]
    fn copy_in(&self, off: usize, bytes: &[u8]) {
        Span::copy_in(self, off, bytes);
    }

    #[inline]
    fn copy_out(&self, off: usize, bytes: &mut [u8]) {
        Span::copy_out(self, off, bytes);
    }

    #[inline(always)]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}
