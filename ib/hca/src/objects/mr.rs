//! Memory regions, memory windows and device memory.
//!
//! Owns their life: registration publishes a key, deregistration revokes it and waits until no peer
//! touches the memory any more. The copying is the wires' matter.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ferriband_memory::Segment;
use ferriband_memory::populate;
use ferriband_transport::direct::layout::key_index;
use ferriband_transport::direct::mark::Revoked;
use ferriband_transport::types::Access;

use crate::base::error::Error;
use crate::base::limits;
use crate::lock;
use crate::objects::domain::Domain;
use crate::objects::open::OpenDevice;
use crate::objects::regions::WindowState;
pub use crate::objects::regions::{MrInit, MwKind};

#[derive(Clone, Copy, Debug)]
struct Extent {
    addr: u64,
    length: u64,
    access: Access,
    map_id: u32,
}

/// A registered region.
#[derive(Debug)]
pub struct Mr {
    /// What the C face stores to find its object.
    pub cookie: AtomicUsize,
    /// Device memory that it names, if it does.
    pub dm: Option<Arc<DeviceMemory>>,
    pd: Mutex<Arc<Domain>>,
    key: AtomicU32,
    extent: Mutex<Extent>,
}

fn check_init(init: &MrInit) -> Result<(), Error> {
    // IBA 11.2.8.2: remote write and atomic need local write
    let remote = Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    if init.access.intersects(remote) && !init.access.contains(Access::LOCAL_WRITE) {
        return Err(Error::Invalid(
            "remote write or atomic access needs local write access",
        ));
    }
    // CVE-2014-8159: no sum of a registration may wrap
    if init.length > limits::MAX_MR_SIZE || init.addr.checked_add(init.length).is_none() {
        return Err(Error::Invalid("the region does not fit the address space"));
    }
    Ok(())
}

/// EFAULT for memory that an adapter could not pin for these rights, as its driver answers; pages
/// in as pinning does. On-demand regions may name memory that comes later.
fn check_memory(init: &MrInit) -> Result<(), Error> {
    if init.access.contains(Access::ON_DEMAND) {
        return Ok(());
    }
    // A window may be bound for remote writes, so binding needs writable pages too
    // (ib_access_writable of ib_verbs.h).
    let writes =
        Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC | Access::MW_BIND;
    populate::prepare(init.addr, init.length, init.access.intersects(writes))?;
    Ok(())
}

/// Writes the entry of a region's key.
fn publish(pd: &Domain, key: u32, init: &MrInit, dm: Option<&DeviceMemory>) -> Extent {
    let memory = pd.ctx.host.memory();
    let map_id = memory.publish_key(key, pd.id, init, dm.map(|dm| &dm.segment));
    Extent {
        addr: init.addr,
        length: init.length,
        access: init.access,
        map_id,
    }
}

impl Mr {
    pub(crate) fn register(pd: &Arc<Domain>, init: MrInit) -> Result<Arc<Self>, Error> {
        pd.ctx.check_alive()?;
        Self::publish(pd, init, None)
    }

    pub(crate) fn of_dm(
        pd: &Arc<Domain>,
        dm: &Arc<DeviceMemory>,
        offset: u64,
        length: u64,
        access: Access,
    ) -> Result<Arc<Self>, Error> {
        if offset > dm.length || length > dm.length - offset {
            return Err(Error::Invalid("the range leaves the device memory"));
        }
        let addr = dm.segment.base_addr() + offset;
        dm.regions.fetch_add(1, Ordering::AcqRel);
        // device memory is always addressed from zero (ibv_reg_dm_mr)
        let init = MrInit {
            addr,
            length,
            iova: 0,
            access,
        };
        Self::publish(pd, init, Some(dm.clone())).inspect_err(|_| {
            dm.regions.fetch_sub(1, Ordering::AcqRel);
        })
    }

    fn publish(
        pd: &Arc<Domain>,
        init: MrInit,
        dm: Option<Arc<DeviceMemory>>,
    ) -> Result<Arc<Self>, Error> {
        pd.ctx.status.life.check()?;
        check_init(&init)?;
        if dm.is_none() {
            check_memory(&init)?;
        }
        let key = pd.ctx.host.memory().claim_key()?;
        let extent = publish(pd, key, &init, dm.as_deref());
        pd.use_it();
        Ok(Arc::new(Mr {
            cookie: AtomicUsize::new(0),
            dm,
            pd: Mutex::new(pd.clone()),
            key: AtomicU32::new(key),
            extent: Mutex::new(extent),
        }))
    }

    /// Its key, local and remote alike.
    pub fn key(&self) -> u32 {
        self.key.load(Ordering::Acquire)
    }

    /// Its protection domain.
    pub fn pd(&self) -> Arc<Domain> {
        lock(&self.pd).clone()
    }

    /// First byte and length.
    pub fn extent(&self) -> (u64, u64) {
        let extent = lock(&self.extent);
        (extent.addr, extent.length)
    }

