//! Memory for the device: the runtime's own registered buffers, and the program's memory in
//! requests, which `ferriband-registration` registers. The only file of `transport/verbs` with
//! unsafe code.

use super::errors::NoBuffers;
use crate::ground::hints::will_read;
use crate::ground::memory::{Sink, Source};
use ferriband_ibv::{Access, Element, LKey, Mr, Pd, Region};
pub use ferriband_registration::{Purpose, Reach, Reachable, Refusal};
use std::ffi::CStr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Bytes of a line of the cache.
const LINE: usize = 64;
/// Of a record no more is fetched ahead than this.
const FETCHED: u32 = 4096;

/// Equal buffers in memory of the runtime's own, which several adapters may know. Untouched ones
/// cost no memory.
pub struct Area {
    region: Arc<Region>,
    size: u32,
}

/// Equal buffers that one adapter knows.
pub struct Buffers {
    area: Area,
    mr: Arc<Mr>,
}

impl Buffers {
    /// `count` buffers of `size` bytes each.
    pub fn new(
        pd: &Arc<Pd>,
        name: &CStr,
        count: u32,
        size: u32,
        access: Access,
    ) -> Result<Self, NoBuffers> {
        let area = Area::new(name, count, size)?;
        let mr = area.register(pd, access)?;
        Ok(Self { area, mr })
    }

    /// The first `length` bytes of buffer `index`, for a request.
    #[inline]
    pub fn element(&self, index: u32, length: u32) -> Element<'static> {
        self.area.element_by(self.mr.lkey(), index, 0, length)
    }

    /// `length` bytes at `at` in buffer `index`, for a request.
    #[inline]
    pub fn element_at(&self, index: u32, at: u32, length: u32) -> Element<'static> {
        self.area.element_by(self.mr.lkey(), index, at, length)
    }

    /// What peers name them by.
    pub fn rkey(&self) -> u32 {
        self.mr.rkey().0
    }
}

impl Deref for Buffers {
    type Target = Area;

    #[inline]
    fn deref(&self) -> &Area {
        &self.area
    }
}

impl Area {
    /// `count` buffers of `size` bytes each, which no adapter knows yet.
    pub fn new(name: &CStr, count: u32, size: u32) -> Result<Self, NoBuffers> {
        let region = Region::create(name, count as usize * size as usize);
        let region = region.map_err(NoBuffers::None)?;
        Ok(Self { region, size })
    }

    /// Bytes of a buffer.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Has an adapter know them.
    pub fn register(&self, pd: &Arc<Pd>, access: Access) -> Result<Arc<Mr>, NoBuffers> {
        let bytes = self.bytes();
        Mr::register(pd, &self.region, access)
            .map_err(|error| NoBuffers::Unregistered(bytes, error))
    }

    /// `length` bytes at `at` in buffer `index`, for a request on an adapter that knows them by
    /// this key.
    #[inline]
    pub fn element_by(&self, key: LKey, index: u32, at: u32, length: u32) -> Element<'static> {
        let place = self.place(index, at, length as usize);
        assert!(place + length as usize <= self.region.size());
        // SAFETY: within the region, which is mapped as long as the key lives; nobody forms
        // references into it.
        unsafe { Element::foreign(self.region.address() + place as u64, length, key) }
    }

    /// Copies `bytes` to `at` in buffer `index`.
    #[inline]
    pub fn write(&self, index: u32, at: u32, bytes: &[u8]) {
        self.region
            .write(self.place(index, at, bytes.len()), bytes)
            .expect("a buffer lies within its region");
    }

    /// Copies all of `source` to `at` in buffer `index`.
    #[inline]
    pub fn fill(&self, index: u32, at: u32, source: Source) {
        let place = self.place(index, at, source.len());
        // SAFETY: within the region, which is mapped as long as `self`; nobody else writes a buffer
        // that is being filled.
        let sink = unsafe { Sink::new(self.pointer(place), source.len()) };
        source.copy_to(&sink);
    }

    /// Copies from `at` in buffer `index`.
    #[inline]
    pub fn read(&self, index: u32, at: u32, to: &mut [u8]) {
        self.region
            .read(self.place(index, at, to.len()), to)
            .expect("a buffer lies within its region");
    }

    /// `length` bytes at `at` in buffer `index`, to be read until the buffer is given back to the
    /// device.
    #[inline]
    pub fn source(&self, index: u32, at: u32, length: u32) -> Source {
        let place = self.place(index, at, length as usize);
        // SAFETY: within the region, which is mapped as long as the runtime lives; who takes it
        // reads it before the buffer is posted again.
        unsafe { Source::new(self.pointer(place), length as usize) }
    }

    /// `length` bytes at `at` in the first buffer will be read next: asks for their lines, for no
    /// more than a core fetches at once.
    #[inline]
    pub fn expect(&self, at: u32, length: u32) {
        let start = self.place(0, at, length as usize);
        for line in (0..length.min(FETCHED)).step_by(LINE) {
            will_read(self.pointer(start + line as usize));
        }
    }

    /// Where they lie, as peers name it.
    pub fn address(&self) -> u64 {
        self.region.address()
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.region.size() as u64
    }

    /// The aligned word at `at`, which a peer writes.
    #[inline]
    pub fn word(&self, at: u32) -> &AtomicU64 {
        self.region
            .word(at as usize)
            .expect("a word lies within its region")
    }

    #[inline]
    fn place(&self, index: u32, at: u32, length: usize) -> usize {
        assert!(at as usize + length <= self.size as usize);
        index as usize * self.size as usize + at as usize
    }

    #[inline]
    fn pointer(&self, place: usize) -> *mut u8 {
        assert!(place <= self.region.size());
        std::ptr::with_exposed_provenance_mut(self.region.address() as usize + place)
    }
}
