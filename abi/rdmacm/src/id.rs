//! Identifiers: what programs hold, what only we see, and when it goes.
//!
//! The program reads, and in part writes, the C structure. An identifier goes when each of its events that the program was
//! given has been acknowledged: events point to it. The same count makes `rdma_migrate_id` and `rdma_leave_multicast` wait.
//! CONNECT_REQUEST counts for the identifier that listens, a multicast event for its membership.

use crate::boundary::{Errno, status};
use crate::channel;
use crate::device::DeviceUse;
use crate::lookup::Lookup;
use crate::multicast::{self, Group};
use crate::object::Object;
use crate::private::call;
use crate::sys::{
    RDMA_PS_IPOIB, RDMA_PS_UDP, rdma_cm_id, rdma_event_channel, rdma_ib_addr, rdma_port_space,
};
use ferriband_cm_abi::fb_ece;
use ferriband_fork::PerProcess;
use ferriband_sanitizer::{self as sanitizer, Side};
use ferriband_verbs_sys::{IBV_QPT_RC, IBV_QPT_UD, ibv_qp_init_attr, ibv_qp_type, ibv_sa_path_rec};
use libc::sockaddr_storage;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// An identifier.
pub type Id = Object<rdma_cm_id, Own>;

/// Reads a field of the C structure.
macro_rules! get {
    ($id:ident.$($field:ident).+) => {{
        #[allow(unused_unsafe)] // it may stand in an unsafe expression
        // SAFETY: the structure lives as long as the object; the C interface gives each field one writer at a time.
        let value = unsafe { (*$id.c()).$($field).+ };
        value
    }};
}
/// Writes a field of the C structure.
macro_rules! set {
    ($id:ident.$($field:ident).+ = $value:expr) => {{
        let value = $value;
        // SAFETY: as for `get!`.
        unsafe { (*$id.c()).$($field).+ = value }
    }};
}
pub(crate) use {get, set};

/// What only we see of an identifier.
pub struct Own {
    handle: AtomicU32,
    // Whoever acknowledges the last event holds it until it has let go of the lock: the identifier may go at once.
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    acknowledged: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics between two changes that belong together.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part under its lock.
#[derive(Default)]
pub struct State {
    /// Events acknowledged.
    completed: u32,
    /// The queue pair could not follow a CONNECT_RESPONSE: what the CM says after that is not told.
    pub connect_error: bool,
    /// Each call waits for its event.
    pub is_synchronous: bool,
    /// The device that it is bound to.
    pub device: Option<DeviceUse>,
    /// What `route.path_rec` points to.
    pub paths: Box<[ibv_sa_path_rec]>,
    /// Multicast groups.
    pub groups: Vec<Group>,
    /// The queue pair that each request of a listening endpoint gets.
    pub template: Option<ibv_qp_init_attr>,
    /// Private data that the address look-up gave, before the program's own.
    pub connect_data: Vec<u8>,
    /// READs and atomics outstanding.
    pub initiator_depth: u8,
    /// READs and atomics taken.
    pub responder_resources: u8,
    /// Vendor's options here.
    pub local_ece: fb_ece,
    /// Vendor's options there.
    pub remote_ece: fb_ece,
    /// The name that is looked up, or was.
    pub lookup: Arc<Mutex<Lookup>>,
}

// SAFETY: its pointers are libibverbs' objects, which any thread may use, and words of the program's that nobody looks at.
unsafe impl Send for State {}

/// Identifiers by their number, for events that come before the program's identifier is named in them.
static BY_HANDLE: PerProcess<Mutex<HashMap<u32, usize>>> = PerProcess::new(Mutex::default);

fn by_handle() -> MutexGuard<'static, HashMap<u32, usize>> {
    // Each update is one map operation.
    BY_HANDLE
        .get()
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// The identifier of this number.
pub fn find(handle: u32) -> Option<*mut rdma_cm_id> {
    by_handle()
        .get(&handle)
        .map(|address| *address as *mut rdma_cm_id)
}

impl Own {
    /// The number that libibverbs knows it by; 0 before there is one.
    pub fn handle(&self) -> u32 {
        let handle = self.handle.load(Ordering::Acquire);
        // every call of a program's on it asks for this before it does anything
        sanitizer::release(Side::Object, handle);
        handle
    }

