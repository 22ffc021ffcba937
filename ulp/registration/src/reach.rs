//! Which registration stands for a range of the program's memory.
//!
//! Owns: the choice between the ways, and what is kept of each. Must not know: whose operation it
//! is, and when that is over: who asked keeps what he got until then.

use crate::cache::{self, Cache, Counts, Rights};
use crate::maps::{Maps, Use};
use ferriband_ibv::{Access, DeviceLimits, Element, LKey, Mr, Pd, VerbsError};
use std::io;
use std::sync::Arc;

/// How memory is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// On demand where the device offers it, else by the cache where memory can be watched, else
    /// for each operation.
    Auto,
    /// On demand where the device offers it, else for each operation.
    OnDemand,
    /// By the cache, whatever the device offers.
    Cache,
    /// For each operation.
    Each,
}

/// How long messages of the program reach the device: through one region that stands for all memory
/// where the device offers that, else through registrations that are kept as long as their memory
/// stays what it is, else each registered by itself.
pub struct Reach {
    pd: Arc<Pd>,
    cache: Option<Cache<Arc<Mr>>>,
    is_implicit: bool,
    is_on_demand: bool,
    /// Where a region is on demand, nobody looks at the range before a request does, and one that
    /// fails takes its queue pair along.
    maps: Maps,
    /// Ranges on demand that messages of other hosts had last, and all messages where the device
    /// has no region for all memory; the next one takes the place at `next`. Whatever lies there
    /// when a peer asks is what the region means then, so it is good as long as it is kept; to make
    /// one and to let go of it for each message takes microseconds.
    kept: Vec<(Reachable, Access)>,
    next: usize,
    /// All memory, for requests of this process alone.
    local: Option<Arc<Mr>>,
    /// All memory, for peers of the same host and user, who could reach it anyway. No other peer
    /// gets a key of it.
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
    _mr: Option<Arc<Mr>>,
}

