//! Contexts: opened devices, their life, and what contexts of one device share.
//!
//! A program holds the address of the `ibv_context` at the end of a `verbs_context`; inlined callers step back
//! to the latter. Both are filled once, before the program sees them.

use crate::boundary::{errno, try_entry};
use crate::device::{self, Device};
use crate::handles::Handles;
use crate::ops;
use crate::xrcd::identity;
use ferriband_fork::{PerProcess, generation};
use ferriband_hca as hca;
use ferriband_verbs_sys as sys;
use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What an opened device and the contexts imported from it have in common.
pub struct Shared {
    hca: Arc<hca::Context>,
    device: &'static Device,
    /// Which file stands behind `cmd_fd`: how an import finds what it imports.
    identity: (u64, u64),
    /// Protection domains by handle.
    pub pds: Handles<hca::Pd>,
    /// Memory regions by handle.
    pub mrs: Handles<hca::Mr>,
    /// Device memory by handle.
    pub dms: Handles<hca::DeviceMemory>,
    /// Handles of objects that cannot be imported.
    last_handle: AtomicU32,
}

/// An opened device.
#[repr(C)]
pub struct Context {
    c: UnsafeCell<sys::verbs_context>,
    /// Of the process that opened it, as forks count.
    generation: u32,
    shared: Arc<Shared>,
    /// Behind `cmd_fd`.
    command_fd: OwnedFd,
    /// Behind `async_fd` of an imported context; an opened one has the adapter's own.
    async_fd: Option<OwnedFd>,
}

impl Context {
    /// The context behind a program's pointer; NULL is EINVAL, one of the parent's in a forked child EIO.
    ///
    /// # Safety
    /// `pointer` is NULL or a context that this library gave out and that is not closed.
    #[inline]
    pub unsafe fn of<'a>(pointer: *const sys::ibv_context) -> Result<&'a Context, i32> {
        if pointer.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: contexts of this library are embedded in a `Context` at this distance.
        let start = unsafe { pointer.byte_sub(offset_of!(sys::verbs_context, context)) };
        // SAFETY: the caller's promise.
        let context = unsafe { &*start.cast::<Context>() };
        if context.generation != generation() {
            return Err(libc::EIO);
        }
        Ok(context)
    }

    /// The context behind a program's pointer; in a forked child, in place of one of the parent's, a context of this process on the same
    /// device, which the first such call opens. For what a child may do by an inherited context: ask about the device and allocate
    /// device memory.
    ///
    /// # Safety
    /// As for [`Context::of`].
    pub unsafe fn of_this_process<'a>(
        pointer: *const sys::ibv_context,
    ) -> Result<&'a Context, i32> {
        /// Devices, and the addresses of the contexts that stand for inherited ones.
        static OWN: PerProcess<Mutex<Vec<(usize, usize)>>> = PerProcess::new(Mutex::default);
        // SAFETY: the caller's promise.
        match unsafe { Context::of(pointer) } {
            Err(libc::EIO) => {}
            found => return found,
        }
        // SAFETY: the C part of a context of the parent's, which nobody changes.
        let device = unsafe { (*pointer).device };
        let mut own = OWN.get().lock().unwrap_or_else(PoisonError::into_inner);
        let known = own.iter().find(|(of, _)| *of == device as usize);
        let context = match known {
            Some((_, context)) => *context as *mut sys::ibv_context,
            None => {
                // SAFETY: a device of this library's, which are never freed.
                let context = unsafe { ibv_open_device(device) };
                if context.is_null() {
                    return Err(errno());
                }
                own.push((device as usize, context as usize));
                context
            }
        };
        // SAFETY: a context that was opened here and is closed with the process.
        unsafe { Context::of(context) }
    }

    /// The address that programs hold.
    pub fn as_c(&self) -> *mut sys::ibv_context {
        // SAFETY: the pointer is to this very structure; no reference is formed.
        unsafe { &raw mut (*self.c.get()).context }
    }

    /// The adapter's context.
    pub fn hca(&self) -> &Arc<hca::Context> {
        &self.shared.hca
    }

    /// The device.
    pub fn device(&self) -> &'static Device {
        self.shared.device
    }

    /// What is shared with imports.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// For objects that have something to take out of it when they go: some programs close the device before (pyverbs, when the interpreter ends).
    pub fn shared_weakly(&self) -> Weak<Shared> {
        Arc::downgrade(&self.shared)
    }

    /// A handle for an object that cannot be imported.
    pub fn next_handle(&self) -> u32 {
        self.shared
            .last_handle
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_add(1)
    }
}

/// Open contexts of the process, for imports and for the announcement of a failure.
static OPEN: PerProcess<Mutex<Vec<Weak<Shared>>>> = PerProcess::new(Mutex::default);