    /// An event of it comes to a thread: what was done before the calls on it is done.
    pub fn hand_over(&self) {
        sanitizer::acquire(Side::Object, self.handle.load(Ordering::Acquire));
    }

    /// Its state.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// Counts one event as acknowledged: the identifier's, or that of its membership of this number.
    pub fn complete_event(&self, group: Option<u64>) {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        match group {
            None => state.completed += 1,
            Some(key) => {
                if let Some(group) = state.groups.iter_mut().find(|group| group.key == key) {
                    group.completed += 1;
                }
            }
        }
        shared.acknowledged.notify_all();
        drop(state);
    }

    /// Waits until `done`, looking after each acknowledgement.
    pub fn wait_until(&self, mut done: impl FnMut(&mut State) -> bool) {
        let state = self.lock();
        // Poisoning is met as in `lock`.
        let wait = self
            .shared
            .acknowledged
            .wait_while(state, |state| !done(state));
        drop(wait.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until as many events are acknowledged as were given out.
    pub fn wait_for_acknowledgements(&self, reported: u32) {
        self.wait_until(|state| state.completed >= reported);
    }
}

impl Id {
    /// Its service is datagrams.
    pub fn is_datagram(&self) -> bool {
        get!(self.qp_type) == IBV_QPT_UD
    }

    /// The value that comes back in its events.
    pub fn user(&self) -> u64 {
        self.c() as u64
    }

    /// Where the address here lies, in the C structure.
    pub fn source(&self) -> *mut sockaddr_storage {
        // SAFETY: the structure lives as long as the object; only an address is taken.
        unsafe { (&raw mut (*self.c()).route.addr.__bindgen_anon_1).cast() }
    }

    /// Where the address there lies.
    pub fn destination(&self) -> *mut sockaddr_storage {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.c()).route.addr.__bindgen_anon_2).cast() }
    }

    /// Where GIDs and P_Key lie.
    pub fn gids(&self) -> *mut rdma_ib_addr {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.c()).route.addr.addr).cast() }
    }

    /// Names the number that libibverbs knows it by.
    pub fn enter(&self, handle: u32) {
        sanitizer::release(Side::Object, handle);
        self.handle.store(handle, Ordering::Release);
        by_handle().insert(handle, self.c() as usize);
    }
}

/// An identifier that libibverbs does not know yet; without a channel it is synchronous and gets its own.
///
/// # Safety
/// `channel` is NULL or a channel.
pub unsafe fn allocate(
    channel: *mut rdma_event_channel,
    context: *mut c_void,
    space: rdma_port_space,
    qp_type: ibv_qp_type,
) -> Result<*mut rdma_cm_id, Errno> {
    let is_synchronous = channel.is_null();
    let channel = if is_synchronous {
        channel::open()?
    } else {
        channel
    };
    // SAFETY: zeros are NULL, 0 and addresses of no family.
    let mut c: rdma_cm_id = unsafe { std::mem::zeroed() };
    c.channel = channel;
    c.context = context;
    c.ps = space;
    c.qp_type = qp_type;
    let state = State {
        is_synchronous,
        ..State::default()
    };
    Ok(Id::leak(
        c,
        Own {
            handle: AtomicU32::new(0),
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                acknowledged: Condvar::new(),
            }),
        },
    ))
}

/// Frees an identifier that libibverbs does not know (any more), with its own channel.
///
/// # Safety
/// Nobody uses it any more.
pub unsafe fn free(id: *mut rdma_cm_id) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let own = unsafe { Id::of(id) }?;
    by_handle().remove(&own.handle());
    let is_synchronous = own.lock().is_synchronous;
    if is_synchronous {
        // SAFETY: a synchronous identifier's channel is its own.
        unsafe { channel::close(get!(own.channel)) }?;
    }
    // SAFETY: the caller's promise.
    unsafe { Id::free(id) };
    Ok(())
}