impl Reach {
    /// For requests of `pd`.
    ///
    /// # Errors
    /// What the kernel answers if the cache is wanted and memory cannot be watched here.
    pub fn new(pd: &Arc<Pd>, limits: &DeviceLimits, way: Way) -> io::Result<Self> {
        let is_on_demand = limits.on_demand && matches!(way, Way::Auto | Way::OnDemand);
        let is_implicit = is_on_demand && limits.implicit_on_demand;
        let cache = match way {
            Way::Cache => Some(Cache::new(cache::limit())?),
            // Where memory cannot be watched, nothing is kept: a registration of what was there
            // before would be found.
            Way::Auto if !is_on_demand => Cache::new(cache::limit()).ok(),
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

    /// Lets requests name `[address, address + length)`, not empty, for what `access` says:
    /// REMOTE_READ where it is read, LOCAL_WRITE and REMOTE_WRITE where it is written.
    ///
    /// # Errors
    /// The program may not do that there itself, or the device does not take it.
    pub fn range(
        &mut self,
        address: u64,
        length: usize,
        access: Access,
        purpose: Purpose,
    ) -> Result<Reachable, Refusal> {
        if self.is_on_demand {
            self.check(address, length, access)?;
        }
        let remote = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let mut rights = match purpose {
            Purpose::Own => access.difference(remote),
            _ => access,
        };
        rights.set(Access::ON_DEMAND, self.is_on_demand);
        // others have a region for all memory where the device offers that
        let keeps = self.is_on_demand && (purpose == Purpose::Stranger || !self.is_implicit);
        if keeps && let Some(found) = self.kept_for(address, length as u64, rights) {
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
            _ => {
                if self.cache.is_some()
                    && let Some(mr) = self.cached(address, length, access)
                {
                    return Ok(Reachable::of(address, length as u64, mr));
                }
                let made = self.register(address, length, rights)?;
                if keeps {
                    self.keep(made.clone(), rights);
                }
                return Ok(made);
            }
        };
        Ok(Reachable::of(address, length as u64, mr))
    }

    /// Whether the program may read, or write, `[address, address + length)`. A mapping that was
    /// looked at before is believed while its last byte is there.
    pub fn allows(&mut self, address: u64, length: u64, what: Use) -> bool {
        length == 0 || self.maps.allow(address, length, what)
    }

    /// Lets peers reach a range, not empty, by what this returns and for as long as it lives, in
    /// many operations: on demand where the device offers it, and not kept.
    ///
    /// # Errors
    /// As of [`Reach::range`].
    pub fn lasting(
        &mut self,
        address: u64,
        length: usize,
        access: Access,
    ) -> Result<Reachable, Refusal> {
        if !self.is_on_demand {
            return self.pinned(address, length, access);
        }
        self.check(address, length, access)?;
        self.register(address, length, access | Access::ON_DEMAND)
    }

    /// Registers a range, not empty, for one operation and never on demand: the device looks at
    /// each of its pages now, so that none is missing later.
    ///
    /// # Errors
    /// The device does not take it, perhaps since a page is not there.
    pub fn pinned(
        &self,
        address: u64,
        length: usize,
        access: Access,
    ) -> Result<Reachable, Refusal> {
        self.register(address, length, access)
    }

    fn register(&self, address: u64, length: usize, access: Access) -> Result<Reachable, Refusal> {
        // SAFETY: the range was promised until what is made here ends, or it is on demand, and then
        // requests name it for ranges that were promised alone. A peer that was told its key could
        // reach it later: one of this job.
        let mr = unsafe { Mr::register_foreign(&self.pd, address, length, access) }?;
        Ok(Reachable::of(address, length as u64, mr))
    }

    /// Refuses what the program cannot read, or write, itself.
    fn check(&mut self, address: u64, length: usize, access: Access) -> Result<(), Refusal> {
        let what = match access.contains(Access::LOCAL_WRITE) {
            true => Use::Write,
            false => Use::Read,
        };
        match self.maps.allow(address, length as u64, what) {
            true => Ok(()),
            false => Err(Refusal::Unreachable),
        }
    }

    /// A range on demand that is kept with these rights and holds this one, for as much as it is
    /// wanted for and no more.
    fn kept_for(&self, address: u64, length: u64, rights: Access) -> Option<Reachable> {
        let (end, mut all) = (address + length, self.kept.iter());
        let holds = |(one, kept): &&(Reachable, Access)| {
            one.address <= address && end <= one.address + one.length && *kept == rights
        };
        let (whole, _) = all.find(holds)?;
        Some(Reachable {
            address,
            length,
            ..whole.clone()
        })
    }

    fn keep(&mut self, made: Reachable, rights: Access) {
        if self.kept.len() < KEPT {
            self.kept.push((made, rights));
            return;
        }
        self.kept[self.next] = (made, rights);
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
            // SAFETY: the message's range was promised until its operation is over, and after that
            // requests name the registration only while the memory is what it was. Peers that were
            // told its key could reach the rest of the message's pages, and what was theirs once;
            // they are ranks of this job. What the program unmaps an adapter keeps, or finds gone.
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
            // SAFETY: requests of this process name ranges of it by `Reachable` alone; who gets its
            // remote key could reach the memory anyway.
            *kept = Some(unsafe { Mr::register_implicit(pd, access) }?);
        }
        kept.clone().ok_or_else(|| unreachable!("just made"))
    }
}

impl Reachable {
    fn of(address: u64, length: u64, mr: Arc<Mr>) -> Reachable {
        Reachable {
            address,
            length,
            lkey: mr.lkey(),
            rkey: mr.rkey().0,
            _mr: Some(mr),
        }
    }

    /// A range that no device knows yet: its keys are those of nothing.
    pub fn unknown(address: u64, length: u64) -> Reachable {
        Reachable {
            address,
            length,
            lkey: LKey::default(),
            rkey: 0,
            _mr: None,
        }
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// What peers name it by.
    pub fn rkey(&self) -> u32 {
        self.rkey
    }

    /// `length` bytes at `at`, for a request.
    pub fn element(&self, at: u64, length: u32) -> Element<'static> {
        assert!(at <= self.length && u64::from(length) <= self.length - at);
        // SAFETY: within a range that was promised until its operation is over, which is when its
        // requests have completed.
        unsafe { Element::foreign(self.address + at, length, self.lkey) }
    }
}
