//! Memory regions, memory windows and device memory.
//!
//! Owns their life: registration publishes a key, deregistration revokes it and waits until no peer touches the
//! memory any more. The copying is the wires' matter.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferriband_memory::Segment;
use ferriband_memory::mapping::SharedMapping;
use ferriband_memory::populate;
use ferriband_transport::direct::layout::{KeyEntry, key_index};
use ferriband_transport::direct::mark::{self, Revoked};
use ferriband_transport::direct::{BindRequest, Link};
use ferriband_transport::types::Access;

use crate::base::error::Error;
use crate::base::limits;
use crate::lock;
use crate::objects::context::{Context, Pd};
use crate::process::peers::MapSource;
use crate::progress::Engine;

/// How long a deregistration waits for a peer that stopped in the middle of an access.
const STOPPED_PEER_WAIT: Duration = Duration::from_secs(2);

/// How to register a region.
#[derive(Clone, Copy, Debug)]
pub struct MrInit {
    /// First byte, a process address.
    pub addr: u64,
    /// Length in bytes.
    pub length: u64,
    /// Address by which requests name the first byte.
    pub iova: u64,
    /// Rights.
    pub access: Access,
}

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
    pd: Mutex<Arc<Pd>>,
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

/// EFAULT for memory that an adapter could not pin for these rights, as its driver answers; pages in as pinning does.
/// On-demand regions may name memory that comes later.
fn check_memory(init: &MrInit) -> Result<(), Error> {
    if init.access.contains(Access::ON_DEMAND) {
        return Ok(());
    }
    // A window may be bound for remote writes, so binding needs writable pages too (ib_access_writable of ib_verbs.h).
    let writes =
        Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC | Access::MW_BIND;
    populate::prepare(init.addr, init.length, init.access.intersects(writes))?;
    Ok(())
}

impl Mr {
    pub(crate) fn register(pd: &Arc<Pd>, init: MrInit) -> Result<Arc<Self>, Error> {
        Self::publish(pd, init, None)
    }

    pub(crate) fn of_dm(
        pd: &Arc<Pd>,
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
        pd: &Arc<Pd>,
        init: MrInit,
        dm: Option<Arc<DeviceMemory>>,
    ) -> Result<Arc<Self>, Error> {
        let engine = &pd.ctx.engine;
        engine.check_alive()?;
        check_init(&init)?;
        if dm.is_none() {
            check_memory(&init)?;
        }
        let key = engine.claim_key()?;
        let extent = engine.publish_key(key, pd, &init, dm.as_deref());
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
    pub fn pd(&self) -> Arc<Pd> {
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
    /// `Busy` while windows are bound to it, or if a peer stopped in the middle of an access; in that case the key is
    /// revoked nevertheless.
    pub fn deregister(&self) -> Result<(), Error> {
        let pd = self.pd();
        let engine = &pd.ctx.engine;
        engine.check_alive()?;
        if lock(&engine.regions.bound).contains_key(&self.key()) {
            return Err(Error::Busy("memory windows are bound to the region"));
        }
        engine.revoke_key(self.key())?;
        engine.forget_mapping(lock(&self.extent).map_id);
        if let Some(dm) = &self.dm {
            dm.regions.fetch_sub(1, Ordering::AcqRel);
        }
        pd.release();
        Ok(())
    }

    /// Changes domain, extent or rights. The key stays: peers that know it go on with what the region is then.
    ///
    /// # Errors
    /// As registration; `Busy` while windows are bound, or if a peer stopped in the middle of an access. On failure the region is
    /// as before, but for a stopped peer, which leaves it revoked.
    pub fn reregister(
        &self,
        pd: Option<&Arc<Pd>>,
        range: Option<(u64, u64)>,
        access: Option<Access>,
    ) -> Result<(), Error> {
        let old_pd = self.pd();
        let engine = &old_pd.ctx.engine;
        engine.check_alive()?;
        let key = self.key();
        if lock(&engine.regions.bound).contains_key(&key) {
            return Err(Error::Busy("memory windows are bound to the region"));
        }
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
        KeyEntry::revoke(&**engine.process.own, key_index(key));
        engine.wait_for_marks(Revoked::Key(key))?;
        engine.forget_mapping(old.map_id);
        let extent = engine.publish_key(key, new_pd, &init, self.dm.as_deref());
        *lock(&self.extent) = extent;
        new_pd.use_it();
        old_pd.release();
        *lock(&self.pd) = new_pd.clone();
        Ok(())
    }
}

/// Kind of a memory window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MwKind {
    /// Bound by a verb; addressed by any queue pair of the domain.
    Type1,
    /// Bound by a work request; addressed by the queue pair that bound it.
    Type2,
}

/// A memory window.
#[derive(Debug)]
pub struct Mw {
    /// Its protection domain.
    pub pd: Arc<Pd>,
    /// Type 1 or 2.
    pub kind: MwKind,
    /// What the C face stores to find its object.
    pub cookie: AtomicUsize,
    /// Its slot in the key table, as the first key.
    pub first_key: u32,
}

/// What the engine remembers of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowState {
    pub kind: MwKind,
    pub pd: u32,
    /// Key that is valid now; 0 while unbound.
    pub bound: u32,
    /// Key of the region it is bound to.
    pub region: u32,
}

