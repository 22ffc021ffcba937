//! Memory for the device: the runtime's own registered buffers, and the program's memory in requests. With what watches memory ([`super::watch`], [`super::maps`]) the
//! only files of `net` with unsafe code, but for two questions to the system in [`super::cache`].

use super::cache::{self, Cache, Counts, Rights};
use super::maps::{Maps, Use};
use crate::host::{Sink, Source, will_read};
use crate::settings::Registration;
use ferriband_ibv::{Access, DeviceLimits, Element, LKey, Mr, Pd, Region, VerbsError};
use std::ffi::CStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Bytes of a line of the cache.
const LINE: usize = 64;
/// Of a record no more is fetched ahead than this.
const FETCHED: u32 = 4096;

/// Equal buffers in registered memory of the runtime's own. Untouched ones cost no memory.
pub struct Buffers {
    region: Arc<Region>,
    mr: Arc<Mr>,
    size: u32,
}

impl Buffers {
    /// `count` buffers of `size` bytes each.
    pub fn new(
        pd: &Arc<Pd>,
        name: &CStr,
        count: u32,
        size: u32,
        access: Access,
    ) -> io::Result<Self> {
        let region = Region::create(name, count as usize * size as usize)?;
        let mr = Mr::register(pd, &region, access)
            .map_err(|error| io::Error::from_raw_os_error(error.errno()))?;
        Ok(Self { region, mr, size })
    }

    /// The first `length` bytes of buffer `index`, for a request.
    #[inline]
    pub fn element(&self, index: u32, length: u32) -> Element<'static> {
        assert!(length <= self.size);
        self.mr
            .element(index as usize * self.size as usize, length)
            .expect("a buffer lies within its region")
    }

    /// `length` bytes at `at` in buffer `index`, for a request.
    #[inline]
    pub fn element_at(&self, index: u32, at: u32, length: u32) -> Element<'static> {
        let place = self.place(index, at, length as usize);
        self.mr
            .element(place, length)
            .expect("a buffer lies within its region")
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
        // SAFETY: within the region, which is mapped as long as `self`; nobody else writes a buffer that is being filled.
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

    /// `length` bytes at `at` in buffer `index`, to be read until the buffer is given back to the device.
    #[inline]
    pub fn source(&self, index: u32, at: u32, length: u32) -> Source {
        let place = self.place(index, at, length as usize);
        // SAFETY: within the region, which is mapped as long as the runtime lives; who takes it reads it before the buffer is posted again.
        unsafe { Source::new(self.pointer(place), length as usize) }
    }

    /// `length` bytes at `at` in the first buffer will be read next: asks for their lines, for no more than a core fetches at once.
    #[inline]
    pub fn expect(&self, at: u32, length: u32) {
        let start = self.place(0, at, length as usize);
        for line in (0..length.min(FETCHED)).step_by(LINE) {
            will_read(self.pointer(start + line as usize));
        }
    }

    /// Where they lie, as peers name it.
    pub fn address(&self) -> u64 {
        self.mr.address()
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.region.size() as u64
    }

    /// What peers name them by.
    pub fn rkey(&self) -> u32 {
        self.mr.rkey().0
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

/// How long messages of the program reach the device: through one region that stands for all memory where the device offers that, else through
/// registrations that are kept as long as their memory stays what it is, else each registered by itself.
pub struct Reach {
    pd: Arc<Pd>,
    cache: Option<Cache<Arc<Mr>>>,
    is_implicit: bool,
    is_on_demand: bool,
    /// Where a region is on demand, nobody looks at the range before a request does, and one that fails takes its queue pair along.
    maps: Maps,
    /// Ranges on demand that messages of other hosts had last; the next one takes the place at `next`. Whatever lies there when a peer asks is what the region
    /// means then, so it is good as long as it is kept; to make one and to let go of it for each message takes microseconds.
    kept: Vec<(Reachable, Access)>,
    next: usize,
    /// All memory, for requests of this process alone.
    local: Option<Arc<Mr>>,
    /// All memory, for peers of the same host and user, who could reach it anyway. No other peer gets a key of it.
    shared: Option<Arc<Mr>>,
}

/// Ranges on demand that are kept: as many as a window of messages has.
const KEPT: usize = 64;

/// What a range is registered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Requests of this process.
    Own,
    /// Those of a peer that shares host and user.
    Neighbor,
    /// Those of another peer.
    Stranger,
}

/// Why requests cannot name a range.
#[derive(Clone, Copy, Debug)]
pub enum Refusal {
    /// The program cannot read it, or write to it.
    Unreachable,
    /// The device does not take it.
    Device(VerbsError),
}

impl From<VerbsError> for Refusal {
    fn from(error: VerbsError) -> Self {
        Self::Device(error)
    }
}

/// A range of the program that requests may name as long as this lives.
#[derive(Clone)]
pub struct Reachable {
    address: u64,
    length: u64,
    lkey: LKey,
    rkey: u32,
    _mr: Arc<Mr>,
}

impl Reach {
    /// For requests of `pd`.
    ///
    /// # Errors
    /// What the kernel answers if the cache is wanted and memory cannot be watched here.
    pub fn new(pd: &Arc<Pd>, limits: &DeviceLimits, way: Registration) -> io::Result<Self> {
        let is_on_demand =
            limits.on_demand && matches!(way, Registration::Auto | Registration::OnDemand);
        let is_implicit = is_on_demand && limits.implicit_on_demand;
        let cache = match way {
            Registration::Cache => Some(Cache::new(cache::limit())?),
            // Where memory cannot be watched, nothing is kept: a registration of what was there before would be found.
            Registration::Auto if !is_on_demand => Cache::new(cache::limit()).ok(),
            _ => None,
        };
        Ok(Self {
            pd: Arc::clone(pd),
            cache,
            is_implicit,
            is_on_demand,
            maps: Maps::open(),
            kept: Vec::new(),
            next: 0,
            local: None,
            shared: None,
        })
    }

