//! Protection domains, thread domains and parent domains.
//!
//! A parent domain is a second name for a protection domain, with a thread domain and allocators attached. The
//! allocators are for providers that place queues in memory of the program; ours lie in the adapter's own
//! segments, so they are accepted and never called. A thread domain promises that its objects are used by one
//! thread; the adapter's locks are uncontended then and cost what the promise would save.

use crate::boundary::{entry, try_entry};
use crate::context::{Context, Shared};
use crate::object::{Object, input};
use ferriband_hca as hca;
use ferriband_verbs_sys as sys;
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Something that must not go while others use it: each holder of a [`User`] counts.
#[derive(Default)]
pub struct Users(Arc<AtomicUsize>);

impl Users {
    /// One more user, until the returned value is dropped.
    pub fn hold(&self) -> User {
        self.0.fetch_add(1, Ordering::Relaxed);
        User(Arc::clone(&self.0))
    }

    /// EBUSY while there are users.
    pub fn must_be_none(&self) -> Result<(), i32> {
        if self.0.load(Ordering::Acquire) == 0 {
            Ok(())
        } else {
            Err(libc::EBUSY)
        }
    }
}

/// One use of an object.
pub struct User(Arc<AtomicUsize>);

impl Drop for User {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// What only we see of a protection domain.
pub struct PdOwn {
    /// The adapter's domain.
    pub hca: Arc<hca::Pd>,
    kind: Kind,
    /// Objects of this library that use this very domain and that the adapter does not count.
    users: Users,
    /// Where its handle is, unless the device is closed.
    shared: Weak<Shared>,
}

enum Kind {
    /// From `ibv_alloc_pd`.
    Plain,
    /// From `ibv_import_pd`: another name, freed by `ibv_unimport_pd`.
    Imported,
    /// From `ibv_alloc_parent_domain`.
    Parent { _pd: User, _td: Option<User> },
}

/// A protection domain.
pub type Pd = Object<sys::ibv_pd, PdOwn>;

impl PdOwn {
    /// A use of this domain, if it is a parent domain.
    pub fn as_parent(&self) -> Option<User> {
        matches!(self.kind, Kind::Parent { .. }).then(|| self.users.hold())
    }

    /// A use of this domain that keeps it from being deallocated.
    pub fn hold(&self) -> User {
        self.users.hold()
    }
}

/// What only we see of a thread domain.
#[derive(Default)]
pub struct TdOwn {
    users: Users,
}

/// A thread domain.
pub type Td = Object<sys::ibv_td, TdOwn>;

/// `ibv_alloc_pd`.
///
/// # Safety
/// `context` is a live context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut sys::ibv_context) -> *mut sys::ibv_pd {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        let pd = context.hca().alloc_pd().map_err(|error| error.errno())?;
        let handle = context.shared().pds.add(Arc::clone(&pd));
        let c = sys::ibv_pd {
            context: context.as_c(),
            handle,
        };
        Ok(Pd::leak(
            c,
            PdOwn {
                hca: pd,
                kind: Kind::Plain,
                users: Users::default(),
                shared: context.shared_weakly(),
            },
        ))
    })
}

/// `ibv_dealloc_pd`, for parent domains too: EBUSY while anything uses it.
///
/// # Safety
/// `pd` is a live domain that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut sys::ibv_pd) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let domain = unsafe { Pd::of(pd) }?;
        domain.users.must_be_none()?;
        // SAFETY: the C part of a live domain.
        let c = unsafe { domain.c().read() };
        if !matches!(domain.kind, Kind::Parent { .. }) {
            domain.hca.dealloc().map_err(|error| error.errno())?;
            if let Some(shared) = domain.shared.upgrade() {
                shared.pds.remove(c.handle);
            }
        }
        // SAFETY: the program gives the domain up and nothing uses it.
        unsafe { Pd::free(pd) };
        Ok(0)
    })
}

