//! The memory of a session: its buffers, its device memory, and the regions over them.

use super::{GRH_BYTES, Session};
use crate::args::Service;
use crate::failure::Failure;
use crate::verbs::check;
use ferriband_verbs_sys::*;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::{c_int, c_void};
use std::ptr;

const PAGE_BYTES: usize = 4096;
/// What places and lengths in device memory are multiples of.
const DEVICE_WORD_BYTES: usize = 4;

/// Page-aligned zeroed memory.
pub(super) struct Buffer {
    pub(super) base: *mut u8,
    layout: Layout,
}

impl Buffer {
    pub(super) fn new(length_bytes: usize) -> Self {
        let rounded = length_bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        let layout =
            Layout::from_size_align(rounded, PAGE_BYTES).expect("a message is below 2 GiB");
        // SAFETY: the layout has a size above zero.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        Buffer { base, layout }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated by us with this layout; regions over it are deregistered before.
        unsafe { dealloc(self.base, self.layout) };
    }
}

/// Device memory with the calls that reach it.
pub(super) struct DeviceMemory {
    pub(super) raw: *mut ibv_dm,
    pub(super) free: unsafe extern "C" fn(*mut ibv_dm) -> c_int,
}

impl Session<'_> {
    pub(super) fn make_memory(&mut self) -> Result<(), Failure> {
        let library = &self.context.library;
        // SAFETY: the context is open for as long as self.
        self.pd = self.made(
            unsafe { (library.ibv_alloc_pd)(self.context.raw) },
            "a protection domain",
        )?;
        let local = IBV_ACCESS_LOCAL_WRITE;
        let remote =
            local | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        self.source_mr = self.register(&self.source, local)?;
        self.target_mr = if self.plan.device_memory {
            self.make_device_memory(remote)?
        } else {
            self.register(&self.target, remote)?
        };
        Ok(())
    }

    fn register(&self, buffer: &Buffer, access: u32) -> Result<*mut ibv_mr, Failure> {
        let (base, length) = (buffer.base.cast::<c_void>(), buffer.layout.size());
        // SAFETY: the buffer outlives the region: Drop deregisters first.
        let mr =
            unsafe { (self.context.library.ibv_reg_mr)(self.pd, base, length, access as c_int) };
        self.made(mr, &format!("a memory region of {length} bytes"))
    }

    fn make_device_memory(&mut self, access: u32) -> Result<*mut ibv_mr, Failure> {
        let without = || {
            Failure::new(format!(
                "adapter {} has no device memory (ibv_alloc_dm)",
                self.context.name
            ))
            .remedy("leave --dm out")
        };
        let extended = self.context.extended();
        if extended.is_null() {
            return Err(without());
        }
        // SAFETY: the context is open, and alloc_dm, free_dm and reg_dm_mr lie near the end of every
        // verbs_context since rdma-core 18.
        let (alloc, free, register) = unsafe {
            (
                (*extended).alloc_dm,
                (*extended).free_dm,
                (*extended).reg_dm_mr,
            )
        };
        let (Some(alloc), Some(free), Some(register)) = (alloc, free, register) else {
            return Err(without());
        };
        let length = self.target.layout.size();
        let mut attributes = ibv_alloc_dm_attr {
            length,
            log_align_req: 6,
            comp_mask: 0,
        };
        // SAFETY: the context is open, attributes is a valid struct.
        let dm = unsafe { alloc(self.context.raw, &mut attributes) };
        let dm = self.made(dm, &format!("{length} bytes of device memory"))?;
        self.device_memory = Some(DeviceMemory { raw: dm, free });
        // SAFETY: the domain and the device memory are alive, and the range is the whole of it.
        let mr = unsafe { register(self.pd, dm, 0, length, access | IBV_ACCESS_ZERO_BASED) };
        self.made(mr, "a memory region over device memory")
    }

    #[inline]
    pub(super) fn target_byte(&self, offset: usize) -> u8 {
        let Some(memory) = &self.device_memory else {
            // SAFETY: the offset is inside the target buffer; the peer may write it, hence volatile.
            return unsafe { self.target.base.add(offset).read_volatile() };
        };
        // Device memory is read in words: adapters demand that alignment (as mlx5 does).
        let mut word = [0; DEVICE_WORD_BYTES];
        copy_from_device(memory, offset - offset % DEVICE_WORD_BYTES, &mut word);
        word[offset % DEVICE_WORD_BYTES]
    }

    /// Fills the source buffer with a pattern.
    pub fn fill_source(&mut self, seed: u64, length_bytes: usize) {
        let pattern = pattern(seed, length_bytes);
        // SAFETY: the buffer is at least largest_bytes long, and no request on it is outstanding.
        unsafe { ptr::copy_nonoverlapping(pattern.as_ptr(), self.source.base, length_bytes) };
    }

    /// Sets the last byte of the message in the source buffer.
    #[inline]
    pub fn set_last_byte(&mut self, length_bytes: usize, value: u8) {
        // SAFETY: inside the buffer.
        unsafe { self.source.base.add(length_bytes - 1).write_volatile(value) };
    }

    /// The first `length_bytes` of the source buffer.
    pub fn source(&self, length_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; length_bytes];
        // SAFETY: the buffer is at least that long, and no request on it is outstanding.
        unsafe { ptr::copy_nonoverlapping(self.source.base, bytes.as_mut_ptr(), length_bytes) };
        bytes
    }

    /// The first `length_bytes` of what arrived in the target buffer; for datagrams what follows the routing header.
    pub fn target(&self, length_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; length_bytes];
        let skip = if self.plan.service == Service::Ud {
            GRH_BYTES
        } else {
            0
        };
        match &self.device_memory {
            Some(memory) => {
                bytes.resize(length_bytes.next_multiple_of(DEVICE_WORD_BYTES), 0);
                copy_from_device(memory, 0, &mut bytes);
                bytes.truncate(length_bytes);
            }
            // SAFETY: the buffer holds largest_bytes and the header; the peer is quiet now.
            None => unsafe {
                ptr::copy_nonoverlapping(
                    self.target.base.add(skip),
                    bytes.as_mut_ptr(),
                    length_bytes,
                )
            },
        }
        bytes
    }

    /// Overwrites the start of the target buffer.
    pub fn set_target(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        assert!(bytes.len() <= self.plan.largest_bytes);
        let Some(memory) = &self.device_memory else {
            // SAFETY: inside the buffer; the peer is quiet now.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.target.base, bytes.len()) };
            return Ok(());
        };
        // SAFETY: the device memory is alive, and its copy function does not change.
        let copy = unsafe { (*memory.raw).memcpy_to_dm }.expect("device memory can be written");
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(DEVICE_WORD_BYTES), 0);
        // SAFETY: the target has room for a header more than the largest message.
        let rc = unsafe { copy(memory.raw, 0, padded.as_ptr().cast(), padded.len()) };
        check(rc, "write", "device memory")
    }
}

fn copy_from_device(memory: &DeviceMemory, offset: usize, bytes: &mut [u8]) {
    // SAFETY: the device memory is alive, and its copy function does not change.
    let copy = unsafe { (*memory.raw).memcpy_from_dm }.expect("device memory can be read");
    // SAFETY: callers stay inside the target buffer's length, which the device memory has.
    let rc = unsafe {
        copy(
            bytes.as_mut_ptr().cast(),
            memory.raw,
            offset as u64,
            bytes.len(),
        )
    };
    assert_eq!(rc, 0, "a range inside device memory can be read");
}

/// Bytes that depend on the seed and on their place: a shifted, stale or half-copied message differs.
pub fn pattern(seed: u64, length_bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length_bytes + 8);
    while bytes.len() < length_bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length_bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_differ_by_seed_and_place() {
        let (a, b) = (pattern(1, 4096), pattern(2, 4096));
        assert_ne!(a, b);
        assert_ne!(a[..2048], a[2048..]);
        assert_eq!(pattern(1, 100), a[..100]);
    }
}