    /// What the cache has counted, if there is one.
    pub fn counts(&self) -> Option<Counts> {
        self.cache.as_ref().map(|cache| cache.counts)
    }

    /// Lets requests read `source`; none if it is no one range.
    pub fn source(
        &mut self,
        source: Source,
        purpose: Purpose,
    ) -> Result<Option<Reachable>, Refusal> {
        source
            .address()
            .map(|address| self.range(address, source.len(), Access::REMOTE_READ, purpose))
            .transpose()
    }

    /// Lets requests write to `sink`; none if it is no one range.
    pub fn sink(&mut self, sink: Sink, purpose: Purpose) -> Result<Option<Reachable>, Refusal> {
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        sink.pointer()
            .map(|start| self.range(start.addr() as u64, sink.len(), access, purpose))
            .transpose()
    }

    fn range(
        &mut self,
        address: u64,
        length: usize,
        access: Access,
        purpose: Purpose,
    ) -> Result<Reachable, Refusal> {
        if self.is_on_demand {
            let what = if access.contains(Access::LOCAL_WRITE) {
                Use::Write
            } else {
                Use::Read
            };
            if !self.maps.allow(address, length as u64, what) {
                return Err(Refusal::Unreachable);
            }
        }
        let keeps = purpose == Purpose::Stranger && self.is_on_demand;
        if keeps && let Some(found) = self.kept_for(address, length as u64, access) {
            return Ok(found);
        }
        let mr = match purpose {
            Purpose::Own if self.is_implicit => {
                Self::implicit(&self.pd, &mut self.local, Access::LOCAL_WRITE)?
            }
            Purpose::Neighbor if self.is_implicit => {
                let all = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
                Self::implicit(&self.pd, &mut self.shared, all)?
            }
            _ if self.cache.is_some()
                && let Some(mr) = self.cached(address, length, access) =>
            {
                mr
            }
            _ => {
                let remote = Access::REMOTE_READ | Access::REMOTE_WRITE;
                let mut access = match purpose {
                    Purpose::Own => access.difference(remote),
                    _ => access,
                };
                if self.is_on_demand {
                    access |= Access::ON_DEMAND;
                }
                // SAFETY: the range was promised until its operation is over, and what is made here is kept no longer; or it is on demand, and then requests
                // name it for ranges that were promised alone. A peer that was told its key could reach it later: a rank of this job.
                unsafe { Mr::register_foreign(&self.pd, address, length, access) }?
            }
        };
        let made = Reachable {
            address,
            length: length as u64,
            lkey: mr.lkey(),
            rkey: mr.rkey().0,
            _mr: mr,
        };
        if keeps {
            self.keep(made.clone(), access);
        }
        Ok(made)
    }

    /// A range on demand that is kept and holds this one, for as much as it is wanted for and no more.
    fn kept_for(&self, address: u64, length: u64, access: Access) -> Option<Reachable> {
        let (end, mut all) = (address + length, self.kept.iter());
        let holds = |(one, rights): &&(Reachable, Access)| {
            one.address <= address && end <= one.address + one.length && *rights == access
        };
        let (whole, _) = all.find(holds)?;
        Some(Reachable {
            address,
            length,
            ..whole.clone()
        })
    }

    fn keep(&mut self, made: Reachable, access: Access) {
        if self.kept.len() < KEPT {
            self.kept.push((made, access));
            return;
        }
        self.kept[self.next] = (made, access);
        self.next = (self.next + 1) % KEPT;
    }

    /// A registration that is kept, or will be.
    fn cached(&mut self, address: u64, length: usize, access: Access) -> Option<Arc<Mr>> {
        let rights = if access.contains(Access::LOCAL_WRITE) {
            Rights::Write
        } else {
            Rights::Read
        };
        let pd = &self.pd;
        let register = |start, length, rights| {
            let access = match rights {
                Rights::Read => Access::REMOTE_READ,
                Rights::Write => Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE,
            };
            // SAFETY: the message's range was promised until its operation is over, and after that requests name the registration only while the
            // memory is what it was. Peers that were told its key could reach the rest of the message's pages, and what was theirs once; they are
            // ranks of this job. What the program unmaps an adapter keeps, or finds gone.
            unsafe { Mr::register_foreign(pd, start, length as usize, access) }
        };
        let cache = self.cache.as_mut()?;
        cache.find((address, length as u64), rights, register)
    }

    fn implicit(
        pd: &Arc<Pd>,
        kept: &mut Option<Arc<Mr>>,
        access: Access,
    ) -> Result<Arc<Mr>, VerbsError> {
        if kept.is_none() {
            // SAFETY: requests of this process name ranges of it by `Reachable` alone; who gets its remote key could reach the memory anyway.
            *kept = Some(unsafe { Mr::register_implicit(pd, access) }?);
        }
        kept.clone().ok_or_else(|| unreachable!("just made"))
    }
}

impl Reachable {
    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// What peers name it by.
    pub fn rkey(&self) -> u32 {
        self.rkey
    }

    /// `length` bytes at `at`, for a request.
    pub fn element(&self, at: u64, length: u32) -> Element<'static> {
        assert!(at <= self.length && u64::from(length) <= self.length - at);
        // SAFETY: within a range that was promised until its operation is over, which is when its requests have completed.
        unsafe { Element::foreign(self.address + at, length, self.lkey) }
    }
}