/// `ibv_import_pd`: another name for a domain of the same process.
///
/// # Safety
/// `context` is a live context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_pd(
    context: *mut sys::ibv_context,
    pd_handle: u32,
) -> *mut sys::ibv_pd {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        let pd = context.shared().pds.get(pd_handle).ok_or(libc::ENOENT)?;
        let c = sys::ibv_pd {
            context: context.as_c(),
            handle: pd_handle,
        };
        Ok(Pd::leak(
            c,
            PdOwn {
                hca: pd,
                kind: Kind::Imported,
                users: Users::default(),
                shared: context.shared_weakly(),
            },
        ))
    })
}

/// `ibv_unimport_pd`: gives a name up; the domain itself stays.
///
/// # Safety
/// `pd` came from `ibv_import_pd` and is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_pd(pd: *mut sys::ibv_pd) {
    entry(|| {
        // SAFETY: the caller's promise.
        let is_import =
            unsafe { Pd::of(pd) }.is_ok_and(|domain| matches!(domain.kind, Kind::Imported));
        if is_import {
            // SAFETY: the program gives the name up.
            unsafe { Pd::free(pd) };
        }
    });
}

/// `alloc_td` of the context.
///
/// # Safety
/// `context` is a live context and `attr` readable.
pub unsafe extern "C" fn alloc_td(
    context: *mut sys::ibv_context,
    attr: *mut sys::ibv_td_init_attr,
) -> *mut sys::ibv_td {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        // SAFETY: the caller's promise.
        let attr = unsafe { input(attr) }?;
        if attr.comp_mask != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        Ok(Td::leak(
            sys::ibv_td {
                context: context.as_c(),
            },
            TdOwn::default(),
        ))
    })
}

/// `dealloc_td` of the context: EBUSY while a parent domain uses it.
///
/// # Safety
/// `td` is a live thread domain that no other thread uses.
pub unsafe extern "C" fn dealloc_td(td: *mut sys::ibv_td) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        unsafe { Td::of(td) }?.users.must_be_none()?;
        // SAFETY: the program gives the thread domain up and nothing uses it.
        unsafe { Td::free(td) };
        Ok(0)
    })
}

/// `alloc_parent_domain` of the context.
///
/// # Safety
/// `context` is a live context, `attr` readable, and the domains that it names are live.
pub unsafe extern "C" fn alloc_parent_domain(
    context: *mut sys::ibv_context,
    attr: *mut sys::ibv_parent_domain_init_attr,
) -> *mut sys::ibv_pd {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        // SAFETY: the caller's promise.
        let attr = unsafe { input(attr) }?;
        let known = sys::IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS
            | sys::IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT
            | sys::IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC;
        if attr.comp_mask & !known != 0 {
            return Err(libc::EINVAL);
        }
        // SAFETY: the caller's promise; NULL is refused.
        let pd = unsafe { Pd::of(attr.pd) }?;
        // SAFETY: the C part of a live domain.
        let c = unsafe { pd.c().read() };
        if matches!(pd.kind, Kind::Parent { .. }) || c.context != context.as_c() {
            return Err(libc::EINVAL);
        }
        let td = match attr.td.is_null() {
            true => None,
            // SAFETY: the caller's promise.
            false => Some(unsafe { Td::of(attr.td) }?.users.hold()),
        };
        let kind = Kind::Parent {
            _pd: pd.users.hold(),
            _td: td,
        };
        let own = PdOwn {
            hca: Arc::clone(&pd.hca),
            kind,
            users: Users::default(),
            shared: context.shared_weakly(),
        };
        Ok(Pd::leak(c, own))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_busy_until_its_last_user_goes() {
        let users = Users::default();
        let (first, second) = (users.hold(), users.hold());
        drop(first);
        assert_eq!(users.must_be_none(), Err(libc::EBUSY));
        drop(second);
        assert_eq!(users.must_be_none(), Ok(()));
    }
}