impl Mw {
    pub(crate) fn allocate(pd: &Arc<Pd>, kind: MwKind) -> Result<Arc<Self>, Error> {
        let engine = &pd.ctx.engine;
        let first_key = engine.claim_key()?;
        lock(&engine.regions.windows).insert(
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
    /// `Busy` if a peer stopped in the middle of an access by it; the key is revoked, and the program may try again.
    pub fn deallocate(&self) -> Result<(), Error> {
        let engine = &self.pd.ctx.engine;
        engine.check_alive()?;
        let index = key_index(self.first_key) as u32;
        let state = lock(&engine.regions.windows).remove(&index);
        let key = state.map_or(self.first_key, |state| {
            if state.bound == 0 {
                self.first_key
            } else {
                state.bound
            }
        });
        if let Err(error) = engine.revoke_key(key) {
            lock(&engine.regions.windows).extend(state.map(|state| (index, state)));
            return Err(error);
        }
        if let Some(state) = state
            && state.bound != 0
        {
            engine.release_region(state.region);
        }
        self.pd.release();
        Ok(())
    }
}

/// Memory of the device: a shared segment, mapped by whoever writes to it.
#[derive(Debug)]
pub struct DeviceMemory {
    /// The context it belongs to.
    pub ctx: Arc<Context>,
    /// What the C face stores to find its object.
    pub cookie: AtomicUsize,
    /// Length in bytes as asked for.
    pub length: u64,
    pub(crate) segment: Arc<Segment>,
    regions: AtomicUsize,
}

impl DeviceMemory {
    pub(crate) fn allocate(ctx: &Arc<Context>, length: u64) -> Result<Arc<Self>, Error> {
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

impl Engine {
    /// Writes the entry of a region's key.
    fn publish_key(&self, key: u32, pd: &Pd, init: &MrInit, dm: Option<&DeviceMemory>) -> Extent {
        let (map_id, map_offset) = self.describe_mapping(init, dm);
        let entry = KeyEntry {
            key,
            access: init.access,
            iova: if init.access.contains(Access::ZERO_BASED) {
                0
            } else {
                init.iova
            },
            length: init.length,
            addr: init.addr,
            pd: pd.id,
            map_id,
            map_offset,
            only_qp: 0,
            window: false,
        };
        entry.write(&**self.process.own, key_index(key));
        Extent {
            addr: init.addr,
            length: init.length,
            access: init.access,
            map_id,
        }
    }

    pub(crate) fn claim_key(&self) -> Result<u32, Error> {
        lock(&self.regions.keys).claim(&self.process.own)
    }

    /// Revokes a key, waits until nobody uses it, and frees its slot.
    pub(crate) fn revoke_key(&self, key: u32) -> Result<(), Error> {
        KeyEntry::revoke(&**self.process.own, key_index(key));
        self.wait_for_marks(Revoked::Key(key))?;
        lock(&self.regions.keys).release(key);
        Ok(())
    }

    /// Waits until no access to what was revoked is in flight, here or in a peer.
    pub(crate) fn wait_for_marks(&self, what: Revoked) -> Result<(), Error> {
        if let Some(roce) = self.wires.roce.get() {
            let mut qps = self
                .table
                .qps
                .read()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .clone();
            qps.extend(lock(&self.table.carried).values().cloned().map(Some));
            roce.quiesce(&qps);
        }
        // records of peers are executed under the ring's consumer lock: having held it is having waited
        let peers = self.peer_list();
        let mut deadline = None;
        for link in peers.iter() {
            let Some(channel) = link.0.channel.get() else {
                continue;
            };
            self.wait_for_records(channel);
            while mark::in_flight(&**channel.table, self.process.slot, what)
                && link.0.lives()
                && !link.dead()
            {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + STOPPED_PEER_WAIT);
                if Instant::now() > deadline {
                    return Err(Error::Busy(
                        "a peer process stopped in the middle of an access; it cannot begin another",
                    ));
                }
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Invalidates a type 2 window's key on behalf of a work request or a peer's SEND with invalidate.
    pub(crate) fn invalidate_window(&self, pd: u32, qpn: u32, rkey: u32) -> bool {
        let index = key_index(rkey) as u32;
        let mut windows = lock(&self.regions.windows);
        let Some(state) = windows.get_mut(&index) else {
            return false;
        };
        let scoped =
            KeyEntry::read(&**self.process.own, rkey).is_some_and(|entry| entry.only_qp == qpn + 1);
        if state.kind != MwKind::Type2 || state.pd != pd || state.bound != rkey || !scoped {
            return false;
        }
        let region = std::mem::take(&mut state.region);
        state.bound = 0;
        drop(windows);
        KeyEntry::revoke(&**self.process.own, index as usize);
        self.release_region(region);
        // a stopped peer keeps its mark; the key is revoked all the same
        let _ = self.wait_for_marks(Revoked::Key(rkey));
        true
    }

    /// Binds, rebinds or (length 0) unbinds a window.
    pub(crate) fn bind_window(&self, pd: u32, qpn: u32, bind: &BindRequest) -> bool {
        let index = bind.window;
        let mut windows = lock(&self.regions.windows);
        let Some(mut state) = windows.get_mut(&index) else {
            return false;
        };
        if state.pd != pd || key_index(bind.rkey) as u32 != index {
            return false;
        }
        // a bound type 2 window is invalidated before it is bound again (IBA 10.6.7.2.5)
        if state.kind == MwKind::Type2 && state.bound != 0 {
            return false;
        }
        let old = (state.bound, state.region);
        if bind.length > 0 {
            let Some(region) = KeyEntry::read(&**self.process.own, bind.lkey) else {
                return false;
            };
            let Some(offset) = region.offset_of(bind.addr, bind.length) else {
                return false;
            };
            let needs_write = bind
                .access
                .intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
            let allowed = region.access.contains(Access::MW_BIND)
                && region.pd == pd
                && !region.window
                && (!needs_write || region.access.contains(Access::LOCAL_WRITE));
            if !allowed {
                return false;
            }
            if old.0 != 0 {
                // a peer in the middle of an access reads the old entry: it is not written over before the marks are clear. Not
                // with the windows locked: a record that is being executed may want them.
                KeyEntry::revoke(&**self.process.own, index as usize);
                (state.bound, state.region) = (0, 0);
                drop(windows);
                self.release_region(old.1);
                if self.wait_for_marks(Revoked::Key(old.0)).is_err() {
                    return false;
                }
                windows = lock(&self.regions.windows);
                match windows.get_mut(&index) {
                    Some(found) if found.bound == 0 => state = found,
                    _ => return false,
                }
            }
            self.hold_region(bind.lkey);
            let entry = KeyEntry {
                key: bind.rkey,
                access: bind.access,
                iova: if bind.access.contains(Access::ZERO_BASED) {
                    0
                } else {
                    bind.addr
                },
                length: bind.length,
                addr: region.addr.wrapping_add(offset),
                pd,
                map_id: region.map_id,
                map_offset: region.map_offset.wrapping_add(offset),
                only_qp: if state.kind == MwKind::Type2 {
                    qpn + 1
                } else {
                    0
                },
                window: true,
            };
            entry.write(&**self.process.own, index as usize);
            state.bound = bind.rkey;
            state.region = bind.lkey;
            return true;
        } else {
            KeyEntry::revoke(&**self.process.own, index as usize);
            (state.bound, state.region) = (0, 0);
        }
        drop(windows);
        if old.0 != 0 {
            self.release_region(old.1);
            let _ = self.wait_for_marks(Revoked::Key(old.0));
        }
        true
    }

    fn hold_region(&self, key: u32) {
        *lock(&self.regions.bound).entry(key).or_insert(0) += 1;
    }

    pub(crate) fn release_region(&self, key: u32) {
        let mut bound = lock(&self.regions.bound);
        if let Some(count) = bound.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                bound.remove(&key);
            }
        }
    }

    /// Notes how peers can map the memory of a region: identifier (0 for none) and offset of its first byte.
    fn describe_mapping(&self, init: &MrInit, dm: Option<&DeviceMemory>) -> (u32, u64) {
        let MrInit { addr, length, .. } = *init;
        // What lies there on demand may be another file the next time: a peer that has mapped this one would not see that.
        if length == 0 || init.access.contains(Access::ON_DEMAND) {
            return (0, 0);
        }
        if let Some(dm) = dm {
            let offset = addr - dm.segment.base_addr();
            return (
                self.keep_mapping(MapSource::Segment(dm.segment.clone())),
                offset,
            );
        }
        match SharedMapping::detect(addr, length) {
            Some(found) => {
                let offset = found.offset;
                (self.keep_mapping(MapSource::File(found, length)), offset)
            }
            None => (0, 0),
        }
    }
}