fn open_contexts() -> MutexGuard<'static, Vec<Weak<Shared>>> {
    // Each update leaves the list whole.
    OPEN.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the device fatal after an internal error: every open context gets the event, and later verbs fail.
pub fn declare_fatal() {
    let contexts: Vec<_> = open_contexts().iter().filter_map(Weak::upgrade).collect();
    for context in contexts {
        context.hca.declare_fatal();
    }
}

/// Makes the structure that the program holds.
fn publish(
    shared: Arc<Shared>,
    command_fd: OwnedFd,
    async_fd: Option<OwnedFd>,
) -> *mut sys::ibv_context {
    let own_async_fd = async_fd
        .as_ref()
        .map_or_else(|| shared.hca.async_fd(), AsRawFd::as_raw_fd);
    let mut c = ops::verbs_context();
    c.context.device = shared.device.as_c();
    c.context.cmd_fd = command_fd.as_raw_fd();
    c.context.async_fd = own_async_fd;
    c.context.num_comp_vectors = hca::limits::COMP_VECTORS as c_int;
    let context = Box::leak(Box::new(Context {
        c: UnsafeCell::new(c),
        generation: generation(),
        shared,
        command_fd,
        async_fd,
    }));
    context.as_c()
}

/// A descriptor whose file is nobody else's: what programs see as the device's command descriptor.
fn command_fd(name: &str) -> Result<OwnedFd, i32> {
    let name = std::ffi::CString::new(name).map_err(|_| libc::EINVAL)?;
    // SAFETY: the name is a live string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(errno());
    }
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens a device's adapter, without making a context for a program.
pub fn open_adapter(device: &Device) -> Result<Arc<hca::Context>, i32> {
    hca::Context::open(device.info().index).map_err(|error| error.errno())
}

/// `ibv_open_device`.
///
/// # Safety
/// `device` is compared, never followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut sys::ibv_device) -> *mut sys::ibv_context {
    try_entry(|| {
        let device = Device::of(device)?;
        let hca = open_adapter(device)?;
        let command_fd = command_fd(&device.info().name)?;
        let shared = Arc::new(Shared {
            hca,
            device,
            identity: identity(command_fd.as_raw_fd())?,
            pds: Handles::default(),
            mrs: Handles::default(),
            dms: Handles::default(),
            last_handle: AtomicU32::new(0),
        });
        let mut open = open_contexts();
        open.retain(|context| context.strong_count() > 0);
        open.push(Arc::downgrade(&shared));
        drop(open);
        Ok(publish(shared, command_fd, None))
    })
}

/// `ibv_import_device`: another context on a device that this process has open, by a duplicate of its `cmd_fd`, whose
/// ownership passes to the context. A descriptor of anything else is EINVAL; one of a device of another process is
/// not known here, so it is that, too.
///
/// # Safety
/// The descriptor is the caller's to give away.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_device(cmd_fd: c_int) -> *mut sys::ibv_context {
    try_entry(|| {
        let wanted = identity(cmd_fd)?;
        let found = open_contexts()
            .iter()
            .filter_map(Weak::upgrade)
            .find(|context| context.identity == wanted);
        let shared = found.ok_or(libc::EINVAL)?;
        // SAFETY: duplicating a descriptor; the result is checked.
        let async_fd = unsafe { libc::fcntl(shared.hca.async_fd(), libc::F_DUPFD_CLOEXEC, 3) };
        if async_fd < 0 {
            return Err(errno());
        }
        // SAFETY: the descriptor is new and ours.
        let async_fd = unsafe { OwnedFd::from_raw_fd(async_fd) };
        // SAFETY: the API passes its ownership with this call.
        let command_fd = unsafe { OwnedFd::from_raw_fd(cmd_fd) };
        Ok(publish(shared, command_fd, Some(async_fd)))
    })
}

/// `ibv_close_device`.
///
/// # Safety
/// `context` is a live context that no thread uses any more, nor any object of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut sys::ibv_context) -> c_int {
    try_entry(|| {
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of(context) }?;
        let start = std::ptr::from_ref(context).cast_mut();
        // SAFETY: it was leaked by `publish`, and the program gives it up.
        drop(unsafe { Box::from_raw(start) });
        Ok(0)
    })
}

/// The adapter of a device, for questions that need no context: an open one if there is one.
pub fn any_adapter(device: &'static Device) -> Result<Arc<hca::Context>, i32> {
    let open = open_contexts()
        .iter()
        .filter_map(Weak::upgrade)
        .find(|context| std::ptr::eq(context.device, device));
    match open {
        Some(context) => Ok(Arc::clone(&context.hca)),
        None => open_adapter(
            device::all()
                .iter()
                .find(|one| std::ptr::eq(*one, device))
                .ok_or(libc::ENODEV)?,
        ),
    }
}