/// Makes an identifier.
///
/// # Safety
/// `channel` is NULL or a channel.
pub unsafe fn create(
    channel: *mut rdma_event_channel,
    context: *mut c_void,
    space: rdma_port_space,
    qp_type: ibv_qp_type,
) -> Result<*mut rdma_cm_id, Errno> {
    let wire_space = u16::try_from(space).map_err(|_| libc::EINVAL)?;
    let wire_type = u8::try_from(qp_type).map_err(|_| libc::EINVAL)?;
    // SAFETY: the caller's promise.
    let pointer = unsafe { allocate(channel, context, space, qp_type) }?;
    // SAFETY: it was just made.
    let id = unsafe { Id::of(pointer) }?;
    let mut handle = 0;
    // SAFETY: the channel is open, and the result's place lives during the call.
    let made = call(|f| unsafe {
        let raw = match channel::raw(get!(id.channel)) {
            Ok(raw) => raw,
            Err(error) => return error,
        };
        (f.create_id)(raw, id.user(), wire_space, wire_type, &raw mut handle)
    });
    match made {
        Ok(()) => {
            id.enter(handle);
            Ok(pointer)
        }
        Err(error) => {
            // SAFETY: nobody else knows it.
            unsafe { free(pointer) }?;
            Err(error)
        }
    }
}

/// Destroys an identifier; waits until its events are acknowledged.
///
/// # Safety
/// `pointer` is NULL or an identifier whose queue pair is destroyed, and no other call uses it.
pub unsafe fn destroy(pointer: *mut rdma_cm_id) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let id = unsafe { Id::of(pointer) }?;
    multicast::leave_all(id);
    let mut reported = 0;
    // SAFETY: the result's place lives during the call.
    call(|f| unsafe { (f.destroy_id)(id.handle(), &raw mut reported) })?;
    // SAFETY: the event that a synchronous call left is acknowledged once.
    unsafe { crate::events::forget_last(id) };
    id.wait_for_acknowledgements(reported);
    // SAFETY: no event names it any more, and the caller's promise.
    unsafe { free(pointer) }
}

/// `rdma_create_id`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    ps: rdma_port_space,
) -> c_int {
    status(|| {
        if id.is_null() {
            return Err(libc::EINVAL);
        }
        let qp_type = match ps {
            RDMA_PS_IPOIB | RDMA_PS_UDP => IBV_QPT_UD,
            _ => IBV_QPT_RC,
        };
        // SAFETY: the caller's promise.
        let made = unsafe { create(channel, context, ps, qp_type) }?;
        // SAFETY: the caller's promise, and it is not NULL.
        unsafe { id.write(made) };
        Ok(())
    })
}

/// `rdma_destroy_id`: waits until all events of the identifier are acknowledged.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { destroy(id) })
}

/// `rdma_migrate_id`: waits until all events of the old channel are acknowledged. Without a channel the identifier becomes
/// synchronous; EINVAL if it is.
///
/// # Safety
/// As the C interface demands.
pub unsafe fn migrate(id: &Id, to: *mut rdma_event_channel) -> Result<(), Errno> {
    let was_synchronous = id.lock().is_synchronous;
    let becomes_synchronous = to.is_null();
    if was_synchronous && becomes_synchronous {
        return Err(libc::EINVAL);
    }
    let target = if becomes_synchronous {
        channel::open()?
    } else {
        to
    };
    // SAFETY: the caller's promise, or just opened.
    let raw = unsafe { channel::raw(target) }?;
    let mut reported = 0;
    // SAFETY: the channel is open, and the result's place lives during the call.
    let moved = call(|f| unsafe { (f.migrate)(id.handle(), raw, &raw mut reported) });
    if let Err(error) = moved {
        if becomes_synchronous {
            // SAFETY: nobody else knows it.
            unsafe { channel::close(target) }?;
        }
        return Err(error);
    }
    let old = get!(id.channel);
    if was_synchronous {
        // SAFETY: the event that a synchronous call left is acknowledged once.
        unsafe { crate::events::forget_last(id) };
    }
    id.lock().is_synchronous = becomes_synchronous;
    set!(id.channel = target);
    id.wait_for_acknowledgements(reported);
    if was_synchronous {
        // SAFETY: a synchronous identifier's channel was its own.
        unsafe { channel::close(old) }?;
    }
    Ok(())
}

/// `rdma_migrate_id`.
///
/// # Safety
/// As the C interface demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_migrate_id(
    id: *mut rdma_cm_id,
    channel: *mut rdma_event_channel,
) -> c_int {
    // SAFETY: the caller's promise.
    status(|| unsafe { migrate(Id::of(id)?, channel) })
}