    /// Takes the region back: no access is in flight when this returns Ok.
    ///
    /// # Errors
    /// `Busy` while windows are bound to it, or if a peer stopped in the middle of an access; in
    /// that case the key is revoked nevertheless.
    pub fn deregister(&self) -> Result<(), Error> {
        let pd = self.pd();
        pd.ctx.status.life.check()?;
        let memory = pd.ctx.host.memory();
        memory.revoke_unbound(self.key())?;
        memory.revoke_key(self.key())?;
        memory.quiet.forget_mapping(lock(&self.extent).map_id);
        if let Some(dm) = &self.dm {
            dm.regions.fetch_sub(1, Ordering::AcqRel);
        }
        pd.release();
        Ok(())
    }

    /// Changes domain, extent or rights. The key stays: peers that know it go on with what the
    /// region is then.
    ///
    /// # Errors
    /// As registration; `Busy` while windows are bound, or if a peer stopped in the middle of an
    /// access. On failure the region is as before, but for a stopped peer, which leaves it revoked.
    pub fn reregister(
        &self,
        pd: Option<&Arc<Domain>>,
        range: Option<(u64, u64)>,
        access: Option<Access>,
    ) -> Result<(), Error> {
        let old_pd = self.pd();
        old_pd.ctx.status.life.check()?;
        let memory = old_pd.ctx.host.memory();
        let key = self.key();
        let new_pd = pd.unwrap_or(&old_pd);
        let old = *lock(&self.extent);
        let (addr, length) = range.unwrap_or((old.addr, old.length));
        let access = access.unwrap_or(old.access);
        let init = MrInit {
            addr,
            length,
            iova: addr,
            access,
        };
        check_init(&init)?;
        if self.dm.is_none() && (range.is_some() || access != old.access) {
            check_memory(&init)?;
        }
        memory.revoke_unbound(key)?;
        memory.quiet.wait_for_marks(Revoked::Key(key))?;
        memory.quiet.forget_mapping(old.map_id);
        let extent = publish(new_pd, key, &init, self.dm.as_deref());
        *lock(&self.extent) = extent;
        new_pd.use_it();
        old_pd.release();
        *lock(&self.pd) = new_pd.clone();
        Ok(())
    }
}

/// A memory window.
#[derive(Debug)]
pub struct Mw {
    /// Its protection domain.
    pub pd: Arc<Domain>,
    /// Type 1 or 2.
    pub kind: MwKind,
    /// What the C face stores to find its object.
    pub cookie: AtomicUsize,
    /// Its slot in the key table, as the first key.
    pub first_key: u32,
}

impl Mw {
    pub(crate) fn allocate(pd: &Arc<Domain>, kind: MwKind) -> Result<Arc<Self>, Error> {
        pd.ctx.check_alive()?;
        let memory = pd.ctx.host.memory();
        let first_key = memory.claim_key()?;
        lock(&memory.regions.windows).insert(
            key_index(first_key) as u32,
            WindowState {
                kind,
                pd: pd.id,
                bound: 0,
                region: 0,
            },
        );
        pd.use_it();
        Ok(Arc::new(Mw {
            pd: pd.clone(),
            kind,
            cookie: AtomicUsize::new(0),
            first_key,
        }))
    }

    /// Ends the window, bound or not.
    ///
    /// # Errors
    /// `Busy` if a peer stopped in the middle of an access by it; the key is revoked, and the
    /// program may try again.
    pub fn deallocate(&self) -> Result<(), Error> {
        self.pd.ctx.status.life.check()?;
        let memory = self.pd.ctx.host.memory();
        let index = key_index(self.first_key) as u32;
        let state = lock(&memory.regions.windows).remove(&index);
        let key = state.map_or(self.first_key, |state| {
            if state.bound == 0 {
                self.first_key
            } else {
                state.bound
            }
        });
        if let Err(error) = memory.revoke_key(key) {
            lock(&memory.regions.windows).extend(state.map(|state| (index, state)));
            return Err(error);
        }
        if let Some(state) = state
            && state.bound != 0
        {
            memory.release_region(state.region);
        }
        self.pd.release();
        Ok(())
    }
}

/// Memory of the device: a shared segment, mapped by whoever writes to it.
#[derive(Debug)]
pub struct DeviceMemory {
    /// The device, as it was opened.
    pub ctx: Arc<OpenDevice>,
    /// What the C face stores to find its object.
    pub cookie: AtomicUsize,
    /// Length in bytes as asked for.
    pub length: u64,
    pub(crate) segment: Arc<Segment>,
    regions: AtomicUsize,
}

impl DeviceMemory {
    pub(crate) fn allocate(ctx: &Arc<OpenDevice>, length: u64) -> Result<Arc<Self>, Error> {
        if length == 0 || length > limits::MAX_DM {
            return Err(Error::Invalid(
                "device memory is between 1 byte and max_dm_size",
            ));
        }
        let segment = Arc::new(Segment::create(
            "ferriband-dm",
            length.next_multiple_of(4096) as usize,
        )?);
        segment.commit(0, segment.len())?;
        Ok(Arc::new(DeviceMemory {
            ctx: ctx.clone(),
            cookie: AtomicUsize::new(0),
            length,
            segment,
            regions: AtomicUsize::new(0),
        }))
    }

    /// Process address of its first byte.
    pub fn addr(&self) -> u64 {
        self.segment.base_addr()
    }

    /// Checks that it may go.
    ///
    /// # Errors
    /// `Busy` while regions name it.
    pub fn free(&self) -> Result<(), Error> {
        match self.regions.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => Err(Error::Busy("memory regions name the device memory")),
        }
    }
}
