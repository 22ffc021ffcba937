//! Registered memory of a process: keys, and windows onto it.
//!
//! Owns which keys exist and what is bound to which region; the entries themselves lie in the
//! process segment, where peers read them. Must not know who accesses memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ferriband_memory::Segment;
use ferriband_memory::mapping::SharedMapping;
use ferriband_transport::direct::BindRequest;
use ferriband_transport::direct::layout::{KeyEntry, key_index};
use ferriband_transport::direct::mark::Revoked;
use ferriband_transport::types::Access;

use crate::base::error::Error;
use crate::lock;
use crate::process::keys::KeyTable;
use crate::process::peers::MapSource;
use crate::process::process::Process;

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

/// Kind of a memory window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MwKind {
    /// Bound by a verb; addressed by any queue pair of the domain.
    Type1,
    /// Bound by a work request; addressed by the queue pair that bound it.
    Type2,
}

/// What is remembered of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowState {
    pub kind: MwKind,
    pub pd: u32,
    /// Key that is valid now; 0 while unbound.
    pub bound: u32,
    /// Key of the region it is bound to.
    pub region: u32,
}

/// Regions and windows of a process.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    pub(crate) keys: Mutex<KeyTable>,
    pub(crate) windows: Mutex<BTreeMap<u32, WindowState>>,
    /// How many windows are bound to a region, by its key.
    pub(crate) bound: Mutex<BTreeMap<u32, usize>>,
}

/// Who hands regions out to peers, and waits until nobody is in the middle of an access.
pub(crate) trait Quiet {
    /// Remembers how peers can map a region; 0 if no identifier is left.
    fn keep_mapping(&self, source: MapSource) -> u32;

    /// The region behind an identifier is deregistered.
    fn forget_mapping(&self, id: u32);

    /// Returns when no access to what was revoked is in flight, here or in a peer.
    ///
    /// # Errors
    /// `Busy` if a peer stopped in the middle of an access.
    fn wait_for_marks(&self, what: Revoked) -> Result<(), Error>;
}

/// Regions, with what publishing and revoking one needs.
pub(crate) struct Memory<'a> {
    pub(crate) regions: &'a Regions,
    pub(crate) process: &'a Process,
    pub(crate) quiet: &'a dyn Quiet,
}

impl Memory<'_> {
    /// Writes the entry of a region's key, in protection domain `pd`; `dm` is the device memory
    /// that it names. Gives the identifier by which peers map it, 0 for none.
    pub(crate) fn publish_key(
        &self,
        key: u32,
        pd: u32,
        init: &MrInit,
        dm: Option<&Arc<Segment>>,
    ) -> u32 {
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
            pd,
            map_id,
            map_offset,
            only_qp: 0,
            window: false,
        };
        entry.write(&**self.process.own, key_index(key));
        map_id
    }

    pub(crate) fn claim_key(&self) -> Result<u32, Error> {
        lock(&self.regions.keys).claim(&self.process.own)
    }

    /// Revokes a key, waits until nobody uses it, and frees its slot.
    pub(crate) fn revoke_key(&self, key: u32) -> Result<(), Error> {
        KeyEntry::revoke(&**self.process.own, key_index(key));
        self.quiet.wait_for_marks(Revoked::Key(key))?;
        lock(&self.regions.keys).release(key);
        Ok(())
    }

    /// Revokes the key of a region that no window is bound to.
    ///
    /// # Errors
    /// `Busy` while windows are bound (IBA 11.2.8.5).
    pub(crate) fn revoke_unbound(&self, key: u32) -> Result<(), Error> {
        let bound = lock(&self.regions.bound);
        if bound.contains_key(&key) {
            return Err(Error::Busy("memory windows are bound to the region"));
        }
        // under the lock: whoever binds a window later finds the key revoked
        KeyEntry::revoke(&**self.process.own, key_index(key));
        Ok(())
    }

    /// Invalidates a type 2 window's key on behalf of a work request or a peer's SEND with
    /// invalidate. True: no access by the key is in flight, and none begins.
    ///
    /// False if it is not to be invalidated so, and also if a peer stopped in the middle of an
    /// access by it. The key is revoked then, and the window stays bound until it is deallocated:
    /// its region cannot be deregistered while the peer may still end its access.
    pub(crate) fn invalidate_window(&self, pd: u32, qpn: u32, rkey: u32) -> bool {
        let index = key_index(rkey) as u32;
        let windows = lock(&self.regions.windows);
        let Some(state) = windows.get(&index) else {
            return false;
        };
        let scoped =
            KeyEntry::read(&**self.process.own, rkey).is_some_and(|entry| entry.only_qp == qpn + 1);
        if state.kind != MwKind::Type2 || state.pd != pd || state.bound != rkey || !scoped {
            return false;
        }
        // under the lock: of two that invalidate it, one finds it valid
        KeyEntry::revoke(&**self.process.own, index as usize);
        drop(windows);
        self.unbind(index, rkey)
    }

    /// Ends the binding of a window whose key is revoked, once no access by that key is in flight:
    /// the window's region may be deregistered, and its memory freed, as soon as no window is bound
    /// to it. False if a peer stopped in the middle of an access: the window stays bound.
    fn unbind(&self, index: u32, key: u32) -> bool {
        // not with the windows locked: a record that is being executed may want them
        if self.quiet.wait_for_marks(Revoked::Key(key)).is_err() {
            return false;
        }
        let mut windows = lock(&self.regions.windows);
        // unless it was deallocated meanwhile
        if let Some(state) = windows.get_mut(&index)
            && state.bound == key
        {
            state.bound = 0;
            let region = std::mem::take(&mut state.region);
            drop(windows);
            self.release_region(region);
        }
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
        let old = state.bound;
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
            if old != 0 {
                // a peer in the middle of an access reads the old entry: it is not written over
                // before the marks are clear
                KeyEntry::revoke(&**self.process.own, index as usize);
                drop(windows);
                if !self.unbind(index, old) {
                    return false;
                }
                windows = lock(&self.regions.windows);
                match windows.get_mut(&index) {
                    Some(found) if found.bound == 0 => state = found,
                    _ => return false,
                }
            }
            if !self.hold_region(&region) {
                return false;
            }
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
        }
        KeyEntry::revoke(&**self.process.own, index as usize);
        drop(windows);
        old == 0 || self.unbind(index, old)
    }

    /// A window is about to be bound to a region; false if the region is not as it was when it was
    /// looked at.
    fn hold_region(&self, region: &KeyEntry) -> bool {
        let mut bound = lock(&self.regions.bound);
        if KeyEntry::read(&**self.process.own, region.key) != Some(*region) {
            return false;
        }
        *bound.entry(region.key).or_insert(0) += 1;
        true
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

    /// Notes how peers can map the memory of a region: identifier (0 for none) and offset of its
    /// first byte.
    fn describe_mapping(&self, init: &MrInit, dm: Option<&Arc<Segment>>) -> (u32, u64) {
        let MrInit { addr, length, .. } = *init;
        // What lies there on demand may be another file the next time: a peer that has mapped this
        // one would not see that.
        if length == 0 || init.access.contains(Access::ON_DEMAND) {
            return (0, 0);
        }
        if let Some(dm) = dm {
            let offset = addr - dm.base_addr();
            return (
                self.quiet.keep_mapping(MapSource::Segment(dm.clone())),
                offset,
            );
        }
        match SharedMapping::detect(addr, length) {
            Some(found) => {
                let offset = found.offset;
                (
                    self.quiet.keep_mapping(MapSource::File(found, length)),
                    offset,
                )
            }
            None => (0, 0),
        }
    }
}
