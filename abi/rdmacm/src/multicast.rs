//! Multicast groups of an identifier.
//!
//! libibverbs' events name a membership by the number that this library gave it.

use crate::address;
use crate::boundary::{Errno, check, status, waiting_status};
use crate::events::{Asked, synchronous};
use crate::id::{Id, get};
use crate::private::call;
use crate::sys::{
    RDMA_CM_JOIN_MC_ATTR_ADDRESS, RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, RDMA_CM_JOIN_MC_ATTR_RESERVED,
    RDMA_MC_JOIN_FLAG_FULLMEMBER, RDMA_MC_JOIN_FLAG_RESERVED,
    RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, rdma_cm_id, rdma_cm_join_mc_attr_ex,
};
use crate::verbs;
use ferriband_fork::PerProcess;
use ferriband_verbs_sys::{ibv_ah_attr, ibv_gid};
use libc::sockaddr;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A membership.
pub struct Group {
    /// Its number, from 1 and never used again.
    pub key: u64,
    /// Events acknowledged.
    pub completed: u32,
    handle: u32,
    context: *mut c_void,
    flags: u32,
    address: Box<[u8]>,
    /// Group and LID, once it is joined.
    joined: Option<(ibv_gid, u16)>,
    /// The program left it: only its events keep it.
    is_left: bool,
}

/// Identifiers by the numbers of their memberships.
static BY_KEY: PerProcess<Mutex<HashMap<u64, usize>>> = PerProcess::new(Mutex::default);

fn by_key() -> MutexGuard<'static, HashMap<u64, usize>> {
    // Each update is one map operation.
    BY_KEY.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// The identifier of a membership.
pub fn find(key: u64) -> Option<*mut rdma_cm_id> {
    by_key()
        .get(&key)
        .map(|address| *address as *mut rdma_cm_id)
}

/// The program's own word of a membership.
pub fn context(id: &Id, key: u64) -> *const c_void {
    let state = id.lock();
    let group = state.groups.iter().find(|group| group.key == key);
    group.map_or(std::ptr::null(), |group| group.context)
}

/// The group was joined: attaches the identifier's queue pair, unless the membership only sends.
pub fn attach(id: &Id, key: u64, path: &ibv_ah_attr) -> Result<(), Errno> {
    let mut state = id.lock();
    let Some(group) = state.groups.iter_mut().find(|group| group.key == key) else {
        return Ok(());
    };
    let gid = path.grh.dgid;
    group.joined = Some((gid, path.dlid));
    let sends_only = group.flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
    drop(state);
    let pair = get!(id.qp);
    if pair.is_null() || sends_only {
        return Ok(());
    }
    // SAFETY: the identifier's queue pair.
    check(unsafe { verbs::ibv_attach_mcast(pair, &raw const gid, path.dlid) })
}

/// The queue pair goes: what [`attach`] did for it is undone, for one that is attached cannot be destroyed. The memberships stay.
pub fn detach_all(id: &Id) {
    let pair = get!(id.qp);
    for group in &id.lock().groups {
        if let Some((gid, lid)) = group.joined
            && group.flags != RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER
        {
            // A queue pair that the program detached itself is not attached.
            // SAFETY: the identifier's queue pair.
            unsafe { verbs::ibv_detach_mcast(pair, &raw const gid, lid) };
        }
    }
}

/// The identifier goes, and leaves its groups before; waits as [`rdma_leave_multicast`] does.
pub fn leave_all(id: &Id) {
    loop {
        let state = id.lock();
        let next = state.groups.iter().find(|group| !group.is_left);
        let Some((key, handle)) = next.map(|group| (group.key, group.handle)) else {
            return;
        };
        drop(state);
        // A membership that libibverbs does not know is gone already.
        let _ = withdraw(id, key, handle);
    }
}

/// Tells libibverbs that a membership ends, and forgets it when its events are acknowledged.
fn withdraw(id: &Id, key: u64, handle: u32) -> Result<(), Errno> {
    let mut reported = 0;
    // SAFETY: the result's place lives during the call.
    let left = call(|f| unsafe { (f.leave)(handle, &raw mut reported) });
    if left.is_ok() {
        // The event of a synchronous join waits in the identifier for the next call.
        // SAFETY: a synchronous identifier's event is the library's, others have none.
        unsafe { crate::events::forget_last(id) };
        id.wait_until(|state| {
            let group = state.groups.iter().find(|group| group.key == key);
            group.is_none_or(|group| group.completed >= reported)
        });
    }
    forget(id, key);
    left
}

fn forget(id: &Id, key: u64) {
    id.lock().groups.retain(|group| group.key != key);
    by_key().remove(&key);
}

/// Asks to be in a group.
///
/// # Safety
/// `to` is NULL or an address of its family.
unsafe fn join(
    id: &Id,
    to: *const sockaddr,
    flags: u32,
    context: *mut c_void,
) -> Result<Asked, Errno> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // SAFETY: the caller's promise.
    let length = unsafe { address::required(to) }?;
    let wire_flags = u16::try_from(flags).map_err(|_| libc::EINVAL)?;
    let key = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    // SAFETY: the address has this length.
    let bytes = unsafe { std::slice::from_raw_parts(to.cast::<u8>(), length as usize) };
    // Before the call: the event may be taken by another thread as soon as there is one.
    id.lock().groups.push(Group {
        key,
        completed: 0,
        handle: 0,
        context,
        flags,
        address: bytes.into(),
        joined: None,
        is_left: false,
    });
    by_key().insert(key, id.c() as usize);
    let mut handle = 0;
    // SAFETY: the address has this length, and the result's place lives during the call.
    let asked =
        call(|f| unsafe { (f.join)(id.handle(), to, length, wire_flags, key, &raw mut handle) });
    if let Err(error) = asked {
        forget(id, key);
        return Err(error);
    }
    if let Some(group) = id.lock().groups.iter_mut().find(|group| group.key == key) {
        group.handle = handle;
    }
    Ok(Asked::Event)
}

/// Leaves a group; waits until its events are acknowledged.
///
/// # Safety
/// `from` is NULL or an address of its family.
unsafe fn leave(id: &Id, from: *const sockaddr) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let length = unsafe { address::required(from) }?;
    // SAFETY: the address has this length.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length as usize) };
    let mut state = id.lock();
    let newest_first = state.groups.iter_mut().rev();
    let group = newest_first
        .filter(|group| !group.is_left)
        .find(|group| group.address[..] == *bytes)
        .ok_or(libc::EADDRNOTAVAIL)?;
    group.is_left = true;
    let (key, handle, flags, joined) = (group.key, group.handle, group.flags, group.joined);
    drop(state);
    let pair = get!(id.qp);
    let was_attached = flags != RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER && !pair.is_null();
    if let (true, Some((gid, lid))) = (was_attached, joined) {
        // A queue pair that the program attached elsewhere, or detached itself, is none of ours.
        // SAFETY: the identifier's queue pair.
        unsafe { verbs::ibv_detach_mcast(pair, &raw const gid, lid) };
    }
    withdraw(id, key, handle)
}

/// `rdma_join_multicast`: as a full member.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_join_multicast(
    id: *mut rdma_cm_id,
    addr: *mut sockaddr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    let ask = |id: &Id| unsafe { join(id, addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context) };
    // SAFETY: the caller's promise.
    waiting_status(|sleep| unsafe { synchronous(sleep, id, ask) })
}

/// `rdma_join_multicast_ex`: EOPNOTSUPP for attributes that are not known, EINVAL for missing ones.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_join_multicast_ex(
    id: *mut rdma_cm_id,
    mc_join_attr: *mut rdma_cm_join_mc_attr_ex,
    context: *mut c_void,
) -> c_int {
    waiting_status(|sleep| {
        // SAFETY: the caller's promise.
        let attr = unsafe { mc_join_attr.as_ref() }.ok_or(libc::EINVAL)?;
        let wanted = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
        if attr.comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED {
            return Err(libc::EOPNOTSUPP);
        }
        if attr.comp_mask != wanted || attr.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise.
        let ask = |id: &Id| unsafe { join(id, attr.addr, attr.join_flags, context) };
        // SAFETY: the caller's promise.
        unsafe { synchronous(sleep, id, ask) }
    })
}

/// `rdma_leave_multicast`: EADDRNOTAVAIL for a group that the identifier is not in.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_leave_multicast(
    id: *mut rdma_cm_id,
    addr: *mut sockaddr,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { leave(Id::of(id)?, addr) })
}
